/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message store: one log for all durable queues and all definitions. Records are appended to a batch
 * in memory; a batch is written and synced by the store thread (writer.c), and when it comes back by mail
 * its LSNs are stable. What must wait for the disk waits for a number: `stable`.
 *
 * The broker thread owns the store; store_start() gives it two threads of its own, with which it
 * exchanges letters only. Without store_start() (tests) store_work() does their work.
 *
 * A message is named by (queue_log, qseq) outside the store.
 */
#pragma once

#include "store/definition.h"
#include "store/format.h"
#include "store/qseq_set.h"
#include "store/record.h"
#include "util/buf.h"
#include "util/bytes.h"
#include "util/clock.h"
#include "util/disk.h"
#include "util/list.h"
#include "util/map.h"

struct mailbox;
struct qseq_counts;
struct store;

struct store_options {
	uint32_t buffer_size;	    // octets gathered at which a batch is full (1 MiB)
	uint32_t flush_interval_ms; // how long a record waits at most for its batch to go out (25)
	bool flush_when_idle;	    // write as soon as the writer is idle and no input waits (true)
	uint64_t file_size;	    // octets of a segment (64 MiB)
	uint64_t checkpoint_size;   // octets of log after which a checkpoint is made (256 MiB)
	uint32_t garbage_percent;   // garbage in all segments at which they are compacted (50)
	uint32_t garbage_files;	    // segments that there must be for that (3)
	uint32_t unit_max;	    // octets of one unit (64 MiB)
	const char *node_name;	    // borrows for good
};

/* One durable queue in the store. Made by store_queue_new() or by recovery, freed by store_queue_drop(). */
struct queue_log {
	struct list_link acked;	  // private: in the store's list of queues with marks to write
	struct map_node by_id;	  // private: in the store's map of queues
	struct ack_range *ranges; // private; owns: marks of the present batch
	uint32_t range_count;
	uint32_t range_room;
	uint64_t id;		     // never reused
	void *owner;		     // the broker's queue
	uint64_t next_qseq;	     // higher than any that has, or had, a record
	uint64_t count;		     // messages with a record that are not settled
	uint64_t octets;	     // of their bodies
	struct qseq_set settled;     // read-only outside the store
	struct qseq_counts *returns; // private; owns; of messages that came back; NULL: none did
	/* its cold part: messages from cold_from on, none of which the broker has in memory */
	uint64_t cold_from; // qseq
	uint64_t cold_count;
	uint64_t cold_octets;	 // of their bodies
	bool reading;		 // a read of the cold part is on its way
	struct picking *picking; // private; owns: what store_read_these() asked for; NULL: nothing
	uint64_t damaged; // messages that cannot be read: open, but not counted as cold any more
	struct qseq_set *unreadable; // private; owns: their numbers, where known; NULL: none
	uint64_t cold_lsn;	     // private: no sealed segment up to here has any of it
	uint64_t read_ticket;	     // private: of the last read
	uint64_t want_octets;	     // private: what the read that waits asked for
	uint32_t want_count;
	struct list_link wanting; // private: in the store's list of reads that wait
	struct tail_place {	  // private: where it is in a segment that is not sealed
		uint64_t segment_id;
		uint64_t first_qseq;
		uint32_t first;	 // index + 1 of its entries in the tail; 0: none
		uint32_t cursor; // of the next one to read
		uint32_t last;
	} tails[2];
	uint64_t redelivered_below; // messages below this number may have been delivered before
	bool delivered; // QUEUE_STATE_DELIVERED was logged in this run or, at recovery, the last
};

/* A message as recovery found it. Views borrow until the call returns. */
struct stored_message {
	uint64_t lsn;
	uint32_t record_size;
	struct message_record record;
};

struct stored_ref {
	struct queue_log *log;
	uint64_t qseq;
	bool redelivered; // it may have been delivered before
};

