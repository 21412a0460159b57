/* SPDX-License-Identifier: Apache-2.0 */
/* The borrowed view, and the small arithmetic of base.h. */
#include "util/bytes.h"

#include <stdio.h>

#include "lib/runner.h"

START_TEST(test_views_of_literals_and_strings)
{
	ck_assert_uint_eq(BYTES("queue").n, 5);
	ck_assert_uint_eq(BYTES("").n, 0);
	ck_assert_uint_eq(BYTES("a\0b").n, 3);
	ck_assert(bytes_equal(bytes_str("queue"), BYTES("queue")));
	ck_assert(bytes_equal(bytes_of("queued", 5), BYTES("queue")));
}
END_TEST

START_TEST(test_equal_compares_length_and_content)
{
	ck_assert(!bytes_equal(BYTES("a"), BYTES("b")));
	ck_assert(!bytes_equal(BYTES("a"), BYTES("ab")));
	ck_assert(!bytes_equal(BYTES("a\0b"), BYTES("a\0c")));
	ck_assert(bytes_equal(bytes_of(NULL, 0), BYTES("")));
}
END_TEST

START_TEST(test_prefix)
{
	ck_assert(bytes_has_prefix(BYTES("amq.direct"), BYTES("amq.")));
	ck_assert(bytes_has_prefix(BYTES("amq."), BYTES("amq.")));
	ck_assert(bytes_has_prefix(BYTES("amq."), bytes_of(NULL, 0)));
	ck_assert(!bytes_has_prefix(BYTES("amq"), BYTES("amq.")));
	ck_assert(!bytes_has_prefix(BYTES("AMQ.x"), BYTES("amq.")));
}
END_TEST

START_TEST(test_compare_orders_as_unsigned_bytes)
{
	ck_assert_int_lt(bytes_compare(BYTES("a"), BYTES("b")), 0);
	ck_assert_int_gt(bytes_compare(BYTES("b"), BYTES("a")), 0);
	ck_assert_int_lt(bytes_compare(BYTES("a"), BYTES("aa")), 0);
	ck_assert_int_gt(bytes_compare(BYTES("aa"), BYTES("a")), 0);
	ck_assert_int_eq(bytes_compare(BYTES("ab"), BYTES("ab")), 0);
	ck_assert_int_lt(bytes_compare(BYTES("\x7f"), BYTES("\x80")), 0);
	ck_assert_int_eq(bytes_compare(bytes_of(NULL, 0), BYTES("")), 0);
	ck_assert_int_lt(bytes_compare(bytes_of(NULL, 0), BYTES("a")), 0);
}
END_TEST

START_TEST(test_views_print)
{
	char text[32];

	snprintf(text, sizeof(text), "[%.*s][%.*s]", BYTES_ARGS(bytes_of("queue", 2)),
		 BYTES_ARGS(bytes_of(NULL, 0)));
	ck_assert_str_eq(text, "[qu][]");
}
END_TEST

START_TEST(test_bits_and_bounds)
{
	ck_assert_uint_eq(highest_bit_u64(1), 0);
	ck_assert_uint_eq(highest_bit_u64(UINT64_MAX), 63);
	ck_assert_uint_eq(highest_bit_u64(2048), 11);
	ck_assert_uint_eq(lowest_bit_u64(UINT64_MAX), 0);
	ck_assert_uint_eq(lowest_bit_u64((uint64_t)1 << 63), 63);
	ck_assert_uint_eq(min_u64(1, UINT64_MAX), 1);
	ck_assert_uint_eq(max_u64(1, UINT64_MAX), UINT64_MAX);
	/* (2^32)^2 is 2^64: the low half is 0, the high half 1. */
	ck_assert_uint_eq(fold_u64((uint64_t)1 << 32, (uint64_t)1 << 32), 1);
}
END_TEST

TESTS("bytes", test_views_of_literals_and_strings, test_equal_compares_length_and_content,
      test_prefix, test_compare_orders_as_unsigned_bytes, test_views_print, test_bits_and_bounds)
