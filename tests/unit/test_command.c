/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: what is printed, what is loaded, and one line for whatever is wrong. Also that the
 * manual names every option.
 */
#include "server/command.h"

#include "unit/config_fixture.h"

#include <stdlib.h>

#include "server/options.h"

#define ARGUMENTS_MAX 16

static struct config config;
static char printed[65536];  // by the last run on stdout
static char complaint[1024]; // on stderr

/* Sends a stream to a file while the command line runs; returns what it was before. */
static int
divert(FILE *stream, const char *name)
{
	int saved = dup(fileno(stream));
	FILE *file = fopen(path_of(name), "w");

	ck_assert_ptr_nonnull(file);
	fflush(stream);
	ck_assert_int_ge(dup2(fileno(file), fileno(stream)), 0);
	fclose(file);
	return saved;
}

static void
restore(FILE *stream, int saved, const char *name, char *out, size_t room)
{
	FILE *file = fopen(path_of(name), "r");
	size_t n;

	fflush(stream);
	ck_assert_int_ge(dup2(saved, fileno(stream)), 0);
	close(saved);
	ck_assert_ptr_nonnull(file);
	n = fread(out, 1, room - 1, file);
	out[n] = '\0';
	fclose(file);
}

/* Runs it with arguments ended by NULL. */
static int
run(const char *const arguments[])
{
	static char words[ARGUMENTS_MAX][256];
	char *argv[ARGUMENTS_MAX + 2] = {words[0]};
	int saved_out = divert(stdout, "out");
	int saved_err = divert(stderr, "err");
	int argc = 1;
	int status;

	snprintf(words[0], sizeof(words[0]), "pannierd");
	for (; arguments[argc - 1] != NULL; argc++) {
		snprintf(words[argc], sizeof(words[argc]), "%s", arguments[argc - 1]);
		argv[argc] = words[argc];
	}
	status = command_line(argc, argv, &config);
	restore(stdout, saved_out, "out", printed, sizeof(printed));
	restore(stderr, saved_err, "err", complaint, sizeof(complaint));
	return status;
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

START_TEST(test_command_loads_what_it_names)
{
	const char *path = write_file("main.conf", "heartbeat = 7\nchannel_max = 8\n");

	ck_assert_int_eq(RUN("-c", path, "-D", "/d", "--set", "heartbeat=9", "--set",
			     "default_pass = a=b#c"),
			 COMMAND_RUN);
	ck_assert_str_eq(complaint, "");
	ck_assert_uint_eq(config.heartbeat_s, 9);
	ck_assert_uint_eq(config.channel_max, 8);
	ck_assert_str_eq(config.data_dir, "/d");
	ck_assert_str_eq(config.default_pass, "a=b#c");
	config_free(&config);
}
END_TEST

START_TEST(test_command_takes_the_file_of_the_environment)
{
	write_file("rabbitmq.conf", "heartbeat = 7\n");
	setenv("RABBITMQ_CONFIG_FILE", path_of("rabbitmq"), 1);
	ck_assert_int_eq(RUN("-D", "/d"), COMMAND_RUN);
	ck_assert_uint_eq(config.heartbeat_s, 7);
	config_free(&config);
	ck_assert_int_eq(RUN("-c", write_file("other.conf", "heartbeat = 8\n")), COMMAND_RUN);
	ck_assert_uint_eq(config.heartbeat_s, 8);
	config_free(&config);
	setenv("RABBITMQ_CONFIG_FILE", path_of("none"), 1);
	ck_assert_int_eq(RUN("-D", "/d"), 1);
	ck_assert_ptr_nonnull(strstr(complaint, "No such file"));
}
END_TEST

START_TEST(test_command_prints_what_is_asked_for)
{
	ck_assert_int_eq(RUN("--version"), 0);
	ck_assert_str_eq(printed, "pannierd " PACKAGE_VERSION "\n");
	ck_assert_int_eq(RUN("--help"), 0);
	ck_assert_int_eq(strncmp(printed, "usage: pannierd ", 16), 0);
	ck_assert_int_eq(RUN("-h"), 0);
	ck_assert_int_eq(RUN("--options"), 0);
	ck_assert_str_eq(complaint, "");
	for (size_t i = 0; i < option_row_count; i++) {
		ck_assert_ptr_nonnull(strstr(printed, option_rows[i].key));
		ck_assert_ptr_nonnull(strstr(printed, option_rows[i].help));
	}
	ck_assert_ptr_nonnull(
		strstr(printed, "heartbeat\n    integer 0 to 65535; default 60\n    Seconds"));
}
END_TEST

START_TEST(test_command_errors_are_one_line)
{
	static const struct {
		const char *arguments[4];
		const char *line;
	} rows[] = {
		{{"--nonsense"}, "pannierd: unknown option --nonsense; try pannierd --help\n"},
		{{"-x"}, "pannierd: unknown option -x; try pannierd --help\n"},
		{{"-c"}, "pannierd: -c needs a value; try pannierd --help\n"},
		{{"--set"}, "pannierd: --set needs a value; try pannierd --help\n"},
		{{"--set", "heartbeat"}, "pannierd: --set heartbeat: KEY=VALUE is expected\n"},
		{{"--set", "=1"}, "pannierd: --set =1: KEY=VALUE is expected\n"},
		{{"more"}, "pannierd: unknown argument more; try pannierd --help\n"},
		{{"--set", "heartbeat=x"}, "pannierd: --set: heartbeat: \"x\" is no integer\n"},
		{{"--set", "hart\nbeat=x"},
		 "pannierd: --set: unknown key hart?beat; did you mean heartbeat?\n"},
		{{"-c", "/none/such.conf"},
		 "pannierd: cannot read /none/such.conf: No such file or directory\n"},
	};

	for (size_t i = 0; i < countof(rows); i++) {
		ck_assert_int_eq(run(rows[i].arguments), 1);
		ck_assert_str_eq(complaint, rows[i].line);
		ck_assert_str_eq(printed, "");
	}
}
END_TEST

/* Reads a file of the source tree. */
static const char *
source(const char *name)
{
	static char text[200000];
	const char *top = getenv("srcdir");
	char path[1024];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", top != NULL ? top : ".", name);
	file = fopen(path, "r");
	ck_assert_msg(file != NULL, "cannot read %s", path);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

START_TEST(test_command_manual_names_every_option)
{
	const char *manual = source("man/pannier.conf.5");

	for (size_t i = 0; i < option_row_count; i++) {
		char heading[160];

		snprintf(heading, sizeof(heading), "\n.It Ic %s\n", option_rows[i].key);
		ck_assert_msg(strstr(manual, heading) != NULL, "%s is not in the manual",
			      option_rows[i].key);
	}
}
END_TEST

START_TEST(test_command_example_is_the_defaults)
{
	const char *path = write_file("example.conf", source("etc/pannier.conf"));

	ck_assert_int_eq(RUN("-c", path), COMMAND_RUN);
	ck_assert_uint_eq(config.settings.count, 0);
	config_free(&config);
}
END_TEST

/* Every line of the example that is commented out is right, and is the default where there is one. */
START_TEST(test_command_example_is_right_without_its_comments)
{
	const char *line = source("etc/pannier.conf");
	static char lines[200000];
	size_t n = 0;

	for (; *line != '\0'; line += strcspn(line, "\n") + 1)
		if (line[0] == '#' && line[1] >= 'a' && line[1] <= 'z')
			n += (size_t)snprintf(lines + n, sizeof(lines) - n, "%.*s\n",
					      (int)strcspn(line + 1, "\n"), line + 1);
	ck_assert_uint_gt(n, 0);
	ck_assert_int_eq(RUN("-c", write_file("example.conf", lines)), COMMAND_RUN);
	for (size_t i = 0; i < config.settings.count; i++) {
		const struct setting *setting = &config.settings.items[i];
		const struct option_row *row = option_find(setting->key, NULL);

		ck_assert_msg(row != NULL, "%s is not known", setting->key);
		if (row->fallback != NULL && strchr(row->key, '*') == NULL)
			ck_assert_msg(strcmp(row->fallback, setting->value) == 0,
				      "%s: %s is not the default %s", setting->key, setting->value,
				      row->fallback);
	}
	ck_assert_uint_eq(config.settings.note_count, 0);
	config_free(&config);
}
END_TEST

TESTS_WITH("command", config_set_up, config_tear_down, test_command_loads_what_it_names,
	   test_command_takes_the_file_of_the_environment, test_command_prints_what_is_asked_for,
	   test_command_errors_are_one_line, test_command_manual_names_every_option,
	   test_command_example_is_the_defaults, test_command_example_is_right_without_its_comments)
