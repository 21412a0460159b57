/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a queue has a time, listed a page at a time: all of it that is not settled and was not given, in order,
 * wherever it lies, while files are merged too.
 */
#include "merge_fixture.h"

#include "store_cold_fixture.h"

#define PAGE 7
#define LISTED_MAX 4000

static struct store_deadline listed[LISTED_MAX];
static uint32_t listed_count;
static unsigned answers;

static void
set_up_list(void)
{
	set_up();
	f.timed = true;
}

static void
on_list(void *context, const struct store_deadline *items, uint32_t count)
{
	ck_assert_ptr_eq(context, &answers);
	ck_assert_uint_le(listed_count + count, LISTED_MAX);
	if (count > 0)
		memcpy(listed + listed_count, items, count * sizeof(*items));
	listed_count += count;
	answers++;
}

/* Adds a page to the list; how many items it has. */
static uint32_t
list_page(const struct queue_log *log, const struct store_deadline *after, uint32_t max)
{
	uint32_t before = listed_count;

	answers = 0;
	store_list_deadlines(f.store, log, after, max, on_list, &answers);
	ck_assert_uint_eq(answers, 0);
	while (answers == 0)
		ck_assert(store_fixture_work(&f));
	ck_assert_uint_eq(answers, 1);
	return listed_count - before;
}

/* All pages of a queue. */
static void
list_all(const struct queue_log *log, uint32_t max)
{
	struct store_deadline after = {0};

	listed_count = 0;
	while (list_page(log, &after, max) == max)
		after = listed[listed_count - 1];
}

/* The list is what the ledger says. Those that were given may be missing while they are in no section. */
static void
check_list(uint32_t queue)
{
	const struct queue_log *log = f.ledger.queues[queue].log;
	uint32_t expected = 0;
	uint32_t missing = 0;

	for (uint32_t i = 1; i < listed_count; i++)
		ck_assert(listed[i - 1].time_ms < listed[i].time_ms ||
			  (listed[i - 1].time_ms == listed[i].time_ms &&
			   listed[i - 1].qseq < listed[i].qseq));
	for (size_t i = 0; i < f.ledger.message_count; i++) {
		const struct ledger_message *message = &f.ledger.messages[i];

		for (uint32_t n = 0; n < message->ref_count; n++) {
			const struct ledger_ref *ref = &message->refs[n];
			uint64_t time_ms = ref->due_ms != 0 ? ref->due_ms : message->expiry_ms;
			bool found = false;

			if (ref->queue != queue || ref->settled != 0 || time_ms == 0)
				continue;
			expected++;
			for (uint32_t k = 0; k < listed_count && !found; k++) {
				const struct store_deadline *item = &listed[k];

				found = item->qseq == ref->qseq;
				if (!found)
					continue;
				ck_assert_ptr_eq(item->log, log);
				ck_assert_uint_eq(item->time_ms, time_ms);
				ck_assert_uint_eq(item->place.body_size, message->body_size);
				ck_assert_ptr_eq(segment_of(f.store, item->place.lsn),
						 segment_of(f.store, message->lsn));
			}
			ck_assert_msg(found || ref->given, "message %llu is not listed",
				      (unsigned long long)ref->qseq);
			missing += !found;
		}
	}
	ck_assert_uint_eq(listed_count, expected - missing);
}

/* Settles one in so many of what there is, or the others. */
static void
settle_some(unsigned one_in, bool others)
{
	for (size_t i = 0; i < f.ledger.message_count; i++)
		for (uint32_t n = 0; n < f.ledger.messages[i].ref_count; n++)
			if (f.ledger.messages[i].refs[n].settled == 0 &&
			    (i % one_in == 0) != others)
				store_fixture_ack_cold(&f, i, n, ACK_MOVED);
}

