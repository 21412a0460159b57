/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bindings: identity, removal, the exchanges that go with them, the routing version.
 */
#include "model_fixture.h"

static struct bytes
one_argument(struct table *table, const char *name, int value)
{
	table_start(table);
	table_put_int(&table->writer, bytes_str(name), value);
	return table_view(table);
}

static const char *const types[] = {"direct", "fanout", "headers", "topic"};

START_TEST(test_binding_again_is_one)
{
	struct queue *q = make_queue("q");

	for (size_t i = 0; i < countof(types); i++) {
		struct exchange *x = make_exchange(types[i], types[i]);
		struct table table;

		bind_queue(x, q, "k", no_bytes());
		bind_queue(x, q, "k", no_bytes());
		bind_queue(x, q, "k", one_argument(&table, "a", 1));
		bind_queue(x, q, "k", one_argument(&table, "a", 1));
		exchange_check(x);
		ck_assert_uint_eq(x->bindings_out.count, 2);
		unbind_queue(x, q, "k", no_bytes());
		ck_assert_uint_eq(x->bindings_out.count, 1);
		unbind_queue(x, q, "k", no_bytes());
		ck_assert_uint_eq(x->bindings_out.count, 1);
		unbind_queue(x, q, "k", one_argument(&table, "a", 1));
		ck_assert_uint_eq(x->bindings_out.count, 0);
		exchange_check(x);
	}
	ck_assert(list_empty(&q->bindings));
}
END_TEST

START_TEST(test_binding_identity_is_all_of_it)
{
	struct exchange *x = make_exchange("x", "direct");
	struct exchange *other = make_exchange("q", "direct");
	struct queue *q = make_queue("q");
	struct queue *r = make_queue("r");
	struct table a;
	struct table b;

	bind_queue(x, q, "k", one_argument(&a, "a", 1));
	unbind_queue(x, q, "k", one_argument(&b, "a", 2));
	unbind_queue(x, q, "k", one_argument(&b, "b", 1));
	table_start(&b);
	table_put_long(&b.writer, BYTES("a"), 1); // another type of the same value
	unbind_queue(x, q, "k", table_view(&b));
	unbind_queue(x, q, "l", table_view(&a));
	unbind_queue(x, r, "k", table_view(&a));
	unbind_queue(other, q, "k", table_view(&a));
	unbind_exchange(x, other, "k"); // an exchange with the name of the queue
	ck_assert_uint_eq(x->bindings_out.count, 1);
	unbind_queue(x, q, "k", table_view(&a));
	ck_assert_uint_eq(x->bindings_out.count, 0);
}
END_TEST

START_TEST(test_binding_arguments_have_no_order)
{
	struct exchange *x = make_exchange("x", "headers");
	struct queue *q = make_queue("q");
	struct table a;
	struct table b;

	table_start(&a);
	table_put_int(&a.writer, BYTES("one"), 1);
	table_put_int(&a.writer, BYTES("two"), 2);
	table_start(&b);
	table_put_int(&b.writer, BYTES("two"), 2);
	table_put_int(&b.writer, BYTES("one"), 1);
	bind_queue(x, q, "", table_view(&a));
	bind_queue(x, q, "", table_view(&b));
	ck_assert_uint_eq(x->bindings_out.count, 1);
	unbind_queue(x, q, "", table_view(&b));
	ck_assert_uint_eq(x->bindings_out.count, 0);
}
END_TEST

/* Each of the three lists that a binding is looked for in is the shortest once. */
START_TEST(test_binding_is_found_in_any_list)
{
	struct exchange *x = make_exchange("x", "direct");
	struct exchange *y = make_exchange("y", "direct");
	struct queue *q = make_queue("q");
	struct queue *other = make_queue("other");
	char key[16];

	for (int i = 0; i < 10; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		bind_queue(x, q, key, no_bytes());
	}
	bind_queue(x, other, "k1", no_bytes()); // shortest: the key's list, then the destination's
	bind_queue(x, other, "k1", no_bytes());
	bind_queue(y, q, "k1", no_bytes()); // the source's
	bind_queue(y, q, "k1", no_bytes());
	ck_assert_uint_eq(x->bindings_out.count, 11);
	ck_assert_uint_eq(y->bindings_out.count, 1);
	unbind_queue(y, q, "k1", no_bytes());
	unbind_queue(x, other, "k1", no_bytes());
	unbind_queue(x, q, "k5", no_bytes());
	unbind_queue(x, q, "k5", no_bytes());
	ck_assert_uint_eq(x->bindings_out.count, 9);
	ck_assert_uint_eq(y->bindings_out.count, 0);
}
END_TEST

