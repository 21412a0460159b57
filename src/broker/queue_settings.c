/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a queue is asked to do with its messages, out of its arguments (amqp.md 6.4), which are valid. A queue
 * that is asked for nothing shares the plain settings with all others of its kind.
 */
#include "broker/args.h"
#include "internal.h"
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

/* ---- single arguments ---- */

/* A negative number is no limit. */
static void
take_number(struct bytes arguments, struct bytes name, uint64_t *number)
{
	struct field field;

	if (table_find(arguments, name, &field) && field.class == FIELD_INTEGER &&
	    field.integer >= 0)
		*number = (uint64_t)field.integer;
}

static bool
take_string(struct bytes arguments, struct bytes name, struct bytes *string)
{
	struct field field;

	if (!table_find(arguments, name, &field) || field.class != FIELD_STRING)
		return false;
	*string = field.bytes;
	return true;
}

/* x-max-priority 0 makes two levels all the same (amqp.md 6.4). */
static uint8_t
priority_max(struct bytes arguments)
{
	struct field field;

	if (!table_find(arguments, BYTES("x-max-priority"), &field) || field.class != FIELD_INTEGER)
		return 0;
	return (uint8_t)max_u64(1, (uint64_t)field.integer);
}

/* Quorum queues know no third way. */
static enum overflow
overflow_of(struct bytes arguments)
{
	struct bytes word;

	if (!take_string(arguments, BYTES("x-overflow"), &word))
		return OVERFLOW_DROP_HEAD;
	if (bytes_equal(word, BYTES("reject-publish")))
		return OVERFLOW_REJECT;
	if (bytes_equal(word, BYTES("reject-publish-dlx")) && !args_is_quorum(arguments))
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

/* ---- all of them ---- */

/* Strings are views of the arguments. */
static struct queue_settings
settings_of(struct bytes arguments)
{
	struct queue_settings s = queue_settings_plain;

	take_number(arguments, BYTES("x-message-ttl"), &s.ttl_ms);
	take_number(arguments, BYTES("x-expires"), &s.expires_ms);
	take_number(arguments, BYTES("x-max-length"), &s.length_max);
	take_number(arguments, BYTES("x-max-length-bytes"), &s.octets_max);
	take_number(arguments, BYTES("x-delivery-limit"), &s.delivery_limit);
	take_number(arguments, BYTES("x-consumer-timeout"), &s.consumer_timeout_ms);
	s.overflow = overflow_of(arguments);
	s.priority_max = priority_max(arguments);
	s.single_active = is_true(arguments, BYTES("x-single-active-consumer"));
	s.dead_letters = take_string(arguments, BYTES("x-dead-letter-exchange"), &s.dead_exchange);
	s.has_dead_key = take_string(arguments, BYTES("x-dead-letter-routing-key"), &s.dead_key);
	return s;
}

static bool
is_plain(const struct queue_settings *s)
{
	return s->ttl_ms == UINT64_MAX && s->expires_ms == UINT64_MAX &&
	       s->length_max == UINT64_MAX && s->octets_max == UINT64_MAX &&
	       s->delivery_limit == UINT64_MAX && s->consumer_timeout_ms == UINT64_MAX &&
	       s->priority_max == 0 && !s->single_active && !s->dead_letters && !s->has_dead_key &&
	       s->overflow == OVERFLOW_DROP_HEAD;
}

static void
drop_settings(struct queue *q)
{
	struct queue_settings *s = q->own_settings;

	if (s == NULL)
		return;
	bytes_drop(&s->dead_exchange);
	bytes_drop(&s->dead_key);
	slab_free(s, sizeof(*s));
	q->own_settings = NULL;
}

void
life_need(struct queue *q)
{
	if (q->life != NULL)
		return;
	q->life = slab_alloc(sizeof(*q->life));
	*q->life = (struct queue_life){.queue = q, .due = {.run = expiry_on_deadline}};
}

void
life_stop(struct queue *q)
{
	if (q->life != NULL)
		deadline_clear(q->vhost->broker->deadlines, &q->life->due);
}

static void
set_flag(struct queue *q, enum queue_flag flag, bool on)
{
	q->flags = (q->flags & ~(unsigned)flag) | (on ? flag : 0);
	if (on)
		life_need(q);
}

void
queue_settings_update(struct queue *q)
{
	struct queue_settings found = settings_of(q->arguments);

	drop_settings(q);
	set_flag(q, QUEUE_LIMITED,
		 found.length_max != UINT64_MAX || found.octets_max != UINT64_MAX);
	if (found.ttl_ms != UINT64_MAX)
		set_flag(q, QUEUE_EXPIRES, true);
	if (is_plain(&found))
		return;
	q->own_settings = slab_alloc(sizeof(*q->own_settings));
	*q->own_settings = found;
	q->own_settings->dead_exchange = bytes_dup(found.dead_exchange);
	q->own_settings->dead_key = bytes_dup(found.dead_key);
}

void
queue_settings_end(struct queue *q)
{
	drop_settings(q);
	if (q->life == NULL)
		return;
	assert(!deadline_is_set(&q->life->due));
	xfree(q->life->expiries);
	slab_free(q->life, sizeof(*q->life));
	q->life = NULL;
}
