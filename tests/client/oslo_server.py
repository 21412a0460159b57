# SPDX-License-Identifier: Apache-2.0
"""
An RPC server on oslo.messaging, as OpenStack's services have them: started by oslo_messaging_rpc.py.

    oslo_server.py URL NAME [quorum]

It serves the topic "tests" under that name, or "quorum" on quorum queues, until SIGTERM. Environment:
REPORT_SOCKET, a datagram socket of the script, to which it tells what has happened; HOLD_SOCKET, to which
a call connects that lasts until the script lets it go.
"""
import logging
import os
import signal
import socket
import sys
import threading
import urllib.parse

import oslo_messaging
from oslo_config import cfg


def report(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(text.encode(), os.environ["REPORT_SOCKET"])


def transport(url, get=oslo_messaging.get_rpc_transport, quorum=False, exchange="tests"):
    """Options of the driver are given in the URL. The intervals are short, and heartbeats of two seconds
    go on beside everything."""
    options = {
        "heartbeat_timeout_threshold": 2,
        "kombu_reconnect_delay": 0.1,
        "kombu_missing_consumer_retry_timeout": 1,
        "rabbit_retry_interval": 1,
        "rabbit_retry_backoff": 0,
        "rabbit_interval_max": 1,
        "rabbit_qos_prefetch_count": 20,
    }
    if quorum:
        options.update({"amqp_durable_queues": "true", "rabbit_quorum_queue": "true",
                        "rabbit_quorum_delivery_limit": 5})
    oslo_messaging.set_transport_defaults(exchange)
    return get(cfg.CONF, url=f"{url}?{urllib.parse.urlencode(options)}")


class Endpoint:
    target = oslo_messaging.Target(version="1.2")

    def __init__(self, name):
        self.name = name

    def echo(self, ctxt, value):
        return {"context": ctxt, "value": value, "from": self.name}

    def divide(self, ctxt, by):
        return 1 // by

    @oslo_messaging.expected_exceptions(KeyError)
    def expected(self, ctxt):
        return {}["no such key"]

    def tell(self, ctxt, text):
        report(f"{self.name} {text}")

    def hold(self, ctxt):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(os.environ["HOLD_SOCKET"])
            line.recv(1)
        return self.name


def main():
    url, name, *quorum = sys.argv[1:]
    logging.basicConfig(level=logging.INFO)
    cfg.CONF([], project="tests", default_config_files=[], default_config_dirs=[])
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    topic = "quorum" if quorum else "tests"
    server = oslo_messaging.get_rpc_server(
        transport(url, quorum=bool(quorum), exchange=topic),
        oslo_messaging.Target(topic=topic, server=name), [Endpoint(name)], executor="threading")
    server.start()
    report(f"{name} ready")
    ended.wait()
    server.stop()
    server.wait()


if __name__ == "__main__":
    main()
