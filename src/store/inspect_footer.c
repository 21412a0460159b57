/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A footer must say what a scan of its segment finds: the same references in the same order. It is an index, so what
 * is wrong with it costs time, not messages: but a wrong one that passes its checks would hide some.
 */
#include "inspecting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "footer.h"

void
seen_add(struct seen *seen, const struct message_record *message, uint32_t record_size,
	 uint64_t offset)
{
	struct ref_times times = ref_times_of(message);

	for (uint32_t i = 0; i < message->ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(message->refs + (size_t)i * MESSAGE_REF_SIZE);

		if (seen->count == seen->room) {
			seen->room = seen->room == 0 ? 1024 : 2 * seen->room;
			seen->refs = xrealloc(seen->refs, seen->room * sizeof(*seen->refs));
		}
		seen->refs[seen->count++] = (struct seen_ref){
			.queue_id = ref.queue_id,
			.qseq = ref.qseq,
			.offset = offset,
			.share = store_share(record_size, message->ref_count),
			.time_ms = ref_times_next(&times, ref.flags),
			.body_size = (uint32_t)message->body.n,
			.priority = ref.priority,
			.flags = (uint16_t)((message->ref_count > 1 ? ENTRY_SHARED : 0) |
					    (ref.flags & REF_DEADLINE ? ENTRY_DEADLINE : 0) |
					    (ref.flags & REF_DUE ? ENTRY_DUE : 0)),
		};
	}
}

static int
by_stream(const void *a, const void *b)
{
	const struct seen_ref *x = a;
	const struct seen_ref *y = b;

	if (x->queue_id != y->queue_id)
		return x->queue_id < y->queue_id ? -1 : 1;
	if (x->priority != y->priority)
		return x->priority < y->priority ? -1 : 1;
	return x->qseq < y->qseq ? -1 : x->qseq > y->qseq;
}

static bool
is_same(const struct footer_run *run, const struct footer_entry *entry, const struct seen_ref *ref)
{
	return run->queue_id == ref->queue_id && run->priority == ref->priority &&
	       entry->qseq == ref->qseq && entry->offset == ref->offset &&
	       entry->body_size == ref->body_size && entry->flags == ref->flags;
}

/* Whether the run is the next references seen, from *at on, which it then passes. */
static bool
compare_run(const struct footer *footer, const struct footer_run *run, const struct seen *seen,
	    size_t *at)
{
	struct footer_entry *entries;
	uint64_t body_octets = 0;
	uint64_t share = 0;
	bool same;

	if (run->count > seen->count - *at)
		return false;
	entries = xcalloc(run->count, sizeof(*entries));
	same = footer_entries(footer, run, 0, run->count, entries) == 0;
	for (uint32_t i = 0; same && i < run->count; i++) {
		const struct seen_ref *ref = &seen->refs[(*at)++];

		same = is_same(run, &entries[i], ref);
		body_octets += ref->body_size;
		share += ref->share;
	}
	xfree(entries);
	return same && body_octets == run->body_octets && share == run->live_octets;
}

/* What the section TIMED should have, in its order; the caller frees it. */
static struct timed *
list_timed(const struct seen *seen, uint32_t *count)
{
	struct timed *timed = xcalloc(seen->count + 1, sizeof(*timed));

	*count = 0;
	for (size_t i = 0; i < seen->count; i++) {
		const struct seen_ref *ref = &seen->refs[i];

		if (ref->time_ms != 0)
			timed[(*count)++] = (struct timed){.time_ms = ref->time_ms,
							   .queue_id = ref->queue_id,
							   .qseq = ref->qseq,
							   .offset = ref->offset,
							   .share = (uint32_t)ref->share,
							   .body_size = ref->body_size};
	}
	timed_sort(timed, *count);
	return timed;
}

static bool
is_same_timed(const struct timed *a, const struct timed *b)
{
	return a->time_ms == b->time_ms && a->queue_id == b->queue_id && a->qseq == b->qseq &&
	       a->share == b->share && a->body_size == b->body_size && a->offset == b->offset;
}

static bool
compare_timed(const struct footer *footer, const struct seen *seen)
{
	uint32_t count;
	struct timed *timed = list_timed(seen, &count);
	bool same = count == footer->timed_count &&
		    footer->first_timed_ms == (count == 0 ? UINT64_MAX : timed[0].time_ms);

	for (uint32_t at = 0; same && at < count; at += TIMED_PIECE_ITEMS) {
		struct timed_piece piece = {0};
		uint32_t behind = at + TIMED_PIECE_ITEMS;

		same = footer_timed_piece(footer, at / TIMED_PIECE_ITEMS, &piece) == 0 &&
		       piece.next_ms == (behind < count ? timed[behind].time_ms : UINT64_MAX);
		for (uint32_t i = 0; same && i < piece.count; i++)
			same = is_same_timed(&piece.items[i], &timed[at + i]);
		xfree(piece.items);
	}
	xfree(timed);
	return same;
}

static bool
compare(const struct footer *footer, struct seen *seen)
{
	size_t at = 0;

	if (seen->count > 0)
		qsort(seen->refs, seen->count, sizeof(*seen->refs), by_stream);
	for (uint32_t i = 0; i < footer->run_count; i++) {
		struct footer_run run;

		if (footer_run(footer, i, &run) != 0 || !compare_run(footer, &run, seen, &at))
			return false;
	}
	return at == seen->count && (!footer->has_timed || compare_timed(footer, seen));
}

void
inspect_footer(struct inspect *inspect, struct inspect_segment *segment, struct scan *scan,
	       struct seen *seen)
{
	struct footer footer;
	int error = footer_open(&footer, scan->file);

	segment->footer = 0;
	if (error != 0)
		return;
	segment->footer = scan->size - footer.end;
	/* a start may have cut off the last batches since */
	if (seen == NULL || footer.last_lsn != segment->last_lsn)
		return;
	if (!compare(&footer, seen))
		inspect_report(inspect,
			       &(struct inspect_fault){
				       .severity = INSPECT_INDEX,
				       .path = segment->path,
				       .offset = footer.end,
				       .size = segment->footer,
				       .meaning = "its footer does not say what is in the segment",
				       .advice = "`repair --rebuild-index' makes a new one",
			       });
}
