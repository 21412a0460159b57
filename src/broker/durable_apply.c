/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From definitions to the model, when the store is read back. Definitions come in the order in which they
 * were logged, but they may come again: a checkpoint has what the log says once more. So each states how
 * its thing is from here on, and one that is there and otherwise is replaced. A later removal in the log
 * may thus take something away that the checkpoint had already in its later form; the log then makes it
 * again, with everything that it has. In the end the model is what it was.
 *
 * What is read was written by this program, behind a checksum. What this version cannot take all the same
 * (a type of exchange that it does not know) is left out with an error in the log, and never grants more
 * than it did.
 */
#include "broker/durable.h"

#include "broker/binding.h"
#include "broker/exchange.h"
#include "broker/limits.h"
#include "broker/policy.h"
#include "broker/user.h"
#include "broker/vhost.h"

#include "internal.h"
#include "keys.h"
#include "store/store.h"
#include "util/log.h"
#include "wire/field.h"

#define ERROR_ROOM 256

static struct bytes
shown_name(const struct definition *definition)
{
	if (definition->kind == DEFINITION_BINDING)
		return definition->destination;
	return definition->name.n != 0 ? definition->name : definition->user;
}

/* It refers to something that has gone: nothing is wrong. */
static void
ignore(const struct definition *definition, const char *missing)
{
	struct bytes name = shown_name(definition);

	log_debug("a definition is ignored: no %s kind=%d name=%.*s vhost=%.*s", missing,
		  (int)definition->kind, BYTES_ARGS(name), BYTES_ARGS(definition->vhost));
}

static void
complain(const struct definition *definition, const char *why)
{
	struct bytes name = shown_name(definition);

	log_error("a definition in the store cannot be used: %s kind=%d name=%.*s vhost=%.*s", why,
		  (int)definition->kind, BYTES_ARGS(name), BYTES_ARGS(definition->vhost));
}

/* Whether names and arguments are such as the wire admits: the model relies on that. */
static bool
is_sound(const struct definition *definition)
{
	const struct bytes names[] = {definition->name, definition->type, definition->key,
				      definition->source, definition->destination};

	for (size_t i = 0; i < countof(names); i++) {
		if (names[i].n > UINT8_MAX) {
			complain(definition, "a name is too long");
			return false;
		}
	}
	if (table_validate(definition->arguments, NULL) == FIELD_OK)
		return true;
	complain(definition, "its arguments are malformed");
	return false;
}

/* The log is the store's to end. */
static void
leave_log(struct queue *q)
{
	if (q->log != NULL)
		q->log->owner = NULL;
	q->log = NULL;
}

static void
leave_logs(struct list *parts)
{
	const struct queue_part *part;

	list_for_each (parts, part, struct queue_part, of_owner)
		leave_log(part->queue);
}

static void
leave_log_of_part(void *context, struct queue *part)
{
	(void)context;
	leave_log(part);
}

static void
remove_vhost(struct vhost *vhost)
{
	struct queue *q;

	map_for_each (&vhost->queues, q, struct queue, node)
		leave_log(q);
	parts_each(vhost, leave_log_of_part, NULL);
	vhost_delete(vhost);
}

static void
apply_vhost(struct broker *broker, const struct definition *definition)
{
	struct vhost *vhost = vhost_find(broker, definition->name);

	if (definition->removed) {
		if (vhost != NULL)
			remove_vhost(vhost);
		return;
	}
	if (vhost == NULL)
		vhost = vhost_create(broker, definition->name);
	vhost_set_limits(vhost, definition_limit_of(definition->max_connections),
			 definition_limit_of(definition->max_queues));
}

/* ---- users ---- */

static void
set_hash(struct user *user, const struct definition *definition)
{
	int status = -1;

	if (definition->hash_kind <= DIGEST_SHA512)
		status = user_set_password_hash(user, (enum digest_kind)definition->hash_kind,
						definition->password_hash);
	if (status == 0)
		return;
	complain(definition, "the password hash is of an unknown kind: no login by password");
	status = user_set_password_hash(user, DIGEST_SHA256, bytes_of(NULL, 0));
	assert(status == 0);
}

