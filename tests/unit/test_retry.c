/* SPDX-License-Identifier: Apache-2.0 */
/* Retries with back-off in memory, with a clock turned by hand: how long a message waits, and what becomes of it. */
#include "broker/retry.h"

#include "broker/policy.h"
#include "broker/waiting_room.h"
#include "unit/life_fixture.h"

static void
put_double(const char *name, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	write_shortstr(&arguments.writer, bytes_str(name));
	write_octet(&arguments.writer, 'd');
	write_longlong(&arguments.writer, bits);
}

/* Retries after 100, 200, 400 ms and so on, without chance. */
static void
ask_retries(int64_t max)
{
	ask_number("x-retry-max", max);
	ask_number("x-retry-initial", 100);
	ask_number("x-retry-jitter", 0);
}

static struct queue *
retrying(int64_t max)
{
	ask_retries(max);
	return declare("q");
}

static void
fail_first(struct queue *q)
{
	struct entry entry = take(q);

	queue_fail(q, &entry);
	broker_check(broker);
}

static uint64_t
waiting(struct queue *q)
{
	struct waiting_room *room = waiting_room_of_queue(q);

	return room == NULL ? 0 : waiting_room_count(room);
}

static int64_t
failures_of(const struct message *m)
{
	struct field field;

	if (!table_find(headers_of(m), BYTES("x-failure-count"), &field))
		return 0;
	ck_assert_int_eq(field.type, 'l');
	return field.integer;
}

/* ---- intervals ---- */

START_TEST(test_intervals)
{
	struct retry_settings r = {
		.max = 10, .initial_ms = 100, .longest_ms = 1500, .multiplier = 2};
	static const uint64_t doubled[] = {100, 200, 400, 800, 1500, 1500};

	for (uint32_t i = 0; i < countof(doubled); i++)
		ck_assert_uint_eq(retry_interval_ms(&r, i + 1, 0), doubled[i]);
	ck_assert_uint_eq(retry_interval_ms(&r, RETRY_MAX, 0.99), 1500);
	r.multiplier = 1.5;
	ck_assert_uint_eq(retry_interval_ms(&r, 3, 0), 225);
	r.multiplier = 1;
	ck_assert_uint_eq(retry_interval_ms(&r, RETRY_MAX, 0), 100);
	r.initial_ms = 5000;
	ck_assert_uint_eq(retry_interval_ms(&r, 1, 0), 1500);
	r.initial_ms = 0;
	r.multiplier = 1000;
	ck_assert_uint_eq(retry_interval_ms(&r, RETRY_MAX, 0), 0);
}
END_TEST

/* It only makes them shorter, so the longest one is the longest. */
START_TEST(test_chance_makes_intervals_shorter)
{
	struct retry_settings r = {
		.initial_ms = 1000, .longest_ms = 1000, .multiplier = 2, .jitter = 0.25};

	ck_assert_uint_eq(retry_interval_ms(&r, 5, 0), 1000);
	ck_assert_uint_eq(retry_interval_ms(&r, 5, 0.5), 875);
	ck_assert_uint_eq(retry_interval_ms(&r, 5, 0.999999), 750);
	r.jitter = 1;
	ck_assert_uint_eq(retry_interval_ms(&r, 5, 0.999999), 0);
}
END_TEST

START_TEST(test_what_is_in_force_unasked)
{
	const struct retry_settings *r;

	ask_number("x-retry-initial", 5);
	ck_assert_ptr_null(queue_settings(declare("without"))->retry);
	ask_number("x-retry-max", 3);
	r = queue_settings(declare("q"))->retry;
	ck_assert_uint_eq(r->max, 3);
	ck_assert_uint_eq(r->initial_ms, 1000);
	ck_assert_uint_eq(r->longest_ms, 3600000);
	ck_assert(r->multiplier == 2);
	ck_assert(r->jitter == 0.1);
	ck_assert_int_eq(r->exhausted, RETRY_DEAD_LETTER);
	ask_number("x-retry-max", 4);
	ask_number("x-retry-initial", 7);
	ask_number("x-retry-max-interval", 9);
	put_double("x-retry-multiplier", 1.25);
	put_double("x-retry-jitter", 0.5);
	ask_string("x-retry-exhausted", "park");
	r = queue_settings(declare("r"))->retry;
	ck_assert_uint_eq(r->initial_ms, 7);
	ck_assert_uint_eq(r->longest_ms, 9);
	ck_assert(r->multiplier == 1.25);
	ck_assert(r->jitter == 0.5);
	ck_assert_int_eq(r->exhausted, RETRY_PARK);
}
END_TEST

