/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real disk in a folder of its own. What survives a crash cannot be seen from here; what each call
 * does, which errors it gives, and that locks and descriptors go as promised can.
 */
#include "util/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/mem.h"

#include "lib/runner.h"

static char root[64];
static struct disk *disk;
static unsigned listed; // bit n: the file named by the digit n

static void
set_up(void)
{
	snprintf(root, sizeof(root), "/tmp/test-disk-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(disk_new(&disk, root), 0);
}

static void
tear_down(void)
{
	char command[128];

	disk_free(&disk);
	ck_assert_ptr_null(disk);
	snprintf(command, sizeof(command), "rm -r '%s'", root);
	ck_assert_int_eq(system(command), 0);
}

static struct disk_file *
must_open(const char *path, enum disk_mode mode)
{
	struct disk_file *file = NULL;

	ck_assert_int_eq(disk_open(disk, path, mode, &file), 0);
	return file;
}

static void
note_name(void *context, const char *name)
{
	ck_assert_ptr_eq(context, &listed);
	ck_assert_uint_eq(strlen(name), 1);
	listed |= 1U << (name[0] - '0');
}

START_TEST(test_root_must_exist)
{
	struct disk *none = NULL;

	ck_assert_int_eq(disk_new(&none, "/nonexistent/folder"), -ENOENT);
	ck_assert_ptr_null(none);
}
END_TEST

START_TEST(test_modes_of_open)
{
	struct disk_file *file = NULL;
	char octet;

	ck_assert_int_eq(disk_open(disk, "a", DISK_READ, &file), -ENOENT);
	ck_assert_int_eq(disk_open(disk, "a", DISK_WRITE, &file), -ENOENT);
	ck_assert_int_eq(disk_open(disk, "no/a", DISK_CREATE, &file), -ENOENT);
	file = must_open("a", DISK_CREATE);
	ck_assert_int_eq(disk_size(file), 0);
	ck_assert_int_eq(disk_write(file, "x", 1, 0), 0);
	disk_close(&file);
	ck_assert_ptr_null(file);
	ck_assert_int_eq(disk_open(disk, "a", DISK_CREATE, &file), -EEXIST);
	file = must_open("a", DISK_READ);
	ck_assert_int_eq(disk_read(file, &octet, 1, 0), 1);
	ck_assert_int_eq(disk_write(file, "y", 1, 0), -EBADF);
	disk_close(&file);
	file = must_open("a", DISK_WRITE);
	ck_assert_int_eq(disk_write(file, "y", 1, 0), 0);
	ck_assert_int_eq(disk_read(file, &octet, 1, 0), 1);
	ck_assert_int_eq(octet, 'y');
	disk_close(&file);
}
END_TEST

START_TEST(test_reads_are_short_only_at_the_end)
{
	struct disk_file *file = must_open("a", DISK_CREATE);
	char text[16];

	ck_assert_int_eq(disk_write(file, "hello", 5, 3), 0);
	ck_assert_int_eq(disk_size(file), 8);
	ck_assert_int_eq(disk_read(file, text, 16, 0), 8);
	ck_assert_int_eq(memcmp(text, "\0\0\0hello", 8), 0);
	ck_assert_int_eq(disk_read(file, text, 2, 4), 2);
	ck_assert_int_eq(memcmp(text, "el", 2), 0);
	ck_assert_int_eq(disk_read(file, text, 16, 8), 0);
	ck_assert_int_eq(disk_read(file, text, 16, 1000), 0);
	ck_assert_int_eq(disk_sync(file), 0);
	disk_close(&file);
}
END_TEST

START_TEST(test_truncate_cuts_and_lengthens)
{
	struct disk_file *file = must_open("a", DISK_CREATE);
	char text[8];

	ck_assert_int_eq(disk_write(file, "abcdef", 6, 0), 0);
	ck_assert_int_eq(disk_truncate(file, 2), 0);
	ck_assert_int_eq(disk_size(file), 2);
	ck_assert_int_eq(disk_truncate(file, 5), 0);
	ck_assert_int_eq(disk_read(file, text, 8, 0), 5);
	ck_assert_int_eq(memcmp(text, "ab\0\0\0", 5), 0);
	disk_close(&file);
}
END_TEST

START_TEST(test_allocate_grows_keeps_content_and_never_cuts)
{
	struct disk_file *file = must_open("a", DISK_CREATE);
	struct stat status;
	char path[96], text[8];

	ck_assert_int_eq(disk_allocate(file, 0), 0);
	ck_assert_int_eq(disk_write(file, "abc", 3, 0), 0);
	ck_assert_int_eq(disk_allocate(file, 200000), 0);
	ck_assert_int_eq(disk_size(file), 200000);
	ck_assert_int_eq(disk_allocate(file, 100), 0);
	ck_assert_int_eq(disk_size(file), 200000);
	ck_assert_int_eq(disk_read(file, text, 4, 0), 4);
	ck_assert_int_eq(memcmp(text, "abc", 4), 0);
	snprintf(path, sizeof(path), "%s/a", root);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_int_ge(status.st_blocks * 512, 200000);
	ck_assert_uint_eq(status.st_mode & 0777, 0600);
	disk_close(&file);
}
END_TEST

/* The largest file that the process may make stands for a disk that is full. */
START_TEST(test_a_file_that_cannot_grow_is_an_error)
{
	struct disk_file *file = must_open("a", DISK_CREATE);
	struct rlimit limit = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
	char *block = xcalloc(1, 200000);

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(disk_write(file, block, 200000, 0), -EFBIG);
	ck_assert_int_eq(disk_size(file), 100000);
	ck_assert_int_eq(disk_allocate(file, 200000), -EFBIG);
	xfree(block);
	disk_close(&file);
}
END_TEST

START_TEST(test_names_move_and_go)
{
	struct disk_file *file;
	char octet = 0;

	ck_assert_int_eq(disk_mkdir(disk, "log"), 0);
	ck_assert_int_eq(disk_mkdir(disk, "log"), 0);
	file = must_open("log/1", DISK_CREATE);
	ck_assert_int_eq(disk_mkdir(disk, "log"), 0);
	ck_assert_int_eq(disk_write(file, "1", 1, 0), 0);
	disk_close(&file);
	file = must_open("log/2", DISK_CREATE);
	disk_close(&file);
	ck_assert_int_eq(disk_rename(disk, "log/3", "log/1"), -ENOENT);
	ck_assert_int_eq(disk_rename(disk, "log/1", "log/2"), 0);
	ck_assert_int_eq(disk_open(disk, "log/1", DISK_READ, &file), -ENOENT);
	file = must_open("log/2", DISK_READ);
	ck_assert_int_eq(disk_read(file, &octet, 1, 0), 1);
	ck_assert_int_eq(octet, '1');
	ck_assert_int_eq(disk_unlink(disk, "log/2"), 0);
	ck_assert_int_eq(disk_unlink(disk, "log/2"), -ENOENT);
	ck_assert_int_eq(disk_read(file, &octet, 1, 0), 1);
	disk_close(&file);
	ck_assert_int_eq(disk_sync_dir(disk, "log"), 0);
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	ck_assert_int_eq(disk_sync_dir(disk, "no"), -ENOENT);
}
END_TEST

START_TEST(test_mkdir_over_a_file_fails)
{
	struct disk_file *file = must_open("log", DISK_CREATE);

	disk_close(&file);
	ck_assert_int_eq(disk_mkdir(disk, "log"), -ENOTDIR);
}
END_TEST

START_TEST(test_list_gives_files_and_no_folders)
{
	static const char *const names[] = {"1", "log/2", "log/3", "log/5"};

	ck_assert_int_eq(disk_mkdir(disk, "log"), 0);
	for (size_t i = 0; i < countof(names); i++) {
		struct disk_file *file = must_open(names[i], DISK_CREATE);

		disk_close(&file);
	}
	ck_assert_int_eq(disk_list(disk, "", note_name, &listed), 0);
	ck_assert_uint_eq(listed, 1U << 1);
	listed = 0;
	ck_assert_int_eq(disk_list(disk, "log", note_name, &listed), 0);
	ck_assert_uint_eq(listed, 1U << 2 | 1U << 3 | 1U << 5);
	ck_assert_int_eq(disk_list(disk, "no", note_name, &listed), -ENOENT);
}
END_TEST

START_TEST(test_lock_is_for_one_until_its_disk_is_freed)
{
	struct disk *other = NULL;
	struct disk_file *file;
	char text[32] = "";

	ck_assert_int_eq(disk_new(&other, root), 0);
	ck_assert_int_eq(disk_lock(disk, "lock"), 0);
	ck_assert_int_eq(disk_lock(other, "lock"), -EWOULDBLOCK);
	ck_assert_int_eq(disk_lock(disk, "lock"), -EWOULDBLOCK);
	ck_assert_int_eq(disk_lock(disk, "another"), 0);
	file = must_open("lock", DISK_READ);
	ck_assert_int_gt(disk_read(file, text, sizeof(text) - 1, 0), 0);
	ck_assert_int_eq(strtol(text, NULL, 10), getpid());
	disk_close(&file);
	disk_free(&disk);
	ck_assert_int_eq(disk_lock(other, "lock"), 0);
	disk_free(&other);
	ck_assert_int_eq(disk_new(&disk, root), 0);
}
END_TEST

START_TEST(test_lock_ends_with_the_process)
{
	int ready[2], status;
	char octet;
	pid_t child;

	ck_assert_int_eq(pipe(ready), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		octet = disk_lock(disk, "lock") == 0 ? 'y' : 'n';
		if (write(ready[1], &octet, 1) != 1)
			_exit(1);
		pause();
		_exit(1);
	}
	ck_assert_int_eq(read(ready[0], &octet, 1), 1);
	ck_assert_int_eq(octet, 'y');
	ck_assert_int_eq(disk_lock(disk, "lock"), -EWOULDBLOCK);
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(disk_lock(disk, "lock"), 0);
	close(ready[0]);
	close(ready[1]);
}
END_TEST

START_TEST(test_descriptors_do_not_reach_other_programs)
{
	struct disk_file *file = must_open("a", DISK_CREATE);
	int first = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(disk_lock(disk, "lock"), 0);
	ck_assert_int_ge(first, 0);
	for (int fd = 3; fd <= first + 2; fd++) {
		char link[64], target[256];
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, target, sizeof(target) - 1);
		if (n < 0 || strncmp(target, root, strlen(root)) != 0)
			continue;
		ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	}
	close(first);
	disk_close(&file);
}
END_TEST

