/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retries with back-off: what becomes of a message that a consumer failed to do. Broker thread.
 */
#pragma once

#include "internal.h"

/* How long a message waits that failed so often, 1 or more: initial * multiplier ^ (failures - 1), the longest
 * interval at most, less its part that is left to chance; chance is 0 to 1 (excluded). */
uint64_t retry_interval_ms(const struct retry_settings *retry, uint32_t failures, double chance);
/* A message of the waiting room of a queue as it goes on to the queue; refs is 1. */
struct message *retry_release(const struct message *message);
