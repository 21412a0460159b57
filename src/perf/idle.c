/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory is looked at when it has not changed for half a second, so that what a broker needs only
 * while connections open (or frees late) does not count. One thread.
 */
#include "idle.h"

#include "client.h"
#include "complain.h"
#include "engine.h"
#include "options.h"
#include "process.h"
#include "util/mem.h"

#define LOOK_US 100000
#define QUIET_LOOKS 5
#define LOOKS_MAX 50

/* Resident memory of the broker once it stays within one in a thousand. */
static uint64_t
settled_rss(struct engine *engine, uint64_t pid)
{
	struct process_usage usage;
	uint64_t before = 0;

	for (int looks = 0, quiet = 0; looks < LOOKS_MAX && quiet < QUIET_LOOKS; looks++) {
		uint64_t until_us = engine->now_us + LOOK_US;

		while (engine->now_us < until_us)
			engine_turn(engine, (until_us - engine->now_us) / 1000 + 1);
		if (!process_usage(pid, &usage))
			fail("--broker-pid: there is no process %llu", (unsigned long long)pid);
		if (max_u64(usage.rss_bytes, before) - min_u64(usage.rss_bytes, before) <=
		    usage.rss_bytes / 1000)
			quiet++;
		else
			quiet = 0;
		before = usage.rss_bytes;
	}
	return before;
}

double
idle_measure(struct engine *engine, const struct options *options)
{
	uint64_t count = options->connections_idle;
	struct client *clients = xcalloc(count, sizeof(*clients));
	uint64_t before = settled_rss(engine, options->broker_pid), after;

	for (uint64_t i = 0; i < count; i++)
		client_open(&clients[i], engine, &options->broker, NULL);
	after = settled_rss(engine, options->broker_pid);
	for (uint64_t i = 0; i < count; i++)
		client_close(&clients[i]);
	xfree(clients);
	return ((double)after - (double)before) / (double)count;
}
