/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x-delayed-message exchanges in memory, with a clock turned by hand: what is held back and for how long, and where
 * it goes then (amqp.md 5.8).
 */
#include "unit/delayed_fixture.h"

/* ---- time and order ---- */

START_TEST(test_held_back_to_the_millisecond)
{
	publish_for(x, "a", 1000);
	ck_assert_str_eq(bodies(q), "");
	pass(999);
	ck_assert_str_eq(bodies(q), "");
	ck_assert_uint_eq(waiting(x), 1);
	pass(1);
	ck_assert_str_eq(bodies(q), "a");
	ck_assert_uint_eq(waiting(x), 0);
}
END_TEST

START_TEST(test_each_at_its_own_time_then_in_order_of_arrival)
{
	publish_for(x, "c", 30);
	publish_for(x, "a", 10);
	publish_for(x, "d", 30);
	publish_for(x, "b", 20);
	pass(5);
	publish_for(x, "e", 25);
	send_to(x, "now");
	ck_assert_str_eq(bodies(q), "now");
	pass(5);
	ck_assert_str_eq(bodies(q), "now a");
	pass(10);
	ck_assert_str_eq(bodies(q), "now a b");
	pass(10);
	ck_assert_str_eq(bodies(q), "now a b c d e");
}
END_TEST

/* A random lot comes out sorted. */
START_TEST(test_many_come_out_in_order)
{
	enum {
		MANY = 5000
	};
	uint64_t due[MANY];
	uint64_t random = 1;
	uint64_t last_due = 0;
	uint64_t last_number = 0;

	for (unsigned i = 0; i < MANY; i++) {
		char text[16];

		random = random * 6364136223846793005U + 1442695040888963407U;
		due[i] = broker->now.wall_ms + 1 + random / 65536 % 500;
		snprintf(text, sizeof(text), "%u", i);
		publish_for(x, text, (int64_t)(due[i] - broker->now.wall_ms));
		if (i % 50 == 0)
			pass(1);
	}
	ck_assert_uint_lt(waiting(x), MANY);
	pass(500);
	ck_assert_uint_eq(q->ready_count, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		struct entry entry = take(q);
		uint64_t number = strtoul((const char *)message_body(entry.message).p, NULL, 10);

		ck_assert_uint_eq(entry.message->time_ms, due[number]);
		ck_assert(due[number] > last_due ||
			  (due[number] == last_due && number >= last_number));
		last_due = due[number];
		last_number = number;
		queue_ack(q, &entry);
	}
}
END_TEST

/* Many that are due at once go on in steps, between which others have their turn. */
START_TEST(test_many_due_at_once_go_in_steps)
{
	struct now now;

	for (unsigned i = 0; i < 2500; i++)
		publish_for(x, "m", 10);
	now = broker->now;
	now.monotonic_ms += 10;
	now.wall_ms += 10;
	broker_set_now(broker, now);
	deadlines_run(&deadlines, now.monotonic_ms);
	ck_assert_uint_eq(q->ready_count, 1000);
	ck_assert_uint_le(deadlines_next(&deadlines), now.monotonic_ms);
	deadlines_run(&deadlines, now.monotonic_ms);
	deadlines_run(&deadlines, now.monotonic_ms);
	ck_assert_uint_eq(q->ready_count, 2500);
	broker_check(broker);
}
END_TEST

/* Due times are of the wall clock: when that is set forward, they come sooner. */
START_TEST(test_a_clock_that_is_set_is_noticed)
{
	struct now now;

	publish_for(x, "a", 3600000);
	now = broker->now;
	now.wall_ms += 3600000;
	broker_set_now(broker, now);
	pass(60000);
	ck_assert_str_eq(bodies(q), "a");
}
END_TEST

/* ---- what goes on ---- */

