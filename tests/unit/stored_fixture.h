/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of stored messages that fail or come back share: durable queues with arguments, messages with numbers,
 * time in which all happens that is due.
 */
#pragma once

#include "broker/internal.h"
#include "unit/cold_fixture.h"
#include "wire/field.h"

static uint8_t argument_octets[1024];
static struct writer argument_writer; // of the next queue; p NULL: nothing yet

static inline struct writer *
next_arguments(void)
{
	if (argument_writer.p == NULL)
		argument_writer = writer_of(argument_octets, sizeof(argument_octets));
	return &argument_writer;
}

static inline void
ask(const char *name, int64_t value)
{
	table_put_long(next_arguments(), bytes_str(name), value);
}

static inline void
ask_string(const char *name, const char *value)
{
	table_put_string(next_arguments(), bytes_str(name), bytes_str(value));
}

static inline void
ask_dead_letters_to(const char *queue)
{
	ask_string("x-dead-letter-exchange", "");
	ask_string("x-dead-letter-routing-key", queue);
}

static inline struct queue *
find(const char *name)
{
	return queue_find(vhost, bytes_str(name));
}

/* A durable queue with what was asked for. */
static inline struct queue *
declare(const char *name)
{
	const uint8_t *end = next_arguments()->p;
	struct queue_spec spec = {
		.name = bytes_str(name),
		.durable = true,
		.arguments = bytes_of(argument_octets, (size_t)(end - argument_octets)),
	};
	struct queue *q = queue_create(vhost, &spec);

	argument_writer = (struct writer){0};
	run_all();
	return q;
}

/* Sends a message with this number; its LSN. */
static inline uint64_t
send(struct queue *q, uint32_t number, bool persistent)
{
	struct queue *queues[] = {q};
	struct route route = {.queues = queues, .count = 1, .room = 1};
	struct message *m = make_message(number, 10, persistent);
	struct publish_result result = queue_publish(broker, &route, m);

	message_unref(m);
	if (broker_store_full(broker))
		step_store();
	return result.lsn;
}

/* The message with an expiration; refs is 1. */
static inline struct message *
with_expiration(const struct message *m, const char *expiration)
{
	uint8_t header[256];
	struct writer w = writer_of(header, sizeof(header));
	struct basic_properties properties;
	struct message *expiring;
	bool well = properties_decode(&properties, message_properties(m));

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

/* Time in which the store has all the time that it needs. */
static inline void
live(uint64_t ms)
{
	for (uint64_t end = present_now.monotonic_ms + ms; present_now.monotonic_ms < end;) {
		pass_time(min_u64(end - present_now.monotonic_ms, 100));
		run_all();
	}
}

/* Takes the first message by basic.get, to be settled by the caller; false when there is none. */
static inline bool
take(struct queue *q, struct entry *entry)
{
	while (!queue_may_deliver(q))
		step_store();
	for (queue_hand_out(q); queue_must_read(q); queue_hand_out(q)) {
		queue_refill(q);
		step_store();
		dispatch();
	}
	return queue_get(q, false, entry);
}

/* Which one it is. */
static inline uint32_t
number_of(const struct message *m)
{
	struct basic_properties properties;
	char text[16] = "";
	bool well = properties_decode(&properties, message_properties(m));

	/* its key is the queue's name when it is a dead letter */
	ck_assert(well);
	memcpy(text, properties.message_id.p, properties.message_id.n);
	return (uint32_t)strtoul(text + 2, NULL, 10);
}
