/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer timeout (amqp.md 7.11): how long a delivery may stay unacked. It is the smallest of what is
 * configured, what the queue says and what the consumer asks for; nobody has one unasked. What is late goes back
 * to its queue, its credit is given back and the consumer lives; or, as RabbitMQ 3.13 does it, the channel is
 * closed (session_options.consumer_timeout_closes).
 *
 * Deliveries of a channel are in order of time. A channel has a struct ack_timeout from the first delivery on
 * that can be late; only then do its slots carry their time. One deadline stands for all of them: when it is due,
 * the slots are looked at from the oldest one to the first that is too young for any timeout there was on this
 * channel. Settlements do not touch it.
 */
#include "internal.h"
#include "net/net.h"
#include "util/buf.h"

/* While input is not read, the peer is not blamed for what may wait there: it is looked at again later. */
#define NOT_READ (CONN_PAUSE_HOLD | CONN_PAUSE_ALARM | CONN_PAUSE_STORE)
#define NOT_READ_MS 100
/* While the disk is behind. */
#define BEHIND_MS 2
/* So many slots may be looked at for each ms that passes. */
#define LOOKS_PER_MS 1000

struct ack_timeout {
	struct deadline deadline;
	struct channel *channel; // borrows: the channel owns this
	uint64_t least_ms;	 // the smallest timeout of any delivery so far
	uint64_t returned_upto;	 // the highest tag that was late and went back; 0: none
};

static uint64_t
limit_of(uint64_t ms)
{
	return ms == 0 ? UINT64_MAX : ms;
}

/* How long this delivery may be unacked; UINT64_MAX: for ever. */
static uint64_t
timeout_of(const struct channel *channel, const struct unacked_slot *slot)
{
	const struct session *session = channel->connection->session;
	uint64_t of_queue = limit_of(queue_settings(slot->queue)->consumer_timeout_ms);

	return min_u64(of_queue, slot->consumer != NULL
					 ? slot->consumer->timeout_ms
					 : limit_of(session->options.consumer_timeout_ms));
}

static uint64_t
now_of(const struct channel *channel)
{
	return channel_broker(channel)->now.monotonic_ms;
}

/* ---- looking ---- */

/* One look at the slots of a channel. */
struct look {
	struct channel *channel;
	uint64_t now_ms;
	uint64_t next_ms;   // when something is late next
	uint64_t late_ms;   // the timeout of the oldest that is late
	uint64_t looked_at; // slots
	struct buf late;    // their tags
};

static void
look_at(void *context, struct unacked_slot *slot)
{
	struct look *look = context;
	uint64_t ms = timeout_of(look->channel, slot);

	look->looked_at++;
	if (ms == UINT64_MAX)
		return;
	if (slot->in_tx) {
		look->next_ms = min_u64(look->next_ms, look->now_ms + ms);
	} else if (slot->delivered_ms + ms > look->now_ms) {
		look->next_ms = min_u64(look->next_ms, slot->delivered_ms + ms);
	} else {
		if (look->late.n == 0)
			look->late_ms = ms;
		buf_add(&look->late, &slot->tag, sizeof(slot->tag));
	}
}

/* Those that are late have failed. Messages that wait are written anew: when the disk does not keep up, the others
 * are late a little longer. How many went. */
static size_t
fail_late(struct ack_timeout *timeout, const struct look *look)
{
	struct channel *channel = timeout->channel;
	struct broker *broker = channel_broker(channel);
	size_t n = 0;

	for (; n < look->late.n / sizeof(uint64_t); n++) {
		uint64_t tag;

		memcpy(&tag, look->late.p + n * sizeof(tag), sizeof(tag));
		if (settle_writes(unacked_find(&channel->unacked, tag), SETTLE_FAIL) &&
		    broker_store_behind(broker)) {
			deadline_set(broker->deadlines, &timeout->deadline,
				     look->now_ms + BEHIND_MS);
			break;
		}
		settle_now(channel, tag, SETTLE_FAIL);
		timeout->returned_upto = max_u64(timeout->returned_upto, tag);
	}
	return n;
}

static void
return_late(struct ack_timeout *timeout, const struct look *look)
{
	const struct channel *channel = timeout->channel;
	size_t count = fail_late(timeout, look);

	if (count > 0)
		log_warn("deliveries went back after their timeout connection=%llu channel=%u "
			 "count=%zu timeout_ms=%llu",
			 (unsigned long long)conn_id(channel->connection->conn), channel->id, count,
			 (unsigned long long)look->late_ms);
}

