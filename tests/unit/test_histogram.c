/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log-linear histogram: buckets follow one another without holes, quantiles are within 1 %.
 */
#include "perf/histogram.h"

#include "lib/runner.h"

static struct histogram histogram;
static struct histogram other;

static void
set_up(void)
{
	histogram_clear(&histogram);
	histogram_clear(&other);
}

START_TEST(test_buckets_follow_one_another)
{
	for (size_t i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
		uint64_t end = histogram_bucket_end(i);

		ck_assert_uint_eq(histogram_bucket(end), i);
		ck_assert_uint_eq(histogram_bucket(end + 1), i + 1);
	}
	ck_assert_uint_eq(histogram_bucket(0), 0);
	ck_assert_uint_eq(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
	ck_assert_uint_eq(histogram_bucket_end(HISTOGRAM_BUCKETS - 1), UINT64_MAX);
}
END_TEST

START_TEST(test_small_values_are_exact)
{
	for (uint64_t value = 0; value < 256; value++)
		ck_assert_uint_eq(histogram_bucket_end(histogram_bucket(value)), value);
}
END_TEST

START_TEST(test_a_bucket_is_within_one_percent)
{
	for (uint64_t value = 1; value < UINT64_MAX / 3; value += value / 5 + 1) {
		uint64_t end = histogram_bucket_end(histogram_bucket(value));

		ck_assert_uint_ge(end, value);
		ck_assert_uint_le(end - value, value / 100);
	}
}
END_TEST

START_TEST(test_quantiles_of_one_to_a_thousand)
{
	for (uint64_t value = 1000; value >= 1; value--)
		histogram_add(&histogram, value);
	ck_assert_uint_eq(histogram.count, 1000);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.0), 1);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.1), 100);
	ck_assert_uint_ge(histogram_quantile(&histogram, 0.5), 500);
	ck_assert_uint_le(histogram_quantile(&histogram, 0.5), 504);
	ck_assert_uint_ge(histogram_quantile(&histogram, 0.99), 990);
	ck_assert_uint_eq(histogram_quantile(&histogram, 1.0), 1000);
}
END_TEST

START_TEST(test_a_quantile_never_passes_the_largest_value)
{
	histogram_add(&histogram, 1000000);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 1000000);
	ck_assert_uint_eq(histogram.max, 1000000);
}
END_TEST

START_TEST(test_nothing_has_no_quantiles)
{
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.0), 0);
	ck_assert_uint_eq(histogram_quantile(&histogram, 1.0), 0);
}
END_TEST

START_TEST(test_merging_adds_all_values)
{
	for (uint64_t value = 0; value < 100; value++)
		histogram_add(value % 2 == 0 ? &histogram : &other, value);
	histogram_merge(&histogram, &other);
	ck_assert_uint_eq(histogram.count, 100);
	ck_assert_uint_eq(histogram.max, 99);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 49);
}
END_TEST

TESTS_WITH("histogram", set_up, NULL, test_buckets_follow_one_another, test_small_values_are_exact,
	   test_a_bucket_is_within_one_percent, test_quantiles_of_one_to_a_thousand,
	   test_a_quantile_never_passes_the_largest_value, test_nothing_has_no_quantiles,
	   test_merging_adds_all_values)
