/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store with definitions of all kinds on a simulated disk, whose threads are stepped: what the tests of golden
 * stores open and what makes a new one.
 */
#pragma once

#include <stdio.h>

#include "lib/golden.h"
#include "lib/runner.h"
#include "store/internal.h"

#define ROUNDS 1000
#define SECOND_MS 1000
#define SESSION_QUEUES 8
#define SESSION_DEFINITIONS 64
#define SESSION_MESSAGES 256

struct session_message {
	struct queue_log *log; // borrows
	uint64_t qseq;
	struct stored_place place;
	char *line; // owns; how it is listed
};

struct session {
	struct disk_sim *sim; // owns
	struct store *store;
	struct store_options options;
	struct now now;
	struct queue_log *logs[SESSION_QUEUES]; // borrow from the store; NULL: removed
	size_t log_count;
	char *definitions[SESSION_DEFINITIONS]; // own; as they are encoded, with their size
	size_t sizes[SESSION_DEFINITIONS];
	size_t definition_count;
	struct session_message messages[SESSION_MESSAGES];
	size_t message_count;
	struct buf error;
};

/* ---- what the store says ---- */

static inline bool
is_same(const struct definition *a, const struct definition *b)
{
	return a->kind == b->kind && bytes_equal(a->vhost, b->vhost) &&
	       bytes_equal(a->name, b->name) && bytes_equal(a->user, b->user) &&
	       bytes_equal(a->exchange, b->exchange) && bytes_equal(a->source, b->source) &&
	       bytes_equal(a->destination, b->destination) && bytes_equal(a->key, b->key) &&
	       a->part == b->part;
}

static inline struct definition
session_definition(const struct session *s, size_t at)
{
	struct definition definition;
	int error = definition_decode(&definition,
				      bytes_of((uint8_t *)s->definitions[at], s->sizes[at]));

	ck_assert_int_eq(error, 0);
	return definition;
}

/* Puts or removes it in what is there. */
static inline void
session_take_definition(struct session *s, const struct definition *definition)
{
	size_t at = 0;

	for (; at < s->definition_count; at++) {
		struct definition there = session_definition(s, at);

		if (is_same(&there, definition))
			break;
	}
	if (at == s->definition_count) {
		ck_assert_uint_lt(at, SESSION_DEFINITIONS);
		s->definition_count++;
	} else {
		xfree(s->definitions[at]);
	}
	if (definition->removed) {
		s->definition_count--;
		s->definitions[at] = s->definitions[s->definition_count];
		s->sizes[at] = s->sizes[s->definition_count];
		return;
	}
	s->sizes[at] = definition_size(definition);
	s->definitions[at] = xmalloc(s->sizes[at]);
	definition_encode((uint8_t *)s->definitions[at], definition);
}

static inline void
session_on_define(void *context, const struct definition *definition, struct queue_log *log)
{
	struct session *s = context;

	session_take_definition(s, definition);
	if (!definition_has_queue(definition))
		return;
	ck_assert_ptr_nonnull(log);
	if (!definition->removed) {
		ck_assert_uint_lt(s->log_count, SESSION_QUEUES);
		log->owner = s;
		s->logs[s->log_count++] = log;
		return;
	}
	log->owner = NULL;
	for (size_t i = 0; i < s->log_count; i++)
		if (s->logs[i] == log)
			s->logs[i] = s->logs[--s->log_count];
}

static inline void
session_on_read(void *context, struct queue_log *log, uint64_t qseq,
		const struct stored_message *message, bool redelivered)
{
	struct session *s = context;
	struct session_message *m = &s->messages[s->message_count++];
	struct buf line;

	ck_assert_uint_le(s->message_count, SESSION_MESSAGES);
	buf_init(&line, 0);
	buf_addf(&line, "message %llu/%llu lsn=%llu", (unsigned long long)log->id,
		 (unsigned long long)qseq, (unsigned long long)message->lsn);
	golden_add_message(&line, &message->record);
	if (store_returns(log, qseq) > 0)
		buf_addf(&line, " returns=%u", store_returns(log, qseq));
	*m = (struct session_message){
		.log = log,
		.qseq = qseq,
		.place = {.lsn = message->lsn,
			  .share = store_share(message->record_size, message->record.ref_count),
			  .body_size = (uint32_t)message->record.body.n},
		.line = xstrdup(buf_cstr(&line)),
	};
	ck_assert(redelivered == (qseq < log->redelivered_below));
	buf_fini(&line);
}

