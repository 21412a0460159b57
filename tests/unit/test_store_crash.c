/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crash simulator. Short random histories run on a simulated disk; after every call that
 * changes the disk the machine could have died, so there a copy of disk and ledger is taken, and
 * for each of many states that the crash may leave the store is recovered and compared with the
 * ledger:
 *	- what was reported stable is there: messages, open places, bodies, definitions, marks;
 *	- nothing is there that was not appended, and a batch is there as a whole or not at all;
 *	- the store can be written to, stopped in some way and opened again.
 * For a sample the machine dies again, at every call of the recovery. Few un-synced things: all
 * states are tried; else the two extremes and random ones.
 *
 * STORE_CRASH_SCALE: how many times as many histories (1); STORE_CRASH_SEED: the first one's
 * seed.
 */
#include "store/store.h"

#include <malloc.h>
#include <stdio.h>

#include "lib/runner.h"
#include "lib/store_fixture.h"

#define FIRST_SEED 20260401

/* Below this many states of one crash, all are tried. */
#define ALL_STATES 1024

#ifdef ADDRESS_SANITIZER
#define HISTORIES 6
#define DRAINS 2
#define LEAST_STATES 4000
#else
#define HISTORIES 22
#define DRAINS 6
#define LEAST_STATES 20000
#endif

/* What is done with the crashes of one history. */
struct simulator {
	struct store_fixture history;
	uint64_t seed;
	bool all_states;  // when they are few
	unsigned samples; // else, random ones besides the two extremes
	unsigned depth;	  // crashes that led here: 0 in the history itself, 1 in a recovery
};

static unsigned long long points[2];
static unsigned long long states[2];

/* For whom looks for the cause of a failure. */
static void
say_where(const struct simulator *s, const struct store_fixture *crashed,
	  enum disk_sim_survival how, uint64_t number)
{
	if (getenv("STORE_CRASH_VERBOSE") != NULL) {
		fprintf(stderr, "seed %llu call %llu depth %u how %d number %llu stable %llu\n",
			(unsigned long long)s->seed, (unsigned long long)s->history.sim->changes,
			s->depth, (int)how, (unsigned long long)number,
			(unsigned long long)crashed->ledger.stable);
	}
}

/* ---- a state ---- */

static void crash_here(void *context, struct disk_sim *sim, const struct disk_sim_call *call);

/* Recovers, and dies at every call of the recovery. */
static void
open_dying(const struct simulator *s, struct store_fixture *f)
{
	struct simulator inner = {.seed = s->seed, .all_states = false, .samples = 2, .depth = 1};

	inner.history = *f;
	inner.history.sim->hook = crash_here;
	inner.history.sim->context = &inner;
	expect(store_fixture_open(&inner.history) == 0, "%s", buf_cstr(&inner.history.error));
	inner.history.sim->hook = NULL;
	*f = inner.history;
	/* the store calls back with what it got when it was opened */
	store_fixture_kill(f);
}

/* Works with what was recovered, and finds that again. */
static void
use_and_reopen(struct store_fixture *f, uint64_t how)
{
	uint32_t queue = store_fixture_queue(f);

	store_fixture_publish(f, &queue, 1, 100);
	if (f->ledger.messages[0].refs[0].settled == 0 &&
	    f->ledger.queues[f->ledger.messages[0].refs[0].queue].log != NULL)
		store_fixture_ack(f, 0, 0, ACK_CONSUMED);
	store_fixture_flush(f);
	if (how % 3 == 0)
		must(store_fixture_close(f, true) == 0);
	else
		store_fixture_crash(f, how % 3 == 1 ? SIM_NOTHING : SIM_RANDOM, how);
	expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
}

