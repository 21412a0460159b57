/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each file knows its name as the process sees it and the name that its synced content has in the real
 * folder; a sync of the folder makes the second the first (settle).
 *
 * One lock guards names and the list of files, each file has one for its content; the first is taken
 * before the second.
 */
#include "lib/disk_lossy.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/mem.h"

#include "lib/disk_lossy_file.h"

#define HIDDEN ".lossy-"
#define LONGEST_CHAIN 16 // of files that wait for each other's names; longer ones are rings

struct lossy_folder {
	struct list_link link; // in folders
	char name[LOSSY_PATH_SIZE];
	bool real;   // is in the real folder
	bool synced; // was synced when it was not
};

struct lossy_handle {
	struct disk_file file;
	struct lossy_file *to; // counts
	bool writable;
};

struct lossy {
	struct disk disk;
	struct disk *real;    // owns
	pthread_mutex_t lock; // recursive: a list may open what it finds
	struct list files;    // of struct lossy_file: owns
	struct list folders;  // of struct lossy_folder: owns; all but the root
	unsigned serial;      // of the latest hidden name
};

static struct lossy *
lossy_of(struct disk *disk)
{
	return container_of(disk, struct lossy, disk);
}

static struct lossy_handle *
handle_of(struct disk_file *file)
{
	return container_of(file, struct lossy_handle, file);
}

static bool
is_hidden(const char *path)
{
	return strncmp(path, HIDDEN, strlen(HIDDEN)) == 0;
}

static bool
in_folder(const char *path, const char *folder)
{
	const char *slash = strchr(path, '/');
	size_t n = slash != NULL ? (size_t)(slash - path) : 0;

	return path[0] != '\0' && strlen(folder) == n && memcmp(path, folder, n) == 0;
}

static void
path_set(char *to, const char *path)
{
	assert(strlen(path) < LOSSY_PATH_SIZE);
	snprintf(to, LOSSY_PATH_SIZE, "%s", path);
}

static struct lossy_file *
file_find(struct lossy *lossy, const char *name)
{
	struct lossy_file *file;

	list_for_each (&lossy->files, file, struct lossy_file, link)
		if (strcmp(file->name, name) == 0)
			return file;
	return NULL;
}

static struct lossy_folder *
folder_find(struct lossy *lossy, const char *name)
{
	struct lossy_folder *folder;

	list_for_each (&lossy->folders, folder, struct lossy_folder, link)
		if (strcmp(folder->name, name) == 0)
			return folder;
	return NULL;
}

/* The folder that a path lies in; NULL for the root. *exists says whether it is there. */
static struct lossy_folder *
folder_of(struct lossy *lossy, const char *path, bool *exists)
{
	const char *slash = strchr(path, '/');
	char name[LOSSY_PATH_SIZE] = "";
	struct lossy_folder *folder;

	*exists = true;
	if (slash == NULL)
		return NULL;
	memcpy(name, path, (size_t)(slash - path));
	folder = folder_find(lossy, name);
	*exists = folder != NULL;
	return folder;
}

static struct lossy_file *
file_new(struct lossy *lossy, const char *name, const char *real)
{
	struct lossy_file *file = xcalloc(1, sizeof(*file));

	path_set(file->name, name);
	path_set(file->real, real);
	pthread_mutex_init(&file->lock, NULL);
	map_init(&file->pages);
	list_append(&lossy->files, &file->link);
	return file;
}

static void
file_free(struct lossy *lossy, struct lossy_file *file)
{
	assert(file->handles == 0);
	lossy_file_fini(file);
	list_remove(&lossy->files, &file->link);
	xfree(file);
}

static void
folder_new(struct lossy *lossy, const char *name, bool real)
{
	struct lossy_folder *folder = xcalloc(1, sizeof(*folder));

	path_set(folder->name, name);
	folder->real = real;
	list_append(&lossy->folders, &folder->link);
}

/* Forgets the files that have neither a name nor a user. */
static void
reap(struct lossy *lossy)
{
	struct lossy_file *file;

	list_for_each_safe (&lossy->files, file, struct lossy_file, link) {
		if (file->name[0] == '\0' && file->real[0] == '\0' && file->handles == 0)
			file_free(lossy, file);
	}
}

static void
hidden_name(struct lossy *lossy, char *name)
{
	snprintf(name, LOSSY_PATH_SIZE, HIDDEN "%ld-%u", (long)getpid(), ++lossy->serial);
}

