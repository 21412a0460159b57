/* SPDX-License-Identifier: Apache-2.0 */
/* The log: form of a line, levels, hostile text, files and their reopening, what is held back, and
 * the last line of a failed assertion. */
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/buf.h"
#include "util/clock.h"

#include "lib/runner.h"

static char directory[64];
static char path[96];
static char moved[96];
static struct buf content;

static void
set_up(void)
{
	snprintf(directory, sizeof(directory), "/tmp/test_log.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/log", directory);
	snprintf(moved, sizeof(moved), "%s/log.1", directory);
	buf_init(&content, 0);
	log_set_level(LOG_INFO);
	ck_assert_int_eq(log_set_file(path), 0);
}

static void
tear_down(void)
{
	ck_assert_int_eq(log_set_file(NULL), 0);
	buf_fini(&content);
	unlink(path);
	unlink(moved);
	rmdir(directory);
}

static const char *
read_file(const char *name)
{
	int fd = open(name, O_RDONLY);
	ssize_t n;

	ck_assert_int_ge(fd, 0);
	buf_clear(&content);
	while ((n = read(fd, buf_reserve(&content, 4096), 4096)) > 0)
		content.n += (size_t)n;
	close(fd);
	return buf_cstr(&content);
}

static size_t
lines_in(const char *text)
{
	size_t count = 0;

	for (; *text != '\0'; text++)
		count += *text == '\n';
	return count;
}

START_TEST(test_form_of_a_line)
{
	const char *text;
	int year, month, day, hour, minute, second, ms, length = 0;

	log_info("Listening on port=%d", 5672);
	text = read_file(path);
	ck_assert_int_eq(sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &year, &month, &day, &hour,
				&minute, &second, &ms, &length),
			 7);
	ck_assert_int_eq(length, 25);
	ck_assert_str_eq(text + length, "info  Listening on port=5672\n");
}
END_TEST

START_TEST(test_levels_above_the_set_one_are_dropped)
{
	log_debug("unseen");
	log_set_level(LOG_ERROR);
	log_warn("unseen");
	log_error("seen");
	log_set_level(LOG_DEBUG);
	log_debug("seen too");
	log_set_level(LOG_NONE);
	log_error("unseen");
	ck_assert_uint_eq(lines_in(read_file(path)), 2);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&content), " error seen\n"));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&content), " debug seen too\n"));
}
END_TEST

START_TEST(test_level_names)
{
	enum log_level level = LOG_NONE;

	ck_assert(log_level_parse("debug", &level) && level == LOG_DEBUG);
	ck_assert(log_level_parse("info", &level) && level == LOG_INFO);
	ck_assert(log_level_parse("notice", &level) && level == LOG_INFO);
	ck_assert(log_level_parse("warning", &level) && level == LOG_WARN);
	ck_assert(log_level_parse("error", &level) && level == LOG_ERROR);
	ck_assert(log_level_parse("critical", &level) && level == LOG_ERROR);
	ck_assert(log_level_parse("none", &level) && level == LOG_NONE);
	ck_assert(!log_level_parse("loud", &level));
	ck_assert(!log_level_parse("", &level));
}
END_TEST

START_TEST(test_text_of_a_peer_cannot_forge_a_line)
{
	log_info("user=%s", "a\n2026-01-01T00:00:00.000Z info  b\x1b[0m\x7f");
	ck_assert_uint_eq(lines_in(read_file(path)), 1);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&content), "b?[0m?\n"));
}
END_TEST

START_TEST(test_long_line_is_cut_and_still_a_line)
{
	log_info("%*d", 10000, 1);
	read_file(path);
	ck_assert_uint_le(content.n, 4097);
	ck_assert_uint_ge(content.n, 4000);
	ck_assert_uint_eq(lines_in(buf_cstr(&content)), 1);
	ck_assert_int_eq(content.p[content.n - 1], '\n');
}
END_TEST

START_TEST(test_reopen_writes_to_the_new_file)
{
	log_info("before");
	ck_assert_int_eq(rename(path, moved), 0);
	log_info("moved");
	ck_assert_int_eq(log_reopen(), 0);
	log_info("after");
	ck_assert_uint_eq(lines_in(read_file(moved)), 2);
	ck_assert_uint_eq(lines_in(read_file(path)), 1);
}
END_TEST

START_TEST(test_file_that_cannot_be_opened_changes_nothing)
{
	ck_assert_int_eq(log_set_file("/nonexistent/log"), -ENOENT);
	log_info("still here");
	ck_assert_uint_eq(lines_in(read_file(path)), 1);
	ck_assert_int_eq(log_reopen(), 0);
}
END_TEST

START_TEST(test_noisy_site_is_held_back_and_counted)
{
	uint64_t now_s = clock_read().wall_ms / 1000;
	/* A second far away: the lines of this test cannot fall into two seconds of the same
	 * site. */
	struct log_site site = {.second = now_s - 100, .count = LOG_BURST + 7};

	log_write(&site, LOG_WARN, "noise");
	ck_assert_uint_eq(lines_in(read_file(path)), 2);
	ck_assert_ptr_nonnull(
		strstr(buf_cstr(&content), " warn  7 lines like this were held back\n"));
}
END_TEST

START_TEST(test_burst_is_limited)
{
	uint64_t before = clock_read().wall_ms / 1000;
	uint64_t seconds;

	for (int i = 0; i < 1000; i++)
		log_warn("noise %d", i);
	seconds = clock_read().wall_ms / 1000 - before + 1;
	ck_assert_uint_ge(lines_in(read_file(path)), LOG_BURST);
	ck_assert_uint_le(lines_in(read_file(path)), seconds * (LOG_BURST + 1));
	/* Another site is not concerned. */
	log_warn("quiet");
	ck_assert_ptr_nonnull(strstr(read_file(path), "quiet"));
}
END_TEST

START_TEST(test_no_site_is_never_held_back)
{
	for (int i = 0; i < 100; i++)
		log_write(NULL, LOG_INFO, "line %d", i);
	ck_assert_uint_eq(lines_in(read_file(path)), 100);
}
END_TEST

START_TEST(test_failed_assertion_logs_and_aborts)
{
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		volatile int one = 1;

		assert(one == 2);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGABRT);
	ck_assert_ptr_nonnull(strstr(read_file(path), "one == 2 at="));
	ck_assert_uint_ge(lines_in(buf_cstr(&content)), 2);
}
END_TEST

TESTS_WITH("log", set_up, tear_down, test_form_of_a_line, test_levels_above_the_set_one_are_dropped,
	   test_level_names, test_text_of_a_peer_cannot_forge_a_line,
	   test_long_line_is_cut_and_still_a_line, test_reopen_writes_to_the_new_file,
	   test_file_that_cannot_be_opened_changes_nothing,
	   test_noisy_site_is_held_back_and_counted, test_burst_is_limited,
	   test_no_site_is_never_held_back, test_failed_assertion_logs_and_aborts)
