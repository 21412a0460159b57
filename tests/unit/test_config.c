/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: defaults, every type of value, lists and what takes them away, ranks, unknown keys
 * and keys without effect, what must not be said together, reloading.
 */
#include "server/config.h"

#include "unit/config_fixture.h"

#include <errno.h>

#include "broker/broker.h"
#include "server/options.h"

static struct config config;

/* Flags, ended by NULL, of the form key=value. */
static int
load(const char *text, const char *const flags[])
{
	const char *path = text != NULL ? write_file("main.conf", text) : NULL;
	struct settings set;
	int status;

	settings_init(&set);
	for (; flags != NULL && *flags != NULL; flags++) {
		const char *equals = strchr(*flags, '=');

		settings_set(&set, SETTING_FLAG, "--set",
			     bytes_of(*flags, (size_t)(equals - *flags)), bytes_str(equals + 1));
	}
	error[0] = '\0';
	status = config_load(&config, path, &set, error);
	settings_fini(&set);
	return status;
}

static void
load_well(const char *text)
{
	ck_assert_msg(load(text, NULL) == 0, "%s", error);
}

/* The error without the path in front. */
static void
check_error(const char *text, const char *wanted)
{
	ck_assert_msg(load(text, NULL) == -EINVAL, "%s was accepted", text);
	ck_assert_msg(strstr(error, wanted) != NULL, "\"%s\" is not in \"%s\"", wanted, error);
}

START_TEST(test_config_defaults_are_those_of_the_layers)
{
	struct session_options session = session_options_default();
	struct broker_options broker = broker_options_default();
	struct net_options net = net_options_default();
	struct store_options store = store_options_default();
	struct tls_options tls = tls_options_default();
	struct tls_options ours;

	load_well(NULL);
	ours = tls_options_of(&config.tls);
	ck_assert_int_eq(ours.depth, tls.depth);
	ck_assert(ours.verify_peer == tls.verify_peer && ours.tls_1_2 == tls.tls_1_2 &&
		  ours.tls_1_3 == tls.tls_1_3 && ours.ciphers == tls.ciphers &&
		  ours.honor_cipher_order == tls.honor_cipher_order);
	ck_assert_uint_eq(config.net.read_budget, net.read_budget);
	ck_assert_uint_eq(config.net.output_high, net.output_high);
	ck_assert_uint_eq(config.net.output_low, net.output_low);
	ck_assert_uint_eq(config.net.reference_minimum, net.reference_minimum);
	ck_assert(config.net.tcp_nodelay == net.tcp_nodelay);
	ck_assert(config.net.tcp_keepalive == net.tcp_keepalive);
	ck_assert_uint_eq(config.broker.yield_high, broker.yield_high);
	ck_assert_uint_eq(config.broker.yield_low, broker.yield_low);
	ck_assert_uint_eq(config.broker.yield_ms, broker.yield_ms);
	ck_assert_uint_eq(config.broker.message_size_max, broker.message_size_max);
	ck_assert(config.broker.client_deaths_are_data == broker.client_deaths_are_data);
	ck_assert_uint_eq(config.broker.queue_max, broker.queue_max);
	ck_assert_uint_eq(config.broker.exchange_max, broker.exchange_max);
	ck_assert_uint_eq(config.broker.consumer_max_per_channel, broker.consumer_max_per_channel);
	ck_assert_uint_eq(config.store.buffer_size, store.buffer_size);
	ck_assert_uint_eq(config.store.flush_interval_ms, store.flush_interval_ms);
	ck_assert(config.store.flush_when_idle == store.flush_when_idle);
	ck_assert_uint_eq(config.store.file_size, store.file_size);
	ck_assert_uint_eq(config.frame_max, session.frame_max);
	ck_assert_uint_eq(config.initial_frame_max, session.initial_frame_max);
	ck_assert_uint_eq(config.channel_max, session.channel_max);
	ck_assert_uint_eq(config.heartbeat_s, session.heartbeat_s);
	ck_assert_uint_eq(config.handshake_timeout_ms, session.handshake_timeout_ms);
	ck_assert_uint_eq(config.failure_delay_ms, session.failure_delay_ms);
	ck_assert_uint_eq(config.consumer_timeout_ms, session.consumer_timeout_ms);
	ck_assert(config.consumer_timeout_closes == session.consumer_timeout_closes);
	ck_assert_uint_eq(config.connection_max, session.connection_max);
	ck_assert_uint_eq(config.channel_max_per_node, session.channel_max_per_node);
	ck_assert_uint_eq(config.mechanisms, session.mechanisms);
	ck_assert_uint_eq(config.cert_login, session.cert_login);
	ck_assert_str_eq(config.product, session.product);
	ck_assert_str_eq(config.version, session.version);
	config_free(&config);
}
END_TEST

