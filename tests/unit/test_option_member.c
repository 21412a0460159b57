/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options whose keys name users and sets of limits: what they become, what is taken when nothing is
 * said, and what is refused.
 */
#include "server/options.h"

#include "unit/config_fixture.h"

#include <errno.h>

static struct config config;

static int
load(const char *text)
{
	struct settings flags;
	int status;

	settings_init(&flags);
	status = config_load(&config, write_file("main.conf", text), &flags, error);
	settings_fini(&flags);
	return status;
}

static void
load_well(const char *text)
{
	ck_assert_msg(load(text) == 0, "%s", error);
}

START_TEST(test_member_user_without_limits)
{
	load_well("default_users.app.password = x\n");
	ck_assert_uint_eq(config.users.count, 1);
	ck_assert_int_eq(config.users.items[0].max_connections, -1);
	ck_assert_int_eq(config.users.items[0].max_channels, -1);
	ck_assert(!config.users.items[0].stranger);
	ck_assert_uint_eq(config.users.items[0].topic_count, 0);
	ck_assert_uint_eq(config.vhost_limits.count, 0);
	ck_assert_uint_eq(config.broker.exchange_max, UINT32_MAX);
	config_free(&config);
}
END_TEST

START_TEST(test_member_user_with_limits)
{
	load_well("default_users.a.b.max_connections = 0\ndefault_users.a.b.max_channels = 7\n"
		  "default_users.c.max_connections = -5\ndefault_users.c.max_channels = infinity\n"
		  "cluster_exchange_limit = 9\n");
	ck_assert_uint_eq(config.users.count, 2);
	ck_assert_str_eq(config.users.items[0].name, "a.b");
	ck_assert_int_eq(config.users.items[0].max_connections, 0);
	ck_assert_int_eq(config.users.items[0].max_channels, 7);
	ck_assert_int_eq(config.users.items[1].max_connections, -1);
	ck_assert_int_eq(config.users.items[1].max_channels, -1);
	ck_assert_uint_eq(config.broker.exchange_max, 9);
	config_free(&config);
}
END_TEST

START_TEST(test_member_user_without_permissions)
{
	load_well("default_users.nobody.permissions = none\ndefault_users.nobody.password = x\n");
	ck_assert_uint_eq(config.users.count, 1);
	ck_assert(config.users.items[0].stranger);
	ck_assert_str_eq(config.users.items[0].password, "x");
	config_free(&config);
}
END_TEST

START_TEST(test_member_topic_permissions)
{
	const struct config_user *user;

	load_well("default_users.a.topic_permissions.amq.topic.write = ^{username}\\.\n"
		  "default_users.a.topic_permissions.amq.topic.read = ^r$\n"
		  "default_users.a.topic_permissions.x.write = ^w$\n"
		  "default_users.a.write = ^all$\n");
	ck_assert_uint_eq(config.users.count, 1);
	user = &config.users.items[0];
	ck_assert_str_eq(user->name, "a");
	ck_assert_str_eq(user->patterns[PERMISSION_WRITE], "^all$");
	ck_assert_uint_eq(user->topic_count, 2);
	ck_assert_str_eq(user->topics[0].exchange, "amq.topic");
	ck_assert_str_eq(user->topics[0].write, "^{username}\\.");
	ck_assert_str_eq(user->topics[0].read, "^r$");
	ck_assert_str_eq(user->topics[1].exchange, "x");
	ck_assert_str_eq(user->topics[1].write, "^w$");
	ck_assert_str_eq(user->topics[1].read, ".*");
	config_free(&config);
}
END_TEST

START_TEST(test_member_limits_of_vhosts_are_in_order)
{
	const struct config_limits *limits = &config.vhost_limits;

	load_well(
		"default_limits.vhosts.10.max_queues = 10\ndefault_limits.vhosts.b.max_queues = 0\n"
		"default_limits.vhosts.2.pattern = ^two\ndefault_limits.vhosts.2.max_queues = -1\n"
		"default_limits.vhosts.a.max_connections = 3\n"
		"default_limits.vhosts.10.max_connections = 11\n");
	ck_assert_uint_eq(limits->count, 4);
	ck_assert_str_eq(limits->items[0].name, "2");
	ck_assert_str_eq(limits->items[0].pattern, "^two");
	ck_assert_int_eq(limits->items[0].max_queues, -1);
	ck_assert_int_eq(limits->items[0].max_connections, -1);
	ck_assert_str_eq(limits->items[1].name, "10");
	ck_assert_str_eq(limits->items[1].pattern, ".*");
	ck_assert_int_eq(limits->items[1].max_queues, 10);
	ck_assert_int_eq(limits->items[1].max_connections, 11);
	ck_assert_str_eq(limits->items[2].name, "a");
	ck_assert_int_eq(limits->items[2].max_connections, 3);
	ck_assert_str_eq(limits->items[3].name, "b");
	ck_assert_int_eq(limits->items[3].max_queues, 0);
	config_free(&config);
}
END_TEST

START_TEST(test_member_bad_values_are_refused)
{
	static const struct {
		const char *line;
		const char *error;
	} rows[] = {
		{"default_users.a.max_connections = many", "\"many\" is no integer"},
		{"default_users.a.max_connections = ", "\"\" is no integer"},
		{"default_users.a.max_channels = 1.5", "\"1.5\" is no integer"},
		{"default_users.a.max_channels = --1", "\"--1\" is no integer"},
		{"default_users.a.max_channels = 9223372036854775808", "is out of range"},
		{"default_users.a.permissions = all", "\"all\" cannot be: only none is known here"},
		{"default_users.a.topic_permissions.x.write = (", "is no regular expression"},
		{"default_users.a.topic_permissions.x.configure = .*", "write it like"},
		{"default_users.a.topic_permissions.write = .*", "write it like"},
		{"default_limits.vhosts.1.pattern = [", "is no regular expression"},
		{"default_limits.vhosts.1.max_queues = x", "\"x\" is no integer"},
		{"default_limits.vhosts.1.max_exchanges = 1", "unknown key"},
		{"default_limits.users.1.max_queues = 1", "did you mean default_limits.vhosts.*"},
		{"cluster_exchange_limit = -1", "\"-1\" is no integer"},
	};

	for (size_t i = 0; i < countof(rows); i++) {
		ck_assert_msg(load(rows[i].line) == -EINVAL, "%s was accepted", rows[i].line);
		ck_assert_msg(strstr(error, rows[i].error) != NULL, "\"%s\" is not in \"%s\"",
			      rows[i].error, error);
	}
}
END_TEST

TESTS_WITH("option_member", config_set_up, config_tear_down, test_member_user_without_limits,
	   test_member_user_with_limits, test_member_user_without_permissions,
	   test_member_topic_permissions, test_member_limits_of_vhosts_are_in_order,
	   test_member_bad_values_are_refused)