START_TEST(test_binding_copies_what_it_keeps)
{
	struct exchange *x = make_exchange("x", "topic");
	struct queue *q = make_queue("q");
	char key[] = "a.b";
	struct table table;

	bind_queue(x, q, key, one_argument(&table, "a", 1));
	memset(key, 'z', 3);
	memset(table.octets, 0, sizeof(table.octets));
	ck_assert_uint_eq(route_key(x, "a.b"), 1);
	unbind_queue(x, q, "a.b", one_argument(&table, "a", 1));
	ck_assert_uint_eq(x->bindings_out.count, 0);
}
END_TEST

START_TEST(test_binding_every_change_moves_the_version)
{
	struct exchange *x = make_exchange("x", "topic");
	struct exchange *y = make_exchange("y", "fanout");
	struct queue *q = make_queue("q");
	uint64_t version = vhost->routing_version;

#define MOVED(expected)                                                       \
	do {                                                                  \
		ck_assert((vhost->routing_version != version) == (expected)); \
		version = vhost->routing_version;                             \
	} while (0)
	bind_queue(x, q, "k", no_bytes());
	MOVED(true);
	bind_queue(x, q, "k", no_bytes());
	MOVED(false);
	unbind_queue(x, q, "other", no_bytes());
	MOVED(false);
	unbind_queue(x, q, "k", no_bytes());
	MOVED(true);
	bind_exchange(x, y, "k");
	MOVED(true);
	exchange_delete(y);
	MOVED(true);
	make_exchange("y", "fanout");
	MOVED(true);
	bind_queue(x, q, "k", no_bytes());
	MOVED(true);
	binding_remove_all_of_queue(q);
	MOVED(true);
	route_key(x, "k");
	MOVED(false);
#undef MOVED
}
END_TEST

/* ---- auto-delete ---- */

START_TEST(test_auto_delete_exchange_goes_with_its_last_binding)
{
	for (size_t i = 0; i < countof(types); i++) {
		struct exchange *x = make_auto_delete("x", types[i]);
		struct queue *q = make_queue("q");

		bind_queue(x, q, "a", no_bytes());
		bind_queue(x, q, "b", no_bytes());
		unbind_queue(x, q, "a", no_bytes());
		ck_assert_ptr_eq(find_exchange("x"), x);
		unbind_queue(x, q, "a", no_bytes());
		ck_assert_ptr_eq(find_exchange("x"), x);
		unbind_queue(x, q, "b", no_bytes());
		ck_assert_ptr_null(find_exchange("x"));
		queue_delete(q);
	}
}
END_TEST

START_TEST(test_auto_delete_exchange_without_bindings_stays)
{
	struct exchange *x = make_auto_delete("x", "direct");
	struct exchange *source = make_exchange("source", "direct");
	struct queue *q = make_queue("q");

	unbind_queue(x, q, "k", no_bytes());
	ck_assert_ptr_eq(find_exchange("x"), x);
	/* As a destination it does not matter. */
	bind_exchange(source, x, "k");
	unbind_exchange(source, x, "k");
	ck_assert_ptr_eq(find_exchange("x"), x);
}
END_TEST

