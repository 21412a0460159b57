/* SPDX-License-Identifier: Apache-2.0 */
/* What holds a connection back: an lsn, memory, output that its peer does not read. */
#include "unit/session_fixture.h"

#include "broker/alarms.h"

#define BODY 1000

static struct client *client;

static void
set_up(void)
{
	session_set_up();
	client = client_connect();
	client_declare(client, 1, "q");
}

static struct channel *
channel_of(const struct client *c)
{
	return connection_channel(c->connection, 1);
}

static unsigned
paused(const struct client *c)
{
	return conn_paused(c->connection->conn);
}

/* ---- holds -------------------------------------------------------------------------------------- */

static const struct method bind_ok = {.id = METHOD_queue_bind_ok};

/* What a handler does whose method had effects up to lsn. */
static void
answer(struct channel *channel, bool nowait, uint64_t lsn)
{
	broker->effect_lsn = lsn;
	channel_answer(channel, nowait, &bind_ok);
}

static void
send_passive_declare(struct client *c)
{
	client_send(c, 1,
		    &(struct method){.id = METHOD_queue_declare,
				     .queue_declare = {.queue = BYTES("q"), .passive = true}});
}

START_TEST(test_answer_that_is_stable_goes_out_at_once)
{
	broker->stable = 5;
	answer(channel_of(client), false, 5);
	answer(channel_of(client), true, 5);
	answer(channel_of(client), false, 0);
	client_expect(client, 1, METHOD_queue_bind_ok);
	client_expect(client, 1, METHOD_queue_bind_ok);
	client_expect_nothing(client);
	ck_assert(list_empty(&session->held));
}
END_TEST

START_TEST(test_held_answer_waits_and_later_input_behind_it)
{
	struct client *other = client_connect();

	answer(channel_of(client), false, 7);
	send_passive_declare(client);
	client_publish(client, 1, "q", "one");
	client_expect_nothing(client);
	ck_assert_uint_eq(paused(client), CONN_PAUSE_HOLD);
	ck_assert_uint_eq(find_queue("q")->ready_count, 0);
	send_passive_declare(other); // other connections go on
	client_expect(other, 1, METHOD_queue_declare_ok);
	broker->stable = 6;
	client_expect_nothing(client);
	broker->stable = 7;
	client_expect(client, 1, METHOD_queue_bind_ok);
	client_expect(client, 1, METHOD_queue_declare_ok);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	ck_assert_uint_eq(paused(client), 0);
}
END_TEST

START_TEST(test_held_without_answer)
{
	answer(channel_of(client), true, 7);
	send_passive_declare(client);
	client_expect_nothing(client);
	broker->stable = 8;
	client_expect(client, 1, METHOD_queue_declare_ok);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_holds_are_released_in_any_order_of_lsn)
{
	struct client *other = client_connect();

	answer(channel_of(client), false, 9);
	answer(channel_of(other), false, 4);
	broker->stable = 5;
	client_expect(other, 1, METHOD_queue_bind_ok);
	client_expect_nothing(client);
	broker->stable = 9;
	client_expect(client, 1, METHOD_queue_bind_ok);
	/* and once more */
	answer(channel_of(client), false, 10);
	client_expect_nothing(client);
	broker->stable = 10;
	client_expect(client, 1, METHOD_queue_bind_ok);
}
END_TEST

START_TEST(test_held_connection_still_gets_deliveries_and_heartbeats)
{
	struct client *other = client_connect();

	client_consume(client, 1, "q", "t", true);
	answer(channel_of(client), false, 9);
	client_publish(other, 1, "q", "one");
	run();
	client_expect_deliver(client, 1, "t", 1, false, "one");
	client_expect_nothing(client);
	broker->stable = 9;
	client_expect(client, 1, METHOD_queue_bind_ok);
}
END_TEST

START_TEST(test_held_connection_may_end)
{
	answer(channel_of(client), false, 9);
	mem_peer_break(client->peer);
	run();
	session_close_all(session, "shutdown");
	run();
	pass_ms(30000);
	ck_assert_uint_eq(session_connection_count(session), 0);
	ck_assert(list_empty(&session->held));
	broker->stable = 9;
	run();
}
END_TEST

