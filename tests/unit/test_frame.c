/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: cut out of a stream at every place where it may break off, and written into one.
 */
#include "wire/frame.h"

#include "wire/props.h"

#include "lib/runner.h"

#define NO_LIMIT UINT32_MAX

static const uint8_t abc[] = {3, 0x12, 0x34, 0, 0, 0, 3, 'a', 'b', 'c', FRAME_END};

START_TEST(test_a_frame_is_cut)
{
	struct frame frame;

	ck_assert_int_eq(frame_cut(&frame, bytes_of(abc, sizeof(abc)), 3), FRAME_OK);
	ck_assert_uint_eq(frame.type, FRAME_BODY);
	ck_assert_uint_eq(frame.channel, 0x1234);
	ck_assert_uint_eq(frame.size, 3);
	ck_assert(bytes_equal(frame.payload, BYTES("abc")));
}
END_TEST

START_TEST(test_every_part_of_a_frame_is_partial)
{
	struct frame frame;

	for (size_t n = 0; n < sizeof(abc); n++) {
		frame.size = 0;
		ck_assert_int_eq(frame_cut(&frame, bytes_of(abc, n), NO_LIMIT), FRAME_PARTIAL);
		ck_assert_uint_eq(frame.size, n >= FRAME_PREFIX ? 3 : 0);
	}
}
END_TEST

START_TEST(test_a_frame_too_large_is_known_by_its_prefix)
{
	struct frame frame;

	ck_assert_int_eq(frame_cut(&frame, bytes_of(abc, FRAME_PREFIX - 1), 2), FRAME_PARTIAL);
	ck_assert_int_eq(frame_cut(&frame, bytes_of(abc, FRAME_PREFIX), 2), FRAME_TOO_LARGE);
	ck_assert_uint_eq(frame.type, FRAME_BODY);
	ck_assert_uint_eq(frame.channel, 0x1234);
	ck_assert_uint_eq(frame.size, 3);
}
END_TEST

START_TEST(test_the_largest_size_is_partial)
{
	static const uint8_t prefix[] = {3, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0};
	struct frame frame;

	ck_assert_int_eq(frame_cut(&frame, bytes_of(prefix, sizeof(prefix)), NO_LIMIT),
			 FRAME_PARTIAL);
	ck_assert_uint_eq(frame.size, UINT32_MAX);
}
END_TEST

START_TEST(test_a_wrong_end_is_noticed)
{
	uint8_t octets[sizeof(abc)];
	struct frame frame;

	memcpy(octets, abc, sizeof(abc));
	octets[sizeof(octets) - 1] = FRAME_END ^ 1;
	ck_assert_int_eq(frame_cut(&frame, bytes_of(octets, sizeof(octets)), 3), FRAME_BAD_END);
	ck_assert(bytes_equal(frame.payload, BYTES("abc")));
}
END_TEST

START_TEST(test_what_follows_is_left_alone)
{
	uint8_t stream[sizeof(abc) + FRAME_OVERHEAD];
	struct frame frame;
	struct bytes rest;

	memcpy(stream, abc, sizeof(abc));
	memcpy(stream + sizeof(abc), heartbeat_frame, FRAME_OVERHEAD);
	rest = bytes_of(stream, sizeof(stream));
	ck_assert_int_eq(frame_cut(&frame, rest, 3), FRAME_OK);
	rest = bytes_of(stream + FRAME_OVERHEAD + frame.size,
			sizeof(stream) - FRAME_OVERHEAD - frame.size);
	ck_assert_int_eq(frame_cut(&frame, rest, 3), FRAME_OK);
	ck_assert_uint_eq(frame.type, FRAME_HEARTBEAT);
	ck_assert_uint_eq(frame.channel, 0);
	ck_assert_uint_eq(frame.payload.n, 0);
}
END_TEST

START_TEST(test_octets_of_the_constants)
{
	ck_assert_mem_eq(protocol_header, "AMQP\0\0\x09\x01", PROTOCOL_HEADER_SIZE);
	ck_assert_mem_eq(heartbeat_frame, "\x08\0\0\0\0\0\0\xce", FRAME_OVERHEAD);
}
END_TEST

