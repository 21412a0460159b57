/* SPDX-License-Identifier: Apache-2.0 */
/* Delivered entries by delivery tag: dense and sparse tags, one old tag, against an array. */
#include "session/internal.h"

#include "lib/runner.h"

#define TAGS_MAX 20000

static struct unacked unacked;
static struct message message; // stands for all: nothing looks into it here
static uint64_t settled[TAGS_MAX];
static size_t settled_n;
static uint64_t random_state;

static void
set_up(void)
{
	unacked_init(&unacked);
	random_state = 0x9E3779B97F4A7C15U;
}

static uint32_t
random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 32) % n);
}

static void
add(uint64_t tag)
{
	*unacked_add(&unacked, tag) =
		(struct unacked_slot){.tag = tag, .entry = {tag << 16, &message}};
	unacked_check(&unacked);
}

static void
note(void *context, const struct unacked_slot *slot)
{
	ck_assert_ptr_eq(context, &settled);
	ck_assert_ptr_eq(slot->entry.message, &message);
	ck_assert_uint_eq(slot->entry.bits, slot->tag << 16);
	ck_assert_uint_lt(settled_n, TAGS_MAX);
	settled[settled_n++] = slot->tag;
}

static void
settle_upto(uint64_t tag)
{
	settled_n = 0;
	unacked_settle_upto(&unacked, tag, note, &settled);
	unacked_check(&unacked);
}

static void
settle_reversed(void)
{
	settled_n = 0;
	unacked_settle_all_reversed(&unacked, note, &settled);
	unacked_check(&unacked);
	ck_assert_uint_eq(unacked.count, 0);
}

static void
remove_tag(uint64_t tag)
{
	ck_assert_ptr_nonnull(unacked_find(&unacked, tag));
	unacked_remove(&unacked, tag);
	unacked_check(&unacked);
	ck_assert_ptr_null(unacked_find(&unacked, tag));
}

static void
tear_down(void)
{
	settle_upto(UINT64_MAX);
	unacked_fini(&unacked);
}

START_TEST(test_unacked_finds_dense_tags)
{
	for (uint64_t tag = 1; tag <= 1000; tag++)
		add(tag);
	for (uint64_t tag = 1; tag <= 1000; tag++) {
		struct unacked_slot *slot = unacked_find(&unacked, tag);

		ck_assert_ptr_nonnull(slot);
		ck_assert_uint_eq(slot->tag, tag);
	}
	ck_assert_uint_eq(unacked.count, 1000);
}
END_TEST

START_TEST(test_unacked_finds_sparse_tags)
{
	for (uint64_t tag = 7; tag <= 70000; tag += 7)
		add(tag);
	for (uint64_t tag = 1; tag <= 70007; tag++) {
		struct unacked_slot *slot = unacked_find(&unacked, tag);

		if (tag % 7 == 0 && tag <= 70000)
			ck_assert_uint_eq(slot->tag, tag);
		else
			ck_assert_ptr_null(slot);
	}
}
END_TEST

START_TEST(test_unacked_does_not_find_what_is_not_there)
{
	ck_assert_ptr_null(unacked_find(&unacked, 0));
	ck_assert_ptr_null(unacked_find(&unacked, 1));
	add(5);
	add(6);
	ck_assert_ptr_null(unacked_find(&unacked, 0));
	ck_assert_ptr_null(unacked_find(&unacked, 4));
	ck_assert_ptr_null(unacked_find(&unacked, 7));
	ck_assert_ptr_null(unacked_find(&unacked, UINT64_MAX));
	remove_tag(5);
	remove_tag(6);
	ck_assert_uint_eq(unacked.first, unacked.end);
}
END_TEST

START_TEST(test_unacked_settles_up_to_a_tag_oldest_first)
{
	for (uint64_t tag = 1; tag <= 600; tag++)
		add(tag);
	remove_tag(3);
	settle_upto(400);
	ck_assert_uint_eq(settled_n, 399);
	ck_assert_uint_eq(settled[0], 1);
	ck_assert_uint_eq(settled[2], 4);
	ck_assert_uint_eq(settled[398], 400);
	ck_assert_uint_eq(unacked.count, 200);
	ck_assert_ptr_null(unacked_find(&unacked, 400));
	ck_assert_ptr_nonnull(unacked_find(&unacked, 401));
	settle_upto(100);
	ck_assert_uint_eq(settled_n, 0);
	settle_upto(UINT64_MAX);
	ck_assert_uint_eq(settled_n, 200);
}
END_TEST

START_TEST(test_unacked_settles_all_youngest_first)
{
	for (uint64_t tag = 2; tag <= 1200; tag += 2)
		add(tag);
	remove_tag(1200);
	remove_tag(2);
	remove_tag(600);
	settle_reversed();
	ck_assert_uint_eq(settled_n, 597);
	ck_assert_uint_eq(settled[0], 1198);
	ck_assert_uint_eq(settled[596], 4);
	for (size_t i = 1; i < settled_n; i++)
		ck_assert_uint_lt(settled[i], settled[i - 1]);
	add(1201);
	ck_assert_uint_eq(unacked.count, 1);
}
END_TEST

