/* SPDX-License-Identifier: Apache-2.0 */
/* What policies may say: each key with values that it takes and one that it does not, and the texts. */
#include "unit/policy_fixture.h"

static const char *
check(enum policy_kind kind, const char *definition)
{
	struct policy_spec spec = policy_spec_of("p", "", definition);

	return policy_check(kind, &spec);
}

static const struct {
	const char *key;
	const char *good[4];
	const char *bad[4];
	const char *what;      // of the text
	bool is_for_operators; // an operator policy may have it
} keys[] = {
	{"message-ttl", {"0", "9000000000"}, {"-1", "true", "a"}, "message TTL", true},
	{"expires", {"1"}, {"0", "-1", "a"}, "queue expiry", true},
	{"max-length", {"0"}, {"-1", "a"}, "maximum length", true},
	{"max-length-bytes", {"0"}, {"-1", "a"}, "maximum length in bytes", true},
	{"overflow",
	 {"drop-head", "reject-publish", "reject-publish-dlx"},
	 {"drop", "1", "true"},
	 "overflow value",
	 true},
	{"dead-letter-exchange", {"x"}, {"1", "true"}, "dead letter exchange name", false},
	{"dead-letter-routing-key", {"k"}, {"1"}, "dead letter routing key", false},
	{"dead-letter-strategy",
	 {"at-most-once", "at-least-once"},
	 {"never", "1"},
	 "dead letter strategy",
	 false},
	{"delivery-limit", {"-1", "0", "20"}, {"a", "true"}, "delivery limit", true},
	{"consumer-timeout", {"0"}, {"-1", "a"}, "consumer timeout", false},
	{"consumer-disconnected-timeout", {"0"}, {"-1"}, "consumer disconnected timeout", false},
	{"delayed-retry-type", {"all"}, {"1"}, "delayed retry type", true},
	{"delayed-retry-min", {"0"}, {"-1"}, "delayed retry minimum", true},
	{"delayed-retry-max", {"0"}, {"-1"}, "delayed retry maximum", true},
	{"retry-max", {"0", "2147483647"}, {"-1", "2147483648", "x"}, "number of retries", true},
	{"retry-initial", {"0", "315360000000"}, {"-1", "315360000001"}, "retry interval", false},
	{"retry-multiplier", {"1", "1000"}, {"0", "1001", "x"}, "retry multiplier", false},
	{"retry-max-interval", {"0", "5"}, {"-1", "x"}, "retry interval", false},
	{"retry-jitter", {"0", "1"}, {"2", "-1", "x"}, "retry jitter", false},
	{"retry-exhausted", {"dead-letter", "park", "drop"}, {"x", "1"}, "end of retries", false},
	{"queue-mode", {"default", "lazy"}, {"other", "1"}, "queue-mode value", false},
	{"queue-version", {"1", "2"}, {"0", "3", "a"}, "queue-version value", true},
	{"max-in-memory-length", {"0"}, {"-1"}, "maximum memory in bytes", true},
	{"max-in-memory-bytes", {"0"}, {"-1"}, "maximum memory in bytes", true},
	{"max-age", {"7D", "01Y", "10s"}, {"7", "D", "0D", "7x"}, "max age", false},
	{"stream-max-segment-size-bytes",
	 {"0", "3000000000"},
	 {"-1", "3000000001"},
	 "segment size",
	 false},
	{"stream-filter-size-bytes", {"16", "255"}, {"15", "256"}, "filter size", false},
	{"message-deduplication", {"true"}, {"1", "a"}, "boolean", false},
	{"cache-size", {"1", "16777216"}, {"0", "16777217", "a"}, "cache size", false},
	{"cache-ttl", {"1", "9000000000"}, {"0", "-1", "a"}, "cache TTL", false},
	{"deduplication-header", {"h"}, {"1"}, "deduplication header name", false},
	{"cache-persistence", {"memory", "disk"}, {"ram", "1"}, "cache persistence", false},
	{"x-message-deduplication", {"true"}, {"1", "a"}, "boolean", false},
	{"x-cache-size", {"1", "16777216"}, {"0", "16777217", "a"}, "cache size", false},
	{"x-cache-ttl", {"1", "9000000000"}, {"0", "-1", "a"}, "cache TTL", false},
	{"x-deduplication-header", {"h"}, {"1"}, "deduplication header name", false},
	{"x-cache-persistence", {"memory", "disk"}, {"ram", "1"}, "cache persistence", false},
	{"alternate-exchange", {"x"}, {"1"}, "alternate exchange name", false},
	{"queue-leader-locator", {"balanced"}, {"1"}, "queue leader locator value", false},
	{"queue-master-locator", {"min-masters"}, {"1"}, "queue master locator value", true},
	{"initial-cluster-size", {"0"}, {"-1"}, "cluster size", false},
	{"target-group-size", {"0"}, {"-1"}, "target group size", true},
	{"member-placement-tag", {"a", "1", "true"}, {NULL}, NULL, true},
	{"ha-mode", {"all", "1"}, {NULL}, NULL, true},
	{"ha-params", {"2"}, {NULL}, NULL, true},
	{"ha-sync-mode", {"automatic"}, {NULL}, NULL, true},
	{"ha-sync-batch-size", {"1"}, {NULL}, NULL, true},
	{"ha-promote-on-shutdown", {"always"}, {NULL}, NULL, true},
	{"ha-promote-on-failure", {"always"}, {NULL}, NULL, true},
	{"federation-upstream", {"u"}, {NULL}, NULL, false},
	{"federation-upstream-set", {"all"}, {NULL}, NULL, false},
	{"federation-upstream-pattern", {"u"}, {NULL}, NULL, false},
	{"shards-per-node", {"2"}, {NULL}, NULL, false},
	{"routing-key", {"k"}, {NULL}, NULL, false},
};

