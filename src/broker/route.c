/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk from an exchange to queues (amqp.md 5.6). Exchanges bound to exchanges and alternate
 * exchanges go on a work list, each once, so that cycles end and long chains need no stack. An exchange
 * leads on to its alternate only when its own bindings gave no destination at all.
 *
 * What a topic exchange leads to is remembered by key, together with all that lies behind it, unless a
 * headers exchange was visited on the way.
 *
 * The default exchange has no bindings: every queue is bound to it by its name.
 */
#include "internal.h"
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
	struct exchange *alternate;

	routing->found = false;
	exchange->type->route(exchange, routing);
	if (routing->found || exchange->alternate.n == 0)
		return;
	alternate = exchange_find(exchange->vhost, exchange->alternate);
	if (alternate != NULL)
		routing_visit(routing, alternate);
}

static void
walk(struct exchange *start, struct bytes key, struct bytes properties, struct route *route)
{
	struct routing routing = {
		.route = route,
		.mark = ++start->vhost->broker->route_mark,
		.key = key,
		.properties = properties,
	};
	struct exchange *exchange;

	route->count = 0;
	route->by_headers = false;
	routing_visit(&routing, start);
	while ((exchange = routing.todo) != NULL) {
		routing.todo = exchange->next;
		visit(&routing, exchange);
	}
}

void
exchange_route(struct exchange *start, struct bytes key, struct bytes properties,
	       struct route *route)
{
	uint64_t hash;

	assert_not_dispatching(start->vhost->broker);
	assert(key.n <= UINT8_MAX);
	/* The cache pays where there is a trie to walk. */
	if (start->trie == NULL) {
		walk(start, key, properties, route);
		return;
	}
	hash = map_hash(key);
	if (route_cache_get(start, key, hash, route))
		return;
	walk(start, key, properties, route);
	if (!route->by_headers)
		route_cache_put(start, key, hash, route);
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
	.route = default_route,
	.check = default_check,
};
