/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: bytes in, bytes out, over some transport (socket, TLS, memory). It knows no libevent
 * and no AMQP.
 *
 * Input. A turn reads once into a pooled buffer, borrowed only while there are unread bytes, and calls
 * ops->input, which uses up what it can; what it leaves is kept and given again in front of what comes
 * next. A sink takes the next bytes straight to where they belong (large bodies), before the buffer.
 * A paused connection is neither read nor given input; what it has received stays as it is. There are
 * several reasons for a pause at once; input goes on when the last one ends, with what was kept first.
 * The hold (DECISIONS.md) is one of them.
 *
 * Output. Bytes are collected in pooled chunks, and references to longer ones between them; the end of
 * the turn writes all with one writev. conn_write never closes and never calls back: it marks.
 *
 * End. conn_close and conn_abort mark as well; the owner hears of every end, its own too, by
 * ops->closed out of net_reap(), once, and must not use the conn after that.
 *
 * Broker thread only.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"
#include "net/net.h"

struct conn;
struct transport;

struct conn_ops {
	/* Input is there. Returns how many bytes of it were used up. Is called again in the same turn
	 * only when a sink was set and is full. */
	size_t (*input)(struct conn *conn, struct bytes input);
	/* A conn that conn_is_full() called full has room again. */
	void (*drained)(struct conn *conn);
	/* It ended: error is 0 for an orderly end by either side, else a negative errno. The conn is
	 * freed when this returns. */
	void (*closed)(struct conn *conn, int error);
};

/* Why a connection is not read. */
enum conn_pause {
	CONN_PAUSE_HOLD = 1,	 // an answer waits for an lsn or a read; input waits behind it
	CONN_PAUSE_ALARM = 2,	 // a publisher while memory or the disk is low
	CONN_PAUSE_YIELD = 4,	 // a publisher ahead of its consumers: one budget each millisecond
	CONN_PAUSE_OUTPUT = 8,	 // its own answers pile up unread
	CONN_PAUSE_CLOSING = 16, // nothing more is wanted from it
	CONN_PAUSE_STORE = 32	 // a publisher ahead of the disk
};

struct conn_address {
	char host[48]; // numeric, IPv6 without brackets; a path for unix sockets
	uint16_t port; // 0 for unix sockets
	bool loopback; // 127.0.0.0/8, ::1, IPv4-mapped loopback, unix, memory
};

/* Takes over the transport. ops is borrowed for good (static tables). Starts paused for nothing: it
 * is read from the next turn on. */
struct conn *conn_new(struct net *net, struct transport *transport, const struct conn_ops *ops,
		      void *owner);
/* Hands the connection to another owner (after accept, after a prelude). */
void conn_set_owner(struct conn *conn, const struct conn_ops *ops, void *owner);
void *conn_owner(const struct conn *conn);
struct net *conn_net(const struct conn *conn);
uint64_t conn_id(const struct conn *conn); // counts up from 1 within a net
const struct conn_address *conn_peer(const struct conn *conn);
const struct conn_address *conn_local(const struct conn *conn);
/* By the PROXY protocol: the real addresses. */
void conn_set_addresses(struct conn *conn, const struct conn_address *peer,
			const struct conn_address *local);
/* The subject of the verified client certificate, NULL without one; see net/tls.h. */
struct tls_peer;
const struct tls_peer *conn_tls_peer(const struct conn *conn);

/* The next n bytes of the stream go to p, before input sees any more; p must stay valid until it is
 * full, cleared with n = 0, or the conn ended. Bytes kept from the present input are not moved: set a
 * sink only when the present input is used up. */
void conn_sink(struct conn *conn, uint8_t *p, size_t n);
/* Bytes of the sink that are still to come. */
size_t conn_sink_left(const struct conn *conn);
void conn_pause(struct conn *conn, enum conn_pause reason);
void conn_resume(struct conn *conn, enum conn_pause reason);
/* The reasons now in force, or-ed. */
unsigned conn_paused(const struct conn *conn);

/* The part of a conn that the inline functions below see; it stands first in struct conn. Nobody else
 * touches it. */
struct conn_front {
	uint8_t *p;	// where the next byte of output goes
	uint8_t *end;	// end of the open chunk; equal to p when there is none
	uint8_t *start; // first byte of the open chunk that is neither sent nor queued
	size_t queued;	// bytes that wait before start
	size_t full_at; // output from which conn_is_full() must look closer
};

/* The slow ways of the functions below; not to be called otherwise. */
uint8_t *conn_reserve_more(struct conn *conn, size_t n);
void conn_write_more(struct conn *conn, struct bytes bytes);
bool conn_is_full_now(struct conn *conn);

static ALWAYS_INLINE struct conn_front *
conn_front(struct conn *conn)
{
	return (struct conn_front *)(void *)conn;
}

/* Room for n contiguous bytes of output (n <= CONN_RESERVE_MAX), never NULL; conn_commit says how many
 * of them count. Nothing else may be written between the two. */
#define CONN_RESERVE_MAX 32768
static inline uint8_t *
conn_reserve(struct conn *conn, size_t n)
{
	struct conn_front *front = conn_front(conn);

	if (likely((size_t)(front->end - front->p) > n))
		return front->p;
	return conn_reserve_more(conn, n);
}

static inline void
conn_commit(struct conn *conn, size_t n)
{
	struct conn_front *front = conn_front(conn);

	assert(n <= (size_t)(front->end - front->p));
	front->p += n;
}

/* Copies. */
static inline void
conn_write(struct conn *conn, struct bytes bytes)
{
	struct conn_front *front = conn_front(conn);

	if (unlikely((size_t)(front->end - front->p) <= bytes.n)) {
		conn_write_more(conn, bytes);
		return;
	}
	if (bytes.n != 0)
		memcpy(front->p, bytes.p, bytes.n);
	front->p += bytes.n;
}

/* Sends the bytes from where they lie; release(owner) is called once when they are no longer needed,
 * also when the connection ends before. Shorter ones than options.reference_minimum are copied and
 * released at once. */
void conn_write_reference(struct conn *conn, struct bytes bytes, void (*release)(void *owner),
			  void *owner);

/* Bytes waiting. */
static inline size_t
conn_output_size(struct conn *conn)
{
	struct conn_front *front = conn_front(conn);

	return front->queued + (size_t)(front->p - front->start);
}

/* Whether as much output waits as the options allow; then ops->drained is called when there is room,
 * and it stays full until then. A conn that is ending is full as well, and is never drained. */
static inline bool
conn_is_full(struct conn *conn)
{
	return unlikely(conn_output_size(conn) >= conn_front(conn)->full_at) &&
	       conn_is_full_now(conn);
}

/* Ends it after the output has been written. */
void conn_close(struct conn *conn);
/* Ends it at once, output dropped. error is what closed() will be told. */
void conn_abort(struct conn *conn, int error);

uint64_t conn_octets_in(const struct conn *conn);
uint64_t conn_octets_out(const struct conn *conn);
