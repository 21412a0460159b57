/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct reply-to (amqp.md 7.12): a channel that consumes from the pseudo-queue amq.rabbitmq.reply-to
 * gets a token, a name that leads straight back to it. The token takes the place of the pseudo-queue in
 * the reply-to of what the channel publishes; who publishes to the default exchange with the token as
 * key delivers to the channel at once, without any queue. The token is random, so nobody else knows it,
 * and ends with the consumer.
 */
#include "internal.h"
#include "util/digest.h"
#include "util/owned.h"

#define TOKEN_PREFIX REPLY_TO_QUEUE "."

bool
reply_is_pseudo_queue(struct bytes name)
{
	return bytes_has_prefix(name, BYTES(REPLY_TO_QUEUE)) &&
	       (name.n == sizeof(REPLY_TO_QUEUE) - 1 ||
		bytes_has_prefix(name, BYTES(TOKEN_PREFIX)));
}

static struct reply_consumer *
reply_find(const struct session *session, struct bytes token)
{
	struct map_node *node = map_find(&session->replies, token);

	return node == NULL ? NULL : container_of(node, struct reply_consumer, node);
}

bool
reply_exists(const struct session *session, struct bytes name)
{
	return bytes_equal(name, BYTES(REPLY_TO_QUEUE)) || reply_find(session, name) != NULL;
}

const struct reply *
reply_consume(struct channel *channel, const struct basic_consume *m)
{
	uint8_t octets[32];
	char token[sizeof(TOKEN_PREFIX) + 48];
	char generated[NAME_GENERATED_SIZE];
	size_t n = sizeof(TOKEN_PREFIX) - 1;
	struct bytes tag = m->consumer_tag;
	struct reply_consumer *reply;

	if (!m->no_ack)
		return refuse(PRECONDITION_FAILED, "reply consumer cannot acknowledge");
	if (channel->reply != NULL)
		return refuse(PRECONDITION_FAILED, "reply consumer already set");
	if (tag.n == 0)
		tag = name_generate("amq.ctag-", generated);
	memcpy(token, TOKEN_PREFIX, n);
	random_bytes(octets, sizeof(octets));
	n += base64_encode(bytes_of(octets, sizeof(octets)), true, token + n, sizeof(token) - n);
	reply = xmalloc(sizeof(*reply));
	*reply = (struct reply_consumer){
		.token = bytes_dup(bytes_of(token, n)),
		.tag = bytes_dup(tag),
		.channel = channel,
	};
	map_insert(&channel->connection->session->replies, &reply->node, reply->token);
	channel->reply = reply;
	if (!m->nowait)
		channel_send(channel, &(struct method){.id = METHOD_basic_consume_ok,
						       .basic_consume_ok = {tag}});
	return NULL;
}

void
reply_end(struct channel *channel)
{
	struct reply_consumer *reply = channel->reply;

	if (reply == NULL)
		return;
	map_remove(&channel->connection->session->replies, &reply->node);
	channel->reply = NULL;
	bytes_drop(&reply->token);
	bytes_drop(&reply->tag);
	xfree(reply);
}

static bool
publish_to_token(const struct session *session, struct bytes key, struct message *message)
{
	struct reply_consumer *reply;

	if (likely(!bytes_has_prefix(key, BYTES(TOKEN_PREFIX))))
		return false;
	reply = reply_find(session, key);
	if (reply == NULL || reply->channel->state != CHANNEL_OPEN)
		return false;
	deliver_reply(reply->channel, reply->tag, message);
	return true;
}

bool
reply_publish(const struct session *session, struct message *message)
{
	bool replied = publish_to_token(session, message_key(message), message);
	struct basic_properties properties;
	struct field_iterator iterator;
	struct field field;

	if (likely(!(message->flags & MESSAGE_HAS_CC)))
		return replied;
	if (!properties_decode(&properties, message_properties(message)) ||
	    !table_find(properties.headers, BYTES("CC"), &field))
		return replied;
	iterator = array_iterate(field.bytes);
	while (field_next(&iterator, &field))
		if (field.type == 'S' && publish_to_token(session, field.bytes, message))
			replied = true;
	return replied;
}
