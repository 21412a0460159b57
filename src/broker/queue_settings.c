/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a queue is asked to do with its messages, out of its arguments (amqp.md 6.4) and its policies
 * (management.md 3.4), which are valid. A queue that is asked for nothing shares the plain settings with
 * all others of its kind.
 */
#include "broker/args.h"
#include "internal.h"
#include "keys.h"
#include "policy_keys.h"
#include "util/owned.h"
#include "wire/field.h"

const struct queue_settings queue_settings_plain = {
	.ttl_ms = UINT64_MAX,
	.expires_ms = UINT64_MAX,
	.length_max = UINT64_MAX,
	.octets_max = UINT64_MAX,
	.delivery_limit = UINT64_MAX,
	.consumer_timeout_ms = UINT64_MAX,
};

/* What is not said of retries that are asked for. */
static const struct retry_settings retry_plain = {
	.initial_ms = 1000,
	.longest_ms = 3600000,
	.multiplier = 2,
	.jitter = 0.1,
	.exhausted = RETRY_DEAD_LETTER,
};

/* ---- single settings ---- */

/* What says something about a queue. */
struct sources {
	struct bytes arguments;
	const struct policy *const *policies; // POLICY_KIND_COUNT of them
};

static bool
take(const struct sources *sources, enum policy_key key, struct field *field)
{
	return policy_in_force(key, sources->arguments, sources->policies, field);
}

/* A negative number is no limit. */
static void
take_number(const struct sources *sources, enum policy_key key, uint64_t *number)
{
	struct field field;

	if (take(sources, key, &field) && field.class == FIELD_INTEGER && field.integer >= 0)
		*number = (uint64_t)field.integer;
}

static bool
take_string(const struct sources *sources, enum policy_key key, struct bytes *string)
{
	struct field field;

	if (!take(sources, key, &field) || field.class != FIELD_STRING)
		return false;
	*string = field.bytes;
	return true;
}

/* 0 is one level: that of a queue without it. */
static uint8_t
priority_max(struct bytes arguments)
{
	struct field field;

	if (!table_find(arguments, BYTES("x-max-priority"), &field) || field.class != FIELD_INTEGER)
		return 0;
	return (uint8_t)field.integer;
}

/* Quorum queues know no third way. */
static enum overflow
overflow_of(const struct sources *sources)
{
	struct bytes word;

	if (!take_string(sources, KEY_OVERFLOW, &word))
		return OVERFLOW_DROP_HEAD;
	if (bytes_equal(word, BYTES("reject-publish")))
		return OVERFLOW_REJECT;
	if (bytes_equal(word, BYTES("reject-publish-dlx")) && !args_is_quorum(sources->arguments))
		return OVERFLOW_REJECT_DEAD_LETTER;
	return OVERFLOW_DROP_HEAD;
}

static bool
is_true(struct bytes arguments, struct bytes name)
{
	struct field field;

	return table_find(arguments, name, &field) && field.class == FIELD_BOOLEAN &&
	       field.integer != 0;
}

static struct bytes
group_by(struct bytes arguments)
{
	struct field field;

	if (!table_find(arguments, BYTES("x-group-by"), &field) || field.class != FIELD_STRING)
		return bytes_of(NULL, 0);
	return field.bytes;
}

static void
take_factor(const struct sources *sources, enum policy_key key, double *factor)
{
	struct field field;

	if (take(sources, key, &field))
		(void)args_factor(&field, factor);
}

/* NULL: there are none, and what is said of them says nothing. Valid until the next call. */
static struct retry_settings *
retry_of(const struct sources *sources)
{
	static struct retry_settings r;
	struct bytes word;

	r = retry_plain;
	r.max = UINT64_MAX;
	take_number(sources, KEY_RETRY_MAX, &r.max);
	if (r.max == UINT64_MAX)
		return NULL;
	take_number(sources, KEY_RETRY_INITIAL, &r.initial_ms);
	take_number(sources, KEY_RETRY_MAX_INTERVAL, &r.longest_ms);
	take_factor(sources, KEY_RETRY_MULTIPLIER, &r.multiplier);
	take_factor(sources, KEY_RETRY_JITTER, &r.jitter);
	if (take_string(sources, KEY_RETRY_EXHAUSTED, &word)) {
		if (bytes_equal(word, BYTES("park")))
			r.exhausted = RETRY_PARK;
		else if (bytes_equal(word, BYTES("drop")))
			r.exhausted = RETRY_DROP;
	}
	return &r;
}

