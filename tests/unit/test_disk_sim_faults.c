/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test can do to the simulated disk and see of it: faults, stops, a full disk, the hook, clones,
 * damage. And without any of that it behaves like the real disk.
 */
#include "lib/disk_sim.h"

#include <errno.h>
#include <stdio.h>

#include "lib/disk_pair.h"
#include "lib/disk_sim_check.h"
#include "lib/runner.h"

START_TEST(test_faults_come_when_asked)
{
	struct disk_file *a = old_file("a", 2), *b = old_file("b", 1);
	struct disk_file *none = NULL;
	char octet;

	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_ANY, .at = 2, .error = -EINTR});
	ck_assert_int_eq(disk_read(a, &octet, 1, 0), 1);
	ck_assert_int_eq(disk_sync(a), 0);
	ck_assert_int_eq(disk_rename(disk, "a", "c"), -EINTR);
	ck_assert_int_eq(disk_rename(disk, "a", "c"), 0);
	disk_sim_fail(
		sim,
		(struct disk_sim_fault){
			.kind = SIM_WRITE, .path = "b", .at = 1, .for_ever = true, .error = -EIO});
	ck_assert_int_eq(disk_write(a, "x", 1, 0), 0);
	ck_assert_int_eq(disk_write(b, "x", 1, 0), -EIO);
	ck_assert_int_eq(disk_write(b, "x", 1, 0), -EIO);
	ck_assert_int_eq(disk_sync(b), 0);
	disk_sim_clear_faults(sim);
	ck_assert_int_eq(disk_write(b, "x", 1, 0), 0);
	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_READ, .at = 1, .error = -EIO});
	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_OPEN, .at = 1, .error = -EMFILE});
	ck_assert_int_eq(disk_read(a, &octet, 1, 0), -EIO);
	ck_assert_int_eq(disk_read(a, &octet, 1, 0), 1);
	ck_assert_int_eq(disk_open(disk, "c", DISK_READ, &none), -EMFILE);
	disk_close(&a);
	disk_close(&b);
}
END_TEST

START_TEST(test_a_short_write_has_its_part)
{
	struct disk_file *file = old_file("a", 1);
	char text[8];

	disk_sim_fail(sim, (struct disk_sim_fault){
				   .kind = SIM_WRITE, .at = 1, .error = -ENOSPC, .part = 3});
	ck_assert_int_eq(disk_write(file, "abcdef", 6, 0), -ENOSPC);
	ck_assert_int_eq(disk_read(file, text, 6, 0), 6);
	ck_assert_int_eq(memcmp(text, "abcooo", 6), 0);
	ck_assert_uint_eq(sim->counts.octets_written, 3);
	disk_close(&file);
}
END_TEST

START_TEST(test_a_full_disk)
{
	struct disk_file *a, *b = must_open(disk, "b", DISK_CREATE);
	char block[1024] = "", text[8];

	sim->capacity = 4096;
	a = must_open(disk, "a", DISK_CREATE);
	ck_assert_int_eq(disk_allocate(a, 5000), -ENOSPC);
	ck_assert_int_eq(disk_size(a), 0);
	ck_assert_int_eq(disk_allocate(a, 3000), 0);
	ck_assert_int_eq(disk_free_space(disk), 1096);
	ck_assert_int_eq(disk_write(b, block, 1024, 0), 0);
	memset(block, 'x', sizeof(block));
	ck_assert_int_eq(disk_write(b, block, 1024, 1024), -ENOSPC);
	ck_assert_int_eq(disk_size(b), 1096);
	ck_assert_int_eq(disk_read(b, text, 8, 1090), 6);
	ck_assert_int_eq(memcmp(text, "xxxxxx", 6), 0);
	ck_assert_int_eq(disk_free_space(disk), 0);
	ck_assert_int_eq(disk_write(a, block, 1024, 1900), 0);
	ck_assert_int_eq(disk_write(a, block, 1024, 2000), -ENOSPC);
	ck_assert_int_eq(disk_unlink(disk, "b"), 0);
	ck_assert_int_eq(disk_free_space(disk), 0);
	disk_close(&b);
	ck_assert_int_eq(disk_free_space(disk), 1096);
	disk_close(&a);
}
END_TEST

