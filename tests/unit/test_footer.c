/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a crash leaves of the building of a footer, and whatever is garbled afterwards: what is read
 * through a footer is what the segment holds, or it is refused.
 */
#include "footer_fixture.h"

#include "lib/runner.h"
#include "util/crc32c.h"

static void
check_mixture(const struct mixture *m)
{
	for (uint32_t generation = 0; generation < 2; generation++) {
		world_init(&world, ID, generation, 88172645463325252U);
		add_random(&world, m);
		check_built(&world);
		world_fini(&world);
	}
}

static const struct mixture small = {3, 25, 2, 2, 50000, 50};

static void
set_up(void)
{
	sim_set_up();
	ck_assert_int_eq(disk_mkdir(disk, LOG_FOLDER), 0);
	ck_assert_int_eq(disk_sync_dir(disk, ""), 0);
	segment_path(path, ID);
}

static void
tear_down(void)
{
	if (world.next_qseq != NULL)
		world_fini(&world);
	if (older.next_qseq != NULL)
		world_fini(&older);
	sim_tear_down();
}

/* ---- what is built ---- */

START_TEST(test_footer_of_one_queue)
{
	check_mixture(&(struct mixture){1, 5000, 1, 1, 1, 100});
}
END_TEST

START_TEST(test_footer_of_several_queues_and_priorities)
{
	check_mixture(&(struct mixture){7, 5000, 5, 4, 3, 400});
}
END_TEST

START_TEST(test_footer_of_10000_queues)
{
	check_mixture(&(struct mixture){QUEUES_MAX, 40000, 2, 1, 1, 30});
}
END_TEST

START_TEST(test_footer_of_sparse_numbers)
{
	check_mixture(&(struct mixture){3, 2000, 2, 2, 200000, 50});
	check_mixture(&(struct mixture){3, 2000, 2, 2, QSEQ_MAX >> 16, 50});
}
END_TEST

START_TEST(test_numbers_65535_apart_are_one_run_and_65536_are_two)
{
	for (uint64_t apart = 65535; apart <= 65536; apart++) {
		struct disk_file *file;
		struct footer footer;

		world_init(&world, ID, 0, 1);
		add_message(&world, &(struct message_ref){.queue_id = 5, .qseq = 9}, 1, 3);
		add_message(&world, &(struct message_ref){.queue_id = 5, .qseq = 9 + apart}, 1, 3);
		end_batch(&world);
		check_built(&world);
		file = must_open(disk, path, DISK_READ);
		ck_assert_int_eq(footer_open(&footer, file), 0);
		ck_assert_uint_eq(footer.run_count, apart == 65535 ? 1 : 2);
		disk_close(&file);
		world_fini(&world);
	}
}
END_TEST

START_TEST(test_footer_without_messages)
{
	world_init(&world, ID, 0, 1);
	add_other(&world);
	end_batch(&world);
	check_built(&world);
	world_fini(&world);
	world_init(&world, ID, 1, 1);
	check_built(&world);
}
END_TEST

/* ---- what is refused, and leaves the file as it is ---- */

static void
check_refused(int expected)
{
	size_t n;
	const uint8_t *p;

	put_file(sim, &world, NULL, 0);
	ck_assert_int_eq(build(sim, &world), expected);
	p = disk_sim_content(sim, path, &n);
	ck_assert_uint_eq(n, world.content.n);
	ck_assert_mem_eq(p, world.content.p, n);
	ck_assert_uint_eq(sim->counts.calls[SIM_WRITE], 0);
	ck_assert_uint_eq(sim->counts.calls[SIM_TRUNCATE], 0);
}

START_TEST(test_numbers_that_do_not_rise_are_refused)
{
	for (uint64_t second = 1; second <= 5; second += 4) {
		world_init(&world, ID, 0, 1);
		add_message(&world, &(struct message_ref){.queue_id = 5, .qseq = 5}, 1, 3);
		add_message(&world, &(struct message_ref){.queue_id = 5, .qseq = second}, 1, 3);
		end_batch(&world);
		check_refused(-EBADMSG);
		world_fini(&world);
	}
}
END_TEST

START_TEST(test_damaged_segment_is_refused)
{
	for (uint32_t generation = 0; generation < 2; generation++) {
		world_init(&world, ID, generation, 3);
		add_random(&world, &(struct mixture){2, 100, 2, 1, 1, 100});
		world.content.p[world.content.n / 2 & ~(size_t)511] ^= 4;
		check_refused(-EBADMSG);
		world_fini(&world);
	}
}
END_TEST

