/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch over the disk's free space: what it makes of the store's news, and when it looks. The disk is
 * simulated and its free space set by the test.
 */
#include "server/storage.h"

#include "broker/alarms.h"
#include "lib/disk_sim.h"
#include "lib/runner.h"

#define FILE_SIZE (64 * 1024)
#define RESERVE (3 * FILE_SIZE)

static struct deadlines deadlines;
static struct broker *broker;
static struct storage storage;
static struct disk_sim *sim;
static struct now now;

static bool
low(void)
{
	return (broker->alarms & ALARM_DISK) != 0;
}

/* All that happens by itself at this time, with the threads' work done. */
static void
turn(bool published)
{
	for (int i = 0; i < 10; i++) {
		broker_set_now(broker, now);
		store_receive(storage.store);
		deadlines_run(&deadlines, now.monotonic_ms);
		store_submit(storage.store, now, false);
		disk_watch_turn(&storage.watch, published);
		published = false;
		store_work(storage.store);
	}
}

static void
pass_ms(uint64_t ms)
{
	now.monotonic_ms += ms;
	now.wall_ms += ms;
}

/* So much is free from now on. */
static void
leave(uint64_t octets)
{
	sim->capacity = UINT64_MAX / 2;
	sim->capacity -= (uint64_t)disk_free_space(&sim->disk) - octets;
}

static void
set_up(void)
{
	struct broker_options options = broker_options_default();
	struct store_options store_options = store_options_default();
	struct buf error;

	thread_role = THREAD_BROKER;
	now = (struct now){.monotonic_ms = 1000, .wall_ms = 1000000};
	deadlines_init(&deadlines);
	broker = broker_new(&deadlines, &options);
	broker_set_now(broker, now);
	store_options.file_size = FILE_SIZE;
	sim = disk_sim_new();
	buf_init(&error, 0);
	ck_assert_msg(storage_open(&storage, &sim->disk, broker, &store_options, &error) == 0, "%s",
		      buf_cstr(&error));
	buf_fini(&error);
	disk_watch_set_limit(&storage.watch, 2 * RESERVE);
	turn(false);
}

static void
tear_down(void)
{
	sim->capacity = 0;
	storage_close(&storage, true);
	broker_free(&broker);
	deadlines_fini(&deadlines);
}

START_TEST(test_looks_once_a_second_while_anybody_publishes)
{
	leave(RESERVE);
	turn(false);
	ck_assert(!low());
	/* nobody publishes: nothing is to be done at any time */
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
	pass_ms(5000);
	turn(true);
	ck_assert(low());
	leave(100 * RESERVE);
	turn(true);
	ck_assert(low());
	ck_assert_uint_eq(deadlines_next(&deadlines), now.monotonic_ms + 1000);
	/* while it is on it looks by itself, and then no more */
	pass_ms(1000);
	turn(false);
	ck_assert(!low());
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
	turn(true);
	ck_assert_uint_eq(deadlines_next(&deadlines), now.monotonic_ms + 1000);
}
END_TEST

START_TEST(test_a_new_limit_counts_at_once)
{
	leave(10 * RESERVE);
	pass_ms(5000);
	turn(true);
	ck_assert(!low());
	disk_watch_set_limit(&storage.watch, 11 * RESERVE);
	ck_assert(low());
	disk_watch_set_limit(&storage.watch, RESERVE);
	ck_assert(!low());
}
END_TEST

START_TEST(test_a_small_limit_is_raised_to_the_reserve)
{
	disk_watch_set_limit(&storage.watch, 1);
	ck_assert_uint_eq(storage.watch.limit, RESERVE);
	disk_watch_set_limit(&storage.watch, RESERVE + 1);
	ck_assert_uint_eq(storage.watch.limit, RESERVE + 1);
}
END_TEST

START_TEST(test_what_cannot_be_known_stops_nobody)
{
	disk_watch_told(&storage.watch, 0);
	ck_assert(low());
	disk_watch_told(&storage.watch, -5);
	ck_assert(!low());
	disk_watch_short(&storage.watch, true);
	ck_assert(low());
	disk_watch_told(&storage.watch, INT64_MAX);
	ck_assert(low());
	disk_watch_short(&storage.watch, false);
	ck_assert(!low());
}
END_TEST

TESTS_WITH("disk_watch", set_up, tear_down, test_looks_once_a_second_while_anybody_publishes,
	   test_a_new_limit_counts_at_once, test_a_small_limit_is_raised_to_the_reserve,
	   test_what_cannot_be_known_stops_nobody)
