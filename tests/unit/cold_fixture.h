/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of queues longer than their window share: a broker with a store on a simulated disk, and for
 * each of its queues a plain list of what was published to it, with which everything that comes out of the
 * queue is compared: it must be the first of the list that is ready, octet by octet. Restarts keep in the
 * list what must have survived. What the threads of the store do is done by step_store() alone, so that a
 * read takes as long as a test wants.
 */
#pragma once

#include "unit/cold_lists.h"
#include "wire/field.h"

/* ---- the broker and the store ---- */

static inline void
on_define(void *context, const struct definition *definition, struct queue_log *log)
{
	broker_apply_definition(context, definition, log);
}

static inline void
on_read(void *context, struct queue_log *log, uint64_t qseq, const struct stored_message *message,
	bool redelivered)
{
	reads++;
	broker_read_message(context, log, qseq, message, redelivered);
}

static inline void
on_read_end(void *context, struct queue_log *log)
{
	broker_read_end(context, log);
}

static inline void
on_read_this(void *context, struct queue_log *log, uint64_t qseq,
	     const struct stored_message *message, bool redelivered)
{
	broker_read_this(context, log, qseq, message, redelivered);
}

static inline void
on_read_these_end(void *context, struct queue_log *log)
{
	reads++;
	broker_read_these_end(context, log);
}

static inline void
on_deadlines(void *context)
{
	broker_deadlines_changed(context);
}

static inline void
on_paged_out(void *context, void *owner, int error)
{
	pages_out++;
	page_error = error;
	broker_paged_out(context, owner, error);
}

static inline void
on_paged_in(void *context, void *owner)
{
	pages_in++;
	broker_paged_in(context, owner);
}

static inline void
on_snapshot(void *context, struct store *of)
{
	broker_snapshot(context, of);
}

static inline void
on_key(void *context, const struct key_record *key)
{
	broker_apply_key(context, key);
}

static inline void
on_snapshot_keys(void *context, struct store *of)
{
	broker_snapshot_keys(context, of);
}

static inline void
on_stable(void *context, uint64_t lsn)
{
	stable = lsn;
	broker_set_stable(context, lsn);
}

static inline void
on_space(void *context, bool is_short)
{
	(void)context;
	ck_assert(!is_short);
}

static inline void
on_failure(void *context, int error, const char *what)
{
	(void)context;
	ck_abort_msg("%s: %d", what, error);
}

static const struct store_ops ops = {
	.define = on_define,
	.read = on_read,
	.read_end = on_read_end,
	.read_this = on_read_this,
	.read_these_end = on_read_these_end,
	.deadlines = on_deadlines,
	.paged_out = on_paged_out,
	.paged_in = on_paged_in,
	.key = on_key,
	.snapshot = on_snapshot,
	.snapshot_keys = on_snapshot_keys,
	.stable = on_stable,
	.short_of_space = on_space,
	.failed = on_failure,
};

/* The clock moves, and nothing else. */
static inline void
advance(uint64_t ms)
{
	present_now.monotonic_ms += ms;
	present_now.wall_ms += ms;
	broker_set_now(broker, present_now);
}

static inline void
open_all(void)
{
	struct broker_options options = broker_options_default();
	struct store_options store_options = store_options_default();
	struct buf error;
	int status;

	options.cache_size = cache_size;
	options.page_out_at = page_out_at;
	store_options.node_name = "test";
	store_options.buffer_size = 256 * 1024;
	store_options.file_size = file_size;
	store_options.checkpoint_size = 8 * file_size;
	buf_init(&error, 0);
	broker = broker_new(&deadlines, &options);
	broker->recovering = true;
	status = store_open(&store, &disk->disk, &store_options, &ops, broker, &error);
	ck_assert_msg(status == 0, "%s", buf_cstr(&error));
	buf_fini(&error);
	broker_end_recovery(broker);
	broker->store = store;
	stable = store_stable(store);
	broker_set_stable(broker, stable);
	advance(1000);
}

