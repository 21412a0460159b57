/* SPDX-License-Identifier: Apache-2.0 */
/* Output of connections, and their end. */
#include <errno.h>

#include "lib/mem_conn.h"
#include "lib/runner.h"

/* ---- output ------------------------------------------------------------------------------------ */

static void
release(void *owner)
{
	*(unsigned *)owner += 1;
}

START_TEST(test_output_goes_out_at_the_flush)
{
	open_conn(NO_WINDOW);
	memcpy(conn_reserve(conn, 10), "abcdefghij", 10);
	conn_commit(conn, 3);
	conn_write(conn, BYTES("xyz"));
	ck_assert_uint_eq(conn_output_size(conn), 6);
	ck_assert_uint_eq(mem_peer_take(peer).n, 0);
	ck_assert(net_work_left(net));
	net_flush(net);
	ck_assert_uint_eq(conn_output_size(conn), 0);
	ck_bytes(mem_peer_take(peer), BYTES("abcxyz"));
	ck_assert_uint_eq(conn_octets_out(conn), 6);
	ck_assert(!net_work_left(net));
}
END_TEST

/* Writes n patterned bytes in all ways there are, and tells how many references were among them. */
static unsigned
write_mixed(size_t n, unsigned *released)
{
	static uint8_t bodies[1 << 18];
	static const size_t sizes[] = {1, 4096, 7, 5000, 0, 300, 32768, 4095, 60000, 2};
	unsigned references = 0;

	memcpy(bodies, pattern(0, n).p, n);
	for (size_t at = 0, i = 0; at < n; i++) {
		size_t size = min_u64(sizes[i % countof(sizes)], n - at);

		if (i % 3 == 0 && size <= CONN_RESERVE_MAX) {
			memcpy(conn_reserve(conn, size), bodies + at, size);
			conn_commit(conn, size);
		} else if (i % 3 == 1) {
			conn_write_reference(conn, bytes_of(bodies + at, size), release, released);
			references++;
		} else {
			conn_write(conn, bytes_of(bodies + at, size));
		}
		at += size;
	}
	return references;
}

START_TEST(test_chunks_and_references_keep_their_order)
{
	unsigned released = 0;
	unsigned references;

	open_conn(NO_WINDOW);
	references = write_mixed(250000, &released);
	ck_assert_uint_eq(conn_output_size(conn), 250000);
	run();
	ck_bytes(mem_peer_take(peer), pattern(0, 250000));
	ck_assert_uint_eq(released, references);
}
END_TEST

START_TEST(test_a_small_window_gives_the_same_bytes)
{
	static const size_t windows[] = {1, 100, 4096, 4097, 65536};

	for (size_t i = 0; i < countof(windows); i++) {
		size_t n = windows[i] == 1 ? 9000 : 250000;
		unsigned released = 0, references;
		struct buf got;

		buf_init(&got, 0);
		open_conn(windows[i]);
		references = write_mixed(n, &released);
		while (got.n < n) {
			run();
			buf_add_bytes(&got, mem_peer_take(peer));
		}
		ck_bytes(buf_bytes(&got), pattern(0, n));
		ck_assert_uint_eq(released, references);
		buf_fini(&got);
		conn_abort(conn, 0);
		run();
		mem_peer_free(&peer);
		closes = 0;
	}
}
END_TEST

START_TEST(test_many_references_need_several_writes)
{
	static uint8_t body[4096];
	unsigned released = 0;

	open_conn(NO_WINDOW);
	for (unsigned i = 0; i < 1000; i++)
		conn_write_reference(conn, bytes_of(body, sizeof(body)), release, &released);
	ck_assert_uint_eq(released, 0);
	run();
	ck_assert_uint_eq(released, 1000);
	ck_assert_uint_eq(mem_peer_take(peer).n, 1000 * sizeof(body));
}
END_TEST

START_TEST(test_short_references_are_copied_and_released_at_once)
{
	unsigned released = 0;

	open_conn(NO_WINDOW);
	conn_write_reference(conn, BYTES("short"), release, &released);
	ck_assert_uint_eq(released, 1);
	run();
	ck_bytes(mem_peer_take(peer), BYTES("short"));
}
END_TEST

START_TEST(test_full_until_drained_below_low)
{
	open_conn(1000);
	conn_write(conn, pattern(0, HIGH - 1));
	ck_assert(!conn_is_full(conn));
	conn_write(conn, pattern(0, 1));
	ck_assert(conn_is_full(conn));
	run();
	while (conn_output_size(conn) > LOW) {
		ck_assert_uint_eq(drains, 0);
		ck_assert(conn_is_full(conn));
		mem_peer_take(peer);
		run();
	}
	ck_assert_uint_eq(drains, 1);
	ck_assert(!conn_is_full(conn));
	while (conn_output_size(conn) != 0) {
		mem_peer_take(peer);
		run();
	}
	ck_assert_uint_eq(drains, 1);
}
END_TEST

