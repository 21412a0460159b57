/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops and starts of a store, one rule each: what each kind of stop leaves, what is refused,
 * octets that only look like records, and what happens when space or the disk fails. What
 * recovery gives is compared with the ledger at each opening.
 */
#include "store/store.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "util/crc32c.h"
#include "util/mailbox.h"
#include "util/mem.h"

#include "store_plain_fixture.h"

/* ---- stops and starts ---- */

START_TEST(test_it_is_new_until_something_is_stable)
{
	ck_assert(store_is_new(f.store));
	store_fixture_close(&f, true);
	open_it();
	ck_assert(!store_is_new(f.store));
	store_fixture_fini(&f);
	/* the first start dies before it has written a record */
	store_fixture_init(&f, 1);
	open_it();
	ck_assert(store_is_new(f.store));
	store_fixture_crash(&f, SIM_EVERYTHING, 0);
	open_it();
	ck_assert(store_is_new(f.store));
	store_fixture_flush(&f);
	ck_assert_uint_eq(store_stable(f.store), 1);
}
END_TEST

START_TEST(test_a_clean_stop_writes_what_is_left)
{
	uint32_t queue = store_fixture_queue(&f);
	uint64_t lsn;

	for (unsigned i = 0; i < 10; i++)
		store_fixture_publish(&f, &queue, 1, 20 * 1024);
	store_fixture_ack(&f, 3, 0, ACK_CONSUMED);
	lsn = store_fixture_last_lsn(&f);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	ck_assert_uint_gt(f.ledger.stable, lsn);
	disk_sim_crash(f.sim, SIM_NOTHING, 0);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 9);
	ck_assert_uint_gt(store_stable(f.store), lsn);
}
END_TEST

START_TEST(test_a_kill_loses_what_was_not_handed_over)
{
	uint32_t queue = queue_of(1);

	store_fixture_publish(&f, &queue, 1, 100);
	store_fixture_kill(&f);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 1);
	ck_assert_int_eq(store_fixture_close(&f, false), 0);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 1);
}
END_TEST

START_TEST(test_many_starts_leave_few_files)
{
	unsigned files = 0;
	size_t size;

	queue_of(3);
	for (unsigned i = 0; i < 20; i++) {
		if (i % 2 == 0)
			store_fixture_kill(&f);
		else
			store_fixture_close(&f, true);
		open_it();
		store_fixture_flush(&f);
	}
	store_fixture_crash(&f, SIM_EVERYTHING, 0);
	for (unsigned id = 1; id < 100; id++) {
		char path[64];

		snprintf(path, sizeof(path), "log/%010u.seg", id);
		files += disk_sim_content(f.sim, path, &size) != NULL;
	}
	/* the messages, the tail, one prepared and one of the time when it was closed */
	ck_assert_uint_le(files, 4);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 3);
}
END_TEST

START_TEST(test_messages_larger_than_a_file)
{
	uint32_t queue = store_fixture_queue(&f);

	for (unsigned i = 0; i < 10; i++) {
		store_fixture_publish(&f, &queue, 1, i % 2 == 0 ? 100 * 1024 : 10);
		store_fixture_flush(&f);
	}
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 10);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 10);
}
END_TEST

START_TEST(test_threads_do_the_same)
{
	uint32_t queue = store_fixture_queue(&f);
	struct mailbox *mailbox = store_mailbox(f.store);

	store_start(f.store);
	for (unsigned i = 0; i < 200; i++) {
		struct pollfd wait = {.fd = mailbox_fd(mailbox), .events = POLLIN};

		store_fixture_publish(&f, &queue, 1, 1000);
		if (i % 3 == 0)
			store_fixture_ack(&f, i, 0, ACK_CONSUMED);
		f.now.monotonic_ms++;
		store_fixture_submit(&f, false);
		if (store_fixture_is_writing(&f) && mailbox_sleep(mailbox))
			ck_assert_int_eq(poll(&wait, 1, 20000), 1);
		store_receive(f.store);
	}
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 133);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(test_a_second_opening_is_refused)
{
	struct store_fixture second;

	store_fixture_init(&second, 2);
	disk_sim_free(&second.sim);
	second.sim = f.sim;
	ck_assert_int_eq(store_fixture_open(&second), -EWOULDBLOCK);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&second.error), "LOCK"));
	second.sim = disk_sim_new();
	store_fixture_fini(&second);
	queue_of(1);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
}
END_TEST

