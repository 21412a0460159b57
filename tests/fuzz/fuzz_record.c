/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the store: the first four octets are the salt, the rest is read as a batch, as a segment
 * header and as a superblock. Nearly all that is mutated fails its check, so all is then sealed anew and
 * read once more, to reach what lies behind the checks.
 */
#include "fuzz.h"

#include <errno.h>

#include "store/qseq_set.h"
#include "store/record.h"
#include "util/crc32c.h"
#include "util/mem.h"

#define PAGE 4096
#define AT_CRC 4092

/* What the reading of one batch has seen. */
struct seen {
	uint64_t first_lsn;
	uint64_t octets;
	uint32_t count;
};

/* What the walk over one ACK record has seen. */
struct seen_marks {
	uint64_t ranges; // calls
	uint64_t groups; // those with octets, which only the first range of each tells
};

static int
see_range(void *context, const struct ack_mark *mark)
{
	struct seen_marks *seen = context;

	fuzz_claim(mark->queue_id < 1ULL << 48);
	fuzz_claim(mark->reason < ACK_REASON_END);
	fuzz_claim(mark->first > 0 && mark->count > 0 && mark->count <= ACK_RANGE_MAX);
	fuzz_claim(mark->first + mark->count - 1 <= QSEQ_MAX);
	seen->ranges++;
	seen->groups += mark->octets != 0;
	return 0;
}

/* The same message written again is the same record, when the encoder can write all that it has. */
static void
rewrite(const struct record *record, const struct message_record *message)
{
	uint8_t *p;

	if (((message->flags & MESSAGE_EXTENDED) != 0) != (message->extension.n > 0) ||
	    record->size != message_record_octets(message))
		return;
	p = xmalloc(record->size);
	message_record_encode(p, record->size, record->lsn, message);
	if (message->ref_count != 0)
		memcpy(p + MESSAGE_AT_REFS, message->refs,
		       (size_t)message->ref_count * MESSAGE_REF_SIZE);
	if (message->time_count != 0)
		memcpy(p + MESSAGE_AT_REFS + (size_t)message->ref_count * MESSAGE_REF_SIZE,
		       message->times, (size_t)message->time_count * 8);
	fuzz_claim(memcmp(p + RECORD_HEADER_SIZE, record->p + RECORD_HEADER_SIZE,
			  record->size - RECORD_HEADER_SIZE) == 0);
	xfree(p);
}

/* The view lies behind the fixed part of the record, and in it. */
static void
expect_inside(const struct record *record, struct bytes view)
{
	fuzz_claim(view.n == 0 || (view.p >= record->p + MESSAGE_AT_REFS &&
				   view.p + view.n <= record->p + record->size));
}

static void
decode_payload(const struct record *record)
{
	struct message_record message;
	struct message_value value;
	struct batch_record batch;
	struct seen_marks marks = {0};
	struct key_record key;
	uint64_t words[2];

	if (message_record_decode(&message, record) == 0) {
		expect_inside(record, message.exchange);
		expect_inside(record, message.key);
		expect_inside(record, message.properties);
		expect_inside(record, message.body);
		expect_inside(record, message.extension);
		expect_inside(record,
			      bytes_of(message.refs, (size_t)message.ref_count * MESSAGE_REF_SIZE));
		rewrite(record, &message);
		while (message_value_next(&message.extension, &value))
			expect_inside(record, value.octets);
	}
	if (ack_record_walk(record, see_range, &marks) == 0) {
		fuzz_claim(marks.ranges > 0);
		fuzz_claim(RECORD_HEADER_SIZE + marks.groups * ACK_GROUP_SIZE +
				   marks.ranges * ACK_RANGE_SIZE <=
			   record->size);
	}
	if (key_record_decode(&key, record) == 0) {
		expect_inside(record, key.vhost);
		expect_inside(record, key.name);
	}
	if (pair_record_decode(record, &words[0], &words[1]) == 0)
		fuzz_claim(record->size >= PAIR_RECORD_SIZE);
	if (batch_record_decode(&batch, record) == 0)
		fuzz_claim(record->size == BATCH_SIZE);
}

/* Seals a copy of the record that is exactly as long, and decodes what it is said to hold. */
static void
decode_sealed(const uint8_t *p, uint32_t size, uint32_t salt)
{
	uint8_t *copy = xmalloc(size);
	struct record record;

	memcpy(copy, p, size);
	record_seal(copy, salt);
	fuzz_claim(record_decode(&record, bytes_of(copy, size), salt) == 0);
	fuzz_claim(record.size == size);
	decode_payload(&record);
	xfree(copy);
}

static int
see_record(void *context, const struct record *record)
{
	struct seen *seen = context;

	fuzz_claim(record->size >= RECORD_HEADER_SIZE);
	fuzz_claim(record->size % RECORD_ALIGNMENT == 0);
	if (seen->count == 0)
		seen->first_lsn = record->lsn;
	fuzz_claim(record->lsn == seen->first_lsn + seen->count);
	seen->octets += record->size;
	seen->count++;
	decode_payload(record);
	return 0;
}

