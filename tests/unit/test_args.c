/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x-arguments: every type, range and text of amqp.md 6.4, who takes what, equivalence of 6.3, and the
 * arguments of consumers (7.6).
 */
#include "broker/args.h"

#include <math.h>

#include "lib/runner.h"

#include <stdio.h>

#include "util/log.h"
#include "wire/field.h"

static uint8_t area[4096];
static struct writer writer;
static struct vhost vhost;
static struct queue queue;

static void
set_up(void)
{
	vhost = (struct vhost){.name = BYTES("v")};
	queue = (struct queue){.name = BYTES("q"), .vhost = &vhost};
	writer = writer_of(area, sizeof(area));
}

/* What was put since the last call, as a table. */
static struct bytes
table(void)
{
	static uint8_t *begun = area;
	struct bytes entries;

	if (begun > writer.p)
		begun = area;
	entries = bytes_of(begun, (size_t)(writer.p - begun));
	ck_assert(!writer.bad);
	ck_assert_int_eq(table_validate(entries, NULL), FIELD_OK);
	begun = writer.p;
	return entries;
}

static struct bytes
with_long(const char *name, int64_t value)
{
	table_put_long(&writer, bytes_str(name), value);
	return table();
}

static struct bytes
with_string(const char *name, const char *value)
{
	table_put_string(&writer, bytes_str(name), bytes_str(value));
	return table();
}

static struct bytes
with_bool(const char *name, bool value)
{
	table_put_bool(&writer, bytes_str(name), value);
	return table();
}

/* An integer of any letter: value is its octets. */
static struct bytes
with_raw(const char *name, char letter, struct bytes value)
{
	write_shortstr(&writer, bytes_str(name));
	write_octet(&writer, (uint8_t)letter);
	write_raw(&writer, value);
	return table();
}

static const struct reply *
declare(struct bytes arguments)
{
	return args_check_queue(&vhost, BYTES("q"), arguments, true, false, false);
}

static void
check_refused(const struct reply *reply, const char *text)
{
	ck_assert_ptr_nonnull(reply);
	ck_assert_int_eq(reply->code, PRECONDITION_FAILED);
	ck_assert_str_eq(reply->text, text);
}

/* The reason alone, of the argument name. */
static void
check_reason(const char *name, const struct reply *reply, const char *reason)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "PRECONDITION_FAILED - invalid arg '%s' for queue 'q' in vhost 'v': %s", name,
		 reason);
	check_refused(reply, text);
}

/* The argument beside a queue type. */
static const struct reply *
declare_typed(const char *type, const char *name, int64_t value)
{
	table_put_string(&writer, BYTES("x-queue-type"), bytes_str(type));
	table_put_long(&writer, bytes_str(name), value);
	return declare(table());
}

START_TEST(test_args_integers_have_their_ranges)
{
	static const struct {
		const char *name;
		int64_t value;
		const char *reason; // NULL: accepted
	} rows[] = {
		{"x-message-ttl", 0, NULL},
		{"x-message-ttl", -1, "{value_negative,-1}"},
		{"x-message-ttl", 315360000000, NULL},
		{"x-message-ttl", 315360000001, "{value_too_large,315360000001}"},
		{"x-expires", 1, NULL},
		{"x-expires", 0, "{value_zero,0}"},
		{"x-expires", -5, "{value_negative,-5}"},
		{"x-expires", 315360000001, "{value_too_large,315360000001}"},
		{"x-max-length", 0, NULL},
		{"x-max-length", INT64_MAX, NULL},
		{"x-max-length", -1, "{value_negative,-1}"},
		{"x-max-length-bytes", -1, "{value_negative,-1}"},
		{"x-max-priority", 0, NULL},
		{"x-max-priority", 255, NULL},
		{"x-max-priority", 256, "{max_value_exceeded,256}"},
		{"x-max-priority", -1, "{value_negative,-1}"},
		{"x-queue-version", 1, NULL},
		{"x-queue-version", 2, NULL},
		{"x-queue-version", 0, "\"unsupported queue version '0'\""},
		{"x-queue-version", 3, "\"unsupported queue version '3'\""},
		{"x-queue-version", -1, "{value_negative,-1}"},
		{"x-delivery-limit", -1, NULL},
		{"x-delivery-limit", 20, NULL},
		{"x-consumer-timeout", 0, NULL},
		{"x-consumer-timeout", -1, "{value_negative,-1}"},
		{"x-retry-max", 0, NULL},
		{"x-retry-max", 2147483647, NULL},
		{"x-retry-max", 2147483648, "{value_too_large,2147483648}"},
		{"x-retry-initial", -1, "{value_negative,-1}"},
		{"x-retry-max-interval", 315360000001, "{value_too_large,315360000001}"},
		{"x-retry-multiplier", 2, NULL},
		{"x-retry-multiplier", 0, "\"expected a number from 1 to 1000, got 0\""},
		{"x-retry-multiplier", 1001, "\"expected a number from 1 to 1000, got 1001\""},
		{"x-retry-jitter", 1, NULL},
		{"x-retry-jitter", 2, "\"expected a number from 0 to 1, got 2\""},
	};

	for (size_t i = 0; i < countof(rows); i++) {
		const struct reply *reply = declare(with_long(rows[i].name, rows[i].value));

		if (rows[i].reason == NULL)
			ck_assert_msg(reply == NULL, "%s %ld: %s", rows[i].name,
				      (long)rows[i].value, reply != NULL ? reply->text : "");
		else
			check_reason(rows[i].name, reply, rows[i].reason);
	}
}
END_TEST

