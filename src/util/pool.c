/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: objects of one size. The common case of both calls is inline in util/mem.h: pop the free
 * list of the chunk in front, push onto that of the object's chunk. Here is the rest.
 *
 * A chunk hands out freed objects first, the last freed in front, then fresh ones in order of
 * address: pages that no object was in stay untouched. A chunk without room leaves the ring when
 * the next object is asked for; the first object freed into it puts it in front again. One that
 * becomes empty is kept as the spare, at the end of the ring, or given back when the spare is empty
 * already. That the spare is in use again is not noted, only seen when it matters: so one message
 * at a time, which empties its chunk each time, costs nothing.
 *
 * Invariants: `open` is a ring of chunks, all but the first with room. quiet is QUIET_NEVER exactly
 * while a chunk is not in the ring, and 0 else, so that one comparison finds both rare cases of
 * freeing. A chunk without used objects is the spare. With the address sanitizer an object is a
 * plain block, so that it sees every misuse.
 */
#include "util/mem.h"

#include "internal.h"

#define QUIET_NEVER UINT32_MAX
#define OBJECT_SIZE_MAX 16384

_Static_assert(sizeof(struct pool_chunk) == 64, "the header is one cache line");

void
pool_init(struct pool *pool, size_t object_size)
{
	size_t size = object_size == 0 ? 16 : (object_size + 15) / 16 * 16;

	assert(object_size <= OBJECT_SIZE_MAX);
	*pool = (struct pool){
		.object_size = size,
		.per_chunk = (CHUNK_SIZE - sizeof(struct pool_chunk)) / size,
	};
}

void
pool_fini(struct pool *pool)
{
	assert(pool->in_use == 0);
	pool_trim(pool);
	assert(pool->open == NULL);
}

#ifdef ADDRESS_SANITIZER

void *
pool_alloc_slow(struct pool *pool)
{
	mem_count(pool->object_size);
	pool->in_use++;
	return xmalloc(pool->object_size);
}

void
pool_free(struct pool *pool, void *object)
{
	assert(pool->in_use > 0);
	pool->in_use--;
	mem_uncount(pool->object_size);
	xfree(object);
}

void
pool_trim(struct pool *pool)
{
	assert(pool->spare == NULL);
}

#else

static void
ring_remove(struct pool_chunk *chunk)
{
	struct pool *pool = chunk->pool;

	if (chunk->next == chunk) {
		pool->open = NULL;
		return;
	}
	chunk->prev->next = chunk->next;
	chunk->next->prev = chunk->prev;
	if (pool->open == chunk)
		pool->open = chunk->next;
}

/* Puts the chunk at the end of the ring, which is also the place before the first. */
static void
ring_append(struct pool_chunk *chunk)
{
	struct pool *pool = chunk->pool;

	if (pool->open == NULL) {
		pool->open = chunk->next = chunk->prev = chunk;
		return;
	}
	chunk->next = pool->open;
	chunk->prev = pool->open->prev;
	chunk->prev->next = chunk;
	chunk->next->prev = chunk;
}

static inline bool
chunk_has_fresh(const struct pool_chunk *chunk, const struct pool *pool)
{
	const char *end =
		(const char *)chunk + sizeof(*chunk) + pool->per_chunk * pool->object_size;

	return chunk->fresh < end;
}

static struct pool_chunk *
add_chunk(struct pool *pool)
{
	struct pool_chunk *chunk = chunk_take();

	chunk->free = NULL;
	chunk->fresh = (char *)chunk + sizeof(*chunk);
	chunk->used = 0;
	chunk->quiet = 0;
	chunk->pool = pool;
	ring_append(chunk);
	pool->open = chunk;
	return chunk;
}

void *
pool_alloc_slow(struct pool *pool)
{
	struct pool_chunk *chunk = pool->open;
	void *object;

	assert(pool->object_size != 0);
	while (chunk != NULL && chunk->free == NULL && !chunk_has_fresh(chunk, pool)) {
		ring_remove(chunk);
		chunk->quiet = QUIET_NEVER;
		chunk = pool->open;
	}
	if (chunk == NULL)
		chunk = add_chunk(pool);
	chunk->used++;
	pool->in_use++;
	if (chunk->free != NULL) {
		object = chunk->free;
		chunk->free = *(void **)object;
	} else {
		object = chunk->fresh;
		chunk->fresh += pool->object_size;
	}
	return object;
}

/* The chunk has lost its last object. */
static void
chunk_emptied(struct pool_chunk *chunk)
{
	struct pool *pool = chunk->pool;

	if (chunk != pool->spare && pool->spare != NULL && pool->spare->used == 0) {
		ring_remove(chunk);
		chunk_give(chunk);
		return;
	}
	pool->spare = chunk;
	/* The others are filled first, so that this one may stay empty. */
	if (chunk->next != chunk) {
		ring_remove(chunk);
		ring_append(chunk);
	}
}

void
pool_free_slow(struct pool_chunk *chunk)
{
	if (chunk->quiet == QUIET_NEVER) {
		chunk->quiet = 0;
		ring_append(chunk);
		chunk->pool->open = chunk;
	}
	if (chunk->used == 0)
		chunk_emptied(chunk);
}

void
pool_trim(struct pool *pool)
{
	struct pool_chunk *spare = pool->spare;

	pool->spare = NULL;
	if (spare == NULL || spare->used != 0)
		return;
	ring_remove(spare);
	chunk_give(spare);
}

#endif
