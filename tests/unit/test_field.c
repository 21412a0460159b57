/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field tables: each type letter with the octets that clients send for it, what is refused, equality
 * in both strengths, printing, building.
 */
#include "wire/field.h"

#include "lib/runner.h"

#include <math.h>

/* One entry "k" of each letter: what it is decoded to, named and printed as. */
static const struct sample {
	struct bytes value; // letter and value
	enum field_class class;
	int64_t integer;
	double number;
	const char *name;
	const char *text;
} samples[] = {
	{BYTES("t\1"), FIELD_BOOLEAN, 1, 0, "bool", "true"},
	{BYTES("t\0"), FIELD_BOOLEAN, 0, 0, "bool", "false"},
	{BYTES("t\x80"), FIELD_BOOLEAN, 1, 0, "bool", "true"},
	{BYTES("b\xff"), FIELD_INTEGER, -1, 0, "byte", "-1"},
	{BYTES("b\x7f"), FIELD_INTEGER, 127, 0, "byte", "127"},
	{BYTES("B\xff"), FIELD_INTEGER, 255, 0, "unsignedbyte", "255"},
	{BYTES("s\xff\xfe"), FIELD_INTEGER, -2, 0, "short", "-2"},
	{BYTES("U\xff\xfe"), FIELD_INTEGER, -2, 0, "signedint", "-2"},
	{BYTES("U\x01\x02"), FIELD_INTEGER, 258, 0, "signedint", "258"},
	{BYTES("u\xff\xfe"), FIELD_INTEGER, 65534, 0, "unsignedshort", "65534"},
	{BYTES("I\x80\0\0\0"), FIELD_INTEGER, INT32_MIN, 0, "signedint", "-2147483648"},
	{BYTES("i\x80\0\0\0"), FIELD_INTEGER, 2147483648, 0, "unsignedint", "2147483648"},
	{BYTES("l\x80\0\0\0\0\0\0\0"), FIELD_INTEGER, INT64_MIN, 0, "long", "-9223372036854775808"},
	{BYTES("L\xff\xff\xff\xff\xff\xff\xff\xff"), FIELD_INTEGER, -1, 0, "long", "-1"},
	{BYTES("f\x3f\xc0\0\0"), FIELD_FLOAT, 0, 1.5, "float", "1.5"},
	{BYTES("d\xc0\0\0\0\0\0\0\0"), FIELD_FLOAT, 0, -2.0, "double", "-2.0"},
	{BYTES("d\x3f\xb9\x99\x99\x99\x99\x99\x9a"), FIELD_FLOAT, 0, 0.1, "double", "0.1"},
	{BYTES("D\2\0\0\1\x3a"), FIELD_DECIMAL, 0, 0, "decimal", "{2,314}"},
	{BYTES("S\0\0\0\2hi"), FIELD_STRING, 0, 0, "longstr", "hi"},
	{BYTES("x\0\0\0\2hi"), FIELD_STRING, 0, 0, "binary", "hi"},
	{BYTES("S\0\0\0\0"), FIELD_STRING, 0, 0, "longstr", ""},
	{BYTES("T\0\0\0\0\x5e\0\0\0"), FIELD_TIMESTAMP, 0x5e000000, 0, "timestamp", "1577058304"},
	{BYTES("V"), FIELD_VOID, 0, 0, "void", "undefined"},
	{BYTES("F\0\0\0\0"), FIELD_TABLE, 0, 0, "table", "[]"},
	{BYTES("F\0\0\0\x0a\1aI\0\0\0\5\1bV"), FIELD_TABLE, 0, 0, "table",
	 "[{<<\"a\">>,signedint,5},{<<\"b\">>,void,undefined}]"},
	{BYTES("A\0\0\0\0"), FIELD_ARRAY, 0, 0, "array", "[]"},
	{BYTES("A\0\0\0\x08S\0\0\0\1at\1"), FIELD_ARRAY, 0, 0, "array",
	 "[{longstr,<<\"a\">>},{bool,true}]"},
};

/* A table with the one entry "k"; lives until the next call. */
static struct bytes
table_of(struct bytes value)
{
	static uint8_t area[256];
	struct writer w = writer_of(area, sizeof(area));

	write_shortstr(&w, BYTES("k"));
	write_raw(&w, value);
	ck_assert(!w.bad);
	return bytes_of(area, (size_t)(w.p - area));
}

static enum field_result
validate(struct bytes entries, char *bad_type)
{
	uint8_t *copy = malloc(entries.n != 0 ? entries.n : 1);
	enum field_result result;

	ck_assert_ptr_nonnull(copy);
	if (entries.n != 0)
		memcpy(copy, entries.p, entries.n);
	result = table_validate(bytes_of(copy, entries.n), bad_type);
	free(copy);
	return result;
}

