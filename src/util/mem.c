/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain calls: the system's allocator, but never NULL. Running out of memory is not a thing
 * that a broker recovers from half-way through a message; it says so and ends, and what a peer may
 * ask for was limited before. The only file that names malloc and free. Any thread; the count that
 * mem_held() tells is the broker thread's.
 */
#include "util/mem.h"

#include <malloc.h>
#include <stdlib.h>

#include "util/log.h"

#include "internal.h"

static size_t held;
static size_t kept_warm; // the part of held that nobody uses now

void
out_of_memory(size_t size)
{
	log_write(NULL, LOG_ERROR, "Out of memory, the process ends: bytes_asked=%zu", size);
	abort();
}

void
mem_start(void)
{
	/* A threshold that is set stays: else one freed large block moves it, and blocks of that
	 * size come out of the heap, which gives nothing back while anything above them lives. */
	mallopt(M_MMAP_THRESHOLD, 256 * 1024);
	mallopt(M_TRIM_THRESHOLD, 512 * 1024);
	mallopt(M_ARENA_MAX, 2);
}

void
mem_trim(void)
{
	malloc_trim(0);
}

void *
xmalloc(size_t size)
{
	void *p = malloc(size != 0 ? size : 1);

	if (unlikely(p == NULL))
		out_of_memory(size);
	return p;
}

void *
xcalloc(size_t count, size_t size)
{
	void *p = count != 0 && size != 0 ? calloc(count, size) : calloc(1, 1);

	if (unlikely(p == NULL))
		out_of_memory(count > SIZE_MAX / (size != 0 ? size : 1) ? SIZE_MAX : count * size);
	return p;
}

void *
xrealloc(void *p, size_t size)
{
	void *moved = realloc(p, size != 0 ? size : 1);

	if (unlikely(moved == NULL))
		out_of_memory(size);
	return moved;
}

void
xfree(void *p)
{
	free(p);
}

char *
xstrdup(const char *string)
{
	return xmemdup(string, strlen(string) + 1);
}

void *
xmemdup(const void *p, size_t n)
{
	void *copy = xmalloc(n);

	if (n != 0)
		memcpy(copy, p, n);
	return copy;
}

char *
xstrndup(struct bytes view)
{
	char *copy = xmalloc(view.n + 1);

	if (view.n != 0)
		memcpy(copy, view.p, view.n);
	copy[view.n] = '\0';
	return copy;
}

void
mem_count(size_t bytes)
{
	held += bytes;
}

void
mem_uncount(size_t bytes)
{
	assert(bytes <= held);
	held -= bytes;
}

void
mem_keep_warm(size_t bytes)
{
	kept_warm += bytes;
}

void
mem_use_warm(size_t bytes)
{
	assert(bytes <= kept_warm);
	kept_warm -= bytes;
}

size_t
mem_in_use(void)
{
	return held - kept_warm;
}

size_t
mem_held(void)
{
	return held;
}
