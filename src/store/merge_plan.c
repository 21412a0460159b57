/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which segments to merge: a pure function of their sizes, so that it can be read, and tested, alone.
 */
#include "merge.h"

/* One octet of so many must be garbage, or the copy costs more than it gives. */
#define WORTH 4

static uint64_t
garbage(const struct merge_size *size)
{
	return size->octets - min_u64(size->octets, size->live);
}

bool
merge_is_worth(const struct merge_size *size)
{
	return garbage(size) > 0 && garbage(size) >= size->octets / WORTH;
}

bool
merge_is_due(const struct merge_size *sizes, size_t count, uint32_t percent, uint32_t files)
{
	uint64_t octets = 0;
	uint64_t dead = 0;

	for (size_t i = 0; i < count; i++) {
		octets += sizes[i].octets;
		dead += garbage(&sizes[i]);
	}
	return count >= files && dead * 100 >= octets * percent && dead > 0;
}

/* The neighbours that fit into one segment and give the most back, the first ones of several. */
static bool
best_pair(const struct merge_size *sizes, size_t count, uint64_t limit, size_t *left)
{
	uint64_t best = 0;

	for (size_t i = 0; i + 1 < count; i++) {
		struct merge_size both = {
			.octets = sizes[i].octets + sizes[i + 1].octets,
			.live = sizes[i].live + sizes[i + 1].live,
		};

		if (!sizes[i].eligible || !sizes[i + 1].eligible || garbage(&both) <= best ||
		    !merge_is_worth(&both) || both.live > limit)
			continue;
		best = garbage(&both);
		*left = i;
	}
	return best > 0;
}

/* The one that gives the most back, when that is worth the copy. */
static bool
best_alone(const struct merge_size *sizes, size_t count, size_t *left)
{
	uint64_t best = 0;

	for (size_t i = 0; i < count; i++) {
		if (!sizes[i].eligible || garbage(&sizes[i]) <= best || !merge_is_worth(&sizes[i]))
			continue;
		best = garbage(&sizes[i]);
		*left = i;
	}
	return best > 0;
}

enum merge_choice
merge_plan(const struct merge_size *sizes, size_t count, uint64_t limit, size_t *left)
{
	if (best_pair(sizes, count, limit, left))
		return MERGE_PAIR;
	return best_alone(sizes, count, left) ? MERGE_ALONE : MERGE_NOTHING;
}
