/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settled numbers of a queue, compared with an array of flags after random steps. The flags cover a
 * window of a few spans, at the lowest numbers or at the highest that there are.
 */
#include "store/qseq_set.h"

#include "qseq_fixture.h"

#define WINDOW (5 * SPAN + 1000)
#define EMPTY_MAX 64 // octets that an empty set may keep

struct model {
	struct qseq_set set;  // under test
	uint64_t base;	      // number of the first flag; all below are settled
	bool settled[WINDOW]; // of base and up
};

static struct model model;

static void
set_up(void)
{
	qseq_set_init(&model.set);
}

static void
tear_down(void)
{
	qseq_set_fini(&model.set);
}

static void
start_at(uint64_t base)
{
	qseq_set_fini(&model.set);
	memset(model.settled, 0, sizeof(model.settled));
	model.base = base;
	qseq_set_raise(&model.set, base);
}

/* Adds one that is new. An assertion of Check writes to a pipe, which is too slow for millions. */
static void
add_new(uint64_t qseq)
{
	if (qseq_set_add(&model.set, qseq, 1) != 1)
		ck_abort_msg("number %llu was not new", (unsigned long long)qseq);
}

/* ---- the model's answers ---- */

static uint64_t
model_floor(void)
{
	uint64_t at = 0;

	while (at < WINDOW && model.settled[at])
		at++;
	return model.base + at;
}

static uint64_t
model_count(uint64_t from, uint64_t end)
{
	uint64_t count = 0;

	for (uint64_t at = from; at < end; at++)
		count += model.settled[at];
	return count;
}

/* ---- steps; places are relative to the base ---- */

static void
add(uint64_t at, uint64_t count)
{
	uint64_t fresh;

	if (at >= WINDOW || count == 0)
		return;
	count = min_u64(count, WINDOW - at);
	fresh = count - model_count(at, at + count);
	memset(model.settled + at, true, count);
	if (qseq_set_add(&model.set, model.base + at, count) != fresh)
		ck_abort_msg("not %llu of %llu were new at %llu", (unsigned long long)fresh,
			     (unsigned long long)count, (unsigned long long)at);
}

static void
raise_to(uint64_t at)
{
	memset(model.settled, true, at);
	qseq_set_raise(&model.set, model.base + at);
}

static void
step_in_order(void)
{
	for (uint64_t n = pick(3000); n > 0; n--)
		add(model_floor() - model.base, 1 + pick(2));
}

static void
step_every_second(void)
{
	uint64_t start = pick(WINDOW), step = 2 + pick(2), count = pick(80000);

	for (uint64_t n = 0; n < count; n++)
		add(start + n * step, 1);
}

static void
step_downward(void)
{
	uint64_t start = pick(WINDOW), step = 1 + pick(3);

	for (uint64_t n = 0; n < 5000 && n * step <= start; n++)
		add(start - n * step, 1);
}

static void
step_scattered(void)
{
	uint64_t start = pick(WINDOW), width = 1 + pick(WINDOW - start);

	for (uint64_t n = pick(3000); n > 0; n--)
		add(start + pick(width), 1);
}

static void
step_ranges(void)
{
	uint64_t longest = 1ULL << pick(10);

	for (uint64_t n = pick(300); n > 0; n--)
		add(pick(WINDOW), 1 + pick(longest));
}

static void
step_across_borders(void)
{
	uint64_t border = (1 + pick(4)) * SPAN - model.base % SPAN;

	if (pick(2) == 0) {
		add(border - pick(10), 1 + pick(20));
	} else {
		uint64_t at = border - pick(20);
		add(at, 1 + pick(2) * SPAN + pick(40));
	}
}

static void
step_whole_spans(void)
{
	add((pick(5) + 1) * SPAN - model.base % SPAN, (1 + pick(2)) * SPAN);
}

static void
step_near_floor(void)
{
	uint64_t width = 1 + pick(1200);

	for (uint64_t n = pick(2000); n > 0; n--)
		add(pick(4) == 0 ? model_floor() - model.base
				 : model_floor() - model.base + pick(width),
		    1);
}

static void
step_raise(void)
{
	uint64_t at = model_floor() - model.base;

	raise_to(at + pick(min_u64(WINDOW - at, pick(2) == 0 ? 50 : SPAN) + 1));
}

