/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys in the store: the record of a key is in the unit of the message that brought it, so one is there after a crash
 * exactly when the other is. Who has them is said by name: what was of an earlier exchange or queue of the name went
 * with its removal, which the log has too.
 *
 * Kept are keys of durable exchanges and queues whose message was stored. A key of one that was not, as a transient
 * message or one for transient queues only, ends with the process as the message does.
 *
 * While the store is read back keys gather at their owners, whatever those are asked for: policies come last. In a
 * queue that knows what it has, those of settled messages are looked through whenever their number has doubled.
 */
#include "broker/durable.h"
#include "broker/exchange.h"
#include "broker/queue.h"
#include "broker/vhost.h"
#include "internal.h"
#include "keys.h"
#include "store/store.h"

/* ---- into the log ---- */

bool
keys_are_kept(const struct deduplication *d)
{
	if (!d->is_kept)
		return false;
	if (d->queue != NULL)
		return d->queue->log != NULL;
	return d->exchange != NULL && d->exchange->durable &&
	       d->exchange->vhost->broker->store != NULL;
}

static struct key_record
record_of(const struct deduplication *d)
{
	const struct vhost *vhost = d->queue != NULL ? d->queue->vhost : d->exchange->vhost;

	return (struct key_record){
		.owner = d->queue != NULL ? KEY_OF_QUEUE : KEY_OF_EXCHANGE,
		.flags = d->while_queued ? KEY_WHILE_QUEUED : 0,
		.vhost = vhost->name,
		.name = d->queue != NULL ? d->queue->name : d->exchange->name,
	};
}

struct stored_keys
keys_store(struct store *store, const struct route *route)
{
	struct stored_keys stored = {0, false};

	for (uint32_t i = 0; i < route->mark_count; i++) {
		const struct key_mark *mark = &route->marks[i];
		struct key_record key;

		if (!keys_are_kept(mark->of))
			continue;
		key = record_of(mark->of);
		key.value = mark->value;
		key.digest = mark->digest;
		stored.lsn = store_append_key(store, &key);
		stored.outlast |= !mark->of->while_queued;
	}
	return stored;
}

uint64_t
keys_octets(const struct route *route)
{
	uint64_t keys = route->mark_count;

	for (uint32_t i = 0; i < route->count; i++)
		keys += (route->queues[i]->flags & QUEUE_DEDUPLICATES) != 0;
	return keys * record_align(KEY_AT_NAMES + 2 * UINT8_MAX);
}

void
keys_forget(const struct deduplication *d)
{
	struct key_record key;
	struct broker *broker;

	if (!keys_are_kept(d))
		return;
	key = record_of(d);
	key.flags |= KEY_FORGET;
	broker = d->queue != NULL ? d->queue->vhost->broker : d->exchange->vhost->broker;
	broker->keys_lsn = store_append_key(broker->store, &key);
	broker->effect_lsn = broker->keys_lsn;
}

/* ---- into a checkpoint ---- */

static uint32_t
put_keys(void *context, uint8_t *p)
{
	const struct deduplication *d = context;
	const struct cached_key *key;
	uint32_t count = 0;

	for (key = key_cache_oldest(&d->keys); key != NULL;
	     key = key_cache_younger(&d->keys, key)) {
		if (!(key->flags & KEY_STORED))
			continue;
		key_saved_encode(p, key->value, key->digest);
		p += KEY_SAVED_SIZE;
		count++;
	}
	return count;
}

void
broker_snapshot_keys(const struct broker *broker, struct store *store)
{
	struct deduplication *d;

	list_for_each (&broker->deduplicating, d, struct deduplication, of_broker) {
		struct key_record of = record_of(d);

		if (!keys_are_kept(d) || d->keys.count == 0)
			continue;
		keys_prune(d);
		store_snapshot_keys(store, &of, d->keys.count, put_keys, d);
	}
}

/* ---- and back ---- */

/* Where the keys of the owner are; NULL: it has gone. */
static struct deduplication **
place_of(const struct vhost *vhost, const struct key_record *key, struct exchange **exchange,
	 struct queue **q)
{
	if (key->owner == KEY_OF_EXCHANGE) {
		*exchange = exchange_find(vhost, key->name);
		return *exchange == NULL ? NULL : &(*exchange)->deduplication;
	}
	*q = queue_find(vhost, key->name);
	if (*q == NULL || (*q)->log == NULL)
		return NULL;
	life_need(*q);
	return &(*q)->life->deduplication;
}

void
broker_apply_key(struct broker *broker, const struct key_record *key)
{
	const struct vhost *vhost = vhost_find(broker, key->vhost);
	bool while_queued = (key->flags & KEY_WHILE_QUEUED) != 0;
	struct exchange *exchange = NULL;
	struct queue *q = NULL;
	struct deduplication **place;
	struct key_mark mark = {.value = key->value};

	assert(broker->recovering);
	place = vhost == NULL ? NULL : place_of(vhost, key, &exchange, &q);
	if (place == NULL)
		return;
	if (*place != NULL && ((key->flags & KEY_FORGET) || (*place)->while_queued != while_queued))
		keys_drop(place);
	if (key->flags & KEY_FORGET)
		return;
	if (*place == NULL)
		*place = keys_new(exchange, q, while_queued);
	mark.of = *place;
	memcpy(mark.digest, key->digest, KEY_DIGEST_SIZE);
	keys_add(&mark, KEY_STORED);
}
