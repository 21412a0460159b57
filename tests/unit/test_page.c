/* SPDX-License-Identifier: Apache-2.0 */
/* Page files of the store: what is written comes back, a file lives as long as something in it, and what goes
 * wrong harms nothing else. */
#include "store/page.h"

#include "lib/disk_sim.h"
#include "lib/runner.h"
#include "util/log.h"
#include "util/mailbox.h"
#include "util/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#define ITEMS 64
#define FILE_SIZE 65536

static struct disk_sim *disk;
static struct store *store;
static struct page_item items[ITEMS];
static int out_error; // of the last write; 1: none came back
static unsigned ins;  // reads that came back
static bool failed;

/* What a read of these items must bring. */
static uint32_t sizes[ITEMS];
static uint32_t numbers[ITEMS];
static bool lost[ITEMS];

static uint8_t *
make_body(uint32_t number, uint32_t size)
{
	uint8_t *body = xmalloc(size);
	uint32_t state = number * 2654435761U + 1;

	for (uint32_t i = 0; i < size; i++) {
		state = state * 1664525 + 1013904223;
		body[i] = (uint8_t)(state >> 24);
	}
	return body;
}

static void
on_define(void *context, const struct definition *definition, struct queue_log *log)
{
	(void)context;
	(void)definition;
	(void)log;
}

static void
on_snapshot(void *context, struct store *of)
{
	(void)context;
	(void)of;
}

static void
on_stable(void *context, uint64_t lsn)
{
	(void)context;
	(void)lsn;
}

static void
on_space(void *context, bool is_short)
{
	(void)context;
	(void)is_short;
}

static void
on_failed(void *context, int error, const char *what)
{
	(void)context;
	(void)error;
	(void)what;
	failed = true;
}

static void
on_paged_out(void *context, void *owner, int error)
{
	(void)context;
	ck_assert_ptr_eq(owner, &out_error);
	out_error = error;
}

/* Bodies must be looked at before this returns. */
static void
on_paged_in(void *context, void *owner)
{
	uint32_t count = *(uint32_t *)owner;

	(void)context;
	ins++;
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *expected = make_body(numbers[i], sizes[i]);

		ck_assert_msg((items[i].body.p == NULL) == lost[i], "item %u", i);
		if (!lost[i])
			ck_assert_mem_eq(items[i].body.p, expected, sizes[i]);
		xfree(expected);
	}
}

static const struct store_ops ops = {
	.define = on_define,
	.snapshot = on_snapshot,
	.stable = on_stable,
	.short_of_space = on_space,
	.failed = on_failed,
	.paged_out = on_paged_out,
	.paged_in = on_paged_in,
};

static void
open_store(void)
{
	struct store_options options = store_options_default();
	struct buf error;

	options.file_size = FILE_SIZE;
	buf_init(&error, 0);
	ck_assert_int_eq(store_open(&store, &disk->disk, &options, &ops, NULL, &error), 0);
	buf_fini(&error);
}

static void
set_up(void)
{
	log_set_level(LOG_NONE);
	disk = disk_sim_new();
	open_store();
}

static void
tear_down(void)
{
	ck_assert_int_eq(store_close(&store, !failed), 0);
	disk_sim_free(&disk);
}

/* Lets the helper work, and takes in what came of it. */
static void
work(void)
{
	while (store_work(store))
		store_receive(store);
	store_page_check(store);
}

/* Sends bodies of these numbers, all of one size, which are gone as soon as they are written. */
static int
write_out(uint32_t first, uint32_t count, uint32_t size)
{
	out_error = 1;
	for (uint32_t i = 0; i < count; i++) {
		items[i] = (struct page_item){.body = {make_body(first + i, size), size}};
		numbers[i] = first + i;
		sizes[i] = size;
	}
	ck_assert(store_page_out(store, items, count, &out_error));
	ck_assert_int_eq(out_error, 1);
	work();
	ck_assert_int_le(out_error, 0);
	for (uint32_t i = 0; i < count; i++) {
		xfree((uint8_t *)(uintptr_t)items[i].body.p);
		items[i].body.p = NULL;
	}
	return out_error;
}

static void
write_well(uint32_t first, uint32_t count, uint32_t size)
{
	ck_assert_int_eq(write_out(first, count, size), 0);
}

static void
read_back(uint32_t count)
{
	unsigned before = ins;

	for (uint32_t i = 0; i < count; i++)
		items[i].body = bytes_of(NULL, sizes[i]);
	ck_assert(store_page_in(store, items, count, &count));
	work();
	ck_assert_uint_eq(ins, before + 1);
}

