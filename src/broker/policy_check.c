/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a policy may be set, in RabbitMQ's words (management.md 3.1), which show what was given as Erlang
 * does: <<"text">>, true, #{<<"key">> => [1,2]}. Of a definition with several faults it is the keys that
 * are given twice that are told, then the first value that its key does not take, then the keys that
 * there are not.
 */
#include "policy_keys.h"

#include <inttypes.h>
#include <stdio.h>

#include "broker/args.h"
#include "util/regex.h"

#define TEXT_MAX 1023
#define NAME_SIZE_MAX UINT8_MAX // the store's limit for all names

/* The latest refusal. */
static char text[TEXT_MAX + 1];

/* ---- values in Erlang's form ---- */

static void
show_text(struct buf *out, struct bytes octets)
{
	buf_add_str(out, "<<\"");
	for (size_t i = 0; i < octets.n; i++) {
		if (octets.p[i] == '"' || octets.p[i] == '\\')
			buf_add_byte(out, '\\');
		buf_add_byte(out, octets.p[i]);
	}
	buf_add_str(out, "\">>");
}

static void show_all(struct buf *out, struct field_iterator iterator);

/* As deep as a validated table goes. */
static void
show(struct buf *out, const struct field *field)
{
	switch (field->class) {
	case FIELD_STRING:
		show_text(out, field->bytes);
		break;
	case FIELD_BOOLEAN:
		buf_add_str(out, field->integer != 0 ? "true" : "false");
		break;
	case FIELD_INTEGER:
	case FIELD_TIMESTAMP:
		buf_addf(out, "%" PRId64, field->integer);
		break;
	case FIELD_FLOAT:
		buf_addf(out, "%g", field->number);
		break;
	case FIELD_TABLE:
		buf_add_str(out, "#{");
		show_all(out, table_iterate(field->bytes));
		buf_add_str(out, "}");
		break;
	case FIELD_ARRAY:
		buf_add_str(out, "[");
		show_all(out, array_iterate(field->bytes));
		buf_add_str(out, "]");
		break;
	default:
		buf_add_str(out, "null");
	}
}

static void
show_all(struct buf *out, struct field_iterator iterator)
{
	struct field field;

	for (bool is_first = true; field_next(&iterator, &field); is_first = false) {
		if (!is_first)
			buf_add_str(out, ",");
		if (!iterator.array) {
			show_text(out, field.name);
			buf_add_str(out, " => ");
		}
		show(out, &field);
	}
}

/* ---- single values ---- */

/* "7D": a positive number and a unit. */
static bool
is_age(struct bytes age)
{
	bool is_positive = false;

	if (age.n < 2 || strchr("YMDhms", age.p[age.n - 1]) == NULL || age.p[age.n - 1] == '\0')
		return false;
	for (size_t i = 0; i < age.n - 1; i++) {
		if (age.p[i] < '0' || age.p[i] > '9')
			return false;
		is_positive |= age.p[i] != '0';
	}
	return is_positive;
}

static bool
is_factor(const struct policy_key_row *row, const struct field *field)
{
	double value;

	/* not a number is not in the range either */
	return args_factor(field, &value) && value >= (double)row->min && value <= (double)row->max;
}

static bool
is_valid(const struct policy_key_row *row, const struct field *field)
{
	switch (row->type) {
	case KEY_TYPE_NUMBER:
		return field->class == FIELD_INTEGER && field->integer >= row->min &&
		       (row->max == 0 || field->integer <= row->max);
	case KEY_TYPE_FACTOR:
		return is_factor(row, field);
	case KEY_TYPE_STRING:
		return field->class == FIELD_STRING;
	case KEY_TYPE_WORD:
		return field->class == FIELD_STRING && args_has_word(row->words, field->bytes);
	case KEY_TYPE_AGE:
		return field->class == FIELD_STRING && is_age(field->bytes);
	case KEY_TYPE_BOOLEAN:
		return field->class == FIELD_BOOLEAN;
	default:
		return true;
	}
}

/* ---- a whole definition ---- */

