/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While memory is short: bodies of transient messages go to page files, about a mebibyte at a time, out of
 * the queue from which nothing was taken for longest, and there from behind its head window on, so that they
 * lie in the file as they will be read. What has a record in the log of its queue is queue_cold.c's.
 *
 * A message that is in several queues is written once: it knows its stub, and when another queue's turn
 * comes that takes it without a write. What has a record for other queues cannot know it, and is written
 * for each.
 */
#include "queue_page.h"
#include "util/log.h"
#include "waiting.h"

#include "broker/alarms.h"

/* A smaller body is not worth a stub. */
#define BODY_MIN 128
/* Bodies of one job, but for a single larger one. */
#define JOB_OCTETS (1024 * 1024)
/* Entries that are looked at in one turn, and queues. */
#define LOOK_ENTRIES 4096
#define LOOK_QUEUES 256
/* How soon the next look comes: at a queue that was not seen to its end, at queues that nothing is known of,
 * after a write that failed. */
#define NEXT_MS 1
#define AGAIN_MS 10
#define RETRY_MS 5000

/* ---- which queue ---- */

static uint64_t
last_qseq(const struct queue *q)
{
	uint32_t count;
	const struct entry *late = late_entries(q, &count);

	if (count > 0)
		return entry_qseq(&late[count - 1]);
	return q->tail == NULL ? 0 : entry_qseq(&q->tail->entries[q->tail->end - 1]);
}

/* Whether there are entries behind the head window that were not looked at. */
static bool
may_have_more(const struct queue *q)
{
	uint32_t late;

	if (q->flags & QUEUE_WAITING)
		return waiting_may_page(q);
	(void)late_entries(q, &late);
	if (late == 0 && q->ready_count <= QUEUE_WINDOW_COUNT &&
	    q->ready_bytes <= QUEUE_WINDOW_OCTETS)
		return false;
	return q->paging == NULL || q->paging->looked < last_qseq(q);
}

/* The coldest one of those that have something; NULL: none. All have their turn, so many a call. */
static struct queue *
choose(struct broker *broker)
{
	struct queue *coldest = NULL;

	for (size_t n = min_u64(broker->pageable.count, LOOK_QUEUES); n > 0; n--) {
		struct queue *q = list_first(&broker->pageable, struct queue, pageable);

		list_remove(&broker->pageable, &q->pageable);
		if (last_qseq(q) == 0 && !((q->flags & QUEUE_WAITING) && may_have_more(q)))
			continue; // it comes again when it grows
		list_append(&broker->pageable, &q->pageable);
		if (may_have_more(q) && (coldest == NULL || q->taken_ms < coldest->taken_ms))
			coldest = q;
	}
	return coldest;
}

/* ---- what of it ---- */

/* Whether there is a whole head window before the entry of this number: by counts alone, for large queues. */
static bool
is_far(const struct queue *q, uint64_t qseq)
{
	uint64_t count = q->requeued_count;

	for (const struct entry_block *b = q->head; b != NULL && count < QUEUE_WINDOW_COUNT;
	     b = b->next) {
		if (entry_qseq(&b->entries[b->end - 1]) >= qseq)
			return false;
		count += b->end - b->first;
	}
	return count >= QUEUE_WINDOW_COUNT;
}

/* The first number from this one on that is behind the head window. */
static uint64_t
behind_head(struct queue *q, uint64_t qseq)
{
	struct walk walk = walk_begin(q);
	uint64_t count = q->requeued_count;
	uint64_t octets = 0;
	bool late = false;
	const struct entry *entry;

	if (is_far(q, qseq))
		return qseq;
	for (; (entry = walk_entry(&walk)) != NULL; walk.index++) {
		if (walk.block == NULL && !late && q->log != NULL) {
			count += q->log->cold_count;
			octets += q->log->cold_octets;
		}
		late = walk.block == NULL;
		if (count >= QUEUE_WINDOW_COUNT || octets >= QUEUE_WINDOW_OCTETS)
			return max_u64(qseq, entry_qseq(entry));
		count++;
		octets += message_wire_size(entry->message);
	}
	return QSEQ_MAX + 1;
}

bool
page_may_take(const struct message *m)
{
	return m->body_size >= BODY_MIN && !(m->flags & MESSAGE_PAGED);
}

bool
page_take(struct page_move *move, const struct entry *entry)
{
	const struct message *m = entry->message;

	if (move->count == PAGE_MOVE_COUNT ||
	    (move->count > 0 && move->octets + m->body_size > JOB_OCTETS))
		return false;
	page_move_add(move, entry, (struct page_item){.body = message_body(m)});
	return true;
}

/* Takes the entry's message, if it is one to take; false: it does not fit any more. */
static bool
take(struct page_move *move, struct entry *entry)
{
	struct message *m = entry->message;

	if (!page_may_take(m) || (m->flags & MESSAGE_HAS_EXPIRATION) ||
	    (move->queue->log != NULL && message_is_stored(m)))
		return true;
	if (!(m->flags & MESSAGE_HAS_STUB))
		return page_take(move, entry);
	page_swap(move->queue, entry, message_ref(m->stub));
	return true;
}

