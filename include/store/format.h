/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the store's files: this header is the specification, docs/store-format.md says the same
 * in prose with a drawing. All integers are little-endian, all structures explicit: nothing is written
 * as the compiler lays it out. Offsets below are octets from the start of the structure.
 *
 * Folder:
 *	LOCK			flock, the pid inside
 *	STORE			superblock: two copies of 4,096 octets, written in turns
 *	log/0000000042.seg	segments: the log, shared by all queues; the number is the segment's id
 *	log/0000000042.tmp	what a merge or a rewrite has not finished: removed at start
 *	ckpt/0000000000123456	checkpoints, named by their LSN; .tmp as above
 *	page/0000000042.page	bodies of transient messages: never synced, removed at start
 *
 * LSN: a dense count of records, from 1. Records stand in batches; a batch is what was written and
 * synced together, one range of LSNs, and never lies in two segments. What must be all or nothing (a
 * transaction, a message for many queues, a move) lies in one batch, whose checksum makes it so.
 *
 * Checks: crc = CRC32C of a record's first 4 octets followed by those from 8 to its end, and
 * check = crc ^ salt of the segment. So octets of another file, or left in a recycled one, never pass,
 * and a merge salts anew without reading bodies. salt = CRC32C of store uuid, segment id (u64) and
 * generation (u32): it can be had without the segment's header. The digest of a batch is CRC32C
 * continued from the digest of the batch before (0 before the first) over the unsalted crcs of its
 * records, u32 each: equal on all nodes that have the same history.
 *
 * A batch is valid when its BATCH record is, its number follows that of the batch before, its chain of
 * digests holds, its records are valid and their LSNs are dense from its lsn on. Batches begin at
 * multiples of 512 octets; a batch of 32 KiB or more is filled with zeros to the next multiple of
 * 4,096, a smaller one to that of 512: a sector that was synced is never written again.
 *
 * The log ends at the first batch that is not valid. Write groups: aux of a BATCH is the writing node's
 * count of write groups, and a group is written only when the one before was synced. So an invalid
 * batch, behind which no valid batch of a later group stands in this or a later segment, is a torn tail
 * and is cut; otherwise it is damage. The content of a segment counts up to the first LSN of the
 * next segment.
 */
#pragma once

#include "util/base.h"

#define STORE_FORMAT_MAJOR 1 // a store of a newer one is refused
#define STORE_FORMAT_MINOR 0 // readers take all minors of their major

/* ---- segment header, 4,096 octets ---- */

#define SEGMENT_MAGIC "PANNLOG1"
#define SEGMENT_HEADER_SIZE 4096

enum segment_header_offset {
	SEGMENT_AT_MAGIC = 0,	    // 8 octets
	SEGMENT_AT_MAJOR = 8,	    // u16
	SEGMENT_AT_MINOR = 10,	    // u16
	SEGMENT_AT_LENGTH = 12,	    // u32, 4,096
	SEGMENT_AT_ID = 16,	    // u64
	SEGMENT_AT_GENERATION = 24, // u32; 0 as the log wrote it, else count of merges
	SEGMENT_AT_SALT = 28,	    // u32
	SEGMENT_AT_FIRST_LSN = 32,  // u64; 0: prepared, nothing in it counts
	SEGMENT_AT_LAST_LSN = 40,   // u64; 0: not sealed, the last valid batch tells
	SEGMENT_AT_SWALLOWED = 48,  // u64; id of the right neighbour merged into it, 0: none
	SEGMENT_AT_TERM = 56,	    // u64
	SEGMENT_AT_UUID = 64,	    // 16 octets, of the store
	SEGMENT_AT_CREATED = 80,    // u64, milliseconds since 1970
	SEGMENT_AT_CRC = 4092	    // u32, CRC32C of all before, not salted
};

/* ---- superblock, 4,096 octets; the valid copy with the higher sequence counts ---- */

#define SUPERBLOCK_MAGIC "PANNSUP1"
#define SUPERBLOCK_SIZE 4096

