/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time, read once a turn and passed down; no other layer reads a clock. Tests turn it by hand.
 */
#pragma once

#include "util/base.h"

struct now {
	uint64_t monotonic_ms; // never goes back; for deadlines
	uint64_t wall_ms;      // since 1970; for what people and other machines see
};

/* Reads both clocks. */
struct now clock_read(void);
/* Microseconds of the monotonic clock, for measuring (perf, logs of duration). */
uint64_t clock_monotonic_us(void);
