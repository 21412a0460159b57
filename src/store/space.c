/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room on the disk: how much is free, which the helper finds out, and what the store can let go of when
 * that is little.
 */
#include "space.h"

#include "merge.h"
#include "spare.h"

struct space_job {
	struct mail mail;
	struct spares *spares;
	bool low;
	int64_t octets;
};

static void
run_space(struct mail *mail)
{
	struct space_job *job = container_of(mail, struct space_job, mail);

	spares_want(job->spares, !job->low);
	job->octets = disk_free_space(job->spares->disk);
}

void
tell_space(struct store *store, int64_t octets)
{
	if (store->ops->free_space != NULL)
		store->ops->free_space(store->context, octets);
}

static void
space_arrived(struct store *store, struct mail *mail)
{
	struct space_job *job = container_of(mail, struct space_job, mail);

	tell_space(store, job->octets);
	xfree(job);
}

void
store_ask_space(struct store *store, bool low)
{
	struct space_job *job = xcalloc(1, sizeof(*job));

	assert_thread(THREAD_BROKER);
	store->space_low = low;
	make_room(store);
	*job = (struct space_job){
		.mail = {.run = run_space, .arrive = space_arrived},
		.spares = store->spares,
		.low = low,
	};
	worker_send(&store->helper_thread, &job->mail);
}

/* Whether checkpoints are all that a file without an open message waits for. */
static bool
has_empty(const struct store *store)
{
	for (size_t i = 0; i < store->segment_count; i++) {
		const struct segment *segment = store->segments[i];

		if (segment->file == NULL && segment->live_refs == 0 && !segment->merging)
			return true;
	}
	return false;
}

void
make_room(struct store *store)
{
	if (!store->space_low || store->closing || store->failed)
		return;
	if (has_empty(store))
		store->checkpoints.forced = true;
	merge_consider(store);
}

void
set_short_of_space(struct store *store, bool is_short)
{
	if (store->short_of_space == is_short)
		return;
	store->short_of_space = is_short;
	store->ops->short_of_space(store->context, is_short);
}
