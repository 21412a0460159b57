/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x-consistent-hash exchanges: shares follow the weights, few keys move, and what is hashed (amqp.md 5.8).
 * The hash has no seed, so every run sees the same keys go the same ways.
 */
#include "broker/route.h"

#include "model_fixture.h"

#define KEYS 20000
#define QUEUES 10

static struct exchange *x;
static struct queue *queues[QUEUES];
static uint8_t before[KEYS]; // which queue each key had: index in queues

static void
set_up(void)
{
	model_set_up();
	x = make_exchange("x", "x-consistent-hash");
	for (size_t i = 0; i < QUEUES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "queue %zu", i);
		queues[i] = make_queue(name);
	}
}

static void
bind_all(size_t count, const char *const weights[])
{
	for (size_t i = 0; i < count; i++)
		bind_queue(x, queues[i], weights == NULL ? "1" : weights[i], no_bytes());
}

static uint8_t
index_of(const struct queue *queue)
{
	for (uint8_t i = 0; i < QUEUES; i++) {
		if (queues[i] == queue)
			return i;
	}
	ck_abort_msg("another queue");
	return 0;
}

static uint8_t
route_number(unsigned number)
{
	char key[16];

	snprintf(key, sizeof(key), "key.%u", number);
	ck_assert_uint_eq(route_key(x, key), 1);
	return index_of(route.queues[0]);
}

/* Routes all keys; counts[i] of them go to queue i. */
static void
route_all(unsigned counts[QUEUES])
{
	memset(counts, 0, QUEUES * sizeof(counts[0]));
	for (unsigned i = 0; i < KEYS; i++) {
		before[i] = route_number(i);
		counts[before[i]]++;
	}
}

/* Five standard deviations at most. */
static void
assert_share(unsigned count, double share)
{
	double expected = KEYS * share;
	double off = count - expected;

	ck_assert_msg(off * off <= 25 * expected * (1 - share) + 1, "%u instead of %.0f", count,
		      expected);
}

START_TEST(test_hash_one_queue_each)
{
	unsigned counts[QUEUES];

	ck_assert_uint_eq(route_key(x, "k"), 0);
	bind_all(QUEUES, NULL);
	route_all(counts);
	for (size_t i = 0; i < QUEUES; i++)
		assert_share(counts[i], 1.0 / QUEUES);
	ck_assert(!route.uncacheable);
}
END_TEST

START_TEST(test_hash_shares_follow_weights)
{
	static const struct {
		const char *weights[4];
		unsigned numbers[4];
		size_t count;
	} rows[] = {
		{{"1", "2", "3", "4"}, {1, 2, 3, 4}, 4},
		{{"1", "1", "98"}, {1, 1, 98}, 3},
		{{"30", "+10"}, {30, 10}, 2},
		{{"1000000", "500000", "007"}, {1000000, 500000, 7}, 3},
	};

	for (size_t row = 0; row < countof(rows); row++) {
		unsigned counts[QUEUES];
		double sum = 0;

		bind_all(rows[row].count, rows[row].weights);
		route_all(counts);
		for (size_t i = 0; i < rows[row].count; i++)
			sum += rows[row].numbers[i];
		for (size_t i = 0; i < rows[row].count; i++) {
			assert_share(counts[i], rows[row].numbers[i] / sum);
			unbind_queue(x, queues[i], rows[row].weights[i], no_bytes());
		}
	}
}
END_TEST

/* Many with small and equal shares, reached over the way with weights. */
START_TEST(test_hash_weights_among_many)
{
	static const char *const weights[QUEUES] = {"5", "5", "5", "5", "5",
						    "5", "5", "5", "5", "10"};
	unsigned counts[QUEUES];

	bind_all(QUEUES, weights);
	route_all(counts);
	for (size_t i = 0; i < QUEUES; i++)
		assert_share(counts[i], i == QUEUES - 1 ? 10 / 55.0 : 5 / 55.0);
}
END_TEST

/* Once with equal weights, once with others: the newcomer takes its share evenly and nothing else moves;
 * when it goes all is as before. */
