/* SPDX-License-Identifier: Apache-2.0 */
/* Counts by number: the table against an array, and the records that they come in. */
#include "store/qseq_counts.h"

#include <errno.h>

#include "store/qseq_set.h"

#include "record_fixture.h"

#define NUMBERS 5000
#define STEPS 200000

static uint32_t model[NUMBERS]; // by number - base; 0: none
static uint64_t base;
static struct qseq_counts counts;
static uint64_t state = 20260801;

static uint64_t
draw(uint64_t n)
{
	state = state * 6364136223846793005 + 1442695040888963407;
	return (state >> 33) % n;
}

static void
tear_down(void)
{
	qseq_counts_fini(&counts);
}

static void
compare(void)
{
	uint64_t *list = qseq_counts_list(&counts);
	uint32_t at = 0;

	qseq_counts_check(&counts);
	for (uint64_t i = 0; i < NUMBERS; i++) {
		if (qseq_counts_get(&counts, base + i) != model[i])
			ck_abort_msg("number %llu has another count", (unsigned long long)i);
		if (model[i] == 0)
			continue;
		ck_assert_uint_lt(at, counts.used);
		if (list[at++] != ((base + i) << 16 | model[i]))
			ck_abort_msg("number %llu is not in the list", (unsigned long long)i);
	}
	ck_assert_uint_eq(at, counts.used);
	xfree(list);
}

static void
remove_some(uint64_t most)
{
	uint64_t n = 1 + draw(most);
	uint64_t first = draw(NUMBERS - n + 1);

	qseq_counts_remove(&counts, base + first, n);
	memset(model + first, 0, n * sizeof(model[0]));
}

static void
run_steps(void)
{
	for (unsigned i = 0; i < STEPS; i++) {
		uint64_t at = draw(NUMBERS);

		switch (draw(8)) {
		case 0:
		case 1:
		case 2:
		case 3:
			model[at] = 1 + (uint32_t)draw(QSEQ_COUNT_MAX);
			qseq_counts_set(&counts, base + at, model[at]);
			break;
		case 4:
		case 5:
			remove_some(1);
			break;
		case 6:
			remove_some(8);
			break;
		default:
			if (draw(400) == 0)
				remove_some(NUMBERS);
		}
		if (i % 1000 == 0)
			compare();
	}
	compare();
}

START_TEST(test_counts_are_those_of_an_array)
{
	static const uint64_t bases[] = {1, 1ULL << 32, QSEQ_MAX - NUMBERS + 1};

	for (size_t i = 0; i < countof(bases); i++) {
		base = bases[i];
		memset(model, 0, sizeof(model));
		run_steps();
		qseq_counts_remove(&counts, 1, QSEQ_MAX);
		ck_assert_uint_eq(counts.used, 0);
		ck_assert_ptr_null(counts.slots);
	}
}
END_TEST

/* Numbers that end up in one place, round the end of the table too, and go in any order. */
START_TEST(test_counts_that_collide)
{
	base = 1;
	for (uint64_t first = 0; first < 64; first++) {
		memset(model, 0, sizeof(model));
		for (uint64_t i = 0; i < 6; i++) {
			model[first + 8 * i * i] = (uint32_t)i + 1;
			qseq_counts_set(&counts, base + first + 8 * i * i, (uint32_t)i + 1);
		}
		for (uint64_t i = 0; i < 6; i++) {
			uint64_t at = first + 8 * ((i + first) % 6) * ((i + first) % 6);

			model[at] = 0;
			qseq_counts_remove(&counts, base + at, 1);
			compare();
		}
	}
}
END_TEST

START_TEST(test_room_is_given_back)
{
	for (uint64_t i = 1; i <= 10000; i++)
		qseq_counts_set(&counts, i, 1);
	for (uint64_t i = 1; i < 10000; i++)
		qseq_counts_remove(&counts, i, 1);
	ck_assert_uint_eq(counts.used, 1);
	ck_assert_uint_le(counts.room, 16);
	qseq_counts_remove(&counts, 10000, 1);
	ck_assert_uint_eq(counts.room, 0);
}
END_TEST

