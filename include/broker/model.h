/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model on one page: vhosts hold exchanges and queues; bindings lead from an exchange to a queue or
 * to another exchange; a published message is routed to a set of queues and counted by each; a queue
 * hands its entries to consumers with credit at the end of the turn; an unacked entry belongs to the
 * channel (session/unacked.c) until it is settled.
 *
 * Public, but read-only outside broker/: the functions are in the headers beside this one. All of it
 * belongs to the broker thread, so counts and counters are plain integers.
 *
 * Ownership: the broker owns vhosts and users; a vhost owns its exchanges, queues and policies; a binding is
 * owned by its source. A queue and a consumer are counted: unacked entries keep them alive after their
 * deletion. A message is counted by the entries, outputs and channels that refer to it.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"
#include "util/clock.h"
#include "util/heap.h"
#include "util/list.h"
#include "util/map.h"
#include "util/mem.h"
#include "wire/reply.h"

/* A queue of the store keeps so much at hand at most; the rest is cold (DECISIONS.md: RAM of a durable
 * queue). */
#define QUEUE_WINDOW_COUNT 2048
#define QUEUE_WINDOW_OCTETS (1024 * 1024)

struct broker_options {
	uint64_t memory_limit; // mem_in_use() at which publishers stop being read; 0: none
	uint64_t page_out_at; // mem_in_use() above which bodies go to page files; UINT64_MAX: never
	uint32_t yield_high;  // ready bytes ahead of takers at which publishers yield (256 KiB)
	uint32_t yield_low;   // ready bytes at which they go on (128 KiB)
	uint32_t yield_ms;    // how long a yielding publisher waits at most for the next budget (1)
	uint32_t message_size_max;	   // octets of one body (16 MiB)
	uint32_t queue_max;		   // queues in all vhosts; UINT32_MAX: no limit
	uint32_t exchange_max;		   // exchanges, predeclared ones too; UINT32_MAX: no limit
	uint32_t consumer_max_per_channel; // UINT32_MAX: no limit
	bool client_deaths_are_data; // an x-death that a client publishes is no history (false)
	uint64_t
		cache_size; // octets of stored messages at hand in queues that nobody takes from (8 MiB)
};

struct store;
struct stored_times;
struct queue_log;
struct page_move;

/* The root. */
struct broker {
	struct broker_options options;
	struct deadlines *deadlines; // borrows for good
	struct now now;		     // of this turn
	struct map vhosts;	     // struct vhost by name; owns
	struct map users;	     // struct user by name; owns
	struct list dirty; // queues that may have something to hand out: struct queue.dirty
	struct list dead;  // deleted queues without references: freed by broker_reap()
	struct pool consumers_pool;
	uint64_t route_mark; // counts routings; what has this mark was visited by the present one
	uint64_t random;     // state of the generator for retries; tests may set it
	uint64_t permission_version; // counts changes of users and permissions
	uint64_t stable;	     // every lsn up to this one is safe
	struct list
		resident; // durable queues with messages at hand, the one longest so first: struct queue.resident
	uint64_t resident_octets; // wire octets of those messages
	struct deadline
		rest; // when to look for queues that can do without: set while there are any
	struct deadline
		stored_due; // of the first message that the store knows of (queue_deadlines.c)
	struct list
		dying; // queues with messages to be read that are to die: struct dying_list.waiting
	uint32_t dying_count; // of those messages, and of those that are being read
	uint32_t dying_reads; // queues of which some are being read
	struct list
		pageable; // queues that may have more than a window at hand: struct queue.pageable
	struct page_move *paging_out; // owns; bodies on their way to a page file; NULL: none
	struct deadline page_again;   // has a turn look for more to page out
	uint64_t page_retry_ms;	      // no page-out before; 0: there was no error
	struct list gated; // queues that may deliver once their gate is stable: struct queue.gated
	struct list over;  // queues that may have too many messages: struct queue_life.over
	bool trimming;	   // what is on that list is being seen to
	struct stored_times *times; // owns; what the store's index of deadlines gave
	uint64_t queue_count;	    // in all vhosts
	uint64_t exchange_count;    // in all vhosts, predeclared ones too
	bool dispatching;	    // inside broker_dispatch(): no entry point may be called
	bool recovering;	    // definitions and messages are being read back
	struct store *store;	    // borrows; NULL: nothing is kept
	unsigned alarms;	    // enum alarm, or-ed: whoever publishes must wait
	uint64_t effect_lsn; // of the latest record; what answers a method sets it to 0 before
	/* how many references of each message record above `stable` are not settled yet, or are dead letters
	 * now, by lsn & (unsettled_room - 1): broker_is_done() */
	uint32_t *unsettled;	   // owns
	uint64_t unsettled_room;   // power of two; no less than the records above `stable`; or 0
	uint64_t unsettled_last;   // the latest of them
	struct list deduplicating; // exchanges and queues that do: struct deduplication.of_broker
	uint64_t keys_lsn; // of the latest record of a key (deduplication.h); 0: none in this run
};

