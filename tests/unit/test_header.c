/* SPDX-License-Identifier: Apache-2.0 */
/* Segment headers and superblocks: the octets that are fixed for good, what is read back, what is refused. */
#include "store/record.h"

#include <errno.h>

#include "record_fixture.h"

#define PAGE 4096
#define AT_CRC 4092

static const struct segment_header golden_header = {
	.id = 42,
	.generation = 0,
	.salt = 0xffffffff, /* is not looked at */
	.first_lsn = 1001,
	.last_lsn = 2000,
	.swallowed = 0,
	.term = 7,
	.uuid = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d,
		 0x1e, 0x1f},
	.created_ms = 1700000000123,
};

static const char golden_header_hex[] =
	"50414e4e4c4f473101000000001000002a00000000000000000000007a4b0761"
	"e903000000000000d00700000000000000000000000000000700000000000000"
	"101112131415161718191a1b1c1d1e1f7b68e5cf8b010000";

static const struct superblock golden_superblock = {
	.sequence = 9,
	.uuid = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d,
		 0x1e, 0x1f},
	.cluster = {0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c,
		    0x2d, 0x2e, 0x2f},
	.term = 7,
	.promised = 8,
	.horizon = 500,
	.checkpoint = 123456,
	.clean = true,
	.node = "pannier@host",
};

static const char golden_superblock_hex[] =
	"50414e4e53555031010000000010000009000000000000001011121314151617"
	"18191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f0700000000000000"
	"0800000000000000f40100000000000040e2010000000000010c70616e6e6965"
	"7240686f7374";

static uint8_t page[PAGE];

/* Makes it valid again after a change. */
static void
reseal(void)
{
	le32_store(page + AT_CRC, crc32c(0, page, AT_CRC));
}

static int
decode_header(void)
{
	struct segment_header header;

	return segment_header_decode(&header, page);
}

static int
decode_superblock(void)
{
	struct superblock superblock;

	return superblock_decode(&superblock, page);
}

static void
expect_zeros(size_t from)
{
	for (size_t i = from; i < AT_CRC; i++)
		ck_assert_uint_eq(page[i], 0);
}

/* Whatever octet is changed, and how, it is no longer valid. */
static void
expect_no_flip_passes(int (*decode)(void))
{
	static const uint8_t flips[] = {0x01, 0x10, 0x80, 0xff};

	for (size_t at = 0; at < PAGE; at++) {
		for (size_t i = 0; i < countof(flips); i++) {
			page[at] ^= flips[i];
			ck_assert_int_eq(decode(), -EBADMSG);
			page[at] ^= flips[i];
		}
	}
	ck_assert_int_eq(decode(), 0);
}

/* What the common beginning may say, with a checksum that is right. */
static void
expect_rules_of_version(int (*decode)(void))
{
	page[10] = 9; /* a newer minor version, with a field that is not known */
	page[4000] = 1;
	reseal();
	ck_assert_int_eq(decode(), 0);
	page[8] = STORE_FORMAT_MAJOR + 1;
	ck_assert_int_eq(decode(), -EBADMSG); /* damage, not a newer format */
	reseal();
	ck_assert_int_eq(decode(), -ENOTSUP);
	page[8] = 0;
	reseal();
	ck_assert_int_eq(decode(), -EBADMSG);
	page[8] = STORE_FORMAT_MAJOR;
	page[13] = 0x20; /* 8,192 octets long */
	reseal();
	ck_assert_int_eq(decode(), -EBADMSG);
	page[13] = 0x10;
	page[7] ^= 1; /* another magic */
	reseal();
	ck_assert_int_eq(decode(), -EBADMSG);
	page[7] ^= 1;
	reseal();
	ck_assert_int_eq(decode(), 0);
}

START_TEST(test_golden_segment_header)
{
	memset(page, 0xaa, sizeof(page));
	segment_header_encode(page, &golden_header);
	expect_hex(page, golden_header_hex);
	expect_zeros(strlen(golden_header_hex) / 2);
	expect_hex(page + AT_CRC, "7a479a31");
}
END_TEST

START_TEST(test_golden_superblock)
{
	memset(page, 0xaa, sizeof(page));
	superblock_encode(page, &golden_superblock);
	expect_hex(page, golden_superblock_hex);
	expect_zeros(strlen(golden_superblock_hex) / 2);
	expect_hex(page + AT_CRC, "0a214ba4");
}
END_TEST

START_TEST(test_salt_depends_on_store_segment_and_generation)
{
	uint8_t uuid[STORE_UUID_SIZE];

	memcpy(uuid, golden_header.uuid, sizeof(uuid));
	ck_assert_uint_eq(segment_salt(uuid, 42, 0), SALT);
	ck_assert_uint_eq(segment_salt(uuid, 42, 1), 0xbc42e1c2);
	ck_assert_uint_ne(segment_salt(uuid, 43, 0), SALT);
	ck_assert_uint_ne(segment_salt(uuid, 42 + (1ULL << 32), 0), SALT);
	uuid[15] ^= 1;
	ck_assert_uint_ne(segment_salt(uuid, 42, 0), SALT);
}
END_TEST

