/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec of what format.h describes: octets to structs and back, nothing else. Decoding takes any
 * octets and never reads outside them. Encoders write into room that the caller made. Any thread.
 */
#pragma once

#include "store/format.h"
#include "util/bytes.h"

#define STORE_UUID_SIZE 16

/* ---- integers ---- */

static inline uint16_t
le16_load(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t
le32_load(const uint8_t *p)
{
	return (uint32_t)le16_load(p) | (uint32_t)le16_load(p + 2) << 16;
}

static inline uint64_t
le64_load(const uint8_t *p)
{
	return le32_load(p) | (uint64_t)le32_load(p + 4) << 32;
}

/* Cuts it off the front of in; false, and in as it was, when there is less. */
static inline bool
le64_take(struct bytes *in, uint64_t *value)
{
	if (in->n < 8)
		return false;
	*value = le64_load(in->p);
	*in = bytes_of(in->p + 8, in->n - 8);
	return true;
}

static inline void
le16_store(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)value;
	p[1] = (uint8_t)(value >> 8);
}

static inline void
le32_store(uint8_t *p, uint32_t value)
{
	le16_store(p, (uint16_t)value);
	le16_store(p + 2, (uint16_t)(value >> 16));
}

static inline void
le64_store(uint8_t *p, uint64_t value)
{
	le32_store(p, (uint32_t)value);
	le32_store(p + 4, (uint32_t)(value >> 32));
}

/* ---- segment header and superblock ---- */

struct segment_header {
	uint64_t id;
	uint32_t generation;
	uint32_t salt; // of the file; encoding and decoding make and compare it by segment_salt()
	uint64_t first_lsn;
	uint64_t last_lsn;
	uint64_t swallowed;
	uint64_t term;
	uint8_t uuid[STORE_UUID_SIZE];
	uint64_t created_ms;
};

uint32_t segment_salt(const uint8_t uuid[STORE_UUID_SIZE], uint64_t id, uint32_t generation);
/* Writes SEGMENT_HEADER_SIZE octets; header->salt is not looked at. */
void segment_header_encode(uint8_t *p, const struct segment_header *header);
/* Reads SEGMENT_HEADER_SIZE octets. 0; -EBADMSG when they are not a header; -ENOTSUP when it is one of a
 * newer major format. */
int segment_header_decode(struct segment_header *header, const uint8_t *p) MUST_CHECK;

struct superblock {
	uint64_t sequence;
	uint8_t uuid[STORE_UUID_SIZE];
	uint8_t cluster[STORE_UUID_SIZE];
	uint64_t term;
	uint64_t promised;
	uint64_t horizon;
	uint64_t checkpoint;
	bool clean;
	char node[256]; // NUL-terminated
};

/* Writes SUPERBLOCK_SIZE octets. */
void superblock_encode(uint8_t *p, const struct superblock *superblock);
/* As segment_header_decode(). */
int superblock_decode(struct superblock *superblock, const uint8_t *p) MUST_CHECK;

/* ---- records ---- */

struct record {
	uint32_t size; // octets of the whole record
	uint32_t crc;  // unsalted
	uint64_t lsn;
	uint8_t type;
	uint8_t version;
	uint16_t flags;
	uint32_t aux;
	const uint8_t *p; // the whole record; offsets of format.h count from here
};

/* The crc of a record whose size field is right; its check field is not looked at. */
uint32_t record_crc(const uint8_t *p, uint32_t size);
/* Looks at the record at the front of octets. 0; -EBADMSG when it is none, is cut off or fails its check
 * under this salt. Its payload is still to be decoded. */
int record_decode(struct record *record, struct bytes octets, uint32_t salt) MUST_CHECK;
/* Writes the header but for the check, which record_seal() adds. */
void record_header_encode(uint8_t *p, uint32_t size, uint64_t lsn, enum record_type type,
			  uint16_t flags, uint32_t aux);
/* Writes the check field of a record that is complete; returns the unsalted crc. */
uint32_t record_seal(uint8_t *p, uint32_t salt);
/* Octets rounded up to a whole record. */
static inline uint64_t
record_align(uint64_t size)
{
	return (size + RECORD_ALIGNMENT - 1) & ~(uint64_t)(RECORD_ALIGNMENT - 1);
}

/* Octets that a batch of this size takes on disk (format.h: multiples of 512 or 4,096), when it begins
 * at offset. */
uint64_t batch_padded_size(uint64_t offset, uint64_t size);

struct batch_record {
	uint64_t first_lsn;
	uint32_t group; // count of write groups
	uint16_t flags; // enum batch_flag
	uint64_t term;
	uint64_t number;
	uint32_t previous; // digest
	uint32_t digest;
	uint32_t count;
	uint32_t bytes;
	uint64_t stable;
};

