/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage of a store that has checkpoints. One that cannot be read sends recovery to the one before, and
 * nothing is lost; with none at all the log is read from its front. And what a checkpoint covers was
 * stable: damage there is never a torn tail, not even in the very last batch.
 */
#include "store/spare.h"
#include "store/store.h"

#include "damage_fixture.h"

#define CHECKPOINT_EVERY (6 * 1024)

static char checkpoints[8][PATH_SIZE]; // by LSN
static size_t checkpoint_count;

static void
note_checkpoint(void *context, const char *name)
{
	(void)context;
	ck_assert_uint_lt(checkpoint_count, countof(checkpoints));
	(void)snprintf(checkpoints[checkpoint_count++], PATH_SIZE, "ckpt/%s", name);
}

static int
compare_paths(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void
make_killed(void)
{
	make_whole_with(CHECKPOINT_EVERY, false);
	checkpoint_count = 0;
	ck_assert_int_eq(disk_list(&whole.sim->disk, "ckpt", note_checkpoint, NULL), 0);
	qsort(checkpoints, checkpoint_count, sizeof(checkpoints[0]), compare_paths);
	ck_assert_uint_ge(checkpoint_count, 3);
}

/* The same store, stopped cleanly. */
static void
make_clean(void)
{
	free_whole();
	make_whole_with(CHECKPOINT_EVERY, true);
	checkpoint_count = 0;
	ck_assert_int_eq(disk_list(&whole.sim->disk, "ckpt", note_checkpoint, NULL), 0);
	qsort(checkpoints, checkpoint_count, sizeof(checkpoints[0]), compare_paths);
}

static size_t
size_of(const char *path)
{
	size_t n = 0;

	ck_assert_ptr_nonnull(disk_sim_content(whole.sim, path, &n));
	return n;
}

/* Garbles the newest checkpoint at each octet; whatever is lost with it is found elsewhere. */
static void
garble_newest(void)
{
	const char *path = checkpoints[checkpoint_count - 1];
	uint64_t last = places[place_count - 1].last_lsn;
	size_t n = size_of(path);

	for (uint64_t i = 0; i < n; i++) {
		struct store_fixture f;

		store_fixture_clone(&f, &whole);
		f.ledger.stop = LEDGER_EITHER;
		garble(&f, path, i, (enum garble)(i % GARBLES));
		expect_prefix(&f, last, path, i);
	}
	for (uint64_t cut = 0; cut < n; cut += 3) {
		struct store_fixture f;

		store_fixture_clone(&f, &whole);
		f.ledger.stop = LEDGER_EITHER;
		cut_file(&f, path, cut);
		expect_prefix(&f, last, path, cut);
	}
}

START_TEST(test_garbled_checkpoint_is_done_without)
{
	garble_newest();
	make_clean();
	garble_newest();
	print_positions("newest checkpoint garbled");
}
END_TEST

START_TEST(test_any_checkpoints_may_be_missing)
{
	uint64_t last = places[place_count - 1].last_lsn;

	for (unsigned set = 1; set < 1U << checkpoint_count; set++) {
		struct store_fixture f;

		store_fixture_clone(&f, &whole);
		for (size_t i = 0; i < checkpoint_count; i++)
			if ((set & 1U << i) != 0)
				ck_assert_int_eq(disk_unlink(&f.sim->disk, checkpoints[i]), 0);
		expect_prefix(&f, last, "ckpt", set);
	}
	print_positions("checkpoints removed");
}
END_TEST

/* Any octet of any batch, the last one too when the stop was clean. */
static void
damage_batches(size_t count, unsigned step)
{
	for (size_t at = 0; at < count; at++) {
		for (uint64_t i = at % step; i < places[at].size; i += step) {
			struct store_fixture f;

			store_fixture_clone(&f, &whole);
			garble(&f, places[at].path, places[at].offset + i, FLIP);
			expect_refusal(&f, places[at].path, places[at].offset,
				       places[at].offset + i);
		}
	}
}

START_TEST(test_damage_that_a_checkpoint_covers_is_refused)
{
	damage_batches(place_count - 1, 13);
	make_clean();
	damage_batches(place_count, 13);
	print_positions("batches garbled");
}
END_TEST

START_TEST(test_cut_after_a_clean_stop_is_refused)
{
	const struct place *last;

	make_clean();
	last = &places[place_count - 1];
	for (uint64_t cut = last[-1].offset; cut < last->offset + last->size; cut += 3) {
		struct store_fixture f;
		const struct place *place = cut < last[-1].offset + last[-1].size ? last - 1 : last;

		store_fixture_clone(&f, &whole);
		cut_file(&f, last->path, cut);
		expect_refusal(&f, last->path, place->offset, cut);
	}
	print_positions("file cut after a clean stop");
}
END_TEST

/* The superblock says how far the log went, whatever became of the checkpoint. */
START_TEST(test_cut_is_refused_when_the_checkpoint_is_lost_too)
{
	const struct place *last;

	make_clean();
	last = &places[place_count - 1];
	for (uint64_t cut = last->offset; cut < last->offset + last->size; cut += 7) {
		struct store_fixture f;

		store_fixture_clone(&f, &whole);
		garble(&f, checkpoints[checkpoint_count - 1], 0, FLIP);
		cut_file(&f, last->path, cut);
		expect_refusal(&f, last->path, last->offset, cut);
	}
	print_positions("file cut and checkpoint lost");
}
END_TEST

START_TEST(test_missing_file_is_refused)
{
	for (unsigned clean = 0; clean < 2; clean++) {
		if (clean)
			make_clean();
		/* behind the last checkpoint nothing says that there was a file */
		for (size_t at = 0; at + 1 < file_count + clean; at++) {
			struct store_fixture f;
			int error;

			store_fixture_clone(&f, &whole);
			ck_assert_int_eq(disk_unlink(&f.sim->disk, files[at].path), 0);
			f.sim->counts = (struct disk_sim_counts){0};
			error = store_fixture_open(&f);
			ck_assert_msg(error == -EBADMSG, "%s: %d, %s", files[at].path, error,
				      buf_cstr(&f.error));
			ck_assert_ptr_nonnull(strstr(buf_cstr(&f.error), "log/"));
			ck_assert(!is_changed(f.sim));
			store_fixture_fini(&f);
			positions++;
		}
	}
	print_positions("files removed");
}
END_TEST

/* ---- files that were removed ---- */

/* A file of the log goes, or is kept as a spare one. */
static bool
is_removal(const struct disk_sim_call *call)
{
	if (strncmp(call->path, "log/", 4) != 0)
		return false;
	return call->kind == SIM_UNLINK ||
	       (call->kind == SIM_RENAME && strstr(call->to, SPARE_SUFFIX) != NULL);
}

/* The disk just before each removal of a file of the log. */
struct removals {
	struct disk_sim *disks[16]; // own
	char paths[16][PATH_SIZE];
	size_t count;
};

static void
note_removal(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	struct removals *r = context;

	if (!is_removal(call) || call->over)
		return;
	ck_assert_uint_lt(r->count, countof(r->disks));
	(void)snprintf(r->paths[r->count], PATH_SIZE, "%s", call->path);
	r->disks[r->count++] = disk_sim_clone(sim);
}

/* Fills several files and settles nearly all, so that checkpoints find files empty and they go. */
static void
empty_files(struct store_fixture *f)
{
	uint32_t queue = store_fixture_queue(f);

	store_fixture_flush(f);
	for (unsigned i = 0; i < 3 * BATCHES; i++) {
		size_t message = store_fixture_publish(f, &queue, 1, 900);

		if (i % 64 != 40)
			store_fixture_ack(f, message, 0, ACK_CONSUMED);
		store_fixture_flush(f);
	}
}

/* A removal is not synced: after a crash any of the files may be back. */
START_TEST(test_removed_files_may_come_back)
{
	struct removals r = {.count = 0};
	struct store_fixture f;

	store_fixture_init(&f, 3);
	f.options.file_size = 24 * 1024;
	f.options.checkpoint_size = CHECKPOINT_EVERY;
	ck_assert_int_eq(store_fixture_open(&f), 0);
	f.sim->hook = note_removal;
	f.sim->context = &r;
	empty_files(&f);
	store_fixture_kill(&f);
	ck_assert_uint_ge(r.count, 3);
	for (unsigned set = 0; set < 1U << min_u64(r.count, 6); set++) {
		struct store_fixture back;

		store_fixture_clone(&back, &f);
		for (size_t i = 0; i < r.count; i++) {
			size_t n;
			const uint8_t *p = disk_sim_content(r.disks[i], r.paths[i], &n);

			if ((set & 1U << i) != 0)
				disk_sim_put(back.sim, r.paths[i], p, n);
		}
		expect_prefix(&back, f.ledger.stable, "log", set);
	}
	for (size_t i = 0; i < r.count; i++)
		disk_sim_free(&r.disks[i]);
	store_fixture_fini(&f);
	print_positions("removed files back");
}
END_TEST

/* The machine dies right after a file was removed, which was or was not saved. */
static void
die_at_removal(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	static const enum disk_sim_survival ways[] = {SIM_NOTHING, SIM_EVERYTHING, SIM_RANDOM};
	struct store_fixture *f = context;

	(void)sim;
	if (!is_removal(call) || !call->over)
		return;
	for (size_t i = 0; i < countof(ways); i++) {
		struct store_fixture after;
		int error;

		store_fixture_clone(&after, f);
		store_fixture_crash(&after, ways[i], positions);
		error = store_fixture_open(&after);
		ck_assert_msg(error == 0, "%s removed: %s", call->path, buf_cstr(&after.error));
		store_fixture_fini(&after);
		positions++;
	}
}

/* Marks that are on their way, or not even that, must not have removed a file. */
START_TEST(test_files_go_when_no_recovery_needs_them)
{
	size_t messages[8];
	struct store_fixture f;
	uint32_t queue;

	store_fixture_init(&f, 4);
	f.options.file_size = 16 * 1024;
	f.options.checkpoint_size = 2 * 1024;
	ck_assert_int_eq(store_fixture_open(&f), 0);
	f.sim->hook = die_at_removal;
	f.sim->context = &f;
	queue = store_fixture_queue(&f);
	store_fixture_flush(&f);
	positions = 0;
	for (unsigned i = 0; i < 600; i++) {
		size_t distance = 1 + i / 100; // between a message and its mark

		messages[i % countof(messages)] = store_fixture_publish(&f, &queue, 1, 900);
		store_fixture_submit(&f, false);
		if (i >= 8 && i % 100 != 0)
			store_fixture_ack(&f, messages[(i - distance) % countof(messages)], 0,
					  ACK_CONSUMED);
		f.now.monotonic_ms += 5;
		store_fixture_work(&f);
	}
	ck_assert_uint_gt(positions, 20);
	store_fixture_fini(&f);
	print_positions("deaths at a removal");
}
END_TEST

TESTS_WITH("checkpoint_damage", make_killed, free_whole, test_garbled_checkpoint_is_done_without,
	   test_any_checkpoints_may_be_missing, test_damage_that_a_checkpoint_covers_is_refused,
	   test_cut_after_a_clean_stop_is_refused,
	   test_cut_is_refused_when_the_checkpoint_is_lost_too, test_missing_file_is_refused,
	   test_removed_files_may_come_back, test_files_go_when_no_recovery_needs_them)
