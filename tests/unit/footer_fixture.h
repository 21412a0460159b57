/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of footers: segments that are written here, octet by octet, beside a plain list of what they
 * hold, and footers compared with that list.
 */
#pragma once

#include "store/footer.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/timed.h"
#include "util/mem.h"

#include "lib/disk_sim_check.h"

#define ID 42
#define QUEUES_MAX 10000
#define BATCH_ROOM 5000 /* octets after which a batch is ended */

/* A reference that was written. */
struct expected {
	uint64_t queue_id;
	uint64_t qseq;
	uint64_t offset;
	uint32_t body_size;
	uint32_t share;
	uint64_t time_ms; // 0: it has none
	uint16_t flags;
	uint8_t priority;
};

/* A segment, and the list. */
struct world {
	struct buf content; // of the file, up to the end of the last batch
	uint64_t id;
	uint32_t generation;
	uint32_t salt;
	uint64_t lsn; // of the last record
	size_t batch; // where the present one begins; 0: none
	struct batch_record record;
	struct expected *items; // owns
	size_t count;
	size_t room;
	uint64_t *next_qseq; // owns; by queue
	uint64_t random;
};

static const uint8_t uuid[STORE_UUID_SIZE] = "sixteen octets.";
static char path[PATH_MAX_SIZE];
static struct world world;
static struct world older; // the same segment when it was longer, or another one

/* ---- writing a segment ---- */

static inline uint64_t
random_below(struct world *w, uint64_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % n;
}

static inline void
world_init(struct world *w, uint64_t id, uint32_t generation, uint64_t seed)
{
	struct segment_header header = {
		.id = id, .generation = generation, .first_lsn = 1000, .term = 1};
	uint8_t octets[SEGMENT_HEADER_SIZE];

	*w = (struct world){
		.id = id,
		.generation = generation,
		.salt = segment_salt(uuid, id, generation),
		.lsn = 999,
		.record = {.number = 7, .group = 7},
		.next_qseq = xcalloc(QUEUES_MAX + 1, sizeof(uint64_t)),
		.random = seed,
	};
	for (size_t i = 0; i <= QUEUES_MAX; i++)
		w->next_qseq[i] = 1;
	memcpy(header.uuid, uuid, sizeof(uuid));
	segment_header_encode(octets, &header);
	buf_init(&w->content, 0);
	buf_add(&w->content, octets, sizeof(octets));
}

static inline void
world_fini(struct world *w)
{
	buf_fini(&w->content);
	xfree(w->items);
	xfree(w->next_qseq);
	*w = (struct world){.batch = 0};
}

/* Room for a record, in a batch where the segment has those. */
static inline uint8_t *
add_record(struct world *w, size_t size)
{
	static const uint8_t zeros[BATCH_SIZE];

	if (w->generation == 0 && w->batch == 0) {
		w->batch = w->content.n;
		w->record.first_lsn = w->lsn + 1;
		buf_add(&w->content, zeros, sizeof(zeros));
	}
	w->lsn++;
	return buf_reserve(&w->content, size);
}

static inline void
end_batch(struct world *w)
{
	size_t size = w->content.n - w->batch;
	size_t padded;

	if (w->batch == 0)
		return;
	w->record.previous = w->record.digest;
	batch_seal(w->content.p + w->batch, size - BATCH_SIZE, &w->record, w->salt);
	padded = batch_padded_size(w->batch, size);
	memset(buf_reserve(&w->content, padded - size), 0, padded - size);
	w->content.n = w->batch + padded;
	w->batch = 0;
	w->record.number++;
	w->record.group++;
}

static inline void
end_record(struct world *w, size_t size)
{
	if (w->generation != 0)
		record_seal(w->content.p + w->content.n, w->salt);
	w->content.n += size;
	if (w->batch != 0 && w->content.n - w->batch > BATCH_ROOM)
		end_batch(w);
}

static inline void
expect(struct world *w, const struct message_ref *ref, uint32_t ref_count, size_t size, size_t body,
       uint64_t time_ms)
{
	if (w->count == w->room) {
		w->room = w->room == 0 ? 64 : 2 * w->room;
		w->items = xrealloc(w->items, w->room * sizeof(*w->items));
	}
	w->items[w->count++] = (struct expected){
		.queue_id = ref->queue_id,
		.qseq = ref->qseq,
		.offset = w->content.n,
		.body_size = (uint32_t)body,
		.share = (uint32_t)size / ref_count,
		.time_ms = time_ms,
		.priority = ref->priority,
		.flags = (uint16_t)((ref_count > 1 ? ENTRY_SHARED : 0) |
				    ((ref->flags & REF_DEADLINE) != 0 ? ENTRY_DEADLINE : 0) |
				    ((ref->flags & REF_DUE) != 0 ? ENTRY_DUE : 0)),
	};
}

