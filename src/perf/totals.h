/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all producers and consumers of a run count together. One thread.
 */
#pragma once

#include "histogram.h"
#include "util/base.h"

struct totals {
	uint64_t sent;		   // messages handed to a connection
	uint64_t received;	   // messages delivered whole
	uint64_t confirmed;	   // messages confirmed
	uint64_t refused;	   // messages that the broker nacked
	uint64_t misordered;	   // deliveries that did not follow those before them
	bool timed;		   // latencies are to be recorded now
	bool every;		   // of every message, not only of the first of each read
	uint64_t early_us;	   // how much too soon a delivery was at most
	struct histogram latency;  // intended send time to delivery, microseconds
	struct histogram confirms; // intended send time to confirm, microseconds
};
