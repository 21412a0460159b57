/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.bind, queue.unbind, exchange.bind and exchange.unbind: the same request with another kind of
 * destination, and the checks in RabbitMQ's order (amqp.md 5.5). Binding needs what it names; unbinding
 * what does not exist, or is not bound, succeeds.
 */
#include "broker/binding.h"
#include "handlers.h"

/* One of the four methods. The names are views of the method, or of cleaned. */
struct bind_request {
	enum resource_kind kind; // of the destination
	struct bytes destination;
	struct bytes source;
	struct bytes key;
	struct bytes arguments;
	uint8_t cleaned[2][NAME_MAX_SIZE];
};

static void
request_init(struct bind_request *request, enum resource_kind kind, struct bytes destination,
	     struct bytes source)
{
	request->kind = kind;
	request->destination = name_clean(destination, request->cleaned[0]);
	request->source = name_clean(source, request->cleaned[1]);
}

/* An empty name is the queue declared last, and with it an empty key is that name too. */
static const struct reply *
resolve_queue(const struct channel *channel, struct bind_request *request)
{
	bool unnamed = request->destination.n == 0;
	const struct reply *refusal = channel_queue_name(channel, &request->destination);

	if (refusal == NULL && reply_is_pseudo_queue(request->destination))
		refusal = refuse(ACCESS_REFUSED,
				 "cannot bind or unbind to a volatile (direct reply-to) queue");
	if (unnamed && request->key.n == 0)
		request->key = request->destination;
	return refusal;
}

/* What binding and unbinding have to pass alike, up to existence. */
static const struct reply *
check_request(const struct channel *channel, struct bind_request *request)
{
	const struct vhost *vhost = channel_vhost(channel);
	const struct user *user = channel_user(channel);
	const struct reply *refusal = NULL;

	if (request->kind == RESOURCE_QUEUE)
		refusal = resolve_queue(channel, request);
	if (refusal == NULL)
		refusal = user_check(user, vhost, PERMISSION_WRITE, request->kind,
				     request->destination);
	if (refusal == NULL && request->kind == RESOURCE_EXCHANGE)
		refusal = refuse_default_exchange(request->destination);
	if (refusal == NULL)
		refusal = refuse_default_exchange(request->source);
	if (refusal == NULL)
		refusal = user_check(user, vhost, PERMISSION_READ, RESOURCE_EXCHANGE,
				     request->source);
	return refusal;
}

/* Finds the destination that a binding needs. */
static const struct reply *
need_destination(const struct channel *channel, const struct bind_request *request,
		 struct binding_spec *spec)
{
	const struct vhost *vhost = channel_vhost(channel);
	const struct reply *refusal = NULL;

	if (request->kind == RESOURCE_EXCHANGE)
		spec->exchange = exchange_need(vhost, request->destination, &refusal);
	else
		spec->queue = queue_need(vhost, request->destination, &refusal);
	if (spec->queue != NULL)
		refusal = queue_check_access(spec->queue, &channel->connection->owner);
	return refusal;
}

static const struct reply *
make_binding(struct channel *channel, struct bind_request *request)
{
	struct binding_spec spec = {.arguments = request->arguments};
	const struct reply *refusal = check_request(channel, request);

	if (refusal != NULL)
		return refusal;
	spec.key = request->key;
	spec.source = exchange_need(channel_vhost(channel), request->source, &refusal);
	if (spec.source == NULL)
		return refusal;
	refusal = user_check_topic(channel_user(channel), spec.source, PERMISSION_READ, spec.key);
	if (refusal == NULL)
		refusal = need_destination(channel, request, &spec);
	if (refusal == NULL)
		refusal = binding_check(&spec);
	if (refusal == NULL)
		binding_add(&spec);
	return refusal;
}

static const struct reply *
take_binding(struct channel *channel, struct bind_request *request)
{
	const struct vhost *vhost = channel_vhost(channel);
	struct binding_spec spec = {.arguments = request->arguments};
	const struct reply *refusal = check_request(channel, request);

	if (refusal != NULL)
		return refusal;
	spec.key = request->key;
	spec.source = exchange_find(vhost, request->source);
	if (spec.source == NULL)
		return NULL;
	refusal = user_check_topic(channel_user(channel), spec.source, PERMISSION_READ, spec.key);
	if (refusal != NULL)
		return refusal;
	if (request->kind == RESOURCE_EXCHANGE)
		spec.exchange = exchange_find(vhost, request->destination);
	else
		spec.queue = queue_find(vhost, request->destination);
	if ((spec.queue == NULL && spec.exchange == NULL) || !binding_exists(&spec))
		return NULL;
	if (spec.queue != NULL)
		refusal = queue_check_access(spec.queue, &channel->connection->owner);
	if (refusal == NULL)
		binding_remove(&spec);
	return refusal;
}

const struct reply *
on_queue_bind(struct channel *channel, const struct queue_bind *m)
{
	struct bind_request request = {.key = m->routing_key, .arguments = m->arguments};
	const struct reply *refusal;

	request_init(&request, RESOURCE_QUEUE, m->queue, m->exchange);
	refusal = make_binding(channel, &request);
	if (refusal == NULL)
		channel_answer(channel, m->nowait, &(struct method){.id = METHOD_queue_bind_ok});
	return refusal;
}

const struct reply *
on_queue_unbind(struct channel *channel, const struct queue_unbind *m)
{
	struct bind_request request = {.key = m->routing_key, .arguments = m->arguments};
	const struct reply *refusal;

	request_init(&request, RESOURCE_QUEUE, m->queue, m->exchange);
	refusal = take_binding(channel, &request);
	if (refusal == NULL)
		channel_answer(channel, false, &(struct method){.id = METHOD_queue_unbind_ok});
	return refusal;
}

const struct reply *
on_exchange_bind(struct channel *channel, const struct exchange_bind *m)
{
	struct bind_request request = {.key = m->routing_key, .arguments = m->arguments};
	const struct reply *refusal;

	request_init(&request, RESOURCE_EXCHANGE, m->destination, m->source);
	refusal = make_binding(channel, &request);
	if (refusal == NULL)
		channel_answer(channel, m->nowait, &(struct method){.id = METHOD_exchange_bind_ok});
	return refusal;
}

const struct reply *
on_exchange_unbind(struct channel *channel, const struct exchange_unbind *m)
{
	struct bind_request request = {.key = m->routing_key, .arguments = m->arguments};
	const struct reply *refusal;

	request_init(&request, RESOURCE_EXCHANGE, m->destination, m->source);
	refusal = take_binding(channel, &request);
	if (refusal == NULL)
		channel_answer(channel, m->nowait,
			       &(struct method){.id = METHOD_exchange_unbind_ok});
	return refusal;
}
