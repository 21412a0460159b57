/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: which one applies to what, what is in force then, and that all of it goes back. */
#include "unit/policy_fixture.h"

static const struct queue_settings *
settings(const char *queue)
{
	return queue_settings(queue_find(vhost, bytes_str(queue)));
}

static const char *
effective_of(const char *queue)
{
	return effective(settings(queue)->policies);
}

/* ---- which one applies ---- */

START_TEST(test_patterns_are_not_anchored)
{
	struct queue *q = make_queue("my.orders.eu");

	put("p", "orders", "max-length=1");
	ck_assert_str_eq(of_queue(q), "p -");
	put("p", "^orders", "max-length=1");
	ck_assert_str_eq(of_queue(q), "- -");
	put("p", "^my\\..*(?<!us)$", "max-length=1");
	ck_assert_str_eq(of_queue(q), "p -");
	put("p", "", "max-length=1");
	ck_assert_str_eq(of_queue(q), "p -");
	put("p", "MY", "max-length=1");
	ck_assert_str_eq(of_queue(q), "- -");
}
END_TEST

START_TEST(test_the_highest_priority_applies)
{
	struct queue *q = make_queue("q");

	put_with_priority(0, "b", "", "max-length=1");
	ck_assert_str_eq(of_queue(q), "b -");
	put_with_priority(-5, "a", "", "max-length=2");
	ck_assert_str_eq(of_queue(q), "b -");
	put_with_priority(7, "c", "", "max-length=3");
	ck_assert_str_eq(of_queue(q), "c -");
	put_with_priority(9, "d", "other", "max-length=4");
	ck_assert_str_eq(of_queue(q), "c -");
	/* one is never filled up from another */
	ck_assert_uint_eq(settings("q")->length_max, 3);
	put_with_priority(-9, "c", "", "expires=5");
	ck_assert_str_eq(of_queue(q), "b -");
	take_away(POLICY_USER, "b");
	ck_assert_str_eq(of_queue(q), "a -");
	take_away(POLICY_USER, "a");
	ck_assert_str_eq(of_queue(q), "c -");
	ck_assert_uint_eq(settings("q")->length_max, UINT64_MAX);
	ck_assert_uint_eq(settings("q")->expires_ms, 5);
	put_with_priority(INT64_MAX, "e", "", "max-length=1");
	put_with_priority(INT64_MIN, "f", "", "max-length=1");
	ck_assert_str_eq(of_queue(q), "e -");
}
END_TEST

START_TEST(test_of_two_alike_the_first_by_name_applies)
{
	static const char *const orders[] = {"abc", "acb", "bac", "bca", "cab", "cba"};
	struct queue *q = make_queue("q");

	for (size_t i = 0; i < countof(orders); i++) {
		for (size_t n = 0; n < 3; n++) {
			char name[2] = {orders[i][n], '\0'};

			put(name, "", "max-length=1");
			broker_check(broker);
		}
		ck_assert_str_eq(of_queue(q), "a -");
		ck_assert_str_eq(of_queue(make_queue(orders[i])), "a -");
		take_away(POLICY_USER, "a");
		ck_assert_str_eq(of_queue(q), "b -");
		take_away(POLICY_USER, "b");
		ck_assert_str_eq(of_queue(q), "c -");
		take_away(POLICY_USER, "c");
		ck_assert_str_eq(of_queue(q), "- -");
	}
}
END_TEST

START_TEST(test_apply_to)
{
	static const struct {
		const char *apply_to;
		const char *classic;
		const char *quorum;
		const char *exchange;
	} rows[] = {
		{"all", "p -", "p -", "p -"},
		{"queues", "p -", "p -", "- -"},
		{"classic_queues", "p -", "- -", "- -"},
		{"quorum_queues", "- -", "p -", "- -"},
		{"streams", "- -", "- -", "- -"},
		{"exchanges", "- -", "- -", "p -"},
		{"", "p -", "p -", "p -"},
	};
	struct queue *classic = make_queue_with("n1", "x-queue-type=classic");
	struct queue *quorum = make_queue_with("n2", "x-queue-type=quorum");

	make_exchange("n3", "direct");
	for (size_t i = 0; i < countof(rows); i++) {
		put_for(rows[i].apply_to, "p", "n", "expires=5");
		ck_assert_str_eq(of_queue(classic), rows[i].classic);
		ck_assert_str_eq(of_queue(quorum), rows[i].quorum);
		ck_assert_str_eq(of_exchange("n3"), rows[i].exchange);
		broker_check(broker);
	}
}
END_TEST

