/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: the only folder that knows all the others. Start order, stop order, signals, reload.
 */
#pragma once

#include "server/config.h"

/* Runs the broker until SIGTERM or SIGINT. Returns the exit status: 0 after a clean stop, 1 when it
 * could not start (one line on stderr says why). config is borrowed until it returns. */
int server_run(struct config *config);
