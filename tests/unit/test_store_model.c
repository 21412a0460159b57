/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random work against a model: the ledger of the fixture, which says what a store must hold at
 * any LSN. Each run is a seed, printed; after every reopening, clean or not, the recovered
 * definitions and open messages must equal the ledger's, and the counters a recount.
 */
#include "store/store.h"

#include "lib/runner.h"
#include "lib/store_fixture.h"

#define STEPS 1200

static void
run_seed(struct store_fixture *f)
{
	f->timed = store_fixture_random(f, 2) == 0;
	f->options.file_size = (uint64_t)(64 * 1024) << store_fixture_random(f, 5);
	f->options.buffer_size = 4096U << store_fixture_random(f, 8);
	f->options.checkpoint_size = 4096U << store_fixture_random(f, 10);
	f->options.flush_when_idle = store_fixture_random(f, 4) != 0;
	ck_assert_msg(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
	for (unsigned i = 0; i < STEPS; i++) {
		store_fixture_step(f);
		if (store_fixture_random(f, 100) == 0)
			store_fixture_reopen(f);
		if (i % 16 == 0)
			store_fixture_check(f);
	}
	store_fixture_flush(f);
	store_fixture_check(f);
	store_fixture_reopen(f);
	ck_assert_int_eq(store_fixture_close(f, true), 0);
	ck_assert_msg(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
}

START_TEST(test_recovers_what_the_model_says)
{
	store_fixture_run_seeds("store model", run_seed);
}
END_TEST

TESTS("store_model", test_recovers_what_the_model_says)
