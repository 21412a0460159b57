/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of a fuzz target where there is no libFuzzer. It runs each file that is named and each file
 * of each folder that is named, then a number of random mutations of them, and says how many inputs
 * there were. Two options are libFuzzer's, so that one command line serves both:
 *
 *	-runs=N   N mutations; none without it
 *	-seed=N   where the random numbers begin; drawn and printed without it
 *
 * With the same seed and the same files the same mutations are run. An empty corpus is an error: it
 * would test nothing. An input that ends the process (a signal, a failed claim, a sanitizer) is
 * written to crash-SEED in the current folder first.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define INPUT_MAX (1u << 20)   // octets of a file at most
#define MUTANT_MAX (64u << 10) // octets of a mutation at most
#define SEEDS_MAX 4096	       // files at most

struct input {
	uint8_t *data; // owns
	size_t size;
};

static struct input seeds[SEEDS_MAX]; // the files, in the order of their names
static size_t seed_count;

/* The input being run, for the handler of signals. */
static struct {
	const uint8_t *data; // borrows while it runs
	size_t size;
	char file[64]; // where it goes when it ends the process
} running;

static uint64_t random_state;

/* ---- running one input ---------------------------------------------------------------------- */

static void
keep_crasher(void)
{
	int fd = open(running.file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	ssize_t written = fd >= 0 ? write(fd, running.data, running.size) : -1;
	const char *verdict = written == (ssize_t)running.size
				      ? "\nthe input is in "
				      : "\nthe input could not be kept in ";

	(void)!write(STDERR_FILENO, verdict, strlen(verdict));
	(void)!write(STDERR_FILENO, running.file, strlen(running.file));
	(void)!write(STDERR_FILENO, "\n", 1);
}

static void
on_signal(int signal_number)
{
	keep_crasher();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

/* The sanitizers call it before they end the process, when they are linked. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void
catch_crashes(void)
{
	static const int signals[] = {SIGABRT, SIGALRM};

	if (__sanitizer_set_death_callback != NULL)
		__sanitizer_set_death_callback(keep_crasher);
	else
		signal(SIGSEGV, on_signal);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], on_signal);
}

/* Runs a copy that is exactly as large as the input, so that a sanitizer sees the first octet read
 * beyond it. An input that takes 30 s counts as a crash. */
static void
run_input(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size != 0 ? size : 1);

	if (copy == NULL)
		abort();
	if (size != 0)
		memcpy(copy, data, size);
	running.data = copy;
	running.size = size;
	alarm(30);
	LLVMFuzzerTestOneInput(copy, size);
	alarm(0);
	free(copy);
}

/* ---- the corpus ----------------------------------------------------------------------------- */

/* Adds the file's octets to the seeds. 0 or -1. */
static int
load_file(const char *path)
{
	static uint8_t whole[INPUT_MAX];
	FILE *file = fopen(path, "rb");
	struct input *seed = &seeds[seed_count];

	if (file == NULL) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	seed->size = fread(whole, 1, sizeof(whole), file);
	fclose(file);
	seed->data = malloc(seed->size != 0 ? seed->size : 1);
	if (seed->data == NULL || ++seed_count == SEEDS_MAX)
		abort();
	memcpy(seed->data, whole, seed->size);
	return 0;
}

static int
load(const char *path)
{
	struct dirent **entries;
	struct stat status;
	int result = 0;
	int n;

	if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
		return load_file(path);
	n = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		char name[4096];

		snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
		if (result == 0 && stat(name, &status) == 0 && S_ISREG(status.st_mode))
			result = load_file(name);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return result;
}

/* ---- mutations ------------------------------------------------------------------------------ */

static uint64_t
next_random(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static size_t
below(size_t limit)
{
	return limit != 0 ? (size_t)(next_random() % limit) : 0;
}

/* Opens a gap of n octets at a random place; returns where, SIZE_MAX when it would be too large. */
static size_t
open_gap(struct input *mutant, size_t n)
{
	size_t at = below(mutant->size + 1);

	if (mutant->size + n > MUTANT_MAX)
		return SIZE_MAX;
	memmove(mutant->data + at + n, mutant->data + at, mutant->size - at);
	mutant->size += n;
	return at;
}

static void
remove_some(struct input *mutant)
{
	size_t at = below(mutant->size);
	size_t n = 1 + below(mutant->size - at < 32 ? mutant->size - at : 32);

	if (n > mutant->size - at)
		return;
	memmove(mutant->data + at, mutant->data + at + n, mutant->size - at - n);
	mutant->size -= n;
}

/* Puts a piece of some seed in between. */
static void
insert_piece(struct input *mutant)
{
	const struct input *other = &seeds[below(seed_count)];
	size_t from = below(other->size);
	size_t left = other->size - from;
	size_t n = below((left < 64 ? left : 64) + 1);
	size_t at = open_gap(mutant, n);

	if (at != SIZE_MAX && n != 0)
		memcpy(mutant->data + at, other->data + from, n);
}

/* Overwrites a number of 1, 2, 4 or 8 octets by one that is of interest as a length. */
static void
set_number(struct input *mutant)
{
	static const uint64_t numbers[] = {0,	   1,	       2,	   0x7f,
					   0x80,   0xff,       0x100,	   0x7fff,
					   0xffff, 0x7fffffff, 0x80000000, UINT64_MAX};
	uint64_t number = numbers[below(sizeof(numbers) / sizeof(numbers[0]))];
	size_t n = (size_t)1 << below(4);
	size_t at = below(mutant->size);

	if (below(4) == 0)
		number = below(mutant->size + 2);
	for (size_t i = n; i-- > 0; number >>= 8)
		if (at + i < mutant->size)
			mutant->data[at + i] = (uint8_t)number;
}

static void
mutate(struct input *mutant)
{
	size_t at = below(mutant->size);

	switch (below(7)) {
	case 0:
		if (mutant->size != 0)
			mutant->data[at] ^= (uint8_t)(1u << below(8));
		break;
	case 1:
		if (mutant->size != 0)
			mutant->data[at] = (uint8_t)next_random();
		break;
	case 2:
		at = open_gap(mutant, 1);
		if (at != SIZE_MAX)
			mutant->data[at] = (uint8_t)next_random();
		break;
	case 3:
		remove_some(mutant);
		break;
	case 4:
		insert_piece(mutant);
		break;
	case 5:
		set_number(mutant);
		break;
	default:
		mutant->size = below(8) == 0 ? at : mutant->size;
	}
}

static void
run_mutations(uint64_t runs)
{
	static uint8_t area[MUTANT_MAX];
	struct input mutant = {.data = area};

	for (uint64_t i = 0; i < runs; i++) {
		const struct input *seed = &seeds[below(seed_count)];

		mutant.size = seed->size < MUTANT_MAX ? seed->size : MUTANT_MAX;
		memcpy(area, seed->data, mutant.size);
		for (size_t n = 1 + below(6); n > 0; n--)
			mutate(&mutant);
		run_input(mutant.data, mutant.size);
	}
}

/* ---- main ----------------------------------------------------------------------------------- */

/* The number behind "-name=", true when that is what argument is. */
static bool
option(const char *argument, const char *name, uint64_t *value)
{
	size_t n = strlen(name);

	if (strncmp(argument, name, n) != 0)
		return false;
	*value = strtoull(argument + n, NULL, 10);
	return true;
}

int
main(int argc, char **argv)
{
	uint64_t runs = 0;
	uint64_t seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 20;

	for (int i = 1; i < argc; i++) {
		if (option(argv[i], "-runs=", &runs) || option(argv[i], "-seed=", &seed))
			continue;
		if (argv[i][0] != '-' && load(argv[i]) != 0)
			return EXIT_FAILURE;
	}
	if (seed_count == 0) {
		fprintf(stderr, "%s: no inputs\n", argv[0]);
		return EXIT_FAILURE;
	}
	random_state = seed;
	snprintf(running.file, sizeof(running.file), "crash-%" PRIu64, seed);
	catch_crashes();
	if (runs != 0)
		printf("%s: seed %" PRIu64 "\n", argv[0], seed);
	fflush(stdout);
	for (size_t i = 0; i < seed_count; i++)
		run_input(seeds[i].data, seeds[i].size);
	run_mutations(runs);
	printf("%s: %zu files, %" PRIu64 " mutations\n", argv[0], seed_count, runs);
	for (size_t i = 0; i < seed_count; i++)
		free(seeds[i].data);
	return EXIT_SUCCESS;
}
