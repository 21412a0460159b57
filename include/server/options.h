/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of options, expanded from options.def: finding the row of a key, putting a text into the
 * configuration, and printing the table. One thread.
 */
#pragma once

#include <stdio.h>

#include "server/config.h"
#include "util/base.h"
#include "util/bytes.h"

/* Longest text about a value. */
#define OPTION_ERROR_MAX 256

enum option_type {
	OPTION_BOOLEAN,	   // true, false, on, off
	OPTION_NUMBER,	   // an integer
	OPTION_LIMIT,	   // an integer, or "infinity": UINT32_MAX
	OPTION_SIZE,	   // bytes, with units
	OPTION_DECIMAL,	   // 0.6
	OPTION_STRING,	   // any text
	OPTION_PATTERN,	   // a regular expression
	OPTION_VERSION,	   // digits and points
	OPTION_WORD,	   // one of a list: its place in it
	OPTION_LEVEL,	   // a level of the log
	OPTION_FLAGS,	   // a list whose elements are words: the bits of their places
	OPTION_LISTENER,   // a list of [address:]port
	OPTION_TEXT,	   // a list of texts
	OPTION_NETWORK,	   // a list of addresses, each with or without /bits
	OPTION_NAME,	   // the key names a member of a set; the value says whether it is one
	OPTION_TAG,	   // the same for user tags
	OPTION_USER,	   // the key names a user; the value is a part of it
	OPTION_USER_LIMIT, // the same for a limit: an integer, negative for none
	OPTION_USER_NONE,  // the same; only "none": it has no permissions
	OPTION_USER_TOPIC, // the key names a user and an exchange; the value is a regular expression
	OPTION_VHOST_PATTERN, // the key names a set of limits; whom they are for
	OPTION_VHOST_LIMIT,   // the same for one of the limits
	OPTION_NONE,	      // only "none": empties the list of the same name
	OPTION_BACKEND	      // only "internal"
};

struct option_row {
	const char *key; // "*" in it stands for any text that is not empty
	enum option_type type;
	size_t offset;	      // of the field in struct config
	size_t size;	      // of the field
	const char *fallback; // the default's text, of lists with blanks between; NULL: nothing
	bool reloadable;
	const char *help; // one sentence
	uint64_t min;	  // of integers and sizes
	uint64_t max;
	const char *words;   // of words and flags, with blanks between
	const char *ignored; // words that RabbitMQ knows and that only get a warning
	size_t part; // of users and limits: offset in struct config_user, config_topic, config_vhost_limits
};

/* A key that is accepted without effect. */
struct option_ignored {
	const char *key; // as above, and everything below it
	bool later;	 // of a feature to come; else it has no meaning here
};

extern const struct option_row option_rows[];
extern const size_t option_row_count;

/* The row of a key, NULL when there is none; star (may be NULL) gets the text of its "*", of two from
 * the beginning of the first to the end of the last. */
const struct option_row *option_find(const char *key, struct bytes *star);
/* NULL when the key is not one of those. */
const struct option_ignored *option_find_ignored(const char *key);
/* The known key that is most like this one. */
const char *option_nearest(const char *key);
/* Puts a text into its field, or adds it to its list. 0; -EINVAL with what is wrong in error
 * (OPTION_ERROR_MAX octets); 1 with a warning in error. */
int option_apply(const struct option_row *row, struct config *config, struct bytes star,
		 const char *value, char *error) MUST_CHECK;
/* Frees what the field holds. */
void option_clear(const struct option_row *row, struct config *config);
/* The whole table for people. */
void options_print(FILE *out);
