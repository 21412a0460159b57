/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions as octets: each kind there and back, what a newer version may add, and that nothing
 * malformed is taken or read beyond its end (the octets lie at the end of a block of their own).
 */
#include "store/definition.h"

#include "util/owned.h"

#include "lib/runner.h"

#include <errno.h>

/* Each member is set by one kind at least. */
static const struct definition samples[] = {
	{.kind = DEFINITION_VHOST, .name = BYTES("/"), .max_connections = 1, .max_queues = 8},
	{.kind = DEFINITION_VHOST, .removed = true, .name = BYTES("/")},
	{.kind = DEFINITION_USER,
	 .name = BYTES("guest"),
	 .hash_kind = 1,
	 .password_hash = BYTES("salt and \0digest"),
	 .tags = 31,
	 .max_connections = UINT64_MAX,
	 .max_channels = 3},
	{.kind = DEFINITION_PERMISSION,
	 .user = BYTES("guest"),
	 .vhost = BYTES("/"),
	 .configure = BYTES("^c"),
	 .write = BYTES("^w"),
	 .read = BYTES("^r")},
	{.kind = DEFINITION_TOPIC_PERMISSION,
	 .user = BYTES("guest"),
	 .vhost = BYTES("/"),
	 .exchange = BYTES("amq.topic"),
	 .write = BYTES(".*")},
	{.kind = DEFINITION_EXCHANGE,
	 .vhost = BYTES("/"),
	 .name = BYTES("x"),
	 .type = BYTES("fanout"),
	 .flags = DEFINITION_AUTO_DELETE | DEFINITION_INTERNAL,
	 .arguments = BYTES("\1aV")},
	{.kind = DEFINITION_QUEUE,
	 .vhost = BYTES("/"),
	 .name = BYTES("q"),
	 .queue_id = (1ULL << 48) - 1,
	 .flags = DEFINITION_AUTO_DELETE,
	 .arguments = BYTES("\1aV\1bt\1")},
	{.kind = DEFINITION_BINDING,
	 .removed = true,
	 .vhost = BYTES("/"),
	 .source = BYTES("x"),
	 .destination = BYTES("y"),
	 .key = BYTES("k.#"),
	 .flags = DEFINITION_TO_EXCHANGE,
	 .arguments = BYTES("\7x-matchS\0\0\0\3any")},
	{.kind = DEFINITION_POLICY,
	 .vhost = BYTES("/"),
	 .name = BYTES("p"),
	 .pattern = BYTES("^a"),
	 .apply_to = BYTES("queues"),
	 .priority = 7,
	 .arguments = BYTES("\7expiresI\0\0\0\1")},
	{.kind = DEFINITION_OPERATOR_POLICY,
	 .vhost = BYTES("/"),
	 .name = BYTES("o"),
	 .apply_to = BYTES("all"),
	 .priority = UINT64_MAX,
	 .arguments = BYTES("\7expiresI\0\0\0\1")},
	{.kind = DEFINITION_PART,
	 .vhost = BYTES("/"),
	 .name = BYTES("x"),
	 .queue_id = 9,
	 .flags = DEFINITION_OF_EXCHANGE,
	 .part = 256},
	{.kind = DEFINITION_PART, .vhost = BYTES("/"), .name = BYTES("q"), .queue_id = 10},
};

static void
assert_same(const struct definition *a, const struct definition *b)
{
	ck_assert_int_eq(a->kind, b->kind);
	ck_assert(a->removed == b->removed);
	ck_assert(bytes_equal(a->vhost, b->vhost));
	ck_assert(bytes_equal(a->name, b->name));
	ck_assert(bytes_equal(a->user, b->user));
	ck_assert(bytes_equal(a->exchange, b->exchange));
	ck_assert(bytes_equal(a->type, b->type));
	ck_assert(bytes_equal(a->source, b->source));
	ck_assert(bytes_equal(a->destination, b->destination));
	ck_assert(bytes_equal(a->key, b->key));
	ck_assert(bytes_equal(a->arguments, b->arguments));
	ck_assert(bytes_equal(a->configure, b->configure));
	ck_assert(bytes_equal(a->write, b->write));
	ck_assert(bytes_equal(a->read, b->read));
	ck_assert(bytes_equal(a->password_hash, b->password_hash));
	ck_assert_uint_eq(a->flags, b->flags);
	ck_assert_uint_eq(a->queue_id, b->queue_id);
	ck_assert_uint_eq(a->hash_kind, b->hash_kind);
	ck_assert_uint_eq(a->tags, b->tags);
	ck_assert_uint_eq(a->max_connections, b->max_connections);
	ck_assert_uint_eq(a->max_queues, b->max_queues);
	ck_assert_uint_eq(a->max_channels, b->max_channels);
	ck_assert(bytes_equal(a->pattern, b->pattern));
	ck_assert(bytes_equal(a->apply_to, b->apply_to));
	ck_assert_uint_eq(a->priority, b->priority);
	ck_assert_uint_eq(a->part, b->part);
}

