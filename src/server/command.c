/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: options into settings of the highest rank, then everything is loaded. Whatever is
 * wrong is one line on stderr.
 */
#include "server/command.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/options.h"
#include "util/mem.h"

#define PROGRAM "pannierd"

static const char help[] =
	"usage: " PROGRAM " [-c FILE] [-D DIR] [--set KEY=VALUE]...\n"
	"\n"
	"An AMQP 0-9-1 broker.\n"
	"\n"
	"  -c, --config FILE    read this file; also FILE's neighbours conf.d/*.conf\n"
	"  -D, --data DIR       keep data in this folder (the same as --set data_dir=DIR)\n"
	"      --set KEY=VALUE  set one option; wins over file and environment\n"
	"      --options        print every option with type, default and meaning\n"
	"      --version        print the version\n"
	"  -h, --help           print this\n"
	"\n"
	"Without -c the file of $RABBITMQ_CONFIG_FILE is read when that is set, else none.\n";

enum command_option {
	COMMAND_SET = 256,
	COMMAND_OPTIONS,
	COMMAND_VERSION
};

static const struct option long_options[] = {
	{"config", required_argument, NULL, 'c'},
	{"data", required_argument, NULL, 'D'},
	{"set", required_argument, NULL, COMMAND_SET},
	{"options", no_argument, NULL, COMMAND_OPTIONS},
	{"version", no_argument, NULL, COMMAND_VERSION},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* What the command line says. */
struct command {
	const char *file;      // of -c; borrows from argv; NULL: not given
	struct settings flags; // of -D and --set
};

static int complain(const char *format, ...) PRINTF_LIKE(1, 2);

static int
complain(const char *format, ...)
{
	char line[CONFIG_ERROR_MAX];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	for (char *p = line; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	(void)fprintf(stderr, PROGRAM ": %s\n", line);
	return EXIT_FAILURE;
}

static int
add_setting(struct command *command, const char *text)
{
	const char *equals = strchr(text, '=');
	size_t end = equals != NULL ? (size_t)(equals - text) : 0;
	const char *value = equals != NULL ? equals + 1 : "";

	if (end == 0)
		return complain("--set %s: KEY=VALUE is expected", text);
	while (end > 0 && text[end - 1] == ' ')
		end--;
	value += strspn(value, " ");
	settings_set(&command->flags, SETTING_FLAG, "--set", bytes_of(text, end), bytes_str(value));
	return COMMAND_RUN;
}

/* Everything that was asked for was printed. */
static int
end_of_output(void)
{
	return fflush(stdout) == 0 ? EXIT_SUCCESS : complain("stdout: %s", strerror(errno));
}

static int
take_option(struct command *command, int option, char **argv)
{
	switch (option) {
	case 'c':
		command->file = optarg;
		return COMMAND_RUN;
	case 'D':
		settings_set(&command->flags, SETTING_FLAG, "-D", BYTES("data_dir"),
			     bytes_str(optarg));
		return COMMAND_RUN;
	case COMMAND_SET:
		return add_setting(command, optarg);
	case COMMAND_OPTIONS:
		options_print(stdout);
		return end_of_output();
	case COMMAND_VERSION:
		(void)printf(PROGRAM " " PACKAGE_VERSION "\n");
		return end_of_output();
	case 'h':
		(void)fputs(help, stdout);
		return end_of_output();
	case ':':
		return complain("%s needs a value; try " PROGRAM " --help", argv[optind - 1]);
	default:
		/* Of several short options in one word, only the letter is known. */
		if (optopt > 0 && optopt < COMMAND_SET && argv[optind - 1][1] != '-')
			return complain("unknown option -%c; try " PROGRAM " --help", optopt);
		return complain("unknown option %s; try " PROGRAM " --help", argv[optind - 1]);
	}
}

static int
parse_arguments(struct command *command, int argc, char **argv)
{
	int status = COMMAND_RUN;
	int option;

	optind = 0; /* from the start, also in a second call */
	opterr = 0;
	while (status == COMMAND_RUN &&
	       (option = getopt_long(argc, argv, ":c:D:h", long_options, NULL)) != -1)
		status = take_option(command, option, argv);
	if (status == COMMAND_RUN && optind < argc)
		return complain("unknown argument %s; try " PROGRAM " --help", argv[optind]);
	return status;
}

/* The file of the environment, whose ending may be missing. */
static char *
file_of_environment(void)
{
	const char *name = getenv("RABBITMQ_CONFIG_FILE");
	char path[4096];

	if (name == NULL || name[0] == '\0')
		return NULL;
	(void)snprintf(path, sizeof(path), "%s.conf", name);
	return xstrdup(access(name, F_OK) != 0 && access(path, F_OK) == 0 ? path : name);
}

int
command_line(int argc, char **argv, struct config *config)
{
	struct command command = {.file = NULL};
	char error[CONFIG_ERROR_MAX];
	char *fallback = NULL;
	int status;

	settings_init(&command.flags);
	status = parse_arguments(&command, argc, argv);
	if (status == COMMAND_RUN) {
		fallback = command.file == NULL ? file_of_environment() : NULL;
		if (config_load(config, command.file != NULL ? command.file : fallback,
				&command.flags, error) < 0)
			status = complain("%s", error);
	}
	xfree(fallback);
	settings_fini(&command.flags);
	return status;
}