enum superblock_offset {
	SUPERBLOCK_AT_MAGIC = 0,     // 8 octets
	SUPERBLOCK_AT_MAJOR = 8,     // u16
	SUPERBLOCK_AT_MINOR = 10,    // u16
	SUPERBLOCK_AT_LENGTH = 12,   // u32, 4,096
	SUPERBLOCK_AT_SEQUENCE = 16, // u64; copy sequence % 2 is written next
	SUPERBLOCK_AT_UUID = 24,     // 16 octets, of the store, random when it is made
	SUPERBLOCK_AT_CLUSTER = 40,  // 16 octets, of the pair; zeros: alone
	SUPERBLOCK_AT_TERM = 56,     // u64
	SUPERBLOCK_AT_PROMISED = 64, // u64, no older term is followed
	SUPERBLOCK_AT_HORIZON =
		72, // u64, LSN; records were dropped on the ground of marks up to here
	SUPERBLOCK_AT_CHECKPOINT = 80, // u64, LSN that names the newest checkpoint; 0: none
	SUPERBLOCK_AT_CLEAN = 88,      // u8; 1: stopped cleanly, the log ends at the checkpoint
	SUPERBLOCK_AT_NODE_SIZE = 89,  // u8
	SUPERBLOCK_AT_NODE = 90,       // up to 255 octets: name of the node
	SUPERBLOCK_AT_CRC = 4092       // u32, CRC32C of all before
};

/* ---- record header, 24 octets; records begin at multiples of 8 ---- */

#define RECORD_HEADER_SIZE 24
#define RECORD_ALIGNMENT 8
#define RECORD_VERSION 1 // of every payload below

enum record_offset {
	RECORD_AT_SIZE = 0,	// u32, octets of the whole record with header and filling
	RECORD_AT_CHECK = 4,	// u32
	RECORD_AT_LSN = 8,	// u64; of a BATCH: that of its first record
	RECORD_AT_TYPE = 16,	// u8
	RECORD_AT_VERSION = 17, // u8, of the payload
	RECORD_AT_FLAGS = 18,	// u16
	RECORD_AT_AUX = 20	// u32
};

/* An unknown type with this bit may be skipped, one without it is refused. */
#define RECORD_TYPE_SKIPPABLE 0x80

enum record_type {
	RECORD_BATCH = 1, // begins a batch; has no LSN of its own
	RECORD_MESSAGE = 2,
	RECORD_ACK = 3,	   // ranges of messages that are settled
	RECORD_QUEUE = 4,  // the state of a queue
	RECORD_DEFINE = 5, // one definition changes (definition.h)
	RECORD_PURGE = 6,  // a range of messages of a queue is settled at once
	RECORD_EPOCH = 7,  // a new term
	/* reserved: TRIM 9, OFFSET 10, DECIDE 11 */
	RECORD_TYPE_END = 12,
	RECORD_RETURNS = 128, // how often messages came back to their queue
	RECORD_KEY = 129      // an exchange or a queue that deduplicates has seen a key
};

/* BATCH: 64 octets with its header; aux: count of write groups of this node. */
#define BATCH_SIZE 64
#define BATCH_ALIGNMENT 512
#define BATCH_ALIGNMENT_LARGE 4096
#define BATCH_LARGE (32 * 1024)

enum batch_flag {
	BATCH_CONTINUES = 1 // reserved: the next batch belongs to the same unit
};

enum batch_offset {
	BATCH_AT_TERM = 24,	// u64
	BATCH_AT_NUMBER = 32,	// u64, dense from 1
	BATCH_AT_PREVIOUS = 40, // u32, digest of the batch before
	BATCH_AT_DIGEST = 44,	// u32
	BATCH_AT_COUNT = 48,	// u32, records behind this one
	BATCH_AT_BYTES = 52,	// u32, octets of those records
	BATCH_AT_STABLE = 56	// u64, LSN known to be stable when it was written
};

/*
 * MESSAGE: the fixed part, then
 *	references, MESSAGE_REF_SIZE each
 *	for each reference with REF_DEADLINE, in order: u64, ms since 1970
 *	for each reference with REF_DUE, in order: u64, ms since 1970
 *	with MESSAGE_EXTENDED: u16 length, then tagged values {u8 tag, u8 length, octets}
 *	exchange | routing key | properties as they came | body | zeros to a multiple of 8
 */
enum message_offset {
	MESSAGE_AT_TIME = 24,		 // u64, ms since 1970
	MESSAGE_AT_EXPIRY = 32,		 // u64, ms since 1970; 0: never
	MESSAGE_AT_BODY_SIZE = 40,	 // u32
	MESSAGE_AT_PROPERTIES_SIZE = 44, // u32; flags and values of the content header
	MESSAGE_AT_REF_COUNT = 48,	 // u32
	MESSAGE_AT_EXCHANGE_SIZE = 52,	 // u8
	MESSAGE_AT_KEY_SIZE = 53,	 // u8
	MESSAGE_AT_FLAGS = 54,		 // u16, enum stored_message_flag
	MESSAGE_AT_REFS = 56
};

