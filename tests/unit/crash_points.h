/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk as it was before each call that changes it, and what was reported stable then: a test notes these points
 * while it works, and looks at a broker that was started on each of them after a crash.
 */
#pragma once

#include "broker/internal.h"
#include "unit/cold_fixture.h"

#define CRASH_POINTS 2000

static struct {
	struct disk_sim *disk; // owns
	uint64_t stable;
} points[CRASH_POINTS];
static size_t point_count;

/* The hook of a disk. */
static inline void
note_point(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	(void)context;
	if (call->over || call->kind >= SIM_OPEN)
		return;
	ck_assert_uint_lt(point_count, CRASH_POINTS);
	points[point_count].stable = stable;
	points[point_count++].disk = disk_sim_clone(sim);
}

/* check looks at the broker as it is after a crash there. */
static inline void
check_crash(size_t at, enum disk_sim_survival how, void (*check)(size_t at))
{
	disk = disk_sim_clone(points[at].disk);
	disk_sim_crash(disk, how, at);
	reopen_all();
	check(at);
	close_all(true);
	disk_sim_free(&disk);
}

/* Ends the noting, of more points than least, and checks each of them in three states of the disk. */
static inline void
check_points(const char *what, size_t least, void (*check)(size_t at))
{
	static const enum disk_sim_survival ways[] = {SIM_NOTHING, SIM_EVERYTHING, SIM_RANDOM};
	struct disk_sim *whole = disk;

	disk->hook = NULL;
	ck_assert_uint_gt(point_count, least);
	close_all(true);
	for (size_t at = 0; at < point_count; at++) {
		for (size_t how = 0; how < countof(ways); how++)
			check_crash(at, ways[how], check);
		disk_sim_free(&points[at].disk);
	}
	printf("%s: %zu points, each recovered in three states\n", what, point_count);
	point_count = 0;
	disk = whole;
	reopen_all();
}
