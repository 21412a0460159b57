/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages are read in runs: those that lie close together come by one read, as long as a quarter of what
 * is read is wanted; each is proved by the check of its record and by the reference that it must have. A
 * message that cannot be read is left where it is, and said; an index that cannot is built anew.
 */
#include "reader.h"

#include <errno.h>

/* One read of the disk at most, but for a single larger message. */
#define SPAN_MAX (256 * 1024)
/* What a record has beside its body, as a guess: names, properties, references. */
#define RECORD_EXTRA 256
/* And that a record has at most that is believed to be where it is said to be: properties fit in a frame. */
#define PLACED_EXTRA (256 * 1024)

/* ---- segments ---- */

struct reader *
reader_new(struct disk *disk)
{
	struct reader *reader = xcalloc(1, sizeof(*reader));

	reader->disk = disk;
	return reader;
}

static void
slot_close(struct reader_slot *slot)
{
	if (slot->file != NULL)
		disk_close(&slot->file);
	*slot = (struct reader_slot){0};
}

void
reader_free(struct reader **reader)
{
	for (size_t i = 0; i < READER_SLOTS; i++)
		slot_close(&(*reader)->slots[i]);
	xfree(*reader);
	*reader = NULL;
}

void
reader_forget(struct reader *reader, uint64_t id)
{
	for (size_t i = 0; i < READER_SLOTS; i++)
		if (reader->slots[i].id == id)
			slot_close(&reader->slots[i]);
}

static int
slot_open(struct reader *reader, struct reader_slot *slot, uint64_t id)
{
	uint8_t octets[SEGMENT_HEADER_SIZE];
	struct segment_header header;
	char path[PATH_MAX_SIZE];
	int64_t n;
	int error;

	segment_path(path, id);
	error = disk_open(reader->disk, path, DISK_READ, &slot->file);
	if (error != 0)
		return error;
	n = disk_read(slot->file, octets, sizeof(octets), 0);
	if (n < 0)
		return (int)n;
	error = n == SEGMENT_HEADER_SIZE ? segment_header_decode(&header, octets) : -EBADMSG;
	if (error != 0)
		return error;
	error = footer_open(&slot->footer, slot->file);
	if (error != 0 && error != -ENOENT)
		return error;
	slot->has_footer = error == 0;
	slot->salt = header.salt;
	slot->generation = header.generation;
	slot->id = id;
	return 0;
}

/* Writes a new footer behind the batches or records. */
static int
build_anew(struct reader *reader, const struct reader_slot *slot, uint64_t end, uint64_t last_lsn)
{
	struct footer_loss loss = {0};
	struct disk_file *file;
	struct scan scan;
	char path[PATH_MAX_SIZE];
	int error;

	segment_path(path, slot->id);
	error = disk_open(reader->disk, path, DISK_WRITE, &file);
	if (error != 0)
		return error;
	error = scan_open(&scan, reader->disk, slot->id);
	if (error == 0) {
		scan.salt = slot->salt;
		error = footer_build(file, &scan, end, last_lsn, slot->generation, &loss);
		scan_close(&scan);
	}
	disk_close(&file);
	if (loss.octets != 0)
		log_error(
			"store: the new index of log/%010llu.seg lacks what was in %llu octets at "
			"%llu places, `pannierctl store verify' says more",
			(unsigned long long)slot->id, (unsigned long long)loss.octets,
			(unsigned long long)loss.places);
	return error;
}

int
reader_rebuild(struct reader *reader, struct reader_slot **rebuilt,
	       const struct segment_place *place)
{
	struct reader_slot slot = **rebuilt;
	int error;

	/* it was merged since */
	if (!slot.has_footer && slot.generation != place->generation)
		return -EBADMSG;
	if (slot.has_footer && !slot.footer.has_timed)
		log_info("store: the index of log/%010llu.seg has no deadlines that hold: it is "
			 "built "
			 "anew",
			 (unsigned long long)slot.id);
	else
		log_warn("store: the index of log/%010llu.seg is damaged: it is built anew",
			 (unsigned long long)slot.id);
	error = slot.has_footer ? build_anew(reader, &slot, slot.footer.end, slot.footer.last_lsn)
				: build_anew(reader, &slot, place->end, place->last_lsn);
	reader_forget(reader, slot.id);
	return error == 0 ? reader_open(reader, slot.id, rebuilt) : error;
}

