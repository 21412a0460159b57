/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section TIMED of a footer: the references that have a time, in order, in pieces of one size, each with a
 * check of its own.
 */
#include "timed.h"

#include <errno.h>
#include <stdlib.h>

#include "footer.h"
#include "util/crc32c.h"

/* ---- writing ---- */

static int
compare(const void *a, const void *b)
{
	return timed_is_before(a, b) ? -1 : timed_is_before(b, a);
}

void
timed_sort(struct timed *items, uint32_t count)
{
	if (count > 1)
		qsort(items, count, sizeof(*items), compare);
}

uint64_t
timed_section_size(uint32_t count)
{
	uint64_t pieces = ((uint64_t)count + TIMED_PIECE_ITEMS - 1) / TIMED_PIECE_ITEMS;

	return TIMED_HEAD_SIZE + pieces * TIMED_PIECE_HEADER_SIZE +
	       (uint64_t)count * TIMED_ITEM_SIZE;
}

void
timed_head_encode(uint8_t *p, const struct timed *items, uint32_t count, uint32_t salt)
{
	le64_store(p + TIMED_HEAD_AT_FIRST, count == 0 ? UINT64_MAX : items[0].time_ms);
	le32_store(p + TIMED_HEAD_AT_COUNT, count);
	le32_store(p + TIMED_HEAD_AT_CHECK, crc32c(0, p, TIMED_HEAD_AT_CHECK) ^ salt);
}

/* Of the header and the items behind it. */
static uint32_t
piece_check(const uint8_t *p, uint32_t count, uint32_t salt)
{
	uint32_t crc = crc32c(0, p, TIMED_PIECE_AT_CHECK);

	return crc32c(crc, p + TIMED_PIECE_HEADER_SIZE, (size_t)count * TIMED_ITEM_SIZE) ^ salt;
}

uint32_t
timed_piece_encode(uint8_t *p, const struct timed *items, uint32_t left, uint32_t salt)
{
	uint32_t count = (uint32_t)min_u64(left, TIMED_PIECE_ITEMS);
	uint8_t *out = p + TIMED_PIECE_HEADER_SIZE;

	for (uint32_t i = 0; i < count; i++, out += TIMED_ITEM_SIZE) {
		le64_store(out + TIMED_AT_TIME, items[i].time_ms);
		le64_store(out + TIMED_AT_QUEUE, items[i].queue_id);
		le64_store(out + TIMED_AT_QSEQ, items[i].qseq);
		le32_store(out + TIMED_AT_SHARE, items[i].share);
		le32_store(out + TIMED_AT_BODY, items[i].body_size);
		le32_store(out + TIMED_AT_OFFSET, (uint32_t)(items[i].offset / RECORD_ALIGNMENT));
	}
	le64_store(p + TIMED_PIECE_AT_NEXT, count < left ? items[count].time_ms : UINT64_MAX);
	le32_store(p + TIMED_PIECE_AT_COUNT, count);
	le32_store(p + TIMED_PIECE_AT_CHECK, piece_check(p, count, salt));
	return TIMED_PIECE_HEADER_SIZE + count * TIMED_ITEM_SIZE;
}

/* ---- reading ---- */

static uint32_t
piece_count(const struct footer *footer)
{
	return (footer->timed_count + TIMED_PIECE_ITEMS - 1) / TIMED_PIECE_ITEMS;
}

int
footer_timed_piece(const struct footer *footer, uint32_t number, struct timed_piece *piece)
{
	uint8_t p[TIMED_PIECE_SIZE];
	uint32_t first = number * TIMED_PIECE_ITEMS;
	uint32_t count = (uint32_t)min_u64(footer->timed_count - first, TIMED_PIECE_ITEMS);
	size_t n = TIMED_PIECE_HEADER_SIZE + (size_t)count * TIMED_ITEM_SIZE;
	int64_t got;

	assert(number < piece_count(footer));
	got = disk_read(footer->file, p, n,
			footer->timed_at + TIMED_HEAD_SIZE + (uint64_t)number * TIMED_PIECE_SIZE);
	if (got < 0)
		return (int)got;
	if ((size_t)got != n || le32_load(p + TIMED_PIECE_AT_COUNT) != count ||
	    le32_load(p + TIMED_PIECE_AT_CHECK) != piece_check(p, count, footer->salt))
		return -EBADMSG;
	*piece = (struct timed_piece){
		.items = xmalloc(count * sizeof(*piece->items)),
		.count = count,
		.next = number + 1,
		.next_ms = le64_load(p + TIMED_PIECE_AT_NEXT),
	};
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *in = p + TIMED_PIECE_HEADER_SIZE + (size_t)i * TIMED_ITEM_SIZE;

		piece->items[i] = (struct timed){
			.time_ms = le64_load(in + TIMED_AT_TIME),
			.queue_id = le64_load(in + TIMED_AT_QUEUE),
			.qseq = le64_load(in + TIMED_AT_QSEQ),
			.share = le32_load(in + TIMED_AT_SHARE),
			.body_size = le32_load(in + TIMED_AT_BODY),
			.offset = (uint64_t)le32_load(in + TIMED_AT_OFFSET) * RECORD_ALIGNMENT,
		};
	}
	return 0;
}

/* Whether all of a piece is given. */
static bool
is_over(const struct timed_piece *piece, const struct timed *after)
{
	return !timed_is_before(after, &piece->items[piece->count - 1]);
}

int
footer_timed_find(const struct footer *footer, const struct timed *after, uint32_t hint,
		  struct timed_piece *found)
{
	uint32_t low = hint;
	uint32_t high = piece_count(footer);
	uint32_t middle = low;

	*found = (struct timed_piece){.next_ms = UINT64_MAX};
	/* the hint is mostly right: it is looked at first */
	for (; low < high; middle = low + (high - low) / 2) {
		struct timed_piece piece;
		int error = footer_timed_piece(footer, middle, &piece);

		if (error != 0) {
			xfree(found->items);
			found->items = NULL;
			return error;
		}
		if (is_over(&piece, after)) {
			xfree(piece.items);
			low = middle + 1;
		} else {
			xfree(found->items);
			*found = piece;
			high = middle;
		}
	}
	while (found->at < found->count && !timed_is_before(after, &found->items[found->at]))
		found->at++;
	return 0;
}
