/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions: a commit into queues that refuse what they get. */
#include "unit/session_fixture.h"

static struct client *client;

static void
declare_full(const char *name, int64_t length_max)
{
	uint8_t room[256];
	struct writer w = writer_of(room, sizeof(room));

	table_put_long(&w, BYTES("x-max-length"), length_max);
	table_put_string(&w, BYTES("x-overflow"), BYTES("reject-publish"));
	client_send(client, 1,
		    &(struct method){
			    .id = METHOD_queue_declare,
			    .queue_declare = {.queue = bytes_str(name),
					      .arguments = bytes_of(room, (size_t)(w.p - room))}});
	client_expect(client, 1, METHOD_queue_declare_ok);
}

static void
set_up(void)
{
	session_set_up();
	client = client_connect();
	client_declare(client, 1, "plain");
	declare_full("full", 1);
	client_send(client, 1, &(struct method){.id = METHOD_tx_select});
	client_expect(client, 1, METHOD_tx_select_ok);
}

static void
commit(void)
{
	client_send(client, 1, &(struct method){.id = METHOD_tx_commit});
}

START_TEST(test_commit_that_all_queues_take)
{
	client_publish(client, 1, "full", "a");
	client_publish(client, 1, "plain", "b");
	commit();
	client_expect(client, 1, METHOD_tx_commit_ok);
	ck_assert_uint_eq(find_queue("full")->ready_count, 1);
	ck_assert_uint_eq(find_queue("plain")->ready_count, 1);
}
END_TEST

/* Whatever is behind the message that was refused is done all the same: messages and acknowledgements. */
START_TEST(test_commit_that_one_queue_refuses)
{
	client_publish(client, 1, "plain", "old");
	commit();
	client_expect(client, 1, METHOD_tx_commit_ok);
	client_consume(client, 1, "plain", "t", false);
	client_expect_deliver(client, 1, "t", 1, false, "old");
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_cancel,
				     .basic_cancel = {.consumer_tag = BYTES("t")}});
	client_expect(client, 1, METHOD_basic_cancel_ok);
	client_publish(client, 1, "full", "a");
	client_publish(client, 1, "full", "refused");
	client_publish(client, 1, "plain", "b");
	client_send(client, 1,
		    &(struct method){.id = METHOD_basic_ack, .basic_ack = {.delivery_tag = 1}});
	commit();
	client_expect_channel_close(client, 1, 406, METHOD_tx_commit,
				    "PRECONDITION_FAILED - partial tx completion");
	client_expect_nothing(client);
	ck_assert_uint_eq(find_queue("full")->ready_count, 1);
	ck_assert_uint_eq(find_queue("plain")->ready_count, 1);
	ck_assert_uint_eq(find_queue("plain")->unacked_count, 0);
}
END_TEST

TESTS_WITH("tx", set_up, session_tear_down, test_commit_that_all_queues_take,
	   test_commit_that_one_queue_refuses)