static struct bytes
with_double(const char *name, double value)
{
	static uint8_t octets[64];
	struct writer w = writer_of(octets, sizeof(octets));
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	write_shortstr(&w, bytes_str(name));
	write_octet(&w, 'd');
	write_longlong(&w, bits);
	ck_assert(!w.bad);
	return bytes_of(octets, (size_t)(w.p - octets));
}

START_TEST(test_args_factors_have_their_ranges)
{
	ck_assert_ptr_null(declare(with_double("x-retry-jitter", 0.25)));
	ck_assert_ptr_null(declare(with_double("x-retry-multiplier", 1.5)));
	check_reason("x-retry-jitter", declare(with_double("x-retry-jitter", -0.5)),
		     "\"expected a number from 0 to 1, got -0.5\"");
	check_reason("x-retry-multiplier", declare(with_double("x-retry-multiplier", 0.999)),
		     "\"expected a number from 1 to 1000, got 0.999\"");
	ck_assert_ptr_nonnull(declare(with_double("x-retry-multiplier", (double)NAN)));
	check_reason("x-retry-jitter", declare(with_string("x-retry-jitter", "0.5")),
		     "\"expected number, got longstr\"");
	check_reason("x-retry-exhausted", declare(with_string("x-retry-exhausted", "lose")),
		     "invalid_retry_exhausted");
}
END_TEST

START_TEST(test_args_integers_of_all_widths_are_taken)
{
	static const uint8_t one[] = {0, 0, 0, 0, 0, 0, 0, 1};
	static const struct {
		char letter;
		size_t size;
	} widths[] = {{'b', 1}, {'B', 1}, {'s', 2}, {'u', 2}, {'I', 4}, {'i', 4}, {'l', 8}};

	for (size_t i = 0; i < countof(widths); i++)
		ck_assert_ptr_null(declare(
			with_raw("x-expires", widths[i].letter,
				 bytes_of(one + sizeof(one) - widths[i].size, widths[i].size))));
	check_reason("x-expires", declare(with_raw("x-expires", 'T', bytes_of(one, sizeof(one)))),
		     "\"expected integer, got timestamp\"");
}
END_TEST

START_TEST(test_args_other_types_are_refused)
{
	check_reason("x-message-ttl", declare(with_string("x-message-ttl", "5")),
		     "\"expected integer, got longstr\"");
	check_reason("x-queue-version", declare(with_bool("x-queue-version", true)),
		     "\"expected integer, got bool\"");
	check_reason("x-single-active-consumer",
		     declare(with_string("x-single-active-consumer", "true")),
		     "{unacceptable_type,longstr}");
	ck_assert_ptr_null(declare(with_bool("x-single-active-consumer", false)));
	check_reason("x-overflow", declare(with_long("x-overflow", 1)), "{unacceptable_type,long}");
	check_reason("x-queue-type", declare(with_raw("x-queue-type", 'I', BYTES("\0\0\0\1"))),
		     "{unacceptable_type,signedint}");
	check_reason("x-queue-mode", declare(with_bool("x-queue-mode", true)),
		     "{unacceptable_type,bool}");
	check_refused(
		declare(with_raw("x-dead-letter-exchange", 'I', BYTES("\0\0\0\1"))),
		"PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' "
		"in queue 'q' in vhost 'v'");
}
END_TEST

