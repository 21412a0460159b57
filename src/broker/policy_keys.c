/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the keys of policies, and its rules (management.md 3.4) applied: first a policy is joined
 * with an operator policy, then the outcome with the arguments.
 */
#include "policy_keys.h"

#include "broker/args.h"

/* The takers of policy.def that are no type of queue. */
#define TAKERS_EXCHANGE TAKERS_ALL
#define TAKERS_NOBODY TAKERS_ALL

#define IS_IDLE_CLASSIC false
#define IS_IDLE_QUORUM false
#define IS_IDLE_BOTH false
#define IS_IDLE_STREAM false
#define IS_IDLE_EXCHANGE false
#define IS_IDLE_NOBODY true

const struct policy_key_row policy_keys[KEY_COUNT] = {
#define KEY(id, name_, type_, takers_, both_, argument_, beside_, ...) \
	[KEY_##id] = {.name = BYTES(name_),                            \
		      .type = KEY_TYPE_##type_,                        \
		      .takers = TAKERS_##takers_,                      \
		      .is_idle = IS_IDLE_##takers_,                    \
		      .both = RULE_##both_,                            \
		      .argument = argument_,                           \
		      .beside = RULE_##beside_,                        \
		      __VA_ARGS__},
#include "broker/policy.def"
};

static struct bytes
argument_name(const struct policy_key_row *row)
{
	return bytes_str(row->argument);
}

const struct policy_key_row *
policy_key_find(struct bytes name)
{
	for (size_t i = 0; i < countof(policy_keys); i++) {
		if (bytes_equal(policy_keys[i].name, name))
			return &policy_keys[i];
	}
	return NULL;
}

/* ---- of two values ---- */

/* Whether a counts, else b does. a is an argument or a policy's, b a policy's or an operator policy's. */
static bool
is_first(enum key_rule rule, const struct field *a, const struct field *b, struct bytes arguments)
{
	switch (rule) {
	case RULE_SMALLER:
		return a->integer <= b->integer;
	case RULE_GREATER:
		return a->integer >= b->integer;
	case RULE_LIMIT:
		if (a->integer < 0 || b->integer < 0)
			return a->integer >= b->integer;
		return a->integer <= b->integer;
	case RULE_TYPE:
		return !args_is_quorum(arguments);
	case RULE_ARGUMENT:
		return true;
	default:
		assert(rule != RULE_NO);
		return false;
	}
}

/* What a policy and an operator policy say together. */
static bool
join_policies(const struct policy_key_row *row, const struct policy *const policies[],
	      struct field *value)
{
	const struct policy *user = policies[POLICY_USER];
	const struct policy *limiting = policies[POLICY_OPERATOR];
	struct field of_operator;
	bool is_there = user != NULL && table_find(user->definition, row->name, value);

	if (limiting == NULL || !table_find(limiting->definition, row->name, &of_operator))
		return is_there;
	if (!is_there || !is_first(row->both, value, &of_operator, bytes_of(NULL, 0)))
		*value = of_operator;
	return true;
}

bool
policy_in_force(enum policy_key key, struct bytes arguments,
		const struct policy *const policies[POLICY_KIND_COUNT], struct field *value)
{
	const struct policy_key_row *row = &policy_keys[key];
	struct field of_policy;
	bool is_there;

	assert(key < KEY_COUNT);
	assert(row->argument != NULL);
	is_there = table_find(arguments, argument_name(row), value);
	if (!join_policies(row, policies, &of_policy))
		return is_there;
	if (!is_there || !is_first(row->beside, value, &of_policy, arguments))
		*value = of_policy;
	return true;
}

/* ---- what is told of it ---- */

static void
add_entry(struct buf *out, const struct field *field)
{
	buf_add_byte(out, (uint8_t)field->name.n);
	buf_add_bytes(out, field->name);
	buf_add_bytes(out, field->raw);
}

void
policy_effective_definition(const struct policy *const policies[POLICY_KIND_COUNT], struct buf *out)
{
	const struct policy *user = policies[POLICY_USER];
	const struct policy *limiting = policies[POLICY_OPERATOR];
	struct field_iterator iterator;
	struct field field;
	struct field value;

	if (user != NULL) {
		iterator = table_iterate(user->definition);
		while (field_next(&iterator, &field)) {
			if (join_policies(policy_key_find(field.name), policies, &value))
				add_entry(out, &value);
		}
	}
	if (limiting == NULL)
		return;
	iterator = table_iterate(limiting->definition);
	while (field_next(&iterator, &field)) {
		if (user == NULL || !table_find(user->definition, field.name, &value))
			add_entry(out, &field);
	}
}
