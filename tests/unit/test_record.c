/* SPDX-License-Identifier: Apache-2.0 */
/* Records and batches: the octets that are fixed for good, what is read back, and all that is refused. */
#include "store/record.h"

#include <errno.h>

#include "record_fixture.h"

#define OTHER_SALT 0xbc42e1c2U /* of the same segment, merged once */

/* BATCH, and a MESSAGE, an ACK, a DEFINE and a QUEUE record. */
static const char golden_hex[] = "400000006825b587e90300000000000001010000110000000700000000000000"
				 "03000000000000000403020171c09f360400000028010000e803000000000000"
				 "70000000bb97e47fe9030000000000000201000000000000c869e5cf8b010000"
				 "2854e6cf8b010000050000000300000002000000090302000500000000000300"
				 "0100000000000000452301efcdab00004d00000000000000616d712e746f7069"
				 "63612e6210000268656c6c6f0000000060000000b90a5747ea03000000000000"
				 "0301000000000000050000000000000014000000000000000200000000000000"
				 "0100000000000200090000000000000006000000000005000807060504030201"
				 "01000000000000000000ffffffffffff30000000eeeb4cf8eb03000000000000"
				 "05010000000000000600020001000000010000002f0000000000000000000000"
				 "28000000cb495654ec0300000000000004010000000000000500000000000000"
				 "0100000000000000";

static uint8_t area[128 * 1024]; /* a batch is built here */
static size_t built;		 /* octets of its records */
static struct batch_record batch;

/* What each() saw. */
static struct {
	unsigned count;
	uint8_t types[64];
	unsigned fail_at; // the call that fails, from 1; 0: none
} seen;

static void
set_up(void)
{
	built = 0;
	batch = (struct batch_record){
		.first_lsn = 1001,
		.group = 17,
		.term = 7,
		.number = 3,
		.previous = 0x01020304,
		.stable = 1000,
	};
}

static void
tear_down(void)
{
}

static int
note(void *context, const struct record *record)
{
	ck_assert_ptr_eq(context, &seen);
	ck_assert_uint_eq(record->lsn, 1001 + seen.count);
	ck_assert_uint_lt(seen.count, countof(seen.types));
	seen.types[seen.count++] = record->type;
	return seen.count == seen.fail_at ? 77 : 0;
}

/* Room for the next record of the batch. */
static uint8_t *
next(size_t size)
{
	uint8_t *p = area + BATCH_SIZE + built;

	ck_assert_uint_le(BATCH_SIZE + built + size, sizeof(area));
	built += size;
	return p;
}

static void
add(uint64_t lsn, unsigned type, uint32_t size)
{
	uint8_t *p = next(size);

	record_header_encode(p, size, lsn, (enum record_type)type, 0, 0);
	for (uint32_t i = RECORD_HEADER_SIZE; i < size; i++)
		p[i] = (uint8_t)(i * 7 + lsn);
}

/* The records of the golden batch. */
static void
add_golden(void)
{
	struct message_record message = {
		.time_ms = 1700000000456,
		.expiry_ms = 1700000060456,
		.ref_count = 2,
		.flags = MESSAGE_CC,
		.exchange = BYTES("amq.topic"),
		.key = BYTES("a.b"),
		.properties = BYTES("\x10\0\x02"),
		.body = BYTES("hello"),
	};
	struct message_ref refs[] = {{.queue_id = 5, .qseq = 1, .priority = 3},
				     {.queue_id = 0xabcdef012345, .qseq = 77}};
	uint8_t *p = next(112);

	message_record_encode(p, 112, 1001, &message);
	message_ref_encode(p + MESSAGE_AT_REFS, &refs[0]);
	message_ref_encode(p + MESSAGE_AT_REFS + MESSAGE_REF_SIZE, &refs[1]);
	p = next(96);
	record_header_encode(p, 96, 1002, RECORD_ACK, 0, 0);
	ack_group_encode(p + 24, 5, ACK_CONSUMED, 20, 2);
	ack_range_encode(p + 48, 1, 3);
	ack_range_encode(p + 56, 9, 1);
	ack_group_encode(p + 64, 6, ACK_PURGED, 0x0102030405060708, 1);
	ack_range_encode(p + 88, 0xffffffff0000, 65536);
	p = next(48);
	record_header_encode(p, 48, 1003, RECORD_DEFINE, 0, 0);
	memcpy(p + 24, "\6\0\2\0\1\0\0\0\1\0\0\0/\0\0\0\0\0\0\0\0\0\0\0", 24);
	pair_record_encode(next(PAIR_RECORD_SIZE), 1004, RECORD_QUEUE, 5, QUEUE_STATE_DELIVERED);
}

