/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of 64 KiB at multiples of 64 KiB, for the pools. They are parts of extents: mappings of 4
 * MiB, because a mapping for each chunk would run into the kernel's limit on mappings with some
 * gigabytes of messages, of which every other chunk was freed.
 *
 * A chunk that comes back stays warm, up to WARM_MAX of them, so that a relay whose burst is larger
 * than a chunk does not pay the page faults of each burst; those above go to the system at once
 * (the pages, not the addresses), and the extent with its last chunk. Large pages are declined:
 * measured, they make filling slower, and one message left would keep 2 MiB.
 *
 * Invariants: an extent is on the list `extents` while it has a free chunk; chunks that are warm
 * are not free in their extent. Broker thread.
 */
#include <sys/mman.h>

#include "util/list.h"
#include "util/mem.h"

#include "internal.h"

#define EXTENT_CHUNKS 64
#define WARM_MAX 32

struct extent {
	struct list_link link; // in extents, while free is not 0
	char *map;	       // owns the mapping
	char *first;	       // the first chunk: map rounded up
	uint64_t free;	       // a bit for each chunk that is free
};

#define MAP_SIZE ((EXTENT_CHUNKS + 1) * CHUNK_SIZE)
#define ALL_FREE UINT64_MAX

static struct list extents = {{&extents.head, &extents.head}, 0};
static struct pool_chunk *warm; // linked by next
static size_t warm_count;
static size_t taken_count;

static struct extent *
extent_new(void)
{
	struct extent *extent = xcalloc(1, sizeof(*extent));
	void *map =
		mmap(NULL, MAP_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		out_of_memory(MAP_SIZE);
	/* It may fail where the kernel has no large pages, which is as good. */
	(void)madvise(map, MAP_SIZE, MADV_NOHUGEPAGE);
	extent->map = map;
	extent->first = extent->map + (-(uintptr_t)map & (CHUNK_SIZE - 1));
	extent->free = ALL_FREE;
	list_prepend(&extents, &extent->link);
	return extent;
}

static void
extent_free(struct extent *extent)
{
	list_remove(&extents, &extent->link);
	munmap(extent->map, MAP_SIZE);
	xfree(extent);
}

struct pool_chunk *
chunk_take(void)
{
	struct pool_chunk *chunk = warm;
	struct extent *extent;
	unsigned place;

	assert_thread(THREAD_BROKER);
	taken_count++;
	if (chunk != NULL) {
		warm = chunk->next;
		warm_count--;
		mem_use_warm(CHUNK_SIZE);
		return chunk;
	}
	extent = list_first(&extents, struct extent, link);
	if (extent == NULL)
		extent = extent_new();
	place = lowest_bit_u64(extent->free);
	extent->free &= ~((uint64_t)1 << place);
	if (extent->free == 0)
		list_remove(&extents, &extent->link);
	chunk = (struct pool_chunk *)(void *)(extent->first + place * CHUNK_SIZE);
	chunk->extent = extent;
	mem_count(CHUNK_SIZE);
	return chunk;
}

/* Gives the memory of the chunk to the system. */
static void
chunk_drop(struct pool_chunk *chunk)
{
	struct extent *extent = chunk->extent;
	size_t place = (size_t)((char *)chunk - extent->first) / CHUNK_SIZE;

	if (extent->free == 0)
		list_prepend(&extents, &extent->link);
	assert((extent->free & (uint64_t)1 << place) == 0);
	extent->free |= (uint64_t)1 << place;
	mem_uncount(CHUNK_SIZE);
	if (extent->free == ALL_FREE)
		extent_free(extent);
	else
		(void)madvise(chunk, CHUNK_SIZE, MADV_DONTNEED);
}

void
chunk_give(struct pool_chunk *chunk)
{
	assert_thread(THREAD_BROKER);
	assert(taken_count > 0);
	taken_count--;
	if (warm_count == WARM_MAX) {
		chunk_drop(chunk);
		return;
	}
	chunk->next = warm;
	warm = chunk;
	warm_count++;
	mem_keep_warm(CHUNK_SIZE);
}

void
chunk_trim(void)
{
	while (warm != NULL) {
		struct pool_chunk *chunk = warm;

		warm = chunk->next;
		warm_count--;
		mem_use_warm(CHUNK_SIZE);
		chunk_drop(chunk);
	}
}

size_t
chunk_count(void)
{
	return taken_count + warm_count;
}
