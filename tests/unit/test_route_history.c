/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x-recent-history exchanges: what is remembered and who gets it (amqp.md 5.8).
 */
#include "model_fixture.h"

static struct exchange *x;
static struct queue *q;

static void
set_up(void)
{
	model_set_up();
	x = make_exchange("x", "x-recent-history");
	q = make_queue("q");
}

static void
remake(int64_t length)
{
	struct table table;

	exchange_delete(x);
	table_start(&table);
	table_put_long(&table.writer, BYTES("x-recent-history-length"), length);
	x = make_with_arguments("x", "x-recent-history", &table);
}

/* Messages first to last, their keys being their numbers, are published to the exchange. */
static void
publish(struct exchange *exchange, unsigned first, unsigned last)
{
	for (unsigned i = first; i <= last; i++) {
		struct basic_properties none = {.flags = 0};
		char text[16];
		struct bytes key;
		struct message *message;

		snprintf(text, sizeof(text), "%u", i);
		key = bytes_str(text);
		message = message_to(exchange, key, &none);
		exchange_route(exchange, &key, 1, message, &route);
		ck_assert(route.uncacheable);
		queue_publish(broker, &route, message);
		message_unref(message);
	}
}

/* The queue holds messages first to last and no others; takes them. */
static void
assert_holds(struct queue *queue, unsigned first, unsigned last)
{
	struct entry entry;

	for (unsigned i = first; i <= last; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%u", i);
		ck_assert_msg(queue_get(queue, true, &entry), "no message %u", i);
		ck_assert(bytes_equal(message_key(entry.message), bytes_str(text)));
		ck_assert(!(entry.bits & ENTRY_REDELIVERED));
		message_unref(entry.message);
	}
	ck_assert_uint_eq(queue->ready_count, 0);
}

START_TEST(test_history_is_a_fanout)
{
	struct queue *other = make_queue("other");

	bind_queue(x, q, "a", no_bytes());
	bind_queue(x, other, "b", no_bytes());
	publish(x, 1, 3);
	assert_holds(q, 1, 3);
	assert_holds(other, 1, 3);
}
END_TEST

START_TEST(test_history_goes_to_a_new_queue)
{
	publish(x, 1, 5);
	bind_queue(x, q, "", no_bytes());
	assert_holds(q, 1, 5);
	publish(x, 6, 30);
	assert_holds(q, 6, 30);
	bind_queue(x, make_queue("late"), "", no_bytes());
	assert_holds(queue_find(vhost, BYTES("late")), 11, 30);
}
END_TEST

START_TEST(test_history_for_each_new_binding)
{
	publish(x, 1, 2);
	bind_queue(x, q, "a", no_bytes());
	bind_queue(x, q, "a", no_bytes());
	assert_holds(q, 1, 2);
	bind_queue(x, q, "b", no_bytes());
	assert_holds(q, 1, 2);
	unbind_queue(x, q, "a", no_bytes());
	bind_queue(x, q, "a", no_bytes());
	assert_holds(q, 1, 2);
}
END_TEST

START_TEST(test_history_of_a_length)
{
	static const int64_t lengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 100};

	for (size_t i = 0; i < countof(lengths); i++) {
		remake(lengths[i]);
		for (unsigned last = 1; last <= 40; last++) {
			unsigned length = (unsigned)lengths[i];

			publish(x, last, last);
			bind_queue(x, q, "", no_bytes());
			assert_holds(q, last > length ? last - length + 1 : 1, last);
			unbind_queue(x, q, "", no_bytes());
			exchange_check(x);
		}
	}
}
END_TEST

/* The ring grows with what comes. */
START_TEST(test_history_without_end)
{
	remake(INT64_MAX);
	publish(x, 1, 1000);
	bind_queue(x, q, "", no_bytes());
	assert_holds(q, 1, 1000);
}
END_TEST

START_TEST(test_history_leaves_out_what_says_so)
{
	static const struct {
		struct bytes value;
		bool stored;
	} rows[] = {
		{BYTES("t\1"), false},
		{BYTES("t\0"), true},
		{BYTES("b\1"), true},
		{BYTES("S\0\0\0\1"
		       "1"),
		 true},
		{BYTES("V"), true},
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct table headers;

		remake(5);
		table_start(&headers);
		write_shortstr(&headers.writer, BYTES("x-recent-history-no-store"));
		write_raw(&headers.writer, rows[i].value);
		ck_assert_uint_eq(route_with_headers(x, BYTES("1"), table_view(&headers)), 0);
		bind_queue(x, q, "", no_bytes());
		assert_holds(q, 1, rows[i].stored ? 1 : 0);
	}
}
END_TEST

