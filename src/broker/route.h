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
	struct route *route;	  // borrows; what was found
	uint64_t mark;		  // of this walk, on what it has seen
	const struct bytes *keys; // of the message; borrows
	uint32_t key_count;	  // at least one
	struct bytes key; // the one of them that is asked for now; the first for types without keys
	struct message *message;      // borrows
	const struct exchange *start; // borrows; it was published to this one
	bool asks;		      // exchanges that deduplicate are asked: a client publishes it
	struct exchange *todo; // exchanges still to visit, marked already: struct exchange.next
	bool found;	       // the exchange being visited has a destination
};

/* What tells the types apart. A NULL function has nothing to do. */
struct exchange_type {
	struct bytes name;
	bool by_key; // route is called for each key of the message, else once
	/* Whether a new exchange may have such arguments, those of the type itself; NULL or 406. */
	const struct reply *(*check_arguments)(const struct exchange_spec *spec);
	/* Makes what the type keeps from the start on, and frees it; no binding is there. */
	void (*init)(struct exchange *exchange);
	void (*fini)(struct exchange *exchange);
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
extern const struct exchange_type exchange_type_consistent_hash;
extern const struct exchange_type exchange_type_modulus_hash;
extern const struct exchange_type exchange_type_random;
extern const struct exchange_type exchange_type_recent_history;
extern const struct exchange_type exchange_type_deduplication;
/* Its name alone: such an exchange has the type that its arguments name (struct exchange.delayed). */
extern const struct exchange_type exchange_type_delayed;

/* An exchange with struct exchange.delayed is visited: whether it holds the message back, and so leads nowhere
 * else. */
bool delayed_holds_back(struct exchange *exchange, struct routing *routing);

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

/* ---- route_sorted.c: the bindings of an exchange in an order that is theirs alone ---- */

/* For the types that choose one of all bindings by its number: struct exchange_type.add, remove, check. */
void sorted_add(struct exchange *exchange, struct binding *binding);
void sorted_remove(struct exchange *exchange, struct binding *binding);
void sorted_check(const struct exchange *exchange);
uint32_t sorted_count(const struct exchange *exchange);
/* By destination (exchanges before queues), then by key and arguments; index < sorted_count(). */
const struct binding *sorted_at(const struct exchange *exchange, uint32_t index);

#define STABLE_HASH_START UINT64_C(0xcbf29ce484222325)

/* A hash that is the same in every process, so that a key keeps its queue over restarts. It begins with
 * STABLE_HASH_START or with the hash of what is in front; stable_hash_end() makes all its bits count. */
uint64_t stable_hash(uint64_t hash, struct bytes octets);
uint64_t stable_hash_end(uint64_t hash);
/* A number below n, each as likely as the others when all values of hash are. */
static inline uint32_t
hash_below(uint64_t hash, uint32_t n)
{
	return (uint32_t)(((hash >> 32) * n) >> 32);
}

/* ---- binding.c ---- */

/* Removes a binding from its source and its destination and frees it. Nothing else goes. */
void binding_free(struct binding *binding);

/* ---- exchange.c ---- */

/* exchange_create() without a word to the store: for those that each vhost has from the start. */
struct exchange *exchange_make(struct vhost *vhost, const struct exchange_spec *spec);

/* What applies to it from now on; its alternate follows. */
void exchange_set_policies(struct exchange *exchange,
			   const struct policy *const policies[POLICY_KIND_COUNT]);

/* It is auto-delete and has lost its last binding as a source just now. Never while recovering: whatever
 * went for this reason was logged as gone. */
bool exchange_is_spent(const struct exchange *exchange);
/* Takes an exchange without bindings out of its vhost and frees it. */
void exchange_free(struct exchange *exchange);
