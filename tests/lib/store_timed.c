/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines and single messages of store_fixture.h: which references have a time, which of those were given, and
 * which cold ones are to be read alone.
 */
#include "lib/store_fixture.h"

#include "store/internal.h"

/* Rounds after which waiting is given up. */
#define ROUNDS 100000
/* How far from now times are. */
#define BEFORE_MS 500
#define AFTER_MS 20000
#define FAR_MS 4000000000

struct ledger_ref *
store_fixture_ref(struct store_fixture *f, const struct queue_log *log, uint64_t qseq,
		  size_t *message)
{
	for (size_t i = 0; i < f->ledger.message_count; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++) {
			struct ledger_ref *ref = &f->ledger.messages[i].refs[n];

			if (ref->qseq != qseq || f->ledger.queues[ref->queue].log != log)
				continue;
			*message = i;
			return ref;
		}
	ck_abort_msg("queue %llu has no message %llu", (unsigned long long)log->id,
		     (unsigned long long)qseq);
}

/* ---- deadlines ---- */

void
store_fixture_on_deadlines(void *context)
{
	struct store_fixture *f = context;

	f->told++;
}

uint64_t
store_fixture_time(struct store_fixture *f)
{
	switch (store_fixture_random(f, 8)) {
	case 0:
	case 1:
		return f->now.wall_ms - BEFORE_MS + store_fixture_random(f, AFTER_MS);
	case 2:
		return f->now.wall_ms + store_fixture_random(f, FAR_MS);
	case 3:
		/* many at the same time */
		return f->now.wall_ms / 1000 * 1000 + 1000;
	default:
		return 0;
	}
}

static uint64_t
time_of(const struct ledger_message *message, const struct ledger_ref *ref)
{
	return ref->due_ms != 0 ? ref->due_ms : message->expiry_ms;
}

/* What is settled by a place that came with a deadline must be what the record counts for, or what it did before a
 * merge left some of its references out. */
static void
check_place(const struct store_fixture *f, const struct ledger_message *message,
	    const struct stored_place *place)
{
	must(place->body_size == message->body_size);
	must(segment_of(f->store, place->lsn) == segment_of(f->store, message->lsn));
	if (segment_of(f->store, place->lsn) == NULL ||
	    segment_of(f->store, place->lsn)->generation == 0)
		must(place->share == store_share(message->record_size, message->ref_count));
}

static void
take_one(struct store_fixture *f, const struct store_deadline *deadline)
{
	size_t at;
	struct ledger_ref *ref = store_fixture_ref(f, deadline->log, deadline->qseq, &at);
	struct ledger_message *message = &f->ledger.messages[at];

	expect(ref->settled == 0, "queue %llu: %llu is settled",
	       (unsigned long long)deadline->log->id, (unsigned long long)deadline->qseq);
	expect(!ref->given, "queue %llu: %llu is given again",
	       (unsigned long long)deadline->log->id, (unsigned long long)deadline->qseq);
	must(deadline->time_ms == time_of(message, ref));
	check_place(f, message, &deadline->place);
	ref->given = true;
	ref->offset = deadline->place.offset;
	f->given++;
	if (!f->cold || !ref->cold || store_fixture_random(f, 2) == 0)
		return;
	ref->cold = false;
	ref->settled = store_ack_cold(f->store, f->ledger.queues[ref->queue].log, ref->qseq,
				      &deadline->place, ACK_EXPIRED);
}

uint32_t
store_fixture_take(struct store_fixture *f, uint64_t now_ms, uint32_t max)
{
	struct store_deadline *deadlines = xcalloc(max, sizeof(*deadlines));
	uint32_t n = store_take_deadlines(f->store, now_ms, deadlines, max);

	must(n <= max);
	for (uint32_t i = 0; i < n; i++) {
		must(deadlines[i].time_ms <= now_ms);
		if (i > 0)
			must(deadlines[i].time_ms >= deadlines[i - 1].time_ms);
		take_one(f, &deadlines[i]);
	}
	xfree(deadlines);
	return n;
}

