/* SPDX-License-Identifier: Apache-2.0 */
/* Deliveries that are unacked for too long: when they are late, and what follows (amqp.md 7.11). */
#include "unit/session_fixture.h"

static struct client *client;
static struct client *other;

/* A table with x-consumer-timeout. */
static struct bytes
timeout_of(int64_t ms)
{
	static uint8_t room[64];
	struct writer w = writer_of(room, sizeof(room));

	table_put_long(&w, BYTES("x-consumer-timeout"), ms);
	return bytes_of(room, (size_t)(w.p - room));
}

static void
declare_with_timeout(const char *queue, int64_t ms)
{
	client_send(client, 1,
		    &(struct method){.id = METHOD_queue_declare,
				     .queue_declare = {.queue = bytes_str(queue),
						       .arguments = timeout_of(ms)}});
	client_expect(client, 1, METHOD_queue_declare_ok);
}

static void
consume_with_timeout(const char *queue, const char *tag, int64_t ms)
{
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_consume,
				     .basic_consume = {.queue = bytes_str(queue),
						       .consumer_tag = bytes_str(tag),
						       .arguments = timeout_of(ms)}});
	client_expect(client, 1, METHOD_basic_consume_ok);
}

/* A world with these options; q has no timeout, t one of 1000 ms. */
static void
start(uint64_t consumer_timeout_ms, bool closes)
{
	session_options_set_up();
	session_options.consumer_timeout_ms = consumer_timeout_ms;
	session_options.consumer_timeout_closes = closes;
	session_start();
	client = client_connect();
	other = client_connect();
	client_declare(client, 1, "q");
	declare_with_timeout("t", 1000);
}

static void
set_up(void)
{
	start(0, false);
}

/* Begins again with other options. */
static void
restart(uint64_t consumer_timeout_ms, bool closes)
{
	session_tear_down();
	start(consumer_timeout_ms, closes);
}

static void
expect_get(uint64_t tag, bool redelivered)
{
	const struct method *m;

	client_get(client, 1, "t", false);
	m = client_expect(client, 1, METHOD_basic_get_ok);
	ck_assert_uint_eq(m->basic_get_ok.delivery_tag, tag);
	ck_assert_int_eq(m->basic_get_ok.redelivered, redelivered);
	client_expect_content(client, 1);
}

START_TEST(test_without_a_limit_nothing_is_late)
{
	client_consume(client, 1, "q", "c", false);
	client_publish(other, 1, "q", "m");
	client_expect_deliver(client, 1, "c", 1, false, "m");
	ck_assert_ptr_null(connection_channel(client->connection, 1)->timeout);
	pass_ms(100000000);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_what_is_late_comes_again)
{
	client_consume(client, 1, "t", "c", false);
	client_publish(other, 1, "t", "m");
	client_expect_deliver(client, 1, "c", 1, false, "m");
	pass_ms(999);
	client_expect_nothing(client);
	pass_ms(1);
	client_expect_deliver(client, 1, "c", 2, true, "m"); // the consumer lives
	client_ack(client, 1, 2, false);
	pass_ms(5000);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("t")->unacked_count, 0);
	ck_assert_uint_eq(find_queue("t")->ready_count, 0);
}
END_TEST

START_TEST(test_each_has_its_own_time)
{
	client_consume(client, 1, "t", "c", false);
	client_publish(other, 1, "t", "1");
	client_expect_deliver(client, 1, "c", 1, false, "1");
	pass_ms(400);
	client_publish(other, 1, "t", "2");
	client_expect_deliver(client, 1, "c", 2, false, "2");
	pass_ms(300);
	client_publish(other, 1, "t", "3");
	client_expect_deliver(client, 1, "c", 3, false, "3");
	client_ack(client, 1, 2, false);
	pass_ms(300);
	client_expect_deliver(client, 1, "c", 4, true, "1");
	client_ack(client, 1, 4, false);
	pass_ms(699);
	client_expect_nothing(client);
	pass_ms(1);
	client_expect_deliver(client, 1, "c", 5, true, "3");
}
END_TEST

