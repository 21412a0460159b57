/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that works through its mail: the store thread and the helper thread are two of these. What it
 * gets it alone touches until it has sent it back. Tests start no thread and step the worker.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "internal.h"

static void
run_stop(struct mail *mail)
{
	struct worker *worker = container_of(mail, struct worker, stop);

	worker->ended = true;
}

void
worker_init(struct worker *worker, enum thread_role role, struct mailbox *outbox)
{
	*worker = (struct worker){
		.inbox = mailbox_new(),
		.outbox = outbox,
		.role = role,
		.stop = {.run = run_stop},
	};
}

static bool
run_letters(struct worker *worker)
{
	struct letter *letter = mailbox_drain(worker->inbox);
	bool any = letter != NULL;

	while (letter != NULL) {
		struct mail *mail = container_of(letter, struct mail, letter);

		letter = letter->next;
		mail->run(mail);
		if (mail != &worker->stop)
			mailbox_post(worker->outbox, &mail->letter);
	}
	return any;
}

static void
wait_for_mail(struct worker *worker)
{
	struct pollfd poll_for = {.fd = mailbox_fd(worker->inbox), .events = POLLIN};

	if (mailbox_sleep(worker->inbox))
		while (poll(&poll_for, 1, -1) < 0)
			assert(errno == EINTR);
}

static void *
work(void *context)
{
	struct worker *worker = context;

	thread_role = worker->role;
	while (!worker->ended)
		if (!run_letters(worker))
			wait_for_mail(worker);
	return NULL;
}

void
worker_start(struct worker *worker)
{
	sigset_t all;
	sigset_t before;
	int error;

	/* signals are the broker thread's */
	assert(sigfillset(&all) == 0);
	assert(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	error = pthread_create(&worker->thread, NULL, work, worker);
	assert(error == 0);
	assert(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	worker->running = true;
}

void
worker_stop(struct worker *worker)
{
	if (!worker->running)
		return;
	worker_send(worker, &worker->stop);
	assert(pthread_join(worker->thread, NULL) == 0);
	worker->running = false;
}

void
worker_send(struct worker *worker, struct mail *mail)
{
	mailbox_post(worker->inbox, &mail->letter);
}

bool
worker_step(struct worker *worker)
{
	assert(!worker->running);
	return run_letters(worker);
}

void
worker_fini(struct worker *worker)
{
	assert(!worker->running);
	mailbox_free(&worker->inbox);
}
