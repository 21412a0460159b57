/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of stored messages: what expires or is dropped on the disk, and dead letters, which are in one place
 * after any crash.
 */
#include "unit/life_stored_fixture.h"
#include "unit/crash_points.h"

/* ---- messages on the disk ---- */

START_TEST(test_all_of_a_long_queue_expires)
{
	struct queue *q;

	ask("x-message-ttl", 60000);
	q = declare("work");
	for (uint32_t i = 0; i < LONG; i++)
		send(q, i, 10);
	live(30000);
	for (uint32_t i = 0; i < 10; i++)
		send(q, LONG + i, 10);
	live(29000);
	ck_assert_uint_eq(queue_message_count(q), LONG + 10);
	ck_assert_uint_eq(q->ready_count, 0);
	live(2000);
	ck_assert_uint_eq(queue_message_count(q), 10);
	restart(true);
	expect_numbers(find("work"), LONG, 10);
}
END_TEST

START_TEST(test_deadlines_hold_over_a_restart)
{
	for (int clean = 0; clean < 2; clean++) {
		struct queue *q;

		if (clean == 0)
			declare("dead");
		ask("x-message-ttl", 60000);
		ask_dead_letters_to("dead");
		q = declare(clean ? "work" : "work2");
		for (uint32_t i = 0; i < 5000; i++)
			send(q, i, 10);
		live(20000);
		restart(clean);
		q = find(clean ? "work" : "work2");
		live(30000);
		ck_assert_uint_eq(queue_message_count(q), 5000);
		live(15000);
		ck_assert_uint_eq(queue_message_count(q), 0);
		expect_numbers(find("dead"), 0, 5000);
	}
}
END_TEST

/* What expired while nobody was there goes at the start. */
START_TEST(test_what_expired_while_it_was_stopped)
{
	struct queue *q;

	ask("x-message-ttl", 60000);
	q = declare("work");
	for (uint32_t i = 0; i < 100; i++)
		send(q, i, 10);
	run_all();
	close_all(false);
	present_now.wall_ms += 100000;
	reopen_all();
	live(1000);
	ck_assert_uint_eq(queue_message_count(find("work")), 0);
}
END_TEST

START_TEST(test_own_deadlines_of_stored_messages)
{
	struct queue *q = declare("work");
	struct queue *queues[] = {q};
	struct route route = {.queues = queues, .count = 1, .room = 1};

	for (uint32_t i = 0; i < 100; i++) {
		struct message *m = make_message(i, 10, true);
		struct message *expiring = with_expiration(m, i % 2 == 0 ? "60000" : "3600000");

		queue_publish(broker, &route, expiring);
		message_unref(expiring);
		message_unref(m);
	}
	live(20000);
	restart(false);
	live(50000);
	/* none of those that are due is handed out */
	for (uint32_t i = 0; i < 50; i++)
		ck_assert_uint_eq(take_number(find("work")), 2 * i + 1);
	ck_assert_uint_eq(take_number(find("work")), UINT32_MAX);
}
END_TEST

/* Nobody takes from it, so that all of it is on the disk when it is due. */
START_TEST(test_own_deadlines_bring_messages_back)
{
	struct queue *q;

	declare("dead");
	ask_dead_letters_to("dead");
	q = declare("wait");
	for (uint32_t i = 0; i < LONG; i++)
		send_for(q, i, i < 10 ? "30000" : "60000");
	live(20000);
	ck_assert_uint_eq(q->ready_count, 0);
	live(20000);
	ck_assert_uint_eq(queue_message_count(find("dead")), 10);
	live(15000);
	ck_assert_uint_eq(queue_message_count(q), LONG - 10);
	live(15000);
	ck_assert_uint_eq(queue_message_count(q), 0);
	ck_assert_uint_eq(q->life->own_count, 0);
	expect_numbers(find("dead"), 0, LONG);
}
END_TEST

