/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods. What is tried with every method is expanded from methods.def, as the codec is; what would
 * pass if both ends were wrong in the same way is pinned by octets written out.
 */
#include "wire/method.h"

#include "wire/field.h"

#include "lib/runner.h"

#define AREA 4096
#define STRING_MAX 40

static const uint32_t all[] = {
#define METHOD(class, class_id, method, method_id, fields) METHOD_ID(class_id, method_id),
#include "wire/methods.def"
};

/* What fills the fields of a method. */
struct filling {
	uint64_t random;     // state of the generator; never 0
	uint8_t area[AREA];  // where strings lie
	size_t used;	     // octets of it
	unsigned shortstrs;  // shortstr fields filled so far
	unsigned tables;     // table fields filled so far
	unsigned bad_string; // which shortstr gets octets that are no UTF-8, from 1; 0 for none
	struct bytes table;  // entries for each table
};

static uint64_t
next_random(struct filling *f)
{
	f->random ^= f->random << 13;
	f->random ^= f->random >> 7;
	f->random ^= f->random << 17;
	return f->random;
}

/* A string of 0 to STRING_MAX octets below limit. */
static struct bytes
next_string(struct filling *f, unsigned limit)
{
	size_t n = next_random(f) % (STRING_MAX + 1);
	uint8_t *p = f->area + f->used;

	ck_assert_uint_le(f->used + n, AREA);
	f->used += n;
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(next_random(f) % limit);
	return bytes_of(p, n);
}

static struct bytes
next_shortstr(struct filling *f)
{
	return ++f->shortstrs == f->bad_string ? BYTES("well \xc3\xa9, ill \xff")
					       : next_string(f, 0x80);
}

static struct bytes
next_table(struct filling *f)
{
	f->tables++;
	return f->table;
}

static void
fill(struct method *m, uint32_t id, struct filling *f)
{
	m->id = id;
	switch (id) {
#define OCTET(field) x->field = (uint8_t)next_random(f);
#define SHORT(field) x->field = (uint16_t)next_random(f);
#define LONG(field) x->field = (uint32_t)next_random(f);
#define LONGLONG(field) x->field = next_random(f);
#define SHORTSTR(field) x->field = next_shortstr(f);
#define LONGSTR(field) x->field = next_string(f, 0x100);
#define BIT(field) x->field = next_random(f) >> 40 & 1;
#define TABLE(field) x->field = next_table(f);
#define NOTHING x->nothing = 0;
#define METHOD(class, class_id, method, method_id, fields)         \
	case METHOD_ID(class_id, method_id): {                     \
		struct class##_##method *x = &m->class##_##method; \
		fields break;                                      \
	}
#include "wire/methods.def"
	}
}

static void
compare(const struct method *a, const struct method *b)
{
	ck_assert_uint_eq(a->id, b->id);
	switch (a->id) {
#define OCTET(field) ck_assert_uint_eq(x->field, y->field);
#define SHORT(field) ck_assert_uint_eq(x->field, y->field);
#define LONG(field) ck_assert_uint_eq(x->field, y->field);
#define LONGLONG(field) ck_assert_uint_eq(x->field, y->field);
#define SHORTSTR(field) ck_assert(bytes_equal(x->field, y->field));
#define LONGSTR(field) ck_assert(bytes_equal(x->field, y->field));
#define BIT(field) ck_assert_int_eq(x->field, y->field);
#define TABLE(field) ck_assert(bytes_equal(x->field, y->field));
#define NOTHING ck_assert_int_eq(x->nothing, y->nothing);
#define METHOD(class, class_id, method, method_id, fields)               \
	case METHOD_ID(class_id, method_id): {                           \
		const struct class##_##method *x = &a->class##_##method; \
		const struct class##_##method *y = &b->class##_##method; \
		fields break;                                            \
	}
#include "wire/methods.def"
	}
}

