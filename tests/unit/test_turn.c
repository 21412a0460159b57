/* SPDX-License-Identifier: Apache-2.0 */
/* The turn: how long it may wait, and publishers that yield to consumers who take. */
#include "unit/session_fixture.h"

#define BODY 1000
#define MESSAGES 2000

static struct client *publisher;
static struct client *consumer;
static struct queue *queue;

static void
set_up(void)
{
	session_set_up();
	publisher = client_connect();
	consumer = client_connect();
	client_declare(publisher, 1, "q");
	queue = find_queue("q");
}

static void
send_messages(int n)
{
	static uint8_t body[BODY];
	struct buf stream;

	buf_init(&stream, 0);
	while (n-- > 0) {
		stream_publish_method(&stream, 1, "", "q", false);
		stream_content(&stream, 1, bytes_of(body, BODY), 0);
	}
	client_send_octets(publisher, buf_bytes(&stream));
	buf_fini(&stream);
}

static unsigned
paused(const struct client *client)
{
	return conn_paused(client->connection->conn);
}

/* ---- waiting ------------------------------------------------------------------------------------ */

START_TEST(test_turn_waits_for_the_next_deadline)
{
	struct connect_options options = connect_options_default();

	run();
	ck_assert_uint_eq(turn_wait_ms(&turn, now), UINT64_MAX);
	client_accept(WIDE_WINDOW);
	run();
	ck_assert_uint_eq(turn_wait_ms(&turn, now), 10000);
	now.monotonic_ms += 4000;
	ck_assert_uint_eq(turn_wait_ms(&turn, now), 6000);
	now.monotonic_ms += 7000;
	ck_assert_uint_eq(turn_wait_ms(&turn, now), 0);
	run();
	options.heartbeat_s = 3;
	client_connect_with(&options, WIDE_WINDOW);
	ck_assert_uint_eq(turn_wait_ms(&turn, now), 1500);
}
END_TEST

START_TEST(test_turn_does_not_wait_when_work_is_left)
{
	client_consume(consumer, 1, "q", "t", false);
	send_messages(1);
	ck_assert_uint_eq(turn_wait_ms(&turn, now), 0);
	turn_run(&turn, now);
	client_expect(consumer, 1, METHOD_basic_deliver);
	client_expect_content(consumer, 1);
	/* what it has goes back after the dispatch of the turn in which it ends */
	client_consume(publisher, 1, "q", "p", false);
	mem_peer_break(consumer->peer);
	turn_run(&turn, now);
	ck_assert_uint_eq(turn_wait_ms(&turn, now), 0);
	client_expect(publisher, 1, METHOD_basic_deliver);
	ck_assert(publisher->method.basic_deliver.redelivered);
	client_expect_content(publisher, 1);
}
END_TEST

/* ---- yielding ------------------------------------------------------------------------------------ */

/* A consumer has taken one and can take no more; its publisher has much to send and is stopped. */
static void
run_ahead(void)
{
	client_qos(consumer, 1, 1, true);
	client_consume(consumer, 1, "q", "t", true);
	client_declare(consumer, 1, "other");
	client_consume(consumer, 1, "other", "o", false);
	client_publish(consumer, 1, "other", "takes the credit");
	client_expect(consumer, 1, METHOD_basic_deliver);
	client_expect_content(consumer, 1);
	client_ack(consumer, 1, 1, false);
	run();
	/* one that is taken, and in the same turn the credit is used up */
	client_publish(publisher, 1, "q", "taken");
	run();
	client_publish(consumer, 1, "other", "takes the credit");
	client_expect_deliver(consumer, 1, "t", 2, false, "taken");
	client_expect_deliver(consumer, 1, "o", 3, false, "takes the credit");
	ck_assert_uint_eq(queue->ready_count, 0);
	send_messages(MESSAGES);
	run();
	ck_assert_uint_eq(paused(publisher), CONN_PAUSE_YIELD);
	ck_assert_uint_gt(queue->ready_bytes, 256 * 1024);
	ck_assert_uint_lt(queue->ready_bytes, (256 + 2 * 128) * 1024);
	ck_assert_uint_eq(queue->yielders.count, 1);
}

