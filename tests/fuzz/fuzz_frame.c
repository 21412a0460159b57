/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames cut out of a stream, one after another, as a connection would.
 */
#include "fuzz.h"

#include "wire/frame.h"

#define PAYLOAD_MAX 4096

/* What was cut is written again, and must be the octets that it was cut from. */
static void
rewrite(const struct frame *frame, struct bytes input)
{
	static uint8_t area[PAYLOAD_MAX + FRAME_OVERHEAD];

	frame_prefix_encode(area, frame->type, frame->channel, frame->size);
	if (frame->size != 0)
		memcpy(area + FRAME_PREFIX, frame->payload.p, frame->size);
	area[FRAME_PREFIX + frame->size] = FRAME_END;
	fuzz_claim(memcmp(area, input.p, FRAME_OVERHEAD + frame->size) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = bytes_of(data, size);
	struct frame frame = {0};
	enum frame_result result;

	while ((result = frame_cut(&frame, input, PAYLOAD_MAX)) == FRAME_OK) {
		rewrite(&frame, input);
		input.p += FRAME_OVERHEAD + frame.size;
		input.n -= FRAME_OVERHEAD + frame.size;
	}
	if (result == FRAME_TOO_LARGE)
		fuzz_claim(frame.size > PAYLOAD_MAX);
	if (result == FRAME_PARTIAL)
		fuzz_claim(input.n < FRAME_PREFIX || input.n < FRAME_OVERHEAD + (size_t)frame.size);
	return 0;
}
