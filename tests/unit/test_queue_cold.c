/* SPDX-License-Identifier: Apache-2.0 */
/* Queues longer than their window: what comes out of them is what went in, in order, whatever was on disk
 * meanwhile. */
#include "unit/cold_fixture.h"

#define LONG (3 * QUEUE_WINDOW_COUNT)

static struct listed *const a = &lists[0];
static struct listed *const b = &lists[1];
static struct listed *const transient = &lists[2]; // not durable

static void
publish_many(struct listed *list, int n, uint32_t size, bool persistent)
{
	while (n-- > 0)
		publish(list, size, persistent);
}

/* Every seventh message has no record. */
static void
publish_mixed(struct listed *list, int n)
{
	for (int i = 0; i < n; i++) {
		publish(list, (uint32_t)i % 50, i % 7 != 3);
		if (i % 256 == 0)
			step_store();
	}
	check_all();
}

static uint64_t
at_hand(const struct listed *list)
{
	return list->queue->ready_count;
}

/* The messages of a queue without takers that the cache has room for, or all those of the window. */
static void
fill_window(struct listed *list)
{
	cache_size = broker->options.cache_size = UINT64_MAX;
	publish_many(list, QUEUE_WINDOW_COUNT, 10, true);
	ck_assert_uint_eq(at_hand(list), QUEUE_WINDOW_COUNT);
}

START_TEST(test_window_ends_by_count)
{
	fill_window(a);
	publish_many(a, 100, 10, true);
	ck_assert_uint_eq(at_hand(a), QUEUE_WINDOW_COUNT);
	ck_assert_uint_eq(a->queue->log->cold_count, 100);
	ck_assert_uint_eq(a->queue->log->cold_octets, 1000);
	run_all();
	drain(a);
	ck_assert_uint_eq(reads, 100);
	ck_assert_uint_eq(a->queue->log->cold_octets, 0);
}
END_TEST

START_TEST(test_window_ends_by_octets)
{
	broker->options.cache_size = UINT64_MAX;
	publish_many(a, 40, 100000, true);
	ck_assert_uint_eq(at_hand(a), QUEUE_WINDOW_OCTETS / 100000 + 1);
	run_all();
	drain(a);
}
END_TEST

START_TEST(test_nothing_is_at_hand_without_takers_and_cache)
{
	broker->options.cache_size = 0;
	publish_many(a, 100, 10, true);
	ck_assert_uint_eq(at_hand(a), 0);
	ck_assert_uint_eq(broker->resident_octets, 0);
	publish_many(a, 100, 10, false);
	publish_many(a, 100, 10, true);
	ck_assert_uint_eq(at_hand(a), 0);
	run_all();
	drain(a);
}
END_TEST

START_TEST(test_messages_without_a_record_keep_their_place)
{
	broker->options.cache_size = UINT64_MAX;
	publish_mixed(a, LONG);
	ck_assert_uint_ge(at_hand(a), QUEUE_WINDOW_COUNT);
	ck_assert_uint_gt(a->queue->log->cold_count, 0);
	drain(a);
	broker->options.cache_size = 0;
	publish_mixed(a, LONG);
	ck_assert_uint_eq(at_hand(a), 0);
	drain(a);
}
END_TEST

/* Those that nothing cold is before must be there to be taken. */
START_TEST(test_messages_without_a_record_outlive_an_eviction)
{
	broker->options.cache_size = 1000;
	publish_many(a, 100, 100, false);
	publish_many(b, 100, 100, true);
	check_all();
	drain(a);
	publish_many(a, 100, 100, false);
	publish_many(a, 1, 100, true);
	publish_many(a, 100, 100, false);
	publish_many(b, 100, 100, true);
	run_all();
	for (int i = 0; i < 150; i++)
		ck_assert(get(a, i % 2 == 0));
	settle_all(a, SETTLE_REQUEUE);
	drain(a);
	drain(b);
}
END_TEST

START_TEST(test_requeued_ones_come_first)
{
	publish_mixed(a, LONG);
	consume(a, 300, false);
	run_all();
	ck_assert_uint_eq(a->held_count, 300);
	cancel(a);
	for (int i = 0; i < 100; i++)
		settle(a, (size_t)i, SETTLE_REQUEUE);
	check_all();
	for (int i = 0; i < 50; i++)
		ck_assert(get(a, false));
	publish_mixed(a, 100);
	settle_all(a, SETTLE_REQUEUE);
	drain(a);
}
END_TEST

