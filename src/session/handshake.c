/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channel 0: protocol header, start, tune, open, close (amqp.md 3). Errors before open are answered
 * (DESIGN.md section 9); a refused login is answered after a delay, and only to clients that want it.
 */
#include "broker/limits.h"
#include "broker/vhost.h"
#include "handlers.h"
#include "util/owned.h"

/* ---- start ---- */

static void
put_capabilities(struct writer *w)
{
	static const char *const names[] = {
		"publisher_confirms",	  "exchange_exchange_bindings",	  "basic.nack",
		"consumer_cancel_notify", "connection.blocked",		  "consumer_priorities",
		"per_consumer_qos",	  "authentication_failure_close", "direct_reply_to",
	};
	uint8_t *begun = table_begin(w, BYTES("capabilities"));

	for (size_t i = 0; i < countof(names); i++)
		table_put_bool(w, bytes_str(names[i]), true);
	table_end(w, begun);
}

static struct bytes
server_properties(const struct session_options *options, uint8_t *room, size_t size)
{
	struct writer w = writer_of(room, size);

	put_capabilities(&w);
	table_put_string(&w, BYTES("cluster_name"), bytes_str(options->cluster_name));
	table_put_string(&w, BYTES("copyright"), BYTES("Copyright The Pannier Authors"));
	table_put_string(&w, BYTES("information"), BYTES("Licensed under the Apache License 2.0"));
	table_put_string(&w, BYTES("pannier_version"), bytes_str(options->pannier_version));
	table_put_string(&w, BYTES("platform"), BYTES("C11"));
	table_put_string(&w, BYTES("product"), bytes_str(options->product));
	table_put_string(&w, BYTES("product_version"), bytes_str(options->pannier_version));
	table_put_string(&w, BYTES("version"), bytes_str(options->version));
	assert(!w.bad);
	return bytes_of(room, (size_t)(w.p - room));
}

struct bytes
handshake_start_frame(const struct session_options *options)
{
	uint8_t properties[FRAME_MIN_SIZE / 2];
	uint8_t frame[FRAME_MIN_SIZE];
	struct writer w = writer_of(frame, sizeof(frame));

	frame_write_method(
		&w, 0,
		&(struct method){
			.id = METHOD_connection_start,
			.connection_start = {
				.version_major = 0,
				.version_minor = 9,
				.server_properties =
					server_properties(options, properties, sizeof(properties)),
				.mechanisms = bytes_str(sasl_mechanisms(options->mechanisms)),
				.locales = BYTES("en_US"),
			}});
	assert(!w.bad);
	return bytes_dup(bytes_of(frame, (size_t)(w.p - frame)));
}

static const char *
header_hint(const uint8_t *octets)
{
	if (memcmp(octets, "GET ", 4) == 0 || memcmp(octets, "HEAD", 4) == 0 ||
	    memcmp(octets, "POST", 4) == 0)
		return " (an HTTP request: the port is for AMQP)";
	if (octets[0] == 0x16 && octets[1] == 0x03)
		return " (a TLS client: this listener is plain TCP)";
	return "";
}

void
handshake_protocol_header(struct connection *c, const uint8_t *octets)
{
	/* AMQP 1 1 0 9 is how old clients spell 0-9-1 */
	if (memcmp(octets, protocol_header, PROTOCOL_HEADER_SIZE) == 0 ||
	    memcmp(octets, "AMQP\1\1\0\11", PROTOCOL_HEADER_SIZE) == 0) {
		conn_write(c->conn, c->session->start_frame);
		connection_set_state(c, CONNECTION_STARTING);
		return;
	}
	log_warn("bad protocol header connection=%llu peer=%s:%u%s",
		 (unsigned long long)conn_id(c->conn), conn_peer(c->conn)->host,
		 conn_peer(c->conn)->port, header_hint(octets));
	conn_write(c->conn, bytes_of(protocol_header, PROTOCOL_HEADER_SIZE));
	connection_set_state(c, CONNECTION_DROPPING);
	conn_close(c->conn);
}

/* ---- start-ok ---- */

