/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The x-recent-history exchange: a fanout that remembers the last messages published to it and gives them,
 * oldest first, to each destination that is bound: to a queue as they are, and to an exchange as if they
 * were published to that one. How many it remembers is an argument; a message whose header says so is not
 * remembered. What is remembered is gone after a restart.
 *
 * The messages are a ring that grows up to that number. They are kept while routing, which is why a route
 * over such an exchange is never cached.
 */
#include "internal.h"
#include "route.h"
#include "wire/field.h"
#include "wire/props.h"

#define LENGTH BYTES("x-recent-history-length")
#define NO_STORE BYTES("x-recent-history-no-store")
#define LENGTH_DEFAULT 20
#define ROOM_FIRST 4
#define VALUE_TEXT_ROOM 128

struct past {
	struct message *message; // counts
	struct bytes
		*keys; // owns, with the octets behind; NULL when the message's own is the only one
	uint32_t key_count; // as in the routing
};

struct history {
	struct past *items; // owns; a ring
	uint32_t first;	    // the oldest
	uint32_t count;	    // how many there are
	uint32_t room;	    // of items; grows up to length
	uint32_t length;    // how many are remembered at most
};

/* ---- arguments ---- */

static const struct reply *
history_check_arguments(const struct exchange_spec *spec)
{
	char text[VALUE_TEXT_ROOM];
	struct field field;
	bool string;

	if (!table_find(spec->arguments, LENGTH, &field) ||
	    (field.class == FIELD_INTEGER && field.integer > 0))
		return NULL;
	string = field.class == FIELD_STRING;
	return refuse(PRECONDITION_FAILED,
		      "Invalid argument %s%s%s, 'x-recent-history-length' must be a positive "
		      "integer",
		      string ? "<<\"" : "", field_print(&field, text, sizeof(text)),
		      string ? "\">>" : "");
}

static void
history_init(struct exchange *exchange)
{
	struct history *history = xcalloc(1, sizeof(*history));
	struct field field;

	history->length = LENGTH_DEFAULT;
	if (table_find(exchange->arguments, LENGTH, &field)) {
		assert(field.integer > 0);
		history->length = field.integer < UINT32_MAX ? (uint32_t)field.integer : UINT32_MAX;
	}
	exchange->history = history;
}

/* ---- what is remembered ---- */

static struct past
past_of(struct message *message, const struct bytes *keys, uint32_t key_count)
{
	struct past past = {.message = message_ref(message), .key_count = key_count};
	size_t size = key_count * sizeof(*keys);
	uint8_t *octets;

	assert(key_count > 0);
	if (key_count == 1)
		return past;
	for (uint32_t i = 0; i < key_count; i++)
		size += keys[i].n;
	past.keys = xmalloc(size);
	octets = (uint8_t *)(past.keys + key_count);
	for (uint32_t i = 0; i < key_count; i++) {
		past.keys[i] = bytes_of(octets, keys[i].n);
		if (keys[i].n != 0)
			memcpy(octets, keys[i].p, keys[i].n);
		octets += keys[i].n;
	}
	return past;
}

static void
past_drop(struct past *past)
{
	message_unref(past->message);
	xfree(past->keys);
	*past = (struct past){0};
}

static struct past *
past_at(const struct history *history, uint32_t index)
{
	return &history->items[(history->first + (uint64_t)index) % history->room];
}

/* Makes room for one more, while it is not at its length. */
static void
history_grow(struct history *history)
{
	uint32_t room = history->room == 0 ? ROOM_FIRST : history->room * 2;
	struct past *items;

	assert(history->count == history->room);
	if (room > history->length || room < history->room)
		room = history->length;
	assert(room > history->room);
	items = xmalloc(room * sizeof(*items));
	for (uint32_t i = 0; i < history->count; i++)
		items[i] = *past_at(history, i);
	xfree(history->items);
	history->items = items;
	history->first = 0;
	history->room = room;
}

static void
history_store(struct history *history, const struct routing *routing)
{
	if (history->count == history->length) {
		past_drop(past_at(history, 0));
		history->first = (history->first + 1) % history->room;
		history->count--;
	} else if (history->count == history->room) {
		history_grow(history);
	}
	*past_at(history, history->count++) =
		past_of(routing->message, routing->keys, routing->key_count);
}

static void
history_fini(struct exchange *exchange)
{
	struct history *history = exchange->history;

	for (uint32_t i = 0; i < history->count; i++)
		past_drop(past_at(history, i));
	xfree(history->items);
	xfree(history);
	exchange->history = NULL;
}

/* ---- routing ---- */

static bool
wants_store(const struct message *message)
{
	struct basic_properties properties;
	struct field field;
	bool valid = properties_decode(&properties, message_properties(message));

	/* The channel decoded them before it took the message. */
	assert(valid);
	return !table_find(properties.headers, NO_STORE, &field) || field.class != FIELD_BOOLEAN ||
	       field.integer == 0;
}

static void
history_route(struct exchange *exchange, struct routing *routing)
{
	const struct binding *binding;

	routing->route->uncacheable = true;
	if (wants_store(routing->message))
		history_store(exchange->history, routing);
	list_for_each (&exchange->bindings_out, binding, struct binding, of_source)
		routing_add(routing, binding);
}

/* ---- a new binding ---- */

static void
give_to_queue(struct broker *broker, struct queue *queue, struct message *message)
{
	struct route route = {.queues = &queue, .count = 1};

	queue_publish(broker, &route, message);
}

static void
give_to_exchange(struct broker *broker, struct exchange *exchange, const struct past *past,
		 struct route *route)
{
	struct bytes key = message_key(past->message);

	exchange_route(exchange, past->keys != NULL ? past->keys : &key, past->key_count,
		       past->message, route);
	queue_publish(broker, route, past->message);
}

/* The exchange may lead back to where the history is: what comes round is remembered once more, as any
 * publish is. So it works on a copy. */
static void
history_add(struct exchange *exchange, struct binding *binding)
{
	struct history *history = exchange->history;
	struct broker *broker = exchange->vhost->broker;
	uint32_t count = history->count;
	struct past *copy = xmalloc(count * sizeof(*copy));
	struct route route;

	route_init(&route);
	for (uint32_t i = 0; i < count; i++) {
		const struct past *past = past_at(history, i);
		struct bytes key = message_key(past->message);

		copy[i] = past_of(past->message, past->keys != NULL ? past->keys : &key,
				  past->key_count);
	}
	for (uint32_t i = 0; i < count; i++) {
		if (binding->queue != NULL)
			give_to_queue(broker, binding->queue, copy[i].message);
		else
			give_to_exchange(broker, binding->exchange, &copy[i], &route);
		past_drop(&copy[i]);
	}
	route_fini(&route);
	xfree(copy);
}

static void
history_check(const struct exchange *exchange)
{
	const struct history *history = exchange->history;

	assert(history->count <= history->room);
	assert(history->room <= history->length);
	for (uint32_t i = 0; i < history->count; i++)
		assert(past_at(history, i)->message->refs > 0);
}

const struct exchange_type exchange_type_recent_history = {
	.name = BYTES("x-recent-history"),
	.check_arguments = history_check_arguments,
	.init = history_init,
	.fini = history_fini,
	.add = history_add,
	.route = history_route,
	.check = history_check,
};
