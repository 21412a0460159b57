/* SPDX-License-Identifier: Apache-2.0 */
/*
 * basic.publish and its content (amqp.md 1.5, 7.1). The publish frame is kept in the channel's cache: it
 * is what the content that follows belongs to, and when the next publish is the same, octet for octet,
 * exchange, permission and route are known already. A publish that lies whole in the input takes the
 * fast path; any other is put together frame by frame, its body octets as they arrive.
 */
#include "broker/exchange.h"
#include "internal.h"

#define BODY_SIZE_LIMIT 536870912 // refused by the header already (amqp.md 1.3)

/* ---- the cache ---- */

void
publish_cache_free(struct channel *channel)
{
	if (channel->cache == NULL)
		return;
	route_fini(&channel->cache->route);
	slab_free(channel->cache, sizeof(*channel->cache));
	channel->cache = NULL;
}

static bool
cache_stands(const struct channel *channel)
{
	const struct publish_cache *cache = channel->cache;

	return cache->exchange != NULL &&
	       cache->routing_version == channel_vhost(channel)->routing_version &&
	       cache->permission_version == channel_broker(channel)->permission_version;
}

/* Makes the cache one of this frame, empty unless it was that of the same frame. */
static void
cache_take(struct channel *channel, struct bytes payload, const struct basic_publish *m)
{
	struct publish_cache *cache = channel->cache;

	if (cache == NULL) {
		cache = channel->cache = slab_alloc(sizeof(*cache));
		cache->frame_size = 0;
		route_init(&cache->route);
	}
	if (cache->frame_size == payload.n && memcmp(cache->frame, payload.p, payload.n) == 0)
		return;
	assert(payload.n <= sizeof(cache->frame));
	memcpy(cache->frame, payload.p, payload.n);
	cache->frame_size = (uint32_t)payload.n;
	cache->exchange = NULL;
	cache->exchange_name = bytes_of(cache->frame + (m->exchange.p - payload.p), m->exchange.n);
	cache->key = bytes_of(cache->frame + (m->routing_key.p - payload.p), m->routing_key.n);
	cache->mandatory = m->mandatory;
}

/* Finds exchange and route for what the cache holds, unless they stand already (amqp.md 7.1, 2 to 4). */
static const struct reply *
cache_resolve(struct channel *channel, const struct message *message)
{
	struct publish_cache *cache = channel->cache;
	struct vhost *vhost = channel_vhost(channel);
	const struct reply *refusal;

	if (cache_stands(channel)) {
		if (cache->route.by_headers)
			exchange_route(cache->exchange, cache->key, message_properties(message),
				       &cache->route);
		return NULL;
	}
	cache->exchange = NULL;
	refusal = user_check(channel_user(channel), vhost, PERMISSION_WRITE, RESOURCE_EXCHANGE,
			     cache->exchange_name);
	if (refusal != NULL)
		return refusal;
	cache->exchange = exchange_need(vhost, cache->exchange_name, &refusal);
	if (cache->exchange == NULL)
		return refusal;
	if (cache->exchange->internal) {
		cache->exchange = NULL;
		return refuse(ACCESS_REFUSED,
			      "cannot publish to internal exchange '%.*s' in vhost '%.*s'",
			      BYTES_ARGS(cache->exchange_name), BYTES_ARGS(vhost->name));
	}
	cache->routing_version = vhost->routing_version;
	cache->permission_version = channel_broker(channel)->permission_version;
	exchange_route(cache->exchange, cache->key, message_properties(message), &cache->route);
	return NULL;
}

/* ---- publishing ---- */

/* Gives the message, complete now, to the queues of the cache's route. */
static void
publish_routed(struct channel *channel, struct message *message)
{
	struct broker *broker = channel_broker(channel);
	struct publish_cache *cache = channel->cache;
	struct publish_result result = {0, false};

	cache->exchange->publish_in++;
	if (likely(cache->route.count > 0))
		result = queue_publish(broker, &cache->route, message);
	else if (cache->mandatory)
		deliver_return(channel, message);
	message_unref(message);
	if (channel->confirm.on) {
		confirm_publish(&channel->confirm, result, broker->stable);
		channel_confirms_changed(channel);
	}
	channel->connection->published = true;
}

static const struct reply *
publish_message(struct channel *channel, struct message *message)
{
	const struct reply *refusal = cache_resolve(channel, message);

	if (refusal != NULL) {
		message_unref(message);
		return refusal;
	}
	publish_routed(channel, message);
	return NULL;
}

/* ---- content, frame by frame ---- */

void
content_drop(struct channel *channel)
{
	struct content *content = &channel->content;

	connection_forget_body(channel->connection, channel);
	if (content->message != NULL)
		message_unref(content->message);
	content->message = NULL;
}

const struct reply *
content_begin(struct channel *channel, struct bytes payload, const struct basic_publish *m)
{
	channel->content = (struct content){.state = CONTENT_HEADER};
	if (channel->state != CHANNEL_OPEN)
		return NULL;
	if (m->immediate)
		return refuse(NOT_IMPLEMENTED, "immediate=true");
	cache_take(channel, payload, m);
	return NULL;
}

/* The flags of a message with these properties; false when they cannot be decoded, with the letter of
 * an unknown field type or 0. The two commonest headers are known by sight: none, and a delivery mode
 * alone. */