/* In a block that ends with the definition; the caller frees it. */
static struct bytes
encoded(const struct definition *definition)
{
	size_t size = definition_size(definition);
	uint8_t *p = xmalloc(size);

	memset(p, 0xAA, size);
	definition_encode(p, definition);
	return bytes_of(p, size);
}

/* Decodes a copy of exactly these octets. */
static int
decode(const void *p, size_t n)
{
	struct bytes copy = bytes_dup(bytes_of(p, n));
	struct definition definition;
	int status = definition_decode(&definition, copy);

	bytes_drop(&copy);
	return status;
}

START_TEST(test_each_kind_comes_back)
{
	for (size_t i = 0; i < countof(samples); i++) {
		struct bytes octets = encoded(&samples[i]);
		struct definition back;

		ck_assert_uint_eq(octets.n % 8, 0);
		memset(&back, 0xFF, sizeof(back));
		ck_assert_int_eq(definition_decode(&back, octets), 0);
		assert_same(&back, &samples[i]);
		bytes_drop(&octets);
	}
}
END_TEST

START_TEST(test_large_arguments_come_back)
{
	static uint8_t table[70000];
	struct definition large = {.kind = DEFINITION_QUEUE, .name = BYTES("q")};
	struct definition back;
	struct bytes octets;

	for (size_t i = 0; i < sizeof(table); i++)
		table[i] = (uint8_t)(i * 7);
	for (size_t n = sizeof(table) - 9; n <= sizeof(table); n++) {
		large.arguments = bytes_of(table, n);
		octets = encoded(&large);
		ck_assert_int_eq(definition_decode(&back, octets), 0);
		assert_same(&back, &large);
		bytes_drop(&octets);
	}
}
END_TEST

/* The format: a change of these octets is a change of the store's version. */
START_TEST(test_octets_are_these)
{
	static const uint8_t golden[] = {
		7,  1, 4, 0,			   // a binding is removed; four fields
		1,  0, 0, 0, 1, 0, 0, 0, '/',	   // vhost
		6,  0, 0, 0, 2, 0, 0, 0, 'x', 'y', // source
		7,  0, 0, 0, 1, 0, 0, 0, 'z',	   // destination
		14, 0, 0, 0, 8, 0, 0, 0,	   // flags
		4,  0, 0, 0, 0, 0, 0, 0,	   // their value
	};
	struct definition definition = {
		.kind = DEFINITION_BINDING,
		.removed = true,
		.vhost = BYTES("/"),
		.source = BYTES("xy"),
		.destination = BYTES("z"),
		.flags = DEFINITION_TO_EXCHANGE,
	};
	struct bytes octets = encoded(&definition);

	ck_assert_uint_eq(octets.n, sizeof(golden));
	ck_assert_mem_eq(octets.p, golden, sizeof(golden));
	bytes_drop(&octets);
}
END_TEST

/* All tags, in the order in which they are written: none may ever mean something else. */
START_TEST(test_tags_are_these)
{
	struct bytes b = BYTES("b");
	struct definition all = {
		DEFINITION_USER,
		false,
		b,
		b,
		b,
		b,
		b,
		b,
		b,
		b,
		b,
		b,
		b,
		b,
		b,
		1,
		1,
		1,
		1,
		1,
		1,
		1,
		b,
		b,
		1,
		1,
	};
	struct bytes octets = encoded(&all);
	size_t at = 4;

	for (uint8_t tag = 1; tag <= 24; tag++) {
		bool is_number = (tag >= 14 && tag <= 20) || tag >= 23;

		ck_assert_uint_eq(octets.p[at], tag);
		ck_assert_uint_eq(octets.p[at + 4], is_number ? 8 : 1);
		at += 8 + (is_number ? 8U : 1U);
	}
	ck_assert_uint_eq((at + 7) / 8 * 8, octets.n);
	bytes_drop(&octets);
}
END_TEST

START_TEST(test_unknown_tags_are_skipped)
{
	static const uint8_t octets[] = {
		1,   0, 3, 0,			       // a vhost; three fields
		200, 0, 0, 0, 3, 0, 0, 0, 1,   2,   3, // from the future
		2,   0, 0, 0, 2, 0, 0, 0, 'v', 'h',    // name
		201, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0,
		0,   0, 0, 0, // from the future, empty; filling
	};
	struct definition definition;

	ck_assert_int_eq(definition_decode(&definition, bytes_of(octets, sizeof(octets))), 0);
	ck_assert(bytes_equal(definition.name, BYTES("vh")));
	ck_assert_uint_eq(definition.vhost.n, 0);
}
END_TEST

START_TEST(test_unknown_kinds_are_told_apart)
{
	uint8_t octets[8] = {0};

	for (unsigned kind = 1; kind < 256; kind++) {
		octets[0] = (uint8_t)kind;
		ck_assert_int_eq(decode(octets, 8), kind <= 9 || kind == 11 ? 0 : -ENOTSUP);
	}
	octets[0] = 0;
	ck_assert_int_eq(decode(octets, 8), -EBADMSG);
}
END_TEST