int
reader_open(struct reader *reader, uint64_t id, struct reader_slot **opened)
{
	struct reader_slot *oldest = &reader->slots[0];
	int error;

	for (size_t i = 0; i < READER_SLOTS; i++) {
		struct reader_slot *slot = &reader->slots[i];

		if (slot->id == id) {
			slot->used = ++reader->clock;
			*opened = slot;
			return 0;
		}
		if (slot->used < oldest->used)
			oldest = slot;
	}
	slot_close(oldest);
	error = slot_open(reader, oldest, id);
	if (error != 0) {
		slot_close(oldest);
		return error;
	}
	oldest->used = ++reader->clock;
	*opened = oldest;
	return 0;
}

/* ---- finding messages ---- */

static void
add_item(struct read_job *job, uint64_t qseq, uint64_t offset, uint32_t body_size)
{
	if (job->item_count == job->item_room) {
		job->item_room = job->item_room == 0 ? 64 : 2 * job->item_room;
		job->items = xrealloc(job->items, job->item_room * sizeof(*job->items));
	}
	job->items[job->item_count++] = (struct read_item){qseq, offset, body_size, false};
}

/* Takes the open messages of a run, until there are enough. */
static int
take_run(struct read_job *job, const struct footer *footer, const struct footer_run *run,
	 uint64_t *octets)
{
	struct footer_entry entries[FOOTER_RUN_ENTRIES];
	int error = footer_entries(footer, run, 0, run->count, entries);

	for (uint32_t i = 0; error == 0 && i < run->count; i++) {
		const struct footer_entry *entry = &entries[i];

		if (entry->qseq < job->from || qseq_set_has(&job->settled, entry->qseq) ||
		    qseq_set_has(&job->unreadable, entry->qseq))
			continue;
		if (job->item_count == job->count_max ||
		    (job->item_count > 0 && *octets + entry->body_size > job->octets_max)) {
			job->next = entry->qseq;
			return 1;
		}
		*octets += entry->body_size + RECORD_EXTRA;
		add_item(job, entry->qseq, entry->offset, entry->body_size);
		job->next = entry->qseq + 1;
	}
	return error;
}

/* Finds messages in one segment. 1 when there are enough, 0 when the segment has no more. */
static int
find_in_segment(struct read_job *job, struct reader_slot *slot)
{
	uint64_t octets = 0;
	uint32_t at;
	int result = slot->has_footer ? footer_find(&slot->footer, job->queue_id, 0, job->from, &at)
				      : -EBADMSG;

	if (result == -ENOENT)
		return 0;
	for (; result == 0 && at < slot->footer.run_count; at++) {
		struct footer_run run;

		result = footer_run(&slot->footer, at, &run);
		if (result != 0 || run.queue_id != job->queue_id || run.priority != 0)
			break;
		result = take_run(job, &slot->footer, &run, &octets);
	}
	return result;
}

/* ---- reading them ---- */

static bool
has_reference(const struct message_record *message, uint64_t queue_id, uint64_t qseq)
{
	for (uint32_t i = 0; i < message->ref_count; i++) {
		struct message_ref ref = message_ref_decode(message->refs + i * MESSAGE_REF_SIZE);

		if (ref.queue_id == queue_id && ref.qseq == qseq)
			return true;
	}
	return false;
}

static void
leave_out(struct read_job *job, struct read_item *item, const struct reader_slot *slot)
{
	item->damaged = true;
	job->misplaced = job->by_places;
	if (job->misplaced)
		return;
	log_error("store: a message cannot be read: log/%010llu.seg offset=%llu queue=%llu "
		  "number=%llu; it is left out",
		  (unsigned long long)slot->id, (unsigned long long)item->offset,
		  (unsigned long long)job->queue_id, (unsigned long long)item->qseq);
}

/* Takes one record out of octets that were read at start; false when it is not whole in them. */
static bool
take_record(struct read_job *job, struct read_item *item, const struct reader_slot *slot,
	    struct bytes octets, uint64_t start)
{
	struct message_record message;
	struct record record;
	struct bytes rest;
	size_t at = (size_t)(item->offset - start);