/* The headers of the first message, which goes. */
static struct bytes
first_headers(void)
{
	static uint8_t octets[TABLE_ROOM];
	struct basic_properties properties;
	struct entry entry = take(q);
	struct bytes view;

	ck_assert(properties_decode(&properties, message_properties(entry.message)));
	view = bytes_of(octets, properties.headers.n);
	memcpy(octets, properties.headers.p, view.n);
	queue_ack(q, &entry);
	return view;
}

START_TEST(test_the_header_is_negated_and_all_else_stays)
{
	struct table expected;

	for (int i = 0; i < 2; i++) {
		struct table *table = i == 0 ? &headers : &expected;

		table_start(table);
		table_put_string(&table->writer, BYTES("before"), BYTES("1"));
		table_put_int(&table->writer, BYTES("x-delay"), i == 0 ? 20 : -20);
		table_put_long(&table->writer, BYTES("after"), 2);
	}
	send_to(x, "m");
	pass(20);
	ck_assert(bytes_equal(first_headers(), table_view(&expected)));
}
END_TEST

START_TEST(test_how_the_negated_delay_is_written)
{
	struct field field;

	table_put_long(&headers.writer, BYTES("x-delay"), 20);
	send_to(x, "m");
	table_put_string(&headers.writer, BYTES("x-delay"), BYTES("20"));
	send_to(x, "m");
	put_double(20.5);
	send_to(x, "m");
	put_octets('B', (const uint8_t[]){200}, 1);
	send_to(x, "m");
	put_octets('i', (const uint8_t[]){0x80, 0, 0, 0}, 4);
	send_to(x, "m");
	pass(200);
	ck_assert(table_find(first_headers(), BYTES("x-delay"), &field));
	ck_assert_int_eq(field.integer, -20);
	ck_assert_int_eq(field.type, 'l');
	ck_assert(table_find(first_headers(), BYTES("x-delay"), &field));
	ck_assert_int_eq(field.integer, -20);
	ck_assert_int_eq(field.type, 'I');
	ck_assert(table_find(first_headers(), BYTES("x-delay"), &field));
	ck_assert_int_eq(field.integer, -20);
	ck_assert(table_find(first_headers(), BYTES("x-delay"), &field));
	ck_assert_int_eq(field.integer, -200);
	pass(0x80000000U);
	ck_assert(table_find(first_headers(), BYTES("x-delay"), &field));
	ck_assert_int_eq(field.integer, -(int64_t)0x80000000U);
}
END_TEST

START_TEST(test_names_and_properties_stay)
{
	struct basic_properties properties = {
		.flags = PROPERTY_headers | PROPERTY_message_id | PROPERTY_priority,
		.message_id = BYTES("id"),
		.priority = 7,
	};
	struct basic_properties found;
	const char *key = "key";
	struct entry entry;

	table_put_long(&headers.writer, BYTES("x-delay"), 20);
	properties.headers = table_view(&headers);
	publish_keys(x, text_message("x", "key", &properties, "body"), &key, 1);
	pass(20);
	entry = take(q);
	ck_assert(bytes_equal(message_exchange(entry.message), BYTES("x")));
	ck_assert(bytes_equal(message_key(entry.message), BYTES("key")));
	ck_assert(bytes_equal(message_body(entry.message), BYTES("body")));
	ck_assert(properties_decode(&found, message_properties(entry.message)));
	ck_assert_int_eq(found.flags, properties.flags);
	ck_assert(bytes_equal(found.message_id, BYTES("id")));
	ck_assert_int_eq(found.priority, 7);
	ck_assert(!(entry.bits & ENTRY_REDELIVERED));
	queue_ack(q, &entry);
}
END_TEST

/* How long it may live counts from when it is in a queue. */
START_TEST(test_expiration_counts_from_the_release)
{
	const char *key = "key";

	table_put_long(&headers.writer, BYTES("x-delay"), 1000);
	publish_keys(x, message_with_headers("m", "100"), &key, 1);
	pass(1000);
	ck_assert_str_eq(bodies(q), "m");
	pass(99);
	ck_assert_str_eq(bodies(q), "m");
	pass(1);
	ck_assert_str_eq(bodies(q), "");
	ck_assert_uint_eq(queue_message_count(q), 0);
}
END_TEST

