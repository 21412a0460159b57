/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges: what a declare checks, and the walk through bound and alternate exchanges.
 */
#include "model_fixture.h"

START_TEST(test_exchange_is_found_or_refused)
{
	const struct reply *refusal = NULL;
	struct exchange *x = make_exchange("x", "direct");

	ck_assert_ptr_eq(exchange_need(vhost, BYTES("x"), &refusal), x);
	ck_assert_ptr_null(refusal);
	ck_assert_ptr_null(exchange_need(vhost, BYTES("y"), &refusal));
	assert_refused(refusal, NOT_FOUND, "NOT_FOUND - no exchange 'y' in vhost 'v'");
}
END_TEST

START_TEST(test_exchange_types)
{
	static const char *const known[] = {"direct", "fanout", "headers", "topic"};

	for (size_t i = 0; i < countof(known); i++) {
		struct exchange *x = make_exchange(known[i], known[i]);

		ck_assert_ptr_null(exchange_check_type(bytes_str(known[i])));
		ck_assert_str_eq(exchange_type_name(x), known[i]);
		ck_assert(exchange_is_topic(x) == (i == 3));
	}
	assert_refused(exchange_check_type(BYTES("foo")), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - unknown exchange type 'foo'");
	ck_assert_ptr_nonnull(exchange_check_type(BYTES("")));
	ck_assert_ptr_nonnull(exchange_check_type(BYTES("Direct")));
}
END_TEST

START_TEST(test_exchange_keeps_what_was_declared)
{
	struct exchange_spec spec = {.name = BYTES("x"),
				     .type = BYTES("topic"),
				     .durable = true,
				     .auto_delete = true,
				     .internal = true};
	struct exchange *x;
	struct table table;

	table_start(&table);
	table_put_int(&table.writer, BYTES("other"), 1);
	table_put_string(&table.writer, BYTES("alternate-exchange"), BYTES("ae"));
	spec.arguments = table_view(&table);
	ck_assert_ptr_null(exchange_check_arguments(vhost, &spec));
	x = exchange_create(vhost, &spec);
	ck_assert(x->durable && x->auto_delete && x->internal && !x->predeclared);
	ck_assert(bytes_equal(x->alternate, BYTES("ae")));
	ck_assert(bytes_equal(x->arguments, spec.arguments));
	ck_assert(bytes_equal(exchange_alternate_argument(spec.arguments), BYTES("ae")));
	ck_assert_uint_eq(exchange_alternate_argument(no_bytes()).n, 0);
}
END_TEST

START_TEST(test_exchange_equivalence_in_order)
{
	struct exchange *x = make_exchange("x", "direct");
	struct exchange_spec spec = {.name = BYTES("x"),
				     .type = BYTES("topic"),
				     .durable = true,
				     .auto_delete = true,
				     .internal = true};
	struct table table;

	table_start(&table);
	table_put_string(&table.writer, BYTES("alternate-exchange"), BYTES("ae"));
	spec.arguments = table_view(&table);
#define EXPECT(text)                                                             \
	assert_refused(exchange_check_equivalent(x, &spec), PRECONDITION_FAILED, \
		       "PRECONDITION_FAILED - inequivalent arg " text)
	EXPECT("'type' for exchange 'x' in vhost 'v': received 'topic' but current is 'direct'");
	spec.type = BYTES("direct");
	EXPECT("'durable' for exchange 'x' in vhost 'v': received 'true' but current is 'false'");
	spec.durable = false;
	EXPECT("'auto_delete' for exchange 'x' in vhost 'v': received 'true' but current is "
	       "'false'");
	spec.auto_delete = false;
	EXPECT("'internal' for exchange 'x' in vhost 'v': received 'true' but current is 'false'");
	spec.internal = false;
	EXPECT("'alternate-exchange' for exchange 'x' in vhost 'v': received the value 'ae' of "
	       "type 'longstr' but current is none");
	spec.arguments = no_bytes();
	ck_assert_ptr_null(exchange_check_equivalent(x, &spec));
#undef EXPECT
}
END_TEST

START_TEST(test_exchange_equivalence_of_arguments)
{
	struct exchange *x = make_with_alternate("x", "direct", "ae");
	struct exchange_spec spec = exchange_spec_of("x", "direct");
	struct table table;

	assert_refused(exchange_check_equivalent(x, &spec), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange "
		       "'x' in vhost 'v': received none but current is the value 'ae' of type "
		       "'longstr'");
	table_start(&table);
	table_put_string(&table.writer, BYTES("alternate-exchange"), BYTES("other"));
	spec.arguments = table_view(&table);
	assert_refused(exchange_check_equivalent(x, &spec), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange "
		       "'x' in vhost 'v': received 'other' but current is 'ae'");
	table_start(&table);
	table_put_int(&table.writer, BYTES("other"), 1); // is not compared
	table_put_string(&table.writer, BYTES("alternate-exchange"), BYTES("ae"));
	spec.arguments = table_view(&table);
	ck_assert_ptr_null(exchange_check_equivalent(x, &spec));
}
END_TEST

START_TEST(test_exchange_alternate_must_be_a_string)
{
	struct exchange_spec spec = exchange_spec_of("x", "direct");
	struct table table;

	ck_assert_ptr_null(exchange_check_arguments(vhost, &spec));
	table_start(&table);
	table_put_int(&table.writer, BYTES("alternate-exchange"), 1);
	spec.arguments = table_view(&table);
	assert_refused(exchange_check_arguments(vhost, &spec), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - invalid type 'signedint' for arg "
		       "'alternate-exchange' in exchange 'x' in vhost 'v'");
}
END_TEST

START_TEST(test_exchange_is_in_use_as_a_source_only)
{
	struct exchange *a = make_exchange("a", "direct");
	struct exchange *b = make_exchange("b", "direct");

	bind_exchange(a, b, "");
	ck_assert(exchange_in_use(a));
	ck_assert(!exchange_in_use(b));
}
END_TEST

/* ---- exchanges bound to exchanges ---- */

START_TEST(test_route_goes_on_with_the_same_key_and_headers)
{
	struct exchange *a = make_exchange("a", "fanout");
	struct exchange *b = make_exchange("b", "direct");
	struct exchange *c = make_exchange("c", "headers");
	struct queue *q = make_queue("q");
	struct queue *r = make_queue("r");
	struct table table;

	table_start(&table);
	table_put_int(&table.writer, BYTES("h"), 1);
	bind_exchange(a, b, "ignored");
	bind_exchange(a, c, "ignored");
	bind_queue(b, q, "k", no_bytes());
	bind_queue(c, r, "", table_view(&table));
	ck_assert_uint_eq(route_key(a, "k"), 1);
	ck_assert_uint_eq(route_has(q), 1);
	ck_assert(route.uncacheable);
	ck_assert_uint_eq(route_with_headers(a, BYTES("l"), table_view(&table)), 1);
	ck_assert_uint_eq(route_has(r), 1);
	ck_assert_uint_eq(route_with_headers(a, BYTES("k"), table_view(&table)), 2);
}
END_TEST

START_TEST(test_route_ends_in_cycles)
{
	struct exchange *a = make_exchange("a", "topic");
	struct exchange *b = make_exchange("b", "direct");
	struct exchange *c = make_exchange("c", "fanout");
	struct queue *q = make_queue("q");

	bind_exchange(a, b, "#");
	bind_exchange(b, c, "k");
	bind_exchange(c, a, "");
	bind_exchange(c, c, "");
	bind_exchange(a, a, "k");
	ck_assert_uint_eq(route_key(a, "k"), 0);
	bind_queue(a, q, "k", no_bytes());
	bind_queue(c, q, "", no_bytes());
	ck_assert_uint_eq(route_key(a, "k"), 1);
	ck_assert_uint_eq(route_key(b, "k"), 1);
	ck_assert_uint_eq(route_key(c, "k"), 1);
	ck_assert_uint_eq(route_key(b, "other"), 0);
}
END_TEST

/* Many ways to one queue are one copy. */
START_TEST(test_route_diamond_gives_one_copy)
{
	struct exchange *start = make_exchange("start", "fanout");
	struct exchange *end = make_exchange("end", "fanout");
	struct queue *q = make_queue("q");
	char name[16];

	for (int i = 0; i < 10; i++) {
		struct exchange *middle;

		snprintf(name, sizeof(name), "m%d", i);
		middle = make_exchange(name, "fanout");
		bind_exchange(start, middle, "");
		bind_exchange(middle, end, "");
		bind_queue(middle, q, "", no_bytes());
	}
	bind_queue(end, q, "", no_bytes());
	ck_assert_uint_eq(route_key(start, ""), 1);
	ck_assert_uint_eq(route_has(q), 1);
}
END_TEST

START_TEST(test_route_goes_down_a_long_chain)
{
	enum {
		LENGTH = 50000
	};
	struct exchange *last = make_exchange("first", "fanout");
	struct exchange *first = last;
	char name[16];

	for (int i = 0; i < LENGTH; i++) {
		struct exchange *next;

		snprintf(name, sizeof(name), "x%d", i);
		next = make_exchange(name, "fanout");
		bind_exchange(last, next, "");
		last = next;
	}
	bind_queue(last, make_queue("q"), "", no_bytes());
	ck_assert_uint_eq(route_key(first, ""), 1);
}
END_TEST

/* ---- alternate exchanges ---- */

START_TEST(test_alternate_takes_what_has_no_destination)
{
	struct exchange *x = make_with_alternate("x", "direct", "ae");
	struct exchange *ae;
	struct queue *q = make_queue("q");
	struct queue *r = make_queue("r");

	bind_queue(x, q, "k", no_bytes());
	ck_assert_uint_eq(route_key(x, "other"), 0); // there is no such exchange
	ae = make_exchange("ae", "fanout");
	bind_queue(ae, r, "", no_bytes());
	ck_assert_uint_eq(route_key(x, "other"), 1);
	ck_assert_uint_eq(route_has(r), 1);
	ck_assert_uint_eq(route_key(x, "k"), 1);
	ck_assert_uint_eq(route_has(q), 1);
	exchange_delete(ae);
	ck_assert_uint_eq(route_key(x, "other"), 0);
}
END_TEST

/* A bound exchange is a destination, though it may lead nowhere. */
START_TEST(test_alternate_is_not_for_dead_ends)
{
	struct exchange *x = make_with_alternate("x", "direct", "ae");
	struct exchange *ae = make_exchange("ae", "fanout");
	struct exchange *dead_end = make_exchange("dead", "fanout");

	bind_queue(ae, make_queue("q"), "", no_bytes());
	bind_exchange(x, dead_end, "k");
	ck_assert_uint_eq(route_key(x, "k"), 0);
	ck_assert_uint_eq(route_key(x, "other"), 1);
	/* A binding to itself is one, too. */
	bind_exchange(x, x, "self");
	ck_assert_uint_eq(route_key(x, "self"), 0);
}
END_TEST

/* The alternate of an exchange further on is asked as well. */
START_TEST(test_alternate_of_a_bound_exchange)
{
	struct exchange *x = make_exchange("x", "fanout");
	struct exchange *y = make_with_alternate("y", "direct", "ae");
	struct exchange *ae = make_exchange("ae", "fanout");
	struct queue *q = make_queue("q");

	bind_exchange(x, y, "");
	bind_queue(ae, q, "", no_bytes());
	ck_assert_uint_eq(route_key(x, "k"), 1);
	ck_assert_uint_eq(route_has(q), 1);
}
END_TEST

START_TEST(test_alternates_chain_and_end_in_cycles)
{
	struct exchange *a = make_with_alternate("a", "direct", "b");
	struct exchange *b = make_with_alternate("b", "topic", "c");
	struct exchange *c = make_with_alternate("c", "headers", "a");
	struct exchange *self = make_with_alternate("self", "fanout", "self");
	struct queue *q = make_queue("q");
	struct table table;

	ck_assert_uint_eq(route_key(self, "k"), 0);
	ck_assert_uint_eq(route_key(a, "k"), 0);
	bind_queue(b, q, "only.this", no_bytes());
	table_start(&table);
	table_put_int(&table.writer, BYTES("h"), 1);
	bind_queue(c, q, "", table_view(&table));
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(route_key(a, "k"), 0);
		ck_assert(route.uncacheable);
		ck_assert_uint_eq(route_key(b, "k"), 0);
		ck_assert_uint_eq(route_key(c, "k"), 0);
		ck_assert_uint_eq(route_key(c, "only.this"), 1);
		ck_assert_uint_eq(route_with_headers(b, BYTES("k"), table_view(&table)), 1);
	}
	bind_queue(a, q, "k", no_bytes());
	ck_assert_uint_eq(route_key(c, "k"), 1);
	ck_assert_uint_eq(route_key(b, "k"), 1);
}
END_TEST

START_TEST(test_exchange_declared_again_begins_empty)
{
	struct exchange *x = make_exchange("x", "topic");
	struct queue *q = make_queue("q");

	bind_queue(x, q, "#", no_bytes());
	ck_assert_uint_eq(route_key(x, "k"), 1);
	exchange_delete(x);
	ck_assert(list_empty(&q->bindings));
	x = make_exchange("x", "topic");
	ck_assert_uint_eq(route_key(x, "k"), 0);
}
END_TEST

TESTS_WITH("exchange", model_set_up, model_tear_down, test_exchange_is_found_or_refused,
	   test_exchange_types, test_exchange_keeps_what_was_declared,
	   test_exchange_equivalence_in_order, test_exchange_equivalence_of_arguments,
	   test_exchange_alternate_must_be_a_string, test_exchange_is_in_use_as_a_source_only,
	   test_route_goes_on_with_the_same_key_and_headers, test_route_ends_in_cycles,
	   test_route_diamond_gives_one_copy, test_route_goes_down_a_long_chain,
	   test_alternate_takes_what_has_no_destination, test_alternate_is_not_for_dead_ends,
	   test_alternate_of_a_bound_exchange, test_alternates_chain_and_end_in_cycles,
	   test_exchange_declared_again_begins_empty)
