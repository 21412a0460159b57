/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message groups: who gets what while messages of the same key are unacked, rule by rule. What is random is in
 * test_queue_groups_random.c.
 */
#include "unit/life_fixture.h"

static struct queue *q;
static struct taker a, b, c;

static struct queue *
declare_grouped(const char *name)
{
	ask_string("x-group-by", "k");
	return declare(name);
}

static void
set_up(void)
{
	life_set_up();
	q = declare_grouped("q");
	order_n = 0;
	a = b = c = (struct taker){0};
}

static void
tear_down(void)
{
	struct taker *takers[] = {&a, &b, &c};

	for (size_t i = 0; i < countof(takers); i++)
		while (takers[i]->taken_n > 0)
			queue_ack(q, &takers[i]->taken[--takers[i]->taken_n]);
	model_tear_down();
}

/* A message whose body begins with its key. */
static void
put(const char *body)
{
	struct table headers;
	struct basic_properties properties = {.flags = PROPERTY_headers};

	table_start(&headers);
	table_put_string(&headers.writer, BYTES("k"), bytes_of(body, 1));
	properties.headers = table_view(&headers);
	send_with(q, &properties, body);
}

static void
put_all(const char *text)
{
	char body[8];
	int n;

	for (; sscanf(text, " %7s%n", body, &n) == 1; text += n)
		put(body);
}

/* What a taker has, in the order in which it came. */
static const char *
has(const struct taker *taker)
{
	static char text[1024];
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < taker->taken_n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s", i == 0 ? "" : " ",
				       BYTES_ARGS(message_body(taker->taken[i].message)));
	return text;
}

enum how {
	ACK,
	REJECT,
	REQUEUE
};

/* As its channel would. */
static void
settle(struct taker *taker, size_t at, enum how how)
{
	struct entry entry = taker->taken[at];

	taker->taken_n--;
	memmove(&taker->taken[at], &taker->taken[at + 1],
		(taker->taken_n - at) * sizeof(struct entry));
	if (how == ACK)
		queue_ack(q, &entry);
	else if (how == REJECT)
		queue_reject(q, &entry);
	else
		queue_requeue(q, &entry);
	if (taker->consumer != NULL)
		consumer_ready(taker->consumer);
	broker_check(broker);
}

/* All that it has comes back, the last first, as when a channel ends. */
static void
requeue_all(struct taker *taker)
{
	while (taker->taken_n > 0)
		settle(taker, taker->taken_n - 1, REQUEUE);
}

static void
expect_get(const char *body, struct entry *entry)
{
	queue_hand_out(q);
	ck_assert_msg(queue_get(q, false, entry), "there is nothing to get");
	ck_assert_msg(bytes_equal(message_body(entry->message), bytes_str(body)),
		      "got %.*s, not %s", BYTES_ARGS(message_body(entry->message)), body);
	broker_check(broker);
}

static void
expect_no_get(void)
{
	struct entry entry;

	queue_hand_out(q);
	ck_assert(!queue_get(q, false, &entry));
	broker_check(broker);
}

/* ---- consumers ---- */

START_TEST(test_a_key_stays_with_its_consumer)
{
	taker_start(&a, q, "a", 0, 100);
	taker_start(&b, q, "b", 0, 100);
	put_all("x1 x2 y1 x3 y2 z1");
	dispatch();
	ck_assert_str_eq(has(&a), "x1 x2 x3 z1");
	ck_assert_str_eq(has(&b), "y1 y2");
	put_all("z2 y3");
	dispatch();
	ck_assert_str_eq(has(&a), "x1 x2 x3 z1 z2");
	ck_assert_str_eq(has(&b), "y1 y2 y3");
}
END_TEST