START_TEST(test_held_answer_is_not_sent_behind_a_close)
{
	answer(channel_of(client), false, 9);
	session_close_all(session, "shutdown");
	client_expect(client, 0, METHOD_connection_close);
	broker->stable = 9;
	client_expect_nothing(client);
	client_send(client, 0, &(struct method){.id = METHOD_connection_close_ok});
	client_expect_end(client);
}
END_TEST

/* Input of which the first frame holds: as a durable declare will. */
static size_t
holding_input(struct conn *conn, struct bytes input)
{
	struct connection *c = conn_owner(conn);
	struct frame frame;
	size_t used;

	ck_assert_int_eq(frame_cut(&frame, input, UINT32_MAX), FRAME_OK);
	used = connection_conn_ops.input(conn, bytes_of(input.p, FRAME_OVERHEAD + frame.size));
	ck_assert_uint_eq(used, FRAME_OVERHEAD + frame.size);
	connection_hold(c, 3, 1, &bind_ok);
	conn_set_owner(conn, &connection_conn_ops, c);
	used += connection_conn_ops.input(conn, bytes_of(input.p + used, input.n - used));
	return used;
}

START_TEST(test_frames_behind_the_one_that_holds_wait)
{
	const struct conn_ops ops = {holding_input, connection_conn_ops.drained,
				     connection_conn_ops.closed};

	conn_set_owner(client->connection->conn, &ops, client->connection);
	send_passive_declare(client);
	client_publish(client, 1, "q", "one");
	client_get(client, 1, "q", true);
	client_expect(client, 1, METHOD_queue_declare_ok);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("q")->ready_count, 0);
	broker->stable = 3;
	client_expect(client, 1, METHOD_queue_bind_ok);
	client_expect(client, 1, METHOD_basic_get_ok);
	client_expect_content(client, 1);
	client_expect_nothing(client);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------------- */

static void
send_numbered(struct client *c, uint32_t n)
{
	uint8_t body[BODY] = {0};
	struct buf stream;

	buf_init(&stream, 0);
	for (uint32_t i = 0; i < n; i++) {
		store_long(body, i);
		stream_publish_method(&stream, 1, "", "q", false);
		stream_content(&stream, 1, bytes_of(body, BODY), 0);
	}
	client_send_octets(c, buf_bytes(&stream));
	buf_fini(&stream);
}

static void
expect_numbered(struct client *c, uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < from + n; i++) {
		client_expect(c, 1, METHOD_basic_deliver);
		ck_assert_uint_eq(load_long(client_expect_content(c, 1).p), i);
	}
}

START_TEST(test_memory_limit_stops_a_publisher_and_nothing_is_lost)
{
	struct client *consumer = client_connect();

	slab_trim();
	broker->options.memory_limit = mem_in_use() + 2 * 1024 * 1024;
	broker->options.yield_high = UINT32_MAX;
	send_numbered(client, 10000);
	run();
	ck_assert_uint_eq(paused(client), CONN_PAUSE_ALARM);
	ck_assert_uint_gt(find_queue("q")->ready_count, 500);
	ck_assert_uint_lt(find_queue("q")->ready_count, 3000);
	ck_assert_uint_lt(mem_in_use(), broker->options.memory_limit + 512 * 1024);
	/* who does not publish is not stopped; no acknowledgement wakes anybody */
	client_send_consume(consumer, 1, "q", "t", true);
	run();
	ck_assert_uint_eq(find_queue("q")->publish_count, 10000);
	client_expect(consumer, 1, METHOD_basic_consume_ok);
	expect_numbered(consumer, 0, 10000);
	ck_assert_uint_eq(paused(client), 0);
	ck_assert(list_empty(&session->blocked));
	client_expect_nothing(consumer);
}
END_TEST

