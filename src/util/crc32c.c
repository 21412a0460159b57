/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C. The processor's instruction where there is one, found out once at start; else eight
 * tables, so that eight bytes are taken at a step (each table is the one before it, pushed on by
 * one byte). The polynomial is Castagnoli's, bit-reversed. Any thread: the tables are made at start
 * where they are needed (elsewhere by a test that asks for them).
 */
#include "util/crc32c.h"

#include "internal.h"

#define POLYNOMIAL 0x82f63b78

static uint32_t tables[8][256];

static void
make_tables(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t sum = i;

		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ ((sum & 1) != 0 ? POLYNOMIAL : 0);
		tables[0][i] = sum;
	}
	for (int k = 1; k < 8; k++) {
		for (int i = 0; i < 256; i++) {
			uint32_t before = tables[k - 1][i];

			tables[k][i] = before >> 8 ^ tables[0][before & 255];
		}
	}
}

uint32_t
crc32c_by_table(uint32_t sum, const uint8_t *p, size_t n)
{
	if (tables[0][1] == 0)
		make_tables();
	sum = ~sum;
	for (; n >= 8; p += 8, n -= 8) {
		sum ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
		       (uint32_t)p[3] << 24;
		sum = tables[7][sum & 255] ^ tables[6][sum >> 8 & 255] ^
		      tables[5][sum >> 16 & 255] ^ tables[4][sum >> 24] ^ tables[3][p[4]] ^
		      tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
	}
	for (; n > 0; p++, n--)
		sum = sum >> 8 ^ tables[0][(sum ^ *p) & 255];
	return ~sum;
}

#ifdef __x86_64__
#include <nmmintrin.h>

static bool have_instruction;

static RUN_AT_START void
choose(void)
{
	__builtin_cpu_init();
	have_instruction = __builtin_cpu_supports("sse4.2") != 0;
	if (!have_instruction)
		make_tables();
}

static WITH_INSTRUCTIONS("sse4.2") uint32_t by_instruction(uint32_t sum, const uint8_t *p, size_t n)
{
	uint64_t wide = ~sum;

	for (; n >= 8; p += 8, n -= 8) {
		uint64_t word;

		memcpy(&word, p, sizeof(word));
		wide = _mm_crc32_u64(wide, word);
	}
	sum = (uint32_t)wide;
	if ((n & 4) != 0) {
		uint32_t word;

		memcpy(&word, p, sizeof(word));
		sum = _mm_crc32_u32(sum, word);
		p += 4;
	}
	for (n &= 3; n > 0; p++, n--)
		sum = _mm_crc32_u8(sum, *p);
	return ~sum;
}

uint32_t
crc32c(uint32_t sum, const void *p, size_t n)
{
	return likely(have_instruction) ? by_instruction(sum, p, n) : crc32c_by_table(sum, p, n);
}

#else

static RUN_AT_START void
choose(void)
{
	make_tables();
}

uint32_t
crc32c(uint32_t sum, const void *p, size_t n)
{
	return crc32c_by_table(sum, p, n);
}

#endif
