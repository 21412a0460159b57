/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash map: an array of chains, doubled when there are more members than slots, never made
 * smaller (a map that was large once is likely to be so again, and a slot is 8 bytes). The whole
 * hash is kept in the node: it filters before bytes are compared, and doubling does not hash again.
 *
 * The hash multiplies and folds 16 bytes at a time, mixed with three random words. It is not a
 * cryptographic one; it needs only that who sends us names cannot work out which of them collide.
 *
 * Invariants: every node is in slot hash & mask; count is the number of nodes; count <= mask + 1.
 */
#include "util/map.h"

#include <sys/random.h>

#include "util/mem.h"

#define SLOTS_FIRST 8

static uint64_t seeds[3];

static RUN_AT_START void
seed_at_start(void)
{
	ssize_t got = getrandom(seeds, sizeof(seeds), 0);

	assert(got == (ssize_t)sizeof(seeds));
}

void
map_seed(uint64_t seed)
{
	for (size_t i = 0; i < countof(seeds); i++)
		seeds[i] = fold_u64(seed + i + 1, 0x9e3779b97f4a7c15) ^ 0xd1b54a32d192ed03;
}

static inline uint64_t
load_u64(const uint8_t *p)
{
	uint64_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint64_t
load_u32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

uint64_t
map_hash(struct bytes key)
{
	const uint8_t *p = key.p;
	size_t n = key.n;
	uint64_t hash = seeds[0] ^ n;
	uint64_t a = 0;
	uint64_t b = 0;

	for (; n > 16; p += 16, n -= 16)
		hash = fold_u64(load_u64(p) ^ seeds[1], load_u64(p + 8) ^ hash);
	/* The rest as two words that overlap when it is short. */
	if (n >= 8) {
		a = load_u64(p);
		b = load_u64(p + n - 8);
	} else if (n >= 4) {
		a = load_u32(p);
		b = load_u32(p + n - 4);
	} else if (n > 0) {
		a = (uint64_t)p[0] << 16 | (uint64_t)p[n / 2] << 8 | p[n - 1];
	}
	return fold_u64(fold_u64(a ^ seeds[1], b ^ hash) ^ seeds[2], 0x9e3779b97f4a7c15);
}

void
map_init(struct map *map)
{
	*map = (struct map){0};
}

void
map_fini(struct map *map)
{
	xfree(map->slots);
	*map = (struct map){0};
}

struct map_node *
map_find_hashed(const struct map *map, struct bytes key, uint64_t hash)
{
	struct map_node *node;

	if (map->count == 0)
		return NULL;
	for (node = map->slots[hash & map->mask]; node != NULL; node = node->next) {
		if (node->hash == hash && bytes_equal(node->key, key))
			return node;
	}
	return NULL;
}

struct map_node *
map_find(const struct map *map, struct bytes key)
{
	return map->count == 0 ? NULL : map_find_hashed(map, key, map_hash(key));
}

static void
put(struct map *map, struct map_node *node)
{
	struct map_node **slot = &map->slots[node->hash & map->mask];

	node->next = *slot;
	*slot = node;
}

/* Makes the first table, or one of twice the size. */
static void
grow(struct map *map)
{
	struct map_node **old = map->slots;
	size_t old_slots = old == NULL ? 0 : map->mask + 1;
	size_t slots = old == NULL ? SLOTS_FIRST : old_slots * 2;

	map->slots = xcalloc(slots, sizeof(struct map_node *));
	map->mask = slots - 1;
	for (size_t i = 0; i < old_slots; i++) {
		for (struct map_node *node = old[i], *next; node != NULL; node = next) {
			next = node->next;
			put(map, node);
		}
	}
	xfree(old);
}

void
map_insert(struct map *map, struct map_node *node, struct bytes key)
{
	node->key = key;
	node->hash = map_hash(key);
	assert(map_find_hashed(map, key, node->hash) == NULL);
	if (map->slots == NULL || map->count > map->mask)
		grow(map);
	put(map, node);
	map->count++;
}

void
map_remove(struct map *map, struct map_node *node)
{
	struct map_node **place;

	assert(map->count > 0);
	place = &map->slots[node->hash & map->mask];
	while (*place != node) {
		assert(*place != NULL);
		place = &(*place)->next;
	}
	*place = node->next;
	node->next = NULL;
	map->count--;
}

/* The first member in slot or a later one. */
static struct map_node *
first_from(const struct map *map, size_t slot)
{
	for (; slot <= map->mask; slot++) {
		if (map->slots[slot] != NULL)
			return map->slots[slot];
	}
	return NULL;
}

struct map_node *
map_first(const struct map *map)
{
	return map->count == 0 ? NULL : first_from(map, 0);
}

struct map_node *
map_next(const struct map *map, const struct map_node *node)
{
	return node->next != NULL ? node->next : first_from(map, (node->hash & map->mask) + 1);
}
