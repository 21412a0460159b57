/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledgements and credit: the tables of amqp.md 7.7 and 7.9, row by row. */
#include "unit/session_fixture.h"

static struct client *client;
static struct client *publisher;

static void
set_up(void)
{
	session_set_up();
	client = client_connect();
	publisher = client_connect();
	client_declare(client, 1, "q");
}

/* Publishes bodies "1", "2" and so on. */
static void
publish(unsigned first, unsigned last)
{
	for (; first <= last; first++) {
		char body[12];

		snprintf(body, sizeof(body), "%u", first);
		client_publish(publisher, 1, "q", body);
	}
	run();
}

/* n deliveries in order of publication, whoever gets them; tags from first_tag on. */
static void
expect_deliveries(uint16_t channel, uint64_t first_tag, unsigned n)
{
	for (; n > 0; n--, first_tag++) {
		const struct method *m = client_expect(client, channel, METHOD_basic_deliver);

		ck_assert_uint_eq(m->basic_deliver.delivery_tag, first_tag);
		client_expect_content(client, channel);
	}
}

static void
expect_get(uint16_t channel, const char *queue, uint64_t tag, bool redelivered, unsigned left,
	   const char *body)
{
	const struct method *m;

	client_get(client, channel, queue, false);
	m = client_expect(client, channel, METHOD_basic_get_ok);
	ck_assert_uint_eq(m->basic_get_ok.delivery_tag, tag);
	ck_assert_int_eq(m->basic_get_ok.redelivered, redelivered);
	ck_assert_uint_eq(m->basic_get_ok.message_count, left);
	assert_bytes(client_expect_content(client, channel), body);
}

static void
cancel(uint16_t channel, const char *tag)
{
	client_send(client, channel,
		    &(struct method){.id = METHOD_basic_cancel,
				     .basic_cancel = {.consumer_tag = bytes_str(tag)}});
	assert_bytes(client_expect(client, channel, METHOD_basic_cancel_ok)
			     ->basic_cancel_ok.consumer_tag,
		     tag);
}

/* ---- qos ---------------------------------------------------------------------------------------- */

START_TEST(test_prefetch_size_is_not_implemented)
{
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_qos, .basic_qos = {.prefetch_size = 7}});
	client_expect_close(client, 540, METHOD_basic_qos,
			    "NOT_IMPLEMENTED - prefetch_size!=0 (7)");
}
END_TEST

START_TEST(test_prefetch_is_for_consumers_to_come)
{
	client_consume(client, 1, "q", "before", false);
	client_qos(client, 1, 2, false);
	publish(1, 5);
	expect_deliveries(1, 1, 5);
	cancel(1, "before");
	client_consume(client, 1, "q", "a", false);
	client_consume(client, 1, "q", "b", false);
	publish(6, 11);
	expect_deliveries(1, 6, 4); // two each
	client_expect_nothing(client);
	client_ack(client, 1, 6, false);
	expect_deliveries(1, 10, 1);
	client_expect_nothing(client);
	client_ack(client, 1, 1, false); // of the first consumer: frees nothing here
	client_expect_nothing(client);
	client_qos(client, 1, 0, false);
	client_consume(client, 1, "q", "c", false);
	expect_deliveries(1, 11, 1);
}
END_TEST

START_TEST(test_prefetch_is_per_channel)
{
	client_open_channel(client, 2);
	client_qos(client, 1, 1, false);
	client_consume(client, 2, "q", "t", false);
	publish(1, 3);
	expect_deliveries(2, 1, 3);
}
END_TEST

START_TEST(test_global_limit_is_shared_and_effective_at_once)
{
	client_consume(client, 1, "q", "a", false);
	client_consume(client, 1, "q", "b", false);
	client_qos(client, 1, 3, true);
	publish(1, 6);
	expect_deliveries(1, 1, 3);
	client_expect_nothing(client);
	client_ack(client, 1, 2, true);
	expect_deliveries(1, 4, 2);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_raising_the_global_limit_delivers_behind_qos_ok)
{
	client_qos(client, 1, 2, true);
	client_consume(client, 1, "q", "a", false);
	publish(1, 9);
	expect_deliveries(1, 1, 2);
	client_expect_nothing(client);
	client_qos(client, 1, 5, true); // expects qos-ok first
	expect_deliveries(1, 3, 3);
	client_expect_nothing(client);
	client_qos(client, 1, 0, true);
	expect_deliveries(1, 6, 4);
}
END_TEST

