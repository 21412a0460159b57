/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: the frames of its stream, its channels, its end (amqp.md 1.4, 3.10, 4). Input is handled
 * frame by frame, in order. Two things do not wait for a whole frame: a publish like the last one, and
 * the octets of a large body, which go straight to their message.
 */
#include "broker/limits.h"
#include "handlers.h"
#include "util/owned.h"

#define CLOSE_TIMEOUT_S 30    // for the peer to answer or to end the stream (amqp.md 3.9)
#define DROP_TIMEOUT_MS 3000  // after errors behind which the stream cannot be read
#define OUTPUT_PAUSE_FACTOR 4 // times output_high: answers that a peer leaves unread stop its input
#define SINK_MINIMUM 4096     // octets of a body frame that are worth a read of their own

/* ---- channels by number ---- */

struct channel *
connection_channel(const struct connection *c, uint16_t id)
{
	struct channel *channel = c->slots[id & c->slot_mask];

	while (channel != NULL && channel->id != id)
		channel = channel->next;
	return channel;
}

static void
slots_grow(struct connection *c)
{
	uint32_t mask = 2 * c->slot_mask + 1;
	struct channel **slots = xcalloc(mask + 1, sizeof(struct channel *));
	struct channel *channel;

	list_for_each (&c->channels, channel, struct channel, of_connection) {
		channel->next = slots[channel->id & mask];
		slots[channel->id & mask] = channel;
	}
	if (c->slots != &c->only_slot)
		xfree(c->slots);
	c->slots = slots;
	c->slot_mask = mask;
}

void
connection_add_channel(struct connection *c, struct channel *channel)
{
	struct channel **slot;

	if (c->channels.count > c->slot_mask)
		slots_grow(c);
	slot = &c->slots[channel->id & c->slot_mask];
	channel->next = *slot;
	*slot = channel;
	list_append(&c->channels, &channel->of_connection);
	limits_channel_opened(c->user);
}

void
connection_remove_channel(struct connection *c, struct channel *channel)
{
	struct channel **slot = &c->slots[channel->id & c->slot_mask];

	while (*slot != channel)
		slot = &(*slot)->next;
	*slot = channel->next;
	list_remove(&c->channels, &channel->of_connection);
	limits_channel_closed(c->user);
	if (c->last == channel)
		c->last = NULL;
	connection_forget_body(c, channel);
}

void
connection_end_channels(struct connection *c)
{
	struct channel *channel;

	while ((channel = list_first(&c->channels, struct channel, of_connection)) != NULL)
		channel_free(channel);
	queue_owner_fini(&c->owner);
	if (c->counted)
		limits_connection_closed(c->vhost, c->user);
	c->counted = false;
}

/* ---- answers and closing ---- */

void
connection_send(struct connection *c, uint16_t channel, const struct method *method)
{
	uint8_t *p = conn_reserve(c->conn, METHOD_FRAME_MAX);
	struct writer w = writer_of(p, METHOD_FRAME_MAX);

	frame_write_method(&w, channel, method);
	assert(!w.bad);
	conn_commit(c->conn, (size_t)(w.p - p));
}

static void
set_deadline(struct connection *c, uint64_t in_ms)
{
	struct net *net = c->session->net;

	deadline_set(net_deadlines(net), &c->deadline, net_now(net).monotonic_ms + in_ms);
}

void
connection_set_state(struct connection *c, enum connection_state state)
{
	uint64_t close_ms = CLOSE_TIMEOUT_S * 1000;

	if (c->heartbeat_s != 0 && c->heartbeat_s < CLOSE_TIMEOUT_S)
		close_ms = (uint64_t)c->heartbeat_s * 1000;
	c->state = (uint8_t)state;
	if (state == CONNECTION_RUNNING)
		deadline_clear(net_deadlines(c->session->net), &c->deadline);
	if (state == CONNECTION_CLOSING || state == CONNECTION_DROPPING) {
		pauses_end(c); // the peer's answer must be read
		set_deadline(c, close_ms);
	}
}

