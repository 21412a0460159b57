/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of messages: asked for, remembered, released (amqp.md 5.8).
 *
 * The key of a message is the value of one of its headers. Two are the same when their kind and value are, as in a
 * headers exchange: integers of any width are one kind, strings and binaries too; tables and arrays must be the
 * same octets. What is remembered of it is a part of a cryptographic digest, 128 bits, so that a long value takes no
 * more than a short one: two different values with the same one are not found by chance (2^24 values of one cache:
 * once in 2^81 caches) nor by work, and without a secret, so that the digests mean the same after a restart and on
 * another node.
 *
 * A cache of limited size or time says what publishers sent before: dead letters, which the broker sends, are no
 * concern of it. Without either a queue knows a key while a message with it is there, ready or unacked: whatever comes
 * to it is asked. A message that dies gives its key up first, so that its dead letter can come back.
 *
 * A key is remembered when its message was taken: not when no queue was found, or one refused it, for then its
 * publisher hears of that and may send it again.
 */
#include "keys.h"

#include "broker/message.h"
#include "internal.h"
#include "store/store.h"
#include "util/digest.h"
#include "util/owned.h"
#include "wire/cursor.h"
#include "wire/field.h"
#include "wire/props.h"

#define TTL_HEADER BYTES("x-cache-ttl")

/* ---- keys of messages ---- */

/* The value without its width. */
static struct bytes
plain_octets(const struct field *field, uint8_t room[8])
{
	double number = field->number == 0 ? 0 : field->number; // not -0
	uint64_t bits;

	switch (field->class) {
	case FIELD_BOOLEAN:
	case FIELD_INTEGER:
	case FIELD_TIMESTAMP:
		store_longlong(room, (uint64_t)field->integer);
		return bytes_of(room, 8);
	case FIELD_FLOAT:
		memcpy(&bits, &number, sizeof(bits));
		store_longlong(room, bits);
		return bytes_of(room, 8);
	case FIELD_VOID:
		return bytes_of(NULL, 0);
	default:
		return field->bytes;
	}
}

static void
digest_of(const struct field *field, uint8_t digest_of[KEY_DIGEST_SIZE])
{
	static const char kinds[] = {
		[FIELD_BOOLEAN] = 't', [FIELD_INTEGER] = 'l', [FIELD_FLOAT] = 'd',
		[FIELD_DECIMAL] = 'D', [FIELD_STRING] = 'S',  [FIELD_TIMESTAMP] = 'T',
		[FIELD_TABLE] = 'F',   [FIELD_ARRAY] = 'A',   [FIELD_VOID] = 'V',
	};
	uint8_t room[8];
	uint8_t whole[DIGEST_MAX];

	/* the letters stand for kinds in the store, so they stay */
	digest(DIGEST_SHA256, bytes_of(&kinds[field->class], 1), plain_octets(field, room), whole);
	memcpy(digest_of, whole, KEY_DIGEST_SIZE);
}

static struct bytes
headers_of(const struct message *m)
{
	struct basic_properties properties;
	bool well = properties_decode(&properties, message_properties(m));

	/* it was decoded before it was taken */
	assert(well);
	return properties.headers;
}

static bool
find_key(const struct deduplication *d, struct bytes headers, uint8_t digest[KEY_DIGEST_SIZE])
{
	struct field field;

	if (headers.n == 0 || !table_find(headers, d->header, &field))
		return false;
	digest_of(&field, digest);
	return true;
}

/* ---- what is known ---- */

static struct broker *
broker_of(const struct deduplication *d)
{
	return d->exchange != NULL ? d->exchange->vhost->broker : d->queue->vhost->broker;
}

/* A queue is known by its whole, a message in it by the part that has it and its number there. */

#define PLACE_PART_SHIFT 48

static struct queue *
whole_of(struct queue *q)
{
	return (q->flags & QUEUE_PART) && q->life->part->of_queue != NULL ? q->life->part->of_queue
									  : q;
}

static uint64_t
place_of(const struct queue *q, uint64_t qseq)
{
	uint64_t part = q->flags & QUEUE_PART ? q->life->part->number : 0;

	return part << PLACE_PART_SHIFT | qseq;
}

/* Messages may leave the store's part of a queue without being looked at. */
static bool
has_left(struct queue *q, uint64_t place)
{
	uint32_t number = (uint32_t)(place >> PLACE_PART_SHIFT);
	uint64_t qseq = place & QSEQ_MAX;

	if (number != 0)
		q = part_find((struct part_owner){.queue = q}, number);
	return q == NULL || (q->log != NULL && qseq_set_has(&q->log->settled, qseq));
}

