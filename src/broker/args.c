/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of x-arguments against the table of args.def: first type and value of each, then whether the
 * queue's type takes it, then the rules of the type itself (amqp.md 6.1, step 7). There is one
 * implementation of queues; "quorum" is what the client asked for and is told again.
 */
#include "broker/args.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "util/buf.h"
#include "util/log.h"
#include "wire/field.h"

/* Ten years in milliseconds. */
#define ARG_TTL_MAX 315360000000
/* Octets of a value in a text, which is itself cut at REPLY_TEXT_MAX. */
#define VALUE_TEXT_ROOM (REPLY_TEXT_MAX + 1)

enum arg_list {
	LIST_QUEUE,   // arguments of queue.declare
	LIST_CONSUMER // arguments of basic.consume
};

enum arg_type {
	TYPE_INTEGER,	    // any width
	TYPE_FACTOR,	    // an integer or a float
	TYPE_BOOLEAN,	    // t
	TYPE_STRING,	    // any string
	TYPE_WORD,	    // a string of a list
	TYPE_DEAD_EXCHANGE, // a string, with a text of its own for other types
	TYPE_DEAD_KEY,	    // a string, which needs a dead letter exchange beside it
	TYPE_VERSION,	    // an integer, with a text of its own for other values
	TYPE_QUEUE_TYPE,    // the name of a queue type
	TYPE_ANYTHING	    // not looked at
};

/* The queue types that take an argument, or-ed. */
enum arg_takers {
	TAKERS_NONE = 0, // known, but an argument of streams
	TAKERS_CLASSIC = 1,
	TAKERS_QUORUM = 2,
	TAKERS_BOTH = 3
};

enum arg_effect {
	EFFECT_NOW,   // does what it says
	EFFECT_NEVER, // has no meaning here and is accepted for the sake of clients
	EFFECT_LATER  // belongs to a feature to come
};

struct argument {
	const char *name;	// with "x-"
	enum arg_list list;	// where it is given
	enum arg_type type;	// what it must be
	enum arg_takers takers; // which queue types take it
	enum arg_effect effect; // whether it does anything
	int64_t min;		// of integers
	int64_t max;		// of integers
	const char *too_large;	// reason above max; NULL for "value_too_large"
	const char *words;  // those allowed, each between blanks or ends; NULL when not TYPE_WORD
	const char *reason; // for any other word
};

static const struct argument table[] = {
#define ARGUMENT(list_, name_, type_, takers_, effect_, ...) \
	{.name = name_,                                      \
	 .list = LIST_##list_,                               \
	 .type = TYPE_##type_,                               \
	 .takers = TAKERS_##takers_,                         \
	 .effect = EFFECT_##effect_,                         \
	 __VA_ARGS__},
#include "broker/args.def"
};

/* What an argument is checked for. */
struct place {
	struct bytes vhost;	// its name
	struct bytes queue;	// its name
	struct bytes arguments; // all of them
};

static const struct reply *refuse_reason(const struct place *place, const struct argument *argument,
					 const char *format, ...) PRINTF_LIKE(3, 4);

static const struct reply *
refuse_reason(const struct place *place, const struct argument *argument, const char *format, ...)
{
	char reason[VALUE_TEXT_ROOM];
	va_list values;

	va_start(values, format);
	(void)vsnprintf(reason, sizeof(reason), format, values);
	va_end(values);
	return refuse(PRECONDITION_FAILED, "invalid arg '%s' for queue '%.*s' in vhost '%.*s': %s",
		      argument->name, BYTES_ARGS(place->queue), BYTES_ARGS(place->vhost), reason);
}

static const struct reply *
refuse_type(const struct place *place, const struct argument *argument, const struct field *field)
{
	return refuse_reason(place, argument, "{unacceptable_type,%s}",
			     field_type_name(field->type));
}

/* ---- types and values ---- */

