/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: type octet, channel, size, payload, end octet (0-9-1: 4.2.3). Cutting them out of a stream
 * and writing them into one. Pure; any thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"
#include "wire/cursor.h"
#include "wire/method.h"

enum frame_type {
	FRAME_METHOD = 1,
	FRAME_HEADER = 2,
	FRAME_BODY = 3,
	FRAME_HEARTBEAT = 8
};

#define FRAME_END 0xCE
#define FRAME_PREFIX 7	    // octets before the payload
#define FRAME_OVERHEAD 8    // octets around the payload
#define FRAME_MIN_SIZE 4096 // every peer takes frames of this size (0-9-1: 4.2.3, frame-min-size)

#define PROTOCOL_HEADER_SIZE 8
extern const uint8_t protocol_header[PROTOCOL_HEADER_SIZE]; // "AMQP" 0 0 9 1
extern const uint8_t heartbeat_frame[FRAME_OVERHEAD];

struct frame {
	uint8_t type;
	uint16_t channel;
	uint32_t size;	      // of the payload
	struct bytes payload; // borrows from the input
};

enum frame_result {
	FRAME_OK,
	FRAME_PARTIAL,	 // more octets are needed; type, channel and size are set once 7 are there
	FRAME_TOO_LARGE, // size passes the limit; type, channel and size are set
	FRAME_BAD_END	 // the end octet is wrong; all fields are set
};

/* Reads the 7 octets before a payload; false when fewer are there. */
static inline bool
frame_prefix_decode(struct frame *frame, struct bytes input)
{
	if (input.n < FRAME_PREFIX)
		return false;
	frame->type = input.p[0];
	frame->channel = (uint16_t)(input.p[1] << 8 | input.p[2]);
	frame->size = load_long(input.p + 3);
	return true;
}

/* Cuts the first frame off input; it takes FRAME_OVERHEAD + frame->size octets. payload_max: octets
 * of payload at most. */
static inline enum frame_result
frame_cut(struct frame *frame, struct bytes input, uint32_t payload_max)
{
	if (!frame_prefix_decode(frame, input))
		return FRAME_PARTIAL;
	if (frame->size > payload_max)
		return FRAME_TOO_LARGE;
	if (input.n - FRAME_PREFIX <= frame->size)
		return FRAME_PARTIAL;
	frame->payload = bytes_of(input.p + FRAME_PREFIX, frame->size);
	return input.p[FRAME_PREFIX + frame->size] == FRAME_END ? FRAME_OK : FRAME_BAD_END;
}

static inline void
frame_prefix_encode(uint8_t *p, uint8_t type, uint16_t channel, uint32_t size)
{
	p[0] = type;
	store_short(p + 1, channel);
	store_long(p + 3, size);
}

/* Writes a whole method frame; w->bad when it does not fit. */
void frame_write_method(struct writer *w, uint16_t channel, const struct method *method);
/* Writes the content header and body frames of at most frame_max octets each (0: no limit). */
void frame_write_content(struct writer *w, uint16_t channel, struct bytes header_payload,
			 struct bytes body, uint32_t frame_max);
