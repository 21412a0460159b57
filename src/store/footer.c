/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a footer. Opening it reads the segment's header, the trailer and the headers of the sections,
 * whatever its size: each run and the entries of each run have a check of their own, which is compared
 * when they are read. So nothing that is damaged is believed, and nothing is kept in memory.
 */
#include "footer.h"

#include <errno.h>

#include "timed.h"
#include "util/crc32c.h"

/* Reads all n octets. 0; -EBADMSG when the file ends before; else an error of the disk. */
static int
read_all(struct disk_file *file, void *p, size_t n, uint64_t offset)
{
	int64_t got = disk_read(file, p, n, offset);

	if (got < 0)
		return (int)got;
	return (size_t)got == n ? 0 : -EBADMSG;
}

/* ---- opening ---- */

static int
read_header(struct disk_file *file, struct segment_header *header)
{
	uint8_t octets[SEGMENT_HEADER_SIZE];
	int error = read_all(file, octets, sizeof(octets), 0);

	return error == 0 ? segment_header_decode(header, octets) : error;
}

/* The trailer at the end of the file, when it is of this segment; *sections gets where the sections begin. */
static int
read_trailer(struct footer *footer, uint64_t at, const struct segment_header *header,
	     uint64_t *sections)
{
	uint8_t p[TRAILER_SIZE];
	int error = read_all(footer->file, p, sizeof(p), at);

	if (error != 0)
		return error;
	if (memcmp(p + TRAILER_AT_MAGIC, TRAILER_MAGIC, 8) != 0 ||
	    le32_load(p + TRAILER_AT_CRC) != crc32c(0, p, TRAILER_AT_CRC))
		return -EBADMSG;
	if (le64_load(p + TRAILER_AT_ID) != header->id ||
	    le32_load(p + TRAILER_AT_SALT) != header->salt)
		return -EBADMSG;
	footer->salt = header->salt;
	footer->end = le64_load(p + TRAILER_AT_END);
	footer->last_lsn = le64_load(p + TRAILER_AT_LAST_LSN);
	footer->run_count = le32_load(p + TRAILER_AT_RUNS);
	footer->entry_count = le32_load(p + TRAILER_AT_ENTRIES);
	*sections = le64_load(p + TRAILER_AT_SECTIONS);
	return footer->end <= *sections && *sections <= at ? 0 : -EBADMSG;
}

/* Notes what the head of the section TIMED says. When that does not hold the section is as good as not there: the
 * footer must count all the same, for it says where a merged segment ends. */
static int
take_timed(struct footer *footer, uint64_t size, uint64_t at)
{
	uint8_t p[TIMED_HEAD_SIZE];
	int error;

	if (size < sizeof(p))
		return 0;
	error = read_all(footer->file, p, sizeof(p), at);
	if (error != 0)
		return error;
	footer->timed_at = at;
	footer->timed_count = le32_load(p + TIMED_HEAD_AT_COUNT);
	footer->has_timed = le32_load(p + TIMED_HEAD_AT_CHECK) ==
				    (crc32c(0, p, TIMED_HEAD_AT_CHECK) ^ footer->salt) &&
			    size == timed_section_size(footer->timed_count);
	if (footer->has_timed)
		footer->first_timed_ms = le64_load(p + TIMED_HEAD_AT_FIRST);
	return 0;
}

/* Notes where the octets of a section are. */
static int
take_section(struct footer *footer, uint32_t tag, uint64_t size, uint64_t at)
{
	uint64_t *place;
	uint64_t expected;

	if (tag == SECTION_RUNS) {
		place = &footer->runs_at;
		expected = (uint64_t)footer->run_count * FOOTER_RUN_SIZE;
	} else if (tag == SECTION_ENTRIES) {
		place = &footer->entries_at;
		expected = (uint64_t)footer->entry_count * FOOTER_ENTRY_SIZE;
	} else if (tag == SECTION_TIMED) {
		return take_timed(footer, size, at);
	} else {
		return (tag & SECTION_SKIPPABLE) != 0 ? 0 : -EBADMSG;
	}
	if (*place != 0 || size != expected)
		return -EBADMSG;
	*place = at;
	return 0;
}

/* The sections lie one behind the other between at and end. */
static int
read_sections(struct footer *footer, uint64_t at, uint64_t end)
{
	while (at < end) {
		uint8_t header[SECTION_HEADER_SIZE];
		uint64_t size;
		int error = read_all(footer->file, header, sizeof(header), at);

		if (error != 0)
			return error;
		size = le64_load(header + 8);
		at += sizeof(header);
		if (at > end || size > end - at)
			return -EBADMSG;
		error = take_section(footer, le32_load(header), size, at);
		if (error != 0)
			return error;
		at += record_align(size);
	}
	return at == end && footer->runs_at != 0 && footer->entries_at != 0 ? 0 : -EBADMSG;
}