START_TEST(test_args_words_are_those_of_the_list)
{
	ck_assert_ptr_null(declare(with_string("x-overflow", "drop-head")));
	ck_assert_ptr_null(declare(with_string("x-overflow", "reject-publish")));
	ck_assert_ptr_null(declare(with_string("x-overflow", "reject-publish-dlx")));
	check_reason("x-overflow", declare(with_string("x-overflow", "reject")),
		     "invalid_overflow");
	check_reason("x-overflow", declare(with_string("x-overflow", "")), "invalid_overflow");
	check_reason("x-overflow", declare(with_string("x-overflow", "drop-head reject-publish")),
		     "invalid_overflow");
	check_reason("x-dead-letter-strategy", declare(with_string("x-dead-letter-strategy", "no")),
		     "invalid_dlx_strategy");
	ck_assert_ptr_null(declare(with_string("x-queue-mode", "anything")));
	ck_assert_ptr_null(declare(with_string("x-queue-leader-locator", "anything")));
	ck_assert_ptr_null(declare(with_string("x-queue-master-locator", "min-masters")));
}
END_TEST

START_TEST(test_args_dead_key_needs_an_exchange)
{
	check_reason("x-dead-letter-routing-key",
		     declare(with_string("x-dead-letter-routing-key", "k")),
		     "routing_key_but_no_dlx_defined");
	table_put_string(&writer, BYTES("x-dead-letter-exchange"), BYTES(""));
	ck_assert_ptr_null(declare(with_string("x-dead-letter-routing-key", "k")));
	table_put_string(&writer, BYTES("x-dead-letter-exchange"), BYTES(""));
	check_reason("x-dead-letter-routing-key",
		     declare(with_long("x-dead-letter-routing-key", 1)),
		     "{unacceptable_type,long}");
}
END_TEST

START_TEST(test_args_queue_types)
{
	ck_assert_ptr_null(declare(with_string("x-queue-type", "classic")));
	ck_assert_ptr_null(declare(with_string("x-queue-type", "quorum")));
	check_reason("x-queue-type", declare(with_string("x-queue-type", "stream")),
		     "\"unsupported queue type 'stream'\"");
	check_reason("x-queue-type", declare(with_string("x-queue-type", "foo")),
		     "\"unsupported queue type 'foo'\"");
	ck_assert(args_is_quorum(with_string("x-queue-type", "quorum")));
	ck_assert(!args_is_quorum(with_string("x-queue-type", "classic")));
	ck_assert(!args_is_quorum(with_string("other", "quorum")));
	ck_assert(!args_is_quorum(bytes_of(NULL, 0)));
}
END_TEST

START_TEST(test_args_known_ones_are_refused_by_the_wrong_type)
{
	check_refused(declare_typed("quorum", "x-max-priority", 5),
		      "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'q' in vhost "
		      "'v' of queue type rabbit_quorum_queue");
	check_refused(declare_typed("classic", "x-quorum-initial-group-size", 3),
		      "PRECONDITION_FAILED - invalid arg 'x-quorum-initial-group-size' for queue "
		      "'q' in vhost 'v' of queue type rabbit_classic_queue");
	check_refused(declare(with_string("x-max-age", "1h")),
		      "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost 'v' of "
		      "queue type rabbit_classic_queue");
	ck_assert_ptr_null(declare_typed("quorum", "x-quorum-initial-group-size", 3));
	ck_assert_ptr_null(declare_typed("quorum", "x-delivery-limit", 3));
	ck_assert_ptr_null(declare_typed("classic", "x-delivery-limit", 3));
	/* The value comes first. */
	check_reason("x-max-priority", declare_typed("quorum", "x-max-priority", 256),
		     "{max_value_exceeded,256}");
}
END_TEST

START_TEST(test_args_unknown_ones_pass)
{
	ck_assert_ptr_null(declare(with_string("x-ha-policy", "all")));
	ck_assert_ptr_null(declare(with_long("message-ttl", -1)));
	ck_assert_ptr_null(declare(with_long("X-Message-TTL", -1)));
	ck_assert_ptr_null(declare(bytes_of(NULL, 0)));
}
END_TEST

