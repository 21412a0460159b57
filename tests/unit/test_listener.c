/* SPDX-License-Identifier: Apache-2.0 */
/* Listening, connecting, plain sockets, and the PROXY header in front. */
#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/connect.h"
#include "net/transport.h"
#include "util/mem.h"

#include "lib/runner.h"
#include "lib/sockets.h"

static struct listener *listener;

static void
listen_on(struct listener_options options)
{
	struct buf error;

	buf_init(&error, 0);
	ck_assert_msg(listener_open(&listener, net, &options, side_accepted, &server, &error) == 0,
		      "%s", buf_cstr(&error));
	buf_fini(&error);
}

static void
listen_at(const char *address)
{
	struct listener_options options = listener_options_default(0);

	ck_assert(listener_parse(address, &options));
	listen_on(options);
	ck_assert_uint_ne(listener_address(listener)->port, 0);
}

static void
tear_down(void)
{
	listener_close(&listener);
	sockets_tear_down();
}

static void
connect_to(const char *host)
{
	client.conn =
		conn_connect(net, host, listener_address(listener)->port, NULL, &side_ops, &client);
}

static void
ck_input(struct side *side, const char *text)
{
	ck_assert_uint_eq(side->input.n, strlen(text));
	ck_assert(bytes_equal(buf_bytes(&side->input), bytes_str(text)));
}

/* ---- addresses --------------------------------------------------------------------------------- */

START_TEST(test_addresses_are_parsed)
{
	struct listener_options options = listener_options_default(1);

	ck_assert_uint_eq(options.port, 1);
	ck_assert(listener_parse("5672", &options));
	ck_assert_str_eq(options.host, "");
	ck_assert_uint_eq(options.port, 5672);
	ck_assert(listener_parse("127.0.0.1:5673", &options));
	ck_assert_str_eq(options.host, "127.0.0.1");
	ck_assert_uint_eq(options.port, 5673);
	ck_assert(listener_parse("[::1]:5674", &options));
	ck_assert_str_eq(options.host, "::1");
	ck_assert_uint_eq(options.port, 5674);
	ck_assert(listener_parse("::1:5675", &options));
	ck_assert_str_eq(options.host, "::1");
	ck_assert(listener_parse(":::5676", &options));
	ck_assert_str_eq(options.host, "::");
	ck_assert(listener_parse("broker.example:0", &options));
	ck_assert_str_eq(options.host, "broker.example");
	ck_assert_uint_eq(options.port, 0);
}
END_TEST

START_TEST(test_bad_addresses_change_nothing)
{
	static const char *const bad[] = {
		"",	 ":5672",   "127.0.0.1:",  "127.0.0.1", "x",
		"65536", "1:65536", "[::1:5672",   "a b:1",	"-1",
		"+1",	 "[]:1",    "1.1.1.1/8:1", "0000001",	"[::1]x:1"};
	struct listener_options options = listener_options_default(77);

	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(!listener_parse(bad[i], &options), "%s", bad[i]);
	ck_assert_uint_eq(options.port, 77);
	ck_assert_str_eq(options.host, "");
}
END_TEST

/* ---- plain ------------------------------------------------------------------------------------- */

static void
ck_echo(const char *host)
{
	server.echo = true;
	connect_to(host);
	conn_write(client.conn, BYTES("written before it is connected"));
	AWAIT(client.input.n == 30);
	ck_input(&server, "written before it is connected");
	ck_assert_str_eq(conn_peer(client.conn)->host, host);
	ck_assert_uint_eq(conn_peer(client.conn)->port, listener_address(listener)->port);
	ck_assert_uint_eq(conn_peer(server.conn)->port, conn_local(client.conn)->port);
	ck_assert(conn_peer(server.conn)->loopback && conn_peer(client.conn)->loopback);
	conn_close(client.conn);
	AWAIT(server.closes == 1 && client.closes == 1);
	ck_assert_int_eq(server.error, 0);
	ck_assert_int_eq(client.error, 0);
}

