/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain socket: bare events, level triggered. The read event lives in the struct; the write event is
 * made when the socket is full for the first time and freed when it is not wanted any more, since most
 * connections never need it. A socket that is still connecting takes and gives nothing until it is
 * writable. Broker thread.
 */
#include "internal.h"
#include "socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "util/log.h"
#include "util/mem.h"

struct transport_socket {
	struct transport base;
	bool want_readable; // what the conn was promised; put off while connecting
	bool want_writable;
	struct socket_events events;
};

static struct transport_socket *
socket_of(struct transport *transport)
{
	return container_of(transport, struct transport_socket, base);
}

/* ---- events, shared with TLS ------------------------------------------------------------------- */

static void
event_switch(struct event *event, bool on)
{
	if ((on ? event_add(event, NULL) : event_del(event)) != 0)
		log_error("the event loop refuses a socket: %s", strerror(errno));
}

void
socket_events_init(struct socket_events *events, struct loop *loop, int fd, bool connecting,
		   event_callback_fn callback, void *context)
{
	memset(events, 0, sizeof(*events));
	events->fd = fd;
	events->connecting = connecting;
	event_assign(&events->read, loop_base(loop), fd, EV_READ | EV_PERSIST, callback, context);
}

void
socket_events_want(struct socket_events *events, bool readable, bool writable)
{
	if (readable != events->reading) {
		event_switch(&events->read, readable);
		events->reading = readable;
	}
	if (writable && events->write == NULL) {
		events->write = slab_alloc(sizeof(*events->write));
		event_assign(events->write, event_get_base(&events->read), events->fd,
			     EV_WRITE | EV_PERSIST, event_get_callback(&events->read),
			     event_get_callback_arg(&events->read));
		event_switch(events->write, true);
	} else if (!writable && events->write != NULL) {
		event_switch(events->write, false);
		slab_free(events->write, sizeof(*events->write));
		events->write = NULL;
	}
}

void
socket_events_fini(struct socket_events *events)
{
	socket_events_want(events, false, false);
	close(events->fd);
	events->fd = -1;
}

int
socket_events_connected(struct socket_events *events, struct transport *transport)
{
	struct sockaddr_storage storage;
	socklen_t size = sizeof(storage);
	int error = 0;

	if (likely(!events->connecting))
		return 0;
	if (getpeername(events->fd, (struct sockaddr *)&storage, &size) == 0) {
		events->connecting = false;
		address_of_socket(events->fd, &transport->peer, &transport->local);
		return 0;
	}
	size = sizeof(error);
	if (getsockopt(events->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
		error = errno;
	if (error == 0)
		return -EAGAIN;
	events->connecting = false;
	return -error;
}

/* ---- bytes, shared with TLS -------------------------------------------------------------------- */

ssize_t
socket_send(int fd, const struct iovec *parts, int count)
{
	struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
				 .msg_iovlen = (size_t)count};
	ssize_t n;

	do {
		n = count == 1 ? send(fd, parts->iov_base, parts->iov_len, MSG_NOSIGNAL)
			       : sendmsg(fd, &message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n >= 0 ? n : -errno;
}

ssize_t
socket_receive(int fd, const struct iovec *parts, int count)
{
	ssize_t n;

	do {
		n = count == 1 ? recv(fd, parts->iov_base, parts->iov_len, 0)
			       : readv(fd, parts, count);
	} while (n < 0 && errno == EINTR);
	return n >= 0 ? n : -errno;
}

/* ---- the transport ----------------------------------------------------------------------------- */

static void
socket_want(struct transport *transport, bool readable, bool writable)
{
	struct transport_socket *socket = socket_of(transport);
	bool connecting = socket->events.connecting;

	/* A connect() that ends, well or not, shows as writable. */
	socket_events_want(&socket->events, readable && !connecting, writable || connecting);
	socket->want_readable = readable;
	socket->want_writable = writable;
}

/* The connect() has ended, or so it seems. */
static void
on_connected(struct transport_socket *socket)
{
	int error = socket_events_connected(&socket->events, &socket->base);

	if (error == -EAGAIN)
		return;
	socket_want(&socket->base, socket->want_readable, socket->want_writable);
	if (error != 0)
		conn_die(socket->base.conn, error);
	else if (socket->want_writable)
		conn_on_writable(socket->base.conn);
}

static void
on_event(evutil_socket_t fd UNUSED, short what, void *context)
{
	struct transport_socket *socket = context;

	if (unlikely(socket->events.connecting)) {
		on_connected(socket);
		return;
	}
	if ((what & EV_READ) != 0)
		conn_on_readable(socket->base.conn);
	if ((what & EV_WRITE) != 0)
		conn_on_writable(socket->base.conn);
}

static ssize_t
socket_read(struct transport *transport, const struct iovec *parts, int count)
{
	struct transport_socket *socket = socket_of(transport);

	return socket->events.connecting ? -EAGAIN
					 : socket_receive(socket->events.fd, parts, count);
}

static ssize_t
socket_write(struct transport *transport, const struct iovec *parts, int count)
{
	struct transport_socket *socket = socket_of(transport);

	return socket->events.connecting ? -EAGAIN : socket_send(socket->events.fd, parts, count);
}

static int
socket_shutdown(struct transport *transport)
{
	return shutdown(socket_of(transport)->events.fd, SHUT_WR) == 0 ? 0 : -errno;
}

static void
socket_close(struct transport *transport)
{
	struct transport_socket *socket = socket_of(transport);

	socket_events_fini(&socket->events);
	slab_free(socket, sizeof(*socket));
}

static const struct tls_peer *
socket_tls_peer(struct transport *transport UNUSED)
{
	return NULL;
}

static const struct transport_ops socket_ops = {
	.read = socket_read,
	.write = socket_write,
	.want = socket_want,
	.shutdown = socket_shutdown,
	.close = socket_close,
	.tls_peer = socket_tls_peer,
};

struct transport *
transport_socket_start(struct loop *loop, int fd, bool connecting)
{
	struct transport_socket *socket = slab_alloc(sizeof(*socket));

	memset(socket, 0, sizeof(*socket));
	socket->base.ops = &socket_ops;
	socket_events_init(&socket->events, loop, fd, connecting, on_event, socket);
	return &socket->base;
}

struct transport *
transport_socket_new(struct loop *loop, int fd)
{
	struct transport *transport = transport_socket_start(loop, fd, false);

	address_of_socket(fd, &transport->peer, &transport->local);
	return transport;
}