START_TEST(test_unacked_one_old_tag_does_not_pin_the_others)
{
	size_t before;

	add(1);
	slab_trim();
	before = mem_held();
	for (uint64_t tag = 2; tag <= 200000; tag++) {
		*unacked_add(&unacked, tag) =
			(struct unacked_slot){.tag = tag, .entry = {tag << 16, &message}};
		if (tag > 50)
			unacked_remove(&unacked, tag - 48);
	}
	unacked_check(&unacked);
	ck_assert_uint_eq(unacked.count, 50);
	ck_assert_ptr_nonnull(unacked_find(&unacked, 1));
	ck_assert_uint_le(unacked.end - unacked.first, 4);
	slab_trim();
	ck_assert_uint_le(mem_held(), before + 4 * CHUNK_SIZE);
}
END_TEST

START_TEST(test_unacked_gives_its_memory_back)
{
	size_t before;

	slab_trim();
	before = mem_held();
	for (uint64_t tag = 1; tag <= 100000; tag++)
		*unacked_add(&unacked, tag) =
			(struct unacked_slot){.tag = tag, .entry = {tag << 16, &message}};
	ck_assert_uint_ge(mem_held(), before + 100000 * sizeof(struct unacked_slot));
	for (uint64_t tag = 100000; tag > 0; tag--)
		unacked_remove(&unacked, tag);
	slab_trim();
	ck_assert_uint_le(mem_held(), before + CHUNK_SIZE);
	ck_assert_uint_eq(unacked.first, unacked.end);
}
END_TEST

static void
mark(void *context, struct unacked_slot *slot)
{
	uint64_t *last = context;

	ck_assert_ptr_nonnull(slot->entry.message);
	ck_assert_uint_gt(slot->tag, *last);
	*last = slot->tag;
	slot->global = true;
}

START_TEST(test_unacked_visits_unsettled_slots_in_order)
{
	uint64_t last = 0;

	for (uint64_t tag = 1; tag <= 600; tag += 2)
		add(tag);
	remove_tag(3);
	remove_tag(499);
	unacked_visit(&unacked, 500, mark, &last);
	ck_assert_uint_eq(last, 497);
	for (uint64_t tag = 1; tag <= 600; tag += 2)
		if (tag != 3 && tag != 499)
			ck_assert_int_eq(unacked_find(&unacked, tag)->global, tag < 500);
	last = 0;
	unacked_visit(&unacked, UINT64_MAX, mark, &last);
	ck_assert_uint_eq(last, 599);
	ck_assert_uint_eq(unacked.count, 298);
	add(601);
	ck_assert(!unacked_find(&unacked, 601)->global);
}
END_TEST

START_TEST(test_unacked_visits_the_older_ones)
{
	const struct unacked_slot *younger;
	uint64_t last = 0;

	for (uint64_t tag = 1; tag <= 600; tag++) {
		add(tag);
		unacked_find(&unacked, tag)->delivered_ms = 1000 + tag / 10;
	}
	remove_tag(510);
	younger = unacked_visit_older(&unacked, 1050, mark, &last);
	ck_assert_uint_eq(last, 509);
	ck_assert_uint_eq(younger->tag, 511);
	last = 0;
	ck_assert_ptr_eq(unacked_visit_older(&unacked, 999, mark, &last),
			 unacked_find(&unacked, 1));
	ck_assert_uint_eq(last, 0);
	ck_assert_ptr_null(unacked_visit_older(&unacked, 1060, mark, &last));
	ck_assert_uint_eq(last, 600);
}
END_TEST

static bool model[TAGS_MAX]; // whether the tag is unsettled

static void
model_settle_upto(uint64_t tag)
{
	size_t n = 0;

	for (uint64_t i = 0; i < TAGS_MAX && i <= tag; i++) {
		if (model[i]) {
			ck_assert_uint_eq(settled[n], i);
			n++;
		}
		model[i] = false;
	}
	ck_assert_uint_eq(n, settled_n);
}

static void
random_step(uint64_t *next)
{
	uint32_t what = random_below(100);
	uint64_t some = *next < 300 || random_below(4) == 0 ? random_below((uint32_t)*next)
							    : *next - random_below(300);

	if (what < 60) {
		*next += 1 + (random_below(10) == 0 ? random_below(9) : 0);
		model[*next] = true;
		add(*next);
	} else if (what < 97) {
		struct unacked_slot *slot = unacked_find(&unacked, some);

		ck_assert_int_eq(slot != NULL, model[some]);
		if (slot != NULL)
			remove_tag(some);
		model[some] = false;
	} else if (what < 99) {
		uint64_t upto = some > 400 ? some - 400 : some;

		settle_upto(upto);
		model_settle_upto(upto);
	} else if (random_below(10) == 0) {
		settle_reversed();
		memset(model, 0, sizeof(model));
	}
}

START_TEST(test_unacked_does_what_an_array_does)
{
	uint64_t next = 1; // tag 1 is left out
	size_t count = 0;

	for (int i = 0; i < 12000; i++)
		random_step(&next);
	for (uint64_t tag = 0; tag < TAGS_MAX; tag++) {
		ck_assert_int_eq(unacked_find(&unacked, tag) != NULL, model[tag]);
		count += model[tag];
	}
	ck_assert_uint_eq(unacked.count, count);
	ck_assert_uint_gt(next, 7000);
}
END_TEST

TESTS_WITH("unacked", set_up, tear_down, test_unacked_finds_dense_tags,
	   test_unacked_finds_sparse_tags, test_unacked_does_not_find_what_is_not_there,
	   test_unacked_settles_up_to_a_tag_oldest_first, test_unacked_settles_all_youngest_first,
	   test_unacked_one_old_tag_does_not_pin_the_others, test_unacked_gives_its_memory_back,
	   test_unacked_visits_unsettled_slots_in_order, test_unacked_visits_the_older_ones,
	   test_unacked_does_what_an_array_does)
