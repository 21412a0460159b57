/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of the model begin with: a broker with one vhost, made and ended by the two functions for
 * TESTS_WITH, and short calls to make exchanges, queues and bindings in it and to route a message.
 */
#pragma once

#include "broker/binding.h"
#include "broker/broker.h"
#include "broker/exchange.h"
#include "broker/message.h"
#include "broker/queue.h"
#include "broker/vhost.h"
#include "util/heap.h"
#include "wire/field.h"
#include "wire/props.h"

#include "lib/runner.h"

#include <stdio.h>

#define TABLE_ROOM 4096

static struct deadlines deadlines;
static struct broker *broker;
static struct vhost *vhost;
static struct route route; // of the last routing

/* A field table being built: the functions table_put_... take its writer. */
struct table {
	uint8_t octets[TABLE_ROOM];
	struct writer writer;
};

static inline void
model_set_up(void)
{
	struct broker_options options = broker_options_default();

	deadlines_init(&deadlines);
	broker = broker_new(&deadlines, &options);
	vhost = vhost_create(broker, BYTES("v"));
	route_init(&route);
}

/* Every exchange is checked before it goes. */
static inline void
model_check(void)
{
	const struct exchange *exchange;

	map_for_each (&vhost->exchanges, exchange, struct exchange, node)
		exchange_check(exchange);
	broker_check(broker);
}

static inline void
model_tear_down(void)
{
	model_check();
	route_fini(&route);
	broker_free(&broker);
	deadlines_fini(&deadlines);
}

static inline struct bytes
no_bytes(void)
{
	return bytes_of(NULL, 0);
}

static inline void
table_start(struct table *table)
{
	table->writer = writer_of(table->octets, sizeof(table->octets));
}

static inline struct bytes
table_view(const struct table *table)
{
	ck_assert(!table->writer.bad);
	return bytes_of(table->octets, (size_t)(table->writer.p - table->octets));
}

static inline struct exchange_spec
exchange_spec_of(const char *name, const char *type)
{
	return (struct exchange_spec){.name = bytes_str(name), .type = bytes_str(type)};
}

static inline struct exchange *
make_exchange(const char *name, const char *type)
{
	struct exchange_spec spec = exchange_spec_of(name, type);

	return exchange_create(vhost, &spec);
}

static inline struct exchange *
make_with_arguments(const char *name, const char *type, const struct table *arguments)
{
	struct exchange_spec spec = exchange_spec_of(name, type);

	spec.arguments = table_view(arguments);
	ck_assert_ptr_null(exchange_check_arguments(vhost, &spec));
	return exchange_create(vhost, &spec);
}

static inline struct exchange *
make_auto_delete(const char *name, const char *type)
{
	struct exchange_spec spec = exchange_spec_of(name, type);

	spec.auto_delete = true;
	return exchange_create(vhost, &spec);
}

static inline struct exchange *
make_with_alternate(const char *name, const char *type, const char *alternate)
{
	struct exchange_spec spec = exchange_spec_of(name, type);
	struct table table;

	table_start(&table);
	table_put_string(&table.writer, BYTES("alternate-exchange"), bytes_str(alternate));
	spec.arguments = table_view(&table);
	return exchange_create(vhost, &spec);
}

static inline struct exchange *
find_exchange(const char *name)
{
	return exchange_find(vhost, bytes_str(name));
}

static inline struct queue *
make_queue(const char *name)
{
	struct queue_spec spec = {.name = bytes_str(name)};

	return queue_create(vhost, &spec);
}

static inline void
bind_queue(struct exchange *source, struct queue *queue, const char *key, struct bytes arguments)
{
	struct binding_spec spec = {
		.source = source, .queue = queue, .key = bytes_str(key), .arguments = arguments};

	ck_assert_ptr_null(binding_check(&spec));
	binding_add(&spec);
}

static inline void
unbind_queue(struct exchange *source, struct queue *queue, const char *key, struct bytes arguments)
{
	struct binding_spec spec = {
		.source = source, .queue = queue, .key = bytes_str(key), .arguments = arguments};

	binding_remove(&spec);
}

static inline void
bind_exchange(struct exchange *source, struct exchange *destination, const char *key)
{
	struct binding_spec spec = {
		.source = source, .exchange = destination, .key = bytes_str(key)};

	ck_assert_ptr_null(binding_check(&spec));
	binding_add(&spec);
}

static inline void
unbind_exchange(struct exchange *source, struct exchange *destination, const char *key)
{
	struct binding_spec spec = {
		.source = source, .exchange = destination, .key = bytes_str(key)};

	binding_remove(&spec);
}

/* A message without a body, as one that was published to the exchange. */
static inline struct message *
message_to(const struct exchange *exchange, struct bytes key,
	   const struct basic_properties *properties)
{
	uint8_t octets[TABLE_ROOM + 1024];
	struct writer w = writer_of(octets, sizeof(octets));

	content_header_encode(properties, 0, &w);
	ck_assert(!w.bad);
	return message_new(exchange->name, key, bytes_of(octets, (size_t)(w.p - octets)), 0, 0);
}

/* Routes a message with these properties into `route`; returns how many queues it reached. */
static inline uint32_t
route_with(struct exchange *exchange, struct bytes key, const struct basic_properties *properties)
{
	struct message *message = message_to(exchange, key, properties);

	exchange_route(exchange, &key, 1, message, &route);
	message_unref(message);
	return route.count;
}

static inline uint32_t
route_with_headers(struct exchange *exchange, struct bytes key, struct bytes headers)
{
	struct basic_properties properties = {
		.flags = headers.n != 0 ? PROPERTY_headers : 0,
		.headers = headers,
	};

	return route_with(exchange, key, &properties);
}

static inline uint32_t
route_key(struct exchange *exchange, const char *key)
{
	return route_with_headers(exchange, bytes_str(key), no_bytes());
}

/* How often the last routing found the queue. */
static inline uint32_t
route_has(const struct queue *queue)
{
	uint32_t times = 0;

	for (uint32_t i = 0; i < route.count; i++)
		times += route.queues[i] == queue;
	return times;
}

static inline void
assert_refused(const struct reply *reply, enum reply_code code, const char *text)
{
	ck_assert_ptr_nonnull(reply);
	ck_assert_int_eq(reply->code, code);
	ck_assert_str_eq(reply->text, text);
}
