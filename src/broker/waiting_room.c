/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting rooms: where messages are that are not ready before a time. The room of an exchange (x-delayed-message)
 * sends them on by the bindings that the exchange has then; that of a queue gives them to the queue. Each goes at its
 * own millisecond, those of one time in the order in which they came.
 *
 * A room is a part of its owner, made with the first message: a queue that gives the numbers, has a log when the
 * owner is durable, stands for the room in routes and transactions, and never hands anything out. What goes on is a
 * new message with a record of its own; with the mark on the old record that is one unit of the store, so that a
 * message is in one place after any crash.
 *
 * Messages without a record are at hand. Stored ones are in the cold part of the log and nowhere else: the store's
 * index of deadlines names them shortly before they are due (stored_times.c), they are read, and are at hand for that
 * moment. So a room of millions takes no more memory than one of a few, and knows all of them after a restart.
 *
 * Due times are of the wall clock, as they are kept. The deadline is of the other one and looks again at the latest
 * after LOOK_MS, so that a clock that was set is noticed.
 *
 * Invariants: every entry of the heap is in at_hand; one without a message is in wanted or in asked; what is stored
 * counts as cold until it is settled, at hand or not.
 */
#include "waiting.h"

#include "broker/exchange.h"
#include "broker/message.h"

#include "keys.h"
#include "retry.h"
#include "route.h"

/* So many go on in one go, or so many octets, then others have their turn; after how long while the disk is
 * behind. */
#define STEP_MAX 1000
#define STEP_OCTETS (16 * 1024 * 1024)
#define FULL_MS 2
/* When it is looked again at the latest. */
#define LOOK_MS 60000
/* So many are read at once, or so many octets. */
#define READ_MAX 1024
#define READ_OCTETS (1024 * 1024)

static struct broker *
broker_of(const struct waiting_room *room)
{
	return room->queue->vhost->broker;
}

static bool
is_stored(const struct waiting *w)
{
	return w->place.lsn != 0;
}

/* ---- those at hand, in order ---- */

static int
compare_keys(struct waiting_key a, struct waiting_key b)
{
	int by_time = compare_u64(&a.due_ms, &b.due_ms);

	return by_time != 0 ? by_time : compare_u64(&a.number, &b.number);
}

struct waiting_key
waiting_key_of(const struct waiting *w)
{
	return (struct waiting_key){w->due_ms, w->number};
}

bool
waiting_is_sooner(const struct waiting *a, const struct waiting *b)
{
	if (a->released != b->released)
		return a->released;
	return compare_keys(waiting_key_of(a), waiting_key_of(b)) < 0;
}

static void
place_at(struct waiting_room *room, uint32_t at, struct waiting *w)
{
	room->heap[at] = w;
	w->at = at;
}

static void
sift_up(struct waiting_room *room, uint32_t at, struct waiting *w)
{
	for (; at > 0 && waiting_is_sooner(w, room->heap[(at - 1) / 2]); at = (at - 1) / 2)
		place_at(room, at, room->heap[(at - 1) / 2]);
	place_at(room, at, w);
}

static void
sift_down(struct waiting_room *room, uint32_t at, struct waiting *w)
{
	for (uint32_t child; (child = 2 * at + 1) < room->count; at = child) {
		if (child + 1 < room->count &&
		    waiting_is_sooner(room->heap[child + 1], room->heap[child]))
			child++;
		if (!waiting_is_sooner(room->heap[child], w))
			break;
		place_at(room, at, room->heap[child]);
	}
	place_at(room, at, w);
}

/* A new entry, with or without its message. */
static struct waiting *
add(struct waiting_room *room, const struct waiting *item)
{
	struct waiting *w = slab_alloc(sizeof(*w));

	*w = *item;
	if (room->count == room->room) {
		room->room = room->room == 0 ? 16 : 2 * room->room;
		room->heap = xrealloc(room->heap, room->room * sizeof(*room->heap));
	}
	sift_up(room, room->count++, w);
	map_insert(&room->at_hand, &w->by_number,
		   bytes_of((const uint8_t *)&w->number, sizeof(w->number)));
	if (is_stored(w)) {
		stored_times_count(broker_of(room), w, true);
	} else {
		room->loose_count++;
		room->loose_octets += w->message->body_size;
		room->unlooked++;
		page_note(room->queue);
	}
	return w;
}

/* The entry goes; the message, if it is there, is the caller's. */
static void
forget(struct waiting_room *room, struct waiting *w)
{
	struct waiting *last = room->heap[--room->count];

	if (last != w) {
		sift_down(room, w->at, last);
		sift_up(room, last->at, last);
	}
	map_remove(&room->at_hand, &w->by_number);
	room->unlooked = (uint32_t)min_u64(room->unlooked, room->count);
	if (list_linked(&w->unread))
		list_remove(w->asked ? &room->asked : &room->wanted, &w->unread);
	if (is_stored(w)) {
		stored_times_count(broker_of(room), w, false);
	} else {
		room->loose_count--;
		room->loose_octets -= w->message->body_size;
		room->stub_count -= waiting_is_paged(w);
	}
	slab_free(w, sizeof(*w));
}

