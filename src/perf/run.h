/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run: sets up, loads the broker, measures, drains, takes down. What it found is a struct result, which
 * report.h prints.
 */
#pragma once

#include "process.h"
#include "totals.h"
#include "util/base.h"

struct options;

/* The counts at one moment. */
struct snapshot {
	uint64_t at_us;		     // monotonic
	uint64_t sent;		     // of totals
	uint64_t received;	     // of totals
	uint64_t confirmed;	     // of totals
	uint64_t own_cpu_us;	     // of this program
	struct process_usage broker; // zero without --broker-pid
};

struct result {
	struct snapshot begin; // of what is measured
	struct snapshot end;   // of what is measured
	struct totals totals;  // of the whole run, what came before and after included
	uint64_t expected;     // deliveries that the whole run had to make
	uint64_t missing;      // of these: not delivered (without consumers: not in the queues)
	double idle_bytes;     // resident memory of the broker for each idle connection
	bool loaded;	       // there was a load, not only idle connections
};

/* Runs, and fills result. Ends the program on any error. */
void run(const struct options *options, struct result *result);
/* Prints a line on stderr about the time since the last one. */
void report_second(const struct snapshot *last, const struct snapshot *now, double since_start);
/* Prints the result on stdout: a table, or JSON. */
void report_result(const struct options *options, const struct result *result);
