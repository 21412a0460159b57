/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the model to definitions: for each kind of thing one function that says whether it is kept and one
 * that describes it, used by the log of changes and by the snapshot of a checkpoint alike. The way back
 * is in durable_apply.c.
 */
#include "broker/durable.h"

#include "broker/policy.h"

#include "internal.h"
#include "route.h"
#include "store/store.h"
#include "util/digest.h"

/* Numbers of the model that stand in files as they are. */
_Static_assert(DIGEST_MD5 == 0, "is kept in the store");
_Static_assert(DIGEST_SHA256 == 1, "is kept in the store");
_Static_assert(DIGEST_SHA512 == 2, "is kept in the store");
_Static_assert(USER_ADMINISTRATOR == 1, "is kept in the store");
_Static_assert(USER_MONITORING == 2, "is kept in the store");
_Static_assert(USER_POLICYMAKER == 4, "is kept in the store");
_Static_assert(USER_MANAGEMENT == 8, "is kept in the store");
_Static_assert(USER_IMPERSONATOR == 16, "is kept in the store");

/* ---- what is kept ---- */

static bool
exchange_is_kept(const struct exchange *exchange)
{
	return exchange->durable && !exchange->predeclared;
}

static bool
queue_is_kept(const struct queue *q)
{
	return (q->flags & QUEUE_DURABLE) != 0;
}

static bool
binding_is_kept(const struct binding *binding)
{
	if (!binding->source->durable)
		return false;
	return binding->queue != NULL ? queue_is_kept(binding->queue) : binding->exchange->durable;
}

/* ---- descriptions ---- */

static struct definition
describe_vhost(const struct vhost *vhost)
{
	return (struct definition){
		.kind = DEFINITION_VHOST,
		.name = vhost->name,
		.max_connections = definition_limit(vhost->max_connections),
		.max_queues = definition_limit(vhost->max_queues),
	};
}

static struct definition
describe_user(const struct user *user)
{
	return (struct definition){
		.kind = DEFINITION_USER,
		.name = user->name,
		.hash_kind = user->hash_kind,
		.password_hash = user->password_hash,
		.tags = user->tags,
		.max_connections = definition_limit(user->max_connections),
		.max_channels = definition_limit(user->max_channels),
	};
}

static struct definition
describe_permission(const struct user *user, const struct user_permission *permission)
{
	return (struct definition){
		.kind = DEFINITION_PERMISSION,
		.user = user->name,
		.vhost = permission->vhost,
		.configure = permission->patterns[PERMISSION_CONFIGURE].text,
		.write = permission->patterns[PERMISSION_WRITE].text,
		.read = permission->patterns[PERMISSION_READ].text,
	};
}

static struct definition
describe_topic_permission(const struct user *user, const struct topic_permission *permission)
{
	return (struct definition){
		.kind = DEFINITION_TOPIC_PERMISSION,
		.user = user->name,
		.vhost = permission->vhost,
		.exchange = permission->exchange,
		.write = permission->write.text,
		.read = permission->read.text,
	};
}

static struct definition
describe_policy(const struct policy *policy)
{
	return (struct definition){
		.kind = policy->kind == POLICY_OPERATOR ? DEFINITION_OPERATOR_POLICY
							: DEFINITION_POLICY,
		.vhost = policy->vhost->name,
		.name = policy->name,
		.pattern = policy->pattern,
		.apply_to = bytes_str(policy_apply_to_name(policy->apply_to)),
		.priority = definition_priority(policy->priority),
		.arguments = policy->definition,
	};
}

static struct definition
describe_exchange(const struct exchange *exchange)
{
	return (struct definition){
		.kind = DEFINITION_EXCHANGE,
		.vhost = exchange->vhost->name,
		.name = exchange->name,
		.type = bytes_str(exchange_type_name(exchange)),
		.flags = (exchange->auto_delete ? DEFINITION_AUTO_DELETE : 0) |
			 (exchange->internal ? DEFINITION_INTERNAL : 0),
		.arguments = exchange->arguments,
	};
}

/* A part has its owner's name. */
static struct definition
describe_part(const struct queue *q)
{
	const struct queue_part *part = q->life->part;

	return (struct definition){
		.kind = DEFINITION_PART,
		.vhost = q->vhost->name,
		.name = q->name,
		.queue_id = q->log->id,
		.flags = part->of_exchange != NULL ? DEFINITION_OF_EXCHANGE : 0,
		.part = part->number,
	};
}

