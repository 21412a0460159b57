/* SPDX-License-Identifier: Apache-2.0 */
/* librabbitmq as a publisher: confirms, returns, bodies and properties, the exchanges, counts. */
#include "client/rabbitmq_c.h"

#include "lib/runner.h"

#include <string.h>

/* What publish_full() gives beyond exchange, key and text. */
struct extras {
	const amqp_basic_properties_t *properties; // or NULL
	bool mandatory;				   // unroutable ones come back
};

static void
publish_full(amqp_connection_state_t conn, const char *exchange, const char *key, amqp_bytes_t body,
	     struct extras extras)
{
	int status =
		amqp_basic_publish(conn, 1, amqp_cstring_bytes(exchange), amqp_cstring_bytes(key),
				   extras.mandatory, 0, extras.properties, body);

	ck_assert_int_eq(status, AMQP_STATUS_OK);
}

static void
bind_with(amqp_connection_state_t conn, const char *queue, const char *exchange, const char *key,
	  amqp_table_t arguments)
{
	amqp_queue_bind(conn, 1, amqp_cstring_bytes(queue), amqp_cstring_bytes(exchange),
			amqp_cstring_bytes(key), arguments);
	must(conn, "queue.bind");
}

static void
bind(amqp_connection_state_t conn, const char *queue, const char *exchange, const char *key)
{
	bind_with(conn, queue, exchange, key, amqp_empty_table);
}

START_TEST(test_server_named_queues_are_all_different)
{
	amqp_connection_state_t conn = connect_usual();
	char one[256], two[256];

	temporary_queue(conn, 1, one);
	temporary_queue(conn, 1, two);
	ck_assert_int_eq(strncmp(one, "amq.gen-", 8), 0);
	ck_assert_str_ne(one, two);
	close_connection(conn);
}
END_TEST

/* Awaits acks until they cover all up to last; each tag is confirmed once. */
static void
await_acks(amqp_connection_state_t conn, uint64_t first, uint64_t last)
{
	while (first <= last) {
		amqp_method_t method;
		await_method(conn, 1, AMQP_BASIC_ACK_METHOD, &method);
		amqp_basic_ack_t *ack = method.decoded;
		ck_assert_uint_ge(ack->delivery_tag, first);
		ck_assert_uint_le(ack->delivery_tag, last);
		if (!ack->multiple)
			ck_assert_uint_eq(ack->delivery_tag, first);
		first = ack->delivery_tag + 1;
	}
}

START_TEST(test_confirms_cover_every_message_once)
{
	amqp_connection_state_t conn = connect_usual();
	char queue[256];

	temporary_queue(conn, 1, queue);
	amqp_confirm_select(conn, 1);
	must(conn, "confirm.select");
	for (int i = 0; i < 1000; i++)
		publish(conn, 1, "", queue, "x");
	await_acks(conn, 1, 1000);
	ck_assert_uint_eq(ready_count(conn, 1, queue), 1000);
	publish(conn, 1, "", "rabbitmq-c.nowhere", "unroutable, and confirmed all the same");
	await_acks(conn, 1001, 1001);
	close_connection(conn);
}
END_TEST

START_TEST(test_mandatory_message_returns_before_its_confirm)
{
	amqp_connection_state_t conn = connect_usual();
	amqp_basic_properties_t properties = {._flags = AMQP_BASIC_MESSAGE_ID_FLAG};
	amqp_method_t method;
	amqp_message_t message;

	properties.message_id = amqp_cstring_bytes("m1");
	amqp_confirm_select(conn, 1);
	must(conn, "confirm.select");
	publish_full(conn, "amq.direct", "nowhere", amqp_cstring_bytes("back"),
		     (struct extras){.properties = &properties, .mandatory = true});
	await_method(conn, 1, AMQP_BASIC_RETURN_METHOD, &method);
	amqp_basic_return_t *returned = method.decoded;
	ck_assert_int_eq(returned->reply_code, AMQP_NO_ROUTE);
	ck_assert_mem_eq(returned->reply_text.bytes, "NO_ROUTE", returned->reply_text.len);
	ck_assert_mem_eq(returned->routing_key.bytes, "nowhere", returned->routing_key.len);
	amqp_rpc_reply_t reply = amqp_read_message(conn, 1, &message, 0);
	ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_NORMAL);
	ck_assert_mem_eq(message.body.bytes, "back", 4);
	ck_assert_mem_eq(message.properties.message_id.bytes, "m1", 2);
	amqp_destroy_message(&message);
	await_acks(conn, 1, 1);
	close_connection(conn);
}
END_TEST

