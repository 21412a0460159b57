/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn of the loop: the heart. Inputs are handled in batches, effects happen once at its end. It
 * never waits; the daemon waits between turns, the simulation turns the clock. Broker thread.
 */
#pragma once

#include "broker/broker.h"
#include "net/net.h"
#include "session/session.h"
#include "store/store.h"

/* What a turn works on; all borrowed. */
struct turn {
	struct deadlines *deadlines;
	struct net *net;
	struct broker *broker;
	struct session *session;
	struct store *store; // NULL: nothing is kept (tests)
	bool check;	     // assert the whole model after each turn (debug.check)
};

/* Runs one turn at the given time. */
void turn_run(struct turn *turn, struct now now);
/* How long nothing will happen by itself, in milliseconds: 0 when work is left, UINT64_MAX for ever. */
uint64_t turn_wait_ms(const struct turn *turn, struct now now);
