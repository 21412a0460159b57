/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers exchanges: the rules of amqp.md 5.7 row by row.
 */
#include "model_fixture.h"

static struct exchange *x;
static struct queue *q;
static struct table arguments; // of the binding
static struct table headers;   // of the message

static void
set_up(void)
{
	model_set_up();
	x = make_exchange("x", "headers");
	q = make_queue("q");
	table_start(&arguments);
	table_start(&headers);
}

static void
put_match(const char *match)
{
	table_put_string(&arguments.writer, BYTES("x-match"), bytes_str(match));
}

static void
put_void(struct table *table, const char *name)
{
	write_shortstr(&table->writer, bytes_str(name));
	write_octet(&table->writer, 'V');
}

/* Whether a binding with those arguments takes a message with those headers. Both begin anew. */
static bool
matches(void)
{
	bool found;

	bind_queue(x, q, "ignored", table_view(&arguments));
	found = route_with_headers(x, BYTES("any key"), table_view(&headers)) == 1;
	ck_assert(route.uncacheable);
	unbind_queue(x, q, "ignored", table_view(&arguments));
	ck_assert_uint_eq(x->bindings_out.count, 0);
	table_start(&arguments);
	table_start(&headers);
	return found;
}

/* The same for one argument and one header of the same name; octets: letter and value. */
static bool
value_matches(struct bytes argument, struct bytes header)
{
	write_shortstr(&arguments.writer, BYTES("h"));
	write_raw(&arguments.writer, argument);
	write_shortstr(&headers.writer, BYTES("h"));
	write_raw(&headers.writer, header);
	return matches();
}

static void
put_two(struct table *table, int a, int b)
{
	table_put_int(&table->writer, BYTES("a"), a);
	table_put_int(&table->writer, BYTES("b"), b);
}

START_TEST(test_headers_all_is_the_default)
{
	static const char *const forms[] = {NULL, "all", "all-with-x"};

	for (size_t i = 0; i < countof(forms); i++) {
		for (int both = 0; both < 2; both++) {
			if (forms[i] != NULL)
				put_match(forms[i]);
			put_two(&arguments, 1, 2);
			put_two(&headers, 1, both ? 2 : 3);
			table_put_int(&headers.writer, BYTES("more"), 1);
			ck_assert(matches() == both);
		}
	}
}
END_TEST

START_TEST(test_headers_any_asks_for_one)
{
	static const char *const forms[] = {"any", "any-with-x"};

	for (size_t i = 0; i < countof(forms); i++) {
		for (int b = 2; b < 4; b++) {
			put_match(forms[i]);
			put_two(&arguments, 1, 2);
			put_two(&headers, 7, b);
			ck_assert(matches() == (b == 2));
		}
	}
}
END_TEST

START_TEST(test_headers_without_arguments)
{
	static const struct {
		const char *match;
		bool expected;
	} rows[] = {{NULL, true},
		    {"all", true},
		    {"any", false},
		    {"all-with-x", true},
		    {"any-with-x", false}};

	for (size_t i = 0; i < countof(rows); i++) {
		for (int with = 0; with < 2; with++) {
			if (rows[i].match != NULL)
				put_match(rows[i].match);
			if (with)
				put_two(&headers, 1, 2);
			ck_assert(matches() == rows[i].expected);
		}
	}
}
END_TEST

START_TEST(test_headers_message_without_table)
{
	table_put_int(&arguments.writer, BYTES("a"), 1);
	ck_assert(!matches());
	put_match("any");
	table_put_int(&arguments.writer, BYTES("a"), 1);
	ck_assert(!matches());
}
END_TEST

