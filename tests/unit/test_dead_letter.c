/* SPDX-License-Identifier: Apache-2.0 */
/* Where dead messages go, and what they say of their deaths (amqp.md 9). */
#include "unit/life_fixture.h"

static struct queue *dead;

static void
set_up(void)
{
	life_set_up();
	dead = declare("dead");
}

/* The first of the queue, which is settled. The caller drops the reference. */
static struct message *
taken_from(struct queue *q)
{
	struct entry entry = take(q);
	struct message *m = message_ref(entry.message);

	queue_ack(q, &entry);
	return m;
}

/* A message with these properties dies in the queue as rejected; what came to "dead". */
static struct message *
rejected(struct queue *q, const struct basic_properties *properties)
{
	send_with(q, properties, "body");
	reject_first(q);
	return taken_from(dead);
}

START_TEST(test_without_an_exchange_it_is_gone)
{
	struct queue *q = declare("q");

	send(q, "a");
	reject_first(q);
	ck_assert_uint_eq(broker_message_count(broker), 0);
	ask_string("x-dead-letter-exchange", "not there");
	q = declare("r");
	send(q, "a");
	reject_first(q);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

START_TEST(test_what_it_says_of_its_death)
{
	static const char *const summary[] = {"x-first-death-", "x-last-death-"};
	struct message *m;
	struct bytes death;
	struct field keys;
	struct field key;
	struct field_iterator iterator;

	ask_dead_letters_to("dead");
	m = rejected(declare("q"), NULL);
	ck_assert(bytes_equal(message_body(m), BYTES("body")));
	ck_assert(bytes_equal(message_exchange(m), BYTES("")));
	ck_assert(bytes_equal(message_key(m), BYTES("dead")));
	expect_death(m, 0, "q", "rejected", 1);
	ck_assert_uint_eq(death_of(m, 1).n, 0);
	death = death_of(m, 0);
	expect_string(death, "exchange", "");
	expect_number(death, "time", 'T', 1700000000);
	ck_assert(!table_find(death, BYTES("original-expiration"), &keys));
	ck_assert(table_find(death, BYTES("routing-keys"), &keys));
	ck_assert_int_eq(keys.class, FIELD_ARRAY);
	iterator = array_iterate(keys.bytes);
	ck_assert(field_next(&iterator, &key));
	ck_assert(bytes_equal(key.bytes, BYTES("key")));
	ck_assert(!field_next(&iterator, &key));
	for (size_t i = 0; i < countof(summary); i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "%sreason", summary[i]);
		expect_string(headers_of(m), name, "rejected");
		(void)snprintf(name, sizeof(name), "%squeue", summary[i]);
		expect_string(headers_of(m), name, "q");
		(void)snprintf(name, sizeof(name), "%sexchange", summary[i]);
		expect_string(headers_of(m), name, "");
	}
	message_unref(m);
}
END_TEST

START_TEST(test_properties_stay_but_the_expiration)
{
	struct table headers;
	struct basic_properties properties = {
		.flags = PROPERTY_headers | PROPERTY_expiration | PROPERTY_priority |
			 PROPERTY_delivery_mode | PROPERTY_message_id | PROPERTY_timestamp |
			 PROPERTY_user_id,
		.expiration = BYTES("60000"),
		.priority = 3,
		.delivery_mode = 2,
		.message_id = BYTES("id"),
		.timestamp = 17,
		.user_id = BYTES("guest"),
	};
	struct basic_properties after;
	struct message *m;

	table_start(&headers);
	table_put_int(&headers.writer, BYTES("mine"), 7);
	properties.headers = table_view(&headers);
	ask_dead_letters_to("dead");
	m = rejected(declare("q"), &properties);
	after = properties_of(m);
	ck_assert_uint_eq(after.flags, properties.flags & ~PROPERTY_expiration);
	ck_assert_uint_eq(after.priority, 3);
	ck_assert_uint_eq(after.delivery_mode, 2);
	ck_assert(bytes_equal(after.message_id, BYTES("id")));
	ck_assert(bytes_equal(after.user_id, BYTES("guest")));
	ck_assert_uint_eq(after.timestamp, 17);
	expect_number(after.headers, "mine", 'I', 7);
	expect_string(death_of(m, 0), "original-expiration", "60000");
	message_unref(m);
}
END_TEST