static struct definition
describe_queue(const struct queue *q)
{
	assert(q->log != NULL);
	if (q->flags & QUEUE_PART)
		return describe_part(q);
	return (struct definition){
		.kind = DEFINITION_QUEUE,
		.vhost = q->vhost->name,
		.name = q->name,
		.queue_id = q->log->id,
		.flags = q->flags & QUEUE_AUTO_DELETE ? DEFINITION_AUTO_DELETE : 0,
		.arguments = q->arguments,
	};
}

static struct definition
describe_binding(const struct binding *binding)
{
	bool to_queue = binding->queue != NULL;

	return (struct definition){
		.kind = DEFINITION_BINDING,
		.vhost = binding->source->vhost->name,
		.source = binding->source->name,
		.destination = to_queue ? binding->queue->name : binding->exchange->name,
		.flags = to_queue ? 0 : DEFINITION_TO_EXCHANGE,
		.key = binding->key,
		.arguments = binding->arguments,
	};
}

/* What a removal says: that which names the thing. */
static struct definition
removal_of(const struct definition *whole)
{
	bool is_binding = whole->kind == DEFINITION_BINDING;
	bool is_part = whole->kind == DEFINITION_PART;

	return (struct definition){
		.kind = whole->kind,
		.removed = true,
		.vhost = whole->vhost,
		.name = whole->name,
		.user = whole->user,
		.exchange = whole->exchange,
		.source = whole->source,
		.destination = whole->destination,
		.key = whole->key,
		.queue_id = whole->queue_id,
		.part = whole->part,
		.flags = is_binding || is_part ? whole->flags : 0,
		.arguments = is_binding ? whole->arguments : bytes_of(NULL, 0),
	};
}

/* ---- the log of changes ---- */

static bool
is_logging(const struct broker *broker)
{
	return broker->store != NULL && !broker->recovering;
}

static void
log_change(struct broker *broker, struct definition definition, enum durable_change change)
{
	if (change == DURABLE_REMOVED)
		definition = removal_of(&definition);
	broker->effect_lsn = max_u64(broker->effect_lsn, store_define(broker->store, &definition));
}

void
durable_vhost(const struct vhost *vhost, enum durable_change change)
{
	if (is_logging(vhost->broker))
		log_change(vhost->broker, describe_vhost(vhost), change);
}

void
durable_user(const struct user *user, enum durable_change change)
{
	/* one who is gone already lives on for connections only */
	if (is_logging(user->broker) && !user->deleted)
		log_change(user->broker, describe_user(user), change);
}

void
durable_permission(const struct user *user, const struct user_permission *permission,
		   enum durable_change change)
{
	if (is_logging(user->broker))
		log_change(user->broker, describe_permission(user, permission), change);
}

void
durable_topic_permission(const struct user *user, const struct topic_permission *permission,
			 enum durable_change change)
{
	if (is_logging(user->broker))
		log_change(user->broker, describe_topic_permission(user, permission), change);
}

void
durable_policy(const struct policy *policy, enum durable_change change)
{
	if (is_logging(policy->vhost->broker))
		log_change(policy->vhost->broker, describe_policy(policy), change);
}

void
durable_exchange(const struct exchange *exchange, enum durable_change change)
{
	struct broker *broker = exchange->vhost->broker;

	if (is_logging(broker) && exchange_is_kept(exchange))
		log_change(broker, describe_exchange(exchange), change);
}

void
durable_binding(const struct binding *binding, enum durable_change change)
{
	struct broker *broker = binding->source->vhost->broker;

	if (is_logging(broker) && binding_is_kept(binding))
		log_change(broker, describe_binding(binding), change);
}

void
durable_queue_made(struct queue *q)
{
	struct broker *broker = q->vhost->broker;

	if (!is_logging(broker) || !queue_is_kept(q))
		return;
	assert(q->log == NULL);
	q->log = store_queue_new(broker->store);
	q->log->owner = q;
	q->flags |= QUEUE_STORED;
	log_change(broker, describe_queue(q), DURABLE_PUT);
}

