/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amqp://user:password@host:port/vhost taken apart. Every part may be missing; user, password and vhost
 * may have %XX in them. A pure function.
 */
#pragma once

#include "util/base.h"

#define URI_PART_MAX 256

struct uri {
	char user[URI_PART_MAX];     // guest
	char password[URI_PART_MAX]; // guest
	char host[URI_PART_MAX];     // 127.0.0.1; IPv6 without its brackets
	uint16_t port;		     // 5672
	char vhost[URI_PART_MAX];    // "/"; "" for a path of nothing but a slash
};

/* False when text is no such URI: another scheme, a bad port, a bad or zero %XX, a part of 256 octets. */
bool uri_parse(struct uri *uri, const char *text) MUST_CHECK;
