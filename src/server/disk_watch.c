/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to look at the free space, and what follows.
 */
#include "server/disk_watch.h"

#include "broker/alarms.h"
#include "util/log.h"

/* From one look to the next. */
#define LOOK_MS 1000

static bool
alarm_is_on(const struct disk_watch *watch)
{
	return (watch->broker->alarms & ALARM_DISK) != 0;
}

static void
on_look(struct deadline *deadline, uint64_t now_ms)
{
	struct disk_watch *watch = container_of(deadline, struct disk_watch, look);

	(void)now_ms;
	watch->looking = true;
	store_ask_space(watch->store, alarm_is_on(watch));
}

void
disk_watch_init(struct disk_watch *watch, struct broker *broker, uint64_t file_size)
{
	*watch = (struct disk_watch){
		.broker = broker,
		.look = {.run = on_look},
		.file_size = file_size,
		.wanted = UINT64_MAX,
		.free_space = -1,
	};
}

void
disk_watch_fini(struct disk_watch *watch)
{
	deadline_clear(watch->broker->deadlines, &watch->look);
}

static void
set_low(struct disk_watch *watch, bool low)
{
	if (low == watch->low)
		return;
	watch->low = low;
	if (low)
		log_warn("disk space is low: publishers wait free=%lld limit=%llu",
			 (long long)watch->free_space, (unsigned long long)watch->limit);
	else
		log_info("disk space is there again: publishers go on free=%lld limit=%llu",
			 (long long)watch->free_space, (unsigned long long)watch->limit);
}

static void
judge(struct disk_watch *watch)
{
	/* what cannot be known stops nobody: the store says when it runs short */
	set_low(watch, watch->free_space >= 0 && watch->limit != 0 &&
			       alarm_disk_low(watch->limit, watch->file_size,
					      (uint64_t)watch->free_space, watch->low));
	if (watch->low || watch->is_short)
		watch->broker->alarms |= ALARM_DISK;
	else
		watch->broker->alarms &= ~(unsigned)ALARM_DISK;
}

void
disk_watch_set_limit(struct disk_watch *watch, uint64_t wanted)
{
	uint64_t limit = alarm_disk_limit(wanted, watch->file_size);

	if (limit != wanted && wanted != watch->wanted)
		log_warn("disk_free_limit is %llu: %llu counts, the room of three files of the log",
			 (unsigned long long)wanted, (unsigned long long)limit);
	watch->wanted = wanted;
	watch->limit = limit;
	judge(watch);
}

void
disk_watch_told(struct disk_watch *watch, int64_t free_space)
{
	if (free_space < 0 && watch->free_space >= 0)
		log_warn("the free space of the disk cannot be known: %s",
			 strerror((int)-free_space));
	watch->looking = false;
	watch->free_space = free_space;
	watch->looked_ms = watch->broker->now.monotonic_ms;
	judge(watch);
}

void
disk_watch_short(struct disk_watch *watch, bool is_short)
{
	watch->is_short = is_short;
	if (!is_short)
		log_info("the disk has room for the log again");
	judge(watch);
}

void
disk_watch_turn(struct disk_watch *watch, bool published)
{
	uint64_t now_ms = watch->broker->now.monotonic_ms;

	if ((!published && !alarm_is_on(watch)) || watch->looking || watch->store == NULL ||
	    deadline_is_set(&watch->look))
		return;
	deadline_set(watch->broker->deadlines, &watch->look,
		     watch->looked_ms == 0 ? now_ms : max_u64(now_ms, watch->looked_ms + LOOK_MS));
}
