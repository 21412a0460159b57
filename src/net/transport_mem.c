/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory transport: a test plays the peer. Two buffers and a window; it reports like a level
 * triggered socket. The peer outlives the transport. Broker thread.
 */
#include "internal.h"

#include <errno.h>
#include "util/buf.h"
#include "util/mem.h"

struct mem_peer {
	struct transport *transport; // borrows until it is closed, then NULL
	struct buf to_conn;	     // what the conn has yet to read
	struct buf from_conn;	     // what it wrote
	size_t taken;		     // bytes of from_conn given out by the last mem_peer_take()
	size_t window;		     // bytes of from_conn at most
	bool ended;		     // the peer sends no more
	bool shut;		     // the conn writes no more
	bool want_readable;
	bool want_writable;
};

struct transport_mem {
	struct transport base;
	struct mem_peer *peer; // borrows until closed
};

static struct mem_peer *
peer_of(struct transport *transport)
{
	return container_of(transport, struct transport_mem, base)->peer;
}

static size_t
window_left(const struct mem_peer *peer)
{
	size_t waiting = peer->from_conn.n - peer->taken;

	return waiting < peer->window ? peer->window - waiting : 0;
}

/* Reports what is so and wanted. */
static void
report(struct mem_peer *peer)
{
	if (peer->transport == NULL || peer->transport->conn == NULL)
		return;
	if (peer->want_readable && (peer->to_conn.n != 0 || peer->ended))
		conn_on_readable(peer->transport->conn);
	if (peer->want_writable && window_left(peer) != 0)
		conn_on_writable(peer->transport->conn);
}

static ssize_t
mem_read(struct transport *transport, const struct iovec *parts, int count)
{
	struct mem_peer *peer = peer_of(transport);
	size_t done = 0;

	if (peer->to_conn.n == 0)
		return peer->ended ? 0 : -EAGAIN;
	for (int i = 0; i < count; i++) {
		size_t n = min_u64(parts[i].iov_len, peer->to_conn.n - done);

		if (n != 0)
			memcpy(parts[i].iov_base, peer->to_conn.p + done, n);
		done += n;
	}
	buf_consume(&peer->to_conn, done);
	report(peer);
	return (ssize_t)done;
}

static ssize_t
mem_write(struct transport *transport, const struct iovec *parts, int count)
{
	struct mem_peer *peer = peer_of(transport);
	size_t done = 0;

	assert(!peer->shut);
	if (peer->ended && peer->window == 0)
		return -EPIPE;
	for (int i = 0; i < count; i++) {
		size_t n = min_u64(parts[i].iov_len, window_left(peer));

		buf_add(&peer->from_conn, parts[i].iov_base, n);
		done += n;
	}
	return done != 0 ? (ssize_t)done : -EAGAIN;
}

static void
mem_want(struct transport *transport, bool readable, bool writable)
{
	struct mem_peer *peer = peer_of(transport);

	peer->want_readable = readable;
	peer->want_writable = writable;
	report(peer);
}

static int
mem_shutdown(struct transport *transport)
{
	peer_of(transport)->shut = true;
	return 0;
}

static void
mem_close(struct transport *transport)
{
	peer_of(transport)->transport = NULL;
	xfree(container_of(transport, struct transport_mem, base));
}

static const struct tls_peer *
mem_tls_peer(struct transport *transport UNUSED)
{
	return NULL;
}

static const struct transport_ops mem_ops = {
	.read = mem_read,
	.write = mem_write,
	.want = mem_want,
	.shutdown = mem_shutdown,
	.close = mem_close,
	.tls_peer = mem_tls_peer,
};

struct transport *
transport_mem_new(struct mem_peer **peer, size_t window)
{
	struct transport_mem *mem = xcalloc(1, sizeof(*mem));

	*peer = xcalloc(1, sizeof(**peer));
	(*peer)->transport = &mem->base;
	(*peer)->window = window;
	buf_init(&(*peer)->to_conn, 0);
	buf_init(&(*peer)->from_conn, 0);
	mem->base.ops = &mem_ops;
	mem->peer = *peer;
	address_set_local(&mem->base.peer, "memory");
	address_set_local(&mem->base.local, "memory");
	return &mem->base;
}

void
mem_peer_send(struct mem_peer *peer, struct bytes bytes)
{
	assert(!peer->ended);
	buf_add_bytes(&peer->to_conn, bytes);
	report(peer);
}

struct bytes
mem_peer_take(struct mem_peer *peer)
{
	buf_consume(&peer->from_conn, peer->taken);
	peer->taken = peer->from_conn.n;
	report(peer);
	return buf_bytes(&peer->from_conn);
}

void
mem_peer_close(struct mem_peer *peer)
{
	peer->ended = true;
	report(peer);
}

void
mem_peer_break(struct mem_peer *peer)
{
	peer->ended = true;
	peer->window = 0;
	report(peer);
	if (peer->transport != NULL && peer->want_writable)
		conn_on_writable(peer->transport->conn);
}

bool
mem_peer_closed(const struct mem_peer *peer)
{
	return peer->transport == NULL || peer->shut;
}

void
mem_peer_free(struct mem_peer **peer)
{
	if (*peer == NULL)
		return;
	assert((*peer)->transport == NULL);
	buf_fini(&(*peer)->to_conn);
	buf_fini(&(*peer)->from_conn);
	xfree(*peer);
	*peer = NULL;
}
