/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of paging have beside cold_fixture.h: a durable queue and two others, page-out when a test wants
 * it, and a look at what the queues and the folder hold. At the end of each test the queues are drained, and
 * all files must be gone.
 */
#pragma once

#include "broker/internal.h"

#include "unit/cold_fixture.h"

#include <errno.h>

#include "broker/alarms.h"
#include "util/log.h"

#define SIZE 1000
/* About three head windows of these. */
#define LONG 3000

static struct listed *const durable = &lists[0];
static struct listed *const other = &lists[1]; // not durable
static struct listed *const list = &lists[2];  // not durable

static inline void
page_set_up(void)
{
	log_set_level(LOG_NONE);
	cold_set_up();
	delete_queue(other);
	make_queue(other, false);
}

/* ---- helpers ---- */

static inline void
publish_many(struct listed *to, int n, uint32_t size)
{
	while (n-- > 0)
		publish(to, size, false);
}

/* Everything is paged out that may be. */
static inline void
page_out(void)
{
	broker->options.page_out_at = 0;
	run_all();
	broker->options.page_out_at = UINT64_MAX;
}

/* A job is on its way. */
static inline void
send_job(void)
{
	ck_assert_ptr_null(broker->paging_out);
	broker->options.page_out_at = 0;
	broker_page_out(broker);
	broker->options.page_out_at = UINT64_MAX;
	ck_assert_ptr_nonnull(broker->paging_out);
}

static inline void
work(void)
{
	while (store_work(store))
		store_receive(store);
	check_all();
}

static inline bool
is_stub(const struct entry *entry)
{
	return (entry->message->flags & MESSAGE_PAGED) != 0;
}

/* The entry of this index in the window; NULL: there is none. */
static inline const struct entry *
entry_at(const struct listed *of, uint32_t index)
{
	for (const struct entry_block *b = of->queue->head; b != NULL; b = b->next) {
		if (index < b->end - b->first)
			return &b->entries[b->first + index];
		index -= b->end - b->first;
	}
	return NULL;
}

static inline uint32_t
stub_count(const struct listed *of)
{
	const struct entry *entry;
	uint32_t late_count;
	const struct entry *late = late_entries(of->queue, &late_count);
	uint32_t count = 0;

	for (uint32_t i = 0; (entry = entry_at(of, i)) != NULL; i++)
		count += is_stub(entry);
	for (uint32_t i = 0; i < late_count; i++)
		count += is_stub(&late[i]);
	return count;
}

/* How many entries at the front of the window are no stubs. */
static inline uint32_t
at_hand(const struct listed *of)
{
	const struct entry *entry;
	uint32_t i = 0;

	while ((entry = entry_at(of, i)) != NULL && !is_stub(entry))
		i++;
	return i;
}

/* How many entries of the window are the head window. */
static inline uint32_t
window_of(const struct listed *of)
{
	uint64_t octets = 0;
	uint32_t i = 0;
	const struct entry *entry;

	while (i < QUEUE_WINDOW_COUNT && octets < QUEUE_WINDOW_OCTETS &&
	       (entry = entry_at(of, i)) != NULL) {
		octets += message_wire_size(entry->message);
		i++;
	}
	return i;
}

static unsigned page_files;

static inline void
add_file(void *context, const char *name)
{
	(void)context;
	(void)name;
	page_files++;
}

static inline unsigned
file_count(void)
{
	page_files = 0;
	ck_assert_int_eq(disk_list(&disk->disk, "page", add_file, NULL), 0);
	return page_files;
}

/* The consumer takes so many, however long that takes, and goes. */
static inline void
take(struct listed *from, uint32_t n)
{
	uint64_t taken = from->taken;

	consume(from, n, true);
	for (int i = 0; from->taken < taken + n; i++) {
		ck_assert_int_lt(i, 1000);
		dispatch();
		step_store();
	}
	cancel(from);
	check_all();
}

/* Nothing is left when all has gone. */
static inline void
page_tear_down(void)
{
	disk_sim_clear_faults(disk);
	for (size_t i = 0; i < QUEUES; i++) {
		if (lists[i].queue == NULL)
			continue;
		settle_all(&lists[i], SETTLE_REQUEUE);
		drain(&lists[i]);
	}
	run_all();
	ck_assert_uint_eq(file_count(), 0);
	cold_tear_down();
}