static struct bytes
encode(const struct method *m, uint8_t *area, size_t room)
{
	struct writer w = writer_of(area, room);

	method_encode(m, &w);
	ck_assert_msg(!w.bad, "%s does not fit", method_name(m->id));
	return bytes_of(area, (size_t)(w.p - area));
}

/* Decodes a copy without an octet to spare, so that a sanitizer sees a read past the end. */
static enum method_result
decode_exactly(struct method *m, struct bytes payload, uint8_t **copy)
{
	*copy = malloc(payload.n != 0 ? payload.n : 1);
	ck_assert_ptr_nonnull(*copy);
	if (payload.n != 0)
		memcpy(*copy, payload.p, payload.n);
	return method_decode(m, bytes_of(*copy, payload.n));
}

static enum method_result
result_of(struct bytes payload)
{
	struct method m;
	uint8_t *copy;
	enum method_result result = decode_exactly(&m, payload, &copy);

	free(copy);
	return result;
}

#define SOME_TABLE BYTES("\1aI\0\0\0\5\1bS\0\0\0\2\xff\0\1cF\0\0\0\3\1dV")

START_TEST(test_each_method_round_trips)
{
	for (size_t i = 0; i < countof(all); i++) {
		for (uint64_t seed = 1; seed <= 50; seed++) {
			struct filling f = {.random = seed << 20, .table = SOME_TABLE};
			uint8_t area[AREA];
			struct method sent;
			struct method got;
			uint8_t *copy;
			struct bytes payload;

			fill(&sent, all[i], &f);
			payload = encode(&sent, area, sizeof(area));
			ck_assert_int_eq(decode_exactly(&got, payload, &copy), METHOD_OK);
			compare(&sent, &got);
			free(copy);
		}
	}
}
END_TEST

START_TEST(test_every_truncation_is_refused)
{
	for (size_t i = 0; i < countof(all); i++) {
		struct filling f = {.random = i + 1, .table = SOME_TABLE};
		uint8_t area[AREA];
		struct bytes payload;
		struct method m;

		fill(&m, all[i], &f);
		payload = encode(&m, area, sizeof(area));
		for (size_t n = 0; n < payload.n; n++)
			ck_assert_msg(result_of(bytes_of(payload.p, n)) == METHOD_MALFORMED,
				      "%s cut to %zu of %zu octets", method_name(all[i]), n,
				      payload.n);
	}
}
END_TEST

START_TEST(test_octets_left_over_are_refused)
{
	for (size_t i = 0; i < countof(all); i++) {
		struct filling f = {.random = i + 1, .table = SOME_TABLE};
		uint8_t area[AREA];
		struct bytes payload;
		struct method m;

		fill(&m, all[i], &f);
		payload = encode(&m, area, sizeof(area) - 1);
		area[payload.n] = 0;
		ck_assert_msg(result_of(bytes_of(area, payload.n + 1)) == METHOD_MALFORMED,
			      "%s and an octet", method_name(all[i]));
	}
}
END_TEST

START_TEST(test_no_room_is_noticed)
{
	for (size_t i = 0; i < countof(all); i++) {
		struct filling f = {.random = i + 1, .table = SOME_TABLE};
		uint8_t area[AREA];
		struct bytes payload;
		struct method m;

		fill(&m, all[i], &f);
		payload = encode(&m, area, sizeof(area));
		for (size_t n = 0; n < payload.n; n++) {
			struct writer w = writer_of(area, n);

			method_encode(&m, &w);
			ck_assert(w.bad);
		}
	}
}
END_TEST

START_TEST(test_random_arguments_never_crash)
{
	struct filling f = {.random = 4711};
	unsigned taken = 0;

	for (size_t i = 0; i < 200 * countof(all); i++) {
		uint8_t payload[4 + STRING_MAX];
		struct bytes arguments;

		f.used = 0;
		arguments = next_string(&f, i % 2 == 0 ? 0x100 : 4);
		store_long(payload, all[i % countof(all)]);
		memcpy(payload + 4, arguments.p, arguments.n);
		taken += result_of(bytes_of(payload, 4 + arguments.n)) == METHOD_OK;
	}
	ck_assert_uint_gt(taken, 0);
}
END_TEST

