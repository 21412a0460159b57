/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of the model and the part of the turn that belongs to it. Broker thread.
 */
#pragma once

#include "broker/model.h"

/* The defaults named in model.h. */
struct broker_options broker_options_default(void);
/* A broker without vhosts and users. deadlines is borrowed for good. Caller owns. */
struct broker *broker_new(struct deadlines *deadlines, const struct broker_options *options);
/* All connections must be gone. What the store keeps stays there: a shutdown deletes nothing. */
void broker_free(struct broker **broker);
void broker_set_now(struct broker *broker, struct now now);
/* Hands ready entries of dirty queues to consumers, and lets publishers go on where that made room. */
void broker_dispatch(struct broker *broker);
/* Frees what died in this turn. */
void broker_reap(struct broker *broker);
/* Memory is short: publishers must not be read. */
static inline bool
broker_memory_short(const struct broker *broker)
{
	return broker->options.memory_limit != 0 && mem_in_use() >= broker->options.memory_limit;
}
/* Sends bodies of transient messages to page files. */
void broker_look_for_pages(struct broker *broker);
/* The same while memory in use is above its mark, a few at a time; once a turn. */
static inline void
broker_page_out(struct broker *broker)
{
	if (unlikely(mem_in_use() > broker->options.page_out_at))
		broker_look_for_pages(broker);
}
/* What store_ops tell of them. */
void broker_paged_out(struct broker *broker, void *owner, int error);
void broker_paged_in(struct broker *broker, void *owner);
/* Everything up to this lsn is safe: queues that waited for it deliver. */
void broker_set_stable(struct broker *broker, uint64_t lsn);
/* Whether a message with this record may be confirmed: it is safe, or all its queues have settled it
 * before it was (DECISIONS.md), none of them by a dead letter. 0, of no record, always may. */
static inline bool
broker_is_done(const struct broker *broker, uint64_t lsn)
{
	return lsn <= broker->stable ||
	       (lsn - broker->stable <= broker->unsettled_room &&
		broker->unsettled[lsn & (broker->unsettled_room - 1)] == 0);
}
/* More waits to be written than there should be, though the writer got what it can take now: whoever
 * publishes to durable queues must wait. Between two units only (a method, a transaction). */
bool broker_store_full(struct broker *broker);
/* The same, but that space is short does not count: for what settles more than it adds. */
bool broker_store_behind(struct broker *broker);
/* Octets that one unit may write at most. */
uint64_t broker_unit_max(const struct broker *broker);
/* What a message for these queues counts of that. */
uint64_t broker_unit_share(const struct route *route, const struct message *message);
/* Ready messages in all queues; walks them. */
uint64_t broker_message_count(const struct broker *broker);
/* queue_check() of every queue and more; for tests and debug.check. */
void broker_check(const struct broker *broker);