static struct field
value_of(struct bytes value)
{
	struct field_iterator iterator = array_iterate(value);
	struct field field;

	ck_assert(field_next(&iterator, &field));
	return field;
}

START_TEST(test_every_letter_is_decoded)
{
	for (size_t i = 0; i < countof(samples); i++) {
		const struct sample *sample = &samples[i];
		struct bytes table = table_of(sample->value);
		struct field field;
		char text[100];

		ck_assert_int_eq(validate(table, NULL), FIELD_OK);
		ck_assert_uint_eq(table_count(table), 1);
		ck_assert(table_find(table, BYTES("k"), &field));
		ck_assert(bytes_equal(field.name, BYTES("k")));
		ck_assert_int_eq(field.type, sample->value.p[0]);
		ck_assert_int_eq(field.class, sample->class);
		ck_assert_int_eq(field.integer, sample->integer);
		ck_assert_double_eq(field.number, sample->number);
		ck_assert(bytes_equal(field.raw, sample->value));
		ck_assert_str_eq(field_type_name(field.type), sample->name);
		ck_assert_str_eq(field_print(&field, text, sizeof(text)), sample->text);
	}
}
END_TEST

START_TEST(test_every_truncation_is_refused)
{
	for (size_t i = 0; i < countof(samples); i++) {
		struct bytes table = table_of(samples[i].value);

		for (size_t n = 1; n < table.n; n++)
			ck_assert_msg(validate(bytes_of(table.p, n), NULL) == FIELD_TRUNCATED,
				      "sample %zu cut to %zu of %zu octets", i, n, table.n);
	}
}
END_TEST

/* An inner length that is too long for what surrounds it, or cuts a value short. */
START_TEST(test_inner_lengths_are_checked)
{
	ck_assert_int_eq(validate(BYTES("\1aF\0\0\0\2\1b\1cV"), NULL), FIELD_TRUNCATED);
	ck_assert_int_eq(validate(BYTES("\1aF\0\0\0\7\1bV\1cV"), NULL), FIELD_TRUNCATED);
	ck_assert_int_eq(validate(BYTES("\1aA\0\0\0\3I\0\0\0\0"), NULL), FIELD_TRUNCATED);
	ck_assert_int_eq(validate(BYTES("\1aS\xff\xff\xff\xff"), NULL), FIELD_TRUNCATED);
	ck_assert_int_eq(validate(BYTES("\1aF\0\0\0\3\1bV"), NULL), FIELD_OK);
}
END_TEST

START_TEST(test_every_other_letter_is_unknown)
{
	static const char known[] = "tbBsUuIilLfdDSATFVx";

	for (unsigned letter = 0; letter < 256; letter++) {
		uint8_t value[13] = {(uint8_t)letter};
		char bad_type = 0;

		if (letter != 0 && strchr(known, (int)letter) != NULL)
			continue;
		ck_assert_int_eq(validate(table_of(bytes_of(value, sizeof(value))), &bad_type),
				 FIELD_UNKNOWN_TYPE);
		ck_assert_uint_eq((uint8_t)bad_type, letter);
		ck_assert_str_eq(field_type_name((char)letter), "unknown");
	}
}
END_TEST

/* A table that holds a table (or an array an array), depth of them in all. */
static enum field_result
validate_nested(unsigned depth, bool array)
{
	size_t room = 8 * (size_t)depth;
	uint8_t *area = malloc(room);
	struct writer w;
	enum field_result result;

	ck_assert_ptr_nonnull(area);
	w = writer_of(area, room);
	for (unsigned i = 1; i < depth; i++) {
		unsigned inner = (depth - i - 1) * (array ? 5 : 6);

		if (i == 1 || !array)
			write_shortstr(&w, BYTES(""));
		write_octet(&w, array ? 'A' : 'F');
		write_long(&w, inner);
	}
	ck_assert(!w.bad);
	result = validate(bytes_of(area, (size_t)(w.p - area)), NULL);
	free(area);
	return result;
}

START_TEST(test_nesting_is_bounded)
{
	static const unsigned too_deep[] = {65, 66, 1000, 100000};

	for (int array = 0; array <= 1; array++) {
		for (unsigned depth = 1; depth <= FIELD_DEPTH_MAX; depth++)
			ck_assert_int_eq(validate_nested(depth, array), FIELD_OK);
		for (size_t i = 0; i < countof(too_deep); i++)
			ck_assert_int_eq(validate_nested(too_deep[i], array), FIELD_TOO_DEEP);
	}
}
END_TEST

