/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a queue, what moves through it, and when its publishers yield. */
#include "unit/queue_fixture.h"

static struct queue *queue;
static struct taker taker;

/* A publisher of the test. */
static struct yielder yielder;
static unsigned went_on;

static void
on_go_on(struct yielder *y)
{
	ck_assert_ptr_eq(y, &yielder);
	ck_assert_ptr_null(y->queue);
	went_on++;
}

static void
set_up(void)
{
	model_set_up();
	queue = make_queue("q");
	order_n = 0;
	yielder = (struct yielder){.go_on = on_go_on};
	broker_set_now(broker, (struct now){.monotonic_ms = 50000});
}

static void
tear_down(void)
{
	for (size_t i = 0; i < taker.taken_n; i++)
		queue_ack(queue, &taker.taken[i]);
	yielder_stop(&yielder);
	model_tear_down();
}

START_TEST(test_queue_is_found_until_it_is_deleted)
{
	const struct reply *refusal = NULL;

	ck_assert_ptr_eq(queue_find(vhost, BYTES("q")), queue);
	ck_assert_ptr_eq(queue_need(vhost, BYTES("q"), &refusal), queue);
	publish(queue, 2);
	ck_assert_uint_eq(queue_delete(queue), 2);
	ck_assert_ptr_null(queue_find(vhost, BYTES("q")));
	ck_assert_ptr_null(queue_need(vhost, BYTES("q"), &refusal));
	ck_assert_str_eq(refusal->text, "NOT_FOUND - no queue 'q' in vhost 'v'");
	ck_assert_int_eq(refusal->closes, REPLY_CLOSES_CHANNEL);
}
END_TEST

START_TEST(test_exclusive_queue_is_locked_for_others)
{
	struct queue_owner owner, other;
	struct queue_spec spec = {.name = BYTES("mine"), .exclusive = true, .durable = true};
	struct queue *mine;

	queue_owner_init(&owner);
	queue_owner_init(&other);
	spec.owner = &owner;
	mine = queue_create(vhost, &spec);
	ck_assert_uint_eq(mine->flags & QUEUE_DURABLE, 0);
	ck_assert_ptr_null(queue_check_access(mine, &owner));
	ck_assert_int_eq((int)queue_check_access(mine, &other)->code, 405);
	ck_assert_ptr_null(queue_check_access(queue, &other));
	ck_assert_ptr_null(queue_check_equivalent(mine, &spec));
	spec.exclusive = false;
	ck_assert_int_eq((int)queue_check_equivalent(mine, &spec)->code, 405);
	spec.owner = &other;
	spec.exclusive = true;
	ck_assert_int_eq((int)queue_check_equivalent(mine, &spec)->code, 405);
	queue_owner_fini(&owner);
	ck_assert_ptr_null(queue_find(vhost, BYTES("mine")));
	ck_assert_ptr_nonnull(queue_find(vhost, BYTES("q")));
}
END_TEST

START_TEST(test_redeclare_must_be_equivalent)
{
	struct queue_spec spec = {.name = BYTES("q")};

	ck_assert_ptr_null(queue_check_equivalent(queue, &spec));
	spec.durable = true;
	ck_assert_str_eq(queue_check_equivalent(queue, &spec)->text,
			 "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost "
			 "'v': received 'true' but current is 'false'");
	spec.durable = false;
	spec.auto_delete = true;
	ck_assert_str_eq(queue_check_equivalent(queue, &spec)->text,
			 "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q' in "
			 "vhost 'v': received 'true' but current is 'false'");
}
END_TEST

START_TEST(test_queue_limit)
{
	struct queue_spec spec = {.name = BYTES("one more")};

	broker->options.queue_max = 2;
	ck_assert_ptr_null(queue_check_new(vhost, &spec));
	queue_create(vhost, &spec);
	spec.name = BYTES("too many");
	ck_assert_int_eq((int)queue_check_new(vhost, &spec)->code, 406);
	queue_delete(queue);
	ck_assert_ptr_null(queue_check_new(vhost, &spec));
}
END_TEST