static bool
has_capability(struct bytes capabilities, struct bytes name)
{
	struct field field;

	return table_find(capabilities, name, &field) && field.class == FIELD_BOOLEAN &&
	       field.integer != 0;
}

static void
read_client_properties(struct connection *c, struct bytes properties)
{
	struct field field;

	c->client_properties = bytes_dup(properties);
	if (table_find(properties, BYTES("product"), &field) && field.class == FIELD_STRING)
		c->quirks = (uint8_t)quirks_of(field.bytes);
	if (!table_find(properties, BYTES("capabilities"), &field) || field.class != FIELD_TABLE)
		return;
	if (has_capability(field.bytes, BYTES("authentication_failure_close")))
		c->capabilities |= CLIENT_AUTHENTICATION_FAILURE_CLOSE;
	if (has_capability(field.bytes, BYTES("consumer_cancel_notify")))
		c->capabilities |= CLIENT_CONSUMER_CANCEL_NOTIFY;
	if (has_capability(field.bytes, BYTES("connection.blocked")))
		c->capabilities |= CLIENT_CONNECTION_BLOCKED;
}

/* The answer to a refused login waits: guessing passwords is slow. */
static void
refuse_login(struct connection *c, const char *mechanism)
{
	c->refused_mechanism = mechanism;
	connection_drop_after(c, c->session->options.failure_delay_ms);
}

const struct reply *
on_connection_start_ok(struct connection *c, const struct connection_start_ok *m)
{
	const struct session_options *options = &c->session->options;
	struct login login = {0};
	const struct reply *refusal;

	read_client_properties(c, m->client_properties);
	refusal = sasl_authenticate(c, m->mechanism, m->response, &login);
	if (refusal != NULL)
		return refusal;
	if (login.user == NULL) {
		refuse_login(c, login.mechanism);
		return NULL;
	}
	c->user = user_ref(login.user);
	connection_send(
		c, 0,
		&(struct method){.id = METHOD_connection_tune,
				 .connection_tune = {options->channel_max, options->frame_max,
						     options->heartbeat_s}});
	connection_set_state(c, CONNECTION_TUNING);
	return NULL;
}

/* ---- tune-ok ---- */

static const struct reply *
check_tuned(const char *what, uint32_t received, uint32_t offered)
{
	if (offered == 0 || (received != 0 && received <= offered))
		return NULL;
	return refuse(NOT_ALLOWED,
		      "negotiated %s = %u%s is higher than the maximum allowed value (%u)", what,
		      received, received == 0 ? " (no limit)" : "", offered);
}

const struct reply *
on_connection_tune_ok(struct connection *c, const struct connection_tune_ok *m)
{
	const struct session_options *options = &c->session->options;
	const struct reply *refusal = NULL;

	if (m->frame_max != 0 && m->frame_max < FRAME_MIN_SIZE)
		refusal = refuse(NOT_ALLOWED,
				 "negotiated frame_max = %u is lower than the minimum allowed "
				 "value (%u)",
				 m->frame_max, FRAME_MIN_SIZE);
	if (refusal == NULL)
		refusal = check_tuned("frame_max", m->frame_max, options->frame_max);
	if (refusal == NULL)
		refusal = check_tuned("channel_max", m->channel_max, options->channel_max);
	if (refusal != NULL)
		return refusal;
	c->frame_max = m->frame_max;
	c->payload_max = m->frame_max == 0 ? FRAME_PAYLOAD_LIMIT : m->frame_max;
	c->channel_max = m->channel_max;
	c->heartbeat_s = m->heartbeat;
	heartbeat_start(c);
	connection_set_state(c, CONNECTION_OPENING);
	return NULL;
}

/* ---- open ---- */

static const struct reply *
check_open(const struct connection *c, const struct connection_open *m, struct vhost **vhost)
{
	const struct session *session = c->session;
	const struct reply *refusal;

	if (session->connections.count > session->options.connection_max)
		return refuse(NOT_ALLOWED,
			      "connection refused: node connection limit (%u) is reached",
			      session->options.connection_max);
	*vhost = vhost_find(session->broker, m->virtual_host);
	if (*vhost == NULL)
		return refuse(NOT_ALLOWED, "vhost %.*s not found", BYTES_ARGS(m->virtual_host));
	refusal = limits_check_connection(*vhost, c->user);
	if (refusal != NULL)
		return refusal;
	if (!user_may_open(c->user, *vhost))
		return refuse(NOT_ALLOWED, "access to vhost '%.*s' refused for user '%.*s'",
			      BYTES_ARGS(m->virtual_host), BYTES_ARGS(c->user->name));
	return NULL;
}

