/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two disks that must not be told apart: each random step does the same on both, and every result, read
 * and list must be the same.
 */
#pragma once

#include <check.h>

#include "util/disk.h"

struct pair {
	struct disk *disks[2];	    // borrows
	struct disk_file *files[2]; // owns: the same file on both; NULL when none is open
	uint32_t random;	    // the next step
	bool apart;		    // renames stay in their folder
};

static inline void
add_name(void *context, const char *name)
{
	*(unsigned *)context += 1U << (unsigned)(name[0] - 'a');
}

static inline void
pair_files_step(struct pair *pair, unsigned kind, uint32_t random)
{
	static char data[3000], got[2][3000];
	uint64_t at = (random >> 4) % 5000;
	size_t n = (random >> 12) % sizeof(data);
	int64_t results[2] = {0, 0};

	memset(data, (int)(random & 0xff), sizeof(data));
	for (int i = 0; i < 2; i++) {
		struct disk_file *file = pair->files[i];

		if (kind < 3)
			results[i] = disk_write(file, data, n, at);
		else if (kind < 6)
			results[i] = disk_read(file, got[i], n, at);
		else if (kind == 6)
			results[i] = disk_truncate(file, at);
		else if (kind == 7)
			results[i] = disk_allocate(file, at);
		else
			results[i] = disk_sync(file);
		ck_assert_int_eq(disk_size(file), disk_size(pair->files[0]));
	}
	ck_assert_int_eq(results[0], results[1]);
	if (kind >= 3 && kind < 6)
		ck_assert_int_eq(memcmp(got[0], got[1], (size_t)results[0]), 0);
}

static inline void
pair_names_step(struct pair *pair, unsigned kind, uint32_t random)
{
	static const char *const names[] = {"a", "b", "f/a", "f/b"};
	unsigned from = (random >> 4) % 4, to = (random >> 8) % 4;
	const char *name = names[from], *other = names[pair->apart ? (from & 2) | (to & 1) : to];
	int64_t results[2] = {0, 0};
	unsigned lists[2] = {0, 0};

	for (int i = 0; i < 2; i++) {
		if (kind == 0)
			results[i] = disk_rename(pair->disks[i], name, other);
		else if (kind == 1)
			results[i] = disk_unlink(pair->disks[i], name);
		else if (kind == 2)
			results[i] = disk_list(pair->disks[i], random & 16 ? "" : "f", add_name,
					       &lists[i]);
		else if (kind == 3)
			results[i] = disk_sync_dir(pair->disks[i], random & 16 ? "" : "f");
		else if (kind == 4)
			results[i] = random >> 24 ? 0 : disk_mkdir(pair->disks[i], "f");
		else {
			disk_close(&pair->files[i]);
			results[i] = disk_open(pair->disks[i], name, (enum disk_mode)(random % 3),
					       &pair->files[i]);
		}
	}
	ck_assert_int_eq(results[0], results[1]);
	ck_assert_uint_eq(lists[0], lists[1]);
}

/* One step on both disks. */
static inline void
pair_step(struct pair *pair)
{
	unsigned kind;

	pair->random = pair->random * 1664525 + 1013904223;
	kind = (pair->random >> 20) % 16;
	if (kind < 9 && pair->files[0] != NULL)
		pair_files_step(pair, kind, pair->random);
	else if (kind >= 9)
		pair_names_step(pair, kind - 9, pair->random);
}

static inline void
pair_close(struct pair *pair)
{
	disk_close(&pair->files[0]);
	disk_close(&pair->files[1]);
}
