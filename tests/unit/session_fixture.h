/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of the session begin with: a broker, a session and a net on the memory transport, the real
 * turn, and a clock that the test turns by hand. A struct client is a peer that speaks frames: it sends
 * methods and content, and expects what comes back, in order.
 */
#pragma once

#include "broker/vhost.h"
#include "net/net.h"
#include "net/transport.h"
#include "server/turn.h"
#include "session/internal.h"
#include "util/buf.h"

#include "lib/runner.h"

#define WIDE_WINDOW ((size_t)1 << 30) // of a client that reads all there is
#define TURNS_MAX 100000	      // in one run(): more is a loop without end
#define CLIENTS_MAX 16

static struct deadlines deadlines;
static struct net *net;
static struct broker *broker;
static struct vhost *vhost;
static struct session *session;
static struct now now;
static struct turn turn;

struct client {
	struct mem_peer *peer;
	struct connection *connection; // borrows; dangling once the connection ended
	struct buf received;	       // owns; what came and was not expected yet
	size_t at;		       // octets of received that were
	struct buf frame;	       // owns; the frame expected last: methods have views into it
	struct buf body;	       // owns; of the content expected last
	struct buf header;	       // owns; payload of its content header
	struct method method;	       // expected last
	uint32_t frame_max;	       // tuned
};

static struct client clients[CLIENTS_MAX];
static size_t client_count;

/* ---- the world --------------------------------------------------------------------------------- */

/* Options that a test changes before session_start(). */
static struct broker_options broker_options;
static struct session_options session_options;
static struct net_options net_options_used;

static inline void
add_user(const char *name, const char *password)
{
	const struct bytes all[PERMISSION_COUNT] = {BYTES(".*"), BYTES(".*"), BYTES(".*")};
	struct user *user = user_create(broker, bytes_str(name), 0);
	char error[256];

	user_set_password(user, bytes_str(password));
	ck_assert_int_eq(user_set_permissions(broker, user, BYTES("/"), all, error, sizeof(error)),
			 0);
}

static inline void
session_start(void)
{
	net = net_new(NULL, &deadlines, &net_options_used);
	broker = broker_new(&deadlines, &broker_options);
	vhost = vhost_create(broker, BYTES("/"));
	session = session_new(broker, net, &session_options);
	turn = (struct turn){.deadlines = &deadlines,
			     .net = net,
			     .broker = broker,
			     .session = session,
			     .check = true};
	now = (struct now){.monotonic_ms = 1000000, .wall_ms = 1700000000000};
	net_set_now(net, now);
	broker_set_now(broker, now);
	add_user("guest", "secret");
}

static inline void
session_options_set_up(void)
{
	log_set_level(LOG_NONE);
	deadlines_init(&deadlines);
	broker_options = broker_options_default();
	session_options = session_options_default();
	net_options_used = net_options_default();
	client_count = 0;
}

static inline void
session_set_up(void)
{
	session_options_set_up();
	session_start();
}

/* Turns until nothing is left to do at this time. */
static inline void
run(void)
{
	const struct channel *channel;
	const struct connection *connection;
	int turns = 0;

	do {
		turn_run(&turn, now);
		ck_assert_int_lt(++turns, TURNS_MAX);
	} while (turn_wait_ms(&turn, now) == 0);
	list_for_each (&session->connections, connection, struct connection, of_session)
		list_for_each (&connection->channels, channel, struct channel, of_connection)
			unacked_check(&channel->unacked);
}

/* Lets time pass, with a turn whenever something is due. */
static inline void
pass_ms(uint64_t ms)
{
	uint64_t end = now.monotonic_ms + ms;

	run();
	while (now.monotonic_ms < end) {
		uint64_t step = min_u64(turn_wait_ms(&turn, now), end - now.monotonic_ms);

		now.monotonic_ms += step;
		now.wall_ms += step;
		run();
	}
}

static inline struct queue *
find_queue(const char *name)
{
	return queue_find(vhost, bytes_str(name));
}

/* ---- a client ---------------------------------------------------------------------------------- */