START_TEST(test_ipv4)
{
	listen_at("127.0.0.1:0");
	ck_assert_str_eq(listener_address(listener)->host, "127.0.0.1");
	ck_echo("127.0.0.1");
}
END_TEST

START_TEST(test_ipv6)
{
	listen_at("[::1]:0");
	ck_echo("::1");
}
END_TEST

START_TEST(test_all_addresses)
{
	listen_at("0");
	ck_echo("127.0.0.1");
	ck_assert_str_eq(listener_address(listener)->host, "::");
}
END_TEST

START_TEST(test_all_addresses_by_ipv6)
{
	listen_at("0");
	ck_echo("::1");
}
END_TEST

START_TEST(test_port_in_use_is_one_clear_line)
{
	struct listener_options options = listener_options_default(0);
	struct listener *second;
	struct buf error;
	char expected[100];

	buf_init(&error, 0);
	listen_at("127.0.0.1:0");
	ck_assert(listener_parse("127.0.0.1:0", &options));
	options.port = listener_address(listener)->port;
	ck_assert_int_eq(listener_open(&second, net, &options, side_accepted, &server, &error),
			 -EADDRINUSE);
	ck_assert_ptr_null(second);
	snprintf(expected, sizeof(expected),
		 "cannot listen on 127.0.0.1:%u: Address already in use", (unsigned)options.port);
	ck_assert_str_eq(buf_cstr(&error), expected);
	buf_fini(&error);
}
END_TEST

START_TEST(test_adopted_socket)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct listener_options options = listener_options_default(0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct buf error;

	buf_init(&error, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(listen(fd, 10), 0);
	ck_assert_int_eq(
		listener_adopt(&listener, net, fd, &options, side_accepted, &server, &error), 0);
	ck_echo("127.0.0.1");
	buf_fini(&error);
}
END_TEST

START_TEST(test_refused_connection_is_told)
{
	uint16_t port;

	listen_at("127.0.0.1:0");
	port = listener_address(listener)->port;
	listener_close(&listener);
	client.conn = conn_connect(net, "127.0.0.1", port, NULL, &side_ops, &client);
	conn_write(client.conn, BYTES("lost"));
	AWAIT(client.closes == 1);
	ck_assert_int_eq(client.error, -ECONNREFUSED);
}
END_TEST

START_TEST(test_refused_connection_is_told_to_a_paused_conn)
{
	uint16_t port;

	listen_at("127.0.0.1:0");
	port = listener_address(listener)->port;
	listener_close(&listener);
	client.conn = conn_connect(net, "localhost", port, NULL, &side_ops, &client);
	conn_pause(client.conn, CONN_PAUSE_ALARM);
	AWAIT(client.closes == 1);
	ck_assert_int_eq(client.error, -ECONNREFUSED);
}
END_TEST

START_TEST(test_name_that_is_none)
{
	client.conn = conn_connect(net, "bad name", 5672, NULL, &side_ops, &client);
	AWAIT(client.closes == 1);
	ck_assert_int_eq(client.error, -EHOSTUNREACH);
}
END_TEST

static unsigned accepted_count;

static void
abort_accepted(struct conn *conn, void *context UNUSED)
{
	accepted_count++;
	conn_abort(conn, 0);
}

START_TEST(test_owner_may_refuse)
{
	struct listener_options options = listener_options_default(0);
	struct buf error;

	buf_init(&error, 0);
	ck_assert_int_eq(listener_open(&listener, net, &options, abort_accepted, NULL, &error), 0);
	connect_to("127.0.0.1");
	AWAIT(client.closes == 1);
	ck_assert_uint_eq(accepted_count, 1);
	buf_fini(&error);
}
END_TEST

START_TEST(test_much_in_both_directions)
{
	static uint8_t block[100000];
	size_t total = 30 * 1000 * 1000, sent = 0;

	listen_at("127.0.0.1:0");
	server.echo = true;
	connect_to("127.0.0.1");
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)(i * 31 + i / 253);
	while (client.input.n < total) {
		while (sent < total && !conn_is_full(client.conn)) {
			conn_write(client.conn, bytes_of(block, sizeof(block)));
			sent += sizeof(block);
		}
		sockets_turn();
	}
	ck_assert_uint_eq(client.input.n, total);
	ck_assert_uint_gt(client.drains, 10);
	for (size_t at = 0; at < total; at += sizeof(block))
		ck_assert(memcmp(client.input.p + at, block, sizeof(block)) == 0);
}
END_TEST

