/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of queues that are longer than what is kept of them: the oldest are read before they are dropped. */
#include "unit/cold_fixture.h"
#include "wire/field.h"

#define LENGTH_MAX 3000

static struct queue *bounded; // no list knows it
static struct yielder yielder;
static int gone_on;

static struct queue *
declare(const char *name, const char *limit, int64_t value, const char *dead)
{
	uint8_t room[256];
	struct writer w = writer_of(room, sizeof(room));
	struct queue_spec spec = {.name = bytes_str(name), .durable = true};

	if (limit != NULL)
		table_put_long(&w, bytes_str(limit), value);
	if (dead != NULL) {
		table_put_string(&w, BYTES("x-dead-letter-exchange"), BYTES(""));
		table_put_string(&w, BYTES("x-dead-letter-routing-key"), bytes_str(dead));
	}
	spec.arguments = bytes_of(room, (size_t)(w.p - room));
	return queue_create(vhost, &spec);
}

static void
publish_bounded(uint32_t n, uint32_t size)
{
	struct route to = {.queues = &bounded, .count = 1, .room = 1};

	for (uint32_t i = 0; i < n; i++) {
		struct message *m = make_message(next_id++, size, true);

		queue_publish(broker, &to, m);
		message_unref(m);
	}
}

static void
on_go_on(struct yielder *y)
{
	ck_assert_ptr_eq(y, &yielder);
	gone_on++;
}

static void
set_up(void)
{
	cold_set_up();
	yielder = (struct yielder){.go_on = on_go_on};
	gone_on = 0;
}

/* Publishes until publishers are to wait; how many that took. */
static uint32_t
publish_until_behind(uint32_t size, uint32_t max)
{
	for (uint32_t n = 0; n < max; n += 100) {
		if (queue_is_behind(bounded))
			return n;
		publish_bounded(100, size);
	}
	ck_abort_msg("it has %llu messages, and nobody needs to wait",
		     (unsigned long long)queue_message_count(bounded));
	return 0;
}

/* Reads until the publisher goes on. */
static void
await_go_on(void)
{
	yielder_wait(&yielder, bounded);
	for (int i = 0; gone_on == 0; i++) {
		ck_assert_int_lt(i, 100);
		step_store();
	}
	ck_assert(!queue_is_behind(bounded));
}

START_TEST(test_publishers_wait_for_what_must_be_read)
{
	bounded = declare("bounded", "x-max-length", LENGTH_MAX, NULL);
	publish_until_behind(100, 20000);
	ck_assert_uint_gt(queue_message_count(bounded), LENGTH_MAX);
	ck_assert_uint_le(queue_message_count(bounded), LENGTH_MAX + QUEUE_WINDOW_COUNT);
	await_go_on();
	run_all_due();
	ck_assert_uint_eq(queue_message_count(bounded), LENGTH_MAX);
}
END_TEST

START_TEST(test_publishers_wait_for_octets_that_must_be_read)
{
	bounded = declare("bounded", "x-max-length-bytes", 4 * QUEUE_WINDOW_OCTETS, NULL);
	publish_until_behind(10000, 2000);
	ck_assert_uint_gt(queue_octets(bounded), 4 * QUEUE_WINDOW_OCTETS);
	ck_assert_uint_le(queue_octets(bounded), 6 * QUEUE_WINDOW_OCTETS);
	await_go_on();
	run_all_due();
	ck_assert_uint_le(queue_octets(bounded), 4 * QUEUE_WINDOW_OCTETS);
	ck_assert_uint_gt(queue_octets(bounded), 4 * QUEUE_WINDOW_OCTETS - 10000);
}
END_TEST

START_TEST(test_what_was_read_are_dead_letters_in_order)
{
	struct queue *dead = declare("dead", NULL, 0, NULL);
	uint32_t first = next_id;
	uint32_t sent;

	bounded = declare("bounded", "x-max-length", LENGTH_MAX, "dead");
	sent = publish_until_behind(100, 20000);
	await_go_on();
	run_all_due();
	ck_assert_uint_eq(queue_message_count(bounded), LENGTH_MAX);
	ck_assert_uint_eq(queue_message_count(dead), sent - LENGTH_MAX);
	for (uint32_t i = 0; i < 1000; i++) {
		struct entry entry;
		char id[16];
		struct basic_properties properties;
		bool well;

		while (queue_must_read(dead)) {
			queue_refill(dead);
			step_store();
		}
		ck_assert(queue_get(dead, true, &entry));
		well = properties_decode(&properties, message_properties(entry.message));
		ck_assert(well);
		(void)snprintf(id, sizeof(id), "m.%u", first + i);
		ck_assert(bytes_equal(properties.message_id, bytes_str(id)));
		message_unref(entry.message);
	}
}
END_TEST

START_TEST(test_purge_lets_them_go_on)
{
	bounded = declare("bounded", "x-max-length", LENGTH_MAX, NULL);
	publish_until_behind(100, 20000);
	yielder_wait(&yielder, bounded);
	queue_purge(bounded);
	ck_assert_int_eq(gone_on, 1);
	ck_assert(!queue_is_behind(bounded));
}
END_TEST

/* Nothing is read where nothing is dropped. */
START_TEST(test_nobody_waits_for_a_queue_that_refuses)
{
	uint8_t room[128];
	struct writer w = writer_of(room, sizeof(room));
	struct queue_spec spec = {.name = BYTES("refuses"), .durable = true};

	table_put_long(&w, BYTES("x-max-length"), LENGTH_MAX);
	table_put_string(&w, BYTES("x-overflow"), BYTES("reject-publish"));
	spec.arguments = bytes_of(room, (size_t)(w.p - room));
	bounded = queue_create(vhost, &spec);
	publish_bounded(2 * LENGTH_MAX + 2 * QUEUE_WINDOW_COUNT, 10);
	ck_assert_uint_eq(queue_message_count(bounded), LENGTH_MAX);
	ck_assert(!queue_is_behind(bounded));
}
END_TEST

TESTS_WITH("queue_limits_cold", set_up, cold_tear_down, test_publishers_wait_for_what_must_be_read,
	   test_publishers_wait_for_octets_that_must_be_read,
	   test_what_was_read_are_dead_letters_in_order, test_purge_lets_them_go_on,
	   test_nobody_waits_for_a_queue_that_refuses)
