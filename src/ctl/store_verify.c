/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `store verify'. The files are checked by the inspection; what is checked here is whether they agree: the log is
 * replayed from its beginning, and each checkpoint on the way must be what it leads to. Then the open messages
 * are counted and compared with what queues and checkpoints say.
 */
#include "image.h"

#include "ctl.h"

struct verify {
	struct inspect *inspect; // borrows
	struct ctl_faults faults;
	struct ctl_progress progress;
	struct image image;	   // replayed
	bool recounting;	   // the second walk
	bool is_whole;		   // the image has every record up to the last one
	size_t next_checkpoint;	   // that has not been passed
	uint64_t last_lsn;	   // of the last record
	struct batch_record batch; // the last one
	const char *path;	   // of what is compared
	uint64_t segments;	   // what was checked
	uint64_t footers;
	uint64_t batches;
	uint64_t records;
	uint64_t compared; // checkpoints
	uint64_t messages; // open ones
	uint64_t first_lsn;
};

static void
report(struct verify *v, enum inspect_severity severity, const char *path, uint64_t offset,
       const char *meaning)
{
	ctl_fault(
		&v->faults,
		&(struct inspect_fault){
			.severity = severity,
			.path = path,
			.offset = offset,
			.meaning = meaning,
			.advice =
				severity == INSPECT_INDEX
					? "nothing is lost, but files may stay longer than needed; "
					  "report this"
					: "keep a copy of the store and report this; `repair "
					  "--rebuild-index' goes by the log alone",
		});
}

static void
on_difference(void *context, const char *sentence)
{
	struct verify *v = context;

	report(v, INSPECT_DAMAGE, v->path, 0, sentence);
}

/* ---- checkpoints ---- */

static void
check_live(struct verify *v, const struct image *checkpoint)
{
	const struct image_queue *q;
	struct buf sentence;
	uint64_t count = 0;

	map_for_each (&checkpoint->queues, q, const struct image_queue, by_id)
		count += q->count;
	if (count == checkpoint->live_refs)
		return;
	buf_init(&sentence, 0);
	buf_addf(&sentence, "its segments have %llu open messages, its queues %llu",
		 (unsigned long long)checkpoint->live_refs, (unsigned long long)count);
	/* fewer: a file may have been removed that had one */
	report(v, count > checkpoint->live_refs ? INSPECT_DAMAGE : INSPECT_INDEX, v->path, 0,
	       buf_cstr(&sentence));
	buf_fini(&sentence);
}

/* The log ends, in its eyes, with the batch that was just read. */
static void
check_chain(struct verify *v, const struct image *checkpoint)
{
	if (v->batch.first_lsn + v->batch.count - 1 != checkpoint->lsn || v->batch.count == 0)
		return;
	if (v->batch.number != checkpoint->chain.number ||
	    v->batch.digest != checkpoint->chain.digest)
		report(v, INSPECT_DAMAGE, v->path, 0,
		       "it goes with another log: number or digest differ");
}

/* The log has come to a checkpoint: the replay must be that; from here it goes on with it. */
static void
pass_checkpoint(struct verify *v)
{
	uint64_t lsn = inspect_checkpoint_at(v->inspect, v->next_checkpoint++);
	struct image checkpoint;
	char path[64];

	(void)snprintf(path, sizeof(path), "ckpt/%016llu", (unsigned long long)lsn);
	v->path = path;
	image_init(&checkpoint);
	if (image_load(&checkpoint, v->inspect, lsn) != 0) {
		image_fini(&checkpoint);
		v->is_whole = false;
		return;
	}
	check_live(v, &checkpoint);
	check_chain(v, &checkpoint);
	if (v->is_whole && v->last_lsn == lsn) {
		image_compare(&checkpoint, &v->image, on_difference, v);
		v->compared++;
	}
	image_fini(&v->image);
	/* moving a map moves nothing that its nodes know of */
	v->image = checkpoint;
	v->last_lsn = lsn;
	v->is_whole = true;
}

static void
pass_checkpoints_before(struct verify *v, uint64_t lsn)
{
	while (v->next_checkpoint < inspect_checkpoint_count(v->inspect) &&
	       inspect_checkpoint_at(v->inspect, v->next_checkpoint) < lsn)
		pass_checkpoint(v);
}

/* ---- the log ---- */

static void
recount(struct verify *v, const struct record *record)
{
	struct message_record message;

	if (record->type != RECORD_MESSAGE || message_record_decode(&message, record) != 0)
		return;
	for (uint32_t i = 0; i < message.ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(message.refs + (size_t)i * MESSAGE_REF_SIZE);
		struct image_queue *q = image_open_ref(&v->image, &ref);

		if (q == NULL)
			continue;
		q->open++;
		q->open_octets += message.body.n;
		v->messages++;
	}
}

