/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Class exchange: the checks in RabbitMQ's order (amqp.md 5.2, 5.3), then the model. Binding is
 * in on_bind.c.
 */
#include "broker/exchange.h"
#include "broker/limits.h"
#include "handlers.h"

static const struct reply *
check(const struct channel *channel, enum permission permission, struct bytes exchange)
{
	return user_check(channel_user(channel), channel_vhost(channel), permission,
			  RESOURCE_EXCHANGE, exchange);
}

const struct reply *
refuse_default_exchange(struct bytes name)
{
	if (name.n != 0)
		return NULL;
	return refuse(ACCESS_REFUSED, "operation not permitted on the default exchange");
}

/* A new exchange: reserved names, what an alternate exchange needs, the limit. */
static const struct reply *
check_new(const struct channel *channel, const struct exchange_spec *spec)
{
	struct bytes alternate = exchange_alternate_argument(spec->arguments);
	const struct reply *refusal = name_check_reserved("exchange", spec->name);

	if (refusal == NULL)
		refusal = exchange_check_arguments(channel_vhost(channel), spec);
	if (refusal == NULL && alternate.n != 0)
		refusal = check(channel, PERMISSION_READ, spec->name);
	if (refusal == NULL && alternate.n != 0)
		refusal = check(channel, PERMISSION_WRITE, alternate);
	if (refusal == NULL)
		refusal = limits_check_exchange(channel_vhost(channel), spec->name);
	return refusal;
}

static const struct reply *
declare_active(struct channel *channel, const struct exchange_spec *spec)
{
	const struct exchange *exchange;
	const struct reply *refusal = exchange_check_type(spec->type);

	if (refusal == NULL)
		refusal = refuse_default_exchange(spec->name);
	if (refusal == NULL)
		refusal = check(channel, PERMISSION_CONFIGURE, spec->name);
	if (refusal != NULL)
		return refusal;
	exchange = exchange_find(channel_vhost(channel), spec->name);
	if (exchange != NULL)
		return exchange_check_equivalent(exchange, spec);
	refusal = check_new(channel, spec);
	if (refusal == NULL)
		exchange_create(channel_vhost(channel), spec);
	return refusal;
}

const struct reply *
on_exchange_declare(struct channel *channel, const struct exchange_declare *m)
{
	uint8_t cleaned[NAME_MAX_SIZE];
	struct exchange_spec spec = {
		.name = name_clean(m->exchange, cleaned),
		.type = m->type,
		.durable = m->durable,
		.auto_delete = m->auto_delete,
		.internal = m->internal,
		.arguments = m->arguments,
	};
	const struct reply *refusal;

	if (m->passive) {
		refusal = refuse_default_exchange(spec.name);
		if (refusal == NULL)
			exchange_need(channel_vhost(channel), spec.name, &refusal);
	} else {
		refusal = declare_active(channel, &spec);
	}
	if (refusal == NULL)
		channel_answer(channel, m->nowait,
			       &(struct method){.id = METHOD_exchange_declare_ok});
	return refusal;
}

static const struct reply *
delete_exchange(struct channel *channel, struct bytes name, bool if_unused)
{
	struct exchange *exchange;
	const struct reply *refusal = refuse_default_exchange(name);

	if (refusal != NULL)
		return refusal;
	if (bytes_has_prefix(name, BYTES("amq.")))
		return refuse(ACCESS_REFUSED,
			      "deletion of system exchange '%.*s' in vhost '%.*s' not allowed",
			      BYTES_ARGS(name), BYTES_ARGS(channel_vhost(channel)->name));
	refusal = check(channel, PERMISSION_CONFIGURE, name);
	exchange = exchange_find(channel_vhost(channel), name);
	if (refusal != NULL || exchange == NULL)
		return refusal;
	if (if_unused && exchange_in_use(exchange))
		return refuse(PRECONDITION_FAILED, "exchange '%.*s' in vhost '%.*s' in use",
			      BYTES_ARGS(name), BYTES_ARGS(channel_vhost(channel)->name));
	exchange_delete(exchange);
	return NULL;
}

const struct reply *
on_exchange_delete(struct channel *channel, const struct exchange_delete *m)
{
	uint8_t cleaned[NAME_MAX_SIZE];
	const struct reply *refusal =
		delete_exchange(channel, name_clean(m->exchange, cleaned), m->if_unused);

	if (refusal == NULL)
		channel_answer(channel, m->nowait,
			       &(struct method){.id = METHOD_exchange_delete_ok});
	return refusal;
}
