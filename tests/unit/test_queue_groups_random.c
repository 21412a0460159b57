/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message groups at random: several consumers with limits that change, some without acknowledgements, gets,
 * settlements in any order, consumers that go, with what they had or before it, purges, a limit on the length;
 * compared with a plain list of all messages. Never do two have unacked messages of one key at once; each message
 * that is handed out is the oldest of its key that is ready; after each turn no message waits that somebody may
 * take; nothing is lost or comes twice. TEST_SEED=... in the environment repeats a run.
 */
#include <time.h>

#include "unit/life_fixture.h"

#define STEPS 20000
#define WORKERS 4
#define KEYS 6 // the last one stands for no key
#define NO_KEY (KEYS - 1)
#define MESSAGES 100000

enum state {
	READY,
	HELD,
	GONE
};

struct worker;

struct item {
	enum state state;
	uint32_t key;
	const struct worker *holder; // while it is held
};

/* An unacked message. */
struct held {
	struct entry entry;
	uint32_t item;
};

/* A consumer, or all basic.gets together. A new one comes when it is gone and has settled all. */
struct worker {
	struct consumer *consumer;
	struct held held[256];
	uint32_t held_n;
	uint32_t limit;
	bool no_ack;
	uint32_t may_take; // no_ack: so many more
};

static struct queue *q;
static struct worker workers[WORKERS];
static struct worker gets;
static struct item items[MESSAGES];
static uint32_t item_n;
static uint32_t oldest; // all before it are gone
static uint64_t random_state;
static uint64_t taken_n;

static uint32_t
pick(uint32_t n)
{
	random_state = random_state * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)((random_state >> 33) % n);
}

/* ---- the model ---- */

/* The oldest ready one of the key; item_n: there is none. */
static uint32_t
first_ready(uint32_t key)
{
	uint32_t i = oldest;

	while (i < item_n && (items[i].state != READY || items[i].key != key))
		i++;
	return i;
}

/* Who has unacked messages of the key; NULL: nobody. */
static const struct worker *
holder_of(uint32_t key)
{
	if (key == NO_KEY)
		return NULL;
	for (uint32_t i = oldest; i < item_n; i++)
		if (items[i].state == HELD && items[i].key == key)
			return items[i].holder;
	return NULL;
}

static uint32_t
number_of(const struct entry *entry)
{
	return (uint32_t)strtoul((const char *)message_body(entry->message).p, NULL, 10);
}

static void
note_taken(struct worker *worker, const struct entry *entry, bool no_ack)
{
	uint32_t number = number_of(entry);
	struct item *item = &items[number];
	const struct worker *holder = holder_of(item->key);

	ck_assert_uint_lt(number, item_n);
	ck_assert_int_eq(item->state, READY);
	ck_assert_uint_eq(first_ready(item->key), number);
	ck_assert(holder == NULL || holder == worker);
	taken_n++;
	item->state = no_ack ? GONE : HELD;
	item->holder = worker;
	if (no_ack)
		return;
	ck_assert_uint_lt(worker->held_n, countof(worker->held));
	worker->held[worker->held_n++] = (struct held){*entry, number};
}

static bool
may_take(const struct worker *worker)
{
	return worker->consumer != NULL &&
	       (worker->no_ack ? worker->may_take > 0 : worker->held_n < worker->limit);
}

static uint32_t
count_ready(void)
{
	uint32_t n = 0;

	for (uint32_t i = oldest; i < item_n; i++)
		n += items[i].state == READY;
	return n;
}

/* Nothing waits for which somebody has room. */
static void
check_nothing_waits(void)
{
	for (uint32_t key = 0; key < KEYS; key++) {
		const struct worker *holder = holder_of(key);

		if (first_ready(key) == item_n)
			continue;
		if (holder != NULL) {
			ck_assert(!may_take(holder));
			continue;
		}
		for (size_t i = 0; i < WORKERS; i++)
			ck_assert(!may_take(&workers[i]));
	}
}

