/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librabbitmq over TLS, and when the broker is killed under load. The library does not connect again: the
 * program does, in a loop, and goes on. The messages of a load are numbers, each published once.
 */
#include "client/rabbitmq_c.h"

#include <amqp_ssl_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUEUE "rabbitmq-c.recovery"
#define WINDOW 100    // unconfirmed at a time
#define ENOUGH 500    // confirms before the kill, and after the restart
#define MESSAGES 4000 // more than ever are published
#define RETRY_MS 100

enum stage {
	NEVER = 0, // not confirmed
	BEFORE,	   // on a connection made before the kill
	AFTER,	   // on one made after it
};

/* Publishes and consumes on one channel. */
struct load {
	const struct login *login;    // borrows for good
	amqp_connection_state_t conn; // owns
	enum stage stage;	      // of this connection
	uint32_t published;	      // the next number
	uint32_t first;		      // the number that has delivery tag 1 on this connection
	uint32_t unconfirmed;	      // of this connection
	uint32_t confirmed;	      // of this connection
	struct {
		enum stage confirmed; // when
		bool came;	      // at least once
		bool came_as_new;     // once without the mark "redelivered"
	} messages[MESSAGES];	      // by number
};

/* ---- TLS ---- */

START_TEST(test_bodies_go_through_tls)
{
	/* Around the 16,384 octets of a record, and many of them. */
	static const size_t sizes[] = {0, 1, 16384, 16385, 1000000};
	static char octets[1000000];
	amqp_connection_state_t conn = connect_with(&(struct login){.tls = true});
	char queue[256];

	for (size_t i = 0; i < sizeof octets; i++)
		octets[i] = (char)(i * 7 >> 3);
	temporary_queue(conn, 1, queue);
	consume(conn, 1, queue, "", true);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		amqp_envelope_t envelope;
		amqp_bytes_t body = {.len = sizes[i], .bytes = octets};
		ck_assert_int_eq(amqp_basic_publish(conn, 1, amqp_empty_bytes,
						    amqp_cstring_bytes(queue), 0, 0, NULL, body),
				 AMQP_STATUS_OK);
		await_delivery(conn, &envelope);
		ck_assert_uint_eq(envelope.message.body.len, sizes[i]);
		ck_assert(!sizes[i] || memcmp(envelope.message.body.bytes, octets, sizes[i]) == 0);
		amqp_destroy_envelope(&envelope);
	}
	close_connection(conn);
}
END_TEST

START_TEST(test_errors_come_through_tls)
{
	amqp_connection_state_t conn = connect_with(&(struct login){.tls = true});
	amqp_rpc_reply_t reply;

	amqp_queue_declare(conn, 1, amqp_cstring_bytes("rabbitmq-c.none"), 1, 0, 0, 0,
			   amqp_empty_table);
	must_close_channel(conn, 1, 404, "NOT_FOUND - no queue 'rabbitmq-c.none' in vhost '/'");
	close_connection(conn);
	conn = try_connect(&(struct login){.tls = true, .vhost = "nowhere"}, &reply);
	must_close_connection(reply, 530, "NOT_ALLOWED - vhost nowhere not found");
	amqp_destroy_connection(conn);
}
END_TEST

/* The certificate is of nobody that the system trusts, then for another name than the one asked for. */
START_TEST(test_library_refuses_a_stranger)
{
	amqp_connection_state_t conn = amqp_new_connection();
	amqp_socket_t *sock = amqp_ssl_socket_new(conn);

	ck_assert_int_eq(amqp_socket_open(sock, broker_host(), broker_port(true)),
			 AMQP_STATUS_SSL_PEER_VERIFY_FAILED);
	amqp_destroy_connection(conn);

	conn = amqp_new_connection();
	sock = amqp_ssl_socket_new(conn);
	ck_assert_int_eq(amqp_ssl_socket_set_cacert(sock, broker_authority()), AMQP_STATUS_OK);
	ck_assert_int_eq(amqp_socket_open(sock, "127.0.0.1", broker_port(true)),
			 AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED);
	amqp_destroy_connection(conn);
}
END_TEST

/* ---- a load ---- */

/* Everything on a new connection but the queue. */
static void
begin(struct load *load, enum stage stage)
{
	load->stage = stage;
	load->first = load->published;
	load->unconfirmed = load->confirmed = 0;
	amqp_confirm_select(load->conn, 1);
	must(load->conn, "confirm.select");
	amqp_basic_qos(load->conn, 1, 0, 20, 0);
	must(load->conn, "basic.qos");
	consume(load->conn, 1, QUEUE, "", false);
}

static void
declare_durable(amqp_connection_state_t conn)
{
	amqp_queue_declare(conn, 1, amqp_cstring_bytes(QUEUE), 0, 1, 0, 0, amqp_empty_table);
	must(conn, "queue.declare");
}

/* False when the connection is lost, as in all that follow. */
static bool
fill_window(struct load *load)
{
	const amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
						    .delivery_mode = AMQP_DELIVERY_PERSISTENT};
	char text[16];

	while (load->unconfirmed < WINDOW) {
		ck_assert_uint_lt(load->published, MESSAGES);
		snprintf(text, sizeof text, "%u", (unsigned)load->published++);
		load->unconfirmed++;
		if (amqp_basic_publish(load->conn, 1, amqp_empty_bytes, amqp_cstring_bytes(QUEUE),
				       0, 0, &properties,
				       amqp_cstring_bytes(text)) != AMQP_STATUS_OK)
			return false;
	}
	return true;
}

