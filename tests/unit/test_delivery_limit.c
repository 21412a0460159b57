/* SPDX-License-Identifier: Apache-2.0 */
/* How often a message may come back to its queue, and who is told how often it did. */
#include "unit/life_fixture.h"

static struct queue *dead;

static void
set_up(void)
{
	life_set_up();
	dead = declare("dead");
}

static uint32_t
returns_of_first(struct queue *q)
{
	return entry_returns(window_first(q));
}

START_TEST(test_one_return_too_many)
{
	struct queue *q;
	struct entry entry;

	ask_number("x-delivery-limit", 2);
	ask_dead_letters_to("dead");
	q = declare("q");
	send(q, "a");
	send(q, "b");
	ck_assert_uint_eq(returns_of_first(q), 0);
	requeue_first(q);
	ck_assert_uint_eq(returns_of_first(q), 1);
	requeue_first(q);
	ck_assert_uint_eq(returns_of_first(q), 2);
	ck_assert_str_eq(bodies(q), "a b");
	requeue_first(q);
	ck_assert_str_eq(bodies(q), "b");
	ck_assert_uint_eq(returns_of_first(q), 0);
	entry = take(dead);
	expect_death(entry.message, 0, "q", "delivery_limit", 1);
	ck_assert_uint_eq(entry_returns(&entry), 0);
	queue_ack(dead, &entry);
}
END_TEST

START_TEST(test_no_return_at_all)
{
	struct queue *q;

	ask_number("x-delivery-limit", 0);
	q = declare("q");
	send(q, "a");
	requeue_first(q);
	ck_assert_uint_eq(broker_message_count(broker), 0);
}
END_TEST

START_TEST(test_without_a_limit_it_comes_back_for_ever)
{
	static const char *const types[] = {"classic", "quorum"};

	for (size_t i = 0; i < countof(types); i++) {
		struct queue_spec spec = {.name = bytes_str(types[i]), .durable = true};
		struct queue *q;

		ask_string("x-queue-type", types[i]);
		spec.arguments = table_view(&arguments);
		q = queue_create(vhost, &spec);
		table_start(&arguments);
		send(q, "a");
		for (int n = 0; n < 40000; n++) {
			struct entry entry = take(q);

			queue_requeue(q, &entry);
		}
		ck_assert_str_eq(bodies(q), "a");
		/* quorum queues count all the same, as far as there is room */
		ck_assert_uint_eq(returns_of_first(q), i == 0 ? 0 : ENTRY_RETURNS_MAX);
	}
}
END_TEST

START_TEST(test_message_tells_how_often)
{
	struct message *plain = text_message("x", "key", NULL, "body");
	struct message *once = message_with_count(plain, 1);
	struct message *twice = message_with_count(once, 2);

	expect_number(headers_of(once), "x-delivery-count", 'l', 1);
	expect_number(headers_of(twice), "x-delivery-count", 'l', 2);
	ck_assert_uint_eq(table_count(headers_of(twice)), 1);
	ck_assert(bytes_equal(message_body(twice), BYTES("body")));
	ck_assert(bytes_equal(message_exchange(twice), BYTES("x")));
	ck_assert(bytes_equal(message_key(twice), BYTES("key")));
	message_unref(plain);
	message_unref(once);
	message_unref(twice);
}
END_TEST

TESTS_WITH("delivery_limit", set_up, model_tear_down, test_one_return_too_many,
	   test_no_return_at_all, test_without_a_limit_it_comes_back_for_ever,
	   test_message_tells_how_often)
