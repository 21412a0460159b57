/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing values as RabbitMQ's error texts have them: what stands alone is bare, tables and arrays
 * are Erlang terms, in which strings are binaries. (amqp.md 4.4)
 */
#include "wire/field.h"

#include "internal.h"
#include "wire/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CUT_MARK "..."

/* Text into an area of fixed size; what does not fit is dropped, and remembered as dropped. */
struct printer {
	char *out;   // borrows; room octets
	size_t room; // with the final NUL
	size_t n;    // octets so far
	bool cut;    // something was dropped
};

static void print(struct printer *printer, const char *format, ...) PRINTF_LIKE(2, 3);

static void
print_bytes(struct printer *printer, struct bytes text)
{
	size_t left = printer->room - 1 - printer->n;
	size_t n = text.n < left ? text.n : left;

	printer->cut |= n < text.n;
	for (size_t i = 0; i < n; i++) /* a NUL would end the text for who reads it */
		printer->out[printer->n++] = text.p[i] != '\0' ? (char)text.p[i] : '?';
}

static void
print(struct printer *printer, const char *format, ...)
{
	char text[64];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	print_bytes(printer, bytes_str(text));
}

/* The shortest form that reads back as the same number, always with a point. */
static void
print_float(struct printer *printer, double number)
{
	char text[40];
	int precision = 1;

	do
		(void)snprintf(text, sizeof(text), "%.*g", precision, number);
	while (++precision <= 17 && strtod(text, NULL) != number);
	print(printer, "%s%s", text, strpbrk(text, ".en") != NULL ? "" : ".0");
}

static void
print_scalar(struct printer *printer, const struct field *field)
{
	switch (field->class) {
	case FIELD_BOOLEAN:
		print(printer, "%s", field->integer != 0 ? "true" : "false");
		break;
	case FIELD_TIMESTAMP:
		print(printer, "%" PRIu64, (uint64_t)field->integer);
		break;
	case FIELD_FLOAT:
		print_float(printer, field->number);
		break;
	case FIELD_DECIMAL:
		print(printer, "{%u,%" PRIu32 "}", field->bytes.p[0],
		      load_long(field->bytes.p + 1));
		break;
	case FIELD_VOID:
		print(printer, "undefined");
		break;
	default:
		print(printer, "%" PRId64, field->integer);
	}
}

static void
print_binary(struct printer *printer, struct bytes string)
{
	print(printer, "<<\"");
	print_bytes(printer, string);
	print(printer, "\">>");
}

static void print_list(struct printer *printer, const struct field *list);

/* A value inside a table or an array. */
static void
print_term(struct printer *printer, const struct field *field)
{
	if (field->class == FIELD_STRING)
		print_binary(printer, field->bytes);
	else if (field->class == FIELD_TABLE || field->class == FIELD_ARRAY)
		print_list(printer, field);
	else
		print_scalar(printer, field);
}

/* [{<<"key">>,type,value},...] for a table, [{type,value},...] for an array. */
static void
print_list(struct printer *printer, const struct field *list)
{
	bool array = list->class == FIELD_ARRAY;
	struct field_iterator iterator =
		array ? array_iterate(list->bytes) : table_iterate(list->bytes);
	const char *separator = "";
	struct field field;

	print(printer, "[");
	while (!printer->cut && field_next(&iterator, &field)) {
		print(printer, "%s{", separator);
		if (!array) {
			print_binary(printer, field.name);
			print(printer, ",");
		}
		print(printer, "%s,", field_type_name(field.type));
		print_term(printer, &field);
		print(printer, "}");
		separator = ",";
	}
	print(printer, "]");
}

const char *
field_print(const struct field *field, char *out, size_t room)
{
	struct printer printer = {.out = out, .room = room};

	assert(room > strlen(CUT_MARK));
	if (field->class == FIELD_STRING)
		print_bytes(&printer, field->bytes);
	else
		print_term(&printer, field);
	out[printer.n] = '\0';
	if (printer.cut) {
		size_t kept = utf8_cut(out, room - sizeof(CUT_MARK));

		memcpy(out + kept, CUT_MARK, sizeof(CUT_MARK));
	}
	return out;
}
