/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store with a few files that is made once, the places of all its batches, and what recovery must make of
 * a clone of it that was damaged: exactly a prefix, or a refusal that names the file and the offset and
 * changes nothing.
 */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "util/mem.h"

#include "lib/runner.h"
#include "lib/store_fixture.h"

#define PLACES 256
#define FILES 16
#define PATH_SIZE 64
#define BATCHES 44

/* A batch on the disk. */
struct place {
	char path[PATH_SIZE];
	uint64_t offset;
	uint64_t size; // without the zeros behind it
	uint64_t padded;
	uint64_t last_lsn;
	uint32_t salt;
};

/* A file of the log. */
struct file {
	uint64_t id;
	char path[PATH_SIZE];
	uint64_t first_lsn; // 0: prepared
	uint32_t salt;
	size_t first_place;
	size_t place_count;
};

static struct store_fixture whole;
static struct place places[PLACES];
static size_t place_count;
static struct file files[FILES];
static size_t file_count; // that are in use
static char prepared[PATH_SIZE];
static uint64_t positions;

/* ---- the store that is damaged ---- */

static inline void
note_file(void *context, const char *name)
{
	struct file *file = &files[file_count];

	(void)context;
	ck_assert_uint_lt(file_count, FILES);
	*file = (struct file){.id = strtoull(name, NULL, 10)};
	(void)snprintf(file->path, sizeof(file->path), "log/%s", name);
	file_count++;
}

