/* SPDX-License-Identifier: Apache-2.0 */
/* Queues that nobody uses go: what is a use, and when the time begins (amqp.md 6.6). */
#include "broker/internal.h"
#include "unit/queue_fixture.h"
#include "util/log.h"
#include "util/owned.h"

#define BEGIN 5000

static struct taker a, b;

static struct table *
expires(int64_t ms)
{
	static struct table table;

	table_start(&table);
	table_put_long(&table.writer, BYTES("x-expires"), ms);
	return &table;
}

/* A queue that expires after 1000 ms. */
static struct queue *
make_expiring(const char *name)
{
	struct queue_spec spec = {.name = bytes_str(name), .arguments = table_view(expires(1000))};

	ck_assert_ptr_null(queue_check_new(vhost, &spec));
	return queue_create(vhost, &spec);
}

/* What the turn does at that time after the beginning; whether the queue is still there. */
static bool
there_at(uint64_t ms)
{
	broker_set_now(broker, (struct now){.monotonic_ms = BEGIN + ms});
	deadlines_run(&deadlines, BEGIN + ms);
	dispatch();
	broker_reap(broker);
	return queue_find(vhost, BYTES("q")) != NULL;
}

static struct queue *queue;

static void
set_up(void)
{
	log_set_level(LOG_NONE);
	model_set_up();
	broker_set_now(broker, (struct now){.monotonic_ms = BEGIN});
	queue = make_expiring("q");
	order_n = 0;
}

START_TEST(test_it_goes_when_it_was_not_used)
{
	bind_queue(find_exchange("amq.direct"), queue, "k", no_bytes());
	ck_assert_uint_eq(deadlines_next(&deadlines), BEGIN + 1000);
	ck_assert(there_at(500));
	publish(queue, 3); // is no use
	ck_assert(there_at(999));
	ck_assert(!there_at(1000));
	ck_assert_uint_eq(route_key(find_exchange("amq.direct"), "k"), 0);
	ck_assert_uint_eq(broker->queue_count, 0);
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
}
END_TEST

START_TEST(test_others_have_no_deadline)
{
	queue_delete(queue);
	make_queue("plain");
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
}
END_TEST

START_TEST(test_uses_begin_it_anew)
{
	struct entry entry;

	ck_assert(there_at(600));
	ck_assert(!queue_get(queue, false, &entry)); // empty, and a use all the same
	ck_assert(there_at(1599));
	queue_used(queue);
	ck_assert(there_at(2598));
	publish(queue, 1);
	ck_assert(queue_get(queue, false, &entry));
	queue_ref(queue);
	ck_assert(there_at(3597));
	ck_assert(!there_at(3598));
	queue_ack(queue, &entry); // what was got lives on
	queue_unref(queue);
}
END_TEST

START_TEST(test_it_stays_while_it_has_consumers)
{
	taker_start(&a, queue, "a", 0, 100);
	taker_start(&b, queue, "b", 0, 100);
	ck_assert(there_at(5000));
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
	taker_cancel(&a);
	ck_assert(there_at(10000));
	taker_cancel(&b);
	ck_assert(there_at(10999));
	taker_start(&a, queue, "a", 0, 100);
	ck_assert(there_at(11500));
	taker_cancel(&a);
	ck_assert(there_at(12499));
	ck_assert(!there_at(12500));
}
END_TEST

START_TEST(test_deleted_by_others_it_has_no_deadline)
{
	queue_ref(queue);
	queue_delete(queue);
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
	queue_unref(queue);
}
END_TEST

START_TEST(test_auto_delete_comes_first)
{
	struct queue_spec spec = {
		.name = BYTES("auto"), .auto_delete = true, .arguments = table_view(expires(1000))};
	struct queue *doomed = queue_create(vhost, &spec);

	queue_delete(queue);
	taker_start(&a, doomed, "a", 0, 100);
	taker_cancel(&a);
	ck_assert_ptr_null(queue_find(vhost, BYTES("auto")));
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
}
END_TEST

/* The settings of the queue become those of these arguments, as when a policy changes. */
static void
change_to(const struct table *table)
{
	bytes_drop(&queue->arguments);
	queue->arguments = bytes_dup(table_view(table));
	queue_settings_update(queue, (const struct policy *const[POLICY_KIND_COUNT]){NULL});
}

START_TEST(test_new_settings_begin_it_anew)
{
	struct table none;

	table_start(&none);
	ck_assert(there_at(900));
	change_to(expires(300));
	ck_assert(there_at(1199));
	change_to(expires(300)); // the same: it goes on
	ck_assert_uint_eq(deadlines_next(&deadlines), BEGIN + 1200);
	change_to(&none);
	ck_assert(there_at(5000));
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
	change_to(expires(100));
	ck_assert(there_at(5099));
	ck_assert(!there_at(5100));
}
END_TEST

TESTS_WITH("queue_expiry", set_up, model_tear_down, test_it_goes_when_it_was_not_used,
	   test_others_have_no_deadline, test_uses_begin_it_anew,
	   test_it_stays_while_it_has_consumers, test_deleted_by_others_it_has_no_deadline,
	   test_auto_delete_comes_first, test_new_settings_begin_it_anew)
