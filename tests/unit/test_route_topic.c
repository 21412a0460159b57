/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topic exchanges: the table of amqp.md 5.7, the trie against a naive matcher on random patterns, work
 * that stays polynomial, and the cache.
 */
/* Before the fixture, whose names its inline functions use as well. */
#include "broker/route.h"

#include "model_fixture.h"
#include "util/clock.h"

static struct exchange *x;

static void
set_up(void)
{
	model_set_up();
	x = make_exchange("x", "topic");
}

static bool
matches(const char *pattern, const char *key)
{
	struct queue *q = make_queue("q");
	bool found;

	bind_queue(x, q, pattern, no_bytes());
	exchange_check(x);
	found = route_key(x, key) == 1;
	queue_delete(q);
	broker_reap(broker);
	ck_assert_ptr_null(x->trie);
	return found;
}

static const struct {
	const char *pattern;
	const char *key;
	bool expected;
} rows[] = {
	/* words between dots, empty ones too; the empty key has none */
	{"a..b", "a..b", true},
	{"a.*.b", "a..b", true},
	{"a.b", "a..b", false},
	{"*.*.*", "a..b", true},
	{"*.*", ".", true},
	{"*.*", "", false},
	{"*.*", "a", false},
	{"*", "", false},
	{"*", "a", true},
	{"*", "a.b", false},
	{"*", ".", false},
	{"a.*", "a.", true},
	{"a.*", "a", false},
	{"a.", "a.", true},
	{"a.", "a", false},
	{"a", "a.", false},
	{".", ".", true},
	{".", "", false},
	{"..", ".", false},
	/* any number of words */
	{"#", "", true},
	{"#", "a", true},
	{"#", ".", true},
	{"#", "a.b.c", true},
	{"a.#.b", "a.b", true},
	{"a.#.b", "a..b", true},
	{"a.#.b", "a.x.y.b", true},
	{"a.#.b", "a.x.y.c", false},
	{"a.#.b", "a", false},
	{"#.#", "", true},
	{"#.#", "a", true},
	{"#.#", "a.b.c", true},
	{"a.#", "a", true},
	{"a.#", "a.", true},
	{"a.#", "a.b.c", true},
	{"a.#", "ab", false},
	{"a.#", "", false},
	{"#.a", "a", true},
	{"#.a", "b.a.a", true},
	{"#.a", "a.b", false},
	{"#.", "a.", true},
	{"#.", "", false},
	{"*.#", "", false},
	{"*.#", "a", true},
	{"#.*", "a.b", true},
	{"#.*", "", false},
	{"#.*.#", "", false},
	{"#.*.#", ".", true},
	{"#.a.#.a.#", "a", false},
	{"#.a.#.a.#", "a.a", true},
	{"#.a.#.a.#", "b.a.b.a.b", true},
	/* wildcards only as whole words */
	{"a*", "ab", false},
	{"a*", "a*", true},
	{"#b", "b", false},
	{"#b", "#b", true},
	{"**", "a", false},
	{"##", "a", false},
	{"a.*b", "a.xb", false},
	/* wildcards in a key mean nothing */
	{"a", "*", false},
	{"a", "#", false},
	{"*", "#", true},
	/* the empty pattern */
	{"", "", true},
	{"", "a", false},
	{"", ".", false},
	/* octets */
	{"A", "a", false},
	{"a.B", "a.B", true},
};

START_TEST(test_topic_table)
{
	for (size_t i = 0; i < countof(rows); i++)
		ck_assert_msg(matches(rows[i].pattern, rows[i].key) == rows[i].expected,
			      "pattern '%s', key '%s'", rows[i].pattern, rows[i].key);
}
END_TEST

START_TEST(test_topic_longest_keys)
{
	char dots[256];
	char stars[256];
	char word[256];

	memset(dots, '.', 255);
	memset(word, 'w', 255);
	for (size_t i = 0; i < 255; i++)
		stars[i] = i % 2 ? '.' : '*';
	dots[255] = stars[255] = word[255] = '\0';
	ck_assert(matches(dots, dots));
	ck_assert(matches("#", dots));
	ck_assert(matches(word, word));
	ck_assert(matches("*", word));
	ck_assert(!matches(stars, dots));
	dots[127] = '\0';
	ck_assert(matches(stars, dots));
}
END_TEST

