/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dead letters (amqp.md 9): a message that was rejected, expired, dropped for want of room, or that came back
 * too often is published to the dead letter exchange of its queue, with a history of its deaths in the header
 * x-death: an array of tables, the latest death first, one for each queue and reason, counted.
 *
 * A message that a client publishes with an x-death has a history too, as on RabbitMQ 3.13, or with
 * client_deaths_are_data it has not, as on 4.x: then only what was written here counts (MESSAGE_HAS_DEATHS), and
 * the first death replaces the headers that would speak of one.
 *
 * A letter does not go to a queue in which the message has died before when since then no client has
 * rejected it: it would go round for ever.
 */
#include "broker/exchange.h"
#include "broker/message.h"
#include "internal.h"
#include "store/format.h"
#include "store/record.h"
#include "util/buf.h"
#include "util/log.h"
#include "wire/field.h"
#include "wire/props.h"

/* Octets that names, types and lengths of the fields of one death take, and of the six headers beside it. */
#define DEATH_OCTETS 512

static const struct {
	struct bytes name;
	enum ack_reason settled; // of a message without a dead letter
} deaths[] = {
	[DEATH_REJECTED] = {BYTES("rejected"), ACK_REJECTED},
	[DEATH_EXPIRED] = {BYTES("expired"), ACK_EXPIRED},
	[DEATH_MAXLEN] = {BYTES("maxlen"), ACK_MAXLEN},
	[DEATH_DELIVERY_LIMIT] = {BYTES("delivery_limit"), ACK_REJECTED},
};

/* A message that dies, and what is known of it. */
struct dying {
	const struct queue *queue;
	const struct message *message;
	enum death death;
	bool remembers;			    // what its headers say of deaths is true
	struct basic_properties properties; // as it had them
	struct bytes past;		    // values of its x-death; empty: it never died
};

static bool
has_string(struct bytes table, struct bytes name, struct bytes value)
{
	struct field field;

	return table_find(table, name, &field) && field.class == FIELD_STRING &&
	       (value.p == NULL || bytes_equal(field.bytes, value));
}

/* Whether it is a death as we write them. */
static bool
is_death(const struct field *entry)
{
	struct field count;

	return entry->class == FIELD_TABLE &&
	       has_string(entry->bytes, BYTES("queue"), bytes_of(NULL, 0)) &&
	       has_string(entry->bytes, BYTES("reason"), bytes_of(NULL, 0)) &&
	       table_find(entry->bytes, BYTES("count"), &count) && count.class == FIELD_INTEGER;
}

static bool
is_same_death(const struct dying *dying, const struct field *entry)
{
	return has_string(entry->bytes, BYTES("queue"), dying->queue->name) &&
	       has_string(entry->bytes, BYTES("reason"), deaths[dying->death].name);
}

static struct dying
dying_of(const struct queue *q, const struct message *m, enum death death)
{
	const struct broker_options *options = &q->vhost->broker->options;
	struct dying dying = {
		.queue = q,
		.message = m,
		.death = death,
		.remembers = (m->flags & MESSAGE_HAS_DEATHS) || !options->client_deaths_are_data,
	};
	struct field past;
	bool well = properties_decode(&dying.properties, message_properties(m));

	assert(well);
	if (dying.remembers && table_find(dying.properties.headers, BYTES("x-death"), &past) &&
	    past.class == FIELD_ARRAY)
		dying.past = past.bytes;
	return dying;
}

/* What of the message's extension goes with the letter: the keys of BCC, while it goes by its own keys. */
static void
put_extension(const struct dying *dying, struct buf *out)
{
	struct bytes extension = message_extension(dying->message);
	struct message_value value;

	while (!queue_settings(dying->queue)->has_dead_key &&
	       message_value_next(&extension, &value))
		if (value.tag == MESSAGE_TAG_BCC)
			message_put_bcc(out, value.octets);
}

/* ---- the history ---- */

static void
put_first_fields(const struct dying *dying, struct writer *w, int64_t count)
{
	table_put_long(w, BYTES("count"), count);
	table_put_string(w, BYTES("reason"), deaths[dying->death].name);
	table_put_string(w, BYTES("queue"), dying->queue->name);
}

