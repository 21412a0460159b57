/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transient messages whose bodies are in page files: their entries stay in the queue, with a stub in the
 * message's place (model.h). queue_page_out.c puts them there while memory is short, queue_page_in.c brings
 * them back before their turn. Nothing else of a queue changes: counts, order and settlement are as if all
 * were at hand.
 *
 * Invariants: QUEUE_PAGED is set while the queue has a stub; requeued entries never are stubs; a queue with
 * more than one block, or with late entries, is in broker->pageable.
 */
#include "queue_page.h"

struct paging *
paging_of(struct queue *q)
{
	if (q->paging == NULL)
		q->paging = xcalloc(1, sizeof(*q->paging));
	return q->paging;
}

/* ---- the walk ---- */

struct walk
walk_begin(struct queue *q)
{
	return (struct walk){
		.queue = q,
		.block = q->head,
		.index = q->head == NULL ? 0 : q->head->first,
	};
}

struct walk
walk_from(struct queue *q, const struct page_spot *spot)
{
	struct walk walk = walk_begin(q);

	if (spot->block != NULL && q->head != NULL &&
	    entry_qseq(&q->head->entries[q->head->first]) <= spot->qseq) {
		walk.block = spot->block;
		walk.index = spot->block->first;
	}
	return walk;
}

static void
next_block(struct walk *walk)
{
	walk->before = walk->block;
	walk->block = walk->block->next;
	walk->index = walk->block == NULL ? 0 : walk->block->first;
}

struct entry *
walk_entry(struct walk *walk)
{
	struct entry *late;
	uint32_t count;

	while (walk->block != NULL) {
		if (walk->index < walk->block->end)
			return &walk->block->entries[walk->index];
		next_block(walk);
	}
	late = late_entries(walk->queue, &count);
	return walk->index < count ? &late[walk->index] : NULL;
}

/* The first from this number on among entries from index at to end; end: there is none. */
static uint32_t
search(const struct entry *entries, uint32_t at, uint32_t end, uint64_t qseq)
{
	while (at < end) {
		uint32_t middle = at + (end - at) / 2;

		if (entry_qseq(&entries[middle]) < qseq)
			at = middle + 1;
		else
			end = middle;
	}
	return at;
}

void
walk_seek(struct walk *walk, uint64_t qseq)
{
	struct entry *late;
	uint32_t count;

	while (walk->block != NULL) {
		const struct entry_block *block = walk->block;

		if (walk->index < block->end &&
		    entry_qseq(&block->entries[block->end - 1]) >= qseq) {
			/* mostly it is the next one */
			if (entry_qseq(&block->entries[walk->index]) < qseq)
				walk->index =
					search(block->entries, walk->index + 1, block->end, qseq);
			return;
		}
		next_block(walk);
	}
	late = late_entries(walk->queue, &count);
	walk->index = search(late, walk->index, count, qseq);
}

void
page_forget_places(struct queue *q)
{
	if (q->paging == NULL)
		return;
	q->paging->next.block = NULL;
	q->paging->sent.block = NULL;
}

/* ---- jobs ---- */

struct page_move *
page_move_new(struct queue *q)
{
	struct page_move *move = xcalloc(1, sizeof(*move));

	move->queue = queue_ref(q);
	return move;
}

void
page_move_add(struct page_move *move, const struct entry *entry, struct page_item item)
{
	/* room for 32, then doubled at powers of two */
	if (move->count == 0 || (move->count >= 32 && (move->count & (move->count - 1)) == 0)) {
		size_t room = max_u64(32, 2 * (size_t)move->count);

		move->entries = xrealloc(move->entries, room * sizeof(*move->entries));
		move->items = xrealloc(move->items, room * sizeof(*move->items));
	}
	move->entries[move->count] = (struct entry){entry->bits, message_ref(entry->message)};
	move->items[move->count++] = item;
	move->octets += item.body.n;
}

void
page_move_free(struct page_move *move)
{
	for (uint32_t i = 0; i < move->count; i++)
		message_unref(move->entries[i].message);
	queue_unref(move->queue);
	xfree(move->entries);
	xfree(move->items);
	xfree(move);
}

/* ---- stubs ---- */

void
page_count_out(struct queue *q)
{
	assert(q->paging->count > 0);
	if (--q->paging->count == 0)
		q->flags &= ~(unsigned)QUEUE_PAGED;
}

void
page_swap(struct queue *q, struct entry *entry, struct message *message)
{
	struct message *before = entry->message;

	assert((before->flags & MESSAGE_PAGED) != (message->flags & MESSAGE_PAGED));
	assert(message_wire_size(before) == message_wire_size(message));
	entry->message = message;
	if (message->flags & MESSAGE_PAGED) {
		q->paging->count++;
		q->flags |= QUEUE_PAGED;
	} else {
		page_count_out(q);
	}
	message_unref(before);
}

/* ---- the end ---- */

void
page_cleared(struct queue *q)
{
	assert(own_message_count(q) == 0);
	if (list_linked(&q->pageable))
		list_remove(&q->vhost->broker->pageable, &q->pageable);
	if (q->paging == NULL)
		return;
	q->paging->count = 0;
	q->flags &= ~(unsigned)QUEUE_PAGED;
}

void
page_fini(struct queue *q)
{
	assert(!list_linked(&q->pageable));
	assert(q->paging == NULL || !q->paging->reading);
	xfree(q->paging);
	q->paging = NULL;
}

static bool
is_in_window(const struct queue *q, const struct page_spot *spot)
{
	for (const struct entry_block *b = q->head; b != NULL; b = b->next)
		if (b == spot->block)
			return b->first < b->end;
	return false;
}

/* A spot counts only while its entry is not before the window. */
static void
check_spot(const struct queue *q, const struct page_spot *spot)
{
	if (spot->block == NULL || q->head == NULL)
		return;
	if (entry_qseq(&q->head->entries[q->head->first]) <= spot->qseq)
		assert(is_in_window(q, spot));
}

void
page_check(const struct queue *q)
{
	uint64_t stubs = 0;
	const struct entry *late;
	uint32_t count;

	for (uint32_t i = 0; i < q->requeued_count; i++)
		assert(!(q->requeued[i].message->flags & MESSAGE_PAGED));
	for (const struct entry_block *b = q->head; b != NULL; b = b->next)
		for (uint32_t i = b->first; i < b->end; i++)
			stubs += (b->entries[i].message->flags & MESSAGE_PAGED) != 0;
	late = late_entries(q, &count);
	for (uint32_t i = 0; i < count; i++)
		stubs += (late[i].message->flags & MESSAGE_PAGED) != 0;
	assert(stubs == (q->paging == NULL ? 0 : q->paging->count));
	assert((stubs > 0) == ((q->flags & QUEUE_PAGED) != 0));
	assert((q->head == q->tail && count == 0) || list_linked(&q->pageable));
	if (q->paging == NULL)
		return;
	check_spot(q, &q->paging->next);
	check_spot(q, &q->paging->sent);
}