/* ---- all of them ---- */

/* Strings are views of the arguments and of the policies; retry is valid until the next call. */
static struct queue_settings
settings_of(const struct sources *sources)
{
	struct queue_settings s = queue_settings_plain;

	take_number(sources, KEY_MESSAGE_TTL, &s.ttl_ms);
	take_number(sources, KEY_EXPIRES, &s.expires_ms);
	take_number(sources, KEY_MAX_LENGTH, &s.length_max);
	take_number(sources, KEY_MAX_LENGTH_BYTES, &s.octets_max);
	take_number(sources, KEY_DELIVERY_LIMIT, &s.delivery_limit);
	take_number(sources, KEY_CONSUMER_TIMEOUT, &s.consumer_timeout_ms);
	s.overflow = overflow_of(sources);
	s.priority_max = priority_max(sources->arguments);
	s.single_active = is_true(sources->arguments, BYTES("x-single-active-consumer"));
	s.dead_letters = take_string(sources, KEY_DEAD_LETTER_EXCHANGE, &s.dead_exchange);
	s.has_dead_key = take_string(sources, KEY_DEAD_LETTER_ROUTING_KEY, &s.dead_key);
	s.group_by = group_by(sources->arguments);
	s.retry = retry_of(sources);
	memcpy(s.policies, sources->policies, sizeof(s.policies));
	return s;
}

static bool
is_same_retry(const struct retry_settings *a, const struct retry_settings *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return a->max == b->max && a->initial_ms == b->initial_ms &&
	       a->longest_ms == b->longest_ms && a->multiplier == b->multiplier &&
	       a->jitter == b->jitter && a->exhausted == b->exhausted;
}

/* Apart from where it comes from. */
static bool
is_same(const struct queue_settings *a, const struct queue_settings *b)
{
	return a->ttl_ms == b->ttl_ms && a->expires_ms == b->expires_ms &&
	       a->length_max == b->length_max && a->octets_max == b->octets_max &&
	       a->delivery_limit == b->delivery_limit &&
	       a->consumer_timeout_ms == b->consumer_timeout_ms &&
	       a->priority_max == b->priority_max && a->single_active == b->single_active &&
	       a->dead_letters == b->dead_letters && a->has_dead_key == b->has_dead_key &&
	       a->overflow == b->overflow && bytes_equal(a->dead_exchange, b->dead_exchange) &&
	       bytes_equal(a->dead_key, b->dead_key) && bytes_equal(a->group_by, b->group_by) &&
	       is_same_retry(a->retry, b->retry);
}

static void
drop_settings(struct queue *q)
{
	struct queue_settings *s = q->own_settings;

	if (s == NULL)
		return;
	bytes_drop(&s->dead_exchange);
	bytes_drop(&s->dead_key);
	bytes_drop(&s->group_by);
	xfree(s->retry);
	slab_free(s, sizeof(*s));
	q->own_settings = NULL;
}

void
life_need(struct queue *q)
{
	if (q->life != NULL)
		return;
	q->life = slab_alloc(sizeof(*q->life));
	*q->life = (struct queue_life){
		.queue = q, .trim = {.run = limits_on_deadline}, .due = {.run = ttl_on_deadline}};
	list_init(&q->life->parts);
}

void
life_stop(struct queue *q)
{
	if (q->life == NULL)
		return;
	deadline_clear(q->vhost->broker->deadlines, &q->life->trim);
	deadline_clear(q->vhost->broker->deadlines, &q->life->due);
	queue_forget_dying(q);
	keys_end_queue(q);
}