void
connection_drop_after(struct connection *c, uint64_t ms)
{
	connection_set_state(c, CONNECTION_DROPPING);
	set_deadline(c, ms);
}

static void
send_close(struct connection *c, const struct reply *reply, uint32_t method_id)
{
	connection_send(c, 0,
			&(struct method){
				.id = METHOD_connection_close,
				.connection_close = {
					.reply_code = (uint16_t)reply->code,
					.reply_text = bytes_str(reply->text),
					.class_id = reply->no_ids ? 0 : (uint16_t)(method_id >> 16),
					.method_id = reply->no_ids ? 0 : (uint16_t)method_id,
				}});
}

void
connection_refuse(struct connection *c, const struct reply *reply, uint32_t method_id)
{
	struct reply copy = *reply;
	struct bytes user = c->user == NULL ? BYTES("") : c->user->name;

	log_warn("connection error connection=%llu peer=%s:%u user=%.*s code=%d method=%s "
		 "text=\"%s\"",
		 (unsigned long long)conn_id(c->conn), conn_peer(c->conn)->host,
		 conn_peer(c->conn)->port, BYTES_ARGS(user), (int)copy.code, method_name(method_id),
		 copy.text);
	connection_end_channels(c);
	send_close(c, &copy, method_id);
	connection_set_state(c, CONNECTION_CLOSING);
	if (c->user == NULL || c->vhost == NULL)
		set_deadline(c, c->session->options.failure_delay_ms);
}

void
connection_abort(struct connection *c, const char *why)
{
	log_info("connection dropped connection=%llu peer=%s:%u reason=\"%s\"",
		 (unsigned long long)conn_id(c->conn), conn_peer(c->conn)->host,
		 conn_peer(c->conn)->port, why);
	conn_abort(c->conn, 0);
}

static void
on_deadline(struct deadline *deadline, uint64_t now_ms)
{
	struct connection *c = container_of(deadline, struct connection, deadline);
	const struct reply *refusal;

	(void)now_ms;
	if (c->refused_mechanism == NULL) {
		connection_abort(c, c->state < CONNECTION_RUNNING ? "handshake timeout"
								  : "close timeout");
		return;
	}
	refusal = refuse_no_ids(ACCESS_REFUSED,
				"Login was refused using authentication mechanism %s. For details "
				"see the broker logfile.",
				c->refused_mechanism);
	c->refused_mechanism = NULL;
	if (!(c->capabilities & CLIENT_AUTHENTICATION_FAILURE_CLOSE)) {
		connection_abort(c, "login refused");
		return;
	}
	send_close(c, refusal, 0);
	connection_set_state(c, CONNECTION_CLOSING);
	set_deadline(c, DROP_TIMEOUT_MS);
}

/* ---- body frames that are not here in whole ---- */

void
connection_forget_body(struct connection *c, const struct channel *channel)
{
	if (c->body_channel != channel || channel == NULL)
		return;
	connection_stop_sink(c, channel);
	c->body_channel = NULL;
}

void
connection_stop_sink(struct connection *c, const struct channel *channel)
{
	if (c->body_channel != channel || !c->sinking)
		return;
	c->body_done = c->body_size - (uint32_t)conn_sink_left(c->conn);
	conn_sink(c->conn, NULL, 0);
	c->sinking = false;
}

/* Whether the frame that begins here is a body frame whose octets can be taken as they come. */
static bool
body_begin(struct connection *c, const struct frame *frame)
{
	struct channel *channel;
	const struct content *content;

	if (frame->type != FRAME_BODY || c->state != CONNECTION_RUNNING)
		return false;
	channel = connection_channel(c, frame->channel);
	if (channel == NULL)
		return false;
	content = &channel->content;
	if (content->state != CONTENT_BODY ||
	    frame->size > content->body_size - content->body_received)
		return false;
	content_make_room(channel, frame->size);
	c->body_open = true;
	c->body_channel = channel;
	c->body_size = frame->size;
	c->body_done = 0;
	c->last = channel;
	return true;
}