static inline struct client *
client_accept(size_t window)
{
	struct client *client = &clients[client_count];
	struct conn *conn;

	ck_assert_uint_lt(client_count, CLIENTS_MAX);
	client_count++;
	*client = (struct client){0};
	buf_init(&client->received, 0);
	buf_init(&client->frame, 0);
	buf_init(&client->body, 0);
	buf_init(&client->header, 0);
	conn = conn_new(net, transport_mem_new(&client->peer, window), &connection_conn_ops, NULL);
	session_accept(session, conn);
	client->connection = conn_owner(conn);
	return client;
}

static inline void
client_send_octets(struct client *client, struct bytes octets)
{
	mem_peer_send(client->peer, octets);
}

/* Appends a method frame to a stream. */
static inline void
stream_method(struct buf *stream, uint16_t channel, const struct method *method)
{
	uint8_t room[8192];
	struct writer w = writer_of(room, sizeof(room));

	frame_write_method(&w, channel, method);
	ck_assert(!w.bad);
	buf_add(stream, room, (size_t)(w.p - room));
}

static inline void
stream_frame(struct buf *stream, uint8_t type, uint16_t channel, struct bytes payload)
{
	uint8_t prefix[FRAME_PREFIX];

	frame_prefix_encode(prefix, type, channel, (uint32_t)payload.n);
	buf_add(stream, prefix, sizeof(prefix));
	buf_add_bytes(stream, payload);
	buf_add_byte(stream, FRAME_END);
}

/* Appends header and body frames; frame_max 0: one body frame. */
static inline void
stream_content(struct buf *stream, uint16_t channel, struct bytes body, uint32_t frame_max)
{
	const struct basic_properties properties = {.flags = PROPERTY_delivery_mode,
						    .delivery_mode = 1};
	uint8_t header[64];
	struct writer w = writer_of(header, sizeof(header));

	content_header_encode(&properties, body.n, &w);
	stream_frame(stream, FRAME_HEADER, channel, bytes_of(header, (size_t)(w.p - header)));
	while (body.n > 0) {
		size_t n = frame_max == 0 ? body.n : min_u64(body.n, frame_max - FRAME_OVERHEAD);

		stream_frame(stream, FRAME_BODY, channel, bytes_of(body.p, n));
		body = bytes_of(body.p + n, body.n - n);
	}
}

static inline void
stream_publish_method(struct buf *stream, uint16_t channel, const char *exchange, const char *key,
		      bool mandatory)
{
	stream_method(stream, channel,
		      &(struct method){.id = METHOD_basic_publish,
				       .basic_publish = {.exchange = bytes_str(exchange),
							 .routing_key = bytes_str(key),
							 .mandatory = mandatory}});
}

static inline void
client_send(struct client *client, uint16_t channel, const struct method *method)
{
	struct buf stream;

	buf_init(&stream, 0);
	stream_method(&stream, channel, method);
	client_send_octets(client, buf_bytes(&stream));
	buf_fini(&stream);
}

static inline void
client_publish_bytes(struct client *client, uint16_t channel, const char *exchange, const char *key,
		     struct bytes body, bool mandatory)
{
	struct buf stream;

	buf_init(&stream, 0);
	stream_publish_method(&stream, channel, exchange, key, mandatory);
	stream_content(&stream, channel, body, client->frame_max);
	client_send_octets(client, buf_bytes(&stream));
	buf_fini(&stream);
}

/* To the default exchange. */
static inline void
client_publish(struct client *client, uint16_t channel, const char *key, const char *body)
{
	client_publish_bytes(client, channel, "", key, bytes_str(body), false);
}

/* ---- what comes back ---------------------------------------------------------------------------- */

/* Reads until nothing comes any more. */
static inline void
client_receive(struct client *client)
{
	struct bytes octets;

	buf_consume(&client->received, client->at);
	client->at = 0;
	run();
	while ((octets = mem_peer_take(client->peer)).n != 0) {
		buf_add_bytes(&client->received, octets);
		run();
	}
}

