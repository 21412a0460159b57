/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the ledgers of the publishers and consumers, after the queues were drained.
 *
 *   lost        a persistent message was confirmed and did not come to each queue that it was routed to, or
 *               came, was not settled, and did not come again
 *   as new      it came again without the mark "redelivered", though it was sent once, or again when it was confirmed
 *   again       it came again on the connection on which it had come, without having been given back
 *   disordered  first deliveries of one publisher's messages, of one priority, are not in the order of their numbers
 *   strange     it came and was never sent to this queue
 *
 * All of these must be 0. What was not confirmed, or not persistent, may be lost. An acknowledgement may be
 * lost in a kill: then the message comes again, marked.
 *
 * With --delay messages come in no order. What a kill may undo is also that a message went on when its time had come:
 * then it waits again, and comes once more, as new, on a later connection.
 */
#include "crash/ledger.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN 5 // of each kind of fault

/* Of one message in one queue. */
struct journey {
	uint16_t connection; // on which it came last; 0: it never came
	bool settled;	     // since then
	bool given_back;     // since then
};

struct message {
	uint8_t queues;
	bool persistent;
	bool confirmed;
	bool twice; // it was sent again before that: what came first may be lost with its key
	struct journey in[QUEUES];
};

static struct {
	struct message *messages; // owns; by number
	uint64_t count;
	uint64_t room;
	uint64_t last_first[QUEUES]
			   [LEVELS_MAX]; // number + 1 of the last first delivery of each priority
} publishers[PUBLISHERS_MAX];

enum {
	LOST,
	AS_NEW,
	AGAIN,
	DISORDERED,
	STRANGE,
	FAULTS
};
static const char *const fault_names[FAULTS] = {"lost", "as-new", "again", "disordered", "strange"};
static uint64_t faults[FAULTS];
static uint64_t sent, confirmed, refused, owed, received, duplicates, gone;

static void
complain(int kind, unsigned publisher, uint64_t number, unsigned queue)
{
	if (faults[kind]++ < SHOWN)
		printf("FAULT: %s: message %llu of publisher %u, queue %u\n", fault_names[kind],
		       (unsigned long long)number, publisher, queue);
}

/* ---- publishers ---- */

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
read_publisher(FILE *ledger, unsigned publisher)
{
	struct entry entry;

	while (fread(&entry, sizeof entry, 1, ledger) == 1) {
		if (entry.kind == ENTRY_SENT) {
			add_message(&entry, publisher);
			continue;
		}
		struct message *message = message_of(&entry);
		if (!message)
			fault("the ledger of publisher %u is broken", publisher);
		if (entry.kind == ENTRY_SENT_AGAIN) {
			message->twice = true;
		} else if (entry.kind == ENTRY_CONFIRMED) {
			message->confirmed = true;
			confirmed++;
		} else {
			refused++;
		}
	}
}

/* ---- consumers ---- */

/* What was handed out may be lost with the next kill, unless nobody consumed while there were kills. */
static bool
came_before_the_end(void)
{
	return !options.deduplicate || strcmp(options.deduplicate, "queued") != 0;
}

static void
note_delivery(const struct entry *entry, struct message *message, unsigned queue)
{
	struct journey *journey = &message->in[queue];

	received++;
	if (!journey->connection) {
		unsigned level = options.levels ? (unsigned)(entry->number % options.levels) : 0;
		uint64_t *last = &publishers[entry->publisher].last_first[queue][level];
		if (entry->number < *last && !options.delay)
			complain(DISORDERED, entry->publisher, entry->number, queue);
		*last = entry->number + 1;
	} else {
		duplicates++;
		if (!entry->redelivered && !(message->twice && came_before_the_end()) &&
		    (!options.delay || journey->connection == entry->connection))
			complain(AS_NEW, entry->publisher, entry->number, queue);
		if (journey->connection == entry->connection && !journey->given_back)
			complain(AGAIN, entry->publisher, entry->number, queue);
	}
	*journey = (struct journey){.connection = entry->connection};
}

