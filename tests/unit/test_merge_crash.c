/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges under the crash simulator (lib/store_crash.h): the machine dies behind every call that a merge,
 * its checkpoints and the removal of files make, while messages are settled, purged and read. Each state is
 * recovered with all messages handed out and with all of them read through the indexes, and once more with
 * the newest checkpoint garbled. Nothing is lost or there twice, and no file is left over.
 */
#include "store/store.h"

#include "lib/runner.h"
#include "lib/store_crash.h"

#include "merge_fixture.h"

#ifdef ADDRESS_SANITIZER
#define HISTORIES 1
#define LEAST_STATES 2000
#else
#define HISTORIES 4
#define LEAST_STATES 12000
#endif

static unsigned long long merges;  // that took their place
static unsigned long long garbled; // states without the newest checkpoint

/* ---- where it dies ---- */

static bool
ends_with(const char *text, const char *end)
{
	size_t n = strlen(text);
	size_t m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static bool
dies_in_merge(const struct store_fixture *f, const struct disk_sim_call *call)
{
	(void)f;
	if (strncmp(call->path, "log", 3) != 0)
		return call->kind == SIM_RENAME || call->kind == SIM_UNLINK;
	return ends_with(call->path, ".tmp") || call->kind == SIM_UNLINK ||
	       call->kind == SIM_RENAME || call->kind == SIM_SYNC_DIR;
}

/* ---- what else is tried with a state ---- */

static char newest[64];
static size_t checkpoints;

static void
note_checkpoint(void *context, const char *name)
{
	(void)context;
	if (ends_with(name, ".tmp"))
		return;
	checkpoints++;
	if (strcmp(newest, name) < 0)
		(void)snprintf(newest, sizeof(newest), "%s", name);
}

/* Damages the newest checkpoint when there is another one. */
static bool
garble_checkpoint(struct store_fixture *f)
{
	char path[80];
	size_t size;
	uint8_t *p;

	newest[0] = '\0';
	checkpoints = 0;
	must(disk_list(&f->sim->disk, "ckpt", note_checkpoint, NULL) == 0);
	if (checkpoints < 2)
		return false;
	(void)snprintf(path, sizeof(path), "ckpt/%s", newest);
	p = disk_sim_content(f->sim, path, &size);
	must(size > 100);
	p[size / 2] ^= 1;
	f->ledger.may_flag = true;
	garbled++;
	return true;
}

static void
open_as(struct store_fixture *f, bool cold)
{
	f->cold = cold;
	for (size_t i = 0; i < f->ledger.message_count && !cold; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++)
			f->ledger.messages[i].refs[n].cold = false;
	expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
	check_files(f);
}

/* Goes on until all that can be merged is, and finds the same again. */
static void
go_on(struct store_fixture *f, bool clean)
{
	merge_rest(f);
	store_fixture_check(f);
	check_files(f);
	if (clean)
		must(store_fixture_close(f, true) == 0);
	else
		store_fixture_crash(f, SIM_NOTHING, 0);
	open_as(f, f->cold);
}

static void
open_in_other_ways(struct store_fixture *f, uint64_t number)
{
	/* the simulator itself opens it as the history does */
	bool cold = !f->cold;

	if (number % 3 == 2 && garble_checkpoint(f))
		cold = number % 2 == 0;
	open_as(f, cold);
	if (number % 8 == 5)
		go_on(f, number % 16 == 5);
}

/* ---- histories ---- */

static void
publish_some(struct store_fixture *f, const uint32_t queues[4])
{
	for (uint64_t n = 4 + store_fixture_random(f, 8); n > 0; n--) {
		uint32_t count = 1 + (uint32_t)store_fixture_random(f, 3);
		uint32_t size = (uint32_t)store_fixture_random(f, 1500);

		store_fixture_publish(f, queues + store_fixture_random(f, 5 - count), count, size);
		if (store_fixture_random(f, 3) == 0)
			store_fixture_flush(f);
	}
	store_fixture_flush(f);
}

/* Settles one in `of` of what is in memory. */
static void
settle_some(struct store_fixture *f, uint64_t of)
{
	for (size_t i = 0; i < f->ledger.message_count; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++) {
			const struct ledger_ref *ref = &f->ledger.messages[i].refs[n];

			if (ref->settled == 0 && !ref->cold &&
			    f->ledger.queues[ref->queue].log != NULL &&
			    store_fixture_random(f, of) == 0)
				store_fixture_ack(f, i, n, ACK_CONSUMED);
		}
}

/* Something that clients do between two steps of a merge. */
static void
disturb(struct store_fixture *f, const uint32_t queues[4])
{
	uint32_t queue = queues[store_fixture_random(f, 4)];

	switch (store_fixture_random(f, 8)) {
	case 0:
		settle_some(f, 8);
		break;
	case 1:
		store_fixture_publish(f, &queue, 1, 300);
		break;
	case 2:
		if (f->cold)
			store_fixture_read(f, queue, 5, 100000);
		break;
	case 3:
		if (f->cold && store_fixture_random(f, 6) == 0)
			store_fixture_purge(f, queue);
		break;
	case 4:
		if (f->cold)
			store_fixture_evict(f, queue, 1);
		break;
	default:
		break;
	}
}

static void
rest_disturbed(struct store_fixture *f, const uint32_t queues[4])
{
	for (unsigned i = 0; i < 60; i++) {
		uint32_t generation = f->store->segments[0]->generation;
		size_t count = f->store->segment_count;

		if (!merge_turn(f) && i > 20)
			break;
		merges += f->store->segment_count < count ||
			  f->store->segments[0]->generation != generation;
		disturb(f, queues);
	}
	merge_rest(f);
	store_fixture_check(f);
	check_files(f);
}

/* Files fill, most of what they have is settled, and they are merged, some of them again and again. */
static void
fill_and_merge(struct store_fixture *f)
{
	uint32_t queues[4];

	f->cold = store_fixture_random(f, 2) == 0;
	f->timed = store_fixture_random(f, 2) == 0;
	f->options.file_size = 12 * 1024;
	f->options.buffer_size = 4096;
	f->options.checkpoint_size = 4096U << store_fixture_random(f, 8);
	expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
	for (size_t i = 0; i < 4; i++)
		queues[i] = store_fixture_queue(f);
	for (unsigned round = 0; round < 3; round++) {
		publish_some(f, queues);
		publish_some(f, queues);
		/* everything comes to memory, and two thirds go */
		for (size_t i = 0; i < 4 && f->cold; i++)
			store_fixture_read_out(f, queues[i], 100, 1000000);
		settle_some(f, 2);
		settle_some(f, 2);
		if (round == 2) {
			store_fixture_drop(f, queues[3]);
			queues[3] = store_fixture_queue(f);
		}
		rest_disturbed(f, queues);
	}
	must(store_fixture_close(f, store_fixture_random(f, 2) == 0) == 0);
	expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
}

START_TEST(test_merges_survive_every_crash)
{
	store_crash_run(&(struct store_crash){
		.name = "merge crash",
		.work = fill_and_merge,
		.histories = HISTORIES,
		.least = LEAST_STATES,
		.all_below = 65,
		.samples = 24,
		.dies = dies_in_merge,
		.also = open_in_other_ways,
	});
	printf("merge crash: each state recovered in two modes; %llu merges, %llu states without "
	       "their newest checkpoint\n",
	       merges, garbled);
	ck_assert_uint_gt(merges, HISTORIES);
	ck_assert_uint_gt(garbled, LEAST_STATES / 10);
}
END_TEST

TESTS("merge_crash", test_merges_survive_every_crash)