START_TEST(test_paused_conn_pushes_back_and_does_not_spin)
{
	static uint8_t block[65536];
	uint64_t before;

	listen_at("127.0.0.1:0");
	connect_to("127.0.0.1");
	AWAIT(server.conn != NULL);
	conn_pause(server.conn, CONN_PAUSE_ALARM);
	/* Until the sockets are full: then nothing is left to do, and no event ends a wait. One that came
	 * again and again would keep this from ending. */
	do {
		while (!conn_is_full(client.conn))
			conn_write(client.conn, bytes_of(block, sizeof(block)));
		sockets_work();
		before = clock_read().monotonic_ms;
		loop_wait(loop, net_work_left(net) ? 0 : 100);
		sockets_work();
	} while (clock_read().monotonic_ms - before < 90);
	ck_assert_uint_eq(server.input.n, 0);
	conn_resume(server.conn, CONN_PAUSE_ALARM);
	AWAIT(conn_output_size(client.conn) == 0);
	before = conn_octets_out(client.conn);
	AWAIT(server.input.n == before);
}
END_TEST

START_TEST(test_last_output_is_not_lost_by_unread_input)
{
	static uint8_t block[50000];

	listen_at("127.0.0.1:0");
	connect_to("127.0.0.1");
	AWAIT(server.conn != NULL);
	conn_pause(client.conn, CONN_PAUSE_HOLD);
	conn_write(client.conn, bytes_of(block, sizeof(block))); // the server will not read it
	net_flush(net);
	conn_write(server.conn, bytes_of(block, sizeof(block)));
	conn_close(server.conn);
	AWAIT(server.closes == 1);
	conn_write(client.conn, bytes_of(block, sizeof(block)));
	net_flush(net);
	conn_resume(client.conn, CONN_PAUSE_HOLD);
	AWAIT(client.closes == 1);
	ck_assert_int_eq(client.error, 0);
	ck_assert_uint_eq(client.input.n, sizeof(block));
}
END_TEST

START_TEST(test_no_descriptor_left_rests_and_goes_on)
{
	struct rlimit limit, low;
	int last, out;

	listen_at("127.0.0.1:0");
	connect_to("127.0.0.1");
	last = dup(0);
	ck_assert_int_ge(last, 0);
	close(last);
	getrlimit(RLIMIT_NOFILE, &limit);
	low = limit;
	low.rlim_cur = (rlim_t)last;
	out = dup(2);
	if (out >= 0)
		close(out);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	AWAIT(deadlines.count == 1); // it rests
	ck_assert_ptr_null(server.conn);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	AWAIT(server.conn != NULL);
}
END_TEST

/* ---- the PROXY header -------------------------------------------------------------------------- */

static void
listen_for_proxy(const char *trusted)
{
	struct listener_options options = listener_options_default(0);
	struct proxy_network network;

	ck_assert(proxy_network_parse(trusted, &network));
	ck_assert(listener_parse("127.0.0.1:0", &options));
	options.proxy_protocol = true;
	options.trusted = &network;
	options.trusted_count = 1;
	options.handshake_ms = 60000;
	listen_on(options);
}

START_TEST(test_proxy_header_gives_the_addresses)
{
	listen_for_proxy("127.0.0.0/8");
	connect_to("127.0.0.1");
	conn_write(client.conn, BYTES("PROXY TCP4 192.0.2.1 192.0.2.2 1111 5672\r\nAMQP"));
	AWAIT(server.input.n == 4);
	ck_input(&server, "AMQP");
	ck_assert_str_eq(conn_peer(server.conn)->host, "192.0.2.1");
	ck_assert_uint_eq(conn_peer(server.conn)->port, 1111);
	ck_assert(!conn_peer(server.conn)->loopback);
	ck_assert_str_eq(conn_local(server.conn)->host, "192.0.2.2");
}
END_TEST

