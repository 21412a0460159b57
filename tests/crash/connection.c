/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the crash campaigns that come and go with the broker, and what all messages need. */
#include "crash/ledger.h"

#include <amqp_tcp_socket.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_US 5000

/* ---- connections ---- */

static amqp_table_t
capabilities(void)
{
	static amqp_table_entry_t blocked, property;

	blocked = (amqp_table_entry_t){
		.key = amqp_cstring_bytes("connection.blocked"),
		.value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = true},
	};
	property = (amqp_table_entry_t){
		.key = amqp_cstring_bytes("capabilities"),
		.value = {.kind = AMQP_FIELD_KIND_TABLE,
			  .value.table = {.num_entries = 1, .entries = &blocked}},
	};
	return (amqp_table_t){.num_entries = 1, .entries = &property};
}

amqp_connection_state_t
connect_once(void)
{
	const struct timeval limit = {.tv_sec = AWAIT_S};
	amqp_connection_state_t conn = amqp_new_connection();
	amqp_socket_t *sock = amqp_tcp_socket_new(conn);
	amqp_table_t properties = capabilities();

	if (!sock)
		fault("no memory for a connection");
	amqp_set_rpc_timeout(conn, &limit);
	amqp_set_handshake_timeout(conn, &limit);
	if (amqp_socket_open(sock, "127.0.0.1", options.port) == AMQP_STATUS_OK) {
		amqp_rpc_reply_t reply =
			amqp_login_with_properties(conn, "/", 0, 131072, 0, &properties,
						   AMQP_SASL_METHOD_PLAIN, "guest", "guest");
		if (reply.reply_type == AMQP_RESPONSE_NORMAL && amqp_channel_open(conn, 1))
			return conn;
		if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION)
			fault("the login is refused");
	}
	amqp_destroy_connection(conn);
	return NULL;
}

amqp_connection_state_t
connect_again(void)
{
	uint64_t end = now_us() + AWAIT_S * 1000000ULL;

	while (!stopping()) {
		amqp_connection_state_t conn = connect_once();
		if (conn)
			return conn;
		if (now_us() > end)
			fault("nobody answers on port %d for %d s", options.port, AWAIT_S);
		sleep_us(RETRY_US);
	}
	return NULL;
}

void
forget(amqp_connection_state_t conn)
{
	if (conn)
		amqp_destroy_connection(conn);
}

void
disconnect(amqp_connection_state_t conn)
{
	if (!conn)
		return;
	amqp_connection_close(conn, AMQP_REPLY_SUCCESS);
	amqp_destroy_connection(conn);
}

/* ---- replies ---- */

static int
lost(int status)
{
	if (status == AMQP_STATUS_TIMEOUT)
		fault("no reply within %d s", AWAIT_S);
	if (status != AMQP_STATUS_CONNECTION_CLOSED && status != AMQP_STATUS_SOCKET_ERROR &&
	    status != AMQP_STATUS_SOCKET_CLOSED && status != AMQP_STATUS_TCP_ERROR)
		fault("the connection breaks: %s", amqp_error_string2(status));
	return CALL_LOST;
}

/* The channel was closed by the server: says so, and opens it again. */
static int
reopen(amqp_connection_state_t conn, int code)
{
	amqp_channel_close_ok_t ok = {0};

	if (amqp_send_method(conn, 1, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok) != AMQP_STATUS_OK)
		return CALL_LOST;
	amqp_channel_open(conn, 1);
	int opened = outcome(conn);
	return opened == CALL_OK ? code : opened;
}

int
outcome(amqp_connection_state_t conn)
{
	amqp_rpc_reply_t reply = amqp_get_rpc_reply(conn);

	switch (reply.reply_type) {
	case AMQP_RESPONSE_NORMAL:
		return CALL_OK;
	case AMQP_RESPONSE_LIBRARY_EXCEPTION:
		return lost(reply.library_error);
	case AMQP_RESPONSE_SERVER_EXCEPTION:
		if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
			const amqp_channel_close_t *m = reply.reply.decoded;
			return reopen(conn, m->reply_code);
		}
		if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
			const amqp_connection_close_t *m = reply.reply.decoded;
			fault("connection closed: %d %.*s", m->reply_code, (int)m->reply_text.len,
			      (const char *)m->reply_text.bytes);
		}
		break;
	case AMQP_RESPONSE_NONE:
		break;
	}
	fault("a strange reply, type %d", (int)reply.reply_type);
}

