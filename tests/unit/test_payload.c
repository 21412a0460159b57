/* SPDX-License-Identifier: Apache-2.0 */
/* What is inside of records: messages with all that they can have, marks, pairs, and what is refused. */
#include "store/record.h"

#include <errno.h>

#include "store/qseq_set.h"

#include "record_fixture.h"

/* A message with an extension area, three references, two deadlines and two due times. */
static const char extended_hex[] =
	"a0000000873d90cbe9030000000000000201000000000000c869e5cf8b010000"
	"2854e6cf8b010000050000000200000003000000010301000100000000000001"
	"0200000000000000020000000000000303000000000000000300000000000002"
	"040000000000000065000000000000006600000000000000ca00000000000000"
	"cb000000000000000600010261620200786b65790000626f6479210000000000";

#define EXTENDED_SIZE 160
#define EXTENDED_AT_AREA 136 /* its u16 length */

/* Writes a message with references 1, 2, ... of queues 1001, 1002, ...; the caller frees it. */
static uint8_t *
new_message(const struct message_record *message, size_t *size)
{
	uint64_t n = message_record_octets(message);
	uint8_t *p = xmalloc(n);

	memset(p, 0xaa, n);
	message_record_encode(p, (uint32_t)n, 5, message);
	for (uint32_t i = 0; i < message->ref_count; i++) {
		struct message_ref ref = {
			.queue_id = 1001 + i, .qseq = 1 + i, .priority = (uint8_t)i};

		message_ref_encode(p + MESSAGE_AT_REFS + (size_t)i * MESSAGE_REF_SIZE, &ref);
	}
	*size = n;
	return p;
}

static void
expect_message_read_back(const struct message_record *in)
{
	struct message_record out;
	size_t size;
	uint8_t *p = new_message(in, &size);
	struct record record = sealed_record(p, size);

	ck_assert_int_eq(message_record_decode(&out, &record), 0);
	ck_assert_uint_eq(record.lsn, 5);
	ck_assert_uint_eq(out.time_ms, in->time_ms);
	ck_assert_uint_eq(out.expiry_ms, in->expiry_ms);
	ck_assert_uint_eq(out.flags, in->flags);
	ck_assert_uint_eq(out.ref_count, in->ref_count);
	ck_assert(bytes_equal(out.exchange, in->exchange));
	ck_assert(bytes_equal(out.key, in->key));
	ck_assert(bytes_equal(out.properties, in->properties));
	ck_assert(bytes_equal(out.body, in->body));
	ck_assert(bytes_equal(out.extension, in->extension));
	for (uint32_t i = 0; i < in->ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(out.refs + (size_t)i * MESSAGE_REF_SIZE);

		ck_assert_uint_eq(ref.queue_id, 1001 + i);
		ck_assert_uint_eq(ref.qseq, 1 + i);
		ck_assert_uint_eq(ref.priority, (uint8_t)i);
		ck_assert_uint_eq(ref.flags, 0);
	}
	xfree(p);
}

/* What decoding says when the octet is that, in a record whose check is right. */
static int
decode_with(uint8_t *p, size_t size, size_t at, uint8_t octet)
{
	struct message_record out;
	struct record record;
	uint8_t before = p[at];
	int result;

	p[at] = octet;
	record = sealed_record(p, size);
	result = message_record_decode(&out, &record);
	p[at] = before;
	return result;
}

START_TEST(test_messages_are_read_back)
{
	struct message_record message = {
		.time_ms = 1700000000456,
		.expiry_ms = UINT64_MAX,
		.ref_count = 3,
		.flags = MESSAGE_CC | MESSAGE_DEATHS,
		.exchange = BYTES("exchange"),
		.key = BYTES("key"),
		.properties = BYTES("\x10\0\2"),
	};

	for (size_t n = 0; n <= 17; n++) {
		message.body = bytes_of("seventeen octets!", n);
		expect_message_read_back(&message);
	}
}
END_TEST

START_TEST(test_message_of_nothing_is_read_back)
{
	struct message_record message = {.time_ms = 1};

	expect_message_read_back(&message);
	message.ref_count = 1;
	expect_message_read_back(&message);
	ck_assert_uint_eq(message_record_size(0, 0, 0, 0, 0), MESSAGE_AT_REFS);
}
END_TEST

