/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspection agrees with recovery: what a start takes without a word is no damage, what it refuses is, and the log
 * ends at the same LSN for both. And it goes on where recovery stops.
 */
#include "store/inspect.h"

#include "store/footer.h"

#include "damage_fixture.h"

/* What was told. */
struct told {
	uint64_t faults[INSPECT_SEVERITIES];
	char path[PATH_SIZE]; // of the last damage
	uint64_t offset;
	uint64_t lost; // records
	uint64_t readable;
	uint64_t records;
	uint64_t alone;
	uint64_t batches;
	uint64_t last_lsn;
	bool rises; // LSNs do
};

static void
on_fault(void *context, const struct inspect_fault *fault)
{
	struct told *told = context;

	told->faults[fault->severity]++;
	ck_assert_ptr_nonnull(fault->meaning);
	ck_assert_ptr_nonnull(fault->advice);
	if (fault->severity != INSPECT_DAMAGE)
		return;
	(void)snprintf(told->path, sizeof(told->path), "%s", fault->path);
	told->offset = fault->offset;
	told->readable += fault->readable;
	if (fault->first_lsn != 0)
		told->lost += fault->last_lsn - fault->first_lsn + 1;
}

static void
on_record(void *context, const struct inspect_place *place, const struct record *record)
{
	struct told *told = context;

	told->records++;
	told->alone += place->alone;
	told->rises = told->rises && record->lsn > told->last_lsn;
	told->last_lsn = record->lsn;
	ck_assert_uint_ge(place->offset, SEGMENT_HEADER_SIZE);
}

static void
on_batch(void *context, const struct inspect_place *place, const struct batch_record *batch)
{
	struct told *told = context;

	(void)place;
	(void)batch;
	told->batches++;
}

static const struct inspect_ops ops = {
	.fault = on_fault,
	.record = on_record,
	.batch = on_batch,
};

/* Looks at all of it and changes nothing. Returns what inspect_walk() did; 0 also when there is no store. */
static uint64_t
look(struct disk_sim *sim, struct told *told, bool footers)
{
	struct inspect_range range = INSPECT_ALL;
	struct inspect *inspect;
	struct buf error;
	uint64_t lsn = 0;
	uint64_t changes = sim->changes;

	*told = (struct told){.rises = true};
	range.footers = footers;
	buf_init(&error, 0);
	if (inspect_open(&inspect, &sim->disk, &ops, told, &error) == 0) {
		lsn = inspect_walk(inspect, range);
		inspect_close(&inspect);
	}
	buf_fini(&error);
	ck_assert_uint_eq(sim->changes, changes);
	ck_assert(told->rises);
	return lsn;
}

static uint64_t
faults_of(const struct told *told)
{
	return told->faults[INSPECT_DAMAGE] + told->faults[INSPECT_INDEX] +
	       told->faults[INSPECT_NEWER];
}

START_TEST(test_a_whole_store_has_no_fault)
{
	struct told told;

	make_whole();
	ck_assert_uint_eq(look(whole.sim, &told, true), whole.ledger.stable);
	ck_assert_uint_eq(faults_of(&told), 0);
	ck_assert_uint_eq(told.batches, place_count);
	ck_assert_uint_eq(told.records, whole.ledger.stable);
	ck_assert_uint_eq(told.alone, 0);
	free_whole();
}
END_TEST

START_TEST(test_a_store_with_checkpoints_has_no_fault)
{
	struct told told;

	make_whole_with(8192, false);
	ck_assert_uint_eq(look(whole.sim, &told, true), whole.ledger.stable);
	ck_assert_uint_eq(faults_of(&told), 0);
	free_whole();
	make_whole_with(8192, true);
	ck_assert_uint_eq(look(whole.sim, &told, true), whole.ledger.stable);
	ck_assert_uint_eq(faults_of(&told), 0);
	free_whole();
}
END_TEST

