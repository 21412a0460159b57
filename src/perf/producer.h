/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that publishes. Publishes are encoded once, some tens to a block; what changes from one to
 * the next (key, sequence number, time) is put in place, and the block goes out by reference. With
 * confirms a ring holds the send times of what is not confirmed yet, and its size is the window.
 *
 * A body begins with its producer (16 bits) and its number (48 bits), from 8 octets on, and the time in
 * microseconds at which it was to be sent, from 16 on; of a message that is to wait, at which it is to be delivered.
 */
#pragma once

#include "client.h"
#include "util/base.h"

#define SEQUENCE_BITS 48

struct block;
struct options;
struct topology;
struct totals;

struct producer {
	struct client client;		 // comes first
	const struct options *options;	 // borrows until producer_close
	const struct topology *topology; // borrows until producer_close
	struct totals *totals;		 // borrows until producer_close
	uint64_t index;			 // which producer it is
	uint64_t sequence;		 // messages sent so far: the number of the next
	uint64_t limit;			 // sequence stops here
	size_t key;			 // index of the next key

	uint8_t *image;	    // owns; one message as encoded
	size_t stride;	    // its size
	size_t key_at;	    // where the key stands in it
	size_t body_at;	    // where the body begins
	size_t wait_at;	    // where it says how long it waits, when it does
	size_t priority_at; // where its priority stands, when it has one
	uint64_t random;    // what the last wait was made of
	size_t per_block;   // messages in a block
	struct block *free; // owns; blocks that are not being sent, the last one in front

	uint64_t *sent_us;  // owns; intended send times of the window by sequence, 0 when confirmed
	uint64_t mask;	    // size of sent_us less one
	uint64_t lowest;    // sequence of the first that is not confirmed
	uint64_t origin_us; // with a rate: the intended time of message 0; else 0
	double interval_us; // with a rate: time from one to the next
};

void producer_open(struct producer *producer, uint64_t index, struct engine *engine,
		   const struct options *options, const struct topology *topology,
		   struct totals *totals);
void producer_close(struct producer *producer);
/* Publishes until limit, window, rate or connection are full. */
void producer_pump(struct producer *producer);
/* When the next message is due; with a rate only. */
uint64_t producer_next_us(const struct producer *producer);
