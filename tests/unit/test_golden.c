/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden stores: what was written once must be read for ever. Those of each version of the format lie in
 * tests/golden as text, the files and what must be found in them. Each is looked at as the tools do, opened,
 * compacted, opened again; what is found must be the same to the letter.
 *
 * The same is done with stores that this version writes; GOLDEN_WRITE=DIR puts these there, named by the
 * format's version (docs/store-format.md).
 */
#include "lib/golden.h"

#include <dirent.h>

#include "golden_session.h"

static unsigned stores;
static unsigned long long messages;

/* ---- making one ---- */

#define GUEST BYTES("guest")
#define ROOT BYTES("/")
#define TENANT BYTES("tenant")

static void
define(struct session *s, const struct definition *definition)
{
	session_take_definition(s, definition);
	store_define(s->store, definition);
}

static void
add_queue(struct session *s, const char *name)
{
	struct queue_log *log = store_queue_new(s->store);
	struct definition definition = {
		.kind = DEFINITION_QUEUE,
		.vhost = ROOT,
		.name = bytes_str(name),
		.queue_id = log->id,
		.flags = s->log_count == 1 ? DEFINITION_AUTO_DELETE : 0,
		.arguments =
			s->log_count == 2 ? BYTES("\x0dx-max-lengthI\0\0\1\0") : (struct bytes){0},
	};

	define(s, &definition);
	s->logs[s->log_count++] = log;
}

static void
add_part(struct session *s, struct definition definition)
{
	struct queue_log *log = store_queue_new(s->store);

	definition.kind = DEFINITION_PART;
	definition.vhost = ROOT;
	definition.queue_id = log->id;
	define(s, &definition);
	log->owner = s;
	s->logs[s->log_count++] = log;
}

static void
define_policies(struct session *s)
{
	const struct definition definitions[] = {
		{.kind = DEFINITION_POLICY,
		 .vhost = ROOT,
		 .name = BYTES("short"),
		 .pattern = BYTES("^f"),
		 .apply_to = BYTES("queues"),
		 .priority = definition_priority(-1),
		 .arguments = BYTES("\x0a"
				    "max-lengthI\0\0\0\7")},
		{.kind = DEFINITION_OPERATOR_POLICY,
		 .vhost = ROOT,
		 .name = BYTES("cap"),
		 .apply_to = BYTES("all"),
		 .arguments = BYTES("\7expiresI\0\0\1\0")},
	};

	for (size_t i = 0; i < countof(definitions); i++)
		define(s, &definitions[i]);
}

/* One of each kind and, over all of them, each field. */
static void
define_all(struct session *s)
{
	const struct definition definitions[] = {
		{.kind = DEFINITION_VHOST, .name = ROOT},
		{.kind = DEFINITION_VHOST,
		 .name = TENANT,
		 .max_connections = definition_limit(100),
		 .max_queues = definition_limit(0)},
		{.kind = DEFINITION_USER,
		 .name = GUEST,
		 .hash_kind = 1,
		 .password_hash = BYTES("\x01\x02\xff\x00salted"),
		 .tags = 5,
		 .max_connections = definition_limit(7),
		 .max_channels = definition_limit(2047)},
		{.kind = DEFINITION_PERMISSION,
		 .vhost = ROOT,
		 .user = GUEST,
		 .configure = BYTES(".*"),
		 .write = BYTES("^w"),
		 .read = BYTES("^r$")},
		{.kind = DEFINITION_TOPIC_PERMISSION,
		 .vhost = ROOT,
		 .user = GUEST,
		 .exchange = BYTES("amq.topic"),
		 .write = BYTES("^a"),
		 .read = BYTES("^b")},
		{.kind = DEFINITION_EXCHANGE,
		 .vhost = ROOT,
		 .name = BYTES("news"),
		 .type = BYTES("topic"),
		 .flags = DEFINITION_AUTO_DELETE | DEFINITION_INTERNAL,
		 .arguments = BYTES("\x12"
				    "alternate-exchangeS\0\0\0\4dead")},
		{.kind = DEFINITION_EXCHANGE,
		 .vhost = ROOT,
		 .name = BYTES("dead"),
		 .type = BYTES("fanout")},
		{.kind = DEFINITION_BINDING,
		 .vhost = ROOT,
		 .source = BYTES("news"),
		 .destination = BYTES("first"),
		 .key = BYTES("a.*.#"),
		 .arguments = BYTES("\7x-matchS\0\0\0\3all")},
		{.kind = DEFINITION_BINDING,
		 .vhost = ROOT,
		 .source = BYTES("news"),
		 .destination = BYTES("dead"),
		 .flags = DEFINITION_TO_EXCHANGE},
	};

	for (size_t i = 0; i < countof(definitions); i++)
		define(s, &definitions[i]);
	define_policies(s);
	add_queue(s, "first");
	add_queue(s, "second");
	add_queue(s, "third");
	add_queue(s, "gone");
	add_part(s, (struct definition){.name = BYTES("second"), .part = 255});
	add_part(s, (struct definition){
			    .name = BYTES("news"), .flags = DEFINITION_OF_EXCHANGE, .part = 256});
}