static void
apply_user(struct broker *broker, const struct definition *definition)
{
	struct user *user = user_find(broker, definition->name);

	if (definition->removed) {
		if (user != NULL)
			user_delete(broker, user);
		return;
	}
	if (user == NULL)
		user = user_create(broker, definition->name, 0);
	user->tags = (unsigned)definition->tags;
	set_hash(user, definition);
	user_set_limits(user, definition_limit_of(definition->max_connections),
			definition_limit_of(definition->max_channels));
	broker->permission_version++;
}

static void
apply_permission(struct broker *broker, const struct definition *definition)
{
	struct user *user = user_find(broker, definition->user);
	const struct bytes patterns[PERMISSION_COUNT] = {
		[PERMISSION_CONFIGURE] = definition->configure,
		[PERMISSION_WRITE] = definition->write,
		[PERMISSION_READ] = definition->read,
	};
	char error[ERROR_ROOM];

	if (user == NULL) {
		ignore(definition, "user");
		return;
	}
	if (definition->removed) {
		user_clear_permissions(broker, user, definition->vhost);
		return;
	}
	if (user_set_permissions(broker, user, definition->vhost, patterns, error, sizeof(error)) ==
	    0)
		return;
	complain(definition, error);
	user_clear_permissions(broker, user, definition->vhost);
}

/* Without a record everything is allowed, so one that cannot be used allows nothing but the empty key. */
static void
apply_topic_permission(struct broker *broker, const struct definition *definition)
{
	struct user *user = user_find(broker, definition->user);
	struct bytes none = bytes_of(NULL, 0);
	char error[ERROR_ROOM];

	if (user == NULL) {
		ignore(definition, "user");
		return;
	}
	if (definition->exchange.n == 0 || definition->exchange.n > UINT8_MAX ||
	    definition->vhost.n > UINT8_MAX) {
		complain(definition, "a name has a wrong size");
		return;
	}
	if (definition->removed) {
		user_clear_topic_permissions(broker, user, definition->vhost, definition->exchange);
		return;
	}
	if (user_set_topic_permissions(broker, user, definition->vhost, definition->exchange,
				       definition->write, definition->read, error,
				       sizeof(error)) == 0)
		return;
	complain(definition, error);
	if (user_set_topic_permissions(broker, user, definition->vhost, definition->exchange, none,
				       none, error, sizeof(error)) < 0)
		complain(definition, error);
}

/* ---- policies, exchanges, queues, bindings ---- */

static struct vhost *
vhost_of(const struct broker *broker, const struct definition *definition)
{
	struct vhost *vhost = vhost_find(broker, definition->vhost);

	if (vhost == NULL)
		ignore(definition, "vhost");
	return vhost;
}

static void
apply_policy(struct broker *broker, const struct definition *definition)
{
	struct vhost *vhost = vhost_of(broker, definition);
	enum policy_kind kind =
		definition->kind == DEFINITION_OPERATOR_POLICY ? POLICY_OPERATOR : POLICY_USER;
	struct policy_spec spec = {
		.name = definition->name,
		.pattern = definition->pattern,
		.apply_to = definition->apply_to,
		.priority = definition_priority_of(definition->priority),
		.definition = definition->arguments,
	};
	const char *why = NULL;
	struct policy *policy;

	if (vhost == NULL || !is_sound(definition))
		return;
	policy = policy_find(vhost, kind, spec.name);
	if (!definition->removed)
		why = policy_check(kind, &spec);
	if (why != NULL)
		complain(definition, why);
	if (!definition->removed && why == NULL)
		policy_put(vhost, kind, &spec);
	else if (policy != NULL)
		policy_remove(policy);
}

static bool
exchange_is_like(const struct exchange *exchange, const struct exchange_spec *spec)
{
	return exchange->durable && exchange->auto_delete == spec->auto_delete &&
	       exchange->internal == spec->internal &&
	       bytes_equal(bytes_str(exchange_type_name(exchange)), spec->type) &&
	       bytes_equal(exchange->arguments, spec->arguments);
}