static int
lossy_open_new(struct lossy *lossy, const char *path, struct lossy_file **made)
{
	char hidden[LOSSY_PATH_SIZE];
	struct disk_file *open = NULL;
	int error;

	hidden_name(lossy, hidden);
	error = disk_open(lossy->real, hidden, DISK_CREATE, &open);
	if (error != 0)
		return error;
	*made = file_new(lossy, path, hidden);
	(*made)->open = open;
	(*made)->loaded = true;
	return 0;
}

/* Opens the real file and learns its size, unless that was done. */
static int
load(struct lossy *lossy, struct lossy_file *file)
{
	int error = 0;
	int64_t size;

	if (file->open == NULL)
		error = disk_open(lossy->real, file->real, DISK_WRITE, &file->open);
	if (error != 0 || file->loaded)
		return error;
	size = disk_size(file->open);
	if (size < 0) {
		disk_close(&file->open);
		return (int)size;
	}
	file->size = file->valid = (uint64_t)size;
	file->loaded = true;
	return 0;
}

static int
open_locked(struct lossy *lossy, const char *path, enum disk_mode mode, struct disk_file **out)
{
	struct lossy_file *file = file_find(lossy, path);
	struct lossy_handle *handle;
	bool exists;
	int error;

	folder_of(lossy, path, &exists);
	if (!exists || (file == NULL && mode != DISK_CREATE))
		return -ENOENT;
	if (file != NULL && mode == DISK_CREATE)
		return -EEXIST;
	error = file == NULL ? lossy_open_new(lossy, path, &file) : load(lossy, file);
	if (error != 0)
		return error;
	file->handles++;
	handle = xmalloc(sizeof(*handle));
	*handle = (struct lossy_handle){{&lossy->disk}, file, mode != DISK_READ};
	*out = &handle->file;
	return 0;
}

static int
lossy_open(struct disk *disk, const char *path, enum disk_mode mode, struct disk_file **file)
{
	struct lossy *lossy = lossy_of(disk);
	int error;

	assert(!is_hidden(path));
	pthread_mutex_lock(&lossy->lock);
	error = open_locked(lossy, path, mode, file);
	pthread_mutex_unlock(&lossy->lock);
	return error;
}

static void
lossy_close(struct disk_file *file)
{
	struct lossy *lossy = lossy_of(file->disk);
	struct lossy_handle *handle = handle_of(file);

	pthread_mutex_lock(&lossy->lock);
	assert(handle->to->handles > 0);
	if (--handle->to->handles == 0)
		disk_close(&handle->to->open);
	xfree(handle);
	reap(lossy);
	pthread_mutex_unlock(&lossy->lock);
}

static int64_t
lossy_read(struct disk_file *file, void *p, size_t n, uint64_t offset)
{
	return lossy_file_read(handle_of(file)->to, p, n, offset);
}

static int
lossy_write(struct disk_file *file, const void *p, size_t n, uint64_t offset)
{
	struct lossy_handle *handle = handle_of(file);

	return handle->writable ? lossy_file_write(handle->to, p, n, offset) : -EBADF;
}

static int
lossy_sync(struct disk_file *file)
{
	return lossy_file_sync(handle_of(file)->to);
}

static int
lossy_allocate(struct disk_file *file, uint64_t size)
{
	struct lossy_handle *handle = handle_of(file);

	if (!handle->writable)
		return -EBADF;
	lossy_file_grow(handle->to, size);
	return 0;
}

static int
lossy_truncate(struct disk_file *file, uint64_t size)
{
	struct lossy_handle *handle = handle_of(file);

	if (!handle->writable)
		return -EINVAL;
	lossy_file_truncate(handle->to, size);
	return 0;
}

static int64_t
lossy_size(struct disk_file *file)
{
	return lossy_file_size(handle_of(file)->to);
}

/* Takes the name away. A file that never had a synced one has nothing to come back to. */
static void
lose_name(struct lossy *lossy, struct lossy_file *file)
{
	file->name[0] = '\0';
	if (is_hidden(file->real)) {
		int error = disk_unlink(lossy->real, file->real);

		assert(error == 0);
		file->real[0] = '\0';
	}
}

static int
rename_locked(struct lossy *lossy, const char *from, const char *to)
{
	struct lossy_file *file = file_find(lossy, from);
	struct lossy_file *other = file_find(lossy, to);
	bool exists;

	folder_of(lossy, to, &exists);
	if (file == NULL || !exists)
		return -ENOENT;
	if (folder_find(lossy, to) != NULL)
		return -EISDIR;
	if (other == file)
		return 0;
	if (other != NULL)
		lose_name(lossy, other);
	path_set(file->name, to);
	reap(lossy);
	return 0;
}

