/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priorities (amqp.md 6.10): what comes first, and that a queue with levels is one queue in all else: limits, deadlines,
 * dead letters, consumers, counts.
 */
#include "broker/policy.h"
#include "unit/life_fixture.h"
#include "util/log.h"

static bool
send_at(struct queue *q, int priority, const char *body)
{
	struct basic_properties properties = {.flags = PROPERTY_priority,
					      .priority = (uint8_t)priority};

	return send_with(q, priority < 0 ? NULL : &properties, body);
}

/* Bodies are their priorities. */
static void
send_each(struct queue *q, const char *priorities)
{
	for (const char *p = priorities; *p != '\0'; p++) {
		char body[] = {*p, '\0'};

		ck_assert(send_at(q, *p - '0', body));
	}
}

static struct queue *
declare_levels(const char *name, int max)
{
	ask_number("x-max-priority", max);
	return declare(name);
}

static uint64_t
level_count(const struct queue *q)
{
	return q->life->parts.count;
}

/* ---- order ---- */

START_TEST(test_highest_first_then_oldest)
{
	struct queue *q = declare_levels("q", 5);

	send_at(q, 1, "a");
	send_at(q, 5, "b");
	send_at(q, -1, "c");
	send_at(q, 3, "d");
	send_at(q, 5, "e");
	send_at(q, 0, "f");
	send_at(q, 200, "g");
	send_at(q, 1, "h");
	ck_assert_str_eq(bodies(q), "b e g d a h c f");
}
END_TEST

/* 0 makes one level, and each message keeps the priority that it came with. */
START_TEST(test_levels_are_capped)
{
	struct queue *none = declare_levels("none", 0);
	struct queue *q = declare_levels("q", 1);
	struct queue *most = declare_levels("most", 255);
	struct queue *from;
	struct entry entry;

	send_each(none, "0190");
	ck_assert_str_eq(bodies(none), "0 1 9 0");
	send_each(q, "0190");
	ck_assert_str_eq(bodies(q), "1 9 0 0");
	entry = take_from(q, &from);
	queue_ack(from, &entry);
	entry = take_from(q, &from);
	ck_assert_uint_eq(message_priority(entry.message), 9);
	ck_assert_uint_eq(properties_of(entry.message).priority, 9);
	queue_ack(from, &entry);
	for (int priority = 0; priority < 256; priority++)
		send_at(most, priority, "x");
	ck_assert_uint_eq(level_count(most), 255);
	for (int priority = 255; priority >= 0; priority--) {
		entry = take_from(most, &from);
		ck_assert_uint_eq(message_priority(entry.message), priority);
		queue_ack(from, &entry);
	}
}
END_TEST

/* The priority is found behind all other properties that come before it. */
START_TEST(test_priority_is_read_behind_others)
{
	struct table headers;
	struct basic_properties properties = {.flags = PROPERTY_content_type | PROPERTY_headers |
						       PROPERTY_priority | PROPERTY_message_id,
					      .content_type = BYTES("text/plain"),
					      .message_id = BYTES("7"),
					      .priority = 77};
	struct message *m;

	table_start(&headers);
	table_put_string(&headers.writer, BYTES("name"), BYTES("value"));
	properties.headers = table_view(&headers);
	m = text_message("x", "key", &properties, "body");
	ck_assert_uint_eq(message_priority(m), 77);
	message_unref(m);
	properties.flags |= PROPERTY_content_encoding | PROPERTY_delivery_mode;
	properties.content_encoding = BYTES("gzip");
	m = text_message("", "", &properties, "");
	ck_assert_uint_eq(message_priority(m), 77);
	message_unref(m);
	properties.flags &= (uint16_t)~PROPERTY_priority;
	m = text_message("", "", &properties, "");
	ck_assert_uint_eq(message_priority(m), 0);
	message_unref(m);
	m = text_message("", "", NULL, "");
	ck_assert_uint_eq(message_priority(m), 0);
	message_unref(m);
}
END_TEST

START_TEST(test_without_levels_priority_means_nothing)
{
	struct queue *q = declare("q");

	send_each(q, "152");
	ck_assert_str_eq(bodies(q), "1 5 2");
}
END_TEST

START_TEST(test_levels_are_made_for_messages)
{
	struct queue *q = declare_levels("q", 255);
	size_t before = broker->queue_count;

	ck_assert_uint_eq(level_count(q), 0);
	send_each(q, "00");
	ck_assert_uint_eq(level_count(q), 0);
	ck_assert_ptr_null(q->life->levels);
	send_each(q, "7737");
	ck_assert_uint_eq(level_count(q), 2);
	ck_assert_uint_eq(broker->queue_count, before);
	queue_purge(q);
	send_each(q, "77");
	ck_assert_uint_eq(level_count(q), 2);
}
END_TEST

