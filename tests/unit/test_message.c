/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: the wire form that lies behind the struct, octet for octet, and its parts. */
#include "broker/message.h"

#include "lib/runner.h"

static const uint8_t header_payload[] = {0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x10, 0, 2};

static struct message *
make(const char *exchange, const char *key, uint32_t body_size)
{
	struct message *m = message_new(bytes_str(exchange), bytes_str(key),
					bytes_of(header_payload, sizeof(header_payload)), body_size,
					MESSAGE_PERSISTENT);

	if (body_size != 0)
		memset(message_body_room(m), 'b', body_size);
	return m;
}

START_TEST(test_message_wire_form)
{
	static const uint8_t expected[] = {1,	'x', 2,	  'r', 'k',  0xCE,     // names
					   2,	0,   0,	  0,   0,    0,	   15, // header frame
					   0,	60,  0,	  0,   0,    0,	   0,  0,
					   0,	0,   0,	  5,   0x10, 0,	   2,  0xCE, //
					   3,	0,   0,	  0,   0,    0,	   5,	     // body frame
					   'b', 'b', 'b', 'b', 'b',  0xCE};
	struct message *m = make("x", "rk", 5);

	ck_assert_uint_eq(message_wire_size(m), sizeof(expected));
	ck_assert_mem_eq(m->wire, expected, sizeof(expected));
	ck_assert_uint_eq(m->refs, 1);
	ck_assert_uint_eq(m->flags, MESSAGE_PERSISTENT);
	message_unref(m);
}
END_TEST

START_TEST(test_message_parts_are_found)
{
	struct message *m = make("exchange", "key", 5);

	ck_assert(bytes_equal(message_exchange(m), BYTES("exchange")));
	ck_assert(bytes_equal(message_key(m), BYTES("key")));
	ck_assert(bytes_equal(message_header(m), bytes_of(header_payload, sizeof(header_payload))));
	ck_assert(bytes_equal(message_properties(m), bytes_of(header_payload + 12, 3)));
	ck_assert(bytes_equal(message_body(m), BYTES("bbbbb")));
	ck_assert_uint_eq(message_names_size(m), 1 + 8 + 1 + 3 + 1);
	message_unref(m);
}
END_TEST

START_TEST(test_message_without_body_has_no_body_frame)
{
	struct message *m = make("", "", 0);

	ck_assert_uint_eq(message_exchange(m).n, 0);
	ck_assert_uint_eq(message_key(m).n, 0);
	ck_assert_uint_eq(message_body(m).n, 0);
	ck_assert_uint_eq(message_wire_size(m), 3 + FRAME_OVERHEAD + sizeof(header_payload));
	ck_assert_uint_eq(m->wire[message_wire_size(m) - 1], FRAME_END);
	message_unref(m);
}
END_TEST

START_TEST(test_message_takes_the_longest_names)
{
	static uint8_t name[255];
	struct message *m;

	memset(name, 'n', sizeof(name));
	m = message_new(bytes_of(name, 255), bytes_of(name, 254),
			bytes_of(header_payload, sizeof(header_payload)), 100000, 0);
	memset(message_body_room(m), 0xCE, 100000);
	ck_assert_uint_eq(message_exchange(m).n, 255);
	ck_assert_uint_eq(message_key(m).n, 254);
	ck_assert_uint_eq(message_body(m).n, 100000);
	ck_assert_uint_eq(m->wire[message_wire_size(m) - 1], FRAME_END);
	ck_assert_uint_eq(m->wire[message_body_at(m)], FRAME_BODY);
	ck_assert_uint_eq(load_long(m->wire + message_body_at(m) + 3), 100000);
	message_unref(m);
}
END_TEST

START_TEST(test_message_lives_while_it_is_counted)
{
	size_t before = mem_held();
	struct message *m = make("x", "k", 1000000);

	ck_assert_ptr_eq(message_ref(m), m);
	ck_assert_uint_eq(m->refs, 2);
	message_unref(m);
	ck_assert_uint_eq(m->refs, 1);
	ck_assert_uint_eq(message_body(m).p[999999], 'b');
	ck_assert_uint_ge(mem_held(), before + 1000000);
	message_unref(m);
	slab_trim();
	ck_assert_uint_lt(mem_held(), before + 1000000);
}
END_TEST

/* What consumers do not get is there in each copy, and nowhere in the wire form. */
START_TEST(test_message_keeps_what_nobody_gets)
{
	size_t before = mem_held();
	struct buf more;
	struct message *plain = make("x", "k", 5000);
	struct message *m;
	struct message *copy;

	buf_init(&more, 0);
	message_put_bcc(&more, BYTES("secret"));
	message_put_bcc(&more, BYTES(""));
	m = message_new_extended(message_exchange(plain), message_key(plain), message_header(plain),
				 5000, MESSAGE_HAS_CC, buf_bytes(&more));
	memcpy(message_body_room(m), message_body(plain).p, 5000);
	ck_assert_uint_eq(message_wire_size(m), message_wire_size(plain));
	ck_assert_mem_eq(m->wire, plain->wire, message_wire_size(m));
	ck_assert(bytes_equal(message_extension(m), BYTES("\1\6secret\1\0")));
	copy = message_copy(m);
	ck_assert(bytes_equal(message_extension(copy), message_extension(m)));
	ck_assert_mem_eq(copy->wire, m->wire, message_wire_size(m));
	message_unref(m);
	message_unref(copy);
	m = message_new_extended(message_exchange(plain), message_key(plain), message_header(plain),
				 0, MESSAGE_HAS_EXTENSION, bytes_of(NULL, 0));
	ck_assert_uint_eq(message_extension(m).n, 0);
	message_unref(m);
	message_unref(plain);
	buf_fini(&more);
	slab_trim();
	ck_assert_uint_eq(mem_held(), before);
}
END_TEST

TESTS("message", test_message_wire_form, test_message_parts_are_found,
      test_message_without_body_has_no_body_frame, test_message_takes_the_longest_names,
      test_message_lives_while_it_is_counted, test_message_keeps_what_nobody_gets)
