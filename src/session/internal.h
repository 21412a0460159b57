/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only session/ sees: connection, channel and what a channel keeps. One connection belongs to one
 * conn; a channel belongs to its connection. Broker thread only.
 *
 * A handler returns NULL or the reply that refuses; connection_refuse() and channel_refuse(), called
 * from one place each, do the closing. Nothing is freed inside a handler that the caller still uses:
 * a channel that ends goes when its connection is told so by channel_end(), a connection ends with its
 * conn (conn_ops.closed).
 */
#pragma once

#include "broker/consumer.h"
#include "broker/exchange.h"
#include "broker/message.h"
#include "broker/queue.h"
#include "broker/user.h"
#include "session/session.h"
#include "util/buf.h"
#include "util/log.h"
#include "wire/field.h"
#include "wire/frame.h"
#include "wire/method.h"
#include "wire/props.h"

#include <stdio.h>

/* Room for any method frame that the server writes: fields of bounded size, see connection_send(). */
#define METHOD_FRAME_MAX 2048

struct session {
	struct session_options options;
	struct broker *broker;	 // borrows for good
	struct net *net;	 // borrows for good
	struct list connections; // struct connection.of_session; owns
	struct list confirming;	 // channels with confirms to send: struct channel.confirming
	struct map replies;	 // struct reply_consumer by token
	struct list cancelled;	 // consumers ended by the broker: struct consumer.stalled, counted
	struct list held;	 // connections that wait for an lsn: struct connection.held
	struct list blocked;	 // publishers stopped by an alarm: struct connection.blocked
	struct list waiting;	 // publishers that wait for the store: struct connection.waiting
	bool published;		 // somebody has, since session_has_published()
	struct pool connections_pool;
	struct pool channels_pool;
	uint64_t channel_count;
	struct bytes start_frame; // owns; connection.start as every client gets it
};

/* ---- unacked.c: delivered entries of a channel by delivery tag ---- */

struct unacked_slot {
	uint64_t tag;		    // delivery tag, never 0
	struct entry entry;	    // owns the message reference; message NULL: settled
	struct queue *queue;	    // counts
	struct consumer *consumer;  // counts; NULL for basic.get
	uint64_t delivered_ms : 48; // when it was delivered; only where channel->timeout is set
	bool global;		    // charged to the channel's prefetch as well
	bool in_tx;		    // settled by the channel's open transaction, once it commits
};

struct unacked_block; // 256 slots in order of their tags

/* A ring of slots in blocks, which go when all their slots are settled, wherever they lie: one old tag
 * does not pin millions. */
struct unacked {
	struct unacked_block **blocks; // owns; in order of tags
	uint32_t first;		       // index of the oldest block
	uint32_t end;		       // index past the youngest
	uint32_t room;
	uint64_t count; // slots not settled
};

void unacked_init(struct unacked *unacked);
/* Must be empty. */
void unacked_fini(struct unacked *unacked);
/* Adds one behind all others (its tag is higher); the slot is the caller's to fill, valid until the
 * next add. */
struct unacked_slot *unacked_add(struct unacked *unacked, uint64_t tag);
/* The oldest unsettled slot, NULL when there is none. */
struct unacked_slot *unacked_first(const struct unacked *unacked);
/* The unsettled slot of the tag, NULL when there is none. */
struct unacked_slot *unacked_find(const struct unacked *unacked, uint64_t tag);
/* Calls settle for each unsettled slot up to and including tag, oldest first, and frees them.
 * UINT64_MAX: all. */
void unacked_settle_upto(struct unacked *unacked, uint64_t tag,
			 void (*settle)(void *context, const struct unacked_slot *slot),
			 void *context);
/* The same for all, youngest first. */
void unacked_settle_all_reversed(struct unacked *unacked,
				 void (*settle)(void *context, const struct unacked_slot *slot),
				 void *context);
/* Frees one slot that was found; its content has been taken over by the caller. */
void unacked_remove(struct unacked *unacked, uint64_t tag);
/* Calls visit for each unsettled slot up to and including tag, oldest first; it may change the slot's
 * marks, and settle none. */
