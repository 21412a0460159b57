/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivered entries that wait for their acknowledgement, by delivery tag (amqp.md 7.9, 14.2). Tags only
 * rise, so slots are appended; they lie in blocks that grow from 4 to 256 slots, and a block is freed
 * when the last of its slots is settled, wherever it stands in the ring.
 *
 * Invariants: blocks are in order of tags and hold at least one unsettled slot each; a slot without a
 * message is settled; count is the unsettled slots of all blocks.
 */
#include "internal.h"

/* Millions of them may be outstanding. */
_Static_assert(sizeof(struct unacked_slot) == 48, "octets of a slot");

struct unacked_block {
	uint32_t capacity;
	uint32_t end;	// slots in use, settled ones included
	uint32_t first; // all slots before this one are settled
	uint32_t live;	// unsettled slots
	struct unacked_slot slots[];
};

#define BLOCK_MIN 4
#define BLOCK_MAX 256

static size_t
block_size(uint32_t capacity)
{
	return sizeof(struct unacked_block) + capacity * sizeof(struct unacked_slot);
}

void
unacked_init(struct unacked *u)
{
	*u = (struct unacked){0};
}

void
unacked_fini(struct unacked *u)
{
	assert(u->count == 0);
	assert(u->first == u->end);
	xfree(u->blocks);
	*u = (struct unacked){0};
}

/* Room for one more pointer behind the others, moving them to the front when that is enough. */
static void
ring_make_room(struct unacked *u)
{
	uint32_t used = u->end - u->first;

	if (u->end < u->room)
		return;
	if (used <= u->room / 2 && u->room > 0) {
		memmove(u->blocks, u->blocks + u->first, used * sizeof(struct unacked_block *));
		u->first = 0;
		u->end = used;
		return;
	}
	u->room = u->room == 0 ? 4 : 2 * u->room;
	u->blocks = xrealloc(u->blocks, u->room * sizeof(struct unacked_block *));
}

static struct unacked_block *
block_add(struct unacked *u)
{
	uint32_t capacity = BLOCK_MIN;
	struct unacked_block *block;

	if (u->end > u->first)
		capacity = (uint32_t)min_u64(4 * u->blocks[u->end - 1]->capacity, BLOCK_MAX);
	ring_make_room(u);
	block = slab_alloc(block_size(capacity));
	*block = (struct unacked_block){.capacity = capacity};
	u->blocks[u->end++] = block;
	return block;
}

static void
block_free(struct unacked *u, uint32_t index)
{
	struct unacked_block *block = u->blocks[index];

	assert(block->live == 0);
	slab_free(block, block_size(block->capacity));
	if (index == u->first) {
		u->first++;
	} else {
		memmove(u->blocks + index, u->blocks + index + 1,
			(u->end - index - 1) * sizeof(struct unacked_block *));
		u->end--;
	}
	if (u->first == u->end)
		u->first = u->end = 0;
}

struct unacked_slot *
unacked_add(struct unacked *u, uint64_t tag)
{
	struct unacked_block *block = u->end > u->first ? u->blocks[u->end - 1] : NULL;
	struct unacked_slot *slot;

	if (block == NULL || block->end == block->capacity)
		block = block_add(u);
	slot = &block->slots[block->end++];
	slot->tag = tag;
	block->live++;
	u->count++;
	return slot;
}

struct unacked_slot *
unacked_first(const struct unacked *u)
{
	struct unacked_block *block = u->count == 0 ? NULL : u->blocks[u->first];

	return block == NULL ? NULL : &block->slots[block->first];
}