static const struct reply *
check_integer(const struct place *place, const struct argument *argument, const struct field *field)
{
	int64_t value = field->integer;

	if (field->class != FIELD_INTEGER)
		return refuse_reason(place, argument, "\"expected integer, got %s\"",
				     field_type_name(field->type));
	if (value < argument->min)
		return refuse_reason(place, argument, "{%s,%" PRId64 "}",
				     value == 0 ? "value_zero" : "value_negative", value);
	if (value <= argument->max)
		return NULL;
	if (argument->type == TYPE_VERSION)
		return refuse_reason(place, argument, "\"unsupported queue version '%" PRId64 "'\"",
				     value);
	return refuse_reason(place, argument, "{%s,%" PRId64 "}",
			     argument->too_large != NULL ? argument->too_large : "value_too_large",
			     value);
}

static const struct reply *
check_factor(const struct place *place, const struct argument *argument, const struct field *field)
{
	double value;

	if (!args_factor(field, &value))
		return refuse_reason(place, argument, "\"expected number, got %s\"",
				     field_type_name(field->type));
	/* not a number is not in the range either */
	if (value >= (double)argument->min && value <= (double)argument->max)
		return NULL;
	return refuse_reason(place, argument,
			     "\"expected a number from %" PRId64 " to %" PRId64 ", got %g\"",
			     argument->min, argument->max, value);
}

bool
args_factor(const struct field *field, double *value)
{
	if (field->class != FIELD_INTEGER && field->class != FIELD_FLOAT)
		return false;
	*value = field->class == FIELD_FLOAT ? field->number : (double)field->integer;
	return true;
}

/* Version 0 is as unknown as version 3. */
static const struct reply *
check_version(const struct place *place, const struct argument *argument, const struct field *field)
{
	if (field->class == FIELD_INTEGER && field->integer == 0)
		return refuse_reason(place, argument, "\"unsupported queue version '0'\"");
	return check_integer(place, argument, field);
}

bool
args_has_word(const char *words, struct bytes word)
{
	while (*words != '\0') {
		size_t n = strcspn(words, " ");

		if (bytes_equal(bytes_of(words, n), word))
			return true;
		words += n;
		words += strspn(words, " ");
	}
	return false;
}

static const struct reply *
check_queue_type(const struct place *place, const struct argument *argument,
		 const struct field *field)
{
	if (args_has_word("classic quorum", field->bytes))
		return NULL;
	return refuse_reason(place, argument, "\"unsupported queue type '%.*s'\"",
			     BYTES_ARGS(field->bytes));
}

static const struct reply *
check_dead_key(const struct place *place, const struct argument *argument)
{
	struct field exchange;

	if (table_find(place->arguments, BYTES("x-dead-letter-exchange"), &exchange))
		return NULL;
	return refuse_reason(place, argument, "routing_key_but_no_dlx_defined");
}

static const struct reply *
check_string(const struct place *place, const struct argument *argument, const struct field *field)
{
	if (field->class != FIELD_STRING && argument->type == TYPE_DEAD_EXCHANGE)
		return refuse(PRECONDITION_FAILED,
			      "invalid type '%s' for arg '%s' in queue '%.*s' in vhost '%.*s'",
			      field_type_name(field->type), argument->name,
			      BYTES_ARGS(place->queue), BYTES_ARGS(place->vhost));
	if (field->class != FIELD_STRING)
		return refuse_type(place, argument, field);
	if (argument->type == TYPE_DEAD_KEY)
		return check_dead_key(place, argument);
	if (argument->type == TYPE_QUEUE_TYPE)
		return check_queue_type(place, argument, field);
	if (argument->type == TYPE_WORD && !args_has_word(argument->words, field->bytes))
		return refuse_reason(place, argument, "%s", argument->reason);
	return NULL;
}

static const struct reply *
check_value(const struct place *place, const struct argument *argument, const struct field *field)
{
	switch (argument->type) {
	case TYPE_INTEGER:
		return check_integer(place, argument, field);
	case TYPE_FACTOR:
		return check_factor(place, argument, field);
	case TYPE_VERSION:
		return check_version(place, argument, field);
	case TYPE_BOOLEAN:
		return field->class == FIELD_BOOLEAN ? NULL : refuse_type(place, argument, field);
	case TYPE_ANYTHING:
		return NULL;
	default:
		return check_string(place, argument, field);
	}
}