START_TEST(test_requeue_of_more_than_a_window)
{
	publish_mixed(a, LONG);
	consume(a, QUEUE_WINDOW_COUNT + 100, false);
	run_all();
	ck_assert_uint_eq(a->held_count, QUEUE_WINDOW_COUNT + 100);
	cancel(a);
	settle_all(a, SETTLE_REQUEUE);
	publish_mixed(a, 100);
	ck_assert_uint_ge(at_hand(a), QUEUE_WINDOW_COUNT + 100);
	run_all();
	drain(a);
}
END_TEST

START_TEST(test_purge_drops_all_of_it)
{
	publish_mixed(a, LONG);
	run_all();
	for (int i = 0; i < 10; i++)
		ck_assert(get(a, false));
	purge(a);
	ck_assert(!get(a, false));
	ck_assert_uint_eq(at_hand(a), 0);
	settle(a, 3, SETTLE_REQUEUE);
	ck_assert(get(a, false));
	publish_mixed(a, 100);
	settle_all(a, SETTLE_REQUEUE);
	drain(a);
	run_all();
	restart(false);
	ck_assert_uint_eq(a->ready, 0);
}
END_TEST

START_TEST(test_purge_before_anything_was_written)
{
	publish_mixed(a, 200);
	purge(a);
	publish_mixed(a, 20);
	run_all();
	restart(false);
	drain(a);
}
END_TEST

START_TEST(test_purge_while_a_read_is_on_its_way)
{
	publish_mixed(a, LONG);
	run_all();
	queue_refill(a->queue);
	ck_assert(a->queue->log->reading);
	purge(a);
	publish_mixed(a, 1000);
	queue_refill(a->queue);
	step_store();
	check_all();
	drain(a);
}
END_TEST

START_TEST(test_delete_while_a_read_is_on_its_way)
{
	publish_mixed(a, LONG);
	run_all();
	ck_assert(get(a, false));
	queue_refill(a->queue);
	ck_assert(a->queue->log->reading || at_hand(a) > QUEUE_WINDOW_COUNT / 2);
	delete_queue(a);
	settle_all(a, SETTLE_REQUEUE);
	make_queue(a, true);
	ck_assert(!get(a, true));
	publish_mixed(a, 100);
	drain(a);
}
END_TEST

START_TEST(test_delete_while_a_read_waits_for_its_batch)
{
	publish_mixed(a, 1000);
	queue_refill(a->queue);
	delete_queue(a);
	run_all();
	make_queue(a, true);
	publish_mixed(a, 1000);
	drain(a);
}
END_TEST

START_TEST(test_get_until_empty)
{
	publish_mixed(a, LONG);
	while (get(a, a->ready % 3 == 0))
		if (a->held_count > 100)
			settle(a, 50, a->ready % 2 == 0 ? SETTLE_ACK : SETTLE_REJECT);
	check_all();
	ck_assert_uint_eq(a->ready, 0);
}
END_TEST

/* A get must find something though publishes to other queues take the window away before and after. */
START_TEST(test_get_between_evictions)
{
	broker->options.cache_size = 0;
	publish_mixed(a, 500);
	run_all();
	for (int i = 0; i < 100; i++) {
		publish(b, 10, true);
		ck_assert(get(a, true));
		publish(b, 10, true);
	}
	check_all();
	drain(a);
	drain(b);
}
END_TEST

/* A read that finds nothing where it looks first goes on where the messages are. */
START_TEST(test_get_behind_files_of_another_queue)
{
	broker->options.cache_size = 0;
	for (int i = 0; i < 60; i++) {
		publish(b, 100000, true);
		run_all();
	}
	publish_many(a, 10, 10, true);
	run_all();
	ck_assert(get(a, true));
	restart(false);
	ck_assert(get(a, true));
	drain(a);
	drain(b);
}
END_TEST

/* Damages the body of the first message that has these octets in it. */
static void
damage(struct bytes octets)
{
	char path[64];

	for (int id = 1; id < 10; id++) {
		size_t size;
		uint8_t *p;
		uint8_t *at;

		(void)snprintf(path, sizeof(path), "log/%010d.seg", id);
		p = disk_sim_content(disk, path, &size);
		at = p == NULL ? NULL : memmem(p, size, octets.p, octets.n);
		if (at == NULL)
			continue;
		at[octets.n + 1000] ^= 1;
		return;
	}
	ck_abort_msg("it is not there");
}

