/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tail of the log at start. What was read may still be in the system's cache alone: a killed process
 * leaves its last write group there, unsynced, and a failed sync leaves pages that count as clean. So the
 * last group is written again, to a new segment, and synced before anybody is told of it; then its
 * old copy is cut off, with whatever torn rest is behind it. A crash on the way leaves both, and the
 * segment that begins at the group's first LSN is the one that counts.
 */
#include "recover.h"

#include <errno.h>

/* Copies the batches from the last group's first on to the front of the new segment. */
static int
copy_group(struct recovery *r, struct scan *scan, struct segment *to)
{
	uint64_t offset = r->group_offset;
	uint64_t end = r->group_segment->end;
	struct buf out;
	int error = 0;

	buf_init(&out, 0);
	while (offset < end && error == 0) {
		struct batch_record batch;
		uint64_t padded;
		uint64_t room;
		uint8_t *p;

		error = scan_batch(scan, offset, &batch, &padded, NULL, NULL);
		if (error != 0)
			break;
		room = batch_padded_size(to->end, BATCH_SIZE + (uint64_t)batch.bytes);
		p = buf_reserve(&out, room);
		memset(p, 0, room);
		memcpy(p, scan_view(scan, offset, BATCH_SIZE + (size_t)batch.bytes).p,
		       BATCH_SIZE + (size_t)batch.bytes);
		batch_salt_anew(p, BATCH_SIZE + (uint64_t)batch.bytes, scan->salt ^ to->salt);
		error = disk_write(to->file, p, room, to->end);
		buf_clear(&out);
		to->end += room;
		offset += padded;
	}
	buf_fini(&out);
	return error;
}

static int
write_copy(struct recovery *r, struct scan *scan, struct segment *to)
{
	uint8_t octets[SEGMENT_HEADER_SIZE];
	struct segment_header header = {
		.id = to->id,
		.first_lsn = r->group_lsn,
		.term = r->store->superblock.term,
	};
	int error = copy_group(r, scan, to);

	memcpy(header.uuid, r->store->superblock.uuid, STORE_UUID_SIZE);
	segment_header_encode(octets, &header);
	/* the copy first: with the header the segment counts, and the old one does no longer */
	if (error == 0)
		error = disk_sync(to->file);
	if (error == 0)
		error = disk_write(to->file, octets, sizeof(octets), 0);
	return error == 0 ? disk_sync(to->file) : error;
}

/* Cuts the old copy, and the segment when nothing is left of it. */
static int
cut_old(struct recovery *r)
{
	struct store *store = r->store;
	struct segment *old = r->group_segment;
	struct disk_file *file;
	char path[PATH_MAX_SIZE];
	int error;

	segment_path(path, old->id);
	if (r->group_offset == SEGMENT_HEADER_SIZE) {
		error = disk_unlink(store->disk, path);
		if (error == 0)
			error = disk_sync_dir(store->disk, LOG_FOLDER);
		segment_remove(store, old);
		return error;
	}
	old->end = old->capacity = r->group_offset;
	old->last_lsn = r->group_lsn - 1;
	error = disk_open(store->disk, path, DISK_WRITE, &file);
	if (error != 0)
		return error;
	error = disk_truncate(file, old->end);
	if (error == 0)
		error = disk_sync(file);
	disk_close(&file);
	return error;
}

static int
renew_tail(struct recovery *r, struct segment *to)
{
	struct scan scan;
	int error = scan_open(&scan, r->store->disk, r->group_segment->id);

	if (error != 0)
		return error;
	scan.salt = r->group_segment->salt;
	error = write_copy(r, &scan, to);
	scan_close(&scan);
	return error == 0 ? cut_old(r) : error;
}

/* Moves what the messages of the last group count for from the old segment to the new one. */
static void
move_live(struct recovery *r, struct segment *to)
{
	to->first_lsn = r->group_lsn;
	to->live = r->group_live;
	to->live_refs = r->group_live_refs;
	r->group_segment->live -= r->group_live;
	r->group_segment->live_refs -= r->group_live_refs;
}

/* What the first segment of a run must have room for, beside the group that is copied. */
#define LEAST_ROOM (64 * 1024)

/* Less than a whole file when the disk has no room for one: marks fit into little, and consumers can make room
 * only when they are served. */
static int
prepare_first(struct recovery *r, struct segment **segment, uint64_t group)
{
	struct store *store = r->store;
	uint64_t least = group + min_u64(store->options.file_size, LEAST_ROOM);
	uint64_t capacity = group + store->options.file_size;
	uint64_t id = store->next_segment_id++;
	int error;

	for (;;) {
		error = segment_prepare(segment, store->spares, id, store->superblock.uuid,
					capacity);
		if (error != -ENOSPC || capacity == least)
			break;
		capacity = max_u64(least, capacity / 2);
	}
	if (error == -ENOSPC)
		buf_addf(
			r->error,
			"store: no room for log/%010llu.seg: %llu octets are needed at least, %lld "
			"are free on the disk of the data directory; nothing was changed: make "
			"room",
			(unsigned long long)id, (unsigned long long)least,
			(long long)disk_free_space(store->disk));
	else if (error != 0)
		return recovery_disk_error(r, "write", id, error);
	else if (capacity < group + store->options.file_size)
		log_warn("store: the disk is nearly full: log/%010llu.seg has room for %llu octets "
			 "only",
			 (unsigned long long)id, (unsigned long long)capacity);
	return error;
}

int
recover_tail(struct recovery *r)
{
	struct store *store = r->store;
	uint64_t group = 0;
	struct segment *segment;
	/* what a checkpoint covers was synced before it was written */
	bool certain = r->group_segment == NULL || store->superblock.clean ||
		       r->next_lsn <= r->checkpoint_lsn + 1;
	int error;

	if (!certain)
		group = r->group_segment->end - r->group_offset + BATCH_ALIGNMENT_LARGE;
	error = prepare_first(r, &segment, group);
	if (error != 0)
		return error;
	if (certain) {
		store->next = segment;
		return 0;
	}
	move_live(r, segment);
	error = renew_tail(r, segment);
	if (error == 0) {
		segment_add(store, segment);
		return 0;
	}
	disk_close(&segment->file);
	xfree(segment);
	return recovery_disk_error(r, "write", store->next_segment_id - 1, error);
}
