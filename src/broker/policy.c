/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policies of a vhost: set, removed, and which of them applies. Each kind is a map by name and a list by
 * rank. An object keeps what applies to it, so a change of one policy is one pass over the vhost with one
 * match for each object: only those that lose the policy that they had look at all others. While
 * recovering nothing is matched; all of it is at the end.
 */
#include "broker/policy.h"

#include "broker/args.h"
#include "broker/durable.h"

#include "internal.h"
#include "policy_keys.h"
#include "route.h"
#include "util/log.h"
#include "util/owned.h"

#include <stdio.h>

/* What a pattern may take to be matched with one name; a name that it would take more for does not match. Sane ones
 * take some dozens. */
#define STEPS_PER_NAME 1000
/* What it may take with all names that there are when it is set: so many, and so many more for each. It is
 * matched with all of them once more then, so this bounds how long that stops the broker. */
#define STEPS_AT_ONCE 100000
#define STEPS_AT_ONCE_PER_NAME 100
#define PATTERN_SHOWN 300

#define OBJECT_QUEUE (OBJECT_CLASSIC | OBJECT_QUORUM | OBJECT_STREAM)

static const struct {
	const char *name;
	unsigned objects; // enum policy_object, or-ed
} apply_tos[] = {
	[APPLY_TO_ALL] = {"all", OBJECT_QUEUE | OBJECT_EXCHANGE},
	[APPLY_TO_QUEUES] = {"queues", OBJECT_QUEUE},
	[APPLY_TO_CLASSIC_QUEUES] = {"classic_queues", OBJECT_CLASSIC},
	[APPLY_TO_QUORUM_QUEUES] = {"quorum_queues", OBJECT_QUORUM},
	[APPLY_TO_STREAMS] = {"streams", OBJECT_STREAM},
	[APPLY_TO_EXCHANGES] = {"exchanges", OBJECT_EXCHANGE},
};

const char *
policy_apply_to_name(enum policy_apply_to apply_to)
{
	assert(apply_to < countof(apply_tos));
	return apply_tos[apply_to].name;
}

bool
policy_apply_to_parse(struct bytes name, enum policy_apply_to *apply_to)
{
	*apply_to = APPLY_TO_ALL;
	if (name.n == 0)
		return true;
	for (size_t i = 0; i < countof(apply_tos); i++) {
		*apply_to = (enum policy_apply_to)i;
		if (bytes_equal(bytes_str(apply_tos[i].name), name))
			return true;
	}
	return false;
}

/* ---- which one applies ---- */

static bool
outranks(const struct policy *a, const struct policy *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	return bytes_compare(a->name, b->name) < 0;
}

/* What of a pattern is shown: it may be long. */
static struct bytes
shown(struct bytes pattern)
{
	return bytes_of(pattern.p, min_u64(pattern.n, PATTERN_SHOWN));
}

static bool
applies(const struct policy *policy, enum policy_object object, struct bytes name)
{
	uint64_t steps = STEPS_PER_NAME;
	enum regex_result result;

	if (!(policy->objects & object))
		return false;
	result = regex_match(policy->regex, name, &steps);
	if (unlikely(result == REGEX_GAVE_UP))
		log_warn(
			"A pattern takes too many steps with a name, so the policy does not apply: "
			"policy=%.*s vhost=%.*s pattern=%.*s name=%.*s",
			BYTES_ARGS(policy->name), BYTES_ARGS(policy->vhost->name),
			BYTES_ARGS(policy->pattern), BYTES_ARGS(name));
	return result == REGEX_YES;
}

static const struct policy *
find_best(const struct vhost *vhost, enum policy_kind kind, enum policy_object object,
	  struct bytes name)
{
	const struct policy *policy;

	list_for_each (&vhost->policies[kind].ranked, policy, struct policy, ranked) {
		if (applies(policy, object, name))
			return policy;
	}
	return NULL;
}

static enum policy_object
object_of(const struct queue *q)
{
	return args_is_quorum(q->arguments) ? OBJECT_QUORUM : OBJECT_CLASSIC;
}

/* What applies to a new object, or to any at the end of a recovery. */
static void
find_all(const struct vhost *vhost, enum policy_object object, struct bytes name,
	 const struct policy *found[POLICY_KIND_COUNT])
{
	for (unsigned kind = 0; kind < POLICY_KIND_COUNT; kind++)
		found[kind] = vhost->broker->recovering
				      ? NULL
				      : find_best(vhost, (enum policy_kind)kind, object, name);
}

void
policies_of_queue(const struct queue *q, const struct policy *found[POLICY_KIND_COUNT])
{
	find_all(q->vhost, object_of(q), q->name, found);
}

void
policies_of_exchange(const struct exchange *exchange, const struct policy *found[POLICY_KIND_COUNT])
{
	find_all(exchange->vhost, OBJECT_EXCHANGE, exchange->name, found);
}

