/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model and the store: what survives a restart besides messages. Vhosts, users, permissions, topic
 * permissions and policies always do; an exchange and a queue when they are durable, a binding when both its ends are.
 * Exchanges that each vhost has from the start are not kept, bindings from and to them are.
 *
 * Each change is one definition (store/definition.h), logged when it has been made in the model. What goes
 * with something else needs no definition of its own: bindings go with their ends, permissions with their
 * user, everything with its vhost. But each queue that goes is logged, since the store has its messages,
 * and each exchange that goes with its last binding: what is read back removes nothing by itself.
 * Broker thread.
 */
#pragma once

#include "broker/model.h"
#include "store/definition.h"

struct topic_permission;
struct user_permission;

/* ---- recovery and checkpoints ---- */

/* Makes, changes or removes what the definition says, as read from the store: broker->recovering must be
 * set. Doing it twice is doing it once; what refers to something that is not there does nothing. For a queue
 * that is put, log is its own and gets it as owner; the store ends the log of one that is removed. */
void broker_apply_definition(struct broker *broker, const struct definition *definition,
			     struct queue_log *log);
struct key_record;
/* A key that was read back, while recovering. */
void broker_apply_key(struct broker *broker, const struct key_record *key);
struct stored_message;
/* A cold message of the queue that is the log's owner is at hand again; then all of one read are. */
void broker_read_message(struct broker *broker, struct queue_log *log, uint64_t qseq,
			 const struct stored_message *stored, bool redelivered);
void broker_read_end(struct broker *broker, struct queue_log *log);
/* store_next_deadline() is another, or there is more to be taken. */
void broker_deadlines_changed(struct broker *broker);
/* A cold message came, as store_read_these() asked for; then all have come. */
void broker_read_this(struct broker *broker, struct queue_log *log, uint64_t qseq,
		      const struct stored_message *stored, bool redelivered);
void broker_read_these_end(struct broker *broker, struct queue_log *log);
/* Everything was read back, messages too: queues go on with numbers that were never used. */
void broker_end_recovery(struct broker *broker);
/* Calls each for all that is kept, what is referred to before what refers to it. Views borrow until it
 * returns. */
void broker_each_definition(const struct broker *broker,
			    void (*each)(void *context, const struct definition *definition),
			    void *context);
/* The same with store_snapshot_add(). */
void broker_snapshot(const struct broker *broker, struct store *store);
/* All keys that are kept, with store_snapshot_keys(). */
void broker_snapshot_keys(const struct broker *broker, struct store *store);

/* ---- for broker/: something has changed ---- */

enum durable_change {
	DURABLE_PUT,	// it is new, or is otherwise than before
	DURABLE_REMOVED // it goes, or has gone just now
};

/* Each logs one definition when its subject is kept, and moves broker->effect_lsn; none does anything
 * without a store or while recovering. A removal is told while the struct is still whole. */
void durable_vhost(const struct vhost *vhost, enum durable_change change);
void durable_user(const struct user *user, enum durable_change change);
void durable_permission(const struct user *user, const struct user_permission *permission,
			enum durable_change change);
void durable_topic_permission(const struct user *user, const struct topic_permission *permission,
			      enum durable_change change);
void durable_policy(const struct policy *policy, enum durable_change change);
void durable_exchange(const struct exchange *exchange, enum durable_change change);
void durable_binding(const struct binding *binding, enum durable_change change);
/* Gives a durable queue its log, queue->log. */
void durable_queue_made(struct queue *queue);
/* The log stays, for the caller to drop it behind this. */
void durable_queue_gone(const struct queue *queue);
/* The broker ends and the store keeps everything: from here on nothing is logged, queues have no logs. */
void durable_leave(struct broker *broker);
