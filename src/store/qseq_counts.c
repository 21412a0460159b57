/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts by number, in a table with open addressing: a number is looked for from its home on to the first empty slot,
 * so none between may be empty, and whoever is taken off has those behind move up. Any thread.
 */
#include "store/qseq_counts.h"

#include "store/qseq_set.h"
#include "util/bytes.h"
#include "util/mem.h"

#include <stdlib.h>

#define ROOM_MIN 8

/* Where the number is looked for first: the bits of a product that all of it had a part in. */
static uint32_t
home_of(const struct qseq_counts *counts, uint64_t qseq)
{
	return (uint32_t)(qseq * 0x9e3779b97f4a7c15 >> 32) & (counts->room - 1);
}

static uint32_t
next_of(const struct qseq_counts *counts, uint32_t at)
{
	return (at + 1) & (counts->room - 1);
}

/* Its slot, or the empty one where it would be; there must be room. */
static uint32_t
find(const struct qseq_counts *counts, uint64_t qseq)
{
	uint32_t at = home_of(counts, qseq);

	while (counts->slots[at] != 0 && qseq_count_qseq(counts->slots[at]) != qseq)
		at = next_of(counts, at);
	return at;
}

static void
resize(struct qseq_counts *counts, uint32_t room)
{
	struct qseq_counts old = *counts;

	counts->room = room;
	counts->slots = xcalloc(room, sizeof(uint64_t));
	for (uint32_t i = 0; i < old.room; i++)
		if (old.slots[i] != 0)
			counts->slots[find(counts, qseq_count_qseq(old.slots[i]))] = old.slots[i];
	xfree(old.slots);
}

void
qseq_counts_fini(struct qseq_counts *counts)
{
	xfree(counts->slots);
	*counts = (struct qseq_counts){0};
}

uint32_t
qseq_counts_get(const struct qseq_counts *counts, uint64_t qseq)
{
	return counts->used == 0 ? 0 : qseq_count_count(counts->slots[find(counts, qseq)]);
}

void
qseq_counts_set(struct qseq_counts *counts, uint64_t qseq, uint32_t count)
{
	uint32_t at;

	assert(qseq != 0 && qseq <= QSEQ_MAX);
	assert(count != 0 && count <= QSEQ_COUNT_MAX);
	if (counts->used >= counts->room - counts->room / 4)
		resize(counts, counts->room == 0 ? ROOM_MIN : 2 * counts->room);
	at = find(counts, qseq);
	counts->used += counts->slots[at] == 0;
	counts->slots[at] = qseq << 16 | count;
}

/* Empties a slot; those behind it that were pushed away from their places move up. */
static void
empty(struct qseq_counts *counts, uint32_t at)
{
	uint32_t next = next_of(counts, at);

	counts->used--;
	for (; counts->slots[next] != 0; next = next_of(counts, next)) {
		uint32_t home = home_of(counts, qseq_count_qseq(counts->slots[next]));

		/* it may not stand before its home */
		if (((next - home) & (counts->room - 1)) < ((next - at) & (counts->room - 1)))
			continue;
		counts->slots[at] = counts->slots[next];
		at = next;
	}
	counts->slots[at] = 0;
}

/* More numbers than there are counts: all counts are looked at. */
static void
remove_many(struct qseq_counts *counts, uint64_t first, uint64_t n)
{
	for (uint32_t i = 0; i < counts->room; i++) {
		uint64_t slot = counts->slots[i];

		if (slot == 0 || qseq_count_qseq(slot) - first >= n)
			continue;
		counts->slots[i] = 0;
		counts->used--;
	}
	resize(counts, counts->room);
}

void
qseq_counts_remove(struct qseq_counts *counts, uint64_t first, uint64_t n)
{
	if (counts->used == 0)
		return;
	if (n > counts->room) {
		remove_many(counts, first, n);
	} else {
		for (uint64_t i = 0; i < n; i++) {
			uint32_t at = find(counts, first + i);

			if (counts->slots[at] != 0)
				empty(counts, at);
		}
	}
	if (counts->used == 0)
		qseq_counts_fini(counts);
	else if (counts->room > ROOM_MIN && counts->used < counts->room / 8)
		resize(counts, counts->room / 2);
}

uint64_t *
qseq_counts_list(const struct qseq_counts *counts)
{
	uint64_t *list;
	uint32_t n = 0;

	if (counts->used == 0)
		return NULL;
	list = xmalloc(counts->used * sizeof(*list));
	for (uint32_t i = 0; i < counts->room; i++)
		if (counts->slots[i] != 0)
			list[n++] = counts->slots[i];
	qsort(list, n, sizeof(*list), compare_u64);
	return list;
}

void
qseq_counts_check(const struct qseq_counts *counts)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < counts->room; i++) {
		if (counts->slots[i] == 0)
			continue;
		used++;
		assert(qseq_count_count(counts->slots[i]) != 0);
		assert(find(counts, qseq_count_qseq(counts->slots[i])) == i);
	}
	assert(used == counts->used);
}
