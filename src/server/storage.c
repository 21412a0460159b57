/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store says goes to the model, and the model's definitions to the store's checkpoints.
 */
#include "server/storage.h"

#include "broker/durable.h"
#include "util/log.h"

static void
on_define(void *context, const struct definition *definition, struct queue_log *log)
{
	struct storage *storage = context;

	broker_apply_definition(storage->broker, definition, log);
}

static void
on_read(void *context, struct queue_log *log, uint64_t qseq, const struct stored_message *message,
	bool redelivered)
{
	struct storage *storage = context;

	broker_read_message(storage->broker, log, qseq, message, redelivered);
}

static void
on_read_end(void *context, struct queue_log *log)
{
	struct storage *storage = context;

	broker_read_end(storage->broker, log);
}

static void
on_read_this(void *context, struct queue_log *log, uint64_t qseq,
	     const struct stored_message *message, bool redelivered)
{
	struct storage *storage = context;

	broker_read_this(storage->broker, log, qseq, message, redelivered);
}

static void
on_read_these_end(void *context, struct queue_log *log)
{
	struct storage *storage = context;

	broker_read_these_end(storage->broker, log);
}

static void
on_deadlines(void *context)
{
	struct storage *storage = context;

	broker_deadlines_changed(storage->broker);
}

static void
on_paged_out(void *context, void *owner, int error)
{
	struct storage *storage = context;

	broker_paged_out(storage->broker, owner, error);
}

static void
on_paged_in(void *context, void *owner)
{
	struct storage *storage = context;

	broker_paged_in(storage->broker, owner);
}

static void
on_snapshot(void *context, struct store *store)
{
	struct storage *storage = context;

	broker_snapshot(storage->broker, store);
}

static void
on_key(void *context, const struct key_record *key)
{
	struct storage *storage = context;

	broker_apply_key(storage->broker, key);
}

static void
on_snapshot_keys(void *context, struct store *store)
{
	struct storage *storage = context;

	broker_snapshot_keys(storage->broker, store);
}

static void
on_stable(void *context, uint64_t lsn)
{
	struct storage *storage = context;

	broker_set_stable(storage->broker, lsn);
}

static void
on_short_of_space(void *context, bool is_short)
{
	struct storage *storage = context;

	disk_watch_short(&storage->watch, is_short);
}

static void
on_free_space(void *context, int64_t octets)
{
	struct storage *storage = context;

	disk_watch_told(&storage->watch, octets);
}

static void
on_failed(void *context, int error, const char *what)
{
	struct storage *storage = context;

	log_error("%s: %s; the broker stops, nothing unconfirmed counts", what, strerror(-error));
	storage->failed = true;
}

static const struct store_ops ops = {
	.define = on_define,
	.read = on_read,
	.read_end = on_read_end,
	.read_this = on_read_this,
	.read_these_end = on_read_these_end,
	.deadlines = on_deadlines,
	.paged_out = on_paged_out,
	.paged_in = on_paged_in,
	.key = on_key,
	.snapshot = on_snapshot,
	.snapshot_keys = on_snapshot_keys,
	.stable = on_stable,
	.short_of_space = on_short_of_space,
	.free_space = on_free_space,
	.failed = on_failed,
};

int
storage_open(struct storage *storage, struct disk *disk, struct broker *broker,
	     const struct store_options *options, struct buf *error)
{
	uint64_t began = clock_monotonic_us();
	int code;

	*storage = (struct storage){.broker = broker, .disk = disk};
	disk_watch_init(&storage->watch, broker, options->file_size);
	broker->recovering = true;
	code = store_open(&storage->store, disk, options, &ops, storage, error);
	if (code != 0) {
		broker->recovering = false;
		disk_free(&storage->disk);
		return code;
	}
	broker_end_recovery(broker);
	broker->store = storage->watch.store = storage->store;
	broker_set_stable(broker, store_stable(storage->store));
	if (!store_is_new(storage->store))
		log_info("recovered queues=%llu messages=%llu ms=%llu",
			 (unsigned long long)broker->queue_count,
			 (unsigned long long)broker_message_count(broker),
			 (unsigned long long)((clock_monotonic_us() - began) / 1000));
	return 0;
}

void
storage_close(struct storage *storage, bool clean)
{
	int error;

	if (storage->store == NULL)
		return;
	disk_watch_fini(&storage->watch);
	error = store_close(&storage->store, clean && !storage->failed);
	if (error != 0)
		log_error("the store was not closed cleanly: %s", strerror(-error));
	storage->broker->store = NULL;
	disk_free(&storage->disk);
}
