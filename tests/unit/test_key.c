/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of deduplication as octets: records and rows of checkpoints, written, read, and what is refused or skipped. */
#include "store/internal.h"

#include <errno.h>

#include "record_fixture.h"

static const uint8_t digest[KEY_DIGEST_SIZE] = {1, 2,  3,  4,  5,  6,  7,  8,
						9, 10, 11, 12, 13, 14, 15, 16};

static const struct key_record of_queue = {
	.owner = KEY_OF_QUEUE,
	.flags = KEY_WHILE_QUEUED,
	.vhost = BYTES("v"),
	.name = BYTES("orders"),
	.value = 77,
	.digest = digest,
};

/* A golden record: what was written once must be read for ever. */
static const char golden_hex[] =
	"40000000faceb2e90900000000000000810100000000000002010106000000004d"
	"000000000000000102030405060708090a0b0c0d0e0f10766f726465727300";

static struct record
sealed_key(const struct key_record *key, uint8_t **p)
{
	uint32_t size = key_record_size(key);

	*p = xmalloc(size);
	memset(*p, 0xaa, size);
	key_record_encode(*p, 9, key);
	return sealed_record(*p, size);
}

static void
expect_same(const struct key_record *a, const struct key_record *b)
{
	ck_assert_int_eq(a->owner, b->owner);
	ck_assert_uint_eq(a->flags, b->flags);
	ck_assert(bytes_equal(a->vhost, b->vhost));
	ck_assert(bytes_equal(a->name, b->name));
	ck_assert_uint_eq(a->value, b->value);
	if (b->digest != NULL)
		ck_assert_mem_eq(a->digest, b->digest, KEY_DIGEST_SIZE);
}

static void
expect_read_back(const struct key_record *in)
{
	struct key_record out;
	uint8_t *p;
	struct record record = sealed_key(in, &p);

	ck_assert_uint_eq(record.lsn, 9);
	ck_assert_int_eq(record.type, RECORD_KEY);
	ck_assert_int_eq(key_record_decode(&out, &record), 0);
	expect_same(&out, in);
	xfree(p);
}

START_TEST(test_records)
{
	static char name[UINT8_MAX + 1];
	struct key_record key = of_queue;

	memset(name, 'n', UINT8_MAX);
	expect_read_back(&key);
	key.flags = 0;
	key.value = UINT64_MAX;
	expect_read_back(&key);
	key.owner = KEY_OF_EXCHANGE;
	key.vhost = key.name = bytes_str(name);
	expect_read_back(&key);
	key.vhost = key.name = bytes_of(NULL, 0);
	expect_read_back(&key);
	key.flags = KEY_FORGET;
	key.value = 0;
	key.digest = NULL;
	expect_read_back(&key);
}
END_TEST

/* As programs that know no keys do with them, so does this one with what it does not know. */
START_TEST(test_what_is_newer_is_skipped)
{
	static const struct {
		size_t at;
		uint8_t value;
	} changes[] = {{RECORD_AT_VERSION, 2},
		       {KEY_AT_OWNER, 3},
		       {KEY_AT_OWNER, 0},
		       {KEY_AT_OWNER, KEY_OF_EXCHANGE}, // which has no queue to be in
		       {KEY_AT_FLAGS, 4}};

	for (size_t i = 0; i < countof(changes); i++) {
		struct key_record out;
		uint8_t *p;
		struct record record = sealed_key(&of_queue, &p);

		p[changes[i].at] = changes[i].value;
		record.version = p[RECORD_AT_VERSION];
		ck_assert_int_eq(key_record_decode(&out, &record), -ENOTSUP);
		xfree(p);
	}
}
END_TEST

