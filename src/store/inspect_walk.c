/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the log as recovery reads it (recover.c), but to its end whatever is in between. Behind a batch that is
 * not valid the next valid one is searched, and what lies between the two is looked through for records that
 * pass their own check: a batch behind which the log goes on was synced as a whole, so they are what was
 * written. In a torn tail nothing is looked for, as nothing of it was ever safe.
 */
#include "inspecting.h"

#include <errno.h>
#include <stdio.h>

#include "footer.h"

static const char repair_advice[] = "`repair' shows what is lost and saves the rest";

struct walk {
	struct inspect *inspect;
	struct inspect_segment *segment;
	struct inspect_range range;
	struct scan scan;
	struct writer chain;  // the batch before; number 0: not known
	uint64_t next_lsn;    // of the record that should come next; 0: any
	uint64_t until;	      // first LSN of the next segment; 0: it is the last
	uint64_t known_end;   // offset, by checkpoint or footer; 0: not known
	uint64_t known_last;  // LSN, as above
	uint64_t fault_first; // LSNs that the present search is for
	uint64_t fault_last;
	uint64_t found;	   // records handed out by it
	bool whole;	   // nothing of the segment was left out
	bool skipped;	   // segments before the present one were left out
	bool alone;	   // the present record's batch is not valid
	struct seen *seen; // references in the segment; NULL: nobody asks
};

/* ---- records ---- */

static int
nothing(void *context, const struct ack_mark *mark)
{
	(void)context;
	(void)mark;
	return 0;
}

static int
no_return(void *context, const struct return_count *count)
{
	(void)context;
	(void)count;
	return 0;
}

static int
check_payload(const struct record *record, struct message_record *message)
{
	struct definition definition;
	struct purge_record purge;
	struct key_record key;
	uint64_t first;
	uint64_t second;
	int error;

	switch (record->type) {
	case RECORD_MESSAGE:
		return message_record_decode(message, record);
	case RECORD_PURGE:
		return purge_record_decode(&purge, record);
	case RECORD_ACK:
		return ack_record_walk(record, nothing, NULL);
	case RECORD_RETURNS:
		return returns_record_walk(record, no_return, NULL);
	case RECORD_KEY:
		error = key_record_decode(&key, record);
		return error == -ENOTSUP ? 0 : error;
	case RECORD_DEFINE:
		return definition_decode(&definition, bytes_of(record->p + RECORD_HEADER_SIZE,
							       record->size - RECORD_HEADER_SIZE));
	case RECORD_QUEUE:
	case RECORD_EPOCH:
		return pair_record_decode(record, &first, &second);
	default:
		return 0;
	}
}

static void
report_payload(struct walk *w, const struct record *record, uint64_t offset, int error)
{
	inspect_report(w->inspect,
		       &(struct inspect_fault){
			       .severity = error == -ENOTSUP ? INSPECT_NEWER : INSPECT_DAMAGE,
			       .path = w->segment->path,
			       .offset = offset,
			       .size = record->size,
			       .first_lsn = record->lsn,
			       .last_lsn = record->lsn,
			       .meaning = error == -ENOTSUP ? "a record is of a newer version"
							    : "a record passes its check but "
							      "makes no sense",
			       .advice = repair_advice,
		       });
}

static int
hand_out(void *context, const struct record *record)
{
	struct walk *w = context;
	struct message_record message;
	struct inspect_place place = {
		.segment = w->segment,
		.offset = w->scan.start + (uint64_t)(record->p - w->scan.p),
		.alone = w->alone,
	};
	int error = check_payload(record, &message);

	if (error != 0) {
		report_payload(w, record, place.offset, error);
		return 0;
	}
	if (record->type == RECORD_MESSAGE && w->seen != NULL)
		seen_add(w->seen, &message, record->size, place.offset);
	if (w->inspect->ops->record != NULL && record->lsn >= w->range.from &&
	    record->lsn <= w->range.to)
		w->inspect->ops->record(w->inspect->context, &place, record);
	return 0;
}

/* ---- what is not valid ---- */

