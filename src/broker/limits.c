/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of vhosts, users and the node. Queues and exchanges are counted where they are made and
 * freed; connections and channels are the session's, which says here when one comes and goes.
 */
#include "broker/limits.h"

#include <inttypes.h>

#include "broker/durable.h"
#include "internal.h"

void
vhost_set_limits(struct vhost *vhost, int64_t max_connections, int64_t max_queues)
{
	assert_not_dispatching(vhost->broker);
	vhost->max_connections = max_connections;
	vhost->max_queues = max_queues;
	durable_vhost(vhost, DURABLE_PUT);
}

void
user_set_limits(struct user *user, int64_t max_connections, int64_t max_channels)
{
	assert_thread(THREAD_BROKER);
	user->max_connections = max_connections;
	user->max_channels = max_channels;
	durable_user(user, DURABLE_PUT);
}

static bool
is_reached(int64_t limit, uint64_t count)
{
	return limit >= 0 && count >= (uint64_t)limit;
}

/* ---- connections and channels ---- */

const struct reply *
limits_check_connection(const struct vhost *vhost, const struct user *user)
{
	if (is_reached(vhost->max_connections, vhost->connection_count))
		return refuse(NOT_ALLOWED,
			      "access to vhost '%.*s' refused for user '%.*s': connection limit "
			      "(%" PRId64 ") is reached",
			      BYTES_ARGS(vhost->name), BYTES_ARGS(user->name),
			      vhost->max_connections);
	if (is_reached(user->max_connections, user->connection_count))
		return refuse(NOT_ALLOWED,
			      "connection refused for user '%.*s': user connection limit "
			      "(%" PRId64 ") is reached",
			      BYTES_ARGS(user->name), user->max_connections);
	return NULL;
}

void
limits_connection_opened(struct vhost *vhost, struct user *user)
{
	vhost->connection_count++;
	user->connection_count++;
}

void
limits_connection_closed(struct vhost *vhost, struct user *user)
{
	assert(vhost->connection_count > 0);
	assert(user->connection_count > 0);
	vhost->connection_count--;
	user->connection_count--;
}

const struct reply *
limits_check_channel(const struct user *user)
{
	if (!is_reached(user->max_channels, user->channel_count))
		return NULL;
	return refuse_no_ids(NOT_ALLOWED,
			     "number of channels opened for user '%.*s' has reached the maximum "
			     "allowed user limit of %" PRId64,
			     BYTES_ARGS(user->name), user->max_channels);
}

void
limits_channel_opened(struct user *user)
{
	user->channel_count++;
}

void
limits_channel_closed(struct user *user)
{
	assert(user->channel_count > 0);
	user->channel_count--;
}

/* ---- queues and exchanges ---- */

const struct reply *
limits_check_queue(const struct vhost *vhost, struct bytes name)
{
	const struct broker *broker = vhost->broker;

	if (is_reached(vhost->max_queues, vhost->queues.count))
		return refuse(PRECONDITION_FAILED,
			      "cannot declare queue '%.*s': queue limit in vhost '%.*s' "
			      "(%" PRId64 ") is reached",
			      BYTES_ARGS(name), BYTES_ARGS(vhost->name), vhost->max_queues);
	if (broker->options.queue_max != UINT32_MAX &&
	    broker->queue_count >= broker->options.queue_max)
		return refuse(PRECONDITION_FAILED,
			      "cannot declare queue '%.*s': queue limit in cluster (%u) is reached",
			      BYTES_ARGS(name), broker->options.queue_max);
	return NULL;
}

const struct reply *
limits_check_exchange(const struct vhost *vhost, struct bytes name)
{
	const struct broker *broker = vhost->broker;

	if (broker->options.exchange_max == UINT32_MAX ||
	    broker->exchange_count < broker->options.exchange_max)
		return NULL;
	return refuse(PRECONDITION_FAILED,
		      "cannot declare exchange '%.*s' in vhost '%.*s': exchange limit of %u is "
		      "reached",
		      BYTES_ARGS(name), BYTES_ARGS(vhost->name), broker->options.exchange_max);
}
