/* SPDX-License-Identifier: Apache-2.0 */
/* Consumers: turns and priorities, fullness, exclusivity, cancel, auto-delete. */
#include "unit/queue_fixture.h"

static struct queue *queue;
static struct taker a, b, c;

static void
set_up(void)
{
	model_set_up();
	queue = make_queue("q");
	order_n = 0;
}

/* Drops what a taker holds: what its channel would settle. */
static void
settle(struct taker *taker, void (*how)(struct queue *, const struct entry *))
{
	for (size_t i = 0; i < taker->taken_n; i++)
		how(queue, &taker->taken[i]);
	taker->room -= taker->taken_n;
	taker->taken_n = 0;
}

static void
tear_down(void)
{
	settle(&a, queue_ack);
	settle(&b, queue_ack);
	settle(&c, queue_ack);
	model_tear_down();
}

START_TEST(test_equals_take_in_turns)
{
	taker_start(&a, queue, "a", 0, 100);
	taker_start(&b, queue, "b", 0, 100);
	taker_start(&c, queue, "c", 0, 100);
	publish(queue, 7);
	ck_assert_str_eq(order_taken(), "abcabca");
	publish(queue, 2);
	ck_assert_str_eq(order_taken(), "bc");
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_uint_eq(entry_qseq(&a.taken[i]), 3 * i + 1);
}
END_TEST

START_TEST(test_higher_priority_takes_while_it_can)
{
	taker_start(&a, queue, "a", -1, 100);
	taker_start(&b, queue, "b", 5, 3);
	taker_start(&c, queue, "c", 0, 2);
	publish(queue, 8);
	ck_assert_str_eq(order_taken(), "bbbccaaa");
	ck_assert_uint_eq(b.fulls, 1);
	b.room++;
	consumer_ready(b.consumer);
	publish(queue, 2);
	ck_assert_str_eq(order_taken(), "ba");
}
END_TEST

START_TEST(test_equals_of_high_priority_take_in_turns)
{
	taker_start(&a, queue, "a", 1, 2);
	taker_start(&b, queue, "b", 0, 100);
	taker_start(&c, queue, "c", 1, 3);
	publish(queue, 8);
	ck_assert_str_eq(order_taken(), "acaccbbb");
}
END_TEST

START_TEST(test_a_full_consumer_is_not_asked_until_it_is_ready)
{
	taker_start(&a, queue, "a", 0, 1);
	publish(queue, 5);
	ck_assert_str_eq(order_taken(), "a");
	ck_assert_uint_eq(a.fulls, 1);
	publish(queue, 1);
	ck_assert_str_eq(order_taken(), "");
	ck_assert_uint_eq(a.fulls, 1);
	a.room = 3;
	consumer_ready(a.consumer);
	consumer_ready(a.consumer); // twice makes no difference
	ck_assert_uint_eq(queue->takers.count, 1);
	ck_assert_str_eq(order_taken(), "aa");
	ck_assert_uint_eq(queue->ready_count, 3);
}
END_TEST

START_TEST(test_a_consumer_that_becomes_ready_waits_its_turn)
{
	taker_start(&a, queue, "a", 0, 1);
	taker_start(&b, queue, "b", 0, 100);
	publish(queue, 3);
	ck_assert_str_eq(order_taken(), "abb");
	a.room = 100;
	consumer_ready(a.consumer);
	publish(queue, 3);
	ck_assert_str_eq(order_taken(), "bab");
}
END_TEST

START_TEST(test_consumer_takes_what_was_there_before)
{
	publish(queue, 3);
	ck_assert_str_eq(order_taken(), "");
	taker_start(&a, queue, "a", 0, 100);
	ck_assert_str_eq(order_taken(), "aaa");
	ck_assert_uint_eq(queue->unacked_count, 3);
	ck_assert_uint_eq(queue->deliver_count, 3);
}
END_TEST

START_TEST(test_no_ack_deliveries_are_not_unacked)
{
	struct consumer_spec spec = taker_spec(&a, "a");

	a = (struct taker){.room = 100};
	spec.no_ack = true;
	taker_register(&a, queue, &spec);
	publish(queue, 4);
	ck_assert_str_eq(order_taken(), "aaaa");
	ck_assert_uint_eq(queue->unacked_count, 0);
	ck_assert_uint_eq(queue->deliver_no_ack_count, 4);
	ck_assert_uint_eq(queue->deliver_count, 0);
	a.taken_n = 0; // the references were the queue's
}
END_TEST

START_TEST(test_exclusive_consumer_keeps_others_out)
{
	struct consumer_spec exclusive = taker_spec(&a, "a");
	struct consumer_spec other = taker_spec(&b, "b");
	const struct reply *reply;

	exclusive.exclusive = true;
	a = (struct taker){.room = 1};
	taker_register(&a, queue, &exclusive);
	reply = consumer_check(queue, &other);
	ck_assert_ptr_nonnull(reply);
	ck_assert_int_eq((int)reply->code, 403);
	ck_assert_str_eq(reply->text, "ACCESS_REFUSED - queue 'q' in vhost 'v' in exclusive use");
	ck_assert_ptr_nonnull(consumer_check(queue, &exclusive));
	taker_cancel(&a);
	ck_assert_ptr_null(consumer_check(queue, &other));
}
END_TEST

