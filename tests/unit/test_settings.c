/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: the form of the files (management.md 6.1), ranks, the folder conf.d, the environment.
 */
#include "server/settings.h"

#include "unit/config_fixture.h"

#include <errno.h>

static struct settings settings;

static void
set_up(void)
{
	config_set_up();
	settings_init(&settings);
}

static void
tear_down(void)
{
	settings_fini(&settings);
	config_tear_down();
}

static void
read_text(const char *text)
{
	error[0] = '\0';
	ck_assert_msg(settings_read_text(&settings, "f", bytes_str(text), error) == 0, "%s: %s",
		      text, error);
}

static void
check_value(const char *key, const char *value)
{
	const struct setting *setting = settings_find(&settings, key);

	ck_assert_msg(setting != NULL, "%s is not set", key);
	ck_assert_str_eq(setting->value, value);
}

START_TEST(test_settings_lines_are_read)
{
	read_text("# a comment\n"
		  "\n"
		  "   # another = one\n"
		  "heartbeat = 10\n"
		  "  frame_max=4096   \r\n"
		  "\tchannel_max \t = 5 # behind\n"
		  "default_pass = 'a#b = c'  \n"
		  "default_user = it's me\n"
		  "empty =\n"
		  "last = one");
	check_value("heartbeat", "10");
	check_value("frame_max", "4096");
	check_value("channel_max", "5");
	check_value("default_pass", "a#b = c");
	check_value("default_user", "it's me");
	check_value("empty", "");
	check_value("last", "one");
	ck_assert_uint_eq(settings.count, 7);
	ck_assert_str_eq(settings_find(&settings, "default_pass")->source, "f:7");
}
END_TEST

START_TEST(test_settings_quotes_keep_what_is_inside)
{
	read_text("a = ' b '\nc = ''\nd = 'it's'\n");
	check_value("a", " b ");
	check_value("c", "");
	check_value("d", "it's");
}
END_TEST

START_TEST(test_settings_bad_lines_say_where)
{
	static const struct {
		const char *text;
		const char *error;
	} rows[] = {
		{"\nheartbeat\n", "f:2: a line is \"key = value\", and this one has no ="},
		{"heart # beat = 1", "f:1: a line is \"key = value\", and this one has no ="},
		{"heart beat = 1", "f:1: the key \"heart beat\" has blanks"},
		{" = 1", "f:1: there is no key in front of ="},
		{"a = 'b' # c", "f:1: a value that begins with ' must end with '; no comment may "
				"stand behind it"},
		{"a = '", "f:1: a value that begins with ' must end with '; no comment may stand "
			  "behind it"},
		{"a = encrypted:xyz", "f:1: a: encrypted values cannot be read"},
		{"a = $(", "f:1: $( begins the name of a variable, which ends with )"},
		{"a = $()", "f:1: $( begins the name of a variable, which ends with )"},
		{"a = $(PANNIER_NOT_SET)",
		 "f:1: the environment variable PANNIER_NOT_SET is not set"},
		{"%% -*- erlang -*-\n [{rabbit, []}].",
		 "f: this is Erlang's form (advanced.config), which cannot be read; write \"key = "
		 "value\" lines as in rabbitmq.conf"},
	};

	for (size_t i = 0; i < countof(rows); i++) {
		ck_assert_int_eq(settings_read_text(&settings, "f", bytes_str(rows[i].text), error),
				 -EINVAL);
		ck_assert_str_eq(error, rows[i].error);
	}
	ck_assert_int_eq(settings_read_text(&settings, "f", BYTES("a = b\0c"), error), -EINVAL);
	ck_assert_str_eq(error, "f:1: there is a NUL in the line");
}
END_TEST

START_TEST(test_settings_long_lines_are_refused)
{
	static char text[70000];

	memset(text, 'a', sizeof(text) - 1);
	ck_assert_int_eq(settings_read_text(&settings, "f", bytes_str(text), error), -EINVAL);
	text[0] = '#';
	read_text(text);
}
END_TEST

START_TEST(test_settings_variables_are_replaced_before_parsing)
{
	setenv("PANNIER_A", "10", 1);
	setenv("PANNIER_B", "key = value", 1);
	read_text("heartbeat = $(PANNIER_A)\n"
		  "x = a$(PANNIER_A)b$(PANNIER_A)$\n"
		  "y = '$(PANNIER_A)#'\n"
		  "z = $PANNIER_A $\n"
		  "$(PANNIER_B)\n"
		  "# $(PANNIER_NOT_SET)\n");
	check_value("heartbeat", "10");
	check_value("x", "a10b10$");
	check_value("y", "10#");
	check_value("z", "$PANNIER_A $");
	check_value("key", "value");
}
END_TEST

START_TEST(test_settings_later_and_higher_ones_win)
{
	read_text("a = 1\nb = 1\na = 2\n");
	check_value("a", "2");
	settings_set(&settings, SETTING_FLAG, "--set", BYTES("a"), BYTES("3"));
	settings_set(&settings, SETTING_ENVIRONMENT, "E", BYTES("a"), BYTES("4"));
	read_text("a = 5\n");
	check_value("a", "3");
	ck_assert_uint_eq(settings.count, 2);
}
END_TEST

