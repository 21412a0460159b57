/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of the crash campaigns: clients that keep a ledger while the broker is killed under them. One
 * program, "ledger", a process for each role; tests/crash/run starts them.
 *
 * A message is {publisher, number}, published once (but for duplicates.c), with number counted from 0 by each publisher over all
 * of its connections; its routing key names the queues that it goes to. A role writes what it does to its
 * own file as struct entry, one behind the other, so that the order in the file is the order in which the
 * role saw things; between files there is no order. A role that loses its connection makes a new one and
 * goes on; what it wrote is the truth about what it knew. check.c says what must follow from it.
 *
 * Anything that a broker must never do is a fault: fault() prints it and ends the role with status 1.
 */
#pragma once

#include <amqp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXCHANGE "crash.load"
#define QUEUES 3
#define PUBLISHERS_MAX 16
#define AWAIT_S 30 // everything that a living broker owes comes within this time

/* ---- the file ---- */

enum entry_kind {
	ENTRY_SENT = 1,	     // by a publisher; queues and persistent say how
	ENTRY_CONFIRMED = 2, // it came: basic.ack
	ENTRY_REFUSED = 3,   // it came: basic.nack
	ENTRY_RECEIVED = 4,  // by the consumer of one queue; redelivered as it came
	ENTRY_ACKED = 5,     // the consumer has sent basic.ack, or basic.reject without requeue
	ENTRY_REQUEUED = 6,  // the consumer has sent basic.nack with requeue
	ENTRY_REJECTED =
		7, // it has sent basic.reject or nack without requeue, in a part with deaths
	ENTRY_SENT_AGAIN = 8 // by a publisher to which it was not confirmed (duplicates.c)
};

struct entry {
	uint8_t kind;	// enum entry_kind
	uint8_t queues; // bit n: it was routed to queue n, or of a dead letter, it died in queue n
	uint8_t persistent;  // delivery mode 2
	uint8_t redelivered; // the mark on the delivery
	uint16_t publisher;
	uint16_t connection; // of the consumer, counted from 1; with deaths the life of the broker
	uint64_t number;
};

/* Opens DIR/NAME-N for writing, or for reading; the latter may be NULL. */
FILE *ledger_open(const char *name, unsigned n, const char *mode);
void ledger_write(FILE *ledger, struct entry entry);
/* Of the role that writes: nothing may be lost. */
void ledger_close(FILE *ledger);

/* ---- the role ---- */

#define LEVELS_MAX 16

/* What the command line says. */
struct options {
	const char *dir; // of the ledgers
	int port;	 // of the broker, on 127.0.0.1
	unsigned id;	 // which publisher, consumer, ...
	unsigned window; // unconfirmed messages at most
	unsigned rate;	 // messages a second at most; 0: as many as go
	unsigned size;	 // octets of most bodies at most
	unsigned large;	 // octets of the few large ones
	unsigned count;	 // of what the role does before it ends; 0: until SIGTERM
	unsigned ttl;	 // milliseconds, with deaths: what waits longer dies; 0: what is too much
	unsigned levels; // priorities of the queues, and of messages in turn; 0: they have none
	unsigned delay;	 // milliseconds: each message is held back for so long at most; 0: none is
	uint64_t seed;	 // of its random choices
	const char *pid_file; // where the transactor finds whom to kill
	const char *
		life; // a part with deaths (deaths.c): where the number of the broker's life stands
	const char *deduplicate; // who knows what was sent before (duplicates.c); NULL: nobody
};

extern struct options options;

/* SIGTERM came: bring it to an end. */
bool stopping(void);

/* Ends the role. */
_Noreturn void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same numbers for the same seed. */
uint64_t random_next(void);
/* 0 .. n - 1 */
unsigned random_below(unsigned n);
/* Microseconds of the monotonic clock. */
uint64_t now_us(void);
void sleep_us(unsigned us);

/* Each runs a role to its end and returns main()'s result. */
int declare_run(void);
int empty_run(void);
int publisher_run(void);
int consumer_run(void);
int transactor_run(void);
int definer_run(void);
int check_run(void);
int declare_deaths_run(void);
int check_deaths_run(void);
int dump_run(void);

/* ---- messages ---- */

/* The octets of a message; the caller's until the next call. */
amqp_bytes_t body_make(uint16_t publisher, uint64_t number, size_t size);
/* False when the octets are not those that body_make() made for any message. */
bool body_read(amqp_bytes_t body, uint16_t *publisher, uint64_t *number);
/* ---- deaths (deaths.c) ---- */

#define WORK_QUEUE 0	// its consumer rejects some
#define BOUNDED_QUEUE 1 // what is too much for it dies, or what waits too long
#define DEAD_QUEUE 2	// gets what died in the others
#define BOUNDED_LENGTH 3000

/* In which queue a dead letter died, as it says; a fault when it says something else than it must. */
unsigned died_in(const amqp_basic_properties_t *properties);
/* connect_again() or connect_once(), and in which life of the broker that is. */
amqp_connection_state_t connect_in_life(amqp_connection_state_t (*make)(void), uint16_t *life);

/* ---- delays (delays.c) ---- */

/* Declares the exchange, which holds messages back. */
void declare_delayed(amqp_connection_state_t conn);
/* Asks for a delay at random, and says when it is over. Borrows until the next call. */
void ask_for_delay(amqp_basic_properties_t *properties);
/* A fault when it comes too soon, or says something else of its delay than it must. */
void look_at_delay(const amqp_basic_properties_t *properties);

/* Fills in "crash.queue.N". */
void queue_name(char name[32], unsigned queue);

/* ---- duplicates (duplicates.c) ---- */

/* For those that the load goes to; the caller's until the next call. */
amqp_table_t exchange_arguments(void);
amqp_table_t queue_arguments(void);
/* Of the message of this publisher with this number; as above. */
void add_message_key(amqp_basic_properties_t *properties, uint64_t number);
/* The queues of that message, as ENTRY_SENT has them. */
unsigned same_queues(uint64_t number);

/* ---- connections ---- */

/*
 * What became of a call: 0, or -1 when the connection is lost, or the code with which the server has closed
 * the channel, which then is open again. Everything else is a fault.
 */
enum {
	CALL_OK = 0,
	CALL_LOST = -1
};

/* Tries until somebody answers; channel 1 is open. A fault when nobody does for AWAIT_S. NULL when
 * SIGTERM came meanwhile. */
amqp_connection_state_t connect_again(void);
/* One try; NULL when nobody answers. */
amqp_connection_state_t connect_once(void);
/* Forgets a connection that is lost; NULL is none. */
void forget(amqp_connection_state_t conn);
/* Ends one that is not. */
void disconnect(amqp_connection_state_t conn);
/* What became of the last call on channel 1. */
int outcome(amqp_connection_state_t conn);
/* The same for a call that a server may only answer well. */
bool went_well(amqp_connection_state_t conn, const char *what);
/* The status of a call that only sends: true when it was sent; all errors mean that the connection is lost. */
bool was_sent(int status);
/* The next frame within that time: AMQP_STATUS_OK, AMQP_STATUS_TIMEOUT or CALL_LOST. */
int next_frame(amqp_connection_state_t conn, amqp_frame_t *frame, unsigned ms);
/* Passive declare of a queue: CALL_OK and the number of ready messages, or as outcome(). */
int queue_count(amqp_connection_state_t conn, const char *queue, uint32_t *ready);
