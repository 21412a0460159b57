/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools and slab: no two blocks overlap, freed ones are used again last first, empty chunks go
 * back, the count is right. What chunks do is not seen under the address sanitizer, where blocks
 * are plain.
 */
#include "util/mem.h"

#include "lib/runner.h"

#include "../../src/util/internal.h"

#define MANY 5000

#ifdef ADDRESS_SANITIZER
#define WITH_CHUNKS false
#else
#define WITH_CHUNKS true
#endif

static void *objects[MANY];

START_TEST(test_plain_calls)
{
	char *zeroed = xcalloc(3, 5);
	char *grown = xmalloc(0);
	char *copy = xmemdup(NULL, 0);
	char *text = xstrdup("abc");
	char *view = xstrndup(bytes_of("abcdef", 3));

	for (int i = 0; i < 15; i++)
		ck_assert_int_eq(zeroed[i], 0);
	grown = xrealloc(grown, 100);
	memset(grown, 1, 100);
	ck_assert_ptr_nonnull(copy);
	ck_assert_str_eq(text, "abc");
	ck_assert_str_eq(view, "abc");
	xfree(zeroed);
	xfree(grown);
	xfree(copy);
	xfree(text);
	xfree(view);
	xfree(NULL);
}
END_TEST

START_TEST(test_pool_objects_do_not_overlap)
{
	struct pool pool;

	pool_init(&pool, 100);
	ck_assert_uint_eq(pool.object_size, 112);
	for (int i = 0; i < MANY; i++) {
		objects[i] = pool_alloc(&pool);
		ck_assert_uint_eq((uintptr_t)objects[i] % 16, 0);
		memset(objects[i], i % 251, 112);
	}
	ck_assert_uint_eq(pool.in_use, MANY);
	ck_assert_uint_ge(mem_held(), (size_t)MANY * 112);
	for (int i = 0; i < MANY; i++) {
		const uint8_t *p = objects[i];

		for (int k = 0; k < 112; k++)
			ck_assert_uint_eq(p[k], i % 251);
	}
	for (int i = 0; i < MANY; i++)
		pool_free(&pool, objects[i]);
	pool_fini(&pool);
	chunk_trim();
	ck_assert_uint_eq(mem_held(), 0);
}
END_TEST

START_TEST(test_pool_reuses_the_last_freed_first)
{
	struct pool pool;
	void *a, *b, *c;

	if (!WITH_CHUNKS)
		return;
	pool_init(&pool, 32);
	a = pool_alloc(&pool);
	b = pool_alloc(&pool);
	c = pool_alloc(&pool);
	pool_free(&pool, a);
	pool_free(&pool, b);
	ck_assert_ptr_eq(pool_alloc(&pool), b);
	ck_assert_ptr_eq(pool_alloc(&pool), a);
	pool_free(&pool, a);
	pool_free(&pool, b);
	pool_free(&pool, c);
	pool_fini(&pool);
}
END_TEST

START_TEST(test_pool_keeps_one_spare_and_few_stay_warm)
{
	struct pool pool;
	size_t objects_left = MANY;

	if (!WITH_CHUNKS)
		return;
	pool_init(&pool, 16384); /* three to a chunk */
	for (int i = 0; i < MANY; i++)
		objects[i] = pool_alloc(&pool);
	ck_assert_uint_eq(mem_held(), (MANY + 2) / 3 * CHUNK_SIZE);
	while (objects_left > 0)
		pool_free(&pool, objects[--objects_left]);
	ck_assert_ptr_nonnull(pool.spare);
	ck_assert_uint_eq(pool.spare->used, 0);
	ck_assert_uint_le(mem_held(), 33 * CHUNK_SIZE);
	pool_trim(&pool);
	chunk_trim();
	ck_assert_uint_eq(mem_held(), 0);
	ck_assert_uint_eq(chunk_count(), 0);
	pool_fini(&pool);
}
END_TEST

START_TEST(test_border_of_a_chunk_does_not_thrash)
{
	struct pool pool;
	size_t per_chunk;
	size_t held;

	if (!WITH_CHUNKS)
		return;
	pool_init(&pool, 4096);
	per_chunk = pool.per_chunk;
	for (size_t i = 0; i <= per_chunk; i++)
		objects[i] = pool_alloc(&pool);
	held = mem_held();
	for (int round = 0; round < 100; round++) {
		pool_free(&pool, objects[per_chunk]);
		ck_assert_uint_eq(mem_held(), held);
		objects[per_chunk] = pool_alloc(&pool);
		ck_assert_uint_eq(mem_held(), held);
	}
	for (size_t i = 0; i <= per_chunk; i++)
		pool_free(&pool, objects[i]);
	pool_fini(&pool);
}
END_TEST

