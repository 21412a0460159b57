/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an accepted socket to a connection: checks who it is, waits for the PROXY header where one is
 * due, makes the transport, and gives the conn to the listener's owner. Broker thread.
 */
#pragma once

#include "net/listener.h"
#include "util/list.h"

struct prelude_options {
	struct net *net; // borrows
	struct tls *tls; // borrows; NULL: plain
	listener_accepted *accepted;
	void *context;		       // of accepted
	uint64_t handshake_ms;	       // for the PROXY header, and for TLS after it
	struct proxy_network *trusted; // owns: who may send a PROXY header
	size_t trusted_count;	       // 0: everybody
	bool proxy_protocol;
};

/* Copies what it needs of the listener's options. */
void prelude_options_init(struct prelude_options *options, struct net *net,
			  const struct listener_options *from, listener_accepted *accepted,
			  void *context);
void prelude_options_fini(struct prelude_options *options);
/* Takes over the non-blocking socket. What has to wait is put on the list, until it is through or has
 * failed; the options must stay until then. */
void prelude_start(const struct prelude_options *options, struct list *waiting, int fd);
/* Closes all that wait. */
void prelude_end_all(struct list *waiting);
