/* SPDX-License-Identifier: Apache-2.0 */
/*
 * basic.publish and its content (amqp.md 1.5, 7.1): whatever the pieces in which a stream arrives, and
 * whether a publish takes the fast path or the long one, the same happens.
 */
#include "unit/session_fixture.h"

#define LARGE 300000

static struct client *client;
static uint8_t large[LARGE];

static void
set_up(void)
{
	session_set_up();
	for (size_t i = 0; i < LARGE; i++)
		large[i] = (uint8_t)(i * 7 + i / 251);
	client = client_connect();
	client_declare(client, 1, "q");
}

static void
send_header(uint16_t class_id, uint16_t weight, uint64_t body_size, struct bytes properties)
{
	struct buf stream;
	uint8_t fixed[12];

	buf_init(&stream, 0);
	store_short(fixed, class_id);
	store_short(fixed + 2, weight);
	store_longlong(fixed + 4, body_size);
	buf_add(&stream, fixed, sizeof(fixed));
	buf_add_bytes(&stream, properties);
	{
		struct buf frame;

		buf_init(&frame, 0);
		stream_frame(&frame, FRAME_HEADER, 1, buf_bytes(&stream));
		client_send_octets(client, buf_bytes(&frame));
		buf_fini(&frame);
	}
	buf_fini(&stream);
}

static void
send_publish_method(void)
{
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_publish,
				     .basic_publish = {.routing_key = BYTES("q")}});
}

static void
send_frame(uint8_t type, uint16_t channel, struct bytes payload)
{
	struct buf stream;

	buf_init(&stream, 0);
	stream_frame(&stream, type, channel, payload);
	client_send_octets(client, buf_bytes(&stream));
	buf_fini(&stream);
}

#define NO_PROPERTIES BYTES("\0\0")

/* ---- violations --------------------------------------------------------------------------------- */

START_TEST(test_header_of_another_class)
{
	send_publish_method();
	send_header(50, 0, 0, BYTES("\x80\0")); // nor would it decode
	client_expect_close(client, 505, METHOD_basic_publish,
			    "UNEXPECTED_FRAME - expected content header for class 60, got one for "
			    "class 50 instead");
}
END_TEST

START_TEST(test_header_with_weight)
{
	send_publish_method();
	send_header(60, 1, 0, NO_PROPERTIES);
	client_expect_close(client, 505, METHOD_basic_publish,
			    "UNEXPECTED_FRAME - expected content header for class 60, got non "
			    "content header frame instead");
}
END_TEST

START_TEST(test_method_where_the_header_is_due)
{
	send_publish_method();
	client_get(client, 1, "q", true);
	client_expect_close(client, 505, METHOD_basic_publish,
			    "UNEXPECTED_FRAME - expected content header for class 60, got non "
			    "content header frame instead");
}
END_TEST

START_TEST(test_body_where_the_header_is_due)
{
	send_publish_method();
	send_frame(FRAME_BODY, 1, BYTES("body"));
	client_expect_close(client, 505, METHOD_basic_publish,
			    "UNEXPECTED_FRAME - expected content header for class 60, got non "
			    "content header frame instead");
}
END_TEST

START_TEST(test_method_where_body_is_due)
{
	send_publish_method();
	send_header(60, 0, 5, NO_PROPERTIES);
	client_get(client, 1, "q", true);
	client_expect_close(client, 505, METHOD_basic_publish,
			    "UNEXPECTED_FRAME - expected content body, got non content body frame "
			    "instead");
}
END_TEST

START_TEST(test_more_body_than_announced)
{
	send_publish_method();
	send_header(60, 0, 5, NO_PROPERTIES);
	send_frame(FRAME_BODY, 1, BYTES("123"));
	send_frame(FRAME_BODY, 1, BYTES("456"));
	client_expect_close(client, 501, METHOD_basic_publish,
			    "FRAME_ERROR - content body frame exceeds remaining content size");
	ck_assert_uint_eq(find_queue("q")->ready_count, 0);
}
END_TEST

