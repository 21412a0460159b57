/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store on a simulated disk, without threads, and the ledger of what was asked of it. Each
 * opening compares what recovery gives with the ledger and fails the test when it is not exactly
 * that, so most tests are: do things, stop in some way, open again.
 *
 *	struct store_fixture f;
 *	store_fixture_init(&f, seed);
 *	ck_assert_int_eq(store_fixture_open(&f), 0);
 *	queue = store_fixture_queue(&f);
 *	store_fixture_publish(&f, &queue, 1, 100);
 *	store_fixture_flush(&f);
 *	store_fixture_crash(&f, SIM_RANDOM, 7);
 *	ck_assert_int_eq(store_fixture_open(&f), 0);
 *	store_fixture_fini(&f);
 *
 * For a crash at every call of the disk: a hook of f.sim that calls store_fixture_clone(), and
 * for each state a clone of that clone. What the two threads of the store would do is done by
 * store_fixture_work(), in an order that the seed decides. One thread.
 */
#pragma once

#include "store/store.h"

#include "lib/disk_sim.h"
#include "lib/store_ledger.h"

/* Which of the messages that are published go to the cold part; behind one that did all do. */
enum fixture_push {
	PUSH_SOME, // at random
	PUSH_ALL,
	PUSH_NONE // as long as nothing is cold
};

struct store_fixture {
	struct disk_sim *sim;	      // owns
	struct disk *disk;	      // borrows: in place of sim; NULL: that
	struct store *store;	      // owns; NULL: not open
	struct store_options options; // small files; may be changed before it is opened
	struct now now;		      // given to store_submit()
	struct ledger ledger;
	struct found found;	// by the last opening
	struct buf error;	// of the last opening
	uint64_t random;	// state of the generator
	uint32_t next_number;	// of the next message
	uint64_t drops;		// queues removed since it was opened
	bool cold;		// to be opened so that messages come by reads alone
	enum fixture_push push; // which messages go to the cold part, with cold
	bool skips;		// to be opened without reading all that is there
	bool reading_all;	// reads are compared with the ledger later
	bool timed;		// some messages expire, some references are due at a time
	unsigned given;		// deadlines
	unsigned picked;	// messages that were read alone
	unsigned told;		// calls of ops.deadlines
	unsigned read_ends;	// calls of ops.read_end
	bool failed;		// ops.failed was called
	bool is_short;		// as ops.short_of_space said last
	unsigned stable_calls;	// of ops.stable
	unsigned short_calls;	// of ops.short_of_space
	unsigned steps;		// calls of store_fixture_step()
	unsigned reopenings;	// calls of store_fixture_reopen()
};

/* ---- life ---- */

/* An empty disk, not opened; buffers of 256 KiB, files of 64 KiB. The seed decides what
 * store_fixture_step() and store_fixture_work() do. Silences the log. */
void store_fixture_init(struct store_fixture *f, uint64_t seed);
/* Kills it when it is open. */
void store_fixture_fini(struct store_fixture *f);
/* Opens the store. What store_open() returned, with its line in f->error; with 0 what was found
 * has been compared with the ledger, and the ledger cut to it. */
int store_fixture_open(struct store_fixture *f);
/* store_close(): what it returned. */
int store_fixture_close(struct store_fixture *f, bool clean);
/* The process ends: nothing more is written; what was written stays, synced or not. */
void store_fixture_kill(struct store_fixture *f);
/* The machine ends: store_fixture_kill(), and of what is not synced something survives. */
void store_fixture_crash(struct store_fixture *f, enum disk_sim_survival how, uint64_t number);
/* Disk and ledger as they are now, not open: what a crash leaves. For hooks too. The caller ends
 * it with store_fixture_fini(). */
void store_fixture_clone(struct store_fixture *clone, struct store_fixture *f);

/* ---- records ---- */

/* What these return is an index into the ledger; that of a message is good until the next
 * opening. */

/* A new queue, defined. */
uint32_t store_fixture_queue(struct store_fixture *f);
void store_fixture_drop(struct store_fixture *f, uint32_t queue);
/* store_mark_delivered(). */
void store_fixture_deliver(struct store_fixture *f, uint32_t queue);
size_t store_fixture_publish(struct store_fixture *f, const uint32_t *queues, uint32_t count,
			     uint32_t body_size);
/* Settles one reference, which must be open. */
void store_fixture_ack(struct store_fixture *f, size_t message, uint32_t ref,
		       enum ack_reason reason);
