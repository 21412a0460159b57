/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often stored messages came back is known after they were given up to the disk and after any stop; a crash
 * neither forgets a return that was stable nor counts one that was not.
 */
#include "unit/stored_fixture.h"

#include "store/qseq_counts.h"

#define LONG (3 * QUEUE_WINDOW_COUNT)
#define LIMIT 5

/* A queue whose messages may come back so often; then they are dead letters in "dead". */
static struct queue *
declare_limited(const char *name)
{
	ask("x-delivery-limit", LIMIT);
	ask_dead_letters_to("dead");
	return declare(name);
}

/* The first message comes back so many times. */
static void
fail_first(struct queue *q, unsigned times)
{
	struct entry entry;

	for (; times > 0; times--) {
		ck_assert(take(q, &entry));
		queue_requeue(q, &entry);
	}
}

/* How often each message of the queue came back, in order, as digits; they are settled. */
static const char *
counts_of(struct queue *q)
{
	static char text[LONG + 1];
	struct entry entry;
	size_t n = 0;

	while (take(q, &entry)) {
		uint32_t returns = entry_returns(&entry);

		ck_assert_uint_lt(n, LONG);
		ck_assert(returns == 0 || (entry.bits & ENTRY_REDELIVERED));
		text[n++] = (char)('0' + returns);
		queue_ack(q, &entry);
	}
	text[n] = '\0';
	return text;
}

/* As many messages as there are digits, each of which came back so often. */
static struct queue *
make_with_counts(const char *name, const char *counts)
{
	struct queue *q = declare_limited(name);
	size_t n = strlen(counts);
	struct entry *entries = xmalloc(n * sizeof(*entries));

	for (size_t i = 0; i < n; i++)
		send(q, (uint32_t)i, true);
	for (char round = '1'; round < '9'; round++) {
		for (size_t i = 0; i < n; i++)
			ck_assert(take(q, &entries[i]));
		for (size_t i = n; i > 0; i--)
			if (counts[i - 1] >= round) {
				queue_requeue(q, &entries[i - 1]);
			} else {
				/* as it was */
				q->unacked_count--;
				window_requeue(q, entries[i - 1]);
			}
	}
	xfree(entries);
	run_all();
	return q;
}

START_TEST(test_counts_hold_over_restarts)
{
	static const bool stops[][2] = {{true, true}, {false, false}, {true, false}, {false, true}};
	char name[8];

	declare("dead");
	for (size_t i = 0; i < countof(stops); i++) {
		(void)snprintf(name, sizeof(name), "w%zu", i);
		make_with_counts(name, "0150210");
		restart(stops[i][0]);
		restart(stops[i][1]);
		ck_assert_str_eq(counts_of(find(name)), "0150210");
		run_all();
		restart(stops[i][0]);
		ck_assert_ptr_null(find(name)->log->returns);
	}
}
END_TEST

START_TEST(test_the_limit_counts_what_was_before_the_restart)
{
	struct entry entry;

	declare("dead");
	make_with_counts("work", "5");
	restart(false);
	fail_first(find("work"), 1);
	run_all();
	ck_assert_uint_eq(queue_message_count(find("work")), 0);
	ck_assert_ptr_null(find("work")->log->returns);
	ck_assert(take(find("dead"), &entry));
	/* it begins anew there */
	ck_assert_uint_eq(entry_returns(&entry), 0);
	queue_ack(find("dead"), &entry);
}
END_TEST

/* A queue that nobody takes from gives up what it has at hand, what came back too. */
START_TEST(test_counts_of_messages_that_went_to_the_disk)
{
	struct queue *q;

	declare("dead");
	q = make_with_counts("work", "03100");
	ck_assert_uint_eq(q->ready_count, 5);
	for (unsigned i = 0; i < 100; i++) {
		pass_time(100);
		run_all();
	}
	ck_assert_uint_eq(q->ready_count, 0);
	ck_assert_uint_eq(queue_message_count(q), 5);
	/* what has no record stays where it is, with its count */
	send(q, 5, false);
	ck_assert_str_eq(counts_of(q), "031000");
}
END_TEST

START_TEST(test_counts_of_a_long_queue)
{
	static char expected[LONG + 1];
	struct queue *q = declare_limited("work");
	const char *found;

	for (uint32_t i = 0; i < LONG; i++)
		send(q, i, true);
	run_all();
	memset(expected, '0', LONG);
	expected[0] = '2';
	fail_first(q, 2);
	run_all();
	restart(false);
	found = counts_of(find("work"));
	ck_assert_uint_eq(strlen(found), LONG);
	ck_assert_mem_eq(found, expected, LONG);
}
END_TEST

/* Counts go with the messages, by whatever way. */
START_TEST(test_counts_go_with_their_messages)
{
	struct queue *q;

	declare("dead");
	q = make_with_counts("purged", "111");
	ck_assert_uint_eq(q->log->returns->used, 3);
	queue_purge(q);
	ck_assert_ptr_null(q->log->returns);
	make_with_counts("cold", "1111");
	restart(true);
	q = find("cold");
	ck_assert_uint_eq(q->log->returns->used, 4);
	queue_purge(q);
	ck_assert_ptr_null(q->log->returns);
	queue_delete(make_with_counts("deleted", "22"));
	run_all();
	restart(false);
	ck_assert_str_eq(counts_of(find("purged")), "");
	ck_assert_str_eq(counts_of(find("cold")), "");
}
END_TEST

/* Where nobody counts, nothing is written. */
START_TEST(test_queues_that_do_not_count_pay_nothing)
{
	struct queue *q = declare("plain");
	uint64_t next;

	send(q, 1, true);
	fail_first(q, 1);
	run_all();
	next = store_stable(store);
	fail_first(q, 3);
	run_all();
	ck_assert_uint_eq(store_stable(store), next);
	ck_assert_ptr_null(q->log->returns);
	q = declare_limited("counts");
	send(q, 1, false);
	fail_first(q, 3);
	ck_assert_ptr_null(q->log->returns);
	ck_assert_str_eq(counts_of(q), "3");
}
END_TEST

/* Dies in the middle of returns: each message came back as often as was stable, or once more for each that was on
 * its way. */
START_TEST(test_no_stable_return_is_forgotten)
{
	struct queue *q;
	unsigned safe;

	declare("dead");
	for (unsigned steps = 0; steps < 6; steps++) {
		q = declare_limited(steps % 2 == 0 ? "even" : "odd");
		send(q, 1, true);
		fail_first(q, 2);
		run_all();
		fail_first(q, 2);
		for (unsigned i = 0; i < steps; i++)
			step_store();
		safe = stable >= broker->effect_lsn ? 4 : 2;
		restart(false);
		q = find(steps % 2 == 0 ? "even" : "odd");
		ck_assert_uint_ge(store_returns(q->log, q->log->next_qseq - 1), safe);
		ck_assert_uint_le(store_returns(q->log, q->log->next_qseq - 1), 4);
		queue_delete(q);
		run_all();
	}
}
END_TEST

TESTS_WITH("delivery_limit_stored", cold_set_up, cold_tear_down, test_counts_hold_over_restarts,
	   test_the_limit_counts_what_was_before_the_restart,
	   test_counts_of_messages_that_went_to_the_disk, test_counts_of_a_long_queue,
	   test_counts_go_with_their_messages, test_queues_that_do_not_count_pay_nothing,
	   test_no_stable_return_is_forgotten)