/* ---- a whole table ---- */

static struct bytes
argument_name(const struct argument *argument)
{
	return bytes_str(argument->name);
}

bool
args_is_quorum(struct bytes arguments)
{
	struct field field;

	return table_find(arguments, BYTES("x-queue-type"), &field) &&
	       field.class == FIELD_STRING && bytes_equal(field.bytes, BYTES("quorum"));
}

static enum arg_takers
queue_type_bit(struct bytes arguments)
{
	return args_is_quorum(arguments) ? TAKERS_QUORUM : TAKERS_CLASSIC;
}

static const struct reply *
check_values(const struct place *place, enum arg_list list)
{
	const struct reply *refusal;
	struct field field;

	for (size_t i = 0; i < countof(table); i++) {
		if (table[i].list != list ||
		    !table_find(place->arguments, argument_name(&table[i]), &field))
			continue;
		refusal = check_value(place, &table[i], &field);
		if (refusal != NULL)
			return refusal;
	}
	return NULL;
}

/* A known argument on a queue of a type that does not take it is an error. */
static const struct reply *
check_takers(const struct place *place, enum arg_list list, enum arg_takers queue_type)
{
	struct field field;

	for (size_t i = 0; i < countof(table); i++) {
		if (table[i].list != list || (table[i].takers & queue_type) != 0 ||
		    !table_find(place->arguments, argument_name(&table[i]), &field))
			continue;
		return refuse(PRECONDITION_FAILED,
			      "invalid arg '%s' for queue '%.*s' in vhost '%.*s' of queue type %s",
			      table[i].name, BYTES_ARGS(place->queue), BYTES_ARGS(place->vhost),
			      queue_type == TAKERS_QUORUM ? "rabbit_quorum_queue"
							  : "rabbit_classic_queue");
	}
	return NULL;
}

/* An exclusive queue is never durable, so that it is exclusive must be said before that. */
static const struct reply *
check_quorum(const struct place *place, bool durable, bool exclusive, bool auto_delete)
{
	const char *property = auto_delete ? "auto-delete"
			       : exclusive ? "exclusive-owner"
			       : !durable  ? "non-durable"
					   : NULL;

	if (property == NULL)
		return NULL;
	return refuse(PRECONDITION_FAILED, "invalid property '%s' for queue '%.*s' in vhost '%.*s'",
		      property, BYTES_ARGS(place->queue), BYTES_ARGS(place->vhost));
}

/* What cannot be had together. */
static const struct reply *
check_together(const struct place *place)
{
	struct field field;

	if (!table_find(place->arguments, BYTES("x-group-by"), &field) ||
	    !table_find(place->arguments, BYTES("x-max-priority"), &field))
		return NULL;
	return refuse(PRECONDITION_FAILED,
		      "invalid arg 'x-group-by' for queue '%.*s' in vhost '%.*s': not together "
		      "with 'x-max-priority'",
		      BYTES_ARGS(place->queue), BYTES_ARGS(place->vhost));
}

const struct reply *
args_check_queue(const struct vhost *vhost, struct bytes queue, struct bytes arguments,
		 bool durable, bool exclusive, bool auto_delete)
{
	struct place place = {.vhost = vhost->name, .queue = queue, .arguments = arguments};
	const struct reply *refusal = check_values(&place, LIST_QUEUE);

	if (refusal == NULL)
		refusal = check_takers(&place, LIST_QUEUE, queue_type_bit(arguments));
	if (refusal == NULL && args_is_quorum(arguments))
		refusal = check_quorum(&place, durable, exclusive, auto_delete);
	if (refusal == NULL)
		refusal = check_together(&place);
	return refusal;
}

const struct reply *
args_check_consumer(const struct queue *queue, struct bytes arguments, int32_t *priority)
{
	struct place place = {
		.vhost = queue->vhost->name, .queue = queue->name, .arguments = arguments};
	const struct reply *refusal = check_values(&place, LIST_CONSUMER);
	struct field field;

	*priority = 0;
	if (refusal == NULL)
		refusal = check_takers(&place, LIST_CONSUMER, queue_type_bit(queue->arguments));
	if (refusal != NULL || !table_find(arguments, BYTES("x-priority"), &field))
		return refusal;
	assert(field.class == FIELD_INTEGER);
	*priority = field.integer > INT32_MAX	? INT32_MAX
		    : field.integer < INT32_MIN ? INT32_MIN
						: (int32_t)field.integer;
	return NULL;
}

