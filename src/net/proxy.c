/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PROXY protocol's header (haproxy's proxy-protocol.txt). Every octet is checked as soon as it is
 * there, so that a client which speaks AMQP at once is refused at its first octet. Pure.
 */
#include "net/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

#define V1_MAX 107   // octets of a text header, its CRLF included
#define V2_START 16  // octets before the addresses
#define V2_TCP4 0x11 // address family and protocol
#define V2_TCP6 0x21
#define V2_UNIX 0x31

static const uint8_t v2_signature[12] = {0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D,
					 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A};

/* ---- version 1 --------------------------------------------------------------------------------- */

/* Cuts the next word, up to a single space or the end, out of the line. False when it is empty or too
 * long for an address. */
static bool
word(struct bytes *line, char *to, size_t room)
{
	const uint8_t *space = line->n != 0 ? memchr(line->p, ' ', line->n) : NULL;
	size_t n = space != NULL ? (size_t)(space - line->p) : line->n;
	size_t skip = space != NULL ? n + 1 : n;

	if (n == 0 || n >= room || memchr(line->p, '\0', n) != NULL)
		return false;
	memcpy(to, line->p, n);
	to[n] = '\0';
	*line = bytes_of(line->p + skip, line->n - skip);
	return true;
}

static bool
v1_port(struct bytes *line, uint16_t *port)
{
	char text[6];
	unsigned long value;

	if (!word(line, text, sizeof(text)) || strspn(text, "0123456789") != strlen(text))
		return false;
	value = strtoul(text, NULL, 10);
	*port = (uint16_t)value;
	return value <= UINT16_MAX;
}

/* An address in the form of its family; port is added later. */
static bool
v1_address(struct bytes *line, int family, struct sockaddr_storage *to)
{
	char text[INET6_ADDRSTRLEN];
	struct sockaddr_in *four = (struct sockaddr_in *)to;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof(*to));
	to->ss_family = (sa_family_t)family;
	return word(line, text, sizeof(text)) &&
	       inet_pton(family, text,
			 family == AF_INET ? (void *)&four->sin_addr : (void *)&six->sin6_addr) ==
		       1;
}

static bool
v1_addresses(struct bytes line, int family, struct proxy_header *header)
{
	struct sockaddr_storage peer, local;
	uint16_t peer_port, local_port;

	if (!v1_address(&line, family, &peer) || !v1_address(&line, family, &local) ||
	    !v1_port(&line, &peer_port) || !v1_port(&line, &local_port) || line.n != 0)
		return false;
	address_from_sockaddr(&header->peer, (const struct sockaddr *)&peer);
	address_from_sockaddr(&header->local, (const struct sockaddr *)&local);
	header->peer.port = peer_port;
	header->local.port = local_port;
	header->has_addresses = true;
	return true;
}

/* The line without "PROXY " and CRLF. */
static bool
v1_line(struct bytes line, struct proxy_header *header)
{
	static const struct bytes tcp4 = {(const uint8_t *)"TCP4 ", 5};
	static const struct bytes tcp6 = {(const uint8_t *)"TCP6 ", 5};
	static const struct bytes unknown = {(const uint8_t *)"UNKNOWN", 7};

	if (bytes_has_prefix(line, tcp4))
		return v1_addresses(bytes_of(line.p + 5, line.n - 5), AF_INET, header);
	if (bytes_has_prefix(line, tcp6))
		return v1_addresses(bytes_of(line.p + 5, line.n - 5), AF_INET6, header);
	return bytes_has_prefix(line, unknown) && (line.n == 7 || line.p[7] == ' ');
}

static int
v1_parse(struct bytes input, struct proxy_header *header)
{
	size_t n = min_u64(input.n, V1_MAX);
	const uint8_t *end = memchr(input.p, '\r', n);
	size_t line;

	if (end == NULL)
		return n == V1_MAX ? -EPROTO : -EAGAIN;
	line = (size_t)(end - input.p);
	if (line + 2 > V1_MAX)
		return -EPROTO;
	if (line + 1 == input.n)
		return -EAGAIN;
	if (end[1] != '\n' || !v1_line(bytes_of(input.p + 6, line - 6), header))
		return -EPROTO;
	header->size = line + 2;
	return 0;
}

/* ---- version 2 --------------------------------------------------------------------------------- */

static size_t
read_u16(const uint8_t *p)
{
	return (size_t)p[0] << 8 | p[1];
}

