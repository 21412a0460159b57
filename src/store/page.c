/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies go to the present page file until that is as large as a segment, then to a new one. The broker
 * thread gives out the places and counts those that are in use; the helper has the files open. After an
 * error a file takes no more: the next body goes to a new one.
 *
 * Invariants: a file is listed until it is discarded, which is when nothing in it has a place and nothing
 * is written to it; numbers of files are not used again in one run.
 */
#include "store/page.h"

#include <errno.h>
#include <stdio.h>

#include "internal.h"
#include "store/record.h"
#include "util/crc32c.h"

/* Offsets have 32 bits. */
#define FILE_SIZE_MAX (1024 * 1024 * 1024)
/* One read at most, but for a single larger body, and what may lie unwanted between two bodies of it. */
#define SPAN_MAX (256 * 1024)
#define GAP_MAX (4 * 1024)
/* One write, or half more. */
#define WRITE_SIZE (128 * 1024)
#define SLOTS 4

struct page_file {
	struct list_link of_store; // in the store's list
	struct store *store;	   // borrows until the store ends, then NULL
	uint64_t id;
	uint64_t end;  // octets in use
	uint64_t live; // places given out
};

/* The files that the helper has open. */
struct pager {
	struct disk *disk; // borrows for good
	uint64_t clock;	   // counts uses
	struct {
		uint64_t id; // 0: free
		uint64_t used;
		struct disk_file *file; // owns
	} slots[SLOTS];
};

struct page_job {
	struct mail mail;
	struct pager *pager;	 // borrows
	struct page_item *items; // borrow from the broker
	uint32_t count;
	void *owner;	// the broker's name for it
	uint64_t id;	// of the file that is written to, or removed
	bool make;	// it is new
	uint64_t start; // octets of it before and behind
	uint64_t end;
	uint8_t *octets; // owns; what was read
	int error;
};

static void
page_path(char path[PATH_MAX_SIZE], uint64_t id)
{
	(void)snprintf(path, PATH_MAX_SIZE, PAGE_FOLDER "/%010llu.page", (unsigned long long)id);
}

/* ---- the helper's files ---- */

static struct pager *
pager_new(struct disk *disk)
{
	struct pager *pager = xcalloc(1, sizeof(*pager));

	pager->disk = disk;
	return pager;
}

static void
pager_forget(struct pager *pager, uint64_t id)
{
	for (size_t i = 0; i < SLOTS; i++) {
		if (pager->slots[i].id != id || pager->slots[i].file == NULL)
			continue;
		disk_close(&pager->slots[i].file);
		pager->slots[i].id = 0;
	}
}

static void
pager_free(struct pager **pager)
{
	for (size_t i = 0; i < SLOTS; i++)
		pager_forget(*pager, (*pager)->slots[i].id);
	xfree(*pager);
	*pager = NULL;
}

static int
pager_open(struct pager *pager, uint64_t id, bool make, struct disk_file **file)
{
	char path[PATH_MAX_SIZE];
	size_t oldest = 0;
	int error;

	for (size_t i = 0; i < SLOTS; i++) {
		if (pager->slots[i].id == id) {
			pager->slots[i].used = ++pager->clock;
			*file = pager->slots[i].file;
			return 0;
		}
		if (pager->slots[i].used < pager->slots[oldest].used)
			oldest = i;
	}
	pager_forget(pager, pager->slots[oldest].id);
	page_path(path, id);
	error = disk_open(pager->disk, path, make ? DISK_CREATE : DISK_WRITE, file);
	if (error != 0)
		return error;
	pager->slots[oldest].id = id;
	pager->slots[oldest].used = ++pager->clock;
	pager->slots[oldest].file = *file;
	return 0;
}

/* ---- jobs of the helper ---- */

/* The check of a body in this place: octets of another place never pass. */
static uint32_t
page_check_of(const struct page_item *item, const uint8_t *body)
{
	uint8_t where[12];

	le64_store(where, item->file_id);
	le32_store(where + 8, item->place.offset);
	return crc32c(crc32c(0, where, sizeof(where)), body, item->body.n);
}

static void
put_header(uint8_t *p, const struct page_item *item)
{
	le32_store(p + PAGE_AT_SIZE, (uint32_t)item->body.n);
	le32_store(p + PAGE_AT_CHECK, page_check_of(item, item->body.p));
}

/* What was gathered goes to the file. */
static int
write_gathered(struct disk_file *file, struct buf *gathered, uint64_t *at)
{
	int error = gathered->n == 0 ? 0 : disk_write(file, gathered->p, gathered->n, *at);

	*at += gathered->n;
	buf_clear(gathered);
	return error;
}

