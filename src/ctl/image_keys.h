/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of exchanges and queues that deduplicate, as a log leads to them: what a start takes in, before it knows how many
 * of them its broker is asked to remember.
 */
#pragma once

#include "store/record.h"
#include "util/list.h"
#include "util/map.h"

struct image;

struct image_key {
	struct map_node by_digest;
	struct list_link in_order;
	uint8_t digest[KEY_DIGEST_SIZE];
	uint64_t value;
	/* of those that count while their message is queued, and it is (image_keys_find_places()) */
	struct map_node by_place;
	uint64_t place[2]; // id of the queue, or part, and number of the message
	bool moved;	   // the tools' own
};

/* Those of one exchange or queue. */
struct image_keys {
	struct map_node by_owner;
	struct bytes name_key; // owns
	struct key_record of;  // whose; views of name_key
	struct map keys;       // struct image_key.by_digest; owns
	struct list order;     // struct image_key.in_order; the oldest first
};

/* Takes a key into a map of struct image_keys.by_owner. */
void image_keys_take(struct map *all, const struct key_record *key);
/* The exchange or queue is removed, or with an empty name the vhost. */
void image_keys_drop(struct map *all, enum key_owner owner, struct bytes vhost, struct bytes name);
void image_keys_fini(struct map *all);
/* Finds where the messages are whose keys count while they are queued: struct image_key.by_place into places. Others
 * of those are not in it, as their messages are settled. */
void image_keys_find_places(const struct image *image, struct map *places);
/* NULL: the message has no key that counts so. */
struct image_key *image_keys_at(const struct map *places, uint64_t queue_id, uint64_t qseq);