START_TEST(test_body_after_a_message_without_one)
{
	send_publish_method();
	send_header(60, 0, 0, NO_PROPERTIES);
	send_frame(FRAME_BODY, 1, BYTES(""));
	client_expect_close(client, 505, 0,
			    "UNEXPECTED_FRAME - expected method frame, got non method frame "
			    "instead");
}
END_TEST

START_TEST(test_properties_that_cannot_be_decoded)
{
	send_publish_method();
	send_header(60, 0, 1,
		    BYTES("\x80\0\x05"
			  "ab"));
	client_expect_close(client, 501, METHOD_basic_publish,
			    "FRAME_ERROR - cannot decode content properties");
}
END_TEST

START_TEST(test_announced_size_has_a_limit)
{
	send_publish_method();
	send_header(60, 0, 536870913, NO_PROPERTIES);
	client_expect_close(client, 501, METHOD_basic_publish,
			    "FRAME_ERROR - content body size 536870913 exceeds maximum allowed "
			    "size 536870912");
}
END_TEST

START_TEST(test_message_larger_than_configured_is_refused_when_it_is_complete)
{
	broker->options.message_size_max = 1000;
	client_publish_bytes(client, 1, "", "q", bytes_of(large, 1000), false);
	send_publish_method();
	send_header(60, 0, 1001, NO_PROPERTIES);
	send_frame(FRAME_BODY, 1, bytes_of(large, 1000));
	client_expect_nothing(client);
	send_frame(FRAME_BODY, 1, BYTES("x"));
	client_expect_channel_close(client, 1, 406, METHOD_basic_publish,
				    "PRECONDITION_FAILED - message size 1001 is larger than "
				    "configured max size 1000");
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
}
END_TEST

START_TEST(test_announced_bodies_take_no_memory_before_they_come)
{
	size_t before = mem_in_use();
	uint32_t size = 16 * 1024 * 1024;

	send_publish_method();
	send_header(60, 0, size, NO_PROPERTIES);
	run();
	ck_assert_uint_le(mem_in_use(), before + 512 * 1024);
	/* and grow with what comes, to the announced size and no further */
	for (uint32_t sent = 0; sent < size; sent += 65536) {
		ck_assert_uint_le(mem_in_use(), before + 512 * 1024 + 2 * (size_t)sent);
		send_frame(FRAME_BODY, 1, bytes_of(large + sent / 65536, 65536));
		run();
	}
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	ck_assert_uint_eq(find_queue("q")->body_bytes, size);
	client_get(client, 1, "q", true);
	client_expect(client, 1, METHOD_basic_get_ok);
	client_expect_content(client, 1);
	ck_assert_uint_eq(client->body.n, size);
	for (uint32_t at = 0; at < size; at += 65536)
		ck_assert_mem_eq(client->body.p + at, large + at / 65536, 65536);
}
END_TEST

START_TEST(test_content_on_a_channel_that_is_not_open)
{
	send_frame(FRAME_HEADER, 2, BYTES("whatever"));
	client_expect_close(client, 505, 0,
			    "UNEXPECTED_FRAME - expected method frame, got non method frame "
			    "instead");
}
END_TEST

START_TEST(test_immediate_is_not_implemented)
{
	client_send(
		client, 1,
		&(struct method){.id = METHOD_basic_publish,
				 .basic_publish = {.routing_key = BYTES("q"), .immediate = true}});
	client_expect_close(client, 540, METHOD_basic_publish, "NOT_IMPLEMENTED - immediate=true");
}
END_TEST

/* ---- what is fine ------------------------------------------------------------------------------- */

