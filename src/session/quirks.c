/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What single clients need, by the product that they name at the start (amqp.md 12): quirks.def.
 */
#include "internal.h"

static const struct {
	const char *product;
	unsigned quirks; // enum client_quirk, or-ed
} table[] = {
#define QUIRK(product_, quirks_) {product_, quirks_},
#include "quirks.def"
};

unsigned
quirks_of(struct bytes product)
{
	for (size_t i = 0; i < countof(table); i++)
		if (bytes_equal(product, bytes_str(table[i].product)))
			return table[i].quirks;
	return 0;
}