static void
note_confirm(struct load *load, const amqp_basic_ack_t *ack)
{
	uint64_t from = ack->multiple ? 1 : ack->delivery_tag;

	for (uint64_t tag = from; tag <= ack->delivery_tag; tag++) {
		uint64_t number = load->first + tag - 1;
		ck_assert_uint_lt(number, load->published);
		if (load->messages[number].confirmed != NEVER)
			continue;
		load->messages[number].confirmed = load->stage;
		load->unconfirmed--;
		load->confirmed++;
	}
}

static bool
take_delivery(struct load *load, const amqp_envelope_t *envelope)
{
	char text[16] = "";

	ck_assert_uint_lt(envelope->message.body.len, sizeof text);
	memcpy(text, envelope->message.body.bytes, envelope->message.body.len);
	unsigned long number = strtoul(text, NULL, 10);
	ck_assert_uint_lt(number, load->published);
	if (!envelope->redelivered) {
		ck_assert_msg(!load->messages[number].came_as_new, "%lu came twice as new", number);
		load->messages[number].came_as_new = true;
	}
	load->messages[number].came = true;
	return amqp_basic_ack(load->conn, 1, envelope->delivery_tag, 0) == AMQP_STATUS_OK;
}

/* Takes the next delivery or confirm. */
static bool
take_one(struct load *load)
{
	const struct timeval limit = {.tv_sec = AWAIT_S};
	amqp_envelope_t envelope;
	amqp_frame_t frame;

	amqp_maybe_release_buffers(load->conn);
	amqp_rpc_reply_t reply = amqp_consume_message(load->conn, &envelope, &limit, 0);
	if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
		bool acked = take_delivery(load, &envelope);
		amqp_destroy_envelope(&envelope);
		return acked;
	}
	ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_LIBRARY_EXCEPTION);
	ck_assert_msg(reply.library_error != AMQP_STATUS_TIMEOUT, "nothing comes, confirmed: %u",
		      (unsigned)load->confirmed);
	/* So the library says that the next frame is another one than a delivery. */
	if (reply.library_error != AMQP_STATUS_UNEXPECTED_STATE)
		return false;
	ck_assert_int_eq(amqp_simple_wait_frame(load->conn, &frame), AMQP_STATUS_OK);
	ck_assert_uint_eq(frame.frame_type, AMQP_FRAME_METHOD);
	ck_assert_uint_eq(frame.payload.method.id, AMQP_BASIC_ACK_METHOD);
	note_confirm(load, frame.payload.method.decoded);
	return true;
}

/* Tries until the broker is there again. */
static void
reconnect(struct load *load)
{
	const struct timespec step = {.tv_nsec = RETRY_MS * 1000 * 1000};

	amqp_destroy_connection(load->conn);
	load->conn = connect_if_there(load->login);
	ck_assert_ptr_null(load->conn);
	broker_launch();
	for (int i = 0; !load->conn && i < AWAIT_S * 1000 / RETRY_MS; i++) {
		nanosleep(&step, NULL);
		load->conn = connect_if_there(load->login);
	}
	ck_assert_ptr_nonnull(load->conn);
	open_channel(load->conn, 1);
}

/* Whether a broker that was killed still has its durable queue. */
static bool
queue_is_there(amqp_connection_state_t conn)
{
	amqp_queue_declare(conn, 1, amqp_cstring_bytes(QUEUE), 1, 0, 0, 0, amqp_empty_table);
	if (amqp_get_rpc_reply(conn).reply_type == AMQP_RESPONSE_NORMAL)
		return true;
	must_close_channel(conn, 1, 404, "NOT_FOUND - no queue");
	open_channel(conn, 1);
	return false;
}

/* What was confirmed since the restart must come; all that was, when the queue has survived. */
static bool
all_came(const struct load *load, bool survived)
{
	for (uint32_t i = 0; i < load->published; i++) {
		enum stage confirmed = load->messages[i].confirmed;
		if (!load->messages[i].came &&
		    (confirmed == AFTER || (confirmed == BEFORE && survived)))
			return false;
	}
	return true;
}

static void
kill_under_load(const struct login *login)
{
	static struct load load;

	load.login = login;
	load.conn = connect_with(login);
	declare_durable(load.conn);
	begin(&load, BEFORE);
	while (load.confirmed < ENOUGH)
		ck_assert(fill_window(&load) && take_one(&load));
	ck_assert(fill_window(&load));
	broker_kill();
	while (fill_window(&load) && take_one(&load))
		;
	ck_assert_uint_gt(load.unconfirmed, 0);

	reconnect(&load);
	bool survived = queue_is_there(load.conn);
	declare_durable(load.conn);
	begin(&load, AFTER);
	while (load.confirmed < ENOUGH)
		ck_assert(fill_window(&load) && take_one(&load));
	while (load.unconfirmed > 0 || !all_came(&load, survived))
		ck_assert(take_one(&load));
	close_connection(load.conn);
}

START_TEST(test_program_recovers_from_a_killed_broker)
{
	kill_under_load(&(struct login){0});
}
END_TEST

START_TEST(test_program_recovers_over_tls)
{
	kill_under_load(&(struct login){.tls = true});
}
END_TEST

OWN_BROKER_TESTS("rabbitmq-c recovery", test_bodies_go_through_tls, test_errors_come_through_tls,
		 test_library_refuses_a_stranger, test_program_recovers_from_a_killed_broker,
		 test_program_recovers_over_tls)
