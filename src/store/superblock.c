/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The superblock: two copies in one file, written in turns, so that one of them is whole whenever the
 * writing is cut short.
 */
#include "internal.h"

#include <errno.h>

#define SUPERBLOCK_PATH "STORE"
#define SUPERBLOCK_TEMPORARY "STORE.tmp"

int
superblock_write(struct disk_file *file, struct superblock *superblock)
{
	uint8_t octets[SUPERBLOCK_SIZE];
	int error;

	superblock->sequence++;
	superblock_encode(octets, superblock);
	error = disk_write(file, octets, sizeof(octets),
			   superblock->sequence % 2 * SUPERBLOCK_SIZE);
	return error == 0 ? disk_sync(file) : error;
}

/* The better one of two answers: a copy that counts, else what is wrong. */
static int
read_copy(struct store *store, unsigned copy, struct superblock *superblock)
{
	uint8_t octets[SUPERBLOCK_SIZE];
	int64_t n = disk_read(store->superblock_file, octets, sizeof(octets),
			      (uint64_t)copy * SUPERBLOCK_SIZE);

	if (n < 0)
		return (int)n;
	return n == SUPERBLOCK_SIZE ? superblock_decode(superblock, octets) : -EBADMSG;
}

int
superblock_read(struct store *store)
{
	struct superblock copies[2];
	int errors[2];
	int error = disk_open(store->disk, SUPERBLOCK_PATH, DISK_WRITE, &store->superblock_file);

	if (error < 0)
		return error;
	for (unsigned i = 0; i < 2; i++) {
		errors[i] = read_copy(store, i, &copies[i]);
		/* a newer format wins over a readable older copy: its writer knew better */
		if (errors[i] != 0 && errors[i] != -EBADMSG)
			return errors[i];
	}
	if (errors[0] != 0 && errors[1] != 0)
		return -EBADMSG;
	if (errors[1] != 0 || (errors[0] == 0 && copies[0].sequence > copies[1].sequence))
		store->superblock = copies[0];
	else
		store->superblock = copies[1];
	/* the copy that is lost may have been the later one, which said that the node runs */
	if (errors[0] != 0 || errors[1] != 0)
		store->superblock.clean = false;
	return 0;
}

int
superblock_create(struct store *store)
{
	int error =
		disk_open(store->disk, SUPERBLOCK_TEMPORARY, DISK_CREATE, &store->superblock_file);

	if (error == -EEXIST) {
		/* the making of this store was cut short before */
		error = disk_unlink(store->disk, SUPERBLOCK_TEMPORARY);
		if (error == 0)
			error = disk_open(store->disk, SUPERBLOCK_TEMPORARY, DISK_CREATE,
					  &store->superblock_file);
	}
	if (error == 0)
		error = superblock_write(store->superblock_file, &store->superblock);
	if (error == 0)
		error = superblock_write(store->superblock_file, &store->superblock);
	if (error == 0)
		error = disk_rename(store->disk, SUPERBLOCK_TEMPORARY, SUPERBLOCK_PATH);
	if (error == 0)
		error = disk_sync_dir(store->disk, "");
	return error;
}