START_TEST(test_requeue_goes_to_its_place)
{
	struct queue *q = declare_levels("q", 9);
	struct queue *from[3];
	struct entry entries[3];

	send_at(q, 2, "a");
	send_at(q, 8, "b");
	send_at(q, 8, "c");
	send_at(q, 2, "d");
	for (int i = 0; i < 3; i++)
		entries[i] = take_from(q, &from[i]);
	send_at(q, 8, "e");
	ck_assert_str_eq(bodies(q), "e d");
	queue_requeue(from[2], &entries[2]);
	queue_requeue(from[0], &entries[0]);
	queue_requeue(from[1], &entries[1]);
	ck_assert_str_eq(bodies(q), "b c e a d");
	entries[0] = take_from(q, &from[0]);
	ck_assert(entries[0].bits & ENTRY_REDELIVERED);
	queue_ack(from[0], &entries[0]);
	broker_check(broker);
}
END_TEST

/* Each by its own maximum; those without levels as always. More queues than are held on the stack. */
START_TEST(test_one_message_for_many_queues)
{
	struct queue *queues[12];
	struct route to = {.queues = queues, .count = countof(queues), .room = countof(queues)};

	for (size_t i = 0; i < countof(queues); i++) {
		char name[] = {'q', (char)('a' + i), '\0'};

		queues[i] = i % 3 == 0 ? declare(name) : declare_levels(name, (int)i);
	}
	for (int priority = 0; priority < 16; priority += 5) {
		struct basic_properties properties = {.flags = PROPERTY_priority,
						      .priority = (uint8_t)priority};
		char body[8];
		struct message *m;

		(void)snprintf(body, sizeof(body), "%d", priority);
		m = text_message("", "", &properties, body);
		(void)queue_publish(broker, &to, m);
		message_unref(m);
	}
	ck_assert_str_eq(bodies(queues[0]), "0 5 10 15");
	ck_assert_str_eq(bodies(queues[1]), "5 10 15 0");
	ck_assert_str_eq(bodies(queues[4]), "5 10 15 0");
	ck_assert_str_eq(bodies(queues[7]), "10 15 5 0");
	ck_assert_str_eq(bodies(queues[11]), "15 10 5 0");
	broker_check(broker);
}
END_TEST

/* ---- consumers ---- */

static const char *
taken_by(struct taker *taker)
{
	static char text[TAKEN_MAX];
	size_t at = 0;

	dispatch();
	for (size_t i = 0; i < taker->taken_n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%.*s",
				       BYTES_ARGS(message_body(taker->taken[i].message)));
	text[at] = '\0';
	return text;
}

/* All that it holds; then it takes so many more. */
static void
ack_all(struct taker *taker)
{
	for (size_t i = 0; i < taker->taken_n; i++)
		queue_ack(taker->from[i], &taker->taken[i]);
	taker->taken_n = 0;
	if (taker->consumer != NULL)
		consumer_ready(taker->consumer);
}

START_TEST(test_consumers_get_the_highest_first)
{
	struct queue *q = declare_levels("q", 5);
	struct taker a;

	taker_start(&a, q, "a", 0, 3);
	send_each(q, "1352");
	ck_assert_str_eq(taken_by(&a), "532");
	send_each(q, "044");
	ck_assert_str_eq(taken_by(&a), "532");
	ck_assert_uint_eq(queue_unacked_count(q), 3);
	ack_all(&a);
	ck_assert_str_eq(taken_by(&a), "441");
	ack_all(&a);
	ck_assert_str_eq(taken_by(&a), "0");
	ck_assert_uint_eq(queue_message_count(q), 0);
	send_each(q, "5");
	ck_assert_str_eq(taken_by(&a), "05");
	ack_all(&a);
	taker_cancel(&a);
}
END_TEST

START_TEST(test_consumers_have_turns_over_all_levels)
{
	struct queue *q = declare_levels("q", 5);
	struct taker a;
	struct taker b;
	struct taker low;

	taker_start(&a, q, "a", 0, 3);
	taker_start(&b, q, "b", 0, 2);
	taker_start(&low, q, "l", -1, 9);
	send_each(q, "543210");
	ck_assert_str_eq(order_taken(), "ababal");
	ck_assert_str_eq(taken_by(&a), "531");
	ack_all(&a);
	ack_all(&b);
	ack_all(&low);
	send_each(q, "12");
	ck_assert_str_eq(order_taken(), "ab");
	ack_all(&a);
	ack_all(&b);
	taker_cancel(&a);
	taker_cancel(&b);
	taker_cancel(&low);
}
END_TEST

