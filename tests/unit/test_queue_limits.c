/* SPDX-License-Identifier: Apache-2.0 */
/* How many messages a queue may have, and what happens to those that are too many (amqp.md 6.8). */
#include "unit/life_fixture.h"
#include "util/owned.h"

START_TEST(test_oldest_are_dropped)
{
	struct queue *q;

	ask_number("x-max-length", 3);
	q = declare("q");
	ck_assert(send(q, "a"));
	ck_assert(send(q, "b"));
	ck_assert(send(q, "c"));
	ck_assert_str_eq(bodies(q), "a b c");
	ck_assert(send(q, "d"));
	ck_assert(send(q, "e"));
	ck_assert_str_eq(bodies(q), "c d e");
}
END_TEST

START_TEST(test_octets_of_bodies_count)
{
	struct queue *q;

	ask_number("x-max-length-bytes", 10);
	q = declare("q");
	send(q, "aaaa");
	send(q, "bbbb");
	send(q, "cc");
	ck_assert_str_eq(bodies(q), "aaaa bbbb cc");
	send(q, "d");
	ck_assert_str_eq(bodies(q), "bbbb cc d");
	send(q, "more than all");
	ck_assert_str_eq(bodies(q), "");
}
END_TEST

START_TEST(test_whichever_limit_is_hit_first)
{
	struct queue *q;

	ask_number("x-max-length", 2);
	ask_number("x-max-length-bytes", 5);
	q = declare("q");
	send(q, "a");
	send(q, "b");
	send(q, "c");
	ck_assert_str_eq(bodies(q), "b c");
	send(q, "dddd");
	ck_assert_str_eq(bodies(q), "c dddd");
	send(q, "eeee");
	ck_assert_str_eq(bodies(q), "eeee");
}
END_TEST

/* What a consumer can take is not too much, not even with a limit of 0. */
START_TEST(test_consumers_come_first)
{
	struct taker taker;
	struct queue *q;

	ask_number("x-max-length", 0);
	q = declare("q");
	taker_start(&taker, q, "c", 0, 2);
	send(q, "a");
	send(q, "b");
	send(q, "c");
	ck_assert_uint_eq(taker.taken_n, 2);
	ck_assert_str_eq(bodies(q), "");
	taker_cancel(&taker);
	for (size_t i = 0; i < taker.taken_n; i++)
		queue_ack(q, &taker.taken[i]);
}
END_TEST

START_TEST(test_unacked_ones_do_not_count)
{
	struct entry entry;
	struct queue *q;

	ask_number("x-max-length", 2);
	q = declare("q");
	send(q, "a");
	entry = take(q);
	send(q, "b");
	send(q, "c");
	ck_assert_str_eq(bodies(q), "b c");
	/* when it comes back it is the oldest */
	queue_requeue(q, &entry);
	ck_assert_str_eq(bodies(q), "b c");
}
END_TEST

START_TEST(test_dropped_ones_are_dead_letters)
{
	struct queue *dead = declare("dead");
	struct queue *q;
	struct entry entry;

	ask_number("x-max-length", 1);
	ask_dead_letters_to("dead");
	q = declare("q");
	send(q, "a");
	send(q, "b");
	send(q, "c");
	ck_assert_str_eq(bodies(q), "c");
	ck_assert_str_eq(bodies(dead), "a b");
	entry = take(dead);
	expect_death(entry.message, 0, "q", "maxlen", 1);
	queue_ack(dead, &entry);
}
END_TEST

START_TEST(test_full_queue_refuses)
{
	struct taker taker;
	struct queue *dead = declare("dead");
	struct queue *q;

	ask_number("x-max-length", 1);
	ask_string("x-overflow", "reject-publish");
	ask_dead_letters_to("dead");
	q = declare("q");
	ck_assert(send(q, "a"));
	ck_assert(!send(q, "b"));
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_str_eq(bodies(dead), "");
	requeue_first(q);
	ck_assert_str_eq(bodies(q), "a");
	/* an idle consumer changes nothing */
	ask_number("x-max-length", 0);
	ask_string("x-overflow", "reject-publish");
	q = declare("r");
	taker_start(&taker, q, "c", 0, 10);
	ck_assert(!send(q, "c"));
	dispatch();
	ck_assert_uint_eq(taker.taken_n, 0);
	taker_cancel(&taker);
}
END_TEST

START_TEST(test_full_queue_refuses_octets)
{
	struct queue *q;

	ask_number("x-max-length-bytes", 5);
	ask_string("x-overflow", "reject-publish");
	q = declare("q");
	ck_assert(send(q, "aaa"));
	ck_assert(!send(q, "bbb"));
	ck_assert(send(q, "cc"));
	ck_assert(send(q, ""));
	ck_assert(!send(q, "d"));
}
END_TEST

