/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was asked of a store, each with the LSN behind which it is safe, so that it can be said
 * what the store must hold when its log ends at any LSN: the log is a prefix or nothing, so one
 * number decides. After a crash that number must be the end of a batch that was handed over, and
 * not below what was reported stable; then what recovery gives must be exactly what the ledger
 * says.
 *
 * Messages have a content that follows from their number and size. The ledger knows no store; one
 * thread.
 */
#pragma once

#include <check.h>

#include "store/store.h"

/* As ck_assert() and ck_assert_msg(), but without a system call when all is well: there are
 * millions. */
#define must(condition) expect(condition, "'%s' does not hold", #condition)
#define expect(condition, ...)                     \
	do {                                       \
		if (unlikely(!(condition)))        \
			ck_abort_msg(__VA_ARGS__); \
	} while (0)

#define LEDGER_REFS 8	 // queues of a message at most
#define LEDGER_RETURNS 2 // of a message to a queue at most
#define LEDGER_THINGS 12 // other definitions: things 0 to 11

/* Whether the last stop was a clean one. */
enum ledger_stop {
	LEDGER_UNCLEAN,
	LEDGER_CLEAN,
	LEDGER_EITHER // it was under way, or its trace was being removed
};

struct ledger_queue {
	uint64_t id;
	uint64_t defined;	// LSN
	uint64_t removed;	// LSN; 0: it is there
	uint64_t delivered;	// LSN of its mark since the last clean stop; 0: none
	uint64_t flagged_below; // messages below this number are flagged for good
	uint64_t next_qseq;	// what its next message gets
	uint64_t least_qseq;	// next_qseq can never be below, by messages that are forgotten
	struct queue_log *log;	// borrows from the store; NULL: not open, or removed
};

struct ledger_ref {
	uint32_t queue; // index
	uint64_t qseq;
	uint64_t settled; // LSN behind which its mark is safe; 0: open
	uint64_t due_ms;  // 0: it is ready
	bool cold;	  // it is in the cold part of its queue
	bool given;	  // its time was given in this run
	uint32_t offset;  // of its record, as was said with that
	bool picked;	  // it is to be read alone
	bool came; // and came to hand otherwise since: if it went back, it may be read or not
	uint64_t returned[LEDGER_RETURNS]; // LSNs of the records that it came back; 0: it did not
};

struct ledger_message {
	uint64_t lsn;
	uint32_t number; // its content follows from this
	uint32_t body_size;
	uint32_t record_size;
	uint32_t ref_count;
	uint64_t expiry_ms; // 0: never
	struct ledger_ref refs[LEDGER_REFS];
};

/* A thing was put with a value, or removed: the latest up to an LSN counts. */
struct ledger_change {
	uint64_t lsn;
	uint32_t thing;
	uint32_t value; // 0: removed
};

struct ledger {
	struct ledger_queue *queues; // owns; never shrinks
	size_t queue_count;
	struct ledger_message *messages; // owns; by LSN
	size_t message_count;
	struct ledger_change *changes; // owns; by LSN
	size_t change_count;
	uint64_t *ends; // owns; ascending: last LSNs of the batches that were handed over
	size_t end_count;
	uint64_t stable;	 // the highest LSN that was reported stable
	uint64_t least_queue_id; // ids of new queues are never below
	enum ledger_stop stop;
	bool may_flag; // messages may be flagged without need: a checkpoint was lost, or may be
};

/* A reference as recovery gave it. */
struct found_ref {
	uint64_t queue_id;
	uint64_t qseq;
	bool redelivered;
};

struct found_message {
	uint64_t lsn;
	uint32_t ref_count;
	struct found_ref refs[LEDGER_REFS];
};

/* A reference as a read gave it. */
struct found_read {
	uint64_t lsn;
	uint32_t at; // which of its message's references it is
	struct found_ref ref;
};

/* What recovery gave. */
struct found {
	struct queue_log **logs; // own; of the queues that were put and not removed, in order
	size_t log_count;
	struct found_message *messages; // owns
	size_t message_count;
	uint32_t things[LEDGER_THINGS]; // values; 0: not there
	struct found_read *reads;	// owns; what was read, in that order
	size_t read_count;
};

void ledger_init(struct ledger *ledger);
void ledger_fini(struct ledger *ledger);
void ledger_copy(struct ledger *to, const struct ledger *from);

struct ledger_queue *ledger_add_queue(struct ledger *ledger);
/* With no reference yet. */
struct ledger_message *ledger_add_message(struct ledger *ledger);
void ledger_add_change(struct ledger *ledger, uint64_t lsn, uint32_t thing, uint32_t value);
/* A batch was handed over; the same end may come more than once. */
void ledger_add_end(struct ledger *ledger, uint64_t lsn);
/* A value of a thing at an LSN; 0: not there. */
uint32_t ledger_thing(const struct ledger *ledger, uint32_t thing, uint64_t lsn);
bool ledger_queue_is_there(const struct ledger_queue *queue, uint64_t lsn);
/* References that are open at this LSN, those of removed queues not counted. */
size_t ledger_open_refs(const struct ledger *ledger, uint64_t lsn);
/* Finds the message; NULL when there is none of this LSN. */
const struct ledger_message *ledger_message_find(const struct ledger *ledger, uint64_t lsn);

/* The content of a message, but references and flags; views are static. */
struct message_record ledger_content(uint32_t number, uint32_t body_size);
/* Fails the test when what was read back is not that message. */
void ledger_check_content(const struct ledger_message *wanted,
			  const struct stored_message *message);

void found_init(struct found *found);
void found_fini(struct found *found);
void found_add_log(struct found *found, struct queue_log *log);
void found_remove_log(struct found *found, uint64_t id);
struct found_message *found_add_message(struct found *found);
struct found_read *found_add_read(struct found *found);
/* Makes messages of what was read, one queue after the other. */
void found_join_reads(struct found *found);

/* Compares what was found in a log that ends at lsn; fails the test when anything is missing, is
 * there though it must not, or differs. */
void ledger_compare(const struct ledger *ledger, const struct found *found, uint64_t lsn);
/* The same without messages. */
void ledger_compare_definitions(const struct ledger *ledger, const struct found *found,
				uint64_t lsn);
/* The queues know, at this LSN, how often each message came back. The logs are those of the open store. */
void ledger_compare_returns(const struct ledger *ledger, uint64_t lsn);
/* The log ends at lsn now: forgets what came later, and messages that need not be remembered. All
 * that is left counts as stable. */
void ledger_cut(struct ledger *ledger, uint64_t lsn);