void unacked_visit(struct unacked *unacked, uint64_t upto,
		   void (*visit)(void *context, struct unacked_slot *slot), void *context);
/* The same for those delivered at that time or earlier; returns the oldest that was delivered later, or NULL. */
const struct unacked_slot *unacked_visit_older(struct unacked *unacked, uint64_t delivered_ms,
					       void (*visit)(void *context,
							     struct unacked_slot *slot),
					       void *context);
void unacked_check(const struct unacked *unacked);

/* ---- confirm.c: publish sequence number to lsn to ack ---- */

/* Confirms come in order: a FIFO of those that wait for the disk. Numbers up to `settled` may be sent,
 * up to `sent` were. */
struct confirm {
	bool on;	  // confirm.select was seen
	uint64_t next;	  // sequence number of the next publish, from 1
	uint64_t settled; // all up to this one are settled
	uint64_t sent;	  // all up to this one were answered
	uint64_t *ring;	  // owns; lsn << 1 | nack of settled + 1 ... next - 1
	uint32_t first;	  // index of the oldest in the ring
	uint32_t count;
	uint32_t room;	 // power of two
	uint64_t *nacks; // owns; settled numbers to be nacked, ascending
	uint32_t nack_count;
	uint32_t nack_room;
};

void confirm_init(struct confirm *confirm);
void confirm_fini(struct confirm *confirm);
/* Counts one publish; stable is broker->stable. Returns whether there is something to send now. */
bool confirm_publish(struct confirm *confirm, struct publish_result result, uint64_t stable);
/* Settles what is done (broker_is_done()), in order; returns whether there is something to send. */
bool confirm_settle(struct confirm *confirm, const struct broker *broker);
struct channel;
/* Writes acks and nacks for everything settled, coalesced. */
void confirm_send(struct channel *channel);

/* ---- channel.c ---- */

enum channel_state {
	CHANNEL_OPEN = 1,   // takes methods
	CHANNEL_CLOSING = 2 // the server sent channel.close: only close and close-ok count
};

/* What a content-bearing channel expects next (amqp.md 1.5). */
enum content_state {
	CONTENT_NONE,	// a method
	CONTENT_HEADER, // basic.publish came: its header
	CONTENT_BODY	// the header came: body octets
};

/* What a publish asks for in its properties (publish_facts.c). */
enum publish_fact {
	FACT_PERSISTENT = 1,
	FACT_EXPIRATION = 2,
	FACT_USER_ID = 4,
	FACT_REPLY_TO = 8, // replies go to the pseudo-queue
	FACT_CC = 16,
	FACT_BCC = 32
};

/* A publish whose content is still coming; what was published is in the channel's cache. */
struct content {
	enum content_state state;
	uint32_t
		method_id; // basic.publish, or what no client may send: refused when it is complete
	unsigned facts;	   // enum publish_fact, or-ed
	struct message *message; // owns; NULL while the content is thrown away (closing, too large)
	uint64_t body_size;	 // announced
	uint64_t body_received;
};

#define PUBLISH_PAYLOAD_MAX (4 + 2 + 256 + 256 + 1) // octets of a basic.publish frame's payload

/* The last publish of a channel, so that the next alike costs one memcmp (DESIGN.md section 4). */
struct publish_cache {
	uint8_t frame[PUBLISH_PAYLOAD_MAX]; // payload of the basic.publish frame
	uint32_t frame_size;
	uint64_t routing_version;    // of the vhost when the exchange was found
	uint64_t permission_version; // of the broker then
	struct exchange *exchange;   // borrows while both versions stand; NULL: not found yet
	struct bytes exchange_name;  // into frame
	struct bytes key;	     // into frame
	bool mandatory;
	bool admitted;	    // the key passed the topic permissions
	bool routed;	    // route is the answer for exchange and key
	struct route route; // what the last message was routed to
};

struct tx;
struct reply_consumer;
struct ack_timeout;

