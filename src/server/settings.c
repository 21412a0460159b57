/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of settings. It is short (a file has tens of keys), so it is searched from end to end.
 */
#include "server/settings.h"

#include <stdlib.h>

#include "util/mem.h"

void
settings_init(struct settings *settings)
{
	*settings = (struct settings){.items = NULL};
}

static void
free_setting(struct setting *setting)
{
	xfree(setting->key);
	xfree(setting->value);
	xfree(setting->source);
}

void
settings_fini(struct settings *settings)
{
	for (size_t i = 0; i < settings->count; i++)
		free_setting(&settings->items[i]);
	for (size_t i = 0; i < settings->note_count; i++)
		free_setting(&settings->notes[i]);
	xfree(settings->items);
	xfree(settings->notes);
	settings_init(settings);
}

void
settings_copy(struct settings *to, const struct settings *from)
{
	settings_init(to);
	for (size_t i = 0; i < from->count; i++)
		settings_set(to, from->items[i].rank, from->items[i].source,
			     bytes_str(from->items[i].key), bytes_str(from->items[i].value));
	for (size_t i = 0; i < from->note_count; i++)
		settings_note(to, from->notes[i].source, from->notes[i].value);
}

static size_t
find_place(const struct settings *settings, struct bytes key)
{
	size_t i = 0;

	while (i < settings->count && !bytes_equal(bytes_str(settings->items[i].key), key))
		i++;
	return i;
}

void
settings_set(struct settings *settings, enum setting_rank rank, const char *source,
	     struct bytes key, struct bytes value)
{
	size_t place = find_place(settings, key);

	assert(rank != SETTING_NONE);
	if (place < settings->count) {
		if (settings->items[place].rank > rank)
			return;
		free_setting(&settings->items[place]);
	} else {
		if (settings->count == settings->room) {
			settings->room = settings->room != 0 ? 2 * settings->room : 16;
			settings->items = xrealloc(settings->items,
						   settings->room * sizeof(*settings->items));
		}
		settings->count++;
	}
	settings->items[place] = (struct setting){
		.key = xstrndup(key),
		.value = xstrndup(value),
		.source = xstrdup(source),
		.rank = rank,
	};
}

void
settings_note(struct settings *settings, const char *source, const char *text)
{
	settings->notes =
		xrealloc(settings->notes, (settings->note_count + 1) * sizeof(*settings->notes));
	settings->notes[settings->note_count++] = (struct setting){
		.value = xstrdup(text),
		.source = xstrdup(source),
	};
}

const struct setting *
settings_find(const struct settings *settings, const char *key)
{
	size_t place = find_place(settings, bytes_str(key));

	return place < settings->count ? &settings->items[place] : NULL;
}

static int
compare_settings(const void *left, const void *right)
{
	const struct setting *a = left;
	const struct setting *b = right;

	return strverscmp(a->key, b->key);
}

void
settings_sort(struct settings *settings)
{
	if (settings->count > 1)
		qsort(settings->items, settings->count, sizeof(*settings->items), compare_settings);
}