START_TEST(test_single_active_consumer)
{
	struct queue *q;
	struct taker a;
	struct taker b;

	table_put_bool(&arguments.writer, BYTES("x-single-active-consumer"), true);
	q = declare_levels("q", 5);
	taker_start(&a, q, "a", 0, 2);
	taker_start(&b, q, "b", 0, 9);
	send_each(q, "153");
	ck_assert_str_eq(taken_by(&a), "53");
	for (size_t i = 0; i < 2; i++)
		queue_requeue(a.from[i], &a.taken[i]);
	a.taken_n = 0;
	taker_cancel(&a);
	ck_assert_str_eq(taken_by(&b), "531");
	ack_all(&b);
	taker_cancel(&b);
}
END_TEST

START_TEST(test_no_ack)
{
	struct queue *q = declare_levels("q", 5);
	struct taker a = {.room = 10};
	struct consumer_spec spec = taker_spec(&a, "a");

	spec.no_ack = true;
	send_each(q, "152");
	a.consumer = consumer_new(q, &spec);
	ck_assert_uint_eq(strlen(order_taken()), 3);
	ck_assert_uint_eq(queue_unacked_count(q), 0);
	ck_assert_uint_eq(queue_message_count(q), 0);
	taker_cancel(&a);
}
END_TEST

static unsigned woken;

static void
on_woken(struct yielder *yielder)
{
	(void)yielder;
	woken++;
}

/* What is on all levels counts for publishers. */
START_TEST(test_publishers_yield)
{
	struct queue *q = declare_levels("q", 5);
	struct yielder yielder = {.go_on = on_woken};
	struct taker a;
	char large[60000];

	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	taker_start(&a, q, "a", 0, 1);
	send_at(q, 5, "first");
	ck_assert_str_eq(taken_by(&a), "first");
	for (int i = 0; i < 5; i++)
		send_at(q, 1 + i % 3, large);
	ck_assert(queue_wants_yield(q));
	yielder_wait(&yielder, q);
	dispatch();
	ck_assert_uint_eq(woken, 0);
	queue_purge(q);
	ck_assert_uint_eq(woken, 1);
	ck_assert(!queue_wants_yield(q));
	for (int i = 0; i < 5; i++)
		send_at(q, 5, large);
	yielder_wait(&yielder, q);
	a.room = 6;
	consumer_ready(a.consumer);
	dispatch();
	ck_assert_uint_eq(woken, 2);
	ack_all(&a);
	taker_cancel(&a);
}
END_TEST

/* ---- counts ---- */

START_TEST(test_counts_are_of_all_levels)
{
	struct queue *q = declare_levels("q", 5);
	struct queue *from;
	struct entry entry;

	send_at(q, 0, "1");
	send_at(q, 2, "22");
	send_at(q, 5, "333");
	ck_assert_uint_eq(queue_message_count(q), 3);
	ck_assert_uint_eq(queue_octets(q), 6);
	ck_assert_uint_eq(broker_message_count(broker), 3);
	entry = take_from(q, &from);
	ck_assert_uint_eq(queue_message_count(q), 2);
	ck_assert_uint_eq(queue_unacked_count(q), 1);
	ck_assert_uint_eq(queue_purge(q), 2);
	ck_assert_uint_eq(queue_message_count(q), 0);
	ck_assert_uint_eq(queue_octets(q), 0);
	queue_requeue(from, &entry);
	ck_assert_uint_eq(queue_message_count(q), 1);
	send_each(q, "023");
	ck_assert_uint_eq(queue_delete(q), 4);
	broker_reap(broker);
	broker_check(broker);
}
END_TEST

START_TEST(test_unacked_of_a_deleted_queue)
{
	struct queue *q = declare_levels("q", 5);
	struct queue *from[2];
	struct entry entries[2];

	send_each(q, "240");
	for (int i = 0; i < 2; i++) {
		entries[i] = take_from(q, &from[i]);
		queue_ref(from[i]);
	}
	ck_assert_uint_eq(queue_delete(q), 1);
	broker_reap(broker);
	queue_requeue(from[0], &entries[0]);
	queue_ack(from[1], &entries[1]);
	queue_unref(from[0]);
	queue_unref(from[1]);
	broker_reap(broker);
	broker_check(broker);
}
END_TEST

/* ---- limits ---- */

/* The dead letter that is first came from queue "q", whatever its level. */
static void
expect_first_death(struct queue *dead, const char *reason)
{
	struct entry entry = take(dead);

	expect_death(entry.message, 0, "q", reason, 1);
	queue_ack(dead, &entry);
}

