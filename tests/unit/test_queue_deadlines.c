/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored messages with an expiration of their own, wherever they are when it ends: nobody needs to look at the queue,
 * nothing is kept of them in memory, and restarts change nothing.
 */
#include "unit/life_stored_fixture.h"

#include <time.h>

static void
send_long(struct queue *q, const char *expiration)
{
	for (uint32_t i = 0; i < LONG; i++)
		send_for(q, i, expiration);
	live(20000);
	ck_assert_uint_eq(q->ready_count, 0);
}

/* ---- on the disk ---- */

START_TEST(test_cold_messages_go_unread)
{
	struct queue *q = declare("wait");
	uint64_t before;

	for (uint32_t i = 0; i < LONG; i++)
		send_for(q, i, i % 2 == 0 ? "60000" : "90000");
	live(20000);
	ck_assert_uint_eq(q->ready_count, 0);
	ck_assert_uint_eq(q->life->own_count, 0);
	before = reads;
	live(39000);
	ck_assert_uint_eq(queue_message_count(q), LONG);
	live(2000);
	ck_assert_uint_eq(queue_message_count(q), LONG / 2);
	ck_assert_uint_eq(queue_octets(q), LONG / 2 * 10);
	ck_assert_uint_eq(reads, before);
	ck_assert_uint_eq(q->life->own_count, 0);
	restart(true);
	for (uint32_t i = 0; i < 10; i++)
		ck_assert_uint_eq(take_number(find("wait")), 2 * i + 1);
	live(30000);
	ck_assert_uint_eq(queue_message_count(find("wait")), 0);
}
END_TEST

START_TEST(test_deadlines_hold_after_a_restart_though_nobody_reads)
{
	for (int clean = 0; clean < 2; clean++) {
		struct queue *q = clean ? find("wait") : declare("wait");
		uint64_t before;

		send_long(q, "60000");
		restart(clean);
		before = reads;
		live(38000);
		ck_assert_uint_eq(queue_message_count(find("wait")), LONG);
		live(4000);
		ck_assert_uint_eq(queue_message_count(find("wait")), 0);
		ck_assert_uint_eq(reads, before);
	}
}
END_TEST

START_TEST(test_nothing_expires_before_the_first_turn)
{
	send_long(declare("wait"), "60000");
	close_all(false);
	present_now.wall_ms += 100000;
	reopen_all();
	ck_assert_uint_eq(queue_message_count(find("wait")), LONG);
	live(1000);
	ck_assert_uint_eq(queue_message_count(find("wait")), 0);
}
END_TEST

START_TEST(test_cold_messages_are_read_for_their_dead_letters)
{
	struct queue *q;
	uint64_t before;

	declare("dead");
	ask_dead_letters_to("dead");
	q = declare("wait");
	for (uint32_t i = 0; i < LONG; i++)
		send_for(q, i, i % 1000 == 999 ? "60000" : "3600000");
	live(20000);
	ck_assert_uint_eq(q->ready_count, 0);
	restart(false);
	q = find("wait");
	before = reads;
	live(50000);
	ck_assert_uint_eq(queue_message_count(q), LONG - LONG / 1000);
	ck_assert_uint_eq(q->ready_count, 0);
	ck_assert_ptr_null(q->life->dying);
	ck_assert_uint_eq(broker->dying_count, 0);
	/* no window */
	ck_assert_uint_lt(reads, before + 10);
	for (uint32_t i = 0; i < LONG / 1000; i++)
		ck_assert_uint_eq(take_number(find("dead")), 1000 * i + 999);
	ck_assert_uint_eq(take_number(find("dead")), UINT32_MAX);
	for (uint32_t i = 0; i < LONG; i++)
		if (i % 1000 != 999)
			ck_assert_uint_eq(take_number(q), i);
	ck_assert_uint_eq(take_number(q), UINT32_MAX);
}
END_TEST