START_TEST(test_hash_newcomer_takes_only_its_share)
{
	static const char *const weights[QUEUES] = {"1", "2", "3", "1", "2",
						    "3", "1", "2", "3", "6"};

	for (int weighted = 0; weighted < 2; weighted++) {
		const char *last = weighted ? weights[QUEUES - 1] : "1";
		double share = weighted ? 6 / 24.0 : 1.0 / QUEUES;
		unsigned counts[QUEUES];
		unsigned moved = 0;

		bind_all(QUEUES - 1, weighted ? weights : NULL);
		route_all(counts);
		bind_queue(x, queues[QUEUES - 1], last, no_bytes());
		for (unsigned i = 0; i < KEYS; i++) {
			uint8_t now = route_number(i);

			ck_assert(now == before[i] || now == QUEUES - 1);
			moved += now != before[i];
		}
		assert_share(moved, share);
		unbind_queue(x, queues[QUEUES - 1], last, no_bytes());
		for (unsigned i = 0; i < KEYS; i++)
			ck_assert_uint_eq(route_number(i), before[i]);
		for (size_t i = 0; i < QUEUES - 1; i++)
			unbind_queue(x, queues[i], weighted ? weights[i] : "1", no_bytes());
	}
}
END_TEST

/* Also when it is one in the middle. */
START_TEST(test_hash_only_keys_of_the_gone_move)
{
	unsigned counts[QUEUES];
	unsigned taken[QUEUES] = {0};

	bind_all(QUEUES, NULL);
	route_all(counts);
	queue_delete(queues[4]);
	queues[4] = NULL;
	for (unsigned i = 0; i < KEYS; i++) {
		uint8_t now = route_number(i);

		ck_assert(now == before[i] || before[i] == 4);
		taken[now] += now != before[i];
	}
	for (size_t i = 0; i < QUEUES; i++) {
		if (i != 4)
			ck_assert_uint_gt(taken[i], counts[4] / 9 / 2);
	}
}
END_TEST

/* A change from equal to unequal weights changes the way of drawing, not its outcome. */
START_TEST(test_hash_equal_weights_are_the_weighted_rule)
{
	unsigned counts[QUEUES];
	unsigned moved = 0;

	bind_all(3, NULL);
	route_all(counts);
	bind_queue(x, queues[3], "3", no_bytes());
	for (unsigned i = 0; i < KEYS; i++) {
		uint8_t now = route_number(i);

		ck_assert(now == before[i] || now == 3);
		moved += now != before[i];
	}
	assert_share(moved, 0.5);
}
END_TEST

START_TEST(test_hash_order_of_binding_does_not_matter)
{
	unsigned counts[QUEUES];

	bind_all(QUEUES, NULL);
	route_all(counts);
	x = make_exchange("another", "x-consistent-hash");
	for (size_t i = QUEUES; i-- > 0;)
		bind_queue(x, queues[i], "1", no_bytes());
	for (unsigned i = 0; i < KEYS; i++)
		ck_assert_uint_eq(route_number(i), before[i]);
}
END_TEST

/* What a key fell on before an upgrade it falls on after it: these numbers never change. */
START_TEST(test_hash_is_for_ever)
{
	static const uint8_t even[] = {5, 4, 0, 2, 6, 3, 4, 5, 2, 5, 4, 1,
				       7, 2, 8, 3, 5, 4, 0, 3, 1, 5, 5, 3};
	static const uint8_t weighted[] = {9, 4, 0, 9, 6, 9, 4, 5, 9, 5, 9, 1,
					   9, 2, 8, 3, 5, 4, 0, 3, 1, 5, 5, 3};

	ck_assert_uint_eq(stable_hash_end(stable_hash(STABLE_HASH_START, BYTES("Pannier"))),
			  UINT64_C(0x8355416c145d2d68));
	bind_all(QUEUES - 1, NULL);
	for (unsigned i = 0; i < countof(even); i++)
		ck_assert_uint_eq(route_number(i), even[i]);
	bind_queue(x, queues[QUEUES - 1], "4", no_bytes());
	for (unsigned i = 0; i < countof(weighted); i++)
		ck_assert_uint_eq(route_number(i), weighted[i]);
}
END_TEST

START_TEST(test_hash_second_binding_waits)
{
	unsigned counts[QUEUES];

	bind_all(2, NULL);
	bind_queue(x, queues[0], "98", no_bytes());
	bind_queue(x, queues[0], "3", no_bytes());
	route_all(counts);
	assert_share(counts[0], 0.5);
	unbind_queue(x, queues[0], "3", no_bytes());
	for (unsigned i = 0; i < KEYS; i++)
		ck_assert_uint_eq(route_number(i), before[i]);
	unbind_queue(x, queues[0], "1", no_bytes());
	route_all(counts);
	assert_share(counts[0], 0.98 / 0.99);
	unbind_queue(x, queues[0], "98", no_bytes());
	route_all(counts);
	ck_assert_uint_eq(counts[0], 0);
}
END_TEST