/* ---- policies ---- */

enum policy_kind {
	POLICY_USER,	 // a policy
	POLICY_OPERATOR, // an operator policy, which limits what the other says
	POLICY_KIND_COUNT
};

/* What a policy is for. */
enum policy_apply_to {
	APPLY_TO_ALL, // queues and exchanges
	APPLY_TO_QUEUES,
	APPLY_TO_CLASSIC_QUEUES,
	APPLY_TO_QUORUM_QUEUES,
	APPLY_TO_STREAMS,
	APPLY_TO_EXCHANGES
};

struct regex;

/* Says for the queues and exchanges whose name matches what arguments would say for one (policy.h). It
 * never changes: one that is set anew is another. */
struct policy {
	struct map_node node;	 // in policies->by_name
	struct list_link ranked; // in policies->ranked
	struct bytes name;	 // owns
	struct vhost *vhost;	 // borrows for good
	enum policy_kind kind;
	enum policy_apply_to apply_to;
	unsigned objects;	 // what it can apply to: enum policy_object, or-ed
	int64_t priority;	 // the higher one applies
	struct bytes pattern;	 // owns; as it was set
	struct regex *regex;	 // owns; the pattern
	struct bytes definition; // owns; a field table: keys of policy.def, each once
};

/* Those of one kind of a vhost. */
struct policies {
	struct map by_name; // struct policy; owns
	struct list ranked; // the first that matches applies: struct policy.ranked
};

struct vhost {
	struct map_node node;		   // in broker->vhosts
	struct bytes name;		   // owns
	struct broker *broker;		   // borrows for good
	struct map exchanges;		   // struct exchange by name; owns
	struct map queues;		   // struct queue by name; owns
	struct exchange *default_exchange; // the one named ""
	uint64_t routing_version;  // counts what can change a route: binds, unbinds, deletions
	uint64_t connection_count; // open to it
	int64_t max_connections;   // negative: no limit (limits.h)
	int64_t max_queues;	   // negative: no limit
	struct policies policies[POLICY_KIND_COUNT];
};

/* ---- users ---- */

enum permission {
	PERMISSION_CONFIGURE,
	PERMISSION_WRITE,
	PERMISSION_READ,
	PERMISSION_COUNT
};

enum user_tag {
	USER_ADMINISTRATOR = 1,
	USER_MONITORING = 2,
	USER_POLICYMAKER = 4,
	USER_MANAGEMENT = 8,
	USER_IMPERSONATOR = 16
};

struct user {
	struct map_node node;  // in broker->users
	struct bytes name;     // owns
	struct broker *broker; // borrows for good
	struct bytes
		password_hash; // owns; 4 octets of salt and the digest, as RabbitMQ keeps it; empty: no login by password
	uint8_t hash_kind;	      // enum digest_kind
	unsigned tags;		      // enum user_tag, or-ed
	struct map permissions;	      // struct user_permission by vhost name; owns
	struct map topic_permissions; // struct topic_permission by vhost and exchange; owns
	uint64_t connection_count;    // open
	uint64_t channel_count;	      // open in all of them
	int64_t max_connections;      // negative: no limit (limits.h)
	int64_t max_channels;	      // negative: no limit
	uint32_t
		refs; // one for the broker, one for each connection; a deleted user lives on for them
	bool deleted; // no longer in broker->users
};

/* ---- exchanges and bindings ---- */

struct exchange_type;
struct topic_trie;
struct route_cache;
struct binding_array;
struct hash_members;
struct history;
struct deduplication;
struct key_mark;

