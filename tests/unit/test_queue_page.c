/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of transient messages in page files: which ones go, and that what comes out of a queue is what went
 * in, wherever it was meanwhile. */
#include "unit/page_fixture.h"

/* ---- out and back ---- */

/* Octets of all page files, which are the first ones ever. */
static uint64_t
file_octets(void)
{
	uint64_t octets = 0;

	for (unsigned i = 1; i <= file_count(); i++) {
		struct disk_file *file;
		char path[SIM_PATH_SIZE];

		(void)snprintf(path, sizeof(path), "page/%010u.page", i);
		ck_assert_int_eq(disk_open(&disk->disk, path, DISK_READ, &file), 0);
		octets += (uint64_t)disk_size(file);
		disk_close(&file);
	}
	return octets;
}

START_TEST(test_bodies_go_and_come_back_in_order)
{
	uint64_t octets;
	uint64_t bodies;
	size_t before;

	publish_many(list, LONG, SIZE);
	octets = list->queue->ready_bytes;
	bodies = list->queue->body_bytes;
	before = mem_in_use();
	page_out();
	ck_assert_uint_eq(at_hand(list), window_of(list));
	ck_assert_uint_eq(stub_count(list), LONG - window_of(list));
	ck_assert_uint_le(mem_in_use() + (LONG - window_of(list)) * 900, before);
	/* nobody can tell */
	ck_assert_uint_eq(list->queue->ready_count, LONG);
	ck_assert_uint_eq(list->queue->ready_bytes, octets);
	ck_assert_uint_eq(list->queue->body_bytes, bodies);
	drain(list);
	run_all();
	ck_assert_uint_eq(list->queue->ready_bytes, 0);
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_a_head_window_by_count)
{
	publish_many(list, 2 * QUEUE_WINDOW_COUNT, 200);
	page_out();
	ck_assert_uint_eq(at_hand(list), QUEUE_WINDOW_COUNT);
	ck_assert_uint_eq(stub_count(list), QUEUE_WINDOW_COUNT);
}
END_TEST

START_TEST(test_requeued_ones_are_of_the_head_window)
{
	publish_many(list, LONG, SIZE);
	consume(list, 500, false);
	dispatch();
	settle_all(list, SETTLE_REQUEUE);
	cancel(list);
	page_out();
	ck_assert_uint_ge(at_hand(list), window_of(list));
	ck_assert_uint_gt(stub_count(list), LONG / 3);
	settle_all(list, SETTLE_REQUEUE);
}
END_TEST

START_TEST(test_small_bodies_stay)
{
	publish_many(list, QUEUE_WINDOW_COUNT, 10);
	publish_many(list, 1000, 127);
	publish_many(list, 10, 0);
	publish_many(list, 100, 128);
	page_out();
	ck_assert_uint_eq(stub_count(list), 100);
}
END_TEST

START_TEST(test_nothing_goes_while_there_is_memory)
{
	publish_many(list, LONG, SIZE);
	broker->options.page_out_at = mem_in_use();
	run_all();
	ck_assert_uint_eq(pages_out, 0);
	broker->options.page_out_at = mem_in_use() - 1;
	run_all();
	ck_assert_uint_eq(pages_out, 1);
	broker->options.page_out_at = UINT64_MAX;
}
END_TEST

START_TEST(test_a_short_queue_stays)
{
	publish_many(list, 900, SIZE);
	publish_many(other, 5, SIZE);
	page_out();
	ck_assert_uint_eq(pages_out, 0);
}
END_TEST

START_TEST(test_about_a_mebibyte_at_a_time)
{
	publish_many(list, 2 * LONG, SIZE);
	broker->options.page_out_at = 0;
	for (uint32_t jobs = 1; jobs <= 3; jobs++) {
		broker_page_out(broker);
		broker_page_out(broker); // one is on its way
		work();
		ck_assert_uint_eq(pages_out, jobs);
		ck_assert_uint_eq(stub_count(list), jobs * (1024 * 1024 / SIZE));
	}
	broker->options.page_out_at = UINT64_MAX;
}
END_TEST

START_TEST(test_bodies_larger_than_a_job)
{
	publish_many(list, 5, 3000000);
	page_out();
	ck_assert_uint_eq(pages_out, 4);
	ck_assert_uint_eq(stub_count(list), 4);
}
END_TEST

START_TEST(test_the_coldest_queue_first)
{
	publish_many(list, LONG, SIZE);
	publish_many(other, LONG, SIZE);
	take(other, 1);
	take(list, 1);
	send_job();
	work();
	ck_assert_uint_eq(stub_count(list), 0);
	ck_assert_uint_gt(stub_count(other), 0);
	page_out();
	take(list, 1);
	take(other, 1);
	publish_many(list, LONG, SIZE);
	publish_many(other, LONG, SIZE);
	send_job();
	work();
	ck_assert_uint_gt(stub_count(list), stub_count(other));
}
END_TEST

