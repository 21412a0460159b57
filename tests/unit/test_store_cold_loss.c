/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cold messages are spared and what they are not, case by case: they are purged, their queue is dropped,
 * their record or index is damaged, their segment cannot get its index. Live octets and references are always
 * those of a recount.
 */
#include "store_cold_fixture.h"

/* ---- purges ---- */

/* All that a purge changes, and its record, which a crash leaves or not. */
static void
purge_and_check(uint32_t queue)
{
	uint64_t hot = log_of(queue)->count - log_of(queue)->cold_count;
	unsigned ends = f.read_ends;

	store_fixture_purge(&f, queue);
	ck_assert_uint_eq(log_of(queue)->count, hot);
	ck_assert(!log_of(queue)->reading);
	store_fixture_check(&f);
	store_fixture_flush(&f);
	check_live();
	/* what was asked for is no answer any more */
	ck_assert_uint_eq(f.read_ends, ends);
	publish(queue, 1000);
	store_fixture_read_out(&f, queue, 10, 100000);
	check_live();
	reopen(SIM_NOTHING);
	ck_assert_uint_eq(log_of(queue)->count, hot + 1);
	store_fixture_flush(&f);
	check_live();
}

START_TEST(test_purge_takes_messages_off_from_wherever_they_are)
{
	purge_and_check(fill_everywhere());
}
END_TEST

START_TEST(test_purge_leaves_what_is_in_memory)
{
	uint32_t queue = fill_everywhere();

	store_fixture_read(&f, queue, 30, 100000);
	store_fixture_flush(&f);
	ck_assert_uint_lt(log_of(queue)->cold_count, log_of(queue)->count);
	purge_and_check(queue);
}
END_TEST

START_TEST(test_purge_while_a_read_is_on_its_way)
{
	uint32_t queue = fill_everywhere();

	store_fixture_read(&f, queue, 30, 100000);
	ck_assert(log_of(queue)->reading);
	/* it is read, but does not arrive before the purge */
	store_fixture_index_and_help(&f);
	purge_and_check(queue);
}
END_TEST

START_TEST(test_purge_while_a_read_waits_for_a_batch)
{
	uint32_t queue = store_fixture_queue(&f);

	publish(queue, 1000);
	store_fixture_read(&f, queue, 1, 100000);
	purge_and_check(queue);
}
END_TEST

START_TEST(test_marks_before_a_purge_are_logged_before_it)
{
	uint32_t queue = store_fixture_queue(&f);
	size_t first;

	f.push = PUSH_NONE;
	first = publish(queue, 1000);
	publish(queue, 1000);
	publish(queue, 1000);
	store_fixture_evict(&f, queue, 3);
	store_fixture_flush(&f);
	store_fixture_ack(&f, first, 0, ACK_CONSUMED);
	store_fixture_purge(&f, queue);
	ck_assert_uint_eq(log_of(queue)->count, 1);
	store_fixture_flush(&f);
	check_live();
	reopen(SIM_NOTHING);
	ck_assert_uint_eq(log_of(queue)->count, 1);
}
END_TEST

START_TEST(test_dropped_queue_leaves_nothing)
{
	uint32_t queue = fill_everywhere();

	store_fixture_read(&f, queue, 30, 100000);
	ck_assert(log_of(queue)->reading);
	store_fixture_index_and_help(&f);
	store_fixture_drop(&f, queue);
	store_fixture_flush(&f);
	ck_assert_uint_eq(f.read_ends, 0);
	check_live();
	reopen(SIM_NOTHING);
	store_fixture_flush(&f);
	check_live();
}
END_TEST

/* Marks since the last checkpoint are taken off the segments though the queue is gone. */
START_TEST(test_marks_of_a_queue_that_was_removed_count)
{
	uint32_t queue = store_fixture_queue(&f);
	uint32_t other = store_fixture_queue(&f);

	publish_flushed(queue, 40, 1000);
	publish_flushed(other, 40, 1000);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	store_fixture_read_out(&f, queue, 100, 1000000);
	for (size_t i = 5; i < 30; i++)
		store_fixture_ack(&f, i, 0, ACK_CONSUMED);
	store_fixture_flush(&f);
	store_fixture_drop(&f, queue);
	store_fixture_flush(&f);
	reopen(SIM_NOTHING);
	store_fixture_flush(&f);
	check_live();
}
END_TEST

