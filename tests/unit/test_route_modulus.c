/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x-modulus-hash exchanges (amqp.md 5.8), and the ordered array of bindings that they share with x-random.
 */
#include "model_fixture.h"

#define QUEUES 7
#define KEYS 7000

static struct exchange *x;
static struct queue *queues[QUEUES];

static void
set_up(void)
{
	model_set_up();
	x = make_exchange("x", "x-modulus-hash");
	for (size_t i = 0; i < QUEUES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "queue %zu", i);
		queues[i] = make_queue(name);
	}
}

static struct queue *
route_number(struct exchange *exchange, unsigned number)
{
	char key[16];

	snprintf(key, sizeof(key), "key.%u", number);
	ck_assert_uint_eq(route_key(exchange, key), 1);
	ck_assert(!route.uncacheable);
	return route.queues[0];
}

START_TEST(test_modulus_spreads_keys)
{
	unsigned counts[QUEUES] = {0};

	ck_assert_uint_eq(route_key(x, "k"), 0);
	for (size_t i = 0; i < QUEUES; i++)
		bind_queue(x, queues[i], "any", no_bytes());
	for (unsigned n = 0; n < KEYS; n++) {
		const struct queue *found = route_number(x, n);

		for (size_t i = 0; i < QUEUES; i++)
			counts[i] += found == queues[i];
	}
	/* Five standard deviations. */
	for (size_t i = 0; i < QUEUES; i++)
		ck_assert_msg(counts[i] > 850 && counts[i] < 1150, "%u", counts[i]);
}
END_TEST

START_TEST(test_modulus_order_of_binding_does_not_matter)
{
	struct exchange *y = make_exchange("y", "x-modulus-hash");

	for (size_t i = 0; i < QUEUES; i++) {
		bind_queue(x, queues[i], "any", no_bytes());
		bind_queue(y, queues[(i * 3 + 5) % QUEUES], "any", no_bytes());
	}
	for (unsigned n = 0; n < 500; n++)
		ck_assert_ptr_eq(route_number(x, n), route_number(y, n));
}
END_TEST

/* What a key fell on before an upgrade it falls on after it: these numbers never change. */
START_TEST(test_modulus_is_for_ever)
{
	static const uint8_t expected[] = {5, 1, 5, 3, 3, 4, 3, 3, 0, 2, 5, 1,
					   1, 5, 0, 2, 6, 6, 1, 4, 5, 1, 0, 4};

	for (size_t i = 0; i < QUEUES; i++)
		bind_queue(x, queues[i], "any", no_bytes());
	for (unsigned i = 0; i < countof(expected); i++)
		ck_assert_ptr_eq(route_number(x, i), queues[expected[i]]);
}
END_TEST

START_TEST(test_modulus_hashes_all_keys_as_one)
{
	struct basic_properties none = {.flags = 0};
	struct bytes keys[2] = {BYTES("same"), {NULL, 0}};
	struct message *message = message_to(x, keys[0], &none);
	unsigned seen[QUEUES] = {0};

	for (size_t i = 0; i < QUEUES; i++)
		bind_queue(x, queues[i], "any", no_bytes());
	for (unsigned n = 0; n < 200; n++) {
		char text[16];

		snprintf(text, sizeof(text), "%u", n);
		keys[1] = bytes_str(text);
		exchange_route(x, keys, 2, message, &route);
		ck_assert_uint_eq(route.count, 1);
		for (size_t i = 0; i < QUEUES; i++)
			seen[i] += route_has(queues[i]);
	}
	for (size_t i = 0; i < QUEUES; i++)
		ck_assert_uint_gt(seen[i], 0);
	message_unref(message);
}
END_TEST

START_TEST(test_modulus_counts_bindings_and_exchanges)
{
	struct exchange *y = make_exchange("queue 0", "fanout"); // a queue is called so as well
	unsigned through = 0;

	bind_exchange(x, y, "");
	bind_exchange(x, y, "again");
	bind_queue(x, queues[0], "", no_bytes());
	bind_queue(y, queues[1], "", no_bytes());
	for (unsigned n = 0; n < 3000; n++)
		through += route_number(x, n) == queues[1];
	ck_assert_msg(through > 1870 && through < 2130, "%u", through);
}
END_TEST

/* Bindings come and go in any order; exchange_check() looks at the array. */
START_TEST(test_modulus_array_is_kept_in_order)
{
	static const char *const keys[] = {"", "a", "aa", "b"};
	bool bound[QUEUES][countof(keys)] = {{false}};
	uint32_t count = 0;
	uint64_t random = 1;

	for (unsigned step = 0; step < 2000; step++) {
		size_t q = (random >> 33) % QUEUES;
		size_t k = (random >> 50) % countof(keys);

		random = random * 6364136223846793005 + 1442695040888963407;
		if (bound[q][k])
			unbind_queue(x, queues[q], keys[k], no_bytes());
		else
			bind_queue(x, queues[q], keys[k], no_bytes());
		bound[q][k] = !bound[q][k];
		count += bound[q][k] ? 1 : UINT32_MAX;
		ck_assert_uint_eq(x->bindings_out.count, count);
		exchange_check(x);
	}
}
END_TEST

TESTS_WITH("route_modulus", set_up, model_tear_down, test_modulus_spreads_keys,
	   test_modulus_order_of_binding_does_not_matter, test_modulus_is_for_ever,
	   test_modulus_hashes_all_keys_as_one, test_modulus_counts_bindings_and_exchanges,
	   test_modulus_array_is_kept_in_order)
