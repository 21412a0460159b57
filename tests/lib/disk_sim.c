/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/disk_sim.h"

#include <errno.h>
#include <stdio.h>

#include "util/mem.h"

#include "lib/disk_sim_state.h"

/* How a call goes. */
struct verdict {
	int error;     // 0: it is done; else what it returns
	uint64_t part; // with an error: octets that take effect all the same
};

static struct disk_sim *
sim_of(struct disk *disk)
{
	return container_of(disk, struct disk_sim, disk);
}

static struct sim_handle *
handle_of(struct disk_file *file)
{
	return container_of(file, struct sim_handle, file);
}

/* NULL when a crash came between. */
static struct sim_inode *
inode_of(struct sim_handle *handle)
{
	struct sim_state *state = sim_of(handle->file.disk)->state;

	return handle->inode == SIM_NO_INODE ? NULL : &state->inodes[handle->inode];
}

static void
tell(struct disk_sim *sim, const struct disk_sim_call *call)
{
	if (sim->hook != NULL)
		sim->hook(sim->context, sim, call);
}

static bool
path_matches(const struct disk_sim_call *call, const char *part)
{
	return part == NULL || strstr(call->path, part) != NULL ||
	       (call->to != NULL && strstr(call->to, part) != NULL);
}

/* Counts the faults down; the first one that is due decides. */
static struct verdict
fault_of(struct disk_sim *sim, const struct disk_sim_call *call)
{
	struct verdict verdict = {0};

	for (size_t i = 0; i < SIM_FAULTS; i++) {
		struct disk_sim_fault *fault = &sim->state->faults[i];
		bool kind =
			fault->kind == SIM_ANY ? call->kind < SIM_OPEN : call->kind == fault->kind;

		if (fault->at == 0 || !kind || !path_matches(call, fault->path))
			continue;
		if (fault->at > 1) {
			fault->at--;
			continue;
		}
		if (verdict.error == 0)
			verdict = (struct verdict){fault->error, fault->part};
		if (!fault->for_ever)
			fault->at = 0;
	}
	return verdict;
}

/* Locks the disk until finish() and says whether the call is to be done. */
static struct verdict
begin(struct disk_sim *sim, struct disk_sim_call *call)
{
	sim_lock(sim);
	if (sim->stopped) {
		call->kind = SIM_ANY; /* nobody hears of it */
		return (struct verdict){.error = -EIO};
	}
	sim->counts.calls[call->kind]++;
	if (call->kind < SIM_OPEN)
		sim->changes++;
	call->number = sim->changes;
	tell(sim, call);
	if (call->kind < SIM_OPEN && sim->stop_at != 0 && sim->changes >= sim->stop_at) {
		sim->stopped = true;
		return (struct verdict){-EIO, sim->stop_with_effect ? UINT64_MAX : 0};
	}
	return fault_of(sim, call);
}

static int64_t
finish(struct disk_sim *sim, struct disk_sim_call *call, int64_t result)
{
	call->result = result;
	call->over = true;
	if (call->kind != SIM_ANY)
		tell(sim, call);
	sim_unlock(sim);
	return result;
}

static int
do_open(struct disk_sim *sim, const char *path, enum disk_mode mode, struct disk_file **file)
{
	struct sim_state *state = sim->state;
	struct sim_name *name = sim_name_find(&state->now, path);
	struct sim_handle *handle;
	uint32_t inode;

	if (!sim_folder_exists(&state->now, path) || (name == NULL && mode != DISK_CREATE))
		return -ENOENT;
	if (mode == DISK_CREATE) {
		if (name != NULL)
			return -EEXIST;
		inode = sim_inode_new(state, false);
		sim_note_op(state, "", path, inode);
	} else {
		inode = name->inode;
		if (state->inodes[inode].folder)
			return -EISDIR;
	}
	if (file == NULL)
		return 0;
	handle = xcalloc(1, sizeof(*handle));
	handle->file.disk = &sim->disk;
	handle->writable = mode != DISK_READ;
	handle->inode = inode;
	snprintf(handle->path, sizeof(handle->path), "%s", path);
	list_append(&state->handles, &handle->link);
	*file = &handle->file;
	return 0;
}

static int
sim_open(struct disk *disk, const char *path, enum disk_mode mode, struct disk_file **file)
{
	struct disk_sim *sim = sim_of(disk);
	struct disk_sim_call call = {.kind = mode == DISK_CREATE ? SIM_CREATE : SIM_OPEN,
				     .path = path};
	struct verdict verdict = begin(sim, &call);
	int result = 0;

	assert(strlen(path) < SIM_PATH_SIZE);
	if (verdict.error == 0)
		result = do_open(sim, path, mode, file);
	else if (verdict.part > 0)
		result = do_open(sim, path, mode, NULL);
	return (int)finish(sim, &call, verdict.error != 0 ? verdict.error : result);
}

