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
	int error; // the store could not be written
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
	reading_messages(&r->repair->reading, on_message, r);
	error = store_close(&r->store, r->error == 0);
	return r->error != 0 ? r->error : error;
}

int
repair_write(struct repair *repair, const char *folder)
{
	static const struct store_ops ops = {
		.define = ignore_definition,
		.snapshot = on_snapshot,
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
