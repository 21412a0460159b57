/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchange, queues and bindings of a run, and the keys that producers publish with. All keys have the
 * same size, so that one encoded publish serves for all of them with the key put in its place. For a
 * headers exchange the key is the value of the header "number", four octets.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

struct client;
struct options;

struct topology {
	const struct options *options; // borrows until topology_fini
	uint8_t *keys;		       // owns; key_count times key_size octets
	size_t key_size;	       // octets of each; 0: nothing to vary
	size_t key_count;	       // at least 1
	uint64_t copies;	       // deliveries that one message makes
};

#define QUEUE_NAME_MAX 224 // with its final NUL

/* The keys; nothing is sent. */
void topology_init(struct topology *topology, const struct options *options);
void topology_fini(struct topology *topology);
/* Deletes what is there of that name, declares and binds. */
void topology_declare(const struct topology *topology, struct client *client);
void topology_delete(const struct topology *topology, struct client *client);
/* Name of the queue with that index, written to out. Returns its view. */
struct bytes topology_queue(const struct topology *topology, uint64_t index,
			    char out[QUEUE_NAME_MAX]);
/* Where consumers of this index consume from: that queue, or the one for dead letters when those are what is
 * consumed. Its name is written to out. */
struct bytes topology_source(const struct topology *topology, uint64_t index,
			     char out[QUEUE_NAME_MAX]);
static inline struct bytes
topology_key(const struct topology *topology, size_t index)
{
	return bytes_of(topology->keys + index * topology->key_size, topology->key_size);
}
/* Messages that wait in all queues. Also makes sure that all that this client published before was
 * routed. */
uint64_t topology_ready(const struct topology *topology, struct client *client);
