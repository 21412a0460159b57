/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the command line.
 */
#pragma once

#include "ctl.h"

struct ctl_command {
	const char *noun;
	const char *verb;
	const char *operand; // behind the options; "": none
	const char *line;
	const char *help;
	int (*run)(const struct ctl_arguments *arguments);
};

#define CTL_RUN (-1) // not an exit status: the command is to run

/* Reads argv. CTL_RUN with *command and *arguments; or the exit status, after --help, --version or one line on
 * stderr. */
int ctl_arguments_read(int argc, char **argv, const struct ctl_command **command,
		       struct ctl_arguments *arguments) MUST_CHECK;