enum stored_message_flag {
	MESSAGE_EXTENDED = 1, // has the extension area
	MESSAGE_CC = 2,	      // its headers hold more routing keys
	MESSAGE_DEATHS = 4    // it is a dead letter: the broker wrote its x-death
};

/* The values of the extension area. A reader skips those that it does not know. */
enum message_tag {
	MESSAGE_TAG_BCC =
		1, // a routing key of its BCC, which no header tells; as often as there are
	MESSAGE_TAG_FAILURES = 2 // u32, how often it failed in its queue, which tries it again
};

/* A reference: which message of which queue this is. u48 queue id | u8 priority | u8 flags, u64 qseq, which
 * counts from 1 and fits 48 bits. */
#define MESSAGE_REF_SIZE 16

enum ref_flag {
	REF_DEADLINE = 1, // expires in this queue at a time of its own
	REF_DUE = 2	  // is not ready in this queue before a time
};

/*
 * ACK: groups {u48 queue id | u8 reason | u8 0, u64 octets of the bodies of those messages, u32 ranges,
 * u32 0}, each with its ranges {u48 first qseq | u16 count - 1}. Ranges are absolute: taking one in twice
 * changes nothing. The octets are a sum, which counts once: they keep the octets of a queue known without
 * its messages' bodies or indexes.
 */
#define ACK_GROUP_SIZE 24
#define ACK_RANGE_SIZE 8
#define ACK_RANGE_MAX 65536

enum ack_reason {
	ACK_CONSUMED = 0, // acknowledged, or delivered without acknowledgement
	ACK_REJECTED = 1,
	ACK_EXPIRED = 2,
	ACK_MAXLEN = 3,
	ACK_DEAD_LETTERED = 4,
	ACK_PURGED = 5,
	ACK_MOVED = 6, // its time came: what went on has a record of its own
	ACK_REASON_END = 7
};

/* QUEUE: u64 queue id, u64 enum queue_state_flag. */
#define QUEUE_STATE_SIZE 16

enum queue_state_flag {
	QUEUE_STATE_DELIVERED = 1 // it may have delivered since the last clean stop
};

/* PURGE: u64 queue id, u64 first and u64 last qseq: all numbers from first to last are settled, those that no
 * message ever had too; u64 messages of the queue that are open then, u64 octets of their bodies. */
#define PURGE_SIZE 40

/* RETURNS: {u48 queue id | u16 count, u64 qseq}, one at least: how often that message has come back by now. Without
 * it nothing is lost but the count. */
#define RETURN_SIZE 16

/*
 * KEY: the fixed part, then the name of the vhost, that of the exchange or queue, and zeros to a multiple of 8. It
 * stands in the batch of the message that brought the key. The digest is the first 16 octets of the SHA-256 of what
 * deduplication.c makes of a value. Without it nothing is lost but that a message is a duplicate.
 */
#define KEY_DIGEST_SIZE 16

enum key_offset {
	KEY_AT_OWNER = 24,	// u8, enum key_owner
	KEY_AT_FLAGS = 25,	// u8, enum key_flag
	KEY_AT_VHOST_SIZE = 26, // u8
	KEY_AT_NAME_SIZE = 27,	// u8
	KEY_AT_ZERO = 28,	// u32, 0
	KEY_AT_VALUE = 32,  // u64: when it is forgotten, ms since 1970, or 0: never; or where it is
	KEY_AT_DIGEST = 40, // 16 octets
	KEY_AT_NAMES = 56
};

enum key_owner {
	KEY_OF_EXCHANGE = 1,
	KEY_OF_QUEUE = 2
};

enum key_flag {
	/* it counts while the message is open that has the number u48 qseq in the queue's part of the number u16, 0: in
	 * the queue itself */
	KEY_WHILE_QUEUED = 1,
	KEY_FORGET = 2 // it is none: those before count for nothing
};

/* EPOCH: u64 term, u64 last LSN of the term before. */
#define EPOCH_SIZE 16

/* ---- checkpoints ---- */

/*
 * The state of definitions, queues and segments behind the record of one LSN, so that the log up to there
 * need not be read for it. A header, then sections; each section has a header of its own and is followed
 * by zeros to a multiple of 8. The section END is the last; a file without it does not count.
 */
#define CHECKPOINT_MAGIC "PANNCKP1"
#define CHECKPOINT_HEADER_SIZE 64

