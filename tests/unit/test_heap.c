/* SPDX-License-Identifier: Apache-2.0 */
/* The deadlines: order, moving, clearing, and what run may do to others and to itself. */
#include "util/heap.h"

#include "util/mem.h"

#include "lib/runner.h"

#define MANY 500

struct timer {
	struct deadline deadline; // under test
	int id;			  // its bit or number
	struct timer *victim;	  // what run clears or moves, where the test says so
	uint64_t set_to_ms;	  // what run sets it to
};

static struct deadlines deadlines;
static int ran[MANY];
static size_t ran_count;

static void
set_up(void)
{
	ran_count = 0;
	deadlines_init(&deadlines);
}

static void
tear_down(void)
{
	deadlines_fini(&deadlines);
}

static struct timer *
timer_of(struct deadline *deadline)
{
	return container_of(deadline, struct timer, deadline);
}

static void
note(struct deadline *deadline, uint64_t now_ms)
{
	ck_assert(!deadline_is_set(deadline));
	ck_assert_uint_le(deadline->at_ms, now_ms);
	ran[ran_count++] = timer_of(deadline)->id;
}

static void
note_and_set_victim(struct deadline *deadline, uint64_t now_ms)
{
	struct timer *timer = timer_of(deadline);

	note(deadline, now_ms);
	deadline_set(&deadlines, &timer->victim->deadline, timer->set_to_ms);
}

static void
note_and_clear_victim(struct deadline *deadline, uint64_t now_ms)
{
	note(deadline, now_ms);
	deadline_clear(&deadlines, &timer_of(deadline)->victim->deadline);
}

static void
free_itself(struct deadline *deadline, uint64_t now_ms)
{
	note(deadline, now_ms);
	xfree(timer_of(deadline));
}

/* The heap is in order and every member knows its place. */
static void
check_heap(void)
{
	for (size_t i = 0; i < deadlines.count; i++) {
		ck_assert_uint_eq(deadlines.items[i]->index, i + 1);
		if (i > 0)
			ck_assert_uint_le(deadlines.items[(i - 1) / 2]->at_ms,
					  deadlines.items[i]->at_ms);
	}
}

START_TEST(test_none_set)
{
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
	deadlines_run(&deadlines, UINT64_MAX);
	ck_assert_uint_eq(ran_count, 0);
}
END_TEST

START_TEST(test_due_ones_run_earliest_first)
{
	struct timer timers[3] = {
		{{.run = note}, .id = 0}, {{.run = note}, .id = 1}, {{.run = note}, .id = 2}};

	deadline_set(&deadlines, &timers[0].deadline, 30);
	deadline_set(&deadlines, &timers[1].deadline, 10);
	deadline_set(&deadlines, &timers[2].deadline, 20);
	ck_assert_uint_eq(deadlines_next(&deadlines), 10);
	deadlines_run(&deadlines, 9);
	ck_assert_uint_eq(ran_count, 0);
	deadlines_run(&deadlines, 20);
	ck_assert_uint_eq(ran_count, 2);
	ck_assert_int_eq(ran[0], 1);
	ck_assert_int_eq(ran[1], 2);
	ck_assert_uint_eq(deadlines_next(&deadlines), 30);
	ck_assert(deadline_is_set(&timers[0].deadline));
	deadline_clear(&deadlines, &timers[0].deadline);
	deadline_clear(&deadlines, &timers[0].deadline);
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
}
END_TEST

START_TEST(test_random_sets_moves_and_clears_keep_order)
{
	static struct timer timers[MANY];
	uint32_t random = 12345;

	for (int i = 0; i < MANY; i++)
		timers[i] = (struct timer){.deadline.run = note, .id = i};
	for (int step = 0; step < 20000; step++) {
		random = random * 1664525 + 1013904223;
		struct deadline *deadline = &timers[(random >> 8) % MANY].deadline;

		if (random >> 30 == 0)
			deadline_clear(&deadlines, deadline);
		else
			deadline_set(&deadlines, deadline, (random >> 16) % 1000);
		if (step % 100 == 0)
			check_heap();
	}
	check_heap();
	size_t count = deadlines.count;
	deadlines_run(&deadlines, 1000);
	ck_assert_uint_eq(ran_count, count);
	for (size_t i = 1; i < ran_count; i++)
		ck_assert_uint_le(timers[ran[i - 1]].deadline.at_ms, timers[ran[i]].deadline.at_ms);
}
END_TEST

