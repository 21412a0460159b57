/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a publish says in its properties that the broker must act on: CC and BCC (amqp.md 7.4), user-id
 * (7.2), expiration (6.9), the pseudo-queue for replies (7.12). They are looked for once, when the
 * header comes; a message without any of them never comes here again.
 */
#include <inttypes.h>

#include "internal.h"

#define EXPIRATION_MAX_MS 315360000000 // ten years

bool
publish_facts(struct bytes encoded, unsigned *facts, char *bad_type)
{
	struct basic_properties properties;
	struct field field;

	*facts = 0;
	*bad_type = 0;
	/* the two commonest headers are known by sight: none, and a delivery mode alone */
	if (encoded.n == 2 && (encoded.p[0] | (encoded.p[1] & 0xfc)) == 0)
		return true;
	if (encoded.n == 3 && encoded.p[0] == 0x10 && (encoded.p[1] & 0xfc) == 0) {
		*facts = encoded.p[2] == 2 ? FACT_PERSISTENT : 0;
		return true;
	}
	if (!properties_decode(&properties, encoded)) {
		*bad_type = properties.bad_type;
		return false;
	}
	if ((properties.flags & PROPERTY_delivery_mode) && properties.delivery_mode == 2)
		*facts |= FACT_PERSISTENT;
	if (properties.flags & PROPERTY_expiration)
		*facts |= FACT_EXPIRATION;
	if (properties.flags & PROPERTY_user_id)
		*facts |= FACT_USER_ID;
	if ((properties.flags & PROPERTY_reply_to) &&
	    bytes_equal(properties.reply_to, BYTES(REPLY_TO_QUEUE)))
		*facts |= FACT_REPLY_TO;
	if (properties.flags & PROPERTY_headers) {
		if (table_find(properties.headers, BYTES("CC"), &field))
			*facts |= FACT_CC;
		if (table_find(properties.headers, BYTES("BCC"), &field))
			*facts |= FACT_BCC;
	}
	return true;
}

/* ---- keys ---- */

void
keys_init(struct keys *keys, struct bytes key)
{
	keys->items = &keys->one;
	keys->one = key;
	keys->count = 1;
}

void
keys_fini(struct keys *keys)
{
	if (keys->items != &keys->one)
		xfree(keys->items);
}

static void
keys_add(struct keys *keys, struct bytes key)
{
	if (keys->items == &keys->one) {
		keys->items = xmalloc(sizeof(struct bytes));
		keys->items[0] = keys->one;
	}
	keys->items = xrealloc(keys->items, (keys->count + 1) * sizeof(struct bytes));
	keys->items[keys->count++] = key;
}

/* Adds the strings of CC or BCC; other elements count for nothing. */
static const struct reply *
keys_add_header(struct keys *keys, struct bytes headers, const char *name)
{
	struct field field;
	struct field_iterator iterator;

	if (!table_find(headers, bytes_str(name), &field))
		return NULL;
	if (field.class != FIELD_ARRAY)
		return refuse(PRECONDITION_FAILED,
			      "invalid message: {unacceptable_type_in_header,\"%s\",%s}", name,
			      field_type_name(field.type));
	iterator = array_iterate(field.bytes);
	while (field_next(&iterator, &field))
		if (field.type == 'S')
			keys_add(keys, field.bytes);
	return NULL;
}

/* Octets that a key takes among the tagged values of a message; longer ones lead to no binding. */
static size_t
bcc_room(struct bytes key)
{
	return key.n <= UINT8_MAX ? 2 + key.n : 0;
}

void
publish_bcc(struct bytes encoded, struct buf *out)
{
	struct basic_properties properties;
	struct field_iterator iterator;
	struct field bcc;
	bool well = properties_decode(&properties, encoded);

	assert(well);
	if (!table_find(properties.headers, BYTES("BCC"), &bcc))
		return;
	assert(bcc.class == FIELD_ARRAY);
	iterator = array_iterate(bcc.bytes);
	while (field_next(&iterator, &bcc)) {
		if (bcc.type == 'S' && bcc_room(bcc.bytes) != 0)
			message_put_bcc(out, bcc.bytes);
	}
}

/* ---- checks, in RabbitMQ's order (amqp.md 7.1, 6 to 11) ---- */

