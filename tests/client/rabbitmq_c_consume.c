/* SPDX-License-Identifier: Apache-2.0 */
/* librabbitmq as a consumer: prefetch, acknowledging, giving back, get, cancelling, transactions. */
#include "client/rabbitmq_c.h"

#include "lib/runner.h"

#include <string.h>

static void
qos(amqp_connection_state_t conn, amqp_channel_t channel, uint16_t count, bool global)
{
	amqp_basic_qos(conn, channel, 0, count, global);
	must(conn, "basic.qos");
}

static void
ack(amqp_connection_state_t conn, amqp_channel_t channel, uint64_t tag, bool multiple)
{
	ck_assert_int_eq(amqp_basic_ack(conn, channel, tag, multiple), AMQP_STATUS_OK);
}

static void
nack(amqp_connection_state_t conn, amqp_channel_t channel, uint64_t tag, bool multiple,
     bool requeue)
{
	ck_assert_int_eq(amqp_basic_nack(conn, channel, tag, multiple, requeue), AMQP_STATUS_OK);
}

static void
cancel(amqp_connection_state_t conn, amqp_channel_t channel, const char *tag)
{
	amqp_basic_cancel(conn, channel, amqp_cstring_bytes(tag));
	must(conn, "basic.cancel");
}

START_TEST(test_prefetch_holds_back)
{
	amqp_connection_state_t conn = connect_usual();
	char queue[256];

	temporary_queue(conn, 1, queue);
	publish_numbers(conn, 1, queue, 10);
	qos(conn, 1, 3, false);
	consume(conn, 1, queue, "c", false);
	await_body(conn, "0", false);
	uint64_t second = await_body(conn, "1", false);
	await_body(conn, "2", false);
	/* Seven are still ready; the count is answered after what was delivered. */
	ck_assert_uint_eq(ready_count(conn, 1, queue), 7);
	ack(conn, 1, second, true);
	await_body(conn, "3", false);
	await_body(conn, "4", false);
	ck_assert_uint_eq(ready_count(conn, 1, queue), 5);
	nack(conn, 1, 0, true, false);
	await_body(conn, "5", false);
	await_body(conn, "6", false);
	uint64_t last = await_body(conn, "7", false);
	ck_assert_uint_eq(last, 8);
	close_connection(conn);
}
END_TEST

START_TEST(test_prefetch_of_the_channel_is_shared)
{
	amqp_connection_state_t conn = connect_usual();
	char one[256], two[256];

	temporary_queue(conn, 1, one);
	temporary_queue(conn, 1, two);
	publish_numbers(conn, 1, one, 2);
	publish_numbers(conn, 1, two, 2);
	qos(conn, 1, 3, true);
	consume(conn, 1, one, "one", false);
	await_body(conn, "0", false);
	await_body(conn, "1", false);
	consume(conn, 1, two, "two", false);
	uint64_t third = await_body(conn, "0", false);
	ck_assert_uint_eq(ready_count(conn, 1, two), 1);
	ack(conn, 1, third, false);
	await_body(conn, "1", false);
	close_connection(conn);
}
END_TEST

START_TEST(test_what_is_given_back_takes_its_old_place)
{
	amqp_connection_state_t conn = connect_usual();
	char queue[256];

	temporary_queue(conn, 1, queue);
	publish_numbers(conn, 1, queue, 4);
	consume(conn, 1, queue, "c", false);
	uint64_t zero = await_body(conn, "0", false);
	uint64_t one = await_body(conn, "1", false);
	uint64_t two = await_body(conn, "2", false);
	uint64_t three = await_body(conn, "3", false);
	cancel(conn, 1, "c");
	ck_assert_int_eq(amqp_basic_reject(conn, 1, two, 1), AMQP_STATUS_OK);
	ck_assert_int_eq(amqp_basic_reject(conn, 1, one, 0), AMQP_STATUS_OK);
	nack(conn, 1, zero, false, true);
	nack(conn, 1, three, false, true);
	await_ready(conn, 1, queue, 3);
	consume(conn, 1, queue, "c", false);
	await_body(conn, "0", true);
	await_body(conn, "2", true);
	await_body(conn, "3", true);
	cancel(conn, 1, "c");
	amqp_basic_recover(conn, 1, 1);
	must(conn, "basic.recover");
	must_get(conn, 1, queue, "0");
	must_get(conn, 1, queue, "2");
	must_get(conn, 1, queue, "3");
	close_connection(conn);
}
END_TEST

START_TEST(test_unacknowledged_return_when_the_channel_closes)
{
	amqp_connection_state_t conn = connect_usual();
	char queue[256];

	temporary_queue(conn, 1, queue);
	publish_numbers(conn, 1, queue, 3);
	open_channel(conn, 2);
	qos(conn, 2, 2, false);
	consume(conn, 2, queue, "c", false);
	ack(conn, 2, await_body(conn, "0", false), false);
	await_body(conn, "1", false);
	await_body(conn, "2", false);
	amqp_channel_close(conn, 2, AMQP_REPLY_SUCCESS);
	/* All of it has happened before close-ok. */
	ck_assert_uint_eq(ready_count(conn, 1, queue), 2);
	consume(conn, 1, queue, "d", true);
	await_body(conn, "1", true);
	await_body(conn, "2", true);
	close_connection(conn);
}
END_TEST

