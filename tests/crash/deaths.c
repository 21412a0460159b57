/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dead letters under kills. The queue WORK_QUEUE, whose consumer rejects at random, and BOUNDED_QUEUE, which holds
 * BOUNDED_LENGTH messages and has no consumer until the end, give what dies in them to DEAD_QUEUE. In the end all
 * three are drained, that one last. Consumers note the life of the broker in which they saw something: it is counted
 * up while the broker is down, so that what two of them saw can be put in order.
 *
 *   lost     a persistent message was confirmed, and neither was it acknowledged in its queue, nor did its letter come
 *            and was settled since then: after the last rejection, where there was one
 *   both     it was acknowledged in its queue, and did not come again, so that counted; and its letter came in that
 *            life or in a later one
 *   as new   it came again without the mark "redelivered"; a letter without the mark, and without a new death
 *   again    it, or its letter, came again in the same life without having been given back
 *   unasked  a letter of the work queue came, and the message had not been rejected
 *   strange  something came to a queue that it was not for
 *   disordered  letters that came first in one life are not in the order in which a bounded queue drops
 *
 * With --ttl that queue is not bounded: what is in it dies when its time is over. Publishers say when they sent a message,
 * and a letter that comes sooner is a fault; so is one that is there when the last time is over:
 *
 *   late     it came in the queue
 *
 * What a kill may undo is what was not synced: a rejection or a drop and its letter, both. Then the message is in its
 * queue again, and may die again in that later life: a second letter, as new, though the first one has been seen.
 */
#include "crash/ledger.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN 5 // of each kind of fault
#define ORIGINS 2
/* So much sooner may a message be sent, by its publisher's clock, than the broker's turn that reads it began. */
#define EARLY_US 100000

/* ---- the queues ---- */

static amqp_table_entry_t
text_entry(const char *name, const char *value)
{
	return (amqp_table_entry_t){
		.key = amqp_cstring_bytes(name),
		.value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(value)}};
}

static bool
declare_queue(amqp_connection_state_t conn, unsigned queue)
{
	char name[32], dead[32], key[16];
	amqp_table_entry_t entries[3];
	int n = 0;

	queue_name(name, queue);
	queue_name(dead, DEAD_QUEUE);
	snprintf(key, sizeof key, "#.%u.#", queue);
	if (queue != DEAD_QUEUE) {
		entries[n++] = text_entry("x-dead-letter-exchange", "");
		entries[n++] = text_entry("x-dead-letter-routing-key", dead);
	}
	if (queue == BOUNDED_QUEUE)
		entries[n++] = (amqp_table_entry_t){
			.key = amqp_cstring_bytes(options.ttl ? "x-message-ttl" : "x-max-length"),
			.value = {.kind = AMQP_FIELD_KIND_I32,
				  .value.i32 =
					  options.ttl ? (int32_t)options.ttl : BOUNDED_LENGTH}};
	amqp_queue_declare(conn, 1, amqp_cstring_bytes(name), 0, 1, 0, 0,
			   (amqp_table_t){n, entries});
	if (!went_well(conn, "queue.declare"))
		return false;
	amqp_queue_bind(conn, 1, amqp_cstring_bytes(name), amqp_cstring_bytes(EXCHANGE),
			amqp_cstring_bytes(key), amqp_empty_table);
	return went_well(conn, "queue.bind");
}