static size_t
seal(void)
{
	batch_seal(area, built, &batch, SALT);
	return BATCH_SIZE + built;
}

/* As batch_seal(), of records that it would not take: their checks and the digest are right, all else is
 * what batch says. */
static size_t
seal_loosely(void)
{
	batch.digest = batch.previous;
	for (size_t at = 0; at < built;) {
		uint8_t *p = area + BATCH_SIZE + at;
		uint8_t crc[4];

		le32_store(crc, record_seal(p, SALT));
		batch.digest = crc32c(batch.digest, crc, 4);
		at += le32_load(p);
	}
	batch_record_encode(area, &batch, SALT);
	return BATCH_SIZE + built;
}

/* Reads a copy that is exactly as long. */
static int
read_batch(const uint8_t *p, size_t n, uint32_t salt)
{
	uint8_t *copy = exact_copy(p, n);
	struct batch_record got;
	uint64_t padded;
	int result;

	seen.count = 0;
	result = batch_read(bytes_of(copy, n), 4096, salt, &got, &padded, note, &seen);
	xfree(copy);
	return result;
}

static int
reread(size_t n)
{
	return read_batch(area, n, SALT);
}

START_TEST(test_golden_batch_is_written)
{
	add_golden();
	memset(area, 0xaa, BATCH_SIZE);
	ck_assert_uint_eq(seal(), strlen(golden_hex) / 2);
	expect_hex(area, golden_hex);
}
END_TEST

START_TEST(test_golden_batch_is_read)
{
	uint8_t *owned;
	struct bytes golden = unhex(golden_hex, &owned);
	struct batch_record got;
	uint64_t padded;

	seen.count = 0;
	ck_assert_int_eq(batch_read(golden, 4096, SALT, &got, &padded, note, &seen), 0);
	ck_assert_uint_eq(padded, 512);
	ck_assert_uint_eq(got.first_lsn, 1001);
	ck_assert_uint_eq(got.group, 17);
	ck_assert_uint_eq(got.flags, 0);
	ck_assert_uint_eq(got.term, 7);
	ck_assert_uint_eq(got.number, 3);
	ck_assert_uint_eq(got.previous, 0x01020304);
	ck_assert_uint_eq(got.digest, 0x369fc071);
	ck_assert_uint_eq(got.count, 4);
	ck_assert_uint_eq(got.bytes, 296);
	ck_assert_uint_eq(got.stable, 1000);
	ck_assert_uint_eq(seen.count, 4);
	ck_assert_mem_eq(seen.types, "\2\3\5\4", 4);
	ck_assert_int_eq(batch_read(golden, 0, SALT, &got, &padded, NULL, NULL), 0);
	xfree(owned);
}
END_TEST

START_TEST(test_golden_record_of_two_words)
{
	uint8_t p[PAIR_RECORD_SIZE];

	pair_record_encode(p, 1, RECORD_EPOCH, 7, 1000);
	record_seal(p, SALT);
	expect_hex(p, "2800000000f43b08010000000000000007010000000000000700000000000000"
		      "e803000000000000");
}
END_TEST

START_TEST(test_sealing_tells_what_was_sealed)
{
	add_golden();
	seal();
	ck_assert_uint_eq(batch.count, 4);
	ck_assert_uint_eq(batch.bytes, 296);
	ck_assert_uint_eq(batch.digest, 0x369fc071);
}
END_TEST

