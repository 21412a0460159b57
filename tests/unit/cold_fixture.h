/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of queues longer than their window share: a broker with a store on a simulated disk, and for
 * each of its queues a plain list of what was published to it, with which everything that comes out of the
 * queue is compared: it must be the first of the list that is ready, octet by octet. Restarts keep in the
 * list what must have survived. What the threads of the store do is done by step_store() alone, so that a
 * read takes as long as a test wants.
 */
#pragma once

#include "broker/broker.h"
#include "broker/consumer.h"
#include "broker/durable.h"
#include "broker/message.h"
#include "broker/queue.h"
#include "broker/vhost.h"
#include "store/page.h"
#include "store/store.h"
#include "util/heap.h"
#include "wire/props.h"

#include "lib/disk_sim.h"
#include "lib/runner.h"

#include <stdio.h>

#define QUEUES 3
#define SETTLED_JUST_NOW UINT64_MAX

enum item_state {
	ITEM_READY,
	ITEM_UNACKED,
	ITEM_GONE // settled
};

/* One message of one queue. */
struct item {
	uint32_t id;
	uint32_t size; // octets of its body
	enum item_state state;
	bool persistent;
	bool delivered;	     // it was handed out: must be redelivered
	bool maybe;	     // after an unclean restart: may be redelivered
	uint64_t lsn;	     // of its record; 0: none, or it was there at the start
	uint64_t settle_lsn; // of its settlement, once it is gone
};

/* A message that was handed out. */
struct held {
	struct entry entry;
	struct queue *queue; // counts
	size_t item;	     // index in the list
	bool consumed;	     // by the consumer, not by basic.get
};

/* A queue and what it must hold. */
struct listed {
	struct queue *queue; // NULL: it was deleted
	bool durable;
	bool delivers; // since the start, or since the last clean end
	struct item *items;
	size_t count;
	size_t room;
	size_t first; // none below it is ready
	uint64_t ready;
	struct held *held; // in no order
	size_t held_count;
	size_t held_room;
	struct consumer *consumer; // NULL: none
	uint32_t limit;		   // how many the consumer takes before it is full
	uint32_t used;
	bool no_ack;
	uint64_t taken; // by the consumer, ever
};

static struct deadlines deadlines;
static struct disk_sim *disk;
static struct store *store;
static struct broker *broker;
static struct vhost *vhost;
static struct listed lists[QUEUES];
static uint64_t stable;					    // as the store said last
static uint64_t cache_size;				    // option of the next broker
static uint64_t file_size;				    // option of the next store
static uint32_t next_id;				    // of the next message
static struct now present_now = {.wall_ms = 1700000000000}; // the clock
static size_t reads;					    // messages that came back from the disk
static uint64_t page_out_at = UINT64_MAX;		    // option of the next broker
static size_t pages_out, pages_in; // jobs that wrote bodies to page files, and brought some back
static int page_error;		   // of the last write

/* ---- messages ---- */

static inline struct message *
make_message(uint32_t id, uint32_t size, bool persistent)
{
	char key[16];
	uint8_t header[256];
	struct writer w = writer_of(header, sizeof(header));
	struct basic_properties properties = {
		.flags = PROPERTY_message_id | PROPERTY_delivery_mode,
		.delivery_mode = persistent ? 2 : 1,
	};
	struct message *m;
	uint32_t state = id * 2654435761U + 1;

	(void)snprintf(key, sizeof(key), "m.%u", id);
	properties.message_id = bytes_str(key);
	content_header_encode(&properties, size, &w);
	ck_assert(!w.bad);
	m = message_new(BYTES("exchange"), bytes_str(key), bytes_of(header, (size_t)(w.p - header)),
			size, persistent ? MESSAGE_PERSISTENT : 0);
	for (uint32_t i = 0; i < size; i++) {
		state = state * 1664525 + 1013904223;
		message_body_room(m)[i] = (uint8_t)(state >> 24);
	}
	return m;
}

