/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What exchanges and queues know of keys after a restart: those of messages that were stored; and what a confirm says of
 * them.
 */
#include "stored_keys_fixture.h"

static const bool stops[][2] = {{true, true}, {false, false}, {true, false}, {false, true}};

/* ---- what is known ---- */

START_TEST(test_an_exchange_knows_keys_after_restarts)
{
	declare("q");
	ask_for_it();
	ask("x-cache-size", 1000);
	declare_exchange("x", "q");
	for (uint32_t i = 0; i < countof(stops); i++) {
		for (uint32_t n = 0; n < 10; n++)
			ck_assert(publish_number("x", 10 * i + n));
		run_all();
		restart(stops[i][0]);
		restart(stops[i][1]);
		for (uint32_t n = 0; n < 10 * (i + 1); n++)
			ck_assert(!publish_number("x", n));
		ck_assert_uint_eq(state_of("x").count, 10 * (i + 1));
		ck_assert_uint_eq(queue_message_count(find("q")), 10 * (i + 1));
	}
	/* the messages may be gone */
	queue_purge(find("q"));
	run_all();
	restart(false);
	ck_assert(!publish_number("x", 0));
}
END_TEST

/* In the order of age, and no more than there may be. */
START_TEST(test_the_oldest_one_goes_after_a_restart)
{
	declare("q");
	ask_for_it();
	ask("x-cache-size", 5);
	declare_exchange("x", "q");
	for (uint32_t n = 0; n < 12; n++)
		publish_number("x", n);
	run_all();
	for (unsigned i = 0; i < 4; i++) {
		restart(i % 2 == 0);
		ck_assert_uint_eq(state_of("x").count, 5);
		ck_assert(!publish_number("x", 7 + i));
		ck_assert(publish_number("x", 12 + i));
		ck_assert(publish_number("x", 6));
		run_all();
		/* 6 is the youngest now */
		restart(i % 2 == 1);
		ck_assert(!publish_number("x", 6));
		publish_number("x", 100 + 10 * i);
		publish_number("x", 101 + 10 * i);
		publish_number("x", 102 + 10 * i);
		publish_number("x", 103 + 10 * i);
		publish_number("x", 104 + 10 * i);
		for (uint32_t n = 7; n < 13 + i; n++)
			publish_number("x", n);
		run_all();
		for (uint32_t n = 8 + i; n < 13 + i; n++)
			ck_assert(!publish_number("x", n));
	}
}
END_TEST

START_TEST(test_time_goes_on_while_it_is_stopped)
{
	declare("q");
	ask_for_it();
	ask("x-cache-ttl", 60000);
	declare_exchange("x", "q");
	publish_number("x", 1);
	run_all();
	pass_time(30000);
	publish_number("x", 2);
	run_all();
	close_all(false);
	present_now.wall_ms += 31000;
	present_now.monotonic_ms += 31000;
	reopen_all();
	ck_assert(!publish_number("x", 2));
	ck_assert(publish_number("x", 1));
	ck_assert(!publish_number("x", 1));
}
END_TEST

/* A key is as safe as its message, and no safer. */
START_TEST(test_what_was_not_stored_is_not_known)
{
	uint64_t lsn;

	declare("q");
	ask_for_it();
	declare_exchange("x", "q");
	ask_for_it();
	declare("own");
	ck_assert(publish_with("x", 1, false, &lsn));
	ck_assert_uint_eq(lsn, 0);
	ck_assert(publish_with("own", 1, false, &lsn));
	ck_assert(publish_number("own", 2));
	ck_assert(!publish_number("own", 1));
	run_all();
	restart(true);
	ck_assert(publish_number("x", 1));
	ck_assert(publish_number("own", 1));
	ck_assert(!publish_number("own", 2));
}
END_TEST

/* An older version took such arguments for unknown ones: the exchange is there, and knows nothing. */
START_TEST(test_arguments_of_an_older_version)
{
	struct exchange_spec spec = {.name = BYTES("x"), .type = BYTES("fanout"), .durable = true};

	ask("x-message-deduplication", 1);
	spec.arguments = asked();
	ck_assert_ptr_nonnull(exchange_check_arguments(vhost, &spec));
	exchange_create(vhost, &spec);
	run_all();
	restart(false);
	ck_assert_ptr_nonnull(find_exchange("x"));
	ck_assert(!state_of("x").is_on);
}
END_TEST

START_TEST(test_in_memory_alone)
{
	declare("q");
	ask_for_it();
	table_put_string(&arguments.writer, BYTES("x-cache-persistence"), BYTES("memory"));
	declare_exchange("x", "q");
	ck_assert(publish_number("x", 1));
	ck_assert(!publish_number("x", 1));
	run_all();
	restart(true);
	ck_assert(publish_number("x", 1));
}
END_TEST

