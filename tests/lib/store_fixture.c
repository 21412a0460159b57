/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/store_fixture.h"

#include <stdio.h>

/* To step the two workers apart and to see what was handed over. */
#include "store/internal.h"

/* Rounds after which flushing is given up: a store with nothing but sound jobs needs a handful. */
#define FLUSH_ROUNDS 1000

/* ---- what the store says ---- */

/* Things are exchanges, their value is the type. */
static struct definition
thing_definition(char text[16], char value_text[16], uint32_t thing, uint32_t value)
{
	(void)snprintf(text, 16, "thing-%u", thing);
	(void)snprintf(value_text, 16, "%u", value);
	return (struct definition){
		.kind = DEFINITION_EXCHANGE,
		.removed = value == 0,
		.vhost = bytes_of("/", 1),
		.name = bytes_of(text, strlen(text)),
		.type = value == 0 ? bytes_of(NULL, 0) : bytes_of(value_text, strlen(value_text)),
	};
}

static struct definition
queue_definition(char text[32], uint64_t id, bool removed)
{
	(void)snprintf(text, 32, "queue-%llu", (unsigned long long)id);
	return (struct definition){
		.kind = DEFINITION_QUEUE,
		.removed = removed,
		.vhost = bytes_of("/", 1),
		.name = bytes_of(text, strlen(text)),
		.queue_id = id,
	};
}

static uint32_t
number_of(struct bytes text)
{
	uint32_t number = 0;

	for (size_t i = 0; i < text.n; i++) {
		must(text.p[i] >= '0' && text.p[i] <= '9');
		number = number * 10 + (uint32_t)(text.p[i] - '0');
	}
	return number;
}

static void
found_thing(struct store_fixture *f, const struct definition *definition)
{
	uint32_t thing;

	must(definition->name.n > 6);
	thing = number_of(bytes_of(definition->name.p + 6, definition->name.n - 6));
	must(thing < LEDGER_THINGS);
	f->found.things[thing] = definition->removed ? 0 : number_of(definition->type);
}

static void
found_queue(struct store_fixture *f, const struct definition *definition, struct queue_log *log)
{
	char text[32];
	struct definition wanted =
		queue_definition(text, definition->queue_id, definition->removed);

	must(bytes_equal(wanted.name, definition->name));
	if (definition->removed) {
		must(log != NULL);
		log->owner = NULL;
		found_remove_log(&f->found, definition->queue_id);
		return;
	}
	must(log != NULL);
	must(log->id == definition->queue_id);
	log->owner = f;
	found_add_log(&f->found, log);
}

static void
on_define(void *context, const struct definition *definition, struct queue_log *log)
{
	struct store_fixture *f = context;

	expect(f->found.message_count == 0, "a definition comes behind messages");
	must(bytes_equal(definition->vhost, bytes_of("/", 1)));
	if (definition->kind == DEFINITION_QUEUE)
		found_queue(f, definition, log);
	else
		found_thing(f, definition);
}

static void
on_message(void *context, const struct stored_message *message, const struct stored_ref *refs,
	   uint32_t count)
{
	struct store_fixture *f = context;
	const struct ledger_message *wanted = ledger_message_find(&f->ledger, message->lsn);
	struct found_message *found = found_add_message(&f->found);

	expect(wanted != NULL, "message %llu never was appended, or was settled for good",
	       (unsigned long long)message->lsn);
	ledger_check_content(wanted, message);
	must(count > 0);
	must(count <= LEDGER_REFS);
	found->lsn = message->lsn;
	found->ref_count = count;
	for (uint32_t i = 0; i < count; i++) {
		expect(refs[i].log->owner == f, "a message of a queue that is not there");
		found->refs[i] =
			(struct found_ref){refs[i].log->id, refs[i].qseq, refs[i].redelivered};
	}
}