static inline struct bytes
client_unread(const struct client *client)
{
	size_t n = client->received.n - client->at;

	return n == 0 ? bytes_of(NULL, 0) : bytes_of(client->received.p + client->at, n);
}

/* Takes the next frame; false when there is none. Its payload lies in client->frame. */
static inline bool
client_next_frame(struct client *client, struct frame *frame)
{
	enum frame_result result;

	*frame = (struct frame){0};
	result = frame_cut(frame, client_unread(client), UINT32_MAX);
	if (result == FRAME_PARTIAL) {
		client_receive(client);
		result = frame_cut(frame, client_unread(client), UINT32_MAX);
	}
	if (result == FRAME_PARTIAL) {
		ck_assert_uint_eq(client_unread(client).n, 0);
		return false;
	}
	ck_assert_int_eq(result, FRAME_OK);
	if (client->frame_max != 0)
		ck_assert_uint_le(frame->size + FRAME_OVERHEAD, client->frame_max);
	buf_clear(&client->frame);
	buf_add_bytes(&client->frame, frame->payload);
	client->at += FRAME_OVERHEAD + frame->size;
	frame->payload = buf_bytes(&client->frame);
	return true;
}

static inline struct frame
client_expect_frame(struct client *client, uint8_t type, uint16_t channel)
{
	struct frame frame;

	ck_assert_msg(client_next_frame(client, &frame), "no frame came, one of type %u was due",
		      type);
	ck_assert_uint_eq(frame.type, type);
	ck_assert_uint_eq(frame.channel, channel);
	return frame;
}

/* The next frame must be that method; its fields are valid until the next one is expected. */
static inline const struct method *
client_expect(struct client *client, uint16_t channel, uint32_t method_id)
{
	struct frame frame;

	ck_assert_msg(client_next_frame(client, &frame), "nothing came, %s was due",
		      method_name(method_id));
	ck_assert_uint_eq(frame.type, FRAME_METHOD);
	ck_assert_int_eq(method_decode(&client->method, frame.payload), METHOD_OK);
	ck_assert_msg(client->method.id == method_id, "%s came, %s was due",
		      method_name(client->method.id), method_name(method_id));
	ck_assert_uint_eq(frame.channel, channel);
	return &client->method;
}

static inline void
client_expect_nothing(struct client *client)
{
	struct frame frame;

	ck_assert_msg(!client_next_frame(client, &frame), "a frame of type %u came: %s", frame.type,
		      frame.type != FRAME_METHOD ? "" : method_name(load_long(frame.payload.p)));
}

/* Header and body frames; returns the body, valid until the next content. */
static inline struct bytes
client_expect_content(struct client *client, uint16_t channel)
{
	struct frame frame = client_expect_frame(client, FRAME_HEADER, channel);
	struct content_header header;

	ck_assert(content_header_decode(&header, frame.payload));
	ck_assert_uint_eq(header.class_id, 60);
	buf_clear(&client->header);
	buf_add_bytes(&client->header, frame.payload);
	buf_clear(&client->body);
	while (client->body.n < header.body_size) {
		frame = client_expect_frame(client, FRAME_BODY, channel);
		ck_assert_uint_gt(frame.size, 0);
		buf_add_bytes(&client->body, frame.payload);
	}
	ck_assert_uint_eq(client->body.n, header.body_size);
	return buf_bytes(&client->body);
}

#define assert_bytes(view, literal)                                                             \
	do {                                                                                    \
		struct bytes view_ = (view);                                                    \
		ck_assert_msg(bytes_equal(view_, bytes_str(literal)), "\"%.*s\" is not \"%s\"", \
			      BYTES_ARGS(view_), literal);                                      \
	} while (0)

/* A delivery with that tag, flag and body. */
static inline void
client_expect_deliver(struct client *client, uint16_t channel, const char *consumer_tag,
		      uint64_t tag, bool redelivered, const char *body)
{
	const struct method *m = client_expect(client, channel, METHOD_basic_deliver);

	assert_bytes(m->basic_deliver.consumer_tag, consumer_tag);
	ck_assert_uint_eq(m->basic_deliver.delivery_tag, tag);
	ck_assert_int_eq(m->basic_deliver.redelivered, redelivered);
	assert_bytes(client_expect_content(client, channel), body);
}