static void
sim_close(struct disk_file *file)
{
	struct sim_handle *handle = handle_of(file);
	struct disk_sim *sim = sim_of(file->disk);

	sim_lock(sim);
	list_remove(&sim->state->handles, &handle->link);
	xfree(handle);
	sim_sweep(sim->state);
	sim_unlock(sim);
}

static int64_t
do_read(struct sim_handle *handle, void *p, size_t n, uint64_t offset)
{
	struct sim_inode *inode = inode_of(handle);

	if (inode == NULL)
		return -EBADF;
	if (offset >= inode->size)
		return 0;
	n = (size_t)min_u64(n, inode->size - offset);
	sim_blob_read(inode->now, p, n, offset);
	return (int64_t)n;
}

static int64_t
sim_read(struct disk_file *file, void *p, size_t n, uint64_t offset)
{
	struct sim_handle *handle = handle_of(file);
	struct disk_sim *sim = sim_of(file->disk);
	struct disk_sim_call call = {
		.kind = SIM_READ, .path = handle->path, .offset = offset, .n = n};
	struct verdict verdict = begin(sim, &call);

	return finish(sim, &call,
		      verdict.error != 0 ? verdict.error : do_read(handle, p, n, offset));
}

/* Where the disk is full, what fits is written. */
static int
do_write(struct disk_sim *sim, struct sim_handle *handle, const void *p, size_t n, uint64_t offset)
{
	struct sim_inode *inode = inode_of(handle);
	int error = 0;

	if (inode == NULL || !handle->writable)
		return -EBADF;
	if (offset + n > inode->backed) {
		uint64_t end = inode->backed + sim_space_left(sim);

		if (offset + n > end) {
			error = -ENOSPC;
			n = end > offset ? (size_t)(end - offset) : 0;
		}
	}
	if (n == 0)
		return error;
	sim_blob_write(&inode->now, p, n, offset);
	for (uint64_t s = offset / SIM_SECTOR; s <= (offset + n - 1) / SIM_SECTOR; s++)
		sim_note_change(sim->state, inode, s);
	inode->backed = max_u64(inode->backed, offset + n);
	sim_note_size(inode, max_u64(inode->size, offset + n));
	return error;
}

static int
sim_write(struct disk_file *file, const void *p, size_t n, uint64_t offset)
{
	struct sim_handle *handle = handle_of(file);
	struct disk_sim *sim = sim_of(file->disk);
	struct disk_sim_call call = {
		.kind = SIM_WRITE, .path = handle->path, .offset = offset, .n = n};
	struct verdict verdict = begin(sim, &call);
	size_t part = verdict.error == 0 ? n : (size_t)min_u64(n, verdict.part);
	int result = part > 0 ? do_write(sim, handle, p, part, offset) : 0;

	sim->counts.octets_written += part;
	return (int)finish(sim, &call, verdict.error != 0 ? verdict.error : result);
}

static int
sim_sync(struct disk_file *file)
{
	struct sim_handle *handle = handle_of(file);
	struct disk_sim *sim = sim_of(file->disk);
	struct disk_sim_call call = {.kind = SIM_SYNC, .path = handle->path};
	struct verdict verdict = begin(sim, &call);
	struct sim_inode *inode = inode_of(handle);
	int result = verdict.error;

	if (inode == NULL)
		result = -EBADF;
	else if (result != 0)
		sim_give_changes_up(inode);
	else
		sim_save_changes(inode);
	return (int)finish(sim, &call, result);
}

static int
do_allocate(struct disk_sim *sim, struct sim_handle *handle, uint64_t size)
{
	struct sim_inode *inode = inode_of(handle);

	if (inode == NULL || !handle->writable)
		return -EBADF;
	if (size > inode->backed) {
		if (size - inode->backed > sim_space_left(sim))
			return -ENOSPC;
		inode->backed = size;
	}
	sim_note_size(inode, max_u64(inode->size, size));
	return 0;
}

static int
sim_allocate(struct disk_file *file, uint64_t size)
{
	struct sim_handle *handle = handle_of(file);
	struct disk_sim *sim = sim_of(file->disk);
	struct disk_sim_call call = {.kind = SIM_ALLOCATE, .path = handle->path, .offset = size};
	struct verdict verdict = begin(sim, &call);
	int result = 0;

	if (verdict.error == 0 || verdict.part > 0)
		result = do_allocate(sim, handle, size);
	return (int)finish(sim, &call, verdict.error != 0 ? verdict.error : result);
}