/* For each thing and queue that is there. */
static void
on_snapshot(void *context, struct store *store)
{
	struct store_fixture *f = context;
	struct definition definition;
	char text[32];
	char value[16];

	for (uint32_t i = 0; i < f->ledger.queue_count; i++) {
		if (f->ledger.queues[i].log == NULL)
			continue;
		f->ledger.queues[i].log->next_qseq = f->ledger.queues[i].next_qseq;
		definition = queue_definition(text, f->ledger.queues[i].id, false);
		store_snapshot_add(store, &definition);
	}
	for (uint32_t i = 0; i < LEDGER_THINGS; i++) {
		uint32_t there = ledger_thing(&f->ledger, i, UINT64_MAX);

		definition = thing_definition(text, value, i, there);
		if (there != 0)
			store_snapshot_add(store, &definition);
	}
}

static void
on_stable(void *context, uint64_t lsn)
{
	struct store_fixture *f = context;

	f->stable_calls++;
	must(lsn > f->ledger.stable);
	if (f->store != NULL)
		must(lsn <= store_fixture_last_lsn(f));
	f->ledger.stable = lsn;
	/* store_close() hands over on its own */
	ledger_add_end(&f->ledger, lsn);
}

static void
on_short_of_space(void *context, bool is_short)
{
	struct store_fixture *f = context;

	must(f->is_short != is_short);
	f->short_calls++;
	f->is_short = is_short;
}

static void
on_failed(void *context, int error, const char *what)
{
	struct store_fixture *f = context;

	must(!f->failed);
	must(error < 0);
	must(what != NULL);
	f->failed = true;
}

static const struct store_ops fixture_ops = {
	.define = on_define,
	.message = on_message,
	.deadlines = store_fixture_on_deadlines,
	.snapshot = on_snapshot,
	.stable = on_stable,
	.short_of_space = on_short_of_space,
	.failed = on_failed,
};

static const struct store_ops cold_ops = {
	.define = on_define,
	.read = store_fixture_on_read,
	.read_end = store_fixture_on_read_end,
	.read_this = store_fixture_on_read_this,
	.read_these_end = store_fixture_on_read_these_end,
	.deadlines = store_fixture_on_deadlines,
	.snapshot = on_snapshot,
	.stable = on_stable,
	.short_of_space = on_short_of_space,
	.failed = on_failed,
};

/* ---- life ---- */

void
store_fixture_init(struct store_fixture *f, uint64_t seed)
{
	log_set_level(LOG_NONE);
	*f = (struct store_fixture){
		.sim = disk_sim_new(),
		.options = store_options_default(),
		.now = {.monotonic_ms = 1000000, .wall_ms = 1700000000000},
		.random = seed,
		.next_number = 1,
	};
	f->options.buffer_size = 256 * 1024;
	f->options.file_size = 64 * 1024;
	f->options.checkpoint_size = 512 * 1024;
	f->options.unit_max = 4 * 1024 * 1024;
	ledger_init(&f->ledger);
	found_init(&f->found);
	buf_init(&f->error, 0);
}

void
store_fixture_fini(struct store_fixture *f)
{
	store_fixture_kill(f);
	disk_sim_free(&f->sim);
	ledger_fini(&f->ledger);
	found_fini(&f->found);
	buf_fini(&f->error);
}

/* The batch that is on its way ends where the one that fills begins. */
static void
note_end(struct store_fixture *f)
{
	if (f->store != NULL && f->store->spare == NULL)
		ledger_add_end(&f->ledger, f->store->filling->first_lsn - 1);
}

static void
take_log(struct store_fixture *f, struct ledger_queue *queue, struct queue_log *log,
	 enum ledger_stop stop)
{
	queue->log = log;
	queue->next_qseq = log->next_qseq;
	queue->flagged_below = log->redelivered_below;
	/* where both may be, the store knows whether the stop was a clean one */
	if (stop == LEDGER_EITHER && !log->delivered)
		queue->delivered = 0;
	must(log->delivered || queue->delivered == 0);
	if (log->delivered && queue->delivered == 0) {
		must(f->ledger.may_flag);
		queue->delivered = 1;
	}
}

static void
take_logs(struct store_fixture *f, enum ledger_stop stop)
{
	for (uint32_t i = 0; i < f->ledger.queue_count; i++) {
		struct ledger_queue *queue = &f->ledger.queues[i];

		queue->log = NULL;
		if (queue->defined == 0 || queue->removed != 0)
			continue;
		for (size_t n = 0; n < f->found.log_count; n++)
			if (f->found.logs[n]->id == queue->id)
				take_log(f, queue, f->found.logs[n], stop);
	}
}