/* Changes octets of a file that end in a crc which is made to fit again. */
static void
change_sealed(const char *path, size_t at, size_t change, uint8_t value)
{
	size_t size;
	uint8_t *p = disk_sim_content(f.sim, path, &size);

	ck_assert_ptr_nonnull(p);
	ck_assert_uint_ge(size, at + 4096);
	p[at + change] = value;
	le32_store(p + at + 4092, crc32c(0, p + at, 4092));
}

static void
assert_refused(int code, const char *word)
{
	uint64_t changes;

	f.sim->changes = 0;
	changes = octets_written();
	ck_assert_int_eq(store_fixture_open(&f), code);
	ck_assert_msg(strstr(buf_cstr(&f.error), word) != NULL, "%s", buf_cstr(&f.error));
	ck_assert_uint_eq(octets_written(), changes);
	ck_assert_uint_eq(f.sim->counts.calls[SIM_UNLINK] + f.sim->counts.calls[SIM_RENAME] +
				  f.sim->counts.calls[SIM_TRUNCATE] +
				  f.sim->counts.calls[SIM_CREATE],
			  0);
}

START_TEST(test_a_newer_superblock_is_refused)
{
	queue_of(1);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	disk_sim_crash(f.sim, SIM_NOTHING, 0);
	change_sealed("STORE", 0, SUPERBLOCK_AT_MAJOR, STORE_FORMAT_MAJOR + 1);
	assert_refused(-ENOTSUP, "newer");
	disk_sim_crash(f.sim, SIM_NOTHING, 0);
	change_sealed("STORE", 0, SUPERBLOCK_AT_MAJOR, STORE_FORMAT_MAJOR);
	change_sealed("STORE", 0, SUPERBLOCK_AT_MINOR, STORE_FORMAT_MINOR + 1);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 1);
}
END_TEST

START_TEST(test_a_newer_segment_is_refused)
{
	queue_of(1);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	disk_sim_crash(f.sim, SIM_NOTHING, 0);
	change_sealed("log/0000000001.seg", 0, SEGMENT_AT_MAJOR, STORE_FORMAT_MAJOR + 1);
	assert_refused(-ENOTSUP, "log/0000000001.seg");
}
END_TEST

START_TEST(test_one_damaged_superblock_does_not_matter_two_are_refused)
{
	uint8_t *p;
	size_t size;

	queue_of(1);
	for (unsigned copy = 0; copy < 2; copy++) {
		store_fixture_crash(&f, SIM_NOTHING, 0);
		p = disk_sim_content(f.sim, "STORE", &size);
		p[copy * SUPERBLOCK_SIZE + 100] ^= 1;
		open_it();
		ck_assert_uint_eq(f.found.message_count, 1);
		/* the next one to be written is the damaged one, or the test below is void */
		ck_assert_int_eq(store_fixture_close(&f, true), 0);
		open_it();
	}
	store_fixture_crash(&f, SIM_NOTHING, 0);
	p = disk_sim_content(f.sim, "STORE", &size);
	p[100] ^= 1;
	p[SUPERBLOCK_SIZE + 100] ^= 1;
	assert_refused(-EBADMSG, "STORE");
}
END_TEST

static char newest_checkpoint[64];

static void
note_newest(void *context, const char *name)
{
	(void)context;
	if (strcmp(newest_checkpoint, name) < 0)
		snprintf(newest_checkpoint, sizeof(newest_checkpoint), "%s", name);
}

START_TEST(test_the_newest_checkpoint_may_be_unreadable)
{
	uint32_t queue;
	char path[80];
	size_t size;

	store_fixture_close(&f, true);
	f.options.checkpoint_size = 20 * 1024;
	open_it();
	queue = store_fixture_queue(&f);
	/* files are filled and drained, and go; what only the newest checkpoint allows to go must
	 * not */
	for (unsigned i = 0; i < 60; i++) {
		size_t message = store_fixture_publish(&f, &queue, 1, 10 * 1024);

		store_fixture_flush(&f);
		if (i % 5 != 4)
			store_fixture_ack(&f, message, 0, ACK_CONSUMED);
		f.now.monotonic_ms += 1000;
		store_fixture_flush(&f);
		if (i % 20 == 10)
			for (size_t n = 0; n < message; n++)
				if (f.ledger.messages[n].refs[0].settled == 0)
					store_fixture_ack(&f, n, 0, ACK_CONSUMED);
		if (i % 4 != 0)
			continue;
		store_fixture_crash(&f, SIM_NOTHING, 0);
		newest_checkpoint[0] = '\0';
		ck_assert_int_eq(disk_list(&f.sim->disk, "ckpt", note_newest, NULL), 0);
		snprintf(path, sizeof(path), "ckpt/%s", newest_checkpoint);
		if (newest_checkpoint[0] != '\0') {
			uint8_t *p = disk_sim_content(f.sim, path, &size);

			ck_assert_uint_gt(size, 100);
			p[size / 2] ^= 1;
		}
		f.ledger.may_flag = true;
		open_it();
	}
}
END_TEST