/* The whole policy is left aside, and the next one applies. */
START_TEST(test_a_key_that_the_type_cannot_do)
{
	static const struct {
		const char *key;
		const char *classic;
		const char *quorum;
	} rows[] = {
		{"queue-mode=lazy", "p -", "less -"},
		{"queue-version=2", "p -", "less -"},
		{"dead-letter-strategy=at-least-once", "less -", "p -"},
		{"max-in-memory-length=1", "less -", "p -"},
		{"max-in-memory-bytes=1", "less -", "p -"},
		{"max-age=7D", "less -", "less -"},
		{"stream-max-segment-size-bytes=1", "less -", "less -"},
		{"stream-filter-size-bytes=16", "less -", "less -"},
		{"queue-mode=lazy dead-letter-strategy=at-least-once", "less -", "less -"},
		{"delivery-limit=1", "p -", "p -"},
		{"consumer-timeout=1", "p -", "p -"},
		{"overflow=reject-publish-dlx", "p -", "p -"},
		{"alternate-exchange=x", "p -", "p -"},
		{"ha-mode=all ha-params=2", "p -", "p -"},
		{"federation-upstream-set=all", "p -", "p -"},
		{"queue-leader-locator=a", "p -", "p -"},
		{"queue-master-locator=a", "p -", "p -"},
		{"initial-cluster-size=3", "p -", "p -"},
		{"target-group-size=3", "p -", "p -"},
		{"member-placement-tag=a", "p -", "p -"},
		{"shards-per-node=2 routing-key=1", "p -", "p -"},
	};
	struct queue *classic = make_queue("classic");
	struct queue *quorum = make_queue_with("quorum", "x-queue-type=quorum");

	put("less", "", "max-length=7");
	for (size_t i = 0; i < countof(rows); i++) {
		char definition[128];

		snprintf(definition, sizeof(definition), "max-length=5 %s", rows[i].key);
		put_with_priority(1, "p", "", definition);
		ck_assert_str_eq(of_queue(classic), rows[i].classic);
		ck_assert_str_eq(of_queue(quorum), rows[i].quorum);
		ck_assert_uint_eq(settings("classic")->length_max,
				  rows[i].classic[0] == 'p' ? 5 : 7);
		/* to exchanges any applies */
		ck_assert_str_eq(of_exchange("amq.topic"), "p -");
		broker_check(broker);
	}
}
END_TEST

START_TEST(test_new_ones_get_it)
{
	put("p", "^q", "max-length=5");
	put_operator("o", "", "max-length=3");
	ck_assert_str_eq(of_queue(make_queue("q")), "p o");
	ck_assert_str_eq(of_queue(make_queue("r")), "- o");
	make_exchange("qx", "direct");
	ck_assert_str_eq(of_exchange("qx"), "p o");
	ck_assert_uint_eq(settings("q")->length_max, 3);
}
END_TEST

START_TEST(test_exclusive_queues_take_part)
{
	struct queue_owner owner;
	struct queue_spec spec = {.name = BYTES("e"), .exclusive = true, .owner = &owner};
	struct queue *q;

	queue_owner_init(&owner);
	put("p", "", "max-length=5");
	q = queue_create(vhost, &spec);
	ck_assert_str_eq(of_queue(q), "p -");
	put("p", "", "max-length=6");
	ck_assert_uint_eq(settings("e")->length_max, 6);
	queue_owner_fini(&owner);
}
END_TEST

START_TEST(test_other_vhosts_are_left_alone)
{
	struct vhost *other = vhost_create(broker, BYTES("w"));
	struct queue_spec spec = {.name = BYTES("q")};
	struct queue *q = queue_create(other, &spec);

	put("p", "", "max-length=5");
	ck_assert_str_eq(of_queue(q), "- -");
	ck_assert_ptr_null(policy_find(other, POLICY_USER, BYTES("p")));
	vhost_delete(other);
}
END_TEST

/* An unacked entry keeps a queue behind its policy. */
START_TEST(test_a_deleted_queue_has_none)
{
	struct queue *q = queue_ref(make_queue("q"));

	put("p", "", "max-length=5");
	put_operator("o", "", "expires=5");
	ck_assert_str_eq(of_queue(q), "p o");
	queue_delete(q);
	ck_assert_str_eq(of_queue(q), "- -");
	take_away(POLICY_USER, "p");
	queue_unref(q);
}
END_TEST