/* Small bodies are gathered, large ones not copied. */
static int
write_all(struct disk_file *file, const struct page_job *job)
{
	uint64_t at = job->start;
	struct buf gathered;
	int error = 0;

	buf_init(&gathered, 0);
	for (uint32_t i = 0; i < job->count && error == 0; i++) {
		const struct page_item *item = &job->items[i];
		bool small = item->body.n < WRITE_SIZE / 2;

		put_header(buf_reserve(&gathered, PAGE_HEADER_SIZE), item);
		gathered.n += PAGE_HEADER_SIZE;
		if (small)
			buf_add_bytes(&gathered, item->body);
		if (!small || gathered.n >= WRITE_SIZE)
			error = write_gathered(file, &gathered, &at);
		if (!small && error == 0)
			error = disk_write(file, item->body.p, item->body.n, at);
		if (!small)
			at += item->body.n;
	}
	if (error == 0)
		error = write_gathered(file, &gathered, &at);
	buf_fini(&gathered);
	return error;
}

static void
run_out(struct mail *mail)
{
	struct page_job *job = container_of(mail, struct page_job, mail);
	struct disk_file *file = NULL;

	job->error = pager_open(job->pager, job->id, job->make, &file);
	if (job->error != 0)
		return;
	job->error = write_all(file, job);
	/* what is of no use takes no room; if that fails as well, it goes with the file */
	if (job->error != 0 && disk_truncate(file, job->start) != 0)
		log_debug("store: page/%010llu.page keeps octets of no use",
			  (unsigned long long)job->id);
}

/* How many of the items one read brings, and its size. */
static uint32_t
plan_span(const struct page_job *job, uint32_t at, uint64_t *size)
{
	const struct page_item *first = &job->items[at];
	uint64_t end = PAGE_HEADER_SIZE + first->body.n;
	uint32_t n = 1;

	for (; at + n < job->count; n++) {
		const struct page_item *item = &job->items[at + n];
		uint64_t from = (uint64_t)item->place.offset - first->place.offset;

		if (item->file_id != first->file_id ||
		    item->place.offset < first->place.offset + end || from > end + GAP_MAX ||
		    from + PAGE_HEADER_SIZE + item->body.n > SPAN_MAX)
			break;
		end = from + PAGE_HEADER_SIZE + item->body.n;
	}
	*size = end;
	return n;
}

/* Takes a body out of octets, which were read from offset start on. */
static int
take_body(struct page_item *item, const uint8_t *octets, uint64_t n, uint64_t start)
{
	uint64_t from = item->place.offset - start;
	const uint8_t *p = octets + from;

	if (from + PAGE_HEADER_SIZE + item->body.n > n ||
	    le32_load(p + PAGE_AT_SIZE) != item->body.n ||
	    le32_load(p + PAGE_AT_CHECK) != page_check_of(item, p + PAGE_HEADER_SIZE))
		return -EBADMSG;
	item->body.p = p + PAGE_HEADER_SIZE;
	return 0;
}

static void
read_span(struct page_job *job, uint32_t at, uint32_t n, uint64_t size, uint8_t *octets)
{
	struct page_item *first = &job->items[at];
	struct disk_file *file;
	int64_t got = pager_open(job->pager, first->file_id, false, &file);

	if (got == 0)
		got = disk_read(file, octets, size, first->place.offset);
	for (uint32_t i = 0; i < n; i++) {
		struct page_item *item = &first[i];
		int error = got < 0 ? (int)got
				    : take_body(item, octets, (uint64_t)got, first->place.offset);

		if (error == 0)
			continue;
		item->body.p = NULL;
		if (n > 1) // those beside it may be sound
			read_span(job, at + i, 1, PAGE_HEADER_SIZE + item->body.n,
				  octets + (item->place.offset - first->place.offset));
		else
			log_error("store: a message is lost: page/%010llu.page offset=%lu: %s",
				  (unsigned long long)item->file_id,
				  (unsigned long)item->place.offset,
				  error == -EBADMSG ? "its check fails" : strerror(-error));
	}
}

static void
run_in(struct mail *mail)
{
	struct page_job *job = container_of(mail, struct page_job, mail);
	uint64_t total = 0;
	uint64_t size;
	uint8_t *p;

	for (uint32_t at = 0; at < job->count; total += size)
		at += plan_span(job, at, &size);
	p = job->octets = xmalloc(total);
	for (uint32_t at = 0; at < job->count; p += size) {
		uint32_t n = plan_span(job, at, &size);

		read_span(job, at, n, size, p);
		at += n;
	}
}

static void
run_discard(struct mail *mail)
{
	struct page_job *job = container_of(mail, struct page_job, mail);
	char path[PATH_MAX_SIZE];

	pager_forget(job->pager, job->id);
	page_path(path, job->id);
	job->error = disk_unlink(job->pager->disk, path);
	/* the making of it may be what failed */
	if (job->error != 0 && job->error != -ENOENT)
		log_warn("store: cannot remove %s: %s; the next start does", path,
			 strerror(-job->error));
}

/* ---- places ---- */

static void
discard_arrived(struct store *store, struct mail *mail)
{
	(void)store;
	xfree(container_of(mail, struct page_job, mail));
}

static struct page_job *
job_new(struct store *store, void (*run)(struct mail *),
	void (*arrive)(struct store *, struct mail *))
{
	struct page_job *job = xcalloc(1, sizeof(*job));

	job->mail = (struct mail){.run = run, .arrive = arrive};
	job->pager = store->pages.pager;
	return job;
}

