/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the log back at start. The first pass walks all records in order: it proves the chain of
 * batches, finds where the log ends, and takes in definitions and marks. The second pass hands out the
 * messages that still have an open reference. Nothing is changed before both are through; then the tail
 * is made certain (recover_tail.c).
 *
 * A torn tail is what a crash leaves of a write group that was never confirmed: it is cut. Whatever else
 * does not add up is damage, and the store is not opened.
 */
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>

int
recovery_damage(struct recovery *r, uint64_t id, uint64_t offset, const char *what)
{
	buf_addf(r->error,
		 "store: log/%010llu.seg is damaged at offset %llu: %s; nothing was changed, "
		 "`pannierctl store repair' shows what can be saved",
		 (unsigned long long)id, (unsigned long long)offset, what);
	return -EBADMSG;
}

int
recovery_newer(struct recovery *r, uint64_t id, uint64_t offset)
{
	buf_addf(r->error,
		 "store: log/%010llu.seg has at offset %llu a record of a newer version of "
		 "pannierd; "
		 "nothing was changed: start the newer one",
		 (unsigned long long)id, (unsigned long long)offset);
	return -ENOTSUP;
}

int
recovery_disk_error(struct recovery *r, const char *doing, uint64_t id, int code)
{
	buf_addf(r->error, "store: cannot %s log/%010llu.seg: %s", doing, (unsigned long long)id,
		 strerror(-code));
	return code;
}

/* ---- first pass: definitions and marks ---- */

void
recovery_define(struct store *store, const struct definition *definition)
{
	struct queue_log *log = NULL;
	bool is_new = false;

	if (definition_has_queue(definition)) {
		log = queue_log_find(store, definition->queue_id);
		is_new = log == NULL && !definition->removed;
		if (is_new)
			log = queue_log_new(store, definition->queue_id);
	}
	store->ops->define(store->context, definition, log);
	/* of a part whose owner is not there nothing is wanted */
	if (log != NULL && (definition->removed ||
			    (definition->kind == DEFINITION_PART && is_new && log->owner == NULL)))
		queue_log_free(store, log);
}

void
recovery_key(const struct store *store, const struct key_record *key)
{
	if (store->ops->key != NULL)
		store->ops->key(store->context, key);
}

static int
take_key(const struct recovery *r, const struct record *record)
{
	struct key_record key;
	int error = key_record_decode(&key, record);

	if (error == 0)
		recovery_key(r->store, &key);
	return error == -ENOTSUP ? 0 : error;
}

static int
take_mark(void *context, const struct ack_mark *mark)
{
	struct recovery *r = context;
	struct queue_log *log = queue_log_find(r->store, mark->queue_id);

	if (log == NULL)
		return 0;
	if (qseq_set_add(&log->settled, mark->first, mark->count) != mark->count ||
	    log->count < mark->count || log->octets < mark->octets)
		return -EBADMSG;
	log->next_qseq = max_u64(log->next_qseq, mark->first + mark->count);
	log->count -= mark->count;
	log->octets -= mark->octets;
	queue_log_forget_returns(log, mark->first, mark->count);
	queue_log_note_range(log, mark->first, (uint32_t)mark->count);
	return 0;
}

static struct settled_part *
add_settled(struct recovery *r, uint64_t queue_id)
{
	struct settled_part *part;

	if (r->settled_count == r->settled_room) {
		r->settled_room = r->settled_room == 0 ? 8 : 2 * r->settled_room;
		r->settled = xrealloc(r->settled, r->settled_room * sizeof(*part));
	}
	part = &r->settled[r->settled_count++];
	*part = (struct settled_part){.queue_id = queue_id};
	qseq_set_init(&part->before);
	return part;
}

/* Open numbers of a range are being settled; where they are is looked up when all was read. */
static void
note_settled(struct recovery *r, const struct queue_log *log, uint64_t first, uint64_t last)
{
	struct settled_range range = {first, last};
	struct settled_part *part = add_settled(r, log->id);

	part->ranges = xmemdup(&range, sizeof(range));
	part->range_count = 1;
	qseq_set_fini(&part->before);
	qseq_set_copy_range(&part->before, &log->settled, first, last);
}

static int
take_purge(struct recovery *r, const struct record *record)
{
	struct purge_record purge;
	struct queue_log *log;
	int error = purge_record_decode(&purge, record);

	if (error != 0)
		return error;
	log = queue_log_find(r->store, purge.queue_id);
	if (log == NULL)
		return 0;
	if (purge.open_count > log->count || purge.open_octets > log->octets)
		return -EBADMSG;
	note_settled(r, log, purge.first, purge.last);
	qseq_set_add(&log->settled, purge.first, purge.last - purge.first + 1);
	queue_log_forget_returns(log, purge.first, purge.last - purge.first + 1);
	log->next_qseq = max_u64(log->next_qseq, purge.last + 1);
	log->count = purge.open_count;
	log->octets = purge.open_octets;
	return 0;
}

