/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to others: perf, tests, the standby. Broker thread.
 */
#pragma once

#include "net/conn.h"

struct tls;

/*
 * Starts to connect and returns at once, never NULL; what is written before the connection is there goes
 * out afterwards. A failure, at once or later, is told by ops->closed. host is a numeric address;
 * "localhost" is 127.0.0.1; any other name is resolved by the system, which blocks: not for the daemon.
 * tls: a client context, borrowed until the conn is closed, or NULL for plain. ops, owner: as in
 * conn_new().
 */
struct conn *conn_connect(struct net *net, const char *host, uint16_t port, struct tls *tls,
			  const struct conn_ops *ops, void *owner);