/* A message for the queues of this mask, all of it cold. */
static void
publish(struct session *s, unsigned queues, unsigned number, uint32_t size)
{
	struct buf body;
	uint8_t *refs;
	struct message_record record = {
		.time_ms = s->now.wall_ms + number,
		.expiry_ms = number % 3 == 0 ? s->now.wall_ms + 60000 : 0,
		.flags = number % 2 == 0 ? MESSAGE_CC : 0,
		.exchange = number % 4 == 0 ? BYTES("news") : BYTES(""),
		.key = BYTES("a.b.c"),
		.properties = number % 5 == 0 ? BYTES("\x10\x00\x02")
					      : BYTES("\x98\x00\4text\0\0\0\0\2\1"),
		/* a key of BCC, a count of failures */
		.extension = number % 7 == 0 ? BYTES("\1\5other\2\4\3\0\0\0") : (struct bytes){0},
	};

	buf_init(&body, 0);
	buf_addf(&body, "message %u:", number);
	for (uint32_t i = 0; body.n < size; i++)
		buf_addf(&body, " %u", i * number);
	record.body = bytes_of(body.p, size);
	for (size_t i = 0; i < s->log_count; i++)
		record.ref_count += queues >> i & 1;
	(void)store_append_message(s->store, &record, &refs);
	for (size_t i = 0; i < s->log_count; i++) {
		struct queue_log *log = s->logs[i];
		uint64_t qseq;

		if (!(queues >> i & 1))
			continue;
		qseq = log->next_qseq;
		store_add_ref(s->store, log, refs, qseq, size, 0);
		log->next_qseq = max_u64(log->next_qseq, qseq + 1);
		store_cold_push(log, qseq, size);
		refs += MESSAGE_REF_SIZE;
	}
	buf_fini(&body);
}

static void
publish_many(struct session *s, unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++) {
		publish(s, i % 4 == 0 ? 0xf : 1U << i % 4, i, 20 + i * 37 % 120);
		if (i % 3 == 0)
			session_flush(s);
	}
	session_flush(s);
}

/* Settles those that were read and whose number in their queue is no multiple of kept, for all reasons; the others came
 * back. */
static void
settle(struct session *s, uint64_t kept)
{
	unsigned reason = 0;

	for (size_t i = 0; i < s->message_count; i++) {
		struct session_message *m = &s->messages[i];

		if (m->qseq % kept == 0) {
			(void)store_note_return(s->store, m->log, m->qseq,
						1 + (uint32_t)m->qseq % 4);
			continue;
		}
		(void)store_ack(s->store, m->log, m->qseq, &m->place,
				(enum ack_reason)(reason++ % ACK_REASON_END));
	}
	session_flush(s);
}

static void
read_some(struct session *s, size_t at, uint32_t count)
{
	forget_messages(s);
	/* one read is one of a segment */
	while (s->message_count < count && s->logs[at]->cold_count > 0) {
		store_read(s->store, s->logs[at], count, 100000);
		session_turn(s, 1);
	}
	ck_assert_uint_ge(s->message_count, count);
}

/* What recovery reads behind the last checkpoint: records of all types. */
static void
log_all_types(struct session *s)
{
	const struct definition exchange = {
		.kind = DEFINITION_EXCHANGE, .removed = true, .vhost = ROOT, .name = BYTES("dead")};
	const struct definition queue = {
		.kind = DEFINITION_QUEUE,
		.removed = true,
		.vhost = ROOT,
		.name = BYTES("gone"),
		.queue_id = s->logs[3]->id,
	};

	(void)store_mark_delivered(s->store, s->logs[0]);
	read_some(s, 2, 8);
	settle(s, 4);
	(void)append_epoch(s->store, 1, s->store->next_lsn - 1);
	(void)store_purge_cold(s->store, s->logs[1]);
	define(s, &exchange);
	define(s, &queue);
	store_queue_drop(s->store, &s->logs[3]);
	s->log_count--;
	session_flush(s);
	publish(s, 7, 90, 50);
	publish(s, 2, 91, 0);
	session_flush(s);
}

