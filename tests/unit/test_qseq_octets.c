/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settled numbers as octets: what is documented is taken, anything else is refused and not read beyond its
 * end. That a set comes back as it was is in test_qseq_set.c.
 */
#include "store/qseq_set.h"

#include <errno.h>

#include "util/mem.h"

#include "qseq_fixture.h"

/* A set with each kind of item: numbers, bitmap, run and whole spans. */
static void
fill_all_kinds(struct qseq_set *set)
{
	qseq_set_init(set);
	qseq_set_raise(set, 1000);
	qseq_set_add(set, 1010, 1);
	qseq_set_add(set, 1013, 3);
	qseq_set_add(set, 16000, 1);
	for (uint64_t i = 0; i < 300; i++)
		qseq_set_add(set, SPAN + 40000 + i * 3, 1);
	qseq_set_add(set, 2 * SPAN + 30000, 100);
	qseq_set_add(set, 3 * SPAN + 50000, SPAN + 20000);
	ck_assert_uint_eq(set->count, 6);
}

static void
fill_with_ranges(struct qseq_set *set)
{
	uint64_t longest = 1ULL << pick(10);

	qseq_set_init(set);
	qseq_set_raise(set, 1 + pick(SPAN));
	for (uint64_t n = pick(300); n > 0; n--)
		qseq_set_add(set, 1 + pick(4 * SPAN), 1 + pick(longest));
}

/* The octets of a set, which is freed. */
static void
encode(struct qseq_set *set, struct buf *out)
{
	buf_init(out, 0);
	qseq_set_encode(set, out);
	qseq_set_fini(set);
}

/* Decodes octets that lie at the very end of an allocation of their own. */
static int
decode_alone(const uint8_t *p, size_t n, struct qseq_set *set)
{
	uint8_t *alone = xmemdup(p, n);
	struct bytes in = bytes_of(alone, n);
	int result = qseq_set_decode(set, &in);

	if (result == 0) {
		qseq_set_check(set);
	} else {
		if (result != -EBADMSG || in.p != alone || in.n != n)
			ck_abort_msg("refused in a wrong way");
	}
	xfree(alone);
	return result;
}

START_TEST(test_truncations_are_refused)
{
	struct qseq_set set;
	struct buf octets;

	fill_all_kinds(&set);
	encode(&set, &octets);
	for (size_t n = 0; n < octets.n; n++) {
		if (decode_alone(octets.p, n, &set) != -EBADMSG)
			ck_abort_msg("%zu octets were taken", n);
	}
	ck_assert_int_eq(decode_alone(octets.p, octets.n, &set), 0);
	qseq_set_fini(&set);
	buf_fini(&octets);
}
END_TEST

/* Changes a few octets, mostly among the first heads, where it hurts. */
static void
garble(uint8_t *p, size_t n)
{
	for (uint64_t changes = 1 + pick(3); changes > 0; changes--) {
		size_t at = pick(pick(3) == 0 ? n : min_u64(n, 64));

		p[at] = pick(2) == 0 ? (uint8_t)pick(256) : (uint8_t)(p[at] ^ 1U << pick(8));
	}
}

/* What is decoded from garbled octets is refused, or is a sound set that is encoded again as such. */
START_TEST(test_garbled_octets_do_no_harm)
{
	struct qseq_set set;
	struct buf octets, again;
	int refused = 0;

	for (int round = 0; round < 6000; round++) {
		if (round % 2 == 0)
			fill_all_kinds(&set);
		else
			fill_with_ranges(&set);
		encode(&set, &octets);
		garble(octets.p, octets.n);
		if (decode_alone(octets.p, octets.n - (pick(4) == 0 ? pick(octets.n) : 0), &set) !=
		    0) {
			refused++;
		} else {
			encode(&set, &again);
			if (decode_alone(again.p, again.n, &set) != 0)
				ck_abort_msg("what was encoded was refused");
			qseq_set_fini(&set);
			buf_fini(&again);
		}
		buf_fini(&octets);
	}
	ck_assert_int_gt(refused, 300);
}
END_TEST

