/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cold part of store_fixture.h: which references are in memory and which are not, and what comes back
 * when they are read.
 */
#include "lib/store_fixture.h"

#include "store/internal.h"

/* Rounds after which reading is given up. */
#define READ_ROUNDS 100000

/* ---- what is read ---- */

/* Which of the message's references this is. */
static uint32_t
ref_index(const struct message_record *record, uint64_t queue_id, uint64_t qseq)
{
	uint32_t at = 0;

	for (; at < record->ref_count; at++) {
		struct message_ref ref =
			message_ref_decode(record->refs + (size_t)at * MESSAGE_REF_SIZE);

		if (ref.queue_id == queue_id && ref.qseq == qseq)
			break;
	}
	expect(at < record->ref_count, "queue %llu: number %llu is another message",
	       (unsigned long long)queue_id, (unsigned long long)qseq);
	return at;
}

static struct ledger_ref *
find_ref(struct store_fixture *f, const struct ledger_message *message, const struct queue_log *log,
	 uint64_t qseq)
{
	struct ledger_ref *refs = f->ledger.messages[message - f->ledger.messages].refs;
	uint32_t at = 0;

	while (f->ledger.queues[refs[at].queue].log != log || refs[at].qseq != qseq)
		must(++at < message->ref_count);
	return &refs[at];
}

/* Nothing that was published before this message is still to be read. */
static void
check_order(const struct store_fixture *f, const struct ledger_message *message,
	    const struct queue_log *log)
{
	for (const struct ledger_message *m = f->ledger.messages; m < message; m++)
		for (uint32_t i = 0; i < m->ref_count; i++)
			expect(!m->refs[i].cold || m->refs[i].settled != 0 ||
				       f->ledger.queues[m->refs[i].queue].log != log,
			       "queue %llu: %llu was passed over", (unsigned long long)log->id,
			       (unsigned long long)m->refs[i].qseq);
}

void
store_fixture_on_read(void *context, struct queue_log *log, uint64_t qseq,
		      const struct stored_message *message, bool redelivered)
{
	struct store_fixture *f = context;
	const struct ledger_message *wanted = ledger_message_find(&f->ledger, message->lsn);
	uint32_t at = ref_index(&message->record, log->id, qseq);
	struct ledger_ref *ref;

	expect(wanted != NULL, "message %llu never was appended, or was settled for good",
	       (unsigned long long)message->lsn);
	ledger_check_content(wanted, message);
	expect(qseq < log->cold_from, "queue %llu: %llu was read but is cold",
	       (unsigned long long)log->id, (unsigned long long)qseq);
	if (f->reading_all) {
		*found_add_read(&f->found) =
			(struct found_read){message->lsn, at, {log->id, qseq, redelivered}};
		return;
	}
	ref = find_ref(f, wanted, log, qseq);
	expect(ref->settled == 0 && ref->cold, "queue %llu: %llu comes again",
	       (unsigned long long)log->id, (unsigned long long)qseq);
	ref->cold = false;
	ref->came = true;
	check_order(f, wanted, log);
}

void
store_fixture_on_read_end(void *context, struct queue_log *log)
{
	struct store_fixture *f = context;

	must(!log->reading);
	f->read_ends++;
}

/* Reads one queue out, which has nothing that is not stable. */
static void
read_out(struct store_fixture *f, struct queue_log *log)
{
	for (unsigned i = 0; log->cold_count > 0; i++) {
		expect(i < READ_ROUNDS, "queue %llu: %llu messages cannot be read",
		       (unsigned long long)log->id, (unsigned long long)log->cold_count);
		store_read(f->store, log, 100, 100000);
		store_fixture_index_and_help(f);
		store_receive(f->store);
		must(!f->failed);
	}
	must(log->cold_octets == 0);
}

/* After an opening: all that is there, so that it can be compared. */
void
store_fixture_read_all(struct store_fixture *f)
{
	f->reading_all = true;
	for (size_t i = 0; i < f->found.log_count; i++)
		read_out(f, f->found.logs[i]);
	f->reading_all = false;
	found_join_reads(&f->found);
}

/* Where everything is after an opening: what was not read is cold; the rest is in memory, and that of some
 * queues goes back. */
void
store_fixture_begin_cold(struct store_fixture *f)
{
	for (size_t i = 0; i < f->ledger.message_count; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++)
			f->ledger.messages[i].refs[n].cold =
				f->skips && f->ledger.messages[i].refs[n].settled == 0;
	for (uint32_t i = 0; i < f->ledger.queue_count && !f->skips; i++)
		if (store_fixture_random(f, 2) == 0)
			store_fixture_evict(f, i, 1);
}

/* ---- what is asked ---- */

void
store_fixture_read(struct store_fixture *f, uint32_t queue, uint32_t count, uint64_t octets)
{
	store_read(f->store, f->ledger.queues[queue].log, count, octets);
}

void
store_fixture_read_out(struct store_fixture *f, uint32_t queue, uint32_t count, uint64_t octets)
{
	const struct queue_log *log = f->ledger.queues[queue].log;

	for (unsigned i = 0; log->cold_count > 0; i++) {
		expect(i < READ_ROUNDS, "queue %llu: %llu messages cannot be read",
		       (unsigned long long)log->id, (unsigned long long)log->cold_count);
		store_fixture_read(f, queue, count, octets);
		store_fixture_submit(f, false);
		store_fixture_work(f);
		f->now.monotonic_ms++;
	}
}

