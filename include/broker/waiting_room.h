/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that are not ready before a time: those that an exchange of the type x-delayed-message was told to hold
 * back (amqp.md 5.8). Whoever looks after them by hand counts, lists, releases and cancels them here. Broker thread.
 *
 * What the disk has is answered later: each call with a function calls it once, now or in a later turn, also when the
 * room ends before there is an answer. It may call the functions here.
 */
#pragma once

#include "broker/model.h"

/* Those of an exchange, of a queue; NULL: nothing ever waited. It lives as long as the exchange or the queue. */
struct waiting_room *waiting_room_of_exchange(struct exchange *exchange);
struct waiting_room *waiting_room_of_queue(struct queue *queue);

/* How many wait, and octets of their bodies; neither looks at the messages. */
uint64_t waiting_room_count(const struct waiting_room *room);
uint64_t waiting_room_octets(const struct waiting_room *room);

/* A due time that never comes: one that is parked (retry.c) waits until somebody lets it go on. */
#define WAITING_FOR_EVER INT64_MAX

/* Names one message of a room, and is its place in the list. */
struct waiting_key {
	uint64_t due_ms; // since 1970
	uint64_t number; // in order of arrival; never given again
};

struct waiting_item {
	struct waiting_key key;
	uint32_t body_size; // octets
};

/* At most max of those behind this place, which are there now, in order; { 0, 0 }: from the first one on. Fewer than
 * max: there are no others. items borrow until it returns. */
typedef void waiting_listed(void *context, const struct waiting_item *items, uint32_t count);
void waiting_room_list(struct waiting_room *room, struct waiting_key after, uint32_t max,
		       waiting_listed *listed, void *context);

/* Whether it was there. */
typedef void waiting_done(void *context, bool found);
/* The message; NULL: it is not there. Borrowed until it returns. */
typedef void waiting_shown(void *context, const struct message *message);
void waiting_room_show(struct waiting_room *room, struct waiting_key key, waiting_shown *shown,
		       void *context);
/* It goes on as soon as it is at hand, as if its time had come. */
void waiting_room_release(struct waiting_room *room, struct waiting_key key, waiting_done *done,
			  void *context);
/* It goes, and nobody gets it. */
void waiting_room_cancel(struct waiting_room *room, struct waiting_key key, waiting_done *done,
			 void *context);

/* All that wait now go on, in steps, in order; how many these are. */
uint64_t waiting_room_release_all(struct waiting_room *room);
/* All that wait now go; how many these were. */
uint64_t waiting_room_cancel_all(struct waiting_room *room);
