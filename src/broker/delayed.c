/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges of the type x-delayed-message (amqp.md 5.8): one whose header x-delay says so holds a message back for
 * that many milliseconds, in its waiting room, and then routes it as an exchange of the type in its argument
 * x-delayed-type does. The exchange is one of that type in all but this.
 *
 * x-delay is an integer of any width, a float, of which the fraction is dropped, or a string that is a decimal integer.
 * Anything else, and what is not above 0, is no delay. What is more than the clock can hold is as long as it can.
 *
 * It is held back wherever it passes such an exchange: published to it, through exchanges bound to it, as an
 * alternate, as a dead letter. The room counts as where it went, so no alternate exchange gets it meanwhile. When its
 * time has come it goes on from there, with all its keys and its delay negated, so no further one holds it back.
 */
#include "broker/exchange.h"
#include "broker/message.h"
#include "route.h"
#include "util/mem.h"
#include "waiting.h"
#include "wire/field.h"
#include "wire/props.h"

#define DELAY BYTES("x-delay")

static struct basic_properties
properties_of(const struct message *m)
{
	struct basic_properties properties;
	bool well = properties_decode(&properties, message_properties(m));

	/* The channel decoded them before it took the message. */
	assert(well);
	return properties;
}

/* ---- the delay ---- */

/* Decimal digits, with a sign at most; what is too large is INT64_MAX. */
static bool
parse(struct bytes text, int64_t *value)
{
	bool negative = text.n > 0 && text.p[0] == '-';
	size_t i = negative || (text.n > 0 && text.p[0] == '+') ? 1 : 0;
	uint64_t sum = 0;

	if (i == text.n)
		return false;
	for (; i < text.n; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return false;
		sum = min_u64(sum, INT64_MAX / 10) * 10 + (uint64_t)(text.p[i] - '0');
		sum = min_u64(sum, INT64_MAX);
	}
	*value = negative ? -(int64_t)sum : (int64_t)sum;
	return true;
}

/* What the field says, if it says a delay at all. */
static bool
value_of(const struct field *field, int64_t *value)
{
	switch (field->class) {
	case FIELD_INTEGER:
		*value = field->integer;
		return true;
	case FIELD_FLOAT:
		if (!(field->number >= 1))
			return false;
		*value = field->number >= 9.2e18 ? INT64_MAX : (int64_t)field->number;
		return true;
	case FIELD_STRING:
		return parse(field->bytes, value);
	default:
		return false;
	}
}

bool
delayed_wants(const struct message *m, uint64_t *delay_ms)
{
	struct basic_properties properties = properties_of(m);
	struct field field;
	int64_t value;

	if (!table_find(properties.headers, DELAY, &field) || !value_of(&field, &value) ||
	    value <= 0)
		return false;
	*delay_ms = (uint64_t)value;
	return true;
}

/* ---- the message as it goes on ---- */

static void
put_negated(struct writer *w, const struct field *field)
{
	int64_t value = 0;
	bool well = value_of(field, &value);

	assert(well);
	if (value <= INT32_MAX && field->type != 'l' && field->type != 'L')
		table_put_int(w, DELAY, (int32_t)-value);
	else
		table_put_long(w, DELAY, -value);
}

/* All other headers stay as they are, octet for octet. */
static void
put_headers(struct bytes headers, struct writer *w)
{
	struct field_iterator iterator = table_iterate(headers);
	const uint8_t *begin = headers.p;
	bool negated = false;
	struct field field;

	while (field_next(&iterator, &field)) {
		const uint8_t *end = iterator.reader.p;

		if (!negated && bytes_equal(field.name, DELAY)) {
			put_negated(w, &field);
			negated = true;
		} else {
			write_raw(w, bytes_of(begin, (size_t)(end - begin)));
		}
		begin = end;
	}
}

static struct message *
negated(const struct message *m, struct basic_properties properties)
{
	/* a number may need some octets more than it had */
	size_t room = properties.headers.n + 16;
	uint8_t *table = slab_alloc(room);
	struct writer w = writer_of(table, room);
	unsigned flags = m->flags & (MESSAGE_PERSISTENT | MESSAGE_HAS_CC | MESSAGE_HAS_DEATHS);
	struct message *other;

	put_headers(properties.headers, &w);
	assert(!w.bad);
	properties.headers = bytes_of(table, (size_t)(w.p - table));
	/* how long it may live counts from now on */
	if (properties.flags & PROPERTY_expiration)
		flags |= MESSAGE_HAS_EXPIRATION;
	other = message_like(m, &(struct message_spec){
					.exchange = message_exchange(m),
					.key = message_key(m),
					.properties = &properties,
					.flags = (uint16_t)flags,
					.extension = message_extension(m),
				});
	slab_free(table, room);
	return other;
}

struct message *
delayed_release(struct exchange *exchange, const struct message *m, struct route *route)
{
	struct basic_properties properties = properties_of(m);
	struct message *next = negated(m, properties);
	struct key_list keys = {NULL, 0};

	key_list_add_known(&keys, m, properties.headers);
	key_list_add_bcc(&keys, m);
	exchange_route(exchange, keys.items, keys.count, next, route);
	key_list_fini(&keys);
	return next;
}

/* ---- routing ---- */

NEVER_INLINE bool
delayed_holds_back(struct exchange *exchange, struct routing *routing)
{
	uint64_t delay_ms;

	routing->route->uncacheable = true;
	if (!delayed_wants(routing->message, &delay_ms))
		return false;
	routing_add_queue(routing, waiting_room_queue((struct part_owner){.exchange = exchange}));
	return true;
}

const struct exchange_type exchange_type_delayed = {
	.name = BYTES("x-delayed-message"),
};