START_TEST(test_a_queue_knows_what_it_has)
{
	struct entry entry;

	ask_for_it();
	declare("own");
	for (uint32_t n = 0; n < 4; n++)
		publish_number("own", n);
	expect_number("own", 0);
	ck_assert(take(find("own"), &entry));
	queue_requeue(find("own"), &entry);
	for (size_t i = 0; i < countof(stops); i++) {
		run_all();
		restart(stops[i][0]);
		restart(stops[i][1]);
		ck_assert_uint_eq(state_of("own").count, 3);
		for (uint32_t n = 1; n < 4; n++)
			ck_assert(!publish_number("own", n));
	}
	for (uint32_t n = 1; n < 4; n++)
		expect_number("own", n);
	ck_assert_uint_eq(state_of("own").count, 0);
	run_all();
	restart(false);
	ck_assert_uint_eq(state_of("own").count, 0);
	for (uint32_t n = 0; n < 4; n++)
		ck_assert(publish_number("own", n));
}
END_TEST

/* Sends it to the queue's part of this number. */
static void
publish_to_part(const char *name, uint32_t part, uint32_t number)
{
	struct part_owner owner = {.queue = find(name)};
	struct queue *q = part_find(owner, part);
	struct route to = {.count = 1};
	struct message *m = make_keyed(number, true);
	struct key_mark mark;

	if (q == NULL)
		q = part_create(owner, part);
	ck_assert_int_eq(keys_ask_queue(find(name), m, &mark), KEY_NEW);
	route_add_mark(&to, &mark);
	to.queues = &q;
	m->time_ms = 1;
	queue_publish_admitted(broker, &to, m);
	keys_note(&to, m);
	route_drop_marks(&to);
	xfree(to.marks);
	message_unref(m);
}

START_TEST(test_a_queue_knows_what_its_parts_have)
{
	struct entry entry;
	struct queue *part;

	ask_for_it();
	declare("own");
	for (uint32_t n = 0; n < 6; n++)
		if (n % 3 == 0)
			publish_number("own", n);
		else
			publish_to_part("own", n % 3, n);
	run_all();
	for (size_t i = 0; i < countof(stops); i++) {
		restart(stops[i][0]);
		restart(stops[i][1]);
		ck_assert_uint_eq(state_of("own").count, 6);
		for (uint32_t n = 0; n < 6; n++)
			ck_assert(!publish_number("own", n));
	}
	part = part_find((struct part_owner){.queue = find("own")}, 2);
	ck_assert(take(part, &entry));
	ck_assert_uint_eq(number_of(&entry), 2);
	queue_ack(part, &entry);
	run_all();
	restart(false);
	ck_assert_uint_eq(state_of("own").count, 5);
	part = part_find((struct part_owner){.queue = find("own")}, 1);
	queue_purge(part);
	for (uint32_t n = 0; n < 6; n++)
		ck_assert(publish_number("own", n) == (n == 2 || n % 3 == 1));
}
END_TEST

START_TEST(test_a_message_that_waits_for_its_retry)
{
	struct entry entry;

	ask_for_it();
	ask("x-retry-max", 5);
	ask("x-retry-initial", 600000);
	declare("own");
	publish_number("own", 1);
	ck_assert(take(find("own"), &entry));
	queue_fail(find("own"), &entry);
	run_all();
	for (size_t i = 0; i < countof(stops); i++) {
		restart(stops[i][0]);
		restart(stops[i][1]);
		ck_assert_uint_eq(queue_message_count(find("own")), 0);
		ck_assert_uint_eq(state_of("own").count, 1);
		ck_assert(!publish_number("own", 1));
	}
	live(700000);
	ck_assert_uint_eq(queue_message_count(find("own")), 1);
	for (size_t i = 0; i < 2; i++) {
		ck_assert(!publish_number("own", 1));
		run_all();
		restart(i == 0);
	}
	expect_number("own", 1);
	ck_assert(publish_number("own", 1));
}
END_TEST

/* Messages that are on the disk alone leave without anybody reading their headers. */
START_TEST(test_a_long_queue)
{
	size_t before = mem_in_use();

	ask_for_it();
	declare("own");
	for (uint32_t n = 0; n < LONG; n++)
		ck_assert(publish_number("own", n));
	run_all();
	ck_assert_uint_gt(find("own")->log->cold_count, QUEUE_WINDOW_COUNT);
	restart(false);
	ck_assert_uint_eq(state_of("own").count, LONG);
	for (uint32_t n = 0; n < LONG; n++)
		ck_assert(!publish_number("own", n));
	queue_purge(find("own"));
	run_all();
	ck_assert(publish_number("own", LONG - 1));
	ck_assert(publish_number("own", 0));
	restart(true);
	ck_assert_uint_eq(state_of("own").count, 2);
	queue_delete(find("own"));
	run_all();
	ck_assert_uint_lt(mem_in_use(), before + 2 * 1024 * 1024);
}
END_TEST