static inline void
assert_is_item(const struct message *m, const struct item *item)
{
	struct message *expected = make_message(item->id, item->size, item->persistent);

	ck_assert_msg(bytes_equal(message_key(m), message_key(expected)), "'%.*s' came, not '%.*s'",
		      BYTES_ARGS(message_key(m)), BYTES_ARGS(message_key(expected)));
	ck_assert_uint_eq(message_wire_size(m), message_wire_size(expected));
	ck_assert_mem_eq(m->wire, expected->wire, message_wire_size(m));
	ck_assert_uint_eq(m->flags & ~MESSAGE_HAS_STUB, expected->flags);
	message_unref(expected);
}

/* ---- lists ---- */

static inline struct item *
first_ready(struct listed *list)
{
	while (list->first < list->count && list->items[list->first].state != ITEM_READY)
		list->first++;
	return list->first == list->count ? NULL : &list->items[list->first];
}

static inline void
list_publish(struct listed *list, struct item item)
{
	if (list->count == list->room) {
		list->room = 64 + 2 * list->room;
		list->items = xrealloc(list->items, list->room * sizeof(struct item));
	}
	list->items[list->count++] = item;
	list->ready++;
}

/* The entry was handed out: it must be the first. */
static inline void
list_take(struct listed *list, const struct entry *entry, bool no_ack, bool consumed)
{
	struct item *item = first_ready(list);
	bool redelivered = (entry->bits & ENTRY_REDELIVERED) != 0;

	ck_assert_msg(item != NULL, "'%.*s' came, nothing is ready",
		      BYTES_ARGS(message_key(entry->message)));
	assert_is_item(entry->message, item);
	ck_assert_msg(redelivered == item->delivered || (redelivered && item->maybe),
		      "message %u: redelivered=%d delivered=%d maybe=%d", item->id, redelivered,
		      item->delivered, item->maybe);
	item->delivered = true;
	list->ready--;
	if (no_ack) {
		item->state = ITEM_GONE;
		item->settle_lsn = SETTLED_JUST_NOW;
		return;
	}
	item->state = ITEM_UNACKED;
	if (list->held_count == list->held_room) {
		list->held_room = 64 + 2 * list->held_room;
		list->held = xrealloc(list->held, list->held_room * sizeof(struct held));
	}
	list->held[list->held_count++] =
		(struct held){*entry, queue_ref(list->queue), list->first, consumed};
}

/* Notes where the settlements of the present step are in the log. */
static inline void
note_settled(struct listed *list)
{
	for (size_t i = list->count; i > 0; i--)
		if (list->items[i - 1].settle_lsn == SETTLED_JUST_NOW)
			list->items[i - 1].settle_lsn = broker->effect_lsn;
}

static inline void
check_all(void)
{
	broker_check(broker);
	store_page_check(store);
	for (size_t i = 0; i < QUEUES; i++) {
		struct listed *list = &lists[i];

		if (list->queue == NULL)
			continue;
		ck_assert_uint_eq(queue_message_count(list->queue), list->ready);
		ck_assert_uint_eq(list->queue->unacked_count, list->held_count);
	}
}

/* ---- the broker and the store ---- */

static inline void
on_define(void *context, const struct definition *definition, struct queue_log *log)
{
	broker_apply_definition(context, definition, log);
}

static inline void
on_read(void *context, struct queue_log *log, uint64_t qseq, const struct stored_message *message,
	bool redelivered)
{
	reads++;
	broker_read_message(context, log, qseq, message, redelivered);
}

static inline void
on_read_end(void *context, struct queue_log *log)
{
	broker_read_end(context, log);
}

static inline void
on_paged_out(void *context, void *owner, int error)
{
	pages_out++;
	page_error = error;
	broker_paged_out(context, owner, error);
}

static inline void
on_paged_in(void *context, void *owner)
{
	pages_in++;
	broker_paged_in(context, owner);
}

static inline void
on_snapshot(void *context, struct store *of)
{
	broker_snapshot(context, of);
}

static inline void
on_stable(void *context, uint64_t lsn)
{
	stable = lsn;
	broker_set_stable(context, lsn);
}

static inline void
on_space(void *context, bool is_short)
{
	(void)context;
	ck_assert(!is_short);
}

