/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that the librabbitmq programs share, see rabbitmq_c.h. */
#include "client/rabbitmq_c.h"

#include <amqp_ssl_socket.h>
#include <stdio.h>
#include <string.h>

/* ---- connections ---- */

static int
open_socket(amqp_connection_state_t conn, bool tls)
{
	amqp_socket_t *sock = tls ? amqp_ssl_socket_new(conn) : amqp_tcp_socket_new(conn);

	ck_assert_ptr_nonnull(sock);
	if (tls)
		ck_assert_int_eq(amqp_ssl_socket_set_cacert(sock, broker_authority()),
				 AMQP_STATUS_OK);
	return amqp_socket_open(sock, broker_host(), broker_port(tls));
}

static amqp_rpc_reply_t
log_in(amqp_connection_state_t conn, const struct login *login)
{
	amqp_table_entry_t capability = {
		.key = amqp_cstring_bytes("consumer_cancel_notify"),
		.value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = true},
	};
	amqp_table_t capabilities = {.num_entries = login->wants_cancel, .entries = &capability};
	amqp_table_entry_t property = {
		.key = amqp_cstring_bytes("capabilities"),
		.value = {.kind = AMQP_FIELD_KIND_TABLE, .value.table = capabilities},
	};
	amqp_table_t properties = {.num_entries = login->wants_cancel, .entries = &property};

	return amqp_login_with_properties(conn, login->vhost ? login->vhost : "/", 0,
					  login->frame_max ? login->frame_max : 131072,
					  login->heartbeat, &properties, AMQP_SASL_METHOD_PLAIN,
					  "guest", login->password ? login->password : "guest");
}

amqp_connection_state_t
try_connect(const struct login *login, amqp_rpc_reply_t *reply)
{
	amqp_connection_state_t conn = amqp_new_connection();

	ck_assert_int_eq(open_socket(conn, login->tls), AMQP_STATUS_OK);
	*reply = log_in(conn, login);
	return conn;
}

amqp_connection_state_t
connect_if_there(const struct login *login)
{
	amqp_connection_state_t conn = amqp_new_connection();

	if (open_socket(conn, login->tls) == AMQP_STATUS_OK &&
	    log_in(conn, login).reply_type == AMQP_RESPONSE_NORMAL)
		return conn;
	amqp_destroy_connection(conn);
	return NULL;
}

amqp_connection_state_t
connect_with(const struct login *login)
{
	amqp_rpc_reply_t reply;
	amqp_connection_state_t conn = try_connect(login, &reply);

	ck_assert_msg(reply.reply_type == AMQP_RESPONSE_NORMAL, "login: %s",
		      amqp_error_string2(reply.library_error));
	open_channel(conn, 1);
	return conn;
}

amqp_connection_state_t
connect_usual(void)
{
	return connect_with(&(struct login){0});
}

void
open_channel(amqp_connection_state_t conn, amqp_channel_t channel)
{
	amqp_channel_open(conn, channel);
	must(conn, "channel.open");
}

void
close_connection(amqp_connection_state_t conn)
{
	amqp_connection_close(conn, AMQP_REPLY_SUCCESS);
	amqp_destroy_connection(conn);
}

/* ---- replies ---- */

void
must(amqp_connection_state_t conn, const char *what)
{
	amqp_rpc_reply_t reply = amqp_get_rpc_reply(conn);

	if (reply.reply_type == AMQP_RESPONSE_NORMAL)
		return;
	if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
	    reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
		amqp_channel_close_t *m = reply.reply.decoded;
		ck_abort_msg("%s: channel closed, %d %.*s", what, m->reply_code,
			     (int)m->reply_text.len, (const char *)m->reply_text.bytes);
	}
	ck_abort_msg("%s: reply type %d, method %#x, %s", what, (int)reply.reply_type,
		     (unsigned)reply.reply.id, amqp_error_string2(reply.library_error));
}

static void
must_say(int code, amqp_bytes_t text, int wanted_code, const char *wanted_text)
{
	ck_assert_int_eq(code, wanted_code);
	ck_assert_msg(text.len >= strlen(wanted_text) &&
			      memcmp(text.bytes, wanted_text, strlen(wanted_text)) == 0,
		      "the text is: %.*s", (int)text.len, (const char *)text.bytes);
}

