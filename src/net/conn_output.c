/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a conn: chunks and references in the order in which they were written.
 *
 * front.start to front.p is the end of the output, in the open chunk; everything before it stands in
 * the ring of segments. The common turn fills part of one chunk and needs no ring. The first chunk is
 * small, so that a heartbeat or one delivery to each of ten thousand connections does not take 64 KiB
 * each until the flush. Nothing of all this is kept while no output waits.
 *
 * A mute conn (it is ending, or its peer is gone) takes what is written into one chunk again and again.
 */
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/uio.h>
#include "util/mem.h"

#define CHUNK_SMALL 2048
#define CHUNK_LARGE 65536
#define SEGMENTS_FIRST 16
#define PARTS_MAX 256 // iovecs for one write

_Static_assert(offsetof(struct conn, front) == 0, "the front stands first");
_Static_assert(CONN_RESERVE_MAX + sizeof(struct chunk) < CHUNK_LARGE, "a reservation fits a chunk");
_Static_assert(PARTS_MAX <= IOV_MAX, "one write takes them all");

static void
chunk_free(struct chunk *chunk)
{
	slab_free(chunk, chunk->size);
}

static void
segment_push(struct conn *conn, struct segment segment)
{
	if (conn->segment_count == conn->segment_room) {
		uint32_t room = conn->segment_room == 0 ? SEGMENTS_FIRST : 2 * conn->segment_room;
		struct segment *segments = slab_alloc(room * sizeof(*segments));

		for (uint32_t i = 0; i < conn->segment_count; i++)
			segments[i] =
				conn->segments[(conn->segment_head + i) & (conn->segment_room - 1)];
		if (conn->segments != NULL)
			slab_free(conn->segments, conn->segment_room * sizeof(*segments));
		conn->segments = segments;
		conn->segment_room = room;
		conn->segment_head = 0;
	}
	conn->segments[(conn->segment_head + conn->segment_count) & (conn->segment_room - 1)] =
		segment;
	conn->segment_count++;
	conn->front.queued += segment.n;
}

static struct segment *
segment_first(struct conn *conn)
{
	return &conn->segments[conn->segment_head];
}

/* Takes the first segment off, sent or not. */
static void
segment_pop(struct conn *conn)
{
	struct segment segment = *segment_first(conn);

	assert(conn->segment_count > 0);
	conn->segment_head = (conn->segment_head + 1) & (conn->segment_room - 1);
	conn->segment_count--;
	conn->front.queued -= segment.n;
	if (segment.release != NULL)
		segment.release(segment.owner);
	else if (segment.owner != NULL)
		chunk_free(segment.owner);
}

/* Moves what was written into the open chunk to the ring; with close_chunk, the chunk goes with it. */
static void
range_close(struct conn *conn, bool close_chunk)
{
	struct conn_front *front = &conn->front;
	struct segment segment = {.p = front->start, .n = (size_t)(front->p - front->start)};

	if (close_chunk)
		segment.owner = conn->chunk;
	if (segment.n != 0 || segment.owner != NULL)
		segment_push(conn, segment);
	front->start = front->p;
	if (close_chunk) {
		conn->chunk = NULL;
		front->p = front->end = front->start = NULL;
	}
}

static void
chunk_open(struct conn *conn, size_t size)
{
	struct chunk *chunk = slab_alloc(size);

	chunk->size = size;
	conn->chunk = chunk;
	conn->front.p = conn->front.start = chunk->data;
	conn->front.end = (uint8_t *)chunk + size;
}

static void
chunk_drop(struct conn *conn)
{
	if (conn->chunk != NULL)
		chunk_free(conn->chunk);
	conn->chunk = NULL;
	conn->front.p = conn->front.end = conn->front.start = NULL;
}

/* Gives back what a conn without output does not need. */
static void
output_idle(struct conn *conn)
{
	assert(conn->segment_count == 0);
	chunk_drop(conn);
	if (conn->segments != NULL)
		slab_free(conn->segments, conn->segment_room * sizeof(*conn->segments));
	conn->segments = NULL;
	conn->segment_room = conn->segment_head = 0;
}

void
conn_output_drop(struct conn *conn)
{
	conn->mute = true;
	conn->front.full_at = 0;
	while (conn->segment_count > 0)
		segment_pop(conn);
	output_idle(conn);
	assert(conn->front.queued == 0);
}

void
conn_mark_dirty(struct conn *conn)
{
	if (!conn->blocked && !conn->mute && !list_linked(&conn->dirty))
		list_append(&conn->net->dirty, &conn->dirty);
}

uint8_t *
conn_reserve_more(struct conn *conn, size_t n)
{
	struct conn_front *front = &conn->front;

	assert_thread(THREAD_BROKER);
	assert(n <= CONN_RESERVE_MAX);
	if ((size_t)(front->end - front->p) > n)
		return front->p;
	if (conn->mute) { // what waited, and perhaps still stands in the ring, is not looked at any more
		chunk_drop(conn);
		chunk_open(conn, CHUNK_LARGE);
		return front->p;
	}
	if (conn->chunk != NULL) {
		range_close(conn, true);
		chunk_open(conn, CHUNK_LARGE);
	} else {
		chunk_open(conn,
			   n < CHUNK_SMALL - sizeof(struct chunk) ? CHUNK_SMALL : CHUNK_LARGE);
	}
	conn_mark_dirty(conn);
	return front->p;
}