static inline void
on_failure(void *context, int error, const char *what)
{
	(void)context;
	ck_abort_msg("%s: %d", what, error);
}

static const struct store_ops ops = {
	.define = on_define,
	.read = on_read,
	.read_end = on_read_end,
	.paged_out = on_paged_out,
	.paged_in = on_paged_in,
	.snapshot = on_snapshot,
	.stable = on_stable,
	.short_of_space = on_space,
	.failed = on_failure,
};

/* The clock moves, and nothing else. */
static inline void
advance(uint64_t ms)
{
	present_now.monotonic_ms += ms;
	present_now.wall_ms += ms;
	broker_set_now(broker, present_now);
}

static inline void
open_all(void)
{
	struct broker_options options = broker_options_default();
	struct store_options store_options = store_options_default();
	struct buf error;
	int status;

	options.cache_size = cache_size;
	options.page_out_at = page_out_at;
	store_options.node_name = "test";
	store_options.buffer_size = 256 * 1024;
	store_options.file_size = file_size;
	store_options.checkpoint_size = 8 * file_size;
	buf_init(&error, 0);
	broker = broker_new(&deadlines, &options);
	broker->recovering = true;
	status = store_open(&store, &disk->disk, &store_options, &ops, broker, &error);
	ck_assert_msg(status == 0, "%s", buf_cstr(&error));
	buf_fini(&error);
	broker_end_recovery(broker);
	broker->store = store;
	stable = store_stable(store);
	broker_set_stable(broker, stable);
	advance(1000);
}

static inline void
note_all_settled(void)
{
	for (size_t i = 0; i < QUEUES; i++)
		note_settled(&lists[i]);
}

/* A batch goes to the disk, or a read comes from it; bodies go to page files, or come. */
static inline void
step_store(void)
{
	advance(30);
	broker_page_out(broker);
	store_submit(store, present_now, false);
	store_work(store);
	store_receive(store);
}

/* Milliseconds in which nothing happens but what is due. */
static inline void
pass_time(uint64_t ms)
{
	for (uint64_t end = present_now.monotonic_ms + ms; present_now.monotonic_ms < end;) {
		uint64_t next = max_u64(present_now.monotonic_ms, deadlines_next(&deadlines));

		advance(min_u64(end, next) - present_now.monotonic_ms);
		deadlines_run(&deadlines, present_now.monotonic_ms);
	}
}

static inline void
dispatch(void)
{
	broker->effect_lsn = 0;
	broker_dispatch(broker);
	note_all_settled();
	broker_reap(broker);
}

/* Until nothing moves any more. */
static inline void
run_all(void)
{
	for (int quiet = 0; quiet < 3; quiet++) {
		uint64_t before = stable + reads + pages_out + pages_in;

		step_store();
		dispatch();
		if (stable + reads + pages_out + pages_in != before)
			quiet = 0;
	}
	check_all();
}

static inline void
make_queue(struct listed *list, bool durable)
{
	char name[8];
	struct queue_spec spec = {.durable = durable};

	(void)snprintf(name, sizeof(name), "q%d", (int)(list - lists));
	spec.name = bytes_str(name);
	list->queue = queue_create(vhost, &spec);
	list->durable = durable;
	list->delivers = false;
	list->count = list->first = 0;
	list->ready = 0;
	run_all();
}

/* ---- what clients do ---- */

static inline void
publish_to(struct listed *const *to, uint32_t n, uint32_t size, bool persistent)
{
	struct queue *queues[QUEUES];
	struct route route = {.queues = queues, .count = n, .room = n};
	uint32_t id = next_id++;
	struct message *m = make_message(id, size, persistent);
	struct publish_result result;

	for (uint32_t i = 0; i < n; i++)
		queues[i] = to[i]->queue;
	result = queue_publish(broker, &route, m);
	ck_assert(!result.rejected);
	message_unref(m);
	for (uint32_t i = 0; i < n; i++)
		list_publish(to[i], (struct item){.id = id,
						  .size = size,
						  .persistent = persistent,
						  .lsn = result.lsn});
}

