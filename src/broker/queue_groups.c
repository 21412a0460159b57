/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message groups: on a queue with x-group-by=<header> that header of a message is its key, strings and integers
 * as their text. While messages of a key are unacked with a consumer the key is held: what else there is of it
 * goes to that consumer only, in order. A message without a key goes to anybody.
 *
 * Whatever is next in the queue and cannot go to whom it must is set aside, a window at most, so that other keys
 * go on: it stays ready, and counted as such. What is set aside is older than the window, as requeued entries
 * are, and is looked at before it; dispatching takes the requeued ones first, as they may be older still. All
 * others ask for the oldest entry (queue_oldest()), wherever it is.
 *
 * basic.get takes the oldest message whose key no consumer holds. Gets hold their keys together: while
 * something that was got is unacked, further gets may take of its key, consumers may not. A consumer that is
 * gone holds its keys until what it had is settled or has come back; without acknowledgement nothing is held.
 *
 * Invariants: a group is there while something of its key is unacked or set aside; it has a holder only while
 * something is unacked, and is on `waiting` while something is set aside. Each entry set aside is on the list of
 * all and on that of its group, both in order.
 */
#include <stddef.h>
#include <stdio.h>

#include "broker/message.h"
#include "internal.h"
#include "util/owned.h"
#include "wire/field.h"
#include "wire/props.h"

struct queue_groups {
	struct map by_key;	  // struct group; owns
	struct list waiting;	  // those with entries set aside, who was served longest ago first
	struct list by_age;	  // struct parked
	struct list_link *newest; // the one set aside last, in by_age; NULL: it is gone
	struct aside aside;	  // what by_age has
};

struct group {
	struct map_node node;	  // in queue_groups.by_key
	struct list_link waiting; // in queue_groups.waiting
	struct bytes key;	  // owns
	struct consumer *holder;  // counts; NULL: nothing is unacked, or by basic.get only
	uint64_t unacked;	  // its entries with the holder
	struct list parked;	  // its entries set aside: struct parked.of_group; owns
	struct list_link *newest; // as queue_groups.newest, in parked
};

/* An entry set aside. */
struct parked {
	struct list_link by_age;   // in queue_groups.by_age
	struct list_link of_group; // in group->parked
	struct group *group;	   // borrows for good
	struct entry entry;
};

/* What a message's header says. */
struct key {
	bool is_there;
	struct bytes text; // of the message, or of digits
	char digits[24];   // of an integer
};

/* ---- keys ---- */

static void
key_find(const struct queue *q, const struct message *m, struct key *key)
{
	struct basic_properties properties;
	struct field field;
	bool well = properties_decode(&properties, message_properties(m));

	assert(well);
	key->is_there = table_find(properties.headers, queue_settings(q)->group_by, &field) &&
			(field.class == FIELD_STRING || field.class == FIELD_INTEGER);
	if (!key->is_there)
		return;
	key->text = field.bytes;
	if (field.class == FIELD_INTEGER) {
		(void)snprintf(key->digits, sizeof(key->digits), "%lld", (long long)field.integer);
		key->text = bytes_str(key->digits);
	}
}

static struct group *
group_find(const struct queue *q, const struct key *key)
{
	struct map_node *node =
		key->is_there ? map_find(&q->life->groups->by_key, key->text) : NULL;

	return node == NULL ? NULL : container_of(node, struct group, node);
}

static struct group *
group_new(struct queue *q, struct bytes key)
{
	struct group *group = slab_alloc(sizeof(*group));

	*group = (struct group){.key = bytes_dup(key)};
	list_init(&group->parked);
	map_insert(&q->life->groups->by_key, &group->node, group->key);
	return group;
}

/* Frees it when it is of no use. */
static void
group_tidy(struct queue *q, struct group *group)
{
	if (group->unacked > 0 || !list_empty(&group->parked))
		return;
	assert(group->holder == NULL);
	map_remove(&q->life->groups->by_key, &group->node);
	bytes_drop(&group->key);
	slab_free(group, sizeof(*group));
}

/* One more of its entries is unacked: with that consumer, or by basic.get (NULL). */
static void
group_hold(struct group *group, struct consumer *consumer)
{
	if (group->unacked++ == 0 && consumer != NULL)
		group->holder = consumer_ref(consumer);
	assert(group->holder == consumer);
}

static void
group_let_go(struct group *group)
{
	if (group->holder != NULL)
		consumer_unref(group->holder);
	group->holder = NULL;
}

/* Holds the key of an entry that was just taken; group: what there is for it; NULL: nothing yet. */
static void
hold_key(struct queue *q, struct group *group, const struct key *key, struct consumer *consumer)
{
	if (!key->is_there)
		return;
	group_hold(group == NULL ? group_new(q, key->text) : group, consumer);
}

