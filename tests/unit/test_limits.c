/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of vhosts, users and the node, as a peer sees them: what is refused with which words, in which
 * order, and that what has gone does not count. Also update-secret, and tuning where we have no limit.
 */
#include "broker/limits.h"

#include "unit/session_fixture.h"

static struct connect_options options;

static void
set_up(void)
{
	session_set_up();
	options = connect_options_default();
}

static struct user *
guest(void)
{
	return user_find(broker, BYTES("guest"));
}

static struct client *
connect_only(void)
{
	return client_connect_with(&options, WIDE_WINDOW);
}

/* A client that gets a connection.close for its open. */
static void
expect_refused_open(const char *name, const char *text)
{
	struct client *client = client_accept(WIDE_WINDOW);

	client_start(client);
	client_send_start_ok(client, &options);
	client_expect(client, 0, METHOD_connection_tune);
	client_send_tune_ok(client, 2047, 131072, 0);
	client_send_open(client, name);
	client_expect_close(client, 530, METHOD_connection_open, text);
}

static void
close_connection(struct client *client)
{
	client_send(client, 0, &(struct method){.id = METHOD_connection_close});
	client_expect(client, 0, METHOD_connection_close_ok);
}

#define VHOST_FULL(n)                                                                              \
	"NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (" n ") is " \
	"reached"
#define USER_FULL(n)                                                                           \
	"NOT_ALLOWED - connection refused for user 'guest': user connection limit (" n ") is " \
	"reached"

/* ---- connections -------------------------------------------------------------------------------- */

START_TEST(test_limit_of_a_vhost_counts_open_connections)
{
	struct client *first;

	vhost_set_limits(vhost, 2, LIMIT_NONE);
	first = connect_only();
	connect_only();
	expect_refused_open("/", VHOST_FULL("2"));
	expect_refused_open("/", VHOST_FULL("2"));
	/* closed counts no more, though its peer has not ended the stream */
	close_connection(first);
	connect_only();
	expect_refused_open("/", VHOST_FULL("2"));
	ck_assert_uint_eq(vhost->connection_count, 2);
}
END_TEST

START_TEST(test_limit_of_a_user_counts_open_connections)
{
	struct client *client;

	add_user("other", "secret");
	user_set_limits(guest(), 1, LIMIT_NONE);
	client = connect_only();
	expect_refused_open("/", USER_FULL("1"));
	options.user = "other";
	connect_only();
	options.user = "guest";
	mem_peer_break(client->peer);
	run();
	ck_assert_uint_eq(guest()->connection_count, 0);
	connect_only();
}
END_TEST

START_TEST(test_limit_of_0_admits_nothing_and_a_negative_one_anything)
{
	vhost_set_limits(vhost, 0, LIMIT_NONE);
	expect_refused_open("/", VHOST_FULL("0"));
	vhost_set_limits(vhost, -7, LIMIT_NONE);
	user_set_limits(guest(), 0, LIMIT_NONE);
	expect_refused_open("/", USER_FULL("0"));
	user_set_limits(guest(), -7, LIMIT_NONE);
	connect_only();
}
END_TEST

/* amqp.md 3.7 */
START_TEST(test_limits_are_looked_at_in_order)
{
	vhost_set_limits(vhost, 0, LIMIT_NONE);
	user_set_limits(guest(), 0, LIMIT_NONE);
	user_clear_permissions(broker, guest(), BYTES("/"));
	session->options.connection_max = 0;
	expect_refused_open("x", "NOT_ALLOWED - connection refused: node connection limit (0) is "
				 "reached");
	session->options.connection_max = UINT32_MAX;
	expect_refused_open("x", "NOT_ALLOWED - vhost x not found");
	expect_refused_open("/", VHOST_FULL("0"));
	vhost_set_limits(vhost, LIMIT_NONE, LIMIT_NONE);
	expect_refused_open("/", USER_FULL("0"));
	user_set_limits(guest(), LIMIT_NONE, LIMIT_NONE);
	expect_refused_open("/", "NOT_ALLOWED - access to vhost '/' refused for user 'guest'");
	ck_assert_uint_eq(vhost->connection_count, 0);
	ck_assert_uint_eq(guest()->connection_count, 0);
}
END_TEST

