/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's calls, one rule each: when a batch goes to the writer and what becomes stable,
 * marks and queues. What recovery gives is compared with the ledger at each opening, so many
 * tests only do something and open again.
 */
#include "store/store.h"

#include "store_plain_fixture.h"

/* ---- group commit ---- */

START_TEST(test_a_record_goes_out_when_the_writer_is_idle)
{
	store_fixture_submit(&f, false);
	ck_assert(!store_fixture_is_writing(&f));
	store_fixture_define(&f, 1, 1);
	ck_assert(!store_fixture_is_writing(&f));
	store_fixture_submit(&f, false);
	ck_assert(store_fixture_is_writing(&f));
}
END_TEST

START_TEST(test_a_record_waits_while_input_waits_but_25_ms_at_most)
{
	store_fixture_define(&f, 1, 1);
	store_fixture_submit(&f, true);
	f.now.monotonic_ms += 24;
	store_fixture_submit(&f, true);
	ck_assert(!store_fixture_is_writing(&f));
	f.now.monotonic_ms++;
	store_fixture_submit(&f, true);
	ck_assert(store_fixture_is_writing(&f));
}
END_TEST

START_TEST(test_without_flush_when_idle_a_record_waits_25_ms)
{
	store_fixture_close(&f, true);
	f.options.flush_when_idle = false;
	open_it();
	store_fixture_define(&f, 1, 1);
	store_fixture_submit(&f, false);
	ck_assert(!store_fixture_is_writing(&f));
	f.now.monotonic_ms += 25;
	store_fixture_submit(&f, false);
	ck_assert(store_fixture_is_writing(&f));
}
END_TEST

START_TEST(test_a_full_batch_does_not_wait)
{
	uint32_t queue = queue_of(0);

	for (uint32_t size = 0; size < f.options.buffer_size; size += 16 * 1024) {
		store_fixture_submit(&f, true);
		ck_assert(!store_fixture_is_writing(&f));
		store_fixture_publish(&f, &queue, 1, 16 * 1024);
	}
	store_fixture_submit(&f, true);
	/* it is larger than a file, so one has to be made for it first */
	while (store_fixture_index_and_help(&f))
		store_receive(f.store);
	store_fixture_submit(&f, true);
	ck_assert(store_fixture_is_writing(&f));
}
END_TEST

START_TEST(test_one_batch_at_a_time_and_the_next_grows_meanwhile)
{
	uint64_t first;
	uint64_t second;

	store_fixture_define(&f, 1, 1);
	first = store_fixture_last_lsn(&f);
	store_fixture_submit(&f, false);
	f.stable_calls = 0;
	for (uint32_t i = 0; i < 5; i++) {
		store_fixture_define(&f, 2, i + 1);
		f.now.monotonic_ms += 30;
		store_fixture_submit(&f, false);
	}
	second = store_fixture_last_lsn(&f);
	ck_assert(store_fixture_write(&f));
	ck_assert(!store_fixture_write(&f));
	ck_assert_uint_lt(store_stable(f.store), first);
	store_receive(f.store);
	ck_assert_uint_eq(store_stable(f.store), first);
	store_fixture_submit(&f, true);
	ck_assert(store_fixture_write(&f));
	store_receive(f.store);
	ck_assert_uint_eq(store_stable(f.store), second);
	ck_assert_uint_eq(f.stable_calls, 2);
}
END_TEST

START_TEST(test_due_is_told)
{
	uint32_t queue = queue_of(1);

	ck_assert(store_due_ms(f.store) == UINT64_MAX);
	store_fixture_define(&f, 1, 1);
	store_fixture_submit(&f, true);
	ck_assert_uint_eq(store_due_ms(f.store), f.now.monotonic_ms + 25);
	f.now.monotonic_ms += 7;
	store_fixture_submit(&f, true);
	ck_assert_uint_eq(store_due_ms(f.store), f.now.monotonic_ms + 18);
	store_fixture_submit(&f, false);
	store_fixture_define(&f, 1, 2);
	store_fixture_submit(&f, true);
	/* the writer's mail wakes the loop */
	ck_assert(store_due_ms(f.store) == UINT64_MAX);
	store_fixture_flush(&f);
	ck_assert(store_due_ms(f.store) == UINT64_MAX);
	/* a mark alone is due too */
	store_fixture_ack(&f, f.ledger.message_count - 1, 0, ACK_CONSUMED);
	store_fixture_submit(&f, true);
	ck_assert_uint_eq(store_due_ms(f.store), f.now.monotonic_ms + 25);
	(void)queue;
}
END_TEST

