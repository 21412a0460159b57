/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of the layer and its part of the turn.
 */
#include "broker/alarms.h"
#include "internal.h"
#include "util/owned.h"

struct session_options
session_options_default(void)
{
	struct session_options options = {
		.frame_max = 131072,
		.initial_frame_max = 8192,
		.channel_max = 2047,
		.heartbeat_s = 60,
		.handshake_timeout_ms = 10000,
		.failure_delay_ms = 3000,
		.connection_max = UINT32_MAX,
		.channel_max_per_node = UINT32_MAX,
		.mechanisms = MECHANISM_PLAIN | MECHANISM_AMQPLAIN,
		.cert_login = CERT_LOGIN_DISTINGUISHED_NAME,
		.san_type = "dns",
		.product = "Pannier",
		.version = "3.13.7",
		.pannier_version = PACKAGE_VERSION,
		.cluster_name = "pannier",
		.node_name = "pannier",
	};

	map_init(&options.loopback_users);
	return options;
}

/* A name in options->loopback_users. */
struct loopback_user {
	struct map_node node;
	struct bytes name; // owns
};

void
session_options_add_loopback_user(struct session_options *options, struct bytes name)
{
	struct loopback_user *user;

	if (map_find(&options->loopback_users, name) != NULL)
		return;
	user = xmalloc(sizeof(*user));
	user->name = bytes_dup(name);
	map_insert(&options->loopback_users, &user->node, user->name);
}

static void
free_loopback_users(struct map *users)
{
	struct loopback_user *user;

	map_for_each (users, user, struct loopback_user, node) {
		map_remove(users, &user->node);
		bytes_drop(&user->name);
		xfree(user);
	}
	map_fini(users);
}

struct session *
session_new(struct broker *broker, struct net *net, const struct session_options *options)
{
	struct session *session = xcalloc(1, sizeof(*session));

	session->options = *options;
	session->broker = broker;
	session->net = net;
	list_init(&session->connections);
	map_init(&session->replies);
	list_init(&session->confirming);
	list_init(&session->cancelled);
	list_init(&session->held);
	list_init(&session->blocked);
	list_init(&session->waiting);
	pool_init(&session->connections_pool, sizeof(struct connection));
	pool_init(&session->channels_pool, sizeof(struct channel));
	session->start_frame = handshake_start_frame(options);
	return session;
}

void
session_free(struct session **session)
{
	struct session *s = *session;

	if (s == NULL)
		return;
	assert(list_empty(&s->connections));
	map_fini(&s->replies);
	bytes_drop(&s->start_frame);
	free_loopback_users(&s->options.loopback_users);
	pool_fini(&s->connections_pool);
	pool_fini(&s->channels_pool);
	xfree(s);
	*session = NULL;
}

static void
send_confirms(struct session *session)
{
	struct channel *channel;

	list_for_each_safe (&session->confirming, channel, struct channel, confirming) {
		confirm_settle(&channel->confirm, session->broker);
		if (channel->state == CHANNEL_OPEN)
			confirm_send(channel);
		if (channel->confirm.count == 0)
			list_remove(&session->confirming, &channel->confirming);
	}
}

static void
release_holds(struct session *session)
{
	struct connection *connection;

	list_for_each_safe (&session->held, connection, struct connection, held)
		connection_release(connection);
}

static uint64_t
memory_room(const struct session *session)
{
	const struct broker *broker = session->broker;

	return alarm_memory_room(broker->options.memory_limit, mem_in_use(),
				 (broker->alarms & ALARM_MEMORY) != 0);
}

/* Room that lets one publisher go on: its next read, or what a small limit allows. */
static size_t
publisher_room(const struct session *session)
{
	return max_u64(1, min_u64(net_options(session->net)->read_budget,
				  session->broker->options.memory_limit / 20));
}

/* As many go on in a turn as there is room for their next reads. */
static void
unblock_publishers(struct session *session)
{
	struct broker *broker = session->broker;
	uint64_t budget = publisher_room(session);
	uint64_t room = memory_room(session);
	struct connection *connection;

	if (room == 0)
		return;
	if (broker->alarms & ALARM_MEMORY)
		log_info("memory is there again: %zu publishers go on", session->blocked.count);
	broker->alarms &= ~(unsigned)ALARM_MEMORY;
	if (broker->alarms != 0)
		return;
	for (; room >= budget; room -= budget) {
		connection = list_first(&session->blocked, struct connection, blocked);
		if (connection == NULL)
			return;
		connection_unblock(connection);
	}
}

/* Who waits for the store is not read, so it would not see the alarm: it is told now, like all others. A
 * consumer that does is no publisher and goes on. */
static void
block_waiting(struct session *session)
{
	struct connection *connection;

	list_for_each_safe (&session->waiting, connection, struct connection, waiting) {
		if (connection->state != CONNECTION_RUNNING)
			continue;
		if (connection->waits_to_publish && !list_linked(&connection->blocked))
			connection_block(connection);
		connection_stop_waiting(connection);
	}
}

/* As many go on in a turn as bring in about what the store gathers for one batch. */
#define STORE_PUBLISHERS 8

static void
resume_waiting(struct session *session)
{
	for (int i = 0; i < STORE_PUBLISHERS && !list_empty(&session->waiting); i++) {
		if (broker_store_full(session->broker))
			return;
		connection_stop_waiting(list_first(&session->waiting, struct connection, waiting));
	}
}

bool
session_work_left(struct session *session)
{
	if (!list_empty(&session->waiting) && !broker_store_full(session->broker))
		return true;
	return !list_empty(&session->blocked) && !(session->broker->alarms & ALARM_DISK) &&
	       memory_room(session) >= publisher_room(session);
}

void
session_effects(struct session *session)
{
	session_send_cancels(session);
	send_confirms(session);
	release_holds(session);
	if (session->broker->alarms & ALARM_DISK)
		block_waiting(session);
	if (session->broker->alarms != 0 || !list_empty(&session->blocked))
		unblock_publishers(session);
	resume_waiting(session);
}

void
session_close_all(struct session *session, const char *text)
{
	struct connection *connection;

	list_for_each_safe (&session->connections, connection, struct connection, of_session) {
		if (connection->state == CONNECTION_RUNNING)
			connection_refuse(connection, refuse_no_ids(CONNECTION_FORCED, "%s", text),
					  0);
		else if (connection->state != CONNECTION_CLOSING)
			conn_close(connection->conn);
	}
}

void
session_abort_all(struct session *session)
{
	struct connection *connection;

	list_for_each (&session->connections, connection, struct connection, of_session)
		conn_abort(connection->conn, 0);
}

bool
session_has_published(struct session *session)
{
	bool published = session->published;

	session->published = false;
	return published;
}

size_t
session_connection_count(const struct session *session)
{
	return session->connections.count;
}
