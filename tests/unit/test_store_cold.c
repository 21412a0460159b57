/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the cold part of queues, case by case: from wherever messages are, in order and no more than was
 * asked for; again after they were returned; behind a merge; and after a restart. The fixture compares each
 * message with what was published and sees that none is passed over.
 */
#include "store_cold_fixture.h"

#include "store/checkpoint.h"
#include "store/merge.h"

/* ---- reading ---- */

START_TEST(test_messages_come_in_order_from_wherever_they_are)
{
	uint32_t queue = fill_everywhere();

	store_fixture_read_out(&f, queue, 7, 100000);
	ck_assert_uint_eq(log_of(queue)->cold_octets, 0);
	check_live();
}
END_TEST

START_TEST(test_read_brings_no_more_than_was_asked_for)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 60, 1000);
	for (unsigned before = 60; before > 0; before = (unsigned)log_of(queue)->cold_count) {
		store_fixture_read(&f, queue, 5, 2600);
		help();
		ck_assert_uint_ge(log_of(queue)->cold_count, before - 2);
	}
	/* one is always brought */
	store_fixture_evict(&f, queue, 58);
	for (unsigned i = 0; i < 4; i++) {
		store_fixture_read(&f, queue, 5, 0);
		help();
	}
	ck_assert_uint_eq(log_of(queue)->cold_count, 0);
}
END_TEST

START_TEST(test_read_of_what_is_not_written_waits_for_its_batch)
{
	uint32_t queue = store_fixture_queue(&f);

	store_fixture_flush(&f);
	publish(queue, 100);
	store_fixture_read(&f, queue, 10, 1000);
	help();
	ck_assert(!log_of(queue)->reading);
	store_fixture_submit(&f, false);
	/* on its way it cannot be read either */
	store_fixture_read(&f, queue, 10, 1000);
	help();
	ck_assert_uint_eq(log_of(queue)->cold_count, 1);
	write_batch();
	ck_assert(log_of(queue)->reading);
	help();
	ck_assert_uint_eq(log_of(queue)->cold_count, 0);
	ck_assert_uint_eq(f.read_ends, 1);
}
END_TEST

START_TEST(test_reads_that_have_to_wait_on_wait_for_the_next_batch)
{
	uint32_t queues[3];

	for (size_t i = 0; i < countof(queues); i++)
		queues[i] = store_fixture_queue(&f);
	store_fixture_submit(&f, false);
	for (size_t i = 0; i < countof(queues); i++) {
		publish(queues[i], 100);
		store_fixture_read(&f, queues[i], 10, 1000);
	}
	/* the batch that comes back has none of them */
	write_batch();
	for (size_t i = 0; i < countof(queues); i++)
		ck_assert_uint_eq(log_of(queues[i])->cold_count, 1);
	store_fixture_flush(&f);
	for (size_t i = 0; i < countof(queues); i++)
		ck_assert_uint_eq(log_of(queues[i])->cold_count, 0);
}
END_TEST

START_TEST(test_read_from_a_segment_that_is_being_sealed)
{
	uint32_t queue = store_fixture_queue(&f);

	publish(queue, 1000);
	store_fixture_flush(&f);
	begin_segment_anew(queue);
	store_fixture_read(&f, queue, 3, 100000);
	ck_assert(log_of(queue)->reading);
	help();
	ck_assert_ptr_null(f.store->sealing);
	store_fixture_read_out(&f, queue, 3, 100000);
	check_live();
}
END_TEST

START_TEST(test_read_does_not_wait_for_an_index)
{
	uint32_t queue = store_fixture_queue(&f);

	publish(queue, 1000);
	store_fixture_flush(&f);
	begin_segment_anew(queue);
	store_fixture_read(&f, queue, 3, 100000);
	store_fixture_help(&f);
	store_receive(f.store);
	ck_assert(!log_of(queue)->reading);
	ck_assert_ptr_nonnull(f.store->sealing);
	ck_assert_uint_eq(f.read_ends, 1);
}
END_TEST