START_TEST(test_a_vhost_takes_its_policies_along)
{
	make_queue("q");
	put("p", "", "max-length=5");
	put_operator("o", "", "expires=5");
	vhost_delete(vhost);
	vhost = vhost_create(broker, BYTES("v"));
	ck_assert_ptr_null(policy_find(vhost, POLICY_USER, BYTES("p")));
	ck_assert_str_eq(of_queue(make_queue("q")), "- -");
}
END_TEST

START_TEST(test_listed_by_rank)
{
	const struct policy *policy;
	char text[16] = "";

	put("b", "", "max-length=5");
	put("a", "", "max-length=5");
	put_with_priority(5, "d", "", "max-length=5");
	put_with_priority(-1, "c", "", "max-length=5");
	list_for_each (&vhost->policies[POLICY_USER].ranked, policy, struct policy, ranked)
		strncat(text, (const char *)policy->name.p, 1);
	ck_assert_str_eq(text, "dabc");
	ck_assert_uint_eq(vhost->policies[POLICY_OPERATOR].ranked.count, 0);
	ck_assert_ptr_null(policy_find(vhost, POLICY_OPERATOR, BYTES("a")));
	policy = policy_find(vhost, POLICY_USER, BYTES("d"));
	ck_assert_int_eq(policy->priority, 5);
	ck_assert_int_eq(policy->kind, POLICY_USER);
	ck_assert_ptr_eq(policy->vhost, vhost);
}
END_TEST

/* ---- what is in force ---- */

/* management.md 3.4, measured. */
START_TEST(test_policy_operator_policy_and_argument)
{
	make_queue_with("q", "x-max-length=20");
	put("p", "", "max-length=100 message-ttl=60000");
	put_operator("o", "", "max-length=50");
	ck_assert_str_eq(effective_of("q"), "max-length=50 message-ttl=60000");
	ck_assert_uint_eq(settings("q")->length_max, 20);
	ck_assert_uint_eq(settings("q")->ttl_ms, 60000);
	ck_assert_str_eq(effective(find_exchange("amq.topic")->policies),
			 "max-length=50 message-ttl=60000");
}
END_TEST

/* Of the policy (p), the operator policy (o) and both. */
START_TEST(test_policies_are_joined)
{
	static const struct {
		const char *policy;
		const char *operator_policy;
		const char *both;
	} rows[] = {
		{"max-length=5", "expires=6", "max-length=5 expires=6"},
		{"message-ttl=5", "message-ttl=6", "message-ttl=5"},
		{"message-ttl=6", "message-ttl=5", "message-ttl=5"},
		{"expires=6", "expires=5", "expires=5"},
		{"max-length-bytes=0", "max-length-bytes=5", "max-length-bytes=0"},
		{"delayed-retry-max=6", "delayed-retry-max=5", "delayed-retry-max=5"},
		{"delayed-retry-min=6", "delayed-retry-min=5", "delayed-retry-min=6"},
		{"target-group-size=3", "target-group-size=5", "target-group-size=5"},
		{"delivery-limit=3", "delivery-limit=5", "delivery-limit=3"},
		{"delivery-limit=-1", "delivery-limit=5", "delivery-limit=5"},
		{"delivery-limit=5", "delivery-limit=-1", "delivery-limit=5"},
		{"delivery-limit=-7", "delivery-limit=-1", "delivery-limit=-1"},
		{"overflow=drop-head", "overflow=reject-publish", "overflow=reject-publish"},
		{"queue-version=2", "queue-version=1", "queue-version=1"},
		{"delayed-retry-type=a", "delayed-retry-type=b", "delayed-retry-type=b"},
		{"member-placement-tag=a", "member-placement-tag=b", "member-placement-tag=b"},
		{"ha-mode=all max-length=3", "max-length=4 ha-mode=exactly expires=1",
		 "ha-mode=exactly max-length=3 expires=1"},
	};

	make_queue("q");
	for (size_t i = 0; i < countof(rows); i++) {
		put("p", "", rows[i].policy);
		ck_assert_str_eq(effective_of("q"), rows[i].policy);
		put_operator("o", "", rows[i].operator_policy);
		ck_assert_str_eq(effective_of("q"), rows[i].both);
		take_away(POLICY_USER, "p");
		ck_assert_str_eq(effective_of("q"), rows[i].operator_policy);
		take_away(POLICY_OPERATOR, "o");
		ck_assert_str_eq(effective_of("q"), "");
	}
}
END_TEST

