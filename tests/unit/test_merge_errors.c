/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges where something fails, or the store is closed in the middle of one: nothing is lost, no file is
 * left over, and what can be done later is done later, but not without end.
 */
#include "store/store.h"

#include <errno.h>

#include "lib/runner.h"

#include "merge_fixture.h"

static struct store_fixture f;

static void
tear_down(void)
{
	if (f.sim != NULL)
		store_fixture_fini(&f);
}

static void
end_of(struct store_fixture *which)
{
	store_fixture_fini(which);
	which->sim = NULL;
}

static void
reopen(bool cold)
{
	f.cold = cold;
	for (size_t m = 0; m < f.ledger.message_count && !f.cold; m++)
		for (uint32_t n = 0; n < f.ledger.messages[m].ref_count; n++)
			f.ledger.messages[m].refs[n].cold = false;
	ck_assert_msg(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	check_files(&f);
}

/* Nothing fails any more: all of it is merged, and there after a crash. */
static void
check_all_is_well(void)
{
	merge_rest(&f);
	ck_assert_uint_gt(recount_merged(&f, false), 0);
	store_fixture_check(&f);
	check_files(&f);
	store_fixture_crash(&f, SIM_NOTHING, 0);
	reopen(!f.cold);
}

/* ---- closing ---- */

static void
check_close(enum merge_state state, bool clean, bool helped, bool cold)
{
	merge_small_files(&f, state, cold);
	make_garbage(&f);
	merge_reach(&f, state);
	if (helped)
		store_fixture_index_and_help(&f);
	settle_one(&f);
	ck_assert_int_eq(store_fixture_close(&f, clean), 0);
	if (!clean)
		store_fixture_crash(&f, SIM_NOTHING, 0);
	reopen(cold);
	check_all_is_well();
	end_of(&f);
}

START_TEST(test_close_in_any_state)
{
	for (enum merge_state state = MERGE_LISTING; state <= MERGE_COPYING; state++)
		for (unsigned i = 0; i < 8; i++)
			check_close(state, (i & 1) != 0, (i & 2) != 0, (i & 4) != 0);
}
END_TEST

/* The writer is late, so the copy waits for it. */
static void
pause_merge(void)
{
	uint32_t queue;

	merge_small_files(&f, 1, false);
	store_fixture_close(&f, true);
	f.options.file_size = 3 * 1024 * 1024;
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	for (unsigned i = 0; i < 120; i++) {
		store_fixture_publish(&f, &queue, 1, 80000 + i);
		if (i % 8 == 0)
			store_fixture_flush(&f);
	}
	settle_from(&f, 0, 3);
	merge_reach(&f, MERGE_COPYING);
	store_fixture_publish(&f, &queue, 1, 10);
	store_fixture_submit(&f, false);
	ck_assert(store_fixture_is_writing(&f));
	store_fixture_publish(&f, &queue, 1, 10);
	store_fixture_submit(&f, false);
	f.now.monotonic_ms += 100;
	store_fixture_submit(&f, false);
	store_fixture_index_and_help(&f);
	store_receive(f.store);
	ck_assert_int_eq(f.store->merge_state, MERGE_PAUSED);
	/* nothing is with the helper */
	ck_assert(!store_fixture_index_and_help(&f));
}

START_TEST(test_publishers_go_first)
{
	pause_merge();
	store_fixture_write(&f);
	store_receive(f.store);
	ck_assert_int_eq(f.store->merge_state, MERGE_COPYING);
	check_all_is_well();
}
END_TEST

START_TEST(test_close_while_it_waits_for_publishers)
{
	for (unsigned clean = 0; clean < 2; clean++) {
		pause_merge();
		ck_assert_int_eq(store_fixture_close(&f, clean == 1), 0);
		reopen(true);
		check_all_is_well();
		end_of(&f);
	}
}
END_TEST

/* ---- a full disk ---- */

/* Turns for a while in which nothing should be merged; not many tries are made. */
static void
fail_for_a_while(const char *path)
{
	uint64_t lsn = store_fixture_last_lsn(&f);

	for (unsigned i = 0; i < 400; i++) {
		f.now.monotonic_ms += 10;
		store_fixture_submit(&f, false);
		store_fixture_work(&f);
		ck_assert(!f.failed);
	}
	ck_assert_uint_eq(merged_segments(&f), 0);
	ck_assert_msg(store_fixture_last_lsn(&f) <= lsn + 4, "%llu records for tries with %s",
		      (unsigned long long)(store_fixture_last_lsn(&f) - lsn), path);
}

/* There is no room for one kind of call on the new file, then there is. */
static void
check_no_room(enum disk_sim_kind kind, uint64_t at)
{
	merge_small_files(&f, kind, false);
	make_garbage(&f);
	merge_reach(&f, MERGE_MARKED);
	disk_sim_fail(f.sim, (struct disk_sim_fault){.kind = kind,
						     .path = ".tmp",
						     .at = at,
						     .for_ever = true,
						     .error = -ENOSPC});
	merge_reach(&f, MERGE_IDLE);
	ck_assert(!f.failed);
	ck_assert_uint_eq(count_files(&f).others, 0);
	fail_for_a_while(".tmp");
	ck_assert_uint_eq(count_files(&f).others, 0);
	/* it asks to be called when it will try again */
	ck_assert_uint_ne(store_due_ms(f.store), UINT64_MAX);
	disk_sim_clear_faults(f.sim);
	f.now.monotonic_ms = store_due_ms(f.store);
	check_all_is_well();
	end_of(&f);
}

START_TEST(test_no_room_for_the_copy)
{
	check_no_room(SIM_WRITE, 1);
	check_no_room(SIM_WRITE, 2);
	check_no_room(SIM_WRITE, 4);
	check_no_room(SIM_CREATE, 1);
	check_no_room(SIM_TRUNCATE, 1);
	check_no_room(SIM_SYNC, 1);
	check_no_room(SIM_SYNC, 3);
}
END_TEST

START_TEST(test_the_checkpoint_of_a_merge_fails)
{
	merge_small_files(&f, 1, false);
	make_garbage(&f);
	merge_reach(&f, MERGE_LISTED);
	disk_sim_fail(f.sim, (struct disk_sim_fault){.kind = SIM_WRITE,
						     .path = "ckpt",
						     .at = 1,
						     .for_ever = true,
						     .error = -ENOSPC});
	merge_reach(&f, MERGE_IDLE);
	fail_for_a_while("ckpt");
	disk_sim_clear_faults(f.sim);
	f.now.monotonic_ms = store_due_ms(f.store);
	check_all_is_well();
}
END_TEST

/* ---- an error at any call ---- */

static unsigned failures; // calls that failed

static void
count_failure(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	(void)context;
	(void)sim;
	failures += call->over && call->kind < SIM_OPEN && call->result < 0;
}

/* The k-th call on the log from the copy on fails, if there are so many. */
static void
check_failing_call(uint64_t k, int error, bool for_ever)
{
	merge_small_files(&f, 3, true);
	make_garbage(&f);
	merge_reach(&f, MERGE_MARKED);
	f.sim->hook = count_failure;
	disk_sim_fail(f.sim, (struct disk_sim_fault){.kind = SIM_ANY,
						     .path = "log",
						     .at = k,
						     .for_ever = for_ever,
						     .error = error,
						     /* a name may have changed all the same */
						     .part = k % 2});
	for (unsigned i = 0; i < 40 && !f.failed; i++) {
		merge_turn(&f);
		if (i == 5)
			settle_one(&f);
	}
	f.sim->hook = NULL;
	disk_sim_clear_faults(f.sim);
	store_fixture_crash(&f, k % 3 == 0 ? SIM_NOTHING : SIM_RANDOM, k);
	reopen(k % 2 == 0);
	check_all_is_well();
	end_of(&f);
}

START_TEST(test_any_call_fails)
{
	for (uint64_t k = 1; k <= 60; k++)
		for (unsigned i = 0; i < 4; i++)
			check_failing_call(k, (i & 1) != 0 ? -EIO : -ENOSPC, i > 1);
	printf("merge: %u failing calls\n", failures);
	ck_assert_uint_gt(failures, 200);
}
END_TEST

/* ---- damage ---- */

/* Garbles an octet of the n-th sealed segment. */
static uint64_t
garble(size_t at, uint64_t offset)
{
	uint64_t id = f.store->segments[at]->id;
	char path[PATH_MAX_SIZE];
	struct disk_file *file;
	uint8_t octet;

	segment_path(path, id);
	ck_assert_int_eq(disk_open(&f.sim->disk, path, DISK_WRITE, &file), 0);
	ck_assert_int_eq(disk_read(file, &octet, 1, offset), 1);
	octet ^= 4;
	ck_assert_int_eq(disk_write(file, &octet, 1, offset), 0);
	disk_close(&file);
	return id;
}

START_TEST(test_a_damaged_file_is_left_and_others_are_merged)
{
	uint64_t id;

	merge_small_files(&f, 1, true);
	make_garbage(&f);
	id = garble(1, SEGMENT_HEADER_SIZE + 3 * 1024 + BATCH_SIZE + 100);
	merge_rest(&f);
	ck_assert(!f.failed);
	ck_assert(segment_by_id(f.store, id)->unsound);
	ck_assert_uint_eq(segment_by_id(f.store, id)->generation, 0);
	ck_assert_uint_gt(recount_merged(&f, true), 0);
	ck_assert_uint_eq(count_files(&f).others, 0);
	store_fixture_check(&f);
	store_fixture_kill(&f);
}
END_TEST

START_TEST(test_a_damaged_index_of_a_source_is_built_anew)
{
	struct footer footer;
	struct disk_file *file;
	char path[PATH_MAX_SIZE];

	merge_small_files(&f, 1, true);
	make_garbage(&f);
	segment_path(path, f.store->segments[0]->id);
	ck_assert_int_eq(disk_open(&f.sim->disk, path, DISK_READ, &file), 0);
	ck_assert_int_eq(footer_open(&footer, file), 0);
	disk_close(&file);
	garble(0, footer.runs_at + 3);
	merge_rest(&f);
	ck_assert(!f.failed);
	for (size_t i = 0; i < f.store->segment_count; i++)
		ck_assert(!f.store->segments[i]->unsound);
	check_all_is_well();
}
END_TEST

TESTS_WITH("merge_errors", NULL, tear_down, test_close_in_any_state, test_publishers_go_first,
	   test_close_while_it_waits_for_publishers, test_no_room_for_the_copy,
	   test_the_checkpoint_of_a_merge_fails, test_any_call_fails,
	   test_a_damaged_file_is_left_and_others_are_merged,
	   test_a_damaged_index_of_a_source_is_built_anew)