struct store_ops {
	/* Recovery: a definition, in the order in which they were logged. For a queue or a part that is put, log
	 * is its own: the broker sets log->owner, unless what the part is of is gone: then the log ends here. Its
	 * views borrow until the call returns. */
	void (*define)(void *context, const struct definition *definition, struct queue_log *log);
	/* Recovery, after all definitions: a message and those references that are not settled, by LSN. NULL: they
	 * stay cold. */
	void (*message)(void *context, const struct stored_message *message,
			const struct stored_ref *refs, uint32_t count);
	/* A message of the cold part, as store_read() asked for; those of a queue come in order. */
	void (*read)(void *context, struct queue_log *log, uint64_t qseq,
		     const struct stored_message *message, bool redelivered);
	/* That was all of this read. */
	void (*read_end)(void *context, struct queue_log *log);
	/* A message of the cold part, as store_read_these() asked for, in order. It stays there until it is settled
	 * by store_ack_cold(), which may be now. */
	void (*read_this)(void *context, struct queue_log *log, uint64_t qseq,
			  const struct stored_message *message, bool redelivered);
	/* That was all of them. Those that were not given came to hand or were settled meanwhile, or cannot be
	 * read. */
	void (*read_these_end)(void *context, struct queue_log *log);
	/* store_next_deadline() is sooner than it was, or there is more to be had from store_take_deadlines().
	 * NULL: nobody asks for deadlines. */
	void (*deadlines)(void *context);
	/* Bodies were written to page files, or not, or read from them (page.h). NULL: nothing is paged. */
	void (*paged_out)(void *context, void *owner, int error);
	void (*paged_in)(void *context, void *owner);
	/* For a checkpoint: brings log->next_qseq of each queue up to date, for numbers went to messages without a
	 * record too, and calls store_snapshot_add() for every durable definition. */
	void (*snapshot)(void *context, struct store *store);
	/* Recovery: a key, behind all definitions and queues that were logged before it; also those that were forgotten
	 * or whose message is settled since. NULL: nobody wants to know. Its views borrow until the call returns. */
	void (*key)(void *context, const struct key_record *key);
	/* For a checkpoint, behind snapshot: calls store_snapshot_keys() for each that has keys. NULL: there are none. */
	void (*snapshot_keys)(void *context, struct store *store);
	/* Everything up to lsn is safe. */
	void (*stable)(void *context, uint64_t lsn);
	/* Space ran short (true: publishers must stop) or is there again. */
	void (*short_of_space)(void *context, bool is_short);
	/* Octets free on the disk, as store_ask_space() asked or after a segment was made; negative: they could not
	 * be found out. NULL: nobody wants to know. */
	void (*free_space)(void *context, int64_t octets);
	/* The log could not be written or read: nothing after `stable` may be believed, the process must end. */
	void (*failed)(void *context, int error, const char *what);
};

struct store_options store_options_default(void);
/* Opens the store on a disk, makes it when it is empty, recovers what is there. 0 with *store; or a negative
 * errno and one line in error that says what is wrong with which file at which offset and what to do;
 * then nothing was changed. -EWOULDBLOCK: another process has it; -ENOTSUP: a newer format; -EBADMSG:
 * damage. disk, ops and context are borrowed for good. */
int store_open(struct store **store, struct disk *disk, const struct store_options *options,
	       const struct store_ops *ops, void *context, struct buf *error) MUST_CHECK;
/* Whether store_open() made it. */
bool store_is_new(const struct store *store);
/* Starts the store thread and the helper thread; they wake the mailbox of store_mailbox(). */
void store_start(struct store *store);
/* Written batches and finished jobs arrive here; the loop waits on it, store_receive() drains. */
struct mailbox *store_mailbox(struct store *store);
/* Ends the threads. With clean set, first everything is written, a checkpoint made and the stop marked as
 * clean; 0 or a negative errno when that failed. */
int store_close(struct store **store, bool clean);

/* ---- the turn ---- */

/* Takes in what the threads have done: ops.stable, ops.short_of_space, ops.failed. */
void store_receive(struct store *store);
/* Hands the batch to the writer when that is due: at the end of a turn, or between two units when it is
 * full. input_waits: more input is there at once, so unless 25 ms have passed it can wait. */
