/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting rooms with a store: delayed messages wait on the disk, cost no memory there, come at their millisecond, over
 * restarts too, and are in one place after any crash.
 */
#include "unit/waiting_fixture.h"
#include "unit/crash_points.h"

#define HOUR_MS 3600000

static uint64_t random_state = 1;

static uint64_t
random_below(uint64_t n)
{
	random_state = random_state * 6364136223846793005U + 1442695040888963407U;
	return random_state / 65536 % n;
}

/* ---- time ---- */

START_TEST(test_they_wait_on_the_disk)
{
	for (uint32_t i = 0; i < 5000; i++)
		delay(i, 10, HOUR_MS, true);
	turns(10);
	ck_assert_uint_eq(waiting(), 5000);
	ck_assert_uint_eq(waiting_room_octets(room()), 50000);
	ck_assert_uint_eq(room()->count, 0);
	ck_assert_uint_eq(broker->times->soon_count, 0);
	ck_assert_uint_eq(queue_message_count(out), 0);
}
END_TEST

static void
check_each_at_its_time(uint32_t count, uint64_t spread, bool persistent)
{
	uint64_t *due = xmalloc(count * sizeof(*due));
	uint64_t last_due = 0;
	uint32_t last = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t delay_ms = 1 + random_below(spread);

		due[i] = present_now.wall_ms + delay_ms;
		delay(i, 10, (int64_t)delay_ms, persistent && i % 7 != 0);
		if (i % 8 == 0)
			turn();
	}
	turns(spread);
	ck_assert_uint_eq(waiting(), 0);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t came;
		uint32_t number = take(&came);

		ck_assert_uint_lt(number, count);
		ck_assert_msg(came == due[number], "message %u came %lld ms late", number,
			      (long long)(came - due[number]));
		ck_assert_msg(came > last_due || (came == last_due && number > last),
			      "message %u came behind %u", number, last);
		last_due = came;
		last = number;
	}
	xfree(due);
}

START_TEST(test_each_at_its_millisecond)
{
	check_each_at_its_time(4000, 3000, true);
}
END_TEST

START_TEST(test_short_delays)
{
	check_each_at_its_time(2000, 20, true);
}
END_TEST

START_TEST(test_in_memory_alone)
{
	check_each_at_its_time(2000, 500, false);
}
END_TEST

/* What is due within one moment, and more than there may be at hand. */
START_TEST(test_more_than_fits_at_hand)
{
	enum {
		COUNT = 6 * QUEUE_WINDOW_COUNT
	};
	uint64_t came;

	for (uint32_t i = 0; i < COUNT; i++) {
		delay(i, 10, 20000, true);
		if (broker_store_full(broker))
			step_store();
	}
	for (int i = 0; i < 25000 && waiting() > 0; i++) {
		turn();
		ck_assert_uint_le(broker->times->soon_count, 2 * QUEUE_WINDOW_COUNT);
	}
	ck_assert_uint_eq(queue_message_count(out), COUNT);
	ck_assert_uint_eq(broker->times->soon_count, 0);
	for (uint32_t i = 0; i < COUNT; i++)
		ck_assert_uint_eq(take(&came), i);
}
END_TEST

/* While much is about to be due, what comes with a short delay is not kept back by it. */
START_TEST(test_a_short_delay_among_many)
{
	uint64_t came;
	uint64_t due;

	for (uint32_t i = 0; i < 2 * QUEUE_WINDOW_COUNT; i++) {
		delay(i, 10, 3000, true);
		if (broker_store_full(broker))
			step_store();
	}
	while (broker->times->soon_count == 0)
		turn();
	turns(10);
	ck_assert_uint_eq(broker->times->soon_count, QUEUE_WINDOW_COUNT);
	ck_assert_uint_eq(queue_message_count(out), 0);
	due = present_now.wall_ms + 30;
	delay(100000, 10, 30, true);
	turns(35);
	ck_assert_uint_eq(take(&came), 100000);
	ck_assert_uint_eq(came, due);
	turns(3000);
	expect(0, 2 * QUEUE_WINDOW_COUNT);
}
END_TEST

