/* SPDX-License-Identifier: Apache-2.0 */
/*
 * basic.publish (amqp.md 7.1). The publish frame is kept in the channel's cache: it is what the content
 * that follows belongs to, and when the next publish is the same, octet for octet, exchange, permission
 * and route are known already. A publish that lies whole in the input takes the fast path; any other is
 * put together frame by frame (content.c).
 */
#include "broker/deduplication.h"
#include "broker/exchange.h"
#include "internal.h"

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

void
publish_cache_take(struct channel *channel, struct bytes payload, const struct basic_publish *m)
{
	struct publish_cache *cache = channel->cache;

	if (cache == NULL) {
		cache = channel->cache = slab_alloc(sizeof(*cache));
		cache->frame_size = 0;
		cache->exchange = NULL;
		cache->admitted = false;
		route_init(&cache->route);
	}
	if (cache->frame_size == payload.n && memcmp(cache->frame, payload.p, payload.n) == 0)
		return;
	assert(payload.n <= sizeof(cache->frame));
	/* the same exchange with another key: what was found of it stands */
	if (cache->exchange != NULL && !bytes_equal(cache->exchange_name, m->exchange))
		cache->exchange = NULL;
	memcpy(cache->frame, payload.p, payload.n);
	cache->frame_size = (uint32_t)payload.n;
	cache->admitted = false;
	cache->routed = false;
	cache->exchange_name = bytes_of(cache->frame + (m->exchange.p - payload.p), m->exchange.n);
	cache->key = bytes_of(cache->frame + (m->routing_key.p - payload.p), m->routing_key.n);
	cache->mandatory = m->mandatory;
}

/* Finds the exchange of what the cache holds, unless it stands already (amqp.md 7.1, 2 to 4). */
static const struct reply *
cache_resolve(struct channel *channel)
{
	struct publish_cache *cache = channel->cache;
	struct vhost *vhost = channel_vhost(channel);
	const struct reply *refusal;

	if (cache_stands(channel))
		return NULL;
	cache->exchange = NULL;
	cache->admitted = false;
	cache->routed = false;
	cache->route.count = 0; // its queues may be gone, and nobody may look at them again
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
	return NULL;
}

/* Finds the queues, unless they are known. More keys than the one of the frame are not remembered. */
static void
cache_route(struct publish_cache *cache, struct message *message, const struct keys *keys)
{
	if (cache->routed && keys->count == 1)
		return;
	exchange_route_published(cache->exchange, keys->items, keys->count, message, &cache->route);
	cache->routed = keys->count == 1 && !cache->route.uncacheable;
}

/* ---- publishing ---- */

struct message *
publish_new(const struct channel *channel, struct bytes header, uint32_t body_size, unsigned facts)
{
	const struct publish_cache *cache = channel->cache;
	unsigned flags = (facts & FACT_PERSISTENT ? MESSAGE_PERSISTENT : 0) |
			 (facts & FACT_CC ? MESSAGE_HAS_CC : 0) |
			 (facts & FACT_EXPIRATION ? MESSAGE_HAS_EXPIRATION : 0);

	return message_new(cache->exchange_name, cache->key, header, body_size, (uint16_t)flags);
}

/* The message as consumers get it, which is the one that was published or another; a reference of its own. */
static struct message *
publish_changed(struct channel *channel, struct message *message, unsigned facts)
{
	const struct publish_cache *cache = channel->cache;
	struct message *changed;
	struct buf extension;
	struct buf header;

	if (likely(!(facts & (FACT_BCC | FACT_REPLY_TO))))
		return message_ref(message);
	buf_init(&header, 0);
	publish_change_header(channel, message_header(message), &header);
	buf_init(&extension, 0);
	if (facts & FACT_BCC)
		publish_bcc(message_properties(message), &extension);
	changed = message_new_extended(cache->exchange_name, cache->key, buf_bytes(&header),
				       message->body_size, message->flags, buf_bytes(&extension));
	buf_fini(&extension);
	buf_fini(&header);
	if (message->body_size != 0)
		memcpy(message_body_room(changed), message_body(message).p, message->body_size);
	return changed;
}

struct publish_result
publish_effect(struct channel *channel, const struct route *route, struct message *message,
	       bool mandatory)
{
	struct publish_result result = {0, false};
	bool replied = false;

	if (message->exchange_size == 0)
		replied = reply_publish(channel->connection->session, message);
	if (likely(route->count > 0))
		result = queue_publish(channel_broker(channel), route, message);
	else if (mandatory && !replied)
		deliver_return(channel, message);
	if (unlikely(route->is_duplicate))
		result.lsn = max_u64(result.lsn, duplicate_lsn(channel_broker(channel)));
	return result;
}

/* Gives the message, complete now, to the queues of the cache's route. */
static void
publish_routed(struct channel *channel, struct message *message)
{
	struct publish_cache *cache = channel->cache;
	struct publish_result result;

	cache->exchange->publish_in++;
	channel->connection->published = true;
	if (unlikely(channel->tx != NULL)) {
		tx_publish(channel, &cache->route, message, cache->mandatory);
		return;
	}
	result = publish_effect(channel, &cache->route, message, cache->mandatory);
	if (unlikely(result.lsn != 0))
		channel->connection->stored = true;
	message_unref(message);
	if (channel->confirm.on) {
		confirm_publish(&channel->confirm, result, channel_broker(channel)->stable);
		channel_confirms_changed(channel);
	}
}