START_TEST(test_it_is_full_while_too_much_waits)
{
	uint32_t queue = queue_of(0);

	store_fixture_define(&f, 1, 1);
	store_fixture_submit(&f, false);
	for (uint32_t size = 0; size < f.options.buffer_size; size += 16 * 1024) {
		ck_assert(!store_is_full(f.store, f.now));
		store_fixture_publish(&f, &queue, 1, 16 * 1024);
	}
	ck_assert(store_is_full(f.store, f.now));
	store_fixture_flush(&f);
	ck_assert(!store_is_full(f.store, f.now));
}
END_TEST

START_TEST(test_a_unit_may_be_larger_than_buffer_and_file)
{
	uint32_t queue = queue_of(0);
	uint64_t room = store_unit_max(f.store);

	ck_assert_uint_eq(room, f.options.unit_max);
	f.stable_calls = 0;
	for (; room > 101 * 1024; room -= 101 * 1024)
		store_fixture_publish(&f, &queue, 1, 100 * 1024);
	store_fixture_flush(&f);
	/* all of it or nothing: one batch */
	ck_assert_uint_eq(f.stable_calls, 1);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
}
END_TEST

/* ---- marks and queues ---- */

START_TEST(test_marks_of_a_batch_are_one_small_record)
{
	uint64_t lsn;
	uint64_t written;
	uint32_t a = queue_of(0);
	uint32_t b = queue_of(0);
	uint32_t queues[] = {a, b};

	for (unsigned i = 0; i < 1000; i++)
		store_fixture_publish(&f, queues, 2, 10);
	store_fixture_flush(&f);
	lsn = store_fixture_last_lsn(&f);
	written = octets_written();
	for (size_t i = 0; i < f.ledger.message_count; i++) {
		store_fixture_ack(&f, i, 0, ACK_CONSUMED);
		store_fixture_ack(&f, i, 1, i % 2 == 0 ? ACK_CONSUMED : ACK_EXPIRED);
	}
	store_fixture_submit(&f, false);
	ck_assert(store_fixture_write(&f));
	ck_assert_uint_eq(store_fixture_last_lsn(&f), lsn + 1);
	/* one range, and a thousand with a group each */
	ck_assert_uint_lt(octets_written() - written, 40000);
	store_fixture_flush(&f);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 0);
}
END_TEST

START_TEST(test_marks_in_order_take_one_sector)
{
	uint64_t written;

	queue_of(2000);
	written = octets_written();
	for (size_t i = 0; i < f.ledger.message_count; i++)
		store_fixture_ack(&f, i, 0, ACK_CONSUMED);
	store_fixture_submit(&f, false);
	ck_assert(store_fixture_write(&f));
	ck_assert_uint_eq(octets_written() - written, SIM_SECTOR);
}
END_TEST

START_TEST(test_a_mark_before_its_message_is_written)
{
	uint32_t queue = queue_of(0);
	size_t message = store_fixture_publish(&f, &queue, 1, 100);

	store_fixture_ack(&f, message, 0, ACK_CONSUMED);
	store_fixture_check(&f);
	store_fixture_flush(&f);
	store_fixture_crash(&f, SIM_EVERYTHING, 0);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 0);
}
END_TEST