START_TEST(test_proxy_header_in_pieces)
{
	static const char header[] = "PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\nAMQP";

	listen_for_proxy("127.0.0.1");
	connect_to("127.0.0.1");
	for (size_t i = 0; i < sizeof(header) - 1; i++) {
		conn_write(client.conn, bytes_of(header + i, 1));
		AWAIT(conn_output_size(client.conn) == 0);
		loop_wait(loop, 1);
		sockets_work();
	}
	AWAIT(server.input.n == 4);
	ck_input(&server, "AMQP");
	ck_assert_str_eq(conn_peer(server.conn)->host, "2001:db8::1");
}
END_TEST

START_TEST(test_proxy_local_keeps_addresses)
{
	listen_for_proxy("127.0.0.1");
	connect_to("127.0.0.1");
	conn_write(client.conn, BYTES("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0AMQP"));
	AWAIT(server.input.n == 4);
	ck_assert_str_eq(conn_peer(server.conn)->host, "127.0.0.1");
	ck_assert_uint_eq(conn_peer(server.conn)->port, conn_local(client.conn)->port);
}
END_TEST

START_TEST(test_no_proxy_header_is_refused)
{
	listen_for_proxy("127.0.0.1");
	connect_to("127.0.0.1");
	conn_write(client.conn, BYTES("AMQP\0\0\x09\x01"));
	AWAIT(client.closes == 1);
	ck_assert_ptr_null(server.conn);
	ck_assert_uint_eq(server.closes, 0);
}
END_TEST

START_TEST(test_proxy_header_from_elsewhere_is_refused)
{
	listen_for_proxy("192.0.2.0/24");
	connect_to("127.0.0.1");
	conn_write(client.conn, BYTES("PROXY TCP4 192.0.2.1 192.0.2.2 1111 5672\r\n"));
	AWAIT(client.closes == 1);
	ck_assert_ptr_null(server.conn);
}
END_TEST

START_TEST(test_proxy_header_has_its_time)
{
	struct listener_options options = listener_options_default(0);

	options.proxy_protocol = true;
	options.handshake_ms = 30;
	listen_on(options);
	connect_to("127.0.0.1");
	conn_write(client.conn, BYTES("PROXY TCP4 "));
	AWAIT(client.closes == 1);
	ck_assert_ptr_null(server.conn);
}
END_TEST

START_TEST(test_closed_listener_ends_those_without_header)
{
	listen_for_proxy("127.0.0.1");
	connect_to("127.0.0.1");
	conn_write(client.conn, BYTES("PROXY"));
	AWAIT(deadlines.count == 1); // it is accepted and waits
	listener_close(&listener);
	ck_assert_uint_eq(deadlines.count, 0);
	AWAIT(client.closes == 1);
}
END_TEST

TESTS_WITH("listener", sockets_set_up, tear_down, test_addresses_are_parsed,
	   test_bad_addresses_change_nothing, test_ipv4, test_ipv6, test_all_addresses,
	   test_all_addresses_by_ipv6, test_port_in_use_is_one_clear_line, test_adopted_socket,
	   test_refused_connection_is_told, test_refused_connection_is_told_to_a_paused_conn,
	   test_name_that_is_none, test_owner_may_refuse, test_much_in_both_directions,
	   test_paused_conn_pushes_back_and_does_not_spin,
	   test_last_output_is_not_lost_by_unread_input, test_no_descriptor_left_rests_and_goes_on,
	   test_proxy_header_gives_the_addresses, test_proxy_header_in_pieces,
	   test_proxy_local_keeps_addresses, test_no_proxy_header_is_refused,
	   test_proxy_header_from_elsewhere_is_refused, test_proxy_header_has_its_time,
	   test_closed_listener_ends_those_without_header)
