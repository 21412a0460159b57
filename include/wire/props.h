/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content header of class basic: body size and properties, expanded from props.def. Views borrow
 * from the bytes decoded. Pure; any thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"
#include "wire/cursor.h"

/* Index of each property in wire order. */
enum property_index {
#define PROPERTY(type, name) PROPERTY_INDEX_##name,
#include "wire/props.def"
	PROPERTY_COUNT
};

/* PROPERTY_headers and so on: the flag bit of each. */
enum property_flag {
#define PROPERTY(type, name) PROPERTY_##name = 0x8000 >> PROPERTY_INDEX_##name,
#include "wire/props.def"
};

#define PROPERTY_FIELD_SHORTSTR struct bytes
#define PROPERTY_FIELD_TABLE struct bytes
#define PROPERTY_FIELD_OCTET uint8_t
#define PROPERTY_FIELD_TIMESTAMP uint64_t

struct basic_properties {
	uint16_t flags; // which of the fields below are there; the two low bits are zero
	char bad_type;	// after a failed decode: the letter that nobody knows in headers, else 0
#define PROPERTY(type, name) PROPERTY_FIELD_##type name;
#include "wire/props.def"
};

/* Class 60, weight, body size, flags: what every content header begins with. */
#define CONTENT_HEADER_FIXED 14

struct content_header {
	uint16_t class_id;
	uint16_t weight;
	uint64_t body_size;	 // octets that the body frames will carry in all
	struct bytes properties; // flags and values, as received; borrows
};

/* Decodes the fixed part; false when the payload is shorter than that. */
bool content_header_decode(struct content_header *header, struct bytes payload) MUST_CHECK;
/* Decodes flags and values; all of the bytes must be used up, the headers table must be valid. What
 * is absent is zero. No string is checked for UTF-8 (amqp.md 1.6). */
bool properties_decode(struct basic_properties *properties, struct bytes encoded) MUST_CHECK;
/* Writes flags and the values whose flags are set. */
void properties_encode(const struct basic_properties *properties, struct writer *w);
/* Writes a whole header frame payload. */
void content_header_encode(const struct basic_properties *properties, uint64_t body_size,
			   struct writer *w);