/* Large bodies are few at hand. */
START_TEST(test_octets_at_hand_are_bounded)
{
	for (uint32_t i = 0; i < 100; i++) {
		delay(i, 200000, 5000, true);
		if (broker_store_full(broker))
			step_store();
	}
	for (int i = 0; i < 6000 && waiting() > 0; i++) {
		turn();
		ck_assert_uint_le(broker->times->soon_octets, 2 * 4 * 1024 * 1024 + 200000);
	}
	ck_assert_uint_eq(waiting(), 0);
	expect(0, 100);
}
END_TEST

/* Expirations are in the same index: each happens at its own time, too. */
START_TEST(test_expirations_between_them)
{
	enum {
		COUNT = 3000
	};
	struct queue *q =
		queue_create(vhost, &(struct queue_spec){.name = BYTES("ttl"), .durable = true});

	for (uint32_t i = 0; i < COUNT; i++) {
		struct message *m = make_message(i, 10, true);
		struct route to = {.queues = &q, .count = 1};
		struct message *expiring;
		struct basic_properties properties;
		uint8_t header[256];
		struct writer w = writer_of(header, sizeof(header));

		ck_assert(properties_decode(&properties, message_properties(m)));
		properties.flags |= PROPERTY_expiration;
		properties.expiration = BYTES("3000");
		content_header_encode(&properties, 10, &w);
		expiring = message_new(BYTES(""), BYTES("q0"),
				       bytes_of(header, (size_t)(w.p - header)), 10,
				       MESSAGE_PERSISTENT | MESSAGE_HAS_EXPIRATION);
		memcpy(message_body_room(expiring), message_body(m).p, 10);
		queue_publish(broker, &to, expiring);
		message_unref(expiring);
		message_unref(m);
		delay(i, 10, 3000, true);
		if (i % 500 == 0)
			turn();
	}
	run_all();
	ck_assert_uint_eq(queue_message_count(q), COUNT);
	turns(2000);
	ck_assert_uint_eq(queue_message_count(q), COUNT);
	ck_assert_uint_eq(waiting(), COUNT);
	turns(1100);
	ck_assert_uint_eq(queue_message_count(q), 0);
	expect(0, COUNT);
	ck_assert_uint_eq(broker->times->count, 0);
}
END_TEST

/* ---- restarts ---- */

START_TEST(test_they_are_known_after_a_restart)
{
	for (int clean = 0; clean < 2; clean++) {
		uint64_t due;
		uint64_t came;

		for (uint32_t i = 0; i < 3000; i++)
			delay(i, 10, 60000 + (int64_t)i / 100, true);
		delay(5000, 10, 60000, false); // in memory
		due = present_now.wall_ms + 60000;
		ck_assert_uint_eq(waiting(), 3001);
		run_all();
		start_again(clean);
		ck_assert_uint_eq(waiting(), 3000);
		ck_assert_uint_eq(room()->count, 0);
		turns(due - present_now.wall_ms - 1);
		ck_assert_uint_eq(queue_message_count(out), 0);
		turns(31);
		for (uint32_t i = 0; i < 3000; i++) {
			ck_assert_uint_eq(take(&came), i);
			ck_assert_uint_eq(came, due + i / 100);
		}
	}
}
END_TEST

/* What was due meanwhile goes at once, in order. */
START_TEST(test_what_was_due_while_it_was_stopped)
{
	enum {
		COUNT = 5000
	};

	for (uint32_t i = 0; i < COUNT; i++)
		delay(i, 10, 1000000 + i, true);
	run_all();
	close_all(false);
	present_now.wall_ms += 2000000;
	reopen_all();
	find_both();
	for (int i = 0; i < 1000 && waiting() > 0; i++)
		turn();
	expect(0, COUNT);
}
END_TEST

