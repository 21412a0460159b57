/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operator does with what waits: lists it, looks at it, releases and cancels it, in memory and on the disk.
 */
#include "unit/waiting_fixture.h"

#define HOUR_MS 3600000
#define PAGE 100

/* ---- answers ---- */

static struct waiting_item items[5 * PAGE];
static uint32_t item_count;
static unsigned answers;
static bool found;
static uint32_t shown_number; // UINT32_MAX: nothing was shown

static void
on_list(void *context, const struct waiting_item *page, uint32_t count)
{
	ck_assert_ptr_eq(context, &answers);
	ck_assert_uint_le(count, countof(items));
	if (count > 0)
		memcpy(items, page, count * sizeof(*items));
	item_count = count;
	answers++;
}

static void
on_done(void *context, bool was_found)
{
	ck_assert_ptr_eq(context, &answers);
	found = was_found;
	answers++;
}

static void
on_shown(void *context, const struct message *m)
{
	struct basic_properties properties;
	char key[16] = "";

	ck_assert_ptr_eq(context, &answers);
	answers++;
	shown_number = UINT32_MAX;
	if (m == NULL)
		return;
	ck_assert(properties_decode(&properties, message_properties(m)));
	memcpy(key, properties.message_id.p, properties.message_id.n);
	shown_number = (uint32_t)strtoul(key + 2, NULL, 10);
}

static void
wait_for_answer(void)
{
	for (int i = 0; answers == 0; i++) {
		ck_assert_int_lt(i, 100);
		turn();
	}
	ck_assert_uint_eq(answers, 1);
	answers = 0;
	broker_check(broker);
}

static void
list(struct waiting_key after, uint32_t max)
{
	waiting_room_list(room(), after, max, on_list, &answers);
	wait_for_answer();
}

static bool
cancel_one(struct waiting_key key)
{
	waiting_room_cancel(room(), key, on_done, &answers);
	wait_for_answer();
	return found;
}

static bool
release_one(struct waiting_key key)
{
	waiting_room_release(room(), key, on_done, &answers);
	wait_for_answer();
	return found;
}

static uint32_t
show_one(struct waiting_key key)
{
	waiting_room_show(room(), key, on_shown, &answers);
	wait_for_answer();
	return shown_number;
}

static const struct waiting_key start = {0, 0};

/* All items of the room by pages of this size; they must be in order. */
static uint64_t
count_by_pages(uint32_t max)
{
	struct waiting_key after = start;
	uint64_t count = 0;

	do {
		list(after, max);
		ck_assert_uint_le(item_count, max);
		for (uint32_t i = 0; i < item_count; i++) {
			ck_assert(items[i].key.due_ms > after.due_ms ||
				  (items[i].key.due_ms == after.due_ms &&
				   items[i].key.number > after.number));
			after = items[i].key;
		}
		count += item_count;
	} while (item_count == max);
	return count;
}

/* ---- the messages ---- */

/* So many, some in memory, due in an hour and more, in no order: number i is due at the place i * 7919 mod count. */
static void
fill(uint32_t count, uint32_t size, unsigned loose_each)
{
	for (uint32_t i = 0; i < count; i++) {
		delay(i, size, HOUR_MS + (int64_t)(i * 7919ULL % count),
		      loose_each == 0 || i % loose_each != 0);
		if (broker_store_full(broker))
			step_store();
	}
	turns(5);
}

START_TEST(test_pages_list_all_of_it)
{
	fill(4000, 300, 10);
	ck_assert_uint_eq(count_by_pages(PAGE), 4000);
	ck_assert_uint_eq(count_by_pages(3), 4000);
	list(start, 1);
	ck_assert_uint_eq(items[0].body_size, 300);
	start_again(false);
	ck_assert_uint_eq(count_by_pages(PAGE), 3600);
	ck_assert_uint_eq(waiting(), 3600);
	/* those at hand are listed once */
	list(start, 1);
	turns(items[0].key.due_ms - 300 - present_now.wall_ms);
	ck_assert_uint_gt(room()->count, 100);
	ck_assert_uint_eq(count_by_pages(PAGE), 3600);
	ck_assert_uint_eq(waiting(), 3600);
}
END_TEST

START_TEST(test_what_went_is_not_listed)
{
	uint64_t before;
	uint64_t listed;

	fill(2000, 10, 0);
	turns(HOUR_MS + 995);
	/* some go while others are listed */
	before = waiting();
	listed = count_by_pages(PAGE);
	ck_assert_uint_le(listed, before);
	ck_assert_uint_ge(listed, waiting());
	ck_assert_uint_lt(before, 1100);
	turns(2000);
	ck_assert_uint_eq(count_by_pages(PAGE), 0);
}
END_TEST

START_TEST(test_one_is_shown_and_stays)
{
	fill(3000, 10, 3);
	list(start, PAGE);
	/* the item at this place is that with this number */
	for (uint32_t n = 0; n < PAGE; n += 9)
		ck_assert_uint_eq(show_one(items[n].key) * 7919ULL % 3000, n);
	ck_assert_uint_eq(broker->times->soon_count, 0);
	ck_assert_uint_eq(waiting(), 3000);
	items[0].key.due_ms++;
	ck_assert_uint_eq(show_one(items[0].key), UINT32_MAX);
	ck_assert_uint_eq(show_one(start), UINT32_MAX);
}
END_TEST