static int
read_batch(struct bytes octets, uint32_t salt)
{
	struct seen seen = {0};
	struct batch_record batch;
	uint64_t padded;
	int result = batch_read(octets, 512, salt, &batch, &padded, see_record, &seen);

	if (result != 0) {
		fuzz_claim(result == -EBADMSG || result == -ENOTSUP);
		return result;
	}
	fuzz_claim(batch.bytes == seen.octets && batch.bytes + (size_t)BATCH_SIZE <= octets.n);
	fuzz_claim(batch.count == seen.count && batch.first_lsn == seen.first_lsn);
	fuzz_claim(padded >= BATCH_SIZE + seen.octets && padded % BATCH_ALIGNMENT == 0);
	fuzz_claim(batch_read(octets, 512, ~salt, &batch, &padded, NULL, NULL) == -EBADMSG);
	return 0;
}

/* Makes checks, counts, LSNs and the digest right as far as the sizes of the records go, and reads that. */
static void
read_repaired(uint8_t *p, size_t size, uint32_t salt)
{
	struct batch_record batch;
	struct record record;
	size_t at = BATCH_SIZE;
	uint64_t lsn = 1;

	if (size < BATCH_SIZE)
		return;
	while (size - at >= RECORD_HEADER_SIZE) {
		uint32_t n = le32_load(p + at) & ~(uint32_t)(RECORD_ALIGNMENT - 1);

		if (n < RECORD_HEADER_SIZE || n > size - at)
			break;
		le32_store(p + at, n);
		le64_store(p + at + RECORD_AT_LSN, lsn++);
		decode_sealed(p + at, n, salt);
		at += n;
	}
	le32_store(p, BATCH_SIZE);
	record_seal(p, salt);
	fuzz_claim(record_decode(&record, bytes_of(p, size), salt) == 0);
	if (batch_record_decode(&batch, &record) != 0 || lsn == 1)
		return;
	batch.first_lsn = 1;
	batch_seal(p, at - BATCH_SIZE, &batch, salt);
	fuzz_claim(batch.count == lsn - 1);
	read_batch(bytes_of(p, size), salt);
}

/* ---- segment header and superblock ---- */

/* What was read is written and read again, and is the same. */
static void
decode_page(const uint8_t *p)
{
	struct segment_header header[2] = {0};
	struct superblock superblock[2] = {0};
	uint8_t again[PAGE];

	if (segment_header_decode(&header[0], p) == 0) {
		segment_header_encode(again, &header[0]);
		fuzz_claim(segment_header_decode(&header[1], again) == 0);
		fuzz_claim(memcmp(again + SEGMENT_AT_ID, p + SEGMENT_AT_ID,
				  SEGMENT_AT_CREATED + 8 - SEGMENT_AT_ID) == 0);
		fuzz_claim(header[0].salt == header[1].salt);
	}
	if (superblock_decode(&superblock[0], p) == 0) {
		superblock_encode(again, &superblock[0]);
		fuzz_claim(superblock_decode(&superblock[1], again) == 0);
		fuzz_claim(memcmp(again + SUPERBLOCK_AT_SEQUENCE, p + SUPERBLOCK_AT_SEQUENCE,
				  SUPERBLOCK_AT_CLEAN - SUPERBLOCK_AT_SEQUENCE) == 0);
		fuzz_claim(strcmp(superblock[0].node, superblock[1].node) == 0);
	}
}

static void
decode_pages(const uint8_t *data, size_t size)
{
	uint8_t page[PAGE] = {0};

	memcpy(page, data, size < PAGE ? size : PAGE);
	decode_page(page);
	le32_store(page + AT_CRC, crc32c(0, page, AT_CRC));
	decode_page(page);
	le32_store(page + SEGMENT_AT_SALT,
		   segment_salt(page + SEGMENT_AT_UUID, le64_load(page + SEGMENT_AT_ID),
				le32_load(page + SEGMENT_AT_GENERATION)));
	le32_store(page + AT_CRC, crc32c(0, page, AT_CRC));
	decode_page(page);
}

static int
see_key(void *context, const struct key_record *key)
{
	const struct bytes *section = context;

	fuzz_claim(key->digest >= section->p &&
		   key->digest + KEY_DIGEST_SIZE <= section->p + section->n);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes section;
	uint32_t salt;
	uint8_t *copy;

	if (size < 4)
		return 0;
	salt = le32_load(data);
	data += 4;
	size -= 4;
	read_batch(bytes_of(data, size), salt);
	copy = xmalloc(size != 0 ? size : 1);
	if (size != 0)
		memcpy(copy, data, size);
	section = bytes_of(copy, size);
	fuzz_claim(keys_section_walk(section, see_key, &section) <= 0);
	read_repaired(copy, size, salt);
	xfree(copy);
	decode_pages(data, size);
	return 0;
}