START_TEST(test_drained_when_the_same_turn_wrote_all)
{
	open_conn(NO_WINDOW);
	conn_write(conn, pattern(0, HIGH));
	ck_assert(conn_is_full(conn));
	ck_assert_uint_eq(drains, 0);
	turn();
	ck_assert_uint_eq(drains, 1);
	conn_write(conn, pattern(0, HIGH));
	turn();
	ck_assert_uint_eq(drains, 1); // nobody asked
}
END_TEST

static void
write_more(void)
{
	conn_write(conn, pattern(0, HIGH));
	ck_assert(conn_is_full(conn));
}

START_TEST(test_what_drained_writes_waits_for_the_next_turn)
{
	open_conn(NO_WINDOW);
	drained_hook = write_more;
	conn_write(conn, pattern(0, HIGH));
	ck_assert(conn_is_full(conn));
	net_flush(net);
	ck_assert_uint_eq(drains, 1);
	ck_assert(net_work_left(net));
	net_flush(net);
	ck_assert_uint_eq(drains, 2);
	drained_hook = NULL;
	run();
	ck_assert_uint_eq(drains, 3);
}
END_TEST

/* ---- the end ----------------------------------------------------------------------------------- */

START_TEST(test_peer_ends)
{
	open_conn(NO_WINDOW);
	send("last");
	mem_peer_close(peer);
	run();
	ck_seen("last");
	ck_assert_uint_eq(closes, 1);
	ck_assert_int_eq(close_error, 0);
	ck_assert(mem_peer_closed(peer));
	ck_assert_uint_eq(net_conn_count(net), 0);
}
END_TEST

START_TEST(test_abort_tells_its_error_and_drops_output)
{
	unsigned released = 0;

	open_conn(NO_WINDOW);
	conn_write(conn, BYTES("lost"));
	conn_write_reference(conn, pattern(0, 5000), release, &released);
	conn_abort(conn, -EPROTO);
	conn_abort(conn, -EIO);
	ck_assert(conn_is_full(conn));
	conn_write(conn, pattern(0, 200000));
	conn_write_reference(conn, pattern(0, 5000), release, &released);
	ck_assert_uint_eq(closes, 0);
	turn();
	ck_assert_uint_eq(closes, 1);
	ck_assert_int_eq(close_error, -EPROTO);
	ck_assert_uint_eq(released, 2);
	ck_assert_uint_eq(mem_peer_take(peer).n, 0);
}
END_TEST

START_TEST(test_close_flushes_first)
{
	unsigned released = 0;

	open_conn(1000);
	conn_write_reference(conn, pattern(0, 5000), release, &released);
	conn_close(conn);
	conn_close(conn);
	run();
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(closes, 0);
		ck_assert(!mem_peer_closed(peer));
		ck_bytes(mem_peer_take(peer), pattern((size_t)i * 1000, 1000));
		run();
	}
	ck_bytes(mem_peer_take(peer), pattern(4000, 1000));
	ck_assert_uint_eq(closes, 1);
	ck_assert_int_eq(close_error, 0);
	ck_assert_uint_eq(released, 1);
	ck_assert(mem_peer_closed(peer));
}
END_TEST

START_TEST(test_closed_conn_lingers_without_its_owner)
{
	open_conn(NO_WINDOW);
	conn_close(conn);
	send("unread");
	run();
	ck_assert_uint_eq(closes, 1);
	ck_assert_uint_eq(inputs, 0);
	ck_assert_uint_eq(net_conn_count(net), 0);
	send("thrown away");
	run();
	ck_assert_uint_eq(deadlines.count, 1);
	mem_peer_close(peer);
	run();
	ck_assert_uint_eq(deadlines.count, 0);
	mem_peer_free(&peer); // asserts that the transport is gone
}
END_TEST

START_TEST(test_lingering_ends_in_time)
{
	open_conn(NO_WINDOW);
	conn_close(conn);
	run();
	ck_assert_uint_eq(closes, 1);
	advance(2999);
	run();
	ck_assert_uint_eq(deadlines.count, 1);
	advance(1);
	run();
	ck_assert_uint_eq(deadlines.count, 0);
	mem_peer_free(&peer);
}
END_TEST

