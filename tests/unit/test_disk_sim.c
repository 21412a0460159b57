/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated disk keeps its promises: what was synced stays, what was not may be lost in every way
 * that disk.h allows, and each way does come up.
 */
#include "lib/disk_sim.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "lib/disk_sim_check.h"
#include "lib/runner.h"

/* For each state that a crash may leave: letters, one for each of the sectors of the file ('-' where the
 * file is not there), and whether that state came up. */
static void
collect(const char *path, size_t sectors, char (*found)[16], size_t *count)
{
	uint64_t states = disk_sim_states(sim);

	*count = 0;
	for (uint64_t i = 0; i < states; i++) {
		struct disk_sim *state = crashed(SIM_NTH, i);
		struct disk_file *file = NULL;
		char text[16] = "-";
		size_t k = 0;

		if (exists(state, path))
			file = must_open(&state->disk, path, DISK_READ);
		for (size_t s = 0; s < sectors && file != NULL; s++) {
			text[s] = sector_of(file, s);
			text[s] = text[s] == '\0' ? '0' : text[s];
		}
		disk_close(&file);
		disk_sim_free(&state);
		while (k < *count && strcmp(found[k], text) != 0)
			k++;
		if (k == *count)
			memcpy(found[(*count)++], text, sizeof(text));
	}
}

static bool
came_up(const char *text, char (*found)[16], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(found[i], text) == 0)
			return true;
	return false;
}

START_TEST(test_unsynced_is_lost_synced_stays)
{
	struct disk_file *file = old_file("a", 2);

	fill(file, 1, 1, 'n');
	ck_assert_int_eq(sector_of(file, 1), 'n');
	check_crash(SIM_NOTHING, "a", 1, 'o');
	check_crash(SIM_EVERYTHING, "a", 1, 'n');
	ck_assert_uint_eq(disk_sim_unsynced_sectors(sim), 1);
	ck_assert_int_eq(disk_sync(file), 0);
	ck_assert_uint_eq(disk_sim_unsynced_sectors(sim), 0);
	ck_assert_uint_eq(disk_sim_states(sim), 1);
	check_crash(SIM_NOTHING, "a", 1, 'n');
	disk_close(&file);
}
END_TEST

START_TEST(test_a_write_is_torn_at_every_sector)
{
	static char found[16][16];
	struct disk_file *file = old_file("a", 5);
	size_t count;

	fill(file, 1, 4, 'n');
	ck_assert_uint_eq(disk_sim_states(sim), 16);
	collect("a", 5, found, &count);
	ck_assert_uint_eq(count, 16);
	ck_assert(came_up("ooooo", found, count));
	ck_assert(came_up("onoon", found, count));
	ck_assert(came_up("onnnn", found, count));
	disk_close(&file);
}
END_TEST

START_TEST(test_a_later_write_may_survive_an_earlier_one)
{
	static char found[8][16];
	struct disk_file *file = old_file("a", 3);
	size_t count;

	fill(file, 2, 1, 'x');
	fill(file, 0, 1, 'y');
	collect("a", 3, found, &count);
	ck_assert_uint_eq(count, 4);
	ck_assert(came_up("yoo", found, count));
	ck_assert(came_up("oox", found, count));
	disk_close(&file);
}
END_TEST

START_TEST(test_a_sector_written_twice_may_have_any_version)
{
	static char found[8][16];
	struct disk_file *file = old_file("a", 1);
	size_t count;

	fill(file, 0, 1, 'x');
	fill(file, 0, 1, 'y');
	ck_assert_uint_eq(disk_sim_states(sim), 3);
	collect("a", 1, found, &count);
	ck_assert(came_up("o", found, count));
	ck_assert(came_up("x", found, count));
	ck_assert(came_up("y", found, count));
	disk_close(&file);
}
END_TEST

