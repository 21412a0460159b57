/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges: found, declared, deleted (amqp.md 5.2 to 5.4), and the table of their types. How a message
 * gets from here to queues is in route.c.
 */
#include "broker/exchange.h"

#include <stdio.h>

#include "broker/args.h"
#include "broker/durable.h"
#include "internal.h"
#include "keys.h"
#include "policy_keys.h"
#include "route.h"
#include "util/owned.h"
#include "wire/field.h"

#define ALTERNATE BYTES("alternate-exchange")
#define DELAYED_TYPE BYTES("x-delayed-type")

/* The default exchange's type is not declared by name. */
static const struct exchange_type *const types[] = {
	&exchange_type_direct,	&exchange_type_fanout,		&exchange_type_headers,
	&exchange_type_topic,	&exchange_type_consistent_hash, &exchange_type_modulus_hash,
	&exchange_type_random,	&exchange_type_recent_history,	&exchange_type_deduplication,
	&exchange_type_delayed,
};

static const struct exchange_type *
type_find(struct bytes name)
{
	for (size_t i = 0; i < countof(types); i++) {
		if (bytes_equal(types[i]->name, name))
			return types[i];
	}
	return NULL;
}

/* How an exchange of this known type routes; NULL: its arguments should say it and do not. */
static const struct exchange_type *
routing_type(struct bytes name, struct bytes arguments)
{
	const struct exchange_type *type = type_find(name);
	struct field field;

	if (type != &exchange_type_delayed)
		return type;
	if (!table_find(arguments, DELAYED_TYPE, &field) || field.class != FIELD_STRING)
		return NULL;
	type = type_find(field.bytes);
	return type == &exchange_type_delayed ? NULL : type;
}

static bool
is_delayed(struct bytes type)
{
	return bytes_equal(type, exchange_type_delayed.name);
}

struct exchange *
exchange_find(const struct vhost *vhost, struct bytes name)
{
	struct map_node *node = map_find(&vhost->exchanges, name);

	return node == NULL ? NULL : container_of(node, struct exchange, node);
}

struct exchange *
exchange_need(const struct vhost *vhost, struct bytes name, const struct reply **refusal)
{
	struct exchange *exchange = exchange_find(vhost, name);

	if (exchange == NULL)
		*refusal = refuse(NOT_FOUND, "no exchange '%.*s' in vhost '%.*s'", BYTES_ARGS(name),
				  BYTES_ARGS(vhost->name));
	return exchange;
}

/* ---- checks of a declare ---- */

const struct reply *
exchange_check_type(struct bytes type)
{
	if (type_find(type) != NULL)
		return NULL;
	return refuse(PRECONDITION_FAILED, "unknown exchange type '%.*s'", BYTES_ARGS(type));
}

static const struct reply *
refuse_difference(const struct exchange *exchange, const char *argument, struct bytes received,
		  struct bytes current)
{
	return refuse(PRECONDITION_FAILED,
		      "inequivalent arg '%s' for exchange '%.*s' in vhost '%.*s': received '%.*s' "
		      "but current is '%.*s'",
		      argument, BYTES_ARGS(exchange->name), BYTES_ARGS(exchange->vhost->name),
		      BYTES_ARGS(received), BYTES_ARGS(current));
}

/* RabbitMQ shows a type as an atom of Erlang: one with a dash in it has quotes of its own. */
static struct bytes
type_shown(struct bytes type, char room[UINT8_MAX + 3])
{
	if (!bytes_has_prefix(type, BYTES("x-")))
		return type;
	snprintf(room, UINT8_MAX + 3, "'%.*s'", BYTES_ARGS(type));
	return bytes_str(room);
}

static const struct reply *
check_type(const struct exchange *exchange, struct bytes received)
{
	char received_room[UINT8_MAX + 3];
	char current_room[UINT8_MAX + 3];

	struct bytes current = bytes_str(exchange_type_name(exchange));

	if (bytes_equal(received, current))
		return NULL;
	return refuse_difference(exchange, "type", type_shown(received, received_room),
				 type_shown(current, current_room));
}

static const struct reply *
check_flag(const struct exchange *exchange, const char *name, bool received, bool current)
{
	if (received == current)
		return NULL;
	return refuse_difference(exchange, name, received ? BYTES("true") : BYTES("false"),
				 current ? BYTES("true") : BYTES("false"));
}

