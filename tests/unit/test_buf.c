/* SPDX-License-Identifier: Apache-2.0 */
/* The growable buffer: growth, the limit and its sticky error, formatting, consuming. */
#include "util/buf.h"

#include "lib/runner.h"

static struct buf buf;

static void
set_up(void)
{
	buf_init(&buf, 0);
}

static void
tear_down(void)
{
	buf_fini(&buf);
}

START_TEST(test_adds_in_order)
{
	buf_add(&buf, "ab", 2);
	buf_add_bytes(&buf, BYTES("cd"));
	buf_add_str(&buf, "ef");
	buf_add_byte(&buf, 'g');
	buf_addf(&buf, "%d-%s", 12, "h");
	buf_add(&buf, NULL, 0);
	ck_assert_str_eq(buf_cstr(&buf), "abcdefg12-h");
	ck_assert(bytes_equal(buf_bytes(&buf), BYTES("abcdefg12-h")));
	ck_assert(!buf.bad);
}
END_TEST

START_TEST(test_grows_and_keeps_content)
{
	for (unsigned i = 0; i < 100000; i++)
		buf_add_byte(&buf, (uint8_t)(i * 7));
	ck_assert_uint_eq(buf.n, 100000);
	for (unsigned i = 0; i < 100000; i++)
		ck_assert_uint_eq(buf.p[i], (uint8_t)(i * 7));
	ck_assert_uint_le(buf.room, 2 * 100001);
}
END_TEST

START_TEST(test_empty_buffer_is_an_empty_string)
{
	ck_assert_uint_eq(buf_bytes(&buf).n, 0);
	ck_assert_str_eq(buf_cstr(&buf), "");
	buf_addf(&buf, "%s", "");
	ck_assert_uint_eq(buf.n, 0);
}
END_TEST

START_TEST(test_limit_is_exact_and_error_sticks)
{
	struct buf small;

	buf_init(&small, 4);
	buf_add_str(&small, "abcd");
	ck_assert(!small.bad);
	ck_assert_str_eq(buf_cstr(&small), "abcd");
	buf_add_byte(&small, 'e');
	ck_assert(small.bad);
	buf_consume(&small, 2);
	buf_add_byte(&small, 'e');
	ck_assert(small.bad);
	ck_assert_str_eq(buf_cstr(&small), "cd");
	ck_assert_ptr_null(buf_reserve(&small, 1));
	buf_clear(&small);
	buf_addf(&small, "%s", "wxyz");
	ck_assert(!small.bad);
	buf_clear(&small);
	buf_addf(&small, "%s", "vwxyz");
	ck_assert(small.bad);
	ck_assert_uint_eq(small.n, 0);
	buf_fini(&small);
}
END_TEST

START_TEST(test_huge_request_does_not_overflow)
{
	struct buf small;

	buf_init(&small, 100);
	buf_add_str(&small, "abc");
	ck_assert_ptr_null(buf_reserve(&small, SIZE_MAX));
	ck_assert(small.bad);
	ck_assert_uint_eq(small.n, 3);
	buf_fini(&small);
}
END_TEST

START_TEST(test_long_format_fits)
{
	for (int width = 1; width < 300; width++) {
		buf_clear(&buf);
		buf_addf(&buf, "%*d", width, 7);
		ck_assert_uint_eq(buf.n, (size_t)width);
		ck_assert_int_eq(buf.p[width - 1], '7');
		ck_assert_uint_eq(strlen(buf_cstr(&buf)), (size_t)width);
	}
}
END_TEST

START_TEST(test_reserve_leaves_counting_to_caller)
{
	uint8_t *p = buf_reserve(&buf, 1000);

	ck_assert_ptr_nonnull(p);
	memset(p, 'x', 1000);
	ck_assert_uint_eq(buf.n, 0);
	buf.n += 500;
	ck_assert_ptr_eq(buf_reserve(&buf, 500), p + 500);
}
END_TEST

START_TEST(test_consume_moves_the_rest_to_the_front)
{
	buf_add_str(&buf, "abcdef");
	buf_consume(&buf, 0);
	buf_consume(&buf, 4);
	ck_assert_str_eq(buf_cstr(&buf), "ef");
	buf_consume(&buf, 2);
	ck_assert_uint_eq(buf.n, 0);
}
END_TEST

TESTS_WITH("buf", set_up, tear_down, test_adds_in_order, test_grows_and_keeps_content,
	   test_empty_buffer_is_an_empty_string, test_limit_is_exact_and_error_sticks,
	   test_huge_request_does_not_overflow, test_long_format_fits,
	   test_reserve_leaves_counting_to_caller, test_consume_moves_the_rest_to_the_front)
