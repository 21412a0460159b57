/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The x-consistent-hash exchange: each message goes to one destination, chosen by the hash of its routing
 * key, of a header or of a property (the arguments of the exchange say which). A message without that
 * header or property hashes as a constant, so all such messages go to one destination.
 *
 * The destinations are the members. For every message each member draws a number: a hash of the
 * message's hash and the member's name. Of members with the same weight the highest draw takes it; weights
 * are done justice by stretching: the draw, seen as a fraction of 1, is taken as the time -log(draw) /
 * weight, and the earliest wins, which is member i with the probability weight i / all weights. A draw
 * depends on nothing but message and member. So when a member comes it takes its share evenly from all
 * others, and when it goes all others take its share evenly; nothing else moves, and neither the order of
 * binding nor a restart changes anything.
 *
 * A binding's key is its weight. The first binding of a destination makes it a member; others of the same
 * destination wait: when the first is removed the next takes its place.
 */
#include "broker/message.h"
#include "route.h"
#include "util/mem.h"
#include "wire/field.h"
#include "wire/props.h"

#define HASH_HEADER BYTES("hash-header")
#define HASH_PROPERTY BYTES("hash-property")
#define WEIGHT_MAX 1000000
#define ROOM_FIRST 8
#define LOG_BITS 32 // of the fraction: 2^38 in all, so that the product with a weight has room

enum hash_on {
	HASH_ON_KEY,
	HASH_ON_HEADER,
	HASH_ON_MESSAGE_ID,
	HASH_ON_CORRELATION_ID,
	HASH_ON_TIMESTAMP
};

static const struct {
	struct bytes name;
	enum hash_on on;
} properties_known[] = {
	{BYTES("message_id"), HASH_ON_MESSAGE_ID},
	{BYTES("correlation_id"), HASH_ON_CORRELATION_ID},
	{BYTES("timestamp"), HASH_ON_TIMESTAMP},
};

struct hash_member {
	uint64_t name;		 // stable hash of the destination's kind and name
	struct binding *binding; // borrows: the one that counts
	uint32_t weight;	 // 1 to WEIGHT_MAX
};

struct hash_members {
	struct hash_member *items; // owns
	uint32_t count;
	uint32_t room;
	enum hash_on on;
	struct bytes header; // HASH_ON_HEADER: its name; borrows from the exchange's arguments
	bool even;	     // all weights are the same
};

/* ---- what is hashed ---- */

static bool
property_find(struct bytes name, enum hash_on *on)
{
	for (size_t i = 0; i < countof(properties_known); i++) {
		if (bytes_equal(properties_known[i].name, name)) {
			*on = properties_known[i].on;
			return true;
		}
	}
	return false;
}

static const struct reply *
refuse_type(const struct exchange_spec *spec, struct bytes argument, const struct field *field)
{
	return refuse(PRECONDITION_FAILED, "invalid type '%s' for arg '%.*s' in exchange '%.*s'",
		      field_type_name(field->type), BYTES_ARGS(argument), BYTES_ARGS(spec->name));
}

static const struct reply *
hash_check_arguments(const struct exchange_spec *spec)
{
	struct field header;
	struct field property;
	bool has_header = table_find(spec->arguments, HASH_HEADER, &header);
	bool has_property = table_find(spec->arguments, HASH_PROPERTY, &property);
	enum hash_on on;

	if (has_header && header.type != 'S')
		return refuse_type(spec, HASH_HEADER, &header);
	if (has_property && property.type != 'S')
		return refuse_type(spec, HASH_PROPERTY, &property);
	if (has_header && has_property)
		return refuse(PRECONDITION_FAILED,
			      "hash-header and hash-property are mutually exclusive");
	if (has_property && !property_find(property.bytes, &on))
		return refuse(PRECONDITION_FAILED, "Unsupported property: %.*s",
			      BYTES_ARGS(property.bytes));
	return NULL;
}

static void
hash_init(struct exchange *exchange)
{
	struct hash_members *members = xcalloc(1, sizeof(*members));
	struct field field;

	members->on = HASH_ON_KEY;
	members->even = true;
	if (table_find(exchange->arguments, HASH_HEADER, &field)) {
		members->on = HASH_ON_HEADER;
		members->header = field.bytes;
	} else if (table_find(exchange->arguments, HASH_PROPERTY, &field)) {
		bool known = property_find(field.bytes, &members->on);

		assert(known);
	}
	exchange->members = members;
}

static void
hash_fini(struct exchange *exchange)
{
	assert(exchange->members->count == 0);
	xfree(exchange->members->items);
	xfree(exchange->members);
	exchange->members = NULL;
}

