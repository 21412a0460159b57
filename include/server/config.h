/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: what options.def names, read from the file, the environment and the command line
 * in this order of rank, checked as a whole. No layer reads it: the server hands each layer its own
 * options. It is made before there are threads and belongs to the broker thread after that.
 */
#pragma once

#include "broker/model.h"
#include "net/listener.h"
#include "net/net.h"
#include "net/tls.h"
#include "server/settings.h"
#include "session/session.h"
#include "store/store.h"
#include "util/base.h"
#include "util/log.h"

/* Longest text of an error, with its place: "FILE:LINE: ...". */
#define CONFIG_ERROR_MAX 512

/* A list of C strings. */
struct config_texts {
	char **items; // owns, each too
	size_t count;
};

/* Ready for listener_open() but for the TLS context. */
struct config_listeners {
	struct listener_options *items; // owns; they borrow proxy_trusted
	size_t count;
};

struct config_networks {
	struct proxy_network *items; // owns
	size_t count;
};

/* What a user may publish to and bind from one topic exchange in the vhost "/". */
struct config_topic {
	char *exchange; // owns
	char *write;	// owns; regular expression of routing keys
	char *read;	// owns; regular expression of binding keys
};

/* A user to be made on an empty data directory, with permissions in the vhost "/". */
struct config_user {
	char *name;			  // owns
	char *password;			  // owns; NULL: no login by password
	unsigned tags;			  // enum user_tag, or-ed
	bool stranger;			  // has no permissions at all
	char *patterns[PERMISSION_COUNT]; // own; regular expressions
	int64_t max_connections;	  // negative: no limit
	int64_t max_channels;		  // negative: no limit
	struct config_topic *topics;	  // owns
	size_t topic_count;
};

struct config_users {
	struct config_user *items; // owns
	size_t count;
};

/* Limits of new vhosts whose names match. */
struct config_vhost_limits {
	char *name;		 // owns; the key's part that keeps sets apart, and their order
	char *pattern;		 // owns; regular expression
	int64_t max_connections; // negative: no limit
	int64_t max_queues;	 // negative: no limit
};

/* In the order in which they are tried. */
struct config_limits {
	struct config_vhost_limits *items; // owns
	size_t count;
};

enum config_tls_version {
	CONFIG_TLS_1_2 = 1,
	CONFIG_TLS_1_3 = 2
};

/* What listeners.ssl.* need; files are PEM. */
struct config_tls {
	char *cacertfile;	     // owns; NULL: none
	char *certfile;		     // owns; NULL: none
	char *keyfile;		     // owns; NULL: none
	char *password;		     // owns; of keyfile; NULL: none
	bool verify_peer;	     // ask for a client certificate and check it
	bool fail_if_no_peer_cert;   // and insist on one
	uint32_t depth;		     // certificates between the peer's and the root
	unsigned versions;	     // enum config_tls_version, or-ed
	struct config_texts ciphers; // OpenSSL's names, in order; none: OpenSSL's own
	char *cipher_list;	     // owns; the same with colons between; NULL: none
	bool honor_cipher_order;     // the server's order counts, not the client's
};

struct config {
	/* what it was made of, for reading it again */
	struct settings settings; // all texts as they were given
	char *file;		  // owns; the main file; NULL: none

	char *data_dir;	     // owns
	char *node_name;     // owns; a label
	char *cluster_name;  // owns; node_name unless given
	bool ignore_unknown; // unknown keys are warnings
	bool debug_check;    // run the x_check() functions after each turn

	/* layers */
	struct net_options net;
	struct broker_options broker; // with memory_limit worked out
	struct store_options store;
	/* session: as the fields of struct session_options with the same names */
	uint32_t frame_max;		    // octets; 0: no limit
	uint32_t initial_frame_max;	    // octets
	uint16_t channel_max;		    // 0: no limit
	uint16_t heartbeat_s;		    // 0: off
	uint32_t handshake_timeout_ms;	    // from accept to open-ok
	uint32_t failure_delay_ms;	    // before a refused login is dropped
	uint64_t consumer_timeout_ms;	    // 0: no limit
	bool consumer_timeout_closes;	    // the channel; else deliveries go back
	uint32_t connection_max;	    // UINT32_MAX: no limit
	uint32_t channel_max_per_node;	    // UINT32_MAX: no limit
	unsigned mechanisms;		    // enum mechanism, or-ed
	uint32_t cert_login;		    // enum cert_login
	uint32_t san_type;		    // place in config_san_types
	uint32_t san_index;		    // from 0
	char *product;			    // owns
	char *version;			    // owns
	struct config_texts loopback_users; // who may only come from the same machine

	/* listeners */
	struct config_listeners tcp_listeners; // plain
	struct config_listeners tls_listeners; // with TLS
	uint32_t backlog;		       // connections that may wait to be accepted
	uint32_t tls_handshake_timeout_ms;     // for the TLS handshake and for a PROXY header
	struct config_tls tls;
	bool proxy_protocol;		      // expect a PROXY header on AMQP listeners
	struct config_networks proxy_trusted; // who may send one; never empty

	/* a new data directory */
	char *default_user;			     // owns
	char *default_pass;			     // owns
	char *default_vhost;			     // owns
	unsigned default_tags;			     // enum user_tag, or-ed
	char *default_permissions[PERMISSION_COUNT]; // own; regular expressions
	struct config_users users;		     // further ones
	struct config_limits vhost_limits;	     // the first that matches counts

	/* memory; broker.memory_limit is made of these */
	uint64_t memory_absolute; // bytes; 0: not given
	double memory_relative;	  // share of the memory there is
	double paging_ratio;	  // of the memory limit
	uint64_t memory_override; // bytes to take for the memory there is; 0: ask the system

	/* disk; the first is made of the others */
	uint64_t disk_free_limit; // bytes that should be free
	uint64_t disk_absolute;	  // bytes
	double disk_relative;	  // multiple of the memory there is; 0: not given

	/* log; the first two are made of the others */
	char *log_path;		  // owns; NULL: stderr
	enum log_level log_level; // of what is logged
	char *log_dir;		  // owns; where log_file lies
	char *log_file;		  // owns; "false": none
	bool log_console;	  // asked for; a file wins
	/* enum log_level of default, console and file; CONFIG_LEVEL_UNSET when not given */
	uint32_t log_levels[3];
};

/* A level of one destination that was not given: the default level counts. */
#define CONFIG_LEVEL_UNSET UINT32_MAX

/* What net/ wants to know for listeners.ssl.*; borrows the strings of tls. */
struct tls_options tls_options_of(const struct config_tls *tls);

/* "dns", "ip", "email", "uri", "other_name". */
extern const char *const config_san_types[];

/* Builds the configuration out of file (may be NULL), environment and flags (a list of the command
 * line's settings, copied). 0, or -EINVAL with one line in error (CONFIG_ERROR_MAX octets); then
 * config needs no config_free(). */
int config_load(struct config *config, const char *file, const struct settings *flags,
		char *error) MUST_CHECK;
void config_free(struct config *config);
/* Reads file and environment again: takes over what is marked reloadable, warns in the log of other
 * changes. -EINVAL with one line in error when something is wrong; then nothing changes. */
int config_reload(struct config *config, char *error) MUST_CHECK;
/* Logs one line for each kind of key that was accepted without effect, and the other warnings. */
void config_log_warnings(const struct config *config);
