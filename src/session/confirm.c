/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publisher confirms (amqp.md 8.1): each publish on a confirm channel has a number; it is settled when
 * its lsn is stable or its queues are done with the message, in order. What is settled is answered once a turn, with `multiple` wherever that
 * covers more than one. A message that nothing durable took has lsn 0 and waits only for those before it.
 *
 * Invariants: sent <= settled < next; the ring holds settled + 1 ... next - 1; nacks lie in
 * (sent, settled].
 */
#include "broker/broker.h"
#include "internal.h"

void
confirm_init(struct confirm *c)
{
	*c = (struct confirm){.next = 1};
}

void
confirm_fini(struct confirm *c)
{
	xfree(c->ring);
	xfree(c->nacks);
	*c = (struct confirm){0};
}

static void
ring_grow(struct confirm *c)
{
	uint32_t room = c->room == 0 ? 16 : 2 * c->room;
	uint64_t *ring = xmalloc(room * sizeof(uint64_t));

	for (uint32_t i = 0; i < c->count; i++)
		ring[i] = c->ring[(c->first + i) & (c->room - 1)];
	xfree(c->ring);
	c->ring = ring;
	c->room = room;
	c->first = 0;
}

static void
ring_push(struct confirm *c, uint64_t value)
{
	if (c->count == c->room)
		ring_grow(c);
	c->ring[(c->first + c->count++) & (c->room - 1)] = value;
}

static void
nack_push(struct confirm *c, uint64_t number)
{
	if (c->nack_count == c->nack_room) {
		c->nack_room = c->nack_room == 0 ? 8 : 2 * c->nack_room;
		c->nacks = xrealloc(c->nacks, c->nack_room * sizeof(uint64_t));
	}
	c->nacks[c->nack_count++] = number;
}

bool
confirm_publish(struct confirm *c, struct publish_result result, uint64_t stable)
{
	uint64_t number = c->next++;

	if (c->count > 0 || result.lsn > stable) {
		ring_push(c, result.lsn << 1 | result.rejected);
		return false;
	}
	if (unlikely(result.rejected))
		nack_push(c, number);
	c->settled = number;
	return true;
}

bool
confirm_settle(struct confirm *c, const struct broker *broker)
{
	while (c->count > 0 && broker_is_done(broker, c->ring[c->first] >> 1)) {
		c->settled++;
		if (c->ring[c->first] & 1)
			nack_push(c, c->settled);
		c->first = (c->first + 1) & (c->room - 1);
		c->count--;
	}
	return c->settled > c->sent;
}

static void
send_ack(struct channel *channel, uint64_t upto)
{
	struct confirm *c = &channel->confirm;

	if (upto == c->sent)
		return;
	channel_send(channel, &(struct method){.id = METHOD_basic_ack,
					       .basic_ack = {.delivery_tag = upto,
							     .multiple = upto - c->sent > 1}});
	c->sent = upto;
}

void
confirm_send(struct channel *channel)
{
	struct confirm *c = &channel->confirm;

	for (uint32_t i = 0; i < c->nack_count; i++) {
		send_ack(channel, c->nacks[i] - 1);
		/* the requeue bit means nothing here; RabbitMQ sets it (amqp.md 2.7) */
		channel_send(channel, &(struct method){.id = METHOD_basic_nack,
						       .basic_nack = {.delivery_tag = c->nacks[i],
								      .requeue = true}});
		c->sent = c->nacks[i];
	}
	c->nack_count = 0;
	send_ack(channel, c->settled);
}