/* The same when it was stopped meanwhile: whoever looks at them first is the deadline of the queue. */
START_TEST(test_own_deadlines_bring_messages_back_after_a_restart)
{
	struct queue *q;

	declare("dead");
	ask_dead_letters_to("dead");
	q = declare("wait");
	for (uint32_t i = 0; i < LONG; i++)
		send_for(q, i, "60000");
	live(20000);
	for (int clean = 0; clean < 2; clean++) {
		restart(clean);
		live(15000);
	}
	ck_assert_uint_eq(queue_message_count(find("wait")), LONG);
	live(15000);
	ck_assert_uint_eq(queue_message_count(find("wait")), 0);
	expect_numbers(find("dead"), 0, LONG);
}
END_TEST

/* What is read again and again is noted once. */
START_TEST(test_own_deadlines_are_noted_once)
{
	struct queue *q = declare("wait");

	for (uint32_t i = 0; i < LONG; i++)
		send_for(q, i, "3600000");
	for (int i = 0; i < 10; i++) {
		live(10000);
		ck_assert_uint_eq(q->ready_count, 0);
		queue_refill(q);
		run_all();
		ck_assert_uint_gt(q->ready_count, 0);
	}
	ck_assert_uint_le(q->life->own_count, LONG + 1);
}
END_TEST

START_TEST(test_limit_of_a_long_queue)
{
	struct queue *q;

	declare("dead");
	ask("x-max-length", 5000);
	ask_dead_letters_to("dead");
	q = declare("work");
	for (uint32_t i = 0; i < LONG; i++)
		send(q, i, 10);
	run_all_due();
	ck_assert_uint_eq(queue_message_count(q), 5000);
	ck_assert_uint_eq(queue_message_count(find("dead")), LONG - 5000);
	restart(false);
	expect_numbers(find("dead"), 0, LONG - 5000);
	expect_numbers(find("work"), LONG - 5000, 5000);
}
END_TEST

/* How often the first message of the queue died there as rejected, by its x-death. */
static int64_t
count_of_deaths(struct queue *q)
{
	struct basic_properties properties;
	struct field_iterator iterator;
	struct field field;
	struct field name;

	if (q->ready_count == 0 ||
	    !properties_decode(&properties, message_properties(window_first(q)->message)) ||
	    !table_find(properties.headers, BYTES("x-death"), &field))
		return 0;
	for (iterator = array_iterate(field.bytes); field_next(&iterator, &field);)
		if (table_find(field.bytes, BYTES("queue"), &name) &&
		    bytes_equal(name.bytes, q->name) &&
		    table_find(field.bytes, BYTES("count"), &name))
			return name.integer;
	return 0;
}

/* Where what clients say of deaths is data, what the broker wrote is known as such after a restart. */
START_TEST(test_letters_are_known_after_a_restart)
{
	ask_dead_letters_to("again");
	send(declare("work"), 0, 10);
	ask_dead_letters_to("work");
	ask("x-max-length", 0);
	declare("again");
	for (int i = 0; i < 4; i++) {
		struct queue *q = find("work");
		struct entry entry;

		broker->options.client_deaths_are_data = true;
		ck_assert_int_eq(count_of_deaths(q), i);
		ck_assert(queue_get(q, false, &entry));
		queue_reject(q, &entry);
		run_all();
		restart(i % 2 == 0);
		for (q = find("work"); queue_must_read(q); step_store())
			queue_refill(q);
	}
	expect_numbers(find("work"), 0, 1);
}
END_TEST

