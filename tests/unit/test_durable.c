/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable definitions: what a broker has and must keep is there in the next one, which reads the log of
 * the first. One case for each rule; random ones are in test_durable_random.c.
 */
#include "unit/durable_fixture.h"

#include "util/log.h"
#include "wire/field.h"

/* ---- short calls ---- */

static struct vhost *
v(void)
{
	struct vhost *vhost = vhost_find(broker, BYTES("v"));

	return vhost != NULL ? vhost : vhost_create(broker, BYTES("v"));
}

static struct exchange *
make_exchange_of(const char *name, const char *type, bool durable, bool auto_delete)
{
	struct exchange_spec spec = {
		.name = bytes_str(name),
		.type = bytes_str(type),
		.durable = durable,
		.auto_delete = auto_delete,
	};

	return exchange_create(v(), &spec);
}

static struct exchange *
durable_x(const char *name)
{
	return make_exchange_of(name, "direct", true, false);
}

static struct exchange *
x(const char *name)
{
	return exchange_find(v(), bytes_str(name));
}

static struct queue *
make_queue_of(const char *name, bool durable)
{
	struct queue_spec spec = {.name = bytes_str(name), .durable = durable};

	return queue_create(v(), &spec);
}

static struct queue *
q(const char *name)
{
	return queue_find(v(), bytes_str(name));
}

static struct binding_spec
to_queue(const char *source, const char *queue, const char *key)
{
	return (struct binding_spec){.source = x(source), .queue = q(queue), .key = bytes_str(key)};
}

static struct binding_spec
to_exchange(const char *source, const char *destination, const char *key)
{
	return (struct binding_spec){
		.source = x(source), .exchange = x(destination), .key = bytes_str(key)};
}

static void
add(struct binding_spec spec)
{
	ck_assert_ptr_null(binding_check(&spec));
	binding_add(&spec);
}

static void
take_away(struct binding_spec spec)
{
	binding_remove(&spec);
}

static bool
has(struct binding_spec spec)
{
	return spec.source != NULL && (spec.queue != NULL || spec.exchange != NULL) &&
	       binding_exists(&spec);
}

static void
permit(struct user *user, const char *pattern)
{
	const struct bytes patterns[PERMISSION_COUNT] = {bytes_str(pattern), BYTES("w"), BYTES("")};
	char error[128];

	ck_assert_int_eq(
		user_set_permissions(broker, user, v()->name, patterns, error, sizeof(error)), 0);
}

static void
permit_topic(struct user *user, const char *exchange, const char *write)
{
	char error[128];

	ck_assert_int_eq(user_set_topic_permissions(broker, user, v()->name, bytes_str(exchange),
						    bytes_str(write), BYTES("r"), error,
						    sizeof(error)),
			 0);
}

static struct policy_spec
policy_spec_of(const char *name)
{
	return (struct policy_spec){
		.name = bytes_str(name),
		.pattern = BYTES("^q"),
		.apply_to = BYTES("queues"),
		.priority = -3,
		.definition = BYTES("\x0a"
				    "max-lengthI\0\0\0\7"),
	};
}

static void
put_policy(enum policy_kind kind, const char *name)
{
	struct policy_spec spec = policy_spec_of(name);

	ck_assert_ptr_null(policy_check(kind, &spec));
	policy_put(v(), kind, &spec);
}

/* ---- what is kept ---- */

START_TEST(test_each_kind_is_kept)
{
	struct user *user = user_create(broker, BYTES("u"), USER_MANAGEMENT | USER_MONITORING);

	vhost_set_limits(v(), 0, 7);
	user_set_limits(user, 0, 3);
	user_set_password(user, BYTES("secret"));
	permit(user, "^c");
	permit_topic(user, "amq.topic", "{username}");
	durable_x("x");
	make_queue_of("q", true);
	add(to_queue("x", "q", "k"));
	put_policy(POLICY_USER, "p");
	put_policy(POLICY_OPERATOR, "o");
	reopen_broker();
	user = user_find(broker, BYTES("u"));
	ck_assert(user_check_password(user, BYTES("secret")));
	ck_assert(!user_check_password(user, BYTES("other")));
	ck_assert_int_eq(v()->max_connections, 0);
	ck_assert_int_eq(v()->max_queues, 7);
	ck_assert(has(to_queue("x", "q", "k")));
	ck_assert_int_eq(policy_find(v(), POLICY_USER, BYTES("p"))->priority, -3);
	ck_assert_uint_eq(queue_settings(q("q"))->length_max, 7);
	reopen_broker();
}
END_TEST

