/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field tables with RabbitMQ's type letters (amqp.md 1.8; 0-9-1: 4.2.5.5 as errata have it). A table
 * is a view of its entries without the length in front. It is validated once; after that iterating
 * and looking up cannot fail. Duplicate keys pass; the first one wins on look-up. Nothing is
 * allocated but by table_equal and field_equal; any thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"
#include "wire/cursor.h"

/* Tables and arrays within each other at most; the outermost table counts. */
#define FIELD_DEPTH_MAX 64

enum field_result {
	FIELD_OK,
	FIELD_TRUNCATED,    // a length passes the end
	FIELD_UNKNOWN_TYPE, // a letter that is not in the table of types
	FIELD_TOO_DEEP	    // more than FIELD_DEPTH_MAX
};

/* What a value is when its width on the wire does not matter. */
enum field_class {
	FIELD_BOOLEAN,	 // t
	FIELD_INTEGER,	 // b B s U u I i l L
	FIELD_FLOAT,	 // f d
	FIELD_DECIMAL,	 // D
	FIELD_STRING,	 // S x
	FIELD_TIMESTAMP, // T
	FIELD_TABLE,	 // F
	FIELD_ARRAY,	 // A
	FIELD_VOID	 // V
};

struct field {
	struct bytes name;	// empty inside an array
	char type;		// the letter
	enum field_class class; // decides which of the next three counts
	int64_t integer;	// FIELD_INTEGER, FIELD_BOOLEAN (0, 1), FIELD_TIMESTAMP (seconds)
	double number;		// FIELD_FLOAT
	struct bytes bytes; // FIELD_STRING, FIELD_TABLE and FIELD_ARRAY (content without length);
			    // FIELD_DECIMAL: its 5 octets
	struct bytes raw;   // letter and value as encoded
};

struct field_iterator {
	struct reader reader;
	bool array; // values have no names
};

/* Checks entries (a table) whole, nested ones too. bad_type (may be NULL) gets the letter of
 * FIELD_UNKNOWN_TYPE. */
enum field_result table_validate(struct bytes entries, char *bad_type) MUST_CHECK;

/* Both need validated content, which they borrow while iterating. */
struct field_iterator table_iterate(struct bytes entries);
struct field_iterator array_iterate(struct bytes values);
/* False at the end. */
bool field_next(struct field_iterator *iterator, struct field *field);
/* The first entry of that name; false when there is none. */
bool table_find(struct bytes entries, struct bytes name, struct field *field);
size_t table_count(struct bytes entries);

/* Equal by value: integers of all widths and signs are one class, S and x are one; an integer never
 * equals a float or a string; tables by name, arrays in order (amqp.md 5.7, 6.3). */
bool field_equal(const struct field *a, const struct field *b);
/* The same entries in any order: name, type and value (identity of a binding, amqp.md 5.5). Both
 * take n log n; tables of more than 32 entries that are not the same octets need memory for that. */
bool table_equal(struct bytes a, struct bytes b);

/* RabbitMQ's name of a type letter in its error texts: "longstr", "signedint", "bool", ...; "unknown"
 * for a letter that is none. */
const char *field_type_name(char type);
/* Prints the value as RabbitMQ's error texts do: strings bare, integers decimal, booleans true/false,
 * tables and arrays in Erlang's form; cut with "..." when out (room octets, 4 or more) is too small.
 * Returns out. */
const char *field_print(const struct field *field, char *out, size_t room);

/* Building: each adds one entry to w, which turns bad when it does not fit. */
void table_put_bool(struct writer *w, struct bytes name, bool value);
void table_put_int(struct writer *w, struct bytes name, int32_t value);		 // I
void table_put_long(struct writer *w, struct bytes name, int64_t value);	 // l
void table_put_string(struct writer *w, struct bytes name, struct bytes value);	 // S
void table_put_timestamp(struct writer *w, struct bytes name, uint64_t seconds); // T
/* Any value as it was decoded, but U as I and L as l, within tables and arrays too: what clients of
 * RabbitMQ know (amqp.md 1.8). */
void table_put_field(struct writer *w, struct bytes name, const struct field *field);
/* All entries of a validated table in that way, in their order. */
void table_put_entries(struct writer *w, struct bytes entries);
/* A nested table F or array A under that name; returns where its length goes (NULL when w is bad),
 * for table_end, which closes either. */
uint8_t *table_begin(struct writer *w, struct bytes name);
uint8_t *array_begin(struct writer *w, struct bytes name);
void table_end(struct writer *w, uint8_t *begun);
/* Values of an array, which have no name: a string, any value (as table_put_field), a table. */
void array_put_string(struct writer *w, struct bytes value);
void array_put_field(struct writer *w, const struct field *field);
uint8_t *array_table_begin(struct writer *w); // closed by table_end
