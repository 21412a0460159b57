/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is given is the earliest of four heaps in memory (the batch that fills, two tails, and `late`) and of the
 * heap of cursors, which is ordered by the first item that each has left or, when its piece is not at hand, by
 * what is known of that. A cursor that comes to be the first without its piece has it read by the helper, and
 * nothing behind it is given before that is there.
 */
#include "timed.h"

#include <errno.h>

#include "tail.h"
#include "reader.h"

/* So many items are looked at in one go, then others have their turn: most may be settled. */
#define LOOKS 4096
/* A piece is read so long before it is due, and kept for so long before, else read again: most segments must cost
 * next to nothing. */
#define AHEAD_MS 500
#define KEEP_MS 10000
/* Items of a heap for which nobody looks whether they are of any use still. */
#define TIDY_MIN 1024
/* Octets that must be free for the index of an older version to be made anew, which takes as much as it has. */
#define ROOM_TO_REBUILD ((int64_t)128 * 1024 * 1024)

/* ---- the heap of cursors ---- */

static struct timed
first_of(const struct segment *segment)
{
	const struct timed_cursor *cursor = &segment->timed;

	if (cursor->piece.items != NULL)
		return cursor->piece.items[cursor->piece.at];
	return (struct timed){.time_ms = cursor->next_ms};
}

static bool
is_sooner(const struct segment *a, const struct segment *b)
{
	struct timed x = first_of(a);
	struct timed y = first_of(b);

	return timed_is_before(&x, &y);
}

static void
put(struct timed_index *index, uint32_t at, struct segment *segment)
{
	index->cursors[at] = segment;
	segment->timed.place = at + 1;
}

/* Puts it at this place, a hole, or above or below that, where it belongs. */
static void
settle(struct timed_index *index, uint32_t at, struct segment *segment)
{
	for (; at > 0 && is_sooner(segment, index->cursors[(at - 1) / 2]); at = (at - 1) / 2)
		put(index, at, index->cursors[(at - 1) / 2]);
	for (uint32_t child; (child = 2 * at + 1) < index->count; at = child) {
		if (child + 1 < index->count &&
		    is_sooner(index->cursors[child + 1], index->cursors[child]))
			child++;
		if (!is_sooner(index->cursors[child], segment))
			break;
		put(index, at, index->cursors[child]);
	}
	put(index, at, segment);
}

static void
take_off(struct timed_index *index, struct segment *segment)
{
	uint32_t at = segment->timed.place - 1;
	struct segment *last;

	if (segment->timed.place == 0)
		return;
	assert(index->cursors[at] == segment);
	last = index->cursors[--index->count];
	segment->timed.place = 0;
	if (last != segment)
		settle(index, at, last);
}

/* Its first item, or what is known of that, is another now. */
static void
place(struct timed_index *index, struct segment *segment)
{
	bool is_over = segment->timed.piece.items == NULL && segment->timed.next_ms == UINT64_MAX;

	if (is_over) {
		take_off(index, segment);
		return;
	}
	if (segment->timed.place == 0) {
		if (index->count == index->room) {
			index->room = index->room == 0 ? 8 : 2 * index->room;
			index->cursors =
				xrealloc(index->cursors, index->room * sizeof(struct segment *));
		}
		put(index, index->count++, segment);
	}
	settle(index, segment->timed.place - 1, segment);
}

/* ---- cursors ---- */

static void
drop_piece(struct timed_cursor *cursor)
{
	xfree(cursor->piece.items);
	cursor->piece.items = NULL;
}

/* What is before `given` was given, or is in memory now. */
static void
cursor_reset(struct store *store, struct segment *segment, uint64_t first_ms)
{
	struct timed_cursor *cursor = &segment->timed;

	drop_piece(cursor);
	cursor->piece = (struct timed_piece){0};
	cursor->ticket++;
	cursor->reading = false;
	cursor->next_ms =
		first_ms == UINT64_MAX ? UINT64_MAX : max_u64(first_ms, store->timed.given.time_ms);
	place(&store->timed, segment);
}

void
timed_sealed(struct store *store, struct segment *segment, uint64_t first_ms)
{
	struct timed_heap *heap = segment->tail == NULL ? NULL : &segment->tail->timed;

	/* those are not found in its section any more */
	while (heap != NULL && heap->count > 0 &&
	       !timed_is_before(&store->timed.given, &heap->items[0])) {
		struct timed item = timed_heap_pop(heap);

		timed_heap_push(&store->timed.late, &item);
	}
	cursor_reset(store, segment, first_ms);
}

void
timed_forget(struct store *store, struct segment *segment)
{
	take_off(&store->timed, segment);
	drop_piece(&segment->timed);
}

void
timed_fini(struct store *store)
{
	assert(store->timed.count == 0);
	xfree(store->timed.cursors);
	timed_heap_fini(&store->timed.late);
}

