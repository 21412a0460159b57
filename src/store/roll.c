/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From segment to segment: the next one is prepared by the helper while the last one fills, and the one
 * that is full is sealed: it gets its footer, and its index in memory goes. No further one is begun
 * before that is done, so there are two without a footer at most.
 */
#include "roll.h"

#include "merge.h"
#include "space.h"
#include "spare.h"

#include <errno.h>

/* How long after a failure the helper tries again. */
#define RETRY_MS 1000

/* ---- the next segment ---- */

/* The making of a segment by the helper. */
struct prepare_job {
	struct mail mail;
	struct spares *spares;
	uint64_t id;
	uint64_t capacity;
	uint8_t uuid[STORE_UUID_SIZE];
	struct segment *segment; // made
	int64_t space;		 // free behind it
	int error;
};

static void
run_prepare(struct mail *mail)
{
	struct prepare_job *job = container_of(mail, struct prepare_job, mail);

	job->error = segment_prepare(&job->segment, job->spares, job->id, job->uuid, job->capacity);
	job->space = disk_free_space(job->spares->disk);
}

/* Whether the next segment could not be made, or the last one not be sealed. */
static void
judge_space(struct store *store)
{
	set_short_of_space(store, store->prepare_retry_ms != 0 || store->seal_retry_ms != 0);
}

/* It is tried again, once a second maybe for hours: the log gets one line, and the numbers of files do not grow. */
static void
prepare_failed(struct store *store, const struct prepare_job *job)
{
	if (store->prepare_retry_ms == 0)
		log_error("store: cannot prepare log/%010llu.seg: %s; publishers wait",
			  (unsigned long long)job->id, strerror(-job->error));
	store->prepare_retry_ms = store->now_ms + RETRY_MS;
	if (job->error == -ENOSPC && job->id + 1 == store->next_segment_id)
		store->next_segment_id--;
}

static void
prepare_arrived(struct store *store, struct mail *mail)
{
	struct prepare_job *job = container_of(mail, struct prepare_job, mail);

	store->preparing = false;
	if (job->error == 0) {
		store->next = job->segment;
		store->prepare_retry_ms = 0;
	} else {
		prepare_failed(store, job);
	}
	judge_space(store);
	tell_space(store, job->space);
	xfree(job);
}

void
prepare_next(struct store *store, uint64_t batch_size)
{
	struct prepare_job *job;

	if (store->preparing || store->next != NULL || store->closing ||
	    store->now_ms < store->prepare_retry_ms)
		return;
	job = xcalloc(1, sizeof(*job));
	*job = (struct prepare_job){
		.mail = {.run = run_prepare, .arrive = prepare_arrived},
		.spares = store->spares,
		.id = store->next_segment_id++,
		.capacity = max_u64(store->options.file_size,
				    SEGMENT_HEADER_SIZE + batch_size + BATCH_ALIGNMENT_LARGE),
	};
	memcpy(job->uuid, store->superblock.uuid, STORE_UUID_SIZE);
	store->preparing = true;
	worker_send(&store->helper_thread, &job->mail);
}

/* ---- segments that are full ---- */

/* The segment that is written to, NULL when there is none. */
static struct segment *
open_segment(const struct store *store)
{
	struct segment *last =
		store->segment_count == 0 ? NULL : store->segments[store->segment_count - 1];

	return last == NULL || last->file == NULL ? NULL : last;
}

struct seal_job {
	struct mail mail;
	struct disk *disk;
	struct reader *reader;
	struct disk_file *file; // owns
	uint64_t id;
	uint64_t end;
	uint64_t last_lsn;
	uint64_t first_timed_ms; // of its footer
	uint32_t salt;
	int error;
};

/* Whether the footer that was written is there, and what it begins with. */
static int
look_at_footer(struct seal_job *job)
{
	struct footer footer;
	int error = footer_open(&footer, job->file);

	job->first_timed_ms = footer.first_timed_ms;
	return error;
}

static void
run_seal(struct mail *mail)
{
	struct seal_job *job = container_of(mail, struct seal_job, mail);
	struct footer_loss loss = {0};
	struct scan scan;

	job->error = scan_open(&scan, job->disk, job->id);
	if (job->error == 0) {
		scan.salt = job->salt;
		job->error = footer_build(job->file, &scan, job->end, job->last_lsn, 0, &loss);
		scan_close(&scan);
	}
	if (job->error == 0)
		job->error = look_at_footer(job);
	if (job->error != 0)
		return;
	disk_close(&job->file);
}

static void
run_forget(struct mail *mail)
{
	struct seal_job *job = container_of(mail, struct seal_job, mail);

	reader_forget(job->reader, job->id);
}

static void
forget_arrived(struct store *store, struct mail *mail)
{
	(void)store;
	xfree(container_of(mail, struct seal_job, mail));
}

/* There is an index now: the helper, which may have read the segment without, opens it again before any read that
 * needs it. */
static void
send_forget(struct store *store, struct seal_job *job)
{
	job->mail = (struct mail){.run = run_forget, .arrive = forget_arrived};
	worker_send(&store->helper_thread, &job->mail);
}

