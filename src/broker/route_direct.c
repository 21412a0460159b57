/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The direct exchange: a hash from binding key to the bindings that have it. A key is there while it
 * has a binding. It holds a copy of the key's octets, since no binding stays longest for certain.
 */
#include "route.h"

struct direct_key {
	struct map_node node; // in exchange->keys
	struct list bindings; // struct binding.of_key, never empty
	uint32_t size;	      // octets of the key
	uint8_t octets[];     // the key
};

static struct direct_key *
find_key(const struct exchange *exchange, struct bytes key)
{
	struct map_node *node = map_find(&exchange->keys, key);

	return node == NULL ? NULL : container_of(node, struct direct_key, node);
}

static struct direct_key *
make_key(struct exchange *exchange, struct bytes key)
{
	struct direct_key *made = slab_alloc(sizeof(*made) + key.n);

	list_init(&made->bindings);
	made->size = (uint32_t)key.n;
	if (key.n != 0)
		memcpy(made->octets, key.p, key.n);
	map_insert(&exchange->keys, &made->node, bytes_of(made->octets, key.n));
	return made;
}

static void
direct_add(struct exchange *exchange, struct binding *binding)
{
	struct direct_key *place = find_key(exchange, binding->key);

	if (place == NULL)
		place = make_key(exchange, binding->key);
	list_append(&place->bindings, &binding->of_key);
	binding->place = place;
}

static void
direct_remove(struct exchange *exchange, struct binding *binding)
{
	struct direct_key *place = binding->place;

	assert(bytes_equal(place->node.key, binding->key));
	list_remove(&place->bindings, &binding->of_key);
	binding->place = NULL;
	if (!list_empty(&place->bindings))
		return;
	map_remove(&exchange->keys, &place->node);
	slab_free(place, sizeof(*place) + place->size);
}

static const struct list *
direct_with_key(const struct exchange *exchange, struct bytes key)
{
	const struct direct_key *place = find_key(exchange, key);

	return place == NULL ? NULL : &place->bindings;
}

static void
direct_route(struct exchange *exchange, struct routing *routing)
{
	const struct direct_key *place = find_key(exchange, routing->key);
	const struct binding *binding;

	if (place == NULL)
		return;
	list_for_each (&place->bindings, binding, struct binding, of_key)
		routing_add(routing, binding);
}

static void
direct_check(const struct exchange *exchange)
{
	const struct direct_key *place;
	const struct binding *binding;
	size_t count = 0;

	map_for_each (&exchange->keys, place, const struct direct_key, node) {
		assert(!list_empty(&place->bindings));
		count += place->bindings.count;
		list_for_each (&place->bindings, binding, struct binding, of_key) {
			assert(binding->place == place);
			assert(binding->source == exchange);
			assert(bytes_equal(binding->key, place->node.key));
		}
	}
	assert(count == exchange->bindings_out.count);
}

const struct exchange_type exchange_type_direct = {
	.name = BYTES("direct"),
	.by_key = true,
	.add = direct_add,
	.remove = direct_remove,
	.with_key = direct_with_key,
	.route = direct_route,
	.check = direct_check,
};