/* A digest stands for the whole history: it is continued, and does not depend on salts. */
START_TEST(test_digest_continues_without_salt)
{
	uint32_t digest;

	add_golden();
	seal();
	digest = batch.digest;
	batch_seal(area, built, &batch, OTHER_SALT);
	ck_assert_uint_eq(batch.digest, digest);
	batch.previous++;
	seal();
	ck_assert_uint_ne(batch.digest, digest);
}
END_TEST

START_TEST(test_batch_cut_off_anywhere_is_refused)
{
	size_t size;

	add_golden();
	size = seal();
	for (size_t n = 0; n < size; n++)
		ck_assert_int_eq(reread(n), -EBADMSG);
	ck_assert_int_eq(reread(size), 0);
	ck_assert_int_eq(reread(size + 512), 0); /* more may follow */
}
END_TEST

START_TEST(test_batch_with_any_octet_changed_is_refused)
{
	static const uint8_t flips[] = {0x01, 0x02, 0x08, 0x10, 0x80, 0xff};
	size_t size;

	add_golden();
	size = seal();
	for (size_t at = 0; at < size; at++) {
		for (size_t i = 0; i < countof(flips); i++) {
			area[at] ^= flips[i];
			ck_assert_int_eq(reread(size), -EBADMSG);
			area[at] ^= flips[i];
		}
	}
	ck_assert_int_eq(reread(size), 0);
}
END_TEST

START_TEST(test_batch_of_another_file_is_refused)
{
	size_t size;

	add_golden();
	size = seal();
	ck_assert_int_eq(read_batch(area, size, OTHER_SALT), -EBADMSG);
	ck_assert_int_eq(read_batch(area, size, SALT ^ 1), -EBADMSG);
	ck_assert_int_eq(read_batch(area, size, 0), -EBADMSG);
	ck_assert_uint_eq(seen.count, 0);
}
END_TEST

/* The BATCH record is of this file, a record behind it was left there by another. */
START_TEST(test_stale_record_in_a_batch_is_refused)
{
	size_t size;

	add_golden();
	size = seal();
	record_seal(area + BATCH_SIZE + 112, OTHER_SALT);
	ck_assert_int_eq(reread(size), -EBADMSG);
	ck_assert_uint_eq(seen.count, 1);
}
END_TEST

START_TEST(test_record_gets_another_salt_without_its_body)
{
	struct record record;
	struct record salted_anew;
	uint8_t *p = next(64);

	record_header_encode(p, 64, 1001, RECORD_DEFINE, 5, 6);
	memset(p + 24, 'x', 40);
	record = sealed_record(p, 64);
	ck_assert_uint_eq(record.flags, 5);
	ck_assert_uint_eq(record.aux, 6);
	ck_assert_uint_eq(record.version, 1);
	ck_assert_uint_eq(record.crc, record_crc(p, 64));
	le32_store(p + RECORD_AT_CHECK, le32_load(p + RECORD_AT_CHECK) ^ SALT ^ OTHER_SALT);
	ck_assert_int_eq(record_decode(&record, bytes_of(p, 64), SALT), -EBADMSG);
	ck_assert_int_eq(record_decode(&salted_anew, bytes_of(p, 64), OTHER_SALT), 0);
	ck_assert_uint_eq(salted_anew.crc, record_crc(p, 64));
}
END_TEST

START_TEST(test_record_of_a_wrong_size_is_refused)
{
	static const uint32_t sizes[] = {0,	  1,	      8,	  16,	      20,	 23,
					 25,	  28,	      31,	  33,	      40,	 48,
					 0x10000, 0x7ffffff8, 0x80000018, 0xfffffff8, UINT32_MAX};
	struct record record;
	uint8_t *p = next(32);

	record_header_encode(p, 32, 1, RECORD_DEFINE, 0, 0);
	sealed_record(p, 32);
	p = exact_copy(p, 32);
	for (size_t i = 0; i < countof(sizes); i++) {
		le32_store(p, sizes[i]);
		/* the check is right where it can be */
		if (sizes[i] >= 24 && sizes[i] <= 32)
			record_seal(p, SALT);
		ck_assert_int_eq(record_decode(&record, bytes_of(p, 32), SALT), -EBADMSG);
	}
	le32_store(p, 24); /* a record without a payload, and what follows it */
	record_seal(p, SALT);
	ck_assert_int_eq(record_decode(&record, bytes_of(p, 32), SALT), 0);
	ck_assert_uint_eq(record.size, 24);
	xfree(p);
	ck_assert_int_eq(record_decode(&record, bytes_of(NULL, 0), SALT), -EBADMSG);
}
END_TEST