static inline void
client_expect_channel_close(struct client *client, uint16_t channel, uint16_t code,
			    uint32_t method_id, const char *text)
{
	const struct method *m = client_expect(client, channel, METHOD_channel_close);

	assert_bytes(m->channel_close.reply_text, text);
	ck_assert_uint_eq(m->channel_close.reply_code, code);
	ck_assert_uint_eq(METHOD_ID(m->channel_close.class_id, m->channel_close.method_id),
			  method_id);
}

static inline void
client_expect_close(struct client *client, uint16_t code, uint32_t method_id, const char *text)
{
	const struct method *m = client_expect(client, 0, METHOD_connection_close);

	assert_bytes(m->connection_close.reply_text, text);
	ck_assert_uint_eq(m->connection_close.reply_code, code);
	ck_assert_uint_eq(METHOD_ID(m->connection_close.class_id, m->connection_close.method_id),
			  method_id);
}

/* The server has ended its side, and nothing came before that. */
static inline void
client_expect_end(struct client *client)
{
	client_expect_nothing(client);
	ck_assert(mem_peer_closed(client->peer));
}

/* ---- conversations ------------------------------------------------------------------------------ */

struct connect_options {
	const char *user;
	const char *password;
	const char *product; // NULL: none
	bool plain_client;   // announces no capability
	bool takes_blocked;  // announces connection.blocked
	uint16_t channel_max;
	uint32_t frame_max;
	uint16_t heartbeat_s;
};

static inline struct connect_options
connect_options_default(void)
{
	return (struct connect_options){
		.user = "guest", .password = "secret", .channel_max = 2047, .frame_max = 131072};
}

static inline void
client_send_start_ok(struct client *client, const struct connect_options *options)
{
	uint8_t room[1024];
	uint8_t response[256];
	struct writer w = writer_of(room, sizeof(room));
	struct writer r = writer_of(response, sizeof(response));
	uint8_t *begun = table_begin(&w, BYTES("capabilities"));

	if (!options->plain_client) {
		table_put_bool(&w, BYTES("authentication_failure_close"), true);
		table_put_bool(&w, BYTES("consumer_cancel_notify"), true);
	}
	if (options->takes_blocked)
		table_put_bool(&w, BYTES("connection.blocked"), true);
	table_end(&w, begun);
	if (options->product != NULL)
		table_put_string(&w, BYTES("product"), bytes_str(options->product));
	write_octet(&r, 0);
	write_raw(&r, bytes_str(options->user));
	write_octet(&r, 0);
	write_raw(&r, bytes_str(options->password));
	client_send(
		client, 0,
		&(struct method){.id = METHOD_connection_start_ok,
				 .connection_start_ok = {
					 .client_properties = bytes_of(room, (size_t)(w.p - room)),
					 .mechanism = BYTES("PLAIN"),
					 .response = bytes_of(response, (size_t)(r.p - response)),
					 .locale = BYTES("en_US"),
				 }});
}

static inline void
client_send_tune_ok(struct client *client, uint16_t channel_max, uint32_t frame_max,
		    uint16_t heartbeat_s)
{
	client_send(client, 0,
		    &(struct method){.id = METHOD_connection_tune_ok,
				     .connection_tune_ok = {channel_max, frame_max, heartbeat_s}});
}

static inline void
client_send_open(struct client *client, const char *name)
{
	client_send(client, 0,
		    &(struct method){.id = METHOD_connection_open,
				     .connection_open = {.virtual_host = bytes_str(name)}});
}

static inline void
client_start(struct client *client)
{
	client_send_octets(client, bytes_of(protocol_header, PROTOCOL_HEADER_SIZE));
	client_expect(client, 0, METHOD_connection_start);
}