START_TEST(test_empty_body_frames_and_interleaved_channels)
{
	client_open_channel(client, 2);
	send_publish_method();
	send_header(60, 0, 4, NO_PROPERTIES);
	send_frame(FRAME_BODY, 1, BYTES(""));
	send_frame(FRAME_BODY, 1, BYTES("ab"));
	client_publish(client, 2, "q", "other");
	client_send_octets(client, bytes_of(heartbeat_frame, sizeof(heartbeat_frame)));
	send_frame(FRAME_BODY, 1, BYTES(""));
	send_frame(FRAME_BODY, 1, BYTES("cd"));
	client_consume(client, 2, "q", "t", true);
	client_expect_deliver(client, 2, "t", 1, false, "other");
	client_expect_deliver(client, 2, "t", 2, false, "abcd");
}
END_TEST

START_TEST(test_properties_pass_through_as_they_came)
{
	send_publish_method();
	send_header(60, 0, 2, BYTES("\xb0\x01\x0atext/plain\0\0\0\x04\x01kt\x01\x07"));
	send_frame(FRAME_BODY, 1, BYTES("hi"));
	client_get(client, 1, "q", true);
	client_expect(client, 1, METHOD_basic_get_ok);
	assert_bytes(client_expect_content(client, 1), "hi");
	ck_assert_uint_eq(client->header.n, 12 + 22);
	ck_assert_mem_eq(client->header.p + 12, "\xb0\x01\x0atext/plain\0\0\0\x04\x01kt\x01\x07",
			 22);
}
END_TEST

/* 251 keys of 255 octets fill what a message has for them. */
START_TEST(test_bcc_has_a_limit)
{
	static uint8_t properties[15 + 256 * 260] = "\x20\0\0\0\0\0\3BCCA";

	for (uint32_t keys = 251; keys <= 252; keys++) {
		store_long(properties + 2, 5 + 4 + keys * 260);
		store_long(properties + 11, keys * 260);
		for (uint32_t i = 0; i < keys; i++)
			memcpy(properties + 15 + i * 260, "S\0\0\0\xff", 5);
		send_publish_method();
		send_header(60, 0, 0, bytes_of(properties, 15 + keys * 260));
	}
	client_expect_channel_close(client, 1, 406, METHOD_basic_publish,
				    "PRECONDITION_FAILED - the keys in the header BCC take 64764 "
				    "octets with 2 more each, the limit is 64512");
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
}
END_TEST

START_TEST(test_mandatory_message_without_route_comes_back)
{
	const struct method *m;

	client_publish_bytes(client, 1, "", "nowhere", BYTES("lost"), true);
	m = client_expect(client, 1, METHOD_basic_return);
	ck_assert_uint_eq(m->basic_return.reply_code, 312);
	assert_bytes(m->basic_return.reply_text, "NO_ROUTE");
	assert_bytes(m->basic_return.exchange, "");
	assert_bytes(m->basic_return.routing_key, "nowhere");
	assert_bytes(client_expect_content(client, 1), "lost");
	client_publish_bytes(client, 1, "", "nowhere", BYTES("lost"), false);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_publish_to_a_missing_exchange_closes_the_channel)
{
	client_publish_bytes(client, 1, "x", "q", BYTES("lost"), false);
	client_publish_bytes(client, 1, "", "q", BYTES("discarded"), false);
	client_expect_channel_close(client, 1, 404, METHOD_basic_publish,
				    "NOT_FOUND - no exchange 'x' in vhost '/'");
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("q")->ready_count, 0);
}
END_TEST

START_TEST(test_cached_route_follows_the_model)
{
	client_publish(client, 1, "q", "1");
	client_publish(client, 1, "q", "2");
	client_send(
		client, 1,
		&(struct method){.id = METHOD_queue_delete, .queue_delete = {.queue = BYTES("q")}});
	client_publish(client, 1, "q", "3");
	client_expect(client, 1, METHOD_queue_delete_ok);
	client_declare(client, 1, "q");
	client_publish(client, 1, "q", "4");
	client_publish_bytes(client, 1, "", "q", BYTES("5"), true);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("q")->ready_count, 2);
}
END_TEST

