/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topic permissions: which record counts for which check, what the variables in a pattern become, and
 * that a record goes with its user and its vhost.
 */
#include "broker/user.h"

#include "unit/model_fixture.h"

#include <errno.h>

static struct user *user;
static struct exchange *topic;

static void
set_up(void)
{
	model_set_up();
	user = user_create(broker, BYTES("a.b"), 0);
	topic = make_exchange("t", "topic");
}

static void
permit(const char *exchange, const char *write, const char *read)
{
	char error[128] = "";

	ck_assert_msg(user_set_topic_permissions(broker, user, vhost->name, bytes_str(exchange),
						 bytes_str(write), bytes_str(read), error,
						 sizeof(error)) == 0,
		      "%s", error);
}

static bool
may(enum permission permission, const char *key)
{
	return user_check_topic(user, topic, permission, bytes_str(key)) == NULL;
}

START_TEST(test_topic_without_a_record_everything_is_allowed)
{
	ck_assert(may(PERMISSION_WRITE, "k"));
	ck_assert(may(PERMISSION_READ, "#"));
	permit("another", "^$", "^$");
	ck_assert(may(PERMISSION_WRITE, "k"));
}
END_TEST

START_TEST(test_topic_record_has_a_pattern_for_each_direction)
{
	const struct reply *reply;

	permit("t", "^w\\.", "r");
	ck_assert(may(PERMISSION_WRITE, "w.x"));
	ck_assert(!may(PERMISSION_WRITE, "r"));
	ck_assert(may(PERMISSION_READ, "xrx"));
	ck_assert(!may(PERMISSION_READ, "w.x"));
	reply = user_check_topic(user, topic, PERMISSION_WRITE, BYTES("k"));
	ck_assert_int_eq(reply->code, ACCESS_REFUSED);
	ck_assert_int_eq(reply->closes, REPLY_CLOSES_CHANNEL);
	ck_assert_str_eq(reply->text,
			 "ACCESS_REFUSED - write access to topic 'k' in exchange 't' in "
			 "vhost 'v' refused for user 'a.b'");
	reply = user_check_topic(user, topic, PERMISSION_READ, BYTES("k"));
	ck_assert_str_eq(reply->text,
			 "ACCESS_REFUSED - read access to topic 'k' in exchange 't' in "
			 "vhost 'v' refused for user 'a.b'");
}
END_TEST

START_TEST(test_topic_record_is_of_one_exchange_of_one_vhost)
{
	struct vhost *other = vhost_create(broker, BYTES("v2"));
	struct exchange_spec spec = exchange_spec_of("t", "topic");
	const struct exchange *there = exchange_create(other, &spec);
	const struct exchange *direct = make_exchange("d", "direct");

	permit("t", "^$", "^$");
	permit("d", "^$", "^$");
	ck_assert(!may(PERMISSION_WRITE, "k"));
	ck_assert_ptr_null(user_check_topic(user, there, PERMISSION_WRITE, BYTES("k")));
	ck_assert_ptr_null(user_check_topic(user, direct, PERMISSION_WRITE, BYTES("k")));
}
END_TEST

START_TEST(test_topic_empty_pattern_is_the_empty_key)
{
	permit("t", "", "{client_id}");
	ck_assert(may(PERMISSION_WRITE, ""));
	ck_assert(!may(PERMISSION_WRITE, "k"));
	/* AMQP has no client id */
	ck_assert(!may(PERMISSION_READ, ""));
	ck_assert(!may(PERMISSION_READ, "k"));
}
END_TEST

START_TEST(test_topic_variables_are_names_as_they_are)
{
	permit("t", "^{username}\\.{vhost}\\.{username}$", "^{user}|{username$");
	ck_assert(may(PERMISSION_WRITE, "a.b.v.a.b"));
	ck_assert(!may(PERMISSION_WRITE, "axb.v.axb"));
	ck_assert(!may(PERMISSION_WRITE, "a.b.v.a.bx"));
	ck_assert(may(PERMISSION_READ, "{user}"));
	ck_assert(may(PERMISSION_READ, "x{username"));
	ck_assert(!may(PERMISSION_READ, "a.b"));
}
END_TEST