START_TEST(test_memory_limit_stops_all_publishers_and_lets_each_go_on)
{
	struct client *publishers[4], *consumer = client_connect();

	for (size_t i = 0; i < countof(publishers); i++)
		publishers[i] = client_connect();
	slab_trim();
	broker->options.memory_limit = mem_in_use() + 2 * 1024 * 1024;
	broker->options.yield_high = UINT32_MAX;
	for (size_t i = 0; i < countof(publishers); i++)
		send_numbered(publishers[i], 3000);
	run();
	ck_assert_uint_eq(session->blocked.count, countof(publishers));
	client_qos(consumer, 1, 50, false);
	client_consume(consumer, 1, "q", "t", false);
	for (uint64_t tag = 1; tag <= 3000 * countof(publishers); tag++) {
		client_expect(consumer, 1, METHOD_basic_deliver);
		client_expect_content(consumer, 1);
		if (tag % 25 == 0)
			client_ack(consumer, 1, tag, true);
	}
	client_expect_nothing(consumer);
	ck_assert(list_empty(&session->blocked));
}
END_TEST

START_TEST(test_memory_that_a_flush_gives_back_is_noticed_at_once)
{
	static uint8_t body[250000];
	struct client *consumers[8];
	char name[] = "q0";

	for (size_t i = 0; i < countof(consumers); i++) {
		name[1] = (char)('0' + i);
		consumers[i] = client_connect();
		client_declare(consumers[i], 1, name);
	}
	slab_trim();
	broker->options.memory_limit = mem_in_use() + sizeof(body) * countof(consumers);
	for (size_t i = 0; i < countof(consumers); i++) {
		name[1] = (char)('0' + i);
		client_publish_bytes(client, 1, "", name, bytes_of(body, sizeof(body)), false);
	}
	client_publish(client, 1, "q", "behind them");
	run();
	ck_assert_uint_eq(paused(client), CONN_PAUSE_ALARM);
	/* all of it goes out in the flush of one turn, and then nothing happens by itself */
	for (size_t i = 0; i < countof(consumers); i++) {
		name[1] = (char)('0' + i);
		client_send_consume(consumers[i], 1, name, "t", true);
	}
	run();
	ck_assert_uint_eq(paused(client), 0);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
}
END_TEST

START_TEST(test_stopped_publisher_may_end)
{
	broker->options.memory_limit = 1;
	send_numbered(client, 10);
	run();
	ck_assert_uint_eq(paused(client), CONN_PAUSE_ALARM);
	mem_peer_break(client->peer);
	pass_ms(1000);
	session_close_all(session, "shutdown");
	pass_ms(30000);
	ck_assert_uint_eq(session_connection_count(session), 0);
	ck_assert(list_empty(&session->blocked));
}
END_TEST

/* ---- the disk alarm ------------------------------------------------------------------------------ */

/* One that is told. */
static struct client *
connect_told(void)
{
	struct connect_options options = connect_options_default();
	struct client *c;

	options.takes_blocked = true;
	c = client_connect_with(&options, WIDE_WINDOW);
	client_open_channel(c, 1);
	return c;
}

static void
expect_blocked(struct client *c, const char *reason)
{
	assert_bytes(client_expect(c, 0, METHOD_connection_blocked)->connection_blocked.reason,
		     reason);
}

START_TEST(test_disk_alarm_stops_who_publishes_and_nobody_else)
{
	struct client *told = connect_told();
	struct client *consumer = connect_told();

	broker->alarms = ALARM_DISK;
	client_publish(told, 1, "q", "a");
	expect_blocked(told, "low on disk");
	client_publish(client, 1, "q", "b");
	client_expect_nothing(client);
	ck_assert_uint_eq(paused(client), CONN_PAUSE_ALARM);
	/* nothing more is read of them, and nobody is told twice */
	client_publish(told, 1, "q", "c");
	client_expect_nothing(told);
	ck_assert_uint_eq(find_queue("q")->publish_count, 2);
	/* all else goes on */
	client_declare(consumer, 1, "other");
	client_consume(consumer, 1, "q", "t", false);
	client_expect_deliver(consumer, 1, "t", 1, false, "a");
	client_expect_deliver(consumer, 1, "t", 2, false, "b");
	client_ack(consumer, 1, 2, true);
	client_expect_nothing(consumer);
	ck_assert_uint_eq(queue_message_count(find_queue("q")), 0);
	broker->alarms = 0;
	client_expect(told, 0, METHOD_connection_unblocked);
	client_expect_deliver(consumer, 1, "t", 3, false, "c");
	client_expect_nothing(client);
	ck_assert_uint_eq(paused(client), 0);
	ck_assert(session_has_published(session));
	ck_assert(!session_has_published(session));
}
END_TEST

