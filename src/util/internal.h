/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the files of util/ (and their tests) see of each other: the chunks that pools are
 * carved out of, the last words of a dying process, and the slow twin of the checksum.
 */
#pragma once

#include "util/base.h"
#include "util/mem.h"

/* Says on the log that memory has run out, with the size asked for, and aborts. */
NO_RETURN void out_of_memory(size_t size);
/* The descriptor that log lines go to now. */
int log_fd(void);

/* A chunk of CHUNK_SIZE bytes at a multiple of CHUNK_SIZE; only its field `extent` is set. */
struct pool_chunk *chunk_take(void);
/* Gives it back: kept warm when few are, else its memory goes to the system. */
void chunk_give(struct pool_chunk *chunk);
/* Gives the warm ones to the system too. */
void chunk_trim(void);
/* How many chunks are taken or warm. */
size_t chunk_count(void);

/* Adds to and takes from what mem_held() tells. */
void mem_count(size_t bytes);
void mem_uncount(size_t bytes);
/* Held memory that nobody uses now, and that is used, or given back, again. */
void mem_keep_warm(size_t bytes);
void mem_use_warm(size_t bytes);

/* crc32c() without the processor's instruction. */
uint32_t crc32c_by_table(uint32_t sum, const uint8_t *p, size_t n);
