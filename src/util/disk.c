/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of disk.h, which check what holds for every disk and hand on to the implementation, and the
 * real disk. The real one keeps a descriptor of its root and names everything relative to that, so the
 * folder may be moved under a running process; it never retries a sync, because the kernel marks pages
 * clean after a failed one and a second would report success for octets that are lost.
 *
 * Any thread: besides the root's descriptor the only state are the locks held, a stack that only grows.
 */
#include "util/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "util/mem.h"

#define FILL_SIZE 65536 // octets of one write where space is reserved by writing zeros
#define BLOCK_SIZE 4096 // no file system that lacks fallocate() has smaller holes that matter

/* A lock held; the descriptor is the lock. */
struct held_lock {
	int fd;			// owns
	struct held_lock *next; // owns
};

struct real_disk {
	struct disk disk;
	int root;			   // owns: descriptor of the folder
	_Atomic(struct held_lock *) locks; // owns
};

struct real_file {
	struct disk_file file;
	int fd; // owns
};

static struct real_disk *
real_of(struct disk *disk)
{
	return container_of(disk, struct real_disk, disk);
}

static int
fd_of(struct disk_file *file)
{
	return container_of(file, struct real_file, file)->fd;
}

static int
real_open(struct disk *disk, const char *path, enum disk_mode mode, struct disk_file **file)
{
	static const int flags[] = {
		[DISK_READ] = O_RDONLY,
		[DISK_WRITE] = O_RDWR,
		[DISK_CREATE] = O_RDWR | O_CREAT | O_EXCL,
	};
	struct real_file *real;
	int fd = openat(real_of(disk)->root, path, flags[mode] | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	real = xmalloc(sizeof(*real));
	*real = (struct real_file){.file.disk = disk, .fd = fd};
	*file = &real->file;
	return 0;
}

/* What close() says is of no use: what matters was synced. */
static void
real_close(struct disk_file *file)
{
	struct real_file *real = container_of(file, struct real_file, file);

	close(real->fd);
	xfree(real);
}

static int64_t
real_read(struct disk_file *file, void *p, size_t n, uint64_t offset)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got =
			pread(fd_of(file), (char *)p + done, n - done, (off_t)(offset + done));

		if (got == 0)
			break;
		if (got > 0)
			done += (size_t)got;
		else if (errno != EINTR)
			return -errno;
	}
	return (int64_t)done;
}

