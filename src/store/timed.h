/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References that have a time: when their message expires by its own expiration, or when it is due
 * (format.h, TIMED). Those of the batch that fills and of segments without a footer are in heaps in memory; those
 * of sealed segments stay on disk, in order, and of each segment a cursor has one piece at most, and that only
 * about when it is due.
 *
 * They are given in one order, by time, queue and number, across all of these. So one place in that order,
 * `given`, says of all sealed segments together what was given: all before it, and nothing behind. It stays right
 * when segments are merged. Only messages that come later with an earlier time are before it and not given: they
 * are in memory, and when their segment is sealed they go to the heap `late`.
 *
 * Broker thread, but for what is said to be the helper's.
 */
#pragma once

#include "store/format.h"
#include "util/base.h"

struct footer;
struct mail;
struct reader;
struct reader_slot;
struct segment;
struct segment_place;
struct store;

/* A reference with its time. */
struct timed {
	uint64_t time_ms; // since 1970
	uint64_t queue_id;
	uint64_t qseq;
	union {
		uint64_t lsn;	 // in a heap: of its record
		uint64_t offset; // in a section: of its record in the segment
	};
	uint32_t share; // store_share() of the record
	uint32_t body_size;
};

/* ---- the order: timed_heap.c; any thread ---- */

bool timed_is_before(const struct timed *a, const struct timed *b);

/* The earliest first. */
struct timed_heap {
	struct timed *items; // own; a binary heap
	uint32_t count;
	uint32_t room;
	uint32_t tidy_at; // count at which those that are settled are looked for
};

void timed_heap_fini(struct timed_heap *heap);
void timed_heap_push(struct timed_heap *heap, const struct timed *item);
/* There must be one. */
struct timed timed_heap_pop(struct timed_heap *heap);
/* Moves all items of from, which is empty afterwards and keeps its memory. */
void timed_heap_join(struct timed_heap *heap, struct timed_heap *from);
/* Drops the items that keep does not want. */
void timed_heap_filter(struct timed_heap *heap,
		       bool (*keep)(const void *context, const struct timed *item),
		       const void *context);

/* ---- the section of a footer: footer_timed.c; helper thread, and recovery ---- */

/* Sorts items as they stand in a section. */
void timed_sort(struct timed *items, uint32_t count);
/* Writes TIMED_HEAD_SIZE octets for items that are sorted. */
void timed_head_encode(uint8_t *p, const struct timed *items, uint32_t count, uint32_t salt);
/* Writes the piece that begins with the first of left items, which follow in order; returns its octets. */
uint32_t timed_piece_encode(uint8_t *p, const struct timed *items, uint32_t left, uint32_t salt);

/* Octets of the section's content, and of the largest piece. */
#define TIMED_PIECE_SIZE (TIMED_PIECE_HEADER_SIZE + TIMED_PIECE_ITEMS * TIMED_ITEM_SIZE)
uint64_t timed_section_size(uint32_t count);

/* One piece, read. */
struct timed_piece {
	struct timed *items; // own
	uint32_t count;
	uint32_t at;	  // first item that is wanted
	uint32_t next;	  // number of the piece behind it
	uint64_t next_ms; // time of the first item there; UINT64_MAX: there is none
};

/* Reads a piece. 0, or as footer_run(). */
int footer_timed_piece(const struct footer *footer, uint32_t number,
		       struct timed_piece *piece) MUST_CHECK;
/* Finds the first item behind `after`, which is not before piece number hint. 0 with its piece, which is empty
 * when there is none, or as footer_run(). The caller frees piece->items. */
int footer_timed_find(const struct footer *footer, const struct timed *after, uint32_t hint,
		      struct timed_piece *piece) MUST_CHECK;

/* ---- cursors and what is given: timed.c ---- */

/* Where a sealed segment's section was given up to. */
struct timed_cursor {
	struct timed_piece piece; // items NULL: not at hand
	uint64_t
		next_ms; // when none is at hand: no item that is left is sooner; UINT64_MAX: none is left
	uint32_t place;	 // in timed_index.cursors, + 1; 0: it is not there
	uint32_t ticket; // of its reads: one of an older one counts no more
	bool reading;
};

struct timed_index {
	struct timed given;	  // the last one, in order, that was given
	struct timed_heap late;	  // before it, and not given
	struct segment **cursors; // own the array; a heap: sealed segments that have some left
	uint32_t count;
	uint32_t room;
	uint64_t now_ms;  // up to when deadlines were asked for last
	uint64_t told_ms; // store_next_deadline() as ops.deadlines told of it
};

void timed_fini(struct store *store);
/* A reference of the batch that fills. */
void timed_add(struct store *store, const struct timed *item);
/* The segment has a footer from now on, whose first item is of this time; UINT64_MAX: it has none; 0: that is
 * not known. Its tail is there still, if it ever had one. */
void timed_sealed(struct store *store, struct segment *segment, uint64_t first_ms);
/* The segment goes. */
void timed_forget(struct store *store, struct segment *segment);
/* Drops what is settled from a heap that has grown. */
void timed_tidy(struct store *store, struct timed_heap *heap);
/* The section's first item behind `after', which is not before piece number hint; an index of an older version or one
 * that is damaged is made anew before, if there is room. slot is the reader's. 0; -EBADMSG, -ENOSPC: it cannot be had;
 * or as reader_open(). The caller frees piece->items. The helper's. */
int timed_find(struct reader *reader, const struct segment_place *place, const struct timed *after,
	       uint32_t hint, struct reader_slot **slot, struct timed_piece *piece) MUST_CHECK;
/* The heaps that are in memory; how many. */
#define TIMED_HEAPS 4
uint32_t timed_heaps(struct store *store, struct timed_heap *heaps[TIMED_HEAPS]);
/* Tells the broker when the next one is sooner than it knows: at the end of a turn. */
void timed_tell(struct store *store);
