/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heartbeats (amqp.md 3.8). Any octet counts, both ways. We look each T/2 whether something went out
 * since the last look and send a frame when not; each T whether something came, and drop a peer that
 * was silent in two looks in a row. While we do not read, the peer is not blamed.
 */
#include "internal.h"

static void
look_again(struct connection *c, struct deadline *deadline, uint64_t in_ms)
{
	struct net *net = c->session->net;

	deadline_set(net_deadlines(net), deadline, net_now(net).monotonic_ms + in_ms);
}

static void
on_out(struct deadline *deadline, uint64_t now_ms)
{
	struct connection *c = container_of(deadline, struct connection, heartbeat_out);
	uint64_t octets = conn_octets_out(c->conn);

	(void)now_ms;
	/* what waits unsent goes out before a heartbeat could; a heartbeat does not count as output at
	 * the next look, so that one goes out each T/2 */
	if (octets == c->octets_out && conn_output_size(c->conn) == 0) {
		conn_write(c->conn, bytes_of(heartbeat_frame, sizeof(heartbeat_frame)));
		octets += sizeof(heartbeat_frame);
	}
	c->octets_out = octets;
	look_again(c, deadline, (uint64_t)c->heartbeat_s * 500);
}

static void
on_in(struct deadline *deadline, uint64_t now_ms)
{
	struct connection *c = container_of(deadline, struct connection, heartbeat_in);
	uint64_t octets = conn_octets_in(c->conn);

	(void)now_ms;
	if (octets != c->octets_in || conn_paused(c->conn) != 0)
		c->silent = 0;
	else if (++c->silent == 2) {
		connection_abort(c, "missed heartbeats from client");
		return;
	}
	c->octets_in = octets;
	look_again(c, deadline, (uint64_t)c->heartbeat_s * 1000);
}

void
heartbeat_init(struct connection *c)
{
	c->heartbeat_out.run = on_out;
	c->heartbeat_in.run = on_in;
}

void
heartbeat_start(struct connection *c)
{
	if (c->heartbeat_s == 0)
		return;
	/* the first look at input only takes the base line, so nothing can equal it */
	c->octets_in = UINT64_MAX;
	c->octets_out = conn_octets_out(c->conn);
	look_again(c, &c->heartbeat_out, (uint64_t)c->heartbeat_s * 500);
	look_again(c, &c->heartbeat_in, (uint64_t)c->heartbeat_s * 1000);
}

void
heartbeat_stop(struct connection *c)
{
	struct deadlines *deadlines = net_deadlines(c->session->net);

	deadline_clear(deadlines, &c->heartbeat_out);
	deadline_clear(deadlines, &c->heartbeat_in);
}
