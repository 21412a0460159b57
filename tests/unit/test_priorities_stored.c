/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels of priority on the disk: what is dropped or expires there, and what a consumer gets of it. (Order over
 * restarts: test_queue_cold_random.)
 */
#include "broker/internal.h"
#include "broker/retry.h"
#include "unit/cold_fixture.h"

#define LEVELS 4
#define EACH (2 * QUEUE_WINDOW_COUNT)

static struct queue *
declare(const char *name, int priority_max, const char *limit, int64_t value)
{
	uint8_t room[256];
	struct writer w = writer_of(room, sizeof(room));
	struct queue_spec spec = {.name = bytes_str(name), .durable = true};

	if (priority_max > 0)
		table_put_long(&w, BYTES("x-max-priority"), priority_max);
	if (limit != NULL) {
		table_put_long(&w, bytes_str(limit), value);
		table_put_string(&w, BYTES("x-dead-letter-exchange"), BYTES(""));
		table_put_string(&w, BYTES("x-dead-letter-routing-key"), BYTES("dead"));
	}
	ck_assert(!w.bad);
	spec.arguments = bytes_of(room, (size_t)(w.p - room));
	return queue_create(vhost, &spec);
}

static uint8_t
priority_in_turn(uint32_t id)
{
	return (uint8_t)(id % LEVELS);
}

static void
set_up(void)
{
	cold_set_up();
	priority_of = priority_in_turn;
	next_id = 0;
}

/* As the session does: who is behind waits. */
static void
send(struct queue *q, uint32_t n)
{
	struct route to = {.queues = &q, .count = 1, .room = 1};

	while (n-- > 0) {
		struct message *m = make_message(next_id++, 50, true);

		queue_publish(broker, &to, m);
		message_unref(m);
		while (queue_is_behind(q) || broker_store_full(broker)) {
			step_store();
			pass_time(2);
		}
	}
}

static uint32_t
number_of(const struct message *m)
{
	struct basic_properties properties;
	char id[16] = "";
	bool well = properties_decode(&properties, message_properties(m));

	ck_assert(well);
	memcpy(id, properties.message_id.p, properties.message_id.n);
	return (uint32_t)strtoul(id + 2, NULL, 10);
}

/* Takes the first one for good; UINT32_MAX: there is none. */
static uint32_t
take(struct queue *q)
{
	struct entry entry;
	uint32_t number;

	while (!queue_may_deliver(q))
		step_store();
	while (queue_must_read(q)) {
		queue_refill(q);
		step_store();
		dispatch();
	}
	if (queue_get(q, true, &entry) == NULL)
		return UINT32_MAX;
	number = number_of(entry.message);
	message_unref(entry.message);
	return number;
}

/* The highest level is dropped first, though it must be read for that. */
START_TEST(test_limits_drop_from_the_highest_level_on_the_disk)
{
	struct queue *dead = declare("dead", 0, NULL, 0);
	struct queue *q = declare("q", LEVELS - 1, "x-max-length", EACH);
	uint32_t last[LEVELS] = {0};

	send(q, LEVELS * EACH);
	run_all_due();
	ck_assert_uint_eq(queue_message_count(q), EACH);
	ck_assert_uint_eq(queue_message_count(dead), (LEVELS - 1) * EACH);
	for (uint32_t i = 0; i < EACH; i++)
		ck_assert_uint_eq(take(q), i * LEVELS);
	/* each level in its order */
	for (uint32_t number; (number = take(dead)) != UINT32_MAX;) {
		ck_assert_uint_ne(number % LEVELS, 0);
		ck_assert_uint_ge(number, last[number % LEVELS]);
		last[number % LEVELS] = number;
	}
	run_all();
}
END_TEST