/* Hands out the records between two offsets that pass their check and have LSNs from fault_first to fault_last. */
static void
search_records(struct walk *w, uint64_t at, uint64_t end)
{
	struct scan *scan = &w->scan;
	uint64_t lsn = w->fault_first;

	w->alone = true;
	while (at + RECORD_HEADER_SIZE <= end && lsn <= w->fault_last) {
		struct bytes head = scan_view(scan, at, RECORD_HEADER_SIZE);
		struct record record;
		uint64_t size;

		if (head.n < RECORD_HEADER_SIZE)
			break;
		size = le32_load(head.p + RECORD_AT_SIZE);
		if (size < RECORD_HEADER_SIZE || size % RECORD_ALIGNMENT != 0 || size > end - at ||
		    head.p[RECORD_AT_TYPE] == RECORD_BATCH ||
		    le64_load(head.p + RECORD_AT_LSN) < lsn ||
		    le64_load(head.p + RECORD_AT_LSN) > w->fault_last ||
		    record_decode(&record, scan_view(scan, at, (size_t)size), scan->salt) != 0) {
			at += RECORD_ALIGNMENT;
			continue;
		}
		w->found++;
		hand_out(w, &record);
		lsn = record.lsn + 1;
		at += size;
	}
	w->alone = false;
}

/* The next valid batch that can be the log's going on; 0: there is none. */
static uint64_t
find_batch(struct walk *w, uint64_t at, struct batch_record *batch)
{
	uint64_t padded;

	for (at += BATCH_ALIGNMENT; at < w->scan.size; at += BATCH_ALIGNMENT) {
		int error = scan_batch(&w->scan, at, batch, &padded, NULL, NULL);

		if (w->scan.error != 0)
			return 0;
		if (error == 0 && batch->first_lsn >= w->next_lsn &&
		    (w->until == 0 || batch->first_lsn < w->until))
			return at;
	}
	return 0;
}

static void
report_range(struct walk *w, uint64_t offset, uint64_t end, const char *meaning)
{
	w->whole = false;
	w->found = 0;
	search_records(w, offset, end);
	inspect_report(w->inspect,
		       &(struct inspect_fault){
			       .severity = INSPECT_DAMAGE,
			       .path = w->segment->path,
			       .offset = offset,
			       .size = end - offset,
			       .first_lsn = w->fault_last >= w->fault_first ? w->fault_first : 0,
			       .last_lsn = w->fault_last >= w->fault_first ? w->fault_last : 0,
			       .readable = w->found,
			       .meaning = meaning,
			       .advice = repair_advice,
		       });
}

static bool
is_zero(struct bytes octets)
{
	for (size_t i = 0; i < octets.n; i++)
		if (octets.p[i] != 0)
			return false;
	return true;
}

/* It was sealed, and the next one is not in use yet. */
static bool
has_footer_at(const struct walk *w, uint64_t offset)
{
	struct footer footer;

	return footer_open(&footer, w->scan.file) == 0 && footer.end == offset;
}

/* The last segment ends at offset with nothing valid that counts behind it. */
static void
end_of_log(struct walk *w, uint64_t offset)
{
	uint64_t checkpoint = w->inspect->superblock.checkpoint;
	bool is_short = w->next_lsn != 0 && w->next_lsn <= checkpoint;

	if (is_short) {
		w->fault_first = w->next_lsn;
		w->fault_last = checkpoint;
		report_range(w, offset, w->scan.size,
			     "the batch is not valid, and a checkpoint goes further");
	} else if (!has_footer_at(w, offset) &&
		   !is_zero(scan_view(&w->scan, offset, BATCH_ALIGNMENT))) {
		inspect_report(
			w->inspect,
			&(struct inspect_fault){
				.severity = INSPECT_NOTE,
				.path = w->segment->path,
				.offset = offset,
				.size = w->scan.size - offset,
				.meaning = "the log ends here; what stands behind it was never "
					   "reported as safe (a torn tail)",
				.advice = "nothing: the next start of the broker cuts it off",
			});
	}
}

/* The last one of the segment, as far as it is known; 0: it is not. */
static uint64_t
last_lsn(const struct walk *w)
{
	if (w->known_last != 0)
		return w->known_last;
	return w->until != 0 ? w->until - 1 : 0;
}

