/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors over bytes in AMQP's encoding: big-endian integers, strings with their length in front,
 * bits packed from the lowest upwards (0-9-1: 4.2.5). The error is sticky: after one bad read every
 * later read yields zero and after one bad write nothing is written, so callers check once, at the
 * end. Nothing here allocates. Any thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

struct reader {
	const uint8_t *p;   // next byte; borrows
	const uint8_t *end; // past the last byte
	uint8_t bits;	    // the octet of bits being unpacked
	uint8_t bits_left;  // how many of them were not read yet
	bool bad;	    // something did not fit
};

struct writer {
	uint8_t *p;	   // next byte; borrows
	uint8_t *end;	   // past the last byte of room
	uint8_t *bits;	   // the octet being packed
	uint8_t bits_used; // how many of its bits are taken; 0 or 8 when the next bit opens an octet
	bool bad;	   // something did not fit
};

static inline struct reader
reader_of(struct bytes view)
{
	return (struct reader){.p = view.p, .end = view.n != 0 ? view.p + view.n : view.p};
}

static inline size_t
reader_left(const struct reader *r)
{
	return (size_t)(r->end - r->p);
}

/* All was read and nothing was bad. */
static inline bool
reader_done(const struct reader *r)
{
	return !r->bad && r->p == r->end;
}

static inline struct bytes
read_raw(struct reader *r, size_t n)
{
	struct bytes view = {r->p, n};

	r->bits_left = 0;
	if (unlikely(r->bad || n > reader_left(r))) {
		r->bad = true;
		return (struct bytes){NULL, 0};
	}
	if (n != 0) /* p may be NULL */
		r->p += n;
	return view;
}

static inline uint8_t
read_octet(struct reader *r)
{
	struct bytes b = read_raw(r, 1);

	return b.n != 0 ? b.p[0] : 0;
}

static inline uint16_t
read_short(struct reader *r)
{
	struct bytes b = read_raw(r, 2);

	return b.n != 0 ? (uint16_t)(b.p[0] << 8 | b.p[1]) : 0;
}

static inline uint32_t
load_long(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint32_t
read_long(struct reader *r)
{
	struct bytes b = read_raw(r, 4);

	return b.n != 0 ? load_long(b.p) : 0;
}

static inline uint64_t
read_longlong(struct reader *r)
{
	struct bytes b = read_raw(r, 8);

	return b.n != 0 ? (uint64_t)load_long(b.p) << 32 | load_long(b.p + 4) : 0;
}

static inline struct bytes
read_shortstr(struct reader *r)
{
	return read_raw(r, read_octet(r));
}

static inline struct bytes
read_longstr(struct reader *r)
{
	return read_raw(r, read_long(r));
}

static inline bool
read_bit(struct reader *r)
{
	bool bit;

	if (r->bits_left == 0) {
		r->bits = read_octet(r);
		r->bits_left = 8;
	}
	bit = r->bits & 1;
	r->bits >>= 1;
	r->bits_left--;
	return bit;
}

static inline struct writer
writer_of(uint8_t *p, size_t room)
{
	return (struct writer){.p = p, .end = p + room};
}

/* Room for n bytes, to be filled by the caller; NULL when there is none. */
static inline uint8_t *
write_room(struct writer *w, size_t n)
{
	uint8_t *p = w->p;

	w->bits_used = 0;
	if (unlikely(w->bad || n > (size_t)(w->end - w->p))) {
		w->bad = true;
		return NULL;
	}
	w->p += n;
	return p;
}

static inline void
write_raw(struct writer *w, struct bytes view)
{
	uint8_t *p = write_room(w, view.n);

	if (p != NULL && view.n != 0)
		memcpy(p, view.p, view.n);
}

static inline void
store_short(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void
store_long(uint8_t *p, uint32_t value)
{
	store_short(p, (uint16_t)(value >> 16));
	store_short(p + 2, (uint16_t)value);
}

static inline void
store_longlong(uint8_t *p, uint64_t value)
{
	store_long(p, (uint32_t)(value >> 32));
	store_long(p + 4, (uint32_t)value);
}

static inline void
write_octet(struct writer *w, uint8_t value)
{
	uint8_t *p = write_room(w, 1);

	if (p != NULL)
		*p = value;
}

static inline void
write_short(struct writer *w, uint16_t value)
{
	uint8_t *p = write_room(w, 2);

	if (p != NULL)
		store_short(p, value);
}

static inline void
write_long(struct writer *w, uint32_t value)
{
	uint8_t *p = write_room(w, 4);

	if (p != NULL)
		store_long(p, value);
}

static inline void
write_longlong(struct writer *w, uint64_t value)
{
	uint8_t *p = write_room(w, 8);

	if (p != NULL)
		store_longlong(p, value);
}

/* Bad when the string is longer than 255 octets. */
static inline void
write_shortstr(struct writer *w, struct bytes string)
{
	if (string.n > UINT8_MAX)
		w->bad = true;
	write_octet(w, (uint8_t)string.n);
	write_raw(w, string);
}

/* Also for tables, which are their entries with the length in front. */
static inline void
write_longstr(struct writer *w, struct bytes string)
{
	if (string.n > UINT32_MAX)
		w->bad = true;
	write_long(w, (uint32_t)string.n);
	write_raw(w, string);
}

static inline void
write_bit(struct writer *w, bool value)
{
	if (w->bits_used == 0 || w->bits_used == 8) {
		w->bits = write_room(w, 1);
		if (w->bits == NULL)
			return;
		*w->bits = 0;
		w->bits_used = 0;
	}
	*w->bits |= (uint8_t)(value << w->bits_used);
	w->bits_used++;
}
