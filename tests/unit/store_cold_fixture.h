/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of cold queues share: one fixture, opened so that all that is published is cold, the
 * threads stepped by hand, messages in each of the places there are, and a recount of what is live.
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/runner.h"
#include "lib/store_fixture.h"
#include "store/internal.h"

#define MANY 1000000
#define SECOND_MS 1000

static struct store_fixture f;

static inline void
set_up(void)
{
	store_fixture_init(&f, 1);
	f.cold = true;
	f.push = PUSH_ALL;
	f.options.file_size = 16 * 1024;
	f.options.garbage_files = MANY;
	ck_assert_int_eq(store_fixture_open(&f), 0);
}

static inline void
tear_down(void)
{
	store_fixture_fini(&f);
}

/* ---- helpers ---- */

/* A message whose record is as large as all others of this size, whatever its names. */
static inline size_t
publish(uint32_t queue, uint32_t size)
{
	struct message_record content = ledger_content(f.next_number, 0);

	return store_fixture_publish(
		&f, &queue, 1,
		size - (uint32_t)(content.exchange.n + content.key.n + content.properties.n));
}

static inline void
publish_flushed(uint32_t queue, unsigned count, uint32_t size)
{
	for (unsigned i = 0; i < count; i++) {
		publish(queue, size);
		if (i % 8 == 7)
			store_fixture_flush(&f);
	}
	store_fixture_flush(&f);
}

static inline const struct queue_log *
log_of(uint32_t queue)
{
	return f.ledger.queues[queue].log;
}

/* What comes of the work of all threads but the one that writes. */
static inline void
help(void)
{
	store_fixture_index_and_help(&f);
	store_receive(f.store);
}

static inline void
write_batch(void)
{
	store_fixture_write(&f);
	store_receive(f.store);
}

static inline void
reopen(enum disk_sim_survival how)
{
	store_fixture_crash(&f, how, 0);
	ck_assert_msg(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
}

static inline void
add_open(uint64_t first, uint64_t end, uint64_t *refs, uint64_t *octets)
{
	for (size_t i = 0; i < f.ledger.message_count; i++) {
		const struct ledger_message *m = &f.ledger.messages[i];

		for (uint32_t n = 0; n < m->ref_count && m->lsn >= first && m->lsn < end; n++) {
			if (m->refs[n].settled != 0 || log_of(m->refs[n].queue) == NULL)
				continue;
			*refs += 1;
			*octets += store_share(m->record_size, m->ref_count);
		}
	}
}

/* Live octets and references of the segments and of the batch that fills, against a recount. */
static inline void
check_live(void)
{
	const struct store *store = f.store;
	uint64_t filling = store->filling->count > 0 ? store->filling->first_lsn : store->next_lsn;
	uint64_t refs = 0;
	uint64_t octets = 0;

	add_open(filling, UINT64_MAX, &refs, &octets);
	ck_assert_uint_eq(store->filling->live_refs, refs);
	ck_assert_uint_eq(store->filling->live, octets);
	ck_assert_uint_eq(store->locating, 0);
	for (size_t i = 0; i < store->segment_count; i++) {
		refs = octets = 0;
		add_open(store->segments[i]->first_lsn,
			 i + 1 < store->segment_count ? store->segments[i + 1]->first_lsn : filling,
			 &refs, &octets);
		ck_assert_uint_eq(store->segments[i]->live_refs, refs);
		ck_assert_uint_eq(store->segments[i]->live, octets);
	}
	store_fixture_check(&f);
}

/* Publishes until a segment begins, so that the one before is being sealed. */
static inline void
begin_segment_anew(uint32_t queue)
{
	uint64_t count = f.store->segment_count;

	while (f.store->segment_count == count) {
		publish(queue, 1000);
		store_fixture_submit(&f, false);
		write_batch();
	}
	ck_assert_ptr_nonnull(f.store->sealing);
}

/* One queue with messages everywhere: in sealed segments, in the one that is being sealed, in the one that
 * is written to, on their way, and in the batch that fills. */
static inline uint32_t
fill_everywhere(void)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 80, 1000);
	ck_assert_uint_gt(f.store->segment_count, 3);
	begin_segment_anew(queue);
	publish(queue, 1000);
	store_fixture_submit(&f, false);
	ck_assert(store_fixture_is_writing(&f));
	publish(queue, 1000);
	publish(queue, 1000);
	ck_assert_uint_gt(f.store->filling->live_refs, 0);
	return queue;
}

/* What was logged since said_begin(). */
static int said_fd;

static inline void
said_begin(void)
{
	char path[64];

	said_fd = memfd_create("log", 0);
	ck_assert_int_ge(said_fd, 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", said_fd);
	ck_assert_int_eq(log_set_file(path), 0);
	log_set_level(LOG_WARN);
}

static inline unsigned
said(const char *what)
{
	static char text[65536];
	ssize_t n = pread(said_fd, text, sizeof(text) - 1, 0);
	unsigned count = 0;

	ck_assert_int_ge(n, 0);
	text[n] = 0;
	for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
		count++;
	return count;
}