START_TEST(test_config_defaults_of_a_first_start)
{
	load_well(NULL);
	ck_assert_str_eq(config.default_user, "guest");
	ck_assert_str_eq(config.default_pass, "guest");
	ck_assert_str_eq(config.default_vhost, "/");
	ck_assert_uint_eq(config.default_tags, USER_ADMINISTRATOR);
	ck_assert_str_eq(config.default_permissions[PERMISSION_READ], ".*");
	ck_assert_uint_eq(config.loopback_users.count, 1);
	ck_assert_str_eq(config.loopback_users.items[0], "guest");
	ck_assert_uint_eq(config.tcp_listeners.count, 1);
	ck_assert_uint_eq(config.tcp_listeners.items[0].port, 5672);
	ck_assert_str_eq(config.tcp_listeners.items[0].host, "");
	ck_assert_uint_eq(config.tls_listeners.count, 0);
	ck_assert_uint_eq(config.tls.versions, CONFIG_TLS_1_2 | CONFIG_TLS_1_3);
	ck_assert_uint_eq(config.proxy_trusted.count, 2);
	ck_assert_ptr_null(config.log_path);
	ck_assert_int_eq(config.log_level, LOG_INFO);
	ck_assert_uint_gt(config.broker.memory_limit, 1024 * 1024);
	ck_assert_int_eq(strncmp(config.node_name, "pannier@", 8), 0);
	ck_assert_str_eq(config.cluster_name, config.node_name);
	config_free(&config);
}
END_TEST

START_TEST(test_config_sizes_have_units)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {
		{"100", 100},
		{"100B", 100},
		{"1k", 1024},
		{"1K", 1024},
		{"1kiB", 1024},
		{"1KiB", 1024},
		{"1kB", 1000},
		{"1KB", 1000},
		{"2M", 2097152},
		{"2MiB", 2097152},
		{"2MB", 2000000},
		{"1G", 1073741824},
		{"1GB", 1000000000},
		{"1 GiB", 1073741824},
		{"1T", 1099511627776},
		{"1TB", 1000000000000},
		{"1P", 1125899906842624},
	};
	char line[128];

	for (size_t i = 0; i < countof(rows); i++) {
		snprintf(line, sizeof(line), "vm_memory_high_watermark.absolute = %s",
			 rows[i].text);
		load_well(line);
		ck_assert_uint_eq(config.broker.memory_limit, rows[i].bytes);
		config_free(&config);
	}
}
END_TEST

