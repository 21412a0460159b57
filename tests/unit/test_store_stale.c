/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Octets that look like records and are none: what an earlier use of a file left behind, batches of another
 * file or another place, bodies that hold whole files of the log at the alignment of batches, runs of
 * zeros and ones, and the magics. Nothing of it is ever taken in, and none of it makes a torn tail look like
 * damage.
 */
#include "store/store.h"

#include "damage_fixture.h"

#define BODY_MAX (64 * 1024)

/* ---- behind the end of the log ---- */

/* Fills a file from an offset on with the octets, again and again. */
static void
fill_rest(struct store_fixture *f, const char *path, uint64_t from, const uint8_t *octets, size_t n)
{
	size_t size;
	uint8_t *p = disk_sim_content(f->sim, path, &size);

	for (uint64_t at = from; at < size; at += n)
		memcpy(p + at, octets, min_u64(n, size - at));
}

/* The log is whole, then its last batch is torn at each sector: what is behind does not count. */
static void
expect_nothing_behind(const uint8_t *octets, size_t n)
{
	const struct place *last = &places[place_count - 1];
	struct store_fixture f;

	store_fixture_clone(&f, &whole);
	fill_rest(&f, last->path, last->offset + last->padded, octets, n);
	expect_prefix(&f, last->last_lsn, last->path, last->offset + last->padded);
	for (uint64_t i = 0; i < last->size; i += BATCH_ALIGNMENT) {
		store_fixture_clone(&f, &whole);
		fill_rest(&f, last->path, last->offset + i, octets, n);
		expect_prefix(&f, last[-1].last_lsn, last->path, last->offset + i);
	}
	/* and the file that is prepared is used as if it were new */
	store_fixture_clone(&f, &whole);
	fill_rest(&f, prepared, SEGMENT_HEADER_SIZE, octets, n);
	expect_prefix(&f, last->last_lsn, prepared, SEGMENT_HEADER_SIZE);
}

/* A copy of what a file holds behind its header. */
static uint8_t *
copy_of(const char *path, uint64_t from, size_t n)
{
	size_t size;
	const uint8_t *p = disk_sim_content(whole.sim, path, &size) + from;
	uint8_t *copy = xmalloc(n);

	ck_assert_uint_le(from + n, size);
	memcpy(copy, p, n);
	return copy;
}

START_TEST(test_batches_of_another_file_do_not_count)
{
	for (size_t i = 0; i + 1 < file_count; i++) {
		const struct place *last = &places[files[i].first_place + files[i].place_count - 1];
		size_t n = last->offset + last->padded - SEGMENT_HEADER_SIZE;
		uint8_t *octets = copy_of(files[i].path, SEGMENT_HEADER_SIZE, n);

		expect_nothing_behind(octets, n);
		xfree(octets);
	}
	print_positions("batches of other files");
}
END_TEST

/* Another store's later batches: only the salt tells. */
START_TEST(test_batches_of_another_store_do_not_count)
{
	struct store_fixture other;
	uint32_t queue;
	uint8_t *p;
	size_t n;

	store_fixture_init(&other, 2);
	ck_assert_int_eq(store_fixture_open(&other), 0);
	queue = store_fixture_queue(&other);
	for (unsigned i = 0; i < 2 * BATCHES; i++) {
		store_fixture_publish(&other, &queue, 1, 100);
		store_fixture_flush(&other);
	}
	store_fixture_kill(&other);
	p = disk_sim_content(other.sim, "log/0000000001.seg", &n);
	expect_nothing_behind(p + SEGMENT_HEADER_SIZE + place_count * BATCH_ALIGNMENT,
			      BATCHES / 2 * BATCH_ALIGNMENT);
	store_fixture_fini(&other);
	print_positions("batches of another store");
}
END_TEST

START_TEST(test_older_batches_of_the_same_file_do_not_count)
{
	const struct file *file = &files[file_count - 1];

	for (size_t i = 0; i + 1 < file->place_count; i++) {
		const struct place *place = &places[file->first_place + i];
		uint8_t *octets = copy_of(place->path, place->offset, place->padded);

		expect_nothing_behind(octets, place->padded);
		xfree(octets);
	}
	print_positions("older batches");
}
END_TEST

START_TEST(test_patterns_behind_the_log_do_not_count)
{
	static const char *const patterns[] = {"PANNLOG1", "PANNSUP1", "PANNCKP1"};
	uint8_t octets[BATCH_ALIGNMENT];

	memset(octets, 0, sizeof(octets));
	expect_nothing_behind(octets, sizeof(octets));
	memset(octets, 0xff, sizeof(octets));
	expect_nothing_behind(octets, sizeof(octets));
	for (size_t i = 0; i < countof(patterns); i++) {
		for (size_t at = 0; at < sizeof(octets); at += 8)
			memcpy(octets + at, patterns[i], 8);
		expect_nothing_behind(octets, sizeof(octets));
	}
	/* the front of a batch record, whole but for its check */
	memset(octets, 0, sizeof(octets));
	record_header_encode(octets, BATCH_SIZE, whole.ledger.stable + 1, RECORD_BATCH, 0, 1000);
	expect_nothing_behind(octets, sizeof(octets));
	print_positions("patterns");
}
END_TEST

