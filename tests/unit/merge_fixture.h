/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of merges share: files of one queue's messages that are filled and emptied, turns until
 * nothing is merged any more, and what must be true of the files of a store at any time.
 */
#pragma once

#include <stdio.h>

#include "store/merge.h"
#include "store/spare.h"

#include "lib/store_fixture.h"

#define MERGE_ROUNDS 2000

/* One turn with what the threads have to do, a while after the last one: checkpoints may not come too
 * often. Whether anything is going on. */
static inline bool
merge_turn(struct store_fixture *f)
{
	bool any;

	f->now.monotonic_ms += 1000;
	store_fixture_submit(f, false);
	any = store_fixture_work(f);
	return any || f->store->merge_state != MERGE_IDLE || f->store->checkpoints.forced ||
	       f->store->checkpoints.writing || f->ledger.stable != store_fixture_last_lsn(f);
}

/* Turns until nothing is going on; fails the test when that does not come. */
static inline void
merge_rest(struct store_fixture *f)
{
	unsigned quiet = 0;

	for (unsigned i = 0; quiet < 3; i++) {
		expect(i < MERGE_ROUNDS, "the store does not come to rest");
		quiet = merge_turn(f) ? 0 : quiet + 1;
		must(!f->failed);
	}
}

/* Turns until the merge is in this state; fails the test when it never is. */
static inline void
merge_reach(struct store_fixture *f, enum merge_state state)
{
	for (unsigned i = 0; f->store->merge_state != state; i++) {
		expect(i < MERGE_ROUNDS, "no merge comes to state %d", (int)state);
		merge_turn(f);
		must(!f->failed);
	}
}

struct file_count {
	size_t segments;
	size_t others;
};

static inline void
count_file(void *context, const char *name)
{
	struct file_count *count = context;
	size_t n = strlen(name);

	if (n > 4 && strcmp(name + n - 4, ".seg") == 0)
		count->segments++;
	else
		count->others++;
}

static inline struct file_count
count_files(struct store_fixture *f)
{
	struct file_count count = {0};
	int error = disk_list(&f->sim->disk, "log", count_file, &count);

	must(error == 0);
	return count;
}

/* Every file of the log is a segment of the store, which has nothing to do, the next one or a spare one. */
static inline void
check_files(struct store_fixture *f)
{
	struct file_count count = count_files(f);
	size_t known = f->store->segment_count + (f->store->next != NULL);

	expect(count.others == f->store->spares->count, "%zu files are left over, %zu are spare",
	       count.others, f->store->spares->count);
	expect(count.segments == known, "there are %zu files of %zu segments", count.segments,
	       known);
}

/* Whether the message has an open reference. */
static inline bool
has_open(const struct store_fixture *f, size_t message)
{
	const struct ledger_message *m = &f->ledger.messages[message];

	for (uint32_t n = 0; n < m->ref_count; n++)
		if (m->refs[n].settled == 0 && f->ledger.queues[m->refs[n].queue].log != NULL)
			return true;
	return false;
}

/* ---- files that are mostly garbage ---- */

/* Small files, each checkpoint only when it is asked for. */
static inline void
merge_small_files(struct store_fixture *f, uint64_t seed, bool cold)
{
	store_fixture_init(f, seed);
	f->cold = cold;
	f->push = PUSH_NONE;
	f->options.file_size = 32 * 1024;
	f->options.buffer_size = 4096;
	f->options.checkpoint_size = 1024 * 1024 * 1024;
	expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
}

/* Publishes and flushes; what was published before is the count returned. */
static inline size_t
publish_each(struct store_fixture *f, uint32_t queue, unsigned count, uint32_t size)
{
	size_t before = f->ledger.message_count;

	for (unsigned i = 0; i < count; i++) {
		store_fixture_publish(f, &queue, 1, size);
		store_fixture_flush(f);
	}
	return before;
}

/* Settles the messages from first on but for one in `keep`; 0: all. */
static inline void
settle_from(struct store_fixture *f, size_t first, unsigned keep)
{
	for (size_t i = first; i < f->ledger.message_count; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++) {
			const struct ledger_ref *ref = &f->ledger.messages[i].refs[n];

			if (ref->settled == 0 && !ref->cold && (keep == 0 || i % keep != 0) &&
			    f->ledger.queues[ref->queue].log != NULL)
				store_fixture_ack(f, i, n, ACK_CONSUMED);
		}
}

/* Some files of one queue, of which one message in four is open, and nothing merged yet. */
static inline uint32_t
make_garbage(struct store_fixture *f)
{
	uint32_t queue = store_fixture_queue(f);
	size_t first = publish_each(f, queue, 100, 1000);

	settle_from(f, first, 4);
	return queue;
}