static void
put_exchange(struct vhost *vhost, const struct definition *definition,
	     const struct exchange_spec *spec)
{
	const struct reply *refusal = exchange_check_type(spec->type);

	if (refusal == NULL)
		refusal = exchange_check_arguments(vhost, spec);
	if (refusal == NULL)
		exchange_create(vhost, spec);
	else
		complain(definition, refusal->text);
}

static void
remove_exchange(struct exchange *exchange)
{
	leave_logs(&exchange->parts);
	exchange_delete(exchange);
}

static void
apply_exchange(struct broker *broker, const struct definition *definition)
{
	struct vhost *vhost = vhost_of(broker, definition);
	struct exchange_spec spec = {
		.name = definition->name,
		.type = definition->type,
		.durable = true,
		.auto_delete = (definition->flags & DEFINITION_AUTO_DELETE) != 0,
		.internal = (definition->flags & DEFINITION_INTERNAL) != 0,
		.arguments = definition->arguments,
	};
	struct exchange *exchange;

	if (vhost == NULL || !is_sound(definition))
		return;
	exchange = exchange_find(vhost, spec.name);
	if (exchange != NULL && exchange->predeclared)
		return;
	if (exchange != NULL && !definition->removed && exchange_is_like(exchange, &spec))
		return;
	if (exchange != NULL)
		remove_exchange(exchange);
	if (!definition->removed)
		put_exchange(vhost, definition, &spec);
}

static void
remove_queue(struct queue *q)
{
	leave_log(q);
	if (q->life != NULL)
		leave_logs(&q->life->parts);
	queue_delete(q);
}

/* The queue goes on with its log. */
static void
take_log(struct queue *q, struct queue_log *log)
{
	q->log = log;
	q->flags |= QUEUE_STORED;
	q->next_qseq = log->next_qseq;
	log->owner = q;
}

/* A queue never changes: that with the same id is the same. */
static void
put_queue(struct vhost *vhost, const struct definition *definition, struct queue_log *log)
{
	struct queue *q = queue_find(vhost, definition->name);
	struct queue_spec spec = {
		.name = definition->name,
		.durable = true,
		.auto_delete = (definition->flags & DEFINITION_AUTO_DELETE) != 0,
		.arguments = definition->arguments,
	};

	assert(log != NULL);
	assert(log->id == definition->queue_id);
	if (q != NULL && (q->log == NULL || q->log->id != log->id)) {
		remove_queue(q);
		q = NULL;
	}
	if (q == NULL)
		q = queue_create(vhost, &spec);
	take_log(q, log);
}

/* A removal counts by name: when a later queue of the name is there already, bindings of the earlier one
 * were added to it just now, and the log makes it anew behind this. */
static void
apply_queue(struct broker *broker, const struct definition *definition, struct queue_log *log)
{
	struct vhost *vhost = vhost_of(broker, definition);
	struct queue *q;

	if (vhost == NULL || !is_sound(definition))
		return;
	if (!definition->removed) {
		put_queue(vhost, definition, log);
		return;
	}
	q = queue_find(vhost, definition->name);
	if (q != NULL)
		remove_queue(q);
}

/* Whose part it is. */
static bool
find_owner(const struct vhost *vhost, const struct definition *definition, struct part_owner *owner)
{
	if (definition->flags & DEFINITION_OF_EXCHANGE)
		*owner = (struct part_owner){.exchange = exchange_find(vhost, definition->name)};
	else
		*owner = (struct part_owner){.queue = queue_find(vhost, definition->name)};
	if (owner->queue != NULL || owner->exchange != NULL)
		return true;
	ignore(definition, "owner");
	return false;
}

static void
remove_part(struct queue *part)
{
	leave_log(part);
	part_delete(part);
}

