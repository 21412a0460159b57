/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users: passwords as RabbitMQ keeps them, tags, and permissions by pattern (amqp.md 11.1, 4.4).
 */
#include "broker/user.h"

#include "lib/runner.h"

#include <errno.h>

static struct broker broker;
static struct vhost vhost;

static void
set_up(void)
{
	broker = (struct broker){.users = {0}};
	map_init(&broker.users);
	vhost = (struct vhost){.name = BYTES("v"), .broker = &broker};
}

/* All must have been given back: the leak checker looks at the rest. */
static void
tear_down(void)
{
	struct user *user;

	map_for_each (&broker.users, user, struct user, node)
		user_delete(&broker, user);
	map_fini(&broker.users);
}

static void
permit(struct user *user, const char *configure, const char *write, const char *read)
{
	const struct bytes patterns[PERMISSION_COUNT] = {
		[PERMISSION_CONFIGURE] = bytes_str(configure),
		[PERMISSION_WRITE] = bytes_str(write),
		[PERMISSION_READ] = bytes_str(read),
	};
	char error[128];

	ck_assert_int_eq(
		user_set_permissions(&broker, user, BYTES("v"), patterns, error, sizeof(error)), 0);
}

/* Whether reading the queue is allowed when pattern is the one for reading. */
static bool
may_read(const char *pattern, const char *name)
{
	struct user *user = user_create(&broker, BYTES("u"), 0);
	bool may;

	permit(user, "", "", pattern);
	may = user_check(user, &vhost, PERMISSION_READ, RESOURCE_QUEUE, bytes_str(name)) == NULL;
	user_delete(&broker, user);
	return may;
}

START_TEST(test_user_is_found_until_deleted)
{
	struct user *user = user_create(&broker, BYTES("guest"), USER_ADMINISTRATOR);

	ck_assert_ptr_eq(user_find(&broker, BYTES("guest")), user);
	ck_assert_ptr_null(user_find(&broker, BYTES("Guest")));
	ck_assert_uint_eq(user->tags, USER_ADMINISTRATOR);
	user_delete(&broker, user);
	ck_assert_ptr_null(user_find(&broker, BYTES("guest")));
}
END_TEST

START_TEST(test_user_deleted_lives_for_its_connections_without_rights)
{
	struct user *user = user_create(&broker, BYTES("u"), 0);
	struct user *held = user_ref(user);

	permit(user, ".*", ".*", ".*");
	user_delete(&broker, user);
	ck_assert(held->deleted);
	ck_assert(bytes_equal(held->name, BYTES("u")));
	ck_assert(!user_may_open(held, &vhost));
	ck_assert_ptr_nonnull(
		user_check(held, &vhost, PERMISSION_READ, RESOURCE_QUEUE, BYTES("q")));
	user_unref(held);
}
END_TEST

START_TEST(test_user_password_of_rabbitmq_fits)
{
	struct user *user = user_create(&broker, BYTES("u"), 0);
	uint8_t hash[64];
	int n = base64_decode(BYTES("kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"), hash,
			      sizeof(hash));

	ck_assert_int_eq(n, 36);
	ck_assert(!user_check_password(user, BYTES("test12")));
	ck_assert_int_eq(user_set_password_hash(user, DIGEST_SHA256, bytes_of(hash, 36)), 0);
	ck_assert(user_check_password(user, BYTES("test12")));
	ck_assert(!user_check_password(user, BYTES("test1")));
	ck_assert(!user_check_password(user, BYTES("test123")));
	ck_assert(!user_check_password(user, BYTES("")));
}
END_TEST

START_TEST(test_user_hashes_of_all_kinds_fit)
{
	static const enum digest_kind kinds[] = {DIGEST_MD5, DIGEST_SHA256, DIGEST_SHA512};
	struct user *user = user_create(&broker, BYTES("u"), 0);
	uint8_t hash[4 + DIGEST_MAX] = "salt";

	for (size_t i = 0; i < countof(kinds); i++) {
		size_t size = 4 + digest_size(kinds[i]);

		digest(kinds[i], BYTES("salt"), BYTES("secret"), hash + 4);
		ck_assert_int_eq(user_set_password_hash(user, kinds[i], bytes_of(hash, size)), 0);
		ck_assert(user_check_password(user, BYTES("secret")));
		ck_assert(!user_check_password(user, BYTES("Secret")));
		ck_assert_int_eq(user_set_password_hash(user, kinds[i], bytes_of(hash, size - 1)),
				 -EINVAL);
		ck_assert(user_check_password(user, BYTES("secret")));
	}
	ck_assert_int_eq(user_set_password_hash(user, DIGEST_SHA256, bytes_of(NULL, 0)), 0);
	ck_assert(!user_check_password(user, BYTES("secret")));
}
END_TEST