START_TEST(test_message_of_the_largest_names_and_many_queues_is_read_back)
{
	uint8_t names[255];
	struct message_record message = {
		.ref_count = 100000,
		.exchange = bytes_of(names, sizeof(names)),
		.key = bytes_of(names, sizeof(names)),
		.properties = BYTES("\0\0"),
	};

	memset(names, 'n', sizeof(names));
	message.body = bytes_of(xcalloc(1, 1 << 20), 1 << 20);
	expect_message_read_back(&message);
	xfree((void *)(uintptr_t)message.body.p);
}
END_TEST

/* The longest area there may be, and one of a value that no version knows. */
START_TEST(test_values_of_messages_are_read_back)
{
	static uint8_t area[UINT16_MAX];
	struct message_record message = {
		.ref_count = 2,
		.flags = MESSAGE_EXTENDED,
		.exchange = BYTES("x"),
		.properties = BYTES("\0\0"),
		.body = BYTES("body"),
		.extension = BYTES("\1\3key\1\0\377\2zz"),
	};
	struct message_value value;
	struct bytes rest;
	unsigned count = 0;

	expect_message_read_back(&message);
	rest = message.extension;
	ck_assert(message_value_next(&rest, &value));
	ck_assert_uint_eq(value.tag, MESSAGE_TAG_BCC);
	ck_assert(bytes_equal(value.octets, BYTES("key")));
	ck_assert(message_value_next(&rest, &value));
	ck_assert_uint_eq(value.octets.n, 0);
	ck_assert(message_value_next(&rest, &value));
	ck_assert_uint_eq(value.tag, 255);
	ck_assert(bytes_equal(value.octets, BYTES("zz")));
	ck_assert(!message_value_next(&rest, &value));
	for (size_t i = 0; i < sizeof(area); i += 257) {
		area[i] = MESSAGE_TAG_BCC;
		area[i + 1] = UINT8_MAX;
	}
	message.extension = rest = bytes_of(area, sizeof(area));
	expect_message_read_back(&message);
	while (message_value_next(&rest, &value))
		count++;
	ck_assert_uint_eq(count, 255);
}
END_TEST

START_TEST(test_sizes_of_messages_do_not_wrap)
{
	ck_assert_uint_eq(message_record_size(2, 9, 3, 3, 5), 112);
	ck_assert_uint_eq(message_record_size(UINT32_MAX, 255, 255, UINT32_MAX, UINT32_MAX),
			  (56 + 18ULL * UINT32_MAX + 510 + 7) & ~7ULL);
}
END_TEST

START_TEST(test_reference_keeps_all_of_its_fields)
{
	uint8_t p[MESSAGE_REF_SIZE];
	struct message_ref in = {
		.queue_id = 0xfedcba987654, .qseq = 0x0123456789ab, .priority = 255, .flags = 0x81};
	struct message_ref out;

	message_ref_encode(p, &in);
	expect_hex(p, "547698badcfeff81ab89674523010000");
	out = message_ref_decode(p);
	ck_assert_uint_eq(out.queue_id, in.queue_id);
	ck_assert_uint_eq(out.qseq, in.qseq);
	ck_assert_uint_eq(out.priority, in.priority);
	ck_assert_uint_eq(out.flags, in.flags);
}
END_TEST

START_TEST(test_golden_message_with_times_and_extension)
{
	struct message_record out;
	struct record record;
	uint8_t *owned;
	struct bytes golden = unhex(extended_hex, &owned);

	ck_assert_uint_eq(golden.n, EXTENDED_SIZE);
	ck_assert_int_eq(record_decode(&record, golden, SALT), 0);
	ck_assert_int_eq(message_record_decode(&out, &record), 0);
	ck_assert_uint_eq(out.ref_count, 3);
	ck_assert_uint_eq(message_ref_decode(out.refs).flags, REF_DEADLINE);
	ck_assert_uint_eq(message_ref_decode(out.refs + 16).flags, REF_DEADLINE | REF_DUE);
	ck_assert_uint_eq(message_ref_decode(out.refs + 32).flags, REF_DUE);
	ck_assert_uint_eq(le64_load(out.times), 101);
	ck_assert_uint_eq(le64_load(out.times + 8), 102);
	ck_assert_uint_eq(le64_load(out.times + 16), 202);
	ck_assert_uint_eq(le64_load(out.times + 24), 203);
	ck_assert(bytes_equal(out.extension, BYTES("\1\2ab\2\0")));
	ck_assert(bytes_equal(out.exchange, BYTES("x")));
	ck_assert(bytes_equal(out.key, BYTES("key")));
	ck_assert(bytes_equal(out.properties, BYTES("\0\0")));
	ck_assert(bytes_equal(out.body, BYTES("body!")));
	xfree(owned);
}
END_TEST

