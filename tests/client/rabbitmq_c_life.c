/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librabbitmq with what happens between publish and acknowledgement beside limits: expiry, priorities, delays, retries,
 * delivery limits, deduplication, groups, one active consumer, timeouts of consumers and of queues.
 */
#include "client/rabbitmq_c.h"

#include "lib/runner.h"

#include <string.h>
#include <unistd.h>

#define LOOK_US 20000

static void
publish_with_priority(amqp_connection_state_t conn, const char *queue, const char *text,
		      uint8_t priority)
{
	amqp_basic_properties_t properties = {._flags = AMQP_BASIC_PRIORITY_FLAG,
					      .priority = priority};

	publish_with(conn, "", queue, text, &properties);
}

static void
publish_with_headers(amqp_connection_state_t conn, const char *exchange, const char *key,
		     const char *text, struct table *headers)
{
	amqp_basic_properties_t properties = {._flags = AMQP_BASIC_HEADERS_FLAG,
					      .headers = {headers->n, headers->entries}};

	publish_with(conn, exchange, key, text, &properties);
}

static void
ack(amqp_connection_state_t conn, uint64_t tag)
{
	ck_assert_int_eq(amqp_basic_ack(conn, 1, tag, 0), AMQP_STATUS_OK);
}

static void
give_back(amqp_connection_state_t conn, uint64_t tag)
{
	ck_assert_int_eq(amqp_basic_nack(conn, 1, tag, 0, 1), AMQP_STATUS_OK);
}

/* Dead letters of the queue that is being asked for go to that one. */
static void
declare_with_dead_letters(amqp_connection_state_t conn, const char *name, struct table *asked)
{
	struct table plain = {0};

	declare_exclusive(conn, "rabbitmq-c.dead", &plain);
	ask_text(asked, "x-dead-letter-exchange", "");
	ask_text(asked, "x-dead-letter-routing-key", "rabbitmq-c.dead");
	declare_exclusive(conn, name, asked);
}

/* The next delivery is a dead letter with that body, which died of that. */
static void
await_dead(amqp_connection_state_t conn, const char *body, const char *reason)
{
	amqp_envelope_t envelope;

	consume(conn, 1, "rabbitmq-c.dead", "dead", true);
	await_delivery(conn, &envelope);
	ck_assert(is_text(envelope.message.body, body));
	ck_assert(is_text(
		field_of(headers_of(&envelope), "x-first-death-reason", AMQP_FIELD_KIND_UTF8)
			->value.bytes,
		reason));
	amqp_destroy_envelope(&envelope);
}

START_TEST(test_messages_expire_wherever_they_are)
{
	amqp_connection_state_t conn = connect_usual();
	amqp_basic_properties_t properties = {._flags = AMQP_BASIC_EXPIRATION_FLAG,
					      .expiration = amqp_cstring_bytes("50")};
	struct table asked = {0};

	declare_with_dead_letters(conn, "rabbitmq-c.expiring", &asked);
	publish(conn, 1, "", "rabbitmq-c.expiring", "first");
	publish_with(conn, "", "rabbitmq-c.expiring", "short", &properties);
	await_dead(conn, "short", "expired");
	must_get(conn, 1, "rabbitmq-c.expiring", "first");
	close_connection(conn);
}
END_TEST

START_TEST(test_limit_of_a_queue)
{
	amqp_connection_state_t conn = connect_usual();
	struct table asked = {0};

	ask_number(&asked, "x-message-ttl", 50);
	declare_with_dead_letters(conn, "rabbitmq-c.expiring", &asked);
	publish(conn, 1, "", "rabbitmq-c.expiring", "m");
	await_dead(conn, "m", "expired");
	close_connection(conn);
}
END_TEST

START_TEST(test_priorities)
{
	amqp_connection_state_t conn = connect_usual();
	struct table asked = {0};

	ask_number(&asked, "x-max-priority", 5);
	declare_exclusive(conn, "rabbitmq-c.levels", &asked);
	publish_with_priority(conn, "rabbitmq-c.levels", "low", 1);
	publish_with_priority(conn, "rabbitmq-c.levels", "high", 200);
	publish(conn, 1, "", "rabbitmq-c.levels", "none");
	publish_with_priority(conn, "rabbitmq-c.levels", "high too", 5);
	must_get(conn, 1, "rabbitmq-c.levels", "high");
	must_get(conn, 1, "rabbitmq-c.levels", "high too");
	must_get(conn, 1, "rabbitmq-c.levels", "low");
	must_get(conn, 1, "rabbitmq-c.levels", "none");
	must_get(conn, 1, "rabbitmq-c.levels", NULL);
	close_connection(conn);
}
END_TEST