	if (at + RECORD_HEADER_SIZE > octets.n)
		return false;
	rest = bytes_of(octets.p + at, octets.n - at);
	if (le32_load(rest.p + RECORD_AT_SIZE) > rest.n)
		return false;
	if (record_decode(&record, rest, slot->salt) != 0 ||
	    message_record_decode(&message, &record) != 0 ||
	    !has_reference(&message, job->queue_id, item->qseq)) {
		leave_out(job, item, slot);
		return true;
	}
	item->offset = job->octets.n;
	buf_add(&job->octets, record.p, record.size);
	return true;
}

/* How many items from at on one read brings, and how many octets that is. */
static uint32_t
plan_span(const struct read_job *job, uint32_t at, uint64_t *size)
{
	uint64_t start = job->items[at].offset;
	uint64_t wanted = 0;
	uint32_t n = 0;

	for (; at + n < job->item_count; n++) {
		const struct read_item *item = &job->items[at + n];
		uint64_t span = item->offset + item->body_size + RECORD_EXTRA - start;

		wanted += item->body_size + RECORD_EXTRA;
		if (n > 0 && (span > SPAN_MAX || wanted * 4 < span))
			break;
		*size = span;
	}
	return n;
}

/* Reads what is at offset; the view is of scratch. */
static struct bytes
read_at(struct read_job *job, struct reader_slot *slot, struct buf *scratch, uint64_t offset,
	uint64_t size)
{
	uint8_t *p;
	int64_t n;

	buf_clear(scratch);
	p = buf_reserve(scratch, size);
	n = disk_read(slot->file, p, size, offset);
	if (n < 0)
		job->error = (int)n;
	return bytes_of(p, n < 0 ? 0 : (size_t)n);
}

/* Octets of a record that is this large, or says so; 0: there is none. */
static uint64_t
large_size(const struct read_job *job, const struct read_item *item, const uint8_t *header,
	   uint64_t left)
{
	uint64_t size = le32_load(header + RECORD_AT_SIZE);

	/* where a record was once may be anything */
	if (job->by_places && size > item->body_size + PLACED_EXTRA)
		return 0;
	/* its size may be damaged */
	return min_u64(size, left);
}

/* A record that is larger than was guessed, alone. */
static void
read_large(struct read_job *job, struct read_item *item, struct reader_slot *slot,
	   struct buf *scratch)
{
	uint64_t start = item->offset;
	struct bytes octets = read_at(job, slot, scratch, start, RECORD_HEADER_SIZE);
	int64_t end = disk_size(slot->file);

	if (end < 0)
		job->error = (int)end;
	else if (octets.n == RECORD_HEADER_SIZE)
		octets = read_at(job, slot, scratch, start,
				 large_size(job, item, octets.p, (uint64_t)end - start));
	if (job->error == 0 && !take_record(job, item, slot, octets, start))
		leave_out(job, item, slot);
}

/* Leaves the items from this one on to the next read when there are enough octets: a record may be larger
 * than its share, which is all that a tail knows. */
static bool
cut_items(struct read_job *job, uint32_t at)
{
	if (at == 0 || job->octets.n <= job->octets_max)
		return false;
	job->item_count = at;
	job->next = job->items[at].qseq;
	job->cut = true;
	return true;
}

static void
read_items(struct read_job *job, struct reader_slot *slot)
{
	struct buf scratch;

	buf_init(&scratch, 0);
	for (uint32_t at = 0; at < job->item_count && job->error == 0 && !job->misplaced;) {
		uint64_t start = job->items[at].offset;
		uint64_t size = 0;
		uint32_t n = plan_span(job, at, &size);
		struct bytes octets = read_at(job, slot, &scratch, start, size);

		for (; n > 0 && job->error == 0; n--, at++) {
			struct read_item *item = &job->items[at];

			if (cut_items(job, at))
				break;
			if (take_record(job, item, slot, octets, start))
				continue;
			read_large(job, item, slot, &scratch);
			/* its octets are in scratch now: the rest is planned anew */
			at++;
			break;
		}
	}
	buf_fini(&scratch);
}