/* More than is remembered at once. */
START_TEST(test_dead_letters_of_many_come_in_order)
{
	struct queue *q;

	declare("dead");
	ask_dead_letters_to("dead");
	q = declare("wait");
	send_long(q, "60000");
	for (uint64_t until = present_now.monotonic_ms + 60000; present_now.monotonic_ms < until;
	     pass_time(10)) {
		step_store();
		dispatch();
		ck_assert_uint_le(broker->dying_count, 4096 + 1000);
		ck_assert_uint_le(broker->dying_reads, 4);
	}
	live(1000);
	ck_assert_uint_eq(queue_message_count(q), 0);
	ck_assert_uint_eq(broker->dying_count, 0);
	expect_numbers(find("dead"), 0, LONG);
}
END_TEST

START_TEST(test_more_queues_than_are_read_at_once)
{
	char name[16];

	declare("dead");
	for (uint32_t i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "wait%u", i);
		ask_dead_letters_to("dead");
		send_for(declare(name), i, "60000");
	}
	live(10000);
	restart(true);
	live(60000);
	ck_assert_uint_eq(queue_message_count(find("dead")), 20);
	ck_assert_uint_eq(broker->dying_reads, 0);
}
END_TEST

/* ---- at hand ---- */

START_TEST(test_stored_messages_at_hand_die_in_time)
{
	struct queue *q = declare("wait");

	for (uint32_t i = 0; i < 10; i++)
		send_for(q, i, i % 2 == 0 ? "500" : "1000");
	live(400);
	ck_assert_uint_eq(q->ready_count, 10);
	live(200);
	ck_assert_uint_eq(q->ready_count, 5);
	ck_assert_uint_eq(take_number(q), 1);
	live(500);
	ck_assert_uint_eq(queue_message_count(q), 0);
	ck_assert_uint_eq(q->life->own_count, 0);
}
END_TEST

/* At its time it is not handed out, also when the store has not told yet. */
START_TEST(test_none_is_handed_out_late)
{
	struct queue *q = declare("wait");
	struct entry entry;

	send_for(q, 0, "500");
	send_for(q, 1, "5000");
	run_all();
	while (!queue_may_deliver(q))
		step_store();
	advance(1000);
	queue_hand_out(q);
	ck_assert(queue_get(q, false, &entry));
	ck_assert_uint_eq(entry_qseq(&entry), 2);
	ck_assert_uint_eq(queue_message_count(q), 0);
	queue_ack(q, &entry);
}
END_TEST

/* Whoever asks how many there are is told so. */
START_TEST(test_none_that_is_late_is_counted)
{
	struct queue *q = declare("wait");

	send_for(q, 0, "50000");
	send_for(q, 1, "500");
	run_all();
	advance(1000);
	queue_hand_out(q);
	ck_assert_uint_eq(queue_message_count(q), 1);
}
END_TEST

/* The index of deadlines cannot be read, nor be made anew: those at the head die in time all the same. */
START_TEST(test_the_first_one_dies_without_the_index)
{
	struct queue *q = declare("wait");
	uint64_t sent_ms = present_now.wall_ms;

	send_for(q, 0, "50000");
	send_for(q, 1, "3600000");
	run_all();
	close_all(true);
	for (uint64_t id = 1; id < 10; id++) {
		uint8_t tag[4];
		char path[64];
		uint8_t *p;
		size_t size;

		(void)snprintf(path, sizeof(path), "log/%010llu.seg", (unsigned long long)id);
		p = disk_sim_content(disk, path, &size);
		le32_store(tag, SECTION_TIMED);
		for (size_t i = 0; p != NULL && i + 4 <= size; i++)
			if (memcmp(p + i, tag, 4) == 0)
				p[i] ^= 99;
	}
	disk->capacity = 64 * 1024 * 1024;
	reopen_all();
	q = find("wait");
	live(sent_ms + 48000 - present_now.wall_ms);
	queue_refill(q);
	run_all();
	ck_assert_uint_eq(q->ready_count, 2);
	live(sent_ms + 49500 - present_now.wall_ms);
	ck_assert_uint_eq(q->ready_count, 2);
	live(1000);
	ck_assert_uint_eq(queue_message_count(q), 1);
	expect_numbers(q, 1, 1);
	disk->capacity = 0;
}
END_TEST

static struct entry
get_first(struct queue *q)
{
	struct entry entry;

	while (!queue_may_deliver(q))
		step_store();
	ck_assert(queue_get(q, false, &entry));
	return entry;
}

