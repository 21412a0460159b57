/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a vhost, a user and the node may have (amqp.md 11.4): the limits, and the counts of
 * connections and channels that they are compared with. A limit of 0 admits nothing, a negative one
 * anything. Lowering a limit ends nothing that is there. Broker thread.
 */
#pragma once

#include "broker/model.h"

#define LIMIT_NONE (-1)

/* Negative: no limit. */
void vhost_set_limits(struct vhost *vhost, int64_t max_connections, int64_t max_queues);
void user_set_limits(struct user *user, int64_t max_connections, int64_t max_channels);

/* Before a connection is opened. NULL, or 530: `access to vhost 'v' refused for user 'u': connection
 * limit (N) is reached`, then `connection refused for user 'u': user connection limit (N) is reached`. */
const struct reply *limits_check_connection(const struct vhost *vhost, const struct user *user);
void limits_connection_opened(struct vhost *vhost, struct user *user);
void limits_connection_closed(struct vhost *vhost, struct user *user);

/* Before a channel is opened. NULL, or 530 without ids: `number of channels opened for user 'u' has
 * reached the maximum allowed user limit of N`. */
const struct reply *limits_check_channel(const struct user *user);
void limits_channel_opened(struct user *user);
void limits_channel_closed(struct user *user);

/* Before a queue is made. NULL, or 406: the vhost's limit, then that of all vhosts (queue_max). */
const struct reply *limits_check_queue(const struct vhost *vhost, struct bytes name);
/* Before an exchange is made. NULL, or 406 for exchange_max. */
const struct reply *limits_check_exchange(const struct vhost *vhost, struct bytes name);
