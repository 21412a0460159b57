/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random histories of store_fixture.h.
 */
#include "lib/store_fixture.h"

#include <stdio.h>
#include <time.h>

#include "lib/runner.h"

/* When the environment does not say how many seeds. */
#define SEEDS 1000
#define SECONDS 4

uint64_t
store_fixture_random(struct store_fixture *f, uint64_t n)
{
	uint64_t z = f->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) % n;
}

uint32_t
store_fixture_size(struct store_fixture *f)
{
	uint64_t kind = store_fixture_random(f, 40);

	if (kind == 0)
		return (uint32_t)store_fixture_random(f, 100 * 1024);
	if (kind < 8)
		return (uint32_t)store_fixture_random(f, 8 * 1024);
	return (uint32_t)store_fixture_random(f, 300);
}

/* Up to room queues that are there, each once. */
static uint32_t
pick_queues(struct store_fixture *f, uint32_t *picked, uint32_t room)
{
	uint32_t count = 0;
	size_t all = f->ledger.queue_count;
	size_t start = all == 0 ? 0 : store_fixture_random(f, all);

	for (size_t i = 0; i < all && count < room; i++) {
		uint32_t at = (uint32_t)((start + i) % all);

		if (f->ledger.queues[at].log != NULL && store_fixture_random(f, 3) != 0)
			picked[count++] = at;
	}
	return count;
}

static void
step_publish(struct store_fixture *f)
{
	uint32_t queues[5];
	uint32_t count = pick_queues(f, queues, 1 + (uint32_t)store_fixture_random(f, 5));

	if (count > 0)
		store_fixture_publish(f, queues, count, store_fixture_size(f));
	else
		store_fixture_queue(f);
}

/* Settles one reference, or notes that it came back, near the front, in the middle or at the end. */
static void
step_ack(struct store_fixture *f)
{
	struct ledger *ledger = &f->ledger;
	size_t all = ledger->message_count;
	size_t start = all == 0 ? 0 : store_fixture_random(f, all);

	if (store_fixture_random(f, 3) == 0)
		start = 0;
	for (size_t i = 0; i < all; i++) {
		size_t at = (start + i) % all;

		for (uint32_t n = 0; n < ledger->messages[at].ref_count; n++) {
			const struct ledger_ref *ref = &ledger->messages[at].refs[n];

			if (ref->settled != 0 || ref->cold ||
			    ledger->queues[ref->queue].log == NULL)
				continue;
			if (store_fixture_random(f, 4) == 0)
				store_fixture_return(f, at, n);
			else
				store_fixture_ack(
					f, at, n,
					(enum ack_reason)store_fixture_random(f, ACK_REASON_END));
			return;
		}
	}
}

/* A queue that is there is delivered from, or removed. */
static void
step_queue(struct store_fixture *f, bool drops)
{
	uint32_t queue;

	if (pick_queues(f, &queue, 1) == 0)
		return;
	if (drops)
		store_fixture_drop(f, queue);
	else
		store_fixture_deliver(f, queue);
}

static void
step_turn(struct store_fixture *f)
{
	store_fixture_submit(f, store_fixture_random(f, 2) == 0);
	f->now.monotonic_ms += store_fixture_random(f, 20);
	switch (store_fixture_random(f, 6)) {
	case 0:
		store_fixture_write(f);
		break;
	case 1:
		store_fixture_index_and_help(f);
		break;
	default:
		store_fixture_work(f);
		break;
	}
	store_receive(f->store);
}

/* The cold part of some queue is read, added to or purged. */
static void
step_cold(struct store_fixture *f)
{
	uint32_t queue;
	uint64_t next;

	if (pick_queues(f, &queue, 1) == 0)
		return;
	switch (store_fixture_random(f, 10)) {
	case 8:
	case 9:
		store_fixture_pick(f, queue, 1 + (uint32_t)store_fixture_random(f, 8),
				   1 + (uint32_t)store_fixture_random(f, 30));
		break;
	case 0:
		store_fixture_purge(f, queue);
		break;
	case 1:
	case 2:
		next = f->ledger.queues[queue].next_qseq;
		store_fixture_evict(f, queue, store_fixture_random(f, next));
		break;
	case 3:
		store_fixture_read_out(f, queue, 1 + (uint32_t)store_fixture_random(f, 20),
				       store_fixture_random(f, 100000));
		break;
	default:
		store_fixture_read(f, queue, 1 + (uint32_t)store_fixture_random(f, 20),
				   store_fixture_random(f, 100000));
		break;
	}
}

