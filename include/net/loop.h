/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file that runs libevent's loop: waits until a deadline, a socket, a signal or a mailbox has
 * something. Callbacks only mark; the turn works. Broker thread.
 */
#pragma once

#include "util/base.h"

struct loop;
struct mailbox;
struct event_base;

/* NULL when the system refuses (errno says why). Caller owns. SIGPIPE is ignored from now on, in the
 * whole process: a write to a peer that is gone is an error like others. */
struct loop *loop_new(void);
void loop_free(struct loop **loop);
/* Waits for events until wait_ms have passed (0: not at all; UINT64_MAX: for ever) and runs their
 * callbacks once. */
void loop_wait(struct loop *loop, uint64_t wait_ms);
/* The next wait that would go beyond this time of clock_monotonic_us() ends then. */
void loop_wake_at(struct loop *loop, uint64_t at_us);
/* Calls back (inside loop_wait) when the process gets the signal. 0 or a negative errno. */
int loop_on_signal(struct loop *loop, int signal_number, void (*run)(void *context),
		   void *context) MUST_CHECK;
/* Wakes loop_wait when a letter is posted; the turn drains. 0 or a negative errno. */
int loop_on_mailbox(struct loop *loop, struct mailbox *mailbox) MUST_CHECK;
/* For net/ alone. */
struct event_base *loop_base(struct loop *loop);