/* The index of the block that may hold the tag. There must be blocks. */
static uint32_t
block_of(const struct unacked *u, uint64_t tag)
{
	uint32_t low = u->first;
	uint32_t high = u->end - 1;

	while (low < high) {
		uint32_t middle = (low + high + 1) / 2;

		if (u->blocks[middle]->slots[0].tag <= tag)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static struct unacked_slot *
block_find(struct unacked_block *block, uint64_t tag)
{
	uint64_t guess = tag - block->slots[0].tag;
	uint32_t low = 0;
	uint32_t high = block->end;

	/* tags are dense unless no-ack deliveries lie between them */
	if (guess < block->end && block->slots[guess].tag == tag)
		return &block->slots[guess];
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (block->slots[middle].tag < tag)
			low = middle + 1;
		else
			high = middle;
	}
	return low < block->end && block->slots[low].tag == tag ? &block->slots[low] : NULL;
}

struct unacked_slot *
unacked_find(const struct unacked *u, uint64_t tag)
{
	struct unacked_slot *slot;

	if (u->first == u->end)
		return NULL;
	slot = block_find(u->blocks[block_of(u, tag)], tag);
	return slot != NULL && slot->entry.message != NULL ? slot : NULL;
}

/* Marks it settled; whether the block has no unsettled slot left. */
static bool
slot_clear(struct unacked *u, struct unacked_block *block, struct unacked_slot *slot)
{
	slot->entry.message = NULL;
	block->live--;
	u->count--;
	while (block->first < block->end && block->slots[block->first].entry.message == NULL)
		block->first++;
	return block->live == 0;
}

void
unacked_remove(struct unacked *u, uint64_t tag)
{
	uint32_t index;
	struct unacked_slot *slot;

	assert(u->count > 0);
	index = block_of(u, tag);
	slot = block_find(u->blocks[index], tag);
	assert(slot != NULL);
	assert(slot->entry.message != NULL);
	if (slot_clear(u, u->blocks[index], slot))
		block_free(u, index);
}

/* Settles the first unsettled slot of a block; whether the block is empty now. */
static bool
settle_slot(struct unacked *u, struct unacked_block *block, uint32_t at,
	    void (*settle)(void *context, const struct unacked_slot *slot), void *context)
{
	struct unacked_slot copy = block->slots[at];
	bool empty = slot_clear(u, block, &block->slots[at]);

	settle(context, &copy);
	return empty;
}

void
unacked_settle_upto(struct unacked *u, uint64_t tag,
		    void (*settle)(void *context, const struct unacked_slot *slot), void *context)
{
	while (u->count > 0) {
		struct unacked_block *block = u->blocks[u->first];

		if (block->slots[block->first].tag > tag)
			return;
		if (settle_slot(u, block, block->first, settle, context))
			block_free(u, u->first);
	}
}

void
unacked_settle_all_reversed(struct unacked *u,
			    void (*settle)(void *context, const struct unacked_slot *slot),
			    void *context)
{
	while (u->count > 0) {
		struct unacked_block *block = u->blocks[u->end - 1];
		bool empty = false;

		for (uint32_t at = block->end; at-- > 0 && !empty;)
			if (block->slots[at].entry.message != NULL)
				empty = settle_slot(u, block, at, settle, context);
		block_free(u, u->end - 1);
	}
}

void
unacked_visit(struct unacked *u, uint64_t upto,
	      void (*visit)(void *context, struct unacked_slot *slot), void *context)
{
	for (uint32_t i = u->first; i < u->end; i++) {
		struct unacked_block *block = u->blocks[i];

		for (uint32_t at = block->first; at < block->end; at++) {
			if (block->slots[at].tag > upto)
				return;
			if (block->slots[at].entry.message != NULL)
				visit(context, &block->slots[at]);
		}
	}
}

const struct unacked_slot *
unacked_visit_older(struct unacked *u, uint64_t delivered_ms,
		    void (*visit)(void *context, struct unacked_slot *slot), void *context)
{
	for (uint32_t i = u->first; i < u->end; i++) {
		struct unacked_block *block = u->blocks[i];

		for (uint32_t at = block->first; at < block->end; at++) {
			struct unacked_slot *slot = &block->slots[at];

			if (slot->entry.message == NULL)
				continue;
			if (slot->delivered_ms > delivered_ms)
				return slot;
			visit(context, slot);
		}
	}
	return NULL;
}

void
unacked_check(const struct unacked *u)
{
	uint64_t count = 0;
	uint64_t last = 0;

	assert(u->first <= u->end);
	assert(u->end <= u->room);
	for (uint32_t i = u->first; i < u->end; i++) {
		const struct unacked_block *block = u->blocks[i];
		uint32_t live = 0;

		assert(block->live > 0);
		for (uint32_t at = 0; at < block->end; at++) {
			assert(block->slots[at].tag > last);
			last = block->slots[at].tag;
			live += block->slots[at].entry.message != NULL;
			assert(at >= block->first || block->slots[at].entry.message == NULL);
		}
		assert(live == block->live);
		count += live;
	}
	assert(count == u->count);
}