/* A death that is new to the message. */
static void
put_new_death(const struct dying *dying, struct writer *w)
{
	struct key_list list = {NULL, 0};
	uint8_t *keys;

	if (dying->properties.flags & PROPERTY_expiration)
		table_put_string(w, BYTES("original-expiration"), dying->properties.expiration);
	put_first_fields(dying, w, 1);
	table_put_timestamp(w, BYTES("time"), dying->queue->vhost->broker->now.wall_ms / 1000);
	table_put_string(w, BYTES("exchange"), message_exchange(dying->message));
	keys = array_begin(w, BYTES("routing-keys"));
	key_list_add_known(&list, dying->message, dying->properties.headers);
	for (uint32_t i = 0; i < list.count; i++)
		array_put_string(w, list.items[i]);
	key_list_fini(&list);
	table_end(w, keys);
}

/* One that it has died before: all but the count stays. */
static void
put_known_death(struct writer *w, struct bytes entry)
{
	struct field_iterator iterator = table_iterate(entry);
	struct field field;

	while (field_next(&iterator, &field))
		if (bytes_equal(field.name, BYTES("count")) && field.integer < INT64_MAX)
			table_put_long(w, field.name, field.integer + 1);
		else
			table_put_field(w, field.name, &field);
}

static void
put_history(const struct dying *dying, struct writer *w)
{
	struct field_iterator iterator = array_iterate(dying->past);
	uint8_t *array = array_begin(w, BYTES("x-death"));
	uint8_t *table = array_table_begin(w);
	bool known = false;
	struct field entry;

	while (!known && field_next(&iterator, &entry))
		known = is_death(&entry) && is_same_death(dying, &entry);
	if (known)
		put_known_death(w, entry.bytes);
	else
		put_new_death(dying, w);
	table_end(w, table);
	iterator = array_iterate(dying->past);
	while (field_next(&iterator, &entry))
		if (is_death(&entry) && !is_same_death(dying, &entry))
			array_put_field(w, &entry);
	table_end(w, array);
}

/* The headers that name the first death or the last one. */
static void
put_summary(const struct dying *dying, struct writer *w, const struct bytes names[3])
{
	table_put_string(w, names[0], deaths[dying->death].name);
	table_put_string(w, names[1], dying->queue->name);
	table_put_string(w, names[2], message_exchange(dying->message));
}

static const struct bytes first_names[] = {BYTES("x-first-death-reason"),
					   BYTES("x-first-death-queue"),
					   BYTES("x-first-death-exchange")};
static const struct bytes last_names[] = {BYTES("x-last-death-reason"), BYTES("x-last-death-queue"),
					  BYTES("x-last-death-exchange")};

static bool
is_one_of(struct bytes name, const struct bytes names[3])
{
	return bytes_equal(name, names[0]) || bytes_equal(name, names[1]) ||
	       bytes_equal(name, names[2]);
}

/* Whether the header is written anew. */
static bool
is_replaced(const struct dying *dying, struct bytes name)
{
	return bytes_equal(name, BYTES("x-death")) || is_one_of(name, last_names) ||
	       (!dying->remembers && is_one_of(name, first_names));
}

static void
put_headers(const struct dying *dying, struct writer *w)
{
	struct bytes headers = dying->properties.headers;
	struct field_iterator iterator = table_iterate(headers);
	struct field field;

	while (field_next(&iterator, &field))
		if (!is_replaced(dying, field.name))
			table_put_field(w, field.name, &field);
	put_history(dying, w);
	if (!dying->remembers || !table_find(headers, first_names[0], &field))
		put_summary(dying, w, first_names);
	put_summary(dying, w, last_names);
}

/* ---- the letter ---- */

/* Twice what the message had: its keys stand in the history too. */
static size_t
header_room(const struct dying *dying)
{
	return 2 * (size_t)dying->message->header_size + dying->message->key_size +
	       3 * (DEATH_OCTETS + dying->queue->name.n + dying->message->exchange_size +
		    UINT8_MAX);
}