struct channel {
	struct connection *connection;	// borrows for good
	struct channel *next;		// with the same slot in connection->slots
	struct list_link of_connection; // in connection->channels
	struct list_link confirming;	// in session->confirming
	uint16_t id;
	uint8_t state;		    // enum channel_state
	uint32_t consumer_prefetch; // limit of consumers to come (basic.qos global=false)
	struct prefetch prefetch;   // shared by all its consumers (basic.qos global=true)
	uint64_t next_tag;	    // delivery tag of the next delivery, from 1
	uint64_t
		reject_upto; // the rejection or failure that is held is of tags up to this one; 0: none
	struct list turns;    // its consumers, the one that was served longest ago in front
	struct map consumers; // struct consumer by tag
	struct unacked unacked;
	struct ack_timeout *timeout; // owns; NULL until something can be unacked for too long
	struct confirm confirm;
	struct content content;
	struct tx *tx;		      // owns; NULL: not transactional
	struct reply_consumer *reply; // owns; NULL: no consumer of direct replies
	struct publish_cache *cache;  // owns; NULL until the first publish
	struct bytes last_queue;      // owns; name of the queue declared last
};

struct channel *channel_new(struct connection *connection, uint16_t id);
/* Requeues unacked entries, ends consumers, drops unfinished content: what closing means. The channel
 * stays until channel_free. */
void channel_end(struct channel *channel);
void channel_free(struct channel *channel);
/* Handles one frame of this channel. NULL or what refuses it; *method_id gets what it is about. */
const struct reply *channel_frame(struct channel *channel, const struct frame *frame,
				  uint32_t *method_id);
/* The soft error: channel.close, clean-up, CHANNEL_CLOSING. */
void channel_refuse(struct channel *channel, const struct reply *reply, uint32_t method_id);
/* Writes a method frame on this channel. */
void channel_send(struct channel *channel, const struct method *method);
/* Writes the answer to the present method once its effects are safe; until then input is held. */
void channel_answer(struct channel *channel, bool nowait, const struct method *method);
void channel_add_consumer(struct channel *channel, struct consumer *consumer);
/* Takes a consumer off the channel's lists. */
void channel_forget_consumer(struct channel *channel, struct consumer *consumer);
/* Takes a consumer off the channel and its queue; the pointer may be dead after this. */
void channel_remove_consumer(struct channel *channel, struct consumer *consumer);
/* There may be confirms to send at the end of the turn. */
void channel_confirms_changed(struct channel *channel);
/* What answers a method frame that could not be decoded (amqp.md 1.9). */
const struct reply *refuse_undecodable(enum method_result result, uint32_t method_id);
/* Resolves an empty queue name to the last declared one; NULL or 404. */
const struct reply *channel_queue_name(const struct channel *channel, struct bytes *name);
void channel_set_last_queue(struct channel *channel, struct bytes name);
static inline struct vhost *channel_vhost(const struct channel *channel);
static inline struct user *channel_user(const struct channel *channel);
static inline struct broker *channel_broker(const struct channel *channel);

/* ---- settle.c: acknowledgements and the credit that they give back ---- */

enum settle {
	SETTLE_ACK,
	SETTLE_REJECT, // refused for good
	SETTLE_REQUEUE,
	SETTLE_FAIL // it goes back since the consumer failed to do it
};

/* Whether what is settled so may be written to the log anew. */
bool settle_writes(const struct unacked_slot *slot, enum settle how);

/* Settles one tag, or all up to it; tag 0 with multiple is all. NULL or 406 `unknown delivery tag N`. */
const struct reply *settle_tags(struct channel *channel, uint64_t tag, bool multiple,
				enum settle how);
/* Settles one tag, which must be outstanding. */
void settle_now(struct channel *channel, uint64_t tag, enum settle how);
/* All unacked entries go back to their places. */
void settle_requeue_all(struct channel *channel);
/* All but those that an open transaction settles. */
void settle_recover(struct channel *channel);
/* The limit shared by the channel's consumers (basic.qos global=true); 0: none. */
void settle_set_global_prefetch(struct channel *channel, uint32_t limit);

