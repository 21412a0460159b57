/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored messages whose own expiration has come (amqp.md 6.9). The store has an index of them on disk and gives
 * each once in a run: so nothing is kept here of those that wait. One that is at hand dies as others do
 * (queue_ttl.c); one that is unacked is left, and dies when it comes back. One that is on the disk is settled there
 * unread; if its queue wants its dead letter it is read, alone, and dies when it comes.
 *
 * What is to be read is the little that this has to remember: while there is much of it nothing more is asked
 * of the store, and a few queues at once have some of theirs read, as fast as the disk takes the dead letters.
 */
#include <stdlib.h>

#include "broker/durable.h"
#include "broker/message.h"
#include "internal.h"
#include "store/store.h"
#include "waiting.h"

/* So many are taken in one go, then others have their turn. */
#define TAKE_MAX 1000
/* After how long to look again while the disk is behind; when at the latest. */
#define FULL_MS 2
#define LOOK_MS 60000
/* What there may be to be read before no more is asked for; what of a queue is read at once, but for its first
 * one; how many queues are read at once. */
#define DYING_MAX 4096
#define READ_COUNT 1000
#define READ_OCTETS (4 * 1024 * 1024)
#define READS 4

/* Messages of one queue on the disk that are to be read, and die. */
struct dying_list {
	struct list_link waiting; // in broker->dying: some are to be read, and none is being
	struct queue *queue;	  // borrows: whose it is
	struct store_pick *items; // own
	uint32_t count;
	uint32_t room;
	uint32_t asked; // the first ones of them, which are being read
};

/* ---- when ---- */

static void
arm(struct broker *broker)
{
	bool has_room = broker->dying_count < DYING_MAX;
	uint64_t wall_ms = stored_times_next_ms(broker, has_room);
	uint64_t wait_ms;

	if (!list_empty(&broker->dying) && broker->dying_reads < READS)
		wall_ms = 0;
	if (wall_ms == UINT64_MAX) {
		deadline_clear(broker->deadlines, &broker->stored_due);
		return;
	}
	/* it is looked again at the latest when the wall clock may have been set */
	wait_ms = wall_ms <= broker->now.wall_ms ? 0 : wall_ms - broker->now.wall_ms;
	wait_ms = min_u64(wait_ms, LOOK_MS);
	deadline_set(broker->deadlines, &broker->stored_due, broker->now.monotonic_ms + wait_ms);
}

void
broker_deadlines_changed(struct broker *broker)
{
	if (broker->store != NULL)
		arm(broker);
}

/* ---- what is to be read ---- */

static void
list_waits(struct broker *broker, struct dying_list *list)
{
	if (list->count > 0 && list->asked == 0 && !list_linked(&list->waiting))
		list_append(&broker->dying, &list->waiting);
}

void
queue_let_die(struct queue *q, uint64_t qseq, const struct stored_place *place)
{
	struct dying_list *list;

	life_need(q);
	if (q->life->dying == NULL) {
		q->life->dying = slab_alloc(sizeof(*list));
		*q->life->dying = (struct dying_list){.queue = q};
	}
	list = q->life->dying;
	if (list->count == list->room) {
		list->room = list->room == 0 ? 16 : 2 * list->room;
		list->items = xrealloc(list->items, list->room * sizeof(*list->items));
	}
	list->items[list->count++] = (struct store_pick){qseq, *place};
	q->vhost->broker->dying_count++;
	list_waits(q->vhost->broker, list);
	arm(q->vhost->broker);
}

/* Takes the first ones off. */
static void
list_shift(struct broker *broker, struct dying_list *list, uint32_t n)
{
	assert(n <= list->count);
	assert(broker->dying_count >= n);
	broker->dying_count -= n;
	list->count -= n;
	memmove(list->items, list->items + n, list->count * sizeof(*list->items));
}

/* Has the next ones read, in the order of the queue. */
static void
read_some(struct broker *broker, struct dying_list *list)
{
	static struct store_pick picks[READ_COUNT];
	uint64_t octets = 0;
	uint32_t n = 0;

	store_sort_picks(list->items, list->count);
	for (; list->asked < list->count && n < READ_COUNT; list->asked++) {
		const struct store_pick *item = &list->items[list->asked];

		if (n > 0 && octets + item->place.body_size > READ_OCTETS)
			break;
		/* one may have been noted twice */
		if (n > 0 && picks[n - 1].qseq == item->qseq)
			continue;
		octets += item->place.body_size;
		picks[n++] = *item;
	}
	broker->dying_reads++;
	store_read_these(broker->store, list->queue->log, picks, n);
}

static void
read_waiting(struct broker *broker)
{
	while (!list_empty(&broker->dying) && broker->dying_reads < READS) {
		struct dying_list *list = list_first(&broker->dying, struct dying_list, waiting);

		list_remove(&broker->dying, &list->waiting);
		read_some(broker, list);
	}
}