static void
release(uint32_t from, uint32_t count)
{
	for (uint32_t i = from; i < from + count; i++)
		page_release(items[i].place);
}

static void
count_name(void *context, const char *name)
{
	(void)name;
	++*(unsigned *)context;
}

static unsigned
file_count(void)
{
	unsigned count = 0;

	ck_assert_int_eq(disk_list(&disk->disk, "page", count_name, &count), 0);
	return count;
}

static bool
exists(const char *path)
{
	struct disk_file *file;
	int error = disk_open(&disk->disk, path, DISK_READ, &file);

	if (error == 0)
		disk_close(&file);
	return error == 0;
}

static int64_t
size_of(const char *path)
{
	struct disk_file *file;
	int64_t size;

	ck_assert_int_eq(disk_open(&disk->disk, path, DISK_READ, &file), 0);
	size = disk_size(file);
	disk_close(&file);
	return size;
}

static void
overwrite(const char *path, const char *octets, size_t n, uint64_t at)
{
	struct disk_file *file;

	ck_assert_int_eq(disk_open(&disk->disk, path, DISK_WRITE, &file), 0);
	ck_assert_int_eq(disk_write(file, octets, n, at), 0);
	disk_close(&file);
}

static void
fail_next(enum disk_sim_kind kind, int error, size_t part)
{
	disk_sim_fail(
		disk,
		(struct disk_sim_fault){
			.kind = kind, .path = "page/", .at = 1, .error = error, .part = part});
}

START_TEST(test_bodies_come_back)
{
	write_well(1, ITEMS, 500);
	read_back(ITEMS);
	read_back(ITEMS);
	release(0, ITEMS);
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_a_file_that_goes_gives_its_room_back)
{
	int64_t before;

	disk->capacity = 1 << 30;
	before = disk_free_space(&disk->disk);
	write_well(1, ITEMS, 500);
	ck_assert_int_lt(disk_free_space(&disk->disk), before);
	release(0, ITEMS);
	work();
	ck_assert_int_eq(disk_free_space(&disk->disk), before);
}
END_TEST

START_TEST(test_sizes_that_are_gathered_and_not)
{
	static const uint32_t all[] = {1, 511, 65535, 65536, 131072, 1000000};

	for (size_t i = 0; i < countof(all); i++) {
		write_well(7, 1, all[i]);
		read_back(1);
		release(0, 1);
		write_well(100, 5, all[i]);
		read_back(5);
		release(0, 5);
	}
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_nothing_is_synced)
{
	uint64_t syncs = disk->counts.calls[SIM_SYNC];

	write_well(1, ITEMS, 500);
	ck_assert_uint_eq(disk->counts.calls[SIM_SYNC], syncs);
	release(0, ITEMS);
}
END_TEST

START_TEST(test_neighbours_come_by_one_read)
{
	uint64_t reads;

	write_well(1, ITEMS, 500);
	reads = disk->counts.calls[SIM_READ];
	read_back(ITEMS);
	ck_assert_uint_eq(disk->counts.calls[SIM_READ], reads + 1);
	release(0, ITEMS);
}
END_TEST

START_TEST(test_one_read_is_bounded)
{
	uint64_t reads;

	write_well(1, 16, 50000);
	reads = disk->counts.calls[SIM_READ];
	read_back(16);
	/* five fit into 256 KiB */
	ck_assert_uint_eq(disk->counts.calls[SIM_READ], reads + 4);
	release(0, 16);
}
END_TEST

START_TEST(test_places_in_any_order)
{
	struct page_item first;

	write_well(1, ITEMS, 500);
	first = items[0];
	items[0] = items[ITEMS - 1];
	items[ITEMS - 1] = first;
	numbers[0] = ITEMS;
	numbers[ITEMS - 1] = 1;
	read_back(ITEMS);
	release(0, ITEMS);
}
END_TEST

