/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building field tables. A table or array is opened, filled and closed; closing writes its length
 * into the gap that opening left. With a bad writer everything does nothing.
 */
#include "wire/field.h"

#include "internal.h"

static void
write_entry(struct writer *w, struct bytes name, char type)
{
	write_shortstr(w, name);
	write_octet(w, (uint8_t)type);
}

void
table_put_bool(struct writer *w, struct bytes name, bool value)
{
	write_entry(w, name, 't');
	write_octet(w, value);
}

void
table_put_int(struct writer *w, struct bytes name, int32_t value)
{
	write_entry(w, name, 'I');
	write_long(w, (uint32_t)value);
}

void
table_put_long(struct writer *w, struct bytes name, int64_t value)
{
	write_entry(w, name, 'l');
	write_longlong(w, (uint64_t)value);
}

void
table_put_string(struct writer *w, struct bytes name, struct bytes value)
{
	write_shortstr(w, name);
	array_put_string(w, value);
}

void
table_put_timestamp(struct writer *w, struct bytes name, uint64_t seconds)
{
	write_entry(w, name, 'T');
	write_longlong(w, seconds);
}

void
array_put_string(struct writer *w, struct bytes value)
{
	write_octet(w, 'S');
	write_longstr(w, value);
}

/* Leaves a gap for the length of what is put next. */
static uint8_t *
begin(struct writer *w, char type)
{
	write_octet(w, (uint8_t)type);
	return write_room(w, sizeof(uint32_t));
}

uint8_t *
table_begin(struct writer *w, struct bytes name)
{
	write_shortstr(w, name);
	return begin(w, 'F');
}

uint8_t *
array_begin(struct writer *w, struct bytes name)
{
	write_shortstr(w, name);
	return begin(w, 'A');
}

uint8_t *
array_table_begin(struct writer *w)
{
	return begin(w, 'F');
}

void
table_end(struct writer *w, uint8_t *begun)
{
	size_t size;

	if (w->bad)
		return;
	assert(begun != NULL);
	assert(begun + sizeof(uint32_t) <= w->p);
	size = (size_t)(w->p - begun) - sizeof(uint32_t);
	if (size > UINT32_MAX)
		w->bad = true;
	store_long(begun, (uint32_t)size);
}

static void
put_values(struct writer *w, const struct field *field)
{
	struct field_iterator iterator = array_iterate(field->bytes);
	uint8_t *begun = begin(w, field->type);
	struct field value;

	while (!w->bad && field_next(&iterator, &value))
		array_put_field(w, &value);
	table_end(w, begun);
}

void
array_put_field(struct writer *w, const struct field *field)
{
	uint8_t *begun;

	switch (field->type) {
	case 'U':
		write_octet(w, 'I');
		write_long(w, (uint32_t)field->integer);
		break;
	case 'L':
		write_octet(w, 'l');
		write_longlong(w, (uint64_t)field->integer);
		break;
	case 'F':
		begun = begin(w, 'F');
		table_put_entries(w, field->bytes);
		table_end(w, begun);
		break;
	case 'A':
		put_values(w, field);
		break;
	default:
		write_raw(w, field->raw);
	}
}

void
table_put_field(struct writer *w, struct bytes name, const struct field *field)
{
	write_shortstr(w, name);
	array_put_field(w, field);
}

void
table_put_entries(struct writer *w, struct bytes entries)
{
	struct field_iterator iterator = table_iterate(entries);
	struct field field;

	while (!w->bad && field_next(&iterator, &field))
		table_put_field(w, field.name, &field);
}
