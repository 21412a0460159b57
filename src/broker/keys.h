/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deduplication as broker/ sees it: the keys of an exchange or of a queue. Broker thread.
 *
 * A mark is a key that is new to its exchange or queue, on the way with its message: it is remembered when the
 * message was taken, and never when it was not.
 */
#pragma once

#include "broker/deduplication.h"

#include "key_cache.h"
#include "route.h"

struct deduplication {
	struct list_link of_broker; // in broker->deduplicating, while it has an owner
	struct exchange *exchange;  // borrows: whose it is; NULL: no exchange's
	struct queue *queue;	    // or this queue's; both NULL: it is nobody's any more
	uint32_t refs;		    // one for its owner, one for each mark
	bool while_queued;   // the value of a key is where the message in the queue is that has it,
			     // u48 qseq and u16 number of the part, 0: the queue itself; else when
			     // it is forgotten, ms since 1970, or 0: never
	bool is_kept;	     // in the store, too, where its owner is
	bool is_claimed;     // it is as its owner was asked for; else recovery made it
	uint64_t ttl_ms;     // how long a key is remembered; UINT64_MAX: for ever
	struct bytes header; // owns; the name of the header that is the key
	uint64_t duplicates;
	struct key_cache keys;
};

struct key_mark {
	struct deduplication *of; // counts
	uint8_t digest[KEY_DIGEST_SIZE];
	uint64_t value; // as of the key
	bool is_start;	// of the exchange that the message was published to
};

enum key_answer {
	KEY_NONE, // nothing to remember
	KEY_NEW,
	KEY_KNOWN
};

/* ---- deduplication.c ---- */

/* What a message has for it. KEY_NEW: *mark is filled, for route_add_mark(). KEY_KNOWN was counted. */
enum key_answer keys_ask(struct deduplication *deduplication, const struct message *message,
			 struct key_mark *mark);
/* The same of a queue with QUEUE_DEDUPLICATES, which a message comes to. */
enum key_answer keys_ask_queue(struct queue *queue, const struct message *message,
			       struct key_mark *mark);
/* On the way of a message that a client publishes: whether the exchange does not know it. */
bool keys_admit(struct exchange *exchange, struct routing *routing);
void route_add_mark(struct route *route, const struct key_mark *mark);
void route_copy_marks(struct route *to, const struct route *from);
void route_drop_marks(struct route *route);
/* The message goes from its queue to a part of it, or from there to the queue, which is alone in the route: if it has a
 * key that counts while it is queued, it takes it along. */
void keys_move(struct route *route, const struct message *message);
/* The key is remembered: enum cached_key_flag, or-ed. */
void keys_add(const struct key_mark *mark, uint32_t flags);
/* The message gets its number in each queue of the route next: keys of those know where it is. */
void keys_place(const struct route *route);
/* The message was taken: its keys are remembered. */
void keys_note(const struct route *route, const struct message *message);
/* Drops what is of no use: keys of messages that left their queue otherwise than by keys_release(), or whose time
 * is over. */
void keys_prune(struct deduplication *deduplication);

/* Made anew, with one reference; is_claimed is false. */
struct deduplication *keys_new(struct exchange *exchange, struct queue *queue, bool while_queued);
/* The owner's pointer becomes NULL. */
void keys_drop(struct deduplication **deduplication);
void keys_check(const struct deduplication *deduplication);

/* ---- deduplication_rules.c: what is asked for ---- */

/* The exchange's arguments and policies, or the queue's, say something about it now. Nothing while recovering. */
void keys_set_exchange(struct exchange *exchange);
void keys_set_queue(struct queue *queue, const struct policy *const policies[POLICY_KIND_COUNT]);
/* Everything was read back, and keys_set_queue() was called for each queue: what was found of keys is as the owners are
 * asked for, or goes. */
void keys_recovered(struct broker *broker);

/* ---- durable_keys.c ---- */

/* Whether the store has its keys. */
bool keys_are_kept(const struct deduplication *deduplication);
struct stored_keys {
	uint64_t lsn; // of the last record; 0: there is none
	bool outlast; // some are known for longer than their message is in its queues
};

/* Appends the marks of a message that was appended just now: in the same unit. */
struct stored_keys keys_store(struct store *store, const struct route *route);
/* Octets that those, and those of the queues of the route, may take in the store. */
uint64_t keys_octets(const struct route *route);
/* Its keys count for nothing from now on. */
void keys_forget(const struct deduplication *deduplication);
