/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of connections on the memory transport: the test is the peer, and runs the turn by hand.
 * One conn at a time, whose owner does what the variables say.
 */
#pragma once

#include <check.h>

#include "net/conn.h"
#include "net/net.h"
#include "net/transport.h"
#include "util/buf.h"
#include "util/heap.h"
#include "util/mem.h"

#define BUDGET 4096
#define HIGH 20000
#define LOW 5000
#define NO_WINDOW ((size_t)1 << 30)

static struct deadlines deadlines;
static struct net *net;
static struct mem_peer *peer;
static struct conn *conn; // NULL once closed() was called
static uint64_t clock_ms;

/* What the owner saw, and how it behaves. */
static struct buf seen;	     // input that was used up
static unsigned inputs;	     // calls of input
static size_t unit;	     // input is used up in units of this size; 0: nothing is used up
static unsigned pause_after; // units after which the owner pauses with HOLD; 0: never
static unsigned drains;
static unsigned closes;
static int close_error;
static void (*input_hook)(struct bytes input);
static void (*drained_hook)(void);

static inline size_t
owner_input(struct conn *from, struct bytes input)
{
	size_t used = 0;

	ck_assert_ptr_eq(from, conn);
	ck_assert_uint_eq(closes, 0);
	inputs++;
	if (input_hook != NULL)
		input_hook(input);
	while (unit != 0 && input.n - used >= unit && conn_paused(from) == 0) {
		buf_add(&seen, input.p + used, unit);
		used += unit;
		if (pause_after != 0 && --pause_after == 0)
			conn_pause(from, CONN_PAUSE_HOLD);
	}
	return used;
}

static inline void
owner_drained(struct conn *from)
{
	ck_assert_ptr_eq(from, conn);
	drains++;
	if (drained_hook != NULL)
		drained_hook();
}

static inline void
owner_closed(struct conn *from, int error)
{
	ck_assert_ptr_eq(from, conn);
	closes++;
	close_error = error;
	conn = NULL;
}

static const struct conn_ops owner_ops = {
	.input = owner_input,
	.drained = owner_drained,
	.closed = owner_closed,
};

static inline void
open_conn(size_t window)
{
	static int owner;

	conn = conn_new(net, transport_mem_new(&peer, window), &owner_ops, &owner);
	ck_assert_ptr_eq(conn_owner(conn), &owner);
}

static inline void
mem_set_up(void)
{
	struct net_options options = net_options_default();

	options.read_budget = BUDGET;
	options.output_high = HIGH;
	options.output_low = LOW;
	deadlines_init(&deadlines);
	net = net_new(NULL, &deadlines, &options);
	buf_init(&seen, 0);
	unit = 1;
	clock_ms = 1000;
	net_set_now(net, (struct now){.monotonic_ms = clock_ms});
}

static inline void
turn(void)
{
	deadlines_run(&deadlines, clock_ms);
	net_input(net);
	net_flush(net);
	net_reap(net);
}

static inline void
run(void)
{
	do {
		turn();
	} while (net_work_left(net));
}

static inline void
advance(uint64_t ms)
{
	clock_ms += ms;
	net_set_now(net, (struct now){.monotonic_ms = clock_ms});
}

static inline void
mem_tear_down(void)
{
	if (conn != NULL)
		conn_abort(conn, 0);
	run();
	ck_assert_uint_eq(net_conn_count(net), 0);
	net_free(&net);
	if (peer != NULL)
		mem_peer_free(&peer);
	ck_assert_uint_eq(deadlines.count, 0);
	deadlines_fini(&deadlines);
	buf_fini(&seen);
}

/* n bytes that tell their place. */
static inline struct bytes
pattern(size_t from, size_t n)
{
	static uint8_t p[1 << 18];

	ck_assert_uint_le(n, sizeof(p));
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)((from + i) * 7 + (from + i) / 251);
	return bytes_of(p, n);
}

static inline void
send(const char *text)
{
	mem_peer_send(peer, bytes_str(text));
}

static inline void
ck_bytes(struct bytes is, struct bytes should)
{
	ck_assert_uint_eq(is.n, should.n);
	ck_assert(bytes_equal(is, should));
}

#define ck_seen(text) ck_bytes(buf_bytes(&seen), bytes_str(text))
