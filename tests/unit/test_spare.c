/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the log that are used again, and what they still hold. */
#include "store/spare.h"

#include <errno.h>
#include <stdio.h>

#include "unit/store_plain_fixture.h"

#define MESSAGES 60

/* Open with checkpoints so often that files go soon, and without compaction. */
static void
set_up_rolling(void)
{
	store_fixture_init(&f, 1);
	f.options.checkpoint_size = 64 * 1024;
	f.options.garbage_files = 1000;
	open_it();
	store_fixture_flush(&f);
}

/* Messages of several files. */
static void
use_files(size_t messages[MESSAGES])
{
	uint32_t queue = store_fixture_queue(&f);

	for (size_t i = 0; i < MESSAGES; i++) {
		messages[i] = store_fixture_publish(&f, &queue, 1, 10 * 1024);
		store_fixture_flush(&f);
	}
}

/* They are settled, and two checkpoints and more say so. */
static void
let_files_go(const size_t messages[MESSAGES])
{
	uint32_t queue = store_fixture_queue(&f);

	for (size_t i = 0; i < MESSAGES; i++)
		store_fixture_ack(&f, messages[i], 0, ACK_CONSUMED);
	for (size_t i = 0; i < 4; i++) {
		f.store->checkpoints.forced = true;
		store_fixture_publish(&f, &queue, 1, 10);
		store_fixture_flush(&f);
	}
}

static void
use_files_and_let_go(void)
{
	size_t messages[MESSAGES];

	use_files(messages);
	let_files_go(messages);
}

struct files {
	size_t segments;
	size_t spares;
	size_t others;
};

static void
count_name(void *context, const char *name)
{
	struct files *files = context;

	if (strstr(name, ".seg") != NULL)
		files->segments++;
	else if (strstr(name, SPARE_SUFFIX) != NULL)
		files->spares++;
	else
		files->others++;
}

static struct files
count_files(void)
{
	struct files files = {0};

	ck_assert_int_eq(disk_list(&f.sim->disk, "log", count_name, &files), 0);
	return files;
}

static size_t made; // files of the log

static void
note_made(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	(void)context;
	(void)sim;
	if (call->kind == SIM_CREATE && call->over && strncmp(call->path, "log/", 4) == 0)
		made++;
}

START_TEST(test_files_are_used_again)
{
	use_files_and_let_go();
	ck_assert_uint_eq(f.store->spares->count, SPARES_MAX);
	made = 0;
	f.sim->hook = note_made;
	for (unsigned i = 0; i < 4; i++) {
		uint64_t first = f.store->next_segment_id;
		size_t used;

		use_files_and_let_go();
		used = f.store->next_segment_id - first;
		ck_assert_uint_gt(used, SPARES_MAX);
		ck_assert_uint_eq(made, (i + 1) * (used - SPARES_MAX));
		ck_assert_uint_eq(count_files().spares, SPARES_MAX);
		ck_assert_uint_eq(count_files().others, 0);
	}
	f.sim->hook = NULL;
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
}
END_TEST

START_TEST(test_start_takes_them_over)
{
	use_files_and_let_go();
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	open_it();
	store_fixture_flush(&f);
	/* one is the first file of this run */
	ck_assert_uint_eq(f.store->spares->count, SPARES_MAX - 1);
	ck_assert_uint_eq(count_files().spares, SPARES_MAX - 1);
}
END_TEST

START_TEST(test_start_removes_what_is_too_small_and_too_many)
{
	uint8_t *octets = xcalloc(1, f.options.file_size);

	store_fixture_kill(&f);
	for (unsigned i = 0; i < SPARES_MAX + 3; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "log/%010u" SPARE_SUFFIX, 100 + i);
		disk_sim_put(f.sim, path, octets, i == 0 ? 1000 : f.options.file_size);
	}
	disk_sim_put(f.sim, "log/7" SPARE_SUFFIX, octets, f.options.file_size);
	xfree(octets);
	open_it();
	store_fixture_flush(&f);
	ck_assert_uint_le(count_files().spares, SPARES_MAX);
	ck_assert_uint_eq(count_files().spares, f.store->spares->count);
	ck_assert_uint_eq(count_files().others, 0);
}
END_TEST

START_TEST(test_low_disk_keeps_none)
{
	use_files_and_let_go();
	ck_assert_uint_eq(count_files().spares, SPARES_MAX);
	store_ask_space(f.store, true);
	store_fixture_flush(&f);
	ck_assert_uint_eq(count_files().spares, 0);
	use_files_and_let_go();
	ck_assert_uint_eq(count_files().spares, 0);
	store_ask_space(f.store, false);
	store_fixture_flush(&f);
	use_files_and_let_go();
	ck_assert_uint_gt(count_files().spares, 0);
}
END_TEST

/* The file of a sealed segment, as large as a new one will be: its trailer is where that one ends. */
START_TEST(test_nothing_of_what_they_hold_is_believed)
{
	struct disk_file *file;
	size_t messages[MESSAGES];
	char path[PATH_MAX_SIZE];
	const uint8_t *content;
	uint8_t *octets;
	size_t n;

	use_files(messages);
	segment_path(path, f.store->segments[0]->id);
	store_fixture_kill(&f);
	content = disk_sim_content(f.sim, path, &n);
	octets = xmemdup(content, n);
	for (unsigned cut = 0; cut < 3; cut++) {
		disk_sim_put(f.sim, "log/0000000500" SPARE_SUFFIX, octets, n);
		f.options.file_size = n - 8 * cut;
		open_it();
		store_fixture_flush(&f);
		ck_assert_uint_eq(f.store->spares->count, 0);
		queue_of(3);
		store_fixture_crash(&f, SIM_EVERYTHING, 0);
	}
	xfree(octets);
	open_it();
	ck_assert_int_eq(disk_open(&f.sim->disk, "log/0000000500" SPARE_SUFFIX, DISK_READ, &file),
			 -ENOENT);
}
END_TEST

TESTS_WITH("spare", set_up_rolling, tear_down, test_files_are_used_again,
	   test_start_takes_them_over, test_start_removes_what_is_too_small_and_too_many,
	   test_low_disk_keeps_none, test_nothing_of_what_they_hold_is_believed)
