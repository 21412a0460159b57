/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails. One history of a store (made, worked with over several files, closed, opened again) is
 * run once for each call of the disk that it makes, and that call fails, alone or with all that follow.
 * Whatever comes of it, what was reported stable is there after the machine has died at the end, and
 * after a failed write nothing is reported stable any more.
 */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>

#include "lib/runner.h"
#include "lib/store_fixture.h"

#define ROUNDS 12
#define SECOND_MS 1000

/* What the histories came to. */
struct outcome {
	uint64_t calls;	  // that could fail
	uint64_t refused; // openings
	uint64_t failed;  // ops.failed
	uint64_t unclean; // closings that could not do what they should
	uint64_t went_on; // as if nothing had been
};

/* Works until nothing is left to do; what cannot be done is tried again a few times. */
static void
settle(struct store_fixture *f)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		f->now.monotonic_ms += SECOND_MS;
		store_fixture_submit(f, false);
		if (!store_fixture_work(f))
			break;
	}
}

/* Once the log has failed nothing becomes stable, and nobody is told again. */
static void
check_failed(struct store_fixture *f, uint32_t queue)
{
	uint64_t stable = f->ledger.stable;

	for (unsigned i = 0; i < 3; i++) {
		store_fixture_publish(f, &queue, 1, 100);
		settle(f); /* the fixture asserts that ops.failed comes once */
	}
	ck_assert_uint_eq(f->ledger.stable, stable);
	ck_assert_uint_eq(store_stable(f->store), stable);
}

/* Work that begins several files; false when the log failed on the way. */
static bool
work(struct store_fixture *f, unsigned batches)
{
	uint32_t queues[2] = {store_fixture_queue(f), store_fixture_queue(f)};

	for (unsigned i = 0; i < batches && !f->failed; i++) {
		size_t message =
			store_fixture_publish(f, queues, 1 + i % 2, i % 5 == 4 ? 9000 : 700);

		if (i % 3 == 0)
			store_fixture_ack(f, message, 0, ACK_CONSUMED);
		if (i == 2)
			store_fixture_deliver(f, queues[0]);
		settle(f);
	}
	if (f->failed)
		check_failed(f, queues[0]);
	return !f->failed;
}

/* Opens; false when it was refused, with one line that says why. */
static bool
opened(struct store_fixture *f, struct outcome *o)
{
	if (store_fixture_open(f) == 0)
		return true;
	ck_assert_ptr_nonnull(strstr(buf_cstr(&f->error), "store: "));
	ck_assert_ptr_null(strchr(buf_cstr(&f->error), '\n'));
	o->refused++;
	return false;
}

/* The machine dies now, in several ways, and comes back without faults. */
static void
check_recovery(struct store_fixture *f, uint64_t seed)
{
	static const enum disk_sim_survival ways[] = {SIM_NOTHING, SIM_EVERYTHING, SIM_RANDOM,
						      SIM_RANDOM,  SIM_RANDOM,	   SIM_RANDOM};

	store_fixture_kill(f);
	disk_sim_clear_faults(f->sim);
	for (size_t i = 0; i < countof(ways); i++) {
		struct store_fixture after;
		int error;

		store_fixture_clone(&after, f);
		store_fixture_crash(&after, ways[i], countof(ways) * seed + i);
		error = store_fixture_open(&after);
		ck_assert_msg(error == 0, "fault %llu: %d, %s", (unsigned long long)seed, error,
			      buf_cstr(&after.error));
		ck_assert(work(&after, 1));
		store_fixture_fini(&after);
	}
}

/* ---- histories ---- */

/* Makes a store, works, closes it, opens it again, works, and is killed. */
static void
whole_life(struct store_fixture *f, struct outcome *o)
{
	if (!opened(f, o))
		return;
	if (!work(f, 14)) {
		o->failed++;
		return;
	}
	if (store_fixture_close(f, true) != 0) {
		o->unclean++;
		return;
	}
	if (!opened(f, o))
		return;
	if (!work(f, 2))
		o->failed++;
	else
		o->went_on++;
}

/* Opens a store that was killed at work, and works. */
static void
recovery(struct store_fixture *f, struct outcome *o)
{
	if (!opened(f, o))
		return;
	if (!work(f, 2))
		o->failed++;
	else
		o->went_on++;
}

