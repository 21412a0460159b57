/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records into state. It is what recovery does (store) and what the model does with definitions
 * (broker), without either: no tool must need the program that it examines.
 */
#include "image.h"

#include <stdio.h>
#include <stdlib.h>

#include "util/mem.h"

#include "ctl.h"

void
image_init(struct image *image)
{
	*image = (struct image){.steps = 0};
	map_init(&image->definitions);
	map_init(&image->queues);
	map_init(&image->keys);
}

static void
free_bytes(struct bytes *bytes)
{
	/* own octets, which nobody else looks at */
	union {
		const uint8_t *view;
		void *p;
	} octets = {.view = bytes->p};

	xfree(octets.p);
	*bytes = bytes_of(NULL, 0);
}

static void
set_bytes(struct bytes *bytes, struct bytes value)
{
	free_bytes(bytes);
	*bytes = bytes_of(xmemdup(value.p, value.n), value.n);
}

void
image_fini(struct image *image)
{
	struct image_definition *d;
	struct image_queue *q;

	map_for_each (&image->definitions, d, struct image_definition, by_key) {
		map_remove(&image->definitions, &d->by_key);
		free_bytes(&d->key);
		free_bytes(&d->octets);
		xfree(d);
	}
	map_for_each (&image->queues, q, struct image_queue, by_id) {
		map_remove(&image->queues, &q->by_id);
		free_bytes(&q->vhost);
		free_bytes(&q->name);
		qseq_set_fini(&q->settled);
		qseq_counts_fini(&q->returns);
		xfree(q);
	}
	map_fini(&image->definitions);
	map_fini(&image->queues);
	image_keys_fini(&image->keys);
}

/* ---- definitions ---- */

static void
add_part(struct buf *key, struct bytes part)
{
	uint8_t size[8];

	le64_store(size, part.n);
	buf_add(key, size, sizeof(size));
	buf_add_bytes(key, part);
}

/* What names a thing: kind, and the members that tell it from others of its kind. */
static void
make_key(struct buf *key, const struct definition *d)
{
	buf_add_byte(key, (uint8_t)d->kind);
	add_part(key, d->vhost);
	add_part(key, d->name);
	add_part(key, d->user);
	add_part(key, d->exchange);
	if (d->kind == DEFINITION_PART) {
		uint8_t part[8];

		buf_add_byte(key, (d->flags & DEFINITION_OF_EXCHANGE) != 0);
		le64_store(part, d->part);
		buf_add(key, part, sizeof(part));
	}
	if (d->kind != DEFINITION_BINDING)
		return;
	add_part(key, d->source);
	add_part(key, d->destination);
	add_part(key, d->key);
	add_part(key, d->arguments);
	buf_add_byte(key, (d->flags & DEFINITION_TO_EXCHANGE) != 0);
}

static struct image_definition *
find(const struct image *image, const struct definition *names)
{
	struct map_node *node;
	struct buf key;

	buf_init(&key, 0);
	make_key(&key, names);
	node = map_find(&image->definitions, buf_bytes(&key));
	buf_fini(&key);
	return node == NULL ? NULL : container_of(node, struct image_definition, by_key);
}

static struct image_definition *
find_or_add(struct image *image, const struct definition *names)
{
	struct image_definition *d = find(image, names);
	struct buf key;

	if (d != NULL)
		return d;
	d = xcalloc(1, sizeof(*d));
	buf_init(&key, 0);
	make_key(&key, names);
	set_bytes(&d->key, buf_bytes(&key));
	buf_fini(&key);
	map_insert(&image->definitions, &d->by_key, d->key);
	return d;
}

static void
keep_octets(struct image_definition *d, const struct definition *definition)
{
	size_t size = definition_size(definition);
	uint8_t *octets = xmalloc(size);
	int error;

	definition_encode(octets, definition);
	free_bytes(&d->octets);
	d->octets = bytes_of(octets, size);
	error = definition_decode(&d->definition, d->octets);
	assert(error == 0);
}

/* Whether a thing that this one stands on was removed since this one was put. */
static bool
lost_ground(const struct image *image, const struct image_definition *d, struct definition ground)
{
	const struct image_definition *below = find(image, &ground);

	return below != NULL && below->removed_at > d->put_at;
}

bool
image_has(const struct image *image, const struct image_definition *d)
{
	const struct definition *is = &d->definition;
	bool to_exchange = (is->flags & DEFINITION_TO_EXCHANGE) != 0;

	if (!d->is_put)
		return false;
	if (is->vhost.n != 0 &&
	    lost_ground(image, d, (struct definition){.kind = DEFINITION_VHOST, .name = is->vhost}))
		return false;
	if (is->user.n != 0 &&
	    lost_ground(image, d, (struct definition){.kind = DEFINITION_USER, .name = is->user}))
		return false;
	if (is->kind == DEFINITION_PART)
		return !lost_ground(image, d,
				    (struct definition){.kind = is->flags & DEFINITION_OF_EXCHANGE
									? DEFINITION_EXCHANGE
									: DEFINITION_QUEUE,
							.vhost = is->vhost,
							.name = is->name});
	if (is->kind != DEFINITION_BINDING)
		return true;
	return !lost_ground(image, d,
			    (struct definition){.kind = DEFINITION_EXCHANGE,
						.vhost = is->vhost,
						.name = is->source}) &&
	       !lost_ground(image, d,
			    (struct definition){.kind = to_exchange ? DEFINITION_EXCHANGE
								    : DEFINITION_QUEUE,
						.vhost = is->vhost,
						.name = is->destination});
}

