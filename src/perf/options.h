/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of pannier-perf: a struct of what options.def lists, filled, checked, and with
 * everything that follows from other options filled in. Strings borrow from argv or are constant.
 */
#pragma once

#include "uri.h"
#include "util/base.h"

enum exchange_type {
	EXCHANGE_DEFAULT, // the one without a name: a key is the name of a queue
	EXCHANGE_DIRECT,
	EXCHANGE_FANOUT,
	EXCHANGE_TOPIC,
	EXCHANGE_HEADERS,
	EXCHANGE_DELAYED // by keys as direct; with --delay only
};

/* Milliseconds, both included; to is 0: not asked for. */
struct range {
	uint64_t from;
	uint64_t to;
};

#define WAIT_DIGITS 10 // of an expiration
#define WAIT_MAX 4294967295ULL

#define OPTION_FIELD_TEXT const char *
#define OPTION_FIELD_NUMBER uint64_t
#define OPTION_FIELD_SECONDS double
#define OPTION_FIELD_FLAG bool
#define OPTION_FIELD_RANGE struct range

struct options {
#define OPTION(kind, field, name, argument, standard, help) OPTION_FIELD_##kind field;
#include "options.def"
	struct uri broker;		  // uri taken apart
	enum exchange_type exchange_type; // type as an enum
	bool latency; // the command is latency: a fixed rate, even if none was given
};

/* Fills options. Returns -1 when the program shall go on; else its exit status: help or version were
 * asked for and printed, or something is wrong and one line on stderr says what. */
int options_parse(struct options *options, int argc, char **argv) MUST_CHECK;
/* How long each message waits before it is delivered, when it does. */
static inline const struct range *
options_wait(const struct options *options)
{
	return options->delay.to != 0 ? &options->delay : &options->expire;
}

/* "direct" and so on; empty for the default exchange. */
const char *exchange_type_name(enum exchange_type type);
