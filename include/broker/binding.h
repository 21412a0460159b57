/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bindings: identity is source, destination, key and arguments (amqp.md 5.5). Broker thread.
 */
#pragma once

#include "broker/model.h"

struct binding_spec {
	struct exchange *source;
	struct queue *queue;	   // the destination, or NULL: then it is
	struct exchange *exchange; // this exchange
	struct bytes key;
	struct bytes arguments; // validated field table
};

/* The source's type has its say (headers: x-match); NULL or 406. */
const struct reply *binding_check(const struct binding_spec *spec);
/* Adds it unless it is there; binding_check must have passed. */
void binding_add(const struct binding_spec *spec);
/* Whether it is there. */
bool binding_exists(const struct binding_spec *spec);
/* Removes it when it is there, and the source when it is auto-delete and this was its last one (the
 * source may be freed). */
void binding_remove(const struct binding_spec *spec);
/* For the deletion of a queue: all its bindings, with auto-deletion of their sources. */
void binding_remove_all_of_queue(struct queue *queue);
