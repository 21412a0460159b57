/* SPDX-License-Identifier: Apache-2.0 */
/* A channel: open, close, what a closing one throws away; cancel notices; numbers in any order. */
#include "unit/session_fixture.h"

static struct client *client;

static void
set_up(void)
{
	session_set_up();
	client = client_connect();
}

static void
send_open(uint16_t channel)
{
	client_send(client, channel, &(struct method){.id = METHOD_channel_open});
}

static void
send_close_ok(uint16_t channel)
{
	client_send(client, channel, &(struct method){.id = METHOD_channel_close_ok});
}

static void
send_delete(struct client *from, const char *queue)
{
	client_send(from, 1,
		    &(struct method){.id = METHOD_queue_delete,
				     .queue_delete = {.queue = bytes_str(queue)}});
}

/* A soft error on channel 1. */
static void
make_error(void)
{
	client_get(client, 1, "nowhere", true);
	client_expect_channel_close(client, 1, 404, METHOD_basic_get,
				    "NOT_FOUND - no queue 'nowhere' in vhost '/'");
}

START_TEST(test_second_open)
{
	send_open(1);
	client_expect_close(client, 504, METHOD_channel_open,
			    "CHANNEL_ERROR - second 'channel.open' seen");
}
END_TEST

START_TEST(test_method_on_a_channel_that_is_not_open)
{
	client_get(client, 7, "q", true);
	client_expect_close(client, 504, METHOD_basic_get,
			    "CHANNEL_ERROR - expected "
			    "'channel.open'");
}
END_TEST

START_TEST(test_number_is_free_after_close_ok)
{
	for (int i = 0; i < 20; i++) {
		client_close_channel(client, 1);
		client_open_channel(client, 1);
	}
	ck_assert_uint_eq(session->channel_count, 1);
}
END_TEST

START_TEST(test_many_channels_in_any_order)
{
	for (unsigned i = 0; i < 300; i++)
		client_open_channel(client, (uint16_t)(2 + (i * 211) % 65521));
	for (unsigned i = 0; i < 300; i += 2)
		client_close_channel(client, (uint16_t)(2 + (i * 211) % 65521));
	ck_assert_uint_eq(session->channel_count, 151);
	for (unsigned i = 1; i < 300; i += 2)
		client_declare(client, (uint16_t)(2 + (i * 211) % 65521), "q");
	client_close_channel(client, 1);
	client_open_channel(client, 65535);
}
END_TEST

START_TEST(test_node_has_a_limit_of_channels)
{
	session->options.channel_max_per_node = 2;
	client_open_channel(client, 2);
	send_open(3);
	client_expect(client, 0, METHOD_connection_close);
	ck_assert_uint_eq(client->method.connection_close.reply_code, 530);
	ck_assert_uint_eq(session->channel_count, 0);
}
END_TEST

START_TEST(test_closing_channel_throws_everything_away)
{
	client_declare(client, 1, "q");
	client_publish(client, 1, "q", "kept");
	make_error();
	client_publish(client, 1, "q", "discarded");
	client_get(client, 1, "q", true);
	client_ack(client, 1, 5, false);
	send_open(1);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	send_close_ok(1);
	client_open_channel(client, 1);
}
END_TEST

START_TEST(test_closing_channel_follows_content)
{
	struct buf stream;

	client_declare(client, 1, "q");
	client_open_channel(client, 2);
	make_error();
	/* a large content, its close-ok behind it, in pieces */
	buf_init(&stream, 0);
	stream_publish_method(&stream, 1, "", "q", false);
	{
		static uint8_t body[50000];

		stream_content(&stream, 1, bytes_of(body, sizeof(body)), 131072);
	}
	stream_method(&stream, 1, &(struct method){.id = METHOD_channel_close_ok});
	for (size_t at = 0; at < stream.n; at += 999) {
		client_send_octets(client, bytes_of(stream.p + at, min_u64(999, stream.n - at)));
		run();
	}
	buf_fini(&stream);
	client_open_channel(client, 1);
	client_publish(client, 1, "q", "one");
	run();
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	/* but what is out of step on it is a hard error still */
	make_error();
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_publish,
				     .basic_publish = {.routing_key = BYTES("q")}});
	client_get(client, 1, "q", true);
	client_expect(client, 0, METHOD_connection_close);
	ck_assert_uint_eq(client->method.connection_close.reply_code, 505);
}
END_TEST

START_TEST(test_close_while_closing_is_answered_and_the_number_waits)
{
	make_error();
	client_close_channel(client, 1);
	send_open(1); // discarded: the close-ok is still to come
	client_expect_nothing(client);
	send_close_ok(1);
	client_open_channel(client, 1);
}
END_TEST