/* Takes deliveries one by one, acknowledging each; how many each of the tags "a", "b" and "c" got. */
static void
take_turns(uint64_t deliveries, unsigned got[3])
{
	for (uint64_t tag = 1; tag <= deliveries; tag++) {
		const struct method *m = client_expect(client, 1, METHOD_basic_deliver);

		got[m->basic_deliver.consumer_tag.p[0] - 'a']++;
		client_expect_content(client, 1);
		client_ack(client, 1, tag, false);
	}
}

START_TEST(test_global_limit_goes_round_among_consumers)
{
	unsigned got[3] = {0};

	client_qos(client, 1, 1, true);
	client_consume(client, 1, "q", "a", false);
	client_consume(client, 1, "q", "b", false);
	client_consume(client, 1, "q", "c", false);
	publish(1, 12);
	take_turns(12, got);
	for (size_t i = 0; i < countof(got); i++)
		ck_assert_uint_ge(got[i], 3);
}
END_TEST

START_TEST(test_global_limit_goes_round_among_queues)
{
	static const char *const queues[] = {"qa", "qb", "qc"};
	unsigned got[3] = {0};

	client_qos(client, 1, 1, true);
	for (size_t i = 0; i < countof(queues); i++) {
		client_declare(client, 1, queues[i]);
		client_consume(client, 1, queues[i], queues[i] + 1, false);
	}
	for (size_t i = 0; i < countof(queues); i++)
		for (int n = 0; n < 9; n++)
			client_publish(publisher, 1, queues[i], "m");
	take_turns(12, got);
	for (size_t i = 0; i < countof(got); i++)
		ck_assert_uint_ge(got[i], 3);
}
END_TEST

START_TEST(test_lowering_the_global_limit_takes_nothing_back)
{
	client_qos(client, 1, 4, true);
	client_consume(client, 1, "q", "a", false);
	publish(1, 8);
	expect_deliveries(1, 1, 4);
	client_qos(client, 1, 2, true);
	client_ack(client, 1, 1, false);
	client_ack(client, 1, 2, false);
	client_expect_nothing(client); // two are out still
	client_ack(client, 1, 3, false);
	expect_deliveries(1, 5, 1);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_both_limits_count)
{
	client_qos(client, 1, 2, false);
	client_qos(client, 1, 3, true);
	client_consume(client, 1, "q", "a", false);
	publish(1, 8);
	expect_deliveries(1, 1, 2);
	client_expect_nothing(client);
	client_consume(client, 1, "q", "b", false);
	expect_deliveries(1, 3, 1);
	client_expect_nothing(client);
	client_ack(client, 1, 3, false); // of b: it has room, and so has the channel
	expect_deliveries(1, 4, 1);
	client_ack(client, 1, 1, false);
	expect_deliveries(1, 5, 1);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_prefetch_of_consumers_removes_the_global_limit)
{
	client_qos(client, 1, 1, true);
	client_consume(client, 1, "q", "a", false);
	publish(1, 3);
	expect_deliveries(1, 1, 1);
	client_expect_nothing(client);
	client_qos(client, 1, 1, false);
	expect_deliveries(1, 2, 2); // a was there before
}
END_TEST

START_TEST(test_no_ack_consumers_have_no_prefetch)
{
	client_qos(client, 1, 2, false);
	client_consume(client, 1, "q", "a", true);
	publish(1, 10);
	expect_deliveries(1, 1, 10);
	ck_assert_uint_eq(find_queue("q")->unacked_count, 0);
}
END_TEST

START_TEST(test_no_ack_consumers_stop_at_the_global_limit_but_do_not_count)
{
	client_declare(client, 1, "q2");
	client_qos(client, 1, 1, true);
	client_consume(client, 1, "q", "noack", true);
	client_consume(client, 1, "q2", "ack", false);
	publish(1, 4);
	expect_deliveries(1, 1, 4);
	client_publish(publisher, 1, "q2", "x");
	run();
	expect_deliveries(1, 5, 1); // the channel is exhausted now
	publish(5, 7);
	client_expect_nothing(client);
	client_ack(client, 1, 5, false);
	expect_deliveries(1, 6, 3);
}
END_TEST

