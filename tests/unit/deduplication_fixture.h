/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of deduplication share: exchanges and queues that deduplicate, messages with a key, and what becomes of
 * one that is published as a session does it.
 */
#pragma once

#include "broker/deduplication.h"
#include "unit/life_fixture.h"

#define KEY "x-deduplication-header"

enum outcome {
	TAKEN,
	UNROUTABLE, // no queue got it, of no fault of its own
	DUPLICATE,  // an exchange knew it
	REFUSED	    // some queue refused it
};

static struct table headers; // of the next message

static inline void
deduplication_set_up(void)
{
	life_set_up();
	table_start(&headers);
}

static inline void
ask_true(const char *name)
{
	table_put_bool(&arguments.writer, bytes_str(name), true);
}

/* An exchange with what was put into arguments since the last one. */
static inline struct exchange *
declare_exchange(const char *name, const char *type)
{
	struct exchange *x = make_with_arguments(name, type, &arguments);

	table_start(&arguments);
	return x;
}

/* What the next message has as its key. */
static inline void
with_text(const char *name, const char *value)
{
	table_put_string(&headers.writer, bytes_str(name), bytes_str(value));
}

static inline void
with_number(const char *name, int64_t value)
{
	table_put_long(&headers.writer, bytes_str(name), value);
}

/* A message with the headers that were put together since the last one. */
static inline struct message *
keyed_message(const char *exchange, const char *body)
{
	struct basic_properties properties = {.flags = PROPERTY_headers,
					      .headers = table_view(&headers)};
	struct message *m = text_message(exchange, "key", &properties, body);

	table_start(&headers);
	return m;
}

static inline enum outcome
publish_message(struct exchange *x, struct message *m)
{
	struct bytes key = message_key(m);
	struct publish_result result = {0, false};

	exchange_route_published(x, &key, 1, m, &route);
	if (route.count > 0)
		result = queue_publish(broker, &route, m);
	broker_check(broker);
	if (result.rejected)
		return REFUSED;
	if (route.count > 0)
		return TAKEN;
	return route.is_duplicate ? DUPLICATE : UNROUTABLE;
}

static inline enum outcome
publish_keyed(struct exchange *x, const char *body)
{
	struct message *m = keyed_message("x", body);
	enum outcome outcome = publish_message(x, m);

	message_unref(m);
	return outcome;
}

/* The same with this key. */
static inline enum outcome
publish_key(struct exchange *x, const char *key)
{
	with_text(KEY, key);
	return publish_keyed(x, key);
}

/* To one queue; whether it refused it. */
static inline bool
send_key(struct queue *q, const char *key)
{
	struct basic_properties properties = {.flags = PROPERTY_headers};

	with_text(KEY, key);
	properties.headers = table_view(&headers);
	table_start(&headers);
	return send_with(q, &properties, key);
}