START_TEST(test_stop_ends_all_calls)
{
	struct disk_file *file = old_file("a", 2), *none = NULL;
	char octet;

	sim->stop_at = 2;
	fill(file, 0, 1, 'n');
	ck_assert(!sim->stopped);
	ck_assert_int_eq(disk_write(file, "x", 1, SIM_SECTOR), -EIO);
	ck_assert(sim->stopped);
	ck_assert_int_eq(disk_sync(file), -EIO);
	ck_assert_int_eq(disk_read(file, &octet, 1, 0), -EIO);
	ck_assert_int_eq(disk_open(disk, "a", DISK_READ, &none), -EIO);
	ck_assert_int_eq(disk_unlink(disk, "a"), -EIO);
	disk_close(&file);
	disk_sim_crash(sim, SIM_EVERYTHING, 0);
	ck_assert(!sim->stopped);
	file = must_open(disk, "a", DISK_WRITE);
	ck_assert_int_eq(sector_of(file, 0), 'n');
	ck_assert_int_eq(sector_of(file, 1), 'o');
	ck_assert_int_eq(disk_write(file, "x", 1, 0), 0);
	disk_close(&file);
}
END_TEST

START_TEST(test_stop_with_effect)
{
	char block[SIM_SECTOR];
	struct disk_file *file = old_file("a", 1);

	memset(block, 'n', sizeof(block));
	sim->stop_at = 1;
	sim->stop_with_effect = true;
	ck_assert_int_eq(disk_write(file, block, sizeof(block), 0), -EIO);
	check_crash(SIM_NOTHING, "a", 0, 'o');
	check_crash(SIM_EVERYTHING, "a", 0, 'n');
	disk_close(&file);
	disk_sim_crash(sim, SIM_NOTHING, 0);
	sim->stop_at = 1;
	sim->stop_with_effect = true;
	ck_assert_int_eq(disk_rename(disk, "a", "b"), -EIO);
	disk_sim_crash(sim, SIM_EVERYTHING, 0);
	ck_assert(exists(sim, "b"));
}
END_TEST

/* What the hook saw. */
struct seen {
	char kinds[32];		    // a letter for each call that was over
	struct disk_sim *before[8]; // owns: clones taken before the change of this number
	struct disk_sim *after[8];  // owns: after it
};

static void
look(void *context, struct disk_sim *on, const struct disk_sim_call *call)
{
	struct seen *seen = context;
	size_t n = strlen(seen->kinds);

	ck_assert_ptr_eq(on, sim);
	if (call->over) {
		ck_assert_uint_lt(n + 1, sizeof(seen->kinds));
		seen->kinds[n] = "CWSATRUDMorlk"[call->kind];
	}
	if (call->kind >= SIM_OPEN)
		return;
	ck_assert_uint_lt(call->number, 8);
	(call->over ? seen->after : seen->before)[call->number] = disk_sim_clone(on);
}

START_TEST(test_hook_takes_a_clone_at_each_change)
{
	static struct seen seen;
	struct disk_file *file, *after;
	char octet;

	sim->hook = look;
	sim->context = &seen;
	file = must_open(disk, "a", DISK_CREATE);
	fill(file, 0, 1, 'x');
	ck_assert_int_eq(disk_read(file, &octet, 1, 0), 1);
	ck_assert_int_eq(disk_sync(file), 0);
	fill(file, 0, 1, 'y');
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	disk_close(&file);
	ck_assert_str_eq(seen.kinds, "CWrSWD");
	ck_assert_uint_eq(sim->changes, 5);
	ck_assert(!exists(seen.before[1], "a"));
	ck_assert(exists(seen.after[1], "a"));
	ck_assert_uint_eq(disk_sim_unsynced_sectors(seen.before[3]), 1);
	ck_assert_uint_eq(disk_sim_unsynced_sectors(seen.after[3]), 0);
	ck_assert_uint_eq(disk_sim_unsynced_names(seen.before[5]), 1);
	disk_sim_crash(seen.after[5], SIM_NOTHING, 0);
	after = must_open(&seen.after[5]->disk, "a", DISK_READ);
	ck_assert_int_eq(sector_of(after, 0), 'x');
	disk_close(&after);
	for (size_t i = 1; i <= 5; i++) {
		disk_sim_free(&seen.before[i]);
		disk_sim_free(&seen.after[i]);
	}
}
END_TEST