START_TEST(test_get_is_never_limited)
{
	publish(1, 4);
	client_qos(client, 1, 1, false);
	client_qos(client, 1, 1, true);
	expect_get(1, "q", 1, false, 3, "1");
	expect_get(1, "q", 2, false, 2, "2");
	expect_get(1, "q", 3, false, 1, "3");
}
END_TEST

START_TEST(test_gets_after_the_global_limit_do_not_count)
{
	client_qos(client, 1, 2, true);
	publish(1, 6);
	expect_get(1, "q", 1, false, 5, "1");
	expect_get(1, "q", 2, false, 4, "2");
	expect_get(1, "q", 3, false, 3, "3");
	client_consume(client, 1, "q", "a", false);
	expect_deliveries(1, 4, 2);
	client_expect_nothing(client);
	client_ack(client, 1, 3, true); // the gets: no credit
	client_expect_nothing(client);
	client_ack(client, 1, 4, false);
	expect_deliveries(1, 6, 1);
}
END_TEST

START_TEST(test_global_limit_starts_with_what_is_unacked_gets_included)
{
	publish(1, 8);
	expect_get(1, "q", 1, false, 7, "1");
	client_qos(client, 1, 1, false);
	client_consume(client, 1, "q", "a", false);
	expect_deliveries(1, 2, 1);
	client_qos(client, 1, 3, true); // two are unacked
	client_consume(client, 1, "q", "b", false);
	expect_deliveries(1, 3, 1);
	client_expect_nothing(client);
	client_ack(client, 1, 1, false); // the get gives its credit back
	client_expect_nothing(client);	 // but a and b have theirs out
	client_qos(client, 1, 0, false);
	client_qos(client, 1, 3, true);
	client_consume(client, 1, "q", "c", false);
	expect_deliveries(1, 4, 1);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_a_global_limit_set_again_counts_anew)
{
	client_qos(client, 1, 2, true);
	client_consume(client, 1, "q", "a", false);
	publish(1, 4);
	expect_deliveries(1, 1, 2);
	client_qos(client, 1, 0, true);
	expect_deliveries(1, 3, 2);
	client_qos(client, 1, 3, true); // four are out
	publish(5, 8);
	client_ack(client, 1, 1, false);
	client_expect_nothing(client);
	client_ack(client, 1, 2, false);
	expect_deliveries(1, 5, 1);
	client_expect_nothing(client);
	client_ack(client, 1, 0, true);
	expect_deliveries(1, 6, 3);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_py_amqp_means_live_consumers)
{
	struct connect_options options = connect_options_default();

	options.product = "py-amqp";
	client = client_connect_with(&options, WIDE_WINDOW);
	client_open_channel(client, 1);
	client_qos(client, 1, 2, false);
	client_consume(client, 1, "q", "a", false);
	publish(1, 9);
	expect_deliveries(1, 1, 2);
	client_qos(client, 1, 5, false);
	expect_deliveries(1, 3, 3);
	client_expect_nothing(client);
	client_qos(client, 1, 1, false);
	client_ack(client, 1, 4, true);
	client_expect_nothing(client);
	client_ack(client, 1, 5, true);
	expect_deliveries(1, 6, 1);
	client_expect_nothing(client);
	client_qos(client, 1, 0, false);
	expect_deliveries(1, 7, 3);
}
END_TEST

/* ---- acknowledgements ---------------------------------------------------------------------------- */

static void
expect_unknown(uint64_t tag, uint32_t method_id)
{
	char text[80];

	snprintf(text, sizeof(text), "PRECONDITION_FAILED - unknown delivery tag %llu",
		 (unsigned long long)tag);
	client_expect_channel_close(client, 1, 406, method_id, text);
	client_expect_nothing(client);
	client_send(client, 1, &(struct method){.id = METHOD_channel_close_ok});
	client_open_channel(client, 1);
}