/* Over a restart, after which nobody knows when they came. */
START_TEST(test_all_levels_expire_on_the_disk)
{
	const uint32_t n = LEVELS * EACH;

	declare("dead", 0, NULL, 0);
	send(declare("q", LEVELS - 1, "x-message-ttl", 20000), n);
	run_all();
	for (int clean = 0; clean < 2; clean++) {
		restart(clean);
		ck_assert_uint_eq(queue_message_count(queue_find(vhost, BYTES("q"))), n);
	}
	for (int i = 0; i < 300; i++) {
		pass_time(200);
		run_all();
	}
	ck_assert_uint_eq(queue_message_count(queue_find(vhost, BYTES("q"))), 0);
	ck_assert_uint_eq(queue_message_count(queue_find(vhost, BYTES("dead"))), n);
}
END_TEST

START_TEST(test_a_deleted_queue_leaves_nothing)
{
	struct queue *q = declare("q", LEVELS - 1, NULL, 0);

	send(q, LEVELS * EACH);
	run_all();
	ck_assert_uint_eq(queue_delete(q), LEVELS * EACH);
	run_all();
	restart(false);
	ck_assert_uint_eq(broker_message_count(broker), 0);
	q = declare("q", LEVELS - 1, NULL, 0);
	ck_assert_uint_eq(q->life->parts.count, 0);
	send(q, 2 * LEVELS);
	run_all();
	restart(false);
	q = queue_find(vhost, BYTES("q"));
	for (uint32_t level = LEVELS; level > 0; level--) {
		ck_assert_uint_eq(take(q) % LEVELS, level - 1);
		ck_assert_uint_eq(take(q) % LEVELS, level - 1);
	}
}
END_TEST

/* A level that is made while somebody waits: what comes on it is known to be delivered before it is. */
START_TEST(test_a_new_level_has_the_gate_of_its_queue)
{
	struct listed *list = &lists[0];

	cancel(list);
	delete_queue(list);
	list->priority_max = LEVELS - 1;
	make_queue(list, true);
	consume(list, 100, false);
	run_all();
	next_id = LEVELS; // of level 0
	publish(list, 10, true);
	dispatch();
	ck_assert_uint_eq(list->taken, 1);
	next_id += LEVELS - 2;
	publish(list, 10, true);
	dispatch();
	ck_assert_uint_eq(list->taken, 1);
	run_all();
	ck_assert_uint_eq(list->taken, 2);
	/* delivered, maybe: it is so after a crash */
	list->items[0].maybe = list->items[1].maybe = false;
	restart(false);
	ck_assert(get(list, false));
	ck_assert(list->held[0].entry.bits & ENTRY_REDELIVERED);
	ck_assert(get(list, false));
	ck_assert(list->held[1].entry.bits & ENTRY_REDELIVERED);
}
END_TEST

/* What failed comes back to its level, also after a restart in between. */
START_TEST(test_retries_over_restarts)
{
	uint8_t room[256];
	struct writer w = writer_of(room, sizeof(room));
	struct queue_spec spec = {.name = BYTES("q"), .durable = true};
	struct queue *q;
	static const uint32_t order[] = {3, 7, 2, 6, 1, 5, 0, 4};

	table_put_long(&w, BYTES("x-max-priority"), LEVELS - 1);
	table_put_long(&w, BYTES("x-retry-max"), 3);
	table_put_long(&w, BYTES("x-retry-initial"), 60000);
	table_put_long(&w, BYTES("x-retry-jitter"), 0);
	spec.arguments = bytes_of(room, (size_t)(w.p - room));
	q = queue_create(vhost, &spec);
	send(q, 2 * LEVELS);
	run_all();
	for (int clean = 0; clean < 2; clean++) {
		struct entry entry;
		struct queue *from;

		while (!queue_may_deliver(q) || queue_must_read(q)) {
			queue_refill(q);
			step_store();
		}
		from = queue_get(q, false, &entry);
		ck_assert_uint_eq(number_of(entry.message) % LEVELS, LEVELS - 1);
		queue_fail(from, &entry);
		ck_assert_uint_eq(queue_message_count(q), 2 * LEVELS - 1);
		run_all();
		restart(clean != 0);
		q = queue_find(vhost, BYTES("q"));
		ck_assert_uint_eq(queue_message_count(q), 2 * LEVELS - 1);
		pass_time(60000);
		run_all_due();
		ck_assert_uint_eq(queue_message_count(q), 2 * LEVELS);
	}
	/* 3 failed first, and then 7 */
	for (size_t i = 0; i < countof(order); i++)
		ck_assert_uint_eq(take(q), order[i]);
	ck_assert_uint_eq(take(q), UINT32_MAX);
}
END_TEST

