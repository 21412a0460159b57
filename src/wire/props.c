/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content headers: the fixed part, and the properties expanded from props.def. A second word of
 * flags is never read: RabbitMQ does not (amqp.md 1.7), and the specification's bit for it is one of
 * the two low bits that are ignored.
 */
#include "wire/props.h"

#include "wire/field.h"

#define CLASS_BASIC 60
#define FLAGS_UNUSED 0x0003 // below the last property

bool
content_header_decode(struct content_header *header, struct bytes payload)
{
	struct reader r = reader_of(payload);

	if (payload.n < CONTENT_HEADER_FIXED)
		return false;
	header->class_id = read_short(&r);
	header->weight = read_short(&r);
	header->body_size = read_longlong(&r);
	/* The flags are the last of what is fixed and the first of the properties. */
	header->properties = bytes_of(r.p, reader_left(&r));
	return true;
}

#define READ_SHORTSTR(r) read_shortstr(r)
#define READ_TABLE(r) read_longstr(r)
#define READ_OCTET(r) read_octet(r)
#define READ_TIMESTAMP(r) read_longlong(r)

bool
properties_decode(struct basic_properties *properties, struct bytes encoded)
{
	static const struct basic_properties none;
	struct reader r = reader_of(encoded);
	uint16_t flags = read_short(&r) & (uint16_t)~FLAGS_UNUSED;

	properties->flags = flags;
	properties->bad_type = 0;
	/* One by one: clearing the whole struct first costs more than all the rest. */
#define PROPERTY(type, name) \
	properties->name = flags & PROPERTY_##name ? READ_##type(&r) : none.name;
#include "wire/props.def"
	if (!reader_done(&r))
		return false;
	return table_validate(properties->headers, &properties->bad_type) == FIELD_OK;
}

#define WRITE_SHORTSTR(w, value) write_shortstr(w, value)
#define WRITE_TABLE(w, value) write_longstr(w, value)
#define WRITE_OCTET(w, value) write_octet(w, value)
#define WRITE_TIMESTAMP(w, value) write_longlong(w, value)

void
properties_encode(const struct basic_properties *properties, struct writer *w)
{
	write_short(w, properties->flags & (uint16_t)~FLAGS_UNUSED);
#define PROPERTY(type, name)                     \
	if (properties->flags & PROPERTY_##name) \
		WRITE_##type(w, properties->name);
#include "wire/props.def"
}

void
content_header_encode(const struct basic_properties *properties, uint64_t body_size,
		      struct writer *w)
{
	write_short(w, CLASS_BASIC);
	write_short(w, 0);
	write_longlong(w, body_size);
	properties_encode(properties, w);
}