bool
went_well(amqp_connection_state_t conn, const char *what)
{
	int code = outcome(conn);

	if (code > 0)
		fault("%s: refused with %d", what, code);
	return code == CALL_OK;
}

bool
was_sent(int status)
{
	return status == AMQP_STATUS_OK || lost(status) == CALL_OK;
}

/* A frame with which the server ends something that it must not end. */
static void
refuse_close(const amqp_frame_t *frame)
{
	if (frame->frame_type != AMQP_FRAME_METHOD)
		return;
	if (frame->payload.method.id == AMQP_CHANNEL_CLOSE_METHOD) {
		const amqp_channel_close_t *m = frame->payload.method.decoded;
		fault("channel closed: %d %.*s", m->reply_code, (int)m->reply_text.len,
		      (const char *)m->reply_text.bytes);
	}
	if (frame->payload.method.id == AMQP_CONNECTION_CLOSE_METHOD) {
		const amqp_connection_close_t *m = frame->payload.method.decoded;
		fault("connection closed: %d %.*s", m->reply_code, (int)m->reply_text.len,
		      (const char *)m->reply_text.bytes);
	}
}

int
next_frame(amqp_connection_state_t conn, amqp_frame_t *frame, unsigned ms)
{
	const struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	amqp_maybe_release_buffers(conn);
	int status = amqp_simple_wait_frame_noblock(conn, frame, &limit);
	if (status == AMQP_STATUS_OK)
		refuse_close(frame);
	else if (status != AMQP_STATUS_TIMEOUT)
		return lost(status);
	return status;
}

/* ---- what stands before the load ---- */

int
queue_count(amqp_connection_state_t conn, const char *queue, uint32_t *ready)
{
	amqp_maybe_release_buffers(conn);
	const amqp_queue_declare_ok_t *ok = amqp_queue_declare(conn, 1, amqp_cstring_bytes(queue),
							       1, 0, 0, 0, amqp_empty_table);
	if (ok)
		*ready = ok->message_count;
	return ok ? CALL_OK : outcome(conn);
}

int
declare_run(void)
{
	amqp_connection_state_t conn = connect_again();
	char name[32], key[16];

	if (!conn)
		return EXIT_FAILURE;
	if (options.delay)
		declare_delayed(conn);
	else
		amqp_exchange_declare(conn, 1, amqp_cstring_bytes(EXCHANGE),
				      amqp_cstring_bytes("topic"), 0, 1, 0, 0,
				      exchange_arguments());
	bool well = went_well(conn, "exchange.declare");
	for (unsigned queue = 0; well && queue < QUEUES; queue++) {
		queue_name(name, queue);
		snprintf(key, sizeof key, "#.%u.#", queue);
		amqp_queue_declare(conn, 1, amqp_cstring_bytes(name), 0, 1, 0, 0,
				   queue_arguments());
		well = went_well(conn, "queue.declare");
		if (!well)
			break;
		amqp_queue_bind(conn, 1, amqp_cstring_bytes(name), amqp_cstring_bytes(EXCHANGE),
				amqp_cstring_bytes(key), amqp_empty_table);
		well = went_well(conn, "queue.bind");
	}
	disconnect(conn);
	return well ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
empty_run(void)
{
	amqp_connection_state_t conn = connect_again();
	uint32_t ready = 0;
	char name[32];

	for (unsigned queue = 0; conn && queue < QUEUES; queue++) {
		queue_name(name, queue);
		if (queue_count(conn, name, &ready) != CALL_OK)
			fault("%s is gone", name);
		if (ready)
			fault("%s holds %u messages", name, (unsigned)ready);
	}
	disconnect(conn);
	return conn ? EXIT_SUCCESS : EXIT_FAILURE;
}
