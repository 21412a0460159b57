/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growable byte buffer. One function, make_room(), decides about limit, growth and the error;
 * all writers go through it. The memory may be one byte larger than the limit: that byte is for the
 * NUL of buf_cstr() and of printf, and is never counted in n. One thread.
 */
#include "util/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/mem.h"

#define ROOM_FIRST 64

void
buf_init(struct buf *buf, size_t limit)
{
	/* Half the address space is as good as no limit, and lets sums be made without overflow. */
	*buf = (struct buf){.limit = limit == 0 ? SIZE_MAX / 2 : min_u64(limit, SIZE_MAX / 2)};
}

void
buf_fini(struct buf *buf)
{
	xfree(buf->p);
	*buf = (struct buf){.limit = buf->limit};
}

void
buf_clear(struct buf *buf)
{
	buf->n = 0;
	buf->bad = false;
}

/* Grows the memory to hold size bytes at least, the byte for a NUL included. */
static void
grow(struct buf *buf, size_t size)
{
	size_t room = buf->room == 0 ? ROOM_FIRST : buf->room;

	assert(size <= buf->limit + 1);
	while (room < size)
		room *= 2;
	room = min_u64(room, buf->limit + 1);
	buf->p = xrealloc(buf->p, room);
	buf->room = room;
}

/* True when n more bytes (and a NUL after them) have room now; else the error is set. */
static inline bool
make_room(struct buf *buf, size_t n)
{
	assert(buf->n <= buf->limit);
	if (unlikely(buf->bad))
		return false;
	if (unlikely(n > buf->limit - buf->n)) {
		buf->bad = true;
		return false;
	}
	if (unlikely(buf->room < buf->n + n + 1))
		grow(buf, buf->n + n + 1);
	return true;
}

void
buf_add(struct buf *buf, const void *p, size_t n)
{
	if (n == 0 || !make_room(buf, n))
		return;
	memcpy(buf->p + buf->n, p, n);
	buf->n += n;
}

void
buf_add_bytes(struct buf *buf, struct bytes view)
{
	buf_add(buf, view.p, view.n);
}

void
buf_add_str(struct buf *buf, const char *string)
{
	buf_add(buf, string, strlen(string));
}

void
buf_add_byte(struct buf *buf, uint8_t byte)
{
	if (make_room(buf, 1))
		buf->p[buf->n++] = byte;
}

void
buf_addf(struct buf *buf, const char *format, ...)
{
	va_list arguments;
	int wanted;

	if (!make_room(buf, 0))
		return;
	va_start(arguments, format);
	wanted = vsnprintf((char *)buf->p + buf->n, buf->room - buf->n, format, arguments);
	va_end(arguments);
	assert(wanted >= 0);
	if ((size_t)wanted >= buf->room - buf->n) {
		if (!make_room(buf, (size_t)wanted))
			return;
		va_start(arguments, format);
		vsnprintf((char *)buf->p + buf->n, buf->room - buf->n, format, arguments);
		va_end(arguments);
	}
	buf->n += (size_t)wanted;
}

uint8_t *
buf_reserve(struct buf *buf, size_t n)
{
	return make_room(buf, n) ? buf->p + buf->n : NULL;
}

void
buf_consume(struct buf *buf, size_t n)
{
	assert(n <= buf->n);
	buf->n -= n;
	if (n != 0 && buf->n != 0)
		memmove(buf->p, buf->p + n, buf->n);
}

const char *
buf_cstr(struct buf *buf)
{
	if (buf->room < buf->n + 1)
		grow(buf, buf->n + 1);
	buf->p[buf->n] = '\0';
	return (const char *)buf->p;
}
