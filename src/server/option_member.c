/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options whose keys name a member of a list, which is made with the first key that names it: users
 * with their permissions and limits, and sets of limits for virtual hosts.
 */
#include "internal.h"

#include <errno.h>

#include "broker/limits.h"
#include "broker/user.h"
#include "util/mem.h"

static void
replace(char **text, const char *value)
{
	xfree(*text);
	*text = xstrdup(value);
}

static void *
part_of(const struct target *target, void *member)
{
	return (char *)member + target->row->part;
}

/* ---- users ---- */

static struct config_user *
user_named(struct config_users *users, struct bytes name)
{
	for (size_t i = 0; i < users->count; i++)
		if (bytes_equal(bytes_str(users->items[i].name), name))
			return &users->items[i];
	users->items = xrealloc(users->items, (users->count + 1) * sizeof(*users->items));
	users->items[users->count] = (struct config_user){
		.name = xstrndup(name),
		.max_connections = LIMIT_NONE,
		.max_channels = LIMIT_NONE,
	};
	return &users->items[users->count++];
}

/* What looks like a topic permission and is none is no user with an odd name. */
static int
check_name(const struct target *target)
{
	static const char word[] = ".topic_permissions";

	for (size_t i = 0; i < target->star.n; i++)
		if (bytes_has_prefix(bytes_of(target->star.p + i, target->star.n - i),
				     bytes_str(word)))
			return refuse_value(target, "write it like default_users.USER"
						    ".topic_permissions.EXCHANGE.write or .read");
	return 0;
}

int
set_user(const struct target *target)
{
	size_t part = target->row->part;
	struct config_user *user;

	if (check_name(target) < 0)
		return -EINVAL;
	user = user_named(target->field, target->star);
	if (part == offsetof(struct config_user, tags)) {
		if (user_tags_parse(bytes_str(target->value), &user->tags) < 0)
			return refuse_value(target, "\"%s\" are no tags", target->value);
		return 0;
	}
	if (part != offsetof(struct config_user, password) && check_pattern(target) < 0)
		return -EINVAL;
	replace(part_of(target, user), target->value);
	return 0;
}

int
set_user_limit(const struct target *target)
{
	struct config_user *user = user_named(target->field, target->star);

	return parse_limit(target, part_of(target, user));
}

int
set_user_none(const struct target *target)
{
	user_named(target->field, target->star)->stranger = true;
	return check_exact(target, "none", "none");
}

static struct config_topic *
topic_of(struct config_user *user, struct bytes exchange)
{
	for (size_t i = 0; i < user->topic_count; i++)
		if (bytes_equal(bytes_str(user->topics[i].exchange), exchange))
			return &user->topics[i];
	user->topics = xrealloc(user->topics, (user->topic_count + 1) * sizeof(*user->topics));
	user->topics[user->topic_count] = (struct config_topic){.exchange = xstrndup(exchange)};
	return &user->topics[user->topic_count++];
}

int
set_user_topic(const struct target *target)
{
	struct bytes name;
	struct bytes exchange;
	bool split = option_split_star(target->row->key, target->star, &name, &exchange);
	struct config_user *user;

	assert(split);
	if (check_pattern(target) < 0)
		return -EINVAL;
	user = user_named(target->field, name);
	replace(part_of(target, topic_of(user, exchange)), target->value);
	return 0;
}

void
clear_users(struct config_users *users)
{
	for (size_t i = 0; i < users->count; i++) {
		struct config_user *user = &users->items[i];

		xfree(user->name);
		xfree(user->password);
		for (size_t j = 0; j < PERMISSION_COUNT; j++)
			xfree(user->patterns[j]);
		for (size_t j = 0; j < user->topic_count; j++) {
			xfree(user->topics[j].exchange);
			xfree(user->topics[j].write);
			xfree(user->topics[j].read);
		}
		xfree(user->topics);
	}
	xfree(users->items);
	*users = (struct config_users){.items = NULL};
}

/* ---- sets of limits ---- */

/* Numbers by their value, so that 2 comes before 10; other names by their octets. */
static int
compare_names(struct bytes a, struct bytes b)
{
	bool digits = true;

	for (size_t i = 0; i < a.n; i++)
		digits = digits && a.p[i] >= '0' && a.p[i] <= '9';
	for (size_t i = 0; i < b.n; i++)
		digits = digits && b.p[i] >= '0' && b.p[i] <= '9';
	if (digits && a.n != b.n)
		return a.n < b.n ? -1 : 1;
	return bytes_compare(a, b);
}

/* The set of this name, made in its place when it is new. */
static struct config_vhost_limits *
limits_named(struct config_limits *limits, struct bytes name)
{
	size_t at = 0;
	int order = 1;

	while (at < limits->count) {
		order = compare_names(name, bytes_str(limits->items[at].name));
		if (order <= 0)
			break;
		at++;
	}
	if (at < limits->count && order == 0)
		return &limits->items[at];
	limits->items = xrealloc(limits->items, (limits->count + 1) * sizeof(*limits->items));
	memmove(&limits->items[at + 1], &limits->items[at],
		(limits->count - at) * sizeof(*limits->items));
	limits->items[at] = (struct config_vhost_limits){
		.name = xstrndup(name),
		.pattern = xstrdup(".*"),
		.max_connections = LIMIT_NONE,
		.max_queues = LIMIT_NONE,
	};
	limits->count++;
	return &limits->items[at];
}

int
set_vhost_pattern(const struct target *target)
{
	if (check_pattern(target) < 0)
		return -EINVAL;
	replace(part_of(target, limits_named(target->field, target->star)), target->value);
	return 0;
}

int
set_vhost_limit(const struct target *target)
{
	struct config_vhost_limits *limits = limits_named(target->field, target->star);

	return parse_limit(target, part_of(target, limits));
}

void
clear_vhost_limits(struct config_limits *limits)
{
	for (size_t i = 0; i < limits->count; i++) {
		xfree(limits->items[i].name);
		xfree(limits->items[i].pattern);
	}
	xfree(limits->items);
	*limits = (struct config_limits){.items = NULL};
}
