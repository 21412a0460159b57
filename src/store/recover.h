/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of recovery share. Broker thread, before any other is started.
 */
#pragma once

#include "internal.h"
#include "reader.h"
#include "scan.h"

/* A file of the log that holds nothing which counts. */
struct leftover {
	uint64_t id;
	bool headless; // its header is not valid, so that has still to be proved
};

/* Numbers of a queue that were settled, and those that had been settled before. */
struct settled_part {
	uint64_t queue_id;
	struct settled_range *ranges; // own; ascending
	uint32_t range_count;
	struct qseq_set before; // owns
};

struct recovery {
	struct store *store;
	struct buf *error;	   // one line that says what is wrong
	struct segment *segment;   // that is walked
	uint64_t checkpoint_lsn;   // records up to here are in the checkpoint; 0: there is none
	bool ends_here;		   // there are no others: the log ends at the checkpoint
	uint64_t *bad_checkpoints; // own; those that cannot be read
	size_t bad_checkpoint_count;
	struct leftover *leftovers; // own; to be removed once all was read
	size_t leftover_count;
	size_t leftover_room;
	struct writer writer; // the last valid batch; number 0: none yet
	uint64_t next_lsn;    // of the record that should come next
	/* where the last write group begins, which may not be synced */
	struct segment *group_segment; // NULL: there is no batch
	uint64_t group_offset;
	uint64_t group_lsn;
	uint64_t group_live; // what its messages count for in the segment
	uint64_t group_live_refs;
	uint64_t batch_live; // what the batch that is read counts for
	uint64_t batch_live_refs;
	struct settled_part *settled; // own; what purges and removed queues settled
	size_t settled_count;
	size_t settled_room;
	struct stored_ref *refs; // owns; open references of one message
	uint32_t ref_count;
	uint32_t ref_room;
};

/* Says that a file is damaged; -EBADMSG. */
int recovery_damage(struct recovery *r, uint64_t id, uint64_t offset, const char *what);
/* Says what the disk refused; code. */
int recovery_disk_error(struct recovery *r, const char *doing, uint64_t id, int code);
/* Says that a record is of a newer version of the format; -ENOTSUP. */
int recovery_newer(struct recovery *r, uint64_t id, uint64_t offset);
/* Takes in one definition. */
void recovery_define(struct store *store, const struct definition *definition);
/* Tells of one key. */
void recovery_key(const struct store *store, const struct key_record *key);
/* Notes a file that is to be removed once all was read. */
void recovery_leftover(struct recovery *r, uint64_t id, bool headless);
/* Finds the segments by their headers; changes nothing. 0 or a negative errno. */
int recover_segments(struct recovery *r) MUST_CHECK;
/* Removes what no start can use, after the passes: the first change that recovery makes. */
int recover_discard(struct recovery *r) MUST_CHECK;
/* The marks that were read for a queue, as ranges in order, which the queue forgets; the caller frees them. */
struct settled_range *recovery_take_ranges(struct store *store, struct queue_log *log,
					   uint32_t *count);
/* Gives every segment its index. */
int recover_indexes(struct recovery *r) MUST_CHECK;
/* Makes all messages cold; has what the log settled taken off its segments. */
void recover_live(struct recovery *r);
/* Makes the tail of the log certain and cuts what is behind it; leaves a segment to write to. */
int recover_tail(struct recovery *r) MUST_CHECK;
