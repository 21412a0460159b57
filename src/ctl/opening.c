/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store is opened without a change to it: where there is no LOCK, as in some copies, none is made; where there is
 * one it is taken for reading, which needs no right to write and keeps a broker from starting meanwhile.
 */
#include "ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "util/mem.h"

/* CTL_OK with the descriptor or -1; CTL_USAGE with a line when another process has the store. */
static int
take_lock(const char *dir, int *lock)
{
	struct buf path;

	buf_init(&path, 0);
	buf_addf(&path, "%s/LOCK", dir);
	*lock = open(buf_cstr(&path), O_RDONLY | O_CLOEXEC);
	buf_fini(&path);
	/* without the right to read it there is nothing to be done: reading the store decides */
	if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
		return CTL_OK;
	(void)close(*lock);
	*lock = -1;
	return ctl_complain("%s is in use by another process: stop the broker first", dir);
}

int
ctl_store_open(struct ctl_store *store, const char *dir, const struct inspect_ops *ops,
	       void *context)
{
	struct buf error;
	int code;

	*store = (struct ctl_store){.lock = -1};
	code = disk_new(&store->disk, dir);
	if (code != 0)
		return ctl_complain("cannot open %s: %s", dir, strerror(-code));
	if (take_lock(dir, &store->lock) != CTL_OK) {
		ctl_store_close(store);
		return CTL_USAGE;
	}
	buf_init(&error, 0);
	code = inspect_open(&store->inspect, store->disk, ops, context, &error);
	if (code != 0)
		ctl_complain("%s: %s", dir, buf_cstr(&error));
	buf_fini(&error);
	if (code == 0)
		return CTL_OK;
	ctl_store_close(store);
	return CTL_USAGE;
}

void
ctl_store_close(struct ctl_store *store)
{
	if (store->inspect != NULL)
		inspect_close(&store->inspect);
	if (store->disk != NULL)
		disk_free(&store->disk);
	if (store->lock >= 0)
		(void)close(store->lock);
	store->lock = -1;
}