START_TEST(test_what_is_not_durable_is_not_kept)
{
	struct queue_owner owner;
	struct queue_spec exclusive = {
		.name = BYTES("e"), .durable = true, .exclusive = true, .owner = &owner};
	uint64_t lsn;

	queue_owner_init(&owner);
	durable_x("x");
	make_queue_of("q", true);
	lsn = broker->effect_lsn;
	make_exchange_of("t", "fanout", false, false);
	make_queue_of("tq", false);
	queue_create(v(), &exclusive);
	add(to_queue("x", "tq", "k"));
	add(to_queue("x", "e", "k"));
	add(to_queue("t", "q", "k"));
	add(to_exchange("x", "t", "k"));
	add(to_exchange("t", "x", "k"));
	take_away(to_queue("x", "tq", "k"));
	exchange_delete(x("t"));
	queue_delete(q("tq"));
	queue_owner_fini(&owner);
	ck_assert_uint_eq(broker->effect_lsn, lsn);
	reopen_broker();
}
END_TEST

START_TEST(test_predeclared_exchanges_keep_their_bindings_only)
{
	v();
	make_queue_of("q", true);
	durable_x("x");
	add(to_queue("amq.topic", "q", "a.#"));
	add(to_exchange("amq.direct", "amq.fanout", "k"));
	add(to_exchange("x", "amq.match", "k"));
	reopen_broker();
	ck_assert(has(to_queue("amq.topic", "q", "a.#")));
	ck_assert(has(to_exchange("amq.direct", "amq.fanout", "k")));
	for (size_t i = 0; i < logged.count; i++) {
		struct definition d;

		ck_assert_int_eq(definition_decode(&d, logged.items[i]), 0);
		ck_assert(!bytes_has_prefix(d.name, BYTES("amq.")));
	}
}
END_TEST

/* The number is what an answer to a client waits for. */
START_TEST(test_each_change_moves_the_lsn)
{
	uint64_t lsn = broker->effect_lsn;

	make_queue_of("q", true); // and the vhost
	ck_assert_uint_eq(broker->effect_lsn, lsn + (lsn == 0 ? 3 : 2));
	lsn = broker->effect_lsn;
	durable_x("x");
	ck_assert_uint_eq(broker->effect_lsn, lsn + 1);
	add(to_queue("x", "q", "k"));
	ck_assert_uint_eq(broker->effect_lsn, lsn + 2);
	add(to_queue("x", "q", "k"));
	take_away(to_queue("x", "q", "other"));
	ck_assert_uint_eq(broker->effect_lsn, lsn + 2);
	take_away(to_queue("x", "q", "k"));
	ck_assert_uint_eq(broker->effect_lsn, lsn + 3);
	queue_delete(q("q"));
	ck_assert_uint_eq(broker->effect_lsn, lsn + 4);
	put_policy(POLICY_USER, "p");
	ck_assert_uint_eq(broker->effect_lsn, lsn + 5);
	policy_remove(policy_find(v(), POLICY_USER, BYTES("p")));
	ck_assert_uint_eq(broker->effect_lsn, lsn + 6);
}
END_TEST

START_TEST(test_shutdown_deletes_nothing)
{
	user_create(broker, BYTES("u"), 0);
	make_queue_of("q", true);
	write_all();
	broker_free(&broker);
	ck_assert_int_eq(store_close(&store, false), 0);
	disk_sim_forget(disk);
	open_broker();
	ck_assert_uint_eq(logged.count, 3);
	ck_assert_ptr_nonnull(q("q"));
	ck_assert_ptr_nonnull(user_find(broker, BYTES("u")));
}
END_TEST

/* ---- removals ---- */