/* The message as it is published again. headers gets the table of its headers, which borrows from it. */
static struct message *
make_letter(const struct dying *dying, struct bytes *headers)
{
	const struct queue_settings *settings = queue_settings(dying->queue);
	const struct message *m = dying->message;
	struct bytes key = settings->has_dead_key ? settings->dead_key : message_key(m);
	struct basic_properties properties = dying->properties;
	size_t room = header_room(dying);
	uint8_t *table = slab_alloc(room);
	struct writer w = writer_of(table, room);
	struct message *letter;
	struct buf extension;
	bool well;

	buf_init(&extension, 0);
	put_extension(dying, &extension);
	put_headers(dying, &w);
	assert(!w.bad);
	properties.headers = bytes_of(table, (size_t)(w.p - table));
	properties.flags |= PROPERTY_headers;
	properties.flags &= (uint16_t)~PROPERTY_expiration;
	letter = message_like(m,
			      &(struct message_spec){
				      .exchange = settings->dead_exchange,
				      .key = key,
				      .properties = &properties,
				      .flags = (m->flags & (MESSAGE_PERSISTENT | MESSAGE_HAS_CC)) |
					       MESSAGE_HAS_DEATHS,
				      .extension = buf_bytes(&extension),
			      });
	buf_fini(&extension);
	slab_free(table, room);
	well = properties_decode(&properties, message_properties(letter));
	assert(well);
	*headers = properties.headers;
	return letter;
}

/* ---- where it goes ---- */

/* Whether the message went round from this queue to itself without anybody who rejected it. */
static bool
is_cycle(struct bytes history, const struct queue *q)
{
	struct field_iterator iterator = array_iterate(history);
	struct field entry;

	while (field_next(&iterator, &entry)) {
		if (has_string(entry.bytes, BYTES("reason"), deaths[DEATH_REJECTED].name))
			return false;
		if (has_string(entry.bytes, BYTES("queue"), q->name))
			return true;
	}
	return false;
}

/* Takes the queues off the route to which it would go for ever. */
static void
drop_cycles(const struct dying *dying, struct bytes headers, struct route *route)
{
	struct field history;
	bool found = table_find(headers, BYTES("x-death"), &history);
	uint32_t kept = 0;

	assert(found);
	if (dying->death == DEATH_REJECTED)
		return;
	for (uint32_t i = 0; i < route->count; i++) {
		struct queue *q = route->queues[i];

		if (!is_cycle(history.bytes, q))
			route->queues[kept++] = q;
		else
			log_warn("dead letters go round and are dropped queue=%.*s vhost=%.*s",
				 BYTES_ARGS(q->name), BYTES_ARGS(q->vhost->name));
	}
	route->count = kept;
}

static void
route_letter(const struct dying *dying, struct exchange *exchange, struct message *letter,
	     struct route *route)
{
	struct key_list keys = {NULL, 0};

	if (queue_settings(dying->queue)->has_dead_key) {
		key_list_add(&keys, message_key(letter));
	} else {
		key_list_add_known(&keys, dying->message, dying->properties.headers);
		key_list_add_bcc(&keys, dying->message);
	}
	exchange_route(exchange, keys.items, keys.count, letter, route);
	key_list_fini(&keys);
}

bool
dead_letter_send(struct queue *q, struct message *message, enum death death)
{
	const struct queue_settings *settings = queue_settings(q);
	struct dying dying;
	struct exchange *exchange;
	struct message *letter;
	struct bytes headers;
	struct route route;
	bool sent;

	if (!settings->dead_letters || (q->flags & QUEUE_DELETED))
		return false;
	exchange = exchange_find(q->vhost, settings->dead_exchange);
	if (exchange == NULL)
		return false;
	dying = dying_of(q, message, death);
	letter = make_letter(&dying, &headers);
	route_init(&route);
	route_letter(&dying, exchange, letter, &route);
	drop_cycles(&dying, headers, &route);
	sent = route.count > 0;
	if (sent)
		queue_publish(q->vhost->broker, &route, letter);
	route_fini(&route);
	message_unref(letter);
	return sent;
}

static void
bury(struct queue *q, const struct entry *entry, enum death death)
{
	bool sent = dead_letter_send(q, entry->message, death);

	if (entry->message->flags & MESSAGE_PAGED)
		page_count_out(q);
	queue_settle(q, entry, sent ? ACK_DEAD_LETTERED : deaths[death].settled);
	message_unref(entry->message);
}

void
queue_bury(struct queue *q, const struct entry *entry, enum death death)
{
	/* its dead letter may come back to this queue */
	if (q->flags & QUEUE_HOLDS_KEYS)
		keys_release(q, entry);
	bury(q, entry, death);
}
