/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line each, to stderr or a file: time, level, sentence with key=value context.
 * error: someone must act; warn: odd but handled; info: life cycle; debug: each method. Nothing for
 * each message. A call site that logs too often is held back and its suppressed lines are counted.
 * Any thread (a line is one write).
 */
#pragma once

#include <stdatomic.h>

#include "util/base.h"

enum log_level {
	LOG_NONE,
	LOG_ERROR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG
};

/* At most so many lines a second from one call site. */
#define LOG_BURST 20

/* One per call site: what it asked for lately. Lines over LOG_BURST are dropped and counted; the
 * next line in a later second is preceded by one that tells the number. */
struct log_site {
	_Atomic uint64_t second; // the second that count belongs to
	_Atomic uint32_t count;	 // lines asked for in that second
};

extern _Atomic int log_level_now; // private to log.c and log_get_level()

/* What is logged from now on; levels above are dropped. Default: LOG_INFO to stderr. */
void log_set_level(enum log_level level);
static inline enum log_level
log_get_level(void)
{
	return (enum log_level)atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

/* Appends to the file from now on (NULL: stderr). 0 or a negative errno; on error nothing
 * changes. */
int log_set_file(const char *path) MUST_CHECK;
/* Opens the same file anew after it was moved away (SIGHUP). */
int log_reopen(void) MUST_CHECK;
/* "debug", "info", "warning", "error", "none" and RabbitMQ's other names; false when unknown. */
bool log_level_parse(const char *name, enum log_level *level);

/* Writes the line; a site of NULL is never held back. Control characters become '?', a line over 4
 * KiB is cut. Use the macros below, which look at the level first. */
void log_write(struct log_site *site, enum log_level level, const char *format, ...)
	PRINTF_LIKE(3, 4);

#define log_at(level, ...)                                           \
	do {                                                         \
		static struct log_site log_site_;                    \
		if ((level) <= log_get_level())                      \
			log_write(&log_site_, (level), __VA_ARGS__); \
	} while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