static const char *const known[] = {
#define KEY(id, name, ...) name,
#include "broker/policy.def"
};

START_TEST(test_no_key_is_left_out_here)
{
	ck_assert_uint_eq(countof(known), countof(keys));
	for (size_t i = 0; i < countof(known); i++)
		ck_assert_str_eq(known[i], keys[i].key);
}
END_TEST

START_TEST(test_good_values)
{
	char text[128];

	for (size_t i = 0; i < countof(keys); i++) {
		for (size_t n = 0; n < 4 && keys[i].good[n] != NULL; n++) {
			snprintf(text, sizeof(text), "%s=%s", keys[i].key, keys[i].good[n]);
			ck_assert_msg(check(POLICY_USER, text) == NULL, "%s", text);
			ck_assert_msg((check(POLICY_OPERATOR, text) == NULL) ==
					      keys[i].is_for_operators,
				      "%s", text);
		}
	}
}
END_TEST

static const char *
in_erlang(const char *value)
{
	static char text[64];
	bool is_bare = strspn(value, "-0123456789") == strlen(value) || strcmp(value, "true") == 0;

	snprintf(text, sizeof(text), is_bare ? "%s" : "<<\"%s\">>", value);
	return text;
}

START_TEST(test_bad_values)
{
	char text[128];
	char expected[128];

	for (size_t i = 0; i < countof(keys); i++) {
		for (size_t n = 0; n < 4 && keys[i].bad[n] != NULL; n++) {
			struct policy_spec spec;

			snprintf(text, sizeof(text), "%s=%s", keys[i].key, keys[i].bad[n]);
			spec = policy_spec_of("p", "", text);
			snprintf(expected, sizeof(expected), "%s is not a valid %s",
				 in_erlang(keys[i].bad[n]), keys[i].what);
			ck_assert_str_eq(policy_check(POLICY_USER, &spec), expected);
			if (keys[i].is_for_operators)
				ck_assert_str_eq(policy_check(POLICY_OPERATOR, &spec), expected);
		}
	}
}
END_TEST

START_TEST(test_keys_for_policies_only)
{
	ck_assert_str_eq(check(POLICY_OPERATOR, "max-length=1 dead-letter-exchange=x"),
			 "[{<<\"dead-letter-exchange\">>,<<\"x\">>}] are not recognised policy "
			 "settings");
}
END_TEST

/* An integer of any width is one; a fraction is none. */
START_TEST(test_numbers)
{
	struct table table;
	struct policy_spec spec = {.name = BYTES("p")};

	table_start(&table);
	table_put_int(&table.writer, BYTES("max-length"), 5);
	spec.definition = table_view(&table);
	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
	spec.definition = BYTES("\x0a"
				"max-lengthd\x3f\xf8\0\0\0\0\0\0");
	ck_assert_str_eq(policy_check(POLICY_USER, &spec), "1.5 is not a valid maximum length");
	spec.definition = BYTES("\x0a"
				"max-lengthV");
	ck_assert_str_eq(policy_check(POLICY_USER, &spec), "null is not a valid maximum length");
}
END_TEST