/* The frame's end octet: what came is part of the message now. */
static size_t
body_end(struct connection *c, uint8_t end_octet)
{
	struct channel *channel = c->body_channel;
	const struct reply *refusal = NULL;

	c->body_open = false;
	c->body_channel = NULL;
	if (end_octet != FRAME_END) {
		connection_refuse_stream(c, refuse_no_ids(FRAME_ERROR,
							  "type 3, all octets = <<>>: "
							  "{invalid_frame_end_marker,%u}",
							  end_octet));
		return 1;
	}
	if (channel != NULL)
		refusal = content_advance(channel, c->body_size);
	connection_frame_done(c, channel, refusal,
			      channel != NULL ? channel->content.method_id : 0);
	return 1;
}

static size_t
body_take(struct connection *c, struct bytes input)
{
	uint32_t n;
	uint8_t *room = c->body_channel == NULL ? NULL : content_body_room(c->body_channel);

	if (c->sinking) {
		c->sinking = false;
		c->body_done = c->body_size - (uint32_t)conn_sink_left(c->conn);
	}
	if (c->body_done == c->body_size)
		return body_end(c, input.p[0]);
	n = (uint32_t)min_u64(input.n, c->body_size - c->body_done);
	if (room != NULL)
		memcpy(room + c->body_done, input.p, n);
	c->body_done += n;
	if (room != NULL && n == input.n && c->body_size - c->body_done >= SINK_MINIMUM) {
		c->sinking = true;
		conn_sink(c->conn, room + c->body_done, c->body_size - c->body_done);
	}
	return n;
}

/* ---- frames ---- */

void
connection_refuse_stream(struct connection *c, const struct reply *reply)
{
	if (c->state != CONNECTION_CLOSING)
		connection_refuse(c, reply, 0);
	connection_drop_after(c, DROP_TIMEOUT_MS);
}

void
connection_frame_done(struct connection *c, struct channel *channel, const struct reply *refusal,
		      uint32_t method_id)
{
	if (unlikely(refusal != NULL)) {
		if (refusal->closes == REPLY_CLOSES_CHANNEL && channel != NULL)
			channel_refuse(channel, refusal, method_id);
		else
			connection_refuse(c, refusal, method_id);
	}
	if (unlikely(!list_empty(&c->session->cancelled)))
		session_send_cancels(c->session);
}

/* The octets of a frame as RabbitMQ's texts show them: decimal, cut short. */
static const char *
octets_text(struct bytes payload, char *out, size_t room)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < payload.n && i < 16; i++)
		n += (size_t)snprintf(out + n, room - n, i == 0 ? "%u" : ",%u", payload.p[i]);
	return out;
}

static const struct reply *
refuse_frame(enum reply_code code, const struct frame *frame, const char *why)
{
	char octets[80];

	return refuse_no_ids(code, "type %u, %s octets = <<%s>>%s", frame->type,
			     frame->payload.n > 16 ? "first 16" : "all",
			     octets_text(frame->payload, octets, sizeof(octets)), why);
}

/* Frames that are wrong whatever the state; heartbeats are counted by their octets alone. */
static const struct reply *
check_frame(const struct frame *frame)
{
	switch (frame->type) {
	case FRAME_METHOD:
		return NULL;
	case FRAME_HEADER:
	case FRAME_BODY:
		return frame->channel == 0 ? refuse_frame(UNEXPECTED_FRAME, frame, "") : NULL;
	case FRAME_HEARTBEAT:
		if (frame->channel != 0)
			return refuse_frame(UNEXPECTED_FRAME, frame, "");
		return frame->size != 0 ? refuse_frame(FRAME_ERROR, frame, ": unknown_frame")
					: NULL;
	default:
		return refuse_frame(FRAME_ERROR, frame, ": unknown_frame");
	}
}

