/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: keys with their texts, before anything is known about their meaning, each with the place
 * it came from. A key has one text: that of the highest rank, of the last one among equals. The files
 * are of rabbitmq.conf's form (management.md 6.1). One thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

/* What wins over what. */
enum setting_rank {
	SETTING_NONE,	     // not set
	SETTING_FILE,	     // from a file
	SETTING_ENVIRONMENT, // from a variable
	SETTING_FLAG	     // from the command line
};

struct setting {
	char *key;		// owns
	char *value;		// owns
	char *source;		// owns; "FILE:LINE", for error texts
	enum setting_rank rank; // where it came from
};

struct settings {
	struct setting *items; // owns
	size_t count;
	size_t room;	       // capacity
	struct setting *notes; // own; warnings: value and source count
	size_t note_count;
};

void settings_init(struct settings *settings);
void settings_fini(struct settings *settings);
void settings_copy(struct settings *to, const struct settings *from);
/* Copies all three texts. */
void settings_set(struct settings *settings, enum setting_rank rank, const char *source,
		  struct bytes key, struct bytes value);
/* A warning about a place. */
void settings_note(struct settings *settings, const char *source, const char *text);
/* NULL when it was not given. */
const struct setting *settings_find(const struct settings *settings, const char *key);
/* By key, numbers within keys by their value: the order in which lists are built. */
void settings_sort(struct settings *settings);

/* Reads one text of rabbitmq.conf's form. 0, or -EINVAL with "NAME:LINE: ..." in error
 * (CONFIG_ERROR_MAX octets). */
int settings_read_text(struct settings *settings, const char *name, struct bytes text,
		       char *error) MUST_CHECK;
/* -EINVAL with a line in error when there is a file of Erlang's form with anything in it. */
int settings_refuse_advanced(const char *path, char *error) MUST_CHECK;
/* Reads a file, and then the files *.conf of a folder conf.d beside it, by name. An advanced.config
 * beside it is refused. */
int settings_read_file(struct settings *settings, const char *path, char *error) MUST_CHECK;
/* The variables of RabbitMQ's image (management.md 6.3); a file that one of them names must be
 * readable. */
int settings_read_environment(struct settings *settings, char *error) MUST_CHECK;
