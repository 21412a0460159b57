/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec of definitions: one table says which tag stands for which member of struct definition, and
 * whether that is octets or a number; everything else walks it. Tags are for good: a member that is no
 * longer needed leaves its tag unused. Pure; any thread.
 */
#include "store/definition.h"

#include <errno.h>

#include "store/record.h"

#define HEADER_SIZE 4	    // kind, removed, count of fields
#define FIELD_HEADER_SIZE 8 // tag, zeros, size
#define NUMBER_SIZE 8
#define DEFINITION_ALIGNMENT 8

enum member_type {
	MEMBER_BYTES, // struct bytes
	MEMBER_NUMBER // uint64_t
};

struct member {
	uint8_t tag;
	enum member_type type;
	size_t offset; // in struct definition
};

#define OCTETS(tag, name)                                            \
	{                                                            \
		tag, MEMBER_BYTES, offsetof(struct definition, name) \
	}
#define NUMBER(tag, name)                                             \
	{                                                             \
		tag, MEMBER_NUMBER, offsetof(struct definition, name) \
	}

/* In the order in which they are written. */
static const struct member members[] = {
	OCTETS(1, vhost),	   OCTETS(2, name),	     OCTETS(3, user),
	OCTETS(4, exchange),	   OCTETS(5, type),	     OCTETS(6, source),
	OCTETS(7, destination),	   OCTETS(8, key),	     OCTETS(9, arguments),
	OCTETS(10, configure),	   OCTETS(11, write),	     OCTETS(12, read),
	OCTETS(13, password_hash), NUMBER(14, flags),	     NUMBER(15, queue_id),
	NUMBER(16, hash_kind),	   NUMBER(17, tags),	     NUMBER(18, max_connections),
	NUMBER(19, max_queues),	   NUMBER(20, max_channels), OCTETS(21, pattern),
	OCTETS(22, apply_to),	   NUMBER(23, priority),     NUMBER(24, part),
};

_Static_assert(countof(members) <= 32, "a set of members is a u32");

/* ---- members of a definition ---- */

static struct bytes
member_bytes(const struct definition *definition, const struct member *member)
{
	struct bytes view;

	memcpy(&view, (const char *)definition + member->offset, sizeof(view));
	return view;
}

static uint64_t
member_number(const struct definition *definition, const struct member *member)
{
	uint64_t number;

	memcpy(&number, (const char *)definition + member->offset, sizeof(number));
	return number;
}

/* Octets of its value; 0: it is not written. */
static size_t
value_size(const struct definition *definition, const struct member *member)
{
	if (member->type == MEMBER_BYTES)
		return member_bytes(definition, member).n;
	return member_number(definition, member) != 0 ? NUMBER_SIZE : 0;
}

/* ---- writing ---- */

static size_t
align(size_t size)
{
	return (size + DEFINITION_ALIGNMENT - 1) / DEFINITION_ALIGNMENT * DEFINITION_ALIGNMENT;
}

size_t
definition_size(const struct definition *definition)
{
	size_t size = HEADER_SIZE;

	for (size_t i = 0; i < countof(members); i++) {
		size_t value = value_size(definition, &members[i]);

		size += value != 0 ? FIELD_HEADER_SIZE + value : 0;
	}
	return align(size);
}

static uint8_t *
put_member(uint8_t *p, const struct definition *definition, const struct member *member,
	   size_t size)
{
	assert(size <= UINT32_MAX);
	p[0] = member->tag;
	p[1] = 0;
	le16_store(p + 2, 0);
	le32_store(p + 4, (uint32_t)size);
	p += FIELD_HEADER_SIZE;
	if (member->type == MEMBER_BYTES)
		memcpy(p, member_bytes(definition, member).p, size);
	else
		le64_store(p, member_number(definition, member));
	return p + size;
}