START_TEST(test_args_quorum_queues_have_rules)
{
	static const struct {
		bool durable, exclusive, auto_delete;
		const char *property;
	} rows[] = {
		{false, false, false, "non-durable"},
		{true, true, false, "exclusive-owner"},
		{false, true, false, "exclusive-owner"},
		{true, false, true, "auto-delete"},
	};
	struct bytes quorum = with_string("x-queue-type", "quorum");
	char text[256];

	for (size_t i = 0; i < countof(rows); i++) {
		snprintf(text, sizeof(text),
			 "PRECONDITION_FAILED - invalid property '%s' for queue 'q' in vhost 'v'",
			 rows[i].property);
		check_refused(args_check_queue(&vhost, BYTES("q"), quorum, rows[i].durable,
					       rows[i].exclusive, rows[i].auto_delete),
			      text);
		ck_assert_ptr_null(args_check_queue(&vhost, BYTES("q"), bytes_of(NULL, 0),
						    rows[i].durable, rows[i].exclusive,
						    rows[i].auto_delete));
	}
}
END_TEST

#define INEQUIVALENT(name) \
	"PRECONDITION_FAILED - inequivalent arg '" name "' for queue 'q' in vhost 'v': "

START_TEST(test_args_equivalent_by_value)
{
	queue.arguments = with_raw("x-max-length", 'b', BYTES("\012"));
	ck_assert_ptr_null(args_check_equivalent(&queue, with_long("x-max-length", 10)));
	check_refused(args_check_equivalent(&queue, with_long("x-max-length", 20)),
		      INEQUIVALENT("x-max-length") "received '20' but current is '10'");
	check_refused(args_check_equivalent(&queue, with_string("x-max-length", "10")),
		      INEQUIVALENT("x-max-length") "received '10' but current is '10'");
}
END_TEST

START_TEST(test_args_equivalent_needs_both_sides)
{
	queue.arguments = with_raw("x-message-ttl", 'I', BYTES("\0\0\0\5"));
	check_refused(args_check_equivalent(&queue, bytes_of(NULL, 0)),
		      INEQUIVALENT("x-message-ttl") "received none but current is the value '5' of "
						    "type 'signedint'");
	queue.arguments = bytes_of(NULL, 0);
	check_refused(args_check_equivalent(&queue, with_string("x-overflow", "drop-head")),
		      INEQUIVALENT("x-overflow") "received the value 'drop-head' of type 'longstr' "
						 "but current is none");
}
END_TEST

START_TEST(test_args_equivalent_reports_in_the_order_of_the_table)
{
	table_put_long(&writer, BYTES("x-max-age"), 1);
	queue.arguments = with_long("x-message-ttl", 1);
	table_put_long(&writer, BYTES("x-max-length"), 2);
	check_refused(args_check_equivalent(&queue, with_long("x-message-ttl", 2)),
		      INEQUIVALENT("x-message-ttl") "received '2' but current is '1'");
}
END_TEST

START_TEST(test_args_equivalent_classic_is_the_default)
{
	ck_assert_ptr_null(args_check_equivalent(&queue, with_string("x-queue-type", "classic")));
	check_refused(args_check_equivalent(&queue, with_string("x-queue-type", "quorum")),
		      INEQUIVALENT("x-queue-type") "received the value 'quorum' of type 'longstr' "
						   "but current is none");
	queue.arguments = with_string("x-queue-type", "classic");
	ck_assert_ptr_null(args_check_equivalent(&queue, bytes_of(NULL, 0)));
	queue.arguments = with_string("x-queue-type", "quorum");
	check_refused(args_check_equivalent(&queue, bytes_of(NULL, 0)),
		      INEQUIVALENT("x-queue-type") "received none but current is the value "
						   "'quorum' of type 'longstr'");
}
END_TEST

START_TEST(test_args_equivalent_ignores_what_it_does_not_know)
{
	queue.arguments = with_string("x-ha-policy", "all");
	ck_assert_ptr_null(args_check_equivalent(&queue, bytes_of(NULL, 0)));
	/* Known, but not to a classic queue. */
	ck_assert_ptr_null(args_check_equivalent(&queue, with_string("x-max-age", "1h")));
	/* Without effect, but compared. */
	check_refused(args_check_equivalent(&queue, with_string("x-queue-mode", "lazy")),
		      INEQUIVALENT("x-queue-mode") "received the value 'lazy' of type 'longstr' "
						   "but current is none");
}
END_TEST