void
run_read(struct mail *mail)
{
	struct read_job *job = container_of(mail, struct read_job, mail);
	struct reader_slot *slot = NULL;
	int result = 0;

	if (job->tail_segment != 0) {
		job->error = reader_open(job->reader, job->tail_segment, &slot);
		if (job->error == 0)
			read_items(job, slot);
		return;
	}
	job->next = job->from;
	for (uint32_t i = 0; i < job->segment_count && job->item_count == 0 && result == 0; i++) {
		slot = NULL;
		result = reader_open(job->reader, job->segments[i].id, &slot);
		/* it was merged into the one before while this waited */
		if (result == -ENOENT) {
			result = 0;
			continue;
		}
		if (result == 0)
			result = find_in_segment(job, slot);
		if (result == -EBADMSG && slot != NULL) {
			job->item_count = 0;
			result = reader_rebuild(job->reader, &slot, &job->segments[i]);
			if (result == 0)
				result = find_in_segment(job, slot);
		}
		if (result >= 0 && job->item_count > 0)
			read_items(job, slot);
	}
	if (result < 0)
		job->error = result;
	job->exhausted = result == 0 && job->item_count == 0;
}

/* ---- single messages ---- */

/* The entry of this number; NULL: the run has none. */
static const struct footer_entry *
find_entry(const struct footer_entry *entries, uint32_t count, uint64_t qseq)
{
	uint32_t low = 0;
	uint32_t high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (entries[middle].qseq < qseq)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && entries[low].qseq == qseq ? &entries[low] : NULL;
}

/* Finds the run that has the first message of the queue from this number on. Mostly full runs lie between it and
 * number *at, which was the last one: that is looked at first, as a search takes many reads. */
static int
find_run(const struct read_job *job, const struct footer *footer, uint64_t qseq, uint32_t *at,
	 struct footer_run *run)
{
	uint64_t guess = *at + 1 + (qseq - run->last - 1) / FOOTER_RUN_ENTRIES;
	struct footer_run near;
	int error;

	if (run->count > 0 && guess < footer->run_count) {
		error = footer_run(footer, (uint32_t)guess, &near);
		if (error != 0)
			return error;
		if (near.queue_id == job->queue_id && near.priority == 0 && near.first <= qseq &&
		    qseq <= near.last) {
			*at = (uint32_t)guess;
			*run = near;
			return 0;
		}
	}
	error = footer_find(footer, job->queue_id, 0, qseq, at);
	return error == 0 ? footer_run(footer, *at, run) : error;
}

/* Where a search for numbers that rise stands. */
struct search {
	uint32_t at; // number of the run
	struct footer_run run;
	struct footer_entry entries[FOOTER_RUN_ENTRIES];
};

/* Finds a number that is behind the last one; *found NULL: the segment does not have it. */
static int
search_on(const struct read_job *job, const struct reader_slot *slot, uint64_t qseq,
	  struct search *search, const struct footer_entry **found)
{
	struct footer_run *run = &search->run;
	int error = slot->has_footer ? 0 : -EBADMSG;

	*found = NULL;
	if (error == 0 && (run->count == 0 || qseq > run->last)) {
		error = find_run(job, &slot->footer, qseq, &search->at, run);
		if (error == 0)
			error = footer_entries(&slot->footer, run, 0, run->count, search->entries);
	}
	if (error == 0)
		*found = find_entry(search->entries, run->count, qseq);
	return error;
}

/* Finds the picks, up to so many octets; the others are left. */
static int
find_picks(struct read_job *job, const struct reader_slot *slot)
{
	struct search search;
	uint64_t octets = 0;
	int error = 0;

	search.at = search.run.count = 0;
	job->item_count = 0;
	for (uint32_t i = 0; i < job->pick_count && error == 0; i++) {
		const struct store_pick *pick = &job->picks[i];
		uint64_t offset = (uint64_t)pick->place.offset * RECORD_ALIGNMENT;
		uint32_t body_size = pick->place.body_size;

		if (octets > job->octets_max) {
			job->next = pick->qseq;
			job->cut = true;
			break;
		}
		if (offset == 0 || !job->by_places) {
			const struct footer_entry *entry;

			error = search_on(job, slot, pick->qseq, &search, &entry);
			if (entry == NULL)
				continue;
			offset = entry->offset;
			body_size = entry->body_size;
		}
		octets += body_size + RECORD_EXTRA;
		add_item(job, pick->qseq, offset, body_size);
	}
	return error == -ENOENT ? 0 : error;
}

