/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records and definitions as JSON objects. jansson fails only without memory and for text that is not UTF-8.
 */
#include "json.h"

#include "util/buf.h"
#include "util/mem.h"

void
json_put_base64(json_t *object, const char *key, struct bytes octets)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t size = (octets.n + 2) / 3 * 4;
	char *text = xmalloc(size + 1);
	char *p = text;
	json_t *value;

	for (size_t i = 0; i < octets.n; i += 3) {
		size_t n = octets.n - i < 3 ? octets.n - i : 3;
		unsigned word = (unsigned)octets.p[i] << 16 |
				(n > 1 ? (unsigned)octets.p[i + 1] << 8 : 0) |
				(n > 2 ? (unsigned)octets.p[i + 2] : 0);

		*p++ = digits[word >> 18];
		*p++ = digits[word >> 12 & 63];
		*p++ = n > 1 ? digits[word >> 6 & 63] : '=';
		*p++ = n > 2 ? digits[word & 63] : '=';
	}
	value = json_stringn_nocheck(text, size);
	assert(json_object_set_new_nocheck(object, key, value) == 0);
	xfree(text);
}

void
json_put_text(json_t *object, const char *key, struct bytes text)
{
	/* NULL when it is not UTF-8 */
	json_t *value = json_stringn(text.n == 0 ? "" : (const char *)text.p, text.n);
	struct buf longer;

	if (value != NULL) {
		assert(json_object_set_new_nocheck(object, key, value) == 0);
		return;
	}
	buf_init(&longer, 0);
	buf_addf(&longer, "%s_base64", key);
	json_put_base64(object, buf_cstr(&longer), text);
	buf_fini(&longer);
}

void
json_put_some(json_t *object, const char *key, struct bytes text)
{
	if (text.n != 0)
		json_put_text(object, key, text);
}

void
json_put_number(json_t *object, const char *key, uint64_t number)
{
	/* LSNs and times are far below 2^63 */
	assert(json_object_set_new_nocheck(object, key, json_integer((json_int_t)number)) == 0);
}

void
json_put_string(json_t *object, const char *key, const char *string)
{
	json_put_text(object, key, bytes_str(string));
}

static const char *
kind_name(enum definition_kind kind)
{
	static const char *const names[DEFINITION_KIND_END] = {
		[DEFINITION_VHOST] = "vhost",
		[DEFINITION_USER] = "user",
		[DEFINITION_PERMISSION] = "permission",
		[DEFINITION_TOPIC_PERMISSION] = "topic_permission",
		[DEFINITION_EXCHANGE] = "exchange",
		[DEFINITION_QUEUE] = "queue",
		[DEFINITION_BINDING] = "binding",
		[DEFINITION_POLICY] = "policy",
		[DEFINITION_OPERATOR_POLICY] = "operator_policy",
		[DEFINITION_PART] = "part",
	};

	return kind < DEFINITION_KIND_END && names[kind] != NULL ? names[kind] : "unknown";
}

static void
put_flag(json_t *object, const char *key, bool is_set)
{
	if (is_set)
		assert(json_object_set_new_nocheck(object, key, json_true()) == 0);
}

static void
put_limit(json_t *object, const char *key, uint64_t field)
{
	if (field != 0)
		json_put_number(object, key, (uint64_t)definition_limit_of(field));
}

void
json_put_definition(json_t *object, const struct definition *d)
{
	bool is_policy = d->kind == DEFINITION_POLICY || d->kind == DEFINITION_OPERATOR_POLICY;

	json_put_string(object, "kind", kind_name(d->kind));
	put_flag(object, "removed", d->removed);
	json_put_some(object, "vhost", d->vhost);
	json_put_some(object, "name", d->name);
	json_put_some(object, "user", d->user);
	json_put_some(object, "exchange", d->exchange);
	json_put_some(object, "exchange_type", d->type);
	json_put_some(object, "source", d->source);
	json_put_some(object, "destination", d->destination);
	if (d->kind == DEFINITION_BINDING) {
		json_put_string(object, "destination_type",
				d->flags & DEFINITION_TO_EXCHANGE ? "exchange" : "queue");
		json_put_text(object, "routing_key", d->key);
	}
	if (d->kind == DEFINITION_PART) {
		json_put_string(object, "of",
				d->flags & DEFINITION_OF_EXCHANGE ? "exchange" : "queue");
		json_put_number(object, "part", d->part);
	}
	put_flag(object, "auto_delete", (d->flags & DEFINITION_AUTO_DELETE) != 0);
	put_flag(object, "internal", (d->flags & DEFINITION_INTERNAL) != 0);
	if (d->queue_id != 0)
		json_put_number(object, "queue_id", d->queue_id);
	if (d->arguments.n != 0)
		json_put_base64(object, is_policy ? "definition_base64" : "arguments_base64",
				d->arguments);
	if (is_policy && !d->removed) {
		json_put_text(object, "pattern", d->pattern);
		json_put_text(object, "apply_to", d->apply_to);
		assert(json_object_set_new_nocheck(
			       object, "priority",
			       json_integer(definition_priority_of(d->priority))) == 0);
	}
	if (!d->removed &&
	    (d->kind == DEFINITION_PERMISSION || d->kind == DEFINITION_TOPIC_PERMISSION)) {
		json_put_text(object, "configure", d->configure);
		json_put_text(object, "write", d->write);
		json_put_text(object, "read", d->read);
	}
	if (d->password_hash.n != 0) {
		json_put_base64(object, "password_hash", d->password_hash);
		json_put_number(object, "hash_kind", d->hash_kind);
	}
	if (d->kind == DEFINITION_USER && !d->removed)
		json_put_number(object, "tags", d->tags);
	put_limit(object, "max_connections", d->max_connections);
	put_limit(object, "max_queues", d->max_queues);
	put_limit(object, "max_channels", d->max_channels);
}

void
json_put_queue(json_t *object, const struct image_queue *q)
{
	json_put_text(object, q->of_exchange ? "exchange" : "queue", q->name);
	if (q->is_part)
		json_put_number(object, "part", q->part);
}

void
json_put_values(json_t *object, struct bytes extension)
{
	json_t *keys = json_array();
	struct message_value value;

	while (message_value_next(&extension, &value)) {
		json_t *key;

		if (value.tag == MESSAGE_TAG_FAILURES && value.octets.n == sizeof(uint32_t))
			json_put_number(object, "failures", le32_load(value.octets.p));
		if (value.tag != MESSAGE_TAG_BCC)
			continue;
		key = json_object();
		json_put_text(key, "key", value.octets);
		assert(json_array_append_new(keys, key) == 0);
	}
	if (json_array_size(keys) > 0)
		assert(json_object_set(object, "bcc", keys) == 0);
	json_decref(keys);
}

void
json_print(FILE *out, json_t *object)
{
	(void)json_dumpf(object, out, JSON_COMPACT);
	(void)fputc('\n', out);
	json_decref(object);
}
