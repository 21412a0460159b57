/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher with confirms that outlives the broker. At most --window numbers lie between the oldest one
 * that is not confirmed and the next; what is not confirmed when a connection is lost stays so, unless all is sent
 * again (duplicates.c). Mandatory is set, but for that: a message that comes back means that a binding is lost.
 */
#include "crash/ledger.h"

#include <stdlib.h>

#define BURST 64	// messages between two looks at what came
#define TRANSIENT_IN 16 // one of so many is not persistent
#define LATENCIES 65536 // kept of the newest confirms
#define LARGE_IN 1024	// one of so many has a large body

static struct {
	FILE *ledger;		      // owns
	amqp_connection_state_t conn; // owns; NULL: none
	uint64_t next;		      // number of the next message
	uint64_t first;		      // the number that has delivery tag 1 on this connection
	uint64_t oldest;	      // that was not confirmed on this connection
	uint64_t ever;		      // numbers from here on were never sent
	bool *known;	   // owns; by number % (2 * window): confirmed, on any connection
	bool *answered;	   // owns; by number % window, those from oldest on
	uint64_t *sent_us; // owns; by number % window, when it was sent
	uint32_t latencies[LATENCIES]; // us from sending to the confirm, by confirmed % LATENCIES
	uint64_t confirmed;	       // of all connections
	uint64_t last_answer_us;       // when the last confirm came, or the connection was made
	uint64_t began_us;	       // when the first connection was made
	unsigned connections;	       // so far
	unsigned blocks;	       // connection.blocked that came
	bool blocked;		       // and not yet connection.unblocked
} publisher;

/* "0", "0.2", ...: each of the queues is one word. */
static void
routing_key(char key[16], unsigned queues)
{
	size_t length = 0;

	for (unsigned queue = 0; queue < QUEUES; queue++) {
		if (!(queues >> queue & 1))
			continue;
		if (length)
			key[length++] = '.';
		key[length++] = (char)('0' + queue);
	}
	key[length] = 0;
}

static size_t
random_size(void)
{
	return random_below(LARGE_IN) ? random_below(options.size) : random_below(options.large);
}

static bool *
known_of(uint64_t number)
{
	return &publisher.known[number % (2 * options.window)];
}

/* What the ledger says of a message with a key. */
static void
note_sent(struct entry entry)
{
	if (entry.number < publisher.ever && *known_of(entry.number))
		return;
	if (entry.number < publisher.ever)
		entry.kind = ENTRY_SENT_AGAIN;
	else
		publisher.ever++;
	*known_of(entry.number) = false;
	ledger_write(publisher.ledger, entry);
}

/* Begins again before what was never confirmed, which is among the last window's. */
static void
go_back(void)
{
	uint64_t back = 2 * (uint64_t)options.window;

	publisher.next = publisher.ever < back ? 0 : publisher.ever - back;
}

static bool
publish_one(void)
{
	unsigned queues = options.life ? DEAD_QUEUE : QUEUES; // nobody publishes to the dead ones
	bool has_key = options.deduplicate;
	struct entry entry = {
		.kind = ENTRY_SENT,
		.queues = has_key ? (uint8_t)same_queues(publisher.next)
				  : (uint8_t)(1 + random_below((1U << queues) - 1)),
		.persistent = has_key || random_below(TRANSIENT_IN) != 0,
		.publisher = (uint16_t)options.id,
		.number = publisher.next++,
	};
	amqp_basic_properties_t properties = {
		._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
		.delivery_mode = entry.persistent ? AMQP_DELIVERY_PERSISTENT : 1,
	};
	char key[16];

	if (options.ttl) {
		properties._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
		properties.timestamp = now_us();
	}
	if (has_key)
		add_message_key(&properties, entry.number);
	if (options.levels) {
		properties._flags |= AMQP_BASIC_PRIORITY_FLAG;
		properties.priority = (uint8_t)(entry.number % options.levels);
	}
	if (options.delay)
		ask_for_delay(&properties);
	routing_key(key, entry.queues);
	publisher.answered[entry.number % options.window] = false;
	publisher.sent_us[entry.number % options.window] = now_us();
	note_sent(entry);
	return was_sent(amqp_basic_publish(
		publisher.conn, 1, amqp_cstring_bytes(EXCHANGE), amqp_cstring_bytes(key), !has_key,
		0, &properties, body_make(entry.publisher, entry.number, random_size())));
}

/* ---- what comes ---- */

static void
note_answer(uint64_t tag, bool multiple, enum entry_kind kind)
{
	uint64_t number = publisher.first + tag - 1;

	if (tag == 0 || number >= publisher.next)
		fault("a confirm for tag %llu, which was not used", (unsigned long long)tag);
	if (number < publisher.oldest || publisher.answered[number % options.window])
		fault("a second confirm for tag %llu", (unsigned long long)tag);
	for (uint64_t i = multiple ? publisher.oldest : number; i <= number; i++) {
		if (publisher.answered[i % options.window])
			continue;
		publisher.answered[i % options.window] = true;
		*known_of(i) |= kind == ENTRY_CONFIRMED;
		if (kind == ENTRY_CONFIRMED)
			publisher.latencies[publisher.confirmed++ % LATENCIES] =
				(uint32_t)(now_us() - publisher.sent_us[i % options.window]);
		ledger_write(publisher.ledger, (struct entry){.kind = (uint8_t)kind,
							      .publisher = (uint16_t)options.id,
							      .number = i});
	}
	while (publisher.oldest < publisher.next &&
	       publisher.answered[publisher.oldest % options.window])
		publisher.oldest++;
	publisher.last_answer_us = now_us();
}

