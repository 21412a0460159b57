/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer of one queue. For each connection it chooses how it settles: either groups, the last of which
 * is acknowledged with multiple, or one by one out of order, some with requeue and some by reject; so marks
 * have holes, and messages of several queues are settled in one and open in another. After SIGTERM it ends
 * when the queue is empty and everything is settled.
 *
 * With deaths (deaths.c) the consumer of the work queue rejects one in three, and that of the dead ones is slow on half
 * of its connections (--rate), so that at a kill some have just come and others lie there.
 */
#include "crash/ledger.h"

#include <stdlib.h>
#include <string.h>

#define PREFETCH 200
#define POOL 100      // unsettled at most when they are settled out of order
#define GROUP 50      // settled at once at most
#define REQUEUE_IN 20 // one of so many that come for the first time is given back
#define REJECT_IN 20  // one of so many is rejected, not acknowledged
#define DEATH_IN 3    // the same with deaths, of the groups too
#define IDLE_MS 20    // after which everything is settled
#define QUIET_TIMES 3 // so often idle and empty, and the queue is drained
#define CHANNEL 1

struct open_delivery {
	uint64_t tag;
	uint64_t number;
	uint16_t publisher;
	bool redelivered;
	uint8_t queues; // as in its entry
};

static struct {
	FILE *ledger;			     // owns
	amqp_connection_state_t conn;	     // owns; NULL: none
	char queue[32];			     // that it consumes
	struct open_delivery open[PREFETCH]; // not settled, in order of their tags when in groups
	unsigned open_count;
	unsigned group;	     // settle when there are so many; 0: out of order
	uint16_t connection; // counted from 1
	uint64_t received;   // deliveries of all connections
	uint64_t last_us;    // when the last delivery came, or the connection was made
	uint64_t began_us;   // when the connection was made
	uint64_t taken;	     // deliveries of this connection
	bool slow;	     // it keeps to --rate
	unsigned quiet;	     // so often it was idle and empty since the last delivery
} consumer;

static void
note(enum entry_kind kind, const struct open_delivery *delivery)
{
	ledger_write(consumer.ledger, (struct entry){
					      .kind = (uint8_t)kind,
					      .queues = delivery->queues,
					      .redelivered = delivery->redelivered,
					      .publisher = delivery->publisher,
					      .connection = consumer.connection,
					      .number = delivery->number,
				      });
}

/* ---- settling; each is false when the connection is lost ---- */

/* Whether what is settled now is to die. */
static bool
is_to_die(void)
{
	return options.life && options.id == WORK_QUEUE && random_below(DEATH_IN) == 0;
}

/* Written to the ledger before it is sent: what may have been settled need not come again. */
static bool
settle_group(void)
{
	if (!consumer.open_count)
		return true;
	uint64_t last = consumer.open[consumer.open_count - 1].tag;
	bool dies = is_to_die();
	for (unsigned i = 0; i < consumer.open_count; i++)
		note(dies ? ENTRY_REJECTED : ENTRY_ACKED, &consumer.open[i]);
	consumer.open_count = 0;
	if (dies)
		return was_sent(amqp_basic_nack(consumer.conn, CHANNEL, last, 1, 0));
	return was_sent(amqp_basic_ack(consumer.conn, CHANNEL, last, 1));
}

static bool
settle_one(unsigned i)
{
	struct open_delivery delivery = consumer.open[i];

	consumer.open[i] = consumer.open[--consumer.open_count];
	if (!delivery.redelivered && !stopping() && random_below(REQUEUE_IN) == 0) {
		note(ENTRY_REQUEUED, &delivery);
		return was_sent(amqp_basic_nack(consumer.conn, CHANNEL, delivery.tag, 0, 1));
	}
	if (is_to_die()) {
		note(ENTRY_REJECTED, &delivery);
		return was_sent(amqp_basic_reject(consumer.conn, CHANNEL, delivery.tag, 0));
	}
	note(ENTRY_ACKED, &delivery);
	if (!options.life && random_below(REJECT_IN) == 0)
		return was_sent(amqp_basic_reject(consumer.conn, CHANNEL, delivery.tag, 0));
	return was_sent(amqp_basic_ack(consumer.conn, CHANNEL, delivery.tag, 0));
}

static bool
settle_some(void)
{
	if (consumer.group)
		return consumer.open_count < consumer.group || settle_group();
	return consumer.open_count < POOL || settle_one(random_below(POOL));
}

static bool
settle_all(void)
{
	if (consumer.group)
		return settle_group();
	while (consumer.open_count > 0)
		if (!settle_one(random_below(consumer.open_count)))
			return false;
	return true;
}

/* ---- deliveries ---- */

