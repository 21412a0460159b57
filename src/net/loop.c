/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: libevent's, entered once a turn. It has no timers of its own but one timerfd, which is set
 * only when a wait must end before the time it is set to: with the coarse clock of libevent's timers a
 * wait of 1 ms could take 5, and its precise ones cost a system call each wait. Waking early is
 * harmless: the turn finds nothing due. Broker thread.
 */
#include "net/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "util/clock.h"
#include "util/list.h"
#include "util/mailbox.h"
#include "util/mem.h"

/* A wait is at most this long, so that sums of times do not overflow. */
#define WAIT_MAX_MS 86400000

/* A signal or a mailbox. */
struct watch {
	struct list_link link;	    // in loop.watches
	struct event *event;	    // owns
	struct mailbox *mailbox;    // borrows until loop_free; NULL for a signal
	void (*run)(void *context); // for a signal
	void *context;		    // borrows until loop_free
};

struct loop {
	struct event_base *base; // owns
	struct event *timer;	 // owns; readable when the timerfd fires
	int timer_fd;		 // owns
	uint64_t timer_at_us;	 // when it fires; 0 when it is not set
	struct list watches;	 // watch.link
};

static void
on_timer(evutil_socket_t fd, short what UNUSED, void *context)
{
	struct loop *loop = context;
	uint64_t count;

	if (read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
		loop->timer_at_us = 0;
}

static struct event_base *
base_new(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config == NULL)
		return NULL;
	if (event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0)
		base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

struct loop *
loop_new(void)
{
	struct loop *loop = xcalloc(1, sizeof(*loop));

	list_init(&loop->watches);
	/* OpenSSL writes to its sockets with plain write(). */
	signal(SIGPIPE, SIG_IGN);
	loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (loop->timer_fd >= 0)
		loop->base = base_new();
	if (loop->base != NULL)
		loop->timer =
			event_new(loop->base, loop->timer_fd, EV_READ | EV_PERSIST, on_timer, loop);
	if (loop->timer == NULL || event_add(loop->timer, NULL) != 0)
		loop_free(&loop);
	return loop;
}

void
loop_free(struct loop **loop)
{
	struct watch *watch;
	int saved = errno;

	if (*loop == NULL)
		return;
	list_for_each_safe (&(*loop)->watches, watch, struct watch, link) {
		event_free(watch->event);
		xfree(watch);
	}
	if ((*loop)->timer != NULL)
		event_free((*loop)->timer);
	if ((*loop)->base != NULL)
		event_base_free((*loop)->base);
	if ((*loop)->timer_fd >= 0)
		close((*loop)->timer_fd);
	xfree(*loop);
	*loop = NULL;
	errno = saved;
}

void
loop_wake_at(struct loop *loop, uint64_t at_us)
{
	struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(at_us / 1000000),
					       .tv_nsec = (long)(at_us % 1000000) * 1000}};

	if (loop->timer_at_us != 0 && loop->timer_at_us <= at_us)
		return;
	if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0)
		loop->timer_at_us = at_us;
}

/* Tells the mailboxes that their owner is going to sleep; false when a letter is there already. */
static bool
mailboxes_sleep(struct loop *loop)
{
	struct watch *watch;

	list_for_each (&loop->watches, watch, struct watch, link) {
		if (watch->mailbox != NULL && !mailbox_sleep(watch->mailbox))
			return false;
	}
	return true;
}

void
loop_wait(struct loop *loop, uint64_t wait_ms)
{
	int flags = EVLOOP_ONCE;

	assert_thread(THREAD_BROKER);
	if (wait_ms == 0 || !mailboxes_sleep(loop))
		flags |= EVLOOP_NONBLOCK;
	else if (wait_ms != UINT64_MAX)
		loop_wake_at(loop,
			     (clock_monotonic_us() / 1000 + min_u64(wait_ms, WAIT_MAX_MS)) * 1000);
	event_base_loop(loop->base, flags);
}

static int
watch_add(struct loop *loop, struct watch *watch)
{
	if (watch->event == NULL || event_add(watch->event, NULL) != 0) {
		if (watch->event != NULL)
			event_free(watch->event);
		xfree(watch);
		return -ENOMEM;
	}
	list_append(&loop->watches, &watch->link);
	return 0;
}

static void
on_signal(evutil_socket_t signal_number UNUSED, short what UNUSED, void *context)
{
	struct watch *watch = context;

	watch->run(watch->context);
}

int
loop_on_signal(struct loop *loop, int signal_number, void (*run)(void *context), void *context)
{
	struct watch *watch = xcalloc(1, sizeof(*watch));

	watch->run = run;
	watch->context = context;
	watch->event = evsignal_new(loop->base, signal_number, on_signal, watch);
	return watch_add(loop, watch);
}

/* The letters are taken by the turn, which clears the wake-up. */
static void
on_mailbox(evutil_socket_t fd UNUSED, short what UNUSED, void *context UNUSED)
{
}

int
loop_on_mailbox(struct loop *loop, struct mailbox *mailbox)
{
	struct watch *watch = xcalloc(1, sizeof(*watch));

	watch->mailbox = mailbox;
	watch->event =
		event_new(loop->base, mailbox_fd(mailbox), EV_READ | EV_PERSIST, on_mailbox, watch);
	return watch_add(loop, watch);
}

struct event_base *
loop_base(struct loop *loop)
{
	return loop->base;
}