START_TEST(test_random_use_of_a_pool_counts_right)
{
	struct pool pool;
	uint32_t random = 99;
	size_t in_use = 0;

	memset(objects, 0, sizeof(objects));
	pool_init(&pool, 2048);
	for (int step = 0; step < 200000; step++) {
		random = random * 1664525 + 1013904223;
		void **object = &objects[(random >> 8) % 1000];

		/* Filling and emptying by turns, so that chunks come and go. */
		if (*object == NULL && (step / 20000 % 2 == 0 || random >> 30 == 0)) {
			*object = pool_alloc(&pool);
			memcpy(*object, &object, sizeof(object));
			in_use++;
		} else if (*object != NULL && (step / 20000 % 2 == 1 || random >> 30 == 0)) {
			ck_assert_mem_eq(*object, &object, sizeof(object));
			pool_free(&pool, *object);
			*object = NULL;
			in_use--;
		}
		ck_assert_uint_eq(pool.in_use, in_use);
	}
	for (int i = 0; i < 1000; i++) {
		if (objects[i] != NULL)
			pool_free(&pool, objects[i]);
	}
	pool_fini(&pool);
	chunk_trim();
	ck_assert_uint_eq(mem_held(), 0);
}
END_TEST

START_TEST(test_classes_fit_and_grow)
{
	size_t before = 0;

	ck_assert_uint_eq(slab_size(0), 16);
	ck_assert_uint_eq(slab_size(16), 16);
	ck_assert_uint_eq(slab_size(17), 32);
	ck_assert_uint_eq(slab_size(2048), 2048);
	ck_assert_uint_eq(slab_size(2049), 2560);
	ck_assert_uint_eq(slab_size(1 << 20), 1 << 20);
	ck_assert_uint_eq(slab_size((1 << 20) + 1), (1 << 20) + 4096);
	for (size_t size = 1; size < 3 << 20; size += size < 5000 ? 1 : 997) {
		size_t real_size = slab_size(size);

		ck_assert_uint_ge(real_size, size);
		ck_assert_uint_ge(real_size, before);
		ck_assert_uint_eq(slab_size(real_size), real_size);
		ck_assert_uint_le(real_size, size + 15 + size / 4);
		before = real_size;
	}
}
END_TEST

START_TEST(test_slab_blocks_of_all_sizes)
{
	size_t count = 0;

	for (size_t size = 0; size < 3000000; size = size * 5 / 4 + 1) {
		objects[count] = slab_alloc(size);
		memset(objects[count], (int)count, size);
		count++;
	}
	count = 0;
	for (size_t size = 0; size < 3000000; size = size * 5 / 4 + 1) {
		const uint8_t *p = objects[count];

		for (size_t k = 0; k < size; k += 1 + size / 100)
			ck_assert_uint_eq(p[k], count);
		slab_free(objects[count], size);
		count++;
	}
	slab_trim();
	ck_assert_uint_eq(mem_held(), 0);
}
END_TEST

START_TEST(test_large_blocks_stay_warm_within_bounds)
{
	void *last;

	if (!WITH_CHUNKS)
		return;
	for (int i = 0; i < 100; i++)
		objects[i] = slab_alloc(100000);
	ck_assert_uint_eq(mem_held(), 100 * slab_size(100000));
	for (int i = 0; i < 100; i++)
		slab_free(objects[i], 100000);
	ck_assert_uint_gt(mem_held(), 0);
	ck_assert_uint_le(mem_held(), 2 << 20);
	ck_assert_uint_eq(mem_in_use(), 0);
	last = slab_alloc(100001);
	slab_free(last, 100001);
	ck_assert_ptr_eq(slab_alloc(99999), last);
	slab_free(last, 99999);
	slab_trim();
	ck_assert_uint_eq(mem_held(), 0);
}
END_TEST

TESTS("mem", test_plain_calls, test_pool_objects_do_not_overlap,
      test_pool_reuses_the_last_freed_first, test_pool_keeps_one_spare_and_few_stay_warm,
      test_border_of_a_chunk_does_not_thrash, test_random_use_of_a_pool_counts_right,
      test_classes_fit_and_grow, test_slab_blocks_of_all_sizes,
      test_large_blocks_stay_warm_within_bounds)
