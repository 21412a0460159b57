/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small counts of some messages of a queue, by their numbers: how often each came back. A number without a count
 * takes no room. A table with open addressing, 8 octets a slot, at most three quarters full. Any thread.
 */
#pragma once

#include "util/base.h"

#define QSEQ_COUNT_MAX UINT16_MAX

struct qseq_counts {
	uint64_t *slots; // owns; qseq << 16 | count; 0: empty
	uint32_t used;
	uint32_t room; // slots, a power of two; 0: none yet
};

static inline uint64_t
qseq_count_qseq(uint64_t slot)
{
	return slot >> 16;
}

static inline uint32_t
qseq_count_count(uint64_t slot)
{
	return slot & UINT16_MAX;
}

/* One that was set to zeros is empty. */
void qseq_counts_fini(struct qseq_counts *counts);
/* 0: it has none. */
uint32_t qseq_counts_get(const struct qseq_counts *counts, uint64_t qseq);
/* qseq is 1 ... QSEQ_MAX, count 1 ... QSEQ_COUNT_MAX. */
void qseq_counts_set(struct qseq_counts *counts, uint64_t qseq, uint32_t count);
/* Takes the counts of n numbers from first on off, as far as there are any. */
void qseq_counts_remove(struct qseq_counts *counts, uint64_t first, uint64_t n);
/* All that there are, by number: `used' slots. The caller frees them with xfree(); NULL when there are none. */
uint64_t *qseq_counts_list(const struct qseq_counts *counts) MUST_CHECK;
/* Asserts that all are found where they are looked for. */
void qseq_counts_check(const struct qseq_counts *counts);
