/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of a container. A run is a pair of numbers and needs no memory. Numbers are kept in order;
 * four of them lie in the container itself, so that consumers which overtake each other by a little never
 * allocate. A bitmap has the words from its first to its last number, and a sixteenth more behind them.
 * While the floor climbs through a bitmap the words that it leaves behind are dropped, at the latest when
 * the bitmap must grow anyway: a window that slides over the numbers keeps the size of the window.
 *
 * Which form is best is decided in one place, qseq_bits_kind(), and only when the container has outgrown
 * its memory or has far too much. One thread.
 */
#include "qseq_container.h"

#include "util/mem.h"

_Static_assert(sizeof(struct qseq_container) == 24, "a queue with gaps costs this for each span");

static uint32_t
count_bits(uint64_t word)
{
	word -= word >> 1 & 0x5555555555555555;
	word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return (uint32_t)(word * 0x0101010101010101 >> 56);
}

/* The bits of word number index that belong to the range, which touches that word. */
static inline uint64_t
word_mask(uint32_t index, uint32_t low, uint32_t high)
{
	uint64_t mask = UINT64_MAX;

	if (index == low / 64)
		mask &= UINT64_MAX << low % 64;
	if (index == high / 64)
		mask &= UINT64_MAX >> (63 - high % 64);
	return mask;
}

/* Past the last word of a bitmap. */
static uint32_t
bitmap_end(const struct qseq_container *bitmap)
{
	return (uint32_t)bitmap->start + bitmap->room;
}

static const uint16_t *
numbers_of(const struct qseq_container *container)
{
	return container->room <= QSEQ_FEW ? container->few : container->numbers;
}

static uint16_t *
numbers_to_change(struct qseq_container *container)
{
	return container->room <= QSEQ_FEW ? container->few : container->numbers;
}