/* The record is whole, but its payload ends sooner than its sizes say, or later. */
START_TEST(test_message_in_a_record_of_another_size_is_refused)
{
	struct message_record out;
	uint8_t *owned;
	struct bytes golden = unhex(extended_hex, &owned);

	for (uint32_t size = RECORD_HEADER_SIZE; size <= EXTENDED_SIZE + 64; size += 8) {
		uint8_t *p = xcalloc(1, size);
		struct record record;

		memcpy(p, golden.p, size < golden.n ? size : golden.n);
		le32_store(p, size);
		record = sealed_record(p, size);
		ck_assert_int_eq(message_record_decode(&out, &record),
				 size == EXTENDED_SIZE ? 0 : -EBADMSG);
		xfree(p);
	}
	xfree(owned);
}
END_TEST

/* Where each size of the message stands, and the values that it must not have. */
START_TEST(test_inner_sizes_are_not_believed)
{
	static const struct {
		size_t at;
		size_t octets;
	} fields[] = {{MESSAGE_AT_BODY_SIZE, 4}, {MESSAGE_AT_PROPERTIES_SIZE, 4},
		      {MESSAGE_AT_REF_COUNT, 4}, {MESSAGE_AT_EXCHANGE_SIZE, 1},
		      {MESSAGE_AT_KEY_SIZE, 1},	 {EXTENDED_AT_AREA, 2},
		      {EXTENDED_AT_AREA + 3, 1}};
	uint8_t *p;

	unhex(extended_hex, &p);
	for (size_t i = 0; i < countof(fields); i++) {
		for (size_t k = 0; k < fields[i].octets; k++) {
			size_t at = fields[i].at + k;

			ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, at, 0xff), -EBADMSG);
			ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, at, 0x80), -EBADMSG);
			ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, at, p[at] + 64), -EBADMSG);
		}
		ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, fields[i].at, p[fields[i].at] - 1),
				 -EBADMSG);
	}
	ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, 0, p[0]), 0);
	/* the sum is right in 32 bits */
	le32_store(p + MESSAGE_AT_BODY_SIZE, UINT32_MAX - 7);
	le32_store(p + MESSAGE_AT_PROPERTIES_SIZE, 2 + 5 + 8);
	ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, 0, p[0]), -EBADMSG);
	xfree(p);
}
END_TEST

/* 2^28 references more take 2^32 octets more; here all that lies behind them looks like references. */
START_TEST(test_count_of_references_does_not_wrap)
{
	uint8_t body[64 * MESSAGE_REF_SIZE];
	struct message_record message = {.ref_count = 3, .body = bytes_of(body, sizeof(body))};
	size_t size;
	uint8_t *p;

	for (size_t at = 0; at < sizeof(body); at += MESSAGE_REF_SIZE)
		message_ref_encode(body + at, &(struct message_ref){.queue_id = 1, .qseq = 1});
	p = new_message(&message, &size);
	ck_assert_int_eq(decode_with(p, size, MESSAGE_AT_REF_COUNT + 3, 0x00), 0);
	ck_assert_int_eq(decode_with(p, size, MESSAGE_AT_REF_COUNT + 3, 0x10), -EBADMSG);
	xfree(p);
}
END_TEST

START_TEST(test_filling_of_messages_is_less_than_8_octets)
{
	struct message_record message = {.body = BYTES("8 octets")};
	size_t size;
	uint8_t *p = new_message(&message, &size);
	uint8_t *longer = xcalloc(1, size + 8);

	memcpy(longer, p, size);
	ck_assert_int_eq(decode_with(longer, size, 0, (uint8_t)size), 0);
	ck_assert_int_eq(decode_with(longer, size + 8, 0, (uint8_t)(size + 8)), -EBADMSG);
	xfree(longer);
	xfree(p);
}
END_TEST

