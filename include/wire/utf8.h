/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. Pure; any
 * thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

/* Whether all octets are below 0x80, 8 at a time. */
static inline bool
utf8_is_ascii(struct bytes text)
{
	const uint8_t *p = text.p;
	size_t left = text.n;
	uint64_t seen = 0;
	uint64_t word = 0;

	for (; left >= sizeof(word); left -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		seen |= word;
	}
	for (; left > 0; left--)
		seen |= *p++;
	return (seen & 0x8080808080808080u) == 0;
}

/* Octets of the character at p, of which left are there: 1 to 4; 0 when it is no character. */
size_t utf8_character(const uint8_t *p, size_t left);
/* Whether text is UTF-8 from end to end; for text that is not plain ASCII. */
bool utf8_check(struct bytes text);

/* Whether text is UTF-8; cheap when it is plain ASCII. */
static inline bool
utf8_valid(struct bytes text)
{
	return likely(utf8_is_ascii(text)) || utf8_check(text);
}

/* Makes text UTF-8 in place: each octet that belongs to no character becomes "?". */
void utf8_mend(char *text, size_t n);
/* The largest length <= limit at which a text that is UTF-8 can be cut between two characters. */
size_t utf8_cut(const char *text, size_t limit);