void store_submit(struct store *store, struct now now, bool input_waits);
/* When store_submit() must be called though nothing else happens; UINT64_MAX: never. */
uint64_t store_due_ms(const struct store *store);
/* More is waiting to be written than there should be, though the writer gets what it can take now: whatever
 * appends much must wait. Between two units only. */
bool store_is_behind(struct store *store, struct now now);
/* So it is, or space is short: publishers to durable queues must not be read. */
bool store_is_full(struct store *store, struct now now);
/* Asks the helper thread for ops.free_space. low: little is free, so from now on files without use go and others
 * are compacted sooner than usual; to be called again, about once a second, while that is so and once when it
 * is over. */
void store_ask_space(struct store *store, bool low);
/* For tests without threads: does what the threads have to do now; whether there was anything. */
bool store_work(struct store *store);

/* ---- records: each becomes part of the present batch ---- */

/* Every LSN up to this one is safe. */
uint64_t store_stable(const struct store *store);

/* Appends a message for message->ref_count queues; the record's octets are copied. Returns its LSN and in
 * *refs the place of its references, which the caller fills at once, each with store_add_ref(). */
uint64_t store_append_message(struct store *store, const struct message_record *message,
			      uint8_t **refs);
/* Writes one reference of a message that is being appended, at ref: the message is number qseq of this queue. due_ms:
 * when it is ready there, in ms since 1970, 0: it is; message->time_count is how many of its references have that.
 * A reference is in the index of deadlines by that time, else by the message's expiry_ms if it has one. */
void store_add_ref(struct store *store, struct queue_log *log, uint8_t *ref, uint64_t qseq,
		   uint32_t body_size, uint64_t due_ms);

/* What each of its references counts of a record: an estimate of what is garbage when one is settled. */
static inline uint64_t
store_share(uint64_t record_size, uint32_t ref_count)
{
	return record_size / ref_count;
}

/* What is known of a stored message without reading it. */
struct stored_place {
	uint64_t lsn;	    // of its record, or of another one of the same segment
	uint64_t share;	    // store_share() of its record
	uint32_t body_size; // octets
	uint32_t offset; // of the record in its segment, / 8, if it is still there; 0: nobody knows
};

/* Settles one stored message of the queue. Returns the LSN behind which the mark is safe. */
uint64_t store_ack(struct store *store, struct queue_log *log, uint64_t qseq,
		   const struct stored_place *place, enum ack_reason reason);
/* A stored message of the queue came back to it, the count-th time (1 ... UINT16_MAX). The store knows that until the
 * message is settled, over restarts too. Returns the LSN behind which that is safe. */
uint64_t store_note_return(struct store *store, struct queue_log *log, uint64_t qseq,
			   uint32_t count);
/* How often it did; 0: never, or it is settled. */
uint32_t store_returns(const struct queue_log *log, uint64_t qseq);
/* One reference of this record is gone with its queue. */
void store_release(struct store *store, uint64_t lsn, uint64_t share);
/* Logs that the queue delivers from now on, once in a run. Returns the LSN behind which that is safe. */
uint64_t store_mark_delivered(struct store *store, struct queue_log *log);
/* A new durable queue. Its id is log->id, to be put into the definition. */
struct queue_log *store_queue_new(struct store *store);
/* The queue is gone (its removal was defined): its messages are garbage. */
void store_queue_drop(struct store *store, struct queue_log **log);
/* Logs a definition. Returns its LSN. */
uint64_t store_define(struct store *store, const struct definition *definition);
/* Inside ops.snapshot alone. */
void store_snapshot_add(struct store *store, const struct definition *definition);
/* Logs a key, which is safe with the record before it: in the same unit as the message that brought it. Returns its
 * LSN. */