START_TEST(test_a_route_of_before_is_not_looked_at_after_a_refusal)
{
	struct client *other = client_connect();
	struct buf stream;

	client_open_channel(client, 2);
	client_declare(client, 2, "r");
	client_publish(client, 1, "q", "m");
	run();
	client_send(
		other, 1,
		&(struct method){.id = METHOD_queue_delete, .queue_delete = {.queue = BYTES("q")}});
	client_expect(other, 1, METHOD_queue_delete_ok);
	/* one publish goes somewhere; the last one finds its exchange anew and is refused */
	buf_init(&stream, 0);
	stream_publish_method(&stream, 2, "", "r", false);
	stream_content(&stream, 2, BYTES("m"), 0);
	stream_publish_method(&stream, 1, "", "q", false);
	stream_frame(&stream, FRAME_HEADER, 1, BYTES("\0\x3c\0\0\0\0\0\0\0\0\0\0\1\0\3abc"));
	client_send_octets(client, buf_bytes(&stream));
	buf_fini(&stream);
	client_expect_channel_close(client, 1, 406, METHOD_basic_publish,
				    "PRECONDITION_FAILED - invalid expiration 'abc': no_integer");
}
END_TEST

START_TEST(test_cached_permission_follows_the_user)
{
	const struct bytes none[PERMISSION_COUNT] = {BYTES("^$"), BYTES("^$"), BYTES("^$")};
	char error[256];

	client_publish(client, 1, "q", "1");
	client_publish(client, 1, "q", "2");
	run();
	ck_assert_int_eq(user_set_permissions(broker, user_find(broker, BYTES("guest")), BYTES("/"),
					      none, error, sizeof(error)),
			 0);
	client_publish(client, 1, "q", "3");
	client_expect(client, 1, METHOD_channel_close);
	ck_assert_uint_eq(client->method.channel_close.reply_code, 403);
	ck_assert_uint_eq(find_queue("q")->ready_count, 2);
}
END_TEST

/* ---- the pieces in which it comes ---------------------------------------------------------------- */

/* Sends the stream in two pieces, cut at that octet, then gets the message back. */
static void
send_cut(struct bytes stream, size_t cut, struct bytes body)
{
	client_send_octets(client, bytes_of(stream.p, cut));
	run();
	client_send_octets(client, bytes_of(stream.p + cut, stream.n - cut));
	client_get(client, 1, "q", true);
	client_expect(client, 1, METHOD_basic_get_ok);
	ck_assert(bytes_equal(client_expect_content(client, 1), body));
}

static void
send_cut_everywhere(struct bytes body, uint32_t frame_max, size_t step)
{
	struct buf stream;

	buf_init(&stream, 0);
	stream_publish_method(&stream, 1, "", "q", false);
	stream_content(&stream, 1, body, frame_max);
	for (size_t cut = 0; cut <= stream.n; cut += step)
		send_cut(buf_bytes(&stream), cut, body);
	buf_fini(&stream);
}

static struct client *
connect_with_frame_max(uint32_t frame_max)
{
	struct connect_options options = connect_options_default();
	struct client *c;

	options.frame_max = frame_max;
	c = client_connect_with(&options, WIDE_WINDOW);
	client_open_channel(c, 1);
	return c;
}

START_TEST(test_one_octet_cut_everywhere)
{
	send_cut_everywhere(BYTES("x"), 0, 1);
	send_cut_everywhere(BYTES(""), 0, 1);
}
END_TEST

START_TEST(test_frames_of_4096_cut_everywhere)
{
	client = connect_with_frame_max(4096);
	send_cut_everywhere(bytes_of(large, 10000), 4096, 1);
}
END_TEST