/* One reference, which must be open and in memory, came back; nothing when it did LEDGER_RETURNS times. */
void store_fixture_return(struct store_fixture *f, size_t message, uint32_t ref);
/* Puts thing (below LEDGER_THINGS) with a value, 0 removes it. */
void store_fixture_define(struct store_fixture *f, uint32_t thing, uint32_t value);
/* LSN of the latest record. */
uint64_t store_fixture_last_lsn(const struct store_fixture *f);

/* ---- the cold part, with f->cold ---- */

/* All of this is nothing when it is not possible now. */

/* store_read(). */
void store_fixture_read(struct store_fixture *f, uint32_t queue, uint32_t count, uint64_t octets);
/* Reads of this queue until its cold part is empty; fails the test when that does not happen. */
void store_fixture_read_out(struct store_fixture *f, uint32_t queue, uint32_t count,
			    uint64_t octets);
/* store_cold_return() of all that is in memory from this number on. */
void store_fixture_evict(struct store_fixture *f, uint32_t queue, uint64_t first);
/* store_purge_cold(). */
void store_fixture_purge(struct store_fixture *f, uint32_t queue);
/* Private: parts of the fixture. */
void store_fixture_on_read(void *context, struct queue_log *log, uint64_t qseq,
			   const struct stored_message *message, bool redelivered);
void store_fixture_on_read_end(void *context, struct queue_log *log);
void store_fixture_read_all(struct store_fixture *f);
void store_fixture_begin_cold(struct store_fixture *f);
void store_fixture_on_read_this(void *context, struct queue_log *log, uint64_t qseq,
				const struct stored_message *message, bool redelivered);
void store_fixture_on_read_these_end(void *context, struct queue_log *log);
void store_fixture_on_deadlines(void *context);
struct ledger_ref *store_fixture_ref(struct store_fixture *f, const struct queue_log *log,
				     uint64_t qseq, size_t *message);
void store_fixture_release(struct store_fixture *f, uint32_t queue);
void store_fixture_check_cold(const struct store_fixture *f);

/* store_ack_cold(). */
void store_fixture_ack_cold(struct store_fixture *f, size_t message, uint32_t ref,
			    enum ack_reason reason);
/* store_read_these() of some cold messages: one in so many, up to room. Some of those that come are settled. */
void store_fixture_pick(struct store_fixture *f, uint32_t queue, uint32_t one_in, uint32_t room);

/* ---- deadlines, with f->timed ---- */

/* A time for a message that comes: 0, or some time before or after now. */
uint64_t store_fixture_time(struct store_fixture *f);
/* store_take_deadlines() up to now; how many. Each must be right, and come once. */
uint32_t store_fixture_take(struct store_fixture *f, uint64_t now_ms, uint32_t max);
/* All that are due then; nothing that is open may be missing. */
void store_fixture_take_all(struct store_fixture *f, uint64_t now_ms);

/* ---- turns ---- */

void store_fixture_submit(struct store_fixture *f, bool input_waits);
/* Whether a batch is on its way. */
bool store_fixture_is_writing(const struct store_fixture *f);
/* Each alone: what is in the mail of the store thread, of the index thread, of the helper thread. Whether
 * there was anything. */
bool store_fixture_write(struct store_fixture *f);
bool store_fixture_index(struct store_fixture *f);
bool store_fixture_help(struct store_fixture *f);
/* The index thread, what came of it, and the helper thread; whether there was anything. */
bool store_fixture_index_and_help(struct store_fixture *f);
/* All, in any order, and what came of it; whether there was anything. */
bool store_fixture_work(struct store_fixture *f);
/* Until everything is stable and no thread has work; fails the test when that does not happen. */
void store_fixture_flush(struct store_fixture *f);
/* Compares the store's counters with the ledger's. */
void store_fixture_check(struct store_fixture *f);

/* ---- random histories ---- */

/* Below n. */
uint64_t store_fixture_random(struct store_fixture *f, uint64_t n);
/* One of the calls above, or a few that belong together; those of the cold part only with f->cold. */
void store_fixture_step(struct store_fixture *f);
/* A size of a body: mostly small, some up to 100 KB. */
uint32_t store_fixture_size(struct store_fixture *f);
/* Stops in one of the ways there are and opens again; with f->cold in half of the cases without reading all
 * that is there. */
void store_fixture_reopen(struct store_fixture *f);
/* Calls run with one fixture after the other, each with the next seed, and prints what they did. The
 * environment says how many, STORE_MODEL_SEEDS, else 4 seconds do, and with which seed the first one
 * begins, STORE_MODEL_SEED, else the time does. */
void store_fixture_run_seeds(const char *name, void (*run)(struct store_fixture *f));
