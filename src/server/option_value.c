/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts into fields: the one place that knows how each type of option is written. What does not fit
 * is refused with what was expected, never cut or rounded.
 */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "broker/limits.h"
#include "broker/user.h"
#include "util/mem.h"
#include "util/regex.h"

int
refuse_value(const struct target *target, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(target->error, OPTION_ERROR_MAX, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* ---- integers ---- */

static void
store_integer(const struct target *target, uint64_t value)
{
	uint16_t u16 = (uint16_t)value;
	uint32_t u32 = (uint32_t)value;

	switch (target->row->size) {
	case 1:
		*(bool *)target->field = value != 0;
		break;
	case 2:
		memcpy(target->field, &u16, sizeof(u16));
		break;
	case 4:
		memcpy(target->field, &u32, sizeof(u32));
		break;
	default:
		assert(target->row->size == 8);
		memcpy(target->field, &value, sizeof(value));
	}
}

/* Reads digits; false when there are none or too many. rest gets what is behind them. */
static bool
parse_digits(const char *text, uint64_t *number, const char **rest)
{
	*number = 0;
	*rest = text;
	for (; **rest >= '0' && **rest <= '9'; (*rest)++) {
		unsigned digit = (unsigned)(**rest - '0');

		if (*number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return *rest != text;
}

static int
set_integer(const struct target *target, uint64_t number)
{
	const struct option_row *row = target->row;

	if (number < row->min || number > row->max)
		return refuse_value(target,
				    "%s is out of range: %" PRIu64 " to %" PRIu64 " is expected",
				    target->value, row->min, row->max);
	store_integer(target, number);
	return 0;
}

static int
set_number(const struct target *target)
{
	const char *rest;
	uint64_t number;

	if (target->row->type == OPTION_LIMIT &&
	    (strcmp(target->value, "infinity") == 0 || strcmp(target->value, "unlimited") == 0)) {
		store_integer(target, UINT32_MAX);
		return 0;
	}
	if (!parse_digits(target->value, &number, &rest) || *rest != '\0')
		return refuse_value(target, "\"%s\" is no %s", target->value,
				    target->row->type == OPTION_LIMIT
					    ? "integer and not \"infinity\""
					    : "integer");
	return set_integer(target, number);
}

int
parse_limit(const struct target *target, int64_t *limit)
{
	bool negative = target->value[0] == '-';
	const char *rest;
	uint64_t number;

	*limit = LIMIT_NONE;
	if (strcmp(target->value, "infinity") == 0)
		return 0;
	if (!parse_digits(target->value + negative, &number, &rest) || *rest != '\0')
		return refuse_value(target, "\"%s\" is no integer and not \"infinity\"",
				    target->value);
	if (number > INT64_MAX)
		return refuse_value(target, "%s is out of range", target->value);
	if (!negative)
		*limit = (int64_t)number;
	return 0;
}

/* The factor of a unit: k, kiB, K, KiB and so on are 1024, kB and KB are 1000. 0 when unknown. */
static uint64_t
unit_factor(const char *unit)
{
	static const char letters[] = "KMGTP";
	const char *letter;
	uint64_t base;
	uint64_t factor = 1;

	if (*unit == '\0' || strcmp(unit, "B") == 0)
		return 1;
	letter = strchr(letters, *unit == 'k' ? 'K' : *unit);
	if (letter == NULL)
		return 0;
	unit++;
	if (*unit == '\0' || strcmp(unit, "iB") == 0)
		base = 1024;
	else if (strcmp(unit, "B") == 0)
		base = 1000;
	else
		return 0;
	for (const char *p = letters; p <= letter; p++)
		factor *= base;
	return factor;
}

static int
set_size(const struct target *target)
{
	uint64_t factor = 0;
	const char *rest;
	uint64_t number;

	if (parse_digits(target->value, &number, &rest)) {
		while (*rest == ' ')
			rest++;
		factor = unit_factor(rest);
	}
	if (factor == 0)
		return refuse_value(target, "\"%s\" is no size: write bytes, or 64KiB, 10MB, 1G",
				    target->value);
	if (number > UINT64_MAX / factor)
		number = UINT64_MAX;
	else
		number *= factor;
	return set_integer(target, number);
}

/* Digits with a point and digits, without a locale. */
static int
set_decimal(const struct target *target)
{
	double scale = 1;
	uint64_t whole;
	const char *rest;
	double number;

	if (!parse_digits(target->value, &whole, &rest))
		return refuse_value(target, "\"%s\" is no number", target->value);
	number = (double)whole;
	if (*rest == '.')
		for (rest++; *rest >= '0' && *rest <= '9'; rest++) {
			scale /= 10;
			number += scale * (*rest - '0');
		}
	if (*rest != '\0')
		return refuse_value(target, "\"%s\" is no number", target->value);
	if (number < (double)target->row->min || number > (double)target->row->max)
		return refuse_value(target,
				    "%s is out of range: %" PRIu64 " to %" PRIu64 " is expected",
				    target->value, target->row->min, target->row->max);
	memcpy(target->field, &number, sizeof(number));
	return 0;
}

/* ---- words ---- */

static int
parse_boolean(const struct target *target, bool *value)
{
	*value = strcmp(target->value, "true") == 0 || strcmp(target->value, "on") == 0;
	if (*value || strcmp(target->value, "false") == 0 || strcmp(target->value, "off") == 0)
		return 0;
	return refuse_value(target, "\"%s\" is neither true nor false", target->value);
}

static int
set_boolean(const struct target *target)
{
	bool value;

	if (parse_boolean(target, &value) < 0)
		return -EINVAL;
	store_integer(target, value);
	return 0;
}

/* The place of a word in a list with blanks between; -1 when it is not there. */
static int
word_place(const char *words, const char *word)
{
	size_t length = strlen(word);
	int place = 0;

	while (words != NULL && *words != '\0') {
		size_t n = strcspn(words, " ");

		if (n == length && strncmp(words, word, n) == 0)
			return place;
		words += n;
		words += strspn(words, " ");
		place++;
	}
	return -1;
}

static int
refuse_word(const struct target *target)
{
	return refuse_value(target, "\"%s\" is none of: %s", target->value, target->row->words);
}

static int
set_word(const struct target *target)
{
	int place = word_place(target->row->words, target->value);

	if (place < 0)
		return refuse_word(target);
	store_integer(target, (unsigned)place);
	return 0;
}

static int
set_level(const struct target *target)
{
	enum log_level level;

	if (!log_level_parse(target->value, &level))
		return refuse_word(target);
	store_integer(target, level);
	return 0;
}

static int
set_flag(const struct target *target)
{
	int place = word_place(target->row->words, target->value);
	unsigned *flags = target->field;

	if (word_place(target->row->ignored, target->value) >= 0) {
		(void)refuse_value(target, "%s is not offered", target->value);
		return 1;
	}
	if (place < 0)
		return refuse_word(target);
	*flags |= 1U << place;
	return 0;
}

/* ---- texts ---- */

static int
set_string(const struct target *target)
{
	char **string = target->field;

	xfree(*string);
	*string = xstrdup(target->value);
	return 0;
}

int
check_pattern(const struct target *target)
{
	char reason[200];
	struct regex *regex = regex_new(bytes_str(target->value), reason, sizeof(reason));

	if (regex == NULL)
		return refuse_value(target, "\"%s\" is no regular expression: %s", target->value,
				    reason);
	regex_free(&regex);
	return 0;
}

static int
set_pattern(const struct target *target)
{
	return check_pattern(target) < 0 ? -EINVAL : set_string(target);
}

static int
set_version(const struct target *target)
{
	const char *value = target->value;

	if (value[0] < '0' || value[0] > '9' || value[strspn(value, "0123456789.")] != '\0')
		return refuse_value(target, "\"%s\" is no version: write it like 3.13.7", value);
	return set_string(target);
}

static void
texts_add(struct config_texts *texts, const char *text)
{
	texts->items = xrealloc(texts->items, (texts->count + 1) * sizeof(*texts->items));
	texts->items[texts->count++] = xstrdup(text);
}

static int
add_text(const struct target *target)
{
	texts_add(target->field, target->value);
	return 0;
}

/* ---- lists ---- */

static int
add_listener(const struct target *target)
{
	struct listener_options listener = listener_options_default(0);
	struct config_listeners *listeners = target->field;

	if (!listener_parse(target->value, &listener))
		return refuse_value(target,
				    "\"%s\" is no listener: write PORT, ADDRESS:PORT or "
				    "[ADDRESS]:PORT",
				    target->value);
	listeners->items =
		xrealloc(listeners->items, (listeners->count + 1) * sizeof(*listeners->items));
	listeners->items[listeners->count++] = listener;
	return 0;
}

static int
add_network(const struct target *target)
{
	struct config_networks *networks = target->field;
	struct proxy_network network;

	if (!proxy_network_parse(target->value, &network))
		return refuse_value(target,
				    "\"%s\" is no network: write an address, or ADDRESS/BITS",
				    target->value);
	networks->items =
		xrealloc(networks->items, (networks->count + 1) * sizeof(*networks->items));
	networks->items[networks->count++] = network;
	return 0;
}

/* The name of the key, or the value when it is a default that is put in. */
static void
set_member(struct config_texts *set, const char *name, bool member)
{
	size_t i = 0;

	while (i < set->count && strcmp(set->items[i], name) != 0)
		i++;
	if (member && i == set->count)
		texts_add(set, name);
	if (!member && i < set->count) {
		xfree(set->items[i]);
		set->items[i] = set->items[--set->count];
	}
}

static int
set_name(const struct target *target)
{
	bool member = true;
	char *name;

	if (target->star.n == 0) { /* a default */
		set_member(target->field, target->value, true);
		return 0;
	}
	if (parse_boolean(target, &member) < 0)
		return -EINVAL;
	name = xstrndup(target->star);
	set_member(target->field, name, member);
	xfree(name);
	return 0;
}

static int
set_tag(const struct target *target)
{
	struct bytes name = target->star.n != 0 ? target->star : bytes_str(target->value);
	unsigned *tags = target->field;
	bool member = true;
	unsigned tag;

	if (user_tags_parse(name, &tag) < 0)
		return refuse_value(target, "\"%.*s\" is no tag", BYTES_ARGS(name));
	if (target->star.n != 0 && parse_boolean(target, &member) < 0)
		return -EINVAL;
	*tags = member ? *tags | tag : *tags & ~tag;
	return 0;
}

int
check_exact(const struct target *target, const char *wanted, const char *alias)
{
	if (strcmp(target->value, wanted) == 0 || strcmp(target->value, alias) == 0)
		return 0;
	return refuse_value(target, "\"%s\" cannot be: only %s is known here", target->value,
			    wanted);
}

static int
set_plain(const struct target *target)
{
	switch (target->row->type) {
	case OPTION_BOOLEAN:
		return set_boolean(target);
	case OPTION_NUMBER:
	case OPTION_LIMIT:
		return set_number(target);
	case OPTION_SIZE:
		return set_size(target);
	case OPTION_DECIMAL:
		return set_decimal(target);
	case OPTION_PATTERN:
		return set_pattern(target);
	case OPTION_VERSION:
		return set_version(target);
	case OPTION_WORD:
		return set_word(target);
	case OPTION_LEVEL:
		return set_level(target);
	default:
		return set_string(target);
	}
}

int
option_apply(const struct option_row *row, struct config *config, struct bytes star,
	     const char *value, char *error)
{
	struct target target = {
		.row = row,
		.config = config,
		.field = (char *)config + row->offset,
		.star = star,
		.value = value,
		.error = error,
	};

	switch (row->type) {
	case OPTION_FLAGS:
		return set_flag(&target);
	case OPTION_LISTENER:
		return add_listener(&target);
	case OPTION_TEXT:
		return add_text(&target);
	case OPTION_NETWORK:
		return add_network(&target);
	case OPTION_NAME:
		return set_name(&target);
	case OPTION_TAG:
		return set_tag(&target);
	case OPTION_USER:
		return set_user(&target);
	case OPTION_USER_LIMIT:
		return set_user_limit(&target);
	case OPTION_USER_NONE:
		return set_user_none(&target);
	case OPTION_USER_TOPIC:
		return set_user_topic(&target);
	case OPTION_VHOST_PATTERN:
		return set_vhost_pattern(&target);
	case OPTION_VHOST_LIMIT:
		return set_vhost_limit(&target);
	case OPTION_NONE:
		return check_exact(&target, "none", "none");
	case OPTION_BACKEND:
		return check_exact(&target, "internal", "rabbit_auth_backend_internal");
	default:
		return set_plain(&target);
	}
}

/* ---- freeing ---- */

static void
clear_texts(struct config_texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		xfree(texts->items[i]);
	xfree(texts->items);
	*texts = (struct config_texts){.items = NULL};
}

void
option_clear(const struct option_row *row, struct config *config)
{
	void *field = (char *)config + row->offset;
	char **string = field;
	struct config_listeners *listeners = field;
	struct config_networks *networks = field;

	switch (row->type) {
	case OPTION_STRING:
	case OPTION_PATTERN:
	case OPTION_VERSION:
		xfree(*string);
		*string = NULL;
		break;
	case OPTION_LISTENER:
		xfree(listeners->items);
		*listeners = (struct config_listeners){.items = NULL};
		break;
	case OPTION_NETWORK:
		xfree(networks->items);
		*networks = (struct config_networks){.items = NULL};
		break;
	case OPTION_TEXT:
	case OPTION_NAME:
		clear_texts(field);
		break;
	case OPTION_USER:
		clear_users(field);
		break;
	case OPTION_VHOST_PATTERN:
		clear_vhost_limits(field);
		break;
	default:
		break;
	}
}