START_TEST(test_exclusive_consumer_must_be_the_first)
{
	struct consumer_spec exclusive = taker_spec(&b, "b");

	exclusive.exclusive = true;
	taker_start(&a, queue, "a", 0, 1);
	ck_assert_int_eq((int)consumer_check(queue, &exclusive)->code, 403);
	taker_cancel(&a);
	ck_assert_ptr_null(consumer_check(queue, &exclusive));
}
END_TEST

START_TEST(test_priority_must_be_an_integer)
{
	struct consumer_spec spec = taker_spec(&a, "a");
	struct table table;

	table_start(&table);
	table_put_string(&table.writer, BYTES("x-priority"), BYTES("5"));
	spec.arguments = table_view(&table);
	ck_assert_int_eq((int)consumer_check(queue, &spec)->code, 406);
}
END_TEST

START_TEST(test_cancelled_consumer_takes_no_more)
{
	taker_start(&a, queue, "a", 0, 100);
	taker_start(&b, queue, "b", 0, 100);
	publish(queue, 1);
	ck_assert_str_eq(order_taken(), "a");
	taker_cancel(&a);
	ck_assert_uint_eq(a.cancelled, 0);
	ck_assert_uint_eq(queue->unacked_count, 1);
	publish(queue, 2);
	ck_assert_str_eq(order_taken(), "bb");
	settle(&a, queue_requeue);
	ck_assert_str_eq(order_taken(), "b");
	ck_assert_uint_eq(entry_qseq(&b.taken[2]), 1);
	ck_assert_uint_eq(b.taken[2].bits & 0xffff, ENTRY_REDELIVERED);
	ck_assert_uint_eq(queue->redeliver_count, 1);
}
END_TEST

START_TEST(test_consumer_lives_while_it_is_counted)
{
	struct consumer *consumer;

	taker_start(&a, queue, "a", 0, 100);
	consumer = consumer_ref(a.consumer);
	taker_cancel(&a);
	ck_assert_ptr_null(consumer->queue);
	ck_assert(bytes_equal(consumer->tag, BYTES("a")));
	consumer_ready(consumer);  // nothing happens
	consumer_cancel(consumer); // nor here
	ck_assert_uint_eq(queue->consumers.count, 0);
	consumer_unref(consumer);
	ck_assert_uint_eq(broker->consumers_pool.in_use, 0);
}
END_TEST

START_TEST(test_auto_delete_queue_goes_with_its_last_consumer)
{
	struct queue_spec spec = {.name = BYTES("auto"), .auto_delete = true};
	struct queue *doomed = queue_create(vhost, &spec);

	publish(doomed, 2);
	taker_start(&a, doomed, "a", 0, 0);
	taker_start(&b, doomed, "b", 0, 0);
	taker_cancel(&a);
	ck_assert_ptr_eq(queue_find(vhost, BYTES("auto")), doomed);
	taker_cancel(&b);
	ck_assert_ptr_null(queue_find(vhost, BYTES("auto")));
	ck_assert_uint_eq(broker->dead.count, 1);
	broker_reap(broker);
	ck_assert_uint_eq(broker->dead.count, 0);
}
END_TEST

START_TEST(test_deleted_queue_ends_its_consumers)
{
	struct queue *doomed = make_queue("doomed");

	taker_start(&a, doomed, "a", 0, 1);
	taker_start(&b, doomed, "b", 0, 1);
	publish(doomed, 5);
	ck_assert_str_eq(order_taken(), "ab");
	ck_assert_uint_eq(queue_delete(doomed), 3);
	ck_assert_uint_eq(a.cancelled, 1);
	ck_assert_uint_eq(b.cancelled, 1);
	queue_ack(doomed, &a.taken[0]); // the channel still has it
	queue_requeue(doomed, &b.taken[0]);
	ck_assert_uint_eq(doomed->ready_count, 0);
	ck_assert_uint_eq(doomed->unacked_count, 0);
	a.taken_n = b.taken_n = 0;
	dispatch();
	broker_reap(broker);
	ck_assert_uint_eq(broker->consumers_pool.in_use, 0);
}
END_TEST

TESTS_WITH("consumer", set_up, tear_down, test_equals_take_in_turns,
	   test_higher_priority_takes_while_it_can, test_equals_of_high_priority_take_in_turns,
	   test_a_full_consumer_is_not_asked_until_it_is_ready,
	   test_a_consumer_that_becomes_ready_waits_its_turn,
	   test_consumer_takes_what_was_there_before, test_no_ack_deliveries_are_not_unacked,
	   test_exclusive_consumer_keeps_others_out, test_exclusive_consumer_must_be_the_first,
	   test_priority_must_be_an_integer, test_cancelled_consumer_takes_no_more,
	   test_consumer_lives_while_it_is_counted,
	   test_auto_delete_queue_goes_with_its_last_consumer,
	   test_deleted_queue_ends_its_consumers)
