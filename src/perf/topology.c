/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers in names have as many digits as the largest needs, which keeps all names of a kind equally
 * long. Bindings are made without waiting for each, as there may be many.
 */
#include "topology.h"

#include <inttypes.h>
#include <stdio.h>
#include "client.h"
#include "options.h"
#include "util/mem.h"
#include "wire/field.h"

/* Octets of the arguments of a queue, at most. */
#define ARGUMENTS_MAX 512

static int
digits(uint64_t count)
{
	int n = 1;

	for (uint64_t last = count - 1; last >= 10; last /= 10)
		n++;
	return n;
}

struct bytes
topology_queue(const struct topology *topology, uint64_t index, char out[QUEUE_NAME_MAX])
{
	const struct options *options = topology->options;
	int n;

	if (options->queues == 1)
		n = snprintf(out, QUEUE_NAME_MAX, "%s", options->queue);
	else
		n = snprintf(out, QUEUE_NAME_MAX, "%s-%0*" PRIu64, options->queue,
			     digits(options->queues), index);
	return bytes_of(out, (size_t)n);
}

/* The one more. */
static struct bytes
dead_queue(const struct topology *topology, char out[QUEUE_NAME_MAX])
{
	int n = snprintf(out, QUEUE_NAME_MAX, "%s-dead", topology->options->queue);

	return bytes_of(out, (size_t)n);
}

struct bytes
topology_source(const struct topology *topology, uint64_t index, char out[QUEUE_NAME_MAX])
{
	if (topology->options->expire.to != 0)
		return dead_queue(topology, out);
	return topology_queue(topology, index, out);
}

static bool
is_predeclared(const char *exchange)
{
	return strncmp(exchange, "amq.", 4) == 0;
}

/* The key that is bound (or published to) as number index. */
static struct bytes
key_text(const struct topology *topology, uint64_t index, bool pattern, char out[QUEUE_NAME_MAX])
{
	const struct options *options = topology->options;
	bool star = strcmp(options->wildcard, "star") == 0;
	int width = digits(options->bindings), n;
	unsigned i = (unsigned)index;

	if (options->key[0] != '\0')
		return bytes_str(options->key);
	if (options->exchange_type == EXCHANGE_DEFAULT)
		return topology_queue(topology, index, out);
	if (options->exchange_type != EXCHANGE_TOPIC)
		n = snprintf(out, QUEUE_NAME_MAX, "key-%0*u", width, i);
	else if (star)
		n = snprintf(out, QUEUE_NAME_MAX, "%s.b%0*u.%s.d%0*u", pattern ? "*" : "a", width,
			     i, pattern ? "*" : "c", width, i);
	else
		n = snprintf(out, QUEUE_NAME_MAX, "a%0*u.b%0*u.c%0*u.%s", width, i, width, i, width,
			     i, pattern ? "#" : "d");
	return bytes_of(out, (size_t)n);
}

static size_t
count_keys(const struct options *options)
{
	if (options->key[0] != '\0' || options->exchange_type == EXCHANGE_FANOUT)
		return 1;
	return options->exchange_type == EXCHANGE_DEFAULT ? options->queues : options->bindings;
}

void
topology_init(struct topology *topology, const struct options *options)
{
	bool number = options->exchange_type == EXCHANGE_HEADERS;
	char text[QUEUE_NAME_MAX];

	*topology = (struct topology){.options = options, .copies = 1};
	topology->key_count = count_keys(options);
	if (options->exchange_type == EXCHANGE_FANOUT || (!number && options->key[0] != '\0'))
		topology->copies = options->queues;
	if (number)
		topology->key_size = sizeof(uint32_t);
	else
		topology->key_size = key_text(topology, 0, false, text).n;
	topology->keys = xmalloc(topology->key_count * topology->key_size);
	for (size_t i = 0; i < topology->key_count; i++) {
		uint8_t *key = topology->keys + i * topology->key_size;

		if (number)
			store_long(key, (uint32_t)i);
		else
			memcpy(key, key_text(topology, i, false, text).p, topology->key_size);
	}
}

void
topology_fini(struct topology *topology)
{
	xfree(topology->keys);
}

/* ---- on the broker -------------------------------------------------------------------------------- */

static void
exchange_declare(const struct topology *topology, struct client *client)
{
	const struct options *options = topology->options;
	struct method m = {.id = METHOD_exchange_declare};
	uint8_t arguments[64];
	struct writer w = writer_of(arguments, sizeof(arguments));

	if (options->exchange_type == EXCHANGE_DEFAULT || is_predeclared(options->exchange))
		return;
	if (options->exchange_type == EXCHANGE_DELAYED)
		table_put_string(&w, BYTES("x-delayed-type"), BYTES("direct"));
	m.exchange_declare.arguments = bytes_of(arguments, (size_t)(w.p - arguments));
	m.exchange_declare.exchange = bytes_str(options->exchange);
	m.exchange_declare.type = bytes_str(exchange_type_name(options->exchange_type));
	m.exchange_declare.durable = options->durable;
	client_call(client, &m, METHOD_exchange_declare_ok);
}