int
store_fixture_open(struct store_fixture *f)
{
	struct store *store = NULL;
	enum ledger_stop stop = f->ledger.stop;
	int error;

	assert(f->store == NULL);
	found_fini(&f->found);
	found_init(&f->found);
	buf_clear(&f->error);
	f->failed = f->is_short = false;
	/* for a crash that comes now: the mark of the clean stop is about to go */
	if (stop == LEDGER_CLEAN)
		f->ledger.stop = LEDGER_EITHER;
	error = store_open(&store, f->disk != NULL ? f->disk : &f->sim->disk, &f->options,
			   f->cold ? &cold_ops : &fixture_ops, f, &f->error);
	if (error != 0) {
		must(store == NULL);
		expect(f->error.n > 0, "no line says why %d", error);
		return error;
	}
	f->store = store;
	f->ledger.stop = stop;
	/* what a stop that was not completed has left may go or come back at the next one */
	if (stop != LEDGER_UNCLEAN)
		f->ledger.may_flag = stop == LEDGER_EITHER;
	if (f->cold && !f->skips)
		store_fixture_read_all(f);
	if (f->cold && f->skips)
		ledger_compare_definitions(&f->ledger, &f->found, store_stable(store));
	else
		ledger_compare(&f->ledger, &f->found, store_stable(store));
	ledger_cut(&f->ledger, store_stable(store));
	f->ledger.stop = LEDGER_UNCLEAN;
	take_logs(f, stop);
	for (size_t i = 0; i < f->ledger.message_count; i++)
		for (uint32_t n = 0; n < f->ledger.messages[i].ref_count; n++)
			f->ledger.messages[i].refs[n].given = f->ledger.messages[i].refs[n].picked =
				false;
	if (f->cold)
		store_fixture_begin_cold(f);
	store_fixture_check(f);
	if (f->timed && store_fixture_random(f, 2) == 0)
		store_fixture_take_all(f, UINT64_MAX / 2);
	return 0;
}

int
store_fixture_close(struct store_fixture *f, bool clean)
{
	/* marks that wait become one record, at least */
	uint64_t last = store_fixture_last_lsn(f) + !list_empty(&f->store->acked);
	int error;

	if (clean)
		f->ledger.stop = LEDGER_EITHER;
	error = store_close(&f->store, clean);
	must(f->store == NULL);
	if (clean && error == 0) {
		expect(f->ledger.stable >= last, "the stop is called clean but leaves things out");
		f->ledger.stop = LEDGER_CLEAN;
	}
	disk_sim_forget(f->sim);
	return error;
}

void
store_fixture_kill(struct store_fixture *f)
{
	uint64_t stable = f->ledger.stable;
	struct disk_sim *left;

	if (f->store == NULL)
		return;
	note_end(f);
	left = disk_sim_clone(f->sim);
	/* the dead process does nothing more to the disk that is left */
	f->sim->hook = NULL;
	f->sim->stop_at = f->sim->changes + 1;
	f->sim->stopped = true;
	(void)store_close(&f->store, false);
	/* nor does it tell anybody what its threads had done */
	f->ledger.stable = stable;
	disk_sim_free(&f->sim);
	f->sim = left;
}

void
store_fixture_crash(struct store_fixture *f, enum disk_sim_survival how, uint64_t number)
{
	store_fixture_kill(f);
	disk_sim_crash(f->sim, how, number);
}

void
store_fixture_clone(struct store_fixture *clone, struct store_fixture *f)
{
	note_end(f);
	*clone = *f;
	clone->store = NULL;
	clone->sim = disk_sim_clone(f->sim);
	ledger_copy(&clone->ledger, &f->ledger);
	found_init(&clone->found);
	buf_init(&clone->error, 0);
}

/* ---- records ---- */

uint64_t
store_fixture_last_lsn(const struct store_fixture *f)
{
	return f->store->next_lsn - 1;
}

