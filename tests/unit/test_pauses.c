/* SPDX-License-Identifier: Apache-2.0 */
/* Clients whose rejections write dead letters to a store that is behind. */
#include "broker/alarms.h"
#include "broker/durable.h"
#include "store/store.h"
#include "unit/session_fixture.h"

#include "lib/disk_sim.h"

#define MESSAGES 40
#define BODY_SIZE 1000

static struct disk_sim *disk;
static struct store *store;
static struct client *publisher;
static struct client *worker; // takes and rejects

static void
on_snapshot(void *context, struct store *of)
{
	broker_snapshot(context, of);
}

static void
on_stable(void *context, uint64_t lsn)
{
	broker_set_stable(context, lsn);
}

static void
on_space(void *context, bool is_short)
{
	(void)context;
	ck_assert(!is_short);
}

static void
on_failure(void *context, int error, const char *what)
{
	(void)context;
	ck_abort_msg("%s: %d", what, error);
}

static const struct store_ops ops = {.snapshot = on_snapshot,
				     .stable = on_stable,
				     .short_of_space = on_space,
				     .failed = on_failure};

/* Everything that was written is safe. */
static void
catch_up(void)
{
	do
		run();
	while (store_work(store));
	run();
}

static void
declare_durable(const char *name, const char *dead)
{
	uint8_t room[128];
	struct writer w = writer_of(room, sizeof(room));

	if (dead != NULL) {
		table_put_string(&w, BYTES("x-dead-letter-exchange"), BYTES(""));
		table_put_string(&w, BYTES("x-dead-letter-routing-key"), bytes_str(dead));
	}
	client_send(worker, 1,
		    &(struct method){
			    .id = METHOD_queue_declare,
			    .queue_declare = {.queue = bytes_str(name),
					      .durable = true,
					      .arguments = bytes_of(room, (size_t)(w.p - room))}});
	catch_up();
	client_expect(worker, 1, METHOD_queue_declare_ok);
}

static void
publish_persistent(const char *queue)
{
	const struct basic_properties properties = {.flags = PROPERTY_delivery_mode,
						    .delivery_mode = 2};
	static uint8_t body[BODY_SIZE];
	uint8_t header[64];
	struct writer w = writer_of(header, sizeof(header));
	struct buf stream;

	buf_init(&stream, 0);
	stream_publish_method(&stream, 1, "", queue, false);
	content_header_encode(&properties, sizeof(body), &w);
	stream_frame(&stream, FRAME_HEADER, 1, bytes_of(header, (size_t)(w.p - header)));
	stream_frame(&stream, FRAME_BODY, 1, bytes_of(body, sizeof(body)));
	client_send_octets(publisher, buf_bytes(&stream));
	buf_fini(&stream);
	catch_up();
}

static void
set_up(void)
{
	struct store_options options = store_options_default();
	struct connect_options told = connect_options_default();
	struct buf error;

	session_set_up();
	disk = disk_sim_new();
	options.node_name = "test";
	options.buffer_size = MESSAGES * BODY_SIZE / 2;
	options.file_size = 1024 * 1024;
	buf_init(&error, 0);
	ck_assert_int_eq(store_open(&store, &disk->disk, &options, &ops, broker, &error), 0);
	buf_fini(&error);
	broker->store = store;
	turn.store = store;
	publisher = client_connect();
	told.takes_blocked = true;
	worker = client_connect_with(&told, WIDE_WINDOW);
	client_open_channel(worker, 1);
	declare_durable("dead", NULL);
	declare_durable("work", "dead");
	for (int i = 0; i < 2 * MESSAGES; i++)
		publish_persistent("work");
	client_consume(worker, 1, "work", "t", false);
	catch_up();
	for (int i = 0; i < 2 * MESSAGES; i++) {
		client_expect(worker, 1, METHOD_basic_deliver);
		(void)client_expect_content(worker, 1);
	}
}

static void
tear_down(void)
{
	for (size_t i = 0; i < client_count; i++)
		client_end(&clients[i]);
	turn.store = NULL;
	ck_assert_int_eq(store_close(&store, false), 0);
	broker->store = NULL;
	session_tear_down();
	disk_sim_free(&disk);
}

static void
reject(uint64_t first, uint64_t last)
{
	for (uint64_t tag = first; tag <= last; tag++)
		client_nack(worker, 1, tag, false, false);
	run();
}

/* More letters than the store gathers, twice: the first batch is on its way, the second is full. */
static void
reject_too_much(void)
{
	reject(1, MESSAGES);
	reject(MESSAGES + 1, (uint64_t)2 * MESSAGES);
}

static void
expect_flow_ok(void)
{
	client_expect(worker, 1, METHOD_channel_flow_ok);
}

static void
send_flow(void)
{
	client_send(worker, 1, &(struct method){.id = METHOD_channel_flow, .channel_flow = {true}});
}

START_TEST(test_who_rejects_waits_for_the_store)
{
	reject_too_much();
	ck_assert_uint_eq(conn_paused(worker->connection->conn), CONN_PAUSE_STORE);
	send_flow();
	client_expect_nothing(worker);
	catch_up();
	expect_flow_ok();
	ck_assert_uint_eq(conn_paused(worker->connection->conn), 0);
	ck_assert_uint_eq(queue_message_count(find_queue("dead")), 2 * MESSAGES);
}
END_TEST

/* Marks are small, and whoever acknowledges makes room. */
START_TEST(test_who_acknowledges_does_not_wait)
{
	reject(1, MESSAGES);
	client_ack(worker, 1, (uint64_t)2 * MESSAGES, true);
	send_flow();
	expect_flow_ok();
	catch_up();
}
END_TEST

/* The alarm stops publishers, and a consumer is none. */
START_TEST(test_who_rejects_goes_on_while_the_disk_is_low)
{
	reject_too_much();
	ck_assert_uint_eq(conn_paused(worker->connection->conn), CONN_PAUSE_STORE);
	broker->alarms = ALARM_DISK;
	send_flow();
	expect_flow_ok();
	ck_assert_uint_eq(conn_paused(worker->connection->conn), 0);
	client_expect_nothing(worker);
	broker->alarms = 0;
	catch_up();
}
END_TEST

/* One rejection of more than the store gathers goes on when there is room; what is delivered meanwhile is not of
 * it. */
START_TEST(test_one_rejection_of_all_is_held)
{
	client_nack(worker, 1, 0, true, false);
	run();
	ck_assert(conn_paused(worker->connection->conn) & CONN_PAUSE_HOLD);
	ck_assert_uint_lt(queue_message_count(find_queue("dead")), 2 * MESSAGES);
	send_flow();
	client_expect_nothing(worker);
	client_publish(publisher, 1, "work", "later");
	run();
	client_expect(worker, 1, METHOD_basic_deliver);
	(void)client_expect_content(worker, 1);
	catch_up();
	expect_flow_ok();
	ck_assert_uint_eq(conn_paused(worker->connection->conn), 0);
	ck_assert_uint_eq(queue_message_count(find_queue("dead")), 2 * MESSAGES);
	client_ack(worker, 1, (uint64_t)2 * MESSAGES + 1, false);
	send_flow();
	catch_up();
	expect_flow_ok();
}
END_TEST

TESTS_WITH("pauses", set_up, tear_down, test_who_rejects_waits_for_the_store,
	   test_who_acknowledges_does_not_wait, test_who_rejects_goes_on_while_the_disk_is_low,
	   test_one_rejection_of_all_is_held)
