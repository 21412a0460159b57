/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking in a checkpoint at start: the newest one that holds; what cannot be read is removed once recovery has
 * ended well without it.
 */
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- taking it in ---- */

/* A checkpoint on its way into the store. */
struct taking {
	struct recovery *r;
	uint64_t lsn;
	int error; // the first one
};

static void
take_definition(void *context, const struct definition *definition)
{
	const struct taking *taking = context;

	recovery_define(taking->r->store, definition);
}

static void
take_queue(void *context, struct inspect_queue *queue)
{
	const struct taking *taking = context;
	struct queue_log *log = queue_log_find(taking->r->store, queue->id);

	if (log == NULL) {
		qseq_set_fini(&queue->settled);
		return;
	}
	qseq_set_fini(&log->settled);
	log->settled = queue->settled;
	log->next_qseq = queue->next_qseq;
	log->delivered = (queue->flags & QUEUE_STATE_DELIVERED) != 0;
	log->count = queue->count;
	log->octets = queue->octets;
	log->redelivered_below = queue->redelivered_below;
}

static void
take_return(void *context, const struct return_count *count)
{
	const struct taking *taking = context;
	struct queue_log *log = queue_log_find(taking->r->store, count->queue_id);

	if (log != NULL && !qseq_set_has(&log->settled, count->qseq))
		queue_log_set_returns(log, count->qseq, count->count);
}

static void
take_key(void *context, const struct key_record *key)
{
	const struct taking *taking = context;

	recovery_key(taking->r->store, key);
}

/* The merged segment that has the messages up to this LSN; NULL: none. */
static struct segment *
merged_with(struct store *store, uint64_t last_lsn)
{
	for (size_t i = 0; i < store->segment_count; i++) {
		struct segment *segment = store->segments[i];

		if (segment->generation > 0 && segment->first_lsn <= last_lsn &&
		    last_lsn <= segment->last_lsn)
			return segment;
	}
	return NULL;
}

static void
take_segment(void *context, const struct inspect_segment_state *state)
{
	struct taking *taking = context;
	struct recovery *r = taking->r;
	struct segment *segment = segment_by_id(r->store, state->id);

	if (segment == NULL || segment->generation > 0) {
		/* a merge since may have put it into its neighbour */
		segment = merged_with(r->store, state->last_lsn);
		if (segment != NULL) {
			segment->listed = true;
			segment->live += state->live;
			segment->live_refs += state->live_refs;
			return;
		}
	}
	/* a file goes only when two checkpoints found it empty (reclaim.c) */
	if (segment == NULL && state->live_refs != 0 && taking->error == 0)
		taking->error = recovery_damage(r, state->id, 0, "it is missing");
	if (segment == NULL)
		return;
	segment->listed = true;
	if (state->end != 0) {
		segment->end = state->end;
		segment->last_lsn = state->last_lsn;
	}
	segment->live = state->live;
	segment->live_refs = state->live_refs;
	/* one that was written to may have got messages since */
	segment->empty_lsn = state->live_refs == 0 && state->end != 0 ? taking->lsn : 0;
}

/* A file that was removed and is back after a crash, as removals are not synced: it had no message then, and
 * those next to it may be gone, so that it cannot be read as a part of the log. */
static void
drop_ghosts(struct recovery *r, uint64_t lsn)
{
	struct store *store = r->store;

	for (size_t i = 0; i < store->segment_count;) {
		struct segment *segment = store->segments[i];

		if (segment->listed || segment->first_lsn > lsn) {
			i++;
			continue;
		}
		recovery_leftover(r, segment->id, false);
		segment_remove(store, segment);
	}
}

/* The chain goes on from what the checkpoint says; after a clean stop there is nothing behind it. */
static void
take_chain(void *context, const struct inspect_chain *chain)
{
	const struct taking *taking = context;
	struct recovery *r = taking->r;
	struct store *store = r->store;

	store->next_queue_id = max_u64(store->next_queue_id, chain->next_queue_id);
	store->next_segment_id = max_u64(store->next_segment_id, chain->next_segment_id);
	r->writer = (struct writer){
		.number = chain->number,
		.digest = chain->digest,
		.group = chain->group,
	};
	r->checkpoint_lsn = taking->lsn;
	r->next_lsn = taking->lsn + 1;
	r->ends_here = store->superblock.clean && store->superblock.checkpoint == taking->lsn;
}

