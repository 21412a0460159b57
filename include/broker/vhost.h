/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vhosts: a namespace of exchanges and queues. Broker thread.
 */
#pragma once

#include "broker/model.h"

struct vhost *vhost_find(const struct broker *broker, struct bytes name);
/* Makes it with the predeclared exchanges (amqp.md 5.1); the name must be free. */
struct vhost *vhost_create(struct broker *broker, struct bytes name);
/* Deletes its queues and exchanges; no connection may be open to it. */
void vhost_delete(struct vhost *vhost);