void
store_fixture_take_all(struct store_fixture *f, uint64_t now_ms)
{
	for (unsigned i = 0; store_fixture_take(f, now_ms, 100) > 0 || store_fixture_help(f) ||
			     store_next_deadline(f->store) <= now_ms;
	     i++) {
		must(i < ROUNDS);
		store_receive(f->store);
		must(!f->failed);
	}
	for (size_t i = 0; i < f->ledger.message_count; i++) {
		const struct ledger_message *message = &f->ledger.messages[i];

		for (uint32_t n = 0; n < message->ref_count; n++) {
			const struct ledger_ref *ref = &message->refs[n];
			uint64_t time_ms = time_of(message, ref);

			expect(time_ms == 0 || time_ms > now_ms || ref->given ||
				       ref->settled != 0 ||
				       f->ledger.queues[ref->queue].log == NULL,
			       "queue %llu: %llu was not given",
			       (unsigned long long)f->ledger.queues[ref->queue].id,
			       (unsigned long long)ref->qseq);
		}
	}
}

/* ---- single messages ---- */

void
store_fixture_ack_cold(struct store_fixture *f, size_t number, uint32_t at, enum ack_reason reason)
{
	struct ledger_message *message = &f->ledger.messages[number];
	struct ledger_ref *ref = &message->refs[at];
	struct stored_place place = {
		.lsn = message->lsn,
		.share = store_share(message->record_size, message->ref_count),
		.body_size = message->body_size,
	};

	must(ref->settled == 0 && ref->cold);
	ref->settled = store_ack_cold(f->store, f->ledger.queues[ref->queue].log, ref->qseq, &place,
				      reason);
	ref->cold = ref->picked = false;
}

void
store_fixture_on_read_this(void *context, struct queue_log *log, uint64_t qseq,
			   const struct stored_message *message, bool redelivered)
{
	struct store_fixture *f = context;
	size_t at;
	struct ledger_ref *ref = store_fixture_ref(f, log, qseq, &at);

	must(log->picking != NULL);
	must(redelivered == (qseq < log->redelivered_below));
	expect(f->ledger.messages[at].lsn == message->lsn, "queue %llu: %llu is another message",
	       (unsigned long long)log->id, (unsigned long long)qseq);
	ledger_check_content(&f->ledger.messages[at], message);
	expect(ref->picked && ref->cold && ref->settled == 0, "queue %llu: %llu was not asked for",
	       (unsigned long long)log->id, (unsigned long long)qseq);
	ref->picked = false;
	f->picked++;
	if (store_fixture_random(f, 2) == 0)
		store_fixture_ack_cold(f, at, (uint32_t)(ref - f->ledger.messages[at].refs),
				       ACK_DEAD_LETTERED);
}

void
store_fixture_on_read_these_end(void *context, struct queue_log *log)
{
	struct store_fixture *f = context;

	must(log->picking == NULL);
	for (size_t i = 0; i < f->ledger.message_count; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++) {
			struct ledger_ref *ref = &f->ledger.messages[i].refs[n];

			if (f->ledger.queues[ref->queue].log != log)
				continue;
			expect(!ref->picked || ref->came || !ref->cold || ref->settled != 0,
			       "queue %llu: %llu was not read", (unsigned long long)log->id,
			       (unsigned long long)ref->qseq);
			ref->picked = false;
		}
}

/* Where it is said to be: a merge may have moved it since, and sometimes it never was there. */
static struct stored_place
place_of(struct store_fixture *f, const struct ledger_message *message,
	 const struct ledger_ref *ref)
{
	bool is_wrong = store_fixture_random(f, 50) == 0;

	return (struct stored_place){
		.lsn = message->lsn,
		.body_size = message->body_size,
		.offset = is_wrong ? (uint32_t)store_fixture_random(f, 100000) : ref->offset,
	};
}

void
store_fixture_pick(struct store_fixture *f, uint32_t queue, uint32_t one_in, uint32_t room)
{
	struct queue_log *log = f->ledger.queues[queue].log;
	struct store_pick *picks = xcalloc(room, sizeof(*picks));
	uint32_t count = 0;

	if (log->picking != NULL) {
		xfree(picks);
		return;
	}
	for (size_t i = 0; i < f->ledger.message_count && count < room; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++) {
			struct ledger_ref *ref = &f->ledger.messages[i].refs[n];

			if (ref->queue != queue || !ref->cold || ref->settled != 0 ||
			    store_fixture_random(f, one_in) != 0)
				continue;
			ref->picked = true;
			ref->came = false;
			picks[count++] = (struct store_pick){
				ref->qseq, place_of(f, &f->ledger.messages[i], ref)};
		}
	store_read_these(f->store, log, picks, count);
	xfree(picks);
}
