/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users, their passwords and their permissions (amqp.md 11.1, management.md 1.11). A user has one
 * record for each vhost that it may open: three patterns, compiled when they are set, so that a bad
 * one is refused where it is given and no check compiles. A deleted user stays for the connections
 * that count it, without permissions. Every change that can turn a verdict moves
 * broker->permission_version, which invalidates the verdicts that channels keep.
 */
#include "broker/user.h"

#include <errno.h>

#include "broker/durable.h"
#include "broker/limits.h"
#include "internal.h"
#include "util/owned.h"

#define SALT_SIZE 4

static const struct {
	const char *name;
	enum user_tag tag;
} tag_names[] = {
	{"administrator", USER_ADMINISTRATOR}, {"monitoring", USER_MONITORING},
	{"policymaker", USER_POLICYMAKER},     {"management", USER_MANAGEMENT},
	{"impersonator", USER_IMPERSONATOR},
};

/* ---- users ---- */

struct user *
user_find(const struct broker *broker, struct bytes name)
{
	struct map_node *node = map_find(&broker->users, name);

	return node != NULL ? container_of(node, struct user, node) : NULL;
}

struct user *
user_create(struct broker *broker, struct bytes name, unsigned tags)
{
	struct user *user = xcalloc(1, sizeof(*user));

	assert_not_dispatching(broker);
	assert(user_find(broker, name) == NULL);
	user->name = bytes_dup(name);
	user->broker = broker;
	user->hash_kind = DIGEST_SHA256;
	user->tags = tags;
	user->refs = 1;
	user->max_connections = LIMIT_NONE;
	user->max_channels = LIMIT_NONE;
	map_init(&user->permissions);
	map_init(&user->topic_permissions);
	map_insert(&broker->users, &user->node, user->name);
	broker->permission_version++;
	durable_user(user, DURABLE_PUT);
	return user;
}

static void
permission_free(struct user *user, struct user_permission *permission)
{
	map_remove(&user->permissions, &permission->node);
	for (size_t i = 0; i < PERMISSION_COUNT; i++)
		pattern_fini(&permission->patterns[i]);
	bytes_drop(&permission->vhost);
	xfree(permission);
}

void
user_delete(struct broker *broker, struct user *user)
{
	struct user_permission *permission;

	assert_not_dispatching(broker);
	assert(!user->deleted);
	assert(user->broker == broker);
	durable_user(user, DURABLE_REMOVED);
	map_remove(&broker->users, &user->node);
	user->deleted = true;
	map_for_each (&user->permissions, permission, struct user_permission, node)
		permission_free(user, permission);
	topic_permissions_fini(user);
	broker->permission_version++;
	user_unref(user);
}

struct user *
user_ref(struct user *user)
{
	assert(user->refs > 0);
	user->refs++;
	return user;
}

void
user_unref(struct user *user)
{
	assert(user->refs > 0);
	if (--user->refs > 0)
		return;
	assert(user->deleted);
	assert(user->connection_count == 0);
	assert(user->channel_count == 0);
	map_fini(&user->permissions);
	map_fini(&user->topic_permissions);
	bytes_drop(&user->name);
	bytes_drop(&user->password_hash);
	xfree(user);
}

int
user_tags_parse(struct bytes text, unsigned *tags)
{
	size_t at = 0;

	*tags = 0;
	while (at < text.n) {
		size_t n = 0;
		size_t i = 0;

		if (text.p[at] == ',' || text.p[at] == ' ') {
			at++;
			continue;
		}
		while (at + n < text.n && text.p[at + n] != ',' && text.p[at + n] != ' ')
			n++;
		while (i < countof(tag_names) &&
		       !bytes_equal(bytes_of(text.p + at, n), bytes_str(tag_names[i].name)))
			i++;
		if (i == countof(tag_names))
			return -EINVAL;
		*tags |= tag_names[i].tag;
		at += n;
	}
	return 0;
}

/* ---- passwords ---- */

void
user_set_password(struct user *user, struct bytes password)
{
	uint8_t hash[SALT_SIZE + DIGEST_MAX];

	random_bytes(hash, SALT_SIZE);
	digest(DIGEST_SHA256, bytes_of(hash, SALT_SIZE), password, hash + SALT_SIZE);
	bytes_drop(&user->password_hash);
	user->hash_kind = DIGEST_SHA256;
	user->password_hash = bytes_dup(bytes_of(hash, SALT_SIZE + digest_size(DIGEST_SHA256)));
	durable_user(user, DURABLE_PUT);
}

int
user_set_password_hash(struct user *user, enum digest_kind kind, struct bytes hash)
{
	if (hash.n != 0 && hash.n != SALT_SIZE + digest_size(kind))
		return -EINVAL;
	bytes_drop(&user->password_hash);
	user->hash_kind = (uint8_t)kind;
	if (hash.n != 0)
		user->password_hash = bytes_dup(hash);
	durable_user(user, DURABLE_PUT);
	return 0;
}