/* Through several segments, compactions and checkpoints. */
START_TEST(test_many_segments)
{
	enum {
		COUNT = 20000
	};
	bool *came = xcalloc(COUNT, sizeof(*came));

	for (uint32_t i = 0; i < COUNT; i++) {
		delay(i, 500, 1000 + (int64_t)random_below(60000), true);
		if (i % 64 == 0 || broker_store_full(broker))
			step_store();
		if (i == COUNT / 2) {
			run_all();
			start_again(false);
		}
	}
	run_all();
	start_again(true);
	for (int i = 0; i < 70000 && waiting() > 0; i++) {
		uint64_t at;
		uint32_t number;

		turn();
		if (i % 100 == 0)
			while ((number = take(&at)) != UINT32_MAX) {
				ck_assert_uint_lt(number, COUNT);
				ck_assert(!came[number]);
				came[number] = true;
			}
	}
	for (uint32_t number; (number = take(NULL)) != UINT32_MAX;)
		came[number] = true;
	for (uint32_t i = 0; i < COUNT; i++)
		ck_assert_msg(came[i], "message %u never came", i);
	xfree(came);
}
END_TEST

START_TEST(test_deletion_drops_them)
{
	for (uint32_t i = 0; i < 3000; i++)
		delay(i, 10, i < 1000 ? 300 : 60000, true);
	turns(10);
	ck_assert_uint_gt(room()->count, 0);
	exchange_delete(x);
	turns(1000);
	ck_assert_uint_eq(queue_message_count(out), 0);
	start_again(false);
	ck_assert_ptr_null(x);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

/* A transaction's room may be gone at its commit; a queue counts as gone when its last reference is. */
START_TEST(test_a_reference_outlives_the_room)
{
	struct queue *q;

	delay(0, 10, 60000, true);
	q = queue_ref(room()->queue);
	exchange_delete(x);
	ck_assert(q->flags & QUEUE_DELETED);
	broker_reap(broker);
	queue_unref(q);
	broker_reap(broker);
}
END_TEST

/* ---- crashes ---- */

#define NUMBERS 60

static uint64_t lsns[NUMBERS];

/* Where every message is after a crash there: what was stable comes once. */
static void
check_point(size_t at)
{
	unsigned times[NUMBERS] = {0};

	find_both();
	for (int i = 0; i < 2000 && (i < 10 || waiting() > 0); i++)
		turn();
	ck_assert_uint_eq(waiting(), 0);
	for (uint32_t number; (number = take(NULL)) != UINT32_MAX;)
		times[number]++;
	for (uint32_t i = 0; i < NUMBERS; i++) {
		ck_assert_msg(times[i] <= 1, "point %zu: message %u came %u times", at, i,
			      times[i]);
		ck_assert_msg(times[i] == 1 || lsns[i] == 0 || lsns[i] > points[at].stable,
			      "point %zu: message %u is lost", at, i);
	}
}

START_TEST(test_they_are_in_one_place_after_any_crash)
{
	memset(lsns, 0, sizeof(lsns));
	disk->hook = note_point;
	for (uint32_t i = 0; i < NUMBERS; i++) {
		lsns[i] = delay(i, 100, 1 + (int64_t)random_below(100), true);
		if (i % 3 == 0)
			turn();
	}
	turns(120);
	ck_assert_uint_eq(queue_message_count(out), NUMBERS);
	check_points("delayed messages", 30, check_point);
}
END_TEST

TESTS_WITH("waiting_room", waiting_set_up, cold_tear_down, test_they_wait_on_the_disk,
	   test_each_at_its_millisecond, test_short_delays, test_in_memory_alone,
	   test_more_than_fits_at_hand, test_a_short_delay_among_many,
	   test_octets_at_hand_are_bounded, test_expirations_between_them,
	   test_they_are_known_after_a_restart, test_what_was_due_while_it_was_stopped,
	   test_many_segments, test_deletion_drops_them, test_a_reference_outlives_the_room,
	   test_they_are_in_one_place_after_any_crash)