START_TEST(test_unacknowledged_return_when_the_connection_breaks)
{
	amqp_connection_state_t conn = connect_usual();
	amqp_connection_state_t other = connect_usual();
	amqp_bytes_t queue = amqp_cstring_bytes("rabbitmq-c.broken");

	amqp_queue_declare(conn, 1, queue, 0, 0, 0, 0, amqp_empty_table);
	must(conn, "queue.declare");
	publish_numbers(conn, 1, "rabbitmq-c.broken", 1);
	consume(other, 1, "rabbitmq-c.broken", "c", false);
	await_body(other, "0", false);
	consume(conn, 1, "rabbitmq-c.broken", "heir", true);
	/* Without a word: the socket is closed, nothing is sent. */
	amqp_destroy_connection(other);
	await_body(conn, "0", true);
	amqp_queue_delete(conn, 1, queue, 0, 0);
	must(conn, "queue.delete");
	close_connection(conn);
}
END_TEST

START_TEST(test_get)
{
	amqp_connection_state_t conn = connect_usual();
	amqp_message_t message;
	char queue[256];

	temporary_queue(conn, 1, queue);
	must_get(conn, 1, queue, NULL);
	publish_numbers(conn, 1, queue, 3);
	must_get(conn, 1, queue, "0");
	amqp_rpc_reply_t reply = amqp_basic_get(conn, 1, amqp_cstring_bytes(queue), 0);
	ck_assert_uint_eq(reply.reply.id, AMQP_BASIC_GET_OK_METHOD);
	amqp_basic_get_ok_t *ok = reply.reply.decoded;
	ck_assert_uint_eq(ok->message_count, 1);
	ck_assert_int_eq(ok->redelivered, 0);
	ck_assert_mem_eq(ok->routing_key.bytes, queue, ok->routing_key.len);
	uint64_t tag = ok->delivery_tag;
	reply = amqp_read_message(conn, 1, &message, 0);
	ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_NORMAL);
	amqp_destroy_message(&message);
	nack(conn, 1, tag, false, true);
	must_get(conn, 1, queue, "1");
	must_get(conn, 1, queue, "2");
	must_get(conn, 1, queue, NULL);
	close_connection(conn);
}
END_TEST

START_TEST(test_consumers_take_turns)
{
	amqp_connection_state_t conn = connect_usual();
	char queue[256];
	int seen[2] = {0, 0};

	temporary_queue(conn, 1, queue);
	consume(conn, 1, queue, "0", true);
	consume(conn, 1, queue, "1", true);
	for (int i = 0; i < 20; i++)
		publish(conn, 1, "", queue, "x");
	for (int i = 0; i < 20; i++) {
		amqp_envelope_t envelope;
		await_delivery(conn, &envelope);
		ck_assert_uint_eq(envelope.consumer_tag.len, 1);
		seen[*(const char *)envelope.consumer_tag.bytes == '1']++;
		amqp_destroy_envelope(&envelope);
	}
	ck_assert_int_eq(seen[0], 10);
	ck_assert_int_eq(seen[1], 10);
	close_connection(conn);
}
END_TEST

START_TEST(test_who_asked_is_told_of_a_deleted_queue)
{
	amqp_connection_state_t conn = connect_with(&(struct login){.wants_cancel = true});
	amqp_method_t method;
	char queue[256];

	temporary_queue(conn, 1, queue);
	consume(conn, 1, queue, "told", false);
	open_channel(conn, 2);
	amqp_queue_delete(conn, 2, amqp_cstring_bytes(queue), 0, 0);
	must(conn, "queue.delete");
	await_method(conn, 1, AMQP_BASIC_CANCEL_METHOD, &method);
	amqp_basic_cancel_t *told = method.decoded;
	ck_assert_mem_eq(told->consumer_tag.bytes, "told", told->consumer_tag.len);
	close_connection(conn);
}
END_TEST

START_TEST(test_who_did_not_ask_is_not_told)
{
	amqp_connection_state_t conn = connect_usual();
	const struct timeval none = {0};
	amqp_frame_t frame;
	char queue[256];

	temporary_queue(conn, 1, queue);
	consume(conn, 1, queue, "not told", false);
	amqp_queue_delete(conn, 1, amqp_cstring_bytes(queue), 0, 0);
	must(conn, "queue.delete");
	/* The answer to this comes after anything that the deletion sent. */
	temporary_queue(conn, 1, queue);
	ck_assert_int_eq(amqp_simple_wait_frame_noblock(conn, &frame, &none), AMQP_STATUS_TIMEOUT);
	close_connection(conn);
}
END_TEST

START_TEST(test_transactions)
{
	amqp_connection_state_t conn = connect_usual();
	char queue[256];

	open_channel(conn, 2);
	temporary_queue(conn, 1, queue);
	amqp_tx_select(conn, 1);
	amqp_rpc_reply_t reply = amqp_get_rpc_reply(conn);
	if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) {
		/* A server without transactions says so, and nothing else. */
		must_close_connection(reply, 503, "COMMAND_INVALID - unimplemented method");
		amqp_destroy_connection(conn);
		return;
	}
	must(conn, "tx.select");
	publish(conn, 1, "", queue, "kept");
	ck_assert_uint_eq(ready_count(conn, 1, queue), 0);
	amqp_tx_commit(conn, 1);
	must(conn, "tx.commit");
	publish(conn, 1, "", queue, "dropped");
	amqp_tx_rollback(conn, 1);
	must(conn, "tx.rollback");
	must_get(conn, 2, queue, "kept");
	must_get(conn, 2, queue, NULL);
	close_connection(conn);
}
END_TEST

BROKER_TESTS("rabbitmq-c consume", test_prefetch_holds_back, test_prefetch_of_the_channel_is_shared,
	     test_what_is_given_back_takes_its_old_place,
	     test_unacknowledged_return_when_the_channel_closes,
	     test_unacknowledged_return_when_the_connection_breaks, test_get,
	     test_consumers_take_turns, test_who_asked_is_told_of_a_deleted_queue,
	     test_who_did_not_ask_is_not_told, test_transactions)
