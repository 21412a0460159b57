/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting rooms as broker/ sees them. Broker thread.
 */
#pragma once

#include "broker/waiting_room.h"

#include "internal.h"
#include "store/store.h"

/* A message that waits, and is at hand, or is about to be. */
struct waiting {
	struct map_node by_number; // in room->at_hand
	struct list_link unread;   // in room->wanted, or in room->asked
	uint64_t number;	   // in the queue of the room
	uint64_t due_ms;	   // since 1970
	struct message *message;   // counts; NULL: it is to be read
	struct stored_place place; // of one with a record in the log; of others lsn is 0
	uint32_t at;		   // in room->heap
	bool asked;		   // it is in room->asked, not in room->wanted
	bool given;		   // the store said that its time comes, and will not again
	bool released;		   // somebody let it go before it is due
};

struct waiting_room {
	struct queue *queue;	  // borrows: whose queue_life.room it is
	struct waiting **heap;	  // owns them; a binary heap: released ones, by due time, by number
	uint32_t count;		  // of those
	uint32_t room;		  // of heap
	uint64_t loose_count;	  // of those, how many have no record in the log
	uint64_t loose_octets;	  // of their bodies
	struct map at_hand;	  // the same by number
	struct list wanted;	  // those to be read: struct waiting.unread
	struct list asked;	  // those that the store was asked for: the same
	struct list_link touched; // in broker->times->touched: some are to be asked for
	struct deadline due;	  // of the first
	struct list requests; // struct request.of_room: what somebody asked for and the disk has
	/* everything with a number below this one goes; up to where it is known what that is. 0: no */
	uint64_t flood_below;
	struct waiting_key flooded;
	bool flood_asked;      // the store lists what is next
	bool paging_in;	       // bodies are on their way from a page file
	uint64_t stub_count;   // of the messages at hand, how many are in page files
	uint64_t page_look_ms; // when to look next for those that are due soon
	uint32_t look_at;      // where in the heap page-out looks next
	uint32_t unlooked;     // so many of it were not looked at
};

/* A queue that is the part PART_ROOM of something: it has a room from now on, queue->life->room. */
void waiting_room_begin(struct queue *queue);
/* The queue ends, and its log if it has one does next. */
void waiting_room_end(struct queue *queue);
/* The queue that stands in routes for the room of this exchange or queue; made when there is none. */
struct queue *waiting_room_queue(struct part_owner owner);
/* Lets a message, which never went to a queue, wait in the room of the owner until due_ms since 1970. The caller
 * keeps its reference. */
struct publish_result waiting_room_put(struct part_owner owner, struct message *message,
				       uint64_t due_ms);
/* queue_publish() when a queue of the route has QUEUE_WAITING. */
struct publish_result waiting_room_publish(struct broker *broker, const struct route *route,
					   struct message *message);
void waiting_room_check(const struct queue *queue);

/* ---- what the store says ---- */

/* The time of a message of the queue of a room comes. */
void waiting_room_due(struct queue *queue, const struct store_deadline *deadline);
/* One that was asked for is read; then: that was all of them. */
void waiting_room_read(struct queue *queue, uint64_t number, struct message *message);
void waiting_room_read_end(struct queue *queue);

/* ---- for waiting_list.c ---- */

bool waiting_is_sooner(const struct waiting *a, const struct waiting *b);
struct waiting_key waiting_key_of(const struct waiting *waiting);
/* The one at hand, or about to be; or NULL. */
struct waiting *waiting_find(const struct waiting_room *room, uint64_t number);
/* A stored message that is not at hand comes to be. */
struct waiting *waiting_fetch(struct waiting_room *room, const struct store_deadline *deadline);
/* Has those read that are to be at hand, as soon as others have been. */
void waiting_room_ask(struct waiting_room *room);
/* It goes as soon as it can. */
void waiting_let_go(struct waiting_room *room, struct waiting *waiting);
/* One that was fetched for a look goes back to the disk, unless it is to stay at hand. */
void waiting_give_back(struct waiting_room *room, struct waiting *waiting);
/* It is not in the room any more. */
void waiting_drop(struct waiting_room *room, struct waiting *waiting, enum ack_reason reason);
/* Nothing of it is at hand any more; what is stored stays so. */
void waiting_forget_all(struct waiting_room *room);
/* Looks soon what can go. */
void waiting_look(struct waiting_room *room);
/* What is next in a flood is to be listed. */
void waiting_flood_on(struct waiting_room *room);
/* Something was read. */
void waiting_requests_go_on(struct waiting_room *room);
/* The room ends: whoever asked hears that there is nothing. */
void waiting_requests_end(struct waiting_room *room);