static inline void
note_all_settled(void)
{
	for (size_t i = 0; i < QUEUES; i++)
		note_settled(&lists[i]);
}

/* A batch goes to the disk, or a read comes from it; bodies go to page files, or come. */
static inline void
step_store(void)
{
	advance(30);
	broker_page_out(broker);
	store_submit(store, present_now, false);
	store_work(store);
	store_receive(store);
}

/* Milliseconds in which nothing happens but what is due. */
static inline void
pass_time(uint64_t ms)
{
	for (uint64_t end = present_now.monotonic_ms + ms; present_now.monotonic_ms < end;) {
		uint64_t next = max_u64(present_now.monotonic_ms, deadlines_next(&deadlines));

		advance(min_u64(end, next) - present_now.monotonic_ms);
		deadlines_run(&deadlines, present_now.monotonic_ms);
	}
}

static inline void
dispatch(void)
{
	broker->effect_lsn = 0;
	broker_dispatch(broker);
	note_all_settled();
	broker_reap(broker);
}

/* Until nothing moves any more. */
static inline void
run_all(void)
{
	for (int quiet = 0; quiet < 3; quiet++) {
		uint64_t before = stable + reads + pages_out + pages_in;

		step_store();
		dispatch();
		if (stable + reads + pages_out + pages_in != before)
			quiet = 0;
	}
	check_all();
}

/* The same with what is due at once, and what follows from that. */
static inline void
run_all_due(void)
{
	do {
		pass_time(1);
		run_all();
	} while (deadlines_next(&deadlines) <= present_now.monotonic_ms);
}

static inline void
make_queue(struct listed *list, bool durable)
{
	char name[8];
	struct queue_spec spec = {.durable = durable};
	uint8_t octets[64];
	struct writer w = writer_of(octets, sizeof(octets));

	if (list->priority_max > 0)
		table_put_int(&w, BYTES("x-max-priority"), list->priority_max);
	spec.arguments = bytes_of(octets, (size_t)(w.p - octets));
	(void)snprintf(name, sizeof(name), "q%d", (int)(list - lists));
	spec.name = bytes_str(name);
	list->queue = queue_create(vhost, &spec);
	list->durable = durable;
	list->delivers = false;
	list_clear(list);
	run_all();
}

/* ---- what clients do ---- */

static inline void
publish_to(struct listed *const *to, uint32_t n, uint32_t size, bool persistent)
{
	struct queue *queues[QUEUES];
	struct route route = {.queues = queues, .count = n, .room = n};
	uint32_t id = next_id++;
	struct message *m = make_message(id, size, persistent);
	struct publish_result result;

	for (uint32_t i = 0; i < n; i++)
		queues[i] = to[i]->queue;
	result = queue_publish(broker, &route, m);
	ck_assert(!result.rejected);
	message_unref(m);
	for (uint32_t i = 0; i < n; i++)
		list_publish(to[i], (struct item){.id = id,
						  .size = size,
						  .persistent = persistent,
						  .lsn = result.lsn});
}

static inline void
publish(struct listed *list, uint32_t size, bool persistent)
{
	publish_to(&list, 1, size, persistent);
}

static inline enum deliver_result
take_delivery(struct consumer *consumer, const struct entry *entry)
{
	struct listed *list = consumer->channel;

	if (list->used == list->limit)
		return DELIVER_FULL;
	list_take(list, consumer->from, entry, consumer->no_ack, true);
	list->used++;
	list->taken++;
	return DELIVER_TOOK;
}

static inline void
on_cancelled(struct consumer *consumer)
{
	struct listed *list = consumer->channel;

	list->consumer = NULL;
}

static const struct consumer_ops consumer_ops = {take_delivery, on_cancelled};