bool
args_is_without_effect(const char *name)
{
	for (size_t i = 0; i < countof(table); i++) {
		if (table[i].list == LIST_QUEUE && strcmp(table[i].name, name) == 0)
			return table[i].effect == EFFECT_LATER;
	}
	return false;
}

void
args_warn_without_effect(const struct vhost *vhost, struct bytes queue, struct bytes arguments)
{
	struct field field;
	struct buf names;

	buf_init(&names, 0);
	for (size_t i = 0; i < countof(table); i++)
		if (table[i].list == LIST_QUEUE && table[i].effect == EFFECT_LATER &&
		    table_find(arguments, argument_name(&table[i]), &field))
			buf_addf(&names, "%s%s", names.n != 0 ? ", " : "", table[i].name);
	if (names.n != 0)
		log_warn("Arguments of a queue have no effect in this version: %s "
			 "queue=%.*s vhost=%.*s",
			 buf_cstr(&names), BYTES_ARGS(queue), BYTES_ARGS(vhost->name));
	buf_fini(&names);
}

/* ---- equivalence ---- */

/* "'5'" where both sides have a value, else "none" or "the value '5' of type 'signedint'". */
static const char *
side_text(const struct field *side, bool both, char *out, size_t room)
{
	char value[VALUE_TEXT_ROOM];

	if (side == NULL)
		return "none";
	field_print(side, value, sizeof(value));
	if (both)
		(void)snprintf(out, room, "'%s'", value);
	else
		(void)snprintf(out, room, "the value '%s' of type '%s'", value,
			       field_type_name(side->type));
	return out;
}

const struct reply *
args_inequivalent(const char *kind, const struct vhost *vhost, struct bytes name,
		  struct bytes argument, const struct field *received, const struct field *current)
{
	char received_text[VALUE_TEXT_ROOM + 64];
	char current_text[VALUE_TEXT_ROOM + 64];
	bool both = received != NULL && current != NULL;

	return refuse(PRECONDITION_FAILED,
		      "inequivalent arg '%.*s' for %s '%.*s' in vhost '%.*s': "
		      "received %s but current is %s",
		      BYTES_ARGS(argument), kind, BYTES_ARGS(name), BYTES_ARGS(vhost->name),
		      side_text(received, both, received_text, sizeof(received_text)),
		      side_text(current, both, current_text, sizeof(current_text)));
}

/* Absent and "classic" are the same queue type. */
static bool
is_default(const struct argument *argument, const struct field *field)
{
	return argument->type == TYPE_QUEUE_TYPE && field->class == FIELD_STRING &&
	       bytes_equal(field->bytes, BYTES("classic"));
}

static const struct reply *
check_same(const struct queue *queue, const struct argument *argument, struct bytes received)
{
	struct field ours;
	struct field theirs;
	bool here = table_find(queue->arguments, argument_name(argument), &ours);
	bool there = table_find(received, argument_name(argument), &theirs);

	if (here && there && field_equal(&ours, &theirs))
		return NULL;
	if (!here && (!there || is_default(argument, &theirs)))
		return NULL;
	if (!there && is_default(argument, &ours))
		return NULL;
	return args_inequivalent("queue", queue->vhost, queue->name, argument_name(argument),
				 there ? &theirs : NULL, here ? &ours : NULL);
}

const struct reply *
args_check_equivalent(const struct queue *queue, struct bytes received)
{
	enum arg_takers queue_type = queue_type_bit(queue->arguments);
	const struct reply *refusal = NULL;

	for (size_t i = 0; i < countof(table) && refusal == NULL; i++)
		if (table[i].list == LIST_QUEUE && (table[i].takers & queue_type) != 0)
			refusal = check_same(queue, &table[i], received);
	return refusal;
}