START_TEST(test_topic_names_cannot_break_out_of_a_pattern)
{
	static const char *const names[] = {"(", ".*", "\\E.*", "a|", "[^x]+", "\xc3\xa4?", "a\nb"};
	struct user *guest = user;

	for (size_t i = 0; i < countof(names); i++) {
		user = user_create(broker, bytes_str(names[i]), 0);
		permit("t", "^{username}$", "^$");
		ck_assert(may(PERMISSION_WRITE, names[i]));
		ck_assert(!may(PERMISSION_WRITE, "other"));
		ck_assert(!may(PERMISSION_WRITE, ""));
		user_delete(broker, user);
	}
	user = guest;
}
END_TEST

START_TEST(test_topic_bad_pattern_changes_nothing)
{
	char error[128] = "";
	uint64_t version;

	permit("t", "w", "r");
	version = broker->permission_version;
	ck_assert_int_eq(user_set_topic_permissions(broker, user, BYTES("v"), BYTES("t"),
						    BYTES("x"), BYTES("("), error, sizeof(error)),
			 -EINVAL);
	ck_assert_str_ne(error, "");
	ck_assert_uint_eq(broker->permission_version, version);
	ck_assert(may(PERMISSION_WRITE, "w"));
	ck_assert(!may(PERMISSION_WRITE, "x"));
}
END_TEST

START_TEST(test_topic_names_have_a_limit)
{
	uint8_t name[256] = {0};
	char error[128] = "";

	ck_assert_int_eq(user_set_topic_permissions(broker, user, BYTES("v"), bytes_of(name, 256),
						    BYTES(""), BYTES(""), error, sizeof(error)),
			 -EINVAL);
	ck_assert_str_eq(error, "a name is longer than 255 octets");
	ck_assert_int_eq(user_set_topic_permissions(broker, user, bytes_of(name, 255),
						    bytes_of(name, 255), BYTES(""), BYTES(""),
						    error, sizeof(error)),
			 0);
}
END_TEST

START_TEST(test_topic_records_are_cleared_one_by_one_or_by_vhost)
{
	uint64_t version;

	permit("t", "^$", "^$");
	permit("u", "^$", "^$");
	version = broker->permission_version;
	user_clear_topic_permissions(broker, user, BYTES("v"), BYTES("none"));
	user_clear_topic_permissions(broker, user, BYTES("other"), BYTES(""));
	ck_assert_uint_eq(broker->permission_version, version);
	ck_assert(!may(PERMISSION_WRITE, "k"));
	user_clear_topic_permissions(broker, user, BYTES("v"), BYTES("t"));
	ck_assert_uint_gt(broker->permission_version, version);
	ck_assert(may(PERMISSION_WRITE, "k"));
	ck_assert_uint_eq(user->topic_permissions.count, 1);
	permit("t", "^$", "^$");
	user_clear_topic_permissions(broker, user, BYTES("v"), BYTES(""));
	ck_assert_uint_eq(user->topic_permissions.count, 0);
}
END_TEST

START_TEST(test_topic_records_go_with_their_vhost_and_their_user)
{
	struct vhost *other = vhost_create(broker, BYTES("v2"));
	struct user *held = user_ref(user);
	char error[128];

	permit("t", "^$", "^$");
	ck_assert_int_eq(user_set_topic_permissions(broker, user, BYTES("v2"), BYTES("t"),
						    BYTES(""), BYTES(""), error, sizeof(error)),
			 0);
	ck_assert_uint_eq(user->topic_permissions.count, 2);
	vhost_delete(other);
	ck_assert_uint_eq(user->topic_permissions.count, 1);
	user_delete(broker, user);
	ck_assert_uint_eq(held->topic_permissions.count, 0);
	user_unref(held);
}
END_TEST

TESTS_WITH("topic_permission", set_up, model_tear_down,
	   test_topic_without_a_record_everything_is_allowed,
	   test_topic_record_has_a_pattern_for_each_direction,
	   test_topic_record_is_of_one_exchange_of_one_vhost,
	   test_topic_empty_pattern_is_the_empty_key, test_topic_variables_are_names_as_they_are,
	   test_topic_names_cannot_break_out_of_a_pattern, test_topic_bad_pattern_changes_nothing,
	   test_topic_names_have_a_limit, test_topic_records_are_cleared_one_by_one_or_by_vhost,
	   test_topic_records_go_with_their_vhost_and_their_user)
