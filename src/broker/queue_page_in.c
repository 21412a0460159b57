/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies come back from page files: a window ahead while consumers take, a part of one for basic.get alone.
 * One read of a queue is on its way at a time. A body that cannot be had is a transient message lost: its
 * entry is settled, and the queue goes on.
 */
#include "queue_page.h"
#include "waiting.h"

/* What part of a window is read for basic.get alone. */
#define GET_PART 16
/* With consumers: what of a window must be free of stubs. Half of that is taken from one look to the next. */
#define AHEAD_PART 2

struct reach {
	uint64_t count;
	uint64_t octets;
};

static bool
is_within(const struct reach *at, uint64_t part)
{
	return at->count * part < QUEUE_WINDOW_COUNT && at->octets * part < QUEUE_WINDOW_OCTETS;
}

/* Collects the stubs of a window, or a part of it. With consumers: nothing if the first is far enough, and
 * from where on it may not be. */
static void
collect(struct page_move *move, uint64_t part)
{
	struct paging *paging = move->queue->paging;
	struct walk walk = walk_begin(move->queue);
	struct reach at = {.count = move->queue->requeued_count};
	const struct entry *entry;

	paging->look_from = 0;
	/* late ones wait for others, which come to the window before them */
	for (; (entry = walk_entry(&walk)) != NULL && walk.block != NULL && is_within(&at, part);
	     walk.index++) {
		const struct message *m = entry->message;

		if (is_within(&at, 2 * AHEAD_PART))
			paging->look_from = entry_qseq(entry) + 1;
		if (move->count == 0 && !is_within(&at, part * AHEAD_PART))
			return;
		if (m->flags & MESSAGE_PAGED)
			page_move_add(move, entry,
				      (struct page_item){
					      .place = message_page_place(m),
					      .body = {.n = m->body_size},
				      });
		at.count++;
		at.octets += message_wire_size(m);
	}
}

static bool
first_is_stub(const struct queue *q)
{
	return q->requeued_count == 0 && q->head != NULL &&
	       (q->head->entries[q->head->first].message->flags & MESSAGE_PAGED);
}

/* Whether there may be a stub in the part of the window that should be at hand. */
static bool
wants_more(const struct queue *q)
{
	struct reach requeued = {.count = q->requeued_count};

	if (first_is_stub(q))
		return true;
	return !list_empty(queue_consumers(q)) && q->head != NULL &&
	       is_within(&requeued, 2 * AHEAD_PART) &&
	       entry_qseq(&q->head->entries[q->head->first]) >= q->paging->look_from;
}

void
page_refill(struct queue *q)
{
	struct broker *broker = q->vhost->broker;
	struct page_move *move;

	if (q->paging->reading || broker->store == NULL || !wants_more(q))
		return;
	move = page_move_new(q);
	collect(move, list_empty(queue_consumers(q)) ? GET_PART : 1);
	if (move->count > 0 && store_page_in(broker->store, move->items, move->count, move))
		q->paging->reading = true;
	else
		page_move_free(move);
}

/* ---- what came ---- */

/* The entry is there still: it gets its message, or goes. */
static void
bring_back(struct walk *walk, struct entry *entry, struct bytes body)
{
	struct queue *q = walk->queue;
	struct entry lost;

	if (body.p != NULL) {
		page_swap(q, entry, message_new_unpaged(entry->message, body));
		return;
	}
	/* a late one is tried again when its turn comes */
	if (walk->block == NULL)
		return;
	lost = window_remove(q, walk->before, walk->block, walk->index);
	page_count_out(q);
	queue_settle(q, &lost, ACK_REJECTED);
	message_unref(lost.message);
	/* its block may be gone */
	*walk = walk_begin(q);
}

void
broker_paged_in(struct broker *broker, void *owner)
{
	struct page_move *move = owner;
	struct queue *q = move->queue;
	struct walk walk = walk_begin(q);

	assert_not_dispatching(broker);
	if (q->flags & QUEUE_WAITING) {
		waiting_paged_in(move);
		page_move_free(move);
		return;
	}
	q->paging->reading = false;
	q->paging->look_from = 0;
	for (uint32_t i = 0; i < move->count; i++) {
		const struct entry *wanted = &move->entries[i];
		struct entry *entry;

		walk_seek(&walk, entry_qseq(wanted));
		entry = walk_entry(&walk);
		if (entry == NULL || entry_qseq(entry) != entry_qseq(wanted))
			continue;
		assert(entry->message == wanted->message);
		bring_back(&walk, entry, move->items[i].body);
	}
	queue_came_to_hand(q);
	page_move_free(move);
}
