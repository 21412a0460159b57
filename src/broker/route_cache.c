/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a topic exchange leads to, by routing key. An entry is one block: the node of a map, the queues,
 * the key. All entries are of one routing version; the first one of another version drops those before.
 * So nothing is told to the cache when a binding or a queue goes, and queues that were freed are never
 * looked at.
 *
 * Keys often carry an identity and come once: remembering those costs more than it will ever spare. So
 * the first time only a trace of the key is kept, one octet in a table, and the entry is made when the
 * trace is found. The cache is bounded in keys and in octets; when it is full all is dropped, which is
 * cheaper than keeping an order. Results of many queues are not kept: giving a message to so many costs
 * more than finding them.
 */
#include "route.h"

#define CACHE_KEYS_MAX 4096
#define CACHE_BYTES_MAX ((size_t)1 << 20)
#define CACHE_QUEUES_MAX 256 // of one key
#define CACHE_TRACES 4096    // a power of two

struct route_cache {
	struct map keys;	      // struct cached_route by key; owns
	uint64_t version;	      // vhost->routing_version for which the entries hold
	size_t bytes;		      // taken by the entries
	uint8_t traces[CACHE_TRACES]; // eight bits of the hash of the key that came last
};

struct cached_route {
	struct map_node node;	// in route_cache.keys
	uint32_t count;		// of queues
	uint32_t key_size;	// octets of the key behind the queues
	struct queue *queues[]; // borrows while the version stays; the key follows
};

static size_t
cached_size(size_t queues, size_t key_size)
{
	return sizeof(struct cached_route) + queues * sizeof(struct queue *) + key_size;
}

static void
clear(struct route_cache *cache)
{
	struct cached_route *cached;

	map_for_each (&cache->keys, cached, struct cached_route, node) {
		size_t size = cached_size(cached->count, cached->key_size);

		map_remove(&cache->keys, &cached->node);
		assert(cache->bytes >= size);
		cache->bytes -= size;
		slab_free(cached, size);
	}
	assert(cache->keys.count == 0);
	assert(cache->bytes == 0);
}

bool
route_cache_get(const struct exchange *exchange, struct bytes key, uint64_t hash,
		struct route *route)
{
	const struct route_cache *cache = exchange->cache;
	const struct cached_route *cached;
	struct map_node *node;

	if (cache == NULL || cache->version != exchange->vhost->routing_version)
		return false;
	node = map_find_hashed(&cache->keys, key, hash);
	if (node == NULL)
		return false;
	cached = container_of(node, struct cached_route, node);
	while (unlikely(route->room < cached->count))
		route_grow(route);
	if (cached->count != 0)
		memcpy(route->queues, cached->queues, cached->count * sizeof(*route->queues));
	route->count = cached->count;
	route->uncacheable = false;
	return true;
}

static struct route_cache *
cache_of(struct exchange *exchange)
{
	if (exchange->cache == NULL) {
		exchange->cache = slab_alloc(sizeof(*exchange->cache));
		*exchange->cache = (struct route_cache){0};
		map_init(&exchange->cache->keys);
	}
	return exchange->cache;
}

/* Whether the key came before, as far as its trace tells; leaves it for the next time. The low bits of a
 * hash choose the place and the high ones what is kept there. */
static bool
came_before(struct route_cache *cache, uint64_t hash)
{
	uint8_t *trace = &cache->traces[hash % CACHE_TRACES];
	uint8_t wanted = (uint8_t)(hash >> 56);
	bool found = *trace == wanted;

	*trace = wanted;
	return found;
}

static void
add(struct route_cache *cache, struct bytes key, const struct route *route)
{
	size_t size = cached_size(route->count, key.n);
	struct cached_route *cached = slab_alloc(size);
	uint8_t *key_copy = (uint8_t *)&cached->queues[route->count];

	cached->count = route->count;
	cached->key_size = (uint32_t)key.n;
	if (route->count != 0)
		memcpy(cached->queues, route->queues, route->count * sizeof(*route->queues));
	if (key.n != 0)
		memcpy(key_copy, key.p, key.n);
	map_insert(&cache->keys, &cached->node, bytes_of(key_copy, key.n));
	cache->bytes += size;
}

void
route_cache_put(struct exchange *exchange, struct bytes key, uint64_t hash,
		const struct route *route)
{
	struct route_cache *cache = cache_of(exchange);
	uint64_t version = exchange->vhost->routing_version;

	assert(!route->uncacheable);
	if (route->count > CACHE_QUEUES_MAX || !came_before(cache, hash))
		return;
	if (cache->version != version || cache->keys.count == CACHE_KEYS_MAX ||
	    cache->bytes + cached_size(route->count, key.n) > CACHE_BYTES_MAX)
		clear(cache);
	cache->version = version;
	add(cache, key, route);
}

void
route_cache_drop(struct exchange *exchange)
{
	struct route_cache *cache = exchange->cache;

	if (cache == NULL)
		return;
	clear(cache);
	map_fini(&cache->keys);
	slab_free(cache, sizeof(*cache));
	exchange->cache = NULL;
}
