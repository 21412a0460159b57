/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares, binds, unbinds and deletes durable things without end. Each slot is an exchange, a queue and a
 * binding between them that go round a circle of states, one step at a time; a step counts when its answer
 * has come. After each kill all slots are looked at: each must be in its state, and only where a step was
 * sent and not answered, the state behind that step will do as well.
 */
#include "crash/ledger.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 24
#define STEPS 10
#define MAX_LENGTH 1000 // an argument of the queues

struct state {
	bool exchange;
	bool queue;
	bool bound;
};

/* By the number of steps that are done. */
static const struct state states[STEPS] = {
	{false, false, false}, // 0 declare the exchange
	{true, false, false},  // 1 declare the queue
	{true, true, false},   // 2 bind
	{true, true, true},    // 3 unbind
	{true, true, false},   // 4 bind
	{true, true, true},    // 5 delete the queue, and the binding with it
	{true, false, false},  // 6 declare the queue
	{true, true, false},   // 7 bind
	{true, true, true},    // 8 delete the exchange, and the binding with it
	{false, true, false},  // 9 delete the queue
};

static struct {
	amqp_connection_state_t conn; // owns; NULL: none
	struct {
		unsigned done; // steps
		bool in_doubt; // the next one was sent and not answered
	} slots[SLOTS];
	uint64_t steps;			       // that were answered
	uint64_t doubts;		       // that were not
	uint64_t looks;			       // at a slot after a kill
	char exchange[32], queue[32], key[16]; // of the slot that was named last
} definer;

static void
name_slot(unsigned slot)
{
	snprintf(definer.exchange, sizeof definer.exchange, "crash.exchange.%u", slot);
	snprintf(definer.queue, sizeof definer.queue, "crash.definer.%u", slot);
	snprintf(definer.key, sizeof definer.key, "key.%u", slot);
}

/* ---- steps ---- */

static void
declare_queue(void)
{
	amqp_table_entry_t entry = {
		.key = amqp_cstring_bytes("x-max-length"),
		.value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = MAX_LENGTH},
	};

	amqp_queue_declare(definer.conn, 1, amqp_cstring_bytes(definer.queue), 0, 1, 0, 0,
			   (amqp_table_t){.num_entries = 1, .entries = &entry});
}

static void
do_step(unsigned step)
{
	amqp_bytes_t exchange = amqp_cstring_bytes(definer.exchange);
	amqp_bytes_t queue = amqp_cstring_bytes(definer.queue);
	amqp_bytes_t key = amqp_cstring_bytes(definer.key);

	switch (step) {
	case 0:
		amqp_exchange_declare(definer.conn, 1, exchange, amqp_cstring_bytes("direct"), 0, 1,
				      0, 0, amqp_empty_table);
		break;
	case 1:
	case 6:
		declare_queue();
		break;
	case 2:
	case 4:
	case 7:
		amqp_queue_bind(definer.conn, 1, queue, exchange, key, amqp_empty_table);
		break;
	case 3:
		amqp_queue_unbind(definer.conn, 1, queue, exchange, key, amqp_empty_table);
		break;
	case 8:
		amqp_exchange_delete(definer.conn, 1, exchange, 0);
		break;
	default:
		amqp_queue_delete(definer.conn, 1, queue, 0, 0);
	}
}

/* False when the connection is lost. */
static bool
step_slot(unsigned slot)
{
	name_slot(slot);
	definer.slots[slot].in_doubt = true;
	amqp_maybe_release_buffers(definer.conn);
	do_step(definer.slots[slot].done);
	if (!went_well(definer.conn, "a step of the definer")) {
		definer.doubts++;
		return false;
	}
	definer.slots[slot].in_doubt = false;
	definer.slots[slot].done = (definer.slots[slot].done + 1) % STEPS;
	definer.steps++;
	return true;
}

/* ---- looking; each is false when the connection is lost ---- */

