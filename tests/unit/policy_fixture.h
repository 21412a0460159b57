/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of policies have beside model_fixture.h: definitions from text, short calls to set policies, and
 * what applies to an object as text.
 */
#pragma once

#include "broker/policy.h"
#include "unit/model_fixture.h"
#include "util/log.h"

#include <inttypes.h>

/* Without the warnings about keys that have no effect. */
static inline void
policy_set_up(void)
{
	log_set_level(LOG_NONE);
	model_set_up();
}

/* A value from text: a number, "true", or a string. */
static inline void
table_put_text(struct table *table, struct bytes key, struct bytes value)
{
	char digits[24] = "";
	char *end;
	long long number;

	memcpy(digits, value.p, value.n < sizeof(digits) ? value.n : 0);
	number = strtoll(digits, &end, 10);
	if (end != digits && *end == '\0') {
		table_put_long(&table->writer, key, number);
	} else if (bytes_equal(value, BYTES("true"))) {
		table_put_bool(&table->writer, key, true);
	} else {
		table_put_string(&table->writer, key, value);
	}
}

/* "max-length=100 overflow=reject-publish" as a table, valid until the next call. */
static inline struct bytes
table_of(const char *text)
{
	static struct table table;

	table_start(&table);
	while (*text != '\0') {
		size_t key_n = strcspn(text, "=");
		const char *value = text + key_n + 1;
		size_t value_n = strcspn(value, " ");

		table_put_text(&table, bytes_of(text, key_n), bytes_of(value, value_n));
		text = value + value_n;
		text += strspn(text, " ");
	}
	return table_view(&table);
}

static inline struct policy_spec
policy_spec_of(const char *name, const char *pattern, const char *definition)
{
	return (struct policy_spec){
		.name = bytes_str(name),
		.pattern = bytes_str(pattern),
		.definition = table_of(definition),
	};
}

static inline struct policy *
put_spec(enum policy_kind kind, struct policy_spec spec)
{
	const char *why = policy_check(kind, &spec);

	ck_assert_msg(why == NULL, "%s", why);
	return policy_put(vhost, kind, &spec);
}

/* A policy for all whose name the pattern matches, of priority 0. */
static inline struct policy *
put(const char *name, const char *pattern, const char *definition)
{
	return put_spec(POLICY_USER, policy_spec_of(name, pattern, definition));
}

static inline struct policy *
put_operator(const char *name, const char *pattern, const char *definition)
{
	return put_spec(POLICY_OPERATOR, policy_spec_of(name, pattern, definition));
}

static inline struct policy *
put_for(const char *apply_to, const char *name, const char *pattern, const char *definition)
{
	struct policy_spec spec = policy_spec_of(name, pattern, definition);

	spec.apply_to = bytes_str(apply_to);
	return put_spec(POLICY_USER, spec);
}

static inline struct policy *
put_with_priority(int64_t priority, const char *name, const char *pattern, const char *definition)
{
	struct policy_spec spec = policy_spec_of(name, pattern, definition);

	spec.priority = priority;
	return put_spec(POLICY_USER, spec);
}

static inline void
take_away(enum policy_kind kind, const char *name)
{
	struct policy *policy = policy_find(vhost, kind, bytes_str(name));

	ck_assert_ptr_nonnull(policy);
	policy_remove(policy);
}

static inline struct queue *
make_queue_with(const char *name, const char *asked)
{
	struct queue_spec spec = {
		.name = bytes_str(name), .durable = true, .arguments = table_of(asked)};

	ck_assert_ptr_null(queue_check_new(vhost, &spec));
	return queue_create(vhost, &spec);
}

/* Names of the policy and the operator policy, "-" for none: "p o". */
static inline const char *
shown(const struct policy *const policies[POLICY_KIND_COUNT])
{
	static char text[600];
	struct bytes names[POLICY_KIND_COUNT];

	for (unsigned i = 0; i < POLICY_KIND_COUNT; i++)
		names[i] = policies[i] == NULL ? BYTES("-") : policies[i]->name;
	snprintf(text, sizeof(text), "%.*s %.*s", BYTES_ARGS(names[0]), BYTES_ARGS(names[1]));
	return text;
}

static inline const char *
of_queue(const struct queue *queue)
{
	return shown(queue_settings(queue)->policies);
}

static inline const char *
of_exchange(const char *name)
{
	return shown(find_exchange(name)->policies);
}

/* As table_of() has it. */
static inline const char *
effective(const struct policy *const policies[POLICY_KIND_COUNT])
{
	static char text[1024];
	struct field_iterator iterator;
	struct field field;
	struct buf out;
	size_t n = 0;

	buf_init(&out, 0);
	policy_effective_definition(policies, &out);
	ck_assert_int_eq(table_validate(buf_bytes(&out), NULL), FIELD_OK);
	iterator = table_iterate(buf_bytes(&out));
	text[0] = '\0';
	while (field_next(&iterator, &field)) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s=", n != 0 ? " " : "",
				      BYTES_ARGS(field.name));
		if (field.class == FIELD_INTEGER)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%" PRId64,
					      field.integer);
		else
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s",
					      BYTES_ARGS(field.bytes));
	}
	buf_fini(&out);
	return text;
}
