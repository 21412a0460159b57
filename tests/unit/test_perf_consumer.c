/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How pannier-perf steps over deliveries: wherever the stream is cut, every message counts once and its
 * number and time are read.
 */
#include "perf/consumer.h"

#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include "lib/runner.h"
#include "perf/engine.h"
#include "perf/options.h"
#include "perf/producer.h"
#include "perf/totals.h"
#include "wire/props.h"

#define FRAME_LIMIT 64 // bodies above 56 octets have several frames

static uint8_t stream[4096];
static size_t stream_size;
static struct engine engine;
static struct options options;
static struct totals totals;
static struct consumer consumer;
static uint64_t next_of[2 * 3];

static void
add_delivery(uint64_t producer, uint64_t sequence, uint64_t sent_us, size_t body_size)
{
	uint8_t header[64], body[256] = {0};
	struct writer h = writer_of(header, sizeof(header));
	struct writer w = writer_of(stream + stream_size, sizeof(stream) - stream_size);
	struct basic_properties properties = {.flags = PROPERTY_delivery_mode, .delivery_mode = 1};
	struct method m = {.id = METHOD_basic_deliver};

	store_longlong(body, producer << SEQUENCE_BITS | sequence);
	store_longlong(body + 8, sent_us);
	m.basic_deliver.consumer_tag = BYTES("c");
	m.basic_deliver.delivery_tag = sequence + 1;
	m.basic_deliver.routing_key = BYTES("key");
	frame_write_method(&w, CLIENT_CHANNEL, &m);
	content_header_encode(&properties, body_size, &h);
	frame_write_content(&w, CLIENT_CHANNEL, bytes_of(header, (size_t)(h.p - header)),
			    bytes_of(body, body_size), FRAME_LIMIT);
	ck_assert(!w.bad && !h.bad);
	stream_size = (size_t)(w.p - stream);
}

static void
start(void)
{
	options = (struct options){.producers = 2, .auto_ack = true};
	engine.now_us = 5000;
	totals.timed = totals.every = true;
	totals.received = totals.misordered = 0;
	histogram_clear(&totals.latency);
	next_of[0] = next_of[1] = 0;
	consumer = (struct consumer){.options = &options, .totals = &totals, .next = next_of};
	consumer.client.engine = &engine;
}

/* Gives the first n octets, then what is left of them with the rest. */
static void
feed_cut_at(size_t n)
{
	size_t used = consumer_input(&consumer.client, bytes_of(stream, n));

	ck_assert_uint_le(used, n);
	used += consumer_input(&consumer.client, bytes_of(stream + used, stream_size - used));
	ck_assert_uint_eq(used, stream_size);
}

START_TEST(test_every_cut_of_the_stream_counts_each_message_once)
{
	add_delivery(0, 0, 4000, 16);
	add_delivery(0, 1, 0, 0);
	add_delivery(1, 0, 3000, 200);
	add_delivery(0, 2, 0, 8);
	add_delivery(1, 1, 4900, 56);
	for (size_t n = 0; n <= stream_size; n++) {
		start();
		feed_cut_at(n);
		ck_assert_uint_eq(totals.received, 5);
		ck_assert_uint_eq(totals.misordered, 0);
		ck_assert_uint_eq(totals.latency.count, 3);
		ck_assert_uint_eq(totals.latency.max, 2000);
		ck_assert_uint_eq(consumer.tag, 2);
	}
}
END_TEST

START_TEST(test_octet_by_octet)
{
	size_t used = 0;

	add_delivery(0, 0, 4000, 200);
	add_delivery(1, 7, 4000, 16);
	start();
	for (size_t n = 1; n <= stream_size; n++)
		used += consumer_input(&consumer.client, bytes_of(stream + used, n - used));
	ck_assert_uint_eq(used, stream_size);
	ck_assert_uint_eq(totals.received, 2);
	ck_assert_uint_eq(next_of[0], 1);
	ck_assert_uint_eq(next_of[1], 8);
}
END_TEST

START_TEST(test_what_comes_twice_or_late_is_out_of_order)
{
	add_delivery(0, 5, 0, 16);
	add_delivery(0, 5, 0, 16);
	add_delivery(0, 4, 0, 16);
	add_delivery(0, 9, 0, 16);
	start();
	feed_cut_at(stream_size);
	ck_assert_uint_eq(totals.received, 4);
	ck_assert_uint_eq(totals.misordered, 2);
}
END_TEST

/* Messages have priorities 0 to 2 in turn: number 4 and 7 are of one. */
START_TEST(test_order_is_that_of_each_priority)
{
	add_delivery(0, 5, 0, 16);
	add_delivery(0, 4, 0, 16);
	add_delivery(0, 7, 0, 16);
	add_delivery(1, 4, 0, 16);
	add_delivery(0, 3, 0, 16);
	add_delivery(0, 2, 0, 16);
	start();
	options.priorities = 2;
	memset(next_of, 0, sizeof(next_of));
	feed_cut_at(stream_size);
	ck_assert_uint_eq(totals.received, 6);
	ck_assert_uint_eq(totals.misordered, 1);
}
END_TEST

START_TEST(test_what_waited_comes_in_any_order_and_says_how_far_off)
{
	add_delivery(0, 5, 3000, 16);
	add_delivery(0, 4, 5700, 16);
	start();
	consumer.waits = true;
	feed_cut_at(stream_size);
	ck_assert_uint_eq(totals.misordered, 0);
	ck_assert_uint_eq(totals.latency.max, 2000);
	ck_assert_uint_eq(totals.early_us, 700);
}
END_TEST

START_TEST(test_a_body_of_nobody_is_out_of_order)
{
	add_delivery(2, 0, 0, 16);
	start();
	feed_cut_at(stream_size);
	ck_assert_uint_eq(totals.misordered, 1);
}
END_TEST

START_TEST(test_a_broken_stream_ends_the_program)
{
	int status;
	pid_t child;

	add_delivery(0, 0, 0, 16);
	stream[stream_size - 1 - 16 - FRAME_OVERHEAD] = 0; /* the end of the header frame */
	start();
	child = fork();
	if (child == 0) {
		consumer_input(&consumer.client, bytes_of(stream, stream_size));
		_exit(99);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
}
END_TEST

TESTS("perf consumer", test_every_cut_of_the_stream_counts_each_message_once, test_octet_by_octet,
      test_what_comes_twice_or_late_is_out_of_order, test_order_is_that_of_each_priority,
      test_what_waited_comes_in_any_order_and_says_how_far_off,
      test_a_body_of_nobody_is_out_of_order, test_a_broken_stream_ends_the_program)