/* What is cut off counts as written with zeros: should the file grow again, any of both may be there. */
static int
do_truncate(struct disk_sim *sim, struct sim_handle *handle, uint64_t size)
{
	struct sim_inode *inode = inode_of(handle);
	uint64_t end;

	if (inode == NULL)
		return -EBADF;
	if (!handle->writable)
		return -EINVAL;
	end = sim_blob_n(inode->now);
	if (size < end) {
		sim_blob_cut(&inode->now, size);
		for (uint64_t s = size / SIM_SECTOR; s <= (end - 1) / SIM_SECTOR; s++)
			sim_note_change(sim->state, inode, s);
	}
	inode->backed = min_u64(inode->backed, size);
	sim_note_size(inode, size);
	return 0;
}

static int
sim_truncate(struct disk_file *file, uint64_t size)
{
	struct sim_handle *handle = handle_of(file);
	struct disk_sim *sim = sim_of(file->disk);
	struct disk_sim_call call = {.kind = SIM_TRUNCATE, .path = handle->path, .offset = size};
	struct verdict verdict = begin(sim, &call);
	int result = 0;

	if (verdict.error == 0 || verdict.part > 0)
		result = do_truncate(sim, handle, size);
	return (int)finish(sim, &call, verdict.error != 0 ? verdict.error : result);
}

static int64_t
sim_size(struct disk_file *file)
{
	struct disk_sim *sim = sim_of(file->disk);
	struct sim_inode *inode;
	int64_t size;

	sim_lock(sim);
	inode = inode_of(handle_of(file));
	size = inode != NULL ? (int64_t)inode->size : -EBADF;
	sim_unlock(sim);
	return size;
}

static int
do_rename(struct sim_state *state, const char *from, const char *to)
{
	struct sim_name *name = sim_name_find(&state->now, from);
	struct sim_name *other = sim_name_find(&state->now, to);

	if (name == NULL || !sim_folder_exists(&state->now, to))
		return -ENOENT;
	if (state->inodes[name->inode].folder)
		return -EXDEV; /* the store never moves a folder */
	if (other != NULL && state->inodes[other->inode].folder)
		return -EISDIR;
	if (strcmp(from, to) != 0)
		sim_note_op(state, from, to, name->inode);
	sim_sweep(state);
	return 0;
}

static int
sim_rename(struct disk *disk, const char *from, const char *to)
{
	struct disk_sim *sim = sim_of(disk);
	struct disk_sim_call call = {.kind = SIM_RENAME, .path = from, .to = to};
	struct verdict verdict = begin(sim, &call);
	int result = 0;

	assert(strlen(to) < SIM_PATH_SIZE);
	if (verdict.error == 0 || verdict.part > 0)
		result = do_rename(sim->state, from, to);
	return (int)finish(sim, &call, verdict.error != 0 ? verdict.error : result);
}

static int
do_unlink(struct sim_state *state, const char *path)
{
	struct sim_name *name = sim_name_find(&state->now, path);

	if (name == NULL)
		return -ENOENT;
	if (state->inodes[name->inode].folder)
		return -EISDIR;
	sim_note_op(state, path, "", name->inode);
	sim_sweep(state);
	return 0;
}

static int
sim_unlink(struct disk *disk, const char *path)
{
	struct disk_sim *sim = sim_of(disk);
	struct disk_sim_call call = {.kind = SIM_UNLINK, .path = path};
	struct verdict verdict = begin(sim, &call);
	int result = 0;

	if (verdict.error == 0 || verdict.part > 0)
		result = do_unlink(sim->state, path);
	return (int)finish(sim, &call, verdict.error != 0 ? verdict.error : result);
}

static int
do_sync_dir(struct disk_sim *sim, const char *folder, int error)
{
	struct sim_state *state = sim->state;
	struct sim_name *name = sim_name_find(&state->now, folder);

	if (folder[0] != '\0' && (name == NULL || !state->inodes[name->inode].folder))
		return name == NULL ? -ENOENT : -ENOTDIR;
	if (error == 0)
		sim_save_names(state, folder);
	for (size_t i = 0; i < state->op_count && error != 0; i++)
		if (sim_op_is_in(&state->ops[i], folder))
			state->ops[i].failed = true;
	return error;
}

