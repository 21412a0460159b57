/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk for a running broker over a real folder, on which kill -9 is as good as pulling the plug: only
 * what was synced is in the folder. What was written since the last disk_sync() is in the memory of the
 * process, where its reads see it; names made, changed and removed reach the folder at disk_sync_dir().
 * The end of the process loses the rest, an orderly end too, and so does disk_free().
 *
 * A file without a synced name lies in the root as .lossy-<pid>-<number>, which no list shows and the
 * next start removes. Nothing is synced for real: this guards against a missing sync, not against a
 * power cut. Locks are real and their files are there at once. Any thread, as for every disk.
 */
#pragma once

#include "util/disk.h"

/* As disk_new(). */
int disk_lossy_new(struct disk **disk, const char *root) MUST_CHECK;