static bool
is_over(void *context, const struct cached_key *key)
{
	const struct deduplication *d = context;

	if (d->while_queued)
		return has_left(d->queue, key->value);
	return key->value != 0 && key->value <= broker_of(d)->now.wall_ms;
}

void
keys_prune(struct deduplication *d)
{
	key_cache_remove_if(&d->keys, is_over, d);
}

static bool
knows(struct deduplication *d, const uint8_t digest[KEY_DIGEST_SIZE])
{
	struct cached_key *key = key_cache_find(&d->keys, digest);

	return key != NULL && !is_over(d, key);
}

/* When a key that comes now is forgotten; false: at once. */
static bool
end_of(const struct deduplication *d, struct bytes headers, uint64_t *end)
{
	uint64_t now = broker_of(d)->now.wall_ms;
	uint64_t ttl = d->ttl_ms;
	struct field field;

	if (table_find(headers, TTL_HEADER, &field) && field.class == FIELD_INTEGER) {
		if (field.integer <= 0)
			return false;
		ttl = (uint64_t)field.integer;
	}
	/* what does not end before the clock does never ends */
	*end = ttl > INT64_MAX - now ? 0 : now + ttl;
	return true;
}

enum key_answer
keys_ask(struct deduplication *d, const struct message *m, struct key_mark *mark)
{
	struct bytes headers = headers_of(m);

	*mark = (struct key_mark){.of = d};
	if (!find_key(d, headers, mark->digest))
		return KEY_NONE;
	if (knows(d, mark->digest)) {
		d->duplicates++;
		return KEY_KNOWN;
	}
	/* in a queue it will have a place */
	if (!d->while_queued && !end_of(d, headers, &mark->value))
		return KEY_NONE;
	return KEY_NEW;
}

enum key_answer
keys_ask_queue(struct queue *q, const struct message *m, struct key_mark *mark)
{
	struct deduplication *d = q->life->deduplication;

	if (!d->while_queued && (m->flags & MESSAGE_HAS_DEATHS))
		return KEY_NONE;
	return keys_ask(d, m, mark);
}

bool
keys_admit(struct exchange *exchange, struct routing *routing)
{
	struct key_mark mark;
	enum key_answer answer;

	/* others come this way with other keys */
	routing->route->uncacheable = true;
	if (!routing->asks)
		return true;
	answer = keys_ask(exchange->deduplication, routing->message, &mark);
	mark.is_start = exchange == routing->start;
	if (answer == KEY_NEW)
		route_add_mark(routing->route, &mark);
	routing->route->is_duplicate |= answer == KEY_KNOWN;
	return answer != KEY_KNOWN;
}

/* ---- marks ---- */

static void
unref(struct deduplication *d)
{
	assert(d->refs > 0);
	if (--d->refs > 0)
		return;
	key_cache_fini(&d->keys);
	bytes_drop(&d->header);
	xfree(d);
}

void
route_add_mark(struct route *route, const struct key_mark *mark)
{
	if (route->mark_count == route->mark_room) {
		route->mark_room = route->mark_room == 0 ? 2 : 2 * route->mark_room;
		route->marks = xrealloc(route->marks, route->mark_room * sizeof(*mark));
	}
	route->marks[route->mark_count++] = *mark;
	mark->of->refs++;
}

void
route_copy_marks(struct route *to, const struct route *from)
{
	for (uint32_t i = 0; i < from->mark_count; i++)
		route_add_mark(to, &from->marks[i]);
}

void
route_drop_marks(struct route *route)
{
	while (route->mark_count > 0)
		unref(route->marks[--route->mark_count].of);
}

void
route_give_marks(struct route *from, struct route *to)
{
	route_drop_marks(to);
	xfree(to->marks);
	to->marks = from->marks;
	to->mark_count = from->mark_count;
	to->mark_room = from->mark_room;
	to->is_duplicate = from->is_duplicate;
	from->marks = NULL;
	from->mark_count = from->mark_room = 0;
	from->is_duplicate = false;
}

static bool
has_owner(const struct deduplication *d)
{
	return d->exchange != NULL || d->queue != NULL;
}