/* An open segment without an open message may be in a checkpoint, and get messages behind it. */
START_TEST(test_segment_that_was_empty_at_a_checkpoint_is_kept)
{
	uint32_t queue;

	f.push = PUSH_NONE;
	f.options.checkpoint_size = 512;
	f.options.file_size = 64 * 1024;
	ck_assert_int_eq(store_fixture_close(&f, false), 0);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	store_fixture_ack(&f, publish(queue, 1000), 0, ACK_CONSUMED);
	f.now.monotonic_ms += 10 * SECOND_MS;
	store_fixture_flush(&f);
	ck_assert_uint_gt(f.store->checkpoints.count, 0);
	f.store->options.checkpoint_size = f.options.checkpoint_size = MANY;
	publish(queue, 1000);
	store_fixture_flush(&f);
	/* the last batch is moved to another segment by the start */
	store_fixture_define(&f, 2, 1);
	store_fixture_flush(&f);
	f.options.checkpoint_size = 512;
	reopen(SIM_NOTHING);
	for (unsigned i = 0; i < 6; i++) {
		f.now.monotonic_ms += 10 * SECOND_MS;
		store_fixture_define(&f, 1, 1 + i);
		store_fixture_flush(&f);
	}
	check_live();
	reopen(SIM_NOTHING);
	ck_assert_uint_eq(log_of(queue)->count, 1);
}
END_TEST

/* The second of two checkpoints with the same LSN is the same file: it covers nothing twice. */
START_TEST(test_stops_with_nothing_logged_between_them_keep_the_end_of_the_log)
{
	publish(store_fixture_queue(&f), 1000);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_int_eq(store_fixture_close(&f, true), 0);
		ck_assert_int_eq(store_fixture_open(&f), 0);
		/* a segment without a message */
		if (i == 0) {
			store_fixture_define(&f, 1, 1);
			store_fixture_flush(&f);
		}
	}
	ck_assert_uint_eq(f.store->checkpoints.count, 2);
	reopen(SIM_NOTHING);
	reopen(SIM_EVERYTHING);
}
END_TEST

/* ---- damage ---- */

/* Changes octets of the record of a message. */
static void
damage(size_t message, size_t at, const void *p, size_t n)
{
	uint64_t lsn = f.ledger.messages[message].lsn;
	char path[PATH_MAX_SIZE];
	uint8_t octets[8];
	uint8_t *content;
	size_t size;
	size_t where = SEGMENT_HEADER_SIZE;

	segment_path(path, segment_of(f.store, lsn)->id);
	content = disk_sim_content(f.sim, path, &size);
	ck_assert_ptr_nonnull(content);
	le64_store(octets, lsn);
	/* the BATCH record before it may have the same LSN */
	while (memcmp(content + where + RECORD_AT_LSN, octets, 8) != 0 ||
	       content[where + RECORD_AT_TYPE] != RECORD_MESSAGE)
		where += RECORD_ALIGNMENT;
	ck_assert_uint_lt(where + at + n, size);
	memcpy(content + where + at, p, n);
}

/* Reads past messages that are damaged, count of them. */
static void
expect_left_out(uint32_t queue, unsigned count)
{
	struct queue_log *log = f.ledger.queues[queue].log;

	f.reading_all = true;
	for (unsigned i = 0; log->cold_count > 0; i++) {
		ck_assert_uint_lt(i, 1000);
		store_fixture_read(&f, queue, 10, 100000);
		help();
	}
	f.reading_all = false;
	ck_assert(!f.failed);
	ck_assert_uint_eq(log->cold_octets, 0);
	ck_assert_uint_eq(log->damaged, count);
	ck_assert_uint_eq(f.found.read_count, 60 - count);
	ck_assert_uint_eq(said("a message cannot be read: log/00000000"), count);
}

START_TEST(test_damaged_message_is_left_out_counted_and_said)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	said_begin();
	damage(3, 300, "x", 1);
	damage(20, RECORD_AT_LSN, "\xff", 1);
	damage(21, 100, "x", 1);
	expect_left_out(queue, 3);
}
END_TEST

START_TEST(test_damaged_size_is_not_believed)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	said_begin();
	damage(0, RECORD_AT_SIZE, "\xf8\xff\xff\xff", 4);
	damage(10, RECORD_AT_SIZE, "\0\0\0\0", 4);
	damage(11, RECORD_AT_SIZE, "\x18\0\0\0", 4);
	damage(20, RECORD_AT_SIZE, "\0\0\0\x10", 4);
	expect_left_out(queue, 4);
}
END_TEST

