/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that runs out. The process ends then, wherever it is (util/mem.h), so what must hold is what holds when
 * it is killed: for each allocation of a session a child on a real folder gets none from that one on; it must
 * end by our own abort with our own line, and what it had reported as stable must be there at the next start,
 * and nothing half. What the session asks of the store follows from its seed, so the parent knows all of it.
 *
 * STORE_MEMORY_ALL: every allocation, else as many as 2 seconds allow for each session.
 */
#include "store/store.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/runner.h"
#include "lib/store_fixture.h"
#include "store/internal.h"

#define SECONDS 2
#define FOLDER_SIZE 64
#define LINE "Out of memory, the process ends"

/* ---- allocation that fails: --wrap of the linker ---- */

static bool counting;
static unsigned long calls;
static unsigned long fail_from; // 0: none fails

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);

static bool
runs_out(void)
{
	if (!counting)
		return false;
	calls++;
	return fail_from != 0 && calls >= fail_from;
}

void *
__wrap_malloc(size_t size)
{
	return runs_out() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
	return runs_out() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *p, size_t size)
{
	return runs_out() ? NULL : __real_realloc(p, size);
}

void *
__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	return runs_out() ? MAP_FAILED : __real_mmap(at, size, protection, flags, fd, offset);
}

/* ---- folders ---- */

/* In memory where that is possible: there are hundreds of stores, each with its syncs. */
static void
folder_make(char folder[FOLDER_SIZE])
{
	const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	(void)snprintf(folder, FOLDER_SIZE, "%s/test-store-memory-XXXXXX", where);
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void
run_command(const char *format, const char *a, const char *b)
{
	char command[3 * FOLDER_SIZE];

	(void)snprintf(command, sizeof(command), format, a, b);
	ck_assert_int_eq(system(command), 0);
}

/* ---- sessions ---- */

struct session {
	const char *name;
	unsigned steps;
	const char *before;		   // folder of the store that is there; NULL: none
	const struct store_fixture *begin; // what is known of that; NULL: nothing
	struct store_fixture known;	   // of all that the session does
};

/* What a child leaves when it ends. */
struct shared {
	struct store_fixture fixture; // whose ledger.stable is what it reported
	unsigned long calls;
};

static void
fixture_begin(struct store_fixture *f, struct disk *disk, const struct store_fixture *begin)
{
	store_fixture_init(f, 7);
	f->disk = disk;
	f->cold = true;
	f->options.file_size = 16 * 1024;
	f->options.buffer_size = 32 * 1024;
	f->options.checkpoint_size = 64 * 1024;
	if (begin == NULL)
		return;
	f->random = begin->random;
	f->next_number = begin->next_number;
	f->now = begin->now;
	ledger_fini(&f->ledger);
	ledger_copy(&f->ledger, &begin->ledger);
}

/* Asks for all that a store can do, in an order that the seed gives: the same each time. */
static void
work(struct store_fixture *f, unsigned steps)
{
	expect(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
	for (unsigned i = 0; i < steps; i++) {
		store_fixture_step(f);
		if (i % 8 == 0)
			f->now.monotonic_ms += 1000;
	}
}

static void
stop(struct store_fixture *f)
{
	for (uint32_t i = 0; i < f->ledger.queue_count; i++)
		if (f->ledger.queues[i].log != NULL)
			store_fixture_read_out(f, i, 50, 50000);
	store_fixture_flush(f);
	must(store_fixture_close(f, true) == 0);
}

/* Makes a folder for a store, with what the session begins with. */
static struct disk *
begin_folder(const struct session *s, char folder[FOLDER_SIZE])
{
	struct disk *disk;

	folder_make(folder);
	if (s->before != NULL)
		run_command("cp -a '%s'/. '%s'", s->before, folder);
	ck_assert_int_eq(disk_new(&disk, folder), 0);
	return disk;
}

static void
end_folder(struct disk **disk, const char *folder)
{
	disk_free(disk);
	run_command("rm -r '%s'%s", folder, "");
}

/* Does all of it here, so that it is known. */
static void
learn(struct session *s)
{
	char folder[FOLDER_SIZE];
	struct disk *disk = begin_folder(s, folder);

	fixture_begin(&s->known, disk, s->begin);
	work(&s->known, s->steps);
	ck_assert_uint_gt(s->known.store->merged_octets, 0);
	ck_assert_uint_gt(s->known.store->checkpoints.count, 1);
	ck_assert_uint_gt(s->known.read_ends, 0);
	stop(&s->known);
	end_folder(&disk, folder);
}

/* ---- children ---- */

static void
child(const struct session *s, struct disk *disk, struct shared *shared, int output)
{
	const struct rlimit no_core = {0, 0};

	(void)setrlimit(RLIMIT_CORE, &no_core);
	if (dup2(output, STDERR_FILENO) < 0)
		_exit(3);
	fixture_begin(&shared->fixture, disk, s->begin);
	log_set_level(LOG_ERROR);
	counting = true;
	work(&shared->fixture, s->steps);
	stop(&shared->fixture);
	counting = false;
	shared->calls = calls;
	_exit(0);
}

static bool
said(int output, const char *what)
{
	static char text[4096];
	ssize_t n = pread(output, text, sizeof(text) - 1, 0);

	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	return strstr(text, what) != NULL;
}

/* Runs a child that gets no memory from this allocation on; whether it ended by that. */
static bool
run_child(const struct session *s, struct disk *disk, struct shared *shared, unsigned long from)
{
	int output = memfd_create("stderr", 0);
	int status;
	pid_t pid;

	ck_assert_int_ge(output, 0);
	*shared = (struct shared){.calls = 0};
	fail_from = from;
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		child(s, disk, shared, output);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status)) {
		ck_assert_msg(WEXITSTATUS(status) == 0, "%s, allocation %lu: status %d", s->name,
			      from, WEXITSTATUS(status));
	} else {
		ck_assert_msg(WTERMSIG(status) == SIGABRT, "%s, allocation %lu: signal %d", s->name,
			      from, WTERMSIG(status));
		ck_assert_msg(said(output, LINE), "%s, allocation %lu: nothing says why", s->name,
			      from);
	}
	close(output);
	return !WIFEXITED(status);
}

