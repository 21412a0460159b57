/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that a struct owns, for names and argument tables that outlive the input they came in. The view
 * inside is const like any other; only these two make and end the ownership. Any thread.
 */
#pragma once

#include "util/bytes.h"
#include "util/mem.h"

/* A copy that the caller owns. */
static inline struct bytes
bytes_dup(struct bytes view)
{
	return bytes_of(xmemdup(view.p, view.n), view.n);
}

/* Frees what bytes_dup() made and forgets it. */
static inline void
bytes_drop(struct bytes *owned)
{
	union {
		const uint8_t *view;
		void *block;
	} p = {owned->p};

	xfree(p.block);
	*owned = bytes_of(NULL, 0);
}
