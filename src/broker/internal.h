/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only broker/ sees: the entries of a queue, dispatching, life cycle. Broker thread.
 */
#pragma once

#include "broker/broker.h"
#include "broker/consumer.h"
#include "broker/message.h"
#include "broker/queue.h"
#include "util/regex.h"

/* ---- queue_window.c: the ready entries of a queue in order ---- */

/* Puts a new entry behind all others. */
void window_push(struct queue *queue, struct entry entry);
/* The first entry, which must exist (ready_count > 0); valid until the next change. */
const struct entry *window_first(const struct queue *queue);
/* Takes the first entry off; its message reference goes to the caller. */
struct entry window_pop(struct queue *queue);
/* Puts an entry that was popped before back to its place by qseq. */
void window_requeue(struct queue *queue, struct entry entry);
/* Drops all entries and their references. */
void window_clear(struct queue *queue);
void window_check(const struct queue *queue);

/* ---- queue_dispatch.c ---- */

/* Hands entries to consumers until one side is out, and lets publishers go on where that made room. */
void queue_dispatch(struct queue *queue);
/* Puts it on the dirty list when it has something to hand out and somebody to take it. */
void queue_touch(struct queue *queue);
/* Makes it a taker, behind the last one of at least its priority: the others have their turn first. */
void takers_insert(struct queue *queue, struct consumer *consumer);
/* Lets all yielding publishers of this queue go on. */
void queue_wake_yielders(struct queue *queue);

/* ---- user.c ---- */

/* A regular expression as users write it. */
struct pattern {
	struct bytes text;   // owns; as it was set
	struct regex *regex; // owns; NULL when the text is empty, which matches the empty name only
};

/* 0, or -EINVAL with a text in error. */
int pattern_compile(struct regex **regex, struct bytes text, char *error, size_t room) MUST_CHECK;
void pattern_fini(struct pattern *pattern);
bool pattern_admits(const struct pattern *pattern, struct bytes name);
/* "configure", "write", "read". */
const char *permission_verb(enum permission permission);

/* ---- topic_permission.c ---- */

/* Removes all records of a user who goes. */
void topic_permissions_fini(struct user *user);

/* ---- queue.c ---- */

/* Frees a deleted queue without references. */
void queue_free(struct queue *queue);

/* No entry point of the model may be entered while it hands out messages. */
static inline void
assert_not_dispatching(const struct broker *broker)
{
	assert_thread(THREAD_BROKER);
	assert(!broker->dispatching);
}
