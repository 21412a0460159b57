/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of queues that nobody uses (x-expires, amqp.md 6.6). A queue is used while it has consumers, and each
 * time that it is declared or asked for a message; publishing to it is no use. A restart begins the period anew.
 *
 * What it takes hangs on the life of queues that expire, so that others have nothing of it. A use only notes
 * the time; the deadline that was set before finds out that there is some left. It is not set while there are
 * consumers and it came due, nor during a recovery.
 */
#include "internal.h"
#include "util/log.h"

struct queue_expiry {
	struct deadline deadline;
	struct queue *queue; // borrows for good
	uint64_t used_ms;    // when it was used last
	bool recovered;	     // its period begins with the first turn
};

static struct queue_expiry *
expiry_of(const struct queue *q)
{
	return q->life == NULL ? NULL : q->life->expiry;
}

static void
on_due(struct deadline *deadline, uint64_t now_ms)
{
	struct queue_expiry *expiry = container_of(deadline, struct queue_expiry, deadline);
	struct queue *q = expiry->queue;
	uint64_t expires_ms = queue_settings(q)->expires_ms;

	if (!list_empty(&q->consumers))
		return;
	if (expiry->recovered)
		expiry->used_ms = now_ms;
	expiry->recovered = false;
	if (expiry->used_ms + expires_ms > now_ms) {
		deadline_set(q->vhost->broker->deadlines, deadline, expiry->used_ms + expires_ms);
		return;
	}
	log_info("queue expired queue=%.*s vhost=%.*s messages=%llu", BYTES_ARGS(q->name),
		 BYTES_ARGS(q->vhost->name), (unsigned long long)queue_message_count(q));
	queue_delete(q);
}

void
queue_used(struct queue *q)
{
	struct queue_expiry *expiry = expiry_of(q);

	if (expiry != NULL)
		expiry->used_ms = q->vhost->broker->now.monotonic_ms;
}

void
queue_expiry_idle(struct queue *q)
{
	struct queue_expiry *expiry = expiry_of(q);

	if (expiry == NULL)
		return;
	queue_used(q);
	deadline_set(q->vhost->broker->deadlines, &expiry->deadline,
		     expiry->used_ms + queue_settings(q)->expires_ms);
}

void
queue_expiry_recovered(struct queue *q)
{
	struct queue_expiry *expiry = expiry_of(q);

	if (expiry == NULL)
		return;
	expiry->recovered = true;
	deadline_set(q->vhost->broker->deadlines, &expiry->deadline, 0);
}

void
queue_expiry_changed(struct queue *q)
{
	queue_expiry_drop(q);
	if (queue_settings(q)->expires_ms == UINT64_MAX)
		return;
	life_need(q);
	q->life->expiry = slab_alloc(sizeof(*q->life->expiry));
	*q->life->expiry = (struct queue_expiry){.deadline.run = on_due, .queue = q};
	if (!q->vhost->broker->recovering)
		queue_expiry_idle(q);
}

void
queue_expiry_drop(struct queue *q)
{
	struct queue_expiry *expiry = expiry_of(q);

	if (expiry == NULL)
		return;
	deadline_clear(q->vhost->broker->deadlines, &expiry->deadline);
	slab_free(expiry, sizeof(*expiry));
	q->life->expiry = NULL;
}