static const struct reply *
open_channel(struct connection *c, uint16_t id)
{
	const struct session *session = c->session;
	const struct reply *refusal;

	if (c->channel_max != 0 && c->channels.count >= c->channel_max)
		return refuse_no_ids(NOT_ALLOWED,
				     "number of channels opened (%zu) has reached the negotiated "
				     "channel_max (%u)",
				     c->channels.count, c->channel_max);
	refusal = limits_check_channel(c->user);
	if (refusal != NULL)
		return refusal;
	if (session->options.channel_max_per_node != UINT32_MAX &&
	    session->channel_count >= session->options.channel_max_per_node)
		return refuse_no_ids(NOT_ALLOWED,
				     "number of channels opened on node '%s' has reached the "
				     "maximum allowed limit of %u",
				     session->options.node_name,
				     session->options.channel_max_per_node);
	channel_send(channel_new(c, id), &(struct method){.id = METHOD_channel_open_ok});
	return NULL;
}

/* A frame for a channel that is not open. */
static const struct reply *
closed_channel_frame(struct connection *c, const struct frame *frame, uint32_t *method_id)
{
	struct method m;
	enum method_result result;

	if (frame->type != FRAME_METHOD)
		return refuse_no_ids(UNEXPECTED_FRAME,
				     "expected method frame, got non method frame instead");
	result = method_decode(&m, frame->payload);
	*method_id = m.id;
	if (result != METHOD_OK)
		return refuse_undecodable(result, m.id);
	if (m.id != METHOD_channel_open)
		return refuse(CHANNEL_ERROR, "expected 'channel.open'");
	return open_channel(c, frame->channel);
}

static void
handle_frame(struct connection *c, const struct frame *frame)
{
	struct channel *channel = NULL;
	uint32_t method_id = 0;
	const struct reply *refusal = check_frame(frame);

	if (refusal == NULL && frame->type == FRAME_HEARTBEAT)
		return;
	if (c->state == CONNECTION_CLOSING && (refusal != NULL || frame->channel != 0))
		return;
	if (refusal == NULL && frame->channel == 0) {
		refusal = connection_method(c, frame->payload, &method_id);
	} else if (refusal == NULL && c->state != CONNECTION_RUNNING) {
		refusal = refuse_no_ids(CHANNEL_ERROR, "channel %u used before connection.open-ok",
					frame->channel);
	} else if (refusal == NULL) {
		channel = connection_channel(c, frame->channel);
		c->last = channel;
		if (channel != NULL)
			refusal = channel_frame(channel, frame, &method_id);
		else
			refusal = closed_channel_frame(c, frame, &method_id);
	}
	connection_frame_done(c, channel, refusal, method_id);
}

static size_t
take_frame(struct connection *c, struct bytes input)
{
	struct frame frame = {0};

	switch (frame_cut(&frame, input, c->payload_max)) {
	case FRAME_OK:
		handle_frame(c, &frame);
		if (unlikely(c->again)) {
			c->again = false;
			return 0;
		}
		return FRAME_OVERHEAD + frame.size;
	case FRAME_PARTIAL:
		if (input.n >= FRAME_PREFIX && body_begin(c, &frame))
			return FRAME_PREFIX;
		return 0;
	case FRAME_TOO_LARGE:
		connection_refuse_stream(
			c, refuse_no_ids(FRAME_ERROR,
					 "type %u, all octets = <<>>: {frame_too_large,%u,%u}",
					 frame.type, frame.size, c->payload_max - FRAME_OVERHEAD));
		return input.n;
	case FRAME_BAD_END:
		connection_refuse_stream(
			c, refuse_frame(FRAME_ERROR, &frame, ": {invalid_frame_end_marker}"));
		return input.n;
	}
	return 0;
}

/* As many publishes like the last one as the input begins with. */
static size_t
take_publishes(struct connection *c, struct bytes input)
{
	size_t used = 0;
	size_t n;

	if (c->last == NULL || !publish_fast_ready(c->last))
		return 0;
	do {
		n = publish_fast(c->last, bytes_of(input.p + used, input.n - used));
		used += n;
	} while (n != 0);
	return used;
}