/* With frames of 4,096 octets these are none, one, one full, two and many body frames. */
START_TEST(test_bodies_arrive_whole)
{
	static const size_t sizes[] = {0, 1, 4088, 4089, 8176, 8177, 1000000};
	static char octets[1000000];
	amqp_connection_state_t conn = connect_with(&(struct login){.frame_max = 4096});
	char queue[256];

	for (size_t i = 0; i < sizeof octets; i++)
		octets[i] = (char)(i * 7 >> 3);
	temporary_queue(conn, 1, queue);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		publish_full(conn, "", queue, (amqp_bytes_t){.len = sizes[i], .bytes = octets},
			     (struct extras){0});
	consume(conn, 1, queue, "", true);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		amqp_envelope_t envelope;
		await_delivery(conn, &envelope);
		ck_assert_uint_eq(envelope.message.body.len, sizes[i]);
		ck_assert(!sizes[i] || memcmp(envelope.message.body.bytes, octets, sizes[i]) == 0);
		amqp_destroy_envelope(&envelope);
	}
	close_connection(conn);
}
END_TEST

START_TEST(test_properties_arrive_unchanged)
{
	amqp_connection_state_t conn = connect_usual();
	amqp_table_entry_t inner = {.key = amqp_cstring_bytes("deep"),
				    .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = -5}};
	amqp_table_entry_t outer = {
		.key = amqp_cstring_bytes("table"),
		.value = {.kind = AMQP_FIELD_KIND_TABLE, .value.table = {1, &inner}}};
	amqp_basic_properties_t sent = {
		._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG |
			  AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_PRIORITY_FLAG |
			  AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_USER_ID_FLAG,
		.headers = {1, &outer},
		.delivery_mode = AMQP_DELIVERY_PERSISTENT,
		.priority = 9,
		.timestamp = 1700000000,
	};
	amqp_envelope_t envelope;
	char queue[256];

	sent.content_type = amqp_cstring_bytes("text/plain");
	sent.user_id = amqp_cstring_bytes("guest");
	temporary_queue(conn, 1, queue);
	publish_full(conn, "", queue, amqp_cstring_bytes("b"),
		     (struct extras){.properties = &sent});
	consume(conn, 1, queue, "", true);
	await_delivery(conn, &envelope);
	const amqp_basic_properties_t *got = &envelope.message.properties;
	ck_assert_uint_eq(got->_flags, sent._flags);
	ck_assert_uint_eq(got->delivery_mode, 2);
	ck_assert_uint_eq(got->priority, 9);
	ck_assert_uint_eq(got->timestamp, 1700000000);
	ck_assert_mem_eq(got->content_type.bytes, "text/plain", got->content_type.len);
	ck_assert_int_eq(got->headers.num_entries, 1);
	const amqp_table_t *table = &got->headers.entries[0].value.value.table;
	ck_assert_int_eq(table->num_entries, 1);
	ck_assert_int_eq(table->entries[0].value.value.i64, -5);
	amqp_destroy_envelope(&envelope);
	close_connection(conn);
}
END_TEST

START_TEST(test_direct_fanout_and_topic_route)
{
	amqp_connection_state_t conn = connect_usual();
	char one[256], two[256];

	temporary_queue(conn, 1, one);
	temporary_queue(conn, 1, two);
	bind(conn, one, "amq.direct", "rabbitmq-c.k");
	publish(conn, 1, "amq.direct", "rabbitmq-c.k", "direct");
	publish(conn, 1, "amq.direct", "rabbitmq-c.other", "lost");
	must_get(conn, 1, one, "direct");
	must_get(conn, 1, one, NULL);

	bind(conn, one, "amq.fanout", "");
	bind(conn, two, "amq.fanout", "");
	publish(conn, 1, "amq.fanout", "any", "fanout");
	must_get(conn, 1, one, "fanout");
	must_get(conn, 1, two, "fanout");

	bind(conn, one, "amq.topic", "a.*.c");
	bind(conn, two, "amq.topic", "#.c");
	publish(conn, 1, "amq.topic", "a.b.c", "both");
	publish(conn, 1, "amq.topic", "c", "two");
	publish(conn, 1, "amq.topic", "a.b", "none");
	must_get(conn, 1, one, "both");
	must_get(conn, 1, one, NULL);
	must_get(conn, 1, two, "both");
	must_get(conn, 1, two, "two");
	must_get(conn, 1, two, NULL);
	close_connection(conn);
}
END_TEST

