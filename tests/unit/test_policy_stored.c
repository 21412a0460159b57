/* SPDX-License-Identifier: Apache-2.0 */
/* A policy over a million messages that wait, all but a window of them on the disk. */
#include "unit/life_stored_fixture.h"

#include "broker/policy.h"

#define MANY 1000000

static void
set_ttl(int64_t ms)
{
	uint8_t octets[64];
	struct writer w = writer_of(octets, sizeof(octets));
	struct policy_spec spec = {.name = BYTES("p"), .pattern = BYTES(".*")};

	table_put_long(&w, BYTES("message-ttl"), ms);
	spec.definition = bytes_of(octets, (size_t)(w.p - octets));
	ck_assert_ptr_null(policy_check(POLICY_USER, &spec));
	policy_put(vhost, POLICY_USER, &spec);
}

START_TEST(test_limit_comes_and_goes_at_once)
{
	struct queue *q = declare("q");
	uint64_t begin_ms;

	for (uint32_t i = 0; i < MANY; i++)
		send(q, i, 1);
	live(1000);
	ck_assert_uint_eq(queue_message_count(q), MANY);
	set_ttl(60000);
	live(30000);
	policy_remove(policy_find(vhost, POLICY_USER, BYTES("p")));
	live(60000);
	ck_assert_uint_eq(queue_message_count(q), MANY);
	begin_ms = present_now.monotonic_ms;
	set_ttl(1000);
	work_off();
	ck_assert_uint_eq(present_now.monotonic_ms, begin_ms);
	ck_assert_uint_eq(queue_message_count(q), 0);
}
END_TEST

TESTS_WITH("policy_stored", cold_set_up, cold_tear_down, test_limit_comes_and_goes_at_once)
