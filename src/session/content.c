/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content behind a basic.publish (amqp.md 1.5): one header frame, then body frames until as many
 * octets have come as the header announced. They go straight into the message, which is published with
 * the last of them. On a closing channel, and for bodies that are too large, the octets are counted and
 * thrown away, so that the stream stays in step.
 */
#include "internal.h"

#define BODY_SIZE_LIMIT 536870912 // refused by the header already (amqp.md 1.3)
/* Room taken on the word of a header; more only as octets come, so that announcing costs no memory. */
#define BODY_ROOM_FIRST 131072

void
content_drop(struct channel *channel)
{
	struct content *content = &channel->content;

	connection_stop_sink(channel->connection, channel);
	if (content->message != NULL)
		message_unref(content->message);
	content->message = NULL;
}

const struct reply *
content_begin(struct channel *channel, struct bytes payload, const struct basic_publish *m)
{
	channel->content = (struct content){
		.state = CONTENT_HEADER,
		.method_id = METHOD_basic_publish,
	};
	if (channel->state != CHANNEL_OPEN)
		return NULL;
	if (m->immediate)
		return refuse(NOT_IMPLEMENTED, "immediate=true");
	publish_cache_take(channel, payload, m);
	return NULL;
}

void
content_begin_unwanted(struct channel *channel, uint32_t method_id)
{
	channel->content = (struct content){.state = CONTENT_HEADER, .method_id = method_id};
}

static const struct reply *
content_complete(struct channel *channel)
{
	struct content *content = &channel->content;
	struct message *message = content->message;

	content->state = CONTENT_NONE;
	content->message = NULL;
	if (channel->state != CHANNEL_OPEN)
		return NULL;
	if (content->method_id != METHOD_basic_publish)
		return refuse(COMMAND_INVALID, "unimplemented method");
	if (message == NULL)
		return refuse(PRECONDITION_FAILED,
			      "message size %llu is larger than configured max size %u",
			      (unsigned long long)content->body_size,
			      channel_broker(channel)->options.message_size_max);
	return publish_message(channel, message, content->facts);
}

/* What is wrong with a header whatever its properties say. */
static const struct reply *
check_header(const struct content_header *header)
{
	if (header->class_id != 60)
		return refuse(UNEXPECTED_FRAME,
			      "expected content header for class 60, got one for class %u instead",
			      header->class_id);
	if (header->weight != 0)
		return refuse(UNEXPECTED_FRAME, "expected content header for class 60, got non "
						"content header frame instead");
	if (header->body_size > BODY_SIZE_LIMIT)
		return refuse(FRAME_ERROR, "content body size %llu exceeds maximum allowed size %u",
			      (unsigned long long)header->body_size, BODY_SIZE_LIMIT);
	return NULL;
}

const struct reply *
content_header(struct channel *channel, struct bytes payload)
{
	struct content *content = &channel->content;
	struct content_header header;
	const struct reply *refusal;
	char bad_type;

	if (!content_header_decode(&header, payload))
		return refuse(FRAME_ERROR, "cannot decode content properties");
	refusal = check_header(&header);
	if (refusal != NULL)
		return refusal;
	if (!publish_facts(header.properties, &content->facts, &bad_type))
		return bad_type == 0 ? refuse(FRAME_ERROR, "cannot decode content properties")
				     : refuse(SYNTAX_ERROR,
					      "unknown field type '%c' in the headers", bad_type);
	content->state = CONTENT_BODY;
	content->body_size = header.body_size;
	content->body_received = 0;
	if (channel->state == CHANNEL_OPEN && content->method_id == METHOD_basic_publish &&
	    header.body_size <= channel_broker(channel)->options.message_size_max)
		content->message = publish_new(channel, payload,
					       (uint32_t)min_u64(header.body_size, BODY_ROOM_FIRST),
					       content->facts);
	return content->body_size == 0 ? content_complete(channel) : NULL;
}

void
content_make_room(struct channel *channel, uint32_t octets)
{
	struct content *content = &channel->content;
	uint64_t needed = content->body_received + octets;
	uint64_t doubled;

	if (content->message == NULL || needed <= content->message->body_size)
		return;
	doubled = 2 * (uint64_t)content->message->body_size;
	content->message = message_grow(
		content->message, (uint32_t)min_u64(content->body_size, max_u64(doubled, needed)));
}

const struct reply *
content_body(struct channel *channel, struct bytes octets)
{
	struct content *content = &channel->content;

	if (octets.n > content->body_size - content->body_received)
		return refuse(FRAME_ERROR, "content body frame exceeds remaining content size");
	content_make_room(channel, (uint32_t)octets.n);
	if (content->message != NULL && octets.n != 0)
		memcpy(message_body_room(content->message) + content->body_received, octets.p,
		       octets.n);
	return content_advance(channel, (uint32_t)octets.n);
}

uint8_t *
content_body_room(const struct channel *channel)
{
	const struct content *content = &channel->content;

	return content->message == NULL
		       ? NULL
		       : message_body_room(content->message) + content->body_received;
}

const struct reply *
content_advance(struct channel *channel, uint32_t octets)
{
	struct content *content = &channel->content;

	content->body_received += octets;
	return content->body_received == content->body_size ? content_complete(channel) : NULL;
}
