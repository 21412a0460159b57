/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a footer. A scan of the segment collects 16 octets for each reference, in the order of the log.
 * Since a queue's messages stand there in their order, nothing of that is sorted: each entry is linked
 * behind the one before of its queue and priority, its stream, and a run is made as soon as the last one
 * is full. Only the runs are sorted in the end. The sections are written piece by piece.
 *
 * A crash must leave no footer or a whole one. First the trailer of an older footer, if there is one, is made
 * void; then what is behind the records is cut off and the sections are written; then the trailer, which
 * makes them count. Each step is synced before the next begins. Octets before the end of the records are
 * never written.
 */
#include "footer.h"

#include <errno.h>
#include <stdlib.h>

#include "timed.h"
#include "util/crc32c.h"

/* Octets of a section that are gathered for one write. */
#define PIECE_SIZE ((size_t)256 * 1024)
/* Octets of the entries of a run. */
#define ENTRIES_SIZE ((size_t)FOOTER_RUN_ENTRIES * FOOTER_ENTRY_SIZE)
/* Runs that are encoded together. */
#define TURNS 8
#define FIRST_SLOTS 64
#define FIRST_ROOM 1024

/* A reference to a message. */
struct collected {
	uint32_t before; // index of the one before of its run; of the first one: 0
	uint32_t offset; // of the record, / RECORD_ALIGNMENT
	uint32_t body_size;
	uint16_t distance; // of its qseq from the first one of the run
	uint16_t flags;	   // enum footer_entry_flag
};

struct new_run {
	uint64_t stream; // queue id << 8 | priority
	uint64_t first;	 // qseq
	uint64_t body_octets;
	uint64_t record_octets;
	uint32_t tail; // index of its last reference
	uint16_t span; // distance of the last one
	uint16_t count;
};

struct build {
	struct scan *scan;	   // borrows
	uint64_t at;		   // offset of the record that comes next
	uint64_t end;		   // of the records
	uint64_t lsn;		   // of the last record
	struct collected *entries; // owns; in the order of the log
	uint32_t entry_count;
	uint32_t entry_room;
	struct new_run
		*runs; // owns; in the order in which they were begun, at last in that of format.h
	uint32_t run_count;
	uint32_t run_room;
	uint32_t *slots; // owns; open hash by stream: 1 + index of its latest run, 0: empty
	uint32_t slot_count;
	uint32_t stream_count;
	struct timed *timed; // owns; references that have a time
	uint32_t timed_count;
	uint32_t timed_room;
};

/* A section that is written piece by piece. */
struct section {
	struct disk_file *file; // borrows
	uint64_t at;		// of its header
	uint64_t size;		// octets up to now, without the header
	uint32_t crc;		// of those
	struct buf piece;	// what of them is not yet written
	int error;		// of the disk; sticky
};

/* ---- collecting ---- */

static uint32_t *
find_slot(const struct build *b, uint64_t stream)
{
	uint64_t hash = fold_u64(stream ^ 0x9e3779b97f4a7c15U, 0xd6e8feb86659fd93U);
	uint32_t at = (uint32_t)hash & (b->slot_count - 1);

	while (b->slots[at] != 0 && b->runs[b->slots[at] - 1].stream != stream)
		at = (at + 1) & (b->slot_count - 1);
	return &b->slots[at];
}

/* Makes room for one more stream. */
static void
grow_slots(struct build *b)
{
	if (b->stream_count < b->slot_count / 2)
		return;
	xfree(b->slots);
	b->slot_count = b->slot_count == 0 ? FIRST_SLOTS : 2 * b->slot_count;
	b->slots = xcalloc(b->slot_count, sizeof(*b->slots));
	/* the latest run of a stream comes last */
	for (uint32_t i = 0; i < b->run_count; i++)
		*find_slot(b, b->runs[i].stream) = i + 1;
}