/* Handles what input begins with; the octets used up, 0 when more are needed or none are wanted now. */
static size_t
take_step(struct connection *c, struct bytes input)
{
	size_t used;

	if (c->state == CONNECTION_DROPPING)
		return input.n;
	if (c->hold_lsn != 0)
		return 0;
	if (unlikely(c->body_open))
		return body_take(c, input);
	if (unlikely(c->state == CONNECTION_HEADER)) {
		if (input.n < PROTOCOL_HEADER_SIZE)
			return 0;
		handshake_protocol_header(c, input.p);
		return PROTOCOL_HEADER_SIZE;
	}
	used = take_publishes(c, input);
	return used != 0 ? used : take_frame(c, input);
}

static size_t
on_input(struct conn *conn, struct bytes input)
{
	struct connection *c = conn_owner(conn);
	size_t output_max = OUTPUT_PAUSE_FACTOR * net_options(c->session->net)->output_high;
	size_t used = 0;

	while (used < input.n) {
		size_t n;

		if (unlikely(conn_output_size(conn) > output_max) && conn_is_full(conn) &&
		    c->state == CONNECTION_RUNNING) {
			conn_pause(conn, CONN_PAUSE_OUTPUT);
			break;
		}
		n = take_step(c, bytes_of(input.p + used, input.n - used));
		if (n == 0)
			break;
		used += n;
	}
	if (c->published)
		pauses_after_publish(c);
	else if (unlikely(c->buried))
		pauses_after_burial(c);
	return used;
}

static void
on_drained(struct conn *conn)
{
	struct connection *c = conn_owner(conn);
	struct list_link *link;

	conn_resume(conn, CONN_PAUSE_OUTPUT);
	while ((link = list_pop(&c->stalled)) != NULL)
		consumer_ready(container_of(link, struct consumer, stalled));
}

/* ---- life ---- */

static void
connection_free(struct connection *c)
{
	struct deadlines *deadlines = net_deadlines(c->session->net);

	pauses_end(c);
	deadline_clear(deadlines, &c->deadline);
	heartbeat_stop(c);
	connection_end_channels(c);
	assert(list_empty(&c->stalled));
	if (c->slots != &c->only_slot)
		xfree(c->slots);
	if (c->user != NULL)
		user_unref(c->user);
	bytes_drop(&c->client_properties);
	list_remove(&c->session->connections, &c->of_session);
	pool_free(&c->session->connections_pool, c);
}

static void
on_closed(struct conn *conn, int error)
{
	struct connection *c = conn_owner(conn);
	struct session *session = c->session;

	log_info("connection closed connection=%llu peer=%s:%u%s%s",
		 (unsigned long long)conn_id(conn), conn_peer(conn)->host, conn_peer(conn)->port,
		 error == 0 ? "" : " error=", error == 0 ? "" : strerror(-error));
	connection_free(c);
	session_send_cancels(session);
}

const struct conn_ops connection_conn_ops = {
	.input = on_input,
	.drained = on_drained,
	.closed = on_closed,
};

void
session_accept(struct session *session, struct conn *conn)
{
	struct connection *c = pool_alloc(&session->connections_pool);

	*c = (struct connection){
		.session = session,
		.conn = conn,
		.state = CONNECTION_HEADER,
		.payload_max = session->options.initial_frame_max,
		.deadline = {.run = on_deadline},
	};
	c->slots = &c->only_slot;
	list_init(&c->channels);
	list_init(&c->stalled);
	queue_owner_init(&c->owner);
	heartbeat_init(c);
	pauses_init(c);
	list_append(&session->connections, &c->of_session);
	conn_set_owner(conn, &connection_conn_ops, c);
	set_deadline(c, session->options.handshake_timeout_ms);
	log_info("connection accepted connection=%llu peer=%s:%u",
		 (unsigned long long)conn_id(conn), conn_peer(conn)->host, conn_peer(conn)->port);
}
