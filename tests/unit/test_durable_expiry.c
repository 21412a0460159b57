/* SPDX-License-Identifier: Apache-2.0 */
/* Queues that expire, over restarts. */
#include "unit/durable_fixture.h"

#include "util/log.h"
#include "wire/field.h"

static struct queue *
there(void)
{
	return queue_find(vhost_find(broker, BYTES("v")), BYTES("q"));
}

static struct bytes
expires_after_1000(uint8_t *room, size_t n)
{
	struct writer w = writer_of(room, n);

	table_put_long(&w, BYTES("x-expires"), 1000);
	return bytes_of(room, (size_t)(w.p - room));
}

/* What expires is not counted while nobody could use it, and when it is gone it stays so. */
START_TEST(test_expiry_begins_with_the_first_turn)
{
	uint8_t room[64];
	struct queue_spec spec = {.name = BYTES("q"), .durable = true};

	spec.arguments = expires_after_1000(room, sizeof(room));
	queue_create(vhost_create(broker, BYTES("v")), &spec);
	log_set_level(LOG_NONE);
	kill_broker();
	open_broker();
	deadlines_run(&deadlines, 500000); // of another run of the machine
	ck_assert_ptr_nonnull(there());
	deadlines_run(&deadlines, 500999);
	ck_assert_ptr_nonnull(there());
	deadlines_run(&deadlines, 501000);
	ck_assert_ptr_null(there());
	kill_broker();
	open_broker();
	ck_assert_ptr_null(there());
}
END_TEST

START_TEST(test_nothing_expires_in_a_recovery)
{
	struct broker *other = new_broker();
	struct queue_log log = {.id = 5, .next_qseq = 1};
	struct definition d = {
		.kind = DEFINITION_QUEUE, .vhost = BYTES("v"), .name = BYTES("q"), .queue_id = 5};
	uint8_t room[64];

	d.arguments = expires_after_1000(room, sizeof(room));
	other->recovering = true;
	broker_apply_definition(
		other, &(struct definition){.kind = DEFINITION_VHOST, .name = BYTES("v")}, NULL);
	broker_apply_definition(other, &d, &log);
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
	broker_end_recovery(other);
	ck_assert_uint_eq(deadlines_next(&deadlines), 0);
	broker_free(&other);
	ck_assert_uint_eq(deadlines_next(&deadlines), UINT64_MAX);
}
END_TEST

TESTS_WITH("durable_expiry", durable_set_up, durable_tear_down,
	   test_expiry_begins_with_the_first_turn, test_nothing_expires_in_a_recovery)
