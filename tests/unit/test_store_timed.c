/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of deadlines and reads of single cold messages, beyond what the model and the crash simulator try
 * (lib/store_timed.c): damage, indexes of an older version, merges under a cursor, what a million costs.
 */
#include "merge_fixture.h"

#include <malloc.h>

#include "store_cold_fixture.h"

static void
set_up_timed(void)
{
	set_up();
	f.timed = true;
}

/* Everything is due. */
#define END_OF_TIME (UINT64_MAX / 2)

/* Where the section TIMED of a file begins. */
static uint8_t *
timed_section(uint64_t id, uint8_t **content, size_t *size)
{
	char path[PATH_MAX_SIZE];
	const uint8_t *trailer;
	uint64_t at;

	segment_path(path, id);
	*content = disk_sim_content(f.sim, path, size);
	ck_assert_ptr_nonnull(*content);
	trailer = *content + *size - TRAILER_SIZE;
	at = le64_load(trailer + TRAILER_AT_SECTIONS) + SECTION_HEADER_SIZE +
	     record_align((uint64_t)le32_load(trailer + TRAILER_AT_ENTRIES) * FOOTER_ENTRY_SIZE);
	ck_assert_uint_eq(le32_load(*content + at), SECTION_TIMED);
	return *content + at;
}

/* Changes the octet at this place of that section in every sealed segment; how many there are. */
static unsigned
damage_timed(size_t at, uint8_t bits)
{
	unsigned count = 0;

	for (size_t i = 0; i < f.store->segment_count; i++) {
		uint8_t *content;
		size_t size;

		if (f.store->segments[i]->tail != NULL)
			continue;
		timed_section(f.store->segments[i]->id, &content, &size)[at] ^= bits;
		count++;
	}
	return count;
}

static void
fill(void)
{
	publish_flushed(store_fixture_queue(&f), 100, 1000);
	ck_assert_uint_gt(f.store->segment_count, 3);
}

/* ---- damage ---- */

START_TEST(test_damaged_piece_is_built_anew)
{
	unsigned count;

	fill();
	said_begin();
	count = damage_timed(SECTION_HEADER_SIZE + TIMED_HEAD_SIZE + TIMED_PIECE_HEADER_SIZE + 3,
			     8);
	store_fixture_take_all(&f, END_OF_TIME);
	ck_assert_uint_gt(f.given, 0);
	ck_assert_uint_eq(said("is damaged: it is built anew"), count);
	ck_assert_uint_eq(count, damage_timed(0, 0));
}
END_TEST

START_TEST(test_damaged_head_is_built_anew_when_somebody_asks)
{
	unsigned count;

	fill();
	count = damage_timed(SECTION_HEADER_SIZE + TIMED_HEAD_AT_FIRST, 8);
	f.skips = true;
	log_set_level(LOG_INFO);
	reopen(SIM_NOTHING);
	store_fixture_take_all(&f, END_OF_TIME);
	ck_assert_uint_gt(f.given, 0);
	ck_assert_uint_ge(f.store->segment_count, count);
	/* it is whole now */
	f.given = 0;
	reopen(SIM_NOTHING);
	store_fixture_take_all(&f, END_OF_TIME);
	ck_assert_uint_gt(f.given, 0);
}
END_TEST

/* As a version wrote it that did not know the section. */
START_TEST(test_index_of_an_older_version_gets_its_deadlines)
{
	unsigned unknown = 0;
	uint8_t *content;
	size_t size;

	fill();
	damage_timed(0, (uint8_t)SECTION_TIMED ^ 99);
	f.timed = false; /* nothing is taken when it is opened */
	f.skips = true;
	reopen(SIM_NOTHING);
	for (size_t i = 0; i < f.store->segment_count; i++)
		unknown += f.store->segments[i]->timed.next_ms == 0;
	ck_assert_uint_gt(unknown, 3);
	store_fixture_take_all(&f, END_OF_TIME);
	ck_assert_uint_gt(f.given, 0);
	timed_section(f.store->segments[0]->id, &content, &size);
}
END_TEST

