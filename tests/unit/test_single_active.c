/* SPDX-License-Identifier: Apache-2.0 */
/* One consumer at a time: who is active, who takes over, and when (amqp.md 6.11). */
#include "unit/queue_fixture.h"

static struct queue *queue;
static struct taker a, b, c;

static struct queue *
make_single(const char *name, bool quorum)
{
	struct queue_spec spec = {.name = bytes_str(name), .durable = quorum};
	struct table table;

	table_start(&table);
	table_put_bool(&table.writer, BYTES("x-single-active-consumer"), true);
	if (quorum)
		table_put_string(&table.writer, BYTES("x-queue-type"), BYTES("quorum"));
	spec.arguments = table_view(&table);
	ck_assert_ptr_null(queue_check_new(vhost, &spec));
	return queue_create(vhost, &spec);
}

static void
set_up(void)
{
	model_set_up();
	queue = make_single("q", false);
	order_n = 0;
}

/* Settles the first n that a taker holds, as its channel would. */
static void
ack(struct taker *taker, size_t n)
{
	for (size_t i = 0; i < n; i++)
		queue_ack(queue, &taker->taken[i]);
	memmove(taker->taken, taker->taken + n, (taker->taken_n - n) * sizeof(struct entry));
	taker->taken_n -= n;
	if (taker->consumer != NULL) {
		taker->consumer->prefetch.used = (uint32_t)taker->taken_n;
		consumer_ready(taker->consumer);
	}
}

/* Publishes n; who took them, and is charged for them. */
static const char *
taken_of(uint64_t n)
{
	struct taker *takers[] = {&a, &b, &c};
	const char *taken;

	publish(queue, n);
	taken = order_taken();
	for (size_t i = 0; i < countof(takers); i++)
		if (takers[i]->consumer != NULL)
			takers[i]->consumer->prefetch.used = (uint32_t)takers[i]->taken_n;
	return taken;
}

static void
tear_down(void)
{
	ack(&a, a.taken_n);
	ack(&b, b.taken_n);
	ack(&c, c.taken_n);
	model_tear_down();
}

START_TEST(test_the_first_is_active_and_the_others_wait)
{
	taker_start(&a, queue, "a", 0, 3);
	taker_start(&b, queue, "b", 0, 100);
	taker_start(&c, queue, "c", 0, 100);
	ck_assert_str_eq(taken_of(5), "aaa");
	ck_assert_uint_eq(queue->ready_count, 2); // it is full, and nobody steps in
	ck_assert_uint_eq(queue->consumers.count, 3);
	consumer_ready(b.consumer);
	ck_assert_str_eq(order_taken(), "");
	a.room = 100;
	consumer_ready(a.consumer);
	ck_assert_str_eq(order_taken(), "aa");
}
END_TEST

START_TEST(test_the_highest_priority_takes_over)
{
	taker_start(&a, queue, "a", 0, 100);
	taker_start(&b, queue, "b", 1, 100);
	taker_start(&c, queue, "c", 2, 100);
	ck_assert_str_eq(taken_of(1), "a"); // no newcomer displaces it
	taker_cancel(&a);
	ck_assert_str_eq(taken_of(2), "cc");
	ck_assert_uint_eq(queue->unacked_count, 3);
	ack(&a, 1);
	taker_start(&a, queue, "a", 1, 100);
	taker_cancel(&c);
	ck_assert_str_eq(taken_of(1), "b"); // of equals the one that came first
	taker_cancel(&a);
	ck_assert_str_eq(taken_of(1), "b");
	taker_cancel(&b);
	ck_assert_str_eq(taken_of(1), "");
	ack(&b, 2);
	taker_start(&b, queue, "b", 0, 100);
	ck_assert_str_eq(order_taken(), "b");
}
END_TEST

START_TEST(test_what_comes_back_goes_to_the_next_one)
{
	taker_start(&a, queue, "a", 0, 100);
	taker_start(&b, queue, "b", 0, 100);
	ck_assert_str_eq(taken_of(3), "aaa");
	taker_cancel(&a);
	for (size_t i = 0; i < 3; i++)
		queue_requeue(queue, &a.taken[i]);
	a.taken_n = 0;
	ck_assert_str_eq(order_taken(), "bbb");
	for (size_t i = 0; i < 3; i++)
		ck_assert_uint_eq(entry_qseq(&b.taken[i]), i + 1);
}
END_TEST

