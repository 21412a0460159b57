/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consuming at the least cost for a message. One thread.
 */
#include "consumer.h"

#include "complain.h"
#include "engine.h"
#include "options.h"
#include "producer.h"
#include "totals.h"
#include "util/mem.h"
#include "wire/cursor.h"

#define ACK_FRAME_SIZE 21
#define STAMP_SIZE 16	 // octets of a body that are looked at
#define HEADER_SIZE_AT 4 // where the body size stands in a content header

static ALWAYS_INLINE uint64_t
load_longlong(const uint8_t *p)
{
	return (uint64_t)load_long(p) << 32 | load_long(p + 4);
}

/* Where the method's number and its bits stand in the frame of an ack. */
#define ACK_METHOD_AT 10
#define ACK_BITS_AT 19
#define NACK_METHOD 120

/* ---- one message ---------------------------------------------------------------------------------- */

static void
send_ack(struct consumer *consumer, bool multiple)
{
	static const uint8_t frame[ACK_FRAME_SIZE] = {FRAME_METHOD,
						      0,
						      CLIENT_CHANNEL,
						      0,
						      0,
						      0,
						      13,
						      0,
						      60,
						      0,
						      80,
						      [ACK_FRAME_SIZE - 1] = FRAME_END};
	uint8_t *p = conn_reserve(consumer->client.conn, ACK_FRAME_SIZE);

	memcpy(p, frame, sizeof(frame));
	store_longlong(p + 11, consumer->tag);
	p[ACK_BITS_AT] = multiple;
	if (unlikely(consumer->options->reject))
		p[ACK_METHOD_AT] = NACK_METHOD;
	conn_commit(consumer->client.conn, ACK_FRAME_SIZE);
	consumer->acked = consumer->tag;
}

static void
check_order(struct consumer *consumer)
{
	uint64_t producer = consumer->number >> SEQUENCE_BITS;
	uint64_t sequence = consumer->number & ((1ULL << SEQUENCE_BITS) - 1);
	uint64_t levels = consumer->options->priorities + 1;
	uint64_t *next;

	if (unlikely(producer >= consumer->options->producers)) {
		consumer->totals->misordered++;
		return;
	}
	next = &consumer->next[producer * levels + (levels == 1 ? 0 : sequence % levels)];
	if (unlikely(sequence < *next))
		consumer->totals->misordered++;
	else
		*next = sequence + 1;
}

/* A message has come in whole. */
static ALWAYS_INLINE void
message_end(struct consumer *consumer)
{
	struct totals *totals = consumer->totals;

	totals->received++;
	if (consumer->stamped && likely(!consumer->waits))
		check_order(consumer);
	if (consumer->intended_us != 0 && totals->timed &&
	    (totals->every || consumer->first_of_read)) {
		uint64_t now = consumer->client.engine->now_us;

		if (unlikely(now < consumer->intended_us))
			totals->early_us = max_u64(totals->early_us, consumer->intended_us - now);
		consumer->first_of_read = false;
		histogram_add(&totals->latency,
			      now > consumer->intended_us ? now - consumer->intended_us : 0);
	}
	if (!consumer->options->auto_ack &&
	    consumer->tag - consumer->acked >= consumer->options->ack_every)
		send_ack(consumer, consumer->options->ack_every > 1);
}

/* Takes note of the first octets of a body; n of them are there. */
static ALWAYS_INLINE void
body_begin(struct consumer *consumer, const uint8_t *p, uint64_t n)
{
	consumer->stamped = n >= 8;
	consumer->number = n >= 8 ? load_longlong(p) : 0;
	consumer->intended_us = n >= STAMP_SIZE ? load_longlong(p + 8) : 0;
}

/* ---- the stream ----------------------------------------------------------------------------------- */

/*
 * A deliver method at p, its header and the beginning of its body: steps over them, sets skip and
 * body_left to what follows, and returns where that begins. NULL when not all of it is there.
 */