static void
check_all(void)
{
	broker_check(broker);
	while (oldest < item_n && items[oldest].state == GONE)
		oldest++;
	ck_assert_uint_eq(queue_message_count(q), count_ready());
}

/* ---- what consumers do ---- */

static enum deliver_result
worker_deliver(struct consumer *consumer, const struct entry *entry)
{
	struct worker *worker = consumer->channel;

	if (!may_take(worker))
		return DELIVER_FULL;
	note_taken(worker, entry, worker->no_ack);
	if (worker->no_ack)
		worker->may_take--;
	return DELIVER_TOOK;
}

static void
worker_cancelled(struct consumer *consumer)
{
	struct worker *worker = consumer->channel;

	worker->consumer = NULL;
}

static const struct consumer_ops worker_ops = {worker_deliver, worker_cancelled};

static void
worker_start(struct worker *worker)
{
	struct consumer_spec spec = {.tag = BYTES("w"), .ops = &worker_ops, .channel = worker};

	spec.no_ack = worker->no_ack = pick(8) == 0;
	worker->limit = pick(2) ? 1 + pick(3) : pick(60);
	worker->may_take = pick(20);
	worker->consumer = consumer_new(q, &spec);
}

/* Of a queue with a limit the oldest ones are gone, after what could be was handed out. */
static void
drop_oldest(void)
{
	uint32_t ready = count_ready();

	for (uint32_t i = oldest; ready > queue_message_count(q); i++)
		if (items[i].state == READY) {
			items[i].state = GONE;
			ready--;
		}
}

static void
settle(struct worker *worker, uint32_t at, uint32_t how)
{
	struct held held = worker->held[at];

	worker->held[at] = worker->held[--worker->held_n];
	items[held.item].state = how == 0 ? READY : GONE;
	if (how == 0)
		queue_requeue(q, &held.entry);
	else if (how == 1)
		queue_reject(q, &held.entry);
	else
		queue_ack(q, &held.entry);
	drop_oldest();
	if (worker->consumer != NULL)
		consumer_ready(worker->consumer);
}

static void
step_settle(struct worker *worker)
{
	uint32_t how = pick(4);

	for (uint32_t n = pick(2) ? 1 : pick(30); n > 0 && worker->held_n > 0; n--)
		settle(worker, pick(worker->held_n), pick(3) == 0 ? pick(4) : how);
}

static void
step_consumer(struct worker *worker)
{
	if (worker->consumer == NULL && worker->held_n == 0) {
		worker_start(worker);
	} else if (worker->consumer != NULL && pick(3) == 0) {
		consumer_cancel(worker->consumer);
		worker->consumer = NULL;
		while (pick(4) != 0 && worker->held_n > 0)
			settle(worker, worker->held_n - 1, 0);
	} else if (worker->consumer != NULL) {
		worker->limit = pick(40);
		worker->may_take += pick(10);
		consumer_ready(worker->consumer);
	}
}

/* ---- what others do ---- */

static void
publish_one(uint32_t key)
{
	struct basic_properties properties = {.flags = PROPERTY_headers};
	struct table headers;
	char body[16];

	table_start(&headers);
	if (key != NO_KEY)
		table_put_long(&headers.writer, BYTES("k"), key);
	properties.headers = table_view(&headers);
	(void)snprintf(body, sizeof(body), "%u", item_n);
	ck_assert_uint_lt(item_n, MESSAGES);
	items[item_n++] = (struct item){.state = READY, .key = key};
	send_with(q, &properties, body);
}

static void
step_publish(void)
{
	bool hot = pick(2) == 0;

	for (uint32_t n = 1 + pick(12); n > 0; n--) {
		publish_one(hot && pick(3) ? 0 : pick(KEYS));
		drop_oldest();
	}
}

