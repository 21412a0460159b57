/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as a whole, and the batches that they stand in; what is inside of a record is payload.c's.
 *
 * What is valid but unknown to this version is -ENOTSUP, what is not valid -EBADMSG. In a batch the latter
 * wins: a batch that is torn is torn, whatever its whole part may hold. Any thread.
 */
#include "store/record.h"

#include <errno.h>

#include "util/crc32c.h"

_Static_assert(BATCH_ALIGNMENT_LARGE % BATCH_ALIGNMENT == 0, "a large batch is aligned too");

/* ---- records ---- */

uint32_t
record_crc(const uint8_t *p, uint32_t size)
{
	const uint8_t *rest = p + RECORD_AT_CHECK + 4;

	assert(size >= RECORD_HEADER_SIZE);
	return crc32c(crc32c(0, p, RECORD_AT_CHECK), rest, size - (RECORD_AT_CHECK + 4));
}

int
record_decode(struct record *record, struct bytes octets, uint32_t salt)
{
	const uint8_t *p = octets.p;
	uint32_t size;

	if (octets.n < RECORD_HEADER_SIZE)
		return -EBADMSG;
	size = le32_load(p + RECORD_AT_SIZE);
	if (size < RECORD_HEADER_SIZE || size % RECORD_ALIGNMENT != 0 || size > octets.n)
		return -EBADMSG;
	record->size = size;
	record->crc = record_crc(p, size);
	if (le32_load(p + RECORD_AT_CHECK) != (record->crc ^ salt))
		return -EBADMSG;
	record->lsn = le64_load(p + RECORD_AT_LSN);
	record->type = p[RECORD_AT_TYPE];
	record->version = p[RECORD_AT_VERSION];
	record->flags = le16_load(p + RECORD_AT_FLAGS);
	record->aux = le32_load(p + RECORD_AT_AUX);
	record->p = p;
	return 0;
}

void
record_header_encode(uint8_t *p, uint32_t size, uint64_t lsn, enum record_type type, uint16_t flags,
		     uint32_t aux)
{
	assert(size >= RECORD_HEADER_SIZE && size % RECORD_ALIGNMENT == 0);
	le32_store(p + RECORD_AT_SIZE, size);
	le32_store(p + RECORD_AT_CHECK, 0);
	le64_store(p + RECORD_AT_LSN, lsn);
	p[RECORD_AT_TYPE] = (uint8_t)type;
	p[RECORD_AT_VERSION] = RECORD_VERSION;
	le16_store(p + RECORD_AT_FLAGS, flags);
	le32_store(p + RECORD_AT_AUX, aux);
}

uint32_t
record_seal(uint8_t *p, uint32_t salt)
{
	uint32_t crc = record_crc(p, le32_load(p + RECORD_AT_SIZE));

	le32_store(p + RECORD_AT_CHECK, crc ^ salt);
	return crc;
}

/* 0 when its meaning is known, or not needed. */
static int
record_supported(const struct record *record)
{
	switch (record->type) {
	case RECORD_MESSAGE:
	case RECORD_ACK:
	case RECORD_QUEUE:
	case RECORD_DEFINE:
	case RECORD_PURGE:
	case RECORD_EPOCH:
		return record->version == RECORD_VERSION ? 0 : -ENOTSUP;
	default:
		return (record->type & RECORD_TYPE_SKIPPABLE) != 0 ? 0 : -ENOTSUP;
	}
}

/* ---- batches ---- */

uint64_t
batch_padded_size(uint64_t offset, uint64_t size)
{
	uint64_t alignment = size >= BATCH_LARGE ? BATCH_ALIGNMENT_LARGE : BATCH_ALIGNMENT;

	assert(offset % BATCH_ALIGNMENT == 0);
	return ((offset + size + alignment - 1) & ~(alignment - 1)) - offset;
}

/* The digest of a batch, continued over one more record. */
static uint32_t
digest_add(uint32_t digest, uint32_t crc)
{
	uint8_t octets[4];

	le32_store(octets, crc);
	return crc32c(digest, octets, sizeof(octets));
}

void
batch_record_encode(uint8_t *p, const struct batch_record *batch, uint32_t salt)
{
	record_header_encode(p, BATCH_SIZE, batch->first_lsn, RECORD_BATCH, batch->flags,
			     batch->group);
	le64_store(p + BATCH_AT_TERM, batch->term);
	le64_store(p + BATCH_AT_NUMBER, batch->number);
	le32_store(p + BATCH_AT_PREVIOUS, batch->previous);
	le32_store(p + BATCH_AT_DIGEST, batch->digest);
	le32_store(p + BATCH_AT_COUNT, batch->count);
	le32_store(p + BATCH_AT_BYTES, batch->bytes);
	le64_store(p + BATCH_AT_STABLE, batch->stable);
	record_seal(p, salt);
}

