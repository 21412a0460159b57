/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the free space of the data directory's disk and sets the broker's alarm by it. It looks once a second
 * while anybody publishes or the alarm is on, and whenever a file of the log was made; an idle broker is not
 * woken. The looking is done by the store's helper thread, since it may wait for the disk. Broker thread.
 */
#pragma once

#include "broker/broker.h"
#include "store/store.h"

struct disk_watch {
	struct broker *broker; // borrows
	struct store *store;   // borrows; NULL: it is not open yet
	struct deadline look;  // when to look next
	uint64_t file_size;    // octets of one file of the log
	uint64_t wanted;       // octets that should be free; UINT64_MAX: not known yet
	uint64_t limit;	       // octets that must be free; 0: not known yet
	int64_t free_space;    // at the last look; negative: not known
	uint64_t looked_ms;    // when that was
	bool looking;	       // an answer is due
	bool low;	       // less than the limit is free
	bool is_short;	       // the store could not get what it needs
};

void disk_watch_init(struct disk_watch *watch, struct broker *broker, uint64_t file_size);
/* Before the broker's deadlines end. */
void disk_watch_fini(struct disk_watch *watch);
/* The octets that should be free, as configured; less than the reserve (alarms.h) is raised to it, with a warning
 * in the log. Takes effect at once. */
void disk_watch_set_limit(struct disk_watch *watch, uint64_t wanted);
/* The store's news: so many octets are free (negative: it cannot be known), and whether it ran short. */
void disk_watch_told(struct disk_watch *watch, int64_t free_space);
void disk_watch_short(struct disk_watch *watch, bool is_short);
/* At the end of a turn: decides when to look next. published: somebody did in this turn. */
void disk_watch_turn(struct disk_watch *watch, bool published);