static void
step(void)
{
	static void (*const steps[])(void) = {
		step_in_order,	  step_every_second, step_downward,
		step_scattered,	  step_ranges,	     step_across_borders,
		step_whole_spans, step_near_floor,   step_raise};

	steps[pick(countof(steps))]();
}

/* ---- comparison ---- */

static void
compare_counts_and_gaps(void)
{
	for (int i = 0; i < 20; i++) {
		uint64_t from = pick(WINDOW), n = pick(WINDOW + 1 - from), open = from;
		uint64_t below = pick(min_u64(model.base, 100));

		ck_assert_uint_eq(qseq_set_count(&model.set, model.base + from, n),
				  model_count(from, from + n));
		ck_assert_uint_eq(qseq_set_count(&model.set, model.base - below, below + n),
				  below + model_count(0, n));
		while (open < WINDOW && model.settled[open])
			open++;
		ck_assert_uint_eq(qseq_set_next_open(&model.set, model.base + from),
				  model.base + open);
	}
}

/* That set has in [first, last] what the model has, and all below the floor, and else nothing. */
static void
compare_flags(const struct qseq_set *set, uint64_t first, uint64_t last)
{
	uint64_t count = 0, floor = model_floor() - model.base;

	qseq_set_check(set);
	ck_assert_uint_eq(set->floor, model.base + floor);
	for (uint64_t at = 0; at < WINDOW; at++) {
		bool settled = model.settled[at] && (at < floor || (at >= first && at <= last));

		if (qseq_set_has(set, model.base + at) != settled)
			ck_abort_msg("number %llu differs", (unsigned long long)at);
		count += settled && at > floor;
	}
	ck_assert_uint_eq(set->settled, count);
}

static void
encode(const struct qseq_set *set, struct buf *out)
{
	buf_init(out, 0);
	qseq_set_encode(set, out);
	ck_assert_uint_eq(out->n % 8, 0);
}

static void
compare_copies(void)
{
	struct qseq_set copy, again;
	uint64_t first = pick(WINDOW), last = first + pick(WINDOW - first);
	struct buf octets, of_copy;
	struct bytes in;

	qseq_set_copy_range(&copy, &model.set, model.base + first, model.base + last);
	compare_flags(&copy, first, last);
	qseq_set_fini(&copy);
	qseq_set_copy_range(&copy, &model.set, 0, UINT64_MAX);
	encode(&model.set, &octets);
	encode(&copy, &of_copy);
	ck_assert(bytes_equal(buf_bytes(&octets), buf_bytes(&of_copy)));
	qseq_set_fini(&copy);
	buf_fini(&of_copy);

	buf_add_str(&octets, "more");
	in = buf_bytes(&octets);
	ck_assert_int_eq(qseq_set_decode(&again, &in), 0);
	ck_assert(bytes_equal(in, BYTES("more")));
	compare_flags(&again, 0, WINDOW);
	encode(&again, &of_copy);
	buf_add_str(&of_copy, "more");
	ck_assert(bytes_equal(buf_bytes(&octets), buf_bytes(&of_copy)));
	qseq_set_fini(&again);
	buf_fini(&octets);
	buf_fini(&of_copy);
}

static void
compare(void)
{
	compare_flags(&model.set, 0, WINDOW);
	compare_counts_and_gaps();
	compare_copies();
}

static void
run_random(uint64_t base, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		start_at(base);
		for (int i = 0; i < 12; i++) {
			step();
			compare();
		}
	}
}

START_TEST(test_random_steps_agree_with_the_model)
{
	run_random(1, 6);
	run_random(1 + pick(SPAN), 4);
}
END_TEST

START_TEST(test_random_steps_agree_at_the_highest_numbers)
{
	run_random(QSEQ_MAX + 1 - WINDOW, 6);
	add(0, WINDOW);
	ck_assert_uint_eq(model.set.floor, QSEQ_MAX + 1);
	ck_assert_uint_eq(model.set.settled, 0);
	compare();
}
END_TEST