START_TEST(test_others_go_on_while_a_key_waits_for_credit)
{
	taker_start(&a, q, "a", 0, 1);
	taker_start(&b, q, "b", 0, 100);
	put_all("x1 x2 x3 y1 y2 x4 z1");
	dispatch();
	ck_assert_str_eq(has(&a), "x1");
	ck_assert_str_eq(has(&b), "y1 y2 z1");
	ck_assert_uint_eq(queue_message_count(q), 3);
	ck_assert_uint_eq(queue_octets(q), 6);
	a.room = 2;
	consumer_ready(a.consumer);
	dispatch();
	ck_assert_str_eq(has(&a), "x1 x2");
	settle(&a, 0, ACK);
	dispatch();
	ck_assert_str_eq(has(&a), "x2 x3");
	a.room = 100;
	consumer_ready(a.consumer);
	dispatch();
	ck_assert_str_eq(has(&a), "x2 x3 x4");
	ck_assert_uint_eq(queue_message_count(q), 0);
}
END_TEST

START_TEST(test_a_key_is_free_when_all_is_settled)
{
	taker_start(&a, q, "a", 0, 2);
	taker_start(&b, q, "b", 0, 100);
	put_all("x1 x2 x3");
	dispatch();
	settle(&a, 0, ACK);
	a.room = 1;
	dispatch();
	ck_assert_str_eq(has(&b), ""); // x2 is with a still
	settle(&a, 0, REJECT);
	a.room = 0;
	dispatch();
	ck_assert_str_eq(has(&b), "x3");
	put_all("x4");
	dispatch();
	ck_assert_str_eq(has(&b), "x3 x4");
}
END_TEST

START_TEST(test_free_keys_go_round)
{
	taker_start(&a, q, "a", 0, 100);
	taker_start(&b, q, "b", 0, 100);
	for (int i = 0; i < 4; i++) {
		put("x");
		ck_assert_str_eq(order_taken(), i % 2 ? "b" : "a");
		settle(i % 2 ? &b : &a, 0, ACK);
	}
}
END_TEST

START_TEST(test_of_two_keys_of_a_consumer_none_starves)
{
	taker_start(&a, q, "a", 0, 2);
	taker_start(&b, q, "b", 0, 100);
	put_all("x1");
	dispatch();
	put_all("o1 y1"); // o1 is b's turn
	dispatch();
	ck_assert_str_eq(has(&a), "x1 y1");
	put_all("x2 x3 x4 x5 y2 y3");
	dispatch();
	settle(&a, 0, REJECT); // x1
	dispatch();
	ck_assert_str_eq(has(&b), "o1 x2 x3 x4 x5"); // free, so it went to b
	ck_assert_str_eq(has(&a), "y1 y2");
	put_all("y4 y5 z1");
	dispatch();
	ck_assert_str_eq(has(&b), "o1 x2 x3 x4 x5 z1");
	settle(&a, 0, ACK);
	dispatch();
	ck_assert_str_eq(has(&a), "y2 y3");
}
END_TEST

START_TEST(test_each_waiting_key_has_its_turn)
{
	taker_start(&a, q, "a", 0, 2);
	taker_start(&b, q, "b", 0, 0);
	put_all("x1 y1 x2 x3 x4 y2 y3");
	dispatch();
	ck_assert_str_eq(has(&a), "x1 y1");
	b.room = 100; // there is somebody to take others, so that x and y are set aside
	consumer_ready(b.consumer);
	put_all("z1");
	dispatch();
	ck_assert_str_eq(has(&b), "z1");
	a.room = 3;
	consumer_ready(a.consumer);
	dispatch();
	ck_assert_str_eq(has(&a), "x1 y1 x2");
	a.room = 4;
	consumer_ready(a.consumer);
	dispatch();
	ck_assert_str_eq(has(&a), "x1 y1 x2 y2");
}
END_TEST

START_TEST(test_without_a_key_it_goes_to_anybody)
{
	struct table headers;
	struct basic_properties properties = {.flags = PROPERTY_headers};

	taker_start(&a, q, "a", 0, 100);
	taker_start(&b, q, "b", 0, 100);
	send(q, "1");
	send(q, "2");
	table_start(&headers);
	table_put_bool(&headers.writer, BYTES("k"), true); // neither a string nor an integer
	properties.headers = table_view(&headers);
	send_with(q, &properties, "3");
	send_with(q, &properties, "4");
	ck_assert_str_eq(order_taken(), "abab");
	settle(&a, 0, REQUEUE);
	dispatch();
	settle(&b, 0, ACK);
}
END_TEST