START_TEST(test_headers_x_arguments_count_only_with_x)
{
	static const struct {
		const char *match;
		bool present; // the header x-a
		bool expected;
	} rows[] = {
		{"all", false, true},	      {"all", true, true},
		{"any", true, false},	      {"any", false, false},
		{"all-with-x", false, false}, {"all-with-x", true, true},
		{"any-with-x", false, false}, {"any-with-x", true, true},
	};

	for (size_t i = 0; i < countof(rows); i++) {
		put_match(rows[i].match);
		table_put_int(&arguments.writer, BYTES("x-a"), 1);
		if (rows[i].present)
			table_put_int(&headers.writer, BYTES("x-a"), 1);
		ck_assert_msg(matches() == rows[i].expected, "row %zu", i);
	}
}
END_TEST

/* A header of the name x-match is never looked at. */
START_TEST(test_headers_x_match_is_never_an_argument)
{
	put_match("any-with-x");
	table_put_string(&headers.writer, BYTES("x-match"), BYTES("any-with-x"));
	ck_assert(!matches());
	put_match("all-with-x");
	ck_assert(matches());
}
END_TEST

START_TEST(test_headers_void_asks_for_presence)
{
	put_void(&arguments, "a");
	table_put_int(&headers.writer, BYTES("a"), 5);
	ck_assert(matches());
	put_void(&arguments, "a");
	put_void(&headers, "a");
	ck_assert(matches());
	put_void(&arguments, "a");
	put_void(&headers, "b");
	ck_assert(!matches());
	table_put_int(&arguments.writer, BYTES("a"), 5);
	put_void(&headers, "a");
	ck_assert(!matches());
}
END_TEST

#define S(text) BYTES("S\0\0\0" text)

START_TEST(test_headers_values)
{
	static const struct {
		struct bytes argument;
		struct bytes header;
		bool expected;
	} rows[] = {
		{BYTES("b\5"), BYTES("I\0\0\0\5"), true},
		{BYTES("l\0\0\0\0\0\0\0\5"), BYTES("s\0\5"), true},
		{BYTES("I\0\0\0\5"), BYTES("I\0\0\0\6"), false},
		{BYTES("b\377"), BYTES("I\377\377\377\377"), true},
		{BYTES("B\377"), BYTES("b\377"), false},
		{S("\1"
		   "5"),
		 BYTES("x\0\0\0\1"
		       "5"),
		 true},
		{S("\1"
		   "5"),
		 S("\1"
		   "6"),
		 false},
		{S("\1"
		   "5"),
		 BYTES("I\0\0\0\5"), false},
		{BYTES("I\0\0\0\5"),
		 S("\1"
		   "5"),
		 false},
		{BYTES("I\0\0\0\5"), BYTES("d\100\024\0\0\0\0\0\0"), false}, // 5 and 5.0
		{BYTES("f\100\240\0\0"), BYTES("d\100\024\0\0\0\0\0\0"), true},
		{BYTES("t\1"), BYTES("t\1"), true},
		{BYTES("t\1"), BYTES("t\0"), false},
		{BYTES("t\1"), BYTES("b\1"), false},
		{BYTES("T\0\0\0\0\0\0\0\7"), BYTES("T\0\0\0\0\0\0\0\7"), true},
		{BYTES("T\0\0\0\0\0\0\0\7"), BYTES("T\0\0\0\0\0\0\0\10"), false},
		{BYTES("T\0\0\0\0\0\0\0\7"), BYTES("l\0\0\0\0\0\0\0\7"), false},
		{BYTES("D\2\0\0\0\7"), BYTES("D\2\0\0\0\7"), true},
		{BYTES("D\2\0\0\0\7"), BYTES("D\1\0\0\0\7"), false},
		{BYTES("F\0\0\0\4\1kb\1"), BYTES("F\0\0\0\5\1ks\0\1"), true},
		{BYTES("F\0\0\0\4\1kb\1"), BYTES("F\0\0\0\4\1kb\2"), false},
		{BYTES("A\0\0\0\2b\1"), BYTES("A\0\0\0\3s\0\1"), true},
		{BYTES("A\0\0\0\2b\1"), BYTES("A\0\0\0\4b\1b\1"), false},
	};

	for (size_t i = 0; i < countof(rows); i++)
		ck_assert_msg(value_matches(rows[i].argument, rows[i].header) == rows[i].expected,
			      "row %zu", i);
}
END_TEST

