/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The topic exchange: a trie of the words of its binding keys. A node stands for the words on the way
 * to it; the bindings of exactly these words hang there. A node is there while it has a binding or a
 * child; only the root may be alone, and the trie is there while there is a binding.
 *
 * A routing key is matched by walking the trie like an automaton: the set of nodes that its first n
 * words can lead to, then the set for n + 1 words. A `#` node stays in the set for every word, and is
 * entered without one. A node has one parent, so it enters a set once, but for `#` nodes, which are
 * marked. The work is therefore at most words times nodes, whatever the patterns are.
 *
 * The two sets are linked through the nodes, so matching needs no memory.
 */
#include "route.h"

enum topic_kind {
	TOPIC_ROOT,    // no words yet
	TOPIC_LITERAL, // a word, compared by octets
	TOPIC_STAR,    // `*`: exactly one word
	TOPIC_HASH     // `#`: any number of words
};

struct topic_node {
	struct map_node node;	      // TOPIC_LITERAL: in parent->literals
	struct map literals;	      // struct topic_node by word; owns
	struct topic_node *star;      // owns; NULL when there is none
	struct topic_node *hash;      // owns; NULL when there is none
	struct topic_node *parent;    // NULL for the root
	struct list bindings;	      // struct binding.of_key
	struct topic_node *linked[2]; // in the sets of the present matching, by turns
	uint64_t stamp;		      // TOPIC_HASH: == trie->stamp when it is in the set being made
	uint8_t kind;		      // enum topic_kind
	uint8_t word_size;	      // TOPIC_LITERAL: octets of the word
	uint8_t word[];
};

struct topic_trie {
	struct topic_node *root; // owns
	uint64_t stamp;		 // one for each set made
	size_t nodes;		 // all of them, the root included
};

/* ---- words ---- */

struct words {
	struct bytes rest; // borrows; from the next word on
	bool more;	   // there is a next word, perhaps an empty one
};

/* An empty key has no words; any other has one more than it has dots (amqp.md 5.7). */
static struct words
words_of(struct bytes key)
{
	assert(key.n <= UINT8_MAX);
	return (struct words){.rest = key, .more = key.n != 0};
}

static bool
words_next(struct words *words, struct bytes *word)
{
	struct bytes rest = words->rest;
	size_t n = 0;

	if (!words->more)
		return false;
	while (n < rest.n && rest.p[n] != '.')
		n++;
	*word = bytes_of(rest.p, n);
	words->more = n < rest.n;
	if (words->more)
		n++;
	words->rest = bytes_of(rest.p + n, rest.n - n);
	return true;
}

static enum topic_kind
kind_of(struct bytes word)
{
	if (word.n == 1 && word.p[0] == '*')
		return TOPIC_STAR;
	if (word.n == 1 && word.p[0] == '#')
		return TOPIC_HASH;
	return TOPIC_LITERAL;
}

/* ---- the trie ---- */

static struct topic_node *
node_new(struct topic_trie *trie, struct topic_node *parent, enum topic_kind kind,
	 struct bytes word)
{
	size_t word_size = kind == TOPIC_LITERAL ? word.n : 0;
	struct topic_node *node = slab_alloc(sizeof(*node) + word_size);

	*node = (struct topic_node){
		.parent = parent, .kind = (uint8_t)kind, .word_size = (uint8_t)word_size};
	map_init(&node->literals);
	list_init(&node->bindings);
	if (word_size != 0)
		memcpy(node->word, word.p, word_size);
	trie->nodes++;
	return node;
}

static struct topic_node *
literal_hashed(const struct topic_node *node, struct bytes word, uint64_t hash)
{
	struct map_node *found = map_find_hashed(&node->literals, word, hash);

	return found == NULL ? NULL : container_of(found, struct topic_node, node);
}

/* The child for a word of a binding key. */
static struct topic_node *
child_find(const struct topic_node *node, struct bytes word)
{
	switch (kind_of(word)) {
	case TOPIC_STAR:
		return node->star;
	case TOPIC_HASH:
		return node->hash;
	default:
		return literal_hashed(node, word, map_hash(word));
	}
}

static struct topic_node *
child_add(struct topic_trie *trie, struct topic_node *parent, struct bytes word)
{
	struct topic_node *child = node_new(trie, parent, kind_of(word), word);

	if (child->kind == TOPIC_STAR)
		parent->star = child;
	else if (child->kind == TOPIC_HASH)
		parent->hash = child;
	else
		map_insert(&parent->literals, &child->node, bytes_of(child->word, word.n));
	return child;
}

static void
node_free(struct topic_trie *trie, struct topic_node *node)
{
	struct topic_node *parent = node->parent;

	if (node->kind == TOPIC_STAR)
		parent->star = NULL;
	else if (node->kind == TOPIC_HASH)
		parent->hash = NULL;
	else if (node->kind == TOPIC_LITERAL)
		map_remove(&parent->literals, &node->node);
	map_fini(&node->literals);
	slab_free(node, sizeof(*node) + node->word_size);
	assert(trie->nodes > 0);
	trie->nodes--;
}

static bool
is_empty(const struct topic_node *node)
{
	return list_empty(&node->bindings) && node->literals.count == 0 && node->star == NULL &&
	       node->hash == NULL;
}

static struct topic_trie *
trie_new(void)
{
	struct topic_trie *trie = slab_alloc(sizeof(*trie));

	*trie = (struct topic_trie){0};
	trie->root = node_new(trie, NULL, TOPIC_ROOT, bytes_of(NULL, 0));
	return trie;
}