START_TEST(test_auto_delete_exchange_goes_for_good)
{
	make_exchange_of("a", "direct", true, true);
	make_exchange_of("b", "direct", true, true);
	make_exchange_of("kept", "direct", true, true);
	make_queue_of("q", true);
	make_queue_of("tq", false);
	add(to_exchange("a", "b", "k"));
	add(to_queue("b", "q", "k"));
	add(to_queue("kept", "tq", "k"));
	reopen_broker();
	/* what had only transient bindings stays without any */
	ck_assert_ptr_nonnull(x("kept"));
	ck_assert_ptr_nonnull(x("a"));
	queue_delete(q("q"));
	ck_assert_ptr_null(x("a"));
	ck_assert_ptr_null(x("b"));
	reopen_broker();
	ck_assert_ptr_null(x("a"));
	ck_assert_ptr_nonnull(x("kept"));
}
END_TEST

/* The log does not know of the binding that kept it. */
START_TEST(test_auto_delete_exchange_stays_for_a_transient_queue)
{
	make_exchange_of("a", "direct", true, true);
	make_queue_of("tq", false);
	make_queue_of("q", true);
	make_queue_of("r", true);
	add(to_queue("a", "tq", "k"));
	add(to_queue("a", "q", "k"));
	take_away(to_queue("a", "q", "k"));
	add(to_queue("a", "r", "k"));
	queue_delete(q("r"));
	ck_assert_ptr_nonnull(x("a"));
	reopen_broker();
	ck_assert_ptr_nonnull(x("a"));
}
END_TEST

START_TEST(test_auto_delete_exchange_goes_with_a_transient_queue)
{
	make_exchange_of("a", "direct", true, true);
	make_queue_of("tq", false);
	add(to_queue("a", "tq", "k"));
	queue_delete(q("tq"));
	ck_assert_ptr_null(x("a"));
	reopen_broker();
	ck_assert_ptr_null(x("a"));
}
END_TEST

/* Nothing goes by itself while it is read back, though its last binding goes for a moment. */
START_TEST(test_rebinding)
{
	make_exchange_of("a", "direct", true, true);
	make_queue_of("q", true);
	for (int i = 0; i < 3; i++) {
		add(to_queue("a", "q", "1"));
		add(to_queue("a", "q", "2"));
		take_away(to_queue("a", "q", "1"));
		add(to_queue("a", "q", "1"));
		take_away(to_queue("a", "q", "2"));
	}
	reopen_broker();
	ck_assert(has(to_queue("a", "q", "1")));
	ck_assert(!has(to_queue("a", "q", "2")));
	take_away(to_queue("a", "q", "1"));
	make_exchange_of("a", "fanout", true, false);
	reopen_broker();
	ck_assert(!has(to_queue("a", "q", "1")));
}
END_TEST

START_TEST(test_arguments_tell_bindings_apart)
{
	uint8_t octets[64];
	struct writer w = writer_of(octets, sizeof(octets));
	struct binding_spec with;

	make_exchange_of("h", "headers", true, false);
	make_queue_of("q", true);
	table_put_string(&w, BYTES("a"), BYTES("b"));
	with = to_queue("h", "q", "k");
	with.arguments = bytes_of(octets, (size_t)(w.p - octets));
	add(with);
	add(to_queue("h", "q", "k"));
	take_away(to_queue("h", "q", "k"));
	reopen_broker();
	ck_assert(!has(to_queue("h", "q", "k")));
	with.source = x("h");
	with.queue = q("q");
	ck_assert(has(with));
	take_away(with);
	add(to_queue("h", "q", "k"));
	reopen_broker();
	with.source = x("h");
	with.queue = q("q");
	ck_assert(!has(with));
	ck_assert(has(to_queue("h", "q", "k")));
}
END_TEST

START_TEST(test_redeclared_is_another)
{
	uint64_t id;

	durable_x("x");
	make_queue_of("q", true);
	add(to_queue("x", "q", "old"));
	id = q("q")->log->id;
	queue_delete(q("q"));
	make_queue_of("q", true);
	ck_assert_uint_ne(q("q")->log->id, id);
	id = q("q")->log->id;
	add(to_queue("x", "q", "new"));
	exchange_delete(x("x"));
	make_exchange_of("x", "topic", true, false);
	add(to_queue("x", "q", "newest"));
	reopen_broker();
	ck_assert_uint_eq(q("q")->log->id, id);
	ck_assert_uint_eq(q("q")->bindings.count, 1);
	ck_assert(has(to_queue("x", "q", "newest")));
	ck_assert(exchange_is_topic(x("x")));
	/* a transient one of the same name */
	queue_delete(q("q"));
	make_queue_of("q", false);
	add(to_queue("x", "q", "k"));
	reopen_broker();
	ck_assert_ptr_null(q("q"));
}
END_TEST