/* More headers than are kept decoded. */
START_TEST(test_headers_finds_late_headers)
{
	for (int wanted = 0; wanted < 2; wanted++) {
		for (int i = 0; i < 100; i++) {
			char name[16];

			snprintf(name, sizeof(name), "h%d", i);
			table_put_int(&headers.writer, bytes_str(name), i);
		}
		table_put_int(&arguments.writer, BYTES("h3"), 3);
		table_put_int(&arguments.writer, BYTES("h98"), 98);
		table_put_int(&arguments.writer, BYTES("h31"), 31);
		table_put_int(&arguments.writer, BYTES("h32"), 32);
		table_put_int(&arguments.writer, BYTES("h99"), 99 + wanted);
		ck_assert(matches() == (wanted == 0));
	}
}
END_TEST

START_TEST(test_headers_names_are_case_sensitive)
{
	table_put_int(&arguments.writer, BYTES("a"), 1);
	table_put_int(&headers.writer, BYTES("A"), 1);
	ck_assert(!matches());
}
END_TEST

static const struct reply *
check(void)
{
	struct binding_spec spec = {.source = x, .queue = q, .arguments = table_view(&arguments)};
	const struct reply *reply = binding_check(&spec);

	table_start(&arguments);
	return reply;
}

START_TEST(test_headers_refuses_other_x_match)
{
	put_match("foo");
	assert_refused(check(), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - Invalid x-match field value <<\"foo\">>; expected "
		       "all, any, all-with-x, or any-with-x");
	put_match("");
	assert_refused(check(), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - Invalid x-match field value <<\"\">>; expected "
		       "all, any, all-with-x, or any-with-x");
	put_match("ALL");
	ck_assert_ptr_nonnull(check());
	table_put_int(&arguments.writer, BYTES("x-match"), 1);
	assert_refused(check(), PRECONDITION_FAILED,
		       "PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); "
		       "expected longstr");
	put_match("any-with-x");
	ck_assert_ptr_null(check());
}
END_TEST

/* Only a headers exchange looks at it. */
START_TEST(test_headers_x_match_means_nothing_elsewhere)
{
	put_match("foo");
	x = make_exchange("d", "direct");
	ck_assert_ptr_null(check());
}
END_TEST

START_TEST(test_headers_each_binding_counts_for_itself)
{
	struct queue *other = make_queue("other");

	table_put_int(&arguments.writer, BYTES("a"), 1);
	bind_queue(x, q, "", table_view(&arguments));
	table_put_int(&arguments.writer, BYTES("b"), 2);
	bind_queue(x, other, "", table_view(&arguments));
	table_put_int(&headers.writer, BYTES("a"), 1);
	ck_assert_uint_eq(route_with_headers(x, BYTES(""), table_view(&headers)), 1);
	ck_assert_uint_eq(route_has(q), 1);
	table_put_int(&headers.writer, BYTES("b"), 2);
	ck_assert_uint_eq(route_with_headers(x, BYTES(""), table_view(&headers)), 2);
}
END_TEST

TESTS_WITH("route_headers", set_up, model_tear_down, test_headers_all_is_the_default,
	   test_headers_any_asks_for_one, test_headers_without_arguments,
	   test_headers_message_without_table, test_headers_x_arguments_count_only_with_x,
	   test_headers_x_match_is_never_an_argument, test_headers_void_asks_for_presence,
	   test_headers_values, test_headers_finds_late_headers,
	   test_headers_names_are_case_sensitive, test_headers_refuses_other_x_match,
	   test_headers_x_match_means_nothing_elsewhere,
	   test_headers_each_binding_counts_for_itself)
