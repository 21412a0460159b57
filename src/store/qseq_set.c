/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of settled numbers as a sorted array of containers. The invariants: the floor itself is open;
 * no number of a container is below the floor; a span is in one container only; a container that holds all
 * of its span is a whole one, and whole ones that touch are one; settled is the sum of all.
 *
 * Only what is about several containers is here: finding, the floor, whole ones and copies. What happens
 * within a span is in qseq_container.c, the octets of a set in qseq_octets.c. An empty set keeps room for two containers and nothing
 * else. One thread.
 */
#include "store/qseq_set.h"

#include "util/mem.h"

#include "qseq_container.h"

#define ROOM_KEPT 2

void
qseq_set_init(struct qseq_set *set)
{
	*set = (struct qseq_set){.floor = 1};
}

void
qseq_set_fini(struct qseq_set *set)
{
	for (uint32_t i = 0; i < set->count; i++)
		qseq_container_fini(&set->containers[i]);
	xfree(set->containers);
	qseq_set_init(set);
}

static void
set_room(struct qseq_set *set, uint32_t room)
{
	assert(room >= set->count && room > 0);
	set->containers = xrealloc(set->containers, room * sizeof(*set->containers));
	set->room = room;
}

/* Index of the first container that ends after span; count when there is none. Most calls are about the
 * lowest span or about the highest. */
