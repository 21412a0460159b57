/* SPDX-License-Identifier: Apache-2.0 */
/* Deduplication by exchanges (amqp.md 5.8): what is a duplicate, for how long, and what is not remembered. */
#include "unit/deduplication_fixture.h"

static struct exchange *x;
static struct queue *q;

static void
set_up(void)
{
	deduplication_set_up();
	q = declare("q");
}

static void
make(const char *type)
{
	x = declare_exchange("x", type);
	bind_queue(x, q, "key", no_bytes());
}

static void
make_cache(int64_t size)
{
	ask_true("x-message-deduplication");
	if (size > 0)
		ask_number("x-cache-size", size);
	make("direct");
}

START_TEST(test_a_value_comes_once)
{
	make_cache(0);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
	ck_assert_int_eq(publish_key(x, "b"), TAKEN);
	ck_assert_str_eq(bodies(q), "a b");
	ck_assert_uint_eq(exchange_deduplication(x).duplicates, 1);
	ck_assert_uint_eq(exchange_deduplication(x).count, 2);
	ck_assert_uint_eq(exchange_deduplication(x).size, 128);
}
END_TEST

START_TEST(test_without_a_value_all_pass)
{
	make_cache(0);
	ck_assert_int_eq(publish_keyed(x, "a"), TAKEN);
	ck_assert_int_eq(publish_keyed(x, "a"), TAKEN);
	ck_assert_uint_eq(exchange_deduplication(x).count, 0);
}
END_TEST

START_TEST(test_nobody_asked)
{
	table_put_bool(&arguments.writer, BYTES("x-message-deduplication"), false);
	ask_number("x-cache-size", -5); // which is nobody's
	make("direct");
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert(!exchange_deduplication(x).is_on);
}
END_TEST

/* x-cache-size: the oldest value goes, also when it was asked for just now. */
START_TEST(test_size)
{
	make_cache(3);
	publish_key(x, "a");
	publish_key(x, "b");
	publish_key(x, "c");
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
	ck_assert_int_eq(publish_key(x, "d"), TAKEN);
	ck_assert_int_eq(publish_key(x, "b"), DUPLICATE);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_uint_eq(exchange_deduplication(x).count, 3);
}
END_TEST

START_TEST(test_the_default_size)
{
	char text[16];

	make_cache(0);
	for (int i = 0; i < 129; i++) {
		snprintf(text, sizeof(text), "%d", i);
		ck_assert_int_eq(publish_key(x, text), TAKEN);
	}
	ck_assert_int_eq(publish_key(x, "1"), DUPLICATE);
	ck_assert_int_eq(publish_key(x, "0"), TAKEN);
	queue_purge(q);
}
END_TEST

START_TEST(test_ttl)
{
	ask_number("x-cache-ttl", 1000);
	make_cache(0);
	publish_key(x, "a");
	pass(999);
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
	pass(1);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	pass(999);
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
}
END_TEST

/* A message may say for how long its own value is remembered. */
START_TEST(test_ttl_of_a_message)
{
	ask_number("x-cache-ttl", 1000);
	make_cache(0);
	with_number("x-cache-ttl", 50);
	publish_key(x, "short");
	with_number("x-cache-ttl", 5000);
	publish_key(x, "long");
	with_text("x-cache-ttl", "50"); // is none
	publish_key(x, "plain");
	with_number("x-cache-ttl", 0);
	publish_key(x, "not at all");
	with_number("x-cache-ttl", INT64_MAX);
	publish_key(x, "for ever");
	ck_assert_int_eq(publish_key(x, "not at all"), TAKEN);
	pass(50);
	ck_assert_int_eq(publish_key(x, "short"), TAKEN);
	ck_assert_int_eq(publish_key(x, "plain"), DUPLICATE);
	pass(950);
	ck_assert_int_eq(publish_key(x, "plain"), TAKEN);
	pass(3999);
	ck_assert_int_eq(publish_key(x, "long"), DUPLICATE);
	pass(1);
	ck_assert_int_eq(publish_key(x, "long"), TAKEN);
	pass(1000000000);
	ck_assert_int_eq(publish_key(x, "for ever"), DUPLICATE);
}
END_TEST

