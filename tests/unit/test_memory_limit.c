/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory there is, in made-up trees of /proc and /sys.
 */
#include "server/memory_limit.h"

#include "unit/config_fixture.h"

/* Writes a file of the tree with the folders in front of it. */
static void
put(const char *path, const char *text)
{
	char command[512];

	snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s/%s')\"", folder, path);
	ck_assert_int_eq(system(command), 0);
	write_file(path, text);
}

START_TEST(test_memory_limit_without_groups_is_the_machines)
{
	uint64_t machine = memory_there_is(folder);

	ck_assert_uint_gt(machine, 64 * 1024 * 1024);
	put("proc/self/cgroup", "0::/\n");
	ck_assert_uint_eq(memory_there_is(folder), machine);
	put("sys/fs/cgroup/memory.max", "max\n");
	ck_assert_uint_eq(memory_there_is(folder), machine);
	put("sys/fs/cgroup/memory.max", "9223372036854771712\n");
	ck_assert_uint_eq(memory_there_is(folder), machine);
}
END_TEST

START_TEST(test_memory_limit_of_version_2)
{
	put("proc/self/cgroup", "0::/a/b\n");
	put("sys/fs/cgroup/a/b/memory.max", "max\n");
	put("sys/fs/cgroup/a/memory.max", "2000000\n");
	ck_assert_uint_eq(memory_there_is(folder), 2000000);
	put("sys/fs/cgroup/a/b/memory.max", "1000000\n");
	ck_assert_uint_eq(memory_there_is(folder), 1000000);
	put("sys/fs/cgroup/memory.max", "500000\n");
	ck_assert_uint_eq(memory_there_is(folder), 500000);
}
END_TEST

START_TEST(test_memory_limit_of_version_1)
{
	put("proc/self/cgroup", "11:cpu,cpuacct:/x\n5:memory:/docker/c\n");
	put("sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes", "3000000\n");
	ck_assert_uint_eq(memory_there_is(folder), 3000000);
	/* In a container the group is at the top. */
	put("proc/self/cgroup", "5:memory:/elsewhere\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n");
	ck_assert_uint_eq(memory_there_is(folder), 4000000);
}
END_TEST

TESTS_WITH("memory_limit", config_set_up, config_tear_down,
	   test_memory_limit_without_groups_is_the_machines, test_memory_limit_of_version_2,
	   test_memory_limit_of_version_1)
