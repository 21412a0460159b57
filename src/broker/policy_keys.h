/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of policies as broker/ sees them: the table of policy.def, and what is in force when a policy,
 * an operator policy and an argument say something about the same. Broker thread.
 */
#pragma once

#include "broker/policy.h"
#include "wire/field.h"

enum policy_key {
#define KEY(id, ...) KEY_##id,
#include "broker/policy.def"
	KEY_COUNT
};

enum key_type {
	KEY_TYPE_NUMBER,
	KEY_TYPE_FACTOR,
	KEY_TYPE_STRING,
	KEY_TYPE_WORD,
	KEY_TYPE_AGE,
	KEY_TYPE_BOOLEAN,
	KEY_TYPE_ANYTHING
};

/* What a policy can apply to, or-ed. */
enum policy_object {
	OBJECT_EXCHANGE = 1,
	OBJECT_CLASSIC = 2, // queues of this type
	OBJECT_QUORUM = 4,
	OBJECT_STREAM = 8
};

/* What a policy may apply to that has a key. An exchange takes any; what is not for queues of any type
 * keeps no queue away. */
enum key_takers {
	TAKERS_CLASSIC = OBJECT_EXCHANGE | OBJECT_CLASSIC,
	TAKERS_QUORUM = OBJECT_EXCHANGE | OBJECT_QUORUM,
	TAKERS_BOTH = OBJECT_EXCHANGE | OBJECT_CLASSIC | OBJECT_QUORUM,
	TAKERS_STREAM = OBJECT_EXCHANGE | OBJECT_STREAM,
	TAKERS_ALL = OBJECT_EXCHANGE | OBJECT_CLASSIC | OBJECT_QUORUM | OBJECT_STREAM
};

/* Which of two values counts: a policy's and an operator policy's, or an argument's and a policy's. */
enum key_rule {
	RULE_NO, // there are never two
	RULE_SMALLER,
	RULE_GREATER,
	RULE_LIMIT,    // the smaller one; of two of which one is negative the greater one
	RULE_OPERATOR, // the operator policy's
	RULE_ARGUMENT, // the argument's
	RULE_POLICY,   // the policy's
	RULE_TYPE      // the argument's for classic queues, the policy's for quorum queues
};

struct policy_key_row {
	struct bytes name;
	enum key_type type;	// what it must be
	enum key_takers takers; // what a policy with it may apply to
	bool is_idle;		// taken without effect
	enum key_rule both;	// a policy's and an operator policy's; RULE_NO: not for these
	const char *argument;	// that for the same thing; NULL: none
	enum key_rule beside;	// an argument's and a policy's
	int64_t min;		// of numbers
	int64_t max;		// of numbers; 0: none
	const char *words;	// those allowed, each between blanks or ends; NULL when no WORD
	const char *what;	// for the text; NULL when nothing is refused
};

extern const struct policy_key_row policy_keys[KEY_COUNT];

/* NULL when there is none. */
const struct policy_key_row *policy_key_find(struct bytes name);
/* What is in force of the key for an object with these arguments; false: nothing is said. The value is a
 * view of the arguments or of a policy. */
bool policy_in_force(enum policy_key key, struct bytes arguments,
		     const struct policy *const policies[POLICY_KIND_COUNT], struct field *value);
/* False for a text that is no policy_apply_to_name(); an empty one is "all". */
bool policy_apply_to_parse(struct bytes name, enum policy_apply_to *apply_to);