struct waiting *
waiting_find(const struct waiting_room *room, uint64_t number)
{
	struct map_node *node =
		map_find(&room->at_hand, bytes_of((const uint8_t *)&number, sizeof(number)));

	return node == NULL ? NULL : container_of(node, struct waiting, by_number);
}

void
waiting_drop(struct waiting_room *room, struct waiting *w, enum ack_reason reason)
{
	struct entry entry = {w->number << 16, w->message};

	if (is_stored(w))
		queue_settle_cold(room->queue, w->number, &w->place, reason);
	else
		queue_settle(room->queue, &entry, reason);
	forget(room, w);
	if (entry.message != NULL)
		message_unref(entry.message);
}

void
waiting_forget_all(struct waiting_room *room)
{
	while (room->count > 0) {
		struct waiting *w = room->heap[room->count - 1];
		struct message *message = w->message;

		if (!is_stored(w)) {
			waiting_drop(room, w, ACK_PURGED);
			continue;
		}
		forget(room, w);
		if (message != NULL)
			message_unref(message);
	}
}

/* ---- going on ---- */

/* What is due goes where it was to go. */
static void
move_on(struct waiting_room *room, struct waiting *w)
{
	const struct queue_part *part = room->queue->life->part;
	struct message *next;
	struct route route;
	bool sent = true;

	route_init(&route);
	if (part->of_exchange != NULL) {
		next = delayed_release(part->of_exchange, w->message, &route);
		sent = route.count > 0;
		queue_publish(broker_of(room), &route, next);
	} else {
		next = retry_release(w->message);
		queue_return(part->of_queue, next);
	}
	route_fini(&route);
	message_unref(next);
	waiting_drop(room, w, sent ? ACK_MOVED : ACK_CONSUMED);
}

/* The first one, if its time has come; it may be unread. */
static struct waiting *
first_due(const struct waiting_room *room)
{
	struct waiting *w;

	if (room->count == 0)
		return NULL;
	w = room->heap[0];
	if (!w->released)
		return w->due_ms <= broker_of(room)->now.wall_ms ? w : NULL;
	/* in a flood nothing goes before what is still to be listed */
	if (room->flood_below != 0 && compare_keys(waiting_key_of(w), room->flooded) > 0)
		return NULL;
	return w;
}

static void
arm(struct waiting_room *room)
{
	struct broker *broker = broker_of(room);
	const struct waiting *due = first_due(room);
	const struct waiting *first = room->count == 0 ? NULL : room->heap[0];
	uint64_t ahead_ms = 0;
	uint64_t wait_ms = LOOK_MS;

	if (room->stub_count > 0) {
		waiting_page_ahead(room);
		if (first != NULL && waiting_is_paged(first) && !room->paging_in)
			ahead_ms = WAITING_PAGE_IN_MS;
	}
	/* reading one, or listing what is next, ends with a look */
	if (first == NULL || (due != NULL && !waiting_is_here(due)) ||
	    (due == NULL && first->released)) {
		deadline_clear(broker->deadlines, &room->due);
		return;
	}
	if (due != NULL)
		wait_ms = broker_store_behind(broker) ? FULL_MS : 0;
	else
		wait_ms = min_u64(wait_ms, first->due_ms - ahead_ms - broker->now.wall_ms);
	deadline_set(broker->deadlines, &room->due, broker->now.monotonic_ms + wait_ms);
}

static void
on_due(struct deadline *deadline, uint64_t now_ms)
{
	struct waiting_room *room = container_of(deadline, struct waiting_room, due);
	struct broker *broker = broker_of(room);
	uint64_t octets = 0;
	struct waiting *w;

	(void)now_ms;
	for (uint32_t n = 0; n < STEP_MAX && octets < STEP_OCTETS && !broker_store_behind(broker) &&
			     (w = first_due(room)) != NULL && waiting_is_here(w);
	     n++) {
		octets += w->message->body_size;
		move_on(room, w);
	}
	if (first_due(room) == NULL && room->flood_below != 0)
		waiting_flood_on(room);
	arm(room);
	stored_times_feed(broker);
}

void
waiting_look(struct waiting_room *room)
{
	struct broker *broker = broker_of(room);

	deadline_set(broker->deadlines, &room->due, broker->now.monotonic_ms);
}

void
waiting_let_go(struct waiting_room *room, struct waiting *w)
{
	w->released = true;
	sift_up(room, w->at, w);
	waiting_look(room);
}

