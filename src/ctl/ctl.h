/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands share: the command line, the opened store, words for faults.
 */
#pragma once

#include <stdio.h>

#include "store/inspect.h"

#define CTL_PROGRAM "pannierctl"
#define CTL_DEFAULT_DIR "/var/lib/pannier"

/* Exit statuses. */
enum ctl_status {
	CTL_OK = 0,
	CTL_DAMAGED = 1, // it was found; or the command could not do what it should
	CTL_USAGE = 2	 // wrong arguments, or the store cannot be opened
};

enum ctl_option {
#define OPTION(name, long_form, short_form, argument, verbs, help) CTL_##name,
#include "options.def"
#undef OPTION
	CTL_OPTIONS
};

/* A command line that was read. */
struct ctl_arguments {
	const char *values[CTL_OPTIONS]; // borrow from argv; NULL: not given; "": a flag that is
	const char *operand;		 // borrows from argv; NULL: none
	const char *dir;		 // borrows; -D or its default
	uint64_t from;
	uint64_t to;	   // UINT64_MAX when not given
	uint64_t queue_id; // 0: not given
};

#define COMMAND(noun, verb, operand, line, text) \
	int noun##_##verb(const struct ctl_arguments *arguments);
#include "commands.def"
#undef COMMAND

/* One line on stderr; returns CTL_USAGE. */
int ctl_complain(const char *format, ...) PRINTF_LIKE(1, 2);
/* Everything was printed: status, or CTL_DAMAGED with a line when that failed. */
int ctl_end_output(FILE *out, const char *name, int status);

/* A name for the eyes: control characters, which a terminal would obey, are '?'. */
struct ctl_name {
	char text[256];
};

const char *ctl_name(struct ctl_name *room, struct bytes name);

/* ---- progress of long work ---- */

struct ctl_progress {
	const char *doing; // borrows; NULL: say nothing
	uint64_t said_ms;  // when something was said; 0: never
	bool line_is_open; // the terminal's cursor stands behind it
};

void ctl_progress(struct ctl_progress *progress, uint64_t done, uint64_t total);
/* Before anything else is printed on the terminal. */
void ctl_progress_end(struct ctl_progress *progress);

/* ---- faults ---- */

/* What was found, by severity. */
struct ctl_faults {
	FILE *out;		       // where they are printed; NULL: nowhere
	struct ctl_progress *progress; // borrows; NULL: none
	uint64_t counts[INSPECT_SEVERITIES];
	uint64_t lost_records; // in ranges of LSNs that are known
};

void ctl_fault(struct ctl_faults *faults, const struct inspect_fault *fault);
/* Whether something is wrong. */
bool ctl_is_damaged(const struct ctl_faults *faults);

/* ---- the store ---- */

struct ctl_store {
	struct disk *disk;	 // owns
	int lock;		 // descriptor that holds LOCK; -1: there is no such file
	struct inspect *inspect; // owns
};

/* Opens the store of a folder for looking, and keeps others from it meanwhile where it has a LOCK. CTL_OK, or
 * another status with a line on stderr. */
int ctl_store_open(struct ctl_store *store, const char *dir, const struct inspect_ops *ops,
		   void *context) MUST_CHECK;
void ctl_store_close(struct ctl_store *store);
