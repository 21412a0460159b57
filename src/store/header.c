/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segment headers and superblocks: fixed fields in 4,096 octets of zeros, with a checksum in the last
 * four. What stands between the fields and the checksum is not looked at, so that a later minor version
 * can put fields there. Any thread.
 */
#include "store/record.h"

#include <errno.h>

#include "util/crc32c.h"

/* Both structures begin alike and end alike. */
#define HEADER_PAGE 4096
#define PAGE_AT_CRC 4092
#define MAGIC_SIZE 8

_Static_assert(SEGMENT_HEADER_SIZE == HEADER_PAGE && SUPERBLOCK_SIZE == HEADER_PAGE, "one page");
_Static_assert((int)SEGMENT_AT_MAGIC == SUPERBLOCK_AT_MAGIC, "the same beginning");
_Static_assert((int)SEGMENT_AT_MAJOR == SUPERBLOCK_AT_MAJOR, "the same beginning");
_Static_assert((int)SEGMENT_AT_MINOR == SUPERBLOCK_AT_MINOR, "the same beginning");
_Static_assert((int)SEGMENT_AT_LENGTH == SUPERBLOCK_AT_LENGTH, "the same beginning");
_Static_assert((int)SEGMENT_AT_CRC == PAGE_AT_CRC, "the same end");
_Static_assert((int)SUPERBLOCK_AT_CRC == PAGE_AT_CRC, "the same end");
_Static_assert(sizeof(SEGMENT_MAGIC) == MAGIC_SIZE + 1, "the magic fills its field");
_Static_assert(sizeof(SUPERBLOCK_MAGIC) == MAGIC_SIZE + 1, "the magic fills its field");
_Static_assert(sizeof(((struct superblock *)NULL)->node) == 256, "a name of 255 octets and NUL");

static void
page_begin(uint8_t *p, const char *magic)
{
	memset(p, 0, HEADER_PAGE);
	memcpy(p + SEGMENT_AT_MAGIC, magic, MAGIC_SIZE);
	le16_store(p + SEGMENT_AT_MAJOR, STORE_FORMAT_MAJOR);
	le16_store(p + SEGMENT_AT_MINOR, STORE_FORMAT_MINOR);
	le32_store(p + SEGMENT_AT_LENGTH, HEADER_PAGE);
}

static void
page_seal(uint8_t *p)
{
	le32_store(p + PAGE_AT_CRC, crc32c(0, p, PAGE_AT_CRC));
}

/* 0 when it is one of ours that we can read; the checksum comes before the version, so that damage is
 * not taken for a newer format. */
static int
page_check(const uint8_t *p, const char *magic)
{
	uint16_t major = le16_load(p + SEGMENT_AT_MAJOR);

	if (memcmp(p + SEGMENT_AT_MAGIC, magic, MAGIC_SIZE) != 0)
		return -EBADMSG;
	if (le32_load(p + PAGE_AT_CRC) != crc32c(0, p, PAGE_AT_CRC))
		return -EBADMSG;
	if (major > STORE_FORMAT_MAJOR)
		return -ENOTSUP;
	if (major == 0 || le32_load(p + SEGMENT_AT_LENGTH) != HEADER_PAGE)
		return -EBADMSG;
	return 0;
}

/* ---- segment header ---- */

uint32_t
segment_salt(const uint8_t uuid[STORE_UUID_SIZE], uint64_t id, uint32_t generation)
{
	uint8_t octets[STORE_UUID_SIZE + 8 + 4];

	memcpy(octets, uuid, STORE_UUID_SIZE);
	le64_store(octets + STORE_UUID_SIZE, id);
	le32_store(octets + STORE_UUID_SIZE + 8, generation);
	return crc32c(0, octets, sizeof(octets));
}

