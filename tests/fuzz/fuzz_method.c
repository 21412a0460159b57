/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of a method frame. What is accepted is encoded again; since bits that no field has are
 * ignored, the result need not be the same octets, but it must be as many and must decode again.
 */
#include "fuzz.h"

#include "wire/frame.h"
#include "wire/method.h"

#define AREA 65536

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t area[AREA];
	static uint8_t again[AREA];
	struct writer w = writer_of(area, sizeof(area));
	struct writer w_again = writer_of(again, sizeof(again));
	struct bytes payload;
	struct method m;

	fuzz_claim(method_name(size >= 4 ? load_long(data) : 0) != NULL);
	if (method_decode(&m, bytes_of(data, size)) != METHOD_OK || size > AREA - FRAME_OVERHEAD)
		return 0;
	frame_write_method(&w, 1, &m);
	fuzz_claim(!w.bad);
	payload = bytes_of(area + FRAME_PREFIX, (size_t)(w.p - area) - FRAME_OVERHEAD);
	fuzz_claim(payload.n == size);
	fuzz_claim(method_decode(&m, payload) == METHOD_OK);
	method_encode(&m, &w_again);
	fuzz_claim(bytes_equal(bytes_of(again, (size_t)(w_again.p - again)), payload));
	return 0;
}
