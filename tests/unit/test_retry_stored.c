/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retries of stored messages: what waits comes in its time after any stop, with its count; a message that failed is in
 * one place after a crash at any call of the disk.
 */
#include "unit/stored_fixture.h"
#include "unit/crash_points.h"

#include "broker/waiting_room.h"

#define NUMBERS 40
#define FAILURES 3 // of each at most

static struct queue *
declare_retrying(const char *name, int64_t max)
{
	ask("x-retry-max", max);
	ask("x-retry-initial", 10000);
	ask("x-retry-multiplier", 1);
	ask("x-retry-jitter", 0);
	return declare(name);
}

static uint64_t
waiting(struct queue *q)
{
	struct waiting_room *room = waiting_room_of_queue(q);

	return room == NULL ? 0 : waiting_room_count(room);
}

static void
fail_all(struct queue *q)
{
	struct entry entry;

	while (take(q, &entry))
		queue_fail(q, &entry);
}

/* How often each message of the queue failed, by number, as digits, '-' for those that are not there; they are
 * settled. */
static const char *
failures_in(struct queue *q)
{
	static char text[NUMBERS + 1];
	struct entry entry;
	size_t n = 0;

	memset(text, '-', sizeof(text));
	while (take(q, &entry)) {
		uint32_t number = number_of(entry.message);

		ck_assert_uint_lt(number, NUMBERS);
		ck_assert_int_eq(text[number], '-');
		text[number] = (char)('0' + message_failures(entry.message));
		n = max_u64(n, number + 1);
		queue_ack(q, &entry);
	}
	text[n] = '\0';
	return text;
}

START_TEST(test_what_waits_outlives_stops)
{
	char name[8];

	for (unsigned stops = 0; stops < 4; stops++) {
		struct queue *q;

		(void)snprintf(name, sizeof(name), "w%u", stops);
		q = declare_retrying(name, 5);
		for (uint32_t i = 0; i < 5; i++)
			send(q, i, true);
		run_all();
		fail_all(q);
		run_all();
		restart(stops & 1);
		live(4000);
		ck_assert_uint_eq(waiting(find(name)), 5);
		restart(stops & 2);
		live(3000);
		ck_assert_uint_eq(queue_message_count(find(name)), 0);
		live(4000);
		ck_assert_uint_eq(waiting(find(name)), 0);
		ck_assert_uint_eq(queue_message_count(find(name)), 5);
		restart(stops & 1);
		ck_assert_str_eq(failures_in(find(name)), "11111");
	}
}
END_TEST

/* What was due while nobody was there comes at the start. */
START_TEST(test_what_was_due_meanwhile)
{
	struct queue *q = declare_retrying("work", 5);

	send(q, 0, true);
	fail_all(q);
	run_all();
	close_all(false);
	present_now.wall_ms += 100000;
	reopen_all();
	live(1000);
	ck_assert_str_eq(failures_in(find("work")), "1");
}
END_TEST

/* It fails over several lives, and is dead at last. */
START_TEST(test_failures_add_up_over_stops)
{
	struct queue *q;

	declare("dead");
	ask_dead_letters_to("dead");
	q = declare_retrying("work", 3);
	send(q, 7, true);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_uint_eq(queue_message_count(find("dead")), 0);
		fail_all(find("work"));
		run_all();
		restart(i % 2 == 0);
		live(11000);
	}
	ck_assert_uint_eq(queue_message_count(find("work")), 0);
	ck_assert_uint_eq(waiting(find("work")), 0);
	/* the dead letter has never failed where it is */
	ck_assert_str_eq(failures_in(find("dead")), "-------0");
}
END_TEST

START_TEST(test_parked_for_ever)
{
	struct queue *q;

	ask_string("x-retry-exhausted", "park");
	q = declare_retrying("work", 0);
	for (uint32_t i = 0; i < 3; i++)
		send(q, i, true);
	fail_all(q);
	run_all();
	for (unsigned i = 0; i < 3; i++) {
		restart(i % 2 == 0);
		present_now.wall_ms += 365ULL * 24 * 3600 * 1000;
		live(70000);
		ck_assert_uint_eq(waiting(find("work")), 3);
		ck_assert_uint_eq(queue_message_count(find("work")), 0);
	}
}
END_TEST

/* Its own expiration begins when it is back, also when it was read from the disk for that. */
START_TEST(test_expirations_are_known_after_a_restart)
{
	struct queue *q = declare_retrying("work", 5);
	struct message *m = make_message(3, 10, true);
	struct message *expiring = with_expiration(m, "60000");
	struct queue *queues[] = {q};
	struct route route = {.queues = queues, .count = 1, .room = 1};

	queue_publish(broker, &route, expiring);
	message_unref(expiring);
	message_unref(m);
	fail_all(q);
	run_all();
	restart(false);
	live(11000);
	ck_assert_uint_eq(queue_message_count(find("work")), 1);
	live(30000);
	ck_assert_uint_eq(queue_message_count(find("work")), 1);
	live(40000);
	ck_assert_uint_eq(queue_message_count(find("work")), 0);
}
END_TEST