void
definition_encode(uint8_t *p, const struct definition *definition)
{
	uint8_t *end = p + definition_size(definition);
	uint8_t *at = p + HEADER_SIZE;
	uint16_t fields = 0;

	assert(definition->kind > 0);
	assert(definition->kind < DEFINITION_KIND_END);
	for (size_t i = 0; i < countof(members); i++) {
		size_t size = value_size(definition, &members[i]);

		if (size == 0)
			continue;
		at = put_member(at, definition, &members[i], size);
		fields++;
	}
	p[0] = (uint8_t)definition->kind;
	p[1] = definition->removed;
	le16_store(p + 2, fields);
	assert(end - at >= 0);
	assert(end - at < DEFINITION_ALIGNMENT);
	memset(at, 0, (size_t)(end - at));
}

/* ---- reading ---- */

static const struct member *
member_find(uint8_t tag)
{
	for (size_t i = 0; i < countof(members); i++) {
		if (members[i].tag == tag)
			return &members[i];
	}
	return NULL;
}

static int
set_member(struct definition *definition, const struct member *member, struct bytes value)
{
	char *place = (char *)definition + member->offset;
	uint64_t number;

	if (member->type == MEMBER_BYTES) {
		memcpy(place, &value, sizeof(value));
		return 0;
	}
	if (value.n != NUMBER_SIZE)
		return -EBADMSG;
	number = le64_load(value.p);
	memcpy(place, &number, sizeof(number));
	return 0;
}

/* Cuts the first field off *rest; seen: those that stood before it. */
static int
take_field(struct definition *definition, struct bytes *rest, uint32_t *seen)
{
	const struct member *member;
	struct bytes value;
	uint32_t bit;

	if (rest->n < FIELD_HEADER_SIZE)
		return -EBADMSG;
	if (rest->p[1] != 0 || le16_load(rest->p + 2) != 0)
		return -EBADMSG;
	value = bytes_of(rest->p + FIELD_HEADER_SIZE, le32_load(rest->p + 4));
	if (value.n > rest->n - FIELD_HEADER_SIZE)
		return -EBADMSG;
	member = member_find(rest->p[0]);
	*rest = bytes_of(value.p + value.n, rest->n - FIELD_HEADER_SIZE - value.n);
	if (member == NULL)
		return 0;
	bit = 1U << (member - members);
	if (*seen & bit)
		return -EBADMSG;
	*seen |= bit;
	return set_member(definition, member, value);
}

/* Less than one unit of alignment, all zeros. */
static bool
is_filling(struct bytes rest)
{
	if (rest.n >= DEFINITION_ALIGNMENT)
		return false;
	for (size_t i = 0; i < rest.n; i++) {
		if (rest.p[i] != 0)
			return false;
	}
	return true;
}

static bool
is_known(uint8_t kind)
{
	return kind <= DEFINITION_OPERATOR_POLICY || kind == DEFINITION_PART;
}

static int
check_header(struct bytes octets)
{
	if (octets.n < DEFINITION_ALIGNMENT || octets.n % DEFINITION_ALIGNMENT != 0)
		return -EBADMSG;
	if (octets.p[0] == 0 || octets.p[1] > 1)
		return -EBADMSG;
	return is_known(octets.p[0]) ? 0 : -ENOTSUP;
}

int
definition_decode(struct definition *definition, struct bytes octets)
{
	int status = check_header(octets);
	struct bytes rest;
	uint32_t seen = 0;

	if (status < 0)
		return status;
	*definition = (struct definition){
		.kind = (enum definition_kind)octets.p[0],
		.removed = octets.p[1] != 0,
	};
	rest = bytes_of(octets.p + HEADER_SIZE, octets.n - HEADER_SIZE);
	for (uint32_t n = le16_load(octets.p + 2); n > 0; n--) {
		status = take_field(definition, &rest, &seen);
		if (status < 0)
			return status;
	}
	return is_filling(rest) ? 0 : -EBADMSG;
}
