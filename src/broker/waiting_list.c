/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting rooms for whoever looks after them: what waits is listed, shown, released and cancelled, one message or all.
 *
 * What is at hand is in memory; of the rest the store lists what there is, by the helper thread. So whoever asks for
 * something that may be on the disk has a request, which ends with the answer or with the room.
 *
 * All of a room is released as a flood: what the disk has is listed a page at a time and fetched, and goes on in the
 * order in which it would have. What comes meanwhile waits for its own time.
 */
#include "broker/message.h"
#include "waiting.h"

/* A page of a flood. */
#define FLOOD_PAGE 512
/* What of it is fetched at once, but for the first one: octets of bodies. */
#define FLOOD_OCTETS (1024 * 1024)

enum request_kind {
	REQUEST_LIST,
	REQUEST_SHOW,
	REQUEST_RELEASE,
	REQUEST_CANCEL,
	REQUEST_FLOOD
};

struct request {
	struct list_link of_room;  // in room->requests
	struct waiting_room *room; // borrows; NULL: it has ended, and nobody waits for the answer
	enum request_kind kind;
	bool is_listed;		// the message of REQUEST_SHOW was found, and is being read
	struct waiting_key key; // of the message; REQUEST_LIST: what is wanted is behind it
	uint32_t max;		// REQUEST_LIST
	waiting_listed *listed; // REQUEST_LIST
	waiting_shown *shown;	// REQUEST_SHOW
	waiting_done *done;	// REQUEST_RELEASE, REQUEST_CANCEL
	void *context;		// of those
};

static bool
is_same(struct waiting_key a, struct waiting_key b)
{
	return a.due_ms == b.due_ms && a.number == b.number;
}

static bool
is_before(struct waiting_key a, struct waiting_key b)
{
	return a.due_ms < b.due_ms || (a.due_ms == b.due_ms && a.number < b.number);
}

static struct waiting_key
key_of(const struct store_deadline *deadline)
{
	return (struct waiting_key){deadline->time_ms, deadline->qseq};
}

/* ---- lists ---- */

/* The first items in order, up to a number of them. */
struct page {
	struct waiting_item *items; // owns
	uint32_t count;
	uint32_t max;
};

static void
page_add(struct page *page, struct waiting_item item)
{
	uint32_t low = 0;
	uint32_t high = page->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (is_before(page->items[middle].key, item.key))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == page->max)
		return;
	if (page->count == page->max)
		page->count--;
	memmove(&page->items[low + 1], &page->items[low],
		(page->count - low) * sizeof(*page->items));
	page->items[low] = item;
	page->count++;
}

static void
page_add_at_hand(struct page *page, const struct waiting_room *room, struct waiting_key after)
{
	for (uint32_t i = 0; i < room->count; i++) {
		const struct waiting *w = room->heap[i];

		if (is_before(after, waiting_key_of(w)))
			page_add(page,
				 (struct waiting_item){
					 .key = waiting_key_of(w),
					 .body_size = w->place.lsn != 0 ? w->place.body_size
									: w->message->body_size,
				 });
	}
}

static void
tell_list(const struct request *request, const struct store_deadline *deadlines, uint32_t count)
{
	const struct waiting_room *room = request->room;
	struct page page = {.max = request->max};

	page.items = xmalloc((page.max + 1) * sizeof(*page.items));
	page_add_at_hand(&page, room, request->key);
	for (uint32_t i = 0; i < count; i++)
		if (waiting_find(room, deadlines[i].qseq) == NULL &&
		    store_is_cold(room->queue->log, deadlines[i].qseq))
			page_add(&page, (struct waiting_item){
						.key = key_of(&deadlines[i]),
						.body_size = deadlines[i].place.body_size,
					});
	request->listed(request->context, page.items, page.count);
	xfree(page.items);
}

/* ---- floods ---- */

static void
flood(struct waiting_room *room, const struct store_deadline *deadlines, uint32_t count)
{
	uint64_t octets = 0;
	uint32_t n = 0;

	room->flood_asked = false;
	for (; n < count && octets < FLOOD_OCTETS; n++) {
		room->flooded = key_of(&deadlines[n]);
		if (deadlines[n].qseq >= room->flood_below ||
		    !store_is_cold(room->queue->log, deadlines[n].qseq))
			continue;
		octets += deadlines[n].place.body_size;
		waiting_let_go(room, waiting_fetch(room, &deadlines[n]));
	}
	if (count == 0)
		room->flood_below = 0;
	waiting_room_ask(room);
	waiting_look(room);
}

