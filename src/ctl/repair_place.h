/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where repair makes the new store, and how it takes the place of the old one.
 */
#pragma once

#include "ctl.h"

struct place {
	char *old;    // owns; path of the old store, without links in it
	char *made;   // owns; path of the new one
	char *kept;   // owns; what the old one is called afterwards
	bool swaps;   // the new one takes the old one's name
	unsigned uid; // of the owner of the old one
	unsigned gid;
};

/* Makes the folder of the new store. CTL_OK, or another status with a line on stderr. place_fini() in any case. */
int place_make(struct place *place, const char *dir, const char *into) MUST_CHECK;
void place_fini(struct place *place);
/* root writes as the owner of the old store, so that a broker that is not root can use the new one; and back. */
void place_become_owner(const struct place *place);
void place_become_self(void);
/* Copies octets of a file of the old store to quarantine/ of the new one, synced. 0 or a negative errno. */
int place_quarantine(const struct place *place, const char *path, uint64_t offset,
		     uint64_t size) MUST_CHECK;
/* Lets the two change places and says so. CTL_OK, or another status with a line on stderr. */
int place_swap(const struct place *place) MUST_CHECK;
