/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new store, made through the store's own interface: definitions first, then each open message, with its queues
 * under new numbers. So it has none of the old one's files, numbers or checks, and nothing of its damage.
 */
#include <errno.h>

#include "store/store.h"
#include "util/mem.h"

#include "repair.h"

struct rebuild {
	struct repair *repair;
	const struct image_definition **list; // owns
	size_t count;
	struct store *store;
	struct map places; // of messages with keys: struct image_key.by_place
	int error;	   // the store could not be written
};

static void
ignore_definition(void *context, const struct definition *definition, struct queue_log *log)
{
	(void)context;
	(void)definition;
	(void)log;
}

static void
ignore_stable(void *context, uint64_t lsn)
{
	(void)context;
	(void)lsn;
}

static void
on_short_of_space(void *context, bool is_short)
{
	struct rebuild *r = context;

	if (is_short)
		r->error = -ENOSPC;
}

static void
on_failed(void *context, int error, const char *what)
{
	struct rebuild *r = context;

	(void)what;
	r->error = error;
}

/* The definition as it is in the new store: its queue has another number there. */
static struct definition
renumbered(const struct rebuild *r, const struct image_definition *d)
{
	struct definition definition = d->definition;
	const struct image_queue *q;
	const struct queue_log *log;

	if (!definition_has_queue(&definition))
		return definition;
	q = image_queue(&r->repair->reading.image, definition.queue_id);
	assert(q != NULL);
	log = q->owner;
	definition.queue_id = log->id;
	return definition;
}

static void
on_snapshot(void *context, struct store *store)
{
	struct rebuild *r = context;

	for (size_t i = 0; i < r->count; i++) {
		struct definition definition = renumbered(r, r->list[i]);

		store_snapshot_add(store, &definition);
	}
}

/* The keys of one exchange or queue that are in the new store. */
static uint32_t
put_keys(void *context, uint8_t *p)
{
	const struct image_keys *keys = context;
	const struct image_key *key;
	uint32_t count = 0;

	list_for_each (&keys->order, key, const struct image_key, in_order) {
		if ((keys->of.flags & KEY_WHILE_QUEUED) && !key->moved)
			continue;
		key_saved_encode(p, key->value, key->digest);
		p += KEY_SAVED_SIZE;
		count++;
	}
	return count;
}

/* The last checkpoint, of the clean stop, has them all. */
static void
on_snapshot_keys(void *context, struct store *store)
{
	const struct rebuild *r = context;
	struct image_keys *keys;

	map_for_each (&r->repair->reading.image.keys, keys, struct image_keys, by_owner)
		store_snapshot_keys(store, &keys->of, (uint32_t)keys->keys.count, put_keys, keys);
}

/* Its message has another number in the new store. */
static void
move_key(const struct rebuild *r, const struct image_queue *q, uint64_t was, uint64_t is)
{
	struct image_key *key = image_keys_at(&r->places, q->id, was);

	if (key == NULL)
		return;
	key->value = (q->is_part ? q->part : 0) << 48 | is;
	key->moved = true;
}

/* Writes what has gathered when there is enough of it. */
static void
turn(struct rebuild *r)
{
	store_submit(r->store, clock_read(), true);
	(void)store_work(r->store);
	store_receive(r->store);
}

static void
write_definitions(struct rebuild *r)
{
	r->list = image_list(&r->repair->reading.image, &r->count);
	for (size_t i = 0; i < r->count; i++) {
		const struct definition *d = &r->list[i]->definition;
		struct definition definition;

		if (definition_has_queue(d))
			image_queue(&r->repair->reading.image, d->queue_id)->owner =
				store_queue_new(r->store);
		definition = renumbered(r, r->list[i]);
		(void)store_define(r->store, &definition);
		turn(r);
	}
}

static void
on_message(void *context, const struct open_message *open)
{
	struct rebuild *r = context;
	struct message_record message = open->message;
	uint8_t *refs;

	if (r->error != 0)
		return;
	message.ref_count = open->count;
	message.time_count = 0;
	for (uint32_t i = 0; i < open->count; i++)
		message.time_count += open->refs[i].due_ms != 0;
	(void)store_append_message(r->store, &message, &refs);
	for (uint32_t i = 0; i < open->count; i++) {
		struct queue_log *log = open->refs[i].queue->owner;
		uint64_t qseq = log->next_qseq;

		store_add_ref(r->store, log, refs + (size_t)i * MESSAGE_REF_SIZE, qseq,
			      (uint32_t)message.body.n, open->refs[i].due_ms);
		store_cold_push(log, qseq, (uint32_t)message.body.n);
		move_key(r, open->refs[i].queue, open->refs[i].ref.qseq, qseq);
		if (open->refs[i].redelivered)
			log->redelivered_below = qseq + 1;
		if (open->refs[i].returns > 0)
			(void)store_note_return(r->store, log, qseq, open->refs[i].returns);
	}
	turn(r);
}

static int
fill(struct rebuild *r)
{
	int error;

	write_definitions(r);
	map_init(&r->places);
	image_keys_find_places(&r->repair->reading.image, &r->places);
	reading_messages(&r->repair->reading, on_message, r);
	error = store_close(&r->store, r->error == 0);
	map_fini(&r->places);
	return r->error != 0 ? r->error : error;
}

int
repair_write(struct repair *repair, const char *folder)
{
	static const struct store_ops ops = {
		.define = ignore_definition,
		.snapshot = on_snapshot,
		.snapshot_keys = on_snapshot_keys,
		.stable = ignore_stable,
		.short_of_space = on_short_of_space,
		.failed = on_failed,
	};
	struct rebuild r = {.repair = repair};
	struct store_options options = store_options_default();
	struct disk *disk;
	struct buf error;
	int code = disk_new(&disk, folder);

	if (code != 0) {
		ctl_complain("cannot open %s: %s", folder, strerror(-code));
		return code;
	}
	options.node_name = inspect_superblock(repair->reading.store.inspect)->node;
	buf_init(&error, 0);
	code = store_open(&r.store, disk, &options, &ops, &r, &error);
	if (code != 0)
		ctl_complain("%s: %s", folder, buf_cstr(&error));
	else
		code = fill(&r);
	if (code != 0 && error.n == 0)
		ctl_complain("cannot write %s: %s", folder, strerror(-code));
	buf_fini(&error);
	xfree(r.list);
	disk_free(&disk);
	return code;
}