/* Writes BATCH_SIZE octets, sealed with the salt. */
void batch_record_encode(uint8_t *p, const struct batch_record *batch, uint32_t salt);
/* -EBADMSG when the record is no batch record, -ENOTSUP when it is of a newer version. */
int batch_record_decode(struct batch_record *batch, const struct record *record) MUST_CHECK;
/* Reads a whole batch at the front of octets: its record, then each record behind it. Calls each (may be
 * NULL) for every record; when it returns other than 0, that is returned. 0 with *batch filled; -EBADMSG
 * when anything in it is not valid (its chain to the batch before is the caller's to compare), -ENOTSUP
 * when it is valid but holds what this version does not know; the calls up to there were made. *padded gets
 * the octets that it takes on disk, at offset, a multiple of BATCH_ALIGNMENT. */
int batch_read(struct bytes octets, uint64_t offset, uint32_t salt, struct batch_record *batch,
	       uint64_t *padded, int (*each)(void *context, const struct record *record),
	       void *context) MUST_CHECK;
/* Seals the records of a batch, which lie behind BATCH_SIZE octets of room at p, and writes its BATCH
 * record: fills batch->digest, batch->count and batch->bytes (size octets without the BATCH record). */
void batch_seal(uint8_t *p, uint64_t size, struct batch_record *batch, uint32_t salt);
/* Changes the checks of a valid batch of size octets, BATCH record included, from one salt to another:
 * both salts XORed. */
void batch_salt_anew(uint8_t *p, uint64_t size, uint32_t salts);

/* One reference of a message. */
struct message_ref {
	uint64_t queue_id;
	uint64_t qseq;
	uint8_t priority;
	uint8_t flags; // enum ref_flag
};

struct message_record {
	uint64_t time_ms;
	uint64_t expiry_ms; // 0: none
	uint32_t ref_count;
	uint32_t time_count; // deadlines and due times; to be encoded: due times of its references
	uint16_t flags;	     // enum stored_message_flag
	struct bytes exchange;
	struct bytes key;
	struct bytes properties;
	struct bytes body;
	const uint8_t *refs;	// decoded: MESSAGE_REF_SIZE octets each, see message_ref_decode()
	const uint8_t *times;	// decoded: the deadlines, then the due times
	struct bytes extension; // the tagged values; empty: it has none
};

/* Octets of the whole record, without extension and times, which take 8 more each; 64 bits, as sums may not fit a
 * record. */
static inline uint64_t
message_record_size(uint32_t ref_count, size_t exchange, size_t key, size_t properties, size_t body)
{
	return record_align(MESSAGE_AT_REFS + (uint64_t)ref_count * MESSAGE_REF_SIZE + exchange +
			    key + properties + body);
}

/* The same with the times, and with the extension area if it has one. */
static inline uint64_t
message_record_octets(const struct message_record *m)
{
	size_t extension = m->extension.n == 0 ? 0 : 2 + m->extension.n;

	return message_record_size(m->ref_count, m->exchange.n, m->key.n, m->properties.n,
				   8 * (size_t)m->time_count + extension + m->body.n);
}

/* A value of an extension area. */
struct message_value {
	uint8_t tag; // enum message_tag, or one that this version does not know
	struct bytes octets;
};

/* Takes the first value off an area of a message that was decoded, or is as such a one; false when it is empty. */
static inline bool
message_value_next(struct bytes *area, struct message_value *value)
{
	if (area->n == 0)
		return false;
	assert(area->n >= 2 && area->n - 2 >= area->p[1]);
	value->tag = area->p[0];
	value->octets = bytes_of(area->p + 2, area->p[1]);
	*area = bytes_of(area->p + 2 + value->octets.n, area->n - 2 - value->octets.n);
	return true;
}

/* Writes the whole record but the references, which the caller writes at p + MESSAGE_AT_REFS, with their due times
 * behind, and the check; size is message_record_octets(). */
void message_record_encode(uint8_t *p, uint32_t size, uint64_t lsn,
			   const struct message_record *message);
/* Views borrow from the record. -EBADMSG when it is malformed, -ENOTSUP when it is of a newer version or has
 * flags that this one does not know. */
int message_record_decode(struct message_record *message, const struct record *record) MUST_CHECK;

static inline void
message_ref_encode(uint8_t *p, const struct message_ref *ref)
{
	le64_store(p, ref->queue_id | (uint64_t)ref->priority << 48 | (uint64_t)ref->flags << 56);
	le64_store(p + 8, ref->qseq);
}

static inline struct message_ref
message_ref_decode(const uint8_t *p)
{
	uint64_t word = le64_load(p);

	return (struct message_ref){
		.queue_id = word & ((1ULL << 48) - 1),
		.qseq = le64_load(p + 8),
		.priority = (uint8_t)(word >> 48),
		.flags = (uint8_t)(word >> 56),
	};
}

/* Walks the times of a message's references. */
struct ref_times {
	const uint8_t *deadline; // borrows; of the next reference that has one
	const uint8_t *due;
	uint64_t expiry_ms; // of the message
};