START_TEST(test_a_limited_buffer_gets_an_error)
{
	struct qseq_set set;
	struct buf whole, octets;

	fill_all_kinds(&set);
	encode(&set, &whole);
	for (size_t limit = 1; limit < whole.n; limit++) {
		fill_all_kinds(&set);
		buf_init(&octets, limit);
		qseq_set_encode(&set, &octets);
		if (!octets.bad)
			ck_abort_msg("%zu octets were enough", limit);
		qseq_set_fini(&set);
		buf_fini(&octets);
	}
	buf_fini(&whole);
}
END_TEST

struct item {
	uint64_t first;	   // number
	uint32_t kind;	   // as encoded
	uint32_t n;	   // as encoded
	uint64_t words[2]; // what follows
	size_t size;	   // how many of them
};

#define RUN(first, count)                  \
	{                                  \
		first, 1, 0, {count, 0}, 1 \
	}
#define NUMBERS(first, n, word)           \
	{                                 \
		first, 2, n, {word, 0}, 1 \
	}
#define BITMAP(first, n, a, b)         \
	{                              \
		first, 3, n, {a, b}, n \
	}

static int
decode_items(uint64_t floor, const struct item *items, uint32_t n, struct qseq_set *set)
{
	uint32_t zero = 0;
	struct buf octets;
	int result;

	buf_init(&octets, 0);
	buf_add(&octets, &floor, 8);
	buf_add(&octets, &n, 4);
	buf_add(&octets, &zero, 4);
	for (uint32_t i = 0; i < n; i++) {
		buf_add(&octets, &items[i].first, 8);
		buf_add(&octets, &items[i].kind, 4);
		buf_add(&octets, &items[i].n, 4);
		buf_add(&octets, items[i].words, items[i].size * 8);
	}
	result = decode_alone(octets.p, octets.n, set);
	buf_fini(&octets);
	return result;
}

START_TEST(test_octets_are_as_documented)
{
	static const struct item items[] = {NUMBERS(102, 3, 0x0000000900040000),
					    BITMAP(SPAN + 64, 2, 5, 1ULL << 63),
					    RUN(2 * SPAN + 1, 7), RUN(3 * SPAN, 2 * SPAN)};
	struct qseq_set set;

	ck_assert_int_eq(decode_items(100, items, countof(items), &set), 0);
	ck_assert_uint_eq(set.floor, 100);
	ck_assert_uint_eq(set.settled, 3 + 3 + 7 + 2 * SPAN);
	ck_assert(qseq_set_has(&set, 102) && qseq_set_has(&set, 106) && qseq_set_has(&set, 111));
	ck_assert(qseq_set_has(&set, SPAN + 64) && qseq_set_has(&set, SPAN + 66));
	ck_assert(qseq_set_has(&set, SPAN + 191));
	ck_assert_uint_eq(qseq_set_next_open(&set, 2 * SPAN + 1), 2 * SPAN + 8);
	ck_assert_uint_eq(qseq_set_next_open(&set, 3 * SPAN), 5 * SPAN);
	qseq_set_fini(&set);
	ck_assert_int_eq(decode_items(QSEQ_MAX + 1, NULL, 0, &set), 0);
	qseq_set_fini(&set);
	ck_assert_int_eq(decode_items(QSEQ_MAX + 2, NULL, 0, &set), -EBADMSG);
	ck_assert_int_eq(decode_items(0, NULL, 0, &set), -EBADMSG);
}
END_TEST

