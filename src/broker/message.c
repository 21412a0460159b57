/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building and freeing messages; see broker/message.h for the layout and broker/model.h for its
 * reason: a delivery is one copy of this wire form behind the consumer's own fields.
 */
#include "broker/message.h"

#include "store/page.h"
#include "store/record.h"
#include "wire/cursor.h"
#include "wire/field.h"
#include "wire/props.h"

static uint8_t *
put_shortstr(uint8_t *p, struct bytes string)
{
	*p++ = (uint8_t)string.n;
	if (string.n != 0)
		memcpy(p, string.p, string.n);
	return p + string.n;
}

/* Without an extension. */
static size_t
plain_size(const struct message *m)
{
	return sizeof(*m) + message_wire_size(m);
}

/* Without an extension; the wire form ends where the body frame would begin. */
static size_t
stub_size(const struct message *m)
{
	return sizeof(*m) + message_body_at(m) + sizeof(uint32_t);
}

/* ---- what consumers do not get ---- */

/* Where the extension of a message that has one begins, with its size. */
static const uint8_t *
extension_at(const struct message *m)
{
	return (const uint8_t *)m + (m->flags & MESSAGE_PAGED ? stub_size(m) : plain_size(m));
}

struct bytes
message_extension(const struct message *m)
{
	const uint8_t *p;
	uint16_t n;

	if (!(m->flags & MESSAGE_HAS_EXTENSION))
		return bytes_of(NULL, 0);
	p = extension_at(m);
	memcpy(&n, p, sizeof(n));
	return bytes_of(p + sizeof(n), n);
}

void
message_put_bcc(struct buf *extension, struct bytes key)
{
	assert(key.n <= UINT8_MAX);
	buf_add_byte(extension, MESSAGE_TAG_BCC);
	buf_add_byte(extension, (uint8_t)key.n);
	buf_add_bytes(extension, key);
}

/* Octets that it takes in all. */
static size_t
extension_room(struct bytes extension)
{
	return extension.n == 0 ? 0 : sizeof(uint16_t) + extension.n;
}

static void
put_extension(uint8_t *p, struct bytes extension)
{
	uint16_t n = (uint16_t)extension.n;

	if (n == 0)
		return;
	memcpy(p, &n, sizeof(n));
	memcpy(p + sizeof(n), extension.p, n);
}

/* ---- making them ---- */

static ALWAYS_INLINE struct message *
make(struct bytes exchange, struct bytes key, struct bytes header, uint32_t body_size,
     uint16_t flags, struct bytes extension)
{
	struct message sizes = {
		.refs = 1,
		.body_size = body_size,
		.header_size = (uint32_t)header.n,
		.exchange_size = (uint8_t)exchange.n,
		.key_size = (uint8_t)key.n,
		.flags = flags,
	};
	struct message *m;
	uint8_t *p;

	assert(exchange.n <= UINT8_MAX);
	assert(key.n <= UINT8_MAX);
	assert(header.n >= 14);
	m = slab_alloc(plain_size(&sizes) + extension_room(extension));
	*m = sizes;
	p = put_shortstr(m->wire, exchange);
	p = put_shortstr(p, key);
	*p++ = FRAME_END;
	frame_prefix_encode(p, FRAME_HEADER, 0, m->header_size);
	memcpy(p + FRAME_PREFIX, header.p, header.n);
	p += FRAME_PREFIX + header.n;
	*p++ = FRAME_END;
	if (body_size != 0) {
		frame_prefix_encode(p, FRAME_BODY, 0, body_size);
		p[FRAME_PREFIX + body_size] = FRAME_END;
	}
	return m;
}

struct message *
message_new(struct bytes exchange, struct bytes key, struct bytes header, uint32_t body_size,
	    uint16_t flags)
{
	assert(!(flags & MESSAGE_HAS_EXTENSION));
	return make(exchange, key, header, body_size, flags, bytes_of(NULL, 0));
}

struct message *
message_new_extended(struct bytes exchange, struct bytes key, struct bytes header,
		     uint32_t body_size, uint16_t flags, struct bytes extension)
{
	struct message *m;

	assert(extension.n <= UINT16_MAX);
	flags = (uint16_t)(flags & ~MESSAGE_HAS_EXTENSION);
	if (extension.n == 0)
		return message_new(exchange, key, header, body_size, flags);
	m = make(exchange, key, header, body_size, flags | MESSAGE_HAS_EXTENSION, extension);
	put_extension((uint8_t *)m + plain_size(m), extension);
	return m;
}

