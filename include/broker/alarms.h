/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stops publishers, judged by numbers alone: memory in use and free space on the disk of the data. Each
 * alarm ends a little later than it began, so that it does not flap. Pure: any thread.
 */
#pragma once

#include "util/base.h"

/* Which are on is in struct broker.alarms, or-ed. */
enum alarm {
	ALARM_MEMORY = 1, // the memory limit was reached, and there is no room yet
	ALARM_DISK = 2	  // little is free on the disk, or the store could not get what it needs
};

/* Octets that publishers may bring in until used is at the limit; once the alarm is on, 0 until that has
 * fallen to 95 % of the limit. UINT64_MAX when the limit is 0: there is none. */
uint64_t alarm_memory_room(uint64_t limit, uint64_t used, bool on);
/* The limit of free space that counts when this one is wanted: never less than what must be left so that
 * freeing space does not need space that is not there, one file of the log for marks and two for a
 * compaction. */
uint64_t alarm_disk_limit(uint64_t wanted, uint64_t file_size);
/* Whether too little is free. Once the alarm is on, a file of the log or 5 % of the limit more than that
 * must be free to end it, whichever is more: else the next file would bring it back. */
bool alarm_disk_low(uint64_t limit, uint64_t file_size, uint64_t free_space, bool on);
/* The reason that clients are told (amqp.md 10); one alarm at least is on. Static. */
const char *alarm_reason(unsigned alarms);
