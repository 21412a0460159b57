/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page files: where the bodies of transient messages are while memory is short. Which ones is the broker's
 * business. They are never synced, not part of the log and gone after a restart; a file is removed when no
 * body in it has a place any more. A write or read that fails harms nothing but what it was for.
 *
 * The helper thread writes and reads; the calls here are the broker thread's.
 */
#pragma once

#include "store/store.h"

struct page_file;

/* Where a body is. Whoever has a place, which is one body's and not copied, gives it back. */
struct page_place {
	struct page_file *file; // counts
	uint32_t offset;	// of its header
};

/* A body on its way to a page file, or back. */
struct page_item {
	struct page_place place; // out: comes back filled; in: where to look
	struct bytes
		body; // out: what to write; in: n octets are wanted, p NULL comes back where they could not be had
	uint64_t file_id; // private
};

/* Has these bodies written, behind each other. Items and bodies are borrowed until ops.paged_out() gets
 * owner: with error 0 each item has a place then, which is the broker's. One call may be on its way. False:
 * the store takes no more. */
bool store_page_out(struct store *store, struct page_item *items, uint32_t count,
		    void *owner) MUST_CHECK;
/* Has bodies read, the fastest if they are in the order in which they were written. Items and their places
 * are borrowed until ops.paged_in() gets owner, bodies that come back until that returns. False: as above. */
bool store_page_in(struct store *store, struct page_item *items, uint32_t count,
		   void *owner) MUST_CHECK;
/* Asserts what must hold between files and places. */
void store_page_check(const struct store *store);
/* The body is not needed any more. Also after the end of the store. */
void page_release(struct page_place place);
