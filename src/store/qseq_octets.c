/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of settled numbers as octets, for checkpoints, and back; qseq_set.h says which octets. The kind of an
 * item is chosen by what is in it, not by the form that it happens to have in memory. Reading trusts
 * nothing: each length is checked before it is used, and each item must lie behind the one before. One
 * thread.
 */
#include "store/qseq_set.h"

#include <errno.h>

#include "store/record.h"

#include "qseq_container.h"

#define HEAD_SIZE 16 // of the whole, and of each item
#define ITEM_RUN 1
#define ITEM_NUMBERS 2
#define ITEM_BITMAP 3

static void
put_head(struct buf *out, uint64_t number, uint32_t second, uint32_t third)
{
	uint8_t head[HEAD_SIZE];

	le64_store(head, number);
	le32_store(head + 8, second);
	le32_store(head + 12, third);
	buf_add(out, head, sizeof(head));
}

static void
put_run(struct buf *out, uint64_t first, uint64_t count)
{
	uint8_t octets[8];

	le64_store(octets, count);
	put_head(out, first, ITEM_RUN, 0);
	buf_add(out, octets, sizeof(octets));
}

static void
put_numbers(struct buf *out, uint64_t base, const struct qseq_bits *bits)
{
	uint16_t numbers[QSEQ_NUMBERS_MAX];
	size_t size = ((size_t)bits->count + 3) / 4 * 8;
	uint8_t *p;

	put_head(out, base + bits->low, ITEM_NUMBERS, bits->count);
	p = buf_reserve(out, size);
	if (p == NULL)
		return;
	qseq_bits_numbers(bits, numbers);
	memset(p + size - 8, 0, 8);
	for (uint32_t i = 0; i < bits->count; i++)
		le16_store(p + i * 2, (uint16_t)(numbers[i] - bits->low));
	out->n += size;
}

static void
put_bitmap(struct buf *out, uint64_t base, const struct qseq_bits *bits)
{
	uint32_t words = bits->end - bits->first;
	uint8_t *p;

	put_head(out, base + bits->first * 64, ITEM_BITMAP, words);
	p = buf_reserve(out, words * 8);
	if (p == NULL)
		return;
	for (uint32_t i = 0; i < words; i++)
		le64_store(p + i * 8, bits->words[bits->first + i]);
	out->n += words * 8;
}

static void
put_container(struct buf *out, const struct qseq_container *container)
{
	uint64_t base = (uint64_t)container->span << QSEQ_SPAN_BITS;
	struct qseq_bits bits;

	if (container->kind == QSEQ_WHOLE) {
		put_run(out, base, (uint64_t)container->spans << QSEQ_SPAN_BITS);
		return;
	}
	qseq_bits_load(&bits, container);
	qseq_bits_measure(&bits);
	switch (qseq_bits_kind(&bits)) {
	case QSEQ_NUMBERS:
		put_numbers(out, base, &bits);
		break;
	case QSEQ_BITMAP:
		put_bitmap(out, base, &bits);
		break;
	default:
		put_run(out, base + bits.low, bits.count);
	}
}

void
qseq_set_encode(const struct qseq_set *set, struct buf *out)
{
	put_head(out, set->floor, set->count, 0);
	for (uint32_t i = 0; i < set->count; i++)
		put_container(out, &set->containers[i]);
}

/* Cuts size octets off the front; NULL when there are fewer. */
static const uint8_t *
take(struct bytes *in, size_t size)
{
	const uint8_t *p = in->p;

	if (in->n < size)
		return NULL;
	in->p += size;
	in->n -= size;
	return p;
}

/* Sets the bits of n ascending offsets to first, the first of them 0, and sees to the zeros behind. */
static bool
take_numbers(struct bytes *in, uint32_t first, uint32_t n, struct qseq_bits *bits)
{
	size_t slots = ((size_t)n + 3) / 4 * 4;
	const uint8_t *p = n == 0 || n > QSEQ_SPAN ? NULL : take(in, slots * 2);
	uint32_t next = 0;

	if (p == NULL || le16_load(p) != 0)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t offset = le16_load(p + i * 2);

		if (offset < next || first + offset >= QSEQ_SPAN)
			return false;
		qseq_bits_add(bits, first + offset, first + offset);
		next = offset + 1;
	}
	for (size_t i = n; i < slots; i++) {
		if (le16_load(p + i * 2) != 0)
			return false;
	}
	return true;
}

/* Fills in n words, of which neither the first nor the last may be zero. */
static bool
take_bitmap(struct bytes *in, uint32_t first, uint32_t n, struct qseq_bits *bits)
{
	const uint8_t *p;

	if (first % 64 != 0 || n == 0 || n > QSEQ_SPAN_WORDS - first / 64)
		return false;
	p = take(in, (size_t)n * 8);
	if (p == NULL || le64_load(p) == 0 || le64_load(p + (n - 1) * 8) == 0)
		return false;
	bits->first = first / 64;
	bits->end = bits->first + n;
	for (uint32_t i = 0; i < n; i++)
		bits->words[bits->first + i] = le64_load(p + i * 8);
	return true;
}

static bool
decode_run(struct qseq_set *set, struct bytes *in, uint64_t first, uint64_t *next)
{
	const uint8_t *p = take(in, 8);
	uint64_t count = p != NULL ? le64_load(p) : 0;

	if (first < *next || count == 0 || count > QSEQ_MAX + 1 - first)
		return false;
	qseq_set_add(set, first, count);
	*next = (first + count + QSEQ_SPAN - 1) / QSEQ_SPAN * QSEQ_SPAN;
	return true;
}

/* One item, whose numbers must be next at least; next is then the start of the span behind it. */
static bool
decode_item(struct qseq_set *set, struct bytes *in, uint64_t *next)
{
	const uint8_t *head = take(in, HEAD_SIZE);
	uint64_t first = head != NULL ? le64_load(head) : UINT64_MAX;
	uint64_t base = first / QSEQ_SPAN * QSEQ_SPAN;
	struct qseq_bits bits;
	uint32_t kind, n;
	bool good;

	if (first > QSEQ_MAX)
		return false;
	kind = le32_load(head + 8);
	n = le32_load(head + 12);
	if (kind == ITEM_RUN)
		return n == 0 && decode_run(set, in, first, next);
	qseq_bits_init(&bits);
	good = (kind == ITEM_NUMBERS && take_numbers(in, first % QSEQ_SPAN, n, &bits)) ||
	       (kind == ITEM_BITMAP && take_bitmap(in, first % QSEQ_SPAN, n, &bits));
	if (!good)
		return false;
	qseq_bits_measure(&bits);
	if (bits.count == QSEQ_SPAN || base + bits.low < *next)
		return false;
	qseq_set_append(set, (uint32_t)(base >> QSEQ_SPAN_BITS), &bits);
	*next = base + QSEQ_SPAN;
	return true;
}

int
qseq_set_decode(struct qseq_set *set, struct bytes *in)
{
	struct bytes left = *in;
	const uint8_t *head = take(&left, HEAD_SIZE);
	uint64_t floor = head != NULL ? le64_load(head) : 0;
	uint64_t next = floor + 1; /* the floor itself is open */
	bool good = floor >= 1 && floor <= QSEQ_MAX + 1 && le32_load(head + 12) == 0;

	qseq_set_init(set);
	if (!good)
		return -EBADMSG;
	set->floor = floor;
	for (uint32_t items = le32_load(head + 8); good && items > 0; items--)
		good = decode_item(set, &left, &next);
	if (!good) {
		qseq_set_fini(set);
		return -EBADMSG;
	}
	*in = left;
	return 0;
}
