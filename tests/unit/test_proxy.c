/* SPDX-License-Identifier: Apache-2.0 */
#include "net/proxy.h"

#include <errno.h>
#include <stdio.h>

#include "util/mem.h"

#include "lib/runner.h"

static struct proxy_header header;

/* Parses a copy of exactly that size, so that a sanitizer sees each octet too far. */
static int
parse(struct bytes input)
{
	void *copy = xmemdup(input.p, input.n);
	int status = proxy_parse(bytes_of(copy, input.n), &header);

	xfree(copy);
	return status;
}

/* Every shorter input asks for more, the whole is taken, and what follows is left. */
static void
ck_whole(struct bytes input)
{
	uint8_t more[PROXY_HEADER_MAX + 8];

	for (size_t n = 0; n < input.n; n++)
		ck_assert_int_eq(parse(bytes_of(input.p, n)), -EAGAIN);
	memcpy(more, input.p, input.n);
	memcpy(more + input.n, "AMQP", 4);
	ck_assert_int_eq(parse(bytes_of(more, input.n + 4)), 0);
	ck_assert_uint_eq(header.size, input.n);
	ck_assert_int_eq(parse(input), 0);
	ck_assert_uint_eq(header.size, input.n);
}

START_TEST(test_text_of_ipv4)
{
	ck_whole(BYTES("PROXY TCP4 192.0.2.1 127.0.0.1 56324 5672\r\n"));
	ck_assert(header.has_addresses);
	ck_assert_str_eq(header.peer.host, "192.0.2.1");
	ck_assert_uint_eq(header.peer.port, 56324);
	ck_assert(!header.peer.loopback);
	ck_assert_str_eq(header.local.host, "127.0.0.1");
	ck_assert_uint_eq(header.local.port, 5672);
	ck_assert(header.local.loopback);
}
END_TEST

START_TEST(test_text_of_ipv6)
{
	ck_whole(BYTES("PROXY TCP6 2001:db8::7 ::1 1 65535\r\n"));
	ck_assert_str_eq(header.peer.host, "2001:db8::7");
	ck_assert_str_eq(header.local.host, "::1");
	ck_assert_uint_eq(header.local.port, 65535);
}
END_TEST

START_TEST(test_text_unknown_keeps_addresses)
{
	ck_whole(BYTES("PROXY UNKNOWN\r\n"));
	ck_assert(!header.has_addresses);
	ck_whole(BYTES("PROXY UNKNOWN ffff:f...f:ffff whatever 65535 65535\r\n"));
	ck_assert(!header.has_addresses);
}
END_TEST

START_TEST(test_text_of_greatest_length)
{
	char line[120];
	int n = snprintf(line, sizeof(line), "PROXY UNKNOWN %090d\r\n", 0);

	ck_assert_int_lt(n, 108);
	n = snprintf(line, sizeof(line), "PROXY UNKNOWN %091d\r\n", 0);
	ck_assert_int_eq(n, 107);
	ck_whole(bytes_of(line, (size_t)n));
	n = snprintf(line, sizeof(line), "PROXY UNKNOWN %092d\r\n", 0);
	ck_assert_int_eq(parse(bytes_of(line, (size_t)n)), -EPROTO);
	ck_assert_int_eq(parse(bytes_of(line, 107)), -EPROTO);
	ck_assert_int_eq(parse(bytes_of(line, 106)), -EAGAIN);
}
END_TEST

START_TEST(test_bad_text_is_refused)
{
	static const char *const bad[] = {
		"PROXY TCP4 192.0.2.1 127.0.0.1 56324\r\n",
		"PROXY TCP4 192.0.2.1 127.0.0.1 56324 5672 1\r\n",
		"PROXY TCP4 192.0.2.1 127.0.0.1 56324 65536\r\n",
		"PROXY TCP4 192.0.2.1 127.0.0.1 56324 -1\r\n",
		"PROXY TCP4 192.0.2.1 127.0.0.1 56324 \r\n",
		"PROXY TCP4 192.0.2.1  127.0.0.1 56324 5672\r\n",
		"PROXY TCP4 192.0.2 127.0.0.1 56324 5672\r\n",
		"PROXY TCP4 ::1 ::1 1 2\r\n",
		"PROXY TCP6 192.0.2.1 127.0.0.1 1 2\r\n",
		"PROXY TCP5 192.0.2.1 127.0.0.1 1 2\r\n",
		"PROXY UNKNOWNS\r\n",
		"PROXY \r\n",
		"PROXY TCP4 192.0.2.1 127.0.0.1 1 2\rX",
		"PROXX",
		"AMQP\0\0\x09\x01",
		"\r\n\r\nx",
		"proxy TCP4",
	};

	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(parse(bytes_str(bad[i])) == -EPROTO, "%s", bad[i]);
	ck_assert_int_eq(parse(BYTES("PROXY TCP4 1.1.1.1\0 1.1.1.1 1 2\r\n")), -EPROTO);
}
END_TEST

/* A binary header with an announced size, filled with the octets given. */
static struct bytes
binary(uint8_t command, uint8_t family, size_t size, const char *octets, size_t n)
{
	static uint8_t p[16 + 65535];

	memcpy(p, "\r\n\r\n\0\r\nQUIT\n", 12);
	p[12] = command;
	p[13] = family;
	p[14] = (uint8_t)(size >> 8);
	p[15] = (uint8_t)size;
	memset(p + 16, 0, size);
	memcpy(p + 16, octets, n);
	return bytes_of(p, 16 + size);
}

