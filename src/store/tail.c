/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries lie in chunks in the order of the log, so adding is a write behind the last one; a whole tail
 * is freed at once when its segment has a footer. The places in the queues then speak of a segment that
 * is no tail any more, and are taken over by the next one.
 */
#include "tail.h"

#define CHUNK_ENTRIES 4096

struct tail *
tail_new(uint64_t segment_id)
{
	struct tail *tail = xcalloc(1, sizeof(*tail));

	tail->segment_id = segment_id;
	return tail;
}

void
tail_free(struct tail **freed)
{
	struct tail *tail = *freed;

	if (tail == NULL)
		return;
	for (uint32_t i = 0; i * CHUNK_ENTRIES < tail->count; i++)
		slab_free(tail->chunks[i], CHUNK_ENTRIES * sizeof(struct tail_entry));
	xfree(tail->chunks);
	timed_heap_fini(&tail->timed);
	xfree(tail);
	*freed = NULL;
}

static struct tail_entry *
next_entry(struct tail *tail)
{
	uint32_t chunk = tail->count / CHUNK_ENTRIES;

	if (tail->count % CHUNK_ENTRIES == 0) {
		if (chunk == tail->chunk_room) {
			tail->chunk_room = tail->chunk_room == 0 ? 16 : 2 * tail->chunk_room;
			tail->chunks = xrealloc(tail->chunks,
						tail->chunk_room * sizeof(struct tail_entry *));
		}
		tail->chunks[chunk] = slab_alloc(CHUNK_ENTRIES * sizeof(struct tail_entry));
	}
	return tail_entry(tail, tail->count++);
}

struct tail_place *
tail_place(struct queue_log *log, uint64_t segment_id)
{
	for (size_t i = 0; i < countof(log->tails); i++)
		if (log->tails[i].segment_id == segment_id)
			return &log->tails[i];
	return NULL;
}

/* The queue's first entry in this tail: the place of the older one of two others goes. */
static struct tail_place *
place_begin(struct queue_log *log, uint64_t segment_id, uint64_t qseq)
{
	log->tails[0] = log->tails[1];
	log->tails[1] = (struct tail_place){.segment_id = segment_id, .first_qseq = qseq};
	return &log->tails[1];
}

void
tail_add(struct tail *tail, struct queue_log *log, uint64_t qseq, uint64_t offset, uint32_t share)
{
	struct tail_entry *entry = next_entry(tail);
	struct tail_place *place = &log->tails[1];

	*entry = (struct tail_entry){
		.qseq = (uint32_t)qseq,
		.offset = (uint32_t)(offset / RECORD_ALIGNMENT),
		.share = share,
	};
	if (place->segment_id != tail->segment_id)
		place = place_begin(log, tail->segment_id, qseq);
	else
		tail_entry(tail, place->last - 1)->next = tail->count;
	place->last = tail->count;
	if (place->first == 0)
		place->first = tail->count;
	if (place->cursor == 0)
		place->cursor = tail->count;
}

void
tail_add_batch(struct tail *tail, const struct batch *batch, uint64_t offset)
{
	uint32_t ref = 0;

	for (size_t at = BATCH_SIZE; at < batch->size;) {
		const uint8_t *p = batch->p + at;
		uint32_t size = le32_load(p + RECORD_AT_SIZE);
		uint32_t refs = p[RECORD_AT_TYPE] == RECORD_MESSAGE
					? le32_load(p + MESSAGE_AT_REF_COUNT)
					: 0;

		for (uint32_t i = 0; i < refs; i++) {
			struct queue_log *log = batch->logs[ref++];

			if (log != NULL)
				tail_add(tail, log,
					 le64_load(p + MESSAGE_AT_REFS + i * MESSAGE_REF_SIZE + 8),
					 offset + at,
					 (uint32_t)min_u64(store_share(size, refs), UINT32_MAX));
		}
		at += size;
	}
	assert(ref == batch->log_count);
}
