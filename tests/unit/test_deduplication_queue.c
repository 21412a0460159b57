/* SPDX-License-Identifier: Apache-2.0 */
/* Deduplication by queues (amqp.md 5.8): while a message is there, or by a cache; and policies. */
#include "broker/keys.h"
#include "unit/deduplication_fixture.h"
#include "unit/policy_fixture.h"

static struct queue *q;

static void
set_up(void)
{
	log_set_level(LOG_NONE);
	deduplication_set_up();
}

/* A queue that knows what it has. */
static struct queue *
make(void)
{
	ask_true("x-message-deduplication");
	return declare("q");
}

static uint64_t
duplicates(const struct queue *queue)
{
	return queue_deduplication(queue).duplicates;
}

/* With a priority. */
static void
send_key_at(uint8_t priority, const char *key)
{
	struct basic_properties properties = {.flags = PROPERTY_headers | PROPERTY_priority,
					      .priority = priority};

	with_text(KEY, key);
	properties.headers = table_view(&headers);
	table_start(&headers);
	ck_assert(send_with(q, &properties, key));
}

static uint64_t
known(const struct queue *queue)
{
	return queue_deduplication(queue).count;
}

/* ---- while it is there ---- */

START_TEST(test_a_value_is_there_once)
{
	q = make();
	ck_assert(send_key(q, "a"));
	ck_assert(send_key(q, "a"));
	ck_assert(send_key(q, "b"));
	ck_assert(send(q, "no key"));
	ck_assert(send(q, "no key"));
	ck_assert_str_eq(bodies(q), "a b no key no key");
	ck_assert_uint_eq(duplicates(q), 1);
	ck_assert_uint_eq(known(q), 2);
	ck_assert(queue_deduplication(q).while_queued);
	ck_assert_uint_eq(q->publish_count, 4);
}
END_TEST

START_TEST(test_an_unacked_message_is_there)
{
	struct entry entry;

	q = make();
	send_key(q, "a");
	entry = take(q);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "");
	queue_ack(q, &entry);
	ck_assert_uint_eq(known(q), 0);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

START_TEST(test_one_that_comes_back_was_never_away)
{
	q = make();
	send_key(q, "a");
	requeue_first(q);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_uint_eq(known(q), 1);
}
END_TEST