START_TEST(test_config_bad_values_are_refused)
{
	static const struct {
		const char *line;
		const char *error;
	} rows[] = {
		{"heartbeat = ten", ":1: heartbeat: \"ten\" is no integer"},
		{"heartbeat = -1", "\"-1\" is no integer"},
		{"heartbeat =", "\"\" is no integer"},
		{"heartbeat = 1.5", "\"1.5\" is no integer"},
		{"heartbeat = 65536", "65536 is out of range: 0 to 65535 is expected"},
		{"heartbeat = 99999999999999999999999", "is no integer"},
		{"connection_max = none", "\"none\" is no integer and not \"infinity\""},
		{"max_message_size = 513M", "513M is out of range: 0 to 536870912 is expected"},
		{"max_message_size = 16m", "\"16m\" is no size"},
		{"max_message_size = 16Mb", "is no size"},
		{"max_message_size = M", "is no size"},
		{"max_message_size = 99999999999P", "is out of range"},
		{"proxy_protocol = yes", "\"yes\" is neither true nor false"},
		{"vm_memory_high_watermark.relative = 1.5", "out of range: 0 to 1"},
		{"vm_memory_high_watermark.relative = half", "\"half\" is no number"},
		{"vm_memory_high_watermark.relative = 0.5x", "is no number"},
		{"ssl_options.verify = maybe", "\"maybe\" is none of: verify_none verify_peer"},
		{"log.console.level = loud", "\"loud\" is none of: none error warning info debug"},
		{"listeners.tcp.1 = here", "\"here\" is no listener"},
		{"listeners.tcp.1 = 127.0.0.1:", "is no listener"},
		{"listeners.tcp.1 = 70000", "is no listener"},
		{"listeners.tcp = some", "\"some\" cannot be: only none is known here"},
		{"auth_mechanisms.1 = DIGEST-MD5", "is none of: PLAIN AMQPLAIN EXTERNAL"},
		{"auth_backends.1 = ldap", "\"ldap\" cannot be: only internal is known here"},
		{"proxy_protocol.trusted.1 = 10.0.0.0/33", "is no network"},
		{"default_user_tags.king = true", "\"king\" is no tag"},
		{"default_users.a.tags = king", "\"king\" are no tags"},
		{"default_users.a.read = (", "\"(\" is no regular expression"},
		{"default_permissions.read = [", "\"[\" is no regular expression"},
		{"compat.version = four", "\"four\" is no version"},
		{"frame_max = 4095", "frame_max is 4095: 0, or 4096 and more is expected"},
		{"loopback_users.x = perhaps", "\"perhaps\" is neither true nor false"},
	};

	for (size_t i = 0; i < countof(rows); i++)
		check_error(rows[i].line, rows[i].error);
}
END_TEST

START_TEST(test_config_values_reach_their_fields)
{
	struct tls_options options;

	load_well("heartbeat = 0\nframe_max = 0\nchannel_max = 0\nconnection_max = 7\n"
		  "consumer_max_per_channel = infinity\nmax_message_size = 1MB\n"
		  "proxy_protocol = on\ntcp_listen_options.nodelay = off\n"
		  "ssl_options.verify = verify_peer\nssl_cert_login_from = common_name\n"
		  "ssl_cert_login_san_type = email\ncompat.product = RabbitMQ\n"
		  "consumer_timeout = 31622400000\ncompat.consumer_timeout = close\n"
		  "compat.x_death = 4\n"
		  "debug.check = turn\nnode_name = n\nssl_options.ciphers.2 = B\n"
		  "ssl_options.ciphers.10 = C\nssl_options.ciphers.1 = A\n");
	ck_assert_uint_eq(config.heartbeat_s, 0);
	ck_assert_uint_eq(config.frame_max, 0);
	ck_assert_uint_eq(config.channel_max, 0);
	ck_assert_uint_eq(config.connection_max, 7);
	ck_assert_uint_eq(config.broker.consumer_max_per_channel, UINT32_MAX);
	ck_assert_uint_eq(config.broker.message_size_max, 1000000);
	ck_assert(config.proxy_protocol);
	ck_assert(config.tcp_listeners.items[0].proxy_protocol);
	ck_assert(!config.net.tcp_nodelay);
	ck_assert(config.tls.verify_peer);
	ck_assert_uint_eq(config.cert_login, CERT_LOGIN_COMMON_NAME);
	ck_assert_str_eq(config_san_types[config.san_type], "email");
	ck_assert_str_eq(config.product, "RabbitMQ");
	ck_assert_uint_eq(config.consumer_timeout_ms, 31622400000);
	ck_assert(config.consumer_timeout_closes);
	ck_assert(config.broker.client_deaths_are_data);
	ck_assert(config.debug_check);
	ck_assert_str_eq(config.cluster_name, "n");
	ck_assert_uint_eq(config.tls.ciphers.count, 3);
	ck_assert_str_eq(config.tls.ciphers.items[0], "A");
	ck_assert_str_eq(config.tls.ciphers.items[1], "B");
	ck_assert_str_eq(config.tls.ciphers.items[2], "C");
	options = tls_options_of(&config.tls);
	ck_assert_str_eq(options.ciphers, "A:B:C");
	ck_assert(options.verify_peer && options.tls_1_2 && options.tls_1_3);
	ck_assert_int_eq(options.depth, 10);
	config_free(&config);
}
END_TEST