static const struct reply *
check_alternate(const struct exchange *exchange, struct bytes arguments)
{
	struct field received;
	struct field current;
	bool has_received = table_find(arguments, ALTERNATE, &received);
	bool has_current = table_find(exchange->arguments, ALTERNATE, &current);

	if (has_received == has_current && (!has_current || field_equal(&received, &current)))
		return NULL;
	return args_inequivalent("exchange", exchange->vhost, exchange->name, ALTERNATE,
				 has_received ? &received : NULL, has_current ? &current : NULL);
}

const struct reply *
exchange_check_equivalent(const struct exchange *exchange, const struct exchange_spec *spec)
{
	const struct reply *refusal = check_type(exchange, spec->type);

	if (refusal == NULL)
		refusal = check_flag(exchange, "durable", spec->durable, exchange->durable);
	if (refusal == NULL)
		refusal = check_flag(exchange, "auto_delete", spec->auto_delete,
				     exchange->auto_delete);
	if (refusal == NULL)
		refusal = check_flag(exchange, "internal", spec->internal, exchange->internal);
	if (refusal == NULL)
		refusal = check_alternate(exchange, spec->arguments);
	return refusal;
}

const struct reply *
exchange_check_arguments(const struct vhost *vhost, const struct exchange_spec *spec)
{
	const struct exchange_type *type = routing_type(spec->type, spec->arguments);
	struct exchange_spec routing = *spec;
	const struct reply *refusal;
	struct field field;

	assert(type_find(spec->type) != NULL);
	if (table_find(spec->arguments, ALTERNATE, &field) && field.type != 'S')
		return refuse(PRECONDITION_FAILED,
			      "invalid type '%s' for arg 'alternate-exchange' in exchange '%.*s' "
			      "in vhost '%.*s'",
			      field_type_name(field.type), BYTES_ARGS(spec->name),
			      BYTES_ARGS(vhost->name));
	if (type == NULL)
		return refuse(PRECONDITION_FAILED,
			      "Invalid argument, 'x-delayed-type' must be an existing exchange "
			      "type");
	routing.type = type->name;
	refusal = deduplication_check(vhost, &routing);
	if (refusal == NULL && type->check_arguments != NULL)
		refusal = type->check_arguments(&routing);
	return refusal;
}

struct bytes
exchange_alternate_argument(struct bytes arguments)
{
	struct field field;

	if (!table_find(arguments, ALTERNATE, &field) || field.type != 'S')
		return bytes_of(NULL, 0);
	return field.bytes;
}

/* ---- life ---- */

/* The default exchange has none, whatever policies say: RabbitMQ does not ask for it there. */
static struct bytes
alternate_of(const struct exchange *exchange)
{
	struct field field;

	if (exchange->name.n == 0 ||
	    !policy_in_force(KEY_ALTERNATE_EXCHANGE, exchange->arguments, exchange->policies,
			     &field) ||
	    field.class != FIELD_STRING)
		return bytes_of(NULL, 0);
	return field.bytes;
}

void
exchange_set_policies(struct exchange *exchange,
		      const struct policy *const policies[POLICY_KIND_COUNT])
{
	struct bytes alternate;

	memcpy(exchange->policies, policies, sizeof(exchange->policies));
	keys_set_exchange(exchange);
	alternate = alternate_of(exchange);
	if (bytes_equal(alternate, exchange->alternate))
		return;
	bytes_drop(&exchange->alternate);
	exchange->alternate = bytes_dup(alternate);
	exchange->vhost->routing_version++;
}

struct exchange *
exchange_make(struct vhost *vhost, const struct exchange_spec *spec)
{
	bool is_default = spec->name.n == 0;
	const struct policy *policies[POLICY_KIND_COUNT];
	struct exchange *exchange = xmalloc(sizeof(*exchange));

	assert_not_dispatching(vhost->broker);
	*exchange = (struct exchange){
		.name = bytes_dup(spec->name),
		.vhost = vhost,
		.type = is_default ? &exchange_type_default
				   : routing_type(spec->type, spec->arguments),
		.delayed = is_delayed(spec->type),
		.durable = spec->durable,
		.auto_delete = spec->auto_delete,
		.internal = spec->internal,
		.arguments = bytes_dup(spec->arguments),
	};
	assert(exchange->type != NULL);
	policies_of_exchange(exchange, policies);
	exchange_set_policies(exchange, policies);
	list_init(&exchange->bindings_out);
	list_init(&exchange->bindings_in);
	list_init(&exchange->parts);
	map_init(&exchange->keys);
	if (exchange->type->init != NULL)
		exchange->type->init(exchange);
	map_insert(&vhost->exchanges, &exchange->node, exchange->name);
	vhost->broker->exchange_count++;
	vhost->routing_version++; // it may be the alternate of another
	return exchange;
}