START_TEST(test_zeros_are_no_batch)
{
	ck_assert_int_eq(read_batch(area, 8192, SALT), -EBADMSG);
	ck_assert_int_eq(read_batch(area, 8192, 0), -EBADMSG);
}
END_TEST

START_TEST(test_lsns_must_be_dense)
{
	static const uint64_t lsns[][3] = {
		{1002, 1003, 1004}, {1001, 1003, 1004}, {1001, 1002, 1004}, {1001, 1001, 1002},
		{1002, 1001, 1003}, {1001, 1002, 1002}, {0, 1, 2},	    {1001, 1002, 1003}};

	for (size_t i = 0; i < countof(lsns); i++) {
		set_up();
		for (size_t k = 0; k < 3; k++)
			add(lsns[i][k], RECORD_DEFINE, 40);
		batch.count = 3;
		batch.bytes = 120;
		ck_assert_int_eq(reread(seal_loosely()), i + 1 < countof(lsns) ? -EBADMSG : 0);
	}
}
END_TEST

START_TEST(test_lsns_count_from_1_and_do_not_overflow)
{
	static const struct {
		uint64_t first;
		int result;
	} cases[] = {{0, -EBADMSG}, {1, 0}, {UINT64_MAX - 1, 0}, {UINT64_MAX, -EBADMSG}};

	for (size_t i = 0; i < countof(cases); i++) {
		struct batch_record got;
		uint64_t padded;

		set_up();
		batch.first_lsn = cases[i].first;
		batch.count = 2;
		batch.bytes = 80;
		add(cases[i].first, RECORD_DEFINE, 40);
		add(cases[i].first + 1, RECORD_DEFINE, 40);
		ck_assert_int_eq(batch_read(bytes_of(area, seal_loosely()), 0, SALT, &got, &padded,
					    NULL, NULL),
				 cases[i].result);
	}
}
END_TEST

START_TEST(test_count_bytes_and_digest_must_agree)
{
	size_t size;

	for (unsigned i = 0; i < 3; i++)
		add(1001 + i, RECORD_DEFINE, 40);
	size = seal();
	for (int change = -1; change <= 1; change += 2) {
		batch.count = 3 + (uint32_t)change;
		batch_record_encode(area, &batch, SALT);
		ck_assert_int_eq(reread(size), -EBADMSG);
		batch.count = 3;
		for (int by = 1; by <= 40; by++) {
			batch.bytes = 120 + (uint32_t)(change * by);
			batch_record_encode(area, &batch, SALT);
			ck_assert_int_eq(reread(size + 64), -EBADMSG);
		}
		batch.bytes = 120;
		batch.digest += (uint32_t)change;
		batch_record_encode(area, &batch, SALT);
		ck_assert_int_eq(reread(size), -EBADMSG);
		batch.digest -= (uint32_t)change;
	}
	batch_record_encode(area, &batch, SALT);
	ck_assert_int_eq(reread(size), 0);
}
END_TEST

START_TEST(test_declared_sizes_are_not_believed)
{
	static const uint32_t sizes[] = {
		0, 1, 121, UINT32_MAX, UINT32_MAX - 63, 0x80000000, 0xfffffff8, 0xffffffc0};
	size_t size;

	for (unsigned i = 0; i < 3; i++)
		add(1001 + i, RECORD_DEFINE, 40);
	size = seal();
	for (size_t i = 0; i < countof(sizes); i++) {
		batch.bytes = sizes[i];
		batch_record_encode(area, &batch, SALT);
		ck_assert_int_eq(reread(size), -EBADMSG);
		batch.bytes = 120;
		batch.count = sizes[i];
		batch_record_encode(area, &batch, SALT);
		ck_assert_int_eq(reread(size), -EBADMSG);
		batch.count = 3;
	}
}
END_TEST

