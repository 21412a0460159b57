/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of pannier-perf: what follows from what was given, and what is refused.
 */
#include "perf/options.h"

#include <getopt.h>
#include <stdlib.h>
#include "lib/runner.h"

#define ARGUMENTS_MAX 16

static struct options options;

/* Parses a line of words between blanks. */
static int
parse(const char *line)
{
	static char copy[256];
	char *argv[ARGUMENTS_MAX + 1] = {NULL}, *rest = copy, *word;
	int argc = 0;

	ck_assert_uint_lt(strlen(line), sizeof(copy));
	memcpy(copy, line, strlen(line) + 1);
	while ((word = strsep(&rest, " ")) != NULL && argc < ARGUMENTS_MAX)
		argv[argc++] = word;
	optind = 0; /* getopt starts anew */
	return options_parse(&options, argc, argv);
}

START_TEST(test_one_producer_and_one_consumer_by_default)
{
	ck_assert_int_eq(parse("pannier-perf throughput"), -1);
	ck_assert_uint_eq(options.producers, 1);
	ck_assert_uint_eq(options.consumers, 1);
	ck_assert_uint_eq(options.bindings, 1);
	ck_assert_uint_eq(options.rate, 0);
	ck_assert_int_eq(options.exchange_type, EXCHANGE_DEFAULT);
	ck_assert_uint_eq(options.broker.port, 5672);
}
END_TEST

START_TEST(test_each_queue_has_a_consumer_and_a_binding)
{
	ck_assert_int_eq(parse("pannier-perf throughput --queues=7 --type topic"), -1);
	ck_assert_uint_eq(options.consumers, 7);
	ck_assert_uint_eq(options.bindings, 7);
	ck_assert_int_eq(options.exchange_type, EXCHANGE_TOPIC);
	ck_assert_str_eq(options.exchange, "pannier-perf");
	ck_assert_int_eq(parse("pannier-perf throughput --exchange e"), -1);
	ck_assert_int_eq(options.exchange_type, EXCHANGE_DIRECT);
}
END_TEST

START_TEST(test_latency_has_a_rate)
{
	ck_assert_int_eq(parse("pannier-perf latency"), -1);
	ck_assert_uint_gt(options.rate, 0);
	ck_assert_int_eq(parse("pannier-perf latency --rate 5"), -1);
	ck_assert_uint_eq(options.rate, 5);
}
END_TEST

START_TEST(test_nobody_works_beside_idle_connections)
{
	ck_assert_int_eq(parse("pannier-perf throughput --connections-idle 9 --broker-pid 1"), -1);
	ck_assert_uint_eq(options.producers, 0);
	ck_assert_uint_eq(options.consumers, 0);
	ck_assert_int_eq(parse("pannier-perf throughput --publish-only --auto-ack"), -1);
	ck_assert_uint_eq(options.producers, 1);
	ck_assert_uint_eq(options.consumers, 0);
	ck_assert(options.auto_ack);
}
END_TEST

START_TEST(test_messages_wait)
{
	ck_assert_int_eq(parse("pannier-perf throughput"), -1);
	ck_assert_uint_eq(options_wait(&options)->to, 0);
	ck_assert_int_eq(parse("pannier-perf throughput --expire 1000-60000"), -1);
	ck_assert_uint_eq(options_wait(&options)->from, 1000);
	ck_assert_uint_eq(options_wait(&options)->to, 60000);
	ck_assert(options.dead_letters);
	ck_assert_int_eq(parse("pannier-perf throughput --delay 0-1"), -1);
	ck_assert_uint_eq(options_wait(&options)->to, 1);
	ck_assert(!options.dead_letters);
	ck_assert_int_eq(options.exchange_type, EXCHANGE_DELAYED);
	ck_assert_str_eq(options.exchange, "pannier-perf");
}
END_TEST

START_TEST(test_what_makes_no_sense_is_refused)
{
	static const char *const bad[] = {
		"pannier-perf",
		"pannier-perf sideways",
		"pannier-perf throughput latency",
		"pannier-perf throughput --what",
		"pannier-perf throughput --body",
		"pannier-perf throughput --body x",
		"pannier-perf throughput --body -1",
		"pannier-perf throughput --body 1k",
		"pannier-perf throughput --time -1",
		"pannier-perf throughput --time 0",
		"pannier-perf throughput --queues 0",
		"pannier-perf throughput --queues 3 --consumers 2",
		"pannier-perf throughput --queues 3 --type topic --bindings 2",
		"pannier-perf throughput --type square",
		"pannier-perf throughput --uri localhost",
		"pannier-perf throughput --ack-every 0",
		"pannier-perf throughput --ack-every 300 --prefetch 200",
		"pannier-perf throughput --drain",
		"pannier-perf throughput --key k",
		"pannier-perf throughput --wildcard x",
		"pannier-perf throughput --producers 0",
		"pannier-perf throughput --connections-idle 1",
		"pannier-perf latency --body 8",
		"pannier-perf throughput --reject --auto-ack",
		"pannier-perf throughput --max-length 10",
		"pannier-perf throughput --priorities 256",
		"pannier-perf throughput --expire 5",
		"pannier-perf throughput --expire 5-",
		"pannier-perf throughput --expire -5",
		"pannier-perf throughput --expire 6-5",
		"pannier-perf throughput --expire 0-0",
		"pannier-perf throughput --expire 1-4294967296",
		"pannier-perf throughput --expire 1-2 --delay 1-2",
		"pannier-perf throughput --expire 1-2 --body 8",
		"pannier-perf throughput --expire 1-2 --publish-only",
		"pannier-perf throughput --delay 1-2 --type direct",
		"pannier-perf throughput --delay 1-2 --drain --count 1",
	};

	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(parse(bad[i]) == EXIT_FAILURE, "taken: %s", bad[i]);
}
END_TEST

START_TEST(test_help_and_version_end_well)
{
	ck_assert_int_eq(parse("pannier-perf --help"), EXIT_SUCCESS);
	ck_assert_int_eq(parse("pannier-perf --version"), EXIT_SUCCESS);
}
END_TEST

TESTS("perf options", test_one_producer_and_one_consumer_by_default,
      test_each_queue_has_a_consumer_and_a_binding, test_latency_has_a_rate,
      test_nobody_works_beside_idle_connections, test_messages_wait,
      test_what_makes_no_sense_is_refused, test_help_and_version_end_well)