START_TEST(test_its_own_keys_when_there_is_no_other)
{
	struct exchange *dlx = make_exchange("dlx", "direct");
	struct queue *more = declare("more");
	struct basic_properties properties = {.flags = PROPERTY_headers};
	struct message *m;
	struct table headers;
	uint8_t *cc;

	bind_queue(dlx, dead, "key", no_bytes());
	bind_queue(dlx, more, "copy", no_bytes());
	table_start(&headers);
	cc = array_begin(&headers.writer, BYTES("CC"));
	array_put_string(&headers.writer, BYTES("copy"));
	table_end(&headers.writer, cc);
	properties.headers = table_view(&headers);
	ask_string("x-dead-letter-exchange", "dlx");
	m = rejected(declare("q"), &properties);
	ck_assert(bytes_equal(message_exchange(m), BYTES("dlx")));
	ck_assert(bytes_equal(message_key(m), BYTES("key")));
	ck_assert_uint_eq(more->ready_count, 1);
	message_unref(m);
	/* the queue's key alone, when it has one; CC stays, and says nothing */
	ask_string("x-dead-letter-exchange", "dlx");
	ask_string("x-dead-letter-routing-key", "key");
	m = rejected(declare("r"), &properties);
	ck_assert_uint_eq(more->ready_count, 1);
	ck_assert_uint_gt(table_count(headers_of(m)), 7);
	message_unref(m);
}
END_TEST

/* The work queue rejects to a queue that sends back what it drops. */
START_TEST(test_deaths_are_counted)
{
	struct queue *work;
	struct queue *again;
	struct message *m;

	ask_dead_letters_to("again");
	work = declare("work");
	ask_dead_letters_to("work");
	ask_number("x-max-length", 0);
	again = declare("again");
	send(work, "x");
	for (int i = 0; i < 3; i++)
		reject_first(work);
	ck_assert_uint_eq(again->ready_count, 0);
	ck_assert_str_eq(bodies(work), "x");
	m = taken_from(work);
	expect_death(m, 0, "again", "maxlen", 3);
	expect_death(m, 1, "work", "rejected", 3);
	ck_assert_uint_eq(death_of(m, 2).n, 0);
	expect_string(headers_of(m), "x-first-death-queue", "work");
	expect_string(headers_of(m), "x-first-death-reason", "rejected");
	expect_string(headers_of(m), "x-last-death-queue", "again");
	expect_string(headers_of(m), "x-last-death-reason", "maxlen");
	expect_string(death_of(m, 1), "exchange", "");
	message_unref(m);
}
END_TEST

/* A message that died, as one that publishes it again would send it: its headers, which stand in table. */
static struct bytes
put_past(struct table *headers)
{
	struct writer *w = &headers->writer;
	uint8_t *array;
	uint8_t *table;

	table_start(headers);
	array = array_begin(w, BYTES("x-death"));
	array_put_string(w, BYTES("no table"));
	table = array_table_begin(w);
	table_put_string(w, BYTES("queue"), BYTES("q"));
	table_end(w, table);
	table = array_table_begin(w);
	table_put_long(w, BYTES("count"), 5);
	table_put_string(w, BYTES("queue"), BYTES("other"));
	table_put_string(w, BYTES("reason"), BYTES("expired"));
	table_end(w, table);
	table = array_table_begin(w);
	table_put_string(w, BYTES("reason"), BYTES("rejected"));
	table_put_string(w, BYTES("queue"), BYTES("q"));
	table_put_long(w, BYTES("count"), 41);
	table_put_string(w, BYTES("exchange"), BYTES("the first"));
	table_end(w, table);
	table_end(w, array);
	table_put_string(w, BYTES("x-first-death-queue"), BYTES("other"));
	table_put_string(w, BYTES("x-first-death-reason"), BYTES("expired"));
	table_put_string(w, BYTES("x-first-death-exchange"), BYTES("news"));
	return table_view(headers);
}

