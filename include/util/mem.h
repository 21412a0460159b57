/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that never returns NULL: out of memory logs and aborts; what a peer sizes is limited
 * before it gets here. Besides the plain calls: a pool for many objects of one size and a slab for
 * blocks of mixed sizes that come and go with each message. Both are LIFO, so that a relay keeps
 * using warm cache lines, both give empty chunks back to the system, and both are counted in
 * mem_held().
 *
 * Pools and the slab belong to the broker thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size); // zeroed; aborts when the product overflows
void *xrealloc(void *p, size_t size);
void xfree(void *p); // NULL is allowed
char *xstrdup(const char *string);
void *xmemdup(const void *p, size_t n); // never NULL, also when n is 0
/* A C string made of the bytes; an embedded NUL ends it early for C readers. Caller owns. */
char *xstrndup(struct bytes view);

/* Tunes the system's allocator for a daemon that must give memory back. Once, before any thread. */
void mem_start(void);
/* Gives back what the system's allocator keeps between blocks that live: when nothing else is to do. */
void mem_trim(void);

/*
 * Objects of one size, carved out of chunks of 64 KiB that lie at multiples of 64 KiB, so that the
 * address of an object tells its chunk. What follows is shown only because the fast halves of the
 * calls below are inline; nobody outside pool.c touches it.
 */
#define CHUNK_SIZE ((size_t)65536)

struct pool_chunk {
	void *free;		 // freed objects, linked by their first word, the last one in front
	char *fresh;		 // objects from here on were never handed out
	uint32_t used;		 // objects handed out
	uint32_t quiet;		 // freeing needs no care while more than this are used
	struct pool *pool;	 // borrows: whose chunk it is
	struct pool_chunk *next; // in the ring of the pool's chunks with room
	struct pool_chunk *prev;
	struct extent *extent; // borrows from chunk.c: the mapping that it is a part of
	uint64_t unused;       // the header is one cache line
};

struct pool {
	struct pool_chunk *open;  // ring of chunks with room, the one used last in front
	size_t object_size;	  // rounded up to 16
	size_t per_chunk;	  // objects that fit into one chunk
	size_t in_use;		  // objects handed out
	struct pool_chunk *spare; // borrows from the ring: empty when it was kept
};

/* object_size at most 16 KiB. */
void pool_init(struct pool *pool, size_t object_size);
/* All objects must have been freed. */
void pool_fini(struct pool *pool);
/* Gives back the wholly empty chunk that is kept. */
void pool_trim(struct pool *pool);

/* The rare cases of the two calls below. */
void *pool_alloc_slow(struct pool *pool);
void pool_free_slow(struct pool_chunk *chunk);

/* An object, uninitialised. */
static ALWAYS_INLINE void *
pool_alloc(struct pool *pool)
{
#ifndef ADDRESS_SANITIZER
	struct pool_chunk *chunk = pool->open;

	if (likely(chunk != NULL && chunk->free != NULL)) {
		void **object = chunk->free;

		chunk->free = *object;
		chunk->used++;
		pool->in_use++;
		return object;
	}
#endif
	return pool_alloc_slow(pool);
}

#ifdef ADDRESS_SANITIZER
void pool_free(struct pool *pool, void *object);
#else
static ALWAYS_INLINE void
pool_free(struct pool *pool, void *object)
{
	struct pool_chunk *chunk =
		(struct pool_chunk *)((char *)object - ((uintptr_t)object & (CHUNK_SIZE - 1)));

	/* Fails when the object is of another pool, or the size given to slab_free is wrong. */
	assert(chunk->pool == pool);
	*(void **)object = chunk->free;
	chunk->free = object;
	pool->in_use--;
	if (unlikely(--chunk->used <= chunk->quiet))
		pool_free_slow(chunk);
}
#endif

/*
 * Blocks of any size: size classes up to 2 KiB out of pools; above that, classes up to 1 MiB with
 * a bounded stack of free blocks kept warm; above that, the system's allocator. The size is given
 * again on freeing (the owner knows it), so a block has no header.
 */
#define SLAB_SMALL_MAX 2048 // sizes up to this come out of pools

extern struct pool slab_pools[];     // one a class, private to slab.c and the next two
extern const uint8_t slab_classes[]; // the class of each multiple of 16
void *slab_alloc_large(size_t size); // the rest of the next two, above SLAB_SMALL_MAX
void slab_free_large(void *block, size_t size);

/* A block of size bytes (0 is allowed), uninitialised. */
static ALWAYS_INLINE void *
slab_alloc(size_t size)
{
	if (likely(size <= SLAB_SMALL_MAX))
		return pool_alloc(&slab_pools[slab_classes[(size + 15) / 16]]);
	return slab_alloc_large(size);
}

/* Frees it; size is what slab_alloc got. NULL is not allowed. */
static ALWAYS_INLINE void
slab_free(void *block, size_t size)
{
	if (likely(size <= SLAB_SMALL_MAX))
		pool_free(&slab_pools[slab_classes[(size + 15) / 16]], block);
	else
		slab_free_large(block, size);
}

/* The bytes that a block of this size really takes: the size of its class. */
size_t slab_size(size_t size);
/* Gives back the free blocks and chunks kept warm, the empty chunks of the slab included; called
 * when idle. */
void slab_trim(void);

/* Bytes of chunks and large blocks now held by pools and the slab, whether used or spare. */
size_t mem_held(void);
/* The same without what is only kept warm: what slab_trim() could not give back (but for a spare chunk
 * of each pool). This is what the memory limit looks at. */
size_t mem_in_use(void);
