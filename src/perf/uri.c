/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking an AMQP URI apart: scheme, then authority up to the first slash, then the vhost. In the
 * authority the last "@" ends the user, as a password may have one. A pure function; any thread.
 */
#include "uri.h"

#include <stdio.h>
#include "util/bytes.h"

static const char scheme[] = "amqp://";

static int
hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies a part with its %XX decoded, as a C string. */
static bool
part_decode(char *out, struct bytes part)
{
	size_t n = 0;

	for (size_t i = 0; i < part.n; i++) {
		uint8_t c = part.p[i];

		if (c == '%') {
			int high = i + 2 < part.n ? hex_digit(part.p[i + 1]) : -1;
			int low = i + 2 < part.n ? hex_digit(part.p[i + 2]) : -1;

			if (high < 0 || low < 0)
				return false;
			c = (uint8_t)(high << 4 | low);
			i += 2;
		}
		if (c == 0 || n == URI_PART_MAX - 1)
			return false;
		out[n++] = (char)c;
	}
	out[n] = '\0';
	return true;
}

/* Cuts whole at the first or last c: what stands before it, and in rest what follows. */
static bool
split(struct bytes whole, char c, bool last, struct bytes *before, struct bytes *after)
{
	const uint8_t *p = NULL;

	if (whole.n != 0)
		p = last ? memrchr(whole.p, c, whole.n) : memchr(whole.p, c, whole.n);
	if (p == NULL)
		return false;
	*before = bytes_of(whole.p, (size_t)(p - whole.p));
	*after = bytes_of(p + 1, whole.n - before->n - 1);
	return true;
}

static bool
port_parse(uint16_t *port, struct bytes text)
{
	unsigned value = 0;

	if (text.n == 0 || text.n > 5)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return false;
		value = value * 10 + text.p[i] - '0';
	}
	*port = (uint16_t)value;
	return value >= 1 && value <= UINT16_MAX;
}

static bool
host_parse(struct uri *uri, struct bytes text)
{
	struct bytes host = text, port;

	if (text.n != 0 && text.p[0] == '[') {
		if (!split(bytes_of(text.p + 1, text.n - 1), ']', false, &host, &port))
			return false;
		if (port.n != 0 &&
		    (port.p[0] != ':' || !port_parse(&uri->port, bytes_of(port.p + 1, port.n - 1))))
			return false;
	} else if (split(text, ':', true, &host, &port) && !port_parse(&uri->port, port)) {
		return false;
	}
	return host.n == 0 || part_decode(uri->host, host);
}

bool
uri_parse(struct uri *uri, const char *text)
{
	struct bytes rest = bytes_str(text), user, host, path;

	*uri = (struct uri){"guest", "guest", "127.0.0.1", 5672, "/"};
	if (!bytes_has_prefix(rest, bytes_str(scheme)))
		return false;
	rest = bytes_of(rest.p + sizeof(scheme) - 1, rest.n - (sizeof(scheme) - 1));
	host = rest;
	if (split(rest, '/', false, &host, &path) && !part_decode(uri->vhost, path))
		return false;
	if (split(host, '@', true, &user, &host)) {
		struct bytes name = user, password;

		if (split(user, ':', false, &name, &password) &&
		    !part_decode(uri->password, password))
			return false;
		if (!part_decode(uri->user, name))
			return false;
	}
	return host_parse(uri, host);
}