START_TEST(test_unknown_keys)
{
	ck_assert_str_eq(check(POLICY_USER, "foo=1"),
			 "[{<<\"foo\">>,1}] are not recognised policy settings");
	ck_assert_str_eq(
		check(POLICY_USER, "foo=1 max-length=1 x-max-length=a\"b"),
		"[{<<\"foo\">>,1},{<<\"x-max-length\">>,<<\"a\\\"b\">>}] are not recognised policy "
		"settings");
	/* RabbitMQ's order: values of known keys are looked at before */
	ck_assert_str_eq(check(POLICY_USER, "foo=1 max-length=a expires=0"),
			 "<<\"a\">> is not a valid maximum length");
	ck_assert_str_eq(check(POLICY_USER, "max-length=1 expires=0 max-length=1"),
			 "[<<\"max-length\">>] duplicate keys not allowed");
}
END_TEST

START_TEST(test_nested_values_are_shown)
{
	struct table table;
	struct policy_spec spec = {.name = BYTES("p")};
	uint8_t *begun;
	uint8_t *inner;

	table_start(&table);
	begun = table_begin(&table.writer, BYTES("foo"));
	table_put_bool(&table.writer, BYTES("a"), false);
	inner = array_begin(&table.writer, BYTES("b"));
	array_put_string(&table.writer, BYTES("c"));
	array_put_string(&table.writer, BYTES("d"));
	table_end(&table.writer, inner);
	table_end(&table.writer, begun);
	spec.definition = table_view(&table);
	ck_assert_str_eq(policy_check(POLICY_USER, &spec),
			 "[{<<\"foo\">>,#{<<\"a\">> => false,<<\"b\">> => "
			 "[<<\"c\">>,<<\"d\">>]}}] are not recognised policy settings");
}
END_TEST

START_TEST(test_no_definition)
{
	ck_assert_str_eq(check(POLICY_USER, ""), "no policy provided");
	ck_assert_str_eq(check(POLICY_OPERATOR, ""), "no policy provided");
}
END_TEST

START_TEST(test_patterns)
{
	struct policy_spec spec = policy_spec_of("p", "(a", "max-length=1");

	ck_assert_str_eq(policy_check(POLICY_USER, &spec),
			 "pattern should be regular expression but is invalid: missing closing "
			 "parenthesis at offset 2");
	spec.pattern = BYTES("^(?!amq\\.)(?<=x|)");
	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
	spec.pattern = BYTES("");
	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
}
END_TEST

START_TEST(test_apply_to)
{
	static const char *const good[] = {
		"", "all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"};
	struct policy_spec spec = policy_spec_of("p", "", "max-length=1");

	for (size_t i = 0; i < countof(good); i++) {
		spec.apply_to = bytes_str(good[i]);
		ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
		ck_assert_str_eq(
			policy_apply_to_name(policy_put(vhost, POLICY_USER, &spec)->apply_to),
			i == 0 ? "all" : good[i]);
	}
	spec.apply_to = BYTES("queue");
	ck_assert_str_eq(policy_check(POLICY_USER, &spec),
			 "apply-to 'queue' unrecognised; should be one of: 'queues', "
			 "'classic_queues', 'quorum_queues', 'streams', 'exchanges', or 'all'");
}
END_TEST

START_TEST(test_names_are_as_long_as_those_of_queues)
{
	char name[258] = {0};
	struct policy_spec spec;

	memset(name, 'n', 255);
	spec = policy_spec_of(name, "", "max-length=1");
	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
	name[255] = 'n';
	spec = policy_spec_of(name, "", "max-length=1");
	ck_assert_str_eq(policy_check(POLICY_USER, &spec),
			 "name should be at most 255 bytes, actually was 256");
}
END_TEST

/* A text is cut, and never within a character. */
START_TEST(test_long_texts)
{
	for (size_t shift = 0; shift < 3; shift++) {
		char definition[3000] = "a=";
		struct policy_spec spec;
		const char *text;
		size_t n;

		memset(definition + 2, 'x', shift);
		for (size_t i = 0; i < 900; i++)
			memcpy(definition + 2 + shift + i * 3, "\xe2\x82\xac", 3);
		definition[2 + shift + 2700] = '\0';
		spec = policy_spec_of("p", "", definition);
		text = policy_check(POLICY_USER, &spec);
		n = strlen(text);
		ck_assert_uint_ge(n, 1021);
		ck_assert_uint_le(n, 1023);
		ck_assert_str_eq(text + n - 3, "\xe2\x82\xac");
	}
}
END_TEST

TESTS_WITH("policy_check", policy_set_up, model_tear_down, test_no_key_is_left_out_here,
	   test_good_values, test_bad_values, test_keys_for_policies_only, test_numbers,
	   test_unknown_keys, test_nested_values_are_shown, test_no_definition, test_patterns,
	   test_apply_to, test_names_are_as_long_as_those_of_queues, test_long_texts)
