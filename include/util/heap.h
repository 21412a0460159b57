/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one heap of deadlines: who wants to be called at a time embeds a struct deadline. Deadlines
 * are data: the loop asks deadlines_next() how long it may wait, the turn calls deadlines_run().
 * Broker thread only. Times are milliseconds of the monotonic clock (util/clock.h).
 */
#pragma once

#include "util/base.h"

struct deadline {
	uint64_t at_ms; // when it is due
	size_t index;	// 0 when not set; else private to heap.c: the place, and in which array
	void (*run)(struct deadline *deadline, uint64_t now_ms); // set once by the owner
};

struct deadlines {
	struct deadline **items; // owns the array, borrows the items while they are set
	size_t count;
	size_t room;
	struct deadline **late; // owns the array; due ones set by run, until deadlines_run returns
	size_t late_count;
	size_t late_room;
	uint64_t running_ms; // the time given to deadlines_run
	bool running;	     // deadlines_run is at work
};

void deadlines_init(struct deadlines *deadlines);
void deadlines_fini(struct deadlines *deadlines);
/* Sets it, or moves it when it was set. */
void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ms);
/* Takes it off; fine when it is not set. */
void deadline_clear(struct deadlines *deadlines, struct deadline *deadline);
/* The earliest time, UINT64_MAX when none is set. */
uint64_t deadlines_next(const struct deadlines *deadlines);
/* Calls run of each that is due at now_ms, earliest first, after taking it off; run may set, clear
 * and free deadlines, its own included. Those set to now_ms or earlier by run wait for the next
 * call. */
void deadlines_run(struct deadlines *deadlines, uint64_t now_ms);

static inline bool
deadline_is_set(const struct deadline *deadline)
{
	return deadline->index != 0;
}
