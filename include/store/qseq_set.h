/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a queue that are settled, by their number in the queue (qseq): everything below a
 * floor, and a set above it. Consumers mostly settle in order, so the floor follows and the set is
 * nearly empty; a queue of which every second message is settled costs one bit a message.
 *
 * The set is a sorted array of containers, one for each 65,536 numbers that are neither all settled nor
 * all not: a run while the numbers follow each other, an array of 16-bit numbers while that is small, else
 * a bitmap of the span it needs. Whole containers that lie one behind the other are one item. What one
 * consumer settles behind a message that another holds is one run, and a few gaps near the floor take no
 * memory but the array's. Adding is idempotent: recovery adds again what a checkpoint has already. One
 * thread.
 */
#pragma once

#include "util/base.h"
#include "util/buf.h"
#include "util/bytes.h"

#define QSEQ_MAX ((1ULL << 48) - 1)

struct qseq_container; // settled numbers of one or more spans of 65,536

struct qseq_set {
	uint64_t floor;			   // all below are settled
	uint64_t settled;		   // numbers in the set, at or above the floor
	struct qseq_container *containers; // owns; ascending, none below the floor
	uint32_t count;			   // of containers
	uint32_t room;			   // containers that there is memory for
};

/* Nothing is settled; the first number is 1, so the floor is 1. */
void qseq_set_init(struct qseq_set *set);
void qseq_set_fini(struct qseq_set *set);

/* The rest of qseq_set_add(). */
uint64_t qseq_set_add_anywhere(struct qseq_set *set, uint64_t first, uint64_t count);

/* Adds count (at least 1) numbers from first (at least 1) on, all at most QSEQ_MAX; raises the floor as
 * far as that makes it whole. Returns how many of them were not settled before. */
static inline uint64_t
qseq_set_add(struct qseq_set *set, uint64_t first, uint64_t count)
{
	if (likely(first == set->floor && set->settled == 0 && count <= QSEQ_MAX + 1 - first)) {
		set->floor = first + count;
		return count;
	}
	return qseq_set_add_anywhere(set, first, count);
}

/* Everything below floor (at most QSEQ_MAX + 1) is settled; a floor below the present one does nothing. */
void qseq_set_raise(struct qseq_set *set, uint64_t floor);
bool qseq_set_has(const struct qseq_set *set, uint64_t qseq);
/* How many of count numbers from first on are settled. */
uint64_t qseq_set_count(const struct qseq_set *set, uint64_t first, uint64_t count);
/* The lowest number >= from that is not settled (it may be one that was never given out). */
uint64_t qseq_set_next_open(const struct qseq_set *set, uint64_t from);
/* A copy, for another thread, of what lies in [first, last]; the rest is left out, the floor is kept.
 * The caller frees it with qseq_set_fini(). */
void qseq_set_copy_range(struct qseq_set *copy, const struct qseq_set *set, uint64_t first,
			 uint64_t last);
/* Octets of memory that the containers take, what they have to spare included. */
size_t qseq_set_memory(const struct qseq_set *set);

/*
 * The set as octets, little-endian, for checkpoints:
 *	floor u64 | items u32 | 0 u32, then for each item
 *	first u64 | kind u32 (1 run, 2 numbers, 3 bitmap) | n u32, and
 *		run:     count u64; n is 0
 *		numbers: n times u16, offsets to first, ascending, the first of them 0; filled with zeros to 8
 *		bitmap:  n times u64, the lowest bit is first, a multiple of 64; the outer words are not zero
 * Items ascend and lie above the floor, which is not settled itself. Those of kind 2 and 3 lie within one
 * span of 65,536 numbers, and no two items touch the same span. The writer ends a run where a span of
 * which not all is settled ends, and takes the smallest kind (numbers up to 2,048), so that equal sets are
 * equal octets; a reader takes any choice of kinds, but a span that is settled as a whole is a run.
 */
void qseq_set_encode(const struct qseq_set *set, struct buf *out);
/* Makes a set (not initialised before) of what encode wrote at the front of *in and cuts that off. 0, or
 * -EBADMSG when it is not such a set; then there is nothing to free and *in is as it was. */
int qseq_set_decode(struct qseq_set *set, struct bytes *in) MUST_CHECK;

/* Asserts order, kinds and counts. */
void qseq_set_check(const struct qseq_set *set);