START_TEST(test_filling_of_messages_is_zeros)
{
	uint8_t *p;

	unhex(extended_hex, &p);
	for (size_t at = EXTENDED_SIZE - 5; at < EXTENDED_SIZE; at++)
		ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, at, 1), -EBADMSG);
	xfree(p);
}
END_TEST

START_TEST(test_flags_of_messages_that_are_not_known)
{
	uint8_t *p;

	unhex(extended_hex, &p);
	ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, MESSAGE_AT_FLAGS, 7), 0);
	for (unsigned bit = 3; bit < 16; bit++)
		ck_assert_int_eq(
			decode_with(p, EXTENDED_SIZE, MESSAGE_AT_FLAGS + bit / 8,
				    (uint8_t)(p[MESSAGE_AT_FLAGS + bit / 8] | 1u << bit % 8)),
			-ENOTSUP);
	for (unsigned bit = 2; bit < 8; bit++)
		ck_assert_int_eq(
			decode_with(p, EXTENDED_SIZE, MESSAGE_AT_REFS + 7, (uint8_t)(1u << bit)),
			-ENOTSUP);
	/* the times would not be as many as there are */
	ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, MESSAGE_AT_REFS + 7, 0), -EBADMSG);
	xfree(p);
}
END_TEST

START_TEST(test_numbers_in_a_queue_count_from_1_and_fit_48_bits)
{
	uint8_t *p;
	const size_t at = MESSAGE_AT_REFS + MESSAGE_REF_SIZE + 8;

	unhex(extended_hex, &p);
	ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, at, 0), -EBADMSG);
	ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, at + 5, 0xff), 0);
	ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, at + 6, 1), -EBADMSG);
	xfree(p);
}
END_TEST

START_TEST(test_message_is_told_from_others)
{
	uint8_t *p;

	unhex(extended_hex, &p);
	ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, RECORD_AT_TYPE, RECORD_ACK), -EBADMSG);
	ck_assert_int_eq(decode_with(p, EXTENDED_SIZE, RECORD_AT_VERSION, 2), -ENOTSUP);
	xfree(p);
}
END_TEST

/* ---- marks ---- */

#define MARKS_SIZE 96

/* What was walked over. */
static struct {
	unsigned count;
	struct ack_mark ranges[8];
	unsigned fail_at; // the call that fails, from 1; 0: none
} walked;

static int
note(void *context, const struct ack_mark *mark)
{
	ck_assert_ptr_eq(context, &walked);
	ck_assert_uint_lt(walked.count, countof(walked.ranges));
	walked.ranges[walked.count] = *mark;
	return ++walked.count == walked.fail_at ? 77 : 0;
}

/* Two groups with three ranges. */
static void
encode_marks(uint8_t *p)
{
	record_header_encode(p, MARKS_SIZE, 5, RECORD_ACK, 0, 0);
	ack_group_encode(p + 24, 0xfedcba987654, ACK_PURGED, 0x0102030405060708, 2);
	ack_range_encode(p + 48, 1, 1);
	ack_range_encode(p + 56, 0x123456789abc, 700);
	ack_group_encode(p + 64, 6, ACK_CONSUMED, 9, 1);
	ack_range_encode(p + 88, (1ULL << 48) - ACK_RANGE_MAX, ACK_RANGE_MAX);
}

/* Walks over an exact copy of the first size octets, with a check that is right. */
static int
walk(const uint8_t *marks, uint32_t size)
{
	uint8_t *p = exact_copy(marks, size);
	struct record record;
	int result;

	le32_store(p, size);
	record = sealed_record(p, size);
	walked.count = 0;
	result = ack_record_walk(&record, note, &walked);
	xfree(p);
	return result;
}

static int
walk_with(uint8_t *marks, size_t at, uint8_t octet)
{
	uint8_t before = marks[at];
	int result;

	marks[at] = octet;
	result = walk(marks, MARKS_SIZE);
	marks[at] = before;
	return result;
}

