/* SPDX-License-Identifier: Apache-2.0 */
/* librabbitmq with dead letters and bounded queues: what x-death says, retries, nacks of a full queue. */
#include "client/rabbitmq_c.h"

#include "lib/runner.h"

#include <stdio.h>
#include <string.h>

static void
ask_dead_letters_to(struct table *table, const char *queue)
{
	ask_text(table, "x-dead-letter-exchange", "");
	ask_text(table, "x-dead-letter-routing-key", queue);
}

static void
reject(amqp_connection_state_t conn, uint64_t tag)
{
	ck_assert_int_eq(amqp_basic_reject(conn, 1, tag, 0), AMQP_STATUS_OK);
}

/* ---- x-death ---- */

/* How often it died so; 0: it did not. */
static int64_t
deaths(const amqp_envelope_t *envelope, const char *queue, const char *reason)
{
	const amqp_array_t *array;

	if (!(envelope->message.properties._flags & AMQP_BASIC_HEADERS_FLAG))
		return 0;
	array = &field_of(headers_of(envelope), "x-death", AMQP_FIELD_KIND_ARRAY)->value.array;
	for (int i = 0; i < array->num_entries; i++) {
		const amqp_table_t *death = &array->entries[i].value.table;

		ck_assert_int_eq(array->entries[i].kind, AMQP_FIELD_KIND_TABLE);
		if (is_text(field_of(death, "queue", AMQP_FIELD_KIND_UTF8)->value.bytes, queue) &&
		    is_text(field_of(death, "reason", AMQP_FIELD_KIND_UTF8)->value.bytes, reason))
			return field_of(death, "count", AMQP_FIELD_KIND_I64)->value.i64;
	}
	return 0;
}

START_TEST(test_what_a_dead_letter_says)
{
	amqp_connection_state_t conn = connect_usual();
	struct table plain = {0}, lettered = {0};
	amqp_envelope_t envelope;
	const amqp_table_t *death;
	const amqp_array_t *keys;

	ask_dead_letters_to(&lettered, "rabbitmq-c.dead");
	declare_exclusive(conn, "rabbitmq-c.dead", &plain);
	declare_exclusive(conn, "rabbitmq-c.work", &lettered);
	consume(conn, 1, "rabbitmq-c.work", "work", false);
	publish(conn, 1, "", "rabbitmq-c.work", "job");
	reject(conn, await_body(conn, "job", false));
	consume(conn, 1, "rabbitmq-c.dead", "dead", true);
	await_delivery(conn, &envelope);
	ck_assert(is_text(envelope.message.body, "job"));
	ck_assert(is_text(envelope.routing_key, "rabbitmq-c.dead"));
	ck_assert_int_eq(deaths(&envelope, "rabbitmq-c.work", "rejected"), 1);
	death = &field_of(headers_of(&envelope), "x-death", AMQP_FIELD_KIND_ARRAY)
			 ->value.array.entries[0]
			 .value.table;
	ck_assert(is_text(field_of(death, "exchange", AMQP_FIELD_KIND_UTF8)->value.bytes, ""));
	ck_assert_uint_gt(field_of(death, "time", AMQP_FIELD_KIND_TIMESTAMP)->value.u64,
			  1000000000);
	keys = &field_of(death, "routing-keys", AMQP_FIELD_KIND_ARRAY)->value.array;
	ck_assert_int_eq(keys->num_entries, 1);
	ck_assert(is_text(keys->entries[0].value.bytes, "rabbitmq-c.work"));
	ck_assert(
		is_text(field_of(headers_of(&envelope), "x-first-death-queue", AMQP_FIELD_KIND_UTF8)
				->value.bytes,
			"rabbitmq-c.work"));
	amqp_destroy_envelope(&envelope);
	close_connection(conn);
}
END_TEST