START_TEST(test_refused_ones_may_be_dead_letters)
{
	struct queue *dead = declare("dead");
	struct queue *q;
	struct entry entry;

	ask_number("x-max-length", 1);
	ask_string("x-overflow", "reject-publish-dlx");
	ask_dead_letters_to("dead");
	q = declare("q");
	ck_assert(send(q, "a"));
	ck_assert(!send(q, "b"));
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_str_eq(bodies(dead), "b");
	entry = take(dead);
	expect_death(entry.message, 0, "q", "maxlen", 1);
	queue_ack(dead, &entry);
}
END_TEST

/* One that refuses does not keep the others from taking it. */
START_TEST(test_one_of_several_queues_refuses)
{
	struct queue *plain = declare("plain");
	struct queue *full;
	struct queue *dropping;
	struct message *m = text_message("", "key", NULL, "x");
	struct queue *queues[3];
	struct route to = {.queues = queues, .count = 3, .room = 3};
	struct publish_result result;

	ask_number("x-max-length", 0);
	ask_string("x-overflow", "reject-publish");
	full = declare("full");
	ask_number("x-max-length", 1);
	dropping = declare("dropping");
	queues[0] = plain;
	queues[1] = full;
	queues[2] = dropping;
	send(dropping, "old");
	result = queue_publish(broker, &to, m);
	message_unref(m);
	ck_assert(result.rejected);
	ck_assert_str_eq(bodies(plain), "x");
	ck_assert_str_eq(bodies(full), "");
	ck_assert_str_eq(bodies(dropping), "x");
}
END_TEST

/* Each queue of a long chain has room for one, so a message moves all of them on. */
START_TEST(test_long_chains_need_no_stack)
{
	enum {
		LENGTH = 3000
	};
	struct queue *first = NULL;
	struct queue *last = NULL;
	char name[16];
	char next[16];

	for (int i = 0; i < LENGTH; i++) {
		(void)snprintf(name, sizeof(name), "q%d", i);
		(void)snprintf(next, sizeof(next), "q%d", i + 1);
		ask_number("x-max-length", 1);
		ask_dead_letters_to(next);
		last = declare(name);
		if (i == 0)
			first = last;
	}
	for (int i = 0; i < 20; i++)
		ck_assert(send(first, "x"));
	ck_assert_uint_eq(last->ready_count, 0);
	ck_assert_uint_eq(first->ready_count, 1);
	ck_assert_uint_eq(broker_message_count(broker), 20);
}
END_TEST

/* Two queues that drop into each other: what has died in a queue does not come back to it. */
START_TEST(test_rings_end)
{
	struct queue *a;
	struct queue *b;

	ask_number("x-max-length", 1);
	ask_dead_letters_to("b");
	a = declare("a");
	ask_number("x-max-length", 1);
	ask_dead_letters_to("a");
	b = declare("b");
	for (int i = 0; i < 5; i++)
		send(a, i % 2 == 0 ? "even" : "odd");
	ck_assert_str_eq(bodies(a), "even");
	ck_assert_str_eq(bodies(b), "odd");
}
END_TEST

/* A limit that a policy brings, with far more in the queue: others have their turn between. */
START_TEST(test_many_are_dropped_one_part_after_another)
{
	struct queue *q = declare("q");

	for (int i = 0; i < 5000; i++)
		send(q, "x");
	ask_number("x-max-length", 10);
	bytes_drop(&q->arguments);
	q->arguments = bytes_dup(table_view(&arguments));
	queue_settings_update(q, (const struct policy *const[POLICY_KIND_COUNT]){NULL});
	ck_assert_uint_eq(q->ready_count, 4000);
	deadlines_run(&deadlines, broker->now.monotonic_ms);
	ck_assert_uint_eq(q->ready_count, 3000);
	pass(1);
	ck_assert_uint_eq(q->ready_count, 10);
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
}
END_TEST

START_TEST(test_dead_letters_to_a_full_queue_are_dropped)
{
	struct queue *dead;
	struct queue *q;

	ask_number("x-max-length", 1);
	ask_string("x-overflow", "reject-publish");
	dead = declare("dead");
	ask_dead_letters_to("dead");
	q = declare("q");
	send(q, "a");
	send(q, "b");
	reject_first(q);
	reject_first(q);
	ck_assert_str_eq(bodies(dead), "a");
	ck_assert_str_eq(bodies(q), "");
}
END_TEST

TESTS_WITH("queue_limits", life_set_up, model_tear_down, test_oldest_are_dropped,
	   test_octets_of_bodies_count, test_whichever_limit_is_hit_first,
	   test_consumers_come_first, test_unacked_ones_do_not_count,
	   test_dropped_ones_are_dead_letters, test_full_queue_refuses,
	   test_full_queue_refuses_octets, test_refused_ones_may_be_dead_letters,
	   test_one_of_several_queues_refuses, test_long_chains_need_no_stack, test_rings_end,
	   test_many_are_dropped_one_part_after_another,
	   test_dead_letters_to_a_full_queue_are_dropped)
