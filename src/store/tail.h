/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a segment that is not sealed yet: what its footer will say, in memory, 16 octets for each
 * reference of a message. The references of one queue are a chain in the order of their numbers; the
 * queue_log knows where it begins. There are at most two of these: the segment that is written to, and one
 * that is being sealed. Broker thread.
 */
#pragma once

#include "internal.h"

struct tail_entry {
	uint32_t qseq;	 // low half of the message's number
	uint32_t offset; // of its record in the segment, divided by 8
	uint32_t next;	 // index + 1 of the queue's next entry; 0: it is the last
	uint32_t share;	 // store_share() of its record
};

struct tail {
	uint64_t segment_id;
	struct tail_entry **chunks; // own
	uint32_t count;
	uint32_t chunk_room;
	struct timed_heap timed; // its references that have a time, until those were given
};

struct tail *tail_new(uint64_t segment_id);
void tail_free(struct tail **tail);
/* Adds a reference behind the others of its queue. */
void tail_add(struct tail *tail, struct queue_log *log, uint64_t qseq, uint64_t offset,
	      uint32_t share);
/* Adds the messages of a batch that goes to this offset of the segment. batch->logs has the queues of all
 * its references, in order. */
void tail_add_batch(struct tail *tail, const struct batch *batch, uint64_t offset);

static inline struct tail_entry *
tail_entry(const struct tail *tail, uint32_t index)
{
	return &tail->chunks[index / 4096][index % 4096];
}

/* The queue's chain in this tail: NULL when it has none. */
struct tail_place *tail_place(struct queue_log *log, uint64_t segment_id);
/* The whole number of an entry, at or above a lower number of the same queue. */
static inline uint64_t
tail_qseq(const struct tail_entry *entry, uint64_t lower)
{
	uint64_t qseq = (lower & ~(uint64_t)UINT32_MAX) | entry->qseq;

	return qseq < lower ? qseq + ((uint64_t)UINT32_MAX + 1) : qseq;
}
