/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long queues at random: messages with and without a record to one queue or more, consumers that come, take
 * and go, gets, settlements in any order, purges, deletions, evictions, bodies that go to page files
 * or cannot, reads that take their time, restarts clean and unclean; after each step the queues are compared
 * with plain lists. TEST_SEED=... in the environment repeats a run.
 */
#include "unit/cold_fixture.h"

#include <errno.h>
#include <time.h>

#include "util/log.h"

#define STEPS 3000

static uint64_t random_state;

static uint32_t
pick(uint32_t n)
{
	random_state = random_state * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)((random_state >> 33) % n);
}

static uint32_t
pick_size(void)
{
	switch (pick(40)) {
	case 0:
		return pick(300000);
	case 1:
	case 2:
	case 3:
		return pick(20000);
	case 4:
		return 0;
	default:
		return pick(200);
	}
}

/* The caller may have to wait for the disk first: what it holds is bounded. */
static void
step_publish(void)
{
	static const uint32_t bursts[] = {1, 10, 100, 600};
	uint32_t n = 1 + pick(bursts[pick(countof(bursts))]);
	uint32_t persistence = 1 + pick(8);
	bool small = pick(4) == 0;
	struct listed *to[QUEUES];
	uint32_t count = 0;
	uint32_t set = 1 + pick((1 << QUEUES) - 1);

	for (uint32_t i = 0; i < QUEUES; i++)
		if (set & (1U << i))
			to[count++] = &lists[i];
	while (n-- > 0) {
		publish_to(to, count, small ? pick(30) : pick_size(), pick(persistence) != 0);
		if (broker_store_full(broker))
			step_store();
	}
}

static void
step_settle(struct listed *list)
{
	enum settle how = (enum settle)pick(3);
	bool mixed = pick(3) == 0;

	for (uint32_t n = pick(100); n > 0 && list->held_count > 0; n--) {
		size_t at = pick(2) ? list->held_count - 1 : pick((uint32_t)list->held_count);

		settle(list, at, mixed ? (enum settle)pick(3) : how);
	}
}

static void
step_delete(struct listed *list)
{
	cancel(list);
	if (pick(2))
		queue_refill(list->queue);
	if (pick(2))
		settle_all(list, SETTLE_ACK);
	delete_queue(list);
	settle_all(list, (enum settle)pick(3));
	make_queue(list, list->durable);
}

static void
step_consumer(struct listed *list)
{
	if (list->consumer == NULL)
		consume(list, pick(2) ? 1 + pick(5) : pick(1500), pick(3) == 0);
	else if (pick(2))
		cancel(list);
	else if (list->no_ack)
		take_more(list, pick(300));
}

/* Page files cannot be written for a while, or can again. */
static void
step_page_errors(void)
{
	disk_sim_clear_faults(disk);
	if (pick(2))
		disk_sim_fail(disk, (struct disk_sim_fault){.kind = SIM_WRITE,
							    .path = "page/",
							    .at = 1 + pick(5),
							    .for_ever = pick(2) != 0,
							    .error = -ENOSPC,
							    .part = pick(5000)});
	advance(5000);
}

/* What the turn does, in part. */
static void
step_turn(void)
{
	if (pick(2))
		broker_page_out(broker);
	if (pick(2))
		store_work(store);
	if (pick(2))
		store_receive(store);
	if (pick(2))
		dispatch();
	if (pick(3) == 0)
		step_store();
}

static void
step(void)
{
	static const uint64_t cache_sizes[] = {0, 10000, 300000, UINT64_MAX};
	struct listed *list = &lists[pick(QUEUES)];
	uint32_t what = pick(200);

	if (what < 50)
		step_publish();
	else if (what < 90)
		step_settle(list);
	else if (what < 110)
		step_consumer(list);
	else if (what < 130)
		for (uint32_t n = pick(40); n > 0 && get(list, pick(3) == 0);)
			n--;
	else if (what < 133)
		purge(list);
	else if (what < 135)
		step_delete(list);
	else if (what < 140)
		broker->options.cache_size = cache_size = cache_sizes[pick(countof(cache_sizes))];
	else if (what < 142)
		queue_refill(list->queue);
	else if (what == 142)
		restart(pick(2) != 0);
	else if (what == 143)
		run_all();
	else if (what < 146)
		pass_time(pick(8000));
	else if (what == 146)
		page_out_at = broker->options.page_out_at = pick(2) ? 0 : UINT64_MAX;
	else if (what == 147)
		step_page_errors();
	else
		step_turn();
	check_all();
}

static void
seed(void)
{
	const char *given = getenv("TEST_SEED");

	random_state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	printf("TEST_SEED=%llu\n", (unsigned long long)random_state);
	fflush(stdout);
}

static void
run_steps(void)
{
	log_set_level(LOG_ERROR);
	file_size = 256 * 1024 << pick(4);
	page_out_at = pick(4) ? 0 : UINT64_MAX;
	restart(true);
	for (int i = 0; i < STEPS; i++)
		step();
	disk_sim_clear_faults(disk);
	for (size_t i = 0; i < QUEUES; i++) {
		settle_all(&lists[i], SETTLE_REQUEUE);
		drain(&lists[i]);
	}
	restart(false);
	for (size_t i = 0; i < QUEUES; i++)
		drain(&lists[i]);
	printf("page files: written to %zu times, read from %zu times\n", pages_out, pages_in);
}

START_TEST(test_random_steps_keep_order_and_content)
{
	seed();
	run_steps();
}
END_TEST

/* Few different ones, some above what queues have. */
static uint8_t
some_priority(uint32_t id)
{
	uint32_t mixed = (id * 2654435761U) >> 16;

	return (uint8_t)(mixed % 16 == 0 ? mixed >> 8 : mixed % 16 < 8 ? 0 : mixed % 8);
}

/* The same with levels: the first is that of the highest level then. */
START_TEST(test_random_steps_keep_priorities)
{
	static const uint8_t max[] = {1, 2, 5, 10, 255};

	seed();
	priority_of = some_priority;
	for (size_t i = 0; i < QUEUES; i++) {
		cancel(&lists[i]);
		delete_queue(&lists[i]);
		lists[i].priority_max = max[pick(countof(max))];
		make_queue(&lists[i], lists[i].durable);
	}
	run_steps();
	priority_of = NULL;
}
END_TEST

TESTS_WITH("queue_cold_random", cold_set_up, cold_tear_down,
	   test_random_steps_keep_order_and_content, test_random_steps_keep_priorities)
