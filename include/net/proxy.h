/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PROXY protocol, versions 1 (text) and 2 (binary): what a load balancer says about the connection
 * that it passes on. Pure functions on bytes; any thread.
 */
#pragma once

#include "net/conn.h"
#include "util/base.h"
#include "util/bytes.h"

/* The longest header that is taken: one octet more than any that is taken is enough to decide. */
#define PROXY_HEADER_MAX 4096

struct proxy_header {
	size_t size;		   // octets of the header, to be taken off the stream
	bool has_addresses;	   // false for UNKNOWN and LOCAL: the socket's addresses count
	struct conn_address peer;  // the real client
	struct conn_address local; // what it connected to
};

/* 0 when input starts with a whole header, -EAGAIN when it may become one, -EPROTO when it cannot. */
int proxy_parse(struct bytes input, struct proxy_header *header) MUST_CHECK;

/* A range of addresses. */
struct proxy_network {
	uint8_t address[16]; // IPv4 as mapped into IPv6
	unsigned prefix;     // leading bits that count, of 128
};

/* "10.0.0.0/8", "::1", "fd00::/8"; false when it is none. */
bool proxy_network_parse(const char *text, struct proxy_network *network) MUST_CHECK;
/* Whether the numeric host is in the range; false for one that is not numeric (unix sockets). */
bool proxy_network_contains(const struct proxy_network *network, const char *host);
