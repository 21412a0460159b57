/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses as people write them, from and to the system's form. An IPv4 address mapped into IPv6 is
 * shown as the IPv4 address that it is. Any thread.
 */
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/un.h>

static void
from_ipv4(struct conn_address *address, const struct in_addr *host, uint16_t port)
{
	inet_ntop(AF_INET, host, address->host, sizeof(address->host));
	address->port = port;
	address->loopback = (ntohl(host->s_addr) >> 24) == 127;
}

static void
from_ipv6(struct conn_address *address, const struct in6_addr *host, uint16_t port)
{
	if (IN6_IS_ADDR_V4MAPPED(host)) {
		struct in_addr mapped;

		memcpy(&mapped, &host->s6_addr[12], sizeof(mapped));
		from_ipv4(address, &mapped, port);
		return;
	}
	inet_ntop(AF_INET6, host, address->host, sizeof(address->host));
	address->port = port;
	address->loopback = IN6_IS_ADDR_LOOPBACK(host);
}

void
address_set_local(struct conn_address *address, const char *name)
{
	size_t n = min_u64(strlen(name), sizeof(address->host) - 1);

	memset(address, 0, sizeof(*address));
	memcpy(address->host, name, n);
	address->loopback = true;
}

void
address_from_sockaddr(struct conn_address *address, const struct sockaddr *from)
{
	memset(address, 0, sizeof(*address));
	if (from->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, from, sizeof(in));
		from_ipv4(address, &in.sin_addr, ntohs(in.sin_port));
	} else if (from->sa_family == AF_INET6) {
		struct sockaddr_in6 in;

		memcpy(&in, from, sizeof(in));
		from_ipv6(address, &in.sin6_addr, ntohs(in.sin6_port));
	} else {
		struct sockaddr_un un = {0};

		memcpy(&un, from, offsetof(struct sockaddr_un, sun_path));
		address_set_local(address, un.sun_family == AF_UNIX ? "unix" : "unknown");
	}
}

void
address_of_socket(int fd, struct conn_address *peer, struct conn_address *local)
{
	struct sockaddr_storage storage = {0};
	socklen_t size = sizeof(storage);

	if (getpeername(fd, (struct sockaddr *)&storage, &size) == 0)
		address_from_sockaddr(peer, (const struct sockaddr *)&storage);
	size = sizeof(storage);
	memset(&storage, 0, sizeof(storage));
	if (getsockname(fd, (struct sockaddr *)&storage, &size) == 0)
		address_from_sockaddr(local, (const struct sockaddr *)&storage);
}

void
address_tune_socket(int fd, const struct net_options *options)
{
	int on = 1;

	/* Sockets that are not TCP refuse the first, which does no harm. */
	if (options->tcp_nodelay)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (options->tcp_keepalive)
		(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}