/* Values whose time is over make room before memory is taken. */
START_TEST(test_what_is_over_makes_room)
{
	char text[16];
	size_t before;

	queue_delete(q);
	ask_number("x-max-length", 0);
	q = declare("q");
	ask_number("x-cache-ttl", 10);
	make_cache(1000000);
	for (int i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "%d", i);
		publish_key(x, text);
	}
	before = mem_in_use();
	for (int i = 200; i < 5000; i++) {
		if (i % 100 == 0)
			pass(10);
		snprintf(text, sizeof(text), "%d", i);
		publish_key(x, text);
	}
	ck_assert_uint_lt(mem_in_use(), before + 100000);
	ck_assert_uint_lt(exchange_deduplication(x).count, 600);
}
END_TEST

START_TEST(test_another_header)
{
	ask_string("x-deduplication-header", "id");
	make_cache(0);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	with_text("id", "1");
	ck_assert_int_eq(publish_keyed(x, "b"), TAKEN);
	with_text("id", "1");
	ck_assert_int_eq(publish_keyed(x, "b"), DUPLICATE);
}
END_TEST

/* ---- values ---- */

/* Publishes with a key of this type; octets is what follows the letter. */
static enum outcome
publish_raw(const char *octets, size_t n)
{
	table_start(&headers);
	write_shortstr(&headers.writer, BYTES(KEY));
	write_raw(&headers.writer, bytes_of(octets, n));
	return publish_keyed(x, "raw");
}

#define RAW(text) publish_raw(text, sizeof(text) - 1)

START_TEST(test_numbers_of_any_width_are_one)
{
	make_cache(0);
	ck_assert_int_eq(RAW("b\x05"), TAKEN);
	ck_assert_int_eq(RAW("B\x05"), DUPLICATE);
	ck_assert_int_eq(RAW("s\0\x05"), DUPLICATE);
	ck_assert_int_eq(RAW("I\0\0\0\x05"), DUPLICATE);
	ck_assert_int_eq(RAW("l\0\0\0\0\0\0\0\x05"), DUPLICATE);
	ck_assert_int_eq(RAW("b\xfb"), TAKEN);
	ck_assert_int_eq(RAW("I\xff\xff\xff\xfb"), DUPLICATE);
}
END_TEST

START_TEST(test_kinds_differ)
{
	make_cache(0);
	ck_assert_int_eq(RAW("b\x01"), TAKEN);
	ck_assert_int_eq(RAW("t\x01"), TAKEN);
	ck_assert_int_eq(RAW("T\0\0\0\0\0\0\0\x01"), TAKEN);
	ck_assert_int_eq(RAW("d\x3f\xf0\0\0\0\0\0\0"), TAKEN);
	ck_assert_int_eq(RAW("f\x3f\x80\0\0"), DUPLICATE);
	ck_assert_int_eq(RAW("S\0\0\0\x01"
			     "1"),
			 TAKEN);
	ck_assert_int_eq(RAW("x\0\0\0\x01"
			     "1"),
			 DUPLICATE);
	ck_assert_int_eq(RAW("S\0\0\0\x08\0\0\0\0\0\0\0\x01"), TAKEN);
	ck_assert_int_eq(RAW("D\0\0\0\0\x01"), TAKEN);
	ck_assert_int_eq(RAW("D\0\0\0\0\x01"), DUPLICATE);
	ck_assert_int_eq(RAW("V"), TAKEN);
	ck_assert_int_eq(RAW("V"), DUPLICATE);
	ck_assert_int_eq(RAW("S\0\0\0\0"), TAKEN);
	ck_assert_int_eq(RAW("d\0\0\0\0\0\0\0\0"), TAKEN);
	ck_assert_int_eq(RAW("d\x80\0\0\0\0\0\0\0"), DUPLICATE);
}
END_TEST