static void
expect_all_published(void)
{
	run();
	ck_assert_uint_eq(paused(publisher), 0);
	ck_assert_uint_eq(queue->publish_count, 1 + MESSAGES);
}

START_TEST(test_yielding_publisher_is_read_one_budget_each_millisecond)
{
	uint64_t before;

	run_ahead();
	before = queue->publish_count;
	pass_ms(1);
	ck_assert_uint_eq(paused(publisher), CONN_PAUSE_YIELD);
	ck_assert_uint_gt(queue->publish_count, before);
	ck_assert_uint_le(queue->publish_count - before, 128 * 1024 / BODY + 1);
	pass_ms(2);
	ck_assert_uint_eq(paused(publisher), CONN_PAUSE_YIELD);
	/* nobody takes for so long: no reason to wait */
	pass_ms(201);
	expect_all_published();
}
END_TEST

START_TEST(test_yielding_publisher_goes_on_when_consumers_caught_up)
{
	run_ahead();
	client_qos(consumer, 1, 0, true);
	expect_all_published();
	ck_assert_uint_eq(queue->ready_count, 0);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		client_expect(consumer, 1, METHOD_basic_deliver);
		client_expect_content(consumer, 1);
	}
	client_expect_nothing(consumer);
}
END_TEST

START_TEST(test_yielding_publisher_goes_on_after_a_purge)
{
	uint64_t before;

	run_ahead();
	before = queue->publish_count;
	client_send(
		consumer, 1,
		&(struct method){.id = METHOD_queue_purge, .queue_purge = {.queue = BYTES("q")}});
	run();
	ck_assert_uint_ge(queue->publish_count - before, 250); // as far as it may run ahead
	ck_assert_uint_eq(paused(publisher), CONN_PAUSE_YIELD);
}
END_TEST

START_TEST(test_yielding_publisher_goes_on_after_a_delete)
{
	run_ahead();
	client_send(
		consumer, 1,
		&(struct method){.id = METHOD_queue_delete, .queue_delete = {.queue = BYTES("q")}});
	run();
	ck_assert_uint_eq(paused(publisher), 0);
	ck_assert_ptr_null(find_queue("q"));
	client_expect_nothing(publisher);
}
END_TEST

START_TEST(test_yielding_publisher_goes_on_after_a_cancel)
{
	run_ahead();
	client_send(consumer, 1,
		    &(struct method){.id = METHOD_basic_cancel,
				     .basic_cancel = {.consumer_tag = BYTES("t")}});
	expect_all_published();
}
END_TEST

START_TEST(test_yielding_publisher_goes_on_when_the_consumer_is_gone)
{
	run_ahead();
	mem_peer_break(consumer->peer);
	expect_all_published();
}
END_TEST

START_TEST(test_yielding_publisher_may_end)
{
	run_ahead();
	session_close_all(session, "shutdown");
	run();
	pass_ms(30000);
	ck_assert_uint_eq(session_connection_count(session), 0);
	ck_assert_uint_eq(queue->yielders.count, 0);
	ck_assert_uint_eq(queue->refs, 1);
}
END_TEST

START_TEST(test_publisher_without_taking_consumer_never_yields)
{
	send_messages(MESSAGES);
	run();
	ck_assert_uint_eq(queue->publish_count, MESSAGES);
	client_qos(consumer, 1, 1, false);
	client_consume(consumer, 1, "q", "t", false);
	run();
	pass_ms(201);
	send_messages(MESSAGES);
	run();
	ck_assert_uint_eq(queue->publish_count, 2 * MESSAGES);
}
END_TEST

TESTS_WITH("turn", set_up, session_tear_down, test_turn_waits_for_the_next_deadline,
	   test_turn_does_not_wait_when_work_is_left,
	   test_yielding_publisher_is_read_one_budget_each_millisecond,
	   test_yielding_publisher_goes_on_when_consumers_caught_up,
	   test_yielding_publisher_goes_on_after_a_purge,
	   test_yielding_publisher_goes_on_after_a_delete,
	   test_yielding_publisher_goes_on_after_a_cancel,
	   test_yielding_publisher_goes_on_when_the_consumer_is_gone,
	   test_yielding_publisher_may_end, test_publisher_without_taking_consumer_never_yields)