/* One that publishes a message again with its history counts on (3.13). */
START_TEST(test_history_of_a_publisher_goes_on)
{
	struct basic_properties properties = {.flags = PROPERTY_headers};
	struct table headers;
	struct message *m;

	properties.headers = put_past(&headers);
	ask_dead_letters_to("dead");
	m = rejected(declare("q"), &properties);
	expect_death(m, 0, "q", "rejected", 42);
	expect_string(death_of(m, 0), "exchange", "the first");
	expect_death(m, 1, "other", "expired", 5);
	ck_assert_uint_eq(death_of(m, 2).n, 0);
	expect_string(headers_of(m), "x-first-death-queue", "other");
	message_unref(m);
}
END_TEST

/* As on 4.x: what a publisher says of deaths is replaced, what was written here is counted on. */
START_TEST(test_history_of_a_publisher_is_data)
{
	struct basic_properties properties = {.flags = PROPERTY_headers};
	struct table headers;
	struct message *m;
	struct queue *work;

	broker->options.client_deaths_are_data = true;
	properties.headers = put_past(&headers);
	ask_dead_letters_to("again");
	work = declare("q");
	ask_dead_letters_to("q");
	ask_number("x-max-length", 0);
	declare("again");
	send_with(work, &properties, "x");
	for (int i = 1; i < 4; i++) {
		reject_first(work);
		m = message_ref(window_first(work)->message);
		expect_death(m, 0, "again", "maxlen", i);
		expect_death(m, 1, "q", "rejected", i);
		ck_assert_uint_eq(death_of(m, 2).n, 0);
		expect_string(headers_of(m), "x-first-death-queue", "q");
		expect_string(headers_of(m), "x-first-death-reason", "rejected");
		expect_string(headers_of(m), "x-first-death-exchange", "");
		expect_string(headers_of(m), "x-last-death-queue", "again");
		ck_assert_uint_eq(table_count(headers_of(m)), 7);
		message_unref(m);
	}
}
END_TEST

/* A publisher's word keeps no message from going on, or from being one that goes round. */
START_TEST(test_history_of_a_publisher_makes_no_cycle)
{
	struct basic_properties properties = {.flags = PROPERTY_headers};
	struct table headers;
	struct queue *q;

	for (int data = 0; data < 2; data++) {
		uint8_t *array;
		uint8_t *table;

		table_start(&headers);
		array = array_begin(&headers.writer, BYTES("x-death"));
		table = array_table_begin(&headers.writer);
		table_put_string(&headers.writer, BYTES("queue"), BYTES("dead"));
		table_put_string(&headers.writer, BYTES("reason"), BYTES("expired"));
		table_put_long(&headers.writer, BYTES("count"), 1);
		table_end(&headers.writer, table);
		table_end(&headers.writer, array);
		properties.headers = table_view(&headers);
		broker->options.client_deaths_are_data = data;
		ask_dead_letters_to("dead");
		ask_number("x-max-length", 0);
		q = declare(data ? "q" : "r");
		send_with(q, &properties, "x");
		ck_assert_uint_eq(q->ready_count, 0);
		ck_assert_uint_eq(dead->ready_count, data);
	}
}
END_TEST