/* The least and the most of each, with what is beyond them; they are those of the manual. */
START_TEST(test_config_store)
{
	static const char *const refused[] = {
		"store.buffer_size = 4095",	 "store.buffer_size = 65MiB",
		"store.flush_interval = 0",	 "store.flush_interval = 1001",
		"store.flush_when_idle = never", "store.file_size = 65535",
		"store.file_size = 4294967297",
	};

	load_well("store.buffer_size = 4096\nstore.flush_interval = 1\n"
		  "store.flush_when_idle = false\nstore.file_size = 64kiB\n");
	ck_assert_uint_eq(config.store.buffer_size, 4096);
	ck_assert_uint_eq(config.store.flush_interval_ms, 1);
	ck_assert(!config.store.flush_when_idle);
	ck_assert_uint_eq(config.store.file_size, 65536);
	config_free(&config);
	load_well("store.buffer_size = 64MiB\nstore.flush_interval = 1000\n"
		  "store.file_size = 4GiB\n");
	ck_assert_uint_eq(config.store.buffer_size, 64U << 20);
	ck_assert_uint_eq(config.store.flush_interval_ms, 1000);
	ck_assert(config.store.flush_when_idle);
	ck_assert_uint_eq(config.store.file_size, 4ULL << 30);
	ck_assert_uint_eq(config.settings.note_count, 0);
	config_free(&config);
	for (size_t i = 0; i < countof(refused); i++)
		check_error(refused[i], i == 4 ? "is neither true nor false" : "is out of range");
	ck_assert_ptr_null(option_find_ignored("store.file_size"));
}
END_TEST

static void
check_listener(size_t i, const char *host, unsigned port)
{
	ck_assert_uint_gt(config.tcp_listeners.count, i);
	ck_assert_str_eq(config.tcp_listeners.items[i].host, host);
	ck_assert_uint_eq(config.tcp_listeners.items[i].port, port);
}

START_TEST(test_config_listeners)
{
	load_well("listeners.tcp.1 = 127.0.0.1:5673\nlisteners.tcp.2 = [::1]:5674\n"
		  "listeners.tcp.local = 5675\n");
	ck_assert_uint_eq(config.tcp_listeners.count, 3);
	check_listener(0, "127.0.0.1", 5673);
	check_listener(1, "::1", 5674);
	check_listener(2, "", 5675);
	config_free(&config);
}
END_TEST

START_TEST(test_config_none_takes_listeners_away)
{
	static const char *const none[] = {"listeners.tcp=none", NULL};
	static const char *const one[] = {"listeners.tcp.1=5999", NULL};

	load_well("listeners.tcp = none\nlisteners.tcp.1 = 5673\n");
	ck_assert_uint_eq(config.tcp_listeners.count, 0);
	config_free(&config);
	ck_assert_int_eq(load("listeners.tcp.1 = 5673\n", none), 0);
	ck_assert_uint_eq(config.tcp_listeners.count, 0);
	config_free(&config);
	ck_assert_int_eq(load("listeners.tcp = none\nlisteners.tcp.2 = 5673\n", one), 0);
	ck_assert_uint_eq(config.tcp_listeners.count, 1);
	check_listener(0, "", 5999);
	config_free(&config);
}
END_TEST

