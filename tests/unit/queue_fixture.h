/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of queues and consumers have beside model_fixture.h: consumers that note what they take,
 * with a limit on how much, and short calls to publish, settle and dispatch.
 */
#pragma once

#include "broker/consumer.h"
#include "broker/message.h"
#include "unit/model_fixture.h"

#define TAKEN_MAX 256
#define HEADER_PAYLOAD 14

/* A consumer of the test: its channel is this struct. */
struct taker {
	struct consumer *consumer; // NULL once it was cancelled
	struct entry taken[TAKEN_MAX];
	struct queue *from[TAKEN_MAX]; // borrow: the queue, or the levels that they are of
	size_t taken_n;
	size_t room;	    // what it takes before it says DELIVER_FULL
	unsigned fulls;	    // how often it said so
	unsigned cancelled; // how often the broker ended it
};

/* Which consumers took, one character for each entry: the first of their tags. */
static char order[TAKEN_MAX];
static size_t order_n;

static enum deliver_result
taker_deliver(struct consumer *consumer, const struct entry *entry)
{
	struct taker *taker = consumer->channel;

	ck_assert(broker->dispatching);
	ck_assert_ptr_eq(taker->consumer, consumer);
	if (taker->taken_n == taker->room) {
		taker->fulls++;
		return DELIVER_FULL;
	}
	ck_assert_uint_lt(taker->taken_n, TAKEN_MAX);
	ck_assert_uint_lt(order_n, TAKEN_MAX);
	taker->from[taker->taken_n] = consumer->from;
	taker->taken[taker->taken_n++] = *entry;
	order[order_n++] = (char)consumer->tag.p[0];
	return DELIVER_TOOK;
}

static void
taker_cancelled(struct consumer *consumer)
{
	struct taker *taker = consumer->channel;

	ck_assert_ptr_null(consumer->queue);
	taker->cancelled++;
	taker->consumer = NULL;
}

static const struct consumer_ops taker_ops = {taker_deliver, taker_cancelled};

static inline struct consumer_spec
taker_spec(struct taker *taker, const char *tag)
{
	return (struct consumer_spec){.tag = bytes_str(tag), .ops = &taker_ops, .channel = taker};
}

static inline void
taker_register(struct taker *taker, struct queue *queue, const struct consumer_spec *spec)
{
	ck_assert_ptr_null(consumer_check(queue, spec));
	taker->consumer = consumer_new(queue, spec);
}

/* A consumer with that tag and x-priority and with room for that many entries. */
static inline void
taker_start(struct taker *taker, struct queue *queue, const char *tag, int priority, size_t room)
{
	struct consumer_spec spec = taker_spec(taker, tag);
	struct table table;

	table_start(&table);
	table_put_int(&table.writer, BYTES("x-priority"), priority);
	spec.arguments = table_view(&table);
	*taker = (struct taker){.room = room};
	taker_register(taker, queue, &spec);
}

static inline void
taker_cancel(struct taker *taker)
{
	consumer_cancel(taker->consumer);
	taker->consumer = NULL;
}

static inline void
dispatch(void)
{
	broker_dispatch(broker);
	broker_check(broker);
	ck_assert(list_empty(&broker->dirty));
}

/* Which consumers took since the last call. */
static inline const char *
order_taken(void)
{
	static char taken[TAKEN_MAX + 1];

	dispatch();
	memcpy(taken, order, order_n);
	taken[order_n] = '\0';
	order_n = 0;
	return taken;
}

static inline struct message *
make_message(uint32_t body_size)
{
	uint8_t header[HEADER_PAYLOAD] = {0, 60};
	struct message *m;

	store_longlong(header + 4, body_size);
	m = message_new(no_bytes(), BYTES("k"), bytes_of(header, sizeof(header)), body_size, 0);
	if (body_size != 0)
		memset(message_body_room(m), 'b', body_size);
	return m;
}

static inline void
publish_sized(struct queue *queue, uint32_t body_size)
{
	struct queue *queues[] = {queue};
	struct route to = {.queues = queues, .count = 1, .room = 1};
	struct message *m = make_message(body_size);
	struct publish_result result = queue_publish(broker, &to, m);

	ck_assert(!result.rejected);
	message_unref(m);
	broker_check(broker);
}

static inline void
publish(struct queue *queue, int n)
{
	while (n-- > 0)
		publish_sized(queue, 10);
}

/* Takes one by basic.get; its place in the queue, 0 when there is none. */
static inline uint64_t
get_and_ack(struct queue *queue)
{
	struct entry entry;

	if (!queue_get(queue, false, &entry))
		return 0;
	queue_ack(queue, &entry);
	return entry_qseq(&entry);
}