void
segment_header_encode(uint8_t *p, const struct segment_header *header)
{
	page_begin(p, SEGMENT_MAGIC);
	le64_store(p + SEGMENT_AT_ID, header->id);
	le32_store(p + SEGMENT_AT_GENERATION, header->generation);
	le32_store(p + SEGMENT_AT_SALT, segment_salt(header->uuid, header->id, header->generation));
	le64_store(p + SEGMENT_AT_FIRST_LSN, header->first_lsn);
	le64_store(p + SEGMENT_AT_LAST_LSN, header->last_lsn);
	le64_store(p + SEGMENT_AT_SWALLOWED, header->swallowed);
	le64_store(p + SEGMENT_AT_TERM, header->term);
	memcpy(p + SEGMENT_AT_UUID, header->uuid, STORE_UUID_SIZE);
	le64_store(p + SEGMENT_AT_CREATED, header->created_ms);
	page_seal(p);
}

int
segment_header_decode(struct segment_header *header, const uint8_t *p)
{
	int result = page_check(p, SEGMENT_MAGIC);

	if (result != 0)
		return result;
	header->id = le64_load(p + SEGMENT_AT_ID);
	header->generation = le32_load(p + SEGMENT_AT_GENERATION);
	header->salt = le32_load(p + SEGMENT_AT_SALT);
	header->first_lsn = le64_load(p + SEGMENT_AT_FIRST_LSN);
	header->last_lsn = le64_load(p + SEGMENT_AT_LAST_LSN);
	header->swallowed = le64_load(p + SEGMENT_AT_SWALLOWED);
	header->term = le64_load(p + SEGMENT_AT_TERM);
	memcpy(header->uuid, p + SEGMENT_AT_UUID, STORE_UUID_SIZE);
	header->created_ms = le64_load(p + SEGMENT_AT_CREATED);
	if (header->salt != segment_salt(header->uuid, header->id, header->generation))
		return -EBADMSG;
	return 0;
}

/* ---- superblock ---- */

void
superblock_encode(uint8_t *p, const struct superblock *superblock)
{
	size_t node_size = strnlen(superblock->node, sizeof(superblock->node));

	assert(node_size < sizeof(superblock->node));
	page_begin(p, SUPERBLOCK_MAGIC);
	le64_store(p + SUPERBLOCK_AT_SEQUENCE, superblock->sequence);
	memcpy(p + SUPERBLOCK_AT_UUID, superblock->uuid, STORE_UUID_SIZE);
	memcpy(p + SUPERBLOCK_AT_CLUSTER, superblock->cluster, STORE_UUID_SIZE);
	le64_store(p + SUPERBLOCK_AT_TERM, superblock->term);
	le64_store(p + SUPERBLOCK_AT_PROMISED, superblock->promised);
	le64_store(p + SUPERBLOCK_AT_HORIZON, superblock->horizon);
	le64_store(p + SUPERBLOCK_AT_CHECKPOINT, superblock->checkpoint);
	p[SUPERBLOCK_AT_CLEAN] = superblock->clean;
	p[SUPERBLOCK_AT_NODE_SIZE] = (uint8_t)node_size;
	memcpy(p + SUPERBLOCK_AT_NODE, superblock->node, node_size);
	page_seal(p);
}

int
superblock_decode(struct superblock *superblock, const uint8_t *p)
{
	int result = page_check(p, SUPERBLOCK_MAGIC);
	uint8_t node_size = p[SUPERBLOCK_AT_NODE_SIZE];

	if (result != 0)
		return result;
	superblock->sequence = le64_load(p + SUPERBLOCK_AT_SEQUENCE);
	memcpy(superblock->uuid, p + SUPERBLOCK_AT_UUID, STORE_UUID_SIZE);
	memcpy(superblock->cluster, p + SUPERBLOCK_AT_CLUSTER, STORE_UUID_SIZE);
	superblock->term = le64_load(p + SUPERBLOCK_AT_TERM);
	superblock->promised = le64_load(p + SUPERBLOCK_AT_PROMISED);
	superblock->horizon = le64_load(p + SUPERBLOCK_AT_HORIZON);
	superblock->checkpoint = le64_load(p + SUPERBLOCK_AT_CHECKPOINT);
	superblock->clean = p[SUPERBLOCK_AT_CLEAN] == 1; /* only what is known to be clean is */
	memset(superblock->node, 0, sizeof(superblock->node));
	memcpy(superblock->node, p + SUPERBLOCK_AT_NODE, node_size);
	return 0;
}