int
batch_record_decode(struct batch_record *batch, const struct record *record)
{
	const uint8_t *p = record->p;

	if (record->type != RECORD_BATCH)
		return -EBADMSG;
	if (record->version != RECORD_VERSION)
		return -ENOTSUP;
	if (record->size != BATCH_SIZE)
		return -EBADMSG;
	batch->first_lsn = record->lsn;
	batch->group = record->aux;
	batch->flags = record->flags;
	batch->term = le64_load(p + BATCH_AT_TERM);
	batch->number = le64_load(p + BATCH_AT_NUMBER);
	batch->previous = le32_load(p + BATCH_AT_PREVIOUS);
	batch->digest = le32_load(p + BATCH_AT_DIGEST);
	batch->count = le32_load(p + BATCH_AT_COUNT);
	batch->bytes = le32_load(p + BATCH_AT_BYTES);
	batch->stable = le64_load(p + BATCH_AT_STABLE);
	return 0;
}

/* The BATCH record at the front, when all that it speaks of can be there. */
static int
batch_begin(struct batch_record *batch, struct bytes octets, uint32_t salt)
{
	struct record record;
	int result = record_decode(&record, octets, salt);

	if (result == 0)
		result = batch_record_decode(batch, &record);
	if (result != 0)
		return result;
	if (batch->bytes > octets.n - BATCH_SIZE)
		return -EBADMSG;
	/* LSNs count from 1, and a batch is a range of them: not empty, not beyond the last one. */
	if (batch->first_lsn == 0 || batch->count == 0 ||
	    batch->count - 1 > UINT64_MAX - batch->first_lsn)
		return -EBADMSG;
	return 0;
}

int
batch_read(struct bytes octets, uint64_t offset, uint32_t salt, struct batch_record *batch,
	   uint64_t *padded, int (*each)(void *context, const struct record *record), void *context)
{
	struct bytes rest;
	uint32_t digest;
	uint32_t count = 0;
	int supported;
	int result = batch_begin(batch, octets, salt);

	if (result != 0)
		return result;
	supported = batch->flags == 0 ? 0 : -ENOTSUP;
	digest = batch->previous;
	rest = bytes_of(octets.p + BATCH_SIZE, batch->bytes);
	while (rest.n > 0) {
		struct record record;

		if (record_decode(&record, rest, salt) != 0)
			return -EBADMSG;
		if (record.type == RECORD_BATCH || record.lsn != batch->first_lsn + count)
			return -EBADMSG;
		digest = digest_add(digest, record.crc);
		count++;
		rest = bytes_of(rest.p + record.size, rest.n - record.size);
		if (supported == 0)
			supported = record_supported(&record);
		if (supported == 0 && each != NULL)
			result = each(context, &record);
		if (result != 0)
			return result;
	}
	if (count != batch->count || digest != batch->digest)
		return -EBADMSG;
	*padded = batch_padded_size(offset, BATCH_SIZE + (uint64_t)batch->bytes);
	return supported;
}

void
batch_seal(uint8_t *p, uint64_t size, struct batch_record *batch, uint32_t salt)
{
	uint8_t *record = p + BATCH_SIZE;
	uint64_t left = size;

	assert(size <= UINT32_MAX);
	batch->bytes = (uint32_t)size;
	batch->count = 0;
	batch->digest = batch->previous;
	while (left > 0) {
		uint32_t record_size = le32_load(record + RECORD_AT_SIZE);

		assert(record_size <= left && record_size % RECORD_ALIGNMENT == 0);
		assert(le64_load(record + RECORD_AT_LSN) == batch->first_lsn + batch->count);
		batch->digest = digest_add(batch->digest, record_seal(record, salt));
		batch->count++;
		record += record_size;
		left -= record_size;
	}
	assert(batch->count != 0 && batch->first_lsn != 0);
	batch_record_encode(p, batch, salt);
}

void
batch_salt_anew(uint8_t *p, uint64_t size, uint32_t salts)
{
	while (size > 0) {
		uint32_t record_size = le32_load(p + RECORD_AT_SIZE);

		assert(record_size >= RECORD_HEADER_SIZE && record_size <= size);
		le32_store(p + RECORD_AT_CHECK, le32_load(p + RECORD_AT_CHECK) ^ salts);
		p += record_size;
		size -= record_size;
	}
}
