/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to the broker with channel 1 open on it. Setting up is synchronous: client_call() sends
 * a method and turns the engine until the answer is there. What comes in otherwise belongs to the role of
 * the client (producer, consumer), which sees it first. A connection or channel that the broker closes
 * ends the program.
 */
#pragma once

#include "net/conn.h"
#include "util/base.h"
#include "wire/frame.h"
#include "wire/method.h"

#define CLIENT_CHANNEL 1

struct client;
struct engine;
struct uri;

/* What a role does with input. */
struct client_role {
	/* Takes all input (client_frame() is for what it does not know); NULL: it does not. */
	size_t (*input)(struct client *client, struct bytes input);
	/* Is shown the payload of each method frame first; true when it took it. NULL: none. */
	bool (*method)(struct client *client, struct bytes payload);
};

struct client {
	struct engine *engine;		// borrows until client_close
	struct conn *conn;		// borrows from net until closed; then NULL
	const struct client_role *role; // static; NULL: none
	const char *host;		// borrows until client_close; for complaints
	uint32_t frame_max;		// as tuned; 0: no limit
	uint32_t awaited;		// id of the method that client_call waits for; 0: none
	struct method answer;		// what came; only its numbers count afterwards
	bool opened;  // the handshake is over: a failure is no longer one of connecting
	bool closing; // the end of the connection is no surprise
};

/* Connects, authenticates, opens the vhost and a channel. Ends the program when that fails. */
void client_open(struct client *client, struct engine *engine, const struct uri *uri,
		 const struct client_role *role);
/* Closes in good order, as far as the broker answers. */
void client_close(struct client *client);
/* Sends a method on the channel, to be flushed by the next turn. */
void client_send(struct client *client, const struct method *method);
/* Sends it and waits for the method with that id. The answer's strings are gone. */
const struct method *client_call(struct client *client, const struct method *method,
				 uint32_t answer_id);
/* Cuts the first frame off input and handles it as for a client without role->input; returns its size, 0
 * when it is not whole. */
size_t client_frame(struct client *client, struct bytes input);
