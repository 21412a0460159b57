/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random work on queues of which a part is cold, against a model: the ledger of the fixture, which knows
 * of each reference whether it is in memory. Each run is a seed, printed. After every step numbers are
 * compared with a recount: messages and octets of each queue and of its cold part, open references of each
 * segment; every message that is read is compared with what was published; after a reopening all is cold,
 * and in half of them is read out and compared.
 */
#include "store/store.h"

#include "lib/runner.h"
#include "lib/store_fixture.h"

#define STEPS 800

/* Everything that is cold comes back. */
static void
read_out_all(struct store_fixture *f)
{
	for (uint32_t i = 0; i < f->ledger.queue_count; i++)
		if (f->ledger.queues[i].log != NULL)
			store_fixture_read_out(f, i, 50, 50000);
}

static void
run_seed(struct store_fixture *f)
{
	f->cold = true;
	f->timed = store_fixture_random(f, 4) != 0;
	f->options.file_size = (uint64_t)(8 * 1024) << store_fixture_random(f, 6);
	f->options.buffer_size = 4096U << store_fixture_random(f, 8);
	f->options.checkpoint_size = 4096U << store_fixture_random(f, 10);
	f->options.flush_when_idle = store_fixture_random(f, 4) != 0;
	f->options.garbage_files = store_fixture_random(f, 4) == 0 ? UINT32_MAX : 3;
	ck_assert_msg(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
	for (unsigned i = 0; i < STEPS; i++) {
		store_fixture_step(f);
		if (store_fixture_random(f, 100) == 0)
			store_fixture_reopen(f);
		/* a checkpoint may not come too soon after the last one */
		if (store_fixture_random(f, 20) == 0)
			f->now.monotonic_ms += 1000;
		store_fixture_check(f);
	}
	read_out_all(f);
	store_fixture_flush(f);
	store_fixture_check(f);
	store_fixture_reopen(f);
	ck_assert_int_eq(store_fixture_close(f, true), 0);
	f->skips = false;
	ck_assert_msg(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
}

START_TEST(test_cold_parts_are_what_the_model_says)
{
	store_fixture_run_seeds("cold model", run_seed);
}
END_TEST

TESTS("store_cold_model", test_cold_parts_are_what_the_model_says)
