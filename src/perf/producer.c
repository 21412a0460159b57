/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishing at the least cost for a message. A block that was handed to the connection is left alone
 * until it is released; a few short messages are copied by the connection and the block is free at once.
 * One thread.
 */
#include "producer.h"

#include "complain.h"
#include "engine.h"
#include "options.h"
#include "topology.h"
#include "totals.h"
#include "util/mem.h"
#include "wire/field.h"
#include "wire/props.h"

/* A block is about this large, and at least one message. */
#define BLOCK_SIZE 32768
/* What a message takes beside body and frames: publish method, header with properties. */
#define MESSAGE_OVERHEAD 1024

struct block {
	struct block *next;	   // in producer.free
	struct producer *producer; // whose it is
	uint8_t data[];		   // per_block messages
};

/* ---- the image ------------------------------------------------------------------------------------ */

/* Where in a content header with that table the value of the table's last field is, of so many octets. */
static size_t
value_at(struct bytes table, size_t size)
{
	return CONTENT_HEADER_FIXED + 4 + table.n - size;
}

/* Writes the payload of the content header; *varies_at is where what is another for each message stands in it: the
 * value of the header of a headers exchange, or how long it waits. */
static size_t
header_write(const struct producer *producer, uint8_t *out, size_t room, size_t *varies_at)
{
	static const char digits[WAIT_DIGITS + 1] = "0000000000";
	const struct options *options = producer->options;
	struct basic_properties properties = {.flags = PROPERTY_delivery_mode};
	uint8_t table[32];
	struct writer w = writer_of(out, room), t = writer_of(table, sizeof(table));

	properties.delivery_mode = options->persistent ? 2 : 1;
	if (options->exchange_type == EXCHANGE_HEADERS) {
		table_put_int(&t, BYTES("number"), 0);
		*varies_at = value_at(bytes_of(table, (size_t)(t.p - table)), sizeof(uint32_t));
	} else if (options->delay.to != 0) {
		table_put_long(&t, BYTES("x-delay"), 0);
		*varies_at = value_at(bytes_of(table, (size_t)(t.p - table)), sizeof(uint64_t));
	} else if (options->expire.to != 0) {
		properties.flags |= PROPERTY_expiration;
		properties.expiration = bytes_str(digits);
	}
	properties.headers = bytes_of(table, (size_t)(t.p - table));
	if (properties.headers.n != 0)
		properties.flags |= PROPERTY_headers;
	if (options->priorities != 0)
		properties.flags |= PROPERTY_priority;
	content_header_encode(&properties, options->body, &w);
	assert(!w.bad && !t.bad);
	if (options->expire.to != 0) // the last property
		*varies_at = (size_t)(w.p - out) - WAIT_DIGITS;
	return (size_t)(w.p - out);
}

/* Where in a content header the priority is: behind the headers and the delivery mode. */
static size_t
priority_at(struct bytes header)
{
	const uint8_t *properties = header.p + CONTENT_HEADER_FIXED;
	bool headers = ((properties[-2] << 8 | properties[-1]) & PROPERTY_headers) != 0;

	return CONTENT_HEADER_FIXED + (headers ? 4 + load_long(properties) : 0) + 1;
}

static void
image_make(struct producer *producer)
{
	const struct options *options = producer->options;
	uint32_t frame_max = producer->client.frame_max;
	size_t body_frames = options->body / (frame_max - FRAME_OVERHEAD) + 1;
	size_t room = options->body + body_frames * FRAME_OVERHEAD + MESSAGE_OVERHEAD;
	struct method m = {.id = METHOD_basic_publish};
	bool number = options->exchange_type == EXCHANGE_HEADERS;
	uint8_t header[128], *body = xmalloc(options->body);
	size_t header_size, varies_at = 0, method_size;
	struct writer w;

	memset(body, 'x', options->body);
	producer->image = xmalloc(room);
	w = writer_of(producer->image, room);
	m.basic_publish.exchange = bytes_str(options->exchange);
	m.basic_publish.routing_key =
		number ? BYTES("") : topology_key(producer->topology, producer->key);
	frame_write_method(&w, CLIENT_CHANNEL, &m);
	method_size = (size_t)(w.p - producer->image);
	header_size = header_write(producer, header, sizeof(header), &varies_at);
	frame_write_content(&w, CLIENT_CHANNEL, bytes_of(header, header_size),
			    bytes_of(body, options->body), frame_max);
	assert(!w.bad);
	xfree(body);
	producer->stride = (size_t)(w.p - producer->image);
	producer->body_at = method_size + header_size + FRAME_OVERHEAD + FRAME_PREFIX;
	producer->wait_at = method_size + FRAME_PREFIX + varies_at;
	producer->priority_at =
		method_size + FRAME_PREFIX + priority_at(bytes_of(header, header_size));
	if (number)
		producer->key_at = producer->wait_at;
	else
		producer->key_at = FRAME_PREFIX + 4 + 2 + 1 + m.basic_publish.exchange.n + 1;
	producer->per_block = max_u64(1, BLOCK_SIZE / producer->stride);
}

