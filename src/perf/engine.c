/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn, and the loop under it.
 */
#include "engine.h"

#include <signal.h>
#include "complain.h"
#include "net/loop.h"
#include "net/net.h"
#include "util/clock.h"
#include "util/mem.h"

/* What waits in user space for one connection: enough for large writes, not so much that it leaves the
 * cache before it is sent. */
#define OUTPUT_HIGH (128 * 1024)
#define OUTPUT_LOW (32 * 1024)
#define REFERENCE_MINIMUM 4096

static void
on_interrupt(void *context)
{
	struct engine *engine = context;

	engine->interrupted = true;
}

static void
clock_take(struct engine *engine)
{
	engine->now_us = clock_monotonic_us();
	net_set_now(engine->net, clock_read());
}

void
engine_init(struct engine *engine)
{
	struct net_options options = net_options_default();

	*engine = (struct engine){0};
	mem_start();
	engine->loop = loop_new();
	if (engine->loop == NULL)
		fail("the system gives no event loop");
	deadlines_init(&engine->deadlines);
	options.output_high = OUTPUT_HIGH;
	options.output_low = OUTPUT_LOW;
	options.reference_minimum = REFERENCE_MINIMUM;
	engine->net = net_new(engine->loop, &engine->deadlines, &options);
	if (loop_on_signal(engine->loop, SIGINT, on_interrupt, engine) != 0 ||
	    loop_on_signal(engine->loop, SIGTERM, on_interrupt, engine) != 0)
		fail("the system gives no signals");
	clock_take(engine);
}

void
engine_fini(struct engine *engine)
{
	net_free(&engine->net);
	deadlines_fini(&engine->deadlines);
	loop_free(&engine->loop);
}

/* Milliseconds to wait: not longer than to the next deadline. */
static uint64_t
wait_time(const struct engine *engine, uint64_t wait_ms)
{
	uint64_t next = deadlines_next(&engine->deadlines);
	uint64_t now = engine->now_us / 1000;

	if (engine->drained || net_work_left(engine->net))
		return 0;
	if (next == UINT64_MAX)
		return wait_ms;
	return min_u64(wait_ms, next > now ? next - now : 0);
}

void
engine_turn(struct engine *engine, uint64_t wait_ms)
{
	engine->drained = false;
	net_flush(engine->net);
	net_reap(engine->net);
	loop_wait(engine->loop, wait_time(engine, wait_ms));
	clock_take(engine);
	deadlines_run(&engine->deadlines, engine->now_us / 1000);
	net_input(engine->net);
}