static uint64_t
hash_integer(uint64_t hash, uint64_t value)
{
	uint8_t octets[8];

	for (size_t i = 0; i < sizeof(octets); i++)
		octets[i] = (uint8_t)(value >> (8 * i));
	return stable_hash(hash, bytes_of(octets, sizeof(octets)));
}

/* Integers of all widths are the same value, and so are the two kinds of strings. */
static uint64_t
hash_field(const struct field *field)
{
	uint64_t hash = hash_integer(STABLE_HASH_START, field->class);

	switch (field->class) {
	case FIELD_BOOLEAN:
	case FIELD_INTEGER:
	case FIELD_TIMESTAMP:
		return hash_integer(hash, (uint64_t)field->integer);
	case FIELD_STRING:
		return stable_hash(hash, field->bytes);
	default:
		return stable_hash(hash, field->raw);
	}
}

static uint64_t
hash_property(const struct hash_members *members, const struct basic_properties *properties)
{
	struct field field;

	switch (members->on) {
	case HASH_ON_HEADER:
		if (table_find(properties->headers, members->header, &field))
			return hash_field(&field);
		break;
	case HASH_ON_MESSAGE_ID:
		if (properties->flags & PROPERTY_message_id)
			return stable_hash(STABLE_HASH_START, properties->message_id);
		break;
	case HASH_ON_CORRELATION_ID:
		if (properties->flags & PROPERTY_correlation_id)
			return stable_hash(STABLE_HASH_START, properties->correlation_id);
		break;
	default:
		if (properties->flags & PROPERTY_timestamp)
			return hash_integer(STABLE_HASH_START, properties->timestamp);
	}
	return 0;
}

static uint64_t
hash_message(const struct hash_members *members, const struct routing *routing)
{
	struct basic_properties properties;
	bool valid;

	if (members->on == HASH_ON_KEY)
		return stable_hash_end(stable_hash(STABLE_HASH_START, routing->key));
	valid = properties_decode(&properties, message_properties(routing->message));
	/* The channel decoded them before it took the message. */
	assert(valid);
	return stable_hash_end(hash_property(members, &properties));
}

/* ---- the draw ---- */

/* -log2(draw / 2^64) with LOG_BITS bits of fraction: each squaring of the mantissa gives one bit. Made of
 * integers, so that no library and no processor ever moves a key. */
static uint64_t
minus_log(uint64_t draw)
{
	unsigned highest = highest_bit_u64(draw | 1);
	uint64_t mantissa = (draw | 1) << (63 - highest) >> 32; // 1 to 2, as 2^31 to 2^32
	uint64_t log = highest;

	for (unsigned i = 0; i < LOG_BITS; i++) {
		mantissa = mantissa * mantissa >> 31;
		log = log << 1 | mantissa >> 32;
		mantissa >>= mantissa >> 32;
	}
	return ((uint64_t)64 << LOG_BITS) - log;
}

static const struct hash_member *
draw_even(const struct hash_members *members, uint64_t hash)
{
	const struct hash_member *best = members->items;
	uint64_t best_draw = 0;

	for (uint32_t i = 0; i < members->count; i++) {
		uint64_t draw = stable_hash_end(hash ^ members->items[i].name);

		if (draw > best_draw) {
			best = &members->items[i];
			best_draw = draw;
		}
	}
	return best;
}

static const struct hash_member *
draw_weighted(const struct hash_members *members, uint64_t hash)
{
	const struct hash_member *best = members->items;
	uint64_t best_log = UINT64_MAX / WEIGHT_MAX;

	for (uint32_t i = 0; i < members->count; i++) {
		const struct hash_member *member = &members->items[i];
		uint64_t log = minus_log(stable_hash_end(hash ^ member->name));

		if (log * best->weight < best_log * member->weight) {
			best = member;
			best_log = log;
		}
	}
	return best;
}

static void
hash_route(struct exchange *exchange, struct routing *routing)
{
	const struct hash_members *members = exchange->members;
	const struct hash_member *member;
	uint64_t hash;

	if (members->on != HASH_ON_KEY)
		routing->route->uncacheable = true;
	if (members->count == 0)
		return;
	hash = hash_message(members, routing);
	member = members->even ? draw_even(members, hash) : draw_weighted(members, hash);
	routing_add(routing, member->binding);
}

/* ---- members ---- */

/* The weight in a binding key: decimal, with a sign if need be. False when it is none; 0 below one, and
 * WEIGHT_MAX + 1 for all that is more. */
