/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operator sees while something is read: how far it is, and what is wrong.
 */
#include <unistd.h>

#include "util/clock.h"

#include "ctl.h"

/* How often something is said, on a terminal and elsewhere. */
#define TERMINAL_MS 200
#define OTHERWISE_MS 5000

const char *
ctl_name(struct ctl_name *room, struct bytes name)
{
	size_t n = name.n < sizeof(room->text) - 1 ? name.n : sizeof(room->text) - 1;

	for (size_t i = 0; i < n; i++)
		room->text[i] = name.p[i] < ' ' || name.p[i] == 127 ? '?' : (char)name.p[i];
	room->text[n] = '\0';
	return room->text;
}

void
ctl_progress(struct ctl_progress *progress, uint64_t done, uint64_t total)
{
	bool terminal = isatty(STDERR_FILENO) == 1;
	uint64_t now_ms = clock_monotonic_us() / 1000;
	unsigned percent = total == 0 ? 100 : (unsigned)(min_u64(done, total) * 100 / total);

	if (progress->doing == NULL)
		return;
	/* what is short says nothing */
	if (progress->said_ms == 0)
		progress->said_ms = now_ms;
	if (now_ms - progress->said_ms < (terminal ? TERMINAL_MS : OTHERWISE_MS))
		return;
	progress->said_ms = now_ms;
	progress->line_is_open = terminal;
	(void)fprintf(stderr, terminal ? "\r%s: %u %%" : "%s: %u %%\n", progress->doing, percent);
}

void
ctl_progress_end(struct ctl_progress *progress)
{
	if (progress->line_is_open)
		(void)fputs("\r\033[K", stderr);
	progress->line_is_open = false;
}

/* ---- faults ---- */

static const char *const severity_names[INSPECT_SEVERITIES] = {
	[INSPECT_NOTE] = "note",
	[INSPECT_INDEX] = "index",
	[INSPECT_NEWER] = "newer",
	[INSPECT_DAMAGE] = "damage",
};

static void
print_lost(FILE *out, const struct inspect_fault *fault)
{
	uint64_t count = fault->last_lsn - fault->first_lsn + 1;

	(void)fprintf(out, "\n  LSN %llu to %llu: %llu record%s",
		      (unsigned long long)fault->first_lsn, (unsigned long long)fault->last_lsn,
		      (unsigned long long)count, count == 1 ? "" : "s");
	if (fault->readable != 0)
		(void)fprintf(out, ", of which %llu can still be read",
			      (unsigned long long)fault->readable);
}

void
ctl_fault(struct ctl_faults *faults, const struct inspect_fault *fault)
{
	faults->counts[fault->severity]++;
	if (fault->first_lsn != 0)
		faults->lost_records += fault->last_lsn - fault->first_lsn + 1 - fault->readable;
	if (faults->out == NULL)
		return;
	if (faults->progress != NULL)
		ctl_progress_end(faults->progress);
	(void)fprintf(faults->out, "%s: %s, offset %llu", severity_names[fault->severity],
		      fault->path, (unsigned long long)fault->offset);
	if (fault->size != 0)
		(void)fprintf(faults->out, ", %llu octets", (unsigned long long)fault->size);
	(void)fprintf(faults->out, ": %s", fault->meaning);
	if (fault->first_lsn != 0)
		print_lost(faults->out, fault);
	(void)fprintf(faults->out, "\n  to do: %s\n", fault->advice);
}

bool
ctl_is_damaged(const struct ctl_faults *faults)
{
	return faults->counts[INSPECT_DAMAGE] + faults->counts[INSPECT_INDEX] +
		       faults->counts[INSPECT_NEWER] >
	       0;
}