START_TEST(test_unknown_tags)
{
	client_ack(client, 1, 1, false);
	expect_unknown(1, METHOD_basic_ack);
	client_ack(client, 1, 0, false);
	expect_unknown(0, METHOD_basic_ack);
	client_nack(client, 1, 5, true, true);
	expect_unknown(5, METHOD_basic_nack);
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_reject, .basic_reject = {9, true}});
	expect_unknown(9, METHOD_basic_reject);
}
END_TEST

START_TEST(test_tag_that_was_settled_or_needs_no_ack_is_unknown)
{
	publish(1, 3);
	expect_get(1, "q", 1, false, 2, "1");
	client_ack(client, 1, 1, false);
	client_ack(client, 1, 1, false);
	expect_unknown(1, METHOD_basic_ack);
	client_get(client, 1, "q", true);
	client_expect(client, 1, METHOD_basic_get_ok);
	client_expect_content(client, 1);
	client_ack(client, 1, 1, false);
	expect_unknown(1, METHOD_basic_ack);
	/* the tag itself must be outstanding, also with multiple */
	expect_get(1, "q", 1, false, 0, "3");
	client_ack(client, 1, 2, true);
	expect_unknown(2, METHOD_basic_ack);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1); // the channel gave it back
}
END_TEST

START_TEST(test_tag_0_with_multiple_is_all)
{
	client_ack(client, 1, 0, true);
	client_nack(client, 1, 0, true, true);
	publish(1, 3);
	client_consume(client, 1, "q", "a", false);
	expect_deliveries(1, 1, 3);
	client_ack(client, 1, 0, true);
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("q")->unacked_count, 0);
	ck_assert_uint_eq(find_queue("q")->ack_count, 3);
}
END_TEST

START_TEST(test_multiple_settles_up_to_the_tag_over_queues)
{
	client_declare(client, 1, "q2");
	client_consume(client, 1, "q", "a", false);
	client_consume(client, 1, "q2", "b", false);
	publish(1, 1);
	client_publish(publisher, 1, "q2", "x");
	run();
	publish(2, 2);
	expect_deliveries(1, 1, 3);
	client_ack(client, 1, 2, true);
	run();
	ck_assert_uint_eq(find_queue("q")->unacked_count, 1);
	ck_assert_uint_eq(find_queue("q2")->unacked_count, 0);
}
END_TEST

START_TEST(test_reject_without_requeue_drops)
{
	publish(1, 3);
	expect_get(1, "q", 1, false, 2, "1");
	expect_get(1, "q", 2, false, 1, "2");
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_reject, .basic_reject = {1, false}});
	client_nack(client, 1, 2, false, false);
	run();
	ck_assert_uint_eq(find_queue("q")->unacked_count, 0);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	ck_assert_uint_eq(find_queue("q")->ack_count, 0);
}
END_TEST

START_TEST(test_requeued_messages_come_in_their_old_order)
{
	publish(1, 5);
	for (unsigned i = 1; i <= 4; i++) {
		char body[2] = {(char)('0' + i), '\0'};

		expect_get(1, "q", i, false, 5 - i, body);
	}
	client_nack(client, 1, 3, false, true);
	client_nack(client, 1, 1, false, true);
	client_nack(client, 1, 4, false, true);
	expect_get(1, "q", 5, true, 3, "1");
	expect_get(1, "q", 6, true, 2, "3");
	expect_get(1, "q", 7, true, 1, "4");
	expect_get(1, "q", 8, false, 0, "5");
}
END_TEST

START_TEST(test_requeue_may_come_back_at_once)
{
	client_consume(client, 1, "q", "a", false);
	publish(1, 1);
	client_expect_deliver(client, 1, "a", 1, false, "1");
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_reject, .basic_reject = {1, true}});
	client_expect_deliver(client, 1, "a", 2, true, "1");
}
END_TEST

START_TEST(test_channel_end_requeues_in_order)
{
	client_open_channel(client, 2);
	client_qos(client, 2, 300, false);
	client_consume(client, 2, "q", "a", false);
	publish(1, 1000);
	expect_deliveries(2, 1, 300);
	client_ack(client, 2, 7, false);
	client_close_channel(client, 2);
	client_consume(client, 1, "q", "b", true);
	for (unsigned i = 1; i <= 1000; i++) {
		const struct method *m;
		char body[12];

		if (i == 7)
			continue;
		m = client_expect(client, 1, METHOD_basic_deliver);
		ck_assert_int_eq(m->basic_deliver.redelivered, i <= 300);
		snprintf(body, sizeof(body), "%u", i);
		assert_bytes(client_expect_content(client, 1), body);
	}
}
END_TEST

