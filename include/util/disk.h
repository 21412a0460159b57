/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every file operation of the store behind one table, so that tests can put a disk under it that loses
 * what was not synced, tears it, reorders it, and fails any call. Paths are relative to the root of the
 * disk, with one "/" at most ("log/0000000001.seg"). A disk may be used by all threads, a file by one
 * at a time.
 *
 * What the store may believe of any disk, this list and no more:
 *	- octets written before a disk_sync() of their file that returned 0 are there after a crash;
 *	- of later writes any part may be there, in any order, torn at 512 octets; sectors that no later
 *	  write touched keep what they had;
 *	- the size after a crash is anything between that of the last sync and the latest; octets never
 *	  written read as zeros;
 *	- a file made, renamed or unlinked may or may not be so after a crash until disk_sync_dir() of
 *	  its folder returned 0; a rename is never half done;
 *	- after a failed sync nothing is known of what it should have saved.
 */
#pragma once

#include "util/base.h"

enum disk_mode {
	DISK_READ,   // the file exists; it is only read
	DISK_WRITE,  // the file exists; it is read and written
	DISK_CREATE, // the file must not exist (-EEXIST); it is made empty, read and written
};

struct disk;

/* An open file; what implements a disk embeds it. */
struct disk_file {
	struct disk *disk; // borrows for good
};

/* What an implementation provides; each does what the function of its name below says. */
struct disk_ops {
	int (*open)(struct disk *disk, const char *path, enum disk_mode mode,
		    struct disk_file **file);
	void (*close)(struct disk_file *file);
	int64_t (*read)(struct disk_file *file, void *p, size_t n, uint64_t offset);
	int (*write)(struct disk_file *file, const void *p, size_t n, uint64_t offset);
	int (*sync)(struct disk_file *file);
	int (*allocate)(struct disk_file *file, uint64_t size);
	int (*truncate)(struct disk_file *file, uint64_t size);
	int64_t (*size)(struct disk_file *file);
	int (*rename)(struct disk *disk, const char *from, const char *to);
	int (*unlink)(struct disk *disk, const char *path);
	int (*sync_dir)(struct disk *disk, const char *folder);
	int (*mkdir)(struct disk *disk, const char *folder);
	int (*list)(struct disk *disk, const char *folder,
		    void (*each)(void *context, const char *name), void *context);
	int (*lock)(struct disk *disk, const char *path);
	int64_t (*free_space)(struct disk *disk);
	void (*free)(struct disk *disk);
};

struct disk {
	const struct disk_ops *ops; // static
};

/* The folder of this name on the real disk; it must exist. 0, or a negative errno. Caller owns. */
int disk_new(struct disk **disk, const char *root) MUST_CHECK;
/* All files must be closed; locks end. */
void disk_free(struct disk **disk);

/* Opens a file. 0 with *file, which the caller owns, or a negative errno. */
int disk_open(struct disk *disk, const char *path, enum disk_mode mode,
	      struct disk_file **file) MUST_CHECK;
void disk_close(struct disk_file **file);
/* Reads at offset: the octets read, fewer than n only at the end of the file, or a negative errno. */
int64_t disk_read(struct disk_file *file, void *p, size_t n, uint64_t offset) MUST_CHECK;
/* Writes all n octets at offset, beyond the end too: 0, or a negative errno, and then any part of them
 * may be written. */
int disk_write(struct disk_file *file, const void *p, size_t n, uint64_t offset) MUST_CHECK;
/* Saves content and size (fdatasync). 0 or a negative errno. */
int disk_sync(struct disk_file *file) MUST_CHECK;
/* Makes the file at least size octets long and reserves the space, so that writes up to there cannot
 * meet a full disk. 0, -ENOSPC or another negative errno. */
int disk_allocate(struct disk_file *file, uint64_t size) MUST_CHECK;
/* Cuts or lengthens the file. 0 or a negative errno. */
int disk_truncate(struct disk_file *file, uint64_t size) MUST_CHECK;
/* Octets of the file, or a negative errno. */
int64_t disk_size(struct disk_file *file) MUST_CHECK;
/* Renames, replacing what was there. 0 or a negative errno. */
int disk_rename(struct disk *disk, const char *from, const char *to) MUST_CHECK;
/* 0 or a negative errno. */
int disk_unlink(struct disk *disk, const char *path) MUST_CHECK;
/* Saves the names in a folder; "" is the root. 0 or a negative errno. */
int disk_sync_dir(struct disk *disk, const char *folder) MUST_CHECK;
/* Makes a folder, mode 0700; 0 also when it exists, or a negative errno. */
int disk_mkdir(struct disk *disk, const char *folder) MUST_CHECK;
/* Calls each for every file in the folder, in no order; nothing may be made or removed on the way. 0 or
 * a negative errno. */
int disk_list(struct disk *disk, const char *folder, void (*each)(void *context, const char *name),
	      void *context) MUST_CHECK;
/* Takes the lock of this file, which is made when it is not there, until the disk is freed or the
 * process ends. 0, -EWOULDBLOCK when another has it, or a negative errno. */
int disk_lock(struct disk *disk, const char *path) MUST_CHECK;
/* Octets that may still be written to the disk, or a negative errno. */
int64_t disk_free_space(struct disk *disk) MUST_CHECK;