START_TEST(test_integers_are_their_text)
{
	struct table headers;
	struct basic_properties properties = {.flags = PROPERTY_headers};

	taker_start(&a, q, "a", 0, 100);
	taker_start(&b, q, "b", 0, 100);
	put("7");
	table_start(&headers);
	table_put_long(&headers.writer, BYTES("k"), 7);
	properties.headers = table_view(&headers);
	send_with(q, &properties, "7l");
	table_start(&headers);
	table_put_int(&headers.writer, BYTES("k"), 7);
	properties.headers = table_view(&headers);
	send_with(q, &properties, "7i");
	ck_assert_str_eq(order_taken(), "aaa");
}
END_TEST

START_TEST(test_what_comes_back_goes_first)
{
	taker_start(&a, q, "a", 0, 2);
	taker_start(&b, q, "b", 0, 100);
	put_all("x1 x2 x3 x4");
	dispatch();
	settle(&a, 1, REQUEUE); // x1 is with it still
	dispatch();
	ck_assert_str_eq(has(&a), "x1 x2");
	settle(&a, 0, REQUEUE);
	dispatch();
	ck_assert_str_eq(has(&a), "x2 x1"); // both are a's, as x2 is
	a.room = 0;
	settle(&a, 1, REQUEUE);
	settle(&a, 0, REQUEUE);
	dispatch();
	ck_assert_str_eq(has(&b), "x1 x2 x3 x4");
}
END_TEST

START_TEST(test_of_a_consumer_that_goes)
{
	taker_start(&a, q, "a", 0, 3);
	taker_start(&b, q, "b", 0, 100);
	put_all("x1 x2 x3 x4 x5");
	dispatch();
	ck_assert_str_eq(has(&a), "x1 x2 x3");
	taker_cancel(&a);
	dispatch();
	ck_assert_str_eq(has(&b), ""); // nothing came back yet
	settle(&a, 1, ACK);
	expect_no_get();
	requeue_all(&a);
	dispatch();
	ck_assert_str_eq(has(&b), "x1 x3 x4 x5");
}
END_TEST

START_TEST(test_the_last_one_goes_and_another_comes)
{
	taker_start(&a, q, "a", 0, 2);
	taker_start(&b, q, "b", 0, 1);
	put_all("x1 x2 x3 y1 y2");
	dispatch();
	taker_cancel(&a);
	requeue_all(&a);
	taker_cancel(&b);
	requeue_all(&b);
	dispatch();
	ck_assert_uint_eq(queue_message_count(q), 5);
	taker_start(&c, q, "c", 0, 100);
	dispatch();
	ck_assert_uint_eq(c.taken_n, 5);
	ck_assert_str_eq(has(&c), "x1 x2 y1 x3 y2");
}
END_TEST

START_TEST(test_without_acknowledgement_nothing_is_held)
{
	struct consumer_spec spec = taker_spec(&a, "a");

	spec.no_ack = true;
	a.room = 100;
	taker_register(&a, q, &spec);
	taker_start(&b, q, "b", 0, 1);
	put_all("x1 x2 x3 x4");
	ck_assert_str_eq(order_taken(), "ab"); // x2 is unacked: x3 is for b only
	settle(&b, 0, ACK);
	ck_assert_str_eq(order_taken(), "ab");
	a.taken_n = 0; // not ours
}
END_TEST

START_TEST(test_a_single_active_consumer_has_all_keys)
{
	ask_string("x-group-by", "k");
	table_put_bool(&arguments.writer, BYTES("x-single-active-consumer"), true);
	q = declare("single");
	ck_assert_uint_eq(q->flags & QUEUE_GROUPED, 0);
	taker_start(&a, q, "a", 0, 100);
	put_all("x1 y1");
	dispatch();
	taker_start(&b, q, "b", 0, 100);
	taker_cancel(&a);
	put_all("x2");
	dispatch();
	ck_assert_str_eq(has(&b), "x2");
}
END_TEST

START_TEST(test_the_argument_is_a_string)
{
	struct queue_spec spec = {.name = BYTES("other")};

	ask_number("x-group-by", 5);
	spec.arguments = table_view(&arguments);
	ck_assert_ptr_nonnull(queue_check_new(vhost, &spec));
	table_start(&arguments);
	ck_assert_ptr_null(declare("plain")->life); // and costs others nothing
}
END_TEST

