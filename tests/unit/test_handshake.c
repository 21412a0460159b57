/* SPDX-License-Identifier: Apache-2.0 */
/* Channel 0: protocol header, start, tune, open, close; timeouts and heartbeats by the clock. */
#include "unit/session_fixture.h"

static struct connect_options options;

static void
set_up(void)
{
	session_set_up();
	options = connect_options_default();
}

/* A client that has got as far as tune. */
static struct client *
tuning(void)
{
	struct client *client = client_accept(WIDE_WINDOW);

	client_start(client);
	client_send_start_ok(client, &options);
	client_expect(client, 0, METHOD_connection_tune);
	return client;
}

static struct client *
opening(void)
{
	struct client *client = tuning();

	client_send_tune_ok(client, 2047, 131072, 0);
	client_expect_nothing(client);
	return client;
}

static void
send_close(struct client *client)
{
	client_send(client, 0,
		    &(struct method){
			    .id = METHOD_connection_close,
			    .connection_close = {.reply_code = 200, .reply_text = BYTES("bye")}});
}

static void
send_close_ok(struct client *client)
{
	client_send(client, 0, &(struct method){.id = METHOD_connection_close_ok});
}

/* ---- header and start --------------------------------------------------------------------------- */

START_TEST(test_start_is_what_clients_look_for)
{
	struct client *client = client_accept(WIDE_WINDOW);
	const struct method *m;
	struct field capabilities, field;

	client_send_octets(client, BYTES("AMQP\0\0\11\1"));
	m = client_expect(client, 0, METHOD_connection_start);
	ck_assert_uint_eq(m->connection_start.version_major, 0);
	ck_assert_uint_eq(m->connection_start.version_minor, 9);
	ck_assert(bytes_has_prefix(m->connection_start.mechanisms, BYTES("PLAIN")));
	assert_bytes(m->connection_start.locales, "en_US");
	ck_assert(table_find(m->connection_start.server_properties, BYTES("capabilities"),
			     &capabilities));
	ck_assert(table_find(capabilities.bytes, BYTES("basic.nack"), &field));
	ck_assert_int_eq(field.integer, 1);
	ck_assert(table_find(m->connection_start.server_properties, BYTES("version"), &field));
	ck_assert_uint_lt(client->frame.n, 4096);
}
END_TEST

START_TEST(test_header_comes_octet_by_octet)
{
	struct client *client = client_accept(WIDE_WINDOW);

	for (size_t i = 0; i < PROTOCOL_HEADER_SIZE; i++) {
		client_expect_nothing(client);
		client_send_octets(client, bytes_of(protocol_header + i, 1));
	}
	client_expect(client, 0, METHOD_connection_start);
}
END_TEST

START_TEST(test_old_spelling_of_the_header)
{
	struct client *client = client_accept(WIDE_WINDOW);

	client_send_octets(client, BYTES("AMQP\1\1\0\11"));
	client_expect(client, 0, METHOD_connection_start);
}
END_TEST

START_TEST(test_wrong_header_gets_ours_and_the_end)
{
	static const struct bytes headers[] = {BYTES("GET / HT"), BYTES("AMQP\0\0\11\0"),
					       BYTES("AMQP\3\1\0\0"), BYTES("\x16\3\1\0\0\0\0\0"),
					       BYTES("amqp\0\0\11\1 and more of it")};

	for (size_t i = 0; i < countof(headers); i++) {
		struct client *client = client_accept(WIDE_WINDOW);

		client_send_octets(client, headers[i]);
		client_receive(client);
		ck_assert_uint_eq(client->received.n, PROTOCOL_HEADER_SIZE);
		ck_assert_mem_eq(client->received.p, protocol_header, PROTOCOL_HEADER_SIZE);
		ck_assert(mem_peer_closed(client->peer));
		buf_clear(&client->received);
	}
}
END_TEST