/* ---- ack_timeout.c: deliveries that are unacked for too long ---- */

/* How long a delivery to a consumer with these arguments may be unacked, whatever its queue says; UINT64_MAX:
 * for ever. */
uint64_t ack_timeout_of(const struct session *session, struct bytes arguments);
/* There may be deliveries with a timeout from now on. */
void ack_timeout_watch(struct channel *channel);
/* Notes when the delivery was made, and when it is late, if it can be. */
void ack_timeout_note(struct channel *channel, struct unacked_slot *slot);
/* Whether the tag may be one that was late and went back: its client does not know. */
bool ack_timeout_returned(const struct channel *channel, uint64_t tag);
/* The channel has nothing outstanding any more. */
void ack_timeout_end(struct channel *channel);

/* For every delivery that is to be acknowledged. */
static inline void
ack_timeout_delivered(struct channel *channel, struct unacked_slot *slot)
{
	if (unlikely(channel->timeout != NULL || slot->queue->own_settings != NULL))
		ack_timeout_note(channel, slot);
}

/* ---- content.c ---- */

/* Forgets a message whose content was not complete. */
void content_drop(struct channel *channel);
/* Begins a publish; payload is that of its method frame. */
const struct reply *content_begin(struct channel *channel, struct bytes payload,
				  const struct basic_publish *m);
/* Begins the content of a method that clients do not send. */
void content_begin_unwanted(struct channel *channel, uint32_t method_id);
/* Takes the payload of the header frame; a message without body is published. */
const struct reply *content_header(struct channel *channel, struct bytes payload);
/* Takes body octets; with the last one the message is published. */
const struct reply *content_body(struct channel *channel, struct bytes octets);
/* Makes room for that many more octets, which the announced body must have. */
void content_make_room(struct channel *channel, uint32_t octets);
/* Where the next body octets belong; NULL when they are thrown away. */
uint8_t *content_body_room(const struct channel *channel);
/* The same as content_body for octets that were put there already. */
const struct reply *content_advance(struct channel *channel, uint32_t octets);

/* ---- publish_facts.c ---- */

/* The keys by which a message is routed: the publish's own, and those of CC and BCC. */
struct keys {
	struct bytes *items; // &one, or owned
	struct bytes one;
	uint32_t count;
};

void keys_init(struct keys *keys, struct bytes key);
void keys_fini(struct keys *keys);
/* Finds the facts (enum publish_fact, or-ed) in encoded properties; false when they cannot be decoded,
 * with the letter of an unknown field type or 0. */
bool publish_facts(struct bytes encoded, unsigned *facts, char *bad_type);
/* Checks what the facts name, and adds the keys of CC and BCC. NULL or what refuses. */
const struct reply *publish_check(struct channel *channel, struct bytes encoded, unsigned facts,
				  struct keys *keys);
/* Writes the tagged values that keep the keys of BCC with the message, of its properties as it was published. */
void publish_bcc(struct bytes encoded, struct buf *out);
/* Writes the header payload as consumers get it: without BCC, with the token for replies. */
void publish_change_header(const struct channel *channel, struct bytes header, struct buf *out);

/* ---- on_publish.c ---- */

/* Makes the cache that of this publish frame, empty unless the last one was the same. */
void publish_cache_take(struct channel *channel, struct bytes payload,
			const struct basic_publish *m);
void publish_cache_free(struct channel *channel);
/* A message for what the cache holds, with room for its body; header is the frame's payload. */
struct message *publish_new(const struct channel *channel, struct bytes header, uint32_t body_size,
			    unsigned facts);
/* Publishes a complete message, whose reference it takes. NULL or what refuses. */
const struct reply *publish_message(struct channel *channel, struct message *message,
				    unsigned facts);
/* Gives a message to its queues, or back to a publisher who insists. */
struct publish_result publish_effect(struct channel *channel, const struct route *route,
				     struct message *message, bool mandatory);
