/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bindings of an exchange as an array in order: by destination, exchanges before queues, then by key
 * and arguments. The order does not depend on when they were made, so it is the same after a restart. The
 * array is there while there is a binding. Types that choose among all bindings by a number keep it
 * (x-random, x-modulus-hash), and hash with the function below, which is the same in every process.
 *
 * Invariant: the array holds what is on bindings_out, strictly ascending.
 */
#include "route.h"
#include "util/mem.h"

#define ROOM_FIRST 8

struct binding_array {
	struct binding **items; // owns the array, borrows the bindings while they are bound
	uint32_t count;
	uint32_t room;
};

static int
compare(const struct binding *a, const struct binding *b)
{
	int order;

	if ((a->queue == NULL) != (b->queue == NULL))
		return a->queue == NULL ? -1 : 1;
	order = a->queue != NULL ? bytes_compare(a->queue->name, b->queue->name)
				 : bytes_compare(a->exchange->name, b->exchange->name);
	if (order == 0)
		order = bytes_compare(a->key, b->key);
	return order != 0 ? order : bytes_compare(a->arguments, b->arguments);
}

/* Where it is, or belongs. */
static uint32_t
place_of(const struct binding_array *array, const struct binding *binding)
{
	uint32_t low = 0;
	uint32_t high = array->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare(array->items[middle], binding) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void
sorted_add(struct exchange *exchange, struct binding *binding)
{
	struct binding_array *array = exchange->sorted;
	uint32_t place;

	if (array == NULL)
		array = exchange->sorted = xcalloc(1, sizeof(*array));
	if (array->count == array->room) {
		array->room = array->room == 0 ? ROOM_FIRST : array->room * 2;
		assert(array->room > array->count);
		array->items = xrealloc(array->items, array->room * sizeof(*array->items));
	}
	place = place_of(array, binding);
	memmove(array->items + place + 1, array->items + place,
		(array->count - place) * sizeof(*array->items));
	array->items[place] = binding;
	array->count++;
}

void
sorted_remove(struct exchange *exchange, struct binding *binding)
{
	struct binding_array *array = exchange->sorted;
	uint32_t place = place_of(array, binding);

	assert(place < array->count);
	assert(array->items[place] == binding);
	array->count--;
	memmove(array->items + place, array->items + place + 1,
		(array->count - place) * sizeof(*array->items));
	if (array->count > 0)
		return;
	xfree(array->items);
	xfree(array);
	exchange->sorted = NULL;
}

uint32_t
sorted_count(const struct exchange *exchange)
{
	return exchange->sorted == NULL ? 0 : exchange->sorted->count;
}

const struct binding *
sorted_at(const struct exchange *exchange, uint32_t index)
{
	assert(index < sorted_count(exchange));
	return exchange->sorted->items[index];
}

void
sorted_check(const struct exchange *exchange)
{
	const struct binding_array *array = exchange->sorted;

	assert(sorted_count(exchange) == exchange->bindings_out.count);
	for (uint32_t i = 0; i < sorted_count(exchange); i++) {
		assert(array->items[i]->source == exchange);
		assert(i == 0 || compare(array->items[i - 1], array->items[i]) < 0);
	}
}

/* ---- the hash ---- */

/* FNV-1a. */
uint64_t
stable_hash(uint64_t hash, struct bytes octets)
{
	for (size_t i = 0; i < octets.n; i++)
		hash = (hash ^ octets.p[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* Bits of the last octets have not reached everywhere yet: shifts and odd factors bring them there. */
uint64_t
stable_hash_end(uint64_t hash)
{
	hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
	hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
	return hash ^ (hash >> 33);
}
