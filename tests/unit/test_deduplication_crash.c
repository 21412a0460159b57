/* SPDX-License-Identifier: Apache-2.0 */
/* The key of a stored message is known with the message and never without it, whenever the machine dies. */
#include "stored_keys_fixture.h"

#define POINTS 1200
#define NUMBERS 60

static struct disk_sim *points[POINTS]; // own
static uint64_t stables[POINTS];
static size_t point_count;
static uint64_t lsns[NUMBERS]; // behind which the message and its key are safe

static void
note_point(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	(void)context;
	if (call->over || call->kind >= SIM_OPEN)
		return;
	ck_assert_uint_lt(point_count, POINTS);
	stables[point_count] = stable;
	points[point_count++] = disk_sim_clone(sim);
}

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
check_point(const char *to, const char *queue, size_t at, unsigned how)
{
	static const enum disk_sim_survival ways[] = {SIM_NOTHING, SIM_EVERYTHING, SIM_RANDOM};
	unsigned times[NUMBERS];

	disk = disk_sim_clone(points[at]);
	disk_sim_crash(disk, ways[how], at);
	reopen_all();
	count_messages(find(queue), times);
	for (uint32_t i = 0; i < NUMBERS; i++) {
		bool safe = lsns[i] != 0 && lsns[i] <= stables[at];

		ck_assert_msg(times[i] <= 1, "point %zu: %u is there %u times", at, i, times[i]);
		ck_assert_msg(times[i] == 1 || !safe, "point %zu: %u is lost", at, i);
		ck_assert_msg(publish_number(to, i) == (times[i] == 0),
			      "point %zu: %u is%s there, and %s known", at, i,
			      times[i] == 0 ? " not" : "", times[i] == 0 ? "it is" : "not");
	}
	count_messages(find(queue), times);
	for (uint32_t i = 0; i < NUMBERS; i++)
		ck_assert_uint_eq(times[i], 1);
	close_all(true);
	disk_sim_free(&disk);
}

static void
check_all_points(const char *to, const char *queue)
{
	struct disk_sim *whole = disk;

	run_all();
	disk->hook = NULL;
	ck_assert_uint_gt(point_count, 30);
	close_all(true);
	for (size_t i = 0; i < point_count; i++)
		for (unsigned how = 0; how < 3; how++)
			check_point(to, queue, i, how);
	for (size_t i = 0; i < point_count; i++)
		disk_sim_free(&points[i]);
	printf("deduplication to %s: %zu points, each recovered in three states\n", to,
	       point_count);
	disk = whole;
	reopen_all();
}

/* Restarts are among the steps, so checkpoints are. */
static void
publish_all(const char *to)
{
	memset(lsns, 0, sizeof(lsns));
	point_count = 0;
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
}

START_TEST(test_crashes_of_an_exchange)
{
	declare("q");
	ask_for_it();
	declare_exchange("x", "q");
	publish_all("x");
	check_all_points("x", "q");
}
END_TEST

START_TEST(test_crashes_of_a_queue)
{
	ask_for_it();
	declare("own");
	publish_all("own");
	check_all_points("own", "own");
}
END_TEST

START_TEST(test_crashes_of_a_queue_with_a_cache)
{
	ask_for_it();
	ask("x-cache-size", 1000);
	declare("own");
	publish_all("own");
	check_all_points("own", "own");
}
END_TEST

TESTS_WITH("deduplication_crash", cold_set_up, cold_tear_down, test_crashes_of_an_exchange,
	   test_crashes_of_a_queue, test_crashes_of_a_queue_with_a_cache)
