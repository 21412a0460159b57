/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a long queue must hold, as a plain list: a part of cold_fixture.h. Messages whose octets follow from their
 * number, the list of those published to a queue, and what it says must come out next.
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
	uint8_t level; // where it is in a queue with priorities
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
	struct queue *queue; // counts; the level it is of
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
	uint8_t priority_max;	     // x-max-priority; 0: it has no priorities
	size_t first[UINT8_MAX + 1]; // by level: none below it is ready
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
static uint8_t (*priority_of)(uint32_t id); // of the message with this number; NULL: none has one

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

	if (priority_of != NULL && priority_of(id) != 0) {
		properties.flags |= PROPERTY_priority;
		properties.priority = priority_of(id);
	}

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
first_of_level(struct listed *list, uint8_t level)
{
	size_t *first = &list->first[level];

	while (*first < list->count &&
	       (list->items[*first].state != ITEM_READY || list->items[*first].level != level))
		++*first;
	return *first == list->count ? NULL : &list->items[*first];
}

static inline struct item *
first_ready(struct listed *list)
{
	struct item *item = NULL;

	for (int level = list->priority_max; level >= 0 && item == NULL; level--)
		item = first_of_level(list, (uint8_t)level);
	return item;
}

/* There is nothing in it. */
static inline void
list_clear(struct listed *list)
{
	list->count = list->ready = 0;
	memset(list->first, 0, sizeof(list->first));
}

static inline void
list_publish(struct listed *list, struct item item)
{
	if (list->count == list->room) {
		list->room = 64 + 2 * list->room;
		list->items = xrealloc(list->items, list->room * sizeof(struct item));
	}
	if (priority_of != NULL)
		item.level = (uint8_t)min_u64(priority_of(item.id), list->priority_max);
	list->items[list->count++] = item;
	list->ready++;
}

/* The entry was handed out, from this level: it must be the first. */
static inline void
list_take(struct listed *list, struct queue *from, const struct entry *entry, bool no_ack,
	  bool consumed)
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
		(struct held){*entry, queue_ref(from), (size_t)(item - list->items), consumed};
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
		ck_assert_uint_eq(queue_unacked_count(list->queue), list->held_count);
	}
}