START_TEST(test_arguments_and_policies_numbers)
{
	const struct queue_settings *s;

	make_queue_with("low", "x-message-ttl=2 x-expires=2 x-max-length=2 x-max-length-bytes=2 "
			       "x-delivery-limit=2 x-consumer-timeout=2");
	make_queue_with("high", "x-message-ttl=4 x-expires=4 x-max-length=4 x-max-length-bytes=4 "
				"x-delivery-limit=4 x-consumer-timeout=4");
	make_queue_with("none", "x-delivery-limit=-1");
	put("p", "",
	    "message-ttl=3 expires=3 max-length=3 max-length-bytes=3 delivery-limit=3 "
	    "consumer-timeout=3");
	for (uint64_t i = 0; i < 3; i++) {
		static const char *const names[] = {"low", "high", "none"};
		uint64_t expected = i == 0 ? 2 : 3;

		s = settings(names[i]);
		ck_assert_uint_eq(s->ttl_ms, expected);
		ck_assert_uint_eq(s->expires_ms, expected);
		ck_assert_uint_eq(s->length_max, expected);
		ck_assert_uint_eq(s->octets_max, expected);
		ck_assert_uint_eq(s->delivery_limit, expected);
		ck_assert_uint_eq(s->consumer_timeout_ms, expected);
	}
	put("p", "", "delivery-limit=-1");
	ck_assert_uint_eq(settings("low")->delivery_limit, 2);
	ck_assert_uint_eq(settings("none")->delivery_limit, UINT64_MAX);
}
END_TEST

START_TEST(test_arguments_and_policies_words)
{
	make_queue("plain");
	make_queue_with("own", "x-dead-letter-exchange=a x-dead-letter-routing-key=b "
			       "x-overflow=reject-publish");
	make_queue_with("quorum", "x-queue-type=quorum x-overflow=reject-publish");
	make_queue_with("half", "x-dead-letter-exchange=a");
	put("p", "",
	    "dead-letter-exchange=c dead-letter-routing-key=d overflow=reject-publish-dlx");
	ck_assert(bytes_equal(settings("plain")->dead_exchange, BYTES("c")));
	ck_assert(bytes_equal(settings("plain")->dead_key, BYTES("d")));
	ck_assert_int_eq(settings("plain")->overflow, OVERFLOW_REJECT_DEAD_LETTER);
	ck_assert(bytes_equal(settings("own")->dead_exchange, BYTES("a")));
	ck_assert(bytes_equal(settings("own")->dead_key, BYTES("b")));
	ck_assert_int_eq(settings("own")->overflow, OVERFLOW_REJECT);
	/* each by itself */
	ck_assert(bytes_equal(settings("half")->dead_exchange, BYTES("a")));
	ck_assert(bytes_equal(settings("half")->dead_key, BYTES("d")));
	/* there the policy wins, and is taken for drop-head */
	ck_assert_int_eq(settings("quorum")->overflow, OVERFLOW_DROP_HEAD);
	put_operator("o", "", "overflow=drop-head");
	ck_assert_int_eq(settings("plain")->overflow, OVERFLOW_DROP_HEAD);
	ck_assert_int_eq(settings("own")->overflow, OVERFLOW_REJECT);
	put("p", "", "dead-letter-exchange=e");
	ck_assert(bytes_equal(settings("plain")->dead_exchange, BYTES("e")));
	ck_assert(!settings("plain")->has_dead_key);
}
END_TEST

/* Of what a policy says nothing, the arguments stand. */
START_TEST(test_removal_brings_everything_back)
{
	make_queue("plain");
	make_queue_with("own", "x-max-length=20 x-max-priority=3");
	put("p", "", "max-length=10 expires=5 dead-letter-exchange=x");
	put_operator("o", "^own", "max-length=1");
	ck_assert_uint_eq(settings("own")->length_max, 1);
	ck_assert_uint_eq(settings("own")->priority_max, 3);
	take_away(POLICY_OPERATOR, "o");
	ck_assert_uint_eq(settings("own")->length_max, 10);
	take_away(POLICY_USER, "p");
	ck_assert_uint_eq(settings("own")->length_max, 20);
	ck_assert_uint_eq(settings("own")->expires_ms, UINT64_MAX);
	ck_assert(!settings("own")->dead_letters);
	ck_assert_ptr_eq(settings("plain"), &queue_settings_plain);
}
END_TEST

/* ---- exchanges ---- */

