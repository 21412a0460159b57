/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies that refuse. A thread has one, for there is never more than one under way: a handler
 * returns it and the caller closes at once. The text goes out in a method argument, which must be
 * UTF-8, whatever a peer's names were made of (amqp.md 1.6, 1.10).
 */
#include "wire/reply.h"

#include "wire/utf8.h"

#include <stdarg.h>
#include <stdio.h>

#define CUT_MARK "..."

static _Thread_local struct reply this_reply;

static const struct reply *refuse_with(enum reply_code code, bool no_ids, const char *format,
				       va_list arguments) PRINTF_LIKE(3, 0);

const char *
reply_name(enum reply_code code)
{
	switch (code) {
#define REPLY(name, code, closes) \
	case name:                \
		return #name;
#include "wire/replies.def"
	default:
		return "UNKNOWN";
	}
}

static enum reply_closes
reply_closes(enum reply_code code)
{
	switch (code) {
#define REPLY(name, code, closes) \
	case name:                \
		return REPLY_CLOSES_##closes;
#include "wire/replies.def"
	default:
		return REPLY_CLOSES_CONNECTION;
	}
}

/* Copies n octets of text to out, cut as RabbitMQ cuts when they are too many for a shortstr. */
static void
set_text(char *out, const char *text, size_t n)
{
	if (n > REPLY_TEXT_MAX) {
		n = utf8_cut(text, REPLY_TEXT_MAX - strlen(CUT_MARK));
		memcpy(out, text, n);
		memcpy(out + n, CUT_MARK, sizeof(CUT_MARK));
		return;
	}
	memcpy(out, text, n);
	out[n] = '\0';
}

static const struct reply *
refuse_with(enum reply_code code, bool no_ids, const char *format, va_list arguments)
{
	char text[2 * REPLY_TEXT_MAX]; /* long enough to see that it must be cut */
	int name_length = snprintf(text, sizeof(text), "%s - ", reply_name(code));
	size_t room = sizeof(text) - (size_t)name_length;
	int length = vsnprintf(text + name_length, room, format, arguments);
	size_t n = (size_t)name_length;

	assert(length >= 0);
	n += (size_t)length < room ? (size_t)length : room - 1;
	if (length == 0)
		n = strlen(reply_name(code));
	utf8_mend(text, n);
	this_reply.code = code;
	this_reply.closes = reply_closes(code);
	this_reply.no_ids = no_ids;
	set_text(this_reply.text, text, n);
	return &this_reply;
}

const struct reply *
refuse(enum reply_code code, const char *format, ...)
{
	const struct reply *reply;
	va_list arguments;

	va_start(arguments, format);
	reply = refuse_with(code, false, format, arguments);
	va_end(arguments);
	return reply;
}

const struct reply *
refuse_no_ids(enum reply_code code, const char *format, ...)
{
	const struct reply *reply;
	va_list arguments;

	va_start(arguments, format);
	reply = refuse_with(code, true, format, arguments);
	va_end(arguments);
	return reply;
}
