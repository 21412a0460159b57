/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two folders lie side by side and are exchanged by one call, so that at each moment the name of the store
 * stands for a whole one of them.
 */
#include "repair_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/mem.h"

#define COPY_SIZE ((size_t)64 * 1024)

static char *
path_of(const char *format, const char *a, const char *b)
{
	struct buf path;
	char *copy;

	buf_init(&path, 0);
	for (; *format != '\0'; format++) {
		if (*format == '%')
			buf_add_str(&path, *++format == 'a' ? a : b);
		else
			buf_add_byte(&path, (uint8_t)*format);
	}
	copy = xstrdup(buf_cstr(&path));
	buf_fini(&path);
	return copy;
}

static char *
timestamp(char text[32])
{
	time_t now = time(NULL);
	struct tm utc;

	if (gmtime_r(&now, &utc) == NULL || strftime(text, 32, "%Y%m%dT%H%M%SZ", &utc) == 0)
		text[0] = '\0';
	return text;
}

int
place_make(struct place *place, const char *dir, const char *into)
{
	char text[32];
	char *resolved = realpath(dir, NULL);
	struct stat status;

	*place = (struct place){.swaps = into == NULL};
	if (resolved == NULL || stat(resolved, &status) != 0)
		return ctl_complain("%s: %s", dir, strerror(errno));
	place->old = resolved;
	place->made = into != NULL ? xstrdup(into) : path_of("%a.repaired", resolved, "");
	place->kept = path_of("%a.damaged-%b", resolved, timestamp(text));
	place->uid = status.st_uid;
	place->gid = status.st_gid;
	if (mkdir(place->made, 0700) != 0) {
		if (errno == EEXIST && into == NULL)
			return ctl_complain(
				"%s is there, of a repair that did not end: look at it, "
				"remove it, and try again",
				place->made);
		return ctl_complain("cannot make %s: %s%s", place->made, strerror(errno),
				    into == NULL ? " (see --into)" : "");
	}
	if (geteuid() == 0 && (chown(place->made, status.st_uid, status.st_gid) != 0 ||
			       chmod(place->made, status.st_mode & 07777) != 0))
		return ctl_complain("cannot give %s its owner: %s", place->made, strerror(errno));
	return CTL_OK;
}

void
place_fini(struct place *place)
{
	/* of realpath(), which is malloc's as xmalloc() is */
	xfree(place->old);
	xfree(place->made);
	xfree(place->kept);
}

void
place_become_owner(const struct place *place)
{
	if (geteuid() != 0 || place->uid == 0)
		return;
	if (setegid(place->gid) != 0 || seteuid(place->uid) != 0)
		ctl_complain("cannot become user %u: files of the new store belong to root",
			     place->uid);
}

void
place_become_self(void)
{
	if (getuid() == geteuid())
		return;
	if (seteuid(getuid()) != 0 || setegid(getgid()) != 0)
		ctl_complain("cannot become root again: %s", strerror(errno));
}

/* ---- quarantine ---- */

static int
copy(int from, int to, uint64_t offset, uint64_t size)
{
	char *octets = xmalloc(COPY_SIZE);
	int error = 0;

	while (size > 0 && error == 0) {
		ssize_t n = pread(from, octets, (size_t)min_u64(size, COPY_SIZE), (off_t)offset);

		if (n <= 0) {
			error = n < 0 ? -errno : 0;
			break;
		}
		if (write(to, octets, (size_t)n) != n)
			error = -EIO;
		offset += (uint64_t)n;
		size -= (uint64_t)n;
	}
	xfree(octets);
	return error != 0 ? error : fsync(to) == 0 ? 0 : -errno;
}

static int
open_copy(const struct place *place, const char *path, uint64_t offset)
{
	const char *slash = strrchr(path, '/');
	char *folder = path_of("%a/quarantine", place->made, "");
	struct buf name;
	int fd;

	(void)mkdir(folder, 0700);
	buf_init(&name, 0);
	buf_addf(&name, "%s/%s-%llu", folder, slash != NULL ? slash + 1 : path,
		 (unsigned long long)offset);
	fd = open(buf_cstr(&name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	buf_fini(&name);
	xfree(folder);
	return fd < 0 ? -errno : fd;
}

int
place_quarantine(const struct place *place, const char *path, uint64_t offset, uint64_t size)
{
	char *source = path_of("%a/%b", place->old, path);
	int from = open(source, O_RDONLY | O_CLOEXEC);
	int error = from < 0 ? -errno : 0;
	int to = -1;

	if (error == 0) {
		to = open_copy(place, path, offset);
		error = to < 0 ? to : copy(from, to, offset, size);
	}
	if (from >= 0)
		(void)close(from);
	if (to >= 0)
		(void)close(to);
	xfree(source);
	return error;
}

/* ---- the swap ---- */

/* Saves the names in the folder that holds the path. */
static int
sync_parent(const char *path)
{
	char *parent = path_of("%a/..", path, "");
	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error = fd < 0 || fsync(fd) != 0 ? -errno : 0;

	if (fd >= 0)
		(void)close(fd);
	xfree(parent);
	return error;
}

int
place_swap(const struct place *place)
{
	if (!place->swaps) {
		(void)printf("\nthe new store is %s; the old one is as it was\n", place->made);
		return CTL_OK;
	}
	if (renameat2(AT_FDCWD, place->made, AT_FDCWD, place->old, RENAME_EXCHANGE) != 0) {
		ctl_complain(
			"the new store is %s, but it cannot take the place of %s: %s; move them "
			"by hand",
			place->made, place->old, strerror(errno));
		return CTL_DAMAGED;
	}
	if (rename(place->made, place->kept) != 0 || sync_parent(place->old) != 0) {
		ctl_complain("the new store is in place, but the old one is still %s: %s",
			     place->made, strerror(errno));
		return CTL_DAMAGED;
	}
	(void)printf("\nthe new store is %s; the old one is kept as %s\n", place->old, place->kept);
	return CTL_OK;
}