START_TEST(test_pipelined_commands_after_an_error)
{
	struct buf stream;

	buf_init(&stream, 0);
	stream_method(&stream, 1,
		      &(struct method){.id = METHOD_queue_declare,
				       .queue_declare = {.queue = BYTES("amq.mine")}});
	stream_publish_method(&stream, 1, "", "q", true);
	stream_content(&stream, 1, BYTES("x"), 0);
	stream_method(&stream, 1, &(struct method){.id = METHOD_channel_close});
	stream_method(&stream, 1, &(struct method){.id = METHOD_channel_close_ok});
	client_send_octets(client, buf_bytes(&stream));
	buf_fini(&stream);
	client_expect_channel_close(client, 1, 403, METHOD_queue_declare,
				    "ACCESS_REFUSED - queue name 'amq.mine' contains reserved "
				    "prefix 'amq.*'");
	client_expect(client, 1, METHOD_channel_close_ok);
	client_expect_nothing(client);
	client_open_channel(client, 1);
}
END_TEST

START_TEST(test_soft_error_gives_messages_back_and_ends_consumers)
{
	client_declare(client, 1, "q");
	client_publish(client, 1, "q", "one");
	client_consume(client, 1, "q", "t", false);
	client_expect_deliver(client, 1, "t", 1, false, "one");
	make_error();
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	ck_assert_uint_eq(find_queue("q")->unacked_count, 0);
	ck_assert_uint_eq(find_queue("q")->consumers.count, 0);
	client_open_channel(client, 2);
	client_publish(client, 2, "q", "two");
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_hard_error_ends_all_channels)
{
	client_declare(client, 1, "q");
	client_open_channel(client, 2);
	client_publish(client, 1, "q", "one");
	client_consume(client, 1, "q", "t", false);
	client_expect_deliver(client, 1, "t", 1, false, "one");
	client_send(client, 2, &(struct method){.id = METHOD_tx_select_ok});
	client_expect_close(client, 503, METHOD_tx_select_ok,
			    "COMMAND_INVALID - unimplemented method");
	ck_assert_uint_eq(session->channel_count, 0);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
}
END_TEST

START_TEST(test_flow)
{
	client_send(client, 1, &(struct method){.id = METHOD_channel_flow, .channel_flow = {true}});
	ck_assert(client_expect(client, 1, METHOD_channel_flow_ok)->channel_flow_ok.active);
	client_send(client, 1,
		    &(struct method){.id = METHOD_channel_flow, .channel_flow = {false}});
	client_expect_close(client, 540, METHOD_channel_flow, "NOT_IMPLEMENTED - active=false");
}
END_TEST

/* ---- consumers ---- */

START_TEST(test_consumer_tags)
{
	struct bytes tag;

	client_declare(client, 1, "q");
	client_send_consume(client, 1, "", "", false);
	tag = client_expect(client, 1, METHOD_basic_consume_ok)->basic_consume_ok.consumer_tag;
	ck_assert(bytes_has_prefix(tag, BYTES("amq.ctag-")));
	ck_assert_uint_eq(tag.n, 31);
	client_consume(client, 1, "q", "t", false);
	client_open_channel(client, 2);
	client_consume(client, 2, "q", "t", false); // unique per channel only
	client_send_consume(client, 1, "q", "t", false);
	client_expect_close(client, 530, METHOD_basic_consume,
			    "NOT_ALLOWED - attempt to reuse consumer tag 't'");
}
END_TEST

START_TEST(test_consumers_of_a_channel_have_a_limit)
{
	broker->options.consumer_max_per_channel = 1;
	client_declare(client, 1, "q");
	client_consume(client, 1, "q", "a", false);
	client_send_consume(client, 1, "q", "b", false);
	client_expect_close(client, 530, METHOD_basic_consume,
			    "NOT_ALLOWED - reached maximum (1) of consumers per channel");
}
END_TEST

START_TEST(test_empty_queue_name_is_the_last_declared_one)
{
	client_send_consume(client, 1, "", "t", false);
	client_expect_channel_close(client, 1, 404, METHOD_basic_consume,
				    "NOT_FOUND - no previously declared queue");
}
END_TEST

START_TEST(test_consume_ok_comes_before_deliveries_and_cancel_ok_behind)
{
	struct buf stream;

	client_declare(client, 1, "q");
	client_publish(client, 1, "q", "one");
	client_consume(client, 1, "q", "t", true);
	client_expect_deliver(client, 1, "t", 1, false, "one");
	buf_init(&stream, 0);
	stream_publish_method(&stream, 1, "", "q", false);
	stream_content(&stream, 1, BYTES("two"), 0);
	stream_method(&stream, 1,
		      &(struct method){.id = METHOD_basic_cancel,
				       .basic_cancel = {.consumer_tag = BYTES("t")}});
	stream_publish_method(&stream, 1, "", "q", false);
	stream_content(&stream, 1, BYTES("three"), 0);
	client_send_octets(client, buf_bytes(&stream));
	buf_fini(&stream);
	client_expect_deliver(client, 1, "t", 2, false, "two");
	client_expect(client, 1, METHOD_basic_cancel_ok);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
}
END_TEST

