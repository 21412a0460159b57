/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that consumes from one queue. Deliveries are not decoded but stepped over: the sizes of
 * their frames, the delivery tag, and the first octets of the body (producer.h says what they are) are all
 * that is looked at.
 */
#pragma once

#include "client.h"
#include "util/base.h"

struct options;
struct totals;

struct consumer {
	struct client client;	       // comes first
	const struct options *options; // borrows until consumer_close
	struct totals *totals;	       // borrows until consumer_close
	uint64_t *next; // owns; of each producer and priority: the least number that may come next
	uint64_t tag;	// delivery tag of the message that comes in, or of the last one
	uint64_t acked; // tags up to this one were acknowledged
	uint64_t skip;	// octets of the present body frame, its end included, still to come
	uint64_t body_left;   // octets of the body in frames after that
	bool within;	      // a message has begun and not ended
	bool first_of_read;   // no message of this read was timed yet
	bool waits;	      // messages wait before they are delivered: they come in any order
	bool stamped;	      // the message has a number: its body has 8 octets or more
	uint64_t number;      // producer and sequence of the message
	uint64_t intended_us; // when it was to be sent; 0 when its body is too short to say
};

/* Opens the connection and sets the prefetch. */
void consumer_open(struct consumer *consumer, struct engine *engine, const struct options *options,
		   struct totals *totals);
/* Starts to consume. */
void consumer_start(struct consumer *consumer, struct bytes queue);
/* What its connection calls with input; returns how much of it was used. For consumer.c and its test. */
size_t consumer_input(struct client *client, struct bytes input);
/* Acknowledges what is left, and closes. */
void consumer_close(struct consumer *consumer);