static void
begin(struct store_fixture *f)
{
	store_fixture_init(f, 1);
	f->options.file_size = 20 * 1024;
	f->options.checkpoint_size = 32 * 1024;
}

/* A disk that has a torn tail, an old checkpoint and a file that is prepared. */
static void
begin_killed(struct store_fixture *f)
{
	begin(f);
	ck_assert_int_eq(store_fixture_open(f), 0);
	ck_assert(work(f, 11));
	store_fixture_publish(f, &(uint32_t){0}, 1, 2000);
	store_fixture_submit(f, false);
	disk_sim_fail(f->sim, (struct disk_sim_fault){.kind = SIM_SYNC, .at = 1, .error = -EIO});
	store_fixture_write(f);
	store_fixture_crash(f, SIM_RANDOM, 11);
}

/* How often the history makes such a call when nothing fails. */
static uint64_t
count_calls(struct store_fixture *base, enum disk_sim_kind kind,
	    void (*history)(struct store_fixture *f, struct outcome *o))
{
	struct outcome o = {0};
	struct store_fixture f;
	uint64_t calls;

	store_fixture_clone(&f, base);
	history(&f, &o);
	ck_assert_uint_eq(o.went_on, 1);
	calls = kind == SIM_ANY ? f.sim->changes - base->sim->changes : f.sim->counts.calls[kind];
	check_recovery(&f, 0);
	store_fixture_fini(&f);
	return calls;
}

/* Runs the history once for each call of the kind, which fails. */
static void
fail_each_call(struct store_fixture *base, struct disk_sim_fault fault,
	       void (*history)(struct store_fixture *f, struct outcome *o), struct outcome *o)
{
	uint64_t calls = count_calls(base, fault.kind, history);

	ck_assert_uint_gt(calls, 0);
	for (fault.at = 1; fault.at <= calls; fault.at++) {
		struct store_fixture f;

		store_fixture_clone(&f, base);
		disk_sim_fail(f.sim, fault);
		history(&f, o);
		check_recovery(&f, fault.at);
		store_fixture_fini(&f);
	}
	o->calls += calls;
}

static void
fail_in_all_ways(void (*before)(struct store_fixture *f), enum disk_sim_kind kind,
		 void (*history)(struct store_fixture *f, struct outcome *o), const char *what)
{
	static const struct disk_sim_fault ways[] = {
		{.error = -EIO},
		{.error = -EIO, .for_ever = true},
		{.error = -ENOSPC},
		{.error = -ENOSPC, .for_ever = true},
		{.error = -EIO, .part = 700},
		{.error = -ENOSPC, .part = 4096, .for_ever = true},
	};
	struct store_fixture base;
	struct outcome o = {0};

	before(&base);
	for (size_t i = 0; i < countof(ways); i++) {
		struct disk_sim_fault fault = ways[i];

		fault.kind = kind;
		/* only a write has a part */
		if (fault.part == 0 || kind == SIM_ANY || kind == SIM_WRITE)
			fail_each_call(&base, fault, history, &o);
	}
	store_fixture_fini(&base);
	printf("%s: calls covered %llu, refused %llu, failed %llu, not clean %llu, went on %llu; "
	       "false stable = 0\n",
	       what, (unsigned long long)o.calls, (unsigned long long)o.refused,
	       (unsigned long long)o.failed, (unsigned long long)o.unclean,
	       (unsigned long long)o.went_on);
	(void)fflush(stdout);
}

START_TEST(test_any_change_fails_in_the_life_of_a_store)
{
	fail_in_all_ways(begin, SIM_ANY, whole_life, "life");
}
END_TEST

START_TEST(test_any_change_fails_in_recovery)
{
	fail_in_all_ways(begin_killed, SIM_ANY, recovery, "recovery");
}
END_TEST

START_TEST(test_any_look_at_the_disk_fails_in_recovery)
{
	fail_in_all_ways(begin_killed, SIM_OPEN, recovery, "recovery, open");
	fail_in_all_ways(begin_killed, SIM_READ, recovery, "recovery, read");
	fail_in_all_ways(begin_killed, SIM_LIST, recovery, "recovery, list");
	fail_in_all_ways(begin_killed, SIM_LOCK, recovery, "recovery, lock");
}
END_TEST

