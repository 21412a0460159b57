/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `store repair': says what is wrong and what each way out would lose, and with --yes takes the one that was
 * named. The log cannot be mended in place: its LSNs and digests prove that nothing is missing. So what can be
 * read becomes a new store (repair_write.c), is read back and counted, and then the two folders change
 * places in one step. Until then nothing of the old store is touched, and after that neither.
 */
#include "repair.h"

#include <errno.h>
#include <stdlib.h>

#include "util/mem.h"

#include "repair_place.h"

/* ---- what is wrong ---- */

static void
on_fault(void *context, const struct inspect_fault *fault)
{
	struct repair *repair = context;

	if (fault->severity != INSPECT_DAMAGE)
		return;
	if (fault->first_lsn != 0)
		repair->first_lost = min_u64(repair->first_lost, fault->first_lsn);
	if (fault->size == 0 && fault->first_lsn == 0)
		return;
	if (repair->range_count == repair->range_room) {
		repair->range_room = repair->range_room == 0 ? 8 : 2 * repair->range_room;
		repair->ranges =
			xrealloc(repair->ranges, repair->range_room * sizeof(*repair->ranges));
	}
	repair->ranges[repair->range_count++] = (struct damaged_range){
		.path = xstrdup(fault->path),
		.offset = fault->offset,
		.size = fault->size,
		.first_lsn = fault->first_lsn,
		.last_lsn = fault->last_lsn,
		.readable = fault->readable,
	};
}

/* ---- what would be kept, and lost ---- */

static void
count_message(void *context, const struct open_message *open)
{
	struct repair *repair = context;
	bool unwritable = false;

	for (uint32_t i = 0; i < open->count; i++)
		unwritable = unwritable || open->refs[i].ref.flags != 0 ||
			     open->refs[i].ref.priority != 0;
	repair->kept += open->count;
	repair->unwritable += unwritable;
	repair->octets += open->record->size;
}

static void
print_queues(const struct repair *repair)
{
	const struct image_queue *q;
	struct ctl_name vhost;
	struct ctl_name name;

	map_for_each (&repair->reading.image.queues, q, const struct image_queue, by_id) {
		if (q->removed || !q->is_named || (q->open == 0 && q->count == 0))
			continue;
		(void)printf("  queue %s in vhost %s: %llu messages are kept",
			     image_queue_name(&name, q), ctl_name(&vhost, q->vhost),
			     (unsigned long long)q->open);
		if (q->count > q->open)
			(void)printf(", lost: %llu", (unsigned long long)(q->count - q->open));
		(void)printf("\n");
	}
}

static void
print_definitions(const struct repair *repair)
{
	size_t count;
	const struct image_definition **list = image_list(&repair->reading.image, &count);
	bool any_vhost = count > 0 && list[0]->definition.kind == DEFINITION_VHOST;

	(void)printf("  %zu definitions are kept\n", count);
	if (!any_vhost)
		(void)printf(
			"  no vhost is among them: the definitions at the beginning are lost, and "
			"no client could connect\n");
	xfree(list);
}

static void
print_beyond(const struct repair *repair)
{
	const uint64_t *n = repair->reading.beyond;

	if (repair->reading.to == UINT64_MAX)
		return;
	(void)printf(
		"  from LSN %llu on everything is lost: of what can be read %llu messages, %llu "
		"records of marks (settled messages come back), %llu definitions\n",
		(unsigned long long)repair->first_lost, (unsigned long long)n[RECORD_MESSAGE],
		(unsigned long long)n[RECORD_ACK], (unsigned long long)n[RECORD_DEFINE]);
}

/* What of the records that are lost the checkpoint makes up for. */
static void
print_unreadable(const struct repair *repair)
{
	uint64_t before = 0;
	uint64_t behind = 0;

	for (size_t i = 0; i < repair->range_count; i++) {
		const struct damaged_range *range = &repair->ranges[i];
		uint64_t lost = range->last_lsn - range->first_lsn + 1 - range->readable;

		if (range->first_lsn == 0 || range->first_lsn > repair->reading.to)
			continue;
		if (range->last_lsn <= repair->reading.base)
			before += lost;
		else
			behind += lost;
	}
	if (before > 0)
		(void)printf("  %llu records before LSN %llu cannot be read: only messages are "
			     "lost with "
			     "them, as a checkpoint has the rest\n",
			     (unsigned long long)before,
			     (unsigned long long)(repair->reading.base + 1));
	if (behind > 0)
		(void)printf(
			"  %llu records cannot be read: messages, definitions, or marks, without "
			"which settled messages come back\n",
			(unsigned long long)behind);
}

/* Counts what the present state of the reading keeps. */
static void
count_kept(struct repair *repair)
{
	repair->kept = repair->unwritable = repair->octets = 0;
	reading_messages(&repair->reading, count_message, repair);
}

/* What this way would do. */
static void
print_plan(struct repair *repair, const char *way)
{
	count_kept(repair);
	(void)printf("\nwith %s:\n", way);
	print_definitions(repair);
	print_queues(repair);
	print_beyond(repair);
	print_unreadable(repair);
	if (repair->reading.contradictions > 0)
		(void)printf("  %llu records of marks do not fit to what was there before\n",
			     (unsigned long long)repair->reading.contradictions);
	if (repair->reading.orphans > 0)
		(void)printf("  %llu messages are of queues whose definition is lost, and are lost "
			     "with it\n",
			     (unsigned long long)repair->reading.orphans);
	if (repair->unwritable > 0)
		(void)printf("  %llu messages have a priority or times of their own, which this "
			     "version cannot write: nothing will be done\n",
			     (unsigned long long)repair->unwritable);
}

/* Whether the log has everything that the state stands on: from its first record on nothing was removed or merged
 * away, or a checkpoint has what was. */
static bool
has_beginning(const struct repair *repair)
{
	const struct inspect *inspect = repair->reading.store.inspect;
	uint64_t next = 1;

	for (size_t i = 0; repair->reading.base == 0 && i < inspect_segment_count(inspect); i++) {
		const struct inspect_segment *segment = inspect_segment_at(inspect, i);

		if (segment->use != INSPECT_IN_USE)
			continue;
		if (segment->generation > 0 || segment->first_lsn > next)
			return false;
		next = segment->last_lsn + 1;
	}
	return true;
}

/* Everything before the first damage; false with a line when that cannot be had. */
static bool
plan_cut(struct repair *repair)
{
	if (repair->first_lost == UINT64_MAX || repair->first_lost <= 1) {
		(void)printf(
			"\nwith --cut-tail: not possible, where the damage begins is not known\n");
		return false;
	}
	repair->reading.to = repair->first_lost - 1;
	reading_state(&repair->reading);
	if (!has_beginning(repair)) {
		(void)printf(
			"\nwith --cut-tail: not possible, there is no checkpoint before LSN %llu, "
			"and the log before that has been removed\n",
			(unsigned long long)repair->first_lost);
		return false;
	}
	print_plan(repair, "--cut-tail");
	return true;
}

static bool
plan_index(struct repair *repair)
{
	if (!has_beginning(repair)) {
		(void)printf("\nwith --rebuild-index: not possible, there are no checkpoints, and "
			     "parts of "
			     "the log have been removed since they were made\n");
		return false;
	}
	print_plan(repair, "--rebuild-index");
	return true;
}

static bool
plan_quarantine(struct repair *repair)
{
	print_plan(repair, "--quarantine");
	if (!has_beginning(repair))
		(void)printf(
			"  there is no checkpoint, and the log is not there from its beginning: "
			"definitions before that are lost, and settled messages may come back\n");
	return true;
}

/* Prints the ways; the one that was named is the state of the reading afterwards. Whether it can be done. */
static bool
plan(struct repair *repair)
{
	const char *const *values = repair->arguments->values;
	bool can = false;

	if (repair->reading.faults.counts[INSPECT_DAMAGE] == 0)
		return plan_index(repair);
	if (values[CTL_QUARANTINE] != NULL || values[CTL_CUT_TAIL] == NULL)
		can = plan_quarantine(repair);
	if (values[CTL_CUT_TAIL] != NULL || values[CTL_QUARANTINE] == NULL)
		can = plan_cut(repair);
	return can;
}

/* ---- doing it ---- */

/* The new store must hold what was to be kept. */
static int
check_new(const struct repair *repair, const char *folder)
{
	struct repair made = {.reading = {.faults = {.out = stdout}}};
	int status = reading_open(&made.reading, folder);

	if (status != CTL_OK)
		return status;
	count_kept(&made);
	if (made.kept != repair->kept || ctl_is_damaged(&made.reading.faults)) {
		ctl_complain("%s has %llu messages, not %llu: nothing was swapped", folder,
			     (unsigned long long)made.kept, (unsigned long long)repair->kept);
		status = CTL_DAMAGED;
	}
	reading_close(&made.reading);
	return status;
}

static int
copy_ranges(const struct repair *repair, const struct place *place)
{
	for (size_t i = 0; i < repair->range_count; i++) {
		const struct damaged_range *range = &repair->ranges[i];
		int error = range->size == 0 ? 0
					     : place_quarantine(place, range->path, range->offset,
								range->size);

		if (error != 0) {
			ctl_complain("cannot copy %s to quarantine: %s", range->path,
				     strerror(-error));
			return CTL_DAMAGED;
		}
	}
	return CTL_OK;
}

static int
make_new(struct repair *repair, const struct place *place)
{
	int status = repair_write(repair, place->made) == 0 ? CTL_OK : CTL_DAMAGED;

	if (status == CTL_OK)
		status = check_new(repair, place->made);
	if (status == CTL_OK && repair->arguments->values[CTL_QUARANTINE] != NULL)
		status = copy_ranges(repair, place);
	return status;
}

static int
carry_out(struct repair *repair)
{
	struct place place;
	int status =
		place_make(&place, repair->arguments->dir, repair->arguments->values[CTL_INTO]);

	if (status == CTL_OK) {
		place_become_owner(&place);
		status = make_new(repair, &place);
		place_become_self();
	}
	if (status == CTL_OK)
		status = place_swap(&place);
	place_fini(&place);
	return status;
}

/* After the plan was printed. */
static int
decide(struct repair *repair, bool can)
{
	const char *const *values = repair->arguments->values;
	bool damaged = repair->reading.faults.counts[INSPECT_DAMAGE] > 0;

	if (values[CTL_YES] == NULL) {
		(void)printf("\nnothing was changed; add --yes%s to do it\n",
			     damaged && values[CTL_CUT_TAIL] == NULL &&
					     values[CTL_QUARANTINE] == NULL
				     ? " and one of the two"
				     : "");
		return CTL_DAMAGED;
	}
	if (damaged && values[CTL_CUT_TAIL] == NULL && values[CTL_QUARANTINE] == NULL)
		return ctl_complain("--yes needs --cut-tail or --quarantine: nothing was changed");
	if (!can || repair->unwritable > 0) {
		ctl_complain("this cannot be done: nothing was changed");
		return CTL_DAMAGED;
	}
	(void)fflush(stdout);
	return carry_out(repair);
}

static int
run(struct repair *repair)
{
	const struct ctl_faults *faults = &repair->reading.faults;
	bool index = faults->counts[INSPECT_INDEX] > 0 ||
		     repair->arguments->values[CTL_REBUILD_INDEX] != NULL;

	if (faults->counts[INSPECT_NEWER] > 0) {
		ctl_complain("a newer version wrote in this store: use its pannierctl");
		return CTL_DAMAGED;
	}
	if (faults->counts[INSPECT_DAMAGE] == 0 && !index) {
		(void)printf("nothing is damaged; nothing to repair\n");
		return CTL_OK;
	}
	return decide(repair, plan(repair));
}

int
store_repair(const struct ctl_arguments *arguments)
{
	struct repair repair = {
		.reading = {.faults = {.out = stdout}, .fault = on_fault},
		.arguments = arguments,
		.first_lost = UINT64_MAX,
	};
	int status;

	if (arguments->values[CTL_CUT_TAIL] != NULL && arguments->values[CTL_QUARANTINE] != NULL)
		return ctl_complain("--cut-tail and --quarantine exclude each other");
	repair.reading.context = &repair;
	repair.reading.without_checkpoints = arguments->values[CTL_REBUILD_INDEX] != NULL;
	status = reading_open(&repair.reading, arguments->dir);
	if (status != CTL_OK)
		return status;
	status = run(&repair);
	for (size_t i = 0; i < repair.range_count; i++)
		xfree(repair.ranges[i].path);
	xfree(repair.ranges);
	reading_close(&repair.reading);
	return ctl_end_output(stdout, "stdout", status);
}
