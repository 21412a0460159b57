/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledgements, rejections, recovery (amqp.md 7.9): what happens to a delivered entry, and the credit
 * that it gives back.
 */
#include "internal.h"

static void
channel_credit(struct channel *channel)
{
	struct consumer *consumer;

	map_for_each (&channel->consumers, consumer, struct consumer, by_tag)
		consumer_ready(consumer);
}

/* Gives back what the delivery was charged to, and the references. */
static void
slot_release(struct channel *channel, const struct unacked_slot *slot)
{
	struct consumer *consumer = slot->consumer;

	if (consumer != NULL) {
		assert(consumer->prefetch.used > 0);
		consumer->prefetch.used--;
		if (prefetch_has_room(&consumer->prefetch))
			consumer_ready(consumer);
		consumer_unref(consumer);
	}
	if (slot->global) {
		bool full = !prefetch_has_room(&channel->prefetch);

		assert(channel->prefetch.used > 0);
		channel->prefetch.used--;
		if (full && prefetch_has_room(&channel->prefetch))
			channel_credit(channel);
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
	queue_reject(slot->queue, &slot->entry);
	slot_release(context, slot);
}

static void
slot_requeue(void *context, const struct unacked_slot *slot)
{
	queue_requeue(slot->queue, &slot->entry);
	slot_release(context, slot);
}

typedef void settle_function(void *context, const struct unacked_slot *slot);

static settle_function *const settle_functions[] = {
	[SETTLE_ACK] = slot_ack,
	[SETTLE_REJECT] = slot_reject,
	[SETTLE_REQUEUE] = slot_requeue,
};

const struct reply *
settle_tags(struct channel *channel, uint64_t tag, bool multiple, enum settle how)
{
	struct unacked_slot *slot;
	struct unacked_slot copy;

	if (multiple && tag == 0) {
		unacked_settle_upto(&channel->unacked, UINT64_MAX, settle_functions[how], channel);
		return NULL;
	}
	slot = unacked_find(&channel->unacked, tag);
	if (slot == NULL)
		return refuse(PRECONDITION_FAILED, "unknown delivery tag %llu",
			      (unsigned long long)tag);
	if (multiple) {
		unacked_settle_upto(&channel->unacked, tag, settle_functions[how], channel);
		return NULL;
	}
	copy = *slot;
	unacked_remove(&channel->unacked, tag);
	settle_functions[how](channel, &copy);
	return NULL;
}

void
settle_requeue_all(struct channel *channel)
{
	unacked_settle_all_reversed(&channel->unacked, slot_requeue, channel);
}

/* A new limit for the whole channel. What is unacked when it is set counts from the start. */
void
settle_set_global_prefetch(struct channel *channel, uint32_t limit)
{
	struct prefetch *prefetch = &channel->prefetch;

	if (prefetch->limit == 0 && limit != 0) {
		unacked_charge_global(&channel->unacked);
		prefetch->used = (uint32_t)channel->unacked.count;
	}
	prefetch->limit = limit;
	if (prefetch_has_room(prefetch))
		channel_credit(channel);
}