/* ---- reading ---- */

struct timed_job {
	struct mail mail;
	struct reader *reader;
	struct segment_place place;
	struct timed after;
	uint32_t ticket;
	uint32_t hint;
	struct timed_piece piece;
	int error;
};

static int
find(const struct reader_slot *slot, const struct timed *after, uint32_t hint,
     struct timed_piece *piece)
{
	if (!slot->has_footer || !slot->footer.has_timed)
		return -EBADMSG;
	return footer_timed_find(&slot->footer, after, hint, piece);
}

/* Whether its footer can be made anew: one of an older version is as good as before when there is no room. */
static bool
may_rebuild(const struct reader *reader, const struct reader_slot *slot)
{
	int64_t space;

	if (!slot->has_footer || slot->footer.has_timed)
		return true;
	space = disk_free_space(reader->disk);
	return space < 0 || space >= ROOM_TO_REBUILD;
}

int
timed_find(struct reader *reader, const struct segment_place *place, const struct timed *after,
	   uint32_t hint, struct reader_slot **slot, struct timed_piece *piece)
{
	int error = reader_open(reader, place->id, slot);

	*piece = (struct timed_piece){.next_ms = UINT64_MAX};
	if (error != 0)
		return error;
	error = find(*slot, after, hint, piece);
	if (error != -EBADMSG || !may_rebuild(reader, *slot))
		return error;
	error = reader_rebuild(reader, slot, place);
	return error == 0 ? find(*slot, after, hint, piece) : error;
}

static void
run_timed(struct mail *mail)
{
	struct timed_job *job = container_of(mail, struct timed_job, mail);
	struct reader_slot *slot;

	job->error =
		timed_find(job->reader, &job->place, &job->after, job->hint, &slot, &job->piece);
}

/* The helper has found the next items of a segment, or that there are none. */
static void
take_piece(struct store *store, struct segment *segment, struct timed_job *job)
{
	struct timed_cursor *cursor = &segment->timed;

	cursor->reading = false;
	cursor->piece = job->piece;
	cursor->next_ms = job->piece.next_ms;
	job->piece.items = NULL;
	if (cursor->piece.items != NULL &&
	    cursor->piece.items[cursor->piece.at].time_ms > store->timed.now_ms + KEEP_MS) {
		cursor->next_ms = cursor->piece.items[cursor->piece.at].time_ms;
		cursor->piece.next--; // it is read again
		drop_piece(cursor);
	}
	place(&store->timed, segment);
}

static void
timed_arrived(struct store *store, struct mail *mail)
{
	struct timed_job *job = container_of(mail, struct timed_job, mail);
	struct segment *segment = segment_by_id(store, job->place.id);
	bool is_wanted = segment != NULL && segment->timed.ticket == job->ticket;

	/* what cannot be read expires when it comes to hand */
	if (is_wanted && (job->error == -EBADMSG || job->error == -ENOSPC)) {
		log_error("store: the index of deadlines of log/%010llu.seg cannot be read, nor be "
			  "made anew: its messages are not seen to in time",
			  (unsigned long long)job->place.id);
		job->error = 0;
	}
	if (is_wanted && job->error == 0) {
		take_piece(store, segment, job);
		if (store->ops->deadlines != NULL && !store->closing)
			store->ops->deadlines(store->context);
	} else if (is_wanted) {
		store_fail(store, job->error, "the log could not be read");
	}
	xfree(job->piece.items);
	xfree(job);
}

/* Has the piece read in which the segment's first item is that is left. */
static void
read_piece(struct store *store, struct segment *segment)
{
	struct timed_cursor *cursor = &segment->timed;
	struct timed_job *job;

	if (cursor->reading || store->closing || store->failed)
		return;
	job = xcalloc(1, sizeof(*job));
	*job = (struct timed_job){
		.mail = {.run = run_timed, .arrive = timed_arrived},
		.reader = store->reader,
		.place = segment_place_of(segment),
		.after = store->timed.given,
		.ticket = cursor->ticket,
		.hint = cursor->piece.next,
	};
	cursor->reading = true;
	worker_send(&store->helper_thread, &job->mail);
}

/* ---- what is given ---- */

uint32_t
timed_heaps(struct store *store, struct timed_heap *heaps[TIMED_HEAPS])
{
	uint32_t n = 0;

	heaps[n++] = &store->filling->timed;
	heaps[n++] = &store->timed.late;
	for (size_t i = store->segment_count; i > 0 && n < TIMED_HEAPS; i--) {
		struct segment *segment = store->segments[i - 1];

		if (segment->tail == NULL)
			break;
		heaps[n++] = &segment->tail->timed;
	}
	return n;
}

