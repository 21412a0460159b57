/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of net/ share: the root, the connection, and what a transport may ask of both. A
 * connection is on at most one of each kind of list: ready (input to handle), dirty (output to write),
 * and, by its state, ending or dead. conn_set_state() is the only function that changes the state, and
 * moves it between the last two.
 *
 * Invariants. Output waits => dirty, or blocked (the transport will report), or mute. A paused conn is
 * not on the ready list. The read event is on unless it fired during a pause. Broker thread.
 */
#pragma once

#include <sys/socket.h>
#include "net/conn.h"
#include "net/net.h"
#include "net/transport.h"
#include "util/base.h"
#include "util/heap.h"
#include "util/list.h"

/* Work for the next net_input(): what an event of the loop found (a call to accept, say). */
struct net_task {
	struct list_link link;		    // in net.tasks
	void (*run)(struct net_task *task); // set once by the owner
};

struct net {
	struct loop *loop;	     // borrows until net_free; NULL without sockets
	struct deadlines *deadlines; // borrows until net_free
	struct net_options options;
	struct now now;	    // the time of this turn
	uint64_t last_id;   // of the newest conn
	size_t count;	    // conns whose owner was not yet told of their end
	struct list tasks;  // net_task.link
	struct list ready;  // conn.ready: input may be there
	struct list dirty;  // conn.dirty: output was written
	struct list ending; // conn.end: closing or lingering, the one that ends first in front
	struct list dead;   // conn.end: to be reaped
	struct deadline ending_deadline; // of the first of ending
};

struct loop *net_loop(const struct net *net);
/* Puts the task on the list; fine when it is there already. */
void net_post(struct net *net, struct net_task *task);
void net_unpost(struct net *net, struct net_task *task);

enum conn_state {
	CONN_OPEN,	// as the owner knows it
	CONN_CLOSING,	// conn_close() was called, output is still to be written; on ending
	CONN_SHUT,	// all is written and our side has ended; the owner is to be told; on dead
	CONN_LINGERING, // the owner is gone; what the peer still sends is thrown away; on ending
	CONN_DEAD	// to be freed, the owner told before if there is one; on dead
};

/* A run of output: a part of a chunk, or a reference. */
struct segment {
	const uint8_t *p;	      // the rest that is not yet sent
	size_t n;		      // its bytes
	void (*release)(void *owner); // NULL: part of a chunk
	void *owner; // of a reference; or the chunk, to be freed after its last part
};

struct chunk {
	size_t size; // of the block, this header included
	size_t unused;
	uint8_t data[];
};

struct conn {
	struct conn_front front;    // what the inline functions of conn.h see; must be first
	const struct conn_ops *ops; // borrows, static; NULL once the owner was told
	void *owner;		    // borrows until the owner was told
	struct net *net;
	struct transport *transport; // owns
	struct list_link ready;	     // in net.ready
	struct list_link dirty;	     // in net.dirty
	struct list_link end;	     // in net.ending or net.dead, by state
	uint64_t id;

	/* Output. */
	struct chunk *chunk;	  // owns; the open one, front.p points into it; NULL for none
	struct segment *segments; // owns; a ring, allocated while there is one
	uint32_t segment_head;	  // index of the first
	uint32_t segment_count;
	uint32_t segment_room; // a power of two

	/* Input: unread bytes are block[start, end). */
	uint32_t input_size;  // of the block
	uint8_t *input_block; // owns; NULL when nothing is unread
	uint32_t input_start;
	uint32_t input_end;
	uint8_t *sink;	  // borrows until full; where the next sink_left bytes go
	size_t sink_left; // 0: no sink

	uint64_t octets_in;
	uint64_t octets_out;
	uint64_t ends_at_ms; // when ending is cut short
	int error;	     // for closed()
	uint8_t state;	     // enum conn_state
	uint8_t pauses;	     // enum conn_pause, or-ed
	bool readable;	     // the transport reported, or had more, and it was not read since
	bool offer;	     // unread input was not offered since the last pause
	bool feeding;	     // inside ops->input
	bool blocked;	     // the transport took no more; it will report
	bool was_full;	     // conn_is_full() said so, and drained() was not called since
	bool mute;	     // what is written from now on goes nowhere
	bool broken;	     // the write side failed (error says why), input is still read
	bool asked_read;     // what the transport was last told to report
	bool asked_write;
};

/* A closing conn that makes no progress, and a lingering one, are cut off after this time. */
#define CONN_ENDING_MS 3000

/* ---- conn.c ------------------------------------------------------------------------------------ */

/* One budget of input for a conn from the ready list. */
void conn_input(struct conn *conn);
/* Tells the transport what to report, when that changed. */
void conn_want(struct conn *conn);
void conn_set_state(struct conn *conn, enum conn_state state);
/* Ends it with the error, once. */
void conn_die(struct conn *conn, int error);
/* Reaps a conn that was taken off the dead list. */
void conn_reap(struct conn *conn);
/* Run by the deadline: the first of the ending list is out of time. */
void conn_end_overdue(struct net *net, uint64_t now_ms);

/* ---- conn_output.c ----------------------------------------------------------------------------- */

/* Writes what waits; a conn from the dirty list. */
void conn_flush(struct conn *conn);
/* Drops what waits and everything that is written from now on. */
void conn_output_drop(struct conn *conn);
/* Puts it on the dirty list, unless the transport will report first. */
void conn_mark_dirty(struct conn *conn);

/* ---- address.c --------------------------------------------------------------------------------- */

/* Fills the address from the system's form. */
void address_from_sockaddr(struct conn_address *address, const struct sockaddr *from);
/* Both ends of a connected socket. */
void address_of_socket(int fd, struct conn_address *peer, struct conn_address *local);
/* The address of a transport that has none. */
void address_set_local(struct conn_address *address, const char *name);
/* Socket options of the net for a stream socket. */
void address_tune_socket(int fd, const struct net_options *options);

/* ---- tls.c, transport_tls.c -------------------------------------------------------------------- */

struct ssl_st;
struct tls;

/* A session on the socket, with the context that tls has now; NULL when there is no memory. host: whom
 * a client expects, borrowed for the call; NULL for a server. Caller frees with SSL_free. */
struct ssl_st *tls_session(struct tls *tls, int fd, const char *host);
/* What the peer of a finished handshake has shown, NULL when nothing verified. Caller owns. */
struct tls_peer *tls_peer_new(struct ssl_st *session);
void tls_peer_free(struct tls_peer **peer);

/* Takes over the non-blocking fd, which may still be connecting. The handshake runs by itself, and ends
 * the conn when it fails or takes longer than handshake_ms. NULL when there is no session; fd is closed
 * then. */
struct transport *transport_tls_new(struct net *net, int fd, bool connecting, struct tls *tls,
				    const char *host, uint64_t handshake_ms);
