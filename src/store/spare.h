/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the log that will be used again. Their blocks were written before, so a batch in them is synced
 * sooner than in blocks that were only allocated. What they hold has the salts of segments that are gone
 * (format.h), so nothing of it is taken for records. Under their names, log/ID.spare, they are no segments; a
 * start takes over those that it finds. Helper thread, or recovery.
 */
#pragma once

#include "internal.h"

#define SPARES_MAX 4

struct spares {
	struct disk *disk;	  // borrows for good
	uint64_t ids[SPARES_MAX]; // whose names they have
	size_t count;
	bool unwanted; // the disk is low
};

/* Octets that a file must have to be kept. */
static inline uint64_t
spare_least(const struct store *store)
{
	return store->options.file_size / 2;
}

#define SPARE_SUFFIX ".spare"

/* Nobody needs segment id any more, which has so many octets: its file becomes a spare one, or goes. least: octets
 * that a spare one has. 0 when it is no segment any more, for certain, or a negative errno. */
int spares_put(struct spares *spares, uint64_t id, uint64_t octets, uint64_t least) MUST_CHECK;
/* Recovery: a file of this name was found in log/; whether it is a spare one from now on. */
bool spares_adopt(struct spares *spares, const char *name, uint64_t least);
/* Takes the last one and opens it. 0 with *file and its path; -ENOENT when there is none, or another negative
 * errno. */
int spares_take(struct spares *spares, struct disk_file **file,
		char path[PATH_MAX_SIZE]) MUST_CHECK;
/* The disk is low: they go, and no further one is kept; or it is not any more. */
void spares_want(struct spares *spares, bool want);
