/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies (management.md 3): a vhost's rules for what its queues and exchanges do beside what their
 * arguments say. To each applies at most one policy and at most one operator policy, whose values
 * limit those of the first: of those that match by pattern and apply-to the one of the highest
 * priority, of two alike the one whose name comes first. The keys are in policy.def. Setting or
 * removing one takes effect before the call returns.
 *
 * What applies to an object: queue_settings(queue)->policies and exchange->policies. Broker thread.
 */
#pragma once

#include "broker/model.h"
#include "util/buf.h"

struct policy_spec {
	struct bytes name;
	struct bytes pattern;  // a regular expression, not anchored
	struct bytes apply_to; // policy_apply_to_name(); empty: "all"
	int64_t priority;
	struct bytes definition; // a validated field table: keys and values
};

/* NULL, or what is wrong, in RabbitMQ's words; it puts "Validation failed\n\n" before these and a line
 * feed behind. The text is cut at a length, and valid until the next call. */
const char *policy_check(enum policy_kind kind, const struct policy_spec *spec);
/* The same for what the pattern would cost with the names that there are, of a spec that passed policy_check(): a
 * pattern of nested repetitions could stop the broker for long. Whoever takes a policy from a user asks this too;
 * one that was taken once is not asked for again. With a name that is declared later such a pattern counts as not
 * matching, which is logged. */
const char *policy_check_cost(const struct vhost *vhost, const struct policy_spec *spec);
/* Sets it, in the place of one of that name; the spec must have passed policy_check(). */
struct policy *policy_put(struct vhost *vhost, enum policy_kind kind,
			  const struct policy_spec *spec);
void policy_remove(struct policy *policy);
/* All of a vhost, in the order in which they are looked at: vhost->policies[kind].ranked. */
struct policy *policy_find(const struct vhost *vhost, enum policy_kind kind, struct bytes name);
/* "all", "queues", ... */
const char *policy_apply_to_name(enum policy_apply_to apply_to);
/* Appends the entries of the field table that a policy and an operator policy (either may be NULL) make
 * together: effective_policy_definition. Arguments are not in it. */
void policy_effective_definition(const struct policy *const policies[POLICY_KIND_COUNT],
				 struct buf *out);
