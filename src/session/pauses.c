/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a connection's input stops for a while: an answer that waits for an lsn (the hold of
 * DECISIONS.md), a publisher while an alarm is on, ahead of the disk, of its consumers, or of what its queue drops, and
 * a consumer whose rejections are ahead of the disk.
 */
#include "broker/alarms.h"
#include "internal.h"
#include "util/owned.h"

/* ---- the hold ---- */

void
connection_hold(struct connection *c, uint64_t lsn, uint16_t channel, const struct method *answer)
{
	uint8_t frame[METHOD_FRAME_MAX];
	struct writer w = writer_of(frame, sizeof(frame));

	assert(c->hold_lsn == 0);
	c->hold_lsn = lsn;
	if (answer != NULL) {
		frame_write_method(&w, channel, answer);
		assert(!w.bad);
		c->hold_answer = bytes_dup(bytes_of(frame, (size_t)(w.p - frame)));
	}
	list_append(&c->session->held, &c->held);
	conn_pause(c->conn, CONN_PAUSE_HOLD);
}

void
connection_hold_frame(struct connection *c, uint64_t lsn)
{
	connection_hold(c, lsn, 0, NULL);
	c->again = true;
}

void
connection_hold_for_read(struct connection *c, struct queue *queue)
{
	connection_hold_frame(c, 1);
	c->hold_queue = queue_ref(queue);
}

static void
hold_forget(struct connection *c)
{
	if (c->hold_queue != NULL)
		queue_unref(c->hold_queue);
	c->hold_queue = NULL;
	bytes_drop(&c->hold_answer);
	c->hold_lsn = 0;
	list_remove(&c->session->held, &c->held);
}

bool
connection_release(struct connection *c)
{
	if (c->hold_lsn > c->session->broker->stable)
		return false;
	if (c->hold_queue != NULL && queue_must_read(c->hold_queue)) {
		queue_refill(c->hold_queue); // what comes first may be another by now
		return false;
	}
	if (c->state == CONNECTION_RUNNING)
		conn_write(c->conn, c->hold_answer);
	hold_forget(c);
	conn_resume(c->conn, CONN_PAUSE_HOLD);
	return true;
}

/* ---- alarms (amqp.md 10) ---- */

void
connection_block(struct connection *c)
{
	const char *reason = alarm_reason(c->session->broker->alarms);

	list_append(&c->session->blocked, &c->blocked);
	conn_pause(c->conn, CONN_PAUSE_ALARM);
	if (c->capabilities & CLIENT_CONNECTION_BLOCKED)
		connection_send(c, 0,
				&(struct method){.id = METHOD_connection_blocked,
						 .connection_blocked = {bytes_str(reason)}});
}

/* Whether an alarm is on, that of memory included, which begins here. */
static bool
must_block(const struct connection *c)
{
	struct broker *broker = c->session->broker;

	if (!(broker->alarms & ALARM_MEMORY) && broker_memory_short(broker)) {
		log_warn("memory limit reached: publishers wait limit=%llu",
			 (unsigned long long)broker->options.memory_limit);
		broker->alarms |= ALARM_MEMORY;
	}
	return broker->alarms != 0;
}

void
connection_unblock(struct connection *c)
{
	list_remove(&c->session->blocked, &c->blocked);
	conn_resume(c->conn, CONN_PAUSE_ALARM);
	if ((c->capabilities & CLIENT_CONNECTION_BLOCKED) && c->state == CONNECTION_RUNNING)
		connection_send(c, 0, &(struct method){.id = METHOD_connection_unblocked});
}

/* ---- the store ---- */

static void
maybe_wait(struct connection *c, bool to_publish)
{
	if (!list_linked(&c->waiting) && broker_store_full(c->session->broker)) {
		c->waits_to_publish = to_publish;
		list_append(&c->session->waiting, &c->waiting);
		conn_pause(c->conn, CONN_PAUSE_STORE);
	}
}

void
connection_stop_waiting(struct connection *c)
{
	list_remove(&c->session->waiting, &c->waiting);
	conn_resume(c->conn, CONN_PAUSE_STORE);
}

/* ---- the yield ---- */

static void
yield_end(struct connection *c)
{
	deadline_clear(net_deadlines(c->session->net), &c->yield_deadline);
	conn_resume(c->conn, CONN_PAUSE_YIELD);
}

static void
on_yield_deadline(struct deadline *deadline, uint64_t now_ms)
{
	struct connection *c = container_of(deadline, struct connection, yield_deadline);

	(void)now_ms;
	yielder_stop(&c->yielder);
	yield_end(c);
}

static void
on_yield_end(struct yielder *yielder)
{
	yield_end(container_of(yielder, struct connection, yielder));
}

/* A publisher ahead of its consumers is read one budget at a time, one ahead of what its queue can drop not at all;
 * one queue speaks for the route. */
static void
maybe_yield(struct connection *c, const struct route *route)
{
	const struct broker *broker = c->session->broker;

	if (c->yielder.queue != NULL)
		return;
	for (uint32_t i = 0; i < route->count; i++) {
		bool behind = queue_is_behind(route->queues[i]);

		if (!behind && !queue_wants_yield(route->queues[i]))
			continue;
		yielder_wait(&c->yielder, route->queues[i]);
		if (!behind)
			deadline_set(net_deadlines(c->session->net), &c->yield_deadline,
				     broker->now.monotonic_ms + broker->options.yield_ms);
		conn_pause(c->conn, CONN_PAUSE_YIELD);
		return;
	}
}

/* ---- all of them ---- */

void
pauses_after_publish(struct connection *c)
{
	const struct channel *channel = c->last;
	const struct route *route;

	c->published = false;
	c->buried = false;
	c->session->published = true;
	if (c->state == CONNECTION_RUNNING && !list_linked(&c->blocked) && must_block(c))
		connection_block(c);
	if (c->stored) {
		c->stored = false;
		maybe_wait(c, true);
	}
	route = channel == NULL ? NULL : publish_route(channel);
	if (route != NULL)
		maybe_yield(c, route);
}

/* While the disk is low the store is full for as long as it takes, and a consumer may be what gives room. */
void
pauses_after_burial(struct connection *c)
{
	c->buried = false;
	if (!(c->session->broker->alarms & ALARM_DISK))
		maybe_wait(c, false);
}

void
pauses_init(struct connection *c)
{
	c->yielder.go_on = on_yield_end;
	c->yield_deadline.run = on_yield_deadline;
}

void
pauses_end(struct connection *c)
{
	if (c->hold_lsn != 0) {
		hold_forget(c);
		conn_resume(c->conn, CONN_PAUSE_HOLD);
	}
	if (list_linked(&c->blocked)) {
		list_remove(&c->session->blocked, &c->blocked);
		conn_resume(c->conn, CONN_PAUSE_ALARM);
	}
	if (list_linked(&c->waiting))
		connection_stop_waiting(c);
	yielder_stop(&c->yielder);
	yield_end(c);
}
