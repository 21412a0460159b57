/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of `store repair' share.
 */
#pragma once

#include "reading.h"

/* A range of a file that cannot be used. */
struct damaged_range {
	char *path; // owns
	uint64_t offset;
	uint64_t size;	    // 0: not in one piece
	uint64_t first_lsn; // records lost with it; 0: none is known
	uint64_t last_lsn;
	uint64_t readable; // of those
};

struct repair {
	struct reading reading;
	const struct ctl_arguments *arguments;
	struct damaged_range *ranges; // own
	size_t range_count;
	size_t range_room;
	uint64_t first_lost; // the lowest LSN that is lost; UINT64_MAX: none is known
	uint64_t kept;	     // open messages that can be kept, in queues
	uint64_t unwritable; // of them with what this version does not write
	uint64_t octets;     // of their records
};

/* Writes what repair->reading has as a new store into a folder that exists and is empty. 0 or a negative errno,
 * with a line on stderr. */
int repair_write(struct repair *repair, const char *folder) MUST_CHECK;