/* ---- failing ---- */

START_TEST(test_a_failed_message_waits_and_comes_last)
{
	struct queue *q = retrying(3);
	struct entry entry;

	send(q, "a");
	send(q, "b");
	fail_first(q);
	ck_assert_str_eq(bodies(q), "b");
	ck_assert_uint_eq(waiting(q), 1);
	send(q, "c");
	pass(99);
	ck_assert_str_eq(bodies(q), "b c");
	pass(1);
	ck_assert_str_eq(bodies(q), "b c a");
	ck_assert_uint_eq(waiting(q), 0);
	reject_first(q);
	reject_first(q);
	entry = take(q);
	ck_assert_int_eq(failures_of(entry.message), 1);
	ck_assert(!(entry.bits & ENTRY_REDELIVERED));
	ck_assert(bytes_equal(message_key(entry.message), BYTES("key")));
	queue_ack(q, &entry);
}
END_TEST

START_TEST(test_each_time_longer_then_it_dies)
{
	struct queue *dead = declare("dead");
	struct queue *q;
	struct entry entry;

	ask_dead_letters_to("dead");
	q = retrying(3);
	send(q, "a");
	for (int i = 1; i <= 3; i++) {
		fail_first(q);
		pass((100U << (i - 1)) - 1);
		ck_assert_str_eq(bodies(q), "");
		pass(1);
		entry = take(q);
		ck_assert_int_eq(failures_of(entry.message), i);
		ck_assert_uint_eq(message_failures(entry.message), (uint32_t)i);
		/* what only comes back is not charged, and keeps its place */
		queue_requeue(q, &entry);
	}
	ck_assert_str_eq(bodies(dead), "");
	fail_first(q);
	ck_assert_uint_eq(waiting(q), 0);
	entry = take(dead);
	expect_death(entry.message, 0, "q", "delivery_limit", 1);
	ck_assert_int_eq(failures_of(entry.message), 4);
	/* it has never failed there */
	ck_assert_uint_eq(message_failures(entry.message), 0);
	queue_ack(dead, &entry);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

START_TEST(test_no_retry_at_all)
{
	struct queue *q = retrying(0);

	send(q, "a");
	fail_first(q);
	ck_assert_uint_eq(waiting(q), 0);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

START_TEST(test_dropped)
{
	struct queue *dead = declare("dead");
	struct queue *q;

	ask_dead_letters_to("dead");
	ask_string("x-retry-exhausted", "drop");
	q = retrying(1);
	send(q, "a");
	fail_first(q);
	pass(100);
	fail_first(q);
	pass(1000000);
	ck_assert_uint_eq(broker_message_count(broker), 0);
	ck_assert_uint_eq(dead->publish_count, 0);
	ck_assert_uint_eq(waiting(q), 0);
}
END_TEST

/* It waits for ever, and counts as one that waits. */
START_TEST(test_parked)
{
	struct queue *q;

	ask_string("x-retry-exhausted", "park");
	q = retrying(1);
	send(q, "a");
	fail_first(q);
	pass(100);
	fail_first(q);
	ck_assert_uint_eq(waiting(q), 1);
	for (int year = 0; year < 20; year++) {
		struct now now = broker->now;

		now.wall_ms += 365ULL * 24 * 3600 * 1000;
		now.monotonic_ms += 1;
		broker_set_now(broker, now);
		deadlines_run(&deadlines, now.monotonic_ms);
		ck_assert_uint_eq(waiting(q), 1);
	}
	ck_assert_str_eq(bodies(q), "");
}
END_TEST

/* Who lets it go on gives it one more try each time. */
START_TEST(test_parked_and_let_go)
{
	struct queue *q;

	ask_string("x-retry-exhausted", "park");
	q = retrying(1);
	send(q, "a");
	fail_first(q);
	pass(100);
	for (int64_t failures = 1; failures < 4; failures++) {
		struct entry entry = take(q);

		ck_assert_int_eq(failures_of(entry.message), failures);
		queue_fail(q, &entry);
		ck_assert_uint_eq(waiting(q), 1);
		pass(1000000);
		ck_assert_str_eq(bodies(q), "");
		ck_assert_uint_eq(waiting_room_release_all(waiting_room_of_queue(q)), 1);
		pass(1);
		ck_assert_str_eq(bodies(q), "a");
	}
	fail_first(q);
	ck_assert_uint_eq(waiting_room_cancel_all(waiting_room_of_queue(q)), 1);
	pass(1);
	ck_assert_uint_eq(waiting(q), 0);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

START_TEST(test_without_retries_it_goes_back_to_its_place)
{
	struct queue *q = declare("q");

	send(q, "a");
	send(q, "b");
	fail_first(q);
	ck_assert_str_eq(bodies(q), "a b");
	ck_assert_ptr_null(waiting_room_of_queue(q));
}
END_TEST

/* A client may say what it likes of failures. */
START_TEST(test_a_header_of_a_client_counts_for_nothing)
{
	struct basic_properties properties = {.flags = PROPERTY_headers};
	struct queue *q = retrying(1);
	struct table headers;
	struct entry entry;

	table_start(&headers);
	table_put_string(&headers.writer, BYTES("x-failure-count"), BYTES("many"));
	table_put_long(&headers.writer, BYTES("other"), 7);
	properties.headers = table_view(&headers);
	send_with(q, &properties, "a");
	fail_first(q);
	pass(100);
	entry = take(q);
	ck_assert_int_eq(failures_of(entry.message), 1);
	expect_number(headers_of(entry.message), "other", 'l', 7);
	ck_assert_uint_eq(table_count(headers_of(entry.message)), 2);
	queue_ack(q, &entry);
}
END_TEST

/* The same seed, the same waits; they differ from each other. */
START_TEST(test_chance_can_be_repeated)
{
	uint64_t waits[2][3];
	struct queue *q;

	ask_number("x-retry-max", 3);
	ask_number("x-retry-initial", 100000);
	ask_number("x-retry-multiplier", 1);
	put_double("x-retry-jitter", 0.5);
	q = declare("q");
	for (int round = 0; round < 2; round++) {
		broker->random = 42;
		send(q, "a");
		for (int i = 0; i < 3; i++) {
			uint64_t from = broker->now.wall_ms;

			fail_first(q);
			while (waiting(q) > 0)
				pass(1);
			waits[round][i] = broker->now.wall_ms - from;
			ck_assert_uint_ge(waits[round][i], 50000);
			ck_assert_uint_le(waits[round][i], 100000);
		}
		reject_first(q);
	}
	ck_assert_mem_eq(waits[0], waits[1], sizeof(waits[0]));
	ck_assert_uint_ne(waits[0][0], waits[0][1]);
	ck_assert_uint_ne(waits[0][1], waits[0][2]);
}
END_TEST

/* ---- together with others ---- */

START_TEST(test_one_that_waits_takes_no_room)
{
	struct queue *q;

	ask_number("x-max-length", 1);
	ask_string("x-overflow", "reject-publish");
	q = retrying(3);
	ck_assert(send(q, "a"));
	fail_first(q);
	ck_assert(send(q, "b"));
	ck_assert(!send(q, "c"));
	/* it had its turn: it is not refused */
	pass(100);
	ck_assert_str_eq(bodies(q), "b a");
}
END_TEST

START_TEST(test_the_oldest_is_dropped_for_one_that_comes_back)
{
	struct queue *q;

	ask_number("x-max-length", 1);
	q = retrying(3);
	send(q, "a");
	fail_first(q);
	send(q, "b");
	pass(100);
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

/* One that waits does not expire; its time begins when it is back. */
START_TEST(test_time_to_live_begins_anew)
{
	struct queue *q;

	ask_number("x-message-ttl", 50);
	q = retrying(3);
	send(q, "a");
	fail_first(q);
	pass(100);
	ck_assert_str_eq(bodies(q), "a");
	pass(49);
	ck_assert_str_eq(bodies(q), "a");
	pass(1);
	ck_assert_str_eq(bodies(q), "");
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

/* Its own expiration too. */
START_TEST(test_expiration_begins_anew)
{
	struct basic_properties properties = {.flags = PROPERTY_expiration,
					      .expiration = BYTES("50")};
	struct queue *q = retrying(3);

	send_with(q, &properties, "a");
	fail_first(q);
	pass(149);
	ck_assert_str_eq(bodies(q), "a");
	pass(1);
	ck_assert_str_eq(bodies(q), "");
}
END_TEST

/* The delivery limit counts what comes back without having failed. */
START_TEST(test_beside_a_delivery_limit)
{
	struct queue *q;
	struct entry entry;

	ask_number("x-delivery-limit", 1);
	q = retrying(3);
	send(q, "a");
	requeue_first(q);
	fail_first(q);
	pass(100);
	requeue_first(q);
	entry = take(q);
	ck_assert_uint_eq(entry_returns(&entry), 1);
	ck_assert_int_eq(failures_of(entry.message), 1);
	queue_requeue(q, &entry);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

/* A message comes back to its level, behind those that are there. */
START_TEST(test_with_priorities)
{
	struct basic_properties high = {.flags = PROPERTY_priority, .priority = 5};
	struct queue *q;
	struct queue *from;
	struct entry entry;

	ask_number("x-max-priority", 5);
	ask_number("x-max-length", 4);
	q = retrying(2);
	send_with(q, &high, "h1");
	send(q, "l1");
	entry = take_from(q, &from);
	ck_assert_ptr_ne(from, q);
	queue_fail(from, &entry);
	entry = take_from(q, &from);
	ck_assert_ptr_eq(from, q);
	queue_fail(from, &entry);
	ck_assert_uint_eq(waiting(q), 2);
	send_with(q, &high, "h2");
	send(q, "l2");
	pass(100);
	ck_assert_str_eq(bodies(q), "h2 h1 l2 l1");
	/* they count for the limit of the queue, which has one for all levels */
	ck_assert_uint_eq(queue_message_count(q), 4);
	for (int i = 0; i < 2; i++) {
		entry = take_from(q, &from);
		ck_assert_int_eq(failures_of(entry.message), i);
		queue_ack(from, &entry);
	}
}
END_TEST

START_TEST(test_a_policy_turns_it_on_and_off)
{
	struct policy_spec spec = {.name = BYTES("p"), .pattern = BYTES("^q$")};
	struct queue *q = declare("q");
	struct table definition;
	struct policy *policy;

	table_start(&definition);
	table_put_long(&definition.writer, BYTES("retry-max"), 2);
	table_put_long(&definition.writer, BYTES("retry-jitter"), 0);
	spec.definition = table_view(&definition);
	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
	policy = policy_put(vhost, POLICY_USER, &spec);
	send(q, "a");
	fail_first(q);
	ck_assert_uint_eq(waiting(q), 1);
	policy_remove(policy);
	send(q, "b");
	fail_first(q);
	ck_assert_str_eq(bodies(q), "b");
	/* what waits comes all the same */
	pass(1000);
	ck_assert_str_eq(bodies(q), "b a");
}
END_TEST

START_TEST(test_deleted_with_its_queue)
{
	struct queue *q = retrying(3);
	struct entry entry;

	send(q, "a");
	send(q, "b");
	fail_first(q);
	entry = take(q);
	queue_ref(q);
	queue_delete(q);
	queue_fail(q, &entry);
	queue_unref(q);
	broker_reap(broker);
	pass(1000);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

TESTS_WITH("retry", life_set_up, model_tear_down, test_intervals,
	   test_chance_makes_intervals_shorter, test_what_is_in_force_unasked,
	   test_a_failed_message_waits_and_comes_last, test_each_time_longer_then_it_dies,
	   test_no_retry_at_all, test_dropped, test_parked, test_parked_and_let_go,
	   test_without_retries_it_goes_back_to_its_place,
	   test_a_header_of_a_client_counts_for_nothing, test_chance_can_be_repeated,
	   test_one_that_waits_takes_no_room, test_the_oldest_is_dropped_for_one_that_comes_back,
	   test_time_to_live_begins_anew, test_expiration_begins_anew, test_beside_a_delivery_limit,
	   test_with_priorities, test_a_policy_turns_it_on_and_off, test_deleted_with_its_queue)