START_TEST(test_read_that_the_disk_refuses_ends_the_process)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	disk_sim_fail(f.sim, (struct disk_sim_fault){.kind = SIM_READ, .at = 3, .error = -EIO});
	store_fixture_read(&f, queue, 10, 100000);
	help();
	ck_assert(f.failed);
	ck_assert_uint_eq(f.read_ends, 0);
}
END_TEST

/* ---- damaged indexes ---- */

/* Changes an octet of the index of every sealed segment; how many there are. */
static unsigned
damage_indexes(bool entries)
{
	unsigned count = 0;

	for (size_t i = 0; i < f.store->segment_count; i++) {
		char path[PATH_MAX_SIZE];
		uint8_t *content;
		size_t size;

		if (f.store->segments[i]->tail != NULL)
			continue;
		segment_path(path, f.store->segments[i]->id);
		content = disk_sim_content(f.sim, path, &size);
		ck_assert_ptr_nonnull(content);
		if (entries)
			content[le64_load(content + size - TRAILER_SIZE + TRAILER_AT_SECTIONS) +
				SECTION_HEADER_SIZE] ^= 1;
		else
			content[size - TRAILER_SIZE - 1] ^= 1;
		count++;
	}
	return count;
}

START_TEST(test_damaged_index_is_built_anew)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	said_begin();
	for (unsigned round = 0; round < 2; round++) {
		unsigned count = damage_indexes(round == 1);

		ck_assert_uint_gt(count, 2);
		store_fixture_read_out(&f, queue, 10, 100000);
		ck_assert(!f.failed);
		ck_assert_uint_le(said("is built anew"), (round + 1) * count);
		ck_assert_uint_ge(said("is built anew"), (round + 1) * (count - 1));
		/* it stays as it is then */
		store_fixture_evict(&f, queue, 1);
		store_fixture_read_out(&f, queue, 10, 100000);
		ck_assert_uint_le(said("is built anew"), (round + 1) * count);
		store_fixture_evict(&f, queue, 1);
	}
	reopen(SIM_NOTHING);
	ck_assert_uint_eq(log_of(queue)->count, 60);
}
END_TEST

START_TEST(test_purge_finds_messages_though_the_index_is_damaged)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	said_begin();
	ck_assert_uint_gt(damage_indexes(false), 2);
	store_fixture_purge(&f, queue);
	store_fixture_flush(&f);
	ck_assert(!f.failed);
	check_live();
}
END_TEST

/* ---- damaged indexes and damaged records ---- */

/* Reads all that is there, and on; how many messages came. */
static unsigned
read_what_is_left(uint32_t queue)
{
	struct queue_log *log = f.ledger.queues[queue].log;
	size_t before = f.found.read_count;

	f.reading_all = true;
	for (unsigned i = 0; log->cold_count > 0; i++) {
		ck_assert_uint_lt(i, 1000);
		store_fixture_read(&f, queue, 10, 100000);
		store_fixture_submit(&f, false);
		store_fixture_work(&f);
		ck_assert(!f.failed);
		f.now.monotonic_ms++;
	}
	f.reading_all = false;
	ck_assert(!log->reading);
	ck_assert_uint_eq(log->cold_octets, 0);
	return (unsigned)(f.found.read_count - before);
}

/* Sealed segments with 60 messages of one queue; some are damaged, and all indexes. */
static uint32_t
begin_loss(bool entries)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	said_begin();
	damage(3, 300, "x", 1);
	damage(20, RECORD_AT_SIZE, "\xf8\xff\xff\xff", 4);
	damage(21, RECORD_AT_LSN, "\xff", 1);
	damage(22, RECORD_AT_TYPE, "\x7f", 1);
	ck_assert_uint_gt(damage_indexes(entries), 2);
	return queue;
}

static void
expect_loss(uint32_t queue)
{
	const struct queue_log *log = log_of(queue);

	ck_assert_uint_eq(read_what_is_left(queue), 56);
	ck_assert_uint_eq(log->damaged, 4);
	ck_assert_uint_eq(log->count, 60);
	ck_assert_uint_eq(said("the messages there are left out"), 2);
	ck_assert_uint_eq(said("count=4; they are left out"), 1);
}

START_TEST(test_damaged_index_of_damaged_records_has_the_others)
{
	uint32_t queue = begin_loss(true);

	expect_loss(queue);
	/* nothing is waited for any more, and what comes now does */
	publish(queue, 1000);
	ck_assert_uint_eq(log_of(queue)->cold_count, 1);
	ck_assert_uint_eq(read_what_is_left(queue), 1);
	ck_assert_uint_eq(log_of(queue)->damaged, 4);
}
END_TEST

