/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routing as broker/ sees it: what a type of exchange is, and one walk through the exchanges. A type
 * keeps its own structure over the bindings of an exchange (none, a hash, a trie); the list bindings_out
 * is the same for all. The walk marks what it has seen with a number of its own, so that there is no set
 * to fill or to clear. Broker thread.
 */
#pragma once

#include "broker/binding.h"
#include "broker/exchange.h"

/* One walk: from the exchange that a message was published to, to all queues that it reaches. */
struct routing {
	struct route *route;	 // borrows; what was found
	uint64_t mark;		 // of this walk, on what it has seen
	struct bytes key;	 // borrows
	struct bytes properties; // encoded; borrows
	struct exchange *todo;	 // exchanges still to visit, marked already: struct exchange.next
	bool found;		 // the exchange being visited has a destination
};

/* What tells the types apart. A NULL function has nothing to do. */
struct exchange_type {
	struct bytes name;
	/* Whether it takes such a binding; NULL or 406. */
	const struct reply *(*check_binding)(const struct binding_spec *spec);
	/* Enters a binding that is on bindings_out into the type's structure, and takes it out again. */
	void (*add)(struct exchange *exchange, struct binding *binding);
	void (*remove)(struct exchange *exchange, struct binding *binding);
	/* The bindings of one key (struct binding.of_key), NULL when there is none. */
	const struct list *(*with_key)(const struct exchange *exchange, struct bytes key);
	/* Calls routing_add for each binding that matches. */
	void (*route)(struct exchange *exchange, struct routing *routing);
	/* Asserts that the structure and bindings_out agree. */
	void (*check)(const struct exchange *exchange);
};

/* That of the exchange "", which leads to the queue named by the key. */
extern const struct exchange_type exchange_type_default;
extern const struct exchange_type exchange_type_direct;
extern const struct exchange_type exchange_type_fanout;
extern const struct exchange_type exchange_type_headers;
extern const struct exchange_type exchange_type_topic;

/* What a binding of a headers exchange asks for (x-match): struct binding.match. */
enum headers_match {
	HEADERS_ALL,	    // every argument, those that begin with x- left aside
	HEADERS_ANY,	    // at least one of them
	HEADERS_ALL_WITH_X, // every argument
	HEADERS_ANY_WITH_X  // at least one
};

/* Doubles the room. */
void route_grow(struct route *route);

static inline void
routing_add_queue(struct routing *routing, struct queue *queue)
{
	struct route *route = routing->route;

	routing->found = true;
	if (queue->mark == routing->mark)
		return;
	queue->mark = routing->mark;
	if (unlikely(route->count == route->room))
		route_grow(route);
	route->queues[route->count++] = queue;
}

/* Puts an exchange on the work list unless the walk has been there. */
static inline void
routing_visit(struct routing *routing, struct exchange *exchange)
{
	if (exchange->mark == routing->mark)
		return;
	exchange->mark = routing->mark;
	exchange->next = routing->todo;
	routing->todo = exchange;
}

/* Adds the destination of a binding that matches. */
static inline void
routing_add(struct routing *routing, const struct binding *binding)
{
	if (binding->queue != NULL) {
		routing_add_queue(routing, binding->queue);
		return;
	}
	routing->found = true;
	routing_visit(routing, binding->exchange);
}

/* ---- route_cache.c: what exchange_route() found for a key, while the routing version stays ---- */

/* Fills route and returns true when the key is known. hash is map_hash(key). */
bool route_cache_get(const struct exchange *exchange, struct bytes key, uint64_t hash,
		     struct route *route);
/* Remembers what was found, when the key has come before; it must not be known. */
void route_cache_put(struct exchange *exchange, struct bytes key, uint64_t hash,
		     const struct route *route);
/* Frees the cache when there is one. */
void route_cache_drop(struct exchange *exchange);

/* ---- binding.c ---- */

/* Removes a binding from its source and its destination and frees it. Nothing else goes. */
void binding_free(struct binding *binding);

/* ---- exchange.c ---- */

/* It is auto-delete and has lost its last binding as a source just now. */
bool exchange_is_spent(const struct exchange *exchange);
/* Takes an exchange without bindings out of its vhost and frees it. */
void exchange_free(struct exchange *exchange);
