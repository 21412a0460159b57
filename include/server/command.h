/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of pannierd. One thread, at the start.
 */
#pragma once

#include "server/config.h"

/* Not an exit status: the broker is to run. */
#define COMMAND_RUN (-1)

/* Reads the command line and the configuration. Returns COMMAND_RUN with *config loaded, or the exit
 * status: 0 after --help, --version and --options, 1 after one line on stderr. */
int command_line(int argc, char **argv, struct config *config);