/* No batch that goes on with the log stands at offset. Returns where one does, 0 when none does. */
static uint64_t
skip_fault(struct walk *w, uint64_t offset)
{
	struct batch_record batch = {0};
	uint64_t at;
	bool later;

	if (w->scan.error != 0) {
		w->fault_first = w->next_lsn;
		w->fault_last = last_lsn(w);
		report_range(w, offset, w->scan.size, strerror(-w->scan.error));
		w->next_lsn = max_u64(w->next_lsn, w->fault_last + 1);
		return 0;
	}
	later = w->until != 0 || w->known_end != 0 ||
		scan_finds_group(&w->scan, offset, w->chain.group + 2);
	at = find_batch(w, offset, &batch);
	if (!later || (at == 0 && last_lsn(w) == 0)) {
		end_of_log(w, offset);
		return 0;
	}
	w->fault_first = w->next_lsn;
	w->fault_last = at != 0 ? batch.first_lsn - 1 : last_lsn(w);
	report_range(w, offset, at != 0 ? at : w->scan.size,
		     w->until != 0 ? "the batch is not valid, and the log goes on behind it"
				   : "the batch is not valid, but later ones are");
	w->next_lsn = w->fault_last + 1;
	w->chain = (struct writer){.group = w->chain.group};
	return at;
}

/* ---- batches ---- */

/* Its LSN goes on; whether its history is that of the batch before. */
static void
check_chain(struct walk *w, const struct batch_record *batch, uint64_t offset)
{
	if (w->chain.number == 0 ||
	    (batch->number == w->chain.number + 1 && batch->previous == w->chain.digest))
		return;
	inspect_report(w->inspect,
		       &(struct inspect_fault){
			       .severity = INSPECT_DAMAGE,
			       .path = w->segment->path,
			       .offset = offset,
			       .meaning = batch->number == w->chain.number + 1
						  ? "the chain of digests breaks: the batch before "
						    "it was another one when it was written"
						  : "batches are missing before this one",
			       .advice = repair_advice,
		       });
}

/* The records of a valid batch. */
static void
walk_batch(struct walk *w, uint64_t offset, const struct batch_record *batch)
{
	struct inspect *inspect = w->inspect;
	struct inspect_place place = {.segment = w->segment, .offset = offset};
	uint64_t last = batch->first_lsn + batch->count - 1;
	struct batch_record again;
	uint64_t padded;
	int error;

	if (last >= w->range.from && batch->first_lsn <= w->range.to && inspect->ops->batch != NULL)
		inspect->ops->batch(inspect->context, &place, batch);
	error = scan_batch(&w->scan, offset, &again, &padded, hand_out, w);
	if (error != 0)
		report_range(w, offset, offset + padded, "it cannot be read a second time");
	w->chain = (struct writer){batch->number, batch->digest, batch->group};
	w->next_lsn = last + 1;
}

static void
report_newer(struct walk *w, uint64_t offset, uint64_t size)
{
	w->whole = false;
	inspect_report(w->inspect,
		       &(struct inspect_fault){
			       .severity = INSPECT_NEWER,
			       .path = w->segment->path,
			       .offset = offset,
			       .size = size,
			       .meaning = "a batch holds what only a newer version knows",
			       .advice = "use the newer pannierctl and pannierd",
		       });
}

/* Looks at the batch at offset. Returns where to go on, 0: nowhere. */
static uint64_t
step(struct walk *w, uint64_t offset)
{
	struct batch_record batch;
	uint64_t padded = 0;
	int error = scan_batch(&w->scan, offset, &batch, &padded, NULL, NULL);

	if (error == -ENOTSUP && padded != 0) {
		report_newer(w, offset, padded);
		w->next_lsn = batch.first_lsn + batch.count;
		w->chain = (struct writer){batch.number, batch.digest, batch.group};
		return offset + padded;
	}
	if (w->next_lsn == 0 && error == 0)
		w->next_lsn = batch.first_lsn;
	if (error != 0 || batch.first_lsn < w->next_lsn)
		return skip_fault(w, offset);
	if (batch.first_lsn > w->next_lsn) {
		if (w->until == 0 && batch.group < w->chain.group + 2 &&
		    !scan_finds_group(&w->scan, offset, w->chain.group + 2)) {
			end_of_log(w, offset);
			return 0;
		}
		w->fault_first = w->next_lsn;
		w->fault_last = batch.first_lsn - 1;
		report_range(w, offset, offset, "records are missing before this batch");
	} else {
		check_chain(w, &batch, offset);
	}
	walk_batch(w, offset, &batch);
	return offset + padded;
}

