/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors: what one writes the other reads, bits are packed as the specification has it, and the
 * first thing that does not fit spoils all that follows.
 */
#include "wire/cursor.h"

#include "lib/runner.h"

START_TEST(test_numbers_are_big_endian)
{
	static const uint8_t expected[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	uint8_t area[sizeof(expected)];
	struct writer w = writer_of(area, sizeof(area));
	struct reader r = reader_of(bytes_of(area, sizeof(area)));

	write_octet(&w, 0x01);
	write_short(&w, 0x0203);
	write_long(&w, 0x04050607);
	write_longlong(&w, 0x08090a0b0c0d0e0f);
	ck_assert(!w.bad);
	ck_assert_ptr_eq(w.p, w.end);
	ck_assert_mem_eq(area, expected, sizeof(area));
	ck_assert_uint_eq(read_octet(&r), 0x01);
	ck_assert_uint_eq(read_short(&r), 0x0203);
	ck_assert_uint_eq(read_long(&r), 0x04050607);
	ck_assert(!reader_done(&r));
	ck_assert_uint_eq(read_longlong(&r), 0x08090a0b0c0d0e0f);
	ck_assert(reader_done(&r));
}
END_TEST

START_TEST(test_numbers_keep_their_highest_bit)
{
	uint8_t area[15];
	struct writer w = writer_of(area, sizeof(area));
	struct reader r = reader_of(bytes_of(area, sizeof(area)));

	write_octet(&w, UINT8_MAX);
	write_short(&w, UINT16_MAX);
	write_long(&w, UINT32_MAX);
	write_longlong(&w, UINT64_MAX);
	ck_assert_uint_eq(read_octet(&r), UINT8_MAX);
	ck_assert_uint_eq(read_short(&r), UINT16_MAX);
	ck_assert_uint_eq(read_long(&r), UINT32_MAX);
	ck_assert_uint_eq(read_longlong(&r), UINT64_MAX);
	ck_assert(reader_done(&r));
}
END_TEST

/* Nine bits take two octets; a bit after something else opens an octet of its own. */
START_TEST(test_bits_are_packed_from_the_lowest)
{
	static const bool bits[9] = {true, false, true, true, false, false, false, true, true};
	static const uint8_t expected[] = {0x8d, 0x01, 0x2a, 0x01};
	uint8_t area[sizeof(expected)];
	struct writer w = writer_of(area, sizeof(area));
	struct reader r = reader_of(bytes_of(area, sizeof(area)));

	for (size_t i = 0; i < countof(bits); i++)
		write_bit(&w, bits[i]);
	write_octet(&w, 0x2a);
	write_bit(&w, true);
	ck_assert(!w.bad);
	ck_assert_mem_eq(area, expected, sizeof(area));
	for (size_t i = 0; i < countof(bits); i++)
		ck_assert_int_eq(read_bit(&r), bits[i]);
	ck_assert_uint_eq(read_octet(&r), 0x2a);
	ck_assert(read_bit(&r));
	ck_assert(reader_done(&r));
}
END_TEST

START_TEST(test_unused_bits_are_ignored)
{
	static const uint8_t input[] = {0xfe};
	struct reader r = reader_of(bytes_of(input, sizeof(input)));

	ck_assert(!read_bit(&r));
	ck_assert(read_bit(&r));
	ck_assert(reader_done(&r));
}
END_TEST

START_TEST(test_strings_have_their_length_in_front)
{
	static const uint8_t expected[] = {2, 'a', 'b', 0, 0, 0, 3, 'c', 'd', 'e', 0, 0, 0, 0, 0};
	uint8_t area[sizeof(expected)];
	struct writer w = writer_of(area, sizeof(area));
	struct reader r = reader_of(bytes_of(area, sizeof(area)));

	write_shortstr(&w, BYTES("ab"));
	write_longstr(&w, BYTES("cde"));
	write_shortstr(&w, bytes_of(NULL, 0));
	write_longstr(&w, bytes_of(NULL, 0));
	ck_assert(!w.bad);
	ck_assert_mem_eq(area, expected, sizeof(area));
	ck_assert(bytes_equal(read_shortstr(&r), BYTES("ab")));
	ck_assert(bytes_equal(read_longstr(&r), BYTES("cde")));
	ck_assert_uint_eq(read_shortstr(&r).n, 0);
	ck_assert_uint_eq(read_longstr(&r).n, 0);
	ck_assert(reader_done(&r));
}
END_TEST

START_TEST(test_a_bad_read_stays_bad)
{
	static const uint8_t input[] = {1, 2, 3};
	struct reader r = reader_of(bytes_of(input, sizeof(input)));

	ck_assert_uint_eq(read_long(&r), 0);
	ck_assert(r.bad);
	ck_assert_uint_eq(read_octet(&r), 0);
	ck_assert_uint_eq(read_raw(&r, 0).n, 0);
	ck_assert(!read_bit(&r));
	ck_assert_uint_eq(read_shortstr(&r).n, 0);
	ck_assert(!reader_done(&r));
	ck_assert_uint_eq(reader_left(&r), sizeof(input));
}
END_TEST

START_TEST(test_a_length_beyond_the_end_is_bad)
{
	static const uint8_t longstr[] = {0xff, 0xff, 0xff, 0xff, 'a'};
	static const uint8_t shortstr[] = {2, 'a'};
	struct reader r = reader_of(bytes_of(longstr, sizeof(longstr)));

	ck_assert_ptr_null(read_longstr(&r).p);
	ck_assert(r.bad);
	r = reader_of(bytes_of(shortstr, sizeof(shortstr)));
	ck_assert_ptr_null(read_shortstr(&r).p);
	ck_assert(r.bad);
}
END_TEST

START_TEST(test_nothing_can_be_read_from_nothing)
{
	struct reader r = reader_of(bytes_of(NULL, 0));

	ck_assert(reader_done(&r));
	ck_assert_uint_eq(read_raw(&r, 0).n, 0);
	ck_assert(reader_done(&r));
	ck_assert(!read_bit(&r));
	ck_assert(r.bad);
}
END_TEST

START_TEST(test_a_bad_write_stays_bad_and_writes_nothing)
{
	uint8_t area[4] = {9, 9, 9, 9};
	struct writer w = writer_of(area, 3);

	write_octet(&w, 1);
	write_long(&w, 2);
	ck_assert(w.bad);
	write_octet(&w, 3);
	write_bit(&w, true);
	write_raw(&w, bytes_of(NULL, 0));
	ck_assert(w.bad);
	ck_assert_ptr_eq(w.p, area + 1);
	ck_assert_uint_eq(area[1], 9);
	ck_assert_uint_eq(area[3], 9);
}
END_TEST

START_TEST(test_a_shortstr_of_256_octets_is_bad)
{
	uint8_t string[256] = {0};
	uint8_t area[300];
	struct writer w = writer_of(area, sizeof(area));

	write_shortstr(&w, bytes_of(string, 255));
	ck_assert(!w.bad);
	w = writer_of(area, sizeof(area));
	write_shortstr(&w, bytes_of(string, 256));
	ck_assert(w.bad);
	ck_assert_ptr_eq(w.p, area);
}
END_TEST

TESTS("cursor", test_numbers_are_big_endian, test_numbers_keep_their_highest_bit,
      test_bits_are_packed_from_the_lowest, test_unused_bits_are_ignored,
      test_strings_have_their_length_in_front, test_a_bad_read_stays_bad,
      test_a_length_beyond_the_end_is_bad, test_nothing_can_be_read_from_nothing,
      test_a_bad_write_stays_bad_and_writes_nothing, test_a_shortstr_of_256_octets_is_bad)