/* Small sets, compared after each number: the changes from form to form. */
START_TEST(test_each_addition_leaves_a_sound_set)
{
	for (int round = 0; round < 200; round++) {
		uint64_t width = 1 + pick(round % 2 == 0 ? 300 : 20000);

		start_at(SPAN - pick(200));
		for (int i = 0; i < 150; i++) {
			add(pick(width), pick(10) == 0 ? 1 + pick(100) : 1);
			qseq_set_check(&model.set);
			if (pick(30) == 0)
				raise_to(model_floor() - model.base + pick(width / 20 + 1));
		}
		qseq_set_check(&model.set);
		ck_assert_uint_eq(model.set.floor, model_floor());
		ck_assert_uint_eq(model.set.settled,
				  model_count(model_floor() - model.base, WINDOW));
	}
}
END_TEST

START_TEST(test_in_order_takes_no_memory)
{
	for (uint64_t i = 1; i <= 1000000; i++)
		add_new(i);
	ck_assert_uint_eq(model.set.floor, 1000001);
	ck_assert_uint_eq(qseq_set_memory(&model.set), 0);
	ck_assert_uint_eq(qseq_set_add(&model.set, 5, 100), 0);
}
END_TEST

START_TEST(test_behind_one_open_number_lies_one_run)
{
	for (uint64_t i = 2; i <= 1000000; i++)
		add_new(i);
	ck_assert_uint_eq(model.set.floor, 1);
	qseq_set_check(&model.set);
	/* The rest of the first span, the whole ones, and the begin of the last. */
	ck_assert_uint_eq(model.set.count, 3);
	ck_assert_uint_le(qseq_set_memory(&model.set), 120);
	ck_assert_uint_eq(qseq_set_add(&model.set, 1, 1), 1);
	ck_assert_uint_eq(model.set.floor, 1000001);
	ck_assert_uint_le(qseq_set_memory(&model.set), EMPTY_MAX);
}
END_TEST

START_TEST(test_whole_spans_are_one_item)
{
	qseq_set_add(&model.set, 2 * SPAN, SPAN);
	qseq_set_add(&model.set, 4 * SPAN, SPAN);
	ck_assert_uint_eq(model.set.count, 2);
	ck_assert_uint_eq(qseq_set_add(&model.set, 3 * SPAN + 1, SPAN - 1), SPAN - 1);
	ck_assert_uint_eq(model.set.count, 3);
	ck_assert_uint_eq(qseq_set_add(&model.set, 3 * SPAN, 1), 1);
	ck_assert_uint_eq(model.set.count, 1);
	ck_assert_uint_eq(qseq_set_add(&model.set, SPAN / 2, 5 * SPAN), 2 * SPAN);
	ck_assert_uint_eq(model.set.count, 3);
	qseq_set_check(&model.set);
	ck_assert_uint_eq(qseq_set_add(&model.set, 2, QSEQ_MAX - 1), QSEQ_MAX - 1 - 5 * SPAN);
	ck_assert_uint_eq(model.set.count, 2);
	qseq_set_check(&model.set);
	ck_assert_uint_eq(qseq_set_next_open(&model.set, 5), QSEQ_MAX + 1);
	ck_assert_uint_eq(qseq_set_count(&model.set, 1, QSEQ_MAX), QSEQ_MAX - 1);
	qseq_set_raise(&model.set, 77 * SPAN + 5);
	ck_assert_uint_eq(model.set.floor, QSEQ_MAX + 1);
	qseq_set_check(&model.set);
}
END_TEST

START_TEST(test_every_second_of_ten_millions_takes_a_bit_for_each)
{
	for (uint64_t i = 2; i <= 10000000; i += 2)
		qseq_set_add(&model.set, i, 1);
	qseq_set_check(&model.set);
	ck_assert_uint_eq(model.set.settled, 5000000);
	ck_assert_uint_le(qseq_set_memory(&model.set), 1350000);
	for (uint64_t i = 1; i <= 10000000; i += 2)
		add_new(i);
	ck_assert_uint_eq(model.set.floor, 10000001);
	ck_assert_uint_le(qseq_set_memory(&model.set), EMPTY_MAX);
}
END_TEST

