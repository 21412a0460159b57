/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segment that is written to, the one before and the one behind. Broker thread, but for the jobs.
 */
#pragma once

#include "cold.h"
#include "reader.h"
#include "tail.h"

/* Asks the helper for the next segment, with room for at least a batch of this size, unless there is one or
 * it was asked already. */
void prepare_next(struct store *store, uint64_t batch_size);
/* The segment with room for a batch of this size; NULL: there is none yet, mail will come. */
struct segment *segment_for(struct store *store, uint64_t size);
/* Makes the prepared segment the one that is written to, from this batch on. */
void begin_segment(struct store *store, struct batch *batch, struct segment *segment);
/* Tries again what failed a while ago. */
void roll_retry(struct store *store);
/* When roll_retry() has something to do; UINT64_MAX: never. */
uint64_t roll_due_ms(const struct store *store);
/* The log ends for now: its last segment gets a footer. */
void roll_end(struct store *store);
void roll_fini(struct store *store);
