/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lossy disk: a child works on it and kills itself with SIGKILL; the parent looks at the folder with
 * the real disk and finds what was synced, no more and no less. The simulated disk, which forgets by
 * the same rule, says what that is after long random work.
 */
#include "lib/disk_lossy.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/mem.h"

#include "lib/disk_pair.h"
#include "lib/disk_sim.h"
#include "lib/runner.h"

static char root[64];
static struct disk *disk; // of the parent: the real one

static void
set_up(void)
{
	snprintf(root, sizeof(root), "/tmp/test-disk-lossy-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(disk_new(&disk, root), 0);
}

static void
tear_down(void)
{
	char command[128];

	disk_free(&disk);
	snprintf(command, sizeof(command), "rm -r '%s'", root);
	ck_assert_int_eq(system(command), 0);
}

/* Runs work on a lossy disk in a child that is killed right after it. */
static void
work_and_die(void (*work)(struct disk *lossy))
{
	struct disk *lossy = NULL;
	int status = 0;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		if (disk_lossy_new(&lossy, root) == 0) {
			work(lossy);
			kill(getpid(), SIGKILL);
		}
		_exit(1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %d", status);
}

/* In the child a failed step ends it in another way than by SIGKILL. */
static void
must(bool condition)
{
	if (!condition)
		_exit(2);
}

static struct disk_file *
must_open(struct disk *on, const char *path, enum disk_mode mode)
{
	struct disk_file *file = NULL;

	must(disk_open(on, path, mode, &file) == 0);
	return file;
}

static void
put(struct disk_file *file, const char *text, uint64_t at)
{
	must(disk_write(file, text, strlen(text), at) == 0);
}

static void
check_text(struct disk *on, const char *path, const char *text)
{
	char got[64] = "";
	struct disk_file *file = NULL;
	int error = disk_open(on, path, DISK_READ, &file);

	if (text == NULL) {
		ck_assert_int_eq(error, -ENOENT);
		return;
	}
	ck_assert_int_eq(error, 0);
	ck_assert_int_ge(disk_read(file, got, sizeof(got) - 1, 0), 0);
	ck_assert_str_eq(got, text);
	disk_close(&file);
}

static void
count_name(void *context, const char *name)
{
	++*(unsigned *)context;
	(void)name;
}

static unsigned
count_files(struct disk *on)
{
	unsigned count = 0;

	ck_assert_int_eq(disk_list(on, "", count_name, &count), 0);
	return count;
}

static void
write_some(struct disk *lossy)
{
	struct disk_file *file = must_open(lossy, "a", DISK_CREATE);
	char text[32] = "";

	put(file, "saved", 0);
	must(disk_sync(file) == 0);
	must(disk_sync_dir(lossy, "") == 0);
	put(file, "lost and ", 0);
	put(file, "longer", 9);
	must(disk_read(file, text, sizeof(text), 0) == 15);
	must(strcmp(text, "lost and longer") == 0);
}

START_TEST(test_unsynced_content_is_lost)
{
	work_and_die(write_some);
	check_text(disk, "a", "saved");
	ck_assert_uint_eq(count_files(disk), 1);
}
END_TEST

static void
change_names(struct disk *lossy)
{
	struct disk_file *file;

	file = must_open(lossy, "made", DISK_CREATE);
	put(file, "content", 0);
	must(disk_sync(file) == 0);
	disk_close(&file);
	must(disk_rename(lossy, "old", "new") == 0);
	must(disk_unlink(lossy, "gone") == 0);
	must(disk_mkdir(lossy, "folder") == 0);
	must(disk_open(lossy, "gone", DISK_READ, &file) == -ENOENT);
	must(disk_open(lossy, "old", DISK_READ, &file) == -ENOENT);
	must(disk_open(lossy, "made", DISK_CREATE, &file) == -EEXIST);
}

static void
change_names_and_sync(struct disk *lossy)
{
	change_names(lossy);
	must(disk_sync_dir(lossy, "") == 0);
}

static void
make_files(void)
{
	static const char *const names[] = {"old", "gone"};

	for (size_t i = 0; i < countof(names); i++) {
		struct disk_file *file = must_open(disk, names[i], DISK_CREATE);

		put(file, names[i], 0);
		disk_close(&file);
	}
}

START_TEST(test_unsynced_names_are_lost)
{
	struct disk *lossy = NULL;

	make_files();
	work_and_die(change_names);
	check_text(disk, "made", NULL);
	check_text(disk, "old", "old");
	check_text(disk, "new", NULL);
	check_text(disk, "gone", "gone");
	ck_assert_int_eq(disk_sync_dir(disk, "folder"), -ENOENT);
	/* What the child made is there without a name, until the next start. */
	ck_assert_uint_eq(count_files(disk), 3);
	ck_assert_int_eq(disk_lossy_new(&lossy, root), 0);
	ck_assert_uint_eq(count_files(disk), 2);
	ck_assert_uint_eq(count_files(lossy), 2);
	disk_free(&lossy);
}
END_TEST

START_TEST(test_synced_names_stay)
{
	make_files();
	work_and_die(change_names_and_sync);
	check_text(disk, "made", "content");
	check_text(disk, "old", NULL);
	check_text(disk, "new", "old");
	check_text(disk, "gone", NULL);
	ck_assert_int_eq(disk_sync_dir(disk, "folder"), 0);
	ck_assert_uint_eq(count_files(disk), 2);
}
END_TEST

static void
sync_folder_before_root(struct disk *lossy)
{
	struct disk_file *file;

	must(disk_mkdir(lossy, "log") == 0);
	file = must_open(lossy, "log/a", DISK_CREATE);
	put(file, "text", 0);
	must(disk_sync(file) == 0);
	must(disk_sync_dir(lossy, "log") == 0);
	must(disk_sync_dir(lossy, "") == 0);
	put(file, "more", 4);
}

START_TEST(test_a_new_folder_keeps_what_was_synced_in_it)
{
	work_and_die(sync_folder_before_root);
	check_text(disk, "log/a", "text");
}
END_TEST

static void
replace(struct disk *lossy)
{
	struct disk_file *file = must_open(lossy, "a.tmp", DISK_CREATE);
	struct disk_file *old = must_open(lossy, "old", DISK_READ);
	char text[4];

	put(file, "new", 0);
	must(disk_sync(file) == 0);
	must(disk_rename(lossy, "a.tmp", "old") == 0);
	must(disk_sync_dir(lossy, "") == 0);
	must(disk_read(old, text, 4, 0) == 3);
	must(memcmp(text, "old", 3) == 0);
	disk_close(&old);
	put(file, "xxx", 0);
	must(disk_rename(lossy, "gone", "other") == 0);
	must(disk_rename(lossy, "old", "gone") == 0);
	must(disk_rename(lossy, "other", "old") == 0);
	must(disk_sync_dir(lossy, "") == 0);
}

START_TEST(test_renames_in_a_ring)
{
	make_files();
	work_and_die(replace);
	check_text(disk, "gone", "new");
	check_text(disk, "old", "gone");
	ck_assert_uint_eq(count_files(disk), 2);
}
END_TEST

START_TEST(test_locks_are_real)
{
	struct disk *lossy = NULL;

	ck_assert_int_eq(disk_lossy_new(&lossy, root), 0);
	ck_assert_int_eq(disk_lock(lossy, "lock"), 0);
	ck_assert_int_eq(disk_lock(disk, "lock"), -EWOULDBLOCK);
	ck_assert_uint_eq(count_files(lossy), 1);
	disk_free(&lossy);
	ck_assert_int_eq(disk_lock(disk, "lock"), 0);
}
END_TEST

START_TEST(test_hidden_files_of_a_living_process_are_left_alone)
{
	struct disk *lossy = NULL;
	struct disk_file *file;
	char name[64];

	snprintf(name, sizeof(name), ".lossy-%ld-1", (long)getppid());
	file = must_open(disk, name, DISK_CREATE);
	disk_close(&file);
	ck_assert_int_eq(disk_lossy_new(&lossy, root), 0);
	ck_assert_uint_eq(count_files(lossy), 0);
	ck_assert_uint_eq(count_files(disk), 1);
	disk_free(&lossy);
	ck_assert_int_eq(disk_lossy_new(&lossy, "/nonexistent/folder"), -ENOENT);
}
END_TEST

static uint32_t seed;

/* Random work on the lossy disk and on a simulated one. No file changes its folder: which of both folders
 * must be synced then is a matter on which they differ. */
static void
random_work(struct disk *lossy, struct disk_sim *sim)
{
	struct pair pair = {.disks = {lossy, &sim->disk}, .random = seed, .apart = true};

	for (int i = 0; i < 2; i++) {
		must(disk_mkdir(pair.disks[i], "f") == 0);
		must(disk_sync_dir(pair.disks[i], "") == 0);
	}
	for (int step = 0; step < 400; step++)
		pair_step(&pair);
	pair_close(&pair);
}

static void
random_work_of_child(struct disk *lossy)
{
	random_work(lossy, disk_sim_new());
}

/* The same folder, with the same content, on both. */
static void
check_same(struct disk *real, struct disk *sim)
{
	static const char *const names[] = {"a", "b", "f/a", "f/b"};
	static char content[2][16384];

	for (size_t i = 0; i < countof(names); i++) {
		struct disk_file *files[2] = {NULL, NULL};
		int64_t sizes[2];

		ck_assert_int_eq(disk_open(real, names[i], DISK_READ, &files[0]),
				 disk_open(sim, names[i], DISK_READ, &files[1]));
		if (files[0] == NULL)
			continue;
		for (int k = 0; k < 2; k++) {
			sizes[k] = disk_read(files[k], content[k], sizeof(content[k]), 0);
			disk_close(&files[k]);
		}
		ck_assert_int_eq(sizes[0], sizes[1]);
		ck_assert_int_eq(memcmp(content[0], content[1], (size_t)sizes[0]), 0);
	}
}

/* The random steps depend on nothing but the seed, so the parent can repeat them on a simulated disk
 * beside a second folder. */
static void
random_round(const char *other_root)
{
	char command[400];
	struct disk *lossy = NULL;
	struct disk_sim *sim = disk_sim_new();

	snprintf(command, sizeof(command), "rm -rf '%s' '%s' && mkdir '%s' '%s'", root, other_root,
		 root, other_root);
	disk_free(&disk);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(disk_new(&disk, root), 0);
	work_and_die(random_work_of_child);
	ck_assert_int_eq(disk_lossy_new(&lossy, other_root), 0);
	random_work(lossy, sim);
	disk_sim_crash(sim, SIM_NOTHING, 0);
	check_same(disk, &sim->disk);
	disk_free(&lossy);
	disk_sim_free(&sim);
}

START_TEST(test_it_forgets_as_the_simulated_disk_does)
{
	char other_root[80], command[128];

	snprintf(other_root, sizeof(other_root), "%s-2", root);
	for (seed = 1; seed <= 40; seed++)
		random_round(other_root);
	snprintf(command, sizeof(command), "rm -r '%s'", other_root);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(test_without_a_crash_it_is_like_the_simulated_disk)
{
	struct disk *lossy = NULL;
	struct disk_sim *sim = disk_sim_new();

	seed = 4711;
	ck_assert_int_eq(disk_lossy_new(&lossy, root), 0);
	for (; seed < 4731; seed++)
		random_work(lossy, sim);
	disk_free(&lossy);
	disk_sim_free(&sim);
}
END_TEST

TESTS_WITH("disk_lossy", set_up, tear_down, test_unsynced_content_is_lost,
	   test_unsynced_names_are_lost, test_synced_names_stay,
	   test_a_new_folder_keeps_what_was_synced_in_it, test_renames_in_a_ring,
	   test_locks_are_real, test_hidden_files_of_a_living_process_are_left_alone,
	   test_it_forgets_as_the_simulated_disk_does,
	   test_without_a_crash_it_is_like_the_simulated_disk)