/* ---- with deduplication ---- */

/* A message with this key; whether the queue did not know it. */
static bool
send_key(struct queue *q, uint32_t key, uint8_t priority)
{
	struct route to = {.queues = &q, .count = 1, .room = 1};
	uint64_t before = queue_message_count(q);
	uint8_t table[128];
	uint8_t header[256];
	struct writer w = writer_of(table, sizeof(table));
	struct basic_properties properties = {.flags = PROPERTY_headers | PROPERTY_delivery_mode |
						       PROPERTY_priority,
					      .delivery_mode = 2,
					      .priority = priority};
	struct message *m;

	table_put_long(&w, BYTES("x-deduplication-header"), key);
	properties.headers = bytes_of(table, (size_t)(w.p - table));
	w = writer_of(header, sizeof(header));
	content_header_encode(&properties, 0, &w);
	ck_assert(!w.bad);
	m = message_new(BYTES(""), BYTES("q"), bytes_of(header, (size_t)(w.p - header)), 0,
			MESSAGE_PERSISTENT);
	queue_publish(broker, &to, m);
	message_unref(m);
	if (broker_store_full(broker))
		step_store();
	return queue_message_count(q) > before;
}

/* Which level a message is on is a part of what is kept of its key. */
START_TEST(test_keys_of_all_levels_after_restarts)
{
	uint8_t room[256];
	struct writer w = writer_of(room, sizeof(room));
	struct queue_spec spec = {.name = BYTES("q"), .durable = true};
	struct queue *q;
	struct entry entry;

	table_put_long(&w, BYTES("x-max-priority"), LEVELS - 1);
	table_put_bool(&w, BYTES("x-message-deduplication"), true);
	spec.arguments = bytes_of(room, (size_t)(w.p - room));
	q = queue_create(vhost, &spec);
	for (uint32_t key = 0; key < LEVELS * EACH; key++)
		ck_assert(send_key(q, key, priority_in_turn(key)));
	run_all();
	for (int clean = 0; clean < 2; clean++) {
		restart(clean != 0);
		q = queue_find(vhost, BYTES("q"));
		for (uint32_t key = 0; key < LEVELS * EACH; key += 7)
			ck_assert(!send_key(q, key, 0));
	}
	/* the first of each of the two highest levels is gone: its key is free, and no other */
	for (uint32_t level = LEVELS - 1; level > LEVELS - 3; level--) {
		struct queue *from;

		while (!queue_may_deliver(q) || queue_must_read(q)) {
			queue_refill(q);
			step_store();
		}
		from = queue_get(q, false, &entry);
		queue_ack(from, &entry);
		queue_purge(part_find((struct part_owner){.queue = q}, level));
	}
	run_all();
	restart(false);
	q = queue_find(vhost, BYTES("q"));
	ck_assert_uint_eq(queue_message_count(q), 2 * EACH);
	for (uint32_t key = 0; key < LEVELS * EACH; key += 3)
		ck_assert(send_key(q, key, 0) == (key % LEVELS >= LEVELS - 2));
	run_all();
}
END_TEST

TESTS_WITH("priorities_stored", set_up, cold_tear_down,
	   test_limits_drop_from_the_highest_level_on_the_disk, test_all_levels_expire_on_the_disk,
	   test_a_deleted_queue_leaves_nothing, test_a_new_level_has_the_gate_of_its_queue,
	   test_retries_over_restarts, test_keys_of_all_levels_after_restarts)