START_TEST(test_a_segment_of_another_store_is_refused)
{
	struct store_fixture other;
	const uint8_t *p;
	size_t size;

	queue_of(1);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	disk_sim_crash(f.sim, SIM_NOTHING, 0);
	store_fixture_init(&other, 3);
	ck_assert_int_eq(store_fixture_open(&other), 0);
	store_fixture_flush(&other);
	store_fixture_crash(&other, SIM_NOTHING, 0);
	p = disk_sim_content(other.sim, "log/0000000001.seg", &size);
	ck_assert_ptr_nonnull(p);
	disk_sim_put(f.sim, "log/0000000001.seg", p, size);
	store_fixture_fini(&other);
	assert_refused(-EBADMSG, "another store");
}
END_TEST

/* ---- octets that look like records ---- */

#define IMAGE_GROUP 1000000

/* A body that is one batch record behind the other, of a later group, as if the salt were 0. */
static void
append_images(uint32_t queue)
{
	struct ledger_queue *q = &f.ledger.queues[queue];
	uint8_t *body = xcalloc(1, 16 * 1024);
	struct message_record record = {.ref_count = 1, .body = bytes_of(body, 16 * 1024)};
	struct batch_record image = {.first_lsn = 1, .group = IMAGE_GROUP, .number = 5, .count = 1};
	uint8_t *refs;

	/* behind the header and the reference the body begins at any multiple of 8: every one is
	 * tried */
	for (uint32_t i = 0; i + BATCH_SIZE <= 16 * 1024; i += BATCH_SIZE)
		batch_record_encode(body + i, &image, 0);
	store_append_message(f.store, &record, &refs);
	store_add_ref(f.store, q->log, refs, q->next_qseq++, 16 * 1024, 0);
	xfree(body);
}

/* Zeros the sector with the record of the batch that holds the images: it is before the first
 * one. */
static bool
tear_batch_with_images(uint8_t *p, size_t size)
{
	const uint8_t *image = memmem(p, size, &(uint32_t){IMAGE_GROUP}, sizeof(uint32_t));
	size_t at;

	if (image == NULL)
		return false;
	at = (size_t)(image - p) / SIM_SECTOR * SIM_SECTOR;
	while (p[at + RECORD_AT_TYPE] != RECORD_BATCH || le32_load(p + at) != BATCH_SIZE ||
	       le32_load(p + at + RECORD_AT_AUX) == IMAGE_GROUP)
		at -= SIM_SECTOR;
	memset(p + at, 0, SIM_SECTOR);
	return true;
}

START_TEST(test_a_body_cannot_pass_for_a_batch)
{
	/* the batch with the images is torn: they must not pass for later batches, which would be
	 * damage */
	for (uint32_t shift = 0; shift < BATCH_SIZE / 8; shift++) {
		uint32_t queue = queue_of(1);
		bool torn = false;

		/* moves the images by 8 octets each time */
		store_fixture_publish(&f, &queue, 1, shift * 8);
		append_images(queue);
		store_fixture_submit(&f, false);
		ck_assert(store_fixture_write(&f));
		store_fixture_crash(&f, SIM_EVERYTHING, 0);
		/* the latest one: what was cut before may still be there behind an end */
		for (unsigned id = 200; id > 0 && !torn; id--) {
			char path[64];
			size_t size;
			uint8_t *p;

			snprintf(path, sizeof(path), "log/%010u.seg", id);
			p = disk_sim_content(f.sim, path, &size);
			torn = p != NULL && tear_batch_with_images(p, size);
		}
		ck_assert(torn);
		open_it();
	}
}
END_TEST

/* ---- trouble ---- */

static void
fill_disk(void)
{
	f.sim->capacity = UINT64_MAX / 2;
	f.sim->capacity -= (uint64_t)disk_free_space(&f.sim->disk);
}

