/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is merged follows from sizes alone: directed cases, and random sizes for what must always hold.
 */
#include "store/merge.h"

#include "lib/runner.h"

#define LIMIT 1000
#define FULL(octets_, live_)                                           \
	(struct merge_size)                                            \
	{                                                              \
		.octets = (octets_), .live = (live_), .eligible = true \
	}
#define BUSY(octets_, live_)                         \
	(struct merge_size)                          \
	{                                            \
		.octets = (octets_), .live = (live_) \
	}

static size_t left;

#define PLAN(...)                                                                                \
	merge_plan((const struct merge_size[]){__VA_ARGS__},                                     \
		   sizeof((const struct merge_size[]){__VA_ARGS__}) / sizeof(struct merge_size), \
		   LIMIT, &left)
#define IS_DUE(percent, files, ...)                                                                \
	merge_is_due((const struct merge_size[]){__VA_ARGS__},                                     \
		     sizeof((const struct merge_size[]){__VA_ARGS__}) / sizeof(struct merge_size), \
		     percent, files)

/* ---- whether ---- */

START_TEST(test_half_garbage_in_three_files_is_due)
{
	ck_assert(IS_DUE(50, 3, FULL(1000, 500), FULL(1000, 500), FULL(1000, 500)));
	ck_assert(IS_DUE(50, 3, FULL(1000, 1000), FULL(1000, 500), FULL(1000, 0)));
	ck_assert(!IS_DUE(50, 3, FULL(1000, 500), FULL(1000, 501), FULL(1000, 500)));
	/* it is the sum that counts, whatever may be merged of it */
	ck_assert(IS_DUE(50, 3, BUSY(1000, 0), BUSY(10, 10), FULL(10, 10)));
}
END_TEST

START_TEST(test_fewer_files_than_the_least_are_left)
{
	ck_assert(!IS_DUE(50, 3, FULL(1000, 0), FULL(1000, 0)));
	ck_assert(IS_DUE(50, 2, FULL(1000, 0), FULL(1000, 0)));
	ck_assert(!IS_DUE(50, 5, FULL(9, 0), FULL(9, 0), FULL(9, 0), FULL(9, 0)));
	ck_assert(!merge_is_due(NULL, 0, 50, 0));
}
END_TEST

START_TEST(test_the_percentage_is_an_option)
{
	ck_assert(IS_DUE(10, 1, FULL(1000, 900)));
	ck_assert(!IS_DUE(11, 1, FULL(1000, 900)));
	ck_assert(IS_DUE(99, 1, FULL(1000, 10)));
	ck_assert(!IS_DUE(99, 1, FULL(1000, 11)));
}
END_TEST

START_TEST(test_what_is_all_live_is_never_due)
{
	ck_assert(!IS_DUE(1, 1, FULL(1000, 1000), FULL(1000, 1000)));
	ck_assert(!IS_DUE(1, 1, FULL(0, 0), FULL(0, 0)));
	/* estimates may be a little too high */
	ck_assert(!IS_DUE(1, 1, FULL(1000, 1001), FULL(0, 7)));
}
END_TEST

START_TEST(test_terabytes_do_not_overflow)
{
	uint64_t huge = 1ULL << 56;

	ck_assert(IS_DUE(50, 2, FULL(huge, huge / 2), FULL(huge, huge / 2)));
	ck_assert(!IS_DUE(50, 2, FULL(huge, huge / 2 + 1), FULL(huge, huge / 2)));
}
END_TEST

/* ---- what ---- */

START_TEST(test_the_pair_that_gives_most_is_merged)
{
	ck_assert_int_eq(PLAN(FULL(900, 300), FULL(900, 400), FULL(900, 200), FULL(900, 500)),
			 MERGE_PAIR);
	ck_assert_uint_eq(left, 1);
	ck_assert_int_eq(PLAN(FULL(900, 900), FULL(900, 600), FULL(900, 100)), MERGE_PAIR);
	ck_assert_uint_eq(left, 1);
}
END_TEST

START_TEST(test_of_equal_pairs_the_left_one_is_first)
{
	ck_assert_int_eq(PLAN(FULL(900, 300), FULL(900, 300), FULL(900, 300)), MERGE_PAIR);
	ck_assert_uint_eq(left, 0);
	ck_assert_int_eq(PLAN(BUSY(900, 300), FULL(900, 300), FULL(900, 300), FULL(900, 300)),
			 MERGE_PAIR);
	ck_assert_uint_eq(left, 1);
}
END_TEST

