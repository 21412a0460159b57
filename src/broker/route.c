/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk from an exchange to queues (amqp.md 5.6). Exchanges bound to exchanges and alternate
 * exchanges go on a work list, each once, so that cycles end and long chains need no stack. An exchange
 * leads on to its alternate only when its own bindings gave no destination at all.
 *
 * What a topic exchange leads to is remembered by key, together with all that lies behind it, unless a
 * exchange was visited on the way whose part in it is not told by the key (struct route.uncacheable).
 *
 * An exchange that deduplicates leads a message that it knows nowhere, not to its alternate either.
 *
 * The default exchange has no bindings: every queue is bound to it by its name.
 */
#include "internal.h"
#include "keys.h"
#include "route.h"

#define ROUTE_ROOM_FIRST 16

void
route_init(struct route *route)
{
	*route = (struct route){0};
}

void
route_fini(struct route *route)
{
	route_drop_marks(route);
	xfree(route->marks);
	xfree(route->queues);
	*route = (struct route){0};
}

void
route_grow(struct route *route)
{
	uint32_t room = route->room == 0 ? ROUTE_ROOM_FIRST : route->room * 2;

	assert(room > route->room);
	route->queues = xrealloc(route->queues, room * sizeof(*route->queues));
	route->room = room;
}

/* Visits one exchange: its bindings, and else its alternate. */
static void
visit(struct routing *routing, struct exchange *exchange)
{
	uint32_t count = exchange->type->by_key ? routing->key_count : 1;
	struct exchange *alternate;

	routing->found = false;
	if (unlikely(exchange->deduplication != NULL) && !keys_admit(exchange, routing))
		return;
	if (unlikely(exchange->delayed) && delayed_holds_back(exchange, routing))
		return;
	for (uint32_t i = 0; i < count; i++) {
		routing->key = routing->keys[i];
		exchange->type->route(exchange, routing);
	}
	if (routing->found || exchange->alternate.n == 0)
		return;
	alternate = exchange_find(exchange->vhost, exchange->alternate);
	if (alternate != NULL)
		routing_visit(routing, alternate);
}

static void
walk(struct exchange *start, const struct bytes *keys, uint32_t key_count, struct message *message,
     bool asks, struct route *route)
{
	struct routing routing = {
		.route = route,
		.mark = ++start->vhost->broker->route_mark,
		.keys = keys,
		.key_count = key_count,
		.message = message,
		.start = start,
		.asks = asks,
	};
	struct exchange *exchange;

	route->count = 0;
	route->uncacheable = false;
	routing_visit(&routing, start);
	while ((exchange = routing.todo) != NULL) {
		routing.todo = exchange->next;
		visit(&routing, exchange);
	}
}

static void
find_route(struct exchange *start, const struct bytes *keys, uint32_t key_count,
	   struct message *message, bool asks, struct route *route)
{
	uint64_t hash;

	if (unlikely(route->mark_count > 0))
		route_drop_marks(route);
	route->is_duplicate = false;
	assert_not_dispatching(start->vhost->broker);
	assert(key_count > 0);
	/* The cache pays where there is a trie to walk, and knows single keys. */
	if (start->trie == NULL || key_count > 1) {
		walk(start, keys, key_count, message, asks, route);
		return;
	}
	hash = map_hash(keys[0]);
	if (route_cache_get(start, keys[0], hash, route))
		return;
	walk(start, keys, 1, message, asks, route);
	if (!route->uncacheable)
		route_cache_put(start, keys[0], hash, route);
}

void
exchange_route(struct exchange *start, const struct bytes *keys, uint32_t key_count,
	       struct message *message, struct route *route)
{
	find_route(start, keys, key_count, message, false, route);
}

void
exchange_route_published(struct exchange *start, const struct bytes *keys, uint32_t key_count,
			 struct message *message, struct route *route)
{
	find_route(start, keys, key_count, message, true, route);
}

static void
default_route(struct exchange *exchange, struct routing *routing)
{
	struct queue *queue = queue_find(exchange->vhost, routing->key);

	if (queue != NULL)
		routing_add_queue(routing, queue);
}

static void
default_check(const struct exchange *exchange)
{
	assert(list_empty(&exchange->bindings_out));
	assert(list_empty(&exchange->bindings_in));
}

const struct exchange_type exchange_type_default = {
	.name = BYTES("direct"),
	.by_key = true,
	.route = default_route,
	.check = default_check,
};