START_TEST(test_truncated_is_refused)
{
	for (size_t i = 0; i < countof(samples); i++) {
		struct bytes octets = encoded(&samples[i]);

		for (size_t n = 0; n < octets.n; n++)
			ck_assert_int_eq(decode(octets.p, n), -EBADMSG);
		bytes_drop(&octets);
	}
}
END_TEST

static void
assert_refused_with(const struct bytes *octets, size_t at, uint8_t value)
{
	uint8_t copy[256];

	ck_assert_uint_le(octets->n, sizeof(copy));
	memcpy(copy, octets->p, octets->n);
	ck_assert_uint_ne(copy[at], value);
	copy[at] = value;
	ck_assert_int_eq(decode(copy, octets->n), -EBADMSG);
}

START_TEST(test_malformed_is_refused)
{
	struct definition definition = {
		.kind = DEFINITION_QUEUE, .name = BYTES("q"), .queue_id = 1};
	struct bytes octets = encoded(&definition);

	/* 4 header, 8 + 1 name, 8 + 8 queue_id, 3 filling */
	ck_assert_uint_eq(octets.n, 32);
	assert_refused_with(&octets, 1, 2);    // removed is a truth
	assert_refused_with(&octets, 2, 1);    // a field too few
	assert_refused_with(&octets, 2, 3);    // a field too many
	assert_refused_with(&octets, 3, 1);    // very many fields
	assert_refused_with(&octets, 5, 1);    // zeros in a field's header
	assert_refused_with(&octets, 6, 1);    // the same
	assert_refused_with(&octets, 7, 1);    // the same
	assert_refused_with(&octets, 8, 200);  // a value beyond the end
	assert_refused_with(&octets, 11, 255); // far beyond the end
	assert_refused_with(&octets, 13, 2);   // the name twice
	assert_refused_with(&octets, 17, 7);   // a number of 7 octets
	assert_refused_with(&octets, 31, 1);   // filling is zeros
	bytes_drop(&octets);
}
END_TEST

START_TEST(test_too_much_filling_is_refused)
{
	uint8_t octets[16] = {DEFINITION_VHOST};

	ck_assert_int_eq(decode(octets, 8), 0);
	ck_assert_int_eq(decode(octets, 16), -EBADMSG);
}
END_TEST

/* Whatever is decoded stands inside: the sanitizers watch. A fixed seed, so a failure repeats. */
START_TEST(test_garbled_reads_nothing_outside)
{
	uint64_t random = 1;

	for (unsigned round = 0; round < 20000; round++) {
		struct bytes octets = encoded(&samples[round % countof(samples)]);
		struct buf garbled;
		struct definition back;
		int status;

		buf_init(&garbled, 0);
		buf_add_bytes(&garbled, octets);
		for (unsigned i = 0; i <= round % 4; i++) {
			random = random * 6364136223846793005U + 1442695040888963407U;
			garbled.p[(random >> 33) % garbled.n] = (uint8_t)(random >> 56);
		}
		bytes_drop(&octets);
		octets = bytes_dup(buf_bytes(&garbled));
		status = definition_decode(&back, octets);
		ck_assert(status == 0 || status == -EBADMSG || status == -ENOTSUP);
		if (status == 0) {
			struct bytes again = encoded(&back);

			ck_assert_uint_le(again.n, octets.n);
			bytes_drop(&again);
		}
		bytes_drop(&octets);
		buf_fini(&garbled);
	}
}
END_TEST

START_TEST(test_limits_are_kept_plus_one)
{
	ck_assert_uint_eq(definition_limit(-1), 0);
	ck_assert_uint_eq(definition_limit(-7), 0);
	ck_assert_uint_eq(definition_limit(0), 1);
	ck_assert_int_eq(definition_limit_of(0), -1);
	ck_assert_int_eq(definition_limit_of(1), 0);
	ck_assert_int_eq(definition_limit_of(definition_limit(INT64_MAX)), INT64_MAX);
}
END_TEST

START_TEST(test_priorities_may_be_negative)
{
	ck_assert_uint_eq(definition_priority(0), 0);
	ck_assert_uint_eq(definition_priority(-1), UINT64_MAX);
	ck_assert_int_eq(definition_priority_of(definition_priority(INT64_MIN)), INT64_MIN);
	ck_assert_int_eq(definition_priority_of(7), 7);
}
END_TEST

TESTS("definition", test_each_kind_comes_back, test_large_arguments_come_back,
      test_octets_are_these, test_tags_are_these, test_unknown_tags_are_skipped,
      test_unknown_kinds_are_told_apart, test_truncated_is_refused, test_malformed_is_refused,
      test_too_much_filling_is_refused, test_garbled_reads_nothing_outside,
      test_limits_are_kept_plus_one, test_priorities_may_be_negative)
