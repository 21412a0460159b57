/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only broker/ sees: the entries of a queue, dispatching, life cycle. Broker thread.
 */
#pragma once

#include "broker/broker.h"
#include "broker/consumer.h"
#include "broker/message.h"
#include "broker/queue.h"
#include "store/format.h"
#include "util/regex.h"

/* ---- queue_window.c: the ready entries of a queue in order ---- */

struct entry_block {
	struct entry_block *next; // younger entries
	uint32_t first;		  // index of the oldest entry
	uint32_t end;		  // index past the youngest
	uint32_t capacity;
	struct entry entries[];
};

/* A further block at the tail. */
struct entry_block *window_grow(struct queue *queue);

/* A stored message of a durable queue came to hand, or went. */
void window_resident(struct queue *queue, uint64_t octets_in, uint64_t octets_out);

/* The same for a message that may be a stored one. */
void window_take_in(struct queue *queue, const struct message *message);

/* Counts a message that comes to hand. */
static inline void
window_count(struct queue *q, const struct message *m)
{
	size_t size = message_wire_size(m);

	q->ready_count++;
	q->ready_bytes += size;
	q->body_bytes += m->body_size;
	if ((q->flags & QUEUE_STORED) && m->stored != 0)
		window_take_in(q, m);
}

/* Puts a new entry behind all others. */
static ALWAYS_INLINE void
window_push(struct queue *q, struct entry entry)
{
	struct entry_block *block = q->tail;

	if (block == NULL || block->end == block->capacity)
		block = window_grow(q);
	block->entries[block->end++] = entry;
	window_count(q, entry.message);
}

/* The first entry, which must exist (ready_count > 0); valid until the next change. */
const struct entry *window_first(const struct queue *queue);
/* Takes the first entry off; its message reference goes to the caller. */
struct entry window_pop(struct queue *queue);
/* Puts an entry that was popped before back to its place by qseq. */
void window_requeue(struct queue *queue, struct entry entry);
/* Takes an entry out of the window: that of this index in this block, which follows before (NULL: it is the
 * first one). Its reference goes to the caller. */
struct entry window_remove(struct queue *queue, struct entry_block *before,
			   struct entry_block *block, uint32_t index);
/* Settles all entries and drops their references. */
void window_clear(struct queue *queue, enum ack_reason reason);
void window_check(const struct queue *queue);

/* For entries that wait beside the window (queue_groups.c): takes the first one off, which stays ready and
 * counted; makes one of those a requeued one; one of those is not ready any more. */
struct entry window_set_aside(struct queue *queue);
void window_put_back(struct queue *queue, struct entry entry);
void window_let_go(struct queue *queue, const struct message *message);

/* ---- queue_dispatch.c ---- */

/* Hands entries to consumers until one side is out, and lets publishers go on where that made room. */
void queue_dispatch(struct queue *queue);
/* The same at once for a queue that would be seen to at the end of the turn. */
void queue_dispatch_dirty(struct queue *queue);
/* Puts it on the dirty list when it has something to hand out and somebody to take it. Of a level: its queue. */
void queue_touch(struct queue *queue);
/* Makes it a taker, behind the last one of at least its priority: the others have their turn first. */
void takers_insert(struct queue *queue, struct consumer *consumer);
/* Lets all yielding publishers of this queue go on. */
void queue_wake_yielders(struct queue *queue);
/* The same, when it has become short enough. */
void queue_look_at_yielders(struct queue *queue);
/* Whether the message is not to be handed out: a stub, or one that waited too long. */
bool queue_must_keep(const struct queue *queue, const struct entry *entry);
/* The consumer took the entry, which is off the queue: all that follows from it. */
void queue_delivered(struct queue *queue, struct consumer *consumer, const struct entry *entry);
/* Whether the first message may die now: a dead letter needs its body. */
bool queue_may_bury_first(const struct queue *queue);

/* Takes up to n entries off the end of the window, the last one first; how many. Their references go to the
 * caller. */
uint32_t window_pop_back(struct queue *queue, struct entry *entries, uint32_t n);
/* Takes the entries with these numbers, which ascend, wherever they are, in no order; how many there were. Their
 * references go to the caller. */
uint32_t window_take(struct queue *queue, const uint64_t *qseqs, uint32_t n, struct entry *entries);
/* Takes one of the requeued entries, whichever is nearest; false when there is none. */
bool window_pop_requeued(struct queue *queue, struct entry *entry);

/* ---- single_active.c: one consumer at a time ---- */

/* A consumer came to its queue, left it (`turn` is what it had), or has settled all that it held. Does
 * nothing where consumers share. */