struct exchange *
exchange_create(struct vhost *vhost, const struct exchange_spec *spec)
{
	struct exchange *exchange = exchange_make(vhost, spec);

	durable_exchange(exchange, DURABLE_PUT);
	return exchange;
}

bool
exchange_in_use(const struct exchange *exchange)
{
	return !list_empty(&exchange->bindings_out);
}

bool
exchange_is_spent(const struct exchange *exchange)
{
	return exchange->auto_delete && list_empty(&exchange->bindings_out) &&
	       !exchange->vhost->broker->recovering;
}

void
exchange_free(struct exchange *exchange)
{
	assert(list_empty(&exchange->bindings_out));
	assert(list_empty(&exchange->bindings_in));
	assert(exchange->keys.count == 0);
	assert(list_empty(&exchange->parts));
	assert(exchange->trie == NULL);
	assert(exchange->sorted == NULL);
	if (exchange->type->fini != NULL)
		exchange->type->fini(exchange);
	assert(exchange->members == NULL);
	assert(exchange->history == NULL);
	map_remove(&exchange->vhost->exchanges, &exchange->node);
	exchange->vhost->broker->exchange_count--;
	exchange->vhost->routing_version++;
	keys_drop(&exchange->deduplication);
	route_cache_drop(exchange);
	map_fini(&exchange->keys);
	bytes_drop(&exchange->name);
	bytes_drop(&exchange->arguments);
	bytes_drop(&exchange->alternate);
	xfree(exchange);
}

static void
doom(struct exchange *exchange, struct exchange **todo)
{
	exchange->next = *todo;
	*todo = exchange;
}

/* Removes the bindings on both sides; sources that were kept only by them are doomed as well. That is
 * seen when the last one goes, so nothing is doomed twice. */
static void
unbind_all(struct exchange *exchange, struct exchange **todo)
{
	struct binding *binding;

	list_for_each_safe (&exchange->bindings_out, binding, struct binding, of_source)
		binding_free(binding);
	list_for_each_safe (&exchange->bindings_in, binding, struct binding, of_destination) {
		struct exchange *source = binding->source;

		binding_free(binding);
		if (exchange_is_spent(source))
			doom(source, todo);
	}
}

void
exchange_delete(struct exchange *exchange)
{
	struct exchange *todo = NULL;

	assert_not_dispatching(exchange->vhost->broker);
	assert(!exchange->predeclared);
	doom(exchange, &todo);
	while ((exchange = todo) != NULL) {
		todo = exchange->next;
		parts_delete(&exchange->parts);
		durable_exchange(exchange, DURABLE_REMOVED);
		unbind_all(exchange, &todo);
		exchange_free(exchange);
	}
}

const char *
exchange_type_name(const struct exchange *exchange)
{
	const struct exchange_type *type =
		exchange->delayed ? &exchange_type_delayed : exchange->type;

	return (const char *)type->name.p;
}

bool
exchange_is_topic(const struct exchange *exchange)
{
	return exchange->type == &exchange_type_topic && !exchange->delayed;
}

void
exchange_check(const struct exchange *exchange)
{
	const struct binding *binding;

	assert(exchange_find(exchange->vhost, exchange->name) == exchange);
	assert(!exchange->predeclared || !exchange->auto_delete);
	keys_check(exchange->deduplication);
	list_for_each (&exchange->bindings_out, binding, struct binding, of_source) {
		assert(binding->source == exchange);
		assert((binding->queue == NULL) != (binding->exchange == NULL));
	}
	list_for_each (&exchange->bindings_in, binding, struct binding, of_destination) {
		assert(binding->exchange == exchange);
		assert(exchange_find(exchange->vhost, binding->source->name) == binding->source);
	}
	parts_check(&exchange->parts, NULL, exchange);
	if (exchange->type->check != NULL)
		exchange->type->check(exchange);
}
