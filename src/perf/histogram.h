/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log-linear histogram of integers: every power of two is cut into 128 equal buckets, so that a value
 * is known to 0.8 % at any size and adding one takes a few instructions. Values below 256 are exact.
 * Belongs to one thread.
 */
#pragma once

#include "util/base.h"

#define HISTOGRAM_BITS 7
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

struct histogram {
	uint64_t count;			     // values in all
	uint64_t max;			     // the largest, exact
	uint64_t buckets[HISTOGRAM_BUCKETS]; // values in each
};

/* The bucket of a value: its leading bits, and how far they were shifted. */
static inline size_t
histogram_bucket(uint64_t value)
{
	unsigned highest = highest_bit_u64(value | 1);
	unsigned shift = highest > HISTOGRAM_BITS ? highest - HISTOGRAM_BITS : 0;

	return ((size_t)shift << HISTOGRAM_BITS) + (size_t)(value >> shift);
}

static inline void
histogram_add(struct histogram *histogram, uint64_t value)
{
	histogram->buckets[histogram_bucket(value)]++;
	histogram->count++;
	if (value > histogram->max)
		histogram->max = value;
}

/* Empty again. */
void histogram_clear(struct histogram *histogram);
/* Adds all values of other. */
void histogram_merge(struct histogram *histogram, const struct histogram *other);
/* The largest value that stands in the bucket. */
uint64_t histogram_bucket_end(size_t bucket);
/* The value that this part of all values (0.0 to 1.0) does not pass, as the end of its bucket but never
 * above the largest value; 0 when there are none. */
uint64_t histogram_quantile(const struct histogram *histogram, double part);