START_TEST(test_index_of_an_older_version_is_left_alone_while_there_is_no_room)
{
	fill();
	damage_timed(0, (uint8_t)SECTION_TIMED ^ 99);
	f.timed = false; /* they are not all there to be taken */
	f.skips = true;
	reopen(SIM_NOTHING);
	f.sim->capacity = 64 * 1024 * 1024;
	said_begin();
	while (store_fixture_take(&f, END_OF_TIME, 100) > 0 || store_fixture_help(&f))
		store_receive(f.store);
	ck_assert_uint_gt(said("cannot be read, nor be made anew"), 0);
	ck_assert(!f.failed);
	store_fixture_read_out(&f, 0, 100, 100000);
}
END_TEST

START_TEST(test_piece_that_the_disk_refuses_ends_the_process)
{
	fill();
	disk_sim_fail(f.sim, (struct disk_sim_fault){.kind = SIM_READ, .at = 1, .error = -EIO});
	while (store_fixture_take(&f, END_OF_TIME, 100) > 0 || store_fixture_help(&f))
		store_receive(f.store);
	ck_assert(f.failed);
}
END_TEST

/* ---- files that go ---- */

/* Takes a few at each turn while what is merged changes, so that cursors stand in the middle of what is. */
START_TEST(test_merges_go_on_under_cursors)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint32_t queue;
		size_t first;

		tear_down();
		merge_small_files(&f, seed, false);
		f.timed = true;
		queue = store_fixture_queue(&f);
		first = publish_each(&f, queue, 100, 1000);
		store_fixture_take(&f, f.now.wall_ms + 10000, 10);
		settle_from(&f, first, 4);
		for (unsigned i = 0; i < 200; i++) {
			merge_turn(&f);
			if (i % 8 == 0)
				store_fixture_take(&f, f.now.wall_ms + 10000 + 100 * i, 1);
		}
		merge_rest(&f);
		ck_assert_uint_gt(merged_segments(&f), 0);
		store_fixture_take_all(&f, END_OF_TIME);
	}
}
END_TEST

/* A checkpoint that cannot be read sends the start to the one before. */
START_TEST(test_deadlines_come_though_a_checkpoint_is_lost)
{
	char path[PATH_MAX_SIZE];
	uint8_t *content;
	size_t size;

	f.options.checkpoint_size = 16 * 1024;
	store_fixture_kill(&f);
	ck_assert_int_eq(store_fixture_open(&f), 0);
	for (unsigned i = 0; i < 4; i++) {
		fill();
		f.now.monotonic_ms += 1000;
		store_fixture_take(&f, f.now.wall_ms + 5000, 20);
		store_fixture_flush(&f);
	}
	ck_assert_uint_gt(f.store->checkpoints.count, 1);
	(void)snprintf(
		path, sizeof(path), CHECKPOINT_FOLDER "/%016llu",
		(unsigned long long)f.store->checkpoints.lsns[f.store->checkpoints.count - 1]);
	content = disk_sim_content(f.sim, path, &size);
	content[size / 2] ^= 1;
	f.ledger.may_flag = true;
	reopen(SIM_NOTHING);
	store_fixture_take_all(&f, END_OF_TIME);
	ck_assert_uint_gt(f.given, 0);
}
END_TEST

/* ---- what is told ---- */

START_TEST(test_a_sooner_deadline_is_told_once)
{
	unsigned told = f.told;
	uint32_t queue = store_fixture_queue(&f);

	for (unsigned i = 0; i < 50; i++) {
		publish(queue, 100);
		store_fixture_flush(&f);
	}
	ck_assert_uint_gt(f.told, told);
	/* many are later than those before */
	ck_assert_uint_lt(f.told, told + 30);
	told = f.told;
	store_fixture_flush(&f);
	ck_assert_uint_eq(f.told, told);
}
END_TEST

/* The disk is asked before the time has come. */
START_TEST(test_a_piece_is_at_hand_when_it_is_due)
{
	uint64_t due_ms;

	f.timed = false;
	f.skips = true;
	publish_flushed(store_fixture_queue(&f), 40, 1000);
	f.timed = true;
	fill();
	f.timed = false;
	reopen(SIM_NOTHING);
	f.now.wall_ms -= 100000;
	ck_assert_uint_eq(store_fixture_take(&f, f.now.wall_ms, 100), 0);
	store_fixture_flush(&f);
	due_ms = store_next_deadline(f.store);
	ck_assert_uint_eq(store_fixture_take(&f, due_ms - 1, 100), 0);
	ck_assert_uint_eq(store_next_deadline(f.store), due_ms);
	ck_assert_uint_eq(store_fixture_take(&f, due_ms, 100), 0);
	help();
	ck_assert_uint_ge(store_next_deadline(f.store), due_ms + 100);
	due_ms = store_next_deadline(f.store);
	ck_assert_uint_eq(store_fixture_take(&f, due_ms - 1, 100), 0);
	ck_assert_uint_ge(store_fixture_take(&f, due_ms, 100), 1);
}
END_TEST

