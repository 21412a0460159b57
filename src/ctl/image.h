/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that a log leads to: definitions and queues, from a checkpoint or from nothing, with records taken in
 * one by one. What a removal takes with it (the bindings of a queue) is not looked for at once: every
 * definition knows when it was put and when it was last removed, and one counts if it was put after all that
 * it stands on was last removed.
 */
#pragma once

#include "image_keys.h"
#include "store/inspect.h"
#include "store/qseq_counts.h"
#include "util/map.h"

struct image_definition {
	struct map_node by_key;
	struct bytes key;	      // owns: what names it
	struct bytes octets;	      // owns: as encoded
	struct definition definition; // borrows from octets
	uint64_t put_at;	      // steps of the image
	uint64_t removed_at;	      // 0: never
	bool is_put;
};

struct image_queue {
	struct map_node by_id;
	uint64_t id;
	struct bytes vhost; // owns
	struct bytes name;  // owns; of a part, its owner's
	bool removed;
	bool is_part;	    // of a queue or
	bool of_exchange;   // of an exchange
	uint64_t part;	    // which one
	bool is_named;	    // its definition was seen
	uint64_t next_qseq; // higher than any seen
	uint64_t flags;	    // enum queue_state_flag
	uint64_t count;	    // open messages, by counting up and down
	uint64_t octets;    // of their bodies
	uint64_t redelivered_below;
	struct qseq_set settled;
	struct qseq_counts returns; // how often messages came back
	/* the tools' own */
	uint64_t open;	      // messages seen that are not settled
	uint64_t open_octets; // of their bodies
	uint64_t open_here;   // as open, in the present segment
	void *owner;	      // borrows
};

struct ctl_name;

struct image {
	struct map definitions; // struct image_definition.by_key
	struct map queues;	// struct image_queue.by_id
	struct map keys;	// struct image_keys.by_owner
	uint64_t steps;
	uint64_t lsn;		    // everything up to here is in it
	uint64_t live_refs;	    // of all segments, as the checkpoint says
	struct inspect_chain chain; // of the checkpoint
};

void image_init(struct image *image);
void image_fini(struct image *image);
/* Makes it what the checkpoint says. 0, or as inspect_checkpoint(): then it is empty. */
int image_load(struct image *image, struct inspect *inspect, uint64_t lsn) MUST_CHECK;
/* Takes in a record that can be decoded; one that is in it already does nothing. NULL, or what contradicts. */
const char *image_take(struct image *image, const struct record *record);
/* NULL: it was never seen. */
struct image_queue *image_queue(const struct image *image, uint64_t id);
/* As ctl_name(); of a part, with which one it is. */
const char *image_queue_name(struct ctl_name *room, const struct image_queue *queue);
/* Whether it is there, with all that it stands on. */
bool image_has(const struct image *image, const struct image_definition *definition);
/* All that are there, in an order in which they can be made. The caller frees the array. */
const struct image_definition **image_list(const struct image *image, size_t *count) MUST_CHECK;
/* Whether this message is there and not settled; NULL: no. */
struct image_queue *image_open_ref(const struct image *image, const struct message_ref *ref);
/* What is not the same in both, apart from what stops and starts change; calls each with a sentence. */
void image_compare(const struct image *checkpoint, const struct image *replayed,
		   void (*each)(void *context, const char *sentence), void *context);
