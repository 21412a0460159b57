/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users and permissions (amqp.md 11). Passwords are kept as RabbitMQ keeps them: four octets of salt
 * and a digest of salt and password, so that hashes can be taken over. Broker thread.
 */
#pragma once

#include "broker/model.h"
#include "util/digest.h"

struct user *user_find(const struct broker *broker, struct bytes name);
/* Makes a user that cannot log in by password yet; the name must be free. */
struct user *user_create(struct broker *broker, struct bytes name, unsigned tags);
/* Takes it out of the broker; connections that count it may go on using the struct. */
void user_delete(struct broker *broker, struct user *user);
struct user *user_ref(struct user *user);
void user_unref(struct user *user);
/* New salt, SHA-256. */
void user_set_password(struct user *user, struct bytes password);
/* A hash as RabbitMQ exports it (salt and digest, binary), or nothing: then no login by password. 0 or
 * -EINVAL when its size is wrong. */
int user_set_password_hash(struct user *user, enum digest_kind kind, struct bytes hash) MUST_CHECK;
/* In constant time for a given length. False for users without a password and for empty passwords. */
bool user_check_password(const struct user *user, struct bytes password);
/* "administrator, monitoring": commas or blanks between; -EINVAL when one is unknown. */
int user_tags_parse(struct bytes text, unsigned *tags) MUST_CHECK;

/* Sets the three patterns for a vhost; 0, or -EINVAL with a text in error when one is no regular
 * expression; then nothing changes. */
int user_set_permissions(struct broker *broker, struct user *user, struct bytes vhost,
			 const struct bytes patterns[PERMISSION_COUNT], char *error,
			 size_t room) MUST_CHECK;
void user_clear_permissions(struct broker *broker, struct user *user, struct bytes vhost);
/* Sets what the user may publish to (write) and bind from (read) the topic exchange of this name in
 * this vhost, whether or not it exists: patterns for routing keys, in which {username} and {vhost} stand
 * for these names. 0, or -EINVAL with a text in error; then nothing changes. */
int user_set_topic_permissions(struct broker *broker, struct user *user, struct bytes vhost,
			       struct bytes exchange, struct bytes write, struct bytes read,
			       char *error, size_t room) MUST_CHECK;
/* Removes the record of one exchange, or with an empty name those of all in the vhost. */
void user_clear_topic_permissions(struct broker *broker, struct user *user, struct bytes vhost,
				  struct bytes exchange);
/* Whether there is a record for the vhost at all (connection.open). */
bool user_may_open(const struct user *user, const struct vhost *vhost);

enum resource_kind {
	RESOURCE_EXCHANGE, // the default exchange is checked as 'amq.default'
	RESOURCE_QUEUE
};

/* NULL, or 403 `read access to queue 'q' in vhost 'v' refused for user 'u'` (amqp.md 4.4). */
const struct reply *user_check(const struct user *user, const struct vhost *vhost,
			       enum permission permission, enum resource_kind kind,
			       struct bytes name);
/* For a topic exchange: NULL when there is no record or its pattern for PERMISSION_WRITE (publish) or
 * PERMISSION_READ (bind) admits the key, else 403 `write access to topic 'k' in exchange 'x' in vhost
 * 'v' refused for user 'u'`. NULL for exchanges of other types. */
const struct reply *user_check_topic(const struct user *user, const struct exchange *exchange,
				     enum permission permission, struct bytes key);
