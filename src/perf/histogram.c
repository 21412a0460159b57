/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a histogram is asked at the end; adding is inline in the header. Belongs to one thread.
 */
#include "histogram.h"

void
histogram_clear(struct histogram *histogram)
{
	memset(histogram, 0, sizeof(*histogram));
}

void
histogram_merge(struct histogram *histogram, const struct histogram *other)
{
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram->buckets[i] += other->buckets[i];
	histogram->count += other->count;
	histogram->max = max_u64(histogram->max, other->max);
}

uint64_t
histogram_bucket_end(size_t bucket)
{
	size_t shift = bucket >> HISTOGRAM_BITS;

	assert(bucket < HISTOGRAM_BUCKETS);
	shift = shift > 1 ? shift - 1 : 0;
	/* The end of the last bucket, and only that, wraps round to what it should be. */
	return (((uint64_t)bucket - (shift << HISTOGRAM_BITS) + 1) << shift) - 1;
}

uint64_t
histogram_quantile(const struct histogram *histogram, double part)
{
	double wanted = part * (double)histogram->count;
	uint64_t seen = 0;

	assert(part >= 0.0 && part <= 1.0);
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->buckets[i];
		if (seen != 0 && (double)seen >= wanted)
			return min_u64(histogram_bucket_end(i), histogram->max);
	}
	return 0;
}