START_TEST(test_settings_are_sorted_by_number)
{
	read_text("l.10 = c\nl.9 = b\nl.1 = a\n");
	settings_sort(&settings);
	ck_assert_str_eq(settings.items[0].key, "l.1");
	ck_assert_str_eq(settings.items[1].key, "l.9");
	ck_assert_str_eq(settings.items[2].key, "l.10");
}
END_TEST

START_TEST(test_settings_folder_is_read_by_name)
{
	const char *path = write_file("main.conf", "a = main\nb = main\nc = main\n");

	write_file("conf.d/10-x.conf", "a = 10\nb = 10\n");
	write_file("conf.d/20-x.conf", "a = 20\n");
	write_file("conf.d/30-x.txt", "a = 30\n");
	write_file("conf.d/.40.conf", "a = 40\n");
	path = path_of("main.conf");
	ck_assert_int_eq(settings_read_file(&settings, path, error), 0);
	check_value("a", "20");
	check_value("b", "10");
	check_value("c", "main");
	write_file("conf.d/50-x.conf", "oops\n");
	ck_assert_int_eq(settings_read_file(&settings, path_of("main.conf"), error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "conf.d/50-x.conf:1: "));
}
END_TEST

START_TEST(test_settings_missing_file_is_named)
{
	char text[CONFIG_ERROR_MAX];
	const char *path = path_of("none.conf");

	snprintf(text, sizeof(text), "cannot read %s: No such file or directory", path);
	ck_assert_int_eq(settings_read_file(&settings, path, error), -EINVAL);
	ck_assert_str_eq(error, text);
	ck_assert_int_eq(settings_read_file(&settings, folder, error), -EINVAL);
}
END_TEST

START_TEST(test_settings_advanced_config_is_refused)
{
	write_file("main.conf", "a = 1\n");
	write_file("advanced.config", "%% nothing\n[\n].\n");
	ck_assert_int_eq(settings_read_file(&settings, path_of("main.conf"), error), 0);
	write_file("advanced.config", "[{rabbit, [{tcp_listeners, []}]}].\n");
	ck_assert_int_eq(settings_read_file(&settings, path_of("main.conf"), error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "advanced.config: this is Erlang's form"));
	setenv("RABBITMQ_ADVANCED_CONFIG_FILE", path_of("advanced.config"), 1);
	ck_assert_int_eq(settings_read_environment(&settings, error), -EINVAL);
}
END_TEST

START_TEST(test_settings_environment_of_the_image)
{
	setenv("RABBITMQ_DEFAULT_USER", "u", 1);
	setenv("RABBITMQ_DEFAULT_PASS", "p", 1);
	setenv("RABBITMQ_DEFAULT_VHOST", "v", 1);
	setenv("RABBITMQ_NODENAME", "rabbit@h", 1);
	setenv("RABBITMQ_NODE_PORT", "", 1);
	ck_assert_int_eq(settings_read_environment(&settings, error), 0);
	check_value("default_user", "u");
	check_value("default_pass", "p");
	check_value("default_vhost", "v");
	check_value("node_name", "rabbit@h");
	ck_assert_ptr_null(settings_find(&settings, "listeners.tcp.default"));
}
END_TEST

START_TEST(test_settings_environment_names_secrets)
{
	setenv("RABBITMQ_DEFAULT_PASS_FILE", write_file("pass", "se#cret\n"), 1);
	ck_assert_int_eq(settings_read_environment(&settings, error), 0);
	check_value("default_pass", "se#cret");
	setenv("RABBITMQ_DEFAULT_USER_FILE", path_of("none"), 1);
	ck_assert_int_eq(settings_read_environment(&settings, error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "RABBITMQ_DEFAULT_USER_FILE: cannot read "));
	setenv("RABBITMQ_DEFAULT_USER_FILE", write_file("empty", ""), 1);
	ck_assert_int_eq(settings_read_environment(&settings, error), -EINVAL);
}
END_TEST

START_TEST(test_settings_environment_makes_a_listener)
{
	static const struct {
		const char *port, *address, *listener;
	} rows[] = {
		{"5673", "", "5673"},
		{"5673", "127.0.0.1", "127.0.0.1:5673"},
		{"", "127.0.0.1", "127.0.0.1:5672"},
		{"5673", "::1", "[::1]:5673"},
		{"5673", "[::1]", "[::1]:5673"},
	};

	for (size_t i = 0; i < countof(rows); i++) {
		setenv("RABBITMQ_NODE_PORT", rows[i].port, 1);
		setenv("RABBITMQ_NODE_IP_ADDRESS", rows[i].address, 1);
		ck_assert_int_eq(settings_read_environment(&settings, error), 0);
		check_value("listeners.tcp.default", rows[i].listener);
	}
}
END_TEST

TESTS_WITH("settings", set_up, tear_down, test_settings_lines_are_read,
	   test_settings_quotes_keep_what_is_inside, test_settings_bad_lines_say_where,
	   test_settings_long_lines_are_refused,
	   test_settings_variables_are_replaced_before_parsing,
	   test_settings_later_and_higher_ones_win, test_settings_are_sorted_by_number,
	   test_settings_folder_is_read_by_name, test_settings_missing_file_is_named,
	   test_settings_advanced_config_is_refused, test_settings_environment_of_the_image,
	   test_settings_environment_names_secrets, test_settings_environment_makes_a_listener)
