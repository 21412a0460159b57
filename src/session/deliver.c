/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages out: basic.deliver, basic.get-ok, basic.return with their content. A small message goes as one
 * copy of its wire form behind the consumer's fields, with the channel numbers patched in; a larger one
 * in parts, its body by reference (DESIGN.md section 4).
 */
#include "internal.h"

/* Bodies from this size on go by reference (hot-path.md, rule 9). */
#define BODY_COPY_MAX 4096

static void
message_release(void *owner)
{
	message_unref(owner);
}

/* Whether names, header and body can be copied in one piece behind `before` octets. */
static bool
fits_whole(const struct channel *channel, const struct message *m, size_t before)
{
	uint32_t frame_max = channel->connection->frame_max;

	return m->body_size < BODY_COPY_MAX &&
	       (frame_max == 0 || m->body_size + FRAME_OVERHEAD <= frame_max) &&
	       before + message_wire_size(m) <= CONN_RESERVE_MAX;
}

static void
write_header_frame(struct channel *channel, const struct message *m)
{
	struct conn *conn = channel->connection->conn;
	size_t size = FRAME_OVERHEAD + m->header_size;
	uint8_t prefix[FRAME_PREFIX];

	if (size <= CONN_RESERVE_MAX) {
		uint8_t *p = conn_reserve(conn, size);

		memcpy(p, m->wire + message_header_at(m), size);
		store_short(p + 1, channel->id);
		conn_commit(conn, size);
		return;
	}
	frame_prefix_encode(prefix, FRAME_HEADER, channel->id, m->header_size);
	conn_write(conn, bytes_of(prefix, sizeof(prefix)));
	conn_write(conn,
		   bytes_of(m->wire + message_header_at(m) + FRAME_PREFIX, m->header_size + 1));
}

static void
write_body_frames(struct channel *channel, struct message *m)
{
	struct conn *conn = channel->connection->conn;
	uint32_t frame_max = channel->connection->frame_max;
	uint32_t piece_max = frame_max == 0 ? UINT32_MAX : frame_max - FRAME_OVERHEAD;
	struct bytes body = message_body(m);

	while (body.n > 0) {
		uint32_t n = (uint32_t)min_u64(body.n, piece_max);
		uint8_t *prefix = conn_reserve(conn, FRAME_PREFIX);

		frame_prefix_encode(prefix, FRAME_BODY, channel->id, n);
		conn_commit(conn, FRAME_PREFIX);
		conn_write_reference(conn, bytes_of(body.p, n), message_release, message_ref(m));
		*conn_reserve(conn, 1) = FRAME_END;
		conn_commit(conn, 1);
		body = bytes_of(body.p + n, body.n - n);
	}
}

/* Writes `before` octets that begin a method frame and end with the message's names, then the rest.
 * The frame's prefix is written here; names_size is added to its payload. */
static void
write_with_names(struct channel *channel, struct message *m, const uint8_t *before, size_t n)
{
	struct conn *conn = channel->connection->conn;
	size_t names = message_names_size(m);
	size_t wire = message_wire_size(m);
	bool whole = fits_whole(channel, m, FRAME_PREFIX + n);
	size_t tail = whole ? wire : names;
	uint8_t *p = conn_reserve(conn, FRAME_PREFIX + n + tail);

	frame_prefix_encode(p, FRAME_METHOD, channel->id, (uint32_t)(n + names - 1));
	memcpy(p + FRAME_PREFIX, before, n);
	p += FRAME_PREFIX + n;
	memcpy(p, m->wire, tail);
	if (whole) {
		store_short(p + message_header_at(m) + 1, channel->id);
		if (m->body_size != 0)
			store_short(p + message_body_at(m) + 1, channel->id);
	}
	conn_commit(conn, FRAME_PREFIX + n + tail);
	if (!whole) {
		write_header_frame(channel, m);
		write_body_frames(channel, m);
	}
}

static void
write_deliver(struct channel *channel, struct bytes consumer_tag, struct message *message,
	      uint64_t tag, bool redelivered)
{
	uint8_t before[4 + 1 + 255 + 8 + 1];
	uint8_t *p = before;

	store_long(p, METHOD_basic_deliver);
	p[4] = (uint8_t)consumer_tag.n;
	memcpy(p + 5, consumer_tag.p, consumer_tag.n);
	p += 5 + consumer_tag.n;
	store_longlong(p, tag);
	p[8] = redelivered;
	write_with_names(channel, message, before, (size_t)(p + 9 - before));
}

void
deliver_reply(struct channel *channel, struct bytes consumer_tag, struct message *message)
{
	write_deliver(channel, consumer_tag, message, channel->next_tag++, false);
}

