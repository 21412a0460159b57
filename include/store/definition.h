/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions: what exists in a broker apart from messages, one change each, absolute: putting one twice
 * is putting it once, removing what is not there does nothing. The same octets stand in DEFINE records,
 * in checkpoints and on the way to a standby.
 *
 * A definition is a kind, whether it is removed, and a list of tagged fields; a field that is empty or 0
 * is not written, and a reader skips tags that it does not know. Argument tables are opaque here.
 *
 *	u8 kind | u8 removed | u16 fields, then for each field
 *	u8 tag | u8 0 | u16 0 | u32 size | octets (a number: u64)
 * and after the last one zeros to a multiple of 8, less than 8 of them.
 */
#pragma once

#include "util/buf.h"
#include "util/bytes.h"

enum definition_kind {
	DEFINITION_VHOST = 1,		 // name; max_connections, max_queues
	DEFINITION_USER = 2,		 // name; hash_kind, password_hash, tags, limits
	DEFINITION_PERMISSION = 3,	 // user, vhost; configure, write, read
	DEFINITION_TOPIC_PERMISSION = 4, // user, vhost, exchange; write, read
	DEFINITION_EXCHANGE = 5,	 // vhost, name; type, flags, arguments
	DEFINITION_QUEUE = 6,		 // vhost, name; queue_id, flags, arguments
	DEFINITION_BINDING = 7,		 // vhost, source, destination, flags, key, arguments
	DEFINITION_POLICY = 8,		 // vhost, name; pattern, apply_to, priority, arguments
	DEFINITION_OPERATOR_POLICY = 9,	 // the same
	/* reserved: parameters 10 */
	DEFINITION_PART = 11, // vhost, name and flags of whose it is; part, queue_id
	DEFINITION_KIND_END = 12
};

enum definition_flag {
	DEFINITION_AUTO_DELETE = 1,
	DEFINITION_INTERNAL = 2,
	DEFINITION_TO_EXCHANGE = 4, // a binding whose destination is an exchange
	DEFINITION_OF_EXCHANGE = 8  // a part whose owner is an exchange; otherwise it is a queue
};

/* All fields of all kinds; those that a kind does not use are empty. Views borrow. */
struct definition {
	enum definition_kind kind;
	bool removed;
	struct bytes vhost;
	struct bytes name;
	struct bytes user;
	struct bytes exchange;
	struct bytes type;
	struct bytes source;
	struct bytes destination;
	struct bytes key;
	struct bytes arguments;
	struct bytes configure;
	struct bytes write;
	struct bytes read;
	struct bytes password_hash;
	uint64_t flags; // enum definition_flag
	uint64_t queue_id;
	uint64_t hash_kind;
	uint64_t tags;
	/* limits are kept plus one, so that 0 (not written) is none: see definition_limit() */
	uint64_t max_connections;
	uint64_t max_queues;
	uint64_t max_channels;
	struct bytes pattern;
	struct bytes apply_to;
	uint64_t priority; // see definition_priority()
	uint64_t part;	   // which one of its owner's
};

/* A limit (negative: none) as the field keeps it, and back. */
static inline uint64_t
definition_limit(int64_t limit)
{
	return limit < 0 ? 0 : (uint64_t)limit + 1;
}

static inline int64_t
definition_limit_of(uint64_t field)
{
	return field == 0 ? -1 : (int64_t)(field - 1);
}

/* A priority, which may be negative, as the field keeps it, and back. */
static inline uint64_t
definition_priority(int64_t priority)
{
	return (uint64_t)priority;
}

static inline int64_t
definition_priority_of(uint64_t field)
{
	return (int64_t)field;
}

/* Whether it says which queue of the store it is: then messages refer to its queue_id. */
static inline bool
definition_has_queue(const struct definition *definition)
{
	return definition->kind == DEFINITION_QUEUE || definition->kind == DEFINITION_PART;
}

/* Octets that definition_encode() writes: a multiple of 8. */
size_t definition_size(const struct definition *definition);
void definition_encode(uint8_t *p, const struct definition *definition);
/* Reads one that fills the octets; its views borrow from them. 0; -EBADMSG when they are malformed;
 * -ENOTSUP when the kind is unknown. */
int definition_decode(struct definition *definition, struct bytes octets) MUST_CHECK;
