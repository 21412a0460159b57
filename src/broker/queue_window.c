/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ready entries of a queue. New ones go into the window: a chain of blocks, filled at the tail and
 * emptied at the head. Blocks grow from 3 entries to 254 (4 KiB) while the queue is deep, so that
 * 100,000 short queues stay small. Requeued ones go into a binary heap by qseq: all of them were at the
 * head once, so each is older than everything in the window, and the heap is always served first.
 *
 * A queue with groups sets entries aside (queue_groups.c): they were at the head, too, and stay counted.
 *
 * Invariants: blocks hold at least one entry each; ready_count is the entries of all; qseqs rise along
 * the window.
 */
#include <stdlib.h>

#include "internal.h"

#define BLOCK_CAPACITY_MIN 3
#define BLOCK_CAPACITY_MAX 254
#define PREFETCH_DISTANCE 4

static size_t
block_size(uint32_t capacity)
{
	return sizeof(struct entry_block) + capacity * sizeof(struct entry);
}

struct entry_block *
window_grow(struct queue *q)
{
	uint32_t capacity = q->block_hint < BLOCK_CAPACITY_MIN ? BLOCK_CAPACITY_MIN : q->block_hint;
	struct entry_block *block = slab_alloc(block_size(capacity));

	*block = (struct entry_block){.capacity = capacity};
	if (q->tail != NULL) {
		q->tail->next = block;
		page_note(q);
	} else {
		q->head = block;
	}
	q->tail = block;
	q->block_hint = (uint32_t)min_u64(2 * capacity + 1, BLOCK_CAPACITY_MAX);
	return block;
}

static void
window_shift(struct queue *q)
{
	struct entry_block *block = q->head;

	q->head = block->next;
	if (q->head == NULL) {
		q->tail = NULL;
		if (block->end < block->capacity / 2)
			q->block_hint = block->capacity / 2;
	}
	slab_free(block, block_size(block->capacity));
}

/* Frees a block behind the one before it (NULL: it is the first); it is empty. */
static void
window_cut(struct queue *q, struct entry_block *before, struct entry_block *block)
{
	if (before == NULL)
		q->head = block->next;
	else
		before->next = block->next;
	if (q->tail == block)
		q->tail = before;
	slab_free(block, block_size(block->capacity));
}

/* The block before the last one; NULL: there is none. */
static struct entry_block *
before_tail(const struct queue *q)
{
	struct entry_block *before = q->head;

	if (before == q->tail)
		return NULL;
	while (before->next != q->tail)
		before = before->next;
	return before;
}

static void
count_out(struct queue *q, const struct message *m)
{
	size_t size = message_wire_size(m);

	assert(q->ready_count > 0);
	q->ready_count--;
	q->ready_bytes -= size;
	q->body_bytes -= m->body_size;
	if ((q->flags & QUEUE_STORED) && (message_is_stored(m) || q->ready_count == 0))
		window_resident(q, 0, message_is_stored(m) ? size : 0);
}

void
window_resident(struct queue *q, uint64_t octets_in, uint64_t octets_out)
{
	struct broker *broker = q->vhost->broker;

	assert(broker->resident_octets + octets_in >= octets_out);
	broker->resident_octets += octets_in - octets_out;
	if (octets_in > 0 && !list_linked(&q->resident))
		cold_watch(q);
	else if (q->ready_count == 0 && list_linked(&q->resident))
		list_remove(&broker->resident, &q->resident);
}

void
window_take_in(struct queue *q, const struct message *m)
{
	if (message_is_stored(m))
		window_resident(q, message_wire_size(m), 0);
}

uint32_t
window_pop_back(struct queue *q, struct entry *entries, uint32_t n)
{
	struct entry_block *block = q->tail;
	uint32_t count = 0;

	page_forget_places(q);
	if (block == NULL)
		return 0;
	for (; count < n && block->end > block->first; count++) {
		entries[count] = block->entries[--block->end];
		count_out(q, entries[count].message);
	}
	if (block->end == block->first)
		window_cut(q, before_tail(q), block);
	return count;
}

struct entry
window_remove(struct queue *q, struct entry_block *before, struct entry_block *block,
	      uint32_t index)
{
	struct entry entry = block->entries[index];

	page_forget_places(q);
	memmove(&block->entries[block->first + 1], &block->entries[block->first],
		(index - block->first) * sizeof(struct entry));
	block->first++;
	if (block->end == block->first)
		window_cut(q, before, block);
	count_out(q, entry.message);
	return entry;
}

const struct entry *
window_first(const struct queue *q)
{
	assert(q->ready_count > 0);
	if (q->requeued_count > 0)
		return &q->requeued[0];
	return &q->head->entries[q->head->first];
}

static void
heap_grow(struct queue *q)
{
	uint32_t room = q->requeued_room == 0 ? 4 : 2 * q->requeued_room;
	struct entry *entries = slab_alloc(room * sizeof(struct entry));

	if (q->requeued_count != 0)
		memcpy(entries, q->requeued, q->requeued_count * sizeof(struct entry));
	if (q->requeued != NULL)
		slab_free(q->requeued, q->requeued_room * sizeof(struct entry));
	q->requeued = entries;
	q->requeued_room = room;
}

static void
heap_put(struct queue *q, struct entry entry)
{
	uint32_t at = q->requeued_count;

	if (at == q->requeued_room)
		heap_grow(q);
	q->requeued_count++;
	for (; at > 0 && entry.bits < q->requeued[(at - 1) / 2].bits; at = (at - 1) / 2)
		q->requeued[at] = q->requeued[(at - 1) / 2];
	q->requeued[at] = entry;
}