static void
expect_range(unsigned i, struct ack_mark expected)
{
	ck_assert_uint_eq(walked.ranges[i].queue_id, expected.queue_id);
	ck_assert_int_eq(walked.ranges[i].reason, expected.reason);
	ck_assert_uint_eq(walked.ranges[i].first, expected.first);
	ck_assert_uint_eq(walked.ranges[i].count, expected.count);
	ck_assert_uint_eq(walked.ranges[i].octets, expected.octets);
}

START_TEST(test_marks_are_read_back)
{
	uint8_t p[MARKS_SIZE];

	encode_marks(p);
	ck_assert_int_eq(walk(p, MARKS_SIZE), 0);
	ck_assert_uint_eq(walked.count, 3);
	expect_range(0, (struct ack_mark){0xfedcba987654, ACK_PURGED, 1, 1, 0x0102030405060708});
	expect_range(1, (struct ack_mark){0xfedcba987654, ACK_PURGED, 0x123456789abc, 700, 0});
	expect_range(2, (struct ack_mark){6, ACK_CONSUMED, 0xffffffff0000, 65536, 9});
}
END_TEST

/* Any number of octets is right: none, when all bodies are empty, and the largest. */
START_TEST(test_octets_of_marks_are_64_bits)
{
	static const uint64_t octets[] = {0, 1, UINT32_MAX, 1ULL << 32, UINT64_MAX};
	uint8_t p[MARKS_SIZE];

	encode_marks(p);
	for (size_t i = 0; i < countof(octets); i++) {
		ack_group_encode(p + 24, 5, ACK_EXPIRED, octets[i], 2);
		ck_assert_int_eq(walk(p, MARKS_SIZE), 0);
		ck_assert_uint_eq(walked.count, 3);
		ck_assert_uint_eq(walked.ranges[0].octets, octets[i]);
		ck_assert_uint_eq(walked.ranges[1].octets, 0);
		ck_assert_uint_eq(walked.ranges[2].octets, 9);
	}
}
END_TEST

START_TEST(test_marks_cut_off_are_refused)
{
	uint8_t p[MARKS_SIZE];

	encode_marks(p);
	for (uint32_t size = RECORD_HEADER_SIZE; size < MARKS_SIZE; size += 8)
		ck_assert_int_eq(walk(p, size), size == 64 ? 0 : -EBADMSG);
}
END_TEST

START_TEST(test_counts_of_ranges_are_not_believed)
{
	uint8_t p[MARKS_SIZE];

	encode_marks(p);
	ck_assert_int_eq(walk_with(p, 80, 0), -EBADMSG);
	ck_assert_int_eq(walk_with(p, 80, 2), -EBADMSG);
	ck_assert_int_eq(walk_with(p, 40, 3), -EBADMSG);
	ck_assert_int_eq(walk_with(p, 43, 0x20), -EBADMSG); /* 2^32 octets of ranges, and 16 */
	ck_assert_int_eq(walk_with(p, 43, 0xff), -EBADMSG);
	ck_assert_int_eq(walk_with(p, 83, 0x80), -EBADMSG);
}
END_TEST

START_TEST(test_group_without_ranges_is_refused)
{
	uint8_t p[MARKS_SIZE];

	encode_marks(p);
	le32_store(p + 80, 0);
	ck_assert_int_eq(walk(p, 88), -EBADMSG);
	ck_assert_uint_eq(walked.count, 2);
}
END_TEST

START_TEST(test_marks_that_are_malformed)
{
	uint8_t p[MARKS_SIZE];

	encode_marks(p);
	for (unsigned reason = 0; reason <= UINT8_MAX; reason++)
		ck_assert_int_eq(walk_with(p, 30, (uint8_t)reason),
				 reason < ACK_REASON_END ? 0 : -ENOTSUP);
	ck_assert_int_eq(walk_with(p, 31, 1), -EBADMSG); /* octets that are 0 */
	for (size_t at = 44; at < 48; at++)
		ck_assert_int_eq(walk_with(p, at, 1), -EBADMSG);
	ck_assert_int_eq(walk_with(p, 48, 0), -EBADMSG); /* number 0 */
	ck_assert_int_eq(walk_with(p, 88, 1), -EBADMSG); /* one more than 48 bits */
	ck_assert_int_eq(walk_with(p, RECORD_AT_TYPE, RECORD_MESSAGE), -EBADMSG);
	ck_assert_int_eq(walk_with(p, RECORD_AT_VERSION, 2), -ENOTSUP);
	ck_assert_uint_eq(walked.count, 0);
}
END_TEST