void single_active_joined(struct consumer *consumer);
void single_active_left(struct queue *queue, enum consumer_turn turn);
void single_active_settled(struct consumer *consumer);
void single_active_check(const struct queue *queue);

/* ---- queue_groups.c: one key, one consumer ---- */

struct aside {
	uint64_t count;	 // entries
	uint64_t octets; // of their messages as window_count() counts them
};

/* The queue has QUEUE_GROUPED; does nothing when it had before. */
void groups_begin(struct queue *queue);
/* The queue is deleted: what is unacked is of no group any more. */
void groups_end(struct queue *queue);
/* As offer_entries(), for a queue with QUEUE_GROUPED; it must have takers. */
bool groups_offer(struct queue *queue);
/* For basic.get: takes the first entry whose key no consumer has; with hold it counts as unacked from now on. */
bool groups_get(struct queue *queue, bool hold, struct entry *entry);
/* An unacked entry is so no more. To be told first, while the message is there. */
void groups_settled(struct queue *queue, const struct entry *entry);
/* The oldest entry at hand, and taking it. There must be one. */
const struct entry *groups_first(const struct queue *queue);
struct entry groups_pop(struct queue *queue);
/* As window_take(), of the entries set aside. */
uint32_t groups_take(struct queue *queue, const uint64_t *qseqs, uint32_t n, struct entry *entries);
/* Makes those set aside requeued ones. Does nothing where there are no groups. */
void groups_gather(struct queue *queue);
/* What is set aside; nothing where there are no groups. */
struct aside groups_aside(const struct queue *queue);
void groups_check(const struct queue *queue);

/* The oldest entry at hand, which must exist, for all but the dispatch; valid until the next change. */
static inline const struct entry *
queue_oldest(const struct queue *q)
{
	return unlikely(q->flags & QUEUE_GROUPED) ? groups_first(q) : window_first(q);
}

/* Takes it; its reference goes to the caller. */
static inline struct entry
queue_pop_oldest(struct queue *q)
{
	return unlikely(q->flags & QUEUE_GROUPED) ? groups_pop(q) : window_pop(q);
}

/* ---- deduplication.c, deduplication_rules.c ---- */

/* The entry of a queue with QUEUE_HOLDS_KEYS is settled, or dies: its key is free. Doing it twice is doing it once. */
void keys_release(struct queue *queue, const struct entry *entry);
/* The queue is deleted: nothing is deduplicated any more. */
void keys_end_queue(struct queue *queue);

/* ---- queue_settings.c ---- */

/* What arguments and policies ask for, of a queue that is being made or was read back. */
void queue_settings_make(struct queue *queue,
			 const struct policy *const policies[POLICY_KIND_COUNT]);
/* Other policies apply to a queue that is there; when that changes what is in force,
 * queue_settings_changed(). */
void queue_settings_update(struct queue *queue,
			   const struct policy *const policies[POLICY_KIND_COUNT]);
/* Something else is in force than before: what of it acts at once acts here. Not told of new queues, nor
 * of those that were read back. It makes and deletes no queues, exchanges or policies. */
void queue_settings_changed(struct queue *queue);
/* It leaves its vhost: policies may go before it. What is in force stays. */
void queue_settings_leave(struct queue *queue);
/* queue->life is there afterwards. */
void life_need(struct queue *queue);
/* The queue was deleted: nothing of it is due any more. */
void life_stop(struct queue *queue);
/* The queue is being freed. */
void queue_settings_end(struct queue *queue);

/* ---- key_list.c: all keys by which a message is routed (amqp.md 7.4) ---- */

struct key_list {
	struct bytes *items; // owns the array, borrows the keys from messages
	uint32_t count;
};

void key_list_add(struct key_list *list, struct bytes key);
/* Its own key, and those of CC, which are in these headers of it: everybody may know them. */
void key_list_add_known(struct key_list *list, const struct message *message, struct bytes headers);
/* Those of BCC, which nobody is told. */
void key_list_add_bcc(struct key_list *list, const struct message *message);
void key_list_fini(struct key_list *list);

/* ---- dead_letter.c ---- */

/* Why a message did not get where it was to go (amqp.md 9.1). */
enum death {
	DEATH_REJECTED,
	DEATH_EXPIRED,
	DEATH_MAXLEN,
	DEATH_DELIVERY_LIMIT
};

/* Publishes the dead letter of a message to where the queue's settings say, if they do; whether it was given to
 * anybody. With the settlement of the message, which must follow at once, it is one unit of the store. */
bool dead_letter_send(struct queue *queue, struct message *message, enum death death);
/* An entry that is off the queue and not unacked any more is dead: sends its dead letter, settles it, drops its
 * reference. */
