/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x-random exchanges: one binding each time, all as likely (amqp.md 5.8). The seed is fixed, so the counts
 * are the same in every run.
 */
#include "model_fixture.h"

#define QUEUES 5
#define ROUTINGS 10000

static struct exchange *x;
static struct queue *queues[QUEUES];

static void
set_up(void)
{
	map_seed(1);
	model_set_up();
	x = make_exchange("x", "x-random");
	for (size_t i = 0; i < QUEUES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "queue %zu", i);
		queues[i] = make_queue(name);
	}
}

/* counts[i] of the routings go to queue i. */
static void
route_many(unsigned counts[QUEUES])
{
	memset(counts, 0, QUEUES * sizeof(counts[0]));
	for (unsigned n = 0; n < ROUTINGS; n++) {
		ck_assert_uint_eq(route_key(x, "same"), 1);
		for (size_t i = 0; i < QUEUES; i++)
			counts[i] += route_has(queues[i]);
	}
}

/* Five standard deviations at most. */
static void
assert_share(unsigned count, double share)
{
	double expected = ROUTINGS * share;
	double off = count - expected;

	ck_assert_msg(off * off <= 25 * expected * (1 - share), "%u instead of %.0f", count,
		      expected);
}

START_TEST(test_random_reaches_all_alike)
{
	unsigned counts[QUEUES];

	ck_assert_uint_eq(route_key(x, "k"), 0);
	ck_assert(route.uncacheable);
	for (size_t i = 0; i < QUEUES; i++)
		bind_queue(x, queues[i], "any", no_bytes());
	route_many(counts);
	for (size_t i = 0; i < QUEUES; i++)
		assert_share(counts[i], 1.0 / QUEUES);
	ck_assert(route.uncacheable);
}
END_TEST

START_TEST(test_random_counts_bindings)
{
	unsigned counts[QUEUES];

	bind_queue(x, queues[0], "a", no_bytes());
	bind_queue(x, queues[0], "b", no_bytes());
	bind_queue(x, queues[1], "c", no_bytes());
	route_many(counts);
	assert_share(counts[0], 2.0 / 3);
	unbind_queue(x, queues[0], "a", no_bytes());
	route_many(counts);
	assert_share(counts[0], 1.0 / 2);
	queue_delete(queues[0]);
	queues[0] = NULL;
	route_many(counts);
	ck_assert_uint_eq(counts[1], ROUTINGS);
}
END_TEST

/* What one of them chooses says nothing about what the next one on the way does. */
START_TEST(test_random_behind_random)
{
	struct exchange *y[2] = {make_exchange("y", "x-random"), make_exchange("z", "x-random")};
	unsigned counts[QUEUES];

	for (size_t i = 0; i < 2; i++) {
		bind_exchange(x, y[i], "");
		bind_queue(y[i], queues[2 * i], "", no_bytes());
		bind_queue(y[i], queues[2 * i + 1], "", no_bytes());
	}
	route_many(counts);
	for (size_t i = 0; i < 4; i++)
		assert_share(counts[i], 1.0 / 4);
}
END_TEST

/* A topic exchange remembers what its keys lead to, but not over one of these. */
START_TEST(test_random_is_not_cached)
{
	struct exchange *topic = make_exchange("t", "topic");
	unsigned counts[2] = {0};

	bind_exchange(topic, x, "#");
	bind_queue(x, queues[0], "", no_bytes());
	bind_queue(x, queues[1], "", no_bytes());
	for (unsigned n = 0; n < 100; n++) {
		ck_assert_uint_eq(route_key(topic, "same"), 1);
		counts[0] += route_has(queues[0]);
		counts[1] += route_has(queues[1]);
	}
	ck_assert_uint_gt(counts[0], 20);
	ck_assert_uint_gt(counts[1], 20);
}
END_TEST

TESTS_WITH("route_random", set_up, model_tear_down, test_random_reaches_all_alike,
	   test_random_counts_bindings, test_random_behind_random, test_random_is_not_cached)