struct message *
message_grow(struct message *m, uint32_t body_size)
{
	struct message *grown;

	assert(m->refs == 1);
	assert(body_size > m->body_size);
	assert(!(m->flags & MESSAGE_HAS_EXTENSION));
	grown = message_new(message_exchange(m), message_key(m), message_header(m), body_size,
			    m->flags);
	memcpy(message_body_room(grown), message_body_room(m), m->body_size);
	message_free(m);
	return grown;
}

struct message *
message_copy(const struct message *m)
{
	struct message *copy = message_new_extended(
		message_exchange(m), message_key(m), message_header(m), m->body_size,
		m->flags & ~MESSAGE_HAS_STUB, message_extension(m));

	assert(!(m->flags & MESSAGE_PAGED));
	if (m->body_size != 0)
		memcpy(message_body_room(copy), message_body(m).p, m->body_size);
	return copy;
}

/* The other properties need not be looked at, so what comes before it is passed over (0-9-1: 4.2.6.1). */
uint8_t
message_priority(const struct message *m)
{
	const uint8_t *p = message_properties(m).p;
	unsigned flags = (unsigned)(p[0] << 8 | p[1]);

	if (!(flags & PROPERTY_priority))
		return 0;
	p += 2;
	if (flags & PROPERTY_content_type)
		p += 1 + p[0];
	if (flags & PROPERTY_content_encoding)
		p += 1 + p[0];
	if (flags & PROPERTY_headers)
		p += 4 + load_long(p);
	if (flags & PROPERTY_delivery_mode)
		p++;
	assert(p < m->wire + message_header_at(m) + FRAME_PREFIX + m->header_size);
	return *p;
}

struct message *
message_like(const struct message *m, const struct message_spec *spec)
{
	/* all but the headers is no longer than it was */
	size_t room = m->header_size + spec->properties->headers.n + 64;
	uint8_t *header = slab_alloc(room);
	struct writer w = writer_of(header, room);
	struct message *other;

	assert(!(m->flags & MESSAGE_PAGED));
	content_header_encode(spec->properties, m->body_size, &w);
	assert(!w.bad);
	other = message_new_extended(spec->exchange, spec->key,
				     bytes_of(header, (size_t)(w.p - header)), m->body_size,
				     spec->flags, spec->extension);
	if (m->body_size != 0)
		memcpy(message_body_room(other), message_body(m).p, m->body_size);
	slab_free(header, room);
	return other;
}

/* The same with a header of this name that is a number. */
static struct message *
with_number(const struct message *m, struct bytes name, uint32_t number, uint16_t flags,
	    struct bytes extension)
{
	size_t room = m->header_size + 64;
	uint8_t *table = slab_alloc(room);
	struct writer w = writer_of(table, room);
	struct basic_properties properties;
	struct field_iterator iterator;
	struct message *other;
	struct field field;
	bool well = properties_decode(&properties, message_properties(m));

	assert(well);
	iterator = table_iterate(properties.headers);
	while (field_next(&iterator, &field))
		if (!bytes_equal(field.name, name))
			table_put_field(&w, field.name, &field);
	table_put_long(&w, name, number);
	assert(!w.bad);
	properties.headers = bytes_of(table, (size_t)(w.p - table));
	properties.flags |= PROPERTY_headers;
	other = message_like(m, &(struct message_spec){
					.exchange = message_exchange(m),
					.key = message_key(m),
					.properties = &properties,
					.flags = flags,
					.extension = extension,
				});
	slab_free(table, room);
	return other;
}

struct message *
message_with_count(const struct message *m, uint32_t count)
{
	return with_number(m, BYTES("x-delivery-count"), count, 0, bytes_of(NULL, 0));
}

uint32_t
message_failures(const struct message *m)
{
	struct bytes extension = message_extension(m);
	struct message_value value;

	while (message_value_next(&extension, &value))
		if (value.tag == MESSAGE_TAG_FAILURES && value.octets.n == sizeof(uint32_t))
			return le32_load(value.octets.p);
	return 0;
}

/* What it remembers, but for its failures. */
static void
put_others(struct buf *out, struct bytes extension)
{
	struct message_value value;

	while (message_value_next(&extension, &value))
		if (value.tag != MESSAGE_TAG_FAILURES)
			buf_add(out, value.octets.p - 2, value.octets.n + 2);
}