START_TEST(test_each_queue_of_a_route_gets_the_message_once)
{
	struct queue *queues[] = {queue, make_queue("q2"), make_queue("q3")};
	struct route to = {.queues = queues, .count = 3, .room = 3};
	struct message *m = make_message(7);

	queue_publish(broker, &to, m);
	ck_assert_uint_eq(m->refs, 4);
	for (size_t i = 0; i < countof(queues); i++) {
		ck_assert_uint_eq(queues[i]->ready_count, 1);
		ck_assert_uint_eq(queues[i]->body_bytes, 7);
		ck_assert_uint_eq(queues[i]->publish_count, 1);
		queue_purge(queues[i]);
	}
	ck_assert_uint_eq(m->refs, 1);
	message_unref(m);
}
END_TEST

START_TEST(test_get_takes_in_order_and_settles)
{
	struct entry first, second;

	publish(queue, 3);
	ck_assert(queue_get(queue, false, &first));
	ck_assert(queue_get(queue, false, &second));
	ck_assert_uint_eq(queue->unacked_count, 2);
	ck_assert_uint_eq(queue->get_count, 2);
	queue_requeue(queue, &first);
	ck_assert_uint_eq(queue->unacked_count, 1);
	queue_reject(queue, &second);
	ck_assert_uint_eq(queue->unacked_count, 0);
	ck_assert_uint_eq(queue->ack_count, 0);
	ck_assert_uint_eq(get_and_ack(queue), 1);
	ck_assert_uint_eq(queue->redeliver_count, 1);
	ck_assert_uint_eq(queue->ack_count, 1);
	ck_assert_uint_eq(get_and_ack(queue), 3);
	ck_assert_uint_eq(get_and_ack(queue), 0);
}
END_TEST

START_TEST(test_get_without_ack_is_final)
{
	struct entry entry;

	publish(queue, 1);
	ck_assert(queue_get(queue, true, &entry));
	ck_assert_uint_eq(queue->unacked_count, 0);
	ck_assert_uint_eq(entry.message->refs, 1);
	message_unref(entry.message);
}
END_TEST

START_TEST(test_purge_leaves_unacked_entries)
{
	struct entry entry;

	publish(queue, 5);
	ck_assert(queue_get(queue, false, &entry));
	ck_assert_uint_eq(queue_purge(queue), 4);
	ck_assert_uint_eq(queue->ready_count, 0);
	ck_assert_uint_eq(queue->unacked_count, 1);
	queue_requeue(queue, &entry);
	publish(queue, 1);
	ck_assert_uint_eq(get_and_ack(queue), 1);
	ck_assert_uint_eq(get_and_ack(queue), 6);
	ck_assert_uint_eq(queue_purge(queue), 0);
}
END_TEST

START_TEST(test_deleted_queue_is_freed_after_its_last_entry)
{
	struct entry entry;

	publish(queue, 2);
	queue_ref(queue); // as an unacked slot does
	ck_assert(queue_get(queue, false, &entry));
	queue_delete(queue);
	broker_reap(broker);
	ck_assert_uint_eq(queue->refs, 1);
	queue_requeue(queue, &entry);
	ck_assert_uint_eq(queue->ready_count, 0);
	queue_unref(queue);
	ck_assert_uint_eq(broker->dead.count, 1);
	dispatch();
	broker_reap(broker);
	queue = make_queue("q");
}
END_TEST

START_TEST(test_deleted_queue_leaves_the_dirty_list)
{
	taker_start(&taker, queue, "a", 0, 100);
	publish(queue, 1);
	ck_assert_uint_eq(broker->dirty.count, 1);
	queue_delete(queue);
	ck_assert(list_empty(&broker->dirty));
	broker_reap(broker);
	dispatch();
	queue = make_queue("q");
}
END_TEST

START_TEST(test_queue_is_dirty_only_with_something_to_hand_out)
{
	publish(queue, 1);
	ck_assert(list_empty(&broker->dirty));
	taker_start(&taker, queue, "a", 0, 1);
	ck_assert_uint_eq(broker->dirty.count, 1);
	publish(queue, 1);
	ck_assert_uint_eq(broker->dirty.count, 1);
	dispatch();
	ck_assert_uint_eq(taker.taken_n, 1);
	publish(queue, 1);
	ck_assert(list_empty(&broker->dirty));
}
END_TEST

/* ---- yielding ---- */