START_TEST(test_alternate_exchange)
{
	struct exchange *x = make_exchange("x", "topic");
	struct exchange *own = make_with_alternate("own", "fanout", "amq.fanout");
	struct queue *q = make_queue("q");
	uint64_t version;

	bind_queue(find_exchange("amq.direct"), q, "k", no_bytes());
	ck_assert_uint_eq(route_key(x, "k"), 0);
	version = vhost->routing_version;
	put("p", "", "alternate-exchange=amq.direct");
	ck_assert_uint_gt(vhost->routing_version, version);
	ck_assert_uint_eq(route_key(x, "k"), 1);
	ck_assert(route_has(q));
	/* an argument wins */
	ck_assert(bytes_equal(own->alternate, BYTES("amq.fanout")));
	/* new ones, and those that each vhost has */
	ck_assert_uint_eq(route_key(make_exchange("y", "direct"), "k"), 1);
	ck_assert_uint_eq(route_key(find_exchange("amq.headers"), "k"), 1);
	/* but never from the default exchange */
	ck_assert_uint_eq(route_key(vhost->default_exchange, "k"), 0);
	ck_assert_str_eq(of_exchange(""), "p -");
	version = vhost->routing_version;
	put("p", "", "alternate-exchange=amq.direct max-length=1");
	ck_assert_uint_eq(vhost->routing_version, version);
	take_away(POLICY_USER, "p");
	ck_assert_uint_gt(vhost->routing_version, version);
	ck_assert_uint_eq(route_key(x, "k"), 0);
	ck_assert_uint_eq(x->alternate.n, 0);
	ck_assert(bytes_equal(own->alternate, BYTES("amq.fanout")));
}
END_TEST

/* What a topic exchange remembers of a key goes too. */
START_TEST(test_alternate_exchange_and_the_cache)
{
	struct exchange *x = make_exchange("x", "topic");
	struct queue *q = make_queue("q");

	bind_queue(x, make_queue("r"), "other", no_bytes());
	bind_queue(find_exchange("amq.fanout"), q, "", no_bytes());
	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(route_key(x, "k"), 0);
	put_for("exchanges", "p", "^x$", "alternate-exchange=amq.fanout");
	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(route_key(x, "k"), 1);
	take_away(POLICY_USER, "p");
	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(route_key(x, "k"), 0);
}
END_TEST

/* ---- at random ---- */

/* After each step broker_check() matches everything anew. */
START_TEST(test_random_changes)
{
	static const char *const patterns[] = {"", "^q1", "q", "5$", "x", "nothing"};
	static const char *const definitions[] = {
		"max-length=5",	    "queue-mode=lazy",	      "ha-mode=all",	"max-age=7D",
		"delivery-limit=5", "max-in-memory-length=2", "queue-version=1"};
	uint64_t random = 1;

	for (unsigned round = 0; round < 3000; round++) {
		unsigned r;
		char name[3] = {'q', (char)('0' + round % 10), '\0'};
		struct queue *q = queue_find(vhost, bytes_str(name));
		enum policy_kind kind;
		struct policy_spec spec;

		random = random * 6364136223846793005U + 1442695040888963407U;
		r = (unsigned)(random >> 33);
		kind = r & 1 ? POLICY_OPERATOR : POLICY_USER;
		if (q == NULL)
			make_queue_with(name, r & 2 ? "" : "x-queue-type=quorum x-max-length=3");
		else if (r % 16 == 5)
			queue_delete(q);
		spec = policy_spec_of(name, patterns[(r >> 4) % 6], definitions[(r >> 8) % 7]);
		spec.priority = (r >> 12) % 4;
		spec.apply_to =
			bytes_str(policy_apply_to_name((enum policy_apply_to)((r >> 16) % 6)));
		if (policy_find(vhost, kind, spec.name) != NULL && (r >> 20) % 2)
			take_away(kind, name);
		else if (policy_check(kind, &spec) == NULL)
			policy_put(vhost, kind, &spec);
		broker_check(broker);
		broker_reap(broker);
	}
}
END_TEST

TESTS_WITH("policy", policy_set_up, model_tear_down, test_patterns_are_not_anchored,
	   test_the_highest_priority_applies, test_of_two_alike_the_first_by_name_applies,
	   test_apply_to, test_a_key_that_the_type_cannot_do, test_new_ones_get_it,
	   test_exclusive_queues_take_part, test_other_vhosts_are_left_alone,
	   test_a_deleted_queue_has_none, test_a_vhost_takes_its_policies_along,
	   test_listed_by_rank, test_policy_operator_policy_and_argument, test_policies_are_joined,
	   test_arguments_and_policies_numbers, test_arguments_and_policies_words,
	   test_removal_brings_everything_back, test_alternate_exchange,
	   test_alternate_exchange_and_the_cache, test_random_changes)