START_TEST(test_unacked_ones_die_when_they_come_back)
{
	struct queue *q;
	struct entry entry;

	declare("dead");
	ask_dead_letters_to("dead");
	q = declare("wait");
	send_for(q, 7, "1000");
	run_all();
	entry = get_first(q);
	live(5000);
	ck_assert_uint_eq(queue_message_count(find("dead")), 0);
	queue_requeue(q, &entry);
	ck_assert_uint_eq(queue_message_count(q), 1);
	live(10);
	ck_assert_uint_eq(queue_message_count(q), 0);
	expect_numbers(find("dead"), 7, 1);
}
END_TEST

/* One that comes back in time is told by the store, though it was away. */
START_TEST(test_one_that_came_back_in_time_dies_in_time)
{
	struct queue *q = declare("wait");
	struct entry entry;

	send_for(q, 7, "5000");
	run_all();
	entry = get_first(q);
	live(1000);
	queue_requeue(q, &entry);
	live(2000);
	ck_assert_uint_eq(queue_message_count(q), 1);
	live(3000);
	ck_assert_uint_eq(queue_message_count(q), 0);
}
END_TEST

/* What came back late goes to the disk before it can die. */
START_TEST(test_one_that_is_late_dies_though_it_goes_to_the_disk)
{
	for (int dead = 0; dead < 2; dead++) {
		struct queue *q;
		struct queue *other;
		struct entry entry;

		if (dead) {
			declare("dead");
			ask_dead_letters_to("dead");
		}
		q = declare(dead ? "wait2" : "wait");
		other = declare(dead ? "other2" : "other");
		send_for(q, 7, "1000");
		run_all();
		entry = get_first(q);
		live(5000);
		queue_requeue(q, &entry);
		for (uint32_t i = 0; q->ready_count > 0; i++) {
			ck_assert_uint_lt(i, 1000);
			send(other, i, 10000);
		}
		ck_assert_uint_eq(queue_message_count(q), 1);
		live(100);
		ck_assert_uint_eq(queue_message_count(q), 0);
	}
	expect_numbers(find("dead"), 7, 1);
}
END_TEST

/* ---- what else happens meanwhile ---- */

START_TEST(test_purge_and_deletion_while_they_are_read)
{
	for (int how = 0; how < 2; how++) {
		struct queue *q;

		if (how == 0)
			declare("dead");
		ask_dead_letters_to("dead");
		q = declare("wait");
		send_long(q, "60000");
		while (broker->dying_reads == 0) {
			step_store();
			pass_time(10);
		}
		if (how == 0)
			queue_purge(q);
		else
			queue_delete(q);
		ck_assert_uint_eq(broker->dying_count, 0);
		ck_assert_uint_eq(broker->dying_reads, 0);
		live(1000);
		ck_assert_uint_eq(queue_message_count(find("dead")), 0);
		if (how == 0)
			queue_delete(q);
		run_all();
	}
}
END_TEST

/* A consumer gets what is left, and what comes then. */
START_TEST(test_a_consumer_waits_for_none_that_is_gone)
{
	struct queue *q = declare("wait");
	uint32_t i;

	for (i = 0; i < LONG; i++)
		send_for(q, i, i < LONG - 1 ? "60000" : "600000");
	live(70000);
	ck_assert_uint_eq(queue_message_count(q), 1);
	expect_numbers(q, LONG - 1, 1);
	ck_assert(!(q->flags & QUEUE_COLD));
	send(q, 5, 10);
	expect_numbers(q, 5, 1);
	live(1000);
}
END_TEST

/* Those without a record stand between them. */
START_TEST(test_transient_ones_come_when_those_before_are_gone)
{
	struct queue *q = declare("wait");
	struct queue *queues[] = {q};
	struct route route = {.queues = queues, .count = 1, .room = 1};
	struct message *m = make_message(5, 10, false);

	send_long(q, "60000");
	queue_publish(broker, &route, m);
	message_unref(m);
	ck_assert_uint_eq(q->ready_count, 0);
	live(60000);
	ck_assert_uint_eq(q->ready_count, 1);
	expect_numbers(q, 5, 1);
}
END_TEST

