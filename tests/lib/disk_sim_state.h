/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated disk remembers; shared by its two source files only. Names and files are apart as
 * on a real disk: a name leads to the number of an inode. There are two tables of names, as seen now and
 * as synced, and the operations between them in order. An inode has its content as seen now, its content
 * as synced, and every un-synced version of a sector in the order of writing.
 *
 * Content is held in blobs that are counted, shared by clones, and copied before a change.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "lib/disk_sim.h"
#include "util/list.h"

#define SIM_NO_INODE UINT32_MAX
#define SIM_FAULTS 8
#define SIM_LOCKS 8

/* Octets; NULL stands for none. What is beyond n reads as zeros. */
struct sim_blob {
	_Atomic(unsigned) refs; // who may see it; more than one: read only
	size_t n;		// octets used
	size_t room;		// octets there
	_Alignas(16) uint8_t data[];
};

/* A sector after an un-synced write. */
struct sim_change {
	uint64_t sector; // its place in the file
	uint64_t order;	 // rises with each change of the disk
	bool failed;	 // a sync of it failed: no later sync saves it
	uint8_t image[SIM_SECTOR];
};

struct sim_inode {
	bool used;		  // false: free for the next file
	bool folder;		  // has no content
	bool size_dirty;	  // the size changed since the last sync, failed ones included
	struct sim_blob *now;	  // counts: as reads see it
	struct sim_blob *durable; // counts: as synced
	struct sim_blob *changes; // counts: of struct sim_change, oldest first
	uint64_t size;		  // now
	uint64_t durable_size;	  // as synced
	uint64_t size_min;	  // the smallest and largest that a crash may leave
	uint64_t size_max;
	uint64_t backed; // space is reserved up to here
};

struct sim_name {
	char path[SIM_PATH_SIZE];
	uint32_t inode;
};

struct sim_names {
	struct sim_name *items; // owns
	size_t n;
	size_t room;
};

/* A directory operation: takes away the name that inode has and gives it the name to. A file has one name
 * at most at any time, whatever is kept of earlier operations. */
struct sim_op {
	char from[SIM_PATH_SIZE]; // "" for a new name
	char to[SIM_PATH_SIZE];	  // "" for an unlink
	uint32_t inode;
	uint64_t order; // as in sim_change
	bool failed;	// a sync of it failed
};

/* An open file. */
struct sim_handle {
	struct disk_file file;
	struct list_link link; // in handles
	bool writable;
	uint32_t inode; // SIM_NO_INODE after a crash
	char path[SIM_PATH_SIZE];
};

struct sim_state {
	pthread_mutex_t lock;	  // recursive: the hook calls back
	struct sim_inode *inodes; // owns
	size_t inode_count;
	size_t inode_room;
	struct sim_names now;
	struct sim_names durable;
	struct sim_op *ops; // owns: un-synced, oldest first
	size_t op_count;
	size_t op_room;
	uint64_t order;				  // of the latest change
	struct list handles;			  // of struct sim_handle: owns
	struct disk_sim_fault faults[SIM_FAULTS]; // at is 0 for none
	char locks[SIM_LOCKS][SIM_PATH_SIZE];	  // "" for none
};

void sim_lock(struct disk_sim *sim);
void sim_unlock(struct disk_sim *sim);

void sim_blob_unref(struct sim_blob **blob);
struct sim_blob *sim_blob_ref(struct sim_blob *blob);
size_t sim_blob_n(const struct sim_blob *blob);
/* Octets of it, zeros where it has none. */
void sim_blob_read(const struct sim_blob *blob, void *p, size_t n, uint64_t at);
/* Makes the blob one that only this pointer sees. */
void sim_blob_write(struct sim_blob **blob, const void *p, size_t n, uint64_t at);
void sim_blob_cut(struct sim_blob **blob, uint64_t n);

/* The un-synced versions, oldest first. */
struct sim_change *sim_changes(const struct sim_inode *inode, size_t *n);
/* The sector was written, the size became this. */
void sim_note_change(struct sim_state *state, struct sim_inode *inode, uint64_t sector);
void sim_note_size(struct sim_inode *inode, uint64_t size);
/* A sync went well, or failed. */
void sim_save_changes(struct sim_inode *inode);
void sim_give_changes_up(struct sim_inode *inode);
/* A new inode's number. */
uint32_t sim_inode_new(struct sim_state *state, bool folder);
/* Frees the inodes that nothing leads to. */
void sim_sweep(struct sim_state *state);

/* NULL when there is none. */
struct sim_name *sim_name_find(const struct sim_names *names, const char *path);
void sim_name_set(struct sim_names *names, const char *path, uint32_t inode);
void sim_name_remove(struct sim_names *names, struct sim_name *name);
/* Whether the path lies in the folder itself. */
bool sim_in_folder(const char *path, const char *folder);
/* Whether the folder of the path is among the names. */
bool sim_folder_exists(const struct sim_names *names, const char *path);
void sim_op_apply(struct sim_names *names, const struct sim_op *op);
/* Does and remembers an operation, as in struct sim_op. */
void sim_note_op(struct sim_state *state, const char *from, const char *to, uint32_t inode);
/* Whether a sync of the folder saves the operation. */
bool sim_op_is_in(const struct sim_op *op, const char *folder);
void sim_save_names(struct sim_state *state, const char *folder);
/* Octets that may still be reserved. */
uint64_t sim_space_left(struct disk_sim *sim);

extern const struct disk_ops sim_disk_ops;
