/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a crash leaves. Everything that may go one way or another is asked of pick() in a fixed order:
 * first each directory operation, then for each inode its size and each sector with un-synced versions.
 * Choice 0 is always what was synced, the last choice what is there now.
 */
#include "lib/disk_sim.h"

#include <stdlib.h>

#include "util/mem.h"

#include "lib/disk_sim_state.h"

struct chooser {
	enum disk_sim_survival how;
	uint64_t number;  // what is left of the state's number
	uint64_t random;  // state of the generator
	unsigned percent; // how likely it is that something is kept
	unsigned run;	  // how many neighbours share a fate, on average
	bool keep;	  // the fate of the last one
	uint64_t until;	  // not 0: what was written up to then is kept, the rest lost
	uint64_t states;  // product of all choices, UINT64_MAX when too large
};

/* An un-synced version of a sector, to be sorted. */
struct version {
	uint64_t sector;
	size_t index; // in the changes
};

static uint64_t
next_random(struct chooser *chooser)
{
	uint64_t z = chooser->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* A seed stands for a kind of crash too: hardly anything kept, hardly anything lost, single sectors or
 * long stretches, or all that was written up to a moment. */
static void
chooser_init(struct chooser *chooser, enum disk_sim_survival how, uint64_t number, uint64_t order)
{
	static const unsigned percents[] = {5, 25, 50, 75, 95};
	static const unsigned runs[] = {1, 1, 4, 16};

	*chooser = (struct chooser){.how = how, .number = number, .random = number, .states = 1};
	chooser->percent = percents[next_random(chooser) % countof(percents)];
	chooser->run = runs[next_random(chooser) % countof(runs)];
	chooser->keep = next_random(chooser) % 100 < chooser->percent;
	if (next_random(chooser) % 4 == 0) {
		uint64_t back = next_random(chooser) % 3 == 0 ? order : min_u64(order, 40);

		chooser->until = order + 1 - next_random(chooser) % (back + 1);
	}
}

static uint64_t
pick_random(struct chooser *chooser, uint64_t choices)
{
	if (next_random(chooser) % chooser->run == 0)
		chooser->keep = next_random(chooser) % 100 < chooser->percent;
	if (!chooser->keep)
		return 0;
	return next_random(chooser) % 4 != 0 ? choices - 1
					     : 1 + next_random(chooser) % (choices - 1);
}

static uint64_t
pick(struct chooser *chooser, uint64_t choices)
{
	uint64_t digit;

	assert(choices > 0);
	if (__builtin_mul_overflow(chooser->states, choices, &chooser->states))
		chooser->states = UINT64_MAX;
	if (choices == 1)
		return 0;
	switch (chooser->how) {
	case SIM_NOTHING:
		return 0;
	case SIM_EVERYTHING:
		return choices - 1;
	case SIM_RANDOM:
		return pick_random(chooser, choices);
	case SIM_NTH:
		digit = chooser->number % choices;
		chooser->number /= choices;
		return digit;
	}
	return 0;
}

/* Either end, the smallest and the largest; by luck anything between, at a sector's end rather often. */
static uint64_t
pick_size(struct chooser *chooser, const struct sim_inode *inode)
{
	uint64_t sizes[4] = {inode->durable_size}, n = 1, choice, between;

	if (inode->size_min == inode->size_max)
		return inode->size_max;
	if (inode->size_min < min_u64(inode->durable_size, inode->size))
		sizes[n++] = inode->size_min;
	if (inode->size_max > max_u64(inode->durable_size, inode->size))
		sizes[n++] = inode->size_max;
	if (inode->size != inode->durable_size)
		sizes[n++] = inode->size;
	choice = pick(chooser, n);
	if (chooser->how != SIM_RANDOM || next_random(chooser) % 2 == 0)
		return sizes[choice];
	between = inode->size_min + next_random(chooser) % (inode->size_max - inode->size_min + 1);
	if (next_random(chooser) % 2 == 0)
		between = max_u64(inode->size_min, between - between % SIM_SECTOR);
	return between;
}

static int
compare_versions(const void *a, const void *b)
{
	const struct version *x = a, *y = b;

	if (x->sector != y->sector)
		return x->sector < y->sector ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Puts one of the versions of a sector into the synced content, or none. Equal ones count once. */
static void
crash_sector(struct sim_inode *inode, struct chooser *chooser, const struct version *versions,
	     size_t n)
{
	size_t unused, count = 1;
	const struct sim_change *changes = sim_changes(inode, &unused);
	const uint8_t **images = xmalloc((n + 1) * sizeof(*images));
	uint8_t old[SIM_SECTOR];
	uint64_t choice = 0;

	sim_blob_read(inode->durable, old, SIM_SECTOR, versions[0].sector * SIM_SECTOR);
	images[0] = old;
	for (size_t i = 0; i < n; i++) {
		const struct sim_change *change = &changes[versions[i].index];

		if (memcmp(images[count - 1], change->image, SIM_SECTOR) != 0)
			images[count++] = change->image;
		if (change->order <= chooser->until)
			choice = count - 1;
	}
	if (chooser->how != SIM_RANDOM || chooser->until == 0)
		choice = pick(chooser, count);
	if (choice > 0)
		sim_blob_write(&inode->durable, images[choice], SIM_SECTOR,
			       versions[0].sector * SIM_SECTOR);
	xfree(images);
}

static void
crash_inode(struct sim_inode *inode, struct chooser *chooser)
{
	size_t n, next;
	const struct sim_change *changes = sim_changes(inode, &n);
	uint64_t size = pick_size(chooser, inode);
	struct version *versions = xmalloc((n + 1) * sizeof(*versions));

	for (size_t i = 0; i < n; i++)
		versions[i] = (struct version){changes[i].sector, i};
	qsort(versions, n, sizeof(*versions), compare_versions);
	for (size_t i = 0; i < n; i = next) {
		next = i + 1;
		while (next < n && versions[next].sector == versions[i].sector)
			next++;
		crash_sector(inode, chooser, versions + i, next - i);
	}
	xfree(versions);
	sim_blob_cut(&inode->durable, size);
	sim_blob_unref(&inode->changes);
	sim_blob_unref(&inode->now);
	inode->now = sim_blob_ref(inode->durable);
	inode->size = inode->durable_size = inode->size_min = inode->size_max = size;
	inode->backed = size;
	inode->size_dirty = false;
}

/* A folder that did not survive takes along what was in it. */
static void
drop_orphans(struct sim_names *names)
{
	for (size_t i = names->n; i > 0; i--)
		if (!sim_folder_exists(names, names->items[i - 1].path))
			sim_name_remove(names, &names->items[i - 1]);
}

static void
crash_names(struct sim_state *state, struct chooser *chooser)
{
	for (size_t i = 0; i < state->op_count; i++) {
		const struct sim_op *op = &state->ops[i];
		bool keep = chooser->how == SIM_RANDOM && chooser->until != 0
				    ? op->order <= chooser->until
				    : pick(chooser, 2) == 1;

		if (keep)
			sim_op_apply(&state->durable, op);
	}
	state->op_count = 0;
	drop_orphans(&state->durable);
	xfree(state->now.items);
	state->now.n = state->now.room = state->durable.n;
	state->now.items =
		xmemdup(state->durable.items, state->durable.n * sizeof(*state->durable.items));
}

void
disk_sim_forget(struct disk_sim *sim)
{
	struct sim_handle *handle;

	sim_lock(sim);
	list_for_each (&sim->state->handles, handle, struct sim_handle, link)
		handle->inode = SIM_NO_INODE;
	memset(sim->state->locks, 0, sizeof(sim->state->locks));
	sim_sweep(sim->state);
	sim_unlock(sim);
}

/* The number of states that there were to choose from. */
static uint64_t
crash(struct disk_sim *sim, enum disk_sim_survival how, uint64_t number)
{
	struct sim_state *state = sim->state;
	struct chooser chooser;

	sim_lock(sim);
	disk_sim_forget(sim);
	chooser_init(&chooser, how, number, state->order);
	crash_names(state, &chooser);
	for (size_t i = 0; i < state->inode_count; i++)
		if (state->inodes[i].used && !state->inodes[i].folder)
			crash_inode(&state->inodes[i], &chooser);
	assert(how != SIM_NTH || chooser.number == 0); /* else there is no such state */
	sim_sweep(state);
	memset(state->faults, 0, sizeof(state->faults));
	sim->stop_at = sim->changes = 0;
	sim->stopped = sim->stop_with_effect = false;
	sim->hook = NULL;
	sim->counts = (struct disk_sim_counts){0};
	sim_unlock(sim);
	return chooser.states;
}

void
disk_sim_crash(struct disk_sim *sim, enum disk_sim_survival how, uint64_t number)
{
	crash(sim, how, number);
}

uint64_t
disk_sim_states(struct disk_sim *sim)
{
	struct disk_sim *clone = disk_sim_clone(sim);
	uint64_t states = crash(clone, SIM_NOTHING, 0);

	disk_sim_free(&clone);
	return states;
}

void
disk_sim_fail(struct disk_sim *sim, struct disk_sim_fault fault)
{
	size_t i = 0;

	assert(fault.at > 0);
	assert(fault.error < 0);
	sim_lock(sim);
	while (i < SIM_FAULTS && sim->state->faults[i].at != 0)
		i++;
	assert(i < SIM_FAULTS);
	sim->state->faults[i] = fault;
	sim_unlock(sim);
}

void
disk_sim_clear_faults(struct disk_sim *sim)
{
	sim_lock(sim);
	memset(sim->state->faults, 0, sizeof(sim->state->faults));
	sim_unlock(sim);
}

uint8_t *
disk_sim_content(struct disk_sim *sim, const char *path, size_t *size)
{
	uint8_t *content = NULL;
	struct sim_name *name;

	sim_lock(sim);
	name = sim_name_find(&sim->state->now, path);
	if (name != NULL) {
		struct sim_inode *inode = &sim->state->inodes[name->inode];

		assert(!inode->folder);
		assert(inode->changes == NULL && inode->size_min == inode->size_max);
		*size = (size_t)inode->size;
		sim_blob_unref(&inode->now);
		sim_blob_write(&inode->durable, NULL, 0, inode->size);
		inode->now = sim_blob_ref(inode->durable);
		content = inode->durable->data;
	}
	sim_unlock(sim);
	return content;
}

void
disk_sim_put(struct disk_sim *sim, const char *path, const void *p, size_t n)
{
	struct sim_state *state = sim->state;
	const char *slash = strchr(path, '/');
	struct sim_inode *inode;
	uint32_t number;

	assert(strlen(path) < SIM_PATH_SIZE);
	sim_lock(sim);
	if (slash != NULL && !sim_folder_exists(&state->now, path)) {
		char folder[SIM_PATH_SIZE] = "";

		memcpy(folder, path, (size_t)(slash - path));
		number = sim_inode_new(state, true);
		sim_name_set(&state->now, folder, number);
		sim_name_set(&state->durable, folder, number);
	}
	number = sim_inode_new(state, false);
	sim_name_set(&state->now, path, number);
	sim_name_set(&state->durable, path, number);
	inode = &state->inodes[number];
	sim_blob_write(&inode->durable, p, n, 0);
	inode->now = sim_blob_ref(inode->durable);
	inode->size = inode->durable_size = inode->size_min = inode->size_max = n;
	inode->backed = n;
	sim_sweep(state);
	sim_unlock(sim);
}

size_t
disk_sim_unsynced_sectors(struct disk_sim *sim)
{
	size_t sum = 0, n;

	sim_lock(sim);
	for (size_t i = 0; i < sim->state->inode_count; i++)
		if (sim->state->inodes[i].used) {
			sim_changes(&sim->state->inodes[i], &n);
			sum += n;
		}
	sim_unlock(sim);
	return sum;
}

size_t
disk_sim_unsynced_names(struct disk_sim *sim)
{
	size_t n;

	sim_lock(sim);
	n = sim->state->op_count;
	sim_unlock(sim);
	return n;
}
