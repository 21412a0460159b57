/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments without an open message. What else they hold (marks, definitions) is in the checkpoints; one
 * that the second-newest checkpoint covers and found empty is not needed by any recovery, and its file
 * goes. So the marks are safe before the messages go, and a file that is missing though the checkpoint that
 * is used found messages in it was lost.
 */
#include "checkpoint.h"
#include "spare.h"

struct remove_job {
	struct mail mail;
	struct spares *spares;
	struct reader *reader;
	uint64_t id;
	uint64_t octets; // in use
	uint64_t least;	 // that a spare file has
};

static void
run_remove(struct mail *mail)
{
	struct remove_job *job = container_of(mail, struct remove_job, mail);
	int error;

	/* an open file takes its room on */
	reader_forget(job->reader, job->id);
	/* for certain, before the next checkpoint, which does not know it: recovery could not say where it ends */
	error = spares_put(job->spares, job->id, job->octets, job->least);
	if (error < 0)
		log_warn("store: cannot remove log/%010llu.seg, which is not needed any more: %s",
			 (unsigned long long)job->id, strerror(-error));
}

static void
remove_arrived(struct store *store, struct mail *mail)
{
	(void)store;
	xfree(container_of(mail, struct remove_job, mail));
}

static void
remove_segment(struct store *store, struct segment *segment)
{
	struct remove_job *job = xcalloc(1, sizeof(*job));

	*job = (struct remove_job){
		.mail = {.run = run_remove, .arrive = remove_arrived},
		.spares = store->spares,
		.reader = store->reader,
		.id = segment->id,
		.octets = segment->end,
		.least = spare_least(store),
	};
	assert(segment->live_refs == 0);
	segment_remove(store, segment);
	worker_send(&store->helper_thread, &job->mail);
}

void
reclaim(struct store *store)
{
	uint64_t covered = checkpoint_covered(store);

	for (size_t i = 0; i < store->segment_count;) {
		struct segment *segment = store->segments[i];

		/* one that has a tail is being given its index */
		if (segment->file == NULL && segment->tail == NULL && !segment->merging &&
		    segment->empty_lsn != 0 && segment->empty_lsn <= covered &&
		    segment->last_lsn <= covered)
			remove_segment(store, segment);
		else
			i++;
	}
}