static void
topic_add(struct exchange *exchange, struct binding *binding)
{
	struct words words = words_of(binding->key);
	struct topic_node *node;
	struct bytes word;

	if (exchange->trie == NULL)
		exchange->trie = trie_new();
	node = exchange->trie->root;
	while (words_next(&words, &word)) {
		struct topic_node *child = child_find(node, word);

		node = child != NULL ? child : child_add(exchange->trie, node, word);
	}
	list_append(&node->bindings, &binding->of_key);
	binding->place = node;
}

static void
topic_remove(struct exchange *exchange, struct binding *binding)
{
	struct topic_trie *trie = exchange->trie;
	struct topic_node *node = binding->place;

	list_remove(&node->bindings, &binding->of_key);
	binding->place = NULL;
	while (node != NULL && is_empty(node)) {
		struct topic_node *parent = node->parent;

		node_free(trie, node);
		node = parent;
	}
	if (trie->nodes > 0)
		return;
	slab_free(trie, sizeof(*trie));
	exchange->trie = NULL;
}

static const struct list *
topic_with_key(const struct exchange *exchange, struct bytes key)
{
	const struct topic_node *node = exchange->trie == NULL ? NULL : exchange->trie->root;
	struct words words = words_of(key);
	struct bytes word;

	while (node != NULL && words_next(&words, &word))
		node = child_find(node, word);
	return node == NULL ? NULL : &node->bindings;
}

/* ---- matching ---- */

struct matching {
	struct topic_node *set; // nodes that the words so far lead to, linked by linked[side]
	unsigned side;		// which of the two links
	uint64_t stamp;		// of this set
};

/* Puts a node into the set, and the `#` nodes below it, which match no words as well. */
static inline void
enter(struct matching *matching, struct topic_node *node)
{
	do {
		if (node->kind == TOPIC_HASH) {
			if (node->stamp == matching->stamp)
				return;
			node->stamp = matching->stamp;
		}
		node->linked[matching->side] = matching->set;
		matching->set = node;
		node = node->hash;
	} while (node != NULL);
}

/* Makes the next set out of the present one. */
static void
step(struct matching *matching, struct bytes word, uint64_t stamp)
{
	uint64_t hash = map_hash(word);
	unsigned side = matching->side;
	struct topic_node *node = matching->set;

	*matching = (struct matching){.side = !side, .stamp = stamp};
	for (; node != NULL; node = node->linked[side]) {
		struct topic_node *literal = literal_hashed(node, word, hash);

		if (literal != NULL)
			enter(matching, literal);
		if (node->star != NULL)
			enter(matching, node->star);
		if (node->kind == TOPIC_HASH)
			enter(matching, node);
	}
}

static void
topic_route(struct exchange *exchange, struct routing *routing)
{
	struct topic_trie *trie = exchange->trie;
	struct words words = words_of(routing->key);
	struct matching matching = {0};
	struct bytes word;

	if (trie == NULL)
		return;
	matching.stamp = ++trie->stamp;
	enter(&matching, trie->root);
	while (matching.set != NULL && words_next(&words, &word))
		step(&matching, word, ++trie->stamp);
	for (struct topic_node *node = matching.set; node != NULL;
	     node = node->linked[matching.side]) {
		const struct binding *binding;

		list_for_each (&node->bindings, binding, struct binding, of_key)
			routing_add(routing, binding);
	}
}

/* ---- checks ---- */

/* The first child in a fixed order: star, hash, literals. */
static const struct topic_node *
first_child(const struct topic_node *node)
{
	if (node->star != NULL)
		return node->star;
	if (node->hash != NULL)
		return node->hash;
	return node->literals.count == 0
		       ? NULL
		       : container_of(map_first(&node->literals), struct topic_node, node);
}

/* The one behind it. */
static const struct topic_node *
next_sibling(const struct topic_node *node)
{
	const struct topic_node *parent = node->parent;
	struct map_node *next;

	if (node->kind == TOPIC_STAR && parent->hash != NULL)
		return parent->hash;
	if (node->kind == TOPIC_LITERAL)
		next = map_next(&parent->literals, &node->node);
	else
		next = map_first(&parent->literals);
	return next == NULL ? NULL : container_of(next, struct topic_node, node);
}

/* The next node of a walk through all, NULL at the end. */
static const struct topic_node *
next_node(const struct topic_node *node)
{
	const struct topic_node *next = first_child(node);

	while (next == NULL && node->parent != NULL) {
		next = next_sibling(node);
		node = node->parent;
	}
	return next;
}

static void
topic_check(const struct exchange *exchange)
{
	const struct topic_trie *trie = exchange->trie;
	const struct binding *binding;
	size_t bindings = 0;
	size_t nodes = 0;

	assert((trie == NULL) == list_empty(&exchange->bindings_out));
	if (trie == NULL)
		return;
	for (const struct topic_node *node = trie->root; node != NULL; node = next_node(node)) {
		assert(!is_empty(node));
		nodes++;
		bindings += node->bindings.count;
		list_for_each (&node->bindings, binding, struct binding, of_key) {
			assert(binding->place == node);
			assert(topic_with_key(exchange, binding->key) == &node->bindings);
		}
	}
	assert(nodes == trie->nodes);
	assert(bindings == exchange->bindings_out.count);
}

const struct exchange_type exchange_type_topic = {
	.name = BYTES("topic"),
	.by_key = true,
	.add = topic_add,
	.remove = topic_remove,
	.with_key = topic_with_key,
	.route = topic_route,
	.check = topic_check,
};
