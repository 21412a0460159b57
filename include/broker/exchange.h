/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges: declare, delete, route (amqp.md 5). Checks of permissions and of reserved names are the
 * session's; these functions check the model. Broker thread.
 */
#pragma once

#include "broker/model.h"

struct exchange_spec {
	struct bytes name;
	struct bytes type; // "direct"
	bool durable;
	bool auto_delete;
	bool internal;
	struct bytes arguments; // validated field table
};

struct exchange *exchange_find(const struct vhost *vhost, struct bytes name);
/* exchange_find or NOT_FOUND `no exchange 'x' in vhost 'v'` into *refusal. */
struct exchange *exchange_need(const struct vhost *vhost, struct bytes name,
			       const struct reply **refusal);
/* NULL or 406 `unknown exchange type 'foo'`. */
const struct reply *exchange_check_type(struct bytes type);
/* For an exchange that exists: type, durable, auto_delete, internal, alternate-exchange (amqp.md 5.2);
 * NULL or 406 `inequivalent arg ...`. */
const struct reply *exchange_check_equivalent(const struct exchange *exchange,
					      const struct exchange_spec *spec);
/* Whether the arguments are valid for a new exchange (alternate-exchange a longstr, the type's own). */
const struct reply *exchange_check_arguments(const struct vhost *vhost,
					     const struct exchange_spec *spec);
/* The name of the alternate exchange in a table of arguments; n = 0 when there is none. */
struct bytes exchange_alternate_argument(struct bytes arguments);
/* Makes a new one; the name must be free and all checks done. */
struct exchange *exchange_create(struct vhost *vhost, const struct exchange_spec *spec);
/* The source of some binding (if-unused, amqp.md 5.3). */
bool exchange_in_use(const struct exchange *exchange);
/* Removes its bindings on both sides, and auto-delete exchanges that lose their last one; frees it. */
void exchange_delete(struct exchange *exchange);
const char *exchange_type_name(const struct exchange *exchange);
bool exchange_is_topic(const struct exchange *exchange);
/* Asserts what must hold between its lists of bindings and the structures of its type. */
void exchange_check(const struct exchange *exchange);

void route_init(struct route *route);
void route_fini(struct route *route);
/* All queues that this message with these keys (one, more with CC and BCC) reaches from start: bindings,
 * exchanges bound to exchanges, alternate exchanges (amqp.md 5.6, 7.4). Replaces what route held. An
 * exchange on the way may keep a reference to the message (x-recent-history). */
void exchange_route(struct exchange *start, const struct bytes *keys, uint32_t key_count,
		    struct message *message, struct route *route);
/* The same for a message that a client publishes just now: exchanges that deduplicate are asked whether they know it
 * (deduplication.h); what they are to remember, and do when queue_publish() got it taken, goes with the route. */
void exchange_route_published(struct exchange *start, const struct bytes *keys, uint32_t key_count,
			      struct message *message, struct route *route);