START_TEST(test_handshake_has_a_time_limit)
{
	struct client *silent = client_accept(WIDE_WINDOW);
	struct client *slow = opening();
	struct client *done = client_connect_with(&options, WIDE_WINDOW);

	pass_ms(9999);
	ck_assert(!mem_peer_closed(silent->peer));
	ck_assert(!mem_peer_closed(slow->peer));
	pass_ms(1);
	client_expect_end(silent);
	client_expect_end(slow);
	ck_assert(!mem_peer_closed(done->peer));
}
END_TEST

START_TEST(test_unexpected_methods_before_open_end_it_without_a_word)
{
	struct client *client = client_accept(WIDE_WINDOW);

	client_start(client);
	client_send_open(client, "/");
	pass_ms(2999);
	client_expect_nothing(client);
	ck_assert(!mem_peer_closed(client->peer));
	pass_ms(1);
	client_expect_end(client);
}
END_TEST

START_TEST(test_channels_before_open_are_refused)
{
	struct client *client = opening();

	client_send(client, 1, &(struct method){.id = METHOD_channel_open});
	client_expect(client, 0, METHOD_connection_close);
	send_close_ok(client);
	client_expect_end(client);
}
END_TEST

START_TEST(test_heartbeats_are_taken_in_any_state)
{
	struct client *client = client_accept(WIDE_WINDOW);

	client_start(client);
	client_send_octets(client, bytes_of(heartbeat_frame, sizeof(heartbeat_frame)));
	client_send_start_ok(client, &options);
	client_expect(client, 0, METHOD_connection_tune);
	client_send_octets(client, bytes_of(heartbeat_frame, sizeof(heartbeat_frame)));
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_initial_frames_have_a_limit)
{
	struct client *client = client_accept(WIDE_WINDOW);
	uint8_t prefix[FRAME_PREFIX];

	client_start(client);
	frame_prefix_encode(prefix, FRAME_METHOD, 0, 8193);
	client_send_octets(client, bytes_of(prefix, sizeof(prefix)));
	client_expect(client, 0, METHOD_connection_close);
	send_close_ok(client); // not read any more
	client_expect_nothing(client);
	ck_assert(!mem_peer_closed(client->peer));
	pass_ms(3000);
	client_expect_end(client);
}
END_TEST

/* ---- tune --------------------------------------------------------------------------------------- */

static void
refused_tune(uint16_t channel_max, uint32_t frame_max, const char *text)
{
	struct client *client = tuning();

	client_send_tune_ok(client, channel_max, frame_max, 0);
	client_expect_close(client, 530, METHOD_connection_tune_ok, text);
	client_send_open(client, "/"); // is not heard
	client_expect_nothing(client);
	pass_ms(3000);
	client_expect_end(client);
}

START_TEST(test_tune_offers_the_options)
{
	struct client *client = tuning();

	ck_assert_uint_eq(client->method.connection_tune.channel_max, 2047);
	ck_assert_uint_eq(client->method.connection_tune.frame_max, 131072);
	ck_assert_uint_eq(client->method.connection_tune.heartbeat, 60);
}
END_TEST

START_TEST(test_tune_breaches)
{
	refused_tune(2047, 4095,
		     "NOT_ALLOWED - negotiated frame_max = 4095 is lower than the minimum allowed "
		     "value (4096)");
	refused_tune(2047, 131073,
		     "NOT_ALLOWED - negotiated frame_max = 131073 is higher than the maximum "
		     "allowed value (131072)");
	refused_tune(2047, 0,
		     "NOT_ALLOWED - negotiated frame_max = 0 (no limit) is higher than the "
		     "maximum allowed value (131072)");
	refused_tune(2048, 131072,
		     "NOT_ALLOWED - negotiated channel_max = 2048 is higher than the maximum "
		     "allowed value (2047)");
	refused_tune(0, 131072,
		     "NOT_ALLOWED - negotiated channel_max = 0 (no limit) is higher than the "
		     "maximum allowed value (2047)");
}
END_TEST

START_TEST(test_tune_takes_what_is_lower)
{
	struct client *client;

	options.channel_max = 1;
	options.frame_max = 4096;
	client = client_connect_with(&options, WIDE_WINDOW);
	ck_assert_uint_eq(client->connection->frame_max, 4096);
	client_open_channel(client, 500);
	client_send(client, 1, &(struct method){.id = METHOD_channel_open});
	client_expect_close(client, 530, 0,
			    "NOT_ALLOWED - number of channels opened (1) has reached the "
			    "negotiated channel_max (1)");
}
END_TEST

