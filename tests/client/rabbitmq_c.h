/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the librabbitmq programs share: a broker of their own, and calls of the library that end the test
 * when they fail, so that a test reads as what it proves.
 *
 * run_with_broker() starts the pannierd named by PANNIERD (or the one in PANNIER_BUILD, or ./pannierd) on
 * a free port, runs the tests, each in a process of its own, and stops it; an end with a status other than
 * 0 fails the program. With PANNIER_URL=amqp://host:port the server there is used instead. The broker dies
 * with the program, whatever happens. run_with_own_brokers() starts one for each test, with a TLS port; the
 * test may kill it. When the server is a running one, such tests are skipped.
 *
 * "Channel" is a number here, as the library has it; the tests use 1 unless they need two. Bytes that a
 * call returns belong to the library and live until its next call.
 */
#pragma once

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Everything awaited comes within this time, or the test fails. */
#define AWAIT_S 20

/* Runs the tests between start and stop of a broker. Returns main()'s result. */
int run_with_broker(const char *name, const TTest *const *tests, size_t n);

/* Defines main(), as TESTS() of lib/runner.h does. */
#define BROKER_TESTS(suite_name, ...)                                                         \
	int main(void)                                                                        \
	{                                                                                     \
		const TTest *const tests_[] = {__VA_ARGS__};                                  \
		return run_with_broker(suite_name, tests_, sizeof tests_ / sizeof tests_[0]); \
	}

/* Runs the tests, each with a broker of its own that speaks TLS, too. Returns main()'s result. */
int run_with_own_brokers(const char *name, const TTest *const *tests, size_t n);

/* As BROKER_TESTS(). */
#define OWN_BROKER_TESTS(suite_name, ...)                                                          \
	int main(void)                                                                             \
	{                                                                                          \
		const TTest *const tests_[] = {__VA_ARGS__};                                       \
		return run_with_own_brokers(suite_name, tests_, sizeof tests_ / sizeof tests_[0]); \
	}

/* Where the broker is. */
const char *broker_host(void);
int broker_port(bool tls);

/* The file of the certificate to trust, of a broker with TLS. */
const char *broker_authority(void);

/* For tests with a broker of their own: kills it (-9) and waits for its end. */
void broker_kill(void);

/* Starts it again, with the ports and the data that it had; does not wait until it accepts. */
void broker_launch(void);

/* How a connection is made; zeros mean the usual. */
struct login {
	bool tls;	      // with TLS
	const char *password; // guest
	const char *vhost;    // "/"
	int frame_max;	      // 131072
	int heartbeat;	      // seconds, off
	bool wants_cancel;    // announces consumer_cancel_notify
};

/* Connects and logs in as guest; the reply tells how it went. The caller ends it by close_connection(). */
amqp_connection_state_t try_connect(const struct login *login, amqp_rpc_reply_t *reply);

/* Connects and logs in; NULL when there is nobody. */
amqp_connection_state_t connect_if_there(const struct login *login);

/* A connection with channel 1 open. */
amqp_connection_state_t connect_usual(void);

/* A connection with that login and channel 1 open. */
amqp_connection_state_t connect_with(const struct login *login);

void open_channel(amqp_connection_state_t conn, amqp_channel_t channel);

/* Close, close-ok, free; a connection that the server has closed is only freed. */
void close_connection(amqp_connection_state_t conn);

/* Fails the test unless the last call on the connection ended well. */
void must(amqp_connection_state_t conn, const char *what);

/*
 * The last call was refused by channel.close with that code and a text that begins so; answers with
 * close-ok, so that the channel's number can be opened again.
 */
void must_close_channel(amqp_connection_state_t conn, amqp_channel_t channel, int code,
			const char *text);

/* The same for connection.close. */
void must_close_connection(amqp_rpc_reply_t reply, int code, const char *text);

/* Declares an exclusive queue with a name of the server's, which is copied to name. */
void temporary_queue(amqp_connection_state_t conn, amqp_channel_t channel, char name[256]);

/* The number of ready messages, by passive declare. */
uint32_t ready_count(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue);

/* Asks until there are n: RabbitMQ's count lags behind what the same channel has sent. */
void await_ready(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue,
		 uint32_t n);

/* Publishes text as a transient message without properties. */
void publish(amqp_connection_state_t conn, amqp_channel_t channel, const char *exchange,
	     const char *key, const char *text);

/* The same on channel 1 with properties. */
void publish_with(amqp_connection_state_t conn, const char *exchange, const char *key,
		  const char *text, amqp_basic_properties_t *properties);

/* Publishes "0", "1", ... to a queue and waits until all are ready. */
void publish_numbers(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue,
		     uint32_t n);

void consume(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue,
	     const char *tag, bool no_ack);

/* Awaits the next delivery; envelope is to be destroyed by the caller. */
void await_delivery(amqp_connection_state_t conn, amqp_envelope_t *envelope);

/* Awaits a delivery with that body and returns its tag. */
uint64_t await_body(amqp_connection_state_t conn, const char *body, bool redelivered);

/* Awaits that method on that channel as the next frame; other frames fail the test. */
void await_method(amqp_connection_state_t conn, amqp_channel_t channel, amqp_method_number_t id,
		  amqp_method_t *method);

/* Gets one message with no-ack; it must be there and have that body, or with NULL not be there. */
void must_get(amqp_connection_state_t conn, amqp_channel_t channel, const char *queue,
	      const char *body);

#define TABLE_MAX 4

/* Arguments of a queue that is to be declared, or headers. */
struct table {
	amqp_table_entry_t entries[TABLE_MAX];
	int n;
};

void ask_number(struct table *table, const char *name, int32_t value);
void ask_text(struct table *table, const char *name, const char *value);
void ask_true(struct table *table, const char *name);

/* Declares an exclusive queue of that name. */
void declare_exclusive(amqp_connection_state_t conn, const char *name, struct table *table);

bool is_text(amqp_bytes_t bytes, const char *text);

/* The field, which must be there and of that kind. */
const amqp_field_value_t *field_of(const amqp_table_t *table, const char *name, char kind);

/* The headers of a message, which must have some. */
const amqp_table_t *headers_of(const amqp_envelope_t *envelope);