static void
v2_tcp4(const uint8_t *p, struct proxy_header *header)
{
	struct sockaddr_in peer = {.sin_family = AF_INET}, local = {.sin_family = AF_INET};

	memcpy(&peer.sin_addr, p, 4);
	memcpy(&local.sin_addr, p + 4, 4);
	memcpy(&peer.sin_port, p + 8, 2);
	memcpy(&local.sin_port, p + 10, 2);
	address_from_sockaddr(&header->peer, (const struct sockaddr *)&peer);
	address_from_sockaddr(&header->local, (const struct sockaddr *)&local);
	header->has_addresses = true;
}

static void
v2_tcp6(const uint8_t *p, struct proxy_header *header)
{
	struct sockaddr_in6 peer = {.sin6_family = AF_INET6}, local = {.sin6_family = AF_INET6};

	memcpy(&peer.sin6_addr, p, 16);
	memcpy(&local.sin6_addr, p + 16, 16);
	memcpy(&peer.sin6_port, p + 32, 2);
	memcpy(&local.sin6_port, p + 34, 2);
	address_from_sockaddr(&header->peer, (const struct sockaddr *)&peer);
	address_from_sockaddr(&header->local, (const struct sockaddr *)&local);
	header->has_addresses = true;
}

static int
v2_parse(struct bytes input, struct proxy_header *header)
{
	size_t size, family;

	if (input.n > 12 && input.p[12] != 0x20 && input.p[12] != 0x21)
		return -EPROTO;
	if (input.n < V2_START)
		return -EAGAIN;
	family = input.p[13];
	size = read_u16(input.p + 14);
	if (V2_START + size > PROXY_HEADER_MAX)
		return -EPROTO;
	if (input.p[12] == 0x21 &&
	    ((family == V2_TCP4 && size < 12) || (family == V2_TCP6 && size < 36) ||
	     (family != 0 && family != V2_TCP4 && family != V2_TCP6 && family != V2_UNIX)))
		return -EPROTO;
	if (input.n < V2_START + size)
		return -EAGAIN;
	if (input.p[12] == 0x21 && family == V2_TCP4)
		v2_tcp4(input.p + V2_START, header);
	else if (input.p[12] == 0x21 && family == V2_TCP6)
		v2_tcp6(input.p + V2_START, header);
	header->size = V2_START + size;
	return 0;
}

int
proxy_parse(struct bytes input, struct proxy_header *header)
{
	memset(header, 0, sizeof(*header));
	if (input.n == 0)
		return -EAGAIN;
	if (memcmp(input.p, "PROXY ", min_u64(input.n, 6)) == 0)
		return input.n < 6 ? -EAGAIN : v1_parse(input, header);
	if (memcmp(input.p, v2_signature, min_u64(input.n, sizeof(v2_signature))) == 0)
		return input.n < sizeof(v2_signature) ? -EAGAIN : v2_parse(input, header);
	return -EPROTO;
}

/* ---- networks ---------------------------------------------------------------------------------- */

/* Any numeric address as IPv6. Returns the bits in front that IPv4 has not, or a negative errno. */
static int
address_bits(const char *text, uint8_t address[16])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

	if (inet_pton(AF_INET6, text, address) == 1)
		return 0;
	memcpy(address, mapped, sizeof(mapped));
	return inet_pton(AF_INET, text, address + 12) == 1 ? 96 : -EINVAL;
}

bool
proxy_network_parse(const char *text, struct proxy_network *network)
{
	const char *slash = strchr(text, '/');
	size_t n = slash != NULL ? (size_t)(slash - text) : strlen(text);
	char host[INET6_ADDRSTRLEN] = "";
	unsigned long prefix = 128;
	int front;

	if (n >= sizeof(host))
		return false;
	memcpy(host, text, n);
	front = address_bits(host, network->address);
	if (front < 0)
		return false;
	if (slash != NULL) {
		if (slash[1] == '\0' || strspn(slash + 1, "0123456789") != strlen(slash + 1) ||
		    strlen(slash + 1) > 3)
			return false;
		prefix = strtoul(slash + 1, NULL, 10) + (unsigned long)front;
	}
	network->prefix = (unsigned)prefix;
	return prefix <= 128;
}

bool
proxy_network_contains(const struct proxy_network *network, const char *host)
{
	uint8_t address[16];
	unsigned whole = network->prefix / 8, rest = network->prefix % 8;

	if (address_bits(host, address) < 0 || memcmp(address, network->address, whole) != 0)
		return false;
	return rest == 0 || ((address[whole] ^ network->address[whole]) >> (8 - rest)) == 0;
}