static inline int
compare_files(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

/* Walks a file by the rules of format.h; the checks of the chain are the product's. */
static inline void
find_batches(struct file *file, const uint8_t *p, size_t n)
{
	uint64_t offset = SEGMENT_HEADER_SIZE;
	struct batch_record batch;
	uint64_t padded;

	file->first_place = place_count;
	while (batch_read(bytes_of(p + offset, n - offset), offset, file->salt, &batch, &padded,
			  NULL, NULL) == 0) {
		struct place *place = &places[place_count++];

		ck_assert_uint_lt(place_count, PLACES);
		*place = (struct place){
			.offset = offset,
			.size = BATCH_SIZE + (uint64_t)batch.bytes,
			.padded = padded,
			.last_lsn = batch.first_lsn + batch.count - 1,
			.salt = file->salt,
		};
		(void)snprintf(place->path, sizeof(place->path), "%s", file->path);
		offset += padded;
	}
	file->place_count = place_count - file->first_place;
}

static inline void
find_places(struct disk_sim *sim)
{
	size_t used = 0;

	file_count = place_count = 0;
	ck_assert_int_eq(disk_list(&sim->disk, "log", note_file, NULL), 0);
	qsort(files, file_count, sizeof(files[0]), compare_files);
	for (size_t i = 0; i < file_count; i++) {
		struct segment_header header;
		size_t n;
		const uint8_t *p = disk_sim_content(sim, files[i].path, &n);

		ck_assert_int_eq(segment_header_decode(&header, p), 0);
		if (header.first_lsn == 0) {
			(void)snprintf(prepared, sizeof(prepared), "%s", files[i].path);
			continue;
		}
		files[used] = files[i];
		files[used].first_lsn = header.first_lsn;
		files[used].salt = header.salt;
		find_batches(&files[used++], p, n);
	}
	file_count = used;
}

/* A batch of each kind of record now and then, bodies of several sizes. */
static inline void
write_batch(struct store_fixture *f, uint32_t queues[2], unsigned i)
{
	size_t message = store_fixture_publish(f, queues, 1 + i % 2, 40 + 97 * (i % 13));

	if (i % 3 == 0)
		store_fixture_publish(f, queues + 1, 1, 300);
	if (i % 4 == 1)
		store_fixture_ack(f, message, 0, ACK_CONSUMED);
	if (i % 7 == 2)
		store_fixture_define(f, i % LEDGER_THINGS, i);
	if (i == 5)
		store_fixture_deliver(f, queues[0]);
	store_fixture_flush(f);
}

/* Killed when all was stable, or stopped cleanly; a checkpoint each so many octets. */
static inline void
make_whole_with(uint64_t checkpoint_size, bool clean)
{
	uint32_t queues[2];

	store_fixture_init(&whole, 1);
	whole.options.file_size = 24 * 1024;
	whole.options.checkpoint_size = checkpoint_size;
	ck_assert_int_eq(store_fixture_open(&whole), 0);
	queues[0] = store_fixture_queue(&whole);
	queues[1] = store_fixture_queue(&whole);
	store_fixture_flush(&whole);
	for (unsigned i = 0; i < BATCHES; i++)
		write_batch(&whole, queues, i);
	if (clean)
		ck_assert_int_eq(store_fixture_close(&whole, true), 0);
	else
		store_fixture_kill(&whole);
	find_places(whole.sim);
	ck_assert_uint_ge(file_count, 3);
	ck_assert_uint_ge(files[file_count - 1].place_count, 3);
	ck_assert_uint_eq(places[place_count - 1].last_lsn, whole.ledger.stable);
	ck_assert_str_ne(prepared, "");
	positions = 0;
}

static inline void
make_whole(void)
{
	make_whole_with(1024 * 1024, false);
}

static inline void
free_whole(void)
{
	store_fixture_fini(&whole);
}

/* ---- damage, and what must come of it ---- */

static inline void
cut_file(struct store_fixture *f, const char *path, uint64_t size)
{
	size_t n;
	const uint8_t *p = disk_sim_content(f->sim, path, &n);
	uint8_t *copy = xmalloc(size + 1);

	ck_assert_uint_le(size, n);
	memcpy(copy, p, size);
	disk_sim_put(f->sim, path, copy, size);
	xfree(copy);
}

/* Ways to garble an octet. */
enum garble {
	FLIP,
	ZERO,
	ONES,
	GARBLES
};

/* Whether that changed anything. */
static inline bool
garble(struct store_fixture *f, const char *path, uint64_t offset, enum garble how)
{
	size_t n;
	uint8_t *p = disk_sim_content(f->sim, path, &n) + offset;
	uint8_t before = *p;

	ck_assert_uint_lt(offset, n);
	*p = how == FLIP ? (uint8_t)(before ^ 1U << offset % 8) : how == ZERO ? 0 : 0xff;
	return *p != before;
}

/* Recovery gives everything up to lsn, nothing behind it. */
static inline void
expect_prefix(struct store_fixture *f, uint64_t lsn, const char *path, uint64_t at)
{
	int error;

	/* the damage is not one that a crash can do: what it takes was confirmed */
	f->ledger.stable = min_u64(f->ledger.stable, lsn);
	error = store_fixture_open(f);
	ck_assert_msg(error == 0, "%s, damaged at %" PRIu64 ": %d, %s", path, at, error,
		      buf_cstr(&f->error));
	ck_assert_msg(store_stable(f->store) == lsn,
		      "%s, damaged at %" PRIu64 ": accepts up to %" PRIu64 ", not %" PRIu64, path,
		      at, store_stable(f->store), lsn);
	store_fixture_fini(f);
	positions++;
}

static inline bool
is_changed(const struct disk_sim *sim)
{
	static const enum disk_sim_kind changes[] = {SIM_CREATE,   SIM_WRITE,  SIM_ALLOCATE,
						     SIM_TRUNCATE, SIM_RENAME, SIM_UNLINK};

	for (size_t i = 0; i < countof(changes); i++)
		if (sim->counts.calls[changes[i]] > 0)
			return true;
	return false;
}

/* Recovery refuses, names the file and the offset, and leaves all as it is. */
static inline void
expect_refusal(struct store_fixture *f, const char *path, uint64_t offset, uint64_t at)
{
	char words[32];
	int error = store_fixture_open(f);

	(void)snprintf(words, sizeof(words), "offset %" PRIu64 ":", offset);
	ck_assert_msg(error == -EBADMSG, "%s, damaged at %" PRIu64 ": %d, %s", path, at, error,
		      buf_cstr(&f->error));
	ck_assert_msg(strstr(buf_cstr(&f->error), path) != NULL &&
			      strstr(buf_cstr(&f->error), words) != NULL,
		      "%s, damaged at %" PRIu64 ": %s", path, at, buf_cstr(&f->error));
	ck_assert_ptr_null(strchr(buf_cstr(&f->error), '\n'));
	ck_assert_msg(!is_changed(f->sim), "%s, damaged at %" PRIu64 ": was changed", path, at);
	store_fixture_fini(f);
	positions++;
}

static inline void
print_positions(const char *what)
{
	printf("%s: %" PRIu64 " positions, wrong accept = 0\n", what, positions);
	(void)fflush(stdout);
}