START_TEST(test_exchanges_bound_to_exchanges)
{
	durable_x("a");
	durable_x("b");
	add(to_exchange("a", "b", "k"));
	add(to_exchange("b", "a", "k"));
	add(to_exchange("a", "a", "k"));
	make_queue_of("b", true); // of the same name
	add(to_queue("a", "b", "k"));
	reopen_broker();
	take_away(to_exchange("a", "b", "k"));
	reopen_broker();
	ck_assert(!has(to_exchange("a", "b", "k")));
	ck_assert(has(to_queue("a", "b", "k")));
	exchange_delete(x("b"));
	reopen_broker();
	ck_assert_uint_eq(x("a")->bindings_in.count, 1);
}
END_TEST

START_TEST(test_vhost_goes_with_everything)
{
	struct user *user = user_create(broker, BYTES("u"), 0);

	make_exchange_of("a", "direct", true, true);
	durable_x("x");
	make_queue_of("q", true);
	add(to_exchange("a", "x", "k"));
	add(to_queue("x", "q", "k"));
	permit(user, "c");
	permit_topic(user, "amq.topic", "w");
	vhost_delete(v());
	reopen_broker();
	ck_assert_uint_eq(broker->vhosts.count, 0);
	user = user_find(broker, BYTES("u"));
	ck_assert_uint_eq(user->permissions.count, 0);
	ck_assert_uint_eq(user->topic_permissions.count, 0);
	/* each queue's removal is in the log: the store knows nothing of vhosts */
	make_queue_of("q", true);
	vhost_delete(v());
	make_queue_of("q", true);
	reopen_broker();
	ck_assert_uint_eq(v()->exchanges.count, 7);
}
END_TEST

START_TEST(test_user_goes_with_everything)
{
	struct user *user = user_create(broker, BYTES("u"), USER_ADMINISTRATOR);

	user_set_password(user, BYTES("secret"));
	permit(user, "c");
	permit_topic(user, "amq.topic", "w");
	reopen_broker();
	user = user_ref(user_find(broker, BYTES("u")));
	user_delete(broker, user);
	/* a connection has it still */
	user_set_limits(user, 1, 1);
	user_set_password(user, BYTES("other"));
	user_unref(user);
	reopen_broker();
	ck_assert_ptr_null(user_find(broker, BYTES("u")));
	user_create(broker, BYTES("u"), 0);
	reopen_broker();
	user = user_find(broker, BYTES("u"));
	ck_assert(!user_check_password(user, BYTES("secret")));
	ck_assert_uint_eq(user->permissions.count, 0);
	permit(user, "1");
	permit(user, "2");
	permit_topic(user, "t", "1");
	permit_topic(user, "t", "2");
	permit_topic(user, "u", "2");
	reopen_broker();
	user = user_find(broker, BYTES("u"));
	user_clear_permissions(broker, user, BYTES("v"));
	user_clear_topic_permissions(broker, user, BYTES("v"), BYTES("u"));
	reopen_broker();
}
END_TEST

START_TEST(test_policies_come_and_go)
{
	put_policy(POLICY_USER, "p");
	put_policy(POLICY_OPERATOR, "p");
	make_queue_of("q", true);
	durable_x("x");
	reopen_broker();
	policy_remove(policy_find(v(), POLICY_USER, BYTES("p")));
	reopen_broker();
	ck_assert_ptr_null(policy_find(v(), POLICY_USER, BYTES("p")));
	ck_assert_ptr_eq(queue_settings(q("q"))->policies[POLICY_OPERATOR],
			 policy_find(v(), POLICY_OPERATOR, BYTES("p")));
	/* what applies to transient things is found anew, what is gone with its vhost is not */
	ck_assert_uint_eq(queue_settings(make_queue_of("qt", false))->length_max, 7);
	vhost_delete(v());
	make_queue_of("q", true);
	reopen_broker();
	ck_assert_uint_eq(v()->policies[POLICY_OPERATOR].by_name.count, 0);
	ck_assert_ptr_eq(queue_settings(q("q")), &queue_settings_plain);
}
END_TEST

/* ---- what cannot be used ---- */

/* A broker of its own that reads this. */
static void
apply_to(struct broker *to, struct definition definition)
{
	broker_apply_definition(to, &definition, NULL);
	broker_apply_definition(to, &definition, NULL);
}