START_TEST(test_exclusive_consumers_are_refused)
{
	struct consumer_spec spec = taker_spec(&a, "a");

	spec.exclusive = true;
	assert_refused(consumer_check(queue, &spec), ACCESS_REFUSED,
		       "ACCESS_REFUSED - queue 'q' in vhost 'v' in exclusive use");
}
END_TEST

START_TEST(test_get_is_for_classic_queues)
{
	ck_assert_ptr_null(queue_check_get(queue));
	ck_assert_ptr_null(queue_check_get(make_queue("plain")));
	assert_refused(queue_check_get(make_single("s", true)), RESOURCE_LOCKED,
		       "RESOURCE_LOCKED - cannot obtain access to locked queue 's' in vhost 'v'. "
		       "basic.get operations are not supported by quorum queues with single active "
		       "consumer");
}
END_TEST

START_TEST(test_deleted_with_consumers_that_wait)
{
	struct queue *doomed = make_single("doomed", false);

	taker_start(&a, doomed, "a", 0, 100);
	taker_start(&b, doomed, "b", 0, 100);
	publish(doomed, 1);
	ck_assert_str_eq(order_taken(), "a");
	queue_delete(doomed);
	ck_assert_uint_eq(a.cancelled + b.cancelled, 2);
	queue_ack(doomed, &a.taken[0]);
	a.taken_n = 0;
}
END_TEST

/* ---- quorum queues ---- */

START_TEST(test_quorum_displaces_at_once_who_holds_nothing)
{
	queue = make_single("s", true);
	taker_start(&a, queue, "a", 0, 100);
	ck_assert_str_eq(taken_of(1), "a");
	ack(&a, 1);
	taker_start(&b, queue, "b", 0, 100);
	ck_assert_str_eq(taken_of(1), "a"); // not for one of the same priority
	ack(&a, 1);
	taker_start(&c, queue, "c", 1, 100);
	ck_assert_str_eq(taken_of(1), "c");
	ack(&c, 1);
	taker_cancel(&c);
	ck_assert_str_eq(taken_of(1), "a");
}
END_TEST

START_TEST(test_quorum_waits_for_what_is_unacked)
{
	queue = make_single("s", true);
	taker_start(&a, queue, "a", 0, 100);
	ck_assert_str_eq(taken_of(2), "aa");
	taker_start(&b, queue, "b", 1, 100);
	ck_assert_str_eq(taken_of(1), ""); // neither: order would be lost
	ack(&a, 1);
	ck_assert_str_eq(order_taken(), "");
	taker_start(&c, queue, "c", 2, 100);
	ack(&a, 1);
	ck_assert_str_eq(order_taken(), "c");
	ck_assert_uint_eq(a.consumer->turn, TURN_WAITING);
	ck_assert_uint_eq(c.consumer->turn, TURN_ACTIVE);
}
END_TEST

START_TEST(test_quorum_goes_on_when_the_better_one_has_gone)
{
	queue = make_single("s", true);
	taker_start(&a, queue, "a", 0, 100);
	ck_assert_str_eq(taken_of(1), "a");
	taker_start(&b, queue, "b", 1, 100);
	ck_assert_str_eq(taken_of(1), "");
	taker_cancel(&b);
	ck_assert_str_eq(order_taken(), "a");
}
END_TEST

START_TEST(test_quorum_the_better_one_takes_over_from_one_that_goes)
{
	queue = make_single("s", true);
	taker_start(&a, queue, "a", 0, 100);
	ck_assert_str_eq(taken_of(1), "a");
	taker_start(&b, queue, "b", 1, 100);
	taker_cancel(&a);
	ck_assert_str_eq(taken_of(1), "b");
	ck_assert_uint_eq(queue->unacked_count, 2);
}
END_TEST

TESTS_WITH("single_active", set_up, tear_down, test_the_first_is_active_and_the_others_wait,
	   test_the_highest_priority_takes_over, test_what_comes_back_goes_to_the_next_one,
	   test_exclusive_consumers_are_refused, test_get_is_for_classic_queues,
	   test_deleted_with_consumers_that_wait, test_quorum_displaces_at_once_who_holds_nothing,
	   test_quorum_waits_for_what_is_unacked, test_quorum_goes_on_when_the_better_one_has_gone,
	   test_quorum_the_better_one_takes_over_from_one_that_goes)
