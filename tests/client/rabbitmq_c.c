/* SPDX-License-Identifier: Apache-2.0 */
/* The shared part of the librabbitmq programs, see rabbitmq_c.h: first the broker, then the calls. */
#include "client/rabbitmq_c.h"

#include "lib/runner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_S 60

/* The broker under test; filled before the first test forks. */
static struct {
	char host[64]; // where it listens
	int port;      // the same
	pid_t pid;     // 0: it is somebody else's
	char data[64]; // its -D, removed at the end
} broker;

/* ---- the broker ---- */

static struct sockaddr_in
address_of(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static int
free_port(void)
{
	struct sockaddr_in address = address_of(0);
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof address) ||
	    getsockname(fd, (struct sockaddr *)&address, &size)) {
		perror("a free port");
		exit(EXIT_FAILURE);
	}
	close(fd);
	return ntohs(address.sin_port);
}

static bool
accepts(int port)
{
	struct sockaddr_in address = address_of(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;

	close(fd);
	return connected;
}

/* In the child: becomes pannierd, which must not outlive the program. */
static void
become_pannierd(void)
{
	char program[4096], listener[64];
	const char *build = getenv("PANNIER_BUILD");

	if (getenv("PANNIERD"))
		snprintf(program, sizeof program, "%s", getenv("PANNIERD"));
	else
		snprintf(program, sizeof program, "%s/pannierd", build ? build : ".");
	snprintf(listener, sizeof listener, "listeners.tcp.1=127.0.0.1:%d", broker.port);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execl(program, program, "-D", broker.data, "--set", listener, "--set", "log.console=true",
	      (char *)NULL);
	fprintf(stderr, "%s: %s\n", program, strerror(errno));
	_exit(127);
}

/* True when it accepts; false when it ended, as it does when another took the port. */
static bool
await_start(void)
{
	const struct timespec step = {.tv_nsec = 10 * 1000 * 1000};

	for (int i = 0; i < START_S * 100; i++) {
		if (waitpid(broker.pid, NULL, WNOHANG) == broker.pid)
			return false;
		if (accepts(broker.port))
			return true;
		nanosleep(&step, NULL);
	}
	kill(broker.pid, SIGKILL);
	waitpid(broker.pid, NULL, 0);
	return false;
}

static void
broker_start(void)
{
	const char *url = getenv("PANNIER_URL");

	if (url) {
		const char *at = strchr(url, '@');
		if (sscanf(at ? at + 1 : url + strlen("amqp://"), "%63[^:/]:%d", broker.host,
			   &broker.port) == 2)
			return;
		fprintf(stderr, "PANNIER_URL: not of the form amqp://host:port: %s\n", url);
		exit(EXIT_FAILURE);
	}
	snprintf(broker.host, sizeof broker.host, "127.0.0.1");
	snprintf(broker.data, sizeof broker.data, "/tmp/pannier-client-XXXXXX");
	if (!mkdtemp(broker.data)) {
		perror("a directory for data");
		exit(EXIT_FAILURE);
	}
	for (int attempt = 0; attempt < 3; attempt++) {
		broker.port = free_port();
		broker.pid = fork();
		if (broker.pid == 0)
			become_pannierd();
		if (await_start())
			return;
	}
	fprintf(stderr, "pannierd did not start\n");
	exit(EXIT_FAILURE);
}

static void
remove_data(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-rf", broker.data, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

/* Stops it with SIGTERM. Returns 0 when it ended with status 0. */
static int
broker_stop(void)
{
	int status = 0;

	if (!broker.pid)
		return 0;
	kill(broker.pid, SIGTERM);
	waitpid(broker.pid, &status, 0);
	if (status)
		fprintf(stderr, "pannierd ended with wait status %#x\n", (unsigned)status);
	remove_data();
	return status;
}

int
run_with_broker(const char *name, const TTest *const *tests, size_t n)
{
	broker_start();
	int result = run_tests(name, tests, n, NULL, NULL);
	return broker_stop() ? EXIT_FAILURE : result;
}

/* ---- connections ---- */

amqp_connection_state_t
try_connect(const struct login *login, amqp_rpc_reply_t *reply)
{
	amqp_connection_state_t conn = amqp_new_connection();
	amqp_socket_t *sock = amqp_tcp_socket_new(conn);
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

	ck_assert_ptr_nonnull(sock);
	ck_assert_int_eq(amqp_socket_open(sock, broker.host, broker.port), AMQP_STATUS_OK);
	*reply = amqp_login_with_properties(conn, login->vhost ? login->vhost : "/", 0,
					    login->frame_max ? login->frame_max : 131072,
					    login->heartbeat, &properties, AMQP_SASL_METHOD_PLAIN,
					    "guest", login->password ? login->password : "guest");
	return conn;
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
