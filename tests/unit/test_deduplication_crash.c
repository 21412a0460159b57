/* SPDX-License-Identifier: Apache-2.0 */
/* The key of a stored message is known with the message and never without it, whenever the machine dies. */
#include "stored_keys_fixture.h"
#include "unit/crash_points.h"

#define NUMBERS 60

static uint64_t lsns[NUMBERS]; // behind which the message and its key are safe
static const char *to;	       // where they are sent
static const char *queue;      // where they come to

/* How often each message is in the queue; they stay there. */
static void
count_messages(struct queue *q, unsigned times[NUMBERS])
{
	struct entry entries[2 * NUMBERS];
	size_t n = 0;

	memset(times, 0, NUMBERS * sizeof(*times));
	for (; take(q, &entries[n]); n++)
		times[number_of(&entries[n])]++;
	while (n > 0)
		queue_requeue(q, &entries[--n]);
}

/* After a crash there: what was stable is known, and what is known is there. */
static void
check_point(size_t at)
{
	unsigned times[NUMBERS];

	count_messages(find(queue), times);
	for (uint32_t i = 0; i < NUMBERS; i++) {
		bool safe = lsns[i] != 0 && lsns[i] <= points[at].stable;

		ck_assert_msg(times[i] <= 1, "point %zu: %u is there %u times", at, i, times[i]);
		ck_assert_msg(times[i] == 1 || !safe, "point %zu: %u is lost", at, i);
		ck_assert_msg(publish_number(to, i) == (times[i] == 0),
			      "point %zu: %u is%s there, and %s known", at, i,
			      times[i] == 0 ? " not" : "", times[i] == 0 ? "it is" : "not");
	}
	count_messages(find(queue), times);
	for (uint32_t i = 0; i < NUMBERS; i++)
		ck_assert_uint_eq(times[i], 1);
}

/* Restarts are among the steps, so checkpoints are. */
static void
check_crashes(const char *source, const char *target)
{
	to = source;
	queue = target;
	memset(lsns, 0, sizeof(lsns));
	disk->hook = note_point;
	for (uint32_t i = 0; i < NUMBERS; i++) {
		uint64_t lsn;

		ck_assert(publish_with(to, i, true, &lsns[i]));
		if (i % 3 == 0)
			step_store();
		if (i % 4 == 0)
			ck_assert(!publish_with(to, i / 2, true, &lsn));
		if (i % 20 == 19) {
			run_all();
			restart(i % 40 == 19);
			disk->hook = note_point;
		}
	}
	run_all();
	check_points("deduplication", 30, check_point);
}

START_TEST(test_crashes_of_an_exchange)
{
	declare("q");
	ask_for_it();
	declare_exchange("x", "q");
	check_crashes("x", "q");
}
END_TEST

START_TEST(test_crashes_of_a_queue)
{
	ask_for_it();
	declare("own");
	check_crashes("own", "own");
}
END_TEST

START_TEST(test_crashes_of_a_queue_with_a_cache)
{
	ask_for_it();
	ask("x-cache-size", 1000);
	declare("own");
	check_crashes("own", "own");
}
END_TEST

TESTS_WITH("deduplication_crash", cold_set_up, cold_tear_down, test_crashes_of_an_exchange,
	   test_crashes_of_a_queue, test_crashes_of_a_queue_with_a_cache)