static struct new_run *
add_run(struct build *b, uint64_t stream, uint64_t first)
{
	if (b->run_count == b->run_room) {
		b->run_room = b->run_room == 0 ? FIRST_ROOM : 2 * b->run_room;
		b->runs = xrealloc(b->runs, (size_t)b->run_room * sizeof(*b->runs));
	}
	assert(b->runs != NULL);
	b->runs[b->run_count] = (struct new_run){.stream = stream, .first = first};
	return &b->runs[b->run_count++];
}

/* The run that takes the next message of a stream; NULL when its number does not rise. */
static struct new_run *
run_for(struct build *b, uint64_t stream, uint64_t qseq)
{
	struct new_run *run = NULL;
	uint32_t *slot;

	grow_slots(b);
	slot = find_slot(b, stream);
	if (*slot == 0)
		b->stream_count++;
	else
		run = &b->runs[*slot - 1];
	if (run != NULL && qseq <= run->first + run->span)
		return NULL;
	if (run == NULL || run->count == FOOTER_RUN_ENTRIES || qseq - run->first > UINT16_MAX) {
		run = add_run(b, stream, qseq);
		*slot = b->run_count;
	}
	return run;
}

static void
add_entry(struct build *b, struct new_run *run, const struct collected *entry)
{
	if (b->entry_count == b->entry_room) {
		assert(b->entry_room <= UINT32_MAX / 2);
		b->entry_room = b->entry_room == 0 ? FIRST_ROOM : 2 * b->entry_room;
		b->entries = xrealloc(b->entries, (size_t)b->entry_room * sizeof(*b->entries));
	}
	assert(b->entries != NULL);
	b->entries[b->entry_count] = *entry;
	b->entries[b->entry_count].before = run->tail;
	run->tail = b->entry_count++;
	run->span = entry->distance;
	run->count++;
}

static void
add_timed(struct build *b, const struct timed *timed)
{
	if (b->timed_count == b->timed_room) {
		b->timed_room = b->timed_room == 0 ? FIRST_ROOM : 2 * b->timed_room;
		b->timed = xrealloc(b->timed, (size_t)b->timed_room * sizeof(*b->timed));
	}
	assert(b->timed != NULL);
	b->timed[b->timed_count++] = *timed;
}

static int
collect_message(struct build *b, const struct record *record)
{
	struct message_record message;
	int error = message_record_decode(&message, record);
	struct ref_times times = {0};

	if (error == 0)
		times = ref_times_of(&message);

	for (uint32_t i = 0; error == 0 && i < message.ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(message.refs + (size_t)i * MESSAGE_REF_SIZE);
		struct new_run *run = run_for(b, ref.queue_id << 8 | ref.priority, ref.qseq);
		uint64_t time_ms = ref_times_next(&times, ref.flags);

		if (run == NULL)
			return -EBADMSG;
		add_entry(b, run,
			  &(struct collected){
				  .offset = (uint32_t)(b->at / RECORD_ALIGNMENT),
				  .body_size = (uint32_t)message.body.n,
				  .distance = (uint16_t)(ref.qseq - run->first),
				  .flags = (message.ref_count > 1 ? ENTRY_SHARED : 0) |
					   ((ref.flags & REF_DEADLINE) != 0 ? ENTRY_DEADLINE : 0) |
					   ((ref.flags & REF_DUE) != 0 ? ENTRY_DUE : 0),
			  });
		run->body_octets += message.body.n;
		run->record_octets += store_share(record->size, message.ref_count);
		if (time_ms != 0)
			add_timed(b, &(struct timed){
					     .time_ms = time_ms,
					     .queue_id = ref.queue_id,
					     .qseq = ref.qseq,
					     .share = (uint32_t)store_share(record->size,
									    message.ref_count),
					     .body_size = (uint32_t)message.body.n,
					     .offset = b->at,
				     });
	}
	return error;
}

