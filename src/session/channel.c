/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: its frames, the table of its methods, its end (amqp.md 4). While it is closing, methods and
 * content are thrown away; content is still followed, so that the stream stays in step.
 */
#include "handlers.h"
#include "internal.h"
#include "util/owned.h"

struct channel *
channel_new(struct connection *connection, uint16_t id)
{
	struct channel *channel = pool_alloc(&connection->session->channels_pool);

	*channel = (struct channel){
		.connection = connection,
		.id = id,
		.state = CHANNEL_OPEN,
		.next_tag = 1,
	};
	map_init(&channel->consumers);
	list_init(&channel->turns);
	unacked_init(&channel->unacked);
	confirm_init(&channel->confirm);
	connection_add_channel(connection, channel);
	connection->session->channel_count++;
	return channel;
}

void
channel_add_consumer(struct channel *channel, struct consumer *consumer)
{
	map_insert(&channel->consumers, &consumer->by_tag, consumer->tag);
	list_append(&channel->turns, &consumer->of_channel);
}

void
channel_forget_consumer(struct channel *channel, struct consumer *consumer)
{
	map_remove(&channel->consumers, &consumer->by_tag);
	list_remove(&channel->turns, &consumer->of_channel);
	if (list_linked(&consumer->stalled))
		list_remove(&channel->connection->stalled, &consumer->stalled);
}

void
channel_remove_consumer(struct channel *channel, struct consumer *consumer)
{
	channel_forget_consumer(channel, consumer);
	consumer_cancel(consumer);
}

void
channel_end(struct channel *channel)
{
	struct map_node *node;

	while ((node = map_first(&channel->consumers)) != NULL)
		channel_remove_consumer(channel, container_of(node, struct consumer, by_tag));
	reply_end(channel);
	tx_end(channel);
	settle_requeue_all(channel);
	ack_timeout_end(channel);
	content_drop(channel);
	if (list_linked(&channel->confirming))
		list_remove(&channel->connection->session->confirming, &channel->confirming);
}

void
channel_free(struct channel *channel)
{
	struct connection *connection = channel->connection;

	channel_end(channel);
	session_forget_cancels(channel);
	connection_remove_channel(connection, channel);
	connection->session->channel_count--;
	map_fini(&channel->consumers);
	unacked_fini(&channel->unacked);
	confirm_fini(&channel->confirm);
	publish_cache_free(channel);
	bytes_drop(&channel->last_queue);
	pool_free(&connection->session->channels_pool, channel);
}

void
channel_send(struct channel *channel, const struct method *method)
{
	connection_send(channel->connection, channel->id, method);
}

void
channel_answer(struct channel *channel, bool nowait, const struct method *method)
{
	struct connection *connection = channel->connection;
	uint64_t lsn = connection->session->broker->effect_lsn;

	if (lsn > connection->session->broker->stable)
		connection_hold(connection, lsn, channel->id, nowait ? NULL : method);
	else if (!nowait)
		channel_send(channel, method);
}

void
channel_confirms_changed(struct channel *channel)
{
	if (!list_linked(&channel->confirming))
		list_append(&channel->connection->session->confirming, &channel->confirming);
}

void
channel_refuse(struct channel *channel, const struct reply *reply, uint32_t method_id)
{
	struct method close = {
		.id = METHOD_channel_close,
		.channel_close = {.reply_code = (uint16_t)reply->code,
				  .reply_text = bytes_str(reply->text),
				  .class_id = reply->no_ids ? 0 : (uint16_t)(method_id >> 16),
				  .method_id = reply->no_ids ? 0 : (uint16_t)method_id},
	};

	log_info("channel error connection=%llu channel=%u code=%d method=%s text=\"%s\"",
		 (unsigned long long)conn_id(channel->connection->conn), channel->id,
		 (int)reply->code, method_name(method_id), reply->text);
	channel_send(channel, &close);
	channel->state = CHANNEL_CLOSING;
	channel_end(channel);
}

const struct reply *
channel_queue_name(const struct channel *channel, struct bytes *name)
{
	if (name->n != 0)
		return NULL;
	if (channel->last_queue.n == 0)
		return refuse(NOT_FOUND, "no previously declared queue");
	*name = channel->last_queue;
	return NULL;
}

void
channel_set_last_queue(struct channel *channel, struct bytes name)
{
	if (bytes_equal(channel->last_queue, name))
		return;
	bytes_drop(&channel->last_queue);
	channel->last_queue = bytes_dup(name);
}