/* limit counts what the consumer holds, with no_ack what it takes at all. */
static inline void
consume(struct listed *list, uint32_t limit, bool no_ack)
{
	struct consumer_spec spec = {
		.tag = BYTES("c"), .ops = &consumer_ops, .channel = list, .no_ack = no_ack};

	ck_assert_ptr_null(list->consumer);
	list->limit = limit;
	list->used = 0;
	list->no_ack = no_ack;
	list->delivers = true;
	list->consumer = consumer_new(list->queue, &spec);
	for (size_t i = 0; i < list->held_count; i++)
		list->held[i].consumed = false;
}

static inline void
cancel(struct listed *list)
{
	if (list->consumer != NULL)
		consumer_cancel(list->consumer);
	list->consumer = NULL;
}

/* The consumer has room for more. */
static inline void
take_more(struct listed *list, uint32_t more)
{
	list->limit += more;
	if (list->consumer != NULL)
		consumer_ready(list->consumer);
}

enum settle {
	SETTLE_ACK,
	SETTLE_REJECT,
	SETTLE_REQUEUE
};

/* Settles the one held at this place. */
static inline void
settle(struct listed *list, size_t at, enum settle how)
{
	struct held held = list->held[at];
	struct item *item = &list->items[held.item];

	list->held[at] = list->held[--list->held_count];
	broker->effect_lsn = 0;
	if (how == SETTLE_REQUEUE && list->queue != NULL) {
		item->state = ITEM_READY;
		list->ready++;
		list->first[item->level] = min_u64(list->first[item->level], held.item);
	} else {
		item->state = ITEM_GONE;
		item->settle_lsn = SETTLED_JUST_NOW;
	}
	if (how == SETTLE_REQUEUE)
		queue_requeue(held.queue, &held.entry);
	else if (how == SETTLE_ACK)
		queue_ack(held.queue, &held.entry);
	else
		queue_reject(held.queue, &held.entry);
	if (item->settle_lsn == SETTLED_JUST_NOW)
		item->settle_lsn = broker->effect_lsn;
	queue_unref(held.queue);
	if (held.consumed && list->consumer != NULL) {
		list->used--;
		consumer_ready(list->consumer);
	}
}

static inline void
settle_all(struct listed *list, enum settle how)
{
	while (list->held_count > 0)
		settle(list, list->held_count - 1, how);
}

static inline void
hand_out(struct listed *list)
{
	broker->effect_lsn = 0;
	queue_hand_out(list->queue);
	note_settled(list);
}

/* As basic.get is: it waits for the gate and for a read. */
static inline bool
get(struct listed *list, bool no_ack)
{
	struct queue *from;
	struct entry entry;

	list->delivers = true;
	for (int i = 0; !queue_may_deliver(list->queue); i++) {
		ck_assert_int_lt(i, 100);
		step_store();
	}
	hand_out(list);
	for (int turns = 0; queue_must_read(list->queue); hand_out(list)) {
		queue_refill(list->queue); // once: then it comes
		while (queue_must_read(list->queue)) {
			ck_assert_int_lt(turns++, 100 * (1 + list->priority_max));
			step_store();
			dispatch();
			/* another level may be next by now, as connection_release() sees */
			if (list->priority_max > 0)
				queue_refill(list->queue);
		}
	}
	broker->effect_lsn = 0;
	from = queue_get(list->queue, no_ack, &entry);
	if (from == NULL) {
		ck_assert_ptr_null(first_ready(list));
		return false;
	}
	list_take(list, from, &entry, no_ack, false);
	note_settled(list);
	if (no_ack)
		message_unref(entry.message);
	return true;
}

static inline void
list_drop_ready(struct listed *list, uint64_t lsn)
{
	for (size_t i = 0; i < list->count; i++) {
		struct item *item = &list->items[i];

		if (item->state != ITEM_READY)
			continue;
		item->state = ITEM_GONE;
		item->settle_lsn = lsn;
	}
	list->ready = 0;
}