START_TEST(test_history_goes_to_a_new_exchange)
{
	struct exchange *y = make_exchange("y", "direct");
	struct queue *other = make_queue("other");

	bind_queue(y, q, "1", no_bytes());
	bind_queue(y, other, "2", no_bytes());
	bind_queue(y, other, "3", no_bytes());
	publish(x, 1, 4);
	bind_exchange(x, y, "");
	assert_holds(q, 1, 1);
	assert_holds(other, 2, 3);
}
END_TEST

/* With the keys of CC and BCC, though the message has but one. */
START_TEST(test_history_keeps_all_keys)
{
	struct basic_properties none = {.flags = 0};
	const struct bytes keys[] = {BYTES("1"), BYTES(""), BYTES("another")};
	struct message *message = message_to(x, keys[0], &none);
	struct exchange *y = make_exchange("y", "direct");
	struct queue *other = make_queue("other");

	exchange_route(x, keys, countof(keys), message, &route);
	message_unref(message);
	bind_queue(y, q, "another", no_bytes());
	bind_queue(y, other, "", no_bytes());
	bind_exchange(x, y, "");
	assert_holds(q, 1, 1);
	assert_holds(other, 1, 1);
}
END_TEST

/* What comes round is remembered once more, as any publish is. */
START_TEST(test_history_in_a_circle)
{
	struct exchange *y = make_exchange("y", "fanout");

	remake(4);
	bind_exchange(y, x, "");
	publish(x, 1, 3);
	bind_exchange(x, y, "");
	exchange_check(x);
	bind_queue(x, q, "", no_bytes());
	ck_assert_uint_eq(q->ready_count, 4);
}
END_TEST

START_TEST(test_history_behind_another_exchange)
{
	struct exchange *topic = make_exchange("t", "topic");

	bind_exchange(topic, x, "#");
	publish(topic, 1, 3);
	for (int again = 0; again < 3; again++)
		publish(topic, 4, 4);
	bind_queue(x, q, "", no_bytes());
	ck_assert_uint_eq(q->ready_count, 6);
}
END_TEST

START_TEST(test_history_holds_one_reference)
{
	struct basic_properties none = {.flags = 0};
	struct bytes key = BYTES("k");
	struct message *message = message_to(x, key, &none);

	exchange_route(x, &key, 1, message, &route);
	ck_assert_uint_eq(message->refs, 2);
	bind_queue(x, q, "", no_bytes());
	ck_assert_uint_eq(message->refs, 3);
	exchange_delete(x);
	x = NULL;
	ck_assert_uint_eq(message->refs, 2);
	queue_purge(q);
	ck_assert_uint_eq(message->refs, 1);
	message_unref(message);
}
END_TEST

static void
assert_length_refused(struct table *table, const char *shown)
{
	struct exchange_spec spec = exchange_spec_of("y", "x-recent-history");
	char text[128];

	spec.arguments = table_view(table);
	snprintf(text, sizeof(text),
		 "PRECONDITION_FAILED - Invalid argument %s, 'x-recent-history-length' must be a "
		 "positive integer",
		 shown);
	assert_refused(exchange_check_arguments(vhost, &spec), PRECONDITION_FAILED, text);
	table_start(table);
}

START_TEST(test_history_refuses_lengths)
{
	struct bytes name = BYTES("x-recent-history-length");
	struct table table;

	table_start(&table);
	table_put_int(&table.writer, name, 0);
	assert_length_refused(&table, "0");
	table_put_long(&table.writer, name, INT64_MIN);
	assert_length_refused(&table, "-9223372036854775808");
	table_put_string(&table.writer, name, BYTES("5"));
	assert_length_refused(&table, "<<\"5\">>");
	table_put_bool(&table.writer, name, true);
	assert_length_refused(&table, "true");
	table_put_timestamp(&table.writer, name, 5);
	assert_length_refused(&table, "5");
}
END_TEST

TESTS_WITH("route_history", set_up, model_tear_down, test_history_is_a_fanout,
	   test_history_goes_to_a_new_queue, test_history_for_each_new_binding,
	   test_history_of_a_length, test_history_without_end, test_history_leaves_out_what_says_so,
	   test_history_goes_to_a_new_exchange, test_history_keeps_all_keys,
	   test_history_in_a_circle, test_history_behind_another_exchange,
	   test_history_holds_one_reference, test_history_refuses_lengths)