START_TEST(test_args_consumer_priority)
{
	int32_t priority = 99;

	ck_assert_ptr_null(args_check_consumer(&queue, bytes_of(NULL, 0), &priority));
	ck_assert_int_eq(priority, 0);
	ck_assert_ptr_null(args_check_consumer(&queue, with_long("x-priority", -7), &priority));
	ck_assert_int_eq(priority, -7);
	ck_assert_ptr_null(
		args_check_consumer(&queue, with_raw("x-priority", 'b', BYTES("\5")), &priority));
	ck_assert_int_eq(priority, 5);
	ck_assert_ptr_null(
		args_check_consumer(&queue, with_long("x-priority", INT64_MAX), &priority));
	ck_assert_int_eq(priority, INT32_MAX);
	ck_assert_ptr_null(
		args_check_consumer(&queue, with_long("x-priority", INT64_MIN), &priority));
	ck_assert_int_eq(priority, INT32_MIN);
	check_reason("x-priority",
		     args_check_consumer(&queue, with_string("x-priority", "5"), &priority),
		     "\"expected integer, got longstr\"");
}
END_TEST

START_TEST(test_args_consumer_arguments_of_streams_are_refused)
{
	int32_t priority;

	check_refused(
		args_check_consumer(&queue, with_string("x-stream-offset", "first"), &priority),
		"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 'q' in vhost "
		"'v' of queue type rabbit_classic_queue");
	queue.arguments = with_string("x-queue-type", "quorum");
	check_refused(args_check_consumer(&queue, with_bool("x-stream-match-unfiltered", true),
					  &priority),
		      "PRECONDITION_FAILED - invalid arg 'x-stream-match-unfiltered' for queue 'q' "
		      "in vhost 'v' of queue type rabbit_quorum_queue");
	/* Of queues, so unknown to consumers. */
	ck_assert_ptr_null(args_check_consumer(&queue, with_long("x-expires", -1), &priority));
	ck_assert_ptr_null(
		args_check_consumer(&queue, with_bool("x-cancel-on-ha-failover", true), &priority));
	ck_assert_ptr_null(
		args_check_consumer(&queue, with_long("x-consumer-timeout", 5), &priority));
}
END_TEST

/* Sends the log to a file and returns what one warning wrote there. */
static size_t
logged(struct bytes arguments, char *out, size_t room)
{
	char path[] = "test_args.XXXXXX";
	int fd = mkstemp(path);
	FILE *file;
	size_t n;

	ck_assert_int_ge(fd, 0);
	file = fdopen(fd, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(log_set_file(path), 0);
	args_warn_without_effect(&vhost, BYTES("q"), arguments);
	ck_assert_int_eq(log_set_file(NULL), 0);
	n = fread(out, 1, room - 1, file);
	out[n] = '\0';
	fclose(file);
	ck_assert_int_eq(remove(path), 0);
	return n;
}

START_TEST(test_args_warn_once_for_all_arguments_to_come)
{
	char line[1024];
	char *newline;

	table_put_string(&writer, BYTES("x-queue-type"), BYTES("classic"));
	table_put_string(&writer, BYTES("x-queue-mode"), BYTES("lazy"));
	ck_assert_uint_eq(logged(with_string("x-other", "y"), line, sizeof(line)), 0);
	table_put_long(&writer, BYTES("x-max-age"), 1);
	ck_assert_uint_gt(logged(with_long("x-initial-cluster-size", 1), line, sizeof(line)), 0);
	ck_assert_ptr_nonnull(strstr(line, "x-max-age, x-initial-cluster-size queue=q vhost=v"));
	newline = strchr(line, '\n');
	ck_assert_ptr_nonnull(newline);
	ck_assert_str_eq(newline, "\n");
}
END_TEST

TESTS_WITH("args", set_up, NULL, test_args_integers_have_their_ranges,
	   test_args_factors_have_their_ranges, test_args_integers_of_all_widths_are_taken,
	   test_args_other_types_are_refused, test_args_words_are_those_of_the_list,
	   test_args_dead_key_needs_an_exchange, test_args_queue_types,
	   test_args_known_ones_are_refused_by_the_wrong_type, test_args_unknown_ones_pass,
	   test_args_quorum_queues_have_rules, test_args_equivalent_by_value,
	   test_args_equivalent_needs_both_sides,
	   test_args_equivalent_reports_in_the_order_of_the_table,
	   test_args_equivalent_classic_is_the_default,
	   test_args_equivalent_ignores_what_it_does_not_know, test_args_consumer_priority,
	   test_args_consumer_arguments_of_streams_are_refused,
	   test_args_warn_once_for_all_arguments_to_come)
