/* SPDX-License-Identifier: Apache-2.0 */
/* Records of keys into state: what broker/durable_keys.c does at a start. */
#include "image.h"

#include "util/buf.h"
#include "util/mem.h"
#include "util/owned.h"

static void
make_name_key(struct buf *key, enum key_owner owner, struct bytes vhost, struct bytes name)
{
	buf_add_byte(key, (uint8_t)owner);
	buf_add_byte(key, (uint8_t)vhost.n);
	buf_add_bytes(key, vhost);
	buf_add_bytes(key, name);
}

static struct image_keys *
find(const struct map *all, enum key_owner owner, struct bytes vhost, struct bytes name)
{
	struct map_node *node;
	struct buf key;

	buf_init(&key, 0);
	make_name_key(&key, owner, vhost, name);
	node = map_find(all, buf_bytes(&key));
	buf_fini(&key);
	return node == NULL ? NULL : container_of(node, struct image_keys, by_owner);
}

static struct image_keys *
add(struct map *all, const struct key_record *key)
{
	struct image_keys *keys = xcalloc(1, sizeof(*keys));
	struct buf name_key;
	size_t vhost_n = key->vhost.n;

	buf_init(&name_key, 0);
	make_name_key(&name_key, key->owner, key->vhost, key->name);
	keys->name_key = bytes_dup(buf_bytes(&name_key));
	buf_fini(&name_key);
	keys->of = (struct key_record){
		.owner = key->owner,
		.flags = key->flags,
		.vhost = bytes_of(keys->name_key.p + 2, vhost_n),
		.name = bytes_of(keys->name_key.p + 2 + vhost_n, keys->name_key.n - 2 - vhost_n),
	};
	map_init(&keys->keys);
	list_init(&keys->order);
	map_insert(all, &keys->by_owner, keys->name_key);
	return keys;
}

static void
drop(struct map *all, struct image_keys *keys)
{
	struct image_key *key;

	map_for_each (&keys->keys, key, struct image_key, by_digest) {
		map_remove(&keys->keys, &key->by_digest);
		xfree(key);
	}
	map_fini(&keys->keys);
	map_remove(all, &keys->by_owner);
	bytes_drop(&keys->name_key);
	xfree(keys);
}

void
image_keys_take(struct map *all, const struct key_record *record)
{
	struct image_keys *keys = find(all, record->owner, record->vhost, record->name);
	struct bytes digest = bytes_of(record->digest, KEY_DIGEST_SIZE);
	struct map_node *node;
	struct image_key *key;

	if (keys != NULL && ((record->flags & KEY_FORGET) || keys->of.flags != record->flags)) {
		drop(all, keys);
		keys = NULL;
	}
	if (record->flags & KEY_FORGET)
		return;
	if (keys == NULL)
		keys = add(all, record);
	node = map_find(&keys->keys, digest);
	if (node != NULL) {
		key = container_of(node, struct image_key, by_digest);
		list_remove(&keys->order, &key->in_order);
	} else {
		key = xcalloc(1, sizeof(*key));
		memcpy(key->digest, record->digest, KEY_DIGEST_SIZE);
		map_insert(&keys->keys, &key->by_digest, bytes_of(key->digest, KEY_DIGEST_SIZE));
	}
	key->value = record->value;
	list_append(&keys->order, &key->in_order);
}

void
image_keys_drop(struct map *all, enum key_owner owner, struct bytes vhost, struct bytes name)
{
	struct image_keys *keys = NULL;

	if (name.n != 0) {
		keys = find(all, owner, vhost, name);
		if (keys != NULL)
			drop(all, keys);
		return;
	}
	map_for_each (all, keys, struct image_keys, by_owner)
		if (bytes_equal(keys->of.vhost, vhost))
			drop(all, keys);
}

void
image_keys_fini(struct map *all)
{
	struct image_keys *keys;

	map_for_each (all, keys, struct image_keys, by_owner)
		drop(all, keys);
	map_fini(all);
}

/* ---- messages that have keys ---- */

static struct bytes
place_bytes(const uint64_t place[2])
{
	return bytes_of((const uint8_t *)place, 2 * sizeof(*place));
}

/* Those of the keys whose messages are in this queue, or part. */
static void
find_places(struct image_keys *keys, const struct image_queue *q, struct map *places)
{
	struct image_key *key;

	map_for_each (&keys->keys, key, struct image_key, by_digest) {
		uint64_t qseq = key->value & QSEQ_MAX;

		if (key->value >> 48 != (q->is_part ? q->part : 0) ||
		    qseq_set_has(&q->settled, qseq))
			continue;
		key->place[0] = q->id;
		key->place[1] = qseq;
		if (map_find(places, place_bytes(key->place)) == NULL)
			map_insert(places, &key->by_place, place_bytes(key->place));
	}
}

void
image_keys_find_places(const struct image *image, struct map *places)
{
	const struct image_queue *q;

	map_for_each (&image->queues, q, const struct image_queue, by_id) {
		struct image_keys *keys;

		if (q->removed || !q->is_named || q->of_exchange)
			continue;
		keys = find(&image->keys, KEY_OF_QUEUE, q->vhost, q->name);
		if (keys != NULL && (keys->of.flags & KEY_WHILE_QUEUED))
			find_places(keys, q, places);
	}
}

struct image_key *
image_keys_at(const struct map *places, uint64_t queue_id, uint64_t qseq)
{
	const uint64_t place[2] = {queue_id, qseq};
	struct map_node *node = map_find(places, place_bytes(place));

	return node == NULL ? NULL : container_of(node, struct image_key, by_place);
}