START_TEST(test_pages_have_all_of_it)
{
	uint32_t queues[2] = {store_fixture_queue(&f), store_fixture_queue(&f)};

	for (unsigned i = 0; i < 40; i++) {
		publish_flushed(queues[0], 8, 200);
		publish_flushed(queues[1], 8, 200);
	}
	/* in the batch that fills */
	publish(queues[0], 200);
	ck_assert_uint_gt(f.store->segment_count, 3);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < countof(queues); i++) {
			list_all(f.ledger.queues[queues[i]].log, round == 1 ? 1000 : PAGE);
			check_list(queues[i]);
			ck_assert_uint_gt(listed_count, 20);
		}
		settle_some(3 + round, false);
	}
}
END_TEST

START_TEST(test_sections_of_several_pieces)
{
	uint32_t queue;

	tear_down();
	store_fixture_init(&f, 2);
	f.cold = f.timed = true;
	f.push = PUSH_ALL;
	f.options.file_size = 256 * 1024;
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	publish_flushed(queue, 3000, 200);
	ck_assert_uint_ge(f.store->segment_count, 3);
	for (uint32_t max = 100; max <= LISTED_MAX; max += LISTED_MAX - 100) {
		list_all(f.ledger.queues[queue].log, max);
		check_list(queue);
		ck_assert_uint_gt(listed_count, 3 * TIMED_PIECE_ITEMS);
	}
}
END_TEST

START_TEST(test_it_is_listed_from_a_place_on)
{
	uint32_t queue = store_fixture_queue(&f);
	const struct queue_log *log = f.ledger.queues[queue].log;
	struct store_deadline all[100];

	publish_flushed(queue, 300, 200);
	list_all(log, 1000);
	ck_assert_uint_gt(listed_count, countof(all));
	memcpy(all, listed, sizeof(all));
	for (uint32_t i = 0; i + 1 < countof(all); i++) {
		listed_count = 0;
		ck_assert_uint_eq(list_page(log, &all[i], 1), 1);
		ck_assert_uint_eq(listed[0].qseq, all[i + 1].qseq);
	}
}
END_TEST

/* Whoever looks does not take anything away, and is not told of what was settled since. */
START_TEST(test_a_list_changes_nothing)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 300, 200);
	list_all(f.ledger.queues[queue].log, PAGE);
	check_list(queue);
	store_fixture_take_all(&f, UINT64_MAX / 2);
	ck_assert_uint_ge(f.given, listed_count);
}
END_TEST

START_TEST(test_files_are_merged_meanwhile)
{
	uint32_t queue = store_fixture_queue(&f);

	f.options.garbage_files = 3;
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	for (unsigned round = 0; round < 10; round++) {
		publish_flushed(queue, 100, 300);
		settle_some(4, true);
		for (unsigned i = 0; i < 30; i++) {
			struct store_deadline none = {0};

			listed_count = answers = 0;
			store_list_deadlines(f.store, f.ledger.queues[queue].log, &none, 1000,
					     on_list, &answers);
			while (answers == 0)
				merge_turn(&f);
			check_list(queue);
		}
	}
	merge_rest(&f);
	ck_assert_uint_gt(merged_segments(&f), 0);
}
END_TEST

/* The queue goes, or the store closes, while it is looked for: there is nothing then. */
START_TEST(test_who_asks_hears_of_the_end)
{
	struct store_deadline none = {0};
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 100, 300);
	listed_count = answers = 0;
	store_list_deadlines(f.store, f.ledger.queues[queue].log, &none, 10, on_list, &answers);
	store_fixture_drop(&f, queue);
	while (answers == 0)
		store_fixture_work(&f);
	ck_assert_uint_eq(listed_count, 0);
	queue = store_fixture_queue(&f);
	publish_flushed(queue, 100, 300);
	answers = 0;
	store_list_deadlines(f.store, f.ledger.queues[queue].log, &none, 10, on_list, &answers);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	ck_assert_uint_eq(answers, 1);
	ck_assert_int_eq(store_fixture_open(&f), 0);
}
END_TEST

TESTS_WITH("timed_list", set_up_list, tear_down, test_pages_have_all_of_it,
	   test_sections_of_several_pieces, test_it_is_listed_from_a_place_on,
	   test_a_list_changes_nothing, test_files_are_merged_meanwhile,
	   test_who_asks_hears_of_the_end)