START_TEST(test_octets_round_a_small_write_keep_what_they_had)
{
	struct disk_file *file = old_file("a", 1);
	char block[SIM_SECTOR];

	ck_assert_int_eq(disk_write(file, "xyz", 3, 100), 0);
	for (uint64_t i = 0; i < 2; i++) {
		struct disk_sim *state = crashed(SIM_NTH, i);
		struct disk_file *after = must_open(&state->disk, "a", DISK_READ);

		ck_assert_int_eq(disk_read(after, block, SIM_SECTOR, 0), SIM_SECTOR);
		ck_assert_int_eq(memcmp(block + 100, i == 0 ? "ooo" : "xyz", 3), 0);
		ck_assert_int_eq(block[99], 'o');
		ck_assert_int_eq(block[103], 'o');
		disk_close(&after);
		disk_sim_free(&state);
	}
	disk_close(&file);
}
END_TEST

START_TEST(test_size_is_anything_between)
{
	struct disk_file *file = old_file("a", 1);
	bool low = false, high = false, between = false, ragged = false;

	fill(file, 1, 2, 'n');
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct disk_sim *state = crashed(SIM_RANDOM, seed);
		struct disk_file *after = must_open(&state->disk, "a", DISK_READ);
		int64_t size = disk_size(after);

		ck_assert_int_ge(size, SIM_SECTOR);
		ck_assert_int_le(size, 3 * SIM_SECTOR);
		ck_assert_int_eq(sector_of(after, 0), 'o');
		low = low || size == SIM_SECTOR;
		high = high || size == 3 * SIM_SECTOR;
		between = between || (size > SIM_SECTOR && size < 3 * SIM_SECTOR);
		ragged = ragged || size % SIM_SECTOR != 0;
		disk_close(&after);
		disk_sim_free(&state);
	}
	ck_assert(low && high && between && ragged);
	disk_close(&file);
}
END_TEST

START_TEST(test_allocated_octets_are_zeros)
{
	struct disk_file *file = old_file("a", 1);
	char block[2 * SIM_SECTOR];
	bool good = true;

	ck_assert_int_eq(disk_allocate(file, 3 * SIM_SECTOR), 0);
	ck_assert_int_eq(disk_size(file), 3 * SIM_SECTOR);
	ck_assert_int_eq(sector_of(file, 2), 0);
	ck_assert_uint_eq(disk_sim_states(sim), 2);
	fill(file, 2, 1, 'n');
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct disk_sim *state = crashed(SIM_RANDOM, seed);
		struct disk_file *after = must_open(&state->disk, "a", DISK_READ);
		int64_t n = disk_read(after, block, sizeof(block), SIM_SECTOR);

		ck_assert_int_eq(sector_of(after, 0), 'o');
		for (int64_t i = 0; i < n; i++)
			good = good && (block[i] == 0 || (i >= SIM_SECTOR && block[i] == 'n'));
		disk_close(&after);
		disk_sim_free(&state);
	}
	ck_assert(good);
	disk_close(&file);
}
END_TEST

START_TEST(test_a_cut_may_come_undone)
{
	static char found[64][16];
	struct disk_file *file = old_file("a", 3);
	size_t count;

	ck_assert_int_eq(disk_truncate(file, SIM_SECTOR), 0);
	check_crash(SIM_NOTHING, "a", 2, 'o');
	check_crash(SIM_EVERYTHING, "a", 2, 0);
	ck_assert_int_eq(disk_truncate(file, 3 * SIM_SECTOR), 0);
	ck_assert_int_eq(sector_of(file, 2), 0);
	collect("a", 3, found, &count);
	ck_assert(came_up("ooo", found, count));
	ck_assert(came_up("o0o", found, count));
	ck_assert(came_up("o00", found, count));
	ck_assert(!came_up("000", found, count));
	ck_assert_int_eq(disk_sync(file), 0);
	check_crash(SIM_NOTHING, "a", 1, 0);
	disk_close(&file);
}
END_TEST