static void
keep_unacked(struct channel *channel, struct consumer *consumer, const struct entry *entry,
	     uint64_t tag)
{
	struct unacked_slot *slot = unacked_add(&channel->unacked, tag);

	slot->entry = *entry;
	slot->queue = queue_ref(consumer->from);
	slot->consumer = consumer_ref(consumer);
	slot->global = channel->prefetch.limit != 0;
	slot->in_tx = false;
	ack_timeout_delivered(channel, slot);
	consumer->prefetch.used++;
	if (slot->global) {
		/* its next turn comes when all others on the channel had theirs */
		channel->prefetch.used++;
		list_remove(&channel->turns, &consumer->of_channel);
		list_append(&channel->turns, &consumer->of_channel);
	}
}

/* As queues that count tell how often the message came back. */
static NEVER_INLINE void
write_counted(struct channel *channel, const struct consumer *consumer, const struct entry *entry,
	      uint64_t tag)
{
	struct message *counted = message_with_count(entry->message, entry_returns(entry));

	write_deliver(channel, consumer->tag, counted, tag, true);
	message_unref(counted);
}

static enum deliver_result
on_deliver(struct consumer *consumer, const struct entry *entry)
{
	struct channel *channel = consumer->channel;
	struct connection *connection = channel->connection;
	uint64_t tag;

	if (!prefetch_has_room(&channel->prefetch))
		return DELIVER_FULL;
	if (!consumer->no_ack && !prefetch_has_room(&consumer->prefetch))
		return DELIVER_FULL;
	if (conn_is_full(connection->conn)) {
		if (!list_linked(&consumer->stalled))
			list_append(&connection->stalled, &consumer->stalled);
		return DELIVER_FULL;
	}
	tag = channel->next_tag++;
	if (unlikely(entry_returns(entry) > 0))
		write_counted(channel, consumer, entry, tag);
	else
		write_deliver(channel, consumer->tag, entry->message, tag,
			      (entry->bits & ENTRY_REDELIVERED) != 0);
	if (!consumer->no_ack)
		keep_unacked(channel, consumer, entry, tag);
	return DELIVER_TOOK;
}

static void
on_cancelled(struct consumer *consumer)
{
	struct channel *channel = consumer->channel;
	struct connection *connection = channel->connection;

	channel_forget_consumer(channel, consumer);
	if (connection->capabilities & CLIENT_CONSUMER_CANCEL_NOTIFY)
		list_append(&connection->session->cancelled, &consumer_ref(consumer)->stalled);
}

const struct consumer_ops session_consumer_ops = {
	.deliver = on_deliver,
	.cancelled = on_cancelled,
};

void
session_send_cancels(struct session *session)
{
	struct list_link *link;

	while ((link = list_pop(&session->cancelled)) != NULL) {
		struct consumer *consumer = container_of(link, struct consumer, stalled);
		struct channel *channel = consumer->channel;

		if (channel->state == CHANNEL_OPEN)
			channel_send(
				channel,
				&(struct method){.id = METHOD_basic_cancel,
						 .basic_cancel = {.consumer_tag = consumer->tag,
								  .nowait = true}});
		consumer_unref(consumer);
	}
}

void
session_forget_cancels(struct channel *channel)
{
	struct session *session = channel->connection->session;
	struct consumer *consumer;

	list_for_each_safe (&session->cancelled, consumer, struct consumer, stalled) {
		if (consumer->channel == channel) {
			list_remove(&session->cancelled, &consumer->stalled);
			consumer_unref(consumer);
		}
	}
}

void
deliver_get_ok(struct channel *channel, const struct entry *entry, uint64_t tag,
	       uint64_t ready_left)
{
	uint8_t before[4 + 8 + 1];
	struct conn *conn = channel->connection->conn;
	struct message *m = entry_returns(entry) > 0
				    ? message_with_count(entry->message, entry_returns(entry))
				    : message_ref(entry->message);
	size_t names = message_names_size(m) - 1; // the message count comes before the end octet
	size_t size = FRAME_PREFIX + sizeof(before) + names + 4 + 1;
	uint8_t *p = conn_reserve(conn, size);

	store_long(before, METHOD_basic_get_ok);
	store_longlong(before + 4, tag);
	before[12] = (entry->bits & ENTRY_REDELIVERED) != 0;
	frame_prefix_encode(p, FRAME_METHOD, channel->id, (uint32_t)(sizeof(before) + names + 4));
	memcpy(p + FRAME_PREFIX, before, sizeof(before));
	memcpy(p + FRAME_PREFIX + sizeof(before), m->wire, names);
	store_long(p + size - 5, (uint32_t)min_u64(ready_left, UINT32_MAX));
	p[size - 1] = FRAME_END;
	conn_commit(conn, size);
	write_header_frame(channel, m);
	write_body_frames(channel, m);
	message_unref(m);
}

void
deliver_return(struct channel *channel, struct message *message)
{
	static const char text[] = "NO_ROUTE";
	uint8_t before[4 + 2 + sizeof(text)];

	store_long(before, METHOD_basic_return);
	store_short(before + 4, NO_ROUTE);
	before[6] = sizeof(text) - 1;
	memcpy(before + 7, text, sizeof(text) - 1);
	write_with_names(channel, message, before, sizeof(before));
}
