/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of waiting rooms with a store share: a durable x-delayed-message exchange "x", which leads to the queue
 * "out", messages with a number and a delay, and turns of one millisecond.
 */
#pragma once

#include "broker/binding.h"
#include "broker/exchange.h"
#include "broker/waiting.h"
#include "unit/cold_fixture.h"
#include "wire/field.h"

static struct exchange *x;
static struct queue *out;

static inline void
find_both(void)
{
	x = exchange_find(vhost, BYTES("x"));
	out = queue_find(vhost, BYTES("out"));
}

/* Makes those that are not there. */
static inline void
waiting_fixture_make(void)
{
	uint8_t octets[256];
	struct writer w = writer_of(octets, sizeof(octets));
	struct exchange_spec exchange = {
		.name = BYTES("x"), .type = BYTES("x-delayed-message"), .durable = true};
	struct queue_spec queue = {.name = BYTES("out"), .durable = true};
	struct binding_spec binding = {.key = BYTES("")};

	table_put_string(&w, BYTES("x-delayed-type"), BYTES("fanout"));
	exchange.arguments = bytes_of(octets, (size_t)(w.p - octets));
	find_both();
	if (x == NULL)
		exchange_create(vhost, &exchange);
	if (out == NULL)
		queue_create(vhost, &queue);
	find_both();
	binding.source = x;
	binding.queue = out;
	binding_add(&binding);
	while (!queue_may_deliver(out))
		step_store();
	run_all();
}

static inline void
waiting_set_up(void)
{
	cold_set_up();
	waiting_fixture_make();
}

/* A millisecond goes by in which the store does what it can. */
static inline void
turn(void)
{
	advance(1);
	store_submit(store, present_now, false);
	while (store_work(store))
		;
	store_receive(store);
	deadlines_run(&deadlines, present_now.monotonic_ms);
	dispatch();
	/* what was asked for comes in this one */
	while (store_work(store))
		store_receive(store);
	deadlines_run(&deadlines, present_now.monotonic_ms);
	dispatch();
}

static inline void
turns(uint64_t ms)
{
	while (ms-- > 0)
		turn();
	broker_check(broker);
}

/* A message to "x"; its LSN. */
static inline uint64_t
delay(uint32_t number, uint32_t size, int64_t delay_ms, bool persistent)
{
	uint8_t table[64];
	uint8_t header[256];
	struct writer w = writer_of(table, sizeof(table));
	struct message *plain = make_message(number, size, persistent);
	struct basic_properties properties;
	bool well = properties_decode(&properties, message_properties(plain));
	struct bytes key = BYTES("");
	struct publish_result result;
	struct message *m;
	struct route route;

	ck_assert(well);
	table_put_long(&w, BYTES("x-delay"), delay_ms);
	properties.flags |= PROPERTY_headers;
	properties.headers = bytes_of(table, (size_t)(w.p - table));
	w = writer_of(header, sizeof(header));
	content_header_encode(&properties, size, &w);
	m = message_new(BYTES("x"), key, bytes_of(header, (size_t)(w.p - header)), size,
			plain->flags);
	if (size != 0)
		memcpy(message_body_room(m), message_body(plain).p, size);
	route_init(&route);
	exchange_route(x, &key, 1, m, &route);
	result = queue_publish(broker, &route, m);
	ck_assert(!result.rejected);
	route_fini(&route);
	message_unref(m);
	message_unref(plain);
	return result.lsn;
}

/* The first message of "out", settled; its number, or UINT32_MAX: there is none. came_ms gets when it came there. */
static inline uint32_t
take(uint64_t *came_ms)
{
	struct basic_properties properties;
	struct entry entry;
	char key[16] = "";

	while (!queue_may_deliver(out))
		step_store();
	for (queue_hand_out(out); queue_must_read(out); queue_hand_out(out)) {
		queue_refill(out);
		turn();
	}
	if (!queue_get(out, true, &entry))
		return UINT32_MAX;
	ck_assert(properties_decode(&properties, message_properties(entry.message)));
	memcpy(key, properties.message_id.p, properties.message_id.n);
	if (came_ms != NULL)
		*came_ms = entry.message->time_ms;
	message_unref(entry.message);
	return (uint32_t)strtoul(key + 2, NULL, 10);
}

static inline void
expect(uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ck_assert_uint_eq(take(NULL), first + i);
	ck_assert_uint_eq(take(NULL), UINT32_MAX);
}

static inline struct waiting_room *
room(void)
{
	return waiting_room_of_exchange(x);
}

static inline uint64_t
waiting(void)
{
	return room() == NULL ? 0 : waiting_room_count(room());
}

static inline void
start_again(bool clean)
{
	restart(clean);
	find_both();
}