/* amqp.md 6.8, last but two: surprising, but so it is. */
START_TEST(test_drop_head_begins_with_the_highest)
{
	struct queue *dead = declare("dead");
	struct queue *q;

	ask_dead_letters_to("dead");
	ask_number("x-max-length", 3);
	q = declare_levels("q", 10);
	send_each(q, "15325");
	ck_assert_str_eq(bodies(q), "3 2 1");
	ck_assert_str_eq(bodies(dead), "5 5");
	expect_first_death(dead, "maxlen");
}
END_TEST

START_TEST(test_octets_of_all_levels_are_limited)
{
	struct queue *q;

	ask_number("x-max-length-bytes", 7);
	q = declare_levels("q", 10);
	send_at(q, 1, "aaa");
	send_at(q, 2, "bbb");
	send_at(q, 0, "c");
	ck_assert_str_eq(bodies(q), "bbb aaa c");
	send_at(q, 0, "d");
	ck_assert_str_eq(bodies(q), "aaa c d");
}
END_TEST

START_TEST(test_full_queues_refuse_any_priority)
{
	struct queue *dead = declare("dead");
	struct queue *q;

	ask_dead_letters_to("dead");
	ask_number("x-max-length", 2);
	ask_string("x-overflow", "reject-publish-dlx");
	q = declare_levels("q", 10);
	send_each(q, "16");
	ck_assert(!send_at(q, 9, "9"));
	ck_assert(!send_at(q, 0, "0"));
	ck_assert_str_eq(bodies(q), "6 1");
	ck_assert_str_eq(bodies(dead), "9 0");
}
END_TEST

START_TEST(test_what_comes_back_may_be_too_much)
{
	struct queue *q;
	struct queue *from;
	struct entry entry;

	ask_number("x-max-length", 2);
	q = declare_levels("q", 10);
	send_each(q, "51");
	entry = take_from(q, &from);
	send_each(q, "3");
	ck_assert_str_eq(bodies(q), "3 1");
	queue_requeue(from, &entry);
	ck_assert_str_eq(bodies(q), "3 1");
}
END_TEST

START_TEST(test_delivery_limit)
{
	struct queue *dead = declare("dead");
	struct queue *q;

	ask_dead_letters_to("dead");
	ask_number("x-delivery-limit", 1);
	q = declare_levels("q", 10);
	send_each(q, "27");
	requeue_first(q);
	ck_assert_str_eq(bodies(q), "7 2");
	requeue_first(q);
	ck_assert_str_eq(bodies(q), "2");
	ck_assert_str_eq(bodies(dead), "7");
	expect_first_death(dead, "delivery_limit");
}
END_TEST

/* ---- deadlines ---- */

START_TEST(test_a_ttl_is_for_all_levels)
{
	struct queue *dead = declare("dead");
	struct queue *q;

	ask_dead_letters_to("dead");
	ask_number("x-message-ttl", 100);
	q = declare_levels("q", 10);
	send_each(q, "05");
	pass(50);
	send_each(q, "25");
	pass(49);
	ck_assert_str_eq(bodies(q), "5 5 2 0");
	pass(1);
	ck_assert_str_eq(bodies(q), "5 2");
	pass(50);
	ck_assert_uint_eq(queue_message_count(q), 0);
	ck_assert_uint_eq(queue_message_count(dead), 4);
	expect_first_death(dead, "expired");
}
END_TEST

static void
send_expiring(struct queue *q, int priority, const char *ms, const char *body)
{
	struct basic_properties properties = {.flags = PROPERTY_priority | PROPERTY_expiration,
					      .priority = (uint8_t)priority,
					      .expiration = bytes_str(ms)};

	ck_assert(send_with(q, &properties, body));
}

START_TEST(test_expirations_of_messages)
{
	struct queue *q = declare_levels("q", 10);
	struct taker a;

	send_expiring(q, 5, "300", "a");
	send_expiring(q, 5, "100", "b");
	send_expiring(q, 0, "200", "c");
	send_at(q, 5, "d");
	pass(100);
	ck_assert_str_eq(bodies(q), "a d c");
	pass(100);
	ck_assert_str_eq(bodies(q), "a d");
	pass(100);
	ck_assert_str_eq(bodies(q), "d");
	/* one that may not wait is handed out at once, or never */
	send_expiring(q, 7, "0", "e");
	pass(1);
	ck_assert_str_eq(bodies(q), "d");
	taker_start(&a, q, "a", 0, 9);
	send_expiring(q, 7, "0", "f");
	pass(1);
	ck_assert_str_eq(taken_by(&a), "fd");
	ack_all(&a);
	taker_cancel(&a);
}
END_TEST