/* Times of one kind, behind p; returns their end. */
static inline uint8_t *
put_random_times(struct world *w, uint8_t *p, const struct message_ref *refs, uint32_t count,
		 enum ref_flag flag, uint64_t *times)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!(refs[i].flags & flag))
			continue;
		times[i] = 1 + random_below(w, 1000);
		le64_store(p, times[i]);
		p += 8;
	}
	return p;
}

static inline void
add_message(struct world *w, const struct message_ref *refs, uint32_t count, size_t body)
{
	static const uint8_t octets[4096];
	struct message_record message = {
		.ref_count = count, .properties = {octets, 20}, .body = {octets, body}};
	uint64_t times[8] = {0};
	size_t size;
	uint8_t *p;
	uint8_t *q;

	assert(count <= countof(times));
	message.expiry_ms = random_below(w, 4) == 0 ? 1 + random_below(w, 1000) : 0;
	for (uint32_t i = 0; i < count; i++) {
		times[i] = message.expiry_ms;
		message.time_count +=
			((refs[i].flags & REF_DEADLINE) != 0) + ((refs[i].flags & REF_DUE) != 0);
	}
	size = message_record_size(count, 0, 0, 20, body) + 8 * (size_t)message.time_count;
	p = add_record(w, size);
	message_record_encode(p, (uint32_t)size, w->lsn, &message);
	q = p + MESSAGE_AT_REFS + count * MESSAGE_REF_SIZE;
	q = put_random_times(w, q, refs, count, REF_DEADLINE, times);
	put_random_times(w, q, refs, count, REF_DUE, times);
	for (uint32_t i = 0; i < count; i++) {
		message_ref_encode(p + MESSAGE_AT_REFS + i * MESSAGE_REF_SIZE, &refs[i]);
		expect(w, &refs[i], count, size, body, times[i]);
	}
	end_record(w, size);
}

static inline void
add_other(struct world *w)
{
	uint8_t *p = add_record(w, PAIR_RECORD_SIZE);

	pair_record_encode(p, w->lsn, RECORD_QUEUE, 1, 0);
	end_record(w, PAIR_RECORD_SIZE);
}

/* What a random segment is made of. */
struct mixture {
	uint64_t queues;
	uint64_t messages;
	uint64_t shared; // references of one message at most
	uint64_t priorities;
	uint64_t gap; // how far a queue's next number may be
	uint64_t body;
};

static inline void
add_random_message(struct world *w, const struct mixture *m)
{
	struct message_ref refs[8];
	uint32_t count = (uint32_t)(1 + random_below(w, min_u64(m->shared, m->queues)));
	uint64_t queue = 1 + random_below(w, m->queues);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t at = 1 + (queue + i) % m->queues;

		w->next_qseq[at] += random_below(w, m->gap);
		refs[i] = (struct message_ref){
			/* ids of all sizes */
			.queue_id = at % 3 == 0 ? at << 32 : at,
			.qseq = w->next_qseq[at]++,
			.priority = (uint8_t)random_below(w, m->priorities),
			.flags = (uint8_t)(random_below(w, 8) == 0 ? random_below(w, 4) : 0),
		};
	}
	add_message(w, refs, count, random_below(w, m->body));
}

static inline void
add_random(struct world *w, const struct mixture *m)
{
	for (uint64_t i = 0; i < m->messages; i++) {
		add_random_message(w, m);
		if (random_below(w, 50) == 0)
			add_other(w);
	}
	end_batch(w);
}

/* Puts the file on the disk, with octets behind its end. */
static inline void
put_file(struct disk_sim *on, const struct world *w, const uint8_t *behind, size_t n)
{
	struct buf file;

	buf_init(&file, 0);
	buf_add(&file, w->content.p, w->content.n);
	buf_add(&file, behind, n);
	disk_sim_put(on, path, file.p, file.n);
	buf_fini(&file);
}