START_TEST(test_cancel_keeps_unacked_messages)
{
	publish(1, 2);
	client_qos(client, 1, 1, false);
	client_consume(client, 1, "q", "a", false);
	client_expect_deliver(client, 1, "a", 1, false, "1");
	cancel(1, "a");
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("q")->unacked_count, 1);
	ck_assert_uint_eq(find_queue("q")->ready_count, 1);
	client_ack(client, 1, 1, false);
	run();
	ck_assert_uint_eq(find_queue("q")->unacked_count, 0);
	ck_assert_uint_eq(broker->consumers_pool.in_use, 0);
	cancel(1, "never there");
}
END_TEST

START_TEST(test_recover_requeues_everything_behind_its_answer)
{
	publish(1, 3);
	expect_get(1, "q", 1, false, 2, "1");
	client_consume(client, 1, "q", "a", false);
	expect_deliveries(1, 2, 2);
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_recover, .basic_recover = {true}});
	client_expect(client, 1, METHOD_basic_recover_ok);
	client_expect_deliver(client, 1, "a", 4, true, "1");
	client_expect_deliver(client, 1, "a", 5, true, "2");
	client_expect_deliver(client, 1, "a", 6, true, "3");
	client_send(
		client, 1,
		&(struct method){.id = METHOD_basic_recover_async, .basic_recover_async = {true}});
	expect_deliveries(1, 7, 3);
	client_send(client, 1, &(struct method){.id = METHOD_basic_recover});
	client_expect_close(client, 540, METHOD_basic_recover, "NOT_IMPLEMENTED - requeue=false");
}
END_TEST

START_TEST(test_acks_after_the_queue_was_deleted)
{
	publish(1, 3);
	client_consume(client, 1, "q", "a", false);
	expect_deliveries(1, 1, 3);
	client_send(
		publisher, 1,
		&(struct method){.id = METHOD_queue_delete, .queue_delete = {.queue = BYTES("q")}});
	client_expect(publisher, 1, METHOD_queue_delete_ok);
	client_expect(client, 1, METHOD_basic_cancel);
	client_ack(client, 1, 1, false);
	client_nack(client, 1, 2, false, true);
	client_expect_nothing(client);
	client_close_channel(client, 1);
	ck_assert_uint_eq(broker->consumers_pool.in_use, 0);
}
END_TEST

TESTS_WITH("settle", set_up, session_tear_down, test_prefetch_size_is_not_implemented,
	   test_prefetch_is_for_consumers_to_come, test_prefetch_is_per_channel,
	   test_global_limit_is_shared_and_effective_at_once,
	   test_raising_the_global_limit_delivers_behind_qos_ok,
	   test_global_limit_goes_round_among_consumers, test_global_limit_goes_round_among_queues,
	   test_lowering_the_global_limit_takes_nothing_back, test_both_limits_count,
	   test_prefetch_of_consumers_removes_the_global_limit,
	   test_no_ack_consumers_have_no_prefetch,
	   test_no_ack_consumers_stop_at_the_global_limit_but_do_not_count,
	   test_get_is_never_limited, test_gets_after_the_global_limit_do_not_count,
	   test_global_limit_starts_with_what_is_unacked_gets_included,
	   test_a_global_limit_set_again_counts_anew, test_py_amqp_means_live_consumers,
	   test_unknown_tags, test_tag_that_was_settled_or_needs_no_ack_is_unknown,
	   test_tag_0_with_multiple_is_all, test_multiple_settles_up_to_the_tag_over_queues,
	   test_reject_without_requeue_drops, test_requeued_messages_come_in_their_old_order,
	   test_requeue_may_come_back_at_once, test_channel_end_requeues_in_order,
	   test_cancel_keeps_unacked_messages, test_recover_requeues_everything_behind_its_answer,
	   test_acks_after_the_queue_was_deleted)
