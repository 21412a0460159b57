/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topic permissions (amqp.md 11.2): a user's records for single topic exchanges, each with a pattern for
 * the keys that may be published and one for the keys that may be bound. Without a record every key is
 * allowed. User and vhost of a record are known when it is set, so {username} and {vhost} are replaced
 * then, escaped; a check only matches.
 *
 * {client_id} is a variable of MQTT. A client of AMQP has none, and the word is left as it stands: a
 * pattern that asks for it admits nothing that such a client would send.
 */
#include "broker/durable.h"
#include "broker/exchange.h"
#include "broker/user.h"

#include <errno.h>
#include <stdio.h>

#include "internal.h"
#include "util/buf.h"
#include "util/owned.h"

#define NAME_SIZE_MAX UINT8_MAX
#define KEY_ROOM (1 + 2 * NAME_SIZE_MAX)

/* Size of the vhost's name, that name, the exchange's. Both names are of at most NAME_SIZE_MAX octets. */
static struct bytes
record_key(struct bytes vhost, struct bytes exchange, uint8_t room[KEY_ROOM])
{
	assert(vhost.n <= NAME_SIZE_MAX);
	assert(exchange.n <= NAME_SIZE_MAX);
	room[0] = (uint8_t)vhost.n;
	if (vhost.n != 0)
		memcpy(room + 1, vhost.p, vhost.n);
	if (exchange.n != 0)
		memcpy(room + 1 + vhost.n, exchange.p, exchange.n);
	return bytes_of(room, 1 + vhost.n + exchange.n);
}

static struct topic_permission *
record_find(const struct user *user, struct bytes vhost, struct bytes exchange)
{
	uint8_t room[KEY_ROOM];
	struct map_node *node;

	if (user->topic_permissions.count == 0)
		return NULL;
	node = map_find(&user->topic_permissions, record_key(vhost, exchange, room));
	return node != NULL ? container_of(node, struct topic_permission, node) : NULL;
}

static void
record_free(struct user *user, struct topic_permission *record)
{
	map_remove(&user->topic_permissions, &record->node);
	pattern_fini(&record->write);
	pattern_fini(&record->read);
	bytes_drop(&record->key);
	xfree(record);
}

void
topic_permissions_fini(struct user *user)
{
	struct topic_permission *record;

	map_for_each (&user->topic_permissions, record, struct topic_permission, node)
		record_free(user, record);
}

/* ---- patterns ---- */

static bool
is_word(uint8_t octet)
{
	return (octet >= 'a' && octet <= 'z') || (octet >= 'A' && octet <= 'Z') ||
	       (octet >= '0' && octet <= '9') || octet == '_' || octet >= 0x80;
}

/* A name as it stands, whatever its characters mean in a pattern. */
static void
add_escaped(struct buf *out, struct bytes name)
{
	for (size_t i = 0; i < name.n; i++) {
		if (!is_word(name.p[i]))
			buf_add_byte(out, '\\');
		buf_add_byte(out, name.p[i]);
	}
}

static void
expand(struct buf *out, struct bytes text, struct bytes user, struct bytes vhost)
{
	while (text.n > 0) {
		size_t n = 1;

		if (bytes_has_prefix(text, BYTES("{username}"))) {
			n = BYTES("{username}").n;
			add_escaped(out, user);
		} else if (bytes_has_prefix(text, BYTES("{vhost}"))) {
			n = BYTES("{vhost}").n;
			add_escaped(out, vhost);
		} else {
			buf_add_byte(out, text.p[0]);
		}
		text = bytes_of(text.p + n, text.n - n);
	}
}

static int
compile_expanded(struct pattern *pattern, const struct user *user, struct bytes vhost,
		 struct bytes text, char *error, size_t room)
{
	struct buf expanded;
	int status;

	*pattern = (struct pattern){.text = {NULL, 0}};
	buf_init(&expanded, 0);
	expand(&expanded, text, user->name, vhost);
	status = pattern_compile(&pattern->regex, buf_bytes(&expanded), error, room);
	buf_fini(&expanded);
	if (status == 0)
		pattern->text = bytes_dup(text);
	return status;
}

/* ---- records ---- */

static void
record_remove(struct user *user, struct topic_permission *record)
{
	durable_topic_permission(user, record, DURABLE_REMOVED);
	record_free(user, record);
}

int
user_set_topic_permissions(struct broker *broker, struct user *user, struct bytes vhost,
			   struct bytes exchange, struct bytes write, struct bytes read,
			   char *error, size_t room)
{
	struct topic_permission *record;
	struct pattern patterns[2];
	uint8_t key[KEY_ROOM];

	assert_not_dispatching(broker);
	assert(!user->deleted);
	assert(exchange.n != 0);
	if (vhost.n > NAME_SIZE_MAX || exchange.n > NAME_SIZE_MAX) {
		snprintf(error, room, "a name is longer than %d octets", NAME_SIZE_MAX);
		return -EINVAL;
	}
	if (compile_expanded(&patterns[0], user, vhost, write, error, room) < 0)
		return -EINVAL;
	if (compile_expanded(&patterns[1], user, vhost, read, error, room) < 0) {
		pattern_fini(&patterns[0]);
		return -EINVAL;
	}
	record = record_find(user, vhost, exchange);
	if (record != NULL)
		record_free(user, record);
	record = xmalloc(sizeof(*record));
	*record = (struct topic_permission){
		.key = bytes_dup(record_key(vhost, exchange, key)),
		.write = patterns[0],
		.read = patterns[1],
	};
	record->vhost = bytes_of(record->key.p + 1, vhost.n);
	record->exchange = bytes_of(record->vhost.p + vhost.n, exchange.n);
	map_insert(&user->topic_permissions, &record->node, record->key);
	broker->permission_version++;
	durable_topic_permission(user, record, DURABLE_PUT);
	return 0;
}

void
user_clear_topic_permissions(struct broker *broker, struct user *user, struct bytes vhost,
			     struct bytes exchange)
{
	struct topic_permission *record;
	size_t before = user->topic_permissions.count;

	assert_not_dispatching(broker);
	if (exchange.n != 0) {
		record = record_find(user, vhost, exchange);
		if (record != NULL)
			record_remove(user, record);
	} else {
		map_for_each (&user->topic_permissions, record, struct topic_permission, node)
			if (bytes_equal(record->vhost, vhost))
				record_remove(user, record);
	}
	if (user->topic_permissions.count != before)
		broker->permission_version++;
}

const struct reply *
user_check_topic(const struct user *user, const struct exchange *exchange,
		 enum permission permission, struct bytes key)
{
	const struct topic_permission *record;

	assert(permission == PERMISSION_WRITE || permission == PERMISSION_READ);
	if (user->topic_permissions.count == 0 || !exchange_is_topic(exchange))
		return NULL;
	record = record_find(user, exchange->vhost->name, exchange->name);
	if (record == NULL ||
	    pattern_admits(permission == PERMISSION_WRITE ? &record->write : &record->read, key))
		return NULL;
	return refuse(ACCESS_REFUSED,
		      "%s access to topic '%.*s' in exchange '%.*s' in vhost '%.*s' refused for "
		      "user '%.*s'",
		      permission_verb(permission), BYTES_ARGS(key), BYTES_ARGS(exchange->name),
		      BYTES_ARGS(exchange->vhost->name), BYTES_ARGS(user->name));
}