static int
collect_record(void *context, const struct record *record)
{
	struct build *b = context;
	int error = 0;

	if (record->lsn <= b->lsn)
		return -EBADMSG;
	b->lsn = record->lsn;
	if (record->type == RECORD_MESSAGE)
		error = collect_message(b, record);
	b->at += record->size;
	return error;
}

static int
collect_batches(struct build *b)
{
	uint64_t offset = SEGMENT_HEADER_SIZE;

	while (offset < b->end) {
		struct batch_record batch;
		uint64_t padded;
		int error;

		b->at = offset + BATCH_SIZE;
		error = scan_batch(b->scan, offset, &batch, &padded, collect_record, b);
		if (error != 0)
			return error;
		offset += padded;
	}
	b->at = offset;
	return 0;
}

/* What a merge wrote: records without batches. */
static int
collect_records(struct build *b)
{
	b->at = SEGMENT_HEADER_SIZE;
	while (b->at < b->end) {
		struct bytes octets = scan_view(b->scan, b->at, RECORD_HEADER_SIZE);
		struct record record;
		int error = -EBADMSG;

		if (octets.n == RECORD_HEADER_SIZE)
			octets = scan_view(b->scan, b->at, le32_load(octets.p + RECORD_AT_SIZE));
		if (b->scan->error != 0)
			return b->scan->error;
		error = record_decode(&record, octets, b->scan->salt);
		if (error == 0)
			error = collect_record(b, &record);
		if (error != 0)
			return error;
	}
	return 0;
}

