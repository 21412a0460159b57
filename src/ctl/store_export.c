/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `store export': definitions, then open messages by LSN, each a JSON object on a line. The file holds hashes of
 * passwords and all bodies, so only its owner may read it.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "util/mem.h"

#include "json.h"
#include "reading.h"

#define EXPORT_VERSION 1

struct export
{
	struct reading reading;
	const struct ctl_arguments *arguments;
	FILE *out;
	uint64_t messages;
	uint64_t definitions;
};

static bool
is_text(const char *wanted, struct bytes text)
{
	return wanted == NULL || bytes_equal(bytes_str(wanted), text);
}

static bool
wants_queue(const struct export *export, struct bytes vhost, struct bytes name)
{
	return is_text(export->arguments->values[CTL_QUEUE], name) &&
	       is_text(export->arguments->values[CTL_VHOST], vhost);
}

/* What waits in an exchange is in no queue yet. */
static bool
wants_messages(const struct export *export, const struct image_queue *q)
{
	if (q->of_exchange)
		return export->arguments->values[CTL_QUEUE] == NULL &&
		       is_text(export->arguments->values[CTL_VHOST], q->vhost);
	return wants_queue(export, q->vhost, q->name);
}

/* Users are everybody's; with --queue only what that queue needs. */
static bool
wants_definition(const struct export *export, const struct definition *d)
{
	const char *vhost = export->arguments->values[CTL_VHOST];

	if (d->kind == DEFINITION_VHOST)
		return is_text(vhost, d->name);
	if (d->kind == DEFINITION_QUEUE)
		return wants_queue(export, d->vhost, d->name);
	if (d->kind != DEFINITION_USER && !is_text(vhost, d->vhost))
		return false;
	if (d->kind == DEFINITION_PART && !(d->flags & DEFINITION_OF_EXCHANGE))
		return wants_queue(export, d->vhost, d->name);
	if (export->arguments->values[CTL_QUEUE] == NULL)
		return true;
	if (d->kind == DEFINITION_BINDING)
		return !(d->flags & DEFINITION_TO_EXCHANGE) &&
		       wants_queue(export, d->vhost, d->destination);
	return d->kind == DEFINITION_EXCHANGE || d->kind == DEFINITION_PART;
}

static void
export_definitions(struct export *export)
{
	size_t count;
	const struct image_definition **list = image_list(&export->reading.image, &count);

	for (size_t i = 0; i < count; i++) {
		const struct definition *d = &list[i]->definition;
		json_t *object;

		if (!wants_definition(export, d))
			continue;
		object = json_object();
		json_put_string(object, "type", "definition");
		json_put_definition(object, d);
		json_print(export->out, object);
		export->definitions++;
	}
	xfree(list);
}

static json_t *
wanted_queues(const struct export *export, const struct open_message *open)
{
	json_t *queues = json_array();

	for (uint32_t i = 0; i < open->count; i++) {
		const struct open_ref *ref = &open->refs[i];
		json_t *queue;

		if (!wants_messages(export, ref->queue))
			continue;
		queue = json_object();
		json_put_text(queue, "vhost", ref->queue->vhost);
		json_put_queue(queue, ref->queue);
		json_put_number(queue, "number", ref->ref.qseq);
		if (ref->ref.priority != 0)
			json_put_number(queue, "priority", ref->ref.priority);
		if (ref->due_ms != 0)
			json_put_number(queue, "due_ms", ref->due_ms);
		if (ref->redelivered)
			assert(json_object_set_new(queue, "redelivered", json_true()) == 0);
		if (ref->returns > 0)
			json_put_number(queue, "delivery_count", ref->returns);
		assert(json_array_append_new(queues, queue) == 0);
	}
	return queues;
}

static void
on_message(void *context, const struct open_message *open)
{
	struct export *export = context;
	json_t *queues = wanted_queues(export, open);
	json_t *object;

	if (json_array_size(queues) == 0) {
		json_decref(queues);
		return;
	}
	object = json_object();
	json_put_string(object, "type", "message");
	json_put_number(object, "lsn", open->record->lsn);
	json_put_number(object, "time_ms", open->message.time_ms);
	if (open->message.expiry_ms != 0)
		json_put_number(object, "expiry_ms", open->message.expiry_ms);
	assert(json_object_set_new(object, "queues", queues) == 0);
	json_put_text(object, "exchange", open->message.exchange);
	json_put_text(object, "routing_key", open->message.key);
	json_put_values(object, open->message.extension);
	json_put_base64(object, "properties", open->message.properties);
	json_put_base64(object, "body", open->message.body);
	json_print(export->out, object);
	export->messages++;
}

/* ---- the file ---- */

static void
begin_file(struct export *export)
{
	json_t *object = json_object();

	json_put_string(object, "type", "pannier-export");
	json_put_number(object, "version", EXPORT_VERSION);
	json_put_string(object, "node", inspect_superblock(export->reading.store.inspect)->node);
	json_put_number(object, "last_lsn", export->reading.last_lsn);
	json_print(export->out, object);
}

/* So that a file that was cut short shows. */
static void
end_file(struct export *export)
{
	json_t *object = json_object();

	json_put_string(object, "type", "end");
	json_put_number(object, "definitions", export->definitions);
	json_put_number(object, "messages", export->messages);
	json_print(export->out, object);
}

static FILE *
create(const char *name)
{
	int fd;

	if (strcmp(name, "-") == 0)
		return stdout;
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? NULL : fdopen(fd, "w");
}

/* Written and on the disk; status, or what went wrong. */
static int
finish(FILE *out, const char *name, int status)
{
	bool is_file = out != stdout;

	status = ctl_end_output(out, name, status);
	if (!is_file)
		return status;
	if (status != CTL_USAGE && fsync(fileno(out)) != 0) {
		ctl_complain("%s: %s", name, strerror(errno));
		status = CTL_DAMAGED;
	}
	return fclose(out) == 0 ? status : CTL_DAMAGED;
}

int
store_export(const struct ctl_arguments *arguments)
{
	struct export export = {.arguments = arguments, .reading = {.faults = {.out = stderr}}};
	int status = reading_open(&export.reading, arguments->dir);

	if (status != CTL_OK)
		return status;
	export.out = create(arguments->operand);
	if (export.out == NULL) {
		reading_close(&export.reading);
		return ctl_complain("cannot make %s: %s", arguments->operand, strerror(errno));
	}
	begin_file(&export);
	export_definitions(&export);
	reading_messages(&export.reading, on_message, &export);
	end_file(&export);
	status = export.reading.faults.counts[INSPECT_DAMAGE] > 0 ? CTL_DAMAGED : CTL_OK;
	reading_close(&export.reading);
	return finish(export.out, arguments->operand, status);
}