/* Whether publish_fast may be tried: no content is open, and there was a publish before. */
bool publish_fast_ready(const struct channel *channel);
/* Where the last publish went, also while the content of the next one is open; NULL when that does not
 * stand any more. */
const struct route *publish_route(const struct channel *channel);
/* When input begins with a publish that asks for nothing, and its content is there in whole: publishes
 * it and returns the octets used up. When it is like the channel's last one, exchange, permission and
 * route are known. 0: take the long way. */
size_t publish_fast(struct channel *channel, struct bytes input);

/* ---- on_tx.c ---- */

/* Keeps a message (whose reference it takes) and its route for the commit. */
void tx_publish(struct channel *channel, struct route *route, struct message *message,
		bool mandatory);
/* Notes that the commit settles this slot. */
void tx_settle(struct channel *channel, struct unacked_slot *slot, enum settle how);
/* Forgets the transaction with its channel. */
void tx_end(struct channel *channel);

/* ---- reply_to.c: direct reply-to ---- */

#define REPLY_TO_QUEUE "amq.rabbitmq.reply-to"

/* A channel that waits for direct replies. */
struct reply_consumer {
	struct map_node node;	 // in session->replies
	struct bytes token;	 // owns; the name that leads here
	struct bytes tag;	 // owns; consumer tag
	struct channel *channel; // borrows for good
};

/* Whether the name is that of the pseudo-queue, or has the form of a token. */
bool reply_is_pseudo_queue(struct bytes name);
/* Whether somebody waits behind the name; for the pseudo-queue itself always. */
bool reply_exists(const struct session *session, struct bytes name);
/* basic.consume of the pseudo-queue. NULL or what refuses. */
const struct reply *reply_consume(struct channel *channel, const struct basic_consume *m);
/* Ends the channel's consumer of replies, when it has one. */
void reply_end(struct channel *channel);
/* Delivers a message of the default exchange whose keys are tokens; whether anybody got it. */
bool reply_publish(const struct session *session, struct message *message);

/* ---- deliver.c ---- */

extern const struct consumer_ops session_consumer_ops;
/* basic.get-ok with its content; ready_left: messages that stay in the queue. */
void deliver_get_ok(struct channel *channel, const struct entry *entry, uint64_t tag,
		    uint64_t ready_left);
/* basic.return 312 with its content. */
void deliver_return(struct channel *channel, struct message *message);
/* basic.deliver of a direct reply. */
void deliver_reply(struct channel *channel, struct bytes consumer_tag, struct message *message);
/* Sends basic.cancel for consumers that the broker ended. */
void session_send_cancels(struct session *session);
/* Forgets those of a channel that ends. */
void session_forget_cancels(struct channel *channel);

/* ---- names.c ---- */

#define NAME_MAX_SIZE 256      // octets of a shortstr, and one
#define NAME_PREFIX_MAX 9      // octets of a prefix for name_generate()
#define NAME_GENERATED_SIZE 40 // room for a prefix, 22 characters and a NUL

/* Prefix and 22 characters of URL-safe base64 from 16 random octets; the view is into out. */
struct bytes name_generate(const char *prefix, char out[NAME_GENERATED_SIZE]);
/* The name without \r and \n; a view of name, or into out when something was taken out. */
struct bytes name_clean(struct bytes name, uint8_t out[NAME_MAX_SIZE]);
/* NULL, or 403 for names that clients may not give. kind: "queue" or "exchange". */
const struct reply *name_check_reserved(const char *kind, struct bytes name);

/* ---- on_exchange.c ---- */

/* NULL, or 403 when the name is that of the default exchange. */
const struct reply *refuse_default_exchange(struct bytes name);

/* ---- connection.c ---- */

enum connection_state {
	CONNECTION_HEADER = 1,	  // the protocol header is due
	CONNECTION_STARTING = 2,  // start was sent: start-ok is due
	CONNECTION_TUNING = 4,	  // tune was sent: tune-ok is due
	CONNECTION_OPENING = 8,	  // tune-ok came: open is due
	CONNECTION_RUNNING = 16,  // open
	CONNECTION_CLOSING = 32,  // the server sent connection.close: only close and close-ok count
	CONNECTION_DROPPING = 64, // nothing counts any more; it ends by deadline or by the peer
};

