/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store thread's work: a batch is sealed, which numbers it and chains its digest to the one before,
 * written behind the others and synced. One batch at a time is on its way, so a batch that is written
 * says that the one before is safe; recovery stands on that (format.h). After an error nothing more is
 * written: what a failed sync left behind cannot be known, and a second try would lie.
 */
#include "internal.h"

static int
write_header(const struct batch *batch)
{
	uint8_t header[SEGMENT_HEADER_SIZE];

	segment_header_encode(header, &batch->header);
	return disk_write(batch->file, header, sizeof(header), 0);
}

void
writer_write(struct mail *mail)
{
	struct batch *batch = container_of(mail, struct batch, mail);
	struct writer *writer = batch->writer;
	struct batch_record record = {
		.first_lsn = batch->first_lsn,
		.group = writer->group + 1,
		.term = batch->term,
		.number = writer->number + 1,
		.previous = writer->digest,
		.stable = batch->stable,
	};
	size_t size = batch->size;
	size_t padded = batch_padded_size(batch->offset, size);

	batch_seal(batch->p, size - BATCH_SIZE, &record, batch->salt);
	assert(record.count == batch->count);
	memset(batch_reserve(batch, padded - size), 0, padded - size);
	batch->size = padded;
	if (batch->begins)
		batch->error = write_header(batch);
	if (batch->error == 0)
		batch->error = disk_write(batch->file, batch->p, padded, batch->offset);
	if (batch->error == 0)
		batch->error = disk_sync(batch->file);
	if (batch->error != 0)
		return;
	writer->number = record.number;
	writer->group = record.group;
	writer->digest = record.digest;
}
