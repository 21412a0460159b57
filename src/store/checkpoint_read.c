/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint as octets: a file counts when its header and all its sections hold; what is in them is decoded
 * here alone, for a start and for tools.
 */
#include "checkpoint.h"

#include <errno.h>

#include "store/qseq_counts.h"
#include "util/crc32c.h"

static int
read_file(struct disk *disk, uint64_t lsn, struct checkpoint_image *image)
{
	char path[PATH_MAX_SIZE];
	struct disk_file *file;
	int64_t size;
	int error;

	checkpoint_path(path, lsn, "");
	error = disk_open(disk, path, DISK_READ, &file);
	if (error != 0)
		return error;
	size = disk_size(file);
	if (size >= 0) {
		image->n = (size_t)size;
		image->p = xmalloc(image->n + 1);
		size = disk_read(file, image->p, image->n, 0);
	}
	disk_close(&file);
	if (size < 0)
		return (int)size;
	return (size_t)size == image->n ? 0 : -EBADMSG;
}

static int
check_header(const struct checkpoint_image *image, const uint8_t uuid[STORE_UUID_SIZE])
{
	const uint8_t *p = image->p;

	if (image->n < CHECKPOINT_HEADER_SIZE || memcmp(p, CHECKPOINT_MAGIC, 8) != 0 ||
	    le32_load(p + CHECKPOINT_AT_CRC) != crc32c(0, p, CHECKPOINT_AT_CRC))
		return -EBADMSG;
	if (le16_load(p + CHECKPOINT_AT_MAJOR) > STORE_FORMAT_MAJOR)
		return -ENOTSUP;
	if (le32_load(p + CHECKPOINT_AT_LENGTH) != CHECKPOINT_HEADER_SIZE ||
	    le64_load(p + CHECKPOINT_AT_LSN) != image->lsn ||
	    memcmp(p + CHECKPOINT_AT_UUID, uuid, STORE_UUID_SIZE) != 0)
		return -EBADMSG;
	return 0;
}

/* The check of a section does not cover its tag: a garbled one shows as another that is missing. */
static int
all_sections(const struct checkpoint_image *image, bool others)
{
	for (uint32_t tag = SECTION_END + 1; tag < countof(image->sections); tag++)
		if (image->sections[tag].p == NULL)
			return -EBADMSG;
	return others ? -ENOTSUP : 0;
}

/* Where the section with this tag is noted; NULL: it is not known. */
static struct bytes *
section_of(struct checkpoint_image *image, uint32_t tag)
{
	if (tag == SECTION_RETURNS)
		return &image->returns;
	if (tag == SECTION_KEYS)
		return &image->keys;
	return tag < countof(image->sections) ? &image->sections[tag] : NULL;
}

static int
cut_sections(struct checkpoint_image *image)
{
	size_t at = CHECKPOINT_HEADER_SIZE;
	bool others = false;

	while (image->n - at >= SECTION_HEADER_SIZE) {
		const uint8_t *p = image->p + at;
		uint32_t tag = le32_load(p);
		uint64_t n = le64_load(p + 8);
		struct bytes *section = section_of(image, tag);

		at += SECTION_HEADER_SIZE;
		if (n > image->n - at || record_align(n) > image->n - at ||
		    le32_load(p + 4) != crc32c(0, p + SECTION_HEADER_SIZE, n))
			return -EBADMSG;
		if (tag == SECTION_END)
			return all_sections(image, others);
		if (section != NULL && section->p != NULL)
			return -EBADMSG;
		if (section != NULL)
			*section = bytes_of(p + SECTION_HEADER_SIZE, n);
		else if (!(tag & SECTION_SKIPPABLE))
			others = true;
		at += record_align(n);
	}
	return -EBADMSG;
}

int
checkpoint_read(struct disk *disk, const uint8_t uuid[STORE_UUID_SIZE], uint64_t lsn,
		struct checkpoint_image *image)
{
	int error;

	*image = (struct checkpoint_image){.lsn = lsn};
	error = read_file(disk, lsn, image);
	if (error == 0)
		error = check_header(image, uuid);
	return error == 0 ? cut_sections(image) : error;
}

/* ---- what is in its sections ---- */

