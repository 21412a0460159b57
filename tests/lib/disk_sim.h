/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk in memory that keeps apart what was synced and what was not, so that a test can ask for any
 * state that a crash may leave: of each sector of 512 octets any version since the last sync, any size
 * between, directory operations kept or dropped. It promises what disk.h lists and nothing more; where
 * disk.h is silent it is nasty: a failed sync never saves what it should have saved, a later sync that
 * returns 0 does not either, and reads show it all the same.
 *
 * The usual test runs the code once, and at each call takes a clone from the hook; then, for each of
 * many states, it clones that clone, crashes it and gives it to the recovery:
 *
 *	struct disk_sim *state = disk_sim_clone(snapshot);
 *	disk_sim_crash(state, SIM_RANDOM, seed);
 *	... recover from &state->disk, compare ...
 *	disk_sim_free(&state);
 *
 * A clone shares the content of files until one of both writes. Where few things are un-synced, all
 * states are tried: SIM_NTH with 0 ... disk_sim_states() - 1.
 *
 * Calls that change the disk are numbered from 1 (those above SIM_OPEN in the enum). Any thread may call
 * at any time, one lock guards each disk; the hook runs under it and may clone, fail and look.
 */
#pragma once

#include "util/disk.h"

#define SIM_SECTOR 512
#define SIM_PATH_SIZE 64 // with the final NUL

enum disk_sim_kind {
	SIM_CREATE,
	SIM_WRITE,
	SIM_SYNC,
	SIM_ALLOCATE,
	SIM_TRUNCATE,
	SIM_RENAME,
	SIM_UNLINK,
	SIM_SYNC_DIR,
	SIM_MKDIR,
	SIM_OPEN, // from here on nothing is changed, so these have no number
	SIM_READ,
	SIM_LIST,
	SIM_LOCK,
	SIM_ANY // for faults: every call that has a number
};

/* What of the un-synced survives a crash. */
enum disk_sim_survival {
	SIM_NOTHING,	// only what was synced
	SIM_EVERYTHING, // all of it: the process died, the machine did not
	SIM_RANDOM,	// some of it, by the seed given
	SIM_NTH		// the state of this number
};

/* A call, as the hook sees it. */
struct disk_sim_call {
	enum disk_sim_kind kind;
	uint64_t number; // among the changes, from 1; that of the latest change for a call without
	const char
		*path;	 // borrows for the call: of the file when it was opened, or what is changed
	const char *to;	 // borrows for the call: the new name, of SIM_RENAME only
	uint64_t offset; // of SIM_WRITE and SIM_READ; the size for SIM_ALLOCATE and SIM_TRUNCATE
	size_t n;	 // octets of SIM_WRITE and SIM_READ
	int64_t result;	 // once the call is over
	bool over;	 // false before the call, true after it
};

/* A call that fails. */
struct disk_sim_fault {
	enum disk_sim_kind kind; // SIM_ANY: any change
	const char *path;	 // borrows until it is cleared: a part of the path; NULL: any path
	uint64_t at;		 // the at-th such call from now, 1 is the next
	bool for_ever;		 // and all such calls after it
	int error;		 // what it returns, negative
	size_t part; // of a write: so many octets take effect; of others but syncs: if not 0,
		     // it is done in spite of the error
};

/* Calls that came and octets that were written, failures included. */
struct disk_sim_counts {
	uint64_t calls[SIM_ANY]; // by kind
	uint64_t octets_written;
};

struct sim_state;

struct disk_sim {
	struct disk disk;      // for the code under test
	uint64_t stop_at;      // this change and all calls after it fail with -EIO; 0 for never
	bool stop_with_effect; // the change that stops takes effect, un-synced
	bool stopped;	       // has come to stop_at
	uint64_t capacity;     // octets that all files together may reserve; 0 for no limit
	uint64_t changes;      // number of the latest change
	struct disk_sim_counts counts;
	/* Called before and after each call; NULL for nobody. The clones have none. */
	void (*hook)(void *context, struct disk_sim *sim, const struct disk_sim_call *call);
	void *context;		 // for hook
	struct sim_state *state; // owns: private
};

/* An empty disk that the caller owns. */
struct disk_sim *disk_sim_new(void);
/* The same as disk_free() of its disk. */
void disk_sim_free(struct disk_sim **sim);
/* The same content, synced and un-synced, and capacity; nothing is open or locked, and there are no
 * faults, hook or counts. Caller owns. */
struct disk_sim *disk_sim_clone(struct disk_sim *sim);

/* The machine dies and comes back: what survived is synced, nothing else is there. Open files give
 * -EBADF from now on and may be closed or left to disk_free(); locks end; faults, hook, stop and
 * counts are reset. */
void disk_sim_crash(struct disk_sim *sim, enum disk_sim_survival how, uint64_t number);
/* States that SIM_NTH can make of this disk (some may be equal); UINT64_MAX for too many to count. */
uint64_t disk_sim_states(struct disk_sim *sim);
/* The process ends and comes back: open files and locks end as in a crash, content stays as it is. */
void disk_sim_forget(struct disk_sim *sim);

/* Makes a call fail; up to 8 faults may wait at once. */
void disk_sim_fail(struct disk_sim *sim, struct disk_sim_fault fault);
void disk_sim_clear_faults(struct disk_sim *sim);

/* The content of a file that has nothing un-synced, to be read or damaged; NULL when there is no such
 * file. Good until the next call. */
uint8_t *disk_sim_content(struct disk_sim *sim, const char *path, size_t *size);
/* Makes or replaces a file, and its folder when that is missing, all of it synced. */
void disk_sim_put(struct disk_sim *sim, const char *path, const void *p, size_t n);
/* Un-synced versions of sectors and un-synced directory operations. */
size_t disk_sim_unsynced_sectors(struct disk_sim *sim);
size_t disk_sim_unsynced_names(struct disk_sim *sim);