START_TEST(test_close_gives_up_on_a_peer_that_does_not_read)
{
	unsigned released = 0;

	open_conn(1000);
	conn_write_reference(conn, pattern(0, 9000), release, &released);
	conn_close(conn);
	run();
	advance(2000);
	mem_peer_take(peer); // progress: the time starts anew
	run();
	advance(2000);
	run();
	ck_assert_uint_eq(closes, 0);
	advance(1000);
	run();
	ck_assert_uint_eq(closes, 1);
	ck_assert_int_eq(close_error, -ETIMEDOUT);
	ck_assert_uint_eq(released, 1);
}
END_TEST

START_TEST(test_failed_write_still_reads_what_came_before)
{
	unsigned released = 0;

	open_conn(NO_WINDOW);
	unit = 1;
	mem_peer_send(peer, pattern(0, 2 * BUDGET));
	conn_write_reference(conn, pattern(0, 9000), release, &released);
	mem_peer_break(peer);
	turn();
	ck_assert_uint_eq(released, 1);
	ck_assert(conn_is_full(conn));
	run();
	ck_assert_uint_eq(seen.n, 2 * BUDGET);
	ck_assert_uint_eq(closes, 1);
	ck_assert_int_eq(close_error, -EPIPE);
}
END_TEST

START_TEST(test_failed_write_ends_a_paused_conn)
{
	open_conn(NO_WINDOW);
	conn_pause(conn, CONN_PAUSE_ALARM);
	conn_write(conn, BYTES("x"));
	mem_peer_break(peer);
	run();
	ck_assert_uint_eq(closes, 1);
	ck_assert_int_eq(close_error, -EPIPE);
}
END_TEST

START_TEST(test_failed_write_ends_a_conn_that_pauses_later)
{
	open_conn(NO_WINDOW);
	unit = 1;
	pause_after = 10;
	mem_peer_send(peer, pattern(0, 3 * BUDGET));
	turn();
	conn_resume(conn, CONN_PAUSE_HOLD);
	conn_write(conn, BYTES("x"));
	mem_peer_break(peer);
	pause_after = 10;
	run();
	ck_assert_uint_eq(closes, 1);
	ck_assert_int_eq(close_error, -EPIPE);
}
END_TEST

static void
close_in_input(struct bytes input UNUSED)
{
	conn_write(conn, BYTES("bye"));
	conn_close(conn);
}

START_TEST(test_close_within_input)
{
	open_conn(NO_WINDOW);
	input_hook = close_in_input;
	unit = 0;
	mem_peer_send(peer, pattern(0, 2 * BUDGET));
	run();
	ck_assert_uint_eq(inputs, 1);
	ck_assert_uint_eq(closes, 1);
	ck_bytes(mem_peer_take(peer), BYTES("bye"));
}
END_TEST

static void
abort_in_input(struct bytes input UNUSED)
{
	conn_abort(conn, -EPROTO);
}

START_TEST(test_abort_within_input)
{
	open_conn(NO_WINDOW);
	input_hook = abort_in_input;
	unit = 0;
	mem_peer_send(peer, pattern(0, 2 * BUDGET));
	run();
	ck_assert_uint_eq(inputs, 1);
	ck_assert_uint_eq(closes, 1);
	ck_assert_int_eq(close_error, -EPROTO);
}
END_TEST

START_TEST(test_net_free_ends_what_lingers)
{
	open_conn(NO_WINDOW);
	conn_close(conn);
	run();
	ck_assert_uint_eq(closes, 1);
	ck_assert_uint_eq(deadlines.count, 1);
	/* tear_down frees the net. */
}
END_TEST

TESTS_WITH("conn_output", mem_set_up, mem_tear_down, test_output_goes_out_at_the_flush,
	   test_chunks_and_references_keep_their_order, test_a_small_window_gives_the_same_bytes,
	   test_many_references_need_several_writes,
	   test_short_references_are_copied_and_released_at_once, test_full_until_drained_below_low,
	   test_drained_when_the_same_turn_wrote_all,
	   test_what_drained_writes_waits_for_the_next_turn, test_peer_ends,
	   test_abort_tells_its_error_and_drops_output, test_close_flushes_first,
	   test_closed_conn_lingers_without_its_owner, test_lingering_ends_in_time,
	   test_close_gives_up_on_a_peer_that_does_not_read,
	   test_failed_write_still_reads_what_came_before, test_failed_write_ends_a_paused_conn,
	   test_failed_write_ends_a_conn_that_pauses_later, test_close_within_input,
	   test_abort_within_input, test_net_free_ends_what_lingers)