START_TEST(test_batch_without_records_is_refused)
{
	batch.digest = batch.previous;
	batch_record_encode(area, &batch, SALT);
	ck_assert_int_eq(reread(BATCH_SIZE), -EBADMSG);
}
END_TEST

START_TEST(test_batch_in_a_batch_is_refused)
{
	add(1001, RECORD_DEFINE, 40);
	add(1002, RECORD_BATCH, BATCH_SIZE);
	batch.count = 2;
	batch.bytes = 40 + BATCH_SIZE;
	ck_assert_int_eq(reread(seal_loosely()), -EBADMSG);
}
END_TEST

START_TEST(test_types_that_are_not_known)
{
	for (unsigned type = 0; type <= UINT8_MAX; type++) {
		bool is_known = type >= 2 && type <= 7;
		int expected = is_known || type >= 0x80 ? 0 : -ENOTSUP;

		set_up();
		add(1001, RECORD_DEFINE, 40);
		add(1002, type, 24);
		add(1003, RECORD_DEFINE, 40);
		batch.count = 3;
		batch.bytes = 104;
		if (type == RECORD_BATCH)
			expected = -EBADMSG;
		ck_assert_int_eq(reread(seal_loosely()), expected);
		ck_assert_uint_eq(seen.count, expected == 0 ? 3 : 1);
	}
}
END_TEST

START_TEST(test_versions_that_are_not_known)
{
	size_t size;

	add(1001, RECORD_DEFINE, 40);
	add(1002, RECORD_MESSAGE, 64);
	add(1003, 0x85, 40);
	area[BATCH_SIZE + 104 + RECORD_AT_VERSION] = 9; /* its own matter */
	size = seal();
	ck_assert_int_eq(reread(size), 0);
	ck_assert_uint_eq(seen.count, 3);
	area[BATCH_SIZE + 40 + RECORD_AT_VERSION] = 2;
	size = seal();
	ck_assert_int_eq(reread(size), -ENOTSUP);
	ck_assert_uint_eq(seen.count, 1);
	area[BATCH_SIZE + 40 + RECORD_AT_VERSION] = 1;
	size = seal();
	area[RECORD_AT_VERSION] = 2;
	record_seal(area, SALT);
	ck_assert_int_eq(reread(size), -ENOTSUP);
	ck_assert_uint_eq(seen.count, 0);
}
END_TEST

START_TEST(test_flags_of_a_batch_are_refused)
{
	add(1001, RECORD_DEFINE, 40);
	for (unsigned bit = 0; bit < 16; bit++) {
		batch.flags = (uint16_t)(1u << bit);
		ck_assert_int_eq(reread(seal()), -ENOTSUP);
		ck_assert_uint_eq(seen.count, 0);
	}
}
END_TEST

/* What is torn is torn, also when its whole part comes from a newer version. */
START_TEST(test_torn_comes_before_not_known)
{
	size_t size;

	add(1001, 6, 40);
	add(1002, RECORD_DEFINE, 40);
	batch.flags = BATCH_CONTINUES;
	size = seal();
	ck_assert_int_eq(reread(size), -ENOTSUP);
	area[size - 1] ^= 1;
	ck_assert_int_eq(reread(size), -EBADMSG);
}
END_TEST

START_TEST(test_reading_ends_when_the_caller_says_so)
{
	add_golden();
	seal();
	seen.fail_at = 2;
	ck_assert_int_eq(reread(BATCH_SIZE + built), 77);
	ck_assert_uint_eq(seen.count, 2);
	seen.fail_at = 0;
}
END_TEST