START_TEST(test_false_items_are_refused)
{
	static const struct item alone[] = {
		RUN(99, 5),				   /* below the floor */
		RUN(100, 5),				   /* the floor would be settled */
		RUN(200, 0),				   /* nothing */
		RUN(200, QSEQ_MAX - 198),		   /* one too far */
		RUN(200, QSEQ_MAX),			   /* too far */
		RUN(QSEQ_MAX + 1, 1),			   /* too far */
		{200, 1, 1, {5, 0}, 1},			   /* n of a run */
		{200, 0, 0, {5, 0}, 1},			   /* no such kind */
		{200, 4, 1, {5, 0}, 1},			   /* no such kind */
		NUMBERS(100, 2, 0x00050000),		   /* the floor would be settled */
		NUMBERS(200, 0, 0),			   /* nothing */
		NUMBERS(200, 2, 0x00050001),		   /* the first is not first */
		NUMBERS(200, 3, 0x000400050000),	   /* descending */
		NUMBERS(200, 3, 0x000500050000),	   /* twice the same */
		NUMBERS(200, 3, 0x0006000000050000),	   /* not filled with zeros */
		NUMBERS(SPAN - 3, 2, 0x00030000),	   /* over the border */
		NUMBERS(200, UINT32_MAX, 0),		   /* too many */
		BITMAP(128, 0, 0, 0),			   /* nothing */
		BITMAP(129, 1, 5, 0),			   /* not a multiple of 64 */
		BITMAP(64, 1, 1ULL << 36 | 1ULL << 50, 0), /* the floor would be settled */
		BITMAP(64, 1, 1ULL << 3 | 1ULL << 50, 0),  /* below the floor */
		BITMAP(128, 2, 0, 5),			   /* starts with zeros */
		BITMAP(128, 2, 5, 0),			   /* ends with zeros */
		BITMAP(SPAN - 64, 2, 5, 5),		   /* over the border */
		{128, 3, UINT32_MAX, {5, 5}, 2},	   /* too many */
	};
	static const struct item pairs[][2] = {
		{RUN(200, 5), RUN(205, 5)},
		{RUN(300, 5), RUN(200, 5)},
		{RUN(300, 5), NUMBERS(400, 2, 0x00050000)},
		{NUMBERS(400, 2, 0x00050000), BITMAP(512, 1, 5, 0)},
		{RUN(SPAN, SPAN), BITMAP(SPAN, 1, 5, 0)},
		{BITMAP(SPAN, 1, 5, 0), RUN(SPAN, SPAN)},
		{BITMAP(SPAN, 1, 5, 0), BITMAP(128, 1, 5, 0)},
	};
	struct qseq_set set;

	for (size_t i = 0; i < countof(alone); i++) {
		if (decode_items(100, &alone[i], 1, &set) != -EBADMSG)
			ck_abort_msg("item %zu was taken", i);
	}
	for (size_t i = 0; i < countof(pairs); i++) {
		if (decode_items(100, pairs[i], 2, &set) != -EBADMSG)
			ck_abort_msg("pair %zu was taken", i);
	}
}
END_TEST

START_TEST(test_a_whole_span_is_only_taken_as_a_run)
{
	struct item item = {.first = SPAN, .kind = 3, .n = SPAN / 64};
	uint64_t ones = UINT64_MAX, floor = 1, items = 1;
	struct qseq_set set;
	struct buf octets;

	buf_init(&octets, 0);
	buf_add(&octets, &floor, 8);
	buf_add(&octets, &items, 8);
	buf_add(&octets, &item, 16);
	for (uint32_t i = 0; i < item.n; i++)
		buf_add(&octets, &ones, 8);
	ck_assert_int_eq(decode_alone(octets.p, octets.n, &set), -EBADMSG);
	octets.p[octets.n / 2] = 0xfe;
	ck_assert_int_eq(decode_alone(octets.p, octets.n, &set), 0);
	ck_assert_uint_eq(set.settled, SPAN - 1);
	qseq_set_fini(&set);
	buf_fini(&octets);
}
END_TEST

START_TEST(test_any_choice_of_kinds_is_taken)
{
	static const struct item items[] = {
		BITMAP(128, 1, 7, 0),			  /* a run */
		NUMBERS(SPAN + 2, 3, 0x0000000200010000), /* a run */
		RUN(2 * SPAN, SPAN),
		RUN(3 * SPAN, SPAN),	     /* one run */
		RUN(4 * SPAN + 5, 2 * SPAN), /* three runs */
	};
	struct qseq_set set;

	ck_assert_int_eq(decode_items(100, items, countof(items), &set), 0);
	ck_assert_uint_eq(set.settled, 6 + 4 * SPAN);
	ck_assert_uint_eq(set.count, 6);
	qseq_set_fini(&set);
}
END_TEST

TESTS("qseq_octets", test_truncations_are_refused, test_garbled_octets_do_no_harm,
      test_a_limited_buffer_gets_an_error, test_octets_are_as_documented,
      test_false_items_are_refused, test_a_whole_span_is_only_taken_as_a_run,
      test_any_choice_of_kinds_is_taken)