static inline void
session_on_read_end(void *context, struct queue_log *log)
{
	(void)context;
	(void)log;
}

static inline void
session_on_snapshot(void *context, struct store *store)
{
	const struct session *s = context;

	for (size_t i = 0; i < s->definition_count; i++) {
		struct definition definition = session_definition(s, i);

		store_snapshot_add(store, &definition);
	}
}

static inline void
session_on_stable(void *context, uint64_t lsn)
{
	(void)context;
	(void)lsn;
}

static inline void
session_on_space(void *context, bool is_short)
{
	(void)context;
	ck_assert(!is_short);
}

static inline void
session_on_failed(void *context, int error, const char *what)
{
	(void)context;
	ck_abort_msg("%s: %d", what, error);
}

static const struct store_ops session_ops = {
	.define = session_on_define,
	.read = session_on_read,
	.read_end = session_on_read_end,
	.snapshot = session_on_snapshot,
	.stable = session_on_stable,
	.short_of_space = session_on_space,
	.failed = session_on_failed,
};

/* ---- life ---- */

static inline void
session_init(struct session *s)
{
	*s = (struct session){
		.sim = disk_sim_new(),
		.options = store_options_default(),
		.now = {.monotonic_ms = 1000000, .wall_ms = 1790000000000},
	};
	s->options.file_size = 8 * 1024;
	s->options.node_name = "golden";
	buf_init(&s->error, 0);
	log_set_level(LOG_NONE);
}

static inline void
session_open(struct session *s)
{
	int error = store_open(&s->store, &s->sim->disk, &s->options, &session_ops, s, &s->error);

	ck_assert_msg(error == 0, "%s", buf_cstr(&s->error));
}

static inline void
forget_messages(struct session *s)
{
	for (size_t i = 0; i < s->message_count; i++)
		xfree(s->messages[i].line);
	s->message_count = 0;
}

static inline void
forget(struct session *s)
{
	forget_messages(s);
	for (size_t i = 0; i < s->definition_count; i++)
		xfree(s->definitions[i]);
	s->definition_count = s->log_count = 0;
}

static inline void
session_close(struct session *s)
{
	/* its last checkpoint holds the definitions */
	ck_assert_int_eq(store_close(&s->store, true), 0);
	forget(s);
	disk_sim_forget(s->sim);
}

/* The machine dies. */
static inline void
session_crash(struct session *s, enum disk_sim_survival how)
{
	struct disk_sim *left = disk_sim_clone(s->sim);

	forget(s);
	s->sim->stop_at = s->sim->changes + 1;
	s->sim->stopped = true;
	(void)store_close(&s->store, false);
	disk_sim_free(&s->sim);
	disk_sim_crash(left, how, 0);
	s->sim = left;
}

static inline void
session_fini(struct session *s)
{
	if (s->store != NULL)
		session_crash(s, SIM_NOTHING);
	disk_sim_free(&s->sim);
	buf_fini(&s->error);
}

/* ---- turns ---- */

/* A turn, after which the clock has moved. */
static inline void
session_turn(struct session *s, uint64_t ms)
{
	store_submit(s->store, s->now, false);
	(void)store_work(s->store);
	store_receive(s->store);
	s->now.monotonic_ms += ms;
	s->now.wall_ms += ms;
}

static inline void
session_flush(struct session *s)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		session_turn(s, 1);
		if (store_stable(s->store) == s->store->next_lsn - 1 &&
		    list_empty(&s->store->acked) && !store_work(s->store)) {
			store_receive(s->store);
			return;
		}
	}
	ck_abort_msg("the store does not come to rest");
}

/* Until the log has been compacted. */
static inline void
session_await_merge(struct session *s)
{
	for (unsigned i = 0; i < ROUNDS && s->store->merged_octets == 0; i++)
		session_turn(s, SECOND_MS);
	ck_assert_uint_gt(s->store->merged_octets, 0);
	session_flush(s);
}

/* All messages that are there come into memory. */
static inline void
session_read_out(struct session *s)
{
	for (size_t i = 0; i < s->log_count; i++) {
		for (unsigned n = 0; s->logs[i]->cold_count > 0; n++) {
			ck_assert_uint_lt(n, ROUNDS);
			store_read(s->store, s->logs[i], 7, 100000);
			session_turn(s, 1);
		}
	}
}