START_TEST(test_new_messages_follow)
{
	publish_many(list, LONG, SIZE);
	page_out();
	for (int i = 0; i < 10; i++) {
		publish_many(list, 100, SIZE);
		page_out();
		take(list, 150);
		ck_assert_uint_eq(at_hand(list) + stub_count(list), list->queue->ready_count);
	}
	ck_assert_uint_gt(at_hand(list), window_of(list) / 3);
}
END_TEST

START_TEST(test_full_files_are_followed_by_others)
{
	publish_many(list, 3 * LONG, SIZE);
	page_out();
	ck_assert_uint_ge(file_count(), 7);
	take(list, 2 * LONG);
	work();
	ck_assert_uint_le(file_count(), 4);
	drain(list);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

/* ---- several queues ---- */

START_TEST(test_a_message_of_two_queues_is_written_once)
{
	struct listed *both[] = {list, other};
	uint32_t paged;

	for (int i = 0; i < LONG; i++)
		publish_to(both, 2, SIZE, false);
	page_out();
	paged = LONG - window_of(list);
	ck_assert_uint_eq(stub_count(list), paged);
	ck_assert_uint_eq(stub_count(other), paged);
	ck_assert_uint_eq(file_octets(), (uint64_t)paged * (SIZE + PAGE_HEADER_SIZE));
	drain(list);
	run_all();
	ck_assert_uint_gt(file_count(), 0);
	drain(other);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

/* In one queue it is in the head window, in the other far behind. */
START_TEST(test_a_message_that_is_at_hand_in_one_queue)
{
	struct listed *both[] = {list, other};

	publish_many(other, LONG, SIZE);
	for (int i = 0; i < 500; i++)
		publish_to(both, 2, SIZE, false);
	page_out();
	ck_assert_uint_eq(stub_count(list), 0);
	ck_assert_uint_gt(stub_count(other), LONG / 2);
	consume(list, 500, false);
	run_all();
	drain(other);
	settle_all(list, SETTLE_ACK);
	cancel(list);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_a_stored_message_in_a_queue_without_a_log)
{
	struct listed *both[] = {list, durable};

	for (int i = 0; i < LONG; i++)
		publish_to(both, 2, SIZE, true);
	page_out();
	ck_assert_uint_eq(stub_count(durable), 0);
	ck_assert_uint_gt(stub_count(list), LONG / 2);
	drain(durable);
	drain(list);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

/* So it is with x-recent-history. */
START_TEST(test_a_message_that_is_twice_in_a_queue)
{
	struct route route = {.queues = &list->queue, .count = 1, .room = 1};
	struct message *m = make_message(77, SIZE, false);

	publish_many(list, LONG, SIZE);
	for (int i = 0; i < 3; i++) {
		queue_publish(broker, &route, m);
		list_publish(list, (struct item){.id = 77, .size = SIZE});
	}
	message_unref(m);
	page_out();
	ck_assert_uint_eq(stub_count(list), LONG + 3 - window_of(list));
}
END_TEST

/* A queue with a log gives up what is stored in another way. */
START_TEST(test_stored_messages_of_a_durable_queue_stay)
{
	cache_size = broker->options.cache_size = UINT64_MAX;
	for (int i = 0; i < 2 * QUEUE_WINDOW_COUNT; i++)
		publish(durable, 200, true);
	consume(durable, QUEUE_WINDOW_COUNT, false);
	run_all();
	cancel(durable);
	settle_all(durable, SETTLE_REQUEUE);
	run_all();
	ck_assert_uint_gt(durable->queue->ready_count, 3 * QUEUE_WINDOW_COUNT / 2);
	page_out();
	ck_assert_uint_eq(pages_out, 0);
}
END_TEST

START_TEST(test_a_message_with_a_stub_is_stored_later)
{
	struct route route = {.queues = &durable->queue, .count = 1, .room = 1};
	struct message *m = make_message(77, SIZE, true);

	/* as x-recent-history does */
	publish_many(list, LONG, SIZE);
	route.queues = &list->queue;
	queue_publish(broker, &route, m);
	list_publish(list, (struct item){.id = 77, .size = SIZE, .persistent = true});
	page_out();
	ck_assert(m->flags & MESSAGE_HAS_STUB);
	ck_assert(!message_is_stored(m));
	route.queues = &durable->queue;
	ck_assert_uint_ne(queue_publish(broker, &route, m).lsn, 0);
	list_publish(durable, (struct item){.id = 77, .size = SIZE, .persistent = true});
	message_unref(m);
	drain(durable);
	drain(list);
}
END_TEST

START_TEST(test_transient_messages_of_a_durable_queue)
{
	publish_many(durable, LONG, SIZE);
	page_out();
	ck_assert_uint_gt(stub_count(durable), LONG / 2);
	take(durable, LONG / 2);
}
END_TEST

START_TEST(test_late_ones_go_as_well)
{
	for (int i = 0; i < LONG; i++)
		publish(durable, SIZE, true);
	publish_many(durable, LONG, SIZE);
	run_all();
	page_out();
	ck_assert_uint_ge(stub_count(durable), LONG);
	drain(durable);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_an_eviction_takes_stubs_along)
{
	cache_size = broker->options.cache_size = UINT64_MAX;
	for (int i = 0; i < 500; i++)
		publish(durable, 10, true);
	publish_many(durable, LONG, SIZE);
	page_out();
	ck_assert_uint_gt(stub_count(durable), LONG / 2);
	cache_size = broker->options.cache_size = 0;
	publish(durable, 10, true);
	check_all();
	page_out();
	drain(durable);
}
END_TEST

/* ---- coming back ---- */

/* The consumer never finds a stub, though a read takes a turn. */
START_TEST(test_bodies_are_read_ahead)
{
	publish_many(list, LONG, SIZE);
	page_out();
	consume(list, 0, true);
	while (list->queue->ready_count > 0) {
		take_more(list, 20);
		dispatch();
		ck_assert_uint_le(at_hand(list), window_of(list) + 1);
		ck_assert(stub_count(list) == 0 || at_hand(list) > window_of(list) / 5);
		step_store();
	}
	ck_assert_uint_le(pages_in, 8);
	cancel(list);
}
END_TEST

START_TEST(test_a_consumer_that_takes_all_waits_for_reads)
{
	uint32_t head;

	publish_many(list, LONG, SIZE);
	page_out();
	head = at_hand(list);
	consume(list, UINT32_MAX, true);
	dispatch();
	ck_assert_uint_eq(list->taken, head);
	ck_assert(queue_must_read(list->queue));
	dispatch();
	dispatch();
	work();
	ck_assert_uint_eq(pages_in, 1);
	dispatch();
	ck_assert_uint_gt(list->taken, 3 * head / 2);
	run_all();
	ck_assert_uint_eq(list->queue->ready_count, 0);
	cancel(list);
}
END_TEST

START_TEST(test_large_bodies_come_one_by_one)
{
	publish_many(list, 6, 3000000);
	page_out();
	take(list, 3);
	ck_assert_uint_le(pages_in, 3);
	drain(list);
}
END_TEST

START_TEST(test_get_until_empty)
{
	publish_many(list, LONG, SIZE);
	page_out();
	for (int i = 0; i < LONG; i++)
		ck_assert(get(list, i % 3 != 0));
	ck_assert(!get(list, true));
	settle_all(list, SETTLE_ACK);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_get_reads_a_part)
{
	publish_many(list, LONG, SIZE);
	page_out();
	while (at_hand(list) > 0)
		ck_assert(get(list, true));
	ck_assert_uint_eq(pages_in, 0);
	ck_assert(queue_must_read(list->queue));
	ck_assert(get(list, true));
	ck_assert_uint_eq(pages_in, 1);
	ck_assert_uint_le(at_hand(list), window_of(list) / 16 + 1);
	ck_assert_uint_ge(at_hand(list), window_of(list) / 16 - 2);
}
END_TEST

TESTS_WITH("queue_page", page_set_up, page_tear_down, test_bodies_go_and_come_back_in_order,
	   test_a_head_window_by_count, test_requeued_ones_are_of_the_head_window,
	   test_small_bodies_stay, test_nothing_goes_while_there_is_memory,
	   test_a_short_queue_stays, test_about_a_mebibyte_at_a_time, test_bodies_larger_than_a_job,
	   test_the_coldest_queue_first, test_new_messages_follow,
	   test_full_files_are_followed_by_others, test_a_message_of_two_queues_is_written_once,
	   test_a_message_that_is_at_hand_in_one_queue,
	   test_a_stored_message_in_a_queue_without_a_log, test_a_message_that_is_twice_in_a_queue,
	   test_stored_messages_of_a_durable_queue_stay, test_a_message_with_a_stub_is_stored_later,
	   test_transient_messages_of_a_durable_queue, test_late_ones_go_as_well,
	   test_an_eviction_takes_stubs_along, test_bodies_are_read_ahead,
	   test_a_consumer_that_takes_all_waits_for_reads, test_large_bodies_come_one_by_one,
	   test_get_until_empty, test_get_reads_a_part)