static int
in_order(const void *a, const void *b)
{
	const struct image_definition *x = *(const struct image_definition *const *)a;
	const struct image_definition *y = *(const struct image_definition *const *)b;

	/* the key begins with the kind, and each kind stands on lower ones only */
	return bytes_compare(x->key, y->key);
}

const struct image_definition **
image_list(const struct image *image, size_t *count)
{
	const struct image_definition **list = xcalloc(image->definitions.count + 1, sizeof(*list));
	struct image_definition *d;

	*count = 0;
	map_for_each (&image->definitions, d, struct image_definition, by_key)
		if (image_has(image, d))
			list[(*count)++] = d;
	if (*count > 0)
		qsort(list, *count, sizeof(*list), in_order);
	return list;
}

/* ---- queues ---- */

struct image_queue *
image_queue(const struct image *image, uint64_t id)
{
	struct map_node *node = map_find(&image->queues, bytes_of(&id, sizeof(id)));

	return node == NULL ? NULL : container_of(node, struct image_queue, by_id);
}

const char *
image_queue_name(struct ctl_name *room, const struct image_queue *q)
{
	size_t n = strlen(ctl_name(room, q->name));

	if (q->is_part)
		(void)snprintf(room->text + n, sizeof(room->text) - n, " part %llu",
			       (unsigned long long)q->part);
	return room->text;
}

static struct image_queue *
add_queue(struct image *image, uint64_t id)
{
	struct image_queue *q = xcalloc(1, sizeof(*q));

	*q = (struct image_queue){.id = id, .next_qseq = 1};
	qseq_set_init(&q->settled);
	map_insert(&image->queues, &q->by_id, bytes_of(&q->id, sizeof(q->id)));
	return q;
}

static void
define_queue(struct image *image, const struct definition *definition)
{
	struct image_queue *q = image_queue(image, definition->queue_id);

	if (q == NULL)
		q = add_queue(image, definition->queue_id);
	set_bytes(&q->vhost, definition->vhost);
	set_bytes(&q->name, definition->name);
	q->is_named = true;
	q->removed = definition->removed;
	q->is_part = definition->kind == DEFINITION_PART;
	q->of_exchange = (definition->flags & DEFINITION_OF_EXCHANGE) != 0;
	q->part = definition->part;
}

/* Keys go with whose they are. */
static void
drop_keys(struct image *image, const struct definition *removed)
{
	if (removed->kind == DEFINITION_VHOST)
		image_keys_drop(&image->keys, KEY_OF_QUEUE, removed->name, bytes_of(NULL, 0));
	else if (removed->kind == DEFINITION_EXCHANGE)
		image_keys_drop(&image->keys, KEY_OF_EXCHANGE, removed->vhost, removed->name);
	else if (removed->kind == DEFINITION_QUEUE)
		image_keys_drop(&image->keys, KEY_OF_QUEUE, removed->vhost, removed->name);
}

static void
define(struct image *image, const struct definition *definition)
{
	struct image_definition *d = find_or_add(image, definition);

	image->steps++;
	keep_octets(d, definition);
	d->is_put = !definition->removed;
	if (definition->removed) {
		d->removed_at = image->steps;
		drop_keys(image, definition);
	} else {
		d->put_at = image->steps;
	}
	if (definition_has_queue(definition))
		define_queue(image, definition);
}

/* ---- checkpoints ---- */

static void
on_define(void *context, const struct definition *definition)
{
	define(context, definition);
}

static void
on_queue(void *context, struct inspect_queue *from)
{
	struct image_queue *q = image_queue(context, from->id);

	if (q == NULL) {
		qseq_set_fini(&from->settled);
		return;
	}
	qseq_set_fini(&q->settled);
	q->settled = from->settled;
	q->next_qseq = from->next_qseq;
	q->flags = from->flags;
	q->count = from->count;
	q->octets = from->octets;
	q->redelivered_below = from->redelivered_below;
}

static void
take_count(struct image *image, const struct return_count *count)
{
	struct image_queue *q = image_queue(image, count->queue_id);

	if (q != NULL && !q->removed && !qseq_set_has(&q->settled, count->qseq))
		qseq_counts_set(&q->returns, count->qseq, count->count);
}

static void
on_returned(void *context, const struct return_count *count)
{
	take_count(context, count);
}

static void
on_key(void *context, const struct key_record *key)
{
	struct image *image = context;

	image_keys_take(&image->keys, key);
}

static void
on_segment(void *context, const struct inspect_segment_state *segment)
{
	struct image *image = context;

	image->live_refs += segment->live_refs;
}

