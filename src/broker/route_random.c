/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The x-random exchange: one of its bindings by chance, whatever its key; a queue that is bound twice is
 * twice as likely. The chance comes from the number of the routing, hashed with the secret of this
 * process: there is no state to keep, and a test that sets the secret can repeat it.
 */
#include "route.h"

static void
random_route(struct exchange *exchange, struct routing *routing)
{
	uint32_t count = sorted_count(exchange);
	uint64_t chance;

	routing->route->uncacheable = true;
	if (count == 0)
		return;
	/* Several of them on one way must not choose alike: each has the hash of its name. */
	chance = map_hash(bytes_of(&routing->mark, sizeof(routing->mark))) ^ exchange->node.hash;
	chance = stable_hash_end(chance);
	routing_add(routing, sorted_at(exchange, hash_below(chance, count)));
}

const struct exchange_type exchange_type_random = {
	.name = BYTES("x-random"),
	.add = sorted_add,
	.remove = sorted_remove,
	.route = random_route,
	.check = sorted_check,
};
