/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: built once by the channel that received them, then immutable and counted. The parts of the
 * wire form (model.h) are found from four sizes. Broker thread.
 */
#pragma once

#include "broker/model.h"
#include "util/buf.h"
#include "wire/frame.h"

/* Allocates a message with room for all parts and fills everything but the body; refs is 1.
 * exchange and key are at most 255 octets; header is the content header's payload as received, with
 * valid properties; body_size is what it announces; flags are enum message_flag, or-ed. */
struct message *message_new(struct bytes exchange, struct bytes key, struct bytes header,
			    uint32_t body_size, uint16_t flags);
/* The same with an extension: tagged values, 1 to 65,535 octets, or none. */
struct message *message_new_extended(struct bytes exchange, struct bytes key, struct bytes header,
				     uint32_t body_size, uint16_t flags, struct bytes extension);
/* The same message with room for a larger body; the octets of the old room are kept, the old one is
 * freed. Only before it is published, and without an extension. */
struct message *message_grow(struct message *message, uint32_t body_size);
struct message_record;
/* The message of a record in the store; refs is 1. */
struct message *message_new_stored(const struct message_record *record);
/* A message of its own with the same content; refs is 1, and it is not stored. */
struct message *message_copy(const struct message *message);
struct basic_properties;
/* What is otherwise about a message. */
struct message_spec {
	struct bytes exchange;
	struct bytes key;
	/* as it has them, but for the headers, and perhaps without some */
	const struct basic_properties *properties;
	uint16_t flags; // enum message_flag, or-ed
	struct bytes extension;
};

/* A message with the same body; refs is 1, and it is not stored. */
struct message *message_like(const struct message *message, const struct message_spec *spec);
/* The same with the header x-delivery-count; refs is 1. */
struct message *message_with_count(const struct message *message, uint32_t count);
/* One that failed so often, which its header x-failure-count says and its tagged values remember; refs is 1, and it
 * is not stored. */
struct message *message_failed(const struct message *message, uint32_t failures);
/* How often it failed in its queue, as that remembers it. */
uint32_t message_failures(const struct message *message);
void message_free(struct message *message);
struct page_place;
/* A stub for the message, whose body is in this place, which it takes over; refs is 1. */
struct message *message_new_stub(const struct message *message, struct page_place place);
/* Where the stub's body is; the place stays its own. */
struct page_place message_page_place(const struct message *stub);
/* The message that the stub stands for, with this body; refs is 1. */
struct message *message_new_unpaged(const struct message *stub, struct bytes body);

static inline struct message *
message_ref(struct message *message)
{
	message->refs++;
	return message;
}

static inline void
message_unref(struct message *message)
{
	assert(message->refs > 0);
	if (--message->refs == 0)
		message_free(message);
}

/* Octets of exchange and key with their lengths, and the end octet behind them. */
static inline size_t
message_names_size(const struct message *m)
{
	return (size_t)m->exchange_size + m->key_size + 3;
}

static inline struct bytes
message_exchange(const struct message *m)
{
	return bytes_of(m->wire + 1, m->exchange_size);
}

static inline struct bytes
message_key(const struct message *m)
{
	return bytes_of(m->wire + m->exchange_size + 2, m->key_size);
}

/* Where the header frame begins. */
static inline size_t
message_header_at(const struct message *m)
{
	return message_names_size(m);
}

/* The content header's payload. */
static inline struct bytes
message_header(const struct message *m)
{
	return bytes_of(m->wire + message_header_at(m) + FRAME_PREFIX, m->header_size);
}

/* The encoded properties: flags and values. */
static inline struct bytes
message_properties(const struct message *m)
{
	return bytes_of(m->wire + message_header_at(m) + FRAME_PREFIX + 12, m->header_size - 12);
}

/* Where the body frame begins (when there is one). */
static inline size_t
message_body_at(const struct message *m)
{
	return message_header_at(m) + FRAME_OVERHEAD + m->header_size;
}

/* Where the channel fills in the body, before the message is published. */
static inline uint8_t *
message_body_room(struct message *m)
{
	return m->wire + message_body_at(m) + FRAME_PREFIX;
}

static inline struct bytes
message_body(const struct message *m)
{
	return bytes_of(m->wire + message_body_at(m) + FRAME_PREFIX, m->body_size);
}

/* Octets that those of BCC may take in all, so that there is room for others. */
#define MESSAGE_BCC_MAX (UINT16_MAX - 1023)

/* Adds a key of BCC, of 255 octets at most, to tagged values. */
void message_put_bcc(struct buf *extension, struct bytes key);
/* The tagged values that go with it; empty: there are none. */
struct bytes message_extension(const struct message *message);

/* Its priority property; 0 when it has none. */
uint8_t message_priority(const struct message *message);

/* Whether it has a record in the log. */
static inline bool
message_is_stored(const struct message *m)
{
	return m->stored != 0 && !(m->flags & (MESSAGE_PAGED | MESSAGE_HAS_STUB));
}

/* LSN of its record in the store; only if it has one. */
static inline uint64_t
message_lsn(const struct message *m)
{
	return m->stored >> 16;
}

/* Octets of the whole wire form. */
static inline size_t
message_wire_size(const struct message *m)
{
	return message_body_at(m) + (m->body_size != 0 ? FRAME_OVERHEAD + (size_t)m->body_size : 0);
}
