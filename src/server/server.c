/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start, run, stop. Whatever cannot be had at the start (a port, a certificate, a log file) is one clear
 * line on stderr and exit status 1. SIGTERM and SIGINT stop cleanly: no new connections, a
 * connection.close for each open one, then the end. SIGHUP reads again what is reloadable.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "broker/limits.h"
#include "broker/user.h"
#include "broker/vhost.h"
#include "net/loop.h"
#include "net/tls.h"
#include "server/server.h"
#include "server/storage.h"
#include "server/turn.h"
#include "util/log.h"
#include "util/regex.h"

/* How long a stop waits for clients to answer connection.close. */
#define STOP_TIMEOUT_MS 2000
/* How long after a change memory kept warm is given back. */
#define TRIM_DELAY_MS 1000

struct server {
	struct config *config; // borrows for good
	struct loop *loop;
	struct deadlines deadlines;
	struct net *net;
	struct broker *broker;
	struct session *session;
	struct storage storage;
	struct tls *tls;	     // NULL: no TLS listener
	struct listener **listeners; // own
	size_t listener_count;
	struct deadline stop_deadline;
	struct deadline trim_deadline;
	size_t trimmed_at; // mem_held() after the last trim
	bool stopping;	   // a signal asked for it
	bool stopped;	   // it is done, or takes too long
};

static int
fail(const char *text)
{
	fprintf(stderr, "pannierd: %s\n", text);
	return -1;
}

/* ---- the model of a new data directory ---- */

/* A virtual host with the first set of limits that is for it. */
static struct vhost *
add_vhost(struct server *s, struct bytes name)
{
	struct vhost *vhost = vhost_create(s->broker, name);
	const struct config_limits *sets = &s->config->vhost_limits;
	bool found = false;

	for (size_t i = 0; i < sets->count && !found; i++) {
		const struct config_vhost_limits *set = &sets->items[i];
		char error[256];
		struct regex *regex = regex_new(bytes_str(set->pattern), error, sizeof(error));

		assert(regex != NULL);
		found = regex_matches(regex, name);
		if (found)
			vhost_set_limits(vhost, set->max_connections, set->max_queues);
		regex_free(&regex);
	}
	return vhost;
}

static struct user *
add_user(struct server *s, const char *name, const char *password, unsigned tags)
{
	struct user *user = user_find(s->broker, bytes_str(name));

	if (user == NULL)
		user = user_create(s->broker, bytes_str(name), tags);
	if (password != NULL)
		user_set_password(user, bytes_str(password));
	return user;
}

static int
permit(struct server *s, struct user *user, struct bytes vhost,
       char *const patterns[PERMISSION_COUNT])
{
	char error[256];
	struct bytes texts[PERMISSION_COUNT];

	for (int i = 0; i < PERMISSION_COUNT; i++)
		texts[i] = bytes_str(patterns[i]);
	if (user_set_permissions(s->broker, user, vhost, texts, error, sizeof(error)) < 0)
		return fail(error);
	return 0;
}

/* One of default_users.*: all that it may do is in the vhost. */
static int
add_further_user(struct server *s, struct bytes vhost, const struct config_user *further)
{
	struct user *user = add_user(s, further->name, further->password, further->tags);
	char error[256];

	user_set_limits(user, further->max_connections, further->max_channels);
	for (size_t i = 0; i < further->topic_count; i++) {
		const struct config_topic *topic = &further->topics[i];

		if (user_set_topic_permissions(s->broker, user, vhost, bytes_str(topic->exchange),
					       bytes_str(topic->write), bytes_str(topic->read),
					       error, sizeof(error)) < 0)
			return fail(error);
	}
	if (!further->stranger)
		return permit(s, user, vhost, further->patterns);
	user_clear_permissions(s->broker, user, vhost);
	return 0;
}

static int
create_definitions(struct server *s)
{
	const struct config *config = s->config;
	struct vhost *vhost = add_vhost(s, bytes_str(config->default_vhost));
	struct user *user =
		add_user(s, config->default_user, config->default_pass, config->default_tags);
	struct bytes root = BYTES("/");

	if (permit(s, user, vhost->name, config->default_permissions) < 0)
		return -1;
	if (config->users.count > 0 && vhost_find(s->broker, root) == NULL)
		add_vhost(s, root);
	for (size_t i = 0; i < config->users.count; i++)
		if (add_further_user(s, root, &config->users.items[i]) < 0)
			return -1;
	return 0;
}

/* ---- layers ---- */