/* Else its file could be used again while the index is still written to it. */
START_TEST(test_segment_without_messages_stays_until_it_has_its_index)
{
	uint32_t queue = store_fixture_queue(&f);
	uint64_t first;

	f.push = PUSH_NONE;
	store_fixture_flush(&f);
	begin_segment_anew(queue);
	first = f.store->segments[0]->id;
	for (size_t i = 0; f.ledger.messages[i].lsn <= f.store->segments[0]->last_lsn; i++)
		store_fixture_ack(&f, i, 0, ACK_CONSUMED);
	for (int i = 0; i < 4; i++) {
		store_fixture_deliver(&f, store_fixture_queue(&f));
		f.store->checkpoints.forced = true;
		for (int turns = 0; turns < 4; turns++) {
			f.now.monotonic_ms += SECOND_MS;
			store_fixture_submit(&f, false);
			write_batch();
			store_fixture_help(&f);
			store_receive(f.store);
		}
	}
	ck_assert_uint_gt(checkpoint_covered(f.store), f.store->segments[0]->last_lsn);
	ck_assert_uint_eq(f.store->segments[0]->id, first);
	help();
	ck_assert_uint_gt(f.store->segments[0]->id, first);
}
END_TEST

START_TEST(test_segment_that_was_read_before_it_was_sealed)
{
	uint32_t queue = store_fixture_queue(&f);

	publish(queue, 1000);
	store_fixture_flush(&f);
	store_fixture_read_out(&f, queue, 3, 100000);
	begin_segment_anew(queue);
	said_begin();
	store_fixture_flush(&f);
	store_fixture_evict(&f, queue, 1);
	store_fixture_read_out(&f, queue, 3, 100000);
	/* nobody thinks that it has no index */
	ck_assert_uint_eq(said("store: "), 0);
}
END_TEST

START_TEST(test_what_was_returned_is_read_again)
{
	uint32_t queue = fill_everywhere();
	uint64_t count = log_of(queue)->count;

	for (unsigned round = 0; round < 4; round++) {
		store_fixture_read(&f, queue, 30, 100000);
		store_fixture_flush(&f);
		store_fixture_evict(&f, queue, round == 3 ? 1 : 20);
		ck_assert_uint_gt(log_of(queue)->cold_count, 0);
		store_fixture_check(&f);
	}
	ck_assert_uint_eq(log_of(queue)->cold_count, count);
	store_fixture_read_out(&f, queue, 10, 100000);
	store_fixture_evict(&f, queue, count - 1);
	ck_assert_uint_eq(log_of(queue)->cold_count, 2);
	store_fixture_read_out(&f, queue, 10, 100000);
}
END_TEST

START_TEST(test_more_segments_than_the_reader_keeps_open)
{
	uint32_t queue = store_fixture_queue(&f);

	for (unsigned i = 0; i < 80; i++)
		publish_flushed(queue, 1, 15000);
	ck_assert_uint_gt(f.store->segment_count, 70);
	store_fixture_read_out(&f, queue, 5, 100000);
	store_fixture_evict(&f, queue, 1);
	store_fixture_read_out(&f, queue, 1, 100000);
	check_live();
}
END_TEST

START_TEST(test_messages_of_several_queues_of_which_some_are_cold)
{
	uint32_t queues[5];

	f.push = PUSH_NONE;
	for (size_t i = 0; i < countof(queues); i++)
		queues[i] = store_fixture_queue(&f);
	for (unsigned i = 0; i < 100; i++) {
		store_fixture_publish(&f, queues, 1 + i % 5, 900);
		if (i % 8 == 7)
			store_fixture_flush(&f);
	}
	store_fixture_flush(&f);
	store_fixture_evict(&f, queues[2], 11);
	store_fixture_evict(&f, queues[4], 1);
	store_fixture_read_out(&f, queues[4], 3, 2000);
	store_fixture_read_out(&f, queues[2], 50, 100000);
	store_fixture_evict(&f, queues[0], 1);
	store_fixture_purge(&f, queues[0]);
	store_fixture_flush(&f);
	store_fixture_check(&f);
	reopen(SIM_NOTHING);
}
END_TEST

