/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only way between threads: a queue of letters and a wake-up. Any thread may post; one thread,
 * the owner, drains. The wake-up is an eventfd, written only when the owner says that it sleeps.
 */
#pragma once

#include "util/base.h"

struct letter {
	struct letter *next; // owned by the mailbox while posted
};

struct mailbox;

/* Caller owns. */
struct mailbox *mailbox_new(void);
/* Must be empty. */
void mailbox_free(struct mailbox **mailbox);
/* Hands the letter over; order per poster is kept. Any thread. */
void mailbox_post(struct mailbox *mailbox, struct letter *letter);
/* All letters so far, oldest first, linked by next; NULL when none. Owner only. */
struct letter *mailbox_drain(struct mailbox *mailbox);
/* Says that the owner is about to sleep on mailbox_fd(); true when it may, false when letters are
 * there already. Owner only. */
bool mailbox_sleep(struct mailbox *mailbox);
/* Readable when a letter was posted to a sleeping owner; mailbox_drain clears it. */
int mailbox_fd(const struct mailbox *mailbox);
