/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only wire/ sees: the table of field types.
 */
#pragma once

#include "wire/field.h"

struct field_type {
	const char *name;	// RabbitMQ's, in error texts; NULL when the letter is no type
	enum field_class class; // what it is apart from its width
	uint8_t size;		// octets of the value; 0 for V and where has_length
	bool has_length;	// four octets of length in front
	bool has_sign;		// an integer in two's complement
};

/* NULL when the letter is no type. */
const struct field_type *field_type_of(uint8_t letter);
