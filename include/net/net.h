/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of the layer: what all connections of a loop share. It keeps three lists: connections with
 * input to handle, with output to write, and dead ones. Events of the loop only put connections on
 * lists; the turn (server/turn.c) works the lists off, in this order:
 *
 *	net_input()  reads at most one budget from each ready connection and hands it to its owner
 *	net_flush()  one writev for each connection that was written to
 *	net_reap()   tells owners that connections ended, and frees them
 *
 * Nothing is freed in its own callback. Broker thread only (pannier-perf: its only thread).
 */
#pragma once

#include "util/base.h"
#include "util/clock.h"
#include "util/heap.h"

struct loop;

struct net_options {
	size_t read_budget;	  // bytes read from one connection in one turn (default 128 KiB)
	size_t output_high;	  // bytes waiting for a peer at which its conn is full (256 KiB)
	size_t output_low;	  // bytes at which a full conn has room again (64 KiB)
	size_t reference_minimum; // a view of at least this size goes out by reference (4 KiB)
	bool tcp_nodelay;	  // default true
	bool tcp_keepalive;	  // default false
};

struct net;

/* The defaults above. */
struct net_options net_options_default(void);
/* loop is borrowed until net_free, NULL for tests on the memory transport. Caller owns the result. */
struct net *net_new(struct loop *loop, struct deadlines *deadlines,
		    const struct net_options *options);
/* All connections and listeners must be gone. */
void net_free(struct net **net);
const struct net_options *net_options(const struct net *net);
struct deadlines *net_deadlines(const struct net *net);
/* The time of this turn; set by the turn before anything else. */
void net_set_now(struct net *net, struct now now);
struct now net_now(const struct net *net);

/* Also writes to conns that can be written again (their ops->drained comes from here), accepts, and goes on
 * with handshakes. */
void net_input(struct net *net);
/* ops->drained comes from here as well, for a conn that was full and could write all at once: what an
 * owner begins then is the next turn's, which must not wait. */
void net_flush(struct net *net);
void net_reap(struct net *net);
/* Something waits in net/ that no event will announce: the next wait of the loop must be none. */
bool net_work_left(const struct net *net);
/* Some connection has more input than it was given in this turn. */
bool net_input_waits(const struct net *net);
/* Connections alive (not yet reaped). */
size_t net_conn_count(const struct net *net);