static inline int
build(struct disk_sim *on, const struct world *w)
{
	struct disk_file *file = must_open(&on->disk, path, DISK_WRITE);
	struct scan scan;
	int error;

	ck_assert_int_eq(scan_open(&scan, &on->disk, ID), 0);
	scan.id = w->id;
	scan.salt = w->salt;
	error = footer_build(file, &scan, w->content.n, w->lsn, w->generation, NULL);
	scan_close(&scan);
	disk_close(&file);
	return error;
}

/* ---- comparing ---- */

static inline int
compare_expected(const void *a, const void *b)
{
	const struct expected *x = a;
	const struct expected *y = b;

	if (x->queue_id != y->queue_id)
		return x->queue_id < y->queue_id ? -1 : 1;
	if (x->priority != y->priority)
		return x->priority < y->priority ? -1 : 1;
	return x->qseq < y->qseq ? -1 : x->qseq > y->qseq;
}

static inline bool
is_entry(const struct expected *item, const struct footer_entry *entry)
{
	return entry->offset == item->offset && entry->qseq == item->qseq &&
	       entry->flags == item->flags && entry->body_size == item->body_size;
}

/* One run against the list from item number at on. 0, or the error with which it is refused; never wrong. */
static inline int
check_run(const struct footer *footer, const struct world *w, uint32_t number, size_t at,
	  struct footer_run *run)
{
	static struct footer_entry entries[FOOTER_RUN_ENTRIES];
	const struct expected *item = w->items + at;
	uint64_t body = 0;
	uint64_t live = 0;
	int error = footer_run(footer, number, run);

	if (error == 0)
		error = footer_entries(footer, run, 0, run->count, entries);
	if (error != 0)
		return error;
	ck_assert_uint_le(run->count, w->count - at);
	for (uint32_t i = 0; i < run->count; i++) {
		if (!is_entry(item + i, &entries[i]) || item[i].queue_id != run->queue_id ||
		    item[i].priority != run->priority)
			ck_abort_msg("entry %u of run %u is wrong", i, number);
		body += item[i].body_size;
		live += item[i].share;
	}
	ck_assert_uint_eq(run->entry, at);
	ck_assert_uint_eq(run->first, item->qseq);
	ck_assert_uint_eq(run->last, item[run->count - 1].qseq);
	ck_assert_uint_eq(run->body_octets, body);
	ck_assert_uint_eq(run->live_octets, live);
	return 0;
}

/* References that have a time. */
static inline uint32_t
world_timed(const struct world *w)
{
	uint32_t count = 0;

	for (size_t i = 0; i < w->count; i++)
		count += w->items[i].time_ms != 0;
	return count;
}

static inline struct timed
timed_of(const struct expected *item)
{
	return (struct timed){.time_ms = item->time_ms,
			      .queue_id = item->queue_id,
			      .qseq = item->qseq,
			      .share = item->share,
			      .body_size = item->body_size,
			      .offset = item->offset};
}

static inline int
compare_timed(const void *a, const void *b)
{
	struct timed x = timed_of(a);
	struct timed y = timed_of(b);

	return timed_is_before(&x, &y) ? -1 : timed_is_before(&y, &x);
}

/* The list without what has no time, in order of time; the caller frees it. */
static inline struct expected *
list_timed(const struct world *w, uint32_t *count)
{
	struct expected *list = xcalloc(w->count + 1, sizeof(*list));

	*count = 0;
	for (size_t i = 0; i < w->count; i++)
		if (w->items[i].time_ms != 0)
			list[(*count)++] = w->items[i];
	qsort(list, *count, sizeof(*list), compare_timed);
	return list;
}

/* Finds what is behind any of them, and all of it from there on. */
static inline void
check_timed(const struct footer *footer, struct world *w)
{
	uint32_t count;
	struct expected *list = list_timed(w, &count);
	uint32_t step = 1 + count / 50;

	ck_assert(footer->has_timed);
	ck_assert_uint_eq(footer->timed_count, count);
	ck_assert_uint_eq(footer->first_timed_ms, count == 0 ? UINT64_MAX : list[0].time_ms);
	for (uint32_t at = 0; at <= count; at += step) {
		struct timed after = at == 0 ? (struct timed){0} : timed_of(&list[at - 1]);
		uint32_t hint = (uint32_t)random_below(w, at / TIMED_PIECE_ITEMS + 1);
		struct timed_piece piece;

		ck_assert_int_eq(footer_timed_find(footer, &after, hint, &piece), 0);
		ck_assert((piece.items == NULL) == (at == count));
		for (uint32_t i = at; piece.items != NULL && piece.at < piece.count; i++) {
			struct timed item = timed_of(&list[i]);

			ck_assert_mem_eq(&item, &piece.items[piece.at++], sizeof(item));
			if (piece.at == piece.count)
				ck_assert_uint_eq(piece.next_ms,
						  i + 1 < count ? list[i + 1].time_ms : UINT64_MAX);
		}
		xfree(piece.items);
	}
	free(list);
}

