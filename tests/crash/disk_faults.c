/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that is slow, breaks or loses its power, for a broker that is started with this library in
 * LD_PRELOAD. The file named by CRASH_DISK_FAULTS holds struct disk_faults; the campaign changes it while
 * the broker runs.
 *
 * What pwrite() overwrites is kept until a sync of that file (fdatasync, fsync) has gone well that began
 * after the write. So what was not synced can be taken back: all of it, or parts as chance has it, in pieces
 * of a sector. A sync that is made to fail takes back what its file had pending; a power cut takes back what
 * all files had, and ends the process in the same moment. Names, sizes and holes of files are not taken back.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WRITES_MAX 65536
#define SECTOR 512
#define MOMENT_MAX_US 5000

struct disk_faults {
	uint32_t delay_us;  // by the campaign: a sync takes so much longer
	uint32_t error;	    // by the campaign: the errno of each sync; 0: none
	uint64_t syncs;	    // that went well
	uint64_t failures;  // syncs that did not
	uint64_t failed_us; // monotonic time of the first failure
	uint32_t
		calls_to_cut; // by the campaign: the power goes at so many writes and syncs; 0: it stays
	uint32_t kept_percent; // by the campaign: of the sectors that were not synced
	uint64_t taken_back;   // octets
};

/* A write that no sync has followed. */
struct pending_write {
	int fd;		   // of the file; our own when the broker has closed its
	dev_t device;	   // of the file
	ino_t inode;	   // of the file
	off_t offset;	   // where
	size_t size;	   // octets written
	size_t old_size;   // octets that were there before
	uint8_t *old;	   // owns: these
	uint64_t sequence; // counts writes
};

static struct {
	pthread_mutex_t mutex;	    // protects all of this
	struct disk_faults *faults; // shared with the campaign; NULL: there is none
	ssize_t (*pwrite)(int fd, const void *p, size_t n, off_t offset);
	int (*fdatasync)(int fd);
	int (*fsync)(int fd);
	int (*close)(int fd);
	struct pending_write writes[WRITES_MAX];
	unsigned count;	   // of writes
	uint64_t sequence; // of the last write
	uint64_t random;
} disk = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* What is put before libc's. */
int fdatasync(int fd);
int fsync(int fd);
int close(int fd);
ssize_t pwrite(int fd, const void *p, size_t n, off_t offset);
ssize_t pwrite64(int fd, const void *p, size_t n, off_t offset);

static void *
next_of(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (!function)
		abort();
	return function;
}

static uint64_t
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