/* More ready bytes than publishers may leave behind, and a consumer that took just now. */
static void
fall_behind(void)
{
	taker_start(&taker, queue, "a", 0, 1);
	publish_sized(queue, 10);
	publish_sized(queue, 150 * 1024);
	publish_sized(queue, 150 * 1024);
	dispatch();
	ck_assert_uint_eq(taker.taken_n, 1);
	ck_assert(queue_wants_yield(queue));
	yielder_wait(&yielder, queue);
	ck_assert_uint_eq(went_on, 0);
}

START_TEST(test_publishers_yield_only_to_consumers_that_take)
{
	publish_sized(queue, 300 * 1024);
	ck_assert(!queue_wants_yield(queue));
	taker_start(&taker, queue, "a", 0, 0);
	dispatch();
	ck_assert(!queue_wants_yield(queue));
	taker.room = 1;
	consumer_ready(taker.consumer);
	dispatch();
	ck_assert(!queue_wants_yield(queue)); // it took all
	publish_sized(queue, 300 * 1024);
	ck_assert(queue_wants_yield(queue));
	broker_set_now(broker, (struct now){.monotonic_ms = 50200});
	ck_assert(queue_wants_yield(queue));
	broker_set_now(broker, (struct now){.monotonic_ms = 50201});
	ck_assert(!queue_wants_yield(queue));
}
END_TEST

START_TEST(test_yielder_goes_on_when_consumers_caught_up)
{
	fall_behind();
	dispatch();
	ck_assert_uint_eq(went_on, 0);
	taker.room = 2; // 150 KiB stay: still too many
	consumer_ready(taker.consumer);
	dispatch();
	ck_assert_uint_eq(went_on, 0);
	taker.room = 3;
	consumer_ready(taker.consumer);
	dispatch();
	ck_assert_uint_eq(went_on, 1);
	ck_assert_uint_eq(queue->yielders.count, 0);
	ck_assert_uint_eq(queue->refs, 1);
}
END_TEST

START_TEST(test_yielder_goes_on_after_purge)
{
	fall_behind();
	queue_purge(queue);
	ck_assert_uint_eq(went_on, 1);
}
END_TEST

START_TEST(test_yielder_goes_on_after_delete)
{
	fall_behind();
	queue_ref(queue);
	queue_delete(queue);
	ck_assert_uint_eq(went_on, 1);
	queue_ack(queue, &taker.taken[0]);
	taker.taken_n = 0;
	queue_unref(queue);
	broker_reap(broker);
	queue = make_queue("q");
}
END_TEST

START_TEST(test_yielder_goes_on_after_the_last_cancel)
{
	static struct taker other;

	fall_behind();
	taker_start(&other, queue, "b", 0, 0);
	taker_cancel(&other);
	ck_assert_uint_eq(went_on, 0);
	taker_cancel(&taker);
	ck_assert_uint_eq(went_on, 1);
	ck_assert(!queue_wants_yield(queue));
}
END_TEST

START_TEST(test_yielder_that_stops_is_not_called)
{
	fall_behind();
	ck_assert_uint_eq(queue->refs, 2);
	yielder_stop(&yielder);
	yielder_stop(&yielder);
	ck_assert_uint_eq(queue->refs, 1);
	queue_purge(queue);
	ck_assert_uint_eq(went_on, 0);
}
END_TEST

TESTS_WITH("queue", set_up, tear_down, test_queue_is_found_until_it_is_deleted,
	   test_exclusive_queue_is_locked_for_others, test_redeclare_must_be_equivalent,
	   test_queue_limit, test_each_queue_of_a_route_gets_the_message_once,
	   test_get_takes_in_order_and_settles, test_get_without_ack_is_final,
	   test_purge_leaves_unacked_entries, test_deleted_queue_is_freed_after_its_last_entry,
	   test_deleted_queue_leaves_the_dirty_list,
	   test_queue_is_dirty_only_with_something_to_hand_out,
	   test_publishers_yield_only_to_consumers_that_take,
	   test_yielder_goes_on_when_consumers_caught_up, test_yielder_goes_on_after_purge,
	   test_yielder_goes_on_after_delete, test_yielder_goes_on_after_the_last_cancel,
	   test_yielder_that_stops_is_not_called)
