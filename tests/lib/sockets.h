/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of net/ over real sockets: a loop with its net, and sides that collect what they get. A test
 * waits for what must come with AWAIT(condition), which runs turns; the time limit of the runner ends a
 * test that waits in vain.
 */
#pragma once

#include <check.h>

#include "net/conn.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/net.h"
#include "util/buf.h"
#include "util/clock.h"
#include "util/heap.h"

/* One end of a connection. */
struct side {
	struct conn *conn; // NULL before it is there, and after it was closed
	struct buf input;  // all that came
	unsigned drains;
	unsigned closes;
	int error; // with closes
	bool echo; // sends back what comes
};

static struct loop *loop;
static struct deadlines deadlines;
static struct net *net;
static struct side client, server;

static inline size_t
side_input(struct conn *conn, struct bytes input)
{
	struct side *side = conn_owner(conn);

	buf_add_bytes(&side->input, input);
	if (side->echo)
		conn_write(conn, input);
	return input.n;
}

static inline void
side_drained(struct conn *conn)
{
	((struct side *)conn_owner(conn))->drains++;
}

static inline void
side_closed(struct conn *conn, int error)
{
	struct side *side = conn_owner(conn);

	side->closes++;
	side->error = error;
	side->conn = NULL;
}

static const struct conn_ops side_ops = {
	.input = side_input,
	.drained = side_drained,
	.closed = side_closed,
};

/* For a listener: the conn belongs to the server from now on. */
static inline void
side_accepted(struct conn *conn, void *context)
{
	struct side *side = context;

	ck_assert_ptr_null(side->conn);
	side->conn = conn;
	conn_set_owner(conn, &side_ops, side);
}

static inline void
sockets_set_up(void)
{
	struct net_options options = net_options_default();

	loop = loop_new();
	ck_assert_ptr_nonnull(loop);
	deadlines_init(&deadlines);
	net = net_new(loop, &deadlines, &options);
	net_set_now(net, clock_read());
	buf_init(&client.input, 0);
	buf_init(&server.input, 0);
}

static inline void
sockets_work(void)
{
	struct now now = clock_read();

	net_set_now(net, now);
	deadlines_run(&deadlines, now.monotonic_ms);
	net_input(net);
	net_flush(net);
	net_reap(net);
}

static inline void
sockets_turn(void)
{
	uint64_t next = deadlines_next(&deadlines), now = net_now(net).monotonic_ms;

	if (net_work_left(net))
		loop_wait(loop, 0);
	else
		loop_wait(loop, next == UINT64_MAX ? next : next > now ? next - now : 0);
	sockets_work();
}

#define AWAIT(condition)                \
	do {                            \
		while (!(condition))    \
			sockets_turn(); \
	} while (0)

static inline void
sockets_tear_down(void)
{
	if (client.conn != NULL)
		conn_abort(client.conn, 0);
	if (server.conn != NULL)
		conn_abort(server.conn, 0);
	sockets_work();
	ck_assert_uint_eq(net_conn_count(net), 0);
	net_free(&net);
	ck_assert_uint_eq(deadlines.count, 0);
	deadlines_fini(&deadlines);
	loop_free(&loop);
	buf_fini(&client.input);
	buf_fini(&server.input);
}
