/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only store/ sees: segments, the batch, mail between the threads. The broker thread owns struct
 * store and all segments; a batch or a job belongs to the thread whose mailbox it is in.
 */
#pragma once

#include <pthread.h>

#include "store/store.h"
#include "timed.h"
#include "util/mailbox.h"
#include "util/log.h"
#include "util/mem.h"

#define LOG_FOLDER "log"
#define CHECKPOINT_FOLDER "ckpt"
#define PAGE_FOLDER "page"
#define PATH_MAX_SIZE 64

/* ---- mail ---- */

/* What goes to a thread and comes back. */
struct mail {
	struct letter letter;
	void (*run)(struct mail *mail);				// on the thread that got it
	void (*arrive)(struct store *store, struct mail *mail); // on the broker thread afterwards
};

/* A thread that does what comes by mail, in order, and sends it back. */
struct worker {
	struct mailbox *inbox;
	struct mailbox *outbox; // borrows: the store's
	pthread_t thread;
	enum thread_role role;
	bool running; // it is a thread; else worker_step() is called
	bool ended;   // the worker's: the stop letter came
	struct mail stop;
};

void worker_init(struct worker *worker, enum thread_role role, struct mailbox *outbox);
void worker_start(struct worker *worker);
/* Lets it finish what it has; then the thread is gone. What it sent back is in the outbox. */
void worker_stop(struct worker *worker);
void worker_send(struct worker *worker, struct mail *mail);
/* Without a thread: runs what is in the inbox; whether there was anything. */
bool worker_step(struct worker *worker);
void worker_fini(struct worker *worker);

/* ---- segments ---- */

struct tail;
struct reader;
struct spares;
struct seal_job;
struct merge_job;

/* Where a merge stands (merge.c). */
enum merge_state {
	MERGE_IDLE,
	MERGE_LISTING, // the helper lists the queues of the sources
	MERGE_LISTED,  // it waits for a checkpoint to be taken
	MERGE_MARKED,  // and for that to be on disk
	MERGE_COPYING,
	MERGE_PAUSED // publishers wait for the disk
};

/* A file of the log as the broker thread knows it. */
struct segment {
	uint64_t id;
	uint32_t generation;
	uint32_t salt;
	uint64_t first_lsn; // 0: prepared, not in use
	uint64_t last_lsn;  // 0: none yet
	uint64_t end;	    // octets in use
	uint64_t capacity;  // octets that can be written without meeting a full disk
	uint64_t live; // octets of message records, each counted by its unsettled references' share
	uint64_t live_refs;	// unsettled references in it
	uint64_t empty_lsn;	// LSN of the first checkpoint that found none of these; 0: none did
	bool listed;		// recovery: the checkpoint knows it
	struct disk_file *file; // owns; open for writing; NULL: it takes no more
	struct tail *tail;	// owns; its index; NULL: it has a footer
	bool merging;		// it is a source of the merge
	bool unsound;		// it cannot be read as a whole, so it is not compacted
	uint64_t swallowed;	// id of the segment that was merged into it last; 0: none
	uint64_t written;	// octets that batches brought which are stable
	struct timed_cursor timed; // of one with a footer
};

/* A sealed segment, for threads that do not have it. */
struct segment_place {
	uint64_t id;
	uint64_t end;
	uint64_t last_lsn;
	uint32_t generation;
};

struct segment_place segment_place_of(const struct segment *segment);
void segment_path(char path[PATH_MAX_SIZE], uint64_t id);
/* The segment that holds the LSN; the latest one first, as it mostly is. NULL: none. */
struct segment *segment_of(const struct store *store, uint64_t lsn);
/* NULL: there is none of this id. */
struct segment *segment_by_id(const struct store *store, uint64_t id);
/* References in it were settled; NULL: it is gone meanwhile. */
void segment_release(struct segment *segment, uint64_t refs, uint64_t octets);
/* Puts it behind the others. */
void segment_add(struct store *store, struct segment *segment);
/* Takes it off and frees it; its file stays. */
void segment_remove(struct store *store, struct segment *segment);
/* Makes a file for the log, of a spare one or a new one: allocated, with a header that says it is not in use,
 * all of it synced. 0 with *segment, or a negative errno; then there may be a file of that id. The thread that
 * has the spare ones. */