START_TEST(test_user_password_is_salted)
{
	struct user *a = user_create(&broker, BYTES("a"), 0);
	struct user *b = user_create(&broker, BYTES("b"), 0);

	user_set_password(a, BYTES("secret"));
	user_set_password(b, BYTES("secret"));
	ck_assert_uint_eq(a->password_hash.n, 36);
	ck_assert(!bytes_equal(a->password_hash, b->password_hash));
	ck_assert(user_check_password(a, BYTES("secret")));
	ck_assert(user_check_password(b, BYTES("secret")));
	user_set_password(a, BYTES("other"));
	ck_assert(user_check_password(a, BYTES("other")));
	ck_assert(!user_check_password(a, BYTES("secret")));
}
END_TEST

START_TEST(test_user_empty_password_never_fits)
{
	struct user *user = user_create(&broker, BYTES("u"), 0);

	user_set_password(user, BYTES(""));
	ck_assert(!user_check_password(user, BYTES("")));
}
END_TEST

START_TEST(test_user_tags_are_parsed)
{
	unsigned tags;

	ck_assert_int_eq(user_tags_parse(BYTES("administrator, monitoring"), &tags), 0);
	ck_assert_uint_eq(tags, USER_ADMINISTRATOR | USER_MONITORING);
	ck_assert_int_eq(user_tags_parse(BYTES(" impersonator,,policymaker management "), &tags),
			 0);
	ck_assert_uint_eq(tags, USER_IMPERSONATOR | USER_POLICYMAKER | USER_MANAGEMENT);
	ck_assert_int_eq(user_tags_parse(BYTES(""), &tags), 0);
	ck_assert_uint_eq(tags, 0);
	ck_assert_int_eq(user_tags_parse(BYTES("administrators"), &tags), -EINVAL);
	ck_assert_int_eq(user_tags_parse(BYTES("admin"), &tags), -EINVAL);
}
END_TEST

START_TEST(test_user_patterns_are_unanchored)
{
	ck_assert(may_read("foo", "xfoobar"));
	ck_assert(!may_read("foo", "xFoobar"));
	ck_assert(!may_read("^foo$", "xfoobar"));
	ck_assert(may_read("^foo$", "foo"));
	ck_assert(may_read(".*", "anything"));
	ck_assert(may_read("^(?!secret)", "open"));
	ck_assert(!may_read("^(?!secret)", "secret.x"));
}
END_TEST

START_TEST(test_user_empty_pattern_is_the_empty_name)
{
	ck_assert(!may_read("", "q"));
	ck_assert(may_read("", ""));
	ck_assert(!may_read("^$", "q"));
}
END_TEST

START_TEST(test_user_default_exchange_is_amq_default)
{
	struct user *user = user_create(&broker, BYTES("u"), 0);
	const struct reply *reply;

	permit(user, "", "^amq\\.default$", "");
	ck_assert_ptr_null(
		user_check(user, &vhost, PERMISSION_WRITE, RESOURCE_EXCHANGE, BYTES("")));
	permit(user, "", "^$", "");
	reply = user_check(user, &vhost, PERMISSION_WRITE, RESOURCE_EXCHANGE, BYTES(""));
	ck_assert_ptr_nonnull(reply);
	ck_assert_str_eq(reply->text, "ACCESS_REFUSED - write access to exchange 'amq.default' in "
				      "vhost 'v' refused for user 'u'");
}
END_TEST