/* ---- entries set aside ---- */

static struct parked *
parked_first(const struct group *group)
{
	return list_first(&group->parked, struct parked, of_group);
}

static uint64_t
bits_at(const struct list_link *link, size_t offset)
{
	return ((const struct parked *)((const char *)link - offset))->entry.bits;
}

/* Most come in order: each is looked for behind the one before it. offset: of the link in struct parked. */
static void
insert_in_order(struct list *list, struct list_link *link, size_t offset, struct list_link **newest)
{
	uint64_t bits = bits_at(link, offset);
	struct list_link *at = list->head.next;

	if (list_empty(list) || bits_at(list->head.prev, offset) < bits) {
		list_append(list, link);
	} else {
		if (*newest != NULL && bits_at(*newest, offset) < bits)
			at = (*newest)->next;
		while (bits_at(at, offset) < bits)
			at = at->next;
		list_insert_before(list, at, link);
	}
	*newest = link;
}

static bool
is_full(const struct queue_groups *groups)
{
	return groups->aside.count >= QUEUE_WINDOW_COUNT ||
	       groups->aside.octets >= QUEUE_WINDOW_OCTETS;
}

/* Sets the first entry aside. */
static void
park_first(struct queue *q, struct group *group)
{
	struct queue_groups *groups = q->life->groups;
	struct parked *parked = slab_alloc(sizeof(*parked));

	*parked = (struct parked){.group = group, .entry = window_set_aside(q)};
	insert_in_order(&groups->by_age, &parked->by_age, offsetof(struct parked, by_age),
			&groups->newest);
	insert_in_order(&group->parked, &parked->of_group, offsetof(struct parked, of_group),
			&group->newest);
	groups->aside.count++;
	groups->aside.octets += message_wire_size(parked->entry.message);
	if (!list_linked(&group->waiting))
		list_append(&groups->waiting, &group->waiting);
}

/* It is set aside no more; the caller has its entry, which is counted as ready still, and tidies the group. */
static struct entry
unpark(struct queue *q, struct parked *parked)
{
	struct queue_groups *groups = q->life->groups;
	struct group *group = parked->group;
	struct entry entry = parked->entry;

	if (groups->newest == &parked->by_age)
		groups->newest = NULL;
	if (group->newest == &parked->of_group)
		group->newest = NULL;
	list_remove(&groups->by_age, &parked->by_age);
	list_remove(&group->parked, &parked->of_group);
	if (list_empty(&group->parked))
		list_remove(&groups->waiting, &group->waiting);
	groups->aside.count--;
	groups->aside.octets -= message_wire_size(entry.message);
	slab_free(parked, sizeof(*parked));
	return entry;
}

/* Takes it out of the queue. */
static struct entry
take_parked(struct queue *q, struct parked *parked)
{
	struct entry entry = unpark(q, parked);

	window_let_go(q, entry.message);
	return entry;
}

/* An entry that is in the requeued ones or the window is first, so it is for window_first(). */
static bool
has_front(const struct queue *q)
{
	return q->requeued_count > 0 || q->head != NULL;
}

/* Whether something of its group that is set aside is older. */
static bool
has_older(const struct group *group, const struct entry *entry)
{
	return group != NULL && !list_empty(&group->parked) &&
	       parked_first(group)->entry.bits < entry->bits;
}

/* Whether requeued entries, which may be of its key, are older. */
static bool
must_wait(const struct queue *q, const struct parked *parked)
{
	return q->requeued_count > 0 && q->requeued[0].bits < parked->entry.bits;
}

/* ---- dispatching ---- */

static bool
give(struct queue *q, struct consumer *consumer, const struct entry *entry)
{
	if (consumer->ops->deliver(consumer, entry) == DELIVER_TOOK)
		return true;
	list_remove(&q->takers, &consumer->taker);
	return false;
}

/* Offers it to whom it may go; who took it, or NULL. */
static struct consumer *
offer(struct queue *q, const struct group *group, const struct entry *entry)
{
	struct consumer *consumer;

	if (group != NULL && group->unacked > 0) {
		consumer = group->holder;
		if (consumer == NULL || !list_linked(&consumer->taker))
			return NULL;
		return give(q, consumer, entry) ? consumer : NULL;
	}
	while ((consumer = list_first(&q->takers, struct consumer, taker)) != NULL)
		if (give(q, consumer, entry))
			return consumer;
	return NULL;
}