START_TEST(test_lost_messages_are_open_after_a_restart)
{
	uint32_t queue = begin_loss(false);

	expect_loss(queue);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(store_fixture_close(&f, true), 0);
		f.skips = true;
		ck_assert_msg(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
		ck_assert_uint_eq(log_of(queue)->cold_count, 60);
		ck_assert_uint_eq(read_what_is_left(queue), 56);
	}
}
END_TEST

/* Cuts the end of every sealed segment, which says where its index is; how many there are. */
static void
damage_trailers(void)
{
	for (size_t i = 0; i < f.store->segment_count; i++) {
		char path[PATH_MAX_SIZE];
		uint8_t *content;
		size_t size;

		if (f.store->segments[i]->tail != NULL)
			continue;
		segment_path(path, f.store->segments[i]->id);
		content = disk_sim_content(f.sim, path, &size);
		content[size - TRAILER_SIZE] ^= 1;
	}
}

START_TEST(test_missing_index_is_built_anew)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	said_begin();
	damage_trailers();
	store_fixture_read_out(&f, queue, 10, 100000);
	ck_assert(!f.failed);
	ck_assert_uint_gt(said("is built anew"), 2);
	reopen(SIM_NOTHING);
	ck_assert_uint_eq(log_of(queue)->count, 60);
}
END_TEST

START_TEST(test_missing_index_of_damaged_records_has_the_others)
{
	uint32_t queue = begin_loss(true);

	damage_trailers();
	expect_loss(queue);
}
END_TEST

/* The record of a batch is not that of a message: all of these are there. */
START_TEST(test_damaged_batch_loses_no_message)
{
	uint32_t queue = store_fixture_queue(&f);
	char path[PATH_MAX_SIZE];
	uint8_t *content;
	size_t size;

	publish_flushed(queue, 60, 1000);
	said_begin();
	segment_path(path, f.store->segments[1]->id);
	content = disk_sim_content(f.sim, path, &size);
	content[SEGMENT_HEADER_SIZE + BATCH_AT_NUMBER] ^= 1;
	ck_assert_uint_gt(damage_indexes(true), 2);
	store_fixture_read_out(&f, queue, 10, 100000);
	ck_assert(!f.failed);
	ck_assert_uint_eq(log_of(queue)->damaged, 0);
	ck_assert_uint_eq(said("octets=64; the messages there are left out"), 1);
}
END_TEST

START_TEST(test_purge_leaves_what_is_lost_in_its_segment)
{
	uint32_t queue = begin_loss(true);
	uint64_t open = 0;

	store_fixture_purge(&f, queue);
	store_fixture_flush(&f);
	ck_assert(!f.failed);
	for (size_t i = 0; i < f.store->segment_count; i++)
		open += f.store->segments[i]->live_refs;
	ck_assert_uint_eq(open, 4);
}
END_TEST

/* Both sources are looked at, and stay as they are. */
START_TEST(test_segment_with_a_loss_is_not_compacted)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	store_fixture_read_out(&f, queue, 100, 1000000);
	for (size_t i = 0; i < 60; i++)
		if (i % 8 != 0)
			store_fixture_ack(&f, i, 0, ACK_CONSUMED);
	store_fixture_flush(&f);
	said_begin();
	for (size_t i = 0; i < 60; i += 8)
		damage(i, 300, "x", 1);
	damage_indexes(true);
	f.store->options.garbage_files = 3;
	for (unsigned i = 0; i < 60; i++) {
		f.now.monotonic_ms += SECOND_MS;
		store_fixture_define(&f, 1, 1 + i % 2);
		store_fixture_flush(&f);
	}
	ck_assert(!f.failed);
	ck_assert_uint_eq(f.store->merged_octets, 0);
	ck_assert_uint_gt(said("it is not compacted"), 1);
}
END_TEST

/* What was left out is not counted again when what is at hand goes back to the disk. */
START_TEST(test_left_out_is_left_out_once)
{
	struct queue_log *log;
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	said_begin();
	damage(20, 100, "x", 1);
	damage(40, 100, "x", 1);
	/* one in the segment that is not sealed */
	ck_assert_ptr_nonnull(f.store->segments[f.store->segment_count - 1]->tail);
	damage(59, 100, "x", 1);
	log = f.ledger.queues[queue].log;
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(read_what_is_left(queue), 57);
		ck_assert_uint_eq(log->damaged, 3);
		store_cold_return(log, 1, 57, 57 * 900);
	}
	ck_assert_uint_eq(said("a message cannot be read"), 3);
}
END_TEST

