/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that are part of something: seen by nobody, kept with their owner and gone with it, whatever happens in
 * between. One of a durable queue, one of a durable exchange and one of a transient queue.
 */
#include "broker/exchange.h"
#include "broker/internal.h"
#include "broker/limits.h"
#include "broker/policy.h"
#include "unit/cold_fixture.h"
#include "util/log.h"

/* One that no feature makes, so it is a queue as any other. */
#define PLAIN (PART_ROOM + 1)
#define LEVEL 3

/* The store's own, whose internal.h does not go with the broker's. */
struct queue_log *queue_log_find(const struct store *store, uint64_t id);

static struct queue *
owner_of_list(size_t i)
{
	return queue_find(vhost, i == 0 ? BYTES("kept") : BYTES("lost"));
}

static struct part_owner
owner_of(size_t i)
{
	if (i == 1)
		return (struct part_owner){.exchange = exchange_find(vhost, BYTES("x"))};
	return (struct part_owner){.queue = owner_of_list(i)};
}

static uint32_t
number_of(size_t i)
{
	return i == 0 ? LEVEL : PLAIN;
}

static void
make_owners(void)
{
	struct queue_spec kept = {.name = BYTES("kept"), .durable = true};
	struct queue_spec lost = {.name = BYTES("lost")};
	struct exchange_spec x = {.name = BYTES("x"), .type = BYTES("direct"), .durable = true};

	if (owner_of_list(0) == NULL)
		queue_create(vhost, &kept);
	if (owner_of_list(2) == NULL)
		queue_create(vhost, &lost);
	if (owner_of(1).exchange == NULL)
		exchange_create(vhost, &x);
}

static void
make_parts(void)
{
	make_owners();
	for (size_t i = 0; i < QUEUES; i++)
		if (part_find(owner_of(i), number_of(i)) == NULL)
			part_create(owner_of(i), number_of(i));
	for (size_t i = 0; i < QUEUES; i++)
		lists[i].queue = part_find(owner_of(i), number_of(i));
}

/* The fixture's lists are of parts here, and its own queues are not there. */
static void
set_up(void)
{
	deadlines_init(&deadlines);
	cache_size = 64 * 1024;
	file_size = 1024 * 1024;
	disk = disk_sim_new();
	open_all();
	vhost = vhost_create(broker, BYTES("v"));
	for (size_t i = 0; i < QUEUES; i++)
		lists[i].durable = i < 2;
	make_parts();
	run_all();
}

/* What is durable must be found; the rest is made anew. */
static void
restart_parts(bool clean)
{
	close_all(clean);
	open_all();
	vhost = vhost_find(broker, BYTES("v"));
	ck_assert_ptr_nonnull(part_find(owner_of(0), LEVEL));
	ck_assert_ptr_nonnull(part_find(owner_of(1), PLAIN));
	ck_assert_ptr_null(owner_of_list(2));
	make_parts();
	run_all();
}

/* Most on the disk, some of them without a record. */
static void
fill(void)
{
	for (uint32_t i = 0; i < 5000; i++)
		publish(&lists[i % QUEUES], 100 + i % 200, i % 7 != 0);
	run_all();
}

START_TEST(test_nobody_sees_them)
{
	uint64_t queues = vhost->queues.count;

	ck_assert_uint_eq(queues, 2);
	ck_assert_uint_eq(broker->queue_count, queues);
	vhost_set_limits(vhost, -1, 3);
	ck_assert_ptr_null(limits_check_queue(vhost, BYTES("third")));
	ck_assert_uint_eq(queue_delete(owner_of_list(0)), 0);
	ck_assert_uint_eq(broker->queue_count, queues - 1);
	lists[0].queue = NULL;
	make_parts();
	fill();
	ck_assert_uint_eq(broker_message_count(broker), 5000);
	run_all();
}
END_TEST