/* Only those that are late have failed; the others go back as the channel ends. */
static void
close_late(struct ack_timeout *timeout, const struct look *look)
{
	struct channel *channel = timeout->channel;

	if (fail_late(timeout, look) < look->late.n / sizeof(uint64_t))
		return;
	channel_refuse(channel,
		       refuse_no_ids(PRECONDITION_FAILED,
				     "delivery acknowledgement on channel %u timed out. Timeout "
				     "value used: %llu ms. This timeout value can be configured, "
				     "see consumers doc guide to learn more",
				     channel->id, (unsigned long long)look->late_ms),
		       0);
}

static void
on_due(struct deadline *deadline, uint64_t now_ms)
{
	struct ack_timeout *timeout = container_of(deadline, struct ack_timeout, deadline);
	struct channel *channel = timeout->channel;
	struct deadlines *deadlines = channel_broker(channel)->deadlines;
	struct look look = {.channel = channel, .now_ms = now_ms, .next_ms = UINT64_MAX};
	const struct unacked_slot *younger;

	if (conn_paused(channel->connection->conn) & NOT_READ) {
		deadline_set(deadlines, deadline, now_ms + NOT_READ_MS);
		return;
	}
	buf_init(&look.late, 0);
	younger = unacked_visit_older(&channel->unacked,
				      now_ms - min_u64(now_ms, timeout->least_ms), look_at, &look);
	if (younger != NULL)
		look.next_ms = min_u64(look.next_ms, younger->delivered_ms + timeout->least_ms);
	if (look.next_ms != UINT64_MAX)
		deadline_set(deadlines, deadline,
			     max_u64(look.next_ms, now_ms + look.looked_at / LOOKS_PER_MS));
	if (look.late.n > 0 && channel->connection->session->options.consumer_timeout_closes)
		close_late(timeout, &look);
	else if (look.late.n > 0)
		return_late(timeout, &look);
	buf_fini(&look.late);
}

/* ---- what the rest of the session calls ---- */

static void
slot_begin(void *context, struct unacked_slot *slot)
{
	const uint64_t *now_ms = context;

	slot->delivered_ms = *now_ms;
}

uint64_t
ack_timeout_of(const struct session *session, struct bytes arguments)
{
	uint64_t ms = limit_of(session->options.consumer_timeout_ms);
	struct field field;

	if (!table_find(arguments, BYTES("x-consumer-timeout"), &field))
		return ms;
	assert(field.class == FIELD_INTEGER);
	return min_u64(ms, limit_of((uint64_t)field.integer));
}

void
ack_timeout_watch(struct channel *channel)
{
	uint64_t now_ms = now_of(channel);

	if (channel->timeout != NULL)
		return;
	channel->timeout = slab_alloc(sizeof(*channel->timeout));
	*channel->timeout = (struct ack_timeout){
		.deadline.run = on_due, .channel = channel, .least_ms = UINT64_MAX};
	/* what was delivered before counts from now on */
	unacked_visit(&channel->unacked, UINT64_MAX, slot_begin, &now_ms);
}

void
ack_timeout_note(struct channel *channel, struct unacked_slot *slot)
{
	uint64_t ms = timeout_of(channel, slot);
	uint64_t now_ms = now_of(channel);
	struct ack_timeout *timeout;

	if (ms != UINT64_MAX)
		ack_timeout_watch(channel);
	timeout = channel->timeout;
	if (timeout == NULL)
		return;
	slot->delivered_ms = now_ms;
	if (ms == UINT64_MAX)
		return;
	timeout->least_ms = min_u64(timeout->least_ms, ms);
	if (!deadline_is_set(&timeout->deadline) || timeout->deadline.at_ms > now_ms + ms)
		deadline_set(channel_broker(channel)->deadlines, &timeout->deadline, now_ms + ms);
}

bool
ack_timeout_returned(const struct channel *channel, uint64_t tag)
{
	return channel->timeout != NULL && tag != 0 && tag <= channel->timeout->returned_upto;
}

void
ack_timeout_end(struct channel *channel)
{
	struct ack_timeout *timeout = channel->timeout;

	if (timeout == NULL)
		return;
	deadline_clear(channel_broker(channel)->deadlines, &timeout->deadline);
	slab_free(timeout, sizeof(*timeout));
	channel->timeout = NULL;
}