START_TEST(test_walk_ends_when_the_caller_says_so)
{
	uint8_t p[MARKS_SIZE];

	encode_marks(p);
	for (walked.fail_at = 1; walked.fail_at <= 3; walked.fail_at++) {
		ck_assert_int_eq(walk(p, MARKS_SIZE), 77);
		ck_assert_uint_eq(walked.count, walked.fail_at);
	}
}
END_TEST

/* ---- purges ---- */

static const struct purge_record some_purge = {
	.queue_id = 0xfedcba987654,
	.first = 7,
	.last = QSEQ_MAX,
	.open_count = 0x0102030405060708,
	.open_octets = UINT64_MAX,
};

/* What decoding says of the purge in a record of this size with a check that is right. */
static int
decode_purge(const uint8_t *purge, uint32_t size, struct purge_record *out)
{
	uint8_t *p = xcalloc(1, size);
	struct record record;
	int result;

	memcpy(p, purge, min_u64(size, PURGE_RECORD_SIZE));
	le32_store(p, size);
	record = sealed_record(p, size);
	result = purge_record_decode(out, &record);
	xfree(p);
	return result;
}

static int
decode_purge_with(uint8_t *purge, size_t at, uint64_t value)
{
	struct purge_record out;
	uint64_t before = le64_load(purge + at);
	int result;

	le64_store(purge + at, value);
	result = decode_purge(purge, PURGE_RECORD_SIZE, &out);
	le64_store(purge + at, before);
	return result;
}

START_TEST(test_purges_are_read_back)
{
	uint8_t p[PURGE_RECORD_SIZE];
	struct purge_record out;

	memset(p, 0xaa, sizeof(p));
	purge_record_encode(p, 9, &some_purge);
	ck_assert_int_eq(decode_purge(p, sizeof(p), &out), 0);
	ck_assert_uint_eq(le64_load(p + RECORD_AT_LSN), 9);
	ck_assert_uint_eq(out.queue_id, some_purge.queue_id);
	ck_assert_uint_eq(out.first, some_purge.first);
	ck_assert_uint_eq(out.last, some_purge.last);
	ck_assert_uint_eq(out.open_count, some_purge.open_count);
	ck_assert_uint_eq(out.open_octets, some_purge.open_octets);
	expect_hex(p + RECORD_HEADER_SIZE, "547698badcfe00000700000000000000ffffffffffff0000"
					   "0807060504030201ffffffffffffffff");
}
END_TEST

START_TEST(test_purges_of_another_size_are_refused)
{
	uint8_t p[PURGE_RECORD_SIZE];
	struct purge_record out;

	purge_record_encode(p, 9, &some_purge);
	for (uint32_t size = RECORD_HEADER_SIZE; size <= PURGE_RECORD_SIZE + 16; size += 8)
		ck_assert_int_eq(decode_purge(p, size, &out),
				 size == PURGE_RECORD_SIZE ? 0 : -EBADMSG);
}
END_TEST

START_TEST(test_purges_that_are_malformed)
{
	uint8_t p[PURGE_RECORD_SIZE];
	struct purge_record out;

	purge_record_encode(p, 9, &some_purge);
	ck_assert_int_eq(decode_purge_with(p, 24, QSEQ_MAX), 0);
	ck_assert_int_eq(decode_purge_with(p, 24, QSEQ_MAX + 1), -EBADMSG);
	ck_assert_int_eq(decode_purge_with(p, 32, 0), -EBADMSG);
	ck_assert_int_eq(decode_purge_with(p, 32, QSEQ_MAX), 0);
	ck_assert_int_eq(decode_purge_with(p, 32, QSEQ_MAX + 1), -EBADMSG);
	ck_assert_int_eq(decode_purge_with(p, 40, 7), 0);
	ck_assert_int_eq(decode_purge_with(p, 40, 6), -EBADMSG);
	ck_assert_int_eq(decode_purge_with(p, 40, QSEQ_MAX + 1), -EBADMSG);
	ck_assert_int_eq(decode_purge_with(p, 40, UINT64_MAX), -EBADMSG);
	p[RECORD_AT_TYPE] = RECORD_QUEUE;
	ck_assert_int_eq(decode_purge(p, sizeof(p), &out), -EBADMSG);
	p[RECORD_AT_TYPE] = RECORD_PURGE;
	p[RECORD_AT_VERSION] = 2;
	ck_assert_int_eq(decode_purge(p, sizeof(p), &out), -ENOTSUP);
}
END_TEST