START_TEST(test_tables_and_arrays)
{
	make_cache(0);
	ck_assert_int_eq(RAW("F\0\0\0\x04\x01"
			     "at\x01"),
			 TAKEN);
	ck_assert_int_eq(RAW("F\0\0\0\x04\x01"
			     "at\x01"),
			 DUPLICATE);
	ck_assert_int_eq(RAW("F\0\0\0\x04\x01"
			     "at\0"),
			 TAKEN);
	ck_assert_int_eq(RAW("A\0\0\0\x02t\x01"), TAKEN);
	ck_assert_int_eq(RAW("A\0\0\0\x02t\x01"), DUPLICATE);
	ck_assert_int_eq(RAW("A\0\0\0\0"), TAKEN);
	ck_assert_int_eq(RAW("F\0\0\0\0"), TAKEN);
}
END_TEST

/* Long values are told apart by all of their octets, and take no more room. */
START_TEST(test_long_values)
{
	static char text[3001];
	size_t before;

	make_cache(1000);
	memset(text, 'x', sizeof(text) - 1);
	publish_keyed(x, "a");
	before = mem_in_use();
	for (int i = 0; i < 1000; i++) {
		text[i * 3] = 'y';
		ck_assert_int_eq(publish_key(x, text), TAKEN);
		ck_assert_int_eq(publish_key(x, text), DUPLICATE);
		text[i * 3] = 'x';
		queue_purge(q);
	}
	/* 3 MB of values */
	ck_assert_uint_lt(mem_in_use(), before + 200000);
}
END_TEST

/* ---- what is not remembered ---- */

START_TEST(test_a_message_without_a_queue_is_not_remembered)
{
	make_cache(0);
	unbind_queue(x, q, "key", no_bytes());
	ck_assert_int_eq(publish_key(x, "a"), UNROUTABLE);
	bind_queue(x, q, "key", no_bytes());
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
}
END_TEST

START_TEST(test_what_a_queue_refuses_is_not_remembered)
{
	struct queue *full;

	ask_number("x-max-length", 1);
	ask_string("x-overflow", "reject-publish");
	full = declare("full");
	make_cache(0);
	bind_queue(x, full, "key", no_bytes());
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_int_eq(publish_key(x, "b"), REFUSED);
	queue_purge(full);
	ck_assert_int_eq(publish_key(x, "b"), TAKEN);
	/* a duplicate is one, full or not */
	ck_assert_int_eq(publish_key(x, "b"), DUPLICATE);
	ck_assert_str_eq(bodies(q), "a b b");
}
END_TEST

/* ---- other exchanges ---- */

START_TEST(test_the_alternate_is_not_asked)
{
	struct exchange *other = make_exchange("other", "fanout");

	bind_queue(other, declare("unrouted"), "", no_bytes());
	ask_string("alternate-exchange", "other");
	make_cache(0);
	publish_key(x, "a");
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
	ck_assert_str_eq(bodies(queue_find(vhost, BYTES("unrouted"))), "");
	unbind_queue(x, q, "key", no_bytes());
	ck_assert_int_eq(publish_key(x, "b"), TAKEN);
	ck_assert_str_eq(bodies(queue_find(vhost, BYTES("unrouted"))), "b");
	/* which was taken, too */
	ck_assert_int_eq(publish_key(x, "b"), DUPLICATE);
}
END_TEST

/* An exchange behind another keeps its own away only. */
START_TEST(test_behind_another_exchange)
{
	struct exchange *front = make_exchange("front", "fanout");
	struct queue *direct = declare("direct");

	make_cache(0);
	bind_exchange(front, x, "");
	bind_queue(front, direct, "", no_bytes());
	ck_assert_int_eq(publish_key(front, "a"), TAKEN);
	ck_assert_int_eq(publish_key(front, "a"), TAKEN);
	ck_assert(route.is_duplicate);
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_str_eq(bodies(direct), "a a");
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
	unbind_queue(front, direct, "", no_bytes());
	ck_assert_int_eq(publish_key(front, "a"), DUPLICATE);
}
END_TEST