static void
seal_arrived(struct store *store, struct mail *mail)
{
	struct seal_job *job = container_of(mail, struct seal_job, mail);
	struct segment *segment = segment_of(store, job->last_lsn);

	if (job->error == 0) {
		assert(segment->id == job->id);
		timed_sealed(store, segment, job->first_timed_ms);
		tail_free(&segment->tail);
		store->sealing = NULL;
		store->seal_retry_ms = 0;
		judge_space(store);
		send_forget(store, job);
		reclaim(store);
		cold_retry(store);
		merge_consider(store);
		return;
	}
	if (job->error == -ENOSPC) {
		if (store->seal_retry_ms == 0)
			log_error("store: cannot write the index of log/%010llu.seg: %s; "
				  "publishers wait",
				  (unsigned long long)job->id, strerror(-job->error));
		store->seal_retry_ms = store->now_ms + RETRY_MS;
		judge_space(store);
		return;
	}
	store_fail(store, job->error, "the index of a segment could not be written");
}

/* The segment takes no more: it gets its footer. */
static void
seal(struct store *store, struct segment *segment)
{
	struct seal_job *job = xcalloc(1, sizeof(*job));

	assert(store->sealing == NULL);
	*job = (struct seal_job){
		.mail = {.run = run_seal, .arrive = seal_arrived},
		.disk = store->disk,
		.reader = store->reader,
		.file = segment->file,
		.id = segment->id,
		.end = segment->end,
		.last_lsn = segment->last_lsn,
		.salt = segment->salt,
	};
	segment->file = NULL;
	store->sealing = job;
	worker_send(&store->index_thread, &job->mail);
}

void
roll_retry(struct store *store)
{
	if (store->seal_retry_ms != 0 && store->now_ms >= store->seal_retry_ms) {
		/* until it is back it counts as failed */
		store->seal_retry_ms = UINT64_MAX;
		worker_send(&store->index_thread, &store->sealing->mail);
	}
	if (store->prepare_retry_ms != 0)
		prepare_next(store, 0);
}

uint64_t
roll_due_ms(const struct store *store)
{
	uint64_t due = store->seal_retry_ms != 0 ? store->seal_retry_ms : UINT64_MAX;

	if (store->prepare_retry_ms != 0 && !store->preparing)
		due = min_u64(due, store->prepare_retry_ms);
	return due;
}

void
roll_end(struct store *store)
{
	struct segment *last = open_segment(store);

	if (last == NULL || store->sealing != NULL)
		return;
	last->last_lsn = store->next_lsn - 1;
	seal(store, last);
}

void
roll_fini(struct store *store)
{
	if (store->sealing == NULL)
		return;
	if (store->sealing->file != NULL)
		disk_close(&store->sealing->file);
	xfree(store->sealing);
	store->sealing = NULL;
}

/* A prepared segment of no use: closing and removing may wait for the disk, so the helper does it. */
struct discard_job {
	struct mail mail;
	struct disk *disk;
	struct disk_file *file; // owns
	uint64_t id;
};

static void
run_discard(struct mail *mail)
{
	struct discard_job *job = container_of(mail, struct discard_job, mail);
	char path[PATH_MAX_SIZE];

	disk_close(&job->file);
	segment_path(path, job->id);
	if (disk_unlink(job->disk, path) < 0)
		log_warn("store: cannot remove %s, which is not in use", path);
}

static void
discard_arrived(struct store *store, struct mail *mail)
{
	(void)store;
	xfree(container_of(mail, struct discard_job, mail));
}

static void
discard_next(struct store *store)
{
	struct discard_job *job = xcalloc(1, sizeof(*job));

	*job = (struct discard_job){
		.mail = {.run = run_discard, .arrive = discard_arrived},
		.disk = store->disk,
		.file = store->next->file,
		.id = store->next->id,
	};
	xfree(store->next);
	store->next = NULL;
	worker_send(&store->helper_thread, &job->mail);
}

/* ---- where a batch goes ---- */

struct segment *
segment_for(struct store *store, uint64_t size)
{
	struct segment *last = open_segment(store);

	if (last != NULL && last->end + size <= last->capacity)
		return last;
	if (store->sealing != NULL)
		return NULL;
	if (store->next != NULL && SEGMENT_HEADER_SIZE + size <= store->next->capacity)
		return store->next;
	if (store->next != NULL) {
		/* the batch is larger than a segment */
		discard_next(store);
	}
	prepare_next(store, size);
	return NULL;
}

void
begin_segment(struct store *store, struct batch *batch, struct segment *segment)
{
	struct segment *last = open_segment(store);

	if (last != NULL) {
		last->last_lsn = batch->first_lsn - 1;
		seal(store, last);
	}
	segment->first_lsn = batch->first_lsn;
	segment->tail = tail_new(segment->id);
	segment_add(store, segment);
	store->next = NULL;
	batch->begins = true;
	batch->header = (struct segment_header){
		.id = segment->id,
		.first_lsn = segment->first_lsn,
		.term = store->superblock.term,
		.created_ms = store->wall_ms,
	};
	memcpy(batch->header.uuid, store->superblock.uuid, STORE_UUID_SIZE);
}