int segment_prepare(struct segment **segment, struct spares *spares, uint64_t id,
		    const uint8_t uuid[STORE_UUID_SIZE], uint64_t capacity) MUST_CHECK;

/* ---- the batch ---- */

/* Records that are written and synced together; BATCH_SIZE octets in front are for its own record. */
struct batch {
	struct mail mail;
	uint8_t *p; // owns
	size_t size;
	size_t room;
	uint64_t first_lsn; // of its first record
	uint32_t count;	    // of records
	uint64_t live;	    // as of a segment
	uint64_t live_refs;
	struct queue_log *
		*logs; // owns the array; the queues of its references, in order; NULL: dropped
	uint32_t log_count;
	uint32_t log_room;
	size_t record_at;	 // of the message that is being appended
	size_t due_at;		 // where the next due time of its references goes
	uint64_t expiry_ms;	 // its own
	struct timed_heap timed; // its references that have a time, until it is handed over
	uint64_t opened_ms;	 // when the end of a turn saw its first record; 0: not yet
	/* when it is on its way */
	struct writer *writer;	 // borrows
	struct segment *segment; // borrows; where it goes
	struct disk_file *file;	 // borrows: the writer's until it comes back
	uint64_t offset;	 // where it goes
	uint32_t salt;		 // of the segment
	uint64_t term;
	uint64_t stable;
	bool begins; // it is the first of its segment: the header is written as well
	struct segment_header header;
	int error;
};

struct batch *batch_new(void);
void batch_free(struct batch *batch); // NULL is allowed
/* Empties it; a buffer of more than keep octets is freed. */
void batch_reset(struct batch *batch, size_t keep);
/* Room for n more octets behind what is there. */
uint8_t *batch_reserve(struct batch *batch, size_t n);
/* The queue is going: its references in the batch are nobody's. */
void batch_forget_queue(struct batch *batch, const struct queue_log *log);
/* Appends the marks that queues have gathered: before the batch is handed over. */
void batch_take_marks(struct store *store);
uint64_t append_purge(struct store *store, const struct purge_record *purge);
uint64_t append_epoch(struct store *store, uint64_t term, uint64_t last_lsn);

/* What the store thread knows of the log: where its chain stands. */
struct writer {
	uint64_t number; // of the last batch
	uint32_t digest; // of the last batch
	uint32_t group;	 // of the last write group
};

/* Seals, writes and syncs a batch. Store thread. */
void writer_write(struct mail *mail);

/* ---- the store ---- */

struct ack_range {
	uint64_t first;
	uint32_t count;
	uint32_t reason; // enum ack_reason
	uint64_t octets; // bodies of those messages
};

#define CHECKPOINTS_KEPT 3

struct checkpoint_job;

struct checkpoints {
	uint64_t lsns[CHECKPOINTS_KEPT]; // of those on disk, ascending
	size_t count;
	struct checkpoint_job *waiting; // owns; taken, and not all of it is stable
	bool forced;			// one is wanted though not much was logged
	bool writing;			// one was taken, and is not on disk yet
	int error;			// of the last one
	int logged;			// error that the log knows of; 0: the last one was written
	uint64_t octets;		// of log since the last one was taken
	uint64_t taken_ms;		// when
	uint64_t taken_us;		// and how long the broker thread had with it, estimated
};

struct page_file;
struct pager;

/* Bodies of transient messages on disk (page.c). */
struct pages {
	struct list files;	   // struct page_file.of_store; own
	struct page_file *present; // takes what is written next; NULL: none yet
	uint64_t last_id;
	bool writing;	     // a job writes to it
	struct pager *pager; // owns; the helper's while it runs
};

struct store {
	struct disk *disk; // borrows for good
	struct store_options options;
	const struct store_ops *ops; // static
	void *context;
	bool is_new;
	struct superblock superblock;
	struct disk_file *superblock_file; // owns

	struct mailbox *mailbox; // batches and jobs that come back
	struct worker writer_thread;
	struct worker helper_thread;
	struct worker index_thread;
	struct writer writer; // the store thread's while it runs