static void
set_flag(struct queue *q, enum queue_flag flag, bool on)
{
	q->flags = (q->flags & ~(unsigned)flag) | (on ? flag : 0);
	if (on)
		life_need(q);
}

static void
keep_settings(struct queue *q, const struct queue_settings *found)
{
	drop_settings(q);
	if (is_same(found, &queue_settings_plain) && found->policies[POLICY_USER] == NULL &&
	    found->policies[POLICY_OPERATOR] == NULL)
		return;
	q->own_settings = slab_alloc(sizeof(*q->own_settings));
	*q->own_settings = *found;
	q->own_settings->dead_exchange = bytes_dup(found->dead_exchange);
	q->own_settings->dead_key = bytes_dup(found->dead_key);
	q->own_settings->group_by = bytes_dup(found->group_by);
	if (found->retry != NULL)
		q->own_settings->retry = xmemdup(found->retry, sizeof(*found->retry));
}

static void
set(struct queue *q, const struct queue_settings *found)
{
	set_flag(q, QUEUE_LIMITED,
		 found->length_max != UINT64_MAX || found->octets_max != UINT64_MAX);
	set_flag(q, QUEUE_COUNTS,
		 found->delivery_limit != UINT64_MAX || args_is_quorum(q->arguments));
	set_flag(q, QUEUE_RETRIES, found->retry != NULL);
	/* one that is active alone has all keys */
	set_flag(q, QUEUE_GROUPED, found->group_by.n > 0 && !found->single_active);
	if (q->flags & QUEUE_GROUPED)
		groups_begin(q);
	/* a key would have to be held over all levels: not asked for together, unless it was before there were any */
	set_flag(q, QUEUE_PRIORITIES, found->priority_max > 0 && !(q->flags & QUEUE_GROUPED));
	/* some messages may have limits of their own, so it stays */
	if (found->ttl_ms != UINT64_MAX)
		set_flag(q, QUEUE_TTL, true);
	keep_settings(q, found);
	parts_set(q);
}

void
queue_settings_make(struct queue *q, const struct policy *const policies[POLICY_KIND_COUNT])
{
	struct sources sources = {.arguments = q->arguments, .policies = policies};
	struct queue_settings found = settings_of(&sources);

	set(q, &found);
	keys_set_queue(q, policies);
	queue_expiry_changed(q);
}

void
queue_settings_update(struct queue *q, const struct policy *const policies[POLICY_KIND_COUNT])
{
	struct sources sources = {.arguments = q->arguments, .policies = policies};
	struct queue_settings found = settings_of(&sources);
	bool is_changed = !is_same(&found, queue_settings(q));
	uint64_t expires_ms = queue_settings(q)->expires_ms;

	set(q, &found);
	keys_set_queue(q, policies);
	if (found.expires_ms != expires_ms)
		queue_expiry_changed(q);
	if (is_changed)
		queue_settings_changed(q);
}

static void
arm(void *context, struct queue *q)
{
	(void)context;
	if (q->flags & QUEUE_TTL)
		ttl_arm(q);
}

void
queue_settings_changed(struct queue *q)
{
	arm(NULL, q);
	if (q->flags & QUEUE_PRIORITIES)
		levels_each(q, arm, NULL);
	limits_enforce(q);
	queue_wake_yielders(q); // why they wait may be over
	queue_touch(q);
}

void
queue_settings_leave(struct queue *q)
{
	if (q->own_settings != NULL)
		memset(q->own_settings->policies, 0, sizeof(q->own_settings->policies));
}

void
queue_settings_end(struct queue *q)
{
	drop_settings(q);
	if (q->life == NULL)
		return;
	assert(!deadline_is_set(&q->life->trim));
	assert(!deadline_is_set(&q->life->due));
	assert(q->life->expiry == NULL);
	assert(q->life->groups == NULL);
	assert(q->life->part == NULL);
	assert(list_empty(&q->life->parts));
	assert(q->life->deduplication == NULL);
	assert(q->life->levels == NULL);
	xfree(q->life->own);
	slab_free(q->life, sizeof(*q->life));
	q->life = NULL;
}