START_TEST(test_config_environment_wins_over_the_file_and_flags_over_all)
{
	static const char *const flags[] = {"default_user=flag", NULL};

	setenv("RABBITMQ_DEFAULT_USER", "env", 1);
	setenv("RABBITMQ_DEFAULT_PASS", "env", 1);
	setenv("RABBITMQ_NODE_PORT", "5999", 1);
	ck_assert_int_eq(load("default_user = file\ndefault_pass = file\ndefault_vhost = file\n"
			      "listeners.tcp.1 = 5673\nlisteners.tcp.default = 5674\n",
			      flags),
			 0);
	ck_assert_str_eq(config.default_user, "flag");
	ck_assert_str_eq(config.default_pass, "env");
	ck_assert_str_eq(config.default_vhost, "file");
	ck_assert_uint_eq(config.tcp_listeners.count, 1);
	check_listener(0, "", 5999);
	config_free(&config);
}
END_TEST

START_TEST(test_config_unknown_keys_name_the_nearest)
{
	static const struct {
		const char *line, *nearest;
	} rows[] = {
		{"hartbeat = 1", "unknown key hartbeat; did you mean heartbeat?"},
		{"store.buffer_sise = 1", "did you mean store.buffer_size?"},
		{"listners.tcp.1 = 1", "did you mean listeners.tcp.*?"},
		{"ssl_options.certfiles = x", "did you mean ssl_options.certfile?"},
		{"default_users.bob.passwd = x", "did you mean default_users.*.password?"},
		{"channelmax = 1", "did you mean channel_max?"},
		{"listeners.tcp. = 1", "unknown key listeners.tcp.; did you mean listeners.tcp"},
	};

	for (size_t i = 0; i < countof(rows); i++)
		check_error(rows[i].line, rows[i].nearest);
	load_well("hartbeat = 1\nconfig.ignore_unknown = true\n");
	ck_assert_uint_eq(config.settings.note_count, 1);
	ck_assert_str_eq(config.settings.notes[0].value, "unknown key hartbeat is ignored");
	config_free(&config);
}
END_TEST

START_TEST(test_config_keys_of_rabbitmq_are_accepted)
{
	load_well("management.tcp.port = 15672\nprometheus.tcp.port = 15692\n"
		  "queue_master_locator = min-masters\ndisk_free_limit.absolute = 2GB\n"
		  "cluster_partition_handling = pause_minority\n"
		  "cluster_formation.peer_discovery_backend = k8s\n"
		  "cluster_formation.k8s.host = kubernetes.default\n"
		  "total_memory_available_override_value = 1GB\n"
		  "log.connection.level = debug\nlog.file.rotation.size = 1\n"
		  "tcp_listen_options.linger.on = true\nmqtt.listeners.tcp.default = 1883\n"
		  "num_acceptors.tcp = 10\ndefault_queue_type = quorum\n"
		  "auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = ANONYMOUS\n"
		  "ssl_options.versions.1 = tlsv1.3\nssl_options.versions.2 = tlsv1.1\n");
	ck_assert_uint_eq(config.broker.memory_limit, 600000000);
	ck_assert_uint_eq(config.mechanisms, MECHANISM_PLAIN);
	ck_assert_uint_eq(config.tls.versions, CONFIG_TLS_1_3);
	ck_assert_uint_eq(config.settings.note_count, 2);
	config_free(&config);
	ck_assert_ptr_nonnull(option_find_ignored("raft.x"));
	ck_assert_ptr_null(option_find_ignored("raftx"));
	ck_assert(option_find_ignored("management.ssl.port")->later);
	ck_assert(!option_find_ignored("raft")->later);
}
END_TEST

START_TEST(test_config_loopback_users)
{
	load_well("loopback_users.guest = false\n");
	ck_assert_uint_eq(config.loopback_users.count, 0);
	config_free(&config);
	load_well("loopback_users = none\n");
	ck_assert_uint_eq(config.loopback_users.count, 0);
	config_free(&config);
	load_well("loopback_users.admin = true\nloopback_users.other = false\n");
	ck_assert_uint_eq(config.loopback_users.count, 2);
	ck_assert_str_eq(config.loopback_users.items[0], "guest");
	ck_assert_str_eq(config.loopback_users.items[1], "admin");
	config_free(&config);
}
END_TEST