static void
try_state(struct simulator *s, struct store_fixture *point, enum disk_sim_survival how,
	  uint64_t number)
{
	struct store_fixture f;
	uint64_t count = states[s->depth]++;

	store_fixture_clone(&f, point);
	say_where(s, &f, how, number);
	store_fixture_crash(&f, how, number);
	if (s->depth == 0 && count % 64 == 0)
		open_dying(s, &f);
	if (f.store == NULL)
		expect(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	if (count % 4 == 0)
		use_and_reopen(&f, count / 4);
	store_fixture_fini(&f);
}

/* The process dies first and another one finds what was written, synced or not; then the machine.
 * What the second one has found it has reported. */
static void
try_two_deaths(struct simulator *s, struct store_fixture *point, enum disk_sim_survival how,
	       uint64_t number)
{
	struct store_fixture f;

	states[s->depth]++;
	store_fixture_clone(&f, point);
	say_where(s, &f, how, number);
	expect(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	store_fixture_crash(&f, how, number);
	expect(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	store_fixture_fini(&f);
}

/* ---- a point ---- */

static void
try_point(struct simulator *s, struct store_fixture *point)
{
	uint64_t all = disk_sim_states(point->sim);

	points[s->depth]++;
	try_two_deaths(s, point, SIM_NOTHING, 0);
	try_two_deaths(s, point, SIM_RANDOM, store_fixture_random(&s->history, UINT64_MAX));
	if (all <= ALL_STATES && s->all_states) {
		for (uint64_t i = 0; i < all; i++)
			try_state(s, point, SIM_NTH, i);
		return;
	}
	try_state(s, point, SIM_NOTHING, 0);
	try_state(s, point, SIM_EVERYTHING, 0);
	for (unsigned i = 0; i < s->samples; i++)
		try_state(s, point, SIM_RANDOM, store_fixture_random(&s->history, UINT64_MAX));
}

/* Two threads work: in the middle of what one does the other may do all that it has to. */
static void
interleave(struct simulator *s)
{
	if (s->history.store == NULL)
		return;
	switch (store_fixture_random(&s->history, 6)) {
	case 0:
		store_fixture_write(&s->history);
		break;
	case 1:
		store_fixture_help(&s->history);
		break;
	default:
		break;
	}
}

static void
crash_here(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	struct simulator *s = context;
	struct store_fixture point;

	(void)sim;
	if (!call->over || call->kind >= SIM_OPEN)
		return;
	store_fixture_clone(&point, &s->history);
	try_point(s, &point);
	store_fixture_fini(&point);
	interleave(s);
}

/* ---- histories ---- */

/* So that some batches have many sectors. */
static void
publish_many(struct store_fixture *f)
{
	uint32_t queue = store_fixture_queue(f);

	for (uint64_t n = store_fixture_random(f, 30); n > 0; n--)
		store_fixture_publish(f, &queue, 1, store_fixture_size(f));
}

/* Random work: three runs of the store, ended in some way. */
static void
work_at_random(struct store_fixture *f)
{
	f->options.buffer_size = 4096U << store_fixture_random(f, 6);
	f->options.checkpoint_size = 2048U << store_fixture_random(f, 8);
	for (unsigned run = 0; run < 3; run++) {
		unsigned steps = 5 + (unsigned)store_fixture_random(f, 20);

		expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
		for (unsigned i = 0; i < steps; i++)
			if (store_fixture_random(f, 12) == 0)
				publish_many(f);
			else
				store_fixture_step(f);
		must(store_fixture_close(f, store_fixture_random(f, 2) == 0) == 0);
	}
}

/* Settles what is open, all but a few at times. */
static void
settle(struct store_fixture *f)
{
	bool all = store_fixture_random(f, 3) != 0;

	for (size_t i = 0; i < f->ledger.message_count; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++)
			if (f->ledger.messages[i].refs[n].settled == 0 &&
			    (all || store_fixture_random(f, 8) != 0))
				store_fixture_ack(f, i, n, ACK_CONSUMED);
}

/* A queue fills and is drained, so that checkpoints come often and files go. */
static void
fill_and_drain(struct store_fixture *f)
{
	uint32_t queue;

	f->options.file_size = 16 * 1024;
	f->options.checkpoint_size = 4 * 1024;
	expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
	queue = store_fixture_queue(f);
	for (unsigned round = 0; round < 8; round++) {
		for (uint64_t n = 1 + store_fixture_random(f, 8); n > 0; n--)
			store_fixture_publish(f, &queue, 1,
					      (uint32_t)store_fixture_random(f, 3000));
		store_fixture_flush(f);
		settle(f);
		/* checkpoints may not come too often */
		f->now.monotonic_ms += 1000;
		store_fixture_submit(f, false);
		while (store_fixture_work(f))
			store_fixture_submit(f, false);
	}
	must(store_fixture_close(f, store_fixture_random(f, 2) == 0) == 0);
	expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
}

/* Does the work; at every call that it makes the machine dies. */
static void
run_history(uint64_t seed, void (*work)(struct store_fixture *f))
{
	struct simulator s = {.seed = seed, .all_states = true, .samples = 60};

	store_fixture_init(&s.history, seed);
	s.history.sim->hook = crash_here;
	s.history.sim->context = &s;
	work(&s.history);
	s.history.sim->hook = NULL;
	store_fixture_fini(&s.history);
}

/* The test fails when there were fewer states than least: it would prove little. */
static void
run_histories(const char *name, void (*work)(struct store_fixture *f), uint64_t histories,
	      unsigned long long least)
{
	const char *scale = getenv("STORE_CRASH_SCALE");
	const char *first = getenv("STORE_CRASH_SEED");
	uint64_t seed = first == NULL ? FIRST_SEED : strtoull(first, NULL, 10);

	/* disks come and go all the time: the memory is kept */
	mallopt(M_MMAP_THRESHOLD, 16 * 1024 * 1024);
	mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
	histories *= scale == NULL ? 1 : strtoull(scale, NULL, 10);
	for (uint64_t i = 0; i < histories; i++) {
		/* when it fails, this is the seed to start with */
		printf("\r%s: seed %llu ", name, (unsigned long long)(seed + i));
		fflush(stdout);
		run_history(seed + i, work);
	}
	printf("\r%s: %llu histories from seed %llu: %llu points, %llu states; in recoveries %llu "
	       "points, %llu states\n",
	       name, (unsigned long long)histories, (unsigned long long)seed, points[0], states[0],
	       points[1], states[1]);
	ck_assert_uint_ge(states[0], least);
}

START_TEST(test_what_is_stable_survives_every_crash)
{
	run_histories("store crash", work_at_random, HISTORIES, LEAST_STATES);
}
END_TEST

START_TEST(test_checkpoints_and_reclaimed_files_survive_every_crash)
{
	run_histories("store crash, checkpoints", fill_and_drain, DRAINS, 1000);
}
END_TEST

TESTS("store_crash", test_what_is_stable_survives_every_crash,
      test_checkpoints_and_reclaimed_files_survive_every_crash)
