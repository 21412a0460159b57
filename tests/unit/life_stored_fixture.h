/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of the life of stored messages share: durable queues with arguments, messages with numbers and
 * expirations, and time in which the store has all the time that it needs.
 */
#pragma once

#include "broker/internal.h"
#include "unit/cold_fixture.h"
#include "wire/field.h"

/* Messages of which most are on the disk. */
#define LONG (3 * QUEUE_WINDOW_COUNT)

static struct table {
	uint8_t octets[1024];
	struct writer writer;
} arguments;

static inline void
ask(const char *name, int64_t value)
{
	if (arguments.writer.p == NULL)
		arguments.writer = writer_of(arguments.octets, sizeof(arguments.octets));
	table_put_long(&arguments.writer, bytes_str(name), value);
}

static inline void
ask_dead_letters_to(const char *queue)
{
	if (arguments.writer.p == NULL)
		arguments.writer = writer_of(arguments.octets, sizeof(arguments.octets));
	table_put_string(&arguments.writer, BYTES("x-dead-letter-exchange"), BYTES(""));
	table_put_string(&arguments.writer, BYTES("x-dead-letter-routing-key"), bytes_str(queue));
}

/* A durable queue with what was asked for. */
static inline struct queue *
declare(const char *name)
{
	struct queue_spec spec = {.name = bytes_str(name), .durable = true};
	struct queue *q;

	if (arguments.writer.p != NULL)
		spec.arguments =
			bytes_of(arguments.octets, (size_t)(arguments.writer.p - arguments.octets));
	q = queue_create(vhost, &spec);
	arguments.writer = (struct writer){0};
	run_all();
	return q;
}

static inline struct queue *
find(const char *name)
{
	return queue_find(vhost, bytes_str(name));
}

/* Sends a message with this number; its LSN. */
static inline uint64_t
send(struct queue *q, uint32_t number, uint32_t size)
{
	struct queue *queues[] = {q};
	struct route route = {.queues = queues, .count = 1, .room = 1};
	struct message *m = make_message(number, size, true);
	struct publish_result result = queue_publish(broker, &route, m);

	message_unref(m);
	if (broker_store_full(broker))
		step_store();
	return result.lsn;
}

/* What does not all go at once goes on, turn by turn, without a pause. */
static inline void
work_off(void)
{
	bool any = true;

	while (any || deadlines_next(&deadlines) <= present_now.monotonic_ms) {
		deadlines_run(&deadlines, present_now.monotonic_ms);
		dispatch();
		store_submit(store, present_now, false);
		any = store_work(store);
		store_receive(store);
	}
}

/* Time in which the store has all the time that it needs. */
static inline void
live(uint64_t ms)
{
	for (uint64_t end = present_now.monotonic_ms + ms; present_now.monotonic_ms < end;) {
		pass_time(min_u64(end - present_now.monotonic_ms, 100));
		run_all();
		work_off();
	}
}

/* The number of the first message, which is taken off without acknowledgement; UINT32_MAX: there is none. */
static inline uint32_t
take_number(struct queue *q)
{
	struct basic_properties properties;
	struct entry entry;
	uint32_t number;
	char key[16] = "";
	bool well;

	while (!queue_may_deliver(q))
		step_store();
	for (queue_hand_out(q); queue_must_read(q); queue_hand_out(q)) {
		queue_refill(q);
		step_store();
		dispatch();
	}
	if (!queue_get(q, true, &entry))
		return UINT32_MAX;
	/* its key is the queue's name when it is a dead letter */
	well = properties_decode(&properties, message_properties(entry.message));
	ck_assert(well);
	memcpy(key, properties.message_id.p, properties.message_id.n);
	number = (uint32_t)strtoul(key + 2, NULL, 10);
	message_unref(entry.message);
	return number;
}

static inline void
expect_numbers(struct queue *q, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ck_assert_uint_eq(take_number(q), first + i);
	ck_assert_uint_eq(take_number(q), UINT32_MAX);
}

/* The message with an expiration. */
static inline struct message *
with_expiration(const struct message *m, const char *expiration)
{
	uint8_t header[256];
	struct writer w = writer_of(header, sizeof(header));
	struct basic_properties properties;
	bool well = properties_decode(&properties, message_properties(m));
	struct message *expiring;

	ck_assert(well);
	properties.flags |= PROPERTY_expiration;
	properties.expiration = bytes_str(expiration);
	content_header_encode(&properties, m->body_size, &w);
	ck_assert(!w.bad);
	expiring = message_new(message_exchange(m), message_key(m),
			       bytes_of(header, (size_t)(w.p - header)), m->body_size,
			       m->flags | MESSAGE_HAS_EXPIRATION);
	memcpy(message_body_room(expiring), message_body(m).p, m->body_size);
	return expiring;
}

static inline void
send_for(struct queue *q, uint32_t number, const char *expiration)
{
	struct queue *queues[] = {q};
	struct route route = {.queues = queues, .count = 1, .room = 1};
	struct message *m = make_message(number, 10, true);
	struct message *expiring = with_expiration(m, expiration);

	queue_publish(broker, &route, expiring);
	message_unref(expiring);
	message_unref(m);
	if (broker_store_full(broker))
		step_store();
}
