/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What exchanges and queues know of keys after a restart: the key of a message that was stored, with the message and
 * never without it, at whatever call of the disk the machine died.
 */
#include "broker/binding.h"
#include "broker/deduplication.h"
#include "broker/exchange.h"
#include "broker/internal.h"
#include "broker/policy.h"
#include "unit/cold_fixture.h"
#include "wire/field.h"

#define KEY "x-deduplication-header"
#define LONG (3 * QUEUE_WINDOW_COUNT)

static struct table {
	uint8_t octets[1024];
	struct writer writer;
} arguments;

/* ---- exchanges, queues, messages ---- */

static void
ask(const char *name, int64_t value)
{
	if (arguments.writer.p == NULL)
		arguments.writer = writer_of(arguments.octets, sizeof(arguments.octets));
	if (value < 0)
		table_put_bool(&arguments.writer, bytes_str(name), true);
	else
		table_put_long(&arguments.writer, bytes_str(name), value);
}

#define TRUE -1

static struct bytes
asked(void)
{
	struct bytes table = bytes_of(NULL, 0);

	if (arguments.writer.p != NULL)
		table = bytes_of(arguments.octets, (size_t)(arguments.writer.p - arguments.octets));
	arguments.writer = (struct writer){0};
	return table;
}

static struct queue *
declare(const char *name)
{
	struct queue_spec spec = {.name = bytes_str(name), .durable = true, .arguments = asked()};
	struct queue *q = queue_create(vhost, &spec);

	run_all();
	return q;
}

static struct exchange *
declare_exchange(const char *name, const char *queue)
{
	struct exchange_spec spec = {.name = bytes_str(name),
				     .type = BYTES("fanout"),
				     .durable = true,
				     .arguments = asked()};
	struct binding_spec binding = {.queue = queue_find(vhost, bytes_str(queue))};

	ck_assert_ptr_null(exchange_check_arguments(vhost, &spec));
	binding.source = exchange_create(vhost, &spec);
	binding_add(&binding);
	run_all();
	return binding.source;
}

static struct queue *
find(const char *name)
{
	return queue_find(vhost, bytes_str(name));
}

static struct exchange *
find_exchange(const char *name)
{
	return exchange_find(vhost, bytes_str(name));
}

static struct message *
make_keyed(uint32_t number, bool persistent)
{
	uint8_t table[128];
	uint8_t header[256];
	struct writer w = writer_of(table, sizeof(table));
	struct basic_properties properties = {
		.flags = PROPERTY_headers | PROPERTY_delivery_mode,
		.delivery_mode = persistent ? 2 : 1,
	};
	struct message *m;

	table_put_long(&w, BYTES(KEY), number);
	table_put_long(&w, BYTES("other"), number);
	properties.headers = bytes_of(table, (size_t)(w.p - table));
	w = writer_of(header, sizeof(header));
	content_header_encode(&properties, sizeof(number), &w);
	ck_assert(!w.bad);
	m = message_new(BYTES("x"), BYTES("key"), bytes_of(header, (size_t)(w.p - header)),
			sizeof(number), persistent ? MESSAGE_PERSISTENT : 0);
	memcpy(message_body_room(m), &number, sizeof(number));
	return m;
}

/* Publishes to an exchange, or straight to a queue; whether it was taken, and the LSN behind which that is safe. */
static bool
publish_with(const char *to, uint32_t number, bool persistent, uint64_t *lsn)
{
	struct message *m = make_keyed(number, persistent);
	struct exchange *x = find_exchange(to);
	struct publish_result result = {0, false};
	struct bytes key = x == NULL ? bytes_str(to) : BYTES("key");
	struct route route;
	uint64_t before = 0;
	bool taken;

	route_init(&route);
	if (x == NULL)
		before = queue_deduplication(find(to)).duplicates;
	exchange_route_published(x == NULL ? vhost->default_exchange : x, &key, 1, m, &route);
	taken = route.count > 0;
	if (taken)
		result = queue_publish(broker, &route, m);
	if (route.is_duplicate)
		result.lsn = duplicate_lsn(broker);
	if (x == NULL)
		taken = queue_deduplication(find(to)).duplicates == before;
	*lsn = result.lsn;
	route_fini(&route);
	message_unref(m);
	if (broker_store_full(broker))
		step_store();
	return taken;
}