int
footer_open(struct footer *footer, struct disk_file *file)
{
	struct segment_header header;
	uint64_t sections;
	int64_t size = disk_size(file);
	uint64_t at;
	int error;

	*footer = (struct footer){.file = file, .first_timed_ms = UINT64_MAX};
	if (size < 0)
		return (int)size;
	if (size < SEGMENT_HEADER_SIZE + TRAILER_SIZE)
		return -ENOENT;
	at = (uint64_t)size - TRAILER_SIZE;
	error = read_header(file, &header);
	if (error == 0)
		error = read_trailer(footer, at, &header, &sections);
	if (error == 0)
		error = read_sections(footer, sections, at);
	return error == -EBADMSG || error == -ENOTSUP ? -ENOENT : error;
}

/* ---- reading ---- */

static void
decode_run(struct footer_run *run, const uint8_t *p)
{
	uint64_t word = le64_load(p + RUN_AT_QUEUE);

	*run = (struct footer_run){
		.queue_id = word & ((1ULL << 48) - 1),
		.priority = (uint8_t)(word >> 48),
		.first = le64_load(p + RUN_AT_FIRST),
		.last = le64_load(p + RUN_AT_FIRST) + le16_load(p + RUN_AT_SPAN),
		.count = le16_load(p + RUN_AT_COUNT),
		.entry = le32_load(p + RUN_AT_ENTRY),
		.check = le32_load(p + RUN_AT_ENTRIES_CHECK),
		.body_octets = le64_load(p + RUN_AT_BODY_OCTETS),
		.live_octets = le64_load(p + RUN_AT_RECORD_OCTETS),
	};
}

int
footer_run(const struct footer *footer, uint32_t at, struct footer_run *run)
{
	uint8_t p[FOOTER_RUN_SIZE];
	int error;

	assert(at < footer->run_count);
	error = read_all(footer->file, p, sizeof(p),
			 footer->runs_at + (uint64_t)at * FOOTER_RUN_SIZE);
	if (error != 0)
		return error;
	if (le32_load(p + RUN_AT_CHECK) != (crc32c(0, p, RUN_AT_CHECK) ^ footer->salt))
		return -EBADMSG;
	decode_run(run, p);
	if (run->count == 0 || run->count > FOOTER_RUN_ENTRIES ||
	    run->entry > footer->entry_count || run->count > footer->entry_count - run->entry)
		return -EBADMSG;
	return 0;
}

/* Whether all of a run is before the message. */
static bool
is_before(const struct footer_run *run, uint64_t queue_id, uint8_t priority, uint64_t qseq)
{
	if (run->queue_id != queue_id)
		return run->queue_id < queue_id;
	if (run->priority != priority)
		return run->priority < priority;
	return run->last < qseq;
}

int
footer_find(const struct footer *footer, uint64_t queue_id, uint8_t priority, uint64_t from,
	    uint32_t *at)
{
	uint32_t low = 0;
	uint32_t high = footer->run_count;
	struct footer_run found = {.count = 0}; // run number high, once one was looked at

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		struct footer_run run;
		int error = footer_run(footer, middle, &run);

		if (error != 0)
			return error;
		if (is_before(&run, queue_id, priority, from)) {
			low = middle + 1;
		} else {
			high = middle;
			found = run;
		}
	}
	if (found.count == 0 || found.queue_id != queue_id || found.priority != priority)
		return -ENOENT;
	*at = low;
	return 0;
}

static struct footer_entry
decode_entry(const uint8_t *p, const struct footer_run *run)
{
	return (struct footer_entry){
		.offset = (uint64_t)le32_load(p) * RECORD_ALIGNMENT,
		.qseq = run->first + le16_load(p + 4),
		.flags = le16_load(p + 6),
		.body_size = le32_load(p + 8),
	};
}

int
footer_entries(const struct footer *footer, const struct footer_run *run, uint32_t first,
	       uint32_t count, struct footer_entry *entries)
{
	uint8_t p[FOOTER_RUN_ENTRIES * FOOTER_ENTRY_SIZE];
	size_t n = (size_t)run->count * FOOTER_ENTRY_SIZE;
	int error;

	assert(run->count <= FOOTER_RUN_ENTRIES);
	assert(first <= run->count);
	assert(count <= run->count - first);
	error = read_all(footer->file, p, n,
			 footer->entries_at + (uint64_t)run->entry * FOOTER_ENTRY_SIZE);
	if (error != 0)
		return error;
	if (run->check != (crc32c(0, p, n) ^ footer->salt))
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++)
		entries[i] = decode_entry(p + (size_t)(first + i) * FOOTER_ENTRY_SIZE, run);
	return 0;
}