START_TEST(test_a_body_for_the_sink_cut_in_many_places)
{
	send_cut_everywhere(bytes_of(large, 100000), 131072, 977);
	for (size_t cut = 100000 - 40; cut < 100000 + 40; cut++) {
		struct buf stream;

		buf_init(&stream, 0);
		stream_publish_method(&stream, 1, "", "q", false);
		stream_content(&stream, 1, bytes_of(large, 100000), 131072);
		send_cut(buf_bytes(&stream), cut, bytes_of(large, 100000));
		buf_fini(&stream);
	}
}
END_TEST

/* Sends a stream in pieces of n octets with a turn after each. */
static void
send_in_pieces(struct bytes stream, size_t n)
{
	while (stream.n > 0) {
		n = min_u64(n, stream.n);
		client_send_octets(client, bytes_of(stream.p, n));
		run();
		stream = bytes_of(stream.p + n, stream.n - n);
	}
}

START_TEST(test_a_large_body_in_pieces)
{
	static const size_t pieces[] = {1000, 4096, 65536, 131072 + 1, LARGE * 2};
	struct buf stream;

	buf_init(&stream, 0);
	stream_publish_method(&stream, 1, "", "q", false);
	stream_content(&stream, 1, bytes_of(large, LARGE), 131072);
	stream_publish_method(&stream, 1, "", "q", false);
	stream_content(&stream, 1, BYTES("behind it"), 131072);
	for (size_t i = 0; i < countof(pieces); i++) {
		send_in_pieces(buf_bytes(&stream), pieces[i]);
		client_get(client, 1, "q", true);
		client_get(client, 1, "q", true);
		client_expect(client, 1, METHOD_basic_get_ok);
		ck_assert(bytes_equal(client_expect_content(client, 1), bytes_of(large, LARGE)));
		client_expect(client, 1, METHOD_basic_get_ok);
		assert_bytes(client_expect_content(client, 1), "behind it");
	}
	buf_fini(&stream);
}
END_TEST

START_TEST(test_wrong_end_of_a_body_frame_is_seen_on_every_path)
{
	for (size_t pieces = 0; pieces < 3; pieces++) {
		static const size_t sizes[] = {1, 1000, LARGE};
		struct buf stream;

		client = client_connect();
		buf_init(&stream, 0);
		stream_publish_method(&stream, 1, "", "q", false);
		stream_content(&stream, 1, bytes_of(large, 20000), 131072);
		stream.p[stream.n - 1] = 0x17;
		send_in_pieces(buf_bytes(&stream), sizes[pieces]);
		buf_fini(&stream);
		client_expect(client, 0, METHOD_connection_close);
		ck_assert_uint_eq(client->method.connection_close.reply_code, 501);
		pass_ms(3000);
		client_expect_end(client);
		ck_assert_uint_eq(find_queue("q")->ready_count, 0);
	}
}
END_TEST

START_TEST(test_half_a_body_when_the_server_closes)
{
	static const size_t sizes[] = {20, 70, 5000, 90000, 98000};

	for (size_t i = 0; i < countof(sizes); i++) {
		struct buf stream;

		client = client_connect();
		buf_init(&stream, 0);
		stream_publish_method(&stream, 1, "", "q", false);
		stream_content(&stream, 1, bytes_of(large, 100000), 131072);
		client_send_octets(client, bytes_of(stream.p, sizes[i]));
		run();
		session_close_all(session, "shutdown");
		client_expect(client, 0, METHOD_connection_close);
		client_send_octets(client, bytes_of(stream.p + sizes[i], stream.n - sizes[i]));
		buf_fini(&stream);
		client_expect_nothing(client);
		client_send(client, 0, &(struct method){.id = METHOD_connection_close_ok});
		client_expect_end(client);
	}
}
END_TEST

START_TEST(test_half_a_body_when_the_peer_ends)
{
	struct buf stream;

	buf_init(&stream, 0);
	stream_publish_method(&stream, 1, "", "q", false);
	stream_content(&stream, 1, bytes_of(large, 100000), 131072);
	client_send_octets(client, bytes_of(stream.p, 50000));
	run();
	buf_fini(&stream);
	mem_peer_close(client->peer);
	run();
	ck_assert_uint_eq(session_connection_count(session), 0);
}
END_TEST

