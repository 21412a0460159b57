/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/disk_lossy_file.h"

#include "util/mem.h"

#define PAGE_SIZE 4096

/* Un-synced content of a file, whole pages. */
struct page {
	struct map_node node; // in pages of its file, by index
	uint64_t index;
	uint8_t data[PAGE_SIZE];
};

static void
page_free(struct lossy_file *file, struct page *page)
{
	map_remove(&file->pages, &page->node);
	xfree(page);
}

static struct page *
page_find(const struct lossy_file *file, uint64_t index)
{
	struct map_node *node = map_find(&file->pages, bytes_of(&index, sizeof(index)));

	return node != NULL ? container_of(node, struct page, node) : NULL;
}

/* Reads what counts of the real file, and zeros behind it. */
static int
read_real(struct lossy_file *file, uint8_t *p, size_t n, uint64_t at)
{
	size_t there = at < file->valid ? (size_t)min_u64(n, file->valid - at) : 0;
	int64_t got = there > 0 ? disk_read(file->open, p, there, at) : 0;

	if (got < 0)
		return (int)got;
	memset(p + got, 0, n - (size_t)got);
	return 0;
}

static int64_t
read_locked(struct lossy_file *file, uint8_t *p, size_t n, uint64_t offset)
{
	size_t done = 0;

	if (offset >= file->size)
		return 0;
	n = (size_t)min_u64(n, file->size - offset);
	while (done < n) {
		uint64_t at = offset + done;
		size_t begin = at % PAGE_SIZE;
		size_t part = (size_t)min_u64(n - done, PAGE_SIZE - begin);
		struct page *page = page_find(file, at / PAGE_SIZE);
		int error = 0;

		if (page != NULL)
			memcpy(p + done, page->data + begin, part);
		else
			error = read_real(file, p + done, part, at);
		if (error != 0)
			return error;
		done += part;
	}
	return (int64_t)n;
}

/* The page to be written to, made when it is not there. */
static int
page_get(struct lossy_file *file, uint64_t index, struct page **page)
{
	int error;

	*page = page_find(file, index);
	if (*page != NULL)
		return 0;
	*page = xmalloc(sizeof(**page));
	memset(&(*page)->node, 0, sizeof((*page)->node));
	(*page)->index = index;
	error = read_real(file, (*page)->data, PAGE_SIZE, index * PAGE_SIZE);
	if (error != 0) {
		xfree(*page);
		return error;
	}
	map_insert(&file->pages, &(*page)->node, bytes_of(&(*page)->index, sizeof(index)));
	return 0;
}

static int
write_locked(struct lossy_file *file, const uint8_t *p, size_t n, uint64_t offset)
{
	size_t done = 0;

	while (done < n) {
		uint64_t at = offset + done;
		size_t begin = at % PAGE_SIZE;
		size_t part = (size_t)min_u64(n - done, PAGE_SIZE - begin);
		struct page *page;
		int error = page_get(file, at / PAGE_SIZE, &page);

		if (error != 0)
			return error;
		memcpy(page->data + begin, p + done, part);
		done += part;
		file->size = max_u64(file->size, offset + done);
	}
	return 0;
}

/* Puts pages and size into the real file. */
static int
sync_locked(struct lossy_file *file)
{
	struct page *page;
	int64_t size = disk_size(file->open);
	int error = size < 0 ? (int)size : 0;

	if (error == 0 && (uint64_t)size > file->valid)
		error = disk_truncate(file->open, file->valid);
	map_for_each (&file->pages, page, struct page, node) {
		uint64_t at = page->index * PAGE_SIZE;

		assert(at < file->size);
		if (error == 0)
			error = disk_write(file->open, page->data,
					   (size_t)min_u64(PAGE_SIZE, file->size - at), at);
		if (error == 0)
			page_free(file, page);
	}
	if (error == 0)
		error = disk_truncate(file->open, file->size);
	if (error == 0)
		file->valid = file->size;
	return error;
}

int64_t
lossy_file_read(struct lossy_file *file, uint8_t *p, size_t n, uint64_t offset)
{
	int64_t got;

	pthread_mutex_lock(&file->lock);
	got = read_locked(file, p, n, offset);
	pthread_mutex_unlock(&file->lock);
	return got;
}

int
lossy_file_write(struct lossy_file *file, const uint8_t *p, size_t n, uint64_t offset)
{
	int error;

	pthread_mutex_lock(&file->lock);
	error = write_locked(file, p, n, offset);
	pthread_mutex_unlock(&file->lock);
	return error;
}

int
lossy_file_sync(struct lossy_file *file)
{
	int error;

	pthread_mutex_lock(&file->lock);
	error = sync_locked(file);
	pthread_mutex_unlock(&file->lock);
	return error;
}

void
lossy_file_truncate(struct lossy_file *file, uint64_t size)
{
	struct page *page;

	pthread_mutex_lock(&file->lock);
	map_for_each (&file->pages, page, struct page, node) {
		uint64_t at = page->index * PAGE_SIZE;

		if (at >= size)
			page_free(file, page);
		else if (size - at < PAGE_SIZE)
			memset(page->data + (size - at), 0, PAGE_SIZE - (size_t)(size - at));
	}
	file->size = size;
	file->valid = min_u64(file->valid, size);
	pthread_mutex_unlock(&file->lock);
}

int64_t
lossy_file_size(struct lossy_file *file)
{
	int64_t size;

	pthread_mutex_lock(&file->lock);
	size = (int64_t)file->size;
	pthread_mutex_unlock(&file->lock);
	return size;
}

void
lossy_file_grow(struct lossy_file *file, uint64_t size)
{
	pthread_mutex_lock(&file->lock);
	file->size = max_u64(file->size, size);
	pthread_mutex_unlock(&file->lock);
}

void
lossy_file_fini(struct lossy_file *file)
{
	struct page *page;

	map_for_each (&file->pages, page, struct page, node)
		page_free(file, page);
	map_fini(&file->pages);
	pthread_mutex_destroy(&file->lock);
}
