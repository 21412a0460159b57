/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/inspect.h"
#include "util/mem.h"

#include "lib/store_ledger.h"

#define LINE_OCTETS 32
#define PATH_SIZE 64

/* ---- files as text ---- */

static unsigned
digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *at = strchr(digits, c);

	must(c != '\0');
	expect(at != NULL, "%c is no digit", c);
	return (unsigned)(at - digits);
}

/* Takes in a line of octets. */
static void
load_line(uint8_t *p, size_t size, const char *line)
{
	char *hex;
	size_t at = strtoull(line, &hex, 16);

	must(*hex == ' ');
	for (hex++; *hex != '\n'; hex += 2, at++) {
		must(at < size);
		p[at] = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
	}
}

void
golden_load(struct disk_sim *sim, const char *text)
{
	char path[PATH_SIZE] = "";
	uint8_t *p = NULL;
	size_t size = 0;

	for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
		must(strchr(line, '\n') != NULL);
		if (*line == '#')
			continue;
		if (strncmp(line, "file ", 5) != 0) {
			load_line(p, size, line);
			continue;
		}
		if (p != NULL)
			disk_sim_put(sim, path, p, size);
		xfree(p);
		must(sscanf(line, "file %63s %zu", path, &size) == 2);
		p = xcalloc(size + 1, 1);
	}
	must(p != NULL);
	disk_sim_put(sim, path, p, size);
	xfree(p);
}

static void
save_file(struct disk_sim *sim, const char *path, struct buf *text)
{
	static const uint8_t zeros[LINE_OCTETS];
	size_t size;
	const uint8_t *p = disk_sim_content(sim, path, &size);

	must(p != NULL);
	buf_addf(text, "file %s %zu\n", path, size);
	for (size_t at = 0; at < size; at += LINE_OCTETS) {
		size_t n = min_u64(LINE_OCTETS, size - at);

		if (memcmp(p + at, zeros, n) == 0)
			continue;
		buf_addf(text, "%06zx ", at);
		for (size_t i = 0; i < n; i++)
			buf_addf(text, "%02x", p[at + i]);
		buf_addf(text, "\n");
	}
}

struct names {
	char names[64][PATH_SIZE];
	size_t count;
	const char *folder;
};

