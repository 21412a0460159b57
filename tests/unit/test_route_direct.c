/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct, fanout and default exchanges.
 */
#include "model_fixture.h"

START_TEST(test_direct_takes_equal_keys_only)
{
	struct exchange *x = make_exchange("x", "direct");
	struct queue *a = make_queue("a");
	struct queue *b = make_queue("b");

	bind_queue(x, a, "k", no_bytes());
	bind_queue(x, b, "k", no_bytes());
	bind_queue(x, b, "kk", no_bytes());
	bind_queue(x, a, "", no_bytes());
	ck_assert_uint_eq(route_key(x, "k"), 2);
	ck_assert_uint_eq(route_key(x, "kk"), 1);
	ck_assert_uint_eq(route_has(b), 1);
	ck_assert_uint_eq(route_key(x, ""), 1);
	ck_assert_uint_eq(route_has(a), 1);
	ck_assert_uint_eq(route_key(x, "K"), 0);
	ck_assert_uint_eq(route_key(x, "kkk"), 0);
	ck_assert_uint_eq(route_key(x, "#"), 0);
	ck_assert(!route.uncacheable);
}
END_TEST

START_TEST(test_direct_keys_are_octets)
{
	struct exchange *x = make_exchange("x", "direct");
	struct queue *q = make_queue("q");
	struct binding_spec spec = {.source = x, .queue = q, .key = BYTES("a\0b")};

	binding_add(&spec);
	ck_assert_uint_eq(route_with_headers(x, BYTES("a\0b"), no_bytes()), 1);
	ck_assert_uint_eq(route_with_headers(x, BYTES("a\0c"), no_bytes()), 0);
	ck_assert_uint_eq(route_with_headers(x, BYTES("a"), no_bytes()), 0);
}
END_TEST

START_TEST(test_direct_forgets_an_unbound_key)
{
	struct exchange *x = make_exchange("x", "direct");
	struct queue *a = make_queue("a");
	struct queue *b = make_queue("b");

	bind_queue(x, a, "k", no_bytes());
	bind_queue(x, b, "k", no_bytes());
	unbind_queue(x, a, "k", no_bytes());
	exchange_check(x);
	ck_assert_uint_eq(route_key(x, "k"), 1);
	unbind_queue(x, b, "k", no_bytes());
	exchange_check(x);
	ck_assert_uint_eq(route_key(x, "k"), 0);
	ck_assert_uint_eq(x->keys.count, 0);
}
END_TEST

/* The key that the first binding brought must outlive it. */
START_TEST(test_direct_key_outlives_its_first_binding)
{
	struct exchange *x = make_exchange("x", "direct");
	struct queue *a = make_queue("a");
	struct queue *b = make_queue("b");

	bind_queue(x, a, "some key that is long", no_bytes());
	bind_queue(x, b, "some key that is long", no_bytes());
	queue_delete(a);
	ck_assert_uint_eq(route_key(x, "some key that is long"), 1);
	ck_assert_uint_eq(route_has(b), 1);
}
END_TEST

START_TEST(test_fanout_takes_every_binding_and_each_queue_once)
{
	struct exchange *x = make_exchange("x", "fanout");
	struct queue *a = make_queue("a");
	struct queue *b = make_queue("b");

	ck_assert_uint_eq(route_key(x, "k"), 0);
	bind_queue(x, a, "", no_bytes());
	bind_queue(x, a, "k", no_bytes());
	bind_queue(x, b, "other", no_bytes());
	ck_assert_uint_eq(route_key(x, "k"), 2);
	ck_assert_uint_eq(route_has(a), 1);
	ck_assert_uint_eq(route_has(b), 1);
}
END_TEST

START_TEST(test_fanout_reaches_many)
{
	struct exchange *x = make_exchange("x", "fanout");
	char name[16];

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		bind_queue(x, make_queue(name), "", no_bytes());
	}
	ck_assert_uint_eq(route_key(x, ""), 1000);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		ck_assert_uint_eq(route_has(queue_find(vhost, bytes_str(name))), 1);
	}
}
END_TEST

START_TEST(test_default_exchange_takes_the_queue_of_that_name)
{
	struct exchange *x = vhost->default_exchange;
	struct queue *q = make_queue("q");

	make_queue("other");
	ck_assert_uint_eq(route_key(x, "q"), 1);
	ck_assert_uint_eq(route_has(q), 1);
	ck_assert_uint_eq(route_key(x, "missing"), 0);
	ck_assert_uint_eq(route_key(x, ""), 0);
	queue_delete(q);
	ck_assert_uint_eq(route_key(x, "q"), 0);
}
END_TEST

TESTS_WITH("route_direct", model_set_up, model_tear_down, test_direct_takes_equal_keys_only,
	   test_direct_keys_are_octets, test_direct_forgets_an_unbound_key,
	   test_direct_key_outlives_its_first_binding,
	   test_fanout_takes_every_binding_and_each_queue_once, test_fanout_reaches_many,
	   test_default_exchange_takes_the_queue_of_that_name)