void queue_bury(struct queue *queue, const struct entry *entry, enum death death);

/* ---- queue_limits.c: how many messages a queue may have ---- */

/* queue_publish() when a queue of the route has QUEUE_LIMITED or QUEUE_TTL, or the message expires. */
struct publish_result limits_publish(struct broker *broker, const struct route *route,
				     struct message *message);
/* The queue may have more than it should: its oldest messages die, now or, when we are seeing to that
 * already, next. */
void limits_enforce(struct queue *queue);
/* queue_life.trim. */
void limits_on_deadline(struct deadline *deadline, uint64_t now_ms);
/* Gives the queue a message that had its turn there: it is not refused, though others may go for it. */
void queue_return(struct queue *queue, struct message *message);
/* Gives the message to each queue of the route, whatever their limits. */
struct publish_result queue_publish_admitted(struct broker *broker, const struct route *route,
					     struct message *message);

/* ---- queue_ttl.c: messages that wait too long ---- */

/* When the message's own expiration ends its waiting, in ms since 1970; UINT64_MAX: it has none. */
uint64_t message_deadline(const struct message *message);
/* Whether it has waited too long in this queue to be handed out. */
bool ttl_is_over(const struct queue *queue, const struct entry *entry);
/* A message is ready in the queue, or on the disk: it is seen to when it is due. */
void ttl_watch(struct queue *queue, const struct message *message, uint64_t qseq);
/* The same for one that was published just now, and for one that was read from the disk: of stored ones the store
 * tells when they are due. */
void ttl_watch_new(struct queue *queue, const struct message *message, uint64_t qseq);
void ttl_watch_read(struct queue *queue, const struct message *message, uint64_t qseq);
/* The message is to die, if it is at hand. */
void ttl_expire(struct queue *queue, uint64_t qseq);
/* All of it has been read back. */
void ttl_recovered(struct queue *queue);
/* Finds out anew when something is due: the queue's limit changed, or messages came to hand. */
void ttl_arm(struct queue *queue);
/* Lets everything die now that is due, as far as the disk keeps up. */
void ttl_catch_up(struct queue *queue);
/* queue_life.due. */
void ttl_on_deadline(struct deadline *deadline, uint64_t now_ms);

/* ---- queue_deadlines.c: stored messages whose time has come ---- */

struct stored_place;

/* A message of the cold part is to die when it has been read. */
void queue_let_die(struct queue *queue, uint64_t qseq, const struct stored_place *place);
/* There is no cold part any more. */
void queue_forget_dying(struct queue *queue);
/* broker->stored_due. */
void deadlines_on_due(struct deadline *deadline, uint64_t now_ms);
/* The same at once, when it is due. */
void deadlines_catch_up(struct broker *broker);

/* ---- policy.c ---- */

void policies_init(struct vhost *vhost);
/* Nothing is left that they could apply to. */
void policies_fini(struct vhost *vhost);
/* What applies to it by the policies that there are; while recovering nothing. */
void policies_of_queue(const struct queue *queue, const struct policy *found[POLICY_KIND_COUNT]);
void policies_of_exchange(const struct exchange *exchange,
			  const struct policy *found[POLICY_KIND_COUNT]);
/* Everything was read back: sets what applies to each queue and exchange. */
void policies_apply(struct vhost *vhost);
void policies_check(const struct vhost *vhost);

/* ---- queue_expiry.c: the end of queues that nobody uses ---- */

/* What queue_settings(q)->expires_ms says is new: the period begins. */
void queue_expiry_changed(struct queue *queue);
/* It has lost its last consumer: the period begins. */
void queue_expiry_idle(struct queue *queue);
/* The recovery is over: the period begins with the first turn. */
void queue_expiry_recovered(struct queue *queue);
/* It does not expire any more. */
void queue_expiry_drop(struct queue *queue);

/* ---- queue_cold.c: messages that are not at hand ---- */

/* Whether a stored message that comes now is not kept in memory. */
bool cold_takes(const struct queue *queue);
void cold_push(struct queue *queue, uint64_t qseq, uint32_t body_size);
/* Puts an entry without a record behind cold ones. */
void cold_push_late(struct queue *queue, struct entry entry);
/* Lets queues that nobody takes from give up their windows, while those take too much. */
void cold_evict(struct broker *broker);
/* Stored messages came to hand: the queue is looked at from now on. */
void cold_watch(struct queue *queue);
/* broker->rest is due: queues without consumers, which nobody has looked at for a while, do so too. */
void cold_rest(struct deadline *deadline, uint64_t now_ms);
/* Messages of the cold part are gone. */
void cold_went(struct queue *queue);
/* Settles all that is not at hand. */
void cold_clear(struct queue *queue, enum ack_reason reason);
void cold_check(const struct queue *queue);

