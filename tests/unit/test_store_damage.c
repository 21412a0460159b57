/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What recovery makes of octets that are not as they were written. A store with a few files is made once;
 * each position of it is then garbled or cut off in a clone. At the end of the log that must look like
 * a torn tail: exactly the batches before it are there. Anywhere else it must be refused, with file and
 * offset named and nothing changed.
 */
#include "store/store.h"

#include "util/crc32c.h"

#include "damage_fixture.h"

/* ---- A3: the torn tail ---- */

START_TEST(test_tail_cut_anywhere_gives_the_whole_batches)
{
	const struct place *last = &places[place_count - 1];
	const struct file *file = &files[file_count - 1];
	uint64_t end = last->offset + last->padded;

	for (uint64_t cut = last[-2].offset; cut <= end; cut++) {
		struct store_fixture f;
		const struct place *place = last;

		while (cut < place->offset + place->size)
			place--;
		store_fixture_clone(&f, &whole);
		cut_file(&f, file->path, cut);
		expect_prefix(&f, place->last_lsn, file->path, cut);
	}
	print_positions("last three batches cut");
}
END_TEST

START_TEST(test_last_file_without_its_header_is_no_file)
{
	const struct file *file = &files[file_count - 1];
	uint64_t before = places[file->first_place - 1].last_lsn;

	for (uint64_t cut = 0; cut < SEGMENT_HEADER_SIZE; cut += cut < 128 ? 1 : 61) {
		struct store_fixture f;

		store_fixture_clone(&f, &whole);
		cut_file(&f, file->path, cut);
		expect_prefix(&f, before, file->path, cut);
	}
	print_positions("header cut");
}
END_TEST

START_TEST(test_garbled_last_batch_is_cut)
{
	const struct place *last = &places[place_count - 1];

	for (uint64_t i = 0; i < last->padded; i++) {
		for (enum garble how = 0; how < GARBLES; how++) {
			struct store_fixture f;
			bool torn;

			store_fixture_clone(&f, &whole);
			torn = garble(&f, last->path, last->offset + i, how) && i < last->size;
			expect_prefix(&f, torn ? last[-1].last_lsn : last->last_lsn, last->path,
				      last->offset + i);
		}
	}
	print_positions("last batch garbled");
}
END_TEST

/* The header is written with the first batch behind it, so with one group there it may be torn. */
static void
damage_new_file(struct store_fixture *base, bool prepared_is_garbled)
{
	const struct file *file = &files[file_count - 1];
	uint64_t before = places[file->first_place - 1].last_lsn;

	for (uint64_t i = 0; i < SEGMENT_HEADER_SIZE; i += i < 128 ? 1 : 61) {
		struct store_fixture f;

		store_fixture_clone(&f, base);
		if (prepared_is_garbled)
			garble(&f, prepared, 20, FLIP);
		garble(&f, file->path, i, FLIP);
		expect_prefix(&f, before, file->path, i);
	}
}

START_TEST(test_torn_header_with_one_group_is_a_torn_tail)
{
	struct store_fixture f;
	uint32_t queue;

	store_fixture_clone(&f, &whole);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	store_fixture_flush(&f);
	do {
		store_fixture_publish(&f, &queue, 1, 600);
		store_fixture_flush(&f);
		find_places(f.sim);
	} while (files[file_count - 1].place_count != 1);
	store_fixture_kill(&f);
	ck_assert_uint_ge(file_count, 2);
	damage_new_file(&f, false);
	damage_new_file(&f, true);
	store_fixture_fini(&f);
	print_positions("header of a new file garbled");
}
END_TEST

START_TEST(test_garbled_prepared_file_is_removed)
{
	uint64_t last = places[place_count - 1].last_lsn;

	for (uint64_t i = 0; i < SEGMENT_HEADER_SIZE; i += i < 128 ? 1 : 61) {
		struct store_fixture f;

		store_fixture_clone(&f, &whole);
		garble(&f, prepared, i, FLIP);
		expect_prefix(&f, last, prepared, i);
	}
	for (uint64_t cut = 0; cut < 2 * SEGMENT_HEADER_SIZE; cut += 509) {
		struct store_fixture f;

		store_fixture_clone(&f, &whole);
		cut_file(&f, prepared, cut);
		expect_prefix(&f, last, prepared, cut);
	}
	print_positions("prepared file garbled");
}
END_TEST

/* ---- A4: damage ---- */

/* One octet of each is garbled, step octets apart, each way in turn. */
static void
damage_batches(size_t from, size_t to, unsigned step)
{
	for (size_t at = from; at < to; at++) {
		const struct place *place = &places[at];

		for (uint64_t i = at % step; i < place->size; i += step) {
			struct store_fixture f;
			enum garble how = (enum garble)((i + at) % GARBLES);

			store_fixture_clone(&f, &whole);
			if (!garble(&f, place->path, place->offset + i, how))
				garble(&f, place->path, place->offset + i, FLIP);
			expect_refusal(&f, place->path, place->offset, place->offset + i);
		}
	}
}

