/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A borrowed view of bytes. It never owns: who keeps the bytes copies them. A view into an input
 * buffer dies when the handler that got it returns. Any thread.
 */
#pragma once

#include "util/base.h"

struct bytes {
	const uint8_t *p; // borrows; may be NULL when n is 0
	size_t n;	  // length in bytes
};

/* A view of a string literal, without its final NUL. */
#define BYTES(literal) ((struct bytes){(const uint8_t *)("" literal), sizeof(literal) - 1})

/* For printf's %.*s: two arguments, length and pointer. */
#define BYTES_ARGS(view) (int)(view).n, (view).n != 0 ? (const char *)(view).p : ""

static inline struct bytes
bytes_of(const void *p, size_t n)
{
	return (struct bytes){p, n};
}

/* A view of a C string, without its final NUL. */
static inline struct bytes
bytes_str(const char *string)
{
	return (struct bytes){(const uint8_t *)string, strlen(string)};
}

static inline bool
bytes_equal(struct bytes a, struct bytes b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool
bytes_has_prefix(struct bytes whole, struct bytes prefix)
{
	return whole.n >= prefix.n && (prefix.n == 0 || memcmp(whole.p, prefix.p, prefix.n) == 0);
}

/* Orders as memcmp does, a prefix before what it begins: negative, 0 or positive. */
static inline int
bytes_compare(struct bytes a, struct bytes b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int order = n == 0 ? 0 : memcmp(a.p, b.p, n);

	if (order != 0)
		return order;
	return a.n < b.n ? -1 : a.n > b.n;
}