__attribute__((constructor)) static void
open_faults(void)
{
	const char *path = getenv("CRASH_DISK_FAULTS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map;

	*(void **)&disk.pwrite = next_of("pwrite");
	*(void **)&disk.fdatasync = next_of("fdatasync");
	*(void **)&disk.fsync = next_of("fsync");
	*(void **)&disk.close = next_of("close");
	disk.random = now_us();
	if (fd < 0)
		return;
	map = mmap(NULL, sizeof *disk.faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		disk.faults = map;
	disk.close(fd);
}

/* ---- writes that are pending; the mutex is held ---- */

static bool
is_kept(void)
{
	disk.random = disk.random * 6364136223846793005 + 1442695040888963407;
	return (disk.random >> 33) % 100 < disk.faults->kept_percent;
}

/* Makes each sector what it was before the write, or leaves it. */
static void
take_back(const struct pending_write *w)
{
	static const uint8_t zeros[SECTOR];

	for (size_t done = 0; done < w->size; done += SECTOR) {
		uint8_t sector[SECTOR];
		size_t n = w->size - done < SECTOR ? w->size - done : SECTOR;
		if (is_kept())
			continue;
		memcpy(sector, zeros, sizeof sector);
		if (done < w->old_size)
			memcpy(sector, w->old + done,
			       w->old_size - done < n ? w->old_size - done : n);
		if (disk.pwrite(w->fd, sector, n, w->offset + (off_t)done) != (ssize_t)n)
			abort();
		disk.faults->taken_back += n;
	}
}

/* Of one file, up to a write; NULL: of all. The newest is taken back first. */
static void
settle_writes(const struct stat *file, uint64_t last, bool lost)
{
	unsigned kept = 0;

	for (unsigned i = disk.count; lost && i-- > 0;)
		if (!file ||
		    (disk.writes[i].device == file->st_dev && disk.writes[i].inode == file->st_ino))
			take_back(&disk.writes[i]);
	for (unsigned i = 0; i < disk.count; i++) {
		struct pending_write w = disk.writes[i];
		if (file &&
		    (w.device != file->st_dev || w.inode != file->st_ino || w.sequence > last))
			disk.writes[kept++] = w;
		else
			free(w.old);
	}
	disk.count = kept;
}

/* Counts a write or sync down to the power cut. That comes a moment after the call has begun: time for the
 * other threads to tell the world what they should not. */
static void
count_call(void)
{
	struct timespec moment = {0};

	if (!disk.faults->calls_to_cut || --disk.faults->calls_to_cut)
		return;
	moment.tv_nsec = (long)(now_us() % MOMENT_MAX_US) * 1000;
	nanosleep(&moment, NULL);
	settle_writes(NULL, 0, true);
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static void
remember_old(int fd, size_t n, off_t offset)
{
	struct stat file;
	ssize_t old_size;

	if (disk.count == WRITES_MAX || fstat(fd, &file))
		abort();
	struct pending_write *w = &disk.writes[disk.count++];
	*w = (struct pending_write){
		.fd = fd,
		.device = file.st_dev,
		.inode = file.st_ino,
		.offset = offset,
		.size = n,
		.old = malloc(n),
		.sequence = ++disk.sequence,
	};
	/* A descriptor that cannot be read from gives zeros back. */
	old_size = w->old ? pread(fd, w->old, n, offset) : 0;
	w->old_size = old_size > 0 ? (size_t)old_size : 0;
}

/* ---- before libc ---- */

/* Before the true sync: 0 and the last write that it covers, or it fails with errno. */
static int
begin_sync(const struct stat *file, uint64_t *last)
{
	uint32_t us = disk.faults->delay_us;
	const struct timespec delay = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};

	if (us)
		nanosleep(&delay, NULL);
	pthread_mutex_lock(&disk.mutex);
	count_call();
	uint32_t error = disk.faults->error;
	*last = disk.sequence;
	if (error) {
		if (disk.faults->failures++ == 0)
			disk.faults->failed_us = now_us();
		settle_writes(file, *last, true);
	}
	pthread_mutex_unlock(&disk.mutex);
	errno = (int)error;
	return error ? -1 : 0;
}

static int
sync_with(int (*function)(int fd), int fd)
{
	struct stat file;
	uint64_t last;

	if (!disk.faults || fstat(fd, &file))
		return function(fd);
	if (begin_sync(&file, &last))
		return -1;
	int result = function(fd);
	pthread_mutex_lock(&disk.mutex);
	if (result == 0) {
		settle_writes(&file, last, false);
		disk.faults->syncs++;
	}
	pthread_mutex_unlock(&disk.mutex);
	return result;
}

int
fdatasync(int fd)
{
	return sync_with(disk.fdatasync, fd);
}

int
fsync(int fd)
{
	return sync_with(disk.fsync, fd);
}

ssize_t
pwrite(int fd, const void *p, size_t n, off_t offset)
{
	if (!disk.faults)
		return disk.pwrite(fd, p, n, offset);
	pthread_mutex_lock(&disk.mutex);
	remember_old(fd, n, offset);
	ssize_t written = disk.pwrite(fd, p, n, offset);
	disk.writes[disk.count - 1].size = written > 0 ? (size_t)written : 0;
	count_call();
	pthread_mutex_unlock(&disk.mutex);
	return written;
}

ssize_t
pwrite64(int fd, const void *p, size_t n, off_t offset)
{
	return pwrite(fd, p, n, offset);
}

/* What is pending goes on to be known by a descriptor of ours. */
int
close(int fd)
{
	int own = -1;

	if (!disk.faults)
		return disk.close(fd);
	pthread_mutex_lock(&disk.mutex);
	for (unsigned i = 0; i < disk.count; i++) {
		if (disk.writes[i].fd != fd)
			continue;
		if (own < 0)
			own = fcntl(fd, F_DUPFD_CLOEXEC, 500);
		disk.writes[i].fd = own;
	}
	pthread_mutex_unlock(&disk.mutex);
	return disk.close(fd);
}
