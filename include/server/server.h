/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: the only folder that knows all the others. Start order, stop order, signals, reload.
 */
#pragma once

#include "server/config.h"
#include "util/disk.h"

/* Opens the disk in this folder: disk_new(), or what a test puts in its place. */
typedef int disk_maker(struct disk **disk, const char *root);

/* Runs the broker until SIGTERM or SIGINT. Returns the exit status: 0 after a clean stop, 1 when it
 * could not start (one line on stderr says why) or its disk failed (the log says how). config is borrowed
 * until it returns. */
int server_run(struct config *config, disk_maker *make_disk);
