/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file may use: a few macros over compiler extensions (the only place for them), the
 * assertion that stays on in release builds, and the calls that nobody may make.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define countof(array) (sizeof(array) / sizeof((array)[0]))

/* The struct of type that holds *pointer as its member. */
#define container_of(pointer, type, member) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_index) \
	__attribute__((format(printf, format_index, first_index)))
#define NO_RETURN __attribute__((noreturn))
#define UNUSED __attribute__((unused))
#define ALWAYS_INLINE inline __attribute__((always_inline))
/* Keeps what is rarely needed out of a hot function, registers and all. */
#define NEVER_INLINE __attribute__((noinline))
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define prefetch_line(pointer) __builtin_prefetch(pointer)
/* Marks a function without arguments that runs before main(). */
#define RUN_AT_START __attribute__((constructor))
/* Lets one function use instructions that the rest of the program may not assume. */
#define WITH_INSTRUCTIONS(name) __attribute__((target(name)))

/* Defined when the address sanitizer watches: pools then hand out plain blocks, so that it sees. */
#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif

static inline uint64_t
min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t
max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* For qsort() and bsearch() of numbers. */
static inline int
compare_u64(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left;
	uint64_t b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* The place of the highest and of the lowest bit set, 0 for the value 1; value is not 0. */
static inline unsigned
highest_bit_u64(uint64_t value)
{
	return 63U - (unsigned)__builtin_clzll(value);
}

static inline unsigned
lowest_bit_u64(uint64_t value)
{
	return (unsigned)__builtin_ctzll(value);
}

__extension__ typedef unsigned __int128 uint128;

/* Both halves of the whole product, folded together: the step that mixes in hashes. */
static inline uint64_t
fold_u64(uint64_t a, uint64_t b)
{
	uint128 product = (uint128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Logs the failed condition with a backtrace and aborts. */
NO_RETURN void assert_failed(const char *condition, const char *file, int line);

/* A claim that must hold; kept in release builds, so it must be cheap and free of effects. */
#undef assert
#define assert(condition)                                              \
	do {                                                           \
		if (unlikely(!(condition)))                            \
			assert_failed(#condition, __FILE__, __LINE__); \
	} while (0)

/* The threads of the daemon. A thread names itself once; entry points assert who calls. */
enum thread_role {
	THREAD_ANY,    // not named yet: tests and small tools; passes every assert_thread
	THREAD_BROKER, // owns the loop and every piece of broker state
	THREAD_STORE,  // writes and syncs batches
	THREAD_HELPER, // cold reads, merges, checkpoints
	THREAD_INDEX   // indexes of segments
};

extern _Thread_local enum thread_role thread_role;

#define assert_thread(role) assert(thread_role == (role) || thread_role == THREAD_ANY)
