/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of the alarms.
 */
#include "broker/alarms.h"

/* An alarm ends this share of its limit later than it began. */
#define MARGIN_SHARE 20
/* Files of the log that must always fit: for marks, and for what a compaction writes. */
#define RESERVED_FILES 3

uint64_t
alarm_memory_room(uint64_t limit, uint64_t used, bool on)
{
	if (limit == 0)
		return UINT64_MAX;
	if (used > (on ? limit - limit / MARGIN_SHARE : limit))
		return 0;
	return limit - used;
}

uint64_t
alarm_disk_limit(uint64_t wanted, uint64_t file_size)
{
	return max_u64(wanted, RESERVED_FILES * file_size);
}

bool
alarm_disk_low(uint64_t limit, uint64_t file_size, uint64_t free_space, bool on)
{
	uint64_t margin = max_u64(limit / MARGIN_SHARE, file_size);

	if (!on)
		return free_space < limit;
	return free_space < limit || free_space - limit < margin;
}

const char *
alarm_reason(unsigned alarms)
{
	assert(alarms != 0);
	if (alarms == ALARM_MEMORY)
		return "low on memory";
	return alarms == ALARM_DISK ? "low on disk" : "low on memory & disk";
}
