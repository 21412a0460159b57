/* SPDX-License-Identifier: Apache-2.0 */
/* The hash map: finding, doubling, walking with removal, and a hash worth the name. */
#include "util/map.h"

#include <stdio.h>

#include "util/mem.h"

#include "lib/runner.h"

#define MANY 5000

struct member {
	struct map_node node; // in the map under test
	char name[24];	      // the key
	bool seen;	      // met on a walk
};

static struct map map;
static struct member *members;

static void
set_up(void)
{
	map_init(&map);
	members = xcalloc(MANY, sizeof(*members));
	for (int i = 0; i < MANY; i++)
		snprintf(members[i].name, sizeof(members[i].name), "queue.%d", i);
}

static void
tear_down(void)
{
	map_fini(&map);
	xfree(members);
}

static void
insert_many(void)
{
	for (int i = 0; i < MANY; i++)
		map_insert(&map, &members[i].node, bytes_str(members[i].name));
}

START_TEST(test_empty_map_finds_nothing)
{
	ck_assert_ptr_null(map_find(&map, BYTES("x")));
	ck_assert_ptr_null(map_find(&map, bytes_of(NULL, 0)));
	ck_assert_ptr_null(map_first(&map));
}
END_TEST

START_TEST(test_finds_all_after_doubling)
{
	insert_many();
	ck_assert_uint_eq(map.count, MANY);
	ck_assert_uint_ge(map.mask + 1, MANY);
	for (int i = 0; i < MANY; i++)
		ck_assert_ptr_eq(map_find(&map, bytes_str(members[i].name)), &members[i].node);
	ck_assert_ptr_null(map_find(&map, BYTES("queue.5000")));
	ck_assert_ptr_null(map_find(&map, BYTES("queue.")));
}
END_TEST

START_TEST(test_finds_with_a_given_hash)
{
	insert_many();
	ck_assert_ptr_eq(map_find_hashed(&map, BYTES("queue.17"), map_hash(BYTES("queue.17"))),
			 &members[17].node);
}
END_TEST

START_TEST(test_removed_is_gone_and_may_come_back)
{
	insert_many();
	for (int i = 0; i < MANY; i += 2)
		map_remove(&map, &members[i].node);
	ck_assert_uint_eq(map.count, MANY / 2);
	for (int i = 0; i < MANY; i++) {
		struct map_node *node = map_find(&map, bytes_str(members[i].name));

		ck_assert_ptr_eq(node, i % 2 == 0 ? NULL : &members[i].node);
	}
	map_insert(&map, &members[0].node, bytes_str(members[0].name));
	ck_assert_ptr_eq(map_find(&map, BYTES("queue.0")), &members[0].node);
}
END_TEST

START_TEST(test_walk_meets_each_once_and_may_remove)
{
	struct member *member;
	size_t met = 0;

	insert_many();
	map_for_each (&map, member, struct member, node) {
		ck_assert(!member->seen);
		member->seen = true;
		met++;
		map_remove(&map, &member->node);
		memset(&member->node, 0xee, sizeof(member->node));
	}
	ck_assert_uint_eq(met, MANY);
	ck_assert_uint_eq(map.count, 0);
	ck_assert_ptr_null(map_first(&map));
}
END_TEST

START_TEST(test_empty_key_and_embedded_nul)
{
	struct map_node empty = {0};
	struct map_node nul = {0};
	struct map_node longer = {0};

	map_insert(&map, &empty, bytes_of(NULL, 0));
	map_insert(&map, &nul, BYTES("a\0b"));
	map_insert(&map, &longer, BYTES("a\0b\0"));
	ck_assert_ptr_eq(map_find(&map, BYTES("")), &empty);
	ck_assert_ptr_eq(map_find(&map, BYTES("a\0b")), &nul);
	ck_assert_ptr_eq(map_find(&map, BYTES("a\0b\0")), &longer);
	ck_assert_ptr_null(map_find(&map, BYTES("a")));
}
END_TEST

START_TEST(test_seed_repeats_a_run)
{
	uint64_t first;

	map_seed(1);
	first = map_hash(BYTES("orders"));
	map_seed(2);
	ck_assert_uint_ne(map_hash(BYTES("orders")), first);
	map_seed(1);
	ck_assert_uint_eq(map_hash(BYTES("orders")), first);
}
END_TEST

static int
bits_in(uint64_t value)
{
	int count = 0;

	for (; value != 0; value &= value - 1)
		count++;
	return count;
}

/* Every bit of keys of each length must count, in the low bits of the hash, which choose the
 * slot. */
START_TEST(test_each_bit_of_the_key_moves_the_slot)
{
	uint8_t key[64];

	map_seed(7);
	memset(key, 0x5a, sizeof(key));
	for (size_t n = 1; n <= sizeof(key); n++) {
		uint64_t before = map_hash(bytes_of(key, n));

		ck_assert_uint_ne(before, map_hash(bytes_of(key, n - 1)));
		for (size_t bit = 0; bit < n * 8; bit++) {
			uint64_t after;

			key[bit / 8] ^= (uint8_t)(1 << bit % 8);
			after = map_hash(bytes_of(key, n));
			key[bit / 8] ^= (uint8_t)(1 << bit % 8);
			ck_assert_uint_ne(before, after);
			ck_assert_int_ge(bits_in(before ^ after), 8);
		}
	}
}
END_TEST

START_TEST(test_similar_names_spread_over_slots)
{
	size_t longest = 0;

	insert_many();
	for (size_t i = 0; i <= map.mask; i++) {
		size_t length = 0;

		for (struct map_node *node = map.slots[i]; node != NULL; node = node->next)
			length++;
		longest = longest > length ? longest : length;
	}
	/* 5000 balls in 8192 bins: 12 in one has a chance below one in a thousand million. */
	ck_assert_uint_le(longest, 12);
}
END_TEST

TESTS_WITH("map", set_up, tear_down, test_empty_map_finds_nothing, test_finds_all_after_doubling,
	   test_finds_with_a_given_hash, test_removed_is_gone_and_may_come_back,
	   test_walk_meets_each_once_and_may_remove, test_empty_key_and_embedded_nul,
	   test_seed_repeats_a_run, test_each_bit_of_the_key_moves_the_slot,
	   test_similar_names_spread_over_slots)
