/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of keys in the store share: durable exchanges and queues that deduplicate, messages whose key is a number,
 * and what becomes of one that is published as a session does it.
 */
#pragma once

#include "broker/binding.h"
#include "broker/deduplication.h"
#include "broker/exchange.h"
#include "broker/keys.h"
#include "broker/policy.h"
#include "unit/life_stored_fixture.h"

#define KEY "x-deduplication-header"

/* ---- exchanges, queues, messages ---- */

/* The next exchange or queue deduplicates. */
static inline void
ask_for_it(void)
{
	if (arguments.writer.p == NULL)
		arguments.writer = writer_of(arguments.octets, sizeof(arguments.octets));
	table_put_bool(&arguments.writer, BYTES("x-message-deduplication"), true);
}

static inline struct bytes
asked(void)
{
	struct bytes table = bytes_of(NULL, 0);

	if (arguments.writer.p != NULL)
		table = bytes_of(arguments.octets, (size_t)(arguments.writer.p - arguments.octets));
	arguments.writer = (struct writer){0};
	return table;
}

static inline struct exchange *
declare_exchange(const char *name, const char *queue)
{
	struct exchange_spec spec = {.name = bytes_str(name),
				     .type = BYTES("fanout"),
				     .durable = true,
				     .arguments = asked()};
	struct binding_spec binding = {.queue = queue_find(vhost, bytes_str(queue))};

	ck_assert_ptr_null(exchange_check_arguments(vhost, &spec));
	binding.source = exchange_create(vhost, &spec);
	binding_add(&binding);
	run_all();
	return binding.source;
}

static inline struct exchange *
find_exchange(const char *name)
{
	return exchange_find(vhost, bytes_str(name));
}

static inline struct message *
make_keyed(uint32_t number, bool persistent)
{
	uint8_t table[128];
	uint8_t header[256];
	struct writer w = writer_of(table, sizeof(table));
	struct basic_properties properties = {
		.flags = PROPERTY_headers | PROPERTY_delivery_mode,
		.delivery_mode = persistent ? 2 : 1,
	};
	struct message *m;

	table_put_long(&w, BYTES(KEY), number);
	table_put_long(&w, BYTES("other"), number);
	properties.headers = bytes_of(table, (size_t)(w.p - table));
	w = writer_of(header, sizeof(header));
	content_header_encode(&properties, sizeof(number), &w);
	ck_assert(!w.bad);
	m = message_new(BYTES("x"), BYTES("key"), bytes_of(header, (size_t)(w.p - header)),
			sizeof(number), persistent ? MESSAGE_PERSISTENT : 0);
	memcpy(message_body_room(m), &number, sizeof(number));
	return m;
}

/* Publishes to an exchange, or straight to a queue; whether it was taken, and the LSN behind which that is safe. */
static inline bool
publish_with(const char *to, uint32_t number, bool persistent, uint64_t *lsn)
{
	struct message *m = make_keyed(number, persistent);
	struct exchange *x = find_exchange(to);
	struct publish_result result = {0, false};
	struct bytes key = x == NULL ? bytes_str(to) : BYTES("key");
	struct route route;
	uint64_t before = 0;
	bool taken;

	route_init(&route);
	if (x == NULL)
		before = queue_deduplication(find(to)).duplicates;
	exchange_route_published(x == NULL ? vhost->default_exchange : x, &key, 1, m, &route);
	taken = route.count > 0;
	if (taken)
		result = queue_publish(broker, &route, m);
	if (route.is_duplicate)
		result.lsn = duplicate_lsn(broker);
	if (x == NULL)
		taken = queue_deduplication(find(to)).duplicates == before;
	*lsn = result.lsn;
	route_fini(&route);
	message_unref(m);
	if (broker_store_full(broker))
		step_store();
	return taken;
}

static inline bool
publish_number(const char *to, uint32_t number)
{
	uint64_t lsn;

	return publish_with(to, number, true, &lsn);
}

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

static inline uint32_t
number_of(const struct entry *entry)
{
	uint32_t number;

	memcpy(&number, message_body(entry->message).p, sizeof(number));
	return number;
}

/* Acknowledges the first message, which is this one. */
static inline void
expect_number(const char *name, uint32_t number)
{
	struct entry entry;

	ck_assert(take(find(name), &entry));
	ck_assert_uint_eq(number_of(&entry), number);
	queue_ack(find(name), &entry);
}

static inline struct deduplication_state
state_of(const char *name)
{
	const struct exchange *x = find_exchange(name);

	return x != NULL ? exchange_deduplication(x) : queue_deduplication(find(name));
}

static inline void
put_policy(const char *pattern, const char *key, int64_t value)
{
	uint8_t octets[256];
	struct writer w = writer_of(octets, sizeof(octets));
	struct policy_spec spec = {.name = BYTES("p"), .pattern = bytes_str(pattern)};

	table_put_bool(&w, BYTES("message-deduplication"), true);
	if (key != NULL && value < 0)
		table_put_string(&w, bytes_str(key), BYTES("other"));
	else if (key != NULL)
		table_put_long(&w, bytes_str(key), value);
	spec.definition = bytes_of(octets, (size_t)(w.p - octets));
	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
	policy_put(vhost, POLICY_USER, &spec);
}
