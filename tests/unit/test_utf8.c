/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8: every code point, every ill form that RFC 3629 names, at every place of a word.
 */
#include "wire/utf8.h"

#include "lib/runner.h"

/* Encodes without a look at what is allowed; returns the octets written. */
static size_t
encode(uint32_t c, char *p)
{
	static const uint8_t first[] = {0, 0, 0xC0, 0xE0, 0xF0};
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		p[i] = (char)(0x80 | (c & 0x3f));
	p[0] = (char)(first[n] | c);
	return n;
}

START_TEST(test_every_code_point_but_surrogates_is_valid)
{
	for (uint32_t c = 0; c < 0x120000; c++) {
		char text[4];
		struct bytes view = bytes_of(text, encode(c, text));
		bool surrogate = c >= 0xD800 && c <= 0xDFFF;

		ck_assert_msg(utf8_valid(view) == (c <= 0x10FFFF && !surrogate), "U+%04x", c);
	}
}
END_TEST

static const char *const ill[] = {
	"\x80",	    // continues nothing
	"\xbf\xbf", // the same
	"\xc0\x80",
	"\xc1\xbf", // overlong forms of 2 octets
	"\xe0\x80\x80",
	"\xe0\x9f\xbf", // of 3
	"\xf0\x80\x80\x80",
	"\xf0\x8f\xbf\xbf", // of 4
	"\xed\xa0\x80",
	"\xed\xbf\xbf", // surrogates
	"\xf4\x90\x80\x80",
	"\xf5\x80\x80\x80", // above U+10FFFF
	"\xfe",
	"\xff", // never
	"\xc3",
	"\xe2\x82",
	"\xf0\x9f\x90", // broken off
	"\xc3(",
	"\xe2(\xa1",
	"\xe2\x82(",
	"\xf0\x9f\x90(", // the wrong octet inside
};

START_TEST(test_ill_forms_are_refused_anywhere)
{
	for (size_t i = 0; i < countof(ill); i++) {
		for (size_t before = 0; before < 20; before++) {
			char text[64];
			size_t n = strlen(ill[i]);

			memset(text, 'a', sizeof(text));
			memcpy(text + before, ill[i], n);
			ck_assert(!utf8_valid(bytes_of(text, before + n)));
			ck_assert(!utf8_valid(bytes_of(text, before + n + 9)));
			ck_assert(utf8_valid(bytes_of(text, before)));
		}
	}
}
END_TEST

START_TEST(test_mending_keeps_what_is_well)
{
	char text[] = "a\xc3\xa9\xff\xe2\x82\xac\xe2\x82z";

	utf8_mend(text, strlen(text));
	ck_assert_str_eq(text, "a\xc3\xa9?\xe2\x82\xac??z");
	for (size_t i = 0; i < countof(ill); i++) {
		char copy[8] = "";

		memcpy(copy, ill[i], strlen(ill[i]));
		utf8_mend(copy, strlen(copy));
		ck_assert(utf8_valid(bytes_str(copy)));
	}
}
END_TEST

START_TEST(test_a_cut_keeps_characters_whole)
{
	static const char text[] = "a\xf0\x9f\x90\xb0z";
	static const size_t expected[] = {0, 1, 1, 1, 1, 5, 6};

	for (size_t limit = 0; limit < countof(expected); limit++)
		ck_assert_uint_eq(utf8_cut(text, limit), expected[limit]);
}
END_TEST

TESTS("utf8", test_every_code_point_but_surrogates_is_valid, test_ill_forms_are_refused_anywhere,
      test_mending_keeps_what_is_well, test_a_cut_keeps_characters_whole)