static int
lossy_rename(struct disk *disk, const char *from, const char *to)
{
	struct lossy *lossy = lossy_of(disk);
	int error;

	pthread_mutex_lock(&lossy->lock);
	error = rename_locked(lossy, from, to);
	pthread_mutex_unlock(&lossy->lock);
	return error;
}

static int
lossy_unlink(struct disk *disk, const char *path)
{
	struct lossy *lossy = lossy_of(disk);
	struct lossy_file *file;

	pthread_mutex_lock(&lossy->lock);
	file = file_find(lossy, path);
	if (file != NULL)
		lose_name(lossy, file);
	reap(lossy);
	pthread_mutex_unlock(&lossy->lock);
	return file != NULL ? 0 : -ENOENT;
}

static int
move(struct lossy *lossy, struct lossy_file *file, const char *to)
{
	int error = disk_rename(lossy->real, file->real, to);

	if (error == 0)
		path_set(file->real, to);
	return error;
}

static int settle(struct lossy *lossy, struct lossy_file *file, unsigned chain);

/* The file that has this name in the real folder goes where it belongs; one that was unlinked stays to
 * be replaced. In a ring of renames one has to step aside. */
static int
make_way(struct lossy *lossy, const char *name, unsigned chain)
{
	struct lossy_file *file;
	char hidden[LOSSY_PATH_SIZE];

	list_for_each (&lossy->files, file, struct lossy_file, link) {
		int error = 0;

		if (strcmp(file->real, name) != 0)
			continue;
		if (file->name[0] == '\0') {
			file->real[0] = '\0';
			return 0;
		}
		if (chain < LONGEST_CHAIN)
			error = settle(lossy, file, chain + 1);
		if (error != 0 || strcmp(file->real, name) != 0)
			return error;
		hidden_name(lossy, hidden);
		return move(lossy, file, hidden);
	}
	return 0;
}

/* Makes the name in the real folder that which is seen. */
static int
settle(struct lossy *lossy, struct lossy_file *file, unsigned chain)
{
	struct lossy_folder *folder;
	bool exists;
	int error;

	if (strcmp(file->name, file->real) == 0)
		return 0;
	if (file->name[0] == '\0') {
		error = disk_unlink(lossy->real, file->real);
		file->real[0] = '\0';
		return error;
	}
	folder = folder_of(lossy, file->name, &exists);
	if (folder != NULL && !folder->real)
		return 0;
	error = make_way(lossy, file->name, chain);
	return error != 0 ? error : move(lossy, file, file->name);
}

static int
sync_folder(struct lossy *lossy, const char *folder)
{
	struct lossy_file *file;
	int error = 0;

	list_for_each (&lossy->files, file, struct lossy_file, link) {
		bool was_here = !is_hidden(file->real) && in_folder(file->real, folder);

		if (error == 0 && (was_here || in_folder(file->name, folder)))
			error = settle(lossy, file, 0);
	}
	reap(lossy);
	return error;
}

/* Makes the folders real, and what was synced in them before. */
static int
sync_folders(struct lossy *lossy)
{
	struct lossy_folder *folder;
	int error = 0;

	list_for_each (&lossy->folders, folder, struct lossy_folder, link) {
		if (folder->real || error != 0)
			continue;
		error = disk_mkdir(lossy->real, folder->name);
		folder->real = error == 0;
		if (folder->real && folder->synced)
			error = sync_folder(lossy, folder->name);
	}
	return error;
}

static int
lossy_sync_dir(struct disk *disk, const char *name)
{
	struct lossy *lossy = lossy_of(disk);
	struct lossy_folder *folder;
	int error = 0;

	pthread_mutex_lock(&lossy->lock);
	folder = folder_find(lossy, name);
	if (folder == NULL && name[0] != '\0')
		error = file_find(lossy, name) != NULL ? -ENOTDIR : -ENOENT;
	else if (folder != NULL && !folder->real)
		folder->synced = true;
	else
		error = sync_folder(lossy, name);
	if (error == 0 && name[0] == '\0')
		error = sync_folders(lossy);
	pthread_mutex_unlock(&lossy->lock);
	return error;
}

static int
lossy_mkdir(struct disk *disk, const char *name)
{
	struct lossy *lossy = lossy_of(disk);
	int error = 0;

	pthread_mutex_lock(&lossy->lock);
	if (file_find(lossy, name) != NULL)
		error = -ENOTDIR;
	else if (folder_find(lossy, name) == NULL)
		folder_new(lossy, name, false);
	pthread_mutex_unlock(&lossy->lock);
	return error;
}

