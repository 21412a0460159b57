/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is inside of MESSAGE, ACK, RETURNS, QUEUE and EPOCH records.
 *
 * record_decode() has proved that the octets of the record are there and as they were written, so only the
 * inner sizes are in doubt here. They are added in 64 bits by a reader that never goes beyond the
 * record, and at the end nothing but filling may be left over. What is valid but unknown to this version
 * is -ENOTSUP, what is not valid -EBADMSG. Any thread.
 */
#include "store/record.h"

#include <errno.h>

#include "store/qseq_counts.h"
#include "store/qseq_set.h"

#define U48_MAX ((1ULL << 48) - 1)

_Static_assert(PAIR_RECORD_SIZE == RECORD_HEADER_SIZE + QUEUE_STATE_SIZE, "two words");
_Static_assert(PAIR_RECORD_SIZE == RECORD_HEADER_SIZE + EPOCH_SIZE, "two words");

/* Takes octets off the front of a record. After it has failed it gives nothing. */
struct reader {
	const uint8_t *p; // borrows as the record does; the next octet
	uint64_t left;	  // octets from there to the end of the record
	bool failed;	  // more was asked for than was left
};

static struct bytes
take(struct reader *reader, uint64_t n)
{
	struct bytes taken = bytes_of(reader->p, n);

	if (reader->failed || n > reader->left) {
		reader->failed = true;
		return bytes_of(NULL, 0);
	}
	reader->p += n;
	reader->left -= n;
	return taken;
}

/* Whether what is left is nothing but the filling of a record. */
static bool
is_filling(const struct reader *reader)
{
	uint8_t all = 0;

	if (reader->failed || reader->left >= RECORD_ALIGNMENT)
		return false;
	for (uint64_t i = 0; i < reader->left; i++)
		all |= reader->p[i];
	return all == 0;
}

/* Copies to p, returns the end. */
static uint8_t *
put(uint8_t *p, struct bytes bytes)
{
	if (bytes.n != 0)
		memcpy(p, bytes.p, bytes.n);
	return p + bytes.n;
}

/* 0 when it is a record of this type, at least as large, in a version that is known. */
static int
record_expect(const struct record *record, enum record_type type, uint32_t size)
{
	if (record->type != type)
		return -EBADMSG;
	if (record->version != RECORD_VERSION)
		return -ENOTSUP;
	return record->size < size ? -EBADMSG : 0;
}

/* ---- messages ---- */

static uint8_t *
put_extension(uint8_t *p, struct bytes extension)
{
	if (extension.n == 0)
		return p;
	le16_store(p, (uint16_t)extension.n);
	return put(p + 2, extension);
}

void
message_record_encode(uint8_t *p, uint32_t size, uint64_t lsn, const struct message_record *message)
{
	uint8_t *end = p + MESSAGE_AT_REFS + (uint64_t)message->ref_count * MESSAGE_REF_SIZE +
		       8 * (uint64_t)message->time_count;

	assert(message->exchange.n <= UINT8_MAX);
	assert(message->key.n <= UINT8_MAX);
	assert(message->extension.n <= UINT16_MAX);
	assert(size == message_record_octets(message));
	record_header_encode(p, size, lsn, RECORD_MESSAGE, 0, 0);
	le64_store(p + MESSAGE_AT_TIME, message->time_ms);
	le64_store(p + MESSAGE_AT_EXPIRY, message->expiry_ms);
	le32_store(p + MESSAGE_AT_BODY_SIZE, (uint32_t)message->body.n);
	le32_store(p + MESSAGE_AT_PROPERTIES_SIZE, (uint32_t)message->properties.n);
	le32_store(p + MESSAGE_AT_REF_COUNT, message->ref_count);
	p[MESSAGE_AT_EXCHANGE_SIZE] = (uint8_t)message->exchange.n;
	p[MESSAGE_AT_KEY_SIZE] = (uint8_t)message->key.n;
	le16_store(p + MESSAGE_AT_FLAGS,
		   (uint16_t)((message->flags & ~MESSAGE_EXTENDED) |
			      (message->extension.n > 0 ? MESSAGE_EXTENDED : 0)));
	end = put_extension(end, message->extension);
	end = put(end, message->exchange);
	end = put(end, message->key);
	end = put(end, message->properties);
	end = put(end, message->body);
	memset(end, 0, (size_t)(p + size - end));
}

/* Counts the times that the references have; an unknown flag may mean more of them. */
static int
refs_check(const struct message_record *message, uint64_t *times)
{
	*times = 0;
	for (uint32_t i = 0; i < message->ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(message->refs + (uint64_t)i * MESSAGE_REF_SIZE);

		if (ref.qseq == 0 || ref.qseq > QSEQ_MAX)
			return -EBADMSG;
		if ((ref.flags & ~(REF_DEADLINE | REF_DUE)) != 0)
			return -ENOTSUP;
		*times += (ref.flags & REF_DEADLINE) != 0;
		*times += (ref.flags & REF_DUE) != 0;
	}
	return 0;
}

