/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vhosts: made with the exchanges that are always there, deleted with all that they hold.
 */
#include "broker/vhost.h"

#include "broker/durable.h"
#include "broker/limits.h"
#include "broker/user.h"

#include "internal.h"
#include "route.h"
#include "util/owned.h"

/* amqp.md 5.1 */
static const struct {
	struct bytes name;
	struct bytes type;
	bool internal;
} predeclared[] = {
	{BYTES(""), BYTES("direct"), false},
	{BYTES("amq.direct"), BYTES("direct"), false},
	{BYTES("amq.fanout"), BYTES("fanout"), false},
	{BYTES("amq.topic"), BYTES("topic"), false},
	{BYTES("amq.headers"), BYTES("headers"), false},
	{BYTES("amq.match"), BYTES("headers"), false},
	{BYTES("amq.rabbitmq.trace"), BYTES("topic"), true},
};

struct vhost *
vhost_find(const struct broker *broker, struct bytes name)
{
	struct map_node *node = map_find(&broker->vhosts, name);

	return node == NULL ? NULL : container_of(node, struct vhost, node);
}

static void
predeclare(struct vhost *vhost)
{
	for (size_t i = 0; i < countof(predeclared); i++) {
		struct exchange_spec spec = {
			.name = predeclared[i].name,
			.type = predeclared[i].type,
			.durable = true,
			.internal = predeclared[i].internal,
		};
		struct exchange *exchange = exchange_make(vhost, &spec);

		exchange->predeclared = true;
	}
	vhost->default_exchange = exchange_find(vhost, BYTES(""));
	assert(vhost->default_exchange != NULL);
}

struct vhost *
vhost_create(struct broker *broker, struct bytes name)
{
	struct vhost *vhost = xcalloc(1, sizeof(*vhost));

	assert_not_dispatching(broker);
	vhost->name = bytes_dup(name);
	vhost->broker = broker;
	vhost->max_connections = LIMIT_NONE;
	vhost->max_queues = LIMIT_NONE;
	map_init(&vhost->exchanges);
	map_init(&vhost->queues);
	policies_init(vhost);
	map_insert(&broker->vhosts, &vhost->node, vhost->name);
	predeclare(vhost);
	durable_vhost(vhost, DURABLE_PUT);
	return vhost;
}

/* No binding is left, so no exchange goes with another. */
static void
unbind_everything(struct vhost *vhost)
{
	struct exchange *exchange;
	struct binding *binding;

	map_for_each (&vhost->exchanges, exchange, struct exchange, node) {
		list_for_each_safe (&exchange->bindings_out, binding, struct binding, of_source)
			binding_free(binding);
	}
}

void
vhost_delete(struct vhost *vhost)
{
	struct exchange *exchange;
	struct queue *queue;
	struct user *user;

	assert_not_dispatching(vhost->broker);
	unbind_everything(vhost);
	map_for_each (&vhost->queues, queue, struct queue, node)
		queue_delete(queue);
	map_for_each (&vhost->exchanges, exchange, struct exchange, node) {
		parts_delete(&exchange->parts);
		exchange_free(exchange);
	}
	assert(vhost->queues.count == 0);
	assert(vhost->exchanges.count == 0);
	map_for_each (&vhost->broker->users, user, struct user, node) {
		user_clear_permissions(vhost->broker, user, vhost->name);
		user_clear_topic_permissions(vhost->broker, user, vhost->name, BYTES(""));
	}
	policies_fini(vhost);
	durable_vhost(vhost, DURABLE_REMOVED);
	map_remove(&vhost->broker->vhosts, &vhost->node);
	map_fini(&vhost->exchanges);
	map_fini(&vhost->queues);
	bytes_drop(&vhost->name);
	xfree(vhost);
}