uint32_t
store_fixture_queue(struct store_fixture *f)
{
	struct ledger_queue *queue = ledger_add_queue(&f->ledger);
	struct definition definition;
	char text[32];

	queue->log = store_queue_new(f->store);
	queue->id = queue->log->id;
	queue->next_qseq = queue->log->next_qseq;
	expect(queue->id >= f->ledger.least_queue_id, "the id %llu is used again",
	       (unsigned long long)queue->id);
	f->ledger.least_queue_id = queue->id + 1;
	definition = queue_definition(text, queue->id, false);
	queue->defined = store_define(f->store, &definition);
	return (uint32_t)(queue - f->ledger.queues);
}

void
store_fixture_drop(struct store_fixture *f, uint32_t number)
{
	struct ledger_queue *queue = &f->ledger.queues[number];
	struct definition definition;
	char text[32];

	definition = queue_definition(text, queue->id, true);
	queue->removed = store_define(f->store, &definition);
	store_queue_drop(f->store, &queue->log);
	must(queue->log == NULL);
	store_fixture_release(f, number);
}

void
store_fixture_deliver(struct store_fixture *f, uint32_t number)
{
	struct ledger_queue *queue = &f->ledger.queues[number];
	uint64_t lsn = store_mark_delivered(f->store, queue->log);

	must((lsn == 0) == (queue->delivered != 0));
	if (lsn != 0)
		queue->delivered = lsn;
}

static bool
pushes(struct store_fixture *f)
{
	if (f->push != PUSH_SOME)
		return f->push == PUSH_ALL;
	return store_fixture_random(f, 3) == 0;
}

size_t
store_fixture_publish(struct store_fixture *f, const uint32_t *queues, uint32_t count,
		      uint32_t body_size)
{
	struct ledger_message *message = ledger_add_message(&f->ledger);
	struct message_record record = ledger_content(f->next_number, body_size);
	uint8_t *refs;

	assert(count <= LEDGER_REFS);
	message->number = f->next_number++;
	message->body_size = body_size;
	message->record_size = (uint32_t)message_record_size(count, record.exchange.n, record.key.n,
							     record.properties.n, record.body.n);
	message->ref_count = record.ref_count = count;
	message->expiry_ms = record.expiry_ms = f->timed ? store_fixture_time(f) : 0;
	for (uint32_t i = 0; i < count; i++) {
		message->refs[i] = (struct ledger_ref){
			.queue = queues[i],
			.due_ms = f->timed ? store_fixture_time(f) : 0,
		};
		record.time_count += message->refs[i].due_ms != 0;
	}
	message->record_size += 8 * record.time_count;
	message->lsn = store_append_message(f->store, &record, &refs);
	for (uint32_t i = 0; i < count; i++) {
		struct ledger_queue *queue = &f->ledger.queues[queues[i]];
		uint64_t qseq = queue->next_qseq++;

		message->refs[i].qseq = qseq;
		store_add_ref(f->store, queue->log, refs + i * MESSAGE_REF_SIZE, qseq, body_size,
			      message->refs[i].due_ms);
		/* in memory only what comes before the cold part */
		if (f->cold && (queue->log->cold_count > 0 || pushes(f))) {
			store_cold_push(queue->log, qseq, body_size);
			message->refs[i].cold = true;
		}
	}
	return (size_t)(message - f->ledger.messages);
}

void
store_fixture_ack(struct store_fixture *f, size_t number, uint32_t at, enum ack_reason reason)
{
	struct ledger_message *message = &f->ledger.messages[number];
	struct ledger_ref *ref = &message->refs[at];
	struct queue_log *log = f->ledger.queues[ref->queue].log;
	struct stored_place place = {
		.lsn = message->lsn,
		.share = store_share(message->record_size, message->ref_count),
		.body_size = message->body_size,
	};

	assert(ref->settled == 0);
	assert(!ref->cold);
	ref->settled = store_ack(f->store, log, ref->qseq, &place, reason);
}

void
store_fixture_return(struct store_fixture *f, size_t number, uint32_t at)
{
	struct ledger_ref *ref = &f->ledger.messages[number].refs[at];
	uint32_t count = 0;

	assert(ref->settled == 0);
	assert(!ref->cold);
	while (count < LEDGER_RETURNS && ref->returned[count] != 0)
		count++;
	if (count < LEDGER_RETURNS)
		ref->returned[count] = store_note_return(f->store, f->ledger.queues[ref->queue].log,
							 ref->qseq, count + 1);
}

