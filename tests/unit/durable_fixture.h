/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of durable definitions share: a broker with a store on a simulated disk, which is closed or
 * killed and opened again with a new broker; a text of everything in a broker that must survive, to compare the two;
 * and a list of definitions as octets, as the log or a checkpoint has them.
 */
#pragma once

#include "broker/binding.h"
#include "broker/broker.h"
#include "broker/durable.h"
#include "broker/exchange.h"
#include "broker/internal.h"
#include "broker/limits.h"
#include "broker/policy.h"
#include "broker/queue.h"
#include "broker/user.h"
#include "broker/vhost.h"
#include "store/store.h"
#include "util/owned.h"

#include "lib/disk_sim.h"
#include "lib/runner.h"

#define LIST_MAX 20000
#define QUEUE_ID_MAX 4096

/* ---- definitions as octets ---- */

struct definition_list {
	struct bytes items[LIST_MAX]; // owns each
	size_t count;
};

static inline void
list_add_definition(void *context, const struct definition *definition)
{
	struct definition_list *list = context;
	size_t size = definition_size(definition);
	uint8_t *p = xmalloc(size);

	ck_assert_uint_lt(list->count, LIST_MAX);
	definition_encode(p, definition);
	list->items[list->count++] = bytes_of(p, size);
}

static inline void
list_drop(struct definition_list *list)
{
	while (list->count > 0)
		bytes_drop(&list->items[--list->count]);
}

/* ---- a model as text ---- */

struct lines {
	struct buf items[LIST_MAX];
	size_t count;
};

static inline struct buf *
line_begin(struct lines *lines, const char *kind)
{
	struct buf *line = &lines->items[lines->count++];

	ck_assert_uint_lt(lines->count, LIST_MAX);
	buf_init(line, 0);
	buf_add_str(line, kind);
	return line;
}

static inline void
line_add(struct buf *line, struct bytes octets)
{
	buf_add_str(line, " ");
	for (size_t i = 0; i < octets.n; i++) {
		if (octets.p[i] > ' ' && octets.p[i] < 127)
			buf_add_byte(line, octets.p[i]);
		else
			buf_addf(line, "\\%02x", octets.p[i]);
	}
}

static inline int
line_compare(const void *a, const void *b)
{
	const struct buf *x = a;
	const struct buf *y = b;

	return bytes_compare(buf_bytes(x), buf_bytes(y));
}

static inline void
dump_user(struct lines *lines, const struct user *user)
{
	const struct user_permission *permission;
	const struct topic_permission *topic;
	struct buf *line = line_begin(lines, "user");

	line_add(line, user->name);
	line_add(line, user->password_hash);
	buf_addf(line, " kind=%d tags=%u limits=%lld,%lld", user->hash_kind, user->tags,
		 (long long)user->max_connections, (long long)user->max_channels);
	map_for_each (&user->permissions, permission, struct user_permission, node) {
		line = line_begin(lines, "permission");
		line_add(line, user->name);
		line_add(line, permission->vhost);
		for (size_t i = 0; i < PERMISSION_COUNT; i++)
			line_add(line, permission->patterns[i].text);
	}
	map_for_each (&user->topic_permissions, topic, struct topic_permission, node) {
		line = line_begin(lines, "topic");
		line_add(line, user->name);
		line_add(line, topic->vhost);
		line_add(line, topic->exchange);
		line_add(line, topic->write.text);
		line_add(line, topic->read.text);
	}
}

static inline void
dump_binding(struct lines *lines, const struct binding *binding)
{
	struct buf *line = line_begin(lines, binding->queue != NULL ? "to_queue" : "to_exchange");

	line_add(line, binding->source->vhost->name);
	line_add(line, binding->source->name);
	line_add(line, binding->queue != NULL ? binding->queue->name : binding->exchange->name);
	line_add(line, binding->key);
	line_add(line, binding->arguments);
}

static inline struct bytes
name_of(const struct policy *policy)
{
	return policy == NULL ? BYTES("-") : policy->name;
}

static inline void
dump_parts(struct lines *lines, const struct list *parts, bool all)
{
	const struct queue_part *part;

	list_for_each (parts, part, struct queue_part, of_owner) {
		const struct queue *q = part->queue;
		struct buf *line;

		if (!all && !(q->flags & QUEUE_DURABLE))
			continue;
		line = line_begin(lines, part->of_queue != NULL ? "part" : "part_of_exchange");
		line_add(line, q->vhost->name);
		line_add(line, q->name);
		ck_assert_ptr_nonnull(q->log);
		ck_assert_ptr_eq(q->log->owner, q);
		buf_addf(line, " number=%u id=%llu length_max=%llu", part->number,
			 (unsigned long long)q->log->id,
			 (unsigned long long)queue_settings(q)->length_max);
	}
}