START_TEST(test_clones_go_their_own_ways)
{
	struct disk_file *file = old_file("a", 2), *other;
	struct disk_sim *clone;

	fill(file, 0, 1, 'x');
	clone = disk_sim_clone(sim);
	fill(file, 1, 1, 'y');
	ck_assert_int_eq(disk_sync(file), 0);
	ck_assert_uint_eq(disk_sim_unsynced_sectors(clone), 1);
	other = must_open(&clone->disk, "a", DISK_WRITE);
	ck_assert_int_eq(sector_of(other, 0), 'x');
	ck_assert_int_eq(sector_of(other, 1), 'o');
	fill(other, 0, 1, 'z');
	ck_assert_int_eq(sector_of(file, 0), 'x');
	disk_sim_crash(clone, SIM_NOTHING, 0);
	ck_assert_int_eq(disk_read(other, NULL, 0, 0), -EBADF);
	disk_close(&other);
	other = must_open(&clone->disk, "a", DISK_WRITE);
	ck_assert_int_eq(sector_of(other, 0), 'o');
	disk_close(&other);
	disk_sim_free(&clone);
	disk_close(&file);
}
END_TEST

START_TEST(test_open_files_and_locks_end_with_a_crash)
{
	struct disk_file *file = old_file("a", 1), *left = must_open(disk, "a", DISK_READ);

	ck_assert_int_eq(disk_lock(disk, "lock"), 0);
	ck_assert_int_eq(disk_lock(disk, "lock"), -EWOULDBLOCK);
	disk_sim_crash(sim, SIM_NOTHING, 0);
	ck_assert_int_eq(disk_write(file, "x", 1, 0), -EBADF);
	ck_assert_int_eq(disk_sync(file), -EBADF);
	ck_assert_int_eq(disk_size(file), -EBADF);
	disk_close(&file);
	ck_assert_int_eq(disk_lock(disk, "lock"), 0);
	disk_sim_forget(sim);
	ck_assert_int_eq(disk_lock(disk, "lock"), 0);
	ck_assert_ptr_nonnull(left); /* is left to disk_free() */
}
END_TEST

START_TEST(test_content_can_be_damaged)
{
	struct disk_file *file;
	size_t size = 0;
	uint8_t *content;
	struct disk_sim *clone;

	ck_assert_ptr_null(disk_sim_content(sim, "log/a", &size));
	disk_sim_put(sim, "log/a", "hello", 5);
	clone = disk_sim_clone(sim);
	content = disk_sim_content(sim, "log/a", &size);
	ck_assert_uint_eq(size, 5);
	content[1] ^= 1;
	disk_sim_crash(sim, SIM_NOTHING, 0);
	file = must_open(disk, "log/a", DISK_READ);
	ck_assert_int_eq(disk_size(file), 5);
	disk_close(&file);
	ck_assert_int_eq(disk_sim_content(sim, "log/a", &size)[1], 'd');
	ck_assert_int_eq(disk_sim_content(clone, "log/a", &size)[1], 'e');
	disk_sim_free(&clone);
}
END_TEST

START_TEST(test_without_a_crash_it_is_like_the_real_disk)
{
	char root[64], command[128];
	struct pair pair = {.random = 99};

	snprintf(root, sizeof(root), "/tmp/test-disk-sim-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(disk_new(&pair.disks[0], root), 0);
	pair.disks[1] = disk;
	for (int step = 0; step < 6000; step++) {
		pair_step(&pair);
		if (pair.random >> 25 == 0) {
			pair_close(&pair);
			disk_sim_crash(sim, SIM_EVERYTHING, 0);
		}
	}
	pair_close(&pair);
	disk_free(&pair.disks[0]);
	snprintf(command, sizeof(command), "rm -r '%s'", root);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

TESTS_WITH("disk_sim_faults", sim_set_up, sim_tear_down, test_faults_come_when_asked,
	   test_a_short_write_has_its_part, test_a_full_disk, test_stop_ends_all_calls,
	   test_stop_with_effect, test_hook_takes_a_clone_at_each_change,
	   test_clones_go_their_own_ways, test_open_files_and_locks_end_with_a_crash,
	   test_content_can_be_damaged, test_without_a_crash_it_is_like_the_real_disk)
