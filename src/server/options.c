/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of options: finding, likeness of keys, printing.
 */
#include "internal.h"

#include <inttypes.h>

#define KEY_MAX 256

#define FIELD_SIZE(field) sizeof(((struct config *)NULL)->field)

enum option_when {
	WHEN_START,
	WHEN_RELOAD
};

const struct option_row option_rows[] = {
#define OPTION(key_, type_, field_, fallback_, when_, help_, ...) \
	{.key = key_,                                             \
	 .type = OPTION_##type_,                                  \
	 .offset = offsetof(struct config, field_),               \
	 .size = FIELD_SIZE(field_),                              \
	 .fallback = fallback_,                                   \
	 .reloadable = WHEN_##when_ == WHEN_RELOAD,               \
	 .help = help_,                                           \
	 __VA_ARGS__},
#define IGNORED(key, why)
#include "server/options.def"
};
const size_t option_row_count = countof(option_rows);

enum ignored_why {
	WHY_FOREIGN,
	WHY_LATER
};

static const struct option_ignored ignored[] = {
#define OPTION(...)
#define IGNORED(key_, why) {.key = key_, .later = WHY_##why == WHY_LATER},
#include "server/options.def"
};

bool
option_split_star(const char *pattern, struct bytes star, struct bytes *first, struct bytes *second)
{
	const char *between = strchr(pattern, '*') + 1;
	struct bytes separator = bytes_of(between, strcspn(between, "*"));

	for (size_t n = 1; n + separator.n < star.n; n++) {
		if (!bytes_has_prefix(bytes_of(star.p + n, star.n - n), separator))
			continue;
		*first = bytes_of(star.p, n);
		*second = bytes_of(star.p + n + separator.n, star.n - n - separator.n);
		return true;
	}
	return false;
}

/* Whether key is the pattern, or with below something below it; star gets the text of "*", or from the
 * first "*" to the last. */
static bool
key_matches(const char *pattern, const char *key, bool below, struct bytes *star)
{
	size_t head = strcspn(pattern, "*");
	const char *last = strrchr(pattern, '*');
	size_t length = strlen(key);
	struct bytes first;
	struct bytes second;
	size_t rest;

	*star = bytes_of(NULL, 0);
	if (strncmp(key, pattern, head) != 0)
		return false;
	if (last == NULL)
		return key[head] == '\0' || (below && key[head] == '.');
	rest = strlen(last + 1);
	if (length <= head + rest || strcmp(key + length - rest, last + 1) != 0)
		return false;
	*star = bytes_of(key + head, length - head - rest);
	return last == pattern + head || option_split_star(pattern, *star, &first, &second);
}

const struct option_row *
option_find(const char *key, struct bytes *star)
{
	struct bytes found;

	for (size_t i = 0; i < option_row_count; i++) {
		if (!key_matches(option_rows[i].key, key, false, &found))
			continue;
		if (star != NULL)
			*star = found;
		return &option_rows[i];
	}
	return NULL;
}

const struct option_ignored *
option_find_ignored(const char *key)
{
	struct bytes star;

	for (size_t i = 0; i < countof(ignored); i++)
		if (key_matches(ignored[i].key, key, true, &star))
			return &ignored[i];
	return NULL;
}

static unsigned
least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* How many octets must be put in, taken out or changed to make key out of the pattern; what stands for
 * "*" is free. */
static unsigned
distance(const char *pattern, const char *key)
{
	unsigned row[KEY_MAX + 1]; // of the pattern so far to the first j octets of key
	size_t length = strlen(key);

	assert(length <= KEY_MAX);
	for (size_t j = 0; j <= length; j++)
		row[j] = (unsigned)j;
	for (; *pattern != '\0'; pattern++) {
		unsigned diagonal = row[0];

		if (*pattern != '*')
			row[0]++;
		for (size_t j = 1; j <= length; j++) {
			unsigned above = row[j];

			if (*pattern == '*')
				row[j] = above < row[j - 1] ? above : row[j - 1];
			else
				row[j] = least(above + 1, row[j - 1] + 1,
					       diagonal + (*pattern != key[j - 1]));
			diagonal = above;
		}
	}
	return row[length];
}

const char *
option_nearest(const char *key)
{
	const char *nearest = option_rows[0].key;
	unsigned best = UINT32_MAX;

	if (strlen(key) > KEY_MAX)
		return nearest;
	for (size_t i = 0; i < option_row_count; i++) {
		unsigned far = distance(option_rows[i].key, key);

		if (far < best) {
			best = far;
			nearest = option_rows[i].key;
		}
	}
	return nearest;
}

/* ---- printing ---- */

static const char *
type_text(enum option_type type)
{
	switch (type) {
	case OPTION_BOOLEAN:
	case OPTION_NAME:
	case OPTION_TAG:
		return "boolean";
	case OPTION_NUMBER:
		return "integer";
	case OPTION_LIMIT:
		return "integer or infinity";
	case OPTION_SIZE:
		return "size";
	case OPTION_DECIMAL:
		return "decimal";
	case OPTION_PATTERN:
	case OPTION_USER_TOPIC:
	case OPTION_VHOST_PATTERN:
		return "regular expression";
	case OPTION_USER_LIMIT:
	case OPTION_VHOST_LIMIT:
		return "integer";
	case OPTION_WORD:
	case OPTION_LEVEL:
	case OPTION_FLAGS:
	case OPTION_NONE:
	case OPTION_USER_NONE:
	case OPTION_BACKEND:
		return "word";
	case OPTION_LISTENER:
		return "listener";
	case OPTION_NETWORK:
		return "network";
	default:
		return "text";
	}
}

static bool
is_integer(enum option_type type)
{
	return type == OPTION_NUMBER || type == OPTION_LIMIT || type == OPTION_SIZE;
}

void
options_print(FILE *out)
{
	for (size_t i = 0; i < option_row_count; i++) {
		const struct option_row *row = &option_rows[i];

		(void)fprintf(out, "%s\n    %s", row->key, type_text(row->type));
		if (is_integer(row->type) && row->max == UINT64_MAX)
			(void)fprintf(out, " from %" PRIu64, row->min);
		else if (is_integer(row->type))
			(void)fprintf(out, " %" PRIu64 " to %" PRIu64, row->min, row->max);
		else if (row->words != NULL)
			(void)fprintf(out, ": %s", row->words);
		if (row->fallback != NULL)
			(void)fprintf(out, "; default %s", row->fallback);
		(void)fprintf(out, "%s\n    %s\n\n", row->reloadable ? "; reloadable" : "",
			      row->help);
	}
}