START_TEST(test_a_dropped_queue_and_its_marks_are_gone)
{
	uint32_t a = queue_of(3);
	uint32_t b = queue_of(3);

	store_fixture_ack(&f, 0, 0, ACK_CONSUMED);
	store_fixture_drop(&f, a);
	store_fixture_ack(&f, 3, 0, ACK_CONSUMED);
	store_fixture_flush(&f);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
	ck_assert_uint_eq(f.found.log_count, 1);
	ck_assert_uint_eq(f.found.message_count, 2);
	(void)b;
}
END_TEST

START_TEST(test_numbers_are_never_used_again)
{
	uint32_t queue = queue_of(5);
	uint64_t id = f.ledger.queues[queue].id;
	uint64_t last;

	for (size_t i = 0; i < 5; i++)
		store_fixture_ack(&f, i, 0, ACK_CONSUMED);
	last = store_fixture_queue(&f);
	ck_assert_uint_gt(f.ledger.queues[last].id, id);
	id = f.ledger.queues[last].id;
	store_fixture_drop(&f, (uint32_t)last);
	for (unsigned i = 0; i < 4; i++) {
		store_fixture_flush(&f);
		if (i % 2 == 0)
			ck_assert_int_eq(store_fixture_close(&f, true), 0);
		else
			store_fixture_crash(&f, SIM_NOTHING, 0);
		open_it();
		ck_assert_uint_eq(f.ledger.queues[queue].log->next_qseq, 6);
		last = store_fixture_queue(&f);
		ck_assert_uint_gt(f.ledger.queues[last].id, id);
		id = f.ledger.queues[last].id;
	}
}
END_TEST

START_TEST(test_delivered_is_logged_once_and_told_after_an_unclean_stop)
{
	uint32_t queue = queue_of(2);
	uint64_t lsn = store_fixture_last_lsn(&f);

	store_fixture_deliver(&f, queue);
	store_fixture_deliver(&f, queue);
	ck_assert_uint_eq(store_fixture_last_lsn(&f), lsn + 1);
	store_fixture_flush(&f);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	open_it();
	ck_assert(!f.found.messages[0].refs[0].redelivered);
	store_fixture_kill(&f);
	open_it();
	ck_assert(!f.found.messages[0].refs[0].redelivered);
	/* the mark of a run that ended cleanly is none of the next one's */
	lsn = store_fixture_last_lsn(&f);
	store_fixture_deliver(&f, queue);
	ck_assert_uint_eq(store_fixture_last_lsn(&f), lsn + 1);
	store_fixture_flush(&f);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
	ck_assert(f.found.messages[0].refs[0].redelivered);
	ck_assert(f.found.messages[1].refs[0].redelivered);
}
END_TEST

START_TEST(test_what_was_delivered_stays_so)
{
	uint32_t queue = queue_of(2);

	store_fixture_deliver(&f, queue);
	store_fixture_flush(&f);
	store_fixture_kill(&f);
	open_it();
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(store_fixture_close(&f, true), 0);
		open_it();
		ck_assert(f.found.messages[0].refs[0].redelivered);
	}
	store_fixture_publish(&f, &queue, 1, 100);
	store_fixture_flush(&f);
	store_fixture_kill(&f);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 3);
	ck_assert(f.found.messages[1].refs[0].redelivered);
	ck_assert(!f.found.messages[2].refs[0].redelivered);
}
END_TEST

TESTS_WITH("store", set_up, tear_down, test_a_record_goes_out_when_the_writer_is_idle,
	   test_a_record_waits_while_input_waits_but_25_ms_at_most,
	   test_without_flush_when_idle_a_record_waits_25_ms, test_a_full_batch_does_not_wait,
	   test_one_batch_at_a_time_and_the_next_grows_meanwhile, test_due_is_told,
	   test_it_is_full_while_too_much_waits, test_a_unit_may_be_larger_than_buffer_and_file,
	   test_marks_of_a_batch_are_one_small_record, test_marks_in_order_take_one_sector,
	   test_a_mark_before_its_message_is_written, test_a_dropped_queue_and_its_marks_are_gone,
	   test_numbers_are_never_used_again,
	   test_delivered_is_logged_once_and_told_after_an_unclean_stop,
	   test_what_was_delivered_stays_so)