/* Opens what the child has left: what it reported is there, all of it or nothing of what it did not. */
static void
check_left(const struct session *s, struct disk *disk, const struct shared *shared,
	   unsigned long from)
{
	struct store_fixture f;

	fixture_begin(&f, disk, &s->known);
	f.ledger.stable = shared->fixture.ledger.stable;
	/* it may have been in the middle of its stop */
	f.ledger.stop = LEDGER_EITHER;
	f.ledger.may_flag = true;
	ck_assert_msg(store_fixture_open(&f) == 0, "%s, allocation %lu: %s", s->name, from,
		      buf_cstr(&f.error));
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	store_fixture_fini(&f);
}

/* One allocation; whether the session was over before it. */
static bool
try_allocation(const struct session *s, struct shared *shared, unsigned long from)
{
	char folder[FOLDER_SIZE];
	struct disk *disk = begin_folder(s, folder);
	bool over = !run_child(s, disk, shared, from);

	/* the child's lock went with it */
	check_left(s, disk, shared, from);
	end_folder(&disk, folder);
	return over;
}

static void
try_session(struct session *s)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t began;
	unsigned long all;
	unsigned long stride = 1;
	unsigned long tried = 0;

	ck_assert_ptr_ne(shared, MAP_FAILED);
	learn(s);
	ck_assert(try_allocation(s, shared, 0));
	all = shared->calls;
	began = clock_read().monotonic_ms;
	for (unsigned long from = 1; from <= all; from += stride, tried++) {
		uint64_t took = clock_read().monotonic_ms - began;

		ck_assert_msg(!try_allocation(s, shared, from), "%s ends before allocation %lu",
			      s->name, from);
		if (getenv("STORE_MEMORY_ALL") == NULL && took > 0)
			stride = 1 + (all - from) * took / ((tried + 1) * 1000 * SECONDS);
	}
	printf("%s: memory ran out at %lu of %lu allocations, 0 lost\n", s->name, tried, all);
	(void)munmap(shared, sizeof(*shared));
	store_fixture_fini(&s->known);
}

/* ---- the tests ---- */

START_TEST(test_memory_runs_out_in_a_new_store)
{
	struct session s = {.name = "a new store", .steps = 260};

	try_session(&s);
}
END_TEST

START_TEST(test_memory_runs_out_in_a_store_that_was_killed)
{
	struct session s = {.name = "a store that was killed", .steps = 120};
	struct store_fixture begin;
	char before[FOLDER_SIZE];
	char folder[FOLDER_SIZE];
	struct disk *disk = begin_folder(&s, folder);

	fixture_begin(&begin, disk, NULL);
	work(&begin, 200);
	/* what is there now is what a kill leaves */
	folder_make(before);
	run_command("cp -a '%s'/. '%s'", folder, before);
	s.before = before;
	s.begin = &begin;
	try_session(&s);
	run_command("rm -r '%s'%s", before, "");
	store_fixture_fini(&begin);
	end_folder(&disk, folder);
}
END_TEST

TESTS("store_memory", test_memory_runs_out_in_a_new_store,
      test_memory_runs_out_in_a_store_that_was_killed)
