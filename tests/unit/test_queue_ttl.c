/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that wait too long, by a limit of their queue or of their own (amqp.md 6.9). */
#include "unit/life_fixture.h"

static struct queue *dead;

static void
set_up(void)
{
	life_set_up();
	dead = declare("dead");
}

/* A queue whose messages may wait so long; its dead letters go to "dead". */
static struct queue *
limited(int64_t ttl_ms)
{
	if (ttl_ms >= 0)
		ask_number("x-message-ttl", ttl_ms);
	ask_dead_letters_to("dead");
	return declare("q");
}

static void
send_for(struct queue *q, const char *expiration, const char *body)
{
	send_with(q,
		  &(struct basic_properties){.flags = PROPERTY_expiration,
					     .expiration = bytes_str(expiration)},
		  body);
}

/* The queue "q" and the dead ones. */
static void
expect(const char *waiting, const char *died)
{
	ck_assert_str_eq(bodies(queue_find(vhost, BYTES("q"))), waiting);
	ck_assert_str_eq(bodies(dead), died);
}

START_TEST(test_limit_of_the_queue)
{
	struct queue *q = limited(100);
	struct entry entry;

	send(q, "a");
	pass(50);
	send(q, "b");
	pass(49);
	expect("a b", "");
	pass(1);
	expect("b", "a");
	pass(49);
	expect("b", "a");
	pass(1);
	expect("", "a b");
	ck_assert(!deadline_is_set(&q->life->due));
	entry = take(dead);
	expect_death(entry.message, 0, "q", "expired", 1);
	ck_assert(!table_find(death_of(entry.message, 0), BYTES("original-expiration"),
			      &(struct field){0}));
	queue_ack(dead, &entry);
}
END_TEST