/* ---- fast and long ------------------------------------------------------------------------------- */

/* A mixture of publishes: the same again, others between, headers that matter, returns, one that is too
 * large for one frame. */
static void
mixed_stream(struct buf *stream)
{
	static const char *const keys[] = {"q", "q", "q", "q2", "q2", "nowhere", "nowhere", "q"};

	for (uint32_t i = 0; i < 200; i++) {
		const char *key = keys[i % countof(keys)];
		uint32_t size = i % 50 == 49 ? 9000 : (i * 37) % 120;

		stream_publish_method(stream, 1, i % 3 == 0 ? "" : "amq.direct", key, i % 2 == 0);
		stream_content(stream, 1, bytes_of(large + i, size), 4096);
		if (i % 31 == 30)
			buf_add(stream, heartbeat_frame, sizeof(heartbeat_frame));
	}
}

/* Everything that a fresh broker sends for the stream fed in pieces of n, and for the gets after it. */
static void
answers_to(const struct buf *stream, size_t n, struct buf *answers)
{
	client = connect_with_frame_max(4096);
	client_declare(client, 1, "q2");
	for (int i = 0; i < 2; i++) {
		client_send(
			client, 1,
			&(struct method){.id = METHOD_queue_bind,
					 .queue_bind = {.queue = bytes_str(i ? "q" : "q2"),
							.exchange = BYTES("amq.direct"),
							.routing_key = bytes_str(i ? "q" : "q2")}});
		client_expect(client, 1, METHOD_queue_bind_ok);
	}
	client_send(client, 1, &(struct method){.id = METHOD_confirm_select});
	client_expect(client, 1, METHOD_confirm_select_ok);
	send_in_pieces(buf_bytes(stream), n);
	client_receive(client);
	for (int i = 0; i < 200; i++)
		client_get(client, 1, i % 2 ? "q" : "q2", true);
	client_receive(client);
	buf_add_bytes(answers, client_unread(client));
	client->at = client->received.n;
}

/* The answers without the confirms, which say the same in other groups; returns how far they go. */
static uint64_t
without_confirms(struct buf *answers)
{
	struct bytes rest = buf_bytes(answers);
	struct buf kept;
	struct frame frame;
	uint64_t confirmed = 0;

	buf_init(&kept, 0);
	while (frame_cut(&frame, rest, UINT32_MAX) == FRAME_OK) {
		struct method m;

		if (frame.type == FRAME_METHOD && method_decode(&m, frame.payload) == METHOD_OK &&
		    m.id == METHOD_basic_ack) {
			ck_assert(m.basic_ack.multiple ||
				  m.basic_ack.delivery_tag == confirmed + 1);
			ck_assert_uint_gt(m.basic_ack.delivery_tag, confirmed);
			confirmed = m.basic_ack.delivery_tag;
		} else {
			buf_add(&kept, rest.p, FRAME_OVERHEAD + frame.size);
		}
		rest = bytes_of(rest.p + FRAME_OVERHEAD + frame.size,
				rest.n - FRAME_OVERHEAD - frame.size);
	}
	ck_assert_uint_eq(rest.n, 0);
	buf_clear(answers);
	buf_add_bytes(answers, buf_bytes(&kept));
	buf_fini(&kept);
	return confirmed;
}

START_TEST(test_fast_path_and_long_path_do_the_same)
{
	static const size_t pieces[] = {1, 13, 700, 5000};
	struct buf stream, whole, cut;

	buf_init(&stream, 0);
	buf_init(&whole, 0);
	buf_init(&cut, 0);
	mixed_stream(&stream);
	answers_to(&stream, SIZE_MAX, &whole);
	ck_assert_uint_eq(without_confirms(&whole), 200);
	ck_assert_uint_gt(whole.n, 20000);
	for (size_t i = 0; i < countof(pieces); i++) {
		buf_clear(&cut);
		answers_to(&stream, pieces[i], &cut);
		ck_assert_uint_eq(without_confirms(&cut), 200);
		ck_assert_uint_eq(cut.n, whole.n);
		ck_assert_mem_eq(cut.p, whole.p, whole.n);
	}
	buf_fini(&stream);
	buf_fini(&whole);
	buf_fini(&cut);
}
END_TEST