#define V4 "\xC0\x00\x02\x01\x0A\x00\x00\x01\xDC\x04\x16\x28"
#define V6 \
	"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01\0\x02"

START_TEST(test_binary_of_ipv4)
{
	ck_whole(binary(0x21, 0x11, 12, V4, 12));
	ck_assert(header.has_addresses);
	ck_assert_str_eq(header.peer.host, "192.0.2.1");
	ck_assert_uint_eq(header.peer.port, 56324);
	ck_assert_str_eq(header.local.host, "10.0.0.1");
	ck_assert_uint_eq(header.local.port, 5672);
	/* Fields behind the addresses are skipped. */
	ck_whole(binary(0x21, 0x11, 300, V4, 12));
	ck_assert_str_eq(header.peer.host, "192.0.2.1");
	ck_whole(binary(0x21, 0x11, PROXY_HEADER_MAX - 16, V4, 12));
}
END_TEST

START_TEST(test_binary_of_ipv6)
{
	ck_whole(binary(0x21, 0x21, 36, V6, 36));
	ck_assert(header.has_addresses);
	ck_assert_str_eq(header.peer.host, "2001:db8::1");
	ck_assert_uint_eq(header.peer.port, 1);
	ck_assert_str_eq(header.local.host, "::1");
	ck_assert_uint_eq(header.local.port, 2);
	ck_assert(header.local.loopback);
}
END_TEST

START_TEST(test_binary_without_addresses)
{
	ck_whole(binary(0x20, 0x00, 0, "", 0)); // LOCAL: a health check
	ck_assert(!header.has_addresses);
	ck_whole(binary(0x20, 0x11, 12, V4, 12));
	ck_assert(!header.has_addresses);
	ck_whole(binary(0x21, 0x00, 5, "", 0)); // unspecified
	ck_assert(!header.has_addresses);
	ck_whole(binary(0x21, 0x31, 216, "", 0)); // unix
	ck_assert(!header.has_addresses);
}
END_TEST

START_TEST(test_bad_binary_is_refused)
{
	ck_assert_int_eq(parse(binary(0x11, 0x11, 12, V4, 12)), -EPROTO);
	ck_assert_int_eq(parse(binary(0x22, 0x11, 12, V4, 12)), -EPROTO);
	ck_assert_int_eq(parse(binary(0x21, 0x12, 12, V4, 12)), -EPROTO);
	ck_assert_int_eq(parse(binary(0x21, 0x41, 12, V4, 12)), -EPROTO);
	ck_assert_int_eq(parse(binary(0x21, 0x11, 11, V4, 11)), -EPROTO);
	ck_assert_int_eq(parse(binary(0x21, 0x21, 35, V6, 35)), -EPROTO);
	ck_assert_int_eq(parse(binary(0x21, 0x11, PROXY_HEADER_MAX - 15, V4, 12)), -EPROTO);
	ck_assert_int_eq(parse(bytes_of(binary(0x21, 0x11, 65535, V4, 12).p, 16)), -EPROTO);
	ck_assert_int_eq(parse(BYTES("\r\n\r\n\0\r\nQUIX")), -EPROTO);
}
END_TEST

static bool
contains(const char *network, const char *host)
{
	struct proxy_network parsed;

	ck_assert_msg(proxy_network_parse(network, &parsed), "%s", network);
	return proxy_network_contains(&parsed, host);
}

START_TEST(test_networks)
{
	struct proxy_network network;

	ck_assert(contains("10.0.0.0/8", "10.255.1.2"));
	ck_assert(!contains("10.0.0.0/8", "11.0.0.1"));
	ck_assert(contains("10.1.2.3", "10.1.2.3"));
	ck_assert(!contains("10.1.2.3", "10.1.2.2"));
	ck_assert(contains("192.168.4.0/22", "192.168.7.255"));
	ck_assert(!contains("192.168.4.0/22", "192.168.8.0"));
	ck_assert(contains("0.0.0.0/0", "1.2.3.4"));
	ck_assert(!contains("0.0.0.0/0", "2001:db8::1"));
	ck_assert(contains("::/0", "1.2.3.4"));
	ck_assert(contains("fd00::/8", "fdab::1"));
	ck_assert(!contains("fd00::/8", "fe80::1"));
	ck_assert(contains("::1", "::1"));
	ck_assert(!contains("::1", "unix"));
	ck_assert(!proxy_network_parse("10.0.0.0/33", &network));
	ck_assert(!proxy_network_parse("::/129", &network));
	ck_assert(!proxy_network_parse("::/", &network));
	ck_assert(!proxy_network_parse("::/a", &network));
	ck_assert(!proxy_network_parse("", &network));
	ck_assert(!proxy_network_parse("name", &network));
	ck_assert(!proxy_network_parse("1111111111111111111111111111111111111111111111111",
				       &network));
}
END_TEST

TESTS("proxy", test_text_of_ipv4, test_text_of_ipv6, test_text_unknown_keeps_addresses,
      test_text_of_greatest_length, test_bad_text_is_refused, test_binary_of_ipv4,
      test_binary_of_ipv6, test_binary_without_addresses, test_bad_binary_is_refused, test_networks)
