/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the store and its part of the turn: when the batch goes to the writer, what comes back, and
 * where the next segment comes from. One batch fills while one is on its way; a batch that is due when
 * the writer is busy waits and grows.
 */
#include "checkpoint.h"
#include "merge.h"
#include "roll.h"
#include "space.h"
#include "spare.h"

#include <errno.h>
#include <stdio.h>

#include "util/digest.h"

struct store_options
store_options_default(void)
{
	return (struct store_options){
		.buffer_size = 1024 * 1024,
		.flush_interval_ms = 25,
		.flush_when_idle = true,
		.file_size = 64 * 1024 * 1024,
		.checkpoint_size = 256 * 1024 * 1024,
		.garbage_percent = 50,
		.garbage_files = 3,
		.unit_max = 64 * 1024 * 1024,
		.node_name = "pannier",
	};
}

/* ---- batches ---- */

static void
batch_arrived(struct store *store, struct mail *mail)
{
	struct batch *batch = container_of(mail, struct batch, mail);
	uint64_t last = batch->first_lsn + batch->count - 1;
	int error = batch->error;

	assert(store->spare == NULL);
	batch->segment->written = batch->offset + batch->size;
	batch_reset(batch, 4 * (size_t)store->options.buffer_size);
	store->spare = batch;
	if (error == 0) {
		assert(last > store->stable);
		store->stable = last;
		store->ops->stable(store->context, last);
		checkpoint_send(store);
		cold_retry(store);
		merge_resume(store);
		merge_after_batch(store);
	} else {
		store_fail(store, error, "the log could not be written");
	}
}

static void
send_batch(struct store *store, struct batch *batch, struct segment *segment, uint64_t padded)
{
	if (segment == store->next)
		begin_segment(store, batch, segment);
	batch->mail = (struct mail){.run = writer_write, .arrive = batch_arrived};
	batch->writer = &store->writer;
	batch->segment = segment;
	batch->file = segment->file;
	batch->offset = segment->end;
	batch->salt = segment->salt;
	batch->term = store->superblock.term;
	batch->stable = store->stable;
	tail_add_batch(segment->tail, batch, segment->end);
	timed_heap_join(&segment->tail->timed, &batch->timed);
	timed_tidy(store, &segment->tail->timed);
	segment->end += padded;
	segment->live += batch->live;
	segment->live_refs += batch->live_refs;
	store->filling = store->spare;
	store->filling->first_lsn = store->next_lsn;
	store->spare = NULL;
	worker_send(&store->writer_thread, &batch->mail);
	prepare_next(store, 0);
	store->checkpoints.octets += padded;
	if (checkpoint_is_due(store))
		checkpoint_begin(store, false);
}

/* Hands the batch over unless there is no file for it; the writer must be idle. */
static void
hand_over(struct store *store)
{
	struct batch *batch = store->filling;
	struct segment *segment;
	uint64_t padded;

	batch_take_marks(store);
	/* where it lies in its segment decides how it is padded: as for the larger case */
	padded = batch_padded_size(0, batch->size) + BATCH_ALIGNMENT_LARGE;
	segment = segment_for(store, padded);
	store->waits_for_segment = segment == NULL;
	if (segment != NULL)
		send_batch(store, batch, segment, batch_padded_size(segment->end, batch->size));
}

static bool
has_records(const struct store *store)
{
	return store->filling->count > 0 || !list_empty(&store->acked);
}

static bool
is_due(const struct store *store, bool input_waits)
{
	const struct batch *batch = store->filling;

	if (batch->size >= store->options.buffer_size)
		return true;
	if (store->now_ms >= batch->opened_ms + store->options.flush_interval_ms)
		return true;
	return store->options.flush_when_idle && !input_waits;
}

/* A checkpoint though nothing happens. It has an LSN of its own: when there is none a record makes one. */
static void
begin_forced(struct store *store)
{
	const struct checkpoints *c = &store->checkpoints;

	if (c->count > 0 && c->lsns[c->count - 1] == store->next_lsn - 1)
		append_epoch(store, store->superblock.term, store->next_lsn - 1);
	else
		checkpoint_begin(store, false);
}

void
store_submit(struct store *store, struct now now, bool input_waits)
{
	assert_thread(THREAD_BROKER);
	store->now_ms = now.monotonic_ms;
	store->wall_ms = now.wall_ms;
	timed_tell(store);
	roll_retry(store);
	merge_look(store);
	if (store->checkpoints.forced && !has_records(store) && store->spare != NULL &&
	    checkpoint_is_due(store))
		begin_forced(store);
	if (!has_records(store) || store->failed)
		return;
	if (store->filling->opened_ms == 0)
		store->filling->opened_ms = now.monotonic_ms;
	if (store->spare != NULL && is_due(store, input_waits))
		hand_over(store);
}

