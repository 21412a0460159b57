/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden stores: the files of a store as text, so that its octets stay as they were written for as long as the
 * project lasts, and what is in a store as text, to be compared. tests/golden holds both for each version of the
 * format; docs/store-format.md says how one is added.
 *
 *	# comment
 *	file log/0000000001.seg 12288
 *	000000 50414e4e4c4f4731...
 *
 * A line is where 32 octets of the file stand and what they are, both in hex; what no line names is zeros.
 */
#pragma once

#include "store/store.h"

#include "lib/disk_sim.h"

/* Puts the files that the text holds on the disk. */
void golden_load(struct disk_sim *sim, const char *text);
/* The text of all files on the disk but LOCK, none of which has anything un-synced. */
void golden_save(struct disk_sim *sim, struct buf *text);
/* What the tools see, from the superblock to each record, a line each, and what is wrong with it. Returns how
 * much of that is more than a note. */
uint64_t golden_list_files(struct disk *disk, struct buf *text);

/* Parts of lines. */
void golden_add_text(struct buf *line, const char *name, struct bytes octets);
void golden_add_definition(struct buf *line, const struct definition *definition);
void golden_add_message(struct buf *line, const struct message_record *message);