void
route_look_again(struct route *route)
{
	for (uint32_t i = 0; i < route->mark_count; i++) {
		const struct key_mark *mark = &route->marks[i];

		if (!mark->is_start || !has_owner(mark->of) || !knows(mark->of, mark->digest))
			continue;
		mark->of->duplicates++;
		route->count = 0;
		route->is_duplicate = true;
		route_drop_marks(route);
		return;
	}
}

void
keys_place(const struct route *route)
{
	for (uint32_t i = 0; i < route->mark_count; i++) {
		struct key_mark *mark = &route->marks[i];

		for (uint32_t n = 0; mark->of->while_queued && n < route->count; n++)
			if (whole_of(route->queues[n]) == mark->of->queue)
				mark->value =
					place_of(route->queues[n], route->queues[n]->next_qseq);
	}
}

void
keys_move(struct route *route, const struct message *m)
{
	struct queue *q = route->queues[0];
	struct key_mark mark = {.is_start = false};

	if (!(q->flags & QUEUE_HOLDS_KEYS))
		return;
	mark.of = whole_of(q)->life->deduplication;
	if (!find_key(mark.of, headers_of(m), mark.digest))
		return;
	route_add_mark(route, &mark);
	keys_place(route);
}

void
keys_add(const struct key_mark *mark, uint32_t flags)
{
	struct deduplication *d = mark->of;

	/* what is of no use makes room before memory is taken */
	if (key_cache_is_full(&d->keys)) {
		keys_prune(d);
		key_cache_grow(&d->keys);
	}
	key_cache_put(&d->keys, mark->digest, mark->value, flags);
}

void
keys_note(const struct route *route, const struct message *m)
{
	for (uint32_t i = 0; i < route->mark_count; i++) {
		const struct key_mark *mark = &route->marks[i];

		if (has_owner(mark->of))
			keys_add(mark,
				 message_is_stored(m) && keys_are_kept(mark->of) ? KEY_STORED : 0);
	}
}

uint64_t
duplicate_lsn(struct broker *broker)
{
	broker->effect_lsn = max_u64(broker->effect_lsn, broker->keys_lsn);
	return broker->keys_lsn;
}

/* ---- life ---- */

void
keys_release(struct queue *q, const struct entry *entry)
{
	struct deduplication *d = whole_of(q)->life->deduplication;
	uint8_t digest[KEY_DIGEST_SIZE];
	struct cached_key *key;

	assert(d->while_queued);
	if (d->keys.count == 0 || !find_key(d, headers_of(entry->message), digest))
		return;
	key = key_cache_find(&d->keys, digest);
	/* another message may have it: a duplicate that came before this queue was asked, for one */
	if (key != NULL && key->value == place_of(q, entry_qseq(entry)))
		key_cache_remove(&d->keys, key);
}

struct deduplication *
keys_new(struct exchange *exchange, struct queue *q, bool while_queued)
{
	struct deduplication *d = xcalloc(1, sizeof(*d));

	assert((exchange == NULL) != (q == NULL));
	assert(!while_queued || q != NULL);
	d->exchange = exchange;
	d->queue = q;
	d->refs = 1;
	d->while_queued = while_queued;
	d->ttl_ms = UINT64_MAX;
	key_cache_init(&d->keys, UINT32_MAX);
	list_append(&broker_of(d)->deduplicating, &d->of_broker);
	return d;
}

void
keys_drop(struct deduplication **deduplication)
{
	struct deduplication *d = *deduplication;

	if (d == NULL)
		return;
	*deduplication = NULL;
	list_remove(&broker_of(d)->deduplicating, &d->of_broker);
	d->exchange = NULL;
	d->queue = NULL;
	unref(d);
}

static struct deduplication_state
state_of(const struct deduplication *d)
{
	if (d == NULL)
		return (struct deduplication_state){0};
	return (struct deduplication_state){
		.is_on = true,
		.while_queued = d->while_queued,
		.size = d->while_queued ? 0 : d->keys.limit,
		.count = d->keys.count,
		.duplicates = d->duplicates,
	};
}

struct deduplication_state
exchange_deduplication(const struct exchange *exchange)
{
	return state_of(exchange->deduplication);
}

struct deduplication_state
queue_deduplication(const struct queue *q)
{
	return state_of(q->life == NULL ? NULL : q->life->deduplication);
}

void
keys_check(const struct deduplication *d)
{
	if (d == NULL)
		return;
	assert(d->is_claimed);
	assert(d->refs > 0);
	assert(d->header.n > 0);
	key_cache_check(&d->keys);
}
