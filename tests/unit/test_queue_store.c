/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be confirmed: a message that is on the disk, or that all its queues have settled before. And the numbers of
 * messages that have no record.
 */
#include "broker/internal.h"
#include "unit/cold_fixture.h"
#include "util/owned.h"
#include "wire/field.h"

static struct listed *const a = &lists[0];
static struct listed *const b = &lists[1];
static struct listed *const transient = &lists[2]; // not durable

/* A consumer that takes everything, behind an open gate. */
static void
take_all(struct listed *list, bool no_ack)
{
	consume(list, UINT32_MAX, no_ack);
	run_all();
}

static uint64_t
last_lsn(const struct listed *list)
{
	return list->items[list->count - 1].lsn;
}

START_TEST(test_done_when_stable)
{
	publish(a, 10, true);
	ck_assert_uint_gt(last_lsn(a), stable);
	ck_assert(!broker_is_done(broker, last_lsn(a)));
	step_store();
	ck_assert(broker_is_done(broker, last_lsn(a)));
	ck_assert(broker_is_done(broker, 0));
}
END_TEST

START_TEST(test_done_when_acknowledged_before)
{
	take_all(a, false);
	publish(a, 10, true);
	dispatch();
	ck_assert_uint_eq(a->held_count, 1);
	ck_assert(!broker_is_done(broker, last_lsn(a)));
	settle_all(a, SETTLE_ACK);
	ck_assert_uint_gt(last_lsn(a), stable);
	ck_assert(broker_is_done(broker, last_lsn(a)));
	publish(a, 10, true);
	ck_assert(!broker_is_done(broker, last_lsn(a)));
}
END_TEST

START_TEST(test_done_when_delivered_without_acknowledgement)
{
	take_all(a, true);
	publish(a, 10, true);
	ck_assert(!broker_is_done(broker, last_lsn(a)));
	dispatch();
	ck_assert_uint_gt(last_lsn(a), stable);
	ck_assert(broker_is_done(broker, last_lsn(a)));
}
END_TEST

START_TEST(test_not_done_when_requeued)
{
	take_all(a, false);
	publish(a, 10, true);
	dispatch();
	settle_all(a, SETTLE_REQUEUE);
	ck_assert(!broker_is_done(broker, last_lsn(a)));
}
END_TEST

START_TEST(test_done_when_the_last_queue_has_settled_it)
{
	struct listed *all[] = {a, b, transient};

	take_all(a, false);
	take_all(b, false);
	publish_to(all, 3, 10, true);
	dispatch();
	settle_all(a, SETTLE_ACK);
	ck_assert(!broker_is_done(broker, last_lsn(a)));
	settle_all(b, SETTLE_REJECT);
	ck_assert(broker_is_done(broker, last_lsn(a)));
	drain(transient);
}
END_TEST

START_TEST(test_done_when_its_queue_was_purged_or_deleted)
{
	run_all();
	publish(a, 10, true);
	publish(b, 10, true);
	purge(a);
	ck_assert(broker_is_done(broker, last_lsn(a)));
	ck_assert(!broker_is_done(broker, last_lsn(b)));
	queue_delete(b->queue);
	b->queue = NULL;
	ck_assert_uint_gt(last_lsn(a), stable);
	ck_assert(broker_is_done(broker, last_lsn(b)));
}
END_TEST

/* What is rejected goes to a durable queue of that name, which no list knows. */
static void
send_dead_letters(struct listed *list, const char *name)
{
	uint8_t room[128];
	struct writer w = writer_of(room, sizeof(room));
	struct queue_spec spec = {.name = bytes_str(name), .durable = true};

	queue_create(vhost, &spec);
	table_put_string(&w, BYTES("x-dead-letter-exchange"), BYTES(""));
	table_put_string(&w, BYTES("x-dead-letter-routing-key"), bytes_str(name));
	bytes_drop(&list->queue->arguments);
	list->queue->arguments = bytes_dup(bytes_of(room, (size_t)(w.p - room)));
	queue_settings_update(list->queue, (const struct policy *const[POLICY_KIND_COUNT]){NULL});
}

/* It has left its queue, but a crash now would take its dead letter too. */
START_TEST(test_not_done_when_its_dead_letter_is_not_stable)
{
	take_all(a, false);
	send_dead_letters(a, "dead");
	publish(a, 10, true);
	dispatch();
	settle_all(a, SETTLE_REJECT);
	ck_assert_uint_gt(last_lsn(a), stable);
	ck_assert(!broker_is_done(broker, last_lsn(a)));
	step_store();
	ck_assert(broker_is_done(broker, last_lsn(a)));
}
END_TEST

/* More records than there is room for at first; of those every third is settled before. */
START_TEST(test_many_records_in_one_batch)
{
	enum {
		MANY = 50000
	};
	size_t first = a->count;

	take_all(a, false);
	for (int i = 0; i < MANY; i++) {
		publish(a, 1, true);
		dispatch();
		if (i % 3 == 0)
			settle(a, a->held_count - 1, SETTLE_ACK);
	}
	ck_assert_uint_gt(a->items[first].lsn, stable);
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(broker_is_done(broker, a->items[first + (size_t)i].lsn),
				 i % 3 == 0);
	ck_assert_uint_ge(broker->unsettled_room, MANY);
	run_all();
	ck_assert_uint_lt(broker->unsettled_room, MANY);
	ck_assert(broker_is_done(broker, last_lsn(a)));
	settle_all(a, SETTLE_ACK);
	publish(a, 1, true);
	ck_assert(!broker_is_done(broker, last_lsn(a)));
}
END_TEST

/* Else a message would have the number of one that is settled. */
START_TEST(test_numbers_of_messages_without_a_record_are_not_given_again)
{
	take_all(a, true);
	publish(a, 10, true);
	for (int i = 0; i < 3; i++)
		publish(a, 10, false);
	run_all();
	restart(true);
	publish(a, 10, true);
	run_all();
	restart(true);
	ck_assert_uint_eq(queue_message_count(a->queue), 1);
	drain(a);
}
END_TEST

TESTS_WITH("queue_store", cold_set_up, cold_tear_down, test_done_when_stable,
	   test_done_when_acknowledged_before, test_done_when_delivered_without_acknowledgement,
	   test_not_done_when_requeued, test_done_when_the_last_queue_has_settled_it,
	   test_done_when_its_queue_was_purged_or_deleted,
	   test_not_done_when_its_dead_letter_is_not_stable, test_many_records_in_one_batch,
	   test_numbers_of_messages_without_a_record_are_not_given_again)