/* ---- against a naive matcher ---- */

static size_t
word_size(const char *text)
{
	return strcspn(text, ".");
}

/* What is behind the first word; NULL behind the last. */
static const char *
behind_word(const char *text)
{
	text += word_size(text);
	return *text == '.' ? text + 1 : NULL;
}

/* Word by word, trying everything; NULL stands for no words left. */
static bool
naive(const char *pattern, const char *key)
{
	if (pattern == NULL)
		return key == NULL;
	if (word_size(pattern) == 1 && *pattern == '#')
		return naive(behind_word(pattern), key) ||
		       (key != NULL && naive(pattern, behind_word(key)));
	if (key == NULL)
		return false;
	if (!(word_size(pattern) == 1 && *pattern == '*') &&
	    (word_size(pattern) != word_size(key) || memcmp(pattern, key, word_size(key)) != 0))
		return false;
	return naive(behind_word(pattern), behind_word(key));
}

static bool
naive_match(const char *pattern, const char *key)
{
	return naive(*pattern == '\0' ? NULL : pattern, *key == '\0' ? NULL : key);
}

static unsigned seed;

static unsigned
random_below(unsigned n)
{
	seed = seed * 1103515245U + 12345U;
	return (seed >> 16) % n;
}

static void
random_text(char *text, const char *const *words, unsigned n_words)
{
	unsigned n = random_below(7);
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < n; i++) {
		const char *word = words[random_below(n_words)];

		used += (size_t)snprintf(text + used, 32 - used, "%s%s", i == 0 ? "" : ".", word);
	}
}

#define PATTERNS 60

struct bound {
	char pattern[32];
	struct queue *queue; // one for each pattern
	bool present;
};

static void
compare_all(const struct bound *bound, const char *key)
{
	uint32_t expected = 0;

	route_key(x, key);
	for (size_t i = 0; i < PATTERNS; i++) {
		bool match = bound[i].present && naive_match(bound[i].pattern, key);

		expected += match;
		ck_assert_msg(route_has(bound[i].queue) == match, "pattern '%s', key '%s'",
			      bound[i].pattern, key);
	}
	ck_assert_uint_eq(route.count, expected);
}

/* Patterns come and go; each key is asked three times, the last time out of the cache. */
START_TEST(test_topic_agrees_with_a_naive_matcher)
{
	static const char *const words[] = {"*", "#", "#", "a", "b", "", "a*", "cc"};
	static struct bound bound[PATTERNS];
	const char *wanted = getenv("TEST_SEED");

	seed = wanted != NULL ? (unsigned)strtoul(wanted, NULL, 10)
			      : (unsigned)clock_monotonic_us();
	printf("TEST_SEED=%u\n", seed);
	fflush(stdout);
	for (size_t i = 0; i < PATTERNS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "q%zu", i);
		bound[i].queue = make_queue(name);
	}
	for (int round = 0; round < 3000; round++) {
		struct bound *one = &bound[random_below(PATTERNS)];
		char key[32];

		if (one->present) {
			unbind_queue(x, one->queue, one->pattern, no_bytes());
		} else {
			random_text(one->pattern, words, countof(words));
			bind_queue(x, one->queue, one->pattern, no_bytes());
		}
		one->present = !one->present;
		exchange_check(x);
		random_text(key, words + 3, countof(words) - 3);
		for (int i = 0; i < 3; i++)
			compare_all(bound, key);
	}
}
END_TEST

/* A matcher that tries everything would need more than 10^30 steps here. */
START_TEST(test_topic_many_hashes_stay_polynomial)
{
	char pattern[256] = "#";
	char key[256] = "a";
	struct queue *q = make_queue("q");

	while (strlen(pattern) < 248)
		strncat(pattern, ".a.#", 5);
	while (strlen(key) < 250)
		strncat(key, ".a", 3);
	strncat(key, ".b", 3);
	for (size_t i = 1; i + 2 <= strlen(pattern); i += 4) {
		struct binding_spec spec = {.source = x, .queue = q, .key = bytes_of(pattern, i)};

		binding_add(&spec);
	}
	ck_assert_uint_eq(route_key(x, key), 1);
	unbind_queue(x, q, "#", no_bytes());
	ck_assert_uint_eq(route_key(x, key), 1);
	queue_delete(q);
	ck_assert(!matches("#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.c", key));
	ck_assert(matches("#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.#.b", key));
	ck_assert(matches("*.#.*.#.*.#.*.#.*.#.*.#.*.#.*.#.*.#.*.#.*.#.*.#.*.#.*.b", key));
}
END_TEST

