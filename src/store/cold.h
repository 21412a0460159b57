/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cold part of a queue: its messages from log->cold_from on, of which nothing is in memory. Broker
 * thread.
 */
#pragma once

#include "reader.h"

/* Reads again what had to wait for a batch to be written or a segment to be sealed. */
void cold_retry(struct store *store);
/* The same for store_read_these(); forgets what it asked for. */
void pick_retry(struct store *store);
void pick_forget(struct store *store, struct queue_log *log);
/* Neither settled nor known to be unreadable. */
bool cold_is_wanted(const struct queue_log *log, uint64_t qseq);
/* It is not asked for again in this run: when what is at hand goes back to the disk, this is not counted with
 * it. */
void cold_leave_unread(struct queue_log *log, uint64_t qseq);
/* One of the cold part is so no more, with a body of so many octets, otherwise than by being read in order. */
void cold_count_out(struct store *store, struct queue_log *log, uint64_t octets);
/* A read of the queue, without what is to be read. */
struct read_job *read_job_new(struct store *store, struct queue_log *log);
void read_job_free(struct read_job *job);
struct tail_entry;
void read_job_add_tail(struct read_job *job, const struct tail_entry *entry, uint64_t qseq);
/* The message that was read for an item, not a damaged one; its views borrow from the job. */
void read_item_message(const struct read_job *job, const struct read_item *item,
		       struct stored_message *message);
/* All is cold that is open: after recovery. */
void cold_begin(struct queue_log *log);
/* The messages of these ranges (ascending) were settled unread, but for those in before, which were settled
 * already; both are taken over. Takes them off what is live in sealed segments, once the helper has found
 * where they are. */
void cold_locate(struct store *store, uint64_t queue_id, struct settled_range *ranges,
		 uint32_t count, struct qseq_set *before);
/* The queue goes, and its cold part with it. */
void cold_drop(struct store *store, struct queue_log *log);