uint64_t
store_due_ms(const struct store *store)
{
	uint64_t due = min_u64(roll_due_ms(store), merge_due_ms(store));

	if (!has_records(store) && store->spare != NULL && !store->failed)
		due = min_u64(due, checkpoint_due_ms(store));
	/* a busy writer and a segment that is being made wake the loop when they are there */
	if (has_records(store) && store->spare != NULL && !store->waits_for_segment &&
	    !store->failed)
		due = min_u64(due, store->filling->opened_ms + store->options.flush_interval_ms);
	return due;
}

void
store_receive(struct store *store)
{
	struct letter *letter = mailbox_drain(store->mailbox);

	assert_thread(THREAD_BROKER);
	while (letter != NULL) {
		struct mail *mail = container_of(letter, struct mail, letter);

		letter = letter->next;
		mail->arrive(store, mail);
	}
}

bool
store_is_behind(struct store *store, struct now now)
{
	if (store->filling->size < store->options.buffer_size)
		return false;
	store_submit(store, now, true);
	return store->filling->size >= store->options.buffer_size;
}

bool
store_is_full(struct store *store, struct now now)
{
	return store->short_of_space || store_is_behind(store, now);
}

uint64_t
store_stable(const struct store *store)
{
	return store->stable;
}

void
store_fail(struct store *store, int error, const char *what)
{
	if (store->failed)
		return;
	store->failed = true;
	store->ops->failed(store->context, error, what);
}

uint64_t
store_unit_max(const struct store *store)
{
	return store->options.unit_max;
}

/* ---- queues ---- */

struct queue_log *
store_queue_new(struct store *store)
{
	assert_thread(THREAD_BROKER);
	return queue_log_new(store, store->next_queue_id);
}

void
store_queue_drop(struct store *store, struct queue_log **log)
{
	assert_thread(THREAD_BROKER);
	assert((*log)->count >= (*log)->cold_count);
	store->unreleased += (*log)->count - (*log)->cold_count;
	cold_drop(store, *log);
	queue_log_free(store, *log);
	*log = NULL;
}

/* ---- life ---- */

static struct store *
store_new(struct disk *disk, const struct store_options *options, const struct store_ops *ops,
	  void *context)
{
	struct store *store = xcalloc(1, sizeof(*store));

	*store = (struct store){
		.disk = disk,
		.options = *options,
		.ops = ops,
		.context = context,
		.mailbox = mailbox_new(),
		.filling = batch_new(),
		.spare = batch_new(),
		.next_lsn = 1,
		.next_queue_id = 1,
		.next_segment_id = 1,
	};
	store->filling->first_lsn = 1;
	store->timed.told_ms = UINT64_MAX;
	map_init(&store->queues);
	list_init(&store->acked);
	list_init(&store->wanting);
	list_init(&store->picking);
	store->reader = reader_new(disk);
	store->spares = xcalloc(1, sizeof(*store->spares));
	store->spares->disk = disk;
	pages_init(store);
	worker_init(&store->writer_thread, THREAD_STORE, store->mailbox);
	worker_init(&store->helper_thread, THREAD_HELPER, store->mailbox);
	worker_init(&store->index_thread, THREAD_INDEX, store->mailbox);
	return store;
}

static void
store_free(struct store *store)
{
	struct queue_log *log;

	map_for_each (&store->queues, log, struct queue_log, by_id)
		queue_log_free(store, log);
	map_fini(&store->queues);
	while (store->segment_count > 0) {
		struct segment *segment = store->segments[store->segment_count - 1];

		if (segment->file != NULL)
			disk_close(&segment->file);
		tail_free(&segment->tail);
		segment_remove(store, segment);
	}
	xfree(store->segments);
	timed_fini(store);
	roll_fini(store);
	merge_fini(store);
	pages_fini(store);
	reader_free(&store->reader);
	xfree(store->spares);
	if (store->next != NULL) {
		disk_close(&store->next->file);
		xfree(store->next);
	}
	if (store->superblock_file != NULL)
		disk_close(&store->superblock_file);
	batch_free(store->filling);
	batch_free(store->spare);
	worker_fini(&store->writer_thread);
	worker_fini(&store->helper_thread);
	worker_fini(&store->index_thread);
	mailbox_free(&store->mailbox);
	xfree(store);
}

static int
complain(struct buf *error, int code, const char *what)
{
	buf_addf(error, "store: %s: %s", what, strerror(-code));
	return code;
}

static int
make_store(struct store *store, struct buf *error)
{
	int code = 0;

	store->superblock = (struct superblock){.term = 1};
	random_bytes(store->superblock.uuid, STORE_UUID_SIZE);
	(void)snprintf(store->superblock.node, sizeof(store->superblock.node), "%s",
		       store->options.node_name);
	code = superblock_create(store);
	return code == 0 ? 0 : complain(error, code, "cannot make STORE");
}