/* Settles one more message that is in memory; false: there is none. */
static inline bool
settle_one(struct store_fixture *f)
{
	for (size_t i = 0; i < f->ledger.message_count; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++) {
			const struct ledger_ref *ref = &f->ledger.messages[i].refs[n];

			if (ref->settled == 0 && !ref->cold &&
			    f->ledger.queues[ref->queue].log != NULL) {
				store_fixture_ack(f, i, n, ACK_CONSUMED);
				return true;
			}
		}
	return false;
}

static inline size_t
merged_segments(const struct store_fixture *f)
{
	size_t merged = 0;

	for (size_t i = 0; i < f->store->segment_count; i++)
		merged += f->store->segments[i]->generation > 0;
	return merged;
}

/* ---- the disk ---- */

struct file_sizes {
	struct store_fixture *f;
	uint64_t octets;
};

static inline void
add_size(void *context, const char *name)
{
	struct file_sizes *sizes = context;
	char path[SIM_PATH_SIZE];
	struct disk_file *file;
	int64_t size;

	(void)snprintf(path, sizeof(path), "log/%s", name);
	must(disk_open(&sizes->f->sim->disk, path, DISK_READ, &file) == 0);
	size = disk_size(file);
	must(size >= 0);
	sizes->octets += (uint64_t)size;
	disk_close(&file);
}

/* Octets of all files of the log. */
static inline uint64_t
disk_used(struct store_fixture *f)
{
	struct file_sizes sizes = {.f = f};

	must(disk_list(&f->sim->disk, "log", add_size, &sizes) == 0);
	return sizes.octets;
}

/* ---- a recount of merged files ---- */

struct recount {
	struct store_fixture *f;
	bool exact;    // see recount_segment()
	uint64_t refs; // open ones
	uint64_t all_refs;
	uint64_t octets;
	uint64_t lsn;
};

static inline int
recount_record(void *context, const struct record *record)
{
	struct recount *c = context;
	const struct ledger_message *wanted = ledger_message_find(&c->f->ledger, record->lsn);
	struct stored_message stored = {.lsn = record->lsn, .record_size = record->size};
	uint32_t open = 0;

	expect(record->type == RECORD_MESSAGE, "a record of type %d", record->type);
	expect(record->lsn > c->lsn, "LSN %llu is there twice", (unsigned long long)record->lsn);
	c->lsn = record->lsn;
	must(message_record_decode(&stored.record, record) == 0);
	/* settled before a restart, and forgotten */
	if (wanted == NULL && !c->exact)
		return 0;
	must(wanted != NULL);
	ledger_check_content(wanted, &stored);
	for (uint32_t i = 0; i < stored.record.ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(stored.record.refs + i * MESSAGE_REF_SIZE);
		uint32_t n = 0;

		while (c->f->ledger.queues[wanted->refs[n].queue].id != ref.queue_id)
			must(++n < wanted->ref_count);
		must(wanted->refs[n].qseq == ref.qseq);
		open += wanted->refs[n].settled == 0 &&
			c->f->ledger.queues[wanted->refs[n].queue].log != NULL;
	}
	c->refs += open;
	c->all_refs += stored.record.ref_count;
	c->octets += store_share(record->size, stored.record.ref_count) * open;
	return 0;
}

/* What is in the file of a merged segment is what the ledger says, and what the segment says. exact: nothing
 * was settled since the merge took its marks. */
static inline void
recount_segment(struct store_fixture *f, const struct segment *segment, bool exact)
{
	struct recount count = {.f = f, .exact = exact};
	uint64_t offset = SEGMENT_HEADER_SIZE;
	struct scan scan;

	must(scan_open(&scan, &f->sim->disk, segment->id) == 0);
	scan.salt = segment->salt;
	must(scan_records(&scan, &offset, segment->end, recount_record, &count) == 0);
	scan_close(&scan);
	expect(segment->live_refs == count.refs, "segment %llu has %llu open, says %llu",
	       (unsigned long long)segment->id, (unsigned long long)count.refs,
	       (unsigned long long)segment->live_refs);
	/* what was settled unread before a restart is told by averages */
	expect(exact ? segment->live == count.octets
		     : segment->live <= count.octets * 11 / 10 + 100 &&
			       segment->live + 100 >= count.octets * 9 / 10,
	       "segment %llu has %llu octets live, says %llu", (unsigned long long)segment->id,
	       (unsigned long long)count.octets, (unsigned long long)segment->live);
	if (exact)
		must(count.all_refs == count.refs);
}

/* All merged segments; how many there are. */
static inline size_t
recount_merged(struct store_fixture *f, bool exact)
{
	for (size_t i = 0; i < f->store->segment_count; i++)
		if (f->store->segments[i]->generation > 0)
			recount_segment(f, f->store->segments[i], exact);
	return merged_segments(f);
}