/* Transient ones wait in memory, and only there. */
START_TEST(test_transient_messages_of_a_durable_queue)
{
	struct queue *q = declare_retrying("work", 5);

	send(q, 0, false);
	send(q, 1, true);
	fail_all(q);
	ck_assert_uint_eq(waiting(q), 2);
	live(11000);
	ck_assert_str_eq(failures_in(q), "11");
	send(q, 0, false);
	fail_all(q);
	run_all();
	restart(true);
	ck_assert_uint_eq(waiting(find("work")), 0);
}
END_TEST

/* ---- crashes ---- */

static struct {
	uint64_t sent;		   // LSNs behind which it is safe; 0: not yet
	uint64_t failed[FAILURES]; // in order
	uint64_t done;
} numbers[NUMBERS];

static unsigned failures_then[CRASH_POINTS][NUMBERS]; // that there were at each point

static unsigned
failures_of(uint32_t number, uint64_t lsn)
{
	unsigned n = 0;

	while (n < FAILURES && numbers[number].failed[n] != 0 && numbers[number].failed[n] <= lsn)
		n++;
	return n;
}

static void
note_point_and_failures(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	for (uint32_t i = 0; i < NUMBERS; i++)
		failures_then[point_count][i] = failures_of(i, UINT64_MAX);
	note_point(context, sim, call);
}

/* Fails or finishes what is at hand. */
static void
work_a_little(struct queue *q, uint32_t step)
{
	struct entry entry;

	for (uint32_t n = 0; n < 3 && take(q, &entry); n++) {
		uint32_t number = number_of(entry.message);
		unsigned failures = failures_of(number, UINT64_MAX);

		ck_assert_uint_eq(message_failures(entry.message), failures);
		if (failures < FAILURES && (number + step + n) % 4 != 0) {
			queue_fail(q, &entry);
			numbers[number].failed[failures] = broker->effect_lsn;
		} else {
			queue_ack(q, &entry);
			numbers[number].done = broker->effect_lsn;
		}
		if ((step + n) % 3 == 0)
			step_store();
	}
}

/* What is found of a number in one of the queues. */
static void
check_found(size_t at, uint32_t number, unsigned failures, bool dead)
{
	unsigned least = failures_of(number, points[at].stable);
	unsigned most = failures_then[at][number];

	if (dead)
		failures = FAILURES;
	ck_assert_msg(failures >= least && failures <= most,
		      "point %zu: message %u failed %u times, not %u to %u", at, number, failures,
		      least, most);
	ck_assert_msg(numbers[number].done == 0 || numbers[number].done > points[at].stable,
		      "point %zu: message %u was done", at, number);
}

static void
check_point(size_t at)
{
	static const char *const names[] = {"work", "dead"};
	unsigned places[NUMBERS] = {0};
	uint64_t wall_ms = present_now.wall_ms;

	present_now.wall_ms += 100000;
	live(1000);
	for (size_t i = 0; i < countof(names); i++) {
		struct queue *q = find(names[i]);
		struct entry entry;

		while (take(q, &entry)) {
			uint32_t number = number_of(entry.message);

			places[number]++;
			check_found(at, number, message_failures(entry.message), i == 1);
			queue_ack(q, &entry);
		}
		ck_assert_uint_eq(waiting(q), 0);
	}
	for (uint32_t i = 0; i < NUMBERS; i++) {
		ck_assert_msg(places[i] <= 1, "point %zu: message %u is in %u places", at, i,
			      places[i]);
		ck_assert_msg(places[i] == 1 || numbers[i].done != 0 || numbers[i].sent == 0 ||
				      numbers[i].sent > points[at].stable,
			      "point %zu: message %u is lost", at, i);
	}
	present_now.wall_ms = wall_ms;
}

START_TEST(test_messages_that_fail_are_in_one_place_after_any_crash)
{
	struct queue *q;

	declare("dead");
	ask_dead_letters_to("dead");
	ask("x-retry-max", FAILURES - 1);
	ask("x-retry-initial", 200);
	ask("x-retry-multiplier", 1);
	q = declare("work");
	while (!queue_may_deliver(q))
		step_store();
	run_all();
	memset(numbers, 0, sizeof(numbers));
	disk->hook = note_point_and_failures;
	for (uint32_t i = 0; i < 2 * NUMBERS; i++) {
		if (i < NUMBERS)
			numbers[i].sent = send(q, i, true);
		work_a_little(q, i);
		if (i % 2 == 0)
			step_store();
		pass_time(15);
	}
	run_all();
	check_points("retries", 50, check_point);
}
END_TEST

TESTS_WITH("retry_stored", cold_set_up, cold_tear_down, test_what_waits_outlives_stops,
	   test_what_was_due_meanwhile, test_failures_add_up_over_stops, test_parked_for_ever,
	   test_expirations_are_known_after_a_restart, test_transient_messages_of_a_durable_queue,
	   test_messages_that_fail_are_in_one_place_after_any_crash)