/* Any octets are decoded without harm, and what is taken makes sense. */
START_TEST(test_garbled_purges_are_refused_or_make_sense)
{
	uint8_t p[PURGE_RECORD_SIZE];

	purge_record_encode(p, 9, &some_purge);
	for (unsigned bit = RECORD_HEADER_SIZE * 8; bit < PURGE_RECORD_SIZE * 8; bit++) {
		struct purge_record out;

		p[bit / 8] ^= (uint8_t)(1U << bit % 8);
		if (decode_purge(p, sizeof(p), &out) == 0) {
			ck_assert_uint_ge(out.first, 1);
			ck_assert_uint_le(out.first, out.last);
			ck_assert_uint_le(out.last, QSEQ_MAX);
		}
		p[bit / 8] ^= (uint8_t)(1U << bit % 8);
	}
}
END_TEST

/* ---- pairs ---- */

START_TEST(test_pairs_are_read_back)
{
	uint8_t *p = xmalloc(PAIR_RECORD_SIZE);
	uint64_t first;
	uint64_t second;
	struct record record;

	pair_record_encode(p, 9, RECORD_QUEUE, UINT64_MAX - 1, QUEUE_STATE_DELIVERED);
	record = sealed_record(p, PAIR_RECORD_SIZE);
	ck_assert_uint_eq(record.type, RECORD_QUEUE);
	ck_assert_uint_eq(record.lsn, 9);
	ck_assert_int_eq(pair_record_decode(&record, &first, &second), 0);
	ck_assert_uint_eq(first, UINT64_MAX - 1);
	ck_assert_uint_eq(second, QUEUE_STATE_DELIVERED);
	xfree(p);
}
END_TEST

START_TEST(test_pairs_cut_off_are_refused)
{
	for (uint32_t size = RECORD_HEADER_SIZE; size <= PAIR_RECORD_SIZE + 8; size += 8) {
		uint8_t *p = xcalloc(1, size);
		uint64_t words[2];
		struct record record;

		record_header_encode(p, size, 1, RECORD_EPOCH, 0, 0);
		record = sealed_record(p, size);
		ck_assert_int_eq(pair_record_decode(&record, &words[0], &words[1]),
				 size < PAIR_RECORD_SIZE ? -EBADMSG : 0);
		xfree(p);
	}
}
END_TEST

TESTS("payload", test_messages_are_read_back, test_message_of_nothing_is_read_back,
      test_message_of_the_largest_names_and_many_queues_is_read_back,
      test_values_of_messages_are_read_back, test_sizes_of_messages_do_not_wrap,
      test_reference_keeps_all_of_its_fields, test_golden_message_with_times_and_extension,
      test_message_in_a_record_of_another_size_is_refused, test_inner_sizes_are_not_believed,
      test_count_of_references_does_not_wrap, test_filling_of_messages_is_less_than_8_octets,
      test_filling_of_messages_is_zeros, test_flags_of_messages_that_are_not_known,
      test_numbers_in_a_queue_count_from_1_and_fit_48_bits, test_message_is_told_from_others,
      test_marks_are_read_back, test_octets_of_marks_are_64_bits, test_marks_cut_off_are_refused,
      test_counts_of_ranges_are_not_believed, test_group_without_ranges_is_refused,
      test_marks_that_are_malformed, test_walk_ends_when_the_caller_says_so,
      test_purges_are_read_back, test_purges_of_another_size_are_refused,
      test_purges_that_are_malformed, test_garbled_purges_are_refused_or_make_sense,
      test_pairs_are_read_back, test_pairs_cut_off_are_refused)
