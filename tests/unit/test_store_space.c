/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store on a disk with little room: what it gives back, what it does not use up while it waits, and how it
 * starts there.
 */
#include "store/internal.h"

#include <errno.h>

#include "store_plain_fixture.h"

/* So much is free. */
static void
leave(uint64_t octets)
{
	f.sim->capacity = UINT64_MAX / 2;
	f.sim->capacity -= (uint64_t)disk_free_space(&f.sim->disk) - octets;
}

/* A queue whose messages take several files, and settles every one that is no multiple of kept. */
static void
use_and_settle(unsigned kept)
{
	uint32_t queue = store_fixture_queue(&f);
	size_t messages[40];

	for (size_t i = 0; i < countof(messages); i++) {
		messages[i] = store_fixture_publish(&f, &queue, 1, 10 * 1024);
		store_fixture_flush(&f);
	}
	for (size_t i = 0; i < countof(messages); i++)
		if (kept == 0 || i % kept != 0)
			store_fixture_ack(&f, messages[i], 0, ACK_CONSUMED);
	store_fixture_flush(&f);
}

/* Some seconds in which nobody does anything. */
static void
wait_low(bool low)
{
	for (unsigned i = 0; i < 10; i++) {
		f.now.monotonic_ms += 1000;
		store_ask_space(f.store, low);
		store_fixture_submit(&f, false);
		store_fixture_flush(&f);
	}
}

START_TEST(test_a_low_disk_gets_back_the_files_that_nobody_needs)
{
	/* so many files that nothing is compacted by itself */
	f.options.garbage_files = 1000;
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
	use_and_settle(0);
	wait_low(false);
	ck_assert_uint_gt(f.store->segment_count, 2);
	wait_low(true);
	ck_assert_uint_le(f.store->segment_count, 2);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
}
END_TEST

START_TEST(test_a_low_disk_gets_back_garbage_that_else_would_stay)
{
	uint64_t before;

	f.options.garbage_percent = 99;
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
	use_and_settle(2);
	wait_low(false);
	before = f.store->segment_count;
	wait_low(true);
	ck_assert_uint_lt(f.store->segment_count, before * 3 / 4);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
}
END_TEST

START_TEST(test_nothing_is_written_when_there_is_nothing_to_give_back)
{
	uint64_t written;

	use_and_settle(0);
	wait_low(true);
	written = f.sim->counts.octets_written;
	wait_low(true);
	ck_assert_uint_eq(f.sim->counts.octets_written, written);
}
END_TEST

START_TEST(test_tries_use_up_no_numbers)
{
	uint32_t queue = store_fixture_queue(&f);
	uint64_t next;

	store_fixture_flush(&f);
	leave(1000);
	while (!f.is_short) {
		store_fixture_publish(&f, &queue, 1, 10 * 1024);
		store_fixture_flush(&f);
	}
	next = f.store->next_segment_id;
	for (unsigned i = 0; i < 20; i++) {
		f.now.monotonic_ms += 1000;
		store_fixture_submit(&f, false);
		store_fixture_work(&f);
		ck_assert(f.is_short);
	}
	ck_assert_uint_eq(f.store->next_segment_id, next);
	f.sim->capacity = 0;
	f.now.monotonic_ms += 1000;
	store_fixture_submit(&f, false);
	store_fixture_work(&f);
	ck_assert(!f.is_short);
	ck_assert_uint_eq(f.short_calls, 2);
}
END_TEST

/* A full disk gives nothing for a checkpoint either: it comes when there is room. */
START_TEST(test_a_checkpoint_that_had_no_room_comes_later)
{
	f.options.garbage_files = 1000;
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
	use_and_settle(0);
	leave(0);
	wait_low(true);
	ck_assert_uint_gt(f.store->segment_count, 2);
	ck_assert(!f.failed);
	f.sim->capacity = 0;
	wait_low(true);
	ck_assert_uint_le(f.store->segment_count, 2);
}
END_TEST

START_TEST(test_starts_with_less_room_than_a_file)
{
	uint32_t queue = store_fixture_queue(&f);
	size_t message;

	store_fixture_publish(&f, &queue, 1, 1000);
	store_fixture_flush(&f);
	f.options.file_size = 16 * 1024 * 1024;
	store_fixture_crash(&f, SIM_NOTHING, 0);
	leave(4 * 1024 * 1024);
	open_it();
	store_fixture_work(&f);
	store_fixture_flush(&f);
	message = f.ledger.message_count - 1;
	store_fixture_ack(&f, message, 0, ACK_CONSUMED);
	store_fixture_flush(&f);
	ck_assert(f.is_short);
	ck_assert_uint_lt(f.store->segments[f.store->segment_count - 1]->capacity,
			  16 * 1024 * 1024);
	f.sim->capacity = 0;
	f.now.monotonic_ms += 1000;
	store_fixture_submit(&f, false);
	store_fixture_work(&f);
	ck_assert(!f.is_short);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
}
END_TEST

START_TEST(test_a_start_without_any_room_says_how_much_is_missing)
{
	/* nothing is there that a start would remove */
	store_fixture_crash(&f, SIM_NOTHING, 0);
	leave(0);
	f.options.file_size = 4 * 1024 * 1024;
	for (unsigned i = 0; i < 3 && store_fixture_open(&f) == 0; i++) {
		store_fixture_crash(&f, SIM_NOTHING, 0);
		leave(0);
	}
	ck_assert_ptr_null(f.store);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&f.error), "octets are needed at least, "));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&f.error), "are free on the disk"));
	/* with room it starts as if nothing had been */
	store_fixture_crash(&f, SIM_NOTHING, 0);
	f.sim->capacity = 0;
	open_it();
}
END_TEST

TESTS_WITH("store_space", set_up, tear_down, test_a_low_disk_gets_back_the_files_that_nobody_needs,
	   test_a_low_disk_gets_back_garbage_that_else_would_stay,
	   test_nothing_is_written_when_there_is_nothing_to_give_back, test_tries_use_up_no_numbers,
	   test_a_checkpoint_that_had_no_room_comes_later, test_starts_with_less_room_than_a_file,
	   test_a_start_without_any_room_says_how_much_is_missing)