/* ---- where it goes ---- */

START_TEST(test_bindings_are_those_of_the_release)
{
	struct queue *later = make_queue("later");

	publish_for(x, "m", 1000);
	unbind_queue(x, q, "key", no_bytes());
	bind_queue(x, later, "key", no_bytes());
	pass(1000);
	ck_assert_str_eq(bodies(q), "");
	ck_assert_str_eq(bodies(later), "m");
}
END_TEST

START_TEST(test_what_leads_nowhere_then_is_gone)
{
	publish_for(x, "m", 1000);
	queue_delete(q);
	pass(1000);
	ck_assert_uint_eq(waiting(x), 0);
}
END_TEST

START_TEST(test_all_types_may_be_delayed)
{
	static const struct {
		const char *type;
		const char *binding;
	} types[] = {
		{"direct", "key"},	{"fanout", ""},		  {"topic", "*"},
		{"headers", ""},	{"x-random", ""},	  {"x-consistent-hash", "1"},
		{"x-modulus-hash", ""}, {"x-recent-history", ""},
	};

	for (size_t i = 0; i < countof(types); i++) {
		struct exchange *other = make_delayed("other", types[i].type, NULL);

		ck_assert_str_eq(exchange_type_name(other), "x-delayed-message");
		ck_assert(!exchange_is_topic(other));
		bind_queue(other, q, types[i].binding, no_bytes());
		/* more than once: a topic exchange remembers where a key leads */
		for (int times = 0; times < 3; times++) {
			send_to(other, "now");
			publish_for(other, "then", 10);
		}
		ck_assert_str_eq(bodies(q), "now now now");
		pass(10);
		ck_assert_str_eq(bodies(q), "now now now then then then");
		queue_purge(q);
		exchange_delete(other);
	}
}
END_TEST

START_TEST(test_an_alternate_gets_it_at_the_release)
{
	struct queue *other = make_queue("other");
	struct exchange *ae = make_exchange("ae", "fanout");

	exchange_delete(x);
	x = make_delayed("x", "direct", "ae");
	bind_queue(ae, other, "", no_bytes());
	publish_for(x, "m", 10);
	ck_assert_str_eq(bodies(other), "");
	pass(10);
	ck_assert_str_eq(bodies(other), "m");
}
END_TEST

/* Another exchange leads to it, and to a queue too: the one gets it now, the other then. */
START_TEST(test_through_a_bound_exchange)
{
	struct exchange *first = make_exchange("first", "fanout");
	struct queue *direct = make_queue("direct");
	struct field field;

	bind_exchange(first, x, "");
	bind_queue(first, direct, "", no_bytes());
	table_put_long(&headers.writer, BYTES("x-delay"), 10);
	ck_assert_uint_eq(send_to(first, "m"), 2);
	ck_assert_str_eq(bodies(direct), "m");
	ck_assert_str_eq(bodies(q), "");
	pass(10);
	ck_assert_str_eq(bodies(q), "m");
	ck_assert_str_eq(bodies(direct), "m");
	ck_assert(table_find(first_headers(), BYTES("x-delay"), &field));
	ck_assert_int_eq(field.integer, -10);
}
END_TEST

/* Two of them in a row hold it back once. */
START_TEST(test_one_delay_is_enough)
{
	struct exchange *second = make_delayed("second", "fanout", NULL);

	bind_exchange(x, second, "key");
	bind_queue(second, q, "", no_bytes());
	publish_for(x, "m", 10);
	pass(10);
	ck_assert_str_eq(bodies(q), "m");
	ck_assert_uint_eq(waiting(second), 0);
}
END_TEST