uint64_t store_append_key(struct store *store, const struct key_record *key);
/* Inside ops.snapshot_keys alone: the keys of one exchange or queue, max at most. fill writes them to p, KEY_SAVED_SIZE
 * octets each, by key_saved_encode(), and returns how many there are. */
void store_snapshot_keys(struct store *store, const struct key_record *of, uint32_t max,
			 uint32_t (*fill)(void *context, uint8_t *p), void *context);

static inline void
key_saved_encode(uint8_t *p, uint64_t value, const uint8_t digest[KEY_DIGEST_SIZE])
{
	le64_store(p, value);
	memcpy(p + 8, digest, KEY_DIGEST_SIZE);
}
/* Octets that the records of one unit may take: what a transaction asks before it begins. */
uint64_t store_unit_max(const struct store *store);

/* ---- the cold part of a queue ---- */

/* A message that was just appended is not kept in memory. */
void store_cold_push(struct queue_log *log, uint64_t qseq, uint32_t body_size);
/* Messages that were in memory are not any more: count of them from qseq first on, which is below cold_from,
 * with bodies of so many octets. No read may be on its way. */
void store_cold_return(struct queue_log *log, uint64_t first, uint64_t count, uint64_t octets);
/* Asks for the first messages of the cold part: ops.read, ops.read_end. At most count of them and, but for the
 * first, octets. Nothing when there is none or a read is on its way. */
void store_read(struct store *store, struct queue_log *log, uint32_t count, uint64_t octets);
/* Settles the whole cold part. Returns the LSN behind which that is safe. */
uint64_t store_purge_cold(struct store *store, struct queue_log *log);

/* ---- single messages of it ---- */

/* Whether the message is one of the cold part: stored, open, not at hand, and not known to be unreadable. */
bool store_is_cold(const struct queue_log *log, uint64_t qseq);
/* store_ack() of one of the cold part, wherever it is there. With the last one what was asked for by store_read()
 * is forgotten: no ops.read_end comes. */
uint64_t store_ack_cold(struct store *store, struct queue_log *log, uint64_t qseq,
			const struct stored_place *place, enum ack_reason reason);

/* A message to be read, and where it is. */
struct store_pick {
	uint64_t qseq;
	struct stored_place place;
};

/* Puts them in the order of their numbers. */
void store_sort_picks(struct store_pick *picks, uint32_t count);
/* Reads these messages of the cold part, in order of their numbers, beside what store_read() asks for: ops.read_this,
 * ops.read_these_end. The last one must have ended (log->picking). store_purge_cold() and store_queue_drop() make an
 * end of it without a word. */
void store_read_these(struct store *store, struct queue_log *log, const struct store_pick *picks,
		      uint32_t count);

/* ---- the index of deadlines ---- */

/* A reference whose time has come: it is due, or has expired. */
struct store_deadline {
	struct queue_log *log;
	uint64_t qseq;
	uint64_t time_ms; // since 1970
	struct stored_place place;
};

/* Lists references of one queue that have a time and are not settled, whether they were given or not, those behind the
 * time_ms and qseq of `after' (of which nothing else is looked at), in order, at most max: done is called once, in a
 * later turn, with what there was at this call, but for those that were given and are in memory of the store no more:
 * they may be missing. The log may be gone by then; also when the store closes, then with none. items borrow until it
 * returns. */
void store_list_deadlines(struct store *store, const struct queue_log *log,
			  const struct store_deadline *after, uint32_t max,
			  void (*done)(void *context, const struct store_deadline *items,
				       uint32_t count),
			  void *context);
/* From when on, in ms since 1970, store_take_deadlines() may give something; UINT64_MAX: not before ops.deadlines. */
uint64_t store_next_deadline(struct store *store);
/* Gives up to max references whose time is not behind now_ms and which are not settled, the earliest first; each
 * is given once in a run, whether at hand, cold or unacked. Returns how many; there may be more, see
 * store_next_deadline(), which may have to be read first: then ops.deadlines comes. */
uint32_t store_take_deadlines(struct store *store, uint64_t now_ms, struct store_deadline *out,
			      uint32_t max);
