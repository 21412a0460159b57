/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8, one character at a time. The second octet decides all that is special: the range that it
 * may have depends on the first one, and keeps overlong forms, surrogates and what lies above
 * U+10FFFF out (RFC 3629: 4).
 */
#include "wire/utf8.h"

/* Octets that a first octet promises; 0 when it cannot be a first one. */
static size_t
promised(uint8_t first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xC2)
		return 0;
	if (first < 0xE0)
		return 2;
	if (first < 0xF0)
		return 3;
	return first < 0xF5 ? 4 : 0;
}

static bool
second_fits(uint8_t first, uint8_t second)
{
	switch (first) {
	case 0xE0:
		return second >= 0xA0 && second <= 0xBF;
	case 0xED:
		return second >= 0x80 && second <= 0x9F;
	case 0xF0:
		return second >= 0x90 && second <= 0xBF;
	case 0xF4:
		return second >= 0x80 && second <= 0x8F;
	default:
		return second >= 0x80 && second <= 0xBF;
	}
}

static bool
continues(uint8_t octet)
{
	return (octet & 0xC0) == 0x80;
}

size_t
utf8_character(const uint8_t *p, size_t left)
{
	size_t n = left == 0 ? 0 : promised(p[0]);

	if (n > left)
		return 0;
	if (n >= 2 && !second_fits(p[0], p[1]))
		return 0;
	for (size_t i = 2; i < n; i++)
		if (!continues(p[i]))
			return 0;
	return n;
}

bool
utf8_check(struct bytes text)
{
	size_t n;

	for (size_t at = 0; at < text.n; at += n) {
		n = utf8_character(text.p + at, text.n - at);
		if (n == 0)
			return false;
	}
	return true;
}

void
utf8_mend(char *text, size_t n)
{
	size_t step;

	for (size_t at = 0; at < n; at += step) {
		step = utf8_character((const uint8_t *)text + at, n - at);
		if (step == 0) {
			text[at] = '?';
			step = 1;
		}
	}
}

size_t
utf8_cut(const char *text, size_t limit)
{
	while (limit > 0 && continues((uint8_t)text[limit]))
		limit--;
	return limit;
}
