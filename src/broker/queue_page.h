/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What page-out and page-in share: where a queue stands, a walk along its entries, and a job. Broker thread.
 */
#pragma once

#include "internal.h"
#include "store/page.h"

/* Entries of one job at most. */
#define PAGE_MOVE_COUNT 2048

/* A block of the window, and the number of an entry in it: while that is in the window, the block is. */
struct page_spot {
	struct entry_block *block; // borrows; NULL: none is known
	uint64_t qseq;
};

/* Where a queue stands of which something was paged. */
struct paging {
	uint64_t count;	       // of its entries that are stubs
	uint64_t looked;       // page-out has seen entries up to this number
	uint64_t look_from;    // page-in has nothing to do while the window begins before this one
	struct page_spot next; // near the next entry that page-out looks at
	struct page_spot sent; // and near the first of the job that is on its way
	bool reading;	       // a page-in is on its way
};

/* A place among the entries that are in order: those of the window, then the late ones. */
struct walk {
	struct queue *queue;
	struct entry_block
		*before; // in front of block; NULL: block is the first, or it was not passed
	struct entry_block *block; // NULL: among the late ones
	uint32_t index;
};

/* Bodies of one queue on their way. */
struct page_move {
	struct queue *queue; // counts
	uint32_t count;
	uint64_t octets;	 // of the bodies
	struct entry *entries;	 // own: as they were in the queue; count their messages
	struct page_item *items; // own; one each
};

/* Makes it when there is none. */
struct paging *paging_of(struct queue *queue);

/* At the head of the window. */
struct walk walk_begin(struct queue *queue);
/* At this spot, or at the head of the window if the spot is gone. */
struct walk walk_from(struct queue *queue, const struct page_spot *spot);
/* The entry there; NULL: there are no more. Valid until the queue changes. */
struct entry *walk_entry(struct walk *walk);
/* Goes on to the first entry from this number on, which is not before the place. */
void walk_seek(struct walk *walk, uint64_t qseq);

struct page_move *page_move_new(struct queue *queue);
/* A further entry; its message is referenced. */
void page_move_add(struct page_move *move, const struct entry *entry, struct page_item item);
void page_move_free(struct page_move *move);

/* Whether its body is worth a place in a page file, and has none. */
bool page_may_take(const struct message *message);
/* Takes such a message, which has no stub either, into a job that is to write it; false: it does not fit any more. */
bool page_take(struct page_move *move, const struct entry *entry);

/* Puts another message in the place of the entry's; takes the reference over. */
void page_swap(struct queue *queue, struct entry *entry, struct message *message);