START_TEST(test_tune_ok_and_open_in_one_write)
{
	struct client *client = tuning();
	struct buf stream;

	buf_init(&stream, 0);
	stream_method(&stream, 0,
		      &(struct method){.id = METHOD_connection_tune_ok,
				       .connection_tune_ok = {100, 8192, 0}});
	stream_method(&stream, 0,
		      &(struct method){.id = METHOD_connection_open,
				       .connection_open = {.virtual_host = BYTES("/")}});
	stream_method(&stream, 3, &(struct method){.id = METHOD_channel_open});
	client_send_octets(client, buf_bytes(&stream));
	buf_fini(&stream);
	client_expect(client, 0, METHOD_connection_open_ok);
	client_expect(client, 3, METHOD_channel_open_ok);
}
END_TEST

/* ---- open --------------------------------------------------------------------------------------- */

START_TEST(test_open_needs_a_vhost_that_is_there)
{
	struct client *client = opening();

	client_send_open(client, "nowhere");
	client_expect_close(client, 530, METHOD_connection_open,
			    "NOT_ALLOWED - vhost nowhere not found");
}
END_TEST

START_TEST(test_open_needs_a_permission_record)
{
	struct client *client = opening();

	vhost_create(broker, BYTES("other"));
	client_send_open(client, "other");
	client_expect_close(client, 530, METHOD_connection_open,
			    "NOT_ALLOWED - access to vhost 'other' refused for user 'guest'");
}
END_TEST

START_TEST(test_open_counts_connections)
{
	struct client *client;

	session->options.connection_max = 1;
	client_connect_with(&options, WIDE_WINDOW);
	client = opening();
	client_send_open(client, "/");
	client_expect_close(client, 530, METHOD_connection_open,
			    "NOT_ALLOWED - connection refused: node connection limit (1) is "
			    "reached");
}
END_TEST

START_TEST(test_deleted_user_lives_for_its_connections)
{
	struct client *client = opening();

	user_delete(broker, user_find(broker, BYTES("guest")));
	client_send_open(client, "/");
	client_expect_close(client, 530, METHOD_connection_open,
			    "NOT_ALLOWED - access to vhost '/' refused for user 'guest'");
}
END_TEST

/* ---- close -------------------------------------------------------------------------------------- */

START_TEST(test_close_is_answered_in_every_state)
{
	struct client *states[4];

	states[0] = client_accept(WIDE_WINDOW);
	client_start(states[0]);
	states[1] = tuning();
	states[2] = opening();
	states[3] = client_connect_with(&options, WIDE_WINDOW);
	for (size_t i = 0; i < countof(states); i++) {
		send_close(states[i]);
		client_expect(states[i], 0, METHOD_connection_close_ok);
		/* what comes behind it is not looked at */
		client_send_octets(states[i], BYTES("garbage garbage garbage"));
		client_expect_nothing(states[i]);
		ck_assert(!mem_peer_closed(states[i]->peer));
	}
	mem_peer_close(states[3]->peer);
	client_expect_end(states[3]);
	ck_assert_uint_eq(session_connection_count(session), 3);
	pass_ms(29999);
	ck_assert(!mem_peer_closed(states[0]->peer));
	pass_ms(1);
	for (size_t i = 0; i < countof(states); i++)
		client_expect_end(states[i]);
}
END_TEST

START_TEST(test_close_takes_exclusive_queues_before_it_is_answered)
{
	struct client *client = client_connect();
	struct client *other = client_connect();

	client_send(client, 1,
		    &(struct method){.id = METHOD_queue_declare,
				     .queue_declare = {.queue = BYTES("mine"), .exclusive = true}});
	client_expect(client, 1, METHOD_queue_declare_ok);
	client_get(other, 1, "mine", true);
	client_expect(other, 1, METHOD_channel_close);
	ck_assert_uint_eq(other->method.channel_close.reply_code, 405);
	ck_assert_ptr_nonnull(find_queue("mine"));
	send_close(client);
	client_expect(client, 0, METHOD_connection_close_ok);
	ck_assert_ptr_null(find_queue("mine"));
}
END_TEST

