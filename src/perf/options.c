/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: getopt's table is made from options.def, then what was not given is derived, then
 * what does not go together is refused. Main thread, once.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include "complain.h"

#define GO_ON (-1)
#define UNSET UINT64_MAX
#define LATENCY_RATE 10000 // of the latency command when no rate is given
#define COUNT_MAX 1000000000000ULL

enum option_kind {
	OPTION_TEXT,
	OPTION_NUMBER,
	OPTION_SECONDS,
	OPTION_RANGE,
	OPTION_FLAG
};

struct option_row {
	enum option_kind kind; // what it takes
	const char *name;      // without the dashes
	const char *argument;  // as help names it; empty: none
	const char *help;      // a line
	const char *standard;  // the default as it is written in the table
	size_t offset;	       // of its field in struct options
};

static const struct option_row rows[] = {
#define OPTION(kind, field, name, argument, standard, help) \
	{OPTION_##kind, name, argument, help, #standard, offsetof(struct options, field)},
#include "options.def"
};

enum {
	FLAG_HELP = 1000, // what getopt returns for --help; below it: the index of a row
	FLAG_VERSION
};

static void
help_print(void)
{
	printf("usage: pannier-perf throughput|latency [OPTION]...\n\n"
	       "Loads an AMQP 0-9-1 broker and measures it. throughput is as fast as it goes; "
	       "latency has\n"
	       "a fixed rate (--rate, %d) and measures each message from the time at which it was "
	       "to be\n"
	       "sent. Ends with status 1 when messages were lost.\n\n",
	       LATENCY_RATE);
	for (size_t i = 0; i < countof(rows); i++) {
		const struct option_row *row = &rows[i];
		char left[48];
		bool standard = row->kind == OPTION_NUMBER && strcmp(row->standard, "UNSET") != 0;

		standard = standard || row->kind == OPTION_SECONDS;
		snprintf(left, sizeof(left), "--%s %s", row->name, row->argument);
		printf("  %-22s %s", left, row->help);
		if (standard || (row->kind == OPTION_TEXT && strcmp(row->standard, "\"\"") != 0))
			printf(" (%s)", row->standard);
		printf("\n");
	}
	printf("  %-22s print this\n  %-22s print the version\n", "--help", "--version");
}

static bool
number_parse(uint64_t *value, const char *text)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 &&
	       *value <= COUNT_MAX;
}

static bool
seconds_parse(double *value, const char *text)
{
	char *end;

	*value = strtod(text, &end);
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *value <= 1e6;
}

static bool
range_parse(struct range *range, const char *text)
{
	char *end;

	errno = 0;
	range->from = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '-' || errno != 0)
		return false;
	return number_parse(&range->to, end + 1) && range->from <= range->to && range->to > 0 &&
	       range->to <= WAIT_MAX;
}

static bool
option_set(struct options *options, const struct option_row *row, const char *text)
{
	void *field = (char *)options + row->offset;

	switch (row->kind) {
	case OPTION_TEXT:
		*(const char **)field = text;
		return true;
	case OPTION_NUMBER:
		return number_parse(field, text);
	case OPTION_SECONDS:
		return seconds_parse(field, text);
	case OPTION_RANGE:
		return range_parse(field, text);
	case OPTION_FLAG:
		*(bool *)field = true;
		return true;
	}
	return false;
}

/* ---- what follows, what cannot be ---------------------------------------------------------------- */

const char *
exchange_type_name(enum exchange_type type)
{
	static const char *const names[] = {"",	     "direct",	"fanout",
					    "topic", "headers", "x-delayed-message"};

	return names[type];
}

static bool
type_parse(struct options *options)
{
	for (int type = EXCHANGE_DEFAULT; type <= EXCHANGE_HEADERS; type++) {
		if (strcmp(options->type, exchange_type_name(type)) == 0) {
			options->exchange_type = type;
			return true;
		}
	}
	return false;
}

static void
derive(struct options *options)
{
	bool only_idle = options->connections_idle != 0 && options->producers == UNSET &&
			 options->consumers == UNSET;

	if (options->producers == UNSET)
		options->producers = only_idle ? 0 : 1;
	if (options->publish_only)
		options->consumers = 0;
	if (options->consumers == UNSET)
		options->consumers = only_idle ? 0 : options->queues;
	if (options->bindings == UNSET)
		options->bindings = options->queues;
	if (options->expire.to != 0)
		options->dead_letters = true;
	if (options->delay.to != 0 && options->exchange_type == EXCHANGE_DEFAULT)
		options->exchange_type = EXCHANGE_DELAYED;
	if (options->exchange_type == EXCHANGE_DEFAULT && options->exchange[0] != '\0')
		options->exchange_type = EXCHANGE_DIRECT;
	if (options->exchange_type != EXCHANGE_DEFAULT && options->exchange[0] == '\0')
		options->exchange = "pannier-perf";
	if (options->latency && options->rate == 0)
		options->rate = LATENCY_RATE;
}

