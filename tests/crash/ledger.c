/* SPDX-License-Identifier: Apache-2.0 */
/* The program of the crash campaigns: its options, what all roles share. See ledger.h. */
#include "crash/ledger.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct options options = {
	.dir = ".",
	.port = 5672,
	.window = 500,
	.size = 200,
	.large = 150000,
	.seed = 1,
};

static volatile sig_atomic_t sigterm_came;
static uint64_t random_state;

/* ---- the role ---- */

static void
on_sigterm(int number)
{
	(void)number;
	sigterm_came = 1;
}

bool
stopping(void)
{
	return sigterm_came != 0;
}

void
fault(const char *format, ...)
{
	va_list arguments;

	printf("FAULT: ");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(NULL);
	_exit(EXIT_FAILURE);
}

uint64_t
random_next(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

unsigned
random_below(unsigned n)
{
	return (unsigned)(random_next() % n);
}

uint64_t
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void
sleep_us(unsigned us)
{
	const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};

	nanosleep(&time, NULL);
}

/* ---- the file ---- */

FILE *
ledger_open(const char *name, unsigned n, const char *mode)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s-%u", options.dir, name, n);
	FILE *ledger = fopen(path, mode);
	if (!ledger && mode[0] == 'w')
		fault("%s: %s", path, strerror(errno));
	return ledger;
}

void
ledger_write(FILE *ledger, struct entry entry)
{
	if (fwrite(&entry, sizeof entry, 1, ledger) != 1)
		fault("the ledger cannot be written: %s", strerror(errno));
}

void
ledger_close(FILE *ledger)
{
	if (fclose(ledger))
		fault("the ledger cannot be written: %s", strerror(errno));
}

/* ---- messages ---- */

#define BODY_MAGIC 0x70616e6e
#define BODY_MAX (4 * 1024 * 1024)

struct body_head {
	uint32_t magic;	 // BODY_MAGIC
	uint32_t size;	 // of the whole body
	uint64_t number; // of the message
	uint16_t publisher;
	uint16_t zeros[3];
};

/* What stands at octet at, a multiple of 8. */
static uint64_t
filling(const struct body_head *head, size_t at)
{
	return (head->number * 31 + head->publisher + at) * 0x9e3779b97f4a7c15;
}

amqp_bytes_t
body_make(uint16_t publisher, uint64_t number, size_t size)
{
	static uint8_t octets[BODY_MAX];
	struct body_head head = {.magic = BODY_MAGIC, .number = number, .publisher = publisher};

	if (size < sizeof head)
		size = sizeof head;
	if (size > sizeof octets - 8)
		size = sizeof octets - 8;
	head.size = (uint32_t)size;
	memcpy(octets, &head, sizeof head);
	for (size_t at = sizeof head; at < size; at += 8) {
		uint64_t word = filling(&head, at);
		memcpy(octets + at, &word, sizeof word);
	}
	return (amqp_bytes_t){.len = size, .bytes = octets};
}

bool
body_read(amqp_bytes_t body, uint16_t *publisher, uint64_t *number)
{
	const uint8_t *octets = body.bytes;
	struct body_head head;

	if (body.len < sizeof head)
		return false;
	memcpy(&head, octets, sizeof head);
	if (head.magic != BODY_MAGIC || head.size != body.len || head.zeros[0] || head.zeros[1] ||
	    head.zeros[2])
		return false;
	for (size_t at = sizeof head; at < body.len; at += 8) {
		uint64_t word = filling(&head, at);
		size_t left = body.len - at;
		if (memcmp(octets + at, &word, left < sizeof word ? left : sizeof word) != 0)
			return false;
	}
	*publisher = head.publisher;
	*number = head.number;
	return true;
}

void
queue_name(char name[32], unsigned queue)
{
	snprintf(name, 32, "crash.queue.%u", queue);
}

/* ---- the command line ---- */

static const struct role {
	const char *name;
	int (*run)(void);
	const char *help;
} roles[] = {
	{"declare", declare_run, "makes the exchange, its queues and bindings"},
	{"empty", empty_run, "fails unless the queues are empty"},
	{"publisher", publisher_run, "publishes with confirms"},
	{"consumer", consumer_run, "consumes queue --id; after SIGTERM until it is empty"},
	{"transactor", transactor_run, "--count times kills the broker behind a tx.commit"},
	{"definer", definer_run, "declares, binds and deletes; looks what is there after a kill"},
	{"declare-deaths", declare_deaths_run, "the same, with dead letters"},
	{"check-deaths", check_deaths_run, "compares the ledgers of a part with dead letters"},
	{"check", check_run, "compares the ledgers in --dir"},
	{"dump", dump_run, "prints the ledgers in --dir"},
};

static const struct option long_options[] = {
	{"dir", required_argument, NULL, 'd'},	       {"port", required_argument, NULL, 'p'},
	{"id", required_argument, NULL, 'i'},	       {"window", required_argument, NULL, 'w'},
	{"rate", required_argument, NULL, 'r'},	       {"size", required_argument, NULL, 's'},
	{"large", required_argument, NULL, 'l'},       {"count", required_argument, NULL, 'c'},
	{"seed", required_argument, NULL, 'S'},	       {"pid-file", required_argument, NULL, 'P'},
	{"life", required_argument, NULL, 'L'},	       {"ttl", required_argument, NULL, 't'},
	{"deduplicate", required_argument, NULL, 'D'}, {"delay", required_argument, NULL, 'T'},
	{"levels", required_argument, NULL, 'y'},      {NULL, 0, NULL, 0},
};

static void
usage(void)
{
	fprintf(stderr, "usage: ledger ROLE [--dir DIR] [--port PORT] [--id N] [--window N] "
			"[--rate N] [--size N] [--large N] [--count N] [--seed N] "
			"[--pid-file FILE] [--life FILE] [--ttl MS] "
			"[--deduplicate exchange|cache|queued] [--delay MS] [--levels N]\n");
	for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
		fprintf(stderr, "  %-14s  %s\n", roles[i].name, roles[i].help);
	exit(2);
}

static void
take_option(int option)
{
	unsigned long number = strtoul(optarg, NULL, 10);

	switch (option) {
	case 'd':
		options.dir = optarg;
		break;
	case 'p':
		options.port = (int)number;
		break;
	case 'i':
		options.id = (unsigned)number;
		break;
	case 'w':
		options.window = (unsigned)number;
		break;
	case 'r':
		options.rate = (unsigned)number;
		break;
	case 's':
		options.size = (unsigned)number;
		break;
	case 'l':
		options.large = (unsigned)number;
		break;
	case 'c':
		options.count = (unsigned)number;
		break;
	case 'S':
		options.seed = number;
		break;
	case 'P':
		options.pid_file = optarg;
		break;
	case 'L':
		options.life = optarg;
		break;
	case 't':
		options.ttl = (unsigned)number;
		break;
	case 'D':
		options.deduplicate = optarg;
		break;
	case 'T':
		options.delay = (unsigned)number;
		break;
	case 'y':
		options.levels = (unsigned)number;
		break;
	default:
		usage();
	}
}

int
main(int argc, char **argv)
{
	const struct sigaction term = {.sa_handler = on_sigterm};
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		take_option(option);
	if (optind + 1 != argc || options.window == 0 || options.size == 0 ||
	    options.levels > LEVELS_MAX)
		usage();
	/* A role does not outlive the campaign. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGTERM, &term, NULL);
	signal(SIGPIPE, SIG_IGN);
	random_state = options.seed;
	for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
		if (strcmp(argv[optind], roles[i].name) == 0)
			return roles[i].run();
	usage();
}