/* ---- what it costs ---- */

static uint64_t
memory(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Without the ledger, which has a lot to say of each message. */
static void
publish_plainly(struct queue_log *log, uint64_t time_ms)
{
	struct message_record record = {
		.ref_count = 1, .body = BYTES("small"), .expiry_ms = time_ms};
	uint64_t qseq = log->next_qseq;
	uint8_t *refs;

	store_append_message(f.store, &record, &refs);
	store_add_ref(f.store, log, refs, qseq, (uint32_t)record.body.n, 0);
	store_cold_push(log, qseq, (uint32_t)record.body.n);
}

static uint64_t
pieces_at_hand(void)
{
	uint64_t count = 0;

	for (size_t i = 0; i < f.store->segment_count; i++)
		count += f.store->segments[i]->timed.piece.items != NULL;
	return count;
}

START_TEST(test_a_million_that_wait_cost_little_memory)
{
	static struct store_deadline deadlines[1000];
	char folder[] = "/tmp/store-timed-XXXXXX";
	struct buf command;
	uint32_t queue;
	uint64_t before;
	uint64_t given = 0;
	uint64_t last_ms = 0;

	store_fixture_kill(&f);
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(disk_new(&f.disk, folder), 0);
	f.cold = true;
	f.options = store_options_default();
	f.options.file_size = 4 * 1024 * 1024;
	f.ledger.queue_count = 0;
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	store_fixture_flush(&f);
	before = memory();
	for (unsigned i = 0; i < MANY; i++) {
		publish_plainly(f.ledger.queues[queue].log,
				f.now.wall_ms + 1000 + i * 7919ULL % 100000);
		if (i % 1024 == 0) {
			store_fixture_submit(&f, true);
			store_fixture_work(&f);
		}
	}
	while (store_fixture_work(&f))
		store_fixture_submit(&f, false);
	ck_assert_uint_gt(f.store->segment_count, 20);
	/* the last segment's index, the batches, and next to nothing for each other one */
	ck_assert_uint_lt(memory() - before, 8 * 1024 * 1024);
	printf("a million deadlines: %llu KiB of memory while they wait\n",
	       (unsigned long long)(memory() - before) / 1024);
	ck_assert_uint_eq(pieces_at_hand(), 0);
	f.now.wall_ms += 200000;
	while (store_next_deadline(f.store) <= f.now.wall_ms || store_fixture_help(&f)) {
		uint32_t n;

		store_receive(f.store);
		n = store_take_deadlines(f.store, f.now.wall_ms, deadlines, 1000);
		for (uint32_t i = 0; i < n; i++) {
			ck_assert_uint_ge(deadlines[i].time_ms, last_ms);
			last_ms = deadlines[i].time_ms;
			store_ack_cold(f.store, deadlines[i].log, deadlines[i].qseq,
				       &deadlines[i].place, ACK_EXPIRED);
		}
		given += n;
		store_fixture_submit(&f, false);
		store_fixture_write(&f);
		ck_assert_uint_le(pieces_at_hand(), f.store->segment_count);
	}
	ck_assert_uint_eq(given, MANY);
	ck_assert_uint_eq(f.ledger.queues[queue].log->count, 0);
	ck_assert_uint_eq(f.ledger.queues[queue].log->octets, 0);
	ck_assert_uint_lt(memory() - before, 16 * 1024 * 1024);
	(void)store_close(&f.store, false);
	disk_free(&f.disk);
	buf_init(&command, 0);
	buf_addf(&command, "rm -r %s", folder);
	ck_assert_int_eq(system(buf_cstr(&command)), 0);
	buf_fini(&command);
}
END_TEST

/* ---- single messages ---- */

START_TEST(test_settled_out_of_order_is_not_handed_out)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 40, 1000);
	store_fixture_ack_cold(&f, 3, 0, ACK_EXPIRED);
	/* one that is being read already */
	store_fixture_read(&f, queue, 20, 100000);
	store_fixture_help(&f);
	store_fixture_ack_cold(&f, 5, 0, ACK_EXPIRED);
	store_receive(f.store);
	ck_assert(!f.ledger.messages[6].refs[0].cold);
	store_fixture_read_out(&f, queue, 20, 100000);
	ck_assert_uint_eq(log_of(queue)->count, 38);
	check_live();
	reopen(SIM_EVERYTHING);
}
END_TEST

