/* SPDX-License-Identifier: Apache-2.0 */
/* Paging when things happen to a queue while a job is on its way, and when the disk does not do its part. */
#include "unit/page_fixture.h"

/* ---- while a job is on its way ---- */

START_TEST(test_handed_out_while_it_is_written)
{
	publish_many(list, LONG, SIZE);
	send_job();
	consume(list, LONG, false);
	dispatch();
	ck_assert_uint_eq(list->held_count, LONG);
	work();
	ck_assert_uint_eq(stub_count(list), 0);
	settle_all(list, SETTLE_ACK);
	cancel(list);
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_requeued_while_it_is_written)
{
	publish_many(list, LONG, SIZE);
	send_job();
	consume(list, 1500, false);
	dispatch();
	settle_all(list, SETTLE_REQUEUE);
	cancel(list);
	settle_all(list, SETTLE_REQUEUE);
	work();
	ck_assert_uint_gt(stub_count(list), 300);
	drain(list);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_purged_while_it_is_written)
{
	publish_many(list, LONG, SIZE);
	send_job();
	purge(list);
	publish_many(list, LONG, SIZE);
	work();
	ck_assert_uint_eq(stub_count(list), 0);
	ck_assert_uint_eq(file_count(), 0);
	page_out();
	ck_assert_uint_gt(stub_count(list), LONG / 2);
	purge(list);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_deleted_while_it_is_written)
{
	publish_many(list, LONG, SIZE);
	send_job();
	delete_queue(list);
	work();
	ck_assert_uint_eq(file_count(), 0);
	make_queue(list, false);
	publish_many(list, LONG, SIZE);
	page_out();
	delete_queue(list);
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

/* A read is on its way, and a consumer waits for it. */
static void
send_read(void)
{
	publish_many(list, LONG, SIZE);
	page_out();
	consume(list, UINT32_MAX, false);
	dispatch();
	ck_assert(queue_must_read(list->queue));
}

START_TEST(test_purged_while_it_is_read)
{
	send_read();
	purge(list);
	ck_assert(!queue_must_read(list->queue));
	publish_many(list, 10, SIZE);
	work();
	ck_assert_uint_eq(file_count(), 0);
	run_all();
	ck_assert_uint_eq(list->queue->ready_count, 0);
	settle_all(list, SETTLE_ACK);
	cancel(list);
}
END_TEST

START_TEST(test_deleted_while_it_is_read)
{
	send_read();
	delete_queue(list);
	settle_all(list, SETTLE_REQUEUE);
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_cancelled_and_requeued_while_it_is_read)
{
	send_read();
	cancel(list);
	settle_all(list, SETTLE_REQUEUE);
	work();
	page_out();
	drain(list);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_the_end_with_pages_and_jobs)
{
	send_read();
	publish_many(other, LONG, SIZE);
	send_job();
	restart(true);
	ck_assert_uint_eq(file_count(), 0);
	send_read();
	publish_many(other, LONG, SIZE);
	send_job();
	restart(false);
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

/* ---- what goes wrong ---- */

static void
fail_all(enum disk_sim_kind kind, int error)
{
	disk_sim_fail(
		disk,
		(struct disk_sim_fault){
			.kind = kind, .path = "page/", .at = 1, .for_ever = true, .error = error});
}

START_TEST(test_a_full_disk_is_tried_again)
{
	publish_many(list, LONG, SIZE);
	fail_all(SIM_WRITE, -ENOSPC);
	broker->options.page_out_at = 0;
	broker_page_out(broker);
	work();
	ck_assert_int_eq(page_error, -ENOSPC);
	ck_assert_uint_eq(stub_count(list), 0);
	/* not at once */
	for (int i = 0; i < 100; i++)
		step_store();
	ck_assert_uint_eq(pages_out, 1);
	ck_assert(deadline_is_set(&broker->page_again));
	advance(5000);
	run_all();
	ck_assert_uint_eq(pages_out, 2);
	disk_sim_clear_faults(disk);
	advance(5000);
	page_out();
	ck_assert_uint_eq(stub_count(list), LONG - window_of(list));
	drain(list);
}
END_TEST

START_TEST(test_nothing_goes_while_the_disk_is_low)
{
	publish_many(list, LONG, SIZE);
	broker->alarms |= ALARM_DISK;
	page_out();
	ck_assert_uint_eq(pages_out, 0);
	broker->alarms = 0;
	page_out();
	ck_assert_uint_gt(pages_out, 0);
}
END_TEST

/* The model hears that this message is lost. */
static void
lose(struct listed *of, size_t item)
{
	of->items[item].state = ITEM_GONE;
	of->ready--;
}

static void
damage(const struct entry *entry)
{
	struct page_place place = message_page_place(entry->message);
	struct disk_file *file;
	char path[SIM_PATH_SIZE];

	(void)snprintf(path, sizeof(path), "page/%010u.page", 1);
	ck_assert_int_eq(disk_open(&disk->disk, path, DISK_WRITE, &file), 0);
	ck_assert_int_eq(disk_write(file, "damage", 6, place.offset + 100), 0);
	disk_close(&file);
}

/* A check of all would find the list ahead of the queue: what is lost is known when it was to be read. */
static void
drain_damaged(struct listed *of)
{
	consume(of, UINT32_MAX, true);
	for (int i = 0; of->queue->ready_count > 0; i++) {
		ck_assert_int_lt(i, 1000);
		dispatch();
		step_store();
	}
	cancel(of);
	check_all();
}

START_TEST(test_damaged_bodies_are_dropped)
{
	uint32_t first = 0;

	file_size = 8 * 1024 * 1024;
	restart(true);
	delete_queue(other);
	make_queue(other, false);
	publish_many(list, LONG, SIZE);
	page_out();
	ck_assert_uint_eq(file_count(), 1);
	first = at_hand(list);
	damage(entry_at(list, first));
	damage(entry_at(list, first + 1));
	damage(entry_at(list, first + 700));
	damage(entry_at(list, LONG - 1));
	lose(list, first);
	lose(list, first + 1);
	lose(list, first + 700);
	lose(list, LONG - 1);
	drain_damaged(list);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_a_damaged_head_does_not_hold_a_get)
{
	uint32_t first;

	publish_many(list, LONG, SIZE);
	page_out();
	first = at_hand(list);
	for (uint32_t i = 0; i < first; i++)
		ck_assert(get(list, true));
	/* more than one read brings */
	for (uint32_t i = 0; i < 200; i++) {
		damage(entry_at(list, i));
		lose(list, first + i);
	}
	ck_assert(get(list, true));
	check_all();
	purge(list);
}
END_TEST

START_TEST(test_bodies_that_cannot_be_read_are_dropped)
{
	publish_many(list, LONG, SIZE);
	publish_many(durable, LONG, SIZE);
	page_out();
	fail_all(SIM_READ, -EIO);
	for (uint32_t i = at_hand(list); i < LONG; i++)
		lose(list, i);
	drain_damaged(list);
	for (uint32_t i = at_hand(durable); i < LONG; i++)
		lose(durable, i);
	drain_damaged(durable);
	ck_assert_uint_eq(qseq_set_next_open(&durable->queue->log->settled, 1),
			  durable->queue->next_qseq);
	disk_sim_clear_faults(disk);
	publish_many(list, 10, SIZE);
	publish_many(durable, 10, SIZE);
	run_all();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

TESTS_WITH("queue_page_jobs", page_set_up, page_tear_down, test_handed_out_while_it_is_written,
	   test_requeued_while_it_is_written, test_purged_while_it_is_written,
	   test_deleted_while_it_is_written, test_purged_while_it_is_read,
	   test_deleted_while_it_is_read, test_cancelled_and_requeued_while_it_is_read,
	   test_the_end_with_pages_and_jobs, test_a_full_disk_is_tried_again,
	   test_nothing_goes_while_the_disk_is_low, test_damaged_bodies_are_dropped,
	   test_a_damaged_head_does_not_hold_a_get, test_bodies_that_cannot_be_read_are_dropped)
