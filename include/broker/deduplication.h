/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deduplication (amqp.md 5.8): what exchanges and queues that were asked to (x-message-deduplication) know of the
 * values that a header of their messages had. Broker thread.
 */
#pragma once

#include "broker/model.h"

#define DEDUPLICATION_SIZE_MAX 16777216 // values that one of them remembers at most

/* What is known of one exchange or queue; all 0 where nothing is deduplicated. */
struct deduplication_state {
	bool is_on;
	bool while_queued;   // values are known while their message is in the queue
	uint64_t size;	     // of the cache: so many values are remembered at most; 0: any number
	uint64_t count;	     // values that are remembered
	uint64_t duplicates; // messages that were dropped, since the start
};

struct deduplication_state exchange_deduplication(const struct exchange *exchange);
struct deduplication_state queue_deduplication(const struct queue *queue);

/* A duplicate was dropped: it is safe when what it repeats is. Returns the LSN behind which that is so; what answers a
 * method waits for it, too. */
uint64_t duplicate_lsn(struct broker *broker);

struct exchange_spec;
/* NULL, or 406: what a new exchange is asked for of this kind. */
const struct reply *deduplication_check(const struct vhost *vhost,
					const struct exchange_spec *spec);

/* Moves the values that exchanges on the way of a message are to remember to another route, whose own are forgotten:
 * for a message that waits for a commit. */
void route_give_marks(struct route *from, struct route *to);
/* The commit of a message with such: when the exchange that it was published to knows the value now, which it did not
 * when it was routed, the route becomes that of a duplicate. */
void route_look_again(struct route *route);