/* ---- frames ---- */

static const struct reply *
dispatch(struct channel *channel, const struct method *m)
{
	switch (m->id) {
#define ON(class, method, states)                 \
	case METHOD_##class##_##method:           \
		if (!(channel->state & (states))) \
			return NULL;              \
		return on_##class##_##method(channel, &m->class##_##method);
#include "handlers.def"
	default:
		if (channel->state == CHANNEL_CLOSING && m->id >> 16 != 10)
			return NULL;
		return refuse(COMMAND_INVALID, "unimplemented method");
	}
}

const struct reply *
refuse_undecodable(enum method_result result, uint32_t method_id)
{
	switch (result) {
	case METHOD_UNKNOWN:
		return refuse(NOT_IMPLEMENTED, "unknown method %u.%u", method_id >> 16,
			      method_id & 0xffff);
	case METHOD_BAD_UTF8:
		return refuse_no_ids(FRAME_ERROR, "Malformed UTF-8 in shortstr");
	case METHOD_BAD_TABLE_TYPE:
		return refuse(SYNTAX_ERROR, "unknown field type in a table");
	default:
		if (method_id == 0)
			return refuse_no_ids(FRAME_ERROR, "type 1, no method in the frame");
		return refuse(FRAME_ERROR, "cannot decode %s", method_name(method_id));
	}
}

static const struct reply *
channel_method(struct channel *channel, const struct frame *frame, uint32_t *method_id)
{
	struct method m;
	enum method_result result = method_decode(&m, frame->payload);

	*method_id = m.id;
	if (result != METHOD_OK)
		return refuse_undecodable(result, m.id);
	if (m.id == METHOD_basic_publish)
		return content_begin(channel, frame->payload, &m.basic_publish);
	if (method_has_content(m.id)) {
		content_begin_unwanted(channel, m.id);
		return NULL;
	}
	channel_broker(channel)->effect_lsn = 0;
	return dispatch(channel, &m);
}

const struct reply *
channel_frame(struct channel *channel, const struct frame *frame, uint32_t *method_id)
{
	*method_id = channel->content.method_id;
	switch (channel->content.state) {
	case CONTENT_NONE:
		if (frame->type == FRAME_METHOD)
			return channel_method(channel, frame, method_id);
		return refuse_no_ids(UNEXPECTED_FRAME,
				     "expected method frame, got non method frame instead");
	case CONTENT_HEADER:
		if (frame->type == FRAME_HEADER)
			return content_header(channel, frame->payload);
		return refuse(UNEXPECTED_FRAME, "expected content header for class 60, got non "
						"content header frame instead");
	case CONTENT_BODY:
		if (frame->type == FRAME_BODY)
			return content_body(channel, frame->payload);
		return refuse(UNEXPECTED_FRAME,
			      "expected content body, got non content body frame instead");
	}
	return NULL;
}

/* ---- class channel ---- */

const struct reply *
on_channel_open(struct channel *channel, const struct channel_open *m)
{
	(void)channel;
	(void)m;
	return refuse(CHANNEL_ERROR, "second 'channel.open' seen");
}

const struct reply *
on_channel_flow(struct channel *channel, const struct channel_flow *m)
{
	if (!m->active)
		return refuse(NOT_IMPLEMENTED, "active=false");
	channel_send(channel, &(struct method){.id = METHOD_channel_flow_ok,
					       .channel_flow_ok = {.active = true}});
	return NULL;
}

const struct reply *
on_channel_close(struct channel *channel, const struct channel_close *m)
{
	(void)m;
	if (channel->state == CHANNEL_OPEN) {
		confirm_send(channel);
		channel_end(channel);
	}
	channel_send(channel, &(struct method){.id = METHOD_channel_close_ok});
	/* after our own channel.close the number is free only with the peer's close-ok */
	if (channel->state == CHANNEL_OPEN)
		channel_free(channel);
	return NULL;
}

const struct reply *
on_channel_close_ok(struct channel *channel, const struct channel_close_ok *m)
{
	(void)m;
	channel_free(channel);
	return NULL;
}

const struct reply *
on_access_request(struct channel *channel, const struct access_request *m)
{
	(void)m;
	channel_send(channel, &(struct method){.id = METHOD_access_request_ok,
					       .access_request_ok = {.reserved_1 = 1}});
	return NULL;
}