static bool
publish_number(const char *to, uint32_t number)
{
	uint64_t lsn;

	return publish_with(to, number, true, &lsn);
}

static bool
take(struct queue *q, struct entry *entry)
{
	while (!queue_may_deliver(q))
		step_store();
	for (queue_hand_out(q); queue_must_read(q); queue_hand_out(q)) {
		queue_refill(q);
		step_store();
		dispatch();
	}
	return queue_get(q, false, entry);
}

static uint32_t
number_of(const struct entry *entry)
{
	uint32_t number;

	memcpy(&number, message_body(entry->message).p, sizeof(number));
	return number;
}

/* Acknowledges the first message, which is this one. */
static void
expect_number(const char *name, uint32_t number)
{
	struct entry entry;

	ck_assert(take(find(name), &entry));
	ck_assert_uint_eq(number_of(&entry), number);
	queue_ack(find(name), &entry);
}

static struct deduplication_state
state_of(const char *name)
{
	const struct exchange *x = find_exchange(name);

	return x != NULL ? exchange_deduplication(x) : queue_deduplication(find(name));
}

static void
put_policy(const char *pattern, const char *key, int64_t value)
{
	uint8_t octets[256];
	struct writer w = writer_of(octets, sizeof(octets));
	struct policy_spec spec = {.name = BYTES("p"), .pattern = bytes_str(pattern)};

	table_put_bool(&w, BYTES("message-deduplication"), true);
	if (key != NULL && value < 0)
		table_put_string(&w, bytes_str(key), BYTES("other"));
	else if (key != NULL)
		table_put_long(&w, bytes_str(key), value);
	spec.definition = bytes_of(octets, (size_t)(w.p - octets));
	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
	policy_put(vhost, POLICY_USER, &spec);
}

static const bool stops[][2] = {{true, true}, {false, false}, {true, false}, {false, true}};

/* ---- what is known ---- */