/* Decimal milliseconds, with a sign at most; the texts are those of RabbitMQ. */
static const struct reply *
check_expiration(struct bytes text)
{
	char copy[UINT8_MAX + 1];
	const char *digits = copy;
	char *end;
	intmax_t value;

	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	if (*digits == '-' || *digits == '+')
		digits++;
	if (*digits < '0' || *digits > '9')
		return refuse(PRECONDITION_FAILED, "invalid expiration '%s': no_integer", copy);
	value = strtoimax(copy, &end, 10);
	if (*end != '\0')
		return refuse(PRECONDITION_FAILED,
			      "invalid expiration '%s': {leftover_string,\"%s\"}", copy, end);
	if (value < 0)
		return refuse(PRECONDITION_FAILED, "invalid expiration '%s': {value_negative,%s}",
			      copy, copy);
	if (value > EXPIRATION_MAX_MS)
		return refuse(PRECONDITION_FAILED, "invalid expiration '%s': {value_too_large,%s}",
			      copy, digits);
	return NULL;
}

static const struct reply *
check_user_id(const struct user *user, struct bytes id)
{
	if (bytes_equal(id, user->name) || (user->tags & USER_IMPERSONATOR))
		return NULL;
	return refuse(PRECONDITION_FAILED,
		      "user_id property set to '%.*s' but authenticated user was '%.*s'",
		      BYTES_ARGS(id), BYTES_ARGS(user->name));
}

/* Those of BCC stay with the message where nobody sees them: as much as its record has room for. */
static const struct reply *
check_bcc(const struct basic_properties *properties, struct keys *keys)
{
	uint32_t at = keys->count;
	const struct reply *refusal = keys_add_header(keys, properties->headers, "BCC");
	size_t octets = 0;

	for (; at < keys->count; at++)
		octets += bcc_room(keys->items[at]);
	if (refusal == NULL && octets > MESSAGE_BCC_MAX)
		refusal = refuse(PRECONDITION_FAILED,
				 "the keys in the header BCC take %zu octets with 2 more each, the "
				 "limit is %u",
				 octets, (unsigned)MESSAGE_BCC_MAX);
	return refusal;
}

/* The keys in their headers, as far as they say anything. */
static const struct reply *
check_keys(const struct basic_properties *properties, unsigned facts, struct keys *keys)
{
	const struct reply *refusal = NULL;

	if (facts & FACT_CC)
		refusal = keys_add_header(keys, properties->headers, "CC");
	if (refusal == NULL && (facts & FACT_BCC))
		refusal = check_bcc(properties, keys);
	return refusal;
}

const struct reply *
publish_check(struct channel *channel, struct bytes encoded, unsigned facts, struct keys *keys)
{
	struct basic_properties properties;
	const struct reply *refusal = NULL;
	bool decoded;

	if ((facts & ~(unsigned)FACT_PERSISTENT) == 0)
		return NULL;
	decoded = properties_decode(&properties, encoded);
	assert(decoded);
	if ((facts & FACT_REPLY_TO) && channel->reply == NULL)
		return refuse(PRECONDITION_FAILED, "fast reply consumer does not exist");
	if (facts & FACT_EXPIRATION)
		refusal = check_expiration(properties.expiration);
	if (refusal == NULL)
		refusal = check_keys(&properties, facts, keys);
	if (refusal == NULL && (facts & FACT_USER_ID))
		refusal = check_user_id(channel_user(channel), properties.user_id);
	return refusal;
}

/* ---- what the broker changes in a message (amqp.md 7.3) ---- */

/* The table without BCC. */
static struct bytes
without_bcc(struct bytes headers, struct buf *out)
{
	struct field_iterator iterator = table_iterate(headers);
	const uint8_t *begin = headers.p;
	struct field field;

	while (field_next(&iterator, &field)) {
		const uint8_t *end = iterator.reader.p;

		if (!bytes_equal(field.name, BYTES("BCC")))
			buf_add(out, begin, (size_t)(end - begin));
		begin = end;
	}
	return buf_bytes(out);
}

void
publish_change_header(const struct channel *channel, struct bytes header, struct buf *out)
{
	struct basic_properties properties;
	struct content_header decoded;
	struct buf headers;
	struct writer w;
	bool well = content_header_decode(&decoded, header) &&
		    properties_decode(&properties, decoded.properties);
	size_t room = header.n + UINT8_MAX;

	assert(well);
	buf_init(&headers, 0);
	if (properties.flags & PROPERTY_headers)
		properties.headers = without_bcc(properties.headers, &headers);
	if (bytes_equal(properties.reply_to, BYTES(REPLY_TO_QUEUE)) && channel->reply != NULL)
		properties.reply_to = channel->reply->token;
	w = writer_of(buf_reserve(out, room), room);
	content_header_encode(&properties, decoded.body_size, &w);
	assert(!w.bad);
	out->n += room - (size_t)(w.end - w.p);
	buf_fini(&headers);
}