/* Hands out what is in front: requeued entries only, or the window as well. Whether any was taken. */
static bool
offer_front(struct queue *q, bool requeued_only)
{
	bool took = false;

	while (!list_empty(&q->takers) && has_front(q) &&
	       (!requeued_only || q->requeued_count > 0)) {
		struct entry entry = *window_first(q);
		struct consumer *consumer = NULL;
		struct group *group;
		struct key key;

		if (queue_must_keep(q, &entry))
			break;
		key_find(q, entry.message, &key);
		group = group_find(q, &key);
		if (!has_older(group, &entry))
			consumer = offer(q, group, &entry);
		if (consumer == NULL) {
			if (list_empty(&q->takers) || is_full(q->life->groups))
				break;
			park_first(q, group);
			continue;
		}
		window_pop(q);
		if (!consumer->no_ack)
			hold_key(q, group, &key, consumer);
		queue_delivered(q, consumer, &entry);
		took = true;
	}
	return took;
}

/* Hands out what is set aside of one key; whether any was taken. */
static bool
serve(struct queue *q, struct group *group)
{
	bool took = false;
	struct parked *parked;

	while (!list_empty(&q->takers) && (parked = parked_first(group)) != NULL) {
		struct consumer *consumer;
		struct entry entry;

		if (must_wait(q, parked) || queue_must_keep(q, &parked->entry))
			break;
		consumer = offer(q, group, &parked->entry);
		if (consumer == NULL)
			break;
		entry = take_parked(q, parked);
		if (!consumer->no_ack)
			group_hold(group, consumer);
		queue_delivered(q, consumer, &entry);
		took = true;
	}
	return took;
}

/* Each key has its turn; who was served waits behind the others the next time. */
static bool
serve_waiting(struct queue *q)
{
	struct list *waiting = &q->life->groups->waiting;
	struct list_link *link = waiting->head.next;
	bool took = false;

	for (size_t n = waiting->count; n > 0 && !list_empty(&q->takers); n--) {
		struct group *group = container_of(link, struct group, waiting);

		link = link->next;
		if (!serve(q, group))
			continue;
		took = true;
		if (list_linked(&group->waiting)) {
			list_remove(waiting, &group->waiting);
			list_append(waiting, &group->waiting);
		}
		group_tidy(q, group);
	}
	return took;
}

bool
groups_offer(struct queue *q)
{
	bool took = offer_front(q, true);

	took |= serve_waiting(q);
	if (q->requeued_count == 0)
		took |= offer_front(q, false);
	return took;
}

/* ---- basic.get ---- */

static bool
is_open(const struct group *group)
{
	return group == NULL || group->unacked == 0 || group->holder == NULL;
}

/* The oldest one set aside that may be got, if it is older than the requeued ones; NULL: none. */
static struct parked *
oldest_open(const struct queue *q)
{
	struct parked *oldest = NULL;
	struct group *group;

	list_for_each (&q->life->groups->waiting, group, struct group, waiting) {
		struct parked *first = parked_first(group);

		if (is_open(group) && !must_wait(q, first) &&
		    (oldest == NULL || first->entry.bits < oldest->entry.bits))
			oldest = first;
	}
	return oldest;
}

static bool
get_parked(struct queue *q, struct parked *parked, bool hold, struct entry *entry)
{
	struct group *group = parked->group;

	if (queue_must_keep(q, &parked->entry))
		return false;
	*entry = take_parked(q, parked);
	if (hold)
		group_hold(group, NULL);
	group_tidy(q, group);
	queue_touch(q);
	return true;
}

/* What comes first may be for others only: what follows it comes to hand for the next try. */
static bool
get_nothing(struct queue *q)
{
	if (q->flags & (QUEUE_COLD | QUEUE_PAGED))
		queue_refill(q);
	return false;
}

bool
groups_get(struct queue *q, bool hold, struct entry *entry)
{
	for (;;) {
		struct parked *parked = oldest_open(q);
		struct group *group;
		struct key key;

		if (parked != NULL)
			return get_parked(q, parked, hold, entry);
		if (!has_front(q) || queue_must_keep(q, window_first(q)))
			return get_nothing(q);
		key_find(q, window_first(q)->message, &key);
		group = group_find(q, &key);
		if (is_open(group)) {
			*entry = window_pop(q);
			if (hold)
				hold_key(q, group, &key, NULL);
			return true;
		}
		if (is_full(q->life->groups))
			return get_nothing(q);
		park_first(q, group);
	}
}

/* ---- what others see ---- */

void
groups_settled(struct queue *q, const struct entry *entry)
{
	struct group *group;
	struct key key;

	key_find(q, entry->message, &key);
	if (!key.is_there)
		return;
	group = group_find(q, &key);
	assert(group != NULL);
	assert(group->unacked > 0);
	if (--group->unacked > 0)
		return;
	group_let_go(group);
	group_tidy(q, group);
	queue_touch(q);
}

