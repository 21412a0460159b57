/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container of a qseq_set: the settled numbers of one span of 65,536, in the form that takes the least
 * memory, or several spans that are settled as a whole. Numbers are here what they are within their span,
 * 0 to 65,535, and a range is named by its first and its last number.
 *
 * What fits into the memory that a container has is added there. Else the span is laid out as plain bits
 * (struct qseq_bits) and a new form is made of those; a new form has room to spare in proportion to its
 * size, so that this is rare. One thread.
 */
#pragma once

#include "store/qseq_set.h"

#define QSEQ_SPAN 65536U
#define QSEQ_SPAN_BITS 16
#define QSEQ_SPAN_WORDS (QSEQ_SPAN / 64)

#define QSEQ_FEW 4	      // so many numbers lie in the container itself
#define QSEQ_NUMBERS_MAX 2048 // numbers are moved to insert one: a bitmap from here on

enum qseq_kind {
	QSEQ_WHOLE,   // every number of its spans; only qseq_set.c makes and changes these
	QSEQ_RUN,     // numbers that follow each other
	QSEQ_NUMBERS, // ascending numbers
	QSEQ_BITMAP   // a bit for each number, from a multiple of 64 on
};

struct qseq_container {
	uint32_t span;	     // number of the (first) span
	uint32_t count;	     // settled numbers; of a whole one, in each span
	enum qseq_kind kind; // which of the forms
	uint16_t start;	     // of a run: its first number; of a bitmap: number of its first word
	uint16_t room;	     // numbers or words that there is memory for
	union {
		uint32_t spans;		// of a whole one: how many
		uint16_t few[QSEQ_FEW]; // of numbers with that room
		uint16_t *numbers;	// owns
		uint64_t *words;	// owns; zero where nothing is settled
	};
};

/* A span as bits. Only the words from first up to end are there; all others stand for zeros. */
struct qseq_bits {
	uint32_t first; // first word
	uint32_t end;	// past the last word
	uint32_t count; // bits set, as of qseq_bits_measure()
	uint32_t low;	// the lowest of them
	uint32_t high;	// the highest of them
	uint64_t words[QSEQ_SPAN_WORDS];
};

/* The number past the last span. */
static inline uint64_t
qseq_container_end(const struct qseq_container *container)
{
	return (uint64_t)container->span + (container->kind == QSEQ_WHOLE ? container->spans : 1);
}

/* A container with the range [low, high]. */
struct qseq_container qseq_container_of(uint32_t span, uint32_t low, uint32_t high);
/* A container with what is set in bits, which were measured and are not empty. */
struct qseq_container qseq_container_of_bits(uint32_t span, const struct qseq_bits *bits);
void qseq_container_fini(struct qseq_container *container);

/* The rest is not for whole ones. */

/* Adds [low, high]; returns how many of them are new. When it comes to hold all of its span, the caller
 * makes a whole one of it. */
uint32_t qseq_container_add(struct qseq_container *container, uint32_t low, uint32_t high);
/* Removes what is below a number that is not in it, and knows that nothing is below low. Returns how many;
 * none may be left. */
uint32_t qseq_container_cut(struct qseq_container *container, uint32_t low, uint32_t below);
uint32_t qseq_container_count(const struct qseq_container *container, uint32_t low, uint32_t high);
/* The lowest number from from on that is not in it, QSEQ_SPAN when there is none. */
uint32_t qseq_container_next_open(const struct qseq_container *container, uint32_t from);
/* Octets that it takes outside of itself. */
size_t qseq_container_memory(const struct qseq_container *container);
void qseq_container_check(const struct qseq_container *container);

/* No bits. */
void qseq_bits_init(struct qseq_bits *bits);
/* The bits of a container. */
void qseq_bits_load(struct qseq_bits *bits, const struct qseq_container *container);
void qseq_bits_add(struct qseq_bits *bits, uint32_t low, uint32_t high);
/* Clears what is outside of [low, high]. */
void qseq_bits_clip(struct qseq_bits *bits, uint32_t low, uint32_t high);
/* Drops zero words at both ends and sets the three measures; low and high mean nothing when count is 0. */
void qseq_bits_measure(struct qseq_bits *bits);
/* The best form for bits that were measured and are not empty; never a whole one. */
enum qseq_kind qseq_bits_kind(const struct qseq_bits *bits);
/* Writes the numbers of the bits, ascending, to numbers, where there is room for bits->count. */
void qseq_bits_numbers(const struct qseq_bits *bits, uint16_t *numbers);

/* Puts a container with these bits, measured and not empty, behind all others of the set. */
void qseq_set_append(struct qseq_set *set, uint32_t span, const struct qseq_bits *bits);