START_TEST(test_a_method_frame_is_whole)
{
	static const uint8_t expected[] = {1, 0, 7, 0, 0, 0, 13, 0, 60, 0,	  80,
					   0, 0, 0, 0, 0, 0, 0,	 9, 1,	FRAME_END};
	struct method m = {.id = METHOD_basic_ack,
			   .basic_ack = {.delivery_tag = 9, .multiple = true}};
	uint8_t area[64];
	struct writer w = writer_of(area, sizeof(area));

	frame_write_method(&w, 7, &m);
	ck_assert(!w.bad);
	ck_assert_uint_eq((size_t)(w.p - area), sizeof(expected));
	ck_assert_mem_eq(area, expected, sizeof(expected));
	for (size_t n = 0; n < sizeof(expected); n++) {
		w = writer_of(area, n);
		frame_write_method(&w, 7, &m);
		ck_assert(w.bad);
	}
}
END_TEST

/* Cuts the frames of a content apart again; returns how many body frames there were. */
static unsigned
check_content(struct bytes stream, struct bytes header, struct bytes body, uint32_t payload_max)
{
	unsigned bodies = 0;
	size_t at = 0;
	struct frame frame;

	ck_assert_int_eq(frame_cut(&frame, stream, NO_LIMIT), FRAME_OK);
	ck_assert_uint_eq(frame.type, FRAME_HEADER);
	ck_assert_uint_eq(frame.channel, 3);
	ck_assert(bytes_equal(frame.payload, header));
	for (;;) {
		size_t step = FRAME_OVERHEAD + frame.size;

		stream = bytes_of(stream.p + step, stream.n - step);
		if (stream.n == 0)
			break;
		ck_assert_int_eq(frame_cut(&frame, stream, payload_max), FRAME_OK);
		ck_assert_uint_eq(frame.type, FRAME_BODY);
		ck_assert_uint_eq(frame.channel, 3);
		ck_assert_mem_eq(frame.payload.p, body.p + at, frame.payload.n);
		at += frame.payload.n;
		bodies++;
	}
	ck_assert_uint_eq(at, body.n);
	return bodies;
}

static unsigned
content_frames(size_t size, uint32_t frame_max)
{
	static const uint8_t header[CONTENT_HEADER_FIXED] = {0, 60};
	uint8_t body[1000];
	uint8_t area[4000];
	struct writer w = writer_of(area, sizeof(area));
	struct bytes header_view = bytes_of(header, sizeof(header));

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 7);
	frame_write_content(&w, 3, header_view, bytes_of(body, size), frame_max);
	ck_assert(!w.bad);
	return check_content(bytes_of(area, (size_t)(w.p - area)), header_view,
			     bytes_of(body, size),
			     frame_max == 0 ? NO_LIMIT : frame_max - FRAME_OVERHEAD);
}

START_TEST(test_a_body_is_split_at_the_limit)
{
	ck_assert_uint_eq(content_frames(0, 100), 0);
	ck_assert_uint_eq(content_frames(1, 100), 1);
	ck_assert_uint_eq(content_frames(92, 100), 1);
	ck_assert_uint_eq(content_frames(93, 100), 2);
	ck_assert_uint_eq(content_frames(1000, 100), 11);
	ck_assert_uint_eq(content_frames(20, 9), 20);
	ck_assert_uint_eq(content_frames(1000, 0), 1);
}
END_TEST

START_TEST(test_content_without_room_is_bad)
{
	uint8_t area[30];
	struct writer w = writer_of(area, sizeof(area));

	frame_write_content(&w, 1, BYTES("12345678901234"), BYTES("body"), 0);
	ck_assert(w.bad);
}
END_TEST

TESTS("frame", test_a_frame_is_cut, test_every_part_of_a_frame_is_partial,
      test_a_frame_too_large_is_known_by_its_prefix, test_the_largest_size_is_partial,
      test_a_wrong_end_is_noticed, test_what_follows_is_left_alone, test_octets_of_the_constants,
      test_a_method_frame_is_whole, test_a_body_is_split_at_the_limit,
      test_content_without_room_is_bad)
