/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening socket: accepts connections inside net_input() and hands them to their owner, after the
 * PROXY header where the listener asks for one. Broker thread.
 */
#pragma once

#include "net/conn.h"
#include "net/proxy.h"
#include "util/base.h"
#include "util/buf.h"

struct tls;
struct listener;

struct listener_options {
	char host[64];	       // address or name; empty: all addresses, IPv6 and IPv4
	uint16_t port;	       // 0: a free one
	int backlog;	       // connections that may wait to be accepted
	struct tls *tls;       // borrows until listener_close; NULL: plain
	uint64_t handshake_ms; // for the PROXY header and for the TLS handshake, each
	bool proxy_protocol;   // each connection starts with a PROXY header
	const struct proxy_network
		*trusted;     // borrows until listener_open returns: who may send one
	size_t trusted_count; // 0: everybody
};

/* Plain, all addresses, backlog 128, 5 s. */
struct listener_options listener_options_default(uint16_t port);
/* Sets host and port from "5672", "127.0.0.1:5672", "[::1]:5672", "::1:5672" or "name:5672"; false and
 * nothing set when it is none of these. */
bool listener_parse(const char *text, struct listener_options *options) MUST_CHECK;

/* Gives a new connection to its owner, who sets itself with conn_set_owner() or aborts it. A TLS
 * handshake may still be under way: what is written goes out after it, input comes after it, and a failure
 * is told by closed(). The listener may not be closed in here. */
typedef void listener_accepted(struct conn *conn, void *context);

/* Opens it; the caller owns *listener. 0, or a negative errno and one clear line in error. A name is
 * resolved, which may block: for the start of the program. */
int listener_open(struct listener **listener, struct net *net,
		  const struct listener_options *options, listener_accepted *accepted,
		  void *context, struct buf *error) MUST_CHECK;
/* The same with a socket that listens already (socket activation); takes over fd, also on error. */
int listener_adopt(struct listener **listener, struct net *net, int fd,
		   const struct listener_options *options, listener_accepted *accepted,
		   void *context, struct buf *error) MUST_CHECK;
/* Connections that were accepted go on; those still before the end of their PROXY header do not. */
void listener_close(struct listener **listener);
/* Where it listens, with the real port. */
const struct conn_address *listener_address(const struct listener *listener);