static void
note_name(void *context, const char *name)
{
	struct names *names = context;

	must(names->count < countof(names->names));
	(void)snprintf(names->names[names->count++], PATH_SIZE, "%s/%s", names->folder, name);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

void
golden_save(struct disk_sim *sim, struct buf *text)
{
	struct names names = {.count = 0};

	names.folder = "log";
	must(disk_list(&sim->disk, names.folder, note_name, &names) == 0);
	names.folder = "ckpt";
	must(disk_list(&sim->disk, names.folder, note_name, &names) == 0);
	qsort(names.names, names.count, PATH_SIZE, compare_names);
	save_file(sim, "STORE", text);
	for (size_t i = 0; i < names.count; i++)
		save_file(sim, names.names[i], text);
}

/* ---- parts of lines ---- */

/* By name: what a number means must not change. */
static const char *const type_names[] = {
	[RECORD_BATCH] = "batch", [RECORD_MESSAGE] = "message", [RECORD_ACK] = "ack",
	[RECORD_QUEUE] = "queue", [RECORD_DEFINE] = "define",	[RECORD_PURGE] = "purge",
	[RECORD_EPOCH] = "epoch", [RECORD_RETURNS] = "returns", [RECORD_KEY] = "key",
};

static const char *const reason_names[ACK_REASON_END] = {
	[ACK_CONSUMED] = "consumed", [ACK_REJECTED] = "rejected",
	[ACK_EXPIRED] = "expired",   [ACK_MAXLEN] = "maxlen",
	[ACK_PURGED] = "purged",     [ACK_DEAD_LETTERED] = "dead_lettered",
	[ACK_MOVED] = "moved",
};

static const char *const kind_names[DEFINITION_KIND_END] = {
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

struct flag {
	uint64_t bit;
	const char *name;
};

static const struct flag message_flags[] = {
	{MESSAGE_EXTENDED, "extended"}, {MESSAGE_CC, "cc"}, {MESSAGE_DEATHS, "deaths"}};
static const struct flag ref_flags[] = {{REF_DEADLINE, "deadline"}, {REF_DUE, "due"}};
static const struct flag queue_flags[] = {{QUEUE_STATE_DELIVERED, "delivered"}};
static const struct flag definition_flags[] = {
	{DEFINITION_AUTO_DELETE, "auto_delete"},
	{DEFINITION_INTERNAL, "internal"},
	{DEFINITION_TO_EXCHANGE, "to_exchange"},
	{DEFINITION_OF_EXCHANGE, "of_exchange"},
};

#define ADD_FLAGS(line, set, flags) add_flags(line, set, flags, countof(flags))

static void
add_flags(struct buf *line, uint64_t set, const struct flag *flags, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (set & flags[i].bit)
			buf_addf(line, " %s", flags[i].name);
}

void
golden_add_text(struct buf *line, const char *name, struct bytes octets)
{
	buf_addf(line, " %s=", name);
	for (size_t i = 0; i < octets.n; i++)
		if (octets.p[i] >= ' ' && octets.p[i] < 0x7f && octets.p[i] != '\\')
			buf_addf(line, "%c", octets.p[i]);
		else
			buf_addf(line, "\\%02x", octets.p[i]);
}

static void
add_number(struct buf *line, const char *name, uint64_t number)
{
	buf_addf(line, " %s=%llu", name, (unsigned long long)number);
}

void
golden_add_definition(struct buf *line, const struct definition *d)
{
	const struct {
		const char *name;
		struct bytes octets;
	} texts[] = {
		{"vhost", d->vhost},
		{"name", d->name},
		{"user", d->user},
		{"exchange", d->exchange},
		{"type", d->type},
		{"source", d->source},
		{"key", d->key},
		{"destination", d->destination},
		{"arguments", d->arguments},
		{"configure", d->configure},
		{"write", d->write},
		{"read", d->read},
		{"hash", d->password_hash},
		{"pattern", d->pattern},
		{"apply_to", d->apply_to},
	};
	const struct {
		const char *name;
		uint64_t number;
	} numbers[] = {
		{"queue_id", d->queue_id},
		{"hash_kind", d->hash_kind},
		{"tags", d->tags},
		{"max_connections", d->max_connections},
		{"max_queues", d->max_queues},
		{"max_channels", d->max_channels},
		{"priority", d->priority},
		{"part", d->part},
	};

	buf_addf(line, " %s%s", kind_names[d->kind], d->removed ? " removed" : "");
	for (size_t i = 0; i < countof(texts); i++)
		if (texts[i].octets.n > 0)
			golden_add_text(line, texts[i].name, texts[i].octets);
	for (size_t i = 0; i < countof(numbers); i++)
		if (numbers[i].number > 0)
			add_number(line, numbers[i].name, numbers[i].number);
	ADD_FLAGS(line, d->flags, definition_flags);
}

void
golden_add_message(struct buf *line, const struct message_record *m)
{
	add_number(line, "time", m->time_ms);
	add_number(line, "expiry", m->expiry_ms);
	ADD_FLAGS(line, m->flags, message_flags);
	golden_add_text(line, "exchange", m->exchange);
	golden_add_text(line, "key", m->key);
	golden_add_text(line, "properties", m->properties);
	golden_add_text(line, "body", m->body);
	if (m->extension.n > 0)
		golden_add_text(line, "extension", m->extension);
}

/* ---- what tools see ---- */

struct listing {
	struct buf *text;
	uint64_t faults;
};

static void
on_fault(void *context, const struct inspect_fault *fault)
{
	struct listing *listing = context;

	if (fault->severity != INSPECT_NOTE)
		listing->faults++;
	buf_addf(listing->text, "fault %d %s offset=%llu %s\n", (int)fault->severity, fault->path,
		 (unsigned long long)fault->offset, fault->meaning);
}

static void
on_batch(void *context, const struct inspect_place *place, const struct batch_record *batch)
{
	struct listing *listing = context;

	buf_addf(listing->text, "batch %s", place->segment->path);
	add_number(listing->text, "offset", place->offset);
	add_number(listing->text, "first_lsn", batch->first_lsn);
	add_number(listing->text, "group", batch->group);
	add_number(listing->text, "flags", batch->flags);
	add_number(listing->text, "term", batch->term);
	add_number(listing->text, "number", batch->number);
	add_number(listing->text, "previous", batch->previous);
	add_number(listing->text, "digest", batch->digest);
	add_number(listing->text, "count", batch->count);
	add_number(listing->text, "bytes", batch->bytes);
	add_number(listing->text, "stable", batch->stable);
	buf_addf(listing->text, "\n");
}

static int
add_mark(void *context, const struct ack_mark *mark)
{
	buf_addf(context, " queue=%llu/%s/%llu+%llu/%llu", (unsigned long long)mark->queue_id,
		 reason_names[mark->reason], (unsigned long long)mark->first,
		 (unsigned long long)mark->count, (unsigned long long)mark->octets);
	return 0;
}

static void
add_refs(struct buf *text, const struct message_record *message)
{
	for (uint32_t i = 0; i < message->ref_count; i++) {
		struct message_ref ref =
			message_ref_decode(message->refs + (size_t)i * MESSAGE_REF_SIZE);

		buf_addf(text, " ref=%llu/%d/%llu", (unsigned long long)ref.queue_id, ref.priority,
			 (unsigned long long)ref.qseq);
		ADD_FLAGS(text, ref.flags, ref_flags);
	}
}

static void
add_purge(struct buf *text, const struct purge_record *purge)
{
	add_number(text, "queue", purge->queue_id);
	add_number(text, "first", purge->first);
	add_number(text, "last", purge->last);
	add_number(text, "open_count", purge->open_count);
	add_number(text, "open_octets", purge->open_octets);
}

static int
add_return(void *context, const struct return_count *count)
{
	buf_addf(context, " returned=%llu/%llu:%u", (unsigned long long)count->queue_id,
		 (unsigned long long)count->qseq, (unsigned)count->count);
	return 0;
}

static void
add_key(struct buf *text, const struct key_record *key)
{
	golden_add_text(text, "vhost", key->vhost);
	golden_add_text(text, key->owner == KEY_OF_QUEUE ? "queue" : "exchange", key->name);
	buf_addf(text, "%s%s", key->flags & KEY_WHILE_QUEUED ? " while_queued" : "",
		 key->flags & KEY_FORGET ? " forget" : "");
	add_number(text, "value", key->value);
	golden_add_text(text, "digest", bytes_of(key->digest, KEY_DIGEST_SIZE));
}

static void
add_payload(struct buf *text, const struct record *record)
{
	struct bytes payload =
		bytes_of(record->p + RECORD_HEADER_SIZE, record->size - RECORD_HEADER_SIZE);
	struct message_record message;
	struct purge_record purge;
	struct key_record key;
	struct definition definition;
	uint64_t first;
	uint64_t second;

	switch (record->type) {
	case RECORD_MESSAGE:
		must(message_record_decode(&message, record) == 0);
		add_refs(text, &message);
		golden_add_message(text, &message);
		break;
	case RECORD_ACK:
		must(ack_record_walk(record, add_mark, text) == 0);
		break;
	case RECORD_PURGE:
		must(purge_record_decode(&purge, record) == 0);
		add_purge(text, &purge);
		break;
	case RECORD_RETURNS:
		must(returns_record_walk(record, add_return, text) == 0);
		break;
	case RECORD_KEY:
		must(key_record_decode(&key, record) == 0);
		add_key(text, &key);
		break;
	case RECORD_DEFINE:
		must(definition_decode(&definition, payload) == 0);
		golden_add_definition(text, &definition);
		break;
	default:
		must(pair_record_decode(record, &first, &second) == 0);
		add_number(text, "first", first);
		if (record->type == RECORD_QUEUE)
			ADD_FLAGS(text, second, queue_flags);
		else
			add_number(text, "second", second);
	}
}

static void
on_record(void *context, const struct inspect_place *place, const struct record *record)
{
	struct listing *listing = context;

	buf_addf(listing->text, "record %s%s", place->segment->path, place->alone ? " alone" : "");
	add_number(listing->text, "offset", place->offset);
	add_number(listing->text, "size", record->size);
	add_number(listing->text, "lsn", record->lsn);
	add_number(listing->text, "version", record->version);
	buf_addf(listing->text, " %s", type_names[record->type]);
	add_payload(listing->text, record);
	buf_addf(listing->text, "\n");
}

/* ---- checkpoints ---- */

static void
on_define(void *context, const struct definition *definition)
{
	struct listing *listing = context;

	buf_addf(listing->text, "definition");
	golden_add_definition(listing->text, definition);
	buf_addf(listing->text, "\n");
}

static void
on_queue(void *context, struct inspect_queue *queue)
{
	struct listing *listing = context;
	uint64_t settled = 0;

	buf_addf(listing->text, "queue");
	add_number(listing->text, "id", queue->id);
	add_number(listing->text, "next_qseq", queue->next_qseq);
	ADD_FLAGS(listing->text, queue->flags, queue_flags);
	add_number(listing->text, "count", queue->count);
	add_number(listing->text, "octets", queue->octets);
	add_number(listing->text, "redelivered_below", queue->redelivered_below);
	for (uint64_t qseq = 1; qseq < queue->next_qseq; qseq++)
		if (qseq_set_has(&queue->settled, qseq))
			buf_addf(listing->text, "%s%llu", settled++ == 0 ? " settled=" : ",",
				 (unsigned long long)qseq);
	buf_addf(listing->text, "\n");
	qseq_set_fini(&queue->settled);
}

static void
on_returned(void *context, const struct return_count *count)
{
	const struct listing *listing = context;

	buf_addf(listing->text, "returns");
	add_return(listing->text, count);
	buf_addf(listing->text, "\n");
}

static void
on_key(void *context, const struct key_record *key)
{
	const struct listing *listing = context;

	add_key(listing->text, key);
	buf_addf(listing->text, "\n");
}

static void
on_segment(void *context, const struct inspect_segment_state *state)
{
	struct listing *listing = context;

	buf_addf(listing->text, "segment");
	add_number(listing->text, "id", state->id);
	add_number(listing->text, "end", state->end);
	add_number(listing->text, "last_lsn", state->last_lsn);
	add_number(listing->text, "live", state->live);
	add_number(listing->text, "live_refs", state->live_refs);
	buf_addf(listing->text, "\n");
}

static void
on_chain(void *context, const struct inspect_chain *chain)
{
	struct listing *listing = context;

	buf_addf(listing->text, "chain");
	add_number(listing->text, "next_queue_id", chain->next_queue_id);
	add_number(listing->text, "next_segment_id", chain->next_segment_id);
	add_number(listing->text, "number", chain->number);
	add_number(listing->text, "digest", chain->digest);
	add_number(listing->text, "group", chain->group);
	buf_addf(listing->text, "\n");
}

static void
list_checkpoints(struct inspect *inspect, struct listing *listing)
{
	static const struct inspect_checkpoint_ops ops = {on_define, on_queue,	 on_returned,
							  on_key,    on_segment, on_chain};

	for (size_t i = 0; i < inspect_checkpoint_count(inspect); i++) {
		uint64_t lsn = inspect_checkpoint_at(inspect, i);

		buf_addf(listing->text, "checkpoint %llu\n", (unsigned long long)lsn);
		must(inspect_checkpoint(inspect, lsn, &ops, listing) == 0);
	}
}

/* ---- headers ---- */

static void
list_superblock(const struct superblock *s, struct buf *text)
{
	buf_addf(text, "superblock node=%s clean=%d", s->node, s->clean);
	golden_add_text(text, "uuid", bytes_of(s->uuid, sizeof(s->uuid)));
	golden_add_text(text, "cluster", bytes_of(s->cluster, sizeof(s->cluster)));
	add_number(text, "sequence", s->sequence);
	add_number(text, "term", s->term);
	add_number(text, "promised", s->promised);
	add_number(text, "horizon", s->horizon);
	add_number(text, "checkpoint", s->checkpoint);
	buf_addf(text, "\n");
}

static void
list_header(struct disk *disk, const struct inspect_segment *segment, struct buf *text)
{
	uint8_t octets[SEGMENT_HEADER_SIZE];
	struct segment_header header;
	struct disk_file *file;

	must(disk_open(disk, segment->path, DISK_READ, &file) == 0);
	must(disk_read(file, octets, sizeof(octets), 0) == SEGMENT_HEADER_SIZE);
	disk_close(&file);
	must(segment_header_decode(&header, octets) == 0);
	buf_addf(text, "file %s use=%d", segment->path, (int)segment->use);
	add_number(text, "id", header.id);
	add_number(text, "generation", header.generation);
	add_number(text, "salt", header.salt);
	add_number(text, "first_lsn", header.first_lsn);
	add_number(text, "last_lsn", header.last_lsn);
	add_number(text, "swallowed", header.swallowed);
	add_number(text, "term", header.term);
	add_number(text, "created", header.created_ms);
	add_number(text, "size", segment->size);
	add_number(text, "footer", segment->footer);
	add_number(text, "end", segment->end);
	buf_addf(text, "\n");
}

uint64_t
golden_list_files(struct disk *disk, struct buf *text)
{
	static const struct inspect_ops ops = {
		.fault = on_fault,
		.record = on_record,
		.batch = on_batch,
	};
	struct listing listing = {.text = text};
	struct inspect_range range = INSPECT_ALL;
	struct inspect *inspect;
	struct buf error;

	buf_init(&error, 0);
	range.footers = true;
	expect(inspect_open(&inspect, disk, &ops, &listing, &error) == 0, "%s", buf_cstr(&error));
	list_superblock(inspect_superblock(inspect), text);
	(void)inspect_walk(inspect, range);
	for (size_t i = 0; i < inspect_segment_count(inspect); i++)
		list_header(disk, inspect_segment_at(inspect, i), text);
	list_checkpoints(inspect, &listing);
	inspect_close(&inspect);
	buf_fini(&error);
	return listing.faults;
}
