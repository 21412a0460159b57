/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of exchanges and queues that deduplicate, as octets: a record in the log, a row in a checkpoint. Whatever this
 * version does not know of them is skipped, as a program does that knows no keys. Any thread.
 */
#include <errno.h>

#include "internal.h"
#include "store/record.h"

/* What the record and the head of a row have in common, at p. */
static void
owner_encode(uint8_t *p, const struct key_record *key)
{
	assert(key->vhost.n <= UINT8_MAX);
	assert(key->name.n <= UINT8_MAX);
	p[0] = (uint8_t)key->owner;
	p[1] = (uint8_t)key->flags;
	p[2] = (uint8_t)key->vhost.n;
	p[3] = (uint8_t)key->name.n;
}

/* Names and filling, from at to end. */
static void
names_encode(uint8_t *at, const uint8_t *end, const struct key_record *key)
{
	if (key->vhost.n != 0)
		memcpy(at, key->vhost.p, key->vhost.n);
	at += key->vhost.n;
	if (key->name.n != 0)
		memcpy(at, key->name.p, key->name.n);
	at += key->name.n;
	memset(at, 0, (size_t)(end - at));
}

/* 0, or -EBADMSG when the names, from at on, do not end in filling right before end. */
static int
owner_decode(struct key_record *key, const uint8_t *p, const uint8_t *at, const uint8_t *end)
{
	size_t names = (size_t)p[2] + p[3];
	size_t left = (size_t)(end - at);

	if (names > left || left - names >= RECORD_ALIGNMENT)
		return -EBADMSG;
	*key = (struct key_record){
		.owner = (enum key_owner)p[0],
		.flags = p[1],
		.vhost = bytes_of(at, p[2]),
		.name = bytes_of(at + p[2], p[3]),
	};
	for (at += names; at < end; at++)
		if (*at != 0)
			return -EBADMSG;
	return 0;
}

static bool
is_known(const struct key_record *key)
{
	return (key->owner == KEY_OF_EXCHANGE || key->owner == KEY_OF_QUEUE) &&
	       (key->flags & ~(unsigned)(KEY_WHILE_QUEUED | KEY_FORGET)) == 0 &&
	       !((key->flags & KEY_WHILE_QUEUED) && key->owner != KEY_OF_QUEUE);
}

void
key_record_encode(uint8_t *p, uint64_t lsn, const struct key_record *key)
{
	uint32_t size = key_record_size(key);

	assert((key->flags & KEY_FORGET) == 0 || key->value == 0);
	assert(is_known(key));
	record_header_encode(p, size, lsn, RECORD_KEY, 0, 0);
	owner_encode(p + KEY_AT_OWNER, key);
	le32_store(p + KEY_AT_ZERO, 0);
	le64_store(p + KEY_AT_VALUE, key->value);
	memset(p + KEY_AT_DIGEST, 0, KEY_DIGEST_SIZE);
	if (key->digest != NULL)
		memcpy(p + KEY_AT_DIGEST, key->digest, KEY_DIGEST_SIZE);
	names_encode(p + KEY_AT_NAMES, p + size, key);
}

int
key_record_decode(struct key_record *key, const struct record *record)
{
	const uint8_t *p = record->p;
	int error;

	if (record->version != RECORD_VERSION)
		return -ENOTSUP;
	if (record->size < KEY_AT_NAMES)
		return -EBADMSG;
	error = owner_decode(key, p + KEY_AT_OWNER, p + KEY_AT_NAMES, p + record->size);
	if (error != 0)
		return error;
	key->value = le64_load(p + KEY_AT_VALUE);
	key->digest = p + KEY_AT_DIGEST;
	return is_known(key) ? 0 : -ENOTSUP;
}

void
keys_head_encode(uint8_t *p, const struct key_record *of, uint32_t count)
{
	size_t size = record_align(KEYS_HEAD_SIZE + of->vhost.n + of->name.n);

	assert((of->flags & KEY_FORGET) == 0);
	assert(is_known(of));
	owner_encode(p, of);
	le32_store(p + 4, count);
	names_encode(p + KEYS_HEAD_SIZE, p + size, of);
}

/* The keys of one exchange or queue at the front of the section, which is then behind them. */
static int
row_walk(struct bytes *section, int (*each)(void *context, const struct key_record *key),
	 void *context)
{
	const uint8_t *p = section->p;
	struct key_record key;
	uint64_t count;
	size_t head;
	int error;

	if (section->n < KEYS_HEAD_SIZE)
		return -EBADMSG;
	head = record_align(KEYS_HEAD_SIZE + (size_t)p[2] + p[3]);
	count = le32_load(p + 4);
	if (head > section->n || count > (section->n - head) / KEY_SAVED_SIZE)
		return -EBADMSG;
	error = owner_decode(&key, p, p + KEYS_HEAD_SIZE, p + head);
	p += head;
	*section = bytes_of(p + count * KEY_SAVED_SIZE, section->n - head - count * KEY_SAVED_SIZE);
	if (error != 0 || !is_known(&key) || (key.flags & KEY_FORGET))
		return error;
	for (; count > 0 && error == 0; count--, p += KEY_SAVED_SIZE) {
		key.value = le64_load(p);
		key.digest = p + 8;
		error = each(context, &key);
	}
	return error;
}

int
keys_section_walk(struct bytes section, int (*each)(void *context, const struct key_record *key),
		  void *context)
{
	int error = 0;

	while (error == 0 && section.n > 0)
		error = row_walk(&section, each, context);
	return error;
}