/* ---- basic.get ---- */

START_TEST(test_get_passes_by_keys_of_consumers)
{
	struct entry entry;

	taker_start(&a, q, "a", 0, 1);
	put_all("x1 x2 y1 z1 y2");
	dispatch();
	expect_get("y1", &entry);
	queue_requeue(q, &entry);
	expect_get("y1", &entry);
	queue_ack(q, &entry);
	settle(&a, 0, REQUEUE); // and a has it again
	dispatch();
	ck_assert_str_eq(has(&a), "x1");
	expect_get("z1", &entry);
	queue_ack(q, &entry);
	a.room = 0;
	settle(&a, 0, ACK);
	expect_get("x2", &entry);
	queue_ack(q, &entry);
	expect_get("y2", &entry);
	queue_ack(q, &entry);
	expect_no_get();
}
END_TEST

START_TEST(test_what_was_got_holds_its_key_for_gets)
{
	struct entry got[3];

	put_all("x1 x2 x3 y1");
	expect_get("x1", &got[0]);
	expect_get("x2", &got[1]);
	taker_start(&a, q, "a", 0, 100);
	dispatch();
	ck_assert_str_eq(has(&a), "y1");
	queue_ack(q, &got[0]);
	dispatch();
	ck_assert_str_eq(has(&a), "y1");
	expect_get("x3", &got[2]);
	queue_requeue(q, &got[2]);
	queue_requeue(q, &got[1]);
	dispatch();
	ck_assert_str_eq(has(&a), "y1 x2 x3");
}
END_TEST

START_TEST(test_get_without_acknowledgement_holds_nothing)
{
	struct entry entry;

	put_all("x1 x2");
	ck_assert(queue_get(q, true, &entry));
	message_unref(entry.message);
	taker_start(&a, q, "a", 0, 100);
	dispatch();
	ck_assert_str_eq(has(&a), "x2");
}
END_TEST

/* ---- what is set aside ---- */

/* x is with a, which is full; x2 to x4 are set aside, y1 is with b; nobody takes more. */
static void
set_aside(void)
{
	taker_start(&a, q, "a", 0, 1);
	taker_start(&b, q, "b", 0, 1);
	put_all("x1 x2 x3 x4 y1");
	dispatch();
	ck_assert_str_eq(has(&a), "x1");
	ck_assert_str_eq(has(&b), "y1");
	ck_assert_uint_eq(groups_aside(q).count, 3);
	ck_assert_uint_eq(queue_message_count(q), 3);
}

START_TEST(test_purge_takes_what_is_set_aside)
{
	set_aside();
	ck_assert_uint_eq(queue_purge(q), 3);
	broker_check(broker);
	put_all("x5");
	settle(&a, 0, ACK);
	dispatch();
	ck_assert_str_eq(has(&a), "x5");
}
END_TEST

START_TEST(test_deleted_while_keys_are_held)
{
	set_aside();
	ck_assert_uint_eq(queue_delete(q), 3);
	settle(&a, 0, REQUEUE);
	settle(&b, 0, ACK);
}
END_TEST

START_TEST(test_the_oldest_are_dropped_first)
{
	ask_number("x-max-length", 3);
	q = declare_grouped("short");
	set_aside();
	put_all("z1 z2");
	dispatch();
	ck_assert_uint_eq(queue_message_count(q), 3);
	a.room = b.room = 100;
	settle(&a, 0, ACK);
	consumer_ready(b.consumer);
	dispatch();
	ck_assert_str_eq(has(&a), "x4");
	ck_assert_str_eq(has(&b), "y1 z1 z2");
}
END_TEST

START_TEST(test_what_is_set_aside_expires)
{
	ask_number("x-message-ttl", 100);
	q = declare_grouped("brief");
	set_aside();
	pass(50);
	put_all("x5");
	pass(60);
	ck_assert_uint_eq(queue_message_count(q), 1);
	settle(&a, 0, ACK);
	dispatch();
	ck_assert_str_eq(has(&a), "x5");
}
END_TEST