/* An exchange of this type, which a queue of the same name is bound to. */
static void
declare_delayed(amqp_connection_state_t conn, const char *name)
{
	struct table plain = {0}, asked = {0};

	ask_text(&asked, "x-delayed-type", "fanout");
	amqp_exchange_declare(conn, 1, amqp_cstring_bytes(name),
			      amqp_cstring_bytes("x-delayed-message"), 0, 0, 1, 0,
			      (amqp_table_t){asked.n, asked.entries});
	must(conn, "exchange.declare");
	declare_exclusive(conn, name, &plain);
	amqp_queue_bind(conn, 1, amqp_cstring_bytes(name), amqp_cstring_bytes(name),
			amqp_empty_bytes, amqp_empty_table);
	must(conn, "queue.bind");
}

START_TEST(test_delays)
{
	amqp_connection_state_t conn = connect_usual();
	struct table late = {0}, later = {0};
	amqp_envelope_t envelope;

	ask_number(&later, "x-delay", 400);
	ask_number(&late, "x-delay", 200);
	declare_delayed(conn, "rabbitmq-c.delayed");
	consume(conn, 1, "rabbitmq-c.delayed", "c", true);
	publish_with_headers(conn, "rabbitmq-c.delayed", "", "later", &later);
	publish_with_headers(conn, "rabbitmq-c.delayed", "", "late", &late);
	publish(conn, 1, "rabbitmq-c.delayed", "", "now");
	await_body(conn, "now", false);
	await_delivery(conn, &envelope);
	ck_assert(is_text(envelope.message.body, "late"));
	ck_assert_int_eq(field_of(headers_of(&envelope), "x-delay", AMQP_FIELD_KIND_I32)->value.i32,
			 -200);
	amqp_destroy_envelope(&envelope);
	await_body(conn, "later", false);
	close_connection(conn);
}
END_TEST

START_TEST(test_retries)
{
	amqp_connection_state_t conn = connect_usual();
	struct table asked = {0};
	amqp_envelope_t envelope;

	ask_number(&asked, "x-retry-max", 2);
	ask_number(&asked, "x-retry-initial", 50);
	declare_with_dead_letters(conn, "rabbitmq-c.retried", &asked);
	consume(conn, 1, "rabbitmq-c.retried", "work", false);
	publish(conn, 1, "", "rabbitmq-c.retried", "job");
	give_back(conn, await_body(conn, "job", false));
	for (int64_t failures = 1; failures <= 2; failures++) {
		await_delivery(conn, &envelope);
		ck_assert_int_eq(
			field_of(headers_of(&envelope), "x-failure-count", AMQP_FIELD_KIND_I64)
				->value.i64,
			failures);
		give_back(conn, envelope.delivery_tag);
		amqp_destroy_envelope(&envelope);
	}
	await_dead(conn, "job", "delivery_limit");
	close_connection(conn);
}
END_TEST

START_TEST(test_delivery_limit)
{
	amqp_connection_state_t conn = connect_usual();
	struct table asked = {0};

	ask_number(&asked, "x-delivery-limit", 1);
	declare_with_dead_letters(conn, "rabbitmq-c.work", &asked);
	consume(conn, 1, "rabbitmq-c.work", "work", false);
	publish(conn, 1, "", "rabbitmq-c.work", "job");
	give_back(conn, await_body(conn, "job", false));
	give_back(conn, await_body(conn, "job", true));
	await_dead(conn, "job", "delivery_limit");
	close_connection(conn);
}
END_TEST

START_TEST(test_what_was_sent_before_is_dropped)
{
	amqp_connection_state_t conn = connect_usual();
	struct table asked = {0}, first = {0}, other = {0};

	ask_true(&asked, "x-message-deduplication");
	ask_text(&first, "x-deduplication-header", "a");
	ask_text(&other, "x-deduplication-header", "b");
	declare_exclusive(conn, "rabbitmq-c.known", &asked);
	for (int i = 0; i < 3; i++) {
		publish_with_headers(conn, "", "rabbitmq-c.known", "a", &first);
		publish_with_headers(conn, "", "rabbitmq-c.known", "b", &other);
	}
	await_ready(conn, 1, "rabbitmq-c.known", 2);
	must_get(conn, 1, "rabbitmq-c.known", "a");
	must_get(conn, 1, "rabbitmq-c.known", "b");
	publish_with_headers(conn, "", "rabbitmq-c.known", "a again", &first);
	must_get(conn, 1, "rabbitmq-c.known", "a again");
	close_connection(conn);
}
END_TEST