const struct reply *
on_connection_open(struct connection *c, const struct connection_open *m)
{
	struct vhost *vhost = NULL;
	const struct reply *refusal = check_open(c, m, &vhost);

	if (refusal != NULL)
		return refusal;
	c->vhost = vhost;
	c->counted = true;
	limits_connection_opened(vhost, c->user);
	connection_send(c, 0, &(struct method){.id = METHOD_connection_open_ok});
	connection_set_state(c, CONNECTION_RUNNING);
	log_info("connection opened connection=%llu peer=%s:%u user=%.*s vhost=%.*s",
		 (unsigned long long)conn_id(c->conn), conn_peer(c->conn)->host,
		 conn_peer(c->conn)->port, BYTES_ARGS(c->user->name), BYTES_ARGS(vhost->name));
	return NULL;
}

/* ---- update-secret ---- */

/* Meant for tokens that expire (amqp.md 3.11). A password is not asked for again while the connection is
 * open, so a new one changes nothing, but for a user who is there no more. */
const struct reply *
on_connection_update_secret(struct connection *c, const struct connection_update_secret *m)
{
	(void)m;
	if (c->user->deleted)
		return refuse(NOT_ALLOWED, "New secret was refused by one of the backends");
	connection_send(c, 0, &(struct method){.id = METHOD_connection_update_secret_ok});
	return NULL;
}

/* ---- close ---- */

const struct reply *
on_connection_close(struct connection *c, const struct connection_close *m)
{
	struct channel *channel;

	(void)m;
	list_for_each (&c->channels, channel, struct channel, of_connection)
		if (channel->state == CHANNEL_OPEN)
			confirm_send(channel);
	connection_end_channels(c);
	connection_send(c, 0, &(struct method){.id = METHOD_connection_close_ok});
	if (c->state != CONNECTION_CLOSING)
		connection_set_state(c, CONNECTION_DROPPING);
	return NULL;
}

const struct reply *
on_connection_close_ok(struct connection *c, const struct connection_close_ok *m)
{
	(void)m;
	connection_set_state(c, CONNECTION_DROPPING);
	conn_close(c->conn);
	return NULL;
}

/* ---- dispatch ---- */

static const char *
state_name(uint8_t state)
{
	switch (state) {
	case CONNECTION_STARTING:
		return "starting";
	case CONNECTION_TUNING:
		return "tuning";
	case CONNECTION_OPENING:
		return "opening";
	case CONNECTION_RUNNING:
		return "running";
	default:
		return "closing";
	}
}

const struct reply *
connection_method(struct connection *c, struct bytes payload, uint32_t *method_id)
{
	struct method m;
	enum method_result result = method_decode(&m, payload);

	*method_id = m.id;
	if (result != METHOD_OK)
		return c->state == CONNECTION_CLOSING ? NULL : refuse_undecodable(result, m.id);
	switch (m.id) {
#define ON_CONNECTION(method, states)                                             \
	case METHOD_connection_##method:                                          \
		if (c->state & (states))                                          \
			return on_connection_##method(c, &m.connection_##method); \
		break;
#include "handlers.def"
	default:
		break;
	}
	if (c->state == CONNECTION_CLOSING)
		return NULL;
	if (c->state < CONNECTION_OPENING) {
		/* without a word, as RabbitMQ: a client that is as wrong as this handles no close */
		log_warn("unexpected method connection=%llu method=%s state=%s",
			 (unsigned long long)conn_id(c->conn), method_name(m.id),
			 state_name(c->state));
		connection_drop_after(c, c->session->options.failure_delay_ms);
		return NULL;
	}
	return refuse(CHANNEL_ERROR, "unexpected method in connection state %s",
		      state_name(c->state));
}