START_TEST(test_limits_forget_a_connection_that_the_server_closed)
{
	struct client *client = client_connect();

	client_send(client, 1, &(struct method){.id = METHOD_channel_flow});
	client_expect_close(client, 540, METHOD_channel_flow, "NOT_IMPLEMENTED - active=false");
	ck_assert_uint_eq(vhost->connection_count, 0);
	ck_assert_uint_eq(guest()->connection_count, 0);
	ck_assert_uint_eq(guest()->channel_count, 0);
}
END_TEST

/* ---- channels ----------------------------------------------------------------------------------- */

static void
expect_refused_channel(struct client *client, uint16_t channel, const char *text)
{
	client_send(client, channel, &(struct method){.id = METHOD_channel_open});
	client_expect_close(client, 530, 0, text);
}

START_TEST(test_limit_of_channels_is_of_all_connections_of_the_user)
{
	struct client *a = client_connect();
	struct client *b = client_connect();

	user_set_limits(guest(), LIMIT_NONE, 3);
	client_open_channel(a, 2);
	client_close_channel(b, 1);
	client_open_channel(b, 7);
	expect_refused_channel(b, 8,
			       "NOT_ALLOWED - number of channels opened for user 'guest' has "
			       "reached the maximum allowed user limit of 3");
	ck_assert_uint_eq(guest()->channel_count, 2);
	client_open_channel(a, 3);
	user_set_limits(guest(), LIMIT_NONE, -1);
	client_open_channel(a, 4);
}
END_TEST

/* amqp.md 4.2 */
START_TEST(test_limits_of_channels_are_looked_at_in_order)
{
	struct client *client;

	session->options.channel_max_per_node = 0;
	user_set_limits(guest(), LIMIT_NONE, 0);
	expect_refused_channel(connect_only(), 1,
			       "NOT_ALLOWED - number of channels opened for user 'guest' has "
			       "reached the maximum allowed user limit of 0");
	user_set_limits(guest(), LIMIT_NONE, 1);
	session->options.node_name = "pannier@here";
	expect_refused_channel(connect_only(), 1,
			       "NOT_ALLOWED - number of channels opened on node 'pannier@here' "
			       "has reached the maximum allowed limit of 0");
	session->options.channel_max_per_node = UINT32_MAX;
	options.channel_max = 1;
	client = connect_only();
	client_open_channel(client, 1);
	expect_refused_channel(client, 2,
			       "NOT_ALLOWED - number of channels opened (1) has reached the "
			       "negotiated channel_max (1)");
}
END_TEST

/* ---- queues and exchanges ----------------------------------------------------------------------- */

static void
send_declare(struct client *client, const char *queue)
{
	client_send(client, 1,
		    &(struct method){.id = METHOD_queue_declare,
				     .queue_declare = {.queue = bytes_str(queue)}});
}

static void
expect_soft(struct client *client, uint32_t method_id, const char *text)
{
	client_expect_channel_close(client, 1, 406, method_id, text);
	client_send(client, 1, &(struct method){.id = METHOD_channel_close_ok});
	client_open_channel(client, 1);
}

START_TEST(test_limit_of_queues)
{
	struct client *client = client_connect();

	vhost_set_limits(vhost, LIMIT_NONE, 1);
	broker->options.queue_max = 1;
	client_declare(client, 1, "a");
	client_declare(client, 1, "a");
	send_declare(client, "b");
	expect_soft(client, METHOD_queue_declare,
		    "PRECONDITION_FAILED - cannot declare queue 'b': queue limit in vhost '/' (1) "
		    "is reached");
	vhost_set_limits(vhost, LIMIT_NONE, LIMIT_NONE);
	send_declare(client, "b");
	expect_soft(client, METHOD_queue_declare,
		    "PRECONDITION_FAILED - cannot declare queue 'b': queue limit in cluster (1) is "
		    "reached");
	broker->options.queue_max = UINT32_MAX;
	client_declare(client, 1, "b");
	vhost_set_limits(vhost, LIMIT_NONE, 0);
	client_declare(client, 1, "b");
	send_declare(client, "c");
	expect_soft(client, METHOD_queue_declare,
		    "PRECONDITION_FAILED - cannot declare queue 'c': queue limit in vhost '/' (0) "
		    "is reached");
}
END_TEST

