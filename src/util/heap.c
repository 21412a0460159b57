/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deadlines, in a binary heap of pointers: items[0] is the earliest, and each item is no later
 * than its two children. An item knows its place, so that moving and clearing it need no search.
 *
 * While deadlines_run() is at work, one that is set to a time already due goes to a second array,
 * and into the heap only at the end: otherwise a deadline that sets itself anew would run for ever.
 *
 * The index of a deadline: 0 when not set, its place + 1 in the heap, or LATE + its place in late.
 * Broker thread.
 */
#include "util/heap.h"

#include "util/mem.h"

#define ROOM_FIRST 16
#define LATE (SIZE_MAX / 2 + 1)

void
deadlines_init(struct deadlines *deadlines)
{
	*deadlines = (struct deadlines){0};
}

void
deadlines_fini(struct deadlines *deadlines)
{
	assert(!deadlines->running);
	xfree(deadlines->items);
	xfree(deadlines->late);
	*deadlines = (struct deadlines){0};
}

static void
put(struct deadlines *deadlines, size_t place, struct deadline *deadline)
{
	deadlines->items[place] = deadline;
	deadline->index = place + 1;
}

/* Puts deadline at place, a hole, or as far above it as it is earlier than the parents. */
static void
sift_up(struct deadlines *deadlines, size_t place, struct deadline *deadline)
{
	while (place > 0) {
		size_t parent = (place - 1) / 2;

		if (deadlines->items[parent]->at_ms <= deadline->at_ms)
			break;
		put(deadlines, place, deadlines->items[parent]);
		place = parent;
	}
	put(deadlines, place, deadline);
}

/* Puts deadline at place, a hole, or as far below it as children are earlier. */
static void
sift_down(struct deadlines *deadlines, size_t place, struct deadline *deadline)
{
	for (;;) {
		size_t child = 2 * place + 1;

		if (child >= deadlines->count)
			break;
		if (child + 1 < deadlines->count &&
		    deadlines->items[child + 1]->at_ms < deadlines->items[child]->at_ms)
			child++;
		if (deadlines->items[child]->at_ms >= deadline->at_ms)
			break;
		put(deadlines, place, deadlines->items[child]);
		place = child;
	}
	put(deadlines, place, deadline);
}

/* Puts deadline where there is a hole at place. */
static void
settle(struct deadlines *deadlines, size_t place, struct deadline *deadline)
{
	if (place > 0 && deadline->at_ms < deadlines->items[(place - 1) / 2]->at_ms)
		sift_up(deadlines, place, deadline);
	else
		sift_down(deadlines, place, deadline);
}

/* Room for one more pointer in the array. */
static void
make_room(struct deadline ***items, size_t count, size_t *room)
{
	if (count < *room)
		return;
	*room = *room == 0 ? ROOM_FIRST : *room * 2;
	*items = xrealloc(*items, *room * sizeof(struct deadline *));
}

static void
push(struct deadlines *deadlines, struct deadline *deadline)
{
	make_room(&deadlines->items, deadlines->count, &deadlines->room);
	sift_up(deadlines, deadlines->count++, deadline);
}

static void
push_late(struct deadlines *deadlines, struct deadline *deadline)
{
	make_room(&deadlines->late, deadlines->late_count, &deadlines->late_room);
	deadline->index = LATE + deadlines->late_count;
	deadlines->late[deadlines->late_count++] = deadline;
}

static void
clear_late(struct deadlines *deadlines, struct deadline *deadline)
{
	size_t place = deadline->index - LATE;
	struct deadline *last;

	assert(place < deadlines->late_count && deadlines->late[place] == deadline);
	last = deadlines->late[--deadlines->late_count];
	deadlines->late[place] = last;
	last->index = LATE + place;
	deadline->index = 0;
}

void
deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ms)
{
	assert(deadline->run != NULL);
	if (deadlines->running && at_ms <= deadlines->running_ms) {
		deadline_clear(deadlines, deadline);
		deadline->at_ms = at_ms;
		push_late(deadlines, deadline);
		return;
	}
	if (deadline->index >= LATE)
		clear_late(deadlines, deadline);
	deadline->at_ms = at_ms;
	if (deadline->index == 0)
		push(deadlines, deadline);
	else
		settle(deadlines, deadline->index - 1, deadline);
}

void
deadline_clear(struct deadlines *deadlines, struct deadline *deadline)
{
	size_t place = deadline->index - 1;
	struct deadline *last;

	if (deadline->index == 0)
		return;
	if (deadline->index >= LATE) {
		clear_late(deadlines, deadline);
		return;
	}
	assert(place < deadlines->count && deadlines->items[place] == deadline);
	last = deadlines->items[--deadlines->count];
	if (last != deadline)
		settle(deadlines, place, last);
	deadline->index = 0;
}

uint64_t
deadlines_next(const struct deadlines *deadlines)
{
	uint64_t next = deadlines->count == 0 ? UINT64_MAX : deadlines->items[0]->at_ms;

	for (size_t i = 0; i < deadlines->late_count; i++)
		next = min_u64(next, deadlines->late[i]->at_ms);
	return next;
}

void
deadlines_run(struct deadlines *deadlines, uint64_t now_ms)
{
	assert_thread(THREAD_BROKER);
	assert(!deadlines->running);
	deadlines->running = true;
	deadlines->running_ms = now_ms;
	while (deadlines->count > 0 && deadlines->items[0]->at_ms <= now_ms) {
		struct deadline *deadline = deadlines->items[0];

		deadline_clear(deadlines, deadline);
		deadline->run(deadline, now_ms);
	}
	deadlines->running = false;
	for (size_t i = 0; i < deadlines->late_count; i++)
		push(deadlines, deadlines->late[i]);
	deadlines->late_count = 0;
}