START_TEST(test_references_to_nothing_are_ignored)
{
	struct broker *other = new_broker();

	other->recovering = true;
	for (int kind = DEFINITION_VHOST; kind < DEFINITION_KIND_END; kind++) {
		struct definition d = {.kind = (enum definition_kind)kind,
				       .removed = true,
				       .name = BYTES("n"),
				       .exchange = BYTES("x")};

		if (kind == DEFINITION_OPERATOR_POLICY + 1)
			continue; // of no kind
		apply_to(other, d);
		d.removed = false;
		if (kind > DEFINITION_USER)
			apply_to(other, d);
	}
	ck_assert_uint_eq(other->vhosts.count, 0);
	ck_assert_uint_eq(other->users.count, 0);
	apply_to(other, (struct definition){.kind = DEFINITION_VHOST, .name = BYTES("v")});
	for (unsigned flags = 0; flags <= DEFINITION_TO_EXCHANGE; flags += DEFINITION_TO_EXCHANGE) {
		struct definition d = {.kind = DEFINITION_BINDING,
				       .vhost = BYTES("v"),
				       .source = BYTES("amq.direct"),
				       .destination = BYTES("gone"),
				       .flags = flags};

		apply_to(other, d);
		d.source = BYTES("gone");
		d.destination = BYTES("amq.fanout");
		apply_to(other, d);
		d.source = BYTES("");
		apply_to(other, d);
		d.source = BYTES("amq.direct");
		d.destination = BYTES("");
		apply_to(other, d);
	}
	/* predeclared ones are no definitions */
	apply_to(other, (struct definition){.kind = DEFINITION_EXCHANGE,
					    .removed = true,
					    .vhost = BYTES("v"),
					    .name = BYTES("amq.direct")});
	broker_end_recovery(other);
	broker_check(other);
	ck_assert_uint_eq(other->exchange_count, 7);
	broker_free(&other);
}
END_TEST

START_TEST(test_unusable_grants_nothing)
{
	struct broker *other = new_broker();
	struct user *user;
	struct exchange *topic;
	struct bytes v_name = BYTES("v");
	struct bytes u_name = BYTES("u");

	log_set_level(LOG_NONE);
	other->recovering = true;
	apply_to(other, (struct definition){.kind = DEFINITION_VHOST, .name = v_name});
	apply_to(other, (struct definition){.kind = DEFINITION_USER,
					    .name = u_name,
					    .hash_kind = 3,
					    .password_hash = BYTES("hash")});
	apply_to(other, (struct definition){.kind = DEFINITION_PERMISSION,
					    .user = u_name,
					    .vhost = v_name,
					    .read = BYTES("(")});
	apply_to(other, (struct definition){.kind = DEFINITION_TOPIC_PERMISSION,
					    .user = u_name,
					    .vhost = v_name,
					    .exchange = BYTES("amq.topic"),
					    .write = BYTES("("),
					    .read = BYTES(".*")});
	apply_to(other, (struct definition){.kind = DEFINITION_EXCHANGE,
					    .vhost = v_name,
					    .name = BYTES("x"),
					    .type = BYTES("x-of-the-future")});
	apply_to(other, (struct definition){.kind = DEFINITION_EXCHANGE,
					    .vhost = v_name,
					    .name = BYTES("x"),
					    .type = BYTES("fanout"),
					    .arguments = BYTES("\1aZ")});
	apply_to(other, (struct definition){.kind = DEFINITION_POLICY,
					    .vhost = v_name,
					    .name = BYTES("p"),
					    .pattern = BYTES("("),
					    .arguments = BYTES("\7ha-modet\1")});
	apply_to(other, (struct definition){.kind = DEFINITION_POLICY,
					    .vhost = v_name,
					    .name = BYTES("p"),
					    .arguments = BYTES("\1aV")});
	apply_to(other, (struct definition){.kind = DEFINITION_OPERATOR_POLICY,
					    .vhost = v_name,
					    .name = BYTES("p"),
					    .arguments = BYTES("\1aZ")});
	broker_end_recovery(other);
	ck_assert_uint_eq(vhost_find(other, v_name)->policies[POLICY_USER].by_name.count, 0);
	ck_assert_uint_eq(vhost_find(other, v_name)->policies[POLICY_OPERATOR].by_name.count, 0);
	user = user_find(other, u_name);
	topic = exchange_find(vhost_find(other, v_name), BYTES("amq.topic"));
	ck_assert_uint_eq(user->password_hash.n, 0);
	ck_assert(!user_may_open(user, topic->vhost));
	ck_assert_ptr_nonnull(user_check_topic(user, topic, PERMISSION_WRITE, BYTES("k")));
	ck_assert_ptr_nonnull(user_check_topic(user, topic, PERMISSION_READ, BYTES("k")));
	ck_assert_uint_eq(other->exchange_count, 7);
	broker_free(&other);
}
END_TEST

