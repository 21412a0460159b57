/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing whole frames. Cutting and the 7 octets before a payload are inline in the header, since
 * each message passes them.
 */
#include "wire/frame.h"

const uint8_t protocol_header[PROTOCOL_HEADER_SIZE] = {'A', 'M', 'Q', 'P', 0, 0, 9, 1};
const uint8_t heartbeat_frame[FRAME_OVERHEAD] = {FRAME_HEARTBEAT, 0, 0, 0, 0, 0, 0, FRAME_END};

void
frame_write_method(struct writer *w, uint16_t channel, const struct method *method)
{
	uint8_t *prefix = write_room(w, FRAME_PREFIX);
	size_t size;

	method_encode(method, w);
	if (w->bad)
		return;
	size = (size_t)(w->p - prefix) - FRAME_PREFIX;
	if (size > UINT32_MAX)
		w->bad = true;
	frame_prefix_encode(prefix, FRAME_METHOD, channel, (uint32_t)size);
	write_octet(w, FRAME_END);
}

static void
write_frame(struct writer *w, enum frame_type type, uint16_t channel, struct bytes payload)
{
	uint8_t *prefix = write_room(w, FRAME_PREFIX);

	if (payload.n > UINT32_MAX)
		w->bad = true;
	if (prefix != NULL)
		frame_prefix_encode(prefix, (uint8_t)type, channel, (uint32_t)payload.n);
	write_raw(w, payload);
	write_octet(w, FRAME_END);
}

void
frame_write_content(struct writer *w, uint16_t channel, struct bytes header_payload,
		    struct bytes body, uint32_t frame_max)
{
	size_t room = frame_max == 0 ? UINT32_MAX : frame_max - FRAME_OVERHEAD;

	assert(frame_max == 0 || frame_max > FRAME_OVERHEAD);
	write_frame(w, FRAME_HEADER, channel, header_payload);
	while (body.n != 0 && !w->bad) {
		size_t n = body.n < room ? body.n : room;

		write_frame(w, FRAME_BODY, channel, bytes_of(body.p, n));
		body = bytes_of(body.p + n, body.n - n);
	}
}
