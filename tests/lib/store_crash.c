/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/store_crash.h"

#include <malloc.h>
#include <stdio.h>

#include "lib/runner.h"
/* To tell whose call it is. */
#include "store/internal.h"

#define FIRST_SEED 20260401

#define ALL_STATES 1024
#define SAMPLES 60

/* What is done with the crashes of one history. */
struct simulator {
	struct store_fixture history;
	const struct store_crash *how;
	uint64_t seed;
	uint64_t all_below; // of a crash with fewer states all are tried
	unsigned samples;   // else, random ones besides the two extremes
	unsigned depth;	    // crashes that led here: 0 in the history itself, 1 in a recovery
};

static unsigned long long points[2];
static unsigned long long states[2];

/* For whom looks for the cause of a failure. */
static void
say_where(const struct simulator *s, const struct store_fixture *crashed,
	  enum disk_sim_survival survival, uint64_t number)
{
	if (getenv("STORE_CRASH_VERBOSE") != NULL) {
		fprintf(stderr, "seed %llu call %llu depth %u how %d number %llu stable %llu\n",
			(unsigned long long)s->seed, (unsigned long long)s->history.sim->changes,
			s->depth, (int)survival, (unsigned long long)number,
			(unsigned long long)crashed->ledger.stable);
	}
}

/* ---- a state ---- */

static void crash_here(void *context, struct disk_sim *sim, const struct disk_sim_call *call);

/* Recovers, and dies at every call of the recovery. */
static void
open_dying(const struct simulator *s, struct store_fixture *f)
{
	struct simulator inner = {.how = s->how, .seed = s->seed, .samples = 2, .depth = 1};

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
	if (f->ledger.messages[0].refs[0].settled == 0 && !f->ledger.messages[0].refs[0].cold &&
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
try_also(const struct simulator *s, struct store_fixture *crashed, uint64_t number)
{
	struct store_fixture f;

	store_fixture_clone(&f, crashed);
	s->how->also(&f, number);
	store_fixture_fini(&f);
}

static void
try_state(struct simulator *s, struct store_fixture *point, enum disk_sim_survival survival,
	  uint64_t number)
{
	struct store_fixture f;
	uint64_t count = states[s->depth]++;

	store_fixture_clone(&f, point);
	say_where(s, &f, survival, number);
	store_fixture_crash(&f, survival, number);
	if (s->depth == 0 && s->how->also != NULL)
		try_also(s, &f, count);
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
try_two_deaths(struct simulator *s, struct store_fixture *point, enum disk_sim_survival survival,
	       uint64_t number)
{
	struct store_fixture f;

	states[s->depth]++;
	store_fixture_clone(&f, point);
	say_where(s, &f, survival, number);
	expect(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	store_fixture_crash(&f, survival, number);
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
	if (all < s->all_below) {
		for (uint64_t i = 0; i < all; i++)
			try_state(s, point, SIM_NTH, i);
		return;
	}
	try_state(s, point, SIM_NOTHING, 0);
	try_state(s, point, SIM_EVERYTHING, 0);
	for (unsigned i = 0; i < s->samples; i++)
		try_state(s, point, SIM_RANDOM, store_fixture_random(&s->history, UINT64_MAX));
}

/* Whether it is a call of the store thread: all that is written to the last segment is. */
static bool
is_writers(const struct store *store, const struct disk_sim_call *call)
{
	char path[PATH_MAX_SIZE];

	if (store->segment_count == 0 || (call->kind != SIM_WRITE && call->kind != SIM_SYNC))
		return false;
	segment_path(path, store->segments[store->segment_count - 1]->id);
	return strcmp(path, call->path) == 0;
}

/* Two threads work: in the middle of what one does the other may do all that it has to. */
static void
interleave(struct simulator *s, const struct disk_sim_call *call)
{
	if (s->history.store == NULL || store_fixture_random(&s->history, 3) != 0)
		return;
	if (is_writers(s->history.store, call))
		store_fixture_index_and_help(&s->history);
	else
		store_fixture_write(&s->history);
}

static void
crash_here(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	struct simulator *s = context;
	struct store_fixture point;

	(void)sim;
	if (!call->over || call->kind >= SIM_OPEN)
		return;
	if (s->depth > 0 || s->how->dies == NULL || s->how->dies(&s->history, call)) {
		store_fixture_clone(&point, &s->history);
		try_point(s, &point);
		store_fixture_fini(&point);
	}
	interleave(s, call);
}

/* ---- histories ---- */

/* Does the work; at every call that it makes the machine dies. */
static void
run_history(const struct store_crash *how, uint64_t seed)
{
	struct simulator s = {
		.how = how,
		.seed = seed,
		.all_below = how->all_below == 0 ? ALL_STATES : how->all_below,
		.samples = how->samples == 0 ? SAMPLES : how->samples,
	};

	store_fixture_init(&s.history, seed);
	s.history.sim->hook = crash_here;
	s.history.sim->context = &s;
	how->work(&s.history);
	s.history.sim->hook = NULL;
	store_fixture_fini(&s.history);
}

void
store_crash_run(const struct store_crash *how)
{
	uint64_t seed = runner_number("STORE_CRASH_SEED", FIRST_SEED);
	uint64_t histories = how->histories * runner_number("STORE_CRASH_SCALE", 1);

	/* disks come and go all the time: the memory is kept */
	mallopt(M_MMAP_THRESHOLD, 16 * 1024 * 1024);
	mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
	for (uint64_t i = 0; i < histories; i++) {
		/* when it fails, this is the seed to start with */
		printf("\r%s: seed %llu ", how->name, (unsigned long long)(seed + i));
		fflush(stdout);
		run_history(how, seed + i);
	}
	printf("\r%s: %llu histories from seed %llu: %llu points, %llu states; in recoveries %llu "
	       "points, %llu states\n",
	       how->name, (unsigned long long)histories, (unsigned long long)seed, points[0],
	       states[0], points[1], states[1]);
	ck_assert_uint_ge(states[0], how->least);
}
