/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crash simulator. A history runs on a simulated disk; after every call that changes the disk the
 * machine could have died, so there a copy of disk and ledger is taken, and for each of many states that
 * the crash may leave the store is recovered and compared with the ledger:
 *	- what was reported stable is there: messages, open places, bodies, definitions, marks; in the
 *	  histories with a cold part all of it is read out through the indexes;
 *	- nothing is there that was not appended, and a batch is there as a whole or not at all;
 *	- the store can be written to, stopped in some way and opened again.
 * For a sample the machine dies again, at every call of the recovery. Few un-synced things: all
 * states are tried; else the two extremes and random ones.
 *
 * STORE_CRASH_SCALE: how many times as many histories (1); STORE_CRASH_SEED: the first one's seed;
 * STORE_CRASH_VERBOSE: each state is named before it is tried.
 */
#pragma once

#include "lib/store_fixture.h"

/* Histories of one kind, and what is tried with each crash. */
struct store_crash {
	const char *name;
	void (*work)(struct store_fixture *f); // one history, by the seed of the fixture
	uint64_t histories;
	unsigned long long least; // states that there must be, or they prove little
	uint64_t all_below;	  // of a crash with fewer states all are tried; 0: 1024
	unsigned samples;	  // of others so many, and the two extremes; 0: 60
	/* Whether to die behind this call; NULL: behind each that changes the disk. */
	bool (*dies)(const struct store_fixture *f, const struct disk_sim_call *call);
	/* What else is tried with a state, which is not opened; number counts the states. NULL: nothing. */
	void (*also)(struct store_fixture *crashed, uint64_t number);
};

/* Runs them and prints how many states were tried. */
void store_crash_run(const struct store_crash *how);