/* How many of the numbers are lower than number. */
static uint32_t
numbers_below(const struct qseq_container *container, uint32_t number)
{
	const uint16_t *numbers = numbers_of(container);
	uint32_t low = 0, high = container->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (numbers[middle] < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Two octets for each number, or eight for each word. */
static bool
numbers_are_best(uint32_t count, uint32_t words)
{
	return count <= QSEQ_NUMBERS_MAX && count <= 4 * words;
}

/* Room for count numbers and some more, a multiple of what the allocator rounds to. */
static uint16_t
numbers_room(uint32_t count)
{
	if (count <= QSEQ_FEW)
		return QSEQ_FEW;
	return (uint16_t)min_u64((count + count / 4 + 8) / 8 * 8, QSEQ_NUMBERS_MAX);
}

void
qseq_bits_init(struct qseq_bits *bits)
{
	bits->first = 0;
	bits->end = 0;
}

/* Puts zeros into the words from first up to end that are not there yet. */
static void
bits_widen(struct qseq_bits *bits, uint32_t first, uint32_t end)
{
	assert(first < end && end <= QSEQ_SPAN_WORDS);
	if (bits->first == bits->end)
		bits->first = bits->end = first;
	while (bits->first > first)
		bits->words[--bits->first] = 0;
	while (bits->end < end)
		bits->words[bits->end++] = 0;
}

void
qseq_bits_add(struct qseq_bits *bits, uint32_t low, uint32_t high)
{
	assert(low <= high && high < QSEQ_SPAN);
	bits_widen(bits, low / 64, high / 64 + 1);
	for (uint32_t i = low / 64; i <= high / 64; i++)
		bits->words[i] |= word_mask(i, low, high);
}

static void
load_numbers(struct qseq_bits *bits, const struct qseq_container *container)
{
	const uint16_t *numbers = numbers_of(container);

	bits_widen(bits, numbers[0] / 64U, numbers[container->count - 1] / 64U + 1);
	for (uint32_t i = 0; i < container->count; i++)
		bits->words[numbers[i] / 64] |= 1ULL << numbers[i] % 64;
}

void
qseq_bits_load(struct qseq_bits *bits, const struct qseq_container *container)
{
	assert(container->kind != QSEQ_WHOLE && container->count != 0);
	qseq_bits_init(bits);
	if (container->kind == QSEQ_RUN) {
		qseq_bits_add(bits, container->start, container->start + container->count - 1);
	} else if (container->kind == QSEQ_NUMBERS) {
		load_numbers(bits, container);
	} else {
		bits->first = container->start;
		bits->end = bitmap_end(container);
		memcpy(bits->words + bits->first, container->words,
		       container->room * sizeof(*container->words));
	}
}

void
qseq_bits_clip(struct qseq_bits *bits, uint32_t low, uint32_t high)
{
	for (uint32_t i = bits->first; i < bits->end; i++)
		bits->words[i] &= i < low / 64 || i > high / 64 ? 0 : word_mask(i, low, high);
}

void
qseq_bits_measure(struct qseq_bits *bits)
{
	while (bits->first < bits->end && bits->words[bits->first] == 0)
		bits->first++;
	while (bits->first < bits->end && bits->words[bits->end - 1] == 0)
		bits->end--;
	bits->count = 0;
	for (uint32_t i = bits->first; i < bits->end; i++)
		bits->count += count_bits(bits->words[i]);
	if (bits->count == 0)
		return;
	bits->low = bits->first * 64 + lowest_bit_u64(bits->words[bits->first]);
	bits->high = (bits->end - 1) * 64 + highest_bit_u64(bits->words[bits->end - 1]);
}

enum qseq_kind
qseq_bits_kind(const struct qseq_bits *bits)
{
	assert(bits->count != 0 && bits->high - bits->low + 1 >= bits->count);
	if (bits->high - bits->low + 1 == bits->count)
		return QSEQ_RUN;
	return numbers_are_best(bits->count, bits->end - bits->first) ? QSEQ_NUMBERS : QSEQ_BITMAP;
}

void
qseq_bits_numbers(const struct qseq_bits *bits, uint16_t *numbers)
{
	for (uint32_t i = bits->first; i < bits->end; i++) {
		for (uint64_t word = bits->words[i]; word != 0; word &= word - 1)
			*numbers++ = (uint16_t)(i * 64 + lowest_bit_u64(word));
	}
}

struct qseq_container
qseq_container_of(uint32_t span, uint32_t low, uint32_t high)
{
	assert(low <= high && high < QSEQ_SPAN);
	return (struct qseq_container){
		.span = span, .count = high - low + 1, .kind = QSEQ_RUN, .start = (uint16_t)low};
}

struct qseq_container
qseq_container_of_bits(uint32_t span, const struct qseq_bits *bits)
{
	struct qseq_container c = {
		.span = span, .count = bits->count, .kind = qseq_bits_kind(bits)};
	uint32_t used = bits->end - bits->first;

	if (c.kind == QSEQ_RUN) {
		c.start = (uint16_t)bits->low;
	} else if (c.kind == QSEQ_NUMBERS) {
		c.room = numbers_room(c.count);
		if (c.room > QSEQ_FEW)
			c.numbers = xmalloc(c.room * sizeof(*c.numbers));
		qseq_bits_numbers(bits, numbers_to_change(&c));
	} else {
		c.start = (uint16_t)bits->first;
		c.room = (uint16_t)min_u64(used + used / 16 + 1, QSEQ_SPAN_WORDS - bits->first);
		c.words = xmalloc(c.room * sizeof(*c.words));
		memcpy(c.words, bits->words + bits->first, used * sizeof(*c.words));
		memset(c.words + used, 0, (c.room - used) * sizeof(*c.words));
	}
	return c;
}

void
qseq_container_fini(struct qseq_container *container)
{
	if (container->kind == QSEQ_BITMAP)
		xfree(container->words);
	else if (container->kind == QSEQ_NUMBERS && container->room > QSEQ_FEW)
		xfree(container->numbers);
}

/* Gives it the form and the memory that bits need now. */
static void
rebuild(struct qseq_container *container, struct qseq_bits *bits)
{
	struct qseq_container made;

	qseq_bits_measure(bits);
	made = qseq_container_of_bits(container->span, bits);
	qseq_container_fini(container);
	*container = made;
}

/* Each of the next three tries to add without a change of form; false when nothing was done. */

static bool
add_to_run(struct qseq_container *run, uint32_t low, uint32_t high)
{
	uint32_t end = run->start + run->count;

	if (high + 1 < run->start || low > end)
		return false;
	end = (uint32_t)max_u64(end, high + 1);
	run->start = (uint16_t)min_u64(run->start, low);
	run->count = end - run->start;
	return true;
}

/* Whether numbers would still be the best form with one more. */
static bool
numbers_stay(const struct qseq_container *container, uint32_t number)
{
	const uint16_t *numbers = numbers_of(container);
	uint32_t low = (uint32_t)min_u64(numbers[0], number);
	uint32_t high = (uint32_t)max_u64(numbers[container->count - 1], number);

	return numbers_are_best(container->count + 1, high / 64 - low / 64 + 1);
}

static void
grow_numbers(struct qseq_container *container)
{
	uint16_t room = numbers_room(container->count + 1);
	uint16_t *grown = xmalloc(room * sizeof(*grown));

	assert(room > container->count && room > QSEQ_FEW);
	memcpy(grown, numbers_of(container), container->count * sizeof(*grown));
	qseq_container_fini(container);
	container->numbers = grown;
	container->room = room;
}

static bool
add_to_numbers(struct qseq_container *container, uint32_t number)
{
	uint32_t at = numbers_below(container, number);
	uint16_t *numbers;

	if (at < container->count && numbers_of(container)[at] == number)
		return true;
	if (container->count == container->room) {
		if (!numbers_stay(container, number))
			return false;
		grow_numbers(container);
	}
	numbers = numbers_to_change(container);
	memmove(numbers + at + 1, numbers + at, (container->count - at) * sizeof(*numbers));
	numbers[at] = (uint16_t)number;
	container->count++;
	return true;
}

static bool
add_to_bitmap(struct qseq_container *bitmap, uint32_t low, uint32_t high)
{
	if (low / 64 < bitmap->start || high / 64 >= bitmap_end(bitmap))
		return false;
	for (uint32_t i = low / 64; i <= high / 64; i++) {
		uint64_t *word = &bitmap->words[i - bitmap->start];
		uint64_t fresh = word_mask(i, low, high) & ~*word;

		bitmap->count += count_bits(fresh);
		*word |= fresh;
	}
	return true;
}

static bool
add_in_place(struct qseq_container *container, uint32_t low, uint32_t high)
{
	if (container->kind == QSEQ_BITMAP)
		return add_to_bitmap(container, low, high);
	if (container->kind == QSEQ_RUN)
		return add_to_run(container, low, high);
	return low == high && add_to_numbers(container, low);
}

static void
add_and_rebuild(struct qseq_container *container, uint32_t low, uint32_t high)
{
	struct qseq_bits bits;

	qseq_bits_load(&bits, container);
	qseq_bits_add(&bits, low, high);
	rebuild(container, &bits);
}

uint32_t
qseq_container_add(struct qseq_container *container, uint32_t low, uint32_t high)
{
	uint32_t before = container->count;

	assert(container->kind != QSEQ_WHOLE && low <= high && high < QSEQ_SPAN);
	if (!add_in_place(container, low, high))
		add_and_rebuild(container, low, high);
	return container->count - before;
}

/* Puts it into less memory, when there is something left in it. */
static void
shrink(struct qseq_container *container)
{
	struct qseq_bits bits;

	if (container->count == 0)
		return;
	qseq_bits_load(&bits, container);
	rebuild(container, &bits);
}

static void
cut_numbers(struct qseq_container *container, uint32_t below)
{
	uint32_t gone = numbers_below(container, below);
	uint16_t *numbers = numbers_to_change(container);

	container->count -= gone;
	if (gone != 0)
		memmove(numbers, numbers + gone, container->count * sizeof(*numbers));
	if (container->room > 4 * QSEQ_FEW && container->count < container->room / 4)
		shrink(container);
}

static void
cut_bitmap(struct qseq_container *bitmap, uint32_t low, uint32_t below)
{
	uint32_t first = (uint32_t)max_u64(low / 64, bitmap->start);
	uint32_t end = (uint32_t)min_u64((below + 63) / 64, bitmap_end(bitmap));

	for (uint32_t i = first; i < end; i++) {
		uint64_t *word = &bitmap->words[i - bitmap->start];
		uint64_t gone = *word & word_mask(i, low, below - 1);

		bitmap->count -= count_bits(gone);
		*word ^= gone;
	}
	if (below / 64 > bitmap->start + bitmap->room / 2U + 2 * QSEQ_FEW)
		shrink(bitmap);
}

uint32_t
qseq_container_cut(struct qseq_container *container, uint32_t low, uint32_t below)
{
	uint32_t before = container->count;

	assert(container->kind != QSEQ_WHOLE && low <= below && below < QSEQ_SPAN);
	if (container->kind == QSEQ_BITMAP)
		cut_bitmap(container, low, below);
	else if (container->kind == QSEQ_NUMBERS)
		cut_numbers(container, below);
	else if (container->start < below)
		container->count = 0; /* the run ends below it too: that number is open */
	return before - container->count;
}

static uint32_t
count_in_bitmap(const struct qseq_container *bitmap, uint32_t low, uint32_t high)
{
	uint32_t first = (uint32_t)max_u64(low / 64, bitmap->start);
	uint32_t end = (uint32_t)min_u64(high / 64 + 1, bitmap_end(bitmap));
	uint32_t count = 0;

	for (uint32_t i = first; i < end; i++)
		count += count_bits(bitmap->words[i - bitmap->start] & word_mask(i, low, high));
	return count;
}

uint32_t
qseq_container_count(const struct qseq_container *container, uint32_t low, uint32_t high)
{
	assert(container->kind != QSEQ_WHOLE && low <= high && high < QSEQ_SPAN);
	if (container->kind == QSEQ_BITMAP)
		return count_in_bitmap(container, low, high);
	if (container->kind == QSEQ_NUMBERS)
		return numbers_below(container, high + 1) - numbers_below(container, low);

	uint32_t first = (uint32_t)max_u64(low, container->start);
	uint32_t end = (uint32_t)min_u64(high + 1, container->start + container->count);
	return first < end ? end - first : 0;
}

static uint32_t
next_open_in_bitmap(const struct qseq_container *bitmap, uint32_t from)
{
	uint32_t i = from / 64;
	uint64_t mask = UINT64_MAX << from % 64;

	if (i < bitmap->start)
		return from;
	for (; i < bitmap_end(bitmap); i++) {
		uint64_t open = ~bitmap->words[i - bitmap->start] & mask;

		if (open != 0)
			return i * 64 + lowest_bit_u64(open);
		mask = UINT64_MAX;
	}
	return (uint32_t)max_u64(from, i * 64);
}

uint32_t
qseq_container_next_open(const struct qseq_container *container, uint32_t from)
{
	assert(container->kind != QSEQ_WHOLE && from < QSEQ_SPAN);
	if (container->kind == QSEQ_BITMAP)
		return next_open_in_bitmap(container, from);
	if (container->kind == QSEQ_NUMBERS) {
		const uint16_t *numbers = numbers_of(container);

		for (uint32_t at = numbers_below(container, from);
		     at < container->count && numbers[at] == from; at++)
			from++;
		return from;
	}
	if (from < container->start)
		return from;
	return (uint32_t)max_u64(from, container->start + container->count);
}

size_t
qseq_container_memory(const struct qseq_container *container)
{
	if (container->kind == QSEQ_BITMAP)
		return container->room * sizeof(*container->words);
	if (container->kind == QSEQ_NUMBERS && container->room > QSEQ_FEW)
		return container->room * sizeof(*container->numbers);
	return 0;
}

void
qseq_container_check(const struct qseq_container *container)
{
	assert(container->count > 0 && container->count < QSEQ_SPAN);
	if (container->kind == QSEQ_RUN) {
		assert(container->start + container->count <= QSEQ_SPAN);
	} else if (container->kind == QSEQ_NUMBERS) {
		const uint16_t *numbers = numbers_of(container);

		assert(container->count <= container->room && container->room <= QSEQ_NUMBERS_MAX);
		for (uint32_t i = 1; i < container->count; i++)
			assert(numbers[i - 1] < numbers[i]);
	} else {
		assert(container->kind == QSEQ_BITMAP && bitmap_end(container) <= QSEQ_SPAN_WORDS);
		assert(count_in_bitmap(container, 0, QSEQ_SPAN - 1) == container->count);
	}
}