START_TEST(test_one_that_sets_itself_due_waits_for_next_call)
{
	struct timer timer = {.deadline.run = note_and_set_victim, .set_to_ms = 5};

	timer.victim = &timer;
	deadline_set(&deadlines, &timer.deadline, 5);
	for (size_t calls = 1; calls <= 3; calls++) {
		deadlines_run(&deadlines, 10);
		ck_assert_uint_eq(ran_count, calls);
		ck_assert(deadline_is_set(&timer.deadline));
		ck_assert_uint_eq(deadlines_next(&deadlines), 5);
		check_heap();
	}
}
END_TEST

START_TEST(test_one_set_ahead_by_run_is_kept)
{
	struct timer timer = {.deadline.run = note_and_set_victim, .set_to_ms = 15};

	timer.victim = &timer;
	deadline_set(&deadlines, &timer.deadline, 5);
	deadlines_run(&deadlines, 10);
	ck_assert_uint_eq(deadlines_next(&deadlines), 15);
	deadlines_run(&deadlines, 14);
	ck_assert_uint_eq(ran_count, 1);
}
END_TEST

START_TEST(test_run_may_clear_one_that_is_due)
{
	struct timer second = {.deadline.run = note, .id = 2};
	struct timer first = {.deadline.run = note_and_clear_victim, .id = 1, .victim = &second};

	deadline_set(&deadlines, &first.deadline, 1);
	deadline_set(&deadlines, &second.deadline, 2);
	deadlines_run(&deadlines, 10);
	ck_assert_uint_eq(ran_count, 1);
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
}
END_TEST

START_TEST(test_run_may_clear_or_move_one_that_waits)
{
	struct timer other = {.deadline.run = note, .id = 9};
	struct timer third = {.deadline.run = note, .id = 8};
	struct timer set = {.deadline.run = note_and_set_victim, .victim = &other, .set_to_ms = 3};
	struct timer set_too = {.deadline.run = note_and_set_victim, .victim = &third};
	struct timer clear = {.deadline.run = note_and_clear_victim, .victim = &other};
	struct timer move = {
		.deadline.run = note_and_set_victim, .victim = &third, .set_to_ms = 50};

	deadline_set(&deadlines, &set.deadline, 1);	/* other waits */
	deadline_set(&deadlines, &set_too.deadline, 2); /* third waits */
	deadline_set(&deadlines, &clear.deadline, 3);	/* other is off again */
	deadline_set(&deadlines, &move.deadline, 4);	/* third is for later */
	deadlines_run(&deadlines, 10);
	ck_assert_uint_eq(ran_count, 4);
	ck_assert(!deadline_is_set(&other.deadline));
	ck_assert_uint_eq(deadlines_next(&deadlines), 50);
	check_heap();
	deadlines_run(&deadlines, 50);
	ck_assert_uint_eq(ran_count, 5);
	ck_assert_int_eq(ran[4], 8);
}
END_TEST

START_TEST(test_run_may_free_its_own)
{
	struct timer *timer = xcalloc(1, sizeof(*timer));

	timer->deadline.run = free_itself;
	deadline_set(&deadlines, &timer->deadline, 1);
	deadlines_run(&deadlines, 1);
	ck_assert_uint_eq(ran_count, 1);
}
END_TEST

TESTS_WITH("heap", set_up, tear_down, test_none_set, test_due_ones_run_earliest_first,
	   test_random_sets_moves_and_clears_keep_order,
	   test_one_that_sets_itself_due_waits_for_next_call, test_one_set_ahead_by_run_is_kept,
	   test_run_may_clear_one_that_is_due, test_run_may_clear_or_move_one_that_waits,
	   test_run_may_free_its_own)