/* ---- waiting_page.c: bodies in page files ---- */

/* How long before their time bodies are read. */
#define WAITING_PAGE_IN_MS 500

struct page_move;

/* Its body is in a page file. */
static inline bool
waiting_is_paged(const struct waiting *w)
{
	return w->message != NULL && (w->message->flags & MESSAGE_PAGED);
}

/* It can go on, or be shown. */
static inline bool
waiting_is_here(const struct waiting *w)
{
	return w->message != NULL && !(w->message->flags & MESSAGE_PAGED);
}

/* The queue is a room, here and below. Whether there may be something to page out. */
bool waiting_may_page(const struct queue *queue);
/* Fills a job that is to write bodies. */
void waiting_page_collect(struct page_move *move);
/* The body of an entry was written: its stub takes its place, if it is there still. */
void waiting_paged_out(struct queue *queue, const struct entry *entry, struct message *stub);
/* It could not be written. */
void waiting_page_again(struct queue *queue);
/* Has the body of this one read, which must be in a page file, unless others are being read. */
void waiting_page_in(struct waiting_room *room, const struct waiting *waiting);
/* The same for those that are due soon. */
void waiting_page_ahead(struct waiting_room *room);
/* They came, or not. */
void waiting_paged_in(struct page_move *move);

/* ---- stored_times.c: what the store's index of deadlines gives ---- */

struct stored_times {
	struct broker *broker; // borrows: whose it is
	struct deadline look;  // when the index is looked at
	struct list touched;   // rooms that have something to be read: struct waiting_room.touched
	uint64_t soon_count;   // stored messages that are at hand in rooms, or are to be
	uint64_t soon_octets;  // of their bodies
	struct store_deadline *kept; // owns; of queues that are no rooms: a ring, in order of time
	uint32_t first;
	uint32_t count;
};

struct stored_times *stored_times_new(void);
void stored_times_free(struct stored_times **times);
/* Gives the rooms what comes soon, as far as there is room for it at hand. Sets broker->stored_due. */
void stored_times_feed(struct broker *broker);
/* Gives up to max references of other queues whose time has come, the earliest first. Returns how many. */
uint32_t stored_times_take(struct broker *broker, struct store_deadline *out, uint32_t max);
/* When one of these is to be called, in ms since 1970; without kept the first alone. UINT64_MAX: when something has
 * changed. */
uint64_t stored_times_next_ms(const struct broker *broker, bool kept);
/* Whether a stored message that is due then may stay at hand: that is soon, there is room, and nothing that comes
 * before it is still to be taken in. To be asked before its record is made. */
bool stored_times_near(const struct broker *broker, uint64_t due_ms);
/* A stored message of a room comes to hand, or went. */
void stored_times_count(struct broker *broker, const struct waiting *waiting, bool came);
/* The room has something to be read. */
void stored_times_touch(struct waiting_room *room);
/* The log goes. */
void stored_times_forget(struct broker *broker, const struct queue_log *log);

/* ---- delayed.c: exchanges of the type x-delayed-message ---- */

/* Whether the message asks to be held back; then for how long, 1 to INT64_MAX milliseconds. */
bool delayed_wants(const struct message *message, uint64_t *delay_ms);
/* The message as it goes on from the exchange when its time has come, and where to. refs is 1. */
struct message *delayed_release(struct exchange *exchange, const struct message *message,
				struct route *route);
