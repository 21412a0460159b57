/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker of a librabbitmq program, see rabbitmq_c.h. It is a child of the process that starts it: of the
 * program, which lends it to all of its tests, or of one test that has it alone, and then may kill it and
 * start it again.
 */
#include "client/rabbitmq_c.h"

#include "lib/runner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_S 60

/* The broker under test; filled before the first test, or by it. */
static struct {
	char host[64];	      // where it listens
	int port;	      // the same
	int tls_port;	      // the same with TLS; 0: it does not
	pid_t pid;	      // 0: it is somebody else's
	char folder[40];      // holds all of this, removed at the end
	char data[64];	      // its -D
	char certificate[64]; // its own, which is its own authority
	char key[64];	      // of the certificate
} broker;

const char *
broker_host(void)
{
	return broker.host;
}

int
broker_port(bool tls)
{
	return tls ? broker.tls_port : broker.port;
}

const char *
broker_authority(void)
{
	return broker.certificate;
}

static struct sockaddr_in
address_of(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static int
free_port(void)
{
	struct sockaddr_in address = address_of(0);
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof address) ||
	    getsockname(fd, (struct sockaddr *)&address, &size)) {
		perror("a free port");
		exit(EXIT_FAILURE);
	}
	close(fd);
	return ntohs(address.sin_port);
}

static bool
accepts(int port)
{
	struct sockaddr_in address = address_of(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;

	close(fd);
	return connected;
}

/* In the child: becomes pannierd, which must not outlive its parent. */
static void
become_pannierd(void)
{
	char program[4096], listener[64], tls_listener[64], authority[128], certificate[128],
		key[128];
	const char *build = getenv("PANNIER_BUILD");

	if (getenv("PANNIERD"))
		snprintf(program, sizeof program, "%s", getenv("PANNIERD"));
	else
		snprintf(program, sizeof program, "%s/pannierd", build ? build : ".");
	snprintf(listener, sizeof listener, "listeners.tcp.1=127.0.0.1:%d", broker.port);
	snprintf(tls_listener, sizeof tls_listener, "listeners.ssl.1=127.0.0.1:%d",
		 broker.tls_port);
	snprintf(authority, sizeof authority, "ssl_options.cacertfile=%s", broker.certificate);
	snprintf(certificate, sizeof certificate, "ssl_options.certfile=%s", broker.certificate);
	snprintf(key, sizeof key, "ssl_options.keyfile=%s", broker.key);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	/* Without TLS the list ends where that begins. */
	execl(program, program, "-D", broker.data, "--set", listener, "--set", "log.console=true",
	      broker.tls_port ? "--set" : (char *)NULL, tls_listener, "--set", authority, "--set",
	      certificate, "--set", key, (char *)NULL);
	fprintf(stderr, "%s: %s\n", program, strerror(errno));
	_exit(127);
}

void
broker_launch(void)
{
	broker.pid = fork();
	if (broker.pid == 0)
		become_pannierd();
}

/* True when it accepts; false when it ended, as it does when another took the port. */
static bool
await_start(void)
{
	const struct timespec step = {.tv_nsec = 10 * 1000 * 1000};

	for (int i = 0; i < START_S * 100; i++) {
		if (waitpid(broker.pid, NULL, WNOHANG) == broker.pid)
			return false;
		/* RabbitMQ opens its TLS port last. */
		if (accepts(broker.tls_port ? broker.tls_port : broker.port))
			return true;
		nanosleep(&step, NULL);
	}
	kill(broker.pid, SIGKILL);
	waitpid(broker.pid, NULL, 0);
	return false;
}

/* Runs "rm" or "openssl"; true when it ended well. The last argument is NULL. */
static bool
command(const char *const *arguments)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execvp(arguments[0], (char *const *)(uintptr_t)arguments);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static void
remove_folder(void)
{
	command((const char *const[]){"rm", "-rf", broker.folder, NULL});
}

static void
make_certificate(void)
{
	const char *const arguments[] = {"openssl",
					 "req",
					 "-x509",
					 "-newkey",
					 "ec",
					 "-pkeyopt",
					 "ec_paramgen_curve:P-256",
					 "-nodes",
					 "-days",
					 "2",
					 "-subj",
					 "/CN=localhost",
					 "-addext",
					 "subjectAltName=DNS:localhost",
					 "-keyout",
					 broker.key,
					 "-out",
					 broker.certificate,
					 NULL};

	if (!command(arguments)) {
		fprintf(stderr, "openssl made no certificate\n");
		exit(EXIT_FAILURE);
	}
}

static void
make_folder(void)
{
	snprintf(broker.folder, sizeof broker.folder, "/tmp/pannier-client-XXXXXX");
	if (!mkdtemp(broker.folder)) {
		perror("a directory for data");
		exit(EXIT_FAILURE);
	}
	snprintf(broker.data, sizeof broker.data, "%s/data", broker.folder);
	snprintf(broker.certificate, sizeof broker.certificate, "%s/server.pem", broker.folder);
	snprintf(broker.key, sizeof broker.key, "%s/server.key", broker.folder);
	if (mkdir(broker.data, 0700)) {
		perror(broker.data);
		exit(EXIT_FAILURE);
	}
}

/* Starts one on free ports and waits until it accepts. */
static void
start(bool tls)
{
	/* librabbitmq compares the names in a certificate, not the addresses. */
	snprintf(broker.host, sizeof broker.host, "%s", tls ? "localhost" : "127.0.0.1");
	make_folder();
	if (tls)
		make_certificate();
	for (int attempt = 0; attempt < 3; attempt++) {
		broker.port = free_port();
		broker.tls_port = tls ? free_port() : 0;
		broker_launch();
		if (await_start())
			return;
	}
	fprintf(stderr, "pannierd did not start\n");
	exit(EXIT_FAILURE);
}

static void
start_or_find(void)
{
	const char *url = getenv("PANNIER_URL");

	if (!url) {
		start(false);
		return;
	}
	const char *at = strchr(url, '@');
	if (sscanf(at ? at + 1 : url + strlen("amqp://"), "%63[^:/]:%d", broker.host,
		   &broker.port) == 2)
		return;
	fprintf(stderr, "PANNIER_URL: not of the form amqp://host:port: %s\n", url);
	exit(EXIT_FAILURE);
}

/* Stops it with SIGTERM. Returns 0 when it ended with status 0. */
static int
stop(void)
{
	int status = 0;

	if (!broker.pid)
		return 0;
	kill(broker.pid, SIGTERM);
	waitpid(broker.pid, &status, 0);
	if (status)
		fprintf(stderr, "pannierd ended with wait status %#x\n", (unsigned)status);
	remove_folder();
	return status;
}

int
run_with_broker(const char *name, const TTest *const *tests, size_t n)
{
	start_or_find();
	int result = run_tests(name, tests, n, NULL, NULL);
	return stop() ? EXIT_FAILURE : result;
}

/* ---- one for each test ---- */

static void
start_own(void)
{
	start(true);
}

static void
stop_own(void)
{
	ck_assert_int_eq(stop(), 0);
}

int
run_with_own_brokers(const char *name, const TTest *const *tests, size_t n)
{
	if (getenv("PANNIER_URL")) {
		printf("skip: needs a broker of its own\n0 passed, 0 failed\n");
		return EXIT_SUCCESS;
	}
	return run_tests(name, tests, n, start_own, stop_own);
}

void
broker_kill(void)
{
	int status;

	ck_assert_int_eq(kill(broker.pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(broker.pid, &status, 0), broker.pid);
	/* It had not ended by itself before. */
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