START_TEST(test_both_sides_close_at_once)
{
	struct client *client = client_connect();

	session_close_all(session, "broker forced connection closure with reason 'shutdown'");
	send_close(client);
	client_expect_close(client, 320, 0,
			    "CONNECTION_FORCED - broker forced connection closure with reason "
			    "'shutdown'");
	client_expect(client, 0, METHOD_connection_close_ok);
	client_publish(client, 1, "q", "thrown away");
	client_expect_nothing(client);
	ck_assert(!mem_peer_closed(client->peer));
	send_close_ok(client);
	client_expect_end(client);
}
END_TEST

START_TEST(test_close_that_is_not_answered_ends_by_the_clock)
{
	struct client *off, *on;

	off = client_connect_with(&options, WIDE_WINDOW);
	options.heartbeat_s = 7;
	on = client_connect_with(&options, WIDE_WINDOW);
	session_close_all(session, "enough");
	client_expect(on, 0, METHOD_connection_close);
	client_expect(off, 0, METHOD_connection_close);
	pass_ms(6999);
	ck_assert(!mem_peer_closed(on->peer));
	pass_ms(1);
	ck_assert(mem_peer_closed(on->peer));
	pass_ms(30000 - 7001);
	ck_assert(!mem_peer_closed(off->peer));
	pass_ms(1);
	client_expect_end(off);
}
END_TEST

START_TEST(test_close_all_ends_handshakes_at_once)
{
	struct client *fresh = client_accept(WIDE_WINDOW);
	struct client *half = opening();

	session_close_all(session, "shutdown");
	client_expect_end(fresh);
	client_expect_end(half);
}
END_TEST

START_TEST(test_peer_that_ends_without_close_is_cleaned_up)
{
	struct client *client = client_connect();

	client_declare(client, 1, "q");
	client_publish(client, 1, "q", "one");
	client_consume(client, 1, "q", "t", false);
	client_expect_deliver(client, 1, "t", 1, false, "one");
	mem_peer_close(client->peer);
	run();
	ck_assert_uint_eq(session_connection_count(session), 0);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	ck_assert_uint_eq(find_queue("q")->consumers.count, 0);
}
END_TEST

START_TEST(test_nothing_is_sent_twice_after_an_error_that_ends_the_stream)
{
	struct client *client = client_connect_with(&options, WIDE_WINDOW);
	struct buf stream;

	buf_init(&stream, 0);
	stream_method(&stream, 1, &(struct method){.id = METHOD_basic_recover_ok});
	stream_frame(&stream, FRAME_METHOD, 1, BYTES("\0\24\0\12\0"));
	stream.p[stream.n - 1] = 0;
	client_send_octets(client, buf_bytes(&stream));
	buf_fini(&stream);
	client_expect(client, 0, METHOD_connection_close);
	client_expect_nothing(client); // the second error is not told
	pass_ms(3000);
	client_expect_end(client);
}
END_TEST

/* ---- heartbeats --------------------------------------------------------------------------------- */

static unsigned
heartbeats_of(struct client *client)
{
	struct frame frame;
	unsigned n = 0;

	while (client_next_frame(client, &frame)) {
		ck_assert_uint_eq(frame.type, FRAME_HEARTBEAT);
		ck_assert_uint_eq(frame.channel, 0);
		ck_assert_uint_eq(frame.size, 0);
		n++;
	}
	return n;
}

START_TEST(test_heartbeat_goes_out_each_half_interval)
{
	struct client *client;

	options.heartbeat_s = 10;
	client = client_connect_with(&options, WIDE_WINDOW);
	pass_ms(5000); // open-ok went out in this half
	ck_assert_uint_eq(heartbeats_of(client), 0);
	pass_ms(5000);
	ck_assert_uint_eq(heartbeats_of(client), 1);
	pass_ms(4999);
	ck_assert_uint_eq(heartbeats_of(client), 0);
	pass_ms(1);
	ck_assert_uint_eq(heartbeats_of(client), 1);
	/* other output takes the place of one */
	client_open_channel(client, 1);
	pass_ms(5000);
	ck_assert_uint_eq(heartbeats_of(client), 0);
}
END_TEST