static int
lossy_list(struct disk *disk, const char *folder, void (*each)(void *context, const char *name),
	   void *context)
{
	struct lossy *lossy = lossy_of(disk);
	struct lossy_file *file;
	int error = 0;

	pthread_mutex_lock(&lossy->lock);
	if (folder[0] != '\0' && folder_find(lossy, folder) == NULL)
		error = file_find(lossy, folder) != NULL ? -ENOTDIR : -ENOENT;
	list_for_each (&lossy->files, file, struct lossy_file, link)
		if (error == 0 && in_folder(file->name, folder))
			each(context, file->name + (folder[0] != '\0' ? strlen(folder) + 1 : 0));
	pthread_mutex_unlock(&lossy->lock);
	return error;
}

static int
lossy_lock(struct disk *disk, const char *path)
{
	struct lossy *lossy = lossy_of(disk);
	int error;

	pthread_mutex_lock(&lossy->lock);
	error = disk_lock(lossy->real, path);
	if (error == 0 && file_find(lossy, path) == NULL)
		file_new(lossy, path, path);
	pthread_mutex_unlock(&lossy->lock);
	return error;
}

static int64_t
lossy_free_space(struct disk *disk)
{
	return disk_free_space(lossy_of(disk)->real);
}

static void
lossy_free(struct disk *disk)
{
	struct lossy *lossy = lossy_of(disk);
	struct lossy_file *file;
	struct list_link *folder;

	list_for_each_safe (&lossy->files, file, struct lossy_file, link) {
		if (is_hidden(file->real))
			lose_name(lossy, file);
		file_free(lossy, file);
	}
	while ((folder = list_pop(&lossy->folders)) != NULL)
		xfree(container_of(folder, struct lossy_folder, link));
	disk_free(&lossy->real);
	pthread_mutex_destroy(&lossy->lock);
	xfree(lossy);
}

static const struct disk_ops lossy_ops = {
	.open = lossy_open,
	.close = lossy_close,
	.read = lossy_read,
	.write = lossy_write,
	.sync = lossy_sync,
	.allocate = lossy_allocate,
	.truncate = lossy_truncate,
	.size = lossy_size,
	.rename = lossy_rename,
	.unlink = lossy_unlink,
	.sync_dir = lossy_sync_dir,
	.mkdir = lossy_mkdir,
	.list = lossy_list,
	.lock = lossy_lock,
	.free_space = lossy_free_space,
	.free = lossy_free,
};

/* Whether the process that made the hidden file is gone. */
static bool
is_left_over(const char *name)
{
	pid_t maker = (pid_t)strtol(name + strlen(HIDDEN), NULL, 10);

	return maker <= 0 || maker == getpid() || (kill(maker, 0) != 0 && errno == ESRCH);
}

static int
note_entry(struct lossy *lossy, const char *folder, const struct dirent *entry)
{
	char path[LOSSY_PATH_SIZE];
	int n = snprintf(path, sizeof(path), "%s%s%s", folder, folder[0] != '\0' ? "/" : "",
			 entry->d_name);

	assert(n > 0 && (size_t)n < sizeof(path));
	if (is_hidden(path))
		return is_left_over(path) ? disk_unlink(lossy->real, path) : 0;
	if (entry->d_type != DT_DIR)
		file_new(lossy, path, path);
	else if (folder[0] == '\0' && entry->d_name[0] != '.')
		folder_new(lossy, path, true);
	return 0;
}

/* Learns the names of a folder. */
static int
scan(struct lossy *lossy, const char *root, const char *folder)
{
	char path[4096];
	struct dirent *entry;
	int error = 0;
	DIR *open;

	snprintf(path, sizeof(path), "%s/%s", root, folder);
	open = opendir(path);
	if (open == NULL)
		return -errno;
	while (error == 0 && (entry = readdir(open)) != NULL)
		error = note_entry(lossy, folder, entry);
	closedir(open);
	return error;
}

int
disk_lossy_new(struct disk **disk, const char *root)
{
	struct lossy *lossy = xcalloc(1, sizeof(*lossy));
	pthread_mutexattr_t recursive;
	struct lossy_folder *folder;
	int error;

	lossy->disk.ops = &lossy_ops;
	list_init(&lossy->files);
	list_init(&lossy->folders);
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lossy->lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
	error = disk_new(&lossy->real, root);
	if (error == 0)
		error = scan(lossy, root, "");
	list_for_each (&lossy->folders, folder, struct lossy_folder, link)
		if (error == 0)
			error = scan(lossy, root, folder->name);
	if (error != 0) {
		lossy_free(&lossy->disk);
		return error;
	}
	*disk = &lossy->disk;
	return 0;
}
