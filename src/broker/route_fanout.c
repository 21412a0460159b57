/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fanout exchange: every binding, whatever its key. It needs no structure beside the list. That of the type
 * x-message-deduplication is one, too, which always deduplicates (deduplication_rules.c).
 */
#include "route.h"

static void
fanout_route(struct exchange *exchange, struct routing *routing)
{
	const struct binding *binding;

	list_for_each (&exchange->bindings_out, binding, struct binding, of_source)
		routing_add(routing, binding);
}

const struct exchange_type exchange_type_fanout = {
	.name = BYTES("fanout"),
	.route = fanout_route,
};

const struct exchange_type exchange_type_deduplication = {
	.name = BYTES("x-message-deduplication"),
	.route = fanout_route,
};