static inline void
publish(struct listed *list, uint32_t size, bool persistent)
{
	publish_to(&list, 1, size, persistent);
}

static inline enum deliver_result
take_delivery(struct consumer *consumer, const struct entry *entry)
{
	struct listed *list = consumer->channel;

	if (list->used == list->limit)
		return DELIVER_FULL;
	list_take(list, entry, consumer->no_ack, true);
	list->used++;
	list->taken++;
	return DELIVER_TOOK;
}

static inline void
on_cancelled(struct consumer *consumer)
{
	struct listed *list = consumer->channel;

	list->consumer = NULL;
}

static const struct consumer_ops consumer_ops = {take_delivery, on_cancelled};

/* limit counts what the consumer holds, with no_ack what it takes at all. */
static inline void
consume(struct listed *list, uint32_t limit, bool no_ack)
{
	struct consumer_spec spec = {
		.tag = BYTES("c"), .ops = &consumer_ops, .channel = list, .no_ack = no_ack};

	ck_assert_ptr_null(list->consumer);
	list->limit = limit;
	list->used = 0;
	list->no_ack = no_ack;
	list->delivers = true;
	list->consumer = consumer_new(list->queue, &spec);
	for (size_t i = 0; i < list->held_count; i++)
		list->held[i].consumed = false;
}

static inline void
cancel(struct listed *list)
{
	if (list->consumer != NULL)
		consumer_cancel(list->consumer);
	list->consumer = NULL;
}

/* The consumer has room for more. */
static inline void
take_more(struct listed *list, uint32_t more)
{
	list->limit += more;
	if (list->consumer != NULL)
		consumer_ready(list->consumer);
}

enum settle {
	SETTLE_ACK,
	SETTLE_REJECT,
	SETTLE_REQUEUE
};

/* Settles the one held at this place. */
static inline void
settle(struct listed *list, size_t at, enum settle how)
{
	struct held held = list->held[at];
	struct item *item = &list->items[held.item];

	list->held[at] = list->held[--list->held_count];
	broker->effect_lsn = 0;
	if (how == SETTLE_REQUEUE && list->queue != NULL) {
		item->state = ITEM_READY;
		list->ready++;
		list->first = min_u64(list->first, held.item);
	} else {
		item->state = ITEM_GONE;
		item->settle_lsn = SETTLED_JUST_NOW;
	}
	if (how == SETTLE_REQUEUE)
		queue_requeue(held.queue, &held.entry);
	else if (how == SETTLE_ACK)
		queue_ack(held.queue, &held.entry);
	else
		queue_reject(held.queue, &held.entry);
	if (item->settle_lsn == SETTLED_JUST_NOW)
		item->settle_lsn = broker->effect_lsn;
	queue_unref(held.queue);
	if (held.consumed && list->consumer != NULL) {
		list->used--;
		consumer_ready(list->consumer);
	}
}

static inline void
settle_all(struct listed *list, enum settle how)
{
	while (list->held_count > 0)
		settle(list, list->held_count - 1, how);
}

static inline void
hand_out(struct listed *list)
{
	broker->effect_lsn = 0;
	queue_hand_out(list->queue);
	note_settled(list);
}

/* As basic.get is: it waits for the gate and for a read. */
static inline bool
get(struct listed *list, bool no_ack)
{
	struct entry entry;

	list->delivers = true;
	for (int i = 0; !queue_may_deliver(list->queue); i++) {
		ck_assert_int_lt(i, 100);
		step_store();
	}
	hand_out(list);
	for (int turns = 0; queue_must_read(list->queue); hand_out(list)) {
		queue_refill(list->queue); // once: then it comes
		while (queue_must_read(list->queue)) {
			ck_assert_int_lt(turns++, 100);
			step_store();
			dispatch();
		}
	}
	broker->effect_lsn = 0;
	if (!queue_get(list->queue, no_ack, &entry)) {
		ck_assert_ptr_null(first_ready(list));
		return false;
	}
	list_take(list, &entry, no_ack, false);
	note_settled(list);
	if (no_ack)
		message_unref(entry.message);
	return true;
}