static int
take_return(void *context, const struct return_count *count)
{
	const struct recovery *r = context;
	struct queue_log *log = queue_log_find(r->store, count->queue_id);

	if (log != NULL && !qseq_set_has(&log->settled, count->qseq))
		queue_log_set_returns(log, count->qseq, count->count);
	return 0;
}

static int
take_message_numbers(struct recovery *r, const struct record *record)
{
	struct message_record message;
	int error = message_record_decode(&message, record);

	for (uint32_t i = 0; error == 0 && i < message.ref_count; i++) {
		struct message_ref ref = message_ref_decode(message.refs + i * MESSAGE_REF_SIZE);
		struct queue_log *log = queue_log_find(r->store, ref.queue_id);

		if (log == NULL)
			continue;
		log->next_qseq = max_u64(log->next_qseq, ref.qseq + 1);
		log->count++;
		log->octets += message.body.n;
		r->batch_live_refs++;
		r->batch_live += store_share(record->size, message.ref_count);
	}
	return error;
}

static int
take_queue_state(struct recovery *r, const struct record *record)
{
	uint64_t id;
	uint64_t flags;
	struct queue_log *log;
	int error = pair_record_decode(record, &id, &flags);

	if (error != 0)
		return error;
	log = queue_log_find(r->store, id);
	if (log != NULL)
		log->delivered = (flags & QUEUE_STATE_DELIVERED) != 0;
	return 0;
}

/* All that a queue still has goes with it. */
static void
take_definition(struct recovery *r, const struct definition *definition)
{
	struct queue_log *log = NULL;

	if (definition_has_queue(definition) && definition->removed)
		log = queue_log_find(r->store, definition->queue_id);
	if (log != NULL && log->count > 0)
		note_settled(r, log, 1, QSEQ_MAX);
	/* what its marks settled counts in the segments still */
	if (log != NULL && log->range_count > 0) {
		struct settled_part *part = add_settled(r, log->id);

		part->ranges = recovery_take_ranges(r->store, log, &part->range_count);
	}
	recovery_define(r->store, definition);
}

static int
first_pass_record(void *context, const struct record *record)
{
	struct recovery *r = context;
	struct definition definition;
	int error;

	if (record->lsn <= r->checkpoint_lsn)
		return 0;
	switch (record->type) {
	case RECORD_MESSAGE:
		return take_message_numbers(r, record);
	case RECORD_ACK:
		return ack_record_walk(record, take_mark, r);
	case RECORD_PURGE:
		return take_purge(r, record);
	case RECORD_RETURNS:
		return returns_record_walk(record, take_return, r);
	case RECORD_KEY:
		return take_key(r, record);
	case RECORD_QUEUE:
		return take_queue_state(r, record);
	case RECORD_DEFINE:
		error = definition_decode(&definition, bytes_of(record->p + RECORD_HEADER_SIZE,
								record->size - RECORD_HEADER_SIZE));
		if (error == 0)
			take_definition(r, &definition);
		return error;
	default:
		return 0;
	}
}

/* ---- second pass: messages ---- */

static void
push_ref(struct recovery *r, const struct message_ref *ref)
{
	struct queue_log *log = queue_log_find(r->store, ref->queue_id);

	if (log == NULL || qseq_set_has(&log->settled, ref->qseq))
		return;
	if (r->ref_count == r->ref_room) {
		r->ref_room = r->ref_room == 0 ? 16 : 2 * r->ref_room;
		r->refs = xrealloc(r->refs, r->ref_room * sizeof(*r->refs));
	}
	r->refs[r->ref_count++] = (struct stored_ref){
		.log = log,
		.qseq = ref->qseq,
		.redelivered = ref->qseq < log->redelivered_below,
	};
}

static int
second_pass_record(void *context, const struct record *record)
{
	struct recovery *r = context;
	struct stored_message message = {.lsn = record->lsn, .record_size = record->size};
	uint64_t share;
	int error;

	if (record->type != RECORD_MESSAGE)
		return 0;
	error = message_record_decode(&message.record, record);
	if (error != 0)
		return error;
	r->ref_count = 0;
	for (uint32_t i = 0; i < message.record.ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(message.record.refs + i * MESSAGE_REF_SIZE);

		push_ref(r, &ref);
	}
	if (r->ref_count == 0)
		return 0;
	share = r->ref_count * store_share(record->size, message.record.ref_count);
	r->segment->live_refs += r->ref_count;
	r->segment->live += share;
	if (record->lsn >= r->group_lsn) {
		r->group_live_refs += r->ref_count;
		r->group_live += share;
	}
	r->store->ops->message(r->store->context, &message, r->refs, r->ref_count);
	return 0;
}

