/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random work on queues of which a part is cold, against a model: the ledger of the fixture, which knows
 * of each reference whether it is in memory. Each run is a seed, printed. After every step numbers are
 * compared with a recount: messages and octets of each queue and of its cold part, open references of each
 * segment; every message that is read is compared with what was published; after a reopening all is cold,
 * and in half of them is read out and compared.
 *
 * STORE_MODEL_SEEDS: how many seeds; STORE_MODEL_SEED: the first one.
 */
#include "store/store.h"

#include <stdio.h>
#include <time.h>

#include "lib/runner.h"
#include "lib/store_fixture.h"

#define STEPS 800
#define SEEDS 1000
#define SECONDS 4 /* when the environment does not say how many seeds */

static unsigned long long operations;
static unsigned long long reopenings;
static unsigned long long reads;

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
	f->skips = store_fixture_random(f, 2) == 0;
	ck_assert_msg(store_fixture_open(f) == 0, "%s", buf_cstr(&f->error));
	reopenings++;
}

/* Everything that is cold comes back. */
static void
read_out_all(struct store_fixture *f)
{
	for (uint32_t i = 0; i < f->ledger.queue_count; i++)
		if (f->ledger.queues[i].log != NULL)
			store_fixture_read_out(f, i, 50, 50000);
}

static void
run_seed(uint64_t seed)
{
	struct store_fixture f;

	store_fixture_init(&f, seed);
	f.cold = true;
	f.options.file_size = (uint64_t)(8 * 1024) << store_fixture_random(&f, 6);
	f.options.buffer_size = 4096U << store_fixture_random(&f, 8);
	f.options.checkpoint_size = 4096U << store_fixture_random(&f, 10);
	f.options.flush_when_idle = store_fixture_random(&f, 4) != 0;
	f.options.garbage_files = store_fixture_random(&f, 4) == 0 ? UINT32_MAX : 3;
	ck_assert_msg(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	for (unsigned i = 0; i < STEPS; i++) {
		store_fixture_step(&f);
		if (store_fixture_random(&f, 100) == 0)
			reopen(&f);
		/* a checkpoint may not come too soon after the last one */
		if (store_fixture_random(&f, 20) == 0)
			f.now.monotonic_ms += 1000;
		store_fixture_check(&f);
	}
	read_out_all(&f);
	store_fixture_flush(&f);
	store_fixture_check(&f);
	reopen(&f);
	ck_assert_int_eq(store_fixture_close(&f, true), 0);
	f.skips = false;
	ck_assert_msg(store_fixture_open(&f) == 0, "%s", buf_cstr(&f.error));
	reads += f.read_ends;
	store_fixture_fini(&f);
	operations += STEPS;
}

START_TEST(test_cold_parts_are_what_the_model_says)
{
	uint64_t first = number_from("STORE_MODEL_SEED", (unsigned long long)time(NULL));
	uint64_t seeds = number_from("STORE_MODEL_SEEDS", 0);
	time_t until = seeds == 0 ? time(NULL) + SECONDS : 0;
	uint64_t done = 0;

	for (; done < (seeds == 0 ? SEEDS : seeds) && (until == 0 || time(NULL) < until); done++) {
		/* when it fails, this is the seed to start with */
		printf("\rcold model: seed %llu ", (unsigned long long)(first + done));
		fflush(stdout);
		run_seed(first + done);
	}
	printf("\rcold model: %llu seeds from %llu, %llu operations, %llu reads, %llu reopenings, "
	       "0 "
	       "mismatches\n",
	       (unsigned long long)done, (unsigned long long)first, operations, reads, reopenings);
}
END_TEST

TESTS("store_cold_model", test_cold_parts_are_what_the_model_says)
