/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an exchange or a queue is asked to remember, by its arguments and policies (amqp.md 5.8): two products know
 * x-message-deduplication, and both are understood. An exchange of that type always deduplicates and must say how
 * much it remembers; any other exchange, and a queue, does so when an argument of that name is true.
 *
 * When policies change what is remembered (another header, or another kind), what there was counts for nothing. When
 * they change how much or for how long only, it stays, as far as there is room.
 */
#include "keys.h"

#include "internal.h"
#include "policy_keys.h"
#include "util/owned.h"
#include "wire/field.h"

#define SWITCH BYTES("x-message-deduplication")
#define SIZE BYTES("x-cache-size")
#define TTL BYTES("x-cache-ttl")
#define HEADER BYTES("x-deduplication-header")
#define PERSISTENCE BYTES("x-cache-persistence")

#define SIZE_DEFAULT 128

/* ---- arguments of an exchange ---- */

/* A number, or the digits of one, as the plugin has it. */
static bool
number_of(const struct field *field, int64_t *number)
{
	if (field->class == FIELD_INTEGER) {
		*number = field->integer;
		return true;
	}
	if (field->class != FIELD_STRING || field->bytes.n == 0 || field->bytes.n > 18)
		return false;
	*number = 0;
	for (size_t i = 0; i < field->bytes.n; i++) {
		if (field->bytes.p[i] < '0' || field->bytes.p[i] > '9')
			return false;
		*number = *number * 10 + (field->bytes.p[i] - '0');
	}
	return true;
}

static bool
is_size(const struct field *field)
{
	int64_t number;

	return number_of(field, &number) && number > 0 && number <= DEDUPLICATION_SIZE_MAX;
}

static bool
is_ttl(const struct field *field)
{
	int64_t number;

	return number_of(field, &number) && number > 0;
}

static bool
is_header(const struct field *field)
{
	return field->class == FIELD_STRING && field->bytes.n > 0 && field->bytes.n <= UINT8_MAX;
}

static bool
is_persistence(const struct field *field)
{
	return field->class == FIELD_STRING && (bytes_equal(field->bytes, BYTES("memory")) ||
						bytes_equal(field->bytes, BYTES("disk")));
}

static bool
is_boolean(const struct field *field)
{
	return field->class == FIELD_BOOLEAN;
}

static const struct {
	struct bytes name;
	bool (*is_valid)(const struct field *field);
	const char *must;
} checks[] = {
	{SIZE, is_size, "must be an integer greater than 0, and 16777216 at most"},
	{TTL, is_ttl, "must be an integer greater than 0"},
	{PERSISTENCE, is_persistence, "must be either 'disk' or 'memory'"},
	{HEADER, is_header, "must be a string, the name of a header"},
};

static bool
is_of_type(struct bytes type)
{
	return bytes_equal(type, exchange_type_deduplication.name);
}

const struct reply *
deduplication_check(const struct vhost *vhost, const struct exchange_spec *spec)
{
	struct field field;
	bool has_switch = table_find(spec->arguments, SWITCH, &field);

	/* what an older version took for unknown is there, and what is not valid of it is not asked for */
	if (vhost->broker->recovering)
		return NULL;
	if (has_switch && !is_boolean(&field))
		return refuse(PRECONDITION_FAILED,
			      "Invalid argument, 'x-message-deduplication' must be a boolean in "
			      "exchange '%.*s' in vhost '%.*s'",
			      BYTES_ARGS(spec->name), BYTES_ARGS(vhost->name));
	if (!is_of_type(spec->type) && (!has_switch || field.integer == 0))
		return NULL;
	if (is_of_type(spec->type) && !table_find(spec->arguments, SIZE, &field))
		return refuse(PRECONDITION_FAILED,
			      "Missing or invalid argument, 'x-cache-size' %s in exchange '%.*s' "
			      "in vhost '%.*s'",
			      checks[0].must, BYTES_ARGS(spec->name), BYTES_ARGS(vhost->name));
	for (size_t i = 0; i < countof(checks); i++)
		if (table_find(spec->arguments, checks[i].name, &field) &&
		    !checks[i].is_valid(&field))
			return refuse(PRECONDITION_FAILED,
				      "Invalid argument, '%.*s' %s in exchange '%.*s' in vhost "
				      "'%.*s'",
				      BYTES_ARGS(checks[i].name), checks[i].must,
				      BYTES_ARGS(spec->name), BYTES_ARGS(vhost->name));
	return NULL;
}

/* ---- what is in force ---- */

struct rules {
	bool is_on;
	bool while_queued;
	bool is_kept;
	uint32_t size;
	uint64_t ttl_ms;
	struct bytes header; // a view of the arguments or of a policy
};

struct sources {
	struct bytes arguments;
	const struct policy *const *policies; // POLICY_KIND_COUNT of them
};

/* Each key has two names in policies, ours and the plugin's; that which is not valid for an object is as if it was
 * not said. */
static bool
take(const struct sources *from, enum policy_key ours, enum policy_key plugins,
     bool (*is_valid)(const struct field *field), struct field *field)
{
	return (policy_in_force(ours, from->arguments, from->policies, field) ||
		policy_in_force(plugins, from->arguments, from->policies, field)) &&
	       is_valid(field);
}