START_TEST(test_end_or_lsn_that_is_not_the_segments_is_refused)
{
	world_init(&world, ID, 0, 3);
	add_random(&world, &(struct mixture){2, 100, 2, 1, 1, 100});
	world.lsn++;
	check_refused(-EBADMSG);
	world.lsn--;
	memset(buf_reserve(&world.content, 512), 0, 512);
	world.content.n += 512;
	check_refused(-EBADMSG);
	world.content.n -= 512 + RECORD_ALIGNMENT;
	check_refused(-EBADMSG);
}
END_TEST

/* ---- damage of the footer ---- */

/* Opens and reads whatever it can; all of that is right. Whether anything was refused. */
static bool
is_refused(struct disk_sim *on)
{
	struct disk_file *file = must_open(&on->disk, path, DISK_READ);
	struct footer footer;
	int error = footer_open(&footer, file);
	size_t at = 0;

	ck_assert(error == 0 || error == -ENOENT);
	for (uint32_t i = 0; error == 0 && i < footer.run_count; i++) {
		struct footer_run run;

		error = check_run(&footer, &world, i, at, &run);
		ck_assert(error == 0 || error == -EBADMSG);
		at += run.count;
	}
	for (uint32_t i = 0; error == 0 && i * TIMED_PIECE_ITEMS < world_timed(&world); i++) {
		struct timed_piece piece = {0};

		error = footer.has_timed ? footer_timed_piece(&footer, i, &piece) : -EBADMSG;
		ck_assert(error == 0 || error == -EBADMSG);
		xfree(piece.items);
	}
	if (error == 0)
		check_timed(&footer, &world);
	disk_close(&file);
	return error != 0;
}

/* A footer of a few runs; returns where it begins. */
static size_t
make_small(void)
{
	world_init(&world, ID, 0, 5);
	add_random(&world, &(struct mixture){3, 21, 2, 2, 100000, 50});
	check_built(&world);
	return (world.content.n + FOOTER_ALIGNMENT - 1) / FOOTER_ALIGNMENT * FOOTER_ALIGNMENT;
}

START_TEST(test_garbled_footer_is_refused)
{
	size_t begin = make_small();
	size_t entries = (world.count * FOOTER_ENTRY_SIZE + 7) / 8 * 8;
	size_t timed = timed_section_size(world_timed(&world));
	size_t size;

	disk_sim_content(sim, path, &size);
	for (size_t at = begin; at < size; at++) {
		struct disk_sim *state = disk_sim_clone(sim);
		uint8_t *p = disk_sim_content(state, path, &size);
		size_t in_timed = at - begin - SECTION_HEADER_SIZE - entries;
		size_t in_runs = in_timed - SECTION_HEADER_SIZE - timed;
		bool filling =
			at - begin >= SECTION_HEADER_SIZE + world.count * FOOTER_ENTRY_SIZE &&
			at - begin < SECTION_HEADER_SIZE + entries;
		/* the whole sections' checks are for tools that look at all of them */
		bool check = (at - begin >= 4 && at - begin < 8) || (in_runs >= 4 && in_runs < 8) ||
			     (in_timed >= 4 && in_timed < 8);

		p[at] ^= (uint8_t)(1U << at % 8);
		ck_assert_msg(is_refused(state) == !(filling || check), "octet %zu of %zu",
			      at - begin, size - begin);
		disk_sim_free(&state);
	}
}
END_TEST

START_TEST(test_cut_footer_is_none)
{
	size_t size;

	make_small();
	disk_sim_content(sim, path, &size);
	while (--size > 0) {
		struct disk_sim *state = disk_sim_clone(sim);
		uint8_t *p = disk_sim_content(sim, path, &(size_t){0});

		disk_sim_put(state, path, p, size);
		ck_assert(is_refused(state));
		disk_sim_free(&state);
		size -= size > world.content.n ? 0 : min_u64(size - 1, 100);
	}
}
END_TEST

START_TEST(test_whole_sections_have_right_checks)
{
	size_t begin = make_small();
	size_t size;
	const uint8_t *p = disk_sim_content(sim, path, &size);
	const uint8_t *end = p + size - TRAILER_SIZE;

	for (p += begin; p < end; p += record_align(SECTION_HEADER_SIZE + le64_load(p + 8)))
		ck_assert_uint_eq(le32_load(p + 4),
				  crc32c(0, p + SECTION_HEADER_SIZE, le64_load(p + 8)));
	ck_assert_ptr_eq(p, end);
}
END_TEST

/* ---- octets that are of something else ---- */

