/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/disk_sim_state.h"

#include <stdio.h>

#include "util/mem.h"

#define ENDLESS ((uint64_t)1 << 50) // free octets of a disk without a limit

/* Blobs */

static struct sim_blob *
blob_new(size_t room)
{
	struct sim_blob *blob = xmalloc(sizeof(*blob) + room);

	atomic_init(&blob->refs, 1);
	blob->n = 0;
	blob->room = room;
	return blob;
}

void
sim_blob_unref(struct sim_blob **blob)
{
	if (*blob != NULL && atomic_fetch_sub(&(*blob)->refs, 1) == 1)
		xfree(*blob);
	*blob = NULL;
}

struct sim_blob *
sim_blob_ref(struct sim_blob *blob)
{
	if (blob != NULL)
		atomic_fetch_add(&blob->refs, 1);
	return blob;
}

size_t
sim_blob_n(const struct sim_blob *blob)
{
	return blob != NULL ? blob->n : 0;
}

void
sim_blob_read(const struct sim_blob *blob, void *p, size_t n, uint64_t at)
{
	size_t whole = sim_blob_n(blob);
	size_t there = at < whole ? (size_t)min_u64(n, whole - at) : 0;

	if (there > 0)
		memcpy(p, blob->data + at, there);
	if (there < n)
		memset((char *)p + there, 0, n - there);
}

/* Makes it a blob with that room that nobody else sees. */
static void
blob_own(struct sim_blob **blob, size_t room)
{
	struct sim_blob *old = *blob;

	if (old != NULL && old->room >= room && atomic_load(&old->refs) == 1)
		return;
	room = max_u64(room, 64);
	if (old != NULL && room > old->room)
		room = max_u64(room, old->room + old->room / 2);
	*blob = blob_new(room);
	if (old != NULL) {
		memcpy((*blob)->data, old->data, old->n);
		(*blob)->n = old->n;
	}
	sim_blob_unref(&old);
}

void
sim_blob_write(struct sim_blob **blob, const void *p, size_t n, uint64_t at)
{
	size_t end = (size_t)at + n;

	blob_own(blob, max_u64(end, sim_blob_n(*blob)));
	if (at > (*blob)->n)
		memset((*blob)->data + (*blob)->n, 0, (size_t)at - (*blob)->n);
	if (n > 0)
		memcpy((*blob)->data + at, p, n);
	(*blob)->n = max_u64((*blob)->n, end);
}

void
sim_blob_cut(struct sim_blob **blob, uint64_t n)
{
	if (sim_blob_n(*blob) <= n)
		return;
	blob_own(blob, (*blob)->n);
	(*blob)->n = (size_t)n;
}

/* Inodes */

struct sim_change *
sim_changes(const struct sim_inode *inode, size_t *n)
{
	*n = sim_blob_n(inode->changes) / sizeof(struct sim_change);
	return inode->changes != NULL ? (void *)inode->changes->data : NULL;
}

uint32_t
sim_inode_new(struct sim_state *state, bool folder)
{
	size_t i = 0;

	while (i < state->inode_count && state->inodes[i].used)
		i++;
	if (i == state->inode_room) {
		state->inode_room = state->inode_room * 2 + 8;
		state->inodes = xrealloc(state->inodes, state->inode_room * sizeof(*state->inodes));
	}
	if (i == state->inode_count)
		state->inode_count++;
	state->inodes[i] = (struct sim_inode){.used = true, .folder = folder};
	return (uint32_t)i;
}

static void
inode_free(struct sim_inode *inode)
{
	sim_blob_unref(&inode->now);
	sim_blob_unref(&inode->durable);
	sim_blob_unref(&inode->changes);
	inode->used = false;
}

/* Marks what names and open files lead to. */
static void
mark(const struct sim_state *state, bool *seen, bool synced_too)
{
	struct sim_handle *handle;

	for (size_t i = 0; i < state->now.n; i++)
		seen[state->now.items[i].inode] = true;
	list_for_each (&state->handles, handle, struct sim_handle, link)
		if (handle->inode != SIM_NO_INODE)
			seen[handle->inode] = true;
	for (size_t i = 0; i < state->durable.n && synced_too; i++)
		seen[state->durable.items[i].inode] = true;
	for (size_t i = 0; i < state->op_count && synced_too; i++)
		seen[state->ops[i].inode] = true;
}

void
sim_sweep(struct sim_state *state)
{
	bool *seen = xcalloc(state->inode_count + 1, sizeof(*seen));

	mark(state, seen, true);
	for (size_t i = 0; i < state->inode_count; i++)
		if (state->inodes[i].used && !seen[i])
			inode_free(&state->inodes[i]);
	xfree(seen);
}