START_TEST(test_large_records_of_many_queues_are_cut_to_what_was_asked_for)
{
	uint32_t queues[LEDGER_REFS];
	unsigned reads = 0;

	f.options.file_size = 1024 * 1024;
	store_fixture_close(&f, true);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	for (size_t i = 0; i < countof(queues); i++)
		queues[i] = store_fixture_queue(&f);
	/* the index of the segment that is written to knows an eighth of each */
	for (unsigned i = 0; i < 40; i++)
		store_fixture_publish(&f, queues, LEDGER_REFS, 10000);
	store_fixture_flush(&f);
	for (; log_of(queues[0])->cold_count > 0; reads++) {
		uint64_t before = log_of(queues[0])->cold_count;

		store_fixture_read(&f, queues[0], 100, 30000);
		help();
		ck_assert_uint_le(before - log_of(queues[0])->cold_count, 4);
	}
	ck_assert_uint_ge(reads, 10);
	store_fixture_check(&f);
}
END_TEST

/* ---- merges ---- */

/* One turn that lets checkpoints come, but takes in nothing that the helper has done. */
static void
turn(void)
{
	f.now.monotonic_ms += SECOND_MS;
	store_fixture_define(&f, 1, (uint32_t)(f.now.monotonic_ms / SECOND_MS % 2 + 1));
	store_fixture_submit(&f, false);
	store_fixture_write(&f);
	store_fixture_index_and_help(&f);
}

/* Files that are half garbage; the messages that are open are cold. */
static uint32_t
fill_by_halves(void)
{
	uint32_t queue;

	f.push = PUSH_NONE;
	f.options.garbage_files = 3;
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	for (unsigned i = 0; i < 90; i++) {
		size_t message = publish(queue, 1000);

		if (i % 3 != 0)
			store_fixture_ack(&f, message, 0, ACK_CONSUMED);
		if (i % 8 == 7)
			store_fixture_flush(&f);
	}
	store_fixture_flush(&f);
	store_fixture_evict(&f, queue, 1);
	/* only now, so that nothing is merged before */
	f.store->options.checkpoint_size = 1024;
	return queue;
}

/* Waits for a merge of two, and reads all that the left one has, and one message of the right one. */
static void
read_left_source(uint32_t queue)
{
	uint64_t left;

	for (unsigned i = 0; f.store->merge_state != MERGE_LISTED; i++) {
		ck_assert_uint_lt(i, 100);
		turn();
		store_receive(f.store);
	}
	ck_assert_uint_eq(f.store->merge->source_count, 2);
	left = segment_by_id(f.store, f.store->merge->header.id)->last_lsn;
	while (log_of(queue)->cold_lsn <= left) {
		store_fixture_read(&f, queue, 1, 1);
		help();
	}
}

/* Until the helper has done all; nobody has heard of it. */
static void
finish_merge(void)
{
	for (unsigned i = 0; f.store->merge->step != MERGE_STEP_DONE; i++) {
		ck_assert_uint_lt(i, 100);
		store_receive(f.store);
		turn();
	}
}

/* The right one of two segments that are merged is all that a read wants, and its messages are in the left
 * one when the helper comes to it. */
START_TEST(test_read_that_comes_behind_the_end_of_a_merge)
{
	uint32_t queue = fill_by_halves();

	read_left_source(queue);
	finish_merge();
	store_fixture_read(&f, queue, 5, 100000);
	ck_assert(log_of(queue)->reading);
	store_fixture_index_and_help(&f);
	store_receive(f.store);
	store_fixture_read_out(&f, queue, 5, 100000);
	store_fixture_check(&f);
	reopen(SIM_NOTHING);
}
END_TEST

/* Likewise what was purged is found where it is by then. */
START_TEST(test_purge_behind_the_end_of_a_merge)
{
	uint32_t queue = fill_by_halves();

	read_left_source(queue);
	/* nothing is open in the left one, as far as anybody knows */
	for (size_t i = 0; i < f.ledger.message_count; i++)
		if (f.ledger.messages[i].refs[0].settled == 0 && !f.ledger.messages[i].refs[0].cold)
			store_fixture_ack(&f, i, 0, ACK_CONSUMED);
	finish_merge();
	ck_assert_uint_eq(segment_by_id(f.store, f.store->merge->header.id)->live_refs, 0);
	store_fixture_purge(&f, queue);
	store_fixture_flush(&f);
	ck_assert_uint_eq(f.store->locating, 0);
	store_fixture_check(&f);
	reopen(SIM_NOTHING);
	ck_assert_uint_eq(log_of(queue)->count, 0);
}
END_TEST