static inline void
purge(struct listed *list)
{
	broker->effect_lsn = 0;
	ck_assert_uint_eq(queue_purge(list->queue), list->ready);
	list_drop_ready(list, broker->effect_lsn);
	ck_assert_uint_eq(queue_message_count(list->queue), 0);
}

/* What is held stays held. */
static inline void
delete_queue(struct listed *list)
{
	ck_assert_uint_eq(queue_delete(list->queue), list->ready);
	list_drop_ready(list, 0);
	list->queue = NULL;
	ck_assert_ptr_null(list->consumer);
	run_all();
}

/* Takes whatever is there by a consumer without acknowledgements. */
static inline void
drain(struct listed *list)
{
	cancel(list);
	consume(list, UINT32_MAX, true);
	run_all();
	ck_assert_ptr_null(first_ready(list));
	cancel(list);
}

/* ---- restarts ---- */

/* Keeps in the list what must be there after a restart. */
static inline void
list_restart(struct listed *list, bool clean)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count && list->durable; i++) {
		struct item item = list->items[i];
		bool lost = !clean && item.lsn > stable;
		bool gone = item.state == ITEM_GONE && (clean || item.settle_lsn <= stable);

		if (!item.persistent || lost || gone)
			continue;
		if (!clean && list->delivers)
			item.maybe = true;
		item.state = ITEM_READY;
		item.lsn = item.settle_lsn = 0;
		list->items[kept++] = item;
	}
	list_clear(list);
	list->count = list->ready = kept;
	list->delivers = list->delivers && !clean;
	list->consumer = NULL;
	list->queue = NULL;
}

static inline void
end_clients(bool clean)
{
	for (size_t i = 0; i < QUEUES; i++) {
		struct listed *list = &lists[i];

		cancel(list);
		if (clean)
			settle_all(list, SETTLE_REQUEUE);
		while (list->held_count > 0) {
			struct held *held = &list->held[--list->held_count];

			message_unref(held->entry.message);
			held->queue->unacked_count--;
			queue_unref(held->queue);
		}
	}
}

static inline void
close_all(bool clean)
{
	if (clean)
		end_clients(true);
	ck_assert_int_eq(store_close(&store, clean), 0);
	broker->store = NULL;
	if (!clean)
		end_clients(false);
	for (size_t i = 0; i < QUEUES; i++)
		list_restart(&lists[i], clean);
	broker_free(&broker);
	disk_sim_forget(disk);
}

/* Opens what is on the disk, and finds the queues again. */
static inline void
reopen_all(void)
{
	open_all();
	vhost = vhost_find(broker, BYTES("v"));
	ck_assert_ptr_nonnull(vhost);
	for (size_t i = 0; i < QUEUES; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "q%d", (int)i);
		lists[i].queue = queue_find(vhost, bytes_str(name));
		if (lists[i].durable)
			ck_assert_ptr_nonnull(lists[i].queue);
		else
			make_queue(&lists[i], false);
	}
	check_all();
}

/* Clean: as by a signal. Otherwise: as by kill -9, what was not written is lost. */
static inline void
restart(bool clean)
{
	close_all(clean);
	reopen_all();
}

/* A new disk. */
static inline void
begin_all(void)
{
	disk = disk_sim_new();
	open_all();
	vhost = vhost_create(broker, BYTES("v"));
	for (size_t i = 0; i < QUEUES; i++)
		make_queue(&lists[i], i < QUEUES - 1);
}

static inline void
cold_set_up(void)
{
	deadlines_init(&deadlines);
	cache_size = 64 * 1024;
	file_size = 1024 * 1024;
	begin_all();
}

static inline void
cold_tear_down(void)
{
	check_all();
	close_all(true);
	for (size_t i = 0; i < QUEUES; i++) {
		xfree(lists[i].items);
		xfree(lists[i].held);
	}
	disk_sim_free(&disk);
	deadlines_fini(&deadlines);
}