/* Files of nothing but a pattern are no files of the log. */
START_TEST(test_files_of_patterns_are_removed)
{
	static const uint8_t patterns[] = {0, 0xff, 'P'};
	uint64_t last = places[place_count - 1].last_lsn;
	uint8_t *octets = xmalloc(BODY_MAX);

	for (size_t i = 0; i < countof(patterns); i++) {
		struct store_fixture f;
		size_t n;

		memset(octets, patterns[i], BODY_MAX);
		store_fixture_clone(&f, &whole);
		disk_sim_put(f.sim, "log/0000000099.seg", octets, BODY_MAX);
		disk_sim_put(f.sim, "log/0000000100.tmp", octets, BODY_MAX);
		ck_assert_int_eq(store_fixture_open(&f), 0);
		ck_assert_uint_eq(store_stable(f.store), last);
		store_fixture_kill(&f);
		ck_assert_ptr_null(disk_sim_content(f.sim, "log/0000000099.seg", &n));
		ck_assert_ptr_null(disk_sim_content(f.sim, "log/0000000100.tmp", &n));
		store_fixture_fini(&f);
	}
	xfree(octets);
}
END_TEST

/* ---- in bodies ---- */

/* What a store gave back. */
struct bodies {
	struct bytes wanted; // borrows: its body
	uint64_t lsn;	     // of the message with that body
	unsigned found;	     // such messages
	unsigned others;     // other messages
	uint64_t stable;
};

static void
take_define(void *context, const struct definition *definition, struct queue_log *log)
{
	(void)context;
	(void)definition;
	(void)log;
}

static void
take_message(void *context, const struct stored_message *message, const struct stored_ref *refs,
	     uint32_t count)
{
	struct bodies *bodies = context;

	(void)refs;
	(void)count;
	if (message->lsn == bodies->lsn && bytes_equal(message->record.body, bodies->wanted))
		bodies->found++;
	else
		bodies->others++;
}

static void
take_stable(void *context, uint64_t lsn)
{
	struct bodies *bodies = context;

	bodies->stable = lsn;
}

static void
take_failure(void *context, int error, const char *what)
{
	(void)context;
	ck_abort_msg("%s: %d", what, error);
}

static const struct store_ops bodies_ops = {
	.define = take_define,
	.message = take_message,
	.stable = take_stable,
	.failed = take_failure,
};

static void
settle(struct store *store, struct bodies *bodies, uint64_t lsn)
{
	struct now now = {.monotonic_ms = 1000, .wall_ms = 1};

	for (unsigned i = 0; i < 20 && bodies->stable < lsn; i++) {
		now.monotonic_ms += 100;
		store_submit(store, now, false);
		store_work(store);
		store_receive(store);
	}
	ck_assert_uint_eq(bodies->stable, lsn);
}

static struct store *
open_bodies(struct disk_sim *sim, struct bodies *bodies, const struct store_options *options)
{
	struct store *store = NULL;
	struct buf error;
	int result;

	buf_init(&error, 0);
	result = store_open(&store, &sim->disk, options, &bodies_ops, bodies, &error);
	ck_assert_msg(result == 0, "%s", buf_cstr(&error));
	buf_fini(&error);
	return store;
}

static uint64_t
publish_body(struct store *store, struct queue_log *log, uint64_t qseq, struct bytes body)
{
	struct message_record message = {.ref_count = 1, .body = body};
	uint8_t *refs;
	uint64_t lsn = store_append_message(store, &message, &refs);

	store_add_ref(store, log, refs, qseq, (uint32_t)body.n, 0);
	return lsn;
}

/* Octets between the front of a batch with one message and that message's body. */
#define BODY_AT (BATCH_SIZE + MESSAGE_AT_REFS + MESSAGE_REF_SIZE)

#define SMALL_BODIES 14

static struct store_options
bodies_options(void)
{
	struct store_options options = store_options_default();

	options.file_size = 256 * 1024;
	return options;
}

/* Opens it and counts: the small messages, and the large one or none. */
static void
expect_bodies(struct disk_sim *sim, struct bodies bodies, unsigned found, uint64_t at)
{
	struct store_options options = bodies_options();
	struct store *store;

	bodies.found = bodies.others = 0;
	store = open_bodies(sim, &bodies, &options);
	ck_assert_msg(bodies.found == found && bodies.others == SMALL_BODIES,
		      "torn at %" PRIu64 ": %u and %u messages", at, bodies.found, bodies.others);
	ck_assert_uint_eq(store_stable(store), found ? bodies.lsn : bodies.lsn - 1);
	(void)store_close(&store, false);
	disk_sim_free(&sim);
	positions++;
}