START_TEST(test_a_file_that_is_full_is_followed_by_another)
{
	struct page_item old[2];

	write_well(1, 2, FILE_SIZE / 2);
	memcpy(old, items, sizeof(old));
	ck_assert_uint_eq(file_count(), 1);
	write_well(3, 2, 100);
	ck_assert_uint_eq(file_count(), 2);
	/* both may be read, and the old one goes with its last body */
	read_back(2);
	page_release(old[0].place);
	work();
	ck_assert_uint_eq(file_count(), 2);
	page_release(old[1].place);
	work();
	ck_assert_uint_eq(file_count(), 1);
	ck_assert(exists("page/0000000002.page"));
	read_back(2);
	release(0, 2);
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_the_file_that_is_written_to_stays)
{
	struct page_item first;

	write_well(1, 1, 100);
	first = items[0];
	items[0] = (struct page_item){.body = BYTES("a body")};
	ck_assert(store_page_out(store, items, 1, &out_error));
	/* all in it is gone, but the next body is on its way to it */
	page_release(first.place);
	store_page_check(store);
	work();
	ck_assert_uint_eq(file_count(), 1);
	release(0, 1);
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_more_files_than_are_kept_open)
{
	struct page_item all[8];

	for (uint32_t i = 0; i < countof(all); i++) {
		write_well(i, 1, FILE_SIZE);
		all[i] = items[0];
	}
	ck_assert_uint_eq(file_count(), countof(all));
	for (uint32_t i = 0; i < countof(all); i++) {
		items[i] = all[i];
		numbers[i] = i;
		sizes[i] = FILE_SIZE;
	}
	read_back(countof(all));
	read_back(countof(all));
	release(0, countof(all));
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

/* ---- what goes wrong ---- */

START_TEST(test_after_a_write_error_another_file_takes_it)
{
	struct page_item before;

	write_well(1, 1, 100);
	before = items[0];
	fail_next(SIM_WRITE, -ENOSPC, 50);
	ck_assert_int_eq(write_out(2, 10, 100), -ENOSPC);
	ck_assert(!failed);
	/* what was in the file is still there, what was not written takes no room */
	ck_assert_int_eq(size_of("page/0000000001.page"), 108);
	write_well(2, 10, 100);
	ck_assert_uint_eq(file_count(), 2);
	read_back(10);
	release(0, 10);
	items[0] = before;
	numbers[0] = 1;
	read_back(1);
	release(0, 1);
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_a_file_that_cannot_be_made)
{
	fail_next(SIM_CREATE, -ENOSPC, 0);
	ck_assert_int_eq(write_out(1, 3, 100), -ENOSPC);
	/* made in spite of the error */
	fail_next(SIM_CREATE, -EIO, 1);
	ck_assert_int_eq(write_out(1, 3, 100), -EIO);
	work();
	ck_assert_uint_eq(file_count(), 0);
	ck_assert(!failed);
	write_well(1, 3, 100);
	read_back(3);
	release(0, 3);
}
END_TEST

START_TEST(test_a_read_error_is_that_of_one_body)
{
	write_well(1, 10, 500);
	/* the read of all, and that of the fourth alone */
	fail_next(SIM_READ, -EIO, 0);
	disk_sim_fail(disk, (struct disk_sim_fault){
				    .kind = SIM_READ, .path = "page/", .at = 5, .error = -EIO});
	lost[3] = true;
	read_back(10);
	ck_assert(!failed);
	disk_sim_clear_faults(disk);
	lost[3] = false;
	read_back(10);
	release(0, 10);
}
END_TEST

START_TEST(test_a_damaged_body_is_not_given_out)
{
	write_well(1, 10, 500);
	/* a body, and the header of another one */
	overwrite("page/0000000001.page", "damage", 6, 508 * 3 + 100);
	overwrite("page/0000000001.page", "dama", 4, 508 * 6);
	lost[3] = lost[6] = true;
	read_back(10);
	ck_assert(!failed);
	release(0, 10);
}
END_TEST

START_TEST(test_a_body_of_another_place_is_not_given_out)
{
	struct disk_file *file;
	uint8_t octets[508];

	write_well(1, 3, 500);
	ck_assert_int_eq(disk_open(&disk->disk, "page/0000000001.page", DISK_WRITE, &file), 0);
	ck_assert_int_eq(disk_read(file, octets, sizeof(octets), 0), sizeof(octets));
	ck_assert_int_eq(disk_write(file, octets, sizeof(octets), sizeof(octets)), 0);
	disk_close(&file);
	lost[1] = true;
	read_back(3);
	release(0, 3);
}
END_TEST

START_TEST(test_a_file_that_is_cut_off_or_gone)
{
	struct disk_file *file;

	write_well(1, 10, 500);
	ck_assert_int_eq(disk_open(&disk->disk, "page/0000000001.page", DISK_WRITE, &file), 0);
	ck_assert_int_eq(disk_truncate(file, 508 * 8 + 20), 0);
	disk_close(&file);
	lost[8] = lost[9] = true;
	read_back(10);
	release(0, 10);
	write_well(1, 1, FILE_SIZE);
	/* where it is not open any more */
	for (uint32_t i = 0; i < 6; i++) {
		struct page_item first = items[0];

		write_well(9, 1, FILE_SIZE);
		items[1 + i] = items[0];
		items[0] = first;
	}
	ck_assert_int_eq(disk_unlink(&disk->disk, "page/0000000002.page"), 0);
	lost[0] = true;
	sizes[0] = FILE_SIZE;
	read_back(1);
	release(0, 7);
	work();
	ck_assert_uint_eq(file_count(), 0);
}
END_TEST

START_TEST(test_a_file_that_cannot_be_removed_is_left)
{
	write_well(1, 1, 100);
	fail_next(SIM_UNLINK, -EIO, 0);
	release(0, 1);
	work();
	ck_assert(!failed);
	ck_assert_uint_eq(file_count(), 1);
	write_well(2, 1, 100);
	read_back(1);
	release(0, 1);
}
END_TEST

/* ---- the end, and the start ---- */

START_TEST(test_places_outlive_the_store)
{
	write_well(1, 10, 500);
	ck_assert_int_eq(store_close(&store, true), 0);
	ck_assert_uint_eq(file_count(), 0);
	release(0, 10);
	disk_sim_forget(disk);
	open_store();
}
END_TEST

START_TEST(test_the_end_while_jobs_are_on_their_way)
{
	uint32_t count = 2;

	write_well(1, 2, 500);
	items[2] = (struct page_item){.body = BYTES("a body")};
	items[0].body = items[1].body = bytes_of(NULL, 500);
	out_error = 1;
	ck_assert(store_page_in(store, items, count, &count));
	ck_assert(store_page_out(store, &items[2], 1, &out_error));
	ck_assert_int_eq(store_close(&store, true), 0);
	ck_assert_uint_eq(ins, 1);
	ck_assert_int_eq(out_error, 0);
	ck_assert_uint_eq(file_count(), 0);
	release(0, 3);
	disk_sim_forget(disk);
	open_store();
}
END_TEST

START_TEST(test_a_start_empties_the_folder)
{
	write_well(1, 10, 500);
	store_submit(store, (struct now){.monotonic_ms = 1000}, false);
	work();
	/* as if the process had been killed */
	disk_sim_put(disk, "page/0000000044.page", "left", 4);
	ck_assert_int_eq(store_close(&store, false), 0);
	release(0, 10);
	disk_sim_forget(disk);
	ck_assert_uint_eq(file_count(), 1);
	open_store();
	ck_assert_uint_eq(file_count(), 0);
	write_well(1, 10, 500);
	read_back(10);
	release(0, 10);
}
END_TEST

static void
await_mail(void)
{
	struct mailbox *mailbox = store_mailbox(store);
	struct pollfd wait = {.fd = mailbox_fd(mailbox), .events = POLLIN};

	if (mailbox_sleep(mailbox))
		ck_assert_int_eq(poll(&wait, 1, 20000), 1);
	store_receive(store);
}

START_TEST(test_the_helper_thread_does_the_same)
{
	uint32_t count = 10;

	store_start(store);
	for (uint32_t round = 0; round < 50; round++) {
		unsigned before = ins;

		out_error = 1;
		for (uint32_t i = 0; i < count; i++) {
			numbers[i] = round * count + i;
			sizes[i] = 3000;
			items[i] = (struct page_item){.body = {make_body(numbers[i], 3000), 3000}};
		}
		ck_assert(store_page_out(store, items, count, &out_error));
		while (out_error == 1)
			await_mail();
		ck_assert_int_eq(out_error, 0);
		for (uint32_t i = 0; i < count; i++) {
			xfree((uint8_t *)(uintptr_t)items[i].body.p);
			items[i].body = bytes_of(NULL, 3000);
		}
		ck_assert(store_page_in(store, items, count, &count));
		while (ins == before)
			await_mail();
		release(0, count);
	}
}
END_TEST

TESTS_WITH("page", set_up, tear_down, test_bodies_come_back,
	   test_a_file_that_goes_gives_its_room_back, test_sizes_that_are_gathered_and_not,
	   test_nothing_is_synced, test_neighbours_come_by_one_read, test_one_read_is_bounded,
	   test_places_in_any_order, test_a_file_that_is_full_is_followed_by_another,
	   test_the_file_that_is_written_to_stays, test_more_files_than_are_kept_open,
	   test_after_a_write_error_another_file_takes_it, test_a_file_that_cannot_be_made,
	   test_a_read_error_is_that_of_one_body, test_a_damaged_body_is_not_given_out,
	   test_a_body_of_another_place_is_not_given_out, test_a_file_that_is_cut_off_or_gone,
	   test_a_file_that_cannot_be_removed_is_left, test_places_outlive_the_store,
	   test_the_end_while_jobs_are_on_their_way, test_a_start_empties_the_folder,
	   test_the_helper_thread_does_the_same)