/* ---- reading ---- */

struct waiting *
waiting_fetch(struct waiting_room *room, const struct store_deadline *deadline)
{
	struct waiting *w = waiting_find(room, deadline->qseq);

	if (w != NULL) {
		w->place = deadline->place;
		return w;
	}
	w = add(room, &(struct waiting){
			      .number = deadline->qseq,
			      .due_ms = deadline->time_ms,
			      .place = deadline->place,
		      });
	list_append(&room->wanted, &w->unread);
	stored_times_touch(room);
	return w;
}

void
waiting_give_back(struct waiting_room *room, struct waiting *w)
{
	struct message *message = w->message;

	if (!is_stored(w) || w->given || w->released)
		return;
	forget(room, w);
	if (message != NULL)
		message_unref(message);
}

void
waiting_room_ask(struct waiting_room *room)
{
	struct queue_log *log = room->queue->log;
	struct store_pick picks[READ_MAX];
	uint64_t octets = 0;
	uint32_t n = 0;
	struct list_link *link;

	if (log == NULL || log->picking != NULL)
		return; // when that has ended
	while (n < READ_MAX && octets < READ_OCTETS && (link = list_pop(&room->wanted)) != NULL) {
		struct waiting *w = container_of(link, struct waiting, unread);

		w->asked = true;
		octets += w->place.body_size;
		list_append(&room->asked, &w->unread);
		picks[n++] = (struct store_pick){w->number, w->place};
	}
	if (n == 0)
		return;
	store_sort_picks(picks, n);
	store_read_these(broker_of(room)->store, log, picks, n);
}

void
waiting_room_due(struct queue *q, const struct store_deadline *deadline)
{
	struct waiting_room *room = q->life->room;
	struct waiting *w = waiting_fetch(room, deadline);

	w->given = true;
	if (room->heap[0] == w)
		arm(room);
}

void
waiting_room_read(struct queue *q, uint64_t number, struct message *message)
{
	struct waiting_room *room = q->life->room;
	struct waiting *w = waiting_find(room, number);

	if (w == NULL || w->message != NULL)
		return;
	assert(w->asked);
	list_remove(&room->asked, &w->unread);
	w->message = message_ref(message);
}

void
waiting_room_read_end(struct queue *q)
{
	struct waiting_room *room = q->life->room;
	struct waiting *w;

	/* what could not be read: the store has said so, and counts it no more */
	while ((w = list_first(&room->asked, struct waiting, unread)) != NULL)
		forget(room, w);
	waiting_room_ask(room);
	waiting_look(room);
	waiting_requests_go_on(room);
}

/* ---- coming ---- */

struct queue *
waiting_room_queue(struct part_owner owner)
{
	struct queue *q = part_find(owner, PART_ROOM);

	return q != NULL ? q : part_create(owner, PART_ROOM);
}

/* Takes the message in: with the room alone in its route. */
static struct publish_result
put(const struct route *route, struct message *message, uint64_t due_ms)
{
	struct queue *q = route->queues[0];
	struct broker *broker = q->vhost->broker;
	struct waiting item = {.number = q->next_qseq, .due_ms = due_ms};
	struct publish_result result = {0, false};
	struct waiting *w;
	bool is_kept = true;

	message->time_ms = broker->now.wall_ms;
	if ((message->flags & MESSAGE_PERSISTENT) && q->log != NULL) {
		is_kept = stored_times_near(broker, due_ms);
		result.lsn = queue_store_waiting(broker, route, message, due_ms, &item.place);
		cold_push(q, item.number, message->body_size);
	}
	keys_note(route, message);
	q->next_qseq++;
	q->publish_count++;
	if (!is_kept)
		return result;
	item.message = message_ref(message);
	w = add(q->life->room, &item);
	if (q->life->room->heap[0] == w)
		arm(q->life->room);
	/* the index names it too: that is over before the next one is asked about */
	if (is_stored(w))
		stored_times_feed(broker);
	return result;
}

struct publish_result
waiting_room_put(struct part_owner owner, struct message *message, uint64_t due_ms)
{
	struct queue *q = waiting_room_queue(owner);
	struct route route = {.queues = &q, .count = 1};
	struct publish_result result;

	assert_not_dispatching(q->vhost->broker);
	assert(message->time_ms == 0);
	keys_move(&route, message);
	result = put(&route, message, due_ms);
	route.queues = NULL;
	route_fini(&route);
	return result;
}

/* A message for the room of an exchange. Whoever routed it knew of a delay. */
static struct publish_result
put_delayed(const struct route *route, struct message *message)
{
	uint64_t now_ms = route->queues[0]->vhost->broker->now.wall_ms;
	uint64_t delay_ms = 0;
	bool wants = delayed_wants(message, &delay_ms);

	assert(wants);
	return put(route, message, min_u64(now_ms, INT64_MAX) + delay_ms);
}