static int
open_superblock(struct store *store, struct buf *error)
{
	int code = superblock_read(store);

	if (code == -ENOENT)
		return make_store(store, error);
	if (code == -ENOTSUP)
		buf_addf(error,
			 "store: STORE was written by a newer version of pannierd; this one "
			 "reads formats up to %d: start the newer one",
			 STORE_FORMAT_MAJOR);
	else if (code == -EBADMSG)
		buf_addf(error, "store: both copies in STORE are damaged; nothing was changed: see "
				"pannierctl store verify");
	else if (code != 0)
		return complain(error, code, "cannot read STORE");
	return code;
}

static int
open_folders(struct store *store, struct buf *error)
{
	static const char *const folders[] = {LOG_FOLDER, CHECKPOINT_FOLDER, PAGE_FOLDER};
	int code = disk_lock(store->disk, "LOCK");

	if (code == -EWOULDBLOCK) {
		buf_addf(error, "store: the directory is in use by another process (see LOCK)");
		return code;
	}
	if (code != 0)
		return complain(error, code, "cannot lock LOCK");
	for (size_t i = 0; i < countof(folders) && code == 0; i++)
		code = disk_mkdir(store->disk, folders[i]);
	if (code == 0)
		code = disk_sync_dir(store->disk, "");
	return code == 0 ? 0 : complain(error, code, "cannot make folders");
}

int
store_open(struct store **opened, struct disk *disk, const struct store_options *options,
	   const struct store_ops *ops, void *context, struct buf *error)
{
	struct store *store = store_new(disk, options, ops, context);
	int code = open_folders(store, error);

	if (code == 0)
		code = open_superblock(store, error);
	if (code == 0)
		code = recover(store, error);
	/* a stop before the first batch leaves files, but no store that anybody has seen */
	if (code == 0)
		store->is_new = store->next_lsn == 1;
	if (code == 0 && store->superblock.clean) {
		store->superblock.clean = false;
		code = superblock_write(store->superblock_file, &store->superblock);
		if (code != 0)
			complain(error, code, "cannot write STORE");
	}
	if (code != 0) {
		store_free(store);
		return code;
	}
	if (store->is_new)
		append_epoch(store, store->superblock.term, 0);
	prepare_next(store, 0);
	merge_after_batch(store);
	*opened = store;
	return 0;
}

bool
store_is_new(const struct store *store)
{
	return store->is_new;
}

struct mailbox *
store_mailbox(struct store *store)
{
	return store->mailbox;
}

void
store_start(struct store *store)
{
	worker_start(&store->writer_thread);
	worker_start(&store->helper_thread);
	worker_start(&store->index_thread);
}

bool
store_work(struct store *store)
{
	bool any = worker_step(&store->writer_thread);

	any |= worker_step(&store->index_thread);
	return worker_step(&store->helper_thread) || any;
}

/* Ends the threads, or does what is in their mail when there are none, and takes in what came of it. */
static void
settle_threads(struct store *store)
{
	bool threads = store->writer_thread.running;

	if (threads) {
		worker_stop(&store->writer_thread);
		worker_stop(&store->index_thread);
		worker_stop(&store->helper_thread);
	} else {
		store_work(store);
	}
	store_receive(store);
}

/* Writes what is left, without threads. */
static int
write_rest(struct store *store)
{
	store->prepare_retry_ms = 0;
	while (has_records(store) && !store->failed) {
		hand_over(store);
		settle_threads(store);
		if (store->waits_for_segment &&
		    (store->prepare_retry_ms != 0 || store->seal_retry_ms != 0))
			return -ENOSPC;
	}
	if (store->failed)
		return -EIO;
	return store->seal_retry_ms != 0 ? -ENOSPC : 0;
}

/* The last checkpoint: with it the next start has nothing to read again. */
static int
checkpoint_clean(struct store *store)
{
	roll_end(store);
	settle_threads(store);
	assert(store->checkpoints.waiting == NULL);
	checkpoint_begin(store, true);
	settle_threads(store);
	return store->checkpoints.error;
}

int
store_close(struct store **closed, bool clean)
{
	struct store *store = *closed;
	int error = 0;

	if (store == NULL)
		return 0;
	settle_threads(store);
	if (clean)
		error = write_rest(store);
	store->closing = true;
	if (clean && error == 0)
		error = checkpoint_clean(store);
	settle_threads(store);
	/* what arrived may have sent more: a checkpoint, and files that go with it */
	while (store_work(store))
		store_receive(store);
	checkpoint_drop(store);
	store_free(store);
	*closed = NULL;
	return error;
}