/* ---- blocks --------------------------------------------------------------------------------------- */

static struct block *
block_take(struct producer *producer)
{
	struct block *block = producer->free;

	if (block != NULL) {
		producer->free = block->next;
		return block;
	}
	block = xmalloc(sizeof(*block) + producer->per_block * producer->stride);
	block->producer = producer;
	for (size_t i = 0; i < producer->per_block; i++)
		memcpy(block->data + i * producer->stride, producer->image, producer->stride);
	return block;
}

static void
block_release(void *owner)
{
	struct block *block = owner;

	block->next = block->producer->free;
	block->producer->free = block;
}

static uint64_t
intended_us(const struct producer *producer, uint64_t sequence)
{
	uint64_t place = sequence * producer->options->producers + producer->index;

	return producer->origin_us + (uint64_t)((double)place * producer->interval_us);
}

uint64_t
producer_next_us(const struct producer *producer)
{
	return intended_us(producer, producer->sequence);
}

/* xorshift64*: spread well enough, and the same in each run. */
static uint64_t
next_random(struct producer *producer)
{
	uint64_t x = producer->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	producer->random = x;
	return x * 0x2545f4914f6cdd1dULL;
}

/* Puts a wait into the message at p; how long it is in microseconds. */
static uint64_t
stamp_wait(struct producer *producer, uint8_t *p)
{
	const struct range *wait = options_wait(producer->options);
	uint64_t ms = wait->from + next_random(producer) % (wait->to - wait->from + 1);
	uint64_t left = ms;

	p += producer->wait_at;
	if (producer->options->delay.to != 0)
		store_longlong(p, ms);
	else
		for (size_t i = WAIT_DIGITS; i > 0; left /= 10)
			p[--i] = (uint8_t)('0' + left % 10);
	return ms * 1000;
}

/* Puts key, number and time into the next n messages, which lie at p. */
static void
stamp(struct producer *producer, uint8_t *p, size_t n)
{
	const struct topology *topology = producer->topology;
	uint64_t body = producer->options->body, sequence = producer->sequence;
	uint64_t us = producer->client.engine->now_us;
	bool vary = topology->key_count > 1;
	bool waits = options_wait(producer->options)->to != 0;
	uint64_t levels = producer->options->priorities + 1;

	for (size_t i = 0; i < n; i++, p += producer->stride, sequence++) {
		if (producer->origin_us != 0)
			us = intended_us(producer, sequence);
		if (vary) {
			memcpy(p + producer->key_at,
			       topology->keys + producer->key * topology->key_size,
			       topology->key_size);
			producer->key += producer->options->producers;
			while (producer->key >= topology->key_count)
				producer->key -= topology->key_count;
		}
		if (levels > 1)
			p[producer->priority_at] = (uint8_t)(sequence % levels);
		if (body >= 8)
			store_longlong(p + producer->body_at,
				       producer->index << SEQUENCE_BITS | sequence);
		if (body >= 16)
			store_longlong(p + producer->body_at + 8,
				       unlikely(waits) ? us + stamp_wait(producer, p) : us);
		if (producer->sent_us != NULL)
			producer->sent_us[sequence & producer->mask] = us;
	}
	producer->sequence = sequence;
}