/* As with queues, that with the same id is the same; and a removal counts by name. */
static void
apply_part(struct broker *broker, const struct definition *definition, struct queue_log *log)
{
	struct vhost *vhost = vhost_of(broker, definition);
	struct part_owner owner;
	struct queue *part;

	if (vhost == NULL || !is_sound(definition) || !find_owner(vhost, definition, &owner))
		return;
	if (definition->part > UINT32_MAX) {
		complain(definition, "its number is too high");
		return;
	}
	part = part_find(owner, (uint32_t)definition->part);
	if (part != NULL &&
	    (definition->removed || part->log == NULL || part->log->id != log->id)) {
		remove_part(part);
		part = NULL;
	}
	if (definition->removed)
		return;
	assert(log != NULL);
	assert(log->id == definition->queue_id);
	if (part == NULL)
		part = part_create(owner, (uint32_t)definition->part);
	take_log(part, log);
}

static void
change_binding(const struct definition *definition, const struct binding_spec *spec)
{
	const struct reply *refusal;

	if (definition->removed) {
		binding_remove(spec);
		return;
	}
	refusal = binding_check(spec);
	if (refusal == NULL)
		binding_add(spec);
	else
		complain(definition, refusal->text);
}

static void
apply_binding(struct broker *broker, const struct definition *definition)
{
	struct vhost *vhost = vhost_of(broker, definition);
	struct binding_spec spec = {.key = definition->key, .arguments = definition->arguments};

	if (vhost == NULL || !is_sound(definition))
		return;
	spec.source = exchange_find(vhost, definition->source);
	if (definition->flags & DEFINITION_TO_EXCHANGE)
		spec.exchange = exchange_find(vhost, definition->destination);
	else
		spec.queue = queue_find(vhost, definition->destination);
	if (spec.source == NULL || spec.source == vhost->default_exchange)
		ignore(definition, "source");
	else if (spec.queue == NULL && spec.exchange == NULL)
		ignore(definition, "destination");
	else if (spec.exchange != vhost->default_exchange)
		change_binding(definition, &spec);
}

/* ---- all ---- */

void
broker_apply_definition(struct broker *broker, const struct definition *definition,
			struct queue_log *log)
{
	static void (*const apply[DEFINITION_KIND_END])(struct broker * broker,
							const struct definition *definition) = {
		[DEFINITION_VHOST] = apply_vhost,
		[DEFINITION_USER] = apply_user,
		[DEFINITION_PERMISSION] = apply_permission,
		[DEFINITION_TOPIC_PERMISSION] = apply_topic_permission,
		[DEFINITION_EXCHANGE] = apply_exchange,
		[DEFINITION_BINDING] = apply_binding,
		[DEFINITION_POLICY] = apply_policy,
		[DEFINITION_OPERATOR_POLICY] = apply_policy,
	};

	assert_not_dispatching(broker);
	assert(broker->recovering);
	assert(definition->kind < DEFINITION_KIND_END);
	if (definition->kind == DEFINITION_QUEUE) {
		apply_queue(broker, definition, log);
		return;
	}
	if (definition->kind == DEFINITION_PART) {
		apply_part(broker, definition, log);
		return;
	}
	assert(apply[definition->kind] != NULL);
	apply[definition->kind](broker, definition);
}

static void
end_recovery_of(void *context, struct queue *q)
{
	(void)context;
	assert(q->log != NULL);
	q->next_qseq = max_u64(q->next_qseq, q->log->next_qseq);
	if (q->log->cold_count > 0)
		q->flags |= QUEUE_COLD;
	ttl_recovered(q);
}

void
broker_end_recovery(struct broker *broker)
{
	struct vhost *vhost;
	struct queue *q;

	assert(broker->recovering);
	broker->recovering = false;
	map_for_each (&broker->vhosts, vhost, struct vhost, node) {
		policies_apply(vhost);
		map_for_each (&vhost->queues, q, struct queue, node) {
			end_recovery_of(NULL, q);
			queue_expiry_recovered(q);
			keys_set_queue(q, queue_settings(q)->policies);
		}
		parts_each(vhost, end_recovery_of, NULL);
	}
	keys_recovered(broker);
}