bool
user_check_password(const struct user *user, struct bytes password)
{
	struct bytes hash = user->password_hash;
	enum digest_kind kind = (enum digest_kind)user->hash_kind;
	uint8_t wanted[DIGEST_MAX];

	if (hash.n == 0 || password.n == 0)
		return false;
	assert(hash.n == SALT_SIZE + digest_size(kind));
	digest(kind, bytes_of(hash.p, SALT_SIZE), password, wanted);
	return bytes_equal_constant_time(bytes_of(wanted, digest_size(kind)),
					 bytes_of(hash.p + SALT_SIZE, hash.n - SALT_SIZE));
}

/* ---- permissions ---- */

static struct user_permission *
permission_find(const struct user *user, struct bytes vhost)
{
	struct map_node *node = map_find(&user->permissions, vhost);

	return node != NULL ? container_of(node, struct user_permission, node) : NULL;
}

int
pattern_compile(struct regex **regex, struct bytes text, char *error, size_t room)
{
	*regex = text.n == 0 ? NULL : regex_new(text, error, room);
	return text.n == 0 || *regex != NULL ? 0 : -EINVAL;
}

void
pattern_fini(struct pattern *pattern)
{
	bytes_drop(&pattern->text);
	regex_free(&pattern->regex);
}

bool
pattern_admits(const struct pattern *pattern, struct bytes name)
{
	return pattern->regex != NULL ? regex_matches(pattern->regex, name) : name.n == 0;
}

/* All patterns or none: what was compiled before the bad one goes again. */
static int
compile_patterns(const struct bytes patterns[PERMISSION_COUNT],
		 struct regex *compiled[PERMISSION_COUNT], char *error, size_t room)
{
	for (size_t i = 0; i < PERMISSION_COUNT; i++) {
		if (pattern_compile(&compiled[i], patterns[i], error, room) == 0)
			continue;
		while (i-- > 0)
			regex_free(&compiled[i]);
		return -EINVAL;
	}
	return 0;
}

int
user_set_permissions(struct broker *broker, struct user *user, struct bytes vhost,
		     const struct bytes patterns[PERMISSION_COUNT], char *error, size_t room)
{
	struct regex *compiled[PERMISSION_COUNT];
	struct user_permission *permission;

	assert_not_dispatching(broker);
	assert(!user->deleted);
	if (compile_patterns(patterns, compiled, error, room) < 0)
		return -EINVAL;
	permission = permission_find(user, vhost);
	if (permission != NULL)
		permission_free(user, permission);
	permission = xcalloc(1, sizeof(*permission));
	permission->vhost = bytes_dup(vhost);
	for (size_t i = 0; i < PERMISSION_COUNT; i++)
		permission->patterns[i] = (struct pattern){
			.text = bytes_dup(patterns[i]),
			.regex = compiled[i],
		};
	map_insert(&user->permissions, &permission->node, permission->vhost);
	broker->permission_version++;
	durable_permission(user, permission, DURABLE_PUT);
	return 0;
}

void
user_clear_permissions(struct broker *broker, struct user *user, struct bytes vhost)
{
	struct user_permission *permission = permission_find(user, vhost);

	assert_not_dispatching(broker);
	if (permission == NULL)
		return;
	durable_permission(user, permission, DURABLE_REMOVED);
	permission_free(user, permission);
	broker->permission_version++;
}

bool
user_may_open(const struct user *user, const struct vhost *vhost)
{
	return permission_find(user, vhost->name) != NULL;
}

const char *
permission_verb(enum permission permission)
{
	static const char *const verbs[PERMISSION_COUNT] = {
		[PERMISSION_CONFIGURE] = "configure",
		[PERMISSION_WRITE] = "write",
		[PERMISSION_READ] = "read",
	};

	assert(permission < PERMISSION_COUNT);
	return verbs[permission];
}

const struct reply *
user_check(const struct user *user, const struct vhost *vhost, enum permission permission,
	   enum resource_kind kind, struct bytes name)
{
	const struct user_permission *record = permission_find(user, vhost->name);

	assert(permission < PERMISSION_COUNT);
	if (kind == RESOURCE_EXCHANGE && name.n == 0)
		name = BYTES("amq.default");
	if (record != NULL && pattern_admits(&record->patterns[permission], name))
		return NULL;
	return refuse(ACCESS_REFUSED,
		      "%s access to %s '%.*s' in vhost '%.*s' refused for user '%.*s'",
		      permission_verb(permission), kind == RESOURCE_EXCHANGE ? "exchange" : "queue",
		      BYTES_ARGS(name), BYTES_ARGS(vhost->name), BYTES_ARGS(user->name));
}
