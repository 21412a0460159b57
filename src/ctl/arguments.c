/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: noun, verb, options, operand. commands.def and options.def say what there is; help is made of
 * the same.
 */
#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>

#include "util/mem.h"

static const struct ctl_command commands[] = {
#define COMMAND(noun, verb, operand, line, help) {#noun, #verb, operand, line, help, noun##_##verb},
#include "commands.def"
#undef COMMAND
};

struct option_spec {
	const char *name;
	int letter;
	const char *argument; // NULL: a flag
	const char *verbs;
	const char *help;
};

static const struct option_spec specs[CTL_OPTIONS] = {
#define OPTION(name, long_form, short_form, argument, verbs, help) \
	[CTL_##name] = {long_form, short_form, argument, verbs, help},
#include "options.def"
#undef OPTION
};

/* What getopt returns for option i. */
#define VALUE_BASE 256
#define VALUE_HELP 'h'

int
ctl_complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)fputs(CTL_PROGRAM ": ", stderr);
	(void)vfprintf(stderr, format, arguments);
	(void)fputc('\n', stderr);
	va_end(arguments);
	return CTL_USAGE;
}

int
ctl_end_output(FILE *out, const char *name, int status)
{
	if (fflush(out) == 0 && !ferror(out))
		return status;
	ctl_complain("%s: %s", name, strerror(errno));
	return CTL_DAMAGED;
}

/* ---- help ---- */

static bool
takes(const struct ctl_command *command, const struct option_spec *spec)
{
	size_t n = strlen(command->verb);

	for (const char *p = spec->verbs; (p = strstr(p, command->verb)) != NULL; p += n)
		if ((p == spec->verbs || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
			return true;
	return false;
}

static int
help_all(void)
{
	(void)printf("usage: " CTL_PROGRAM " NOUN VERB [OPTION]...\n\n");
	for (size_t i = 0; i < countof(commands); i++)
		(void)printf("  %s %-8s %s\n", commands[i].noun, commands[i].verb,
			     commands[i].line);
	(void)printf("\nThe broker must not be running on the store.\n"
		     "  " CTL_PROGRAM " NOUN VERB --help  print the options of a command\n"
		     "  " CTL_PROGRAM " --version         print the version\n\n"
		     "Exit status: 0 done, nothing is damaged; 1 something is damaged; 2 wrong\n"
		     "arguments, or the store cannot be opened.\n");
	return ctl_end_output(stdout, "stdout", CTL_OK);
}

static int
help_command(const struct ctl_command *command)
{
	(void)printf("usage: " CTL_PROGRAM " %s %s [OPTION]...%s%s\n\n%s\n%s\n", command->noun,
		     command->verb, command->operand[0] != '\0' ? " " : "", command->operand,
		     command->line, command->help);
	for (size_t i = 0; i < CTL_OPTIONS; i++) {
		const struct option_spec *spec = &specs[i];
		char form[32];

		if (!takes(command, spec))
			continue;
		(void)snprintf(form, sizeof(form), "--%s%s%s", spec->name,
			       spec->argument != NULL ? " " : "",
			       spec->argument != NULL ? spec->argument : "");
		if (spec->letter != 0)
			(void)printf("  -%c, %-18s %s\n", spec->letter, form, spec->help);
		else
			(void)printf("      %-18s %s\n", form, spec->help);
	}
	(void)printf("  -h, %-18s print this\n", "--help");
	return ctl_end_output(stdout, "stdout", CTL_OK);
}

/* ---- reading ---- */

static int
number(const char *text, const char *name, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
		return ctl_complain("--%s %s: a number is expected", name, text);
	return CTL_RUN;
}

static int
take_numbers(struct ctl_arguments *arguments)
{
	static const enum ctl_option options[] = {CTL_FROM, CTL_TO, CTL_QUEUE_ID};
	uint64_t *const places[] = {&arguments->from, &arguments->to, &arguments->queue_id};
	int status = CTL_RUN;

	for (size_t i = 0; i < countof(options) && status == CTL_RUN; i++)
		if (arguments->values[options[i]] != NULL)
			status = number(arguments->values[options[i]], specs[options[i]].name,
					places[i]);
	return status;
}

/* The options of a command as getopt wants them. */
static void
make_table(const struct ctl_command *command, struct option table[CTL_OPTIONS + 2])
{
	size_t n = 0;

	for (size_t i = 0; i < CTL_OPTIONS; i++) {
		if (!takes(command, &specs[i]))
			continue;
		table[n++] = (struct option){
			.name = specs[i].name,
			.has_arg = specs[i].argument != NULL ? required_argument : no_argument,
			.val = VALUE_BASE + (int)i,
		};
	}
	table[n++] = (struct option){.name = "help", .val = VALUE_HELP};
	table[n] = (struct option){.name = NULL};
}

static int
take_operand(const struct ctl_command *command, int argc, char **argv,
	     struct ctl_arguments *arguments)
{
	bool wants = command->operand[0] != '\0';

	if (optind < argc && wants)
		arguments->operand = argv[optind++];
	if (optind < argc)
		return ctl_complain("unknown argument %s; try %s %s --help", argv[optind],
				    command->noun, command->verb);
	if (wants && arguments->operand == NULL)
		return ctl_complain("%s is missing; try %s %s --help", command->operand,
				    command->noun, command->verb);
	return CTL_RUN;
}

static int
read_options(const struct ctl_command *command, int argc, char **argv,
	     struct ctl_arguments *arguments)
{
	struct option table[CTL_OPTIONS + 2];
	int option;
	int status;

	make_table(command, table);
	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":D:h", table, NULL)) != -1) {
		if (option == VALUE_HELP)
			return help_command(command);
		if (option == ':')
			return ctl_complain("%s needs a value; try %s %s --help", argv[optind - 1],
					    command->noun, command->verb);
		if (option == 'D')
			option = VALUE_BASE + CTL_DIR;
		if (option < VALUE_BASE)
			return ctl_complain("unknown option %s; try %s %s --help", argv[optind - 1],
					    command->noun, command->verb);
		arguments->values[option - VALUE_BASE] = optarg != NULL ? optarg : "";
	}
	status = take_operand(command, argc, argv, arguments);
	if (status == CTL_RUN)
		status = take_numbers(arguments);
	if (arguments->values[CTL_DIR] != NULL)
		arguments->dir = arguments->values[CTL_DIR];
	return status;
}

static const struct ctl_command *
find_command(const char *noun, const char *verb)
{
	for (size_t i = 0; i < countof(commands); i++)
		if (strcmp(commands[i].noun, noun) == 0 && strcmp(commands[i].verb, verb) == 0)
			return &commands[i];
	return NULL;
}

static bool
is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

int
ctl_arguments_read(int argc, char **argv, const struct ctl_command **command,
		   struct ctl_arguments *arguments)
{
	*arguments = (struct ctl_arguments){.dir = CTL_DEFAULT_DIR, .to = UINT64_MAX};
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		(void)printf(CTL_PROGRAM " " PACKAGE_VERSION "\n");
		return ctl_end_output(stdout, "stdout", CTL_OK);
	}
	if (argc > 1 && (is_help(argv[1]) || (argc > 2 && is_help(argv[2]))))
		return help_all();
	if (argc < 3)
		return ctl_complain("a noun and a verb are expected; try " CTL_PROGRAM " --help");
	*command = find_command(argv[1], argv[2]);
	if (*command == NULL)
		return ctl_complain("unknown command %s %s; try " CTL_PROGRAM " --help", argv[1],
				    argv[2]);
	return read_options(*command, argc - 2, argv + 2, arguments);
}