START_TEST(test_messages_come_back)
{
	for (int round = 0; round < 4; round++) {
		fill();
		for (int i = 0; i < 900; i++)
			ck_assert(get(&lists[i % QUEUES], i % 4 == 0));
		settle(&lists[0], 5, SETTLE_ACK);
		settle(&lists[1], 5, SETTLE_REQUEUE);
		run_all();
		restart_parts(round % 2 == 0);
	}
	for (size_t i = 0; i < QUEUES; i++)
		while (get(&lists[i], true))
			;
	ck_assert_uint_eq(broker_message_count(broker), 0);
	restart_parts(true);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

/* What was not written goes with its part, or alone. */
START_TEST(test_killed_before_anything_is_written)
{
	part_delete(lists[0].queue);
	make_parts();
	publish(&lists[0], 10, true);
	close_all(false);
	open_all();
	vhost = vhost_find(broker, BYTES("v"));
	make_parts();
	ck_assert_uint_eq(broker_message_count(broker), 0);
	publish(&lists[0], 10, true);
	run_all();
	publish(&lists[0], 10, true);
	restart_parts(false);
	ck_assert_uint_eq(queue_message_count(lists[0].queue), 1);
}
END_TEST

/* An unacked entry of one that is gone is settled all the same. */
static void
delete_part(size_t i)
{
	part_delete(lists[i].queue);
	list_drop_ready(&lists[i], 0);
	lists[i].queue = NULL;
	run_all();
}

START_TEST(test_unacked_entries_outlive_them)
{
	for (size_t i = 0; i < QUEUES; i++) {
		publish(&lists[i], 10, true);
		publish(&lists[i], 10, false);
		publish(&lists[i], 10, true);
		ck_assert(get(&lists[i], false));
		ck_assert(get(&lists[i], false));
		delete_part(i);
		settle(&lists[i], 0, SETTLE_ACK);
		settle(&lists[i], 0, SETTLE_REQUEUE);
	}
	run_all();
	close_all(true);
	open_all();
	vhost = vhost_find(broker, BYTES("v"));
	ck_assert_ptr_null(part_find(owner_of(0), LEVEL));
	ck_assert_ptr_null(part_find(owner_of(1), PLAIN));
	make_parts();
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

/* ---- they go with their owner ---- */

static void
delete_owners(void)
{
	queue_delete(owner_of_list(0));
	queue_delete(owner_of_list(2));
	exchange_delete(owner_of(1).exchange);
}

static void
delete_vhost(void)
{
	vhost_delete(vhost);
	vhost = vhost_create(broker, BYTES("v"));
}

/* Nothing of them is there then, nor after a restart, nor when their owners are there again. */
static void
check_gone_after(void (*end)(void), bool clean)
{
	uint64_t ids[2];

	fill();
	for (size_t i = 0; i < countof(ids); i++)
		ids[i] = lists[i].queue->log->id;
	end();
	for (size_t i = 0; i < QUEUES; i++) {
		list_drop_ready(&lists[i], 0);
		lists[i].queue = NULL;
	}
	run_all();
	ck_assert_uint_eq(broker_message_count(broker), 0);
	close_all(clean);
	open_all();
	vhost = vhost_find(broker, BYTES("v"));
	ck_assert_uint_eq(broker_message_count(broker), 0);
	for (size_t i = 0; i < countof(ids); i++)
		ck_assert_ptr_null(queue_log_find(store, ids[i]));
	make_owners();
	for (size_t i = 0; i < QUEUES; i++)
		ck_assert_ptr_null(part_find(owner_of(i), number_of(i)));
	make_parts();
	run_all();
}

START_TEST(test_they_go_with_their_owners)
{
	check_gone_after(delete_owners, false);
	check_gone_after(delete_owners, true);
	check_gone_after(delete_vhost, false);
	check_gone_after(delete_vhost, true);
}
END_TEST

START_TEST(test_they_go_with_a_connection)
{
	struct queue_owner connection;
	struct queue_spec spec = {.name = BYTES("e"), .exclusive = true, .owner = &connection};
	struct queue *q;

	queue_owner_init(&connection);
	q = queue_create(vhost, &spec);
	ck_assert_ptr_null(part_create((struct part_owner){.queue = q}, 0)->log);
	queue_owner_fini(&connection);
	run_all();
}
END_TEST

/* ---- how they are set ---- */

START_TEST(test_levels_are_set_as_their_queue)
{
	struct policy_spec spec = {
		.name = BYTES("p"),
		.pattern = BYTES(""),
		.apply_to = BYTES("queues"),
		.definition = BYTES("\x0bmessage-ttlI\0\0\7\0\x0e"
				    "delivery-limitI\0\0\0\2"),
	};
	const struct queue *level = lists[0].queue;
	const struct queue *room = lists[2].queue;

	policy_put(vhost, POLICY_USER, &spec);
	ck_assert_uint_eq(queue_settings(level)->ttl_ms, 1792);
	ck_assert_uint_eq(level->flags & (QUEUE_TTL | QUEUE_COUNTS), QUEUE_TTL | QUEUE_COUNTS);
	ck_assert_uint_eq(queue_settings(room)->ttl_ms, UINT64_MAX);
	ck_assert_uint_eq(room->flags & (QUEUE_TTL | QUEUE_COUNTS), 0);
	run_all();
	restart_parts(false);
	level = lists[0].queue;
	ck_assert_uint_eq(queue_settings(level)->ttl_ms, 1792);
	ck_assert_uint_eq(level->flags & (QUEUE_TTL | QUEUE_COUNTS), QUEUE_TTL | QUEUE_COUNTS);
	policy_remove(policy_find(vhost, POLICY_USER, BYTES("p")));
	ck_assert_uint_eq(queue_settings(level)->ttl_ms, UINT64_MAX);
	ck_assert_uint_eq(level->flags & QUEUE_COUNTS, 0);
}
END_TEST

/* ---- what should not be in the log ---- */

/* A part of something that is not there, with a message. */
START_TEST(test_orphans_are_ignored)
{
	struct queue_log *log = store_queue_new(store);
	struct definition orphan = {.kind = DEFINITION_PART,
				    .vhost = BYTES("v"),
				    .name = BYTES("gone"),
				    .part = 7,
				    .queue_id = log->id};
	struct message *m = make_message(1, 100, true);
	struct message_record record = {.ref_count = 1,
					.exchange = message_exchange(m),
					.key = message_key(m),
					.properties = message_properties(m),
					.body = message_body(m)};
	uint8_t *ref;

	store_define(store, &orphan);
	store_append_message(store, &record, &ref);
	store_add_ref(store, log, ref, 1, 100, 0);
	store_define(store, &(struct definition){.kind = DEFINITION_PART,
						 .removed = true,
						 .vhost = BYTES("v"),
						 .name = BYTES("x"),
						 .flags = DEFINITION_OF_EXCHANGE,
						 .part = 9,
						 .queue_id = 9999});
	message_unref(m);
	publish(&lists[0], 10, true);
	run_all();
	for (int i = 0; i < 4; i++) {
		restart_parts(i % 2 != 0);
		ck_assert_uint_eq(broker_message_count(broker), 1);
		ck_assert_ptr_null(queue_log_find(store, orphan.queue_id));
	}
}
END_TEST

TESTS_WITH("queue_part", set_up, cold_tear_down, test_nobody_sees_them, test_messages_come_back,
	   test_killed_before_anything_is_written, test_unacked_entries_outlive_them,
	   test_they_go_with_their_owners, test_they_go_with_a_connection,
	   test_levels_are_set_as_their_queue, test_orphans_are_ignored)
