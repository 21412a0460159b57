/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mailbox: a stack that posters push onto with one compare-and-swap, and that the owner takes
 * whole and turns round. No lock, and no letter is touched by its poster once it is on the stack.
 *
 * The wake-up. The owner sets `asleep`, then looks whether letters are there; a poster pushes its
 * letter, then looks whether the owner is asleep. Both pairs are sequentially consistent, so at
 * least one of the two sees the other. Who changes `asleep` from true to false, poster or owner,
 * has decided who wakes: a poster that does it owes the eventfd a 1.
 *
 * The owner counts what it is owed, because a poster may be slow to write: a 1 that comes late
 * wakes the owner once for nothing, and the drain after that takes it off, so the eventfd never
 * stays readable.
 */
#include "util/mailbox.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/mem.h"

struct mailbox {
	_Atomic(struct letter *) top; // the letter posted last
	atomic_bool asleep;	      // the owner wants an eventfd to be written
	bool said_asleep;	      // owner only: it set asleep and has not looked since
	uint64_t owed;		      // owner only: ones that posters wrote or are about to
	int fd;			      // owns
};

struct mailbox *
mailbox_new(void)
{
	struct mailbox *mailbox = xcalloc(1, sizeof(*mailbox));

	atomic_init(&mailbox->top, NULL);
	atomic_init(&mailbox->asleep, false);
	mailbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert(mailbox->fd >= 0);
	return mailbox;
}

void
mailbox_free(struct mailbox **mailbox)
{
	if (*mailbox == NULL)
		return;
	assert(atomic_load(&(*mailbox)->top) == NULL);
	close((*mailbox)->fd);
	xfree(*mailbox);
	*mailbox = NULL;
}

static void
wake(struct mailbox *mailbox)
{
	uint64_t one = 1;
	ssize_t written;

	do {
		written = write(mailbox->fd, &one, sizeof(one));
	} while (written < 0 && errno == EINTR);
	assert(written == (ssize_t)sizeof(one));
}

void
mailbox_post(struct mailbox *mailbox, struct letter *letter)
{
	struct letter *top = atomic_load_explicit(&mailbox->top, memory_order_relaxed);

	do {
		letter->next = top;
	} while (!atomic_compare_exchange_weak(&mailbox->top, &top, letter));
	/* The load first: an owner that is awake costs no exclusive access to the line. */
	if (atomic_load(&mailbox->asleep) && atomic_exchange(&mailbox->asleep, false))
		wake(mailbox);
}

/* The owner is awake: withdraws asleep, or takes note that a poster did. */
static void
wake_up(struct mailbox *mailbox)
{
	uint64_t value = 0;

	if (mailbox->said_asleep) {
		mailbox->said_asleep = false;
		if (!atomic_exchange(&mailbox->asleep, false))
			mailbox->owed++;
	}
	if (mailbox->owed > 0 && read(mailbox->fd, &value, sizeof(value)) > 0) {
		assert(value <= mailbox->owed);
		mailbox->owed -= value;
	}
}

struct letter *
mailbox_drain(struct mailbox *mailbox)
{
	struct letter *letter;
	struct letter *oldest = NULL;

	wake_up(mailbox);
	if (atomic_load_explicit(&mailbox->top, memory_order_relaxed) == NULL)
		return NULL;
	letter = atomic_exchange(&mailbox->top, NULL);
	while (letter != NULL) {
		struct letter *next = letter->next;

		letter->next = oldest;
		oldest = letter;
		letter = next;
	}
	return oldest;
}

bool
mailbox_sleep(struct mailbox *mailbox)
{
	wake_up(mailbox);
	mailbox->said_asleep = true;
	atomic_store(&mailbox->asleep, true);
	if (atomic_load(&mailbox->top) == NULL)
		return true;
	wake_up(mailbox);
	return false;
}

int
mailbox_fd(const struct mailbox *mailbox)
{
	return mailbox->fd;
}
