/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions as permissions and policies use them, and those made to do harm. */
#include "util/regex.h"

#include "util/log.h"
#include "util/mem.h"

#include "lib/runner.h"

static bool
matches(struct bytes pattern, struct bytes subject)
{
	char error[200] = "";
	struct regex *regex = regex_new(pattern, error, sizeof(error));
	bool result;

	ck_assert_msg(regex != NULL, "%s", error);
	result = regex_matches(regex, subject);
	regex_free(&regex);
	ck_assert_ptr_null(regex);
	return result;
}

START_TEST(test_unanchored_and_case_sensitive)
{
	ck_assert(matches(BYTES("ord"), BYTES("my-orders")));
	ck_assert(!matches(BYTES("^ord"), BYTES("my-orders")));
	ck_assert(matches(BYTES("^orders$"), BYTES("orders")));
	ck_assert(!matches(BYTES("ORD"), BYTES("orders")));
	ck_assert(matches(BYTES(".*"), BYTES("")));
	ck_assert(matches(BYTES(""), BYTES("anything")));
	ck_assert(matches(bytes_of(NULL, 0), bytes_of(NULL, 0)));
}
END_TEST

START_TEST(test_what_users_write)
{
	ck_assert(matches(BYTES("^(amq\\.gen.*|amq\\.default)$"), BYTES("amq.gen-Xyz")));
	ck_assert(!matches(BYTES("^(?!amq\\.).*"), BYTES("amq.direct")));
	ck_assert(matches(BYTES("^(?!amq\\.).*"), BYTES("orders")));
	ck_assert(matches(BYTES("^(?i)orders"), BYTES("ORDERS.eu")));
	ck_assert(matches(BYTES("(a)(b)(c)\\3"), BYTES("abcc")));
	ck_assert(!matches(BYTES("^$"), BYTES("x")));
	ck_assert(matches(BYTES("^$"), BYTES("")));
	ck_assert(matches(BYTES("^.\xc3\xa9"), BYTES("x\xc3\xa9")));
	ck_assert(matches(BYTES("^a.b$"), BYTES("a\0b")));
}
END_TEST

START_TEST(test_bad_pattern_says_why_and_where)
{
	char error[200] = "";

	ck_assert_ptr_null(regex_new(BYTES("ab("), error, sizeof(error)));
	ck_assert_str_eq(error, "missing closing parenthesis at offset 3");
	ck_assert_ptr_null(regex_new(BYTES("*"), error, sizeof(error)));
	ck_assert_ptr_nonnull(strstr(error, "at offset 0"));
	ck_assert_ptr_null(regex_new(BYTES("ab("), error, 8));
	ck_assert_str_eq(error, "missing");
}
END_TEST

START_TEST(test_too_long_a_pattern_is_refused)
{
	char error[200] = "";
	char *pattern = xmalloc(70000);

	memset(pattern, 'a', 70000);
	ck_assert_ptr_null(regex_new(bytes_of(pattern, 70000), error, sizeof(error)));
	ck_assert_str_ne(error, "");
	xfree(pattern);
}
END_TEST

START_TEST(test_runaway_pattern_ends_as_no_match)
{
	struct bytes subject =
		BYTES("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!");

	log_set_level(LOG_NONE);
	/* 2 to the 60th ways to split the a's: only a limit ends this within the test's time. */
	ck_assert(!matches(BYTES("^(a+)+$"), subject));
	ck_assert(!matches(BYTES("^(?:a|aa)+$"), subject));
	ck_assert(!matches(BYTES("^(a|(?1)(?1))+$"), subject));
}
END_TEST

static enum regex_result
match_in(const char *pattern, const char *subject, uint64_t *steps)
{
	char error[200] = "";
	struct regex *regex = regex_new(bytes_str(pattern), error, sizeof(error));
	enum regex_result result;

	ck_assert_msg(regex != NULL, "%s", error);
	result = regex_match(regex, bytes_str(subject), steps);
	regex_free(&regex);
	return result;
}

/* Wherever a match could begin, the steps are those of all. */
START_TEST(test_steps_are_counted)
{
	char subject[256];
	uint64_t steps = 100;

	log_set_level(LOG_NONE);
	ck_assert_int_eq(match_in("^(foo|bar)\\..*\\.eu$", "bar.orders.eu", &steps), REGEX_YES);
	ck_assert_uint_lt(steps, 100);
	ck_assert_uint_gt(steps, 50);
	ck_assert_int_eq(match_in("^q[0-9]$", "q", &steps), REGEX_NO);
	steps = 1000;
	memset(subject, 'a', 254);
	subject[254] = '!';
	subject[255] = '\0';
	ck_assert_int_eq(match_in("(a+)+$", subject, &steps), REGEX_GAVE_UP);
	ck_assert_uint_eq(steps, 0);
	/* some hundred steps from each place: PCRE2's limit is never met */
	steps = 10000;
	ck_assert_int_eq(match_in("a?a?a?a?a?a?(?<=b)!", subject, &steps), REGEX_GAVE_UP);
	ck_assert_uint_eq(steps, 0);
	ck_assert_int_eq(match_in("a", subject, &steps), REGEX_GAVE_UP);
}
END_TEST

START_TEST(test_free_of_null)
{
	struct regex *none = NULL;

	regex_free(&none);
}
END_TEST

TESTS("regex", test_unanchored_and_case_sensitive, test_what_users_write,
      test_bad_pattern_says_why_and_where, test_too_long_a_pattern_is_refused,
      test_runaway_pattern_ends_as_no_match, test_steps_are_counted, test_free_of_null)