static void
progress(struct walk *w, uint64_t octets)
{
	struct inspect *inspect = w->inspect;

	inspect->done += octets;
	if (inspect->ops->progress != NULL)
		inspect->ops->progress(inspect->context, inspect->done, inspect->total);
}

static void
walk_batches(struct walk *w)
{
	uint64_t offset = SEGMENT_HEADER_SIZE;

	while (offset < w->scan.size && (w->known_end == 0 || offset < w->known_end) &&
	       (w->until == 0 || w->next_lsn < w->until)) {
		uint64_t next = step(w, offset);

		if (next == 0)
			break;
		progress(w, next - offset);
		offset = next;
	}
	if (w->until != 0 && w->next_lsn > w->until)
		inspect_report(
			w->inspect,
			&(struct inspect_fault){
				.severity = INSPECT_DAMAGE,
				.path = w->segment->path,
				.offset = offset,
				.meaning = "the next segment begins in the middle of a batch",
				.advice = repair_advice,
			});
	w->segment->end = offset;
}

/* ---- merged segments: records without batches ---- */

/* The last LSN that a merged segment can have. */
static uint64_t
last_of_merged(const struct walk *w)
{
	if (w->segment->sealed_lsn != 0)
		return w->segment->sealed_lsn;
	return last_lsn(w) != 0 ? last_lsn(w) : UINT64_MAX;
}

/* Only the footer says where the records of a merged segment end. */
static void
report_endless(struct walk *w)
{
	w->whole = false;
	inspect_report(
		w->inspect,
		&(struct inspect_fault){
			.severity = INSPECT_DAMAGE,
			.path = w->segment->path,
			.offset = w->scan.size,
			.meaning = "the footer of a merged segment is not valid",
			.advice = "the broker does not start on it; `repair' reads the records "
				  "without it",
		});
}

/* The record at an offset; whether it is valid and its LSN is one of those. */
static bool
read_record(struct walk *w, uint64_t at, struct record *record, uint64_t first, uint64_t last)
{
	struct bytes head = scan_view(&w->scan, at, RECORD_HEADER_SIZE);
	size_t size = head.n < RECORD_HEADER_SIZE ? 0 : le32_load(head.p + RECORD_AT_SIZE);

	return record_decode(record, scan_view(&w->scan, at, size), w->scan.salt) == 0 &&
	       record->lsn >= first && record->lsn <= last;
}

/* What is behind a record that is not valid, up to the end of the records, is looked through. */
static void
walk_records(struct walk *w)
{
	bool has_end = w->known_end != 0;
	uint64_t end = has_end ? w->known_end : w->scan.size;
	uint64_t last = last_of_merged(w);
	uint64_t at = SEGMENT_HEADER_SIZE;
	uint64_t lsn = w->segment->first_lsn;
	struct record record;

	if (!has_end)
		report_endless(w);
	while (at < end && read_record(w, at, &record, lsn, last)) {
		hand_out(w, &record);
		lsn = record.lsn + 1;
		at += record.size;
		progress(w, record.size);
	}
	w->segment->end = at;
	if (at < end && has_end) {
		w->fault_first = lsn;
		w->fault_last = last;
		report_range(w, at, end, "a record of a merged segment is not valid");
	}
	/* LSNs have gaps here: what was garbage is gone */
	w->next_lsn = last != UINT64_MAX ? last + 1 : lsn;
	w->chain = (struct writer){.group = w->chain.group};
}

/* ---- segments ---- */

/* The segment begins where the one before ended, or there is a reason why not. */
static void
check_begin(struct walk *w, bool first)
{
	struct inspect *inspect = w->inspect;
	uint64_t begin = w->segment->first_lsn;
	uint64_t expected = first ? 1 : w->next_lsn;

	if (!first && (begin == expected || w->segment->headless))
		return;
	w->next_lsn = w->segment->headless ? 0 : begin;
	w->chain = (struct writer){.group = w->chain.group};
	if (w->skipped || begin <= expected || begin <= inspect->newest + 1)
		return;
	inspect_report(inspect, &(struct inspect_fault){
					.severity = INSPECT_DAMAGE,
					.path = w->segment->path,
					.first_lsn = expected,
					.last_lsn = begin - 1,
					.meaning = "the log before this segment is missing",
					.advice = repair_advice,
				});
}

