/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum: published values, pieces of any length and alignment, both implementations
 * alike. */
#include "util/crc32c.h"

#include "lib/runner.h"

#include "../../src/util/internal.h"

START_TEST(test_known_values)
{
	uint8_t zeros[32] = {0};
	uint8_t ones[32];

	memset(ones, 0xff, sizeof(ones));
	ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283);
	/* RFC 3720, B.4 */
	ck_assert_uint_eq(crc32c(0, zeros, 32), 0x8a9136aa);
	ck_assert_uint_eq(crc32c(0, ones, 32), 0x62a8ab43);
	ck_assert_uint_eq(crc32c(0, "", 0), 0);
}
END_TEST

START_TEST(test_table_and_instruction_agree_in_any_pieces)
{
	uint8_t bytes[300];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 151 + 13);
	for (size_t begin = 0; begin < 9; begin++) {
		for (size_t n = 0; n <= sizeof(bytes) - begin; n++) {
			uint32_t whole = crc32c(0, bytes + begin, n);
			uint32_t half = crc32c(0, bytes + begin, n / 2);

			ck_assert_uint_eq(whole, crc32c_by_table(0, bytes + begin, n));
			ck_assert_uint_eq(whole, crc32c(half, bytes + begin + n / 2, n - n / 2));
		}
	}
}
END_TEST

TESTS("crc32c", test_known_values, test_table_and_instruction_agree_in_any_pieces)