START_TEST(test_a_pair_must_fit_into_one_file)
{
	ck_assert_int_eq(PLAN(FULL(1000, 500), FULL(1000, 500)), MERGE_PAIR);
	/* the one that gives more does not fit */
	ck_assert_int_eq(PLAN(FULL(2000, 501), FULL(2000, 500), FULL(2000, 900), FULL(1000, 100)),
			 MERGE_PAIR);
	ck_assert_uint_eq(left, 2);
}
END_TEST

START_TEST(test_only_neighbours_are_merged)
{
	/* the file between them is written to, or not old enough */
	ck_assert_int_eq(PLAN(FULL(900, 100), BUSY(900, 0), FULL(900, 100)), MERGE_ALONE);
	ck_assert_uint_eq(left, 0);
}
END_TEST

START_TEST(test_where_no_neighbours_fit_the_worst_file_is_alone)
{
	ck_assert_int_eq(PLAN(FULL(1000, 600), FULL(1000, 550), FULL(1000, 560)), MERGE_ALONE);
	ck_assert_uint_eq(left, 1);
	/* one of a batch that was larger than a file */
	ck_assert_int_eq(PLAN(FULL(1000, 990), FULL(90000, 40000), FULL(1000, 990)), MERGE_ALONE);
	ck_assert_uint_eq(left, 1);
	ck_assert_int_eq(PLAN(FULL(1000, 600)), MERGE_ALONE);
	ck_assert_uint_eq(left, 0);
}
END_TEST

START_TEST(test_a_file_is_alone_only_when_it_is_worth_it)
{
	ck_assert_int_eq(PLAN(FULL(1000, 750)), MERGE_ALONE);
	ck_assert_int_eq(PLAN(FULL(1000, 751)), MERGE_NOTHING);
	/* the largest sum of garbage is not worth it, another file's is */
	ck_assert_int_eq(PLAN(FULL(9000, 7000), BUSY(9, 9), FULL(1000, 600)), MERGE_ALONE);
	ck_assert_uint_eq(left, 2);
}
END_TEST

START_TEST(test_a_pair_is_merged_only_when_it_is_worth_it)
{
	/* two half files without garbage: to copy them gives nothing */
	ck_assert_int_eq(PLAN(FULL(400, 399), FULL(400, 400), FULL(1000, 800)), MERGE_NOTHING);
	ck_assert_int_eq(PLAN(FULL(400, 399), FULL(400, 400), BUSY(9, 9), FULL(1000, 500)),
			 MERGE_ALONE);
	ck_assert_uint_eq(left, 3);
	ck_assert_int_eq(PLAN(FULL(400, 200), FULL(400, 400)), MERGE_PAIR);
}
END_TEST

START_TEST(test_nothing_is_merged_where_nothing_may_be)
{
	ck_assert_int_eq(PLAN(BUSY(1000, 0), BUSY(1000, 0), BUSY(1000, 0)), MERGE_NOTHING);
	ck_assert_int_eq(PLAN(FULL(1000, 1000), BUSY(1000, 0)), MERGE_NOTHING);
	ck_assert_int_eq(PLAN(FULL(1000, 1000), FULL(1000, 1000)), MERGE_NOTHING);
	ck_assert_int_eq(PLAN(FULL(0, 0), FULL(0, 0)), MERGE_NOTHING);
	ck_assert_int_eq(merge_plan(NULL, 0, LIMIT, &left), MERGE_NOTHING);
}
END_TEST

START_TEST(test_files_without_anything_live_are_merged)
{
	ck_assert_int_eq(PLAN(FULL(1000, 0), FULL(1000, 0)), MERGE_PAIR);
	ck_assert_int_eq(PLAN(FULL(1000, 0)), MERGE_ALONE);
}
END_TEST

/* ---- whatever the sizes are ---- */

static uint64_t state;

static uint64_t
random_below(uint64_t n)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) % n;
}

static uint64_t
dead(const struct merge_size *size)
{
	return size->octets < size->live ? 0 : size->octets - size->live;
}