/* The oldest one set aside, if that is the oldest at hand; NULL: it is not. */
static struct parked *
oldest_parked(const struct queue *q)
{
	struct parked *parked = list_first(&q->life->groups->by_age, struct parked, by_age);

	if (parked == NULL || !has_front(q) || parked->entry.bits < window_first(q)->bits)
		return parked;
	return NULL;
}

const struct entry *
groups_first(const struct queue *q)
{
	const struct parked *parked = oldest_parked(q);

	return parked == NULL ? window_first(q) : &parked->entry;
}

struct entry
groups_pop(struct queue *q)
{
	struct parked *parked = oldest_parked(q);
	struct group *group = parked == NULL ? NULL : parked->group;
	struct entry entry;

	if (parked == NULL)
		return window_pop(q);
	entry = take_parked(q, parked);
	group_tidy(q, group);
	queue_touch(q); // there may have been no room for what comes next
	return entry;
}

uint32_t
groups_take(struct queue *q, const uint64_t *qseqs, uint32_t n, struct entry *entries)
{
	struct parked *parked;
	uint32_t taken = 0;
	uint32_t at = 0;

	list_for_each_safe (&q->life->groups->by_age, parked, struct parked, by_age) {
		struct group *group = parked->group;

		while (at < n && qseqs[at] < entry_qseq(&parked->entry))
			at++;
		if (at == n)
			break;
		if (qseqs[at] != entry_qseq(&parked->entry))
			continue;
		entries[taken++] = take_parked(q, parked);
		group_tidy(q, group);
	}
	if (taken > 0)
		queue_touch(q);
	return taken;
}

void
groups_gather(struct queue *q)
{
	struct parked *parked;

	if (!(q->flags & QUEUE_GROUPED))
		return;
	list_for_each_safe (&q->life->groups->by_age, parked, struct parked, by_age) {
		struct group *group = parked->group;

		window_put_back(q, unpark(q, parked));
		group_tidy(q, group);
	}
}

struct aside
groups_aside(const struct queue *q)
{
	return (q->flags & QUEUE_GROUPED) ? q->life->groups->aside : (struct aside){0};
}

/* ---- beginning and end ---- */

void
groups_begin(struct queue *q)
{
	struct queue_groups *groups;

	if (q->life->groups != NULL)
		return;
	groups = slab_alloc(sizeof(*groups));
	*groups = (struct queue_groups){0};
	map_init(&groups->by_key);
	list_init(&groups->waiting);
	list_init(&groups->by_age);
	q->life->groups = groups;
}

void
groups_end(struct queue *q)
{
	struct group *group;

	if (!(q->flags & QUEUE_GROUPED))
		return;
	assert(list_empty(&q->life->groups->by_age));
	map_for_each (&q->life->groups->by_key, group, struct group, node) {
		group_let_go(group);
		group->unacked = 0;
		group_tidy(q, group);
	}
	map_fini(&q->life->groups->by_key);
	slab_free(q->life->groups, sizeof(*q->life->groups));
	q->life->groups = NULL;
	q->flags &= ~(unsigned)QUEUE_GROUPED;
}

static void
check_aside(const struct queue *q)
{
	const struct queue_groups *groups = q->life->groups;
	const struct parked *parked;
	struct aside aside = {0};
	uint64_t last = 0;

	list_for_each (&groups->by_age, parked, struct parked, by_age) {
		assert(parked->entry.bits > last);
		assert(!(parked->entry.message->flags & MESSAGE_PAGED));
		last = parked->entry.bits;
		aside.count++;
		aside.octets += message_wire_size(parked->entry.message);
	}
	assert(q->head == NULL || last < q->head->entries[q->head->first].bits);
	assert(aside.count == groups->aside.count);
	assert(aside.octets == groups->aside.octets);
	assert(groups->by_age.count == aside.count);
	assert(aside.count <= QUEUE_WINDOW_COUNT);
}

/* How many entries of it are set aside. */
static uint64_t
check_group(const struct group *group)
{
	const struct parked *parked;
	uint64_t last = 0;

	assert(group->holder == NULL || group->unacked > 0);
	assert(group->unacked > 0 || !list_empty(&group->parked));
	assert(list_linked(&group->waiting) == !list_empty(&group->parked));
	list_for_each (&group->parked, parked, struct parked, of_group) {
		assert(parked->group == group);
		assert(parked->entry.bits > last);
		last = parked->entry.bits;
	}
	return group->parked.count;
}

void
groups_check(const struct queue *q)
{
	struct group *group;
	uint64_t unacked = 0;
	uint64_t aside = 0;

	if (!(q->flags & QUEUE_GROUPED))
		return;
	check_aside(q);
	map_for_each (&q->life->groups->by_key, group, struct group, node) {
		aside += check_group(group);
		unacked += group->unacked;
	}
	assert(aside == q->life->groups->aside.count);
	assert(unacked <= q->unacked_count);
}
