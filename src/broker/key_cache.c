/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys are an array; two lists run through it by index, one in the order of age and one for each slot of the
 * hash table. Which slot that is depends on a seed of this process, so that who chooses the keys cannot fill one
 * slot. When the array is full, or nearly empty, everything moves to another one in the order of age.
 */
#include "key_cache.h"

#include "util/map.h"
#include "util/mem.h"

#define NONE UINT32_MAX
#define ROOM_FIRST 16
#define ROOM_KEPT 64 // it is kept when nothing is left

static uint32_t *
slot_of(const struct key_cache *cache, const uint8_t digest[KEY_DIGEST_SIZE])
{
	return &cache->slots[map_hash(bytes_of(digest, KEY_DIGEST_SIZE)) & (cache->room - 1)];
}

static uint32_t
index_of(const struct key_cache *cache, const struct cached_key *key)
{
	return (uint32_t)(key - cache->keys);
}

static struct cached_key *
key_at(const struct key_cache *cache, uint32_t index)
{
	return index == NONE ? NULL : &cache->keys[index];
}

void
key_cache_init(struct key_cache *cache, uint32_t limit)
{
	assert(limit > 0);
	*cache = (struct key_cache){.limit = limit, .oldest = NONE, .youngest = NONE, .free = NONE};
}

void
key_cache_fini(struct key_cache *cache)
{
	xfree(cache->keys);
	xfree(cache->slots);
	*cache = (struct key_cache){0};
}

/* There is room. */
static void
append(struct key_cache *cache, const struct cached_key *new)
{
	uint32_t *slot = slot_of(cache, new->digest);
	uint32_t index = cache->free != NONE ? cache->free : cache->used++;
	struct cached_key *key = &cache->keys[index];

	assert(index < cache->room);
	if (cache->free != NONE)
		cache->free = key->next;
	*key = *new;
	key->older = cache->youngest;
	key->younger = NONE;
	key->next = *slot;
	*slot = index;
	if (cache->youngest != NONE)
		cache->keys[cache->youngest].younger = index;
	else
		cache->oldest = index;
	cache->youngest = index;
	cache->count++;
}

static void
move(struct key_cache *cache, uint32_t room)
{
	struct key_cache old = *cache;
	const struct cached_key *key;

	assert(room >= old.count);
	key_cache_init(cache, old.limit);
	cache->room = room;
	cache->keys = xmalloc(room * sizeof(*cache->keys));
	cache->slots = xmalloc(room * sizeof(*cache->slots));
	memset(cache->slots, 0xff, room * sizeof(*cache->slots));
	for (key = key_cache_oldest(&old); key != NULL; key = key_cache_younger(&old, key))
		append(cache, key);
	key_cache_fini(&old);
}

struct cached_key *
key_cache_find(const struct key_cache *cache, const uint8_t digest[KEY_DIGEST_SIZE])
{
	uint32_t index;

	if (cache->count == 0)
		return NULL;
	index = *slot_of(cache, digest);
	while (index != NONE && memcmp(cache->keys[index].digest, digest, KEY_DIGEST_SIZE) != 0)
		index = cache->keys[index].next;
	return key_at(cache, index);
}

struct cached_key *
key_cache_oldest(const struct key_cache *cache)
{
	return key_at(cache, cache->oldest);
}

struct cached_key *
key_cache_younger(const struct key_cache *cache, const struct cached_key *key)
{
	return key_at(cache, key->younger);
}

static void
take_off(struct key_cache *cache, struct cached_key *key)
{
	uint32_t index = index_of(cache, key);
	uint32_t *link = slot_of(cache, key->digest);

	while (*link != index)
		link = &cache->keys[*link].next;
	*link = key->next;
	if (key->older != NONE)
		cache->keys[key->older].younger = key->younger;
	else
		cache->oldest = key->younger;
	if (key->younger != NONE)
		cache->keys[key->younger].older = key->older;
	else
		cache->youngest = key->older;
	key->next = cache->free;
	cache->free = index;
	cache->count--;
}

/* Gives back memory when most of the room is free. */
static void
shrink(struct key_cache *cache)
{
	uint32_t room = cache->room;

	while (room > ROOM_KEPT && cache->count < room / 8)
		room /= 2;
	if (room < cache->room)
		move(cache, room);
}

void
key_cache_remove(struct key_cache *cache, struct cached_key *key)
{
	take_off(cache, key);
	shrink(cache);
}

void
key_cache_remove_if(struct key_cache *cache,
		    bool (*is_useless)(void *context, const struct cached_key *key), void *context)
{
	struct cached_key *key = key_cache_oldest(cache);

	while (key != NULL) {
		struct cached_key *younger = key_cache_younger(cache, key);

		if (is_useless(context, key))
			take_off(cache, key);
		key = younger;
	}
	shrink(cache);
}

void
key_cache_set_limit(struct key_cache *cache, uint32_t limit)
{
	assert(limit > 0);
	cache->limit = limit;
	while (cache->count > limit)
		take_off(cache, key_cache_oldest(cache));
	shrink(cache);
}

bool
key_cache_is_full(const struct key_cache *cache)
{
	return cache->count == cache->room && cache->count < cache->limit;
}

void
key_cache_grow(struct key_cache *cache)
{
	if (cache->room == 0)
		move(cache, ROOM_FIRST);
	else if (cache->count > cache->room / 4 * 3)
		move(cache, cache->room * 2);
}

void
key_cache_put(struct key_cache *cache, const uint8_t digest[KEY_DIGEST_SIZE], uint64_t value,
	      uint32_t flags)
{
	struct cached_key new = {.value = value, .flags = flags};
	struct cached_key *old = key_cache_find(cache, digest);

	memcpy(new.digest, digest, KEY_DIGEST_SIZE);
	if (old == NULL && cache->count == cache->limit)
		old = key_cache_oldest(cache);
	/* not removed as others are: nothing moves for one that is replaced */
	if (old != NULL)
		take_off(cache, old);
	if (cache->count == cache->room)
		key_cache_grow(cache);
	append(cache, &new);
}

void
key_cache_check(const struct key_cache *cache)
{
	const struct cached_key *key;
	uint32_t older = NONE;
	uint32_t count = 0;

	assert(cache->count <= cache->limit);
	assert(cache->count <= cache->room);
	assert((cache->count == 0) == (cache->oldest == NONE));
	for (key = key_cache_oldest(cache); key != NULL; key = key_cache_younger(cache, key)) {
		assert(key->older == older);
		assert(key_cache_find(cache, key->digest) == key);
		older = index_of(cache, key);
		count++;
	}
	assert(cache->youngest == older);
	assert(count == cache->count);
}