enum client_capability {
	CLIENT_AUTHENTICATION_FAILURE_CLOSE = 1,
	CLIENT_CONSUMER_CANCEL_NOTIFY = 2,
	CLIENT_CONNECTION_BLOCKED = 4
};

enum client_quirk {
	QUIRK_QOS_LIVE = 1 // basic.qos global=false acts on the channel's live consumers too
};

struct connection {
	struct session *session;     // borrows for good
	struct conn *conn;	     // borrows until conn_ops.closed
	struct list_link of_session; // in session->connections
	struct list_link held;	     // in session->held
	struct list_link blocked;    // in session->blocked
	struct list_link waiting;    // in session->waiting
	uint8_t state;		     // enum connection_state
	uint8_t capabilities;	     // enum client_capability, or-ed
	uint8_t quirks;		     // enum client_quirk, or-ed
	bool published;		     // since the last look: memory and consumers may want a pause
	bool stored;		     // since the last look: the store got some of it
	bool buried;		     // since the last look: it made dead letters, perhaps
	bool waits_to_publish;	     // in session->waiting: a publisher
	bool again;		     // the present frame is to be handled again after the hold
	bool counted;		     // among the connections of its vhost and its user
	uint16_t channel_max;	     // 0: no limit
	uint16_t heartbeat_s;	     // 0: off
	uint32_t frame_max;	     // octets of a whole frame; 0: no limit
	uint32_t payload_max;	     // octets of a payload that we take
	struct vhost *vhost;	     // borrows; NULL before open
	struct user *user;	     // counts; NULL before authentication
	struct queue_owner owner;    // its exclusive queues
	struct channel *only_slot;   // slots of a connection with one slot
	struct channel **slots;	     // channels by id & slot_mask; &only_slot or owned
	uint32_t slot_mask;
	struct channel *last;	      // the channel of the last frame; NULL when it is gone
	struct list channels;	      // struct channel.of_connection; owns
	struct list stalled;	      // consumers that wait for room: struct consumer.stalled
	bool body_open;		      // a body frame is half here
	bool sinking;		      // its next octets go to a sink of the conn
	struct channel *body_channel; // whose content it belongs to; NULL: it is thrown away
	uint32_t body_size;	      // octets of its payload
	uint32_t body_done;	      // how many of them came
	uint64_t hold_lsn;	      // input waits until this is stable; 0: no hold
	struct bytes hold_answer;     // owns; the frame that goes out then
	struct queue *hold_queue; // counts; it waits for a message of this one as well; NULL: not
	struct yielder yielder;	  // waits for consumers of a queue
	struct deadline yield_deadline;
	struct deadline deadline;      // handshake, close
	const char *refused_mechanism; // a login that was refused by it is answered at the deadline
	struct deadline heartbeat_out; // each T/2: write something
	struct deadline heartbeat_in;  // each T: something came?
	uint64_t octets_in;	       // at the last look
	uint64_t octets_out;
	uint8_t silent;			// looks in a row that saw nothing come
	struct bytes client_properties; // owns; for those who look at connections
};

static inline struct vhost *
channel_vhost(const struct channel *channel)
{
	return channel->connection->vhost;
}

static inline struct user *
channel_user(const struct channel *channel)
{
	return channel->connection->user;
}

static inline struct broker *
channel_broker(const struct channel *channel)
{
	return channel->connection->session->broker;
}

extern const struct conn_ops connection_conn_ops;

/* Writes a method frame. Only for methods whose fields are of bounded size (METHOD_FRAME_MAX). */
void connection_send(struct connection *connection, uint16_t channel, const struct method *method);
/* The hard error: channels end, connection.close goes out, CONNECTION_CLOSING. */
void connection_refuse(struct connection *connection, const struct reply *reply,
		       uint32_t method_id);
