/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room on the disk. Broker thread.
 */
#pragma once

#include "internal.h"

/* Hands ops.free_space what the helper found. */
void tell_space(struct store *store, int64_t octets);
/* While the disk is low: sees to checkpoints and compactions that give something back. */
void make_room(struct store *store);
/* Tells ops.short_of_space when that is news. */
void set_short_of_space(struct store *store, bool is_short);
