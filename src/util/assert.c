/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a process that no longer believes itself: one log line, the backtrace, abort. The core
 * and the backtrace are worth more than a broker that goes on with broken state. Any thread.
 */
#include "util/base.h"

#include <execinfo.h>
#include <stdlib.h>

#include "util/log.h"

#include "internal.h"

#define FRAMES_MAX 64

_Thread_local enum thread_role thread_role = THREAD_ANY;

void
assert_failed(const char *condition, const char *file, int line)
{
	void *frames[FRAMES_MAX];

	log_write(NULL, LOG_ERROR, "Assertion failed, this is a bug: %s at=%s:%d", condition, file,
		  line);
	backtrace_symbols_fd(frames, backtrace(frames, FRAMES_MAX), log_fd());
	abort();
}
