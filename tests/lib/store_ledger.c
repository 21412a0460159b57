/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/store_ledger.h"

#include <stdlib.h>

#include "store/qseq_counts.h"
#include "util/mem.h"

#define PATTERN_SIZE (256 * 1024)

/* Makes room for one more item of an array that doubles. */
static void *
more(void *items, size_t count, size_t size)
{
	if ((count & (count - 1)) != 0)
		return items;
	return xrealloc(items, (count == 0 ? 1 : 2 * count) * size);
}

/* A copy that more() can let grow. */
static void *
copy_items(const void *items, size_t count, size_t size)
{
	size_t room = 1;
	void *copy;

	if (count == 0)
		return NULL;
	while (room < count)
		room *= 2;
	copy = xmalloc(room * size);
	memcpy(copy, items, count * size);
	return copy;
}

void
ledger_init(struct ledger *ledger)
{
	*ledger = (struct ledger){.least_queue_id = 1};
	ledger_add_end(ledger, 0);
}

void
ledger_fini(struct ledger *ledger)
{
	xfree(ledger->queues);
	xfree(ledger->messages);
	xfree(ledger->changes);
	xfree(ledger->ends);
}

void
ledger_copy(struct ledger *to, const struct ledger *from)
{
	*to = *from;
	to->queues = copy_items(from->queues, from->queue_count, sizeof(*from->queues));
	to->messages = copy_items(from->messages, from->message_count, sizeof(*from->messages));
	to->changes = copy_items(from->changes, from->change_count, sizeof(*from->changes));
	to->ends = copy_items(from->ends, from->end_count, sizeof(*from->ends));
}

struct ledger_queue *
ledger_add_queue(struct ledger *ledger)
{
	struct ledger_queue *queue;

	ledger->queues = more(ledger->queues, ledger->queue_count, sizeof(*ledger->queues));
	queue = &ledger->queues[ledger->queue_count++];
	*queue = (struct ledger_queue){.next_qseq = 1, .least_qseq = 1};
	return queue;
}

struct ledger_message *
ledger_add_message(struct ledger *ledger)
{
	struct ledger_message *message;

	ledger->messages = more(ledger->messages, ledger->message_count, sizeof(*ledger->messages));
	message = &ledger->messages[ledger->message_count++];
	*message = (struct ledger_message){0};
	return message;
}

void
ledger_add_change(struct ledger *ledger, uint64_t lsn, uint32_t thing, uint32_t value)
{
	assert(thing < LEDGER_THINGS);
	ledger->changes = more(ledger->changes, ledger->change_count, sizeof(*ledger->changes));
	ledger->changes[ledger->change_count++] = (struct ledger_change){lsn, thing, value};
}

void
ledger_add_end(struct ledger *ledger, uint64_t lsn)
{
	if (ledger->end_count > 0 && ledger->ends[ledger->end_count - 1] >= lsn)
		return;
	ledger->ends = more(ledger->ends, ledger->end_count, sizeof(*ledger->ends));
	ledger->ends[ledger->end_count++] = lsn;
}

uint32_t
ledger_thing(const struct ledger *ledger, uint32_t thing, uint64_t lsn)
{
	for (size_t i = ledger->change_count; i > 0; i--) {
		const struct ledger_change *change = &ledger->changes[i - 1];

		if (change->thing == thing && change->lsn <= lsn)
			return change->value;
	}
	return 0;
}

bool
ledger_queue_is_there(const struct ledger_queue *queue, uint64_t lsn)
{
	return queue->defined != 0 && queue->defined <= lsn &&
	       (queue->removed == 0 || queue->removed > lsn);
}

static bool
ref_is_open(const struct ledger *ledger, const struct ledger_ref *ref, uint64_t lsn)
{
	return (ref->settled == 0 || ref->settled > lsn) &&
	       ledger_queue_is_there(&ledger->queues[ref->queue], lsn);
}

static size_t
open_refs(const struct ledger *ledger, const struct ledger_message *message, uint64_t lsn)
{
	size_t open = 0;

	for (uint32_t i = 0; i < message->ref_count && message->lsn <= lsn; i++)
		open += ref_is_open(ledger, &message->refs[i], lsn);
	return open;
}

size_t
ledger_open_refs(const struct ledger *ledger, uint64_t lsn)
{
	size_t open = 0;

	for (size_t i = 0; i < ledger->message_count; i++)
		open += open_refs(ledger, &ledger->messages[i], lsn);
	return open;
}

const struct ledger_message *
ledger_message_find(const struct ledger *ledger, uint64_t lsn)
{
	size_t low = 0;
	size_t high = ledger->message_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (ledger->messages[middle].lsn < lsn)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ledger->message_count && ledger->messages[low].lsn == lsn
		       ? &ledger->messages[low]
		       : NULL;
}

