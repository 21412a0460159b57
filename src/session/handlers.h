/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of all handlers, expanded from handlers.def. A handler returns NULL or what refuses; the
 * caller closes. The views in m die when it returns.
 */
#pragma once

#include "internal.h"

#define ON(class, method, states)                                          \
	const struct reply *on_##class##_##method(struct channel *channel, \
						  const struct class##_##method *m);
#define ON_CONNECTION(method, states)                                             \
	const struct reply *on_connection_##method(struct connection *connection, \
						   const struct connection_##method *m);
#include "handlers.def"
