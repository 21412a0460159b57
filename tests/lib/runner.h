/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of a unit test. One program tests one source file, and is as short as this:
 *
 *	#include "util/map.h"
 *
 *	#include "lib/runner.h"
 *
 *	START_TEST(test_map_finds_what_was_put)
 *	{
 *		...
 *		ck_assert_int_eq(...);
 *	}
 *	END_TEST
 *
 *	TESTS("map", test_map_finds_what_was_put, test_map_doubles)
 *
 * TESTS() defines main(). It takes the name of the suite and then the tests, in order; a test that is
 * written but not listed is an unused variable, which does not compile.
 *
 *	TESTS_WITH("map", set_up, tear_down, test_a, test_b)
 *
 * runs set_up and tear_down in the process of each test, before and after it. A program whose main() has
 * more to do calls run_tests() itself.
 *
 * Each test runs in a process of its own, so that a crash or a leak in one is reported for that one. Its
 * time limit is 60 s (a sanitizer or valgrind may be at work). The environment variables of Check act as
 * always: CK_FORK=no runs all in one process (for a debugger), CK_RUN_CASE, CK_VERBOSITY.
 * A test that awaits a signal is written as an ordinary test that forks and waits for the child.
 */
#pragma once

#include <check.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define RUNNER_TIMEOUT_S 60

/* A number that the environment may give, such as a seed. */
static inline unsigned long long
runner_number(const char *name, unsigned long long otherwise)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* A test does not outlive the program that is stopped at a time limit. */
static inline void
runner_die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Runs the tests, prints a line for each that fails and Check's closing line. Returns main()'s result. */
static inline int
run_tests(const char *name, const TTest *const *tests, size_t n, void (*set_up)(void),
	  void (*tear_down)(void))
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);

	tcase_set_timeout(tcase, RUNNER_TIMEOUT_S);
	tcase_add_checked_fixture(tcase, runner_die_with_parent, NULL);
	if (set_up || tear_down)
		tcase_add_checked_fixture(tcase, set_up, tear_down);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(tcase, tests[i]);
	suite_add_tcase(suite, tcase);

	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	/* No test run is a failure too: a list emptied by mistake must not pass. */
	int bad = srunner_ntests_failed(runner) > 0 || srunner_ntests_run(runner) == 0;
	srunner_free(runner);
	return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define TESTS_WITH(suite_name, set_up, tear_down, ...)                                         \
	int main(void)                                                                         \
	{                                                                                      \
		const TTest *const tests_[] = {__VA_ARGS__};                                   \
		return run_tests(suite_name, tests_, sizeof tests_ / sizeof tests_[0], set_up, \
				 tear_down);                                                   \
	}

#define TESTS(suite_name, ...) TESTS_WITH(suite_name, NULL, NULL, __VA_ARGS__)
