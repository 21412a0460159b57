/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window reads ahead, so that a scan is few large reads; a batch larger than it makes it grow.
 */
#include "scan.h"

#include <errno.h>

#define WINDOW_SIZE ((size_t)1024 * 1024)

int
scan_open_path(struct scan *scan, struct disk *disk, const char *path, uint64_t id)
{
	int64_t size;
	int error;

	*scan = (struct scan){.id = id};
	error = disk_open(disk, path, DISK_READ, &scan->file);
	if (error < 0)
		return error;
	size = disk_size(scan->file);
	if (size < 0) {
		disk_close(&scan->file);
		return (int)size;
	}
	scan->size = (uint64_t)size;
	return 0;
}

int
scan_open(struct scan *scan, struct disk *disk, uint64_t id)
{
	char path[PATH_MAX_SIZE];

	segment_path(path, id);
	return scan_open_path(scan, disk, path, id);
}

void
scan_close(struct scan *scan)
{
	if (scan->file != NULL)
		disk_close(&scan->file);
	xfree(scan->p);
	*scan = (struct scan){0};
}

static void
fill_window(struct scan *scan, uint64_t offset, size_t n)
{
	int64_t got;

	if (n > scan->room) {
		xfree(scan->p);
		/* no more than the file: a small one must not cost a large window */
		scan->room = (size_t)min_u64(n < WINDOW_SIZE ? WINDOW_SIZE : n + WINDOW_SIZE,
					     scan->size);
		scan->p = xmalloc(scan->room);
	}
	scan->start = offset;
	got = disk_read(scan->file, scan->p, scan->room, offset);
	scan->n = got < 0 ? 0 : (size_t)got;
	if (got < 0)
		scan->error = (int)got;
}

struct bytes
scan_view(struct scan *scan, uint64_t offset, size_t n)
{
	if (offset >= scan->size)
		return bytes_of(NULL, 0);
	n = (size_t)min_u64(n, scan->size - offset);
	if (offset < scan->start || offset + n > scan->start + scan->n)
		fill_window(scan, offset, n);
	return bytes_of(scan->p + (offset - scan->start),
			min_u64(n, scan->start + scan->n - offset));
}

static int
peek_batch(struct scan *scan, uint64_t offset, struct batch_record *batch)
{
	struct record record;
	int error = record_decode(&record, scan_view(scan, offset, BATCH_SIZE), scan->salt);

	if (scan->error != 0)
		return scan->error;
	return error == 0 ? batch_record_decode(batch, &record) : error;
}

int
scan_batch(struct scan *scan, uint64_t offset, struct batch_record *batch, uint64_t *padded,
	   int (*each)(void *context, const struct record *record), void *context)
{
	struct bytes octets;
	int error = peek_batch(scan, offset, batch);

	if (error != 0)
		return error;
	octets = scan_view(scan, offset, BATCH_SIZE + (size_t)batch->bytes);
	if (scan->error != 0)
		return scan->error;
	return batch_read(octets, offset, scan->salt, batch, padded, each, context);
}

int
scan_records(struct scan *scan, uint64_t *offset, uint64_t until,
	     int (*each)(void *context, const struct record *record), void *context)
{
	int error = 0;

	while (*offset < until && error == 0) {
		struct bytes octets = scan_view(scan, *offset, RECORD_HEADER_SIZE);
		struct record record;

		if (octets.n == RECORD_HEADER_SIZE)
			octets = scan_view(scan, *offset, le32_load(octets.p + RECORD_AT_SIZE));
		if (scan->error != 0)
			return scan->error;
		error = record_decode(&record, octets, scan->salt);
		if (error == 0)
			error = each(context, &record);
		if (error == 0)
			*offset += record.size;
	}
	return error;
}

bool
scan_finds_group(struct scan *scan, uint64_t offset, uint32_t group)
{
	struct batch_record batch;

	for (; offset < scan->size && scan->error == 0; offset += BATCH_ALIGNMENT)
		if (peek_batch(scan, offset, &batch) == 0 && batch.group >= group)
			return true;
	return false;
}