/* ---- the walk ---- */

static bool
follows(const struct recovery *r, const struct batch_record *batch)
{
	if (batch->first_lsn != r->next_lsn)
		return false;
	/* the first segment may be one that others went before */
	if (r->writer.number == 0)
		return true;
	return batch->number == r->writer.number + 1 && batch->previous == r->writer.digest;
}

static void
note_batch(struct recovery *r, const struct batch_record *batch, uint64_t offset)
{
	r->segment->live += r->batch_live;
	r->segment->live_refs += r->batch_live_refs;
	if (r->writer.number == 0 || batch->group != r->writer.group) {
		r->group_segment = r->segment;
		r->group_offset = offset;
		r->group_lsn = batch->first_lsn;
		r->group_live = r->group_live_refs = 0;
	}
	r->group_live += r->batch_live;
	r->group_live_refs += r->batch_live_refs;
	r->batch_live = r->batch_live_refs = 0;
	r->writer = (struct writer){batch->number, batch->digest, batch->group};
	r->next_lsn = batch->first_lsn + batch->count;
}

/* What ends a segment that does not go on with a valid batch at offset. */
static int
check_end(struct recovery *r, struct scan *scan, uint64_t offset, uint64_t until, int error)
{
	if (error == -ENOTSUP)
		return recovery_newer(r, scan->id, offset);
	/* also of one that cannot be read: it was written when all of that was stable */
	if (r->next_lsn <= r->store->superblock.checkpoint)
		return recovery_damage(r, scan->id, offset,
				       "the batch is not valid, and a checkpoint goes further");
	if (until != 0)
		return recovery_damage(r, scan->id, offset,
				       "the batch is not valid, and the log goes on behind it");
	if (scan_finds_group(scan, offset, r->writer.group + 2))
		return recovery_damage(r, scan->id, offset,
				       "the batch is not valid, but later ones are");
	if (scan->error != 0)
		return recovery_disk_error(r, "read", scan->id, scan->error);
	return 0;
}

/* Walks the segment of r; until: the first LSN of the next segment, 0 when it is the last. */
static int
first_pass_segment(struct recovery *r, struct scan *scan, uint64_t until)
{
	uint64_t offset = SEGMENT_HEADER_SIZE;

	if (r->segment->generation > 0)
		return recovery_damage(r, scan->id, 0,
				       "it was compacted, and the checkpoint of that is missing");
	/* one that begins before the checkpoint ends, maybe behind some that were not read: the chain is
	 * taken up there */
	if (r->segment->first_lsn != r->next_lsn)
		r->writer = (struct writer){0};
	if (r->writer.number == 0)
		r->next_lsn = r->segment->first_lsn;
	while (until == 0 || r->next_lsn < until) {
		struct batch_record batch;
		uint64_t padded;
		int error = scan_batch(scan, offset, &batch, &padded, NULL, NULL);

		if (scan->error != 0)
			return recovery_disk_error(r, "read", scan->id, scan->error);
		if (error == 0 && !follows(r, &batch))
			error = -EBADMSG;
		if (error != 0) {
			error = check_end(r, scan, offset, until, error);
			if (error != 0)
				return error;
			break;
		}
		error = scan_batch(scan, offset, &batch, &padded, first_pass_record, r);
		if (error == -ENOTSUP)
			return recovery_newer(r, scan->id, offset);
		if (error != 0)
			return recovery_damage(r, scan->id, offset,
					       "a record of a valid batch cannot be decoded");
		note_batch(r, &batch, offset);
		offset += padded;
	}
	if (until != 0 && r->next_lsn > until)
		return recovery_damage(r, scan->id, offset,
				       "the next segment begins in the middle of a batch");
	r->segment->end = offset;
	r->segment->last_lsn = r->next_lsn - 1;
	return 0;
}

static int
second_pass_segment(struct recovery *r, struct scan *scan, uint64_t until)
{
	uint64_t offset = SEGMENT_HEADER_SIZE;
	struct batch_record batch = {0};

	r->segment->live = 0;
	r->segment->live_refs = 0;
	if (r->segment->generation > 0) {
		if (scan_records(scan, &offset, r->segment->end, second_pass_record, r) != 0)
			return recovery_damage(r, scan->id, offset, "a message cannot be read");
		return 0;
	}
	/* a checkpoint may know of a longer one: its last group was moved to the next one since */
	while (offset < r->segment->end && (until == 0 || batch.first_lsn + batch.count < until)) {
		uint64_t padded;
		int error = scan_batch(scan, offset, &batch, &padded, second_pass_record, r);

		if (error != 0)
			return recovery_damage(r, scan->id, offset,
					       "a message cannot be read a second time");
		offset += padded;
	}
	r->segment->end = offset;
	return 0;
}

