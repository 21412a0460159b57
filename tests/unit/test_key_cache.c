/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a deduplicating exchange or queue as a data structure, by itself and against a plain list. */
#include "broker/key_cache.h"

#include "util/mem.h"

#include "lib/runner.h"

static struct key_cache cache;

static const uint8_t *
digest_of(unsigned n)
{
	static uint8_t digest[KEY_DIGEST_SIZE];

	memset(digest, 0, sizeof(digest));
	memcpy(digest, &n, sizeof(n));
	return digest;
}

static void
put(unsigned n, uint64_t value)
{
	key_cache_put(&cache, digest_of(n), value, 0);
	key_cache_check(&cache);
}

static bool
has(unsigned n)
{
	return key_cache_find(&cache, digest_of(n)) != NULL;
}

static void
tear_down(void)
{
	key_cache_fini(&cache);
}

START_TEST(test_a_key_is_found_with_its_value)
{
	key_cache_init(&cache, 10);
	ck_assert(!has(1));
	put(1, 11);
	key_cache_put(&cache, digest_of(2), 22, KEY_STORED);
	ck_assert_uint_eq(key_cache_find(&cache, digest_of(1))->value, 11);
	ck_assert_uint_eq(key_cache_find(&cache, digest_of(1))->flags, 0);
	ck_assert_uint_eq(key_cache_find(&cache, digest_of(2))->value, 22);
	ck_assert_uint_eq(key_cache_find(&cache, digest_of(2))->flags, KEY_STORED);
	ck_assert(!has(3));
}
END_TEST

START_TEST(test_the_oldest_one_goes)
{
	key_cache_init(&cache, 3);
	for (unsigned n = 1; n <= 4; n++)
		put(n, n);
	ck_assert_uint_eq(cache.count, 3);
	ck_assert(!has(1));
	ck_assert(has(2));
	/* found is not used: it stays where it is */
	put(5, 5);
	ck_assert(!has(2));
}
END_TEST

START_TEST(test_put_again_it_is_the_youngest)
{
	key_cache_init(&cache, 3);
	put(1, 1);
	put(2, 2);
	put(3, 3);
	put(1, 10);
	ck_assert_uint_eq(cache.count, 3);
	put(4, 4);
	ck_assert(!has(2));
	ck_assert_uint_eq(key_cache_find(&cache, digest_of(1))->value, 10);
}
END_TEST

START_TEST(test_a_limit_of_one)
{
	key_cache_init(&cache, 1);
	put(1, 1);
	put(2, 2);
	ck_assert(has(2));
	ck_assert_uint_eq(cache.count, 1);
	put(2, 3);
	ck_assert_uint_eq(cache.count, 1);
}
END_TEST

START_TEST(test_a_smaller_limit)
{
	key_cache_init(&cache, 100);
	for (unsigned n = 1; n <= 100; n++)
		put(n, n);
	key_cache_set_limit(&cache, 10);
	key_cache_check(&cache);
	ck_assert_uint_eq(cache.count, 10);
	ck_assert(!has(90));
	ck_assert(has(91));
	key_cache_set_limit(&cache, 100);
	put(101, 101);
	ck_assert_uint_eq(cache.count, 11);
}
END_TEST

/* What it takes follows what it has, down too. */
START_TEST(test_memory)
{
	size_t before = mem_in_use();
	size_t full;

	key_cache_init(&cache, UINT32_MAX);
	for (unsigned n = 0; n < 100000; n++)
		key_cache_put(&cache, digest_of(n), n, 0);
	full = mem_in_use() - before;
	ck_assert_uint_lt(full, 131072 * 45);
	for (unsigned n = 0; n < 100000; n++)
		key_cache_remove(&cache, key_cache_find(&cache, digest_of(n)));
	ck_assert_uint_eq(cache.count, 0);
	ck_assert_uint_lt(mem_in_use() - before, 4096);
	put(1, 1);
	ck_assert(has(1));
}
END_TEST

static bool
is_odd(void *context, const struct cached_key *key)
{
	(void)context;
	return key->value % 2 != 0;
}

START_TEST(test_many_are_removed)
{
	key_cache_init(&cache, 1000);
	key_cache_remove_if(&cache, is_odd, NULL);
	for (unsigned n = 1; n <= 1000; n++)
		put(n, n % 10 == 0 ? 2 : 1);
	key_cache_remove_if(&cache, is_odd, NULL);
	key_cache_check(&cache);
	ck_assert_uint_eq(cache.count, 100);
	ck_assert(has(1000));
	ck_assert(!has(999));
}
END_TEST

#define NUMBERS 64

/* Against an array in the order of age. */
START_TEST(test_random)
{
	unsigned list[NUMBERS];
	unsigned count = 0;
	uint64_t random = runner_number("SEED", 1);

	key_cache_init(&cache, 40);
	for (int step = 0; step < 20000; step++) {
		unsigned n;
		unsigned at = 0;

		random = random * 6364136223846793005U + 1442695040888963407U;
		n = (unsigned)(random >> 33) % NUMBERS;
		while (at < count && list[at] != n)
			at++;
		ck_assert_int_eq(has(n), at < count);
		if (at < count) {
			memmove(list + at, list + at + 1, (count - at - 1) * sizeof(*list));
			count--;
		}
		if ((random >> 60) % 3 == 0) {
			if (has(n))
				key_cache_remove(&cache, key_cache_find(&cache, digest_of(n)));
			key_cache_check(&cache);
		} else {
			if (count == 40)
				memmove(list, list + 1, --count * sizeof(*list));
			list[count++] = n;
			put(n, n);
		}
		ck_assert_uint_eq(cache.count, count);
	}
}
END_TEST

TESTS_WITH("key_cache", NULL, tear_down, test_a_key_is_found_with_its_value,
	   test_the_oldest_one_goes, test_put_again_it_is_the_youngest, test_a_limit_of_one,
	   test_a_smaller_limit, test_memory, test_many_are_removed, test_random)
