/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties and content headers. What is tried with every property is expanded from props.def.
 */
#include "wire/props.h"

#include "lib/runner.h"

#define VALUE_SHORTSTR BYTES("caf\xe9")
#define VALUE_TABLE BYTES("\1aI\0\0\0\5")
#define VALUE_OCTET 0xfe
#define VALUE_TIMESTAMP 0xfedcba9876543210

#define EQUAL_SHORTSTR(a, b) bytes_equal(a, b)
#define EQUAL_TABLE(a, b) bytes_equal(a, b)
#define EQUAL_OCTET(a, b) ((a) == (b))
#define EQUAL_TIMESTAMP(a, b) ((a) == (b))

static struct basic_properties
fill(uint16_t flags)
{
	struct basic_properties properties = {
		.flags = flags,
#define PROPERTY(type, name) .name = VALUE_##type,
#include "wire/props.def"
	};

	return properties;
}

static struct bytes
encode(const struct basic_properties *properties, uint8_t *area, size_t room)
{
	struct writer w = writer_of(area, room);

	properties_encode(properties, &w);
	ck_assert(!w.bad);
	return bytes_of(area, (size_t)(w.p - area));
}

/* Decodes a copy without an octet to spare; with properties borrowing from nothing afterwards. */
static bool
decodes(struct bytes encoded)
{
	struct basic_properties properties;
	uint8_t *copy = malloc(encoded.n != 0 ? encoded.n : 1);
	bool good;

	ck_assert_ptr_nonnull(copy);
	if (encoded.n != 0)
		memcpy(copy, encoded.p, encoded.n);
	good = properties_decode(&properties, bytes_of(copy, encoded.n));
	free(copy);
	return good;
}

/* Those that are set come back, the others are zero. */
static void
check_round_trip(uint16_t flags)
{
	static const struct basic_properties none;
	struct basic_properties sent = fill(flags);
	struct basic_properties got;
	uint8_t area[256];

	ck_assert(properties_decode(&got, encode(&sent, area, sizeof(area))));
	ck_assert_uint_eq(got.flags, flags);
#define PROPERTY(type, name) \
	ck_assert(EQUAL_##type(got.name, flags &PROPERTY_##name ? sent.name : none.name));
#include "wire/props.def"
}

START_TEST(test_each_property_round_trips)
{
	for (unsigned i = 0; i < PROPERTY_COUNT; i++)
		check_round_trip((uint16_t)(0x8000 >> i));
}
END_TEST

START_TEST(test_every_set_of_properties_round_trips)
{
	for (unsigned flags = 0; flags <= 0xfffc; flags += 4)
		check_round_trip((uint16_t)flags);
}
END_TEST

START_TEST(test_every_truncation_is_refused)
{
	struct basic_properties sent = fill(0xfffc);
	uint8_t area[256];
	struct bytes whole = encode(&sent, area, sizeof(area));

	for (size_t n = 0; n < whole.n; n++)
		ck_assert_msg(!decodes(bytes_of(whole.p, n)), "cut to %zu of %zu", n, whole.n);
	ck_assert(decodes(whole));
}
END_TEST

START_TEST(test_octets_left_over_are_refused)
{
	ck_assert(decodes(BYTES("\0\0")));
	ck_assert(!decodes(BYTES("\0\0\0")));
	ck_assert(decodes(BYTES("\x10\0\2")));
	ck_assert(!decodes(BYTES("\x10\0\2\0")));
}
END_TEST

START_TEST(test_the_two_low_bits_are_ignored)
{
	struct basic_properties got;
	uint8_t area[8];

	ck_assert(properties_decode(&got, BYTES("\x10\3\2")));
	ck_assert_uint_eq(got.flags, PROPERTY_delivery_mode);
	ck_assert_uint_eq(got.delivery_mode, 2);
	got.flags |= 3;
	ck_assert(bytes_equal(encode(&got, area, sizeof(area)), BYTES("\x10\0\2")));
}
END_TEST

START_TEST(test_flags_are_the_specifications)
{
	ck_assert_uint_eq(PROPERTY_content_type, 0x8000);
	ck_assert_uint_eq(PROPERTY_headers, 0x2000);
	ck_assert_uint_eq(PROPERTY_timestamp, 0x0040);
	ck_assert_uint_eq(PROPERTY_cluster_id, 0x0004);
}
END_TEST

START_TEST(test_headers_are_validated)
{
	struct basic_properties got;

	ck_assert(properties_decode(&got, BYTES("\x20\0\0\0\0\0")));
	ck_assert_uint_eq(got.flags, PROPERTY_headers);
	ck_assert_uint_eq(got.headers.n, 0);
	ck_assert(!properties_decode(&got, BYTES("\x20\0\0\0\0\3\1az")));
	ck_assert_int_eq(got.bad_type, 'z');
	ck_assert(!properties_decode(&got, BYTES("\x20\0\0\0\0\3\1aI")));
	ck_assert_int_eq(got.bad_type, 0);
}
END_TEST

START_TEST(test_content_header_round_trips)
{
	struct basic_properties sent = fill(PROPERTY_delivery_mode | PROPERTY_reply_to);
	struct content_header header;
	struct basic_properties got;
	uint8_t area[64];
	struct writer w = writer_of(area, sizeof(area));

	content_header_encode(&sent, 0x0102030405060708, &w);
	ck_assert(!w.bad);
	ck_assert(content_header_decode(&header, bytes_of(area, (size_t)(w.p - area))));
	ck_assert_uint_eq(header.class_id, 60);
	ck_assert_uint_eq(header.weight, 0);
	ck_assert_uint_eq(header.body_size, 0x0102030405060708);
	ck_assert(properties_decode(&got, header.properties));
	ck_assert_uint_eq(got.flags, sent.flags);
}
END_TEST

START_TEST(test_octets_of_a_content_header)
{
	static const uint8_t octets[] = {0, 50, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0x88, 0, 1, 'x', 9};
	struct content_header header;
	struct basic_properties got;

	ck_assert(content_header_decode(&header, bytes_of(octets, sizeof(octets))));
	ck_assert_uint_eq(header.class_id, 50);
	ck_assert_uint_eq(header.weight, 1);
	ck_assert_uint_eq(header.body_size, 256);
	ck_assert(properties_decode(&got, header.properties));
	ck_assert(bytes_equal(got.content_type, BYTES("x")));
	ck_assert_uint_eq(got.priority, 9);
	for (size_t n = 0; n < CONTENT_HEADER_FIXED; n++)
		ck_assert(!content_header_decode(&header, bytes_of(octets, n)));
}
END_TEST

START_TEST(test_random_bytes_never_crash)
{
	uint64_t random = 42;

	for (int i = 0; i < 50000; i++) {
		uint8_t octets[48];

		for (size_t at = 0; at < sizeof(octets); at++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			octets[at] = (uint8_t)(random >> (i % 2 == 0 ? 56 : 62));
		}
		(void)decodes(bytes_of(octets, random % sizeof(octets)));
	}
}
END_TEST

TESTS("props", test_each_property_round_trips, test_every_set_of_properties_round_trips,
      test_every_truncation_is_refused, test_octets_left_over_are_refused,
      test_the_two_low_bits_are_ignored, test_flags_are_the_specifications,
      test_headers_are_validated, test_content_header_round_trips, test_octets_of_a_content_header,
      test_random_bytes_never_crash)
