/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field tables: the table of types, validating, iterating and looking up. Validation walks the
 * octets once, without decoding values; whatever it passed, the iterator reads without a check of
 * its own, and asserts so. Nesting is bounded before it is entered, so recursion is too.
 */
#include "wire/field.h"

#include "internal.h"

#define LETTERS 128

/* U (signed 16 in the specification) is what RabbitMQ does not know; it leaves as I, and so has I's
 * name. L is read like l. (amqp.md 1.8) */
static const struct field_type types[LETTERS] = {
	['t'] = {.name = "bool", .class = FIELD_BOOLEAN, .size = 1},
	['b'] = {.name = "byte", .class = FIELD_INTEGER, .size = 1, .has_sign = true},
	['B'] = {.name = "unsignedbyte", .class = FIELD_INTEGER, .size = 1},
	['s'] = {.name = "short", .class = FIELD_INTEGER, .size = 2, .has_sign = true},
	['U'] = {.name = "signedint", .class = FIELD_INTEGER, .size = 2, .has_sign = true},
	['u'] = {.name = "unsignedshort", .class = FIELD_INTEGER, .size = 2},
	['I'] = {.name = "signedint", .class = FIELD_INTEGER, .size = 4, .has_sign = true},
	['i'] = {.name = "unsignedint", .class = FIELD_INTEGER, .size = 4},
	['l'] = {.name = "long", .class = FIELD_INTEGER, .size = 8, .has_sign = true},
	['L'] = {.name = "long", .class = FIELD_INTEGER, .size = 8, .has_sign = true},
	['f'] = {.name = "float", .class = FIELD_FLOAT, .size = 4},
	['d'] = {.name = "double", .class = FIELD_FLOAT, .size = 8},
	['D'] = {.name = "decimal", .class = FIELD_DECIMAL, .size = 5},
	['S'] = {.name = "longstr", .class = FIELD_STRING, .has_length = true},
	['x'] = {.name = "binary", .class = FIELD_STRING, .has_length = true},
	['T'] = {.name = "timestamp", .class = FIELD_TIMESTAMP, .size = 8},
	['F'] = {.name = "table", .class = FIELD_TABLE, .has_length = true},
	['A'] = {.name = "array", .class = FIELD_ARRAY, .has_length = true},
	['V'] = {.name = "void", .class = FIELD_VOID},
};

const struct field_type *
field_type_of(uint8_t letter)
{
	return letter < LETTERS && types[letter].name != NULL ? &types[letter] : NULL;
}

const char *
field_type_name(char type)
{
	const struct field_type *known = field_type_of((uint8_t)type);

	return known != NULL ? known->name : "unknown";
}

/* Reads a value without its letter; of a string, table or array what is behind the length. */
static struct bytes
read_value(struct reader *r, const struct field_type *type)
{
	return type->has_length ? read_longstr(r) : read_raw(r, type->size);
}

/* Validates a table, or an array, whose values have no names. depth counts from 1. */
static enum field_result
validate(struct bytes content, bool array, unsigned depth, char *bad_type)
{
	struct reader r = reader_of(content);

	if (depth > FIELD_DEPTH_MAX)
		return FIELD_TOO_DEEP;
	while (!reader_done(&r)) {
		const struct field_type *type;
		struct bytes value;
		uint8_t letter;

		if (!array)
			read_shortstr(&r);
		letter = read_octet(&r);
		if (r.bad)
			return FIELD_TRUNCATED;
		type = field_type_of(letter);
		if (type == NULL) {
			if (bad_type != NULL)
				*bad_type = (char)letter;
			return FIELD_UNKNOWN_TYPE;
		}
		value = read_value(&r, type);
		if (r.bad)
			return FIELD_TRUNCATED;
		if (type->class == FIELD_TABLE || type->class == FIELD_ARRAY) {
			enum field_result result =
				validate(value, type->class == FIELD_ARRAY, depth + 1, bad_type);
			if (result != FIELD_OK)
				return result;
		}
	}
	return FIELD_OK;
}

enum field_result
table_validate(struct bytes entries, char *bad_type)
{
	return validate(entries, false, 1, bad_type);
}

struct field_iterator
table_iterate(struct bytes entries)
{
	return (struct field_iterator){.reader = reader_of(entries), .array = false};
}

struct field_iterator
array_iterate(struct bytes values)
{
	return (struct field_iterator){.reader = reader_of(values), .array = true};
}

/* Big-endian, of any width. */
static uint64_t
load_bits(struct bytes value)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < value.n; i++)
		bits = bits << 8 | value.p[i];
	return bits;
}

static int64_t
load_integer(struct bytes value, bool has_sign)
{
	uint64_t bits = load_bits(value);
	uint64_t sign = (uint64_t)1 << (8 * value.n - 1);

	/* Turning the sign bit and taking its weight away again extends it to 64 bits. */
	return (int64_t)(has_sign ? (bits ^ sign) - sign : bits);
}

static double
load_float(struct bytes value)
{
	uint64_t bits = load_bits(value);
	uint32_t narrow_bits = (uint32_t)bits;
	float narrow;
	double wide;

	if (value.n == sizeof(narrow)) {
		memcpy(&narrow, &narrow_bits, sizeof(narrow));
		return (double)narrow;
	}
	memcpy(&wide, &bits, sizeof(wide));
	return wide;
}

static void
decode_value(struct field *field, const struct field_type *type, struct bytes value)
{
	field->class = type->class;
	field->integer = 0;
	field->number = 0;
	field->bytes = bytes_of(NULL, 0);
	switch (type->class) {
	case FIELD_BOOLEAN:
		field->integer = value.p[0] != 0;
		break;
	case FIELD_INTEGER:
	case FIELD_TIMESTAMP:
		field->integer = load_integer(value, type->has_sign);
		break;
	case FIELD_FLOAT:
		field->number = load_float(value);
		break;
	case FIELD_DECIMAL:
	case FIELD_STRING:
	case FIELD_TABLE:
	case FIELD_ARRAY:
		field->bytes = value;
		break;
	case FIELD_VOID:
		break;
	}
}

/* The next entry undecoded: its name, its letter, and its type and value as results. */
static bool
next_raw(struct field_iterator *iterator, struct field *field, const struct field_type **type,
	 struct bytes *value)
{
	struct reader *r = &iterator->reader;
	const uint8_t *begin;

	if (r->p == r->end)
		return false;
	field->name = iterator->array ? bytes_of(NULL, 0) : read_shortstr(r);
	begin = r->p;
	field->type = (char)read_octet(r);
	*type = field_type_of((uint8_t)field->type);
	assert(*type != NULL);
	*value = read_value(r, *type);
	assert(!r->bad);
	field->raw = bytes_of(begin, (size_t)(r->p - begin));
	return true;
}

bool
field_next(struct field_iterator *iterator, struct field *field)
{
	const struct field_type *type;
	struct bytes value;

	if (!next_raw(iterator, field, &type, &value))
		return false;
	decode_value(field, type, value);
	return true;
}

bool
table_find(struct bytes entries, struct bytes name, struct field *field)
{
	struct field_iterator iterator = table_iterate(entries);
	const struct field_type *type;
	struct bytes value;

	while (next_raw(&iterator, field, &type, &value)) {
		if (!bytes_equal(field->name, name))
			continue;
		decode_value(field, type, value);
		return true;
	}
	return false;
}

size_t
table_count(struct bytes entries)
{
	struct field_iterator iterator = table_iterate(entries);
	const struct field_type *type;
	struct bytes value;
	struct field field;
	size_t count = 0;

	while (next_raw(&iterator, &field, &type, &value))
		count++;
	return count;
}
