/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the store's codecs share: octets written as hex, and areas that are exactly as large
 * as what is in them, so that a sanitizer sees the first octet that is read beyond.
 */
#pragma once

#include <stdio.h>

#include "store/record.h"
#include "util/crc32c.h"
#include "util/mem.h"

#include "lib/runner.h"

#define SALT 0x61074b7aU /* of the store and segment of the golden octets */

/* A copy of its own; the caller frees it. */
static inline uint8_t *
exact_copy(const uint8_t *p, size_t n)
{
	uint8_t *copy = xmalloc(n != 0 ? n : 1);

	if (n != 0)
		memcpy(copy, p, n);
	return copy;
}

/* The octets that hex says; the caller frees them. */
static inline struct bytes
unhex(const char *hex, uint8_t **owned)
{
	size_t n = strlen(hex) / 2;

	*owned = xmalloc(n);
	for (size_t i = 0; i < n; i++) {
		unsigned octet;

		ck_assert_int_eq(sscanf(hex + 2 * i, "%2x", &octet), 1);
		(*owned)[i] = (uint8_t)octet;
	}
	return bytes_of(*owned, n);
}

/* The octets are what hex says. */
static inline void
expect_hex(const uint8_t *p, const char *hex)
{
	uint8_t *owned;
	struct bytes expected = unhex(hex, &owned);

	ck_assert_mem_eq(p, expected.p, expected.n);
	xfree(owned);
}

/* Seals what the area holds, which must be one record, and looks at it. */
static inline struct record
sealed_record(uint8_t *p, size_t n)
{
	struct record record;

	record_seal(p, SALT);
	ck_assert_int_eq(record_decode(&record, bytes_of(p, n), SALT), 0);
	ck_assert_uint_eq(record.size, n);
	return record;
}