static int
write_whole(int fd, const void *p, size_t n, uint64_t offset)
{
	size_t done = 0;

	while (done < n) {
		ssize_t put = pwrite(fd, (const char *)p + done, n - done, (off_t)(offset + done));

		if (put == 0)
			return -EIO;
		if (put > 0)
			done += (size_t)put;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int
real_write(struct disk_file *file, const void *p, size_t n, uint64_t offset)
{
	return write_whole(fd_of(file), p, n, offset);
}

static int
real_sync(struct disk_file *file)
{
	return fdatasync(fd_of(file)) == 0 ? 0 : -errno;
}

static int
truncate_fd(int fd, uint64_t size)
{
	while (ftruncate(fd, (off_t)size) != 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int
real_truncate(struct disk_file *file, uint64_t size)
{
	return truncate_fd(fd_of(file), size);
}

static int64_t
size_of_fd(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 ? (int64_t)status.st_size : -errno;
}

static int64_t
real_size(struct disk_file *file)
{
	return size_of_fd(fd_of(file));
}

/* Backs the holes below end: a block that reads as zeros is written as zeros. */
static int
fill_holes(struct disk_file *file, uint64_t end)
{
	static const uint8_t zeros[BLOCK_SIZE];
	uint8_t block[BLOCK_SIZE];

	for (uint64_t at = 0; at < end; at += BLOCK_SIZE) {
		size_t n = (size_t)min_u64(BLOCK_SIZE, end - at);
		int64_t got = real_read(file, block, n, at);
		int error = got < 0 ? (int)got : 0;

		if (got > 0 && memcmp(block, zeros, (size_t)got) == 0)
			error = real_write(file, zeros, (size_t)got, at);
		if (error != 0)
			return error;
	}
	return 0;
}

/* What fallocate() does, for file systems without it. A file that could not grow gets its size back. */
static int
allocate_by_writing(struct disk_file *file, uint64_t size)
{
	static const uint8_t zeros[FILL_SIZE];
	int64_t old = real_size(file);
	int error;

	if (old < 0)
		return (int)old;
	error = fill_holes(file, min_u64((uint64_t)old, size));
	for (uint64_t at = (uint64_t)old; at < size && error == 0; at += FILL_SIZE)
		error = real_write(file, zeros, (size_t)min_u64(FILL_SIZE, size - at), at);
	if (error != 0 && real_size(file) > old) {
		int cut = real_truncate(file, (uint64_t)old);

		return cut != 0 ? cut : error;
	}
	return error;
}

static int
real_allocate(struct disk_file *file, uint64_t size)
{
	while (size > 0 && fallocate(fd_of(file), 0, 0, (off_t)size) != 0) {
		if (errno == EOPNOTSUPP || errno == ENOSYS)
			return allocate_by_writing(file, size);
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int
real_rename(struct disk *disk, const char *from, const char *to)
{
	int root = real_of(disk)->root;

	return renameat(root, from, root, to) == 0 ? 0 : -errno;
}

static int
real_unlink(struct disk *disk, const char *path)
{
	return unlinkat(real_of(disk)->root, path, 0) == 0 ? 0 : -errno;
}

/* A descriptor of the folder that the caller closes, or a negative errno. */
static int
open_folder(struct disk *disk, const char *folder)
{
	int fd = openat(real_of(disk)->root, folder[0] != '\0' ? folder : ".",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 ? fd : -errno;
}

static int
real_sync_dir(struct disk *disk, const char *folder)
{
	int error;
	int fd = open_folder(disk, folder);

	if (fd < 0)
		return fd;
	error = fsync(fd) == 0 ? 0 : -errno;
	close(fd);
	return error;
}

static int
real_mkdir(struct disk *disk, const char *folder)
{
	struct stat status;
	int root = real_of(disk)->root;

	if (mkdirat(root, folder, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (fstatat(root, folder, &status, 0) != 0)
		return -errno;
	return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

/* Whether the entry is a folder; one that went away meanwhile counts as a folder: it is no file. */
static bool
is_folder(DIR *folder, const struct dirent *entry)
{
	struct stat status;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
	       S_ISDIR(status.st_mode);
}

static int
real_list(struct disk *disk, const char *folder, void (*each)(void *context, const char *name),
	  void *context)
{
	struct dirent *entry;
	int error;
	DIR *open;
	int fd = open_folder(disk, folder);

	if (fd < 0)
		return fd;
	open = fdopendir(fd);
	if (open == NULL) {
		error = -errno;
		close(fd);
		return error;
	}
	while (errno = 0, (entry = readdir(open)) != NULL)
		if (!is_folder(open, entry))
			each(context, entry->d_name);
	error = -errno;
	closedir(open);
	return error;
}

/* The file says who has the lock; nobody but a human reads it. */
static int
write_pid(int fd)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	int error = truncate_fd(fd, 0);

	return error != 0 ? error : write_whole(fd, text, (size_t)n, 0);
}

/* The file is never unlinked: somebody may already wait at the old one while another makes a new one. */
static int
real_lock(struct disk *disk, const char *path)
{
	struct real_disk *real = real_of(disk);
	struct held_lock *held;
	int error = 0;
	int fd = openat(real->root, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	while (error == 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
		if (errno != EINTR)
			error = -errno;
	if (error == 0)
		error = write_pid(fd);
	if (error != 0) {
		close(fd);
		return error;
	}
	held = xmalloc(sizeof(*held));
	*held = (struct held_lock){.fd = fd, .next = atomic_load(&real->locks)};
	while (!atomic_compare_exchange_weak(&real->locks, &held->next, held))
		;
	return 0;
}

static int64_t
real_free_space(struct disk *disk)
{
	struct statvfs status;
	uint64_t octets;

	if (fstatvfs(real_of(disk)->root, &status) != 0)
		return -errno;
	if (__builtin_mul_overflow((uint64_t)status.f_bavail, (uint64_t)status.f_frsize, &octets))
		return INT64_MAX;
	return (int64_t)min_u64(octets, INT64_MAX);
}

static void
real_free(struct disk *disk)
{
	struct real_disk *real = real_of(disk);
	struct held_lock *held = atomic_load(&real->locks);

	while (held != NULL) {
		struct held_lock *next = held->next;

		close(held->fd);
		xfree(held);
		held = next;
	}
	close(real->root);
	xfree(real);
}

static const struct disk_ops real_ops = {
	.open = real_open,
	.close = real_close,
	.read = real_read,
	.write = real_write,
	.sync = real_sync,
	.allocate = real_allocate,
	.truncate = real_truncate,
	.size = real_size,
	.rename = real_rename,
	.unlink = real_unlink,
	.sync_dir = real_sync_dir,
	.mkdir = real_mkdir,
	.list = real_list,
	.lock = real_lock,
	.free_space = real_free_space,
	.free = real_free,
};

int
disk_new(struct disk **disk, const char *root)
{
	struct real_disk *real;
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	real = xmalloc(sizeof(*real));
	real->disk.ops = &real_ops;
	real->root = fd;
	atomic_init(&real->locks, NULL);
	*disk = &real->disk;
	return 0;
}

/* A path stays below the root and has one "/" at most, inside. */
static bool
path_is_good(const char *path)
{
	const char *slash = strchr(path, '/');

	return path[0] != '\0' && strstr(path, "..") == NULL &&
	       (slash == NULL ||
		(slash != path && slash[1] != '\0' && strchr(slash + 1, '/') == NULL));
}

/* A folder is the root or lies in it. */
static bool
folder_is_good(const char *folder)
{
	return folder[0] == '\0' || (path_is_good(folder) && strchr(folder, '/') == NULL);
}

/* The kernel's offsets have a sign. */
static bool
range_is_good(uint64_t offset, uint64_t n)
{
	return offset <= INT64_MAX && n <= INT64_MAX - offset;
}

void
disk_free(struct disk **disk)
{
	if (*disk != NULL)
		(*disk)->ops->free(*disk);
	*disk = NULL;
}

int
disk_open(struct disk *disk, const char *path, enum disk_mode mode, struct disk_file **file)
{
	int error;

	assert(path_is_good(path));
	assert(mode <= DISK_CREATE);
	error = disk->ops->open(disk, path, mode, file);
	assert(error <= 0);
	assert(error != 0 || (*file)->disk == disk);
	return error;
}

void
disk_close(struct disk_file **file)
{
	if (*file != NULL)
		(*file)->disk->ops->close(*file);
	*file = NULL;
}

int64_t
disk_read(struct disk_file *file, void *p, size_t n, uint64_t offset)
{
	int64_t got;

	assert(range_is_good(offset, n));
	got = file->disk->ops->read(file, p, n, offset);
	assert(got <= (int64_t)n);
	return got;
}

int
disk_write(struct disk_file *file, const void *p, size_t n, uint64_t offset)
{
	assert(range_is_good(offset, n));
	return file->disk->ops->write(file, p, n, offset);
}

int
disk_sync(struct disk_file *file)
{
	return file->disk->ops->sync(file);
}

int
disk_allocate(struct disk_file *file, uint64_t size)
{
	assert(range_is_good(0, size));
	return file->disk->ops->allocate(file, size);
}

int
disk_truncate(struct disk_file *file, uint64_t size)
{
	assert(range_is_good(0, size));
	return file->disk->ops->truncate(file, size);
}

int64_t
disk_size(struct disk_file *file)
{
	return file->disk->ops->size(file);
}

int
disk_rename(struct disk *disk, const char *from, const char *to)
{
	assert(path_is_good(from));
	assert(path_is_good(to));
	return disk->ops->rename(disk, from, to);
}

int
disk_unlink(struct disk *disk, const char *path)
{
	assert(path_is_good(path));
	return disk->ops->unlink(disk, path);
}

int
disk_sync_dir(struct disk *disk, const char *folder)
{
	assert(folder_is_good(folder));
	return disk->ops->sync_dir(disk, folder);
}

int
disk_mkdir(struct disk *disk, const char *folder)
{
	assert(folder_is_good(folder) && folder[0] != '\0');
	return disk->ops->mkdir(disk, folder);
}

int
disk_list(struct disk *disk, const char *folder, void (*each)(void *context, const char *name),
	  void *context)
{
	assert(folder_is_good(folder));
	return disk->ops->list(disk, folder, each, context);
}

int
disk_lock(struct disk *disk, const char *path)
{
	assert(path_is_good(path));
	return disk->ops->lock(disk, path);
}

int64_t
disk_free_space(struct disk *disk)
{
	return disk->ops->free_space(disk);
}