START_TEST(test_it_gives_its_credit_back)
{
	client_qos(client, 1, 2, false);
	client_consume(client, 1, "t", "c", false);
	client_publish(other, 1, "t", "1");
	client_publish(other, 1, "t", "2");
	client_publish(other, 1, "t", "3");
	client_expect_deliver(client, 1, "c", 1, false, "1");
	client_expect_deliver(client, 1, "c", 2, false, "2");
	client_expect_nothing(client);
	pass_ms(600);
	client_ack(client, 1, 2, false);
	client_expect_deliver(client, 1, "c", 3, false, "3");
	pass_ms(400);
	client_expect_deliver(client, 1, "c", 4, true, "1");
	pass_ms(600);
	client_expect_deliver(client, 1, "c", 5, true, "3");
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_a_late_acknowledgement_is_no_error)
{
	client_consume(client, 1, "t", "c", false);
	client_publish(other, 1, "t", "1");
	client_publish(other, 1, "t", "2");
	client_expect_deliver(client, 1, "c", 1, false, "1");
	client_expect_deliver(client, 1, "c", 2, false, "2");
	pass_ms(1000);
	client_expect_deliver(client, 1, "c", 3, true, "1");
	client_expect_deliver(client, 1, "c", 4, true, "2");
	client_ack(client, 1, 1, false);
	client_nack(client, 1, 2, false, true);
	client_ack(client, 1, 2, true);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("t")->unacked_count, 2);
	client_ack(client, 1, 4, true);
	client_ack(client, 1, 4, true); // this one was never late
	client_expect_channel_close(client, 1, 406, METHOD_basic_ack,
				    "PRECONDITION_FAILED - unknown delivery tag 4");
}
END_TEST

/* One that is outstanding still is settled by "multiple", though the tag given is not there any more. */
START_TEST(test_a_late_multiple_acknowledgement_settles_the_others)
{
	client_consume(client, 1, "q", "q", false);
	client_consume(client, 1, "t", "t", false);
	client_publish(other, 1, "q", "m");
	client_expect_deliver(client, 1, "q", 1, false, "m");
	client_publish(other, 1, "t", "m");
	client_expect_deliver(client, 1, "t", 2, false, "m");
	pass_ms(1000);
	client_expect_deliver(client, 1, "t", 3, true, "m");
	client_ack(client, 1, 2, true);
	run();
	ck_assert_uint_eq(find_queue("q")->unacked_count, 0);
	ck_assert_uint_eq(find_queue("t")->unacked_count, 1);
}
END_TEST

START_TEST(test_get_is_subject_to_it)
{
	client_publish(other, 1, "t", "m");
	run();
	expect_get(1, false);
	pass_ms(999);
	ck_assert_uint_eq(find_queue("t")->unacked_count, 1);
	pass_ms(1);
	ck_assert_uint_eq(find_queue("t")->unacked_count, 0);
	expect_get(2, true);
	restart(700, false);
	client_publish(other, 1, "t", "m");
	run();
	expect_get(1, false);
	pass_ms(700);
	expect_get(2, true);
}
END_TEST

START_TEST(test_the_smallest_counts)
{
	static const struct {
		uint64_t configured;
		int64_t of_queue;
		int64_t of_consumer;
		uint64_t ms;
	} rows[] = {
		{500, 0, 0, 500},     {0, 600, 0, 600},	    {0, 0, 700, 700},
		{500, 600, 700, 500}, {700, 500, 600, 500}, {700, 600, 500, 500},
	};

	for (size_t i = 0; i < countof(rows); i++) {
		restart(rows[i].configured, false);
		declare_with_timeout("s", rows[i].of_queue);
		consume_with_timeout("s", "c", rows[i].of_consumer);
		client_publish(other, 1, "s", "m");
		client_expect_deliver(client, 1, "c", 1, false, "m");
		pass_ms(rows[i].ms - 1);
		client_expect_nothing(client);
		pass_ms(1);
		client_expect_deliver(client, 1, "c", 2, true, "m");
	}
}
END_TEST