struct message *
message_failed(const struct message *m, uint32_t failures)
{
	uint8_t tagged[] = {MESSAGE_TAG_FAILURES, sizeof(uint32_t), 0, 0, 0, 0};
	struct message *failed;
	struct buf extension;

	le32_store(tagged + 2, failures);
	buf_init(&extension, 0);
	put_others(&extension, message_extension(m));
	buf_add(&extension, tagged, sizeof(tagged));
	failed = with_number(m, BYTES("x-failure-count"), failures,
			     m->flags & (MESSAGE_PERSISTENT | MESSAGE_HAS_CC |
					 MESSAGE_HAS_EXPIRATION | MESSAGE_HAS_DEATHS),
			     buf_bytes(&extension));
	buf_fini(&extension);
	return failed;
}

/* The class of a content header, and its size without the properties (0-9-1: 4.2.6.1). */
#define CONTENT_CLASS 60
#define CONTENT_FIXED_SIZE 12

struct message *
message_new_stored(const struct message_record *record)
{
	size_t size = CONTENT_FIXED_SIZE + record->properties.n;
	uint8_t *header = xcalloc(1, size);
	struct message *m;

	store_short(header, CONTENT_CLASS);
	store_longlong(header + 4, record->body.n);
	memcpy(header + CONTENT_FIXED_SIZE, record->properties.p, record->properties.n);
	m = message_new_extended(
		record->exchange, record->key, bytes_of(header, size), (uint32_t)record->body.n,
		MESSAGE_PERSISTENT | (record->flags & MESSAGE_CC ? MESSAGE_HAS_CC : 0) |
			(record->flags & MESSAGE_DEATHS ? MESSAGE_HAS_DEATHS : 0),
		record->extension);
	xfree(header);
	m->time_ms = record->time_ms;
	if (record->expiry_ms != 0)
		m->flags |= MESSAGE_HAS_EXPIRATION;
	if (record->body.n != 0)
		memcpy(message_body_room(m), record->body.p, record->body.n);
	return m;
}

struct message *
message_new_stub(const struct message *m, struct page_place place)
{
	struct bytes extension = message_extension(m);
	struct message *stub = slab_alloc(stub_size(m) + extension_room(extension));

	assert(m->body_size != 0);
	assert(!(m->flags & MESSAGE_PAGED));
	*stub = *m;
	stub->refs = 1;
	stub->flags = (uint16_t)((m->flags & ~MESSAGE_HAS_STUB) | MESSAGE_PAGED);
	stub->page = place.file;
	memcpy(stub->wire, m->wire, message_body_at(m));
	memcpy(stub->wire + message_body_at(m), &place.offset, sizeof(place.offset));
	put_extension((uint8_t *)stub + stub_size(m), extension);
	return stub;
}

struct page_place
message_page_place(const struct message *stub)
{
	struct page_place place = {.file = stub->page};

	assert(stub->flags & MESSAGE_PAGED);
	memcpy(&place.offset, stub->wire + message_body_at(stub), sizeof(place.offset));
	return place;
}

struct message *
message_new_unpaged(const struct message *stub, struct bytes body)
{
	struct message *m = message_new_extended(
		message_exchange(stub), message_key(stub), message_header(stub), stub->body_size,
		(uint16_t)(stub->flags & ~MESSAGE_PAGED), message_extension(stub));

	assert(body.n == stub->body_size);
	m->time_ms = stub->time_ms;
	memcpy(message_body_room(m), body.p, body.n);
	return m;
}

/* One that is more than its wire form. */
static NEVER_INLINE void
free_special(struct message *m)
{
	size_t extension = extension_room(message_extension(m));

	if (m->flags & MESSAGE_PAGED) {
		page_release(message_page_place(m));
		slab_free(m, stub_size(m) + extension);
		return;
	}
	if (m->flags & MESSAGE_HAS_STUB)
		message_unref(m->stub);
	slab_free(m, plain_size(m) + extension);
}

void
message_free(struct message *m)
{
	if (unlikely(m->flags & (MESSAGE_PAGED | MESSAGE_HAS_STUB | MESSAGE_HAS_EXTENSION)))
		free_special(m);
	else
		slab_free(m, plain_size(m));
}