START_TEST(test_small_queue_takes_what_it_spans)
{
	for (uint64_t i = 2; i <= 10000; i += 2)
		qseq_set_add(&model.set, i, 1);
	ck_assert_uint_le(qseq_set_memory(&model.set), 1400);
	start_at(1);
	for (uint64_t i = 10000; i >= 2; i -= 2)
		qseq_set_add(&model.set, i, 1);
	ck_assert_uint_le(qseq_set_memory(&model.set), 1400);
	/* A queue that went over the border of two spans. */
	start_at(SPAN - 5000);
	for (uint64_t i = 1; i <= 10000; i += 2)
		qseq_set_add(&model.set, model.base + i, 1);
	ck_assert_uint_le(qseq_set_memory(&model.set), 1500);
}
END_TEST

START_TEST(test_memory_goes_where_the_floor_has_passed)
{
	start_at(SPAN);
	for (uint64_t i = 1; i < SPAN; i += 2)
		add_new(model.base + i);
	ck_assert_uint_ge(qseq_set_memory(&model.set), SPAN / 8);
	qseq_set_raise(&model.set, model.base + SPAN - 1000);
	ck_assert_uint_le(qseq_set_memory(&model.set), 250);
	/* Numbers far from each other, likewise. */
	start_at(SPAN);
	for (uint64_t i = 0; i < SPAN; i += 64)
		add_new(model.base + i + 1);
	ck_assert_uint_ge(qseq_set_memory(&model.set), 2048);
	qseq_set_raise(&model.set, model.base + SPAN - 1000);
	ck_assert_uint_le(qseq_set_memory(&model.set), 250);
	qseq_set_check(&model.set);
}
END_TEST

/* Settles [first, first + n) in random order. */
static void
settle_window(uint64_t first, uint64_t n)
{
	uint64_t order[1000];

	assert(n <= countof(order));
	for (uint64_t i = 0; i < n; i++) {
		uint64_t j = pick(i + 1);

		order[i] = order[j];
		order[j] = first + i;
	}
	for (uint64_t i = 0; i < n; i++)
		add_new(order[i]);
}

START_TEST(test_windows_in_random_order_stay_small)
{
	size_t most = 0;

	for (uint64_t first = 1; first < 1000000; first += 1000) {
		settle_window(first, 1000);
		ck_assert_uint_eq(model.set.floor, first + 1000);
		ck_assert_uint_eq(model.set.settled, 0);
		ck_assert_uint_le(qseq_set_memory(&model.set), EMPTY_MAX);
	}
	/* One that slides: 1,000 are always out, any of them may be next. */
	uint64_t out[1000], next = model.set.floor;

	for (size_t i = 0; i < countof(out); i++)
		out[i] = next++;
	for (int i = 0; i < 1000000; i++) {
		uint64_t at = pick(countof(out));

		/* The oldest goes now and then, or it would hold the floor for ever. */
		if (out[at] > model.set.floor + 5000) {
			for (at = 0; out[at] != model.set.floor; at++)
				;
		}
		add_new(out[at]);
		out[at] = next++;
		most = (size_t)max_u64(most, qseq_set_memory(&model.set));
	}
	qseq_set_check(&model.set);
	ck_assert_uint_le(most, 4000);
}
END_TEST

START_TEST(test_few_gaps_take_no_memory_of_their_own)
{
	static const uint64_t order[] = {3, 5, 2, 7, 9, 1, 4, 8, 6};
	size_t most = 0;

	for (uint64_t first = 0; first < 100000; first += countof(order)) {
		for (size_t i = 0; i < countof(order); i++) {
			add_new(first + order[i]);
			most = (size_t)max_u64(most, qseq_set_memory(&model.set));
		}
	}
	ck_assert_uint_le(most, EMPTY_MAX);
}
END_TEST

TESTS_WITH("qseq_set", set_up, tear_down, test_random_steps_agree_with_the_model,
	   test_random_steps_agree_at_the_highest_numbers, test_each_addition_leaves_a_sound_set,
	   test_in_order_takes_no_memory, test_behind_one_open_number_lies_one_run,
	   test_whole_spans_are_one_item, test_every_second_of_ten_millions_takes_a_bit_for_each,
	   test_small_queue_takes_what_it_spans, test_memory_goes_where_the_floor_has_passed,
	   test_windows_in_random_order_stay_small, test_few_gaps_take_no_memory_of_their_own)