/* The same where the stream cannot be read any further: it is dropped soon, answered or not. */
void connection_refuse_stream(struct connection *connection, const struct reply *reply);
/* After each frame: closes what the refusal (may be NULL) closes. */
void connection_frame_done(struct connection *connection, struct channel *channel,
			   const struct reply *refusal, uint32_t method_id);
/* Nothing that comes counts any more; it is dropped after ms. */
void connection_drop_after(struct connection *connection, uint64_t ms);
/* A channel goes while one of its body frames is half here: the rest is thrown away. */
void connection_forget_body(struct connection *connection, const struct channel *channel);
/* The channel throws its content away, and counts what is still to come of it. */
void connection_stop_sink(struct connection *connection, const struct channel *channel);
/* Ends it without a word. */
void connection_abort(struct connection *connection, const char *why);
/* Changes the state, and the deadline that belongs to it. */
void connection_set_state(struct connection *connection, enum connection_state state);
struct channel *connection_channel(const struct connection *connection, uint16_t id);
void connection_add_channel(struct connection *connection, struct channel *channel);
void connection_remove_channel(struct connection *connection, struct channel *channel);
/* Channels end, exclusive queues go. */
void connection_end_channels(struct connection *connection);

/* ---- pauses.c ---- */

void pauses_init(struct connection *connection);
/* Ends all of them, without the answers that were held. */
void pauses_end(struct connection *connection);
/* What a connection that has just published may have to wait for. */
void pauses_after_publish(struct connection *connection);
/* The same for one that rejected: the records of dead letters need room in the store. */
void pauses_after_burial(struct connection *connection);
/* Holds input until lsn is stable, so that no frame behind the present one is handled before; then the
 * answer (NULL: none) goes out first. */
void connection_hold(struct connection *connection, uint64_t lsn, uint16_t channel,
		     const struct method *answer);
/* Holds input until lsn is stable; then the present frame is handled again. */
void connection_hold_frame(struct connection *connection, uint64_t lsn);
/* Holds input until the queue has a message at hand; then the present frame is handled again. */
void connection_hold_for_read(struct connection *connection, struct queue *queue);
/* Releases the hold when what it waits for is there; whether it did. */
bool connection_release(struct connection *connection);
/* An alarm is on: a publisher is told, and not read. */
void connection_block(struct connection *connection);
/* No alarm is on: a blocked publisher is told and goes on. */
void connection_unblock(struct connection *connection);
/* The store has room: a publisher goes on. */
void connection_stop_waiting(struct connection *connection);

/* ---- heartbeat.c ---- */

void heartbeat_init(struct connection *connection);
/* Begins both watches with heartbeat_s; off when it is 0. */
void heartbeat_start(struct connection *connection);
void heartbeat_stop(struct connection *connection);

/* ---- handshake.c ---- */

#define FRAME_PAYLOAD_LIMIT 536870912 // when no frame_max was negotiated

/* Handles a method frame of channel 0. NULL or what refuses it. */
const struct reply *connection_method(struct connection *connection, struct bytes payload,
				      uint32_t *method_id);
/* The eight octets: start goes out when they are ours, else our own header and the end. */
void handshake_protocol_header(struct connection *connection, const uint8_t *octets);
/* The frame of connection.start; caller owns. */
struct bytes handshake_start_frame(const struct session_options *options);

/* ---- quirks.c ---- */

/* What clients of this product need (enum client_quirk, or-ed); none of nearly all. */
unsigned quirks_of(struct bytes product);

/* ---- sasl.c ---- */

struct login {
	const char *mechanism; // its name; static
	struct user *user;     // borrows; NULL when the login is refused
};

/* Authenticates. Returns NULL, or the reply when mechanism or response make no sense. */
const struct reply *sasl_authenticate(struct connection *connection, struct bytes mechanism,
				      struct bytes response, struct login *login);
/* The names of the mechanisms offered, with spaces between; valid until the next call. */
const char *sasl_mechanisms(unsigned mechanisms);