void
sim_note_change(struct sim_state *state, struct sim_inode *inode, uint64_t sector)
{
	struct sim_change change = {.sector = sector, .order = ++state->order};

	sim_blob_read(inode->now, change.image, SIM_SECTOR, sector * SIM_SECTOR);
	sim_blob_write(&inode->changes, &change, sizeof(change), sim_blob_n(inode->changes));
}

void
sim_note_size(struct sim_inode *inode, uint64_t size)
{
	if (size == inode->size)
		return;
	inode->size = size;
	inode->size_min = min_u64(inode->size_min, size);
	inode->size_max = max_u64(inode->size_max, size);
	inode->size_dirty = true;
}

/* Saves the changes that no sync failed for; they outdate the failed ones of the same sector. */
void
sim_save_changes(struct sim_inode *inode)
{
	struct sim_blob *rest = NULL;
	size_t n;
	struct sim_change *changes = sim_changes(inode, &n);

	for (size_t i = 0; i < n; i++)
		if (!changes[i].failed)
			sim_blob_write(&inode->durable, changes[i].image, SIM_SECTOR,
				       changes[i].sector * SIM_SECTOR);
	for (size_t i = 0; i < n && changes[0].failed; i++) {
		bool outdated = !changes[i].failed;

		for (size_t k = i + 1; k < n && !outdated; k++)
			outdated = !changes[k].failed && changes[k].sector == changes[i].sector;
		if (!outdated)
			sim_blob_write(&rest, &changes[i], sizeof(changes[i]), sim_blob_n(rest));
	}
	sim_blob_unref(&inode->changes);
	inode->changes = rest;
	if (inode->size_dirty)
		inode->durable_size = inode->size_min = inode->size_max = inode->size;
	inode->size_dirty = false;
}

/* The kernel calls the pages clean now: they may be on the disk or not, and stay so. */
void
sim_give_changes_up(struct sim_inode *inode)
{
	size_t n;
	struct sim_change *changes;

	/* Writing nothing makes the changes ours alone. */
	if (inode->changes != NULL)
		sim_blob_write(&inode->changes, NULL, 0, 0);
	changes = sim_changes(inode, &n);
	for (size_t i = 0; i < n; i++)
		changes[i].failed = true;
	inode->size_dirty = false;
}

/* Names */

struct sim_name *
sim_name_find(const struct sim_names *names, const char *path)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->items[i].path, path) == 0)
			return &names->items[i];
	return NULL;
}

void
sim_name_set(struct sim_names *names, const char *path, uint32_t inode)
{
	struct sim_name *name = sim_name_find(names, path);

	if (name == NULL) {
		if (names->n == names->room) {
			names->room = names->room * 2 + 8;
			names->items = xrealloc(names->items, names->room * sizeof(*names->items));
		}
		name = &names->items[names->n++];
		snprintf(name->path, sizeof(name->path), "%s", path);
	}
	name->inode = inode;
}

void
sim_name_remove(struct sim_names *names, struct sim_name *name)
{
	*name = names->items[--names->n];
}

bool
sim_in_folder(const char *path, const char *folder)
{
	const char *slash = strchr(path, '/');
	size_t n = slash != NULL ? (size_t)(slash - path) : 0;

	return strlen(folder) == n && memcmp(path, folder, n) == 0;
}

bool
sim_folder_exists(const struct sim_names *names, const char *path)
{
	if (strchr(path, '/') == NULL)
		return true;
	for (size_t i = 0; i < names->n; i++)
		if (sim_in_folder(path, names->items[i].path))
			return true;
	return false;
}

void
sim_op_apply(struct sim_names *names, const struct sim_op *op)
{
	for (size_t i = names->n; i > 0; i--)
		if (names->items[i - 1].inode == op->inode)
			sim_name_remove(names, &names->items[i - 1]);
	if (op->to[0] != '\0')
		sim_name_set(names, op->to, op->inode);
}

void
sim_note_op(struct sim_state *state, const char *from, const char *to, uint32_t inode)
{
	struct sim_op *op;

	if (state->op_count == state->op_room) {
		state->op_room = state->op_room * 2 + 8;
		state->ops = xrealloc(state->ops, state->op_room * sizeof(*state->ops));
	}
	op = &state->ops[state->op_count++];
	*op = (struct sim_op){.inode = inode, .order = ++state->order};
	snprintf(op->from, sizeof(op->from), "%s", from);
	snprintf(op->to, sizeof(op->to), "%s", to);
	sim_op_apply(&state->now, op);
}

