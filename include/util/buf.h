/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable byte buffer. It grows by doubling up to a limit; a write that would pass the limit
 * sets a sticky error, and every later write does nothing. Belongs to one thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

struct buf {
	uint8_t *p;   // owns; NULL while capacity is 0
	size_t n;     // bytes written
	size_t room;  // capacity
	size_t limit; // n never passes it
	bool bad;     // a write did not fit; sticky until buf_clear
};

/* limit: bytes at most, 0 for SIZE_MAX. */
void buf_init(struct buf *buf, size_t limit);
void buf_fini(struct buf *buf);
/* Empties it and clears the error, keeping the memory. */
void buf_clear(struct buf *buf);
void buf_add(struct buf *buf, const void *p, size_t n);
void buf_add_bytes(struct buf *buf, struct bytes view);
void buf_add_str(struct buf *buf, const char *string);
void buf_add_byte(struct buf *buf, uint8_t byte);
void buf_addf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);
/* Makes room for n more bytes and returns where they go, NULL (and the error is set) when that
 * passes the limit. The caller writes at most n bytes there and adds their number to buf->n
 * itself. */
uint8_t *buf_reserve(struct buf *buf, size_t n);
/* Removes the first n bytes (n <= buf->n). */
void buf_consume(struct buf *buf, size_t n);
/* NUL-terminated view of the content, valid until the next change. */
const char *buf_cstr(struct buf *buf);

static inline struct bytes
buf_bytes(const struct buf *buf)
{
	return bytes_of(buf->p, buf->n);
}