/* The process dies, and the end of its last batch is not what was written. */
static void
tear(struct session *s)
{
	const struct segment *last = s->store->segments[s->store->segment_count - 1];
	uint64_t end = last->end;
	char path[PATH_MAX_SIZE];
	uint8_t *content;
	size_t size;

	segment_path(path, last->id);
	publish(s, 1, 99, 700);
	session_flush(s);
	ck_assert_uint_gt(last->end, end + SIM_SECTOR);
	session_crash(s, SIM_EVERYTHING);
	content = disk_sim_content(s->sim, path, &size);
	memset(content + end + SIM_SECTOR, 0, SIM_SECTOR);
}

static void
make(struct session *s, bool clean)
{
	session_init(s);
	/* nothing goes, and nothing is compacted, where it must still be there */
	s->options.garbage_files = clean ? 1000 : 3;
	session_open(s);
	define_all(s);
	publish_many(s, 1, 40);
	if (!clean) {
		read_some(s, 0, 8);
		settle(s, 3);
		read_some(s, 3, 12);
		settle(s, 5);
		read_some(s, 2, 14);
		settle(s, 6);
		session_await_merge(s);
		/* and no checkpoint is asked for behind it */
		s->store->options.garbage_files = 1000;
		publish_many(s, 41, 12);
	}
	log_all_types(s);
	forget_messages(s);
}

/* ---- comparing ---- */

/* What tools see, none of which is a fault. */
static void
list_files(struct session *s, struct buf *text)
{
	uint64_t faults = golden_list_files(&s->sim->disk, text);

	ck_assert_msg(faults == 0, "%.300s", strstr(buf_cstr(text), "fault"));
}

static void
expect_sound(struct session *s)
{
	struct buf text;

	buf_init(&text, 0);
	list_files(s, &text);
	buf_fini(&text);
}

/* What an open store has. */
static void
list_open(struct session *s, struct buf *text)
{
	for (size_t i = 0; i < s->definition_count; i++) {
		struct definition definition = session_definition(s, i);

		buf_addf(text, "there");
		golden_add_definition(text, &definition);
		buf_addf(text, "\n");
	}
	for (size_t i = 0; i < s->log_count; i++) {
		const struct queue_log *log = s->logs[i];

		buf_addf(text,
			 "open queue %llu next=%llu count=%llu octets=%llu delivered=%d "
			 "redelivered_below=%llu\n",
			 (unsigned long long)log->id, (unsigned long long)log->next_qseq,
			 (unsigned long long)log->count, (unsigned long long)log->octets,
			 log->delivered, (unsigned long long)log->redelivered_below);
	}
	session_read_out(s);
	for (size_t i = 0; i < s->message_count; i++)
		buf_addf(text, "open %s\n", s->messages[i].line);
}

/* All that is in a store, as the tools see it and as it opens. */
static void
list_all(struct session *s, struct buf *text)
{
	list_files(s, text);
	session_open(s);
	list_open(s, text);
}

/* As much of a line as Check prints. */
static int
line_size(const char *line)
{
	return (int)min_u64(strcspn(line, "\n"), 600);
}

static void
expect_same(const char *name, const char *wanted, const char *found)
{
	unsigned line = 1;

	for (; *wanted == *found && *wanted != '\0'; wanted++, found++)
		line += *wanted == '\n';
	if (*wanted == *found)
		return;
	while (wanted[-1] != '\n' && line > 1) {
		wanted--;
		found--;
	}
	ck_abort_msg("%s: line %u was\n%.*s\nand now is\n%.*s", name, line, line_size(wanted),
		     wanted, line_size(found), found);
}

/* Settles every second message, compacts, and finds the others. */
static void
use(struct session *s)
{
	char *left[SESSION_MESSAGES];
	size_t count = 0;

	for (size_t i = 0; i < s->message_count; i++) {
		const struct session_message *m = &s->messages[i];

		if (i % 2 == 0)
			(void)store_ack(s->store, m->log, m->qseq, &m->place, ACK_CONSUMED);
		else
			left[count++] = xstrdup(m->line);
	}
	session_await_merge(s);
	session_crash(s, SIM_NOTHING);
	expect_sound(s);
	session_open(s);
	session_read_out(s);
	ck_assert_uint_eq(s->message_count, count);
	for (size_t i = 0; i < count; i++) {
		ck_assert_str_eq(s->messages[i].line, left[i]);
		xfree(left[i]);
	}
}

