/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message groups in durable queues longer than their window: what waits for its consumer is set aside beside
 * the window, which is read on for the others; what was set aside goes back to the disk and comes again in its
 * place.
 */
#include "broker/internal.h"
#include "unit/cold_fixture.h"
#include "wire/field.h"

#define LONG (3 * QUEUE_WINDOW_COUNT)
#define HOT 3 // each so manieth message has the key 0, the others have one of those from 1 on
#define KEYS 6
#define HELD_MAX (2 * LONG)

/* A consumer, and what it has not settled. */
struct eater {
	struct consumer *consumer;
	struct entry held[HELD_MAX];
	uint32_t held_n;
	uint32_t limit;
	uint32_t hot_n; // messages of key 0 that it took
};

static struct queue *q;
static struct eater hot, rest;
static uint32_t next_of[KEYS]; // the next message of each key
static uint32_t taken_n;
static uint32_t body_size = sizeof(uint32_t);

static uint32_t
key_of(uint32_t number)
{
	return number % HOT == 0 ? 0 : 1 + number % (KEYS - 1);
}

static void
declare(void)
{
	uint8_t octets[64];
	struct writer w = writer_of(octets, sizeof(octets));
	struct queue_spec spec = {.name = BYTES("work"), .durable = true};

	table_put_string(&w, BYTES("x-group-by"), BYTES("k"));
	spec.arguments = bytes_of(octets, (size_t)(w.p - octets));
	q = queue_create(vhost, &spec);
	memset(&hot, 0, sizeof(hot));
	memset(&rest, 0, sizeof(rest));
	taken_n = 0;
	for (uint32_t key = 0; key < KEYS; key++)
		for (next_of[key] = 0; key_of(next_of[key]) != key;)
			next_of[key]++;
}

static void
send(uint32_t number, bool persistent)
{
	struct queue *queues[] = {q};
	struct route route = {.queues = queues, .count = 1, .room = 1};
	uint8_t octets[64];
	uint8_t header[256];
	struct writer table = writer_of(octets, sizeof(octets));
	struct writer w = writer_of(header, sizeof(header));
	struct basic_properties properties = {.flags = PROPERTY_headers | PROPERTY_delivery_mode,
					      .delivery_mode = persistent ? 2 : 1};
	struct message *m;

	table_put_long(&table, BYTES("k"), key_of(number));
	properties.headers = bytes_of(octets, (size_t)(table.p - octets));
	content_header_encode(&properties, body_size, &w);
	ck_assert(!w.bad);
	m = message_new(BYTES(""), BYTES("work"), bytes_of(header, (size_t)(w.p - header)),
			body_size, persistent ? MESSAGE_PERSISTENT : 0);
	memset(message_body_room(m), 0, body_size);
	memcpy(message_body_room(m), &number, sizeof(number));
	queue_publish(broker, &route, m);
	message_unref(m);
	if (broker_store_full(broker))
		step_store();
}

static void
send_all(void)
{
	for (uint32_t i = 0; i < LONG; i++)
		send(i, i % 5 != 0);
	run_all();
}

/* In order within its key. */
static enum deliver_result
eat(struct consumer *consumer, const struct entry *entry)
{
	struct eater *eater = consumer->channel;
	uint32_t number;

	if (eater->held_n == eater->limit)
		return DELIVER_FULL;
	memcpy(&number, message_body(entry->message).p, sizeof(number));
	ck_assert_uint_eq(number, next_of[key_of(number)]);
	do
		next_of[key_of(number)]++;
	while (key_of(next_of[key_of(number)]) != key_of(number));
	eater->hot_n += key_of(number) == 0;
	eater->held[eater->held_n++] = *entry;
	taken_n++;
	return DELIVER_TOOK;
}

static void
eater_cancelled(struct consumer *consumer)
{
	struct eater *eater = consumer->channel;

	eater->consumer = NULL;
}

static const struct consumer_ops eater_ops = {eat, eater_cancelled};

static void
start(struct eater *eater, uint32_t limit)
{
	struct consumer_spec spec = {.tag = BYTES("e"), .ops = &eater_ops, .channel = eater};

	eater->limit = limit;
	eater->consumer = consumer_new(q, &spec);
	run_all();
	queue_check(q);
}

static void
ack_all(struct eater *eater)
{
	while (eater->held_n > 0)
		queue_ack(q, &eater->held[--eater->held_n]);
	if (eater->consumer != NULL)
		consumer_ready(eater->consumer);
}

static void
stop(struct eater *eater)
{
	consumer_cancel(eater->consumer);
	eater->consumer = NULL;
	ack_all(eater);
}