/* A running connection. */
static inline struct client *
client_connect_with(const struct connect_options *options, size_t window)
{
	struct client *client = client_accept(window);

	client_start(client);
	client_send_start_ok(client, options);
	client_expect(client, 0, METHOD_connection_tune);
	client_send_tune_ok(client, options->channel_max, options->frame_max, options->heartbeat_s);
	client->frame_max = options->frame_max;
	client_send_open(client, "/");
	client_expect(client, 0, METHOD_connection_open_ok);
	return client;
}

static inline void
client_open_channel(struct client *client, uint16_t channel)
{
	client_send(client, channel, &(struct method){.id = METHOD_channel_open});
	client_expect(client, channel, METHOD_channel_open_ok);
}

/* A running connection with channel 1. */
static inline struct client *
client_connect(void)
{
	struct connect_options options = connect_options_default();
	struct client *client = client_connect_with(&options, WIDE_WINDOW);

	client_open_channel(client, 1);
	return client;
}

static inline void
client_declare(struct client *client, uint16_t channel, const char *queue)
{
	client_send(client, channel,
		    &(struct method){.id = METHOD_queue_declare,
				     .queue_declare = {.queue = bytes_str(queue)}});
	client_expect(client, channel, METHOD_queue_declare_ok);
}

static inline void
client_send_consume(struct client *client, uint16_t channel, const char *queue, const char *tag,
		    bool no_ack)
{
	client_send(client, channel,
		    &(struct method){.id = METHOD_basic_consume,
				     .basic_consume = {.queue = bytes_str(queue),
						       .consumer_tag = bytes_str(tag),
						       .no_ack = no_ack}});
}

static inline void
client_consume(struct client *client, uint16_t channel, const char *queue, const char *tag,
	       bool no_ack)
{
	client_send_consume(client, channel, queue, tag, no_ack);
	client_expect(client, channel, METHOD_basic_consume_ok);
}

static inline void
client_qos(struct client *client, uint16_t channel, uint16_t count, bool global)
{
	client_send(client, channel,
		    &(struct method){.id = METHOD_basic_qos,
				     .basic_qos = {.prefetch_count = count, .global = global}});
	client_expect(client, channel, METHOD_basic_qos_ok);
}

static inline void
client_ack(struct client *client, uint16_t channel, uint64_t tag, bool multiple)
{
	client_send(client, channel,
		    &(struct method){.id = METHOD_basic_ack, .basic_ack = {tag, multiple}});
}

static inline void
client_nack(struct client *client, uint16_t channel, uint64_t tag, bool multiple, bool requeue)
{
	client_send(
		client, channel,
		&(struct method){.id = METHOD_basic_nack, .basic_nack = {tag, multiple, requeue}});
}

static inline void
client_get(struct client *client, uint16_t channel, const char *queue, bool no_ack)
{
	client_send(client, channel,
		    &(struct method){.id = METHOD_basic_get,
				     .basic_get = {.queue = bytes_str(queue), .no_ack = no_ack}});
}

/* The peer closes the channel and hears that it is closed. */
static inline void
client_close_channel(struct client *client, uint16_t channel)
{
	client_send(client, channel, &(struct method){.id = METHOD_channel_close});
	client_expect(client, channel, METHOD_channel_close_ok);
}

/* Ends a client that may have ended before. */
static inline void
client_end(struct client *client)
{
	if (client->peer == NULL)
		return;
	mem_peer_break(client->peer);
	pass_ms(2 * 3000);
	mem_peer_free(&client->peer);
	buf_fini(&client->received);
	buf_fini(&client->frame);
	buf_fini(&client->body);
	buf_fini(&client->header);
}

static inline void
session_tear_down(void)
{
	for (size_t i = 0; i < client_count; i++)
		client_end(&clients[i]);
	ck_assert_uint_eq(session_connection_count(session), 0);
	ck_assert_uint_eq(session->channel_count, 0);
	session_free(&session);
	broker_free(&broker);
	net_free(&net);
	deadlines_fini(&deadlines);
}