START_TEST(test_all_keys_count)
{
	static const char *const keys[] = {"none", "cc", "bcc"};
	struct queue *cc = make_queue("cc");
	struct queue *bcc = make_queue("bcc");
	struct buf extension;
	struct message *m;
	struct field field;
	uint8_t *array;

	bind_queue(x, cc, "cc", no_bytes());
	bind_queue(x, bcc, "bcc", no_bytes());
	bind_queue(x, q, "bcc", no_bytes());
	table_put_long(&headers.writer, BYTES("x-delay"), 10);
	array = array_begin(&headers.writer, BYTES("CC"));
	array_put_string(&headers.writer, BYTES("cc"));
	table_end(&headers.writer, array);
	unbind_queue(x, q, "key", no_bytes());
	m = message_with_headers("", NULL);
	buf_init(&extension, 0);
	message_put_bcc(&extension, BYTES("bcc"));
	publish_keys(x,
		     message_new_extended(message_exchange(m), message_key(m), message_header(m), 0,
					  0, buf_bytes(&extension)),
		     keys, 3);
	buf_fini(&extension);
	message_unref(m);
	pass(10);
	ck_assert_uint_eq(cc->ready_count, 1);
	ck_assert_uint_eq(bcc->ready_count, 1);
	ck_assert_uint_eq(q->ready_count, 1);
	/* all of them may be asked for once more, by a dead letter */
	ck_assert_uint_gt(message_extension(window_first(q)->message).n, 0);
	ck_assert(table_find(first_headers(), BYTES("CC"), &field));
}
END_TEST

/* Dead letters are held back as anything else: a queue whose messages come back later. */
START_TEST(test_dead_letters_may_be_delayed)
{
	struct queue *work;

	ask_string("x-dead-letter-exchange", "x");
	ask_string("x-dead-letter-routing-key", "key");
	work = declare("work");
	table_put_long(&headers.writer, BYTES("x-delay"), 10);
	{
		struct basic_properties properties = {.flags = PROPERTY_headers};

		properties.headers = table_view(&headers);
		send_with(work, &properties, "m");
	}
	reject_first(work);
	ck_assert_str_eq(bodies(q), "");
	ck_assert_uint_eq(waiting(x), 1);
	pass(10);
	ck_assert_str_eq(bodies(q), "m");
}
END_TEST

/* ---- beside deduplication ---- */

static uint32_t
publish_as_client(struct exchange *exchange, const char *key, const char *body, int64_t delay_ms)
{
	struct bytes view = BYTES("key");
	struct message *m;

	table_put_long(&headers.writer, BYTES("x-delay"), delay_ms);
	table_put_string(&headers.writer, BYTES("x-deduplication-header"), bytes_str(key));
	m = message_with_headers(body, NULL);
	exchange_route_published(exchange, &view, 1, m, &route);
	if (route.count > 0)
		queue_publish(broker, &route, m);
	message_unref(m);
	broker_check(broker);
	return route.count;
}

/* A key is remembered from the publish on, not from the release, and nobody asks again then. */
START_TEST(test_duplicates_are_known_at_the_publish)
{
	struct exchange *other;
	struct table table;

	for (int by_type = 0; by_type < 2; by_type++) {
		table_start(&table);
		table_put_string(&table.writer, BYTES("x-delayed-type"),
				 by_type ? BYTES("x-message-deduplication") : BYTES("fanout"));
		table_put_bool(&table.writer, BYTES("x-message-deduplication"), true);
		table_put_int(&table.writer, BYTES("x-cache-size"), 10);
		other = make_with_arguments("other", "x-delayed-message", &table);
		bind_queue(other, q, "", no_bytes());
		ck_assert_uint_eq(publish_as_client(other, "1", "a", 20), 1);
		ck_assert_uint_eq(publish_as_client(other, "1", "again", 10), 0);
		ck_assert(route.is_duplicate);
		ck_assert_uint_eq(publish_as_client(other, "2", "b", 10), 1);
		ck_assert_uint_eq(publish_as_client(other, "3", "c", 0), 1);
		ck_assert_uint_eq(publish_as_client(other, "3", "again", 5), 0);
		pass(20);
		ck_assert_str_eq(bodies(q), "c b a");
		queue_purge(q);
		exchange_delete(other);
	}
}
END_TEST

