/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of the model and the part of the turn that belongs to it. Broker thread.
 */
#pragma once

#include "broker/model.h"

/* The defaults named in model.h. */
struct broker_options broker_options_default(void);
/* A broker without vhosts and users. deadlines is borrowed for good. Caller owns. */
struct broker *broker_new(struct deadlines *deadlines, const struct broker_options *options);
/* All connections must be gone. */
void broker_free(struct broker **broker);
void broker_set_now(struct broker *broker, struct now now);
/* Hands ready entries of dirty queues to consumers, and lets publishers go on where that made room. */
void broker_dispatch(struct broker *broker);
/* Frees what died in this turn. */
void broker_reap(struct broker *broker);
/* Memory is short: publishers must not be read. */
static inline bool
broker_memory_short(const struct broker *broker)
{
	return broker->options.memory_limit != 0 && mem_in_use() >= broker->options.memory_limit;
}
/* queue_check() of every queue and more; for tests and debug.check. */
void broker_check(const struct broker *broker);