START_TEST(test_an_empty_folder_is_no_store)
{
	struct disk_sim *sim = disk_sim_new();
	struct inspect *inspect;
	struct buf error;
	struct told told = {.rises = true};

	buf_init(&error, 0);
	ck_assert_int_eq(inspect_open(&inspect, &sim->disk, &ops, &told, &error), -ENOENT);
	ck_assert_str_eq(buf_cstr(&error), "there is no store");
	buf_fini(&error);
	disk_sim_free(&sim);
}
END_TEST

/* ---- damage ---- */

/* Each batch damaged in its BATCH record: everything else is there, and its records are found one by one. */
START_TEST(test_a_damaged_batch_is_named_and_its_records_are_found)
{
	make_whole();
	for (size_t i = 0; i + 2 < place_count; i++) {
		struct store_fixture f;
		struct told told;

		store_fixture_clone(&f, &whole);
		ck_assert(garble(&f, places[i].path, places[i].offset + BATCH_AT_NUMBER, FLIP));
		ck_assert_uint_eq(look(f.sim, &told, false), whole.ledger.stable);
		ck_assert_uint_eq(told.faults[INSPECT_DAMAGE], 1);
		ck_assert_str_eq(told.path, places[i].path);
		ck_assert_uint_eq(told.offset, places[i].offset);
		ck_assert_uint_eq(told.batches, place_count - 1);
		ck_assert_uint_gt(told.lost, 0);
		ck_assert_uint_eq(told.readable, told.lost);
		ck_assert_uint_eq(told.alone, told.lost);
		ck_assert_uint_eq(told.records, whole.ledger.stable);
		store_fixture_fini(&f);
	}
	free_whole();
}
END_TEST

START_TEST(test_a_damaged_record_is_the_only_one_that_is_lost)
{
	make_whole();
	for (size_t i = 0; i + 2 < place_count; i++) {
		struct store_fixture f;
		struct told told;

		store_fixture_clone(&f, &whole);
		ck_assert(garble(&f, places[i].path, places[i].offset + BATCH_SIZE + 9, FLIP));
		ck_assert_uint_eq(look(f.sim, &told, false), whole.ledger.stable);
		ck_assert_uint_eq(told.faults[INSPECT_DAMAGE], 1);
		ck_assert_uint_eq(told.readable, told.lost - 1);
		ck_assert_uint_eq(told.records, whole.ledger.stable - 1);
		store_fixture_fini(&f);
	}
	free_whole();
}
END_TEST

/* Of what was written last nothing was confirmed, so nothing is looked for. */
START_TEST(test_a_torn_tail_is_a_note)
{
	struct store_fixture f;
	struct told told;
	const struct place *last;

	make_whole();
	last = &places[place_count - 1];
	store_fixture_clone(&f, &whole);
	ck_assert(garble(&f, last->path, last->offset + BATCH_SIZE + 3, FLIP));
	ck_assert_uint_eq(look(f.sim, &told, false), places[place_count - 2].last_lsn);
	ck_assert_uint_eq(faults_of(&told), 0);
	ck_assert_uint_eq(told.faults[INSPECT_NOTE], 1);
	ck_assert_uint_eq(told.records, places[place_count - 2].last_lsn);
	store_fixture_fini(&f);
	free_whole();
}
END_TEST

START_TEST(test_without_a_superblock_all_is_found)
{
	struct store_fixture f;
	struct told told;

	make_whole();
	store_fixture_clone(&f, &whole);
	ck_assert(garble(&f, "STORE", 100, FLIP));
	ck_assert_uint_eq(look(f.sim, &told, false), whole.ledger.stable);
	ck_assert_uint_eq(told.faults[INSPECT_INDEX], 1);
	ck_assert_uint_eq(told.faults[INSPECT_DAMAGE], 0);
	ck_assert(garble(&f, "STORE", SUPERBLOCK_SIZE + 100, FLIP));
	ck_assert_uint_eq(look(f.sim, &told, false), whole.ledger.stable);
	ck_assert_uint_eq(told.faults[INSPECT_DAMAGE], 1);
	ck_assert_str_eq(told.path, "STORE");
	ck_assert_uint_eq(told.records, whole.ledger.stable);
	store_fixture_fini(&f);
	free_whole();
}
END_TEST