/* Between two attempts the job goes through a queue that may hold nothing. */
START_TEST(test_attempts_are_counted)
{
	amqp_connection_state_t conn = connect_usual();
	struct table work = {0}, retry = {0};
	amqp_envelope_t envelope;

	ask_dead_letters_to(&work, "rabbitmq-c.retry");
	ask_dead_letters_to(&retry, "rabbitmq-c.work");
	ask_number(&retry, "x-max-length", 0);
	declare_exclusive(conn, "rabbitmq-c.work", &work);
	declare_exclusive(conn, "rabbitmq-c.retry", &retry);
	consume(conn, 1, "rabbitmq-c.work", "work", false);
	publish(conn, 1, "", "rabbitmq-c.work", "job");
	for (int attempt = 0; attempt < 5; attempt++) {
		await_delivery(conn, &envelope);
		ck_assert(!envelope.redelivered);
		ck_assert_int_eq(deaths(&envelope, "rabbitmq-c.work", "rejected"), attempt);
		ck_assert_int_eq(deaths(&envelope, "rabbitmq-c.retry", "maxlen"), attempt);
		reject(conn, envelope.delivery_tag);
		amqp_destroy_envelope(&envelope);
	}
	await_delivery(conn, &envelope);
	ck_assert_int_eq(amqp_basic_ack(conn, 1, envelope.delivery_tag, 0), AMQP_STATUS_OK);
	amqp_destroy_envelope(&envelope);
	await_ready(conn, 1, "rabbitmq-c.work", 0);
	close_connection(conn);
}
END_TEST

START_TEST(test_bounded_queue_keeps_the_newest)
{
	amqp_connection_state_t conn = connect_usual();
	struct table bounded = {0};
	char text[16];

	ask_number(&bounded, "x-max-length", 10);
	declare_exclusive(conn, "rabbitmq-c.bounded", &bounded);
	for (int i = 0; i < 1000; i++) {
		(void)snprintf(text, sizeof(text), "%d", i);
		publish(conn, 1, "", "rabbitmq-c.bounded", text);
	}
	await_ready(conn, 1, "rabbitmq-c.bounded", 10);
	for (int i = 990; i < 1000; i++) {
		(void)snprintf(text, sizeof(text), "%d", i);
		must_get(conn, 1, "rabbitmq-c.bounded", text);
	}
	must_get(conn, 1, "rabbitmq-c.bounded", NULL);
	close_connection(conn);
}
END_TEST

/* Each of the messages first to last is answered once, by ack up to full and by nack behind it. */
static void
await_answers(amqp_connection_state_t conn, uint64_t first, uint64_t full, uint64_t last)
{
	while (first <= last) {
		amqp_method_t method;
		bool acked = first <= full;
		uint64_t tag;
		bool multiple;

		await_method(conn, 1, acked ? AMQP_BASIC_ACK_METHOD : AMQP_BASIC_NACK_METHOD,
			     &method);
		tag = acked ? ((amqp_basic_ack_t *)method.decoded)->delivery_tag
			    : ((amqp_basic_nack_t *)method.decoded)->delivery_tag;
		multiple = acked ? ((amqp_basic_ack_t *)method.decoded)->multiple
				 : ((amqp_basic_nack_t *)method.decoded)->multiple;
		ck_assert_uint_ge(tag, first);
		ck_assert_uint_le(tag, acked ? full : last);
		ck_assert(multiple || tag == first);
		first = tag + 1;
	}
}

START_TEST(test_full_queue_nacks)
{
	amqp_connection_state_t conn = connect_usual();
	struct table full = {0};

	ask_number(&full, "x-max-length", 20);
	ask_text(&full, "x-overflow", "reject-publish");
	declare_exclusive(conn, "rabbitmq-c.full", &full);
	amqp_confirm_select(conn, 1);
	must(conn, "confirm.select");
	for (int i = 0; i < 50; i++)
		publish(conn, 1, "", "rabbitmq-c.full", "x");
	await_answers(conn, 1, 20, 50);
	for (int i = 0; i < 5; i++)
		must_get(conn, 1, "rabbitmq-c.full", "x");
	for (int i = 0; i < 10; i++)
		publish(conn, 1, "", "rabbitmq-c.full", "y");
	await_answers(conn, 51, 55, 60);
	ck_assert_uint_eq(ready_count(conn, 1, "rabbitmq-c.full"), 20);
	close_connection(conn);
}
END_TEST

BROKER_TESTS("rabbitmq-c limits", test_what_a_dead_letter_says, test_attempts_are_counted,
	     test_bounded_queue_keeps_the_newest, test_full_queue_nacks)
