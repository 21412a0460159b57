/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slab: blocks of any size, of which the owner knows the size. Small ones (to 2 KiB) come out
 * of one pool for each class; the common case is inline in util/mem.h. Large ones (to 1 MiB) are
 * blocks of the system's allocator, freed onto a stack for each class, bounded in bytes, since
 * getting a large block anew costs a page fault for each of its pages. Above that the system does
 * as it likes.
 *
 * Classes are 16 bytes apart up to 256, then there are four a doubling: at most a fifth is lost.
 * Broker thread.
 */
#include "util/mem.h"

#include "internal.h"

#define LARGE_CLASSES 36	     // four for each doubling from 2 KiB to 1 MiB
#define LARGE_MAX ((size_t)1 << 20)  // above, nothing is kept
#define WARM_BYTES ((size_t)2 << 20) // kept free for each large class
#define PAGE ((size_t)4096)

/* Written out, so that the first allocation needs no test whether the table is ready. */
#define POOL(size)                                                             \
	{                                                                      \
		.object_size = (size), .per_chunk = (CHUNK_SIZE - 64) / (size) \
	}

struct pool slab_pools[] = {
	POOL(16),  POOL(32),  POOL(48),	  POOL(64),   POOL(80),	  POOL(96),   POOL(112),
	POOL(128), POOL(144), POOL(160),  POOL(176),  POOL(192),  POOL(208),  POOL(224),
	POOL(240), POOL(256), POOL(320),  POOL(384),  POOL(448),  POOL(512),  POOL(640),
	POOL(768), POOL(896), POOL(1024), POOL(1280), POOL(1536), POOL(1792), POOL(2048),
};

#define FOUR(class) class, class, class, class
#define EIGHT(class) FOUR(class), FOUR(class)
#define SIXTEEN(class) EIGHT(class), EIGHT(class)

/* A line for each distance between classes. */
/* clang-format off */
const uint8_t slab_classes[SLAB_SMALL_MAX / 16 + 1] = {
	0,
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	FOUR(16), FOUR(17), FOUR(18), FOUR(19),
	EIGHT(20), EIGHT(21), EIGHT(22), EIGHT(23),
	SIXTEEN(24), SIXTEEN(25), SIXTEEN(26), SIXTEEN(27),
};
/* clang-format on */

struct free_block {
	struct free_block *next; // of the same class
};

static struct {
	struct free_block *top; // owns; the last freed in front
	size_t bytes;		// of all of them
} warm[LARGE_CLASSES];

/* The class of a size above SLAB_SMALL_MAX and up to LARGE_MAX. */
static inline size_t
large_class(size_t size)
{
	size_t high = highest_bit_u64(size - 1);

	return (high - 11) * 4 + ((size - 1) >> (high - 2) & 3);
}

static inline size_t
large_class_size(size_t class)
{
	return (class % 4 + 5) << (class / 4 + 9);
}

size_t
slab_size(size_t size)
{
	if (size <= SLAB_SMALL_MAX)
		return slab_pools[slab_classes[(size + 15) / 16]].object_size;
	if (size <= LARGE_MAX)
		return large_class_size(large_class(size));
	return (size + PAGE - 1) / PAGE * PAGE;
}

#ifdef ADDRESS_SANITIZER
#define KEEP_WARM false
#else
#define KEEP_WARM true
#endif

void *
slab_alloc_large(size_t size)
{
	size_t real_size = slab_size(size);

	assert_thread(THREAD_BROKER);
	if (KEEP_WARM && size <= LARGE_MAX) {
		size_t class = large_class(size);
		struct free_block *block = warm[class].top;

		if (block != NULL) {
			warm[class].top = block->next;
			warm[class].bytes -= real_size;
			mem_use_warm(real_size);
			return block;
		}
	}
	mem_count(real_size);
	/* Exactly what was asked for, so that the sanitizer sees the first byte behind. */
	return xmalloc(KEEP_WARM ? real_size : size);
}

void
slab_free_large(void *p, size_t size)
{
	size_t real_size = slab_size(size);

	assert_thread(THREAD_BROKER);
	if (KEEP_WARM && size <= LARGE_MAX) {
		size_t class = large_class(size);
		struct free_block *block = p;

		if (warm[class].bytes + real_size <= WARM_BYTES) {
			block->next = warm[class].top;
			warm[class].top = block;
			warm[class].bytes += real_size;
			mem_keep_warm(real_size);
			return;
		}
	}
	mem_uncount(real_size);
	xfree(p);
}

void
slab_trim(void)
{
	for (size_t class = 0; class < LARGE_CLASSES; class ++) {
		while (warm[class].top != NULL) {
			struct free_block *block = warm[class].top;

			warm[class].top = block->next;
			mem_use_warm(large_class_size(class));
			mem_uncount(large_class_size(class));
			xfree(block);
		}
		warm[class].bytes = 0;
	}
	for (size_t i = 0; i < countof(slab_pools); i++)
		pool_trim(&slab_pools[i]);
	chunk_trim();
}
