/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x-arguments of queues and consumers: one table (args.def) says name, types, range and who takes it
 * (amqp.md 6.4). Those of features that are still to come are stored, compared, validated and
 * reported, with one warning for each queue. Broker thread.
 */
#pragma once

#include "broker/model.h"

/* NULL, or 406 with the texts of amqp.md 4.4 and 6.4; durable, exclusive and auto_delete as declared,
 * for the rules of queue types. */
const struct reply *args_check_queue(const struct vhost *vhost, struct bytes queue,
				     struct bytes arguments, bool durable, bool exclusive,
				     bool auto_delete);
/* Whether a table that passed args_check_queue() asks for a quorum queue. */
bool args_is_quorum(struct bytes arguments);
/* NULL, or 406 for the first known argument that differs (amqp.md 6.3). */
const struct reply *args_check_equivalent(const struct queue *queue, struct bytes received);
/* NULL, or 406; *priority gets x-priority, 0 without. */
const struct reply *args_check_consumer(const struct queue *queue, struct bytes arguments,
					int32_t *priority);
/* Whether a queue's argument of this name belongs to a feature to come. */
bool args_is_without_effect(const char *name);
/* Logs one line when the table holds arguments that have no effect yet. */
void args_warn_without_effect(const struct vhost *vhost, struct bytes queue,
			      struct bytes arguments);
/* The shared text of 406 `inequivalent arg 'K' for queue 'q' in vhost 'v': ...`: kind "queue" or
 * "exchange"; received and current may be NULL for none. */
struct field;
const struct reply *args_inequivalent(const char *kind, const struct vhost *vhost,
				      struct bytes name, struct bytes argument,
				      const struct field *received, const struct field *current);
/* An integer or a float as what it is; false for anything else. */
bool args_factor(const struct field *field, double *value);
/* Whether words, a list with blanks between, has the word. */
bool args_has_word(const char *words, struct bytes word);
