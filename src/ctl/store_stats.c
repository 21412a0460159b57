/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `store stats': what is in each file, what of it is garbage, and why the file is still there.
 */
#include <stdlib.h>

#include "util/mem.h"

#include "json.h"
#include "reading.h"

/* Queues named as the reason of a file, the others are counted. */
#define PINS_SHOWN 3

/* Open messages that keep a file. */
struct pin {
	const struct image_queue *queue; // borrows from the image
	uint64_t count;
};

struct file_stats {
	uint64_t id;
	uint64_t messages; // with an open reference
	uint64_t refs;	   // open
	uint64_t live;	   // octets of records, by the share of their open references
	struct pin *pins;  // own; most first
	size_t pin_count;
};

struct stats {
	struct reading reading;
	struct file_stats *files; // own; as the inspection has them
	size_t file_count;
	size_t present;		      // the file that is read
	struct image_queue **touched; // own; queues with messages in it
	size_t touched_count;
	size_t touched_room;
};

/* ---- counting ---- */

static int
most_first(const void *a, const void *b)
{
	const struct pin *x = a;
	const struct pin *y = b;

	return x->count < y->count ? 1 : x->count > y->count ? -1 : 0;
}

/* The file was read to its end. */
static void
end_file(struct stats *stats)
{
	struct file_stats *file;

	if (stats->touched_count == 0)
		return;
	file = &stats->files[stats->present];
	file->pin_count = stats->touched_count;
	file->pins = xcalloc(file->pin_count, sizeof(*file->pins));
	for (size_t i = 0; i < stats->touched_count; i++) {
		file->pins[i] = (struct pin){stats->touched[i], stats->touched[i]->open_here};
		stats->touched[i]->open_here = 0;
	}
	qsort(file->pins, file->pin_count, sizeof(*file->pins), most_first);
	stats->touched_count = 0;
}

static void
touch(struct stats *stats, struct image_queue *q)
{
	if (q->open_here++ > 0)
		return;
	if (stats->touched_count == stats->touched_room) {
		stats->touched_room = stats->touched_room == 0 ? 64 : 2 * stats->touched_room;
		stats->touched =
			xrealloc(stats->touched, stats->touched_room * sizeof(*stats->touched));
	}
	stats->touched[stats->touched_count++] = q;
}

static void
on_message(void *context, const struct open_message *open)
{
	struct stats *stats = context;
	struct file_stats *file;

	if (stats->files[stats->present].id != open->place->segment->id) {
		end_file(stats);
		while (stats->files[stats->present].id != open->place->segment->id)
			stats->present++;
	}
	file = &stats->files[stats->present];
	file->messages++;
	file->refs += open->count;
	file->live += open->count * (uint64_t)(open->record->size / open->message.ref_count);
	for (uint32_t i = 0; i < open->count; i++)
		touch(stats, open->refs[i].queue);
}

static void
count_all(struct stats *stats)
{
	const struct inspect *inspect = stats->reading.store.inspect;

	stats->file_count = inspect_segment_count(inspect);
	stats->files = xcalloc(stats->file_count + 1, sizeof(*stats->files));
	for (size_t i = 0; i < stats->file_count; i++)
		stats->files[i].id = inspect_segment_at(inspect, i)->id;
	reading_messages(&stats->reading, on_message, stats);
	end_file(stats);
}

/* ---- what is said ---- */

static unsigned
garbage_percent(uint64_t used, uint64_t live)
{
	return used == 0 ? 0 : (unsigned)(100 - min_u64(live, used) * 100 / used);
}

static uint64_t
used_octets(const struct inspect_segment *segment)
{
	return segment->end > SEGMENT_HEADER_SIZE ? segment->end - SEGMENT_HEADER_SIZE : 0;
}

/* Why the file is there. */
static void
add_reason(struct buf *out, const struct stats *stats, size_t at)
{
	const struct inspect *inspect = stats->reading.store.inspect;
	const struct inspect_segment *segment = inspect_segment_at(inspect, at);
	const struct file_stats *file = &stats->files[at];
	size_t checkpoints = inspect_checkpoint_count(inspect);
	struct ctl_name name;
	uint64_t covered = checkpoints < 2 ? 0 : inspect_checkpoint_at(inspect, checkpoints - 2);

	if (segment->use == INSPECT_PREPARED)
		buf_add_str(out, "prepared for what comes next");
	else if (segment->use == INSPECT_LEFTOVER)
		buf_add_str(out, "left over: the next start removes it");
	else if (segment->use == INSPECT_FOREIGN)
		buf_add_str(out, "not a part of this store");
	else if (file->refs > 0) {
		buf_add_str(out, "open messages of ");
		for (size_t i = 0; i < file->pin_count && i < PINS_SHOWN; i++)
			buf_addf(out, "%s%s (%llu)", i == 0 ? "" : ", ",
				 image_queue_name(&name, file->pins[i].queue),
				 (unsigned long long)file->pins[i].count);
		if (file->pin_count > PINS_SHOWN)
			buf_addf(out, " and %zu more queues", file->pin_count - PINS_SHOWN);
	} else if (segment->last_lsn == stats->reading.last_lsn)
		buf_add_str(out, "the end of the log");
	else if (segment->last_lsn > covered)
		buf_add_str(out, "marks and definitions that two checkpoints do not cover yet");
	else
		buf_add_str(out, "nothing: it goes with the next checkpoint");
}

static const char *
owner_of(const struct image_keys *keys)
{
	return keys->of.owner == KEY_OF_QUEUE ? "queue" : "exchange";
}

/* What a start finds; it keeps as many as it is asked to. */
static void
print_keys(const struct image *image)
{
	const struct image_keys *keys;
	struct ctl_name vhost;
	struct ctl_name name;

	if (image->keys.count == 0)
		return;
	(void)printf("\n%-24s %-24s %10s %12s\n", "vhost", "deduplicates", "kind", "keys");
	map_for_each (&image->keys, keys, const struct image_keys, by_owner)
		(void)printf("%-24s %-24s %10s %12zu\n", ctl_name(&vhost, keys->of.vhost),
			     ctl_name(&name, keys->of.name), owner_of(keys), keys->keys.count);
}

static json_t *
json_of_keys(const struct image *image)
{
	json_t *all = json_array();
	const struct image_keys *keys;

	map_for_each (&image->keys, keys, const struct image_keys, by_owner) {
		json_t *object = json_object();

		json_put_text(object, "vhost", keys->of.vhost);
		json_put_text(object, owner_of(keys), keys->of.name);
		json_put_number(object, "keys", keys->keys.count);
		assert(json_array_append_new(all, object) == 0);
	}
	return all;
}

static void
print_text(const struct stats *stats)
{
	const struct inspect *inspect = stats->reading.store.inspect;
	const struct image_queue *q;
	struct ctl_name vhost;
	struct ctl_name name;
	struct buf reason;

	(void)printf("%-20s %12s %12s %12s %10s %8s  %s\n", "file", "size", "used", "live",
		     "messages", "garbage", "why it remains");
	buf_init(&reason, 0);
	for (size_t i = 0; i < stats->file_count; i++) {
		const struct inspect_segment *segment = inspect_segment_at(inspect, i);
		const struct file_stats *file = &stats->files[i];

		add_reason(&reason, stats, i);
		(void)printf("%-20s %12llu %12llu %12llu %10llu %6u %%  %s\n", segment->path,
			     (unsigned long long)segment->size,
			     (unsigned long long)used_octets(segment),
			     (unsigned long long)file->live, (unsigned long long)file->messages,
			     garbage_percent(used_octets(segment), file->live), buf_cstr(&reason));
		buf_clear(&reason);
	}
	buf_fini(&reason);
	(void)printf("\n%-24s %-24s %10s %12s %12s\n", "vhost", "queue", "id", "messages",
		     "octets");
	map_for_each (&stats->reading.image.queues, q, const struct image_queue, by_id)
		if (!q->removed && q->is_named)
			(void)printf("%-24s %-24s %10llu %12llu %12llu\n",
				     ctl_name(&vhost, q->vhost), image_queue_name(&name, q),
				     (unsigned long long)q->id, (unsigned long long)q->open,
				     (unsigned long long)q->open_octets);
	print_keys(&stats->reading.image);
}

struct totals {
	uint64_t files;
	uint64_t size;
	uint64_t used;
	uint64_t live;
	uint64_t messages;
	uint64_t refs;
};

static struct totals
add_up(const struct stats *stats)
{
	struct totals totals = {.files = stats->file_count};

	for (size_t i = 0; i < stats->file_count; i++) {
		const struct inspect_segment *segment =
			inspect_segment_at(stats->reading.store.inspect, i);

		totals.size += segment->size;
		totals.used += used_octets(segment);
		totals.live += stats->files[i].live;
		totals.messages += stats->files[i].messages;
		totals.refs += stats->files[i].refs;
	}
	return totals;
}

static json_t *
json_of_file(const struct stats *stats, size_t at)
{
	static const char *const uses[] = {
		[INSPECT_IN_USE] = "in use",
		[INSPECT_PREPARED] = "prepared",
		[INSPECT_LEFTOVER] = "left over",
		[INSPECT_FOREIGN] = "foreign",
	};
	const struct inspect_segment *segment =
		inspect_segment_at(stats->reading.store.inspect, at);
	const struct file_stats *file = &stats->files[at];
	json_t *object = json_object();
	json_t *pins = json_array();
	struct buf reason;

	json_put_string(object, "file", segment->path);
	json_put_string(object, "use", uses[segment->use]);
	json_put_number(object, "first_lsn", segment->first_lsn);
	json_put_number(object, "last_lsn", segment->last_lsn);
	json_put_number(object, "size", segment->size);
	json_put_number(object, "used", used_octets(segment));
	json_put_number(object, "live", file->live);
	json_put_number(object, "messages", file->messages);
	json_put_number(object, "references", file->refs);
	json_put_number(object, "garbage_percent",
			garbage_percent(used_octets(segment), file->live));
	for (size_t i = 0; i < file->pin_count; i++) {
		json_t *pin = json_object();

		json_put_text(pin, "vhost", file->pins[i].queue->vhost);
		json_put_queue(pin, file->pins[i].queue);
		json_put_number(pin, "messages", file->pins[i].count);
		assert(json_array_append_new(pins, pin) == 0);
	}
	assert(json_object_set_new(object, "pinned_by", pins) == 0);
	buf_init(&reason, 0);
	add_reason(&reason, stats, at);
	json_put_text(object, "why", buf_bytes(&reason));
	buf_fini(&reason);
	return object;
}

static void
print_json(const struct stats *stats)
{
	struct totals totals = add_up(stats);
	json_t *object = json_object();
	json_t *files = json_array();
	json_t *queues = json_array();
	json_t *sums = json_object();
	const struct image_queue *q;

	for (size_t i = 0; i < stats->file_count; i++)
		assert(json_array_append_new(files, json_of_file(stats, i)) == 0);
	map_for_each (&stats->reading.image.queues, q, const struct image_queue, by_id) {
		json_t *queue;

		if (q->removed || !q->is_named)
			continue;
		queue = json_object();
		json_put_text(queue, "vhost", q->vhost);
		json_put_queue(queue, q);
		json_put_number(queue, "queue_id", q->id);
		json_put_number(queue, "messages", q->open);
		json_put_number(queue, "octets", q->open_octets);
		assert(json_array_append_new(queues, queue) == 0);
	}
	json_put_number(sums, "files", totals.files);
	json_put_number(sums, "size", totals.size);
	json_put_number(sums, "used", totals.used);
	json_put_number(sums, "live", totals.live);
	json_put_number(sums, "messages", totals.messages);
	json_put_number(sums, "references", totals.refs);
	json_put_number(sums, "garbage_percent", garbage_percent(totals.used, totals.live));
	json_put_number(sums, "last_lsn", stats->reading.last_lsn);
	assert(json_object_set_new(object, "files", files) == 0);
	assert(json_object_set_new(object, "queues", queues) == 0);
	assert(json_object_set_new(object, "deduplication", json_of_keys(&stats->reading.image)) ==
	       0);
	assert(json_object_set_new(object, "total", sums) == 0);
	json_print(stdout, object);
}

static void
print_totals(const struct stats *stats)
{
	struct totals totals = add_up(stats);

	(void)printf(
		"\n%llu files, %llu octets, %llu used, %llu live; %llu open messages with %llu "
		"places in queues; garbage %u %%; last LSN %llu\n",
		(unsigned long long)totals.files, (unsigned long long)totals.size,
		(unsigned long long)totals.used, (unsigned long long)totals.live,
		(unsigned long long)totals.messages, (unsigned long long)totals.refs,
		garbage_percent(totals.used, totals.live),
		(unsigned long long)stats->reading.last_lsn);
}

int
store_stats(const struct ctl_arguments *arguments)
{
	struct stats stats = {.reading = {.faults = {.out = stderr}}};
	int status = reading_open(&stats.reading, arguments->dir);

	if (status != CTL_OK)
		return status;
	count_all(&stats);
	if (arguments->values[CTL_JSON] != NULL) {
		print_json(&stats);
	} else {
		print_text(&stats);
		print_totals(&stats);
	}
	for (size_t i = 0; i < stats.file_count; i++)
		xfree(stats.files[i].pins);
	xfree(stats.files);
	xfree(stats.touched);
	status = ctl_is_damaged(&stats.reading.faults) ? CTL_DAMAGED : CTL_OK;
	reading_close(&stats.reading);
	return ctl_end_output(stdout, "stdout", status);
}