void
store_fixture_evict(struct store_fixture *f, uint32_t number, uint64_t first)
{
	struct ledger_queue *queue = &f->ledger.queues[number];
	uint64_t lowest = UINT64_MAX;
	uint64_t octets = 0;
	uint64_t count = 0;

	if (queue->log == NULL || queue->log->reading)
		return;
	for (size_t i = 0; i < f->ledger.message_count; i++) {
		struct ledger_message *message = &f->ledger.messages[i];

		for (uint32_t n = 0; n < message->ref_count; n++) {
			struct ledger_ref *ref = &message->refs[n];

			if (ref->queue != number || ref->settled != 0 || ref->cold ||
			    ref->qseq < first)
				continue;
			ref->cold = true;
			lowest = min_u64(lowest, ref->qseq);
			octets += message->body_size;
			count++;
		}
	}
	if (count > 0)
		store_cold_return(queue->log, lowest, count, octets);
}

void
store_fixture_purge(struct store_fixture *f, uint32_t number)
{
	struct queue_log *log = f->ledger.queues[number].log;
	uint64_t lsn;

	if (log->cold_count == 0)
		return;
	lsn = store_purge_cold(f->store, log);
	must(lsn == store_fixture_last_lsn(f));
	must(log->cold_count == 0);
	must(log->cold_octets == 0);
	for (size_t i = 0; i < f->ledger.message_count; i++) {
		struct ledger_message *message = &f->ledger.messages[i];

		for (uint32_t n = 0; n < message->ref_count; n++)
			if (message->refs[n].queue == number && message->refs[n].cold) {
				must(message->refs[n].settled == 0);
				message->refs[n].settled = lsn;
				message->refs[n].cold = false;
			}
	}
}

/* The queue is gone: what it had in memory is released. */
void
store_fixture_release(struct store_fixture *f, uint32_t number)
{
	for (size_t i = 0; i < f->ledger.message_count; i++) {
		struct ledger_message *message = &f->ledger.messages[i];

		for (uint32_t n = 0; n < message->ref_count; n++) {
			struct ledger_ref *ref = &message->refs[n];

			if (ref->queue == number && ref->settled == 0 && !ref->cold)
				store_release(
					f->store, message->lsn,
					store_share(message->record_size, message->ref_count));
			if (ref->queue == number)
				ref->cold = false;
		}
	}
}

/* ---- recounts ---- */

static void
check_queue_cold(const struct store_fixture *f, uint32_t number)
{
	const struct queue_log *log = f->ledger.queues[number].log;
	uint64_t count = 0;
	uint64_t octets = 0;

	for (size_t i = 0; i < f->ledger.message_count; i++) {
		const struct ledger_message *message = &f->ledger.messages[i];

		for (uint32_t n = 0; n < message->ref_count; n++) {
			const struct ledger_ref *ref = &message->refs[n];

			if (ref->queue != number || ref->settled != 0)
				continue;
			if (log->cold_count > 0)
				expect(ref->cold == (ref->qseq >= log->cold_from),
				       "queue %llu: %llu is on the wrong side of %llu",
				       (unsigned long long)log->id, (unsigned long long)ref->qseq,
				       (unsigned long long)log->cold_from);
			count += ref->cold;
			octets += ref->cold ? message->body_size : 0;
		}
	}
	expect(log->cold_count == count && log->cold_octets == octets,
	       "queue %llu has %llu cold messages of %llu octets, says %llu of %llu",
	       (unsigned long long)log->id, (unsigned long long)count, (unsigned long long)octets,
	       (unsigned long long)log->cold_count, (unsigned long long)log->cold_octets);
}

/* What is open in this range of LSNs. */
static uint64_t
open_between(const struct store_fixture *f, uint64_t first, uint64_t end)
{
	uint64_t open = 0;

	for (size_t i = 0; i < f->ledger.message_count; i++) {
		const struct ledger_message *message = &f->ledger.messages[i];

		for (uint32_t n = 0; n < message->ref_count; n++)
			if (message->lsn >= first && message->lsn < end)
				open += message->refs[n].settled == 0 &&
					f->ledger.queues[message->refs[n].queue].log != NULL;
	}
	return open;
}

void
store_fixture_check_cold(const struct store_fixture *f)
{
	const struct store *store = f->store;
	uint64_t filling = store->filling->count > 0 ? store->filling->first_lsn : store->next_lsn;

	for (uint32_t i = 0; i < f->ledger.queue_count; i++)
		if (f->ledger.queues[i].log != NULL)
			check_queue_cold(f, i);
	must(store->filling->live_refs == open_between(f, filling, UINT64_MAX));
	/* what was purged unread is still being looked for */
	for (size_t i = 0; i < store->segment_count && store->locating == 0; i++) {
		uint64_t next =
			i + 1 < store->segment_count ? store->segments[i + 1]->first_lsn : filling;
		uint64_t open = open_between(f, store->segments[i]->first_lsn, next);

		expect(store->segments[i]->live_refs == open,
		       "segment %llu has %llu open references, says %llu",
		       (unsigned long long)store->segments[i]->id, (unsigned long long)open,
		       (unsigned long long)store->segments[i]->live_refs);
	}
}
