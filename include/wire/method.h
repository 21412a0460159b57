/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods as structs: everything here is expanded from methods.def. A decoded method borrows its
 * strings and tables from the bytes it was decoded from. Pure; any thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"
#include "wire/cursor.h"

/* struct basic_publish and so on: one per method, with its fields. */
#define OCTET(field) uint8_t field;
#define SHORT(field) uint16_t field;
#define LONG(field) uint32_t field;
#define LONGLONG(field) uint64_t field;
#define SHORTSTR(field) struct bytes field;
#define LONGSTR(field) struct bytes field;
#define BIT(field) bool field;
#define TABLE(field) struct bytes field; // the entries, without their length
#define NOTHING char nothing;		 // C has no empty struct
#define METHOD(class, class_id, method, method_id, fields) \
	struct class##_##method                            \
	{                                                  \
		fields                                     \
	};
#include "wire/methods.def"

#define METHOD_ID(class_id, method_id) ((uint32_t)(class_id) << 16 | (uint32_t)(method_id))

/* METHOD_basic_publish and so on: class id in the high half, method id in the low one. */
enum method_id {
#define METHOD(class, class_id, method, method_id, fields) \
	METHOD_##class##_##method = METHOD_ID(class_id, method_id),
#include "wire/methods.def"
};

struct method {
	uint32_t id;   // an enum method_id; of an unknown method, the ids as received
	char bad_type; // the letter, after METHOD_BAD_TABLE_TYPE
	union {
#define METHOD(class, class_id, method, method_id, fields) struct class##_##method class##_##method;
#include "wire/methods.def"
	};
};

enum method_result {
	METHOD_OK,
	METHOD_UNKNOWN,	      // no such class or method
	METHOD_MALFORMED,     // arguments too short, octets left over, or tables too deep
	METHOD_BAD_UTF8,      // a shortstr is not UTF-8 (amqp.md 1.6)
	METHOD_BAD_TABLE_TYPE // a table has a type letter that nobody knows
};

/* Decodes the payload of a method frame: class id, method id, arguments. Tables are validated
 * (depth, truncation, type letters). The views in m live as long as payload. Whatever the result,
 * m->id is set (0 when not even the ids are there); the arguments only count after METHOD_OK. */
enum method_result method_decode(struct method *m, struct bytes payload) MUST_CHECK;
/* Writes class id, method id and arguments; w->bad when they do not fit or a shortstr is too long. */
void method_encode(const struct method *m, struct writer *w);
/* "basic.publish"; with the specification's hyphens ("connection.start-ok"); "unknown" else. The
 * string lives as long as the calling thread. */
const char *method_name(uint32_t id);
/* Whether a content header and body follow it (publish, return, deliver, get-ok). */
bool method_has_content(uint32_t id);
