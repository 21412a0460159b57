/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the simulated disk: the disk of the test, and files made of sectors that are full of
 * one octet each, so that a letter tells which version of a sector is there.
 */
#pragma once

#include <check.h>
#include <errno.h>

#include "lib/disk_sim.h"
#include "util/mem.h"

static struct disk_sim *sim;
static struct disk *disk;

static inline void
sim_set_up(void)
{
	sim = disk_sim_new();
	disk = &sim->disk;
}

static inline void
sim_tear_down(void)
{
	disk_sim_free(&sim);
	ck_assert_ptr_null(sim);
}

static inline struct disk_file *
must_open(struct disk *on, const char *path, enum disk_mode mode)
{
	struct disk_file *file = NULL;

	ck_assert_int_eq(disk_open(on, path, mode, &file), 0);
	return file;
}

/* Writes n sectors full of this octet. */
static inline void
fill(struct disk_file *file, uint64_t sector, size_t n, char octet)
{
	char *block = xmalloc(n * SIM_SECTOR);

	memset(block, octet, n * SIM_SECTOR);
	ck_assert_int_eq(disk_write(file, block, n * SIM_SECTOR, sector * SIM_SECTOR), 0);
	xfree(block);
}

/* The octet that the sector is full of; 0 beyond the end. */
static inline char
sector_of(struct disk_file *file, uint64_t sector)
{
	char block[SIM_SECTOR];
	int64_t n = disk_read(file, block, sizeof(block), sector * SIM_SECTOR);

	ck_assert_int_ge(n, 0);
	ck_assert(n < 2 || memcmp(block, block + 1, (size_t)n - 1) == 0);
	return n > 0 ? block[0] : 0;
}

/* A file of sectors full of 'o', all of it synced; open. */
static inline struct disk_file *
old_file(const char *path, size_t sectors)
{
	char *block = xmalloc(sectors * SIM_SECTOR);

	memset(block, 'o', sectors * SIM_SECTOR);
	disk_sim_put(sim, path, block, sectors * SIM_SECTOR);
	xfree(block);
	return must_open(disk, path, DISK_WRITE);
}

static inline struct disk_sim *
crashed(enum disk_sim_survival how, uint64_t number)
{
	struct disk_sim *clone = disk_sim_clone(sim);

	disk_sim_crash(clone, how, number);
	return clone;
}

static inline bool
exists(struct disk_sim *on, const char *path)
{
	struct disk_file *file = NULL;
	int error = disk_open(&on->disk, path, DISK_READ, &file);

	ck_assert(error == 0 || error == -ENOENT);
	disk_close(&file);
	return error == 0;
}

static inline void
check_crash(enum disk_sim_survival how, const char *path, uint64_t sector, char octet)
{
	struct disk_sim *state = crashed(how, 0);
	struct disk_file *file = must_open(&state->disk, path, DISK_READ);

	ck_assert_int_eq(sector_of(file, sector), octet);
	disk_close(&file);
	disk_sim_free(&state);
}