static void
send_exchange(struct client *client, const char *name)
{
	client_send(client, 1,
		    &(struct method){.id = METHOD_exchange_declare,
				     .exchange_declare = {.exchange = bytes_str(name),
							  .type = BYTES("fanout")}});
}

START_TEST(test_limit_of_exchanges_counts_those_of_the_start)
{
	struct client *client = client_connect();

	broker->options.exchange_max = (uint32_t)broker->exchange_count + 1;
	ck_assert_uint_eq(broker->exchange_count, vhost->exchanges.count);
	send_exchange(client, "a");
	client_expect(client, 1, METHOD_exchange_declare_ok);
	send_exchange(client, "a");
	client_expect(client, 1, METHOD_exchange_declare_ok);
	send_exchange(client, "b");
	expect_soft(
		client, METHOD_exchange_declare,
		"PRECONDITION_FAILED - cannot declare exchange 'b' in vhost '/': exchange limit "
		"of 8 is reached");
	client_send(client, 1,
		    &(struct method){.id = METHOD_exchange_delete,
				     .exchange_delete = {.exchange = BYTES("a")}});
	client_expect(client, 1, METHOD_exchange_delete_ok);
	send_exchange(client, "b");
	client_expect(client, 1, METHOD_exchange_declare_ok);
}
END_TEST

/* ---- tuning, secrets ---------------------------------------------------------------------------- */

START_TEST(test_no_limit_where_we_have_none)
{
	session->options.frame_max = 0;
	session->options.channel_max = 0;
	options.frame_max = 0;
	options.channel_max = 0;
	client_open_channel(connect_only(), UINT16_MAX);
	options.frame_max = FRAME_MIN_SIZE;
	client_open_channel(connect_only(), 1);
}
END_TEST

static void
send_secret(struct client *client)
{
	client_send(client, 0,
		    &(struct method){
			    .id = METHOD_connection_update_secret,
			    .connection_update_secret = {BYTES("another"), BYTES("rotation")}});
}

START_TEST(test_secret_is_refused_for_a_user_who_is_gone)
{
	struct client *client = connect_only();

	send_secret(client);
	client_expect(client, 0, METHOD_connection_update_secret_ok);
	user_delete(broker, guest());
	send_secret(client);
	client_expect_close(client, 530, METHOD_connection_update_secret,
			    "NOT_ALLOWED - New secret was refused by one of the backends");
	client_send(client, 0, &(struct method){.id = METHOD_connection_close_ok});
	client_expect_end(client);
}
END_TEST

START_TEST(test_secret_waits_for_the_opening)
{
	struct client *client = client_accept(WIDE_WINDOW);

	client_start(client);
	client_send_start_ok(client, &options);
	client_expect(client, 0, METHOD_connection_tune);
	client_send_tune_ok(client, 2047, 131072, 0);
	send_secret(client);
	client_expect_close(client, 504, METHOD_connection_update_secret,
			    "CHANNEL_ERROR - unexpected method in connection state opening");
}
END_TEST

TESTS_WITH("limits", set_up, session_tear_down, test_limit_of_a_vhost_counts_open_connections,
	   test_limit_of_a_user_counts_open_connections,
	   test_limit_of_0_admits_nothing_and_a_negative_one_anything,
	   test_limits_are_looked_at_in_order,
	   test_limits_forget_a_connection_that_the_server_closed,
	   test_limit_of_channels_is_of_all_connections_of_the_user,
	   test_limits_of_channels_are_looked_at_in_order, test_limit_of_queues,
	   test_limit_of_exchanges_counts_those_of_the_start, test_no_limit_where_we_have_none,
	   test_secret_is_refused_for_a_user_who_is_gone, test_secret_waits_for_the_opening)
