/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges on the simulated disk, where nothing fails: what is kept, what happens on the way, when they come
 * and what they give back.
 */
#include "store/store.h"

#include "lib/runner.h"

#include "merge_fixture.h"

static struct store_fixture f;

static void
tear_down(void)
{
	if (f.sim != NULL)
		store_fixture_fini(&f);
}

/* Opens it anew, once with all messages handed out and once with all of them read. */
static void
reopen_in_both_ways(void)
{
	for (unsigned i = 0; i < 2; i++) {
		store_fixture_crash(&f, SIM_NOTHING, 0);
		f.cold = !f.cold;
		for (size_t m = 0; m < f.ledger.message_count && !f.cold; m++)
			for (uint32_t n = 0; n < f.ledger.messages[m].ref_count; n++)
				f.ledger.messages[m].refs[n].cold = false;
		ck_assert_msg(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
		check_files(&f);
	}
}

/* ---- what is kept ---- */

START_TEST(test_open_references_are_kept_and_no_others)
{
	uint32_t queues[5];

	merge_small_files(&f, 1, false);
	for (unsigned i = 0; i < 5; i++)
		queues[i] = store_fixture_queue(&f);
	for (unsigned i = 0; i < 80; i++) {
		store_fixture_publish(&f, queues + i % 3, 1 + i % 3, 300 + 10 * i);
		store_fixture_flush(&f);
	}
	/* of each message another part */
	for (size_t i = 0; i < 80; i++)
		for (uint32_t n = 0; n < f.ledger.messages[i].ref_count; n++)
			if ((i * 7 + n * 3) % 5 < 3)
				store_fixture_ack(&f, i, n, ACK_CONSUMED);
	merge_rest(&f);
	ck_assert_uint_gt(recount_merged(&f, true), 0);
	store_fixture_check(&f);
	reopen_in_both_ways();
}
END_TEST

START_TEST(test_a_dropped_queue_is_left_out)
{
	uint32_t queues[2];

	merge_small_files(&f, 1, false);
	queues[0] = store_fixture_queue(&f);
	queues[1] = store_fixture_queue(&f);
	for (unsigned i = 0; i < 60; i++) {
		store_fixture_publish(&f, queues + i % 2, i % 4 == 0 ? 2 - i % 2 : 1, 1000);
		store_fixture_flush(&f);
	}
	settle_from(&f, 0, 3);
	store_fixture_drop(&f, queues[1]);
	merge_rest(&f);
	ck_assert_uint_gt(recount_merged(&f, true), 0);
	store_fixture_check(&f);
	reopen_in_both_ways();
}
END_TEST

START_TEST(test_merged_files_are_merged_again)
{
	uint32_t generation = 0;

	merge_small_files(&f, 1, false);
	for (unsigned round = 0; round < 8; round++) {
		make_garbage(&f);
		settle_from(&f, 0, 8 + 8 * round);
		merge_rest(&f);
		recount_merged(&f, true);
		store_fixture_check(&f);
		check_files(&f);
	}
	for (size_t i = 0; i < f.store->segment_count; i++)
		if (f.store->segments[i]->generation > generation)
			generation = f.store->segments[i]->generation;
	ck_assert_uint_gt(generation, 3);
	reopen_in_both_ways();
}
END_TEST

START_TEST(test_a_file_without_anything_open_goes)
{
	uint64_t used;

	merge_small_files(&f, 1, false);
	make_garbage(&f);
	merge_rest(&f);
	settle_from(&f, 0, 0);
	publish_each(&f, 0, 40, 1000);
	settle_from(&f, 0, 0);
	merge_rest(&f);
	merge_rest(&f);
	used = disk_used(&f);
	ck_assert_msg(used <= 5 * f.options.file_size, "%llu octets for nothing",
		      (unsigned long long)used);
	reopen_in_both_ways();
}
END_TEST

/* ---- times and extensions, which nothing writes yet ---- */

#define TIMED 60
#define TIMED_REFS 3

/* What was written of one of them: the times of its references, 0 for none. */
struct timed_message {
	uint64_t lsn;
	uint64_t deadline[TIMED_REFS];
	uint64_t due[TIMED_REFS];
	bool open[TIMED_REFS];
	uint32_t body_size;
};

static struct timed_message timed[TIMED];
static const uint8_t extension[] = {1, 3, 'a', 'b', 'c', 2, 0};

static uint8_t *
put_times(uint8_t *p, const uint64_t times[TIMED_REFS])
{
	for (unsigned i = 0; i < TIMED_REFS; i++)
		if (times[i] != 0) {
			le64_store(p, times[i]);
			p += 8;
		}
	return p;
}

/* Writes the record anew in the batch: the body gives up the octets that times and extension take. */
static void
add_times(struct timed_message *t, uint8_t *refs, const struct message_record *content)
{
	uint8_t *start = refs - MESSAGE_AT_REFS;
	uint32_t size = le32_load(start + RECORD_AT_SIZE);
	uint8_t *p = put_times(refs + TIMED_REFS * MESSAGE_REF_SIZE, t->deadline);

	p = put_times(p, t->due);
	le16_store(p, sizeof(extension));
	memcpy(p + 2, extension, sizeof(extension));
	p += 2 + sizeof(extension);
	memcpy(p, content->exchange.p, content->exchange.n);
	p += content->exchange.n;
	memcpy(p, content->key.p, content->key.n);
	p += content->key.n;
	memcpy(p, content->properties.p, content->properties.n);
	p += content->properties.n;
	memcpy(p, content->body.p, t->body_size);
	p += t->body_size;
	memset(p, 0, (size_t)(start + size - p));
	le64_store(start + MESSAGE_AT_EXPIRY, 77);
	le32_store(start + MESSAGE_AT_BODY_SIZE, t->body_size);
	le16_store(start + MESSAGE_AT_FLAGS, MESSAGE_EXTENDED | MESSAGE_CC);
	for (unsigned i = 0; i < TIMED_REFS; i++)
		refs[i * MESSAGE_REF_SIZE + 7] |=
			(uint8_t)((t->deadline[i] != 0 ? REF_DEADLINE : 0) |
				  (t->due[i] != 0 ? REF_DUE : 0));
}

static void
publish_timed(unsigned number, const uint32_t queues[TIMED_REFS])
{
	struct message_record record = ledger_content(number, 1000);
	struct timed_message *t = &timed[number];
	uint64_t times = 0;
	uint8_t *refs;

	record.ref_count = TIMED_REFS;
	t->lsn = store_append_message(f.store, &record, &refs);
	for (unsigned i = 0; i < TIMED_REFS; i++) {
		t->deadline[i] = (number >> i & 1) != 0 ? 100 * number + i + 1 : 0;
		t->due[i] = (number >> (i + 1) & 1) != 0 ? 9000 + 100 * number + i : 0;
		times += (t->deadline[i] != 0) + (t->due[i] != 0);
		t->open[i] = true;
	}
	/* the record is as long as it was */
	t->body_size = (uint32_t)(record.body.n - 8 * times - 2 - sizeof(extension));
	for (unsigned i = 0; i < TIMED_REFS; i++)
		store_add_ref(f.store, f.ledger.queues[queues[i]].log, refs + i * MESSAGE_REF_SIZE,
			      number + 1, t->body_size, 0);
	add_times(t, refs, &record);
	store_fixture_flush(&f);
}

static int
check_timed(void *context, const struct record *record)
{
	unsigned *number = context;
	struct message_record message;
	struct message_record content;
	const struct timed_message *t;
	const uint8_t *times;
	unsigned at = 0;

	while (timed[*number].lsn != record->lsn)
		ck_assert_uint_lt(++*number, TIMED);
	t = &timed[*number];
	content = ledger_content(*number, t->body_size);
	ck_assert_int_eq(message_record_decode(&message, record), 0);
	ck_assert_uint_eq(message.time_ms, content.time_ms);
	ck_assert_uint_eq(message.expiry_ms, 77);
	ck_assert_uint_eq(message.flags, MESSAGE_EXTENDED | MESSAGE_CC);
	ck_assert(bytes_equal(message.exchange, content.exchange));
	ck_assert(bytes_equal(message.key, content.key));
	ck_assert(bytes_equal(message.properties, content.properties));
	ck_assert(bytes_equal(message.body, content.body));
	ck_assert(bytes_equal(message.extension, bytes_of(extension, sizeof(extension))));
	times = message.times;
	for (unsigned i = 0; i < TIMED_REFS; i++)
		if (t->open[i]) {
			struct message_ref ref =
				message_ref_decode(message.refs + at * MESSAGE_REF_SIZE);

			ck_assert_uint_eq(ref.queue_id, f.ledger.queues[i].id);
			ck_assert_uint_eq(ref.qseq, *number + 1);
			ck_assert_int_eq((ref.flags & REF_DEADLINE) != 0, t->deadline[i] != 0);
			ck_assert_int_eq((ref.flags & REF_DUE) != 0, t->due[i] != 0);
			at++;
		}
	ck_assert_uint_eq(message.ref_count, at);
	for (unsigned i = 0; i < 2 * TIMED_REFS; i++) {
		uint64_t time = i < TIMED_REFS ? t->deadline[i] : t->due[i - TIMED_REFS];

		if (!t->open[i % TIMED_REFS] || time == 0)
			continue;
		ck_assert_uint_eq(le64_load(times), time);
		times += 8;
	}
	return 0;
}

START_TEST(test_times_and_extensions_are_kept)
{
	uint32_t queues[TIMED_REFS];
	unsigned merged = 0;

	merge_small_files(&f, 1, false);
	for (unsigned i = 0; i < TIMED_REFS; i++)
		queues[i] = store_fixture_queue(&f);
	for (unsigned i = 0; i < TIMED; i++)
		publish_timed(i, queues);
	for (unsigned i = 0; i < TIMED; i++)
		for (unsigned n = 0; n < TIMED_REFS; n++) {
			struct stored_place place = {
				.lsn = timed[i].lsn, .share = 300, .body_size = timed[i].body_size};

			if ((i / 3 + n) % 3 == 0)
				continue;
			timed[i].open[n] = false;
			store_ack(f.store, f.ledger.queues[queues[n]].log, i + 1, &place,
				  ACK_CONSUMED);
		}
	store_fixture_flush(&f);
	merge_rest(&f);
	for (size_t i = 0; i < f.store->segment_count; i++) {
		const struct segment *segment = f.store->segments[i];
		uint64_t offset = SEGMENT_HEADER_SIZE;
		unsigned number = 0;
		struct scan scan;

		if (segment->generation == 0)
			continue;
		ck_assert_int_eq(scan_open(&scan, &f.sim->disk, segment->id), 0);
		scan.salt = segment->salt;
		ck_assert_int_eq(scan_records(&scan, &offset, segment->end, check_timed, &number),
				 0);
		scan_close(&scan);
		merged++;
	}
	ck_assert_uint_gt(merged, 0);
	/* the ledger knows nothing of these */
	store_fixture_kill(&f);
}
END_TEST

/* ---- large ones ---- */

static void
publish_together(uint32_t queue, unsigned count, uint32_t size)
{
	for (unsigned i = 0; i < count; i++)
		store_fixture_publish(&f, &queue, 1, size);
	store_fixture_flush(&f);
}

START_TEST(test_a_pair_that_does_not_fit_leaves_the_worst_file_alone)
{
	uint32_t queue;
	uint64_t end;
	size_t big = 0;

	merge_small_files(&f, 1, false);
	queue = store_fixture_queue(&f);
	publish_together(queue, 12, 2000);
	/* one batch that is larger than a file */
	publish_together(queue, 60, 3000);
	publish_together(queue, 12, 2000);
	publish_together(queue, 12, 2000);
	for (size_t i = 12; i < 72; i++)
		if (i % 4 != 0)
			store_fixture_ack(&f, i, 0, ACK_CONSUMED);
	store_fixture_flush(&f);
	while (f.store->segments[big]->end < 100000)
		ck_assert_uint_lt(++big, f.store->segment_count);
	end = f.store->segments[big]->end;
	merge_rest(&f);
	ck_assert_uint_eq(f.store->segments[big]->generation, 1);
	ck_assert_uint_eq(f.store->segments[big]->swallowed, 0);
	ck_assert_uint_lt(f.store->segments[big]->end, end / 2);
	ck_assert_uint_eq(recount_merged(&f, true), 1);
	reopen_in_both_ways();
}
END_TEST

START_TEST(test_a_file_of_one_large_record)
{
	uint32_t queues[3];
	size_t large;

	merge_small_files(&f, 1, false);
	for (unsigned i = 0; i < 3; i++)
		queues[i] = store_fixture_queue(&f);
	publish_each(&f, queues[0], 12, 1000);
	large = store_fixture_publish(&f, queues, 3, 120000);
	store_fixture_flush(&f);
	publish_each(&f, queues[0], 30, 1000);
	/* it has one reference left */
	store_fixture_ack(&f, large, 0, ACK_CONSUMED);
	store_fixture_ack(&f, large, 2, ACK_CONSUMED);
	merge_rest(&f);
	ck_assert_uint_gt(recount_merged(&f, true), 0);
	store_fixture_check(&f);
	reopen_in_both_ways();
	large = 0;
	while (f.ledger.messages[large].body_size < 120000)
		large++;
	settle_from(&f, large, 0);
	merge_rest(&f);
	publish_each(&f, queues[0], 30, 1000);
	merge_rest(&f);
	for (size_t i = 0; i < f.store->segment_count; i++)
		ck_assert_uint_lt(f.store->segments[i]->end, 100000);
	reopen_in_both_ways();
}
END_TEST

/* ---- while it goes on ---- */

/* Files of several MiB, so that the copy has several steps; settles something between any two. */
START_TEST(test_marks_that_come_between_two_steps)
{
	uint32_t queue;
	unsigned steps = 0;

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
	while (f.store->merge_state == MERGE_COPYING) {
		merge_turn(&f);
		ck_assert(settle_one(&f));
		store_fixture_check(&f);
		steps++;
	}
	ck_assert_uint_gt(steps, 3);
	merge_rest(&f);
	ck_assert_uint_gt(recount_merged(&f, false), 0);
	store_fixture_check(&f);
	reopen_in_both_ways();
}
END_TEST

enum event {
	SETTLES,
	DROPS,
	PURGES,
	READS,
	EVENTS
};

static void
happen(enum event event, uint32_t queue)
{
	switch (event) {
	case SETTLES:
		for (unsigned i = 0; i < 4; i++)
			settle_one(&f);
		break;
	case DROPS:
		store_fixture_drop(&f, queue);
		break;
	case PURGES:
		store_fixture_evict(&f, queue, 5);
		store_fixture_purge(&f, queue);
		break;
	default:
		store_fixture_evict(&f, queue, 1);
		store_fixture_read(&f, queue, 3, 1000000);
		break;
	}
}

/* The state ends when the mail that it waits for is there: what happens now comes in between. */
static void
check_event(enum merge_state state, enum event event, bool helped)
{
	uint32_t queue;

	merge_small_files(&f, (uint64_t)state * EVENTS + event, true);
	queue = make_garbage(&f);
	merge_reach(&f, state);
	/* the helper has done its part, and nobody knows */
	if (helped)
		store_fixture_index_and_help(&f);
	happen(event, queue);
	store_fixture_check(&f);
	merge_rest(&f);
	if (event == READS)
		store_fixture_read_out(&f, queue, 3, 1000000);
	store_fixture_check(&f);
	ck_assert_uint_gt(recount_merged(&f, event == READS), 0);
	check_files(&f);
	reopen_in_both_ways();
	store_fixture_fini(&f);
}

START_TEST(test_whatever_happens_in_any_state)
{
	for (enum merge_state state = MERGE_LISTING; state <= MERGE_COPYING; state++)
		for (enum event event = 0; event < EVENTS; event++)
			for (unsigned helped = 0; helped < 2; helped++)
				check_event(state, event, helped == 1);
	f.sim = NULL;
}
END_TEST

/* Reads that are in the helper's mail before and behind the step that renames, of one source, of the other,
 * of both: nothing is missed, nothing comes twice (the fixture says so). */
START_TEST(test_reads_about_the_renaming)
{
	for (unsigned skip = 0; skip < 30; skip++)
		for (unsigned behind = 0; behind < 2; behind++) {
			uint32_t queue;

			merge_small_files(&f, skip, true);
			queue = make_garbage(&f);
			merge_reach(&f, MERGE_MARKED);
			store_fixture_evict(&f, queue, 1);
			/* so far it was read when the copy begins */
			for (unsigned i = 0; i < skip; i++) {
				store_fixture_read(&f, queue, 1, 1000000);
				store_fixture_index_and_help(&f);
				store_receive(f.store);
			}
			if (behind == 0)
				store_fixture_read(&f, queue, 2, 1000000);
			merge_reach(&f, MERGE_COPYING);
			if (behind == 1)
				store_fixture_read(&f, queue, 2, 1000000);
			merge_rest(&f);
			ck_assert_uint_gt(merged_segments(&f), 0);
			store_fixture_read_out(&f, queue, 7, 1000000);
			store_fixture_check(&f);
			store_fixture_fini(&f);
		}
	f.sim = NULL;
}
END_TEST

/* The index of the new file takes long, and so does it to let the old ones go. The helper, which reads wait for, has no
 * part in that. */
START_TEST(test_reads_do_not_wait_for_what_takes_long)
{
	uint32_t queue;

	merge_small_files(&f, 1, true);
	queue = make_garbage(&f);
	merge_reach(&f, MERGE_COPYING);
	while (f.store->merge->step == MERGE_STEP_COPY) {
		ck_assert(store_fixture_help(&f));
		store_receive(f.store);
		ck_assert_ptr_nonnull(f.store->merge);
	}
	ck_assert_int_eq(f.store->merge->step, MERGE_STEP_INDEX);
	store_fixture_evict(&f, queue, 1);
	f.read_ends = 0;
	store_fixture_read(&f, queue, 3, 1000000);
	store_fixture_help(&f);
	store_receive(f.store);
	ck_assert_uint_eq(f.read_ends, 1);
	ck_assert_int_eq(f.store->merge->step, MERGE_STEP_INDEX);
	ck_assert(store_fixture_index(&f));
	store_receive(f.store);
	ck_assert_int_eq(f.store->merge->step, MERGE_STEP_NAME);
	ck_assert(store_fixture_help(&f));
	ck_assert_ptr_nonnull(f.store->merge->sources[0].held);
	store_receive(f.store);
	ck_assert_uint_gt(merged_segments(&f), 0);
	ck_assert(store_fixture_index(&f));
	merge_rest(&f);
	ck_assert_uint_gt(merged_segments(&f), 0);
	store_fixture_read_out(&f, queue, 7, 1000000);
	store_fixture_check(&f);
}
END_TEST

/* ---- when ---- */

static void
check_nothing_happens(void)
{
	uint64_t lsn = store_fixture_last_lsn(&f);
	uint64_t changes = f.sim->changes;

	for (unsigned i = 0; i < 50; i++)
		merge_turn(&f);
	ck_assert_uint_eq(store_fixture_last_lsn(&f), lsn);
	ck_assert_uint_eq(f.sim->changes, changes);
	ck_assert_uint_eq(merged_segments(&f), 0);
	ck_assert_uint_eq(store_due_ms(f.store), UINT64_MAX);
}

START_TEST(test_less_garbage_than_half_is_left)
{
	merge_small_files(&f, 1, false);
	publish_each(&f, store_fixture_queue(&f), 60, 1000);
	/* batches are filled up to 512 octets: more than a third of each file is none of a message */
	for (size_t i = 0; i < 6; i++)
		store_fixture_ack(&f, i * 5, 0, ACK_CONSUMED);
	store_fixture_flush(&f);
	merge_rest(&f);
	check_nothing_happens();
	settle_from(&f, 0, 3);
	merge_rest(&f);
	ck_assert_uint_gt(merged_segments(&f), 0);
}
END_TEST

START_TEST(test_fewer_than_three_files_are_left)
{
	merge_small_files(&f, 1, false);
	publish_each(&f, store_fixture_queue(&f), 10, 1000);
	ck_assert_uint_le(f.store->segment_count, 2);
	settle_from(&f, 0, 5);
	store_fixture_flush(&f);
	merge_rest(&f);
	ck_assert_uint_le(f.store->segment_count, 2);
	check_nothing_happens();
}
END_TEST

/* Nobody does anything: the store asks to be called, and nothing but that and its own mail makes it go on. */
START_TEST(test_an_idle_store_is_merged)
{
	uint64_t used;
	uint64_t lsn;

	merge_small_files(&f, 1, false);
	make_garbage(&f);
	used = disk_used(&f);
	ck_assert_uint_eq(f.store->checkpoints.count, 0);
	lsn = store_fixture_last_lsn(&f);
	for (unsigned i = 0;; i++) {
		uint64_t due;

		ck_assert_uint_lt(i, MERGE_ROUNDS);
		store_fixture_submit(&f, false);
		if (store_fixture_work(&f))
			continue;
		due = store_due_ms(f.store);
		if (due == UINT64_MAX)
			break;
		/* it must not turn round and round */
		ck_assert_uint_gt(due, f.now.monotonic_ms);
		f.now.monotonic_ms = due;
	}
	ck_assert_uint_gt(merged_segments(&f), 0);
	ck_assert_int_eq(f.store->merge_state, MERGE_IDLE);
	/* the checkpoints had something to name them */
	ck_assert_uint_gt(store_fixture_last_lsn(&f), lsn);
	ck_assert_uint_le(store_fixture_last_lsn(&f), lsn + 20);
	ck_assert_uint_lt(disk_used(&f), used / 2);
	reopen_in_both_ways();
}
END_TEST

/* ---- how much ---- */

static uint64_t
live_records(void)
{
	uint64_t live = 0;

	for (size_t i = 0; i < f.ledger.message_count; i++)
		if (has_open(&f, i))
			live += f.ledger.messages[i].record_size;
	return live;
}

/* Queues of which one is slow; what the disk has follows what is live, not what came. */
static void
check_bound(bool cold, unsigned keep)
{
	uint64_t worst = 0;
	uint32_t queue;

	merge_small_files(&f, keep, cold);
	store_fixture_close(&f, true);
	f.options.file_size = 128 * 1024;
	f.options.checkpoint_size = 256 * 1024;
	ck_assert_int_eq(store_fixture_open(&f), 0);
	queue = store_fixture_queue(&f);
	for (unsigned round = 0; round < 150; round++) {
		size_t first = f.ledger.message_count;
		uint64_t used;
		uint64_t live;

		for (unsigned i = 0; i < 20; i++)
			store_fixture_publish(&f, &queue, 1,
					      100 + (uint32_t)store_fixture_random(&f, 3000));
		store_fixture_flush(&f);
		settle_from(&f, first, keep);
		/* what was slow is done with one day */
		if (round % 50 == 49)
			settle_from(&f, 0, 3 * keep);
		merge_rest(&f);
		used = disk_used(&f);
		live = live_records();
		ck_assert_msg(used <= live * 22 / 10 + 8 * f.options.file_size,
			      "round %u: %llu octets for %llu", round, (unsigned long long)used,
			      (unsigned long long)live);
		worst = max_u64(worst, used - min_u64(used, live * 22 / 10));
	}
	printf("merge: 1 of %u is kept: %llu octets live, the disk has 2.2 times that and at most "
	       "%llu files more; %llu octets written by merges\n",
	       keep, (unsigned long long)live_records(),
	       (unsigned long long)(worst / f.options.file_size),
	       (unsigned long long)f.store->merged_octets);
	store_fixture_check(&f);
	reopen_in_both_ways();
	store_fixture_fini(&f);
	f.sim = NULL;
}

START_TEST(test_the_disk_follows_what_is_live)
{
	check_bound(false, 10);
	check_bound(false, 3);
	check_bound(true, 50);
}
END_TEST

TESTS_WITH("merge", NULL, tear_down, test_open_references_are_kept_and_no_others,
	   test_a_dropped_queue_is_left_out, test_merged_files_are_merged_again,
	   test_a_file_without_anything_open_goes, test_times_and_extensions_are_kept,
	   test_a_pair_that_does_not_fit_leaves_the_worst_file_alone,
	   test_a_file_of_one_large_record, test_marks_that_come_between_two_steps,
	   test_whatever_happens_in_any_state, test_reads_about_the_renaming,
	   test_reads_do_not_wait_for_what_takes_long, test_less_garbage_than_half_is_left,
	   test_fewer_than_three_files_are_left, test_an_idle_store_is_merged,
	   test_the_disk_follows_what_is_live)
