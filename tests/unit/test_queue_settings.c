/* SPDX-License-Identifier: Apache-2.0 */
/* What the arguments of a queue ask for, as it is in force. */
#include "unit/model_fixture.h"

static struct table arguments;

static void
set_up(void)
{
	model_set_up();
	table_start(&arguments);
}

static struct queue *
declare(const char *name)
{
	struct queue_spec spec = {.name = bytes_str(name), .arguments = table_view(&arguments)};

	return queue_create(vhost, &spec);
}

START_TEST(test_plain_queues_share_their_settings)
{
	table_put_string(&arguments.writer, BYTES("x-queue-mode"), BYTES("lazy"));
	table_put_string(&arguments.writer, BYTES("x-overflow"), BYTES("drop-head"));
	table_put_int(&arguments.writer, BYTES("x-delivery-limit"), -1);
	table_put_bool(&arguments.writer, BYTES("x-single-active-consumer"), false);
	ck_assert_ptr_eq(queue_settings(declare("q")), &queue_settings_plain);
	ck_assert_ptr_eq(queue_settings(make_queue("r")), &queue_settings_plain);
}
END_TEST

START_TEST(test_all_of_them)
{
	const struct queue_settings *s;

	table_put_long(&arguments.writer, BYTES("x-message-ttl"), 60000);
	table_put_long(&arguments.writer, BYTES("x-expires"), 315360000000);
	table_put_int(&arguments.writer, BYTES("x-max-length"), 10);
	table_put_int(&arguments.writer, BYTES("x-max-length-bytes"), 0);
	table_put_int(&arguments.writer, BYTES("x-delivery-limit"), 3);
	table_put_int(&arguments.writer, BYTES("x-consumer-timeout"), 1000);
	table_put_int(&arguments.writer, BYTES("x-max-priority"), 255);
	table_put_bool(&arguments.writer, BYTES("x-single-active-consumer"), true);
	table_put_string(&arguments.writer, BYTES("x-dead-letter-exchange"), BYTES("dlx"));
	table_put_string(&arguments.writer, BYTES("x-dead-letter-routing-key"), BYTES("dead"));
	s = queue_settings(declare("q"));
	ck_assert_uint_eq(s->ttl_ms, 60000);
	ck_assert_uint_eq(s->expires_ms, 315360000000);
	ck_assert_uint_eq(s->length_max, 10);
	ck_assert_uint_eq(s->octets_max, 0);
	ck_assert_uint_eq(s->delivery_limit, 3);
	ck_assert_uint_eq(s->consumer_timeout_ms, 1000);
	ck_assert_uint_eq(s->priority_max, 255);
	ck_assert(s->single_active);
	ck_assert(s->dead_letters);
	ck_assert(s->has_dead_key);
	ck_assert(bytes_equal(s->dead_exchange, BYTES("dlx")));
	ck_assert(bytes_equal(s->dead_key, BYTES("dead")));
}
END_TEST

START_TEST(test_one_alone_leaves_the_others_without_limits)
{
	const struct queue_settings *s;

	table_put_int(&arguments.writer, BYTES("x-max-length"), 0);
	s = queue_settings(declare("q"));
	ck_assert_uint_eq(s->length_max, 0);
	ck_assert_uint_eq(s->octets_max, UINT64_MAX);
	ck_assert_uint_eq(s->ttl_ms, UINT64_MAX);
	ck_assert_int_eq(s->overflow, OVERFLOW_DROP_HEAD);
	ck_assert(!s->dead_letters);
}
END_TEST

START_TEST(test_dead_letters_may_go_to_the_default_exchange)
{
	table_put_string(&arguments.writer, BYTES("x-dead-letter-exchange"), BYTES(""));
	ck_assert(queue_settings(declare("q"))->dead_letters);
	ck_assert(!queue_settings(declare("r"))->has_dead_key);
	ck_assert_uint_eq(queue_settings(queue_find(vhost, BYTES("q")))->dead_exchange.n, 0);
}
END_TEST

START_TEST(test_priority_0_is_no_level_above_0)
{
	table_put_int(&arguments.writer, BYTES("x-max-priority"), 0);
	ck_assert_uint_eq(queue_settings(declare("q"))->priority_max, 0);
}
END_TEST

START_TEST(test_overflow)
{
	static const char *const words[] = {"drop-head", "reject-publish", "reject-publish-dlx"};

	for (size_t i = 0; i < countof(words); i++) {
		table_start(&arguments);
		table_put_string(&arguments.writer, BYTES("x-overflow"), bytes_str(words[i]));
		ck_assert_int_eq(queue_settings(declare(words[i]))->overflow, i);
	}
	/* a quorum queue takes the third one for the first */
	table_put_string(&arguments.writer, BYTES("x-queue-type"), BYTES("quorum"));
	ck_assert_int_eq(queue_settings(declare("quorum"))->overflow, OVERFLOW_DROP_HEAD);
}
END_TEST

TESTS_WITH("queue_settings", set_up, model_tear_down, test_plain_queues_share_their_settings,
	   test_all_of_them, test_one_alone_leaves_the_others_without_limits,
	   test_dead_letters_may_go_to_the_default_exchange, test_priority_0_is_no_level_above_0,
	   test_overflow)
