/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of references that have a time, and a binary heap of them.
 */
#include "timed.h"

#include "util/mem.h"

#define FIRST_ROOM 16

bool
timed_is_before(const struct timed *a, const struct timed *b)
{
	if (a->time_ms != b->time_ms)
		return a->time_ms < b->time_ms;
	if (a->queue_id != b->queue_id)
		return a->queue_id < b->queue_id;
	return a->qseq < b->qseq;
}

void
timed_heap_fini(struct timed_heap *heap)
{
	xfree(heap->items);
	*heap = (struct timed_heap){0};
}

static void
make_room(struct timed_heap *heap, uint32_t count)
{
	if (count <= heap->room)
		return;
	heap->room = heap->room == 0 ? FIRST_ROOM : heap->room;
	while (heap->room < count)
		heap->room *= 2;
	heap->items = xrealloc(heap->items, (size_t)heap->room * sizeof(*heap->items));
}

void
timed_heap_push(struct timed_heap *heap, const struct timed *item)
{
	uint32_t at = heap->count++;

	make_room(heap, heap->count);
	for (; at > 0 && timed_is_before(item, &heap->items[(at - 1) / 2]); at = (at - 1) / 2)
		heap->items[at] = heap->items[(at - 1) / 2];
	heap->items[at] = *item;
}

/* Puts the item at this place, or as far below as others are before it. */
static void
sift_down(struct timed_heap *heap, uint32_t at, struct timed item)
{
	for (uint32_t child; (child = 2 * at + 1) < heap->count; at = child) {
		if (child + 1 < heap->count &&
		    timed_is_before(&heap->items[child + 1], &heap->items[child]))
			child++;
		if (!timed_is_before(&heap->items[child], &item))
			break;
		heap->items[at] = heap->items[child];
	}
	heap->items[at] = item;
}

struct timed
timed_heap_pop(struct timed_heap *heap)
{
	struct timed first;

	assert(heap->count > 0);
	first = heap->items[0];
	heap->count--;
	if (heap->count > 0)
		sift_down(heap, 0, heap->items[heap->count]);
	return first;
}

void
timed_heap_join(struct timed_heap *heap, struct timed_heap *from)
{
	make_room(heap, heap->count + from->count);
	for (uint32_t i = 0; i < from->count; i++)
		timed_heap_push(heap, &from->items[i]);
	from->count = 0;
}

void
timed_heap_filter(struct timed_heap *heap,
		  bool (*keep)(const void *context, const struct timed *item), const void *context)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < heap->count; i++)
		if (keep(context, &heap->items[i]))
			heap->items[kept++] = heap->items[i];
	heap->count = kept;
	for (uint32_t i = kept / 2; i > 0; i--)
		sift_down(heap, i - 1, heap->items[i - 1]);
}
