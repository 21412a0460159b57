/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of the lossy disk and its content; shared by that disk's two source files only. What was not
 * synced is kept in pages; of the real file only the octets below "valid" count, since those beyond were
 * cut off after the last sync. Each call takes the lock of the file.
 */
#pragma once

#include <pthread.h>

#include "util/disk.h"
#include "util/list.h"
#include "util/map.h"

#define LOSSY_PATH_SIZE 280 // a folder, "/" and a name

struct lossy_file {
	struct list_link link;	    // in files
	char name[LOSSY_PATH_SIZE]; // as seen now; "" when unlinked
	char real[LOSSY_PATH_SIZE]; // in the real folder; "" when not there any more
	unsigned handles;
	pthread_mutex_t lock;	// guards what follows
	bool loaded;		// size and valid are known
	struct disk_file *open; // owns: the real file, while there are handles
	struct map pages;	// of struct page: owns
	uint64_t size;
	uint64_t valid; // octets of the real file that count
};

/* As the functions of disk.h of these names. */
int64_t lossy_file_read(struct lossy_file *file, uint8_t *p, size_t n, uint64_t offset);
int lossy_file_write(struct lossy_file *file, const uint8_t *p, size_t n, uint64_t offset);
int lossy_file_sync(struct lossy_file *file);
void lossy_file_truncate(struct lossy_file *file, uint64_t size);
int64_t lossy_file_size(struct lossy_file *file);
/* Makes it at least so large. */
void lossy_file_grow(struct lossy_file *file, uint64_t size);
/* Forgets what is not synced; its owner is about to free it. */
void lossy_file_fini(struct lossy_file *file);