struct exchange {
	struct map_node node;		  // in vhost->exchanges
	struct bytes name;		  // owns
	struct vhost *vhost;		  // borrows for good
	const struct exchange_type *type; // static; how it routes
	bool durable;			  // survives a restart
	bool auto_delete;		  // goes with the last binding of which it is the source
	bool internal;			  // takes no publish from clients
	bool predeclared;		  // "", amq.*: cannot be deleted
	bool delayed; // x-delayed-message: routes as its type does, and may hold messages back first
	struct bytes arguments;	      // owns; a field table as declared
	struct bytes alternate;	      // owns; name of the alternate exchange, n = 0 when none
	struct list bindings_out;     // as source: struct binding.of_source; owns
	struct list bindings_in;      // as destination: struct binding.of_destination
	struct map keys;	      // direct: struct direct_key by binding key
	struct topic_trie *trie;      // topic: owns; NULL while there is no binding
	struct binding_array *sorted; // x-random, x-modulus-hash: owns; NULL as above
	struct hash_members *members; // x-consistent-hash: owns
	struct history *history;      // x-recent-history: owns
	struct deduplication *deduplication; // owns; what it knows of its messages; NULL: nothing
	struct route_cache *cache;	     // topic: routing key to queues; owns; NULL until used
	uint64_t mark;	       // == broker->route_mark: visited by the present routing
	struct exchange *next; // in the work list of the present routing or deletion
	uint64_t publish_in;   // messages published to it by clients
	struct list parts;     // of it: struct queue_part.of_owner; owns
	/* what applies to it, one of each kind; borrow while they do; NULL: none */
	const struct policy *policies[POLICY_KIND_COUNT];
};

struct binding {
	struct list_link of_source;	 // in source->bindings_out
	struct list_link of_destination; // in the destination's list
	struct list_link of_key;	 // direct: in struct direct_key; topic: in a trie node
	void *place;			 // direct: its struct direct_key; topic: its trie node
	struct exchange *source;	 // borrows until removed
	struct queue *queue;		 // the destination, or NULL: then it is
	struct exchange *exchange;	 // this exchange
	struct bytes key;		 // binding key; owns: behind this struct in one block
	struct bytes arguments;		 // a field table; owns: behind the key
	uint64_t print; // of key and arguments; the same for bindings that are the same
	uint8_t match;	// headers: enum headers_match
};

/* The queues that a routing found, each once. */
struct route {
	struct queue **queues; // owns the array, borrows the queues until the routing version moves
	uint32_t count;
	uint32_t room;
	bool uncacheable; // it depends on more than exchange and keys, or takes note of each message:
			  // do not cache it
	bool is_duplicate; // an exchange on the way, which then led nowhere, knew the message
	/* what exchanges on the way are to remember when the message is taken (deduplication.h) */
	struct key_mark *marks; // owns the array, counts what they are for
	uint32_t mark_count;
	uint32_t mark_room;
};

/* ---- messages and entries ---- */

enum message_flag {
	MESSAGE_PERSISTENT = 1,	     // delivery mode 2
	MESSAGE_HAS_CC = 2,	     // its headers hold more routing keys
	MESSAGE_PAGED = 4,	     // it is a stub: its body is in a page file
	MESSAGE_HAS_STUB = 8,	     // its body is in a page file as well
	MESSAGE_HAS_EXPIRATION = 16, // it has a limit of its own on how long it waits
	MESSAGE_HAS_DEATHS = 32,     // it is a dead letter: its x-death was written here
	MESSAGE_HAS_EXTENSION = 64   // there is more about it that consumers do not get
};

struct page_file;

/*
 * A message: one allocation, immutable once published, counted. Behind the struct lies its wire form as
 * basic.deliver ends, for one body frame (or none when the body is empty):
 *
 *	exchange shortstr | routing key shortstr | 0xCE
 *	header frame: prefix, payload (fixed part, properties as received), 0xCE
 *	body frame:   prefix, body, 0xCE
 *
 * so a delivery copies it as it is and patches the two channel numbers; one that must be cut into
 * several frames takes the parts (message.h).
 *
 * A stub stands in a queue for a message whose body is in a page file: its sizes are those of the message,
 * but instead of the body frame there are 4 octets, where in the file it is. It is never handed out.
 *
 * Behind all that, with MESSAGE_HAS_EXTENSION, are the tagged values that its record has (format.h), with a u16 of
 * their octets in front.
 */