/* An old delivery that may wait longer does not hide a younger one that may not. */
START_TEST(test_different_limits_on_one_channel)
{
	client_consume(client, 1, "q", "q", false);
	consume_with_timeout("q", "slow", 5000);
	client_consume(client, 1, "t", "t", false);
	for (int i = 0; i < 2; i++)
		client_publish(other, 1, "q", "m");
	client_expect_deliver(client, 1, "q", 1, false, "m");
	client_expect_deliver(client, 1, "slow", 2, false, "m");
	pass_ms(100);
	client_publish(other, 1, "t", "m");
	client_expect_deliver(client, 1, "t", 3, false, "m");
	for (int i = 0; i < 2; i++)
		client_publish(other, 1, "q", "m");
	client_expect_deliver(client, 1, "q", 4, false, "m");
	client_expect_deliver(client, 1, "slow", 5, false, "m");
	client_ack(client, 1, 5, false);
	pass_ms(1000);
	client_expect_deliver(client, 1, "t", 6, true, "m");
	client_ack(client, 1, 6, false);
	pass_ms(3899);
	client_expect_nothing(client);
	pass_ms(1);
	client_expect_deliver(client, 1, "q", 7, true, "m"); // its turn, and it may wait for ever
	pass_ms(100000);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("q")->unacked_count, 3);
}
END_TEST

/* What the queue says later counts for what it delivers from then on. */
START_TEST(test_a_limit_that_comes_later)
{
	struct queue_settings *settings;

	client_consume(client, 1, "q", "c", false);
	client_publish(other, 1, "q", "1");
	client_expect_deliver(client, 1, "c", 1, false, "1");
	pass_ms(1000);
	settings = slab_alloc(sizeof(*settings));
	*settings = queue_settings_plain;
	settings->consumer_timeout_ms = 300;
	find_queue("q")->own_settings = settings;
	declare_with_timeout("s", 100);
	client_consume(client, 1, "s", "s", false);
	client_publish(other, 1, "s", "s");
	client_expect_deliver(client, 1, "s", 2, false, "s");
	pass_ms(50);
	client_publish(other, 1, "q", "2");
	client_expect_deliver(client, 1, "c", 3, false, "2");
	pass_ms(50);
	client_expect_deliver(client, 1, "s", 4, true, "s");
	client_ack(client, 1, 4, false);
	pass_ms(199);
	client_expect_nothing(client);
	pass_ms(1);
	client_expect_deliver(client, 1, "c", 5, true, "1"); // counted since times are noted
	pass_ms(50);
	client_expect_deliver(client, 1, "c", 6, true, "2");
}
END_TEST

START_TEST(test_a_transaction_keeps_what_it_settles)
{
	client_consume(client, 1, "t", "c", false);
	client_send(client, 1, &(struct method){.id = METHOD_tx_select});
	client_expect(client, 1, METHOD_tx_select_ok);
	client_publish(other, 1, "t", "m");
	client_expect_deliver(client, 1, "c", 1, false, "m");
	client_ack(client, 1, 1, false);
	pass_ms(3000);
	client_expect_nothing(client);
	client_send(client, 1, &(struct method){.id = METHOD_tx_rollback});
	client_expect(client, 1, METHOD_tx_rollback_ok);
	pass_ms(1000);
	client_expect_deliver(client, 1, "c", 2, true, "m");
	client_ack(client, 1, 1, false); // nothing to settle, and no error
	client_ack(client, 1, 2, false);
	client_send(client, 1, &(struct method){.id = METHOD_tx_commit});
	client_expect(client, 1, METHOD_tx_commit_ok);
	ck_assert_uint_eq(find_queue("t")->unacked_count, 0);
}
END_TEST

