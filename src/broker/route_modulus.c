/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The x-modulus-hash exchange: all keys of a message are one hash, and that modulo the number of its
 * bindings is which of them, in their order, takes it. When a binding comes or goes most keys move: who
 * minds takes x-consistent-hash.
 */
#include "route.h"

static void
modulus_route(struct exchange *exchange, struct routing *routing)
{
	uint32_t count = sorted_count(exchange);
	uint64_t hash = STABLE_HASH_START;

	if (count == 0)
		return;
	for (uint32_t i = 0; i < routing->key_count; i++)
		hash = stable_hash(hash, routing->keys[i]);
	routing_add(routing, sorted_at(exchange, (uint32_t)(stable_hash_end(hash) % count)));
}

const struct exchange_type exchange_type_modulus_hash = {
	.name = BYTES("x-modulus-hash"),
	.add = sorted_add,
	.remove = sorted_remove,
	.route = modulus_route,
	.check = sorted_check,
};