void
queue_forget_dying(struct queue *q)
{
	struct dying_list *list = q->life == NULL ? NULL : q->life->dying;
	struct broker *broker = q->vhost->broker;

	if (list == NULL)
		return;
	if (list_linked(&list->waiting))
		list_remove(&broker->dying, &list->waiting);
	if (list->asked > 0)
		broker->dying_reads--;
	list_shift(broker, list, list->count);
	xfree(list->items);
	slab_free(list, sizeof(*list));
	q->life->dying = NULL;
	if (broker->store != NULL)
		arm(broker);
}

void
broker_read_this(struct broker *broker, struct queue_log *log, uint64_t qseq,
		 const struct stored_message *stored, bool redelivered)
{
	struct queue *q = log->owner;
	struct message *message = message_new_stored(&stored->record);
	struct stored_place place = {
		.lsn = stored->lsn,
		.share = store_share(stored->record_size, stored->record.ref_count),
		.body_size = message->body_size,
	};
	bool sent;

	(void)redelivered;
	assert(q != NULL);
	if (q->flags & QUEUE_WAITING) {
		waiting_room_read(q, qseq, message);
		message_unref(message);
		return;
	}
	sent = dead_letter_send(q, message, DEATH_EXPIRED);
	broker->effect_lsn = store_ack_cold(broker->store, log, qseq, &place,
					    sent ? ACK_DEAD_LETTERED : ACK_EXPIRED);
	message_unref(message);
}

void
broker_read_these_end(struct broker *broker, struct queue_log *log)
{
	struct queue *q = log->owner;
	struct dying_list *list = q->life->dying;

	if (q->flags & QUEUE_WAITING) {
		waiting_room_read_end(q);
		return;
	}
	assert(list != NULL);
	assert(list->asked > 0);
	/* what did not come is at hand, where it was seen to be late, or cannot be read */
	list_shift(broker, list, list->asked);
	list->asked = 0;
	broker->dying_reads--;
	if (list->count == 0)
		queue_forget_dying(q);
	else
		list_waits(broker, list);
	cold_went(q);
	arm(broker);
}

/* ---- what is due ---- */

/* The time of these messages of a queue has come; in order. */
static void
expire(struct queue *q, const struct store_deadline *items, uint32_t n)
{
	struct broker *broker = q->vhost->broker;
	bool dead_letters = queue_settings(q)->dead_letters;
	bool some_went = false;

	for (uint32_t i = 0; i < n; i++) {
		const struct store_deadline *item = &items[i];

		if (!store_is_cold(q->log, item->qseq)) {
			ttl_expire(q, item->qseq);
		} else if (dead_letters) {
			queue_let_die(q, item->qseq, &item->place);
		} else {
			broker->effect_lsn = store_ack_cold(broker->store, q->log, item->qseq,
							    &item->place, ACK_EXPIRED);
			some_went = true;
		}
	}
	if (some_went)
		cold_went(q);
}

static int
by_queue(const void *left, const void *right)
{
	const struct store_deadline *a = left;
	const struct store_deadline *b = right;
	int order = compare_u64(&a->log->id, &b->log->id);

	return order != 0 ? order : compare_u64(&a->qseq, &b->qseq);
}

/* Of those that are due at once the oldest of a queue dies first. */
static void
take(struct broker *broker)
{
	struct store_deadline items[TAKE_MAX];
	uint32_t n = stored_times_take(broker, items, TAKE_MAX);

	if (n > 1)
		qsort(items, n, sizeof(*items), by_queue);
	for (uint32_t i = 0; i < n;) {
		struct queue_log *log = items[i].log;
		uint32_t first = i;

		while (i < n && items[i].log == log)
			i++;
		if (log->owner != NULL)
			expire(log->owner, items + first, i - first);
	}
}

void
deadlines_on_due(struct deadline *deadline, uint64_t now_ms)
{
	struct broker *broker = container_of(deadline, struct broker, stored_due);

	if (broker->store == NULL)
		return;
	if (broker_store_behind(broker)) {
		deadline_set(broker->deadlines, deadline, now_ms + FULL_MS);
		return;
	}
	if (broker->dying_count < DYING_MAX)
		take(broker);
	else
		stored_times_feed(broker);
	read_waiting(broker);
	arm(broker);
}

void
deadlines_catch_up(struct broker *broker)
{
	struct deadline *deadline = &broker->stored_due;
	uint64_t now_ms = broker->now.monotonic_ms;

	if (!deadline_is_set(deadline) || deadline->at_ms > now_ms)
		return;
	deadline_clear(broker->deadlines, deadline);
	deadlines_on_due(deadline, now_ms);
}
