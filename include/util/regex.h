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

enum regex_result {
	REGEX_NO,
	REGEX_YES,
	REGEX_GAVE_UP // it would take more steps
};

/* The same within so many steps, which are made fewer by those it took. A step, an item of the pattern that is
 * tried, takes 10 to 300 ns with names; patterns that are no trap take a few dozen. Nothing is logged. */
enum regex_result regex_match(const struct regex *regex, struct bytes subject, uint64_t *steps);
