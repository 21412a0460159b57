/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: taken, written, read back. Broker thread, but for the writing.
 */
#pragma once

#include "recover.h"
#include "store/inspect.h"

void checkpoint_path(char path[PATH_MAX_SIZE], uint64_t lsn, const char *suffix);
/* The LSN up to which the second-newest one covers the log; 0: there are not two. */
uint64_t checkpoint_covered(const struct store *store);
/* Whether enough was logged since the last one, and the last one is long enough ago. */
bool checkpoint_is_due(const struct store *store);
/* When one that is wanted may be taken though nothing is logged; UINT64_MAX: none is, or mail will come first. */
uint64_t checkpoint_due_ms(const struct store *store);
/* Takes a checkpoint of everything up to the last record appended; no marks may be waiting for theirs.
 * clean: with it the superblock says that the store was stopped cleanly. */
void checkpoint_begin(struct store *store, bool clean);
/* Sends a checkpoint that was taken to the helper, once all of it is stable. */
void checkpoint_send(struct store *store);
/* Forgets one that was taken and not sent. */
void checkpoint_drop(struct store *store);
/* Finds the newest checkpoint that can be read and takes it in: r->checkpoint_lsn, definitions, queues,
 * live octets of segments. 0, also when there is none, or negative with a line in r->error. */
int checkpoint_load(struct recovery *r) MUST_CHECK;

/* A checkpoint in memory. */
struct checkpoint_image {
	uint8_t *p; // owns
	size_t n;
	uint64_t lsn;
	struct bytes sections[SECTION_CHAIN + 1]; // by tag
	struct bytes returns;			  // SECTION_RETURNS; empty: there is none
	struct bytes keys;			  // SECTION_KEYS; as above
};

/* Reads one and cuts it into its sections, whose content is still to be decoded. The caller frees image->p with
 * xfree() whatever is returned: 0; -EBADMSG when it is damaged, -ENOTSUP when it is of a newer version; an
 * errno of the disk. */
int checkpoint_read(struct disk *disk, const uint8_t uuid[STORE_UUID_SIZE], uint64_t lsn,
		    struct checkpoint_image *image) MUST_CHECK;
/* Decodes what is in its sections. 0; -EBADMSG: it makes no sense; what was decoded before was given to ops. */
int checkpoint_decode(const struct checkpoint_image *image,
		      const struct inspect_checkpoint_ops *ops, void *context) MUST_CHECK;
