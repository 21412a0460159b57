/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confirms, one for each message and in order, whatever the messages are: persistent and not, for durable
 * queues and others, for several, for none, refused by a full queue; on one channel and on a thousand. A
 * message that comes back comes before its confirm.
 *
 * RabbitMQ confirms in the order in which it is done with the messages; there each must be confirmed once.
 */
#include "client/rabbitmq_c.h"

#include "lib/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 1000
#define ON_ONE 20000 // messages on the only channel
#define ON_EACH 40   // messages on each of many
#define BURST 100    // messages between two looks at what came
#define WINDOW 5000  // open at most
#define DURABLE "confirms.durable"
#define FULL "confirms.full"
#define FANOUT "confirms.fanout"

enum kind {
	PERSISTENT,
	TRANSIENT,
	EXCLUSIVE,
	TO_BOTH,
	REFUSED,
	RETURNED,
	DROPPED,
	KINDS
};

struct book {
	uint64_t sent;		// tags used
	uint64_t last;		// the highest tag that was answered
	uint8_t kinds[ON_ONE];	// by tag - 1
	bool answered[ON_ONE];	// by tag - 1
	bool came_back[ON_ONE]; // by tag - 1
	bool body_comes;	// the frames of a basic.return are under way
};

static struct {
	amqp_connection_state_t conn; // owns
	char exclusive[256];	      // the queue of that kind
	bool in_order;		      // the server promises that
	bool refuses;		      // a full queue does
	unsigned open;		      // not answered, on all channels
	unsigned nacks;
	uint64_t random;
	struct book books[CHANNELS + 1]; // by channel
} load;

static unsigned
random_below(unsigned n)
{
	load.random = load.random * 6364136223846793005 + 1442695040888963407;
	return (unsigned)(load.random >> 33) % n;
}

/* ---- what comes ---- */

static void
answer_one(struct book *book, uint64_t tag, bool nack)
{
	ck_assert_msg(!book->answered[tag - 1], "a second confirm for tag %u", (unsigned)tag);
	book->answered[tag - 1] = true;
	load.open--;
	load.nacks += nack;
	if (book->kinds[tag - 1] == RETURNED)
		ck_assert_msg(book->came_back[tag - 1], "tag %u is confirmed before it came back",
			      (unsigned)tag);
	if (nack)
		ck_assert_int_eq(book->kinds[tag - 1], REFUSED);
	else if (load.refuses)
		ck_assert_int_ne(book->kinds[tag - 1], REFUSED);
}

static void
answer(struct book *book, uint64_t tag, bool multiple, bool nack)
{
	ck_assert_uint_ge(tag, 1);
	ck_assert_uint_le(tag, book->sent);
	if (load.in_order && multiple)
		ck_assert_uint_gt(tag, book->last);
	if (load.in_order && !multiple)
		ck_assert_uint_eq(tag, book->last + 1);
	if (!multiple)
		answer_one(book, tag, nack);
	for (uint64_t i = 1; multiple && i <= tag; i++)
		if (!book->answered[i - 1])
			answer_one(book, i, nack);
	if (tag > book->last)
		book->last = tag;
}

static void
take_method(struct book *book, const amqp_method_t *method)
{
	if (method->id == AMQP_BASIC_ACK_METHOD) {
		const amqp_basic_ack_t *m = method->decoded;
		answer(book, m->delivery_tag, m->multiple, false);
	} else if (method->id == AMQP_BASIC_NACK_METHOD) {
		const amqp_basic_nack_t *m = method->decoded;
		answer(book, m->delivery_tag, m->multiple, true);
	} else {
		ck_assert_uint_eq(method->id, AMQP_BASIC_RETURN_METHOD);
		book->body_comes = true;
	}
}

/* The body of a message is its tag. */
static void
take_body(struct book *book, amqp_bytes_t body)
{
	char text[24] = "";

	ck_assert(book->body_comes);
	ck_assert_uint_lt(body.len, sizeof text);
	memcpy(text, body.bytes, body.len);
	uint64_t tag = strtoull(text, NULL, 10);
	ck_assert_uint_ge(tag, 1);
	ck_assert_uint_le(tag, book->sent);
	ck_assert_int_eq(book->kinds[tag - 1], RETURNED);
	ck_assert_msg(!book->came_back[tag - 1] && !book->answered[tag - 1],
		      "tag %u comes back late", (unsigned)tag);
	book->came_back[tag - 1] = true;
	book->body_comes = false;
}

/* Takes one frame; false when none comes in that time. */
static bool
take_frame(unsigned seconds)
{
	const struct timeval limit = {.tv_sec = seconds};
	amqp_frame_t frame;

	int status = amqp_simple_wait_frame_noblock(load.conn, &frame, &limit);
	if (status == AMQP_STATUS_TIMEOUT)
		return false;
	ck_assert_msg(status == AMQP_STATUS_OK, "%s", amqp_error_string2(status));
	ck_assert_uint_le(frame.channel, CHANNELS);
	struct book *book = &load.books[frame.channel];
	if (frame.frame_type == AMQP_FRAME_METHOD)
		take_method(book, &frame.payload.method);
	else if (frame.frame_type == AMQP_FRAME_BODY)
		take_body(book, frame.payload.body_fragment);
	amqp_maybe_release_buffers_on_channel(load.conn, frame.channel);
	return true;
}

/* ---- what is sent ---- */

