/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two walks through the log, as at recovery: the first for marks and definitions, the second for messages.
 */
#include "reading.h"

#include "util/mem.h"

static void
on_fault(void *context, const struct inspect_fault *fault)
{
	struct reading *reading = context;

	/* later walks find the same */
	if (reading->is_muted)
		return;
	ctl_fault(&reading->faults, fault);
	if (reading->fault != NULL)
		reading->fault(reading->context, fault);
}

static void
on_progress(void *context, uint64_t done, uint64_t total)
{
	struct reading *reading = context;

	ctl_progress(&reading->progress, done, total);
}

static void
add_ref(struct reading *reading, uint32_t at, struct image_queue *q, const struct message_ref *ref)
{
	bool unclean = !inspect_superblock(reading->store.inspect)->clean;

	if (at == reading->ref_room) {
		reading->ref_room = reading->ref_room == 0 ? 16 : 2 * reading->ref_room;
		reading->refs = xrealloc(reading->refs, reading->ref_room * sizeof(*reading->refs));
	}
	reading->refs[at] = (struct open_ref){
		.queue = q,
		.ref = *ref,
		.redelivered = ref->qseq < q->redelivered_below ||
			       (unclean && (q->flags & QUEUE_STATE_DELIVERED) != 0),
		.returns = qseq_counts_get(&q->returns, ref->qseq),
	};
}

/* Of a queue that nothing is known of, where its definition may be among what is lost. */
static bool
is_orphan(const struct reading *reading, const struct record *record, uint64_t queue_id)
{
	const struct image_queue *q = image_queue(&reading->image, queue_id);

	return record->lsn > reading->base && (q == NULL || !q->is_named);
}

static void
read_message(struct reading *reading, const struct inspect_place *place,
	     const struct record *record)
{
	struct open_message open = {.place = place, .record = record};

	struct ref_times times;

	if (message_record_decode(&open.message, record) != 0)
		return;
	times = ref_times_of(&open.message);
	for (uint32_t i = 0; i < open.message.ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(open.message.refs + (size_t)i * MESSAGE_REF_SIZE);
		uint64_t time_ms = ref_times_next(&times, ref.flags);
		struct image_queue *q = image_open_ref(&reading->image, &ref);

		if (q == NULL) {
			reading->orphans += is_orphan(reading, record, ref.queue_id);
			continue;
		}
		q->open++;
		q->open_octets += open.message.body.n;
		add_ref(reading, open.count, q, &ref);
		reading->refs[open.count++].due_ms = ref.flags & REF_DUE ? time_ms : 0;
	}
	open.refs = reading->refs;
	if (open.count > 0)
		reading->message(reading->context, &open);
}

static void
on_record(void *context, const struct inspect_place *place, const struct record *record)
{
	struct reading *reading = context;

	if (record->lsn > reading->to) {
		if (reading->message == NULL && record->type < RECORD_TYPE_END)
			reading->beyond[record->type]++;
		return;
	}
	if (reading->message == NULL) {
		reading->records++;
		reading->contradictions += image_take(&reading->image, record) != NULL;
	} else if (record->type == RECORD_MESSAGE) {
		read_message(reading, place, record);
	}
}

/* Begins with the newest checkpoint that is not behind the end. */
static void
load_base(struct reading *reading)
{
	struct inspect *inspect = reading->store.inspect;
	size_t i = reading->without_checkpoints ? 0 : inspect_checkpoint_count(inspect);

	reading->base = 0;
	for (; i > 0 && reading->base == 0; i--) {
		uint64_t lsn = inspect_checkpoint_at(inspect, i - 1);

		if (lsn <= reading->to && image_load(&reading->image, inspect, lsn) == 0)
			reading->base = lsn;
	}
}

void
reading_state(struct reading *reading)
{
	image_fini(&reading->image);
	image_init(&reading->image);
	reading->records = reading->contradictions = reading->orphans = 0;
	memset(reading->beyond, 0, sizeof(reading->beyond));
	reading->message = NULL;
	load_base(reading);
	reading->progress.doing = "reading the log";
	reading->last_lsn = inspect_walk(reading->store.inspect, INSPECT_ALL);
	ctl_progress_end(&reading->progress);
}

int
reading_open(struct reading *reading, const char *dir)
{
	static const struct inspect_ops ops = {
		.fault = on_fault,
		.record = on_record,
		.progress = on_progress,
	};
	int status;

	if (reading->to == 0)
		reading->to = UINT64_MAX;
	reading->faults.progress = &reading->progress;
	status = ctl_store_open(&reading->store, dir, &ops, reading);
	if (status != CTL_OK)
		return status;
	image_init(&reading->image);
	reading_state(reading);
	reading->is_muted = true;
	return CTL_OK;
}

void
reading_messages(struct reading *reading,
		 void (*each)(void *context, const struct open_message *message), void *context)
{
	struct image_queue *q;

	map_for_each (&reading->image.queues, q, struct image_queue, by_id)
		q->open = q->open_octets = 0;
	reading->orphans = 0;
	reading->message = each;
	reading->context = context;
	reading->progress.doing = "reading messages";
	(void)inspect_walk(reading->store.inspect, INSPECT_ALL);
	ctl_progress_end(&reading->progress);
	reading->message = NULL;
}

void
reading_close(struct reading *reading)
{
	image_fini(&reading->image);
	xfree(reading->refs);
	ctl_store_close(&reading->store);
}
