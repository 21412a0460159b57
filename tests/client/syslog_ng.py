#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 90 s
"""syslog-ng's AMQP destination: a log line becomes a message, with its fields as headers."""
import atexit
import json
import os
import socket
import subprocess
import sys

import pika

import matrix

lib = matrix.lib
LIMIT_S = 30
LINES = 5000

CONFIGURATION = """
@version: 3.38
options {{ keep-hostname(yes); chain-hostnames(no); use-dns(no); stats-freq(0); time-reopen(1); }};
source lines {{ unix-stream("{input}" flags(syslog-protocol) max-connections(10)); }};
destination broker {{ amqp(host("{host}") port({port}) username("guest") password("guest") {options}); }};
log {{ source(lines); destination(broker); flags(flow-control); }};
"""


class Logger:
    """A syslog-ng in the foreground with one AMQP destination, and a connection to it for log lines."""

    count = 0

    def __init__(self, broker, options, host=None, port=None):
        Logger.count += 1
        self.base = os.path.join(lib.test_dir(), f"syslog-ng-{Logger.count}")
        self.input = f"{self.base}.in"
        with open(f"{self.base}.conf", "w", encoding="ascii") as out:
            out.write(CONFIGURATION.strip().format(input=self.input, host=host or broker.host,
                                                   port=port or broker.port, options=options))
        command = ["/usr/sbin/syslog-ng", "-F", "-e", "--no-caps", "-f", f"{self.base}.conf",
                   "-R", f"{self.base}.persist", "-c", f"{self.base}.ctl", "-p", f"{self.base}.pid"]
        with open(f"{self.base}.log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        atexit.register(self.process.kill)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(LIMIT_S)
        lib.await_true("syslog-ng takes lines", self.connected, LIMIT_S)

    def connected(self):
        assert self.process.poll() is None, "syslog-ng ended at its start"
        try:
            self.socket.connect(self.input)
        except OSError:
            return False
        return True

    def log(self, text, priority=13, program="tests", data="-"):
        """One line in the form of RFC 5424; the default priority is that of user.notice."""
        line = f"<{priority}>1 2024-05-06T07:08:09+00:00 some.host {program} 4711 M1 {data} {text}\n"
        self.socket.sendall(line.encode())

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.process.kill()
            self.process.wait()
            return
        self.process.terminate()
        status = self.process.wait(LIMIT_S)
        assert status == 0, f"syslog-ng ended with status {status}"


class Listener:
    """A queue of its own, bound to an exchange; with a type the exchange is declared too."""

    def __init__(self, broker, exchange, key, kind=None):
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
        self.channel = self.connection.channel()
        self.queue = self.channel.queue_declare("", exclusive=True).method.queue
        if kind:
            self.channel.exchange_declare(exchange, kind)
        self.channel.queue_bind(self.queue, exchange, key)

    def take(self, count):
        """That many messages as (method, properties, body)."""
        taken = []
        for method, properties, body in self.channel.consume(self.queue, inactivity_timeout=LIMIT_S):
            assert method, f"{len(taken)} messages have come, {count} were expected"
            self.channel.basic_ack(method.delivery_tag)
            taken.append((method, properties, body))
            if len(taken) == count:
                self.channel.cancel()
                return taken

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.connection.close()
        except pika.exceptions.AMQPError:
            pass  # the broker was killed meanwhile


TOPIC = """vhost("/") exchange("{name}") exchange-type("topic") exchange-declare(yes) persistent({persistent})
    routing-key("$FACILITY.$PRIORITY") body("$MESSAGE") heartbeat(2)
    value-pairs(scope("selected-macros" "nv-pairs" "sdata"))"""


def topic(name, persistent="yes"):
    return TOPIC.format(name=name, persistent=persistent)


def case_fields_as_headers(broker):
    with Listener(broker, "fields", "local4.*", "topic") as listener, \
            Logger(broker, topic("fields")) as logger:
        logger.log("something is wrong", 163, "kernel", '[example@32473 iut="3" source="app \\"x\\""]')
        (method, properties, body), = listener.take(1)
        assert (method.exchange, method.routing_key, body) == ("fields", "local4.err", b"something is wrong")
        assert properties.delivery_mode == 2
        expected = {"FACILITY": "local4", "PRIORITY": "err", "HOST": "some.host", "PROGRAM": "kernel",
                    "PID": "4711", "MSGID": "M1", "MESSAGE": "something is wrong",
                    ".SDATA.example@32473.iut": "3", ".SDATA.example@32473.source": 'app "x"'}
        # syslog-ng gives a leading dot an underscore in some places.
        got = {name.replace("_SDATA", ".SDATA"): text for name, text in properties.headers.items()}
        assert expected.items() <= got.items(), properties.headers


def case_many_lines_in_order(broker):
    with Listener(broker, "many", "#", "topic") as listener, \
            Logger(broker, topic("many", "no")) as logger:
        for number in range(LINES):
            logger.log(f"line {number}")
        bodies = [body.decode() for _, _, body in listener.take(LINES)]
        assert bodies == [f"line {number}" for number in range(LINES)]


def case_topics(broker):
    """Severities and facilities are chosen by the bindings."""
    with Listener(broker, "topics", "*.crit", "topic") as critical, \
            Listener(broker, "topics", "auth.#") as auth, Logger(broker, topic("topics")) as logger:
        for priority, text in ((34, "auth.crit"), (36, "auth.warning"), (10, "user.crit"), (14, "user.info")):
            logger.log(text, priority)
        logger.log("end", 34)
        got = [body.decode() for _, _, body in critical.take(3)]
        assert got == ["auth.crit", "user.crit", "end"], got
        got = [body.decode() for _, _, body in auth.take(3)]
        assert got == ["auth.crit", "auth.warning", "end"], got


def case_own_template(broker):
    """To a fanout exchange that is there, without fields, the body being JSON, 50 kB of it in one line."""
    options = """exchange("amq.fanout") exchange-type("fanout") exchange-declare(no) persistent(no)
        body("$(format-json --scope rfc5424)") value-pairs(key("PROGRAM"))"""
    text = "long " * 10000
    with Listener(broker, "amq.fanout", "") as listener, Logger(broker, options) as logger:
        logger.log("short")
        logger.log(text)
        (_, first, short), (_, _, long) = listener.take(2)
        assert first.headers == {"PROGRAM": "tests"} and first.delivery_mode == 1, first
        assert json.loads(short)["MESSAGE"] == "short"
        assert json.loads(long)["MESSAGE"].strip() == text.strip()


def case_tls(broker):
    if not broker.tls_port:
        lib.skip("the server is a running one")
    # librabbitmq compares the host with names, never with addresses.
    options = topic("tls") + f' ca-file("{broker.ca}") peer-verify(yes)'
    with Listener(broker, "tls", "#", "topic") as listener, \
            Logger(broker, options, "localhost", broker.tls_port) as logger:
        for number in range(100):
            logger.log(f"line {number}")
        bodies = [body.decode() for _, _, body in listener.take(100)]
        assert bodies == [f"line {number}" for number in range(100)]


def case_restart(broker):
    """syslog-ng connects and declares again when the broker was killed; lines come through again."""
    if broker.external:
        lib.skip("the server is a running one")
    with Logger(broker, topic("restart")) as logger:
        with Listener(broker, "restart", "#", "topic") as listener:
            logger.log("before")
            assert listener.take(1)[0][2] == b"before"
            matrix.restart(broker)
        with Listener(broker, "restart", "#", "topic") as listener:

            def line_came():
                logger.log("after")
                return listener.channel.basic_get(listener.queue, auto_ack=True)[2]

            assert lib.await_true("a line comes", line_came, LIMIT_S, 0.05) == b"after"


if __name__ == "__main__":
    sys.exit(lib.run_cases(globals(), common=matrix.tls_broker()))