START_TEST(test_get_goes_on_behind_a_damaged_message)
{
	file_size =
		8 * QUEUE_WINDOW_OCTETS; // so that its file is not sealed, which reads all of it
	restart(true);
	broker->options.cache_size = 0;
	publish_many(a, 1, 2 * QUEUE_WINDOW_OCTETS, true);
	publish_many(a, 10, 10, true);
	run_all();
	damage(BYTES("m.0"));
	a->items[0].state = ITEM_GONE;
	ck_assert(get(a, true));
	a->ready--;
	drain(a);
	close_all(false);
	disk_sim_free(&disk);
	begin_all();
}
END_TEST

/* Damages the index of every sealed file. */
static void
damage_indexes(void)
{
	char path[64];
	unsigned count = 0;

	for (int id = 1; id < 40; id++) {
		size_t size;
		uint8_t *p;

		(void)snprintf(path, sizeof(path), "log/%010d.seg", id);
		p = disk_sim_content(disk, path, &size);
		if (p == NULL || memcmp(p + size - TRAILER_SIZE, TRAILER_MAGIC, 8) != 0)
			continue;
		p[size - TRAILER_SIZE - 1] ^= 1;
		count++;
	}
	ck_assert_uint_gt(count, 2);
}

/* Damaged with their index, messages are nowhere; nobody waits for them. */
START_TEST(test_what_is_behind_lost_messages_comes)
{
	file_size = 128 * 1024;
	restart(true);
	broker->options.cache_size = 0;
	for (int i = 0; i < 60; i++) {
		publish(a, 10000, true);
		run_all();
	}
	publish(a, 10, false);
	publish(a, 10, true);
	damage(BYTES("m.3"));
	damage(BYTES("m.11"));
	damage_indexes();
	a->items[3].state = a->items[11].state = ITEM_GONE;
	a->ready -= 2;
	for (int i = 0; i < 20; i++)
		ck_assert(get(a, true));
	drain(a);
	check_all();
	ck_assert(!get(a, true));
	publish(a, 10, true);
	ck_assert(get(a, true));
	/* they are open, and counted until somebody looks for them again */
	close_all(true);
	open_all();
	vhost = vhost_find(broker, BYTES("v"));
	a->queue = queue_find(vhost, BYTES("q0"));
	ck_assert_uint_eq(queue_message_count(a->queue), 2);
	ck_assert(!get(a, true));
	check_all();
}
END_TEST

START_TEST(test_get_answers_though_all_is_lost)
{
	file_size = 128 * 1024;
	restart(true);
	broker->options.cache_size = 0;
	publish(a, 10000, true);
	for (int i = 0; i < 60; i++) {
		publish(b, 10000, true);
		run_all();
	}
	damage(BYTES("m.0"));
	damage_indexes();
	a->items[0].state = ITEM_GONE;
	a->ready--;
	ck_assert_uint_eq(queue_message_count(a->queue), 1);
	ck_assert(!get(a, true));
	check_all();
	drain(b);
}
END_TEST

START_TEST(test_eviction_gives_up_the_window)
{
	fill_window(a);
	run_all();
	broker->options.cache_size = 1000;
	publish(b, 10, true);
	ck_assert_uint_eq(at_hand(a), 0);
	ck_assert_uint_eq(a->queue->log->cold_count, QUEUE_WINDOW_COUNT);
	ck_assert_uint_le(broker->resident_octets, 1000);
	check_all();
	drain(a);
	drain(b);
}
END_TEST

/* Of others that are unacked some may lie between them. */
START_TEST(test_eviction_leaves_requeued_ones)
{
	fill_window(a);
	consume(a, 100, false);
	run_all();
	cancel(a);
	for (int i = 0; i < 50; i++)
		settle(a, 0, SETTLE_REQUEUE);
	broker->options.cache_size = 1000;
	publish(b, 10, true);
	ck_assert_uint_eq(at_hand(a), 50);
	settle_all(a, SETTLE_REQUEUE);
	check_all();
	drain(a);
}
END_TEST

/* Every second one was settled. */
START_TEST(test_eviction_gives_up_requeued_ones_when_nothing_is_unacked)
{
	publish_mixed(a, LONG);
	consume(a, LONG, false);
	run_all();
	ck_assert_uint_eq(a->held_count, LONG);
	cancel(a);
	for (size_t i = LONG; i > 0; i -= 2)
		settle(a, i - 1, SETTLE_ACK);
	settle_all(a, SETTLE_REQUEUE);
	ck_assert_uint_eq(at_hand(a), LONG / 2);
	run_all();
	broker->options.cache_size = 1000;
	publish(b, 10, true);
	ck_assert_uint_eq(at_hand(a), 0);
	check_all();
	publish_mixed(a, 500);
	drain(a);
	drain(b);
}
END_TEST