/* What there is to be got is the oldest message whose key no consumer holds. */
static void
step_get(void)
{
	bool no_ack = pick(4) == 0;
	uint32_t best = item_n;
	struct entry entry;

	if (gets.held_n > 100)
		return;
	queue_hand_out(q);
	for (uint32_t key = 0; key < KEYS; key++) {
		const struct worker *holder = holder_of(key);

		if (holder == NULL || holder == &gets)
			best = (uint32_t)min_u64(best, first_ready(key));
	}
	if (!queue_get(q, no_ack, &entry)) {
		ck_assert_uint_eq(best, item_n);
		return;
	}
	ck_assert_uint_eq(number_of(&entry), best);
	note_taken(&gets, &entry, no_ack);
	if (no_ack)
		message_unref(entry.message);
}

static void
step_purge(void)
{
	queue_purge(q);
	for (uint32_t i = oldest; i < item_n; i++)
		if (items[i].state == READY)
			items[i].state = GONE;
}

/* Keeps the model short, and what is set aside below its bound. */
static void
settle_most(void)
{
	for (size_t i = 0; i < WORKERS; i++)
		while (workers[i].held_n > 0)
			settle(&workers[i], 0, 2);
	while (gets.held_n > 0)
		settle(&gets, 0, 2);
}

static void
step(void)
{
	struct worker *worker = &workers[pick(WORKERS)];
	uint32_t what = pick(100);

	if (what < 25)
		step_publish();
	else if (what < 60)
		step_settle(pick(8) ? worker : &gets);
	else if (what < 70)
		step_consumer(worker);
	else if (what < 80)
		step_get();
	else if (what == 80 && pick(10) == 0)
		step_purge();
	else if (what < 85)
		groups_gather(q); // as when it is evicted
	else
		broker_dispatch(broker);
	check_all();
	if (item_n - oldest > 300)
		settle_most();
	if (pick(2)) {
		broker_dispatch(broker);
		check_all();
		check_nothing_waits();
	}
}

/* Nobody has anything any more. */
static void
end_all(void)
{
	for (size_t i = 0; i < WORKERS; i++) {
		if (workers[i].consumer != NULL)
			consumer_cancel(workers[i].consumer);
		workers[i].consumer = NULL;
	}
	for (size_t i = 0; i < WORKERS; i++)
		while (workers[i].held_n > 0)
			settle(&workers[i], workers[i].held_n - 1, 0);
	while (gets.held_n > 0)
		settle(&gets, gets.held_n - 1, 0);
}

static void
run(bool limited)
{
	ask_string("x-group-by", "k");
	if (limited)
		ask_number("x-max-length", 20);
	q = declare("q");
	memset(workers, 0, sizeof(workers));
	gets = (struct worker){0};
	item_n = oldest = 0;
	taken_n = 0;
	for (int i = 0; i < STEPS && item_n < MESSAGES - 20; i++)
		step();
	end_all();
	worker_start(&workers[0]);
	workers[0].limit = 1;
	while (queue_message_count(q) > 0 || workers[0].held_n > 0) {
		workers[0].may_take = 1;
		consumer_ready(workers[0].consumer);
		dispatch();
		if (workers[0].held_n > 0)
			settle(&workers[0], 0, 2);
	}
	check_all();
	ck_assert_uint_eq(oldest, item_n);
	printf("%u messages, taken %llu times\n", item_n, (unsigned long long)taken_n);
}

static void
seed(void)
{
	const char *given = getenv("TEST_SEED");

	random_state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	printf("TEST_SEED=%llu\n", (unsigned long long)random_state);
	fflush(stdout);
}

START_TEST(test_random_steps_keep_keys_together)
{
	seed();
	run(false);
}
END_TEST

START_TEST(test_random_steps_with_a_limit)
{
	seed();
	run(true);
}
END_TEST

TESTS_WITH("queue_groups_random", life_set_up, model_tear_down,
	   test_random_steps_keep_keys_together, test_random_steps_with_a_limit)