START_TEST(test_both_alarms_must_end)
{
	struct client *told = connect_told();
	uint64_t limit = broker->options.memory_limit;

	broker->alarms = ALARM_DISK;
	broker->options.memory_limit = 1;
	client_publish(told, 1, "q", "a");
	expect_blocked(told, "low on memory & disk");
	broker->options.memory_limit = limit;
	client_expect_nothing(told);
	ck_assert_uint_eq(broker->alarms, ALARM_DISK);
	broker->alarms = 0;
	client_expect(told, 0, METHOD_connection_unblocked);
	/* the other way round: the second alarm is not told */
	broker->options.memory_limit = 1;
	client_publish(told, 1, "q", "a");
	expect_blocked(told, "low on memory");
	broker->alarms |= ALARM_DISK;
	client_expect_nothing(told);
	broker->alarms &= ~(unsigned)ALARM_DISK;
	client_expect_nothing(told);
	broker->options.memory_limit = limit;
	client_expect(told, 0, METHOD_connection_unblocked);
}
END_TEST

START_TEST(test_disk_alarm_is_told_to_those_who_wait_for_the_store)
{
	struct client *told = connect_told();

	told->connection->waits_to_publish = true;
	list_append(&session->waiting, &told->connection->waiting);
	conn_pause(told->connection->conn, CONN_PAUSE_STORE);
	broker->alarms = ALARM_DISK;
	expect_blocked(told, "low on disk");
	ck_assert(list_empty(&session->waiting));
	ck_assert_uint_eq(paused(told), CONN_PAUSE_ALARM);
	broker->alarms = 0;
	client_expect(told, 0, METHOD_connection_unblocked);
	ck_assert_uint_eq(paused(told), 0);
}
END_TEST

/* ---- output ------------------------------------------------------------------------------------- */

START_TEST(test_consumer_that_does_not_read_leaves_the_rest_to_others)
{
	struct connect_options options = connect_options_default();
	struct client *deaf = client_connect_with(&options, 100000);
	struct client *reader = client_connect();
	uint64_t took;

	client_open_channel(deaf, 1);
	client_consume(deaf, 1, "q", "deaf", true);
	client_consume(reader, 1, "q", "reader", true);
	send_numbered(client, 5000);
	pass_ms(100);
	ck_assert_uint_eq(find_queue("q")->ready_count, 0);
	took = channel_of(deaf)->next_tag - 1;
	ck_assert_uint_gt(took, 100);
	ck_assert_uint_lt(took, 1000);
	ck_assert_uint_lt(conn_output_size(deaf->connection->conn), 256 * 1024 + 2 * BODY);
	ck_assert_uint_eq(channel_of(reader)->next_tag - 1 + took, 5000);
	/* when it reads, it gets its part again */
	client_receive(deaf);
	send_numbered(client, 100);
	pass_ms(100);
	ck_assert_uint_eq(channel_of(deaf)->next_tag - 1, took + 50);
}
END_TEST

START_TEST(test_a_lone_consumer_that_does_not_read_goes_on_when_it_does)
{
	struct connect_options options = connect_options_default();
	struct client *deaf = client_connect_with(&options, 5000);

	client_open_channel(deaf, 1);
	client_consume(deaf, 1, "q", "t", true);
	send_numbered(client, 3000);
	pass_ms(100);
	ck_assert_uint_gt(find_queue("q")->ready_count, 2000);
	expect_numbered(deaf, 0, 3000);
	client_expect_nothing(deaf);
	ck_assert(list_empty(&deaf->connection->stalled));
}
END_TEST