START_TEST(test_a_window_that_nobody_wants_is_given_up)
{
	fill_window(a);
	publish_many(b, 100, 10, true);
	consume(b, 10, false);
	run_all();
	pass_time(4000);
	ck_assert_uint_eq(at_hand(a), QUEUE_WINDOW_COUNT);
	pass_time(2000);
	ck_assert_uint_eq(at_hand(a), 0);
	ck_assert_uint_eq(at_hand(b), 90); // it has a consumer
	check_all();
	ck_assert(get(a, true));
	ck_assert_uint_gt(at_hand(a), 0);
	pass_time(4000);
	ck_assert_uint_gt(at_hand(a), 0);
	cancel(b);
	pass_time(2000);
	ck_assert_uint_eq(at_hand(a), 0);
	ck_assert_uint_eq(at_hand(b), 0);
	ck_assert(!deadline_is_set(&broker->rest));
	check_all();
	settle_all(b, SETTLE_REQUEUE);
	drain(a);
	drain(b);
}
END_TEST

START_TEST(test_eviction_spares_queues_with_takers)
{
	publish_many(a, 1000, 1000, true);
	consume(a, 10, false);
	run_all();
	consume(b, 0, false);
	check_all();
	take_more(a, 1);
	publish_many(b, 100, 10, true);
	ck_assert_uint_gt(at_hand(a), 0);
	drain(a);
	drain(b);
}
END_TEST

/* As long as that is not much more than the cache. */
START_TEST(test_eviction_spares_what_was_read_lately)
{
	publish_many(a, 1000, 100, true);
	run_all();
	broker->options.cache_size = 30000;
	publish_many(b, 300, 100, true);
	ck_assert_uint_eq(at_hand(a), 0);
	reads = 0;
	for (int i = 0; i < 100; i++) {
		ck_assert(get(a, true));
		publish(b, 100, true);
	}
	ck_assert_uint_lt(reads, 1000);
	ck_assert_uint_gt(at_hand(a), 0);
	advance(1000);
	publish(b, 100, true);
	ck_assert_uint_eq(at_hand(a), 0);
	check_all();
	drain(a);
	drain(b);
}
END_TEST

START_TEST(test_consumers_come_and_go)
{
	publish_mixed(a, LONG);
	for (uint32_t i = 0; i < 40; i++) {
		consume(a, 37 + i, i % 4 == 0);
		step_store();
		dispatch();
		step_store();
		dispatch();
		cancel(a);
		publish_mixed(a, 30);
		if (i % 3 == 0)
			settle_all(a, SETTLE_REQUEUE);
	}
	settle_all(a, SETTLE_ACK);
	drain(a);
}
END_TEST

START_TEST(test_prefetch_of_one)
{
	publish_mixed(a, LONG);
	consume(a, 1, false);
	run_all();
	while (a->ready > 0) {
		ck_assert_uint_eq(a->held_count, 1);
		settle(a, 0,
		       a->items[a->held[0].item].id % 5 == 0 && a->queue->redeliver_count < 50
			       ? SETTLE_REQUEUE
			       : SETTLE_ACK);
		dispatch();
		while (a->held_count == 0) {
			step_store();
			dispatch();
		}
	}
	check_all();
}
END_TEST

START_TEST(test_fan_out_to_a_cold_and_a_warm_queue)
{
	struct listed *both[] = {b, a, transient};

	consume(b, 0, false);
	publish_mixed(a, LONG);
	consume(b + 1, UINT32_MAX, true);
	for (int i = 0; i < 2000; i++) {
		publish_to(both, 3, 100, i % 5 != 0);
		take_more(b, 0);
		b->limit = b->used + 1;
		if (i % 100 == 0)
			run_all();
	}
	ck_assert_uint_gt(a->queue->log->cold_count, 2000);
	settle_all(b, SETTLE_ACK);
	run_all();
	restart(false);
	drain(a);
	drain(b);
}
END_TEST