static void
on_chain(void *context, const struct inspect_chain *chain)
{
	struct image *image = context;

	image->chain = *chain;
}

int
image_load(struct image *image, struct inspect *inspect, uint64_t lsn)
{
	static const struct inspect_checkpoint_ops ops = {
		.define = on_define,
		.queue = on_queue,
		.returned = on_returned,
		.key = on_key,
		.segment = on_segment,
		.chain = on_chain,
	};
	int error;

	image_fini(image);
	image_init(image);
	error = inspect_checkpoint(inspect, lsn, &ops, image);
	if (error == 0) {
		image->lsn = lsn;
		return 0;
	}
	image_fini(image);
	image_init(image);
	return error;
}

/* ---- records ---- */

struct taking {
	struct image *image;
	const char *contradiction; // NULL: none
};

static int
take_mark(void *context, const struct ack_mark *mark)
{
	struct taking *taking = context;
	struct image_queue *q = image_queue(taking->image, mark->queue_id);
	uint64_t settled;

	if (q == NULL || q->removed)
		return 0;
	settled = qseq_set_add(&q->settled, mark->first, mark->count);
	if (settled != mark->count)
		taking->contradiction = "messages are settled that were settled before";
	else if (q->count < mark->count || q->octets < mark->octets)
		taking->contradiction = "messages are settled that are not there";
	q->next_qseq = max_u64(q->next_qseq, mark->first + mark->count);
	q->count -= min_u64(q->count, settled);
	q->octets -= min_u64(q->octets, mark->octets);
	qseq_counts_remove(&q->returns, mark->first, mark->count);
	return 0;
}

static int
take_return(void *context, const struct return_count *count)
{
	const struct taking *taking = context;

	take_count(taking->image, count);
	return 0;
}

static void
take_message(struct image *image, const struct record *record)
{
	struct message_record message;

	if (message_record_decode(&message, record) != 0)
		return;
	for (uint32_t i = 0; i < message.ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(message.refs + (size_t)i * MESSAGE_REF_SIZE);
		struct image_queue *q = image_queue(image, ref.queue_id);

		/* its definition may be among what is lost */
		if (q == NULL)
			q = add_queue(image, ref.queue_id);
		q->next_qseq = max_u64(q->next_qseq, ref.qseq + 1);
		q->count++;
		q->octets += message.body.n;
	}
}

static const char *
take_purge(struct image *image, const struct record *record)
{
	struct purge_record purge;
	struct image_queue *q;
	const char *contradiction = NULL;

	if (purge_record_decode(&purge, record) != 0)
		return "its purge cannot be read";
	q = image_queue(image, purge.queue_id);
	if (q == NULL || q->removed)
		return NULL;
	if (purge.open_count > q->count || purge.open_octets > q->octets)
		contradiction = "a purge leaves more messages than there were";
	/* numbers that no message had are settled too */
	(void)qseq_set_add(&q->settled, purge.first, purge.last - purge.first + 1);
	qseq_counts_remove(&q->returns, purge.first, purge.last - purge.first + 1);
	q->next_qseq = max_u64(q->next_qseq, purge.last + 1);
	q->count = purge.open_count;
	q->octets = purge.open_octets;
	return contradiction;
}

static void
take_state(struct image *image, const struct record *record)
{
	uint64_t id;
	uint64_t flags;
	struct image_queue *q;

	if (pair_record_decode(record, &id, &flags) != 0)
		return;
	q = image_queue(image, id);
	if (q != NULL)
		q->flags = flags;
}

const char *
image_take(struct image *image, const struct record *record)
{
	struct taking taking = {.image = image};
	struct definition definition;
	struct key_record key;

	if (record->lsn <= image->lsn)
		return NULL;
	image->lsn = record->lsn;
	switch (record->type) {
	case RECORD_MESSAGE:
		take_message(image, record);
		break;
	case RECORD_ACK:
		if (ack_record_walk(record, take_mark, &taking) != 0)
			return "its marks cannot be read";
		break;
	case RECORD_PURGE:
		return take_purge(image, record);
	case RECORD_RETURNS:
		if (returns_record_walk(record, take_return, &taking) != 0)
			return "its counts cannot be read";
		break;
	case RECORD_KEY:
		if (key_record_decode(&key, record) == 0)
			image_keys_take(&image->keys, &key);
		break;
	case RECORD_QUEUE:
		take_state(image, record);
		break;
	case RECORD_DEFINE:
		if (definition_decode(&definition, bytes_of(record->p + RECORD_HEADER_SIZE,
							    record->size - RECORD_HEADER_SIZE)) ==
		    0)
			define(image, &definition);
		break;
	default:
		break;
	}
	return taking.contradiction;
}

struct image_queue *
image_open_ref(const struct image *image, const struct message_ref *ref)
{
	struct image_queue *q = image_queue(image, ref->queue_id);

	if (q == NULL || q->removed || !q->is_named || qseq_set_has(&q->settled, ref->qseq))
		return NULL;
	return q;
}