void
policies_apply(struct vhost *vhost)
{
	const struct policy *found[POLICY_KIND_COUNT];
	struct exchange *exchange;
	struct queue *q;

	if (list_empty(&vhost->policies[POLICY_USER].ranked) &&
	    list_empty(&vhost->policies[POLICY_OPERATOR].ranked))
		return;
	map_for_each (&vhost->exchanges, exchange, struct exchange, node) {
		policies_of_exchange(exchange, found);
		exchange_set_policies(exchange, found);
	}
	map_for_each (&vhost->queues, q, struct queue, node) {
		policies_of_queue(q, found);
		queue_settings_make(q, found);
	}
}

void
policies_check(const struct vhost *vhost)
{
	const struct policy *found[POLICY_KIND_COUNT];
	const struct exchange *exchange;
	const struct queue *q;

	for (unsigned kind = 0; kind < POLICY_KIND_COUNT; kind++)
		assert(vhost->policies[kind].by_name.count == vhost->policies[kind].ranked.count);
	map_for_each (&vhost->exchanges, exchange, struct exchange, node) {
		policies_of_exchange(exchange, found);
		assert(memcmp(found, exchange->policies, sizeof(found)) == 0);
	}
	map_for_each (&vhost->queues, q, struct queue, node) {
		policies_of_queue(q, found);
		assert(memcmp(found, queue_settings(q)->policies, sizeof(found)) == 0);
	}
}

/* ---- a change of one policy ---- */

struct change {
	struct vhost *vhost;	  // borrows
	enum policy_kind kind;	  // of both
	const struct policy *was; // what is no longer listed; NULL: nothing
	const struct policy *is;  // what is listed since now; NULL: nothing
};

/* Replaces one of what applies to an object; false when it stays. */
static bool
choose(const struct change *change, enum policy_object object, struct bytes name,
       const struct policy *policies[POLICY_KIND_COUNT])
{
	const struct policy **now = &policies[change->kind];

	if (*now != NULL && *now == change->was)
		*now = find_best(change->vhost, change->kind, object, name);
	else if (change->is != NULL && (*now == NULL || outranks(change->is, *now)) &&
		 applies(change->is, object, name))
		*now = change->is;
	else
		return false;
	return true;
}

/* Exchanges first: what a queue does at once may be routed by them. */
static void
apply_change(const struct change *change)
{
	const struct policy *policies[POLICY_KIND_COUNT];
	struct exchange *exchange;
	struct queue *q;

	if (change->vhost->broker->recovering)
		return;
	map_for_each (&change->vhost->exchanges, exchange, struct exchange, node) {
		memcpy(policies, exchange->policies, sizeof(policies));
		if (choose(change, OBJECT_EXCHANGE, exchange->name, policies))
			exchange_set_policies(exchange, policies);
	}
	map_for_each (&change->vhost->queues, q, struct queue, node) {
		memcpy(policies, queue_settings(q)->policies, sizeof(policies));
		if (choose(change, object_of(q), q->name, policies))
			queue_settings_update(q, policies);
	}
}

/* ---- what a pattern costs ---- */

/* A pattern that is tried with all names. */
struct trial {
	struct regex *regex; // owns
	uint64_t steps;	     // that are left
	bool too_much;	     // it takes too many steps
	struct bytes name;   // borrows; the one with which it does
};

static bool
try_name(struct trial *trial, struct bytes name)
{
	uint64_t steps = min_u64(STEPS_PER_NAME, trial->steps);
	uint64_t given = steps;

	trial->too_much = regex_match(trial->regex, name, &steps) == REGEX_GAVE_UP;
	trial->name = name;
	trial->steps -= given - steps;
	return !trial->too_much;
}

static void
try_all(struct trial *trial, const struct vhost *vhost)
{
	const struct exchange *exchange;
	const struct queue *q;

	map_for_each (&vhost->exchanges, exchange, const struct exchange, node) {
		if (!try_name(trial, exchange->name))
			return;
	}
	map_for_each (&vhost->queues, q, const struct queue, node) {
		if (!try_name(trial, q->name))
			return;
	}
}

const char *
policy_check_cost(const struct vhost *vhost, const struct policy_spec *spec)
{
	static char text[1024];
	uint64_t names = vhost->exchanges.count + vhost->queues.count;
	struct trial trial = {
		.regex = regex_new(spec->pattern, text, sizeof(text)),
		.steps = STEPS_AT_ONCE + STEPS_AT_ONCE_PER_NAME * names,
	};

	assert(trial.regex != NULL);
	try_all(&trial, vhost);
	regex_free(&trial.regex);
	if (!trial.too_much)
		return NULL;
	(void)snprintf(text, sizeof(text),
		       "pattern '%.*s' takes too many steps to be matched with the names in the "
		       "vhost, as with '%.*s': write it without nested repetitions",
		       BYTES_ARGS(shown(spec->pattern)), BYTES_ARGS(trial.name));
	return text;
}

/* ---- life ---- */

