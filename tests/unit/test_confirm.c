/* SPDX-License-Identifier: Apache-2.0 */
/* Publisher confirms: numbers, groups, nacks, waiting for the disk; each number answered once, in order. */
#include "unit/session_fixture.h"

static struct client *client;
static struct channel *channel;

static void
set_up(void)
{
	session_set_up();
	client = client_connect();
	client_send(client, 1, &(struct method){.id = METHOD_confirm_select});
	client_expect(client, 1, METHOD_confirm_select_ok);
	channel = connection_channel(client->connection, 1);
}

/* A publish that the model would have answered so. */
static void
published(uint64_t lsn, bool rejected)
{
	confirm_publish(&channel->confirm, (struct publish_result){lsn, rejected}, broker->stable);
	channel_confirms_changed(channel);
}

static void
expect_ack(uint64_t tag, bool multiple)
{
	const struct method *m = client_expect(client, 1, METHOD_basic_ack);

	ck_assert_uint_eq(m->basic_ack.delivery_tag, tag);
	ck_assert_int_eq(m->basic_ack.multiple, multiple);
}

static void
expect_nack(uint64_t tag)
{
	const struct method *m = client_expect(client, 1, METHOD_basic_nack);

	ck_assert_uint_eq(m->basic_nack.delivery_tag, tag);
	ck_assert(!m->basic_nack.multiple);
}

START_TEST(test_lone_confirm)
{
	client_declare(client, 1, "q");
	client_publish(client, 1, "q", "x");
	expect_ack(1, false);
	client_publish(client, 1, "nowhere", "x");
	expect_ack(2, false);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_confirms_of_a_turn_are_one_frame)
{
	client_declare(client, 1, "q");
	for (int i = 0; i < 100; i++)
		client_publish(client, 1, "q", "x");
	expect_ack(100, true);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_second_select_keeps_counting)
{
	client_declare(client, 1, "q");
	client_publish(client, 1, "q", "x");
	expect_ack(1, false);
	client_send(client, 1, &(struct method){.id = METHOD_confirm_select});
	client_expect(client, 1, METHOD_confirm_select_ok);
	client_publish(client, 1, "q", "x");
	expect_ack(2, false);
}
END_TEST

START_TEST(test_publishes_before_select_do_not_count)
{
	client_open_channel(client, 2);
	client_declare(client, 2, "q");
	client_publish(client, 2, "q", "x");
	client_expect_nothing(client);
	client_send(client, 2, &(struct method){.id = METHOD_confirm_select});
	client_expect(client, 2, METHOD_confirm_select_ok);
	client_publish(client, 2, "q", "x");
	ck_assert_uint_eq(client_expect(client, 2, METHOD_basic_ack)->basic_ack.delivery_tag, 1);
}
END_TEST

START_TEST(test_return_comes_before_its_ack)
{
	client_declare(client, 1, "q");
	client_publish(client, 1, "q", "x");
	client_publish_bytes(client, 1, "", "nowhere", BYTES("lost"), true);
	client_publish(client, 1, "q", "x");
	client_expect(client, 1, METHOD_basic_return);
	client_expect_content(client, 1);
	expect_ack(3, true);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_confirms_wait_for_the_disk_in_order)
{
	published(10, false);
	published(12, false);
	published(0, false); // nothing durable: waits behind the others
	published(13, false);
	client_expect_nothing(client);
	broker->stable = 9;
	client_expect_nothing(client);
	broker->stable = 10;
	expect_ack(1, false);
	client_expect_nothing(client);
	broker->stable = 12;
	expect_ack(3, true);
	published(14, false);
	client_expect_nothing(client);
	broker->stable = 20;
	expect_ack(5, true);
	published(20, false); // stable already
	expect_ack(6, false);
	client_expect_nothing(client);
	ck_assert(list_empty(&session->confirming));
}
END_TEST

/* What its queues have settled may go out before it is stable, but not before those in front of it. */
START_TEST(test_settled_before_it_is_on_the_disk)
{
	broker->unsettled_room = 16;
	broker->unsettled = xcalloc(broker->unsettled_room, sizeof(uint32_t));
	broker->unsettled[10] = 1;
	broker->unsettled[12] = 2;
	published(10, false);
	published(11, false);
	published(12, false);
	client_expect_nothing(client);
	broker->unsettled[10] = 0;
	expect_ack(2, true);
	client_expect_nothing(client);
	broker->stable = 12;
	expect_ack(3, false);
}
END_TEST

