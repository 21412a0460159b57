/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of pannier-perf: one thread, one turn after the other, the clock read once a turn. Between
 * turns its users write; a turn sends that, waits, and hands out what came in.
 */
#pragma once

#include "util/base.h"
#include "util/heap.h"

struct engine {
	struct loop *loop;	    // owns
	struct net *net;	    // owns
	struct deadlines deadlines; // none of ours; net has some
	uint64_t now_us;	    // the monotonic clock, read after the last wait
	bool drained;		    // a full connection has room again: do not wait
	bool interrupted;	    // SIGINT or SIGTERM came
};

/* Ends the program when the system refuses. */
void engine_init(struct engine *engine);
/* All clients must be closed. */
void engine_fini(struct engine *engine);
/* One turn; waits for events until wait_ms have passed (UINT64_MAX: for ever), not at all while there is
 * something to do. */
void engine_turn(struct engine *engine, uint64_t wait_ms);