START_TEST(test_a_segment_without_a_header_is_read)
{
	make_whole();
	for (size_t i = 0; i + 1 < file_count; i++) {
		struct store_fixture f;
		struct told told;

		store_fixture_clone(&f, &whole);
		ck_assert(garble(&f, files[i].path, SEGMENT_AT_FIRST_LSN, FLIP));
		ck_assert_uint_eq(look(f.sim, &told, false), whole.ledger.stable);
		ck_assert_uint_eq(told.faults[INSPECT_DAMAGE], 1);
		ck_assert_str_eq(told.path, files[i].path);
		ck_assert_uint_eq(told.records, whole.ledger.stable);
		store_fixture_fini(&f);
	}
	free_whole();
}
END_TEST

START_TEST(test_a_missing_segment_is_named)
{
	struct store_fixture f;
	struct told told;

	make_whole();
	store_fixture_clone(&f, &whole);
	ck_assert_int_eq(disk_unlink(&f.sim->disk, files[1].path), 0);
	ck_assert_uint_eq(look(f.sim, &told, false), whole.ledger.stable);
	ck_assert_uint_ge(told.faults[INSPECT_DAMAGE], 1);
	ck_assert_uint_eq(told.records, whole.ledger.stable - told.lost);
	ck_assert_uint_eq(told.lost, files[2].first_lsn - files[1].first_lsn);
	store_fixture_fini(&f);
	free_whole();
}
END_TEST

/* ---- as recovery does ---- */

/* Whether a start and a look agree on this disk. */
static void
agree(struct store_fixture *f, const char *path, uint64_t at)
{
	struct told told;
	uint64_t lsn = look(f->sim, &told, false);
	int error;

	f->ledger.stable = 0;
	error = store_fixture_open(f);
	if (error != 0) {
		ck_assert_msg(told.faults[INSPECT_DAMAGE] + told.faults[INSPECT_NEWER] > 0,
			      "%s, damaged at %" PRIu64 ": refused, but no damage is seen: %s",
			      path, at, buf_cstr(&f->error));
		return;
	}
	ck_assert_msg(told.faults[INSPECT_DAMAGE] == 0,
		      "%s, damaged at %" PRIu64 ": starts, but damage is seen in %s at %" PRIu64,
		      path, at, told.path, told.offset);
	/* a store that ends at a clean stop is not read again */
	ck_assert_msg(lsn == store_stable(f->store),
		      "%s, damaged at %" PRIu64 ": ends at %" PRIu64 ", by the look at %" PRIu64,
		      path, at, store_stable(f->store), lsn);
}

/* An octet here and there, in the log and the superblock. */
static void
agree_on_damage(uint64_t step)
{
	for (size_t i = 0; i < file_count; i++) {
		size_t n;
		uint64_t end;

		(void)disk_sim_content(whole.sim, files[i].path, &n);
		end = places[files[i].first_place + files[i].place_count - 1].offset + 1024;
		for (uint64_t at = i; at < min_u64(end, n); at += step) {
			struct store_fixture f;

			store_fixture_clone(&f, &whole);
			if (garble(&f, files[i].path, at, at % 2 == 0 ? FLIP : ZERO))
				agree(&f, files[i].path, at);
			store_fixture_fini(&f);
		}
	}
}

START_TEST(test_damage_is_what_recovery_refuses)
{
	make_whole();
	agree_on_damage(331);
	free_whole();
}
END_TEST

