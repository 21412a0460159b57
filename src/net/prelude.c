/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes between accept() and the owner of a connection. See prelude.h.
 */
#include "prelude.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "internal.h"
#include "net/loop.h"
#include "net/transport.h"
#include "util/log.h"
#include "util/mem.h"

void
prelude_options_init(struct prelude_options *options, struct net *net,
		     const struct listener_options *from, listener_accepted *accepted,
		     void *context)
{
	size_t size = from->trusted_count * sizeof(*from->trusted);

	*options = (struct prelude_options){
		.net = net,
		.tls = from->tls,
		.accepted = accepted,
		.context = context,
		.handshake_ms = from->handshake_ms,
		.trusted = size != 0 ? xmemdup(from->trusted, size) : NULL,
		.trusted_count = from->trusted_count,
		.proxy_protocol = from->proxy_protocol,
	};
}

void
prelude_options_fini(struct prelude_options *options)
{
	xfree(options->trusted);
	options->trusted = NULL;
}

/* ---- a conn between the transport and its owner ------------------------------------------------ */

static size_t
nobody_input(struct conn *conn UNUSED, struct bytes input)
{
	return input.n;
}

static void
nobody_hears(struct conn *conn UNUSED)
{
}

static void
nobody_closed(struct conn *conn UNUSED, int error UNUSED)
{
}

/* Until the owner sets itself, and when it aborts the conn instead. */
static const struct conn_ops nobody_ops = {
	.input = nobody_input,
	.drained = nobody_hears,
	.closed = nobody_closed,
};

/* Makes the transport and gives the conn to its owner. header: NULL, or what the PROXY header said. */
static void
hand_over(const struct prelude_options *options, int fd, const struct proxy_header *header)
{
	struct transport *transport;

	if (options->tls != NULL)
		transport = transport_tls_new(options->net, fd, false, options->tls, NULL,
					      options->handshake_ms);
	else
		transport = transport_socket_new(options->net->loop, fd);
	if (transport == NULL)
		return;
	if (header != NULL && header->has_addresses) {
		transport->peer = header->peer;
		transport->local = header->local;
	}
	options->accepted(conn_new(options->net, transport, &nobody_ops, NULL), options->context);
}

/* ---- the PROXY header -------------------------------------------------------------------------- */

/*
 * A socket whose PROXY header is to come. The bytes are looked at where they lie; those that do not yet
 * make a header all belong to it, and are taken, so that the socket does not stay readable.
 */
struct prelude {
	const struct prelude_options *options; // borrows until it ends
	struct list *waiting;		       // borrows until it ends
	struct list_link link;		       // in waiting
	int fd;				       // owns until it is handed over
	struct event *event;		       // owns
	struct net_task task;		       // posted by the event
	struct deadline deadline;
	struct buf taken; // the part of the header that was taken off the socket
};

/* Frees it; the socket is left to whoever has it now. */
static void
prelude_free(struct prelude *prelude)
{
	struct net *net = prelude->options->net;

	list_remove(prelude->waiting, &prelude->link);
	net_unpost(net, &prelude->task);
	deadline_clear(net->deadlines, &prelude->deadline);
	if (prelude->event != NULL)
		event_free(prelude->event);
	buf_fini(&prelude->taken);
	xfree(prelude);
}

static void
prelude_fail(struct prelude *prelude, const char *why)
{
	struct conn_address peer = {0}, local = {0};

	address_of_socket(prelude->fd, &peer, &local);
	log_warn("no PROXY header: %s peer=%s:%u", why, peer.host, (unsigned)peer.port);
	close(prelude->fd);
	prelude_free(prelude);
}

/* Takes n bytes that are known to be there off the socket. */
static bool
take(struct prelude *prelude, size_t n)
{
	uint8_t *p = buf_reserve(&prelude->taken, n);

	if (p == NULL || recv(prelude->fd, p, n, 0) != (ssize_t)n)
		return false;
	prelude->taken.n += n;
	return true;
}

static void
prelude_step(struct net_task *task)
{
	struct prelude *prelude = container_of(task, struct prelude, task);
	const struct prelude_options *options = prelude->options;
	size_t before = prelude->taken.n;
	uint8_t input[PROXY_HEADER_MAX];
	struct proxy_header header;
	ssize_t n;
	int status;

	if (before != 0)
		memcpy(input, prelude->taken.p, before);
	n = recv(prelude->fd, input + before, sizeof(input) - before, MSG_PEEK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		prelude_fail(prelude, n == 0 ? "the peer closed the connection" : strerror(errno));
		return;
	}
	status = proxy_parse(bytes_of(input, before + (size_t)n), &header);
	if (status == -EPROTO) {
		prelude_fail(prelude, "the first octets are something else");
	} else if (!take(prelude, status == 0 ? header.size - before : (size_t)n)) {
		prelude_fail(prelude, "it cannot be read");
	} else if (status == 0) {
		int fd = prelude->fd;

		prelude_free(prelude);
		hand_over(options, fd, &header);
	}
}

static void
on_event(evutil_socket_t fd UNUSED, short what UNUSED, void *context)
{
	struct prelude *prelude = context;

	net_post(prelude->options->net, &prelude->task);
}

static void
overdue(struct deadline *deadline, uint64_t now_ms UNUSED)
{
	prelude_fail(container_of(deadline, struct prelude, deadline), "it took too long");
}

static void
prelude_wait(const struct prelude_options *options, struct list *waiting, int fd)
{
	struct prelude *prelude = xcalloc(1, sizeof(*prelude));
	struct net *net = options->net;

	prelude->options = options;
	prelude->waiting = waiting;
	prelude->fd = fd;
	prelude->task.run = prelude_step;
	prelude->deadline.run = overdue;
	buf_init(&prelude->taken, PROXY_HEADER_MAX);
	list_append(waiting, &prelude->link);
	deadline_set(net->deadlines, &prelude->deadline,
		     net->now.monotonic_ms + options->handshake_ms);
	prelude->event =
		event_new(loop_base(net->loop), fd, EV_READ | EV_PERSIST, on_event, prelude);
	if (prelude->event == NULL || event_add(prelude->event, NULL) != 0)
		prelude_fail(prelude, "the event loop refuses the socket");
}

/* ---- the way in -------------------------------------------------------------------------------- */

/* Whoever may send a PROXY header may say to be anybody. */
static bool
is_trusted(const struct prelude_options *options, int fd)
{
	struct conn_address peer = {0}, local = {0};

	if (options->trusted_count == 0)
		return true;
	address_of_socket(fd, &peer, &local);
	for (size_t i = 0; i < options->trusted_count; i++) {
		if (proxy_network_contains(&options->trusted[i], peer.host))
			return true;
	}
	log_warn("connection refused: not a trusted source of PROXY headers peer=%s:%u", peer.host,
		 (unsigned)peer.port);
	return false;
}

void
prelude_start(const struct prelude_options *options, struct list *waiting, int fd)
{
	if (!options->proxy_protocol)
		hand_over(options, fd, NULL);
	else if (is_trusted(options, fd))
		prelude_wait(options, waiting, fd);
	else
		close(fd);
}

void
prelude_end_all(struct list *waiting)
{
	struct prelude *prelude;

	list_for_each_safe (waiting, prelude, struct prelude, link) {
		close(prelude->fd);
		prelude_free(prelude);
	}
}