/* What goes to a queue and to two rooms brings its key once. */
START_TEST(test_a_key_comes_with_several_rooms)
{
	struct exchange *second = make_delayed("second", "fanout", NULL);
	struct exchange *first;
	struct table table;

	table_start(&table);
	table_put_bool(&table.writer, BYTES("x-message-deduplication"), true);
	first = make_with_arguments("first", "fanout", &table);
	bind_exchange(first, x, "");
	bind_exchange(first, second, "");
	bind_queue(second, q, "", no_bytes());
	ck_assert_uint_eq(publish_as_client(first, "1", "a", 10), 2);
	ck_assert_uint_eq(publish_as_client(first, "1", "again", 10), 0);
	bind_queue(first, q, "", no_bytes());
	ck_assert_uint_eq(publish_as_client(first, "2", "b", 10), 3);
	ck_assert_uint_eq(publish_as_client(first, "2", "again", 10), 0);
	ck_assert_str_eq(bodies(q), "b");
	pass(10);
	ck_assert_uint_eq(q->ready_count, 5);
}
END_TEST

/* ---- life ---- */

START_TEST(test_counts_and_octets)
{
	struct waiting_room *room;

	ck_assert_ptr_null(waiting_room_of_exchange(x));
	publish_for(x, "four", 10);
	publish_for(x, "sixsix", 20);
	room = waiting_room_of_exchange(x);
	ck_assert_uint_eq(waiting_room_count(room), 2);
	ck_assert_uint_eq(waiting_room_octets(room), 10);
	pass(10);
	ck_assert_uint_eq(waiting_room_count(room), 1);
	ck_assert_uint_eq(waiting_room_octets(room), 6);
}
END_TEST

START_TEST(test_deletion_drops_what_waits)
{
	publish_for(x, "m", 10);
	ck_assert(exchange_in_use(x));
	exchange_delete(x);
	pass(10);
	ck_assert_str_eq(bodies(q), "");
}
END_TEST

/* A room is not there for clients, nor is it a binding. */
START_TEST(test_a_room_is_no_queue)
{
	uint64_t queues = broker->queue_count;

	publish_for(x, "m", 10);
	ck_assert_uint_eq(broker->queue_count, queues);
	ck_assert_ptr_null(queue_find(vhost, BYTES("x")));
	unbind_queue(x, q, "key", no_bytes());
	ck_assert(!exchange_in_use(x));
}
END_TEST

START_TEST(test_vhost_goes_with_its_rooms)
{
	publish_for(x, "m", 10);
	vhost_delete(vhost);
	vhost = vhost_create(broker, BYTES("v"));
	pass(20);
}
END_TEST

TESTS_WITH("delayed", set_up, model_tear_down, test_held_back_to_the_millisecond,
	   test_each_at_its_own_time_then_in_order_of_arrival, test_many_come_out_in_order,
	   test_many_due_at_once_go_in_steps, test_a_clock_that_is_set_is_noticed,
	   test_the_header_is_negated_and_all_else_stays, test_how_the_negated_delay_is_written,
	   test_names_and_properties_stay, test_expiration_counts_from_the_release,
	   test_bindings_are_those_of_the_release, test_what_leads_nowhere_then_is_gone,
	   test_all_types_may_be_delayed, test_an_alternate_gets_it_at_the_release,
	   test_through_a_bound_exchange, test_one_delay_is_enough, test_all_keys_count,
	   test_dead_letters_may_be_delayed, test_duplicates_are_known_at_the_publish,
	   test_a_key_comes_with_several_rooms, test_counts_and_octets,
	   test_deletion_drops_what_waits, test_a_room_is_no_queue, test_vhost_goes_with_its_rooms)