/* The heap in memory whose first item is the earliest; NULL: all are empty. */
static struct timed_heap *
first_heap(struct store *store)
{
	struct timed_heap *heaps[TIMED_HEAPS];
	struct timed_heap *first = NULL;
	uint32_t n = timed_heaps(store, heaps);

	for (uint32_t i = 0; i < n; i++)
		if (heaps[i]->count > 0 &&
		    (first == NULL || timed_is_before(&heaps[i]->items[0], &first->items[0])))
			first = heaps[i];
	return first;
}

/* Of the cursors; NULL: none has any left. */
static struct segment *
first_cursor(const struct store *store)
{
	return store->timed.count == 0 ? NULL : store->timed.cursors[0];
}

/* Whether an item of that time is due soon. */
static bool
is_near(const struct store *store, uint64_t time_ms)
{
	return time_ms <= store->timed.now_ms + AHEAD_MS;
}

/* The first item of a cursor whose piece is at hand. */
static struct timed
take_of_cursor(struct store *store, struct segment *segment, struct stored_place *at)
{
	struct timed_cursor *cursor = &segment->timed;
	struct timed item = cursor->piece.items[cursor->piece.at++];

	*at = (struct stored_place){segment->first_lsn, item.share, item.body_size,
				    (uint32_t)(item.offset / RECORD_ALIGNMENT)};
	if (cursor->piece.at == cursor->piece.count) {
		drop_piece(cursor);
		if (is_near(store, cursor->next_ms))
			read_piece(store, segment);
	}
	place(&store->timed, segment);
	return item;
}

/* The earliest item, when it is due and at hand; at: where its record is. */
static bool
take_first(struct store *store, uint64_t now_ms, struct timed *item, struct stored_place *at)
{
	struct timed_heap *heap = first_heap(store);
	struct segment *segment = first_cursor(store);
	struct timed first = {.time_ms = UINT64_MAX};

	if (segment != NULL) {
		first = first_of(segment);
		if (segment->timed.piece.items == NULL && is_near(store, first.time_ms))
			read_piece(store, segment);
	}
	if (heap != NULL && (segment == NULL || timed_is_before(&heap->items[0], &first))) {
		if (heap->items[0].time_ms > now_ms)
			return false;
		*item = timed_heap_pop(heap);
		*at = (struct stored_place){item->lsn, item->share, item->body_size, 0};
	} else {
		if (segment == NULL || first.time_ms > now_ms)
			return false;
		if (segment->timed.piece.items == NULL)
			return false;
		*item = take_of_cursor(store, segment, at);
	}
	if (timed_is_before(&store->timed.given, item))
		store->timed.given = *item;
	return true;
}

uint32_t
store_take_deadlines(struct store *store, uint64_t now_ms, struct store_deadline *out, uint32_t max)
{
	uint32_t n = 0;
	struct timed item;
	struct stored_place at;

	assert_thread(THREAD_BROKER);
	store->timed.now_ms = now_ms;
	for (unsigned i = 0; n < max && i < LOOKS && take_first(store, now_ms, &item, &at); i++) {
		struct queue_log *log = queue_log_find(store, item.queue_id);

		if (log == NULL || qseq_set_has(&log->settled, item.qseq))
			continue;
		out[n++] = (struct store_deadline){
			.log = log,
			.qseq = item.qseq,
			.time_ms = item.time_ms,
			.place = at,
		};
	}
	return n;
}

uint64_t
store_next_deadline(struct store *store)
{
	const struct timed_heap *heap = first_heap(store);
	const struct segment *segment = first_cursor(store);
	uint64_t next_ms = heap == NULL ? UINT64_MAX : heap->items[0].time_ms;
	struct timed first;

	if (segment == NULL)
		return next_ms;
	first = first_of(segment);
	/* nothing behind what is being read is given before that is there */
	if (segment->timed.reading)
		return heap != NULL && timed_is_before(&heap->items[0], &first) ? next_ms
										: UINT64_MAX;
	if (segment->timed.piece.items == NULL)
		first.time_ms -= min_u64(first.time_ms, AHEAD_MS);
	return min_u64(next_ms, first.time_ms);
}

void
timed_tell(struct store *store)
{
	uint64_t next_ms = store_next_deadline(store);
	bool is_sooner_now = next_ms < store->timed.told_ms;

	store->timed.told_ms = next_ms;
	if (is_sooner_now && store->ops->deadlines != NULL)
		store->ops->deadlines(store->context);
}

/* ---- what is added ---- */

static bool
is_open(const void *context, const struct timed *item)
{
	const struct queue_log *log = queue_log_find(context, item->queue_id);

	return log != NULL && !qseq_set_has(&log->settled, item->qseq);
}

void
timed_tidy(struct store *store, struct timed_heap *heap)
{
	if (heap->count < max_u64(heap->tidy_at, TIDY_MIN))
		return;
	timed_heap_filter(heap, is_open, store);
	heap->tidy_at = 2 * heap->count;
}

void
timed_add(struct store *store, const struct timed *item)
{
	timed_heap_push(&store->filling->timed, item);
}
