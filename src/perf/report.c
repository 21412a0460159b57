/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is printed about a run. CPU time of the broker is for each message delivered, or published where
 * there are no consumers; our own for each message sent and each received.
 */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include "options.h"

struct figures {
	double seconds;	   // measured
	double sent;	   // a second
	double received;   // a second
	double confirmed;  // a second
	double own_cpu;	   // us for a message sent or received
	double broker_cpu; // us for a message delivered (published without consumers)
};

static const struct {
	const char *name; // as printed
	const char *json; // as a member
	double part;	  // of all values
} quantiles[] = {
	{"p50", "p50", 0.5},	   {"p90", "p90", 0.9}, {"p99", "p99", 0.99},
	{"p99.9", "p99_9", 0.999}, {"max", "max", 1.0},
};

static double
ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static struct figures
figures_of(const struct result *result)
{
	const struct snapshot *begin = &result->begin, *end = &result->end;
	double seconds = (double)(end->at_us - begin->at_us) / 1e6;
	double sent = (double)(end->sent - begin->sent);
	double received = (double)(end->received - begin->received);

	return (struct figures){
		.seconds = seconds,
		.sent = ratio(sent, seconds),
		.received = ratio(received, seconds),
		.confirmed = ratio((double)(end->confirmed - begin->confirmed), seconds),
		.own_cpu = ratio((double)(end->own_cpu_us - begin->own_cpu_us), sent + received),
		.broker_cpu = ratio((double)(end->broker.cpu_us - begin->broker.cpu_us),
				    received > 0 ? received : sent),
	};
}

void
report_second(const struct snapshot *last, const struct snapshot *now, double since_start)
{
	double seconds = (double)(now->at_us - last->at_us) / 1e6;

	(void)fprintf(stderr, "%6.1f s  sent %10.0f/s  received %10.0f/s  confirmed %10.0f/s\n",
		      since_start, ratio((double)(now->sent - last->sent), seconds),
		      ratio((double)(now->received - last->received), seconds),
		      ratio((double)(now->confirmed - last->confirmed), seconds));
}

/* ---- the table ------------------------------------------------------------------------------------ */

static void
table_latency(const char *name, const struct histogram *histogram)
{
	if (histogram->count == 0)
		return;
	printf("%-24s", name);
	for (size_t i = 0; i < countof(quantiles); i++)
		printf("  %s %" PRIu64, quantiles[i].name,
		       histogram_quantile(histogram, quantiles[i].part));
	printf("  (%" PRIu64 " messages)\n", histogram->count);
}

static void
table_print(const struct options *options, const struct result *result)
{
	const struct totals *totals = &result->totals;
	struct figures figures = figures_of(result);

	if (options->connections_idle != 0)
		printf("%-24s  %.0f bytes resident each\n", "idle connections", result->idle_bytes);
	if (!result->loaded)
		return;
	printf("%-24s  %.3f s\n", "measured", figures.seconds);
	printf("%-24s  %.0f/s\n", "sent", figures.sent);
	printf("%-24s  %.0f/s\n", "received", figures.received);
	if (options->confirm != 0)
		printf("%-24s  %.0f/s\n", "confirmed", figures.confirmed);
	if (options_wait(options)->to == 0) {
		table_latency("delivery latency, us", &totals->latency);
	} else {
		table_latency("too late, us", &totals->latency);
		printf("%-24s  %" PRIu64 " at most\n", "too soon, us", totals->early_us);
	}
	table_latency("confirm latency, us", &totals->confirms);
	printf("%-24s  %.3f us a message sent or received\n", "own CPU", figures.own_cpu);
	if (options->broker_pid != 0) {
		printf("%-24s  %.3f us a message %s\n", "broker CPU", figures.broker_cpu,
		       options->consumers != 0 ? "delivered" : "published");
		printf("%-24s  %.1f MiB, %.1f MiB before\n", "broker resident",
		       (double)result->end.broker.rss_bytes / 1048576,
		       (double)result->begin.broker.rss_bytes / 1048576);
	}
	printf("%-24s  %" PRIu64 " sent, %" PRIu64 " received, %" PRIu64 " missing, %" PRIu64
	       " out of order, %" PRIu64 " refused\n",
	       "the whole run", totals->sent, totals->received, result->missing, totals->misordered,
	       totals->refused);
}

/* ---- JSON ----------------------------------------------------------------------------------------- */

static void
json_latency(const char *name, const struct histogram *histogram)
{
	printf(",\n  \"%s\": {\"count\": %" PRIu64, name, histogram->count);
	for (size_t i = 0; i < countof(quantiles); i++)
		printf(", \"%s\": %" PRIu64, quantiles[i].json,
		       histogram_quantile(histogram, quantiles[i].part));
	printf("}");
}

static void
json_load(const struct options *options, const struct result *result)
{
	const struct totals *totals = &result->totals;
	struct figures figures = figures_of(result);

	printf(",\n  \"seconds\": %.6f", figures.seconds);
	printf(",\n  \"sent_per_second\": %.1f", figures.sent);
	printf(",\n  \"received_per_second\": %.1f", figures.received);
	printf(",\n  \"confirmed_per_second\": %.1f", figures.confirmed);
	json_latency("latency_us", &totals->latency);
	if (options_wait(options)->to != 0)
		printf(",\n  \"early_us\": %" PRIu64, totals->early_us);
	json_latency("confirm_us", &totals->confirms);
	printf(",\n  \"own_cpu_us_per_message\": %.4f", figures.own_cpu);
	if (options->broker_pid != 0) {
		printf(",\n  \"broker_cpu_us_per_message\": %.4f", figures.broker_cpu);
		printf(",\n  \"broker_rss_bytes\": %" PRIu64, result->end.broker.rss_bytes);
		printf(",\n  \"broker_rss_before_bytes\": %" PRIu64,
		       result->begin.broker.rss_bytes);
	}
	printf(",\n  \"sent\": %" PRIu64 ",\n  \"received\": %" PRIu64, totals->sent,
	       totals->received);
	printf(",\n  \"missing\": %" PRIu64 ",\n  \"out_of_order\": %" PRIu64
	       ",\n  \"refused\": %" PRIu64,
	       result->missing, totals->misordered, totals->refused);
}

static void
json_print(const struct options *options, const struct result *result)
{
	printf("{\n  \"command\": \"%s\"", options->latency ? "latency" : "throughput");
	if (options->connections_idle != 0)
		printf(",\n  \"idle_connection_bytes\": %.1f", result->idle_bytes);
	if (result->loaded)
		json_load(options, result);
	printf("\n}\n");
}

void
report_result(const struct options *options, const struct result *result)
{
	if (options->json)
		json_print(options, result);
	else
		table_print(options, result);
	(void)fflush(stdout);
}