/* The keys of BCC lead dead letters, of any generation, after restarts too; no header speaks of them. */
START_TEST(test_bcc_is_known_after_a_restart)
{
	struct message *plain = make_message(0, 10, true);
	struct queue *q;
	struct queue *queues[1];
	struct route route = {.queues = queues, .count = 1, .room = 1};
	struct message *m;
	struct entry entry;
	struct buf keys;

	for (int i = 0; i < 2; i++) {
		arguments.writer = writer_of(arguments.octets, sizeof(arguments.octets));
		table_put_string(&arguments.writer, BYTES("x-dead-letter-exchange"), BYTES(""));
		queues[0] = declare(i == 0 ? "copy" : "work");
	}
	buf_init(&keys, 0);
	message_put_bcc(&keys, BYTES("nobody"));
	message_put_bcc(&keys, BYTES("copy"));
	m = message_new_extended(message_exchange(plain), message_key(plain), message_header(plain),
				 10, plain->flags, buf_bytes(&keys));
	memcpy(message_body_room(m), message_body(plain).p, 10);
	queue_publish(broker, &route, m);
	message_unref(m);
	for (int i = 0; i < 4; i++) {
		run_all();
		restart(i % 2 == 0);
		q = find(i == 0 ? "work" : "copy");
		for (; queue_must_read(q); step_store())
			queue_refill(q);
		ck_assert(queue_get(q, false, &entry));
		ck_assert(bytes_equal(message_body(entry.message), message_body(plain)));
		ck_assert(bytes_equal(message_extension(entry.message), buf_bytes(&keys)));
		queue_reject(q, &entry);
	}
	run_all();
	/* by a key of its queue it goes nowhere else, then and later */
	ask_dead_letters_to("last");
	q = declare("end");
	declare("last");
	queues[0] = q;
	m = message_copy(plain);
	message_unref(plain);
	plain = message_new_extended(message_exchange(m), message_key(m), message_header(m), 0,
				     m->flags, buf_bytes(&keys));
	queue_publish(broker, &route, plain);
	ck_assert(queue_get(q, false, &entry));
	queue_reject(q, &entry);
	ck_assert(queue_get(find("last"), false, &entry));
	ck_assert_uint_eq(message_extension(entry.message).n, 0);
	queue_ack(find("last"), &entry);
	message_unref(plain);
	message_unref(m);
	buf_fini(&keys);
}
END_TEST

/* ---- crashes ---- */

#define NUMBERS 60

static uint64_t lsns[NUMBERS];

/* Where every message is after a crash there: what was stable is in one place. */
static void
check_point(size_t at)
{
	unsigned places[NUMBERS] = {0};
	static const char *const names[] = {"work", "dead"};

	for (size_t i = 0; i < countof(names); i++) {
		uint32_t number;

		while ((number = take_number(find(names[i]))) != UINT32_MAX)
			places[number]++;
	}
	for (uint32_t i = 0; i < NUMBERS; i++) {
		ck_assert_msg(places[i] <= 1, "point %zu: message %u is in %u places", at, i,
			      places[i]);
		ck_assert_msg(places[i] == 1 || lsns[i] == 0 || lsns[i] > points[at].stable,
			      "point %zu: message %u is lost", at, i);
	}
}

START_TEST(test_dead_letters_are_in_one_place_after_any_crash)
{
	struct queue *q;

	declare("dead");
	ask("x-max-length", 20);
	ask_dead_letters_to("dead");
	q = declare("work");
	while (!queue_may_deliver(q))
		step_store();
	run_all();
	memset(lsns, 0, sizeof(lsns));
	disk->hook = note_point;
	for (uint32_t i = 0; i < NUMBERS; i++) {
		struct entry entry;

		lsns[i] = send(q, i, 100);
		if (i % 3 == 0)
			step_store();
		if (i % 5 == 0 && queue_get(q, false, &entry)) {
			if (i % 2 == 0)
				step_store();
			queue_reject(q, &entry);
		}
	}
	run_all();
	check_points("dead letters", 30, check_point);
}
END_TEST

TESTS_WITH("life_stored", cold_set_up, cold_tear_down, test_all_of_a_long_queue_expires,
	   test_deadlines_hold_over_a_restart, test_what_expired_while_it_was_stopped,
	   test_own_deadlines_of_stored_messages, test_own_deadlines_bring_messages_back,
	   test_own_deadlines_bring_messages_back_after_a_restart,
	   test_own_deadlines_are_noted_once, test_limit_of_a_long_queue,
	   test_letters_are_known_after_a_restart, test_bcc_is_known_after_a_restart,
	   test_dead_letters_are_in_one_place_after_any_crash)