START_TEST(test_consumers_of_one_deaf_connection_may_be_cancelled)
{
	struct connect_options options = connect_options_default();
	struct client *deaf = client_connect_with(&options, 5000);

	client_open_channel(deaf, 1);
	client_open_channel(deaf, 2);
	client_consume(deaf, 1, "q", "a", true);
	client_consume(deaf, 2, "q", "b", false);
	send_numbered(client, 2000);
	pass_ms(100);
	ck_assert_uint_eq(deaf->connection->stalled.count, 2);
	client_send(deaf, 1,
		    &(struct method){.id = METHOD_basic_cancel,
				     .basic_cancel = {.consumer_tag = BYTES("a")}});
	run();
	ck_assert_uint_eq(deaf->connection->stalled.count, 1);
	client_send(
		client, 1,
		&(struct method){.id = METHOD_queue_delete, .queue_delete = {.queue = BYTES("q")}});
	client_expect(client, 1, METHOD_queue_delete_ok);
	ck_assert_uint_eq(deaf->connection->stalled.count, 0);
	mem_peer_break(deaf->peer);
	run();
	ck_assert_uint_eq(broker->consumers_pool.in_use, 0);
}
END_TEST

START_TEST(test_answers_that_are_not_read_stop_the_input)
{
	struct connect_options options = connect_options_default();
	struct client *deaf = client_connect_with(&options, 5000);
	uint8_t body[BODY] = {0};
	struct buf stream;

	client_open_channel(deaf, 1);
	buf_init(&stream, 0);
	for (uint32_t i = 0; i < 5000; i++) {
		store_long(body, i);
		stream_publish_method(&stream, 1, "", "nowhere", true);
		stream_content(&stream, 1, bytes_of(body, BODY), 0);
	}
	client_send_octets(deaf, buf_bytes(&stream));
	buf_fini(&stream);
	run();
	ck_assert_uint_eq(paused(deaf), CONN_PAUSE_OUTPUT);
	ck_assert_uint_lt(conn_output_size(deaf->connection->conn), 1300 * 1024);
	for (uint32_t i = 0; i < 5000; i++) {
		client_expect(deaf, 1, METHOD_basic_return);
		ck_assert_uint_eq(load_long(client_expect_content(deaf, 1).p), i);
	}
	client_expect_nothing(deaf);
	ck_assert_uint_eq(paused(deaf), 0);
}
END_TEST

START_TEST(test_large_bodies_are_cut_by_the_frame_max_of_who_reads)
{
	static uint8_t body[300000];
	struct connect_options options = connect_options_default();
	struct client *small;

	options.frame_max = 4096;
	small = client_connect_with(&options, WIDE_WINDOW); // frames are checked as they come
	client_open_channel(small, 1);
	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 31);
	client_consume(small, 1, "q", "t", false);
	for (size_t n = 4080; n < 4100; n++)
		client_publish_bytes(client, 1, "", "q", bytes_of(body, n), false);
	client_publish_bytes(client, 1, "", "q", bytes_of(body, sizeof(body)), false);
	pass_ms(100);
	for (size_t n = 4080; n < 4100; n++) {
		client_expect(small, 1, METHOD_basic_deliver);
		ck_assert(bytes_equal(client_expect_content(small, 1), bytes_of(body, n)));
	}
	client_expect(small, 1, METHOD_basic_deliver);
	ck_assert(bytes_equal(client_expect_content(small, 1), bytes_of(body, sizeof(body))));
	client_expect_nothing(small);
}
END_TEST

TESTS_WITH("session", set_up, session_tear_down, test_answer_that_is_stable_goes_out_at_once,
	   test_held_answer_waits_and_later_input_behind_it, test_held_without_answer,
	   test_holds_are_released_in_any_order_of_lsn,
	   test_held_connection_still_gets_deliveries_and_heartbeats, test_held_connection_may_end,
	   test_held_answer_is_not_sent_behind_a_close, test_frames_behind_the_one_that_holds_wait,
	   test_memory_limit_stops_a_publisher_and_nothing_is_lost,
	   test_memory_limit_stops_all_publishers_and_lets_each_go_on,
	   test_disk_alarm_stops_who_publishes_and_nobody_else, test_both_alarms_must_end,
	   test_disk_alarm_is_told_to_those_who_wait_for_the_store,
	   test_memory_that_a_flush_gives_back_is_noticed_at_once, test_stopped_publisher_may_end,
	   test_consumer_that_does_not_read_leaves_the_rest_to_others,
	   test_a_lone_consumer_that_does_not_read_goes_on_when_it_does,
	   test_consumers_of_one_deaf_connection_may_be_cancelled,
	   test_answers_that_are_not_read_stop_the_input,
	   test_large_bodies_are_cut_by_the_frame_max_of_who_reads)