/* The extension area, without its length; it must consist of whole tagged values. */
static struct bytes
take_extension(struct reader *reader)
{
	struct bytes length = take(reader, 2);
	struct bytes area = take(reader, reader->failed ? 0 : le16_load(length.p));
	struct reader values = {.p = area.p, .left = area.n};

	while (values.left > 0) {
		struct bytes tag = take(&values, 2);

		take(&values, values.failed ? 0 : tag.p[1]);
		if (values.failed) {
			reader->failed = true;
			break;
		}
	}
	return area;
}

int
message_record_decode(struct message_record *message, const struct record *record)
{
	struct reader reader = {.p = record->p, .left = record->size};
	const uint8_t *p = record->p;
	uint64_t times;
	int result = record_expect(record, RECORD_MESSAGE, MESSAGE_AT_REFS);

	if (result != 0)
		return result;
	*message = (struct message_record){
		.time_ms = le64_load(p + MESSAGE_AT_TIME),
		.expiry_ms = le64_load(p + MESSAGE_AT_EXPIRY),
		.ref_count = le32_load(p + MESSAGE_AT_REF_COUNT),
		.flags = le16_load(p + MESSAGE_AT_FLAGS),
	};
	if ((message->flags & ~(MESSAGE_EXTENDED | MESSAGE_CC | MESSAGE_DEATHS)) != 0)
		return -ENOTSUP;
	take(&reader, MESSAGE_AT_REFS);
	message->refs = take(&reader, (uint64_t)message->ref_count * MESSAGE_REF_SIZE).p;
	if (reader.failed)
		return -EBADMSG;
	result = refs_check(message, &times);
	if (result != 0)
		return result;
	message->times = take(&reader, times * 8).p;
	message->time_count = (uint32_t)times;
	if ((message->flags & MESSAGE_EXTENDED) != 0)
		message->extension = take_extension(&reader);
	message->exchange = take(&reader, p[MESSAGE_AT_EXCHANGE_SIZE]);
	message->key = take(&reader, p[MESSAGE_AT_KEY_SIZE]);
	message->properties = take(&reader, le32_load(p + MESSAGE_AT_PROPERTIES_SIZE));
	message->body = take(&reader, le32_load(p + MESSAGE_AT_BODY_SIZE));
	return is_filling(&reader) ? 0 : -EBADMSG;
}

struct ref_times
ref_times_of(const struct message_record *message)
{
	struct ref_times times = {message->times, message->times, message->expiry_ms};

	/* the due times are behind the deadlines */
	for (uint32_t i = 0; message->time_count > 0 && i < message->ref_count; i++)
		if (message_ref_decode(message->refs + (uint64_t)i * MESSAGE_REF_SIZE).flags &
		    REF_DEADLINE)
			times.due += 8;
	return times;
}

uint64_t
ref_times_next(struct ref_times *times, uint8_t flags)
{
	uint64_t ms = times->expiry_ms;

	if (flags & REF_DEADLINE) {
		ms = le64_load(times->deadline);
		times->deadline += 8;
	}
	if (flags & REF_DUE) {
		ms = le64_load(times->due);
		times->due += 8;
	}
	return ms;
}

/* ---- marks ---- */

/* The marks of one queue, at the front of reader. */
static int
group_walk(struct reader *reader, int (*each)(void *context, const struct ack_mark *mark),
	   void *context)
{
	const uint8_t *group = take(reader, ACK_GROUP_SIZE).p;
	uint64_t word = group != NULL ? le64_load(group) : 0;
	uint64_t ranges = group != NULL ? le32_load(group + 16) : 0;
	const uint8_t *range = take(reader, ranges * ACK_RANGE_SIZE).p;
	struct ack_mark mark = {.queue_id = word & U48_MAX};

	if (reader->failed || ranges == 0 || word >> 56 != 0 || le32_load(group + 20) != 0)
		return -EBADMSG;
	if (group[6] >= ACK_REASON_END)
		return -ENOTSUP;
	mark.reason = (enum ack_reason)group[6];
	mark.octets = le64_load(group + 8);
	for (; ranges > 0; ranges--, range += ACK_RANGE_SIZE) {
		int result = -EBADMSG;

		mark.first = le64_load(range) & U48_MAX;
		mark.count = (uint64_t)le16_load(range + 6) + 1;
		if (mark.first != 0 && mark.first + mark.count - 1 <= QSEQ_MAX)
			result = each(context, &mark);
		if (result != 0)
			return result;
		mark.octets = 0;
	}
	return 0;
}

