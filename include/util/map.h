/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map keyed by bytes, intrusive: the member embeds a map_node, which borrows the key from
 * the member. Open hashing in a power-of-two table that doubles. The hash is seeded per process, so
 * that peers cannot choose collisions. The order of iteration is undefined. One thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

struct map_node {
	struct map_node *next; // in the same slot
	struct bytes key;      // borrows from the member that embeds the node, while in the map
	uint64_t hash;
};

struct map {
	struct map_node **slots; // owns; NULL while empty
	size_t mask;		 // number of slots - 1
	size_t count;
};

void map_init(struct map *map);
/* Frees the table, not the members; the map must be empty or its members forgotten. */
void map_fini(struct map *map);
uint64_t map_hash(struct bytes key);
/* Replaces the random seed, so that a run can be repeated: for tests, before any map has a
 * member. */
void map_seed(uint64_t seed);
/* NULL when there is none. */
struct map_node *map_find(const struct map *map, struct bytes key);
/* The same with a hash that the caller has from map_hash(key). */
struct map_node *map_find_hashed(const struct map *map, struct bytes key, uint64_t hash);
/* The key must not be in the map yet; key is borrowed until map_remove. */
void map_insert(struct map *map, struct map_node *node, struct bytes key);
/* node must be in the map. */
void map_remove(struct map *map, struct map_node *node);
/* First and next member in no order, NULL at the end. Whoever removes the current member asks for
 * the next one before; nothing may be added on the way. */
struct map_node *map_first(const struct map *map);
struct map_node *map_next(const struct map *map, const struct map_node *node);

/* Walks all members; the body may remove and free the current one. */
#define map_for_each(map, item, type, member)                                                \
	for (struct map_node *item##_node = map_first(map), *item##_next;                    \
	     item##_node != NULL && (item##_next = map_next(map, item##_node),               \
				    (item) = container_of(item##_node, type, member), true); \
	     item##_node = item##_next)
