/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of its own for each test of the configuration, and an environment without the variables
 * that it looks at.
 */
#pragma once

#include "lib/runner.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/config.h"

static char folder[] = "config.XXXXXX";
static char error[CONFIG_ERROR_MAX];

static inline void
config_set_up(void)
{
	static const char *const variables[] = {
		"RABBITMQ_DEFAULT_USER",  "RABBITMQ_DEFAULT_PASS",
		"RABBITMQ_DEFAULT_VHOST", "RABBITMQ_DEFAULT_USER_FILE",
		"RABBITMQ_NODE_PORT",	  "RABBITMQ_DEFAULT_PASS_FILE",
		"RABBITMQ_NODENAME",	  "RABBITMQ_NODE_IP_ADDRESS",
		"RABBITMQ_CONFIG_FILE",	  "RABBITMQ_ADVANCED_CONFIG_FILE",
	};

	for (size_t i = 0; i < countof(variables); i++)
		ck_assert_int_eq(unsetenv(variables[i]), 0);
	error[0] = '\0';
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

static inline void
config_tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	ck_assert_int_eq(system(command), 0);
}

/* The path of a file in the folder; valid for the next 15 calls. */
static inline const char *
path_of(const char *name)
{
	static char paths[16][256];
	static unsigned turn;

	turn = (turn + 1) % countof(paths);
	snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", folder, name);
	return paths[turn];
}

/* Writes a file; a "/" in its name makes the folder in front of it. */
static inline const char *
write_file(const char *name, const char *text)
{
	const char *slash = strchr(name, '/');
	const char *path;
	char sub[64];
	FILE *file;

	if (slash != NULL) {
		snprintf(sub, sizeof(sub), "%.*s", (int)(slash - name), name);
		(void)mkdir(path_of(sub), 0700);
	}
	path = path_of(name);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
	return path;
}
