/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mailbox, alone and with threads that post while the owner drains and sleeps. Under the thread
 * sanitizer the last two also show that the letters' content needs no other synchronisation.
 */
#include "util/mailbox.h"

#include <poll.h>
#include <pthread.h>

#include "util/mem.h"

#include "lib/runner.h"

#define POSTERS 2
#define LETTERS 20000

struct note {
	struct letter letter; // what is posted
	int poster;	      // who
	int number;	      // which of his, from 0
};

struct poster {
	struct mailbox *mailbox; // borrows: where to
	struct mailbox *credit;	 // borrows: waits here for an answer to each letter; may be NULL
	int id;			 // goes into the notes
	pthread_t thread;	 // runs post_all
};

static struct mailbox *mailbox;

static void
set_up(void)
{
	mailbox = mailbox_new();
}

static void
tear_down(void)
{
	mailbox_free(&mailbox);
	ck_assert_ptr_null(mailbox);
}

static struct note *
note_of(struct letter *letter)
{
	return container_of(letter, struct note, letter);
}

static bool
readable(struct mailbox *box, int timeout_ms)
{
	struct pollfd wait = {.fd = mailbox_fd(box), .events = POLLIN};

	return poll(&wait, 1, timeout_ms) == 1;
}

START_TEST(test_drains_oldest_first)
{
	struct note notes[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
	struct letter *letter;

	ck_assert_ptr_null(mailbox_drain(mailbox));
	for (int i = 0; i < 3; i++)
		mailbox_post(mailbox, &notes[i].letter);
	letter = mailbox_drain(mailbox);
	for (int i = 0; i < 3; i++, letter = letter->next)
		ck_assert_int_eq(note_of(letter)->number, i);
	ck_assert_ptr_null(letter);
	ck_assert_ptr_null(mailbox_drain(mailbox));
}
END_TEST

START_TEST(test_awake_owner_gets_no_wake_up)
{
	struct note note = {0};

	mailbox_post(mailbox, &note.letter);
	ck_assert(!readable(mailbox, 0));
	ck_assert(!mailbox_sleep(mailbox));
	ck_assert(!readable(mailbox, 0));
	ck_assert_ptr_eq(mailbox_drain(mailbox), &note.letter);
}
END_TEST

START_TEST(test_sleeping_owner_is_woken_once)
{
	struct note notes[2] = {{.number = 0}, {.number = 1}};

	for (int round = 0; round < 3; round++) {
		ck_assert(mailbox_sleep(mailbox));
		ck_assert(!readable(mailbox, 0));
		mailbox_post(mailbox, &notes[0].letter);
		mailbox_post(mailbox, &notes[1].letter);
		ck_assert(readable(mailbox, 0));
		ck_assert_ptr_eq(mailbox_drain(mailbox), &notes[0].letter);
		ck_assert(!readable(mailbox, 0));
	}
}
END_TEST

START_TEST(test_owner_that_woke_by_itself_may_sleep_again)
{
	struct note note = {0};

	ck_assert(mailbox_sleep(mailbox));
	ck_assert_ptr_null(mailbox_drain(mailbox));
	mailbox_post(mailbox, &note.letter);
	ck_assert(!readable(mailbox, 0));
	ck_assert_ptr_eq(mailbox_drain(mailbox), &note.letter);
	ck_assert(mailbox_sleep(mailbox));
	ck_assert(mailbox_sleep(mailbox));
	mailbox_post(mailbox, &note.letter);
	ck_assert(readable(mailbox, 0));
	ck_assert_ptr_eq(mailbox_drain(mailbox), &note.letter);
}
END_TEST

/* Sleeps until a letter comes. */
static struct letter *
await_letter(struct mailbox *box)
{
	struct letter *letter;

	while ((letter = mailbox_drain(box)) == NULL) {
		if (mailbox_sleep(box))
			readable(box, -1);
	}
	return letter;
}

static void *
post_all(void *argument)
{
	struct poster *poster = argument;

	for (int i = 0; i < LETTERS; i++) {
		struct note *note = xmalloc(sizeof(*note));

		note->poster = poster->id;
		note->number = i;
		mailbox_post(poster->mailbox, &note->letter);
		if (poster->credit != NULL)
			xfree(note_of(await_letter(poster->credit)));
	}
	return NULL;
}

static void
start(struct poster *posters, struct mailbox **credits)
{
	for (int i = 0; i < POSTERS; i++) {
		posters[i] = (struct poster){
			.mailbox = mailbox,
			.credit = credits != NULL ? credits[i] : NULL,
			.id = i,
		};
		ck_assert_int_eq(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]),
				 0);
	}
}

/* Drains until all letters have come, sleeping whenever the mailbox lets it; answers each by
 * sending it back when there are mailboxes for that. */
static void
receive(struct mailbox **credits)
{
	int next[POSTERS] = {0};
	int left = POSTERS * LETTERS;

	while (left > 0) {
		struct letter *letter = mailbox_drain(mailbox);

		if (letter == NULL && mailbox_sleep(mailbox))
			ck_assert(readable(mailbox, 30000));
		for (struct letter *following; letter != NULL; letter = following) {
			struct note *note = note_of(letter);

			following = letter->next;
			ck_assert_int_eq(note->number, next[note->poster]++);
			left--;
			if (credits != NULL)
				mailbox_post(credits[note->poster], letter);
			else
				xfree(note);
		}
	}
}

static void
join(struct poster *posters)
{
	for (int i = 0; i < POSTERS; i++)
		ck_assert_int_eq(pthread_join(posters[i].thread, NULL), 0);
}

START_TEST(test_two_threads_post_and_none_is_lost)
{
	struct poster posters[POSTERS];

	start(posters, NULL);
	receive(NULL);
	join(posters);
	/* What a slow poster wrote late wakes once more, and is gone after a drain. */
	ck_assert_ptr_null(mailbox_drain(mailbox));
	ck_assert(!readable(mailbox, 0));
}
END_TEST

/* Each letter is answered before the next: both sides fall asleep all the time, where a wake-up
 * that gets lost hangs the test. */
START_TEST(test_ping_pong_loses_no_wake_up)
{
	struct poster posters[POSTERS];
	struct mailbox *credits[POSTERS];

	for (int i = 0; i < POSTERS; i++)
		credits[i] = mailbox_new();
	start(posters, credits);
	receive(credits);
	join(posters);
	for (int i = 0; i < POSTERS; i++)
		mailbox_free(&credits[i]);
}
END_TEST

TESTS_WITH("mailbox", set_up, tear_down, test_drains_oldest_first, test_awake_owner_gets_no_wake_up,
	   test_sleeping_owner_is_woken_once, test_owner_that_woke_by_itself_may_sleep_again,
	   test_two_threads_post_and_none_is_lost, test_ping_pong_loses_no_wake_up)
