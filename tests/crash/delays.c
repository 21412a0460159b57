/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delayed messages under kills: the exchange holds each back for a time of its own, and nothing else is otherwise. A
 * message says when it is due, by the clock of this machine.
 */
#include "crash/ledger.h"

#include <string.h>

/* So much sooner may a message be sent, by its publisher's clock, than the broker's turn that reads it began. */
#define EARLY_US 100000

static const char delay_name[] = "x-delay";

void
declare_delayed(amqp_connection_state_t conn)
{
	amqp_table_entry_t type = {
		.key = amqp_cstring_bytes("x-delayed-type"),
		.value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("topic")},
	};

	amqp_exchange_declare(conn, 1, amqp_cstring_bytes(EXCHANGE),
			      amqp_cstring_bytes("x-delayed-message"), 0, 1, 0, 0,
			      (amqp_table_t){1, &type});
}

void
ask_for_delay(amqp_basic_properties_t *properties)
{
	static amqp_table_entry_t header;
	unsigned ms = random_below(options.delay);

	header = (amqp_table_entry_t){
		.key = amqp_cstring_bytes(delay_name),
		.value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = (int32_t)ms},
	};
	properties->_flags |= AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_TIMESTAMP_FLAG;
	properties->headers = (amqp_table_t){1, &header};
	properties->timestamp = now_us() + ms * 1000ULL;
}

void
look_at_delay(const amqp_basic_properties_t *properties)
{
	uint64_t now = now_us();
	const amqp_table_entry_t *header = properties->headers.entries;

	if (properties->headers.num_entries != 1 || header->key.len != strlen(delay_name) ||
	    memcmp(header->key.bytes, delay_name, header->key.len) != 0 ||
	    header->value.kind != AMQP_FIELD_KIND_I32 || header->value.value.i32 > 0)
		fault("a message does not say that it was held back");
	if (now + EARLY_US < properties->timestamp)
		fault("a message comes %llu us too soon",
		      (unsigned long long)(properties->timestamp - now));
}