START_TEST(test_malformed_records)
{
	static const struct {
		size_t at;
		uint8_t value;
	} changes[] = {{KEY_AT_NAME_SIZE, 8},
		       {KEY_AT_NAME_SIZE, 255},
		       {KEY_AT_VHOST_SIZE, 255},
		       {KEY_AT_NAMES + 7, 1}};
	struct key_record out;
	struct record record;
	uint8_t *p;

	for (size_t i = 0; i < countof(changes); i++) {
		record = sealed_key(&of_queue, &p);
		p[changes[i].at] = changes[i].value;
		ck_assert_int_eq(key_record_decode(&out, &record), -EBADMSG);
		xfree(p);
	}
	record = sealed_key(&of_queue, &p);
	record.size = KEY_AT_NAMES - 8;
	ck_assert_int_eq(key_record_decode(&out, &record), -EBADMSG);
	xfree(p);
}
END_TEST

/* ---- rows ---- */

struct found {
	struct key_record keys[8];
	unsigned count;
	int result; // of the last call
};

static int
note_key(void *context, const struct key_record *key)
{
	struct found *found = context;

	ck_assert_uint_lt(found->count, countof(found->keys));
	found->keys[found->count++] = *key;
	return found->result;
}

/* One row of n keys with the values first, first + 1, ... at p; its octets. */
static size_t
put_row(uint8_t *p, const struct key_record *of, uint64_t first, uint32_t n)
{
	size_t size = record_align(KEYS_HEAD_SIZE + of->vhost.n + of->name.n);

	keys_head_encode(p, of, n);
	for (uint32_t i = 0; i < n; i++, size += KEY_SAVED_SIZE)
		key_saved_encode(p + size, first + i, digest);
	return size;
}

START_TEST(test_rows)
{
	struct key_record of_exchange = {
		.owner = KEY_OF_EXCHANGE, .vhost = BYTES("vhost"), .name = BYTES("exchange")};
	uint8_t room[512];
	size_t n = put_row(room, &of_queue, 1, 2);
	struct found found = {.count = 0};
	struct key_record expected = of_queue;

	n += put_row(room + n, &of_exchange, 10, 3);
	ck_assert_int_eq(keys_section_walk(bytes_of(room, n), note_key, &found), 0);
	ck_assert_uint_eq(found.count, 5);
	expected.value = 2;
	expect_same(&found.keys[1], &expected);
	of_exchange.value = 12;
	of_exchange.digest = digest;
	expect_same(&found.keys[4], &of_exchange);
	/* none at all */
	ck_assert_int_eq(keys_section_walk(bytes_of(NULL, 0), note_key, &found), 0);
	/* a row that is not known is passed over */
	room[0] = 9;
	found.count = 0;
	ck_assert_int_eq(keys_section_walk(bytes_of(room, n), note_key, &found), 0);
	ck_assert_uint_eq(found.count, 3);
	found.result = -EIO;
	ck_assert_int_eq(keys_section_walk(bytes_of(room, n), note_key, &found), -EIO);
	ck_assert_uint_eq(found.count, 4);
}
END_TEST

START_TEST(test_malformed_rows)
{
	uint8_t room[512];
	size_t n = put_row(room, &of_queue, 1, 2);
	struct found found = {.count = 0};

	for (size_t cut = 1; cut < n; cut++) {
		uint8_t *copy = exact_copy(room, cut);

		found.count = 0;
		ck_assert_int_eq(keys_section_walk(bytes_of(copy, cut), note_key, &found),
				 -EBADMSG);
		xfree(copy);
	}
	room[4] = 3;
	ck_assert_int_eq(keys_section_walk(bytes_of(room, n), note_key, &found), -EBADMSG);
	room[4] = 2;
	room[15] = 1; // filling
	ck_assert_int_eq(keys_section_walk(bytes_of(room, n), note_key, &found), -EBADMSG);
}
END_TEST

START_TEST(test_golden)
{
	uint8_t *p;
	struct record record = sealed_key(&of_queue, &p);

	ck_assert_uint_eq(record.size, 64);
	expect_hex(p, golden_hex);
	xfree(p);
}
END_TEST

TESTS("key", test_records, test_what_is_newer_is_skipped, test_malformed_records, test_rows,
      test_malformed_rows, test_golden)
