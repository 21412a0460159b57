/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two clocks of the system. The only file that reads them; everybody else is told the time.
 * Any thread.
 */
#include "util/clock.h"

#include <time.h>

static uint64_t
read_us(clockid_t clock)
{
	struct timespec time;
	int status = clock_gettime(clock, &time);

	assert(status == 0);
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

struct now
clock_read(void)
{
	return (struct now){
		.monotonic_ms = read_us(CLOCK_MONOTONIC) / 1000,
		.wall_ms = read_us(CLOCK_REALTIME) / 1000,
	};
}

uint64_t
clock_monotonic_us(void)
{
	return read_us(CLOCK_MONOTONIC);
}
