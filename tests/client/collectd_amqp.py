#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 90 s
"""collectd's AMQP plug-in: one collectd publishes what it measures, another one and we subscribe."""
import atexit
import json
import os
import re
import subprocess
import sys

import matrix
from syslog_ng import Listener

lib = matrix.lib
LIMIT_S = 30
VALUES = 40
COMMAND = re.compile(r'^PUTVAL sender(?:\.test)?/(\S+) interval=0\.\d+ [\d.]+:([\d.:eU+-]+)$')

CONFIGURATION = """
Hostname "{name}"
FQDNLookup false
BaseDir "{base}"
PIDFile "{base}/pid"
TypesDB "/usr/share/collectd/types.db"
Interval 0.2
ReadThreads 2
WriteThreads 2
LoadPlugin amqp
"""
MEASURE = "LoadPlugin load\nLoadPlugin memory\nLoadPlugin uptime\n"
# A collectd without anything to read does not start the threads that write.
TELL = 'LoadPlugin uptime\nLoadPlugin csv\n<Plugin csv>\n  DataDir "stderr"\n</Plugin>\n'


class Collectd:
    """A collectd in the foreground; what it writes to its standard output and error is its log."""

    count = 0

    def __init__(self, name, blocks, more):
        Collectd.count += 1
        base = os.path.join(lib.test_dir(), f"collectd-{Collectd.count}")
        os.mkdir(base)
        with open(f"{base}.conf", "w", encoding="ascii") as out:
            out.write(CONFIGURATION.format(name=name, base=base) + more)
            out.write("<Plugin amqp>\n" + "".join(blocks) + "</Plugin>\n")
        self.path = f"{base}.log"
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen(["/usr/sbin/collectd", "-f", "-C", f"{base}.conf"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        atexit.register(self.process.kill)
        lib.await_true("collectd is ready", lambda: "Initialization complete" in self.log(), LIMIT_S)

    def log(self):
        assert self.process.poll() is None, "collectd has ended"
        with open(self.path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.process.kill()
            self.process.wait()
            return
        self.process.terminate()
        status = self.process.wait(LIMIT_S)
        assert status == 0, f"collectd ended with status {status}"


def block(kind, broker, *options, port=None, host=None):
    """A Publish or Subscribe block."""
    lines = [f'Host "{host or broker.host}"', f'Port "{port or broker.port}"', 'User "guest"',
             'Password "guest"', 'VHost "/"', *options]
    return f'<{kind} "tests">\n  ' + "\n  ".join(lines) + f"\n</{kind}>\n"


def case_commands_by_topic(broker):
    """The routing key is the name of the value, the body a command in collectd's plain text."""
    publish = block("Publish", broker, 'Exchange "commands"', 'ExchangeType "topic"')
    with Listener(broker, "commands", "collectd.*.memory.#", "topic") as memory, \
            Listener(broker, "commands", "#") as everything, Collectd("sender", [publish], MEASURE):
        names = set()
        for method, properties, body in everything.take(VALUES):
            found = COMMAND.match(body.decode())
            assert found, body
            assert properties.content_type == "text/collectd" and properties.delivery_mode == 1
            key = method.routing_key.split(".")
            assert key[:2] == ["collectd", "sender"] and key[2] == re.split("[/-]", found.group(1))[0], key
            names.add(key[2])
        assert names == {"load", "memory", "uptime"}, names
        assert all(method.routing_key.startswith("collectd.sender.memory.")
                   for method, _, _ in memory.take(VALUES))


def case_json(broker):
    """With a fixed key, persistent, to the fanout exchange that is there."""
    publish = block("Publish", broker, 'Exchange "amq.fanout"', 'RoutingKey "metrics"', 'Persistent true',
                    'Format "JSON"', 'StoreRates true')
    with Listener(broker, "amq.fanout", "") as listener, Collectd("sender", [publish], MEASURE):
        for method, properties, body in listener.take(VALUES):
            assert method.routing_key == "metrics"
            assert properties.content_type == "application/json" and properties.delivery_mode == 2
            value, = json.loads(body)
            assert value["host"] == "sender" and value["plugin"] in ("load", "memory", "uptime"), value
            assert len(value["values"]) == len(value["dstypes"]) == len(value["dsnames"])


def case_graphite(broker):
    publish = block("Publish", broker, 'Exchange "graphite"', 'ExchangeType "direct"', 'RoutingKey "g"',
                    'Format "Graphite"', 'GraphitePrefix "here."')
    with Listener(broker, "graphite", "g", "direct") as listener, Collectd("sender", [publish], MEASURE):
        for _, properties, body in listener.take(VALUES):
            assert properties.content_type == "text/graphite"
            assert re.match(r"^here\.sender\.[a-z-]+\.[a-z_.-]+ \S+ \d+\r?\n", body.decode()), body


def told(collectd):
    return [line for line in collectd.log().splitlines() if line.startswith("PUTVAL sender/")]


def case_second_collectd(broker):
    """
    It binds a queue of its own, with a pattern, and decodes what it gets. It is stopped before the other:
    its thread waits for a message without a limit and looks only then whether it is to end.
    """
    options = ['Exchange "between"', 'ExchangeType "topic"']
    subscribe = block("Subscribe", broker, *options, 'RoutingKey "collectd.*.load.#"')
    publish = block("Publish", broker, *options)
    with Collectd("sender", [publish], MEASURE), Collectd("receiver", [subscribe], TELL) as receiver:
        lib.await_true("values have come", lambda: len(told(receiver)) >= 5, LIMIT_S)
        assert all(line.startswith("PUTVAL sender/load/load ") for line in told(receiver)), told(receiver)


def case_tls(broker):
    if not broker.tls_port:
        lib.skip("the server is a running one")
    # librabbitmq compares the host with names, never with addresses.
    publish = block("Publish", broker, 'Exchange "tls"', 'ExchangeType "topic"', 'TLSEnabled true',
                    f'TLSCACert "{broker.ca}"', host="localhost", port=broker.tls_port)
    with Listener(broker, "tls", "#", "topic") as listener, Collectd("sender", [publish], MEASURE):
        assert all(COMMAND.match(body.decode()) for _, _, body in listener.take(VALUES))


def case_restart(broker):
    """
    Both sides connect and declare again when the broker was killed. The queue has a name: collectd would
    declare again the one that the broker has made up, which is refused (403).
    """
    if broker.external:
        lib.skip("the server is a running one")
    options = ['Exchange "restart"', 'ExchangeType "fanout"', 'RoutingKey "any"']
    subscribe = block("Subscribe", broker, *options, 'Queue "restart"')
    publish = block("Publish", broker, *options)
    with Collectd("sender", [publish], MEASURE), Collectd("receiver", [subscribe], TELL) as receiver:
        lib.await_true("values have come", lambda: told(receiver), LIMIT_S)
        broker.kill()
        before = len(told(receiver))
        broker.start()
        # What was on its way when the broker died is told later than now: a few more than that.
        lib.await_true("values come again", lambda: len(told(receiver)) > before + VALUES, LIMIT_S)


if __name__ == "__main__":
    sys.exit(lib.run_cases(globals(), common=matrix.tls_broker()))