int
ack_record_walk(const struct record *record,
		int (*each)(void *context, const struct ack_mark *mark), void *context)
{
	struct reader reader = {.p = record->p, .left = record->size};
	int result = record_expect(record, RECORD_ACK, RECORD_HEADER_SIZE + ACK_GROUP_SIZE);

	take(&reader, RECORD_HEADER_SIZE);
	while (result == 0 && reader.left > 0)
		result = group_walk(&reader, each, context);
	return result;
}

void
ack_group_encode(uint8_t *p, uint64_t queue_id, enum ack_reason reason, uint64_t octets,
		 uint32_t ranges)
{
	assert(queue_id <= U48_MAX);
	assert(reason < ACK_REASON_END);
	assert(ranges != 0);
	le64_store(p, queue_id | (uint64_t)reason << 48);
	le64_store(p + 8, octets);
	le32_store(p + 16, ranges);
	le32_store(p + 20, 0);
}

void
ack_range_encode(uint8_t *p, uint64_t first, uint64_t count)
{
	assert(count != 0 && count <= ACK_RANGE_MAX);
	assert(first != 0 && first + count - 1 <= QSEQ_MAX);
	le64_store(p, first | (count - 1) << 48);
}

/* ---- purges ---- */

void
purge_record_encode(uint8_t *p, uint64_t lsn, const struct purge_record *purge)
{
	assert(purge->first != 0);
	assert(purge->first <= purge->last && purge->last <= QSEQ_MAX);
	record_header_encode(p, PURGE_RECORD_SIZE, lsn, RECORD_PURGE, 0, 0);
	p += RECORD_HEADER_SIZE;
	le64_store(p, purge->queue_id);
	le64_store(p + 8, purge->first);
	le64_store(p + 16, purge->last);
	le64_store(p + 24, purge->open_count);
	le64_store(p + 32, purge->open_octets);
}

int
purge_record_decode(struct purge_record *purge, const struct record *record)
{
	const uint8_t *p = record->p + RECORD_HEADER_SIZE;
	int result = record_expect(record, RECORD_PURGE, PURGE_RECORD_SIZE);

	if (result != 0)
		return result;
	*purge = (struct purge_record){
		.queue_id = le64_load(p),
		.first = le64_load(p + 8),
		.last = le64_load(p + 16),
		.open_count = le64_load(p + 24),
		.open_octets = le64_load(p + 32),
	};
	if (record->size != PURGE_RECORD_SIZE || purge->queue_id > U48_MAX || purge->first == 0 ||
	    purge->first > purge->last || purge->last > QSEQ_MAX)
		return -EBADMSG;
	return 0;
}

/* ---- returns ---- */

void
returns_record_encode(uint8_t *p, uint64_t lsn, const struct return_count *count)
{
	assert(count->queue_id <= U48_MAX);
	assert(count->count != 0 && count->count <= QSEQ_COUNT_MAX);
	assert(count->qseq != 0 && count->qseq <= QSEQ_MAX);
	record_header_encode(p, RETURNS_RECORD_SIZE(1), lsn, RECORD_RETURNS, 0, 0);
	p += RECORD_HEADER_SIZE;
	le64_store(p, count->queue_id | (uint64_t)count->count << 48);
	le64_store(p + 8, count->qseq);
}

int
returns_record_walk(const struct record *record,
		    int (*each)(void *context, const struct return_count *count), void *context)
{
	struct reader reader = {.p = record->p, .left = record->size};
	int result = record_expect(record, RECORD_RETURNS, RETURNS_RECORD_SIZE(1));

	if (result != 0)
		return result == -ENOTSUP ? 0 : result;
	take(&reader, RECORD_HEADER_SIZE);
	while (result == 0 && reader.left > 0) {
		const uint8_t *p = take(&reader, RETURN_SIZE).p;
		struct return_count count;

		if (reader.failed)
			return -EBADMSG;
		count.queue_id = le64_load(p) & U48_MAX;
		count.count = (uint32_t)(le64_load(p) >> 48);
		count.qseq = le64_load(p + 8);
		if (count.count == 0 || count.qseq == 0 || count.qseq > QSEQ_MAX)
			return -EBADMSG;
		result = each(context, &count);
	}
	return result;
}

/* ---- two words ---- */

int
pair_record_decode(const struct record *record, uint64_t *first, uint64_t *second)
{
	if (record->size < PAIR_RECORD_SIZE)
		return -EBADMSG;
	*first = le64_load(record->p + RECORD_HEADER_SIZE);
	*second = le64_load(record->p + RECORD_HEADER_SIZE + 8);
	return 0;
}

void
pair_record_encode(uint8_t *p, uint64_t lsn, enum record_type type, uint64_t first, uint64_t second)
{
	record_header_encode(p, PAIR_RECORD_SIZE, lsn, type, 0, 0);
	le64_store(p + RECORD_HEADER_SIZE, first);
	le64_store(p + RECORD_HEADER_SIZE + 8, second);
}
