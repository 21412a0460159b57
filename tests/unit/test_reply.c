/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies: what they close, and that their text is a well-formed shortstr whatever it was made of.
 */
#include "wire/reply.h"

#include "wire/utf8.h"

#include "lib/runner.h"

START_TEST(test_a_reply_says_what_it_closes)
{
	const struct reply *reply = refuse(NOT_FOUND, "no queue '%s' in vhost '%s'", "q", "/");

	ck_assert_int_eq(reply->code, 404);
	ck_assert_int_eq(reply->closes, REPLY_CLOSES_CHANNEL);
	ck_assert(!reply->no_ids);
	ck_assert_str_eq(reply->text, "NOT_FOUND - no queue 'q' in vhost '/'");
	reply = refuse_no_ids(FRAME_ERROR, "type %d, all octets = <<>>: unknown_frame", 5);
	ck_assert_int_eq(reply->code, 501);
	ck_assert_int_eq(reply->closes, REPLY_CLOSES_CONNECTION);
	ck_assert(reply->no_ids);
	ck_assert_str_eq(reply->text, "FRAME_ERROR - type 5, all octets = <<>>: unknown_frame");
	ck_assert_int_eq(refuse(NO_ROUTE, "x")->closes, REPLY_CLOSES_NOTHING);
}
END_TEST

/* 0-9-1: 1.3: 3xx and 40x but two are soft. */
START_TEST(test_codes_are_soft_or_hard)
{
	static const struct {
		enum reply_code code;
		enum reply_closes closes;
	} rows[] = {
#define REPLY(name, code, closes) {name, REPLY_CLOSES_##closes},
#include "wire/replies.def"
	};

	for (size_t i = 0; i < countof(rows); i++) {
		const struct reply *reply = refuse(rows[i].code, "%s", "");

		ck_assert_int_eq(reply->closes, rows[i].closes);
		ck_assert_str_eq(reply->text, reply_name(rows[i].code));
		if (rows[i].code >= 500)
			ck_assert_int_eq(reply->closes, REPLY_CLOSES_CONNECTION);
	}
	ck_assert_str_eq(reply_name(RESOURCE_LOCKED), "RESOURCE_LOCKED");
	ck_assert_str_eq(reply_name((enum reply_code)999), "UNKNOWN");
}
END_TEST

START_TEST(test_a_text_of_255_octets_stays)
{
	char long_name[400];
	size_t fits = REPLY_TEXT_MAX - strlen("NOT_FOUND - ");
	const struct reply *reply;

	memset(long_name, 'n', sizeof(long_name));
	reply = refuse(NOT_FOUND, "%.*s", (int)fits, long_name);
	ck_assert_uint_eq(strlen(reply->text), REPLY_TEXT_MAX);
	ck_assert_int_eq(reply->text[254], 'n');
	reply = refuse(NOT_FOUND, "%.*s", (int)fits + 1, long_name);
	ck_assert_uint_eq(strlen(reply->text), REPLY_TEXT_MAX);
	ck_assert_str_eq(reply->text + 251, "n...");
}
END_TEST

START_TEST(test_a_cut_falls_between_two_characters)
{
	for (size_t shift = 0; shift < 4; shift++) {
		char text[1000];
		const struct reply *reply;

		memset(text, 'a', shift);
		for (size_t at = shift; at + 4 < sizeof(text); at += 4)
			memcpy(text + at, "\xf0\x9f\x90\xb0", 5);
		reply = refuse(NOT_FOUND, "%s", text);
		ck_assert(utf8_valid(bytes_str(reply->text)));
		ck_assert_uint_le(strlen(reply->text), REPLY_TEXT_MAX);
		ck_assert_uint_gt(strlen(reply->text), REPLY_TEXT_MAX - 4);
		ck_assert_str_eq(reply->text + strlen(reply->text) - 3, "...");
		ck_assert_ptr_null(strchr(reply->text, '?'));
	}
}
END_TEST

START_TEST(test_a_text_is_always_utf8)
{
	ck_assert_str_eq(refuse(NOT_FOUND, "no queue '%s'", "a\xff\xc3\xa9\xc3")->text,
			 "NOT_FOUND - no queue 'a?\xc3\xa9?'");
}
END_TEST

TESTS("reply", test_a_reply_says_what_it_closes, test_codes_are_soft_or_hard,
      test_a_text_of_255_octets_stays, test_a_cut_falls_between_two_characters,
      test_a_text_is_always_utf8)
