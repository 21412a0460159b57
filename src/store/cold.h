/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cold part of a queue: its messages from log->cold_from on, of which nothing is in memory. Broker
 * thread.
 */
#pragma once

#include "reader.h"

/* Reads again what had to wait for a batch to be written or a segment to be sealed. */
void cold_retry(struct store *store);
/* All is cold that is open: after recovery. */
void cold_begin(struct queue_log *log);
/* The messages of these ranges (ascending) were settled unread, but for those in before, which were settled
 * already; both are taken over. Takes them off what is live in sealed segments, once the helper has found
 * where they are. */
void cold_locate(struct store *store, uint64_t queue_id, struct settled_range *ranges,
		 uint32_t count, struct qseq_set *before);
/* The queue goes, and its cold part with it. */
void cold_drop(struct store *store, struct queue_log *log);