static void
read_picks(struct read_job *job, struct reader_slot *slot)
{
	job->error = find_picks(job, slot);
	if (job->error == -EBADMSG) {
		job->error = reader_rebuild(job->reader, &slot, &job->segments[0]);
		if (job->error == 0)
			job->error = find_picks(job, slot);
	}
	if (job->error == 0)
		read_items(job, slot);
}

void
run_pick(struct mail *mail)
{
	struct read_job *job = container_of(mail, struct read_job, mail);
	struct reader_slot *slot = NULL;

	if (job->pick_count == 0)
		return;
	job->error = reader_open(job->reader, job->segments[0].id, &slot);
	if (job->error == -ENOENT)
		job->pick_count = 0;
	if (job->error != 0)
		return;
	if (job->tail_segment != 0) {
		read_items(job, slot);
		return;
	}
	job->by_places = true;
	read_picks(job, slot);
	if (!job->misplaced)
		return;
	/* a merge moved them since */
	job->by_places = job->misplaced = job->cut = false;
	buf_clear(&job->octets);
	read_picks(job, slot);
}

/* ---- counting ---- */

static uint64_t
count_entry(const struct locate_job *job, uint64_t qseq)
{
	uint32_t low = 0;
	uint32_t high = job->range_count;

	/* the first range that does not end before it */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (job->ranges[middle].last < qseq)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == job->range_count || qseq < job->ranges[low].first)
		return 0;
	return qseq_set_has(&job->before, qseq) ? 0 : 1;
}

static int
count_run(struct locate_job *job, const struct footer *footer, const struct footer_run *run,
	  struct segment_count *count)
{
	struct footer_entry entries[FOOTER_RUN_ENTRIES];
	int error = footer_entries(footer, run, 0, run->count, entries);
	uint64_t found = 0;

	for (uint32_t i = 0; error == 0 && i < run->count; i++)
		found += count_entry(job, entries[i].qseq);
	count->refs += found;
	count->octets += run->live_octets * found / run->count;
	return error;
}

static int
locate_in(struct locate_job *job, struct reader_slot *slot, struct segment_count *count)
{
	uint64_t first = job->ranges[0].first;
	uint64_t last = job->ranges[job->range_count - 1].last;
	uint32_t at;
	int error = slot->has_footer ? footer_find(&slot->footer, job->queue_id, 0, first, &at)
				     : -EBADMSG;

	if (error == -ENOENT)
		return 0;
	for (; error == 0 && at < slot->footer.run_count; at++) {
		struct footer_run run;

		error = footer_run(&slot->footer, at, &run);
		if (error != 0 || run.queue_id != job->queue_id || run.first > last)
			break;
		error = count_run(job, &slot->footer, &run, count);
	}
	return error;
}

void
run_locate(struct mail *mail)
{
	struct locate_job *job = container_of(mail, struct locate_job, mail);

	job->counts = xcalloc(job->segment_count + 1, sizeof(*job->counts));
	for (uint32_t i = 0; i < job->segment_count && job->error == 0; i++) {
		struct segment_count *count = &job->counts[job->count_count];
		struct reader_slot *slot = NULL;

		*count = (struct segment_count){.id = job->segments[i].id};
		job->error = reader_open(job->reader, job->segments[i].id, &slot);
		if (job->error == 0)
			job->error = locate_in(job, slot, count);
		if (job->error == -EBADMSG && slot != NULL) {
			*count = (struct segment_count){.id = job->segments[i].id};
			job->error = reader_rebuild(job->reader, &slot, &job->segments[i]);
			if (job->error == 0)
				job->error = locate_in(job, slot, count);
		}
		if (job->error == -ENOENT)
			job->error = 0; // merged into the one before
		job->count_count += count->refs != 0;
	}
}
