/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a file of the log from front to back: a window of octets that moves, and batches in it. One
 * thread at a time.
 */
#pragma once

#include "internal.h"

struct scan {
	struct disk_file *file; // owns
	uint64_t id;		// of the segment
	uint64_t size;		// of the file
	uint32_t salt;
	uint8_t *p; // owns; octets from start on
	uint64_t start;
	size_t n;
	size_t room;
	int error; // of the disk; sticky
};

/* Opens the file of a segment. 0 or a negative errno. */
int scan_open(struct scan *scan, struct disk *disk, uint64_t id) MUST_CHECK;
/* The same of a segment that is not under its own name yet. */
int scan_open_path(struct scan *scan, struct disk *disk, const char *path, uint64_t id) MUST_CHECK;
void scan_close(struct scan *scan);
/* The octets at offset: n, or fewer at the end of the file or after an error of the disk. The view is
 * valid until the next call. */
struct bytes scan_view(struct scan *scan, uint64_t offset, size_t n);
/* Reads the batch at offset as batch_read() does. */
int scan_batch(struct scan *scan, uint64_t offset, struct batch_record *batch, uint64_t *padded,
	       int (*each)(void *context, const struct record *record), void *context) MUST_CHECK;
/* Reads the records of a merged segment from *offset on until the one that reaches until; calls each for every
 * one. 0 with *offset behind the last; -EBADMSG when one is not valid; or what each returned other than
 * 0. */
int scan_records(struct scan *scan, uint64_t *offset, uint64_t until,
		 int (*each)(void *context, const struct record *record), void *context) MUST_CHECK;
/* Whether somewhere from offset on a batch of write group `group` or a later one begins. */
bool scan_finds_group(struct scan *scan, uint64_t offset, uint32_t group);