/* Over a checkpoint, the log may say first what was there before. */
START_TEST(test_put_replaces_what_is_otherwise)
{
	struct broker *other = new_broker();
	struct queue_log logs[2] = {{.id = 1, .next_qseq = 1}, {.id = 2, .next_qseq = 1}};
	struct definition exchange = {.kind = DEFINITION_EXCHANGE,
				      .vhost = BYTES("v"),
				      .name = BYTES("x"),
				      .type = BYTES("direct")};
	struct definition queue = {
		.kind = DEFINITION_QUEUE, .vhost = BYTES("v"), .name = BYTES("q"), .queue_id = 1};
	const struct vhost *vhost;

	other->recovering = true;
	apply_to(other, (struct definition){.kind = DEFINITION_VHOST, .name = BYTES("v")});
	vhost = vhost_find(other, BYTES("v"));
	apply_to(other, exchange);
	broker_apply_definition(other, &queue, &logs[0]);
	exchange.type = BYTES("fanout");
	exchange.flags = DEFINITION_INTERNAL;
	apply_to(other, exchange);
	queue.queue_id = 2;
	queue.flags = DEFINITION_AUTO_DELETE;
	broker_apply_definition(other, &queue, &logs[1]);
	broker_end_recovery(other);
	ck_assert_str_eq(exchange_type_name(exchange_find(vhost, BYTES("x"))), "fanout");
	ck_assert(exchange_find(vhost, BYTES("x"))->internal);
	ck_assert_ptr_eq(queue_find(vhost, BYTES("q"))->log, &logs[1]);
	ck_assert(queue_find(vhost, BYTES("q"))->flags & QUEUE_AUTO_DELETE);
	ck_assert_ptr_null(logs[0].owner);
	broker_free(&other);
}
END_TEST

START_TEST(test_queue_goes_on_behind_numbers_that_were_used)
{
	struct broker *other = new_broker();
	struct queue_log log = {.id = 5, .next_qseq = 1};
	struct definition d = {
		.kind = DEFINITION_QUEUE, .vhost = BYTES("v"), .name = BYTES("q"), .queue_id = 5};
	struct queue *queue;

	other->recovering = true;
	apply_to(other, (struct definition){.kind = DEFINITION_VHOST, .name = BYTES("v")});
	broker_apply_definition(other, &d, &log);
	queue = queue_find(vhost_find(other, BYTES("v")), BYTES("q"));
	ck_assert_ptr_eq(queue->log, &log);
	ck_assert_ptr_eq(log.owner, queue);
	/* those that come behind the definition are known later */
	log.next_qseq = 100;
	broker_end_recovery(other);
	ck_assert_uint_eq(queue->next_qseq, 100);
	broker_free(&other);
}
END_TEST

TESTS_WITH("durable", durable_set_up, durable_tear_down, test_each_kind_is_kept,
	   test_policies_come_and_go, test_what_is_not_durable_is_not_kept,
	   test_predeclared_exchanges_keep_their_bindings_only, test_each_change_moves_the_lsn,
	   test_shutdown_deletes_nothing, test_auto_delete_exchange_goes_for_good,
	   test_auto_delete_exchange_stays_for_a_transient_queue,
	   test_auto_delete_exchange_goes_with_a_transient_queue, test_rebinding,
	   test_arguments_tell_bindings_apart, test_redeclared_is_another,
	   test_exchanges_bound_to_exchanges, test_vhost_goes_with_everything,
	   test_user_goes_with_everything, test_references_to_nothing_are_ignored,
	   test_unusable_grants_nothing, test_put_replaces_what_is_otherwise,
	   test_queue_goes_on_behind_numbers_that_were_used)
