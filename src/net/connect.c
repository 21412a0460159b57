/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to others. A failure to get even a socket makes a conn as well, which ends at once with
 * that error, so that callers have one way to hear of it.
 */
#include "net/connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>
#include "internal.h"
#include "socket.h"

#define HANDSHAKE_MS 5000

/* The address of host and port, to be freed; NULL when there is none. */
static struct addrinfo *
resolve(const char *host, uint16_t port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	char service[8];

	snprintf(service, sizeof(service), "%u", (unsigned)port);
	if (strcmp(host, "localhost") == 0)
		host = "127.0.0.1";
	if (getaddrinfo(host, service, &hints, &found) == 0)
		return found;
	hints.ai_flags = AI_NUMERICSERV;
	return getaddrinfo(host, service, &hints, &found) == 0 ? found : NULL;
}

/* A socket that is connecting or connected, or a negative errno. */
static int
start(const struct addrinfo *to, const struct net_options *options)
{
	int error, fd;

	fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	address_tune_socket(fd, options);
	if (connect(fd, to->ai_addr, to->ai_addrlen) == 0 || errno == EINPROGRESS)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

struct conn *
conn_connect(struct net *net, const char *host, uint16_t port, struct tls *tls,
	     const struct conn_ops *ops, void *owner)
{
	struct addrinfo *to = resolve(host, port);
	int fd = to != NULL ? start(to, &net->options) : -EHOSTUNREACH;
	struct transport *transport = NULL;
	struct conn *conn;

	if (fd >= 0 && tls != NULL) {
		transport = transport_tls_new(net, fd, true, tls, host, HANDSHAKE_MS);
		fd = transport != NULL ? fd : -ENOMEM;
	}
	if (transport == NULL)
		transport = transport_socket_start(net->loop, fd >= 0 ? fd : -1, true);
	address_set_local(&transport->local, "");
	if (to != NULL)
		address_from_sockaddr(&transport->peer, to->ai_addr);
	conn = conn_new(net, transport, ops, owner);
	if (fd < 0)
		conn_abort(conn, fd);
	if (to != NULL)
		freeaddrinfo(to);
	return conn;
}