START_TEST(test_config_users)
{
	const struct config_user *user;

	load_well("default_users.ann.password = secret\ndefault_users.ann.read = ^r\n"
		  "default_users.ann.tags = monitoring, management\n"
		  "default_users.b.c.password = x\n"
		  "default_user_tags.administrator = false\ndefault_user_tags.monitoring = true\n");
	ck_assert_uint_eq(config.users.count, 2);
	user = &config.users.items[0];
	ck_assert_str_eq(user->name, "ann");
	ck_assert_str_eq(user->password, "secret");
	ck_assert_uint_eq(user->tags, USER_MONITORING | USER_MANAGEMENT);
	ck_assert_str_eq(user->patterns[PERMISSION_READ], "^r");
	ck_assert_str_eq(user->patterns[PERMISSION_WRITE], ".*");
	ck_assert_str_eq(config.users.items[1].name, "b.c");
	ck_assert_uint_eq(config.default_tags, USER_MONITORING);
	config_free(&config);
}
END_TEST

START_TEST(test_config_tls_needs_its_files)
{
	check_error("listeners.ssl.1 = 5671\n",
		    "listeners.ssl needs ssl_options.certfile and ssl_options.keyfile");
	check_error("listeners.ssl.1 = 5671\nssl_options.certfile = a\nssl_options.keyfile = b\n"
		    "ssl_options.verify = verify_peer\n",
		    "ssl_options.verify = verify_peer needs ssl_options.cacertfile");
	check_error("ssl_options.fail_if_no_peer_cert = true\n", "needs ssl_options.verify");
	check_error("ssl_options.versions.1 = tlsv1\n", "leaves no version of TLS");
	load_well("listeners.ssl.1 = 5671\nssl_options.certfile = a\nssl_options.keyfile = b\n");
	ck_assert_uint_eq(config.tls_listeners.count, 1);
	ck_assert_uint_eq(config.tls_listeners.items[0].port, 5671);
	ck_assert_str_eq(config.tls.certfile, "a");
	config_free(&config);
}
END_TEST

START_TEST(test_config_memory_limit)
{
	static const char *const flags[] = {"vm_memory_high_watermark.relative=0.5", NULL};

	load_well("total_memory_available_override_value = 1000\n");
	ck_assert_uint_eq(config.broker.memory_limit, 600);
	config_free(&config);
	load_well("total_memory_available_override_value = 1000\n"
		  "vm_memory_high_watermark.relative = 0\n");
	ck_assert_uint_eq(config.broker.memory_limit, 1);
	config_free(&config);
	load_well("vm_memory_high_watermark.relative = 0.4\n"
		  "vm_memory_high_watermark.absolute = 100MB\n");
	ck_assert_uint_eq(config.broker.memory_limit, 100000000);
	config_free(&config);
	ck_assert_int_eq(load("vm_memory_high_watermark.absolute = 100MB\n"
			      "total_memory_available_override_value = 1000\n",
			      flags),
			 0);
	ck_assert_uint_eq(config.broker.memory_limit, 500);
	config_free(&config);
}
END_TEST

START_TEST(test_config_paging_ratio)
{
	load_well("vm_memory_high_watermark.absolute = 1000\n");
	ck_assert_uint_eq(config.broker.page_out_at, 500);
	config_free(&config);
	load_well("vm_memory_high_watermark.absolute = 1000\n"
		  "vm_memory_high_watermark_paging_ratio = 0\n");
	ck_assert_uint_eq(config.broker.page_out_at, 0);
	config_free(&config);
	load_well("vm_memory_high_watermark_paging_ratio = 1.1\n");
	ck_assert_uint_eq(config.broker.page_out_at, UINT64_MAX);
	write_file("main.conf", "vm_memory_high_watermark.absolute = 1000\n"
				"vm_memory_high_watermark_paging_ratio = 0.25\n");
	ck_assert_int_eq(config_reload(&config, error), 0);
	ck_assert_uint_eq(config.broker.page_out_at, 250);
	config_free(&config);
}
END_TEST

