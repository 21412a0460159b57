/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store read as a whole: its state from the newest checkpoint and the log, then its open messages one by one.
 */
#pragma once

#include "ctl.h"
#include "image.h"

/* An open message as a queue has it. */
struct open_ref {
	struct image_queue *queue; // borrows from the image
	struct message_ref ref;
	uint64_t due_ms;  // ms since 1970; 0: it is ready
	bool redelivered; // it may have been delivered before
	uint32_t returns; // how often it is known to have come back
};

/* A message with a reference that is not settled. */
struct open_message {
	const struct inspect_place *place;
	const struct record *record;
	struct message_record message;
	const struct open_ref *refs; // those that are not settled
	uint32_t count;
};

struct reading {
	struct ctl_store store;
	struct ctl_faults faults;
	struct ctl_progress progress;
	struct image image;
	bool without_checkpoints; // set before it is opened
	/* Called for each fault, once; NULL: nobody. Set before it is opened, as is context. */
	void (*fault)(void *context, const struct inspect_fault *fault);
	bool is_muted;			  // faults were told
	uint64_t to;			  // last LSN that counts; UINT64_MAX: all
	uint64_t base;			  // LSN of the checkpoint that it began with; 0: none
	uint64_t last_lsn;		  // of the log
	uint64_t records;		  // that were read
	uint64_t beyond[RECORD_TYPE_END]; // records behind `to', by type
	uint64_t contradictions;	  // marks that cannot be right
	uint64_t orphans;		  // open references whose queue's definition is lost
	struct open_ref *refs;		  // owns
	uint32_t ref_room;
	void (*message)(void *context, const struct open_message *message); // NULL: first pass
	void *context;
};

/* Opens the store and reads its state; faults are printed to faults.out. CTL_OK, or another status with a line on
 * stderr. reading: zeros but for what is set before. */
int reading_open(struct reading *reading, const char *dir) MUST_CHECK;
void reading_close(struct reading *reading);
/* Reads the state anew. */
void reading_state(struct reading *reading);
/* Calls each for every message that is open, by LSN; counts them in the queues of the image. */
void reading_messages(struct reading *reading,
		      void (*each)(void *context, const struct open_message *message),
		      void *context);
