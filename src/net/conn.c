/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: its life, its pauses and its input. Output is in conn_output.c.
 *
 * Input lies in one block. It is taken for a read with room for a budget, and given back when the owner
 * used up all; a small rest moves to a block of its size, so that thousands of connections with half a
 * frame do not hold a budget each; a large rest (of a paused conn, mostly) stays where it is. The next
 * read puts the rest in front. When a pause ends, the rest is offered again before anything is read.
 *
 * The read event of the transport is left alone when a pause begins: most end within the turn. Only when
 * it fires during a pause it is switched off, and on again by the next read.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include "util/mem.h"

/* A rest that is at least this part of its block stays in it. */
#define INPUT_KEEP_PART 4

struct conn *
conn_new(struct net *net, struct transport *transport, const struct conn_ops *ops, void *owner)
{
	struct conn *conn = slab_alloc(sizeof(*conn));

	assert_thread(THREAD_BROKER);
	memset(conn, 0, sizeof(*conn));
	conn->front.full_at = net->options.output_high;
	conn->ops = ops;
	conn->owner = owner;
	conn->net = net;
	conn->transport = transport;
	conn->id = ++net->last_id;
	net->count++;
	transport->conn = conn;
	conn_want(conn);
	return conn;
}

void
conn_set_owner(struct conn *conn, const struct conn_ops *ops, void *owner)
{
	assert(conn->ops != NULL);
	conn->ops = ops;
	conn->owner = owner;
}

void *
conn_owner(const struct conn *conn)
{
	return conn->owner;
}

struct net *
conn_net(const struct conn *conn)
{
	return conn->net;
}

uint64_t
conn_id(const struct conn *conn)
{
	return conn->id;
}

const struct conn_address *
conn_peer(const struct conn *conn)
{
	return &conn->transport->peer;
}

const struct conn_address *
conn_local(const struct conn *conn)
{
	return &conn->transport->local;
}

void
conn_set_addresses(struct conn *conn, const struct conn_address *peer,
		   const struct conn_address *local)
{
	conn->transport->peer = *peer;
	conn->transport->local = *local;
}

const struct tls_peer *
conn_tls_peer(const struct conn *conn)
{
	return conn->transport->ops->tls_peer(conn->transport);
}

uint64_t
conn_octets_in(const struct conn *conn)
{
	return conn->octets_in;
}

uint64_t
conn_octets_out(const struct conn *conn)
{
	return conn->octets_out;
}

/* ---- events and pauses ------------------------------------------------------------------------- */

void
conn_want(struct conn *conn)
{
	bool read = !(conn->pauses != 0 && conn->readable) || conn->state == CONN_LINGERING;
	bool write = conn->blocked;

	if (read == conn->asked_read && write == conn->asked_write)
		return;
	conn->asked_read = read;
	conn->asked_write = write;
	conn->transport->ops->want(conn->transport, read, write);
}

static void
mark_ready(struct conn *conn)
{
	if (!list_linked(&conn->ready))
		list_append(&conn->net->ready, &conn->ready);
}

void
conn_on_readable(struct conn *conn)
{
	if (conn->state == CONN_LINGERING || (conn->state == CONN_OPEN && conn->pauses == 0)) {
		mark_ready(conn);
	} else {
		conn->readable = true;
		conn_want(conn);
	}
}

void
conn_on_writable(struct conn *conn)
{
	conn->blocked = false;
	conn_mark_dirty(conn);
}

void
conn_pause(struct conn *conn, enum conn_pause reason)
{
	assert_thread(THREAD_BROKER);
	conn->pauses |= (uint8_t)reason;
	if (conn->broken) // only the read side could tell of the end, and it is not read any more
		conn_die(conn, conn->error);
	if (list_linked(&conn->ready)) {
		conn->readable = true;
		list_remove(&conn->net->ready, &conn->ready);
	}
}

void
conn_resume(struct conn *conn, enum conn_pause reason)
{
	assert_thread(THREAD_BROKER);
	if ((conn->pauses & reason) == 0)
		return;
	conn->pauses &= (uint8_t)~reason;
	if (conn->pauses != 0 || conn->state != CONN_OPEN)
		return;
	conn->offer = conn->input_block != NULL;
	if (conn->offer || conn->readable)
		mark_ready(conn);
}

unsigned
conn_paused(const struct conn *conn)
{
	return conn->pauses;
}

void
conn_sink(struct conn *conn, uint8_t *p, size_t n)
{
	assert_thread(THREAD_BROKER);
	conn->sink = n == 0 ? NULL : p;
	conn->sink_left = n;
}