/* The footer of a world alone. */
static uint8_t *
footer_of(struct world *w, size_t *n)
{
	uint8_t *p;
	size_t size;
	uint8_t *copy;

	put_file(sim, w, NULL, 0);
	ck_assert_int_eq(build(sim, w), 0);
	disk_sim_crash(sim, SIM_EVERYTHING, 0);
	p = disk_sim_content(sim, path, &size);
	*n = size - w->content.n;
	copy = xmemdup(p + w->content.n, *n);
	return copy;
}

static int
try_open(void)
{
	struct disk_file *file = must_open(disk, path, DISK_READ);
	struct footer footer;
	int error = footer_open(&footer, file);

	disk_close(&file);
	return error;
}

START_TEST(test_footer_of_another_segment_is_none)
{
	size_t n;
	uint8_t *footer;

	/* the same file before it was used again; and the same one before a merge */
	for (uint32_t generation = 0; generation < 2; generation++) {
		world_init(&older, ID + 1 - generation, 0, 5);
		add_random(&older, &small);
		footer = footer_of(&older, &n);
		world_init(&world, ID, generation, 5);
		add_random(&world, &small);
		ck_assert_uint_le(world.content.n, older.content.n);
		memset(buf_reserve(&world.content, older.content.n - world.content.n), 0,
		       older.content.n - world.content.n);
		world.content.n = older.content.n;
		put_file(sim, &world, footer, n);
		ck_assert_int_eq(try_open(), -ENOENT);
		/* it is nothing else that is wrong with it */
		memcpy(world.content.p, older.content.p, SEGMENT_HEADER_SIZE);
		put_file(sim, &world, footer, n);
		ck_assert_int_eq(try_open(), 0);
		xfree(footer);
		world_fini(&older);
		world_fini(&world);
	}
}
END_TEST

/* ---- crashes ---- */

#define STATES_MAX 400	 /* of one point, to try all of them */
#define RANDOM_STATES 40 /* where there are more */

struct crashes {
	struct disk_sim *states[256]; // own
	size_t count;
};

static void
keep_state(void *context, struct disk_sim *from, const struct disk_sim_call *call)
{
	struct crashes *crashes = context;

	if (call->kind >= SIM_OPEN)
		return;
	ck_assert_uint_lt(crashes->count, countof(crashes->states));
	crashes->states[crashes->count++] = disk_sim_clone(from);
}

/* No footer, or the whole one, or the older one; and it can be built. */
static void
check_after_crash(struct disk_sim *state, unsigned seen[3])
{
	struct disk_file *file = must_open(&state->disk, path, DISK_READ);
	struct footer footer;
	int error = footer_open(&footer, file);
	size_t n;
	const uint8_t *p = disk_sim_content(state, path, &n);

	ck_assert_uint_ge(n, world.content.n);
	ck_assert_mem_eq(p, world.content.p, world.content.n);
	if (error == 0 && footer.last_lsn == world.lsn) {
		check_all(&footer, &world);
		seen[1]++;
	} else if (error == 0) {
		check_all(&footer, &older);
		seen[2]++;
	} else {
		ck_assert_int_eq(error, -ENOENT);
		seen[0]++;
	}
	disk_close(&file);
	ck_assert_int_eq(build(state, &world), 0);
	file = must_open(&state->disk, path, DISK_READ);
	ck_assert_int_eq(footer_open(&footer, file), 0);
	check_all(&footer, &world);
	disk_close(&file);
}

/* Builds the footer of world, and crashes before and after each change. */
static void
check_crashes(unsigned seen[3])
{
	struct crashes crashes = {.count = 0};

	disk_sim_crash(sim, SIM_EVERYTHING, 0);
	sim->hook = keep_state;
	sim->context = &crashes;
	ck_assert_int_eq(build(sim, &world), 0);
	sim->hook = NULL;
	for (size_t i = 0; i < crashes.count; i++) {
		uint64_t states = disk_sim_states(crashes.states[i]);

		bool all = states <= STATES_MAX;

		for (uint64_t k = 0; k < (all ? states : RANDOM_STATES); k++) {
			struct disk_sim *state = disk_sim_clone(crashes.states[i]);

			disk_sim_crash(state, all ? SIM_NTH : SIM_RANDOM, k);
			check_after_crash(state, seen);
			disk_sim_free(&state);
		}
		disk_sim_free(&crashes.states[i]);
	}
	printf("%zu points: %u states without a footer, %u with it, %u with the older one\n",
	       crashes.count, seen[0], seen[1], seen[2]);
	ck_assert_uint_gt(seen[0], 0);
	ck_assert_uint_gt(seen[1], 0);
}

