/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AMQP conversation: state machines between wire and broker. One session root for the daemon; it
 * takes over each accepted conn and keeps a connection for it until the conn ends. No descriptor and no
 * configuration is seen here. Broker thread only.
 */
#pragma once

#include "broker/broker.h"
#include "net/conn.h"

enum mechanism {
	MECHANISM_PLAIN = 1,
	MECHANISM_AMQPLAIN = 2,
	MECHANISM_EXTERNAL = 4
};

/* Where EXTERNAL takes the user's name from (amqp.md 3.3). */
enum cert_login {
	CERT_LOGIN_DISTINGUISHED_NAME,
	CERT_LOGIN_COMMON_NAME,
	CERT_LOGIN_SUBJECT_ALTERNATIVE_NAME
};

struct session_options {
	uint32_t frame_max;	       // octets offered at tune (131072); 0: no limit
	uint32_t initial_frame_max;    // octets of a frame's payload before tune-ok (8192)
	uint16_t channel_max;	       // channels offered at tune (2047); 0: no limit
	uint16_t heartbeat_s;	       // offered at tune (60); 0: off
	uint32_t handshake_timeout_ms; // from accept to open-ok (10000)
	uint32_t failure_delay_ms;     // before a refused login is dropped (3000)
	uint32_t connection_max;       // connections of the node; UINT32_MAX: no limit
	uint32_t channel_max_per_node; // channels of the node; UINT32_MAX: no limit
	uint64_t consumer_timeout_ms;  // how long a delivery may be unacked; 0: no limit
	bool consumer_timeout_closes;  // then the channel is closed; else it goes back to its queue
	unsigned mechanisms;	       // enum mechanism, or-ed
	enum cert_login cert_login;
	const char *san_type; // "dns", "ip", "email", "uri", "other_name"; borrows for good
	uint32_t san_index;   // which one of that type, from 0
	const char *product;  // server properties; borrow for good
	const char *version;  // in RabbitMQ's numbering
	const char *pannier_version;
	const char *cluster_name;
	const char *node_name;	   // for texts; borrows for good
	struct map loopback_users; // who may only come from loopback: see below
};

/* Adds the name of a user who may only come from loopback; it is copied. */
void session_options_add_loopback_user(struct session_options *options, struct bytes name);

struct session;

/* The defaults above; loopback_users is empty. */
struct session_options session_options_default(void);
/* broker and net are borrowed for good; options are taken over, loopback_users with its names. */
struct session *session_new(struct broker *broker, struct net *net,
			    const struct session_options *options);
/* All connections must be gone. */
void session_free(struct session **session);
/* Takes over a connection that was just accepted. */
void session_accept(struct session *session, struct conn *conn);
/* The part of the turn behind broker_dispatch(): cancel notices, confirms and commit-oks up to the
 * broker's stable number, released holds. */
void session_effects(struct session *session);
/* The next turn has something to do that no event will announce: memory came back after the effects. */
bool session_work_left(struct session *session);
/* Whether anybody has published since the last call. */
bool session_has_published(struct session *session);
/* Closes every connection with 320 and the text behind "CONNECTION_FORCED - "; each ends when its peer
 * answers, or by its close deadline. */
void session_close_all(struct session *session, const char *text);
/* Ends those that are still there without a word; net_reap() frees them. */
void session_abort_all(struct session *session);
size_t session_connection_count(const struct session *session);