START_TEST(test_without_dead_letters_they_are_gone)
{
	struct queue *q;

	ask_number("x-message-ttl", 10);
	q = declare("q");
	send(q, "a");
	pass(10);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

/* Wherever they stand. */
START_TEST(test_limits_of_messages)
{
	struct queue *q = limited(-1);
	struct entry entry;

	send_for(q, "300", "a");
	send(q, "b");
	send_for(q, "100", "c");
	send_for(q, "+200", "d");
	send_for(q, "100", "e");
	pass(99);
	expect("a b c d e", "");
	pass(1);
	expect("a b d", "c e");
	pass(100);
	expect("a b", "c e d");
	pass(100);
	expect("b", "c e d a");
	pass(1000000);
	expect("b", "c e d a");
	entry = take(dead);
	expect_string(death_of(entry.message, 0), "original-expiration", "100");
	ck_assert(!(properties_of(entry.message).flags & PROPERTY_expiration));
	queue_ack(dead, &entry);
}
END_TEST

START_TEST(test_smaller_limit_counts)
{
	struct queue *q = limited(100);

	send_for(q, "50", "a");
	send_for(q, "5000", "b");
	pass(50);
	expect("b", "a");
	pass(50);
	expect("", "a b");
}
END_TEST

START_TEST(test_0_is_at_once_unless_somebody_takes_it)
{
	struct queue *q = limited(0);
	struct taker taker;

	send(q, "a");
	expect("", "a");
	send_for(q, "0", "b");
	pass(0);
	expect("", "a b");
	taker_start(&taker, q, "c", 0, 1);
	send(q, "c");
	send(q, "d");
	dispatch();
	ck_assert_uint_eq(taker.taken_n, 1);
	pass(1);
	expect("", "a b d");
	queue_ack(q, &taker.taken[0]);
	taker_cancel(&taker);
	q = declare("plain");
	send_for(q, "0", "e");
	pass(1);
	ck_assert_str_eq(bodies(q), "");
}
END_TEST

/* In a turn what is due comes before what is handed out. */
START_TEST(test_0_is_for_whoever_waits_in_the_turn_in_which_it_comes)
{
	struct queue *q = limited(0);
	struct taker taker;

	taker_start(&taker, q, "c", 0, 2);
	for (int i = 0; i < 3; i++) {
		send(q, i == 2 ? "late" : "x");
		deadlines_run(&deadlines, broker->now.monotonic_ms);
		dispatch();
	}
	ck_assert_uint_eq(taker.taken_n, 2);
	expect("", "late");
	queue_ack(q, &taker.taken[0]);
	queue_ack(q, &taker.taken[1]);
	taker_cancel(&taker);
	q = declare("plain");
	taker_start(&taker, q, "c", 0, 1);
	send_for(q, "0", "e");
	send_for(q, "0", "f");
	deadlines_run(&deadlines, broker->now.monotonic_ms);
	dispatch();
	ck_assert_uint_eq(taker.taken_n, 1);
	ck_assert_str_eq(bodies(q), "");
	queue_ack(q, &taker.taken[0]);
}
END_TEST

/* However soon: it may not wait. */
START_TEST(test_0_that_comes_back_is_not_handed_out_again)
{
	struct queue *q = limited(0);
	struct taker taker;
	struct entry entry;

	taker_start(&taker, q, "c", 0, 2);
	send(q, "a");
	dispatch();
	ck_assert_uint_eq(taker.taken_n, 1);
	queue_requeue(q, &taker.taken[0]);
	dispatch();
	ck_assert_uint_eq(taker.taken_n, 1);
	ck_assert(!queue_get(q, false, &entry));
	expect("", "a");
}
END_TEST

START_TEST(test_nothing_expires_while_it_is_unacked)
{
	struct queue *q = limited(100);
	struct entry entries[3];

	send(q, "a");
	send_for(q, "50", "b");
	send(q, "c");
	for (size_t i = 0; i < 3; i++)
		entries[i] = take(q);
	pass(1000);
	expect("", "");
	queue_ack(q, &entries[2]);
	queue_requeue(q, &entries[0]);
	pass(0);
	pass(1);
	expect("", "a");
	queue_requeue(q, &entries[1]);
	pass(1);
	expect("", "a b");
}
END_TEST

START_TEST(test_requeued_ones_keep_their_time)
{
	struct queue *q = limited(100);

	send(q, "a");
	send_for(q, "80", "b");
	pass(60);
	requeue_first(q);
	expect("a b", "");
	pass(20);
	expect("a", "b");
	pass(20);
	expect("", "b a");
}
END_TEST

/* Not even in the turn in which it is due. */
START_TEST(test_nothing_is_handed_out_too_late)
{
	struct queue *q = limited(100);
	struct now now = broker->now;
	struct taker taker;
	struct entry entry;

	send(q, "a");
	send_for(q, "100", "b");
	taker_start(&taker, q, "c", 0, 10);
	now.wall_ms += 100;
	now.monotonic_ms += 100;
	broker_set_now(broker, now);
	broker_dispatch(broker);
	ck_assert_uint_eq(taker.taken_n, 0);
	queue_hand_out(q);
	ck_assert(!queue_get(q, true, &entry));
	expect("", "a b");
	taker_cancel(&taker);
}
END_TEST

/* Each queue has its own time. */
START_TEST(test_dead_letters_begin_anew)
{
	struct queue *second;
	struct queue *first;

	ask_number("x-message-ttl", 100);
	ask_dead_letters_to("dead");
	second = declare("second");
	ask_number("x-message-ttl", 50);
	ask_dead_letters_to("second");
	first = declare("first");
	send(first, "a");
	pass(50);
	ck_assert_str_eq(bodies(second), "a");
	pass(99);
	ck_assert_str_eq(bodies(second), "a");
	pass(1);
	ck_assert_str_eq(bodies(dead), "a");
}
END_TEST

START_TEST(test_a_ring_of_expiries_ends)
{
	struct queue *q;

	ask_number("x-message-ttl", 10);
	ask_dead_letters_to("q");
	q = declare("q");
	send(q, "a");
	pass(100);
	ck_assert_str_eq(bodies(q), "");
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

/* The usual way to try again later: rejected to a queue that waits and sends back. */
START_TEST(test_retry_by_two_queues)
{
	struct queue *work;
	struct queue *wait;
	struct entry entry;

	ask_dead_letters_to("wait");
	work = declare("work");
	ask_number("x-message-ttl", 1000);
	ask_dead_letters_to("work");
	wait = declare("wait");
	send(work, "a");
	for (int i = 0; i < 5; i++) {
		reject_first(work);
		ck_assert_str_eq(bodies(work), "");
		ck_assert_uint_eq(wait->ready_count, 1);
		pass(1000);
	}
	entry = take(work);
	expect_death(entry.message, 0, "wait", "expired", 5);
	expect_death(entry.message, 1, "work", "rejected", 5);
	queue_ack(work, &entry);
}
END_TEST

START_TEST(test_purge_and_deletion_leave_nothing_due)
{
	struct queue *q = limited(100);

	send(q, "a");
	send_for(q, "50", "b");
	queue_purge(q);
	pass(200);
	expect("", "");
	send(q, "c");
	queue_delete(q);
	broker_reap(broker);
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
}
END_TEST

/* What has been delivered leaves items behind, which must not gather. */
START_TEST(test_items_of_messages_that_are_gone_are_dropped)
{
	struct queue *q = limited(-1);

	for (int i = 0; i < 20000; i++) {
		send_for(q, "3600000", "a");
		if (i >= 10)
			ck_assert_uint_ne(get_and_ack(q), 0);
	}
	ck_assert_uint_lt(q->life->own_count, 3000);
	pass(3600000);
	ck_assert_uint_eq(q->ready_count, 0);
	ck_assert_uint_eq(dead->ready_count, 10);
}
END_TEST

static uint32_t
random_below(uint32_t n)
{
	static uint64_t state = 88172645463325252U;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 32) % n);
}