START_TEST(test_config_disk_free_limit)
{
	static const char *const flags[] = {"disk_free_limit.absolute=5MB", NULL};

	load_well("");
	ck_assert_uint_eq(config.disk_free_limit, 1024 * 1024 * 1024);
	config_free(&config);
	load_well("disk_free_limit.absolute = 50MB\n");
	ck_assert_uint_eq(config.disk_free_limit, 50000000);
	config_free(&config);
	load_well("disk_free_limit.absolute = 50MB\ndisk_free_limit.relative = 1.5\n"
		  "total_memory_available_override_value = 1000\n");
	ck_assert_uint_eq(config.disk_free_limit, 1500);
	config_free(&config);
	ck_assert_int_eq(load("disk_free_limit.relative = 1.5\n", flags), 0);
	ck_assert_uint_eq(config.disk_free_limit, 5000000);
	write_file("main.conf", "disk_free_limit.absolute = 7MB\n");
	ck_assert_int_eq(config_reload(&config, error), 0);
	ck_assert_uint_eq(config.disk_free_limit, 5000000);
	config_free(&config);
	load_well("disk_free_limit.absolute = 6MB\n");
	write_file("main.conf", "disk_free_limit.absolute = 7MB\n");
	ck_assert_int_eq(config_reload(&config, error), 0);
	ck_assert_uint_eq(config.disk_free_limit, 7000000);
	config_free(&config);
}
END_TEST

START_TEST(test_config_log_goes_to_one_place)
{
	load_well("log.file = p.log\nlog.dir = /d\nlog.file.level = debug\n"
		  "log.console.level = error\n");
	ck_assert_str_eq(config.log_path, "/d/p.log");
	ck_assert_int_eq(config.log_level, LOG_DEBUG);
	config_free(&config);
	load_well("log.file = /e/p.log\nlog.default.level = critical\n");
	ck_assert_str_eq(config.log_path, "/e/p.log");
	ck_assert_int_eq(config.log_level, LOG_ERROR);
	config_free(&config);
	load_well("log.file = false\nlog.file.level = debug\nlog.console.level = none\n");
	ck_assert_ptr_null(config.log_path);
	ck_assert_int_eq(config.log_level, LOG_NONE);
	config_free(&config);
}
END_TEST

START_TEST(test_config_reload_takes_what_may_change)
{
	static const char *const flags[] = {"heartbeat=5", NULL};

	ck_assert_int_eq(load("vm_memory_high_watermark.absolute = 1000\nlog.default.level = info\n"
			      "ssl_options.certfile = a\nchannel_max = 10\n",
			      flags),
			 0);
	write_file("main.conf", "vm_memory_high_watermark.absolute = 2000\n"
				"log.default.level = debug\nssl_options.certfile = b\n"
				"channel_max = 20\nheartbeat = 9\n");
	ck_assert_int_eq(config_reload(&config, error), 0);
	ck_assert_uint_eq(config.broker.memory_limit, 2000);
	ck_assert_int_eq(config.log_level, LOG_DEBUG);
	ck_assert_str_eq(config.tls.certfile, "b");
	ck_assert_uint_eq(config.channel_max, 10);
	ck_assert_uint_eq(config.heartbeat_s, 5);
	write_file("main.conf", "vm_memory_high_watermark.absolute = much\n");
	ck_assert_int_eq(config_reload(&config, error), -EINVAL);
	ck_assert_uint_eq(config.broker.memory_limit, 2000);
	ck_assert_str_eq(config.tls.certfile, "b");
	config_free(&config);
}
END_TEST

TESTS_WITH("config", config_set_up, config_tear_down, test_config_defaults_are_those_of_the_layers,
	   test_config_defaults_of_a_first_start, test_config_sizes_have_units,
	   test_config_bad_values_are_refused, test_config_values_reach_their_fields,
	   test_config_store, test_config_listeners, test_config_none_takes_listeners_away,
	   test_config_environment_wins_over_the_file_and_flags_over_all,
	   test_config_unknown_keys_name_the_nearest, test_config_keys_of_rabbitmq_are_accepted,
	   test_config_loopback_users, test_config_users, test_config_tls_needs_its_files,
	   test_config_memory_limit, test_config_paging_ratio, test_config_disk_free_limit,
	   test_config_log_goes_to_one_place, test_config_reload_takes_what_may_change)
