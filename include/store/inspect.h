/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at a store that no process uses: all its files from front to back, read-only, whatever state
 * they are in. Recovery stops at the first thing that does not add up; this goes on behind it, says what is
 * wrong and hands out every record that can still be proved. For tools; nothing is ever written.
 *
 * Two passes: inspect_open() looks at the names and headers, inspect_walk() reads the log, as often as it is
 * called. What is wrong is reported once, by the function that meets it. One thread.
 */
#pragma once

#include "store/definition.h"
#include "store/format.h"
#include "store/qseq_set.h"
#include "store/record.h"
#include "util/buf.h"
#include "util/disk.h"

struct inspect;

enum inspect_severity {
	INSPECT_NOTE,	// nothing is wrong: the next start deals with it
	INSPECT_INDEX,	// only something is damaged that is made again or not needed
	INSPECT_NEWER,	// this version does not know it
	INSPECT_DAMAGE, // something is lost that was safe, or the store cannot be opened
	INSPECT_SEVERITIES
};

/* Something that is not as it should be. All of it borrows until the call returns. */
struct inspect_fault {
	enum inspect_severity severity;
	const char *path; // of the file, in the store's folder
	uint64_t offset;
	uint64_t size;	    // octets that cannot be used; 0: not known, or all of the file
	uint64_t first_lsn; // records that are lost, first to last; 0: none
	uint64_t last_lsn;
	uint64_t readable; // how many of those pass their own check and are handed out all the same
	const char *meaning; // one sentence
	const char *advice;  // what to do about it
};

enum inspect_use {
	INSPECT_IN_USE,	  // it is a part of the log
	INSPECT_PREPARED, // it has a header and nothing in it
	INSPECT_LEFTOVER, // what it holds is elsewhere, or not needed: the next start removes it
	INSPECT_FOREIGN	  // of another store, or of a newer version, or not a segment at all
};

/* A file of the log. */
struct inspect_segment {
	uint64_t id;
	char path[64]; // in the store's folder
	enum inspect_use use;
	bool headless;	     // its header is not valid
	uint32_t generation; // count of merges
	uint32_t salt;
	uint64_t size;	     // of the file
	uint64_t first_lsn;  // 0: not in use
	uint64_t sealed_lsn; // the last one by its header; 0: that does not say
	uint64_t swallowed;  // id of the segment that was merged into it; 0: none
	/* after inspect_walk() */
	uint64_t last_lsn; // 0: there is no valid batch
	uint64_t end;	   // of the last one
	uint64_t footer;   // octets of the footer and its trailer; 0: it has none
};

/* Where a record stands. */
struct inspect_place {
	const struct inspect_segment *segment;
	uint64_t offset;
	bool alone; // the batch round it is not valid
};

/* What is told; each may be NULL. */
struct inspect_ops {
	void (*fault)(void *context, const struct inspect_fault *fault);
	/* A record whose payload can be decoded; borrows until the call returns. */
	void (*record)(void *context, const struct inspect_place *place,
		       const struct record *record);
	/* A valid batch, before its records. */
	void (*batch)(void *context, const struct inspect_place *place,
		      const struct batch_record *batch);
	/* Octets of the log that were read, of how many. */
	void (*progress)(void *context, uint64_t done, uint64_t total);
};

/* Reads the superblock, finds segments and checkpoints. ops and context are borrowed for good, disk too. 0 with
 * *inspect; -ENOENT when there is no store; -ENOTSUP when it is of a newer version; another errno of the disk;
 * each with a line in error. Damage is no error: it is reported. */
int inspect_open(struct inspect **inspect, struct disk *disk, const struct inspect_ops *ops,
		 void *context, struct buf *error) MUST_CHECK;
void inspect_close(struct inspect **inspect);
/* Its uuid is right also when both copies are damaged, if there is any segment; the rest is 0 then. */
const struct superblock *inspect_superblock(const struct inspect *inspect);
/* By first LSN; those not in use behind the others. */
size_t inspect_segment_count(const struct inspect *inspect);
const struct inspect_segment *inspect_segment_at(const struct inspect *inspect, size_t at);

/* ---- the log ---- */

struct inspect_range {
	uint64_t from; // LSN; segments and batches before it are left out
	uint64_t to;   // LSN; as above, behind it
	bool footers;  // compare the footers with what was read
};

/* The whole log. */
#define INSPECT_ALL ((struct inspect_range){.to = UINT64_MAX})

/* Reads the log. Returns the LSN of the last record that counts; 0: none. */
uint64_t inspect_walk(struct inspect *inspect, struct inspect_range range);

/* ---- checkpoints ---- */

/* A queue as a checkpoint has it. */
struct inspect_queue {
	uint64_t id;
	uint64_t next_qseq;
	uint64_t flags; // enum queue_state_flag
	uint64_t count; // open messages
	uint64_t octets;
	uint64_t redelivered_below;
	struct qseq_set settled; // the callee's, who ends it with qseq_set_fini()
};

/* A segment as a checkpoint has it. */
struct inspect_segment_state {
	uint64_t id;
	uint64_t end;	   // 0: it was written to
	uint64_t last_lsn; // as above
	uint64_t live;
	uint64_t live_refs;
};

/* Its last words. */
struct inspect_chain {
	uint64_t next_queue_id;
	uint64_t next_segment_id;
	uint64_t number; // of the last batch
	uint32_t digest;
	uint32_t group;
};

/* In the order of the functions here; each may be NULL. */
struct inspect_checkpoint_ops {
	void (*define)(void *context, const struct definition *definition);
	void (*queue)(void *context, struct inspect_queue *queue);
	void (*returned)(void *context, const struct return_count *count);
	void (*key)(void *context, const struct key_record *key);
	void (*segment)(void *context, const struct inspect_segment_state *segment);
	void (*chain)(void *context, const struct inspect_chain *chain);
};

/* Those whose files can be read and hold, by LSN. */
size_t inspect_checkpoint_count(const struct inspect *inspect);
uint64_t inspect_checkpoint_at(const struct inspect *inspect, size_t at);
/* Reads one again. 0; -EBADMSG: it makes no sense, and a fault was reported; or an errno of the disk. */
int inspect_checkpoint(struct inspect *inspect, uint64_t lsn,
		       const struct inspect_checkpoint_ops *ops, void *context) MUST_CHECK;
