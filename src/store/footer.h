/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a sealed segment: for each queue the messages that have a reference to it, in order. It
 * stands behind the last batch (format.h, footers), so that a queue's messages are found without keeping
 * a word about them in memory, and whatever was read through it is proved by the record's own check.
 *
 * Built once by a scan of the segment, when it is full, merged, or found without a footer at start.
 * Helper thread; recovery before that is started.
 */
#pragma once

#include "internal.h"
#include "scan.h"

/* A run: consecutive messages of one queue and priority in one segment, FOOTER_RUN_ENTRIES at most; a queue
 * has several where it has more, or where its numbers are more than 65,535 apart. */
struct footer_run {
	uint64_t queue_id;
	uint64_t first; // qseq of the first and of the last one
	uint64_t last;
	uint32_t count;
	uint32_t entry; // index of the first one's entry
	uint32_t check; // of its entries
	uint8_t priority;
	uint64_t body_octets; // sum of whole bodies
	uint64_t live_octets; // sum of store_share()
};

struct footer_entry {
	uint64_t offset; // of the record in the segment
	uint64_t qseq;
	uint16_t flags; // enum footer_entry_flag
	uint32_t body_size;
};

/* A segment that is read through its footer. */
struct footer {
	struct disk_file *file; // borrows
	uint64_t end;		// octets of batches, from the start of the file
	uint64_t last_lsn;
	uint64_t runs_at; // where the sections' octets are
	uint64_t entries_at;
	uint64_t timed_at;
	uint64_t first_timed_ms; // time of the first reference that has one; UINT64_MAX: none has
	uint32_t salt;		 // of the segment
	uint32_t run_count;
	uint32_t entry_count;
	uint32_t timed_count;
	bool has_timed; // it has that section, as all but those of an older version do
};

/* What a build had to leave out. */
struct footer_loss {
	uint64_t places; // where something cannot be read
	uint64_t octets; // there
};

/* Scans the segment from its header to end and writes its footer behind that, cuts the file there and syncs
 * it. file is open for writing, scan on the same file with id and salt of the segment. generation: of the
 * segment; a merged one has no batches. loss: what is damaged is left out, said and counted there; NULL: it
 * is refused. 0, or a negative errno: then the segment is as good as before, but may have no footer any
 * more; -EBADMSG: its records do not end at end with last_lsn, or a queue's numbers do not rise. Whatever
 * is behind end is lost. */
int footer_build(struct disk_file *file, struct scan *scan, uint64_t end, uint64_t last_lsn,
		 uint32_t generation, struct footer_loss *loss) MUST_CHECK;
/* Finds the footer of a file, by the id and salt of its header. 0; -ENOENT when there is no valid one; another
 * negative errno of the disk. It is that of all which counts only if its last_lsn is the segment's: a
 * start may have cut off the last batches. */
int footer_open(struct footer *footer, struct disk_file *file) MUST_CHECK;
/* Reads run number at. 0; -EBADMSG: it is damaged, and the footer must be built again; or a negative errno
 * of the disk. */
int footer_run(const struct footer *footer, uint32_t at, struct footer_run *run) MUST_CHECK;
/* Finds the first run of the queue and priority whose last qseq is at least from: 0 with *at, -ENOENT when
 * there is none, or as footer_run(). A binary search in the file. */
int footer_find(const struct footer *footer, uint64_t queue_id, uint8_t priority, uint64_t from,
		uint32_t *at) MUST_CHECK;
/* Reads count entries of a run from its entry number first on; all of the run's are read to prove them, so it
 * is best to ask for many. 0 or as footer_run(). */
int footer_entries(const struct footer *footer, const struct footer_run *run, uint32_t first,
		   uint32_t count, struct footer_entry *entries) MUST_CHECK;