START_TEST(test_of_a_deleted_queue_it_just_goes)
{
	client_consume(client, 1, "t", "c", false);
	client_publish(other, 1, "t", "m");
	client_expect_deliver(client, 1, "c", 1, false, "m");
	client_send(
		other, 1,
		&(struct method){.id = METHOD_queue_delete, .queue_delete = {.queue = BYTES("t")}});
	client_expect(other, 1, METHOD_queue_delete_ok);
	client_expect(client, 1, METHOD_basic_cancel);
	pass_ms(1000);
	client_ack(client, 1, 1, false);
	client_expect_nothing(client);
}
END_TEST

/* Its acknowledgements may be in what we do not read. */
START_TEST(test_who_is_not_read_is_not_late)
{
	client_consume(client, 1, "t", "c", false);
	client_publish(other, 1, "t", "m");
	client_expect_deliver(client, 1, "c", 1, false, "m");
	conn_pause(client->connection->conn, CONN_PAUSE_HOLD);
	client_ack(client, 1, 1, false);
	pass_ms(5000);
	ck_assert_uint_eq(find_queue("t")->unacked_count, 1);
	conn_resume(client->connection->conn, CONN_PAUSE_HOLD);
	pass_ms(5000);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("t")->unacked_count, 0);
	ck_assert_uint_eq(find_queue("t")->ready_count, 0);
}
END_TEST

START_TEST(test_the_channel_closes_when_it_is_to)
{
	restart(1500, true);
	client_consume(client, 1, "q", "c", false);
	client_consume(client, 1, "t", "d", false);
	client_publish(other, 1, "q", "m");
	client_publish(other, 1, "t", "m");
	client_expect_deliver(client, 1, "c", 1, false, "m");
	client_expect_deliver(client, 1, "d", 2, false, "m");
	pass_ms(999);
	client_expect_nothing(client);
	pass_ms(1);
	client_expect_channel_close(
		client, 1, 406, 0,
		"PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout "
		"value used: 1000 ms. This timeout value can be configured, see consumers doc "
		"guide "
		"to learn more");
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	ck_assert_uint_eq(find_queue("t")->ready_count, 1);
	ck_assert_uint_eq(find_queue("t")->consumers.count, 0);
	client_ack(client, 1, 1, false); // crossed the close
	client_send(client, 1, &(struct method){.id = METHOD_channel_close_ok});
	client_open_channel(client, 1);
	client_consume(client, 1, "q", "c", false);
	client_expect_deliver(client, 1, "c", 1, true, "m");
}
END_TEST

/* The content that is half here when its channel is closed is thrown away. */
START_TEST(test_the_channel_closes_inside_a_content)
{
	static uint8_t body[300000];
	struct buf stream;

	restart(1000, true);
	client_consume(client, 1, "q", "c", false);
	client_publish(other, 1, "q", "m");
	client_expect_deliver(client, 1, "c", 1, false, "m");
	buf_init(&stream, 0);
	stream_publish_method(&stream, 1, "", "q", false);
	stream_content(&stream, 1, bytes_of(body, sizeof(body)), client->frame_max);
	client_send_octets(client, bytes_of(stream.p, 200000));
	pass_ms(1000);
	client_expect(client, 1, METHOD_channel_close);
	client_send_octets(client, bytes_of(stream.p + 200000, stream.n - 200000));
	client_send(client, 1, &(struct method){.id = METHOD_channel_close_ok});
	client_open_channel(client, 1);
	ck_assert_uint_eq(find_queue("q")->publish_count, 1);
	buf_fini(&stream);
}
END_TEST

TESTS_WITH("ack_timeout", set_up, session_tear_down, test_without_a_limit_nothing_is_late,
	   test_what_is_late_comes_again, test_each_has_its_own_time, test_it_gives_its_credit_back,
	   test_a_late_acknowledgement_is_no_error,
	   test_a_late_multiple_acknowledgement_settles_the_others, test_get_is_subject_to_it,
	   test_the_smallest_counts, test_different_limits_on_one_channel,
	   test_a_limit_that_comes_later, test_a_transaction_keeps_what_it_settles,
	   test_of_a_deleted_queue_it_just_goes, test_who_is_not_read_is_not_late,
	   test_the_channel_closes_when_it_is_to, test_the_channel_closes_inside_a_content)