START_TEST(test_a_name_needs_a_sync_of_its_folder)
{
	struct disk_file *file;
	struct disk_sim *state;

	ck_assert_int_eq(disk_mkdir(disk, "log"), 0);
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	file = must_open(disk, "log/a", DISK_CREATE);
	fill(file, 0, 1, 'n');
	ck_assert_int_eq(disk_sync(file), 0);
	ck_assert_uint_eq(disk_sim_unsynced_names(sim), 1);
	state = crashed(SIM_NOTHING, 0);
	ck_assert(!exists(state, "log/a"));
	disk_sim_free(&state);
	check_crash(SIM_EVERYTHING, "log/a", 0, 'n');
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	ck_assert_uint_eq(disk_sim_unsynced_names(sim), 1);
	ck_assert_int_eq(disk_sync_dir(disk, "log"), 0);
	check_crash(SIM_NOTHING, "log/a", 0, 'n');
	disk_close(&file);
}
END_TEST

START_TEST(test_a_folder_takes_its_files_along)
{
	struct disk_file *file;
	struct disk_sim *state;

	ck_assert_int_eq(disk_mkdir(disk, "log"), 0);
	file = must_open(disk, "log/a", DISK_CREATE);
	ck_assert_int_eq(disk_sync(file), 0);
	ck_assert_int_eq(disk_sync_dir(disk, "log"), 0);
	disk_close(&file);
	state = crashed(SIM_NOTHING, 0);
	ck_assert(!exists(state, "log/a"));
	ck_assert_int_eq(disk_sync_dir(&state->disk, "log"), -ENOENT);
	ck_assert_int_eq(disk_mkdir(&state->disk, "log"), 0);
	ck_assert(!exists(state, "log/a"));
	disk_sim_free(&state);
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	state = crashed(SIM_NOTHING, 0);
	ck_assert(exists(state, "log/a"));
	disk_sim_free(&state);
}
END_TEST

START_TEST(test_a_rename_is_whole_and_may_be_undone)
{
	static char found[4][16];
	struct disk_file *file = old_file("a", 1);
	size_t count;

	disk_close(&file);
	file = old_file("a.tmp", 1);
	fill(file, 0, 1, 'n');
	ck_assert_int_eq(disk_sync(file), 0);
	disk_close(&file);
	ck_assert_int_eq(disk_rename(disk, "a.tmp", "a"), 0);
	ck_assert(!exists(sim, "a.tmp"));
	ck_assert_uint_eq(disk_sim_states(sim), 2);
	collect("a", 1, found, &count);
	ck_assert_uint_eq(count, 2);
	ck_assert(came_up("o", found, count) && came_up("n", found, count));
	for (uint64_t i = 0; i < 2; i++) {
		struct disk_sim *state = crashed(SIM_NTH, i);

		ck_assert(exists(state, "a.tmp") == (i == 0));
		disk_sim_free(&state);
	}
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	check_crash(SIM_NOTHING, "a", 0, 'n');
}
END_TEST

/* Whatever is kept of several renames, even between folders of which one is synced. */
START_TEST(test_a_file_never_has_two_names_or_none)
{
	static const char *const names[] = {"a", "f/b", "c", "f/d"};
	struct disk_sim *state;
	uint64_t states;

	disk_sim_put(sim, "f/x", "", 0);
	disk_sim_put(sim, "a", "", 0);
	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(disk_rename(disk, names[i], names[i + 1]), 0);
	for (int synced = 0; synced < 2; synced++) {
		states = disk_sim_states(sim);
		ck_assert_uint_eq(states, synced ? 2 : 8);
		for (uint64_t n = 0; n < states; n++) {
			unsigned there = 0;

			state = crashed(SIM_NTH, n);
			for (size_t i = 0; i < 4; i++)
				there += exists(state, names[i]);
			ck_assert_uint_eq(there, 1);
			ck_assert(!synced || exists(state, "c") || exists(state, "f/d"));
			disk_sim_free(&state);
		}
		ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	}
}
END_TEST