static uint32_t
find(const struct qseq_set *set, uint64_t span)
{
	uint32_t low = 0, high = set->count;

	if (high == 0 || qseq_container_end(&set->containers[0]) > span)
		return 0;
	if (qseq_container_end(&set->containers[high - 1]) <= span)
		return high;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (qseq_container_end(&set->containers[middle]) <= span)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A place for a container at index, which the caller fills. */
static struct qseq_container *
insert(struct qseq_set *set, uint32_t index)
{
	struct qseq_container *at;

	assert(index <= set->count);
	if (set->count == set->room)
		set_room(set, set->room + set->room / 2 + ROOM_KEPT);
	at = &set->containers[index];
	memmove(at + 1, at, (set->count - index) * sizeof(*at));
	set->count++;
	return at;
}

/* Removes the containers from first up to end. */
static void
remove_range(struct qseq_set *set, uint32_t first, uint32_t end)
{
	assert(first <= end && end <= set->count);
	if (first == end)
		return;
	for (uint32_t i = first; i < end; i++)
		qseq_container_fini(&set->containers[i]);
	memmove(&set->containers[first], &set->containers[end],
		(set->count - end) * sizeof(*set->containers));
	set->count -= end - first;
	if (set->room > ROOM_KEPT && set->count <= set->room / 4)
		set_room(set, (uint32_t)max_u64(2 * set->count, ROOM_KEPT));
}

/* How many numbers of the container are in [first, end). */
static uint64_t
count_in(const struct qseq_container *container, uint64_t first, uint64_t end)
{
	uint64_t low = max_u64(first, (uint64_t)container->span << QSEQ_SPAN_BITS);
	uint64_t high = min_u64(end, qseq_container_end(container) << QSEQ_SPAN_BITS);

	if (low >= high)
		return 0;
	if (container->kind == QSEQ_WHOLE)
		return high - low;
	if (high - low == QSEQ_SPAN)
		return container->count;
	return qseq_container_count(container, low % QSEQ_SPAN, (high - 1) % QSEQ_SPAN);
}

/* The same for all containers. */
static uint64_t
count_above_floor(const struct qseq_set *set, uint64_t first, uint64_t end)
{
	uint64_t count = 0;

	for (uint32_t i = find(set, first >> QSEQ_SPAN_BITS);
	     i < set->count && (uint64_t)set->containers[i].span << QSEQ_SPAN_BITS < end; i++)
		count += count_in(&set->containers[i], first, end);
	return count;
}

/* Puts the floor to the first open number from floor on, and forgets what is below it. */
static void
climb(struct qseq_set *set, uint64_t floor)
{
	uint64_t before = set->floor;
	uint32_t gone = 0;

	assert(floor >= before);
	set->floor = qseq_set_next_open(set, floor);
	while (gone < set->count &&
	       qseq_container_end(&set->containers[gone]) << QSEQ_SPAN_BITS <= set->floor) {
		set->settled -= count_in(&set->containers[gone], 0, set->floor);
		gone++;
	}
	if (gone < set->count && set->containers[gone].span == set->floor >> QSEQ_SPAN_BITS) {
		struct qseq_container *first = &set->containers[gone];
		uint64_t base = (uint64_t)first->span << QSEQ_SPAN_BITS;

		set->settled -= qseq_container_cut(first, max_u64(before, base) % QSEQ_SPAN,
						   set->floor % QSEQ_SPAN);
		gone += first->count == 0;
	}
	remove_range(set, 0, gone);
}

/* Makes the spans from first up to end whole; returns how many numbers of them had been in containers. What
 * is added to set->settled is the caller's. */
static uint64_t
make_whole(struct qseq_set *set, uint64_t first, uint64_t end)
{
	struct qseq_container whole = {.count = QSEQ_SPAN, .kind = QSEQ_WHOLE};
	uint64_t low = first, high = end, before = 0;
	uint32_t i = find(set, first), j;

	if (i > 0 && set->containers[i - 1].kind == QSEQ_WHOLE &&
	    qseq_container_end(&set->containers[i - 1]) == first)
		i--;
	for (j = i; j < set->count; j++) {
		const struct qseq_container *c = &set->containers[j];

		if (c->span > end || (c->span == end && c->kind != QSEQ_WHOLE))
			break;
		before += count_in(c, first << QSEQ_SPAN_BITS, end << QSEQ_SPAN_BITS);
		low = min_u64(low, c->span);
		high = max_u64(high, qseq_container_end(c));
	}
	whole.span = (uint32_t)low;
	whole.spans = (uint32_t)(high - low);
	if (i == j) {
		*insert(set, i) = whole;
	} else {
		qseq_container_fini(&set->containers[i]);
		set->containers[i] = whole;
		remove_range(set, i + 1, j);
	}
	return before;
}

/* Adds [low, high] of a span, not all of it; returns how many of them are new. */
static uint64_t
add_within(struct qseq_set *set, uint32_t span, uint32_t low, uint32_t high)
{
	uint32_t i = find(set, span);
	struct qseq_container *container;
	uint64_t added;

	if (i == set->count || set->containers[i].span > span) {
		*insert(set, i) = qseq_container_of(span, low, high);
		return high - low + 1;
	}
	container = &set->containers[i];
	if (container->kind == QSEQ_WHOLE)
		return 0;
	added = qseq_container_add(container, low, high);
	if (container->count == QSEQ_SPAN)
		make_whole(set, span, span + 1ULL);
	return added;
}

/* Adds [first, end), which lies above the floor; returns how many of them are new. */
static uint64_t
add_above_floor(struct qseq_set *set, uint64_t first, uint64_t end)
{
	uint64_t added = 0;

	while (first < end) {
		uint64_t span = first >> QSEQ_SPAN_BITS;
		uint64_t stop = min_u64(end, (span + 1) << QSEQ_SPAN_BITS);

		if (stop - first == QSEQ_SPAN) {
			stop = end / QSEQ_SPAN * QSEQ_SPAN;
			added += stop - first - make_whole(set, span, stop >> QSEQ_SPAN_BITS);
		} else {
			added += add_within(set, (uint32_t)span, first % QSEQ_SPAN,
					    (stop - 1) % QSEQ_SPAN);
		}
		first = stop;
	}
	set->settled += added;
	return added;
}

uint64_t
qseq_set_add_anywhere(struct qseq_set *set, uint64_t first, uint64_t count)
{
	uint64_t end = first + count;
	uint64_t added;

	assert(first >= 1 && count >= 1);
	assert(first <= QSEQ_MAX && count <= QSEQ_MAX + 1 - first);
	if (end <= set->floor)
		return 0;
	if (first > set->floor)
		return add_above_floor(set, first, end);
	added = end - set->floor;
	if (added > 1) /* the floor itself is open */
		added -= count_above_floor(set, set->floor, end);
	climb(set, end);
	return added;
}

void
qseq_set_raise(struct qseq_set *set, uint64_t floor)
{
	assert(floor <= QSEQ_MAX + 1);
	if (floor > set->floor)
		climb(set, floor);
}

bool
qseq_set_has(const struct qseq_set *set, uint64_t qseq)
{
	return qseq < set->floor ||
	       (set->settled != 0 && count_above_floor(set, qseq, qseq + 1) != 0);
}

uint64_t
qseq_set_count(const struct qseq_set *set, uint64_t first, uint64_t count)
{
	uint64_t end = first + count;
	uint64_t above = max_u64(first, set->floor);

	assert(end >= first);
	if (end <= set->floor)
		return count;
	return above - first + count_above_floor(set, above, end);
}

uint64_t
qseq_set_next_open(const struct qseq_set *set, uint64_t from)
{
	uint64_t open = max_u64(from, set->floor);

	for (uint32_t i = find(set, open >> QSEQ_SPAN_BITS); i < set->count; i++) {
		const struct qseq_container *c = &set->containers[i];
		uint64_t end = qseq_container_end(c) << QSEQ_SPAN_BITS;

		if (c->span > open >> QSEQ_SPAN_BITS)
			break;
		if (c->kind == QSEQ_WHOLE)
			open = end;
		else
			open = end - QSEQ_SPAN + qseq_container_next_open(c, open % QSEQ_SPAN);
		if (open < end)
			break;
	}
	return open;
}

void
qseq_set_append(struct qseq_set *set, uint32_t span, const struct qseq_bits *bits)
{
	assert(set->count == 0 || qseq_container_end(&set->containers[set->count - 1]) <= span);
	*insert(set, set->count) = qseq_container_of_bits(span, bits);
	set->settled += bits->count;
}

/* Adds to copy what container has in [first, end), which is not empty and touches it. */
static void
copy_container(struct qseq_set *copy, const struct qseq_container *container, uint64_t first,
	       uint64_t end)
{
	uint64_t low = max_u64(first, (uint64_t)container->span << QSEQ_SPAN_BITS);
	uint64_t high = min_u64(end, qseq_container_end(container) << QSEQ_SPAN_BITS);
	struct qseq_bits bits;

	assert(low < high);
	if (container->kind == QSEQ_WHOLE) {
		add_above_floor(copy, low, high);
		return;
	}
	qseq_bits_load(&bits, container);
	qseq_bits_clip(&bits, low % QSEQ_SPAN, (high - 1) % QSEQ_SPAN);
	qseq_bits_measure(&bits);
	if (bits.count != 0)
		qseq_set_append(copy, container->span, &bits);
}

void
qseq_set_copy_range(struct qseq_set *copy, const struct qseq_set *set, uint64_t first,
		    uint64_t last)
{
	uint64_t end = min_u64(last, QSEQ_MAX) + 1;

	qseq_set_init(copy);
	copy->floor = set->floor;
	if (first >= end)
		return;
	for (uint32_t i = find(set, first >> QSEQ_SPAN_BITS);
	     i < set->count && (uint64_t)set->containers[i].span << QSEQ_SPAN_BITS < end; i++)
		copy_container(copy, &set->containers[i], first, end);
}

size_t
qseq_set_memory(const struct qseq_set *set)
{
	size_t memory = set->room * sizeof(*set->containers);

	for (uint32_t i = 0; i < set->count; i++)
		memory += qseq_container_memory(&set->containers[i]);
	return memory;
}

void
qseq_set_check(const struct qseq_set *set)
{
	uint64_t settled = 0, next = set->floor >> QSEQ_SPAN_BITS;
	bool after_whole = false;

	assert(set->floor >= 1 && set->floor <= QSEQ_MAX + 1);
	assert(set->count <= set->room && (set->count == 0) == (set->settled == 0));
	assert(set->count != 0 || set->room <= ROOM_KEPT);
	for (uint32_t i = 0; i < set->count; i++) {
		const struct qseq_container *c = &set->containers[i];

		assert(c->span >= next);
		if (c->kind == QSEQ_WHOLE) {
			assert(c->count == QSEQ_SPAN && c->spans > 0);
			assert(!after_whole || c->span > next);
		} else {
			qseq_container_check(c);
		}
		after_whole = c->kind == QSEQ_WHOLE;
		next = qseq_container_end(c);
		settled += count_in(c, 0, UINT64_MAX);
	}
	assert(settled == set->settled && next <= (QSEQ_MAX + 1) >> QSEQ_SPAN_BITS);
	assert(!qseq_set_has(set, set->floor) && count_above_floor(set, 0, set->floor) == 0);
}
