/* SPDX-License-Identifier: Apache-2.0 */
/* Quirks of clients by the product that they name. */
#include "session/internal.h"

#include "lib/runner.h"

START_TEST(test_quirks_are_of_exact_products)
{
	ck_assert_uint_eq(quirks_of(BYTES("py-amqp")), QUIRK_QOS_LIVE);
	ck_assert_uint_eq(quirks_of(BYTES("py-amqp2")), 0);
	ck_assert_uint_eq(quirks_of(BYTES("PY-AMQP")), 0);
	ck_assert_uint_eq(quirks_of(BYTES("")), 0);
}
END_TEST

TESTS("quirks", test_quirks_are_of_exact_products)