/* ---- records ---- */

static struct return_count seen[4];
static uint32_t seen_count;

static int
note(void *context, const struct return_count *count)
{
	const int *result = context;

	ck_assert_uint_lt(seen_count, countof(seen));
	seen[seen_count++] = *count;
	return *result;
}

static int
walk(uint8_t *p, uint32_t size, int result)
{
	struct record record;

	le32_store(p, size);
	record = sealed_record(p, size);
	seen_count = 0;
	return returns_record_walk(&record, note, &result);
}

START_TEST(test_records_are_read_back)
{
	static const struct return_count some = {0xfedcba987654, QSEQ_MAX, QSEQ_COUNT_MAX};
	uint8_t p[RETURNS_RECORD_SIZE(3)];

	memset(p, 0xaa, sizeof(p));
	returns_record_encode(p, 9, &some);
	ck_assert_int_eq(walk(p, RETURNS_RECORD_SIZE(1), 0), 0);
	ck_assert_uint_eq(le64_load(p + RECORD_AT_LSN), 9);
	ck_assert_uint_eq(seen_count, 1);
	ck_assert_uint_eq(seen[0].queue_id, some.queue_id);
	ck_assert_uint_eq(seen[0].qseq, some.qseq);
	ck_assert_uint_eq(seen[0].count, some.count);
	expect_hex(p + RECORD_HEADER_SIZE, "547698badcfeffffffffffffffff0000");
	/* several in one, of which the last one makes no sense */
	memcpy(p + RETURNS_RECORD_SIZE(1), p + RECORD_HEADER_SIZE, RETURN_SIZE);
	memcpy(p + RETURNS_RECORD_SIZE(2), p + RECORD_HEADER_SIZE, RETURN_SIZE);
	ck_assert_int_eq(walk(p, sizeof(p), 0), 0);
	ck_assert_uint_eq(seen_count, 3);
	ck_assert_int_eq(walk(p, sizeof(p), 5), 5);
	ck_assert_uint_eq(seen_count, 1);
	le64_store(p + RETURNS_RECORD_SIZE(2) + 8, 0);
	ck_assert_int_eq(walk(p, sizeof(p), 0), -EBADMSG);
	le64_store(p + RETURNS_RECORD_SIZE(2) + 8, QSEQ_MAX + 1);
	ck_assert_int_eq(walk(p, sizeof(p), 0), -EBADMSG);
	le64_store(p + RETURNS_RECORD_SIZE(2), 7);
	le64_store(p + RETURNS_RECORD_SIZE(2) + 8, 7);
	ck_assert_int_eq(walk(p, sizeof(p), 0), -EBADMSG);
	ck_assert_int_eq(walk(p, RETURNS_RECORD_SIZE(2) + 8, 0), -EBADMSG);
	ck_assert_int_eq(walk(p, RECORD_HEADER_SIZE, 0), -EBADMSG);
}
END_TEST

/* A reader that does not know the kind, or the version, does without. */
START_TEST(test_records_may_be_skipped)
{
	static const struct return_count some = {1, 1, 1};
	uint8_t p[RETURNS_RECORD_SIZE(1)];

	returns_record_encode(p, 9, &some);
	p[RECORD_AT_VERSION] = RECORD_VERSION + 1;
	ck_assert_int_eq(walk(p, sizeof(p), 0), 0);
	ck_assert_uint_eq(seen_count, 0);
	returns_record_encode(p, 9, &some);
	p[RECORD_AT_TYPE] = RECORD_ACK;
	ck_assert_int_eq(walk(p, sizeof(p), 0), -EBADMSG);
}
END_TEST

TESTS_WITH("qseq_counts", NULL, tear_down, test_counts_are_those_of_an_array,
	   test_counts_that_collide, test_room_is_given_back, test_records_are_read_back,
	   test_records_may_be_skipped)
