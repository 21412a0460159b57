/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retries with back-off (x-retry-max). A message that a consumer gives back to a queue with retries, or keeps for too
 * long, has failed. It waits in the waiting room of its queue, each time longer, and comes to the end of the queue
 * as a new message, which knows how often it failed: in its header x-failure-count for clients, and among its
 * tagged values for us, as nobody else may say so. After its last retry it dies, is dropped, or is parked in the
 * room, until somebody lets it go on.
 *
 * Only the message that failed is charged. What comes back because a channel or a connection ended, or by
 * basic.recover, goes back to its place as in any other queue.
 *
 * The new message and the mark on the old one are one unit of the store, so that it is in one place after any crash.
 */
#include "retry.h"

#include "broker/message.h"
#include "waiting.h"
#include "wire/props.h"

uint64_t
retry_interval_ms(const struct retry_settings *retry, uint32_t failures, double chance)
{
	double longest = (double)retry->longest_ms;
	double interval = (double)retry->initial_ms;

	assert(failures > 0);
	assert(chance >= 0 && chance < 1);
	if (retry->multiplier > 1 && interval > 0)
		for (; failures > 1 && interval < longest; failures--)
			interval *= retry->multiplier;
	if (interval > longest)
		interval = longest;
	return (uint64_t)(interval - interval * retry->jitter * chance + 0.5);
}

/* 0 to 1; by splitmix64, so that a test that sets the state can say what comes. */
static double
draw(struct broker *broker)
{
	uint64_t z = broker->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (double)((z ^ (z >> 31)) >> 11) / (double)(1ULL << 53);
}

static void
wait_until(struct queue *q, struct message *failed, uint64_t due_ms)
{
	struct part_owner owner = {.queue = queue_whole(q)};

	(void)waiting_room_put(owner, failed, due_ms);
}

/* A message that failed for the last time; why it is settled. */
static enum ack_reason
end(struct queue *q, struct message *failed)
{
	switch (queue_settings(q)->retry->exhausted) {
	case RETRY_PARK:
		wait_until(q, failed, WAITING_FOR_EVER);
		return ACK_MOVED;
	case RETRY_DEAD_LETTER:
		return dead_letter_send(q, failed, DEATH_DELIVERY_LIMIT) ? ACK_DEAD_LETTERED
									 : ACK_REJECTED;
	default:
		return ACK_REJECTED;
	}
}

static NEVER_INLINE void
retry(struct queue *q, const struct entry *entry)
{
	const struct retry_settings *settings = queue_settings(q)->retry;
	struct broker *broker = q->vhost->broker;
	uint32_t failures = message_failures(entry->message);
	enum ack_reason reason = ACK_MOVED;
	struct message *failed;

	assert_not_dispatching(broker);
	assert(q->unacked_count > 0);
	q->unacked_count--;
	if (q->flags & QUEUE_GROUPED)
		groups_settled(q, entry);
	failures += failures < RETRY_MAX;
	failed = message_failed(entry->message, failures);
	if (failures <= settings->max)
		wait_until(q, failed,
			   broker->now.wall_ms +
				   retry_interval_ms(settings, failures, draw(broker)));
	else
		reason = end(q, failed);
	message_unref(failed);
	queue_settle(q, entry, reason);
	message_unref(entry->message);
}

/* In the room nothing expires, and what is read from there does not know of its expiration. */
struct message *
retry_release(const struct message *m)
{
	struct message *released = message_copy(m);
	struct basic_properties properties;
	bool well = properties_decode(&properties, message_properties(m));

	assert(well);
	if (properties.flags & PROPERTY_expiration)
		released->flags |= MESSAGE_HAS_EXPIRATION;
	return released;
}

void
queue_fail(struct queue *q, const struct entry *entry)
{
	if ((q->flags & (QUEUE_RETRIES | QUEUE_DELETED)) == QUEUE_RETRIES)
		retry(q, entry);
	else
		queue_requeue(q, entry);
}