static int
take_in(struct recovery *r, const struct checkpoint_image *image)
{
	static const struct inspect_checkpoint_ops ops = {
		.define = take_definition,
		.queue = take_queue,
		.returned = take_return,
		.key = take_key,
		.segment = take_segment,
		.chain = take_chain,
	};
	struct taking taking = {r, image->lsn, 0};
	int error = checkpoint_decode(image, &ops, &taking);

	if (error == 0)
		error = taking.error;
	if (error == 0)
		drop_ghosts(r, image->lsn);
	return error;
}

/* ---- finding it ---- */

struct found {
	uint64_t *lsns; // owns
	size_t count;
	size_t room;
};

static void
note_checkpoint(void *context, const char *name)
{
	struct found *found = context;
	uint64_t lsn = strtoull(name, NULL, 10);
	char path[PATH_MAX_SIZE];

	checkpoint_path(path, lsn, "");
	if (lsn == 0 || strcmp(path + strlen(CHECKPOINT_FOLDER) + 1, name) != 0)
		return;
	if (found->count == found->room) {
		found->room = found->room == 0 ? 8 : 2 * found->room;
		found->lsns = xrealloc(found->lsns, found->room * sizeof(uint64_t));
	}
	found->lsns[found->count++] = lsn;
}

static int
newest_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Says why a checkpoint cannot be used; negative when nothing else can be either. */
static int
judge(struct recovery *r, uint64_t lsn, int error)
{
	if (error == -EBADMSG) {
		log_warn("store: checkpoint %llu is damaged: the one before it is used",
			 (unsigned long long)lsn);
		return 0;
	}
	if (error == -ENOTSUP)
		buf_addf(r->error,
			 "store: checkpoint %llu was written by a newer version of pannierd",
			 (unsigned long long)lsn);
	else
		buf_addf(r->error, "store: cannot read checkpoint %llu: %s",
			 (unsigned long long)lsn, strerror(-error));
	return error;
}

/* Notes which checkpoints there are; those kept, ascending, and those that cannot be read. */
static void
note_kept(struct recovery *r, const struct found *found, size_t used)
{
	struct checkpoints *c = &r->store->checkpoints;

	for (size_t i = min_u64(found->count, used + CHECKPOINTS_KEPT); i > used; i--)
		c->lsns[c->count++] = found->lsns[i - 1];
	r->bad_checkpoints = xmemdup(found->lsns, used * sizeof(uint64_t));
	r->bad_checkpoint_count = used;
}

int
checkpoint_load(struct recovery *r)
{
	struct found found = {.lsns = NULL};
	int error = disk_list(r->store->disk, CHECKPOINT_FOLDER, note_checkpoint, &found);
	size_t i = 0;

	if (error != 0)
		buf_addf(r->error, "store: cannot list " CHECKPOINT_FOLDER "/: %s",
			 strerror(-error));
	if (found.count > 0)
		qsort(found.lsns, found.count, sizeof(uint64_t), newest_first);
	for (; i < found.count && error == 0; i++) {
		struct checkpoint_image image;
		bool usable;

		error = checkpoint_read(r->store->disk, r->store->superblock.uuid, found.lsns[i],
					&image);
		usable = error == 0;
		if (usable) {
			error = take_in(r, &image);
			if (error != 0 && r->error->n == 0)
				buf_addf(r->error, "store: checkpoint %llu makes no sense",
					 (unsigned long long)found.lsns[i]);
		} else {
			error = judge(r, found.lsns[i], error);
		}
		xfree(image.p);
		if (usable)
			break;
	}
	if (error == 0)
		note_kept(r, &found, i);
	xfree(found.lsns);
	return error;
}