enum checkpoint_header_offset {
	CHECKPOINT_AT_MAGIC = 0,   // 8 octets
	CHECKPOINT_AT_MAJOR = 8,   // u16
	CHECKPOINT_AT_MINOR = 10,  // u16
	CHECKPOINT_AT_LENGTH = 12, // u32, 64
	CHECKPOINT_AT_UUID = 16,   // 16 octets, of the store
	CHECKPOINT_AT_LSN = 32,	   // u64; all records up to this one are in it
	CHECKPOINT_AT_TERM = 40,   // u64
	CHECKPOINT_AT_CRC = 60	   // u32, CRC32C of all before
};

/* A section: u32 tag, u32 CRC32C of its octets, u64 octets; then those. An unknown tag with
 * SECTION_SKIPPABLE may be skipped, one without it is refused. */
#define SECTION_HEADER_SIZE 16
#define SECTION_SKIPPABLE 0x80000000U

enum checkpoint_section {
	SECTION_END = 0,	 // no octets
	SECTION_COUNTERS = 1,	 // u64 next queue id, u64 next segment id
	SECTION_DEFINITIONS = 2, // for each u64 octets, then the definition (definition.h)
	SECTION_QUEUES = 3,	 // for each QUEUE_STATE_SAVED octets, then its qseq_set
	SECTION_SEGMENTS = 4,	 // for each SEGMENT_STATE_SIZE octets
	SECTION_CHAIN = 5	 // u64 number, u32 digest, u32 group of the last batch
};

/* For each queue with a message that came back u64 id, u64 messages, then for each of those u64 qseq << 16 | count,
 * by qseq. The section is not there when no queue has one. */
#define SECTION_RETURNS (SECTION_SKIPPABLE | 6)

/* For each exchange or queue with keys u8 enum key_owner, u8 enum key_flag, u8 and u8 octets of the names of the vhost
 * and its own, u32 keys; both names, zeros to a multiple of 8; then each key, the oldest first: u64 value, 16 octets of
 * digest. The section is not there when none has any. */
#define SECTION_KEYS (SECTION_SKIPPABLE | 7)
#define KEYS_HEAD_SIZE 8
#define KEY_SAVED_SIZE 24

/* u64 id, u64 next qseq, u64 enum queue_state_flag, u64 open messages, u64 octets of their bodies, u64
 * qseq: those below it were delivered before. */
#define QUEUE_STATE_SAVED 48

/* u64 id, u64 octets in use and u64 last LSN (both 0: not known, it was written to), u64 live octets, u64 live
 * references. */
#define SEGMENT_STATE_SIZE 40

/* ---- footers ---- */

/*
 * A segment that takes no more records has a footer: from the next multiple of 4,096 behind its last batch
 * sections as in checkpoints, ENTRIES, TIMED and RUNS, and as the last octets of the file the trailer, which
 * is written once the sections are synced. It counts only with the id and the salt of the segment's header,
 * so that the octets of another file, or of this one before a merge, are never taken for its footer.
 * Without a valid trailer the segment is read from front to back and gets a new one. A merged segment
 * (generation 1 and up) has records one behind the other in place of batches; the trailer says where they
 * end. The numbers of a queue and priority rise with the LSNs.
 */
#define TRAILER_MAGIC "PANNEND1"
#define TRAILER_SIZE 64
#define FOOTER_ALIGNMENT 4096

enum trailer_offset {
	TRAILER_AT_MAGIC = 0,	  // 8 octets
	TRAILER_AT_END = 8,	  // u64, where the batches or records end
	TRAILER_AT_LAST_LSN = 16, // u64
	TRAILER_AT_SECTIONS = 24, // u64, where the sections begin
	TRAILER_AT_RUNS = 32,	  // u32 count
	TRAILER_AT_ENTRIES = 36,  // u32 count
	TRAILER_AT_ID = 40,	  // u64, of the segment
	TRAILER_AT_SALT = 48,	  // u32, of the segment
	TRAILER_AT_CRC = 60	  // u32, CRC32C of all before
};

enum footer_section {
	SECTION_RUNS = 16,
	SECTION_ENTRIES = 17
};

#define SECTION_TIMED (SECTION_SKIPPABLE | 18) // a footer of an older version has none

/*
 * A run: up to FOOTER_RUN_ENTRIES messages of one queue and priority; runs stand in the order of queue,
 * priority and first qseq. Both checks are salted as a record's, so that each run and its entries are
 * proved by themselves. Octets of bodies count whole, those of records divided by their references.
 */
#define FOOTER_RUN_SIZE 48
#define FOOTER_RUN_ENTRIES 1024