START_TEST(test_cancel_notice_comes_behind_delete_ok)
{
	client_declare(client, 1, "q");
	client_consume(client, 1, "q", "t", false);
	send_delete(client, "q");
	client_expect(client, 1, METHOD_queue_delete_ok);
	assert_bytes(client_expect(client, 1, METHOD_basic_cancel)->basic_cancel.consumer_tag, "t");
	ck_assert(client->method.basic_cancel.nowait);
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_cancel_ok,
				     .basic_cancel_ok = {.consumer_tag = BYTES("t")}});
	client_declare(client, 1, "q");
	client_consume(client, 1, "q", "t", false); // the tag is free
}
END_TEST

START_TEST(test_cancel_notice_goes_to_those_that_announced_it)
{
	struct connect_options options = connect_options_default();
	struct client *plain, *other = client_connect();

	options.plain_client = true;
	plain = client_connect_with(&options, WIDE_WINDOW);
	client_open_channel(plain, 1);
	client_declare(client, 1, "q");
	client_consume(plain, 1, "q", "p", false);
	client_consume(other, 1, "q", "o", false);
	send_delete(client, "q");
	client_expect(client, 1, METHOD_queue_delete_ok);
	client_expect_nothing(client);
	client_expect(other, 1, METHOD_basic_cancel);
	client_expect_nothing(plain);
	ck_assert_uint_eq(broker->consumers_pool.in_use, 0);
}
END_TEST

START_TEST(test_cancel_notice_of_an_exclusive_queue_whose_owner_ends)
{
	struct client *owner = client_connect();

	client_send(owner, 1,
		    &(struct method){.id = METHOD_queue_declare,
				     .queue_declare = {.queue = BYTES("mine"), .exclusive = true}});
	client_expect(owner, 1, METHOD_queue_declare_ok);
	client_consume(owner, 1, "mine", "t", false);
	mem_peer_break(owner->peer);
	run();
	ck_assert_ptr_null(find_queue("mine"));
	ck_assert_uint_eq(broker->consumers_pool.in_use, 0);
}
END_TEST

START_TEST(test_auto_delete_queue_goes_with_its_channel)
{
	client_open_channel(client, 2);
	client_send(
		client, 1,
		&(struct method){.id = METHOD_queue_declare,
				 .queue_declare = {.queue = BYTES("auto"), .auto_delete = true}});
	client_expect(client, 1, METHOD_queue_declare_ok);
	client_publish(client, 1, "auto", "one");
	client_consume(client, 2, "auto", "t", false);
	client_expect_deliver(client, 2, "t", 1, false, "one");
	client_close_channel(client, 2);
	ck_assert_ptr_null(find_queue("auto"));
	ck_assert(list_empty(&broker->dead));
}
END_TEST

START_TEST(test_round_robin_over_connections)
{
	struct client *other = client_connect();

	client_declare(client, 1, "q");
	client_consume(client, 1, "q", "a", true);
	client_consume(other, 1, "q", "b", true);
	for (int i = 0; i < 6; i++)
		client_publish(client, 1, "q", "x");
	run();
	for (uint64_t i = 1; i <= 3; i++) {
		client_expect_deliver(client, 1, "a", i, false, "x");
		client_expect_deliver(other, 1, "b", i, false, "x");
	}
	client_expect_nothing(client);
	client_expect_nothing(other);
}
END_TEST

TESTS_WITH("channel", set_up, session_tear_down, test_second_open,
	   test_method_on_a_channel_that_is_not_open, test_number_is_free_after_close_ok,
	   test_many_channels_in_any_order, test_node_has_a_limit_of_channels,
	   test_closing_channel_throws_everything_away, test_closing_channel_follows_content,
	   test_close_while_closing_is_answered_and_the_number_waits,
	   test_pipelined_commands_after_an_error,
	   test_soft_error_gives_messages_back_and_ends_consumers,
	   test_hard_error_ends_all_channels, test_flow, test_consumer_tags,
	   test_consumers_of_a_channel_have_a_limit, test_empty_queue_name_is_the_last_declared_one,
	   test_consume_ok_comes_before_deliveries_and_cancel_ok_behind,
	   test_cancel_notice_comes_behind_delete_ok,
	   test_cancel_notice_goes_to_those_that_announced_it,
	   test_cancel_notice_of_an_exclusive_queue_whose_owner_ends,
	   test_auto_delete_queue_goes_with_its_channel, test_round_robin_over_connections)