static bool
weight_parse(struct bytes key, uint32_t *weight)
{
	bool negative = key.n > 0 && key.p[0] == '-';
	size_t i = negative || (key.n > 0 && key.p[0] == '+') ? 1 : 0;

	*weight = 0;
	if (i == key.n)
		return false;
	for (; i < key.n; i++) {
		if (key.p[i] < '0' || key.p[i] > '9')
			return false;
		*weight = *weight * 10 + (uint32_t)(key.p[i] - '0');
		if (*weight > WEIGHT_MAX)
			*weight = WEIGHT_MAX + 1;
	}
	if (negative)
		*weight = 0;
	return true;
}

static const struct reply *
hash_check_binding(const struct binding_spec *spec)
{
	uint32_t weight;

	if (!weight_parse(spec->key, &weight))
		return spec->key.n == 0 ? refuse(PRECONDITION_FAILED,
						 "The binding key must be an integer: <<>>")
					: refuse(PRECONDITION_FAILED,
						 "The binding key must be an integer: <<\"%.*s\">>",
						 BYTES_ARGS(spec->key));
	if (weight == 0)
		return refuse(PRECONDITION_FAILED, "The binding key must be greater than 0");
	if (weight > WEIGHT_MAX)
		return refuse(PRECONDITION_FAILED, "The binding key must not exceed %d",
			      WEIGHT_MAX);
	return NULL;
}

static bool
same_destination(const struct binding *a, const struct binding *b)
{
	return a->queue == b->queue && a->exchange == b->exchange;
}

static uint64_t
name_hash(const struct binding *binding)
{
	struct bytes kind = binding->queue != NULL ? BYTES("q") : BYTES("e");
	struct bytes name = binding->queue != NULL ? binding->queue->name : binding->exchange->name;

	return stable_hash_end(stable_hash(stable_hash(STABLE_HASH_START, kind), name));
}

static struct hash_member *
member_of(const struct hash_members *members, const struct binding *binding)
{
	uint64_t name = name_hash(binding);

	for (uint32_t i = 0; i < members->count; i++) {
		struct hash_member *member = &members->items[i];

		if (member->name == name && same_destination(member->binding, binding))
			return member;
	}
	return NULL;
}

static void
members_changed(struct hash_members *members)
{
	members->even = true;
	for (uint32_t i = 1; i < members->count; i++)
		members->even &= members->items[i].weight == members->items[0].weight;
}

static void
member_set(struct hash_member *member, struct binding *binding)
{
	bool valid;

	member->binding = binding;
	member->name = name_hash(binding);
	valid = weight_parse(binding->key, &member->weight);
	assert(valid);
	assert(member->weight > 0);
	assert(member->weight <= WEIGHT_MAX);
}

static void
hash_add(struct exchange *exchange, struct binding *binding)
{
	struct hash_members *members = exchange->members;

	if (member_of(members, binding) != NULL)
		return;
	if (members->count == members->room) {
		members->room = members->room == 0 ? ROOM_FIRST : members->room * 2;
		assert(members->room > members->count);
		members->items = xrealloc(members->items, members->room * sizeof(*members->items));
	}
	member_set(&members->items[members->count++], binding);
	members_changed(members);
}

/* The oldest other binding of the same destination, NULL when there is none. */
static struct binding *
next_in_line(const struct exchange *exchange, const struct binding *gone)
{
	const struct list *list =
		gone->queue != NULL ? &gone->queue->bindings : &gone->exchange->bindings_in;
	struct binding *binding;

	list_for_each (list, binding, struct binding, of_destination) {
		if (binding != gone && binding->source == exchange)
			return binding;
	}
	return NULL;
}

static void
hash_remove(struct exchange *exchange, struct binding *binding)
{
	struct hash_members *members = exchange->members;
	struct hash_member *member = member_of(members, binding);
	struct binding *next;

	assert(member != NULL);
	if (member->binding != binding)
		return;
	next = next_in_line(exchange, binding);
	if (next != NULL)
		member_set(member, next);
	else
		*member = members->items[--members->count];
	members_changed(members);
}

static void
hash_check(const struct exchange *exchange)
{
	const struct hash_members *members = exchange->members;
	const struct binding *binding;
	uint32_t count = 0;

	list_for_each (&exchange->bindings_out, binding, struct binding, of_source) {
		const struct hash_member *member = member_of(members, binding);

		assert(member != NULL);
		count += member->binding == binding;
	}
	assert(count == members->count);
}

const struct exchange_type exchange_type_consistent_hash = {
	.name = BYTES("x-consistent-hash"),
	.check_arguments = hash_check_arguments,
	.init = hash_init,
	.fini = hash_fini,
	.check_binding = hash_check_binding,
	.add = hash_add,
	.remove = hash_remove,
	.route = hash_route,
	.check = hash_check,
};