/* Topic permissions, for each key; the publish's own alone is remembered. */
static const struct reply *
check_topics(const struct channel *channel, const struct keys *keys)
{
	struct publish_cache *cache = channel->cache;
	const struct reply *refusal = NULL;

	if (cache->admitted && keys->count == 1)
		return NULL;
	for (uint32_t i = 0; i < keys->count && refusal == NULL; i++)
		refusal = user_check_topic(channel_user(channel), cache->exchange, PERMISSION_WRITE,
					   keys->items[i]);
	cache->admitted = refusal == NULL;
	return refusal;
}

const struct reply *
publish_message(struct channel *channel, struct message *message, unsigned facts)
{
	struct keys keys; // views of the message as it was published
	const struct reply *refusal = cache_resolve(channel);

	keys_init(&keys, message_key(message));
	if (refusal == NULL)
		refusal = publish_check(channel, message_properties(message), facts, &keys);
	if (refusal == NULL)
		refusal = check_topics(channel, &keys);
	if (refusal == NULL) {
		struct message *changed = publish_changed(channel, message, facts);

		cache_route(channel->cache, changed, &keys);
		publish_routed(channel, changed);
	}
	keys_fini(&keys);
	message_unref(message);
	return refusal;
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

/* The content behind a publish, whole in the input. */
struct whole_content {
	struct bytes header; // the header frame's payload
	struct bytes body;
	bool persistent;
};

/* Whether the input from p on is the whole content of a message that asks for nothing; where it ends. */
static bool
whole_content(const struct channel *channel, const uint8_t *p, const uint8_t *end,
	      struct whole_content *content, const uint8_t **behind)
{
	uint32_t limit = channel_broker(channel)->options.message_size_max;
	struct content_header header;
	unsigned facts;
	char bad_type;

	if (!whole_frame(p, end, FRAME_HEADER, channel->id, &content->header) ||
	    content->header.n > channel->connection->payload_max ||
	    !content_header_decode(&header, content->header) || header.class_id != 60 ||
	    header.weight != 0 || !publish_facts(header.properties, &facts, &bad_type) ||
	    (facts & ~(unsigned)FACT_PERSISTENT) != 0)
		return false;
	content->persistent = facts != 0;
	content->body = bytes_of(NULL, 0);
	p += FRAME_OVERHEAD + content->header.n;
	if (header.body_size != 0) {
		if (!whole_frame(p, end, FRAME_BODY, channel->id, &content->body) ||
		    content->body.n != header.body_size || content->body.n > limit ||
		    content->body.n > channel->connection->payload_max)
			return false;
		p += FRAME_OVERHEAD + content->body.n;
	}
	*behind = p;
	return true;
}

/* Makes the cache one of another publish; false when something refuses it: the long way says what. */
static bool
take_other(struct channel *channel, struct bytes payload, const struct basic_publish *publish)
{
	struct keys keys;

	publish_cache_take(channel, payload, publish);
	keys_init(&keys, channel->cache->key);
	return cache_resolve(channel) == NULL && check_topics(channel, &keys) == NULL;
}

size_t
publish_fast(struct channel *channel, struct bytes input)
{
	const uint8_t *end = input.p + input.n;
	const uint8_t *behind;
	struct publish_cache *cache = channel->cache;
	struct bytes payload;
	struct whole_content content;
	struct message *message;
	struct method m;
	bool same;

	if (!whole_frame(input.p, end, FRAME_METHOD, channel->id, &payload))
		return 0;
	same = payload.n == cache->frame_size && memcmp(payload.p, cache->frame, payload.n) == 0 &&
	       cache->admitted && cache_stands(channel);
	if (!same && (payload.n < 4 || load_long(payload.p) != METHOD_basic_publish ||
		      payload.n > channel->connection->payload_max ||
		      method_decode(&m, payload) != METHOD_OK || m.basic_publish.immediate))
		return 0;
	if (!whole_content(channel, input.p + FRAME_OVERHEAD + payload.n, end, &content, &behind))
		return 0;
	if (!same && !take_other(channel, payload, &m.basic_publish))
		return 0;
	message = publish_new(channel, content.header, (uint32_t)content.body.n,
			      content.persistent ? FACT_PERSISTENT : 0);
	if (content.body.n != 0)
		memcpy(message_body_room(message), content.body.p, content.body.n);
	if (!cache->routed) {
		struct keys keys;

		keys_init(&keys, cache->key);
		cache_route(cache, message, &keys);
	}
	publish_routed(channel, message);
	return (size_t)(behind - input.p);
}

const struct route *
publish_route(const struct channel *channel)
{
	if (channel->cache == NULL || !cache_stands(channel))
		return NULL;
	return &channel->cache->route;
}

bool
publish_fast_ready(const struct channel *channel)
{
	return channel->state == CHANNEL_OPEN && channel->content.state == CONTENT_NONE &&
	       channel->cache != NULL;
}