START_TEST(test_damage_of_the_batches_before_the_last_is_refused)
{
	damage_batches(place_count - 3, place_count - 1, 1);
	print_positions("the two batches before the last garbled");
}
END_TEST

START_TEST(test_damage_of_older_batches_is_refused)
{
	damage_batches(0, place_count - 3, 11);
	print_positions("older batches garbled");
}
END_TEST

START_TEST(test_damage_of_the_first_octets_of_a_batch_is_refused)
{
	for (size_t at = 0; at < place_count - 1; at++) {
		for (uint64_t i = 0; i < BATCH_SIZE + RECORD_HEADER_SIZE; i++) {
			struct store_fixture f;

			store_fixture_clone(&f, &whole);
			garble(&f, places[at].path, places[at].offset + i, FLIP);
			expect_refusal(&f, places[at].path, places[at].offset,
				       places[at].offset + i);
		}
	}
	print_positions("headers of records garbled");
}
END_TEST

START_TEST(test_damage_of_headers_is_refused)
{
	for (size_t at = 0; at < file_count; at++) {
		for (uint64_t i = 0; i < SEGMENT_HEADER_SIZE; i += i < 128 || i > 4080 ? 1 : 17) {
			struct store_fixture f;

			store_fixture_clone(&f, &whole);
			garble(&f, files[at].path, i, FLIP);
			expect_refusal(&f, files[at].path, 0, i);
		}
	}
	print_positions("headers of files garbled");
}
END_TEST

START_TEST(test_lost_sectors_are_refused)
{
	for (size_t at = 0; at < place_count - 1; at++) {
		for (uint64_t i = 0; i < places[at].size; i += BATCH_ALIGNMENT) {
			struct store_fixture f;
			size_t n;
			uint8_t *p;

			store_fixture_clone(&f, &whole);
			p = disk_sim_content(f.sim, places[at].path, &n);
			memset(p + places[at].offset + i, 0, BATCH_ALIGNMENT);
			expect_refusal(&f, places[at].path, places[at].offset,
				       places[at].offset + i);
		}
	}
	print_positions("sectors lost");
}
END_TEST

START_TEST(test_older_file_cut_anywhere_is_refused)
{
	for (size_t at = 0; at + 1 < file_count; at++) {
		const struct place *last =
			&places[files[at].first_place + files[at].place_count - 1];

		for (uint64_t cut = SEGMENT_HEADER_SIZE; cut < last->offset + last->size;
		     cut += 37) {
			struct store_fixture f;
			const struct place *place = &places[files[at].first_place];

			while (cut >= place->offset + place->size)
				place++;
			store_fixture_clone(&f, &whole);
			cut_file(&f, files[at].path, cut);
			expect_refusal(&f, files[at].path, place->offset, cut);
		}
	}
	print_positions("older files cut");
}
END_TEST

START_TEST(test_missing_file_is_refused)
{
	for (size_t at = 0; at + 1 < file_count; at++) {
		const struct place *before = &places[files[at].first_place] - 1;
		struct store_fixture f;

		store_fixture_clone(&f, &whole);
		ck_assert_int_eq(disk_unlink(&f.sim->disk, files[at].path), 0);
		f.sim->counts = (struct disk_sim_counts){0};
		/* the one before it ends too early; before the first there is none */
		if (at == 0)
			expect_refusal(&f, files[1].path, 0, 0);
		else
			expect_refusal(&f, before->path, before->offset + before->padded, 0);
	}
	print_positions("files removed");
}
END_TEST

/* A batch that stands where another one should. */
START_TEST(test_misplaced_batch_is_refused)
{
	for (size_t at = 0; at + 2 < place_count; at++) {
		const struct place *place = &places[at];
		struct store_fixture f;
		uint8_t *p;
		size_t n;

		if (strcmp(place->path, place[1].path) != 0)
			continue;
		store_fixture_clone(&f, &whole);
		p = disk_sim_content(f.sim, place->path, &n);
		/* the last batch of a sealed file has its footer behind it, and may be small */
		if (place[1].offset + place->padded > n) {
			store_fixture_fini(&f);
			continue;
		}
		memmove(p + place[1].offset, p + place->offset, place->padded);
		expect_refusal(&f, place->path, place[1].offset, place[1].offset);
	}
	print_positions("batches misplaced");
}
END_TEST

/* Seals a batch anew, as one that is valid in itself. */
static void
seal_again(struct store_fixture *f, const struct place *place, uint32_t previous_change,
	   uint64_t number_change)
{
	size_t n;
	uint8_t *p = disk_sim_content(f->sim, place->path, &n) + place->offset;
	struct batch_record batch;
	struct record record;

	ck_assert_int_eq(record_decode(&record, bytes_of(p, place->size), place->salt), 0);
	ck_assert_int_eq(batch_record_decode(&batch, &record), 0);
	batch.previous ^= previous_change;
	batch.number += number_change;
	batch_seal(p, place->size - BATCH_SIZE, &batch, place->salt);
}

