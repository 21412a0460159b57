/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AMQP conversation of a client, apart from the messages. One thread.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include "complain.h"
#include "engine.h"
#include "net/connect.h"
#include "uri.h"
#include "wire/field.h"

#define SETUP_LIMIT_US (30 * 1000000ULL) // for one answer
#define FRAME_MAX_ASKED 131072		 // what RabbitMQ offers
#define METHOD_FRAME_MAX 8192		 // the longest that we write

/* ---- input ---------------------------------------------------------------------------------------- */

static void
on_close(const struct method *m)
{
	const struct bytes text = m->id == METHOD_connection_close ? m->connection_close.reply_text
								   : m->channel_close.reply_text;

	fail("the broker closes: %.*s", BYTES_ARGS(text));
}

static void
on_method(struct client *client, struct bytes payload)
{
	struct method m;

	if (client->role != NULL && client->role->method != NULL &&
	    client->role->method(client, payload))
		return;
	if (method_decode(&m, payload) != METHOD_OK)
		fail("the broker sent a method that cannot be read");
	if (m.id == client->awaited) {
		client->answer = m;
		client->awaited = 0;
	} else if ((m.id == METHOD_connection_close || m.id == METHOD_channel_close) &&
		   !client->closing) {
		on_close(&m);
	} else if (m.id == METHOD_basic_cancel) {
		fail("the broker cancelled a consumer");
	}
}

size_t
client_frame(struct client *client, struct bytes input)
{
	struct frame frame;

	switch (frame_cut(&frame, input, UINT32_MAX - FRAME_OVERHEAD)) {
	case FRAME_OK:
		break;
	case FRAME_PARTIAL:
		return 0;
	default:
		fail("the broker sent a broken frame");
	}
	if (frame.type == FRAME_METHOD)
		on_method(client, frame.payload);
	return FRAME_OVERHEAD + (size_t)frame.size;
}

static size_t
client_frames(struct client *client, struct bytes input)
{
	size_t used = 0, n;

	while ((n = client_frame(client, bytes_of(input.p + used, input.n - used))) != 0)
		used += n;
	return used;
}

static size_t
on_input(struct conn *conn, struct bytes input)
{
	struct client *client = conn_owner(conn);

	if (!client->opened && bytes_has_prefix(input, BYTES("AMQP")))
		fail("%s does not speak AMQP 0-9-1", client->host);
	if (client->role != NULL && client->role->input != NULL)
		return client->role->input(client, input);
	return client_frames(client, input);
}

static void
on_drained(struct conn *conn)
{
	struct client *client = conn_owner(conn);

	client->engine->drained = true;
}

static void
on_closed(struct conn *conn, int error)
{
	struct client *client = conn_owner(conn);

	client->conn = NULL;
	if (client->closing)
		return;
	fail("%s %s: %s", client->opened ? "lost the connection to" : "cannot connect to",
	     client->host, error != 0 ? strerror(-error) : "the broker closed it");
}

static const struct conn_ops ops = {
	.input = on_input,
	.drained = on_drained,
	.closed = on_closed,
};

/* ---- output --------------------------------------------------------------------------------------- */

static void
send_on(struct client *client, uint16_t channel, const struct method *method)
{
	struct writer w = writer_of(conn_reserve(client->conn, METHOD_FRAME_MAX), METHOD_FRAME_MAX);
	const uint8_t *start = w.p;

	frame_write_method(&w, channel, method);
	if (w.bad)
		fail("a method is too long to be sent");
	conn_commit(client->conn, (size_t)(w.p - start));
}

void
client_send(struct client *client, const struct method *method)
{
	send_on(client, CLIENT_CHANNEL, method);
}

static void
await(struct client *client, uint32_t answer_id)
{
	uint64_t limit_us = client->engine->now_us + SETUP_LIMIT_US;

	client->awaited = answer_id;
	while (client->awaited != 0 && client->conn != NULL) {
		engine_turn(client->engine, 100);
		if (client->closing ? client->engine->now_us > limit_us - SETUP_LIMIT_US * 9 / 10
				    : client->engine->now_us > limit_us)
			break;
		if (client->engine->interrupted && !client->opened)
			fail("interrupted");
	}
	if (client->awaited != 0 && !client->closing)
		fail("%s does not answer", client->host);
}

const struct method *
client_call(struct client *client, const struct method *method, uint32_t answer_id)
{
	client_send(client, method);
	await(client, answer_id);
	return &client->answer;
}

/* ---- opening and closing -------------------------------------------------------------------------- */

static void
send_start_ok(struct client *client, const struct uri *uri)
{
	uint8_t table[256], *capabilities;
	char response[2 * URI_PART_MAX + 2];
	struct writer w = writer_of(table, sizeof(table));
	struct method m = {.id = METHOD_connection_start_ok};
	int n;

	table_put_string(&w, BYTES("product"), BYTES("pannier-perf"));
	table_put_string(&w, BYTES("version"), bytes_str(PACKAGE_VERSION));
	capabilities = table_begin(&w, BYTES("capabilities"));
	table_put_bool(&w, BYTES("authentication_failure_close"), true);
	table_end(&w, capabilities);
	assert(!w.bad);
	n = snprintf(response, sizeof(response), "%c%s%c%s", 0, uri->user, 0, uri->password);
	m.connection_start_ok.client_properties = bytes_of(table, (size_t)(w.p - table));
	m.connection_start_ok.mechanism = BYTES("PLAIN");
	m.connection_start_ok.response = bytes_of(response, (size_t)n);
	m.connection_start_ok.locale = BYTES("en_US");
	send_on(client, 0, &m);
}

static void
send_tune_ok(struct client *client)
{
	const struct connection_tune *tune = &client->answer.connection_tune;
	struct method m = {.id = METHOD_connection_tune_ok};

	client->frame_max = FRAME_MAX_ASKED;
	if (tune->frame_max != 0 && tune->frame_max < FRAME_MAX_ASKED)
		client->frame_max = tune->frame_max;
	m.connection_tune_ok.channel_max = tune->channel_max;
	m.connection_tune_ok.frame_max = client->frame_max;
	m.connection_tune_ok.heartbeat = 0;
	send_on(client, 0, &m);
}

void
client_open(struct client *client, struct engine *engine, const struct uri *uri,
	    const struct client_role *role)
{
	struct method open = {.id = METHOD_connection_open};
	struct method channel = {.id = METHOD_channel_open};

	*client = (struct client){.engine = engine, .role = role, .host = uri->host};
	client->conn = conn_connect(engine->net, uri->host, uri->port, NULL, &ops, client);
	conn_write(client->conn, bytes_of(protocol_header, PROTOCOL_HEADER_SIZE));
	await(client, METHOD_connection_start);
	send_start_ok(client, uri);
	await(client, METHOD_connection_tune);
	send_tune_ok(client);
	open.connection_open.virtual_host = bytes_str(uri->vhost);
	send_on(client, 0, &open);
	await(client, METHOD_connection_open_ok);
	client_call(client, &channel, METHOD_channel_open_ok);
	client->opened = true;
}

void
client_close(struct client *client)
{
	struct method m = {.id = METHOD_connection_close};

	client->closing = true;
	if (client->conn == NULL)
		return;
	m.connection_close.reply_code = 200;
	m.connection_close.reply_text = BYTES("done");
	send_on(client, 0, &m);
	await(client, METHOD_connection_close_ok);
	if (client->conn != NULL)
		conn_abort(client->conn, 0);
	while (client->conn != NULL)
		engine_turn(client->engine, 0);
}