/* ---- the queue's own limit ---- */

START_TEST(test_one_message_tells_when_a_recovered_queue_is_due)
{
	uint64_t before;

	ask("x-message-ttl", 60000);
	send_long(declare("work"), "3600000");
	for (int clean = 0; clean < 2; clean++) {
		restart(clean);
		before = reads;
		live(1000);
		ck_assert_uint_le(reads - before, 2);
		ck_assert_uint_le(find("work")->ready_count, 1);
	}
	live(35000);
	ck_assert_uint_eq(queue_message_count(find("work")), LONG);
	live(5000);
	ck_assert_uint_eq(queue_message_count(find("work")), 0);
}
END_TEST

/* ---- anything at once ---- */

#define MESSAGES 3000

/* Takes one and settles it, or puts it back; its number, when it is gone. */
static uint32_t
take_some(struct queue *q, uint64_t random)
{
	struct entry entry;

	while (!queue_may_deliver(q))
		step_store();
	queue_hand_out(q);
	if (queue_must_read(q))
		queue_refill(q);
	if (!queue_get(q, false, &entry))
		return UINT32_MAX;
	if (random % 3 == 0) {
		queue_requeue(q, &entry);
		return UINT32_MAX;
	}
	/* each message's number is its place in the queue, less one */
	queue_ack(q, &entry);
	return (uint32_t)entry_qseq(&entry) - 1;
}

START_TEST(test_every_message_dies_once_or_is_taken)
{
	static bool taken[MESSAGES];
	uint64_t seed = (uint64_t)time(NULL);
	uint64_t random = seed;
	uint32_t number;
	struct queue *q;

	memset(taken, 0, sizeof(taken));
	printf("seed %llu\n", (unsigned long long)seed);
	declare("dead");
	ask_dead_letters_to("dead");
	q = declare("wait");
	for (uint32_t i = 0; i < MESSAGES; i++) {
		char expiration[16];

		random = random * 6364136223846793005U + 1442695040888963407U;
		(void)snprintf(expiration, sizeof(expiration), "%u",
			       (unsigned)(random >> 33) % 30000);
		send_for(q, i, expiration);
		if (random >> 60 == 0)
			pass_time(random >> 40 & 1023);
		if ((random >> 52 & 63) == 0)
			live(random >> 40 & 1023);
		if ((random >> 45 & 7) == 0) {
			number = take_some(q, random >> 20);
			if (number != UINT32_MAX)
				taken[number] = true;
		}
		if ((random >> 30 & 255) == 0) {
			run_all();
			restart(random >> 50 & 1);
			q = find("wait");
		}
	}
	live(40000);
	ck_assert_uint_eq(queue_message_count(q), 0);
	while ((number = take_number(find("dead"))) != UINT32_MAX) {
		ck_assert_msg(!taken[number], "%u is there twice", number);
		taken[number] = true;
	}
	for (uint32_t i = 0; i < MESSAGES; i++)
		ck_assert_msg(taken[i], "%u is lost", i);
}
END_TEST

TESTS_WITH("queue_deadlines", cold_set_up, cold_tear_down, test_cold_messages_go_unread,
	   test_deadlines_hold_after_a_restart_though_nobody_reads,
	   test_nothing_expires_before_the_first_turn,
	   test_cold_messages_are_read_for_their_dead_letters,
	   test_dead_letters_of_many_come_in_order, test_more_queues_than_are_read_at_once,
	   test_stored_messages_at_hand_die_in_time, test_none_is_handed_out_late,
	   test_none_that_is_late_is_counted, test_the_first_one_dies_without_the_index,
	   test_unacked_ones_die_when_they_come_back, test_one_that_came_back_in_time_dies_in_time,
	   test_one_that_is_late_dies_though_it_goes_to_the_disk,
	   test_purge_and_deletion_while_they_are_read, test_a_consumer_waits_for_none_that_is_gone,
	   test_transient_ones_come_when_those_before_are_gone,
	   test_one_message_tells_when_a_recovered_queue_is_due,
	   test_every_message_dies_once_or_is_taken)
