/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log. A line is put together on the stack and written with one write(), so lines of several
 * threads never mix and no lock is needed; what threads share are three atomics: the level, the
 * descriptor, and each site's counter. The counters may be off by a line when two threads log from
 * one site at the same instant, which harms nobody.
 *
 * The log file keeps one descriptor number for life: reopening puts the new file under the same
 * number, so a thread in the middle of a write never holds a number that was given to something
 * else. Setting and reopening the file is the broker thread's; writing is anyone's.
 */
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/mem.h"

#include "internal.h"

#define LINE_MAX_SIZE 4096

struct line {
	char text[LINE_MAX_SIZE + 1]; // one more for the newline
	size_t n;		      // characters in it
};

_Atomic int log_level_now = LOG_INFO;

static _Atomic int current_fd = STDERR_FILENO;
static int file_fd = -1; // the number that log files are opened under, -1 until the first
static char *file_path;	 // owns; NULL while the log goes to stderr

static const char *const level_words[] = {
	[LOG_NONE] = "none ", [LOG_ERROR] = "error", [LOG_WARN] = "warn ",
	[LOG_INFO] = "info ", [LOG_DEBUG] = "debug",
};

void
log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_level_now, (int)level, memory_order_relaxed);
}

int
log_fd(void)
{
	return atomic_load(&current_fd);
}

/* Opens path under the number of the log file. */
static int
open_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
	int status = 0;

	if (fd < 0)
		return -errno;
	if (file_fd < 0) {
		file_fd = fd;
		return 0;
	}
	if (dup3(fd, file_fd, O_CLOEXEC) < 0)
		status = -errno;
	close(fd);
	return status;
}

int
log_set_file(const char *path)
{
	char *copy = NULL;

	if (path != NULL) {
		int status = open_file(path);

		if (status != 0)
			return status;
		copy = xstrdup(path);
	}
	/* Back on stderr the file stays open: another thread may be writing to it. */
	atomic_store(&current_fd, path != NULL ? file_fd : STDERR_FILENO);
	xfree(file_path);
	file_path = copy;
	return 0;
}

int
log_reopen(void)
{
	return file_path != NULL ? open_file(file_path) : 0;
}

bool
log_level_parse(const char *name, enum log_level *level)
{
	/* RabbitMQ knows syslog's levels; those that we do not have fall to the nearest. */
	static const struct {
		const char *name;     // as in a configuration
		enum log_level level; // what it means here
	} names[] = {
		{"debug", LOG_DEBUG},	 {"info", LOG_INFO},   {"notice", LOG_INFO},
		{"warning", LOG_WARN},	 {"warn", LOG_WARN},   {"error", LOG_ERROR},
		{"critical", LOG_ERROR}, {"alert", LOG_ERROR}, {"emergency", LOG_ERROR},
		{"none", LOG_NONE},
	};

	for (size_t i = 0; i < countof(names); i++) {
		if (strcmp(names[i].name, name) == 0) {
			*level = names[i].level;
			return true;
		}
	}
	return false;
}

static void
line_begin(struct line *line, enum log_level level, uint64_t wall_ms)
{
	time_t seconds = (time_t)(wall_ms / 1000);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	line->n = strftime(line->text, LINE_MAX_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	line->n += (size_t)snprintf(line->text + line->n, LINE_MAX_SIZE - line->n, ".%03uZ %s ",
				    (unsigned)(wall_ms % 1000), level_words[level]);
}

static PRINTF_LIKE(2, 0) void line_add(struct line *line, const char *format, va_list arguments)
{
	size_t room = LINE_MAX_SIZE - line->n;
	int wanted = vsnprintf(line->text + line->n, room, format, arguments);
	size_t begin = line->n;

	if (wanted < 0)
		return;
	line->n += min_u64((uint64_t)wanted, room - 1);
	/* Names come from peers: a newline in one must not forge a line. */
	for (size_t i = begin; i < line->n; i++) {
		if ((unsigned char)line->text[i] < ' ' || line->text[i] == 0x7f)
			line->text[i] = '?';
	}
}

static void
line_end(struct line *line)
{
	line->text[line->n++] = '\n';
	/* A log that cannot be written has nobody to tell it to. */
	if (write(log_fd(), line->text, line->n) < 0)
		return;
}

static PRINTF_LIKE(3, 4) void write_line(enum log_level level, uint64_t wall_ms, const char *format,
					 ...)
{
	struct line line;
	va_list arguments;

	line_begin(&line, level, wall_ms);
	va_start(arguments, format);
	line_add(&line, format, arguments);
	va_end(arguments);
	line_end(&line);
}

/* Counts a line of site. False when it is to be held back. */
static bool
may_write(struct log_site *site, enum log_level level, uint64_t wall_ms)
{
	uint64_t second = wall_ms / 1000;
	uint32_t before;

	if (atomic_load_explicit(&site->second, memory_order_relaxed) != second) {
		atomic_store_explicit(&site->second, second, memory_order_relaxed);
		before = atomic_exchange_explicit(&site->count, 0, memory_order_relaxed);
		if (before > LOG_BURST)
			write_line(level, wall_ms, "%u lines like this were held back",
				   (unsigned)(before - LOG_BURST));
	}
	return atomic_fetch_add_explicit(&site->count, 1, memory_order_relaxed) < LOG_BURST;
}

void
log_write(struct log_site *site, enum log_level level, const char *format, ...)
{
	uint64_t wall_ms = clock_read().wall_ms;
	struct line line;
	va_list arguments;

	if (site != NULL && !may_write(site, level, wall_ms))
		return;
	line_begin(&line, level, wall_ms);
	va_start(arguments, format);
	line_add(&line, format, arguments);
	va_end(arguments);
	line_end(&line);
}