/* A crash leaves no damage. */
START_TEST(test_a_crash_is_no_damage)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct store_fixture f;
		struct told told;
		uint64_t lsn;

		store_fixture_init(&f, seed);
		f.options.file_size = 64 * 1024;
		f.options.checkpoint_size = 32 * 1024;
		ck_assert_int_eq(store_fixture_open(&f), 0);
		for (unsigned lives = 0; lives < 3; lives++) {
			for (unsigned i = 0; i < 150; i++)
				store_fixture_step(&f);
			store_fixture_crash(&f, SIM_RANDOM, seed + lives);
			lsn = look(f.sim, &told, true);
			ck_assert_msg(faults_of(&told) == 0, "seed %" PRIu64 ": %s at %" PRIu64,
				      seed, told.path, told.offset);
			ck_assert_int_eq(store_fixture_open(&f), 0);
			/* a new store begins with a record that is not on the disk yet */
			ck_assert_uint_eq(lsn, store_stable(f.store));
		}
		store_fixture_fini(&f);
	}
}
END_TEST

/* A few octets anywhere in the log, checkpoints, superblock: whatever is seen, it comes to an end. */
START_TEST(test_any_damage_is_survived)
{
	make_whole_with(8192, true);
	for (uint64_t seed = 1; seed <= 400; seed++) {
		static const char *const others[] = {"STORE"};
		struct store_fixture f;
		struct told told;

		store_fixture_clone(&f, &whole);
		f.random = seed;
		for (unsigned i = 0; i < 1 + seed % 30; i++) {
			uint64_t which = store_fixture_random(&f, file_count + countof(others));
			const char *path =
				which < file_count ? files[which].path : others[which - file_count];
			size_t n;

			(void)disk_sim_content(f.sim, path, &n);
			(void)garble(&f, path, store_fixture_random(&f, min_u64(n, 30000)),
				     (enum garble)store_fixture_random(&f, GARBLES));
		}
		(void)look(f.sim, &told, true);
		store_fixture_fini(&f);
	}
	free_whole();
}
END_TEST

/* ---- footers ---- */

static void
build_footer(struct store_fixture *f, const struct file *of)
{
	const struct place *last = &places[of->first_place + of->place_count - 1];
	struct disk_file *file;
	struct scan scan;

	ck_assert_int_eq(disk_open(&f->sim->disk, of->path, DISK_WRITE, &file), 0);
	ck_assert_int_eq(scan_open(&scan, &f->sim->disk, of->id), 0);
	scan.salt = of->salt;
	ck_assert_int_eq(footer_build(file, &scan,
				      last->offset + batch_padded_size(last->offset, last->size),
				      last->last_lsn, 0, NULL),
			 0);
	scan_close(&scan);
	disk_close(&file);
}

START_TEST(test_a_footer_is_compared)
{
	struct store_fixture f;
	struct told told;
	struct footer footer;
	struct disk_file *file;
	uint64_t entries;

	make_whole();
	store_fixture_clone(&f, &whole);
	for (size_t i = 0; i + 1 < file_count; i++)
		build_footer(&f, &files[i]);
	ck_assert_uint_eq(look(f.sim, &told, true), whole.ledger.stable);
	ck_assert_uint_eq(faults_of(&told), 0);
	ck_assert_int_eq(disk_open(&f.sim->disk, files[0].path, DISK_READ, &file), 0);
	ck_assert_int_eq(footer_open(&footer, file), 0);
	entries = footer.entries_at;
	disk_close(&file);
	ck_assert(garble(&f, files[0].path, entries + 4, FLIP));
	ck_assert_uint_eq(look(f.sim, &told, true), whole.ledger.stable);
	ck_assert_uint_eq(told.faults[INSPECT_INDEX], 1);
	ck_assert_uint_eq(told.faults[INSPECT_DAMAGE], 0);
	store_fixture_fini(&f);
	free_whole();
}
END_TEST

TESTS("inspect", test_a_whole_store_has_no_fault, test_a_store_with_checkpoints_has_no_fault,
      test_an_empty_folder_is_no_store, test_a_damaged_batch_is_named_and_its_records_are_found,
      test_a_damaged_record_is_the_only_one_that_is_lost, test_a_torn_tail_is_a_note,
      test_without_a_superblock_all_is_found, test_a_segment_without_a_header_is_read,
      test_a_missing_segment_is_named, test_damage_is_what_recovery_refuses,
      test_a_crash_is_no_damage, test_any_damage_is_survived, test_a_footer_is_compared)
