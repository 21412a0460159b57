/* SPDX-License-Identifier: Apache-2.0 */
/* Digests against published values, Base64 both ways with what it must refuse, random bytes. */
#include "util/digest.h"

#include <errno.h>
#include <stdio.h>

#include "lib/runner.h"

static const char *
hex(const uint8_t *p, size_t n)
{
	static char text[2 * DIGEST_MAX + 1];

	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", p[i]);
	return text;
}

static const char *
digest_hex(enum digest_kind kind, struct bytes a, struct bytes b)
{
	uint8_t out[DIGEST_MAX];

	digest(kind, a, b, out);
	return hex(out, digest_size(kind));
}

START_TEST(test_published_digests)
{
	/* RFC 1321 A.5, and FIPS 180 for "abc" */
	ck_assert_str_eq(digest_hex(DIGEST_MD5, BYTES("abc"), BYTES("")),
			 "900150983cd24fb0d6963f7d28e17f72");
	ck_assert_str_eq(digest_hex(DIGEST_SHA256, BYTES("abc"), BYTES("")),
			 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	ck_assert_str_eq(digest_hex(DIGEST_SHA512, BYTES("abc"), BYTES("")),
			 "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
			 "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
	ck_assert_str_eq(digest_hex(DIGEST_MD5, bytes_of(NULL, 0), bytes_of(NULL, 0)),
			 "d41d8cd98f00b204e9800998ecf8427e");
}
END_TEST

START_TEST(test_two_parts_are_one_text)
{
	uint8_t whole[DIGEST_MAX];
	uint8_t parts[DIGEST_MAX];

	digest(DIGEST_SHA256, BYTES("salt"), BYTES("secret"), parts);
	digest(DIGEST_SHA256, bytes_of(NULL, 0), BYTES("saltsecret"), whole);
	ck_assert_mem_eq(parts, whole, 32);
}
END_TEST

START_TEST(test_random_bytes_differ)
{
	uint8_t a[32] = {0};
	uint8_t b[32] = {0};

	random_bytes(a, sizeof(a));
	random_bytes(b, sizeof(b));
	ck_assert_mem_ne(a, b, sizeof(a));
	random_bytes(a, 0);
}
END_TEST

START_TEST(test_constant_time_compare)
{
	ck_assert(bytes_equal_constant_time(BYTES("abc"), BYTES("abc")));
	ck_assert(bytes_equal_constant_time(bytes_of(NULL, 0), BYTES("")));
	ck_assert(!bytes_equal_constant_time(BYTES("abc"), BYTES("abd")));
	ck_assert(!bytes_equal_constant_time(BYTES("abc"), BYTES("ab")));
}
END_TEST

START_TEST(test_base64_encode)
{
	/* RFC 4648, section 10 */
	static const char *const pairs[][2] = {
		{"", ""},
		{"f", "Zg=="},
		{"fo", "Zm8="},
		{"foo", "Zm9v"},
		{"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"},
	};
	char out[16];

	for (size_t i = 0; i < countof(pairs); i++) {
		size_t n = base64_encode(bytes_str(pairs[i][0]), false, out, sizeof(out));

		ck_assert_str_eq(out, pairs[i][1]);
		ck_assert_uint_eq(n, strlen(out));
	}
	ck_assert_uint_eq(base64_encode(BYTES("\xfb\xff\xfe\x01"), false, out, sizeof(out)), 8);
	ck_assert_str_eq(out, "+//+AQ==");
	ck_assert_uint_eq(base64_encode(BYTES("\xfb\xff\xfe\x01"), true, out, sizeof(out)), 6);
	ck_assert_str_eq(out, "-__-AQ");
}
END_TEST

START_TEST(test_base64_round_trip)
{
	uint8_t in[70];
	uint8_t back[70];
	char text[100];

	random_bytes(in, sizeof(in));
	for (size_t n = 0; n <= sizeof(in); n++) {
		size_t length = base64_encode(bytes_of(in, n), false, text, sizeof(text));

		ck_assert_int_eq(base64_decode(bytes_of(text, length), back, n), (int)n);
		ck_assert_mem_eq(in, back, n);
		if (n > 0)
			ck_assert_int_eq(base64_decode(bytes_of(text, length), back, n - 1),
					 -ENOSPC);
	}
}
END_TEST

START_TEST(test_base64_refuses)
{
	static const char *const bad[] = {"Zg=",    "Zg",   "Z===", "====", "Zg==Zg==", "Z=g=",
					  "Zm9v\n", "Zm-v", "Zm_v", " Zg=", "Zm9\x80"};
	uint8_t out[16];

	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_int_eq(base64_decode(bytes_str(bad[i]), out, sizeof(out)), -EINVAL);
}
END_TEST

TESTS("digest", test_published_digests, test_two_parts_are_one_text, test_random_bytes_differ,
      test_constant_time_compare, test_base64_encode, test_base64_round_trip, test_base64_refuses)