/* Whether a sync of the folder saves the operation: a rename between folders goes with its new name. */
bool
sim_op_is_in(const struct sim_op *op, const char *folder)
{
	return sim_in_folder(op->to[0] != '\0' ? op->to : op->from, folder);
}

static bool
touches(const struct sim_op *op, const char *path)
{
	return path[0] != '\0' && (strcmp(op->from, path) == 0 || strcmp(op->to, path) == 0);
}

/* An operation is not saved without the earlier ones of its names, whatever their folder: they are in the
 * journal before it, and a rename would be half done. */
void
sim_save_names(struct sim_state *state, const char *folder)
{
	bool *save = xcalloc(state->op_count + 1, sizeof(*save));
	size_t rest = 0;

	for (size_t i = state->op_count; i > 0; i--) {
		const struct sim_op *op = &state->ops[i - 1];

		if (sim_op_is_in(op, folder) && !op->failed)
			save[i - 1] = true;
		for (size_t k = 0; k < i - 1 && save[i - 1]; k++)
			if (touches(&state->ops[k], op->from) || touches(&state->ops[k], op->to))
				save[k] = true;
	}
	for (size_t i = 0; i < state->op_count; i++) {
		if (save[i])
			sim_op_apply(&state->durable, &state->ops[i]);
		else
			state->ops[rest++] = state->ops[i];
	}
	state->op_count = rest;
	xfree(save);
	sim_sweep(state);
}

/* Octets that may still be reserved. */
uint64_t
sim_space_left(struct disk_sim *sim)
{
	struct sim_state *state = sim->state;
	bool *seen;
	uint64_t used = 0;

	if (sim->capacity == 0)
		return ENDLESS;
	seen = xcalloc(state->inode_count + 1, sizeof(*seen));
	mark(state, seen, false);
	for (size_t i = 0; i < state->inode_count; i++)
		used += seen[i] ? state->inodes[i].backed : 0;
	xfree(seen);
	return used < sim->capacity ? sim->capacity - used : 0;
}

/* The whole */

struct disk_sim *
disk_sim_new(void)
{
	struct disk_sim *sim = xcalloc(1, sizeof(*sim));
	pthread_mutexattr_t recursive;

	sim->disk.ops = &sim_disk_ops;
	sim->state = xcalloc(1, sizeof(*sim->state));
	list_init(&sim->state->handles);
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&sim->state->lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
	return sim;
}

void
disk_sim_free(struct disk_sim **sim)
{
	struct sim_state *state = *sim != NULL ? (*sim)->state : NULL;
	struct sim_handle *handle;

	if (state == NULL)
		return;
	list_for_each_safe (&state->handles, handle, struct sim_handle, link) {
		assert(handle->inode == SIM_NO_INODE); /* else a file is still open */
		xfree(handle);
	}
	for (size_t i = 0; i < state->inode_count; i++)
		if (state->inodes[i].used)
			inode_free(&state->inodes[i]);
	xfree(state->inodes);
	xfree(state->now.items);
	xfree(state->durable.items);
	xfree(state->ops);
	pthread_mutex_destroy(&state->lock);
	xfree(state);
	xfree(*sim);
	*sim = NULL;
}

static struct sim_names
names_copy(const struct sim_names *names)
{
	return (struct sim_names){xmemdup(names->items, names->n * sizeof(*names->items)), names->n,
				  names->n};
}

struct disk_sim *
disk_sim_clone(struct disk_sim *sim)
{
	struct disk_sim *clone = disk_sim_new();
	struct sim_state *from = sim->state, *to = clone->state;

	sim_lock(sim);
	clone->capacity = sim->capacity;
	to->inodes = xmemdup(from->inodes, from->inode_count * sizeof(*from->inodes));
	to->inode_count = to->inode_room = from->inode_count;
	for (size_t i = 0; i < to->inode_count; i++) {
		struct sim_inode *inode = &to->inodes[i];

		if (!inode->used)
			continue;
		sim_blob_ref(inode->now);
		sim_blob_ref(inode->durable);
		sim_blob_ref(inode->changes);
	}
	to->now = names_copy(&from->now);
	to->durable = names_copy(&from->durable);
	to->ops = xmemdup(from->ops, from->op_count * sizeof(*from->ops));
	to->op_count = to->op_room = from->op_count;
	to->order = from->order;
	sim_unlock(sim);
	sim_sweep(to);
	return clone;
}

void
sim_lock(struct disk_sim *sim)
{
	pthread_mutex_lock(&sim->state->lock);
}

void
sim_unlock(struct disk_sim *sim)
{
	pthread_mutex_unlock(&sim->state->lock);
}