/* Nothing in the file has a place any more. */
static void
file_end(struct page_file *file)
{
	struct store *store = file->store;
	struct page_job *job;

	if (store == NULL) {
		xfree(file);
		return;
	}
	if (file == store->pages.present) {
		if (store->pages.writing)
			return;
		store->pages.present = NULL;
	}
	job = job_new(store, run_discard, discard_arrived);
	job->id = file->id;
	list_remove(&store->pages.files, &file->of_store);
	xfree(file);
	worker_send(&store->helper_thread, &job->mail);
}

void
page_release(struct page_place place)
{
	assert_thread(THREAD_BROKER);
	assert(place.file->live > 0);
	if (--place.file->live == 0)
		file_end(place.file);
}

/* The present file takes no more. */
static void
leave_present(struct store *store)
{
	struct page_file *file = store->pages.present;

	store->pages.present = NULL;
	if (file->live == 0)
		file_end(file);
}

/* The file that takes what is written now. */
static struct page_file *
present_file(struct store *store)
{
	struct pages *pages = &store->pages;
	struct page_file *file;

	if (pages->present != NULL &&
	    pages->present->end >= min_u64(store->options.file_size, FILE_SIZE_MAX))
		leave_present(store);
	if (pages->present != NULL)
		return pages->present;
	file = xcalloc(1, sizeof(*file));
	*file = (struct page_file){.store = store, .id = ++pages->last_id};
	list_append(&pages->files, &file->of_store);
	pages->present = file;
	return file;
}

static void
out_arrived(struct store *store, struct mail *mail)
{
	struct page_job *job = container_of(mail, struct page_job, mail);
	struct page_file *file = store->pages.present;

	assert(file->id == job->id);
	store->pages.writing = false;
	if (job->error == 0) {
		/* one more, until the broker has looked at its own */
		file->live += job->count + 1;
		file->end = job->end;
		for (uint32_t i = 0; i < job->count; i++)
			job->items[i].place.file = file;
	} else {
		leave_present(store);
	}
	store->ops->paged_out(store->context, job->owner, job->error);
	if (job->error == 0)
		page_release((struct page_place){.file = file});
	xfree(job);
}

bool
store_page_out(struct store *store, struct page_item *items, uint32_t count, void *owner)
{
	struct page_file *file;
	struct page_job *job;

	assert_thread(THREAD_BROKER);
	assert(!store->pages.writing);
	assert(count > 0);
	if (store->closing || store->failed)
		return false;
	file = present_file(store);
	job = job_new(store, run_out, out_arrived);
	job->owner = owner;
	job->items = items;
	job->count = count;
	job->id = file->id;
	job->make = file->end == 0;
	job->start = job->end = file->end;
	for (uint32_t i = 0; i < count; i++) {
		items[i].file_id = file->id;
		items[i].place.offset = (uint32_t)job->end;
		job->end += PAGE_HEADER_SIZE + items[i].body.n;
	}
	store->pages.writing = true;
	worker_send(&store->helper_thread, &job->mail);
	return true;
}

static void
in_arrived(struct store *store, struct mail *mail)
{
	struct page_job *job = container_of(mail, struct page_job, mail);

	store->ops->paged_in(store->context, job->owner);
	xfree(job->octets);
	xfree(job);
}

bool
store_page_in(struct store *store, struct page_item *items, uint32_t count, void *owner)
{
	struct page_job *job;

	assert_thread(THREAD_BROKER);
	assert(count > 0);
	if (store->closing || store->failed)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		assert(items[i].place.file->store == store);
		items[i].file_id = items[i].place.file->id;
	}
	job = job_new(store, run_in, in_arrived);
	job->owner = owner;
	job->items = items;
	job->count = count;
	worker_send(&store->helper_thread, &job->mail);
	return true;
}

/* ---- life ---- */

void
pages_init(struct store *store)
{
	list_init(&store->pages.files);
	store->pages.pager = pager_new(store->disk);
}

void
pages_fini(struct store *store)
{
	struct list_link *link;

	assert(!store->pages.writing);
	pager_free(&store->pages.pager);
	while ((link = list_pop(&store->pages.files)) != NULL) {
		struct page_file *file = container_of(link, struct page_file, of_store);
		char path[PATH_MAX_SIZE];

		page_path(path, file->id);
		if (disk_unlink(store->disk, path) != 0)
			log_debug("store: %s is left to the next start", path);
		file->store = NULL;
		if (file->live == 0)
			xfree(file);
	}
}

void
store_page_check(const struct store *store)
{
	const struct pages *pages = &store->pages;
	const struct page_file *file;
	bool listed = pages->present == NULL;

	list_for_each (&pages->files, file, struct page_file, of_store) {
		assert(file->store == store);
		assert(file->id <= pages->last_id);
		assert(file->live > 0 || (file == pages->present && pages->writing));
		listed |= file == pages->present;
	}
	assert(listed);
	assert(!pages->writing || pages->present != NULL);
}
