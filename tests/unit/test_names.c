/* SPDX-License-Identifier: Apache-2.0 */
/* Names: generated, cleaned, reserved. */
#include "session/internal.h"

#include "lib/runner.h"

START_TEST(test_generated_names_are_prefix_and_22_characters)
{
	char out[NAME_GENERATED_SIZE];
	struct bytes name = name_generate("amq.ctag-", out);

	ck_assert_ptr_eq(name.p, out);
	ck_assert_uint_eq(name.n, 9 + 22);
	ck_assert(bytes_has_prefix(name, BYTES("amq.ctag-")));
	for (size_t i = 9; i < name.n; i++)
		ck_assert_ptr_nonnull(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					     "0123456789-_",
					     name.p[i]));
}
END_TEST

START_TEST(test_generated_names_differ)
{
	static char out[100][NAME_GENERATED_SIZE];

	for (size_t i = 0; i < countof(out); i++) {
		struct bytes name = name_generate("amq.gen-", out[i]);

		ck_assert_uint_eq(name.n, 8 + 22);
		for (size_t j = 0; j < i; j++)
			ck_assert_mem_ne(out[i], out[j], name.n);
	}
}
END_TEST

static void
check_clean(const char *name, const char *clean)
{
	uint8_t out[NAME_MAX_SIZE];
	struct bytes result = name_clean(bytes_str(name), out);

	ck_assert_msg(bytes_equal(result, bytes_str(clean)), "\"%s\" becomes \"%.*s\"", name,
		      BYTES_ARGS(result));
}

START_TEST(test_line_ends_are_taken_out_of_names)
{
	uint8_t out[NAME_MAX_SIZE];
	static uint8_t longest[255];
	struct bytes name = BYTES("as it is");

	check_clean("", "");
	check_clean("a\r\nb", "ab");
	check_clean("\n", "");
	check_clean("\r\rx\n", "x");
	check_clean("tab\tstays", "tab\tstays");
	ck_assert_ptr_eq(name_clean(name, out).p, name.p);
	memset(longest, 'n', sizeof(longest));
	longest[254] = '\n';
	ck_assert_uint_eq(name_clean(bytes_of(longest, 255), out).n, 254);
}
END_TEST

START_TEST(test_names_with_amq_are_reserved)
{
	const struct reply *reply = name_check_reserved("queue", BYTES("amq.foo"));

	ck_assert_ptr_nonnull(reply);
	ck_assert_int_eq((int)reply->code, 403);
	ck_assert_str_eq(reply->text, "ACCESS_REFUSED - queue name 'amq.foo' contains reserved "
				      "prefix 'amq.*'");
	ck_assert_ptr_nonnull(name_check_reserved("exchange", BYTES("amq.")));
	ck_assert_ptr_null(name_check_reserved("queue", BYTES("amq")));
	ck_assert_ptr_null(name_check_reserved("queue", BYTES("AMQ.x")));
	ck_assert_ptr_null(name_check_reserved("queue", BYTES("x.amq.")));
	ck_assert_ptr_null(name_check_reserved("queue", BYTES("")));
}
END_TEST

TESTS("names", test_generated_names_are_prefix_and_22_characters, test_generated_names_differ,
      test_line_ends_are_taken_out_of_names, test_names_with_amq_are_reserved)
