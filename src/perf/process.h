/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process has used: CPU time of all its threads and resident memory. Linux's /proc.
 */
#pragma once

#include "util/base.h"

struct process_usage {
	uint64_t cpu_us;    // user and system; other processes in steps of 10 ms
	uint64_t rss_bytes; // resident now
};

/* Of any process; false when there is no such one. */
bool process_usage(uint64_t pid, struct process_usage *usage) MUST_CHECK;
/* Microseconds of CPU time that this program has used. */
uint64_t process_own_cpu_us(void);
/* Allows as many open files as the system lets us. */
void process_raise_files(void);