/* Of a message that was decoded, before its first reference. */
struct ref_times ref_times_of(const struct message_record *message);
/* The time of the next reference, which has these flags: when it is due, or else expires, in ms since 1970; 0: it
 * has none. To be called for each in turn. */
uint64_t ref_times_next(struct ref_times *times, uint8_t flags);

/* One range of an ACK record. */
struct ack_mark {
	uint64_t queue_id;
	enum ack_reason reason; // why its messages are settled
	uint64_t first;		// qseq
	uint64_t count;		// 1 ... ACK_RANGE_MAX qseqs from first on
	uint64_t octets; // of bodies of the whole group, with its first range; 0 with the others
};

/* Walks an ACK record: calls each for every range, in order; mark is valid during the call. 0; -EBADMSG when
 * it is malformed and -ENOTSUP when it is of a newer version or has a newer reason (the calls up to there
 * were made); or what each returned other than 0. */
int ack_record_walk(const struct record *record,
		    int (*each)(void *context, const struct ack_mark *mark),
		    void *context) MUST_CHECK;
/* Writes ACK_GROUP_SIZE octets. A group has at least one range; octets is the sum of the bodies of all
 * messages in its ranges. */
void ack_group_encode(uint8_t *p, uint64_t queue_id, enum ack_reason reason, uint64_t octets,
		      uint32_t ranges);
/* count is 1 ... ACK_RANGE_MAX, the numbers are 1 ... QSEQ_MAX. */
void ack_range_encode(uint8_t *p, uint64_t first, uint64_t count);

struct purge_record {
	uint64_t queue_id;
	uint64_t first;
	uint64_t last;
	uint64_t open_count;
	uint64_t open_octets;
};

#define PURGE_RECORD_SIZE (RECORD_HEADER_SIZE + PURGE_SIZE)
/* Writes PURGE_RECORD_SIZE octets, all but the check. */
void purge_record_encode(uint8_t *p, uint64_t lsn, const struct purge_record *purge);
/* 0; -EBADMSG when it is malformed, -ENOTSUP when it is of a newer version. */
int purge_record_decode(struct purge_record *purge, const struct record *record) MUST_CHECK;

/* How often a message came back to its queue. */
struct return_count {
	uint64_t queue_id;
	uint64_t qseq;	// 1 ... QSEQ_MAX
	uint32_t count; // 1 ... QSEQ_COUNT_MAX
};

#define RETURNS_RECORD_SIZE(n) (RECORD_HEADER_SIZE + (n)*RETURN_SIZE)
/* Writes a record of one count, all but the check: RETURNS_RECORD_SIZE(1) octets. */
void returns_record_encode(uint8_t *p, uint64_t lsn, const struct return_count *count);
/* Walks a RETURNS record: as ack_record_walk(), but nothing of a newer version is walked, and that is 0. */
int returns_record_walk(const struct record *record,
			int (*each)(void *context, const struct return_count *count),
			void *context) MUST_CHECK;

/* A key of an exchange or queue. */
struct key_record {
	enum key_owner owner;
	unsigned flags;	       // enum key_flag, or-ed
	struct bytes vhost;    // its name
	struct bytes name;     // of the exchange or queue
	uint64_t value;	       // 0 with KEY_FORGET
	const uint8_t *digest; // KEY_DIGEST_SIZE octets; NULL with KEY_FORGET when it is encoded
};

/* Octets of its record. */
static inline uint32_t
key_record_size(const struct key_record *key)
{
	return (uint32_t)record_align(KEY_AT_NAMES + key->vhost.n + key->name.n);
}

/* Writes the whole record but the check; key_record_size() octets. */
void key_record_encode(uint8_t *p, uint64_t lsn, const struct key_record *key);
/* Views borrow from the record. -EBADMSG when it is malformed; -ENOTSUP when it is of a newer version, or has what
 * this one does not know: then it is to be skipped. */
int key_record_decode(struct key_record *key, const struct record *record) MUST_CHECK;
/* The keys of the checkpoint section KEYS; ends at the first call that does not return 0, and returns that; -EBADMSG
 * when it is malformed. What this version does not know of them is left out. */
int keys_section_walk(struct bytes section,
		      int (*each)(void *context, const struct key_record *key),
		      void *context) MUST_CHECK;

/* The two words of a QUEUE or an EPOCH record. -EBADMSG when it is shorter. */
int pair_record_decode(const struct record *record, uint64_t *first, uint64_t *second) MUST_CHECK;
/* Writes a record of two words but for the check; RECORD_HEADER_SIZE + 16 octets. */
#define PAIR_RECORD_SIZE (RECORD_HEADER_SIZE + 16)
void pair_record_encode(uint8_t *p, uint64_t lsn, enum record_type type, uint64_t first,
			uint64_t second);