int
declare_deaths_run(void)
{
	amqp_connection_state_t conn = connect_again();
	bool well;

	if (!conn)
		return EXIT_FAILURE;
	amqp_exchange_declare(conn, 1, amqp_cstring_bytes(EXCHANGE), amqp_cstring_bytes("topic"), 0,
			      1, 0, 0, amqp_empty_table);
	well = went_well(conn, "exchange.declare");
	for (unsigned queue = 0; well && queue < QUEUES; queue++)
		well = declare_queue(conn, queue);
	disconnect(conn);
	return well ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- what a letter says ---- */

static const amqp_field_value_t *
field_of(const amqp_table_t *table, const char *name, int kind)
{
	for (int i = 0; i < table->num_entries; i++) {
		const amqp_table_entry_t *entry = &table->entries[i];

		if (entry->key.len == strlen(name) &&
		    memcmp(entry->key.bytes, name, entry->key.len) == 0 &&
		    entry->value.kind == kind)
			return &entry->value;
	}
	fault("a dead letter has no %s", name);
}

/* A message may wait so long in its queue: its letter says when it was sent. */
static void
look_at_time(const amqp_basic_properties_t *properties)
{
	uint64_t waited_us = now_us() - properties->timestamp;

	if (waited_us + EARLY_US < options.ttl * 1000ULL)
		fault("a message expired after %llu us", (unsigned long long)waited_us);
}

unsigned
died_in(const amqp_basic_properties_t *properties)
{
	const char *const reasons[ORIGINS] = {"rejected", options.ttl ? "expired" : "maxlen"};
	const amqp_array_t *deaths;
	const amqp_table_t *death;
	amqp_bytes_t queue, reason;
	char name[32];

	if (!(properties->_flags & AMQP_BASIC_HEADERS_FLAG))
		fault("a dead letter has no headers");
	deaths = &field_of(&properties->headers, "x-death", AMQP_FIELD_KIND_ARRAY)->value.array;
	if (deaths->num_entries != 1 || deaths->entries[0].kind != AMQP_FIELD_KIND_TABLE)
		fault("a dead letter died %d times", deaths->num_entries);
	death = &deaths->entries[0].value.table;
	queue = field_of(death, "queue", AMQP_FIELD_KIND_UTF8)->value.bytes;
	reason = field_of(death, "reason", AMQP_FIELD_KIND_UTF8)->value.bytes;
	if (field_of(death, "count", AMQP_FIELD_KIND_I64)->value.i64 != 1)
		fault("a dead letter died more than once in its queue");
	for (unsigned origin = 0; origin < ORIGINS; origin++) {
		queue_name(name, origin);
		if (queue.len == strlen(name) && memcmp(queue.bytes, name, queue.len) == 0 &&
		    reason.len == strlen(reasons[origin]) &&
		    memcmp(reason.bytes, reasons[origin], reason.len) == 0) {
			if (options.ttl && origin == BOUNDED_QUEUE)
				look_at_time(properties);
			return origin;
		}
	}
	fault("a dead letter of %.*s as %.*s", (int)queue.len, (const char *)queue.bytes,
	      (int)reason.len, (const char *)reason.bytes);
}

/* ---- the life of the broker ---- */

static uint16_t
life_now(void)
{
	FILE *file = fopen(options.life, "r");
	unsigned life = 0;

	if (!file || fscanf(file, "%u", &life) != 1 || !life)
		fault("%s does not say which life it is", options.life);
	fclose(file);
	return (uint16_t)life;
}

amqp_connection_state_t
connect_in_life(amqp_connection_state_t (*make)(void), uint16_t *life)
{
	for (;;) {
		uint16_t before = life_now();
		amqp_connection_state_t conn = make();

		*life = life_now();
		if (!conn || *life == before)
			return conn;
		/* it may be of either */
		forget(conn);
	}
}

/* ---- the ledgers ---- */

/* Of one message in one queue in which it may die. */
struct journey {
	uint16_t came;		// life in which it came last; 0: it never did
	uint16_t done;		// life in which that was settled or given back; 0: it was not
	uint8_t how;		// enum entry_kind of that
	uint16_t first_death;	// life of the first rejection; 0: none
	uint16_t last_death;	// and of the last one
	uint16_t letter;	// life in which its letter came last; 0: it never did
	bool letter_settled;	// since then
	bool letter_given_back; // since then
};

struct message {
	uint8_t queues;
	bool persistent;
	bool confirmed;
	struct journey in[ORIGINS];
};

static struct {
	struct message *messages; // owns; by number
	uint64_t count;
	uint64_t room;
	uint64_t
		last_letter; // number + 1 of the last one that the bounded queue dropped and that came as new
	uint16_t letter_life; // in which that was
} publishers[PUBLISHERS_MAX];

enum {
	LOST,
	BOTH,
	AS_NEW,
	AGAIN,
	UNASKED,
	STRANGE,
	DISORDERED,
	LATE,
	FAULTS
};
static const char *const fault_names[FAULTS] = {"lost",	   "both",    "as-new",	    "again",
						"unasked", "strange", "disordered", "late"};
static uint64_t faults[FAULTS];
static uint64_t sent, confirmed, owed, rejected, letters[ORIGINS], repeated, undone;

static void
complain(int kind, const struct entry *entry)
{
	if (faults[kind]++ < SHOWN)
		printf("FAULT: %s: message %llu of publisher %u, queues %#x, life %u\n",
		       fault_names[kind], (unsigned long long)entry->number, entry->publisher,
		       entry->queues, entry->connection);
}

static struct message *
message_of(const struct entry *entry)
{
	if (entry->publisher >= PUBLISHERS_MAX ||
	    entry->number >= publishers[entry->publisher].count)
		return NULL;
	return &publishers[entry->publisher].messages[entry->number];
}

static void
add_message(const struct entry *entry, unsigned publisher)
{
	if (entry->publisher != publisher || entry->number != publishers[publisher].count)
		fault("the ledger of publisher %u is broken", publisher);
	if (publishers[publisher].count == publishers[publisher].room) {
		publishers[publisher].room = publishers[publisher].room * 2 + 1024;
		publishers[publisher].messages =
			realloc(publishers[publisher].messages,
				publishers[publisher].room * sizeof(struct message));
		if (!publishers[publisher].messages)
			fault("no memory for the messages");
	}
	publishers[publisher].messages[publishers[publisher].count++] =
		(struct message){.queues = entry->queues, .persistent = entry->persistent};
	sent++;
}

static void
read_publisher(const struct entry *entry, unsigned publisher)
{
	struct message *message;

	if (entry->kind == ENTRY_SENT) {
		add_message(entry, publisher);
		return;
	}
	message = message_of(entry);
	if (!message || entry->kind != ENTRY_CONFIRMED)
		fault("the ledger of publisher %u is broken, or a message was refused", publisher);
	message->confirmed = true;
	confirmed++;
}

static void
read_origin(const struct entry *entry, unsigned origin)
{
	struct message *message = message_of(entry);
	struct journey *journey;

	if (!message || !(message->queues >> origin & 1)) {
		complain(STRANGE, entry);
		return;
	}
	journey = &message->in[origin];
	if (entry->kind != ENTRY_RECEIVED) {
		journey->done = entry->connection;
		journey->how = entry->kind;
		if (entry->kind != ENTRY_REJECTED)
			return;
		rejected++;
		journey->last_death = entry->connection;
		if (!journey->first_death)
			journey->first_death = entry->connection;
		return;
	}
	if (options.ttl && origin == BOUNDED_QUEUE)
		complain(LATE, entry);
	if (journey->came && !entry->redelivered)
		complain(AS_NEW, entry);
	if (journey->came == entry->connection &&
	    !(journey->done && journey->how == ENTRY_REQUEUED))
		complain(AGAIN, entry);
	journey->came = entry->connection;
	journey->done = 0;
}

/* One that comes as new: the bounded queue drops in order, within a life. */
static void
look_at_order(const struct entry *entry)
{
	if (publishers[entry->publisher].letter_life == entry->connection &&
	    entry->number < publishers[entry->publisher].last_letter)
		complain(DISORDERED, entry);
	publishers[entry->publisher].last_letter = entry->number + 1;
	publishers[entry->publisher].letter_life = entry->connection;
}

static void
note_letter(const struct entry *entry, struct journey *journey, unsigned origin)
{
	uint16_t life = entry->connection;
	bool may_have_died = origin == BOUNDED_QUEUE || journey->last_death > journey->letter;

	letters[origin]++;
	if (origin == WORK_QUEUE && (!journey->first_death || journey->first_death > life))
		complain(UNASKED, entry);
	if (journey->letter) {
		repeated++;
		undone += !entry->redelivered;
		if (!entry->redelivered && (journey->letter == life || !may_have_died))
			complain(AS_NEW, entry);
		else if (journey->letter == life && !journey->letter_given_back)
			complain(AGAIN, entry);
	}
	if (origin == BOUNDED_QUEUE && !entry->redelivered)
		look_at_order(entry);
	journey->letter = life;
	journey->letter_settled = journey->letter_given_back = false;
}

static void
read_letter(const struct entry *entry, unsigned queue)
{
	unsigned origin = entry->queues == 1 << BOUNDED_QUEUE ? BOUNDED_QUEUE : WORK_QUEUE;
	struct message *message = message_of(entry);

	(void)queue;
	if (!message || !(message->queues >> origin & 1))
		complain(STRANGE, entry);
	else if (entry->kind == ENTRY_RECEIVED)
		note_letter(entry, &message->in[origin], origin);
	else if (entry->kind == ENTRY_REQUEUED)
		message->in[origin].letter_given_back = true;
	else
		message->in[origin].letter_settled = true;
}

/* ---- the sum ---- */

/* Whether it is where it must be: settled in its queue, or by its letter. */
static bool
is_safe(const struct journey *journey)
{
	if (journey->came && journey->done && journey->how == ENTRY_ACKED)
		return true;
	if (!journey->letter_settled)
		return false;
	if (!journey->came)
		return true; // it was dropped before anybody saw it
	return journey->done && journey->how == ENTRY_REJECTED && journey->letter >= journey->done;
}

static void
judge(const struct message *message, unsigned publisher, uint64_t number)
{
	struct entry entry = {.publisher = (uint16_t)publisher, .number = number};

	for (unsigned origin = 0; origin < ORIGINS; origin++) {
		const struct journey *journey = &message->in[origin];

		if (!(message->queues >> origin & 1))
			continue;
		entry.queues = (uint8_t)(1 << origin);
		entry.connection = journey->came;
		if (journey->came && journey->done && journey->how == ENTRY_ACKED &&
		    journey->letter >= journey->done)
			complain(BOTH, &entry);
		if (!message->confirmed || !message->persistent)
			continue;
		owed++;
		if (!is_safe(journey))
			complain(LOST, &entry);
	}
}

static int
report(void)
{
	uint64_t all = 0;

	printf("sent %llu\nconfirmed %llu\nowed %llu\n", (unsigned long long)sent,
	       (unsigned long long)confirmed, (unsigned long long)owed);
	printf("rejected %llu\nrejected-letters %llu\ndropped-letters %llu\nrepeated %llu\nundone "
	       "%llu\n",
	       (unsigned long long)rejected, (unsigned long long)letters[WORK_QUEUE],
	       (unsigned long long)letters[BOUNDED_QUEUE], (unsigned long long)repeated,
	       (unsigned long long)undone);
	for (int kind = 0; kind < FAULTS; kind++) {
		printf("%s %llu\n", fault_names[kind], (unsigned long long)faults[kind]);
		all += faults[kind];
	}
	return all ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* False when there is no such ledger. */
static bool
read_ledger(const char *name, unsigned n, void (*each)(const struct entry *entry, unsigned n))
{
	FILE *ledger = ledger_open(name, n, "r");
	struct entry entry;

	if (!ledger)
		return false;
	while (fread(&entry, sizeof entry, 1, ledger) == 1)
		each(&entry, n);
	fclose(ledger);
	return true;
}

int
check_deaths_run(void)
{
	unsigned publisher = 0;

	while (publisher < PUBLISHERS_MAX && read_ledger("publisher", publisher, read_publisher))
		publisher++;
	if (!read_ledger("consumer", WORK_QUEUE, read_origin) ||
	    !read_ledger("consumer", BOUNDED_QUEUE, read_origin) ||
	    !read_ledger("consumer", DEAD_QUEUE, read_letter))
		fault("a ledger of a consumer is missing");
	for (unsigned p = 0; p < publisher; p++) {
		for (uint64_t number = 0; number < publishers[p].count; number++)
			judge(&publishers[p].messages[number], p, number);
		free(publishers[p].messages);
	}
	return report();
}