/* ---- contents ---- */

static const uint8_t *
pattern(void)
{
	static uint8_t octets[PATTERN_SIZE];
	uint32_t x = 1;

	if (octets[0] == 0) {
		for (size_t i = 0; i < PATTERN_SIZE; i++) {
			x = x * 1664525 + 1013904223;
			octets[i] = (uint8_t)(x >> 24) | 1;
		}
	}
	return octets;
}

struct message_record
ledger_content(uint32_t number, uint32_t body_size)
{
	const uint8_t *p = pattern();

	assert(body_size <= PATTERN_SIZE / 2);
	return (struct message_record){
		.time_ms = 1000 + number,
		.exchange = bytes_of(p + number % 700, number % 3),
		.key = bytes_of(p + number % 900, number % 40),
		.properties = bytes_of(p + number % 5000, 1 + number % 30),
		.body = bytes_of(p + number % 100000, body_size),
	};
}

/* The due times of the references that are there. */
static void
check_due_times(const struct ledger_message *wanted, const struct message_record *record)
{
	struct ref_times times = ref_times_of(record);

	for (uint32_t i = 0; i < record->ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(record->refs + (size_t)i * MESSAGE_REF_SIZE);
		uint64_t ms = ref_times_next(&times, ref.flags);
		uint32_t at = 0;

		while (wanted->refs[at].qseq != ref.qseq ||
		       (wanted->refs[at].due_ms != 0) != (ref.flags == REF_DUE) ||
		       (ref.flags == REF_DUE ? wanted->refs[at].due_ms : wanted->expiry_ms) != ms)
			must(++at < wanted->ref_count);
	}
}

void
ledger_check_content(const struct ledger_message *wanted, const struct stored_message *message)
{
	const struct message_record *record = &message->record;
	struct message_record content = ledger_content(wanted->number, wanted->body_size);

	/* compaction leaves settled references out */
	must(record->ref_count > 0);
	must(record->ref_count <= wanted->ref_count);
	must(message->record_size ==
	     8 * (uint64_t)record->time_count +
		     message_record_size(record->ref_count, content.exchange.n, content.key.n,
					 content.properties.n, content.body.n));
	must(record->time_ms == content.time_ms);
	must(record->expiry_ms == wanted->expiry_ms);
	check_due_times(wanted, record);
	must(bytes_equal(record->exchange, content.exchange));
	must(bytes_equal(record->key, content.key));
	must(bytes_equal(record->properties, content.properties));
	expect(bytes_equal(record->body, content.body), "message %llu has another body",
	       (unsigned long long)message->lsn);
}

/* ---- what was found ---- */

void
found_init(struct found *found)
{
	*found = (struct found){0};
}

void
found_fini(struct found *found)
{
	xfree(found->logs);
	xfree(found->messages);
	xfree(found->reads);
}

void
found_add_log(struct found *found, struct queue_log *log)
{
	found->logs = more(found->logs, found->log_count, sizeof(struct queue_log *));
	found->logs[found->log_count++] = log;
}

void
found_remove_log(struct found *found, uint64_t id)
{
	size_t kept = 0;

	for (size_t i = 0; i < found->log_count; i++)
		if (found->logs[i]->id != id)
			found->logs[kept++] = found->logs[i];
	expect(kept + 1 == found->log_count, "queue %llu is removed but is not there",
	       (unsigned long long)id);
	found->log_count = kept;
}

struct found_message *
found_add_message(struct found *found)
{
	found->messages = more(found->messages, found->message_count, sizeof(*found->messages));
	return &found->messages[found->message_count++];
}

struct found_read *
found_add_read(struct found *found)
{
	found->reads = more(found->reads, found->read_count, sizeof(*found->reads));
	return &found->reads[found->read_count++];
}

