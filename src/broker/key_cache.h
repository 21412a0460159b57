/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of keys in the order in which they came, each with a number: found, added and removed in O(1), and the
 * oldest one goes when there would be more than the limit. A key takes 44 octets; there is room for the next power
 * of two, and when many have gone for eight times those that are left at most. Broker thread.
 */
#pragma once

#include "store/format.h"

enum cached_key_flag {
	KEY_STORED = 1 // the store knows it, as it knows the message
};

struct cached_key {
	uint8_t digest[KEY_DIGEST_SIZE];
	uint64_t value;	  // the caller's
	uint32_t flags;	  // enum cached_key_flag, or-ed
	uint32_t older;	  // private: index
	uint32_t younger; // private: index
	uint32_t next;	  // private: index; in the same slot, or free too
};

struct key_cache {
	struct cached_key *keys; // owns; NULL while there is none
	uint32_t *slots;	 // owns; as many as there is room for keys
	uint32_t room;		 // a power of two, or 0
	uint32_t count;
	uint32_t limit; // more than 0
	uint32_t oldest;
	uint32_t youngest;
	uint32_t free; // the first of those that were used before
	uint32_t used; // from here on nothing was
};

void key_cache_init(struct key_cache *cache, uint32_t limit);
void key_cache_fini(struct key_cache *cache);
/* What is more than that goes, the oldest first. */
void key_cache_set_limit(struct key_cache *cache, uint32_t limit);
/* NULL: it is not there. What these give is valid until the next change. */
struct cached_key *key_cache_find(const struct key_cache *cache,
				  const uint8_t digest[KEY_DIGEST_SIZE]);
struct cached_key *key_cache_oldest(const struct key_cache *cache);
/* The one that came next; NULL: it is the youngest. */
struct cached_key *key_cache_younger(const struct key_cache *cache, const struct cached_key *key);
/* Adds it as the youngest; one with this digest goes. */
void key_cache_put(struct key_cache *cache, const uint8_t digest[KEY_DIGEST_SIZE], uint64_t value,
		   uint32_t flags);
void key_cache_remove(struct key_cache *cache, struct cached_key *key);
void key_cache_remove_if(struct key_cache *cache,
			 bool (*is_useless)(void *context, const struct cached_key *key),
			 void *context);
/* The next one that is added takes more memory: a time to remove what is of no use. */
bool key_cache_is_full(const struct key_cache *cache);
/* Makes room for as many again, unless a quarter of the room is free. */
void key_cache_grow(struct key_cache *cache);
void key_cache_check(const struct key_cache *cache);