static int
each_definition(struct bytes in, const struct inspect_checkpoint_ops *ops, void *context)
{
	uint64_t size;

	while (in.n != 0) {
		struct definition definition;
		int error;

		if (!le64_take(&in, &size) || size > in.n)
			return -EBADMSG;
		error = definition_decode(&definition, bytes_of(in.p, size));
		if (error != 0)
			return error;
		if (ops->define != NULL)
			ops->define(context, &definition);
		in = bytes_of(in.p + size, in.n - size);
	}
	return 0;
}

static int
each_queue(struct bytes in, const struct inspect_checkpoint_ops *ops, void *context)
{
	while (in.n != 0) {
		struct inspect_queue q;
		int error;

		if (!le64_take(&in, &q.id) || !le64_take(&in, &q.next_qseq) ||
		    !le64_take(&in, &q.flags) || !le64_take(&in, &q.count) ||
		    !le64_take(&in, &q.octets) || !le64_take(&in, &q.redelivered_below))
			return -EBADMSG;
		error = qseq_set_decode(&q.settled, &in);
		if (error != 0)
			return error;
		if (ops->queue != NULL)
			ops->queue(context, &q);
		else
			qseq_set_fini(&q.settled);
	}
	return 0;
}

static int
each_return(struct bytes in, const struct inspect_checkpoint_ops *ops, void *context)
{
	while (in.n != 0) {
		struct return_count count;
		uint64_t n;

		if (!le64_take(&in, &count.queue_id) || !le64_take(&in, &n))
			return -EBADMSG;
		for (; n > 0; n--) {
			uint64_t slot;

			if (!le64_take(&in, &slot))
				return -EBADMSG;
			count.qseq = qseq_count_qseq(slot);
			count.count = qseq_count_count(slot);
			if (count.qseq == 0 || count.count == 0)
				return -EBADMSG;
			if (ops->returned != NULL)
				ops->returned(context, &count);
		}
	}
	return 0;
}

struct keys_walk {
	const struct inspect_checkpoint_ops *ops;
	void *context; // of ops
};

static int
tell_key(void *context, const struct key_record *key)
{
	const struct keys_walk *walk = context;

	if (walk->ops->key != NULL)
		walk->ops->key(walk->context, key);
	return 0;
}

static int
each_segment(struct bytes in, const struct inspect_checkpoint_ops *ops, void *context)
{
	while (in.n != 0) {
		struct inspect_segment_state s;

		if (!le64_take(&in, &s.id) || !le64_take(&in, &s.end) ||
		    !le64_take(&in, &s.last_lsn) || !le64_take(&in, &s.live) ||
		    !le64_take(&in, &s.live_refs))
			return -EBADMSG;
		if (ops->segment != NULL)
			ops->segment(context, &s);
	}
	return 0;
}

static int
read_chain(const struct checkpoint_image *image, struct inspect_chain *chain)
{
	struct bytes counters = image->sections[SECTION_COUNTERS];
	struct bytes in = image->sections[SECTION_CHAIN];

	if (!le64_take(&counters, &chain->next_queue_id) ||
	    !le64_take(&counters, &chain->next_segment_id) || in.n < 16)
		return -EBADMSG;
	chain->number = le64_load(in.p);
	chain->digest = le32_load(in.p + 8);
	chain->group = le32_load(in.p + 12);
	return 0;
}

int
checkpoint_decode(const struct checkpoint_image *image, const struct inspect_checkpoint_ops *ops,
		  void *context)
{
	struct keys_walk keys = {ops, context};
	struct inspect_chain chain;
	int error = each_definition(image->sections[SECTION_DEFINITIONS], ops, context);

	if (error == 0)
		error = each_queue(image->sections[SECTION_QUEUES], ops, context);
	if (error == 0)
		error = each_return(image->returns, ops, context);
	if (error == 0)
		error = keys_section_walk(image->keys, tell_key, &keys);
	if (error == 0)
		error = each_segment(image->sections[SECTION_SEGMENTS], ops, context);
	if (error == 0)
		error = read_chain(image, &chain);
	if (error == 0 && ops->chain != NULL)
		ops->chain(context, &chain);
	return error;
}
