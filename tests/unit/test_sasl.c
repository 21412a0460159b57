/* SPDX-License-Identifier: Apache-2.0 */
/* PLAIN, AMQPLAIN, EXTERNAL: good ones, malformed ones, refused ones and their delay. */
#include "unit/session_fixture.h"

static struct connect_options options;

static void
set_up(void)
{
	session_set_up();
	options = connect_options_default();
}

static struct client *
send_response(const char *mechanism, struct bytes response)
{
	struct client *client = client_accept(WIDE_WINDOW);
	uint8_t room[256];
	struct writer w = writer_of(room, sizeof(room));
	uint8_t *begun = table_begin(&w, BYTES("capabilities"));

	table_put_bool(&w, BYTES("authentication_failure_close"), true);
	table_end(&w, begun);
	client_start(client);
	client_send(
		client, 0,
		&(struct method){.id = METHOD_connection_start_ok,
				 .connection_start_ok = {
					 .client_properties = bytes_of(room, (size_t)(w.p - room)),
					 .mechanism = bytes_str(mechanism),
					 .response = response,
				 }});
	return client;
}

static void
expect_admitted(const char *mechanism, struct bytes response)
{
	client_expect(send_response(mechanism, response), 0, METHOD_connection_tune);
}

static void
expect_malformed(const char *mechanism, struct bytes response)
{
	struct client *client = send_response(mechanism, response);

	client_expect(client, 0, METHOD_connection_close);
	ck_assert_uint_eq(client->method.connection_close.reply_code, 502);
	ck_assert_uint_eq(client->method.connection_close.class_id, 10);
	ck_assert_uint_eq(client->method.connection_close.method_id, 11);
	pass_ms(2999);
	ck_assert(!mem_peer_closed(client->peer));
	pass_ms(1);
	client_expect_end(client);
	client_end(client);
	client_count--;
}

/* The refusal comes after the delay, and the end 3 s later or with close-ok. */
static void
expect_refused(struct client *client, const char *mechanism)
{
	char text[160];

	pass_ms(2999);
	client_expect_nothing(client);
	ck_assert(!mem_peer_closed(client->peer));
	pass_ms(1);
	snprintf(
		text, sizeof(text),
		"ACCESS_REFUSED - Login was refused using authentication mechanism %s. For details "
		"see the broker logfile.",
		mechanism);
	client_expect_close(client, 403, 0, text);
	client_expect_nothing(client);
	ck_assert(!mem_peer_closed(client->peer));
}

START_TEST(test_plain)
{
	expect_admitted("PLAIN", BYTES("\0guest\0secret"));
	expect_malformed("PLAIN", BYTES(""));
	expect_malformed("PLAIN", BYTES("\0guest"));
	expect_malformed("PLAIN", BYTES("guest\0secret"));
	expect_malformed("PLAIN", BYTES("guest\0guest\0secret"));
	expect_malformed("PLAIN", BYTES("\0guest\0secret\0"));
	expect_malformed("PLAIN", BYTES("\0guest\0secret\0more"));
	expect_refused(send_response("PLAIN", BYTES("\0guest\0Secret")), "PLAIN");
	expect_refused(send_response("PLAIN", BYTES("\0guest\0")), "PLAIN");
	expect_refused(send_response("PLAIN", BYTES("\0\0")), "PLAIN");
	expect_refused(send_response("PLAIN", BYTES("\0nobody\0secret")), "PLAIN");
}
END_TEST

START_TEST(test_amqplain)
{
	expect_admitted("AMQPLAIN", BYTES("\5LOGINS\0\0\0\5guest\10PASSWORDS\0\0\0\6secret"));
	expect_admitted("AMQPLAIN", BYTES("\10PASSWORDS\0\0\0\6secret\5LOGINS\0\0\0\5guest"));
	expect_refused(send_response("AMQPLAIN", BYTES("\5LOGINS\0\0\0\5guest"
						       "\10PASSWORDS\0\0\0\5wrong")),
		       "AMQPLAIN");
	expect_malformed("AMQPLAIN", BYTES(""));
	expect_malformed("AMQPLAIN", BYTES("\5LOGINS\0\0\0\5guest"));
	expect_malformed("AMQPLAIN", BYTES("\10PASSWORDS\0\0\0\6secret"));
	expect_malformed("AMQPLAIN", BYTES("\5LOGINI\0\0\0\5\10PASSWORDS\0\0\0\6secret"));
	expect_malformed("AMQPLAIN", BYTES("\5LOGINS\0\0\0\5guest\10PASSWORDS\0\0\0\7secret"));
	expect_malformed("AMQPLAIN", BYTES("\0\0\0\44\5LOGINS\0\0\0\5guest"));
}
END_TEST

