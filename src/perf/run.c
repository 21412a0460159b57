/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of a run. By time: warm up, measure, stop the producers, wait for the rest. By count: measure
 * from the first message until everything has arrived. To drain: publish all, then measure consuming.
 *
 * Nothing is lost when all that was sent was delivered as often as there are queues to take it, or, with no
 * consumers, lies in the queues. After five seconds without progress what is missing counts as lost.
 */
#include "run.h"

#include "complain.h"
#include "consumer.h"
#include "engine.h"
#include "idle.h"
#include "net/loop.h"
#include "options.h"
#include "producer.h"
#include "topology.h"
#include "util/mem.h"

#define SECOND_US 1000000ULL
#define PATIENCE_US (5 * SECOND_US) // without progress
#define LONG_WAIT_MS 100
#define START_DELAY_US 2000 // from "go" to the first message of a fixed rate

struct run {
	const struct options *options; // borrows
	struct engine engine;	       // everybody's
	struct client control;	       // declares, looks, deletes
	struct topology topology;      // what is published to
	struct producer *producers;    // owns; options->producers
	struct consumer *consumers;    // owns; options->consumers
	struct totals *totals;	       // borrows from the result
	struct snapshot last;	       // at the last line
	uint64_t started_us;	       // when the producers were let go
	uint64_t line_us;	       // when the next line is due
};

static struct snapshot
snapshot_take(const struct run *run, bool cpu)
{
	struct snapshot snapshot = {
		.at_us = run->engine.now_us,
		.sent = run->totals->sent,
		.received = run->totals->received,
		.confirmed = run->totals->confirmed,
	};
	uint64_t pid = run->options->broker_pid;

	if (!cpu)
		return snapshot;
	snapshot.own_cpu_us = process_own_cpu_us();
	if (pid != 0 && !process_usage(pid, &snapshot.broker))
		fail("--broker-pid: there is no process %llu", (unsigned long long)pid);
	return snapshot;
}

/* ---- turning -------------------------------------------------------------------------------------- */

static void
print_second(struct run *run)
{
	struct snapshot now;

	if (run->engine.now_us < run->line_us)
		return;
	now = snapshot_take(run, false);
	if (!run->options->quiet)
		report_second(&run->last, &now,
			      (double)(now.at_us - run->started_us) / (double)SECOND_US);
	run->last = now;
	run->line_us = now.at_us + SECOND_US;
}

/* When the next message of a fixed rate is due, UINT64_MAX without one. */
static uint64_t
next_due(const struct run *run)
{
	uint64_t next = UINT64_MAX;

	for (uint64_t i = 0; i < run->options->producers; i++) {
		const struct producer *producer = &run->producers[i];

		if (producer->origin_us != 0 && producer->sequence < producer->limit)
			next = min_u64(next, producer_next_us(producer));
	}
	return next;
}

/* One turn, which ends by until_us. */
static void
step(struct run *run, uint64_t until_us)
{
	struct engine *engine = &run->engine;
	uint64_t wait_until = min_u64(until_us, run->line_us), wait_ms = 0, due = UINT64_MAX;

	for (uint64_t i = 0; i < run->options->producers; i++)
		producer_pump(&run->producers[i]);
	if (run->options->rate != 0)
		due = next_due(run);
	if (due != UINT64_MAX && due > engine->now_us)
		loop_wake_at(engine->loop, due);
	if (wait_until > engine->now_us && due > engine->now_us)
		wait_ms = min_u64((wait_until - engine->now_us) / 1000 + 1, LONG_WAIT_MS);
	engine_turn(engine, wait_ms);
	print_second(run);
}

static void
run_until(struct run *run, uint64_t until_us)
{
	while (run->engine.now_us < until_us && !run->engine.interrupted)
		step(run, until_us);
}

static uint64_t
output_waiting(const struct run *run)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < run->options->producers; i++)
		n += conn_output_size(run->producers[i].client.conn);
	return n;
}

/* All that was to be sent is sent; with confirms also confirmed; with consumers also delivered. */
static bool
is_complete(const struct run *run, bool consumed)
{
	const struct totals *totals = run->totals;

	for (uint64_t i = 0; i < run->options->producers; i++)
		if (run->producers[i].sequence < run->producers[i].limit)
			return false;
	if (run->options->confirm != 0 && totals->confirmed < totals->sent)
		return false;
	if (consumed)
		return totals->received >= totals->sent * run->topology.copies;
	return output_waiting(run) == 0;
}

static void
stop_producers(struct run *run)
{
	for (uint64_t i = 0; i < run->options->producers; i++)
		run->producers[i].limit = run->producers[i].sequence;
}

/* Turns until complete, or nothing has moved for too long. An interrupt stops the producers. */
static void
run_to_completion(struct run *run, bool consumed)
{
	uint64_t before = UINT64_MAX, moved_us = run->engine.now_us;
	uint64_t patience_us = PATIENCE_US + 1000 * options_wait(run->options)->to;

	while (!is_complete(run, consumed)) {
		uint64_t now = run->totals->sent + run->totals->received + run->totals->confirmed +
			       output_waiting(run);

		if (now != before)
			moved_us = run->engine.now_us;
		else if (run->engine.now_us - moved_us > patience_us)
			return;
		before = now;
		step(run, UINT64_MAX);
		if (run->engine.interrupted)
			stop_producers(run);
	}
}

/* ---- phases --------------------------------------------------------------------------------------- */