START_TEST(test_history_that_is_none_is_replaced)
{
	struct basic_properties properties = {.flags = PROPERTY_headers};
	struct table headers;
	struct message *m;

	table_start(&headers);
	table_put_string(&headers.writer, BYTES("x-death"), BYTES("nonsense"));
	table_put_string(&headers.writer, BYTES("x-first-death-queue"), BYTES("stays"));
	table_put_string(&headers.writer, BYTES("x-first-death-reason"), BYTES("stays"));
	properties.headers = table_view(&headers);
	ask_dead_letters_to("dead");
	m = rejected(declare("q"), &properties);
	expect_death(m, 0, "q", "rejected", 1);
	ck_assert_uint_eq(death_of(m, 1).n, 0);
	expect_string(headers_of(m), "x-first-death-reason", "stays");
	expect_string(headers_of(m), "x-last-death-reason", "rejected");
	message_unref(m);
}
END_TEST

START_TEST(test_through_exchanges_and_alternates)
{
	struct exchange *dlx = make_with_alternate("dlx", "direct", "rest");
	struct exchange *rest = make_exchange("rest", "fanout");
	struct exchange *far = make_exchange("far", "topic");

	(void)dlx;
	bind_exchange(rest, far, "");
	bind_queue(far, dead, "#", no_bytes());
	ask_string("x-dead-letter-exchange", "dlx");
	message_unref(rejected(declare("q"), NULL));
}
END_TEST

START_TEST(test_rejected_ones_may_come_back_to_their_queue)
{
	struct queue *q;
	struct message *m;

	ask_dead_letters_to("q");
	q = declare("q");
	send(q, "x");
	for (int i = 0; i < 4; i++)
		reject_first(q);
	m = taken_from(q);
	expect_death(m, 0, "q", "rejected", 4);
	message_unref(m);
}
END_TEST

START_TEST(test_order_is_that_of_death)
{
	struct queue *q;

	ask_dead_letters_to("dead");
	q = declare("q");
	send(q, "a");
	send(q, "b");
	send(q, "c");
	reject_first(q);
	reject_first(q);
	reject_first(q);
	ck_assert_str_eq(bodies(dead), "a b c");
}
END_TEST

START_TEST(test_purge_and_deletion_are_no_deaths)
{
	struct queue *q;
	struct entry entry;

	ask_dead_letters_to("dead");
	q = declare("q");
	send(q, "a");
	send(q, "b");
	send(q, "c");
	entry = take(q);
	queue_purge(q);
	queue_ref(q);
	queue_delete(q);
	queue_reject(q, &entry);
	queue_unref(q);
	broker_reap(broker);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

/* As large as names may be. */
START_TEST(test_longest_names)
{
	struct basic_properties properties = {.flags = PROPERTY_expiration,
					      .expiration = BYTES("315360000000")};
	char name[256];
	char key[256];
	struct message *m;
	struct queue *q;

	memset(name, 'n', 255);
	name[255] = '\0';
	memset(key, 'k', 255);
	key[255] = '\0';
	bind_queue(make_exchange(name, "fanout"), dead, "", no_bytes());
	ask_string("x-dead-letter-exchange", name);
	ask_string("x-dead-letter-routing-key", key);
	q = declare(name);
	m = rejected(q, &properties);
	expect_death(m, 0, name, "rejected", 1);
	ck_assert(bytes_equal(message_key(m), bytes_str(key)));
	message_unref(m);
}
END_TEST

TESTS_WITH("dead_letter", set_up, model_tear_down, test_without_an_exchange_it_is_gone,
	   test_what_it_says_of_its_death, test_properties_stay_but_the_expiration,
	   test_its_own_keys_when_there_is_no_other, test_deaths_are_counted,
	   test_history_of_a_publisher_goes_on, test_history_of_a_publisher_is_data,
	   test_history_of_a_publisher_makes_no_cycle, test_history_that_is_none_is_replaced,
	   test_through_exchanges_and_alternates, test_rejected_ones_may_come_back_to_their_queue,
	   test_order_is_that_of_death, test_purge_and_deletion_are_no_deaths, test_longest_names)
