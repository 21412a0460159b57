/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions (amqp.md 8.2, DECISIONS.md). A publish is checked and routed at once and kept; an
 * acknowledgement is checked at once, its slot marked so that it cannot be settled twice. Commit gives
 * all messages to their queues and applies all acknowledgements as one unit; rollback forgets both, and
 * the marked entries are outstanding again.
 */
#include "broker/deduplication.h"
#include "handlers.h"
#include "util/buf.h"

/* A message that waits for the commit. */
struct tx_publish {
	struct message *message; // counts
	struct queue **queues;	 // owns the array, counts the queues
	uint32_t queue_count;
	bool mandatory;
	struct route marks; // what exchanges are to remember of it; without queues
};

/* An entry that is to be settled by the commit. */
struct tx_settle {
	uint64_t tag;
	enum settle how;
};

struct tx {
	struct tx_publish *publishes; // owns
	size_t publish_count;
	size_t publish_room;
	struct tx_settle *settles; // owns; in the order of the acknowledgements
	size_t settle_count;
	size_t settle_room;
	uint64_t size; // octets that the commit writes to the store, at most
};

static const struct reply *
refuse_not_transactional(void)
{
	return refuse(PRECONDITION_FAILED, "channel is not transactional");
}

/* ---- collecting ---- */

void
tx_publish(struct channel *channel, struct route *route, struct message *message, bool mandatory)
{
	struct tx *tx = channel->tx;
	struct tx_publish *publish;

	if (tx->publish_count == tx->publish_room) {
		tx->publish_room = tx->publish_room == 0 ? 8 : 2 * tx->publish_room;
		tx->publishes = xrealloc(tx->publishes, tx->publish_room * sizeof(*publish));
	}
	publish = &tx->publishes[tx->publish_count++];
	*publish = (struct tx_publish){
		.message = message,
		.queues = xmemdup(route->queues, route->count * sizeof(struct queue *)),
		.queue_count = route->count,
		.mandatory = mandatory,
	};
	for (uint32_t i = 0; i < route->count; i++)
		queue_ref(route->queues[i]);
	tx->size += broker_unit_share(route, message);
	route_give_marks(route, &publish->marks);
}

void
tx_settle(struct channel *channel, struct unacked_slot *slot, enum settle how)
{
	struct tx *tx = channel->tx;

	slot->in_tx = true;
	if (settle_writes(slot, how))
		tx->size += message_wire_size(slot->entry.message); // it may be written anew
	if (tx->settle_count == tx->settle_room) {
		tx->settle_room = tx->settle_room == 0 ? 16 : 2 * tx->settle_room;
		tx->settles = xrealloc(tx->settles, tx->settle_room * sizeof(*tx->settles));
	}
	tx->settles[tx->settle_count++] = (struct tx_settle){slot->tag, how};
}

/* ---- ending ---- */

static void
forget_publish(struct tx_publish *publish)
{
	message_unref(publish->message);
	for (uint32_t i = 0; i < publish->queue_count; i++)
		queue_unref(publish->queues[i]);
	xfree(publish->queues);
	route_fini(&publish->marks);
}

static void
forget_publishes(struct tx *tx)
{
	for (size_t i = 0; i < tx->publish_count; i++)
		forget_publish(&tx->publishes[i]);
	tx->publish_count = 0;
	tx->size = 0;
}

void
tx_end(struct channel *channel)
{
	struct tx *tx = channel->tx;

	if (tx == NULL)
		return;
	channel->tx = NULL;
	forget_publishes(tx);
	xfree(tx->publishes);
	xfree(tx->settles);
	xfree(tx);
}

/* Of queues that were deleted meanwhile, those get it that were declared again by the same name. Whether all took
 * it. */
static bool
commit_publish(struct channel *channel, struct tx_publish *publish)
{
	struct queue **queues = xmalloc(publish->queue_count * sizeof(struct queue *));
	struct route route = {.queues = queues};
	struct publish_result result;

	for (uint32_t i = 0; i < publish->queue_count; i++) {
		struct queue *queue = publish->queues[i];

		if (queue->flags & QUEUE_DELETED)
			queue = queue->flags & QUEUE_PART
					? NULL
					: queue_find(channel_vhost(channel), queue->name);
		if (queue != NULL)
			queues[route.count++] = queue;
	}
	route_give_marks(&publish->marks, &route);
	route_look_again(&route);
	result = publish_effect(channel, &route, publish->message, publish->mandatory);
	route_fini(&route);
	return !result.rejected;
}

/* Everything that it holds; whether all queues took what they were to get. The others have it all the same, and
 * what was acknowledged is (amqp.md 8.2). */
static bool
commit(struct channel *channel)
{
	struct tx *tx = channel->tx;
	bool all = true;

	for (size_t i = 0; i < tx->publish_count; i++)
		all &= commit_publish(channel, &tx->publishes[i]);
	for (size_t i = 0; i < tx->settle_count; i++)
		settle_now(channel, tx->settles[i].tag, tx->settles[i].how);
	forget_publishes(tx);
	tx->settle_count = 0;
	return all;
}

const struct reply *
on_tx_select(struct channel *channel, const struct tx_select *m)
{
	(void)m;
	if (channel->confirm.on)
		return refuse(PRECONDITION_FAILED, "cannot switch from confirm to tx mode");
	if (channel->tx == NULL)
		channel->tx = xcalloc(1, sizeof(*channel->tx));
	channel_send(channel, &(struct method){.id = METHOD_tx_select_ok});
	return NULL;
}

const struct reply *
on_tx_commit(struct channel *channel, const struct tx_commit *m)
{
	struct tx *tx = channel->tx;

	(void)m;
	if (tx == NULL)
		return refuse_not_transactional();
	if (tx->size > broker_unit_max(channel_broker(channel)))
		return refuse(PRECONDITION_FAILED,
			      "transaction of %llu octets is larger than the limit of %llu",
			      (unsigned long long)tx->size,
			      (unsigned long long)broker_unit_max(channel_broker(channel)));
	if (!commit(channel))
		return refuse(PRECONDITION_FAILED, "partial tx completion");
	channel_answer(channel, false, &(struct method){.id = METHOD_tx_commit_ok});
	return NULL;
}

const struct reply *
on_tx_rollback(struct channel *channel, const struct tx_rollback *m)
{
	struct tx *tx = channel->tx;

	(void)m;
	if (tx == NULL)
		return refuse_not_transactional();
	forget_publishes(tx);
	for (size_t i = 0; i < tx->settle_count; i++)
		unacked_find(&channel->unacked, tx->settles[i].tag)->in_tx = false;
	tx->settle_count = 0;
	channel_send(channel, &(struct method){.id = METHOD_tx_rollback_ok});
	return NULL;
}