START_TEST(test_hash_exchanges_are_destinations)
{
	struct exchange *y = make_exchange("queue 0", "fanout"); // a queue is called so as well

	bind_exchange(x, y, "1");
	bind_queue(x, queues[0], "1", no_bytes());
	bind_queue(y, queues[1], "", no_bytes());
	bind_queue(y, queues[2], "", no_bytes());
	for (unsigned i = 0, alone = 0; i < 1000; i++) {
		char key[16];

		snprintf(key, sizeof(key), "%u", i);
		if (route_key(x, key) == 1) {
			ck_assert_uint_eq(route_has(queues[0]), 1);
			alone++;
		} else {
			ck_assert_uint_eq(route_has(queues[1]), 1);
			ck_assert_uint_eq(route_has(queues[2]), 1);
		}
		ck_assert(i < 999 || (alone > 400 && alone < 600));
	}
}
END_TEST

/* ---- headers and properties ---- */

static void
make_on(const char *argument, const char *value)
{
	struct table table;

	exchange_delete(x);
	table_start(&table);
	table_put_string(&table.writer, bytes_str(argument), bytes_str(value));
	x = make_with_arguments("x", "x-consistent-hash", &table);
	bind_all(QUEUES, NULL);
}

static uint8_t
route_properties(unsigned key, const struct basic_properties *properties)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", key);
	ck_assert_uint_eq(route_with(x, bytes_str(text), properties), 1);
	ck_assert(route.uncacheable);
	return index_of(route.queues[0]);
}

static uint8_t
route_header(unsigned key, struct bytes letter_and_value)
{
	struct basic_properties properties = {.flags = PROPERTY_headers};
	struct table table;

	table_start(&table);
	table_put_int(&table.writer, BYTES("more"), (int32_t)key);
	if (letter_and_value.n != 0) {
		write_shortstr(&table.writer, BYTES("h"));
		write_raw(&table.writer, letter_and_value);
	}
	properties.headers = table_view(&table);
	return route_properties(key, &properties);
}

START_TEST(test_hash_by_header)
{
	unsigned used = 0;

	make_on("hash-header", "h");
	for (unsigned value = 0; value < 50; value++) {
		uint8_t octets[2] = {'b', (uint8_t)value};
		uint8_t first = route_header(0, bytes_of(octets, 2));

		used |= 1U << first;
		for (unsigned key = 1; key < 5; key++)
			ck_assert_uint_eq(route_header(key, bytes_of(octets, 2)), first);
	}
	ck_assert_uint_eq(used, (1U << QUEUES) - 1);
}
END_TEST

/* Clients choose the type of a number by its size, and text may come as S or x. */
START_TEST(test_hash_header_values_have_no_width)
{
	make_on("hash-header", "h");
	for (uint8_t value = 0; value < 50; value++) {
		uint8_t octet[] = {'b', value};
		uint8_t wide[] = {'l', 0, 0, 0, 0, 0, 0, 0, value};
		uint8_t text[] = {'S', 0, 0, 0, 1, value};
		uint8_t binary[] = {'x', 0, 0, 0, 1, value};

		ck_assert_uint_eq(route_header(1, bytes_of(octet, sizeof(octet))),
				  route_header(2, bytes_of(wide, sizeof(wide))));
		ck_assert_uint_eq(route_header(1, bytes_of(text, sizeof(text))),
				  route_header(2, bytes_of(binary, sizeof(binary))));
	}
}
END_TEST

START_TEST(test_hash_without_the_header_is_constant)
{
	static const struct basic_properties none = {.flags = 0};
	uint8_t first;

	make_on("hash-header", "h");
	first = route_header(0, no_bytes());
	for (unsigned key = 1; key < 100; key++) {
		ck_assert_uint_eq(route_header(key, no_bytes()), first);
		ck_assert_uint_eq(route_properties(key, &none), first);
	}
}
END_TEST

