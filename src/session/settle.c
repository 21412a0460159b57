/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledgements, rejections, recovery (amqp.md 7.9): what happens to a delivered entry, and the credit
 * that it gives back.
 */
#include "internal.h"
#include "util/buf.h"

/* All may take again, whoever waited longest first. */
static void
channel_credit(struct channel *channel)
{
	struct consumer *consumer;

	list_for_each (&channel->turns, consumer, struct consumer, of_channel)
		consumer_ready(consumer);
}

/* Gives back what the delivery was charged to, and the references. */
static void
slot_release(struct channel *channel, const struct unacked_slot *slot)
{
	struct consumer *consumer = slot->consumer;

	/* the channel's limit first, so that those who waited for it come before this consumer */
	if (slot->global) {
		bool full = !prefetch_has_room(&channel->prefetch);

		assert(channel->prefetch.used > 0);
		channel->prefetch.used--;
		if (full && prefetch_has_room(&channel->prefetch))
			channel_credit(channel);
	}
	if (consumer != NULL) {
		assert(consumer->prefetch.used > 0);
		consumer->prefetch.used--;
		if (prefetch_has_room(&consumer->prefetch))
			consumer_ready(consumer);
		consumer_unref(consumer);
	}
	queue_unref(slot->queue);
}

static void
slot_ack(void *context, const struct unacked_slot *slot)
{
	queue_ack(slot->queue, &slot->entry);
	slot_release(context, slot);
}

static void
slot_reject(void *context, const struct unacked_slot *slot)
{
	struct channel *channel = context;

	if (queue_settings(slot->queue)->dead_letters)
		channel->connection->buried = true;
	queue_reject(slot->queue, &slot->entry);
	slot_release(channel, slot);
}

static void
slot_requeue(void *context, const struct unacked_slot *slot)
{
	queue_requeue(slot->queue, &slot->entry);
	slot_release(context, slot);
}

static void
slot_fail(void *context, const struct unacked_slot *slot)
{
	struct channel *channel = context;

	if (slot->queue->flags & QUEUE_RETRIES)
		channel->connection->buried = true;
	queue_fail(slot->queue, &slot->entry);
	slot_release(channel, slot);
}

typedef void settle_function(void *context, const struct unacked_slot *slot);

static settle_function *const settle_functions[] = {
	[SETTLE_ACK] = slot_ack,
	[SETTLE_REJECT] = slot_reject,
	[SETTLE_REQUEUE] = slot_requeue,
	[SETTLE_FAIL] = slot_fail,
};

void
settle_now(struct channel *channel, uint64_t tag, enum settle how)
{
	struct unacked_slot copy = *unacked_find(&channel->unacked, tag);

	unacked_remove(&channel->unacked, tag);
	settle_functions[how](channel, &copy);
}

/* What a multiple acknowledgement in a transaction visits. */
struct tx_visit {
	struct channel *channel;
	enum settle how;
};

static void
slot_to_tx(void *context, struct unacked_slot *slot)
{
	const struct tx_visit *visit = context;

	if (!slot->in_tx)
		tx_settle(visit->channel, slot, visit->how);
}

bool
settle_writes(const struct unacked_slot *slot, enum settle how)
{
	return how == SETTLE_REJECT || (how == SETTLE_FAIL && (slot->queue->flags & QUEUE_RETRIES));
}

/* Rejections may be dead letters, and failures messages that wait, which the disk must keep up with: when it does not
 * the rest waits, and so does the input behind it. */
static void
reject_upto(struct channel *channel, uint64_t tag, enum settle how)
{
	const struct unacked_slot *slot;

	channel->reject_upto = 0;
	while ((slot = unacked_first(&channel->unacked)) != NULL && slot->tag <= tag) {
		if (unlikely(settle_writes(slot, how) &&
			     broker_store_behind(channel_broker(channel)))) {
			channel->reject_upto = tag;
			connection_hold_frame(channel->connection,
					      channel_broker(channel)->stable + 1);
			return;
		}
		settle_now(channel, slot->tag, how);
	}
}

static void
settle_upto(struct channel *channel, uint64_t tag, enum settle how)
{
	struct tx_visit visit = {channel, how};

	if (channel->tx != NULL)
		unacked_visit(&channel->unacked, tag, slot_to_tx, &visit);
	else if (how == SETTLE_REJECT || how == SETTLE_FAIL)
		reject_upto(channel, tag, how);
	else
		unacked_settle_upto(&channel->unacked, tag, settle_functions[how], channel);
}

const struct reply *
settle_tags(struct channel *channel, uint64_t tag, bool multiple, enum settle how)
{
	struct unacked_slot *slot;

	if (channel->reject_upto != 0) {
		reject_upto(channel, channel->reject_upto, how);
		return NULL;
	}
	if (multiple && tag == 0) {
		/* not of what is delivered while it is held */
		settle_upto(channel, channel->next_tag - 1, how);
		return NULL;
	}
	slot = unacked_find(&channel->unacked, tag);
	if (slot == NULL && ack_timeout_returned(channel, tag)) {
		if (multiple)
			settle_upto(channel, tag, how);
		return NULL;
	}
	if (slot == NULL || slot->in_tx)
		return refuse(PRECONDITION_FAILED, "unknown delivery tag %llu",
			      (unsigned long long)tag);
	if (multiple)
		settle_upto(channel, tag, how);
	else if (channel->tx != NULL)
		tx_settle(channel, slot, how);
	else
		settle_now(channel, tag, how);
	return NULL;
}

void
settle_requeue_all(struct channel *channel)
{
	unacked_settle_all_reversed(&channel->unacked, slot_requeue, channel);
}

static void
note_tag(void *context, struct unacked_slot *slot)
{
	if (!slot->in_tx)
		buf_add(context, &slot->tag, sizeof(slot->tag));
}

void
settle_recover(struct channel *channel)
{
	struct buf tags;
	uint64_t tag;

	if (channel->tx == NULL) {
		settle_requeue_all(channel);
		return;
	}
	/* what the open transaction settles is not outstanding any more */
	buf_init(&tags, 0);
	unacked_visit(&channel->unacked, UINT64_MAX, note_tag, &tags);
	for (size_t at = 0; at < tags.n; at += sizeof(tag)) {
		memcpy(&tag, tags.p + at, sizeof(tag));
		settle_now(channel, tag, SETTLE_REQUEUE);
	}
	buf_fini(&tags);
}

/* What the open transaction settles is not outstanding any more. */
static void
slot_charge_global(void *context, struct unacked_slot *slot)
{
	struct prefetch *prefetch = context;

	slot->global = !slot->in_tx;
	prefetch->used += slot->global;
}

/* A new limit for the whole channel. What is unacked when it is set counts from the start. */
void
settle_set_global_prefetch(struct channel *channel, uint32_t limit)
{
	struct prefetch *prefetch = &channel->prefetch;

	if (prefetch->limit == 0 && limit != 0) {
		prefetch->used = 0;
		unacked_visit(&channel->unacked, UINT64_MAX, slot_charge_global, prefetch);
	}
	prefetch->limit = limit;
	if (prefetch_has_room(prefetch))
		channel_credit(channel);
}