static int
sim_sync_dir(struct disk *disk, const char *folder)
{
	struct disk_sim *sim = sim_of(disk);
	struct disk_sim_call call = {.kind = SIM_SYNC_DIR, .path = folder};
	struct verdict verdict = begin(sim, &call);

	return (int)finish(sim, &call, do_sync_dir(sim, folder, verdict.error));
}

static int
do_mkdir(struct sim_state *state, const char *folder)
{
	struct sim_name *name = sim_name_find(&state->now, folder);

	if (name != NULL)
		return state->inodes[name->inode].folder ? 0 : -ENOTDIR;
	sim_note_op(state, "", folder, sim_inode_new(state, true));
	return 0;
}

static int
sim_mkdir(struct disk *disk, const char *folder)
{
	struct disk_sim *sim = sim_of(disk);
	struct disk_sim_call call = {.kind = SIM_MKDIR, .path = folder};
	struct verdict verdict = begin(sim, &call);
	int result = 0;

	assert(strlen(folder) < SIM_PATH_SIZE);
	if (verdict.error == 0 || verdict.part > 0)
		result = do_mkdir(sim->state, folder);
	return (int)finish(sim, &call, verdict.error != 0 ? verdict.error : result);
}

static int
do_list(struct sim_state *state, const char *folder, void (*each)(void *context, const char *name),
	void *context)
{
	struct sim_name *name = sim_name_find(&state->now, folder);

	if (folder[0] != '\0' && (name == NULL || !state->inodes[name->inode].folder))
		return name == NULL ? -ENOENT : -ENOTDIR;
	for (size_t i = 0; i < state->now.n; i++) {
		struct sim_name *item = &state->now.items[i];
		const char *slash = strchr(item->path, '/');

		if (sim_in_folder(item->path, folder) && !state->inodes[item->inode].folder)
			each(context, slash != NULL ? slash + 1 : item->path);
	}
	return 0;
}

static int
sim_list(struct disk *disk, const char *folder, void (*each)(void *context, const char *name),
	 void *context)
{
	struct disk_sim *sim = sim_of(disk);
	struct disk_sim_call call = {.kind = SIM_LIST, .path = folder};
	struct verdict verdict = begin(sim, &call);
	int result = verdict.error;

	if (result == 0)
		result = do_list(sim->state, folder, each, context);
	return (int)finish(sim, &call, result);
}

/* The file of a lock is on the disk at once: whether it survives a crash is of no interest. */
static int
do_lock(struct disk_sim *sim, const char *path)
{
	struct sim_state *state = sim->state;
	char *free_place = NULL;

	for (size_t i = 0; i < SIM_LOCKS; i++) {
		if (strcmp(state->locks[i], path) == 0)
			return -EWOULDBLOCK;
		if (state->locks[i][0] == '\0')
			free_place = state->locks[i];
	}
	assert(free_place != NULL);
	if (!sim_folder_exists(&state->now, path))
		return -ENOENT;
	if (sim_name_find(&state->now, path) == NULL)
		disk_sim_put(sim, path, "1\n", 2);
	snprintf(free_place, SIM_PATH_SIZE, "%s", path);
	return 0;
}

static int
sim_lock_file(struct disk *disk, const char *path)
{
	struct disk_sim *sim = sim_of(disk);
	struct disk_sim_call call = {.kind = SIM_LOCK, .path = path};
	struct verdict verdict = begin(sim, &call);
	int result = verdict.error;

	assert(strlen(path) < SIM_PATH_SIZE);
	if (result == 0)
		result = do_lock(sim, path);
	return (int)finish(sim, &call, result);
}

static int64_t
sim_free_space(struct disk *disk)
{
	struct disk_sim *sim = sim_of(disk);
	uint64_t space;

	sim_lock(sim);
	space = sim_space_left(sim);
	sim_unlock(sim);
	return (int64_t)space;
}

static void
sim_free(struct disk *disk)
{
	struct disk_sim *sim = sim_of(disk);

	disk_sim_free(&sim);
}

const struct disk_ops sim_disk_ops = {
	.open = sim_open,
	.close = sim_close,
	.read = sim_read,
	.write = sim_write,
	.sync = sim_sync,
	.allocate = sim_allocate,
	.truncate = sim_truncate,
	.size = sim_size,
	.rename = sim_rename,
	.unlink = sim_unlink,
	.sync_dir = sim_sync_dir,
	.mkdir = sim_mkdir,
	.list = sim_list,
	.lock = sim_lock_file,
	.free_space = sim_free_space,
	.free = sim_free,
};