START_TEST(test_random_bytes_never_crash)
{
	struct filling f = {.random = 815};

	for (size_t i = 0; i < 20000; i++) {
		f.used = 0;
		ck_assert_int_ne(result_of(next_string(&f, 0x100)), METHOD_OK);
	}
}
END_TEST

START_TEST(test_each_shortstr_must_be_utf8)
{
	unsigned tried = 0;

	for (size_t i = 0; i < countof(all); i++) {
		struct filling f = {.random = i + 1, .table = SOME_TABLE};
		unsigned strings;
		struct method m;

		fill(&m, all[i], &f);
		strings = f.shortstrs;
		for (unsigned bad = 1; bad <= strings; bad++) {
			uint8_t area[AREA];

			f = (struct filling){
				.random = i + 1, .bad_string = bad, .table = SOME_TABLE};
			fill(&m, all[i], &f);
			ck_assert_int_eq(result_of(encode(&m, area, sizeof(area))),
					 METHOD_BAD_UTF8);
			tried++;
		}
	}
	ck_assert_uint_gt(tried, 30);
}
END_TEST

/* Decodes each method that has a table, with these entries in it; returns how many there were. */
static unsigned
decode_with_table(struct bytes table, enum method_result expected, char bad_type)
{
	unsigned tried = 0;

	for (size_t i = 0; i < countof(all); i++) {
		struct filling f = {.random = i + 1, .table = table};
		uint8_t area[AREA];
		struct method sent;
		struct method got;
		uint8_t *copy;
		enum method_result result;

		fill(&sent, all[i], &f);
		if (f.tables == 0)
			continue;
		result = decode_exactly(&got, encode(&sent, area, sizeof(area)), &copy);
		ck_assert_int_eq(result, expected);
		ck_assert_int_eq(got.bad_type, bad_type);
		free(copy);
		tried++;
	}
	return tried;
}

START_TEST(test_each_table_is_validated)
{
	uint8_t area[4 * AREA];
	struct writer w = writer_of(area, AREA);

	ck_assert_uint_ge(decode_with_table(SOME_TABLE, METHOD_OK, 0), 9);
	decode_with_table(bytes_of(NULL, 0), METHOD_OK, 0);
	decode_with_table(BYTES("\1az\0"), METHOD_BAD_TABLE_TYPE, 'z');
	decode_with_table(BYTES("\1aV\1bF\0\0\0\3\1c!"), METHOD_BAD_TABLE_TYPE, '!');
	decode_with_table(BYTES("\1aS\0\0\0\2x"), METHOD_MALFORMED, 0);
	for (int i = 0; i < FIELD_DEPTH_MAX; i++)
		table_begin(&w, BYTES("t"));
	for (uint8_t *p = area; p < w.p; p += 7)
		store_long(p + 3, (uint32_t)(w.p - p) - 7);
	decode_with_table(bytes_of(area, (size_t)(w.p - area)), METHOD_MALFORMED, 0);
}
END_TEST

START_TEST(test_a_longstr_is_opaque)
{
	struct method m = {.id = METHOD_connection_secure_ok,
			   .connection_secure_ok.response = BYTES("\0root\0\xff\xfe")};
	uint8_t area[64];

	ck_assert_int_eq(result_of(encode(&m, area, sizeof(area))), METHOD_OK);
}
END_TEST

START_TEST(test_unknown_methods_keep_their_ids)
{
	static const uint8_t basic_credit[] = {0, 60, 0, 200, 1, 2};
	static const uint8_t class_zero[] = {0, 0, 0, 10};
	struct writer w;
	struct method m;

	ck_assert_int_eq(method_decode(&m, bytes_of(basic_credit, sizeof(basic_credit))),
			 METHOD_UNKNOWN);
	ck_assert_uint_eq(m.id, METHOD_ID(60, 200));
	ck_assert_str_eq(method_name(m.id), "unknown");
	ck_assert_int_eq(method_decode(&m, bytes_of(class_zero, sizeof(class_zero))),
			 METHOD_UNKNOWN);
	ck_assert_uint_eq(m.id, 10);
	w = writer_of((uint8_t[8]){0}, 8);
	method_encode(&m, &w);
	ck_assert(w.bad);
}
END_TEST

