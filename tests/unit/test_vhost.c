/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vhosts: what is predeclared, and deletion with everything in it.
 */
#include "model_fixture.h"

START_TEST(test_vhost_is_found_by_name)
{
	struct vhost *other = vhost_create(broker, BYTES("other"));

	ck_assert_ptr_eq(vhost_find(broker, BYTES("v")), vhost);
	ck_assert_ptr_eq(vhost_find(broker, BYTES("other")), other);
	ck_assert_ptr_null(vhost_find(broker, BYTES("")));
	vhost_delete(other);
	ck_assert_ptr_null(vhost_find(broker, BYTES("other")));
}
END_TEST

START_TEST(test_vhost_has_the_predeclared_exchanges)
{
	static const struct {
		const char *name;
		const char *type;
		bool internal;
	} expected[] = {
		{"", "direct", false},
		{"amq.direct", "direct", false},
		{"amq.fanout", "fanout", false},
		{"amq.topic", "topic", false},
		{"amq.headers", "headers", false},
		{"amq.match", "headers", false},
		{"amq.rabbitmq.trace", "topic", true},
	};

	ck_assert_uint_eq(vhost->exchanges.count, countof(expected));
	for (size_t i = 0; i < countof(expected); i++) {
		const struct exchange *exchange = find_exchange(expected[i].name);

		ck_assert_ptr_nonnull(exchange);
		ck_assert_str_eq(exchange_type_name(exchange), expected[i].type);
		ck_assert(exchange->internal == expected[i].internal);
		ck_assert(exchange->durable);
		ck_assert(exchange->predeclared);
		ck_assert(!exchange->auto_delete);
	}
	ck_assert_ptr_eq(vhost->default_exchange, find_exchange(""));
}
END_TEST

START_TEST(test_vhosts_are_apart)
{
	struct vhost *other = vhost_create(broker, BYTES("other"));

	make_exchange("x", "fanout");
	make_queue("q");
	ck_assert_ptr_null(exchange_find(other, BYTES("x")));
	ck_assert_uint_eq(route_key(other->default_exchange, "q"), 0);
	ck_assert_uint_eq(route_key(vhost->default_exchange, "q"), 1);
	vhost_delete(other);
}
END_TEST

/* Everything that could be reached twice on the way: cascades, cycles, bindings in both directions. */
START_TEST(test_vhost_delete_takes_everything)
{
	struct vhost *kept = vhost;
	struct exchange *a;
	struct exchange *b;

	vhost = vhost_create(broker, BYTES("doomed"));
	a = make_auto_delete("a", "topic");
	b = make_auto_delete("b", "direct");
	bind_exchange(a, b, "k");
	bind_exchange(b, a, "k");
	bind_exchange(a, a, "#");
	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "q%d", i);
		bind_queue(i % 2 ? a : b, make_queue(name), name, no_bytes());
	}
	route_key(a, "q1");
	model_check();
	vhost_delete(vhost);
	ck_assert_uint_eq(broker->queue_count, 0);
	ck_assert_ptr_null(vhost_find(broker, BYTES("doomed")));
	vhost = kept;
}
END_TEST

TESTS_WITH("vhost", model_set_up, model_tear_down, test_vhost_is_found_by_name,
	   test_vhost_has_the_predeclared_exchanges, test_vhosts_are_apart,
	   test_vhost_delete_takes_everything)