START_TEST(test_an_unused_queue_goes_with_its_levels)
{
	struct queue *q;

	ask_number("x-expires", 100);
	q = declare_levels("q", 10);
	log_set_level(LOG_NONE);
	send_each(q, "05");
	pass(99);
	ck_assert_uint_eq(queue_message_count(q), 2);
	pass(1);
	ck_assert_ptr_null(queue_find(vhost, BYTES("q")));
	broker_reap(broker);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

/* ---- dead letters, policies ---- */

START_TEST(test_dead_letters_keep_their_priority)
{
	struct queue *dead = declare_levels("dead", 5);
	struct queue *q;

	ask_dead_letters_to("dead");
	q = declare_levels("q", 10);
	send_each(q, "193");
	for (int i = 0; i < 3; i++)
		reject_first(q);
	ck_assert_str_eq(bodies(dead), "9 3 1");
}
END_TEST

/* A letter that would go round is dropped, on whatever level it died. */
START_TEST(test_dead_letters_do_not_go_round)
{
	struct queue *q;

	ask_dead_letters_to("q");
	ask_number("x-message-ttl", 10);
	q = declare_levels("q", 10);
	log_set_level(LOG_NONE);
	send_each(q, "50");
	pass(10);
	ck_assert_uint_eq(queue_message_count(q), 0);
}
END_TEST

static void
put_policy(const char *key, int value)
{
	struct table definition;
	struct policy_spec spec = {
		.name = BYTES("p"), .pattern = BYTES(""), .apply_to = BYTES("queues")};

	table_start(&definition);
	table_put_int(&definition.writer, bytes_str(key), value);
	spec.definition = table_view(&definition);
	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
	policy_put(vhost, POLICY_USER, &spec);
}

START_TEST(test_policies_are_for_all_levels)
{
	struct queue *q = declare_levels("q", 10);

	send_each(q, "00553");
	put_policy("max-length", 3);
	ck_assert_str_eq(bodies(q), "3 0 0");
	send_each(q, "8");
	ck_assert_str_eq(bodies(q), "3 0 0");
	put_policy("message-ttl", 50);
	send_each(q, "8");
	ck_assert_str_eq(bodies(q), "8 3 0 0");
	pass(50);
	ck_assert_uint_eq(queue_message_count(q), 0);
	policy_remove(policy_find(vhost, POLICY_USER, BYTES("p")));
	send_each(q, "853");
	pass(100);
	ck_assert_str_eq(bodies(q), "8 5 3");
	broker_check(broker);
}
END_TEST

START_TEST(test_no_levels_together_with_groups)
{
	struct queue_spec spec = {.name = BYTES("q")};
	const struct reply *refusal;
	struct queue *q;

	ask_number("x-max-priority", 5);
	ask_string("x-group-by", "customer");
	spec.arguments = table_view(&arguments);
	refusal = queue_check_new(vhost, &spec);
	ck_assert_ptr_nonnull(refusal);
	ck_assert_str_eq(refusal->text,
			 "PRECONDITION_FAILED - invalid arg 'x-group-by' for queue 'q' in vhost "
			 "'v': not together with 'x-max-priority'");
	/* one that was there before that was refused has its groups */
	q = queue_create(vhost, &spec);
	send_each(q, "15");
	ck_assert_str_eq(bodies(q), "1 5");
	broker_check(broker);
}
END_TEST

TESTS_WITH("priorities", life_set_up, model_tear_down, test_highest_first_then_oldest,
	   test_levels_are_capped, test_priority_is_read_behind_others,
	   test_without_levels_priority_means_nothing, test_levels_are_made_for_messages,
	   test_requeue_goes_to_its_place, test_one_message_for_many_queues,
	   test_consumers_get_the_highest_first, test_consumers_have_turns_over_all_levels,
	   test_single_active_consumer, test_no_ack, test_publishers_yield,
	   test_counts_are_of_all_levels, test_unacked_of_a_deleted_queue,
	   test_drop_head_begins_with_the_highest, test_octets_of_all_levels_are_limited,
	   test_full_queues_refuse_any_priority, test_what_comes_back_may_be_too_much,
	   test_delivery_limit, test_a_ttl_is_for_all_levels, test_expirations_of_messages,
	   test_an_unused_queue_goes_with_its_levels, test_dead_letters_keep_their_priority,
	   test_dead_letters_do_not_go_round, test_policies_are_for_all_levels,
	   test_no_levels_together_with_groups)