START_TEST(test_a_rename_may_survive_the_content_that_nobody_synced)
{
	struct disk_file *file = must_open(disk, "a.tmp", DISK_CREATE);
	struct disk_sim *state;

	fill(file, 0, 1, 'n');
	disk_close(&file);
	ck_assert_int_eq(disk_rename(disk, "a.tmp", "a"), 0);
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	state = crashed(SIM_NOTHING, 0);
	ck_assert(exists(state, "a"));
	ck_assert(!exists(state, "a.tmp"));
	file = must_open(&state->disk, "a", DISK_READ);
	ck_assert_int_eq(disk_size(file), 0);
	disk_close(&file);
	disk_sim_free(&state);
}
END_TEST

START_TEST(test_directory_operations_are_lost_one_by_one)
{
	static const char *const names[] = {"a", "b", "c"};
	unsigned seen = 0;

	disk_sim_put(sim, "c", "", 0);
	for (int i = 0; i < 2; i++) {
		struct disk_file *file = must_open(disk, names[i], DISK_CREATE);

		disk_close(&file);
	}
	ck_assert_int_eq(disk_unlink(disk, "c"), 0);
	ck_assert_uint_eq(disk_sim_states(sim), 8);
	for (uint64_t n = 0; n < 8; n++) {
		struct disk_sim *state = crashed(SIM_NTH, n);
		unsigned there = 0;

		for (unsigned i = 0; i < 3; i++)
			there |= exists(state, names[i]) ? 1U << i : 0;
		seen |= 1U << there;
		disk_sim_free(&state);
	}
	ck_assert_uint_eq(seen, 0xff);
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	ck_assert_uint_eq(disk_sim_states(sim), 1);
}
END_TEST

START_TEST(test_what_a_failed_sync_lost_is_never_saved)
{
	struct disk_file *file = old_file("a", 2);

	fill(file, 0, 1, 'n');
	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_SYNC, .at = 1, .error = -EIO});
	ck_assert_int_eq(disk_sync(file), -EIO);
	ck_assert_int_eq(sector_of(file, 0), 'n');
	fill(file, 1, 1, 'n');
	ck_assert_int_eq(disk_sync(file), 0);
	check_crash(SIM_NOTHING, "a", 0, 'o');
	check_crash(SIM_NOTHING, "a", 1, 'n');
	check_crash(SIM_EVERYTHING, "a", 0, 'n');
	/* Written again it is a new change. */
	fill(file, 0, 1, 'n');
	ck_assert_int_eq(disk_sync(file), 0);
	check_crash(SIM_NOTHING, "a", 0, 'n');
	ck_assert_uint_eq(disk_sim_states(sim), 1);
	disk_close(&file);
}
END_TEST

START_TEST(test_a_size_that_a_failed_sync_lost_is_never_saved)
{
	struct disk_file *file = old_file("a", 1);

	fill(file, 1, 1, 'n');
	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_SYNC, .at = 1, .error = -EIO});
	ck_assert_int_eq(disk_sync(file), -EIO);
	ck_assert_int_eq(disk_sync(file), 0);
	check_crash(SIM_NOTHING, "a", 1, 0);
	check_crash(SIM_EVERYTHING, "a", 1, 'n');
	disk_close(&file);
}
END_TEST

START_TEST(test_names_that_a_failed_sync_lost_are_never_saved)
{
	struct disk_file *file = must_open(disk, "a", DISK_CREATE);
	struct disk_sim *state;

	disk_close(&file);
	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_SYNC_DIR, .at = 1, .error = -EIO});
	ck_assert_int_eq(disk_sync_dir(disk, ""), -EIO);
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	state = crashed(SIM_NOTHING, 0);
	ck_assert(!exists(state, "a"));
	disk_sim_free(&state);
	ck_assert_int_eq(disk_rename(disk, "a", "b"), 0);
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	for (uint64_t i = 0; i < disk_sim_states(sim); i++) {
		state = crashed(SIM_NTH, i);
		ck_assert(!exists(state, "a"));
		ck_assert(exists(state, "b"));
		disk_sim_free(&state);
	}
}
END_TEST

