/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consumers: registered with a queue, they take entries while they have credit: highest priority first,
 * in turns among equals (amqp.md 7.10). Broker thread.
 */
#pragma once

#include "broker/model.h"

struct consumer_spec {
	struct bytes tag;
	struct bytes arguments; // validated field table
	bool no_ack;
	bool exclusive;
	uint32_t prefetch_limit; // 0: none
	bool global_limit;	 // its channel has a limit for all its consumers
	uint64_t timeout_ms;	 // how long a delivery may be unacked; UINT64_MAX: for ever
	const struct consumer_ops *ops;
	void *channel;
};

/* Whether the queue admits it: arguments (406), no global limit on quorum queues (540), exclusivity
 * (403). */
const struct reply *consumer_check(const struct queue *queue, const struct consumer_spec *spec);
/* Registers it; it may take from the next dispatch on, unless it has to wait for a single active one. The
 * caller's reference counts. */
struct consumer *consumer_new(struct queue *queue, const struct consumer_spec *spec);
/* Takes it off its queue (an auto-delete queue may go with it); unacked entries keep the struct. The
 * registration's reference is dropped, so the pointer may be dead after this. */
void consumer_cancel(struct consumer *consumer);
/* It may take again: its credit or the room of its connection has changed. */
void consumer_ready(struct consumer *consumer);
void consumer_unref(struct consumer *consumer);

static inline struct consumer *
consumer_ref(struct consumer *consumer)
{
	consumer->refs++;
	return consumer;
}

static inline bool
prefetch_has_room(const struct prefetch *prefetch)
{
	return prefetch->limit == 0 || prefetch->used < prefetch->limit;
}
