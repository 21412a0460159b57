/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short random histories under the crash simulator (lib/store_crash.h): a store in memory, one whose files
 * fill and are drained, and one whose messages are cold.
 */
#include "store/store.h"

#include "lib/runner.h"
#include "lib/store_crash.h"

#ifdef ADDRESS_SANITIZER
#define HISTORIES 4
#define DRAINS 1
#define COLD_HISTORIES 1
#define LEAST_STATES 4000
#define LEAST_OTHER_STATES 1000
#else
#define HISTORIES 18
#define DRAINS 4
#define COLD_HISTORIES 4
#define LEAST_STATES 20000
#define LEAST_OTHER_STATES 10000
#endif

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

/* Files are sealed, queues are read, purged and removed, and what is open is moved together: nothing but
 * reads brings messages back. */
static void
work_on_cold(struct store_fixture *f)
{
	f->cold = true;
	f->timed = true;
	f->options.file_size = 8192U << store_fixture_random(f, 3);
	f->options.buffer_size = 4096;
	f->options.checkpoint_size = 2048U << store_fixture_random(f, 4);
	for (unsigned run = 0; run < 3; run++) {
		unsigned steps = 10 + (unsigned)store_fixture_random(f, 30);

		expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
		for (unsigned i = 0; i < steps; i++) {
			store_fixture_step(f);
			if (store_fixture_random(f, 20) == 0)
				publish_many(f);
			/* checkpoints may not come too often */
			if (store_fixture_random(f, 5) == 0)
				f->now.monotonic_ms += 1000;
			if (store_fixture_random(f, 5) == 0)
				store_fixture_flush(f);
			store_fixture_check(f);
		}
		must(store_fixture_close(f, store_fixture_random(f, 2) == 0) == 0);
	}
}

START_TEST(test_what_is_stable_survives_every_crash)
{
	store_crash_run(&(struct store_crash){
		.name = "store crash",
		.work = work_at_random,
		.histories = HISTORIES,
		.least = LEAST_STATES,
	});
}
END_TEST

START_TEST(test_checkpoints_and_reclaimed_files_survive_every_crash)
{
	store_crash_run(&(struct store_crash){
		.name = "store crash, checkpoints",
		.work = fill_and_drain,
		.histories = DRAINS,
		.least = LEAST_OTHER_STATES,
	});
}
END_TEST

START_TEST(test_what_is_cold_survives_every_crash)
{
	store_crash_run(&(struct store_crash){
		.name = "store crash, cold",
		.work = work_on_cold,
		.histories = COLD_HISTORIES,
		.least = LEAST_OTHER_STATES,
	});
}
END_TEST

TESTS("store_crash", test_what_is_stable_survives_every_crash,
      test_checkpoints_and_reclaimed_files_survive_every_crash,
      test_what_is_cold_survives_every_crash)