START_TEST(test_an_exchange_knows_keys_after_restarts)
{
	declare("q");
	ask("x-message-deduplication", TRUE);
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
	ask("x-message-deduplication", TRUE);
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
	ask("x-message-deduplication", TRUE);
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
	ask("x-message-deduplication", TRUE);
	declare_exchange("x", "q");
	ask("x-message-deduplication", TRUE);
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

START_TEST(test_in_memory_alone)
{
	declare("q");
	ask("x-message-deduplication", TRUE);
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

	ask("x-message-deduplication", TRUE);
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

/* Messages that are on the disk alone leave without anybody reading their headers. */
START_TEST(test_a_long_queue)
{
	size_t before = mem_in_use();

	ask("x-message-deduplication", TRUE);
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
	ask("x-message-deduplication", TRUE);
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
		ask("x-message-deduplication", TRUE);
		declare_exchange("x", "q");
		ask("x-message-deduplication", TRUE);
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
	ask("x-message-deduplication", TRUE);
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
	put_policy("x|own", "deduplication-header", TRUE);
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
	ask("x-message-deduplication", TRUE);
	declare_exchange("x", "q");
	ask("x-message-deduplication", TRUE);
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

/* ---- crashes ---- */

#define POINTS 1200
#define NUMBERS 60

static struct disk_sim *points[POINTS]; // own
static uint64_t stables[POINTS];
static size_t point_count;
static uint64_t lsns[NUMBERS]; // behind which the message and its key are safe

static void
note_point(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	(void)context;
	if (call->over || call->kind >= SIM_OPEN)
		return;
	ck_assert_uint_lt(point_count, POINTS);
	stables[point_count] = stable;
	points[point_count++] = disk_sim_clone(sim);
}

/* How often each message is in the queue; they stay there. */
static void
count_messages(struct queue *q, unsigned times[NUMBERS])
{
	struct entry entries[2 * NUMBERS];
	size_t n = 0;

	memset(times, 0, NUMBERS * sizeof(*times));
	for (; take(q, &entries[n]); n++)
		times[number_of(&entries[n])]++;
	while (n > 0)
		queue_requeue(q, &entries[--n]);
}

/* After a crash there: what was stable is known, and what is known is there. */
static void
check_point(const char *to, const char *queue, size_t at, unsigned how)
{
	static const enum disk_sim_survival ways[] = {SIM_NOTHING, SIM_EVERYTHING, SIM_RANDOM};
	unsigned times[NUMBERS];

	disk = disk_sim_clone(points[at]);
	disk_sim_crash(disk, ways[how], at);
	reopen_all();
	count_messages(find(queue), times);
	for (uint32_t i = 0; i < NUMBERS; i++) {
		bool safe = lsns[i] != 0 && lsns[i] <= stables[at];

		ck_assert_msg(times[i] <= 1, "point %zu: %u is there %u times", at, i, times[i]);
		ck_assert_msg(times[i] == 1 || !safe, "point %zu: %u is lost", at, i);
		ck_assert_msg(publish_number(to, i) == (times[i] == 0),
			      "point %zu: %u is%s there, and %s known", at, i,
			      times[i] == 0 ? " not" : "", times[i] == 0 ? "it is" : "not");
	}
	count_messages(find(queue), times);
	for (uint32_t i = 0; i < NUMBERS; i++)
		ck_assert_uint_eq(times[i], 1);
	close_all(true);
	disk_sim_free(&disk);
}

static void
check_all_points(const char *to, const char *queue)
{
	struct disk_sim *whole = disk;

	run_all();
	disk->hook = NULL;
	ck_assert_uint_gt(point_count, 30);
	close_all(true);
	for (size_t i = 0; i < point_count; i++)
		for (unsigned how = 0; how < 3; how++)
			check_point(to, queue, i, how);
	for (size_t i = 0; i < point_count; i++)
		disk_sim_free(&points[i]);
	printf("deduplication to %s: %zu points, each recovered in three states\n", to,
	       point_count);
	disk = whole;
	reopen_all();
}

/* Restarts are among the steps, so checkpoints are. */
static void
publish_all(const char *to)
{
	memset(lsns, 0, sizeof(lsns));
	point_count = 0;
	disk->hook = note_point;
	for (uint32_t i = 0; i < NUMBERS; i++) {
		uint64_t lsn;

		ck_assert(publish_with(to, i, true, &lsns[i]));
		if (i % 3 == 0)
			step_store();
		if (i % 4 == 0)
			ck_assert(!publish_with(to, i / 2, true, &lsn));
		if (i % 20 == 19) {
			run_all();
			restart(i % 40 == 19);
			disk->hook = note_point;
		}
	}
}

START_TEST(test_crashes_of_an_exchange)
{
	declare("q");
	ask("x-message-deduplication", TRUE);
	declare_exchange("x", "q");
	publish_all("x");
	check_all_points("x", "q");
}
END_TEST

START_TEST(test_crashes_of_a_queue)
{
	ask("x-message-deduplication", TRUE);
	declare("own");
	publish_all("own");
	check_all_points("own", "own");
}
END_TEST

START_TEST(test_crashes_of_a_queue_with_a_cache)
{
	ask("x-message-deduplication", TRUE);
	ask("x-cache-size", 1000);
	declare("own");
	publish_all("own");
	check_all_points("own", "own");
}
END_TEST

TESTS_WITH("deduplication_stored", cold_set_up, cold_tear_down,
	   test_an_exchange_knows_keys_after_restarts, test_the_oldest_one_goes_after_a_restart,
	   test_time_goes_on_while_it_is_stopped, test_what_was_not_stored_is_not_known,
	   test_in_memory_alone, test_a_queue_knows_what_it_has, test_a_long_queue,
	   test_keys_that_came_and_went, test_another_of_the_same_name, test_by_policy,
	   test_a_policy_of_another_kind, test_confirms_wait_for_the_key,
	   test_crashes_of_an_exchange, test_crashes_of_a_queue,
	   test_crashes_of_a_queue_with_a_cache)