/* With the last one whoever waits for a read waits no more. */
START_TEST(test_the_last_one_ends_a_read)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 1, 1000);
	store_fixture_read(&f, queue, 20, 100000);
	store_fixture_ack_cold(&f, 0, 0, ACK_EXPIRED);
	ck_assert(!log_of(queue)->reading);
	help();
	ck_assert_uint_eq(f.read_ends, 0);
	/* what comes now is not taken for what was asked for then */
	publish_flushed(queue, 3, 1000);
	store_fixture_read_out(&f, queue, 20, 100000);
	ck_assert_uint_eq(log_of(queue)->count, 3);
}
END_TEST

START_TEST(test_single_messages_are_read_wherever_they_are)
{
	uint32_t queue = fill_everywhere();

	/* the last ones are in no segment yet */
	store_fixture_pick(&f, queue, 1, 200);
	ck_assert_ptr_nonnull(log_of(queue)->picking);
	store_fixture_flush(&f);
	ck_assert_ptr_null(log_of(queue)->picking);
	ck_assert_uint_gt(f.picked, 80);
	store_fixture_read_out(&f, queue, 20, 100000);
	check_live();
}
END_TEST

START_TEST(test_large_messages_are_read_in_turns)
{
	uint32_t queue = store_fixture_queue(&f);

	publish_flushed(queue, 100, 100 * 1024);
	store_fixture_pick(&f, queue, 1, 200);
	store_fixture_flush(&f);
	ck_assert_uint_eq(f.picked, 100);
}
END_TEST

START_TEST(test_damaged_single_message_is_left_out)
{
	uint32_t queue = store_fixture_queue(&f);
	struct queue_log *log;
	char path[PATH_MAX_SIZE];
	uint8_t *content;
	size_t size;

	publish_flushed(queue, 40, 1000);
	log = f.ledger.queues[queue].log;
	segment_path(path, f.store->segments[0]->id);
	content = disk_sim_content(f.sim, path, &size);
	/* in the first message's body */
	content[SEGMENT_HEADER_SIZE + BATCH_SIZE + 900] ^= 1;
	said_begin();
	store_read_these(f.store, log, &(struct store_pick){1, {.lsn = f.ledger.messages[0].lsn}},
			 1);
	store_fixture_flush(&f);
	ck_assert_ptr_null(log->picking);
	ck_assert_uint_eq(f.picked, 0);
	ck_assert_uint_eq(said("it is left out"), 1);
	ck_assert_uint_eq(log->damaged, 1);
	ck_assert_uint_eq(log->cold_count, 39);
	ck_assert(!store_is_cold(log, 1));
	f.ledger.messages[0].refs[0].cold = false;
	store_fixture_read_out(&f, queue, 20, 100000);
}
END_TEST

/* Changes an octet of the entries of each sealed segment. */
static void
damage_entries(void)
{
	for (size_t i = 0; i < f.store->segment_count; i++) {
		uint64_t entries = sizeof(uint64_t);
		uint8_t *content;
		size_t size;

		if (f.store->segments[i]->tail != NULL)
			continue;
		timed_section(f.store->segments[i]->id, &content, &size);
		entries += le64_load(content + size - TRAILER_SIZE + TRAILER_AT_SECTIONS) +
			   SECTION_HEADER_SIZE;
		content[entries] ^= 8;
	}
}

static void
pick_one(const struct store_deadline *deadline, uint32_t offset)
{
	struct store_pick pick = {deadline->qseq, deadline->place};
	size_t at;

	pick.place.offset = offset;
	store_fixture_ref(&f, deadline->log, deadline->qseq, &at)->picked = true;
	store_read_these(f.store, deadline->log, &pick, 1);
	store_fixture_flush(&f);
}