START_TEST(test_mechanism_that_is_not_offered)
{
	struct client *client = send_response("FOO", BYTES(""));

	client_expect_close(client, 503, METHOD_connection_start_ok,
			    "COMMAND_INVALID - unknown authentication mechanism 'FOO'");
	client_send(client, 0, &(struct method){.id = METHOD_connection_close_ok});
	client_expect_end(client);
	client = send_response("EXTERNAL", BYTES(""));
	client_expect_close(client, 503, METHOD_connection_start_ok,
			    "COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'");
}
END_TEST

START_TEST(test_external_needs_a_certificate)
{
	session->options.mechanisms |= MECHANISM_EXTERNAL;
	expect_refused(send_response("EXTERNAL", BYTES("guest")), "EXTERNAL");
}
END_TEST

START_TEST(test_mechanisms_are_listed_with_spaces)
{
	ck_assert_str_eq(sasl_mechanisms(MECHANISM_PLAIN | MECHANISM_AMQPLAIN | MECHANISM_EXTERNAL),
			 "PLAIN AMQPLAIN EXTERNAL");
	ck_assert_str_eq(sasl_mechanisms(MECHANISM_AMQPLAIN), "AMQPLAIN");
	ck_assert_str_eq(sasl_mechanisms(0), "");
}
END_TEST

START_TEST(test_refused_login_ends_with_close_ok)
{
	struct client *client = client_accept(WIDE_WINDOW);

	options.password = "wrong";
	client_start(client);
	client_send_start_ok(client, &options);
	client_send_tune_ok(client, 2047, 131072, 0); // is not heard
	client_send_open(client, "/");
	expect_refused(client, "PLAIN");
	client_send(client, 0, &(struct method){.id = METHOD_connection_close_ok});
	client_expect_end(client);
}
END_TEST

START_TEST(test_refused_login_ends_by_the_clock)
{
	struct client *client = client_accept(WIDE_WINDOW);

	options.user = "nobody";
	client_start(client);
	client_send_start_ok(client, &options);
	expect_refused(client, "PLAIN");
	pass_ms(2999);
	ck_assert(!mem_peer_closed(client->peer));
	pass_ms(1);
	client_expect_end(client);
}
END_TEST

START_TEST(test_client_without_the_capability_is_told_nothing)
{
	struct client *client = client_accept(WIDE_WINDOW);

	options.password = "wrong";
	options.plain_client = true;
	client_start(client);
	client_send_start_ok(client, &options);
	pass_ms(2999);
	client_expect_nothing(client);
	ck_assert(!mem_peer_closed(client->peer));
	pass_ms(1);
	client_expect_end(client);
}
END_TEST

START_TEST(test_peer_that_goes_during_the_delay)
{
	struct client *client = send_response("PLAIN", BYTES("\0guest\0wrong"));

	run();
	mem_peer_break(client->peer);
	run();
	ck_assert_uint_eq(session_connection_count(session), 0);
	pass_ms(10000);
}
END_TEST

START_TEST(test_loopback_users_come_from_loopback_only)
{
	struct conn_address far = {.host = "192.0.2.7", .port = 1234};
	struct client *client;

	session_options_add_loopback_user(&session->options, BYTES("guest"));
	session_options_add_loopback_user(&session->options, BYTES("guest"));
	add_user("other", "secret");
	client_expect(send_response("PLAIN", BYTES("\0guest\0secret")), 0, METHOD_connection_tune);
	client = send_response("PLAIN", BYTES("\0guest\0secret"));
	conn_set_addresses(client->connection->conn, &far, &far);
	expect_refused(client, "PLAIN");
	client = send_response("PLAIN", BYTES("\0other\0secret"));
	conn_set_addresses(client->connection->conn, &far, &far);
	client_expect(client, 0, METHOD_connection_tune);
}
END_TEST

TESTS_WITH("sasl", set_up, session_tear_down, test_plain, test_amqplain,
	   test_mechanism_that_is_not_offered, test_external_needs_a_certificate,
	   test_mechanisms_are_listed_with_spaces, test_refused_login_ends_with_close_ok,
	   test_refused_login_ends_by_the_clock, test_client_without_the_capability_is_told_nothing,
	   test_peer_that_goes_during_the_delay, test_loopback_users_come_from_loopback_only)