START_TEST(test_auto_delete_exchange_goes_with_the_queue)
{
	struct exchange *x = make_auto_delete("x", "topic");
	struct exchange *y = make_auto_delete("y", "headers");
	struct exchange *kept = make_exchange("kept", "fanout");
	struct queue *q = make_queue("q");
	struct queue *r = make_queue("r");

	bind_queue(x, q, "a", no_bytes());
	bind_queue(x, q, "b.#", no_bytes());
	bind_queue(y, q, "", no_bytes());
	bind_queue(y, r, "", no_bytes());
	bind_queue(kept, q, "", no_bytes());
	queue_delete(q);
	ck_assert_ptr_null(find_exchange("x"));
	ck_assert_ptr_eq(find_exchange("y"), y);
	ck_assert_uint_eq(y->bindings_out.count, 1);
	ck_assert_ptr_eq(find_exchange("kept"), kept);
}
END_TEST

/* One binding at the end held a long chain; one of it has another reason to stay. */
START_TEST(test_auto_delete_cascades)
{
	enum {
		LENGTH = 20000
	};
	struct queue *q = make_queue("q");
	struct exchange *next = NULL;
	struct exchange *middle = NULL;
	char name[16];

	for (int i = 0; i < LENGTH; i++) {
		struct exchange *x;

		snprintf(name, sizeof(name), "x%d", i);
		x = make_auto_delete(name, types[i % 4]);
		if (next == NULL)
			bind_queue(x, q, "", no_bytes());
		else
			bind_exchange(x, next, "");
		if (i == LENGTH / 2)
			middle = x;
		next = x;
	}
	bind_queue(middle, make_queue("r"), "", no_bytes());
	ck_assert_uint_eq(route_key(next, ""), 2);
	queue_delete(q);
	ck_assert_ptr_null(find_exchange("x0"));
	ck_assert_ptr_eq(find_exchange("x10000"), middle);
	ck_assert_uint_eq(route_key(next, ""), 1);
	model_check();
	queue_delete(queue_find(vhost, BYTES("r")));
	ck_assert_uint_eq(vhost->exchanges.count, 7);
}
END_TEST

START_TEST(test_auto_delete_cycle_goes_at_once)
{
	struct exchange *a = make_auto_delete("a", "topic");
	struct exchange *b = make_auto_delete("b", "direct");
	struct exchange *c = make_auto_delete("c", "fanout");

	bind_exchange(a, b, "#");
	bind_exchange(a, b, "*");
	bind_exchange(b, a, "k");
	bind_exchange(c, b, "");
	bind_exchange(c, a, "");
	bind_exchange(a, a, "");
	exchange_delete(b);
	ck_assert_ptr_null(find_exchange("b"));
	/* a leads to itself still, c to a. */
	ck_assert_ptr_eq(find_exchange("a"), a);
	ck_assert_uint_eq(a->bindings_out.count, 1);
	ck_assert_ptr_eq(find_exchange("c"), c);
	model_check();
	unbind_exchange(a, a, "");
	ck_assert_ptr_null(find_exchange("a"));
	ck_assert_ptr_null(find_exchange("c"));
}
END_TEST

START_TEST(test_binding_goes_with_either_side)
{
	struct exchange *a = make_exchange("a", "topic");
	struct exchange *b = make_exchange("b", "topic");
	struct queue *q = make_queue("q");

	bind_exchange(a, b, "k");
	bind_exchange(b, a, "k");
	bind_queue(b, q, "k", no_bytes());
	exchange_delete(b);
	ck_assert(list_empty(&q->bindings));
	ck_assert(list_empty(&a->bindings_in));
	ck_assert(list_empty(&a->bindings_out));
	ck_assert_uint_eq(route_key(a, "k"), 0);
}
END_TEST

TESTS_WITH("binding", model_set_up, model_tear_down, test_binding_again_is_one,
	   test_binding_identity_is_all_of_it, test_binding_arguments_have_no_order,
	   test_binding_is_found_in_any_list, test_binding_copies_what_it_keeps,
	   test_binding_every_change_moves_the_version,
	   test_auto_delete_exchange_goes_with_its_last_binding,
	   test_auto_delete_exchange_without_bindings_stays,
	   test_auto_delete_exchange_goes_with_the_queue, test_auto_delete_cascades,
	   test_auto_delete_cycle_goes_at_once, test_binding_goes_with_either_side)
