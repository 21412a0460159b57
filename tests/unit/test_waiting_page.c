/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of waiting rooms without a record, while memory is short: their bodies go to page files, and are back in
 * time.
 */

#include "unit/waiting_fixture.h"

#define SIZE 1000
/* About two head windows. */
#define COUNT 4000
#define WAIT_MS 20000

static uint32_t
stubs(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < room()->count; i++)
		n += waiting_is_paged(room()->heap[i]);
	return n;
}

/* Number i is due i / 10 ms after the first one. */
static void
fill(void)
{
	for (uint32_t i = 0; i < COUNT; i++)
		delay(i, SIZE, WAIT_MS + i / 10, false);
}

/* Everything is paged out that may be. */
static void
page_out(void)
{
	broker->options.page_out_at = 0;
	run_all();
	broker->options.page_out_at = UINT64_MAX;
}

/* The bodies are those that were sent. */
static void
check_bodies(uint32_t count)
{
	while (count-- > 0) {
		struct basic_properties properties;
		struct message *expected;
		struct entry entry;
		char key[16] = "";

		ck_assert(queue_get(out, true, &entry));
		ck_assert(properties_decode(&properties, message_properties(entry.message)));
		memcpy(key, properties.message_id.p, properties.message_id.n);
		expected = make_message((uint32_t)strtoul(key + 2, NULL, 10), SIZE, false);
		ck_assert(bytes_equal(message_body(entry.message), message_body(expected)));
		message_unref(expected);
		message_unref(entry.message);
	}
	ck_assert_uint_eq(queue_message_count(out), 0);
}

START_TEST(test_bodies_go_and_are_back_in_time)
{
	uint64_t due;

	fill();
	due = present_now.wall_ms + WAIT_MS;
	page_out();
	ck_assert_uint_eq(stubs(), COUNT);
	ck_assert_uint_eq(waiting(), COUNT);
	ck_assert_uint_eq(waiting_room_octets(room()), COUNT * SIZE);
	turns(due - 1 - present_now.wall_ms);
	ck_assert_uint_eq(waiting(), COUNT);
	ck_assert_uint_lt(stubs(), COUNT);
	for (uint32_t i = 0; i < COUNT / 10; i++) {
		turn();
		/* ten of each millisecond */
		ck_assert_uint_eq(queue_message_count(out), 10 * (i + 1));
	}
	turn();
	check_bodies(COUNT);
	store_page_check(store);
}
END_TEST

START_TEST(test_few_stay)
{
	for (uint32_t i = 0; i < QUEUE_WINDOW_COUNT; i++)
		delay(i, SIZE, WAIT_MS, false);
	page_out();
	ck_assert_uint_eq(stubs(), 0);
}
END_TEST

START_TEST(test_what_is_due_soon_stays)
{
	for (uint32_t i = 0; i < COUNT; i++)
		delay(i, SIZE, i % 2 == 0 ? 1500 : WAIT_MS, false);
	broker->options.page_out_at = 0;
	for (int i = 0; i < 10; i++) {
		broker_page_out(broker);
		store_work(store);
		store_receive(store);
		deadlines_run(&deadlines, present_now.monotonic_ms);
	}
	broker->options.page_out_at = UINT64_MAX;
	ck_assert_uint_gt(stubs(), 0);
	for (uint32_t i = 0; i < room()->count; i++)
		ck_assert(!waiting_is_paged(room()->heap[i]) ||
			  room()->heap[i]->due_ms > present_now.wall_ms + 2000);
	turns(WAIT_MS + 10);
	check_bodies(COUNT);
}
END_TEST

/* Stubs are released, shown and cancelled like others. */
static unsigned shown;
static unsigned done;

static void
on_shown(void *context, const struct message *m)
{
	(void)context;
	ck_assert_ptr_nonnull(m);
	ck_assert_uint_eq(message_body(m).n, SIZE);
	ck_assert(!(m->flags & MESSAGE_PAGED));
	shown++;
}

static void
on_done(void *context, bool found)
{
	(void)context;
	ck_assert(found);
	done++;
}

START_TEST(test_stubs_are_looked_after)
{
	struct waiting_key keys[3];

	shown = done = 0;
	fill();
	page_out();
	for (uint32_t i = 0; i < 3; i++)
		keys[i] = waiting_key_of(room()->heap[1000 + i]);
	waiting_room_show(room(), keys[0], on_shown, NULL);
	ck_assert_uint_eq(shown, 0);
	turns(2);
	ck_assert_uint_eq(shown, 1);
	waiting_room_cancel(room(), keys[1], on_done, NULL);
	waiting_room_release(room(), keys[2], on_done, NULL);
	turns(3);
	ck_assert_uint_eq(done, 2);
	ck_assert_uint_eq(waiting(), COUNT - 2);
	check_bodies(1);
	waiting_room_release_all(room());
	for (int i = 0; i < 200 && waiting() > 0; i++)
		turn();
	check_bodies(COUNT - 2);
	store_page_check(store);
}
END_TEST

START_TEST(test_a_room_goes_while_bodies_are_on_their_way)
{
	for (int in = 0; in < 2; in++) {
		waiting_fixture_make();
		fill();
		if (in) {
			page_out();
			waiting_page_in(room(), room()->heap[0]);
			ck_assert(room()->paging_in);
		} else {
			broker->options.page_out_at = 0;
			broker_page_out(broker);
			broker->options.page_out_at = UINT64_MAX;
			ck_assert_ptr_nonnull(broker->paging_out);
		}
		exchange_delete(x);
		run_all();
		broker_reap(broker);
		store_page_check(store);
	}
	waiting_fixture_make();
}
END_TEST

/* A message that waits in a room and lies in a queue is written once. */
START_TEST(test_a_stub_is_shared)
{
	struct listed *loose = &lists[2];
	struct binding_spec binding = {.source = x, .queue = loose->queue, .key = BYTES("")};

	fill();
	page_out();
	binding_add(&binding);
	turns(WAIT_MS + COUNT / 10 + 10);
	ck_assert_uint_eq(queue_message_count(loose->queue), COUNT);
	ck_assert_uint_eq(queue_message_count(out), COUNT);
	queue_purge(loose->queue);
	check_bodies(COUNT);
	binding_remove(&binding);
	store_page_check(store);
}
END_TEST

TESTS_WITH("waiting_page", waiting_set_up, cold_tear_down, test_bodies_go_and_are_back_in_time,
	   test_few_stay, test_what_is_due_soon_stays, test_stubs_are_looked_after,
	   test_a_room_goes_while_bodies_are_on_their_way, test_a_stub_is_shared)