START_TEST(test_the_first_of_a_name_is_found)
{
	struct bytes table = BYTES("\1aI\0\0\0\1\1bV\1aI\0\0\0\2");
	struct field_iterator iterator = table_iterate(table);
	struct field field;

	ck_assert(table_find(table, BYTES("a"), &field));
	ck_assert_int_eq(field.integer, 1);
	ck_assert(!table_find(table, BYTES("aa"), &field));
	ck_assert(!table_find(table, BYTES(""), &field));
	ck_assert_uint_eq(table_count(table), 3);
	ck_assert(field_next(&iterator, &field));
	ck_assert(field_next(&iterator, &field));
	ck_assert(bytes_equal(field.name, BYTES("b")));
	ck_assert(field_next(&iterator, &field));
	ck_assert_int_eq(field.integer, 2);
	ck_assert(!field_next(&iterator, &field));
	ck_assert(!field_next(&iterator, &field));
}
END_TEST

START_TEST(test_an_empty_table_has_nothing)
{
	struct field field;

	ck_assert_int_eq(validate(bytes_of(NULL, 0), NULL), FIELD_OK);
	ck_assert_uint_eq(table_count(bytes_of(NULL, 0)), 0);
	ck_assert(!table_find(bytes_of(NULL, 0), BYTES(""), &field));
	ck_assert(table_equal(bytes_of(NULL, 0), BYTES("")));
}
END_TEST

static bool
equal(struct bytes a, struct bytes b)
{
	struct field field_a = value_of(a);
	struct field field_b = value_of(b);
	bool result = field_equal(&field_a, &field_b);

	ck_assert_int_eq(field_equal(&field_b, &field_a), result);
	return result;
}

START_TEST(test_integers_are_equal_by_value)
{
	static const struct bytes fives[] = {
		BYTES("b\5"),
		BYTES("B\5"),
		BYTES("s\0\5"),
		BYTES("U\0\5"),
		BYTES("u\0\5"),
		BYTES("I\0\0\0\5"),
		BYTES("i\0\0\0\5"),
		BYTES("l\0\0\0\0\0\0\0\5"),
		BYTES("L\0\0\0\0\0\0\0\5"),
	};

	for (size_t i = 0; i < countof(fives); i++) {
		for (size_t j = 0; j < countof(fives); j++)
			ck_assert(equal(fives[i], fives[j]));
		ck_assert(!equal(fives[i], BYTES("I\0\0\0\6")));
		ck_assert(!equal(fives[i], BYTES("S\0\0\0\1"
						 "5")));
		ck_assert(!equal(fives[i], BYTES("f\x40\xa0\0\0")));
		ck_assert(!equal(fives[i], BYTES("T\0\0\0\0\0\0\0\5")));
		ck_assert(!equal(fives[i], BYTES("t\1")));
	}
	ck_assert(!equal(BYTES("b\xff"), BYTES("B\xff")));
	ck_assert(equal(BYTES("b\xff"), BYTES("l\xff\xff\xff\xff\xff\xff\xff\xff")));
}
END_TEST

START_TEST(test_other_values_are_equal_within_their_class)
{
	ck_assert(equal(BYTES("S\0\0\0\1a"), BYTES("x\0\0\0\1a")));
	ck_assert(!equal(BYTES("S\0\0\0\1a"), BYTES("S\0\0\0\1A")));
	ck_assert(equal(BYTES("t\1"), BYTES("t\x40")));
	ck_assert(equal(BYTES("f\x3f\xc0\0\0"), BYTES("d\x3f\xf8\0\0\0\0\0\0")));
	ck_assert(equal(BYTES("f\x7f\xc0\0\0"), BYTES("f\x7f\xc0\0\1")));
	ck_assert(!equal(BYTES("f\x7f\xc0\0\0"), BYTES("f\0\0\0\0")));
	ck_assert(equal(BYTES("V"), BYTES("V")));
	ck_assert(equal(BYTES("D\1\0\0\0\1"), BYTES("D\1\0\0\0\1")));
	ck_assert(!equal(BYTES("D\1\0\0\0\1"), BYTES("D\2\0\0\0\1")));
	ck_assert(equal(BYTES("A\0\0\0\3b\1V"), BYTES("A\0\0\0\3B\1V")));
	ck_assert(!equal(BYTES("A\0\0\0\3b\1V"), BYTES("A\0\0\0\3Vb\1")));
	ck_assert(!equal(BYTES("A\0\0\0\3b\1V"), BYTES("A\0\0\0\2b\1")));
	ck_assert(!equal(BYTES("A\0\0\0\2b\1"), BYTES("A\0\0\0\3b\1V")));
	ck_assert(equal(BYTES("F\0\0\0\7\1ab\1\1bV"), BYTES("F\0\0\0\7\1bV\1aB\1")));
	ck_assert(!equal(BYTES("F\0\0\0\4\1ab\1"), BYTES("F\0\0\0\4\1bb\1")));
	ck_assert(!equal(BYTES("F\0\0\0\0"), BYTES("A\0\0\0\0")));
}
END_TEST