static void
set_up(struct run *run)
{
	const struct options *options = run->options;

	topology_init(&run->topology, options);
	topology_declare(&run->topology, &run->control);
	run->producers = xcalloc(options->producers, sizeof(*run->producers));
	run->consumers = xcalloc(options->consumers, sizeof(*run->consumers));
	for (uint64_t i = 0; i < options->producers; i++)
		producer_open(&run->producers[i], i, &run->engine, options, &run->topology,
			      run->totals);
	for (uint64_t i = 0; i < options->consumers; i++)
		consumer_open(&run->consumers[i], &run->engine, options, run->totals);
}

static void
start_consumers(struct run *run)
{
	char name[QUEUE_NAME_MAX];

	for (uint64_t i = 0; i < run->options->consumers; i++)
		consumer_start(&run->consumers[i],
			       topology_source(&run->topology, i % run->options->queues, name));
}

static void
start_producers(struct run *run)
{
	const struct options *options = run->options;

	run->started_us = run->engine.now_us;
	run->line_us = run->started_us + SECOND_US;
	run->last = snapshot_take(run, false);
	run->totals->every = options->rate != 0 || options_wait(options)->to != 0;
	for (uint64_t i = 0; i < options->producers; i++) {
		struct producer *producer = &run->producers[i];

		producer->limit = UINT64_MAX;
		if (options->count != 0)
			producer->limit = options->count / options->producers +
					  (i < options->count % options->producers);
		if (options->rate == 0)
			continue;
		producer->origin_us = run->started_us + START_DELAY_US;
		producer->interval_us = (double)SECOND_US / (double)options->rate;
	}
}

/* Returns when the broker has taken all that was written: a method that it answers after that. */
static void
sync_producers(struct run *run)
{
	for (uint64_t i = 0; i < run->options->producers; i++)
		(void)topology_ready(&run->topology, &run->producers[i].client);
}

static void
by_time(struct run *run, struct result *result)
{
	const struct options *options = run->options;
	uint64_t begin_us;

	start_producers(run);
	begin_us = run->started_us + (uint64_t)(options->warm_up * (double)SECOND_US);
	run_until(run, begin_us);
	run->totals->timed = true;
	result->begin = snapshot_take(run, true);
	run_until(run, begin_us + (uint64_t)(options->time * (double)SECOND_US));
	result->end = snapshot_take(run, true);
	run->totals->timed = false;
	stop_producers(run);
	run_to_completion(run, options->consumers != 0);
}

static void
by_count(struct run *run, struct result *result)
{
	bool consumed = run->options->consumers != 0;

	run->totals->timed = true;
	result->begin = snapshot_take(run, true);
	start_producers(run);
	run_to_completion(run, consumed);
	if (!consumed)
		sync_producers(run);
	result->end = snapshot_take(run, true);
	run->totals->timed = false;
}

/* What must be in the queues when nobody consumes: of what was sent, as much as they may hold. */
static uint64_t
expected_ready(const struct run *run)
{
	uint64_t sent = run->totals->sent * run->topology.copies;

	if (run->options->max_length == UINT64_MAX)
		return sent;
	return min_u64(sent, run->options->queues * run->options->max_length);
}

/* Waits until the queues hold what they must, or their number stays the same. Returns it. */
static uint64_t
await_ready(struct run *run)
{
	uint64_t expected = expected_ready(run), ready, before = UINT64_MAX;
	uint64_t moved_us = run->engine.now_us;

	while ((ready = topology_ready(&run->topology, &run->control)) != expected) {
		if (ready != before)
			moved_us = run->engine.now_us;
		else if (run->engine.now_us - moved_us > PATIENCE_US)
			break;
		before = ready;
		run_until(run, run->engine.now_us + 20000);
	}
	return ready;
}

static void
by_drain(struct run *run, struct result *result)
{
	start_producers(run);
	run_to_completion(run, false);
	if (run->engine.interrupted)
		fail("interrupted");
	sync_producers(run);
	(void)await_ready(run);
	result->begin = snapshot_take(run, true);
	run->totals->timed = true;
	start_consumers(run);
	run_to_completion(run, true);
	result->end = snapshot_take(run, true);
	run->totals->timed = false;
}

static void
load(struct run *run, struct result *result)
{
	const struct options *options = run->options;

	set_up(run);
	if (options->drain) {
		by_drain(run, result);
	} else {
		start_consumers(run);
		if (options->count != 0)
			by_count(run, result);
		else
			by_time(run, result);
	}
	result->expected = run->totals->sent * run->topology.copies;
	result->missing = result->expected - min_u64(result->expected, run->totals->received);
	if (options->consumers == 0) {
		result->expected = expected_ready(run);
		result->missing = result->expected - min_u64(result->expected, await_ready(run));
	}
}

static void
take_down(struct run *run)
{
	for (uint64_t i = 0; i < run->options->consumers; i++)
		consumer_close(&run->consumers[i]);
	for (uint64_t i = 0; i < run->options->producers; i++)
		producer_close(&run->producers[i]);
	xfree(run->consumers);
	xfree(run->producers);
	if (!run->options->keep)
		topology_delete(&run->topology, &run->control);
	topology_fini(&run->topology);
}

void
run(const struct options *options, struct result *result)
{
	struct run run = {.options = options, .totals = &result->totals};

	process_raise_files();
	engine_init(&run.engine);
	run.line_us = UINT64_MAX;
	client_open(&run.control, &run.engine, &options->broker, NULL);
	if (options->connections_idle != 0)
		result->idle_bytes = idle_measure(&run.engine, options);
	result->loaded = options->producers != 0;
	if (result->loaded) {
		load(&run, result);
		take_down(&run);
	}
	client_close(&run.control);
	engine_fini(&run.engine);
}