static bool
take(const amqp_envelope_t *envelope)
{
	struct open_delivery delivery = {
		.tag = envelope->delivery_tag,
		.redelivered = envelope->redelivered != 0,
		.queues = (uint8_t)(1 << options.id),
	};

	if (!body_read(envelope->message.body, &delivery.publisher, &delivery.number))
		fault("a body that nobody has sent, %zu octets", envelope->message.body.len);
	if (options.life && options.id == DEAD_QUEUE)
		delivery.queues = (uint8_t)(1 << died_in(&envelope->message.properties));
	if (options.delay)
		look_at_delay(&envelope->message.properties);
	if (consumer.open_count == PREFETCH)
		fault("more than %d deliveries at once", PREFETCH);
	note(ENTRY_RECEIVED, &delivery);
	consumer.open[consumer.open_count++] = delivery;
	consumer.received++;
	consumer.taken++;
	consumer.last_us = now_us();
	consumer.quiet = 0;
	return settle_some();
}

/* What the library does not take for a delivery. */
static bool
take_other(void)
{
	amqp_frame_t frame;
	int status = next_frame(consumer.conn, &frame, 0);

	if (status == AMQP_STATUS_OK)
		fault("a strange frame, method %#x", frame.frame_type == AMQP_FRAME_METHOD
							     ? (unsigned)frame.payload.method.id
							     : 0);
	return status == AMQP_STATUS_TIMEOUT;
}

/* A consumer that is to be slow. */
static void
be_slow(void)
{
	while (!stopping() && consumer.slow &&
	       consumer.taken * 1000000 > (now_us() - consumer.began_us) * options.rate)
		sleep_us(1000);
}

static bool
take_next(bool *idle)
{
	const struct timeval limit = {.tv_usec = IDLE_MS * 1000};
	amqp_envelope_t envelope;

	be_slow();
	amqp_maybe_release_buffers(consumer.conn);
	amqp_rpc_reply_t reply = amqp_consume_message(consumer.conn, &envelope, &limit, 0);
	*idle = reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
		reply.library_error == AMQP_STATUS_TIMEOUT;
	if (*idle)
		return true;
	if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
		bool settled = take(&envelope);
		amqp_destroy_envelope(&envelope);
		return settled;
	}
	if (reply.library_error == AMQP_STATUS_UNEXPECTED_STATE)
		return take_other();
	return was_sent(reply.library_error);
}

/* ---- the end ---- */

/* The count comes on a connection of its own: this one has deliveries in between. */
static bool
is_empty(void)
{
	static amqp_connection_state_t conn;
	uint32_t ready = 1;

	if (!conn) {
		/* SIGTERM has come: nobody kills the broker any more, one try is enough. */
		conn = connect_once();
		if (!conn)
			fault("the broker is gone while the queue is drained");
	}
	if (queue_count(conn, consumer.queue, &ready) != CALL_OK)
		fault("the queue is gone while it is drained");
	if (ready == 0)
		return true;
	if (now_us() - consumer.last_us > AWAIT_S * 1000000ULL)
		fault("%u messages are ready and do not come", (unsigned)ready);
	return false;
}

static bool
is_drained(void)
{
	if (!stopping() || consumer.open_count)
		return false;
	if (!is_empty())
		consumer.quiet = 0;
	else
		consumer.quiet++;
	return consumer.quiet >= QUIET_TIMES;
}

/* ---- the load ---- */

static bool
connect_and_consume(void)
{
	amqp_connection_state_t (*make)(void) = stopping() ? connect_once : connect_again;

	if (options.life)
		consumer.conn = connect_in_life(make, &consumer.connection);
	else
		consumer.conn = make();
	if (!consumer.conn)
		return false;
	if (!options.life)
		consumer.connection++;
	consumer.slow = options.rate && random_below(2);
	consumer.taken = 0;
	consumer.began_us = now_us();
	consumer.open_count = 0;
	consumer.group = random_below(2) ? 1 + random_below(GROUP) : 0;
	consumer.last_us = now_us();
	amqp_basic_qos(consumer.conn, CHANNEL, 0, PREFETCH, 0);
	if (!went_well(consumer.conn, "basic.qos"))
		return false;
	amqp_basic_consume(consumer.conn, CHANNEL, amqp_cstring_bytes(consumer.queue),
			   amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	return went_well(consumer.conn, "basic.consume");
}

/* True when the queue is drained, false when the connection is lost. */
static bool
take_and_settle(void)
{
	bool idle;

	while (take_next(&idle)) {
		if (!idle)
			continue;
		if (!settle_all())
			return false;
		if (is_drained())
			return true;
	}
	return false;
}

int
consumer_run(void)
{
	bool drained = false;

	queue_name(consumer.queue, options.id);
	consumer.ledger = ledger_open("consumer", options.id, "w");
	while (!drained) {
		drained = connect_and_consume() && take_and_settle();
		if (drained)
			disconnect(consumer.conn);
		else
			forget(consumer.conn);
		if (!drained && stopping())
			sleep_us(IDLE_MS * 1000);
	}
	ledger_close(consumer.ledger);
	printf("consumer %u: %u connections, received %llu\n", options.id, consumer.connection,
	       (unsigned long long)consumer.received);
	return EXIT_SUCCESS;
}