void
must_close_channel(amqp_connection_state_t conn, amqp_channel_t channel, int code, const char *text)
{
	amqp_rpc_reply_t reply = amqp_get_rpc_reply(conn);
	amqp_channel_close_ok_t ok = {0};

	ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_SERVER_EXCEPTION);
	ck_assert_uint_eq(reply.reply.id, AMQP_CHANNEL_CLOSE_METHOD);
	amqp_channel_close_t *m = reply.reply.decoded;
	must_say(m->reply_code, m->reply_text, code, text);
	ck_assert_int_eq(amqp_send_method(conn, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok),
			 AMQP_STATUS_OK);
	amqp_maybe_release_buffers(conn);
}

void
must_close_connection(amqp_rpc_reply_t reply, int code, const char *text)
{
	ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_SERVER_EXCEPTION);
	ck_assert_uint_eq(reply.reply.id, AMQP_CONNECTION_CLOSE_METHOD);
	amqp_connection_close_t *m = reply.reply.decoded;
	must_say(m->reply_code, m->reply_text, code, text);
}

/* ---- queues and messages ---- */

void
temporary_queue(amqp_connection_state_t conn, amqp_channel_t channel, char name[256])
{
	amqp_queue_declare_ok_t *ok =
		amqp_queue_declare(conn, channel, amqp_empty_bytes, 0, 0, 1, 0, amqp_empty_table);

	must(conn, "queue.declare");
	ck_assert_uint_lt(ok->queue.len, 256);
	memcpy(name, ok->queue.bytes, ok->queue.len);
	name[ok->queue.len] = 0;
	ck_assert_uint_eq(ok->message_count, 0);
	ck_assert_uint_eq(ok->consumer_count, 0);
}

uint32_t
ready_count(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue)
{
	amqp_queue_declare_ok_t *ok = amqp_queue_declare(conn, channel, amqp_cstring_bytes(queue),
							 1, 0, 0, 0, amqp_empty_table);

	must(conn, "queue.declare, passive");
	return ok->message_count;
}

void
await_ready(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue, uint32_t n)
{
	/* The time limit of the test ends this loop. */
	while (ready_count(conn, channel, queue) != n)
		;
}

void
publish(amqp_connection_state_t conn, amqp_channel_t channel, const char *exchange, const char *key,
	const char *text)
{
	int status =
		amqp_basic_publish(conn, channel, amqp_cstring_bytes(exchange),
				   amqp_cstring_bytes(key), 0, 0, NULL, amqp_cstring_bytes(text));

	ck_assert_int_eq(status, AMQP_STATUS_OK);
}

void
publish_with(amqp_connection_state_t conn, const char *exchange, const char *key, const char *text,
	     amqp_basic_properties_t *properties)
{
	int status =
		amqp_basic_publish(conn, 1, amqp_cstring_bytes(exchange), amqp_cstring_bytes(key),
				   0, 0, properties, amqp_cstring_bytes(text));

	ck_assert_int_eq(status, AMQP_STATUS_OK);
}

void
publish_numbers(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue, uint32_t n)
{
	char text[16];

	for (uint32_t i = 0; i < n; i++) {
		snprintf(text, sizeof text, "%u", (unsigned)i);
		publish(conn, channel, "", queue, text);
	}
	await_ready(conn, channel, queue, n);
}

void
consume(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue, const char *tag,
	bool no_ack)
{
	amqp_basic_consume(conn, channel, amqp_cstring_bytes(queue), amqp_cstring_bytes(tag), 0,
			   no_ack, 0, amqp_empty_table);
	must(conn, "basic.consume");
}

void
await_delivery(amqp_connection_state_t conn, amqp_envelope_t *envelope)
{
	const struct timeval limit = {.tv_sec = AWAIT_S};

	amqp_maybe_release_buffers(conn);
	amqp_rpc_reply_t reply = amqp_consume_message(conn, envelope, &limit, 0);
	ck_assert_msg(reply.reply_type == AMQP_RESPONSE_NORMAL, "no delivery: type %d, %s",
		      (int)reply.reply_type, amqp_error_string2(reply.library_error));
}