/* The queues of the route that are no rooms. */
static struct publish_result
publish_to_others(struct broker *broker, const struct route *route, struct message *message)
{
	struct publish_result result = {0, false};
	struct route others;

	route_init(&others);
	for (uint32_t i = 0; i < route->count; i++) {
		if (route->queues[i]->flags & QUEUE_WAITING)
			continue;
		if (others.count == others.room)
			route_grow(&others);
		others.queues[others.count++] = route->queues[i];
	}
	if (others.count > 0) {
		route_copy_marks(&others, route);
		result = queue_publish(broker, &others, message);
	}
	route_fini(&others);
	return result;
}

NEVER_INLINE struct publish_result
waiting_room_publish(struct broker *broker, const struct route *route, struct message *message)
{
	struct publish_result result;
	bool has_others;

	if (route->count == 1)
		return put_delayed(route, message);
	/* each room has a record of its own, which says when it is due; keys are remembered once, with the first */
	result = publish_to_others(broker, route, message);
	has_others = message->time_ms != 0;
	for (uint32_t i = 0; i < route->count; i++) {
		struct route alone = {.queues = &route->queues[i], .count = 1};
		struct message *copy;

		if (!(route->queues[i]->flags & QUEUE_WAITING))
			continue;
		if (!has_others && i == 0) {
			alone.marks = route->marks;
			alone.mark_count = route->mark_count;
		}
		copy = message_copy(message);
		result.lsn = max_u64(result.lsn, put_delayed(&alone, copy).lsn);
		message_unref(copy);
	}
	return result;
}

/* ---- life ---- */

void
waiting_room_begin(struct queue *q)
{
	struct waiting_room *room = xcalloc(1, sizeof(*room));

	life_need(q);
	assert(q->life->room == NULL);
	room->queue = q;
	room->due.run = on_due;
	map_init(&room->at_hand);
	list_init(&room->wanted);
	list_init(&room->asked);
	list_init(&room->requests);
	q->life->room = room;
	q->flags |= QUEUE_WAITING;
}

void
waiting_room_end(struct queue *q)
{
	struct waiting_room *room = q->life->room;
	struct broker *broker = broker_of(room);

	waiting_requests_end(room);
	deadline_clear(broker->deadlines, &room->due);
	if (list_linked(&room->touched))
		list_remove(&broker->times->touched, &room->touched);
	waiting_forget_all(room); // what is stored goes with the log
	map_fini(&room->at_hand);
	xfree(room->heap);
	xfree(room);
	q->life->room = NULL;
}

static struct waiting_room *
room_of(struct part_owner owner)
{
	struct queue *q = part_find(owner, PART_ROOM);

	return q == NULL ? NULL : q->life->room;
}

struct waiting_room *
waiting_room_of_exchange(struct exchange *exchange)
{
	return room_of((struct part_owner){.exchange = exchange});
}

struct waiting_room *
waiting_room_of_queue(struct queue *queue)
{
	return room_of((struct part_owner){.queue = queue});
}

uint64_t
waiting_room_count(const struct waiting_room *room)
{
	const struct queue_log *log = room->queue->log;

	return room->loose_count + (log == NULL ? 0 : log->cold_count);
}

uint64_t
waiting_room_octets(const struct waiting_room *room)
{
	const struct queue_log *log = room->queue->log;

	return room->loose_octets + (log == NULL ? 0 : log->cold_octets);
}

void
waiting_room_check(const struct queue *q)
{
	const struct waiting_room *room = q->life == NULL ? NULL : q->life->room;
	size_t unread = 0;
	uint64_t loose = 0;
	uint64_t stubs = 0;

	assert((room != NULL) == ((q->flags & QUEUE_WAITING) != 0));
	if (room == NULL)
		return;
	assert(room->queue == q);
	assert(q->ready_count == 0);
	assert(q->unacked_count == 0);
	assert(room->count == room->at_hand.count);
	for (uint32_t i = 0; i < room->count; i++) {
		const struct waiting *w = room->heap[i];

		assert(w->at == i);
		assert(i == 0 || !waiting_is_sooner(w, room->heap[(i - 1) / 2]));
		assert(w->number < q->next_qseq);
		assert((w->message == NULL) == list_linked(&w->unread));
		assert(!is_stored(w) || store_is_cold(q->log, w->number));
		loose += !is_stored(w);
		stubs += waiting_is_paged(w);
		unread += w->message == NULL;
	}
	assert(loose == room->loose_count);
	assert(stubs == room->stub_count);
	assert(unread == room->wanted.count + room->asked.count);
	assert(room->count == 0 || deadline_is_set(&room->due) || unread > 0 || room->paging_in ||
	       room->flood_below != 0);
}