START_TEST(test_free_space_is_what_the_system_says)
{
	int64_t space = disk_free_space(disk);

	ck_assert_int_gt(space, 0);
}
END_TEST

static void *
write_and_lock(void *number)
{
	char path[24], block[512];
	struct disk_file *file;

	snprintf(path, sizeof(path), "lock%d", *(int *)number);
	ck_assert_int_eq(disk_lock(disk, path), 0);
	snprintf(path, sizeof(path), "file%d", *(int *)number);
	file = must_open(path, DISK_CREATE);
	memset(block, *(int *)number, sizeof(block));
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(disk_write(file, block, sizeof(block), (uint64_t)i * 512), 0);
	ck_assert_int_eq(disk_size(file), 50 * 512);
	disk_close(&file);
	return NULL;
}

START_TEST(test_threads_share_a_disk)
{
	pthread_t threads[4];
	int numbers[4] = {1, 2, 3, 4};

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, write_and_lock, &numbers[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(disk_lock(disk, "lock1"), -EWOULDBLOCK);
	ck_assert_int_eq(disk_lock(disk, "lock4"), -EWOULDBLOCK);
}
END_TEST

TESTS_WITH("disk", set_up, tear_down, test_root_must_exist, test_modes_of_open,
	   test_reads_are_short_only_at_the_end, test_truncate_cuts_and_lengthens,
	   test_allocate_grows_keeps_content_and_never_cuts,
	   test_a_file_that_cannot_grow_is_an_error, test_names_move_and_go,
	   test_mkdir_over_a_file_fails, test_list_gives_files_and_no_folders,
	   test_lock_is_for_one_until_its_disk_is_freed, test_lock_ends_with_the_process,
	   test_descriptors_do_not_reach_other_programs, test_free_space_is_what_the_system_says,
	   test_threads_share_a_disk)