uint64_t
await_body(amqp_connection_state_t conn, const char *body, bool redelivered)
{
	amqp_envelope_t envelope;

	await_delivery(conn, &envelope);
	amqp_bytes_t got = envelope.message.body;
	ck_assert_msg(got.len == strlen(body) && memcmp(got.bytes, body, got.len) == 0,
		      "not %s but %.*s", body, (int)got.len, (const char *)got.bytes);
	ck_assert_int_eq(envelope.redelivered != 0, redelivered);
	uint64_t tag = envelope.delivery_tag;
	amqp_destroy_envelope(&envelope);
	return tag;
}

void
await_method(amqp_connection_state_t conn, amqp_channel_t channel, amqp_method_number_t id,
	     amqp_method_t *method)
{
	const struct timeval limit = {.tv_sec = AWAIT_S};
	amqp_frame_t frame;

	amqp_maybe_release_buffers(conn);
	ck_assert_int_eq(amqp_simple_wait_frame_noblock(conn, &frame, &limit), AMQP_STATUS_OK);
	ck_assert_uint_eq(frame.frame_type, AMQP_FRAME_METHOD);
	ck_assert_uint_eq(frame.channel, channel);
	ck_assert_msg(frame.payload.method.id == id, "not %s but %s", amqp_method_name(id),
		      amqp_method_name(frame.payload.method.id));
	*method = frame.payload.method;
}

void
must_get(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue, const char *body)
{
	amqp_message_t message;
	amqp_rpc_reply_t reply = amqp_basic_get(conn, channel, amqp_cstring_bytes(queue), 1);

	ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_NORMAL);
	if (!body) {
		ck_assert_uint_eq(reply.reply.id, AMQP_BASIC_GET_EMPTY_METHOD);
		return;
	}
	ck_assert_msg(reply.reply.id == AMQP_BASIC_GET_OK_METHOD, "%s is empty", queue);
	reply = amqp_read_message(conn, channel, &message, 0);
	ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_NORMAL);
	ck_assert_uint_eq(message.body.len, strlen(body));
	ck_assert_mem_eq(message.body.bytes, body, message.body.len);
	amqp_destroy_message(&message);
	amqp_maybe_release_buffers(conn);
}

/* ---- arguments and headers ---- */

void
ask_number(struct table *table, const char *name, int32_t value)
{
	ck_assert_int_lt(table->n, TABLE_MAX);
	table->entries[table->n++] =
		(amqp_table_entry_t){.key = amqp_cstring_bytes(name),
				     .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = value}};
}

void
ask_text(struct table *table, const char *name, const char *value)
{
	ck_assert_int_lt(table->n, TABLE_MAX);
	table->entries[table->n++] = (amqp_table_entry_t){
		.key = amqp_cstring_bytes(name),
		.value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(value)}};
}

void
ask_true(struct table *table, const char *name)
{
	ck_assert_int_lt(table->n, TABLE_MAX);
	table->entries[table->n++] = (amqp_table_entry_t){
		.key = amqp_cstring_bytes(name),
		.value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
}

void
declare_exclusive(amqp_connection_state_t conn, const char *name, struct table *table)
{
	amqp_queue_declare(conn, 1, amqp_cstring_bytes(name), 0, 0, 1, 0,
			   (amqp_table_t){table->n, table->entries});
	must(conn, "queue.declare");
}

bool
is_text(amqp_bytes_t bytes, const char *text)
{
	/* one of no octets may be NULL */
	return bytes.len == strlen(text) &&
	       (bytes.len == 0 || memcmp(bytes.bytes, text, bytes.len) == 0);
}

const amqp_field_value_t *
field_of(const amqp_table_t *table, const char *name, char kind)
{
	for (int i = 0; i < table->num_entries; i++) {
		if (!is_text(table->entries[i].key, name))
			continue;
		ck_assert_int_eq(table->entries[i].value.kind, kind);
		return &table->entries[i].value;
	}
	ck_abort_msg("there is no %s", name);
	return NULL;
}

const amqp_table_t *
headers_of(const amqp_envelope_t *envelope)
{
	ck_assert(envelope->message.properties._flags & AMQP_BASIC_HEADERS_FLAG);
	return &envelope->message.properties.headers;
}
