/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers exchange: the arguments of a binding against the headers of a message (amqp.md 5.7). The
 * argument x-match says how; it is understood once, when the binding is made. Other arguments are looked
 * up by name: one without a value asks only that the header is there, any other that the values are
 * equal, whatever their widths on the wire. Every binding is tried, in order.
 */
#include "broker/message.h"
#include "route.h"
#include "wire/field.h"
#include "wire/props.h"

#define X_MATCH BYTES("x-match")
#define VALUE_TEXT_ROOM 128
#define HEADERS_KEPT 32 // decoded once a message; those behind are decoded at each look

static const struct {
	struct bytes text;
	enum headers_match match;
} matches[] = {
	{BYTES("all"), HEADERS_ALL},
	{BYTES("any"), HEADERS_ANY},
	{BYTES("all-with-x"), HEADERS_ALL_WITH_X},
	{BYTES("any-with-x"), HEADERS_ANY_WITH_X},
};

/* False when the value of x-match is none that we know. */
static bool
match_parse(const struct field *field, enum headers_match *match)
{
	for (size_t i = 0; i < countof(matches) && field->type == 'S'; i++) {
		if (bytes_equal(matches[i].text, field->bytes)) {
			*match = matches[i].match;
			return true;
		}
	}
	return false;
}

static const struct reply *
headers_check_binding(const struct binding_spec *spec)
{
	char text[VALUE_TEXT_ROOM];
	enum headers_match match;
	struct field field;

	if (!table_find(spec->arguments, X_MATCH, &field) || match_parse(&field, &match))
		return NULL;
	if (field.type == 'S')
		return refuse(PRECONDITION_FAILED,
			      "Invalid x-match field value <<\"%.*s\">>; expected all, any, "
			      "all-with-x, or any-with-x",
			      BYTES_ARGS(field.bytes));
	return refuse(PRECONDITION_FAILED,
		      "Invalid x-match field type %s (value %s); expected longstr",
		      field_type_name(field.type), field_print(&field, text, sizeof(text)));
}

static void
headers_add(struct exchange *exchange UNUSED, struct binding *binding)
{
	enum headers_match match = HEADERS_ALL;
	struct field field;

	if (table_find(binding->arguments, X_MATCH, &field)) {
		bool known = match_parse(&field, &match);

		assert(known);
	}
	binding->match = (uint8_t)match;
}

/* ---- matching ---- */

struct headers {
	struct field first[HEADERS_KEPT]; // the first ones, decoded
	size_t count;			  // how many of them there are
	struct bytes rest;		  // the others, encoded
};

static void
headers_decode(struct headers *headers, struct bytes encoded_properties)
{
	struct basic_properties properties;
	struct field_iterator iterator;
	bool valid = properties_decode(&properties, encoded_properties);

	/* The channel decoded them before it took the message. */
	assert(valid);
	iterator = table_iterate(properties.headers);
	headers->count = 0;
	while (headers->count < HEADERS_KEPT &&
	       field_next(&iterator, &headers->first[headers->count]))
		headers->count++;
	headers->rest = bytes_of(iterator.reader.p, reader_left(&iterator.reader));
}

/* NULL when there is none of that name; later is room for one that was not kept decoded. */
static const struct field *
header_find(const struct headers *headers, struct bytes name, struct field *later)
{
	for (size_t i = 0; i < headers->count; i++) {
		if (bytes_equal(headers->first[i].name, name))
			return &headers->first[i];
	}
	return table_find(headers->rest, name, later) ? later : NULL;
}

static bool
argument_matches(const struct field *argument, const struct headers *headers)
{
	struct field later;
	const struct field *header = header_find(headers, argument->name, &later);

	if (header == NULL)
		return false;
	return argument->class == FIELD_VOID || field_equal(argument, header);
}

/* Whether the argument takes part: x-match never does, others in x- only with their own x-match. */
static bool
is_considered(const struct field *argument, bool with_x)
{
	if (!bytes_has_prefix(argument->name, BYTES("x-")))
		return true;
	return with_x && !bytes_equal(argument->name, X_MATCH);
}

static bool
binding_matches(const struct binding *binding, const struct headers *headers)
{
	bool any = binding->match == HEADERS_ANY || binding->match == HEADERS_ANY_WITH_X;
	bool with_x = binding->match == HEADERS_ALL_WITH_X || binding->match == HEADERS_ANY_WITH_X;
	struct field_iterator iterator = table_iterate(binding->arguments);
	struct field argument;

	while (field_next(&iterator, &argument)) {
		/* The first that is as any wants it, or is not as all wants it, decides. */
		if (is_considered(&argument, with_x) && argument_matches(&argument, headers) == any)
			return any;
	}
	return !any;
}

static void
headers_route(struct exchange *exchange, struct routing *routing)
{
	const struct binding *binding;
	struct headers headers;

	routing->route->uncacheable = true;
	if (list_empty(&exchange->bindings_out))
		return;
	headers_decode(&headers, message_properties(routing->message));
	list_for_each (&exchange->bindings_out, binding, struct binding, of_source) {
		if (binding_matches(binding, &headers))
			routing_add(routing, binding);
	}
}

const struct exchange_type exchange_type_headers = {
	.name = BYTES("headers"),
	.check_binding = headers_check_binding,
	.add = headers_add,
	.route = headers_route,
};