/* A topic exchange remembers routes, but not one that an exchange on the way has a say in: also when it was walked
 * for a dead letter, which nobody is asked for. */
START_TEST(test_routes_are_not_remembered)
{
	struct exchange *front = make_exchange("front", "topic");

	make_cache(0);
	bind_exchange(front, x, "#");
	for (int i = 0; i < 4; i++)
		route_key(front, "key");
	ck_assert_int_eq(publish_key(front, "a"), TAKEN);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(publish_key(front, "a"), DUPLICATE);
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

/* Marks of a route do not go with the next one. */
START_TEST(test_marks_end_with_their_route)
{
	struct exchange *plain = make_exchange("plain", "fanout");

	make_cache(0);
	unbind_queue(x, q, "key", no_bytes());
	bind_queue(plain, q, "", no_bytes());
	ck_assert_int_eq(publish_key(x, "a"), UNROUTABLE);
	ck_assert_int_eq(publish_key(plain, "b"), TAKEN);
	bind_queue(x, q, "key", no_bytes());
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
}
END_TEST

START_TEST(test_a_dead_letter_is_no_duplicate)
{
	struct queue *back = declare("back");

	make_cache(0);
	unbind_queue(x, q, "key", no_bytes());
	ask_string("x-dead-letter-exchange", "x");
	queue_delete(q);
	q = declare("q");
	bind_queue(x, q, "key", no_bytes());
	bind_queue(x, back, "key", no_bytes());
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	reject_first(q);
	ck_assert_str_eq(bodies(back), "a a");
	ck_assert_uint_eq(exchange_deduplication(x).duplicates, 0);
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
}
END_TEST

/* What is held back is known from when it came, and goes on when it is due. */
START_TEST(test_a_delayed_message)
{
	ask_string("x-delayed-type", "direct");
	ask_true("x-message-deduplication");
	make("x-delayed-message");
	for (int i = 0; i < 2; i++) {
		with_number("x-delay", 1000);
		ck_assert_int_eq(publish_key(x, "a"), i == 0 ? TAKEN : DUPLICATE);
	}
	ck_assert_str_eq(bodies(q), "");
	pass(1000);
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
	ck_assert_uint_eq(exchange_deduplication(x).duplicates, 2);
}
END_TEST

/* ---- the plugin's type ---- */

START_TEST(test_the_type_is_a_fanout)
{
	ask_number("x-cache-size", 2);
	make("x-message-deduplication");
	bind_queue(x, declare("other"), "another", no_bytes());
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
	ck_assert_uint_eq(exchange_deduplication(x).size, 2);
	ck_assert_str_eq(bodies(queue_find(vhost, BYTES("other"))), "a");
	ck_assert_str_eq(exchange_type_name(x), "x-message-deduplication");
}
END_TEST

START_TEST(test_the_type_takes_digits)
{
	ask_string("x-cache-size", "3");
	ask_string("x-cache-ttl", "1000");
	ask_string("x-cache-persistence", "memory");
	make("x-message-deduplication");
	ck_assert_uint_eq(exchange_deduplication(x).size, 3);
	publish_key(x, "a");
	pass(1000);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
}
END_TEST

static void
refused(const char *type, const char *text)
{
	struct exchange_spec spec = exchange_spec_of("x", type);

	spec.arguments = table_view(&arguments);
	assert_refused(exchange_check_arguments(vhost, &spec), PRECONDITION_FAILED, text);
	table_start(&arguments);
}

#define BAD_SIZE                                                                              \
	"nvalid argument, 'x-cache-size' must be an integer greater than 0, and 16777216 at " \
	"most in exchange 'x' in vhost 'v'"

START_TEST(test_bad_arguments)
{
	static const char type[] = "x-message-deduplication";

	refused(type, "PRECONDITION_FAILED - Missing or i" BAD_SIZE);
	ask_number("x-cache-size", 0);
	refused(type, "PRECONDITION_FAILED - I" BAD_SIZE);
	ask_number("x-cache-size", DEDUPLICATION_SIZE_MAX + 1);
	refused(type, "PRECONDITION_FAILED - I" BAD_SIZE);
	ask_string("x-cache-size", "3k");
	refused(type, "PRECONDITION_FAILED - I" BAD_SIZE);
	ask_true("x-message-deduplication");
	ask_true("x-cache-size");
	refused("direct", "PRECONDITION_FAILED - I" BAD_SIZE);
	ask_true("x-message-deduplication");
	ask_number("x-cache-ttl", -1);
	refused("topic", "PRECONDITION_FAILED - Invalid argument, 'x-cache-ttl' must be an integer "
			 "greater than 0 in exchange 'x' in vhost 'v'");
	ask_true("x-message-deduplication");
	ask_number("x-deduplication-header", 5);
	refused("topic",
		"PRECONDITION_FAILED - Invalid argument, 'x-deduplication-header' must be a "
		"string, the name of a header in exchange 'x' in vhost 'v'");
	ask_number("x-cache-size", 1);
	ask_string("x-cache-persistence", "paper");
	refused(type,
		"PRECONDITION_FAILED - Invalid argument, 'x-cache-persistence' must be either "
		"'disk' or 'memory' in exchange 'x' in vhost 'v'");
	ask_number("x-message-deduplication", 1);
	refused("fanout",
		"PRECONDITION_FAILED - Invalid argument, 'x-message-deduplication' must be "
		"a boolean in exchange 'x' in vhost 'v'");
}
END_TEST

/* ---- what waits for a commit ---- */

START_TEST(test_two_that_wait_for_a_commit)
{
	struct route kept;
	struct route other;
	struct message *a;
	struct message *b;
	struct bytes key = BYTES("key");

	make_cache(0);
	route_init(&kept);
	route_init(&other);
	with_text(KEY, "a");
	a = keyed_message("x", "a");
	with_text(KEY, "a");
	b = keyed_message("x", "b");
	exchange_route_published(x, &key, 1, a, &kept);
	exchange_route_published(x, &key, 1, b, &other);
	ck_assert_uint_eq(kept.count, 1);
	ck_assert_uint_eq(other.count, 1);
	route_look_again(&kept);
	ck_assert_uint_eq(kept.count, 1);
	queue_publish(broker, &kept, a);
	route_look_again(&other);
	ck_assert_uint_eq(other.count, 0);
	ck_assert(other.is_duplicate);
	/* and the exchange may be gone by then */
	with_text(KEY, "c");
	message_unref(b);
	b = keyed_message("x", "c");
	exchange_route_published(x, &key, 1, b, &other);
	route_give_marks(&other, &kept);
	exchange_delete(x);
	route_look_again(&kept);
	queue_publish(broker, &other, b);
	ck_assert_str_eq(bodies(q), "a c");
	message_unref(a);
	message_unref(b);
	route_fini(&kept);
	route_fini(&other);
}
END_TEST

TESTS_WITH("deduplication", set_up, model_tear_down, test_a_value_comes_once,
	   test_without_a_value_all_pass, test_nobody_asked, test_size, test_the_default_size,
	   test_ttl, test_ttl_of_a_message, test_what_is_over_makes_room, test_another_header,
	   test_numbers_of_any_width_are_one, test_kinds_differ, test_tables_and_arrays,
	   test_long_values, test_a_message_without_a_queue_is_not_remembered,
	   test_what_a_queue_refuses_is_not_remembered, test_the_alternate_is_not_asked,
	   test_behind_another_exchange, test_routes_are_not_remembered,
	   test_marks_end_with_their_route, test_a_dead_letter_is_no_duplicate,
	   test_a_delayed_message, test_the_type_is_a_fanout, test_the_type_takes_digits,
	   test_bad_arguments, test_two_that_wait_for_a_commit)