START_TEST(test_tables_of_bindings_are_equal_by_type)
{
	ck_assert(table_equal(BYTES("\1ab\1\1bV"), BYTES("\1bV\1ab\1")));
	ck_assert(!table_equal(BYTES("\1ab\1"), BYTES("\1aB\1")));
	ck_assert(!table_equal(BYTES("\1ab\1"), BYTES("\1ab\2")));
	ck_assert(!table_equal(BYTES("\1aS\0\0\0\0"), BYTES("\1ax\0\0\0\0")));
	ck_assert(!table_equal(BYTES("\1aA\0\0\0\2b\1"), BYTES("\1aA\0\0\0\2B\1")));
	ck_assert(!table_equal(BYTES("\1aV"), BYTES("\1aV\1aV")));
	ck_assert(!table_equal(BYTES("\1aV\1aV"), BYTES("\1aV\1bV")));
	ck_assert(!table_equal(BYTES("\1aV\1bV"), BYTES("\1aV\1aV")));
	/* Letters that leave as one and the same type. */
	ck_assert(table_equal(BYTES("\1al\0\0\0\0\0\0\0\1"), BYTES("\1aL\0\0\0\0\0\0\0\1")));
	ck_assert(table_equal(BYTES("\1aU\0\1"), BYTES("\1aI\0\0\0\1")));
}
END_TEST

/* As many entries as fit a frame, in two orders: only n log n comparing ends within the time limit. */
START_TEST(test_large_tables_are_compared_quickly)
{
	enum {
		COUNT = 300000,
		SIZE = 6
	};
	uint8_t *a = malloc((size_t)COUNT * SIZE);
	uint8_t *b = malloc((size_t)COUNT * SIZE);

	ck_assert(a != NULL && b != NULL);
	for (uint32_t i = 0; i < COUNT; i++) {
		uint8_t entry[SIZE] = {4, 0, 0, 0, 0, 'V'};

		store_long(entry + 1, i);
		memcpy(a + i * SIZE, entry, SIZE);
		memcpy(b + (COUNT - 1 - i) * SIZE, entry, SIZE);
	}
	for (int round = 0; round < 3; round++)
		ck_assert(table_equal(bytes_of(a, COUNT * SIZE), bytes_of(b, COUNT * SIZE)));
	b[1] = 1;
	ck_assert(!table_equal(bytes_of(a, COUNT * SIZE), bytes_of(b, COUNT * SIZE)));
	free(a);
	free(b);
}
END_TEST

START_TEST(test_a_print_is_cut_between_characters)
{
	struct field field = value_of(BYTES("S\0\0\0\x09"
					    "ab\xe2\x82\xac"
					    "cdef"));
	char out[16];

	ck_assert_str_eq(field_print(&field, out, 10), "ab\xe2\x82\xac"
						       "cdef");
	ck_assert_str_eq(field_print(&field, out, 9), "ab\xe2\x82\xac...");
	ck_assert_str_eq(field_print(&field, out, 8), "ab...");
	ck_assert_str_eq(field_print(&field, out, 6), "ab...");
	ck_assert_str_eq(field_print(&field, out, 5), "a...");
	ck_assert_str_eq(field_print(&field, out, 4), "...");
	field = value_of(BYTES("S\0\0\0\3a\0b"));
	ck_assert_str_eq(field_print(&field, out, sizeof(out)), "a?b");
	field = value_of(BYTES("I\x80\0\0\0"));
	ck_assert_str_eq(field_print(&field, out, 8), "-214...");
}
END_TEST

START_TEST(test_odd_floats_are_printed)
{
	struct field field = {.class = FIELD_FLOAT, .type = 'd', .number = INFINITY};
	char out[64];

	ck_assert_str_eq(field_print(&field, out, sizeof(out)), "inf");
	field.number = NAN;
	ck_assert_ptr_nonnull(strstr(field_print(&field, out, sizeof(out)), "nan"));
	field.number = 1e300;
	ck_assert_str_eq(field_print(&field, out, sizeof(out)), "1e+300");
}
END_TEST