struct message {
	uint32_t refs;
	uint32_t body_size;    // octets of body
	uint32_t header_size;  // octets of the content header's payload
	uint8_t exchange_size; // octets of the exchange's name
	uint8_t key_size;      // octets of the routing key
	uint16_t flags;	       // enum message_flag, or-ed
	union {
		uint64_t
			stored; // LSN of its record << 16 | references of that, UINT16_MAX at most; 0: none
		struct message *stub;	// MESSAGE_HAS_STUB: counts
		struct page_file *page; // MESSAGE_PAGED: has a place in it
	};
	uint64_t time_ms; // since 1970, when it came to its queues; 0: it has not yet
	uint8_t wire[];
};

enum entry_flag {
	ENTRY_REDELIVERED = 1, // was requeued before
	ENTRY_RETURN = 2       // and from here on how often, in queues that count that
};

#define ENTRY_RETURNS_MAX 32767

/* One place of one message in one queue: 16 bytes. */
struct entry {
	uint64_t bits;		 // qseq << 16 | enum entry_flag; how often it was requeued
	struct message *message; // counts
};

static inline uint64_t
entry_qseq(const struct entry *entry)
{
	return entry->bits >> 16;
}

/* How often it was requeued, in queues that count that. */
static inline uint32_t
entry_returns(const struct entry *entry)
{
	return (entry->bits & UINT16_MAX) / ENTRY_RETURN;
}

/* ---- queues and consumers ---- */

struct entry_block; // up to 255 entries in order

/* When a message has waited long enough. */
struct own_deadline {
	uint64_t deadline_ms; // since 1970
	uint64_t qseq;
};

/* What a queue has whose messages are limited in number or time. */
struct queue_life {
	struct queue *queue;	  // borrows: whose it is
	struct list_link over;	  // in broker->over
	struct deadline trim;	  // set while there is more to drop than was dropped at once
	struct deadline due;	  // of the message that expires first
	struct own_deadline *own; // owns; a binary heap: messages without a record that expire, and
				  // those with one that are to die, or came back
	uint32_t own_count;
	uint32_t own_room;
	struct dying_list *dying; // owns; messages on the disk that are to die; NULL: none
	bool unlooked;		  // it was recovered: what its first messages have is not known yet
	struct queue_expiry *expiry; // owns; of a queue that expires; NULL: it does not
	uint64_t cold_time_ms;	     // the first message on the disk came then or later
	struct queue_groups *groups; // owns; of a queue with QUEUE_GROUPED; NULL: it has none
	struct deduplication
		*deduplication;	 // owns; of a queue with QUEUE_DEDUPLICATES; NULL: it has none
	struct queue_part *part; // owns; of a queue with QUEUE_PART until it is deleted
	struct list parts;	 // of this queue: struct queue_part.of_owner; owns
	struct queue_levels
		*levels; // owns; of a queue with QUEUE_PRIORITIES; NULL: there is but level 0
	struct waiting_room *room; // owns; of a queue with QUEUE_WAITING; NULL: it is no such
};

/* What part of something a queue is: it is in no table of its vhost, and nobody but its owner knows of it
 * (queue_part.c). */
struct queue_part {
	struct list_link of_owner;    // in the parts of its owner
	struct queue *queue;	      // borrows: whose this is
	struct queue *of_queue;	      // its owner, or NULL: then it is
	struct exchange *of_exchange; // this exchange
	uint32_t number;	      // an owner has one of each number at most
};

/* Who owns exclusive queues: embedded in a session's connection. */
struct queue_owner {
	struct list queues; // struct queue.of_owner
};

#define RETRY_MAX INT32_MAX // retries that a queue can be asked for

/* What becomes of a message that failed once more than it may. */
enum retry_end {
	RETRY_DEAD_LETTER, // it dies
	RETRY_PARK,	   // it waits until somebody lets it go on
	RETRY_DROP
};

/* How a queue tries a message again that a consumer failed to do (retry.h). */
struct retry_settings {
	uint64_t max;	     // retries
	uint64_t initial_ms; // how long it waits after its first failure
	uint64_t longest_ms; // and at most
	double multiplier;   // each time so much longer, 1 or more
	double jitter;	     // what part of that is left to chance, 0 to 1
	enum retry_end exhausted;
};

