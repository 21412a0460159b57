/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of x-delayed-message exchanges in memory share: one, x, that leads to the queue q, and messages whose
 * headers are put into a table before they are published.
 */
#pragma once

#include "broker/waiting_room.h"
#include "unit/life_fixture.h"

static struct exchange *x;
static struct queue *q;
static struct table headers; // of the next message

static inline struct exchange *
make_delayed(const char *name, const char *type, const char *alternate)
{
	struct table table;

	table_start(&table);
	table_put_string(&table.writer, BYTES("x-delayed-type"), bytes_str(type));
	if (alternate != NULL)
		table_put_string(&table.writer, BYTES("alternate-exchange"), bytes_str(alternate));
	return make_with_arguments(name, "x-delayed-message", &table);
}

static inline void
set_up(void)
{
	life_set_up();
	table_start(&headers);
	x = make_delayed("x", "direct", NULL);
	q = make_queue("q");
	bind_queue(x, q, "key", no_bytes());
}

static inline struct message *
message_with_headers(const char *body, const char *expiration)
{
	struct basic_properties properties = {.flags = PROPERTY_headers};
	struct message *m;

	properties.headers = table_view(&headers);
	if (expiration != NULL) {
		properties.flags |= PROPERTY_expiration;
		properties.expiration = bytes_str(expiration);
	}
	m = text_message("x", "key", &properties, body);
	table_start(&headers);
	return m;
}

/* Publishes the message with these keys and drops it; how many queues it was routed to. */
static inline uint32_t
publish_keys(struct exchange *exchange, struct message *m, const char *const *keys, uint32_t n)
{
	struct bytes views[8];
	uint32_t count;

	for (uint32_t i = 0; i < n; i++)
		views[i] = bytes_str(keys[i]);
	exchange_route(exchange, views, n, m, &route);
	ck_assert(!exchange->delayed || route.uncacheable);
	count = route.count;
	queue_publish(broker, &route, m);
	message_unref(m);
	broker_check(broker);
	return count;
}

static inline uint32_t
send_to(struct exchange *exchange, const char *body)
{
	const char *key = "key";

	return publish_keys(exchange, message_with_headers(body, NULL), &key, 1);
}

static inline void
publish_for(struct exchange *exchange, const char *body, int64_t delay_ms)
{
	table_put_long(&headers.writer, BYTES("x-delay"), delay_ms);
	ck_assert_uint_eq(send_to(exchange, body), 1);
}

static inline uint64_t
waiting(struct exchange *exchange)
{
	struct waiting_room *room = waiting_room_of_exchange(exchange);

	return room == NULL ? 0 : waiting_room_count(room);
}

static inline void
put_octets(char type, const void *octets, size_t n)
{
	write_shortstr(&headers.writer, BYTES("x-delay"));
	write_octet(&headers.writer, (uint8_t)type);
	write_raw(&headers.writer, bytes_of(octets, n));
}

static inline void
put_double(double value)
{
	uint8_t octets[8];
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	store_longlong(octets, bits);
	put_octets('d', octets, sizeof(octets));
}