/* Opens the store, compares it, works with it. */
static void
check_store(const char *name, const char *files, struct buf *content, const char *wanted)
{
	struct session s;

	session_init(&s);
	s.options.garbage_files = 2;
	s.options.garbage_percent = 1;
	golden_load(s.sim, files);
	list_all(&s, content);
	if (wanted != NULL)
		expect_same(name, wanted, buf_cstr(content));
	stores++;
	messages += s.message_count;
	session_close(&s);
	expect_sound(&s);
	session_open(&s);
	session_read_out(&s);
	use(&s);
	session_close(&s);
	expect_sound(&s);
	session_fini(&s);
}

/* ---- the tests ---- */

static void
write_file(const char *folder, const char *kind, const char *ending, struct buf *text)
{
	char path[1024];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%d.%d-%s.%s", folder, STORE_FORMAT_MAJOR,
		       STORE_FORMAT_MINOR, kind, ending);
	file = fopen(path, "wx");
	ck_assert_msg(file != NULL, "cannot make %s, or it is there", path);
	ck_assert_uint_eq(fwrite(text->p, 1, text->n, file), text->n);
	ck_assert_int_eq(fclose(file), 0);
}

static void
make_and_check(bool clean)
{
	const char *folder = getenv("GOLDEN_WRITE");
	const char *kind = clean ? "clean" : "killed";
	struct session s;
	struct buf files;
	struct buf content;

	buf_init(&files, 0);
	buf_init(&content, 0);
	make(&s, clean);
	if (clean)
		session_close(&s);
	else
		tear(&s);
	buf_addf(&files, "# A store of format %d.%d, %s.\n", STORE_FORMAT_MAJOR, STORE_FORMAT_MINOR,
		 clean ? "stopped cleanly" : "whose process died while it wrote");
	golden_save(s.sim, &files);
	session_fini(&s);
	check_store(kind, buf_cstr(&files), &content, NULL);
	if (folder != NULL) {
		write_file(folder, kind, "store", &files);
		write_file(folder, kind, "content", &content);
	}
	buf_fini(&files);
	buf_fini(&content);
}

START_TEST(test_stores_of_this_version_are_read)
{
	make_and_check(true);
	make_and_check(false);
}
END_TEST

static char *
read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	struct buf text;
	char *copy;
	size_t n;

	ck_assert_msg(file != NULL, "cannot read %s", path);
	buf_init(&text, 0);
	do {
		n = fread(buf_reserve(&text, 65536), 1, 65536, file);
		text.n += n;
	} while (n > 0);
	(void)fclose(file);
	copy = xstrdup(buf_cstr(&text));
	buf_fini(&text);
	return copy;
}

static void
check_golden(const char *folder, const char *name)
{
	char path[1024];
	struct buf content;
	char *files;
	char *wanted;

	(void)snprintf(path, sizeof(path), "%s/%s.store", folder, name);
	files = read_file(path);
	(void)snprintf(path, sizeof(path), "%s/%s.content", folder, name);
	wanted = read_file(path);
	buf_init(&content, 0);
	check_store(path, files, &content, wanted);
	buf_fini(&content);
	xfree(files);
	xfree(wanted);
}

START_TEST(test_stores_of_all_versions_are_read)
{
	const char *top = getenv("srcdir");
	char folder[512];
	char name[256];
	DIR *dir;

	(void)snprintf(folder, sizeof(folder), "%s/tests/golden", top != NULL ? top : ".");
	dir = opendir(folder);
	ck_assert_msg(dir != NULL, "cannot list %s", folder);
	for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		size_t n = strlen(entry->d_name);

		if (n < 6 || strcmp(entry->d_name + n - 6, ".store") != 0)
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)(n - 6), entry->d_name);
		check_golden(folder, name);
	}
	(void)closedir(dir);
	ck_assert_uint_ge(stores, 2);
	printf("golden stores: %u, %llu messages\n", stores, messages);
}
END_TEST

TESTS("golden", test_stores_of_this_version_are_read, test_stores_of_all_versions_are_read)
