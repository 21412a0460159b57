/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this program says that it cannot go on: one line on stderr, exit status 1.
 */
#pragma once

#include "util/base.h"

/* Prints "pannier-perf: ..." and returns EXIT_FAILURE. */
int complain(const char *format, ...) PRINTF_LIKE(1, 2);
/* The same, and ends the program. The broker sees the connections break. */
NO_RETURN void fail(const char *format, ...) PRINTF_LIKE(1, 2);