static int
compare_runs(const void *a, const void *b)
{
	const struct new_run *x = a;
	const struct new_run *y = b;

	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int
collect_all(struct build *b, uint64_t last_lsn, uint32_t generation)
{
	int error = generation == 0 ? collect_batches(b) : collect_records(b);

	if (error != 0)
		return error;
	/* a merge may have dropped the last records */
	if (b->at != b->end || (generation == 0 ? b->lsn != last_lsn : b->lsn > last_lsn))
		return -EBADMSG;
	return 0;
}

/* ---- what is left of a damaged segment ---- */

/* A record at b->at that can be the next one of the log. */
static bool
find_record(const struct build *b, uint64_t last_lsn, struct record *record)
{
	struct bytes head = scan_view(b->scan, b->at, RECORD_HEADER_SIZE);
	uint64_t size;
	uint64_t lsn;

	if (head.n < RECORD_HEADER_SIZE)
		return false;
	size = le32_load(head.p + RECORD_AT_SIZE);
	lsn = le64_load(head.p + RECORD_AT_LSN);
	if (size < RECORD_HEADER_SIZE || size % RECORD_ALIGNMENT != 0 || size > b->end - b->at ||
	    lsn <= b->lsn || lsn > last_lsn)
		return false;
	return record_decode(record, scan_view(b->scan, b->at, size), b->scan->salt) == 0;
}

/* Notes that nothing could be read from *from to b->at; 0: there was nothing but zeros. */
static void
note_loss(const struct build *b, uint64_t *from, struct footer_loss *loss)
{
	if (*from != 0) {
		log_error(
			"store: log/%010llu.seg is damaged: offset=%llu octets=%llu; the messages "
			"there are left out",
			(unsigned long long)b->scan->id, (unsigned long long)*from,
			(unsigned long long)(b->at - *from));
		loss->places++;
		loss->octets += b->at - *from;
	}
	*from = 0;
}

/* Where a batch's zeros end, and what can be read goes on, when its record is whole. */
static uint64_t
batch_ends(const struct build *b, const struct record *record, uint64_t *records_end)
{
	struct batch_record batch;

	if (batch_record_decode(&batch, record) != 0)
		return 0;
	*records_end = b->at + BATCH_SIZE + batch.bytes;
	return b->at + batch_padded_size(b->at, BATCH_SIZE + (uint64_t)batch.bytes);
}

/* Its check is right and it makes no sense: it is left out too. */
static int
collect_or_leave(struct build *b, const struct record *record, uint64_t *from)
{
	uint64_t at = b->at;
	int error = collect_record(b, record);

	if (error != -EBADMSG)
		return error;
	*from = at;
	b->at = at + record->size;
	return 0;
}

/* Looks for records everywhere, whole batches or not: each is proved by its own check. */
static int
collect_what_is_left(struct build *b, uint64_t last_lsn, struct footer_loss *loss)
{
	uint64_t records_end = 0;
	uint64_t batch_end = 0;
	uint64_t from = 0;
	int error = 0;

	for (b->at = SEGMENT_HEADER_SIZE; b->at < b->end && error == 0;) {
		struct record record;

		if (b->at == records_end) {
			note_loss(b, &from, loss);
			b->at = batch_end;
		} else if (!find_record(b, last_lsn, &record)) {
			struct bytes word = scan_view(b->scan, b->at, RECORD_ALIGNMENT);

			if (from == 0 && word.n == 8 && le64_load(word.p) != 0)
				from = b->at;
			b->at += RECORD_ALIGNMENT;
			error = b->scan->error;
		} else {
			note_loss(b, &from, loss);
			if (record.type == RECORD_BATCH) {
				batch_end = batch_ends(b, &record, &records_end);
				b->at += record.size;
			} else {
				error = collect_or_leave(b, &record, &from);
			}
		}
	}
	note_loss(b, &from, loss);
	return error;
}

static void
forget(struct build *b)
{
	xfree(b->slots);
	b->slots = NULL;
	b->slot_count = b->stream_count = 0;
	b->entry_count = b->run_count = b->timed_count = 0;
	b->lsn = 0;
}

static int
collect(struct build *b, uint64_t last_lsn, uint32_t generation, struct footer_loss *loss)
{
	int error = collect_all(b, last_lsn, generation);

	if (error == -EBADMSG && loss != NULL) {
		forget(b);
		error = collect_what_is_left(b, last_lsn, loss);
	}
	if (error != 0)
		return error;
	if (b->run_count > 1)
		qsort(b->runs, b->run_count, sizeof(*b->runs), compare_runs);
	return 0;
}

/* ---- writing ---- */

static void
section_begin(struct section *section, struct disk_file *file, uint64_t at)
{
	*section = (struct section){.file = file, .at = at};
	buf_init(&section->piece, 0);
}

static void
section_flush(struct section *section)
{
	uint64_t written = section->size - section->piece.n;

	if (section->error == 0 && section->piece.n > 0)
		section->error = disk_write(section->file, section->piece.p, section->piece.n,
					    section->at + SECTION_HEADER_SIZE + written);
	buf_clear(&section->piece);
}

static void
section_add(struct section *section, const uint8_t *p, size_t n)
{
	if (section->piece.n + n > PIECE_SIZE)
		section_flush(section);
	buf_add(&section->piece, p, n);
	section->size += n;
	section->crc = crc32c(section->crc, p, n);
}

/* Writes what is left, zeros up to where the next one may begin, and the header. 0 or the error of the disk. */
static int
section_end(struct section *section, uint32_t tag)
{
	static const uint8_t zeros[RECORD_ALIGNMENT];
	uint8_t header[SECTION_HEADER_SIZE] = {0};

	le32_store(header, tag);
	le32_store(header + 4, section->crc);
	le64_store(header + 8, section->size);
	section_add(section, zeros, record_align(section->size) - section->size);
	section_flush(section);
	buf_fini(&section->piece);
	if (section->error == 0)
		section->error = disk_write(section->file, header, sizeof(header), section->at);
	return section->error;
}

static void
encode_run(uint8_t *p, const struct new_run *run, uint32_t entry, uint32_t check, uint32_t salt)
{
	le64_store(p + RUN_AT_QUEUE, run->stream >> 8 | (run->stream & UINT8_MAX) << 48);
	le64_store(p + RUN_AT_FIRST, run->first);
	le16_store(p + RUN_AT_SPAN, run->span);
	le16_store(p + RUN_AT_COUNT, run->count);
	le32_store(p + RUN_AT_ENTRY, entry);
	le64_store(p + RUN_AT_BODY_OCTETS, run->body_octets);
	le64_store(p + RUN_AT_RECORD_OCTETS, run->record_octets);
	le32_store(p + RUN_AT_ENTRIES_CHECK, check);
	le32_store(p + RUN_AT_CHECK, crc32c(0, p, RUN_AT_CHECK) ^ salt);
}

/* Encodes the entries of some runs, from the last one of each back to the first. The runs take turns, so that
 * the processor waits for the memory of all of them at once. */
static void
encode_entries(const struct build *b, const struct new_run *runs, uint32_t count,
	       uint8_t octets[][ENTRIES_SIZE])
{
	uint32_t at[TURNS];
	uint32_t left[TURNS];
	uint32_t most = 0;

	for (uint32_t i = 0; i < count; i++) {
		at[i] = runs[i].tail;
		left[i] = runs[i].count;
		most = left[i] > most ? left[i] : most;
	}
	for (; most > 0; most--) {
		for (uint32_t i = 0; i < count; i++) {
			const struct collected *entry = &b->entries[at[i]];
			uint8_t *p;

			if (left[i] == 0)
				continue;
			p = octets[i] + (size_t)--left[i] * FOOTER_ENTRY_SIZE;
			le32_store(p, entry->offset);
			le16_store(p + 4, entry->distance);
			le16_store(p + 6, entry->flags);
			le32_store(p + 8, entry->body_size);
			at[i] = entry->before;
		}
	}
}

static void
add_runs(const struct build *b, struct section *entries, struct section *runs)
{
	uint8_t(*octets)[ENTRIES_SIZE] = xmalloc(TURNS * sizeof(*octets));
	uint32_t salt = b->scan->salt;

	for (uint32_t first = 0; first < b->run_count; first += TURNS) {
		const struct new_run *run = b->runs + first;
		uint32_t count = (uint32_t)min_u64(TURNS, b->run_count - first);

		encode_entries(b, run, count, octets);
		for (uint32_t i = 0; i < count; i++) {
			uint8_t p[FOOTER_RUN_SIZE];
			size_t n = (size_t)run[i].count * FOOTER_ENTRY_SIZE;
			uint32_t entry = (uint32_t)(entries->size / FOOTER_ENTRY_SIZE);

			encode_run(p, &run[i], entry, crc32c(0, octets[i], n) ^ salt, salt);
			section_add(entries, octets[i], n);
			section_add(runs, p, sizeof(p));
		}
	}
	xfree(octets);
}

/* Where the footer begins: never in a page that holds records. */
static uint64_t
sections_at(uint64_t end)
{
	return (end + FOOTER_ALIGNMENT - 1) & ~(uint64_t)(FOOTER_ALIGNMENT - 1);
}

static int
write_timed(const struct build *b, struct disk_file *file, uint64_t at)
{
	struct section section;
	uint8_t p[TIMED_PIECE_SIZE];

	timed_sort(b->timed, b->timed_count);
	section_begin(&section, file, at);
	timed_head_encode(p, b->timed, b->timed_count, b->scan->salt);
	section_add(&section, p, TIMED_HEAD_SIZE);
	for (uint32_t first = 0; first < b->timed_count; first += TIMED_PIECE_ITEMS) {
		uint32_t n = timed_piece_encode(p, b->timed + first, b->timed_count - first,
						b->scan->salt);

		section_add(&section, p, n);
	}
	return section_end(&section, SECTION_TIMED);
}

static int
write_sections(const struct build *b, struct disk_file *file)
{
	uint64_t size = (uint64_t)b->entry_count * FOOTER_ENTRY_SIZE;
	uint64_t at = sections_at(b->end);
	uint64_t timed_at = at + SECTION_HEADER_SIZE + record_align(size);
	struct section entries;
	struct section runs;
	int error;

	section_begin(&entries, file, at);
	section_begin(&runs, file,
		      timed_at + SECTION_HEADER_SIZE +
			      record_align(timed_section_size(b->timed_count)));
	add_runs(b, &entries, &runs);
	assert(entries.size == size);
	error = section_end(&entries, SECTION_ENTRIES);
	if (error == 0)
		error = write_timed(b, file, timed_at);
	if (error == 0)
		return section_end(&runs, SECTION_RUNS);
	buf_fini(&runs.piece);
	return error;
}

static int
write_trailer(const struct build *b, struct disk_file *file, uint64_t last_lsn)
{
	struct bytes magic = BYTES(TRAILER_MAGIC);
	uint8_t p[TRAILER_SIZE] = {0};
	int64_t at = disk_size(file);

	if (at < 0)
		return (int)at;
	memcpy(p + TRAILER_AT_MAGIC, magic.p, magic.n);
	le64_store(p + TRAILER_AT_END, b->end);
	le64_store(p + TRAILER_AT_LAST_LSN, last_lsn);
	le64_store(p + TRAILER_AT_SECTIONS, sections_at(b->end));
	le32_store(p + TRAILER_AT_RUNS, b->run_count);
	le32_store(p + TRAILER_AT_ENTRIES, b->entry_count);
	le64_store(p + TRAILER_AT_ID, b->scan->id);
	le32_store(p + TRAILER_AT_SALT, b->scan->salt);
	le32_store(p + TRAILER_AT_CRC, crc32c(0, p, TRAILER_AT_CRC));
	return disk_write(file, p, sizeof(p), (uint64_t)at);
}

/* Takes away what may make octets behind the records count as a footer. */
static int
void_trailer(const struct build *b, struct disk_file *file)
{
	static const uint8_t zeros[TRAILER_SIZE];
	uint8_t p[TRAILER_SIZE];
	int64_t size = disk_size(file);
	int64_t n;
	int error;

	if (size < 0)
		return (int)size;
	if ((uint64_t)size < sections_at(b->end) + TRAILER_SIZE)
		return 0;
	n = disk_read(file, p, sizeof(p), (uint64_t)size - TRAILER_SIZE);
	if (n < 0)
		return (int)n;
	if (n != TRAILER_SIZE || memcmp(p + TRAILER_AT_MAGIC, TRAILER_MAGIC, 8) != 0)
		return 0;
	error = disk_write(file, zeros, sizeof(zeros), (uint64_t)size - TRAILER_SIZE);
	return error == 0 ? disk_sync(file) : error;
}

static int
write_footer(const struct build *b, struct disk_file *file, uint64_t last_lsn)
{
	int error = void_trailer(b, file);

	if (error == 0)
		error = disk_truncate(file, sections_at(b->end));
	if (error == 0)
		error = write_sections(b, file);
	if (error == 0)
		error = disk_sync(file);
	if (error == 0)
		error = write_trailer(b, file, last_lsn);
	return error == 0 ? disk_sync(file) : error;
}

int
footer_build(struct disk_file *file, struct scan *scan, uint64_t end, uint64_t last_lsn,
	     uint32_t generation, struct footer_loss *loss)
{
	struct build b = {.scan = scan, .end = end};
	int error = -EFBIG;

	assert(end >= SEGMENT_HEADER_SIZE);
	assert(end % RECORD_ALIGNMENT == 0);
	if (end / RECORD_ALIGNMENT <= UINT32_MAX)
		error = collect(&b, last_lsn, generation, loss);
	xfree(b.slots);
	if (error == 0)
		error = write_footer(&b, file, last_lsn);
	xfree(b.entries);
	xfree(b.runs);
	xfree(b.timed);
	return error;
}