START_TEST(test_nack_in_the_middle)
{
	published(0, false);
	published(0, false);
	published(0, true);
	published(0, false);
	published(0, true);
	published(0, true);
	published(0, false);
	published(0, false);
	expect_ack(2, true);
	expect_nack(3);
	expect_ack(4, false);
	expect_nack(5);
	expect_nack(6);
	expect_ack(8, true);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_nack_waits_with_those_before_it)
{
	published(5, false);
	published(0, true);
	published(6, true);
	client_expect_nothing(client);
	broker->stable = 5;
	expect_ack(1, false);
	expect_nack(2);
	client_expect_nothing(client);
	broker->stable = 6;
	expect_nack(3);
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_close_answers_what_is_settled_first)
{
	published(0, false);
	published(9, false);
	client_send(client, 1, &(struct method){.id = METHOD_channel_close});
	expect_ack(1, false);
	client_expect(client, 1, METHOD_channel_close_ok);
	broker->stable = 9;
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_no_confirm_follows_an_error)
{
	client_declare(client, 1, "q");
	published(9, false);
	client_get(client, 1, "nowhere", true);
	client_expect(client, 1, METHOD_channel_close);
	broker->stable = 9;
	client_expect_nothing(client);
}
END_TEST

START_TEST(test_connection_may_end_with_confirms_outstanding)
{
	published(9, false);
	mem_peer_break(client->peer);
	run();
	broker->stable = 9;
	run();
	ck_assert(list_empty(&session->confirming));
}
END_TEST

/* xorshift: the same steps in every run. */
static uint32_t
random_below(uint32_t n)
{
	static uint64_t state = 2463534242U;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 32) % n);
}

#define NUMBERS 5000

static uint64_t lsns[NUMBERS + 1]; // the highest lsn up to that number
static bool rejections[NUMBERS + 1];

/* Takes what came: each number once, in order, none before it is stable. */
static uint64_t
take_answers(uint64_t answered)
{
	struct frame frame;

	while (client_next_frame(client, &frame)) {
		struct method m;
		uint64_t upto;

		ck_assert_int_eq(method_decode(&m, frame.payload), METHOD_OK);
		upto = m.id == METHOD_basic_ack ? m.basic_ack.delivery_tag
						: m.basic_nack.delivery_tag;
		ck_assert_uint_gt(upto, answered);
		if (m.id == METHOD_basic_nack || !m.basic_ack.multiple)
			ck_assert_uint_eq(upto, answered + 1);
		while (answered < upto) {
			answered++;
			ck_assert_uint_le(lsns[answered], broker->stable);
			ck_assert_int_eq(rejections[answered], m.id == METHOD_basic_nack);
		}
	}
	return answered;
}

START_TEST(test_each_number_is_answered_once)
{
	uint64_t lsn = 0, answered = 0;

	for (uint64_t number = 1; number <= NUMBERS; number++) {
		bool stored = random_below(3) != 0;

		lsn += stored;
		lsns[number] = lsn;
		rejections[number] = random_below(20) == 0;
		published(stored ? lsn : 0, rejections[number]);
		if (random_below(15) == 0) {
			broker->stable += random_below((uint32_t)(lsn - broker->stable) + 1);
			answered = take_answers(answered);
			ck_assert(answered == number || lsns[answered + 1] > broker->stable);
		}
	}
	broker->stable = lsn;
	ck_assert_uint_eq(take_answers(answered), NUMBERS);
	ck_assert(list_empty(&session->confirming));
}
END_TEST

TESTS_WITH("confirm", set_up, session_tear_down, test_lone_confirm,
	   test_confirms_of_a_turn_are_one_frame, test_second_select_keeps_counting,
	   test_publishes_before_select_do_not_count, test_return_comes_before_its_ack,
	   test_confirms_wait_for_the_disk_in_order, test_settled_before_it_is_on_the_disk,
	   test_nack_in_the_middle, test_nack_waits_with_those_before_it,
	   test_close_answers_what_is_settled_first, test_no_confirm_follows_an_error,
	   test_connection_may_end_with_confirms_outstanding, test_each_number_is_answered_once)