size_t
conn_sink_left(const struct conn *conn)
{
	return conn->sink_left;
}

/* ---- input ------------------------------------------------------------------------------------- */

static size_t
input_left(const struct conn *conn)
{
	return conn->input_end - conn->input_start;
}

static void
input_free(struct conn *conn)
{
	if (conn->input_block != NULL)
		slab_free(conn->input_block, conn->input_size);
	conn->input_block = NULL;
	conn->input_size = conn->input_start = conn->input_end = 0;
}

/* Moves what is unread to the front of a block of that size. */
static void
input_move(struct conn *conn, size_t size)
{
	size_t left = input_left(conn);
	uint8_t *block = slab_alloc(size);

	assert(left <= size && size <= UINT32_MAX);
	if (left != 0)
		memcpy(block, conn->input_block + conn->input_start, left);
	input_free(conn);
	conn->input_block = block;
	conn->input_size = (uint32_t)size;
	conn->input_end = (uint32_t)left;
}

/* Makes room for a read behind what is unread: a budget in all, more when the rest alone takes half. */
static void
input_make_room(struct conn *conn)
{
	size_t budget = conn->net->options.read_budget;
	size_t left = input_left(conn);

	input_move(conn, left <= budget / 2 ? budget : left + budget);
}

/* Gives back what is not needed until the next read. */
static void
input_settle(struct conn *conn)
{
	size_t left = input_left(conn);

	if (left == 0)
		input_free(conn);
	else if (left < conn->input_size / INPUT_KEEP_PART)
		input_move(conn, left);
}

/* Offers what is unread to the owner. */
static void
input_feed(struct conn *conn)
{
	struct bytes input = {NULL, input_left(conn)};
	size_t used;

	if (input.n != 0)
		input.p = conn->input_block + conn->input_start;
	conn->feeding = true;
	used = conn->ops->input(conn, input);
	conn->feeding = false;
	assert(used <= input.n);
	conn->input_start += (uint32_t)used;
	assert(conn->sink_left == 0 || used == input.n);
	if (used == 0 && conn->pauses == 0) // it needs more than there is, whatever it paused for
		conn->offer = false;
}

/* Reads once: first into the sink, then into the block. Returns what the transport did. */
static ssize_t
input_read(struct conn *conn, bool *more)
{
	struct iovec parts[2];
	size_t room, into_sink;
	int count = 0;
	ssize_t n;

	input_make_room(conn);
	room = conn->input_size - conn->input_end;
	if (conn->sink_left != 0)
		parts[count++] = (struct iovec){conn->sink, conn->sink_left};
	parts[count++] = (struct iovec){conn->input_block + conn->input_end, room};
	n = conn->transport->ops->read(conn->transport, parts, count);
	*more = n > 0 && (size_t)n == room + conn->sink_left;
	if (n <= 0)
		return n;
	conn->octets_in += (uint64_t)n;
	into_sink = min_u64((size_t)n, conn->sink_left);
	if (into_sink != 0) {
		conn->sink += into_sink;
		conn->sink_left -= into_sink;
	}
	conn->input_end += (uint32_t)((size_t)n - into_sink);
	return n;
}

/* The peer ended its side, or the transport failed. */
static void
input_ended(struct conn *conn, int error)
{
	conn_die(conn, conn->broken ? conn->error : error);
}

/* Throws away what a peer sends to a conn that has ended, so that the system does not answer it with a
 * reset, which would take the last output away from the peer. */
static void
input_discard(struct conn *conn)
{
	size_t size = conn->net->options.read_budget;
	uint8_t *p = slab_alloc(size);
	struct iovec part = {p, size};
	ssize_t n = conn->transport->ops->read(conn->transport, &part, 1);

	slab_free(p, size);
	if (n == 0 || (n < 0 && n != -EAGAIN))
		conn_set_state(conn, CONN_DEAD);
	else if ((size_t)n == size)
		mark_ready(conn);
}

static bool
input_wanted(const struct conn *conn)
{
	return conn->state == CONN_OPEN && conn->pauses == 0;
}

/* One read and, when it brought something for the owner, one call of input. True when more is there. */
static bool
input_turn(struct conn *conn)
{
	bool had_sink = conn->sink_left != 0, more;
	ssize_t n;

	conn->readable = false;
	n = input_read(conn, &more);
	if (n == 0 || (n < 0 && n != -EAGAIN)) {
		input_ended(conn, (int)n);
		return false;
	}
	if (n > 0 && conn->sink_left == 0 && (had_sink || input_left(conn) != 0))
		input_feed(conn);
	return more;
}

