/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of waiting rooms that have no record go to page files while memory is short, as those of queues do
 * (queue_page.c): a stub waits in the message's place. They are looked at as they lie in the heap, where the later ones
 * are behind. One that is due soon stays; the bodies of those that come to be are read a moment before.
 */
#include "broker/message.h"
#include "queue_page.h"
#include "waiting.h"

/* Entries that are looked at in one turn. */
#define LOOK_ENTRIES 4096
/* What is due sooner stays in memory. */
#define STAY_MS 2000
/* So many of the next ones are at hand before they are due, or so many octets; how often that is looked at. */
#define AHEAD_COUNT PAGE_MOVE_COUNT
#define AHEAD_OCTETS (2 * 1024 * 1024)
#define LOOK_MS 20

/* ---- out ---- */

bool
waiting_may_page(const struct queue *q)
{
	const struct waiting_room *room = q->life->room;

	return room != NULL && room->loose_count > QUEUE_WINDOW_COUNT && room->unlooked > 0;
}

/* Whether its body may go. */
static bool
may_go(const struct waiting_room *room, const struct waiting *w)
{
	return w->place.lsn == 0 && !w->released && page_may_take(w->message) &&
	       w->due_ms > room->queue->vhost->broker->now.wall_ms + STAY_MS;
}

/* Another message, a stub or not, takes the place of the one that waits. */
static void
swap(struct waiting *w, struct message *other)
{
	message_unref(w->message);
	w->message = other;
}

/* Takes it, if it may go; false: it does not fit any more. */
static bool
take(struct page_move *move, struct waiting *w)
{
	if (!may_go(move->queue->life->room, w))
		return true;
	if (!(w->message->flags & MESSAGE_HAS_STUB))
		return page_take(move, &(struct entry){w->number << 16, w->message});
	/* another queue has it too */
	swap(w, message_ref(w->message->stub));
	move->queue->life->room->stub_count++;
	return true;
}

void
waiting_page_collect(struct page_move *move)
{
	struct waiting_room *room = move->queue->life->room;

	for (int i = 0; i < LOOK_ENTRIES && room->unlooked > 0; i++) {
		struct waiting *w = room->heap[room->look_at < room->count ? room->look_at : 0];

		if (!take(move, w))
			return;
		room->look_at = w->at + 1;
		room->unlooked--;
	}
}

void
waiting_paged_out(struct queue *q, const struct entry *entry, struct message *stub)
{
	struct waiting_room *room = q->life->room;
	struct waiting *w = room == NULL ? NULL : waiting_find(room, entry_qseq(entry));

	if (w == NULL || w->message != entry->message)
		return;
	swap(w, message_ref(stub));
	room->stub_count++;
	/* it is to be read before it is due */
	if (w->at == 0)
		waiting_look(room);
}

void
waiting_page_again(struct queue *q)
{
	if (q->life->room != NULL)
		q->life->room->unlooked = q->life->room->count;
}

/* ---- in ---- */

static void
add(struct page_move *move, const struct waiting *w)
{
	page_move_add(move, &(struct entry){w->number << 16, w->message},
		      (struct page_item){
			      .place = message_page_place(w->message),
			      .body = {.n = w->message->body_size},
		      });
}

/* A walk along the heap of a room in its order: places whose parents were passed, a heap of their own. */
struct front {
	const struct waiting_room *room;
	uint32_t places[2 * AHEAD_COUNT];
	uint32_t count;
};

static bool
is_before(const struct front *front, uint32_t i, uint32_t j)
{
	return waiting_is_sooner(front->room->heap[front->places[i]],
				 front->room->heap[front->places[j]]);
}

static void
swap_places(struct front *front, uint32_t i, uint32_t j)
{
	uint32_t place = front->places[i];

	front->places[i] = front->places[j];
	front->places[j] = place;
}

static void
front_push(struct front *front, uint32_t place)
{
	uint32_t at = front->count;

	if (place >= front->room->count || front->count == countof(front->places))
		return;
	front->places[front->count++] = place;
	for (; at > 0 && is_before(front, at, (at - 1) / 2); at = (at - 1) / 2)
		swap_places(front, at, (at - 1) / 2);
}

/* The next one; there must be one. */
static const struct waiting *
front_pop(struct front *front)
{
	uint32_t place = front->places[0];
	uint32_t at = 0;

	front->places[0] = front->places[--front->count];
	for (uint32_t child; (child = 2 * at + 1) < front->count; at = child) {
		if (child + 1 < front->count && is_before(front, child + 1, child))
			child++;
		if (!is_before(front, child, at))
			break;
		swap_places(front, child, at);
	}
	front_push(front, 2 * place + 1);
	front_push(front, 2 * place + 2);
	return front->room->heap[place];
}

/* The stubs among the next ones, as many as should be at hand, that go before this time. */
static void
collect_ahead(struct page_move *move, const struct waiting_room *room, uint64_t until_ms)
{
	static struct front front;
	uint64_t octets = 0;

	front.room = room;
	front.count = 0;
	front_push(&front, 0);
	for (uint32_t n = 0; n < AHEAD_COUNT && octets < AHEAD_OCTETS && front.count > 0; n++) {
		const struct waiting *w = front_pop(&front);

		if (!w->released && w->due_ms > until_ms)
			break;
		if (w->message == NULL)
			continue; // it comes from the log
		octets += w->message->body_size;
		if (waiting_is_paged(w))
			add(move, w);
	}
}

static void
read_in(struct page_move *move)
{
	struct broker *broker = move->queue->vhost->broker;

	if (move->count > 0 && store_page_in(broker->store, move->items, move->count, move))
		move->queue->life->room->paging_in = true;
	else
		page_move_free(move);
}

void
waiting_page_in(struct waiting_room *room, const struct waiting *w)
{
	struct page_move *move;

	if (room->paging_in || room->queue->vhost->broker->store == NULL)
		return;
	move = page_move_new(room->queue);
	add(move, w);
	read_in(move);
}

void
waiting_page_ahead(struct waiting_room *room)
{
	struct broker *broker = room->queue->vhost->broker;
	struct page_move *move;

	if (room->paging_in || broker->store == NULL || room->count == 0)
		return;
	if (broker->now.monotonic_ms < room->page_look_ms && !waiting_is_paged(room->heap[0]))
		return;
	room->page_look_ms = broker->now.monotonic_ms + LOOK_MS;
	move = page_move_new(room->queue);
	collect_ahead(move, room, broker->now.wall_ms + WAITING_PAGE_IN_MS);
	read_in(move);
}

void
waiting_paged_in(struct page_move *move)
{
	struct waiting_room *room = move->queue->life->room;

	for (uint32_t i = 0; room != NULL && i < move->count; i++) {
		struct waiting *w = waiting_find(room, entry_qseq(&move->entries[i]));
		struct bytes body = move->items[i].body;

		if (w == NULL || w->message != move->entries[i].message)
			continue;
		if (body.p == NULL) {
			waiting_drop(room, w, ACK_REJECTED); // it is lost
			continue;
		}
		swap(w, message_new_unpaged(w->message, body));
		room->stub_count--;
	}
	if (room == NULL)
		return;
	room->paging_in = false;
	waiting_look(room);
	waiting_requests_go_on(room);
}
