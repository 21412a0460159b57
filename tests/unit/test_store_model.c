/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random work against a model: the ledger of the fixture, which says what a store must hold at
 * any LSN. Each run is a seed, printed; after every reopening, clean or not, the recovered
 * definitions and open messages must equal the ledger's, and the counters a recount.
 *
 * STORE_MODEL_SEEDS: how many seeds; STORE_MODEL_SEED: the first one.
 */
#include "store/store.h"

#include <stdio.h>
#include <time.h>

#include "lib/runner.h"
#include "lib/store_fixture.h"

#define STEPS 1200
#define SEEDS 1000
#define SECONDS 4 /* when the environment does not say how many seeds */

static unsigned long long operations;
static unsigned long long reopenings;

static unsigned long long
number_from(const char *name, unsigned long long otherwise)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* Stops in one of the ways there are and starts again. */
static void
reopen(struct store_fixture *f)
{
	uint64_t how = store_fixture_random(f, 6);

	if (store_fixture_random(f, 2) == 0)
		store_fixture_flush(f);
	switch (how) {
	case 0:
	case 1:
		ck_assert_int_eq(store_fixture_close(f, true), 0);
		break;
	case 2:
		ck_assert_int_eq(store_fixture_close(f, false), 0);
		break;
	case 3:
		store_fixture_kill(f);
		break;
	default:
		store_fixture_crash(f, SIM_EVERYTHING, 0);
		break;
	}
	ck_assert_msg(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
	reopenings++;
}

static void
run_seed(uint64_t seed)
{
	struct store_fixture f;

	store_fixture_init(&f, seed);
	f.options.file_size = (uint64_t)(64 * 1024) << store_fixture_random(&f, 5);
	f.options.buffer_size = 4096U << store_fixture_random(&f, 8);
	f.options.checkpoint_size = 4096U << store_fixture_random(&f, 10);
	f.options.flush_when_idle = store_fixture_random(&f, 4) != 0;
	ck_assert_msg(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	for (unsigned i = 0; i < STEPS; i++) {
		store_fixture_step(&f);
		if (store_fixture_random(&f, 100) == 0)
			reopen(&f);
		if (i % 16 == 0)
			store_fixture_check(&f);
	}
	store_fixture_flush(&f);
	store_fixture_check(&f);
	reopen(&f);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	ck_assert_msg(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	store_fixture_fini(&f);
	operations += STEPS;
}

START_TEST(test_recovers_what_the_model_says)
{
	uint64_t first = number_from("STORE_MODEL_SEED", (unsigned long long)time(NULL));
	uint64_t seeds = number_from("STORE_MODEL_SEEDS", 0);
	time_t until = seeds == 0 ? time(NULL) + SECONDS : 0;
	uint64_t done = 0;

	for (; done < (seeds == 0 ? SEEDS : seeds) && (until == 0 || time(NULL) < until); done++) {
		/* when it fails, this is the seed to start with */
		printf("\rstore model: seed %llu ", (unsigned long long)(first + done));
		fflush(stdout);
		run_seed(first + done);
	}
	printf("\rstore model: %llu seeds from %llu, %llu operations, %llu reopenings, 0 "
	       "mismatches\n",
	       (unsigned long long)done, (unsigned long long)first, operations, reopenings);
}
END_TEST

TESTS("store_model", test_recovers_what_the_model_says)
