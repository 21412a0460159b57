/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `store dump': records as JSON lines. A first reading learns the names of queues, also of those that are gone; the
 * second prints.
 */
#include "image.h"
#include "json.h"

#include "ctl.h"

struct dump {
	const struct ctl_arguments *arguments;
	struct image names; // of queues
	bool printing;	    // the second reading
	int type;	    // only records of this type; 0: all
	struct ctl_faults faults;
	struct ctl_progress progress;
};

struct type_name {
	const char *name;
	int type;
};

static const struct type_name type_names[] = {
	{"batch", RECORD_BATCH}, {"message", RECORD_MESSAGE}, {"ack", RECORD_ACK},
	{"queue", RECORD_QUEUE}, {"define", RECORD_DEFINE},   {"purge", RECORD_PURGE},
	{"epoch", RECORD_EPOCH}, {"returns", RECORD_RETURNS}, {"key", RECORD_KEY},
};

static const char *const reason_names[ACK_REASON_END] = {
	[ACK_CONSUMED] = "consumed", [ACK_REJECTED] = "rejected",
	[ACK_EXPIRED] = "expired",   [ACK_MAXLEN] = "maxlen",
	[ACK_PURGED] = "purged",     [ACK_DEAD_LETTERED] = "dead_lettered",
	[ACK_MOVED] = "moved",
};

static const char *
type_name(int type)
{
	for (size_t i = 0; i < countof(type_names); i++)
		if (type_names[i].type == type)
			return type_names[i].name;
	return "unknown";
}

/* ---- what is wanted ---- */

static bool
is_text(const char *wanted, struct bytes text)
{
	return wanted == NULL || bytes_equal(bytes_str(wanted), text);
}

static bool
chooses_queues(const struct dump *dump)
{
	const struct ctl_arguments *a = dump->arguments;

	return a->queue_id != 0 || a->values[CTL_QUEUE] != NULL || a->values[CTL_VHOST] != NULL;
}

static bool
wants_queue(const struct dump *dump, uint64_t id)
{
	const struct ctl_arguments *a = dump->arguments;
	const struct image_queue *q = image_queue(&dump->names, id);

	if (a->queue_id != 0 && a->queue_id != id)
		return false;
	if (a->values[CTL_QUEUE] == NULL && a->values[CTL_VHOST] == NULL)
		return true;
	return q != NULL && !(q->of_exchange && a->values[CTL_QUEUE] != NULL) &&
	       is_text(a->values[CTL_QUEUE], q->name) && is_text(a->values[CTL_VHOST], q->vhost);
}

static bool
wants_message(const struct dump *dump, const struct record *record)
{
	struct message_record message;

	if (message_record_decode(&message, record) != 0)
		return false;
	for (uint32_t i = 0; i < message.ref_count; i++)
		if (wants_queue(dump,
				message_ref_decode(message.refs + (size_t)i * MESSAGE_REF_SIZE)
					.queue_id))
			return true;
	return false;
}

static bool
wants_definition(const struct dump *dump, const struct record *record)
{
	const struct ctl_arguments *a = dump->arguments;
	struct definition d;

	if (definition_decode(&d, bytes_of(record->p + RECORD_HEADER_SIZE,
					   record->size - RECORD_HEADER_SIZE)) != 0)
		return false;
	if (!is_text(a->values[CTL_VHOST], d.kind == DEFINITION_VHOST ? d.name : d.vhost))
		return false;
	if (a->queue_id == 0 && a->values[CTL_QUEUE] == NULL)
		return true;
	if (definition_has_queue(&d))
		return wants_queue(dump, d.queue_id);
	return d.kind == DEFINITION_BINDING && !(d.flags & DEFINITION_TO_EXCHANGE) &&
	       a->queue_id == 0 && is_text(a->values[CTL_QUEUE], d.destination);
}

/* One of the marks is of a wanted queue. */
static int
stop_at_wanted(void *context, const struct ack_mark *mark)
{
	return wants_queue(context, mark->queue_id) ? 1 : 0;
}

static int
stop_at_wanted_return(void *context, const struct return_count *count)
{
	return wants_queue(context, count->queue_id) ? 1 : 0;
}

static bool
wants_key(const struct dump *dump, const struct record *record)
{
	const struct ctl_arguments *a = dump->arguments;
	struct key_record key;

	if (key_record_decode(&key, record) != 0 || a->queue_id != 0 ||
	    !is_text(a->values[CTL_VHOST], key.vhost))
		return false;
	return a->values[CTL_QUEUE] == NULL ||
	       (key.owner == KEY_OF_QUEUE && is_text(a->values[CTL_QUEUE], key.name));
}

static bool
is_wanted(struct dump *dump, const struct record *record)
{
	struct purge_record purge;
	uint64_t first;
	uint64_t second;

	if (dump->type != 0 && record->type != dump->type)
		return false;
	if (!chooses_queues(dump))
		return true;
	switch (record->type) {
	case RECORD_MESSAGE:
		return wants_message(dump, record);
	case RECORD_ACK:
		return ack_record_walk(record, stop_at_wanted, dump) == 1;
	case RECORD_RETURNS:
		return returns_record_walk(record, stop_at_wanted_return, dump) == 1;
	case RECORD_KEY:
		return wants_key(dump, record);
	case RECORD_DEFINE:
		return wants_definition(dump, record);
	case RECORD_PURGE:
		return purge_record_decode(&purge, record) == 0 &&
		       wants_queue(dump, purge.queue_id);
	case RECORD_QUEUE:
		return pair_record_decode(record, &first, &second) == 0 && wants_queue(dump, first);
	default:
		return false;
	}
}

/* ---- payloads ---- */

static json_t *
named_queue(const struct dump *dump, uint64_t id)
{
	const struct image_queue *q = image_queue(&dump->names, id);
	json_t *object = json_object();

	json_put_number(object, "queue_id", id);
	if (q != NULL && q->is_named) {
		json_put_queue(object, q);
		json_put_text(object, "vhost", q->vhost);
	}
	return object;
}

static json_t *
refs_of(const struct dump *dump, const struct message_record *message)
{
	json_t *refs = json_array();
	struct ref_times times = ref_times_of(message);

	for (uint32_t i = 0; i < message->ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(message->refs + (size_t)i * MESSAGE_REF_SIZE);
		uint64_t time_ms = ref_times_next(&times, ref.flags);
		json_t *object = named_queue(dump, ref.queue_id);

		json_put_number(object, "qseq", ref.qseq);
		if (ref.priority != 0)
			json_put_number(object, "priority", ref.priority);
		if (ref.flags != 0)
			json_put_number(object, "flags", ref.flags);
		if (ref.flags & REF_DUE)
			json_put_number(object, "due_ms", time_ms);
		else if (ref.flags & REF_DEADLINE)
			json_put_number(object, "deadline_ms", time_ms);
		assert(json_array_append_new(refs, object) == 0);
	}
	return refs;
}

static void
put_message(const struct dump *dump, json_t *object, const struct record *record)
{
	struct message_record message;
	int error = message_record_decode(&message, record);

	assert(error == 0);
	json_put_number(object, "time_ms", message.time_ms);
	if (message.expiry_ms != 0)
		json_put_number(object, "expiry_ms", message.expiry_ms);
	json_put_text(object, "exchange", message.exchange);
	json_put_text(object, "routing_key", message.key);
	json_put_number(object, "properties_size", message.properties.n);
	json_put_number(object, "body_size", message.body.n);
	json_put_values(object, message.extension);
	assert(json_object_set_new(object, "refs", refs_of(dump, &message)) == 0);
	if (dump->arguments->values[CTL_BODIES] != NULL) {
		json_put_base64(object, "properties", message.properties);
		json_put_base64(object, "body", message.body);
	}
}

struct marks {
	const struct dump *dump;
	json_t *array;
};

static int
put_mark(void *context, const struct ack_mark *mark)
{
	struct marks *marks = context;
	json_t *object = named_queue(marks->dump, mark->queue_id);

	json_put_string(object, "reason", reason_names[mark->reason]);
	json_put_number(object, "first", mark->first);
	json_put_number(object, "count", mark->count);
	json_put_number(object, "octets", mark->octets);
	assert(json_array_append_new(marks->array, object) == 0);
	return 0;
}

static int
put_return(void *context, const struct return_count *count)
{
	struct marks *marks = context;
	json_t *object = named_queue(marks->dump, count->queue_id);

	json_put_number(object, "qseq", count->qseq);
	json_put_number(object, "count", count->count);
	assert(json_array_append_new(marks->array, object) == 0);
	return 0;
}

static void
put_key(json_t *object, const struct record *record)
{
	struct key_record key;
	char digest[2 * KEY_DIGEST_SIZE + 1];

	if (key_record_decode(&key, record) != 0)
		return;
	json_put_text(object, key.owner == KEY_OF_QUEUE ? "queue" : "exchange", key.name);
	json_put_text(object, "vhost", key.vhost);
	if (key.flags & KEY_FORGET) {
		assert(json_object_set_new(object, "forget", json_true()) == 0);
		return;
	}
	for (size_t i = 0; i < KEY_DIGEST_SIZE; i++)
		(void)snprintf(digest + 2 * i, 3, "%02x", key.digest[i]);
	json_put_string(object, "digest", digest);
	if (!(key.flags & KEY_WHILE_QUEUED)) {
		if (key.value != 0)
			json_put_number(object, "until_ms", key.value);
		return;
	}
	json_put_number(object, "qseq", key.value & QSEQ_MAX);
	if (key.value > QSEQ_MAX)
		json_put_number(object, "part", key.value >> 48);
}

static void
put_queue(const struct dump *dump, json_t *object, uint64_t id)
{
	json_t *queue = named_queue(dump, id);

	assert(json_object_update(object, queue) == 0);
	json_decref(queue);
}

static void
put_purge(const struct dump *dump, json_t *object, const struct record *record)
{
	struct purge_record purge;
	int error = purge_record_decode(&purge, record);

	assert(error == 0);
	put_queue(dump, object, purge.queue_id);
	json_put_number(object, "first", purge.first);
	json_put_number(object, "last", purge.last);
	json_put_number(object, "open_messages", purge.open_count);
	json_put_number(object, "open_octets", purge.open_octets);
}

static void
put_payload(const struct dump *dump, json_t *object, const struct record *record)
{
	struct marks marks = {.dump = dump};
	struct definition definition;
	uint64_t first;
	uint64_t second;

	switch (record->type) {
	case RECORD_MESSAGE:
		put_message(dump, object, record);
		break;
	case RECORD_ACK:
		marks.array = json_array();
		if (ack_record_walk(record, put_mark, &marks) == 0)
			assert(json_object_set_new(object, "marks", marks.array) == 0);
		break;
	case RECORD_RETURNS:
		marks.array = json_array();
		if (returns_record_walk(record, put_return, &marks) == 0)
			assert(json_object_set_new(object, "returns", marks.array) == 0);
		break;
	case RECORD_KEY:
		put_key(object, record);
		break;
	case RECORD_DEFINE:
		if (definition_decode(&definition, bytes_of(record->p + RECORD_HEADER_SIZE,
							    record->size - RECORD_HEADER_SIZE)) ==
		    0)
			json_put_definition(object, &definition);
		break;
	case RECORD_PURGE:
		put_purge(dump, object, record);
		break;
	case RECORD_QUEUE:
		if (pair_record_decode(record, &first, &second) == 0) {
			put_queue(dump, object, first);
			json_put_number(object, "state", second);
		}
		break;
	case RECORD_EPOCH:
		if (pair_record_decode(record, &first, &second) == 0) {
			json_put_number(object, "term", first);
			json_put_number(object, "last_lsn", second);
		}
		break;
	default:
		json_put_number(object, "type_number", record->type);
	}
}

/* ---- reading ---- */

static json_t *
begin_object(const struct inspect_place *place, uint64_t lsn, int type, uint64_t size)
{
	json_t *object = json_object();

	json_put_number(object, "lsn", lsn);
	json_put_number(object, "segment", place->segment->id);
	json_put_number(object, "offset", place->offset);
	json_put_number(object, "size", size);
	json_put_string(object, "type", type_name(type));
	return object;
}

static void
on_record(void *context, const struct inspect_place *place, const struct record *record)
{
	struct dump *dump = context;
	json_t *object;

	if (!dump->printing) {
		if (record->type == RECORD_DEFINE)
			(void)image_take(&dump->names, record);
		return;
	}
	if (!is_wanted(dump, record))
		return;
	object = begin_object(place, record->lsn, record->type, record->size);
	if (place->alone)
		json_put_string(object, "batch", "damaged");
	put_payload(dump, object, record);
	json_print(stdout, object);
}

static void
on_batch(void *context, const struct inspect_place *place, const struct batch_record *batch)
{
	struct dump *dump = context;
	json_t *object;

	if (!dump->printing || dump->type != RECORD_BATCH)
		return;
	object = begin_object(place, batch->first_lsn, RECORD_BATCH, BATCH_SIZE);
	json_put_number(object, "number", batch->number);
	json_put_number(object, "group", batch->group);
	json_put_number(object, "term", batch->term);
	json_put_number(object, "count", batch->count);
	json_put_number(object, "bytes", batch->bytes);
	json_put_number(object, "previous", batch->previous);
	json_put_number(object, "digest", batch->digest);
	json_put_number(object, "stable", batch->stable);
	json_print(stdout, object);
}

static void
on_fault(void *context, const struct inspect_fault *fault)
{
	struct dump *dump = context;

	ctl_fault(&dump->faults, fault);
}

static void
on_progress(void *context, uint64_t done, uint64_t total)
{
	struct dump *dump = context;

	ctl_progress(&dump->progress, done, total);
}

static int
read_type(struct dump *dump)
{
	const char *wanted = dump->arguments->values[CTL_TYPE];

	for (size_t i = 0; wanted != NULL && i < countof(type_names); i++)
		if (strcmp(type_names[i].name, wanted) == 0)
			dump->type = type_names[i].type;
	if (wanted != NULL && dump->type == 0)
		return ctl_complain(
			"--type %s: message, ack, purge, queue, define, epoch, returns, key or "
			"batch is expected",
			wanted);
	return CTL_OK;
}

static void
walk_twice(struct dump *dump, struct inspect *inspect)
{
	struct inspect_range range = {.from = dump->arguments->from, .to = dump->arguments->to};
	size_t checkpoints = inspect_checkpoint_count(inspect);

	dump->progress.doing = "reading names";
	/* those that a file held which has gone; what a file holds is taken in all the same, for queues that are
	 * gone themselves */
	if (checkpoints > 0 &&
	    image_load(&dump->names, inspect, inspect_checkpoint_at(inspect, 0)) != 0)
		ctl_complain("a checkpoint cannot be read: names of queues may be missing");
	dump->names.lsn = 0;
	(void)inspect_walk(inspect, INSPECT_ALL);
	dump->printing = true;
	dump->faults.out = stderr;
	dump->progress.doing = NULL;
	(void)inspect_walk(inspect, range);
}

int
store_dump(const struct ctl_arguments *arguments)
{
	static const struct inspect_ops ops = {
		.fault = on_fault,
		.record = on_record,
		.batch = on_batch,
		.progress = on_progress,
	};
	struct dump dump = {.arguments = arguments, .faults = {.out = stderr}};
	struct ctl_store store;
	int status = read_type(&dump);

	if (status == CTL_OK)
		status = ctl_store_open(&store, arguments->dir, &ops, &dump);
	if (status != CTL_OK)
		return status;
	dump.faults.progress = &dump.progress;
	dump.faults.out = NULL;
	image_init(&dump.names);
	walk_twice(&dump, store.inspect);
	ctl_progress_end(&dump.progress);
	image_fini(&dump.names);
	ctl_store_close(&store);
	return ctl_end_output(stdout, "stdout",
			      dump.faults.counts[INSPECT_DAMAGE] > 0 ? CTL_DAMAGED : CTL_OK);
}