/* What was chosen may be merged, fits, is worth it, and nothing of its kind gives more. */
static void
check_choice(const struct merge_size *sizes, size_t count, enum merge_choice choice)
{
	bool pair = choice == MERGE_PAIR;
	uint64_t gain = dead(&sizes[left]) + (pair ? dead(&sizes[left + 1]) : 0);
	uint64_t octets = sizes[left].octets + (pair ? sizes[left + 1].octets : 0);

	ck_assert_uint_lt(left + pair, count);
	ck_assert(sizes[left].eligible);
	ck_assert(gain > 0 && gain >= octets / 4);
	if (pair) {
		ck_assert(sizes[left + 1].eligible);
		ck_assert_uint_le(sizes[left].live + sizes[left + 1].live, LIMIT);
	}
	for (size_t i = 0; i + pair < count; i++) {
		uint64_t other = dead(&sizes[i]) + (pair ? dead(&sizes[i + 1]) : 0);
		uint64_t live = sizes[i].live + (pair ? sizes[i + 1].live : 0);

		octets = sizes[i].octets + (pair ? sizes[i + 1].octets : 0);
		if (sizes[i].eligible && (!pair || (sizes[i + 1].eligible && live <= LIMIT)) &&
		    other >= octets / 4)
			ck_assert_uint_le(other, gain);
	}
}

START_TEST(test_random_sizes_are_merged_well)
{
	unsigned chosen[3] = {0};

	state = 20260401;
	for (unsigned run = 0; run < 200000; run++) {
		struct merge_size sizes[8];
		size_t count = random_below(9);
		uint64_t room = 1 + random_below(2000);
		enum merge_choice choice;

		for (size_t i = 0; i < count; i++)
			sizes[i] = (struct merge_size){
				.octets = random_below(room),
				.eligible = random_below(5) > 0,
			};
		for (size_t i = 0; i < count; i++)
			sizes[i].live = random_below(sizes[i].octets + 1);
		choice = merge_plan(sizes, count, LIMIT, &left);
		chosen[choice]++;
		if (choice != MERGE_NOTHING)
			check_choice(sizes, count, choice);
	}
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_gt(chosen[i], 1000);
}
END_TEST

/* Does what is planned until there is nothing to do. */
static unsigned
merge_all(struct merge_size *sizes, size_t *count)
{
	unsigned merges = 0;
	enum merge_choice choice;

	while (merge_is_due(sizes, *count, 50, 1) &&
	       (choice = merge_plan(sizes, *count, LIMIT, &left)) != MERGE_NOTHING) {
		if (choice == MERGE_PAIR) {
			sizes[left].live += sizes[left + 1].live;
			--*count;
			memmove(sizes + left + 1, sizes + left + 2,
				(*count - left - 1) * sizeof(*sizes));
		}
		sizes[left].octets = sizes[left].live;
		merges++;
		ck_assert_uint_lt(merges, 1000);
	}
	return merges;
}

START_TEST(test_merging_ends_and_leaves_less_garbage_than_half)
{
	state = 5;
	for (unsigned run = 0; run < 20000; run++) {
		struct merge_size sizes[40];
		size_t count = 1 + random_below(40);
		uint64_t octets = 0;
		uint64_t garbage = 0;

		for (size_t i = 0; i < count; i++)
			sizes[i] = FULL(LIMIT, random_below(LIMIT + 1));
		merge_all(sizes, &count);
		for (size_t i = 0; i < count; i++) {
			octets += sizes[i].octets;
			garbage += dead(&sizes[i]);
		}
		ck_assert(garbage * 2 < octets || garbage == 0);
	}
}
END_TEST

TESTS("merge_plan", test_half_garbage_in_three_files_is_due,
      test_fewer_files_than_the_least_are_left, test_the_percentage_is_an_option,
      test_what_is_all_live_is_never_due, test_terabytes_do_not_overflow,
      test_the_pair_that_gives_most_is_merged, test_of_equal_pairs_the_left_one_is_first,
      test_a_pair_must_fit_into_one_file, test_only_neighbours_are_merged,
      test_where_no_neighbours_fit_the_worst_file_is_alone,
      test_a_file_is_alone_only_when_it_is_worth_it, test_a_pair_is_merged_only_when_it_is_worth_it,
      test_nothing_is_merged_where_nothing_may_be, test_files_without_anything_live_are_merged,
      test_random_sizes_are_merged_well, test_merging_ends_and_leaves_less_garbage_than_half)
