/* SPDX-License-Identifier: Apache-2.0 */
/* Paging of queues with a limit of number or time, whose oldest messages die where they are, and of one that gives up
 * what was requeued. */
#include "unit/page_fixture.h"

#include "wire/field.h"

#define LIMIT 2500

/* The queue of the list anew, with such a limit. */
static void
make_with(const char *argument, int32_t value, bool dead_letters)
{
	uint8_t octets[256];
	struct writer w = writer_of(octets, sizeof(octets));
	struct queue_spec spec = {.name = BYTES("q2")};

	delete_queue(list);
	table_put_int(&w, bytes_str(argument), value);
	if (dead_letters) {
		table_put_string(&w, BYTES("x-dead-letter-exchange"), BYTES(""));
		table_put_string(&w, BYTES("x-dead-letter-routing-key"), BYTES("dead"));
	}
	ck_assert(!w.bad);
	spec.arguments = bytes_of(octets, (size_t)(w.p - octets));
	list->queue = queue_create(vhost, &spec);
	list->durable = false;
	list_clear(list);
}

static void
make_limited(bool dead_letters)
{
	make_with("x-max-length", LIMIT, dead_letters);
}

/* The list forgets its oldest ones, as the queue does. */
static void
forget_oldest(void)
{
	while (list->ready > LIMIT) {
		first_ready(list)->state = ITEM_GONE;
		list->ready--;
	}
}

START_TEST(test_stubs_die_where_they_are)
{
	make_limited(false);
	publish_many(list, LIMIT, SIZE);
	page_out();
	ck_assert_uint_gt(stub_count(list), LIMIT / 2);
	/* those at hand, and then stubs */
	for (int i = 0; i < LIMIT; i++) {
		publish(list, SIZE, false);
		forget_oldest();
		if (i % 100 == 0)
			check_all();
	}
	check_all();
	ck_assert_uint_eq(stub_count(list), 0);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
	ck_assert_uint_eq(pages_in, 0);
}
END_TEST

START_TEST(test_stubs_die_while_they_are_read)
{
	make_limited(false);
	publish_many(list, LIMIT, SIZE);
	page_out();
	consume(list, UINT32_MAX, true);
	dispatch();
	ck_assert(queue_must_read(list->queue));
	cancel(list);
	/* more than the read brings */
	while (list->queue->ready_count < LIMIT)
		publish(list, SIZE, false);
	for (int i = 0; i < LIMIT / 2; i++) {
		publish(list, SIZE, false);
		forget_oldest();
	}
	check_all();
	work();
	drain(list);
}
END_TEST

START_TEST(test_stubs_expire)
{
	make_with("x-message-ttl", 600000, false);
	publish_many(list, LONG, SIZE);
	page_out();
	ck_assert_uint_gt(stub_count(list), LONG / 2);
	present_now.monotonic_ms += 600000;
	present_now.wall_ms += 600000;
	for (int i = 0; list->queue->ready_count > 0; i++) {
		ck_assert_int_lt(i, 1000);
		step_store();
		deadlines_run(&deadlines, present_now.monotonic_ms);
	}
	list_drop_ready(list, 0);
	check_all();
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_a_dead_letter_has_its_body)
{
	struct queue_spec spec = {.name = BYTES("dead")};
	struct queue *dead = queue_create(vhost, &spec);
	uint32_t first_id = next_id;
	struct entry entry;

	make_limited(true);
	publish_many(list, LIMIT, SIZE);
	page_out();
	publish_many(list, LIMIT, SIZE);
	while (list->queue->ready_count > LIMIT)
		step_store();
	forget_oldest();
	ck_assert_uint_gt(pages_in, 0);
	ck_assert_uint_eq(dead->ready_count, LIMIT);
	for (uint32_t i = 0; queue_get(dead, true, &entry); i++) {
		struct message *was = make_message(first_id + i, SIZE, false);

		ck_assert(bytes_equal(message_body(entry.message), message_body(was)));
		message_unref(was);
		message_unref(entry.message);
	}
	queue_delete(dead);
	run_all();
}
END_TEST

/* Entries with low numbers come to the window again when blocks with higher ones are gone. */
START_TEST(test_requeued_ones_that_go_back_to_the_disk)
{
	cache_size = broker->options.cache_size = UINT64_MAX;
	for (int i = 0; i < 5; i++)
		publish(durable, 10, true);
	publish_many(durable, LONG, SIZE);
	page_out();
	consume(durable, UINT32_MAX, false);
	run_all();
	cancel(durable);
	while (durable->held_count > 15)
		settle(durable, durable->held_count - 1, SETTLE_ACK);
	settle_all(durable, SETTLE_REQUEUE);
	ck_assert_uint_eq(durable->queue->ready_count, 15);
	cache_size = broker->options.cache_size = 0;
	cold_evict(broker);
	check_all();
	ck_assert_uint_eq(durable->queue->log->cold_count, 5);
	for (int i = 0; i < 3; i++)
		ck_assert(get(durable, true));
	check_all();
	publish_many(durable, LONG, SIZE);
	page_out();
	ck_assert_uint_gt(stub_count(durable), LONG / 2);
}
END_TEST

TESTS_WITH("queue_page_limits", page_set_up, page_tear_down, test_stubs_die_where_they_are,
	   test_stubs_die_while_they_are_read, test_stubs_expire, test_a_dead_letter_has_its_body,
	   test_requeued_ones_that_go_back_to_the_disk)