static ALWAYS_INLINE const uint8_t *
delivery_begin(struct consumer *consumer, const uint8_t *p, const uint8_t *end)
{
	const uint8_t *header, *body;
	uint64_t size, first;

	header = p + FRAME_OVERHEAD + load_long(p + 3);
	if (end - header < FRAME_PREFIX + HEADER_SIZE_AT + 8)
		return NULL;
	body = header + FRAME_OVERHEAD + load_long(header + 3);
	size = load_longlong(header + FRAME_PREFIX + HEADER_SIZE_AT);
	if (header[0] != FRAME_HEADER || header[-1] != FRAME_END)
		fail("the broker sent a deliver without its header");
	if (end < body)
		return NULL;
	first = 0;
	consumer->skip = 0;
	if (size != 0) {
		if (end - body < FRAME_PREFIX)
			return NULL;
		first = load_long(body + 3);
		if (body[0] != FRAME_BODY || body[-1] != FRAME_END || first > size)
			fail("the broker sent a header without its body");
		body += FRAME_PREFIX;
		if ((uint64_t)(end - body) < min_u64(first, STAMP_SIZE))
			return NULL;
		consumer->skip = first + 1;
	}
	body_begin(consumer, body, first);
	consumer->body_left = size - first;
	consumer->tag = load_longlong(p + FRAME_PREFIX + 5 + p[FRAME_PREFIX + 4]);
	consumer->within = true;
	return body;
}

/* Within a message: steps over what there is of its body. Returns where it came to. */
static ALWAYS_INLINE const uint8_t *
body_skip(struct consumer *consumer, const uint8_t *p, const uint8_t *end)
{
	for (;;) {
		uint64_t n = min_u64(consumer->skip, (uint64_t)(end - p)), size;

		p += n;
		consumer->skip -= n;
		if (consumer->skip != 0)
			return p;
		if (consumer->body_left == 0) {
			consumer->within = false;
			message_end(consumer);
			return p;
		}
		if (end - p < FRAME_PREFIX)
			return p;
		size = load_long(p + 3);
		if (p[0] != FRAME_BODY || size > consumer->body_left)
			fail("the broker sent something in the middle of a body");
		p += FRAME_PREFIX;
		consumer->skip = size + 1;
		consumer->body_left -= size;
	}
}

static bool
is_delivery(const uint8_t *p, const uint8_t *end)
{
	return end - p >= FRAME_PREFIX + 5 && p[0] == FRAME_METHOD &&
	       load_long(p + FRAME_PREFIX) == METHOD_basic_deliver;
}

size_t
consumer_input(struct client *client, struct bytes input)
{
	struct consumer *consumer = container_of(client, struct consumer, client);
	const uint8_t *p = input.p, *end = p + input.n, *next;

	consumer->first_of_read = true;
	for (;;) {
		if (consumer->within)
			p = body_skip(consumer, p, end);
		if (consumer->within)
			break;
		if (likely(is_delivery(p, end))) {
			next = delivery_begin(consumer, p, end);
		} else {
			size_t n = client_frame(client, bytes_of(p, (size_t)(end - p)));

			next = n != 0 ? p + n : NULL;
		}
		if (next == NULL)
			break;
		p = next;
	}
	return (size_t)(p - input.p);
}

static const struct client_role role = {.input = consumer_input};

/* ---- opening and closing -------------------------------------------------------------------------- */

void
consumer_open(struct consumer *consumer, struct engine *engine, const struct options *options,
	      struct totals *totals)
{
	struct method qos = {.id = METHOD_basic_qos};

	*consumer = (struct consumer){
		.options = options, .totals = totals, .waits = options_wait(options)->to != 0};
	consumer->next =
		xcalloc(options->producers * (options->priorities + 1), sizeof(*consumer->next));
	client_open(&consumer->client, engine, &options->broker, &role);
	if (options->prefetch == 0 || options->auto_ack)
		return;
	qos.basic_qos.prefetch_count = (uint16_t)options->prefetch;
	client_call(&consumer->client, &qos, METHOD_basic_qos_ok);
}

void
consumer_start(struct consumer *consumer, struct bytes queue)
{
	struct method m = {.id = METHOD_basic_consume};

	m.basic_consume.queue = queue;
	m.basic_consume.consumer_tag = BYTES("c");
	m.basic_consume.no_ack = consumer->options->auto_ack;
	client_call(&consumer->client, &m, METHOD_basic_consume_ok);
}

void
consumer_close(struct consumer *consumer)
{
	if (!consumer->options->auto_ack && consumer->tag != consumer->acked &&
	    consumer->client.conn != NULL)
		send_ack(consumer, true);
	client_close(&consumer->client);
	xfree(consumer->next);
}
