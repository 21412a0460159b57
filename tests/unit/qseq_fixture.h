/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers for the tests of settled numbers: the seed is printed, and QSEQ_SEED repeats a run. Each
 * test of a program starts with the same seed.
 */
#pragma once

#include <stdio.h>
#include <time.h>

#include "util/base.h"

#include "lib/runner.h"

#define SPAN 65536ULL // numbers of one container

static uint64_t random_state;

/* Before the tests fork, so that all have the same. */
RUN_AT_START
static void
choose_seed(void)
{
	const char *wanted = getenv("QSEQ_SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	random_state = wanted != NULL
			       ? strtoull(wanted, NULL, 10)
			       : (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	printf("QSEQ_SEED=%llu\n", (unsigned long long)random_state);
	fflush(stdout);
}

/* A number below limit. */
static uint64_t
pick(uint64_t limit)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z ^ z >> 31) % limit;
}