static bool
message_flags(struct bytes properties, uint16_t *flags, char *bad_type)
{
	struct basic_properties decoded;

	*flags = 0;
	*bad_type = 0;
	if (properties.n == 2 && (properties.p[0] | (properties.p[1] & 0xfc)) == 0)
		return true;
	if (properties.n == 3 && properties.p[0] == 0x10 && (properties.p[1] & 0xfc) == 0) {
		*flags = properties.p[2] == 2 ? MESSAGE_PERSISTENT : 0;
		return true;
	}
	if (!properties_decode(&decoded, properties)) {
		*bad_type = decoded.bad_type;
		return false;
	}
	if ((decoded.flags & PROPERTY_delivery_mode) && decoded.delivery_mode == 2)
		*flags = MESSAGE_PERSISTENT;
	return true;
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
	if (message == NULL)
		return refuse(PRECONDITION_FAILED,
			      "message size %llu is larger than configured max size %u",
			      (unsigned long long)content->body_size,
			      channel_broker(channel)->options.message_size_max);
	return publish_message(channel, message);
}

const struct reply *
content_header(struct channel *channel, struct bytes payload)
{
	struct content *content = &channel->content;
	struct content_header header;
	uint16_t flags;
	char bad_type;

	if (!content_header_decode(&header, payload))
		return refuse(FRAME_ERROR, "cannot decode content properties");
	if (header.class_id != 60)
		return refuse(UNEXPECTED_FRAME,
			      "expected content header for class 60, got one for class %u instead",
			      header.class_id);
	if (header.weight != 0)
		return refuse(UNEXPECTED_FRAME, "expected content header for class 60, got non "
						"content header frame instead");
	if (header.body_size > BODY_SIZE_LIMIT)
		return refuse(FRAME_ERROR, "content body size %llu exceeds maximum allowed size %u",
			      (unsigned long long)header.body_size, BODY_SIZE_LIMIT);
	if (!message_flags(header.properties, &flags, &bad_type))
		return bad_type == 0 ? refuse(FRAME_ERROR, "cannot decode content properties")
				     : refuse(SYNTAX_ERROR,
					      "unknown field type '%c' in the headers", bad_type);
	content->state = CONTENT_BODY;
	content->body_size = header.body_size;
	content->body_received = 0;
	if (channel->state == CHANNEL_OPEN &&
	    header.body_size <= channel_broker(channel)->options.message_size_max)
		content->message = message_new(channel->cache->exchange_name, channel->cache->key,
					       payload, (uint32_t)header.body_size, flags);
	return content->body_size == 0 ? content_complete(channel) : NULL;
}

const struct reply *
content_body(struct channel *channel, struct bytes octets)
{
	struct content *content = &channel->content;

	if (octets.n > content->body_size - content->body_received)
		return refuse(FRAME_ERROR, "content body frame exceeds remaining content size");
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

/* ---- the fast path ---- */

/* Whether input goes on with a whole frame of this type on this channel; its payload. */
static bool
whole_frame(const uint8_t *p, const uint8_t *end, enum frame_type type, uint16_t id,
	    struct bytes *payload)
{
	uint32_t size;

	if (end - p < FRAME_OVERHEAD || p[0] != type || (p[1] << 8 | p[2]) != id)
		return false;
	size = load_long(p + 3);
	if (size > (size_t)(end - p) - FRAME_OVERHEAD || p[FRAME_PREFIX + size] != FRAME_END)
		return false;
	*payload = bytes_of(p + FRAME_PREFIX, size);
	return true;
}

size_t
publish_fast(struct channel *channel, struct bytes input)
{
	const struct publish_cache *cache = channel->cache;
	const uint8_t *end = input.p + input.n;
	const uint8_t *p = input.p;
	struct bytes payload;
	struct bytes body = {NULL, 0};
	struct content_header header;
	struct message *message;
	uint16_t flags;
	char bad_type;

	if (!whole_frame(p, end, FRAME_METHOD, channel->id, &payload) ||
	    payload.n != cache->frame_size || memcmp(payload.p, cache->frame, payload.n) != 0)
		return 0;
	p += FRAME_OVERHEAD + payload.n;
	if (!whole_frame(p, end, FRAME_HEADER, channel->id, &payload) ||
	    payload.n > channel->connection->payload_max ||
	    !content_header_decode(&header, payload) || header.class_id != 60 ||
	    header.weight != 0 || !message_flags(header.properties, &flags, &bad_type))
		return 0;
	p += FRAME_OVERHEAD + payload.n;
	if (header.body_size != 0) {
		if (!whole_frame(p, end, FRAME_BODY, channel->id, &body) ||
		    body.n != header.body_size || body.n > channel->connection->payload_max ||
		    body.n > channel_broker(channel)->options.message_size_max)
			return 0;
		p += FRAME_OVERHEAD + body.n;
	}
	message = message_new(cache->exchange_name, cache->key, payload, (uint32_t)body.n, flags);
	if (body.n != 0)
		memcpy(message_body_room(message), body.p, body.n);
	if (unlikely(cache->route.by_headers))
		cache_resolve(channel, message);
	publish_routed(channel, message);
	return (size_t)(p - input.p);
}

bool
publish_fast_ready(const struct channel *channel)
{
	return channel->state == CHANNEL_OPEN && channel->content.state == CONTENT_NONE &&
	       channel->cache != NULL && cache_stands(channel);
}