/* What is wrong with a definition; each is a part of a text, empty when nothing is. */
struct faults {
	struct buf twice;   // keys
	struct buf bad;	    // the first value
	struct buf unknown; // keys and values
};

static void
look_at(struct faults *faults, enum policy_kind kind, const struct field *field,
	bool seen[KEY_COUNT])
{
	const struct policy_key_row *row = policy_key_find(field->name);

	if (row == NULL || (kind == POLICY_OPERATOR && row->both == RULE_NO)) {
		buf_add_str(&faults->unknown, faults->unknown.n != 0 ? ",{" : "{");
		show_text(&faults->unknown, field->name);
		buf_add_str(&faults->unknown, ",");
		show(&faults->unknown, field);
		buf_add_str(&faults->unknown, "}");
		return;
	}
	if (seen[row - policy_keys]) {
		buf_add_str(&faults->twice, faults->twice.n != 0 ? "," : "");
		show_text(&faults->twice, field->name);
	}
	seen[row - policy_keys] = true;
	if (faults->bad.n == 0 && !is_valid(row, field)) {
		show(&faults->bad, field);
		buf_addf(&faults->bad, " is not a valid %s", row->what);
	}
}

static void
check_definition(struct buf *out, enum policy_kind kind, struct bytes definition)
{
	struct field_iterator iterator = table_iterate(definition);
	bool seen[KEY_COUNT] = {false};
	struct faults faults;
	struct field field;

	if (definition.n == 0) {
		buf_add_str(out, "no policy provided");
		return;
	}
	buf_init(&faults.twice, 0);
	buf_init(&faults.bad, 0);
	buf_init(&faults.unknown, 0);
	while (field_next(&iterator, &field))
		look_at(&faults, kind, &field, seen);
	if (faults.twice.n != 0)
		buf_addf(out, "[%s] duplicate keys not allowed", buf_cstr(&faults.twice));
	else if (faults.bad.n != 0)
		buf_add_bytes(out, buf_bytes(&faults.bad));
	else if (faults.unknown.n != 0)
		buf_addf(out, "[%s] are not recognised policy settings", buf_cstr(&faults.unknown));
	buf_fini(&faults.twice);
	buf_fini(&faults.bad);
	buf_fini(&faults.unknown);
}

/* ---- a whole policy ---- */

static void
check_pattern(struct buf *out, struct bytes pattern)
{
	char error[256];
	struct regex *regex = regex_new(pattern, error, sizeof(error));

	if (regex == NULL)
		buf_addf(out, "pattern should be regular expression but is invalid: %s", error);
	regex_free(&regex);
}

/* Not within a character. */
static size_t
cut_at(struct bytes of)
{
	size_t n = of.n;

	if (n <= TEXT_MAX)
		return n;
	n = TEXT_MAX;
	while (n > 0 && (of.p[n] & 0xC0) == 0x80)
		n--;
	return n;
}

const char *
policy_check(enum policy_kind kind, const struct policy_spec *spec)
{
	enum policy_apply_to apply_to;
	struct buf out;
	size_t n;

	assert_thread(THREAD_BROKER);
	assert(kind < POLICY_KIND_COUNT);
	buf_init(&out, 0);
	if (spec->name.n > NAME_SIZE_MAX)
		buf_addf(&out, "name should be at most %d bytes, actually was %zu", NAME_SIZE_MAX,
			 spec->name.n);
	if (out.n == 0)
		check_pattern(&out, spec->pattern);
	if (out.n == 0 && !policy_apply_to_parse(spec->apply_to, &apply_to))
		buf_addf(&out,
			 "apply-to '%.*s' unrecognised; should be one of: 'queues', "
			 "'classic_queues', 'quorum_queues', 'streams', 'exchanges', or 'all'",
			 BYTES_ARGS(spec->apply_to));
	if (out.n == 0)
		check_definition(&out, kind, spec->definition);
	n = cut_at(buf_bytes(&out));
	if (n != 0)
		memcpy(text, out.p, n);
	text[n] = '\0';
	buf_fini(&out);
	return n != 0 ? text : NULL;
}