START_TEST(test_got_without_acknowledgement_it_is_gone)
{
	struct entry entry;

	q = make();
	send_key(q, "a");
	ck_assert(queue_get(q, true, &entry));
	message_unref(entry.message);
	ck_assert_uint_eq(known(q), 0);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

START_TEST(test_expired_it_is_gone)
{
	ask_number("x-message-ttl", 100);
	q = make();
	send_key(q, "a");
	pass(99);
	send_key(q, "a");
	ck_assert_uint_eq(duplicates(q), 1);
	pass(1);
	ck_assert_uint_eq(known(q), 0);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

START_TEST(test_dropped_it_is_gone)
{
	ask_number("x-max-length", 2);
	q = make();
	send_key(q, "a");
	send_key(q, "b");
	send_key(q, "c");
	ck_assert_uint_eq(known(q), 2);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "c a");
	ask_number("x-max-length", 0);
	ask_true("x-message-deduplication");
	q = declare("none");
	send_key(q, "a");
	ck_assert_uint_eq(known(q), 0);
}
END_TEST

START_TEST(test_rejected_it_is_gone)
{
	q = make();
	send_key(q, "a");
	reject_first(q);
	ck_assert_uint_eq(known(q), 0);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

/* Messages that a purge leaves are known still. */
START_TEST(test_purge)
{
	struct entry entry;

	q = make();
	send_key(q, "a");
	send_key(q, "b");
	entry = take(q);
	queue_purge(q);
	ck_assert_uint_eq(known(q), 1);
	send_key(q, "a");
	send_key(q, "b");
	ck_assert_str_eq(bodies(q), "b");
	queue_ack(q, &entry);
}
END_TEST

START_TEST(test_deleted)
{
	struct entry entry;

	q = make();
	send_key(q, "a");
	send_key(q, "b");
	entry = take(q);
	queue_delete(q);
	queue_ack(q, &entry);
	broker_reap(broker);
	q = make();
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

/* A full queue does not refuse what it has, and what it refuses it does not have. */
START_TEST(test_full)
{
	ask_number("x-max-length", 1);
	ask_string("x-overflow", "reject-publish-dlx");
	ask_dead_letters_to("dead");
	q = make();
	declare("dead");
	ck_assert(send_key(q, "a"));
	ck_assert(!send_key(q, "b"));
	ck_assert(send_key(q, "a"));
	ck_assert_str_eq(bodies(queue_find(vhost, BYTES("dead"))), "b");
	reject_first(q);
	ck_assert(send_key(q, "b"));
	ck_assert_str_eq(bodies(q), "b");
}
END_TEST

/* One queue of several does without it. */
START_TEST(test_several_queues)
{
	struct exchange *x = make_exchange("x", "fanout");
	struct queue *plain = declare("plain");

	q = make();
	bind_queue(x, q, "", no_bytes());
	bind_queue(x, plain, "", no_bytes());
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_str_eq(bodies(plain), "a a");
}
END_TEST

/* ---- parts of a queue ---- */

/* The message lies in a part of the queue, as a level of priority is one: the key is the queue's. */
START_TEST(test_a_message_in_a_part)
{
	struct queue *part;
	struct route to = {.count = 1};
	struct key_mark mark;
	struct message *m;
	struct entry entry;

	q = make();
	send_key(q, "other");
	send_key(q, "another");
	part = part_create((struct part_owner){.queue = q}, 3);
	with_text(KEY, "a");
	m = keyed_message("", "a");
	ck_assert_int_eq(keys_ask_queue(q, m, &mark), KEY_NEW);
	route_add_mark(&to, &mark);
	to.queues = &part;
	m->time_ms = 1;
	queue_publish_admitted(broker, &to, m);
	keys_note(&to, m);
	route_drop_marks(&to);
	xfree(to.marks);
	message_unref(m);
	ck_assert_uint_eq(known(q), 3);
	send_key(q, "a");
	ck_assert_uint_eq(duplicates(q), 1);
	/* it has the number that the first one has in the queue */
	entry = take(q);
	queue_ack(q, &entry);
	send_key(q, "a");
	ck_assert_uint_eq(duplicates(q), 2);
	entry = take(part);
	queue_ack(part, &entry);
	ck_assert_uint_eq(known(q), 1);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "another a");
}
END_TEST

static void
fail_first(void)
{
	struct entry entry = take(q);

	queue_fail(q, &entry);
	broker_check(broker);
}

/* From a level to the room, and back to the level. */
START_TEST(test_a_message_of_a_level_that_waits_for_its_retry)
{
	struct queue *from;
	struct entry entry;

	ask_number("x-retry-max", 2);
	ask_number("x-retry-initial", 1000);
	ask_number("x-max-priority", 9);
	q = make();
	send_key_at(5, "a");
	entry = take_from(q, &from);
	ck_assert_ptr_ne(from, q);
	queue_fail(from, &entry);
	broker_check(broker);
	send_key_at(9, "a");
	ck_assert_str_eq(bodies(q), "");
	send_key_at(9, "b");
	pass(10000);
	send_key_at(1, "a");
	ck_assert_str_eq(bodies(q), "b a");
	for (uint64_t left = 2; left > 0; left--) {
		ck_assert_uint_eq(known(q), left);
		entry = take_from(q, &from);
		queue_ack(from, &entry);
	}
	ck_assert_uint_eq(known(q), 0);
}
END_TEST

/* Between its retries it is the queue's still. */
START_TEST(test_a_message_that_waits_for_its_retry)
{
	struct entry entry;

	ask_number("x-retry-max", 2);
	ask_number("x-retry-initial", 1000);
	q = make();
	send_key(q, "a");
	for (int i = 0; i < 2; i++) {
		fail_first();
		ck_assert_str_eq(bodies(q), "");
		ck_assert_uint_eq(known(q), 1);
		send_key(q, "a");
		pass(10000);
		ck_assert_str_eq(bodies(q), "a");
		send_key(q, "a");
	}
	ck_assert_uint_eq(duplicates(q), 4);
	entry = take(q);
	queue_ack(q, &entry);
	ck_assert_uint_eq(known(q), 0);
	/* and after the last one it is not */
	send_key(q, "a");
	for (int i = 0; i < 3; i++) {
		pass(10000);
		fail_first();
	}
	ck_assert_uint_eq(known(q), 0);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

START_TEST(test_retries_with_a_cache)
{
	ask_number("x-retry-max", 2);
	ask_number("x-cache-size", 5);
	q = make();
	send_key(q, "a");
	fail_first();
	pass(100000);
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_uint_eq(duplicates(q), 0);
}
END_TEST

/* ---- dead letters ---- */

/* A message that dies comes back to its queue by its dead letter exchange. */
START_TEST(test_back_to_its_own_queue)
{
	struct entry entry;

	ask_dead_letters_to("q");
	q = make();
	send_key(q, "a");
	reject_first(q);
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_uint_eq(known(q), 1);
	ck_assert_uint_eq(duplicates(q), 0);
	send_key(q, "a");
	ck_assert_uint_eq(duplicates(q), 1);
	entry = take(q);
	queue_ack(q, &entry);
	ck_assert_uint_eq(known(q), 0);
}
END_TEST

/* Round by another queue, where it waits: a retry as it is done with queues. */
START_TEST(test_back_by_another_queue)
{
	ask_number("x-message-ttl", 1000);
	ask_dead_letters_to("q");
	declare("wait");
	ask_dead_letters_to("wait");
	q = make();
	send_key(q, "a");
	reject_first(q);
	ck_assert_uint_eq(known(q), 0);
	pass(1000);
	ck_assert_str_eq(bodies(q), "a");
	/* meanwhile the same was published: then that stays */
	reject_first(q);
	send_key(q, "a");
	pass(1000);
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_uint_eq(duplicates(q), 1);
}
END_TEST

/* With a cache the same message would be held back: that is for publishers. */
START_TEST(test_back_with_a_cache)
{
	ask_dead_letters_to("q");
	ask_number("x-cache-size", 10);
	q = make();
	send_key(q, "a");
	reject_first(q);
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_uint_eq(duplicates(q), 0);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

/* A queue of dead letters that has each once. */
START_TEST(test_dead_letters_are_asked_for)
{
	struct queue *from;

	q = make();
	ask_dead_letters_to("q");
	from = declare("from");
	send_key(from, "a");
	send_key(from, "a");
	send_key(from, "b");
	for (int i = 0; i < 3; i++)
		reject_first(from);
	ck_assert_str_eq(bodies(q), "a b");
	ck_assert_uint_eq(duplicates(q), 1);
}
END_TEST

/* ---- with a cache ---- */

START_TEST(test_cache)
{
	ask_number("x-cache-size", 2);
	q = make();
	ck_assert(!queue_deduplication(q).while_queued);
	send_key(q, "a");
	reject_first(q);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "");
	send_key(q, "b");
	send_key(q, "c");
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "b c a");
}
END_TEST

START_TEST(test_cache_with_a_ttl_alone)
{
	ask_number("x-cache-ttl", 500);
	q = make();
	ck_assert_uint_eq(queue_deduplication(q).size, 128);
	send_key(q, "a");
	reject_first(q);
	pass(499);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "");
	pass(1);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

START_TEST(test_cache_forgets_what_was_refused)
{
	ask_number("x-cache-size", 10);
	ask_number("x-max-length", 1);
	ask_string("x-overflow", "reject-publish");
	q = make();
	ck_assert(send_key(q, "a"));
	ck_assert(!send_key(q, "b"));
	reject_first(q);
	ck_assert(send_key(q, "b"));
	ck_assert_str_eq(bodies(q), "b");
}
END_TEST

START_TEST(test_bad_arguments)
{
	struct queue_spec spec = {.name = BYTES("q")};

	ask_number("x-message-deduplication", 1);
	spec.arguments = table_view(&arguments);
	assert_refused(queue_check_new(vhost, &spec), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - invalid arg 'x-message-deduplication' for queue 'q' "
		       "in vhost 'v': {unacceptable_type,long}");
	table_start(&arguments);
	ask_number("x-cache-size", 0);
	spec.arguments = table_view(&arguments);
	assert_refused(queue_check_new(vhost, &spec), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - invalid arg 'x-cache-size' for queue 'q' in vhost "
		       "'v': {value_zero,0}");
	table_start(&arguments);
	ask_number("x-cache-size", DEDUPLICATION_SIZE_MAX + 1);
	spec.arguments = table_view(&arguments);
	assert_refused(queue_check_new(vhost, &spec), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - invalid arg 'x-cache-size' for queue 'q' in vhost "
		       "'v': {value_too_large,16777217}");
	table_start(&arguments);
}
END_TEST

/* ---- policies ---- */

START_TEST(test_policy_on_a_queue)
{
	q = declare("q");
	send_key(q, "a");
	put("p", "q", "message-deduplication=true");
	/* what was there before is not known */
	send_key(q, "a");
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a a");
	take_away(POLICY_USER, "p");
	ck_assert(!queue_deduplication(q).is_on);
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a a a");
	for (int i = 0; i < 3; i++)
		reject_first(q);
}
END_TEST

/* Of another kind it begins anew; larger or smaller it does not. */
START_TEST(test_policy_changes)
{
	q = make();
	send_key(q, "a");
	put("p", "q", "cache-size=2");
	ck_assert_uint_eq(known(q), 0);
	send_key(q, "a");
	send_key(q, "b");
	ck_assert_str_eq(bodies(q), "a a b");
	put("p", "q", "cache-size=10 cache-ttl=1000");
	ck_assert_uint_eq(known(q), 2);
	put("p", "q", "cache-size=1");
	ck_assert_uint_eq(known(q), 1);
	send_key(q, "b");
	send_key(q, "a");
	ck_assert_str_eq(bodies(q), "a a b a");
	put("p", "q", "cache-size=1 deduplication-header=other");
	ck_assert_uint_eq(known(q), 0);
	take_away(POLICY_USER, "p");
	ck_assert(queue_deduplication(q).while_queued);
	/* messages of before have keys that nobody holds */
	for (int i = 0; i < 4; i++)
		reject_first(q);
}
END_TEST

START_TEST(test_policy_on_an_exchange)
{
	struct exchange *x = make_exchange("x", "topic");

	q = declare("q");
	bind_queue(x, q, "#", no_bytes());
	/* routes are remembered by now */
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	put("p", "x", "x-message-deduplication=true x-cache-size=5 x-cache-ttl=100");
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_int_eq(publish_key(x, "a"), DUPLICATE);
	ck_assert_uint_eq(exchange_deduplication(x).size, 5);
	pass(100);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	take_away(POLICY_USER, "p");
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
	ck_assert_int_eq(publish_key(x, "a"), TAKEN);
}
END_TEST

START_TEST(test_the_default_exchange_has_none)
{
	put("p", "", "message-deduplication=true");
	q = declare("key");
	ck_assert(!exchange_deduplication(vhost->default_exchange).is_on);
	ck_assert_int_eq(publish_key(vhost->default_exchange, "a"), TAKEN);
	ck_assert_int_eq(publish_key(vhost->default_exchange, "a"), TAKEN);
	/* but the queue has */
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

START_TEST(test_bad_policies)
{
	struct policy_spec spec = policy_spec_of("p", "q", "message-deduplication=1");

	ck_assert_str_eq(policy_check(POLICY_USER, &spec), "1 is not a valid boolean");
	spec = policy_spec_of("p", "q", "cache-size=0");
	ck_assert_str_eq(policy_check(POLICY_USER, &spec), "0 is not a valid cache size");
	spec = policy_spec_of("p", "q", "x-cache-ttl=none");
	ck_assert_str_eq(policy_check(POLICY_USER, &spec), "<<\"none\">> is not a valid cache TTL");
	spec = policy_spec_of("p", "q", "cache-persistence=paper");
	ck_assert_str_eq(policy_check(POLICY_USER, &spec),
			 "<<\"paper\">> is not a valid cache persistence");
}
END_TEST

/* ---- with priorities ---- */

/* A key is known on whatever level its message is; numbers of messages are those of their levels. */
START_TEST(test_keys_of_all_levels)
{
	struct queue *from[2];
	struct entry entries[2];

	ask_number("x-max-priority", 9);
	q = make();
	send_key_at(5, "a");
	send_key_at(3, "b");
	send_key_at(0, "c");
	send_key_at(7, "a");
	send_key_at(3, "c");
	send_key_at(0, "b");
	ck_assert_str_eq(bodies(q), "a b c");
	ck_assert_uint_eq(duplicates(q), 3);
	for (int i = 0; i < 2; i++)
		entries[i] = take_from(q, &from[i]);
	queue_ack(from[0], &entries[0]);
	ck_assert_uint_eq(known(q), 2);
	send_key_at(1, "b");
	ck_assert_str_eq(bodies(q), "c");
	queue_requeue(from[1], &entries[1]);
	send_key_at(8, "a");
	ck_assert_str_eq(bodies(q), "a b c");
	queue_purge(q);
	ck_assert_uint_eq(known(q), 0);
	send_key_at(5, "a");
	send_key_at(9, "a");
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

TESTS_WITH("deduplication_queue", set_up, model_tear_down, test_a_value_is_there_once,
	   test_an_unacked_message_is_there, test_one_that_comes_back_was_never_away,
	   test_got_without_acknowledgement_it_is_gone, test_expired_it_is_gone,
	   test_dropped_it_is_gone, test_rejected_it_is_gone, test_purge, test_deleted, test_full,
	   test_several_queues, test_a_message_in_a_part, test_a_message_that_waits_for_its_retry,
	   test_a_message_of_a_level_that_waits_for_its_retry, test_retries_with_a_cache,
	   test_back_to_its_own_queue, test_back_by_another_queue, test_back_with_a_cache,
	   test_dead_letters_are_asked_for, test_cache, test_cache_with_a_ttl_alone,
	   test_cache_forgets_what_was_refused, test_bad_arguments, test_policy_on_a_queue,
	   test_policy_changes, test_policy_on_an_exchange, test_the_default_exchange_has_none,
	   test_bad_policies, test_keys_of_all_levels)