static void
on_record(void *context, const struct inspect_place *place, const struct record *record)
{
	struct verify *v = context;
	const char *contradiction;

	if (v->recounting) {
		recount(v, record);
		return;
	}
	pass_checkpoints_before(v, record->lsn);
	if (v->records++ == 0)
		v->first_lsn = record->lsn;
	/* files that checkpoints made unnecessary are gone or merged: then there is no replaying over the gap */
	if (record->lsn > v->last_lsn + 1 || place->segment->generation > 0)
		v->is_whole = false;
	contradiction = image_take(&v->image, record);
	if (contradiction != NULL && v->is_whole)
		report(v, INSPECT_DAMAGE, place->segment->path, place->offset, contradiction);
	v->last_lsn = max_u64(v->last_lsn, record->lsn);
}

static void
on_batch(void *context, const struct inspect_place *place, const struct batch_record *batch)
{
	struct verify *v = context;

	(void)place;
	if (v->recounting)
		return;
	pass_checkpoints_before(v, batch->first_lsn);
	v->batch = *batch;
	v->batches++;
}

static void
on_fault(void *context, const struct inspect_fault *fault)
{
	struct verify *v = context;

	if (!v->recounting)
		ctl_fault(&v->faults, fault);
	/* of what is lost the last may be followed by a checkpoint */
	if (fault->first_lsn != 0)
		v->is_whole = false;
}

static void
on_progress(void *context, uint64_t done, uint64_t total)
{
	struct verify *v = context;

	ctl_progress(&v->progress, done, total);
}

/* ---- counts ---- */

static void
compare_count(struct verify *v, const struct image_queue *q)
{
	struct ctl_name vhost;
	struct ctl_name name;
	struct buf sentence;

	if (q->removed || !q->is_named || (q->count == q->open && q->octets == q->open_octets))
		return;
	buf_init(&sentence, 0);
	buf_addf(&sentence,
		 "queue %llu (%s in vhost %s) should have %llu messages with %llu octets, but "
		 "%llu with %llu are there",
		 (unsigned long long)q->id, image_queue_name(&name, q), ctl_name(&vhost, q->vhost),
		 (unsigned long long)q->count, (unsigned long long)q->octets,
		 (unsigned long long)q->open, (unsigned long long)q->open_octets);
	report(v, INSPECT_DAMAGE, "log", 0, buf_cstr(&sentence));
	buf_fini(&sentence);
}

static void
count_segments(struct verify *v)
{
	for (size_t i = 0; i < inspect_segment_count(v->inspect); i++) {
		const struct inspect_segment *segment = inspect_segment_at(v->inspect, i);

		v->segments += segment->use == INSPECT_IN_USE;
		v->footers += segment->footer != 0;
	}
}

static void
check_all(struct verify *v)
{
	const struct image_queue *q;
	struct inspect_range range = INSPECT_ALL;

	range.footers = true;
	v->is_whole = true;
	v->progress.doing = "verifying";
	(void)inspect_walk(v->inspect, range);
	pass_checkpoints_before(v, UINT64_MAX);
	count_segments(v);
	v->recounting = true;
	v->progress.doing = "counting";
	(void)inspect_walk(v->inspect, INSPECT_ALL);
	map_for_each (&v->image.queues, q, const struct image_queue, by_id)
		compare_count(v, q);
	ctl_progress_end(&v->progress);
}

static int
print_result(const struct verify *v)
{
	bool damaged = ctl_is_damaged(&v->faults);

	(void)printf("checked: segments=%llu batches=%llu records=%llu lsn=%llu-%llu footers=%llu "
		     "checkpoints=%zu compared=%llu queues=%zu open_messages=%llu\n",
		     (unsigned long long)v->segments, (unsigned long long)v->batches,
		     (unsigned long long)v->records, (unsigned long long)v->first_lsn,
		     (unsigned long long)v->last_lsn, (unsigned long long)v->footers,
		     inspect_checkpoint_count(v->inspect), (unsigned long long)v->compared,
		     v->image.queues.count, (unsigned long long)v->messages);
	if (!damaged)
		(void)printf("the store is whole\n");
	else
		(void)printf("the store is damaged: %llu faults, %llu records lost; index: %llu, "
			     "newer: %llu\n",
			     (unsigned long long)v->faults.counts[INSPECT_DAMAGE],
			     (unsigned long long)v->faults.lost_records,
			     (unsigned long long)v->faults.counts[INSPECT_INDEX],
			     (unsigned long long)v->faults.counts[INSPECT_NEWER]);
	return damaged ? CTL_DAMAGED : CTL_OK;
}

int
store_verify(const struct ctl_arguments *arguments)
{
	static const struct inspect_ops ops = {
		.fault = on_fault,
		.record = on_record,
		.batch = on_batch,
		.progress = on_progress,
	};
	struct verify v = {.faults = {.out = stdout}};
	struct ctl_store store;
	int status;

	v.faults.progress = &v.progress;
	status = ctl_store_open(&store, arguments->dir, &ops, &v);
	if (status != CTL_OK)
		return status;
	v.inspect = store.inspect;
	image_init(&v.image);
	check_all(&v);
	status = print_result(&v);
	image_fini(&v.image);
	ctl_store_close(&store);
	return ctl_end_output(stdout, "stdout", status);
}