/* Tears the batch of the body: each sector alone is lost, then all up to it. */
static void
tear_body(struct disk_sim *sim, const struct bodies *bodies)
{
	const struct place *last;

	find_places(sim);
	last = &places[place_count - 1];
	ck_assert_uint_eq(last->last_lsn, bodies->lsn);
	expect_bodies(disk_sim_clone(sim), *bodies, 1, 0);
	for (uint64_t i = 0; i + BATCH_ALIGNMENT < last->size; i += BATCH_ALIGNMENT) {
		for (unsigned all = 0; all < 2; all++) {
			struct disk_sim *torn = disk_sim_clone(sim);
			size_t n;
			uint8_t *p = disk_sim_content(torn, last->path, &n) + last->offset;

			/* not with zeros, which the sector may have held */
			memset(all ? p : p + i, 0xa5, all ? i + BATCH_ALIGNMENT : BATCH_ALIGNMENT);
			expect_bodies(torn, *bodies, 0, last->offset + i);
		}
	}
}

/* Makes the body: the octets, or the file that it will stand in when there are none. */
static struct bytes
make_body(struct disk_sim *sim, struct bytes octets, size_t prefix)
{
	uint8_t *body;

	if (octets.p == NULL) {
		size_t n;

		octets.p = disk_sim_content(sim, "log/0000000001.seg", &n) + SEGMENT_HEADER_SIZE;
		octets.n = (SMALL_BODIES + 1) * BATCH_ALIGNMENT;
	}
	body = xmalloc(prefix + octets.n);
	memset(body, 0, prefix);
	memcpy(body + prefix, octets.p, octets.n);
	return bytes_of(body, prefix + octets.n);
}

/* Stores a message whose body has the octets at a distance from the front of its batch. */
static void
try_body(struct bytes octets, size_t distance)
{
	struct store_options options = bodies_options();
	struct disk_sim *sim = disk_sim_new();
	struct bodies bodies = {.stable = 0};
	struct store *store = open_bodies(sim, &bodies, &options);
	struct queue_log *log = store_queue_new(store);
	struct definition definition = {
		.kind = DEFINITION_QUEUE, .name = bytes_of("q", 1), .queue_id = log->id};

	settle(store, &bodies, store_define(store, &definition));
	for (unsigned i = 0; i < SMALL_BODIES; i++)
		settle(store, &bodies, publish_body(store, log, i + 1, bytes_of("small", 5)));
	bodies.wanted = make_body(sim, octets, distance - BODY_AT);
	bodies.lsn = publish_body(store, log, SMALL_BODIES + 1, bodies.wanted);
	settle(store, &bodies, bodies.lsn);
	ck_assert_int_eq(store_close(&store, false), 0);
	tear_body(sim, &bodies);
	xfree((void *)(uintptr_t)bodies.wanted.p);
	disk_sim_free(&sim);
}

START_TEST(test_body_with_its_own_file_at_the_alignment_of_batches)
{
	try_body(bytes_of(NULL, 0), BATCH_ALIGNMENT);
	print_positions("body with its own file");
}
END_TEST

START_TEST(test_body_with_another_file_at_the_alignment_of_batches)
{
	const struct place *last = &places[files[0].first_place + files[0].place_count - 1];
	size_t n = last->offset + last->padded - SEGMENT_HEADER_SIZE;
	uint8_t *octets = copy_of(files[0].path, SEGMENT_HEADER_SIZE, n);

	try_body(bytes_of(octets, n), BATCH_ALIGNMENT);
	xfree(octets);
	print_positions("body with another file");
}
END_TEST

START_TEST(test_body_with_a_file_and_its_header)
{
	const struct place *last = &places[files[0].first_place + files[0].place_count - 1];
	size_t n = last->offset + last->padded;
	uint8_t *octets = copy_of(files[0].path, 0, n);

	try_body(bytes_of(octets, n), BATCH_ALIGNMENT);
	xfree(octets);
	print_positions("body with a file and its header");
}
END_TEST

/* Where the next record could be thought to be. */
START_TEST(test_body_with_records_at_each_alignment)
{
	for (size_t distance = BODY_AT; distance < BODY_AT + 64; distance += RECORD_ALIGNMENT)
		try_body(bytes_of(NULL, 0), distance);
	print_positions("body with records");
}
END_TEST

START_TEST(test_bodies_of_patterns)
{
	uint8_t *octets = xmalloc(BODY_MAX);

	memset(octets, 0, BODY_MAX);
	try_body(bytes_of(octets, 40000), BODY_AT);
	memset(octets, 0xff, BODY_MAX);
	try_body(bytes_of(octets, 40000), BODY_AT);
	for (size_t i = 0; i < BODY_MAX; i += 8)
		memcpy(octets + i, SEGMENT_MAGIC, 8);
	try_body(bytes_of(octets, 40000), BATCH_ALIGNMENT);
	xfree(octets);
	print_positions("bodies of patterns");
}
END_TEST

TESTS_WITH("store_stale", make_whole, free_whole, test_batches_of_another_file_do_not_count,
	   test_batches_of_another_store_do_not_count,
	   test_older_batches_of_the_same_file_do_not_count,
	   test_patterns_behind_the_log_do_not_count, test_files_of_patterns_are_removed,
	   test_body_with_its_own_file_at_the_alignment_of_batches,
	   test_body_with_another_file_at_the_alignment_of_batches,
	   test_body_with_a_file_and_its_header, test_body_with_records_at_each_alignment,
	   test_bodies_of_patterns)
