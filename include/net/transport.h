/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What carries the bytes of a conn: a small table of functions. A transport reports that it can be read
 * or written by conn_on_readable() and conn_on_writable(), which only mark. Broker thread.
 */
#pragma once

#include <sys/types.h>
#include <sys/uio.h>
#include "util/base.h"
#include "net/conn.h"

struct transport_ops {
	/* Bytes read; 0 at the end of the stream; negative errno, -EAGAIN when nothing is there. A count
	 * short of the room says that nothing more is there now. */
	ssize_t (*read)(struct transport *transport, const struct iovec *parts, int count);
	/* Bytes taken, or a negative errno, -EAGAIN when none can be taken now. */
	ssize_t (*write)(struct transport *transport, const struct iovec *parts, int count);
	/* What is to be reported from now on (level triggered). */
	void (*want)(struct transport *transport, bool readable, bool writable);
	/* Ends our side after all that was written; the peer may go on sending. 0, -EAGAIN when it must be
	 * called again after the next report of writable, or another negative errno. */
	int (*shutdown)(struct transport *transport);
	/* Ends and frees it. Called from net_reap and net_free only. */
	void (*close)(struct transport *transport);
	/* NULL when there is no certificate. */
	const struct tls_peer *(*tls_peer)(struct transport *transport);
};

struct transport {
	const struct transport_ops *ops;
	struct conn *conn; // set by conn_new
	struct conn_address peer;
	struct conn_address local;
};

/* The transport can be read (or has ended), or can be written. */
void conn_on_readable(struct conn *conn);
void conn_on_writable(struct conn *conn);

/* A connected stream socket, which must be non-blocking; it takes over fd. */
struct transport *transport_socket_new(struct loop *loop, int fd);

/*
 * The memory transport for tests: the test is the peer. mem_peer_send() makes the bytes readable;
 * mem_peer_take() fetches what the conn wrote; window limits how much of it may lie there unread.
 */
struct mem_peer;
struct transport *transport_mem_new(struct mem_peer **peer, size_t window);
void mem_peer_send(struct mem_peer *peer, struct bytes bytes);
/* What was written since the last call; valid until the next call. Makes room in the window. */
struct bytes mem_peer_take(struct mem_peer *peer);
/* The peer ends its side. */
void mem_peer_close(struct mem_peer *peer);
/* The peer is gone: it ends its side, and writing to it fails with EPIPE from now on. */
void mem_peer_break(struct mem_peer *peer);
/* Whether the conn has ended its side. */
bool mem_peer_closed(const struct mem_peer *peer);
void mem_peer_free(struct mem_peer **peer); // after the conn is reaped