enum footer_run_offset {
	RUN_AT_QUEUE = 0,	   // u48 queue id | u8 priority | u8 0
	RUN_AT_FIRST = 8,	   // u64, qseq of the first message
	RUN_AT_SPAN = 16,	   // u16, qseq of the last one - first
	RUN_AT_COUNT = 18,	   // u16
	RUN_AT_ENTRY = 20,	   // u32, index of its first entry
	RUN_AT_BODY_OCTETS = 24,   // u64
	RUN_AT_RECORD_OCTETS = 32, // u64
	RUN_AT_ENTRIES_CHECK = 40, // u32, CRC32C of its entries ^ salt
	RUN_AT_CHECK = 44	   // u32, CRC32C of all before ^ salt
};

/* An entry: u32 offset / 8, u16 qseq - first of the run, u16 flags, u32 body octets. */
#define FOOTER_ENTRY_SIZE 12

enum footer_entry_flag {
	ENTRY_SHARED = 1,   // the record has other references
	ENTRY_DEADLINE = 2, // it expires in this queue at a time of its own
	ENTRY_DUE = 4	    // it is not ready in this queue before a time
};

/*
 * TIMED: the references of the segment that have a time, settled or not, by time, queue id and qseq, each once.
 * The time is that of REF_DUE, else that of REF_DEADLINE, else the message's expiry. First a head, then pieces of
 * TIMED_PIECE_ITEMS items, the last one of fewer: a header and those. So the place of each piece is known, each
 * is proved by itself, and who has read one knows when the next one matters. Checks are salted as a record's.
 */
#define TIMED_HEAD_SIZE 16
#define TIMED_PIECE_HEADER_SIZE 16
#define TIMED_PIECE_ITEMS 256
#define TIMED_ITEM_SIZE 36

enum timed_head_offset {
	TIMED_HEAD_AT_FIRST = 0, // u64, time of the first item; all ones: there is none
	TIMED_HEAD_AT_COUNT = 8, // u32, items
	TIMED_HEAD_AT_CHECK = 12 // u32, CRC32C of all before ^ salt
};

enum timed_piece_offset {
	TIMED_PIECE_AT_NEXT =
		0, // u64, time of the first item of the piece behind; all ones: there is none
	TIMED_PIECE_AT_COUNT = 8, // u32, items
	TIMED_PIECE_AT_CHECK = 12 // u32, CRC32C of all before and of the items ^ salt
};

enum timed_item_offset {
	TIMED_AT_TIME = 0,   // u64, ms since 1970
	TIMED_AT_QUEUE = 8,  // u64, queue id
	TIMED_AT_QSEQ = 16,  // u64
	TIMED_AT_SHARE = 24, // u32, octets of the record divided by its references
	TIMED_AT_BODY = 28,  // u32, octets of the body
	TIMED_AT_OFFSET = 32 // u32, offset of the record / 8
};

/* ---- page files: bodies behind each other, each with a header ---- */

#define PAGE_HEADER_SIZE 8

enum page_offset {
	PAGE_AT_SIZE = 0, // u32, octets of the body
	PAGE_AT_CHECK =
		4 // u32, CRC32C of the file's number (u64), the header's offset (u32) and the body
};

_Static_assert((RECORD_RETURNS & RECORD_KEY & RECORD_TYPE_SKIPPABLE) != 0,
	       "who does not know them does without");
_Static_assert(RUN_AT_CHECK + 4 == FOOTER_RUN_SIZE, "the run is full");
_Static_assert(TIMED_AT_OFFSET + 4 == TIMED_ITEM_SIZE, "the item is full");
_Static_assert(TRAILER_AT_CRC + 4 == TRAILER_SIZE, "the check is the trailer's end");
_Static_assert(BATCH_AT_TERM == RECORD_HEADER_SIZE, "the payload follows the header");
_Static_assert(BATCH_AT_STABLE + 8 == BATCH_SIZE, "the batch record is full");
_Static_assert(MESSAGE_AT_TIME == RECORD_HEADER_SIZE, "the payload follows the header");
_Static_assert(KEY_AT_OWNER == RECORD_HEADER_SIZE, "the payload follows the header");
_Static_assert(KEY_AT_DIGEST + KEY_DIGEST_SIZE == KEY_AT_NAMES, "names follow the digest");
_Static_assert(MESSAGE_AT_REFS % 8 == 0, "references are aligned");
_Static_assert(BATCH_SIZE % RECORD_ALIGNMENT == 0, "records are aligned");
_Static_assert(SEGMENT_AT_CREATED + 8 < SEGMENT_AT_CRC, "the header has room");
_Static_assert(SUPERBLOCK_AT_NODE + 255 < SUPERBLOCK_AT_CRC, "the superblock has room");
