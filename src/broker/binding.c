/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bindings: made, found by identity, removed. A binding is one block with its key and its arguments
 * behind the struct. It is on the list of its source, on the list of its destination, and where its
 * source's type wants it; all three are kept in step here, and every change moves the routing version.
 */
#include "broker/binding.h"

#include "broker/durable.h"
#include "internal.h"
#include "route.h"
#include "wire/field.h"

static struct list *
destination_list(struct queue *queue, struct exchange *exchange)
{
	assert((queue == NULL) != (exchange == NULL));
	return queue != NULL ? &queue->bindings : &exchange->bindings_in;
}

static void
check_spec(const struct binding_spec *spec)
{
	const struct vhost *vhost = spec->source->vhost;

	assert_not_dispatching(vhost->broker);
	assert((spec->queue == NULL) != (spec->exchange == NULL));
	assert(spec->source != vhost->default_exchange);
	assert(spec->exchange != vhost->default_exchange);
	assert((spec->queue != NULL ? spec->queue->vhost : spec->exchange->vhost) == vhost);
	assert(spec->key.n <= UINT8_MAX);
}

const struct reply *
binding_check(const struct binding_spec *spec)
{
	check_spec(spec);
	if (spec->source->type->check_binding == NULL)
		return NULL;
	return spec->source->type->check_binding(spec);
}

/* ---- by identity ---- */

/* A number of key and arguments that spares comparing them: it does not depend on the order of the
 * arguments, and only on what of their values table_equal() looks at in any case. */
static uint64_t
fingerprint(const struct binding_spec *spec)
{
	struct field_iterator iterator = table_iterate(spec->arguments);
	uint64_t print = map_hash(spec->key);
	struct field field;

	while (field_next(&iterator, &field)) {
		bool plain = field.class == FIELD_STRING || field.class == FIELD_DECIMAL;
		struct bytes octets = plain ? field.bytes : bytes_of(NULL, 0);

		print += fold_u64(map_hash(field.name) ^ field.class,
				  map_hash(octets) ^ (uint64_t)field.integer);
	}
	return print;
}

static bool
is_same(const struct binding *binding, const struct binding_spec *spec, uint64_t print)
{
	return binding->print == print && binding->source == spec->source &&
	       binding->queue == spec->queue && binding->exchange == spec->exchange &&
	       bytes_equal(binding->key, spec->key) &&
	       table_equal(binding->arguments, spec->arguments);
}

/* Looks through one of the lists that the binding must be on. */
static struct binding *
find_in(const struct list *list, size_t link_offset, const struct binding_spec *spec,
	uint64_t print)
{
	for (struct list_link *link = list->head.next; link != &list->head; link = link->next) {
		struct binding *binding = (void *)((char *)link - link_offset);

		if (is_same(binding, spec, print))
			return binding;
	}
	return NULL;
}

/* A source may have very many bindings, and so may a destination and a key: the shortest list is taken,
 * so that many queues bound alike and one queue bound in many ways are both found fast. */
static struct binding *
find(const struct binding_spec *spec, uint64_t print)
{
	const struct list *list = &spec->source->bindings_out;
	const struct list *other = destination_list(spec->queue, spec->exchange);
	size_t offset = offsetof(struct binding, of_source);

	if (other->count < list->count) {
		list = other;
		offset = offsetof(struct binding, of_destination);
	}
	if (spec->source->type->with_key != NULL) {
		other = spec->source->type->with_key(spec->source, spec->key);
		if (other == NULL)
			return NULL;
		if (other->count < list->count) {
			list = other;
			offset = offsetof(struct binding, of_key);
		}
	}
	return find_in(list, offset, spec, print);
}

/* ---- life ---- */

static size_t
block_size(size_t key_size, size_t arguments_size)
{
	return sizeof(struct binding) + key_size + arguments_size;
}

static struct binding *
binding_new(const struct binding_spec *spec, uint64_t print)
{
	struct binding *binding = slab_alloc(block_size(spec->key.n, spec->arguments.n));
	uint8_t *key = (uint8_t *)(binding + 1);
	uint8_t *arguments = key + spec->key.n;

	if (spec->key.n != 0)
		memcpy(key, spec->key.p, spec->key.n);
	if (spec->arguments.n != 0)
		memcpy(arguments, spec->arguments.p, spec->arguments.n);
	*binding = (struct binding){
		.source = spec->source,
		.queue = spec->queue,
		.exchange = spec->exchange,
		.key = bytes_of(key, spec->key.n),
		.arguments = bytes_of(arguments, spec->arguments.n),
		.print = print,
	};
	return binding;
}

void
binding_add(const struct binding_spec *spec)
{
	struct exchange *source = spec->source;
	struct binding *binding;
	uint64_t print;

	check_spec(spec);
	print = fingerprint(spec);
	if (find(spec, print) != NULL)
		return;
	binding = binding_new(spec, print);
	list_append(&source->bindings_out, &binding->of_source);
	list_append(destination_list(spec->queue, spec->exchange), &binding->of_destination);
	if (source->type->add != NULL)
		source->type->add(source, binding);
	source->vhost->routing_version++;
	durable_binding(binding, DURABLE_PUT);
}

void
binding_free(struct binding *binding)
{
	struct exchange *source = binding->source;

	if (source->type->remove != NULL)
		source->type->remove(source, binding);
	list_remove(&source->bindings_out, &binding->of_source);
	list_remove(destination_list(binding->queue, binding->exchange), &binding->of_destination);
	source->vhost->routing_version++;
	slab_free(binding, block_size(binding->key.n, binding->arguments.n));
}

/* Removes it, and its source with what hangs on that when it was the last one. */
static void
remove_with_source(struct binding *binding)
{
	struct exchange *source = binding->source;

	binding_free(binding);
	if (exchange_is_spent(source))
		exchange_delete(source);
}

bool
binding_exists(const struct binding_spec *spec)
{
	return find(spec, fingerprint(spec)) != NULL;
}

void
binding_remove(const struct binding_spec *spec)
{
	struct binding *binding;

	check_spec(spec);
	binding = find(spec, fingerprint(spec));
	if (binding == NULL)
		return;
	durable_binding(binding, DURABLE_REMOVED);
	remove_with_source(binding);
}

void
binding_remove_all_of_queue(struct queue *queue)
{
	struct binding *binding;

	assert_not_dispatching(queue->vhost->broker);
	while ((binding = list_first(&queue->bindings, struct binding, of_destination)) != NULL) {
		assert(binding->queue == queue);
		remove_with_source(binding);
	}
}