/* ---- requests ---- */

static void
request_end(struct request *request)
{
	if (request->room != NULL)
		list_remove(&request->room->requests, &request->of_room);
	slab_free(request, sizeof(*request));
}

/* Whoever asked hears that there is nothing. */
static void
tell_nothing(const struct request *request)
{
	if (request->kind == REQUEST_LIST)
		request->listed(request->context, NULL, 0);
	else if (request->kind == REQUEST_SHOW)
		request->shown(request->context, NULL);
	else if (request->kind != REQUEST_FLOOD)
		request->done(request->context, false);
}

/* The message that was found on the disk gets what it is to get; whether the request is over with that. */
static bool
act(struct request *request, const struct store_deadline *deadline)
{
	struct waiting_room *room = request->room;

	switch (request->kind) {
	case REQUEST_SHOW:
		waiting_fetch(room, deadline);
		waiting_room_ask(room);
		request->is_listed = true;
		return false;
	case REQUEST_RELEASE:
		waiting_let_go(room, waiting_fetch(room, deadline));
		waiting_room_ask(room);
		return true;
	default:
		queue_settle_cold(room->queue, deadline->qseq, &deadline->place, ACK_PURGED);
		return true;
	}
}

/* The entry at hand gets it. */
static bool
act_at_hand(struct request *request, struct waiting *w)
{
	switch (request->kind) {
	case REQUEST_SHOW:
		if (!waiting_is_here(w)) {
			request->is_listed = true;
			if (waiting_is_paged(w))
				waiting_page_in(request->room, w);
			return false;
		}
		request->shown(request->context, w->message);
		return true;
	case REQUEST_RELEASE:
		waiting_let_go(request->room, w);
		return true;
	default:
		waiting_drop(request->room, w, ACK_PURGED);
		waiting_look(request->room);
		return true;
	}
}

/* What the store lists for a request. */
static void
on_listed(void *context, const struct store_deadline *deadlines, uint32_t count)
{
	struct request *request = context;
	struct waiting_room *room = request->room;
	struct waiting *w;
	bool over = true;

	if (room == NULL) {
		request_end(request);
		return;
	}
	if (request->kind == REQUEST_LIST) {
		tell_list(request, deadlines, count);
	} else if (request->kind == REQUEST_FLOOD) {
		flood(room, deadlines, count);
	} else if ((w = waiting_find(room, request->key.number)) != NULL &&
		   is_same(waiting_key_of(w), request->key)) {
		over = act_at_hand(request, w);
		if (over && request->done != NULL)
			request->done(request->context, true);
	} else if (count > 0 && is_same(key_of(&deadlines[0]), request->key) &&
		   store_is_cold(room->queue->log, deadlines[0].qseq)) {
		over = act(request, &deadlines[0]);
		if (over)
			request->done(request->context, true);
	} else {
		tell_nothing(request);
	}
	if (over)
		request_end(request);
}

/* Asks the store for what is behind a place. */
static void
ask(struct waiting_room *room, const struct request *wanted, struct waiting_key after, uint32_t max)
{
	struct queue_log *log = room->queue->log;
	struct request *request = slab_alloc(sizeof(*request));

	*request = *wanted;
	request->room = room;
	list_append(&room->requests, &request->of_room);
	if (log == NULL || log->cold_count == 0 || room->queue->vhost->broker->store == NULL)
		on_listed(request, NULL, 0);
	else
		store_list_deadlines(
			room->queue->vhost->broker->store, log,
			&(struct store_deadline){.time_ms = after.due_ms, .qseq = after.number},
			max, on_listed, request);
}