struct policy *
policy_find(const struct vhost *vhost, enum policy_kind kind, struct bytes name)
{
	struct map_node *node;

	assert(kind < POLICY_KIND_COUNT);
	node = map_find(&vhost->policies[kind].by_name, name);
	return node == NULL ? NULL : container_of(node, struct policy, node);
}

/* What its apply-to and each of its keys let it apply to. */
static unsigned
objects_of(const struct policy *policy)
{
	struct field_iterator iterator = table_iterate(policy->definition);
	unsigned objects = apply_tos[policy->apply_to].objects;
	struct field field;

	while (field_next(&iterator, &field)) {
		const struct policy_key_row *row = policy_key_find(field.name);

		assert(row != NULL);
		objects &= row->takers;
	}
	return objects;
}

static struct policy *
policy_new(struct vhost *vhost, enum policy_kind kind, const struct policy_spec *spec)
{
	struct policy *policy = xmalloc(sizeof(*policy));
	char error[256];

	*policy = (struct policy){
		.name = bytes_dup(spec->name),
		.vhost = vhost,
		.kind = kind,
		.priority = spec->priority,
		.pattern = bytes_dup(spec->pattern),
		.regex = regex_new(spec->pattern, error, sizeof(error)),
		.definition = bytes_dup(spec->definition),
	};
	assert(policy->regex != NULL);
	if (!policy_apply_to_parse(spec->apply_to, &policy->apply_to))
		assert(!"the spec was checked");
	policy->objects = objects_of(policy);
	return policy;
}

static void
policy_free(struct policy *policy)
{
	regex_free(&policy->regex);
	bytes_drop(&policy->name);
	bytes_drop(&policy->pattern);
	bytes_drop(&policy->definition);
	xfree(policy);
}

static void
list_policy(struct policy *policy)
{
	struct policies *policies = &policy->vhost->policies[policy->kind];
	struct policy *other;

	map_insert(&policies->by_name, &policy->node, policy->name);
	list_for_each (&policies->ranked, other, struct policy, ranked) {
		if (outranks(policy, other)) {
			list_insert_before(&policies->ranked, &other->ranked, &policy->ranked);
			return;
		}
	}
	list_append(&policies->ranked, &policy->ranked);
}

static void
unlist_policy(struct policy *policy)
{
	struct policies *policies = &policy->vhost->policies[policy->kind];

	map_remove(&policies->by_name, &policy->node);
	list_remove(&policies->ranked, &policy->ranked);
}

static void
warn_without_effect(const struct policy *policy)
{
	struct field_iterator iterator = table_iterate(policy->definition);
	struct field field;
	struct buf names;

	buf_init(&names, 0);
	while (field_next(&iterator, &field)) {
		const struct policy_key_row *row = policy_key_find(field.name);

		if (row->is_idle ||
		    (row->argument != NULL && args_is_without_effect(row->argument)))
			buf_addf(&names, "%s%.*s", names.n != 0 ? ", " : "",
				 BYTES_ARGS(field.name));
	}
	if (names.n != 0)
		log_warn("Keys of a policy have no effect: %s policy=%.*s "
			 "vhost=%.*s",
			 buf_cstr(&names), BYTES_ARGS(policy->name),
			 BYTES_ARGS(policy->vhost->name));
	buf_fini(&names);
}

struct policy *
policy_put(struct vhost *vhost, enum policy_kind kind, const struct policy_spec *spec)
{
	struct policy *was = policy_find(vhost, kind, spec->name);
	struct policy *is = policy_new(vhost, kind, spec);
	struct change change = {.vhost = vhost, .kind = kind, .was = was, .is = is};

	assert_not_dispatching(vhost->broker);
	if (was != NULL)
		unlist_policy(was);
	list_policy(is);
	/* before what follows from it */
	durable_policy(is, DURABLE_PUT);
	apply_change(&change);
	if (was != NULL)
		policy_free(was);
	warn_without_effect(is);
	return is;
}

void
policy_remove(struct policy *policy)
{
	struct change change = {.vhost = policy->vhost, .kind = policy->kind, .was = policy};

	assert_not_dispatching(policy->vhost->broker);
	unlist_policy(policy);
	durable_policy(policy, DURABLE_REMOVED);
	apply_change(&change);
	policy_free(policy);
}

void
policies_init(struct vhost *vhost)
{
	for (unsigned kind = 0; kind < POLICY_KIND_COUNT; kind++) {
		map_init(&vhost->policies[kind].by_name);
		list_init(&vhost->policies[kind].ranked);
	}
}

void
policies_fini(struct vhost *vhost)
{
	struct policy *policy;

	assert(vhost->queues.count == 0);
	assert(vhost->exchanges.count == 0);
	for (unsigned kind = 0; kind < POLICY_KIND_COUNT; kind++) {
		map_for_each (&vhost->policies[kind].by_name, policy, struct policy, node) {
			unlist_policy(policy);
			policy_free(policy);
		}
		map_fini(&vhost->policies[kind].by_name);
	}
}