/* Thousands with deadlines in no order, some of them taken, requeued or acknowledged meanwhile: each that
 * is left dies once, not before its time and not much later. */
START_TEST(test_many_in_no_order)
{
	enum {
		MANY = 6000,
		SPAN = 5000,
		LATE_MS = 15
	};
	static uint64_t due[MANY];
	static bool gone[MANY];
	struct queue *q = limited(-1);
	uint64_t begin = broker->now.wall_ms;
	uint64_t taken = 0;

	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t ms = 1 + random_below(SPAN);
		char expiration[16];
		char body[16];

		(void)snprintf(expiration, sizeof(expiration), "%u", ms);
		(void)snprintf(body, sizeof(body), "%u", i);
		due[i] = begin + ms;
		send_for(q, expiration, body);
	}
	while (broker->now.wall_ms < begin + SPAN + LATE_MS) {
		struct entry entry;

		pass(1 + random_below(20));
		if (random_below(3) == 0 && q->ready_count > 0) {
			entry = take(q);
			if (random_below(2) == 0) {
				queue_requeue(q, &entry);
			} else {
				gone[strtoul((const char *)message_body(entry.message).p, NULL,
					     10)] = true;
				taken++;
				queue_ack(q, &entry);
			}
		}
		while (dead->ready_count > 0) {
			char body[16] = "";
			uint32_t i;

			entry = take(dead);
			memcpy(body, message_body(entry.message).p, message_body(entry.message).n);
			i = (uint32_t)strtoul(body, NULL, 10);
			ck_assert(!gone[i]);
			gone[i] = true;
			ck_assert_uint_le(due[i], entry.message->time_ms);
			ck_assert_uint_le(entry.message->time_ms, due[i] + LATE_MS);
			queue_ack(dead, &entry);
		}
	}
	ck_assert_uint_eq(q->ready_count, 0);
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert(gone[i]);
	ck_assert_uint_gt(taken, 10);
}
END_TEST

TESTS_WITH("queue_ttl", set_up, model_tear_down, test_limit_of_the_queue,
	   test_without_dead_letters_they_are_gone, test_limits_of_messages,
	   test_smaller_limit_counts, test_0_is_at_once_unless_somebody_takes_it,
	   test_0_is_for_whoever_waits_in_the_turn_in_which_it_comes,
	   test_0_that_comes_back_is_not_handed_out_again, test_nothing_expires_while_it_is_unacked,
	   test_requeued_ones_keep_their_time, test_nothing_is_handed_out_too_late,
	   test_dead_letters_begin_anew, test_a_ring_of_expiries_ends, test_retry_by_two_queues,
	   test_purge_and_deletion_leave_nothing_due,
	   test_items_of_messages_that_are_gone_are_dropped, test_many_in_no_order)