START_TEST(test_batch_record_is_told_from_others)
{
	struct batch_record got;
	struct record record;
	uint8_t *p = next(BATCH_SIZE + 8);

	record_header_encode(p, BATCH_SIZE, 1, RECORD_DEFINE, 0, 0);
	record = sealed_record(p, BATCH_SIZE);
	ck_assert_int_eq(batch_record_decode(&got, &record), -EBADMSG);
	for (uint32_t size = RECORD_HEADER_SIZE; size <= BATCH_SIZE + 8; size += 8) {
		record_header_encode(p, size, 1, RECORD_BATCH, 0, 0);
		record = sealed_record(p, size);
		ck_assert_int_eq(batch_record_decode(&got, &record),
				 size == BATCH_SIZE ? 0 : -EBADMSG);
	}
}
END_TEST

START_TEST(test_filling_of_batches)
{
	static const struct {
		uint64_t offset;
		uint64_t size;
		uint64_t padded;
	} cases[] = {
		{4096, 64, 512},       {4096, 511, 512},
		{4096, 512, 512},      {4096, 513, 1024},
		{4608, 64, 512},       {512, 32767, 32768},
		{0, 32768, 32768},     {4096, 32768, 32768},
		{4096, 32776, 36864},  {512, 32768, 36352},
		{3584, 32768, 33280},  {4608, 32768, 36352},
		{512, 36352, 36352},   {512, 36360, 40448},
		{1ULL << 33, 64, 512}, {512, 1ULL << 32, (1ULL << 32) + 3584},
	};

	for (size_t i = 0; i < countof(cases); i++)
		ck_assert_uint_eq(batch_padded_size(cases[i].offset, cases[i].size),
				  cases[i].padded);
}
END_TEST

START_TEST(test_large_batch_is_filled_to_the_large_alignment)
{
	struct batch_record got;
	uint64_t padded;
	size_t size;

	add(1001, RECORD_DEFINE, 32 * 1024 - BATCH_SIZE - 8);
	size = seal();
	ck_assert_int_eq(batch_read(bytes_of(area, size), 512, SALT, &got, &padded, NULL, NULL), 0);
	ck_assert_uint_eq(padded, 32768);
	set_up();
	add(1001, RECORD_DEFINE, 32 * 1024 - BATCH_SIZE);
	size = seal();
	ck_assert_int_eq(batch_read(bytes_of(area, size), 512, SALT, &got, &padded, NULL, NULL), 0);
	ck_assert_uint_eq(padded, 36352);
}
END_TEST

START_TEST(test_records_are_rounded_up)
{
	ck_assert_uint_eq(record_align(24), 24);
	ck_assert_uint_eq(record_align(25), 32);
	ck_assert_uint_eq(record_align(31), 32);
	ck_assert_uint_eq(record_align(32), 32);
	ck_assert_uint_eq(record_align(UINT32_MAX), 1ULL << 32);
}
END_TEST

TESTS_WITH("record", set_up, tear_down, test_golden_batch_is_written, test_golden_batch_is_read,
	   test_golden_record_of_two_words, test_sealing_tells_what_was_sealed,
	   test_digest_continues_without_salt, test_batch_cut_off_anywhere_is_refused,
	   test_batch_with_any_octet_changed_is_refused, test_batch_of_another_file_is_refused,
	   test_stale_record_in_a_batch_is_refused, test_record_gets_another_salt_without_its_body,
	   test_record_of_a_wrong_size_is_refused, test_zeros_are_no_batch, test_lsns_must_be_dense,
	   test_lsns_count_from_1_and_do_not_overflow, test_count_bytes_and_digest_must_agree,
	   test_declared_sizes_are_not_believed, test_batch_without_records_is_refused,
	   test_batch_in_a_batch_is_refused, test_types_that_are_not_known,
	   test_versions_that_are_not_known, test_flags_of_a_batch_are_refused,
	   test_torn_comes_before_not_known, test_reading_ends_when_the_caller_says_so,
	   test_batch_record_is_told_from_others, test_filling_of_batches,
	   test_large_batch_is_filled_to_the_large_alignment, test_records_are_rounded_up)