/* The first thing that is wrong, NULL when nothing is. */
static const char *
refuse_numbers(const struct options *options)
{
	if (options->queues == 0 || options->queues > 100000)
		return "--queues must be 1 to 100000";
	if (options->producers > 10000 || options->consumers > 100000)
		return "at most 10000 producers and 100000 consumers";
	if (options->consumers != 0 && options->consumers < options->queues)
		return "every queue needs a consumer: --consumers must be 0 or at least --queues";
	if (options->bindings < options->queues || options->bindings > 1000000)
		return "--bindings must be at least --queues, and at most 1000000";
	if (options->body > 128 * 1024 * 1024)
		return "--body must be at most 134217728";
	if (options->prefetch > UINT16_MAX)
		return "--prefetch must be at most 65535";
	if (options->ack_every == 0)
		return "--ack-every must be at least 1";
	if (options->confirm > 1000000)
		return "--confirm must be at most 1000000";
	if (options->priorities > 255)
		return "--priorities must be at most 255";
	if (options->connections_idle > 1000000)
		return "--connections-idle must be at most 1000000";
	return NULL;
}

static const char *
refuse_pairs(const struct options *options)
{
	if (!options->auto_ack && options->prefetch != 0 && options->ack_every > options->prefetch)
		return "--ack-every above --prefetch would wait for ever";
	if (options->reject && options->auto_ack)
		return "--reject and --auto-ack exclude each other";
	if (options->max_length != UNSET && options->consumers != 0)
		return "--max-length needs --publish-only: nobody knows what consumers would miss";
	if (options->drain && (options->count == 0 || options->consumers == 0))
		return "--drain needs --count and consumers";
	if (options->key[0] != '\0' && options->exchange_type == EXCHANGE_DEFAULT)
		return "--key needs --exchange or --type";
	if (options->producers == 0 && options->consumers != 0)
		return "nobody would publish: --producers is 0";
	if (options->latency && options->body < 16)
		return "latency needs a --body of at least 16";
	if (options->connections_idle != 0 && options->broker_pid == 0)
		return "--connections-idle needs --broker-pid";
	if (options->count == 0 && options->time <= 0)
		return "--time must be above 0";
	if (strcmp(options->wildcard, "hash") != 0 && strcmp(options->wildcard, "star") != 0)
		return "--wildcard must be hash or star";
	if (strlen(options->queue) > 200 || strlen(options->exchange) > 200 ||
	    strlen(options->key) > 200)
		return "names must be at most 200 octets";
	return NULL;
}

/* Of messages that wait. */
static const char *
refuse_waits(const struct options *options)
{
	if (options_wait(options)->to == 0)
		return NULL;
	if (options->expire.to != 0 && options->delay.to != 0)
		return "--expire and --delay exclude each other";
	if (options->delay.to != 0 && options->exchange_type != EXCHANGE_DELAYED)
		return "--delay needs an exchange of its own: it excludes --type";
	if (options->body < 16)
		return "--expire and --delay need a --body of at least 16";
	if (options->drain || options->max_length != UNSET || options->consumers == 0)
		return "--expire and --delay need consumers, and exclude --drain and --max-length";
	return NULL;
}

static int
finish(struct options *options)
{
	const char *refused;

	if (!uri_parse(&options->broker, options->uri))
		return complain("--uri '%s' is not amqp://user:password@host:port/vhost",
				options->uri);
	if (!type_parse(options))
		return complain("--type '%s' is none of direct, fanout, topic, headers",
				options->type);
	derive(options);
	refused = refuse_numbers(options);
	if (refused == NULL)
		refused = refuse_pairs(options);
	if (refused == NULL)
		refused = refuse_waits(options);
	return refused == NULL ? GO_ON : complain("%s", refused);
}

/* ---- argv ----------------------------------------------------------------------------------------- */

static struct options
options_default(void)
{
	return (struct options){
#define OPTION(kind, field, name, argument, standard, help) .field = standard,
#include "options.def"
	};
}

static void
table_fill(struct option *table)
{
	for (size_t i = 0; i < countof(rows); i++)
		table[i] = (struct option){
			rows[i].name, rows[i].kind == OPTION_FLAG ? no_argument : required_argument,
			NULL, (int)i};
	table[countof(rows)] = (struct option){"help", no_argument, NULL, FLAG_HELP};
	table[countof(rows) + 1] = (struct option){"version", no_argument, NULL, FLAG_VERSION};
}

static int
take_options(struct options *options, int argc, char **argv)
{
	struct option table[countof(rows) + 3] = {{0}};
	int option;

	table_fill(table);
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", table, NULL)) != -1) {
		if (option == FLAG_HELP) {
			help_print();
			return EXIT_SUCCESS;
		}
		if (option == FLAG_VERSION) {
			printf("pannier-perf %s\n", PACKAGE_VERSION);
			return EXIT_SUCCESS;
		}
		if (option == ':')
			return complain("option '%s' needs an argument", argv[optind - 1]);
		if (option == '?')
			return complain("option '%s' is unknown or incomplete; --help lists them",
					argv[optind - 1]);
		if (!option_set(options, &rows[option], optarg))
			return complain("--%s: '%s' is not a %s that it takes", rows[option].name,
					optarg,
					rows[option].kind == OPTION_RANGE ? "range" : "number");
	}
	return GO_ON;
}

int
options_parse(struct options *options, int argc, char **argv)
{
	int status;

	*options = options_default();
	status = take_options(options, argc, argv);
	if (status != GO_ON)
		return status;
	if (optind + 1 != argc)
		return complain("one command is needed, throughput or latency; --help says more");
	options->latency = strcmp(argv[optind], "latency") == 0;
	if (!options->latency && strcmp(argv[optind], "throughput") != 0)
		return complain("command '%s' is none of throughput, latency", argv[optind]);
	return finish(options);
}
