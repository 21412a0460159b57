/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of rabbitmq.conf's form (management.md 6.1): "key = value" a line; "#" begins a comment unless
 * the value is in single quotes; $(NAME) is replaced by the environment variable before the line is
 * looked at; later lines win. Erlang terms (advanced.config) are recognised and refused.
 */
#include "server/settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/config.h"
#include "util/buf.h"
#include "util/mem.h"

#define FILE_SIZE_MAX (1024 * 1024)
#define LINE_SIZE_MAX (64 * 1024)

/* Where we are in which file. */
struct place {
	const char *name;	   // of the file; borrows
	unsigned line;		   // from 1
	struct settings *settings; // where settings go; borrows
	char *error;		   // CONFIG_ERROR_MAX octets; borrows
};

static int fail(const struct place *place, const char *format, ...) PRINTF_LIKE(2, 3);

static int
fail(const struct place *place, const char *format, ...)
{
	int n = snprintf(place->error, CONFIG_ERROR_MAX, "%s:%u: ", place->name, place->line);
	va_list arguments;

	if (n < 0 || n >= CONFIG_ERROR_MAX)
		return -EINVAL;
	va_start(arguments, format);
	(void)vsnprintf(place->error + n, CONFIG_ERROR_MAX - (size_t)n, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

static bool
is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static struct bytes
trim(struct bytes text)
{
	while (text.n > 0 && is_blank(text.p[0]))
		text = bytes_of(text.p + 1, text.n - 1);
	while (text.n > 0 && is_blank(text.p[text.n - 1]))
		text.n--;
	return text;
}

/* Octets in front of the first c; text.n when there is none. */
static size_t
find_octet(struct bytes text, char c)
{
	size_t n = 0;

	while (n < text.n && text.p[n] != (uint8_t)c)
		n++;
	return n;
}

static struct bytes
skip(struct bytes text, size_t n)
{
	return n < text.n ? bytes_of(text.p + n, text.n - n) : bytes_of(NULL, 0);
}

/* Replaces each $(NAME) by the variable's text. */
static int
interpolate(const struct place *place, struct bytes line, struct buf *out)
{
	buf_clear(out);
	while (line.n > 0) {
		size_t n = find_octet(line, '$');
		struct bytes name = skip(line, n + 2);
		size_t length = find_octet(name, ')');
		char variable[256];
		const char *value;

		buf_add_bytes(out, bytes_of(line.p, n));
		line = skip(line, n);
		if (line.n < 2 || line.p[1] != '(') {
			buf_add_bytes(out, bytes_of(line.p, line.n != 0 ? 1 : 0));
			line = skip(line, 1);
			continue;
		}
		if (length == name.n || length == 0 || length >= sizeof(variable))
			return fail(place, "$( begins the name of a variable, which ends with )");
		(void)snprintf(variable, sizeof(variable), "%.*s", (int)length,
			       (const char *)name.p);
		value = getenv(variable);
		if (value == NULL)
			return fail(place, "the environment variable %s is not set", variable);
		buf_add_str(out, value);
		line = skip(name, length + 1);
	}
	if (out->bad)
		return fail(place, "the line is longer than %d octets", LINE_SIZE_MAX);
	return 0;
}

/* What is behind the "=": in quotes, or up to a comment. */
static int
parse_value(const struct place *place, struct bytes text, struct bytes *value)
{
	*value = trim(text);
	if (value->n == 0 || value->p[0] != '\'') {
		value->n = find_octet(*value, '#');
		*value = trim(*value);
		return 0;
	}
	if (value->n < 2 || value->p[value->n - 1] != '\'')
		return fail(place, "a value that begins with ' must end with '; no comment may "
				   "stand behind it");
	*value = bytes_of(value->p + 1, value->n - 2);
	return 0;
}

static int
parse_line(const struct place *place, struct bytes line)
{
	size_t equals = find_octet(line, '=');
	size_t comment = find_octet(line, '#');
	char source[CONFIG_ERROR_MAX];
	struct bytes value;
	struct bytes key;

	if (comment < equals || equals == line.n) {
		line.n = comment;
		if (trim(line).n == 0)
			return 0;
		return fail(place, "a line is \"key = value\", and this one has no =");
	}
	key = trim(bytes_of(line.p, equals));
	for (size_t i = 0; i < key.n; i++)
		if (key.p[i] <= ' ' || key.p[i] == 0x7f)
			return fail(place, "the key \"%.*s\" has blanks", BYTES_ARGS(key));
	if (key.n == 0)
		return fail(place, "there is no key in front of =");
	if (parse_value(place, skip(line, equals + 1), &value) < 0)
		return -EINVAL;
	if (bytes_has_prefix(value, BYTES("encrypted:")))
		return fail(place, "%.*s: encrypted values cannot be read", BYTES_ARGS(key));
	(void)snprintf(source, sizeof(source), "%s:%u", place->name, place->line);
	settings_set(place->settings, SETTING_FILE, source, key, value);
	return 0;
}

/* Whether it is a list of Erlang terms: the first that is no comment is a bracket. */
static bool
is_erlang(struct bytes text)
{
	while (text.n > 0) {
		if (text.p[0] == '[' || text.p[0] == '{')
			return true;
		if (text.p[0] == '%')
			text = skip(text, find_octet(text, '\n'));
		else if (is_blank(text.p[0]) || text.p[0] == '\n')
			text = skip(text, 1);
		else
			return false;
	}
	return false;
}

int
settings_read_text(struct settings *settings, const char *name, struct bytes text, char *error)
{
	struct place place = {.name = name, .settings = settings, .error = error};
	struct buf line;
	int status = 0;

	if (is_erlang(text)) {
		(void)snprintf(error, CONFIG_ERROR_MAX,
			       "%s: this is Erlang's form (advanced.config), which cannot be read; "
			       "write \"key = value\" lines as in rabbitmq.conf",
			       name);
		return -EINVAL;
	}
	buf_init(&line, LINE_SIZE_MAX);
	while (text.n > 0 && status == 0) {
		size_t n = find_octet(text, '\n');
		struct bytes raw = trim(bytes_of(text.p, n));

		place.line++;
		text = skip(text, n + 1);
		if (raw.n == 0 || raw.p[0] == '#')
			continue;
		if (find_octet(raw, '\0') < raw.n)
			status = fail(&place, "there is a NUL in the line");
		else
			status = interpolate(&place, raw, &line);
		if (status == 0)
			status = parse_line(&place, buf_bytes(&line));
	}
	buf_fini(&line);
	return status;
}

/* ---- files ---- */

static int
read_whole(int fd, struct buf *out)
{
	for (;;) {
		uint8_t *room = buf_reserve(out, 4096);
		ssize_t n;

		if (room == NULL)
			return -EFBIG;
		n = read(fd, room, 4096);
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		out->n += (size_t)n;
	}
}

static int
read_one(struct settings *settings, const char *path, char *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct buf text;
	int status;

	buf_init(&text, FILE_SIZE_MAX);
	status = fd < 0 ? -errno : read_whole(fd, &text);
	if (status < 0) {
		(void)snprintf(error, CONFIG_ERROR_MAX, "cannot read %s: %s", path,
			       strerror(-status));
		status = -EINVAL;
	} else {
		status = settings_read_text(settings, path, buf_bytes(&text), error);
	}
	if (fd >= 0)
		close(fd);
	buf_fini(&text);
	return status;
}

/* Whether it is an empty list and nothing else. */
static bool
is_empty_erlang(struct bytes text)
{
	char seen[4] = "";
	size_t n = 0;

	while (text.n > 0) {
		if (text.p[0] == '%') {
			text = skip(text, find_octet(text, '\n'));
			continue;
		}
		if (!is_blank(text.p[0]) && text.p[0] != '\n') {
			if (n == sizeof(seen) - 1)
				return false;
			seen[n++] = (char)text.p[0];
		}
		text = skip(text, 1);
	}
	return n == 0 || strcmp(seen, "[].") == 0;
}

int
settings_refuse_advanced(const char *path, char *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct buf text;
	int status = 0;

	if (fd < 0)
		return 0;
	buf_init(&text, FILE_SIZE_MAX);
	if (read_whole(fd, &text) < 0 || !is_empty_erlang(buf_bytes(&text))) {
		(void)snprintf(error, CONFIG_ERROR_MAX,
			       "%s: this is Erlang's form, which cannot be read; move what it sets "
			       "to pannier.conf and take it away",
			       path);
		status = -EINVAL;
	}
	close(fd);
	buf_fini(&text);
	return status;
}

static int
compare_paths(const void *left, const void *right)
{
	const char *const *a = left;
	const char *const *b = right;

	return strcmp(*a, *b);
}

/* The folder of a path with a slash behind it, "" for the working directory. */
static int
folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? (int)(slash - path) + 1 : 0;
}

/* The paths of conf.d's files that are read, sorted; the caller frees them and the list. */
static char **
list_folder(const char *main_path, size_t *count)
{
	char name[4096];
	char **paths = NULL;
	struct dirent *entry;
	DIR *folder;

	*count = 0;
	(void)snprintf(name, sizeof(name), "%.*sconf.d", folder_length(main_path), main_path);
	folder = opendir(name);
	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		size_t n = strlen(entry->d_name);
		char path[sizeof(name) + sizeof(entry->d_name) + 1];

		if (n <= 5 || entry->d_name[0] == '.' || strcmp(entry->d_name + n - 5, ".conf"))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", name, entry->d_name);
		paths = xrealloc(paths, (*count + 1) * sizeof(*paths));
		paths[(*count)++] = xstrdup(path);
	}
	if (folder != NULL)
		closedir(folder);
	if (*count > 1)
		qsort(paths, *count, sizeof(*paths), compare_paths);
	return paths;
}

int
settings_read_file(struct settings *settings, const char *path, char *error)
{
	size_t count = 0;
	char **paths = NULL;
	char advanced[4096];
	int status = read_one(settings, path, error);

	if (status == 0)
		paths = list_folder(path, &count);
	for (size_t i = 0; i < count; i++) {
		if (status == 0)
			status = read_one(settings, paths[i], error);
		xfree(paths[i]);
	}
	xfree(paths);
	(void)snprintf(advanced, sizeof(advanced), "%.*sadvanced.config", folder_length(path),
		       path);
	return status == 0 ? settings_refuse_advanced(advanced, error) : status;
}
