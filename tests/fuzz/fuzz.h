/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fuzz target includes: its entry point, and claims about what the code under test promised.
 * A target is deterministic: it keeps nothing from one input to the next.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Called with one input; returns 0. The octets are as many as were allocated, not one more. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stops the target when the claim does not hold. */
#define fuzz_claim(claim)                                                                   \
	do {                                                                                \
		if (!(claim)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim); \
			abort();                                                            \
		}                                                                           \
	} while (0)