static inline void
list_drop_ready(struct listed *list, uint64_t lsn)
{
	for (size_t i = list->first; i < list->count; i++) {
		struct item *item = &list->items[i];

		if (item->state != ITEM_READY)
			continue;
		item->state = ITEM_GONE;
		item->settle_lsn = lsn;
	}
	list->ready = 0;
}

static inline void
purge(struct listed *list)
{
	broker->effect_lsn = 0;
	ck_assert_uint_eq(queue_purge(list->queue), list->ready);
	list_drop_ready(list, broker->effect_lsn);
	ck_assert_uint_eq(queue_message_count(list->queue), 0);
}

/* What is held stays held. */
static inline void
delete_queue(struct listed *list)
{
	ck_assert_uint_eq(queue_delete(list->queue), list->ready);
	list_drop_ready(list, 0);
	list->queue = NULL;
	ck_assert_ptr_null(list->consumer);
	run_all();
}

/* Takes whatever is there by a consumer without acknowledgements. */
static inline void
drain(struct listed *list)
{
	cancel(list);
	consume(list, UINT32_MAX, true);
	run_all();
	ck_assert_ptr_null(first_ready(list));
	cancel(list);
}

/* ---- restarts ---- */

/* Keeps in the list what must be there after a restart. */
static inline void
list_restart(struct listed *list, bool clean)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count && list->durable; i++) {
		struct item item = list->items[i];
		bool lost = !clean && item.lsn > stable;
		bool gone = item.state == ITEM_GONE && (clean || item.settle_lsn <= stable);

		if (!item.persistent || lost || gone)
			continue;
		if (!clean && list->delivers)
			item.maybe = true;
		item.state = ITEM_READY;
		item.lsn = item.settle_lsn = 0;
		list->items[kept++] = item;
	}
	list->count = list->ready = kept;
	list->first = 0;
	list->delivers = list->delivers && !clean;
	list->consumer = NULL;
	list->queue = NULL;
}

static inline void
end_clients(bool clean)
{
	for (size_t i = 0; i < QUEUES; i++) {
		struct listed *list = &lists[i];

		cancel(list);
		if (clean)
			settle_all(list, SETTLE_REQUEUE);
		while (list->held_count > 0) {
			struct held *held = &list->held[--list->held_count];

			message_unref(held->entry.message);
			held->queue->unacked_count--;
			queue_unref(held->queue);
		}
	}
}

static inline void
close_all(bool clean)
{
	if (clean)
		end_clients(true);
	ck_assert_int_eq(store_close(&store, clean), 0);
	broker->store = NULL;
	if (!clean)
		end_clients(false);
	for (size_t i = 0; i < QUEUES; i++)
		list_restart(&lists[i], clean);
	broker_free(&broker);
	disk_sim_forget(disk);
}

/* Clean: as by a signal. Otherwise: as by kill -9, what was not written is lost. */
static inline void
restart(bool clean)
{
	close_all(clean);
	open_all();
	vhost = vhost_find(broker, BYTES("v"));
	ck_assert_ptr_nonnull(vhost);
	for (size_t i = 0; i < QUEUES; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "q%d", (int)i);
		lists[i].queue = queue_find(vhost, bytes_str(name));
		if (lists[i].durable)
			ck_assert_ptr_nonnull(lists[i].queue);
		else
			make_queue(&lists[i], false);
	}
	check_all();
}

/* A new disk. */
static inline void
begin_all(void)
{
	disk = disk_sim_new();
	open_all();
	vhost = vhost_create(broker, BYTES("v"));
	for (size_t i = 0; i < QUEUES; i++)
		make_queue(&lists[i], i < QUEUES - 1);
}

static inline void
cold_set_up(void)
{
	deadlines_init(&deadlines);
	cache_size = 64 * 1024;
	file_size = 1024 * 1024;
	begin_all();
}

static inline void
cold_tear_down(void)
{
	check_all();
	close_all(true);
	for (size_t i = 0; i < QUEUES; i++) {
		xfree(lists[i].items);
		xfree(lists[i].held);
	}
	disk_sim_free(&disk);
	deadlines_fini(&deadlines);
}