static void
heap_free(struct queue *q)
{
	slab_free(q->requeued, q->requeued_room * sizeof(struct entry));
	q->requeued = NULL;
	q->requeued_room = 0;
}

/* Takes the root off the heap of requeued entries. */
static struct entry
heap_pop(struct queue *q)
{
	struct entry top = q->requeued[0];
	struct entry last = q->requeued[--q->requeued_count];
	uint32_t n = q->requeued_count;
	uint32_t at = 0;

	for (uint32_t child = 1; child < n; child = 2 * at + 1) {
		if (child + 1 < n && q->requeued[child + 1].bits < q->requeued[child].bits)
			child++;
		if (last.bits <= q->requeued[child].bits)
			break;
		q->requeued[at] = q->requeued[child];
		at = child;
	}
	q->requeued[at] = last;
	if (n == 0)
		heap_free(q);
	return top;
}

/* Takes out of the heap, which is put in order again. */
static uint32_t
take_requeued(struct queue *q, const uint64_t *qseqs, uint32_t n, struct entry *entries)
{
	uint32_t count = q->requeued_count;
	uint32_t taken = 0;

	q->requeued_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct entry entry = q->requeued[i];
		uint64_t qseq = entry_qseq(&entry);

		if (bsearch(&qseq, qseqs, n, sizeof(*qseqs), compare_u64) != NULL)
			entries[taken++] = entry;
		else
			heap_put(q, entry);
	}
	if (count > 0 && q->requeued_count == 0)
		heap_free(q);
	return taken;
}

/* Takes out of one block, from the at-th number on. */
static uint32_t
take_of_block(struct entry_block *block, const uint64_t *qseqs, uint32_t n, uint32_t *at,
	      struct entry *entries)
{
	uint32_t kept = block->first;
	uint32_t taken = 0;

	for (uint32_t i = block->first; i < block->end; i++) {
		struct entry entry = block->entries[i];

		while (*at < n && qseqs[*at] < entry_qseq(&entry))
			++*at;
		if (*at < n && qseqs[*at] == entry_qseq(&entry))
			entries[taken++] = entry;
		else
			block->entries[kept++] = entry;
	}
	block->end = kept;
	return taken;
}

uint32_t
window_take(struct queue *q, const uint64_t *qseqs, uint32_t n, struct entry *entries)
{
	uint32_t taken = take_requeued(q, qseqs, n, entries);
	struct entry_block *before = NULL;
	struct entry_block *next;
	uint32_t at = 0;

	page_forget_places(q);
	for (struct entry_block *block = q->head; block != NULL && at < n; block = next) {
		next = block->next;
		if (qseqs[at] <= entry_qseq(&block->entries[block->end - 1]))
			taken += take_of_block(block, qseqs, n, &at, entries + taken);
		if (block->end == block->first)
			window_cut(q, before, block);
		else
			before = block;
	}
	for (uint32_t i = 0; i < taken; i++)
		count_out(q, entries[i].message);
	return taken;
}

bool
window_pop_requeued(struct queue *q, struct entry *entry)
{
	if (q->requeued_count == 0)
		return false;
	/* it may come to the window again, before all that is there or was */
	page_forget_places(q);
	/* without its last leaf it is a heap all the same */
	*entry = q->requeued[--q->requeued_count];
	if (q->requeued_count == 0)
		heap_free(q);
	count_out(q, entry->message);
	return true;
}

static ALWAYS_INLINE struct entry
take_first(struct queue *q)
{
	struct entry_block *block = q->head;
	struct entry entry;

	assert(q->ready_count > 0);
	if (q->requeued_count > 0) {
		entry = heap_pop(q);
	} else {
		entry = block->entries[block->first++];
		if (block->first == block->end)
			window_shift(q);
		else if (block->first + PREFETCH_DISTANCE < block->end)
			prefetch_line(block->entries[block->first + PREFETCH_DISTANCE].message);
	}
	return entry;
}

struct entry
window_pop(struct queue *q)
{
	struct entry entry = take_first(q);

	count_out(q, entry.message);
	return entry;
}

struct entry
window_set_aside(struct queue *q)
{
	return take_first(q);
}

void
window_put_back(struct queue *q, struct entry entry)
{
	assert(q->head == NULL || entry.bits < q->head->entries[q->head->first].bits);
	heap_put(q, entry);
}

void
window_let_go(struct queue *q, const struct message *m)
{
	count_out(q, m);
}

void
window_requeue(struct queue *q, struct entry entry)
{
	assert(q->head == NULL || entry.bits < q->head->entries[q->head->first].bits);
	heap_put(q, entry);
	window_count(q, entry.message);
}

void
window_clear(struct queue *q, enum ack_reason reason)
{
	groups_gather(q);
	while (q->ready_count > 0) {
		struct entry entry = window_pop(q);

		queue_settle(q, &entry, reason);
		message_unref(entry.message);
	}
	q->block_hint = 0;
}

void
window_check(const struct queue *q)
{
	uint64_t count = q->requeued_count;
	uint64_t last = 0;

	for (uint32_t i = 1; i < q->requeued_count; i++)
		assert(q->requeued[(i - 1) / 2].bits <= q->requeued[i].bits);
	for (uint32_t i = 0; i < q->requeued_count; i++)
		last = max_u64(last, q->requeued[i].bits);
	for (const struct entry_block *b = q->head; b != NULL; b = b->next) {
		assert(b->first < b->end);
		assert(b->end <= b->capacity);
		assert(b->next != NULL || b == q->tail);
		for (uint32_t i = b->first; i < b->end; i++) {
			assert(last == 0 || last < b->entries[i].bits);
			last = b->entries[i].bits;
		}
		count += b->end - b->first;
	}
	assert(count + groups_aside(q).count == q->ready_count);
}
