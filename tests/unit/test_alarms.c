/* SPDX-License-Identifier: Apache-2.0 */
/* Alarms: when each begins and ends, and what clients are told. */
#include "broker/alarms.h"

#include "lib/runner.h"

START_TEST(test_memory_room_is_what_is_left)
{
	ck_assert_uint_eq(alarm_memory_room(1000, 0, false), 1000);
	ck_assert_uint_eq(alarm_memory_room(1000, 999, false), 1);
	ck_assert_uint_eq(alarm_memory_room(1000, 1000, false), 0);
	ck_assert_uint_eq(alarm_memory_room(1000, 5000, false), 0);
	ck_assert_uint_eq(alarm_memory_room(0, UINT64_MAX, false), UINT64_MAX);
}
END_TEST

START_TEST(test_memory_is_there_again_below_95_percent)
{
	ck_assert_uint_eq(alarm_memory_room(1000, 951, true), 0);
	ck_assert_uint_eq(alarm_memory_room(1000, 950, true), 50);
	ck_assert_uint_eq(alarm_memory_room(0, UINT64_MAX, true), UINT64_MAX);
	/* a limit too small for a margin still has an end */
	ck_assert_uint_eq(alarm_memory_room(1, 1, true), 0);
	ck_assert_uint_eq(alarm_memory_room(1, 0, true), 1);
}
END_TEST

START_TEST(test_disk_limit_is_three_files_at_least)
{
	ck_assert_uint_eq(alarm_disk_limit(0, 100), 300);
	ck_assert_uint_eq(alarm_disk_limit(299, 100), 300);
	ck_assert_uint_eq(alarm_disk_limit(301, 100), 301);
}
END_TEST

START_TEST(test_disk_is_low_below_the_limit)
{
	ck_assert(!alarm_disk_low(1000, 10, 1000, false));
	ck_assert(alarm_disk_low(1000, 10, 999, false));
	ck_assert(alarm_disk_low(1000, 10, 0, false));
}
END_TEST

START_TEST(test_disk_is_low_until_the_margin_is_there)
{
	/* 5 % */
	ck_assert(alarm_disk_low(1000, 10, 1049, true));
	ck_assert(!alarm_disk_low(1000, 10, 1050, true));
	/* or a file */
	ck_assert(alarm_disk_low(1000, 300, 1299, true));
	ck_assert(!alarm_disk_low(1000, 300, 1300, true));
	ck_assert(alarm_disk_low(1000, 300, 0, true));
	/* what no disk has never ends it, and nothing overflows */
	ck_assert(alarm_disk_low(UINT64_MAX, 300, UINT64_MAX, true));
	ck_assert(alarm_disk_low(UINT64_MAX, 300, 1, true));
}
END_TEST

START_TEST(test_reason_names_what_is_low)
{
	ck_assert_str_eq(alarm_reason(ALARM_MEMORY), "low on memory");
	ck_assert_str_eq(alarm_reason(ALARM_DISK), "low on disk");
	ck_assert_str_eq(alarm_reason(ALARM_MEMORY | ALARM_DISK), "low on memory & disk");
}
END_TEST

TESTS("alarms", test_memory_room_is_what_is_left, test_memory_is_there_again_below_95_percent,
      test_disk_limit_is_three_files_at_least, test_disk_is_low_below_the_limit,
      test_disk_is_low_until_the_margin_is_there, test_reason_names_what_is_low)