/* What is settled while the log is read back takes no room for long. */
START_TEST(test_keys_that_came_and_went)
{
	ask_for_it();
	declare("own");
	for (uint32_t n = 0; n < 20000; n++) {
		publish_number("own", n);
		expect_number("own", n);
	}
	run_all();
	restart(false);
	ck_assert_uint_eq(state_of("own").count, 0);
	ck_assert(publish_number("own", 7));
}
END_TEST

/* ---- names that come again, and policies ---- */

START_TEST(test_another_of_the_same_name)
{
	declare("q");
	for (unsigned i = 0; i < 4; i++) {
		ask_for_it();
		declare_exchange("x", "q");
		ask_for_it();
		declare("own");
		ck_assert(publish_number("x", 1));
		ck_assert(publish_number("own", 1));
		run_all();
		if (i % 2 == 1)
			restart(i == 1);
		exchange_delete(find_exchange("x"));
		queue_delete(find("own"));
		run_all();
		if (i == 3)
			restart(false);
	}
}
END_TEST

START_TEST(test_by_policy)
{
	declare("q");
	declare("own");
	declare_exchange("x", "q");
	put_policy("x|own", NULL, 0);
	publish_number("x", 1);
	publish_number("own", 1);
	run_all();
	for (size_t i = 0; i < countof(stops); i++) {
		restart(stops[i][0]);
		restart(stops[i][1]);
		ck_assert(!publish_number("x", 1));
		ck_assert(!publish_number("own", 1));
	}
	/* set again it begins anew, over restarts too */
	policy_remove(policy_find(vhost, POLICY_USER, BYTES("p")));
	put_policy("x|own", NULL, 0);
	run_all();
	restart(false);
	ck_assert(publish_number("x", 1));
	ck_assert(publish_number("own", 1));
	ck_assert(!publish_number("x", 1));
}
END_TEST

START_TEST(test_a_policy_of_another_kind)
{
	declare("q");
	declare_exchange("x", "q");
	ask_for_it();
	declare("own");
	put_policy("x", NULL, 0);
	publish_number("x", 1);
	publish_number("own", 1);
	publish_number("own", 2);
	put_policy("x|own", "cache-size", 10);
	/* the exchange knows it still, the queue begins anew */
	ck_assert(!publish_number("x", 1));
	ck_assert(publish_number("own", 1));
	run_all();
	restart(false);
	ck_assert(!publish_number("own", 1));
	ck_assert(publish_number("own", 2));
	put_policy("x|own", "deduplication-header", -1);
	run_all();
	restart(true);
	ck_assert_uint_eq(state_of("x").count, 0);
	ck_assert_uint_eq(state_of("own").count, 0);
	ck_assert(publish_number("x", 1));
	run_all();
	restart(false);
	/* fewer, after a restart */
	put_policy("x", "cache-size", 1);
	publish_number("x", 2);
	run_all();
	restart(false);
	ck_assert_uint_eq(state_of("x").count, 1);
}
END_TEST

/* ---- when a publisher hears of it ---- */

/* A duplicate waits for what it repeats; and a message whose key outlasts it is not confirmed before it is safe,
 * though all its queues are done with it. */
START_TEST(test_confirms_wait_for_the_key)
{
	uint64_t first;
	uint64_t again;

	declare("q");
	ask_for_it();
	declare_exchange("x", "q");
	ask_for_it();
	declare("own");
	while (!queue_may_deliver(find("q")) || !queue_may_deliver(find("own")))
		step_store();
	ck_assert(publish_with("x", 1, true, &first));
	expect_number("q", 1);
	ck_assert(!broker_is_done(broker, first));
	ck_assert(!publish_with("x", 1, true, &again));
	ck_assert_uint_ge(again, first);
	ck_assert(!broker_is_done(broker, again));
	run_all();
	ck_assert(broker_is_done(broker, first));
	ck_assert(broker_is_done(broker, again));
	ck_assert(publish_with("own", 1, true, &first));
	ck_assert(!publish_with("own", 1, true, &again));
	ck_assert(!broker_is_done(broker, first));
	expect_number("own", 1);
	ck_assert(broker_is_done(broker, first));
	ck_assert(!broker_is_done(broker, again));
	run_all();
	ck_assert(broker_is_done(broker, again));
}
END_TEST

TESTS_WITH("deduplication_stored", cold_set_up, cold_tear_down,
	   test_an_exchange_knows_keys_after_restarts, test_the_oldest_one_goes_after_a_restart,
	   test_time_goes_on_while_it_is_stopped, test_what_was_not_stored_is_not_known,
	   test_arguments_of_an_older_version, test_in_memory_alone, test_a_queue_knows_what_it_has,
	   test_a_queue_knows_what_its_parts_have, test_a_message_that_waits_for_its_retry,
	   test_a_long_queue, test_keys_that_came_and_went, test_another_of_the_same_name,
	   test_by_policy, test_a_policy_of_another_kind, test_confirms_wait_for_the_key)