/* All that an open footer has. */
static inline void
check_all(const struct footer *footer, struct world *w)
{
	struct footer_run run;
	size_t at = 0;

	if (w->count > 0)
		qsort(w->items, w->count, sizeof(*w->items), compare_expected);
	ck_assert_uint_eq(footer->end, w->content.n);
	ck_assert_uint_eq(footer->last_lsn, w->lsn);
	ck_assert_uint_eq(footer->entry_count, w->count);
	for (uint32_t i = 0; i < footer->run_count; i++) {
		ck_assert_int_eq(check_run(footer, w, i, at, &run), 0);
		at += run.count;
	}
	ck_assert_uint_eq(at, w->count);
	check_timed(footer, w);
}

/* The first message of the queue and priority from a number on. */
static inline const struct expected *
model_find(const struct world *w, const struct expected *key)
{
	size_t low = 0;
	size_t high = w->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare_expected(&w->items[middle], key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == w->count || w->items[low].queue_id != key->queue_id ||
	    w->items[low].priority != key->priority)
		return NULL;
	return &w->items[low];
}

static inline void
check_find(const struct footer *footer, const struct world *w, const struct expected *key)
{
	const struct expected *item = model_find(w, key);
	struct footer_run run;
	uint32_t at;
	int error = footer_find(footer, key->queue_id, key->priority, key->qseq, &at);

	if (item == NULL) {
		ck_assert_int_eq(error, -ENOENT);
		return;
	}
	ck_assert_int_eq(error, 0);
	ck_assert_int_eq(footer_run(footer, at, &run), 0);
	if (run.queue_id != key->queue_id || run.priority != key->priority ||
	    run.first > item->qseq || run.last < item->qseq)
		ck_abort_msg("run %u is not the one", at);
}

/* Finds around random messages, and parts of runs. */
static inline void
check_finds(const struct footer *footer, struct world *w)
{
	for (unsigned i = 0; w->count > 0 && i < 2000; i++) {
		struct expected key = w->items[random_below(w, w->count)];

		key.qseq += random_below(w, 3) - 1;
		key.qseq += random_below(w, 4) == 0 ? random_below(w, 100000) : 0;
		key.priority = (uint8_t)(key.priority + (random_below(w, 8) == 0));
		key.queue_id += random_below(w, 8) == 0;
		check_find(footer, w, &key);
	}
	check_find(footer, w, &(struct expected){.queue_id = 0});
	check_find(footer, w, &(struct expected){.queue_id = (1ULL << 48) - 1, .priority = 255});
}

static inline void
check_parts(const struct footer *footer, struct world *w)
{
	for (unsigned i = 0; w->count > 0 && i < 100; i++) {
		static struct footer_entry entries[FOOTER_RUN_ENTRIES];
		struct footer_run run;
		uint32_t first;
		uint32_t count;

		ck_assert_int_eq(
			footer_run(footer, (uint32_t)random_below(w, footer->run_count), &run), 0);
		first = (uint32_t)random_below(w, run.count + 1U);
		count = (uint32_t)random_below(w, run.count - first + 1U);
		ck_assert_int_eq(footer_entries(footer, &run, first, count, entries), 0);
		for (uint32_t k = 0; k < count; k++)
			ck_assert(is_entry(&w->items[run.entry + first + k], &entries[k]));
	}
}

/* Builds on a file that ends with its batches, and compares everything; the footer survives a crash. */
static inline void
check_built(struct world *w)
{
	struct disk_file *file;
	struct footer footer;

	put_file(sim, w, NULL, 0);
	ck_assert_int_eq(build(sim, w), 0);
	disk_sim_crash(sim, SIM_NOTHING, 0);
	file = must_open(disk, path, DISK_READ);
	ck_assert_int_eq(footer_open(&footer, file), 0);
	check_all(&footer, w);
	check_finds(&footer, w);
	check_parts(&footer, w);
	ck_assert_uint_eq(footer.entries_at % RECORD_ALIGNMENT, 0);
	disk_close(&file);
}