/* As window_take(), of the late entries. */
uint32_t late_take(struct queue *queue, const uint64_t *qseqs, uint32_t n, struct entry *entries);
/* Has messages read that are to die: a whole window of them. */
void queue_read_dying(struct queue *queue);
/* Has the first message read that is on the disk. */
void queue_read_first(struct queue *queue);
/* As the functions of queue.h, of this queue or level alone. */
uint64_t own_message_count(const struct queue *queue);
uint64_t own_octets(const struct queue *queue);
bool own_must_read(const struct queue *queue);
/* A queue whose window is empty has messages all the same: on the disk, or on other levels. */
bool queue_has_more(const struct queue *queue);
void own_refill(struct queue *queue);
/* Messages that the disk had are at hand. */
void queue_came_to_hand(struct queue *queue);
/* The late entries, in order; count gets how many. */
struct entry *late_entries(const struct queue *queue, uint32_t *count);

/* ---- queue_page.c, queue_page_out.c, queue_page_in.c: bodies in page files ---- */

/* The queue grows: it may have something to page out one day. */
static inline void
page_note(struct queue *q)
{
	if (!list_linked(&q->pageable))
		list_append(&q->vhost->broker->pageable, &q->pageable);
}

/* Entries go otherwise than from the head of the window. */
void page_forget_places(struct queue *queue);
/* The broker's deadline is due. */
void page_out_again(struct deadline *deadline, uint64_t now_ms);
/* A stub has left the queue, otherwise than with all its entries. */
void page_count_out(struct queue *queue);
/* The queue has lost all its entries. */
void page_cleared(struct queue *queue);
/* Has the bodies of the first entries read when few of those at the head are at hand. */
void page_refill(struct queue *queue);
/* The queue ends. */
void page_fini(struct queue *queue);
void page_check(const struct queue *queue);

/* ---- queue_store.c: a queue and its log ---- */

/* Appends a persistent message for the durable queues of the route, which must get it next, and notes its
 * record in it. Returns the lsn behind which it is safe; 0 when no queue is durable. */
uint64_t queue_store(struct broker *broker, const struct route *route, struct message *message);
/* The same for a durable waiting room, which is the route: the record says when the message is ready, in ms since
 * 1970. place gets where it is. */
uint64_t queue_store_waiting(struct broker *broker, const struct route *route,
			     struct message *message, uint64_t due_ms, struct stored_place *place);
/* A message of the cold part, at hand or not, is settled for good. */
void queue_settle_cold(struct queue *queue, uint64_t qseq, const struct stored_place *place,
		       enum ack_reason reason);
/* Gives back the room that a burst needed, once its records are stable. */
void unsettled_trim(struct broker *broker);
/* The entry of a queue with QUEUE_STORED or QUEUE_HOLDS_KEYS is settled for good. */
void queue_settle_stored(struct queue *queue, const struct entry *entry, enum ack_reason reason);
/* The entry came back as often as it says, in a queue that counts that: the store must know when it has it. */
void queue_note_return(struct queue *queue, const struct entry *entry);
/* Logs, once in a run, that the queue delivers; until that is safe its gate is closed. */
void queue_open_gate(struct queue *queue);
/* The same for a level of the queue, which hands out through the queue's gate. */
void queue_open_gate_of(struct queue *level, struct queue *queue);

/* An entry is settled for good: the store must hear of it when the queue has a log. */
static inline void
queue_settle(struct queue *queue, const struct entry *entry, enum ack_reason reason)
{
	if (queue->flags & (QUEUE_STORED | QUEUE_HOLDS_KEYS))
		queue_settle_stored(queue, entry, reason);
}

/* ---- user.c ---- */

/* A regular expression as users write it. */
struct pattern {
	struct bytes text;   // owns; as it was set
	struct regex *regex; // owns; NULL when the text is empty, which matches the empty name only
};

/* What a user may do in one vhost, whether or not that vhost exists now. */
struct user_permission {
	struct map_node node; // in user->permissions
	struct bytes vhost;   // owns
	struct pattern patterns[PERMISSION_COUNT];
};

/* 0, or -EINVAL with a text in error. */
int pattern_compile(struct regex **regex, struct bytes text, char *error, size_t room) MUST_CHECK;
void pattern_fini(struct pattern *pattern);
bool pattern_admits(const struct pattern *pattern, struct bytes name);
/* "configure", "write", "read". */
const char *permission_verb(enum permission permission);