void
conn_input(struct conn *conn)
{
	bool more;

	if (conn->state == CONN_LINGERING) {
		input_discard(conn);
		return;
	}
	assert(input_wanted(conn));
	if (conn->offer) {
		conn->offer = false;
		more = conn->readable;
		input_feed(conn);
	} else {
		more = input_turn(conn);
	}
	if (conn->state == CONN_DEAD)
		return;
	input_settle(conn);
	conn->offer = conn->offer && conn->input_block != NULL;
	if (more && input_wanted(conn))
		mark_ready(conn);
	conn->readable = conn->readable || more;
	conn_want(conn);
}

/* ---- the end ----------------------------------------------------------------------------------- */

/* Sets the one deadline of all conns that are ending to the first of them. */
static void
ending_schedule(struct net *net)
{
	struct conn *first = list_first(&net->ending, struct conn, end);

	if (first == NULL)
		deadline_clear(net->deadlines, &net->ending_deadline);
	else if (!deadline_is_set(&net->ending_deadline) ||
		 net->ending_deadline.at_ms != first->ends_at_ms)
		deadline_set(net->deadlines, &net->ending_deadline, first->ends_at_ms);
}

static void
unlink_from(struct list *list, struct list_link *link)
{
	if (list_linked(link))
		list_remove(list, link);
}

void
conn_set_state(struct conn *conn, enum conn_state state)
{
	struct net *net = conn->net;
	bool was_ending = conn->state == CONN_CLOSING || conn->state == CONN_LINGERING;
	bool is_ending = state == CONN_CLOSING || state == CONN_LINGERING;

	unlink_from(was_ending ? &net->ending : &net->dead, &conn->end);
	unlink_from(&net->ready, &conn->ready);
	conn->state = (uint8_t)state;
	if (is_ending) {
		conn->ends_at_ms = net->now.monotonic_ms + CONN_ENDING_MS;
		list_append(&net->ending, &conn->end);
	} else {
		assert(state != CONN_OPEN);
		unlink_from(&net->dirty, &conn->dirty);
		list_append(&net->dead, &conn->end);
	}
	if (was_ending || is_ending)
		ending_schedule(net);
}

void
conn_die(struct conn *conn, int error)
{
	if (conn->state != CONN_OPEN && conn->state != CONN_CLOSING)
		return;
	conn->error = error;
	conn->mute = true;
	conn->front.full_at = 0;
	conn_set_state(conn, CONN_DEAD);
}

void
conn_close(struct conn *conn)
{
	assert_thread(THREAD_BROKER);
	if (conn->state != CONN_OPEN)
		return;
	if (conn->broken) {
		conn_die(conn, conn->error);
		return;
	}
	conn_pause(conn, CONN_PAUSE_CLOSING);
	conn->front.full_at = 0;
	conn_set_state(conn, CONN_CLOSING);
	conn_mark_dirty(conn);
}

void
conn_abort(struct conn *conn, int error)
{
	assert_thread(THREAD_BROKER);
	conn_die(conn, error);
}

static void
conn_free(struct conn *conn)
{
	assert(!list_linked(&conn->ready) && !list_linked(&conn->dirty));
	assert(!list_linked(&conn->end) && !conn->feeding);
	input_free(conn);
	conn_output_drop(conn);
	conn->transport->ops->close(conn->transport);
	slab_free(conn, sizeof(*conn));
}

void
conn_reap(struct conn *conn)
{
	const struct conn_ops *ops = conn->ops;

	conn_output_drop(conn);
	if (ops != NULL) {
		ops->closed(conn, conn->error);
		conn->ops = NULL;
		conn->owner = NULL;
		conn->net->count--;
	}
	if (conn->state == CONN_SHUT) {
		input_free(conn);
		conn_set_state(conn, CONN_LINGERING);
		conn->blocked = false;
		conn_want(conn);
		input_discard(conn);
	} else {
		conn_output_drop(conn);
		conn_free(conn);
	}
}

void
conn_end_overdue(struct net *net, uint64_t now_ms)
{
	struct conn *conn;

	while ((conn = list_first(&net->ending, struct conn, end)) != NULL &&
	       conn->ends_at_ms <= now_ms) {
		if (conn->state == CONN_CLOSING)
			conn_die(conn, -ETIMEDOUT);
		else
			conn_set_state(conn, CONN_DEAD);
	}
	ending_schedule(net);
}