/* Asks for one message; at hand it gets what it is to get at once. */
static void
ask_one(struct waiting_room *room, const struct request *wanted)
{
	struct waiting *w = waiting_find(room, wanted->key.number);
	struct waiting_key before = wanted->key;

	if (before.number > 0)
		before.number--;
	if (w != NULL && is_same(waiting_key_of(w), wanted->key)) {
		struct request request = *wanted;

		request.room = room;
		if (act_at_hand(&request, w)) {
			if (request.done != NULL)
				request.done(request.context, true);
			return;
		}
	}
	ask(room, wanted, before, 1);
}

/* Ends the request; w NULL: the message is gone. */
static void
show(struct request *request, struct waiting *w)
{
	struct request ended = *request;

	request_end(request);
	ended.shown(ended.context, w == NULL ? NULL : w->message);
	w = waiting_find(ended.room, ended.key.number);
	if (w != NULL)
		waiting_give_back(ended.room, w);
}

void
waiting_requests_go_on(struct waiting_room *room)
{
	for (size_t n = room->requests.count; n > 0; n--) {
		struct request *request = list_first(&room->requests, struct request, of_room);
		struct waiting *w;

		list_remove(&room->requests, &request->of_room);
		list_append(&room->requests, &request->of_room);
		if (!request->is_listed)
			continue;
		w = waiting_find(room, request->key.number);
		if (w != NULL && !waiting_is_here(w)) {
			/* another read has it */
			if (waiting_is_paged(w))
				waiting_page_in(room, w);
			continue;
		}
		show(request, w);
	}
}

void
waiting_requests_end(struct waiting_room *room)
{
	struct list_link *link;

	while ((link = list_pop(&room->requests)) != NULL) {
		struct request *request = container_of(link, struct request, of_room);

		tell_nothing(request);
		request->room = NULL;
		/* otherwise the store's answer ends it */
		if (request->is_listed)
			request_end(request);
	}
}

/* ---- what is asked ---- */

void
waiting_room_list(struct waiting_room *room, struct waiting_key after, uint32_t max,
		  waiting_listed *listed, void *context)
{
	assert(max > 0);
	ask(room,
	    &(struct request){
		    .kind = REQUEST_LIST,
		    .key = after,
		    .max = max,
		    .listed = listed,
		    .context = context,
	    },
	    after, max);
}

void
waiting_room_show(struct waiting_room *room, struct waiting_key key, waiting_shown *shown,
		  void *context)
{
	ask_one(room, &(struct request){
			      .kind = REQUEST_SHOW,
			      .key = key,
			      .shown = shown,
			      .context = context,
		      });
}

void
waiting_room_release(struct waiting_room *room, struct waiting_key key, waiting_done *done,
		     void *context)
{
	ask_one(room, &(struct request){
			      .kind = REQUEST_RELEASE,
			      .key = key,
			      .done = done,
			      .context = context,
		      });
}

void
waiting_room_cancel(struct waiting_room *room, struct waiting_key key, waiting_done *done,
		    void *context)
{
	ask_one(room, &(struct request){
			      .kind = REQUEST_CANCEL,
			      .key = key,
			      .done = done,
			      .context = context,
		      });
}

void
waiting_flood_on(struct waiting_room *room)
{
	if (room->flood_asked)
		return;
	room->flood_asked = true;
	ask(room, &(struct request){.kind = REQUEST_FLOOD}, room->flooded, FLOOD_PAGE);
}

uint64_t
waiting_room_release_all(struct waiting_room *room)
{
	/* as all of them are, their order stays */
	for (uint32_t i = 0; i < room->count; i++)
		room->heap[i]->released = true;
	if (room->queue->log != NULL && room->queue->log->cold_count > 0) {
		room->flood_below = room->queue->next_qseq;
		room->flooded = (struct waiting_key){0, 0};
	}
	waiting_look(room);
	return waiting_room_count(room);
}

uint64_t
waiting_room_cancel_all(struct waiting_room *room)
{
	struct queue *q = room->queue;
	struct broker *broker = q->vhost->broker;
	uint64_t count = waiting_room_count(room);

	waiting_forget_all(room);
	if (q->log != NULL && q->log->cold_count > 0)
		broker->effect_lsn = store_purge_cold(broker->store, q->log);
	q->flags &= ~(unsigned)QUEUE_COLD;
	room->flood_below = 0;
	waiting_requests_go_on(room);
	waiting_look(room);
	return count;
}