/* A file without a header at the end of the log: a torn tail unless it was synced. */
static bool
is_torn(struct walk *w)
{
	if (!w->segment->headless || w->until != 0)
		return false;
	if (scan_finds_group(&w->scan, SEGMENT_HEADER_SIZE, w->chain.group + 2)) {
		inspect_report(w->inspect,
			       &(struct inspect_fault){
				       .severity = INSPECT_DAMAGE,
				       .path = w->segment->path,
				       .meaning = "its header is not valid, but batches in it are",
				       .advice = repair_advice,
			       });
		return false;
	}
	inspect_report(w->inspect,
		       &(struct inspect_fault){
			       .severity = INSPECT_NOTE,
			       .path = w->segment->path,
			       .meaning = "its header was not written as a whole, so nothing in it "
					  "was ever reported as safe (a torn tail)",
			       .advice = "nothing: the next start of the broker removes it",
		       });
	return true;
}

/* Where the segment ends: what its footer says, unless a start has cut it since; else what the checkpoint says. */
static void
find_end(struct walk *w)
{
	const struct known_segment *known = inspect_known(w->inspect, w->segment->id);
	struct footer footer;

	w->known_end = w->known_last = 0;
	if (footer_open(&footer, w->scan.file) == 0 &&
	    (w->segment->generation == 0 || footer.last_lsn == last_of_merged(w))) {
		w->known_end = footer.end;
		w->known_last = footer.last_lsn;
	} else if (known != NULL && known->state.end != 0 && w->segment->generation == 0) {
		w->known_end = known->state.end;
		w->known_last = known->state.last_lsn;
	}
	if (w->until != 0 && w->known_last >= w->until)
		w->known_end = w->known_last = 0;
}

static void
walk_segment(struct walk *w, bool first)
{
	struct seen seen = {.refs = NULL};
	int error = scan_open(&w->scan, w->inspect->disk, w->segment->id);

	if (error != 0)
		return;
	w->scan.salt = w->segment->salt;
	w->whole = true;
	find_end(w);
	w->seen = w->range.footers ? &seen : NULL;
	w->segment->last_lsn = w->segment->end = 0;
	if (!is_torn(w)) {
		check_begin(w, first);
		if (w->segment->generation > 0)
			walk_records(w);
		else
			walk_batches(w);
		w->segment->last_lsn = w->next_lsn - (w->next_lsn > 0);
		inspect_footer(w->inspect, w->segment, &w->scan, w->whole ? w->seen : NULL);
	}
	xfree(seen.refs);
	scan_close(&w->scan);
}

/* Segments that have something of the range. */
static bool
is_wanted(const struct walk *w, const struct inspect_segment *segment, uint64_t until)
{
	return (until == 0 || until > w->range.from) && segment->first_lsn <= w->range.to;
}

uint64_t
inspect_walk(struct inspect *inspect, struct inspect_range range)
{
	struct walk w = {.inspect = inspect, .range = range};
	bool first = true;

	inspect->done = inspect->total = 0;
	for (size_t i = 0; i < inspect->used; i++)
		inspect->total += inspect->segments[i].size;
	for (size_t i = 0; i < inspect->used; i++) {
		uint64_t walked = inspect->done;

		w.segment = &inspect->segments[i];
		w.until = i + 1 < inspect->used ? inspect->segments[i + 1].first_lsn : 0;
		if (is_wanted(&w, w.segment, w.until)) {
			walk_segment(&w, first);
			first = w.skipped = false;
		} else {
			first = w.skipped = true;
		}
		inspect->done = walked;
		progress(&w, w.segment->size);
	}
	if (inspect->used == 0 && inspect->superblock.checkpoint > 0)
		inspect_report(inspect, &(struct inspect_fault){
						.severity = INSPECT_DAMAGE,
						.path = LOG_FOLDER,
						.first_lsn = 1,
						.last_lsn = inspect->superblock.checkpoint,
						.meaning = "there is no segment, but a checkpoint",
						.advice = repair_advice,
					});
	return w.next_lsn == 0 ? 0 : w.next_lsn - 1;
}
