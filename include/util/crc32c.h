/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C (Castagnoli), with the processor's instruction where there is one. Any thread.
 */
#pragma once

#include "util/base.h"

/* The checksum of bytes so far (0 to begin with) continued over p. */
uint32_t crc32c(uint32_t sum, const void *p, size_t n);