START_TEST(test_octets_of_publish)
{
	static const uint8_t octets[] = {0, 60, 0, 40, 0, 0, 2, 'e', 'x', 3, 'k', 'e', 'y', 0x01};
	struct method m;

	ck_assert_int_eq(method_decode(&m, bytes_of(octets, sizeof(octets))), METHOD_OK);
	ck_assert_uint_eq(m.id, METHOD_basic_publish);
	ck_assert(bytes_equal(m.basic_publish.exchange, BYTES("ex")));
	ck_assert(bytes_equal(m.basic_publish.routing_key, BYTES("key")));
	ck_assert(m.basic_publish.mandatory);
	ck_assert(!m.basic_publish.immediate);
	ck_assert(method_has_content(m.id));
}
END_TEST

START_TEST(test_octets_of_declare)
{
	static const uint8_t octets[] = {0, 50, 0, 10, 0, 0,   1,   'q', 0x12,
					 0, 0,	0, 4,  1, 'k', 't', 1};
	struct method m = {.id = METHOD_queue_declare,
			   .queue_declare = {.queue = BYTES("q"),
					     .durable = true,
					     .nowait = true,
					     .arguments = BYTES("\1kt\1")}};
	uint8_t area[64];

	ck_assert(bytes_equal(encode(&m, area, sizeof(area)), bytes_of(octets, sizeof(octets))));
	ck_assert(!method_has_content(m.id));
}
END_TEST

START_TEST(test_octets_of_channel_open_ok)
{
	static const uint8_t octets[] = {0, 20, 0, 11, 0, 0, 0, 0};
	struct method m = {.id = METHOD_channel_open_ok};
	uint8_t area[16];

	ck_assert(bytes_equal(encode(&m, area, sizeof(area)), bytes_of(octets, sizeof(octets))));
}
END_TEST

START_TEST(test_names_are_the_specifications)
{
	ck_assert_str_eq(method_name(METHOD_basic_publish), "basic.publish");
	ck_assert_str_eq(method_name(METHOD_connection_start_ok), "connection.start-ok");
	ck_assert_str_eq(method_name(METHOD_connection_update_secret_ok),
			 "connection.update-secret-ok");
	ck_assert_str_eq(method_name(METHOD_exchange_unbind_ok), "exchange.unbind-ok");
	ck_assert_uint_eq(METHOD_exchange_unbind_ok, METHOD_ID(40, 51));
	for (size_t i = 0; i < countof(all); i++)
		ck_assert_ptr_null(strchr(method_name(all[i]), '_'));
}
END_TEST

START_TEST(test_four_methods_have_content)
{
	unsigned n = 0;

	for (size_t i = 0; i < countof(all); i++)
		n += method_has_content(all[i]);
	ck_assert_uint_eq(n, 4);
	ck_assert(method_has_content(METHOD_basic_return));
	ck_assert(method_has_content(METHOD_basic_deliver));
	ck_assert(method_has_content(METHOD_basic_get_ok));
}
END_TEST

TESTS("method", test_each_method_round_trips, test_every_truncation_is_refused,
      test_octets_left_over_are_refused, test_no_room_is_noticed, test_random_arguments_never_crash,
      test_random_bytes_never_crash, test_each_shortstr_must_be_utf8, test_each_table_is_validated,
      test_a_longstr_is_opaque, test_unknown_methods_keep_their_ids, test_octets_of_publish,
      test_octets_of_declare, test_octets_of_channel_open_ok, test_names_are_the_specifications,
      test_four_methods_have_content)