START_TEST(test_what_is_set_aside_expires_on_its_own)
{
	struct table headers;
	struct basic_properties properties = {.flags = PROPERTY_headers | PROPERTY_expiration,
					      .expiration = BYTES("100")};

	taker_start(&a, q, "a", 0, 1);
	taker_start(&b, q, "b", 0, 100);
	put_all("x1 x2");
	table_start(&headers);
	table_put_string(&headers.writer, BYTES("k"), BYTES("x"));
	properties.headers = table_view(&headers);
	send_with(q, &properties, "x3");
	put_all("x4");
	dispatch();
	ck_assert_uint_eq(groups_aside(q).count, 3);
	pass(200);
	ck_assert_uint_eq(groups_aside(q).count, 2);
	a.room = 0;
	settle(&a, 0, ACK);
	dispatch();
	ck_assert_str_eq(has(&b), "x2 x4");
}
END_TEST

/* A key that waits may set a window aside; then all wait. */
START_TEST(test_so_much_is_set_aside_and_no_more)
{
	taker_start(&a, q, "a", 1, 1);
	taker_start(&b, q, "b", 0, 100);
	put("x");
	for (int i = 0; i < QUEUE_WINDOW_COUNT + 10; i++)
		put("x");
	put("y");
	dispatch();
	ck_assert_uint_eq(groups_aside(q).count, QUEUE_WINDOW_COUNT);
	ck_assert_uint_eq(q->ready_count, QUEUE_WINDOW_COUNT + 11);
	ck_assert_uint_eq(b.taken_n, 0);
	for (int i = 0; i < 11; i++) {
		ck_assert_uint_eq(b.taken_n, i == 10 ? 1 : 0);
		settle(&a, 0, ACK);
		a.consumer->prefetch.used = 0;
		dispatch();
	}
	ck_assert_str_eq(has(&b), "y");
	queue_purge(q);
}
END_TEST

START_TEST(test_publishers_do_not_yield_to_a_key_that_waits)
{
	taker_start(&a, q, "a", 0, 1);
	taker_start(&b, q, "b", 0, 100);
	broker->options.yield_high = 100;
	put_all("x x x x x y");
	dispatch();
	ck_assert_uint_gt(q->ready_bytes, 100);
	ck_assert(!queue_wants_yield(q));
	put_all("z z z z z");
	ck_assert(queue_wants_yield(q));
}
END_TEST

START_TEST(test_room_made_by_a_limit_lets_others_go_on)
{
	ask_number("x-max-length", QUEUE_WINDOW_COUNT + 1);
	q = declare_grouped("limited");
	taker_start(&a, q, "a", 0, 1);
	taker_start(&b, q, "b", 0, 100);
	put("x");
	for (int i = 0; i < QUEUE_WINDOW_COUNT + 1; i++)
		put("x");
	dispatch();
	ck_assert_uint_eq(b.taken_n, 0);
	put("y");
	dispatch();
	ck_assert_str_eq(has(&b), "y");
	queue_purge(q);
}
END_TEST

TESTS_WITH("queue_groups", set_up, tear_down, test_a_key_stays_with_its_consumer,
	   test_others_go_on_while_a_key_waits_for_credit, test_a_key_is_free_when_all_is_settled,
	   test_free_keys_go_round, test_of_two_keys_of_a_consumer_none_starves,
	   test_each_waiting_key_has_its_turn, test_without_a_key_it_goes_to_anybody,
	   test_integers_are_their_text, test_what_comes_back_goes_first,
	   test_of_a_consumer_that_goes, test_the_last_one_goes_and_another_comes,
	   test_without_acknowledgement_nothing_is_held, test_a_single_active_consumer_has_all_keys,
	   test_the_argument_is_a_string, test_get_passes_by_keys_of_consumers,
	   test_what_was_got_holds_its_key_for_gets, test_get_without_acknowledgement_holds_nothing,
	   test_purge_takes_what_is_set_aside, test_deleted_while_keys_are_held,
	   test_the_oldest_are_dropped_first, test_what_is_set_aside_expires,
	   test_what_is_set_aside_expires_on_its_own, test_so_much_is_set_aside_and_no_more,
	   test_publishers_do_not_yield_to_a_key_that_waits,
	   test_room_made_by_a_limit_lets_others_go_on)