void
store_fixture_define(struct store_fixture *f, uint32_t thing, uint32_t value)
{
	char text[16];
	char value_text[16];
	struct definition definition = thing_definition(text, value_text, thing, value);

	ledger_add_change(&f->ledger, store_define(f->store, &definition), thing, value);
}

/* ---- turns ---- */

void
store_fixture_submit(struct store_fixture *f, bool input_waits)
{
	store_submit(f->store, f->now, input_waits);
	note_end(f);
}

bool
store_fixture_is_writing(const struct store_fixture *f)
{
	return f->store->spare == NULL;
}

bool
store_fixture_write(struct store_fixture *f)
{
	return worker_step(&f->store->writer_thread);
}

bool
store_fixture_index(struct store_fixture *f)
{
	return worker_step(&f->store->index_thread);
}

bool
store_fixture_help(struct store_fixture *f)
{
	return worker_step(&f->store->helper_thread);
}

bool
store_fixture_index_and_help(struct store_fixture *f)
{
	bool any = store_fixture_index(f);

	store_receive(f->store);
	return store_fixture_help(f) || any;
}

bool
store_fixture_work(struct store_fixture *f)
{
	bool (*threads[])(struct store_fixture * f) = {store_fixture_write, store_fixture_index,
						       store_fixture_help};
	bool any = false;

	for (size_t n = countof(threads); n > 0; n--) {
		size_t which = store_fixture_random(f, n);

		any |= threads[which](f);
		threads[which] = threads[n - 1];
	}
	store_receive(f->store);
	return any;
}

void
store_fixture_flush(struct store_fixture *f)
{
	for (unsigned i = 0; i < FLUSH_ROUNDS; i++) {
		store_fixture_submit(f, false);
		if (!store_fixture_work(f) && f->ledger.stable == store_fixture_last_lsn(f) &&
		    list_empty(&f->store->acked))
			return;
		f->now.monotonic_ms++;
	}
	ck_abort_msg("the store does not come to rest: stable is %llu of %llu",
		     (unsigned long long)f->ledger.stable,
		     (unsigned long long)store_fixture_last_lsn(f));
}

/* Messages of a queue and their octets. */
static void
check_queue(const struct store_fixture *f, uint32_t number)
{
	const struct queue_log *log = f->ledger.queues[number].log;
	uint64_t count = 0;
	uint64_t octets = 0;

	for (size_t i = 0; i < f->ledger.message_count; i++) {
		const struct ledger_message *message = &f->ledger.messages[i];

		for (uint32_t n = 0; n < message->ref_count; n++)
			if (message->refs[n].queue == number && message->refs[n].settled == 0) {
				count++;
				octets += message->body_size;
			}
	}
	expect(log->count == count && log->octets == octets,
	       "queue %llu has %llu messages of %llu octets, says %llu of %llu",
	       (unsigned long long)log->id, (unsigned long long)count, (unsigned long long)octets,
	       (unsigned long long)log->count, (unsigned long long)log->octets);
	qseq_set_check(&log->settled);
}

void
store_fixture_check(struct store_fixture *f)
{
	uint64_t refs = f->store->filling->live_refs;
	uint64_t live = f->store->filling->live;
	uint64_t open = ledger_open_refs(&f->ledger, UINT64_MAX);

	for (size_t i = 0; i < f->store->segment_count; i++) {
		refs += f->store->segments[i]->live_refs;
		live += f->store->segments[i]->live;
	}
	/* what is settled unread is found out a little later */
	if (!f->cold)
		must(refs == open);
	else
		must(refs >= open);
	if (refs == 0)
		must(live == 0);
	ledger_compare_returns(&f->ledger, UINT64_MAX);
	for (uint32_t i = 0; i < f->ledger.queue_count; i++)
		if (f->ledger.queues[i].log != NULL)
			check_queue(f, i);
	if (f->cold)
		store_fixture_check_cold(f);
}