static inline void
dump_exchange(struct lines *lines, const struct exchange *exchange, bool all)
{
	const struct binding *binding;
	struct buf *line = line_begin(lines, "exchange");

	line_add(line, exchange->vhost->name);
	line_add(line, exchange->name);
	buf_addf(line, " %s durable=%d auto_delete=%d internal=%d", exchange_type_name(exchange),
		 exchange->durable, exchange->auto_delete, exchange->internal);
	line_add(line, exchange->arguments);
	line_add(line, exchange->alternate);
	for (unsigned kind = 0; kind < POLICY_KIND_COUNT; kind++)
		line_add(line, name_of(exchange->policies[kind]));
	dump_parts(lines, &exchange->parts, all);
	list_for_each (&exchange->bindings_out, binding, struct binding, of_source) {
		bool durable = binding->queue != NULL ? (binding->queue->flags & QUEUE_DURABLE) != 0
						      : binding->exchange->durable;

		if (all || durable)
			dump_binding(lines, binding);
	}
}

static inline void
dump_policies(struct lines *lines, const struct vhost *vhost)
{
	const struct policy *policy;

	for (unsigned kind = 0; kind < POLICY_KIND_COUNT; kind++) {
		list_for_each (&vhost->policies[kind].ranked, policy, struct policy, ranked) {
			struct buf *line = line_begin(lines, "policy");

			line_add(line, vhost->name);
			line_add(line, policy->name);
			buf_addf(line, " kind=%u to=%s priority=%lld", kind,
				 policy_apply_to_name(policy->apply_to),
				 (long long)policy->priority);
			line_add(line, policy->pattern);
			line_add(line, policy->definition);
		}
	}
}

static inline void
dump_vhost(struct lines *lines, const struct vhost *vhost, bool all)
{
	const struct exchange *exchange;
	const struct queue *q;
	struct buf *line = line_begin(lines, "vhost");

	line_add(line, vhost->name);
	buf_addf(line, " limits=%lld,%lld", (long long)vhost->max_connections,
		 (long long)vhost->max_queues);
	dump_policies(lines, vhost);
	map_for_each (&vhost->exchanges, exchange, struct exchange, node) {
		if (all || exchange->durable)
			dump_exchange(lines, exchange, all);
	}
	map_for_each (&vhost->queues, q, struct queue, node) {
		if (!all && !(q->flags & QUEUE_DURABLE))
			continue;
		line = line_begin(lines, "queue");
		line_add(line, vhost->name);
		line_add(line, q->name);
		ck_assert_ptr_nonnull(q->log);
		ck_assert_ptr_eq(q->log->owner, q);
		buf_addf(line, " id=%llu auto_delete=%d", (unsigned long long)q->log->id,
			 (q->flags & QUEUE_AUTO_DELETE) != 0);
		line_add(line, q->arguments);
		for (unsigned kind = 0; kind < POLICY_KIND_COUNT; kind++)
			line_add(line, name_of(queue_settings(q)->policies[kind]));
		buf_addf(line, " length_max=%llu",
			 (unsigned long long)queue_settings(q)->length_max);
		if (q->life != NULL)
			dump_parts(lines, &q->life->parts, all);
	}
}

/* A line for each thing, sorted; without all only for what must survive. The caller ends it. */
static inline struct buf
dump(const struct broker *of, bool all)
{
	static struct lines lines;
	const struct vhost *vhost;
	const struct user *user;
	struct buf text;

	broker_check(of);
	lines.count = 0;
	map_for_each (&of->vhosts, vhost, struct vhost, node)
		dump_vhost(&lines, vhost, all);
	map_for_each (&of->users, user, struct user, node)
		dump_user(&lines, user);
	if (lines.count > 0)
		qsort(lines.items, lines.count, sizeof(lines.items[0]), line_compare);
	buf_init(&text, 0);
	for (size_t i = 0; i < lines.count; i++) {
		buf_add_bytes(&text, buf_bytes(&lines.items[i]));
		buf_add_str(&text, "\n");
		buf_fini(&lines.items[i]);
	}
	return text;
}

