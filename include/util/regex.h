/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions as RabbitMQ's users write them: PCRE2, unanchored, case-sensitive, with
 * limits on matching so that no pattern can stall the loop. Broker thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

struct regex;

/* NULL when the pattern is bad; then error (room bytes) says why and where. Caller owns. */
struct regex *regex_new(struct bytes pattern, char *error, size_t room);
void regex_free(struct regex **regex);
/* False also when a match limit is hit (logged): a refused permission is the safe side. */
bool regex_matches(const struct regex *regex, struct bytes subject);
