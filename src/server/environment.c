/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables of RabbitMQ's image that say the same here (management.md 6.3). They win over files.
 */
#include "server/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/config.h"

/* Variables that are a key, as they stand or from the file that they name. */
static const struct {
	const char *name; // of the variable
	const char *key;  // that it sets
	bool names_file;  // its text is the path of a file that holds the value
} variables[] = {
	{"RABBITMQ_DEFAULT_USER_FILE", "default_user", true},
	{"RABBITMQ_DEFAULT_PASS_FILE", "default_pass", true},
	{"RABBITMQ_DEFAULT_USER", "default_user", false},
	{"RABBITMQ_DEFAULT_PASS", "default_pass", false},
	{"RABBITMQ_DEFAULT_VHOST", "default_vhost", false},
	{"RABBITMQ_NODENAME", "node_name", false},
};

/* NULL also when it is empty: compose files set variables to nothing. */
static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The first line of a file, without its end. */
static int
read_secret(const char *name, const char *path, char *out, size_t room, char *error)
{
	FILE *file = fopen(path, "re");
	bool fine = file != NULL && fgets(out, (int)room, file) != NULL;

	if (!fine)
		(void)snprintf(error, CONFIG_ERROR_MAX, "%s: cannot read %s: %s", name, path,
			       file == NULL ? strerror(errno) : "it is empty");
	else
		out[strcspn(out, "\r\n")] = '\0';
	if (file != NULL)
		(void)fclose(file);
	return fine ? 0 : -EINVAL;
}

static void
set(struct settings *settings, const char *source, const char *key, const char *value)
{
	settings_set(settings, SETTING_ENVIRONMENT, source, bytes_str(key), bytes_str(value));
}

/* Port and address make the one plain listener, in place of those of the file: "none" of the file's
 * rank takes those away. */
static void
set_listener(struct settings *settings)
{
	const char *port = variable("RABBITMQ_NODE_PORT");
	const char *address = variable("RABBITMQ_NODE_IP_ADDRESS");
	char text[256];

	if (port == NULL && address == NULL)
		return;
	if (port == NULL)
		port = "5672";
	if (address == NULL)
		(void)snprintf(text, sizeof(text), "%s", port);
	else if (strchr(address, ':') != NULL && address[0] != '[')
		(void)snprintf(text, sizeof(text), "[%s]:%s", address, port);
	else
		(void)snprintf(text, sizeof(text), "%s:%s", address, port);
	settings_set(settings, SETTING_FILE, "environment", BYTES("listeners.tcp"), BYTES("none"));
	set(settings, "RABBITMQ_NODE_PORT", "listeners.tcp.default", text);
}

int
settings_read_environment(struct settings *settings, char *error)
{
	const char *advanced = variable("RABBITMQ_ADVANCED_CONFIG_FILE");
	char secret[1024];

	if (advanced != NULL && settings_refuse_advanced(advanced, error) < 0)
		return -EINVAL;
	for (size_t i = 0; i < countof(variables); i++) {
		const char *value = variable(variables[i].name);

		if (value == NULL)
			continue;
		if (variables[i].names_file) {
			if (read_secret(variables[i].name, value, secret, sizeof(secret), error) <
			    0)
				return -EINVAL;
			value = secret;
		}
		set(settings, variables[i].name, variables[i].key, value);
	}
	set_listener(settings);
	return 0;
}