	struct segment **segments; // own; by LSN; the last one is written to
	size_t segment_count;
	size_t segment_room;
	struct reader *reader; // owns; the helper's while it runs
	struct spares *spares; // owns; the helper's while it runs
	struct seal_job
		*sealing; // owns unless it is on its way; the segment before the last has no footer
	uint64_t seal_retry_ms;	 // when to try again; 0: there was no error
	struct merge_job *merge; // the helper's while it copies; NULL: none
	enum merge_state merge_state;
	uint64_t
		unreleased; // references of queues that are gone, for which store_release() is to come
	uint64_t merged_octets;	 // written by merges
	uint64_t merge_look_ms;	 // when to look for one; 0: nothing was logged since
	uint64_t merge_retry_ms; // no merge before; 0: there was no error
	bool merge_lacks_room;	 // the last one found none
	struct timed_index timed;
	uint32_t locating;    // jobs that will take settled messages off their segments
	struct list wanting;  // queues whose read waits: struct queue_log.wanting
	struct list picking;  // struct picking.waiting
	uint64_t pick_ticket; // of the last store_read_these()
	struct pages pages;
	struct segment *next; // owns; prepared; NULL: not yet
	uint64_t next_segment_id;
	bool preparing;		   // a job is making it
	uint64_t prepare_retry_ms; // when to try again after an error; 0: there was none
	bool short_of_space;
	bool space_low;	  // as store_ask_space() was told last
	uint64_t now_ms;  // monotonic, of the last store_submit()
	uint64_t wall_ms; // since 1970, as above
	bool closing;

	struct batch *filling;
	struct batch *spare; // NULL while it is on its way
	uint64_t next_lsn;   // of the next record
	uint64_t stable;
	bool failed;
	bool waits_for_segment; // the batch is due, but there is no file for it

	struct checkpoints checkpoints;
	struct buf *snapshot; // where store_snapshot_add() writes; NULL: not now

	struct map queues; // struct queue_log.by_id
	struct list acked; // queues with marks for the present batch
	uint64_t next_queue_id;
};

/* The head of one row of the section KEYS, with its names: record_align(KEYS_HEAD_SIZE + names) octets. */
void keys_head_encode(uint8_t *p, const struct key_record *of, uint32_t count);

struct queue_log *queue_log_new(struct store *store, uint64_t id);
void queue_log_free(struct store *store, struct queue_log *log);
struct queue_log *queue_log_find(const struct store *store, uint64_t id);
/* Notes a range of settled numbers in log->ranges. */
void queue_log_note_range(struct queue_log *log, uint64_t first, uint32_t count);
/* A message that is open came back so often. */
void queue_log_set_returns(struct queue_log *log, uint64_t qseq, uint32_t count);
/* count messages from first on are settled: nobody asks how often they came back. */
void queue_log_forget_returns(struct queue_log *log, uint64_t first, uint64_t count);
/* Forgets the ranges of the present batch. */
void queue_log_forget_ranges(struct store *store, struct queue_log *log);

/* Writes the other copy in the file, one number on, and syncs it. 0 or a negative errno. Any thread. */
int superblock_write(struct disk_file *file, struct superblock *superblock) MUST_CHECK;
/* Makes the file, both copies alike, under its final name once it is whole. 0 or a negative errno. */
int superblock_create(struct store *store) MUST_CHECK;
/* Reads both copies. 0; -ENOENT when there is no file; -EBADMSG, -ENOTSUP. */
int superblock_read(struct store *store) MUST_CHECK;

void pages_init(struct store *store);
/* Removes all page files; places in them may be given back later. */
void pages_fini(struct store *store);

/* The process must end: ops.failed, once. */
void store_fail(struct store *store, int error, const char *what);

/* Lets go of segments that no recovery needs. */
void reclaim(struct store *store);

/* Reads the log back: calls ops.define and ops.message, fills segments, queues, counters and the chain,
 * cuts a torn tail, and leaves a new segment to write to. 0, or a negative errno with a line in error. */
int recover(struct store *store, struct buf *error) MUST_CHECK;
