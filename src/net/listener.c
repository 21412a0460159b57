/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets. The event only posts a task; the task accepts a bounded number of connections, so
 * that a storm of them does not hold up the turn; the level triggered event posts it again. When no
 * descriptor is left the listener rests for a moment, instead of spinning on a socket that stays
 * readable.
 */
#include "net/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "internal.h"
#include "net/loop.h"
#include "prelude.h"
#include "util/log.h"
#include "util/mem.h"

#define ACCEPT_MAX 64	   // connections accepted in one turn
#define ACCEPT_REST_MS 100 // without accepting when no descriptor is left

struct listener {
	struct net *net;	      // borrows until listener_close
	struct prelude_options after; // what comes between accept and accepted()
	int fd;			      // owns
	struct event *event;	      // owns
	struct net_task task;	      // posted by the event
	struct deadline rest;	      // set while it does not accept
	struct list preludes;	      // connections whose PROXY header is to come
	struct conn_address address;  // where it listens
};

struct listener_options
listener_options_default(uint16_t port)
{
	return (struct listener_options){.port = port, .backlog = 128, .handshake_ms = 5000};
}

bool
listener_parse(const char *text, struct listener_options *options)
{
	const char *colon = strrchr(text, ':');
	const char *digits = colon != NULL ? colon + 1 : text;
	size_t host_size = colon != NULL ? (size_t)(colon - text) : 0;
	unsigned long port = 0;

	if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 5)
		return false;
	port = strtoul(digits, NULL, 10);
	if (host_size >= 2 && text[0] == '[' && text[host_size - 1] == ']') {
		text++;
		host_size -= 2;
	}
	if (port > UINT16_MAX || host_size >= sizeof(options->host) ||
	    (colon != NULL && host_size == 0) || strcspn(text, " []/") < host_size)
		return false;
	memset(options->host, 0, sizeof(options->host));
	memcpy(options->host, text, host_size);
	options->port = (uint16_t)port;
	return true;
}

/* ---- accepting --------------------------------------------------------------------------------- */

static void
accept_rest(struct listener *listener)
{
	log_error("cannot accept connections on port %u: %s", (unsigned)listener->address.port,
		  strerror(errno));
	event_del(listener->event);
	deadline_set(listener->net->deadlines, &listener->rest,
		     listener->net->now.monotonic_ms + ACCEPT_REST_MS);
}

static void
rest_over(struct deadline *deadline, uint64_t now_ms UNUSED)
{
	event_add(container_of(deadline, struct listener, rest)->event, NULL);
}

/* False when there is nothing more to accept now. */
static bool
accept_one(struct listener *listener)
{
	int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		address_tune_socket(fd, &listener->net->options);
		prelude_start(&listener->after, &listener->preludes, fd);
		return true;
	}
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return false;
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		accept_rest(listener);
		return false;
	}
	/* The rest are errors of the one connection that was to be accepted, and gone with it. */
	return true;
}

static void
accept_some(struct net_task *task)
{
	struct listener *listener = container_of(task, struct listener, task);

	for (int i = 0; i < ACCEPT_MAX && accept_one(listener); i++)
		;
}

static void
on_event(evutil_socket_t fd UNUSED, short what UNUSED, void *context)
{
	struct listener *listener = context;

	net_post(listener->net, &listener->task);
}

/* ---- opening ----------------------------------------------------------------------------------- */

/* Fills the buffer with "cannot listen on host:port: why" and returns the error. */
static int
open_failed(const struct listener_options *options, int error, const char *why, struct buf *text)
{
	bool ipv6 = strchr(options->host, ':') != NULL;

	buf_addf(text, "cannot listen on %s%s%s:%u: %s", ipv6 ? "[" : "",
		 options->host[0] != '\0' ? options->host : "*", ipv6 ? "]" : "",
		 (unsigned)options->port, why);
	return error;
}

/* A bound, listening socket of that address, or a negative errno. */
static int
open_socket(const struct sockaddr *address, socklen_t size, int backlog)
{
	int on = 1, off = 0, error;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, address, size) == 0 && listen(fd, backlog) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* All addresses: IPv6 with IPv4 where the system has it, else IPv4 alone. */
static int
open_any(const struct listener_options *options)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(options->port)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(options->port)};
	int fd = open_socket((const struct sockaddr *)&six, sizeof(six), options->backlog);

	if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
		fd = open_socket((const struct sockaddr *)&four, sizeof(four), options->backlog);
	return fd;
}

static int
open_host(const struct listener_options *options, struct buf *text)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	char port[8];
	int status, fd;

	snprintf(port, sizeof(port), "%u", (unsigned)options->port);
	status = getaddrinfo(options->host, port, &hints, &found);
	if (status != 0)
		return open_failed(options, -EADDRNOTAVAIL, gai_strerror(status), text);
	fd = open_socket(found->ai_addr, found->ai_addrlen, options->backlog);
	freeaddrinfo(found);
	return fd >= 0 ? fd : open_failed(options, fd, strerror(-fd), text);
}

int
listener_open(struct listener **listener, struct net *net, const struct listener_options *options,
	      listener_accepted *accepted, void *context, struct buf *error)
{
	int fd;

	*listener = NULL;
	if (options->host[0] != '\0') {
		fd = open_host(options, error);
		if (fd < 0)
			return fd;
	} else {
		fd = open_any(options);
		if (fd < 0)
			return open_failed(options, fd, strerror(-fd), error);
	}
	return listener_adopt(listener, net, fd, options, accepted, context, error);
}

int
listener_adopt(struct listener **listener, struct net *net, int fd,
	       const struct listener_options *options, listener_accepted *accepted, void *context,
	       struct buf *error)
{
	struct listener *new = xcalloc(1, sizeof(*new));
	struct conn_address unused;

	*listener = NULL;
	prelude_options_init(&new->after, net, options, accepted, context);
	new->net = net;
	new->fd = fd;
	new->task.run = accept_some;
	new->rest.run = rest_over;
	list_init(&new->preludes);
	address_of_socket(fd, &unused, &new->address);
	if (evutil_make_socket_nonblocking(fd) == 0)
		new->event =
			event_new(loop_base(net->loop), fd, EV_READ | EV_PERSIST, on_event, new);
	if (new->event == NULL || event_add(new->event, NULL) != 0) {
		listener_close(&new);
		return open_failed(options, -EIO, "the event loop refuses the socket", error);
	}
	*listener = new;
	return 0;
}

void
listener_close(struct listener **listener)
{
	struct listener *old = *listener;

	if (old == NULL)
		return;
	prelude_end_all(&old->preludes);
	prelude_options_fini(&old->after);
	net_unpost(old->net, &old->task);
	deadline_clear(old->net->deadlines, &old->rest);
	if (old->event != NULL)
		event_free(old->event);
	close(old->fd);
	xfree(old);
	*listener = NULL;
}

const struct conn_address *
listener_address(const struct listener *listener)
{
	return &listener->address;
}