/* What a passive declare tells. */
static bool
find(int code, const char *name, bool *is_there)
{
	if (code == CALL_LOST)
		return false;
	if (code != CALL_OK && code != 404)
		fault("%s: passive declare is refused with %d", name, code);
	*is_there = code == CALL_OK;
	return true;
}

static bool
find_exchange(bool *is_there)
{
	amqp_maybe_release_buffers(definer.conn);
	amqp_exchange_declare(definer.conn, 1, amqp_cstring_bytes(definer.exchange),
			      amqp_cstring_bytes("direct"), 1, 1, 0, 0, amqp_empty_table);
	return find(outcome(definer.conn), definer.exchange, is_there);
}

static bool
find_queue(bool *is_there)
{
	uint32_t ready;

	if (!find(queue_count(definer.conn, definer.queue, &ready), definer.queue, is_there))
		return false;
	if (!*is_there)
		return true;
	/* It must have its arguments still. */
	declare_queue();
	return went_well(definer.conn, "queue.declare with the same arguments");
}

/* A mandatory message comes back when there is no binding. */
static bool
find_binding(bool *is_there)
{
	amqp_frame_t frame;

	amqp_confirm_select(definer.conn, 1);
	if (!went_well(definer.conn, "confirm.select") ||
	    !was_sent(amqp_basic_publish(definer.conn, 1, amqp_cstring_bytes(definer.exchange),
					 amqp_cstring_bytes(definer.key), 1, 0, NULL,
					 amqp_cstring_bytes("is it bound?"))))
		return false;
	*is_there = true;
	for (;;) {
		int status = next_frame(definer.conn, &frame, AWAIT_S * 1000);
		if (status == AMQP_STATUS_TIMEOUT)
			fault("no confirm for %d s", AWAIT_S);
		if (status != AMQP_STATUS_OK)
			return false;
		if (frame.frame_type != AMQP_FRAME_METHOD)
			continue;
		if (frame.payload.method.id == AMQP_BASIC_ACK_METHOD)
			return true;
		if (frame.payload.method.id == AMQP_BASIC_RETURN_METHOD)
			*is_there = false;
	}
}

static bool
empty_queue(void)
{
	amqp_queue_purge(definer.conn, 1, amqp_cstring_bytes(definer.queue));
	return went_well(definer.conn, "queue.purge");
}

static bool
same_state(const struct state *a, const struct state *b)
{
	return a->exchange == b->exchange && a->queue == b->queue && a->bound == b->bound;
}

static bool
look_at_slot(unsigned slot)
{
	unsigned done = definer.slots[slot].done, then = (done + 1) % STEPS;
	bool in_doubt = definer.slots[slot].in_doubt;
	struct state now = {0};

	name_slot(slot);
	if (!find_exchange(&now.exchange) || !find_queue(&now.queue))
		return false;
	if (now.exchange && !find_binding(&now.bound))
		return false;
	if (now.bound && !empty_queue())
		return false;
	if (!same_state(&now, &states[done]) && !(in_doubt && same_state(&now, &states[then])))
		fault("slot %u after step %u%s: exchange %d, queue %d, binding %d", slot, done,
		      in_doubt ? " or the next" : "", now.exchange, now.queue, now.bound);
	if (in_doubt && !same_state(&now, &states[done]))
		definer.slots[slot].done = then;
	definer.slots[slot].in_doubt = false;
	definer.looks++;
	return true;
}

static bool
look_at_all(void)
{
	for (unsigned slot = 0; slot < SLOTS; slot++)
		if (!look_at_slot(slot))
			return false;
	return true;
}

int
definer_run(void)
{
	while (!stopping()) {
		definer.conn = connect_again();
		if (definer.conn && look_at_all())
			while (!stopping() && step_slot(random_below(SLOTS)))
				;
		forget(definer.conn);
	}
	printf("definer: %llu steps, %llu cut by a kill, looked at %llu slots\n",
	       (unsigned long long)definer.steps, (unsigned long long)definer.doubts,
	       (unsigned long long)definer.looks);
	return EXIT_SUCCESS;
}