START_TEST(test_hash_by_property)
{
	static const char *const names[] = {"message_id", "correlation_id", "timestamp"};
	static const unsigned flags[] = {PROPERTY_message_id, PROPERTY_correlation_id,
					 PROPERTY_timestamp};

	for (size_t i = 0; i < countof(names); i++) {
		unsigned used = 0;

		make_on("hash-property", names[i]);
		for (unsigned value = 0; value < 100; value++) {
			char text[16];
			struct basic_properties properties = {.flags = (uint16_t)flags[i]};
			uint8_t first;

			snprintf(text, sizeof(text), "%u", value);
			properties.message_id = bytes_str(text);
			properties.correlation_id = bytes_str(text);
			properties.timestamp = value;
			first = route_properties(1, &properties);
			ck_assert_uint_eq(route_properties(2, &properties), first);
			used |= 1U << first;
			/* All the others do not count. */
			properties.flags =
				(uint16_t)((PROPERTY_message_id | PROPERTY_correlation_id |
					    PROPERTY_timestamp) &
					   ~flags[i]);
			first = route_properties(1, &properties);
			properties.flags = 0;
			ck_assert_uint_eq(route_properties(1, &properties), first);
		}
		ck_assert_uint_eq(used, (1U << QUEUES) - 1);
	}
}
END_TEST

/* ---- what is refused ---- */

static const struct reply *
check_key(const char *key)
{
	struct binding_spec spec = {.source = x, .queue = queues[0], .key = bytes_str(key)};

	return binding_check(&spec);
}

START_TEST(test_hash_refuses_keys_that_are_no_weight)
{
	static const char *const zero[] = {"0", "-1", "-0", "000", "-99999999999999999999"};
	static const char *const taken[] = {"1", "+1", "01", "1000000", "0000000000001000000"};
	static const char *const none[] = {"k", "1.5", " 1", "1 ", "0x1", "+", "-", "+-1", "1e3"};

	for (size_t i = 0; i < countof(zero); i++)
		assert_refused(check_key(zero[i]), PRECONDITION_FAILED,
			       "PRECONDITION_FAILED - The binding key must be greater than 0");
	for (size_t i = 0; i < countof(taken); i++)
		ck_assert_ptr_null(check_key(taken[i]));
	for (size_t i = 0; i < countof(none); i++) {
		char text[128];

		snprintf(text, sizeof(text),
			 "PRECONDITION_FAILED - The binding key must be an integer: <<\"%s\">>",
			 none[i]);
		assert_refused(check_key(none[i]), PRECONDITION_FAILED, text);
	}
	assert_refused(check_key(""), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - The binding key must be an integer: <<>>");
	assert_refused(check_key("1000001"), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - The binding key must not exceed 1000000");
	assert_refused(check_key("340282366920938463463374607431768211457"), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - The binding key must not exceed 1000000");
}
END_TEST

static const struct reply *
check_arguments(struct table *table)
{
	struct exchange_spec spec = exchange_spec_of("y", "x-consistent-hash");
	const struct reply *reply;

	spec.arguments = table_view(table);
	reply = exchange_check_arguments(vhost, &spec);
	table_start(table);
	return reply;
}

START_TEST(test_hash_refuses_arguments)
{
	struct table table;

	table_start(&table);
	ck_assert_ptr_null(check_arguments(&table));
	table_put_string(&table.writer, BYTES("hash-property"), BYTES("app_id"));
	assert_refused(check_arguments(&table), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - Unsupported property: app_id");
	table_put_string(&table.writer, BYTES("hash-property"), BYTES("app_id"));
	table_put_string(&table.writer, BYTES("hash-header"), BYTES("h"));
	assert_refused(check_arguments(&table), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - hash-header and hash-property are mutually "
		       "exclusive");
	table_put_int(&table.writer, BYTES("hash-header"), 1);
	assert_refused(check_arguments(&table), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - invalid type 'signedint' for arg 'hash-header' in "
		       "exchange 'y'");
	table_put_bool(&table.writer, BYTES("hash-property"), true);
	assert_refused(check_arguments(&table), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - invalid type 'bool' for arg 'hash-property' in "
		       "exchange 'y'");
}
END_TEST

TESTS_WITH("route_hash", set_up, model_tear_down, test_hash_one_queue_each,
	   test_hash_shares_follow_weights, test_hash_weights_among_many,
	   test_hash_newcomer_takes_only_its_share, test_hash_only_keys_of_the_gone_move,
	   test_hash_equal_weights_are_the_weighted_rule,
	   test_hash_order_of_binding_does_not_matter, test_hash_is_for_ever,
	   test_hash_second_binding_waits, test_hash_exchanges_are_destinations,
	   test_hash_by_header, test_hash_header_values_have_no_width,
	   test_hash_without_the_header_is_constant, test_hash_by_property,
	   test_hash_refuses_keys_that_are_no_weight, test_hash_refuses_arguments)