/* What happens to a message that finds its queue full (amqp.md 6.8). */
enum overflow {
	OVERFLOW_DROP_HEAD,	    // it comes in, and the oldest ones go
	OVERFLOW_REJECT,	    // it stays out, and its publisher hears of it
	OVERFLOW_REJECT_DEAD_LETTER // so it does, and is dead-lettered
};

struct dying_list;   // what of it must be read to die
struct queue_expiry; // when it is deleted unless it is used
struct queue_groups; // whose keys are with whom
struct queue_levels; // which levels of priority there are
struct waiting_room; // where messages wait for their time

/* What is in force for a queue: its arguments and policies, as queue_settings.c joins them. UINT64_MAX: no
 * limit. */
struct queue_settings {
	uint64_t ttl_ms;	      // how long a message may wait
	uint64_t expires_ms;	      // how long the queue lives unused
	uint64_t length_max;	      // ready messages
	uint64_t octets_max;	      // of their bodies
	uint64_t delivery_limit;      // how often a message may come back
	uint64_t consumer_timeout_ms; // how long a delivery may be unacked
	enum overflow overflow;
	uint8_t priority_max; // levels above 0; 0: it has no priorities
	bool single_active;   // one consumer at a time
	bool dead_letters;    // it has a dead letter exchange
	bool has_dead_key;
	struct bytes dead_exchange;   // owns; where dead letters go
	struct bytes dead_key;	      // owns; the key that they get; without it they keep theirs
	struct bytes group_by;	      // owns; the header that is a message's key; empty: no groups
	struct retry_settings *retry; // owns; NULL: what fails goes back at once
	const struct policy *policies[POLICY_KIND_COUNT]; // borrow while they apply; NULL: none
};

enum queue_flag {
	QUEUE_DURABLE = 1,
	QUEUE_EXCLUSIVE = 2,
	QUEUE_AUTO_DELETE = 4,
	QUEUE_DELETED = 8,	       // no longer in its vhost; lives for its references only
	QUEUE_HAD_CONSUMER = 16,       // so an auto-delete queue may go when the last one leaves
	QUEUE_EXCLUSIVE_CONSUMER = 32, // its one consumer wants no other beside it
	QUEUE_STORED = 64,	       // it has, or had until its deletion, a log
	QUEUE_COLD = 128,	       // some of its messages are not at hand
	QUEUE_PAGED = 256,	       // some of its entries are stubs
	QUEUE_LIMITED = 512,	       // its length is limited
	QUEUE_TTL = 1024,	       // its messages expire, or some do
	QUEUE_COUNTS = 2048,	       // how often a message is requeued is counted
	QUEUE_GROUPED = 4096,	       // a key of its messages is with one consumer at a time
	QUEUE_PART = 8192,	       // it is part of another queue or of an exchange
	QUEUE_LEVEL = 16384,	       // and that part is a level of priority
	QUEUE_PRIORITIES = 32768,      // it is level 0 of one with levels of priority
	QUEUE_DEDUPLICATES = 65536, // what comes is asked for whether it is known (deduplication.h)
	QUEUE_HOLDS_KEYS = 131072,  // a message that leaves it gives a key up
	QUEUE_WAITING = 262144,	    // a waiting room: its messages are not ready before a time
	QUEUE_RETRIES = 524288	    // what consumers fail to do is tried again later
};

struct paging;

