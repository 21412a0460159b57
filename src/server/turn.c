/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a turn, and why:
 *
 *	store_receive()    batches that are written make their numbers stable, finished jobs take effect
 *	net_input()        publishes fill queues, acks free credit; nothing is delivered yet
 *	deadlines_run()    heartbeats, handshakes, yields, expiries, late deliveries
 *	broker_dispatch()  every queue that changed meets every consumer with credit, once
 *	store_submit()     what this turn appended goes to the store thread, if that is idle
 *	session_effects()  cancel notices, confirms coalesced, holds released
 *	net_flush()        one writev for each connection
 *	net_reap()         connections that ended give up what they held
 *	broker_page_out()  when memory is short still, bodies go to page files
 *	broker_reap()      and what died in the model is freed
 *
 * A connection that ends puts its messages back after the dispatch of its turn, and a flush that makes
 * room readies consumers: both leave queues dirty, so the next turn comes at once. So it does when a
 * flush gave back the memory that publishers wait for.
 */
#include "server/turn.h"

void
turn_run(struct turn *turn, struct now now)
{
	net_set_now(turn->net, now);
	broker_set_now(turn->broker, now);
	if (turn->store != NULL)
		store_receive(turn->store);
	net_input(turn->net);
	deadlines_run(turn->deadlines, now.monotonic_ms);
	broker_dispatch(turn->broker);
	if (turn->store != NULL)
		store_submit(turn->store, now, net_input_waits(turn->net));
	session_effects(turn->session);
	net_flush(turn->net);
	net_reap(turn->net);
	broker_page_out(turn->broker);
	broker_reap(turn->broker);
	if (turn->check)
		broker_check(turn->broker);
}

uint64_t
turn_wait_ms(const struct turn *turn, struct now now)
{
	uint64_t next = deadlines_next(turn->deadlines);

	if (turn->store != NULL)
		next = min_u64(next, store_due_ms(turn->store));
	if (net_work_left(turn->net) || !list_empty(&turn->broker->dirty) ||
	    session_work_left(turn->session))
		return 0;
	if (next == UINT64_MAX)
		return UINT64_MAX;
	return next <= now.monotonic_ms ? 0 : next - now.monotonic_ms;
}
