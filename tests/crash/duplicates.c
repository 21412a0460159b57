/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers that send again what they sent before (--deduplicate): after each kill everything that is not confirmed,
 * and as much again of what is. Each message has its number as its key, and goes the same way each time. What was
 * confirmed must come once; of what was not the first copy may have been handed out and then lost with its key.
 *
 *	exchange	the exchange knows what it had
 *	cache		each queue does
 *	queued		each queue knows what is in it; so nobody consumes before the end
 */
#include "crash/ledger.h"

#include <string.h>

#define CACHE_SIZE 100000 // more than is sent again
#define KEY "x-deduplication-header"

static amqp_table_entry_t
entry_bool(const char *name)
{
	return (amqp_table_entry_t){.key = amqp_cstring_bytes(name),
				    .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
}

static amqp_table_entry_t
entry_number(const char *name, int64_t number)
{
	return (amqp_table_entry_t){.key = amqp_cstring_bytes(name),
				    .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = number}};
}

static bool
is_asked(const char *what)
{
	return options.deduplicate && strcmp(options.deduplicate, what) == 0;
}

static amqp_table_t
arguments(int count)
{
	static amqp_table_entry_t entries[2];

	entries[0] = entry_bool("x-message-deduplication");
	entries[1] = entry_number("x-cache-size", CACHE_SIZE);
	return (amqp_table_t){.num_entries = count, .entries = count ? entries : NULL};
}

amqp_table_t
exchange_arguments(void)
{
	return arguments(is_asked("exchange") ? 2 : 0);
}

amqp_table_t
queue_arguments(void)
{
	static amqp_table_entry_t priority;

	if (options.levels) {
		priority = entry_number("x-max-priority", options.levels - 1);
		return (amqp_table_t){.num_entries = 1, .entries = &priority};
	}
	return arguments(is_asked("cache") ? 2 : is_asked("queued") ? 1 : 0);
}

void
add_message_key(amqp_basic_properties_t *properties, uint64_t number)
{
	static amqp_table_entry_t entry;

	/* publishers have keys of their own */
	entry = entry_number(KEY, (int64_t)((uint64_t)options.id << 48 | number));
	properties->_flags |= AMQP_BASIC_HEADERS_FLAG;
	properties->headers = (amqp_table_t){.num_entries = 1, .entries = &entry};
}

unsigned
same_queues(uint64_t number)
{
	return 1 + (unsigned)((number * 0x9e3779b97f4a7c15) >> 40) % ((1U << QUEUES) - 1);
}
