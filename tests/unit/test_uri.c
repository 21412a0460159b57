/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMQP URIs: every part may be missing, and what is none is refused.
 */
#include "perf/uri.h"

#include <stdio.h>
#include "lib/runner.h"

static void
expect(const char *text, const char *user, const char *password, const char *host, unsigned port,
       const char *vhost)
{
	struct uri uri;

	ck_assert_msg(uri_parse(&uri, text), "%s is refused", text);
	ck_assert_str_eq(uri.user, user);
	ck_assert_str_eq(uri.password, password);
	ck_assert_str_eq(uri.host, host);
	ck_assert_uint_eq(uri.port, port);
	ck_assert_str_eq(uri.vhost, vhost);
}

START_TEST(test_parts_may_be_missing)
{
	expect("amqp://", "guest", "guest", "127.0.0.1", 5672, "/");
	expect("amqp://h", "guest", "guest", "h", 5672, "/");
	expect("amqp://:99", "guest", "guest", "127.0.0.1", 99, "/");
	expect("amqp://u@", "u", "guest", "127.0.0.1", 5672, "/");
	expect("amqp://u:p@h:1/v", "u", "p", "h", 1, "v");
	expect("amqp://h:65535/", "guest", "guest", "h", 65535, "");
}
END_TEST

START_TEST(test_octets_are_decoded)
{
	expect("amqp://a%40b:c%2Fd%3a@h/%2f", "a@b", "c/d:", "h", 5672, "/");
	expect("amqp://u:p@q@h/a/b", "u", "p@q", "h", 5672, "a/b");
}
END_TEST

START_TEST(test_ipv6_stands_in_brackets)
{
	expect("amqp://[::1]", "guest", "guest", "::1", 5672, "/");
	expect("amqp://u:p@[fe80::1]:5673/v", "u", "p", "fe80::1", 5673, "v");
}
END_TEST

START_TEST(test_what_is_none_is_refused)
{
	static const char *const bad[] = {
		"",
		"http://h",
		"amqp:/h",
		"amqps://h",
		"amqp://h:0",
		"amqp://h:65536",
		"amqp://h:",
		"amqp://h:1x",
		"amqp://h/%",
		"amqp://h/%2",
		"amqp://h/%zz",
		"amqp://h/%00",
		"amqp://[::1",
		"amqp://[::1]x",
		"amqp://[::1]:",
	};
	struct uri uri;

	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(!uri_parse(&uri, bad[i]), "%s is taken", bad[i]);
}
END_TEST

START_TEST(test_a_long_part_is_refused)
{
	char text[16 + URI_PART_MAX];
	struct uri uri;

	snprintf(text, sizeof(text), "amqp://h/%0*d", URI_PART_MAX - 1, 0);
	ck_assert(uri_parse(&uri, text));
	snprintf(text, sizeof(text), "amqp://h/%0*d", URI_PART_MAX, 0);
	ck_assert(!uri_parse(&uri, text));
}
END_TEST

TESTS("uri", test_parts_may_be_missing, test_octets_are_decoded, test_ipv6_stands_in_brackets,
      test_what_is_none_is_refused, test_a_long_part_is_refused)