START_TEST(test_redelivered_after_a_crash)
{
	publish_many(a, LONG, 10, true);
	publish_many(b, LONG, 10, true);
	consume(a, 100, false);
	run_all();
	restart(false);
	ck_assert(get(a, false));
	ck_assert(a->held[0].entry.bits & ENTRY_REDELIVERED);
	ck_assert(get(b, false));
	ck_assert(!(b->held[0].entry.bits & ENTRY_REDELIVERED));
	drain(a);
	drain(b);
}
END_TEST

START_TEST(test_redelivered_after_a_clean_end)
{
	publish_many(a, LONG, 10, true);
	consume(a, 100, false);
	run_all();
	cancel(a);
	settle(a, 99, SETTLE_ACK);
	restart(true);
	ck_assert_uint_eq(a->ready, LONG - 1);
	drain(a);
}
END_TEST

START_TEST(test_acks_of_what_was_cold_survive)
{
	publish_many(a, LONG, 300, true);
	run_all();
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 1000; i++)
			ck_assert(get(a, i % 2 == 0));
		for (int i = 0; i < 400; i++)
			settle(a, a->held_count / 2, SETTLE_ACK);
		run_all();
		restart(round % 2 == 0);
	}
	drain(a);
}
END_TEST

/* ---- publishers that wait ---- */

static int gone_on;

static void
go_on(struct yielder *yielder)
{
	(void)yielder;
	gone_on++;
}

/* A publisher waits until that many have been taken, and not before the rest of them has. */
static void
wait_until_taken(unsigned some, unsigned rest)
{
	struct yielder yielder = {.go_on = go_on};

	ck_assert(queue_wants_yield(a->queue));
	yielder_wait(&yielder, a->queue);
	take_more(a, some);
	run_all();
	ck_assert_int_eq(gone_on, 0);
	take_more(a, rest);
	run_all();
	ck_assert_int_eq(gone_on, 1);
	cancel(a);
}

START_TEST(test_publishers_wait_for_cold_messages_too)
{
	publish_many(a, 1000, 1000, true);
	run_all();
	ck_assert(!queue_wants_yield(a->queue));
	consume(a, 1, false);
	run_all();
	wait_until_taken(500, 450);
}
END_TEST

START_TEST(test_publishers_wait_before_the_window_is_full)
{
	consume(a, 1, false);
	publish_many(a, 1 + QUEUE_WINDOW_COUNT / 4, 1, true);
	run_all();
	ck_assert(!queue_wants_yield(a->queue));
	publish_many(a, 1, 1, true);
	wait_until_taken(QUEUE_WINDOW_COUNT / 8, 1);
}
END_TEST

START_TEST(test_purge_lets_publishers_go_on)
{
	struct yielder yielder = {.go_on = go_on};

	publish_many(a, 1000, 1000, true);
	yielder_wait(&yielder, a->queue);
	purge(a);
	ck_assert_int_eq(gone_on, 1);
}
END_TEST

TESTS_WITH("queue_cold", cold_set_up, cold_tear_down, test_window_ends_by_count,
	   test_window_ends_by_octets, test_nothing_is_at_hand_without_takers_and_cache,
	   test_messages_without_a_record_keep_their_place,
	   test_messages_without_a_record_outlive_an_eviction, test_requeued_ones_come_first,
	   test_requeue_of_more_than_a_window, test_purge_drops_all_of_it,
	   test_purge_before_anything_was_written, test_purge_while_a_read_is_on_its_way,
	   test_delete_while_a_read_is_on_its_way, test_delete_while_a_read_waits_for_its_batch,
	   test_get_until_empty, test_get_between_evictions, test_get_behind_files_of_another_queue,
	   test_get_goes_on_behind_a_damaged_message, test_what_is_behind_lost_messages_comes,
	   test_get_answers_though_all_is_lost, test_eviction_gives_up_the_window,
	   test_eviction_leaves_requeued_ones,
	   test_eviction_gives_up_requeued_ones_when_nothing_is_unacked,
	   test_a_window_that_nobody_wants_is_given_up, test_eviction_spares_queues_with_takers,
	   test_eviction_spares_what_was_read_lately, test_consumers_come_and_go,
	   test_prefetch_of_one, test_fan_out_to_a_cold_and_a_warm_queue,
	   test_redelivered_after_a_crash, test_redelivered_after_a_clean_end,
	   test_acks_of_what_was_cold_survive, test_publishers_wait_for_cold_messages_too,
	   test_publishers_wait_before_the_window_is_full, test_purge_lets_publishers_go_on)