/* ---- topic_permission.c ---- */

/* What keys a user may use with one topic exchange, whether or not that exists now. */
struct topic_permission {
	struct map_node node;  // in user->topic_permissions
	struct bytes key;      // owns; of both names
	struct bytes vhost;    // into key
	struct bytes exchange; // into key
	struct pattern write;  // keys of publishes; its text is as it was set
	struct pattern read;   // binding keys
};

/* Removes all records of a user who goes. */
void topic_permissions_fini(struct user *user);

/* ---- queue_part.c: queues that are part of something ---- */

/* Numbers of parts, which stand in the store: levels of priority are below the others. */
#define PART_LEVELS 256 // so many are for levels
#define PART_ROOM 256	// where messages wait for their time

/* One of the two. */
struct part_owner {
	struct queue *queue;
	struct exchange *exchange;
};

/* The owner's part of this number, or NULL. */
struct queue *part_find(struct part_owner owner, uint32_t number);
/* Makes it, with the owner's name; it must not be there. It is durable as the owner is, and then has a log, which is
 * defined here. A level is set as its queue is. */
struct queue *part_create(struct part_owner owner, uint32_t number);
/* It goes, and all that it has. */
void part_delete(struct queue *part);
/* All parts of these, the `parts` of their owner, go. */
void parts_delete(struct list *parts);
/* The same for a queue, which may have none. */
void parts_of_queue_delete(struct queue *queue);
/* The owner is set otherwise: its levels are, too. */
void parts_set(struct queue *owner);
/* Calls each for all parts of a vhost; it may not delete any. */
void parts_each(const struct vhost *vhost, void (*each)(void *context, struct queue *part),
		void *context);
/* Of parts of queues and exchanges, as queue_check() and exchange_check() want them. */
void parts_check(const struct list *parts, const struct queue *queue,
		 const struct exchange *exchange);

/* ---- queue_levels.c: priorities ---- */

/* A level was made, or read back: its queue has it from now on. */
void levels_joined(struct queue *level);
/* A level goes, maybe alone; all of the queue's do. */
void levels_left(struct queue *level);
void levels_end(struct queue *queue);
/* The level of a queue with QUEUE_PRIORITIES whose messages are next; level 0, the queue itself, when there are none
 * at all. */
struct queue *levels_top(const struct queue *queue);
/* Something is ready in the level, which may be level 0. */
void levels_touch(struct queue *level);
/* Makes of each queue of the route that has levels the one for this message, which is made if it is not there. */
void levels_choose(struct route *route, const struct message *message);
/* queue_publish() when some queues of the route have levels and nothing else is asked for. */
struct publish_result levels_publish(struct broker *broker, const struct route *route,
				     struct message *message);
/* Calls each for all levels but level 0; none may be made or deleted. */
void levels_each(const struct queue *queue, void (*each)(void *context, struct queue *level),
		 void *context);
/* What all of them have beside level 0. */
struct level_sums {
	uint64_t count;	  // messages, at hand or not
	uint64_t octets;  // of their bodies
	uint64_t waiting; // wire octets at hand, and of bodies on the disk
};
struct level_sums levels_sums(const struct queue *queue);
void levels_check(const struct queue *queue);

/* The queue that clients know of, for one that may be a level of it. */
static inline struct queue *
queue_whole(struct queue *q)
{
	return unlikely(q->flags & QUEUE_LEVEL) && q->life->part != NULL ? q->life->part->of_queue
									 : q;
}

/* Who takes its messages now, and who may ever. */
static inline const struct list *
queue_takers(const struct queue *q)
{
	return unlikely(q->flags & QUEUE_LEVEL) && q->life->part != NULL
		       ? &q->life->part->of_queue->takers
		       : &q->takers;
}

static inline const struct list *
queue_consumers(const struct queue *q)
{
	return unlikely(q->flags & QUEUE_LEVEL) && q->life->part != NULL
		       ? &q->life->part->of_queue->consumers
		       : &q->consumers;
}

/* ---- queue.c ---- */

/* A queue that is nowhere, and has nothing, with this name, arguments and enum queue_flag. */
struct queue *queue_new(struct vhost *vhost, struct bytes name, struct bytes arguments,
			unsigned flags);
/* It was taken out of where it is known: its messages, its log and what waits for it go, and it does when the last
 * reference is dropped. */
void queue_end(struct queue *queue);
/* Frees a deleted queue without references. */
void queue_free(struct queue *queue);

/* No entry point of the model may be entered while it hands out messages. */
static inline void
assert_not_dispatching(const struct broker *broker)
{
	assert_thread(THREAD_BROKER);
	assert(!broker->dispatching);
}
