/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to match a pattern with all names of a vhost: one that would stop the broker for long is refused
 * where it is set, and does not match where it was set before.
 */
#include "unit/policy_fixture.h"

#define NAMES 20000
#define TRAP "(a+)+$"

static void
make_queues(const char *format, unsigned count)
{
	char name[64];

	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), format, i);
		make_queue(name);
	}
}

static const char *
cost(const char *pattern)
{
	struct policy_spec spec = policy_spec_of("p", pattern, "max-length=5");

	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
	return policy_check_cost(vhost, &spec);
}

START_TEST(test_what_users_write_is_taken)
{
	static const char *const patterns[] = {"",
					       ".*",
					       "^orders",
					       "\\.dlq$",
					       "^(?!amq\\.).*",
					       "^(a|b)\\..*\\.eu$",
					       "(foo|bar|baz)",
					       "[a-z]+-[0-9]+$"};

	make_queues("customer-%u.invoices.retry.eu", NAMES);
	for (size_t i = 0; i < countof(patterns); i++)
		ck_assert_ptr_null(cost(patterns[i]));
}
END_TEST

START_TEST(test_a_trap_is_refused)
{
	const char *why;

	make_queue("plain");
	ck_assert_ptr_null(cost(TRAP));
	make_queue("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!");
	why = cost(TRAP);
	ck_assert_ptr_nonnull(why);
	ck_assert_str_eq(why,
			 "pattern '" TRAP "' takes too many steps to be matched with the names in "
			 "the vhost, as with 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!': "
			 "write it without nested repetitions");
}
END_TEST

/* With no name it takes too much, but with all of them it would. */
START_TEST(test_many_names_add_up)
{
	const char *why;

	make_queues("aaaaaaa%05u!", 50);
	ck_assert_ptr_null(cost("^(a+)+$"));
	make_queues("aaaaaaa%05u?", NAMES);
	why = cost("^(a+)+$");
	ck_assert_ptr_nonnull(why);
	ck_assert_ptr_nonnull(strstr(why, "pattern '^(a+)+$' takes too many steps"));
}
END_TEST

START_TEST(test_a_long_pattern_is_cut_in_the_text)
{
	static char pattern[5000];

	memset(pattern, 'b', sizeof(pattern) - 1);
	memcpy(pattern, TRAP "|", sizeof(TRAP));
	make_queue("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!");
	ck_assert_ptr_nonnull(cost(pattern));
	ck_assert_uint_lt(strlen(cost(pattern)), 600);
}
END_TEST

/* One that was set before does not apply, and stops nobody: a trap of 2 to the 40th steps ends within the test's
 * time, and what is asked again says the same. */
START_TEST(test_a_name_that_comes_later_is_not_matched)
{
	struct queue *q;

	put("trap", TRAP, "max-length=5");
	make_queues("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa%u", 500);
	q = make_queue("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!");
	ck_assert_ptr_null(queue_settings(q)->policies[POLICY_USER]);
	q = make_queue("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	ck_assert_ptr_nonnull(queue_settings(q)->policies[POLICY_USER]);
	put("other", "^b", "max-length=6");
	take_away(POLICY_USER, "other");
	broker_check(broker);
}
END_TEST

TESTS_WITH("policy_cost", policy_set_up, model_tear_down, test_what_users_write_is_taken,
	   test_a_trap_is_refused, test_many_names_add_up, test_a_long_pattern_is_cut_in_the_text,
	   test_a_name_that_comes_later_is_not_matched)