static int
compare_reads(const void *a, const void *b)
{
	const struct found_read *x = a;
	const struct found_read *y = b;

	if (x->lsn != y->lsn)
		return x->lsn < y->lsn ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

void
found_join_reads(struct found *found)
{
	struct found_message *message = NULL;

	for (size_t i = 1; i < found->read_count; i++)
		expect(found->reads[i].ref.queue_id != found->reads[i - 1].ref.queue_id ||
			       found->reads[i].ref.qseq > found->reads[i - 1].ref.qseq,
		       "queue %llu: %llu comes behind %llu",
		       (unsigned long long)found->reads[i].ref.queue_id,
		       (unsigned long long)found->reads[i].ref.qseq,
		       (unsigned long long)found->reads[i - 1].ref.qseq);
	if (found->read_count > 1)
		qsort(found->reads, found->read_count, sizeof(*found->reads), compare_reads);
	for (size_t i = 0; i < found->read_count; i++) {
		if (message == NULL || message->lsn != found->reads[i].lsn) {
			message = found_add_message(found);
			*message = (struct found_message){.lsn = found->reads[i].lsn};
		}
		must(message->ref_count < LEDGER_REFS);
		message->refs[message->ref_count++] = found->reads[i].ref;
	}
}

/* ---- comparing ---- */

static const struct queue_log *
find_log(const struct found *found, uint64_t id)
{
	for (size_t i = 0; i < found->log_count; i++)
		if (found->logs[i]->id == id)
			return found->logs[i];
	return NULL;
}

static uint64_t
used_qseq(const struct ledger *ledger, uint32_t queue, uint64_t lsn)
{
	uint64_t next = ledger->queues[queue].least_qseq;

	for (size_t i = 0; i < ledger->message_count && ledger->messages[i].lsn <= lsn; i++)
		for (uint32_t n = 0; n < ledger->messages[i].ref_count; n++)
			if (ledger->messages[i].refs[n].queue == queue)
				next = max_u64(next, ledger->messages[i].refs[n].qseq + 1);
	return next;
}

static void
compare_queues(const struct ledger *ledger, const struct found *found, uint64_t lsn)
{
	size_t there = 0;

	for (uint32_t i = 0; i < ledger->queue_count; i++) {
		const struct ledger_queue *queue = &ledger->queues[i];
		const struct queue_log *log;

		if (!ledger_queue_is_there(queue, lsn))
			continue;
		log = find_log(found, queue->id);
		expect(log != NULL, "queue %llu is lost", (unsigned long long)queue->id);
		expect(log->next_qseq >= used_qseq(ledger, i, lsn),
		       "queue %llu would use numbers again: %llu", (unsigned long long)queue->id,
		       (unsigned long long)log->next_qseq);
		there++;
	}
	expect(there == found->log_count, "%zu queues were found, there are %zu", found->log_count,
	       there);
}

/* A message must be flagged when it may have been delivered: once it was, or when its queue had
 * delivered and was not stopped cleanly. */
static void
compare_flag(const struct ledger *ledger, const struct ledger_queue *queue,
	     const struct found_ref *ref, uint64_t lsn)
{
	bool marked = queue->delivered != 0 && queue->delivered <= lsn;
	bool before = ref->qseq < queue->flagged_below;

	if (before || (marked && ledger->stop == LEDGER_UNCLEAN))
		expect(ref->redelivered, "queue %llu: %llu may have been delivered",
		       (unsigned long long)ref->queue_id, (unsigned long long)ref->qseq);
	else if (!ledger->may_flag && (!marked || ledger->stop == LEDGER_CLEAN))
		expect(!ref->redelivered, "queue %llu: %llu cannot have been delivered",
		       (unsigned long long)ref->queue_id, (unsigned long long)ref->qseq);
}

static void
compare_message(const struct ledger *ledger, const struct ledger_message *message,
		const struct found_message *found, uint64_t lsn)
{
	uint32_t at = 0;

	expect(found->lsn == message->lsn, "message %llu was found, %llu should be next",
	       (unsigned long long)found->lsn, (unsigned long long)message->lsn);
	for (uint32_t i = 0; i < message->ref_count; i++) {
		const struct ledger_ref *ref = &message->refs[i];
		const struct ledger_queue *queue = &ledger->queues[ref->queue];

		if (!ref_is_open(ledger, ref, lsn))
			continue;
		expect(at < found->ref_count && found->refs[at].queue_id == queue->id &&
			       found->refs[at].qseq == ref->qseq,
		       "message %llu: its place in queue %llu is lost",
		       (unsigned long long)message->lsn, (unsigned long long)queue->id);
		compare_flag(ledger, queue, &found->refs[at], lsn);
		at++;
	}
	expect(at == found->ref_count, "message %llu: settled places are back",
	       (unsigned long long)message->lsn);
}

static void
compare_end(const struct ledger *ledger, uint64_t lsn)
{
	size_t i = 0;

	while (i < ledger->end_count && ledger->ends[i] < lsn)
		i++;
	expect(i < ledger->end_count && ledger->ends[i] == lsn,
	       "the log ends at %llu, which is no end of a batch", (unsigned long long)lsn);
	expect(lsn >= ledger->stable, "the log ends at %llu, but %llu was reported stable",
	       (unsigned long long)lsn, (unsigned long long)ledger->stable);
}

void
ledger_compare_definitions(const struct ledger *ledger, const struct found *found, uint64_t lsn)
{
	compare_end(ledger, lsn);
	compare_queues(ledger, found, lsn);
	for (uint32_t i = 0; i < LEDGER_THINGS; i++)
		expect(found->things[i] == ledger_thing(ledger, i, lsn), "thing %u is %u, not %u",
		       i, found->things[i], ledger_thing(ledger, i, lsn));
}

void
ledger_compare(const struct ledger *ledger, const struct found *found, uint64_t lsn)
{
	size_t at = 0;

	ledger_compare_definitions(ledger, found, lsn);
	for (size_t i = 0; i < ledger->message_count; i++) {
		const struct ledger_message *message = &ledger->messages[i];

		if (open_refs(ledger, message, lsn) == 0)
			continue;
		expect(at < found->message_count, "message %llu is lost",
		       (unsigned long long)message->lsn);
		compare_message(ledger, message, &found->messages[at++], lsn);
	}
	expect(at == found->message_count, "message %llu is there again",
	       (unsigned long long)found->messages[min_u64(at, found->message_count - 1)].lsn);
}

/* How often it had come back at this LSN. */
static uint32_t
returns_of(const struct ledger_ref *ref, uint64_t lsn)
{
	uint32_t count = 0;

	while (count < LEDGER_RETURNS && ref->returned[count] != 0 && ref->returned[count] <= lsn)
		count++;
	return count;
}

void
ledger_compare_returns(const struct ledger *ledger, uint64_t lsn)
{
	uint64_t there = 0;
	uint64_t known = 0;

	for (size_t i = 0; i < ledger->message_count; i++) {
		const struct ledger_message *message = &ledger->messages[i];

		for (uint32_t n = 0; n < message->ref_count && message->lsn <= lsn; n++) {
			const struct ledger_ref *ref = &message->refs[n];
			const struct queue_log *log = ledger->queues[ref->queue].log;
			uint32_t count = returns_of(ref, lsn);

			if (log == NULL || !ref_is_open(ledger, ref, lsn))
				continue;
			expect(store_returns(log, ref->qseq) == count,
			       "queue %llu: %llu came back %u times, not %u",
			       (unsigned long long)log->id, (unsigned long long)ref->qseq, count,
			       store_returns(log, ref->qseq));
			there += count > 0;
		}
	}
	for (uint32_t i = 0; i < ledger->queue_count; i++)
		if (ledger->queues[i].log != NULL && ledger->queues[i].log->returns != NULL) {
			qseq_counts_check(ledger->queues[i].log->returns);
			known += ledger->queues[i].log->returns->used;
		}
	expect(known == there, "counts of %llu messages are kept that are settled",
	       (unsigned long long)(known - there));
}

/* ---- cutting ---- */

static void
cut_queues(struct ledger *ledger, uint64_t lsn)
{
	ledger->least_queue_id = 1;
	for (uint32_t i = 0; i < ledger->queue_count; i++) {
		struct ledger_queue *queue = &ledger->queues[i];

		queue->least_qseq = used_qseq(ledger, i, lsn);
		if (queue->delivered > lsn || ledger->stop == LEDGER_CLEAN)
			queue->delivered = 0;
		if (queue->removed > lsn)
			queue->removed = 0;
		if (queue->defined > lsn)
			queue->defined = 0;
		if (queue->defined != 0)
			ledger->least_queue_id = max_u64(ledger->least_queue_id, queue->id + 1);
	}
}

/* Messages that are settled for good need not be remembered. */
static void
cut_messages(struct ledger *ledger, uint64_t lsn)
{
	size_t kept = 0;

	for (size_t i = 0; i < ledger->message_count; i++) {
		struct ledger_message *message = &ledger->messages[i];

		if (open_refs(ledger, message, lsn) == 0)
			continue;
		for (uint32_t n = 0; n < message->ref_count; n++) {
			if (message->refs[n].settled > lsn)
				message->refs[n].settled = 0;
			for (uint32_t at = returns_of(&message->refs[n], lsn); at < LEDGER_RETURNS;
			     at++)
				message->refs[n].returned[at] = 0;
		}
		ledger->messages[kept++] = *message;
	}
	ledger->message_count = kept;
}

void
ledger_cut(struct ledger *ledger, uint64_t lsn)
{
	size_t kept = 0;

	cut_queues(ledger, lsn);
	cut_messages(ledger, lsn);
	while (kept < ledger->change_count && ledger->changes[kept].lsn <= lsn)
		kept++;
	ledger->change_count = kept;
	ledger->ends[0] = lsn;
	ledger->end_count = 1;
	ledger->stable = lsn;
}
