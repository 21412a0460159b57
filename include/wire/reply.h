/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reply codes, expanded from replies.def, and the refusal that a handler returns when the peer is at
 * fault. Whoever returns a reply does not close anything: one place in session/ does.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

enum reply_code {
#define REPLY(name, code, closes) name = code,
#include "wire/replies.def"
};

enum reply_closes {
	REPLY_CLOSES_NOTHING,
	REPLY_CLOSES_CHANNEL,	// soft error
	REPLY_CLOSES_CONNECTION // hard error
};

#define REPLY_TEXT_MAX 255

/* text is one shortstr: cut on a UTF-8 boundary, with "..." as RabbitMQ cuts. */
struct reply {
	enum reply_code code;
	enum reply_closes closes;      // by the table; authentication makes a soft error a hard one
	bool no_ids;		       // class and method id are sent as 0/0 (amqp.md 1.10)
	char text[REPLY_TEXT_MAX + 1]; // "NOT_FOUND - no queue 'q' in vhost '/'"
};

/* Fills this thread's one reply, valid until its next call. The text gets "NAME - " in front; it is
 * the name alone when the format yields nothing. Octets that are no UTF-8 become "?". */
const struct reply *refuse(enum reply_code code, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same with ids 0/0. */
const struct reply *refuse_no_ids(enum reply_code code, const char *format, ...) PRINTF_LIKE(2, 3);
/* "NOT_FOUND"; "UNKNOWN" for a number that is no code. */
const char *reply_name(enum reply_code code);
