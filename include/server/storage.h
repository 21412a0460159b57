/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store under the broker: opened on the data directory, its recovery fed to the model, its news passed
 * on. Broker thread.
 */
#pragma once

#include "broker/broker.h"
#include "server/disk_watch.h"
#include "store/store.h"
#include "util/disk.h"

struct storage {
	struct broker *broker; // borrows
	struct disk *disk;     // owns
	struct store *store;   // owns
	struct disk_watch watch;
	bool failed; // the log could not be written: the process must end
};

/* Opens the store on the disk, which it takes over, and reads everything back into the broker. 0; or
 * negative with one line in error, and then there is nothing to close. */
int storage_open(struct storage *storage, struct disk *disk, struct broker *broker,
		 const struct store_options *options, struct buf *error) MUST_CHECK;
/* Ends it; clean as of store_close(). Before broker_free(). */
void storage_close(struct storage *storage, bool clean);