START_TEST(test_one_is_cancelled)
{
	struct waiting_key key;

	fill(3000, 10, 3);
	list(start, PAGE);
	for (uint32_t i = 0; i < PAGE; i += 2) {
		key = items[i].key;
		ck_assert(cancel_one(key));
		ck_assert(!cancel_one(key));
		ck_assert(!release_one(key));
	}
	ck_assert_uint_eq(waiting(), 3000 - PAGE / 2);
	ck_assert_uint_eq(count_by_pages(PAGE), waiting());
	run_all();
	start_again(false);
	ck_assert_uint_eq(waiting(), 2000 - PAGE / 3);
	turns(HOUR_MS + 3000);
	ck_assert_uint_eq(waiting(), 0);
	ck_assert_uint_eq(queue_message_count(out), 2000 - PAGE / 3);
}
END_TEST

START_TEST(test_one_is_released)
{
	uint32_t expected[3];

	fill(3000, 10, 3);
	for (uint32_t i = 0; i < 3; i++) {
		list(start, PAGE);
		expected[i] = show_one(items[50].key);
		list(start, PAGE);
		ck_assert(release_one(items[50].key));
		turns(5);
	}
	ck_assert_uint_eq(waiting(), 2997);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(take(NULL), expected[i]);
	ck_assert_uint_eq(take(NULL), UINT32_MAX);
	list(start, PAGE);
	ck_assert(!release_one((struct waiting_key){items[0].key.due_ms, 1000000}));
}
END_TEST

/* In the order in which they would have come; what comes meanwhile waits for its time. */
START_TEST(test_all_are_released)
{
	enum {
		COUNT = 3000
	};
	uint32_t number;
	uint32_t n = 0;

	fill(COUNT, 10, 3);
	ck_assert_uint_eq(waiting_room_release_all(room()), COUNT);
	turn();
	delay(COUNT, 10, 50, true);
	delay(COUNT + 1, 10, HOUR_MS / 2, true);
	delay(COUNT + 2, 10, HOUR_MS / 2, false);
	for (int i = 0; i < 30 && waiting() > 3; i++) {
		turn();
		ck_assert_uint_le(broker->times->soon_count, QUEUE_WINDOW_COUNT);
	}
	ck_assert_uint_eq(waiting(), 3);
	for (; (number = take(NULL)) != UINT32_MAX; n++)
		if (n < COUNT)
			ck_assert_uint_eq(number * 7919ULL % COUNT, n);
	ck_assert_uint_ge(n, COUNT);
	turns(60);
	ck_assert_uint_eq(waiting(), 2);
	run_all();
	start_again(false);
	ck_assert_uint_eq(waiting(), 1);
	/* and once more, when there is nothing on the disk */
	waiting_room_cancel_all(room());
	delay(1, 10, HOUR_MS, false);
	ck_assert_uint_eq(waiting_room_release_all(room()), 1);
	turn();
	ck_assert_uint_eq(waiting(), 0);
}
END_TEST

START_TEST(test_all_are_cancelled)
{
	fill(3000, 10, 3);
	turns(HOUR_MS - 100);
	ck_assert_uint_gt(room()->count, 1000);
	ck_assert_uint_gt(broker->times->soon_count, 0);
	ck_assert_uint_eq(waiting_room_cancel_all(room()), 3000);
	ck_assert_uint_eq(waiting(), 0);
	ck_assert_uint_eq(broker->times->soon_count, 0);
	broker_check(broker);
	delay(5000, 10, 10, true);
	turns(20);
	expect(5000, 1);
	turns(4000);
	ck_assert_uint_eq(queue_message_count(out), 0);
	start_again(false);
	ck_assert_uint_eq(waiting(), 0);
}
END_TEST

/* While all go, some are cancelled, and then all that are left. */
START_TEST(test_a_flood_is_stopped)
{
	fill(3000, 10, 0);
	waiting_room_release_all(room());
	turn();
	ck_assert_uint_gt(waiting(), 0);
	waiting_room_cancel_all(room());
	turns(10);
	ck_assert_uint_eq(waiting(), 0);
	ck_assert_uint_lt(queue_message_count(out), 3000);
	broker_check(broker);
}
END_TEST

/* Whoever asked hears of the end of the room, once. */
START_TEST(test_a_room_that_ends_answers)
{
	fill(2000, 10, 0);
	list(start, 1);
	waiting_room_list(room(), start, 10, on_list, &answers);
	waiting_room_show(room(), items[0].key, on_shown, &answers);
	waiting_room_cancel(room(), items[0].key, on_done, &answers);
	waiting_room_release_all(room());
	exchange_delete(x);
	ck_assert_uint_eq(answers, 3);
	ck_assert_uint_eq(item_count, 0);
	ck_assert(!found);
	turns(10);
	ck_assert_uint_eq(answers, 3);
	answers = 0;
}
END_TEST

/* The same while the message that is shown is being read. */
START_TEST(test_a_room_that_ends_answers_who_waits_for_a_read)
{
	fill(100, 10, 0);
	list(start, 1);
	waiting_room_show(room(), items[0].key, on_shown, &answers);
	store_work(store);
	store_receive(store);
	ck_assert_uint_eq(answers, 0);
	ck_assert_uint_eq(room()->count, 1);
	exchange_delete(x);
	ck_assert_uint_eq(answers, 1);
	turns(10);
	answers = 0;
}
END_TEST

TESTS_WITH("waiting_list", waiting_set_up, cold_tear_down, test_pages_list_all_of_it,
	   test_what_went_is_not_listed, test_one_is_shown_and_stays, test_one_is_cancelled,
	   test_one_is_released, test_all_are_released, test_all_are_cancelled,
	   test_a_flood_is_stopped, test_a_room_that_ends_answers,
	   test_a_room_that_ends_answers_who_waits_for_a_read)