START_TEST(test_batch_of_another_history_is_not_accepted)
{
	const struct place *last = &places[place_count - 1];
	struct store_fixture f;

	store_fixture_clone(&f, &whole);
	seal_again(&f, last, 1, 0);
	expect_prefix(&f, last[-1].last_lsn, last->path, last->offset);
	store_fixture_clone(&f, &whole);
	seal_again(&f, last, 0, 1);
	expect_prefix(&f, last[-1].last_lsn, last->path, last->offset);
	store_fixture_clone(&f, &whole);
	seal_again(&f, last - 1, 1, 0);
	expect_refusal(&f, last->path, last[-1].offset, last[-1].offset);
	store_fixture_clone(&f, &whole);
	seal_again(&f, last - 1, 0, 1);
	expect_refusal(&f, last->path, last[-1].offset, last[-1].offset);
	/* the last file that a file follows: the chain goes across */
	last = &places[files[file_count - 1].first_place];
	store_fixture_clone(&f, &whole);
	seal_again(&f, last, 1, 0);
	expect_refusal(&f, last->path, last->offset, last->offset);
}
END_TEST

/* ---- the superblock ---- */

START_TEST(test_one_damaged_superblock_is_survived)
{
	uint64_t last = places[place_count - 1].last_lsn;

	for (uint64_t i = 0; i < 2 * SUPERBLOCK_SIZE;
	     i += i % SUPERBLOCK_SIZE < 128 || i % SUPERBLOCK_SIZE > 4080 ? 1 : 53) {
		struct store_fixture f;

		store_fixture_clone(&f, &whole);
		garble(&f, "STORE", i, FLIP);
		expect_prefix(&f, last, "STORE", i);
	}
	print_positions("one copy of the superblock garbled");
}
END_TEST

START_TEST(test_two_damaged_superblocks_are_refused)
{
	struct store_fixture f;

	for (uint64_t i = 0; i < SUPERBLOCK_SIZE; i += 97) {
		int error;

		store_fixture_clone(&f, &whole);
		garble(&f, "STORE", i, FLIP);
		garble(&f, "STORE", SUPERBLOCK_SIZE + (i * 7) % SUPERBLOCK_SIZE, FLIP);
		error = store_fixture_open(&f);
		ck_assert_int_eq(error, -EBADMSG);
		ck_assert_ptr_nonnull(strstr(buf_cstr(&f.error), "STORE"));
		ck_assert(!is_changed(f.sim));
		store_fixture_fini(&f);
		positions++;
	}
	for (uint64_t cut = 0; cut < SUPERBLOCK_SIZE; cut += 511) {
		store_fixture_clone(&f, &whole);
		cut_file(&f, "STORE", cut);
		ck_assert_int_eq(store_fixture_open(&f), -EBADMSG);
		ck_assert(!is_changed(f.sim));
		store_fixture_fini(&f);
		positions++;
	}
	print_positions("both copies of the superblock garbled");
}
END_TEST

/* Changes fields of a page that has its checksum at the end. */
static void
set_major(struct store_fixture *f, const char *path, uint64_t offset)
{
	size_t n;
	uint8_t *p = disk_sim_content(f->sim, path, &n) + offset;

	le16_store(p + SEGMENT_AT_MAJOR, STORE_FORMAT_MAJOR + 1);
	le32_store(p + SEGMENT_AT_CRC, crc32c(0, p, SEGMENT_AT_CRC));
}

static void
expect_newer(struct store_fixture *f, const char *path)
{
	ck_assert_int_eq(store_fixture_open(f), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&f->error), path));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&f->error), "newer"));
	ck_assert(!is_changed(f->sim));
	store_fixture_fini(f);
}

START_TEST(test_newer_formats_are_refused)
{
	const struct place *place = &places[place_count / 2];
	struct store_fixture f;
	size_t n;

	store_fixture_clone(&f, &whole);
	set_major(&f, "STORE", SUPERBLOCK_SIZE);
	expect_newer(&f, "STORE");
	store_fixture_clone(&f, &whole);
	set_major(&f, files[1].path, 0);
	expect_newer(&f, files[1].path);
	store_fixture_clone(&f, &whole);
	disk_sim_content(f.sim, place->path, &n)[place->offset + BATCH_SIZE + RECORD_AT_VERSION]++;
	seal_again(&f, place, 0, 0);
	expect_newer(&f, place->path);
}
END_TEST

TESTS_WITH("store_damage", make_whole, free_whole, test_tail_cut_anywhere_gives_the_whole_batches,
	   test_last_file_without_its_header_is_no_file, test_garbled_last_batch_is_cut,
	   test_torn_header_with_one_group_is_a_torn_tail, test_garbled_prepared_file_is_removed,
	   test_damage_of_the_batches_before_the_last_is_refused,
	   test_damage_of_older_batches_is_refused,
	   test_damage_of_the_first_octets_of_a_batch_is_refused, test_damage_of_headers_is_refused,
	   test_lost_sectors_are_refused, test_older_file_cut_anywhere_is_refused,
	   test_missing_file_is_refused, test_misplaced_batch_is_refused,
	   test_batch_of_another_history_is_not_accepted, test_one_damaged_superblock_is_survived,
	   test_two_damaged_superblocks_are_refused, test_newer_formats_are_refused)