START_TEST(test_single_messages_are_read_where_their_deadlines_say)
{
	struct store_deadline deadlines[2];

	fill();
	while (store_take_deadlines(f.store, END_OF_TIME, deadlines, 2) < 2) {
		ck_assert(store_fixture_help(&f));
		store_receive(f.store);
	}
	ck_assert_uint_ne(deadlines[0].place.offset, 0);
	ck_assert_uint_ne(deadlines[1].place.offset, 0);
	damage_entries();
	said_begin();
	pick_one(&deadlines[0], deadlines[0].place.offset);
	ck_assert_uint_eq(f.picked, 1);
	ck_assert_uint_eq(said("is damaged: it is built anew"), 0);
	/* where there is another one */
	pick_one(&deadlines[1], deadlines[0].place.offset);
	ck_assert_uint_eq(f.picked, 2);
	ck_assert_uint_eq(said("is damaged: it is built anew"), 1);
	ck_assert_uint_eq(said("it is left out"), 0);
}
END_TEST

static size_t largest_read;

/* The hook of the disk. */
static void
note_read(void *context, struct disk_sim *sim, const struct disk_sim_call *call)
{
	(void)context;
	(void)sim;
	if (call->kind == SIM_READ && call->n > largest_read)
		largest_read = call->n;
}

/* Where there is no record any more, what stands for its size may be anything. */
START_TEST(test_a_wrong_place_is_not_read_to_the_end_of_the_file)
{
	const size_t wrong = SEGMENT_HEADER_SIZE + BATCH_SIZE + 512; // in the first body of a file
	struct store_deadline deadline = {0};
	char path[PATH_MAX_SIZE];
	uint8_t *content;
	size_t size;

	fill();
	while ((uint64_t)deadline.place.offset * RECORD_ALIGNMENT <= wrong)
		if (store_take_deadlines(f.store, END_OF_TIME, &deadline, 1) == 0) {
			ck_assert(store_fixture_help(&f));
			store_receive(f.store);
		}
	segment_path(path, segment_of(f.store, deadline.place.lsn)->id);
	content = disk_sim_content(f.sim, path, &size);
	ck_assert_uint_gt(size, wrong + 2 * 4096);
	le32_store(content + wrong + RECORD_AT_SIZE, INT32_MAX);
	f.sim->hook = note_read;
	pick_one(&deadline, wrong / RECORD_ALIGNMENT);
	f.sim->hook = NULL;
	ck_assert_uint_eq(f.picked, 1);
	ck_assert_uint_lt(largest_read, 4096);
}
END_TEST

START_TEST(test_a_purge_makes_an_end_of_it)
{
	uint32_t queue = fill_everywhere();

	store_fixture_pick(&f, queue, 2, 200);
	store_fixture_purge(&f, queue);
	ck_assert_ptr_null(log_of(queue)->picking);
	store_fixture_flush(&f);
	ck_assert_uint_eq(f.picked, 0);
	store_fixture_pick(&f, queue, 1, 200);
	store_fixture_drop(&f, queue);
	store_fixture_flush(&f);
	ck_assert_uint_eq(f.picked, 0);
}
END_TEST

TESTS_WITH("store_timed", set_up_timed, tear_down, test_damaged_piece_is_built_anew,
	   test_damaged_head_is_built_anew_when_somebody_asks,
	   test_index_of_an_older_version_gets_its_deadlines,
	   test_index_of_an_older_version_is_left_alone_while_there_is_no_room,
	   test_piece_that_the_disk_refuses_ends_the_process, test_merges_go_on_under_cursors,
	   test_deadlines_come_though_a_checkpoint_is_lost, test_a_sooner_deadline_is_told_once,
	   test_a_piece_is_at_hand_when_it_is_due, test_a_million_that_wait_cost_little_memory,
	   test_settled_out_of_order_is_not_handed_out, test_the_last_one_ends_a_read,
	   test_single_messages_are_read_wherever_they_are, test_large_messages_are_read_in_turns,
	   test_damaged_single_message_is_left_out,
	   test_single_messages_are_read_where_their_deadlines_say,
	   test_a_wrong_place_is_not_read_to_the_end_of_the_file, test_a_purge_makes_an_end_of_it)
