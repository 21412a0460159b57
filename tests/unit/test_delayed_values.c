/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients say of delays: which values of x-delay are one, and what an exchange must be told (amqp.md 5.8).
 */
#include "unit/delayed_fixture.h"

/* ---- what is a delay ---- */

/* Publishes with the header that was put; when it comes, 0: at once. */
static uint64_t
comes_after(void)
{
	uint64_t began = broker->now.wall_ms;
	struct entry entry;

	send_to(x, "m");
	for (int i = 0; q->ready_count == 0; i++) {
		ck_assert_int_lt(i, 100);
		pass(1);
	}
	entry = take(q);
	queue_ack(q, &entry);
	return broker->now.wall_ms - began;
}

START_TEST(test_integers_of_all_widths)
{
	static const uint8_t octets[] = {0, 0, 0, 0, 0, 0, 0, 7};

	put_octets('b', octets + 7, 1);
	ck_assert_uint_eq(comes_after(), 7);
	put_octets('B', octets + 7, 1);
	ck_assert_uint_eq(comes_after(), 7);
	put_octets('s', octets + 6, 2);
	ck_assert_uint_eq(comes_after(), 7);
	put_octets('u', octets + 6, 2);
	ck_assert_uint_eq(comes_after(), 7);
	put_octets('I', octets + 4, 4);
	ck_assert_uint_eq(comes_after(), 7);
	put_octets('i', octets + 4, 4);
	ck_assert_uint_eq(comes_after(), 7);
	put_octets('l', octets, 8);
	ck_assert_uint_eq(comes_after(), 7);
	put_octets('L', octets, 8);
	ck_assert_uint_eq(comes_after(), 7);
}
END_TEST

START_TEST(test_fractions_are_dropped)
{
	put_double(7.9);
	ck_assert_uint_eq(comes_after(), 7);
	put_double(0.9);
	ck_assert_uint_eq(comes_after(), 0);
	put_double(-7);
	ck_assert_uint_eq(comes_after(), 0);
	put_double(0.0 / 0.0);
	ck_assert_uint_eq(comes_after(), 0);
}
END_TEST

static uint64_t
comes_after_text(const char *text)
{
	table_put_string(&headers.writer, BYTES("x-delay"), bytes_str(text));
	return comes_after();
}

START_TEST(test_strings_are_numbers_or_nothing)
{
	ck_assert_uint_eq(comes_after_text("7"), 7);
	ck_assert_uint_eq(comes_after_text("+7"), 7);
	ck_assert_uint_eq(comes_after_text("007"), 7);
	ck_assert_uint_eq(comes_after_text("-7"), 0);
	ck_assert_uint_eq(comes_after_text("7.5"), 0);
	ck_assert_uint_eq(comes_after_text(" 7"), 0);
	ck_assert_uint_eq(comes_after_text("7s"), 0);
	ck_assert_uint_eq(comes_after_text("-"), 0);
	ck_assert_uint_eq(comes_after_text(""), 0);
}
END_TEST

START_TEST(test_anything_else_is_no_delay)
{
	ck_assert_uint_eq(comes_after(), 0);
	table_put_long(&headers.writer, BYTES("x-delay"), 0);
	ck_assert_uint_eq(comes_after(), 0);
	table_put_long(&headers.writer, BYTES("x-delay"), -5);
	ck_assert_uint_eq(comes_after(), 0);
	table_put_long(&headers.writer, BYTES("x-delay"), INT64_MIN);
	ck_assert_uint_eq(comes_after(), 0);
	table_put_bool(&headers.writer, BYTES("x-delay"), true);
	ck_assert_uint_eq(comes_after(), 0);
	table_put_timestamp(&headers.writer, BYTES("x-delay"), 5);
	ck_assert_uint_eq(comes_after(), 0);
	put_octets('V', NULL, 0);
	ck_assert_uint_eq(comes_after(), 0);
	table_put_long(&headers.writer, BYTES("X-Delay"), 5);
	ck_assert_uint_eq(comes_after(), 0);
}
END_TEST

/* No length is too much: what no clock can hold is as late as one can. */
START_TEST(test_any_length)
{
	publish_for(x, "year", (int64_t)365 * 24 * 3600 * 1000);
	publish_for(x, "ever", INT64_MAX);
	put_double(1e300);
	ck_assert_uint_eq(send_to(x, "ever"), 1);
	table_put_string(&headers.writer, BYTES("x-delay"), BYTES("99999999999999999999"));
	ck_assert_uint_eq(send_to(x, "ever"), 1);
	pass((uint64_t)365 * 24 * 3600 * 1000 - 1);
	ck_assert_str_eq(bodies(q), "");
	pass(1);
	ck_assert_str_eq(bodies(q), "year");
	ck_assert_uint_eq(waiting(x), 3);
}
END_TEST

/* ---- arguments ---- */

static const struct reply *
check_type_argument(const char *type)
{
	struct exchange_spec spec = exchange_spec_of("new", "x-delayed-message");
	struct table table;

	table_start(&table);
	if (type != NULL)
		table_put_string(&table.writer, BYTES("x-delayed-type"), bytes_str(type));
	spec.arguments = table_view(&table);
	ck_assert_ptr_null(exchange_check_type(spec.type));
	return exchange_check_arguments(vhost, &spec);
}

START_TEST(test_the_type_must_be_said)
{
	static const char text[] = "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must "
				   "be an existing exchange type";
	struct exchange_spec spec = exchange_spec_of("new", "x-delayed-message");
	struct table table;

	ck_assert_ptr_null(check_type_argument("fanout"));
	assert_refused(check_type_argument(NULL), PRECONDITION_FAILED, text);
	assert_refused(check_type_argument("none"), PRECONDITION_FAILED, text);
	assert_refused(check_type_argument(""), PRECONDITION_FAILED, text);
	assert_refused(check_type_argument("x-delayed-message"), PRECONDITION_FAILED, text);
	table_start(&table);
	table_put_long(&table.writer, BYTES("x-delayed-type"), 1);
	spec.arguments = table_view(&table);
	assert_refused(exchange_check_arguments(vhost, &spec), PRECONDITION_FAILED, text);
}
END_TEST

/* So are those of the type that it routes as. */
START_TEST(test_arguments_of_the_type_are_checked)
{
	struct exchange_spec spec = exchange_spec_of("new", "x-delayed-message");
	struct table table;

	table_start(&table);
	table_put_string(&table.writer, BYTES("x-delayed-type"), BYTES("x-consistent-hash"));
	table_put_string(&table.writer, BYTES("hash-property"), BYTES("no"));
	spec.arguments = table_view(&table);
	assert_refused(exchange_check_arguments(vhost, &spec), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - Unsupported property: no");
}
END_TEST

START_TEST(test_equivalence)
{
	struct exchange_spec spec = exchange_spec_of("x", "direct");

	assert_refused(
		exchange_check_equivalent(x, &spec), PRECONDITION_FAILED,
		"PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost 'v': "
		"received 'direct' but current is ''x-delayed-message''");
	spec = exchange_spec_of("x", "x-delayed-message");
	ck_assert_ptr_null(exchange_check_equivalent(x, &spec));
}
END_TEST

TESTS_WITH("delayed_values", set_up, model_tear_down, test_integers_of_all_widths,
	   test_fractions_are_dropped, test_strings_are_numbers_or_nothing,
	   test_anything_else_is_no_delay, test_any_length, test_the_type_must_be_said,
	   test_arguments_of_the_type_are_checked, test_equivalence)