START_TEST(test_silent_peer_goes_between_two_and_three_intervals)
{
	struct client *client, *other = client_connect();
	uint64_t since;

	client_declare(other, 1, "q");
	client_publish(other, 1, "q", "one");
	options.heartbeat_s = 10;
	client = client_connect_with(&options, WIDE_WINDOW);
	client_open_channel(client, 1);
	client_consume(client, 1, "q", "t", false);
	client_expect_deliver(client, 1, "t", 1, false, "one");
	pass_ms(25000);
	ck_assert(mem_peer_closed(client->peer) == false);
	client_ack(client, 1, 99, true); // any octet counts, also those of an error
	run();
	since = now.monotonic_ms;
	while (!mem_peer_closed(client->peer))
		pass_ms(1);
	ck_assert_uint_ge(now.monotonic_ms - since, 20000);
	ck_assert_uint_le(now.monotonic_ms - since, 30000);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	client_get(other, 1, "q", true);
	client_expect(other, 1, METHOD_basic_get_ok);
	ck_assert(other->method.basic_get_ok.redelivered);
	client_expect_content(other, 1);
}
END_TEST

START_TEST(test_peer_silent_from_the_start_goes_after_three_intervals)
{
	struct client *client;

	options.heartbeat_s = 10;
	client = client_connect_with(&options, WIDE_WINDOW);
	pass_ms(29999);
	ck_assert(!mem_peer_closed(client->peer));
	pass_ms(1);
	ck_assert(mem_peer_closed(client->peer));
}
END_TEST

START_TEST(test_peer_that_sends_parts_of_a_frame_is_alive)
{
	struct client *client;

	options.heartbeat_s = 2;
	client = client_connect_with(&options, WIDE_WINDOW);
	for (size_t i = 0; i < 7; i++) {
		client_send_octets(client, bytes_of(heartbeat_frame + i, 1));
		pass_ms(3000);
		ck_assert(!mem_peer_closed(client->peer));
	}
}
END_TEST

START_TEST(test_no_heartbeat_without_interval)
{
	struct client *client = client_connect_with(&options, WIDE_WINDOW);

	pass_ms(24U * 3600 * 1000);
	ck_assert_uint_eq(heartbeats_of(client), 0);
	ck_assert(!mem_peer_closed(client->peer));
}
END_TEST

TESTS_WITH("handshake", set_up, session_tear_down, test_start_is_what_clients_look_for,
	   test_header_comes_octet_by_octet, test_old_spelling_of_the_header,
	   test_wrong_header_gets_ours_and_the_end, test_handshake_has_a_time_limit,
	   test_unexpected_methods_before_open_end_it_without_a_word,
	   test_channels_before_open_are_refused, test_heartbeats_are_taken_in_any_state,
	   test_initial_frames_have_a_limit, test_tune_offers_the_options, test_tune_breaches,
	   test_tune_takes_what_is_lower, test_tune_ok_and_open_in_one_write,
	   test_open_needs_a_vhost_that_is_there, test_open_needs_a_permission_record,
	   test_open_counts_connections, test_deleted_user_lives_for_its_connections,
	   test_close_is_answered_in_every_state,
	   test_close_takes_exclusive_queues_before_it_is_answered, test_both_sides_close_at_once,
	   test_close_that_is_not_answered_ends_by_the_clock,
	   test_close_all_ends_handshakes_at_once, test_peer_that_ends_without_close_is_cleaned_up,
	   test_nothing_is_sent_twice_after_an_error_that_ends_the_stream,
	   test_heartbeat_goes_out_each_half_interval,
	   test_silent_peer_goes_between_two_and_three_intervals,
	   test_peer_silent_from_the_start_goes_after_three_intervals,
	   test_peer_that_sends_parts_of_a_frame_is_alive, test_no_heartbeat_without_interval)