/* ---- no space for the next file ---- */

/* Publishes until space is short, and on. */
static void
run_short(struct store_fixture *f, uint32_t queue)
{
	for (unsigned i = 0; i < 60 && !f->is_short; i++) {
		store_fixture_publish(f, &queue, 1, 900);
		settle(f);
	}
	ck_assert(f->is_short);
	ck_assert(store_is_full(f->store, f->now));
	for (unsigned i = 0; i < 40; i++) {
		size_t message = store_fixture_publish(f, &queue, 1, 900);

		store_fixture_ack(f, message, 0, ACK_CONSUMED);
		settle(f);
	}
	ck_assert(f->is_short);
	ck_assert(!f->failed);
	ck_assert_uint_lt(f->ledger.stable, store_fixture_last_lsn(f));
}

/* Space is there again: all that waited is written. */
static void
run_on(struct store_fixture *f)
{
	settle(f);
	settle(f);
	ck_assert(!f->failed);
	ck_assert(!f->is_short);
	ck_assert(!store_is_full(f->store, f->now));
	ck_assert_uint_eq(f->ledger.stable, store_fixture_last_lsn(f));
	ck_assert_uint_eq(f->short_calls, 2);
	check_recovery(f, 1);
}

START_TEST(test_no_space_for_a_file_is_said_and_waited_for)
{
	struct store_fixture f;
	uint32_t queue;

	begin(&f);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	settle(&f);
	disk_sim_fail(f.sim, (struct disk_sim_fault){.kind = SIM_ALLOCATE,
						     .path = "log/",
						     .at = 1,
						     .for_ever = true,
						     .error = -ENOSPC});
	run_short(&f, queue);
	disk_sim_clear_faults(f.sim);
	run_on(&f);
	store_fixture_fini(&f);
}
END_TEST

/* The same with a disk that is full. */
START_TEST(test_full_disk_loses_nothing)
{
	struct store_fixture f;
	uint32_t queue;

	begin(&f);
	f.sim->capacity = 90 * 1024;
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	settle(&f);
	run_short(&f, queue);
	f.sim->capacity = 0;
	run_on(&f);
	store_fixture_fini(&f);
}
END_TEST

START_TEST(test_death_while_short_of_space_loses_nothing_stable)
{
	struct store_fixture f;
	struct store_fixture later;
	uint32_t queue;

	begin(&f);
	f.sim->capacity = 90 * 1024;
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	settle(&f);
	run_short(&f, queue);
	store_fixture_clone(&later, &f);
	later.sim->capacity = 0;
	check_recovery(&later, 1);
	store_fixture_fini(&later);
	/* nor does a stop that cannot be clean */
	ck_assert_int_lt(store_fixture_close(&f, true), 0);
	ck_assert(!f.failed);
	f.sim->capacity = 0;
	check_recovery(&f, 2);
	store_fixture_fini(&f);
}
END_TEST

/* A file that could not be prepared is gone. */
START_TEST(test_failed_preparations_leave_no_files)
{
	struct store_fixture f;
	uint64_t made;
	uint64_t removed;

	begin(&f);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	disk_sim_fail(f.sim,
		      (struct disk_sim_fault){
			      .kind = SIM_ALLOCATE, .at = 1, .for_ever = true, .error = -ENOSPC});
	made = f.sim->counts.calls[SIM_CREATE];
	removed = f.sim->counts.calls[SIM_UNLINK];
	for (unsigned i = 0; i < 5; i++)
		settle(&f);
	made = f.sim->counts.calls[SIM_CREATE] - made;
	removed = f.sim->counts.calls[SIM_UNLINK] - removed;
	ck_assert_uint_gt(made, 1);
	ck_assert_uint_eq(made, removed);
	store_fixture_fini(&f);
}
END_TEST

TESTS("store_errors", test_any_change_fails_in_the_life_of_a_store,
      test_any_change_fails_in_recovery, test_any_look_at_the_disk_fails_in_recovery,
      test_no_space_for_a_file_is_said_and_waited_for, test_full_disk_loses_nothing,
      test_death_while_short_of_space_loses_nothing_stable, test_failed_preparations_leave_no_files)