START_TEST(test_topic_finds_each_queue_once)
{
	struct queue *q = make_queue("q");

	bind_queue(x, q, "#", no_bytes());
	bind_queue(x, q, "#.#", no_bytes());
	bind_queue(x, q, "a.*", no_bytes());
	bind_queue(x, q, "*.b", no_bytes());
	bind_queue(x, q, "a.b", no_bytes());
	ck_assert_uint_eq(route_key(x, "a.b"), 1);
	exchange_check(x);
}
END_TEST

START_TEST(test_topic_nodes_go_with_their_bindings)
{
	struct queue *q = make_queue("q");

	bind_queue(x, q, "a.b.c", no_bytes());
	bind_queue(x, q, "a.b", no_bytes());
	bind_queue(x, q, "a.*.#", no_bytes());
	unbind_queue(x, q, "a.b", no_bytes());
	exchange_check(x);
	ck_assert_uint_eq(route_key(x, "a.b.c"), 1);
	unbind_queue(x, q, "a.*.#", no_bytes());
	exchange_check(x);
	ck_assert_uint_eq(route_key(x, "a.b"), 0);
	ck_assert_uint_eq(route_key(x, "a.b.c"), 1);
	unbind_queue(x, q, "a.b.c", no_bytes());
	ck_assert_ptr_null(x->trie);
}
END_TEST

/* ---- the cache ---- */

static bool
is_cached(const struct exchange *exchange, const char *key)
{
	struct bytes view = bytes_str(key);

	return route_cache_get(exchange, view, map_hash(view), &route);
}

/* Routes until it is remembered; returns how many queues that gives. */
static uint32_t
route_cached(struct exchange *exchange, const char *key)
{
	uint32_t count = route_key(exchange, key);

	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(route_key(exchange, key), count);
	ck_assert(is_cached(exchange, key));
	ck_assert_uint_eq(route.count, count);
	return count;
}

START_TEST(test_topic_cache_takes_a_key_the_second_time)
{
	bind_queue(x, make_queue("q"), "k.*", no_bytes());
	route_key(x, "k.1");
	ck_assert(!is_cached(x, "k.1"));
	route_key(x, "k.1");
	ck_assert(is_cached(x, "k.1"));
	ck_assert(!is_cached(x, "k.2"));
}
END_TEST

START_TEST(test_topic_cache_sees_changes)
{
	struct queue *a = make_queue("a");
	struct queue *b = make_queue("b");

	bind_queue(x, a, "k.*", no_bytes());
	ck_assert_uint_eq(route_cached(x, "k.1"), 1);
	bind_queue(x, b, "#", no_bytes());
	ck_assert(!is_cached(x, "k.1"));
	ck_assert_uint_eq(route_cached(x, "k.1"), 2);
	unbind_queue(x, a, "k.*", no_bytes());
	ck_assert_uint_eq(route_cached(x, "k.1"), 1);
	ck_assert_uint_eq(route_has(b), 1);
	bind_queue(x, a, "k.#", no_bytes());
	ck_assert_uint_eq(route_cached(x, "k.1"), 2);
	queue_delete(b);
	broker_reap(broker);
	ck_assert_uint_eq(route_cached(x, "k.1"), 1);
	ck_assert_uint_eq(route_has(a), 1);
}
END_TEST

/* An empty result is remembered too, and forgotten. */
START_TEST(test_topic_cache_of_nothing_sees_a_bind)
{
	struct queue *q = make_queue("q");

	bind_queue(x, q, "other", no_bytes());
	ck_assert_uint_eq(route_cached(x, "k"), 0);
	ck_assert_uint_eq(route_cached(x, ""), 0);
	bind_queue(x, q, "k", no_bytes());
	ck_assert_uint_eq(route_cached(x, "k"), 1);
}
END_TEST

