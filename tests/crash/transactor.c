/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions that are cut: the broker is killed between tx.commit and its answer, --count times.
 *
 * Transaction k gets the token, message k of a queue of its own, publishes token k + 1, message k to each of
 * three queues, acknowledges token k, and commits. So at all times there is one token, and when it is k the
 * three queues hold messages 0 .. k - 1: a transaction that came half shows at once, in the token or in a
 * queue. What commit-ok was received for must have come.
 *
 * Each life of the broker sees a few whole transactions, then one whose commit is followed by kill -9. The
 * time between them is random, its bound found so that about two of three are cut; those that were answered
 * before are not counted.
 */
#include "crash/ledger.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define TOKEN "crash.tx.token"
#define WHOLE_MAX 6   // whole transactions in a life at most, and at least one
#define ROLLBACK_IN 4 // one of so many is rolled back first
#define FIRST_GUESS_US 3000

static struct {
	amqp_connection_state_t conn; // owns; NULL: none
	uint64_t next;		      // the token that is there, as far as is known
	bool in_doubt;		      // the commit of transaction next was sent, not answered
	bool token_came;	      // token next was delivered before
	uint64_t commit_us;	      // what a commit takes, about
	uint64_t delay_us;     // the longest time from a commit to the kill; 0: not yet known
	uint64_t commits;      // that were answered
	unsigned cut;	       // commits without an answer
	unsigned cut_and_done; // of these, transactions that came whole
	unsigned kills;
	pid_t broker; // of this life
} transactor = {.commit_us = FIRST_GUESS_US};

static void
tx_queue(char name[32], unsigned queue)
{
	snprintf(name, 32, "crash.tx.%u", queue);
}

/* ---- steps; each is false when the connection is lost ---- */

static bool
publish(const char *queue, uint64_t number)
{
	const amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
						    .delivery_mode = AMQP_DELIVERY_PERSISTENT};

	return was_sent(amqp_basic_publish(transactor.conn, 1, amqp_empty_bytes,
					   amqp_cstring_bytes(queue), 1, 0, &properties,
					   body_make(0, number, random_below(options.size))));
}

/* Gets the message and reads it; *found is false when there is none. */
static bool
get(const char *queue, bool no_ack, bool *found, uint64_t *number, uint64_t *tag, bool *redelivered)
{
	amqp_message_t message;
	uint16_t publisher;

	amqp_maybe_release_buffers(transactor.conn);
	amqp_rpc_reply_t reply =
		amqp_basic_get(transactor.conn, 1, amqp_cstring_bytes(queue), no_ack);
	if (reply.reply_type != AMQP_RESPONSE_NORMAL)
		return went_well(transactor.conn, "basic.get");
	*found = reply.reply.id == AMQP_BASIC_GET_OK_METHOD;
	if (!*found)
		return true;
	const amqp_basic_get_ok_t *ok = reply.reply.decoded;
	*tag = ok->delivery_tag;
	*redelivered = ok->redelivered != 0;
	reply = amqp_read_message(transactor.conn, 1, &message, 0);
	if (reply.reply_type != AMQP_RESPONSE_NORMAL)
		return was_sent(reply.library_error);
	if (!body_read(message.body, &publisher, number))
		fault("a body that nobody has sent, in %s", queue);
	amqp_destroy_message(&message);
	return true;
}

static bool
send_transaction(uint64_t number, uint64_t tag)
{
	char queue[32];

	if (!publish(TOKEN, number + 1))
		return false;
	for (unsigned i = 0; i < QUEUES; i++) {
		tx_queue(queue, i);
		if (!publish(queue, number))
			return false;
	}
	return was_sent(amqp_basic_ack(transactor.conn, 1, tag, 0));
}

static bool
roll_back(void)
{
	amqp_tx_rollback(transactor.conn, 1);
	return went_well(transactor.conn, "tx.rollback");
}

/* ---- after a kill ---- */

/* All three queues hold the messages of all transactions that came. */
static bool
compare_counts(void)
{
	char queue[32];
	uint32_t ready;

	for (unsigned i = 0; i < QUEUES; i++) {
		tx_queue(queue, i);
		int code = queue_count(transactor.conn, queue, &ready);
		if (code == CALL_LOST)
			return false;
		if (code != CALL_OK)
			fault("%s is gone: %d", queue, code);
		if (ready != transactor.next)
			fault("the token is %llu, and %s holds %u messages",
			      (unsigned long long)transactor.next, queue, (unsigned)ready);
	}
	return true;
}

/* Gets the token, which must be the expected one and the only one. */
static bool
find_token(uint64_t *tag)
{
	uint64_t number = 0, other;
	bool found = false, redelivered = false;

	if (!get(TOKEN, false, &found, &number, tag, &redelivered))
		return false;
	if (!found)
		fault("there is no token, it was %llu", (unsigned long long)transactor.next);
	if (number != transactor.next && !(transactor.in_doubt && number == transactor.next + 1))
		fault("the token is %llu and was %llu", (unsigned long long)number,
		      (unsigned long long)transactor.next);
	if (number == transactor.next && transactor.token_came && !redelivered)
		fault("token %llu came again as new", (unsigned long long)number);
	transactor.cut_and_done += number != transactor.next;
	transactor.next = number;
	transactor.token_came = true;
	transactor.in_doubt = false;
	if (!get(TOKEN, false, &found, &other, &other, &redelivered))
		return false;
	if (found)
		fault("there is a second token beside %llu", (unsigned long long)number);
	return true;
}

/* ---- a life of the broker ---- */