void
durable_queue_gone(const struct queue *q)
{
	struct broker *broker = q->vhost->broker;

	if (is_logging(broker) && q->log != NULL)
		log_change(broker, describe_queue(q), DURABLE_REMOVED);
}

static void
forget_log(void *context, struct queue *q)
{
	(void)context;
	q->log = NULL;
}

void
durable_leave(struct broker *broker)
{
	struct vhost *vhost;
	struct queue *q;

	assert_not_dispatching(broker);
	broker->store = NULL;
	map_for_each (&broker->vhosts, vhost, struct vhost, node) {
		map_for_each (&vhost->queues, q, struct queue, node)
			q->log = NULL;
		parts_each(vhost, forget_log, NULL);
	}
}

/* ---- all of them ---- */

/* Who is told. */
struct listener {
	void (*each)(void *context, const struct definition *definition);
	void *context; // for each
};

static void
tell(const struct listener *listener, struct definition definition)
{
	listener->each(listener->context, &definition);
}

static void
tell_user(const struct listener *listener, const struct user *user)
{
	const struct user_permission *permission;
	const struct topic_permission *topic_permission;

	tell(listener, describe_user(user));
	map_for_each (&user->permissions, permission, struct user_permission, node)
		tell(listener, describe_permission(user, permission));
	map_for_each (&user->topic_permissions, topic_permission, struct topic_permission, node)
		tell(listener, describe_topic_permission(user, topic_permission));
}

static void
tell_bindings(const struct listener *listener, const struct exchange *source)
{
	const struct binding *binding;

	list_for_each (&source->bindings_out, binding, struct binding, of_source) {
		if (binding_is_kept(binding))
			tell(listener, describe_binding(binding));
	}
}

static void
tell_policies(const struct listener *listener, const struct vhost *vhost)
{
	const struct policy *policy;

	for (unsigned kind = 0; kind < POLICY_KIND_COUNT; kind++)
		list_for_each (&vhost->policies[kind].ranked, policy, struct policy, ranked)
			tell(listener, describe_policy(policy));
}

/* Of one that is kept. The numbers that a queue gave out are its while it lives. */
static void
tell_queue(const struct listener *listener, const struct queue *q)
{
	q->log->next_qseq = q->next_qseq;
	tell(listener, describe_queue(q));
}

static void
tell_parts(const struct listener *listener, const struct list *parts)
{
	const struct queue_part *part;

	list_for_each (parts, part, struct queue_part, of_owner)
		tell_queue(listener, part->queue);
}

/* In one walk over the queues, for a checkpoint is taken in one go: 100,000 of them are not in any cache. */
static void
tell_content(const struct listener *listener, const struct vhost *vhost)
{
	const struct exchange *exchange;
	const struct queue *q;

	tell_policies(listener, vhost);
	map_for_each (&vhost->exchanges, exchange, struct exchange, node) {
		if (!exchange_is_kept(exchange))
			continue;
		tell(listener, describe_exchange(exchange));
		tell_parts(listener, &exchange->parts);
	}
	map_for_each (&vhost->queues, q, struct queue, node) {
		if (!queue_is_kept(q))
			continue;
		tell_queue(listener, q);
		if (q->life != NULL)
			tell_parts(listener, &q->life->parts);
	}
	map_for_each (&vhost->exchanges, exchange, struct exchange, node)
		tell_bindings(listener, exchange);
}

void
broker_each_definition(const struct broker *broker,
		       void (*each)(void *context, const struct definition *definition),
		       void *context)
{
	const struct listener listener = {.each = each, .context = context};
	const struct vhost *vhost;
	const struct user *user;

	assert_not_dispatching(broker);
	assert(!broker->recovering);
	map_for_each (&broker->vhosts, vhost, struct vhost, node)
		tell(&listener, describe_vhost(vhost));
	map_for_each (&broker->users, user, struct user, node)
		tell_user(&listener, user);
	map_for_each (&broker->vhosts, vhost, struct vhost, node)
		tell_content(&listener, vhost);
}

static void
add_to_snapshot(void *context, const struct definition *definition)
{
	store_snapshot_add(context, definition);
}

void
broker_snapshot(const struct broker *broker, struct store *store)
{
	broker_each_definition(broker, add_to_snapshot, store);
}
