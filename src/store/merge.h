/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction: the open messages of two neighbouring segments, or of one, go into a new file that takes the
 * left one's place. Never in place: written under a temporary name, synced, renamed, the folder synced;
 * then the right one goes.
 */
#pragma once

#include "reader.h"

/* ---- the plan: merge_plan.c; any thread ---- */

struct merge_size {
	uint64_t octets; // in use
	uint64_t live;	 // of them
	bool eligible;	 // may be merged
};

enum merge_choice {
	MERGE_NOTHING,
	MERGE_PAIR, // *left and the one behind it
	MERGE_ALONE // *left is written anew without its garbage
};

/* Whether so much of all segments is garbage, and there are enough of them. */
bool merge_is_due(const struct merge_size *sizes, size_t count, uint32_t percent, uint32_t files);
/* Whether what it would give back is worth the copy of the rest. */
bool merge_is_worth(const struct merge_size *size);
/* What to merge. limit: live octets of a pair at most. */
enum merge_choice merge_plan(const struct merge_size *sizes, size_t count, uint64_t limit,
			     size_t *left);

/* ---- the copy: merge_copy.c; helper thread, but for the index ---- */

/* What is to be done next. */
enum merge_step {
	MERGE_STEP_COPY,  // about a MiB of the sources
	MERGE_STEP_INDEX, // takes long: the index thread does it, on the new file alone
	MERGE_STEP_NAME,  // the new file takes the place of the sources
	MERGE_STEP_DONE
};

/* What is settled of one queue in the sources. */
struct merge_queue {
	uint64_t id;
	uint64_t first; // numbers that the sources have
	uint64_t last;
	bool gone;		 // the queue was deleted: all is settled
	struct qseq_set settled; // owns
};

struct merge_job {
	struct mail mail;
	struct disk *disk;
	struct reader *reader;
	struct segment_header header; // of the new file; swallowed 0: there is no right one
	uint32_t salt;		      // of the new file
	struct {
		struct segment_place place;
		uint32_t salt;
		struct disk_file *held; // owns; see run_merge_release()
	} sources[2];
	size_t source_count;
	struct merge_queue *queues; // own; by id
	size_t queue_count;
	size_t queue_room;
	/* where the copy stands */
	size_t source;
	uint64_t offset;
	struct scan scan;
	bool scanning;
	struct disk_file *file; // owns; the new file
	struct buf out;		// records to be written next, at end
	uint64_t end;
	uint64_t live; // octets of records that were kept
	uint64_t live_refs;
	uint64_t first_timed_ms; // of the new file's footer
	uint64_t marked_live;	 // octets that were live in the sources when the marks were taken
	bool named; // its renaming was begun: what it was before is not known to be there
	enum merge_step step;
	int error;
};

/* Finds the queues of the sources. */
void run_merge_list(struct mail *mail);
/* Does job->step, and sets the next one when that is complete. */
void run_merge_step(struct mail *mail);
/* Lets the sources go: who closes the last one of a file that has no name any more waits until its blocks are free,
 * and that should be nobody who reads. The index thread. */
void run_merge_release(struct mail *mail);
/* Forgets what was written so far, or what of the job is left. */
void merge_job_fini(struct merge_job *job);

/* ---- the course of it: merge.c; broker thread ---- */

/* Looks whether something is to be merged, and begins. */
void merge_consider(struct store *store);
/* A checkpoint is taken: what it says is settled is what a merge that waits for it may leave out. */
void merge_at_checkpoint(struct store *store);
/* It is on disk, or was not written: the merge goes on, or begins anew. */
void merge_after_checkpoint(struct store *store, bool written);
/* The writer is not late any more. */
void merge_resume(struct store *store);
/* Something was logged: there may be more garbage now. */
void merge_after_batch(struct store *store);
/* Looks for a merge once in a while, and again a while after a failure. */
void merge_look(struct store *store);
/* When merge_look() has something to do; UINT64_MAX: never. */
uint64_t merge_due_ms(const struct store *store);
void merge_fini(struct store *store);