static struct session_options
session_options_of(const struct config *config)
{
	struct session_options options = session_options_default();

	options.frame_max = config->frame_max;
	options.initial_frame_max = config->initial_frame_max;
	options.channel_max = config->channel_max;
	options.heartbeat_s = config->heartbeat_s;
	options.handshake_timeout_ms = config->handshake_timeout_ms;
	options.failure_delay_ms = config->failure_delay_ms;
	options.consumer_timeout_ms = config->consumer_timeout_ms;
	options.consumer_timeout_closes = config->consumer_timeout_closes;
	options.connection_max = config->connection_max;
	options.channel_max_per_node = config->channel_max_per_node;
	options.mechanisms = config->mechanisms;
	options.cert_login = (enum cert_login)config->cert_login;
	options.san_type = config_san_types[config->san_type];
	options.san_index = config->san_index;
	options.product = config->product;
	options.version = config->version;
	options.cluster_name = config->cluster_name;
	options.node_name = config->node_name;
	for (size_t i = 0; i < config->loopback_users.count; i++)
		session_options_add_loopback_user(&options,
						  bytes_str(config->loopback_users.items[i]));
	return options;
}

static int
open_log(const struct config *config)
{
	char text[512];
	int error;

	log_set_level(config->log_level);
	error = log_set_file(config->log_path);
	if (error == 0)
		return 0;
	snprintf(text, sizeof(text), "cannot open the log file %s: %s", config->log_path,
		 strerror(-error));
	return fail(text);
}

static int
make_data_dir(const struct config *config)
{
	char text[512];

	if (mkdir(config->data_dir, 0750) == 0 || errno == EEXIST)
		return 0;
	snprintf(text, sizeof(text), "cannot make the data directory %s: %s", config->data_dir,
		 strerror(errno));
	return fail(text);
}

static int
open_storage(struct server *s, disk_maker *make_disk)
{
	struct store_options options = s->config->store;
	struct disk *disk;
	struct buf error;
	char text[512];
	int code = make_disk(&disk, s->config->data_dir);

	if (code < 0) {
		snprintf(text, sizeof(text), "cannot open the data directory %s: %s",
			 s->config->data_dir, strerror(-code));
		return fail(text);
	}
	options.node_name = s->config->node_name;
	buf_init(&error, 0);
	code = storage_open(&s->storage, disk, s->broker, &options, &error);
	if (code < 0)
		fail(buf_cstr(&error));
	buf_fini(&error);
	if (code < 0)
		return -1;
	if (store_is_new(s->storage.store) && create_definitions(s) < 0)
		return -1;
	if (loop_on_mailbox(s->loop, store_mailbox(s->storage.store)) < 0)
		return fail("cannot watch the store");
	disk_watch_set_limit(&s->storage.watch, s->config->disk_free_limit);
	store_start(s->storage.store);
	return 0;
}

static void
on_accepted(struct conn *conn, void *context)
{
	struct server *s = context;

	session_accept(s->session, conn);
}

static int
open_listeners(struct server *s, const struct config_listeners *listeners, struct tls *tls)
{
	struct buf error;
	int result = 0;

	buf_init(&error, 0);
	for (size_t i = 0; i < listeners->count && result == 0; i++) {
		struct listener_options options = listeners->items[i];
		struct listener **slot = &s->listeners[s->listener_count];

		options.tls = tls;
		result = listener_open(slot, s->net, &options, on_accepted, s, &error);
		if (result < 0) {
			result = fail(buf_cstr(&error));
			break;
		}
		s->listener_count++;
	}
	buf_fini(&error);
	return result;
}

/* Makes the TLS context, or reads its files anew. 0, or negative with one line in error. */
static int
load_tls(struct server *s, struct buf *error)
{
	struct tls_options options = tls_options_of(&s->config->tls);

	if (s->config->tls_listeners.count == 0)
		return 0;
	return s->tls == NULL ? tls_new(&s->tls, TLS_SERVER, &options, error)
			      : tls_reload(s->tls, &options, error);
}

/* The certificates first: nobody is let in when they are not there. */
static int
open_network(struct server *s)
{
	const struct config *config = s->config;
	struct buf error;
	int result;

	buf_init(&error, 0);
	result = load_tls(s, &error);
	if (result < 0)
		fail(buf_cstr(&error));
	buf_fini(&error);
	if (result < 0)
		return -1;
	s->listeners = xcalloc(config->tcp_listeners.count + config->tls_listeners.count + 1,
			       sizeof(struct listener *));
	if (open_listeners(s, &config->tcp_listeners, NULL) < 0)
		return -1;
	return open_listeners(s, &config->tls_listeners, s->tls);
}

/* ---- signals ---- */

static void
on_stop_deadline(struct deadline *deadline, uint64_t now_ms)
{
	struct server *s = container_of(deadline, struct server, stop_deadline);

	(void)now_ms;
	log_warn("stop: %zu clients did not answer in time", session_connection_count(s->session));
	s->stopped = true;
}

static void
close_listeners(struct server *s)
{
	while (s->listener_count > 0)
		listener_close(&s->listeners[--s->listener_count]);
}

static void
on_stop_signal(void *context)
{
	struct server *s = context;

	if (s->stopping) {
		s->stopped = true;
		return;
	}
	s->stopping = true;
	log_info("stopping: %zu connections are told", session_connection_count(s->session));
	close_listeners(s);
	session_close_all(s->session, "broker forced connection closure with reason 'shutdown'");
	deadline_set(&s->deadlines, &s->stop_deadline, clock_read().monotonic_ms + STOP_TIMEOUT_MS);
}