static bool
declare(void)
{
	char queue[32];

	for (unsigned i = 0; i <= QUEUES; i++) {
		tx_queue(queue, i);
		amqp_queue_declare(transactor.conn, 1,
				   amqp_cstring_bytes(i < QUEUES ? queue : TOKEN), 0, 1, 0, 0,
				   amqp_empty_table);
		if (!went_well(transactor.conn, "queue.declare"))
			return false;
	}
	amqp_tx_select(transactor.conn, 1);
	if (!went_well(transactor.conn, "tx.select") || !publish(TOKEN, 0))
		return false;
	amqp_tx_commit(transactor.conn, 1);
	return went_well(transactor.conn, "tx.commit");
}

static bool
commit_whole(void)
{
	uint64_t begin = now_us();

	transactor.in_doubt = true;
	amqp_tx_commit(transactor.conn, 1);
	if (!went_well(transactor.conn, "tx.commit"))
		return false;
	transactor.commit_us = (transactor.commit_us * 7 + now_us() - begin) / 8;
	transactor.commits++;
	transactor.next++;
	transactor.in_doubt = transactor.token_came = false;
	return true;
}

/* The campaign writes the file when the broker is up, and removes it when that is dead. */
static void
find_broker(void)
{
	uint64_t end = now_us() + AWAIT_S * 1000000ULL;
	int pid = 0;

	while (now_us() < end) {
		FILE *file = fopen(options.pid_file, "r");
		bool is_there = file && fscanf(file, "%d.", &pid) == 1 && pid > 1;
		if (file)
			fclose(file);
		if (is_there) {
			transactor.broker = pid;
			return;
		}
		sleep_us(1000);
	}
	fault("the process of the broker is not known");
}

static void
kill_broker(void)
{
	if (kill(transactor.broker, SIGKILL))
		fault("the broker is gone before it is killed: %s", strerror(errno));
	transactor.kills++;
	printf("kill %u behind the commit of %llu\n", transactor.kills,
	       (unsigned long long)transactor.next);
	fflush(stdout);
}

/* The commit is on its way when the broker dies. */
static void
commit_and_kill(void)
{
	const struct timeval limit = {.tv_sec = AWAIT_S};
	amqp_tx_commit_t commit = {0};
	amqp_frame_t frame;

	transactor.in_doubt = true;
	if (!was_sent(amqp_send_method(transactor.conn, 1, AMQP_TX_COMMIT_METHOD, &commit)))
		fault("the broker dies by itself");
	if (!transactor.delay_us)
		transactor.delay_us = transactor.commit_us;
	uint64_t end = now_us() + random_next() % (transactor.delay_us + 1);
	while (now_us() < end)
		;
	kill_broker();
	/* The answer may have come before. */
	int status = amqp_simple_wait_frame_noblock(transactor.conn, &frame, &limit);
	if (status == AMQP_STATUS_OK && frame.payload.method.id == AMQP_TX_COMMIT_OK_METHOD) {
		transactor.commits++;
		transactor.next++;
		transactor.in_doubt = transactor.token_came = false;
		transactor.delay_us = transactor.delay_us * 4 / 5 + 1;
		return;
	}
	if (status == AMQP_STATUS_OK)
		fault("a strange answer to tx.commit");
	transactor.cut++;
	transactor.delay_us += transactor.delay_us / 10;
}

/* False when the connection is lost before the kill, which is a fault of the broker's. */
static bool
live(void)
{
	uint64_t tag = 0;

	find_broker();
	amqp_tx_select(transactor.conn, 1);
	if (!went_well(transactor.conn, "tx.select") || !find_token(&tag) || !compare_counts())
		return false;
	for (unsigned left = 1 + random_below(WHOLE_MAX); left > 0; left--) {
		if (random_below(ROLLBACK_IN) == 0 &&
		    !(send_transaction(transactor.next + 1000000, tag) && roll_back()))
			return false;
		if (!send_transaction(transactor.next, tag) || !commit_whole() || !find_token(&tag))
			return false;
	}
	if (!send_transaction(transactor.next, tag))
		return false;
	commit_and_kill();
	return true;
}

/* ---- the end ---- */

/* Each queue holds 0, 1, ... in order and nothing else. */
static bool
compare_contents(void)
{
	char queue[32];
	uint64_t number = 0, tag;
	bool found, redelivered;

	for (unsigned i = 0; i < QUEUES; i++) {
		tx_queue(queue, i);
		for (uint64_t k = 0; k <= transactor.next; k++) {
			if (!get(queue, true, &found, &number, &tag, &redelivered))
				return false;
			if (found != (k < transactor.next) || (found && number != k))
				fault("%s: message %llu of %llu is %s%llu", queue,
				      (unsigned long long)k, (unsigned long long)transactor.next,
				      found ? "" : "not there, the last was ",
				      (unsigned long long)number);
		}
	}
	return true;
}

int
transactor_run(void)
{
	uint64_t tag;

	if (!options.pid_file)
		fault("--pid-file is missing");
	transactor.conn = connect_again();
	if (!transactor.conn || !declare())
		fault("the broker dies by itself");
	do {
		forget(transactor.conn);
		transactor.conn = connect_again();
		if (!transactor.conn)
			return EXIT_FAILURE;
		if (!live())
			fault("the broker dies by itself");
	} while (transactor.cut < options.count && !stopping());
	forget(transactor.conn);
	transactor.conn = connect_again();
	if (!transactor.conn || !find_token(&tag) || !compare_counts() || !compare_contents())
		fault("the broker dies by itself");
	disconnect(transactor.conn);
	printf("kills %u\ncommits %llu\ncut %u\ncut-and-done %u\ncommit-us %llu\n",
	       transactor.kills, (unsigned long long)transactor.commits, transactor.cut,
	       transactor.cut_and_done, (unsigned long long)transactor.commit_us);
	return EXIT_SUCCESS;
}