void
conn_write_more(struct conn *conn, struct bytes bytes)
{
	struct conn_front *front = &conn->front;

	while (bytes.n != 0) {
		size_t n = (size_t)(front->end - front->p);

		if (n == 0) {
			conn_reserve_more(conn, min_u64(bytes.n, CONN_RESERVE_MAX));
			n = (size_t)(front->end - front->p);
		}
		n = min_u64(n, bytes.n);
		memcpy(front->p, bytes.p, n);
		front->p += n;
		bytes = bytes_of(bytes.p + n, bytes.n - n);
	}
}

void
conn_write_reference(struct conn *conn, struct bytes bytes, void (*release)(void *owner),
		     void *owner)
{
	assert_thread(THREAD_BROKER);
	assert(release != NULL);
	if (conn->mute || bytes.n < conn->net->options.reference_minimum) {
		if (!conn->mute)
			conn_write(conn, bytes);
		release(owner);
		return;
	}
	range_close(conn, false);
	segment_push(conn, (struct segment){bytes.p, bytes.n, release, owner});
	conn_mark_dirty(conn);
}

bool
conn_is_full_now(struct conn *conn)
{
	if (conn->mute || conn->state != CONN_OPEN || conn->was_full)
		return true;
	if (conn_output_size(conn) < conn->net->options.output_high)
		return false;
	conn->was_full = true;
	conn->front.full_at = 0;
	return true;
}

static int
output_gather(struct conn *conn, struct iovec *parts, size_t *total)
{
	const struct conn_front *front = &conn->front;
	int count = 0;

	*total = 0;
	for (uint32_t i = 0; i < conn->segment_count; i++) {
		const struct segment *segment =
			&conn->segments[(conn->segment_head + i) & (conn->segment_room - 1)];

		if (count == PARTS_MAX)
			return count;
		if (segment->n == 0)
			continue;
		parts[count].iov_base = (void *)(uintptr_t)segment->p;
		parts[count++].iov_len = segment->n;
		*total += segment->n;
	}
	if (front->p != front->start && count < PARTS_MAX) {
		parts[count].iov_base = front->start;
		parts[count++].iov_len = (size_t)(front->p - front->start);
		*total += (size_t)(front->p - front->start);
	}
	return count;
}

/* n bytes are gone. */
static void
output_advance(struct conn *conn, size_t n)
{
	struct segment *first;

	while (conn->segment_count > 0) {
		first = segment_first(conn);
		if (first->n > n) {
			first->p += n;
			first->n -= n;
			conn->front.queued -= n;
			return;
		}
		n -= first->n;
		segment_pop(conn);
	}
	if (n != 0)
		conn->front.start += n;
	assert(conn->front.start <= conn->front.p);
	if (conn->front.start == conn->front.p)
		output_idle(conn);
}

/*
 * The peer takes no more. What it sent before may still lie in the socket (its last publishes), so a
 * conn that is read goes on until the read side says that it ended as well.
 */
static void
output_failed(struct conn *conn, int error)
{
	conn_output_drop(conn);
	if (conn->state == CONN_OPEN && conn->pauses == 0) {
		conn->broken = true;
		conn->error = error;
		conn_want(conn);
	} else {
		conn_die(conn, error);
	}
}

/* Writes until all is written or the transport takes no more. 0 or a negative errno. */
static int
output_write(struct conn *conn)
{
	struct iovec parts[PARTS_MAX];

	while (conn_output_size(conn) != 0) {
		size_t total;
		int count = output_gather(conn, parts, &total);
		ssize_t n = conn->transport->ops->write(conn->transport, parts, count);

		if (n == -EAGAIN)
			return -EAGAIN;
		if (n < 0)
			return (int)n;
		conn->octets_out += (uint64_t)n;
		output_advance(conn, (size_t)n);
		if ((size_t)n < total)
			return -EAGAIN;
	}
	if (conn->chunk != NULL)
		output_idle(conn);
	return 0;
}

/* All that was to be written before the end is written: ends our side. */
static void
output_finish(struct conn *conn)
{
	int error = conn->transport->ops->shutdown(conn->transport);

	if (error == -EAGAIN) {
		conn->blocked = true;
		conn_want(conn);
	} else {
		conn_output_drop(conn);
		conn_set_state(conn, CONN_SHUT);
	}
}

void
conn_flush(struct conn *conn)
{
	uint64_t before = conn->octets_out;
	int error;

	if (conn->mute || conn->blocked)
		return;
	error = output_write(conn);
	if (error != 0 && error != -EAGAIN) {
		output_failed(conn, error);
		return;
	}
	conn->blocked = error == -EAGAIN;
	conn_want(conn);
	if (conn->state == CONN_CLOSING) {
		if (!conn->blocked)
			output_finish(conn);
		else if (conn->octets_out != before)
			conn_set_state(conn, CONN_CLOSING);
	} else if (conn->was_full && conn_output_size(conn) <= conn->net->options.output_low) {
		conn->was_full = false;
		conn->front.full_at = conn->net->options.output_high;
		conn->ops->drained(conn);
	}
}
