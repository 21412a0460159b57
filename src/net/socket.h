/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two transports over sockets share: the descriptor and its events. Broker thread.
 */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/types.h>
#include <sys/uio.h>
#include "net/loop.h"
#include "net/transport.h"
#include "util/base.h"

struct socket_events {
	int fd;		     // owns
	bool reading;	     // the read event is on
	bool connecting;     // connect() has not ended yet
	struct event read;   // level triggered, persistent
	struct event *write; // owns; NULL while it is off
};

/* Takes over fd; both events call back with the context, and are off. */
void socket_events_init(struct socket_events *events, struct loop *loop, int fd, bool connecting,
			event_callback_fn callback, void *context);
/* Closes fd too. */
void socket_events_fini(struct socket_events *events);
void socket_events_want(struct socket_events *events, bool readable, bool writable);
/* Whether a connect() came to its end: 0 well, -EAGAIN not yet, else how it failed (once). With 0 the first
 * time, the addresses of the transport are set. */
int socket_events_connected(struct socket_events *events, struct transport *transport);

/* Sends without a signal: bytes taken or a negative errno. */
ssize_t socket_send(int fd, const struct iovec *parts, int count);
ssize_t socket_receive(int fd, const struct iovec *parts, int count);

/* A plain transport, perhaps still connecting. */
struct transport *transport_socket_start(struct loop *loop, int fd, bool connecting);