static void
bind(const struct topology *topology, struct client *client, uint64_t index, uint64_t queue)
{
	const struct options *options = topology->options;
	struct method m = {.id = METHOD_queue_bind};
	char name[QUEUE_NAME_MAX], key[QUEUE_NAME_MAX];
	uint8_t arguments[64];
	struct writer w = writer_of(arguments, sizeof(arguments));

	if (options->exchange_type == EXCHANGE_HEADERS) {
		table_put_string(&w, BYTES("x-match"), BYTES("all"));
		table_put_int(&w, BYTES("number"), (int32_t)index);
		m.queue_bind.arguments = bytes_of(arguments, (size_t)(w.p - arguments));
	}
	m.queue_bind.queue = topology_queue(topology, queue, name);
	m.queue_bind.exchange = bytes_str(options->exchange);
	m.queue_bind.routing_key = key_text(topology, index, true, key);
	m.queue_bind.nowait = true;
	client_send(client, &m);
}

static void
bind_all(const struct topology *topology, struct client *client)
{
	const struct options *options = topology->options;
	uint64_t count = topology->copies > 1 ? topology->copies : options->bindings;

	if (options->exchange_type == EXCHANGE_DEFAULT)
		return;
	for (uint64_t i = 0; i < count; i++)
		bind(topology, client, i, i % options->queues);
}

static void
dead_queue_declare(const struct topology *topology, struct client *client)
{
	struct method m = {.id = METHOD_queue_declare};
	char name[QUEUE_NAME_MAX];

	m.queue_declare.queue = dead_queue(topology, name);
	m.queue_declare.durable = topology->options->durable;
	client_call(client, &m, METHOD_queue_declare_ok);
}

/* What the queues are asked for. */
static struct bytes
queue_arguments(const struct topology *topology, uint8_t room[ARGUMENTS_MAX])
{
	const struct options *options = topology->options;
	struct writer w = writer_of(room, ARGUMENTS_MAX);
	char dead[QUEUE_NAME_MAX];

	if (options->max_length != UINT64_MAX)
		table_put_long(&w, BYTES("x-max-length"), (int64_t)options->max_length);
	if (options->priorities != 0)
		table_put_long(&w, BYTES("x-max-priority"), (int64_t)options->priorities);
	if (options->dead_letters) {
		table_put_string(&w, BYTES("x-dead-letter-exchange"), BYTES(""));
		table_put_string(&w, BYTES("x-dead-letter-routing-key"),
				 dead_queue(topology, dead));
	}
	return bytes_of(room, (size_t)(w.p - room));
}

void
topology_declare(const struct topology *topology, struct client *client)
{
	const struct options *options = topology->options;
	struct method m = {.id = METHOD_queue_declare};
	char name[QUEUE_NAME_MAX];
	uint8_t arguments[ARGUMENTS_MAX];

	topology_delete(topology, client);
	exchange_declare(topology, client);
	if (options->dead_letters)
		dead_queue_declare(topology, client);
	m.queue_declare.arguments = queue_arguments(topology, arguments);
	for (uint64_t i = 0; i < options->queues; i++) {
		m.queue_declare.queue = topology_queue(topology, i, name);
		m.queue_declare.durable = options->durable;
		client_call(client, &m, METHOD_queue_declare_ok);
	}
	bind_all(topology, client);
	(void)topology_ready(topology, client);
}

void
topology_delete(const struct topology *topology, struct client *client)
{
	const struct options *options = topology->options;
	struct method queue = {.id = METHOD_queue_delete};
	struct method exchange = {.id = METHOD_exchange_delete};
	char name[QUEUE_NAME_MAX];

	for (uint64_t i = 0; i < options->queues; i++) {
		queue.queue_delete.queue = topology_queue(topology, i, name);
		client_call(client, &queue, METHOD_queue_delete_ok);
	}
	if (options->dead_letters) {
		queue.queue_delete.queue = dead_queue(topology, name);
		client_call(client, &queue, METHOD_queue_delete_ok);
	}
	if (options->exchange_type == EXCHANGE_DEFAULT || is_predeclared(options->exchange))
		return;
	exchange.exchange_delete.exchange = bytes_str(options->exchange);
	client_call(client, &exchange, METHOD_exchange_delete_ok);
}

uint64_t
topology_ready(const struct topology *topology, struct client *client)
{
	struct method m = {.id = METHOD_queue_declare};
	char name[QUEUE_NAME_MAX];
	uint64_t ready = 0;

	m.queue_declare.passive = true;
	for (uint64_t i = 0; i < topology->options->queues; i++) {
		m.queue_declare.queue = topology_queue(topology, i, name);
		ready += client_call(client, &m, METHOD_queue_declare_ok)
				 ->queue_declare_ok.message_count;
	}
	return ready;
}