static void
on_reload_signal(void *context)
{
	struct server *s = context;
	char text[CONFIG_ERROR_MAX];
	struct buf error;

	if (log_reopen() < 0)
		log_error("reload: the log file cannot be opened anew; the old one stays in use");
	if (config_reload(s->config, text) < 0) {
		log_error("reload: %s; nothing was changed", text);
		return;
	}
	log_set_level(s->config->log_level);
	s->broker->options = s->config->broker;
	disk_watch_set_limit(&s->storage.watch, s->config->disk_free_limit);
	buf_init(&error, 0);
	if (load_tls(s, &error) < 0)
		log_error("reload: %s; the old certificate stays in use, the rest is reloaded",
			  buf_cstr(&error));
	else
		log_info("reloaded");
	buf_fini(&error);
}

static int
watch_signals(struct server *s)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	if (sigaction(SIGPIPE, &ignore, NULL) < 0 ||
	    loop_on_signal(s->loop, SIGTERM, on_stop_signal, s) < 0 ||
	    loop_on_signal(s->loop, SIGINT, on_stop_signal, s) < 0 ||
	    loop_on_signal(s->loop, SIGHUP, on_reload_signal, s) < 0)
		return fail("cannot watch signals");
	return 0;
}

/* ---- life ---- */

static void
on_trim_deadline(struct deadline *deadline, uint64_t now_ms)
{
	struct server *s = container_of(deadline, struct server, trim_deadline);

	if (mem_held() == s->trimmed_at) {
		mem_trim(); // it has been quiet since the last time
		return;
	}
	slab_trim();
	s->trimmed_at = mem_held();
	deadline_set(&s->deadlines, deadline, now_ms + TRIM_DELAY_MS);
}

static int
server_start(struct server *s, disk_maker *make_disk)
{
	struct session_options options = session_options_of(s->config);

	if (open_log(s->config) < 0 || make_data_dir(s->config) < 0)
		return -1;
	s->loop = loop_new();
	if (s->loop == NULL)
		return fail("cannot make the event loop");
	deadlines_init(&s->deadlines);
	s->stop_deadline.run = on_stop_deadline;
	s->trim_deadline.run = on_trim_deadline;
	s->net = net_new(s->loop, &s->deadlines, &s->config->net);
	net_set_now(s->net, clock_read());
	s->broker = broker_new(&s->deadlines, &s->config->broker);
	s->session = session_new(s->broker, s->net, &options);
	if (open_storage(s, make_disk) < 0 || watch_signals(s) < 0)
		return -1;
	return open_network(s);
}

/* Only now: a start that fails says one line, why. */
static void
log_start(const struct server *s)
{
	const struct config *config = s->config;

	log_info("pannierd %s started node=%s data=%s", PACKAGE_VERSION, config->node_name,
		 config->data_dir);
	config_log_warnings(config);
	for (size_t i = 0; i < s->listener_count; i++) {
		const struct conn_address *address = listener_address(s->listeners[i]);

		log_info("listening address=%s port=%u protocol=%s", address->host, address->port,
			 i < config->tcp_listeners.count ? "amqp" : "amqps");
	}
}

static void
server_loop(struct server *s)
{
	struct turn turn = {
		.deadlines = &s->deadlines,
		.net = s->net,
		.broker = s->broker,
		.session = s->session,
		.store = s->storage.store,
		.check = s->config->debug_check,
	};
	struct now now = clock_read();

	while (!s->stopped && !s->storage.failed && !(s->stopping && net_conn_count(s->net) == 0)) {
		loop_wait(s->loop, turn_wait_ms(&turn, now));
		now = clock_read();
		turn_run(&turn, now);
		disk_watch_turn(&s->storage.watch, session_has_published(s->session));
		if (mem_held() != s->trimmed_at && !deadline_is_set(&s->trim_deadline))
			deadline_set(&s->deadlines, &s->trim_deadline,
				     now.monotonic_ms + TRIM_DELAY_MS);
	}
}

static void
server_end(struct server *s, bool clean)
{
	close_listeners(s);
	xfree(s->listeners);
	if (s->session != NULL) {
		session_abort_all(s->session);
		net_reap(s->net);
		deadline_clear(&s->deadlines, &s->stop_deadline);
		deadline_clear(&s->deadlines, &s->trim_deadline);
	}
	session_free(&s->session);
	storage_close(&s->storage, clean);
	broker_free(&s->broker);
	net_free(&s->net);
	tls_free(&s->tls);
	if (s->loop != NULL)
		deadlines_fini(&s->deadlines);
	loop_free(&s->loop);
}

int
server_run(struct config *config, disk_maker *make_disk)
{
	struct server s = {.config = config};
	int status = 1;

	mem_start();
	thread_role = THREAD_BROKER;
	if (server_start(&s, make_disk) == 0) {
		log_start(&s);
		server_loop(&s);
		status = s.storage.failed ? 1 : 0;
	}
	server_end(&s, status == 0);
	if (status == 0)
		log_info("stopped");
	return status;
}
