/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of a content header. What is accepted is encoded again, to the same octets but for the
 * two flags that mean nothing.
 */
#include "fuzz.h"

#include "wire/props.h"

#define AREA 65536
#define FLAGS_AT (CONTENT_HEADER_FIXED - 1) // the octet that holds the two

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t area[AREA];
	struct writer w = writer_of(area, sizeof(area));
	struct content_header header;
	struct basic_properties properties;

	if (size > AREA || !content_header_decode(&header, bytes_of(data, size)))
		return 0;
	if (!properties_decode(&properties, header.properties))
		return 0;
	content_header_encode(&properties, header.body_size, &w);
	fuzz_claim(!w.bad);
	fuzz_claim((size_t)(w.p - area) == size);
	fuzz_claim(area[FLAGS_AT] == (data[FLAGS_AT] & 0xfc));
	fuzz_claim(memcmp(area + FLAGS_AT + 1, data + FLAGS_AT + 1, size - FLAGS_AT - 1) == 0);
	return 0;
}