/* What x-death looks like. */
START_TEST(test_a_table_is_built)
{
	uint8_t area[200];
	struct writer w = writer_of(area, sizeof(area));
	uint8_t *deaths = array_begin(&w, BYTES("x-death"));
	uint8_t *death = array_table_begin(&w);
	uint8_t *keys;
	struct field field = value_of(BYTES("V"));

	table_put_long(&w, BYTES("count"), 1);
	table_put_timestamp(&w, BYTES("time"), 7);
	keys = array_begin(&w, BYTES("keys"));
	array_put_string(&w, BYTES("k"));
	table_end(&w, keys);
	table_end(&w, death);
	array_put_field(&w, &field);
	table_end(&w, deaths);
	table_put_bool(&w, BYTES("b"), true);
	table_put_int(&w, BYTES("i"), -2);
	table_put_string(&w, BYTES("s"), BYTES("t"));
	table_end(&w, table_begin(&w, BYTES("f")));
	ck_assert(!w.bad);
	ck_assert(
		bytes_equal(bytes_of(area, (size_t)(w.p - area)), BYTES("\7x-deathA\0\0\0\x33"
									"F\0\0\0\x2d"
									"\5countl\0\0\0\0\0\0\0\1"
									"\4timeT\0\0\0\0\0\0\0\7"
									"\4keysA\0\0\0\6S\0\0\0\1k"
									"V"
									"\1bt\1"
									"\1iI\xff\xff\xff\xfe"
									"\1sS\0\0\0\1t"
									"\1fF\0\0\0\0")));
	ck_assert_int_eq(validate(bytes_of(area, (size_t)(w.p - area)), NULL), FIELD_OK);
}
END_TEST

START_TEST(test_building_without_room_is_bad)
{
	for (size_t room = 0; room < 19; room++) {
		uint8_t area[19];
		struct writer w = writer_of(area, room);
		uint8_t *begun = table_begin(&w, BYTES("t"));

		table_put_long(&w, BYTES("n"), 1);
		table_end(&w, begun);
		ck_assert_int_eq(w.bad, room < 18);
	}
}
END_TEST

START_TEST(test_every_letter_is_copied)
{
	for (size_t i = 0; i < countof(samples); i++) {
		struct bytes table = table_of(samples[i].value);
		uint8_t area[256];
		struct writer w = writer_of(area, sizeof(area));

		table_put_entries(&w, table);
		ck_assert(!w.bad);
		ck_assert(table_equal(bytes_of(area, (size_t)(w.p - area)), table));
		if (strchr("UL", samples[i].value.p[0]) == NULL)
			ck_assert(bytes_equal(bytes_of(area, (size_t)(w.p - area)), table));
	}
}
END_TEST

START_TEST(test_letters_that_clients_do_not_know_are_replaced)
{
	struct bytes table = BYTES("\1uU\xff\xfe\1LL\0\0\0\0\0\0\0\5"
				   "\1FF\0\0\0\5\1uU\0\1\1AA\0\0\0\3U\0\1");
	uint8_t area[100];
	struct writer w = writer_of(area, sizeof(area));
	struct field field;

	ck_assert_int_eq(validate(table, NULL), FIELD_OK);
	table_put_entries(&w, table);
	ck_assert(!w.bad);
	ck_assert(bytes_equal(bytes_of(area, (size_t)(w.p - area)),
			      BYTES("\1uI\xff\xff\xff\xfe\1Ll\0\0\0\0\0\0\0\5"
				    "\1FF\0\0\0\7\1uI\0\0\0\1\1AA\0\0\0\5I\0\0\0\1")));
	ck_assert(table_find(table, BYTES("u"), &field));
	w = writer_of(area, sizeof(area));
	table_put_field(&w, BYTES("v"), &field);
	ck_assert(bytes_equal(bytes_of(area, (size_t)(w.p - area)), BYTES("\1vI\xff\xff\xff\xfe")));
}
END_TEST

TESTS("field", test_every_letter_is_decoded, test_every_truncation_is_refused,
      test_inner_lengths_are_checked, test_every_other_letter_is_unknown, test_nesting_is_bounded,
      test_the_first_of_a_name_is_found, test_an_empty_table_has_nothing,
      test_integers_are_equal_by_value, test_other_values_are_equal_within_their_class,
      test_tables_of_bindings_are_equal_by_type, test_large_tables_are_compared_quickly,
      test_a_print_is_cut_between_characters, test_odd_floats_are_printed, test_a_table_is_built,
      test_building_without_room_is_bad, test_every_letter_is_copied,
      test_letters_that_clients_do_not_know_are_replaced)