START_TEST(test_short_of_space_and_back)
{
	uint32_t queue = queue_of(0);
	unsigned rounds = 0;

	fill_disk();
	while (!f.is_short) {
		store_fixture_publish(&f, &queue, 1, 10 * 1024);
		store_fixture_flush(&f);
		ck_assert_uint_lt(++rounds, 100);
	}
	ck_assert(store_is_full(f.store, f.now));
	/* what is in the files that are there still gets in */
	store_fixture_ack(&f, 0, 0, ACK_CONSUMED);
	store_fixture_flush(&f);
	ck_assert(f.is_short);
	ck_assert_uint_gt(store_due_ms(f.store), f.now.monotonic_ms);
	ck_assert_uint_le(store_due_ms(f.store), f.now.monotonic_ms + 1000);
	f.sim->capacity = 0;
	f.now.monotonic_ms += 1000;
	store_fixture_submit(&f, false);
	store_fixture_work(&f);
	ck_assert(!f.is_short);
	ck_assert(!store_is_full(f.store, f.now));
	ck_assert_uint_eq(f.short_calls, 2);
	ck_assert(!f.failed);
	store_fixture_publish(&f, &queue, 1, 10 * 1024);
	store_fixture_flush(&f);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
}
END_TEST

START_TEST(test_a_batch_waits_for_space)
{
	uint32_t queue = queue_of(0);
	uint64_t stable;

	fill_disk();
	/* larger than what is there, so it needs a file of its own */
	store_fixture_publish(&f, &queue, 1, 100 * 1024);
	stable = store_stable(f.store);
	for (unsigned i = 0; i < 10; i++) {
		store_fixture_submit(&f, false);
		store_fixture_work(&f);
		f.now.monotonic_ms += 700;
		store_fixture_ack(&f, store_fixture_publish(&f, &queue, 1, 10), 0, ACK_CONSUMED);
	}
	ck_assert_uint_eq(store_stable(f.store), stable);
	ck_assert(f.is_short);
	f.sim->capacity = 0;
	f.now.monotonic_ms += 1000;
	store_fixture_flush(&f);
	ck_assert(!f.is_short);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
	ck_assert_uint_eq(f.found.message_count, 1);
}
END_TEST

START_TEST(test_a_clean_stop_without_space_is_none)
{
	uint32_t queue = queue_of(0);

	fill_disk();
	store_fixture_publish(&f, &queue, 1, 100 * 1024);
	ck_assert_int_eq(store_fixture_close(&f, true), -ENOSPC);
	f.sim->capacity = 0;
	open_it();
	ck_assert_uint_eq(f.found.message_count, 0);
}
END_TEST

START_TEST(test_a_failed_sync_ends_it)
{
	uint64_t stable;

	queue_of(1);
	stable = store_stable(f.store);
	disk_sim_fail(f.sim, (struct disk_sim_fault){.kind = SIM_SYNC, .at = 1, .error = -EIO});
	store_fixture_define(&f, 1, 1);
	store_fixture_submit(&f, false);
	ck_assert(store_fixture_write(&f));
	store_fixture_define(&f, 2, 1);
	store_receive(f.store);
	ck_assert(f.failed);
	/* the disk is well again, but nobody can know what it has lost */
	for (unsigned i = 0; i < 5; i++) {
		f.now.monotonic_ms += 100;
		store_fixture_submit(&f, false);
		store_fixture_work(&f);
	}
	ck_assert_uint_eq(store_stable(f.store), stable);
	ck_assert(store_due_ms(f.store) == UINT64_MAX);
	ck_assert_int_lt(store_fixture_close(&f, true), 0);
	f.ledger.stop = LEDGER_UNCLEAN;
	open_it();
	/* the machine goes: what the failed sync had is lost, what was found is not */
	stable = store_stable(f.store);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	open_it();
	ck_assert_uint_eq(store_stable(f.store), stable);
}
END_TEST

TESTS_WITH("store_open", set_up, tear_down, test_it_is_new_until_something_is_stable,
	   test_a_clean_stop_writes_what_is_left, test_a_kill_loses_what_was_not_handed_over,
	   test_many_starts_leave_few_files, test_messages_larger_than_a_file,
	   test_threads_do_the_same, test_a_second_opening_is_refused,
	   test_a_newer_superblock_is_refused, test_a_newer_segment_is_refused,
	   test_one_damaged_superblock_does_not_matter_two_are_refused,
	   test_the_newest_checkpoint_may_be_unreadable, test_a_segment_of_another_store_is_refused,
	   test_a_body_cannot_pass_for_a_batch, test_short_of_space_and_back,
	   test_a_batch_waits_for_space, test_a_clean_stop_without_space_is_none,
	   test_a_failed_sync_ends_it)