/* ---- restarts ---- */

START_TEST(test_settled_messages_between_open_ones_are_left_out)
{
	uint32_t queue = store_fixture_queue(&f);

	f.push = PUSH_NONE;
	for (unsigned i = 0; i < 90; i++) {
		size_t message = publish(queue, 1000);

		if (i % 3 != 1)
			store_fixture_ack(&f, message, 0, ACK_CONSUMED);
		if (i % 8 == 7)
			store_fixture_flush(&f);
	}
	store_fixture_flush(&f);
	reopen(SIM_NOTHING);
	ck_assert_uint_eq(log_of(queue)->count, 30);
	store_fixture_flush(&f);
	check_live();
	/* and once more, from the state of a clean stop */
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	ck_assert_uint_eq(log_of(queue)->count, 30);
	store_fixture_flush(&f);
	check_live();
}
END_TEST

/* The opening compares the flags. */
START_TEST(test_messages_that_may_have_been_delivered_are_flagged)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 30, 1000);
	store_fixture_deliver(&f, queue);
	store_fixture_flush(&f);
	reopen(SIM_NOTHING);
	ck_assert_uint_eq(log_of(queue)->redelivered_below, 31);
	publish_flushed(queue, 30, 1000);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	ck_assert_uint_eq(log_of(queue)->redelivered_below, 31);
	ck_assert_uint_eq(log_of(queue)->count, 60);
}
END_TEST

struct reads {
	uint64_t octets; // of files of the log
	uint64_t calls;
};

static void
count_read(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	struct reads *reads = context;

	(void)sim;
	if (call->kind != SIM_READ || !call->over || strncmp(call->path, "log/", 4) != 0)
		return;
	reads->octets += (uint64_t)call->result;
	reads->calls++;
}

/* Opens without reading messages; *reads gets what of the log was read. */
static void
open_counting(struct reads *reads)
{
	*reads = (struct reads){0};
	f.skips = true;
	f.sim->hook = count_read;
	f.sim->context = reads;
	ck_assert_int_eq(store_fixture_open(&f), 0);
	f.sim->hook = NULL;
}

START_TEST(test_start_reads_no_messages_that_a_checkpoint_covers)
{
	uint32_t queue = store_fixture_queue(&f);
	struct reads reads;
	uint64_t segments;

	publish_flushed(queue, 80, 15000);
	segments = f.store->segment_count + 1;
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	open_counting(&reads);
	/* header twice, trailer, section headers */
	ck_assert_uint_le(reads.octets, segments * (2 * SEGMENT_HEADER_SIZE + 256));
	ck_assert_uint_eq(log_of(queue)->cold_count, 80);
	/* after a crash only what came since the checkpoint is read */
	publish_flushed(queue, 1, 15000);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_counting(&reads);
	ck_assert_uint_le(reads.octets,
			  segments * (2 * SEGMENT_HEADER_SIZE + 256) + 20 * 16 * 1024);
	store_fixture_read_out(&f, queue, 20, 1000000);
}
END_TEST

TESTS_WITH("store_cold", set_up, tear_down, test_messages_come_in_order_from_wherever_they_are,
	   test_read_brings_no_more_than_was_asked_for,
	   test_read_of_what_is_not_written_waits_for_its_batch,
	   test_reads_that_have_to_wait_on_wait_for_the_next_batch,
	   test_read_from_a_segment_that_is_being_sealed, test_read_does_not_wait_for_an_index,
	   test_segment_without_messages_stays_until_it_has_its_index,
	   test_segment_that_was_read_before_it_was_sealed, test_what_was_returned_is_read_again,
	   test_more_segments_than_the_reader_keeps_open,
	   test_messages_of_several_queues_of_which_some_are_cold,
	   test_large_records_of_many_queues_are_cut_to_what_was_asked_for,
	   test_read_that_comes_behind_the_end_of_a_merge, test_purge_behind_the_end_of_a_merge,
	   test_settled_messages_between_open_ones_are_left_out,
	   test_messages_that_may_have_been_delivered_are_flagged,
	   test_start_reads_no_messages_that_a_checkpoint_covers)