struct queue {
	struct map_node node;	   // in vhost->queues
	struct list_link dirty;	   // in broker->dirty
	struct list_link gated;	   // in broker->gated
	struct list_link resident; // in broker->resident
	struct list_link pageable; // in broker->pageable
	struct list_link of_owner; // in owner->queues
	struct bytes name;	   // owns
	struct vhost *vhost;	   // borrows for good
	struct queue_owner *owner; // the connection of an exclusive queue; NULL when there is none
	struct bytes arguments;	   // owns; a field table as declared
	struct queue_settings *own_settings; // owns; NULL: queue_settings_plain (queue.h)
	struct queue_life *life; // owns; what only queues with limits need; NULL: it has none
	struct list bindings;	 // as destination: struct binding.of_destination
	struct queue_log *log;	 // borrows from the store; NULL: not kept
	uint32_t refs;		 // one while in the vhost, one for each unacked entry and yielder
	unsigned flags;		 // enum queue_flag, or-ed
	uint64_t mark;		 // == broker->route_mark: found by the present routing
	uint64_t gate_lsn;	 // behind which the store knows that it delivers; 0: it has no log
	/* ready messages at hand: requeued ones (all older than the window's) and the window, and in a queue
	 * with groups those set aside (all older than the window's, too); then the cold ones
	 * (log->cold_count), and those without a record that came behind or between these */
	struct entry_block *head; // owns; oldest entries of the window
	struct entry_block *tail; // owns; where the next entry goes
	struct entry *requeued;	  // owns; a binary heap by qseq
	struct late *late;	  // owns; entries behind cold ones; NULL: none
	struct paging *paging;	  // owns; where page-out and page-in are; NULL: nothing was paged
	uint32_t requeued_count;
	uint32_t requeued_room;
	uint32_t block_hint; // capacity of the next block
	uint64_t next_qseq;
	uint64_t ready_count; // at hand; all: queue_message_count()
	uint64_t ready_bytes; // wire octets of the messages at hand
	uint64_t body_bytes;  // their body octets
	uint64_t unacked_count;
	/* consumers */
	struct list consumers; // all: struct consumer.of_queue, in order of registration
	struct list
		takers; // those that may take now, by priority, then by turn: struct consumer.taker
	uint64_t taken_ms;    // when a consumer took the last message
	uint64_t read_ms;     // when messages came back from the disk last
	uint64_t resident_ms; // when it came to the list of queues with stored messages at hand
	struct list
		yielders; // publishers that wait for this queue to shrink: struct yielder.of_queue
	/* counters, since the start */
	uint64_t publish_count;
	uint64_t deliver_count; // to consumers, with acknowledgement
	uint64_t deliver_no_ack_count;
	uint64_t get_count;
	uint64_t ack_count;
	uint64_t redeliver_count;
};

/* A limit on what may be unacked: one for each consumer, one for each channel (basic.qos global). */
struct prefetch {
	uint32_t limit; // 0: none
	uint32_t used;	// unacked entries charged to it
};

/* Whose turn it is on a queue with a single active consumer (amqp.md 6.11). */
enum consumer_turn {
	TURN_SHARED,  // no such queue: it is there for everybody
	TURN_ACTIVE,  // it alone may take
	TURN_LEAVING, // it takes no more; once it has settled what it holds a better one does
	TURN_WAITING
};

enum deliver_result {
	DELIVER_TOOK, // sent; unless it is a no_ack consumer, the entry's message reference is its own now
	DELIVER_FULL // no credit or no room; it will call consumer_ready() when that has changed
};

struct consumer;

struct consumer;

struct consumer_ops {
	/* Takes the entry, which is of consumer->from, or says that it cannot. Calls nothing of the broker back. */
	enum deliver_result (*deliver)(struct consumer *consumer, const struct entry *entry);
	/* The broker ended the consumer (its queue was deleted); it is off the queue already. */
	void (*cancelled)(struct consumer *consumer);
};

struct consumer {
	struct list_link of_queue;	// in queue->consumers
	struct list_link taker;		// in queue->takers, while it may take
	struct map_node by_tag;		// for the owner's use: the channel's consumers by tag
	struct list_link of_channel;	// for the owner's use: the channel's consumers by turn
	struct list_link stalled;	// for the owner's use: waits for room in its connection
	const struct consumer_ops *ops; // static
	struct queue *queue;		// borrows until it is cancelled, then NULL
	struct queue *from;		// whose entry it is offered: that queue, or a level of it
	struct broker *broker;		// borrows for good
	void *channel;			// for the owner's use
	struct bytes tag;		// owns
	struct bytes arguments;		// owns; a field table
	struct prefetch prefetch;	// its own limit
	uint64_t
		timeout_ms; // for the owner's use: how long a delivery may be unacked; UINT64_MAX: for ever
	int32_t priority; // x-priority, higher first
	uint32_t refs;	  // one while registered, one for each of its unacked entries
	uint8_t turn;	  // enum consumer_turn
	bool no_ack;
	bool exclusive;
};

/* A publisher that waits because consumers cannot follow: embedded in a session's connection. */
struct yielder {
	struct list_link of_queue;		// in queue->yielders
	struct queue *queue;			// counts while linked
	void (*go_on)(struct yielder *yielder); // the reason ended; off the list already
};