START_TEST(test_segment_header_is_read_back)
{
	struct segment_header in = golden_header;
	struct segment_header out;

	in.id = UINT64_MAX - 1;
	in.generation = UINT32_MAX - 2;
	in.first_lsn = UINT64_MAX - 3;
	in.last_lsn = UINT64_MAX - 4;
	in.swallowed = UINT64_MAX - 5;
	in.term = UINT64_MAX - 6;
	in.created_ms = UINT64_MAX - 7;
	segment_header_encode(page, &in);
	ck_assert_int_eq(segment_header_decode(&out, page), 0);
	ck_assert_uint_eq(out.id, in.id);
	ck_assert_uint_eq(out.generation, in.generation);
	ck_assert_uint_eq(out.salt, segment_salt(in.uuid, in.id, in.generation));
	ck_assert_uint_eq(out.first_lsn, in.first_lsn);
	ck_assert_uint_eq(out.last_lsn, in.last_lsn);
	ck_assert_uint_eq(out.swallowed, in.swallowed);
	ck_assert_uint_eq(out.term, in.term);
	ck_assert_mem_eq(out.uuid, in.uuid, STORE_UUID_SIZE);
	ck_assert_uint_eq(out.created_ms, in.created_ms);
}
END_TEST

START_TEST(test_segment_header_with_any_octet_changed_is_refused)
{
	segment_header_encode(page, &golden_header);
	expect_no_flip_passes(decode_header);
}
END_TEST

START_TEST(test_segment_header_of_other_versions)
{
	segment_header_encode(page, &golden_header);
	expect_rules_of_version(decode_header);
}
END_TEST

START_TEST(test_segment_header_with_the_salt_of_another_segment_is_refused)
{
	static const size_t places[] = {SEGMENT_AT_ID, SEGMENT_AT_GENERATION, SEGMENT_AT_SALT,
					SEGMENT_AT_UUID + STORE_UUID_SIZE - 1};

	segment_header_encode(page, &golden_header);
	for (size_t i = 0; i < countof(places); i++) {
		page[places[i]] ^= 1;
		reseal();
		ck_assert_int_eq(decode_header(), -EBADMSG);
		page[places[i]] ^= 1;
	}
	reseal();
	ck_assert_int_eq(decode_header(), 0);
}
END_TEST

START_TEST(test_superblock_is_read_back)
{
	struct superblock in = golden_superblock;
	struct superblock out;

	in.sequence = UINT64_MAX - 1;
	in.term = UINT64_MAX - 2;
	in.promised = UINT64_MAX - 3;
	in.horizon = UINT64_MAX - 4;
	in.checkpoint = UINT64_MAX - 5;
	in.clean = false;
	superblock_encode(page, &in);
	ck_assert_int_eq(superblock_decode(&out, page), 0);
	ck_assert_uint_eq(out.sequence, in.sequence);
	ck_assert_mem_eq(out.uuid, in.uuid, STORE_UUID_SIZE);
	ck_assert_mem_eq(out.cluster, in.cluster, STORE_UUID_SIZE);
	ck_assert_uint_eq(out.term, in.term);
	ck_assert_uint_eq(out.promised, in.promised);
	ck_assert_uint_eq(out.horizon, in.horizon);
	ck_assert_uint_eq(out.checkpoint, in.checkpoint);
	ck_assert(!out.clean);
	ck_assert_str_eq(out.node, in.node);
}
END_TEST

START_TEST(test_node_names_of_no_and_of_255_octets)
{
	struct superblock in = golden_superblock;
	struct superblock out;

	memset(in.node, 0, sizeof(in.node));
	memset(&out, 'x', sizeof(out));
	superblock_encode(page, &in);
	ck_assert_int_eq(superblock_decode(&out, page), 0);
	ck_assert_str_eq(out.node, "");
	memset(in.node, 'n', 255);
	superblock_encode(page, &in);
	ck_assert_uint_eq(page[SUPERBLOCK_AT_NODE + 255], 0);
	memset(&out, 'x', sizeof(out));
	ck_assert_int_eq(superblock_decode(&out, page), 0);
	ck_assert_str_eq(out.node, in.node);
	ck_assert(out.clean);
}
END_TEST

START_TEST(test_only_1_is_a_clean_stop)
{
	struct superblock out;

	superblock_encode(page, &golden_superblock);
	page[SUPERBLOCK_AT_CLEAN] = 2;
	reseal();
	ck_assert_int_eq(superblock_decode(&out, page), 0);
	ck_assert(!out.clean);
}
END_TEST

START_TEST(test_superblock_with_any_octet_changed_is_refused)
{
	superblock_encode(page, &golden_superblock);
	expect_no_flip_passes(decode_superblock);
}
END_TEST

START_TEST(test_superblock_of_other_versions)
{
	superblock_encode(page, &golden_superblock);
	expect_rules_of_version(decode_superblock);
}
END_TEST

START_TEST(test_one_is_not_the_other)
{
	segment_header_encode(page, &golden_header);
	ck_assert_int_eq(decode_superblock(), -EBADMSG);
	superblock_encode(page, &golden_superblock);
	ck_assert_int_eq(decode_header(), -EBADMSG);
	memset(page, 0, sizeof(page));
	ck_assert_int_eq(decode_superblock(), -EBADMSG);
	ck_assert_int_eq(decode_header(), -EBADMSG);
}
END_TEST

TESTS("header", test_golden_segment_header, test_golden_superblock,
      test_salt_depends_on_store_segment_and_generation, test_segment_header_is_read_back,
      test_segment_header_with_any_octet_changed_is_refused, test_segment_header_of_other_versions,
      test_segment_header_with_the_salt_of_another_segment_is_refused, test_superblock_is_read_back,
      test_node_names_of_no_and_of_255_octets, test_only_1_is_a_clean_stop,
      test_superblock_with_any_octet_changed_is_refused, test_superblock_of_other_versions,
      test_one_is_not_the_other)
