/* SPDX-License-Identifier: Apache-2.0 */
/* Input of connections, pauses and sinks. */
#include <errno.h>

#include "lib/mem_conn.h"
#include "lib/runner.h"

/* ---- input ------------------------------------------------------------------------------------- */

START_TEST(test_input_reaches_its_owner)
{
	open_conn(NO_WINDOW);
	send("hello");
	run();
	ck_seen("hello");
	ck_assert_uint_eq(inputs, 1);
	ck_assert_uint_eq(conn_octets_in(conn), 5);
	run();
	ck_assert_uint_eq(inputs, 1);
}
END_TEST

START_TEST(test_partial_input_is_kept_and_put_in_front)
{
	open_conn(NO_WINDOW);
	unit = 4;
	send("abcdef");
	run();
	ck_seen("abcd");
	send("g");
	run();
	ck_seen("abcd");
	send("hijklm");
	run();
	ck_seen("abcdefghijkl");
	ck_assert_uint_eq(inputs, 3);
}
END_TEST

START_TEST(test_a_unit_longer_than_the_budget_comes_whole)
{
	struct bytes sent = pattern(0, 10 * BUDGET);

	open_conn(NO_WINDOW);
	unit = sent.n;
	mem_peer_send(peer, sent);
	run();
	ck_bytes(buf_bytes(&seen), sent);
}
END_TEST

START_TEST(test_one_turn_reads_one_budget)
{
	open_conn(NO_WINDOW);
	mem_peer_send(peer, pattern(0, 3 * BUDGET));
	turn();
	ck_assert_uint_eq(seen.n, BUDGET);
	ck_assert(net_work_left(net));
	run();
	ck_bytes(buf_bytes(&seen), pattern(0, 3 * BUDGET));
}
END_TEST

START_TEST(test_any_cut_of_the_stream_gives_the_same)
{
	for (size_t piece = 1; piece < 40; piece++) {
		buf_clear(&seen);
		open_conn(NO_WINDOW);
		unit = 17;
		for (size_t at = 0; at < 1700; at += piece) {
			mem_peer_send(peer, pattern(at, min_u64(piece, 1700 - at)));
			turn();
		}
		ck_bytes(buf_bytes(&seen), pattern(0, 1700));
		conn_abort(conn, 0);
		run();
		mem_peer_free(&peer);
		closes = 0;
	}
}
END_TEST

/* ---- pauses ------------------------------------------------------------------------------------ */

START_TEST(test_hold_keeps_input_and_its_order)
{
	open_conn(NO_WINDOW);
	pause_after = 2;
	send("abcd");
	run();
	ck_seen("ab");
	send("ef");
	run();
	ck_seen("ab");
	ck_assert(!net_work_left(net));
	conn_resume(conn, CONN_PAUSE_HOLD);
	ck_assert(net_work_left(net));
	turn();
	ck_seen("abcd");
	run();
	ck_seen("abcdef");
}
END_TEST

START_TEST(test_input_goes_on_when_the_last_reason_ends)
{
	open_conn(NO_WINDOW);
	conn_pause(conn, CONN_PAUSE_HOLD);
	conn_pause(conn, CONN_PAUSE_ALARM);
	conn_pause(conn, CONN_PAUSE_ALARM);
	send("abc");
	run();
	ck_assert_uint_eq(inputs, 0);
	conn_resume(conn, CONN_PAUSE_HOLD);
	ck_assert_uint_eq(conn_paused(conn), CONN_PAUSE_ALARM);
	conn_resume(conn, CONN_PAUSE_YIELD);
	run();
	ck_assert_uint_eq(inputs, 0);
	conn_resume(conn, CONN_PAUSE_ALARM);
	run();
	ck_seen("abc");
}
END_TEST

START_TEST(test_pause_after_the_report_loses_nothing)
{
	open_conn(NO_WINDOW);
	send("abc");
	conn_pause(conn, CONN_PAUSE_OUTPUT);
	ck_assert(!net_work_left(net));
	run();
	ck_assert_uint_eq(inputs, 0);
	conn_resume(conn, CONN_PAUSE_OUTPUT);
	run();
	ck_seen("abc");
}
END_TEST

START_TEST(test_large_rest_of_a_hold_is_kept)
{
	open_conn(NO_WINDOW);
	pause_after = 100;
	mem_peer_send(peer, pattern(0, 5 * BUDGET));
	run();
	ck_assert_uint_eq(seen.n, 100);
	for (unsigned i = 0; seen.n < 5 * BUDGET; i++) {
		ck_assert_uint_lt(i, 1000);
		pause_after = 100;
		conn_resume(conn, CONN_PAUSE_HOLD);
		run();
	}
	ck_bytes(buf_bytes(&seen), pattern(0, 5 * BUDGET));
}
END_TEST