static void
read_consumer(FILE *ledger, unsigned queue)
{
	struct entry entry;

	while (fread(&entry, sizeof entry, 1, ledger) == 1) {
		struct message *message = message_of(&entry);
		if (!message || !(message->queues >> queue & 1))
			complain(STRANGE, entry.publisher, entry.number, queue);
		else if (entry.kind == ENTRY_RECEIVED)
			note_delivery(&entry, message, queue);
		else if (entry.kind == ENTRY_ACKED)
			message->in[queue].settled = true;
		else
			message->in[queue].given_back = true;
	}
}

/* ---- the sum ---- */

static void
judge(const struct message *message, unsigned publisher, uint64_t number)
{
	for (unsigned queue = 0; queue < QUEUES; queue++) {
		const struct journey *journey = &message->in[queue];
		if (!(message->queues >> queue & 1))
			continue;
		if (!journey->connection)
			gone++;
		if (!message->confirmed || !message->persistent)
			continue;
		owed++;
		if (!journey->connection || !journey->settled)
			complain(LOST, publisher, number, queue);
	}
}

static int
report(void)
{
	uint64_t all = 0;

	printf("sent %llu\nconfirmed %llu\nrefused %llu\nowed %llu\n", (unsigned long long)sent,
	       (unsigned long long)confirmed, (unsigned long long)refused,
	       (unsigned long long)owed);
	printf("received %llu\nduplicates %llu\nnever-came %llu\n", (unsigned long long)received,
	       (unsigned long long)duplicates, (unsigned long long)gone);
	for (int kind = 0; kind < FAULTS; kind++) {
		printf("%s %llu\n", fault_names[kind], (unsigned long long)faults[kind]);
		all += faults[kind];
	}
	return all ? EXIT_FAILURE : EXIT_SUCCESS;
}

int
check_run(void)
{
	FILE *ledger;
	unsigned publisher, queue;

	for (publisher = 0; publisher < PUBLISHERS_MAX; publisher++) {
		ledger = ledger_open("publisher", publisher, "r");
		if (!ledger)
			break;
		read_publisher(ledger, publisher);
		fclose(ledger);
	}
	for (queue = 0; queue < QUEUES; queue++) {
		ledger = ledger_open("consumer", queue, "r");
		if (!ledger)
			fault("there is no ledger of consumer %u", queue);
		read_consumer(ledger, queue);
		fclose(ledger);
	}
	for (unsigned p = 0; p < publisher; p++) {
		for (uint64_t number = 0; number < publishers[p].count; number++)
			judge(&publishers[p].messages[number], p, number);
		free(publishers[p].messages);
	}
	return report();
}

/* ---- for those who look into a failure ---- */

static void
print_entries(const char *name, unsigned n)
{
	static const char *const kinds[] = {"?",	"sent",	 "confirmed", "refused",
					    "received", "acked", "requeued",  "rejected"};
	FILE *ledger = ledger_open(name, n, "r");
	struct entry entry;

	if (!ledger)
		return;
	while (fread(&entry, sizeof entry, 1, ledger) == 1) {
		printf("%s-%u %s %u/%llu", name, n,
		       kinds[entry.kind < sizeof kinds / sizeof kinds[0] ? entry.kind : 0],
		       entry.publisher, (unsigned long long)entry.number);
		if (entry.kind == ENTRY_SENT)
			printf(" queues %#x %s", entry.queues,
			       entry.persistent ? "persistent" : "transient");
		if (entry.connection)
			printf(" connection %u", entry.connection);
		printf("%s\n", entry.redelivered ? " redelivered" : "");
	}
	fclose(ledger);
}

int
dump_run(void)
{
	for (unsigned i = 0; i < PUBLISHERS_MAX; i++)
		print_entries("publisher", i);
	for (unsigned i = 0; i < QUEUES; i++)
		print_entries("consumer", i);
	return EXIT_SUCCESS;
}
