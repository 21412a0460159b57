/* SPDX-License-Identifier: Apache-2.0 */
/* librabbitmq when it is refused: logins, channel errors, connection errors; and its heartbeats. */
#include "client/rabbitmq_c.h"

#include "lib/runner.h"

#include <string.h>

static void
declare(amqp_connection_state_t conn, const char *queue, bool passive, bool auto_delete)
{
	amqp_queue_declare(conn, 1, amqp_cstring_bytes(queue), passive, 0, 0, auto_delete,
			   amqp_empty_table);
}

START_TEST(test_wrong_password)
{
	amqp_rpc_reply_t reply;
	amqp_connection_state_t conn = try_connect(&(struct login){.password = "wrong"}, &reply);

	must_close_connection(reply, 403,
			      "ACCESS_REFUSED - Login was refused using authentication mechanism "
			      "PLAIN. For details see the broker logfile.");
	amqp_destroy_connection(conn);
}
END_TEST

START_TEST(test_unknown_vhost)
{
	amqp_rpc_reply_t reply;
	amqp_connection_state_t conn = try_connect(&(struct login){.vhost = "nowhere"}, &reply);

	must_close_connection(reply, 530, "NOT_ALLOWED - vhost nowhere not found");
	amqp_destroy_connection(conn);
}
END_TEST

START_TEST(test_limits_are_negotiated)
{
	amqp_connection_state_t conn =
		connect_with(&(struct login){.frame_max = 8192, .heartbeat = 30});

	ck_assert_int_eq(amqp_get_frame_max(conn), 8192);
	ck_assert_int_eq(amqp_get_heartbeat(conn), 30);
	ck_assert_int_gt(amqp_get_channel_max(conn), 0);
	close_connection(conn);
}
END_TEST

static const amqp_field_value_t *
find(const amqp_table_t *table, const char *key)
{
	for (int i = 0; i < table->num_entries; i++) {
		amqp_bytes_t name = table->entries[i].key;
		if (name.len == strlen(key) && memcmp(name.bytes, key, name.len) == 0)
			return &table->entries[i].value;
	}
	ck_abort_msg("the table has no %s", key);
}

START_TEST(test_server_says_what_it_can)
{
	static const char *const names[] = {
		"publisher_confirms", "exchange_exchange_bindings",
		"basic.nack",	      "consumer_cancel_notify",
		"connection.blocked", "authentication_failure_close",
	};
	amqp_connection_state_t conn = connect_usual();
	const amqp_table_t *properties = amqp_get_server_properties(conn);
	const amqp_field_value_t *can = find(properties, "capabilities");

	ck_assert_int_eq(can->kind, AMQP_FIELD_KIND_TABLE);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		ck_assert_msg(find(&can->value.table, names[i])->value.boolean, "not capable of %s",
			      names[i]);
	close_connection(conn);
}
END_TEST

START_TEST(test_channel_errors_leave_the_connection_alone)
{
	amqp_connection_state_t conn = connect_usual();

	declare(conn, "rabbitmq-c.none", true, false);
	must_close_channel(conn, 1, 404, "NOT_FOUND - no queue 'rabbitmq-c.none' in vhost '/'");
	open_channel(conn, 1);
	declare(conn, "amq.mine", false, false);
	must_close_channel(
		conn, 1, 403,
		"ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'");
	open_channel(conn, 1);
	declare(conn, "rabbitmq-c.q", false, true);
	must(conn, "queue.declare");
	declare(conn, "rabbitmq-c.q", false, false);
	must_close_channel(conn, 1, 406,
			   "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue "
			   "'rabbitmq-c.q' in vhost '/': received 'false' but current is 'true'");
	open_channel(conn, 1);
	amqp_queue_delete(conn, 1, amqp_cstring_bytes("rabbitmq-c.q"), 0, 0);
	must(conn, "queue.delete");
	amqp_exchange_delete(conn, 1, amqp_cstring_bytes("amq.direct"), 0);
	must_close_channel(conn, 1, 403,
			   "ACCESS_REFUSED - deletion of system exchange 'amq.direct'");
	close_connection(conn);
}
END_TEST

START_TEST(test_exclusive_queue_is_locked_for_others)
{
	amqp_connection_state_t owner = connect_usual();
	amqp_connection_state_t other = connect_usual();
	char queue[256];

	temporary_queue(owner, 1, queue);
	declare(other, queue, true, false);
	must_close_channel(other, 1, 405,
			   "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue");
	close_connection(owner);
	open_channel(other, 1);
	declare(other, queue, true, false);
	must_close_channel(other, 1, 404, "NOT_FOUND");
	close_connection(other);
}
END_TEST

/* Publishing and acknowledging have no answer: the error comes when the next call waits for its own. */
START_TEST(test_errors_of_methods_without_an_answer)
{
	amqp_connection_state_t conn = connect_usual();

	publish(conn, 1, "rabbitmq-c.none", "k", "lost");
	declare(conn, "", false, true);
	must_close_channel(conn, 1, 404, "NOT_FOUND - no exchange 'rabbitmq-c.none' in vhost '/'");
	open_channel(conn, 1);
	amqp_basic_ack(conn, 1, 5, 0);
	declare(conn, "", false, true);
	must_close_channel(conn, 1, 406, "PRECONDITION_FAILED - unknown delivery tag 5");
	close_connection(conn);
}
END_TEST

START_TEST(test_connection_error)
{
	amqp_connection_state_t conn = connect_usual();
	char queue[256];

	temporary_queue(conn, 1, queue);
	consume(conn, 1, queue, "twice", false);
	amqp_basic_consume(conn, 1, amqp_cstring_bytes(queue), amqp_cstring_bytes("twice"), 0, 0, 0,
			   amqp_empty_table);
	must_close_connection(amqp_get_rpc_reply(conn), 530,
			      "NOT_ALLOWED - attempt to reuse consumer tag 'twice'");
	amqp_destroy_connection(conn);
}
END_TEST

/* The library sends its own heartbeats while it waits, and ends the connection when none come. */
START_TEST(test_heartbeats_keep_an_idle_connection)
{
	amqp_connection_state_t conn = connect_with(&(struct login){.heartbeat = 1});
	const struct timeval idle = {.tv_sec = 4};
	amqp_frame_t frame;
	char queue[256];

	ck_assert_int_eq(amqp_simple_wait_frame_noblock(conn, &frame, &idle), AMQP_STATUS_TIMEOUT);
	temporary_queue(conn, 1, queue);
	close_connection(conn);
}
END_TEST

BROKER_TESTS("rabbitmq-c errors", test_wrong_password, test_unknown_vhost,
	     test_limits_are_negotiated, test_server_says_what_it_can,
	     test_channel_errors_leave_the_connection_alone,
	     test_exclusive_queue_is_locked_for_others, test_errors_of_methods_without_an_answer,
	     test_connection_error, test_heartbeats_keep_an_idle_connection)