/* The whole way is remembered, so a change far behind must count. */
START_TEST(test_topic_cache_sees_changes_behind_other_exchanges)
{
	struct exchange *middle = make_exchange("middle", "direct");
	struct exchange *with_alternate = make_with_alternate("w", "topic", "late");
	struct queue *q = make_queue("q");
	struct exchange *late;

	bind_exchange(x, middle, "#");
	ck_assert_uint_eq(route_cached(x, "k"), 0);
	bind_queue(middle, q, "k", no_bytes());
	ck_assert_uint_eq(route_cached(x, "k"), 1);
	bind_queue(x, make_queue("other"), "other", no_bytes());
	exchange_delete(middle);
	ck_assert_uint_eq(route_cached(x, "k"), 0);

	bind_queue(with_alternate, q, "other", no_bytes());
	ck_assert_uint_eq(route_cached(with_alternate, "k"), 0);
	late = make_exchange("late", "fanout");
	ck_assert(!is_cached(with_alternate, "k"));
	bind_queue(late, q, "", no_bytes());
	ck_assert_uint_eq(route_cached(with_alternate, "k"), 1);
	exchange_delete(late);
	ck_assert_uint_eq(route_cached(with_alternate, "k"), 0);
}
END_TEST

/* What headers decide is looked at again for each message. */
START_TEST(test_topic_cache_leaves_headers_alone)
{
	struct exchange *h = make_exchange("h", "headers");
	struct queue *q = make_queue("q");
	struct table table;

	table_start(&table);
	table_put_int(&table.writer, BYTES("a"), 1);
	bind_queue(h, q, "", table_view(&table));
	bind_exchange(x, h, "#");
	for (int i = 0; i < 5; i++) {
		ck_assert_uint_eq(route_key(x, "k"), 0);
		ck_assert(route.uncacheable);
		ck_assert_uint_eq(route_with_headers(x, BYTES("k"), table_view(&table)), 1);
	}
	ck_assert(!is_cached(x, "k"));
}
END_TEST

/* Far more keys than it holds, with few queues and with many. */
START_TEST(test_topic_cache_is_bounded)
{
	size_t before;
	size_t kept = 0;
	char name[32];

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		bind_queue(x, make_queue(name), i < 1 ? "#" : "k.#", no_bytes());
	}
	before = mem_held();
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "k.%d", i);
		ck_assert_uint_eq(route_cached(x, name), 200);
		ck_assert_uint_eq(route_cached(x, name + 2), 1);
	}
	ck_assert_uint_le(mem_held(), before + ((size_t)2 << 20));
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		ck_assert_uint_eq(route_cached(x, name), 1);
	}
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		kept += is_cached(x, name);
	}
	ck_assert_uint_ge(kept, 1);
	ck_assert_uint_le(kept, 4096);
	ck_assert_uint_le(mem_held(), before + ((size_t)2 << 20));
}
END_TEST

START_TEST(test_topic_large_results_are_not_cached)
{
	char name[32];

	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		bind_queue(x, make_queue(name), "#", no_bytes());
	}
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(route_key(x, "k"), 300);
	ck_assert(!is_cached(x, "k"));
}
END_TEST

/* A route that is smaller than a remembered result grows. */
START_TEST(test_topic_cache_fills_a_new_route)
{
	char name[32];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		bind_queue(x, make_queue(name), "#", no_bytes());
	}
	ck_assert_uint_eq(route_cached(x, "k"), 100);
	route_fini(&route);
	ck_assert_uint_eq(route_key(x, "k"), 100);
	ck_assert_uint_eq(route_has(queue_find(vhost, BYTES("q99"))), 1);
}
END_TEST

TESTS_WITH("route_topic", set_up, model_tear_down, test_topic_table, test_topic_longest_keys,
	   test_topic_agrees_with_a_naive_matcher, test_topic_many_hashes_stay_polynomial,
	   test_topic_finds_each_queue_once, test_topic_nodes_go_with_their_bindings,
	   test_topic_cache_takes_a_key_the_second_time, test_topic_cache_sees_changes,
	   test_topic_cache_of_nothing_sees_a_bind,
	   test_topic_cache_sees_changes_behind_other_exchanges,
	   test_topic_cache_leaves_headers_alone, test_topic_cache_is_bounded,
	   test_topic_large_results_are_not_cached, test_topic_cache_fills_a_new_route)