/* Both texts end here. */
static inline void
assert_same_dump(struct buf *expected, struct buf *found)
{
	ck_assert_str_eq(buf_cstr(found), buf_cstr(expected));
	buf_fini(expected);
	buf_fini(found);
}

/* ---- brokers ---- */

static struct deadlines deadlines;
static struct disk_sim *disk;
static struct store *store;
static struct broker *broker;
static struct definition_list logged; // what the latest opening read back

static inline struct broker *
new_broker(void)
{
	struct broker_options options = broker_options_default();

	return broker_new(&deadlines, &options);
}

static inline void
take_definition(void *context, const struct definition *definition, struct queue_log *log)
{
	list_add_definition(&logged, definition);
	broker_apply_definition(context, definition, log);
}

static inline void
no_message(void *context, const struct stored_message *message, const struct stored_ref *refs,
	   uint32_t count)
{
	(void)context;
	(void)message;
	(void)refs;
	ck_abort_msg("%u references of a message that nobody published", count);
}

static inline void
take_snapshot(void *context, struct store *of)
{
	broker_snapshot(context, of);
}

static inline void
take_stable(void *context, uint64_t lsn)
{
	(void)context;
	(void)lsn;
}

static inline void
take_space(void *context, bool is_short)
{
	(void)context;
	(void)is_short;
}

static inline void
take_failure(void *context, int error, const char *what)
{
	(void)context;
	ck_abort_msg("%s: %d", what, error);
}

static const struct store_ops store_ops = {
	.define = take_definition,
	.message = no_message,
	.snapshot = take_snapshot,
	.stable = take_stable,
	.short_of_space = take_space,
	.failed = take_failure,
};

static inline void
open_broker(void)
{
	struct store_options options = store_options_default();
	struct buf error;
	int status;

	options.node_name = "test";
	options.file_size = 1024 * 1024;
	buf_init(&error, 0);
	list_drop(&logged);
	broker = new_broker();
	broker->recovering = true;
	status = store_open(&store, &disk->disk, &options, &store_ops, broker, &error);
	ck_assert_msg(status == 0, "%s", buf_cstr(&error));
	buf_fini(&error);
	broker_end_recovery(broker);
	broker->store = store;
}

/* Everything that was logged is on the disk. */
static inline void
write_all(void)
{
	struct now now = {.monotonic_ms = 1000000};

	while (store_stable(store) < broker->effect_lsn) {
		store_submit(store, now, false);
		ck_assert(store_work(store));
		store_receive(store);
	}
}

/* The process ends without a checkpoint: the next one has the log. */
static inline void
kill_broker(void)
{
	write_all();
	ck_assert_int_eq(store_close(&store, false), 0);
	broker_free(&broker);
	disk_sim_forget(disk);
}

/* The next one has a checkpoint. */
static inline void
close_broker(void)
{
	ck_assert_int_eq(store_close(&store, true), 0);
	broker_free(&broker);
	disk_sim_forget(disk);
}

static inline void
reopen_broker_after(void (*end)(void))
{
	struct buf expected = dump(broker, false);
	struct buf found;

	end();
	open_broker();
	found = dump(broker, true);
	assert_same_dump(&expected, &found);
}

/* What must survive does, and nothing else is there afterwards: by log and by checkpoint. */
static inline void
reopen_broker(void)
{
	reopen_broker_after(kill_broker);
	reopen_broker_after(close_broker);
}

static inline void
durable_set_up(void)
{
	deadlines_init(&deadlines);
	disk = disk_sim_new();
	open_broker();
}

static inline void
durable_tear_down(void)
{
	close_broker();
	list_drop(&logged);
	disk_sim_free(&disk);
	deadlines_fini(&deadlines);
}

/* ---- brokers from lists ---- */

/* Logs of queues by id for a broker without a store. */
struct loose_logs {
	struct queue_log items[QUEUE_ID_MAX];
};

/* Reads definitions from..to of the list. */
static inline void
apply_list(struct broker *to, const struct definition_list *list, size_t first, size_t end,
	   struct loose_logs *logs)
{
	struct definition definition;
	struct queue_log *log = NULL;

	for (size_t i = first; i < end; i++) {
		ck_assert_int_eq(definition_decode(&definition, list->items[i]), 0);
		if (definition_has_queue(&definition)) {
			ck_assert_uint_lt(definition.queue_id, QUEUE_ID_MAX);
			log = &logs->items[definition.queue_id];
			log->id = definition.queue_id;
		}
		broker_apply_definition(to, &definition, log);
	}
}