static void
take_method(const amqp_method_t *method)
{
	const amqp_basic_ack_t *ack = method->decoded;
	const amqp_basic_nack_t *nack = method->decoded;

	switch (method->id) {
	case AMQP_BASIC_ACK_METHOD:
		note_answer(ack->delivery_tag, ack->multiple, ENTRY_CONFIRMED);
		break;
	case AMQP_BASIC_NACK_METHOD:
		note_answer(nack->delivery_tag, nack->multiple, ENTRY_REFUSED);
		break;
	case AMQP_CONNECTION_BLOCKED_METHOD:
		publisher.blocked = true;
		publisher.blocks++;
		printf("blocked\n");
		fflush(stdout);
		break;
	case AMQP_CONNECTION_UNBLOCKED_METHOD:
		publisher.blocked = false;
		publisher.last_answer_us = now_us();
		printf("unblocked\n");
		fflush(stdout);
		break;
	case AMQP_BASIC_RETURN_METHOD:
		fault("a message comes back: a durable queue or binding is lost");
	default:
		fault("a strange method, %#x", (unsigned)method->id);
	}
}

/* Takes what is there, and waits for the first of it so long. False when the connection is lost. */
static bool
take_frames(unsigned ms)
{
	amqp_frame_t frame;

	for (;;) {
		int status = next_frame(publisher.conn, &frame, ms);
		if (status == AMQP_STATUS_TIMEOUT)
			return true;
		if (status != AMQP_STATUS_OK)
			return false;
		if (frame.frame_type == AMQP_FRAME_METHOD)
			take_method(&frame.payload.method);
		ms = 0;
	}
}

/* ---- the load ---- */

static bool
is_waiting(void)
{
	return publisher.oldest < publisher.next;
}

/* So that a broker that is fast is not given more than the machine can compare later. */
static bool
is_ahead(void)
{
	return options.rate &&
	       publisher.next * 1000000 > (now_us() - publisher.began_us) * options.rate;
}

static bool
may_publish(void)
{
	return !stopping() && !publisher.blocked &&
	       publisher.next - publisher.oldest < options.window && !is_ahead() &&
	       (!options.count || publisher.next < options.count);
}

static bool
connect_and_select(void)
{
	publisher.conn = connect_again();
	if (!publisher.conn)
		return false;
	publisher.connections++;
	if (options.deduplicate)
		go_back();
	publisher.first = publisher.oldest = publisher.next;
	publisher.blocked = false;
	publisher.last_answer_us = now_us();
	if (!publisher.began_us)
		publisher.began_us = now_us();
	amqp_confirm_select(publisher.conn, 1);
	return went_well(publisher.conn, "confirm.select");
}

/* Until the connection is lost, or there is nothing to do any more. */
static void
publish_and_take(void)
{
	while (!stopping() || is_waiting()) {
		bool published = false;
		for (int i = 0; i < BURST && may_publish(); i++) {
			if (!publish_one())
				return;
			published = true;
		}
		if (!take_frames(published ? 0 : 1))
			return;
		if (options.count && publisher.next >= options.count && !is_waiting())
			return;
		if (is_waiting() && !publisher.blocked &&
		    now_us() - publisher.last_answer_us > AWAIT_S * 1000000ULL)
			fault("no confirm for %d s", AWAIT_S);
		if (!is_waiting())
			publisher.last_answer_us = now_us();
	}
}

static int
compare_latencies(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void
print_sum(void)
{
	size_t n = publisher.confirmed < LATENCIES ? (size_t)publisher.confirmed : LATENCIES;

	qsort(publisher.latencies, n, sizeof publisher.latencies[0], compare_latencies);
	printf("publisher %u: %u connections, sent %llu, confirmed %llu, p50 %u us, max %u us, "
	       "blocked %u times\n",
	       options.id, publisher.connections, (unsigned long long)publisher.next,
	       (unsigned long long)publisher.confirmed, n ? publisher.latencies[n / 2] : 0,
	       n ? publisher.latencies[n - 1] : 0, publisher.blocks);
}

int
publisher_run(void)
{
	publisher.ledger = ledger_open("publisher", options.id, "w");
	publisher.answered = calloc(options.window, sizeof publisher.answered[0]);
	publisher.sent_us = calloc(options.window, sizeof publisher.sent_us[0]);
	publisher.known = calloc(2 * (size_t)options.window, sizeof publisher.known[0]);
	while (!stopping() && (!options.count || publisher.next < options.count)) {
		if (connect_and_select())
			publish_and_take();
		if (stopping() && !is_waiting())
			disconnect(publisher.conn);
		else
			forget(publisher.conn);
	}
	ledger_close(publisher.ledger);
	free(publisher.answered);
	free(publisher.sent_us);
	free(publisher.known);
	print_sum();
	return EXIT_SUCCESS;
}
