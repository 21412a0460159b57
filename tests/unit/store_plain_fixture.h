/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of a store without a cold part share: one fixture, open before each test.
 */
#pragma once

#include "lib/runner.h"
#include "lib/store_fixture.h"

static struct store_fixture f;

static inline void
open_it(void)
{
	int error = store_fixture_open(&f);

	ck_assert_msg(error == 0, "%s", buf_cstr(&f.error));
}

static inline void
set_up(void)
{
	store_fixture_init(&f, 1);
	open_it();
	store_fixture_flush(&f);
}

static inline void
tear_down(void)
{
	store_fixture_fini(&f);
}

/* A queue with n messages, all stable. */
static inline uint32_t
queue_of(unsigned n)
{
	uint32_t queue = store_fixture_queue(&f);

	while (n-- > 0)
		store_fixture_publish(&f, &queue, 1, 100);
	store_fixture_flush(&f);
	return queue;
}

static inline uint64_t
octets_written(void)
{
	return f.sim->counts.octets_written;
}
