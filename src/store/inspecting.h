/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of inspection share.
 */
#pragma once

#include "store/inspect.h"

#include "checkpoint.h"
#include "scan.h"

/* What the newest checkpoint says of a segment. */
struct known_segment {
	struct inspect_segment_state state;
	bool found; // there is a file
};

struct inspect {
	struct disk *disk; // borrows for good
	const struct inspect_ops *ops;
	void *context;
	struct superblock superblock;
	bool has_superblock;
	struct inspect_segment *segments; // own
	size_t segment_count;
	size_t segment_room;
	size_t used;	       // segments in use: the first ones
	uint64_t *checkpoints; // own; LSNs, ascending, of those that hold
	size_t checkpoint_count;
	size_t checkpoint_room;
	uint64_t newest;	     // LSN of the newest that makes sense; 0: none
	struct known_segment *known; // own; by that one
	size_t known_count;
	size_t known_room;
	uint64_t done;	// octets walked
	uint64_t total; // octets to walk
};

/* References of one segment, for the comparison with its footer. */
struct seen_ref {
	uint64_t queue_id;
	uint64_t qseq;
	uint64_t offset;  // of the record
	uint64_t share;	  // store_share() of the record
	uint64_t time_ms; // 0: it has none
	uint32_t body_size;
	uint8_t priority;
	uint16_t flags; // enum footer_entry_flag
};

struct seen {
	struct seen_ref *refs; // own
	size_t count;
	size_t room;
};

void inspect_report(struct inspect *inspect, const struct inspect_fault *fault);
/* The segment of this id as the newest checkpoint knows it; NULL: it does not. */
struct known_segment *inspect_known(struct inspect *inspect, uint64_t id);
/* Finds the checkpoints, reports those that do not hold, reads what the newest says of segments. */
int inspect_find_checkpoints(struct inspect *inspect, struct buf *error) MUST_CHECK;
/* Notes the references of a message, whose record stands at offset. */
void seen_add(struct seen *seen, const struct message_record *message, uint32_t record_size,
	      uint64_t offset);
/* Compares the footer of a segment that was walked, if it has one, with what was seen; sorts that. NULL: only looks
 * whether there is one. */
void inspect_footer(struct inspect *inspect, struct inspect_segment *segment, struct scan *scan,
		    struct seen *seen);
