/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last part of a start: every segment gets its index, on disk or, for the one that is written to, in
 * memory; and what the log says of messages that were settled since the checkpoint is taken off their
 * segments, by the helper, while the broker serves already.
 */
#include "recover.h"

#include <errno.h>
#include <stdlib.h>

#include "cold.h"
#include "footer.h"
#include "tail.h"

/* ---- footers ---- */

static int
build_footer(struct recovery *r, struct segment *segment, struct disk_file *file)
{
	struct scan scan;
	int error = scan_open(&scan, r->store->disk, segment->id);

	if (error != 0)
		return error;
	scan.salt = segment->salt;
	error = footer_build(file, &scan, segment->end, segment->last_lsn, segment->generation,
			     NULL);
	scan_close(&scan);
	return error;
}

/* A merge leaves out what a checkpoint that is older than its own still counts. */
static void
take_footer(struct segment *segment, const struct footer *footer)
{
	segment->end = footer->end;
	if (segment->generation == 0)
		return;
	segment->live_refs = min_u64(segment->live_refs, footer->entry_count);
	segment->live = min_u64(segment->live, segment->end - SEGMENT_HEADER_SIZE);
	if (segment->live_refs == 0)
		segment->live = 0;
}

/* An index of an older version has no deadlines: it is made anew when somebody asks for the first one. What is
 * settled since the checkpoint may still count as live, which costs a look. */
static void
begin_timed(struct recovery *r, struct segment *segment, const struct footer *footer)
{
	if (segment->live_refs > 0)
		timed_sealed(r->store, segment, footer->has_timed ? footer->first_timed_ms : 0);
}

static int
ensure_footer(struct recovery *r, struct segment *segment)
{
	struct footer footer;
	struct disk_file *file;
	char path[PATH_MAX_SIZE];
	int error;

	segment_path(path, segment->id);
	error = disk_open(r->store->disk, path, DISK_WRITE, &file);
	if (error != 0)
		return recovery_disk_error(r, "open", segment->id, error);
	error = footer_open(&footer, file);
	if (error == 0 && footer.last_lsn == segment->last_lsn) {
		take_footer(segment, &footer);
	} else if (error == 0 || error == -ENOENT) {
		error = build_footer(r, segment, file);
		if (error == 0)
			error = footer_open(&footer, file);
	}
	if (error == 0)
		begin_timed(r, segment, &footer);
	disk_close(&file);
	if (error == -EBADMSG)
		return recovery_damage(r, segment->id, segment->end, "its records make no index");
	return error == 0 ? 0 : recovery_disk_error(r, "index", segment->id, error);
}

/* ---- the tail of the segment that is written to ---- */

struct tail_scan {
	struct recovery *r;
	struct segment *segment;
	uint64_t offset; // of the next record
};

static int
add_record(void *context, const struct record *record)
{
	struct tail_scan *scan = context;
	struct message_record message = {0};
	struct ref_times times;
	int error = 0;

	if (record->type == RECORD_MESSAGE)
		error = message_record_decode(&message, record);
	times = ref_times_of(&message);
	for (uint32_t i = 0; error == 0 && i < message.ref_count; i++) {
		struct message_ref ref = message_ref_decode(message.refs + i * MESSAGE_REF_SIZE);
		uint64_t time_ms = ref_times_next(&times, ref.flags);
		struct queue_log *log = queue_log_find(scan->r->store, ref.queue_id);
		uint64_t share = store_share(record->size, message.ref_count);

		if (log == NULL)
			continue;
		tail_add(scan->segment->tail, log, ref.qseq, scan->offset, (uint32_t)share);
		if (qseq_set_has(&log->settled, ref.qseq))
			continue;
		scan->segment->live += share;
		scan->segment->live_refs++;
		if (time_ms != 0)
			timed_heap_push(&scan->segment->tail->timed,
					&(struct timed){.time_ms = time_ms,
							.queue_id = ref.queue_id,
							.qseq = ref.qseq,
							.lsn = record->lsn,
							.share = (uint32_t)share,
							.body_size = (uint32_t)message.body.n});
	}
	scan->offset += record->size;
	return error;
}

static int
build_tail(struct recovery *r, struct segment *segment)
{
	struct scan scan;
	uint64_t padded;
	int error = scan_open(&scan, r->store->disk, segment->id);

	if (error != 0)
		return recovery_disk_error(r, "open", segment->id, error);
	scan.salt = segment->salt;
	segment->tail = tail_new(segment->id);
	segment->written = segment->end;
	segment->live = 0;
	segment->live_refs = 0;
	for (uint64_t at = SEGMENT_HEADER_SIZE; at < segment->end && error == 0; at += padded) {
		struct tail_scan tail = {r, segment, at + BATCH_SIZE};
		struct batch_record batch;

		error = scan_batch(&scan, at, &batch, &padded, add_record, &tail);
	}
	scan_close(&scan);
	return error == 0 ? 0 : recovery_damage(r, segment->id, 0, "it cannot be read again");
}

int
recover_indexes(struct recovery *r)
{
	struct store *store = r->store;
	int error = 0;

	for (size_t i = 0; i < store->segment_count && error == 0; i++) {
		struct segment *segment = store->segments[i];

		error = segment->file == NULL ? ensure_footer(r, segment) : build_tail(r, segment);
	}
	return error;
}

/* ---- what was settled since the checkpoint ---- */

static int
ascending(const void *a, const void *b)
{
	const struct settled_range *x = a;
	const struct settled_range *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

struct settled_range *
recovery_take_ranges(struct store *store, struct queue_log *log, uint32_t *count)
{
	struct settled_range *ranges = xmalloc((log->range_count + 1) * sizeof(*ranges));

	*count = log->range_count;
	for (uint32_t i = 0; i < log->range_count; i++)
		ranges[i] = (struct settled_range){log->ranges[i].first,
						   log->ranges[i].first + log->ranges[i].count - 1};
	if (*count > 1)
		qsort(ranges, *count, sizeof(*ranges), ascending);
	queue_log_forget_ranges(store, log);
	return ranges;
}

void
recover_live(struct recovery *r)
{
	struct store *store = r->store;
	struct queue_log *log;

	map_for_each (&store->queues, log, struct queue_log, by_id) {
		uint32_t count;
		struct settled_range *ranges;
		struct qseq_set none;

		cold_begin(log);
		if (log->range_count == 0)
			continue;
		ranges = recovery_take_ranges(store, log, &count);
		qseq_set_init(&none);
		cold_locate(store, log->id, ranges, count, &none);
	}
	for (size_t i = 0; i < r->settled_count; i++) {
		struct settled_part *part = &r->settled[i];

		cold_locate(store, part->queue_id, part->ranges, part->range_count, &part->before);
	}
	r->settled_count = 0;
}
