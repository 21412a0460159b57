/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only server/ sees: a text on its way into its option. One thread.
 */
#pragma once

#include "server/options.h"

/* One text on its way into one field. */
struct target {
	const struct option_row *row; // what it is
	struct config *config;	      // whose field it is
	void *field;		      // in config
	struct bytes star;	      // what the key has for "*"
	const char *value;	      // the text
	char *error;		      // OPTION_ERROR_MAX octets
};

/* ---- option_value.c ---- */

/* Says in target->error what is wrong; -EINVAL. */
int refuse_value(const struct target *target, const char *format, ...) PRINTF_LIKE(2, 3);
/* 0, or -EINVAL when the value is no regular expression. */
int check_pattern(const struct target *target) MUST_CHECK;
/* 0, or -EINVAL when the value is another text than wanted or its alias. */
int check_exact(const struct target *target, const char *wanted, const char *alias) MUST_CHECK;
/* The value as a limit: an integer, or -1 for any negative one and for "infinity". */
int parse_limit(const struct target *target, int64_t *limit) MUST_CHECK;

/* ---- options.c ---- */

/* Cuts what a key has from the first "*" of the pattern to the second one; false when the text between
 * the two is not in it, with something on both sides. */
bool option_split_star(const char *pattern, struct bytes star, struct bytes *first,
		       struct bytes *second);

/* ---- option_member.c: users and sets of limits ---- */

/* Puts the value into its part of what the key names. 0 or -EINVAL. */
int set_user(const struct target *target) MUST_CHECK;
int set_user_limit(const struct target *target) MUST_CHECK;
int set_user_none(const struct target *target) MUST_CHECK;
int set_user_topic(const struct target *target) MUST_CHECK;
int set_vhost_pattern(const struct target *target) MUST_CHECK;
int set_vhost_limit(const struct target *target) MUST_CHECK;
void clear_users(struct config_users *users);
void clear_vhost_limits(struct config_limits *limits);