#define MANY 64

/* Each write of a sector has a higher number than the one before. */
struct history {
	uint8_t saved[MANY];  // the number when it was synced
	uint8_t latest[MANY]; // the number now
};

static void
check_history(const struct history *history, uint64_t seed)
{
	struct disk_sim *state = crashed(SIM_RANDOM, seed);
	struct disk_file *file = must_open(&state->disk, "a", DISK_READ);

	for (size_t s = 0; s < MANY; s++) {
		int number = sector_of(file, s);

		if (number < history->saved[s] || number > history->latest[s])
			ck_abort_msg("sector %zu has version %d", s, number);
	}
	disk_close(&file);
	disk_sim_free(&state);
}

START_TEST(test_random_crashes_leave_a_version_since_the_sync)
{
	static struct history history;
	static char zeros[MANY * SIM_SECTOR];
	uint32_t random = 7;
	struct disk_file *file;

	disk_sim_put(sim, "a", zeros, sizeof(zeros));
	file = must_open(disk, "a", DISK_WRITE);
	for (int step = 0; step < 1500; step++) {
		random = random * 1664525 + 1013904223;
		size_t s = (random >> 8) % MANY;

		if (random >> 28 == 0) {
			ck_assert_int_eq(disk_sync(file), 0);
			memcpy(history.saved, history.latest, MANY);
		} else if (history.latest[s] < 100) {
			fill(file, s, 1, (char)++history.latest[s]);
		}
		check_history(&history, random);
	}
	disk_close(&file);
}
END_TEST

static void *
write_and_sync(void *number)
{
	char path[8];
	struct disk_file *file;

	snprintf(path, sizeof(path), "%d", *(int *)number);
	file = must_open(disk, path, DISK_CREATE);
	for (unsigned i = 0; i < 200; i++) {
		fill(file, i % 4, 1, (char)*(int *)number);
		ck_assert_int_eq(disk_sync(file), 0);
		if (i % 50 == 0)
			ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	}
	disk_close(&file);
	return NULL;
}

START_TEST(test_threads_share_it)
{
	pthread_t threads[3];
	int numbers[3] = {1, 2, 3};

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, write_and_sync, &numbers[i]), 0);
	for (int i = 0; i < 50; i++) {
		struct disk_sim *state = crashed(SIM_RANDOM, (uint64_t)i);

		disk_sim_free(&state);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(sim->counts.calls[SIM_SYNC], 600);
	ck_assert_uint_eq(sim->counts.calls[SIM_WRITE], 600);
	ck_assert_uint_eq(sim->counts.octets_written, 600 * SIM_SECTOR);
	check_crash(SIM_NOTHING, "2", 3, 2);
}
END_TEST

TESTS_WITH("disk_sim", sim_set_up, sim_tear_down, test_unsynced_is_lost_synced_stays,
	   test_a_write_is_torn_at_every_sector, test_a_later_write_may_survive_an_earlier_one,
	   test_a_sector_written_twice_may_have_any_version,
	   test_octets_round_a_small_write_keep_what_they_had, test_size_is_anything_between,
	   test_allocated_octets_are_zeros, test_a_cut_may_come_undone,
	   test_a_name_needs_a_sync_of_its_folder, test_a_folder_takes_its_files_along,
	   test_a_rename_is_whole_and_may_be_undone, test_a_file_never_has_two_names_or_none,
	   test_a_rename_may_survive_the_content_that_nobody_synced,
	   test_directory_operations_are_lost_one_by_one,
	   test_what_a_failed_sync_lost_is_never_saved,
	   test_a_size_that_a_failed_sync_lost_is_never_saved,
	   test_names_that_a_failed_sync_lost_are_never_saved,
	   test_random_crashes_leave_a_version_since_the_sync, test_threads_share_it)
