/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: ready messages in order, handed to consumers at the end of the turn; see model.h. Checks of
 * permissions and of reserved names are the session's. Broker thread.
 */
#pragma once

#include "broker/model.h"

struct queue_spec {
	struct bytes name; // never empty: the session makes names
	bool durable;
	bool exclusive;
	bool auto_delete;
	struct queue_owner *owner; // the connection that declares
	struct bytes arguments;	   // validated field table
};

struct queue *queue_find(const struct vhost *vhost, struct bytes name);
/* queue_find or NOT_FOUND `no queue 'q' in vhost 'v'` into *refusal. */
struct queue *queue_need(const struct vhost *vhost, struct bytes name,
			 const struct reply **refusal);
/* NULL, or 405 when the queue is exclusive to another connection. */
const struct reply *queue_check_access(const struct queue *queue, const struct queue_owner *owner);
/* For a queue that exists: exclusive (405), durable, auto_delete, known arguments (406; amqp.md 6.1). */
const struct reply *queue_check_equivalent(const struct queue *queue,
					   const struct queue_spec *spec);
/* For a new one: arguments (args.h) and limits. */
const struct reply *queue_check_new(const struct vhost *vhost, const struct queue_spec *spec);
/* Makes it; the name must be free and the checks done. */
struct queue *queue_create(struct vhost *vhost, const struct queue_spec *spec);
/* Takes it out of its vhost with its bindings and messages; its consumers hear consumer_ops.cancelled.
 * Returns the number of ready messages that it had. */
uint64_t queue_delete(struct queue *queue);
/* Somebody declares it or asks it for a message: it does not expire for a while. queue_get() says so itself. */
void queue_used(struct queue *queue);
/* Drops all ready messages; returns how many. */
uint64_t queue_purge(struct queue *queue);
/* Deletes the exclusive queues of a connection that ends. */
void queue_owner_init(struct queue_owner *owner);
void queue_owner_fini(struct queue_owner *owner);

static inline struct queue *
queue_ref(struct queue *queue)
{
	queue->refs++;
	return queue;
}

void queue_unref(struct queue *queue);

/* Those of a queue that is asked for nothing. */
extern const struct queue_settings queue_settings_plain;

/* What is in force for it; valid until its arguments or policies change. */
static inline const struct queue_settings *
queue_settings(const struct queue *queue)
{
	return queue->own_settings == NULL ? &queue_settings_plain : queue->own_settings;
}

/* What became of a publish. */
struct publish_result {
	uint64_t lsn;  // stable when the message is safe; 0: nothing durable took it
	bool rejected; // some queue refused it: nack
};

/* Gives the message to each queue of the route; the caller keeps its own reference. */
struct publish_result queue_publish(struct broker *broker, const struct route *route,
				    struct message *message);
/* All its ready messages, at hand or not, on all levels. */
uint64_t queue_message_count(const struct queue *queue);
/* Octets of their bodies. */
uint64_t queue_octets(const struct queue *queue);
/* There are ready messages, and the first one is not at hand: queue_refill() and the store bring some. */
bool queue_must_read(const struct queue *queue);
/* Has the next messages read when few are at hand. */
void queue_refill(struct queue *queue);
/* Hands out now what would be handed out at the end of the turn, before somebody looks at the queue. */
void queue_hand_out(struct queue *queue);
/* Whether entries may be handed out: the store knows that this queue delivers, so that after a crash they
 * come as redelivered. It is told now if it was not; until queue->gate_lsn is stable the answer is no. */
bool queue_may_deliver(struct queue *queue);
/* NULL, or 405 where basic.get may not pass by a single active consumer. */
const struct reply *queue_check_get(const struct queue *queue);
/* Takes the first ready entry for basic.get. Returns the queue that it is of, this one or a level of it; NULL when
 * there is none. The entry's reference is the caller's; with ack expected it counts as unacked until queue_ack or
 * queue_requeue of that queue. */
struct queue *queue_get(struct queue *queue, bool no_ack, struct entry *entry);
/* Of all levels: entries that clients hold. */
uint64_t queue_unacked_count(const struct queue *queue);
/* Settles an unacked entry of this very queue, or level, and drops its message reference. */
void queue_ack(struct queue *queue, const struct entry *entry);
/* Settles it as refused without requeue: it is dead. */
void queue_reject(struct queue *queue, const struct entry *entry);
/* A consumer failed to do it: it is tried again later where the queue is asked for that (x-retry-max), else
 * queue_requeue(). */
void queue_fail(struct queue *queue, const struct entry *entry);
/* Puts an unacked entry back to its old place, flagged redelivered. */
void queue_requeue(struct queue *queue, const struct entry *entry);

/* Whether publishers to this queue should yield (DECISIONS.md: a consumer that keeps taking and more
 * than yield_high bytes ready; of a durable queue, or a quarter of a window). */
bool queue_wants_yield(const struct queue *queue);
/* Whether publishers to this queue must wait: it has more than it may, by about a window, for what it is to drop
 * must be read from the disk first. It lets them go on. */
bool queue_is_behind(const struct queue *queue);
/* Links the publisher to the queue until go_on is called or yielder_stop(). */
void yielder_wait(struct yielder *yielder, struct queue *queue);
void yielder_stop(struct yielder *yielder);

/* Asserts what must hold between its counts, entries and lists. */
void queue_check(const struct queue *queue);