/* Fills the job. */
static void
collect(struct page_move *move)
{
	struct queue *q = move->queue;
	struct paging *paging = paging_of(q);
	uint64_t from = behind_head(q, paging->looked + 1);
	struct walk walk = walk_from(q, &paging->next);
	struct entry *entry;

	walk_seek(&walk, from);
	for (int i = 0; (entry = walk_entry(&walk)) != NULL; walk.index++) {
		struct page_spot here = {walk.block, entry_qseq(entry)};
		bool first = move->count == 0;

		if (i++ == LOOK_ENTRIES || !take(move, entry))
			return;
		paging->looked = here.qseq;
		paging->next = here;
		if (first && move->count == 1)
			paging->sent = here;
	}
	paging->looked = last_qseq(q);
}

static void
look_again(struct broker *broker, uint64_t after_ms)
{
	deadline_set(broker->deadlines, &broker->page_again, broker->now.monotonic_ms + after_ms);
}

void
page_out_again(struct deadline *deadline, uint64_t now_ms)
{
	/* this turn looks */
	(void)deadline;
	(void)now_ms;
}

void
broker_look_for_pages(struct broker *broker)
{
	struct page_move *move;
	struct queue *q;

	assert_not_dispatching(broker);
	if (broker->store == NULL || broker->paging_out != NULL || (broker->alarms & ALARM_DISK) ||
	    broker->now.monotonic_ms < broker->page_retry_ms)
		return;
	q = choose(broker);
	if (q == NULL) {
		if (broker->pageable.count > LOOK_QUEUES)
			look_again(broker, AGAIN_MS);
		return;
	}
	move = page_move_new(q);
	if (q->flags & QUEUE_WAITING)
		waiting_page_collect(move);
	else
		collect(move);
	if (move->count > 0 && store_page_out(broker->store, move->items, move->count, move)) {
		broker->paging_out = move;
		return;
	}
	/* there was nothing to write, here or so far */
	page_move_free(move);
	look_again(broker, NEXT_MS);
}

/* ---- what was written ---- */

/* The messages stay; later it is tried again. */
static void
give_up(struct broker *broker, const struct page_move *move, int error)
{
	struct paging *paging;

	if (broker->page_retry_ms == 0)
		log_warn("transient messages stay in memory: page/ cannot be written: %s",
			 strerror(-error));
	broker->page_retry_ms = broker->now.monotonic_ms + RETRY_MS;
	look_again(broker, RETRY_MS);
	if (move->queue->flags & QUEUE_WAITING) {
		waiting_page_again(move->queue);
		return;
	}
	paging = paging_of(move->queue);
	paging->looked = min_u64(paging->looked, entry_qseq(&move->entries[0]) - 1);
	paging->next = paging->sent;
}

/* The stub of a message whose body was written to this place. The reference is the caller's. */
static struct message *
make_stub(struct message *m, struct page_place place)
{
	struct message *stub;

	/* it stands twice in the queue */
	if (m->flags & MESSAGE_HAS_STUB) {
		page_release(place);
		return message_ref(m->stub);
	}
	stub = message_new_stub(m, place);
	if (m->stored == 0) {
		m->stub = message_ref(stub);
		m->flags |= MESSAGE_HAS_STUB;
	}
	return stub;
}

/* Puts the stub in the place of the message, if the entry is still there. */
static void
put_stub(struct walk *walk, const struct entry *sent, struct message *stub)
{
	struct entry *entry;

	walk_seek(walk, entry_qseq(sent));
	entry = walk_entry(walk);
	if (entry == NULL || entry_qseq(entry) != entry_qseq(sent))
		return;
	assert(entry->message == sent->message);
	page_swap(walk->queue, entry, message_ref(stub));
}

void
broker_paged_out(struct broker *broker, void *owner, int error)
{
	struct page_move *move = owner;
	struct queue *q = move->queue;
	struct walk walk = {0};

	assert_not_dispatching(broker);
	assert(broker->paging_out == move);
	if (!(q->flags & QUEUE_WAITING))
		walk = walk_from(q, &paging_of(q)->sent);
	broker->paging_out = NULL;
	if (error == 0)
		broker->page_retry_ms = 0;
	else
		give_up(broker, move, error);
	for (uint32_t i = 0; i < move->count && error == 0; i++) {
		struct message *m = move->entries[i].message;
		struct message *stub = make_stub(m, move->items[i].place);

		/* it may have been handed out or dropped meanwhile; then the place goes with the stub */
		if (q->flags & QUEUE_WAITING)
			waiting_paged_out(q, &move->entries[i], stub);
		else
			put_stub(&walk, &move->entries[i], stub);
		message_unref(stub);
	}
	page_move_free(move);
}
