/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: what ends a wait. That a wait ends at all is the test; how soon is not asked. */
#include "net/loop.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/mailbox.h"
#include "util/mem.h"

#include "lib/runner.h"

static struct loop *loop;
static int signals;

static void
set_up(void)
{
	loop = loop_new();
	ck_assert_ptr_nonnull(loop);
}

static void
tear_down(void)
{
	loop_free(&loop);
	ck_assert_ptr_null(loop);
}

static void
count_signal(void *context)
{
	*(int *)context += 1;
}

START_TEST(test_no_wait_returns_with_nothing_to_do)
{
	for (int i = 0; i < 10; i++)
		loop_wait(loop, 0);
}
END_TEST

START_TEST(test_wait_ends_in_time)
{
	uint64_t start = clock_read().monotonic_ms;

	loop_wait(loop, 20);
	ck_assert_uint_ge(clock_read().monotonic_ms, start + 19);
	loop_wait(loop, 1);
	loop_wait(loop, 2);
}
END_TEST

START_TEST(test_a_wake_up_ends_an_endless_wait)
{
	uint64_t at_us = clock_monotonic_us() + 1500;

	loop_wake_at(loop, at_us);
	loop_wait(loop, UINT64_MAX);
	ck_assert_uint_ge(clock_monotonic_us(), at_us);
	/* one that is past already too */
	loop_wake_at(loop, at_us);
	loop_wait(loop, UINT64_MAX);
}
END_TEST

START_TEST(test_a_shorter_wait_after_a_longer_one)
{
	ck_assert_int_eq(loop_on_signal(loop, SIGUSR1, count_signal, &signals), 0);
	raise(SIGUSR1);
	loop_wait(loop, 3600000);
	ck_assert_int_eq(signals, 1);
	loop_wait(loop, 5);
	ck_assert_int_eq(signals, 1);
}
END_TEST

START_TEST(test_signal_calls_back)
{
	ck_assert_int_eq(loop_on_signal(loop, SIGUSR1, count_signal, &signals), 0);
	loop_wait(loop, 0);
	ck_assert_int_eq(signals, 0);
	kill(getpid(), SIGUSR1);
	while (signals == 0)
		loop_wait(loop, UINT64_MAX);
	ck_assert_int_eq(signals, 1);
}
END_TEST

static void *
post_one(void *mailbox)
{
	mailbox_post(mailbox, xcalloc(1, sizeof(struct letter)));
	return NULL;
}

START_TEST(test_mailbox_wakes)
{
	struct mailbox *mailbox = mailbox_new();
	int got = 0;

	ck_assert_int_eq(loop_on_mailbox(loop, mailbox), 0);
	for (int i = 0; i < 100; i++) {
		pthread_t thread;

		ck_assert_int_eq(pthread_create(&thread, NULL, post_one, mailbox), 0);
		while (got <= i) {
			struct letter *letter;

			loop_wait(loop, UINT64_MAX);
			while ((letter = mailbox_drain(mailbox)) != NULL) {
				ck_assert_ptr_null(letter->next);
				xfree(letter);
				got++;
			}
		}
		pthread_join(thread, NULL);
	}
	loop_free(&loop);
	mailbox_free(&mailbox);
}
END_TEST

START_TEST(test_letter_that_is_there_lets_nobody_sleep)
{
	struct mailbox *mailbox = mailbox_new();

	ck_assert_int_eq(loop_on_mailbox(loop, mailbox), 0);
	post_one(mailbox);
	loop_wait(loop, UINT64_MAX);
	xfree(mailbox_drain(mailbox));
	loop_free(&loop);
	mailbox_free(&mailbox);
}
END_TEST

TESTS_WITH("loop", set_up, tear_down, test_no_wait_returns_with_nothing_to_do,
	   test_wait_ends_in_time, test_a_wake_up_ends_an_endless_wait,
	   test_a_shorter_wait_after_a_longer_one, test_signal_calls_back, test_mailbox_wakes,
	   test_letter_that_is_there_lets_nobody_sleep)