START_TEST(test_sealing_leaves_out_what_is_damaged)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 5, 1000);
	said_begin();
	damage(2, 300, "x", 1);
	begin_segment_anew(queue);
	store_fixture_flush(&f);
	ck_assert(!f.failed);
	ck_assert_ptr_null(f.store->segments[0]->tail);
	ck_assert_uint_eq(said("the messages there are left out"), 1);
	ck_assert_uint_eq(read_what_is_left(queue), log_of(queue)->count - 1);
	ck_assert_uint_eq(log_of(queue)->damaged, 1);
}
END_TEST

/* ---- no room for a footer ---- */

/* Begins a segment, so that the one before is to be sealed, which has no room for that. */
static uint32_t
fail_to_seal(void)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 20, 1000);
	begin_segment_anew(queue);
	disk_sim_fail(f.sim,
		      (struct disk_sim_fault){
			      .kind = SIM_TRUNCATE, .at = 1, .for_ever = true, .error = -ENOSPC});
	help();
	ck_assert(f.is_short);
	ck_assert(store_is_full(f.store, f.now));
	ck_assert(!f.failed);
	return queue;
}

START_TEST(test_segment_without_room_for_its_index_is_sealed_later)
{
	uint32_t queue = fail_to_seal();
	uint64_t due;

	/* the next segment was prepared meanwhile; that is no room for this */
	ck_assert_ptr_nonnull(f.store->next);
	due = store_due_ms(f.store);
	ck_assert_uint_gt(due, f.now.monotonic_ms);
	ck_assert_uint_ne(due, UINT64_MAX);
	/* once more in vain */
	f.now.monotonic_ms = due;
	store_fixture_submit(&f, false);
	help();
	ck_assert(f.is_short);
	disk_sim_clear_faults(f.sim);
	f.now.monotonic_ms = store_due_ms(f.store);
	store_fixture_submit(&f, false);
	ck_assert(f.is_short);
	help();
	ck_assert(!f.is_short);
	ck_assert(!store_is_full(f.store, f.now));
	ck_assert_uint_eq(f.short_calls, 2);
	publish_flushed(queue, 40, 1000);
	store_fixture_read_out(&f, queue, 10, 100000);
	check_live();
	reopen(SIM_NOTHING);
}
END_TEST

START_TEST(test_messages_are_read_while_their_segment_cannot_be_sealed)
{
	uint32_t queue = fail_to_seal();

	while (log_of(queue)->cold_count > 0) {
		store_fixture_read(&f, queue, 10, 100000);
		help();
	}
	store_fixture_check(&f);
	reopen(SIM_NOTHING);
}
END_TEST

START_TEST(test_stop_while_a_segment_cannot_be_sealed_loses_nothing)
{
	uint32_t queue = fail_to_seal();

	publish(queue, 1000);
	ck_assert_int_eq(store_fixture_close(&f, true), -ENOSPC);
	disk_sim_clear_faults(f.sim);
	ck_assert_msg(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	store_fixture_flush(&f);
	store_fixture_check(&f);
}
END_TEST

TESTS_WITH("store_cold_loss", set_up, tear_down,
	   test_purge_takes_messages_off_from_wherever_they_are,
	   test_purge_leaves_what_is_in_memory, test_purge_while_a_read_is_on_its_way,
	   test_purge_while_a_read_waits_for_a_batch,
	   test_marks_before_a_purge_are_logged_before_it, test_dropped_queue_leaves_nothing,
	   test_marks_of_a_queue_that_was_removed_count,
	   test_segment_that_was_empty_at_a_checkpoint_is_kept,
	   test_stops_with_nothing_logged_between_them_keep_the_end_of_the_log,
	   test_damaged_message_is_left_out_counted_and_said, test_damaged_size_is_not_believed,
	   test_read_that_the_disk_refuses_ends_the_process, test_damaged_index_is_built_anew,
	   test_purge_finds_messages_though_the_index_is_damaged,
	   test_damaged_index_of_damaged_records_has_the_others,
	   test_lost_messages_are_open_after_a_restart, test_missing_index_is_built_anew,
	   test_missing_index_of_damaged_records_has_the_others,
	   test_damaged_batch_loses_no_message, test_purge_leaves_what_is_lost_in_its_segment,
	   test_segment_with_a_loss_is_not_compacted, test_left_out_is_left_out_once,
	   test_sealing_leaves_out_what_is_damaged,
	   test_segment_without_room_for_its_index_is_sealed_later,
	   test_messages_are_read_while_their_segment_cannot_be_sealed,
	   test_stop_while_a_segment_cannot_be_sealed_loses_nothing)
