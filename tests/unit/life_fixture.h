/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of the life of messages share: queues declared with arguments, messages with properties and
 * bodies that are short texts, and what lies in a queue as a text: the bodies, oldest first, with blanks between.
 */
#pragma once

#include "broker/internal.h"
#include "unit/queue_fixture.h"

static struct table arguments; // of the next queue

static inline void
life_set_up(void)
{
	model_set_up();
	broker_set_now(broker, (struct now){.monotonic_ms = 1000, .wall_ms = 1700000000000});
	table_start(&arguments);
}

/* Milliseconds go by, in which what is due happens when it is. */
static inline void
pass(uint64_t ms)
{
	struct now now = broker->now;

	for (uint64_t end = now.monotonic_ms + ms; now.monotonic_ms < end;) {
		uint64_t next = min_u64(end, max_u64(now.monotonic_ms, deadlines_next(&deadlines)));

		now.wall_ms += next - now.monotonic_ms;
		now.monotonic_ms = next;
		broker_set_now(broker, now);
		deadlines_run(&deadlines, now.monotonic_ms);
		broker_dispatch(broker);
		broker_check(broker);
	}
}

/* A queue with what was put into arguments since the last one. */
static inline struct queue *
declare(const char *name)
{
	struct queue_spec spec = {.name = bytes_str(name), .arguments = table_view(&arguments)};
	const struct reply *refusal = queue_check_new(vhost, &spec);
	struct queue *q;

	ck_assert_msg(refusal == NULL, "%s", refusal == NULL ? "" : refusal->text);
	q = queue_create(vhost, &spec);
	table_start(&arguments);
	return q;
}

static inline void
ask_number(const char *name, int64_t value)
{
	table_put_long(&arguments.writer, bytes_str(name), value);
}

static inline void
ask_string(const char *name, const char *value)
{
	table_put_string(&arguments.writer, bytes_str(name), bytes_str(value));
}

/* Dead letters go to the default exchange with this key: to the queue of that name. */
static inline void
ask_dead_letters_to(const char *queue)
{
	ask_string("x-dead-letter-exchange", "");
	ask_string("x-dead-letter-routing-key", queue);
}

static inline struct message *
text_message(const char *exchange, const char *key, const struct basic_properties *properties,
	     const char *body)
{
	static const struct basic_properties none;
	uint8_t header[TABLE_ROOM];
	struct writer w = writer_of(header, sizeof(header));
	size_t n = strlen(body);
	struct message *m;

	content_header_encode(properties == NULL ? &none : properties, n, &w);
	ck_assert(!w.bad);
	m = message_new(bytes_str(exchange), bytes_str(key),
			bytes_of(header, (size_t)(w.p - header)), (uint32_t)n,
			properties != NULL && (properties->flags & PROPERTY_expiration)
				? MESSAGE_HAS_EXPIRATION
				: 0);
	if (n != 0)
		memcpy(message_body_room(m), body, n);
	return m;
}

/* To one queue; whether it took it. */
static inline bool
send_with(struct queue *q, const struct basic_properties *properties, const char *body)
{
	struct queue *queues[] = {q};
	struct route to = {.queues = queues, .count = 1, .room = 1};
	struct message *m = text_message("", "key", properties, body);
	struct publish_result result = queue_publish(broker, &to, m);

	message_unref(m);
	broker_check(broker);
	return !result.rejected;
}

static inline bool
send(struct queue *q, const char *body)
{
	return send_with(q, NULL, body);
}

/* Takes the first message by basic.get, to be settled by the caller with the queue that it is of; there must be
 * one. */
static inline struct entry
take_from(struct queue *q, struct queue **from)
{
	struct entry entry;

	queue_hand_out(q);
	*from = queue_get(q, false, &entry);
	ck_assert_ptr_nonnull(*from);
	return entry;
}

static inline struct entry
take(struct queue *q)
{
	struct queue *from;
	struct entry entry = take_from(q, &from);

	ck_assert_ptr_eq(from, q);
	return entry;
}

static inline void
reject_first(struct queue *q)
{
	struct queue *from;
	struct entry entry = take_from(q, &from);

	queue_reject(from, &entry);
	broker_check(broker);
}

static inline void
requeue_first(struct queue *q)
{
	struct queue *from;
	struct entry entry = take_from(q, &from);

	queue_requeue(from, &entry);
	broker_check(broker);
}

/* The bodies in the queue, which stay there. */
static inline const char *
bodies(struct queue *q)
{
	static char text[1024];
	struct entry entries[64];
	struct queue *from[countof(entries)];
	size_t n = 0;
	size_t at = 0;

	queue_hand_out(q);
	ck_assert_uint_lt(queue_message_count(q), countof(entries));
	while (n < countof(entries) && (from[n] = queue_get(q, false, &entries[n])) != NULL)
		n++;
	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s", i == 0 ? "" : " ",
				       BYTES_ARGS(message_body(entries[i].message)));
	while (n > 0) {
		n--;
		/* as it was, but for the mark */
		from[n]->unacked_count--;
		window_requeue(from[n], entries[n]);
		levels_touch(from[n]);
	}
	return text;
}

/* ---- headers ---- */

static inline struct basic_properties
properties_of(const struct message *m)
{
	struct basic_properties properties;
	bool well = properties_decode(&properties, message_properties(m));

	ck_assert(well);
	return properties;
}

static inline struct bytes
headers_of(const struct message *m)
{
	return properties_of(m).headers;
}

/* The n-th table of x-death, 0 is the latest; empty when there are no more. */
static inline struct bytes
death_of(const struct message *m, unsigned n)
{
	struct field_iterator iterator;
	struct field field;

	if (!table_find(headers_of(m), BYTES("x-death"), &field))
		return bytes_of(NULL, 0);
	ck_assert_int_eq(field.class, FIELD_ARRAY);
	iterator = array_iterate(field.bytes);
	while (field_next(&iterator, &field))
		if (n-- == 0)
			return field.bytes;
	return bytes_of(NULL, 0);
}

static inline void
expect_string(struct bytes table, const char *name, const char *value)
{
	struct field field;

	ck_assert_msg(table_find(table, bytes_str(name), &field), "there is no %s", name);
	ck_assert_int_eq(field.type, 'S');
	ck_assert_msg(bytes_equal(field.bytes, bytes_str(value)), "%s is '%.*s', not '%s'", name,
		      BYTES_ARGS(field.bytes), value);
}

static inline void
expect_number(struct bytes table, const char *name, char type, int64_t value)
{
	struct field field;

	ck_assert_msg(table_find(table, bytes_str(name), &field), "there is no %s", name);
	ck_assert_int_eq(field.type, type);
	ck_assert_int_eq(field.integer, value);
}

/* One death: queue, reason, and how often. */
static inline void
expect_death(const struct message *m, unsigned n, const char *queue, const char *reason,
	     int64_t count)
{
	struct bytes death = death_of(m, n);

	ck_assert_msg(death.n > 0, "there are not so many deaths");
	expect_string(death, "queue", queue);
	expect_string(death, "reason", reason);
	expect_number(death, "count", 'l', count);
}