/* How many more messages may go out now. */
static uint64_t
room(const struct producer *producer)
{
	uint64_t n = producer->limit - producer->sequence;

	if (producer->sent_us != NULL)
		n = min_u64(n,
			    producer->options->confirm - (producer->sequence - producer->lowest));
	if (producer->origin_us != 0 && n != 0) {
		uint64_t due = 0, now = producer->client.engine->now_us;

		while (due < n && due < producer->per_block &&
		       intended_us(producer, producer->sequence + due) <= now)
			due++;
		n = due;
	}
	return n;
}

void
producer_pump(struct producer *producer)
{
	uint64_t n;

	while (!conn_is_full(producer->client.conn) && (n = room(producer)) != 0) {
		struct block *block = block_take(producer);

		n = min_u64(n, producer->per_block);
		stamp(producer, block->data, n);
		producer->totals->sent += n;
		conn_write_reference(producer->client.conn,
				     bytes_of(block->data, n * producer->stride), block_release,
				     block);
	}
}

/* ---- confirms ------------------------------------------------------------------------------------- */

static void
confirm_one(struct producer *producer, uint64_t sequence, bool nack)
{
	struct totals *totals = producer->totals;
	uint64_t *sent_us = &producer->sent_us[sequence & producer->mask];

	if (*sent_us == 0)
		return;
	if (totals->timed && totals->every)
		histogram_add(&totals->confirms, producer->client.engine->now_us - *sent_us);
	*sent_us = 0;
	totals->confirmed++;
	totals->refused += nack;
}

static void
confirm(struct producer *producer, uint64_t tag, bool multiple, bool nack)
{
	struct totals *totals = producer->totals;
	uint64_t last = tag - 1;

	if (producer->sent_us == NULL || tag > producer->sequence || (tag == 0 && !multiple))
		fail("the broker confirms what was not sent");
	if (tag == 0) /* all */
		last = producer->sequence - 1;
	if (last < producer->lowest)
		return;
	if (totals->timed && !totals->every)
		histogram_add(&totals->confirms, producer->client.engine->now_us -
							 producer->sent_us[last & producer->mask]);
	for (uint64_t i = multiple ? producer->lowest : last; i <= last; i++)
		confirm_one(producer, i, nack);
	while (producer->lowest < producer->sequence &&
	       producer->sent_us[producer->lowest & producer->mask] == 0)
		producer->lowest++;
}

static bool
on_method(struct client *client, struct bytes payload)
{
	struct producer *producer = container_of(client, struct producer, client);
	struct reader reader = reader_of(payload);
	uint32_t id = read_long(&reader);
	uint64_t tag;
	bool multiple;

	if (id != METHOD_basic_ack && id != METHOD_basic_nack)
		return false;
	tag = read_longlong(&reader);
	multiple = read_bit(&reader);
	if (!reader.bad)
		confirm(producer, tag, multiple, id == METHOD_basic_nack);
	return true;
}

static const struct client_role role = {.method = on_method};

/* ---- opening and closing -------------------------------------------------------------------------- */

static void
confirms_select(struct producer *producer)
{
	struct method m = {.id = METHOD_confirm_select};
	uint64_t size = 1;

	while (size < producer->options->confirm)
		size *= 2;
	producer->mask = size - 1;
	producer->sent_us = xcalloc(size, sizeof(*producer->sent_us));
	client_call(&producer->client, &m, METHOD_confirm_select_ok);
}

void
producer_open(struct producer *producer, uint64_t index, struct engine *engine,
	      const struct options *options, const struct topology *topology, struct totals *totals)
{
	*producer = (struct producer){.options = options,
				      .topology = topology,
				      .totals = totals,
				      .index = index,
				      .random = index + 1,
				      .key = index % topology->key_count};
	client_open(&producer->client, engine, &options->broker, &role);
	image_make(producer);
	if (options->confirm != 0)
		confirms_select(producer);
}

void
producer_close(struct producer *producer)
{
	struct block *block;

	client_close(&producer->client);
	while ((block = producer->free) != NULL) {
		producer->free = block->next;
		xfree(block);
	}
	xfree(producer->sent_us);
	xfree(producer->image);
}