static int
walk(struct recovery *r, int (*pass)(struct recovery *r, struct scan *scan, uint64_t until))
{
	struct store *store = r->store;
	int error = 0;

	for (size_t i = 0; i < store->segment_count && error == 0; i++) {
		struct scan scan;
		uint64_t until =
			i + 1 < store->segment_count ? store->segments[i + 1]->first_lsn : 0;

		bool covered = until != 0 && until <= r->checkpoint_lsn + 1;
		struct writer chain = r->writer;
		uint64_t next_lsn = r->next_lsn;

		r->segment = store->segments[i];
		/* one whose end the checkpoint does not know was open then, or was cut since */
		if (pass == first_pass_segment && covered && r->segment->last_lsn != 0 &&
		    r->segment->last_lsn < until)
			continue;
		if (pass == first_pass_segment &&
		    r->segment->first_lsn > max_u64(r->next_lsn, r->checkpoint_lsn + 1))
			return recovery_damage(r, r->segment->id, 0,
					       "the log before it is missing");
		error = scan_open(&scan, store->disk, r->segment->id);
		if (error != 0)
			return recovery_disk_error(r, "open", r->segment->id, error);
		scan.salt = r->segment->salt;
		error = pass(r, &scan, until);
		scan_close(&scan);
		if (pass == first_pass_segment && covered) {
			/* the log goes on where the checkpoint ends */
			r->writer = chain;
			r->next_lsn = next_lsn;
			r->group_segment = NULL;
		}
	}
	return error;
}

/* The log must go as far as was stable when the newest checkpoint was written. */
static int
check_reach(struct recovery *r)
{
	uint64_t checkpoint = r->store->superblock.checkpoint;

	if (r->next_lsn > checkpoint)
		return 0;
	buf_addf(r->error,
		 "store: log/ is damaged: it ends at LSN %llu, but a checkpoint goes up to %llu; "
		 "nothing "
		 "was changed, `pannierctl store repair' shows what can be saved",
		 (unsigned long long)(r->next_lsn - 1), (unsigned long long)checkpoint);
	return -EBADMSG;
}

/* Whatever a queue had that delivered before a crash may have been delivered. */
static void
end_first_pass(struct recovery *r)
{
	struct queue_log *log;

	map_for_each (&r->store->queues, log, struct queue_log, by_id) {
		if (log->delivered && !r->store->superblock.clean)
			log->redelivered_below = log->next_qseq;
		if (r->store->superblock.clean)
			log->delivered = false;
	}
}

/* Recovery did without them. */
static void
remove_bad_checkpoints(struct recovery *r)
{
	for (size_t i = 0; i < r->bad_checkpoint_count; i++) {
		char path[PATH_MAX_SIZE];

		checkpoint_path(path, r->bad_checkpoints[i], "");
		if (disk_unlink(r->store->disk, path) < 0)
			log_warn("store: cannot remove %s, which is damaged", path);
	}
}

static void
forget_settled(struct recovery *r)
{
	struct queue_log *log;

	for (size_t i = 0; i < r->settled_count; i++) {
		qseq_set_fini(&r->settled[i].before);
		xfree(r->settled[i].ranges);
	}
	xfree(r->settled);
	map_for_each (&r->store->queues, log, struct queue_log, by_id)
		queue_log_forget_ranges(r->store, log);
}

int
recover(struct store *store, struct buf *error)
{
	struct recovery r = {.store = store, .next_lsn = 1, .error = error};
	int code = recover_segments(&r);

	if (code == 0)
		code = checkpoint_load(&r);
	/* after a clean stop all segments are as the checkpoint says */
	if (code == 0 && !r.ends_here)
		code = walk(&r, first_pass_segment);
	if (code == 0)
		code = check_reach(&r);
	if (code == 0)
		end_first_pass(&r);
	if (code == 0 && store->ops->message != NULL) {
		r.group_live = r.group_live_refs = 0;
		code = walk(&r, second_pass_segment);
	}
	if (code == 0) {
		store->writer = r.writer;
		store->next_lsn = r.next_lsn;
		store->stable = store->next_lsn - 1;
		store->filling->first_lsn = store->next_lsn;
		code = recover_discard(&r);
	}
	if (code == 0)
		code = recover_tail(&r);
	if (code == 0)
		code = recover_indexes(&r);
	if (code == 0 && store->ops->message == NULL)
		recover_live(&r);
	if (code == 0)
		remove_bad_checkpoints(&r);
	forget_settled(&r);
	xfree(r.bad_checkpoints);
	xfree(r.refs);
	xfree(r.leftovers);
	return code;
}