static amqp_table_entry_t
text_entry(const char *key, const char *value)
{
	amqp_table_entry_t entry = {.key = amqp_cstring_bytes(key),
				    .value = {.kind = AMQP_FIELD_KIND_UTF8}};

	entry.value.value.bytes = amqp_cstring_bytes(value);
	return entry;
}

START_TEST(test_headers_route)
{
	amqp_connection_state_t conn = connect_usual();
	amqp_table_entry_t all[] = {text_entry("x-match", "all"), text_entry("a", "1"),
				    text_entry("b", "2")};
	amqp_table_entry_t any[] = {text_entry("x-match", "any"), text_entry("a", "1"),
				    text_entry("b", "2")};
	amqp_table_entry_t sent[] = {text_entry("b", "2"), text_entry("a", "1")};
	amqp_basic_properties_t properties = {._flags = AMQP_BASIC_HEADERS_FLAG};
	char every[256], some[256];

	temporary_queue(conn, 1, every);
	temporary_queue(conn, 1, some);
	bind_with(conn, every, "amq.headers", "", (amqp_table_t){3, all});
	bind_with(conn, some, "amq.headers", "", (amqp_table_t){3, any});
	properties.headers = (amqp_table_t){1, sent};
	publish_full(conn, "amq.headers", "", amqp_cstring_bytes("b"),
		     (struct extras){.properties = &properties});
	properties.headers = (amqp_table_t){2, sent};
	publish_full(conn, "amq.headers", "", amqp_cstring_bytes("ab"),
		     (struct extras){.properties = &properties});
	publish(conn, 1, "amq.headers", "", "none");
	must_get(conn, 1, every, "ab");
	must_get(conn, 1, every, NULL);
	must_get(conn, 1, some, "b");
	must_get(conn, 1, some, "ab");
	must_get(conn, 1, some, NULL);
	close_connection(conn);
}
END_TEST

START_TEST(test_exchange_to_exchange)
{
	amqp_connection_state_t conn = connect_usual();
	amqp_bytes_t exchange = amqp_cstring_bytes("rabbitmq-c.e2e");
	char queue[256];

	temporary_queue(conn, 1, queue);
	amqp_exchange_declare(conn, 1, exchange, amqp_cstring_bytes("fanout"), 0, 0, 0, 1,
			      amqp_empty_table);
	must(conn, "exchange.declare");
	bind(conn, queue, "rabbitmq-c.e2e", "");
	amqp_exchange_bind(conn, 1, exchange, amqp_cstring_bytes("amq.topic"),
			   amqp_cstring_bytes("e2e.#"), amqp_empty_table);
	must(conn, "exchange.bind");
	publish(conn, 1, "amq.topic", "e2e.x", "through");
	must_get(conn, 1, queue, "through");
	amqp_exchange_unbind(conn, 1, exchange, amqp_cstring_bytes("amq.topic"),
			     amqp_cstring_bytes("e2e.#"), amqp_empty_table);
	must(conn, "exchange.unbind");
	publish(conn, 1, "amq.topic", "e2e.x", "no more");
	must_get(conn, 1, queue, NULL);
	amqp_exchange_delete(conn, 1, exchange, 0);
	must(conn, "exchange.delete");
	close_connection(conn);
}
END_TEST

START_TEST(test_purge_and_delete_count)
{
	amqp_connection_state_t conn = connect_usual();
	amqp_bytes_t queue = amqp_cstring_bytes("rabbitmq-c.counts");

	amqp_queue_delete(conn, 1, queue, 0, 0);
	must(conn, "queue.delete of what is not there");
	amqp_queue_declare(conn, 1, queue, 0, 0, 0, 0, amqp_empty_table);
	must(conn, "queue.declare");
	publish_numbers(conn, 1, "rabbitmq-c.counts", 7);
	amqp_queue_purge_ok_t *purged = amqp_queue_purge(conn, 1, queue);
	must(conn, "queue.purge");
	ck_assert_uint_eq(purged->message_count, 7);
	publish_numbers(conn, 1, "rabbitmq-c.counts", 3);
	amqp_queue_delete_ok_t *deleted = amqp_queue_delete(conn, 1, queue, 0, 0);
	must(conn, "queue.delete");
	ck_assert_uint_eq(deleted->message_count, 3);
	close_connection(conn);
}
END_TEST

BROKER_TESTS("rabbitmq-c publish", test_server_named_queues_are_all_different,
	     test_confirms_cover_every_message_once,
	     test_mandatory_message_returns_before_its_confirm, test_bodies_arrive_whole,
	     test_properties_arrive_unchanged, test_direct_fanout_and_topic_route,
	     test_headers_route, test_exchange_to_exchange, test_purge_and_delete_count)