static void
hold_for_a_moment(struct bytes input UNUSED)
{
	conn_pause(conn, CONN_PAUSE_HOLD);
	conn_resume(conn, CONN_PAUSE_HOLD);
}

START_TEST(test_hold_that_ends_within_input)
{
	open_conn(NO_WINDOW);
	input_hook = hold_for_a_moment;
	unit = 2;
	send("abc");
	run();
	ck_seen("ab");
	send("d");
	run();
	ck_seen("abcd");
}
END_TEST

START_TEST(test_pause_and_resume_without_input)
{
	open_conn(NO_WINDOW);
	conn_pause(conn, CONN_PAUSE_HOLD);
	conn_resume(conn, CONN_PAUSE_HOLD);
	ck_assert(!net_work_left(net));
	send("x");
	run();
	ck_seen("x");
}
END_TEST

/* ---- sinks ------------------------------------------------------------------------------------- */

static uint8_t sink[3 * BUDGET];

/* Takes the first byte and asks for the next ones to go to the sink. */
static void
ask_for_sink(struct bytes input)
{
	input_hook = NULL;
	ck_assert_uint_eq(input.n, 1);
	conn_sink(conn, sink, sizeof(sink));
}

START_TEST(test_sink_takes_the_next_bytes)
{
	open_conn(NO_WINDOW);
	input_hook = ask_for_sink;
	send("x");
	run();
	mem_peer_send(peer, pattern(0, 100));
	run();
	ck_assert_uint_eq(inputs, 1);
	ck_assert_uint_eq(conn_sink_left(conn), sizeof(sink) - 100);
	mem_peer_send(peer, pattern(100, sizeof(sink) - 100));
	mem_peer_send(peer, BYTES("after"));
	run();
	ck_assert_uint_eq(conn_sink_left(conn), 0);
	ck_bytes(bytes_of(sink, sizeof(sink)), pattern(0, sizeof(sink)));
	ck_seen("xafter");
	ck_assert_uint_eq(inputs, 2);
}
END_TEST

START_TEST(test_full_sink_is_told_also_without_more_input)
{
	open_conn(NO_WINDOW);
	input_hook = ask_for_sink;
	send("x");
	run();
	mem_peer_send(peer, pattern(0, sizeof(sink)));
	run();
	ck_assert_uint_eq(conn_sink_left(conn), 0);
	ck_assert_uint_eq(inputs, 2);
}
END_TEST

START_TEST(test_cleared_sink_takes_nothing_more)
{
	open_conn(NO_WINDOW);
	input_hook = ask_for_sink;
	send("x");
	run();
	send("12");
	run();
	conn_sink(conn, NULL, 0);
	send("34");
	run();
	ck_seen("x34");
	ck_assert(memcmp(sink, "12", 2) == 0);
}
END_TEST

START_TEST(test_paused_sink_waits)
{
	open_conn(NO_WINDOW);
	input_hook = ask_for_sink;
	send("x");
	run();
	conn_pause(conn, CONN_PAUSE_ALARM);
	mem_peer_send(peer, pattern(0, sizeof(sink)));
	run();
	ck_assert_uint_eq(conn_sink_left(conn), sizeof(sink));
	conn_resume(conn, CONN_PAUSE_ALARM);
	run();
	ck_bytes(bytes_of(sink, sizeof(sink)), pattern(0, sizeof(sink)));
}
END_TEST

START_TEST(test_ids_count_up)
{
	uint64_t first;

	open_conn(NO_WINDOW);
	first = conn_id(conn);
	ck_assert_uint_ge(first, 1);
	ck_assert(conn_peer(conn)->loopback);
	ck_assert_ptr_null(conn_tls_peer(conn));
	conn_abort(conn, 0);
	run();
	mem_peer_free(&peer);
	closes = 0;
	open_conn(NO_WINDOW);
	ck_assert_uint_eq(conn_id(conn), first + 1);
}
END_TEST

TESTS_WITH("conn", mem_set_up, mem_tear_down, test_input_reaches_its_owner,
	   test_partial_input_is_kept_and_put_in_front,
	   test_a_unit_longer_than_the_budget_comes_whole, test_one_turn_reads_one_budget,
	   test_any_cut_of_the_stream_gives_the_same, test_hold_keeps_input_and_its_order,
	   test_input_goes_on_when_the_last_reason_ends, test_pause_after_the_report_loses_nothing,
	   test_large_rest_of_a_hold_is_kept, test_hold_that_ends_within_input,
	   test_pause_and_resume_without_input, test_sink_takes_the_next_bytes,
	   test_full_sink_is_told_also_without_more_input, test_cleared_sink_takes_nothing_more,
	   test_paused_sink_waits, test_ids_count_up)