/* Time passes, and what is due then is taken, all or some; what is cold of it is settled at times. */
static void
step_timed(struct store_fixture *f)
{
	if (store_fixture_random(f, 2) == 0)
		f->now.wall_ms += store_fixture_random(f, 2000);
	if (store_fixture_random(f, 4) == 0)
		store_fixture_take_all(f, f->now.wall_ms);
	else
		store_fixture_take(f, f->now.wall_ms, 1 + (uint32_t)store_fixture_random(f, 20));
}

void
store_fixture_step(struct store_fixture *f)
{
	uint64_t kind = store_fixture_random(f, 100);

	f->steps++;
	if (f->timed && store_fixture_random(f, 4) == 0)
		step_timed(f);
	if (f->cold && store_fixture_random(f, 4) == 0)
		step_cold(f);
	if (kind < 35)
		step_publish(f);
	else if (kind < 60)
		step_ack(f);
	else if (kind < 64)
		store_fixture_queue(f);
	else if (kind < 66)
		step_queue(f, true);
	else if (kind < 69)
		step_queue(f, false);
	else if (kind < 75)
		store_fixture_define(f, (uint32_t)store_fixture_random(f, LEDGER_THINGS),
				     (uint32_t)store_fixture_random(f, 4));
	else
		step_turn(f);
}

void
store_fixture_reopen(struct store_fixture *f)
{
	uint64_t how = store_fixture_random(f, 6);

	if (store_fixture_random(f, 2) == 0)
		store_fixture_flush(f);
	switch (how) {
	case 0:
	case 1:
		ck_assert_int_eq(store_fixture_close(f, true), 0);
		break;
	case 2:
		ck_assert_int_eq(store_fixture_close(f, false), 0);
		break;
	case 3:
		store_fixture_kill(f);
		break;
	default:
		store_fixture_crash(f, SIM_EVERYTHING, 0);
		break;
	}
	if (f->cold)
		f->skips = store_fixture_random(f, 2) == 0;
	ck_assert_msg(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
	f->reopenings++;
}

/* ---- seeds ---- */

struct totals {
	unsigned long long steps;
	unsigned long long reads;
	unsigned long long reopenings;
};

static void
run_seed(uint64_t seed, void (*run)(struct store_fixture *f), struct totals *totals)
{
	struct store_fixture f;

	store_fixture_init(&f, seed);
	run(&f);
	totals->steps += f.steps;
	totals->reads += f.read_ends;
	totals->reopenings += f.reopenings;
	store_fixture_fini(&f);
}

void
store_fixture_run_seeds(const char *name, void (*run)(struct store_fixture *f))
{
	unsigned long long first =
		runner_number("STORE_MODEL_SEED", (unsigned long long)time(NULL));
	unsigned long long seeds = runner_number("STORE_MODEL_SEEDS", 0);
	time_t until = seeds == 0 ? time(NULL) + SECONDS : 0;
	struct totals totals = {0};
	unsigned long long done = 0;

	for (; done < (seeds == 0 ? SEEDS : seeds) && (until == 0 || time(NULL) < until); done++) {
		/* when it fails, this is the seed to start with */
		printf("\r%s: seed %llu ", name, first + done);
		fflush(stdout);
		run_seed(first + done, run, &totals);
	}
	printf("\r%s: %llu seeds from %llu, %llu operations, %llu reads, %llu reopenings, 0 "
	       "mismatches\n",
	       name, done, first, totals.steps, totals.reads, totals.reopenings);
}