START_TEST(test_user_refusals_name_what_was_asked)
{
	struct user *user = user_create(&broker, BYTES("u"), 0);
	const struct reply *reply;

	permit(user, "c", "w", "r");
	reply = user_check(user, &vhost, PERMISSION_CONFIGURE, RESOURCE_QUEUE, BYTES("q"));
	ck_assert_ptr_nonnull(reply);
	ck_assert_int_eq(reply->code, ACCESS_REFUSED);
	ck_assert_int_eq(reply->closes, REPLY_CLOSES_CHANNEL);
	ck_assert_str_eq(reply->text, "ACCESS_REFUSED - configure access to queue 'q' in vhost 'v' "
				      "refused for user 'u'");
	reply = user_check(user, &vhost, PERMISSION_READ, RESOURCE_EXCHANGE, BYTES("x"));
	ck_assert_ptr_nonnull(reply);
	ck_assert_str_eq(reply->text, "ACCESS_REFUSED - read access to exchange 'x' in vhost 'v' "
				      "refused for user 'u'");
	ck_assert_ptr_null(user_check(user, &vhost, PERMISSION_READ, RESOURCE_QUEUE, BYTES("r")));
	ck_assert_ptr_null(user_check(user, &vhost, PERMISSION_WRITE, RESOURCE_QUEUE, BYTES("w")));
	ck_assert_ptr_nonnull(
		user_check(user, &vhost, PERMISSION_WRITE, RESOURCE_QUEUE, BYTES("r")));
}
END_TEST

START_TEST(test_user_permissions_are_of_one_vhost)
{
	struct vhost other = {.name = BYTES("other"), .broker = &broker};
	struct user *user = user_create(&broker, BYTES("u"), 0);

	ck_assert(!user_may_open(user, &vhost));
	permit(user, "", "", "");
	ck_assert(user_may_open(user, &vhost));
	ck_assert(!user_may_open(user, &other));
	permit(user, ".*", ".*", ".*");
	ck_assert_ptr_null(user_check(user, &vhost, PERMISSION_READ, RESOURCE_QUEUE, BYTES("q")));
	ck_assert_ptr_nonnull(
		user_check(user, &other, PERMISSION_READ, RESOURCE_QUEUE, BYTES("q")));
	user_clear_permissions(&broker, user, BYTES("v"));
	ck_assert(!user_may_open(user, &vhost));
	ck_assert_ptr_nonnull(
		user_check(user, &vhost, PERMISSION_READ, RESOURCE_QUEUE, BYTES("q")));
}
END_TEST

START_TEST(test_user_bad_pattern_changes_nothing)
{
	const struct bytes patterns[PERMISSION_COUNT] = {BYTES("a"), BYTES("b"), BYTES("(")};
	struct user *user = user_create(&broker, BYTES("u"), 0);
	char error[128] = "";
	uint64_t version;

	permit(user, ".*", ".*", ".*");
	version = broker.permission_version;
	ck_assert_int_eq(
		user_set_permissions(&broker, user, BYTES("v"), patterns, error, sizeof(error)),
		-EINVAL);
	ck_assert_str_ne(error, "");
	ck_assert_uint_eq(broker.permission_version, version);
	ck_assert_ptr_null(user_check(user, &vhost, PERMISSION_READ, RESOURCE_QUEUE, BYTES("q")));
}
END_TEST

START_TEST(test_user_every_change_moves_the_version)
{
	uint64_t version = broker.permission_version;
	struct user *user = user_create(&broker, BYTES("u"), 0);

	permit(user, "", "", "");
	ck_assert_uint_gt(broker.permission_version, version);
	version = broker.permission_version;
	user_clear_permissions(&broker, user, BYTES("v"));
	ck_assert_uint_gt(broker.permission_version, version);
	version = broker.permission_version;
	user_clear_permissions(&broker, user, BYTES("v"));
	ck_assert_uint_eq(broker.permission_version, version);
	user_delete(&broker, user);
	ck_assert_uint_gt(broker.permission_version, version);
}
END_TEST

TESTS_WITH("user", set_up, tear_down, test_user_is_found_until_deleted,
	   test_user_deleted_lives_for_its_connections_without_rights,
	   test_user_password_of_rabbitmq_fits, test_user_hashes_of_all_kinds_fit,
	   test_user_password_is_salted, test_user_empty_password_never_fits,
	   test_user_tags_are_parsed, test_user_patterns_are_unanchored,
	   test_user_empty_pattern_is_the_empty_name, test_user_default_exchange_is_amq_default,
	   test_user_refusals_name_what_was_asked, test_user_permissions_are_of_one_vhost,
	   test_user_bad_pattern_changes_nothing, test_user_every_change_moves_the_version)