/* While one has a message of a key the others of that key are for nobody else. */
START_TEST(test_groups)
{
	amqp_connection_state_t conn = connect_usual();
	struct table asked = {0}, a = {0}, b = {0};
	amqp_envelope_t first, second;

	ask_text(&asked, "x-group-by", "customer");
	ask_text(&a, "customer", "a");
	ask_text(&b, "customer", "b");
	declare_exclusive(conn, "rabbitmq-c.groups", &asked);
	amqp_basic_qos(conn, 1, 0, 1, 0);
	must(conn, "basic.qos");
	consume(conn, 1, "rabbitmq-c.groups", "one", false);
	consume(conn, 1, "rabbitmq-c.groups", "two", false);
	publish_with_headers(conn, "", "rabbitmq-c.groups", "a1", &a);
	publish_with_headers(conn, "", "rabbitmq-c.groups", "a2", &a);
	publish_with_headers(conn, "", "rabbitmq-c.groups", "b1", &b);
	await_delivery(conn, &first);
	await_delivery(conn, &second);
	ck_assert(is_text(first.message.body, "a1"));
	ck_assert(is_text(second.message.body, "b1"));
	ck_assert_uint_eq(ready_count(conn, 1, "rabbitmq-c.groups"), 1);
	ack(conn, first.delivery_tag);
	amqp_destroy_envelope(&second);
	await_delivery(conn, &second);
	ck_assert(is_text(second.message.body, "a2"));
	amqp_destroy_envelope(&first);
	amqp_destroy_envelope(&second);
	close_connection(conn);
}
END_TEST

START_TEST(test_one_consumer_at_a_time)
{
	amqp_connection_state_t conn = connect_usual();
	struct table asked = {0};
	amqp_envelope_t envelope;

	ask_true(&asked, "x-single-active-consumer");
	declare_exclusive(conn, "rabbitmq-c.single", &asked);
	consume(conn, 1, "rabbitmq-c.single", "one", true);
	consume(conn, 1, "rabbitmq-c.single", "two", true);
	for (int i = 0; i < 4; i++) {
		if (i == 2) {
			amqp_basic_cancel(conn, 1, amqp_cstring_bytes("one"));
			must(conn, "basic.cancel");
		}
		publish(conn, 1, "", "rabbitmq-c.single", "m");
		await_delivery(conn, &envelope);
		ck_assert(is_text(envelope.consumer_tag, i < 2 ? "one" : "two"));
		amqp_destroy_envelope(&envelope);
	}
	close_connection(conn);
}
END_TEST

START_TEST(test_what_is_kept_too_long_comes_again)
{
	amqp_connection_state_t conn = connect_usual();
	struct table asked = {0};

	ask_number(&asked, "x-consumer-timeout", 100);
	declare_exclusive(conn, "rabbitmq-c.slow", &asked);
	consume(conn, 1, "rabbitmq-c.slow", "c", false);
	publish(conn, 1, "", "rabbitmq-c.slow", "m");
	await_body(conn, "m", false);
	ack(conn, await_body(conn, "m", true));
	close_connection(conn);
}
END_TEST

/* Looks as others do who do not know it: a passive declare would be a use. */
START_TEST(test_unused_queue_goes)
{
	amqp_connection_state_t conn = connect_usual();
	struct table asked = {0}, plain = {0};

	ask_number(&asked, "x-expires", 50);
	declare_exclusive(conn, "rabbitmq-c.unused", &asked);
	declare_exclusive(conn, "rabbitmq-c.other", &plain);
	amqp_confirm_select(conn, 1);
	must(conn, "confirm.select");
	for (bool is_there = true; is_there;) {
		amqp_frame_t frame;

		usleep(LOOK_US);
		ck_assert_int_eq(amqp_basic_publish(conn, 1, amqp_empty_bytes,
						    amqp_cstring_bytes("rabbitmq-c.unused"), 1, 0,
						    NULL, amqp_cstring_bytes("m")),
				 AMQP_STATUS_OK);
		ck_assert_int_eq(amqp_simple_wait_frame(conn, &frame), AMQP_STATUS_OK);
		ck_assert_int_eq(frame.frame_type, AMQP_FRAME_METHOD);
		is_there = frame.payload.method.id == AMQP_BASIC_ACK_METHOD;
	}
	close_connection(conn);
}
END_TEST

BROKER_TESTS("rabbitmq-c life", test_messages_expire_wherever_they_are, test_limit_of_a_queue,
	     test_priorities, test_delays, test_retries, test_delivery_limit,
	     test_what_was_sent_before_is_dropped, test_groups, test_one_consumer_at_a_time,
	     test_what_is_kept_too_long_comes_again, test_unused_queue_goes)
