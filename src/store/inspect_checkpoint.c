/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints for the eyes of tools: all that there are, not only the newest that holds.
 */
#include "inspecting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void
report(struct inspect *inspect, uint64_t lsn, enum inspect_severity severity, const char *meaning,
       const char *advice)
{
	char path[PATH_MAX_SIZE];

	checkpoint_path(path, lsn, "");
	inspect_report(inspect, &(struct inspect_fault){
					.severity = severity,
					.path = path,
					.meaning = meaning,
					.advice = advice,
				});
}

/* Reads one and says what is wrong with it. */
static int
read_one(struct inspect *inspect, uint64_t lsn, const struct inspect_checkpoint_ops *ops,
	 void *context)
{
	struct checkpoint_image image;
	int error = checkpoint_read(inspect->disk, inspect->superblock.uuid, lsn, &image);
	bool whole = error == 0;

	if (error == 0)
		error = checkpoint_decode(&image, ops, context);
	xfree(image.p);
	if (error == -ENOTSUP)
		report(inspect, lsn, INSPECT_NEWER, "it was written by a newer version",
		       "use the newer pannierctl and pannierd");
	else if (error == -EBADMSG && whole)
		report(inspect, lsn, INSPECT_DAMAGE,
		       "its checks hold, but its content is malformed",
		       "`repair --rebuild-index' does without it");
	else if (error == -EBADMSG)
		report(inspect, lsn, INSPECT_INDEX, "the checkpoint does not pass its check",
		       "nothing: the broker uses the one before it, or the log");
	else if (error != 0)
		report(inspect, lsn, INSPECT_DAMAGE, strerror(-error),
		       "make the file readable and try again");
	return error;
}

int
inspect_checkpoint(struct inspect *inspect, uint64_t lsn, const struct inspect_checkpoint_ops *ops,
		   void *context)
{
	return read_one(inspect, lsn, ops, context);
}

/* ---- finding them ---- */

static void
note_checkpoint(void *context, const char *name)
{
	struct inspect *inspect = context;
	uint64_t lsn = strtoull(name, NULL, 10);
	char path[PATH_MAX_SIZE];

	checkpoint_path(path, lsn, "");
	if (lsn == 0 || strcmp(path + strlen(CHECKPOINT_FOLDER) + 1, name) != 0)
		return;
	if (inspect->checkpoint_count == inspect->checkpoint_room) {
		inspect->checkpoint_room =
			inspect->checkpoint_room == 0 ? 8 : 2 * inspect->checkpoint_room;
		inspect->checkpoints =
			xrealloc(inspect->checkpoints, inspect->checkpoint_room * sizeof(uint64_t));
	}
	inspect->checkpoints[inspect->checkpoint_count++] = lsn;
}

static int
ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void
note_known(void *context, const struct inspect_segment_state *state)
{
	struct inspect *inspect = context;

	if (inspect->known_count == inspect->known_room) {
		inspect->known_room = inspect->known_room == 0 ? 16 : 2 * inspect->known_room;
		inspect->known =
			xrealloc(inspect->known, inspect->known_room * sizeof(*inspect->known));
	}
	inspect->known[inspect->known_count++] = (struct known_segment){.state = *state};
}

/* The one that the superblock names. */
static void
report_absent(struct inspect *inspect)
{
	uint64_t lsn = inspect->superblock.checkpoint;

	for (size_t i = 0; i < inspect->checkpoint_count; i++)
		if (inspect->checkpoints[i] == lsn)
			return;
	if (lsn != 0)
		report(inspect, lsn, INSPECT_INDEX, "the newest checkpoint is missing",
		       "nothing: the broker uses the one before it, or the log");
}

int
inspect_find_checkpoints(struct inspect *inspect, struct buf *error)
{
	static const struct inspect_checkpoint_ops nothing = {.define = NULL};
	static const struct inspect_checkpoint_ops segments = {.segment = note_known};
	int code = disk_list(inspect->disk, CHECKPOINT_FOLDER, note_checkpoint, inspect);
	size_t kept = 0;

	if (code != 0 && code != -ENOENT) {
		buf_addf(error, "cannot list " CHECKPOINT_FOLDER "/: %s", strerror(-code));
		return code;
	}
	if (inspect->checkpoint_count > 0)
		qsort(inspect->checkpoints, inspect->checkpoint_count, sizeof(uint64_t), ascending);
	report_absent(inspect);
	for (size_t i = 0; i < inspect->checkpoint_count; i++)
		if (read_one(inspect, inspect->checkpoints[i], &nothing, inspect) == 0)
			inspect->checkpoints[kept++] = inspect->checkpoints[i];
	inspect->checkpoint_count = kept;
	if (kept > 0 && read_one(inspect, inspect->checkpoints[kept - 1], &segments, inspect) == 0)
		inspect->newest = inspect->checkpoints[kept - 1];
	return 0;
}
