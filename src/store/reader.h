/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading segments that take no more records: the helper keeps the last ones open, with their footers.
 * Helper thread, when not said otherwise.
 */
#pragma once

#include "footer.h"

#define READER_SLOTS 64

struct reader_slot {
	uint64_t id;		// of the segment; 0: free
	uint64_t used;		// when it was used last
	struct disk_file *file; // owns
	struct footer footer;
	bool has_footer;
	uint32_t salt;
	uint32_t generation;
};

struct reader {
	struct disk *disk; // borrows for good
	struct reader_slot slots[READER_SLOTS];
	uint64_t clock;
};

struct reader *reader_new(struct disk *disk);
/* No thread uses it any more. */
void reader_free(struct reader **reader);
/* The segment's file, and its footer if it has one; valid until the next call. 0 or a negative errno. */
int reader_open(struct reader *reader, uint64_t id, struct reader_slot **slot) MUST_CHECK;
/* The slot's footer turned out to be damaged, or to be missing: builds it anew, without what is damaged itself.
 * place: where the segment ends if the footer does not say. 0 with *slot, or a negative errno; -EBADMSG:
 * nobody knows where it ends. */
int reader_rebuild(struct reader *reader, struct reader_slot **slot,
		   const struct segment_place *place) MUST_CHECK;
/* The file is going, or became another. */
void reader_forget(struct reader *reader, uint64_t id);

/* ---- messages of one queue: broker thread to helper and back ---- */

/* Where one message is, or was read to. */
struct read_item {
	uint64_t qseq;
	uint64_t offset;    // of its record in the segment; after the read in job->octets
	uint32_t body_size; // of a tail, what the record counts
	bool damaged;	    // it could not be read
};

/* Up to so many messages of one queue from one segment on. */
struct read_job {
	struct mail mail;
	struct reader *reader;
	uint64_t queue_id;
	uint64_t ticket; // of the queue's reads: one that was overtaken counts no more
	uint64_t from;	 // qseq
	uint64_t octets_max;
	uint32_t count_max;
	struct qseq_set settled;	// owns; those in it are left out
	struct qseq_set unreadable;	// owns; and those
	struct segment_place *segments; // own; sealed ones, in order, to be looked through
	uint32_t segment_count;
	uint64_t
		tail_segment; // 0: look through segments; else items say where they are in this one
	struct read_item *items; // own; found or given
	uint32_t item_count;
	uint32_t item_room;
	struct buf octets; // records that were read, behind one another
	uint64_t last_lsn; // of the last of the segments
	uint64_t next;	   // qseq from which to go on
	bool exhausted;	   // the segments have no more of the queue
	uint64_t lost;	   // messages that are nowhere: there is nothing to read
	uint64_t lost_octets;
	struct store_pick *
		picks; // own; what to look for in one segment, in order, in place of those from `from' on
	uint32_t pick_count;
	bool by_places; // items are where the picks say, if they are still there
	bool misplaced; // one was not
	bool cut;	// the items were more octets than was asked for: the last ones were left
	int error;	// of the disk
};

void run_read(struct mail *mail);
/* Reads job->picks of job->segments[0], where their places say, or all through the footer when one does not hold; of a
 * tail the items are there. With cut those from number next on were
 * left; with -ENOENT, for the file is not there, all. */
void run_pick(struct mail *mail);

/* ---- what messages that were settled unread count in their segments ---- */

struct settled_range {
	uint64_t first;
	uint64_t last;
};

struct segment_count {
	uint64_t id;
	uint64_t refs;
	uint64_t octets;
};

struct locate_job {
	struct mail mail;
	struct reader *reader;
	uint64_t queue_id;
	struct settled_range *ranges; // own; ascending
	uint32_t range_count;
	struct qseq_set before;		// owns; those in it counted as settled already
	struct segment_place *segments; // own; the sealed ones
	uint32_t segment_count;
	struct segment_count *counts; // own; found: those with refs
	uint32_t count_count;
	int error;
};

void run_locate(struct mail *mail);