static struct rules
rules_of(const struct sources *from, bool is_queue, bool always)
{
	struct rules rules = {.ttl_ms = UINT64_MAX, .is_kept = true, .header = HEADER};
	struct field field;
	int64_t number;
	bool is_limited = false;

	rules.is_on = always || (take(from, KEY_MESSAGE_DEDUPLICATION, KEY_X_MESSAGE_DEDUPLICATION,
				      is_boolean, &field) &&
				 field.integer != 0);
	if (!rules.is_on)
		return rules;
	rules.size = SIZE_DEFAULT;
	if (take(from, KEY_CACHE_SIZE, KEY_X_CACHE_SIZE, is_size, &field) &&
	    number_of(&field, &number)) {
		rules.size = (uint32_t)number;
		is_limited = true;
	}
	if (take(from, KEY_CACHE_TTL, KEY_X_CACHE_TTL, is_ttl, &field) &&
	    number_of(&field, &number)) {
		rules.ttl_ms = (uint64_t)number;
		is_limited = true;
	}
	if (take(from, KEY_DEDUPLICATION_HEADER, KEY_X_DEDUPLICATION_HEADER, is_header, &field))
		rules.header = field.bytes;
	if (take(from, KEY_CACHE_PERSISTENCE, KEY_X_CACHE_PERSISTENCE, is_persistence, &field))
		rules.is_kept = bytes_equal(field.bytes, BYTES("disk"));
	rules.while_queued = is_queue && !is_limited;
	if (rules.while_queued)
		rules.size = UINT32_MAX;
	return rules;
}

static bool
remembers_the_same(const struct deduplication *d, const struct rules *rules)
{
	if (!rules->is_on || d->while_queued != rules->while_queued)
		return false;
	/* what recovery made had the header that it has now, or would have been forgotten */
	return !d->is_claimed || bytes_equal(d->header, rules->header);
}

/* Makes *place what is asked for; new is called for a new one. */
static void
set_rules(struct deduplication **place, struct exchange *exchange, struct queue *q,
	  const struct rules *rules)
{
	struct deduplication *d = *place;
	bool was_kept = d != NULL && keys_are_kept(d);

	if (d != NULL && !remembers_the_same(d, rules)) {
		keys_forget(d);
		keys_drop(place);
	}
	if (!rules->is_on)
		return;
	if (*place == NULL)
		*place = keys_new(exchange, q, rules->while_queued);
	else if (was_kept && !rules->is_kept)
		keys_forget(d);
	d = *place;
	d->is_claimed = true;
	d->is_kept = rules->is_kept;
	d->ttl_ms = rules->ttl_ms;
	if (!bytes_equal(d->header, rules->header)) {
		bytes_drop(&d->header);
		d->header = bytes_dup(rules->header);
	}
	key_cache_set_limit(&d->keys, rules->size);
}

void
keys_set_exchange(struct exchange *exchange)
{
	struct sources sources = {.arguments = exchange->arguments, .policies = exchange->policies};
	struct rules rules;
	bool was_on = exchange->deduplication != NULL;

	/* the default one has none, as it has no alternate */
	if (exchange->vhost->broker->recovering || exchange->name.n == 0)
		return;
	rules = rules_of(&sources, false, exchange->type == &exchange_type_deduplication);
	set_rules(&exchange->deduplication, exchange, NULL, &rules);
	/* whether a route over it may be remembered is otherwise now */
	if (was_on != rules.is_on)
		exchange->vhost->routing_version++;
}

/* Parts of it give up keys of it. */
static void
set_flags(struct queue *q, unsigned flags)
{
	struct queue_part *part;

	q->flags = (q->flags & ~(unsigned)(QUEUE_DEDUPLICATES | QUEUE_HOLDS_KEYS)) | flags;
	list_for_each (&q->life->parts, part, struct queue_part, of_owner)
		part->queue->flags = (part->queue->flags & ~(unsigned)QUEUE_HOLDS_KEYS) |
				     (flags & QUEUE_HOLDS_KEYS);
}

void
keys_set_queue(struct queue *q, const struct policy *const policies[POLICY_KIND_COUNT])
{
	struct sources sources = {.arguments = q->arguments, .policies = policies};
	struct rules rules;

	if (q->vhost->broker->recovering)
		return;
	rules = rules_of(&sources, true, false);
	if (!rules.is_on && (q->life == NULL || q->life->deduplication == NULL))
		return;
	life_need(q);
	set_rules(&q->life->deduplication, NULL, q, &rules);
	set_flags(q, (rules.is_on ? QUEUE_DEDUPLICATES : 0) |
			     (rules.while_queued ? QUEUE_HOLDS_KEYS : 0));
}

void
keys_end_queue(struct queue *q)
{
	set_flags(q, 0);
	keys_drop(&q->life->deduplication);
}

void
keys_recovered(struct broker *broker)
{
	struct vhost *vhost;
	struct exchange *exchange;
	struct deduplication *d;

	map_for_each (&broker->vhosts, vhost, struct vhost, node)
		map_for_each (&vhost->exchanges, exchange, struct exchange, node)
			keys_set_exchange(exchange);
	list_for_each (&broker->deduplicating, d, struct deduplication, of_broker)
		keys_prune(d);
}