START_TEST(test_crash_leaves_no_footer_or_the_whole_one)
{
	static uint8_t behind[40000];
	size_t n;
	uint8_t *footer;

	/* the file ends with its batches */
	world_init(&world, ID, 0, 9);
	add_random(&world, &small);
	put_file(sim, &world, NULL, 0);
	check_crashes((unsigned[3]){0});
	/* it is longer, and has octets of another file at its end, a trailer among them */
	world_init(&older, ID + 1, 0, 10);
	add_random(&older, &small);
	footer = footer_of(&older, &n);
	memset(behind, 0xa5, sizeof(behind));
	memcpy(behind + sizeof(behind) - n, footer, n);
	xfree(footer);
	put_file(sim, &world, behind, sizeof(behind));
	check_crashes((unsigned[3]){0});
	/* it has a footer */
	check_crashes((unsigned[3]){0});
}
END_TEST

/* A start has cut off the last batches, but its cut was lost: the footer with them is still there. */
START_TEST(test_crash_over_an_older_footer)
{
	unsigned seen[3] = {0};
	size_t n;
	uint8_t *footer;

	for (uint64_t more = 1; more < 100; more += 49) {
		world_init(&world, ID, 0, 9);
		add_random(&world, &small);
		world_init(&older, ID, 0, 9);
		add_random(&older, &small);
		add_random(&older, &(struct mixture){3, more, 2, 2, 1, 300});
		footer = footer_of(&older, &n);
		put_file(sim, &older, footer, n);
		check_crashes(seen);
		ck_assert_uint_gt(seen[2], 0);
		xfree(footer);
		world_fini(&world);
		world_fini(&older);
	}
}
END_TEST

START_TEST(test_failed_build_leaves_the_batches)
{
	world_init(&world, ID, 0, 9);
	add_random(&world, &small);
	for (uint64_t at = 1;; at++) {
		struct disk_sim *state;
		int error;

		put_file(sim, &world, (const uint8_t[5000]){0}, 5000);
		state = disk_sim_clone(sim);
		disk_sim_fail(state, (struct disk_sim_fault){.kind = SIM_ANY,
							     .at = at,
							     .error = -ENOSPC,
							     .part = 100 * (at % 3)});
		error = build(state, &world);
		if (error == 0) {
			ck_assert_uint_gt(at, 5);
			disk_sim_free(&state);
			break;
		}
		ck_assert_int_eq(error, -ENOSPC);
		disk_sim_crash(state, at % 2 == 0 ? SIM_EVERYTHING : SIM_NOTHING, 0);
		check_after_crash(state, (unsigned[3]){0});
		disk_sim_free(&state);
	}
}
END_TEST

START_TEST(test_error_of_the_disk_is_told)
{
	struct disk_file *file;
	struct footer footer;
	struct footer_run run;
	uint32_t at;

	make_small();
	file = must_open(disk, path, DISK_READ);
	for (uint64_t i = 1; i <= 4; i++) {
		disk_sim_fail(sim,
			      (struct disk_sim_fault){.kind = SIM_READ, .at = i, .error = -EIO});
		ck_assert_int_eq(footer_open(&footer, file), -EIO);
	}
	ck_assert_int_eq(footer_open(&footer, file), 0);
	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_READ, .at = 1, .error = -EIO});
	ck_assert_int_eq(footer_run(&footer, 0, &run), -EIO);
	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_READ, .at = 1, .error = -EIO});
	ck_assert_int_eq(footer_find(&footer, 1, 0, 0, &at), -EIO);
	ck_assert_int_eq(footer_run(&footer, 0, &run), 0);
	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_READ, .at = 1, .error = -EIO});
	ck_assert_int_eq(footer_entries(&footer, &run, 0, 0, NULL), -EIO);
	disk_close(&file);
	disk_sim_fail(sim, (struct disk_sim_fault){.kind = SIM_READ, .at = 1, .error = -EIO});
	ck_assert_int_eq(build(sim, &world), -EIO);
}
END_TEST

TESTS_WITH("footer", set_up, tear_down, test_footer_of_one_queue,
	   test_footer_of_several_queues_and_priorities, test_footer_of_10000_queues,
	   test_footer_of_sparse_numbers, test_numbers_65535_apart_are_one_run_and_65536_are_two,
	   test_footer_without_messages, test_numbers_that_do_not_rise_are_refused,
	   test_damaged_segment_is_refused, test_end_or_lsn_that_is_not_the_segments_is_refused,
	   test_garbled_footer_is_refused, test_cut_footer_is_none,
	   test_whole_sections_have_right_checks, test_footer_of_another_segment_is_none,
	   test_crash_leaves_no_footer_or_the_whole_one, test_crash_over_an_older_footer,
	   test_failed_build_leaves_the_batches, test_error_of_the_disk_is_told)