static void
publish_as(amqp_channel_t channel, enum kind kind)
{
	static const struct {
		const char *exchange;
		const char *key; // NULL: the exclusive queue
		bool persistent;
		bool mandatory;
	} ways[KINDS] = {
		[PERSISTENT] = {"", DURABLE, true, true},
		[TRANSIENT] = {"", DURABLE, false, false},
		[EXCLUSIVE] = {"", NULL, true, false},
		[TO_BOTH] = {FANOUT, "", true, true},
		[REFUSED] = {"", FULL, true, false},
		[RETURNED] = {"", "confirms.nowhere", true, true},
		[DROPPED] = {"", "confirms.nowhere", true, false},
	};
	struct book *book = &load.books[channel];
	const char *key = ways[kind].key ? ways[kind].key : load.exclusive;
	amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
					      .delivery_mode = ways[kind].persistent ? 2 : 1};
	char text[24];

	ck_assert_uint_lt(book->sent, ON_ONE);
	book->kinds[book->sent++] = (uint8_t)kind;
	load.open++;
	snprintf(text, sizeof text, "%u", (unsigned)book->sent);
	ck_assert_int_eq(amqp_basic_publish(load.conn, channel,
					    amqp_cstring_bytes(ways[kind].exchange),
					    amqp_cstring_bytes(key), ways[kind].mandatory, 0,
					    &properties, amqp_cstring_bytes(text)),
			 AMQP_STATUS_OK);
}

static void
declare_full_queue(void)
{
	amqp_table_entry_t entries[] = {
		{.key = amqp_cstring_bytes("x-max-length"),
		 .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 1}},
		{.key = amqp_cstring_bytes("x-overflow"),
		 .value = {.kind = AMQP_FIELD_KIND_UTF8,
			   .value.bytes = amqp_cstring_bytes("reject-publish")}},
	};

	amqp_queue_declare(load.conn, 1, amqp_cstring_bytes(FULL), 0, 1, 0, 0,
			   (amqp_table_t){.num_entries = 2, .entries = entries});
	must(load.conn, "queue.declare, with a limit");
}

static void
declare_all(void)
{
	load.conn = connect_usual();
	const amqp_table_t *server = amqp_get_server_properties(load.conn);
	load.in_order = true;
	for (int i = 0; i < server->num_entries; i++) {
		const amqp_table_entry_t *entry = &server->entries[i];
		if (entry->key.len == 7 && memcmp(entry->key.bytes, "product", 7) == 0)
			load.in_order = entry->value.value.bytes.len != 8 ||
					memcmp(entry->value.value.bytes.bytes, "RabbitMQ", 8) != 0;
	}
	temporary_queue(load.conn, 1, load.exclusive);
	amqp_queue_declare(load.conn, 1, amqp_cstring_bytes(DURABLE), 0, 1, 0, 0, amqp_empty_table);
	must(load.conn, "queue.declare");
	amqp_exchange_declare(load.conn, 1, amqp_cstring_bytes(FANOUT),
			      amqp_cstring_bytes("fanout"), 0, 1, 0, 0, amqp_empty_table);
	must(load.conn, "exchange.declare");
	amqp_queue_bind(load.conn, 1, amqp_cstring_bytes(DURABLE), amqp_cstring_bytes(FANOUT),
			amqp_empty_bytes, amqp_empty_table);
	must(load.conn, "queue.bind");
	amqp_queue_bind(load.conn, 1, amqp_cstring_bytes(load.exclusive),
			amqp_cstring_bytes(FANOUT), amqp_empty_bytes, amqp_empty_table);
	must(load.conn, "queue.bind");
	declare_full_queue();
}

static void
delete_all(void)
{
	amqp_queue_delete(load.conn, 1, amqp_cstring_bytes(DURABLE), 0, 0);
	must(load.conn, "queue.delete");
	amqp_queue_delete(load.conn, 1, amqp_cstring_bytes(FULL), 0, 0);
	must(load.conn, "queue.delete");
	amqp_exchange_delete(load.conn, 1, amqp_cstring_bytes(FANOUT), 0);
	must(load.conn, "exchange.delete");
	close_connection(load.conn);
}

static void
await_all(void)
{
	while (load.open > 0)
		ck_assert_msg(take_frame(AWAIT_S), "%u messages are not confirmed", load.open);
}

/* Fills the queue that takes one message, and learns whether it then refuses. */
static void
fill_full_queue(amqp_channel_t channel)
{
	for (int i = 0; i < 3; i++) {
		/* Of a kind of which nothing is expected. */
		publish_as(channel, REFUSED);
		load.books[channel].kinds[load.books[channel].sent - 1] = i ? REFUSED : PERSISTENT;
		await_all();
	}
	load.refuses = load.nacks > 0;
	if (load.refuses)
		ck_assert_uint_eq(load.nacks, 2);
}

static void
run_load(unsigned channels, unsigned messages)
{
	load.random = 1;
	declare_all();
	for (unsigned i = 1; i <= channels; i++) {
		amqp_channel_t channel = (amqp_channel_t)i;
		if (i > 1)
			open_channel(load.conn, channel);
		amqp_confirm_select(load.conn, channel);
		must(load.conn, "confirm.select");
	}
	fill_full_queue(1);
	for (unsigned i = 0; i < messages; i++) {
		publish_as((amqp_channel_t)(1 + i % channels), (enum kind)random_below(KINDS));
		while (i % BURST == 0 && take_frame(load.open > WINDOW ? AWAIT_S : 0))
			;
	}
	await_all();
	if (load.refuses)
		ck_assert_uint_gt(load.nacks, messages / KINDS / 2);
	/* Nothing more comes: the next frame is the answer to this. */
	delete_all();
}

START_TEST(test_one_channel_confirms_all_kinds_once_in_order)
{
	run_load(1, ON_ONE - 10);
}
END_TEST

START_TEST(test_thousand_channels_confirm_each_once_in_order)
{
	run_load(CHANNELS, CHANNELS * ON_EACH);
}
END_TEST

BROKER_TESTS("confirms", test_one_channel_confirms_all_kinds_once_in_order,
	     test_thousand_channels_confirm_each_once_in_order)