/* All are settled, in order, and none is left. */
static void
eat_all(void)
{
	while (taken_n < LONG) {
		uint32_t before = taken_n;

		ack_all(&hot);
		ack_all(&rest);
		run_all();
		queue_check(q);
		ck_assert_uint_gt(taken_n, before);
	}
	ack_all(&hot);
	ack_all(&rest);
	run_all();
	ck_assert_uint_eq(queue_message_count(q), 0);
}

START_TEST(test_others_are_read_past_a_key_that_waits)
{
	declare();
	send_all();
	start(&hot, 1);
	ck_assert_uint_eq(hot.hot_n, 1);
	start(&rest, 100);
	while (rest.held_n > 0) {
		ack_all(&rest);
		run_all();
		queue_check(q);
		ck_assert_uint_le(q->ready_count, 2 * QUEUE_WINDOW_COUNT);
	}
	ck_assert_uint_eq(rest.hot_n, 0);
	ck_assert_uint_eq(taken_n, LONG - LONG / HOT + 1);
	ck_assert_uint_eq(groups_aside(q).count, LONG / HOT - 1);
	hot.limit = 100;
	eat_all();
}
END_TEST

START_TEST(test_what_is_set_aside_goes_back_to_the_disk)
{
	declare();
	send_all();
	start(&hot, 1);
	start(&rest, 700);
	ck_assert_uint_gt(groups_aside(q).count, 100);
	stop(&rest);
	stop(&hot);
	pass_time(20000); // nobody wants anything of it
	ck_assert_uint_lt(q->ready_count, LONG / 4);
	ck_assert_uint_eq(groups_aside(q).count, 0);
	ck_assert_uint_eq(queue_message_count(q), LONG - taken_n);
	queue_check(q);
	start(&hot, 50);
	start(&rest, 50);
	eat_all();
}
END_TEST

START_TEST(test_a_restart_frees_all_keys)
{
	declare();
	for (uint32_t i = 0; i < LONG; i++)
		send(i, true);
	run_all();
	start(&hot, 1);
	start(&rest, 700);
	ck_assert_uint_gt(groups_aside(q).count, 100);
	stop(&rest);
	stop(&hot);
	restart(true);
	q = queue_find(vhost, BYTES("work"));
	ck_assert_uint_ne(q->flags & QUEUE_GROUPED, 0);
	ck_assert_uint_eq(queue_message_count(q), LONG - taken_n);
	start(&hot, 50);
	start(&rest, 50);
	eat_all();
}
END_TEST

/* Gets that find only what is for others say so, and have what follows read. */
START_TEST(test_get_comes_to_what_is_on_the_disk)
{
	struct entry entry;
	bool got = false;

	declare();
	for (uint32_t i = 0; i < QUEUE_WINDOW_COUNT; i++)
		send(0, true);
	for (uint32_t i = 0; i < QUEUE_WINDOW_COUNT; i++)
		send(1, true);
	run_all();
	start(&hot, 1);
	for (int i = 0; i < 10 && !got; i++) {
		got = queue_get(q, false, &entry);
		run_all();
	}
	ck_assert(got);
	ck_assert_int_eq(message_body(entry.message).p[0], 1);
	queue_ack(q, &entry);
	stop(&hot);
	queue_purge(q);
}
END_TEST

/* Transient messages whose bodies go to page files: what is set aside has its body. */
START_TEST(test_bodies_in_page_files)
{
	page_out_at = 0;
	restart(true);
	body_size = 5000;
	declare();
	for (uint32_t i = 0; i < LONG; i++) {
		send(i, false);
		if (i % 500 == 0)
			step_store();
	}
	run_all();
	ck_assert_uint_ne(q->flags & QUEUE_PAGED, 0);
	start(&hot, 1);
	start(&rest, 60);
	for (int i = 0; i < 5; i++) {
		ck_assert_uint_gt(rest.held_n, 0);
		ack_all(&rest);
		run_all();
		queue_check(q);
	}
	ck_assert_uint_gt(groups_aside(q).count, 50);
	ck_assert_uint_eq(rest.hot_n, 0);
	hot.limit = 100;
	eat_all();
	ck_assert_uint_gt(pages_in, 0);
}
END_TEST

TESTS_WITH("queue_groups_cold", cold_set_up, cold_tear_down,
	   test_others_are_read_past_a_key_that_waits, test_what_is_set_aside_goes_back_to_the_disk,
	   test_a_restart_frees_all_keys, test_get_comes_to_what_is_on_the_disk,
	   test_bodies_in_page_files)