START_TEST(test_fast_path_does_not_take_a_longer_frame_for_the_same)
{
	struct buf stream;

	/* the frame at the end is the second one and what the first one left behind it in the cache */
	buf_init(&stream, 0);
	stream_publish_method(&stream, 1, "", "abcdef", false);
	stream_content(&stream, 1, BYTES("nowhere"), 0);
	stream_publish_method(&stream, 1, "", "q", false);
	stream_content(&stream, 1, BYTES("one"), 0);
	stream_frame(&stream, FRAME_METHOD, 1, BYTES("\0\x3c\0\x28\0\0\0\1q\0cdef\0"));
	stream_content(&stream, 1, BYTES("two"), 0);
	client_send_octets(client, buf_bytes(&stream));
	buf_fini(&stream);
	client_expect(client, 0, METHOD_connection_close);
	ck_assert_uint_eq(client->method.connection_close.reply_code, 501);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
}
END_TEST

START_TEST(test_fast_path_looks_at_headers)
{
	struct buf stream;
	const struct method bind = {.id = METHOD_queue_bind,
				    .queue_bind = {.queue = BYTES("q"),
						   .exchange = BYTES("amq.headers"),
						   .arguments = BYTES("\1kt\1")}};

	client_send(client, 1, &bind);
	client_expect(client, 1, METHOD_queue_bind_ok);
	buf_init(&stream, 0);
	for (int i = 0; i < 30; i++) {
		stream_publish_method(&stream, 1, "amq.headers", "", false);
		/* every third one has the header that is bound */
		stream_frame(&stream, FRAME_HEADER, 1,
			     i % 3 == 0 ? BYTES("\0\x3c\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\4\1kt\1")
					: BYTES("\0\x3c\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\4\1kt\0"));
	}
	client_send_octets(client, buf_bytes(&stream));
	run();
	ck_assert_uint_eq(find_queue("q")->ready_count, 10);
	buf_fini(&stream);
}
END_TEST

TESTS_WITH("on_publish", set_up, session_tear_down, test_header_of_another_class,
	   test_header_with_weight, test_method_where_the_header_is_due,
	   test_body_where_the_header_is_due, test_method_where_body_is_due,
	   test_more_body_than_announced, test_body_after_a_message_without_one,
	   test_properties_that_cannot_be_decoded, test_announced_size_has_a_limit,
	   test_message_larger_than_configured_is_refused_when_it_is_complete,
	   test_announced_bodies_take_no_memory_before_they_come,
	   test_content_on_a_channel_that_is_not_open, test_immediate_is_not_implemented,
	   test_empty_body_frames_and_interleaved_channels,
	   test_properties_pass_through_as_they_came, test_bcc_has_a_limit,
	   test_mandatory_message_without_route_comes_back,
	   test_publish_to_a_missing_exchange_closes_the_channel,
	   test_a_route_of_before_is_not_looked_at_after_a_refusal,
	   test_cached_route_follows_the_model, test_cached_permission_follows_the_user,
	   test_one_octet_cut_everywhere, test_frames_of_4096_cut_everywhere,
	   test_a_body_for_the_sink_cut_in_many_places, test_a_large_body_in_pieces,
	   test_wrong_end_of_a_body_frame_is_seen_on_every_path,
	   test_half_a_body_when_the_server_closes, test_half_a_body_when_the_peer_ends,
	   test_fast_path_and_long_path_do_the_same,
	   test_fast_path_does_not_take_a_longer_frame_for_the_same,
	   test_fast_path_looks_at_headers)
